"""The loop of a run: read, decode, join, take what has changed, publish.

What was taken is counted and written by the thread of an executor meanwhile. At most one checkpoint
is under way; what was read since is in no position, and in no answer, before the next one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from streameval.errors import SourceError
from streameval.events.time import iso_time, wall_time
from streameval.service.alerts.rules import Alerts
from streameval.service.alerts.webhook import Webhook
from streameval.service.checkpoint_policy import CheckpointPolicy
from streameval.service.config.settings import RunSettings
from streameval.service.decode.decoder import RecordDecoder
from streameval.service.join.label_join import LabelJoin
from streameval.service.lateness import LateLog
from streameval.service.progress import Progress
from streameval.service.snapshot import Checkpoint, Publisher
from streameval.service.snapshot_builder import PartitionRows, SnapshotBuilder
from streameval.service.sources.raw import Position, RawBatch, Source
from streameval.service.store.positions import ReadPartition
from streameval.service.store.staged import write_now
from streameval.service.store.store import Store
from streameval.service.unit import Unit, UnitChanges

_READ_MOST = 20_000
_WAIT_SECONDS = 0.1
"""Longest that the loop waits for records: as long as a stop may have to wait."""
_LOOK_SECONDS = 0.01
"""And while a checkpoint is being written, whose end it is to notice."""

Write: TypeAlias = Callable[[], Mapping[str, Position]]
"""Writes a checkpoint; returns the positions that are durable then."""


class Counter(Protocol):
    """What the loop reads for: it collects the batches, and counts them at checkpoints."""

    @property
    def changed(self) -> bool:
        """Whether there is anything to write besides the records that were taken."""

    def take(self, batch: RawBatch) -> bool:
        """Collect a batch; whether a checkpoint is due at once."""

    def checkpoint(self, enough: Callable[[], bool]) -> Write:
        """Take all that was collected; returns what writes it, which another thread may call."""

    def wrote(self) -> None:
        """Note that it is written; before the next checkpoint."""

    def publish(self, *, force: bool = False) -> None:
        """Make what was written visible, after a checkpoint or one that had nothing to write."""


def in_this_thread(write: Write) -> Future[Mapping[str, Position]]:
    """Call it now: what an executor's ``submit`` does in another thread."""
    future: Future[Mapping[str, Position]] = Future()
    try:
        future.set_result(write())
    except BaseException as error:
        future.set_exception(error)
    return future


Submit: TypeAlias = Callable[[Write], Future[Mapping[str, Position]]]


