"""The rows of states in a store: one for each checkpoint, partition and window.

A partition's state is the merge of its rows, less the reverted events. The newest
rows of one partition and window are merged into one; a row that is larger than all
later ones together is not rewritten. So the cost of a merge follows the changes and not
the size of the state, each byte is rewritten a logarithmic number of times, and a
restart reads at most a few times the size of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec

from streameval.errors import InputError, StateError, StoreError
from streameval.evaluator.comparison import Evaluation, evaluation_from_bytes
from streameval.evaluator.evaluator import Evaluator
from streameval.records.event_columns import arguments
from streameval.service.store.checksums import checksum_ok_sql
from streameval.service.store.dialect import RESTORE, Connection, streamed
from streameval.state_files.codec import compressed

Event = Mapping[str, Any]

PART = "part"
"""The key, in a reverted event, of the part of the evaluator that it was counted in."""

_FEW_BYTES = 128 * 1024
"""Rows up to this size are always merged with later ones."""

_MANY_ROWS = 64


class StateRow(NamedTuple):
    """One row."""

    partition: str
    window: str
    number: int
    kind: str
    evaluator: Evaluation
    reverted: list[Event]
    """Events to revert in the merge of all rows."""


def revert_event(evaluator: Evaluation, event: Event) -> bool:
    """Revert an event; False if its pane has been dropped."""
    part = event.get(PART)
    limits: AbstractContextManager[None] = nullcontext()
    if part is not None:
        assert isinstance(evaluator, Evaluator)  # of several models all parts begin together
        limits = evaluator.counting_only(
            map(tuple, part["dimensions"]), labels=part["labels"], scores=part["scores"]
        )
    try:
        with limits:
            evaluator.revert(**arguments(event, probabilities=evaluator.takes_probabilities))
    except InputError:
        return False
    return True


def read_rows(
    connection: Connection,
    partition: str | None = None,
    window: str | None = None,
    first: int | None = None,
) -> Iterator[StateRow]:
    """The rows in order, from a number on, one at a time; raises StoreError for a damaged one."""
    wanted = {"partition = ?": partition, '"window" = ?': window, "number >= ?": first}
    chosen = [test for test, value in wanted.items() if value is not None]
    query = (
        'SELECT partition, "window", number, kind, reverted, data, '
        f"{checksum_ok_sql(connection)} FROM states "
        f'{"WHERE " * bool(chosen)}{" AND ".join(chosen)} ORDER BY partition, "window", number'
    )
    rows = streamed(connection, query, [value for value in wanted.values() if value is not None])
    for part, name, number, kind, reverted, data, is_sound in rows:
        try:
            if not is_sound:
                raise StateError("it does not match its checksum")
            evaluator = evaluation_from_bytes(data)
            events: list[Event] = msgspec.msgpack.decode(reverted, strict=False) if reverted else []
            if not isinstance(events, list) or not all(isinstance(item, dict) for item in events):
                raise StateError("the reverted events are not a list of events")
        except (StateError, msgspec.DecodeError) as error:
            raise StoreError(
                f"the state {number} of partition {part!r}, window {name!r} is damaged: {error}; "
                f"{RESTORE}"
            ) from None
        yield StateRow(part, name, number, kind, evaluator, events)


def merged_windows(connection: Connection, partition: str | None = None) -> dict[str, Evaluation]:
    """The evaluator of each window that has events, by name, of all partitions or of one."""
    found: dict[str, Evaluation] = {}
    merge_rows(found, read_rows(connection, partition))
    return dict(sorted(found.items()))


def merge_rows(evaluators: dict[str, Evaluation], rows: Iterable[StateRow]) -> None:
    """Merge rows into the evaluators of their windows, then revert their events."""
    reverted: list[tuple[str, Event]] = []
    for row in rows:
        reverted += [(row.window, event) for event in row.reverted]
        if row.window not in evaluators:
            evaluators[row.window] = row.evaluator
            continue
        try:
            evaluators[row.window].merge(row.evaluator)  # type: ignore[arg-type]
        except StateError as error:
            raise StoreError(
                f"the state {row.number} of partition {row.partition!r}, window "
                f"{row.window!r} does not belong with the others: {error}"
            ) from None
    for window, event in reverted:
        try:
            revert_event(evaluators[window], event)
        except (TypeError, ValueError, KeyError) as error:
            # Only in a store of version 1, whose rows have no checksums.
            raise StoreError(
                f"an event to revert in window {window!r} is damaged: {error}; {RESTORE}"
            ) from None


@dataclass(slots=True)
class _Rows:
    """The rows of one partition and window in their order: numbers, and sizes in bytes."""

    numbers: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def due(self) -> tuple[int, int] | None:
        """The rows to merge: the index of the first, and the bytes; None: there are none."""
        # A row larger than all later ones (and than twice the newest one) is not rewritten. So a
        # byte is rewritten a logarithmic number of times, the cost of a merge follows the changes
        # since the last one, and the largest row is rewritten when as many bytes were added since.
        start, total = len(self.sizes), 0
        alike = max(2 * self.sizes[-1], _FEW_BYTES) if self.sizes else 0
        light = 0
        while start:
            start -= 1
            total += self.sizes[start]
            light += 1
            before = self.sizes[start - 1] if start else 0
            if start and before <= max(total, alike):
                continue
            rows = len(self.sizes) - start
            if light >= _MANY_ROWS or (1 < rows == light and total > 2 * _FEW_BYTES):
                return start, total
            # Many small rows before a large one are no reason to rewrite it.
            light -= 1
        return None


class StateRows:
    """Writes rows and merges them, inside the caller's transactions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: dict[tuple[str, str], _Rows] = {}
        query = (
            'SELECT partition, "window", number, length(data) + length(reverted) FROM states '
            "ORDER BY number"
        )
        for row in connection.execute(query):
            self._note(*row)

    def _note(self, partition: str, window: str, number: int, size: int) -> None:
        rows = self._rows.setdefault((partition, window), _Rows())
        rows.numbers.append(number)
        rows.sizes.append(size)

    def write(
        self,
        partition: str,
        window: str,
        number: int,
        evaluator: Evaluation,
        reverted: list[Event],
        kind: Literal["delta", "snapshot"] = "delta",
    ) -> None:
        """Write a row of a partition's window; a snapshot has no rows before it."""
        data = compressed(evaluator.to_bytes())
        # Not JSON: the keys of an event's probabilities may be integers.
        events = msgspec.msgpack.encode(reverted) if reverted else b""
        self._connection.execute(
            'INSERT INTO states (partition, "window", number, kind, reverted, data) '
            "VALUES (?, ?, ?, ?, ?, ?)",
            (partition, window, number, kind, events, data),
        )
        self._note(partition, window, number, len(data) + len(events))

    def _check(self) -> None:
        query = (
            "SELECT number, length(data) + length(reverted) FROM states "
            'WHERE partition = ? AND "window" = ? ORDER BY number'
        )
        for key, rows in self._rows.items():
            found = self._connection.execute(query, key).fetchall()
            assert found == list(zip(rows.numbers, rows.sizes, strict=True))

    def compact(self, enough: Callable[[], bool]) -> int:
        """Merge the newest rows of partitions and windows where it is due, the largest first."""
        due = [
            (found[1], key, found[0])
            for key, rows in self._rows.items()
            if (found := rows.due()) is not None
        ]
        for done, (_, key, start) in enumerate(sorted(due, reverse=True), 1):
            self._merge(*key, start)
            if enough():
                return done
        return len(due)

    def drop(self, window: str) -> None:
        """Delete the rows of a window."""
        self._connection.execute('DELETE FROM states WHERE "window" = ?', (window,))
        self._rows = {key: rows for key, rows in self._rows.items() if key[1] != window}

    def change(self, window: str, step: Callable[[Evaluation], Evaluation]) -> None:
        """Replace the rows of a window, one for each partition, by the result of ``step``."""
        for partition, name in list(self._rows):
            if name == window:
                self._merge(partition, window, 0, step)

    def _merge(
        self,
        partition: str,
        window: str,
        start: int,
        step: Callable[[Evaluation], Evaluation] = lambda evaluator: evaluator,
    ) -> None:
        rows = self._rows[partition, window]
        first, last = rows.numbers[start], rows.numbers[-1]
        merged: Evaluation | None = None
        reverted: list[Event] = []
        for row in read_rows(self._connection, partition, window, first):
            reverted += row.reverted
            if merged is None:
                merged = row.evaluator
            else:
                merged.merge(row.evaluator)  # type: ignore[arg-type]
        assert merged is not None
        # After all merges: an event may be reverted in an earlier row than it was counted in.
        # One that is not found may be in a row that is not merged, or in a dropped pane.
        left = [event for event in reverted if not revert_event(merged, event)]
        merged = step(merged)
        self._connection.execute(
            'DELETE FROM states WHERE partition = ? AND "window" = ? AND number >= ?',
            (partition, window, first),
        )
        del rows.numbers[start:], rows.sizes[start:]
        if start:
            self.write(partition, window, last, merged, left)
        else:
            self.write(partition, window, last, merged, [], "snapshot")
