"""Entries of a label join on disk: segments that are written once, and found again by key.

Every checkpoint appends the entries that have changed; the newest version of
an entry is the one that counts. In memory an entry on disk costs sixteen
bytes; those of the last checkpoints are held as well. A segment is dropped as
a whole when all in it are old; whether an entry is too old does not depend on
that, but on its own times.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from streameval.errors import StoreError
from streameval.events import BoolArray, IntArray
from streameval.stream.key_runs import KeyRuns, key_hashes
from streameval.stream.label_rules import Entry
from streameval.stream.segments import MOST_ENTRIES, Segment, cuts, damaged, packed

__all__ = ["WaitingStore"]

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
_NOTHING: Entry = (0, 0, 0, None, None, 0)

_MOST_CACHED_BYTES = 64 * 1024 * 1024


class WaitingStore:
    """The segments of a store, and where each entry lies in them.

    Args:
        connection: Of the store; its ``join_segments`` are read at once.
        spread_us: Entries whose times are further apart do not share a segment.
        hot: Most entries that are held in memory.

    Raises:
        StoreError: A segment is damaged.

    Cost:
        Memory: 16 bytes a version of an entry on disk, and 64 MB of segments that were
        read last. A batch of keys is looked for in O(log n) each, and one read of
        each segment that holds one of them.
    """

    def __init__(
        self, connection: sqlite3.Connection, spread_us: int = 2**62, hot: int = 0
    ) -> None:
        self._connection = connection
        self._spread = spread_us
        self._hot = hot
        # Of each of the last checkpoints its first segment and its entries: where an entry lies
        # says which one has it, so that none is copied and none looked for in vain.
        self._held_from: list[int] = []
        self._held: list[Mapping[str, Entry]] = []
        self._held_entries = 0
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

    def __len__(self) -> int:
        """Versions of entries whose place is known."""
        return len(self._runs)

    @property
    def held(self) -> int:
        """Entries in memory."""
        return self._held_entries

    def find(self, keys: Sequence[str]) -> list[Entry | None]:
        """The newest version of the entry of each key; None where there is none.

        Raises:
            StoreError: A segment is damaged.
        """
        found: list[Entry | None] = [None] * len(keys)
        if not self._newest:
            return found
        indices, locations = self._runs.find(key_hashes(keys))
        if not len(indices):
            return found
        alive = self._alive(locations)
        indices, locations = indices[alive], locations[alive]
        others: list[int] = []
        first = np.flatnonzero(np.diff(indices, prepend=-1))
        for n, key, entry in self._entries(keys, indices[first], locations[first]):
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

    def _entries(
        self, keys: Sequence[str], indices: IntArray, locations: IntArray
    ) -> Iterator[tuple[int, str, Entry]]:
        """What lies at these locations, from memory or disk."""
        if self._held:
            ages = np.searchsorted(self._held_from, locations >> _INDEX_BITS, side="right") - 1
            hot = ages >= 0
            for n, age in zip(indices[hot].tolist(), ages[hot].tolist(), strict=True):
                entry = self._held[age].get(keys[n])
                if entry is None:  # a key of the same hash lies there
                    yield n, "", _NOTHING
                else:
                    yield n, keys[n], entry
            indices, locations = indices[~hot], locations[~hot]
        for n, (key, entry) in self._read(indices, locations):
            yield n, key, entry

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

    def write(self, connection: sqlite3.Connection, entries: Mapping[str, Entry]) -> None:
        """Append versions of entries, inside the caller's transaction.

        They are held in memory as they are: the caller does not change them any more.
        """
        if not entries:
            return
        newest = np.fromiter((entry[5] for entry in entries.values()), np.int64, len(entries))
        hashes = key_hashes(list(entries))
        encoded = list(map(self._encode, entries.items()))
        # By time: what is old at the same moment is dropped together.
        if (newest[1:] < newest[:-1]).any():
            order = np.argsort(newest, kind="stable")
            newest, hashes = newest[order], hashes[order]
            encoded = [encoded[place] for place in order.tolist()]
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        self._held_from.append(self._next)
        self._held.append(entries)
        rows = []
        locations: list[IntArray] = []
        for start, stop in cuts(sizes, newest, self._spread):
            data = packed(encoded[start:stop])
            last = int(newest[stop - 1])
            rows.append((self._next, last, stop - start, zlib.crc32(data), data))
            self._newest[self._next] = last
            locations.append((self._next << _INDEX_BITS) + np.arange(stop - start))
            self._next += 1
        connection.executemany("INSERT INTO join_segments VALUES (?, ?, ?, ?, ?)", rows)
        self._numbers = None
        self._runs.add(hashes, np.concatenate(locations), self._alive)
        self._held_entries += len(entries)
        while self._held_entries > self._hot:
            del self._held_from[0]
            self._held_entries -= len(self._held.pop(0))

    def _alive(self, locations: IntArray) -> BoolArray:
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
