"""A confusion gives the same with compiled cells as with those of the reference."""

from __future__ import annotations

import contextlib
import copy
import math
import os
import pickle
import subprocess
import sys
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
from streameval.states.ranking.reference_index import PortableScoreIndex
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows.cumulative import CumulativeWindow
from tests.support.laws import LAWS, StateSpec, assert_same, check_law, columns

NativeConfusionCells = pytest.importorskip(
    "streameval.states.native.native_label_sums",
    reason="NOT TESTED: compiled code, of which none was built",
).NativeConfusionCells

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
def cells_of(kind: type[NativeConfusionCells] | None) -> Iterator[None]:
    """Inside, new confusions have cells of this kind; None is the reference."""
    before, label_sums._COMPILED = label_sums._COMPILED, kind
    try:
        yield
    finally:
        label_sums._COMPILED = before


@pytest.fixture(params=[NativeConfusionCells, None], ids=["native", "portable"])
def kind(request: pytest.FixtureRequest) -> Iterator[type[NativeConfusionCells] | None]:
    with cells_of(request.param):
        yield request.param


def compiled(counts: ConfusionCounts) -> bool:
    return type(counts._cells) is NativeConfusionCells


def rebuilt(counts: ConfusionCounts) -> ConfusionCounts:
    """The same content in cells of the kind that new confusions have now."""
    return ConfusionCounts.from_state(counts.to_state())


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
    """The compiled metric of these cells, and the function of the reference's."""
    with cells_of(NativeConfusionCells):
        counts = ConfusionCounts()
        counts.add_cells(cells)
        value = reader(name, counts)()
    with cells_of(None):
        twin = ConfusionCounts()
        twin.add_cells(cells)
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
            assert math.isnan(value), name  # the reference holds them
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


# Confusions over either


def read(counts: ConfusionCounts) -> object:
    sums = counts.sums
    return {
        "sums": [getattr(sums, name) for name in NUMBERS],
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
def test_laws(spec: StateSpec, law: str, kind: type[NativeConfusionCells] | None) -> None:
    check_law(spec, law, max_examples=12)


@settings(max_examples=60)
@given(st.data())
def test_two_confusions_stay_equal_whatever_is_done(data: st.DataObject) -> None:
    twins = {}
    for made_of in (NativeConfusionCells, None):
        with cells_of(made_of):
            twins[made_of] = ConfusionCounts()
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
            with cells_of(made_of):
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
    with cells_of(None):
        reference = read(twins[None])
        state = twins[None].to_state()
    assert_same(twins[NativeConfusionCells].to_state(), state)
    with cells_of(NativeConfusionCells):
        assert_same(read(twins[NativeConfusionCells]), reference)


@in_use
def test_cells_that_grow_too_large_are_handed_over() -> None:
    with cells_of(NativeConfusionCells):
        counts = ConfusionCounts()
        counts.add_cells([("a", "a", 2**61), ("a", "b", 2**61 - 2)])
        accuracy = reader("accuracy", counts)
        counts.update("a", "b")
        assert counts.total == MOST
        assert compiled(counts)
        assert accuracy() == 2**61 / MOST
        counts.update("a", "b")
        assert counts.total == 2**62
        assert not compiled(counts)
        assert math.isnan(accuracy()), "the reference holds them"
        assert counts.sums.hits == 2**61
        counts.update("c", "c")
        counts.revert("c", "c")
        counts._check()
        counts.revert("a", "b")
        twin = rebuilt(counts)
        assert twin.sums.total == MOST
        assert compiled(twin)


@settings(max_examples=100)
@given(st.data())
def test_cells_of_many_classes_come_and_go(data: st.DataObject) -> None:
    # More than the few classes whose cells have places of their own.
    counts, events = {}, []
    for made_of in (NativeConfusionCells, None):
        with cells_of(made_of):
            counts[made_of] = ConfusionCounts()
    labels = st.integers(0, 6)
    for back in data.draw(st.lists(st.booleans(), max_size=40)):
        if back and events:
            event = events.pop(data.draw(st.integers(0, len(events) - 1)))
            for each in counts.values():
                each.revert(*event)
        else:
            events.append(
                (data.draw(labels), data.draw(labels), data.draw(st.sampled_from([1, 4])))
            )
            for each in counts.values():
                each.update(*events[-1])
        for each in counts.values():
            each._check()
            never = (0, 0, 1 + sum(weight for _, _, weight in events))
            with pytest.raises(InputError, match="an event that was counted before"):
                each.revert(*never)
        oracle: dict[tuple[int, int], int] = {}
        for i, j, weight in events:
            oracle[i, j] = oracle.get((i, j), 0) + weight
        expected = [(i, j, weight) for (i, j), weight in sorted(oracle.items())]
        assert all(list(each.cells()) == expected for each in counts.values())
        assert_same(*(read(each) for each in counts.values()))
        assert_same(*(each.to_state() for each in counts.values()))


def test_one_event_may_be_too_large_by_itself() -> None:
    with cells_of(NativeConfusionCells):
        counts = ConfusionCounts()
        counts.update("a", "a")
        assert compiled(counts)
        counts.add_cells([("a", "a", 1), ("b", "a", 2**100), ("b", "b", 5)])
        counts._check()
        assert (counts.total, counts.correct) == (2**100 + 7, 7)


def test_copies_and_pickles_go_their_own_way() -> None:
    with cells_of(NativeConfusionCells):
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


def test_errors_of_a_label_s_own_are_not_lost(kind: type[NativeConfusionCells] | None) -> None:
    class Odd(int):
        """Its hash fails once, so that a second look-up would not fail."""

        failed = False

        def __hash__(self) -> int:
            if not self.failed:
                self.failed = True
                raise ZeroDivisionError
            return hash(int(self))

    counts = ConfusionCounts()
    counts.update_many([0, 1, 1], [0, 1, 0])
    with pytest.raises(ZeroDivisionError):
        counts.update(Odd(1), 0)
    with pytest.raises(ZeroDivisionError):
        counts.update(0, Odd(1))
    with pytest.raises(InputError):
        counts.update(0, [])
    counts._check()
    assert counts.total == 3


# Through the evaluator


def reference(ev: se.Evaluator, name: str) -> float:
    """The metric of the evaluator's events by portable states alone."""
    state_set = ev._windows.total.current()
    metric = find(name, "binary")
    if metric.state == "index":
        assert state_set.index is not None
        return metric.bind()(PortableScoreIndex.from_state(state_set.index.to_state()))  # type: ignore[arg-type]
    assert state_set.confusion is not None
    with cells_of(None):
        return metric.bind()(rebuilt(state_set.confusion))


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
    ("wish", "name"), [("portable", "ConfusionCells"), ("native", "NativeConfusionCells")]
)
def test_the_index_s_variable_decides_for_the_sums_too(wish: str, name: str) -> None:
    code = (
        "import streameval as s; c = s.states.confusion.ConfusionCounts(); c.update(1, 1); "
        "print(type(c._cells).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import streameval.states.confusion\n" + code],
        env={**os.environ, "STREAMEVAL_BACKEND": wish},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{name}\n"
