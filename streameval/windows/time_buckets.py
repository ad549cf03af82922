"""Time cut into buckets of equal length, and the state set of each: panes and epochs.

The stream's latest moment decides which buckets are kept, and which take no
more events. A bucket that takes no more events is held as compact bytes: a live state set
of a few label pairs takes some kilobytes of dicts and lists, its bytes about a
hundred, so that ten thousand slices of several hundred panes fit. These bytes
are never written to disk: the state file has its own format.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events.event import EventBatch, EventFields
from streameval.events.time import EARLIEST, LATEST, time_missing
from streameval.events.values import IntArray
from streameval.states.backend import compiled
from streameval.states.state_set import StatePlan, StateSet

if TYPE_CHECKING:
    from streameval.states.native.batch_partition import BatchPartition


class TimelineFields:
    """The attributes that compiled code reads and changes, in Python."""

    __slots__ = ("_counts", "latest", "newest")

    latest: int | None
    newest: int | None  # number of the bucket of the latest moment
    _counts: list[int]


_NATIVE: Any = compiled("streameval.states.native.native_fast_path")

if not TYPE_CHECKING and _NATIVE is not None:
    TimelineFields = _NATIVE.TimelineFields


class Arrivals(NamedTuple):
    """How the events of a batch arrive."""

    kept: IntArray | None  # rows of the events that are not dropped; None: all
    counts: list[int]
    latest: int


class BucketTimeline(TimelineFields):
    """The stream's latest moment, which buckets it keeps, and counts of arrivals.

    Bucket n holds the moments from ``n * width`` to ``(n + 1) * width``, in microseconds or, if
    not ``timed``, in events.
    """

    __slots__ = ("_arrival", "_end", "_names", "_timed", "kept", "oldest", "width")

    oldest: int
    """Number of the oldest bucket that is kept; a very low one before the first moment."""

    def __init__(
        self,
        width: int,
        kept: int,
        arrivals: Sequence[str],
        arrival: Callable[[Any, Any], Any],
        *,
        timed: bool,
    ) -> None:
        # Names of the counts, empty for one that is not reported; the last one counts the dropped
        # events. ``arrival`` gives the position of an event's count, from its moment and the latest
        # one, of ints and of columns alike.
        self.width = width
        self.kept = kept
        self._names = arrivals
        self._counts = [0] * len(arrivals)
        self._arrival = arrival
        self._timed = timed
        self.latest = self.newest = None
        self.oldest = -(2**63)
        self._end: float = -math.inf

    def reach(self, moment: int) -> None:
        """Make this the latest moment."""
        self.latest = moment
        if moment >= self._end:
            self.newest = moment // self.width
            self.oldest = self.oldest_at(moment)
            self._end = (self.newest + 1) * self.width

    @property
    def is_empty(self) -> bool:
        """Whether no event has arrived; a moment may have been reached without one."""
        return self.latest is None or (self._timed and not any(self._counts))

    def oldest_at(self, latest: int) -> int:
        """Number of the oldest bucket that is kept once this is the latest moment."""
        return latest // self.width - self.kept + 1

    def keeps(self, number: int) -> bool:
        """Whether a bucket of this number is kept."""
        return self.newest is not None and self.oldest <= number <= self.newest

    def closed(self, number: int) -> bool:
        """Whether a bucket takes no more events."""
        last = len(self._names) - 1
        return self.latest is not None and self._arrival(number * self.width, self.latest) == last

    def tick(self, count: int) -> IntArray:
        """Moments of the next events if time is a count of events; else raises InputError."""
        if self._timed:
            raise time_missing()
        start = 0 if self.latest is None else self.latest + 1
        return np.arange(start, start + count, dtype=np.int64)

    def drops(self, moment: int) -> bool:
        """Whether an event of this moment would be dropped."""
        latest, dropped = self.latest, len(self._counts) - 1
        if latest is None or moment >= latest:
            return False
        return bool(self._arrival(moment, latest) == dropped)

    def admit(self, moment: int) -> None:
        """Count an arrival."""
        latest = self.latest
        if latest is None or moment >= latest:
            self._counts[0] += 1
            if moment < self._end:
                self.latest = moment
            else:
                self.reach(moment)
        else:
            self._counts[self._arrival(moment, latest)] += 1

    def arrivals(self, moments: IntArray) -> Arrivals:
        """The counts for :meth:`admit_many`; the same as for the events one by one."""
        if (self.latest is None or moments[0] >= self.latest) and (
            moments[1:] >= moments[:-1]
        ).all():
            # Each is the latest when it arrives, as in most streams.
            counts = [len(moments), *([0] * (len(self._counts) - 1))]
            return Arrivals(None, counts, int(moments[-1]))
        latest = np.maximum.accumulate(moments)
        if self.latest is not None:
            np.maximum(latest, self.latest, out=latest)
        found = self._arrival(moments, latest)
        dropped = len(self._counts) - 1
        kept = np.flatnonzero(found < dropped)
        return Arrivals(
            None if len(kept) == len(moments) else kept,
            [int(np.count_nonzero(found == arrival)) for arrival in range(dropped + 1)],
            int(latest[-1]),
        )

    def admit_many(self, arrivals: Arrivals) -> None:
        """Count arrivals."""
        self._counts = [a + b for a, b in zip(self._counts, arrivals.counts, strict=True)]
        self.reach(arrivals.latest)

    def merge(self, other: BucketTimeline) -> None:
        """Take over the other's latest moment if it is later, and add its counts."""
        if other.latest is not None and (self.latest is None or other.latest > self.latest):
            self.reach(other.latest)
        self._counts = [a + b for a, b in zip(self._counts, other._counts, strict=True)]

    def counts(self) -> dict[str, int]:
        """Events by arrival."""
        named = zip(self._names, self._counts, strict=True)
        return {name: count for name, count in named if name}

    def to_state(self) -> dict[str, Any]:
        """Plain data."""
        return {"latest": self.latest, **self.counts()}

    def restore(self, data: dict[str, Any]) -> None:
        """Take over a saved state; raises StateError."""
        names = ["latest", *self.counts()]
        if not isinstance(data, dict) or set(data) != set(names):
            raise StateError(f"timeline: expected {names}, got {shown(data)}")
        for name, value in data.items():
            low, high = (0, 2**62 - 1)
            if name == "latest" and self._timed:
                low, high = EARLIEST, LATEST
            whole = type(value) is int and low <= value <= high
            if not whole and not (name == "latest" and value is None):
                raise StateError(f"timeline.{name}: expected a whole number, got {shown(value)}")
        self._counts = [data.get(name, 0) for name in self._names]
        if data["latest"] is not None:
            self.reach(data["latest"])


