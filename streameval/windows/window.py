"""What a window is: which events count, as a tally that can be asked at any moment.

A *specification* (:class:`Cumulative`, :class:`Last`, …) is what a user
writes. It opens one *window* for each slice, and, where windows go by event
time, one *timeline* that all windows of an evaluator share: the watermark is
the stream's, not a slice's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self

from streameval.events import EventFields, FloatArray, IntArray, Weight
from streameval.tally import Batch, Plan, Tally

__all__ = ["EventFields", "Timeline", "Undo", "Window", "WindowSpec"]

Undo = Callable[[], None]
"""Puts back what was taken out, to the bit."""


class Timeline(Protocol):
    """Decides whether an event is in time; shared by all windows of an evaluator.

    Times are whole microseconds since 1970-01-01 UTC.
    """

    latest: int | None

    def reach(self, moment: int) -> None:
        """Make this the latest moment."""
        ...

    def tick(self, count: int) -> IntArray:
        """Moments of the next events where the stream's own count is the clock.

        Raises InputError where events must bring their time.
        """
        ...

    def admit(self, event_time: int) -> bool:
        """Note an event's time; False where it comes too late and is only counted."""
        ...

    def admit_many(self, event_times: IntArray) -> IntArray | None:
        """Rows of the events in time, as if admitted one by one; None where all are."""
        ...

    def merge(self, other: Self) -> None:
        """Know what the other knows; the operand is unchanged."""
        ...

    def counts(self) -> dict[str, int]:
        """Events by when they came."""
        ...

    def restore(self, data: dict[str, Any]) -> None:
        """Take over a saved state; raises StateError."""
        ...

    def to_state(self) -> dict[str, Any]:
        """Plain data."""
        ...


class Window(Protocol):
    """The events that count, kept as one tally or more."""

    def add(self, event: EventFields, event_time: int | None) -> None:
        """Count one validated event."""
        ...

    def add_many(self, batch: Batch, event_times: IntArray | None) -> None:
        """Count a validated batch, in its order."""
        ...

    def remove(self, event: EventFields, event_time: int | None) -> Undo:
        """Undo one earlier event exactly, or raise InputError and change nothing."""
        ...

    def current(self) -> Tally:
        """The tally of the events inside now; for reading only."""
        ...

    def check_merge(self, other: Self) -> None:
        """Raise StateError, with the reason, where the two cannot be merged."""
        ...

    def merge(self, other: Self) -> None:
        """Add another shard's events; the operand is unchanged."""
        ...

    def retained(self) -> dict[str, Any]:
        """What is kept, and the most that ever is, under names that tell the unit."""
        ...

    def to_state(self) -> dict[str, Any]:
        """Plain canonical data."""
        ...

    def _check(self) -> None: ...


class WindowSpec(Protocol):
    """What a user passes as ``window=``.

    A window is only ever opened with a timeline of its own specification;
    which class that is, is between the two (hence ``Any``).
    """

    @property
    def needs_time(self) -> bool:
        """Whether every event must bring its ``event_time``."""
        ...

    @property
    def keeps_order(self) -> bool:
        """Whether the events inside are in the order in which they came."""
        ...

    def check_weight(self, weight: Weight | IntArray | FloatArray | None) -> None:
        """Raise InputError for a weight (or a column of them) that this window cannot take."""
        ...

    def timeline(self) -> Timeline | None:
        """A new timeline, or None where event time does not matter."""
        ...

    def open(self, plan: Plan, timeline: Any) -> Window:
        """A new empty window."""
        ...

    def restore(self, data: dict[str, Any], plan: Plan, timeline: Any) -> Window:
        """The window of a saved state; raises StateError."""
        ...

    def to_options(self) -> dict[str, Any]:
        """Plain data that names the specification, for the state file."""
        ...
