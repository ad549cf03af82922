"""Assembles what units hold, live or stored, into the snapshots that a process publishes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from streameval.events.time import iso_time
from streameval.service.join.counts import MergedJoin
from streameval.service.lateness import LateShare
from streameval.service.publish.builder import SnapshotBuilder
from streameval.service.publish.snapshot import (
    AlertState,
    Checkpoint,
    Partition,
    Publisher,
    Snapshot,
)
from streameval.service.sources.raw import PartitionStatus, Source
from streameval.service.store.positions import ReadPartition
from streameval.service.store.quarantine import merged

log = logging.getLogger(__name__)


class UnitSummary(NamedTuple):
    """What a snapshot shows of a unit, besides its evaluators and its join, as of a checkpoint."""

    partitions: Mapping[str, ReadPartition]
    quarantine: Mapping[str, Any]
    checkpoints: int
    events: int
    written_at: int
    """Microseconds since 1970 of the last checkpoint; 0 before the first."""


class Assembler:
    """Publishes the snapshots of one process, which are numbered from 1 on."""

    snapshots: SnapshotBuilder
    """Replaced with the settings or the evaluators; set before the first snapshot."""

    def __init__(self, publisher: Publisher, now: Callable[[], int]) -> None:
        self._publisher = publisher
        self._now = now
        self._table = PartitionRows()
        self._published = 0

    def publish(
        self,
        units: Sequence[UnitSummary],
        join: MergedJoin | None,
        alerts: Callable[[Snapshot], list[AlertState]],
        *,
        sources: Sequence[Source] | None = None,
        late: Mapping[str, LateShare] | None = None,
        seconds: float | None = None,
        force: bool = False,
    ) -> None:
        """Publish a snapshot of units; the options are known only to the process that counts."""
        self._published += 1
        now = self._now()
        partitions = {name: one for unit in units for name, one in unit.partitions.items()}
        times = [one.newest for one in partitions.values() if one.newest is not None]
        self._publisher.open_slice = self.snapshots.open_slice
        snapshot = self.snapshots.build(
            sequence=self._published,
            now=now,
            labelled_until=max(times, default=None) if join is None else join.labelled_until,
            late=late,
            join=None if join is None else {"late": None, **join.counts},
            partitions=self._table.rows(partitions, sources),
            quarantine=merged([unit.quarantine for unit in units]),
            checkpoint=Checkpoint(
                sum(unit.checkpoints for unit in units),
                iso_time(max((unit.written_at for unit in units), default=0) or now),
                sum(unit.events for unit in units),
                seconds,
            ),
            force=force,
        )
        self._publisher.publish(msgspec.structs.replace(snapshot, alerts=alerts(snapshot)))


class PartitionRows:
    """Builds a snapshot's partitions, and logs each problem of a partition once."""

    def __init__(self) -> None:
        self._problems: dict[str, str] = {}

    def rows(
        self, partitions: Mapping[str, ReadPartition], sources: Sequence[Source] | None
    ) -> list[Partition]:
        """Every partition that was ever read or can be read, by name."""
        statuses = {
            row.partition: (row, one.lag_unit) for one in sources or () for row in one.status()
        }
        self.log(status for status, _ in statuses.values())
        # A name that ends with a colon holds other data of a source, and is no partition.
        read = {name: one for name, one in partitions.items() if not name.endswith(":")}
        lag = None if sources is None else 0
        rows = []
        for name in sorted(read.keys() | statuses.keys()):
            known = read.get(name)
            # A partition that no source reads any longer has nothing left to read.
            status, unit = statuses.get(name, (PartitionStatus(name, None, lag), None))
            newest = None if known is None else known.newest
            rows.append(
                Partition(
                    partition=name,
                    position=None if known is None else known.position,
                    lag=status.lag,
                    lag_unit=unit,
                    problem=status.problem,
                    missed=status.missed,
                    records=0 if known is None else known.records,
                    newest=None if newest is None else iso_time(newest),
                )
            )
        return rows

    def log(self, statuses: Iterable[PartitionStatus]) -> None:
        """Log the problems that are new, and the problems that have ended."""
        for status in statuses:
            if status.problem == self._problems.get(status.partition, ""):
                continue
            self._problems[status.partition] = status.problem
            if status.problem:
                log.warning("%s: %s", status.partition, status.problem)
            else:
                log.info("%s: is being read again", status.partition)
