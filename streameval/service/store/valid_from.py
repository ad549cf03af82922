"""The time from which on each part of a store holds events, and what follows for an event.

A part that begins later (a window, a slice, the counts of labels, the sums of scores)
holds the events from one moment on, and no earlier event is ever added to it. With a join
that moment is an *event time*, later than the time of every record read before: so the
event alone decides, also when its label is corrected a day later. Without a join no
event is ever reverted, and events that are read after the change count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from streameval.evaluator.evaluator import Evaluator
from streameval.events.time import iso_time
from streameval.events.values import IntArray
from streameval.service.store.dialect import Connection, decoded
from streameval.windows import Panes, window_spec

VALID_FROM = "run.begins"
"""The key in ``meta`` of the written form."""

Dimensions: TypeAlias = tuple[tuple[str, ...], ...]


class HeldPart(NamedTuple):
    """The slices and counts of a window that hold an event; the others begin later."""

    dimensions: Dimensions
    labels: bool
    scores: bool


class ValidFrom(msgspec.Struct):
    """Microseconds since 1970 from which on parts of a store hold events; missing: all events."""

    joined: bool = False
    """Whether the moments are event times; else times of reading. Those of ``panes`` always are."""
    windows: dict[str, int] = {}
    slices: dict[str, int] = {}
    labels: int | None = None
    scores: int | None = None
    panes: dict[str, int] = {}
    """Windows whose panes before this event time had been dropped when ``retain`` grew."""

    def parts(
        self, window: str, dimensions: Dimensions, times: IntArray | None
    ) -> list[tuple[IntArray | None, HeldPart | None]]:
        """Rows of a batch by the part of a window that they belong to."""
        borders = self._borders(window)
        if not borders or times is None or not len(times) or int(times.min()) >= borders[-1]:
            return [(None, None)]
        found: list[tuple[IntArray | None, HeldPart | None]] = []
        codes = np.searchsorted(np.array(borders), times, side="right")
        for code in np.unique(codes).tolist():
            rows = np.flatnonzero(codes == code)
            part = self.part(window, dimensions, int(times[rows[0]]))
            if part is None or part.labels or part.scores:
                found.append((rows, part))
        return found

    def _borders(self, window: str) -> list[int]:
        borders = {self.panes.get(window)}
        if self.joined:
            borders |= {self.windows.get(window), self.labels, self.scores, *self.slices.values()}
        return sorted(time for time in borders if time is not None)

    def part(self, window: str, dimensions: Dimensions, time: int) -> HeldPart | None:
        """What of a window holds an event of this time; None: the whole window."""

        def holds(begin: int | None) -> bool:
            return begin is None or time >= begin

        there = holds(self.panes.get(window))
        if self.joined:
            there = there and holds(self.windows.get(window))
            part = HeldPart(
                tuple(d for d in dimensions if holds(self.slices.get("+".join(d)))),
                there and holds(self.labels),
                there and holds(self.scores),
            )
            return None if part == (dimensions, True, True) else part
        return None if there else HeldPart((), False, False)


def latest_valid_from(found: Iterable[ValidFrom]) -> ValidFrom:
    """The moments from which on the parts hold the events of every unit."""

    def latest(*times: int | None) -> int | None:
        return max((time for time in times if time is not None), default=None)

    def by_name(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
        return {name: max(d[name] for d in (one, other) if name in d) for name in {**one, **other}}

    whole = ValidFrom()
    for one in found:
        whole = ValidFrom(
            one.joined,
            by_name(whole.windows, one.windows),
            by_name(whole.slices, one.slices),
            latest(whole.labels, one.labels),
            latest(whole.scores, one.scores),
            by_name(whole.panes, one.panes),
        )
    return whole


def read_valid_from(connection: Connection) -> ValidFrom:
    """The moments of a store; raises StoreError where they are damaged."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (VALID_FROM,)).fetchone()
    return (
        ValidFrom() if row is None else decoded(row[0], ValidFrom, "the beginning of its parts is")
    )


def note_valid_from(valid_from: ValidFrom, window: str, evaluator: Evaluator) -> str:
    """Add the beginning of its parts to the reports of a window; returns it in words as well."""
    spec = window_spec(evaluator.options["window"])
    since = valid_from.windows.get(window)
    cut = valid_from.panes.get(window)
    newest = evaluator.newest
    if cut is not None and isinstance(spec, Panes) and newest is not None:
        first = (newest // spec.pane_us - spec.panes + 1) * spec.pane_us
        if first < cut:
            since = cut if since is None else max(since, cut)

    def later(begin: int | None) -> str | None:
        if begin is None or (since is not None and begin <= since):
            return None
        return iso_time(begin)

    slices = {name: later(begin) for name, begin in sorted(valid_from.slices.items())}
    notes: dict[str, Any] = {
        "since": None if since is None else iso_time(since),
        "slices_since": {name: at for name, at in slices.items() if at is not None} or None,
        "labels_since": later(valid_from.labels),
        "scores_since": later(valid_from.scores),
    }
    evaluator.note(notes, later=valid_from.labels is not None or valid_from.scores is not None)
    return since_text(notes)


def since_text(notes: Mapping[str, Any]) -> str:
    """The beginning of the parts of a report, by its notes; empty where they hold all events."""
    parts = [
        ("since", notes.get("since")),
        ("labels since", notes.get("labels_since")),
        ("scores since", notes.get("scores_since")),
        *((f"slice {name} since", at) for name, at in (notes.get("slices_since") or {}).items()),
    ]
    return "".join(f", {what} {moment}" for what, moment in parts if moment is not None)
