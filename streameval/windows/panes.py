"""Event time: tumbling and sliding windows made of panes that merge.

Time is cut into panes of equal length, counted from 1970-01-01 UTC. Each pane
has a tally of its own; the window is the merge of the newest ones. What is old is
dropped pane by pane: subtracted in integers, never in floats.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.event_time import (
    EARLIEST,
    LATEST,
    duration,
    duration_text,
    iso_time,
    time_missing,
)
from streameval.events import IntArray
from streameval.tally import Batch, Plan, Tally
from streameval.windows.frozen import freeze, thaw
from streameval.windows.grouping import grouped
from streameval.windows.window import EventFields, Undo

__all__ = ["PaneMark", "PaneRow", "PaneTimeline", "Panes", "PanesWindow"]

_REMOVAL = 4
"""Subtracting a pane is worth so many merges: many scores merge in bulk, at 25 ns each, and are
taken out one by one."""

MAX_PANES = 100_000
"""Most panes that a window may retain: a guard against a pane of a microsecond."""


@dataclass(frozen=True, slots=True)
class Panes:
    """The events of the last ``length`` of event time, in steps of ``pane``.

    The window holds the newest ``length / pane`` panes; the newest of all is
    the one with the latest event time, and is still filling. With
    ``pane == length`` (the default) windows tumble, with a shorter pane they
    slide. The latest event time less ``lateness`` is the watermark: an event
    whose pane ended before it is dropped and counted in ``late_dropped``;
    any other goes to its own pane, in whatever order it comes.

    Args:
        length: A multiple of ``pane``, as ``"1h"`` or a timedelta.
        pane: As ``"5m"``; ``length`` when left out.
        lateness: How long a pane still takes events after its end.
        retain: For how long panes are kept for :meth:`~streameval.Evaluator.series`;
            at least (and when left out) ``length + lateness``.

    Cost:
        An event: that of its states, twice once the window has been read. The
        first read: a merge of all panes, as each read after time has moved on
        where weights are not whole. A step to another pane: one pane's size.
        Memory: the states of at most :attr:`retained` panes a slice; panes
        that take no more events are kept as compact bytes.

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

    def __post_init__(self) -> None:
        length = duration(self.length, "Panes(length)")
        pane = length if self.pane is None else duration(self.pane, "Panes(pane)")
        lateness = duration(self.lateness, "Panes(lateness)", zero=True)
        if length % pane:
            raise InputError(
                "Panes(length)",
                expected=f"a multiple of the pane, {duration_text(pane)}",
                got=duration_text(length),
            )
        retain = length + lateness
        if self.retain is not None:
            asked = duration(self.retain, "Panes(retain)")
            if asked < retain:
                raise InputError(
                    "Panes(retain)",
                    expected=f"at least length + lateness, {duration_text(retain)}",
                    got=duration_text(asked),
                )
            retain = asked
        if retain // pane > MAX_PANES:
            raise InputError(
                "Panes(pane)",
                expected=f"panes so long that at most {MAX_PANES} are retained",
                got=f"{duration_text(pane)} for {duration_text(retain)}",
            )
        for name, value in (
            ("length", length),
            ("pane", pane),
            ("lateness", lateness),
            ("retain", retain),
        ):
            object.__setattr__(self, f"{name}_us", value)

    @property
    def panes(self) -> int:
        """How many panes make the window."""
        return self.length_us // self.pane_us

    @property
    def retained(self) -> int:
        """The most panes that are ever kept."""
        return -(-self.retain_us // self.pane_us) + 1

    @property
    def needs_time(self) -> bool:
        """Every event must bring its event time."""
        return True

    @property
    def keeps_order(self) -> bool:
        """Inside a pane nobody knows which event came first."""
        return False

    def check_weight(self, weight: object) -> None:
        """Any weight will do."""

    def timeline(self) -> PaneTimeline:
        """A new timeline for all the windows of an evaluator."""
        return PaneTimeline(self)

    def open(self, plan: Plan, timeline: PaneTimeline) -> PanesWindow:
        """A new empty window."""
        return PanesWindow(self, plan, timeline)

    def restore(self, data: dict[str, Any], plan: Plan, timeline: PaneTimeline) -> PanesWindow:
        """The window of a saved state; raises StateError."""
        window = PanesWindow(self, plan, timeline)
        if (
            not isinstance(data, dict)
            or set(data) != {"panes"}
            or not isinstance(data["panes"], list)
        ):
            raise StateError(f"window: expected its panes, got {shown(data)}")
        before: int | None = None
        for item in data["panes"]:
            if not isinstance(item, dict) or set(item) != {"pane", "tally"}:
                raise StateError(f"window.panes: expected a pane and its tally, got {shown(item)}")
            number = item["pane"]
            if type(number) is not int or not timeline.keeps(number):
                raise StateError(f"window.panes: expected a pane that is kept, got {shown(number)}")
            if before is not None and number <= before:
                raise StateError(f"window.panes: expected ascending panes, got {number} late")
            before = number
            window._panes[number] = Tally.from_state(item["tally"], plan)
            window._thawed.add(number)
        return window

    def to_options(self) -> dict[str, Any]:
        """Plain data that names the specification."""
        return {
            "kind": "panes",
            "length": self.length_us,
            "pane": self.pane_us,
            "lateness": self.lateness_us,
            "retain": self.retain_us,
        }


class PaneTimeline:
    """The stream's latest event time, and what came in time or late.

    ``on_time`` events came before their pane ended, ``late_kept`` ones after
    that but inside the lateness, ``late_dropped`` ones later still. The three
    add up to all events.
    """

    __slots__ = ("late_dropped", "late_kept", "latest", "on_time", "spec")

    def __init__(self, spec: Panes) -> None:
        self.spec = spec
        self.latest: int | None = None
        self.on_time = 0
        self.late_kept = 0
        self.late_dropped = 0

    @property
    def newest(self) -> int | None:
        """Number of the pane that the latest event fell into."""
        return None if self.latest is None else self.latest // self.spec.pane_us

    @property
    def oldest_kept(self) -> int | None:
        """Number of the oldest pane that is still kept.

        Counted back from the newest pane and not from the latest moment, so
        that what is kept changes only when a new pane begins.
        """
        newest = self.newest
        return None if newest is None else newest - self.spec.retained + 1

    def keeps(self, pane: int) -> bool:
        """Whether a pane of this number would be kept."""
        oldest, newest = self.oldest_kept, self.newest
        return oldest is not None and newest is not None and oldest <= pane <= newest

    def closed(self, pane: int) -> bool:
        """Whether a pane takes no more events."""
        end = (pane + 1) * self.spec.pane_us
        return self.latest is not None and end <= self.latest - self.spec.lateness_us

    def tick(self, count: int) -> IntArray:
        """Raises InputError: events must bring their time."""
        raise time_missing()

    def admit(self, event_time: int) -> bool:
        """Note an event's time; False where it comes too late and is only counted."""
        latest = self.latest
        if latest is None or event_time >= latest:
            self.latest = event_time
            self.on_time += 1
            return True
        pane = self.spec.pane_us
        end = event_time - event_time % pane + pane
        if end > latest:
            self.on_time += 1
        elif end > latest - self.spec.lateness_us:
            self.late_kept += 1
        else:
            self.late_dropped += 1
            return False
        return True

    def admit_many(self, event_times: IntArray) -> IntArray | None:
        """Rows of the events in time, as if admitted one by one; None where all are."""
        if not len(event_times):
            return None
        running = np.maximum.accumulate(event_times)
        latest = np.empty_like(running)
        latest[1:] = running[:-1]
        latest[0] = event_times[0] if self.latest is None else self.latest
        if self.latest is not None:
            np.maximum(latest, self.latest, out=latest)
        pane = self.spec.pane_us
        ends = event_times - event_times % pane + pane
        on_time = ends > latest
        kept = ends > latest - self.spec.lateness_us
        counted = int(np.count_nonzero(kept))
        punctual = int(np.count_nonzero(on_time))
        self.on_time += punctual
        self.late_kept += counted - punctual
        self.late_dropped += len(event_times) - counted
        self.latest = max(int(running[-1]), int(latest[-1]))
        return None if counted == len(event_times) else np.flatnonzero(kept)

    def merge(self, other: PaneTimeline) -> None:
        """Know the other's latest time and counts."""
        if other.latest is not None:
            self.latest = other.latest if self.latest is None else max(self.latest, other.latest)
        self.on_time += other.on_time
        self.late_kept += other.late_kept
        self.late_dropped += other.late_dropped

    def counts(self) -> dict[str, int]:
        """Events on time, late and kept, late and dropped."""
        return {
            "on_time": self.on_time,
            "late_kept": self.late_kept,
            "late_dropped": self.late_dropped,
        }

    def to_state(self) -> dict[str, Any]:
        """Plain data."""
        return {"latest": self.latest, **self.counts()}

    def restore(self, data: dict[str, Any]) -> None:
        """Take over a saved state; raises StateError."""
        if not isinstance(data, dict) or set(data) != {"latest", *self.counts()}:
            raise StateError(f"timeline: expected {['latest', *self.counts()]}, got {shown(data)}")
        for name, value in data.items():
            good = type(value) is int and (
                EARLIEST <= value <= LATEST if name == "latest" else 0 <= value < 2**62
            )
            if not good and not (name == "latest" and value is None):
                raise StateError(f"timeline.{name}: expected a whole number, got {shown(value)}")
            setattr(self, name, value)


class PaneRow(NamedTuple):
    """A retained pane: its borders in microseconds, and its tally."""

    start: int
    end: int
    tally: Tally


class PaneMark(NamedTuple):
    """A retained pane's borders, and whether it is still the same."""

    start: int
    end: int
    frozen: bytes | None
    """The same object for as long as the pane's events are the same; None while it fills."""


class PanesWindow:
    """The tallies of the retained panes; closed ones as compact bytes.

    The merge of the panes inside the window is made at the first read and
    then kept current: an event is added to it too, and a pane that leaves the
    window is subtracted, exactly, in integers.
    """

    __slots__ = (
        "_merged",
        "_merged_at",
        "_panes",
        "_plan",
        "_pruned_at",
        "_read_at",
        "_spec",
        "_thawed",
        "_timeline",
    )

    def __init__(self, spec: Panes, plan: Plan, timeline: PaneTimeline) -> None:
        self._spec = spec
        self._plan = plan
        self._timeline = timeline
        self._panes: dict[int, Tally | bytes] = {}
        self._thawed: set[int] = set()
        self._merged: Tally | None = None
        self._merged_at: int | None = None
        self._pruned_at: int | None = None
        self._read_at: int | None = None

    def _live(self, number: int) -> Tally:
        tally = self._panes.get(number)
        if tally is None or isinstance(tally, bytes):
            tally = Tally(self._plan) if tally is None else thaw(tally, self._plan)
            self._panes[number] = tally
            self._thawed.add(number)
        return tally

    def _read(self, number: int) -> Tally:
        """A pane's tally, without keeping a frozen one thawed."""
        tally = self._panes[number]
        return thaw(tally, self._plan) if isinstance(tally, bytes) else tally

    def _drop_empty(self, number: int) -> None:
        if self._live(number) == Tally(self._plan):
            del self._panes[number]

    def add(self, event: EventFields, event_time: int | None) -> None:
        """Count one admitted event in its pane."""
        assert event_time is not None
        number = event_time // self._spec.pane_us
        if not self._timeline.keeps(number):
            return  # it came in a batch, by whose end its pane is dropped again
        try:
            self._live(number).update(*event)
        except InputError:
            self._drop_empty(number)
            raise
        if self._merged is not None and self._inside(number):
            self._merged.update(*event)
        self._settle()

    def add_many(self, batch: Batch, event_times: IntArray | None) -> None:
        """Count an admitted batch, each event in its pane."""
        assert event_times is not None
        # Forgotten where a part of the batch is refused.
        merged, self._merged = self._merged, None
        for number, rows in grouped(event_times // self._spec.pane_us):
            # A batch may span more than is retained: what is old by its end is not kept.
            if self._timeline.keeps(number):
                part = batch if rows is None else batch.take(rows)
                self._live(number).update_many(part)
                if merged is not None and self._inside(number):
                    merged.update_many(part)
        self._merged = merged
        self._settle(force=True)

    def remove(self, event: EventFields, event_time: int | None) -> Undo:
        """Undo one earlier event in its own pane, or raise InputError and change nothing.

        The watermark and the counts of arrivals stay: they tell what came.
        """
        assert event_time is not None
        self._settle()
        number = event_time // self._spec.pane_us
        if number not in self._panes:
            raise InputError(
                "revert",
                expected="an event in one of the retained panes",
                got="one that never came or whose pane has been dropped",
            )
        self._live(number).revert(*event)
        if self._merged is not None and self._inside(number):
            self._merged.revert(*event)
        self._drop_empty(number)
        return functools.partial(self.add, event, event_time)

    def _inside(self, number: int) -> bool:
        newest = self._merged_at
        return newest is not None and newest - self._spec.panes < number <= newest

    def _settle(self, *, force: bool = False) -> None:
        """When time has moved on to another pane: move the merge on, drop and freeze."""
        newest = self._timeline.newest
        if newest == self._pruned_at and not force:
            return
        self._pruned_at = newest
        if self._merged_at != newest:
            self._move_on(newest)
        oldest = self._timeline.oldest_kept
        if newest is None or oldest is None:
            return
        for number in [n for n in self._panes if n < oldest]:
            del self._panes[number]
        for number in list(self._thawed):
            tally = self._panes.get(number)
            if tally is None:
                self._thawed.discard(number)
            elif self._timeline.closed(number):
                self._thawed.discard(number)
                self._panes[number] = freeze(tally)  # type: ignore[arg-type]

    def _move_on(self, newest: int | None) -> None:
        """Take the panes that have left out of the merge and add those that have entered.

        The merge is forgotten where its weights are not whole, where too many panes have left
        at once, and where it has not been read for the length of the window.
        """
        merged, before, read = self._merged, self._merged_at, self._read_at
        self._merged, self._merged_at = None, newest
        panes = self._spec.panes
        if merged is None or before is None or read is None or newest is None:
            return
        if not before < newest <= read + panes or not merged.exact:
            return
        kept = [number for number in self._panes if before - panes < number]
        left = [number for number in kept if number <= newest - panes]
        entered = [number for number in kept if number > before]
        if _REMOVAL * len(left) > len(kept) - len(left) - len(entered):
            return
        for number in left:
            merged.subtract(self._read(number))
        for number in entered:
            merged.merge(self._read(number))
        self._merged = merged

    def _merge_of_panes(self) -> Tally:
        merged = Tally(self._plan)
        for number in sorted(self._panes):
            if self._inside(number):
                merged.merge(self._read(number))
        return merged

    def current(self) -> Tally:
        """The merge of the panes inside; for reading only."""
        self._settle()
        self._read_at = self._timeline.newest
        if self._merged is None:
            self._merged_at = self._read_at
            self._merged = self._merge_of_panes()
        return self._merged

    def rows(self) -> list[PaneRow]:
        """Every pane from the oldest that holds events to the newest, empty ones included."""
        self._settle()
        newest = self._timeline.newest
        if not self._panes or newest is None:
            return []
        length = self._spec.pane_us
        return [
            PaneRow(
                number * length,
                (number + 1) * length,
                self._read(number) if number in self._panes else Tally(self._plan),
            )
            for number in range(min(self._panes), newest + 1)
        ]

    def marked(self) -> list[PaneMark]:
        """What :meth:`rows` gives, without the tallies."""
        self._settle()
        newest = self._timeline.newest
        if not self._panes or newest is None:
            return []
        length = self._spec.pane_us
        marks = []
        for number in range(min(self._panes), newest + 1):
            pane = self._panes.get(number, b"")
            frozen = pane if isinstance(pane, bytes) else None
            marks.append(PaneMark(number * length, (number + 1) * length, frozen))
        return marks

    def tally_from(self, start: int) -> Tally:
        """The tally of the pane that starts at this moment; for reading only."""
        number = start // self._spec.pane_us
        return self._read(number) if number in self._panes else Tally(self._plan)

    def retained(self) -> dict[str, Any]:
        """Panes that hold events, the most there can be, and the time from which on they are kept.

        ``panes_frozen`` of them take no more events and are held as
        ``frozen_bytes`` in all.
        """
        self._settle()
        frozen = [pane for pane in self._panes.values() if isinstance(pane, bytes)]
        oldest = self._timeline.oldest_kept
        since = None if oldest is None else iso_time(oldest * self._spec.pane_us)
        return {
            "panes": len(self._panes),
            "panes_at_most": self._spec.retained,
            "panes_frozen": len(frozen),
            "frozen_bytes": sum(map(len, frozen)),
            "since": since,
        }

    def check_merge(self, other: PanesWindow) -> None:
        """Any two can be merged."""

    def merge(self, other: PanesWindow) -> None:
        """Add another shard's panes, pane by pane; the timelines are merged before."""
        self._settle()  # forgets the merge where the window has moved on
        for number in sorted(other._panes):
            if self._timeline.keeps(number):
                part = other._read(number)
                self._live(number).merge(part)
                if self._merged is not None and self._inside(number):
                    self._merged.merge(part)
        self._settle(force=True)

    def to_state(self) -> dict[str, Any]:
        """The retained panes in order."""
        self._settle()
        return {
            "panes": [
                {"pane": number, "tally": self._read(number).to_state()}
                for number in sorted(self._panes)
            ]
        }

    def _check(self) -> None:
        # A slice's window moves on when it is next used.
        self._settle()
        live = {n for n, pane in self._panes.items() if not isinstance(pane, bytes)}
        assert live <= self._thawed
        for number in self._panes:
            assert self._timeline.keeps(number)
            self._read(number)._check()
        if self._merged is not None and self._merged.exact:
            self._merged._check()
            assert self._merged == self._merge_of_panes()
