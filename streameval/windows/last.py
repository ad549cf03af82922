"""The last n events: a ring of events and exact removal of the oldest."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events import FloatArray, IntArray, Weight
from streameval.lock import PLAIN_LOCK, Lock
from streameval.states.portable_index import PortableScoreIndex
from streameval.states.rolling_index import RollingScoreIndex
from streameval.states.score_index import backend
from streameval.tally import Batch, Plan, Tally
from streameval.windows.ring import Ring, compiled_ring, newest
from streameval.windows.ring_state import events_from_state, events_to_state
from streameval.windows.window import EventFields, Undo

__all__ = ["Last", "LastWindow"]

MAX_EVENTS = 100_000_000
"""Largest window: its events are all kept."""

_ROLLING_MOST = 1_000_000
"""Largest window whose portable score index is made of lists rather than of arrays."""


@dataclass(frozen=True, slots=True)
class Last:
    """The last ``n`` events (of each slice).

    Every metric is exact after every event. Weights must be whole, because
    an old event is taken out again, and only integers are taken out exactly.
    Two such windows cannot be merged: shards have no common order.

    Args:
        n: How many events, from 1 to 100,000,000; all of them are kept.

    Cost:
        O(log n) an event for scores, O(1) for labels; memory for n events:
        with a score about 25 bytes each where binary ones are kept in compiled
        code, else about 150.

    >>> from streameval import Evaluator
    >>> ev = Evaluator(task="multiclass", window=Last(2))
    >>> ev.update_many(["a", "a", "b"], ["b", "a", "b"])
    >>> ev["accuracy"]
    1.0
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

    @property
    def keeps_order(self) -> bool:
        """The events inside are known in their order."""
        return True

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

    __slots__ = ("_compiled", "_n", "_ordered", "_plan", "_ring", "tally")

    tally: Tally
    """What :meth:`current` gives; a single event of weight 1 changes it in place."""

    def __init__(self, n: int, plan: Plan) -> None:
        self._n = n
        self._plan = plan
        self._ordered = plan.ordered
        # One and the same for ever, because an evaluator holds on to its short way in.
        self._compiled = compiled_ring(n, plan)
        self._ring: Ring = deque() if self._compiled is None else self._compiled
        self.tally = self._new_tally()
        self._serve()

    def _new_tally(self) -> Tally:
        tally = Tally(self._plan)
        if tally.index is not None and backend() == "portable" and self._n <= _ROLLING_MOST:
            # Answers every question that metrics ask of a score index.
            tally.put("index", RollingScoreIndex(self._n))
        return tally

    def _serve(self) -> None:
        """Have the compiled ring count into the tally of this moment, if it is in use."""
        if self._compiled is not None:
            self._compiled.serve(self.tally if self._ring is self._compiled else None)

    def _take_weights(self) -> None:
        """Keep events with their weights from now on, because one came."""
        self.tally.put("index", _weighted(self.tally.index))
        if not isinstance(self._ring, deque):
            held: deque[EventFields] = deque(self._ring)
            self._ring.drop(len(held))
            self._ring = held
            self._serve()

    def short_way(
        self, truth: dict[Any, bool], threshold: float, lock: Lock
    ) -> Callable[[object, object, object, object, object], bool] | None:
        """A function that does all there is to do for a plain event; None where there is none.

        It takes y_true, y_pred, score, proba and weight as they came, and
        returns False, having done nothing, where the event is not plain.

        Args:
            truth: From a label to whether it is the positive one.
            threshold: The least score that is predicted positive.
            lock: Taken for as long as it counts.
        """
        if self._compiled is None or isinstance(lock, PLAIN_LOCK):
            return None
        self._compiled.know(truth, threshold, lock)
        return self._compiled.count

    def add(self, event: EventFields, event_time: int | None) -> None:
        """Count one event and forget the oldest when there are more than n."""
        if event[3] != 1:
            self._take_weights()
        ring = self._ring
        if len(ring) < self._n:
            self.tally.update(*event)
            ring.append(event)
            return
        if self._ordered:
            self.tally.update(*event)
            ring.append(event)
            self._evict()
        else:
            self.tally.replace(ring[0], event)
            ring.popleft()
            ring.append(event)

    def _evict(self) -> None:
        ring = self._ring
        oldest = ring.popleft()
        self.tally.evict(oldest, ring[0] if ring else None)

    def add_many(self, batch: Batch, event_times: IntArray | None) -> None:
        """Count a batch; events that would fall out again are never counted."""
        n = self._n
        if len(batch) > n:
            batch = batch.take(slice(len(batch) - n, None))
        leaving = len(self._ring) + len(batch) - n
        if 2 * leaving > n:
            # Most of the window changes: counting it anew costs less than taking out.
            self._renew(batch, leaving)
            return
        if batch.weight is not None:
            self._take_weights()
        self.tally.update_many(batch)
        _extend(self._ring, batch)
        while len(self._ring) > n:
            self._evict()

    def _renew(self, batch: Batch, leaving: int) -> None:
        kept = deque(islice(self._ring, leaving, None))
        tally = self._new_tally()
        weighted = batch.weight is not None or any(event[3] != 1 for event in kept)
        if weighted:
            tally.put("index", _weighted(tally.index))
        for event in kept:
            tally.update(*event)
        tally.update_many(batch)
        # Nothing is refused any more.
        self.tally = tally
        self._ring = kept
        if self._compiled is not None:
            self._compiled.drop(len(self._compiled))
            if not weighted:
                self._compiled.extend(kept)
                self._ring = self._compiled
        self._serve()
        _extend(self._ring, batch)

    def remove(self, event: EventFields, event_time: int | None) -> Undo:
        """Undo the newest event inside that equals this one; the others keep their order.

        Raises:
            InputError: It is not inside (any more).

        Cost:
            O(n).
        """
        ring = self._ring
        back = newest(ring, event)
        if not back:
            raise InputError(
                "revert",
                expected=f"an event among the last {self._n}",
                got="one that never came or has left the window",
            )
        place = len(ring) - back
        del ring[place]
        self.tally.take_out(event, self._labels())
        return functools.partial(self._put_back, event, place)

    def _put_back(self, event: EventFields, place: int) -> None:
        self._ring.insert(place, event)
        self.tally.update(*event)
        if self._ordered:
            # Counted as the newest, which it need not be.
            self.tally.take_out((event[0], None, None, 1), self._labels())

    def _labels(self) -> Iterable[Any]:
        return (event[0] for event in self._ring) if self._ordered else ()

    def current(self) -> Tally:
        """The tally of the events inside; for reading only."""
        return self.tally

    def check_merge(self, other: LastWindow) -> None:
        """Refused, unless one of the two is empty: shards have no common order."""
        if self._ring and other._ring:
            raise StateError(
                f"Last({self._n}) windows cannot be merged: which events are the last of two "
                "streams is not known; use Panes(...) or Fading(...), which go by event time"
            )

    def merge(self, other: LastWindow) -> None:
        """Take over the other's events where there are none here."""
        self.check_merge(other)
        for event in other._ring:
            self.add(event, None)

    def retained(self) -> dict[str, Any]:
        """How many events are inside, and the most that are."""
        return {"events": len(self._ring), "events_at_most": self._n}

    def to_state(self) -> dict[str, Any]:
        """The events inside, oldest first."""
        return events_to_state(self._ring, self._plan)

    def _check(self) -> None:
        assert len(self._ring) <= self._n
        self.tally._check()
        fresh = Tally(self._plan)
        for event in self._ring:
            fresh.update(*event)
        held, expected = self.tally.to_state(), fresh.to_state()
        assert repr(held) == repr(expected)


def _weighted(index: Any) -> Any:
    """The same index, one that takes weights."""
    if isinstance(index, RollingScoreIndex):
        return PortableScoreIndex.from_state(index.to_state())
    return index


def _extend(ring: Ring, batch: Batch) -> None:
    if isinstance(ring, deque):
        ring.extend(tuple(event) for event in batch.events())
    else:
        assert batch.y_pred is not None
        ring.extend_columns(batch.y_true, batch.y_pred, batch.score)


def _fraction(weight: object, position: int | None) -> InputError:
    return InputError(
        "weight",
        expected="a whole weight, because Last(n) takes old events out again",
        got=shown(weight),
        position=position,
        remedy="use Panes(...) or Fading(...) for fractional weights",
    )
