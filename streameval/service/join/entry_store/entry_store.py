"""The entries of a label join by id: those that changed last in memory, all of them on disk.

Why SQLite alone is not enough: a pair takes 2 µs in all, 6 µs without compiled code. In a table
``(key TEXT PRIMARY KEY, newest, data)`` an upsert was measured at 2.7 µs and a look-up at 1.4 µs.
Therefore SQLite holds segments of some hundred entries, which are written once and dropped as a
whole, and the index by key is in memory. In return, opening a store reads every segment to rebuild
that index: 1.8 s for a million entries.

In memory there are two generations of entries. When both together exceed the limit the older one is
dropped, and only then are the locations of its entries indexed: most of them are joined by then
and are never looked up again.

An entry is forgotten by its own times. Its segment is dropped later, as a whole; whether
an entry is found never depends on that, nor on a restart.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from streameval.events.values import BoolArray, IntArray
from streameval.records.event_columns import Column, EventColumns
from streameval.service.join.entry_store.segments import (
    ENCODE,
    Appended,
    SegmentStore,
    Versions,
)
from streameval.service.join.rules import Complete, Entry, Labelled, Unlabelled
from streameval.service.store.dialect import Connection
from streameval.states.backend import compiled

if TYPE_CHECKING:
    from streameval.service.native.native_key_table import NativeKeyTable

_NATIVE = compiled("streameval.service.native.native_key_table")

FLOATS = ("score", "weight")
"""The columns of a binary task's payloads whose values are finite floats, or None."""

_NEVER = 2**63 - 1
_BEFORE_ALL = -(2**63)

_PACKED = {kind.__struct_config__.tag: kind for kind in (Unlabelled, Labelled, Complete)}
"""The kinds of entries that compiled code keeps without an object for each."""


class _Generation:
    __slots__ = ("entries", "oldest", "written")

    def __init__(self, floats: Sequence[bool]) -> None:
        self.entries = key_table(floats)
        self.oldest = _NEVER
        """No entry's newest time is before this one."""
        self.written: list[Appended] = []
        """The segments of the entries that were appended."""


@dataclass(slots=True, eq=False)
class EntryChanges:
    """What one checkpoint writes of the entries."""

    generation: _Generation
    versions: Versions
    forgotten: list[int]
    """Segments."""
    appended: Appended | None = None
    """What :meth:`EntryStore.write` has written."""


class LabelledRows(NamedTuple):
    """Records of labels that compiled code has joined, and their predictions."""

    rows: BoolArray
    """The records that were joined; the other columns are of their predictions."""
    times: IntArray
    partitions: IntArray
    newest: IntArray
    columns: list[Column]
    """Of the payload: arrays of floats with nan for None, or lists."""


