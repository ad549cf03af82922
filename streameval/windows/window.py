"""Interfaces of windows: which events count, as a state set that can be read at any time.

A *specification* (:class:`Cumulative`, :class:`Last`, …) is the user's
argument. It opens one *window* for each slice, and, if windows use event
time, one *timeline* that all windows of an evaluator share: the watermark is
the stream's, not a slice's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from streameval.errors import InputError, shown
from streameval.events.event import EventBatch, EventFields
from streameval.events.values import FloatArray, IntArray, Weight
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows.time_buckets import BucketTimeline

if TYPE_CHECKING:
    from streameval.states.native.batch_partition import BatchPartition

Undo = Callable[[], None]
"""Restores the removed event, bit for bit."""


class FastPath(NamedTuple):
    """What counts events in a window, and reads it, past the window's methods.

    A function that reads a metric returns nan if :meth:`Window.current` has to be read instead.
    """

    counts: Any = None
    """The ``WindowFastPath`` that counts an event in compiled code; None in Python."""
    states: StateSet | None = None
    """What :meth:`Window.current` gives, if that object is never replaced."""
    every: bool = False
    """Whether each event is counted in these states, and nowhere else."""
    compiled: Callable[[str], Callable[[], float] | None] | None = None
    """Without such states: from a method of ``StateFastPath`` to what reads it."""
    reader: Callable[[str, str, Callable[[Any], float]], Callable[[], float] | None] | None = None
    """From a metric without parameters, its one state and its function to what reads it."""


class PaneMark(NamedTuple):
    """A retained pane's borders in microseconds, and whether it is still the same."""

    start: int
    end: int
    frozen: bytes | None
    """The same object for as long as the pane's events are the same; None while it fills."""


@runtime_checkable
class PaneSeries(Protocol):
    """A :class:`Window` with panes, from which a series is made."""

    def marked(self) -> list[PaneMark]:
        """Every pane from the oldest that holds events to the newest, empty ones included."""
        ...

    def state_set_from(self, start: int) -> StateSet:
        """The state set of the pane that starts at this moment; for reading only."""
        ...


class Window:
    """The events that count, kept as one state set or more; the base of all windows."""

    __slots__ = ()

    def check(self, event: EventFields, event_time: int | None) -> None:
        """Raise what :meth:`add` raises in a slice for an event that the total accepts."""

    def add(self, event: EventFields, event_time: int | None) -> None:
        """Count one validated event, or raise InputError and change nothing."""
        raise NotImplementedError

    def stage(self, batch: EventBatch, event_times: IntArray | None) -> Callable[[], None]:
        """Check a validated batch, or raise InputError; the result counts it and cannot fail."""
        raise NotImplementedError

    def takes_partition(self, numbers: list[int]) -> bool:
        """Whether :meth:`add_parts` can count in these buckets; else :meth:`stage` has to."""
        return False

    def add_parts(
        self, sets: BatchPartition, first: int, numbers: list[int], closed: Collection[int]
    ) -> None:
        """Count sets of a batch that compiled code has sorted and the timeline has admitted.

        The window's sets are those from ``first`` on, for the buckets ``numbers``, ascending;
        ``closed`` has the buckets that take no more events. A window without buckets has one set.
        """
        raise NotImplementedError

    def remove(self, event: EventFields, event_time: int | None) -> Undo:
        """Undo one earlier event exactly, or raise InputError and change nothing."""
        raise NotImplementedError

    def current(self) -> StateSet:
        """The state set of the events inside now; for reading only."""
        raise NotImplementedError

    def parts(self) -> list[StateSet]:
        """The state sets of consecutive times that the window is the merge of, if it is one."""
        return []

    def fast_path(self) -> FastPath | None:
        """What counts and reads past these methods; None if there is nothing faster."""
        return None

    def check_merge(self, other: Self) -> None:
        """Raise StateError, with the reason, if the two cannot be merged."""

    def merge(self, other: Self) -> None:
        """Add another shard's events; the operand is unchanged."""
        raise NotImplementedError

    def retained(self) -> dict[str, Any]:
        """What is kept, and the most that ever is, under names that contain the unit."""
        return {}

    def to_state(self) -> dict[str, Any]:
        """Plain canonical data."""
        raise NotImplementedError

    def restore(self, data: dict[str, Any]) -> None:
        """Fill an empty window with what :meth:`to_state` wrote; raises StateError."""
        raise NotImplementedError

    def _check(self) -> None:
        raise NotImplementedError


