"""The entries of a label join by id: those that changed last in memory, all of them on disk.

Why SQLite alone is not enough: 150,000 pairs a second leave 6.7 µs for a pair in all, and a pair
takes 6.3 µs. In a table ``(key TEXT PRIMARY KEY, newest, data)`` an upsert was measured at
2.7 µs and a look-up at 1.4 µs, so that a run would join 70,000 to 90,000 pairs a second. Therefore
SQLite holds segments of some hundred entries, which are written once and dropped as a whole,
and the index by key is in memory. In return, opening a store reads every segment to rebuild that
index: 1.8 s for a million entries.

In memory there are two generations of entries. When both together exceed the limit the older one is
dropped, and only then are the locations of its entries indexed: most of them are joined by then
and are never looked up again.

An entry is forgotten by its own times. Its segment is dropped later, as a whole; whether
an entry is found never depends on that, nor on a restart.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from streameval.events.values import IntArray
from streameval.service.join.entry_store.segments import SCHEMA, Appended, SegmentStore
from streameval.service.join.rules import Entry
from streameval.service.store.dialect import Connection
from streameval.states.score_index import backend

if TYPE_CHECKING:
    from streameval.states.native.native_key_table import NativeKeyTable

_NEVER = 2**63 - 1


class _Generation:
    __slots__ = ("entries", "oldest", "written")

    def __init__(self) -> None:
        self.entries = key_table()
        self.oldest = _NEVER
        """No entry's newest time is before this one."""
        self.written: list[tuple[list[str], IntArray]] = []
        """Keys and locations of the entries that were appended to the segments."""


@dataclass(slots=True, eq=False)
class EntryChanges:
    """What one checkpoint writes of the entries."""

    generation: _Generation
    keys: list[str]
    entries: list[Entry]
    forgotten: list[int]
    """Segments."""
    appended: Appended | None = None
    """What :meth:`EntryStore.write` has written."""


class EntryStore:
    """The entries of a join, by id.

    A checkpoint is :meth:`cut`, :meth:`write` and :meth:`wrote`, and one at a time.
    :meth:`write` alone may be called by another thread than all other methods.

    Args:
        connection: Of the store; its segments are read at once, and looked up later.
        spread_us: Entries whose times are further apart do not share a segment.
        hot: Most entries that are held in memory besides those that are not written yet.

    Raises:
        StoreError: A segment is damaged; also later, when entries are looked up.

    Cost:
        Some 0.3 µs an entry in memory; see SegmentStore for those on disk.
    """

    def __init__(self, connection: Connection, spread_us: int = 2**62, hot: int = 0) -> None:
        self._hot = hot
        self._young = _Generation()
        self._old = _Generation()
        self._border: int | None = None
        self._disk = SegmentStore(connection, spread_us)

    @staticmethod
    def create(connection: Connection) -> None:
        """Make the table, inside the caller's transaction."""
        connection.execute(SCHEMA)

    def check(self) -> int:
        """Decode every entry on disk; returns how many versions of entries there are.

        Raises:
            StoreError: One is damaged.
        """
        self._disk.check()
        return len(self._disk)

    @property
    def held(self) -> int:
        """Entries in memory."""
        return len(self._young.entries) + len(self._old.entries)

    def forget_before(self, border: int) -> None:
        """Forget the ids whose newest time is before this moment."""
        self._border = border

    def _is_known(self, entry: Entry) -> bool:
        return self._border is None or entry.newest >= self._border

    # Looking up

    def latest(self, key: str, found: Entry | None) -> Entry | None:
        """The entry of a key now, given what :meth:`find` or :meth:`add` returned earlier."""
        entry = self._young.entries.get(key)
        return found if entry is None or not self._is_known(entry) else entry

    def find(self, keys: Sequence[str]) -> list[Entry | None]:
        """The entry of each key; None for an unknown one."""
        found: list[Entry | None] = self._young.entries.find(keys)
        if not all(found):
            missing = [n for n, entry in enumerate(found) if entry is None]
            for n, entry in self._older([keys[n] for n in missing]).items():
                found[missing[n]] = entry
        if self._border is not None and self._border > self._young.oldest:
            return [one if one is None or self._is_known(one) else None for one in found]
        return found

    def _older(self, keys: Sequence[str]) -> dict[int, Entry]:
        """The known entries of keys that the young generation does not have, by index."""
        found: dict[int, Entry] = {}
        missing: Sequence[int] = range(len(keys))
        if len(self._old.entries):
            hits = self._old.entries.find(keys)
            if any(hits):
                found = {n: entry for n, entry in enumerate(hits) if entry is not None}
                missing = [n for n, entry in enumerate(hits) if entry is None]
                keys = [keys[n] for n in missing]
        if keys:
            found.update((missing[n], entry) for n, entry in self._disk.find(keys).items())
        if self._border is not None:
            found = {n: entry for n, entry in found.items() if self._is_known(entry)}
        return found

    # Changing

    def put(self, keys: Sequence[str], entries: Iterable[Entry], oldest: int) -> None:
        """Replace the entries of these keys; none has a newest time before ``oldest``."""
        self._young.entries.put(keys, entries)
        self._young.oldest = min(self._young.oldest, oldest)

    def add(self, keys: Sequence[str], entries: Sequence[Entry], oldest: int) -> dict[int, Entry]:
        """Insert the entries of unknown keys.

        Returns:
            The known entries of the others, by index. Where a key is repeated, the first
            one may be inserted, and is then the known entry of the second.
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
                self._young.oldest = min(self._young.oldest, known[n].newest)
            elif there is not entry and self._is_known(now):
                known[n] = now
            elif now is not entry:
                young.put((key,), (entry,))
        return known

    # Writing

    def cut(self, before: int | None = None) -> EntryChanges:
        """Take the changes since the last call, for :meth:`write`.

        Args:
            before: Forget entries older than this moment, and the segments that hold no others.
        """
        young = self._young
        keys, entries = young.entries.changes()
        forgotten: list[int] = []
        if before is not None:
            self.forget_before(before)
            forgotten = self._disk.forget_before(before)
        if keys and (self.held > self._hot or 2 * len(young.entries) > self._hot):
            # Between two checkpoints all of the older generation is on disk.
            self._drop_old()
            self._old, self._young = young, _Generation()
            # A quarter of the limit: it will grow to half of it, in one step more.
            self._young.entries.reserve(self._hot // 4)
        return EntryChanges(young, keys, entries, forgotten)

    def write(self, connection: Connection, changes: EntryChanges) -> None:
        """Append the changed entries to the segments, inside the caller's transaction."""
        if changes.keys:
            changes.appended = self._disk.append(connection, changes.keys, changes.entries)
        self._disk.delete(connection, changes.forgotten)

    def wrote(self, changes: EntryChanges) -> None:
        """Note that changes are committed: they may be dropped from memory."""
        if changes.appended is None:
            return
        self._disk.added(changes.appended)
        changes.generation.written.append((changes.keys, changes.appended.locations))
        if self.held > self._hot:
            self._drop_old()

    def _drop_old(self) -> None:
        """Drop the older generation from memory, all of which is on disk."""
        written = self._old.written
        if written:
            keys = [key for some, _ in written for key in some]
            self._disk.index(keys, np.concatenate([locations for _, locations in written]))
        self._old = _Generation()


