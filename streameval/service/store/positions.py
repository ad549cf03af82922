"""The position of each partition in the store: up to where its records are counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from streameval.errors import StoreError, shown
from streameval.service.sources.raw import Position
from streameval.service.store.dialect import Connection


class ReadPartition(NamedTuple):
    """What was read of a partition: up to where, how many records, and their newest time."""

    position: Position
    records: int
    newest: int | None


class Positions:
    """Positions, counts of records and newest times, by partition."""

    def __init__(self, connection: Connection) -> None:
        self.partitions = read_positions(connection)
        self._changed: set[str] = set()

    @property
    def next_to_read(self) -> dict[str, Position]:
        """The position next to read of each partition."""
        return {name: partition.position for name, partition in self.partitions.items()}

    def advance(self, name: str, position: Position, records: int, newest: int | None) -> None:
        """Add the number of records that were read, up to this position."""
        known = self.partitions.get(name)
        if known is not None:
            records += known.records
            if newest is None or (known.newest is not None and known.newest > newest):
                newest = known.newest
        self.partitions[name] = ReadPartition(position, records, newest)
        self._changed.add(name)

    @property
    def newest(self) -> int | None:
        """The latest event time of all partitions, in microseconds."""
        return self.newest_of(("",))

    def newest_of(self, prefixes: tuple[str, ...]) -> int | None:
        """The latest event time of the partitions whose names begin so."""
        times = [p.newest for name, p in self.partitions.items() if name.startswith(prefixes)]
        return max((time for time in times if time is not None), default=None)

    @property
    def changed(self) -> bool:
        """Whether a position is not written yet; it may advance without a record."""
        return bool(self._changed)

    def stage(self) -> dict[str, ReadPartition]:
        """Take what has changed since the last call."""
        changed = {name: self.partitions[name] for name in sorted(self._changed)}
        self._changed.clear()
        return changed

    def write(self, connection: Connection, changes: Mapping[str, ReadPartition]) -> None:
        """Write changed positions, inside a transaction."""
        connection.executemany(
            "INSERT INTO positions VALUES (?, ?, ?, ?) ON CONFLICT (partition) DO UPDATE SET "
            "position = excluded.position, records = excluded.records, newest = excluded.newest",
            [
                (name, msgspec.json.encode(p.position).decode(), p.records, p.newest)
                for name, p in changes.items()
            ],
        )

    def committed(self, changes: Mapping[str, ReadPartition]) -> None:
        """Note that changes are durable; nothing depends on it."""


def read_positions(connection: Connection) -> dict[str, ReadPartition]:
    """The rows of the store by partition; raises StoreError for a damaged position."""
    found = {}
    for name, text, records, newest in connection.execute(
        "SELECT partition, position, records, newest FROM positions ORDER BY partition"
    ):
        try:
            position = msgspec.json.decode(text, type=dict[str, int | str])
        except msgspec.MsgspecError:
            raise StoreError(
                f"the position of partition {name!r} is damaged: expected an object of plain "
                f"values, got {shown(text)}"
            ) from None
        found[name] = ReadPartition(position, records, newest)
    return found
