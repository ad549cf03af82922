"""The entries of a label join on disk: immutable segments, and an index of them by key.

A checkpoint appends the entries that have changed; the newest version of an entry counts. A
segment holds some hundred entries: ``ends`` (uint32, little-endian: where each entry ends,
counted from the beginning of the first one), then the entries in MessagePack, each ``[key,
[tag, time, partition, payload, label or labels, newest]]``. The columns beside it hold their
number and a CRC-32 of the bytes. A segment is dropped as a whole when all its entries are old.

The index is rebuilt from the segments when a store is opened, and costs sixteen bytes of memory
an entry: sorted runs of (hash of the key, location). New entries form a run of their own; runs of
similar size are merged, so there are few of them and an entry is moved O(log n) times.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streameval.errors import StoreError
from streameval.events.values import BoolArray, IntArray
from streameval.service.join.rules import Entry
from streameval.service.store.checksums import delete_rows, insert_rows
from streameval.service.store.dialect import Connection, streamed
from streameval.states.backend import compiled

_NATIVE = compiled("streameval.service.native.native_key_table")

MOST_ENTRIES = 128
"""Entries of a segment, some 16 KB of them: little to read for one label of a random age."""

_MOST_BYTES = 65_536
"""Segments of large payloads hold fewer."""

_one = msgspec.msgpack.Decoder(tuple[str, Entry])
_all = msgspec.msgpack.Decoder(list[tuple[str, Entry]])
_keys = msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]])

_INDEX_BITS = MOST_ENTRIES.bit_length() - 1

_MOST_CACHED_BYTES = 64 * 1024 * 1024

_RATIO = 4
"""A run is merged with the one before it unless that is this many times larger."""

ENCODE: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode


class Versions(NamedTuple):
    """Versions of entries to append, each as it is written."""

    keys: list[str]
    newest: IntArray
    """The newest time of each."""
    data: bytes
    """Of all of them, one after another."""
    ends: IntArray
    """The end of each in ``data``."""

    @classmethod
    def of(cls, keys: list[str], entries: Sequence[Entry]) -> Versions:
        """Encode the entries of keys."""
        encoded = list(map(ENCODE, zip(keys, entries, strict=True)))
        newest = np.fromiter(map(attrgetter("newest"), entries), np.int64, len(entries))
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return cls(keys, newest, b"".join(encoded), np.cumsum(sizes))

    def sorted(self) -> tuple[Versions, IntArray | None]:
        """The versions by their newest times, and the order in which they are then."""
        if not (self.newest[1:] < self.newest[:-1]).any():
            return self, None
        order = np.argsort(self.newest, kind="stable")
        if _NATIVE is not None:
            data, ends = _NATIVE.in_order(self.data, self.ends, order)
        else:
            starts = [0, *self.ends.tolist()]
            data = b"".join(self.data[starts[n] : starts[n + 1]] for n in order.tolist())
            ends = np.cumsum(np.diff(self.ends, prepend=0)[order])
        return Versions(self.keys, self.newest[order], data, ends), order


class Appended(NamedTuple):
    """Segments that were written."""

    run: KeyRun
    """The location of each entry."""
    newest: dict[int, int]
    """Number of a segment -> the newest time of its entries."""


class SegmentStore:
    """The segments of a store, and where each entry lies in them; StoreError for a damaged one."""

    # append() and delete() may be called by another thread than all other methods: they change the
    # store, and nothing that is found depends on them.
    #
    # Memory: 16 bytes a version of an entry that can be found, and 64 MB of segments that were read
    # last. A batch of keys is found in O(log n) each, and one read of each segment that has one.

    def __init__(self, connection: Connection, spread_us: int = 2**62) -> None:
        self._connection = connection
        self._spread = spread_us
        self._newest: dict[int, int] = {}
        self._numbers: IntArray | None = None
        self._runs = KeyRuns()
        self._next = 1
        self._cache: OrderedDict[int, _Segment] = OrderedDict()
        self._cached_bytes = 0
        self._load()

    def _load(self) -> None:
        hashes: list[IntArray] = []
        locations: list[IntArray] = []
        for number, newest, segment in self._stored():
            keys = segment.keys()
            self._newest[number] = newest
            self._next = number + 1
            hashes.append(key_hashes(keys))
            locations.append((number << _INDEX_BITS) + np.arange(len(keys)))
        if hashes:
            self._runs.add(KeyRun.of(np.concatenate(hashes), np.concatenate(locations)))

    def _stored(self) -> Iterator[tuple[int, int, _Segment]]:
        last = 0
        try:
            for number, newest, entries, crc, data in streamed(
                self._connection,
                "SELECT segment, newest, entries, crc, data FROM join_segments ORDER BY segment",
            ):
                last = number
                if not isinstance(newest, int):
                    raise _damaged(number, "its row does not hold what was written")
                yield number, newest, _Segment(number, entries, crc, data)
        except sqlite3.DatabaseError as error:
            raise StoreError(f"join segments after {last} cannot be read: {error}") from None

    def check(self) -> None:
        """Decode every entry; raises StoreError for one that is damaged."""
        for _, _, segment in self._stored():
            segment.at(range(len(segment)))

    def __len__(self) -> int:
        """Versions of entries in the index."""
        return len(self._runs)

    def find(self, keys: Sequence[str]) -> dict[int, Entry]:
        """The newest version of the entry of each key in the index, by the key's position."""
        found: dict[int, Entry] = {}
        if not self._newest or not len(self._runs):
            return found
        indices, locations = self._runs.find(key_hashes(keys))
        if not len(indices):
            return found
        alive = self._alive(locations)
        indices, locations = indices[alive], locations[alive]
        others: list[int] = []
        first = np.flatnonzero(np.diff(indices, prepend=-1))
        for n, (key, entry) in self._read(indices[first], locations[first]):
            if key == keys[n]:
                found[n] = entry
            else:  # another key of the same hash: an older one may be the right one
                others.append(n)
        for n in others:
            older = indices == n
            for _, (key, entry) in self._read(indices[older], locations[older]):
                if key == keys[n]:  # the last one is the newest
                    found[n] = entry
        return found

    def _read(
        self, indices: IntArray, locations: IntArray
    ) -> Iterator[tuple[int, tuple[str, Entry]]]:
        """The entries at these locations, ordered by them, so that each segment is read once."""
        if not len(indices):
            return
        order = np.argsort(locations)
        indices, locations = indices[order], locations[order]
        segments = locations >> _INDEX_BITS
        slots = (locations & (MOST_ENTRIES - 1)).tolist()
        meant = indices.tolist()
        starts = np.flatnonzero(np.diff(segments, prepend=-1)).tolist()
        for start, stop in zip(starts, [*starts[1:], len(slots)], strict=True):
            segment = self._segment(int(segments[start]))
            yield from zip(meant[start:stop], segment.at(slots[start:stop]), strict=True)

    def _segment(self, number: int) -> _Segment:
        segment = self._cache.get(number)
        if segment is not None:
            self._cache.move_to_end(number)
            return segment
        try:
            row = self._connection.execute(
                "SELECT entries, crc, data FROM join_segments WHERE segment = ?", (number,)
            ).fetchone()
        except sqlite3.DatabaseError as error:
            raise StoreError(f"join segment {number} cannot be read: {error}") from None
        if row is None:
            raise _damaged(number, "it is missing")
        segment = self._cache[number] = _Segment(number, *row)
        self._cached_bytes += segment.size
        while self._cached_bytes > _MOST_CACHED_BYTES and len(self._cache) > 1:
            self._cached_bytes -= self._cache.popitem(last=False)[1].size
        return segment

    def append(self, connection: Connection, versions: Versions) -> Appended:
        """Write versions of entries, inside a transaction; :meth:`index` makes them findable."""
        # By time: entries that become old together are dropped together.
        versions, order = versions.sorted()
        newest, data, ends = versions.newest, versions.data, versions.ends
        rows = []
        added = {}
        written = np.empty(len(ends), dtype=np.int64)
        for start, stop in segment_bounds(np.diff(ends, prepend=0), newest, self._spread):
            before = int(ends[start - 1]) if start else 0
            own = (ends[start:stop] - before).astype("<u4").tobytes()
            blob = own + data[before : int(ends[stop - 1])]
            last = added[self._next] = int(newest[stop - 1])
            rows.append((self._next, last, stop - start, zlib.crc32(blob), blob))
            written[start:stop] = np.arange(stop - start) + (self._next << _INDEX_BITS)
            self._next += 1
        insert_rows(connection, "join_segments", rows)
        # Sorted here and not where it is needed, because this thread is not the one that reads.
        hashes = key_hashes(versions.keys)
        return Appended(KeyRun.of(hashes if order is None else hashes[order], written), added)

    def added(self, appended: Appended) -> None:
        """Note segments that were committed."""
        self._newest.update(appended.newest)
        self._numbers = None

    def index(self, appended: Appended) -> None:
        """Make appended entries findable."""
        self._runs.add(appended.run, self._alive)

    def _alive(self, locations: IntArray) -> BoolArray:
        if not self._newest:
            return np.zeros(len(locations), dtype=np.bool_)
        if self._numbers is None:
            # In ascending order, as they were added.
            self._numbers = np.fromiter(self._newest, np.int64, len(self._newest))
        segments = locations >> _INDEX_BITS
        rows = np.minimum(np.searchsorted(self._numbers, segments), len(self._numbers) - 1)
        alive: BoolArray = self._numbers[rows] == segments
        return alive

    def forget_before(self, before: int) -> list[int]:
        """Forget the segments whose entries are all older than a moment; returns their numbers."""
        gone = [segment for segment, newest in self._newest.items() if newest < before]
        for number in gone:
            del self._newest[number]
            segment = self._cache.pop(number, None)
            if segment is not None:
                self._cached_bytes -= segment.size
        if gone:
            self._numbers = None
        return gone

    def delete(self, connection: Connection, segments: Sequence[int]) -> None:
        """Delete forgotten segments, inside the caller's transaction."""
        delete_rows(connection, "join_segments", "segment", segments)


