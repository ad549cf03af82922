"""The loop of a run: reads sources into a worker, and writes checkpoints when they are due.

A checkpoint is written by the thread of an executor, while the loop reads on. At most one is under
way. Records that were read since it was staged are in no position, and in no answer, before the
next one.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from streameval.errors import FencedError, SourceError, StoreError
from streameval.service.alerts.webhook import Webhook
from streameval.service.config.settings import RunSettings
from streameval.service.lateness import LateLog
from streameval.service.progress import Progress
from streameval.service.run.checkpoint_policy import QUIET_SECONDS, CheckpointPolicy
from streameval.service.run.unit import Unit, UnitChanges
from streameval.service.sources.raw import Position, RawBatch, Source

_READ_MOST = 20_000
_WAIT_SECONDS = 0.1
"""Longest that the loop waits for records: as long as a stop may have to wait."""
_LOOK_SECONDS = 0.01
"""The same while a checkpoint is being written, whose end the loop has to notice."""

Write: TypeAlias = Callable[[], Mapping[str, Position]]
"""Writes a checkpoint; returns the positions that are durable then."""


def in_this_thread(write: Write) -> Future[Mapping[str, Position]]:
    """Write at once: what ``submit`` of an executor does in another thread."""
    future: Future[Mapping[str, Position]] = Future()
    try:
        future.set_result(write())
    except BaseException as error:
        future.set_exception(error)
    return future


Submit: TypeAlias = Callable[[Write], Future[Mapping[str, Position]]]


class ReadLoop:
    """Reads sources into a worker, with checkpoints when they are due; one thread runs it.

    It exists before its worker, which restores a store: a stop meanwhile is a stop like any other.
    """

    _worker: Worker

    def __init__(
        self,
        settings: RunSettings,
        clock: Callable[[], float] = time.monotonic,
        *,
        progress: Progress | None = None,
        submit: Submit = in_this_thread,
    ) -> None:
        self.clock = clock
        """Seconds; it never goes backwards."""
        self.submit = submit
        """Writes a checkpoint, as ``submit`` of an executor of one thread does."""
        self.keeps_time = settings.join is not None
        """Whether a checkpoint without records may have something to write, because entries of a
        join expire with the time."""
        self._progress = progress or Progress()
        self.policy = CheckpointPolicy(*_checkpoint_settings(settings), clock())
        self.sources: Sequence[Source] = ()
        self.stopping = False
        self._rereading = False
        self._idle = False
        """Whether the last look at the sources found nothing to read."""
        self._writing: Future[Mapping[str, Position]] | None = None
        """The checkpoint that is under way."""
        self.reread: Callable[[], None] = lambda: None
        """Called by :meth:`run` after :meth:`request_reread`."""

    def stop(self) -> None:
        """Make :meth:`run` checkpoint and return, soon; may be called by a signal handler."""
        self.stopping = True

    def request_reread(self) -> None:
        """Make :meth:`run` call :attr:`reread` soon; may be called by a signal handler."""
        self._rereading = True

    def configure(self, settings: RunSettings) -> None:
        """Replace the settings of checkpoints."""
        self.policy.every, self.policy.events = _checkpoint_settings(settings)

    def run(self, worker: Worker, sources: Sequence[Source], *, until_end: bool = False) -> None:
        """Read until :meth:`stop`, or until every source has finished.

        With ``until_end`` it ends as well when nothing is left to read for now. Raises SourceError
        where a source cannot continue, after a checkpoint of the records read before; and
        StoreError where the store cannot be written: the last checkpoint holds.
        """
        self._worker = worker
        self.sources = sources
        self.policy.start(self.clock())
        self._worker.publish(force=True)
        try:
            self._read(until_end)
        except SourceError:
            self._write_rest()
            raise
        self._write_rest()
        self._worker.publish(force=True)

    def _read(self, until_end: bool) -> None:
        while not self.stopping:
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
                    self._worker.publish()
            if self._writing is not None and self._is_written(self._writing):
                self.settle()
                self._worker.publish()
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
            if self._worker.collect(batch):
                self.policy.hurry()
        return bool(batches)

    def _due_in(self) -> float:
        """Seconds until the next checkpoint is due, or until the one under way is looked for."""
        if self._writing is not None:
            return 0.0 if self.policy.is_full else _LOOK_SECONDS
        return self.policy.due_in(self.clock(), self._has_changed, idle=self._idle)

    def _has_changed(self) -> bool:
        return bool(self.policy.records or self._worker.changed)

    def _is_finished(self, until_end: bool) -> bool:
        return all(
            source.finished or (until_end and all(status.lag == 0 for status in source.status()))
            for source in self.sources
        )

    def _check_read(self) -> None:
        """Raise SourceError where a source has ended, and some of it could not be opened."""
        statuses = [status for source in self.sources for status in source.status()]
        unread = [f"{one.partition}: {one.problem}" for one in statuses if one.unopened]
        if unread:
            raise SourceError(f"not finished, all else is counted: {'; '.join(unread)}")

    def _checkpoint(self) -> None:
        begun = self.clock()
        if (not self.keeps_time or self.policy.is_quiet(begun)) and not self._has_changed():
            # All that was read is in the store already.
            self.policy.skipped(begun)
            return
        write = self._worker.stage(lambda: self.clock() - begun > self.policy.every / 4)
        self.policy.began(begun)
        self._writing = self.submit(write)

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
        self._worker.committed()
        for source in self.sources:
            source.checkpointed(positions)
        self.policy.wrote(self.clock())

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


def _checkpoint_settings(settings: RunSettings) -> tuple[float, int]:
    """Seconds between two checkpoints, and the number of records that makes one due earlier."""
    return settings.checkpoint.every.seconds, settings.checkpoint.events


@dataclass(slots=True)
class _Writing:
    """What a checkpoint writes of one unit."""

    number: int
    unit: Unit
    changes: UnitChanges
    error: StoreError | None = None


class Worker(ABC):
    """Counts what a loop reads in units, and writes each unit in its own transaction.

    A ``Runner`` is a run of one process: a worker with one unit, which holds every partition, and
    whose numbers it publishes. A ``GroupWorker`` is one of many processes that share an evaluation.
    """

    def __init__(self, settings: RunSettings, loop: ReadLoop) -> None:
        self._settings = settings
        self.loop = loop
        self._units: dict[int, Unit] = {}
        self._written_at: dict[int, float] = {}
        self._late: dict[int, LateLog] = {}
        self._writing: list[_Writing] = []
        """What the checkpoint that is under way writes."""

    def _hold(self, number: int, unit: Unit, late: LateLog) -> None:
        self._units[number] = unit
        self._written_at[number] = self.loop.clock()
        self._late.setdefault(number, late)

    @abstractmethod
    def collect(self, batch: RawBatch) -> bool:
        """Collect a batch; returns whether a checkpoint is due at once."""

    @abstractmethod
    def publish(self, *, force: bool = False) -> None:
        """Make what was written visible, after each checkpoint that was due."""

    @abstractmethod
    def _partitions(self, number: int) -> Iterable[str]:
        """The partitions of a unit that can be read."""

    @abstractmethod
    def _fail(self, number: int, error: StoreError) -> None:
        """Close a unit whose memory is no longer that of the store, or raise the error."""

    def configure(self, settings: RunSettings, webhook: Webhook | None) -> None:
        """Replace the settings that may change during a run; called by the loop's thread.

        Raises MetricError for a metric whose states are not kept; nothing has changed then.
        """
        # Each unit fills in what its windows keep, also one that is opened later.
        settings = msgspec.structs.replace(settings, window=self._settings.window)
        for number, unit in list(self._units.items()):
            if self._units.get(number) is unit:  # not closed with another
                try:
                    unit.configure(settings)
                except StoreError as error:
                    self._fail(number, error)
        self._settings = settings
        self.loop.configure(settings)

    @property
    def changed(self) -> bool:
        """Whether there is anything to write besides the records that were collected."""
        return any(unit.changed for unit in self._units.values())

    def stage(self, enough: Callable[[], bool]) -> Write:
        """Stage each unit that has changed; returns what counts and writes them, in any thread.

        ``enough`` postpones further merging of stored rows.
        """
        now = self.loop.clock()
        due = [
            number
            for number, unit in self._units.items()
            # Entries of a join expire with the time as well.
            if unit.changed
            or (self.loop.keeps_time and now - self._written_at[number] >= QUIET_SECONDS)
        ]
        return self._stage(due, enough)

    def _stage(self, numbers: Iterable[int], enough: Callable[[], bool]) -> Write:
        self._writing = writing = [
            _Writing(number, unit := self._units[number], unit.stage(self._partitions(number)))
            for number in numbers
        ]
        return lambda: _write(writing, enough)

    def committed(self) -> None:
        """Note what is written, before the next :meth:`stage`; what was not written fails."""
        writing, self._writing = self._writing, []
        for one in writing:
            if self._units.get(one.number) is not one.unit:
                continue  # closed with another
            if one.error is not None:
                self._fail(one.number, one.error)
                continue
            one.unit.committed(one.changes)
            self._written_at[one.number] = self.loop.clock()
            self._late[one.number].log(one.unit.late)


def _write(writing: Iterable[_Writing], enough: Callable[[], bool]) -> Mapping[str, Position]:
    """Write each unit, in a transaction of its own; returns the positions that are durable then."""
    positions: dict[str, Position] = {}
    for one in writing:
        try:
            positions |= one.unit.write(one.changes, enough)
        except StoreError as error:
            one.error = error
            if not isinstance(error, FencedError):
                break  # :meth:`Worker.committed` closes the others too, or ends the worker
    return positions
