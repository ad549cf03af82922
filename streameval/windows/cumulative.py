"""All events: the default window."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

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

    needs_time: ClassVar[bool] = False
    keeps_order: ClassVar[bool] = True

    def check_weight(self, weight: object) -> None:
        """Any weight will do."""

    def timeline(self) -> None:
        """None: event times are not used."""

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

    __slots__ = ("tally",)

    plain = True
    compiled_way = None
    series = None

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    def check(self, event: EventFields, event_time: int | None) -> None:
        """Raise what :meth:`add` of this event would raise; nothing is counted."""
        self.tally.check(*event)

    def add(self, event: EventFields, event_time: int | None) -> None:
        """Count one validated event, or raise InputError and change nothing."""
        self.tally.update(*event)

    def add_many(self, batch: Batch, event_times: IntArray | None) -> None:
        """Count a validated batch, or raise InputError and change nothing."""
        self.tally.update_many(batch)

    def prepare(self, batch: Batch, event_times: IntArray | None) -> Callable[[], None]:
        """Check a validated batch; the result counts it and cannot fail."""
        self.tally.check_many(batch)
        return functools.partial(self.tally.update_many, batch)

    def remove(self, event: EventFields, event_time: int | None) -> Undo:
        """Undo one earlier event exactly, or raise InputError and change nothing."""
        self.tally.revert(*event)
        return functools.partial(self.tally.update, *event)

    def current(self) -> Tally:
        """The tally of all events; for reading only."""
        return self.tally

    def check_merge(self, other: CumulativeWindow) -> None:
        """Any two can be merged."""

    def merge(self, other: CumulativeWindow) -> None:
        """Add another shard's events."""
        self.tally.merge(other.tally)

    def retained(self) -> dict[str, Any]:
        """Nothing: no event is retained, only the tally."""
        return {}

    def to_state(self) -> dict[str, Any]:
        """The tally's plain data."""
        return self.tally.to_state()

    def _check(self) -> None:
        self.tally._check()


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