def segment_bounds(sizes: IntArray, newest: IntArray, spread_us: int) -> list[tuple[int, int]]:
    """The (start, stop) of each segment of entries of these sizes and newest times, ascending."""
    # A segment is dropped when its newest entry is old. An entry far ahead would delay that for
    # its neighbours, so entries further apart do not share a segment.
    ends = np.cumsum(sizes)
    jumps = [*(np.flatnonzero(np.diff(newest) > spread_us) + 1).tolist(), len(sizes)]
    found = []
    start = 0
    for jump in jumps:
        while start < jump:
            before = int(ends[start - 1]) if start else 0
            full = int(np.searchsorted(ends, before + _MOST_BYTES, side="right"))
            stop = min(jump, start + MOST_ENTRIES, max(full, start + 1))
            found.append((start, stop))
            start = stop
    return found


class _Segment:
    """A row of ``join_segments``; raises StoreError where it is damaged, also when read later."""

    __slots__ = ("_ends", "_entries", "_number", "_view")

    def __init__(self, number: int, entries: object, crc: object, data: object) -> None:
        self._number = number
        if not isinstance(entries, int) or not isinstance(data, bytes):
            raise _damaged(number, "its row does not hold what was written")
        if zlib.crc32(data) != crc:
            raise _damaged(number, "its checksum is not the one it was written with")
        if not 0 < entries <= MOST_ENTRIES or len(data) < 4 * entries:
            raise _damaged(number, "it does not hold as many entries as were written")
        self._entries = entries
        self._view = memoryview(data)[4 * entries :]
        ends: list[int] = np.frombuffer(data, dtype="<u4", count=entries).tolist()
        self._ends = [0, *ends]
        if self._ends[-1] != len(self._view):
            raise _damaged(number, "it does not hold as many entries as were written")

    def __len__(self) -> int:
        return self._entries

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return len(self._view) + 40 * self._entries

    def keys(self) -> list[str]:
        """The keys of all."""
        return [key for key, _ in self._decoded(_keys.decode, self._whole())]

    def at(self, slots: Sequence[int]) -> list[tuple[str, Entry]]:
        """Keys and entries by their numbers in the segment."""
        if 4 * len(slots) > self._entries:
            whole = self._decoded(_all.decode, self._whole())
            if len(whole) != self._entries:
                raise _damaged(self._number, "it does not hold as many entries as were written")
            return [whole[n] for n in slots]
        ends, view = self._ends, self._view
        return [
            self._decoded(_one.decode, view[ends[n] : ends[n + 1]])
            for n in slots
            if n < self._entries
        ]

    def _whole(self) -> bytes:
        # The entries are contiguous: preceded by a header they are a list.
        return b"".join((struct.pack(">BI", 0xDD, self._entries), self._view))

    def _decoded(self, decode: Callable[[Any], Any], data: bytes | memoryview) -> Any:
        try:
            return decode(data)
        except (msgspec.DecodeError, ValueError) as error:
            raise _damaged(self._number, str(error)) from None


