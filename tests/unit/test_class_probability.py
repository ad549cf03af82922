"""States of the probabilities and scores of several classes: sums, ranks, reliability, pairs."""

from __future__ import annotations

import math
import tracemalloc
from bisect import bisect_left
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError, StateError
from streameval.events.values import check_probabilities, check_probability_rows
from streameval.states.backend import backend
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from streameval.states.sums.fixed_point import UNIT
from tests.support.class_batch import class_batch


def one_by_one(true: Any, matrix: Any, labels: Any, weight: Any = None) -> ClassProbabilitySums:
    sums = ClassProbabilitySums()
    weights = [1] * len(true) if weight is None else weight
    for y_true, row, by in zip(true, matrix, weights, strict=True):
        sums.update(y_true, dict(zip(labels, row, strict=True)), by)
    sums._check()
    return sums


def test_among_equal_probabilities_the_later_label_is_first() -> None:
    sums = ClassProbabilitySums()
    sums.update("a", {"b": 0.25, "a": 0.25, "c": 0.5})
    sums.update("b", {"b": 0.25, "a": 0.25, "c": 0.5})
    sums.update(9, {9: 0.5, 10: 0.5})  # as numbers: 10 is after 9
    sums.update("é", {"z": 0.5, "é": 0.5})  # by code point
    assert sums.ranks == {0: 1, 1: 2, 2: 1}


def test_more_classes_than_a_chunk_has_cells() -> None:
    matrix = np.random.default_rng(9).dirichlet(np.full(20_000, 0.5), 3)
    labels, weight = range(20_000), [1, 2, 2**53]
    sums = ClassProbabilitySums()
    sums.update_many(class_batch([0, 1, 2], matrix, labels, weight))
    assert sums == one_by_one([0, 1, 2], matrix.tolist(), labels, weight)


CLASSES = ("ant", "bee", "cow", "elk")

ROWS = st.tuples(
    st.sampled_from(CLASSES),
    st.sampled_from([*CLASSES, None]),
    # Quarters, so that ties are common.
    st.sampled_from(
        [(1, 1, 1, 1), (2, 2, 0, 0), (0, 2, 2, 0), (2, 0, 0, 2), (4, 0, 0, 0), (1, 3, 0, 0)]
    ),
    st.integers(1, 3),
)


@given(st.lists(ROWS, min_size=1, max_size=12), st.permutations(CLASSES), st.booleans())
def test_calibration_is_about_the_predicted_label_on_every_path(rows, order, named):
    """Against confidence and hit of each event's predicted label."""
    single, many = (se.Evaluator("multiclass", bins=4) for _ in range(2))
    true, guesses, weights = [row[0] for row in rows], [], [row[3] for row in rows]
    table: dict[str, list[float]] = {label: [] for label in order}
    of_bins = [0] * 4, [0] * 4, [0] * 4
    for y_true, y_pred, quarters, weight in rows:
        proba = {label: n / 4 for label, n in zip(CLASSES, quarters, strict=True)}
        for label, share in proba.items():
            table[label].append(share)
        some = {label: share for label, share in proba.items() if share}
        single.update(y_true, y_pred if named else None, proba=some, weight=weight)
        first = min(label for label in proba if proba[label] == max(proba.values()))
        guesses.append((named and y_pred) or first)
        at = bisect_left([0.25, 0.5, 0.75], proba[guesses[-1]])
        of_bins[0][at] += weight
        of_bins[1][at] += weight * (guesses[-1] == y_true)
        of_bins[2][at] += weight * int(proba[guesses[-1]] * UNIT)
    many.update_many(true, guesses if named else None, proba=table, weight=weights)
    for evaluator in (single, many):
        sums = evaluator.total._window.current().class_probability
        assert (sums.bin_weights, sums.bin_correct, sums.bin_probability_units) == of_bins
    assert single["accuracy"] == many["accuracy"]


@pytest.mark.parametrize(
    ("y_true", "proba", "message"),
    [
        (["a"], [[1.5, -0.5]], r"proba\['a'\]\[0\]: expected a probability"),
        (["a"], [[0.5, math.nan]], r"proba\[0\]: expected a finite"),
        (["a", "b"], [[0.5, 0.5], [0.5]], "proba: expected 2 rows .*got rows of different length"),
        (["a", "b"], [[0.5]] * 2, r"proba: expected 2 rows .*got shape \(2, 1\)"),
        (["a", "b"], "xx", "proba: expected 2 rows"),
    ],
)
def test_bad_probabilities_are_refused_whole(y_true: Any, proba: Any, message: str) -> None:
    """Beside those of the frozen texts."""
    evaluator = se.Evaluator("multiclass", labels=["a", "b"])
    before = evaluator.to_bytes()
    with pytest.raises(InputError, match=message):
        evaluator.update_many(y_true, proba=proba)
    assert evaluator.to_bytes() == before


