"""What states and sets of them refuse: bad events, what was never counted, damaged forms."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError, StateError
from streameval.events.event import EventBatch
from streameval.events.values import MAX_CLASSES
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from streameval.states.confusion import ConfusionCounts
from streameval.states.joint_losses import JointLosses
from streameval.states.label_counts import LabelCounts
from streameval.states.label_pairs import LabelPairs
from streameval.states.label_persistence import LabelPersistence
from streameval.states.label_sets import LabelSetCounts
from streameval.states.loss_squares import LossSquares
from streameval.states.moments import ScoreMoments
from streameval.states.probability import ProbabilitySums
from streameval.states.ranking.reference_index import ReferenceScoreIndex
from streameval.states.state_set import StatePlan, StateSet
from streameval.states.sums.fixed_point import UNIT
from streameval.states.weight_squares import WeightSquares
from tests.support.laws import assert_same

INDICES: list[Any] = [ReferenceScoreIndex]
with contextlib.suppress(ImportError):  # where none was compiled
    from streameval.states.ranking.compiled_index import NativeScoreIndex

    INDICES.append(NativeScoreIndex)


@dataclass(frozen=True)
class Row:
    """A state, events that it has counted, and what it refuses."""

    make: Callable[[], Any]
    counted: tuple[tuple[Any, ...], ...]
    never: tuple[tuple[Any, ...], ...]
    """Events of which no like one was counted, or not so heavy a one."""
    field: str = ""
    """What an error calls the second value of an event."""
    prefix: str = ""
    """Where the form below is inside of the written one."""
    damages: tuple[dict[str, Any], ...] = ()
    bad: tuple[tuple[tuple[Any, ...], str], ...] = ()
    error: str = "expected an event that was counted before"
    """What is said of events that were never counted."""

    def state(self) -> Any:
        made = self.make()
        for event in self.counted:
            made.update(*event)
        return made


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def floats(*values: float) -> Any:
    return np.array(values, dtype=np.float64)


WEIGHT = "weight: expected a weight above 0 and at most 9007199254740992"
BAD_WEIGHTS = (0, -1, math.nan, math.inf, 2**53 + 2, "1", None, True)
TRUTH = "positive: expected True or 1 for a positive event, False or 0 for a negative one, got "


def bad_scores(field: str) -> tuple[tuple[tuple[Any, ...], str], ...]:
    """Events (positive, score, weight) that no state of scores counts."""
    number = f"{field}: expected a finite number, got "
    return (
        *(((True, score), number + repr(score)) for score in (math.nan, math.inf, -math.inf)),
        *(((True, score), number + repr(score)) for score in ("0.5", None, True)),
        ((True, 10**400), number),
        *(((label, 0.5), TRUTH + repr(label)) for label in (2, "yes", None)),
        *(((True, 0.5, weight), WEIGHT) for weight in BAD_WEIGHTS),
    )


BOTH = ((True, 0.75), (False, 0.25))
NEVER = ((False, 0.75), (True, 0.5), (True, 0.75, 2))
LABEL = "expected a str, int or bool label, got "
BAD_LABELS = (None, [1], {}, 0.5, math.nan, math.inf, b"a", 1j)

SETS = ((frozenset("a"), frozenset("a"), 1), (frozenset("b"), frozenset(), 2))
PAIRS = ((frozenset("ab"), frozenset("a"), 1),)
SETS_NEVER = ((frozenset("a"), frozenset("b"), 1), (frozenset("ab"), frozenset("ab"), 1))

ROWS: dict[str, Row] = {
    **{
        f"score index, {kind.__name__}": Row(
            kind, BOTH, NEVER, "score", bad=bad_scores("score"),
            damages=(
                {"scores": None}, {"scores": floats(0.1, 0.1)}, {"scores": floats(-0.0, 0.1)},
                {"scores": floats(0.1, math.nan)}, {"scores": floats(0.1)},
                {"positives": ints(1, -1)}, {"positives": ints(1, 0), "negatives": ints(0, 0)},
                {"positives": floats(1, 1)}, {"positives": ints(2**61, 2**61)},
                *({"exact": False, "positives": floats(0.5, bad), "negatives": floats(0, 0)}
                  for bad in (math.nan, -0.5, -0.0, 1e300)),
                {"exact": 1}, {"more": 1},
            ),
        )
        for kind in INDICES
    },
    "probability": Row(
        lambda: ProbabilitySums(2), BOTH, (*NEVER, (True, 0.72), (True, 0.78)), "probability",
        bad=bad_scores("probability"),
        damages=(
            {"bins": 3}, {"bins": 10**9}, {"exact": 1}, {"outside": -1}, {"brier_units": 3 * UNIT},
            {"log_loss_units": 0}, {"bin_positives": [0, 2]}, {"bin_weights": [2, True]},
            {"more": 1},
        ),
    ),
    "moments": Row(
        ScoreMoments, ((True, 1.0), (True, 3.0), (False, 2.5)),
        ((False, 3.0), (True, 9.0), (True, 3.0, 3), (True, -3.0, 2)),
        "score", "positive", bad=bad_scores("score"),
        damages=(
            {"weight": {"numerator": 3, "shift": 1}},
            {"weight": {"numerator": 1 << 200, "shift": 0}},
            {"squares": {"numerator": 1, "shift": 0}}, {"squares": {"numerator": 8, "shift": 1}},
            {"sum": None}, {"extra": 1},
        ),
    ),
    "confusion": Row(
        ConfusionCounts, (("a", "b", 2), ("b", "b")),
        (("a", "b", 3), ("a", "a"), ("b", "a"), ("c", "a"), ("a", "c")), "y_pred",
        bad=(
            *(((label, "a"), f"y_true: {LABEL}") for label in BAD_LABELS),
            *((("a", label), f"y_pred: {LABEL}") for label in BAD_LABELS),
            *((("a", "b", weight), WEIGHT) for weight in BAD_WEIGHTS),
        ),
        damages=(
            {"labels": ["b", "a"]}, {"labels": ["a", 1]}, {"labels": ["a", "b", "c"]},
            {"labels": list(range(MAX_CLASSES + 1))}, {"closed": 1}, {"true": ints(0, -1)},
            {"true": ints(0)}, {"true": ints(1, 1)}, {"weight": ints(2, 0)},
            {"weight": floats(1.5, math.nan)}, {"weight": [2, 1]}, {"weight": [2**63, 2**130]},
            {"weight": np.array([1], "u1")}, {"more": 1},
        ),
    ),
    "class probability": Row(
        ClassProbabilitySums,
        (("a", {"a": 0.75, "b": 0.25}), ("b", {"a": 0.75, "b": 0.25})),
        (("b", {"a": 0.5, "b": 0.5}), ("a", {"a": 0.75, "b": 0.25}, 2),
         ("a", {"a": 0.7, "b": 0.3}), ("z", {"a": 1.0})),
        "proba",
        damages=(
            {"ranks": [1, 0]}, {"ranks": [-2, 0]}, {"rank_weights": [1]}, {"rank_weights": [2, 0]},
            {"rank_weights": [2, 1]}, {"brier_units": 7 * UNIT}, {"bins": True},
        ),
    ),
    "class scores": Row(
        ClassScores,
        (("a", {"a": 0.5, "b": 0.5}, 2), ("b", {"b": 1.0}), ("c", {"b": 1.0})),
        (("b", {"a": 0.5, "b": 0.5}), ("a", {"a": 0.5, "b": 0.5}, 3), ("a", {"a": 0.7, "b": 0.3}),
         ("a", {"a": 0.5, "c": 0.5}), ("a", {"a": 1.0}), ("z", {"z": 1.0}), (1, {1: 1.0})),
        "proba",
        damages=(
            {"labels": ["b", "a", "c"]}, {"labels": ["a", "b", 1]}, {"labels": ["a", "b"]},
            {"counts": [1, 1, 1]}, {"counts": [2, 1, 2**62]}, {"columns": ints(0, 1, 1, 5)},
            {"columns": ints(0, 1, 1, 0)}, {"columns": ints(0, 1)}, {"columns": [0, 1, 1, 1]},
            {"lengths": ints(1, 1, 2, 1)}, {"scores": floats(0.5, 0.0, 1, 1)},
            {"weights": ints(1, 1)}, {"weights": ints(2, 0, 1, 1)}, {"weights": floats(1, 1, 1, 1)},
        ),
    ),
    "label persistence": Row(
        LabelPersistence, (("a",), ("b",)), (("a",),), "weight",
        error="revert: expected a state that does not depend on the order of events, got the",
        bad=(
            *(((label,), f"y_true: {LABEL}") for label in BAD_LABELS),
            ((1,), "y_true: expected a str like the label "),
            *((("a", weight), WEIGHT) for weight in BAD_WEIGHTS),
        ),
        damages=(
            {"events": 1}, {"repeats": 2}, {"last": ["a", "b"]}, {"last": [0.5]},
            {"last": [], "events": 1, "pairs": 0}, {"extra": 0},
        ),
    ),
    "label counts": Row(
        LabelCounts, SETS, SETS_NEVER,
        damages=(
            {"cells": np.array([1, 2, 3])}, {"cells": np.array([2, 9])},
            {"cells": np.array([0, 2])}, {"cells": np.array([1.0, 2.0])}, {"labels": ["b", "a"]},
            {"labels": ["a", "b", "c"]}, {"label": np.array([0, 2])}, {"outcome": np.array([0, 3])},
            {"weight": -1}, {"closed": ["a"]},
            {"label": ints(0, 0), "outcome": ints(0, 1), "labels": ["a"], "cells": ints(2, 2)},
        ),
    ),
    "label sets": Row(
        LabelSetCounts, SETS, SETS_NEVER,
        damages=({"hits": np.array([1, 0])}, {"true": np.array([1, 0])}, {"weight": 4}),
    ),
    "label pairs": Row(
        LabelPairs, PAIRS, SETS_NEVER,
        damages=({"first": ints(1), "second": ints(0)}, {"other": ints(3)}),
    ),
    "joint losses": Row(
        JointLosses, ((1, (0.5, 1.0, 0.25, 0.5), 2, (1, 0)),), (),
        damages=({"models": 1}, {"weight": 0}, {"brier_squares": [100 * UNIT]}, {"exact": False}),
    ),
}  # fmt: skip
SQUARES = {
    "loss squares": Row(LossSquares, BOTH, NEVER),
    "weight squares": Row(WeightSquares, BOTH, ((True, 0.75, 3),)),
}
"""Which take their events as another state has checked them."""


@pytest.mark.parametrize(
    ("row", "event", "message"),
    [
        pytest.param(row, *bad, id=f"{name}-{n}")
        for name, row in ROWS.items()
        for n, bad in enumerate(row.bad)
    ],
)
def test_a_bad_event_is_refused_and_nothing_counted(row, event, message):
    state, halves = row.state(), row.state()
    halves.update(*row.counted[0][:2], *([0.5] if len(row.counted[0]) > 1 else []))
    before, fractions = state.to_state(), halves.to_state()
    reverted = [] if isinstance(state, LabelPersistence) else [state.revert]
    for call in (state.update, halves.update, *reverted):
        with pytest.raises(InputError) as caught:
            call(*event)
        assert str(caught.value).startswith(message)
    good = row.counted[0]
    pairs = [(good[n] if n < len(good) else 1, value) for n, value in enumerate(event)]
    if pairs[-1][1] is None and message == WEIGHT:
        return  # of which a column is none
    expected, _, got = message.partition(": ")
    for each, written in ((state, before), (halves, fractions)):
        with pytest.raises(InputError) as caught:
            each.update_many(*map(list, pairs))
        found = str(caught.value)
        assert re.match(rf"{expected}(\[1\])?: {re.escape(got[:20])}", found), found
        assert_same(each.to_state(), written)
        each._check()


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.bad])
def test_columns_of_different_length_are_refused(name: str) -> None:
    """The other states take batches that have been checked."""
    row = ROWS[name]
    state = row.make()
    columns = [list(column) for column in zip(*(event[:2] for event in row.counted), strict=True)]
    short = [[column[:1] if m == n else column for m, column in enumerate(columns)]
             for n in range(len(columns)) if len(columns) > 1]  # fmt: skip
    for wrong in (*short, [*columns, [1] * (len(columns[0]) + 1)]):
        with pytest.raises(InputError, match=f"^({row.field}|weight|positive): expected . values"):
            state.update_many(*wrong)
    assert state == row.make()


@pytest.mark.parametrize("name", [*ROWS, *SQUARES])
def test_what_was_never_counted_cannot_be_taken_back(name: str) -> None:
    row = (ROWS | SQUARES)[name]
    state = row.state()
    before = state.to_state()
    for event in row.never:
        with pytest.raises(InputError, match=re.escape(row.error)):
            state.revert(*event)
        assert_same(state.to_state(), before)
        state._check()


@pytest.mark.parametrize("name", [name for name in ROWS if name != "label persistence"])
def test_with_a_fraction_nothing_can_be_taken_back(name: str) -> None:
    row = ROWS[name]
    whole, halves = row.state(), row.make()
    first = list(row.counted[0])
    first[2:3] = [0.5]
    halves.update(*first)
    assert whole.exact
    assert not halves.exact
    for state, event in ((whole, first), (halves, row.counted[0]), (halves, first)):
        with pytest.raises(InputError, match="float sums cannot be undone exactly"):
            state.revert(*event)
    empty = row.make()
    empty.merge(halves)
    assert not empty.exact
    assert empty == halves


def fed(kind: type, *event: Any) -> Any:
    made = kind()
    made.update(*event)
    return made


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("probability", lambda: ProbabilitySums(5), "of 2 and of 5 bins cannot be merged"),
        ("class probability", lambda: ClassProbabilitySums(5), "cannot be merged"),
        ("class scores", lambda: fed(ClassScores, 1, {1: 1.0}), "merge: y_true: expected a str li"),
        ("confusion", lambda: ConfusionCounts(["a", "b"]), "merge: "),
        ("confusion", lambda: fed(ConfusionCounts, 1, 2), "merge: "),
        *((name, lambda: None, "expected .*, got None") for name in ROWS if "joint" not in name),
    ],
)
def test_states_merge_with_their_like_only(name, make, message):
    state = ROWS[name].state()
    before, other = state.to_state(), make()
    with pytest.raises(StateError, match=message):
        state.merge(other)
    if other is not None:
        with pytest.raises(StateError):
            other.merge(state)
    assert_same(state.to_state(), before)


@pytest.mark.parametrize("name", ROWS)
def test_a_damaged_form_is_refused(name: str) -> None:
    row = ROWS[name]
    state = row.state()
    data, kind = state.to_state(), type(state)
    assert kind.from_state(data) == state
    for change in row.damages:
        inner = {**data[row.prefix], **change} if row.prefix else {**data, **change}
        with pytest.raises(StateError):
            print(kind.from_state({**data, row.prefix: inner} if row.prefix else inner), change)
    for form in ([], None):
        with pytest.raises(StateError, match="expected a dictionary, got "):
            kind.from_state(form)


def test_a_form_of_fractions_is_refused_what_it_would_write_otherwise() -> None:
    sums = ProbabilitySums(2)
    sums.update_many([True, False], [0.5, 0.25], [0.5, 1])
    data = sums.to_state()
    assert ProbabilitySums.from_state(data).to_state() == data
    for value in (-0.0, math.nan, math.inf, 0):
        with pytest.raises(StateError, match=r"probability\.outside: expected a finite"):
            ProbabilitySums.from_state({**data, "outside": value})


def test_bins_and_labels_out_of_range_are_refused() -> None:
    for bins in (0, -1, 10_001, True, 2.0, "10"):
        for kind in (ProbabilitySums, ClassProbabilitySums, LossSquares):
            with pytest.raises(InputError, match="bins: expected a whole number from 1 to 10000"):
                kind(bins)  # type: ignore[arg-type]
    for label in BAD_LABELS:
        with pytest.raises(InputError, match=f"^positive: {LABEL}"):
            ROWS["confusion"].state().binary(label)


# Sets of states --------------------------------------------------------------------------------

HEAVY = 2**53


def almost_full(task: Any) -> StateSet:
    """A state set that can hold less than :data:`HEAVY` more: of each class, if binary."""
    total = StateSet(StatePlan.everything(task))
    part = StateSet(total.plan)
    if task == "binary":
        part.update(1, 1, 0.75, HEAVY)
        part.update(0, 1, 0.25, HEAVY)
    else:
        part.update("a", "b", {"a": 0.25, "b": 0.75}, HEAVY)
    # 2**62 in all, shared by two classes where there are scores of each.
    total.merge(part)
    for _ in range(8 if task == "binary" else 7):
        part.merge(part.copy())
        total.merge(part)
    return total


def agree(state_set: StateSet, verb: str, *given: Any) -> str | None:
    """What check and update both say; neither may change the state set where it refuses."""
    before, said = state_set.to_state(), []
    for call in (verb.replace("update", "check"), verb):
        error = None
        try:
            getattr(state_set, call)(*given)
        except InputError as refusal:
            error = str(refusal)
        said.append(error)
        if error is not None or call != verb:
            assert_same(state_set.to_state(), before)
    assert said[0] == said[1]
    return said[0]


weights = st.sampled_from([1, 2, 2.5, HEAVY - 1, HEAVY])
shares = st.sampled_from([None, {"a": 1.0}, {"b": 0.5, "c": 0.5}, {"a": 0.25, "b": 0.75, "c": 0.0}])
labels, flags = st.sampled_from("abc"), st.integers(0, 1)
lists = {
    "binary": st.lists(
        st.tuples(flags, flags, st.sampled_from([None, -3.0, 0.5]), weights), max_size=4
    ),
    "multiclass": st.just([("b", "a", {"a": 1.0}, weight) for weight in (2.5, 1, HEAVY)])
    | st.lists(st.tuples(labels, labels, shares, weights), max_size=4),
}


@pytest.mark.parametrize("task", lists)
@given(data=st.data())
def test_check_says_what_update_would_refuse(task: str, data: st.DataObject) -> None:
    state_set, twin = almost_full(task), almost_full(task)
    for event in data.draw(lists[task]):
        if agree(state_set, "update", *event) is None:
            twin.add(*event)  # what was checked is counted in the same way
    assert_same(twin.to_state(), state_set.to_state())


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), weights), min_size=1, max_size=4),
    st.booleans(),
)
def test_check_many_says_what_a_binary_batch_would_refuse(rows: list[Any], weighted: bool) -> None:
    state_set = almost_full("binary")
    true, predicted, weight = (np.array(column) for column in zip(*rows, strict=True))
    batch = EventBatch(true, predicted, np.full(len(rows), 0.5), weight if weighted else None)
    agree(state_set, "update_many", batch)


@pytest.mark.parametrize(
    ("options", "name", "other"),
    [
        ({"intervals": True}, "label_weights", "confusion"),
        ({"intervals": True}, "score_weights", "index"),
        ({"task": "multiclass", "intervals": True}, "class_probability", "class_scores"),
        ({"task": "multiclass", "intervals": True}, "class_scores", "class_probability"),
    ],
)
def test_states_of_one_set_count_the_same_events(options, name, other):
    few, many = se.Evaluator(**options), se.Evaluator(**options)
    for ev, events in ((few, 2), (many, 5)):
        share = np.arange(events) / 8
        if ev.task == "binary":
            ev.update_many(np.arange(events) % 2, score=share)
        else:
            ev.update_many(["a"] * events, proba={"a": share, "b": 1 - share})
    data = few.to_state()
    data["window"][name] = many.to_state()["window"][name]
    with pytest.raises(se.StateError, match=f"expected events of weight .* as in ({name}|{other})"):
        se.Evaluator.from_state(data)


def test_a_comparison_and_its_models_count_the_same_events() -> None:
    few, many = (
        se.Comparison().update_many([1] * n, score={"champion": [0.5] * n, "challenger": [1] * n})
        for n in (2, 5)
    )
    data = few.to_state() | {"joint": many.to_state()["joint"]}
    with pytest.raises(se.StateError, match=r"joint: expected weight 2 of .*, got 5"):
        se.Comparison.from_state(data)
