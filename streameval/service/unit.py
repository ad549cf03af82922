"""What one owner of partitions keeps: states, join, positions and quarantine of one store.

A run of one process has one unit, which holds all its partitions. A worker of a group has one for
each partition number that the group has assigned to it. Everything in a unit changes in one
transaction, so a unit that is dropped from memory and opened again continues exactly where its
store stands, whatever became of its last transaction.

One thread reads and joins; at a checkpoint it stages what has changed since the last one
(:meth:`Unit.stage`). Another thread may count that and write it (:meth:`Unit.write`), while the
first goes on with what the next checkpoint will write. Nothing is changed by both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, cast

import numpy as np

from streameval.events.time import wall_time
from streameval.service.config.evaluators import kept_metrics, open_evaluators, with_stored_defaults
from streameval.service.config.settings import RunSettings
from streameval.service.counting import CollectedEvents, Counting
from streameval.service.decode.decoder import RecordDecoder
from streameval.service.decode.labels import LabelKind
from streameval.service.join.label_join import JoinChanges, LabelJoin
from streameval.service.join.pairing import JoinedEvents
from streameval.service.lateness import LateShare
from streameval.service.sources.raw import Decoded, Position, RawBatch
from streameval.service.store.dialect import Connection
from streameval.service.store.kept_settings import keep_settings
from streameval.service.store.positions import Positions, ReadPartition
from streameval.service.store.quarantine import Quarantine, QuarantineChanges
from streameval.service.store.state_rows import StateRows, read_rows
from streameval.service.store.store import CHECKPOINT_AT, Store
from streameval.service.store.valid_from import read_valid_from
from streameval.service.upkeep.settings_migration import stored_retention

_LABEL_KIND = "run.label_kind"

_OWN_TIMES = ("files:", "http:")
"""Partitions whose records have times of this machine's clock where they have none themselves."""


class UnitChanges(NamedTuple):
    """What one checkpoint counts and writes."""

    number: int
    at: int
    complete: CollectedEvents
    """Records that needed no join."""
    joined: JoinedEvents | None
    join: JoinChanges | None
    positions: dict[str, ReadPartition]
    quarantine: QuarantineChanges
    label_kind: LabelKind | None


