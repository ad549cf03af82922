"""A window of one's own: one module, with one row for :data:`streameval.windows.kinds.KINDS`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from streameval.errors import InputError, StateError, shown
from streameval.events.event import EventBatch, EventFields
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows.window import (
    FastPath,
    Window,
    WindowKey,
    WindowKind,
    WindowSample,
    WindowSpec,
)


@dataclass(frozen=True, slots=True)
class EveryKth(WindowSpec):
    """The first of every ``k`` events (of each slice)."""

    k: int
    keeps_order = True

    def __post_init__(self) -> None:
        if type(self.k) is not int or not 1 <= self.k <= 1000:
            raise InputError("EveryKth(k)", expected="a number from 1 to 1000", got=shown(self.k))

    def open(self, plan: StatePlan, timeline: object) -> EveryKthWindow:
        return EveryKthWindow(self.k, StateSet(plan))

    def to_options(self) -> dict[str, Any]:
        return {"kind": "every", "k": self.k}


class EveryKthWindow(Window):
    """One state set, and how many events have passed."""

    def __init__(self, k: int, state_set: StateSet) -> None:
        self.k, self.state_set, self.seen = k, state_set, 0

    def check(self, event: EventFields, event_time: int | None) -> None:
        self.state_set.check(*event)

    def add(self, event: EventFields, event_time: int | None) -> None:
        if self.seen % self.k == 0:
            self.state_set.update(*event)
        self.seen += 1

    def stage(self, batch: EventBatch, event_times: Any) -> Callable[[], None]:
        part = batch.take(slice(-self.seen % self.k, None, self.k))
        self.state_set.check_many(part)

        def count() -> None:
            self.state_set.update_many(part)
            self.seen += len(batch)

        return count

    def remove(self, event: EventFields, event_time: int | None) -> Callable[[], None]:
        self.state_set.revert(*event)
        return functools.partial(self.state_set.update, *event)

    def fast_path(self) -> FastPath:
        return FastPath(states=self.state_set)

    def current(self) -> StateSet:
        return self.state_set

    def check_merge(self, other: Self) -> None:
        self.state_set.check_merge(other.state_set)

    def merge(self, other: Self) -> None:
        self.state_set.merge(other.state_set)
        self.seen += other.seen

    def retained(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def to_state(self) -> dict[str, Any]:
        return {"seen": self.seen, "tally": self.state_set.to_state()}

    def restore(self, data: dict[str, Any]) -> None:
        if not isinstance(data, dict) or set(data) != {"seen", "tally"}:
            raise StateError(f"window: expected seen and state set, got {shown(data)}")
        self.seen = data["seen"]
        self.state_set = StateSet.from_state(data["tally"], self.state_set.plan)

    def _check(self) -> None:
        self.state_set._check()


EVERY = WindowKind(
    name="every",
    spec=EveryKth,
    sizes=("k",),
    forms=("every:10",),
    help="Every tenth event: every:10.",
    keys=(WindowKey("k", "The step between two events that count.", 10, "count"),),
    sample=WindowSample("tenth", "Every tenth event.", on=False),
    label=lambda given: f"one of {given['k']}",
    words=lambda spec: f"every event whose number is a multiple of {spec.k}",
)
