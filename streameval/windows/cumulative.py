"""All events: the default window."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from streameval.events.event import EventBatch, EventFields
from streameval.events.values import IntArray
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows.window import FastPath, Undo, WindowKind, WindowSample

if TYPE_CHECKING:
    from streameval.states.native.batch_partition import BatchPartition


@dataclass(frozen=True, slots=True)
class Cumulative:
    """All events since the beginning.

    >>> Cumulative().needs_time
    False
    """

    needs_time: ClassVar[bool] = False
    keeps_order: ClassVar[bool] = True

    def check_weight(self, weight: object) -> None:
        """Accepts every weight."""

    def timeline(self) -> None:
        """None: event times are not used."""

    def open(self, plan: StatePlan, timeline: object = None) -> CumulativeWindow:
        """A new empty window."""
        return CumulativeWindow(StateSet(plan))

    def restore(
        self, data: dict[str, Any], plan: StatePlan, timeline: object = None
    ) -> CumulativeWindow:
        """The window of a saved state; raises StateError."""
        return CumulativeWindow(StateSet.from_state(data, plan))

    def to_options(self) -> dict[str, Any]:
        """Plain data that names the specification."""
        return {"kind": "cumulative"}


class CumulativeWindow:
    """One state set that every event is counted in."""

    __slots__ = ("state_set",)

    def __init__(self, state_set: StateSet) -> None:
        self.state_set = state_set

    def fast_path(self) -> FastPath:
        """Every event is counted in the one state set."""
        return FastPath(self.state_set.fast_path(), self.state_set, every=True)

    def check(self, event: EventFields, event_time: int | None) -> None:
        """A slice holds no more than the total."""

    def add(self, event: EventFields, event_time: int | None) -> None:
        """Count one validated event, or raise InputError and change nothing."""
        self.state_set.update(*event)

    def stage(self, batch: EventBatch, event_times: IntArray | None) -> Callable[[], None]:
        """Check a validated batch; the result counts it and cannot fail."""
        self.state_set.check_many(batch)
        return functools.partial(self.state_set.add_many, batch)

    def takes_partition(self, numbers: list[int]) -> bool:
        """Whether :meth:`add_parts` can count here."""
        return self.state_set.takes_partition()

    def add_parts(
        self, sets: BatchPartition, first: int, numbers: list[int], closed: Collection[int]
    ) -> None:
        """Count the one set that is the window's."""
        self.state_set.add_part(sets, first)

    def remove(self, event: EventFields, event_time: int | None) -> Undo:
        """Undo one earlier event exactly, or raise InputError and change nothing."""
        self.state_set.revert(*event)
        return functools.partial(self.state_set.update, *event)

    def current(self) -> StateSet:
        """The state set of all events; for reading only."""
        return self.state_set

    def check_merge(self, other: CumulativeWindow) -> None:
        """Refused where the two are too much for one state set."""
        self.state_set.check_merge(other.state_set)

    def merge(self, other: CumulativeWindow) -> None:
        """Add another shard's events."""
        self.state_set.merge(other.state_set)

    def retained(self) -> dict[str, Any]:
        """Nothing: no event is retained, only the state set."""
        return {}

    def to_state(self) -> dict[str, Any]:
        """The state set's plain data."""
        return self.state_set.to_state()

    def _check(self) -> None:
        self.state_set._check()


CUMULATIVE = WindowKind(
    name="cumulative",
    spec=Cumulative,
    sample=WindowSample("all", "All of them."),
    label=lambda given: "all events",
    words=lambda spec: "every event",
)
