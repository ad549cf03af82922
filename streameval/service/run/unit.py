"""Unit: the states, join, positions, quarantine and alerts that one store holds of a run.

A run of one process has one unit, which holds all its partitions. A worker of a group has one for
each partition number that the group has assigned to it. Everything in a unit changes in one
transaction, so a unit that is dropped from memory and opened again continues exactly where its
store stands, whether its last transaction was executed or not.

One thread reads and joins; at a checkpoint it stages what has changed since the last one
(:meth:`Unit.stage`). Another thread may count and write these changes (:meth:`Unit.write`), while
the first goes on with the next checkpoint's. Nothing is changed by both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from streameval.events.time import wall_time
from streameval.service.alerts.rules import Alerts
from streameval.service.config.evaluators import (
    kept_metrics,
    open_evaluators,
    predicted_windows,
    with_stored_defaults,
)
from streameval.service.config.settings import RunSettings
from streameval.service.decode.decoder import RecordDecoder
from streameval.service.decode.labels import LabelKind
from streameval.service.join.examples import EXAMPLES, merged_examples
from streameval.service.join.label_join import LabelJoin
from streameval.service.join.pairing import JoinedEvents
from streameval.service.lateness import LateShare
from streameval.service.run.counting import CollectedEvents, Counting
from streameval.service.sources.raw import Decoded, Position, RawBatch
from streameval.service.store.dialect import Connection
from streameval.service.store.kept_settings import keep_settings
from streameval.service.store.positions import Positions, ReadPartition
from streameval.service.store.quarantine import Quarantine, QuarantineChanges
from streameval.service.store.staged import Staged
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
    joined: tuple[JoinedEvents, JoinedEvents] | None
    """Events, and predictions that were read for the first time."""
    positions: dict[str, ReadPartition]
    quarantine: QuarantineChanges
    parts: list[tuple[Staged[Any], Any]]
    """Each part of the unit that is staged, and its changes."""
    label_kind: LabelKind | None


class Unit:
    """Counts the records of some partitions, and keeps all of them in one store.

    Raises ConfigError for an invalid window or metric, and StoreError where the store is damaged
    or of other settings. After an error in a checkpoint the memory is no longer that of the store:
    the unit is dropped, and another one made.
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
        # The decoder is of this unit alone: it keeps the kind of the unit's labels.
        self.settings = settings
        self.store = store
        self.join = join
        self.decoder = decoder
        self.alerts: Alerts | None = None
        """Written with the unit, where its process judges them."""
        self._now = now
        meta = store.meta()
        self._examples = meta.get(EXAMPLES)
        """The written form of the examples in the store."""
        with store.reading() as connection:
            self.valid_from = read_valid_from(connection)
            self.counting = Counting(
                open_evaluators(settings),
                settings.fields,
                in_order=join is None,
                valid_from=self.valid_from,
                examples=merged_examples(settings, [meta.get(EXAMPLES)]),
                predicted={name: one.model for name, one in predicted_windows(settings).items()},
            )
            self.counting.recover(read_rows(connection))
            self._rows = StateRows(connection)
            self.positions = Positions(connection)
            self.quarantine = Quarantine(connection, settings.quarantine, now)
        self._collected = CollectedEvents()
        counters = store.counters()
        kind = cast("LabelKind | None", meta.get(_LABEL_KIND))
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
        return (
            self.quarantine.pending
            or self.positions.changed
            or (self.alerts is not None and self.alerts.changed)
        )

    def configure(self, settings: RunSettings) -> None:
        """Replace the metrics shown and the settings of the quarantine; what windows keep stays."""
        settings = with_stored_defaults(settings, stored_retention(self.store.meta()))
        for window in self.counting.labelled:
            self.counting.evaluators[window].show(kept_metrics(settings))
        self.settings = settings
        self.quarantine.settings = settings.quarantine
        keep_settings(self.store, settings)

    def replay(self) -> int:
        """Collect the quarantined records that are marked for it; returns their number."""
        records = 0
        for batch in self.quarantine.to_replay():
            self._collect(batch)
            records += batch.records
        return records

    def collect(self, batch: RawBatch) -> bool:
        """Decode and collect a batch; returns whether it is to be written at once."""
        # The first position of a partition, without a record: a file that is rotated before the
        # next checkpoint is found again by it.
        is_first = not batch.records and batch.partition not in self.positions.partitions
        newest = self._collect(batch)
        self.positions.advance(batch.partition, batch.next, batch.records, newest)
        return is_first

    def _collect(self, batch: RawBatch) -> int | None:
        """Decode and collect a batch; returns its newest event time."""
        decoded = self.decoder.decode(batch)
        self.quarantine.note_batch(batch, decoded.bad)
        if self.join is not None:
            self.join.add(decoded)
        elif decoded.complete is not None:
            self._collected.add(batch.partition, decoded.complete, batch)
        return _newest(decoded)

    def stage(self, partitions: Iterable[str]) -> UnitChanges:
        """The changes since the last call; nothing expires before each partition was read."""
        joined = None
        parts: list[tuple[Staged[Any], Any]] = []
        if self.join is not None:
            # Partitions that were not read at all may hold old records.
            self.join.expect(partitions)
            joined = self.join.drain()
            parts.append((self.join, self.join.stage()))
        positions, quarantine = self.positions.stage(), self.quarantine.stage()
        parts += [(self.positions, positions), (self.quarantine, quarantine)]
        if self.alerts is not None:
            parts.append((self.alerts, self.alerts.stage()))
        complete, self._collected = self._collected, CollectedEvents()
        return UnitChanges(
            self.checkpoints + 1,
            self._now(),
            complete,
            joined,
            positions,
            quarantine,
            parts,
            self.decoder.label_kind,
        )

    def write(self, changes: UnitChanges, enough: Callable[[], bool]) -> dict[str, Position]:
        """Count and write changes in one transaction; returns the positions that are durable now.

        ``enough`` postpones further merging of stored rows. After a StoreError nothing was
        written, or it is unknown whether all of it was.
        """
        with self.store.transaction() as connection:
            self.events += self._count(changes)
            for part, staged in changes.parts:
                part.write(connection, staged)
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
            self._write_examples(connection)
            self._rows.compact(enough)
        return {name: one.position for name, one in changes.positions.items()}

    def _write_examples(self, connection: Connection) -> None:
        examples = self.counting.examples
        text = None if examples is None else examples.to_text()
        if text == self._examples:
            return
        self._examples = text
        if text is None:
            # Ids that the settings no longer want are not kept.
            connection.execute("DELETE FROM meta WHERE key = ?", (EXAMPLES,))
        else:
            self.store.set_meta(EXAMPLES, text)

    def committed(self, changes: UnitChanges) -> None:
        """Note, in the thread that reads, that changes are durable."""
        self.checkpoints = changes.number
        for part, staged in changes.parts:
            part.committed(staged)

    def _count(self, changes: UnitChanges) -> int:
        events = changes.complete
        if changes.joined is not None:
            joined, predicted = changes.joined
            for partition, columns in predicted.counted.items():
                events.predict(partition, columns)
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
        """Close the store; changes that no checkpoint has written are lost."""
        self.store.close()


def _newest(decoded: Decoded) -> int | None:
    parts = [part.columns for part in decoded.parts() if "time" in part.columns]
    times = [np.asarray(columns["time"]) for columns in parts]
    return max((int(column.max()) for column in times), default=None)
