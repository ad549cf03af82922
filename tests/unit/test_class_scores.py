"""Multi-class AUC from pair wins, against scikit-learn and counting by hand."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import label_binarize

from streameval.errors import InputError, StateError
from streameval.states.backend import backend
from streameval.states.class_scores import ClassScores
from tests.support.class_batch import class_batch


def close(left: Any, right: Any) -> None:
    assert left == pytest.approx(right, rel=1e-12, abs=1e-12)


def by_hand(true: Any, matrix: Any, c: int, j: int, weight: Any) -> int:
    wins = 0
    for (y, row, w), (z, other, v) in itertools.product(
        zip(true, matrix, weight, strict=True), repeat=2
    ):
        if y == c and z == j:
            wins += w * v * (2 * (row[c] > other[c]) + (row[c] == other[c]))
    return wins


def pair_auc(scores: ClassScores, c: Any, j: Any) -> float:
    return scores.pair_wins(c, j) / (2 * scores.true_count(c) * scores.true_count(j))


def assert_sklearn(scores: ClassScores, true: Any, matrix: Any, weight: Any) -> None:
    labels = sorted(set(true))
    n = scores.total
    rest = {
        c: scores.one_vs_rest_wins(c) / (2 * scores.true_count(c) * (n - scores.true_count(c)))
        for c in labels
    }
    shares = np.array([scores.true_count(c) for c in labels]) / n
    if len(labels) == matrix.shape[1] and len(labels) > 2:
        for average, value in (
            ("macro", np.mean(list(rest.values()))),
            ("weighted", shares @ list(rest.values())),
        ):
            expected = roc_auc_score(
                true, matrix, multi_class="ovr", average=average, sample_weight=weight
            )
            close(value, expected)
        if weight is None:
            pairs = list(itertools.combinations(labels, 2))
            values = [(pair_auc(scores, a, b) + pair_auc(scores, b, a)) / 2 for a, b in pairs]
            shares_of = [scores.true_count(a) + scores.true_count(b) for a, b in pairs]
            for average, by in (("macro", None), ("weighted", shares_of)):
                expected = roc_auc_score(true, matrix, multi_class="ovo", average=average)
                close(np.average(values, weights=by), expected)
    groups = scores.pooled()
    below = np.concatenate(([0], np.cumsum(groups.negatives)[:-1]))
    wins = (groups.positives * (2 * below + groups.negatives)).sum()
    flat = label_binarize(true, classes=list(range(matrix.shape[1])))
    if matrix.shape[1] == 2:
        flat = np.hstack([1 - flat, flat])
    used = matrix.any(axis=0) | flat.any(axis=0)  # a label that never occurs is none
    rows = None if weight is None else np.repeat(weight, used.sum())
    close(
        wins / (2 * groups.positives.sum() * groups.negatives.sum()),
        roc_auc_score(flat[:, used].ravel(), matrix[:, used].ravel(), sample_weight=rows),
    )


def matrices(size: int) -> st.SearchStrategy[np.ndarray]:
    row = st.lists(st.sampled_from([0, 0, 1, 1, 2, 3]), min_size=size, max_size=size)
    rows = st.lists(row.filter(any), min_size=2, max_size=14)
    return rows.map(lambda rows: np.array([np.array(row) / sum(row) for row in rows]))


@given(st.integers(3, 4).flatmap(matrices), st.data())
@settings(max_examples=60)
def test_areas_are_scikit_learns_with_ties_and_zeros(
    matrix: np.ndarray, data: st.DataObject
) -> None:
    n, size = matrix.shape
    true = data.draw(st.lists(st.integers(0, size - 1), min_size=n, max_size=n))
    true[:2] = [0, 1]
    whole = data.draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))
    for weight in (None, whole, [by / 2 for by in whole]):
        scores = ClassScores()
        scores.update_many(class_batch(true, matrix, range(size), weight))
        assert_sklearn(scores, true, matrix, weight)
        scores._check()
        ones = [1] * n if weight is None else weight
        for c, j in itertools.permutations(range(size), 2):
            close(scores.pair_wins(c, j), by_hand(true, matrix, c, j, ones))


@pytest.mark.parametrize("size", [3, 7])
def test_areas_are_scikit_learns_over_many_events(size: int) -> None:
    rng = np.random.default_rng(12)
    true = rng.integers(0, size, 5000)
    logits = rng.normal(size=(5000, size)) + np.eye(size)[true]
    matrix = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    matrix[::5] = np.eye(size)[rng.integers(0, size, 1000)]
    for weight in (None, rng.integers(1, 1000, 5000)):
        scores = ClassScores()
        scores.update_many(class_batch(true, matrix, range(size), weight))
        assert_sklearn(scores, true, matrix, weight)


def test_wins_kept_current_are_those_derived_anew() -> None:
    rng = np.random.default_rng(13)
    kept, events = ClassScores(), []
    for n in range(1500):
        named = rng.permutation(5)[: rng.integers(1, 6)].tolist()
        parts = rng.integers(0, 4, len(named)) + 1
        event = (
            int(rng.integers(0, 5)),
            dict(zip(named, (parts / parts.sum()).tolist(), strict=True)),
            int(rng.choice([1, 1, 1, 6])),
        )
        if events and rng.random() < 0.3:
            kept.revert(*events.pop(int(rng.integers(len(events)))))
        else:
            kept.update(*event)
            events.append(event)
        if n % 300 < 200:  # then a stretch long enough to stop keeping current
            kept.pair_wins(*rng.permutation(5)[:2].tolist())
        if n % 100 == 0:
            kept._check()
    fresh = ClassScores()
    for event in events:
        fresh.update(*event)
    assert fresh == kept
    for c, j in itertools.permutations(range(5), 2):
        assert fresh.pair_wins(c, j) == kept.pair_wins(c, j)


def test_wins_are_exact_integers_beyond_64_bits() -> None:
    scores = ClassScores()
    big = 2**53
    scores.update("a", {"a": 0.75, "b": 0.25}, big)
    scores.update("b", {"a": 0.25, "b": 0.75}, big - 1)
    assert scores.pair_wins("a", "b") == 2 * big * (big - 1)
    scores.update("a", {"b": 1.0}, 3)
    assert scores.pair_wins("b", "a") == (2 * big) * (big - 1)
    scores._check()


def test_labels_come_and_go() -> None:
    scores = ClassScores()
    scores.update("b", {"a": 0.5, "b": 0.5, "zero": 0.0})
    assert scores.labels == ["a", "b"]
    assert (scores.true_count("a"), scores.true_count("b")) == (0, 1)
    scores.update("c", {"c": 1.0})
    assert scores.labels == ["a", "b", "c"]
    # Column c gave 0 to the first event: c's event wins there.
    assert scores.pair_wins("c", "b") == 2
    assert scores.pair_wins("b", "c") == 2
    assert scores.pair_wins("a", "b") == scores.pair_wins("nobody", "b") == 0
    scores.revert("b", {"b": 0.5, "a": 0.5})
    assert scores.labels == ["c"]
    assert scores.pair_wins("c", "b") == 0
    scores._check()


def test_the_order_of_columns_and_columns_of_zeros_leave_no_trace() -> None:
    rng = np.random.default_rng(14)
    matrix = rng.dirichlet(np.ones(3), 50)
    true = rng.integers(0, 3, 50)
    plain, turned = ClassScores(), ClassScores()
    plain.update_many(class_batch(true, matrix, [0, 1, 2]))
    turned.update_many(
        class_batch(true, np.hstack([np.zeros((50, 1)), matrix[:, ::-1]]), [9, 2, 1, 0])
    )
    single = ClassScores()
    for y_true, row in zip(true.tolist(), matrix.tolist(), strict=True):
        single.update(y_true, dict(enumerate(row)))
    assert plain == turned == single
    assert turned.labels == [0, 1, 2]


def test_fractions_make_floats_and_end_revert() -> None:
    scores = ClassScores()
    scores.update("a", {"a": 0.75, "b": 0.25})
    assert scores.pair_wins("a", "b") == 0
    scores.update("b", {"a": 0.5, "b": 0.5}, 0.5)
    scores.update("b", {"a": 1.0}, 0.1)
    assert not scores.exact
    assert scores.pair_wins("a", "b") == pytest.approx(1.0)
    assert type(scores.total) is float
    assert type(scores.one_vs_rest_wins("a")) is float
    scores._check()
    with pytest.raises(InputError, match="float sums cannot be undone exactly"):
        scores.revert("a", {"a": 0.75, "b": 0.25})


def test_float_wins_are_those_of_all_events_at_every_read() -> None:
    kept, events = ClassScores(), []
    rng = np.random.default_rng(16)
    for weight in (0.5, 1, 0.25, 2.5, 3, 0.5, 1):
        p = float(rng.choice([0.25, 0.5, 0.75]))
        events.append((str(rng.choice(["a", "b"])), {"a": p, "b": 1 - p}, weight))
        kept.update(*events[-1])
        fresh = ClassScores()
        for event in events:
            fresh.update(*event)
        for pair in ("ab", "ba"):
            assert kept.pair_wins(*pair) == fresh.pair_wins(*pair)


def test_an_event_takes_its_zeros_with_it() -> None:
    scores = ClassScores()
    scores.update("a", {"a": 0.5, "d": 0.5})
    scores.update("a", {"b": 0.5, "d": 0.5})
    # Each score was seen, but no event of class a gave column d 0.
    with pytest.raises(InputError, match="proba: expected an event that was counted before"):
        scores.revert("a", {"a": 0.5, "b": 0.5})


def test_rounded_float_weights_leave_no_ghost_zeros() -> None:
    rng = np.random.default_rng(15)
    weight = rng.random(500)
    scores = ClassScores()
    scores.update_many(
        class_batch(["a"] * 500, np.tile([0.25, 0.75], (500, 1)), ["a", "b"], weight)
    )
    for by in rng.random(500):
        scores.update("a", {"a": 0.5, "b": 0.5}, by)
    assert scores.pooled().scores.tolist() == [0.25, 0.5, 0.75]


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
    for bad in (-0.0, -0.5, 1.5):
        with pytest.raises(StateError, match="a score in"):
            ClassScores.from_state({**form, "scores": np.where(held, form["scores"], bad)})
    whole = ClassScores()
    whole.update("a", {"a": 1.0})
    with pytest.raises(StateError, match=r"class_scores.scores\[0\]: expected a score in"):
        ClassScores.from_state({**whole.to_state(), "scores": np.zeros(1)})
    whole.update("a", {"a": 1.0}, 0.5)
    with pytest.raises(StateError, match=r"class_scores.lengths\[0\]: expected a score but 0"):
        ClassScores.from_state({**whole.to_state(), "scores": np.zeros(1)})


@pytest.mark.parametrize(
    "event",
    [
        ("b", {"a": 0.75, "b": 0.25}),
        ("a", {"a": 0.75, "b": 0.25}, 2),
        ("a", {"a": 0.7, "b": 0.3}),
        ("a", {"a": 0.75, "c": 0.25}),
        ("a", {"a": 1.0}),
        ("z", {"z": 1.0}),
        (1, {1: 1.0}),
    ],
)
def test_what_never_came_is_not_reverted(event: tuple[Any, ...]) -> None:
    scores = ClassScores()
    scores.update("a", {"a": 0.75, "b": 0.25})
    scores.update("c", {"c": 1.0})
    scores.pair_wins("a", "c")
    before = scores.to_state()
    with pytest.raises(InputError, match="proba: expected an event that was counted before"):
        scores.revert(*event)
    assert scores == ClassScores.from_state(before)
    scores._check()


def test_labels_of_another_kind_are_refused() -> None:
    scores = ClassScores()
    scores.update("a", {"a": 0.75, "b": 0.25})
    with pytest.raises(InputError, match="y_true: expected a str like the label 'a'"):
        scores.check(1, {1: 1.0})


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


def test_states_of_other_kinds_do_not_merge() -> None:
    numbers, names = ClassScores(), ClassScores()
    numbers.update(1, {1: 1.0})
    names.update("1", {"1": 1.0})
    with pytest.raises(StateError, match="merge: y_true: expected a number like the label 1"):
        numbers.merge(names)
    with pytest.raises(StateError, match="expected ClassScores, got None"):
        numbers.merge(None)  # type: ignore[arg-type]
    assert numbers.labels == [1]


def test_merging_with_itself_doubles() -> None:
    scores, twice = ClassScores(), ClassScores()
    for state in (scores, twice, twice):
        state.update("a", {"a": 0.75, "b": 0.25})
        state.update("b", {"a": 0.25, "b": 0.75})
    scores.merge(scores)
    assert scores == twice
    assert scores.pair_wins("a", "b") == 8


def test_memory_grows_with_the_scores_and_not_with_the_pairs_of_classes() -> None:
    rng = np.random.default_rng(17)
    matrix = rng.dirichlet(np.ones(300), 600)
    batch = class_batch(rng.integers(0, 300, 600), matrix, range(300))
    scores = ClassScores()
    tracemalloc.start()
    try:
        scores.update_many(batch)
        wins = [scores.one_vs_rest_wins(label) for label in scores.labels]
        # Without compiled code each score is a Python float in a list.
        factor = 4 if backend() == "native" else 8
        assert tracemalloc.get_traced_memory()[1] < factor * matrix.nbytes
        form = scores.to_state()
        assert tracemalloc.get_traced_memory()[1] < 16 * matrix.nbytes
    finally:
        tracemalloc.stop()
    assert ClassScores.from_state(form) == scores
    assert [ClassScores.from_state(form).one_vs_rest_wins(c) for c in range(3)] == wins[:3]


def test_a_window_of_labels_that_come_and_go_keeps_only_those_that_occur() -> None:
    scores = ClassScores()
    for n in range(200):
        scores.update(n, {n: 0.5, n + 1: 0.5})
        if n >= 3:
            scores.revert(n - 3, {n - 3: 0.5, n - 2: 0.5})
        if n % 7 == 0:
            assert scores.labels == list(range(max(0, n - 2), n + 2))
            # The newest event ties with the one before it, and wins over the other.
            assert scores.one_vs_rest_wins(n) == (3 if n else 0)
    scores._check()


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": ["b", "a", "c"]}, r"labels\[1\]: expected a label after 'b', got 'a'"),
        ({"labels": ["a", "b", 1]}, r"labels: expected labels that are all str or all int"),
        ({"labels": ["a", "b"]}, r"counts: expected a list of 2 values, got 3 values"),
        ({"counts": [1, 1, 1]}, r"weights\[0:1\]: expected a sum of at most 1"),
        ({"counts": [2, 1, 2**62]}, r"counts: expected a sum of at most"),
        ({"columns": ints(0, 0, 5)}, r"columns\[2\]: expected an index into 3 labels, got 5"),
        ({"columns": ints(0, 1, 0)}, r"columns\[2\]: expected ascending"),
        ({"columns": ints(0, 1)}, r"columns: expected columns, true and lengths of one length"),
        ({"columns": [0, 1, 1]}, r"columns: expected a one-dimensional int64 array, got list"),
        ({"lengths": ints(1, 1, 2)}, r"lengths: expected lengths above 0 that add up to 3"),
        ({"lengths": ints(2**62, 2**62, 3)}, r"lengths: expected lengths above 0 that add up"),
        ({"scores": np.array([0.5, 0.0, 1.0])}, r"scores\[1\]: expected a score in \(0, 1\]"),
        ({"scores": np.array([0.5, np.nan, 1])}, r"scores\[1\]: expected a score in \(0, 1\]"),
        ({"weights": ints(1, 1)}, r"weights: expected 3 weights, got 2"),
        ({"weights": ints(1, 0, 1)}, r"weights\[1\]: expected a weight above 0, got 0"),
        ({"weights": np.ones(3)}, r"weights: expected a one-dimensional int64 array, got float"),
        ({"counts": [2, 1, 0]}, r"labels\[2\]: expected a label that occurs, got 'c'"),
    ],
)
def test_damaged_states_are_refused_with_the_field(change: dict[str, Any], message: str) -> None:
    scores = ClassScores()
    scores.update("a", {"a": 0.5, "b": 0.5}, 2)
    scores.update("b", {"b": 1.0})
    scores.update("c", {"b": 1.0})
    data = scores.to_state()
    data.update(
        columns=ints(0, 1, 1), true=ints(0, 0, 1), lengths=ints(1, 1, 1),
        scores=np.array([0.5, 0.5, 1.0]), weights=ints(2, 2, 1),
    )  # fmt: skip
    assert ClassScores.from_state(data).labels == ["a", "b", "c"]
    with pytest.raises(StateError, match=r"class_scores\." + message):
        ClassScores.from_state({**data, **change})


def test_scores_of_one_multiset_must_ascend() -> None:
    scores = ClassScores()
    scores.update("a", {"a": 0.25, "b": 0.75})
    scores.update("a", {"a": 0.5, "b": 0.5})
    data = scores.to_state()
    data["scores"] = data["scores"][::-1].copy()
    with pytest.raises(StateError, match=r"scores\[1\]: expected ascending scores, none twice"):
        ClassScores.from_state(data)
