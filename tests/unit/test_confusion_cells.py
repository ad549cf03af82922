"""A confusion gives the same with compiled cells as with those of the reference."""

from __future__ import annotations

import copy
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError
from streameval.evaluator.view import compiled_reader
from streameval.metrics.registry import find
from streameval.states.confusion import ConfusionCounts
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows.cumulative import CumulativeWindow
from tests.support.confusion_kinds import KINDS, cells_of
from tests.support.laws import assert_same

NativeConfusionCells = pytest.importorskip(
    "streameval.states.native.native_confusion",
    reason="NOT TESTED: compiled code, of which none was built",
).NativeConfusionCells

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
    se.backend() == "portable",
    reason="metrics are read in compiled code where all of it is in use",
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
    with cells_of(NativeConfusionCells):
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
    with cells_of(NativeConfusionCells):
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
    native = se.backend() == "native"
    assert isinstance(ConfusionCounts()._cells, NativeConfusionCells) is native
