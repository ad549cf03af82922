"""The rows of states in a store: one for each checkpoint, partition and window.

A partition's state is the merge of its rows, less the events that were taken
back. Rows of one partition and window are merged into one when they outweigh
the snapshot that they add to, so that each byte is merged a bounded number of
times on average, and a restart reads little more than the state itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from streameval.errors import InputError, StateError, StoreError
from streameval.evaluator import Evaluator, from_bytes
from streameval.stream.checksums import soundness
from streameval.stream.event_columns import arguments

__all__ = ["Event", "StateRow", "StateRows", "merged_windows", "read_rows", "take_back"]

Event = Mapping[str, Any]

_FEW_BYTES = 256 * 1024
_MANY_ROWS = 64


class StateRow(NamedTuple):
    """One row."""

    partition: str
    window: str
    number: int
    kind: str
    evaluator: Evaluator
    reverted: list[Event]
    """Events to take out of the merge of all rows."""


def take_back(evaluator: Evaluator, event: Event) -> bool:
    """Undo an event where it is still there; False where its pane has been dropped."""
    try:
        evaluator.revert(**arguments(event))
    except InputError:
        return False
    return True


def read_rows(
    connection: sqlite3.Connection, partition: str | None = None, window: str | None = None
) -> Iterator[StateRow]:
    """The rows in order, one at a time; raises StoreError for a damaged one."""
    query = (
        f"SELECT partition, window, number, kind, reverted, data, {soundness(connection, 'states')}"
        " FROM states WHERE (?1 IS NULL OR partition = ?1) AND (?2 IS NULL OR window = ?2) "
        "ORDER BY partition, window, number"
    )
    rows = connection.execute(query, (partition, window))
    for part, name, number, kind, reverted, data, is_sound in rows:
        try:
            if not is_sound:
                raise StateError("it does not match its checksum")
            evaluator = from_bytes(data)
            taken: list[Event] = msgspec.msgpack.decode(reverted, strict=False) if reverted else []
            if not isinstance(taken, list) or not all(isinstance(item, dict) for item in taken):
                raise StateError("the events taken back are not a list of events")
        except (StateError, msgspec.DecodeError) as error:
            raise StoreError(
                f"the state {number} of partition {part!r}, window {name!r} is damaged: {error}; "
                "restore a backup, or begin a new store"
            ) from None
        yield StateRow(part, name, number, kind, evaluator, taken)


def merged_windows(
    connection: sqlite3.Connection, partition: str | None = None
) -> dict[str, Evaluator]:
    """The evaluator of each window, of all partitions or of one; raises StoreError.

    Windows come in the order of their names; those without events are missing.
    """
    found: dict[str, Evaluator] = {}
    taken: list[tuple[str, Event]] = []
    for row in read_rows(connection, partition):
        taken += [(row.window, event) for event in row.reverted]
        if row.window not in found:
            found[row.window] = row.evaluator
            continue
        try:
            found[row.window].merge(row.evaluator)
        except StateError as error:
            raise StoreError(
                f"the state {row.number} of partition {row.partition!r}, window "
                f"{row.window!r} does not belong with the others: {error}"
            ) from None
    for window, event in taken:
        try:
            take_back(found[window], event)
        except (TypeError, ValueError, KeyError) as error:
            # Only in an older store: without a checksum of the row.
            raise StoreError(
                f"an event to take back in window {window!r} is damaged: {error}; "
                "restore a backup, or begin a new store"
            ) from None
    return dict(sorted(found.items()))


@dataclass(slots=True)
class _Size:
    snapshot: int = 0
    deltas: int = 0
    rows: int = 0

    def note(self, kind: str, size: int) -> None:
        if kind == "snapshot":
            self.snapshot += size
        else:
            self.deltas += size
            self.rows += 1

    @property
    def due(self) -> bool:
        return self.rows >= _MANY_ROWS or self.deltas > max(self.snapshot, _FEW_BYTES)


class StateRows:
    """Writes rows and merges them, within the transactions of its caller.

    Args:
        connection: Of the store.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sizes: dict[tuple[str, str], _Size] = {}
        query = "SELECT partition, window, kind, length(data) + length(reverted) FROM states"
        for partition, window, kind, size in connection.execute(query):
            self._size(partition, window).note(kind, size)

    def _size(self, partition: str, window: str) -> _Size:
        return self._sizes.setdefault((partition, window), _Size())

    def write(
        self, partition: str, window: str, number: int, delta: Evaluator, reverted: list[Event]
    ) -> None:
        """Write what a checkpoint adds to a partition's window."""
        self._insert(partition, window, number, "delta", delta, reverted)

    def _insert(
        self,
        partition: str,
        window: str,
        number: int,
        kind: str,
        evaluator: Evaluator,
        reverted: list[Event],
    ) -> None:
        data = evaluator.to_bytes()
        # Not JSON: the keys of an event's probabilities may be integers.
        events = msgspec.msgpack.encode(reverted) if reverted else b""
        self._connection.execute(
            "INSERT INTO states (partition, window, number, kind, reverted, data) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (partition, window, number, kind, events, data),
        )
        self._size(partition, window).note(kind, len(data) + len(events))

    def compact(self, enough: Callable[[], bool]) -> int:
        """Merge the rows of partitions and windows where it is due, the heaviest first.

        A row that is the only one is called a snapshot, as it is.

        Args:
            enough: Asked after each; True ends it, and the rest waits.

        Returns:
            How many were merged.
        """
        due = [place for place, size in self._sizes.items() if size.due]
        due.sort(key=lambda place: self._sizes[place].deltas, reverse=True)
        for done, (partition, window) in enumerate(due, 1):
            self._merge(partition, window)
            if enough():
                return done
        return len(due)

    def _merge(self, partition: str, window: str) -> None:
        size = self._sizes[partition, window]
        if size.rows == 1 and not size.snapshot:
            self._connection.execute(
                "UPDATE states SET kind = 'snapshot' WHERE partition = ? AND window = ?",
                (partition, window),
            )
            self._sizes[partition, window] = _Size(snapshot=size.deltas)
            return
        merged: Evaluator | None = None
        reverted: list[Event] = []
        last = 0
        for row in read_rows(self._connection, partition, window):
            reverted += row.reverted
            last = row.number
            if merged is None:
                merged = row.evaluator
            else:
                merged.merge(row.evaluator)
        assert merged is not None
        # After all merges: an event may be taken back in an earlier row than it was counted in.
        for event in reverted:
            take_back(merged, event)
        self._connection.execute(
            "DELETE FROM states WHERE partition = ? AND window = ?", (partition, window)
        )
        self._sizes[partition, window] = _Size()
        self._insert(partition, window, last, "snapshot", merged, [])