KeyTable: TypeAlias = "PortableKeyTable | NativeKeyTable"


class PortableKeyTable:
    """Values by key in a dict, and which of them have changed. Nothing is removed.

    Cost:
        In a table larger than the processor's cache some 0.4 µs a key. The compiled one
        (``native/native_key_table.pyx``) has the same methods, and prefetches the memory
        of a whole batch.

    >>> table = PortableKeyTable()
    >>> table.add(["a", "b"], [1, 2]), table.add(["b", "c"], [3, 4])
    ([1, 2], [2, 4])
    >>> table.put(["a"], [5])
    >>> table.find(["a", "x"]), table.get("c"), len(table)
    ([5, None], 4, 3)
    >>> table.changes(), table.changes()
    ((['a', 'b', 'c'], [5, 2, 4]), ([], []))
    """

    __slots__ = ("_changed", "_values")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._changed: list[str] = []

    def __len__(self) -> int:
        return len(self._values)

    def reserve(self, count: int) -> None:
        """Reserve memory for a number of keys; a dict cannot."""

    def find(self, keys: Sequence[str]) -> list[Any]:
        """The value of each key, or None."""
        return list(map(self._values.get, keys))

    def get(self, key: str) -> Any:
        """The value of one key, or None."""
        return self._values.get(key)

    def add(self, keys: Sequence[str], values: Sequence[Any]) -> list[Any]:
        """Insert the values of keys without one; returns the value of each key afterwards."""
        before = len(self._values)
        found = list(map(self._values.setdefault, keys, values))
        if len(self._values) == before + len(keys):
            self._changed += keys
        else:
            self._changed += [
                key for key, value, now in zip(keys, values, found, strict=True) if now is value
            ]
        return found

    def put(self, keys: Sequence[str], values: Iterable[Any]) -> None:
        """Set the values of keys."""
        self._values.update(zip(keys, values, strict=True))
        self._changed += keys

    def changes(self) -> tuple[list[str], list[Any]]:
        """Keys and values that :meth:`add` and :meth:`put` changed since the last call."""
        keys = list(dict.fromkeys(self._changed))
        self._changed = []
        return keys, list(map(self._values.__getitem__, keys))


def key_table() -> KeyTable:
    """An empty table of the backend in use."""
    if backend() == "native":
        try:
            compiled = importlib.import_module("streameval.states.native.native_key_table")
        except ImportError:  # each compiled module is optional
            return PortableKeyTable()
        table: KeyTable = compiled.NativeKeyTable()
        return table
    return PortableKeyTable()
