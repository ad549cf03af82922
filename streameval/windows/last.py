"""The last n events: a ring of events and exact removal of the oldest."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events.event import EventBatch, EventFields
from streameval.events.values import FloatArray, IntArray, Weight
from streameval.states.backend import compiled
from streameval.states.fields import Fields
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows.window import FastPath, Undo, Window, WindowKind, WindowSpec

_NATIVE: Any = compiled("streameval.states.native.native_fast_path")

MAX_EVENTS = 100_000_000
"""Largest window: its events are all kept."""

Ring: TypeAlias = Any
"""A deque of events, oldest first; or a ``NativeEventRing``, of binary events of weight 1."""


@dataclass(frozen=True, slots=True)
class Last(WindowSpec):
    """The last ``n`` events (of each slice).

    Every metric is exact after every event. Weights must be whole, because
    the oldest event is evicted by subtraction, which is exact for integers only.
    Two such windows cannot be merged: shards have no common order.

    Args:
        n: How many events, from 1 to 100,000,000; all of them are kept.

    Cost:
        O(log n) an event for scores, O(1) for labels; memory for n events: about 25 bytes
        each for binary events with a score in compiled code, else about 150.

    >>> from streameval import Evaluator
    >>> ev = Evaluator(task="multiclass", window=Last(2))
    >>> _ = ev.update_many(["a", "a", "b"], ["b", "a", "b"])
    >>> ev["accuracy"]
    1.0
    """

    n: int
    keeps_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.n, int) or isinstance(self.n, bool) or not 1 <= self.n <= MAX_EVENTS:
            raise InputError(
                "Last(n)", expected=f"a number of events from 1 to {MAX_EVENTS}", got=shown(self.n)
            )
        object.__setattr__(self, "n", int(self.n))  # of a subclass too, as a state has it

    def check_weight(self, weight: Weight | IntArray | FloatArray | None) -> None:
        if isinstance(weight, np.ndarray):
            if weight.dtype.kind == "f":
                position = int(np.argmax(weight != np.floor(weight)))
                raise _fraction(float(weight[position]), position)
        elif isinstance(weight, float):
            raise _fraction(weight, None)

    def open(self, plan: StatePlan, timeline: object = None) -> LastWindow:
        return LastWindow(self.n, plan)

    def to_options(self) -> dict[str, Any]:
        return {"kind": "last", "n": self.n}


class LastWindow(Window):
    """A ring of the events inside, oldest first, and their state set."""

    __slots__ = ("_compiled", "_n", "_ordered", "_plan", "_ring", "state_set")

    def __init__(self, n: int, plan: StatePlan) -> None:
        self._n = n
        self._plan = plan
        self._ordered = plan.ordered
        self._compiled = compiled_ring(n, plan)
        self._ring: Ring = deque() if self._compiled is None else self._compiled
        self.state_set = StateSet(self._plan)

    def _keep_weights(self) -> None:
        """Move the events from the compiled ring, whose events weigh 1, to a deque."""
        if not isinstance(self._ring, deque):
            held: deque[EventFields] = deque(self._ring)
            self._ring.drop(len(held))
            self._ring = held

    def fast_path(self) -> FastPath:
        """Counts by the compiled ring while it is in use, else by the deque."""
        states, counts = self.state_set.fast_path(), None
        if states is not None:
            binary = self._plan.task_row.kernel == "two classes"
            counts = _NATIVE.LastFastPath(self, self._n, self._compiled, states, binary)
        return FastPath(counts, self.state_set)

    def check(self, event: EventFields, event_time: int | None) -> None:
        self.state_set.check(*event)

    def add(self, event: EventFields, event_time: int | None) -> None:
        """Count one event and evict the oldest when there are more than n."""
        if event[3] != 1:
            self._keep_weights()
        ring = self._ring
        self.state_set.update(*event)
        ring.append(event)
        if len(ring) > self._n:
            self._evict()

    def _evict(self) -> None:
        ring = self._ring
        oldest = ring.popleft()
        self.state_set.remove(*oldest)
        self.state_set.forget_oldest(oldest[0], ring[0][0] if ring else None)

    def stage(self, batch: EventBatch, event_times: IntArray | None) -> Callable[[], None]:
        n = self._n
        if len(batch) > n:
            batch = batch.take(slice(len(batch) - n, None))
        leaving = len(self._ring) + len(batch) - n
        if 2 * leaving > n:
            # Most of the window changes: counting it anew costs less than eviction.
            return self._renewal(batch, leaving)
        self.state_set.check_many(batch)
        return functools.partial(self._append, batch)

    def _append(self, batch: EventBatch) -> None:
        if batch.weight is not None:
            self._keep_weights()
        self.state_set.add_many(batch)
        _extend(self._ring, batch)
        while len(self._ring) > self._n:
            self._evict()

    def _renewal(self, batch: EventBatch, leaving: int) -> Callable[[], None]:
        kept = deque(islice(self._ring, leaving, None))
        state_set = StateSet(self._plan)
        for event in kept:
            state_set.update(*event)
        state_set.update_many(batch)
        weighted = batch.weight is not None or any(event[3] != 1 for event in kept)

        def renew() -> None:
            self.state_set.become(state_set)
            self._ring = kept
            if self._compiled is not None:
                self._compiled.drop(len(self._compiled))
                if not weighted:
                    self._compiled.extend(kept)
                    self._ring = self._compiled
            _extend(self._ring, batch)

        return renew

    def remove(self, event: EventFields, event_time: int | None) -> Undo:
        """Undo the newest event inside that equals this one; the others keep their order."""
        ring = self._ring
        back = _newest(ring, event)
        if not back:
            raise InputError(
                "revert",
                expected=f"an event among the last {self._n}",
                got="one that was not counted or has been evicted",
            )
        position = len(ring) - back
        del ring[position]
        self.state_set.remove(*event)
        self.state_set.reorder(self._labels())
        return functools.partial(self._put_back, event, position)

    def _put_back(self, event: EventFields, position: int) -> None:
        self._ring.insert(position, event)
        self.state_set.update(*event)
        if self._ordered:
            # Counted as the newest, which it need not be.
            self.state_set.reorder(self._labels())

    def _labels(self) -> Iterable[Any]:
        return (event[0] for event in self._ring) if self._ordered else ()

    def current(self) -> StateSet:
        return self.state_set

    def check_merge(self, other: Self) -> None:
        if self._ring and other._ring:
            raise StateError(
                f"Last({self._n}) windows cannot be merged: which events are the last of two "
                "streams is not known; use Panes(...) or Fading(...), which go by event time"
            )

    def merge(self, other: Self) -> None:
        """Take over the other's events, if this window has none."""
        self.check_merge(other)
        for event in other._ring:
            self.add(event, None)

    def retained(self) -> dict[str, Any]:
        return {"events": len(self._ring), "events_at_most": self._n}

    def to_state(self) -> dict[str, Any]:
        return self._plan.task_row.write_events(self._ring)

    def restore(self, data: dict[str, Any]) -> None:
        task = self._plan.task_row
        Fields(data, "window", task.write_events([]).keys())
        events = task.read_events(data, self._plan)
        if len(events) > self._n:
            raise StateError(f"window: expected at most {self._n} events, got {len(events)}")
        for event in events:
            try:
                self.add(event, None)
            except InputError as error:
                raise StateError(f"window: {error}") from None

    def _check(self) -> None:
        assert len(self._ring) <= self._n
        self.state_set._check()
        fresh = StateSet(self._plan)
        for event in self._ring:
            fresh.update(*event)
        held, expected = self.state_set.to_state(), fresh.to_state()
        assert repr(held) == repr(expected)


