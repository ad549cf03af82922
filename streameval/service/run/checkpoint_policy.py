"""When a run makes a checkpoint: a function of times and counts that are passed in."""

from __future__ import annotations

from collections.abc import Callable

_COSTS = 4
"""The time between two checkpoints is at least this multiple of the duration of the last one."""

_IDLE_COSTS = 1
"""And this multiple while nothing is left to read: a checkpoint holds no record back then, and the
end of a backlog is visible sooner."""

_EARLY_COSTS = 10
"""And at least this multiple where the number of records requires one before the time does."""

_EVENTS_AT_MOST = 8
"""A checkpoint is made at the latest after this multiple of ``events`` records, which are in memory
until then."""

QUIET_SECONDS = 10.0
"""While nothing is read, a join is written once in this time: predictions and labels also expire by
the clock."""


class CheckpointPolicy:
    """Decides when a checkpoint is due; all times are seconds of a monotonic clock."""

    __slots__ = ("_at_once", "_begun", "_written_at", "events", "every", "records", "seconds")

    def __init__(self, every: float, events: int, now: float) -> None:
        self.every = every
        """Seconds between two checkpoints."""
        self.events = events
        """A number of records that makes a checkpoint due earlier."""
        self.records = 0
        """Records since the begin of the last checkpoint that wrote."""
        self.seconds = 0.0
        """Duration of the last checkpoint that wrote."""
        self._at_once = False
        self.start(now)

    def start(self, now: float) -> None:
        """Count the time from now on."""
        self._begun = now
        """The begin of the last checkpoint, whether it wrote or was skipped."""
        self._written_at = now
        """The end of the last checkpoint that wrote."""

    def count(self, records: int) -> None:
        """Add records that were read."""
        self.records += records

    def hurry(self) -> None:
        """Make a checkpoint due now, whatever the time and the number of records."""
        self._at_once = True

    @property
    def is_full(self) -> bool:
        """Whether a checkpoint is due whatever the time, and nothing is to be read before it."""
        return self._at_once or self.records >= _EVENTS_AT_MOST * self.events

    def due_in(self, now: float, changed: Callable[[], bool], *, idle: bool = False) -> float:
        """Seconds until the next checkpoint is due; ``changed`` is called only where it decides."""
        if self.is_full:
            return 0.0
        since = now - self._written_at
        due = self.every - (now - self._begun)
        if self.records or (due <= 0 and changed()):
            costs = _IDLE_COSTS if idle else _COSTS
            due = max(due, costs * self.seconds - since)
        if self.records >= self.events:
            due = min(due, _EARLY_COSTS * self.seconds - since)
        return max(0.0, due)

    def is_quiet(self, now: float) -> bool:
        """Whether it is too early to write a join in which nothing but the time has changed."""
        return now - self._written_at < max(QUIET_SECONDS, _COSTS * self.seconds)

    def skipped(self, now: float) -> None:
        """Note a checkpoint that had nothing to write."""
        self._begun = now

    def began(self, now: float) -> None:
        """Note a checkpoint of what was read so far."""
        self._begun = now
        self.records = 0
        self._at_once = False

    def wrote(self, end: float) -> None:
        """Note that the checkpoint which began last is written."""
        self.seconds = end - self._begun
        self._written_at = end
