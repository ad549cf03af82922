"""What ``Evaluator(intervals=True)`` keeps, and that nothing is kept without it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import streameval as se
from streameval.errors import StateError
from streameval.states.state_set import StateSet


def current(evaluator: se.Evaluator) -> StateSet:
    return evaluator._windows.total.current()


def kish(weights: list[Any]) -> float:
    exact = [Fraction(weight) for weight in weights]
    return float(sum(exact) ** 2 / sum(weight * weight for weight in exact))


def fed(weights: list[Any], **options: Any) -> se.Evaluator:
    evaluator = se.Evaluator(**options)
    for n, weight in enumerate(weights):
        evaluator.update(n % 2 == 0, score=n / len(weights), weight=weight)
    return evaluator


FRACTIONS = [1, 0.5, 2, 3.75, 0.1, 7, 0.3]


@pytest.mark.parametrize("weights", [FRACTIONS, FRACTIONS[::-1], [1, 2, 5]], ids=repr)
def test_weights_have_the_effective_size_of_kish(weights: list[Any]) -> None:
    one = fed(weights, intervals=True)
    many = se.Evaluator(intervals=True)
    scores = [n / len(weights) for n in range(len(weights))]
    many.update_many([n % 2 == 0 for n in range(len(weights))], score=scores, weight=weights)
    counts = all(type(weight) is int for weight in weights)
    shards = [fed(part, intervals=True) for part in (weights[:2], weights[2:])]
    every = (one, many, se.from_bytes(one.to_bytes()), se.merge(shards), *[fed(weights)] * counts)
    for evaluator in every:
        for state in ("confusion", "index", "probability", "moments"):
            expected = sum(weights) if counts else kish(weights)
            assert current(evaluator).effective_size(state) == expected


def test_states_are_kept_on_request_only() -> None:
    kept = se.Evaluator(intervals=True)
    assert se.Evaluator().plan.keeps == {"confusion", "index"}
    assert kept.plan.keeps == {"confusion", "index", "label_weights", "score_weights"}
    with pytest.raises(StateError, match="intervals is True here and None there"):
        kept.merge(se.Evaluator())
    data = kept.to_state()
    data["options"]["intervals"] = False
    with pytest.raises(StateError, match=r"options.intervals: expected True or no such key"):
        se.Evaluator.from_state(data)


def test_a_report_has_the_intervals_of_parameters_that_are_labels() -> None:
    ev = se.Evaluator(positive="spam")
    ev.update_many(["spam", "ham", "ham", "spam"] * 10, ["spam", "ham", "spam", "spam"] * 10)
    given = {"labels": ["spam", "ham"]}
    (row,) = ev.report([("cohen_kappa", given)], intervals=0.95).rows
    assert row.metric == "cohen_kappa:labels=['spam', 'ham']"
    assert row.interval == ev.interval("cohen_kappa", **given)
    assert row.value == row.interval.value == 0.5
