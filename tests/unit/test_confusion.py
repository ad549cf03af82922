"""ConfusionCounts against a literal oracle, and its errors."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import InputError, StateError
from streameval.events.values import MAX_CLASSES, LabelColumn
from streameval.states.confusion import BinaryCounts, ClassCounts, ConfusionCounts
from streameval.states.confusion_parts import pair_counts
from tests.support.confusion_kinds import KINDS, cells_of

EVENTS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from("abcd"),
        st.one_of(st.just(1), st.integers(1, 5), st.sampled_from([2**52, 2**53])),
    ),
    max_size=30,
)


def refused(message: str) -> Any:
    return pytest.raises(InputError, match=f"^{re.escape(message)}$")


def fed(events: list[tuple[Any, Any, Any]]) -> ConfusionCounts:
    counts = ConfusionCounts()
    for event in events:
        counts.update(*event)
    return counts


# Against the oracle


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(events=EVENTS, batch=st.booleans())
def test_every_reading_follows_from_the_list_of_events(
    kind: str, events: list[tuple[str, str, int]], batch: bool
) -> None:
    with cells_of(KINDS[kind]):
        if batch:
            counts = ConfusionCounts()
            counts.update_many(*([event[n] for event in events] for n in range(3)))
        else:
            counts = fed(events)
    cells: Counter[tuple[str, str]] = Counter()
    for i, j, weight in events:
        cells[i, j] += weight
    labels = sorted({label for cell in cells for label in cell})
    array = [[cells[i, j] for j in labels] for i in labels]
    true, predicted = [*map(sum, array)], [*map(sum, zip(*array, strict=True))]
    correct = [cells[k, k] for k in labels]
    total = sum(true)
    assert counts.labels == labels
    assert (counts.total, counts.correct) == (total, sum(correct))
    assert list(counts.cells()) == [(i, j, w) for (i, j), w in sorted(cells.items())]
    assert counts.to_array().tolist() == array
    assert counts.per_class() == ClassCounts(labels, correct, true, predicted)
    for k, c, t, p in zip(labels, correct, true, predicted, strict=True):
        assert (counts.cell(k, k), counts.true_count(k), counts.predicted_count(k)) == (c, t, p)
        assert counts.binary(k) == BinaryCounts(c, p - c, t - c, total - t - p + c)

    def scaled(numerators: list[int], denominators: list[int]) -> int:
        ratios = zip(numerators, denominators, strict=True)
        return sum(int(Fraction(n, d) * 2**64) for n, d in ratios if d)

    sums, both = counts.sums, [t + p for t, p in zip(true, predicted, strict=True)]
    occurring = len(labels), sum(t > 0 for t in true), sum(p > 0 for p in predicted)
    assert (sums.active, sums.with_true, sums.with_predicted) == occurring
    assert sums.true_squared == sum(t * t for t in true)
    assert sums.predicted_squared == sum(p * p for p in predicted)
    assert sums.true_predicted == sum(t * p for t, p in zip(true, predicted, strict=True))
    assert sums.precision == scaled(correct, predicted)
    assert sums.recall == scaled(correct, true)
    assert sums.f1 == scaled([2 * c for c in correct], both)


def test_a_small_class_survives_beside_a_huge_one_in_floats() -> None:
    counts = fed([("big", "big", 2.0**53), ("big", "big", 0.5), ("small", "big", 1e-9)])
    assert counts.binary("big") == BinaryCounts(tp=2.0**53, fp=1e-9, fn=0.0, tn=0.0)


# Labels


def test_labels_that_python_holds_equal_are_one() -> None:
    spellings = [1, True, 1.0, np.int64(1), np.uint8(1), np.bool_(True), np.float32(1.0)]
    for first in spellings:
        counts = fed([(spelling, spelling, 1) for spelling in [first, *spellings]])
        assert (counts.labels, type(counts.labels[0])) == ([1], int)
    assert type(fed([(np.str_("a"), "a", 1)]).labels[0]) is str


def test_labels_are_sorted_by_number_or_code_point() -> None:
    assert fed([(10, 9, 1), (-1, 2**70, 1)]).labels == [-1, 9, 10, 2**70]
    words = fed([("b", "ä", 1), ("B", "a", 1), ("\U0001f600", "\uffff", 1)])
    assert words.labels == ["B", "a", "b", "ä", "\uffff", "\U0001f600"]


def test_a_label_without_events_is_forgotten_and_its_index_used_again() -> None:
    counts = ConfusionCounts()
    for n in range(100):
        counts.update(f"id {n}", "x")
        assert counts.sums.active == 2
        counts.revert(f"id {n}", "x")
        counts._check()
    assert counts == ConfusionCounts()
    assert len(counts._label_index.labels) == 2
    counts.update(1, 2)  # the kind is forgotten with the labels
    assert counts.labels == [1, 2]


def test_a_batch_brings_no_label_that_does_not_occur() -> None:
    counts = ConfusionCounts()
    counts.update_many(np.array([True, True]), np.array([True, True]))
    counts.update_many(np.zeros(0, dtype=bool), np.zeros(0, dtype=bool))
    counts.update_many([], [])
    assert counts.labels == [1]
    counts.update_many(LabelColumn([0, 1, 2, 3], np.array([2])), LabelColumn([1, 2], np.array([1])))
    assert counts.labels == [1, 2]


def test_a_str_beside_a_number_is_refused_at_its_position() -> None:
    counts = fed([("a", "a", 1)])
    for call, place in (
        (lambda: counts.update_many(np.array([True, True]), np.array([True, True])), "y_true[0]"),
        (lambda: counts.update_many([3, 3], [4, 3]), "y_true[0]"),
        (lambda: counts.add_cells([("a", "b", 1), ("b", 2, 1)]), "y_pred[1]"),
        (lambda: counts.update("new", 1), "y_pred"),
    ):
        message = f"^{re.escape(place)}: expected a str like the label 'a'"
        with pytest.raises(InputError, match=message):
            call()
    assert counts.labels == ["a"]


def test_a_closed_list_takes_no_other_label() -> None:
    counts = ConfusionCounts(["c", "a", "b"])
    counts.update("a", "b")
    assert counts.labels == ["c", "a", "b"]
    assert counts.sums.active == 2
    counts.revert("a", "b")
    assert counts.to_array().tolist() == [[0, 0, 0]] * 3
    wrong = "expected one of the 3 labels of the closed list, 'c', 'a', 'b', got 'd'"
    with refused(f"y_pred: {wrong}"):
        counts.update("a", "d")
    with refused(f"y_true[1]: {wrong}"):
        counts.update_many(["a", "d"], ["a", "a"])
    with pytest.raises(InputError, match=r"20 labels of the closed list, 0, 1, .*9, …, got 20$"):
        ConfusionCounts(range(20)).update(0, 20)
    with refused("labels[1]: expected each label once, got True again"):
        ConfusionCounts([1, True])
    with pytest.raises(StateError, match=r"^merge: the two confusions differ in their closed list"):
        counts.merge(ConfusionCounts(["a", "b"]))


def test_too_many_labels_are_refused_whole() -> None:
    counts, ids = ConfusionCounts(), np.arange(MAX_CLASSES)
    counts.update_many(ids, ids)
    message = (
        f"expected at most {MAX_CLASSES} distinct labels, got one more, {MAX_CLASSES}; "
        "the usual cause is a column of ids or of scores given as labels"
    )
    with refused(f"y_true: {message}"):
        counts.update(MAX_CLASSES, 0)
    with refused(f"y_pred[1]: {message}"):
        counts.update_many([5, 6], [7, MAX_CLASSES])
    with pytest.raises(StateError, match=f"^merge: y_true: expected at most {MAX_CLASSES}"):
        counts.merge(fed([(MAX_CLASSES, 0, 1)]))
    with pytest.raises(InputError, match=r"^labels: expected at most 10000 labels for a full"):
        counts.to_array()
    assert counts.to_array([3, 1, -5]).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert counts.total == MAX_CLASSES
    # The place of a label that left is free for another.
    counts.revert(7, 7)
    counts.update(MAX_CLASSES, 0)
    assert len(counts.labels) == MAX_CLASSES


# Weights


def test_one_fraction_turns_the_state_to_floats_for_good() -> None:
    counts, other = fed([("a", "a", 1)]), fed([("a", "b", 0.5)])
    assert not other.exact
    for left, right in ((counts, other), (other, counts)):
        merged = left.copy()
        merged.merge(right)
        assert (merged.exact, merged.total, merged.to_array().dtype) == (False, 1.5, np.float64)
    # A cell may be heavier than one event may be.
    heavy = fed([("a", "b", 2**53)] * 3 + [("a", "b", 0.5)] * 4)
    heavy._check()
    assert [*heavy.cells()] == [("a", "b", 3 * 2.0**53 + 2.0)]
    floats = fed([("a", "a", 0.5), ("b", "a", 1), ("a", "b", 2)])
    assert [floats.true_count("a"), floats.predicted_count("a")] == [2.5, 1.5]
    assert floats.sums.true_squared == 2.5**2 + 1
    assert floats.sums.predicted_squared == 1.5**2 + 2.0**2
    with pytest.raises(InputError, match=r"whole weights only, .* got weights that are not whole"):
        other.revert("a", "b")


@settings(max_examples=40)
@given(st.integers(0, 60), st.integers(1, 40), st.sampled_from([1, 3, 2**40, 2**53]), st.data())
def test_every_way_of_counting_pairs_gives_the_same(
    length: int, classes: int, most: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    i, j = rng.integers(0, classes, (2, length))
    weight = rng.integers(1, most, length, endpoint=True)
    labels = list(range(classes))
    columns = LabelColumn(labels, i), LabelColumn([*labels, 99], j)
    want: Counter[tuple[int, int]] = Counter()
    for a, b, w in zip(i.tolist(), j.tolist(), weight.tolist(), strict=True):
        want[a, b] += w
    pairs = [(a, b, w) for (a, b), w in sorted(want.items())]
    once = Counter(zip(i.tolist(), j.tolist(), strict=True))
    plain = [(a, b, w) for (a, b), w in sorted(once.items())]
    for table in (0, 2**23):  # by sorting, by a table of all pairs
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pair_counts, "_TABLE_PAIRS", table - 64)
            patch.setattr(pair_counts, "_BLOCK", 5)
            assert pair_counts.code_pairs(*columns, weight) == pairs
            assert pair_counts.code_pairs(*columns, None) == plain
            floats = pair_counts.code_pairs(*columns, weight + 0.5)
            assert [pair[:2] for pair in floats] == [pair[:2] for pair in pairs]
            assert all(type(w) is float for _, _, w in floats)


# Matrices


def test_from_matrix_takes_arrays_and_nested_lists() -> None:
    rows = [[5, 0, 1], [0, 0, 0], [2, 0, 3]]
    for matrix in (rows, np.array(rows), np.array(rows, dtype=float), pd.DataFrame(rows)):
        counts = ConfusionCounts.from_matrix(matrix, ["b", "never", "a"])
        assert counts.labels == ["a", "b"], "a label without events is none"
        assert counts.exact
        assert counts.to_array(["b", "never", "a"]).tolist() == rows
    assert ConfusionCounts.from_matrix([[True]], ["a"]).total == 1
    assert not ConfusionCounts.from_matrix([[0.5]], ["a"]).exact
    assert ConfusionCounts.from_matrix([[2**70]], ["a"]).total == 2**70
    assert ConfusionCounts.from_matrix([], []) == ConfusionCounts()


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1]], "expected shape (2, 2), a row and a column for each label, got shape"),
        ([[1, 2], [3]], "expected shape (2, 2), a row and a column for each label, got row"),
        ([[1, -2], [3, 4]], "expected finite weights of 0 or more, got -2 in row 0, col"),
        ([[1, 2], [3, np.nan]], "expected finite weights of 0 or more, got nan in row 1"),
        ([[1, 2], [3, None]], "expected finite weights of 0 or more, got None in row 1"),
    ],
)
def test_from_matrix_refuses(matrix: Any, message: str) -> None:
    with pytest.raises(InputError, match=r"^matrix: " + re.escape(message)):
        ConfusionCounts.from_matrix(matrix, ["a", "b"])


def test_to_array_takes_the_order_it_is_given() -> None:
    counts = ConfusionCounts.from_matrix([[1, 2], [3, 4]], [0, 1])
    assert counts.to_array([True, False]).tolist() == [[4, 3], [2, 1]]
    assert counts.to_array([1]).tolist() == [[4]]
    assert counts.to_array([]).shape == (0, 0)
    with pytest.raises(InputError, match=r"^labels\[0\]: expected a number like the label 0"):
        counts.to_array(["0", "1"])


def test_an_empty_float_state_is_refused() -> None:
    empty = ConfusionCounts().to_state()
    with pytest.raises(StateError, match=r"^confusion.weight: expected at least one weight where"):
        ConfusionCounts.from_state(empty | {"weight": np.zeros(0)})