def _damaged(segment: int, how: str) -> StoreError:
    return StoreError(
        f"join segment {segment} is damaged: {how}; restore the store from a copy of it"
    )


def key_hashes(keys: Sequence[str]) -> IntArray:
    """The hash of each key, valid in this process only, as Python salts its hashes."""
    if _NATIVE is not None:
        return _NATIVE.hashes(keys)  # type: ignore[no-any-return]
    return np.fromiter(map(hash, keys), np.int64, len(keys))


class KeyRun(NamedTuple):
    """Hashes of keys, ascending, and a location for each."""

    hashes: IntArray
    locations: IntArray

    @classmethod
    def of(cls, hashes: IntArray, locations: IntArray) -> KeyRun:
        """Sort them."""
        order = np.argsort(hashes)
        return cls(hashes[order], locations[order])

    def merged(self, new: KeyRun) -> KeyRun:
        """Both in one run."""
        if _NATIVE is not None:
            return KeyRun(*_NATIVE.merged(*self, *new))
        hashes = np.concatenate((self.hashes, new.hashes))
        order = np.argsort(hashes, kind="stable")  # a merge, as both are sorted
        return KeyRun(hashes[order], np.concatenate((self.locations, new.locations))[order])


class KeyRuns:
    """Locations of entries by their keys' hashes; a key may have several."""

    def __init__(self) -> None:
        self._runs: list[tuple[KeyRun, Callable[[IntArray], IntArray]]] = []
        """Each with what finds the first place of each hash, -1 where there is none."""

    def __len__(self) -> int:
        return sum(len(run.hashes) for run, _ in self._runs)

    def add(self, run: KeyRun, alive: Callable[[IntArray], BoolArray] | None = None) -> None:
        """Add entries; runs that are merged drop those that are not ``alive``."""
        if not len(run.hashes):
            return
        while self._runs and len(self._runs[-1][0].hashes) < _RATIO * len(run.hashes):
            old, _ = self._runs.pop()
            if alive is not None:
                keep = alive(old.locations)
                if not keep.all():
                    old = KeyRun(old.hashes[keep], old.locations[keep])
            run = old.merged(run)
        if _NATIVE is not None:
            self._runs.append((run, _NATIVE.NativeKeyRun(run.hashes).first))
        else:
            self._runs.append((run, partial(_first, run.hashes)))

    def find(self, hashes: IntArray) -> tuple[IntArray, IntArray]:
        """Indices of hashes that have entries, ascending, and the location of each entry."""
        # Of one index the largest location is first. Different keys may have the same hash.
        indices: list[IntArray] = []
        found: list[IntArray] = []
        for run, first in self._runs:
            starts = first(hashes)
            hit = np.flatnonzero(starts >= 0)
            if not len(hit):
                continue
            starts = starts[hit]
            counts = np.searchsorted(run.hashes, hashes[hit], side="right") - starts
            # Of each hit all positions from its start on.
            shift = starts - (np.cumsum(counts) - counts)
            found.append(run.locations[np.repeat(shift, counts) + np.arange(counts.sum())])
            indices.append(np.repeat(hit, counts))
        if not indices:
            none = np.empty(0, dtype=np.int64)
            return none, none
        index, location = np.concatenate(indices), np.concatenate(found)
        order = np.lexsort((-location, index))
        return index[order], location[order]


def _first(run: IntArray, hashes: IntArray) -> IntArray:
    """The first place of each hash in a run, -1 where there is none."""
    # Sorted, neighbours are looked up in the same part of the run, which is then in the cache.
    order = np.argsort(hashes)
    wanted = hashes[order]
    places = np.searchsorted(run, wanted)
    there = run[np.minimum(places, len(run) - 1)] == wanted
    found = np.empty(len(hashes), dtype=np.int64)
    found[order] = np.where(there, places, -1)
    return found
