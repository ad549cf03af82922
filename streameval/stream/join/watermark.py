"""How far a run's time has come for certain: the slowest of its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec
import numpy as np

from streameval.events import IntArray
from streameval.stream.lateness import LateShare

__all__ = ["SavedWatermark", "Watermark"]

IDLE_SECONDS = 60.0

_CONFIRMING = 16
"""So many more records beyond a leap than before it make it believed."""

_DAY_US = 86_400_000_000


@dataclass(slots=True)
class _Progress:
    """A partition's newest believed time, and what is beyond a leap from there."""

    newest: int
    beyond: int = 0
    least: int = 0
    """The smallest of those that are beyond."""

    def note(self, times: list[int], leap: int) -> None:
        """One by one, so that it does not matter how a partition is cut into batches."""
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
    """The written form: of each partition its newest time and what is beyond a leap."""

    partitions: dict[str, tuple[int, int, int]]
    value: int | None


class Watermark:
    """The least of the partitions' newest times; it never goes back.

    A partition that has brought nothing yet holds it back, for it may bring old
    records; so does one that has been read for a while and is behind. One that
    has been idle for a minute does not.

    A time that leaps ahead, by more than a day and more than records are kept, is
    not believed until records beyond it prevail: a single one with a wrong year
    would make all others old, for good. The first time of a partition is believed.

    The watermark is never ahead of the machine's clock, however many records are: it
    is capped when it is read, so that a clock that was wrong itself does no lasting harm.

    Args:
        clock: Seconds, only ever forward.
        now: Microseconds since 1970.
        leap_us: For how long records are kept.
        wait_us: A record that is further than this behind the watermark is late.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        now: Callable[[], int],
        *,
        leap_us: int = 0,
        wait_us: int = 0,
    ) -> None:
        self._clock = clock
        self._now = now
        self._leap = max(leap_us, _DAY_US)
        self._wait = wait_us
        self.late = LateShare()
        """Of the recent records, those that had expired when they came."""
        self._begun = clock()
        self._partitions: dict[str, _Progress] = {}
        self._seen: dict[str, float] = {}
        self._expected: set[str] = set()
        self._value: int | None = None

    def expect(self, partitions: Iterable[str]) -> None:
        """Partitions that records may come from, whether any have or not."""
        self._expected.update(partitions)

    def note(self, partition: str, times: IntArray) -> None:
        """A partition has brought records of these times, in this order."""
        if not len(times):
            return
        self._seen[partition] = self._clock()
        # As of the last checkpoint, in which what a batch brings is counted.
        late = 0 if self._value is None else np.count_nonzero(times < self._value - self._wait)
        self.late.add(len(times), int(late))
        progress = self._partitions.get(partition)
        if progress is None:
            progress = self._partitions[partition] = _Progress(int(times[0]))
        top = int(times.max())
        if top <= progress.newest + self._leap:
            progress.newest = max(progress.newest, top)
            progress.beyond = max(0, progress.beyond - len(times))
        else:
            progress.note(times.tolist(), self._leap)

    @property
    def value(self) -> int | None:
        """Microseconds since 1970; None before anything is certain."""
        if self._partitions:
            border = self._clock() - IDLE_SECONDS
            busy = [
                self._partitions.get(name)
                for name in self._expected | set(self._partitions)
                if self._seen.get(name, self._begun) > border
            ]
            # While all are idle, time stands where it stood.
            if busy and None not in busy:
                least = min(progress.newest for progress in busy if progress is not None)
                least = min(least, self._now())
                self._value = least if self._value is None else max(self._value, least)
        return self._value

    def saved(self) -> SavedWatermark:
        """What is to be written."""
        partitions = {
            name: (progress.newest, progress.beyond, progress.least)
            for name, progress in sorted(self._partitions.items())
        }
        return SavedWatermark(partitions, self._value)

    def restore(self, saved: SavedWatermark) -> int | None:
        """Take over what was saved; returns the value as of then, capped by the clock."""
        self._partitions = {name: _Progress(*kept) for name, kept in saved.partitions.items()}
        # A store may have been written under a clock that was ahead, or without this cap.
        self._value = None if saved.value is None else min(saved.value, self._now())
        self._begun = self._clock()
        return self._value
