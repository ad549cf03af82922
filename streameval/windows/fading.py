"""A fading memory: an event weighs half as much for each half-life that has passed.

Forward decay (Cormode et al. 2009): an event is weighted by when it happened,
``2 ** (t / half_life)``, never by how long ago that is, so nothing old is ever
rewritten, late events weigh exactly what they would have weighed in time, and
shards add up. To keep whole numbers for years on end, time is cut into epochs
of one half-life: inside an epoch an event weighs a whole number of units from
2**31 to 2**32, and from one epoch to the next the unit doubles. An epoch's
tally is therefore as exact, as mergeable and as free of overflow as any other;
epochs of more than 64 half-lives ago weigh less than 2**-64 and are dropped.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.event_time import EARLIEST, LATEST, duration, time_missing
from streameval.events import FloatArray, IntArray, Weight
from streameval.states.ranked_weights import MAX_TOTAL
from streameval.states.registry import STATES
from streameval.tally import Batch, Plan, Tally
from streameval.windows.grouping import grouped
from streameval.windows.window import EventFields, Undo

__all__ = ["Fading", "FadingTimeline", "FadingWindow"]

EPOCHS = 64
"""Half-lives that are remembered."""

MAX_EVENT_WEIGHT = 2**20
"""Largest weight of one event, so that units times weight stay below 2**53."""

_UNIT_BITS = 31
_STEP_BITS = 12
_STEPS = 1 << _STEP_BITS


def _power_tables() -> tuple[list[float], list[float], list[float]]:
    """``2 ** (n / 2**12)``, ``2 ** (n / 2**24)`` and ``2 ** (n / 2**36)`` for n < 4096.

    Made from square roots and products, which IEEE arithmetic rounds the same
    way on every machine; the library's ``pow`` need not agree between two.
    """
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


def units(phase: int, half_life: int) -> int:
    """Whole units that an event weighs ``phase`` after the start of its epoch.

    ``2 ** (31 + phase / half_life)`` to the nearest but one, and the same on
    every machine.

    >>> units(0, 100) == 2**31, units(50, 100) == round(2**31.5)
    (True, True)
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
        An event: that of its states. A read after an event: O(content of the
        states that the metric needs, over 64 half-lives).

    >>> Fading("6h").needs_time, Fading(1000).needs_time
    (True, False)
    """

    half_life: str | timedelta | int
    span: int = field(init=False, repr=False)
    """The half-life in microseconds, or in events."""

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
        """Whether every event must bring its event time."""
        return not isinstance(self.half_life, int)

    @property
    def keeps_order(self) -> bool:
        """Only when events happened is known, and that to the half-life."""
        return False

    def check_weight(self, weight: Weight | IntArray | FloatArray | None) -> None:
        """Raise InputError for a weight above 2**20."""
        if isinstance(weight, np.ndarray):
            if len(weight) and weight.max() > MAX_EVENT_WEIGHT:
                raise _too_heavy(weight.max(), int(np.argmax(weight)))
        elif weight is not None and weight > MAX_EVENT_WEIGHT:
            raise _too_heavy(weight, None)

    def timeline(self) -> FadingTimeline:
        """A new timeline for all the windows of an evaluator."""
        return FadingTimeline(self)

    def open(self, plan: Plan, timeline: FadingTimeline) -> FadingWindow:
        """A new empty window."""
        return FadingWindow(self, plan, timeline)

    def restore(self, data: dict[str, Any], plan: Plan, timeline: FadingTimeline) -> FadingWindow:
        """The window of a saved state; raises StateError."""
        window = FadingWindow(self, plan, timeline)
        if not isinstance(data, dict) or not isinstance(data.get("epochs"), list):
            raise StateError(f"window: expected its epochs, got {shown(data)}")
        before: int | None = None
        for item in data["epochs"]:
            if not isinstance(item, dict) or set(item) != {"epoch", "tally"}:
                raise StateError(f"window.epochs: expected an epoch's tally, got {shown(item)}")
            number = item["epoch"]
            if type(number) is not int or not timeline.keeps(number):
                raise StateError(f"window.epochs: expected one that is kept, got {shown(number)}")
            if before is not None and number <= before:
                raise StateError(f"window.epochs: expected ascending ones, got {number} late")
            before = number
            window._epochs[number] = _Epoch(Tally.from_state(item["tally"], plan))
        return window

    def to_options(self) -> dict[str, Any]:
        """Plain data that names the specification."""
        clock = "event_time" if self.needs_time else "events"
        return {"kind": "fading", "half_life": self.span, "clock": clock}


class FadingTimeline:
    """The stream's latest moment: an event time, or the number of the latest event."""

    __slots__ = ("faded_out", "latest", "spec")

    def __init__(self, spec: Fading) -> None:
        self.spec = spec
        self.latest: int | None = None
        self.faded_out = 0
        """Events that came more than 64 half-lives late and weigh nothing."""

    @property
    def newest(self) -> int | None:
        """Number of the epoch of the latest event."""
        return None if self.latest is None else self.latest // self.spec.span

    def keeps(self, epoch: int) -> bool:
        """Whether an epoch of this number is remembered."""
        newest = self.newest
        return newest is not None and newest - EPOCHS < epoch <= newest

    def tick(self, count: int) -> IntArray:
        """The numbers of the next ``count`` events; raises InputError where times are needed."""
        if self.spec.needs_time:
            raise time_missing()
        start = 0 if self.latest is None else self.latest + 1
        return np.arange(start, start + count, dtype=np.int64)

    def admit(self, event_time: int) -> bool:
        """Note an event's moment; False where it has faded out already."""
        if self.latest is None or event_time > self.latest:
            self.latest = event_time
        elif not self.keeps(event_time // self.spec.span):
            self.faded_out += 1
            return False
        return True

    def admit_many(self, event_times: IntArray) -> IntArray | None:
        """Rows of the events that weigh something, as if admitted one by one; None: all do."""
        if not len(event_times):
            return None
        latest = np.maximum.accumulate(event_times)
        if self.latest is not None:
            np.maximum(latest, self.latest, out=latest)
        kept = event_times // self.spec.span > latest // self.spec.span - EPOCHS
        self.latest = int(latest[-1])
        self.faded_out += len(kept) - int(np.count_nonzero(kept))
        return None if kept.all() else np.flatnonzero(kept)

    def counts(self) -> dict[str, int]:
        """Events that came too late to weigh anything."""
        return {"faded_out": self.faded_out}

    def merge(self, other: FadingTimeline) -> None:
        """Know the other's latest moment and counts."""
        if other.latest is not None:
            self.latest = other.latest if self.latest is None else max(self.latest, other.latest)
        self.faded_out += other.faded_out

    def to_state(self) -> dict[str, Any]:
        """Plain data."""
        return {"latest": self.latest, "faded_out": self.faded_out}

    def restore(self, data: dict[str, Any]) -> None:
        """Take over a saved state; raises StateError."""
        if not isinstance(data, dict) or set(data) != {"latest", "faded_out"}:
            raise StateError(f"timeline: expected latest and faded_out, got {shown(data)}")
        latest, faded_out = data["latest"], data["faded_out"]
        low, high = (EARLIEST, LATEST) if self.spec.needs_time else (0, 2**62)
        if latest is not None and not (type(latest) is int and low <= latest <= high):
            raise StateError(f"timeline.latest: expected a whole number, got {shown(latest)}")
        if type(faded_out) is not int or not 0 <= faded_out < 2**62:
            raise StateError(f"timeline.faded_out: expected a count, got {shown(faded_out)}")
        self.latest, self.faded_out = latest, faded_out


class _Epoch:
    """The tally of one half-life, in whole units, and its written forms as they were last read."""

    __slots__ = ("_forms", "_tally")

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._forms: dict[str, dict[str, Any]] = {}

    @property
    def tally(self) -> Tally:
        """For reading."""
        return self._tally

    def changing(self) -> Tally:
        """The tally to change."""
        if self._forms:
            self._forms = {}
        return self._tally

    def form(self, name: str) -> dict[str, Any]:
        """A state's written form; epochs of the past are written once."""
        form = self._forms.get(name)
        if form is None:
            form = self._forms[name] = self._tally.form(name)
        return form


class FadingWindow:
    """A tally in whole units for each epoch; their weighted sum at each read."""

    __slots__ = ("_current", "_epochs", "_plan", "_settled_at", "_spec", "_timeline")

    def __init__(self, spec: Fading, plan: Plan, timeline: FadingTimeline) -> None:
        self._spec = spec
        self._plan = plan
        self._timeline = timeline
        self._epochs: dict[int, _Epoch] = {}
        self._current: tuple[int | None, Tally] | None = None
        self._settled_at: int | None = None

    def _settle(self) -> None:
        newest = self._timeline.newest
        if newest != self._settled_at:
            self._settled_at = newest
            for number in [n for n in self._epochs if not self._timeline.keeps(n)]:
                del self._epochs[number]

    def _changing(self, number: int) -> Tally:
        epoch = self._epochs.get(number)
        if epoch is None:
            epoch = self._epochs[number] = _Epoch(Tally(self._plan))
        self._current = None
        return epoch.changing()

    def _drop_empty(self, number: int) -> None:
        if self._epochs[number].tally == Tally(self._plan):
            del self._epochs[number]

    def add(self, event: EventFields, event_time: int | None) -> None:
        """Count one admitted event with the weight of its moment."""
        assert event_time is not None
        number, phase = divmod(event_time, self._spec.span)
        if not self._timeline.keeps(number):
            return  # it came in a batch, by whose end it has faded out
        true, predicted, score, weight = event
        whole = weight * units(phase, self._spec.span)
        try:
            self._changing(number).update(true, predicted, score, whole)
        except InputError:
            self._drop_empty(number)
            raise
        self._settle()

    def add_many(self, batch: Batch, event_times: IntArray | None) -> None:
        """Count an admitted batch, each event with the weight of its moment."""
        assert event_times is not None
        span = self._spec.span
        numbers = event_times // span
        weight = units_many(event_times - numbers * span, span)
        whole = weight if batch.weight is None else weight * batch.weight
        batch = batch.weighted(whole)
        parts = [
            (number, batch if rows is None else batch.take(rows))
            for number, rows in grouped(numbers)
            if self._timeline.keeps(number)
        ]
        for number, part in parts:
            self._check_room(number, part)
        for number, part in parts:
            self._changing(number).update_many(part)
        self._settle()

    def _check_room(self, number: int, batch: Batch) -> None:
        """Refuse a batch that an epoch cannot hold before any other epoch has its part."""
        keeps = self._plan.keeps
        state = "index" if "index" in keeps else "class_scores"
        if state not in keeps or batch.score is None or batch.weight is None:
            return
        tally = self._epochs[number].tally if number in self._epochs else None
        held: Weight = 0 if tally is None else tally.support(state)
        classes = 1
        if state == "class_scores":
            known = None if tally is None else tally.class_scores
            classes += len(batch.labels) + (0 if known is None else len(known.labels))
        total = held + float(batch.weight.sum(dtype=np.float64))
        if total > MAX_TOTAL // classes:
            raise InputError(
                "weight",
                expected=f"at most {MAX_TOTAL // classes >> 32} events of weight 1 in a half-life",
                got="more",
                remedy="make the half-life shorter",
            )

    def remove(self, event: EventFields, event_time: int | None) -> Undo:
        """Undo one earlier event exactly, or raise InputError and change nothing."""
        assert event_time is not None
        self._settle()
        number, phase = divmod(event_time, self._spec.span)
        if number not in self._epochs:
            raise InputError(
                "revert",
                expected="an event of the last 64 half-lives",
                got="one that never came or has faded out",
            )
        true, predicted, score, weight = event
        whole = weight * units(phase, self._spec.span)
        self._changing(number).revert(true, predicted, score, whole)
        self._drop_empty(number)
        return functools.partial(self.add, event, event_time)

    def current(self) -> Tally:
        """The weighted sum of the epochs, an event of the latest moment weighing 1.

        A state is summed when it is first read, and kept until the next event.
        """
        latest = self._timeline.latest
        if self._current is None or self._current[0] != latest:
            self._settle()
            if self._epochs and latest is not None:
                total = Tally.later(self._plan, self._sums(latest))
            else:
                total = Tally(self._plan)
            self._current = (latest, total)
        return self._current[1]

    def _sums(self, latest: int) -> Callable[[str], Any]:
        numbers = sorted(self._epochs)
        oldest = numbers[0]
        newest, phase = divmod(latest, self._spec.span)
        unit = units(phase, self._spec.span) << (newest - oldest)
        parts = [(self._epochs[number], 1 << (number - oldest)) for number in numbers]

        def state(name: str) -> Any:
            row = STATES[name]
            assert row.weighted_sum is not None
            forms = [(epoch.form(name), factor) for epoch, factor in parts]
            return row.restored(self._plan, row.weighted_sum(forms, unit))

        return state

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

    def merge(self, other: FadingWindow) -> None:
        """Add another shard's epochs; the timelines are merged before."""
        for number in sorted(other._epochs):
            if self._timeline.keeps(number):
                self._changing(number).merge(other._epochs[number].tally)
        self._settle()

    def retained(self) -> dict[str, Any]:
        """Half-lives that hold events, and the most there can be."""
        self._settle()
        return {"half_lives": len(self._epochs), "half_lives_at_most": EPOCHS}

    def to_state(self) -> dict[str, Any]:
        """The remembered epochs in order."""
        self._settle()
        return {
            "epochs": [
                {"epoch": number, "tally": self._epochs[number].tally.to_state()}
                for number in sorted(self._epochs)
            ]
        }

    def _check(self) -> None:
        self._settle()
        for number, epoch in self._epochs.items():
            assert self._timeline.keeps(number)
            epoch.tally._check()


def _too_heavy(weight: object, position: int | None) -> InputError:
    return InputError(
        "weight",
        expected=f"a weight of at most {MAX_EVENT_WEIGHT} in a fading window",
        got=shown(weight),
        position=position,
    )
