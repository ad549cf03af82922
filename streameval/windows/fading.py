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
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events.event import EventBatch, EventFields
from streameval.events.time import duration
from streameval.events.values import FloatArray, IntArray, Weight
from streameval.states.backend import compiled
from streameval.states.class_scores import ClassScores
from streameval.states.fields import removable_weight
from streameval.states.probability import ProbabilitySums
from streameval.states.ranking.score_groups import ScoreGroups
from streameval.states.ranking.weights import MAX_TOTAL
from streameval.states.registry import STATES
from streameval.states.score_index import ScoreIndex
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows.fading_sums import SUMMED, FadingSums, ScaledState
from streameval.windows.time_buckets import BucketTimeline, TimeBuckets
from streameval.windows.window import FastPath, Undo, WindowKey, WindowKind, WindowSample

EPOCHS = 64
"""Half-lives that are kept."""

MAX_EVENT_WEIGHT = 2**20
"""Largest weight of one event, so that units times weight stay below 2**53."""

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


_COARSE, _MIDDLE, _FINE = _power_tables()
_COARSE_ARRAY, _MIDDLE_ARRAY, _FINE_ARRAY = map(np.asarray, (_COARSE, _MIDDLE, _FINE))


@functools.lru_cache(maxsize=16)  # of the latest event, for each window that it is counted in
def units(phase: int, half_life: int) -> int:
    """``2 ** (31 + phase / half_life)``: what an event weighs in its epoch.

    To the nearest integer but one, and the same on every machine.
    """
    # As numpy divides a column of integers, and not as Python divides two.
    steps = int(float(phase) / float(half_life) * 2.0 ** (3 * _STEP_BITS))
    power = (
        _COARSE[steps >> 24] * _MIDDLE[(steps >> 12) & (_STEPS - 1)] * _FINE[steps & (_STEPS - 1)]
    )
    return int(power * 2.0**_UNIT_BITS + 0.5)


def units_many(phases: IntArray, half_life: int) -> IntArray:
    """:func:`units` of a column."""
    steps = (phases / half_life * 2.0 ** (3 * _STEP_BITS)).astype(np.int64)
    power = (
        _COARSE_ARRAY[steps >> 24]
        * _MIDDLE_ARRAY[(steps >> 12) & (_STEPS - 1)]
        * _FINE_ARRAY[steps & (_STEPS - 1)]
    )
    whole: IntArray = (power * 2.0**_UNIT_BITS + 0.5).astype(np.int64)
    return whole


