"""Routes each event to the window of all events and to the window of each of its slices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.evaluator.slices import (
    SliceKey,
    Slicer,
    SliceRows,
    other_key,
    slice_name,
    slice_order,
    slice_value,
)
from streameval.events import time as clock
from streameval.events.event import EventBatch, EventFields
from streameval.events.values import IntArray, Weight
from streameval.states.state_set import StatePlan
from streameval.windows.time_buckets import BucketTimeline
from streameval.windows.window import Undo, Window, WindowSpec

_FEW = 4
"""Up to so many events of a slice in a batch are counted one by one."""


class SlicedWindows:
    """The windows of one evaluator: the total's and one for each slice.

    They share a timeline, so that a slice's window advances with the stream
    also while the slice has no events.

    Args:
        spec: What windows there are.
        plan: What their state sets keep.
        slicer: Which slices an event belongs to.
        time_unit: Unit of numeric event times, or None.

    Attributes:
        total: The window of all events that are not late.
        slices: The windows of the slices.
    """

    __slots__ = (
        "_needs_time",
        "_plan",
        "_slicer",
        "_spec",
        "_time_unit",
        "slices",
        "timeline",
        "total",
    )

    def __init__(
        self, spec: WindowSpec, plan: StatePlan, slicer: Slicer, time_unit: str | None
    ) -> None:
        self._spec = spec
        self._plan = plan
        self._slicer = slicer
        self._time_unit = time_unit
        self._needs_time = spec.needs_time
        self.timeline: BucketTimeline | None = spec.timeline()
        self.total: Window = spec.open(plan, self.timeline)
        self.slices: dict[SliceKey, Window] = {}

    @property
    def alone(self) -> bool:
        """Whether every event is counted in the total only, whatever its time."""
        return self.timeline is None and not self._slicer.dimensions

    def follow(self, other: SlicedWindows, newest: int | None) -> None:
        """Continue another's timeline and open slices, without its events."""
        if self.timeline is not None and newest is not None:
            self.timeline.reach(newest)
        self._slicer.reserve(other.slices.keys(), other._slicer.opened)

    def add(self, event: EventFields, event_time: object, slices: object) -> None:
        """Count an event unless it is too late, or raise InputError and change nothing."""
        self._spec.check_weight(event[3])
        moment = self._moment(event_time) if self._needs_time else None
        keys = self._slicer.keys(slices) if self._slicer.dimensions else ()
        timeline = self.timeline
        if timeline is not None:
            if moment is None:
                moment = int(timeline.tick(1)[0])
            if timeline.drops(moment):
                timeline.admit(moment)
                return
        for key in keys:
            window = self.slices.get(key)
            if window is None:
                window = self.slices.get(self._slicer.located(key, self.slices))
            if window is not None:
                window.check(event, moment)
        # The last call that can refuse: a new slice has room for what the total accepts.
        self.total.add(event, moment)
        if timeline is not None:
            timeline.admit(moment)  # type: ignore[arg-type]
        for key in keys:
            window = self.slices.get(key)
            if window is None:
                window = self._open(self._slicer.admit(key, self.slices))
            window.add(event, moment)

    def _moment(self, value: object) -> int:
        if value is None:
            raise clock.time_missing()
        return clock.event_time(value, self._time_unit, first=self._at_start)

    @property
    def _at_start(self) -> bool:
        return self.timeline is not None and self.timeline.latest is None

    def _open(self, key: SliceKey) -> Window:
        window = self.slices.get(key)
        if window is None:
            window = self.slices[key] = self._spec.open(self._plan, self.timeline)
        return window

    def add_many(self, batch: EventBatch, event_time: object, slices: object) -> None:
        """Count a batch as its events one by one, or raise InputError and change nothing."""
        self._spec.check_weight(batch.weight)
        if self.alone:
            self.total.add_many(batch, None)
            return
        moments = None
        if self._needs_time:
            if event_time is None:
                raise clock.time_missing()
            moments = clock.event_times(
                event_time, len(batch), self._time_unit, first=self._at_start
            )
        groups: Iterable[SliceRows] = ()
        if self._slicer.dimensions:
            groups = list(self._slicer.groups(slices, len(batch)))
        timeline = self.timeline
        arrivals = kept = None
        if timeline is not None:
            if moments is None:
                moments = timeline.tick(len(batch))
            arrivals = timeline.arrivals(moments)
            kept = arrivals.kept
        parts = [(self.total, slice(None) if kept is None else kept)]
        assigned, slicer = self._slicer.assign(groups, kept, self.slices)
        opened: dict[SliceKey, Window] = {}
        few: list[tuple[Window, IntArray]] = []
        for key, rows in assigned:
            window = self.slices.get(key)
            if window is None:
                window = opened[key] = self._spec.open(self._plan, timeline)
            (parts if len(rows) > _FEW else few).append((window, rows))
        # Whatever can be refused is refused here.
        counting = [
            window.prepare(
                batch if isinstance(rows, slice) else batch.take(rows),
                None if moments is None else moments[rows],
            )
            for window, rows in parts
        ]
        singles = self._singles(few, batch, moments)
        for window, event, moment, weight in singles:
            window.check((*event[:3], weight), moment)
        if timeline is not None and arrivals is not None:
            timeline.admit_many(arrivals)
        self._slicer.take_counts(slicer)
        self.slices |= opened
        for count in counting:
            count()
        for window, event, moment, _ in singles:
            window.add(event, moment)

    def _singles(
        self, few: list[tuple[Window, IntArray]], batch: EventBatch, moments: IntArray | None
    ) -> list[tuple[Window, EventFields, int | None, Weight]]:
        """The events of slices of a few events, for which numpy would take longer.

        Each with its window, its moment, and the total weight of its slice in the batch.
        """
        if not few:
            return []
        taken = np.concatenate([rows for _, rows in few])
        events = list(batch.take(taken).events())
        times = [None] * len(taken) if moments is None else moments[taken].tolist()
        singles: list[tuple[Window, EventFields, int | None, Weight]] = []
        start = 0
        for window, rows in few:
            mine = slice(start, start + len(rows))
            weight = sum(event.weight for event in events[mine])
            pairs = zip(events[mine], times[mine], strict=True)
            singles += [(window, event, moment, weight) for event, moment in pairs]
            start = mine.stop
        return singles

    def remove(self, event: EventFields, event_time: object, slices: object) -> None:
        """Undo one earlier event in each of its windows, or raise InputError and change nothing."""
        moment = self._moment(event_time) if self._needs_time else None
        if self.timeline is not None and moment is None:
            raise InputError(
                "revert",
                expected="a window of event time",
                got="one that fades by the number of events, where this event's is not known",
            )
        keys = self._slicer.keys(slices) if self._slicer.dimensions else []
        undone: list[Undo] = [self.total.remove(event, moment)]
        try:
            for key in keys:
                undone.append(self._remove_from_slice(key, event, moment))
        except InputError:
            # Not counted in one of its slices, so not an event of this evaluator.
            for undo in reversed(undone):
                undo()
            raise

    def _remove_from_slice(self, key: SliceKey, event: EventFields, moment: int | None) -> Undo:
        window = self.slices.get(self._slicer.located(key, self.slices))
        if window is None:
            raise InputError(
                "revert", expected="an event that was counted", got=f"none in {slice_name(key)}"
            )
        return window.remove(event, moment)

    def check_merge(self, other: SlicedWindows) -> None:
        """Raise StateError where the windows of two shards cannot be merged."""
        self.total.check_merge(other.total)

    def merge(self, other: SlicedWindows) -> None:
        """Add another shard's events; the operand is unchanged."""
        if self.timeline is not None and other.timeline is not None:
            self.timeline.merge(other.timeline)
        self.total.merge(other.total)
        for key in other.in_order():
            place = self._slicer.admit(key, self.slices)
            self._open(place).merge(other.slices[key])
        self._slicer.overflowed += other._slicer.overflowed

    def in_order(self) -> list[SliceKey]:
        """The slices' keys, sorted."""
        return sorted(self.slices, key=slice_order)

    def retained(self) -> dict[str, Any]:
        """What the total's window keeps, and how many slices there are."""
        kept = dict(self.total.retained())
        if self._slicer.dimensions:
            kept["slices"] = len(self.slices)
            # One more called "(other)" for each dimension.
            kept["slices_at_most"] = self._slicer.max_slices + len(self._slicer.dimensions)
        return kept

    def to_state(self) -> dict[str, Any]:
        """Plain canonical data."""
        return {
            "window": self.total.to_state(),
            "timeline": None if self.timeline is None else self.timeline.to_state(),
            "slices": [
                {"key": [list(pair) for pair in key], "window": self.slices[key].to_state()}
                for key in self.in_order()
            ],
            "slices_overflowed": self._slicer.overflowed,
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Take over a saved state; raises StateError."""
        timeline = data.get("timeline")
        if self.timeline is not None:
            self.timeline.restore(part_of(timeline, "timeline"))
        elif timeline is not None:
            raise StateError(f"timeline: expected null, got {shown(timeline)}")
        window = part_of(data.get("window"), "window")
        self.total = self._spec.restore(window, self._plan, self.timeline)
        saved, overflowed = data.get("slices"), data.get("slices_overflowed")
        if not isinstance(saved, list):
            raise StateError(f"slices: expected a list, got {shown(saved)}")
        if type(overflowed) is not int or overflowed < 0:
            raise StateError(f"slices_overflowed: expected a count, got {shown(overflowed)}")
        self._slicer.overflowed = overflowed
        keys = [self._slice_of(item) for item in saved]
        if sorted(keys, key=slice_order) != keys:
            raise StateError("slices: expected them sorted")
        if len(set(keys)) != len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise StateError(f"slices: {shown(slice_name(twice))} is there twice")
        for key, item in zip(keys, saved, strict=True):
            self._restore_slice(key, item)
        if self._slicer.opened > self._slicer.max_slices:
            raise StateError(
                f"slices: expected at most {self._slicer.max_slices}, got {self._slicer.opened}"
            )

    def _slice_of(self, item: object) -> SliceKey:
        if not isinstance(item, dict) or set(item) != {"key", "window"}:
            raise StateError(f"slices: expected a key and a window, got {shown(item)}")
        return self._slicer.key_from_state(item["key"])

    def _restore_slice(self, key: SliceKey, item: Mapping[str, Any]) -> None:
        window = self._spec.restore(part_of(item["window"], "window"), self._plan, self.timeline)
        # An older version kept "7" beside 7, which are one slice now.
        one = tuple((name, slice_value(value)) for name, value in key)
        known = self.slices.get(one)
        if known is not None:
            try:
                known.check_merge(window)
            except StateError:
                one = key  # not mergeable, so it stays beside the other, with its value quoted
            else:
                known.merge(window)
                return
        self.slices[one] = window
        self._slicer.reopen(one)

    def _check(self) -> None:
        for window in (self.total, *self.slices.values()):
            window._check()
        named = [key for key in self.slices if key != other_key(key)]
        reserved = [key for key in self._slicer.reserved if key != other_key(key)]
        assert self._slicer.opened == len({*named, *reserved}) <= self._slicer.max_slices


def part_of(part: object, key: str) -> dict[str, Any]:
    """An object within a saved state; raises StateError for anything else."""
    if not isinstance(part, dict):
        raise StateError(f"{key}: expected an object, got {shown(part)}")
    return part
