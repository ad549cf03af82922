"""Serves a store that other processes write: reads what is new, merges, publishes.

Nothing is written, so any number of processes may read one store. A snapshot equals the one that
the process that counts publishes at the same checkpoint, except for what the store does not hold:
how much is left to read, the share of late records, how long a checkpoint took.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from streameval.errors import ConfigError, StoreError
from streameval.evaluator.comparison import Evaluation
from streameval.events.time import wall_time
from streameval.service.alerts.inputs import AlertInputs
from streameval.service.alerts.rules import AlertBook, restore_alerts
from streameval.service.alerts.shared import ALERTS_UNIT, SharedAlerts
from streameval.service.alerts.webhook import Webhook
from streameval.service.closing import closed_on_error
from streameval.service.config.evaluators import (
    fingerprint,
    open_evaluators,
    with_stored_defaults,
)
from streameval.service.config.secrets import secret
from streameval.service.config.settings import RunSettings
from streameval.service.join.counts import JoinSpans, SavedJoin, merged_join, saved_with_spans
from streameval.service.join.examples import EXAMPLES, merged_examples
from streameval.service.progress import Progress
from streameval.service.publish.assembly import Assembler, UnitSummary
from streameval.service.publish.builder import SnapshotBuilder
from streameval.service.publish.snapshot import AlertState, Publisher, Snapshot
from streameval.service.run.probes import probes
from streameval.service.run.signals import on_signals
from streameval.service.store.dialect import ONE_UNIT, Connection
from streameval.service.store.fingerprints import check_same_run
from streameval.service.store.kept_settings import SETTINGS, newest_first, unconverted_text
from streameval.service.store.positions import read_positions
from streameval.service.store.quarantine import published
from streameval.service.store.state_rows import merge_rows, read_rows
from streameval.service.store.store import CHECKPOINT_AT, Store, each_unit, file_of, read_store
from streameval.service.store.valid_from import VALID_FROM, ValidFrom, latest_valid_from
from streameval.service.upkeep.settings_migration import (
    UnitView,
    stored_fingerprint,
    stored_retention,
    view_of,
)

log = logging.getLogger("streameval.serve")


@dataclass(slots=True)
class _Share:
    """A partition's share of a window, and the rows that it was merged from."""

    numbers: list[int]
    evaluator: Evaluation


class MergedStates:
    """The evaluators of a store's windows, kept current while other processes write rows.

    New rows are merged into the states. If rows that were merged are gone, because the process that
    writes has replaced several by one, that partition's share of the window is read again, and the
    window is merged anew from the shares of all partitions. States are exact, so
    the result has the bytes of one that read all rows at once. The states are in memory twice: by
    window, and by window and partition.
    """

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self.evaluators = open_evaluators(settings)
        self._shares: dict[tuple[str, str, str], _Share] = {}

    def read(
        self,
        unit: str,
        connection: Connection,
        steps: Mapping[str, Callable[[Evaluation], Evaluation]] | None = None,
        *,
        again: bool = False,
    ) -> bool:
        """Read the new rows of the selected unit of a store; returns whether there were any.

        ``steps`` converts its windows, where the unit has other settings. ``again``: its settings
        have changed, so its shares are read anew.
        """
        found: dict[tuple[str, str], list[int]] = {}
        query = 'SELECT partition, "window", number FROM states ORDER BY partition, number'
        for partition, window, number in connection.execute(query):
            if window in (self.evaluators if steps is None else steps):
                found.setdefault((partition, window), []).append(number)
        anew: set[str] = set()
        if again:
            gone = [key for key in self._shares if key[0] == unit]
            anew = {window for _, _, window in gone}
            for key in gone:
                del self._shares[key]
        changed = bool(anew)
        for (partition, window), numbers in found.items():
            share = self._shares.get((unit, partition, window))
            if share is not None and share.numbers == numbers:
                continue
            changed = True
            if steps is not None or (
                share is not None and share.numbers != numbers[: len(share.numbers)]
            ):
                anew.add(window)
                share = None
            known = [] if share is None else share.numbers
            rows = list(read_rows(connection, partition, window, numbers[len(known)]))
            if steps is None:
                evaluator = self._new(window) if share is None else share.evaluator
                merge_rows({window: evaluator}, rows)
            else:
                stored: dict[str, Evaluation] = {}
                merge_rows(stored, rows)
                evaluator = steps[window](stored[window])
            if window not in anew:
                merge_rows(self.evaluators, rows)
            self._shares[unit, partition, window] = _Share(numbers, evaluator)
        for window in anew:
            self._merge(window)
        return changed

    def _new(self, window: str) -> Evaluation:
        return open_evaluators(self._settings)[window]

    def _merge(self, window: str) -> None:
        """Merge a window from the shares of its partitions."""
        whole = self._new(window)
        for (_, _, name), share in self._shares.items():
            if name == window:
                whole.merge(share.evaluator)  # type: ignore[arg-type]
        self.evaluators[window] = whole


