"""A run with everything around it: store, sources, server, signals."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from streameval.errors import ConfigError, StoreError, StreamevalError
from streameval.events.time import wall_time
from streameval.service.alerts.webhook import Webhook
from streameval.service.config.address import parse_address
from streameval.service.config.checks import check_store_key, check_workers
from streameval.service.config.evaluators import fingerprint, window_spec_of, with_stored_defaults
from streameval.service.config.resolved import resolved_secrets, with_store
from streameval.service.config.secrets import secret
from streameval.service.config.settings import RunSettings
from streameval.service.decode.decoder import RecordDecoder
from streameval.service.join.label_join import open_join
from streameval.service.loop import ReadLoop, Runner
from streameval.service.probes import probes
from streameval.service.progress import Progress
from streameval.service.reload import differences, while_running
from streameval.service.signals import on_signals
from streameval.service.snapshot import Publisher
from streameval.service.sources import open_source
from streameval.service.sources.inbox import Inbox, InboxSource
from streameval.service.sources.kafka import open_group
from streameval.service.sources.raw import Position, Source, SourceContext
from streameval.service.store.dialect import ONE_UNIT, Connection
from streameval.service.store.kept_settings import (
    SupersededError,
    check_generation,
    join_group,
    keep_settings,
    keep_window_order,
)
from streameval.service.store.postgres import is_away, open_unclaimed
from streameval.service.store.sqlite import inbox_of
from streameval.service.store.store import Store, each_unit, open_store, read_store
from streameval.service.unit import Unit
from streameval.service.upkeep.settings_migration import (
    SettingsMigration,
    migration_of,
    stored_retention,
)

if TYPE_CHECKING:
    from streameval.service.config.source_settings import KafkaSettings
    from streameval.service.http.server import Server
    from streameval.service.worker import Worker

log = logging.getLogger("streameval.run")

_LONGEST_RECORD = 1 << 20

_AWAY_SECONDS = 0.5
"""Between two looks for a store that cannot be reached."""

_SETTINGS = "settings"
"""The name by which ``--drop`` replaces newer settings of a group."""


def run_service(
    settings: RunSettings,
    *,
    until_end: bool = False,
    reread: Callable[[], RunSettings] | None = None,
    drop: Callable[[Mapping[str, str]], Collection[str]] = lambda drops: (),
    started: Callable[[Runner, str | None], None] = lambda runner, url: None,
    file: str = "",
) -> None:
    """Run until a signal, or until the sources have ended.

    SIGTERM and Ctrl-C make it checkpoint and return; where this is not the
    main thread, :meth:`Runner.stop` does.

    Args:
        settings: The run's.
        until_end: End as soon as nothing is left to read.
        reread: Reads the settings again on SIGHUP; those that may change during a run are applied.
        drop: From what the settings no longer have (name -> what would be lost) to the names
            that may be dropped.
        started: Called once with the runner and the server's address, when both are ready.
        file: Where the settings are from, which tells a worker that is restarted from one whose
            settings have changed.

    Raises:
        ConfigError, StoreError, SourceError, MissingExtraError: It cannot be
            run, or not any longer; what was checkpointed is safe.
    """
    is_worker = settings.kafka is not None and settings.kafka.assignment == "group"
    if until_end and is_worker:
        raise ConfigError(
            '--until-end conflicts with kafka.assignment = "group"; stop the workers when their '
            "lag is 0"
        )
    if until_end:
        ending = {name: source.ending() for name, source in settings.sources.items()}
        settings = msgspec.structs.replace(settings, **ending)
    resolve = resolved_secrets(settings)
    settings = with_store(settings, resolve)
    check_store_key(settings)
    check_workers(settings)
    token = settings.serve.token
    if token is not None:
        token = resolve(token, "serve.token")
    stop, hangup = _Signalled(ReadLoop.stop), _Signalled(ReadLoop.request_reread)
    with ExitStack() as stack:
        # From the start: a stop while it opens its store is a stop like any other.
        stack.enter_context(on_signals(stop, hangup))
        stack.enter_context(_rare_collections())
        # Before the store is opened, which may take long: a probe waits meanwhile.
        progress = Progress()
        stack.enter_context(probes(settings.serve, progress))
        if settings.kafka is not None and settings.kafka.assignment == "group":
            try:
                generation = _generation(settings, file, drop, stop)
                if generation is not None:
                    _run_worker(
                        settings,
                        settings.kafka,
                        partial(open_unit, drop, generation=generation),
                        partial(_check_group, settings, generation),
                        resolve,
                        reread,
                        stop,
                        hangup,
                        progress,
                    )
            except SupersededError as superseded:
                log.info("%s", superseded)
            return
        settings, store = _open_settled(settings, drop)
        stack.callback(store.close)
        decoder = _decoder_of(settings)
        # Without a server and alerts no snapshot is read, so none is built.
        publisher = Publisher() if settings.serve.enabled or settings.alert else None
        webhook = None
        if settings.webhook is not None:
            webhook = Webhook(settings.webhook, resolve=resolve)
        join = open_join(settings, store, time.monotonic, wall_time)
        # On leaving, the checkpoint that is under way ends before the store is closed.
        writer = stack.enter_context(ThreadPoolExecutor(1, "checkpoint"))
        runner = Runner(
            settings,
            store,
            decoder,
            publisher,
            join=join,
            webhook=webhook,
            progress=progress,
            submit=writer.submit,
        )
        parts = _Parts(settings, runner, webhook)
        stack.callback(parts.close)
        stop.set_loop(runner.loop)
        hangup.set_loop(runner.loop)
        log.info(
            "%s: %s events counted so far, in %d partitions",
            store.path,
            f"{runner.events:,}",
            len(runner.positions),
        )
        inbox = None
        sources = open_sources(settings, runner.positions, resolve, decoder.clock)
        for source in sources:
            stack.callback(source.close)
            if isinstance(source, InboxSource):
                inbox = parts.inbox = source.inbox
        url = None
        if settings.serve.enabled and publisher is not None:
            # Imported only when it is used: the server is an extra.
            from streameval.service.http.server import Server

            server = parts.server = Server(
                settings.serve,
                settings.http,
                publisher,
                inbox,
                token=token,
                progress=progress,
            )
            stack.callback(server.stop)
            url = server.url
            log.info("listening at %s", url)
        if reread is not None:
            runner.loop.reread = partial(parts.reread, reread)
        started(runner, url)
        runner.run(sources, until_end=until_end)
        log.info("ended after a checkpoint: %s events counted", f"{runner.events:,}")


def _open_settled(
    settings: RunSettings,
    drop: Callable[[Mapping[str, str]], Collection[str]],
    unit: str = ONE_UNIT,
    worker: str | None = None,
    sibling: Store | None = None,
    generation: int = 0,
) -> tuple[RunSettings, Store]:
    """A store or one of its units, open for writing; and the settings beside what it keeps."""
    store = open_store(
        settings.store,
        fingerprint(settings),
        migrate=partial(_migrate, settings, drop, generation),
        unit=unit,
        worker=worker,
        sibling=sibling,
    )
    try:
        check_generation(store, generation)
        settings = with_stored_defaults(settings, stored_retention(store.meta()))
        keep_window_order(store, [window.name for window in settings.window])
        keep_settings(store, settings, generation)
    except BaseException:
        store.close()
        raise
    return settings, store


def open_unit(
    drop: Callable[[Mapping[str, str]], Collection[str]],
    settings: RunSettings,
    number: int,
    worker: str,
    sibling: Store | None,
    *,
    generation: int = 0,
) -> Unit:
    """What a shared store keeps of a partition number, claimed for a worker.

    Args:
        drop: As :func:`run_service` takes it.
        settings: The run's.
        number: Of the partition.
        worker: The name of the worker.
        sibling: Another unit of this worker, whose connection is shared.
        generation: Of the settings; 0: there is no group with newer ones.

    Raises:
        ConfigError: The settings are refused beside what the store holds.
        SupersededError: The group has newer settings; the unit is not converted to these.
        StoreError: It cannot be opened.
    """
    settings, store = _open_settled(settings, drop, str(number), worker, sibling, generation)
    try:
        join = open_join(settings, store, time.monotonic, wall_time)
        return Unit(settings, store, _decoder_of(settings), join=join)
    except BaseException:
        store.close()
        raise


def _decoder_of(settings: RunSettings) -> RecordDecoder:
    longest = _LONGEST_RECORD
    if settings.http is not None:
        longest = max(longest, settings.http.max_line_bytes)
    return RecordDecoder(settings.fields, settings.evaluator, settings.join is not None, longest)


def _generation(
    settings: RunSettings,
    file: str,
    drop: Callable[[Mapping[str, str]], Collection[str]],
    stop: _Signalled,
) -> int | None:
    """The generation of a worker's settings; None: it was stopped while the store was away."""
    newer = {_SETTINGS: "the newer settings of the group"}
    is_away_now = False
    while not stop.signalled:
        try:
            return join_group(
                settings,
                file,
                check=partial(check_units, settings, drop),
                confirmed=lambda: _SETTINGS in drop(newer),
            )
        except StoreError as error:
            if not is_away(error):
                raise
            if not is_away_now:
                log.warning("waiting for the store: %s", error)
            is_away_now = True
            time.sleep(_AWAY_SECONDS)
    return None


