"""Entries of a label join on disk: segments that are written once, and found again by key.

Every checkpoint appends the entries that have changed; the newest version of
an entry is the one that counts. In memory an entry on disk costs sixteen
bytes. A segment is dropped as a whole when nothing in it is needed any more.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
import numpy as np

from streameval.errors import StoreError
from streameval.events import BoolArray, IntArray
from streameval.stream.key_runs import KeyRuns, key_hashes

__all__ = ["Entry", "WaitingStore"]

Entry: TypeAlias = tuple[int, int, int, Any, Any, Any]
"""Kind, time in microseconds, number of its partition, payload, label, label's time."""

_SCHEMA = """
CREATE TABLE join_segments (
    segment INTEGER PRIMARY KEY,
    due INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    crc INTEGER NOT NULL,
    data BLOB NOT NULL
);
"""

_INDEX_BITS = 8
_ENTRIES = 1 << _INDEX_BITS
"""Entries of a segment, some 16 KB of them: little to read for one label of a random age."""

_CACHED_SEGMENTS = 2048


class WaitingStore:
    """The segments of a store, and where each entry lies in them.

    Args:
        connection: Of the store; its ``join_segments`` are read at once.

    Raises:
        StoreError: A segment is damaged.

    Cost:
        Memory: 16 bytes an entry (version) on disk. A batch of keys is looked for in
        O(log n) each, and one read of each segment that holds one of them.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(tuple[str, int, int, int, Any, Any, Any])
        self._due: dict[int, int] = {}
        self._runs = KeyRuns()
        self._next = 1
        self._cache: OrderedDict[int, tuple[memoryview, list[int]]] = OrderedDict()
        self._load()

    @staticmethod
    def create(connection: sqlite3.Connection) -> None:
        """Make the table, inside the caller's transaction."""
        connection.execute(_SCHEMA)

    def _load(self) -> None:
        hashes: list[IntArray] = []
        locations: list[IntArray] = []
        rows = self._connection.execute(
            "SELECT segment, due, entries, crc, data FROM join_segments ORDER BY segment"
        )
        for segment, due, entries, crc, data in rows:
            view, offsets = _opened(segment, entries, crc, data)
            keys = [
                self._decoded(segment, view[start:stop])[0] for start, stop in pairwise(offsets)
            ]
            self._due[segment] = due
            self._next = segment + 1
            hashes.append(key_hashes(keys))
            locations.append((segment << _INDEX_BITS) + np.arange(len(keys)))
        if hashes:
            self._runs.add(np.concatenate(hashes), np.concatenate(locations))

    def __len__(self) -> int:
        """Versions of entries whose place is known."""
        return len(self._runs)

    def find(self, keys: Sequence[str]) -> dict[str, Entry]:
        """The newest version of the entries of these keys; absent where there is none.

        Raises:
            StoreError: A segment is damaged.
        """
        if not self._due:
            return {}
        candidates = self._runs.find(key_hashes(keys))
        if not candidates:
            return {}
        found: dict[str, Entry] = {}
        # In the order of the segments, so that each is read once.
        newest: dict[int, list[int]] = {}
        for n, location in candidates:
            if location >> _INDEX_BITS in self._due:
                newest.setdefault(n, []).append(location)
        first = sorted((locations[0], n) for n, locations in newest.items())
        for location, n in first:
            entry = self._read(location)
            if entry[0] == keys[n]:
                found[keys[n]] = entry[1:]
            else:  # another key of the same hash: then one of the older ones may be meant
                for other in newest[n][1:]:
                    entry = self._read(other)
                    if entry[0] == keys[n]:
                        found[keys[n]] = entry[1:]
                        break
        return found

    def _read(self, location: int) -> tuple[str, int, int, int, Any, Any, Any]:
        segment, index = location >> _INDEX_BITS, location & (_ENTRIES - 1)
        opened = self._cache.get(segment)
        if opened is None:
            row = self._connection.execute(
                "SELECT entries, crc, data FROM join_segments WHERE segment = ?", (segment,)
            ).fetchone()
            if row is None:
                raise StoreError(f"join segment {segment} is missing from the store")
            opened = self._cache[segment] = _opened(segment, *row)
            if len(self._cache) > _CACHED_SEGMENTS:
                self._cache.popitem(last=False)
        view, offsets = opened
        return self._decoded(segment, view[offsets[index] : offsets[index + 1]])

    def _decoded(self, segment: int, data: memoryview) -> tuple[str, int, int, int, Any, Any, Any]:
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"join segment {segment} is damaged: {error}") from None

    def write(
        self,
        connection: sqlite3.Connection,
        entries: Mapping[str, Entry],
        dues: Sequence[int],
    ) -> None:
        """Append versions of entries, inside the caller's transaction.

        Args:
            connection: Of the store.
            entries: By key.
            dues: Of each, in the same order: the moment (microseconds) from
                which on it is not needed.
        """
        if not entries:
            return
        encode = self._encoder.encode
        encoded = [encode((key, *entry)) for key, entry in entries.items()]
        rows = []
        locations: list[IntArray] = []
        for start in range(0, len(encoded), _ENTRIES):
            part = encoded[start : start + _ENTRIES]
            data = _packed(part)
            due = max(dues[start : start + _ENTRIES])
            rows.append((self._next, due, len(part), zlib.crc32(data), data))
            self._due[self._next] = due
            locations.append((self._next << _INDEX_BITS) + np.arange(len(part)))
            self._next += 1
        connection.executemany("INSERT INTO join_segments VALUES (?, ?, ?, ?, ?)", rows)
        self._runs.add(key_hashes(list(entries)), np.concatenate(locations), self._alive)

    def _alive(self, locations: IntArray) -> BoolArray:
        known = np.fromiter(self._due, np.int64, len(self._due))
        known.sort()
        segments = locations >> _INDEX_BITS
        places = np.minimum(np.searchsorted(known, segments), len(known) - 1)
        alive: BoolArray = known[places] == segments
        return alive

    def drop(self, connection: sqlite3.Connection, before: int) -> None:
        """Delete the segments in which all is due before a moment, inside a transaction."""
        gone = [(segment,) for segment, due in self._due.items() if due < before]
        connection.executemany("DELETE FROM join_segments WHERE segment = ?", gone)
        for (segment,) in gone:
            del self._due[segment]
            self._cache.pop(segment, None)


def _packed(entries: list[bytes]) -> bytes:
    """Where each entry ends, then the entries."""
    ends = np.cumsum(np.fromiter(map(len, entries), np.int64, len(entries)))
    return ends.astype("<u4").tobytes() + b"".join(entries)


def _opened(segment: int, entries: int, crc: int, data: bytes) -> tuple[memoryview, list[int]]:
    """A segment's entries, and where each begins; raises StoreError."""
    if zlib.crc32(data) != crc or len(data) < 4 * entries:
        raise StoreError(
            f"join segment {segment} is damaged: its checksum is not the one it was written with; "
            "restore the store from a copy"
        )
    ends = np.frombuffer(data, dtype="<u4", count=entries).tolist()
    return memoryview(data)[4 * entries :], [0, *ends]
