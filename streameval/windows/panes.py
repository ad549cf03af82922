"""Event time: tumbling and sliding windows made of panes that merge.

Time is cut into panes of equal length, counted from 1970-01-01 UTC. Each pane
has its own state set; the window is the merge of the newest ones. Old events are
dropped by pane: subtracted in integers, never in floats.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Self

from streameval.errors import InputError, StateError
from streameval.events.event import EventBatch, EventFields
from streameval.events.time import LATEST, duration, duration_text, iso_time
from streameval.events.values import IntArray
from streameval.states.backend import compiled
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows.time_buckets import BucketTimeline, TimeBuckets
from streameval.windows.window import (
    FastPath,
    PaneMark,
    Undo,
    Window,
    WindowKey,
    WindowKind,
    WindowSample,
    WindowSpec,
)

if TYPE_CHECKING:
    from streameval.states.native.batch_partition import BatchPartition


class PanesFastPath:
    """The attributes that compiled code reads and changes, in Python."""

    __slots__ = ("_merged", "_merged_at", "_read_at", "_timeline", "buckets")


_NATIVE: Any = compiled("streameval.states.native.native_fast_path")

if not TYPE_CHECKING and _NATIVE is not None:
    PanesFastPath = _NATIVE.PanesFastPath

# Subtracting a pane costs as much as so many merges: scores are merged in bulk, at 25 ns each, and
# removed one by one.
_REMOVAL = 4

MAX_PANES = 100_000
"""Most panes that a window may retain: a guard against a pane of a microsecond."""


@dataclass(frozen=True, slots=True)
class Panes(WindowSpec):
    """The events of the last ``length`` of event time, in steps of ``pane``.

    The window holds the newest ``length / pane`` panes; the newest of all is
    the one with the latest event time, and is still filling. With
    ``pane == length`` (the default) windows tumble, with a shorter pane they
    slide. The latest event time less ``lateness`` is the watermark: an event
    whose pane ended before it is dropped and counted in ``late_dropped``;
    any other is counted in its own pane; the order of arrival has no effect.

    Args:
        length: A multiple of ``pane``, as ``"1h"`` or a timedelta.
        pane: As ``"5m"``; ``length`` by default.
        lateness: How long a pane still takes events after its end.
        retain: For how long panes are kept for :meth:`~streameval.Evaluator.series`;
            at least (and by default) ``length + lateness``.

    Cost:
        An event: one update of its states, two once the window has been read. The first
        read: a merge of all panes; with fractional weights each read after time has moved on.
        A step to another pane: one pane's size. Memory: the states of at most :attr:`retained`
        panes a slice; panes that take no more events are kept as compact bytes.

    >>> Panes("1h", pane="5m", lateness="10m").panes
    12
    """

    length: str | timedelta
    pane: str | timedelta | None = None
    lateness: str | timedelta = "0s"
    retain: str | timedelta | None = None
    length_us: int = field(init=False, repr=False)
    pane_us: int = field(init=False, repr=False)
    lateness_us: int = field(init=False, repr=False)
    retain_us: int = field(init=False, repr=False)
    needs_time: ClassVar[bool] = True

    def __post_init__(self) -> None:
        length = duration(self.length, "Panes(length)")
        pane = length if self.pane is None else duration(self.pane, "Panes(pane)")
        lateness = duration(self.lateness, "Panes(lateness)", zero=True)
        if length % pane:
            expected = f"a multiple of the pane, {duration_text(pane)}"
            raise InputError("Panes(length)", expected=expected, got=duration_text(length))
        retain = length + lateness
        if self.retain is not None:
            wanted = duration(self.retain, "Panes(retain)")
            if wanted < retain:
                expected = f"at least length + lateness, {duration_text(retain)}"
                raise InputError("Panes(retain)", expected=expected, got=duration_text(wanted))
            retain = wanted
        if retain // pane > MAX_PANES:
            expected = f"panes so long that at most {MAX_PANES} are retained"
            got = f"{duration_text(pane)} for {duration_text(retain)}"
            raise InputError("Panes(pane)", expected=expected, got=got)
        sizes = {"length": length, "pane": pane, "lateness": lateness, "retain": retain}
        for name, value in sizes.items():
            object.__setattr__(self, f"{name}_us", value)

    @property
    def panes(self) -> int:
        """How many panes make the window."""
        return self.length_us // self.pane_us

    @property
    def retained(self) -> int:
        """The most panes that are ever kept."""
        return -(-self.retain_us // self.pane_us) + 1

    def timeline(self) -> BucketTimeline:
        names = ("on_time", "late_kept", "late_dropped")
        return BucketTimeline(self.pane_us, self.retained, names, self._arrival, timed=True)

    def _arrival(self, moment: Any, latest: Any) -> Any:
        """0 for an event in time, 1 for one that is late and kept, 2 for one that is dropped."""
        end = moment - moment % self.pane_us + self.pane_us
        return 1 * (end <= latest) + (end <= latest - self.lateness_us)

    def open(self, plan: StatePlan, timeline: BucketTimeline) -> PanesWindow:
        return PanesWindow(self, plan, timeline)

    def to_options(self) -> dict[str, Any]:
        return {
            "kind": "panes",
            "length": self.length_us,
            "pane": self.pane_us,
            "lateness": self.lateness_us,
            "retain": self.retain_us,
        }


class PanesWindow(PanesFastPath, Window):
    """The state sets of the retained panes, and the merge of those inside the window."""

    # The merge is made at the first read and then kept current: an event is added to it too, and
    # a pane that leaves the window is subtracted, exactly, in integers.

    __slots__ = ("_panes", "_plan")

    def __init__(self, spec: Panes, plan: StatePlan, timeline: BucketTimeline) -> None:
        self.buckets = TimeBuckets(plan, timeline, "pane")
        self._panes = spec.panes
        self._plan = plan
        self._timeline = timeline
        self._merged: StateSet | None = None
        self._merged_at: int | None = None
        self._read_at: int | None = None

    def fast_path(self) -> FastPath | None:
        if _NATIVE is None:
            return None
        return FastPath(self, compiled=lambda metric: _NATIVE.MergeReader(self, metric).read)

    def check(self, event: EventFields, event_time: int | None) -> None:
        assert event_time is not None
        self._advance()
        merged = self._merge_with(event_time // self._timeline.width)
        if merged is not None:
            merged.check(*event)

    def add(self, event: EventFields, event_time: int | None) -> None:
        assert event_time is not None
        timeline = self._timeline
        number = event_time // timeline.width
        if number < timeline.oldest:
            return  # dropped by the end of its batch
        if self._merged_at != timeline.newest:
            self._advance()
        merged = None if self._merged is None else self._merge_with(number)
        if merged is not None:
            merged.check(*event)
        self.buckets.update(number, event)
        if merged is not None:
            merged.add(*event)

    def stage(self, batch: EventBatch, event_times: IntArray | None) -> Callable[[], None]:
        assert event_times is not None
        self._advance()
        parts = self.buckets.parts(batch, event_times)
        self.buckets.check_parts(parts)
        if self._merged is not None and any(self._inside(number) for number, _ in parts):
            # Of all events, also those outside: stricter than needed near the limit only.
            self._merged.check_many(batch)
        return functools.partial(self._add_parts, parts)

    def _add_parts(self, parts: list[tuple[int, EventBatch]]) -> None:
        for number, part in parts:
            # Panes that the end of the batch has passed are dropped.
            if self._timeline.keeps(number):
                self.buckets.live(number).add_many(part)
                merged = self._merge_with(number)
                if merged is not None:
                    merged.add_many(part)
        self._advance(force=True)

    def takes_partition(self, numbers: list[int]) -> bool:
        self._advance()
        fits = self._merged is None or self._merged.takes_partition()
        return fits and self.buckets.takes_partition(numbers)

    def add_parts(
        self, sets: BatchPartition, first: int, numbers: list[int], closed: Collection[int]
    ) -> None:
        # Not yet what is closed: it would be frozen, and thawed for its last events.
        if self._merged_at != self._timeline.newest:
            self._update_merge(self._timeline.newest)
        for n, number in enumerate(numbers, first):
            self.buckets.add_part(number, sets, n, closed=number in closed)
            merged = self._merge_with(number)
            if merged is not None:
                merged.add_part(sets, n)
        self.buckets.prune(force=True)

    def remove(self, event: EventFields, event_time: int | None) -> Undo:
        assert event_time is not None
        self._advance()
        number = event_time // self._timeline.width
        if number not in self.buckets:
            raise InputError(
                "revert",
                expected="an event in one of the retained panes",
                got="one that was not counted or whose pane has been dropped",
            )
        self.buckets.live(number).revert(*event)
        merged = self._merge_with(number)
        if self._plan.max_scores is not None:
            # The merge may have wider cells than the panes that remain.
            self._merged = None
        elif merged is not None and merged.has_whole_weights:
            merged.revert(*event)
        elif merged is not None:
            self._merged = None  # with float sums of other panes
        self.buckets.drop_empty(number)
        return functools.partial(self.add, event, event_time)

    def _inside(self, number: int) -> bool:
        newest = self._merged_at
        return newest is not None and newest - self._panes < number <= newest

    def _merge_with(self, number: int) -> StateSet | None:
        """The merge, if it was read and this pane is inside."""
        return self._merged if self._merged is not None and self._inside(number) else None

    def _advance(self, *, force: bool = False) -> None:
        """Once a new pane has begun: update the merge, drop old panes, freeze closed ones."""
        newest = self._timeline.newest
        if self._merged_at != newest:
            self._update_merge(newest)
        self.buckets.prune(force=force)

    def _update_merge(self, newest: int | None) -> None:
        """Subtract the panes that left the window from the merge, and add those that entered."""
        merged, before, read = self._merged, self._merged_at, self._read_at
        self._merged, self._merged_at = None, newest
        if merged is None or before is None or read is None or newest is None:
            return
        if not before < newest <= read + self._panes or not merged.exact:
            return
        kept = [number for number in self.buckets if before - self._panes < number]
        left = [number for number in kept if number <= newest - self._panes]
        entered = [number for number in kept if number > before]
        if _REMOVAL * len(left) > len(kept) - len(left) - len(entered):
            return
        try:
            for number in left:
                merged.merge(self.buckets.read(number), -1)
            for number in entered:
                merged.merge(self.buckets.read(number))
        except StateError:
            return  # more weight than a state set can hold, which the next read reports
        self._merged = merged

    def _merge_of_panes(self) -> StateSet:
        merged = StateSet(self._plan)
        for number in self.buckets:
            if self._inside(number):
                merged.merge(self.buckets.read(number))
        return merged

    def current(self) -> StateSet:
        self._advance()
        self._read_at = self._timeline.newest
        if self._merged is None:
            self._merged = self._merge_of_panes()
        return self._merged

    def parts(self) -> list[StateSet]:
        self._advance()
        return [self.buckets.read(number) for number in self.buckets if self._inside(number)]

    def marked(self) -> list[PaneMark]:
        self._advance()
        newest, width = self._timeline.newest, self._timeline.width
        if not len(self.buckets) or newest is None:
            return []
        return [
            PaneMark(number * width, (number + 1) * width, self.buckets.frozen(number))
            for number in range(min(self.buckets), newest + 1)
        ]

    def state_set_from(self, start: int) -> StateSet:
        return self.buckets.read(start // self._timeline.width)

    def retained(self) -> dict[str, Any]:
        self._advance()
        timeline = self._timeline
        since = None if timeline.newest is None else iso_time(timeline.oldest * timeline.width)
        frozen = [data for number in self.buckets if (data := self.buckets.frozen(number))]
        return {
            "panes": len(self.buckets),
            "panes_at_most": timeline.kept,
            "panes_frozen": len(frozen),
            "frozen_bytes": sum(map(len, frozen)),
            "since": since,
        }

    def check_merge(self, other: Self) -> None:
        self.buckets.check_merge(other.buckets)
        for number in other.buckets:
            merged = self._merge_with(number)
            if merged is not None:
                merged.check_merge(other.buckets.read(number))

    def merge(self, other: Self) -> None:
        self._advance()
        for number, part in self.buckets.kept_of(other.buckets):
            self.buckets.live(number).merge(part)
            merged = self._merge_with(number)
            if merged is not None:
                try:
                    merged.merge(part)
                except StateError:
                    self._merged = None  # more than a state set can hold: the next read says so
        self._advance(force=True)

    def to_state(self) -> dict[str, Any]:
        self._advance()
        return self.buckets.to_state()

    def restore(self, data: dict[str, Any]) -> None:
        self.buckets.restore(data)

    def _check(self) -> None:
        # A slice's window advances when it is next used.
        self._advance()
        self.buckets._check()
        if self._merged is not None and self._merged.exact:
            self._merged._check()
            assert self._merged == self._merge_of_panes()


def _widest(spec: Panes) -> Panes:
    if spec.retain is not None:
        return spec
    most = min(MAX_PANES, LATEST // spec.pane_us) * spec.pane_us
    return replace(spec, retain=timedelta(microseconds=max(most, spec.retain_us)))


def _words(spec: Panes) -> str:
    length, pane, lateness = map(duration_text, (spec.length_us, spec.pane_us, spec.lateness_us))
    return (
        f"the last {length} in panes of {pane}, each taking events until {lateness} after its end"
    )


PANES = WindowKind(
    name="panes",
    spec=Panes,
    clock="time",
    sizes=("length", "pane"),
    named=("lateness", "retain"),
    forms=("panes:1h", "panes:1h/5m,lateness=10m,retain=7d"),
    help="Event time: panes:1h, in steps panes:1h/5m, with options "
    "panes:1h/5m,lateness=10m,retain=7d.",
    keys=(
        WindowKey("length", "The length of event time that counts, up to the newest event.", "1h"),
        WindowKey("pane", "The step in which the window advances. Not set: `length`.", "5m"),
        WindowKey(
            "lateness",
            "The grace period: how long a pane accepts events after its end. Not set: `join.wait`, "
            "or `length` without a join.",
            "24h",
            "duration or zero",
        ),
        WindowKey(
            "retain",
            "How long panes are kept for the metric over time. Not set: `length` and `lateness`.",
            "3d",
        ),
    ),
    steps=("pane", "length"),
    waits="lateness",
    covers="retain",
    sample=WindowSample("hour", "The last hour of event time, in steps of five minutes."),
    label=lambda given: " in panes of ".join(
        given[key] for key in ("length", "pane") if key in given
    ),
    words=_words,
    widest=_widest,
)
