"""A whole run: its store, its sources, its server and its signals."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from streameval.errors import ConfigError, StoreError, StreamevalError
from streameval.service.alerts.webhook import Webhook
from streameval.service.config.address import parse_address
from streameval.service.config.checks import check_store_key, check_workers
from streameval.service.config.evaluators import window_spec_of
from streameval.service.config.secrets import resolved_secrets, secret, with_store
from streameval.service.config.settings import RunSettings
from streameval.service.progress import Progress
from streameval.service.publish.snapshot import Publisher
from streameval.service.run.loop import ReadLoop, Worker
from streameval.service.run.opening import Drop, check_units, open_unit
from streameval.service.run.probes import probes
from streameval.service.run.reload import differences, while_running
from streameval.service.run.runner import Runner
from streameval.service.run.signals import on_signals
from streameval.service.sources import open_source
from streameval.service.sources.inbox import Inbox, InboxSource
from streameval.service.sources.raw import Position, Source, SourceContext
from streameval.service.store.dialect import ONE_UNIT
from streameval.service.store.kept_settings import (
    SupersededError,
    check_generation,
    join_group,
)
from streameval.service.store.postgres import is_away, open_unclaimed
from streameval.service.store.sqlite import inbox_of
from streameval.service.store.store import Store

if TYPE_CHECKING:
    from streameval.service.config.source_settings import KafkaSettings
    from streameval.service.http.server import Server

log = logging.getLogger("streameval.run")

_AWAY_SECONDS = 0.5
"""Between two looks for a store that cannot be reached."""

_SETTINGS = "settings"
"""The name by which ``--drop`` replaces newer settings of a group."""


def run_service(
    settings: RunSettings,
    *,
    until_end: bool = False,
    reread: Callable[[], RunSettings] | None = None,
    drop: Drop = lambda drops: (),
    started: Callable[[Runner, str | None], None] = lambda runner, url: None,
    file: str = "",
) -> None:
    """Run until a signal, or until the sources have ended; what was checkpointed is safe.

    SIGTERM and Ctrl-C make it checkpoint and return; in another thread than the main one
    :meth:`Runner.stop` does. ``reread`` reads the settings again on SIGHUP. ``started`` is called
    once with the runner and the server's address, when both are ready. ``file`` is where the
    settings are from: it tells a worker that is restarted from one whose settings have changed.
    """
    if until_end and settings.is_group:
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
    with ExitStack() as stack:
        progress = Progress()
        loop = ReadLoop(settings, progress=progress)
        stack.enter_context(on_signals(loop.stop, loop.request_reread))
        stack.enter_context(_rare_collections())
        # Before the store is opened, which may take long: a probe waits meanwhile.
        stack.enter_context(probes(settings.serve, progress))
        run = _Run(settings, resolve, drop, reread, loop, progress, stack)
        if settings.kafka is not None and settings.is_group:
            try:
                run.share(settings.kafka, file)
            except SupersededError as superseded:
                log.info("%s", superseded)
        else:
            run.alone(token, started, until_end)


@dataclass
class _Run:
    """A run, and the parts of it whose settings may change meanwhile."""

    settings: RunSettings
    resolve: Callable[[str, str], str]
    drop: Drop
    read_again: Callable[[], RunSettings] | None
    loop: ReadLoop
    progress: Progress
    stack: ExitStack
    webhook: Webhook | None = None
    inbox: Inbox | None = None
    server: Server | None = None

    def alone(
        self, token: str | None, started: Callable[[Runner, str | None], None], until_end: bool
    ) -> None:
        """Run by itself, with a unit that has all partitions."""
        unit = open_unit(self.drop, self.settings)
        self.stack.callback(unit.close)
        settings = self.settings = unit.settings
        # Without a server and alerts no snapshot is read, so none is built.
        publisher = Publisher() if settings.serve.enabled or settings.alert else None
        self._open_webhook(settings, self.resolve)
        # On leaving, the checkpoint that is under way ends before the store is closed.
        writer = self.stack.enter_context(ThreadPoolExecutor(1, "checkpoint"))
        self.loop.submit = writer.submit
        runner = Runner(unit, publisher, self.loop, webhook=self.webhook)
        self.stack.callback(self._close_webhook)
        log.info(
            "%s: %s events counted so far, in %d partitions",
            unit.store.path,
            f"{runner.events:,}",
            len(runner.positions),
        )
        sources = open_sources(settings, runner.positions, self.resolve, unit.decoder.clock)
        for source in sources:
            self.stack.callback(source.close)
            if isinstance(source, InboxSource):
                self.inbox = source.inbox
        url = None
        if settings.serve.enabled and publisher is not None:
            # Imported only when it is used: the server is an extra.
            from streameval.service.http.server import Server

            self.server = Server(
                settings.serve,
                settings.http,
                publisher,
                self.inbox,
                token=token,
                progress=self.progress,
            )
            self.stack.callback(self.server.stop)
            url = self.server.url
            log.info("listening at %s", url)
        self._reread_with(runner)
        started(runner, url)
        runner.run(sources, until_end=until_end)
        log.info("ended after a checkpoint: %s events counted", f"{runner.events:,}")

    def share(self, kafka: KafkaSettings, file: str) -> None:
        """Run as one of several workers on a shared store."""
        generation = _generation(self.settings, file, self.drop, self.loop)
        if generation is None:
            return
        # Imported only when they are used: the client is an extra.
        from streameval.service.run.group_worker import GroupWorker
        from streameval.service.sources.kafka_group import KafkaGroup

        settings = self.settings
        address = parse_address(settings.store)
        open_group = partial(
            KafkaGroup,
            kafka,
            owner=address.name,
            secret=self.resolve,
            stamps=_needs_stamps(settings),
        )
        with ThreadPoolExecutor(1, "checkpoint") as writer:
            self.loop.submit = writer.submit
            worker = GroupWorker(
                settings,
                self.loop,
                open_group,
                partial(open_unit, self.drop, generation=generation),
                check=partial(_check_group, settings, generation),
            )
            self._reread_with(worker)
            log.info("%s: a worker of the group %s", address.shown, kafka.properties["group.id"])
            worker.run()
        log.info("ended after a checkpoint")

    def _reread_with(self, worker: Worker) -> None:
        """Let a signal make the worker read its settings again."""
        if self.read_again is not None:
            self.loop.reread = partial(self._reread, worker, self.read_again)

    def _reread(self, worker: Worker, read: Callable[[], RunSettings]) -> None:
        """Apply the settings that may change during a run, and log the others."""
        try:
            wanted = read()
            resolve = resolved_secrets(wanted)
            settings, later = while_running(self.settings, with_store(wanted, resolve))
        except StreamevalError as error:
            log.error("the configuration was not taken over, nothing has changed: %s", error)
            return
        if settings.webhook != self.settings.webhook:
            self._close_webhook()
            self._open_webhook(settings, resolve)
        changed = differences(self.settings, settings)
        self.settings = settings
        worker.configure(settings, self.webhook)
        if self.inbox is not None and settings.http is not None:
            self.inbox.max_bytes = settings.http.max_inbox_bytes
        if self.server is not None:
            self.server.reload(settings.serve, settings.http)
        log.info("configuration read: %s", ", ".join(changed) or "nothing has changed")
        for key in later:
            log.warning("%s: takes effect at the next start", key)

    def _open_webhook(self, settings: RunSettings, resolve: Callable[[str, str], str]) -> None:
        if settings.webhook is not None:
            self.webhook = Webhook(settings.webhook, resolve=resolve)

    def _close_webhook(self) -> None:
        if self.webhook is not None:
            self.webhook.close()
            self.webhook = None


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


def _generation(settings: RunSettings, file: str, drop: Drop, loop: ReadLoop) -> int | None:
    """The generation of a worker's settings; None: it was stopped while the store was away."""
    newer = {_SETTINGS: "the newer settings of the group"}
    is_away_now = False
    while not loop.stopping:
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
    """As :func:`check_generation`, also for a worker that holds no unit."""
    if store is not None:
        check_generation(store, generation)
    else:
        with closing(open_unclaimed(settings.store, ONE_UNIT)) as shown:
            check_generation(shown, generation)


def open_sources(
    settings: RunSettings,
    positions: Mapping[str, Position],
    resolve: Callable[[str, str], str] = secret,
    clock: Callable[[], float] = time.time,
) -> list[Source]:
    """Every source of a run, from its positions on; the caller closes them.

    If one cannot be opened, none is open.
    """
    stamps = _needs_stamps(settings)
    context = SourceContext(positions, resolve, stamps, inbox_of(settings.store), clock)
    with ExitStack() as stack:
        opened = [
            stack.enter_context(closing(open_source(source, context)))
            for source in settings.sources.values()
        ]
        stack.pop_all()
    return opened


def _needs_stamps(settings: RunSettings) -> bool:
    """Whether the time at which a record was written is its own."""
    timed = settings.join is not None or any(
        window_spec_of(window, settings.join).needs_time for window in settings.window
    )
    return settings.fields.time is None and timed