class EntryStore:
    """The entries of a join, by id; raises StoreError where a segment is damaged, also later."""

    # Some 0.3 µs an entry in memory.

    def __init__(
        self,
        connection: Connection,
        spread_us: int = 2**62,  # entries whose times are further apart do not share a segment
        hot: int = 0,  # most entries in memory besides those that are not written yet
        columns: Sequence[str] = (),  # of the payloads
        floats: Container[str] = FLOATS,  # those of them that are finite floats, or None
    ) -> None:
        self._hot = hot
        self._columns = columns
        self._floats = [column in floats for column in columns]
        self._young = _Generation(self._floats)
        self._old = _Generation(self._floats)
        self._border: int | None = None
        self._disk = SegmentStore(connection, spread_us)

    def check(self) -> int:
        """Decode every entry on disk, and count their versions; raises StoreError."""
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
        """Insert the entries of unknown keys; returns the known entries of the others, by index."""
        # If a key is repeated, its first entry may be inserted, and is known for its second one.
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

    # By columns, in compiled code

    def payloads(self, records: EventColumns) -> list[Column]:
        """The payloads of predictions by columns: arrays of floats with nan for None, or lists."""
        rows = records.rows
        found: list[Column] = []
        for name, are_floats in zip(self._columns, self._floats, strict=True):
            column = records.columns.get(name)
            if are_floats:
                floats = np.full(rows, np.nan) if column is None else column
                found.append(np.asarray(floats, dtype=np.float64))
            elif column is None:
                found.append([None] * rows)
            else:
                found.append(column.tolist() if isinstance(column, np.ndarray) else column)
        return found

    def predict(
        self,
        keys: list[str],
        times: IntArray,
        partition: int,
        payload: list[Column],  # as payloads() returns it
        labels: list[Any] | None = None,
    ) -> BoolArray | None:
        """Insert predictions, or complete records, of unknown ids; returns which were inserted."""
        # The others, or all where this returns None, are left to add().
        young, old = self._young.entries, self._old.entries
        if isinstance(young, PortableKeyTable) or isinstance(old, PortableKeyTable):
            return None
        chosen = np.ones(len(keys), dtype=np.uint8)
        for n, entry in self._disk.find(keys).items():
            chosen[n] = not self._is_known(entry)
        border = _BEFORE_ALL if self._border is None else self._border
        if young.predict(keys, times, partition, payload, labels, old, border, chosen):
            self._young.oldest = min(self._young.oldest, int(times.min()))
        return chosen.view(np.bool_)

    def label(
        self, keys: list[str], labels: list[Any], times: IntArray, wait: int
    ) -> LabelledRows | None:
        """Label predictions in memory that have no label, if the label is in time; None: none."""
        # Of an id only the records before the first one that is left, so that those that follow
        # can be added afterwards, one by one.
        young, old = self._young.entries, self._old.entries
        if isinstance(young, PortableKeyTable) or isinstance(old, PortableKeyTable):
            return None
        border = _BEFORE_ALL if self._border is None else self._border
        found = LabelledRows(*young.label(keys, labels, times, wait, old, border))
        if len(found.newest):
            self._young.oldest = min(self._young.oldest, int(found.newest.min()))
        return found

    # Writing

    def stage(self, before: int | None = None) -> EntryChanges:
        """Take the changes since the last call; entries older than ``before`` are forgotten."""
        young = self._young
        versions = Versions(*young.entries.versions())
        forgotten: list[int] = []
        if before is not None:
            self.forget_before(before)
            forgotten = self._disk.forget_before(before)
        if versions.keys and (self.held > self._hot or 2 * len(young.entries) > self._hot):
            # Between two checkpoints all of the older generation is on disk.
            self._drop_old()
            self._old, self._young = young, _Generation(self._floats)
            # A quarter of the limit: it will grow to half of it, in one step more.
            self._young.entries.reserve(self._hot // 4)
        return EntryChanges(young, versions, forgotten)

    def write(self, connection: Connection, changes: EntryChanges) -> None:
        """Append the changed entries to the segments, inside the caller's transaction."""
        if changes.versions.keys:
            changes.appended = self._disk.append(connection, changes.versions)
        self._disk.delete(connection, changes.forgotten)

    def committed(self, changes: EntryChanges) -> None:
        """Note that changes are committed: they may be dropped from memory."""
        if changes.appended is None:
            return
        self._disk.added(changes.appended)
        changes.generation.written.append(changes.appended)
        if self.held > self._hot:
            self._drop_old()

    def _drop_old(self) -> None:
        """Drop the older generation from memory, all of which is on disk."""
        for appended in self._old.written:
            self._disk.index(appended)
        self._old = _Generation(self._floats)


KeyTable: TypeAlias = "PortableKeyTable | NativeKeyTable"


class PortableKeyTable:
    """Values by key in a dict, and which of them have changed. Nothing is removed."""

    # In a table larger than the processor's cache some 0.4 µs a key. The compiled one
    # (native/native_key_table.pyx) has the same methods, and prefetches the memory of a batch.

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

    def versions(self) -> Versions:
        """The entries that :meth:`add` and :meth:`put` changed since the last call."""
        keys = list(dict.fromkeys(self._changed))
        self._changed = []
        return Versions.of(keys, list(map(self._values.__getitem__, keys)))


def key_table(floats: Sequence[bool] = ()) -> KeyTable:
    """An empty table of the backend in use; of each column of payloads, whether it is floats."""
    if _NATIVE is None:
        return PortableKeyTable()
    table: KeyTable = _NATIVE.NativeKeyTable(floats, _PACKED, ENCODE)
    return table