def test_names_of_probabilities_are_labels_of_one_kind() -> None:
    assert check_probabilities({"a": 1, "b": 0}) == {"a": 1.0, "b": 0.0}
    with pytest.raises(InputError, match="proba: expected a str like the label 'a', got 1"):
        check_probabilities({"a": 0.5, 1: 0.5})
    with pytest.raises(InputError, match="proba: expected a str, int or bool label, got None"):
        check_probabilities({None: 1.0})


def accepts(check: Any, *given: Any) -> bool:
    with suppress(InputError):
        check(*given)
        return True
    return False


def test_sums_at_the_tolerance_are_judged_alike_one_by_one_and_in_matrices() -> None:
    rng = np.random.default_rng(11)
    for total in (1.001, 0.999):
        for _ in range(200):
            row = rng.dirichlet(np.ones(9)) * total
            row[0] += (total - math.fsum(row)) * rng.integers(0, 3)
            alone = accepts(check_probabilities, dict(enumerate(row.tolist())))
            assert accepts(check_probability_rows, range(9), row[None]) == alone


def test_zeros_of_fractional_weights_are_a_sum_and_older_forms_are_read() -> None:
    scores = ClassScores()
    scores.update("a", {"a": 0.5, "b": 0.5}, 1e12 + 0.5)
    scores.update("a", {"a": 1.0}, 0.25)
    scores.update("a", {"c": 1.0}, 2)
    # 0.25 is no more than the rounding of the sum that it is a part of.
    values, weights = scores.column_scores("b", "a")
    assert (values.tolist(), weights.tolist()) == ([0.0, 0.5], [2.25, 1e12 + 0.5])
    form = scores.to_state()
    assert ClassScores.from_state(form) == scores
    # Before, a form had no zeros: they are what the class weighs more, where that is not rounding.
    starts = np.append(0, np.cumsum(form["lengths"]))
    held = form["scores"] != 0.0
    older = {name: form[name][held] for name in ("scores", "weights")}
    older = form | older | {"lengths": np.diff(np.append(0, np.cumsum(held))[starts])}
    read = ClassScores.from_state(older)
    read._check()
    assert read.column_scores("c", "a")[0].tolist() == [0.0, 1.0]
    assert read.column_scores("b", "a")[0].tolist() == [0.5]
    whole = ClassScores()
    whole.update("a", {"a": 1.0})
    only = whole.to_state()
    whole.update("a", {"a": 1.0}, 0.5)
    for damaged, message in (
        ({**form, "scores": np.where(held, form["scores"], -0.0)}, "a score in"),
        ({**form, "scores": np.where(held, form["scores"], 1.5)}, "a score in"),
        ({**form, "scores": form["scores"][::-1]}, r"scores\[1\]: expected ascending scores"),
        ({**only, "scores": np.zeros(1)}, r"class_scores.scores\[0\]: expected a score in"),
        ({**whole.to_state(), "scores": np.zeros(1)}, r"class_scores.lengths\[0\]: .* score but 0"),
    ):
        with pytest.raises(StateError, match=message):
            ClassScores.from_state(damaged)


def test_too_many_classes_or_too_much_weight_is_refused_whole(monkeypatch):
    monkeypatch.setattr("streameval.states.class_scores.MAX_CLASSES", 3)
    monkeypatch.setattr("streameval.states.class_scores.MAX_TOTAL", 100)
    scores = ClassScores()
    scores.update(1, {1: 0.5, 2: 0.5}, 40)
    before = scores.copy()
    with pytest.raises(InputError, match="at most 3 classes in all, got 4 beside 3 others"):
        scores.check(1, {1: 0.5, 3: 0.25, 4: 0.25})
    with pytest.raises(InputError, match="add up to at most 50, got 11 beside 40 counted"):
        scores.check_many(class_batch([1, 2], [[1.0], [1.0]], [1], [5, 6]))
    with pytest.raises(InputError, match="add up to at most 33, got 1 beside 40 counted"):
        scores.check(3, {1: 1.0})
    other = before.copy()
    with pytest.raises(StateError, match="merge: weight: expected weights that add up"):
        scores.merge(other)
    assert scores == before == other


def test_memory_grows_with_the_scores_and_not_with_the_pairs_of_classes() -> None:
    rng = np.random.default_rng(17)
    matrix = rng.dirichlet(np.ones(300), 600)
    batch = class_batch(rng.integers(0, 300, 600), matrix, range(300))
    scores = ClassScores()
    tracemalloc.start()
    try:
        scores.update_many(batch)
        wins = [scores.one_vs_rest_wins(label) for label in range(3)]
        # Without compiled code each score is a Python float in a list.
        factor = 4 if backend() == "native" else 8
        assert tracemalloc.get_traced_memory()[1] < factor * matrix.nbytes
        form = scores.to_state()
        assert tracemalloc.get_traced_memory()[1] < 16 * matrix.nbytes
    finally:
        tracemalloc.stop()
    read = ClassScores.from_state(form)
    assert read == scores
    assert [read.one_vs_rest_wins(c) for c in range(3)] == wins
