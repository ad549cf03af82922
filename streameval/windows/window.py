"""Interfaces of windows: which events count, as a state set that can be read at any time.

A *specification* (:class:`Cumulative`, :class:`Last`, …) is the user's
argument. It opens one *window* for each slice, and, where windows use event
time, one *timeline* that all windows of an evaluator share: the watermark is
the stream's, not a slice's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

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

    A function that reads a metric returns nan where :meth:`Window.current` has to be read.
    """

    counts: Any = None
    """The ``WindowFastPath`` that counts an event in compiled code; None in Python."""
    states: StateSet | None = None
    """What :meth:`Window.current` gives, where that object is never replaced."""
    every: bool = False
    """Whether each event is counted in these states, and nowhere else."""
    compiled: Callable[[str], Callable[[], float] | None] | None = None
    """Where there are no such states: from a method of ``StateFastPath`` to what reads it."""
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
    """A :class:`Window` with panes, of which a series is made."""

    def marked(self) -> list[PaneMark]:
        """Every pane from the oldest that holds events to the newest, empty ones included."""
        ...

    def state_set_from(self, start: int) -> StateSet:
        """The state set of the pane that starts at this moment; for reading only."""
        ...


class Window(Protocol):
    """The events that count, kept as one state set or more."""

    def check(self, event: EventFields, event_time: int | None) -> None:
        """Raise what :meth:`add` raises in a slice for an event that the total accepts."""
        ...

    def add(self, event: EventFields, event_time: int | None) -> None:
        """Count one validated event, or raise InputError and change nothing."""
        ...

    def stage(self, batch: EventBatch, event_times: IntArray | None) -> Callable[[], None]:
        """Check a validated batch, or raise InputError; the result counts it and cannot fail."""
        ...

    def remove(self, event: EventFields, event_time: int | None) -> Undo:
        """Undo one earlier event exactly, or raise InputError and change nothing."""
        ...

    def current(self) -> StateSet:
        """The state set of the events inside now; for reading only."""
        ...

    def fast_path(self) -> FastPath | None:
        """What counts and reads past these methods; None where there is nothing faster."""
        ...

    def check_merge(self, other: Self) -> None:
        """Raise StateError, with the reason, where the two cannot be merged."""
        ...

    def merge(self, other: Self) -> None:
        """Add another shard's events; the operand is unchanged."""
        ...

    def retained(self) -> dict[str, Any]:
        """What is kept, and the most that ever is, under names that contain the unit."""
        ...

    def to_state(self) -> dict[str, Any]:
        """Plain canonical data."""
        ...

    def _check(self) -> None: ...


@runtime_checkable
class SortedWindow(Protocol):
    """A :class:`Window` with a set of states for each bucket of time, or one of all events.

    It counts the part of a batch that a bucket gets as one sorted set, where compiled code has
    sorted the whole batch.
    """

    def takes_partition(self, numbers: list[int]) -> bool:
        """Whether :meth:`add_parts` can count in these buckets; else :meth:`Window.stage` does."""
        ...

    def add_parts(
        self, sets: BatchPartition, first: int, numbers: list[int], closed: Collection[int]
    ) -> None:
        """Count sets of a batch that the timeline has admitted, and that cannot be refused.

        Args:
            sets: Those of all windows.
            first: Number of the first of this window's.
            numbers: The bucket of each, ascending, all of them kept.
            closed: Buckets that take no more events after this batch.
        """
        ...


class WindowSpec(Protocol):
    """What a user passes as ``window=``.

    A window is opened with a timeline of its own specification.
    """

    @property
    def needs_time(self) -> bool:
        """Whether every event requires an ``event_time``."""
        ...

    @property
    def keeps_order(self) -> bool:
        """Whether the order of arrival of the events inside is known."""
        ...

    def check_weight(self, weight: Weight | IntArray | FloatArray | None) -> None:
        """Raise InputError for a weight (or a column of them) that this window cannot take."""
        ...

    def timeline(self) -> BucketTimeline | None:
        """A new timeline, or None where time is not used."""
        ...

    def open(self, plan: StatePlan, timeline: Any) -> Window:
        """A new empty window."""
        ...

    def restore(self, data: dict[str, Any], plan: StatePlan, timeline: Any) -> Window:
        """The window of a saved state; raises StateError."""
        ...

    def to_options(self) -> dict[str, Any]:
        """Plain data that names the specification, for the state file."""
        ...


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

    Arguments of the specification, its options in a state file, its parts on a
    command line and its keys in a configuration have one name each.

    Args:
        name: In state files and on command lines.
        spec: Makes the specification, from keyword arguments.
        clock: What its sizes count: events, event time, or either of the two.
        sizes: The options that make its length: ``name:SIZE/SIZE`` on a command line, where
            only the first is required. Empty: it has no form there.
        named: Further options, on a command line as ``,name=value``.
        forms: Examples of a command line; the first is the shortest.
        help: The same as a sentence.
        keys: In a configuration. The first one selects the kind. None: no kind of a service's,
            or the default one.
        steps: The keys of which the first that is given is its step in time.
        waits: The key that, unless given, is the join's ``wait``, or without a join the first
            key's value.
        covers: The key whose value has to cover that of ``waits``.
        sample: The ``[[window]]`` of the configuration that ``streameval init`` writes.
        label: From the keys that are given to a few words for its heading.
        words: From the specification to a phrase that says which events count.
        widest: The same window with as many panes retained as can be, unless it says how many;
            None where there are no panes to make a series of.
    """

    name: str
    spec: type[Any]
    clock: Literal["events", "time", "either"] = "events"
    sizes: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    help: str = ""
    keys: tuple[WindowKey, ...] = ()
    steps: tuple[str, ...] = ()
    waits: str = ""
    covers: str = ""
    sample: WindowSample | None = None
    label: Callable[[dict[str, Any]], str]
    words: Callable[[Any], str]
    widest: Callable[[Any], Any] | None = None
