"""The compiled sums over classes equal those of the portable class for any events."""

from __future__ import annotations

import contextlib
import copy
import gc
import math
import os
import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError
from streameval.evaluator.view import compiled_reader
from streameval.metrics.registry import find
from streameval.metrics.undefined import reason_of
from streameval.states.confusion import ConfusionCounts
from streameval.states.confusion_parts import label_sums
from streameval.states.confusion_parts.label_sums import LabelSums
from streameval.states.ranking.portable_index import PortableScoreIndex
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows.cumulative import CumulativeWindow
from tests.support.laws import LAWS, StateSpec, assert_same, check_law, columns

NativeLabelSums = pytest.importorskip(
    "streameval.states.native.native_label_sums",
    reason="NOT TESTED: compiled code, of which none was built",
).NativeLabelSums

MOST = 2**62 - 1
NUMBERS = (
    "total",
    "hits",
    "active",
    "with_true",
    "with_predicted",
    "precision",
    "recall",
    "f1",
    "true_predicted",
    "true_squared",
    "predicted_squared",
    "true",
    "predicted",
    "correct",
)
OF_LABELS = (
    "accuracy",
    "balanced_accuracy",
    "precision_macro",
    "recall_macro",
    "f1_macro",
    "matthews_corrcoef",
    "cohen_kappa",
)
# A total of a hundred of them passes 64 bits, and its square 128.
WEIGHTS = st.one_of(
    st.just(1),
    st.integers(1, 9),
    st.sampled_from([2**31, 2**32 + 1, 2**52, 2**53, 2**60, 2**61, MOST, 2**62, 2**63, 2**64]),
    st.integers(1, 2**65),
)


@contextlib.contextmanager
def sums_of(kind: type[NativeLabelSums] | None) -> Iterator[None]:
    """Inside, confusions that need sums make them of this kind; None is the portable one."""
    before, label_sums._COMPILED = label_sums._COMPILED, kind
    try:
        yield
    finally:
        label_sums._COMPILED = before


@pytest.fixture(params=[NativeLabelSums, None], ids=["native", "portable"])
def kind(request: pytest.FixtureRequest) -> Iterator[type[NativeLabelSums] | None]:
    with sums_of(request.param):
        yield request.param


def compiled(counts: ConfusionCounts) -> bool:
    return type(counts._table._sums) is NativeLabelSums


def numbers(sums: LabelSums | NativeLabelSums) -> dict[str, object]:
    sums.recompute()
    return {name: getattr(sums, name) for name in NUMBERS}


# The sums themselves