class TimeBuckets:
    """The state sets of the buckets that a timeline keeps, by number; closed ones as bytes."""

    __slots__ = ("_buckets", "_name", "_plan", "_pruned_at", "_thawed", "_timeline")

    def __init__(self, plan: StatePlan, timeline: BucketTimeline, name: str) -> None:
        self._plan = plan
        self._timeline = timeline
        self._name = name  # of a bucket in a saved state
        self._buckets: dict[int, StateSet | bytes] = {}
        # Those that take events, as far as is known; their bytes are not yet the last ones.
        self._thawed: set[int] = set()
        self._pruned_at: int | None = None

    def __len__(self) -> int:
        return len(self._buckets)

    def __contains__(self, number: object) -> bool:
        return number in self._buckets

    def __iter__(self) -> Iterator[int]:
        """The numbers of the buckets that hold events, ascending."""
        return iter(sorted(self._buckets))

    def read(self, number: int) -> StateSet:
        """A bucket's state set for reading; a frozen bucket stays frozen."""
        state_set = self._buckets.get(number)
        if state_set is None:
            return StateSet(self._plan)
        if not isinstance(state_set, bytes):
            return state_set
        return self.live(number) if number in self._thawed else thaw(state_set, self._plan)

    def live(self, number: int) -> StateSet:
        """A bucket's state set, to be changed."""
        state_set = self._buckets.get(number)
        if state_set is None:
            state_set = StateSet(self._plan)
        elif isinstance(state_set, bytes):
            state_set = thaw(state_set, self._plan)
        self.keep(number, state_set)
        return state_set

    def keep(self, number: int, state_set: StateSet) -> None:
        """Keep this as a bucket's state set."""
        self._buckets[number] = state_set
        self._thawed.add(number)

    def update(self, number: int, event: EventFields) -> None:
        """Count an event in its bucket, or raise InputError and change nothing."""
        state_set = self._buckets.get(number)
        if state_set is None or isinstance(state_set, bytes):
            state_set = self.live(number)
        try:
            state_set.update(*event)
        except InputError:
            self.drop_empty(number)
            raise

    def frozen(self, number: int) -> bytes | None:
        """A closed bucket's bytes, the same object while its events are; None of a live one."""
        state_set = self._buckets.get(number, b"")
        return state_set if isinstance(state_set, bytes) and number not in self._thawed else None

    def drop_empty(self, number: int) -> None:
        """Drop a bucket without events."""
        if self.read(number) == StateSet(self._plan):
            self._buckets.pop(number, None)

    def parts(self, batch: EventBatch, moments: IntArray) -> list[tuple[int, EventBatch]]:
        """The events of each bucket, the buckets ascending."""
        return [
            (number, batch if rows is None else batch.take(rows))
            for number, rows in grouped(moments // self._timeline.width)
        ]

    def check_parts(self, parts: list[tuple[int, EventBatch]]) -> None:
        """Raise what counting one of these parts in its bucket would raise."""
        empty: StateSet | None = None
        for number, part in parts:
            if number in self._buckets:
                self.read(number).check_many(part)
            else:
                # Making a state set for each would take as long as many events.
                empty = empty or StateSet(self._plan)
                empty.check_many(part)

    def takes_partition(self, numbers: Iterable[int]) -> bool:
        """Whether :meth:`add_part` can count in each of these buckets."""
        for number in numbers:
            state_set = self._buckets.get(number)
            if state_set is None:
                continue
            if isinstance(state_set, bytes):
                if not StateSet.is_packed(state_set):
                    return False
            elif not state_set.takes_partition():
                return False
        return self._plan.sorted

    def add_part(self, number: int, sets: BatchPartition, n: int, *, closed: bool) -> None:
        """Count one set of a sorted batch in a bucket, which takes no more events if ``closed``."""
        before = self._buckets.get(number)
        if before is None or closed:
            packed = before.packed() if isinstance(before, StateSet) else before
            assert packed is not None or before is None
            self._buckets[number] = sets.packed(n, packed)
            if not closed:
                self._thawed.add(number)
        else:
            self.live(number).add_part(sets, n)

    def prune(self, *, force: bool = False) -> None:
        """Once a new bucket has begun: drop what is no longer kept, and freeze what is closed."""
        timeline = self._timeline
        if timeline.newest is None or (timeline.newest == self._pruned_at and not force):
            return
        self._pruned_at = timeline.newest
        for number in [n for n in self._buckets if n < timeline.oldest]:
            del self._buckets[number]
        for number in list(self._thawed):
            state_set = self._buckets.get(number)
            if state_set is None:
                self._thawed.discard(number)
            elif timeline.closed(number):
                self._thawed.discard(number)
                if not isinstance(state_set, bytes):
                    self._buckets[number] = freeze(state_set)

    def kept_of(self, other: TimeBuckets) -> Iterator[tuple[int, StateSet]]:
        """Those of another's buckets that are kept here, to be merged."""
        for number in other:
            if self._timeline.keeps(number):
                yield number, other.read(number)

    def check_merge(self, other: TimeBuckets) -> None:
        """Raise StateError if a bucket cannot hold the events of both, once they are merged."""
        mine, theirs = self._timeline, other._timeline
        reached = [moment for moment in (mine.latest, theirs.latest) if moment is not None]
        oldest = mine.oldest_at(max(reached, default=0))
        for number in other:
            if number in self and number >= oldest:
                self.read(number).check_merge(other.read(number))

    def to_state(self) -> dict[str, Any]:
        """The state sets in order."""
        return {
            f"{self._name}s": [
                {self._name: number, "tally": self.read(number).to_state()} for number in self
            ]
        }

    def restore(self, data: object) -> None:
        """Take over a saved state; raises StateError."""
        name = self._name
        key = f"{name}s"
        if not isinstance(data, dict) or set(data) != {key} or not isinstance(data[key], list):
            raise StateError(f"window: expected its {key}, got {shown(data)}")
        before: int | None = None
        for item in data[key]:
            if not isinstance(item, dict) or set(item) != {name, "tally"}:
                raise StateError(
                    f"window.{key}: expected a {name} and its state set, got {shown(item)}"
                )
            number = item[name]
            if type(number) is not int or not self._timeline.keeps(number):
                raise StateError(
                    f"window.{key}: expected a {name} that is kept, got {shown(number)}"
                )
            if before is not None and number <= before:
                raise StateError(f"window.{key}: expected ascending {key}, got {number} late")
            before = number
            self.keep(number, StateSet.from_state(item["tally"], self._plan))

    def _check(self) -> None:
        live = {n for n, state_set in self._buckets.items() if not isinstance(state_set, bytes)}
        assert live <= self._thawed
        for number in list(self._buckets):
            assert self._timeline.keeps(number)
            self.read(number)._check()


def grouped(numbers: IntArray) -> Iterator[tuple[int, IntArray | None]]:
    """Each number with its rows, ascending; None if all rows have the one number."""
    if not len(numbers):
        return
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), None
        return
    # A stable sort is fast for nearly ordered streams.
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    names = ordered[starts].tolist()
    ends = np.append(starts[1:], len(order)).tolist()
    for number, start, end in zip(names, starts.tolist(), ends, strict=True):
        yield number, order[start:end]


