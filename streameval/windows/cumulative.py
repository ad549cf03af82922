"""Every event counts, for ever: the default window."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streameval.events import IntArray
from streameval.tally import Batch, Plan, Tally
from streameval.windows.window import EventFields, Undo, WindowKind

__all__ = ["CUMULATIVE", "Cumulative", "CumulativeWindow"]


@dataclass(frozen=True, slots=True)
class Cumulative:
    """All events since the beginning.

    >>> Cumulative().needs_time
    False
    """

    @property
    def needs_time(self) -> bool:
        """Event times are not looked at."""
        return False

    @property
    def keeps_order(self) -> bool:
        """Events count in the order in which they come."""
        return True

    def check_weight(self, weight: object) -> None:
        """Any weight will do."""

    def timeline(self) -> None:
        """None: event time does not matter."""

    def open(self, plan: Plan, timeline: object = None) -> CumulativeWindow:
        """A new empty window."""
        return CumulativeWindow(Tally(plan))

    def restore(
        self, data: dict[str, Any], plan: Plan, timeline: object = None
    ) -> CumulativeWindow:
        """The window of a saved state; raises StateError."""
        return CumulativeWindow(Tally.from_state(data, plan))

    def to_options(self) -> dict[str, Any]:
        """Plain data that names the specification."""
        return {"kind": "cumulative"}


class CumulativeWindow:
    """One tally that every event is counted in."""

    __slots__ = ("steady",)

    compiled_way = None
    series = None

    def __init__(self, tally: Tally) -> None:
        self.steady = tally

    def check(self, event: EventFields, event_time: int | None) -> None:
        """Raise what :meth:`add` of this event would raise; nothing is counted."""
        self.steady.check(*event)

    def add(self, event: EventFields, event_time: int | None) -> None:
        """Count one validated event, or raise InputError and change nothing."""
        self.steady.update(*event)

    def add_many(self, batch: Batch, event_times: IntArray | None) -> None:
        """Count a validated batch, or raise InputError and change nothing."""
        self.steady.update_many(batch)

    def prepare(self, batch: Batch, event_times: IntArray | None) -> Callable[[], None]:
        """Check a validated batch; the result counts it and cannot fail."""
        self.steady.check_many(batch)
        return functools.partial(self.steady.update_many, batch)

    def remove(self, event: EventFields, event_time: int | None) -> Undo:
        """Undo one earlier event exactly, or raise InputError and change nothing."""
        self.steady.revert(*event)
        return functools.partial(self.steady.update, *event)

    def current(self) -> Tally:
        """The tally of all events; for reading only."""
        return self.steady

    def check_merge(self, other: CumulativeWindow) -> None:
        """Any two can be merged."""

    def merge(self, other: CumulativeWindow) -> None:
        """Add another shard's events."""
        self.steady.merge(other.steady)

    def retained(self) -> dict[str, Any]:
        """No events as such, only what the tally sums up."""
        return {}

    def to_state(self) -> dict[str, Any]:
        """The tally's plain data."""
        return self.steady.to_state()

    def _check(self) -> None:
        self.steady._check()


CUMULATIVE = WindowKind(
    name="cumulative",
    spec=Cumulative,
    template="""\
# All of them.
[[window]]
# Letters, digits, - _ and .
name = "all"
""",
    label=lambda given: "all events",
    words=lambda spec: "every event",
)