@settings(max_examples=150)
@given(st.data())
def test_the_sums_are_the_same_integers_after_every_step(data: st.DataObject) -> None:
    classes = data.draw(st.integers(1, 4))
    native, portable = NativeLabelSums(classes, []), LabelSums(classes, [])
    cells: dict[tuple[int, int], int] = {}
    steps = st.lists(st.sampled_from(["count", "count", "take", "recompute", "watch", "grow"]))
    for step in data.draw(steps):
        if step == "grow":
            classes += data.draw(st.integers(0, 2))
            native.grow(classes)
            portable.grow(classes)
        elif step == "recompute":
            native.recompute()
            portable.recompute()
        elif step == "watch":
            native.watched = portable.watched = True
        elif step == "count":
            places = st.integers(0, classes - 1)
            i, j, weight = data.draw(places), data.draw(places), data.draw(WEIGHTS)
            if portable.total + weight > MOST:
                before = numbers(native)
                with pytest.raises(OverflowError):
                    native.count(i, j, weight)
                assert numbers(native) == before
                portable.recompute()  # as numbers() did
                continue
            native.count(i, j, weight)
            portable.count(i, j, weight)
            cells[i, j] = cells.get((i, j), 0) + weight
        elif cells:
            (i, j), there = data.draw(st.sampled_from(sorted(cells.items())))
            weight = data.draw(st.sampled_from([1, there // 2 + 1, there]))
            native.count(i, j, -weight)
            portable.count(i, j, -weight)
            cells[i, j] -= weight
            if not cells[i, j]:
                del cells[i, j]
        assert bool(native.touched) == bool(portable.touched)
        assert native.watched == portable.watched
        # Looked at without settling, as a reader of totals does.
        assert (native.total, native.hits) == (portable.total, portable.hits)
    assert_same(numbers(native), numbers(portable))
    fresh = [(i, j, weight) for (i, j), weight in cells.items()]
    native._check(LabelSums(classes, fresh))
    native._check(NativeLabelSums(classes, fresh))
    for k in range(classes):
        assert native.of_class(k) == portable.of_class(k)


def test_the_check_finds_a_difference() -> None:
    sums = NativeLabelSums(2, [(0, 1, 5)])
    sums._check(LabelSums(2, [(0, 1, 5)]))
    with pytest.raises(AssertionError, match="total"):
        sums._check(LabelSums(2, [(0, 1, 6)]))


def test_bad_calls_are_refused_and_change_nothing() -> None:
    sums = NativeLabelSums(2, [(0, 1, 5), (1, 1, 2)])
    before = numbers(sums)
    for error, call in (
        (IndexError, lambda: sums.count(2, 0, 1)),
        (IndexError, lambda: sums.count(0, 2, 1)),
        (OverflowError, lambda: sums.count(-1, 0, 1)),
        (IndexError, lambda: sums.of_class(2)),
        (ValueError, lambda: sums.count(0, 1, -6)),
        (ValueError, lambda: sums.count(0, 0, -1)),
        (ValueError, lambda: sums.count(1, 1, -(2**63))),
        (OverflowError, lambda: sums.count(1, 1, 2**63)),
        (TypeError, lambda: sums.count(1, 1, 0.5)),
        (TypeError, lambda: copy.copy(sums)),
        (TypeError, lambda: copy.deepcopy(sums)),
        (TypeError, lambda: pickle.dumps(sums)),
    ):
        with pytest.raises(error):
            call()
        assert numbers(sums) == before


def test_labels_may_join_one_by_one_by_the_thousand() -> None:
    sums = NativeLabelSums(0, [])
    for k in range(20_000):
        sums.grow(k + 1)
        sums.count(k, k // 2, 1)
    sums._check(LabelSums(20_000, [(k, k // 2, 1) for k in range(20_000)]))
    assert 100 * 20_000 < sys.getsizeof(sums) < 300 * 20_000


# The metrics

in_use = pytest.mark.skipif(
    se.backend() == "portable",
    reason="metrics are read in compiled code where all of it is in use",
)
CELLS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), WEIGHTS), max_size=12)


def reader(name: str, counts: ConfusionCounts) -> Callable[[], float]:
    """The compiled metric of a state set with this confusion."""
    state_set = StateSet(StatePlan.for_states("multiclass", ["confusion"]))
    state_set.confusion = counts
    read = compiled_reader(name, CumulativeWindow(state_set), binary=False)
    assert read is not None
    return read


def value_and_reference(name: str, cells: list[tuple[Any, Any, int]]) -> tuple[float, float]:
    """What the compiled sums of these cells say, and the metric from portable ones."""
    counts, twin = ConfusionCounts(), ConfusionCounts()
    counts.add_cells(cells)
    twin.add_cells(cells)
    with sums_of(NativeLabelSums):
        value = reader(name, counts)()
    with sums_of(None):
        assert math.isnan(reader(name, twin)())
        return value, find(name, "multiclass").bind()(twin)


@in_use
@settings(max_examples=150)
@given(CELLS)
@example([(0, 0, 2**53 + 1), (0, 1, 2)])
@example([(0, 0, 2**61), (1, 1, 2**61 - 1), (0, 1, 1)][:2])
@example([(0, 1, 2**60), (1, 0, 2**60 + 1)])
@example([(0, 0, MOST)])
def test_a_metric_has_the_bits_of_the_function(cells: list[tuple[int, int, int]]) -> None:
    for name in OF_LABELS:
        value, reference = value_and_reference(name, cells)
        if sum(weight for _, _, weight in cells) > MOST:
            assert math.isnan(value), name  # the portable sums serve
        else:
            assert_same(value, float(reference), name)


@in_use
@pytest.mark.slow
def test_means_of_many_classes_are_rounded_once() -> None:
    draw = np.random.default_rng(3)
    for classes in (3, 7, 500, 1499):
        for _ in range(8):
            true = draw.integers(0, classes, 4 * classes)
            predicted = np.where(
                draw.random(4 * classes) < draw.random(), true, draw.integers(0, classes, len(true))
            )
            weights = draw.integers(1, draw.choice([2, 1000]), len(true))
            cells = list(zip(true.tolist(), predicted.tolist(), weights.tolist(), strict=True))
            for name in OF_LABELS:
                assert_same(*value_and_reference(name, cells), name)


@in_use
@pytest.mark.parametrize(
    ("classes", "wrong"),
    # The first sums have so few bits that the mean is left to Python's integers.
    [(20_000, 2**60), (20_000, 2**40), (3, 2**60)],
)
def test_means_next_to_zero_and_to_one(classes: int, wrong: int) -> None:
    near_zero = [(0, 0, 1), (0, 1, wrong), (1, 0, wrong)]
    near_one = [(0, 0, wrong), (0, 1, 1), (1, 1, 1)]
    for cells in (near_zero, near_one):
        cells = [*cells, *((k, (k + 1) % classes, 1) for k in range(2, classes))]
        for name in ("precision_macro", "recall_macro", "f1_macro", "cohen_kappa"):
            assert_same(*value_and_reference(name, cells), name)


@in_use
def test_a_quotient_just_above_a_half_is_not_taken_for_one() -> None:
    # Means of so few bits that one in sixteen ends in what looks like a tie.
    draw = np.random.default_rng(8)
    for _ in range(300):
        wrong, others = int(draw.integers(2**44, 2**48)), int(draw.integers(2, 9))
        cells = [(0, 0, 1), (0, 1, wrong), *((k, 0, 1) for k in range(1, others))]
        for name in ("recall_macro", "f1_macro"):
            assert_same(*value_and_reference(name, cells), name)


def test_retired_sums_answer_nothing() -> None:
    sums = NativeLabelSums(2, [(0, 0, 3), (0, 1, 1), (1, 1, 2)])
    names = [name for name in OF_LABELS if name != "balanced_accuracy"]
    assert not any(math.isnan(getattr(sums, name)()) for name in names)
    sums.retire()
    assert all(math.isnan(getattr(sums, name)()) for name in names)
    assert all(math.isnan(getattr(NativeLabelSums(2, []), name)()) for name in names)


# Confusions over either


def read(counts: ConfusionCounts) -> object:
    sums = counts.sums
    return {
        "sums": [getattr(sums, name) for name in NUMBERS[:-3]],
        "total": [counts.total, counts.correct, counts.exact],
        "classes": list(counts.per_class()),
        "binary": [list(counts.binary(label)) for label in counts.labels],
    }


LABELS = st.sampled_from(["ham", "spam", "", "été", np.str_("spam")])


def spec(name: str, weights: Any, **more: Any) -> StateSpec:
    def update(counts: ConfusionCounts, event: Any) -> None:
        y_true, y_pred, weight = event
        if weight > 2**53:
            counts.add_cells([event])
        else:
            counts.update(y_true, y_pred, weight)

    def update_many(counts: ConfusionCounts, events: list[Any]) -> None:
        if any(weight > 2**53 for _, _, weight in events):
            counts.add_cells(events)
        else:
            counts.update_many(*columns(events, 3))

    return StateSpec(
        name=name,
        empty=ConfusionCounts,
        events=st.tuples(LABELS, LABELS, weights),
        update=update,
        update_many=update_many,
        revert=lambda state, event: state.revert(*event),
        read=read,
        **more,
    )


SPECS = [
    spec("ones", st.just(1)),
    spec("whole weights", st.sampled_from([1, 1, 2, 2**53])),
    spec(
        "past the range",
        st.sampled_from([1, 2**53, 2**61, 2**62, 2**100]),
        excused={"revert": "no event may have such a weight, only cells"},
    ),
    spec(
        "fractions",
        st.sampled_from([1, 0.5, 1.5, 2]),
        excused={"revert": "float sums cannot be undone exactly"},
    ),
]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_laws(spec: StateSpec, law: str, kind: type[NativeLabelSums] | None) -> None:
    check_law(spec, law, max_examples=12)


@settings(max_examples=60)
@given(st.data())
def test_two_confusions_stay_equal_whatever_is_done(data: st.DataObject) -> None:
    twins = {NativeLabelSums: ConfusionCounts(), None: ConfusionCounts()}
    seen: list[tuple[str, str, Any]] = []
    labels = st.sampled_from("abc")
    acts = ["update"] * 4 + ["revert", "merge", "cells", "copy", "pickle", "read", "many"]
    for act in data.draw(st.lists(st.sampled_from(acts), max_size=30)):
        event = (data.draw(labels), data.draw(labels), data.draw(st.sampled_from([1, 1, 1, 3])))
        if act == "revert" and seen:
            event = seen.pop(data.draw(st.integers(0, len(seen) - 1)))
        elif act == "cells":
            event = (*event[:2], data.draw(st.sampled_from([2**53, 2**61, 2**62 - 9, 0.5])))
        for made_of, counts in twins.items():
            with sums_of(made_of):
                if act == "update":
                    counts.update(*event)
                elif act == "many":
                    counts.update_many(*([value] * 2 for value in event))
                elif act == "cells":
                    counts.add_cells([event])
                elif act == "revert" and seen and counts.exact:
                    counts.revert(*event)
                elif act == "merge":
                    counts.merge(counts.copy())
                elif act == "copy":
                    twins[made_of] = copy.copy(counts)
                elif act == "pickle":
                    twins[made_of] = pickle.loads(pickle.dumps(counts))
                elif act == "read":
                    assert counts.sums.total == counts.total
                twins[made_of]._check()
        if act == "update":
            seen.append(event)
    with sums_of(None):
        reference = read(twins[None])
        state = twins[None].to_state()
    assert_same(twins[NativeLabelSums].to_state(), state)
    with sums_of(NativeLabelSums):
        assert_same(read(twins[NativeLabelSums]), reference)


@in_use
def test_sums_that_grow_too_large_are_handed_over() -> None:
    with sums_of(NativeLabelSums):
        counts = ConfusionCounts()
        counts.add_cells([("a", "a", 2**61), ("a", "b", 2**61 - 2)])
        assert counts.sums.active == 2
        assert compiled(counts)
        accuracy = reader("accuracy", counts)
        counts.update("a", "b")
        assert counts.total == MOST
        assert compiled(counts)
        assert accuracy() == 2**61 / MOST
        counts.update("a", "b")
        assert counts.total == 2**62
        assert not compiled(counts)
        assert math.isnan(accuracy()), "others have taken over"
        assert counts.sums.hits == 2**61
        counts.update("c", "c")
        counts.revert("c", "c")
        counts._check()
        # A copy begins anew, with what its own numbers need.
        counts.revert("a", "b")
        twin = counts.copy()
        assert twin.sums.total == MOST
        assert compiled(twin)


def test_one_event_may_be_too_large_by_itself() -> None:
    with sums_of(NativeLabelSums):
        counts = ConfusionCounts()
        counts.update("a", "a")
        assert compiled(counts) == (counts.sums.total != 1)
        counts.add_cells([("a", "a", 1), ("b", "a", 2**100), ("b", "b", 5)])
        counts._check()
        assert (counts.total, counts.correct) == (2**100 + 7, 7)


def test_copies_and_pickles_go_their_own_way() -> None:
    with sums_of(NativeLabelSums):
        counts = ConfusionCounts()
        for _ in range(3):
            counts.update("a", "b")
            assert counts.sums.total
        for twin in (
            counts.copy(),
            copy.copy(counts),
            copy.deepcopy(counts),
            pickle.loads(pickle.dumps(counts)),
        ):
            assert twin == counts
            twin.update("a", "b")
            assert twin.sums.total == 4
            twin.update("a", "b")
            assert (twin.total, counts.total, counts.sums.total) == (5, 3, 3)
            twin._check()
        counts._check()


# The short way of an event


def ready() -> tuple[ConfusionCounts, Any]:
    """A confusion with compiled sums, and its short way."""
    counts = ConfusionCounts()
    counts.update_many([0, 1, 1], [0, 1, 0])
    with sums_of(NativeLabelSums):
        assert counts.sums.total == 3
    return counts, counts._table.quick


def test_the_short_way_counts_what_is_known_and_nothing_else() -> None:
    counts, quick = ready()
    for spelling in (1, True, 1.0, np.int64(1), np.float32(1)):
        assert quick(spelling, 0)
    assert counts.cell(1, 0) == 6
    assert quick(0, 1)
    for y_true, y_pred in ((2, 0), (0, 2), ("1", 0), (0, None), ([], 0), (0, {}), (0.5, 0)):
        assert not quick(y_true, y_pred)
    assert counts.total == 9
    counts._check()
    assert not NativeLabelSums(2, []).count_known(0, 0), "without tables nothing is known"


def test_errors_of_a_label_s_own_are_not_lost() -> None:
    class Odd(int):
        """Its hash fails once, so that a second look-up would not fail."""

        failed = False

        def __hash__(self) -> int:
            if not self.failed:
                self.failed = True
                raise ZeroDivisionError
            return hash(int(self))

    counts, _ = ready()
    with pytest.raises(ZeroDivisionError):
        counts.update(Odd(1), 0)
    with pytest.raises(ZeroDivisionError):
        counts.update(0, Odd(1))
    with pytest.raises(InputError):
        counts.update(0, [])
    counts._check()
    assert counts.total == 3


def test_nothing_leaks() -> None:
    counts, quick = ready()
    label, other = 10**20, "no label of this confusion"
    counts.update(label, label)
    tables = [counts._index, counts._table.cells]

    def work() -> None:
        for _ in range(500):
            assert quick(label, label)
            assert not quick(label, other)
            assert not quick([], label)
            counts.update(label, 0)
            counts.revert(label, 0)
            assert counts.sums.active == 3
            assert counts._table._sums.of_class(0)[0] == 1  # type: ignore[union-attr]
        again, _ = ready()
        again.update(0, 0, 0.5)

    work()
    gc.collect()
    references = [sys.getrefcount(thing) for thing in (label, other, *tables)]
    tracemalloc.start()
    try:
        work()
        gc.collect()
        first = tracemalloc.get_traced_memory()[0]
        for _ in range(4):
            work()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - first < 10_000
    finally:
        tracemalloc.stop()
    assert [sys.getrefcount(thing) for thing in (label, other, *tables)] == references


def test_a_confusion_goes_without_the_garbage_collector() -> None:
    counts, quick = ready()
    index, cells = counts._index, counts._table.cells
    before = sys.getrefcount(index), sys.getrefcount(cells)
    gc.disable()
    try:
        del counts, quick
        # The confusion, its labels and the sums have let go of the one, the table and the
        # sums of the other.
        assert (sys.getrefcount(index), sys.getrefcount(cells)) == (before[0] - 3, before[1] - 2)
    finally:
        gc.enable()


# Through the evaluator


def reference(ev: se.Evaluator, name: str) -> float:
    """The metric of the evaluator's events by portable states alone."""
    state_set = ev._windows.total.current()
    metric = find(name, "binary")
    if metric.state == "index":
        assert state_set.index is not None
        return metric.bind()(PortableScoreIndex.from_state(state_set.index.to_state()))  # type: ignore[arg-type]
    assert state_set.confusion is not None
    with sums_of(None):
        return metric.bind()(ConfusionCounts.from_state(state_set.confusion.to_state()))


READ = (*OF_LABELS, "roc_auc", "f1", "log_loss")
EVENT = st.tuples(
    st.booleans(),
    st.sampled_from([0.0, -0.0, 0.25, 0.5, 0.75, 1.0, 0.1]),
    st.sampled_from([1, 1, 1, 1, 1, 2, 2**53]),
)


def one(ev: se.Evaluator, event: tuple[bool, float, Any]) -> None:
    ev.update(event[0], score=event[1], weight=event[2])


@settings(max_examples=60)
@given(st.data())
def test_an_evaluator_reads_the_same_after_every_step(data: st.DataObject) -> None:
    ev, seen = se.Evaluator(), []
    acts = ["update"] * 6 + ["many", "revert", "merge", "heavy", "copy", "pickle", "fraction"]
    for act in data.draw(st.lists(st.sampled_from(acts), min_size=1, max_size=25)):
        event = data.draw(EVENT)
        if act in ("copy", "pickle"):
            ev = ev.copy() if act == "copy" else pickle.loads(pickle.dumps(ev))
        elif act == "many":
            ev.update_many([event[0]] * 3, score=[event[1]] * 3, weight=[event[2]] * 3)
        elif act == "merge":
            shard = ev.emptied()
            one(shard, event)
            seen.append(event)
            ev.merge(shard)
        elif act == "heavy":
            # 512 of these pass the range of the compiled sums.
            shard = ev.emptied()
            shard.update_many([event[0]] * 600, [True] * 600, weight=[2**53] * 600)
            ev.merge(shard)
        elif act == "revert" and seen:
            if ev.confusion.exact:
                assert ev.confusion.total > 0
                y_true, score, weight = seen.pop()
                ev.revert(y_true, score=score, weight=weight)
        else:
            fraction = act == "fraction" and data.draw(st.booleans())
            event = (*event[:2], 0.5) if fraction else event
            one(ev, event)
            seen.append(event)
        for name in data.draw(st.lists(st.sampled_from(READ), max_size=4)):
            if name in ("roc_auc", "log_loss") and not seen:
                continue
            value, wanted = ev[name], ev.value(name)
            assert reason_of(value) == reason_of(wanted)
            assert_same(float(value), float(wanted), name)
            if name in OF_LABELS or name == "roc_auc":
                wanted = reference(ev, name)
                if name == "roc_auc" and not ev._windows.total.current().index.exact:
                    # The two indices add weights that are fractions in different orders.
                    assert value == pytest.approx(wanted, rel=1e-9, nan_ok=True)
                else:
                    assert_same(float(value), float(wanted), name)
    ev._check()


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
    ev = se.Evaluator(positive="fraud")
    ev.update("fraud", score=0.9)
    ev.update("fraud", score=0.8)
    for _ in range(2):
        assert ev["accuracy"] == 1.0
        assert math.isnan(ev["matthews_corrcoef"])
        assert ev["matthews_corrcoef"].reason == "every event is truly 'fraud'"  # type: ignore[attr-defined]
    ev.update("ham", score=0.1)
    assert ev["matthews_corrcoef"] == ev["matthews_corrcoef"] == 1.0
    ev.revert("ham", score=0.1)
    assert ev["matthews_corrcoef"].reason == "every event is truly 'fraud'"  # type: ignore[attr-defined]
    instead = se.Evaluator(undefined=-7.0)
    instead.update(True, score=0.9)
    for name in ("matthews_corrcoef", "cohen_kappa", "roc_auc"):
        assert [instead[name], instead[name]] == [-7.0, -7.0]
    instead.update(False, score=0.2)
    assert [instead["matthews_corrcoef"], instead["roc_auc"]] == [1.0, 1.0]


# Which is used


@pytest.mark.parametrize(
    ("wish", "name"), [("portable", "LabelSums"), ("native", "NativeLabelSums")]
)
def test_the_index_s_variable_decides_for_the_sums_too(wish: str, name: str) -> None:
    code = (
        "import streameval as s; c = s.states.confusion.ConfusionCounts(); c.update(1, 1); "
        "print(type(c.sums).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import streameval.states.confusion\n" + code],
        env={**os.environ, "STREAMEVAL_BACKEND": wish},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{name}\n"
