"""A worker: one of many processes that share an evaluation, by the partitions of a group.

It has a :class:`Unit` for each partition number that the group has assigned to it. A unit is
claimed when it is opened, so of two workers that hold a number, for a moment, only the later one
writes. The other has an error at its next checkpoint, drops what it has in memory, and reads that
number no longer. Nothing else decides what counts: the group may assign late, twice or wrongly.

Units are written by another thread while this one reads on. They share a connection, so whatever
uses it in this thread (opening a unit, closing one) first waits for the checkpoint under way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass

import msgspec

from streameval.errors import FencedError, StoreError
from streameval.service.alerts.webhook import Webhook
from streameval.service.checkpoint_policy import QUIET_SECONDS
from streameval.service.config.settings import RunSettings
from streameval.service.lateness import LateLog
from streameval.service.loop import ReadLoop, Submit, Write, in_this_thread
from streameval.service.progress import Progress
from streameval.service.snapshot_builder import PartitionRows
from streameval.service.sources.kafka_group import KafkaGroup
from streameval.service.sources.raw import Position, RawBatch
from streameval.service.store.kept_settings import SupersededError
from streameval.service.store.postgres import is_away
from streameval.service.store.store import Store
from streameval.service.unit import Unit, UnitChanges

log = logging.getLogger("streameval.run")


@dataclass(slots=True)
class _Writing:
    """What a checkpoint writes of one unit."""

    number: int
    unit: Unit
    changes: UnitChanges
    error: StoreError | None = None


class Worker:
    """Counts what a group assigns to this process.

    Args:
        settings: The run's.
        open_group: From the worker, which opens and releases units, to its source.
        open_unit: From the settings of now, a partition number, the worker's name and the store of
            another of its units, whose connection is shared, to what is kept of the number,
            claimed.
        check: Called after a checkpoint and now and then, with the store of a unit or None; it
            raises SupersededError, as ``open_unit`` does, where the group has newer settings.
        clock: Seconds; it never goes backwards.
        progress: Notes the steps of the loop, for probes.
        submit: Writes a checkpoint, as :class:`ReadLoop` takes it.
    """

    def __init__(
        self,
        settings: RunSettings,
        open_group: Callable[[Worker], KafkaGroup],
        open_unit: Callable[[RunSettings, int, str, Store | None], Unit],
        *,
        check: Callable[[Store | None], None] = lambda store: None,
        clock: Callable[[], float] = time.monotonic,
        progress: Progress | None = None,
        submit: Submit = in_this_thread,
    ) -> None:
        self._settings = settings
        self._open_unit = open_unit
        self._check = check
        self._checked_at = clock()
        self._is_superseded = False
        self._clock = clock
        self._units: dict[int, Unit] = {}
        self._writing: list[_Writing] = []
        """What the checkpoint that is under way writes."""
        self._written_at: dict[int, float] = {}
        self._late: dict[int, LateLog] = {}
        self._told: set[int] = set()
        self._is_away = False
        self._table = PartitionRows()
        self._keeps_time = settings.join is not None
        self.loop = ReadLoop(
            self, settings, clock, keeps_time=self._keeps_time, progress=progress, submit=submit
        )
        self._group = open_group(self)

    def run(self) -> None:
        """Read what is assigned until :meth:`ReadLoop.stop`.

        Raises:
            ConfigError, SourceError, StoreError: It cannot go on; what was checkpointed is safe.
        """
        with closing(self._group):
            try:
                self.loop.run([self._group])
            finally:
                self.loop.abandon()
                # First, so that nothing is written twice when the group revokes the rest.
                self.release(list(self._units), write=False)

    def configure(self, settings: RunSettings, webhook: Webhook | None) -> None:
        """Replace the settings that may change during a run; as :meth:`Runner.configure`."""
        # Each unit fills in what its windows keep, also one that is opened later.
        settings = msgspec.structs.replace(settings, window=self._settings.window)
        for number in list(self._units):
            if number in self._units:  # not dropped with another
                try:
                    self._units[number].configure(settings)
                except StoreError as error:
                    self._drop(number, error)
        self._settings = settings
        self.loop.configure(settings)

    # What the group calls.

    def open(self, number: int) -> Mapping[str, Position] | None:
        """Claim a partition number, and restore what is kept of it; None to be called again."""
        self.loop.settle()
        sibling = next((unit.store for unit in self._units.values()), None)
        try:
            unit = self._open_unit(self._settings, number, self._group.name, sibling)
        except FencedError:
            return None
        except SupersededError as error:
            self._end(error)
            return None
        except StoreError as error:
            if not is_away(error):
                raise
            self._note_away(error)
            return None
        self._note_back()
        self._units[number] = unit
        self._written_at[number] = self._clock()
        self.loop.policy.count(unit.replay())
        return unit.positions.next_to_read

    def release(self, numbers: Collection[int], *, write: bool) -> None:
        """Close units, after a checkpoint where they still belong to this worker."""
        self.loop.settle()
        held = sorted(self._units.keys() & set(numbers))
        if write:
            self._cut((number for number in held if self._units[number].changed), lambda: True)()
            self.wrote()
        for number in held:
            # Unless a checkpoint has failed, and closed it.
            unit = self._units.pop(number, None)
            if unit is not None:
                unit.close()

    # What the loop calls.

    @property
    def changed(self) -> bool:
        """Whether there is anything to write besides the records that were taken."""
        return any(unit.changed for unit in self._units.values())

    def take(self, batch: RawBatch) -> bool:
        """Collect a batch; whether a checkpoint is due at once."""
        number = int(batch.partition.rpartition("/")[2])
        unit = self._units.get(number)
        if unit is None:
            return False  # dropped since it was fetched; another reads it again
        try:
            unit.take(batch)
        except StoreError as error:
            self.loop.settle()
            if self._units.get(number) is unit:
                self._drop(number, _cause(unit, error))
        # Offsets are found again at any time: no position of a topic is in a hurry.
        return False

    def checkpoint(self, enough: Callable[[], bool]) -> Write:
        """Take what each unit that has changed has collected; returns what counts and writes it."""
        now = self._clock()
        return self._cut(
            (
                number
                for number, unit in self._units.items()
                # Entries of a join expire with the time as well.
                if unit.changed
                or (self._keeps_time and now - self._written_at[number] >= QUIET_SECONDS)
            ),
            enough,
        )

    def _cut(self, numbers: Iterable[int], enough: Callable[[], bool]) -> Write:
        self._writing = writing = [
            _Writing(number, unit := self._units[number], unit.stage(self._group.names(number)))
            for number in numbers
        ]
        return lambda: _write(writing, enough)

    def wrote(self) -> None:
        """Note what is written; a unit that is not is closed, and read again from the store."""
        writing, self._writing, written = self._writing, [], False
        for one in writing:
            if self._units.get(one.number) is not one.unit:
                continue  # dropped with another
            if one.error is not None:
                self._drop(one.number, one.error)
                continue
            one.unit.committed(one.changes)
            self._written_at[one.number] = self._clock()
            late = self._late.setdefault(one.number, LateLog(f"partition {one.number}, "))
            late.log(one.unit.late)
            written = True
        if written:
            self._check_settings()

    def publish(self, *, force: bool = False) -> None:
        """Log what has changed: ``streameval serve`` reads the numbers from the store."""
        # One without units, or with nothing to write, looks at the group's settings as well.
        if self._clock() - self._checked_at >= QUIET_SECONDS:
            self._check_settings()
        self._table.log(self._group.status())
        if self._told != self._units.keys():
            self._told = set(self._units)
            numbers = ", ".join(map(str, sorted(self._told))) or "none"
            log.info("%s: reads the partitions %s", self._group.name, numbers)

    def _check_settings(self) -> None:
        self._checked_at = self._clock()
        # A unit that another worker has claimed refuses; the next one, or a new connection, tells.
        for store in (*(unit.store for unit in self._units.values()), None):
            try:
                self._check(store)
            except SupersededError as error:
                self._end(error)
            except StoreError:
                continue  # the next write finds what is wrong
            return

    def _end(self, error: SupersededError) -> None:
        """Stop after one more checkpoint, because the group has newer settings."""
        if not self._is_superseded:
            self._is_superseded = True
            log.info("%s", error)
        self.loop.stop()

    # Failures

    def _drop(self, number: int, error: StoreError) -> None:
        """Close a unit whose memory is no longer that of the store."""
        numbers = [number]
        if isinstance(error, FencedError):
            log.warning("partition %d: %s", number, error)
        elif is_away(error):
            self._note_away(error)
            # Each of the others would wait as long, and the group for all of them.
            numbers = list(self._units)
        else:
            raise error
        for one in numbers:
            with suppress(StoreError):
                self._units.pop(one).close()
            self._group.drop(one)

    def _note_away(self, error: StoreError) -> None:
        if not self._is_away:
            self._is_away = True
            log.warning("waiting for the store: %s", error)

    def _note_back(self) -> None:
        if self._is_away:
            self._is_away = False
            log.info("the store is there again")


def _write(writing: Iterable[_Writing], enough: Callable[[], bool]) -> Mapping[str, Position]:
    """Write each unit, in a transaction of its own; returns the positions that are durable then."""
    positions: dict[str, Position] = {}
    for one in writing:
        try:
            positions |= one.unit.write(one.changes, enough)
        except StoreError as error:
            one.error = error
            if not isinstance(error, FencedError):
                break  # :meth:`Worker.wrote` ends the others too, or the worker
    return positions


def _cause(unit: Unit, error: StoreError) -> StoreError:
    """Why entries of a join cannot be looked up: another worker may have deleted them."""
    if not is_away(error):
        try:
            with unit.store.transaction():
                pass
        except StoreError as found:
            return found
    return error
