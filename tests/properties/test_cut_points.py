"""Cut-points against a search of every threshold by the definition."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import MetricError
from streameval.metrics.cut_points import (
    CUT_POINTS,
    CutPoint,
    cost_cut,
    f1_cut,
    fbeta_cut,
    fpr_cut,
    mcc_cut,
    precision_cut,
    youden_cut,
)
from streameval.metrics.undefined import Undefined
from streameval.states.score_index import ScoreIndex
from tests.properties.test_metrics_ranking import BOTH_CLASSES, Event, counts_falling, index_of

Counts = tuple[int, int, int, int]

FOUR = [(False, 0.1, 1), (False, 0.4, 1), (True, 0.35, 1), (True, 0.8, 1)]


def candidates(events: list[Event]) -> list[tuple[float, Counts]]:
    rows = counts_falling(events)
    _, positives, negatives = rows[-1]
    return [(at, (tp, fp, positives - tp, negatives - fp)) for at, tp, fp in rows]


def best(events: list[Event], merit: Callable[[Counts], Fraction | None]) -> tuple[Any, ...]:
    """The first, so the highest, threshold of the largest merit; None has no part."""
    found: tuple[Any, ...] | None = None
    for threshold, counts in candidates(events):
        value = merit(counts)
        if value is not None and (found is None or value > found[-1]):
            found = (threshold, *counts, value)
    assert found is not None
    return found


def youden(tp: int, fp: int, fn: int, tn: int) -> Fraction:
    return Fraction(tp, tp + fn) - Fraction(fp, fp + tn)


def f_score(tp: int, fp: int, fn: int, tn: int, beta: float = 1) -> Fraction:
    square = Fraction(beta) ** 2
    return (1 + square) * tp / ((1 + square) * tp + square * fn + fp)


def saved(tp: int, fp: int, fn: int, tn: int, c_fp: int, c_fn: int) -> Fraction:
    """The mean cost, negative: of costs the least is best."""
    return -Fraction(c_fp * fp + c_fn * fn, tp + fp + fn + tn)


def recall_with_precision(tp: int, fp: int, fn: int, tn: int, precision: float) -> Fraction | None:
    return Fraction(tp, tp + fn) if tp + fp and tp / (tp + fp) >= precision else None


def recall_with_fpr(tp: int, fp: int, fn: int, tn: int, fpr: float) -> Fraction | None:
    return Fraction(tp, tp + fn) if fp / (fp + tn) <= fpr else None


MERITS: dict[Any, tuple[Callable[..., Fraction | None], dict[str, list[float]]]] = {
    youden_cut: (youden, {}),
    f1_cut: (f_score, {}),
    fbeta_cut: (f_score, {"beta": [1, 2, 0.5, 3]}),
    cost_cut: (saved, {"c_fp": [0, 1, 2, 5], "c_fn": [0, 1, 3]}),
    precision_cut: (recall_with_precision, {"precision": [0.0, 0.25, 0.5, 0.6, 0.75, 1.0]}),
    fpr_cut: (recall_with_fpr, {"fpr": [0.0, 0.1, 0.25, 0.3, 0.5, 1.0]}),
}


@pytest.mark.parametrize("rule", MERITS, ids=lambda rule: rule.__name__)
@settings(max_examples=60)
@given(events=BOTH_CLASSES, data=st.data())
def test_the_cut_is_the_highest_of_the_largest_merit(
    rule: Any, events: list[Event], data: st.DataObject
) -> None:
    merit, choices = MERITS[rule]
    options = {name: data.draw(st.sampled_from(values)) for name, values in choices.items()}
    cut = rule(index_of(events), **options)
    rows = candidates(events)
    if all(merit(*counts, **options) is None for _, counts in rows):
        highest = max(tp / (tp + fp) for _, (tp, fp, *_) in rows[1:])
        least = options["precision"]
        assert cut.reason == (
            f"no threshold has a precision of {least} or more; the highest is {highest}"
        )
    else:
        *where, value = best(events, lambda counts: merit(*counts, **options))
        assert cut == (*where, float(-value if rule is cost_cut else value))


@settings(max_examples=60)
@given(BOTH_CLASSES.filter(lambda events: len({score for _, score, _ in events}) > 1))
def test_mcc(events: list[Event]) -> None:
    def merit(counts: Counts) -> Fraction | None:
        tp, fp, fn, tn = counts
        below = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
        lead = tp * tn - fp * fn
        # The sign of MCC and its square: an order without roots.
        return Fraction(lead * abs(lead), below) if below else None

    square = best(events, merit)[-1]
    cut = mcc_cut(index_of(events))
    assert cut.value == pytest.approx(math.copysign(math.sqrt(abs(square)), square), abs=1e-14)
    near = [
        threshold
        for threshold, counts in candidates(events)
        if (value := merit(counts)) is not None and value == square
    ]
    assert cut.threshold in near
    y_true = [positive for positive, *_ in events]
    called = [score >= cut.threshold for _, score, _ in events]
    weight = [w for *_, w in events]
    expected = sk.matthews_corrcoef(y_true, called, sample_weight=weight)
    assert cut.value == pytest.approx(expected, abs=1e-12)


@settings(max_examples=25)
@given(BOTH_CLASSES)
def test_weights_and_options_of_any_size_find_the_same_cut(events: list[Event]) -> None:
    def times(factor: float) -> ScoreIndex:
        return index_of([(positive, score, w * factor) for positive, score, w in events])  # type: ignore[misc]

    index, large, huge, quarters = (times(factor) for factor in (1, 2**40, 2**51, 0.25))
    for name, rule in CUT_POINTS.items():
        cut, same = rule(huge), rule(index)
        if same.reason:
            assert cut.reason == same.reason
            continue
        assert (cut.threshold, cut.value) == (same.threshold, same.value), name
        assert cut[1:5] == tuple(count * 2**51 for count in same[1:5])
    for c_fp, c_fn in ((10**12, 1), (1, 10**12), (10**12, 10**12)):
        cut, same = (cost_cut(each, c_fp=c_fp, c_fn=c_fn) for each in (large, index))
        assert (cut.threshold, cut.value) == (same.threshold, same.value)
    assert fbeta_cut(large, 10**6).value == fbeta_cut(index, 10**6).value
    assert fbeta_cut(large, 10**20).value == pytest.approx(1)
    for rule in (youden_cut, f1_cut, mcc_cut, cost_cut):
        assert rule(quarters).value == pytest.approx(rule(index).value, abs=1e-9, nan_ok=True)


def test_nothing_is_called_positive_where_that_is_cheapest() -> None:
    cut = cost_cut(index_of([(False, 0.9, 5), (True, 0.1, 1)]))
    assert cut == (math.inf, 0, 0, 1, 5, 1 / 6)
    assert cut.to_dict()["threshold"] is None
    assert cut.to_dict()["reason"] is None


@pytest.mark.parametrize("name", sorted(CUT_POINTS))
def test_counts_are_plain_numbers(name: str) -> None:
    cut = CUT_POINTS[name](index_of(FOUR))
    assert isinstance(cut, CutPoint)
    assert [type(value) for value in cut] == [float, int, int, int, int, float]
    assert cut.tp + cut.fp + cut.fn + cut.tn == 4
    assert cut.reason == ""


@pytest.mark.parametrize("name", sorted(CUT_POINTS))
@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], "no event has been counted yet"),
        ([(True, 0.5, 1)], "no negative event has been seen"),
        ([(False, 0.5, 1)], "no positive event has been seen"),
    ],
)
def test_a_missing_class_is_a_reason(name: str, events: list[Event], reason: str) -> None:
    cut = CUT_POINTS[name](index_of(events))
    needs_negatives = name in {"youden", "closest_top_left", "mcc", "fpr_at_most"}
    if not events or (name != "cost" and (needs_negatives or not events[0][0])):
        assert cut.reason == reason
        assert all(isinstance(value, Undefined) for value in cut)
        record = cut.to_dict()
        assert json.loads(json.dumps(record, allow_nan=False)) == record
        assert set(record.values()) == {None, reason}
    else:
        assert cut.reason == ""


def test_equal_scores_have_no_mcc() -> None:
    cut = mcc_cut(index_of([(True, 0.5, 1), (False, 0.5, 1)]))
    assert cut.reason == "all scores are equal, so no threshold separates any events"


@pytest.mark.parametrize(
    ("rule", "option", "expected"),
    [
        (fbeta_cut, {"beta": -1}, "beta: expected a number from 0 to 1e100, or infinity, got -1"),
        (fbeta_cut, {"beta": -math.inf}, "beta: expected a number from 0"),
        (cost_cut, {"c_fp": -1}, "c_fp: expected a number of at least 0, got -1"),
        (cost_cut, {"c_fn": math.nan}, "c_fn: expected a number of at least 0, got nan"),
        (precision_cut, {"precision": 1.5}, "precision: expected a number from 0 to 1, got 1.5"),
        (fpr_cut, {"fpr": "low"}, "fpr: expected a number from 0 to 1, got 'low'"),
    ],
)
def test_options_are_checked(rule: Any, option: dict[str, Any], expected: str) -> None:
    with pytest.raises(MetricError, match=expected):
        rule(index_of(FOUR), **option)
