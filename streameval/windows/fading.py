"""Exponential decay: the weight of an event halves with each half-life that passes.

Forward decay (Cormode et al. 2009): an event is weighted by when it happened,
``2 ** (t / half_life)``, never by how long ago that is, so nothing old is ever
rewritten, late events weigh exactly what they would have weighed in time, and
shards add up. To keep whole numbers for years on end, time is cut into epochs
of one half-life: inside an epoch an event weighs a whole number of units from
2**31 to 2**32, and from one epoch to the next the unit doubles. An epoch's
state set is therefore as exact, as mergeable and as free of overflow as any other;
epochs of more than 64 half-lives ago weigh less than 2**-64 and are dropped.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Self

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events.event import EventBatch, EventFields
from streameval.events.time import duration
from streameval.events.values import FloatArray, IntArray, Weight
from streameval.states.backend import compiled
from streameval.states.class_scores import ClassScores
from streameval.states.fields import removable_weight
from streameval.states.probability import ProbabilitySums
from streameval.states.ranking.weights import MAX_TOTAL
from streameval.states.registry import STATES
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows.fading_sums import SUMMED, FadingSums, ScaledState, scaled_index
from streameval.windows.time_buckets import BucketTimeline, TimeBuckets
from streameval.windows.window import (
    FastPath,
    Undo,
    Window,
    WindowKey,
    WindowKind,
    WindowSample,
    WindowSpec,
    check_multiplied,
)

EPOCHS = 64
"""Half-lives that are kept."""

_UNIT_BITS = 31
_STEP_BITS = 12
_STEPS = 1 << _STEP_BITS


def _power_tables() -> tuple[list[float], list[float], list[float]]:
    """``2 ** (n / 2**12)``, ``2 ** (n / 2**24)`` and ``2 ** (n / 2**36)`` for n < 4096."""
    # Of square roots and products, which IEEE arithmetic rounds the same way on every machine;
    # the library's pow() need not agree between two.
    roots: list[float] = []
    root = 2.0
    for _ in range(3 * _STEP_BITS):
        root = math.sqrt(root)
        roots.append(root)
    tables: list[list[float]] = []
    for level in range(3):
        bits = roots[level * _STEP_BITS : (level + 1) * _STEP_BITS]
        table = [1.0]
        for root in reversed(bits):
            table += [value * root for value in table]
        tables.append(table)
    return tables[0], tables[1], tables[2]


_TABLES = _power_tables()
_ARRAYS = tuple(map(np.asarray, _TABLES))


def _rounded_units(steps: Any, tables: Sequence[Any]) -> Any:
    """``2 ** (31 + steps / 2**36)`` and ½, of an int or, with arrays as tables, of a column."""
    coarse, middle, fine = tables
    last = _STEPS - 1
    power = coarse[steps >> 24] * middle[(steps >> 12) & last] * fine[steps & last]
    return power * 2.0**_UNIT_BITS + 0.5


@functools.lru_cache(maxsize=16)  # of the latest event, for each window that it is counted in
def units(phase: int, half_life: int) -> int:
    """``2 ** (31 + phase / half_life)``: what an event weighs in its epoch.

    To the nearest integer but one, and the same on every machine.
    """
    # As numpy divides a column of integers, and not as Python divides two.
    steps = int(float(phase) / float(half_life) * 2.0 ** (3 * _STEP_BITS))
    return int(_rounded_units(steps, _TABLES))


def units_many(phases: IntArray, half_life: int) -> IntArray:
    """:func:`units` of a column."""
    steps = (phases / half_life * 2.0 ** (3 * _STEP_BITS)).astype(np.int64)
    whole: IntArray = _rounded_units(steps, _ARRAYS).astype(np.int64)
    return whole


@dataclass(frozen=True, slots=True)
class Fading(WindowSpec):
    """All events, each weighing half as much for every half-life that it is old.

    Args:
        half_life: A duration of event time (``"6h"`` or a timedelta), or a
            number of events.

    Weights are rounded to one part in 2**32, so metrics agree with exact
    powers of two to 1e-9. Windows by event time merge across shards; windows
    by event count do not, because shards have no common count. An event's own
    ``weight`` may be 2**20 at most, and a half-life may hold 2**30 events of
    weight 1 of each class (2**30 / K of a multi-class task with K classes
    whose probabilities are kept).

    Cost:
        An event: one update of its states, and one of each sum that was read before: O(log n)
        for the AUC of binary scores, and a class for the one-vs-rest AUC of up to 128 classes,
        O(1) for labels, log loss and Brier score. A read is then O(1). The first read, one after
        a merge or a large batch, and every read of other multi-class rankings, of score moments,
        with fractional weights or with ``max_scores``: O(content of the states over 64
        half-lives).

    >>> Fading("6h").needs_time, Fading(1000).needs_time
    (True, False)
    """

    half_life: str | timedelta | int
    span: int = field(init=False, repr=False)
    """The half-life in microseconds, or in events."""

    def __post_init__(self) -> None:
        if isinstance(self.half_life, int) and not isinstance(self.half_life, bool):
            span = int(self.half_life)  # of a subclass too, as a state has it
            if not 1 <= span <= 2**40:
                expected = "a number of events from 1 to 2**40"
                raise InputError("Fading(half_life)", expected=expected, got=shown(span))
        else:
            span = duration(self.half_life, "Fading(half_life)")
            if span > 2**52:
                raise InputError(
                    "Fading(half_life)", expected="at most 142 years", got=shown(self.half_life)
                )
        object.__setattr__(self, "span", span)

    @property
    def needs_time(self) -> bool:
        return not isinstance(self.half_life, int)

    def check_weight(self, weight: Weight | IntArray | FloatArray | None) -> None:
        check_multiplied(weight, "in a fading window")

    def timeline(self) -> BucketTimeline:
        names = ("", "faded_out")
        return BucketTimeline(self.span, EPOCHS, names, self._arrival, timed=self.needs_time)

    def _arrival(self, moment: Any, latest: Any) -> Any:
        """1 for an event more than 64 half-lives late, which weighs nothing; else 0."""
        return 1 * (moment // self.span <= latest // self.span - EPOCHS)

    def open(self, plan: StatePlan, timeline: BucketTimeline) -> FadingWindow:
        return FadingWindow(self, plan, timeline)

    def to_options(self) -> dict[str, Any]:
        clock = "event_time" if self.needs_time else "events"
        return {"kind": "fading", "half_life": self.span, "clock": clock}


_NO_EPOCH = 2**63 - 1

# Counting so few events in the sums, or one for so many scores, beats summing all anew.
_FEW, _ONE_BY_ONE = 64, 16

# Metrics that are computed from whole sums, beside those of a confusion other than its total.
_OF_WHOLE = frozenset({"brier_score", "log_loss", "roc_auc_ovr", "roc_auc_ovr_weighted"})


class FadingWindow(Window):
    """A state set in whole units for each epoch, and sums over them of the states that are read.

    Compiled sums count plain events too, which then wait until the state sets are needed.
    """

    __slots__ = (
        "_buckets", "_current", "_forms", "_plan", "_spec", "_summed", "_sums", "_timeline"
    )  # fmt: skip

    def __init__(self, spec: Fading, plan: StatePlan, timeline: BucketTimeline) -> None:
        self._buckets = TimeBuckets(plan, timeline, "epoch")
        self._spec = spec
        self._plan = plan
        self._timeline = timeline
        # Written forms of states, by epoch: those of the past are written once.
        self._forms: dict[int, dict[str, Any]] = {}
        self._current: tuple[int | None, StateSet] | None = None
        # Cells of coarsened scores cannot be split again when an epoch is dropped.
        bounded = plan.max_scores is not None
        self._summed = frozenset(() if bounded else filter(plan.serves, SUMMED))
        self._sums = _new_sums(plan, spec.span, timeline, self._buckets)

    def fast_path(self) -> FastPath:
        if isinstance(self._sums, FadingSums):
            return FastPath(reader=self._reader)
        sums = self._sums
        return FastPath(sums, compiled=lambda name: getattr(sums, name, None), reader=self._reader)

    def _reader(
        self, name: str, state: str, function: Callable[[Any], float]
    ) -> Callable[[], float] | None:
        """Reads a metric of a state from whole sums, or nan if it has to be read in full."""
        if name not in _OF_WHOLE and (state != "confusion" or name == "support"):
            return None

        def read_whole() -> float:
            # A ratio of weights equals the ratio of their units.
            self._advance()
            whole = self._whole(state)
            return math.nan if whole is None else function(whole)

        return read_whole

    @property
    def buckets(self) -> TimeBuckets:
        """The epochs, each with all of its events, also those that were waiting."""
        if self._sums.waiting:
            for number, *columns in self._sums.take():
                state_set = self._buckets.live(number)
                batch = EventBatch(*columns)
                if len(batch) <= _FEW:
                    for event in batch.events():
                        state_set.add(*event)
                else:
                    state_set.add_many(batch)
                self._forms.pop(number, None)
                self._sums.oldest_held = min(self._sums.oldest_held, number)
            self._current = None
        return self._buckets

    def restore(self, data: dict[str, Any]) -> None:
        self._buckets.restore(data)
        for number in self._buckets:
            self._changed(number)

    def _changed(self, number: int) -> None:
        self._forms.pop(number, None)
        self._current = None
        self._sums.hold(number)

    def _count(self, number: int, events: Sequence[EventFields], sign: int = 1) -> None:
        """Add events that were counted in their epoch to the sums, or (−1) remove them."""
        self._changed(number)
        for event in events:
            if type(event[3]) is int:
                self._sums.count(event, number, sign)
            else:
                self._sums.forget()

    def _advance(self) -> None:
        """Drop the epochs that have faded out, once a new one has begun."""
        if self._timeline.newest != self._sums.advanced_to:
            _drop_faded(self.buckets, self._timeline, self._plan, self._sums)

    def _weighed(self, event: EventFields, event_time: int | None) -> tuple[int, EventFields]:
        """An event's epoch, and the event with the whole units that it weighs there."""
        assert event_time is not None
        number, phase = divmod(event_time, self._spec.span)
        true, predicted, score, weight = event
        return number, (true, predicted, score, weight * units(phase, self._spec.span))

    def add(self, event: EventFields, event_time: int | None) -> None:
        number, weighed = self._weighed(event, event_time)
        if number < self._timeline.oldest:
            return  # faded out by the end of its batch
        try:
            self.buckets.update(number, weighed)
        except InputError as error:
            raise self._refusal(error, number, event[2] or ()) from None
        self._advance()
        self._count(number, [weighed])
        newest = self._timeline.newest
        latest = number if newest is None else max(number, newest)
        index = self._buckets.read(latest).index
        if index is not None and index.exact:
            self._sums.allow(latest, MAX_TOTAL - max(index.positives, index.negatives))

    def stage(self, batch: EventBatch, event_times: IntArray | None) -> Callable[[], None]:
        assert event_times is not None
        span = self._spec.span
        weight = units_many(event_times % span, span)
        whole = weight if batch.weight is None else weight * batch.weight
        parts = self.buckets.parts(batch.weighted(whole), event_times)
        for number, part in parts:
            try:
                self.buckets.read(number).check_many(part)
            except InputError as error:
                raise self._refusal(error, number, batch.labels) from None
        return functools.partial(self._add_batch, parts)

    def _add_batch(self, parts: list[tuple[int, EventBatch]]) -> None:
        self._advance()
        for number, part in parts:
            # Epochs that the end of the batch has passed are dropped.
            if not self._timeline.keeps(number):
                continue
            self.buckets.live(number).add_many(part)
            if len(part) <= max(_FEW, self._sums.distinct // _ONE_BY_ONE):
                self._count(number, list(part.events()))
            else:
                self._changed(number)
                self._sums.forget()

    def _refusal(self, error: InputError, number: int, labels: Collection[Any]) -> InputError:
        """A refusal for too much weight, in terms of events instead of units."""
        if error.field != "weight":
            return error
        scores, classes = self.buckets.read(number).class_scores, 1
        if scores is not None:
            classes = len({*scores.labels, *labels})
        return InputError(
            "weight",
            expected=f"at most {MAX_TOTAL // classes >> 32} events of weight 1 in a half-life",
            got="more",
            remedy="make the half-life shorter",
        )

    def remove(self, event: EventFields, event_time: int | None) -> Undo:
        self._advance()
        number, weighed = self._weighed(event, event_time)
        if number not in self.buckets:
            raise InputError(
                "revert",
                expected="an event of the last 64 half-lives",
                got="one that was not counted or has faded out",
            )
        removable_weight(event[3], True)  # units times a fraction can be whole
        self.buckets.live(number).revert(*weighed)
        self._count(number, [weighed], -1)
        self.buckets.drop_empty(number)
        return functools.partial(self.add, event, event_time)

    def current(self) -> StateSet:
        """The weighted sum of the epochs, an event of the latest moment weighing 1."""
        # A state is summed when it is first read, and kept until the next event.
        latest, buckets = self._timeline.latest, self.buckets
        if self._current is None or self._current[0] != latest:
            self._advance()
            if len(buckets) and latest is not None:
                has_fed = functools.cache(self._has_fed)
                total = StateSet.later(self._plan, self._states(latest), has_fed)
            else:
                total = StateSet(self._plan)
            self._current = (latest, total)
        return self._current[1]

    def _has_fed(self, kind: str) -> bool:
        """As :meth:`StateSet.later` asks."""
        sets = map(self.buckets.read, reversed(list(self.buckets)))
        return any(state_set.has_fed(kind) for state_set in sets)

    def _states(self, latest: int) -> Callable[[str], Any]:
        """From the name of a state to its weighted sum over the epochs."""
        newest, phase = divmod(latest, self._spec.span)
        weight = units(phase, self._spec.span)

        def state(name: str) -> Any:
            whole = self._whole(name)
            if whole is None and name not in self._plan.keeps:
                return None
            if whole is None:
                return self._sum_of_forms(name, newest, weight)
            bits = newest - self._sums.base(name)
            if name == "index":
                return scaled_index(whole, weight, bits)
            if name == "class_scores":
                made = functools.partial(self._sum_of_forms, name, newest, weight)
                return ScaledState(ClassScores, made, {"whole": whole})
            row = STATES[name]
            assert row.weighted_sum is not None
            form = row.weighted_sum([(row.write(whole), 1)], weight << bits)
            return row.restored(self._plan, form).with_exact_source(whole)

        return state

    def _whole(self, name: str) -> Any:
        """The sum over the epochs, kept current from now on; None if it is not supported."""
        if name not in self._summed:
            return None
        if not self._sums.keeps(name):
            source = name if name in self._plan.stored else str(STATES[name].source)
            sets = [(number, self.buckets.read(number)) for number in self.buckets]
            if not all(getattr(state_set, source).exact for _, state_set in sets):
                return None

            def begin() -> bool:
                parts = ((n, _part(state_set, self._plan, name)) for n, state_set in sets)
                return bool(self._sums.begin(name, self._timeline.oldest, parts))

            if not begin() and not isinstance(self._sums, FadingSums):
                # Continue with integers of any size.
                self._sums.retired = True
                advanced_to = self._sums.advanced_to
                self._sums = FadingSums(self._plan)
                self._sums.advanced_to = advanced_to
                begin()
        return self._sums.whole(name)

    def _sum_of_forms(self, name: str, newest: int, weight: int) -> Any:
        """The weighted sum of a state's written forms."""
        numbers = list(self.buckets)
        oldest = numbers[0]
        self._forms = {number: self._forms.get(number, {}) for number in numbers}
        row = STATES[name]
        assert row.weighted_sum is not None
        for number, forms in self._forms.items():
            if name not in forms:
                forms[name] = self.buckets.read(number).form(name)
        parts = [(forms[name], 1 << (number - oldest)) for number, forms in self._forms.items()]
        return row.restored(self._plan, row.weighted_sum(parts, weight << (newest - oldest)))

    def check_merge(self, other: Self) -> None:
        latest = self._timeline.latest, other._timeline.latest
        if not self._spec.needs_time and None not in latest:
            raise StateError(
                "Fading windows by event count cannot be merged: two streams have no "
                "common count; give the half-life as a duration of event time"
            )
        self.buckets.check_merge(other.buckets)

    def merge(self, other: Self) -> None:
        self._current = None
        for number, part in self.buckets.kept_of(other.buckets):
            self.buckets.live(number).merge(part)
            self._changed(number)
        self._sums.forget()
        self._advance()

    def retained(self) -> dict[str, Any]:
        self._advance()
        return {"half_lives": len(self.buckets), "half_lives_at_most": EPOCHS}

    def to_state(self) -> dict[str, Any]:
        self._advance()
        return self.buckets.to_state()

    def _check(self) -> None:
        self._advance()
        self.buckets._check()
        fresh = FadingSums(self._plan)
        for name in filter(self._sums.keeps, self._summed):
            parts = ((n, _part(self.buckets.read(n), self._plan, name)) for n in self.buckets)
            fresh.begin(name, self._sums.base(name), parts)
            fresh.check_equal(self._sums, name)


def _part(state_set: StateSet, plan: StatePlan, name: str) -> Any:
    """A state of an epoch, derived if it is not stored."""
    row = STATES[name]
    if name in plan.stored or row in state_set.derived:
        return getattr(state_set, name)
    return row.derive(getattr(state_set, str(row.source)), plan)


def _drop_faded(buckets: TimeBuckets, timeline: BucketTimeline, plan: StatePlan, sums: Any) -> None:
    """Drop the epochs that have faded out, from the sums too."""
    for number in buckets:
        if number >= timeline.oldest:
            break
        sums.drop(number, functools.partial(_part, buckets.read(number), plan))
    buckets.prune()
    sums.oldest_held = min(buckets, default=_NO_EPOCH)
    sums.advanced_to = timeline.newest
    if isinstance(sums, FadingSums):
        sums.rebase(timeline.oldest)


def _new_sums(plan: StatePlan, span: int, timeline: BucketTimeline, buckets: TimeBuckets) -> Any:
    """Compiled sums of binary events, if they were built; else :class:`FadingSums`."""
    module = compiled("streameval.states.native.fading_sums")
    binary = plan.task_row.kernel == "two classes" and not plan.ordered
    if plan.max_scores is not None or not binary or module is None:
        return FadingSums(plan)

    def advance(sums: Any) -> None:
        _drop_faded(buckets, timeline, plan, sums)

    return module.NativeFadingSums(plan, span, EPOCHS, timeline, _TABLES, advance, ProbabilitySums)


FADING = WindowKind(
    name="fading",
    spec=Fading,
    clock="either",
    sizes=("half_life",),
    forms=("fading:6h", "fading:1000"),
    help="Half-life: fading:6h, in events fading:1000.",
    keys=(
        WindowKey(
            "half_life",
            "Instead of `length`: every event counts, with half the weight for each half-life of "
            "age.",
            "6h",
        ),
    ),
    steps=("half_life",),
    sample=WindowSample(
        "fading", "Every event, but an event that is six hours older half as much.", on=False
    ),
    label=lambda given: f"half-life {given['half_life']}",
    words=lambda spec: f"every event, weighing half after {spec.half_life}",
)
