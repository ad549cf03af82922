"""The last n events: a ring of events and exact removal of the oldest."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events import FloatArray, IntArray, Weight
from streameval.tally import Batch, Event, Plan, Tally
from streameval.windows.ring_state import events_from_state, events_to_state
from streameval.windows.window import EventFields

__all__ = ["Last", "LastWindow"]

MAX_EVENTS = 100_000_000
"""Largest window: its events are all kept."""


@dataclass(frozen=True, slots=True)
class Last:
    """The last ``n`` events (of each slice).

    Every metric is exact after every event. Weights must be whole, because
    an old event is taken out again, and only integers are taken out exactly.
    Two such windows cannot be merged: shards have no common order.

    Args:
        n: How many events, from 1 to 100,000,000; all of them are kept.

    Cost:
        O(log n) an event for scores, O(1) for labels; memory for n events.
    """

    n: int

    def __post_init__(self) -> None:
        if not isinstance(self.n, int) or isinstance(self.n, bool) or not 1 <= self.n <= MAX_EVENTS:
            raise InputError(
                "Last(n)", expected=f"a number of events from 1 to {MAX_EVENTS}", got=shown(self.n)
            )

    @property
    def needs_time(self) -> bool:
        """Event times are not looked at."""
        return False

    def check_weight(self, weight: Weight | IntArray | FloatArray | None) -> None:
        """Raise InputError for a weight that is not whole."""
        if isinstance(weight, np.ndarray):
            if weight.dtype.kind == "f":
                position = int(np.argmax(weight != np.floor(weight)))
                raise _fraction(float(weight[position]), position)
        elif isinstance(weight, float):
            raise _fraction(weight, None)

    def timeline(self) -> None:
        """None: event time does not matter."""

    def open(self, plan: Plan, timeline: object = None) -> LastWindow:
        """A new empty window."""
        return LastWindow(self.n, plan)

    def restore(self, data: dict[str, Any], plan: Plan, timeline: object = None) -> LastWindow:
        """The window of a saved state; raises StateError."""
        window = LastWindow(self.n, plan)
        events = events_from_state(data, plan)
        if len(events) > self.n:
            raise StateError(f"window: expected at most {self.n} events, got {len(events)}")
        for event in events:
            try:
                window.add(event, None)
            except InputError as error:
                raise StateError(f"window: {error}") from None
        return window

    def to_options(self) -> dict[str, Any]:
        """Plain data that names the specification."""
        return {"kind": "last", "n": self.n}


class LastWindow:
    """A ring of the events inside, oldest first, and their tally."""

    __slots__ = ("_n", "_plan", "_ring", "_tally")

    def __init__(self, n: int, plan: Plan) -> None:
        self._n = n
        self._plan = plan
        self._ring: deque[EventFields] = deque()
        self._tally = Tally(plan)

    def __len__(self) -> int:
        return len(self._ring)

    def add(self, event: EventFields, event_time: int | None) -> None:
        """Count one event and forget the oldest when there are more than n."""
        ring = self._ring
        self._tally.update(*event)
        ring.append(event)
        if len(ring) > self._n:
            self._evict()

    def _evict(self) -> None:
        ring = self._ring
        oldest = ring.popleft()
        if self._tally.succession is None:
            self._tally.revert(*oldest)
        else:
            self._tally.evict_oldest(Event(*oldest), Event(*ring[0]) if ring else None)

    def add_many(self, batch: Batch, event_times: IntArray | None) -> None:
        """Count a batch; events that would fall out again are never counted."""
        if len(batch) > self._n:
            batch = batch.take(slice(len(batch) - self._n, None))
        events = [tuple(event) for event in batch.events()]
        leaving = len(self._ring) + len(events) - self._n
        if 2 * leaving > self._n:
            # Most of the window changes: counting it anew costs less than taking out.
            kept = list(islice(self._ring, leaving, None))
            self._tally = Tally(self._plan)
            self._ring = deque()
            for event in kept:
                self._tally.update(*event)
            self._ring.extend(kept)
        self._tally.update_many(batch)
        self._ring.extend(events)  # type: ignore[arg-type]
        while len(self._ring) > self._n:
            self._evict()

    def remove(self, event: EventFields, event_time: int | None) -> None:
        """Undo the newest event inside that equals this one.

        Raises:
            InputError: It is not inside (any more).
        """
        ring = self._ring
        for back in range(1, len(ring) + 1):
            if ring[-back] == event:
                self._tally.revert(*event)
                del ring[-back]
                return
        raise InputError(
            "revert",
            expected=f"an event among the last {self._n}",
            got="one that never came or has left the window",
        )

    def current(self) -> Tally:
        """The tally of the events inside; for reading only."""
        return self._tally

    def merge(self, other: LastWindow) -> None:
        """Refused, unless one of the two is empty: shards have no common order."""
        if not len(other):
            return
        if len(self._ring):
            raise StateError(
                f"Last({self._n}) windows cannot be merged: which events are the last of two "
                "streams is not known; use Panes(...) or Fading(...), which go by event time"
            )
        for event in other._ring:
            self.add(event, None)

    def to_state(self) -> dict[str, Any]:
        """The events inside, oldest first."""
        return events_to_state(self._ring, self._plan)

    def _check(self) -> None:
        assert len(self._ring) <= self._n
        self._tally._check()
        fresh = Tally(self._plan)
        for event in self._ring:
            fresh.update(*event)
        assert fresh.to_state().keys() == self._tally.to_state().keys()


def _fraction(weight: object, position: int | None) -> InputError:
    return InputError(
        "weight",
        expected="a whole weight, because Last(n) takes old events out again",
        got=shown(weight),
        position=position,
        remedy="use Panes(...) or Fading(...) for fractional weights",
    )