class _StoredUnit(NamedTuple):
    """What is read of a unit of a store besides its states."""

    commits: tuple[int, int]
    join: tuple[JoinSpans, SavedJoin] | None
    summary: UnitSummary
    meta: dict[str, str]
    view: UnitView


class StoreReader:
    """Publishes the merged units of a store that other processes write, after each :meth:`read`.

    ``settings_of`` maps the store's properties to the settings of its run. With ``judges`` it
    judges the alerts of a store that workers share, while no other process does; the settings need
    the webhook. Raises StoreError where there is no such store, and ConfigError where it was
    counted under other settings.
    """

    def __init__(
        self,
        path: str,
        settings_of: Callable[[Mapping[str, str]], RunSettings],
        publisher: Publisher,
        *,
        judges: bool = False,
        now: Callable[[], int] = wall_time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._judges = judges
        self._shared: SharedAlerts | None = None
        self._settings_of = settings_of
        self._now = now
        self._clock = clock
        self._assembler = Assembler(publisher, now)
        self._store: Store | None = None
        self._open()

    def _open(self) -> Store:
        self.close()
        self._file = file_of(self._path)
        store = self._store = read_store(self._path)
        self.name = store.path
        with closed_on_error(self):
            self._set_up(store)
        return store

    def _set_up(self, store: Store) -> None:
        """Begin anew under the settings that the store has now."""
        metas = {unit: store.meta() for unit in each_unit(store)}
        if not metas:
            raise StoreError(f"{store.path}: holds nothing yet; start its run first")
        self._unit, settings = self._chosen(store.path, metas)
        self.settings = settings
        self._set_up_from = self._deciding(metas)
        self._units: dict[str, _StoredUnit] = {}
        self._unconverted: list[str] = []
        self._states = MergedStates(settings)
        self._assembler.snapshots = SnapshotBuilder(
            settings, self._states.evaluators, ValidFrom(), self._clock
        )
        # The states of alerts as another process has judged them, beside the values of now.
        self._book = AlertBook(settings)
        self._inputs = AlertInputs(settings, self._states.evaluators, self._clock)
        if self._shared is not None:
            self._shared.close()
            self._shared = None
        if self._judges and settings.alert and settings.is_group:
            self._shared = SharedAlerts(
                self._path,
                settings,
                self._states.evaluators,
                lambda: None if settings.webhook is None else Webhook(settings.webhook),
                self._now,
                self._clock,
            )

    def _chosen(self, path: str, metas: Mapping[str, Mapping[str, str]]) -> tuple[str, RunSettings]:
        """The unit whose settings are shown, and the settings: the newest, or those of a file."""
        refused: ConfigError | None = None
        for unit in newest_first(metas):
            meta = metas[unit]
            settings = with_stored_defaults(self._settings_of(meta), stored_retention(meta))
            try:
                check_same_run(path, meta, fingerprint(settings))
            except ConfigError as error:
                # In a rolling update the file may be that of the other units.
                refused = refused or error
            else:
                return unit, settings
        assert refused is not None
        raise refused

    def _deciding(self, metas: Mapping[str, Mapping[str, str]]) -> list[dict[str, str]]:
        """What the reader is set up from: the newest settings, and the settings that it shows."""
        return [
            {key: value for key, value in meta.items() if key in (SETTINGS, VALID_FROM)}
            | stored_fingerprint(meta)
            for meta in (metas[newest_first(metas)[0]], metas[self._unit])
        ]

    def close(self) -> None:
        """Close the store, and leave the alerts to another process."""
        if self._shared is not None:
            self._shared.close()
        if self._store is not None:
            self._store.close()
        self._store = self._shared = None

    def read(self) -> None:
        """Read what is new and publish it; after a StoreError the last snapshot stays."""
        store = self._store
        if store is None or file_of(self._path) != self._file:
            store = self._open()
        try:
            with store.reading():
                self._read(store)
        except StoreError:
            # What was merged may be incomplete: the next call begins anew.
            self.close()
            raise
        units = self._units.values()
        self._assembler.publish(
            [unit.summary for unit in units],
            merged_join(unit.join for unit in units if unit.join is not None),
            self._alert_states,
        )

    def _read(self, store: Store) -> None:
        commits = store.commits()
        metas = {name: unit.meta for name, unit in self._units.items()}
        changed = []
        for name in store.units():
            known = self._units.get(name)
            if known is None or known.commits != commits[name]:
                changed.append(name)
                store.select(name)
                metas[name] = store.meta()
        # While workers are restarted, settings differ: the first unit of the newest ones decides.
        if self._unit not in metas or self._deciding(metas) != self._set_up_from:
            self._set_up(store)
            self._read(store)
            return
        for name in changed:
            store.select(name)
            meta, known = metas[name], self._units.get(name)
            view = view_of(
                store.path,
                store.connection,
                meta,
                metas[self._unit],
                lambda: self.settings,
                self._now(),
            )
            again = known is not None and stored_fingerprint(known.meta) != stored_fingerprint(meta)
            if self._states.read(name, store.connection, view.steps, again=again):
                self._assembler.snapshots.changed()
            counters = store.counters()
            self._units[name] = _StoredUnit(
                commits[name],
                saved_with_spans(store.connection),
                UnitSummary(
                    read_positions(store.connection),
                    published(store.connection),
                    counters.get("checkpoints", 0),
                    counters.get("events", 0),
                    counters.get(CHECKPOINT_AT, 0),
                ),
                meta,
                view,
            )
        if changed:
            self._view_units()
            texts = [unit.meta.get(EXAMPLES) for unit in self._units.values()]
            self._assembler.snapshots.examples = merged_examples(self.settings, texts)
        if self.settings.alert:
            store.select(ALERTS_UNIT if self.settings.is_group else ONE_UNIT)
            restore_alerts(self._book, store.connection)

    def _view_units(self) -> None:
        """Note from when on all units hold their parts; log the units that are not converted."""
        self._assembler.snapshots.valid_from = latest_valid_from(
            unit.view.valid_from for unit in self._units.values()
        )
        waiting = [name for name, unit in self._units.items() if unit.view.steps is not None]
        if waiting:
            self._assembler.snapshots.changed()  # their parts begin later with each event
        if waiting != self._unconverted:
            log.info(
                "%s: %s",
                self.name,
                unconverted_text(waiting) if waiting else "all partitions are converted",
            )
        self._unconverted = waiting

    def _alert_states(self, snapshot: Snapshot) -> list[AlertState]:
        states = None if self._shared is None else self._shared.judge(snapshot)
        if states is None:
            states = self._book.states(self._inputs.observe(snapshot, self._now()))
        return states


def serve_store(
    path: str,
    settings_of: Callable[[Mapping[str, str]], RunSettings],
    *,
    judges: bool = False,
    started: Callable[[str], None] = lambda url: None,
    stopping: threading.Event | None = None,
) -> None:
    """Serve a store until a signal, or until ``stopping`` is set; many processes may serve one.

    ``started`` is called once with the server's address, when the first numbers are published.
    """
    # Imported only when it is used: the server is an extra.
    from streameval.service.http.server import Server

    stop = stopping or threading.Event()
    progress = Progress()
    with ExitStack() as stack:
        stack.enter_context(on_signals(stop.set, lambda: None))
        publisher = Publisher()
        reader = StoreReader(path, settings_of, publisher, judges=judges)
        stack.callback(reader.close)
        serve = reader.settings.serve
        every = serve.read_every.seconds
        token = None if serve.token is None else secret(serve.token, "serve.token")
        stack.enter_context(probes(serve, progress))
        reader.read()
        server = Server(
            serve, None, publisher, None, token=token, progress=progress, following=True
        )
        stack.callback(server.stop)
        log.info("serving %s at %s", reader.name, server.url)
        started(server.url)
        problem = ""
        while True:
            progress.step()
            if stop.wait(every):
                return
            try:
                reader.read()
            except StoreError as error:
                if str(error) != problem:
                    problem = str(error)
                    log.error("the numbers stay as they are: %s", problem)
            else:
                if problem:
                    log.info("%s is read again", reader.name)
                problem = ""
