"""What a label join knows of each id: the entries that changed last in memory, all on disk.

Memory has two generations of entries. When both have as many as is allowed the older
one goes, and only then is it noted where its entries lie on disk: most of them have met
their label or prediction by then and are never asked for again.

An entry is forgotten by its own times. A segment on disk goes later than that, as a
whole; whether something is known of an id never depends on it, nor on a restart.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from operator import is_

import numpy as np

from streameval.events import IntArray
from streameval.stream.join.key_table import key_table
from streameval.stream.join.label_rules import Entry
from streameval.stream.join.segment_store import SegmentStore

__all__ = ["WaitingStore"]

_NEVER = 2**63 - 1


class _Generation:
    """Some entries in memory."""

    __slots__ = ("entries", "oldest", "written")

    def __init__(self) -> None:
        self.entries = key_table()
        self.oldest = _NEVER
        """No entry's newest time is before this one."""
        self.written: list[tuple[list[str], IntArray]] = []
        """Keys and places of what was appended to the segments."""


class WaitingStore:
    """The entries of a join, by id.

    Args:
        connection: Of the store; its segments are read at once.
        spread_us: Entries whose times are further apart do not share a segment.
        hot: Most entries that are held in memory beside those that were not written yet.

    Raises:
        StoreError: A segment is damaged; also later, when entries are looked for.

    Cost:
        Some 0.3 µs an entry that is in memory. One on disk: see SegmentStore.
    """

    def __init__(
        self, connection: sqlite3.Connection, spread_us: int = 2**62, hot: int = 0
    ) -> None:
        self._hot = hot
        self._young = _Generation()
        self._old = _Generation()
        self._border: int | None = None
        self._disk = SegmentStore(connection, spread_us)

    @staticmethod
    def create(connection: sqlite3.Connection) -> None:
        """Make the tables, inside the caller's transaction."""
        SegmentStore.create(connection)

    @property
    def held(self) -> int:
        """Entries in memory."""
        return len(self._young.entries) + len(self._old.entries)

    def forget_before(self, border: int) -> None:
        """Know nothing any more of ids whose newest time is before this moment."""
        self._border = border

    def _is_known(self, entry: Entry) -> bool:
        return self._border is None or entry[5] >= self._border

    # Looking

    def latest(self, key: str, found: Entry | None) -> Entry | None:
        """The entry of a key that :meth:`find` or :meth:`add` was asked for some steps ago."""
        entry = self._young.entries.get(key)
        return found if entry is None or not self._is_known(entry) else entry

    def find(self, keys: Sequence[str]) -> list[Entry | None]:
        """The entry of each key; None where nothing is known."""
        found: list[Entry | None] = self._young.entries.find(keys)
        if not all(found):
            missing = [place for place, entry in enumerate(found) if entry is None]
            for n, entry in self._older([keys[place] for place in missing]).items():
                found[missing[n]] = entry
        if self._border is not None and self._border > self._young.oldest:
            return [one if one is None or self._is_known(one) else None for one in found]
        return found

    def _older(self, keys: Sequence[str]) -> dict[int, Entry]:
        """What is known of keys that the young generation does not have, by their places."""
        found: dict[int, Entry] = {}
        places: Sequence[int] = range(len(keys))
        if len(self._old.entries):
            hits = self._old.entries.find(keys)
            if any(hits):
                found = {n: entry for n, entry in enumerate(hits) if entry is not None}
                places = [n for n, entry in enumerate(hits) if entry is None]
                keys = [keys[n] for n in places]
        if keys:
            on_disk = self._disk.find(keys)
            found.update((places[n], entry) for n, entry in on_disk.items())
        if self._border is not None:
            found = {n: entry for n, entry in found.items() if self._is_known(entry)}
        return found

    # Changing

    def put(self, keys: Sequence[str], entries: Iterable[Entry], oldest: int) -> None:
        """Replace the entries of these keys; none has a newest time before ``oldest``."""
        self._young.entries.put(keys, entries)
        self._young.oldest = min(self._young.oldest, oldest)

    def add(self, keys: Sequence[str], entries: Sequence[Entry], oldest: int) -> dict[int, Entry]:
        """Put in the entries of keys of which nothing is known.

        Returns:
            What is known of the others, by their places. Of a key that is there twice the
            first may be put in; it is what is known of the second.
        """
        young = self._young.entries
        got = young.add(keys, entries)
        self._young.oldest = min(self._young.oldest, oldest)
        known = self._older(keys)
        if not known and all(map(is_, got, entries)):
            return known
        for n, (key, entry, there) in enumerate(zip(keys, entries, got, strict=True)):
            now = young.get(key)
            if there is entry and n in known:
                young.put((key,), (known[n],))
                self._young.oldest = min(self._young.oldest, known[n][5])
            elif there is not entry and self._is_known(now):
                known[n] = now
            elif now is not entry:
                young.put((key,), (entry,))
        return known

    # Writing

    def write(self, connection: sqlite3.Connection) -> None:
        """Append what has changed to the segments, inside the caller's transaction."""
        young = self._young
        keys, entries = young.entries.changes()
        if not keys:
            return
        young.written.append((keys, self._disk.append(connection, keys, entries)))
        if self.held > self._hot or 2 * len(young.entries) > self._hot:
            self._let_go()
        if self.held > self._hot:
            self._let_go()

    def _let_go(self) -> None:
        """Of the older generation; the younger one is the older one then."""
        written = self._old.written
        if written:
            keys = [key for some, _ in written for key in some]
            self._disk.index(keys, np.concatenate([places for _, places in written]))
        self._old, self._young = self._young, _Generation()
        # A quarter of what is allowed: it is going to be half, in one step more.
        self._young.entries.reserve(self._hot // 4)

    def drop(self, connection: sqlite3.Connection, before: int) -> None:
        """Forget what is older than a moment; delete the segments that hold nothing else.

        Inside the caller's transaction.
        """
        self.forget_before(before)
        self._disk.drop(connection, before)
