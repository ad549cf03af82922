"""ConfusionCounts against a literal oracle, its errors, and compiled cells against Python's."""

from __future__ import annotations

import copy
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError, StateError
from streameval.evaluator.view import compiled_reader
from streameval.events.values import MAX_CLASSES, LabelColumn
from streameval.metrics.registry import find
from streameval.states.confusion import BinaryCounts, ClassCounts, ConfusionCounts
from streameval.states.confusion_parts import pair_counts
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows.cumulative import CumulativeWindow
from tests.support.confusion_kinds import KINDS, cells_of
from tests.support.laws import assert_same

_weights = st.one_of(st.just(1), st.integers(1, 5), st.sampled_from([2**52, 2**53]))
EVENTS = st.lists(st.tuples(*[st.sampled_from("abcd")] * 2, _weights), max_size=30)


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
def test_every_reading_follows_from_the_list_of_events(kind, events, batch):
    with cells_of(KINDS[kind]):
        counts = fed([] if batch else events)
        if batch:
            counts.update_many(*([event[n] for event in events] for n in range(3)))
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
    # A small class survives beside a huge one.
    counts = fed([("big", "big", 2.0**53), ("big", "big", 0.5), ("small", "big", 1e-9)])
    assert counts.binary("big") == BinaryCounts(tp=2.0**53, fp=1e-9, fn=0.0, tn=0.0)
    floats = fed([("a", "a", 0.5), ("b", "a", 1), ("a", "b", 2)])
    assert [floats.true_count("a"), floats.predicted_count("a")] == [2.5, 1.5]
    assert floats.sums.true_squared == 2.5**2 + 1
    assert floats.sums.predicted_squared == 1.5**2 + 2.0**2
    with pytest.raises(InputError, match=r"whole weights only, .* got weights that are not whole"):
        other.revert("a", "b")
    with pytest.raises(StateError, match=r"^confusion.weight: expected at least one weight where"):
        ConfusionCounts.from_state(ConfusionCounts().to_state() | {"weight": np.zeros(0)})


@settings(max_examples=40)
@given(st.integers(0, 60), st.integers(1, 40), st.sampled_from([1, 3, 2**40, 2**53]), st.data())
def test_every_way_of_counting_pairs_gives_the_same(length, classes, most, data):
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


# Compiled cells

MOST = 2**62 - 1
"""Largest total weight in integers of 64 bits."""
OF_LABELS = ("accuracy", "balanced_accuracy", "matthews_corrcoef", "cohen_kappa")
OF_LABELS += ("precision_macro", "recall_macro", "f1_macro")  # type: ignore[assignment]
# A total of a hundred of them passes 64 bits, and its square 128.
WEIGHTS = st.one_of(
    st.just(1),
    st.integers(1, 9),
    st.sampled_from([2**31, 2**32 + 1, 2**52, 2**53, 2**60, 2**61, MOST, 2**62, 2**63, 2**64]),
    st.sampled_from([2**90, 2**124 - 1, 2**124, 2**125]),
    st.integers(1, 2**65),
)


in_use = pytest.mark.skipif(
    se.backend() == "portable", reason="NOT TESTED: compiled code, of which none is in use"
)
CELLS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), WEIGHTS), max_size=12)


def reader(name: str, counts: ConfusionCounts) -> Callable[[], float]:
    """The compiled metric of a state set with this confusion."""
    state_set = StateSet(StatePlan.for_states("multiclass", ["confusion"]))
    state_set.confusion = counts
    state_set._bind()
    read = compiled_reader(name, CumulativeWindow(state_set), "classes")
    assert read is not None
    return read


def check_metrics(names: Iterable[str], cells: list[tuple[Any, Any, int]]) -> None:
    """Metrics of these cells compiled, or of their compiled sums, have the reference's bits."""
    with cells_of(KINDS["native"]):
        counts = ConfusionCounts()
        counts.add_cells(cells)
        values = {name: reader(name, counts)() for name in names}
        for name, value in values.items():
            if math.isnan(value):
                values[name] = find(name, "multiclass").bind()(counts)
    with cells_of(None):
        twin = ConfusionCounts()
        twin.add_cells(cells)
        for name, value in values.items():
            assert math.isnan(reader(name, twin)())
            assert_same(float(value), float(find(name, "multiclass").bind()(twin)), name)


@in_use
@settings(max_examples=150)
@given(CELLS)
@example([(0, 0, 2**53 + 1), (0, 1, 2)])
@example([(0, 0, 2**61), (1, 1, 2**61 - 1)])
@example([(0, 1, 2**60), (1, 0, 2**60 + 1)])
@example([(0, 0, MOST)])
@example([(0, 0, 1), (0, 1, 2**124), (1, 1, 2**90 + 1)])
def test_a_metric_has_the_bits_of_the_function(cells: list[tuple[int, int, int]]) -> None:
    check_metrics(OF_LABELS, cells)