_ARRAYS = {1: "int64", 2: "float64", 3: "bool", 4: "uint8"}
_CODES = {np.dtype(name): code for code, name in _ARRAYS.items()}
_BIG_INT = 5


def _plain(value: Any) -> Any:
    """Python ints beyond 64 bits as text; everything else as it is."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return msgspec.msgpack.Ext(_BIG_INT, str(value).encode())
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _array(value: Any) -> Any:
    return msgspec.msgpack.Ext(_CODES[value.dtype], value.tobytes())


def _restored(code: int, data: memoryview) -> Any:
    if code == _BIG_INT:
        return int(bytes(data))
    return np.frombuffer(bytes(data), dtype=_ARRAYS[code])


_encoder = msgspec.msgpack.Encoder(enc_hook=_array)
_decoder = msgspec.msgpack.Decoder(ext_hook=_restored)


def freeze(state_set: StateSet) -> bytes:
    """The state set as bytes for :func:`thaw` of the same process."""
    packed = state_set.packed()
    if packed is not None:
        return packed
    state = state_set.to_state(derivable=True)
    try:
        return _encoder.encode(state)
    except OverflowError:
        # The encoder calls its hook for unknown types, not for large ints.
        return _encoder.encode(_plain(state))


def thaw(data: bytes, plan: StatePlan) -> StateSet:
    """The state set that was frozen."""
    if StateSet.is_packed(data):
        return StateSet.unpacked(data, plan)
    return StateSet.from_state(_decoder.decode(data), plan, derivable=True)
