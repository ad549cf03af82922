"""The loop of a run: read, decode, join, count, write, publish."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from streameval.errors import SourceError
from streameval.events.time import duration, iso_time, wall_time
from streameval.service.alerts.rules import Alerts
from streameval.service.alerts.webhook import Webhook
from streameval.service.checkpoint_policy import CheckpointPolicy
from streameval.service.config.settings import RunSettings
from streameval.service.decode.decoder import RecordDecoder
from streameval.service.join.label_join import LabelJoin
from streameval.service.lateness import LateLog
from streameval.service.progress import Progress
from streameval.service.snapshot import Checkpoint, PartitionRows, Publisher, SnapshotBuilder
from streameval.service.sources.raw import Position, RawBatch, Source
from streameval.service.store.store import Store
from streameval.service.unit import Unit

_READ_MOST = 20_000
_WAIT_SECONDS = 0.1
"""Longest that the loop waits for records: as long as a stop may have to wait."""


class Counter(Protocol):
    """What the loop reads for: it counts the batches, and writes them at checkpoints."""

    @property
    def changed(self) -> bool:
        """Whether there is anything to write besides the records that were taken."""

    def take(self, batch: RawBatch) -> bool:
        """Collect a batch; whether a checkpoint is due at once."""

    def checkpoint(self, enough: Callable[[], bool]) -> Mapping[str, Position]:
        """Write all that was collected; returns the positions that are durable now."""

    def publish(self, *, force: bool = False) -> None:
        """Make what was written visible, after a checkpoint or one that had nothing to write."""


class ReadLoop:
    """Reads sources into a counter, with checkpoints when they are due.

    One thread calls :meth:`run`.

    Args:
        counter: Receives the batches.
        settings: The run's.
        clock: Seconds; it never goes backwards.
        keeps_time: Whether a checkpoint without records may have something to write, because
            entries expire with the time.
        progress: Notes the steps of the loop, for probes.
    """

    def __init__(
        self,
        counter: Counter,
        settings: RunSettings,
        clock: Callable[[], float],
        *,
        keeps_time: bool,
        progress: Progress | None = None,
    ) -> None:
        self._counter = counter
        self._clock = clock
        self._keeps_time = keeps_time
        self._progress = progress or Progress()
        every, events = _checkpoint_settings(settings)
        self.policy = CheckpointPolicy(every, events, clock())
        self.sources: Sequence[Source] = ()
        self._stopping = False
        self._rereading = False
        self._idle = False
        """Whether the last look at the sources found nothing to read."""
        self.reread: Callable[[], None] = lambda: None
        """Called by :meth:`run` after :meth:`request_reread`."""

    def stop(self) -> None:
        """Make :meth:`run` checkpoint and return, soon; may be called by a signal handler."""
        self._stopping = True

    def request_reread(self) -> None:
        """Make :meth:`run` call :attr:`reread` soon; may be called by a signal handler."""
        self._rereading = True

    def configure(self, settings: RunSettings) -> None:
        """Replace the settings of checkpoints."""
        self.policy.every, self.policy.events = _checkpoint_settings(settings)

    def run(self, sources: Sequence[Source], *, until_end: bool = False) -> None:
        """Read until :meth:`stop`, or until every source has finished.

        Args:
            sources: Opened at the positions of the counter.
            until_end: End as well when nothing is left to read for now.

        Raises:
            SourceError: A source cannot continue; records read before are counted.
            StoreError: The store cannot be written; the last checkpoint holds.
        """
        self.sources = sources
        self._counter.publish(force=True)
        try:
            self._read(until_end)
        except SourceError:
            self._checkpoint()
            raise
        self._checkpoint()
        self._counter.publish(force=True)

    def _read(self, until_end: bool) -> None:
        while not self._stopping:
            self._progress.step()
            if self._rereading:
                self._rereading = False
                self.reread()
            got = self._read_some()
            self._idle = not got
            if self._due_in() <= 0.0:
                self._checkpoint()
                self._counter.publish()
            if not got and self._is_finished(until_end):
                return

    def _read_some(self) -> bool:
        """Whether there were records to read."""
        wait = min(_WAIT_SECONDS, self._due_in()) / len(self.sources)
        # The wait is divided among several sources, after a look at all of them.
        for share in (wait,) if len(self.sources) == 1 else (0.0, wait):
            got = [self._read_from(source, share) for source in self.sources]
            if any(got):
                return True
        return False

    def _read_from(self, source: Source, timeout: float) -> bool:
        batches = source.read(_READ_MOST, timeout)
        for batch in batches:
            self.policy.count(batch.records)
            if self._counter.take(batch):
                self.policy.hurry()
        return bool(batches)

    def _due_in(self) -> float:
        """Seconds until the next checkpoint is due."""
        return self.policy.due_in(self._clock(), self._has_changed, idle=self._idle)

    def _has_changed(self) -> bool:
        return bool(self.policy.records or self._counter.changed)

    def _is_finished(self, until_end: bool) -> bool:
        return all(
            source.finished or (until_end and all(status.lag == 0 for status in source.status()))
            for source in self.sources
        )

    def _checkpoint(self) -> None:
        begun = self._clock()
        if (not self._keeps_time or self.policy.is_quiet(begun)) and not self._has_changed():
            # All that was read is in the store already.
            self.policy.skipped(begun)
            return
        changed = self._counter.checkpoint(lambda: self._clock() - begun > self.policy.every / 4)
        for source in self.sources:
            source.checkpointed(changed)
        self.policy.wrote(begun, self._clock())


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
        self._publisher = publisher
        self._now = now
        self._clock = clock
        self._wait = 0 if settings.join is None else duration(settings.join.wait, "join.wait")
        self._unit = Unit(settings, store, decoder, join=join, now=now)
        self._evaluators = self._unit.counting.evaluators
        with store.reading() as connection:
            self._alerts = Alerts(settings, connection, webhook, self._evaluators, now, clock)
        self.loop = ReadLoop(self, settings, clock, keeps_time=join is not None, progress=progress)
        self._open_snapshots()
        self._published = 0
        self._checkpoint_at = now()
        """When all that had been read was in the store."""
        self._table = PartitionRows()
        self._late = LateLog()

    def _open_snapshots(self) -> None:
        self._snapshots = SnapshotBuilder(
            self._settings, self._evaluators, self._unit.begins, self._clock
        )

    @property
    def positions(self) -> dict[str, Position]:
        """The position next to read of each partition."""
        return self._unit.positions.next_to_read

    @property
    def events(self) -> int:
        """Events counted, over all runs on this store."""
        return self._unit.events

    def stop(self) -> None:
        """Make :meth:`run` checkpoint and return, soon; may be called by a signal handler."""
        self.loop.stop()

    def configure(self, settings: RunSettings, webhook: Webhook | None) -> None:
        """Replace the settings that may change during a run; called by the run's own thread.

        Args:
            settings: Those of the run except alerts, checkpoints, quarantine and the metrics
                that are shown.
            webhook: Receives alerts from now on.

        Raises:
            MetricError: A metric whose states are not kept; nothing has changed.
        """
        self._unit.configure(settings)
        self._settings = settings
        self.loop.configure(settings)
        self._alerts.configure(settings, webhook)
        self._open_snapshots()
        self.publish(force=True)

    def run(self, sources: Sequence[Source], *, until_end: bool = False) -> None:
        """Read until :meth:`stop`, or until every source has finished; as :meth:`ReadLoop.run`.

        Args:
            sources: Opened at :attr:`positions`.
            until_end: End as well when nothing is left to read for now.

        Raises:
            SourceError: A source cannot continue; records read before are counted.
            StoreError: The store cannot be written; the last checkpoint holds.
        """
        self.loop.policy.count(self._unit.replay())
        self.loop.run(sources, until_end=until_end)
        if self._alerts.changed:
            with self._store.transaction() as connection:
                self._alerts.write(connection)

    # What the loop calls.

    @property
    def changed(self) -> bool:
        """Whether there is anything to write besides the records that were taken."""
        return self._unit.changed or self._alerts.changed

    def take(self, batch: RawBatch) -> bool:
        """Collect a batch; whether a checkpoint is due at once."""
        return self._unit.take(batch)

    def checkpoint(self, enough: Callable[[], bool]) -> Mapping[str, Position]:
        """Count what was collected, and write it."""
        statuses = [status for source in self.loop.sources for status in source.status()]
        changed = self._unit.checkpoint(
            [status.partition for status in statuses], enough, self._alerts.write
        )
        self._checkpoint_at = self._now()
        self._snapshots.changed()
        self._late.log(self._unit.late)
        return changed

    def publish(self, *, force: bool = False) -> None:
        """Publish a snapshot, and judge the alerts."""
        if not force:
            self._checkpoint_at = self._now()
        if self._publisher is None:
            return
        unit = self._unit
        self._published += 1
        coverage = None if unit.join is None else unit.join.coverage()
        until = unit.positions.newest if unit.join is None else unit.join.watermark
        with self._store.reading():
            quarantine = unit.quarantine.published()
        self._publisher.open_slice = self._snapshots.open_slice
        snapshot = self._snapshots.build(
            sequence=self._published,
            now=self._now(),
            labelled_until=None if until is None else until - self._wait,
            late=unit.counting.late,
            join=coverage,
            partitions=self._table.rows(unit.positions.partitions, self.loop.sources),
            quarantine=quarantine,
            checkpoint=Checkpoint(
                unit.checkpoints,
                iso_time(self._checkpoint_at),
                unit.events,
                self.loop.policy.seconds,
            ),
            force=force,
        )
        alerts = self._alerts.judge(snapshot)
        self._publisher.publish(msgspec.structs.replace(snapshot, alerts=alerts))


def _checkpoint_settings(settings: RunSettings) -> tuple[float, int]:
    """Seconds between two checkpoints, and the number of records that makes one due earlier."""
    every = duration(settings.checkpoint.every, "checkpoint.every") / 1_000_000
    return every, settings.checkpoint.events
