"""One of many processes that share an evaluation, by the partitions of a Kafka group.

It has a :class:`Unit` for each partition number that the group has assigned to it. A unit is
claimed when it is opened, so of two workers that hold a number, for a moment, only the later one
writes. The other has an error at its next checkpoint, drops what it has in memory, and reads that
number no longer. Nothing else decides what counts: the group may assign late, twice or wrongly.

Units are written by another thread while this one reads on. They share a connection, so whatever
uses it in this thread (opening a unit, closing one) first waits for the checkpoint under way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing, suppress

from streameval.errors import FencedError, StoreError
from streameval.service.config.settings import RunSettings
from streameval.service.lateness import LateLog
from streameval.service.publish.assembly import PartitionRows
from streameval.service.run.checkpoint_policy import QUIET_SECONDS
from streameval.service.run.loop import ReadLoop, Worker
from streameval.service.run.unit import Unit
from streameval.service.sources.kafka_group import KafkaGroup
from streameval.service.sources.raw import Position, RawBatch
from streameval.service.store.kept_settings import SupersededError
from streameval.service.store.postgres import is_away
from streameval.service.store.store import Store

log = logging.getLogger("streameval.run")


class GroupWorker(Worker):
    """Counts what a group assigns to this process; ``streameval serve`` publishes it.

    ``open_group`` makes the source from the worker, which opens and releases units. ``open_unit``
    claims a unit, from the settings of now, its name, the worker's name, and the store of another
    unit, whose connection is shared. ``check``, with the store of a unit or None, raises
    SupersededError, as ``open_unit`` does, where the group has newer settings.
    """

    def __init__(
        self,
        settings: RunSettings,
        loop: ReadLoop,
        open_group: Callable[[GroupWorker], KafkaGroup],
        open_unit: Callable[[RunSettings, str, str, Store | None], Unit],
        *,
        check: Callable[[Store | None], None] = lambda store: None,
    ) -> None:
        super().__init__(settings, loop)
        self._open_unit = open_unit
        self._check = check
        self._checked_at = loop.clock()
        self._is_superseded = False
        self._logged: set[int] = set()
        self._is_away = False
        self._table = PartitionRows()
        self._group = open_group(self)

    def run(self) -> None:
        """Read what is assigned until :meth:`ReadLoop.stop`; what was checkpointed is safe."""
        with closing(self._group):
            try:
                self.loop.run(self, [self._group])
            finally:
                self.loop.abandon()
                # First, so that nothing is written twice when the group revokes the rest.
                self.release(list(self._units), write=False)

    # What the group calls.

    def open(self, number: int) -> Mapping[str, Position] | None:
        """Claim a partition number, and restore its unit; None to be called again."""
        self.loop.settle()
        sibling = next((unit.store for unit in self._units.values()), None)
        try:
            unit = self._open_unit(self._settings, str(number), self._group.name, sibling)
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
        if self._is_away:
            self._is_away = False
            log.info("the store is there again")
        self._hold(number, unit, LateLog(f"partition {number}, "))
        self.loop.policy.count(unit.replay())
        return unit.positions.next_to_read

    def release(self, numbers: Collection[int], *, write: bool) -> None:
        """Close units, after a checkpoint where they still belong to this worker."""
        self.loop.settle()
        held = sorted(self._units.keys() & set(numbers))
        if write:
            self._stage([number for number in held if self._units[number].changed], lambda: True)()
            self.committed()
        for number in held:
            # Unless a checkpoint has failed, and closed it.
            unit = self._units.pop(number, None)
            if unit is not None:
                unit.close()

    # What the loop calls.

    def collect(self, batch: RawBatch) -> bool:
        """Collect a batch; no checkpoint is due at once, since offsets are found again."""
        number = int(batch.partition.rpartition("/")[2])
        unit = self._units.get(number)
        if unit is None:
            return False  # closed since it was fetched; another worker reads it again
        try:
            unit.collect(batch)
        except StoreError as error:
            self.loop.settle()
            if self._units.get(number) is unit:
                self._fail(number, _cause(unit, error))
        return False

    def committed(self) -> None:
        """Note what is written, and look for newer settings of the group."""
        writing = self._writing
        super().committed()
        if any(one.error is None for one in writing):
            self._check_settings()

    def publish(self, *, force: bool = False) -> None:
        """Log what has changed: ``streameval serve`` reads the numbers from the store."""
        # One without units, or with nothing to write, looks at the group's settings as well.
        if self.loop.clock() - self._checked_at >= QUIET_SECONDS:
            self._check_settings()
        self._table.log(self._group.status())
        if self._logged != self._units.keys():
            self._logged = set(self._units)
            numbers = ", ".join(map(str, sorted(self._logged))) or "none"
            log.info("%s: reads the partitions %s", self._group.name, numbers)

    def _check_settings(self) -> None:
        self._checked_at = self.loop.clock()
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

    def _partitions(self, number: int) -> Iterable[str]:
        return self._group.names(number)

    def _fail(self, number: int, error: StoreError) -> None:
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


def _cause(unit: Unit, error: StoreError) -> StoreError:
    """Why entries of a join cannot be looked up: another worker may have deleted them."""
    if not is_away(error):
        try:
            with unit.store.transaction():
                pass
        except StoreError as found:
            return found
    return error