class WindowSpec:
    """What a user passes as ``window=``; the base of all specifications.

    A window is opened with a timeline of its own specification.
    """

    __slots__ = ()

    @property
    def needs_time(self) -> bool:
        """Whether every event requires an ``event_time``."""
        return False

    @property
    def keeps_order(self) -> bool:
        """Whether the order of arrival of the events inside is known."""
        return False

    def check_weight(self, weight: Weight | IntArray | FloatArray | None) -> None:
        """Raise InputError for a weight (or a column of them) that this window cannot take."""

    def timeline(self) -> BucketTimeline | None:
        """A new timeline for all windows of an evaluator; None if time is not used."""
        return None

    def open(self, plan: StatePlan, timeline: Any) -> Window:
        """A new empty window."""
        raise NotImplementedError

    def restore(self, data: dict[str, Any], plan: StatePlan, timeline: Any) -> Window:
        """The window of a saved state; raises StateError."""
        window = self.open(plan, timeline)
        window.restore(data)
        return window

    def to_options(self) -> dict[str, Any]:
        """Plain data that names the specification, for the state file."""
        raise NotImplementedError


MAX_EVENT_WEIGHT = 2**20
"""Largest weight of one event in windows that multiply it, so that no state holds too much."""


def check_multiplied(weight: Weight | IntArray | FloatArray | None, place: str) -> None:
    """Raise InputError for a weight above :data:`MAX_EVENT_WEIGHT`, naming the place."""
    most: Any  # numpy's own number, or the caller's
    if isinstance(weight, np.ndarray):
        most, position = weight.max(initial=0), int(np.argmax(weight)) if len(weight) else None
    else:
        most, position = weight or 0, None
    if most > MAX_EVENT_WEIGHT:
        expected = f"a weight of at most {MAX_EVENT_WEIGHT} {place}"
        raise InputError("weight", expected=expected, got=shown(most), position=position)


class WindowKey(NamedTuple):
    """A key of a ``[[window]]`` in a service's configuration; each is also an argument."""

    name: str
    about: str
    """The description of the key for users."""
    example: str | int
    type: Literal["duration", "duration or zero", "count"] = "duration"


class WindowSample(NamedTuple):
    """The ``[[window]]`` of a kind in the configuration that ``streameval init`` writes."""

    name: str
    about: str
    on: bool = True
    """Whether its lines are no comments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowKind:
    """A kind of window: all that is said of it outside its own module.

    An argument of the specification has one name in state files, commands and configurations.
    """

    name: str  # in state files and on command lines
    spec: type[Any]
    clock: Literal["events", "time", "either"] = "events"  # what its sizes count
    # Options that make its length, as ``name:SIZE/SIZE`` on a command line, which requires only
    # the first (none: it has no form there); and further ones, as ``,name=value``.
    sizes: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    # Examples of a command line, the shortest first; and the same as a sentence.
    forms: tuple[str, ...] = ()
    help: str = ""
    # In a configuration; the first one selects the kind. Without keys: the default kind.
    keys: tuple[WindowKey, ...] = ()
    steps: tuple[str, ...] = ()  # keys; the first one that is given is its step in time
    # The key that, unless given, is the join's ``wait``, or without a join the first key's value;
    # and the key whose value has to cover it.
    waits: str = ""
    covers: str = ""
    sample: WindowSample | None = None
    label: Callable[[dict[str, Any]], str]  # from the given keys to a few words for its heading
    words: Callable[[Any], str]  # from the specification to which events count
    # The same window with as many panes as can be retained, unless it says how many; None for
    # a kind without panes, which has no series.
    widest: Callable[[Any], Any] | None = None