def _check_group(settings: RunSettings, generation: int, store: Store | None) -> None:
    """As :func:`check_generation`, also of a worker that holds no unit."""
    if store is not None:
        check_generation(store, generation)
    else:
        with closing(open_unclaimed(settings.store, ONE_UNIT)) as shown:
            check_generation(shown, generation)


def check_units(
    settings: RunSettings, drop: Callable[[Mapping[str, str]], Collection[str]]
) -> None:
    """Raise ConfigError where a unit of a shared store cannot be brought to these settings."""
    with closing(read_store(settings.store)) as store, store.reading() as connection:
        for _ in each_unit(store):
            _migration(store.path, connection, settings, drop)


def _run_worker(
    settings: RunSettings,
    kafka: KafkaSettings,
    opened: Callable[[RunSettings, int, str, Store | None], Unit],
    check: Callable[[Store | None], None],
    resolve: Callable[[str, str], str],
    reread: Callable[[], RunSettings] | None,
    stop: _Signalled,
    hangup: _Signalled,
    progress: Progress,
) -> None:
    """Run as one of several workers on a shared store, until a signal."""
    # Imported only when it is used: its client is an extra.
    from streameval.service.worker import Worker

    address = parse_address(settings.store)
    context = SourceContext({}, resolve, _needs_stamps(settings), inbox_of(settings.store))

    with ThreadPoolExecutor(1, "checkpoint") as writer:
        worker = Worker(
            settings,
            lambda worker: open_group(kafka, worker, context, address.name),
            opened,
            check=check,
            progress=progress,
            submit=writer.submit,
        )
        parts = _Parts(settings, worker, None)
        if reread is not None:
            worker.loop.reread = partial(parts.reread, reread)
        stop.set_loop(worker.loop)
        hangup.set_loop(worker.loop)
        log.info("%s: a worker of the group %s", address.shown, kafka.properties["group.id"])
        worker.run()
    log.info("ended after a checkpoint")


