"""A worker: one of many processes that share an evaluation, by the partitions of a group.

It has a :class:`Unit` for each partition number that the group has assigned to it. A unit is
claimed when it is opened, so of two workers that hold a number, for a moment, only the later one
writes. The other has an error at its next checkpoint, drops what it has in memory, and reads that
number no longer. Nothing else decides what counts: the group may assign late, twice or wrongly.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

import msgspec

from streameval.errors import FencedError, StoreError
from streameval.service.alerts.webhook import Webhook
from streameval.service.checkpoint_policy import QUIET_SECONDS
from streameval.service.config.settings import RunSettings
from streameval.service.lateness import LateLog
from streameval.service.loop import ReadLoop, Write
from streameval.service.progress import Progress
from streameval.service.snapshot import PartitionRows
from streameval.service.sources.kafka_group import KafkaGroup
from streameval.service.sources.raw import Position, RawBatch
from streameval.service.store.postgres import is_away
from streameval.service.store.store import Store
from streameval.service.unit import Unit

log = logging.getLogger("streameval.run")


class Worker:
    """Counts what a group assigns to this process.

    Args:
        settings: The run's.
        open_group: From the worker, which opens and releases units, to its source.
        open_unit: From the settings of now, a partition number, the worker's name and the store of
            another of its units, whose connection is shared, to what is kept of the number,
            claimed.
        clock: Seconds; it never goes backwards.
        progress: Notes the steps of the loop, for probes.
    """

    def __init__(
        self,
        settings: RunSettings,
        open_group: Callable[[Worker], KafkaGroup],
        open_unit: Callable[[RunSettings, int, str, Store | None], Unit],
        *,
        clock: Callable[[], float] = time.monotonic,
        progress: Progress | None = None,
    ) -> None:
        self._settings = settings
        self._open_unit = open_unit
        self._clock = clock
        self._units: dict[int, Unit] = {}
        self._written_at: dict[int, float] = {}
        self._late: dict[int, LateLog] = {}
        self._told: set[int] = set()
        self._is_away = False
        self._table = PartitionRows()
        self._keeps_time = settings.join is not None
        self.loop = ReadLoop(self, settings, clock, keeps_time=self._keeps_time, progress=progress)
        self._group = open_group(self)

    def run(self) -> None:
        """Read what is assigned until :meth:`ReadLoop.stop`.

        Raises:
            ConfigError, SourceError, StoreError: It cannot go on; what was checkpointed is safe.
        """
        try:
            self.loop.run([self._group])
        finally:
            # First, so that nothing is written twice when the group revokes the rest.
            self.release(list(self._units), write=False)
            self._group.close()

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
        beside = next((unit.store for unit in self._units.values()), None)
        try:
            unit = self._open_unit(self._settings, number, self._group.name, beside)
        except FencedError:
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
        for number in sorted(self._units.keys() & set(numbers)):
            if write and number in self._units and self._units[number].changed:
                self._written(number, lambda: True)
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
            self._drop(number, error)
        # Offsets are found again at any time: no position of a topic is in a hurry.
        return False

    def checkpoint(self, enough: Callable[[], bool]) -> Write:
        """Write each unit that has changed, in a transaction of its own.

        At once: units share a connection, and the group opens and closes them in this thread.
        """
        changed: dict[str, Position] = {}
        for number in list(self._units):
            unit = self._units.get(number)
            if unit is None:
                continue  # dropped with another
            # Entries of a join expire with the time as well.
            is_due = self._keeps_time and self._clock() - self._written_at[number] >= QUIET_SECONDS
            if unit.changed or is_due:
                changed |= self._written(number, enough)
        return lambda: changed

    def wrote(self) -> None:
        """Do nothing: each unit has noted it."""

    def _written(self, number: int, enough: Callable[[], bool]) -> Mapping[str, Position]:
        """Write a unit; where that fails it is closed, and read again from its last checkpoint."""
        unit = self._units[number]
        try:
            changed = unit.checkpoint(self._group.names(number), enough)
        except StoreError as error:
            self._drop(number, error)
            return {}
        self._written_at[number] = self._clock()
        self._late.setdefault(number, LateLog(f"partition {number}, ")).log(unit.late)
        return changed

    def publish(self, *, force: bool = False) -> None:
        """Log what has changed: ``streameval serve`` reads the numbers from the store."""
        self._table.log(self._group.status())
        if self._told != self._units.keys():
            self._told = set(self._units)
            numbers = ", ".join(map(str, sorted(self._told))) or "none"
            log.info("%s: reads the partitions %s", self._group.name, numbers)

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
