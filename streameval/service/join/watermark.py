"""The watermark of a run: the newest time of the slowest of its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec
import numpy as np

from streameval.events.values import IntArray
from streameval.service.lateness import LateShare

IDLE_SECONDS = 60.0

_CONFIRMING = 16
"""A leap is confirmed when this many more records are beyond it than before it."""

_DAY_US = 86_400_000_000


@dataclass(slots=True)
class _PartitionTime:
    """A partition's newest confirmed time, and the records beyond a leap from there."""

    newest: int
    beyond: int = 0
    least: int = 0
    """The smallest time beyond the leap."""

    def note(self, times: list[int], leap: int) -> None:
        """Add times in their order."""
        # One by one: the result must not depend on how a partition is cut into batches.
        for time in times:
            if time <= self.newest + leap:
                self.newest = max(self.newest, time)
                self.beyond = max(0, self.beyond - 1)
            else:
                self.least = min(self.least, time) if self.beyond else time
                self.beyond += 1
                if self.beyond >= _CONFIRMING:
                    self.newest, self.beyond = self.least, 0


class SavedWatermark(msgspec.Struct):
    """The written form: of each partition the newest time and the records beyond a leap."""

    partitions: dict[str, tuple[int, int, int]]
    value: int | None


class Watermark:
    """The least of the partitions' newest times; it never goes back."""

    # A partition without any record yet holds it back, because its records may be old; so does one
    # that is being read and is behind. One that has been idle for a minute does not.
    #
    # A time that leaps ahead, by more than a day and more than records are kept, is ignored until
    # records beyond it are the majority: a single record with a wrong year would make all others
    # permanently old. The first time of a partition counts.
    #
    # The watermark is never ahead of the machine's clock, even if many records are: it is capped
    # when it is read, so that a wrong clock has no lasting effect.

    def __init__(
        self,
        clock: Callable[[], float],
        now: Callable[[], int],  # microseconds since 1970
        *,
        leap_us: int = 0,  # for which records are kept
        wait_us: int = 0,  # a record further behind the watermark than this is late
    ) -> None:
        self._clock = clock
        self._now = now
        self._leap = max(leap_us, _DAY_US)
        self._wait = wait_us
        self.late = LateShare()
        """The share of the recent records that had expired when they were read."""
        self._begun = clock()
        self._partitions: dict[str, _PartitionTime] = {}
        self._seen: dict[str, float] = {}
        self._expected: set[str] = set()
        self._value: int | None = None

    def expect(self, partitions: Iterable[str]) -> None:
        """Add partitions that records may be read from, with or without any yet."""
        self._expected.update(partitions)

    def note(self, partition: str, times: IntArray) -> None:
        """Add the times of records of a partition, in their order."""
        if not len(times):
            return
        self._seen[partition] = self._clock()
        # As of the last checkpoint, because batches are counted at checkpoints.
        late = 0 if self._value is None else np.count_nonzero(times < self._value - self._wait)
        self.late.add(len(times), int(late), partition)
        reached = self._partitions.get(partition)
        if reached is None:
            reached = self._partitions[partition] = _PartitionTime(int(times[0]))
        top = int(times.max())
        if top <= reached.newest + self._leap:
            reached.newest = max(reached.newest, top)
            reached.beyond = max(0, reached.beyond - len(times))
        else:
            reached.note(times.tolist(), self._leap)

    @property
    def value(self) -> int | None:
        """Microseconds since 1970; None before every partition has a record."""
        if self._partitions:
            border = self._clock() - IDLE_SECONDS
            busy = [
                self._partitions.get(name)
                for name in self._expected | set(self._partitions)
                if self._seen.get(name, self._begun) > border
            ]
            # While all are idle, it does not change.
            if busy and None not in busy:
                least = min(reached.newest for reached in busy if reached is not None)
                least = min(least, self._now())
                self._value = least if self._value is None else max(self._value, least)
        return self._value

    def saved(self) -> SavedWatermark:
        """The written form."""
        partitions = {
            name: (reached.newest, reached.beyond, reached.least)
            for name, reached in sorted(self._partitions.items())
        }
        return SavedWatermark(partitions, self._value)

    def restore(self, saved: SavedWatermark) -> int | None:
        """Restore the written form; returns its value, capped by the clock."""
        self._partitions = {name: _PartitionTime(*kept) for name, kept in saved.partitions.items()}
        # A store may have been written with a clock that was ahead, or without this cap.
        self._value = None if saved.value is None else min(saved.value, self._now())
        self._begun = self._clock()
        return self._value