def _extend(ring: Ring, batch: EventBatch) -> None:
    if isinstance(ring, deque):
        ring.extend(tuple(event) for event in batch.events())
    else:
        assert batch.y_pred is not None
        ring.extend_columns(batch.y_true, batch.y_pred, batch.score)


def _fraction(weight: object, position: int | None) -> InputError:
    return InputError(
        "weight",
        expected="a whole weight, because Last(n) evicts old events by subtraction",
        got=shown(weight),
        position=position,
        remedy="use Panes(...) or Fading(...) for fractional weights",
    )


def compiled_ring(most: int, plan: StatePlan) -> Any:
    """A compiled ring of events of two classes; None if a deque is used."""
    module = compiled("streameval.states.native.event_ring")
    if plan.task_row.kernel != "two classes" or plan.ordered or module is None:
        return None
    return module.NativeEventRing(most)


def _newest(ring: Ring, event: EventFields) -> int:
    """How far back the newest event equal to this one lies, 1 for the last; 0 if there is none."""
    if isinstance(ring, deque):
        return next((back for back, other in enumerate(reversed(ring), 1) if other == event), 0)
    back: int = ring.newest(event)
    return back


LAST = WindowKind(
    name="last",
    spec=Last,
    sizes=("n",),
    forms=("last:10000",),
    help="The last n: last:10000.",
    label=lambda given: f"the last {given['n']}",
    words=lambda spec: f"the last {spec.n} events",
)
