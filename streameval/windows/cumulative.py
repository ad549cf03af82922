"""All events: the default window."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from streameval.events.event import EventBatch, EventFields
from streameval.events.values import IntArray
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows.window import FastPath, Undo, Window, WindowKind, WindowSample, WindowSpec

if TYPE_CHECKING:
    from streameval.states.native.batch_partition import BatchPartition


@dataclass(frozen=True, slots=True)
class Cumulative(WindowSpec):
    """All events since the beginning.

    >>> Cumulative().needs_time
    False
    """

    keeps_order: ClassVar[bool] = True

    def open(self, plan: StatePlan, timeline: object = None) -> CumulativeWindow:
        return CumulativeWindow(StateSet(plan))

    def to_options(self) -> dict[str, Any]:
        return {"kind": "cumulative"}


class CumulativeWindow(Window):
    """One state set that every event is counted in."""

    __slots__ = ("state_set",)

    def __init__(self, state_set: StateSet) -> None:
        self.state_set = state_set

    def fast_path(self) -> FastPath:
        return FastPath(self.state_set.fast_path(), self.state_set, every=True)

    def add(self, event: EventFields, event_time: int | None) -> None:
        self.state_set.update(*event)

    def stage(self, batch: EventBatch, event_times: IntArray | None) -> Callable[[], None]:
        self.state_set.check_many(batch)
        return functools.partial(self.state_set.add_many, batch)

    def takes_partition(self, numbers: list[int]) -> bool:
        return self.state_set.takes_partition()

    def add_parts(
        self, sets: BatchPartition, first: int, numbers: list[int], closed: Collection[int]
    ) -> None:
        self.state_set.add_part(sets, first)

    def remove(self, event: EventFields, event_time: int | None) -> Undo:
        self.state_set.revert(*event)
        return functools.partial(self.state_set.update, *event)

    def current(self) -> StateSet:
        return self.state_set

    def check_merge(self, other: Self) -> None:
        self.state_set.check_merge(other.state_set)

    def merge(self, other: Self) -> None:
        self.state_set.merge(other.state_set)

    def to_state(self) -> dict[str, Any]:
        return self.state_set.to_state()

    def restore(self, data: dict[str, Any]) -> None:
        self.state_set = StateSet.from_state(data, self.state_set.plan)

    def _check(self) -> None:
        self.state_set._check()


CUMULATIVE = WindowKind(
    name="cumulative",
    spec=Cumulative,
    sample=WindowSample("all", "All of them."),
    label=lambda given: "all events",
    words=lambda spec: "every event",
)
