"""Multi-class AUC from pair wins, against scikit-learn and counting by hand."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from streameval.errors import InputError, StateError
from streameval.states.backend import backend
from streameval.states.class_scores import ClassScores
from tests.support.class_batch import class_batch


def test_zeros_of_fractional_weights_are_a_sum_and_older_forms_are_read() -> None:
    scores = ClassScores()
    scores.update("a", {"a": 0.5, "b": 0.5}, 1e12 + 0.5)
    scores.update("a", {"a": 1.0}, 0.25)
    scores.update("a", {"c": 1.0}, 2)
    # 0.25 is no more than the rounding of the sum that it is a part of.
    assert [side.tolist() for side in scores.column_scores("b", "a")] == [
        [0.0, 0.5],
        [2.25, 1e12 + 0.5],
    ]
    form = scores.to_state()
    assert ClassScores.from_state(form) == scores
    # Before, a form had no zeros: they are what the class weighs more, where that is not rounding.
    starts = np.append(0, np.cumsum(form["lengths"]))
    held = form["scores"] != 0.0
    older = {
        **form,
        "scores": form["scores"][held],
        "weights": form["weights"][held],
        "lengths": np.diff(np.append(0, np.cumsum(held))[starts]),
    }
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


def test_too_many_classes_or_too_much_weight_is_refused_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