@in_use
@pytest.mark.slow
def test_means_of_many_classes_are_rounded_once() -> None:
    draw = np.random.default_rng(3)
    for classes in (*[3] * 5, *[7] * 5, 500, 1499):
        true, other = draw.integers(0, classes, (2, 4 * classes))
        predicted = np.where(draw.random(4 * classes) < draw.random(), true, other)
        weights = draw.integers(1, draw.choice([2, 1000]), len(true))
        columns = (true.tolist(), predicted.tolist(), weights.tolist())
        check_metrics(OF_LABELS, [*zip(*columns, strict=True)])


@in_use
def test_means_next_to_zero_to_a_half_and_to_one() -> None:
    for classes, wrong in ((20_000, 2**60), (3, 2**40), (3, 2**100)):
        near_zero = [(0, 0, 1), (0, 1, wrong), (1, 0, wrong)]
        for cells in (near_zero, [(0, 0, wrong), (0, 1, 1), (1, 1, 1)]):
            cells = [*cells, *((k, (k + 1) % classes, 1) for k in range(2, classes))]
            check_metrics(("precision_macro", "recall_macro", "f1_macro", "cohen_kappa"), cells)
    # Means of so few bits that one in sixteen ends in what looks like a tie.
    draw = np.random.default_rng(8)
    for _ in range(150):
        wrong, others = int(draw.integers(2**44, 2**48)), int(draw.integers(2, 9))
        cells = [(0, 0, 1), (0, 1, wrong), *((k, 0, 1) for k in range(1, others))]
        check_metrics(("recall_macro", "f1_macro"), cells)


@in_use
def test_totals_past_64_and_128_bits() -> None:
    with cells_of(KINDS["native"]):
        counts = ConfusionCounts()
        counts.add_cells([("a", "a", 2**61), ("a", "b", 2**61 - 2)])
        accuracy = reader("accuracy", counts)
        counts.update("a", "b")
        assert accuracy() == 2**61 / MOST
        for more in (1, 2**125):
            counts.add_cells([("a", "b", more)])
            assert math.isnan(accuracy()), "to be read from the sums"
            assert counts.sums.hits == 2**61
            assert counts.total == MOST + 1 + (more if more > 1 else 0)
            counts.update("c", "c")
            counts._check()
            twin = copy.deepcopy(counts)
            counts.revert("c", "c")
            assert counts.labels == ["a", "b"]
            assert twin.labels == ["a", "b", "c"]
            twin._check()
        counts.shift_right(1)
        assert counts.cell("a", "a") == 2**60
        counts._check()


@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_a_label_s_own_are_not_lost(kind: str) -> None:
    class Odd(int):
        """Its hash fails once, so that a second look-up would not fail."""

        failed = False

        def __hash__(self) -> int:
            if not self.failed:
                self.failed = True
                raise ZeroDivisionError
            return hash(int(self))

    with cells_of(KINDS[kind]):
        counts = ConfusionCounts()
    counts.update_many([0, 1, 1], [0, 1, 0])
    for pair, error in (
        ((Odd(1), 0), ZeroDivisionError),
        ((0, Odd(1)), ZeroDivisionError),
        ((0, []), InputError),
    ):
        with pytest.raises(error):
            counts.update(*pair)
    counts._check()
    assert counts.total == 3


def test_a_reader_survives_promotion_and_new_labels() -> None:
    ev = se.Evaluator(task="multiclass")
    ev.update_many(["a", "b", "a"], ["a", "b", "b"])
    for name in OF_LABELS:
        for _ in range(2):
            assert ev[name] == ev.value(name), name
    assert set(OF_LABELS) <= set(ev._readers)
    for event in (("c", "a", 1), ("c", "d", 3), ("a", "a", 0.5), ("e", "e", 1), ("a", "a", 1)):
        ev.update(event[0], event[1], weight=event[2])
        for name in OF_LABELS:
            assert_same(ev[name], ev.value(name), name)


def test_an_undefined_value_keeps_its_reason_and_its_substitute() -> None:
    ev, instead = se.Evaluator(positive="fraud"), se.Evaluator(undefined=-7.0)
    ev.update("fraud", score=0.9).update("fraud", score=0.8)
    instead.update(True, score=0.9)
    for _ in range(2):
        assert ev["accuracy"] == 1.0
        assert ev["matthews_corrcoef"].reason == "every event is truly 'fraud'"  # type: ignore[attr-defined]
        for name in ("matthews_corrcoef", "cohen_kappa", "roc_auc"):
            assert instead[name] == -7.0
    ev.update("ham", score=0.1)
    instead.update(False, score=0.2)
    assert ev["matthews_corrcoef"] == instead["matthews_corrcoef"] == instead["roc_auc"] == 1.0
    ev.revert("ham", score=0.1)
    assert math.isnan(ev["matthews_corrcoef"])


def test_the_backend_s_variable_decides_for_the_cells_too() -> None:
    made = "streameval.states.confusion import ConfusionCounts; made = ConfusionCounts()._cells"
    command = [sys.executable, "-c", f"from {made}; print(type(made).__name__)"]
    env = {**os.environ, "STREAMEVAL_BACKEND": "portable"}
    assert subprocess.check_output(command, env=env, text=True) == "ConfusionCells\n"
    made = "ConfusionCells" if se.backend() == "portable" else "NativeConfusionCells"
    assert type(ConfusionCounts()._cells).__name__ == made