class Unit:
    """The part of a run that one store (or one unit of a shared store) holds.

    Restored from the store when it is made. After an error in a checkpoint its memory is
    no longer that of the store: it is dropped, and another one made.

    Args:
        settings: The run's.
        store: Open for writing; :meth:`close` closes it.
        decoder: For the records of this unit alone: it keeps the kind of their labels.
        join: Joins predictions and labels, loaded from the store; None where records are complete.
        now: Microseconds since 1970.

    Raises:
        ConfigError: A window or metric is invalid.
        StoreError: The store is damaged, or of other settings.
    """

    def __init__(
        self,
        settings: RunSettings,
        store: Store,
        decoder: RecordDecoder,
        *,
        join: LabelJoin | None = None,
        now: Callable[[], int] = wall_time,
    ) -> None:
        self.store = store
        self.join = join
        self._decoder = decoder
        self._now = now
        with store.reading() as connection:
            self.valid_from = read_valid_from(connection)
            self.counting = Counting(
                open_evaluators(settings),
                settings.fields,
                in_order=join is None,
                valid_from=self.valid_from,
            )
            self.counting.recover(read_rows(connection))
            self._rows = StateRows(connection)
            self.positions = Positions(connection)
            self.quarantine = Quarantine(connection, settings.quarantine, now)
        self._collected = CollectedEvents()
        counters = store.counters()
        kind = cast("LabelKind | None", store.meta().get(_LABEL_KIND))
        self._label_kind = decoder.label_kind = kind
        own = None if settings.fields.time is not None else self.positions.newest_of(_OWN_TIMES)
        decoder.resume(self.positions.newest, own)
        self.checkpoints = counters.get("checkpoints", 0)
        """Checkpoints written, over all runs on this store."""
        self.events = counters.get("events", 0)
        """Events counted, over all runs on this store."""
        self._replayed = counters.get("replayed", 0)

    @property
    def changed(self) -> bool:
        """Whether there is anything to write besides what records change."""
        return self.quarantine.pending or self.positions.changed

    def configure(self, settings: RunSettings) -> None:
        """Replace the settings that may change during a run: metrics shown, and quarantine.

        What a window keeps is as it was, where the settings leave it open.

        Raises:
            MetricError: A metric whose states are not kept; nothing has changed.
            StoreError: The settings cannot be written for readers of the store.
        """
        settings = with_stored_defaults(settings, stored_retention(self.store.meta()))
        for evaluator in self.counting.evaluators.values():
            evaluator.show(kept_metrics(settings))
        self.quarantine.settings = settings.quarantine
        keep_settings(self.store, settings)

    def replay(self) -> int:
        """Take the records of the quarantine that are marked for it; returns their number."""
        records = 0
        for batch in self.quarantine.to_replay():
            self._collect(batch)
            records += batch.records
        return records

    def take(self, batch: RawBatch) -> bool:
        """Decode and collect a batch.

        Returns:
            Whether it is the first position of a partition, without a record: it is to be
            stored at once, so that a file that is rotated before the next checkpoint is found
            again.
        """
        is_first = not batch.records and batch.partition not in self.positions.partitions
        newest = self._collect(batch)
        self.positions.advance(batch.partition, batch.next, batch.records, newest)
        return is_first

    def _collect(self, batch: RawBatch) -> int | None:
        """Decode and collect a batch; returns its newest event time."""
        decoded = self._decoder.decode(batch)
        self.quarantine.note_batch(batch, decoded.bad)
        if self.join is not None:
            self.join.add(decoded)
        elif decoded.complete is not None:
            self._collected.add(batch.partition, decoded.complete, batch)
        return _newest(decoded)

    def stage(self, partitions: Iterable[str]) -> UnitChanges:
        """Take what has changed since the last call; :meth:`write` and :meth:`committed` follow.

        Args:
            partitions: Those that can be read; nothing expires before each has been.
        """
        join = self.join
        if join is not None:
            # Partitions that were not read at all may hold old records.
            join.expect(partitions)
        complete, self._collected = self._collected, CollectedEvents()
        return UnitChanges(
            self.checkpoints + 1,
            self._now(),
            complete,
            None if join is None else join.drain(),
            None if join is None else join.stage(),
            self.positions.stage(),
            self.quarantine.stage(),
            self._decoder.label_kind,
        )

    def write(
        self,
        changes: UnitChanges,
        enough: Callable[[], bool],
        also: Callable[[Connection], None] = lambda connection: None,
    ) -> dict[str, Position]:
        """Count what was taken, and write everything in one transaction.

        Args:
            changes: What :meth:`stage` has returned.
            enough: Postpones further merging of stored rows.
            also: Writes what else belongs into the transaction.

        Returns:
            The positions that have changed, which are durable now.

        Raises:
            StoreError: Nothing of it was written, or it is unknown whether all of it was.
        """
        with self.store.transaction() as connection:
            counted = self._count(changes)
            if self.join is not None and changes.join is not None:
                self.join.write(connection, changes.join)
            also(connection)
            self.positions.write(connection, changes.positions)
            self.quarantine.write(connection, changes.quarantine)
            self.events += counted
            self._replayed += len(changes.quarantine.replayed)
            self.store.set_counters(
                {
                    "checkpoints": changes.number,
                    "events": self.events,
                    "replayed": self._replayed,
                    CHECKPOINT_AT: changes.at,
                }
            )
            if changes.label_kind != self._label_kind:
                self._label_kind = changes.label_kind
                self.store.set_meta(_LABEL_KIND, str(self._label_kind))
            self._rows.compact(enough)
        self.checkpoints = changes.number
        return {name: one.position for name, one in changes.positions.items()}

    def committed(self, changes: UnitChanges) -> None:
        """Note, in the thread that reads, that changes are committed."""
        if self.join is not None and changes.join is not None:
            self.join.committed(changes.join)
        self.positions.committed(changes.positions)
        self.quarantine.committed(changes.quarantine)

    def _count(self, changes: UnitChanges) -> int:
        events, joined = changes.complete, changes.joined
        if joined is not None:
            for partition, columns in joined.counted.items():
                events.add_columns(partition, columns)
            for partition, event in joined.reverted:
                events.revert(partition, event)
        counted, rejected = self.counting.checkpoint(self._rows, changes.number, events)
        for error, kind, time, cut in rejected:
            self.quarantine.note(error.source, kind, error, time, cut=cut, into=changes.quarantine)
        return counted

    @property
    def late(self) -> Mapping[str, LateShare]:
        """The share of recent records that were late, by the stage that found them so."""
        shares = {f"window {name}": share for name, share in self.counting.late.items()}
        if self.join is not None:
            shares["the join"] = self.join.late
        return shares

    def close(self) -> None:
        """Close the store; what no checkpoint has written is dropped."""
        self.store.close()


def _newest(decoded: Decoded) -> int | None:
    parts = [part.columns for part in decoded.parts() if "time" in part.columns]
    times = [np.asarray(columns["time"]) for columns in parts]
    return max((int(column.max()) for column in times), default=None)