def open_sources(
    settings: RunSettings,
    positions: Mapping[str, Position],
    resolve: Callable[[str, str], str] = secret,
    clock: Callable[[], float] = time.time,
) -> list[Source]:
    """Every source of a run; the caller closes them.

    Args:
        settings: The run's.
        positions: Where each partition is to be read on.
        resolve: From ``env:NAME`` or ``file:PATH``, and the key it is the value of, to the secret.
        clock: Seconds since 1970, for the times at which records arrive.

    Raises:
        ConfigError, SourceError, StoreError: One of them cannot be opened; none is open then.
        MissingExtraError: The client of one is not installed.
    """
    stamps = _needs_stamps(settings)
    context = SourceContext(positions, resolve, stamps, inbox_of(settings.store), clock)
    opened: list[Source] = []
    try:
        for source in settings.sources.values():
            opened.append(open_source(source, context))
    except BaseException:
        for one in opened:
            one.close()
        raise
    return opened


def _needs_stamps(settings: RunSettings) -> bool:
    """Whether the time at which a record was written is its own."""
    timed = settings.join is not None or any(
        window_spec_of(window, settings.join).needs_time for window in settings.window
    )
    return settings.fields.time is None and timed


def _migration(
    path: str,
    connection: Connection,
    settings: RunSettings,
    drop: Callable[[Mapping[str, str]], Collection[str]],
) -> SettingsMigration:
    """The effect of the settings on a store; raises ConfigError where it is not confirmed."""
    found = migration_of(path, connection, settings, time.time_ns() // 1_000)
    kept = found.drops.keys() - set(drop(found.drops)) if found.drops else ()
    if kept:
        raise ConfigError(drops_text(path, {name: found.drops[name] for name in kept}))
    return found


def _migrate(
    settings: RunSettings,
    drop: Callable[[Mapping[str, str]], Collection[str]],
    generation: int,
    store: Store,
) -> Mapping[str, str]:
    """Bring a store to the settings, and return their fingerprint there.

    Raises:
        ConfigError: It is refused, or not confirmed.
        SupersededError: The group has newer settings. A worker that has those claims the unit
            before it converts it, so this one either sees them or writes nothing.
    """
    check_generation(store, generation)
    with store.reading() as connection:
        found = _migration(store.path, connection, settings, drop)
    if found.changed:
        found.apply(store)
    for line in found.lines:
        log.info("%s: %s", store.path, line)
    for text in found.drops.values():
        log.info("%s: dropped: %s", store.path, text)
    return fingerprint(found.settings)


def drops_text(path: str, drops: Mapping[str, str]) -> str:
    """What has to be confirmed, and how.

    >>> drops_text("run.db", {"window.day": "window 'day' and its 24 states"})
    "run.db: window 'day' and its 24 states would be dropped; to confirm, add --drop window.day"
    """
    what = " and ".join(drops[name] for name in sorted(drops))
    options = " ".join(f"--drop {name}" for name in sorted(drops))
    return f"{path}: {what} would be dropped; to confirm, add {options}"


class _Parts:
    """The parts of a run whose settings may change while it runs."""

    def __init__(
        self, settings: RunSettings, runner: Runner | Worker, webhook: Webhook | None
    ) -> None:
        self._settings = settings
        self._runner = runner
        self._webhook = webhook
        self.inbox: Inbox | None = None
        self.server: Server | None = None

    def close(self) -> None:
        """Close the webhook."""
        if self._webhook is not None:
            self._webhook.close()

    def reread(self, read: Callable[[], RunSettings]) -> None:
        """Apply the settings that may change during a run, and log the others."""
        try:
            wanted = read()
            resolve = resolved_secrets(wanted)
            settings, later = while_running(self._settings, with_store(wanted, resolve))
        except StreamevalError as error:
            log.error("the configuration was not taken over, nothing has changed: %s", error)
            return
        webhook = self._webhook
        if settings.webhook != self._settings.webhook:
            if webhook is not None:
                webhook.close()
            webhook = None
            if settings.webhook is not None:
                webhook = Webhook(settings.webhook, resolve=resolve)
        self._webhook = webhook
        changed = differences(self._settings, settings)
        self._settings = settings
        self._runner.configure(settings, webhook)
        if self.inbox is not None and settings.http is not None:
            self.inbox.max_bytes = settings.http.max_inbox_bytes
        if self.server is not None:
            self.server.reload(settings.serve, settings.http)
        log.info("configuration read: %s", ", ".join(changed) or "nothing has changed")
        for key in later:
            log.warning("%s: takes effect at the next start", key)


class _Signalled:
    """Calls a method of the loop on a signal, also on one that arrived before the loop."""

    def __init__(self, call: Callable[[ReadLoop], None]) -> None:
        self._call = call
        self.signalled = False
        self._loop: ReadLoop | None = None

    def __call__(self) -> None:
        self.signalled = True
        if self._loop is not None:
            self._call(self._loop)

    def set_loop(self, loop: ReadLoop) -> None:
        """Set the loop."""
        self._loop = loop
        if self.signalled:
            self._call(loop)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let Python look for cycles less often: a run holds millions of tuples, and no cycles."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(1_000_000, 50, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