@dataclass(frozen=True, slots=True)
class Fading:
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
        An event: that of its states, and once more what was read before: O(log n) for the
        ranking of binary scores, and a class for one-vs-rest AUC of up to 128 classes, O(1) for
        labels, log loss and Brier score. A read is then that of the metric. O(content of the
        states over 64 half-lives) for the first read, after a merge or a large batch, and always
        for other rankings of several classes, moments of scores, weights that are not whole,
        and ``max_scores``.

    >>> Fading("6h").needs_time, Fading(1000).needs_time
    (True, False)
    """

    half_life: str | timedelta | int
    span: int = field(init=False, repr=False)
    """The half-life in microseconds, or in events."""
    keeps_order: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.half_life, int) and not isinstance(self.half_life, bool):
            span = self.half_life
            if not 1 <= span <= 2**40:
                raise InputError(
                    "Fading(half_life)",
                    expected="a number of events from 1 to 2**40",
                    got=shown(span),
                )
        else:
            span = duration(self.half_life, "Fading(half_life)")
            if span > 2**52:
                raise InputError(
                    "Fading(half_life)", expected="at most 142 years", got=shown(self.half_life)
                )
        object.__setattr__(self, "span", span)

    @property
    def needs_time(self) -> bool:
        """Whether every event requires an event time."""
        return not isinstance(self.half_life, int)

    def check_weight(self, weight: Weight | IntArray | FloatArray | None) -> None:
        """Raise InputError for a weight above 2**20."""
        if isinstance(weight, np.ndarray):
            if len(weight) and weight.max() > MAX_EVENT_WEIGHT:
                raise _too_heavy(weight.max(), int(np.argmax(weight)))
        elif weight is not None and weight > MAX_EVENT_WEIGHT:
            raise _too_heavy(weight, None)

    def timeline(self) -> BucketTimeline:
        """A new timeline for all the windows of an evaluator."""
        names = ("", "faded_out")
        return BucketTimeline(self.span, EPOCHS, names, self._arrival, timed=self.needs_time)

    def _arrival(self, moment: Any, latest: Any) -> Any:
        """1 for an event more than 64 half-lives late, which weighs nothing; else 0."""
        return 1 * (moment // self.span <= latest // self.span - EPOCHS)

    def open(self, plan: StatePlan, timeline: BucketTimeline) -> FadingWindow:
        """A new empty window."""
        return FadingWindow(self, plan, timeline)

    def restore(
        self, data: dict[str, Any], plan: StatePlan, timeline: BucketTimeline
    ) -> FadingWindow:
        """The window of a saved state; raises StateError."""
        window = FadingWindow(self, plan, timeline)
        window.restore(data)
        return window

    def to_options(self) -> dict[str, Any]:
        """Plain data that names the specification."""
        clock = "event_time" if self.needs_time else "events"
        return {"kind": "fading", "half_life": self.span, "clock": clock}


_NO_EPOCH = 2**63 - 1

_FEW = 64
_ONE_BY_ONE = 16
"""Counting so few events in the sums, or one for so many scores, beats summing all anew."""

_OF_WHOLE = frozenset({"brier_score", "log_loss", "roc_auc_ovr", "roc_auc_ovr_weighted"})
"""Metrics that are computed of whole sums; so are those of a confusion, but its total."""


class FadingWindow:
    """A state set in whole units for each epoch, and their weighted sum.

    :class:`FadingSums` keep current what was read. Compiled ones count plain events too, which
    then wait until the state sets are needed (:attr:`buckets`).
    """

    __slots__ = (
        "_buckets",
        "_current",
        "_fast_sums",
        "_fed",
        "_forms",
        "_plan",
        "_spec",
        "_summed",
        "_sums",
        "_timeline",
    )

    def __init__(self, spec: Fading, plan: StatePlan, timeline: BucketTimeline) -> None:
        self._buckets = TimeBuckets(plan, timeline, "epoch")
        self._spec = spec
        self._plan = plan
        self._timeline = timeline
        # Written forms of states, by epoch: those of the past are written once.
        self._forms: dict[int, dict[str, Any]] = {}
        self._current: tuple[int | None, StateSet] | None = None
        # Whether an event has labels, or a score, as far as that is known.
        self._fed: dict[str, bool] = {}
        # Cells of coarsened scores cannot be split again when an epoch is dropped.
        bounded = plan.max_scores is not None
        self._summed = frozenset(() if bounded else filter(plan.serves, SUMMED))
        self._fast_sums = (
            None if bounded else compiled_sums(plan, spec.span, timeline, self._buckets)
        )
        self._sums: Any = FadingSums(plan) if self._fast_sums is None else self._fast_sums

    def fast_path(self) -> FastPath:
        """Counts events that are not late, which wait for their epochs' states; reads the sums."""
        return FastPath(
            self._fast_sums,
            compiled=lambda metric: getattr(self._fast_sums, metric, None),
            reader=self._reader,
        )

    def _reader(
        self, name: str, state: str, function: Callable[[Any], float]
    ) -> Callable[[], float] | None:
        """Reads a metric of a state from whole sums, or nan if it has to be read in full."""
        if name not in _OF_WHOLE and (state != "confusion" or name == "support"):
            return None

        def read_whole() -> float:
            # A ratio of weights is that of their units.
            self._advance()
            whole = self._whole(state)
            return math.nan if whole is None else function(whole)

        return read_whole

    @property
    def buckets(self) -> TimeBuckets:
        """The epochs, each with all of its events."""
        if self._fast_sums is not None and self._fast_sums.waiting:
            self._settle(self._fast_sums)
        return self._buckets

    def _settle(self, fast_sums: Any) -> None:
        """Count the waiting events in their epochs."""
        for number, *columns in fast_sums.take():
            state_set = self._buckets.live(number)
            batch = EventBatch(*columns)
            if len(batch) <= _FEW:
                for event in batch.events():
                    state_set.add(*event)
            else:
                state_set.add_many(batch)
            self._forms.pop(number, None)
            fast_sums.oldest_held = min(fast_sums.oldest_held, number)
        self._current = None
        self._fed.clear()

    def restore(self, data: object) -> None:
        """Take over the epochs of a saved state; raises StateError."""
        self._buckets.restore(data)
        for number in self._buckets:
            self._changed(number)

    def _changed(self, number: int) -> None:
        self._forms.pop(number, None)
        self._current = None
        if self._fast_sums is not None:
            self._fast_sums.hold(number)

    def _allow(self, number: int) -> None:
        """Tell compiled code how much one class of an epoch may still weigh."""
        index = self._buckets.read(number).index
        if self._fast_sums is not None and index is not None and index.exact:
            self._fast_sums.allow(number, MAX_TOTAL - max(index.positives, index.negatives))

    def _changed_by(self, number: int, event: EventFields, sign: int) -> None:
        """Note that an event was counted in its epoch (1), or removed (−1)."""
        self._changed(number)
        _, predicted, score, weight = event
        if predicted is not None:
            self._fed.pop("labels", None)
        if score is not None:
            self._fed.pop("scores", None)
        if type(weight) is int:
            self._sums.count(event, number, sign)
        else:
            self._sums.forget()

    def _forget_sums(self) -> None:
        """Sum all epochs at the next read: after changes that are rare, or of many events."""
        self._current = None
        self._fed.clear()
        self._sums.forget()

    def _advance(self) -> None:
        """Drop the epochs that have faded out, once a new one has begun."""
        newest = self._timeline.newest
        if newest != self._sums.advanced_to:
            buckets = self.buckets
            self._fed.clear()
            _drop_faded(buckets, self._timeline, self._plan, self._sums)
            self._sums.advanced_to = newest
            if self._sums is not self._fast_sums:
                self._sums.rebase(self._timeline.oldest)
            if self._fast_sums is not None:
                self._fast_sums.oldest_held = min(buckets, default=_NO_EPOCH)

    def _weighed(self, event: EventFields, event_time: int | None) -> tuple[int, EventFields]:
        """An event's epoch, and the event with the whole units that it weighs there."""
        assert event_time is not None
        number, phase = divmod(event_time, self._spec.span)
        true, predicted, score, weight = event
        return number, (true, predicted, score, weight * units(phase, self._spec.span))

    def check(self, event: EventFields, event_time: int | None) -> None:
        """An epoch of a slice holds no more than that of the total."""

    def add(self, event: EventFields, event_time: int | None) -> None:
        """Count one event with the weight of its moment, or raise InputError and change nothing."""
        number, weighed = self._weighed(event, event_time)
        if number < self._timeline.oldest:
            return  # faded out by the end of its batch
        try:
            self.buckets.update(number, weighed)
        except InputError as error:
            raise self._refusal(error, number, event[2] or ()) from None
        self._advance()
        self._changed_by(number, weighed, 1)
        newest = self._timeline.newest
        self._allow(number if newest is None else max(number, newest))

    def stage(self, batch: EventBatch, event_times: IntArray | None) -> Callable[[], None]:
        """Check a validated batch, or raise InputError; the result counts it and cannot fail."""
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
        return functools.partial(self._add_parts, parts)

    def _add_parts(self, parts: list[tuple[int, EventBatch]]) -> None:
        self._advance()
        for number, part in parts:
            # Epochs that the end of the batch has passed are dropped.
            if self._timeline.keeps(number):
                self.buckets.live(number).add_many(part)
                self._count_part(number, part)

    def _count_part(self, number: int, part: EventBatch) -> None:
        """Count in the sums what was counted in an epoch."""
        self._changed(number)
        whole = part.weight is None or part.weight.dtype.kind != "f"
        if whole and len(part) <= max(_FEW, self._sums.distinct // _ONE_BY_ONE):
            for event in part.events():
                self._changed_by(number, event, 1)
        else:
            self._forget_sums()

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
        """Undo one earlier event exactly, or raise InputError and change nothing."""
        assert event_time is not None
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
        self._changed_by(number, weighed, -1)
        self.buckets.drop_empty(number)
        return functools.partial(self.add, event, event_time)

    def current(self) -> StateSet:
        """The weighted sum of the epochs, an event of the latest moment weighing 1."""
        # A state is summed when it is first read, and kept until the next event.
        latest, buckets = self._timeline.latest, self.buckets
        if self._current is None or self._current[0] != latest:
            self._advance()
            if len(buckets) and latest is not None:
                total = StateSet.later(self._plan, self._states(latest), self._has_fed)
            else:
                total = StateSet(self._plan)
            self._current = (latest, total)
        return self._current[1]

    def _has_fed(self, kind: str) -> bool:
        """As :meth:`StateSet.later` asks."""
        if kind not in self._fed:
            sets = map(self.buckets.read, reversed(list(self.buckets)))
            self._fed[kind] = any(state_set.has_fed(kind) for state_set in sets)
        return self._fed[kind]

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
                return _scaled_index(whole, weight, bits)
            if name == "class_scores":
                made = functools.partial(self._sum_of_forms, name, newest, weight)
                return ScaledState(ClassScores, made, {"whole": whole})
            row = STATES[name]
            assert row.weighted_sum is not None
            form = row.weighted_sum([(row.write(whole), 1)], weight << bits)
            return row.restored(self._plan, form).with_exact_source(whole)

        return state

    def _whole(self, name: str) -> Any:
        """The sum over the epochs, kept current from now on; None where it is not supported."""
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

            if not begin() and self._fast_sums is not None and not self._fast_sums.retired:
                self._retire(self._fast_sums)
                begin()
        return self._sums.whole(name)

    def _retire(self, fast_sums: Any) -> None:
        """Go on with integers of any size."""
        fast_sums.retired = True
        self._sums = FadingSums(self._plan)
        self._sums.advanced_to = fast_sums.advanced_to

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

    def check_merge(self, other: FadingWindow) -> None:
        """Windows by event count are refused, unless one of the two is empty."""
        if (
            not self._spec.needs_time
            and self._timeline.latest is not None
            and other._timeline.latest is not None
        ):
            raise StateError(
                "Fading windows by event count cannot be merged: two streams have no "
                "common count; give the half-life as a duration of event time"
            )
        self.buckets.check_merge(other.buckets)

    def merge(self, other: FadingWindow) -> None:
        """Add another shard's epochs; the timelines are merged before."""
        for number, part in self.buckets.kept_of(other.buckets):
            self.buckets.live(number).merge(part)
            self._changed(number)
        self._forget_sums()
        self._advance()

    def retained(self) -> dict[str, Any]:
        """Half-lives that hold events, and the most there can be."""
        self._advance()
        return {"half_lives": len(self.buckets), "half_lives_at_most": EPOCHS}

    def to_state(self) -> dict[str, Any]:
        """The kept epochs, ascending."""
        self._advance()
        return self.buckets.to_state()

    def _check(self) -> None:
        self._advance()
        self.buckets._check()
        kept = [name for name in self._summed if self._sums.keeps(name)]
        fresh = FadingSums(self._plan)
        for name in kept:
            parts = ((n, _part(self.buckets.read(n), self._plan, name)) for n in self.buckets)
            fresh.begin(name, self._sums.base(name), parts)
            fresh.check_equal(self._sums, name)
        if self._fast_sums is not None:
            self._fast_sums._check()


def _scaled_index(ranking: Any, units: int, bits: int) -> Any:
    """The score index of a ranking's weights over ``units * 2**bits``."""

    def make() -> ScoreIndex:
        groups = ScoreGroups(*ranking.scaled(units, bits))
        return ScoreIndex.from_state({"exact": False, **groups._asdict()})

    unit = units << bits
    negatives, positives = ranking.totals
    known = {
        "positives": positives / unit,
        "negatives": negatives / unit,
        "auc": ranking.auc,
        "twice_u": ranking.twice_u / unit**2,
        "distinct": ranking.distinct,
    }
    return ScaledState(ScoreIndex, make, known)


def _part(state_set: StateSet, plan: StatePlan, name: str) -> Any:
    """A state of an epoch, derived where it is not stored."""
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


def compiled_sums(
    plan: StatePlan, span: int, timeline: BucketTimeline, buckets: TimeBuckets
) -> Any:
    """Compiled sums for such a window of binary events; None where nothing was compiled."""
    module = compiled("streameval.states.native.fading_sums")
    if plan.task_row.kernel != "two classes" or plan.ordered or module is None:
        return None

    def advance(sums: Any) -> None:
        _drop_faded(buckets, timeline, plan, sums)
        sums.oldest_held = min(buckets, default=_NO_EPOCH)

    tables = _COARSE, _MIDDLE, _FINE
    return module.NativeFadingSums(plan, span, EPOCHS, timeline, tables, advance, ProbabilitySums)


def _too_heavy(weight: object, position: int | None) -> InputError:
    return InputError(
        "weight",
        expected=f"a weight of at most {MAX_EVENT_WEIGHT} in a fading window",
        got=shown(weight),
        position=position,
    )


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
