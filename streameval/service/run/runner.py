"""A run of one process, which publishes what it counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from streameval.errors import StoreError
from streameval.events.time import wall_time
from streameval.service.alerts.rules import Alerts
from streameval.service.alerts.webhook import Webhook
from streameval.service.config.settings import RunSettings
from streameval.service.join.counts import MergedJoin
from streameval.service.lateness import LateLog
from streameval.service.publish.assembly import Assembler, UnitSummary
from streameval.service.publish.builder import SnapshotBuilder
from streameval.service.publish.snapshot import Publisher
from streameval.service.run.loop import ReadLoop, Worker, Write
from streameval.service.run.unit import Unit
from streameval.service.sources.raw import Position, RawBatch, Source
from streameval.service.store.positions import ReadPartition
from streameval.service.store.staged import write_now


class Runner(Worker):
    """Counts everything in one unit, and publishes it after each checkpoint.

    One thread calls it; any number of threads may read what it publishes. Without a publisher it
    builds no snapshots, and judges no alerts.
    """

    def __init__(
        self,
        unit: Unit,
        publisher: Publisher | None,
        loop: ReadLoop,
        *,
        webhook: Webhook | None = None,
        now: Callable[[], int] = wall_time,
    ) -> None:
        super().__init__(unit.settings, loop)
        self._hold(0, unit, LateLog())
        self._unit = unit
        self._publisher = publisher
        self._now = now
        evaluators = unit.counting.evaluators
        with unit.store.reading() as connection:
            self._alerts = Alerts(unit.settings, connection, webhook, evaluators, now, loop.clock)
        unit.alerts = self._alerts
        self._assembler = Assembler(publisher or Publisher(), now)
        self._open_snapshots()
        self._checkpoint_at = now()
        """When all that had been read was in the store."""
        self._shown = self._now_shown()

    def _open_snapshots(self) -> None:
        unit = self._unit
        self._assembler.snapshots = SnapshotBuilder(
            self._settings,
            unit.counting.evaluators,
            unit.valid_from,
            self.loop.clock,
            unit.counting.examples,
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

    def run(self, sources: Sequence[Source], *, until_end: bool = False) -> None:
        """Read sources, opened at :attr:`positions`, as :meth:`ReadLoop.run` does."""
        self.loop.policy.count(self._unit.replay())
        self.loop.run(self, sources, until_end=until_end)
        if self._alerts.changed:
            with self._unit.store.transaction() as connection:
                write_now(self._alerts, connection)

    def configure(self, settings: RunSettings, webhook: Webhook | None) -> None:
        """As :meth:`Worker.configure`; alerts are posted to this webhook from now on."""
        super().configure(settings, webhook)
        self._alerts.configure(settings, webhook)
        self._open_snapshots()
        self.publish(force=True)

    def collect(self, batch: RawBatch) -> bool:
        """Collect a batch; returns whether a checkpoint is due at once."""
        return self._unit.collect(batch)

    def _partitions(self, number: int) -> Iterable[str]:
        return [status.partition for source in self.loop.sources for status in source.status()]

    def _fail(self, number: int, error: StoreError) -> None:
        raise error

    def _stage(self, numbers: Iterable[int], enough: Callable[[], bool]) -> Write:
        write = super()._stage(numbers, enough)
        self._shown = self._now_shown()
        return write

    def committed(self) -> None:
        """Note that what was staged is written."""
        super().committed()
        self._checkpoint_at = self._now()
        self._assembler.snapshots.changed()

    def _now_shown(self) -> tuple[MergedJoin | None, dict[str, ReadPartition]]:
        """What is published of the join and the partitions, as of a checkpoint."""
        join, settings = self._unit.join, self._settings.join
        found = None
        if join is not None and settings is not None and self._publisher is not None:
            until = None if join.watermark is None else join.watermark - settings.wait.us
            found = MergedJoin(join.coverage(), until)
        return found, dict(self._unit.positions.partitions)

    def publish(self, *, force: bool = False) -> None:
        """Publish a snapshot, and judge the alerts."""
        if not force:
            self._checkpoint_at = self._now()
        if self._publisher is None:
            return
        unit = self._unit
        if not self.loop.policy.records:
            # Nothing was read since the last checkpoint, but time has passed.
            self._shown = self._now_shown()
        join, partitions = self._shown
        with unit.store.reading():
            quarantine = unit.quarantine.published()
        self._assembler.publish(
            [
                UnitSummary(
                    partitions, quarantine, unit.checkpoints, unit.events, self._checkpoint_at
                )
            ],
            join,
            self._alerts.judge,
            sources=self.loop.sources,
            late=unit.counting.late,
            seconds=self.loop.policy.seconds,
            force=force,
        )