class ReadLoop:
    """Reads sources into a counter, with checkpoints when they are due.

    One thread calls :meth:`run`.

    Args:
        counter: Receives the batches.
        settings: The run's.
        clock: Seconds; it never goes backwards.
        keeps_time: Whether a checkpoint without records may have something to write, because
            entries expire with the time.
        progress: Notes the steps of the loop, for probes; none while it waits for a checkpoint.
        submit: Writes a checkpoint; ``submit`` of an executor of one thread.
    """

    def __init__(
        self,
        counter: Counter,
        settings: RunSettings,
        clock: Callable[[], float],
        *,
        keeps_time: bool,
        progress: Progress | None = None,
        submit: Submit = in_this_thread,
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
        self._submit = submit
        self._writing: Future[Mapping[str, Position]] | None = None
        """The checkpoint that is under way."""
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
            self._write_rest()
            raise
        self._write_rest()
        self._counter.publish(force=True)

    def _read(self, until_end: bool) -> None:
        while not self._stopping:
            if self._writing is None:
                self._progress.step()
            if self._rereading:
                self._rereading = False
                self.settle()
                self.reread()
            got = self._read_some()
            self._idle = not got
            if self._writing is None and self._due_in() <= 0.0:
                self._checkpoint()
                if self._writing is None:
                    self._counter.publish()
            if self._writing is not None and self._is_written(self._writing):
                self.settle()
                self._counter.publish()
            if not got and self._is_finished(until_end):
                self._check_read()
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
        """Seconds until the next checkpoint is due, or until the one under way is looked for."""
        if self._writing is not None:
            return 0.0 if self.policy.is_full else _LOOK_SECONDS
        return self.policy.due_in(self._clock(), self._has_changed, idle=self._idle)

    def _has_changed(self) -> bool:
        return bool(self.policy.records or self._counter.changed)

    def _is_finished(self, until_end: bool) -> bool:
        return all(
            source.finished or (until_end and all(status.lag == 0 for status in source.status()))
            for source in self.sources
        )

    def _check_read(self) -> None:
        """Raise SourceError where a source has ended without what cannot be opened."""
        statuses = [status for source in self.sources for status in source.status()]
        unread = [f"{one.partition}: {one.problem}" for one in statuses if one.unopened]
        if unread:
            raise SourceError(f"not finished, all else is counted: {'; '.join(unread)}")

    def _checkpoint(self) -> None:
        begun = self._clock()
        if (not self._keeps_time or self.policy.is_quiet(begun)) and not self._has_changed():
            # All that was read is in the store already.
            self.policy.skipped(begun)
            return
        write = self._counter.checkpoint(lambda: self._clock() - begun > self.policy.every / 4)
        self.policy.began(begun)
        self._writing = self._submit(write)

    def _is_written(self, writing: Future[Mapping[str, Position]]) -> bool:
        """Whether a checkpoint has ended; waits for it where nothing else is to be done."""
        if self.policy.is_full:
            wait([writing])
        elif self._idle:
            wait([writing], _LOOK_SECONDS)
        return writing.done()

    def settle(self) -> None:
        """Wait for the checkpoint that is under way; raises StoreError where it has failed."""
        if self._writing is None:
            return
        writing, self._writing = self._writing, None
        positions = writing.result()
        self._counter.wrote()
        for source in self.sources:
            source.checkpointed(positions)
        self.policy.wrote(self._clock())

    def abandon(self) -> None:
        """Wait for the checkpoint that is under way, without noting it: an error ends the run."""
        if self._writing is not None:
            wait([self._writing])
            self._writing = None

    def _write_rest(self) -> None:
        """Write all that was read, after the checkpoint that is under way."""
        self.settle()
        self._checkpoint()
        self.settle()


class _Shown(NamedTuple):
    """What is published beside the evaluators, as of a checkpoint."""

    join: Mapping[str, Any] | None
    until: int | None
    partitions: Mapping[str, ReadPartition]


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
        submit: Writes a checkpoint, as :class:`ReadLoop` takes it.

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
        submit: Submit = in_this_thread,
    ) -> None:
        self._settings = settings
        self._store = store
        self._publisher = publisher
        self._now = now
        self._clock = clock
        self._wait = 0 if settings.join is None else settings.join.wait.us
        self._unit = Unit(settings, store, decoder, join=join, now=now)
        self._evaluators = self._unit.counting.evaluators
        with store.reading() as connection:
            self._alerts = Alerts(settings, connection, webhook, self._evaluators, now, clock)
        self.loop = ReadLoop(
            self,
            settings,
            clock,
            keeps_time=join is not None,
            progress=progress,
            submit=submit,
        )
        self._open_snapshots()
        self._published = 0
        self._checkpoint_at = now()
        """When all that had been read was in the store."""
        self._table = PartitionRows()
        self._late = LateLog()
        self._changes: tuple[UnitChanges, str] | None = None
        """What the checkpoint that is under way writes of the unit and of the alerts."""
        self._shown = self._now_shown()

    def _open_snapshots(self) -> None:
        self._snapshots = SnapshotBuilder(
            self._settings, self._evaluators, self._unit.valid_from, self._clock
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
                write_now(self._alerts, connection)

    # What the loop calls.

    @property
    def changed(self) -> bool:
        """Whether there is anything to write besides the records that were taken."""
        return self._unit.changed or self._alerts.changed

    def take(self, batch: RawBatch) -> bool:
        """Collect a batch; whether a checkpoint is due at once."""
        return self._unit.take(batch)

    def checkpoint(self, enough: Callable[[], bool]) -> Write:
        """Take what was collected; returns what counts and writes it."""
        statuses = [status for source in self.loop.sources for status in source.status()]
        changes = self._unit.stage([status.partition for status in statuses])
        alerts = self._alerts.stage()
        self._changes = changes, alerts
        self._shown = self._now_shown()
        return lambda: self._unit.write(
            changes, enough, lambda connection: self._alerts.write(connection, alerts)
        )

    def wrote(self) -> None:
        """Note that what was taken is counted and written."""
        assert self._changes is not None
        changes, alerts = self._changes
        self._unit.committed(changes)
        self._alerts.committed(alerts)
        self._changes = None
        self._checkpoint_at = self._now()
        self._snapshots.changed()
        self._late.log(self._unit.late)

    def _now_shown(self) -> _Shown:
        unit = self._unit
        return _Shown(
            None if unit.join is None or self._publisher is None else unit.join.coverage(),
            unit.positions.newest if unit.join is None else unit.join.watermark,
            dict(unit.positions.partitions),
        )

    def publish(self, *, force: bool = False) -> None:
        """Publish a snapshot, and judge the alerts."""
        if not force:
            self._checkpoint_at = self._now()
        if self._publisher is None:
            return
        unit = self._unit
        self._published += 1
        if not self.loop.policy.records:
            # Nothing was read since the last checkpoint, but time has passed.
            self._shown = self._now_shown()
        until = self._shown.until
        with self._store.reading():
            quarantine = unit.quarantine.published()
        self._publisher.open_slice = self._snapshots.open_slice
        snapshot = self._snapshots.build(
            sequence=self._published,
            now=self._now(),
            labelled_until=None if until is None else until - self._wait,
            late=unit.counting.late,
            join=self._shown.join,
            partitions=self._table.rows(self._shown.partitions, self.loop.sources),
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
    return settings.checkpoint.every.seconds, settings.checkpoint.events
