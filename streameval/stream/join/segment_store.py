"""Entries of a label join on disk: segments that are written once, and found again by key.

Every checkpoint appends the entries that have changed; the newest version of
an entry is the one that counts. In memory an entry that can be found here costs
sixteen bytes. A segment is dropped as a whole when all in it are old.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from operator import itemgetter

import msgspec
import numpy as np

from streameval.errors import StoreError
from streameval.events import BoolArray, IntArray
from streameval.stream.join.key_runs import KeyRuns, key_hashes
from streameval.stream.join.label_rules import Entry
from streameval.stream.join.segments import MOST_ENTRIES, Segment, cuts, damaged, packed

__all__ = ["SegmentStore"]

_SCHEMA = """
CREATE TABLE join_segments (
    segment INTEGER PRIMARY KEY,
    newest INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    data BLOB NOT NULL
);
"""

_INDEX_BITS = MOST_ENTRIES.bit_length() - 1

_MOST_CACHED_BYTES = 64 * 1024 * 1024


class SegmentStore:
    """The segments of a store, and where each entry lies in them.

    Args:
        connection: Of the store; its ``join_segments`` are read at once.
        spread_us: Entries whose times are further apart do not share a segment.

    Raises:
        StoreError: A segment is damaged.

    Cost:
        Memory: 16 bytes a version of an entry that can be found, and 64 MB of segments that
        were read last. A batch of keys is looked for in O(log n) each, and one read of
        each segment that holds one of them.
    """

    def __init__(self, connection: sqlite3.Connection, spread_us: int = 2**62) -> None:
        self._connection = connection
        self._spread = spread_us
        self._encode = msgspec.msgpack.Encoder().encode
        self._newest: dict[int, int] = {}
        self._numbers: IntArray | None = None
        self._runs = KeyRuns()
        self._next = 1
        self._cache: OrderedDict[int, Segment] = OrderedDict()
        self._cached_bytes = 0
        self._load()

    @staticmethod
    def create(connection: sqlite3.Connection) -> None:
        """Make the table, inside the caller's transaction."""
        connection.execute(_SCHEMA)

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
            self._runs.add(np.concatenate(hashes), np.concatenate(locations))

    def _stored(self) -> Iterator[tuple[int, int, Segment]]:
        last = 0
        try:
            for number, newest, entries, crc, data in self._connection.execute(
                "SELECT segment, newest, entries, crc, data FROM join_segments ORDER BY segment"
            ):
                last = number
                if not isinstance(newest, int):
                    raise damaged(number, "its row does not hold what was written")
                yield number, newest, Segment(number, entries, crc, data)
        except sqlite3.DatabaseError as error:
            raise StoreError(f"join segments after {last} cannot be read: {error}") from None

    def check(self) -> None:
        """Decode every entry; raises StoreError for one that is damaged."""
        for _, _, segment in self._stored():
            segment.at(range(len(segment)))

    def __len__(self) -> int:
        """Versions of entries whose place is known."""
        return len(self._runs)

    def find(self, keys: Sequence[str]) -> dict[int, Entry]:
        """The newest version of the entry of each key that can be found, by the key's place.

        Raises:
            StoreError: A segment is damaged.
        """
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
            else:  # another key of the same hash: then one of the older ones may be meant
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
        """What lies at these locations; in their order, so that each segment is read once."""
        if not len(indices):
            return
        order = np.argsort(locations)
        indices, locations = indices[order], locations[order]
        segments = locations >> _INDEX_BITS
        places = (locations & (MOST_ENTRIES - 1)).tolist()
        meant = indices.tolist()
        starts = np.flatnonzero(np.diff(segments, prepend=-1)).tolist()
        for start, stop in zip(starts, [*starts[1:], len(places)], strict=True):
            segment = self._segment(int(segments[start]))
            yield from zip(meant[start:stop], segment.at(places[start:stop]), strict=True)

    def _segment(self, number: int) -> Segment:
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
            raise damaged(number, "it is missing")
        segment = self._cache[number] = Segment(number, *row)
        self._cached_bytes += segment.size
        while self._cached_bytes > _MOST_CACHED_BYTES and len(self._cache) > 1:
            self._cached_bytes -= self._cache.popitem(last=False)[1].size
        return segment

    def append(
        self, connection: sqlite3.Connection, keys: Sequence[str], entries: Sequence[Entry]
    ) -> IntArray:
        """Write versions of entries, inside the caller's transaction.

        Returns:
            Where each lies: what :meth:`index` wants to know before it can be found.
        """
        newest = np.fromiter(map(itemgetter(5), entries), np.int64, len(entries))
        encoded = list(map(self._encode, zip(keys, entries, strict=True)))
        order: IntArray | None = None
        # By time: what is old at the same moment is dropped together.
        if (newest[1:] < newest[:-1]).any():
            order = np.argsort(newest, kind="stable")
            newest = newest[order]
            encoded = [encoded[place] for place in order.tolist()]
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        rows = []
        written = np.empty(len(encoded), dtype=np.int64)
        for start, stop in cuts(sizes, newest, self._spread):
            data = packed(encoded[start:stop], sizes[start:stop])
            last = int(newest[stop - 1])
            rows.append((self._next, last, stop - start, zlib.crc32(data), data))
            self._newest[self._next] = last
            written[start:stop] = np.arange(stop - start) + (self._next << _INDEX_BITS)
            self._next += 1
        connection.executemany("INSERT INTO join_segments VALUES (?, ?, ?, ?, ?)", rows)
        self._numbers = None
        if order is None:
            return written
        locations = np.empty_like(written)
        locations[order] = written
        return locations

    def index(self, keys: Sequence[str], locations: IntArray) -> None:
        """Let entries be found that were appended."""
        self._runs.add(key_hashes(keys), locations, self._alive)

    def _alive(self, locations: IntArray) -> BoolArray:
        if not self._newest:
            return np.zeros(len(locations), dtype=np.bool_)
        if self._numbers is None:
            # In ascending order, as they were added.
            self._numbers = np.fromiter(self._newest, np.int64, len(self._newest))
        segments = locations >> _INDEX_BITS
        places = np.minimum(np.searchsorted(self._numbers, segments), len(self._numbers) - 1)
        alive: BoolArray = self._numbers[places] == segments
        return alive

    def drop(self, connection: sqlite3.Connection, before: int) -> None:
        """Delete the segments whose entries are all older than a moment, inside a transaction."""
        gone = [(segment,) for segment, newest in self._newest.items() if newest < before]
        if not gone:
            return
        connection.executemany("DELETE FROM join_segments WHERE segment = ?", gone)
        self._numbers = None
        for (number,) in gone:
            del self._newest[number]
            segment = self._cache.pop(number, None)
            if segment is not None:
                self._cached_bytes -= segment.size
