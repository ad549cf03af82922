"""The loop of a run: read, decode, join, count, write, publish."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import cast

import msgspec
import numpy as np

from streameval.errors import SourceError
from streameval.events.time import duration, iso_time, wall_time
from streameval.service.alerts.rules import Alerts
from streameval.service.alerts.webhook import Webhook
from streameval.service.checkpoint_policy import CheckpointPolicy
from streameval.service.config.evaluators import kept_metrics, open_evaluators
from streameval.service.config.settings import RunSettings
from streameval.service.counting import Counting
from streameval.service.decode.decoder import RecordDecoder
from streameval.service.decode.labels import LabelKind
from streameval.service.join.label_join import LabelJoin
from streameval.service.lateness import LateLog
from streameval.service.progress import Progress
from streameval.service.snapshot import Checkpoint, PartitionRows, Publisher, SnapshotBuilder
from streameval.service.sources.raw import Decoded, Position, RawBatch, Source
from streameval.service.store.begins import read_begins
from streameval.service.store.positions import Positions
from streameval.service.store.quarantine import Quarantine
from streameval.service.store.state_rows import StateRows, read_rows
from streameval.service.store.store import CHECKPOINT_AT, Store

_READ_MOST = 20_000
_WAIT_SECONDS = 0.1
"""Longest that the loop waits for records: as long as a stop may have to wait."""

_LABEL_KIND = "run.label_kind"


class Runner:
    """One run over one store.

    Restores the state of the store, then reads on from its positions. One thread calls it;
    any number of threads may read what it publishes.

    Args:
        settings: The run's.
        store: Open for writing.
        decoder: For the records.
        publisher: Receives a snapshot after each checkpoint; None: none are made.
        join: Joins predictions and labels, loaded from the store; None
            where records are complete.
        webhook: Receives alerts.
        now: Microseconds since 1970.
        clock: Seconds; it never goes backwards.
        progress: Notes the steps of the loop, for probes.

    Raises:
        ConfigError: A window or metric is invalid.
        StoreError: The store is damaged, or of other settings.
    """

    def __init__(
        self,
        settings: RunSettings,
        store: Store,
        decoder: RecordDecoder,
        publisher: Publisher | None,
        *,
        join: LabelJoin | None = None,
        webhook: Webhook | None = None,
        now: Callable[[], int] = wall_time,
        clock: Callable[[], float] = time.monotonic,
        progress: Progress | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._decoder = decoder
        self._publisher = publisher
        self._join = join
        self._now = now
        self._clock = clock
        every, events = _checkpoint_settings(settings)
        self._policy = CheckpointPolicy(every, events, clock())
        self._wait = 0 if settings.join is None else duration(settings.join.wait, "join.wait")
        with store.reading() as connection:
            self._begins = read_begins(connection)
            self._counting = Counting(
                open_evaluators(settings),
                settings.fields,
                in_order=join is None,
                begins=self._begins,
            )
            self._counting.recover(read_rows(connection))
            self._rows = StateRows(connection)
            self._positions = Positions(connection)
            self._quarantine = Quarantine(connection, settings.quarantine, now)
            self._alerts = Alerts(
                settings, connection, webhook, self._counting.evaluators, now, clock
            )
        counters = store.counters()
        kind = cast("LabelKind | None", store.meta().get(_LABEL_KIND))
        self._label_kind = decoder.label_kind = kind
        self._sequence = counters.get("checkpoints", 0)
        self._events = counters.get("events", 0)
        self._replayed = counters.get("replayed", 0)
        self._snapshots = SnapshotBuilder(settings, self._counting.evaluators, self._begins, clock)
        self._published = 0
        self._checkpoint_at = now()
        self._table = PartitionRows()
        self._late = LateLog()
        self._progress = progress or Progress()
        self._stopping = False
        self._rereading = False
        self.reread: Callable[[], None] = lambda: None
        """Called by :meth:`run` after :meth:`request_reread`."""
        self._sources: Sequence[Source] = ()

    @property
    def positions(self) -> dict[str, Position]:
        """The position next to read of each partition."""
        return self._positions.next_to_read

    @property
    def events(self) -> int:
        """Events counted, over all runs on this store."""
        return self._events

    def stop(self) -> None:
        """Make :meth:`run` checkpoint and return, soon; may be called by a signal handler."""
        self._stopping = True

    def request_reread(self) -> None:
        """Make :meth:`run` call :attr:`reread` soon; may be called by a signal handler."""
        self._rereading = True

    def configure(self, settings: RunSettings, webhook: Webhook | None) -> None:
        """Replace the settings that may change during a run; called by the run's own thread.

        Args:
            settings: Those of the run except alerts, checkpoints, quarantine and the metrics
                that are shown.
            webhook: Receives alerts from now on.

        Raises:
            MetricError: A metric whose states are not kept; nothing has changed.
        """
        for evaluator in self._counting.evaluators.values():
            evaluator.show(kept_metrics(settings))
        self._settings = settings
        self._policy.every, self._policy.events = _checkpoint_settings(settings)
        self._quarantine.settings = settings.quarantine
        self._alerts.configure(settings, webhook)
        self._snapshots = SnapshotBuilder(
            settings, self._counting.evaluators, self._begins, self._clock
        )
        self._publish(force=True)

    def run(self, sources: Sequence[Source], *, until_end: bool = False) -> None:
        """Read until :meth:`stop`, or until every source has finished.

        Args:
            sources: Opened at :attr:`positions`.
            until_end: End as well when nothing is left to read for now.

        Raises:
            SourceError: A source cannot continue; records read before are counted.
            StoreError: The store cannot be written; the last checkpoint holds.
        """
        self._sources = sources
        for batch in self._quarantine.to_replay():
            self._take(batch)
        self._publish(force=True)
        try:
            self._loop(until_end)
        except SourceError:
            self._checkpoint()
            raise
        self._checkpoint()
        self._publish(force=True)
        if self._alerts.changed:
            with self._store.transaction() as connection:
                self._alerts.write(connection)

    def _loop(self, until_end: bool) -> None:
        while not self._stopping:
            self._progress.step()
            if self._rereading:
                self._rereading = False
                self.reread()
            got = self._read_some()
            if self._due_in() <= 0.0:
                self._checkpoint()
                self._publish()
            if not got and self._is_finished(until_end):
                return

    def _read_some(self) -> bool:
        """Whether there were records to read."""
        wait = min(_WAIT_SECONDS, self._due_in()) / len(self._sources)
        # The wait is divided among several sources, after a look at all of them.
        for share in (wait,) if len(self._sources) == 1 else (0.0, wait):
            got = [self._read_from(source, share) for source in self._sources]
            if any(got):
                return True
        return False

    def _read_from(self, source: Source, timeout: float) -> bool:
        batches = source.read(_READ_MOST, timeout)
        for batch in batches:
            newest = self._take(batch)
            records = len(batch.messages) + len(batch.bad)
            if not records and batch.partition not in self._positions.partitions:
                # The first position of a partition is stored at once, so that a file that is
                # rotated before the next checkpoint is found again.
                self._policy.hurry()
            self._positions.advance(batch.partition, batch.next, records, newest)
        return bool(batches)

    def _due_in(self) -> float:
        """Seconds until the next checkpoint is due."""
        return self._policy.due_in(self._clock(), self._has_changed)

    def _take(self, batch: RawBatch) -> int | None:
        """Decode and collect a batch; returns its newest event time."""
        decoded = self._decoder.decode(batch)
        self._quarantine.note_batch(batch, decoded.bad)
        self._policy.count(len(batch.messages) + len(batch.bad))
        if self._join is not None:
            self._join.add(decoded)
        elif decoded.complete is not None:
            self._counting.add(batch.partition, decoded.complete, batch)
        return _newest(decoded)

    def _has_changed(self) -> bool:
        return bool(
            self._policy.records
            or self._quarantine.pending
            or self._positions.changed
            or self._alerts.changed
        )

    def _is_finished(self, until_end: bool) -> bool:
        return all(
            source.finished or (until_end and all(status.lag == 0 for status in source.status()))
            for source in self._sources
        )

    def _checkpoint(self) -> None:
        begun = self._clock()
        if (self._join is None or self._policy.is_quiet(begun)) and not self._has_changed():
            # All that was read is in the store already.
            self._policy.skipped(begun)
            self._checkpoint_at = self._now()
            return
        number = self._sequence + 1
        if self._join is not None:
            # Partitions that were not read at all may hold old records: nothing expires before.
            self._join.expect(
                status.partition for source in self._sources for status in source.status()
            )
        at = self._now()
        with self._store.transaction() as connection:
            counted = self._count(number)
            if self._join is not None:
                self._join.write(connection)
            self._alerts.write(connection)
            changed = self._positions.write()
            replayed = self._quarantine.write()
            self._events += counted
            self._replayed += replayed
            self._store.set_counters(
                {
                    "checkpoints": number,
                    "events": self._events,
                    "replayed": self._replayed,
                    CHECKPOINT_AT: at,
                }
            )
            if self._decoder.label_kind != self._label_kind:
                self._label_kind = self._decoder.label_kind
                self._store.set_meta(_LABEL_KIND, str(self._label_kind))
            self._rows.compact(lambda: self._clock() - begun > self._policy.every / 4)
        self._sequence = number
        for source in self._sources:
            source.checkpointed(changed)
        self._checkpoint_at = at
        self._policy.wrote(begun, self._clock())
        self._snapshots.changed()
        self._log_late()

    def _log_late(self) -> None:
        shares = {f"window {name}": share for name, share in self._counting.late.items()}
        if self._join is not None:
            shares["the join"] = self._join.late
        self._late.log(shares)

    def _count(self, number: int) -> int:
        if self._join is not None:
            outcome = self._join.take()
            for partition, columns in outcome.counted.items():
                self._counting.add_columns(partition, columns)
            for partition, event in outcome.reverted:
                self._counting.take_back(partition, event)
        counted, refused = self._counting.checkpoint(self._rows, number)
        for one in refused:
            self._quarantine.note(one.partition, one.kind, one.event, one.time, cut=one.cut)
        return counted

    def _publish(self, *, force: bool = False) -> None:
        if self._publisher is None:
            return
        self._published += 1
        coverage = None if self._join is None else self._join.coverage()
        until = self._positions.newest if self._join is None else self._join.watermark
        with self._store.reading():
            quarantine = self._quarantine.published()
        self._publisher.open_slice = self._snapshots.open_slice
        snapshot = self._snapshots.build(
            sequence=self._published,
            now=self._now(),
            labelled_until=None if until is None else until - self._wait,
            late=self._counting.late,
            join=coverage,
            partitions=self._table.rows(self._positions.partitions, self._sources),
            quarantine=quarantine,
            checkpoint=Checkpoint(
                self._sequence,
                iso_time(self._checkpoint_at),
                self._events,
                self._policy.seconds,
            ),
            force=force,
        )
        alerts = self._alerts.judge(snapshot)
        self._publisher.publish(msgspec.structs.replace(snapshot, alerts=alerts))


def _checkpoint_settings(settings: RunSettings) -> tuple[float, int]:
    """Seconds between two checkpoints, and the number of records that makes one due earlier."""
    every = duration(settings.checkpoint.every, "checkpoint.every") / 1_000_000
    return every, settings.checkpoint.events


def _newest(decoded: Decoded) -> int | None:
    parts = [part.columns for part in decoded.parts() if "time" in part.columns]
    times = [np.asarray(columns["time"]) for columns in parts]
    return max((int(column.max()) for column in times), default=None)
