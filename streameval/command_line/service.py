"""A run with everything around it: store, sources, server, signals."""

from __future__ import annotations

import gc
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

import msgspec

from streameval.stream.evaluators import fingerprint
from streameval.stream.join.open_join import open_join
from streameval.stream.open_sources import open_sources
from streameval.stream.outside import resolved_secrets
from streameval.stream.published import Publisher
from streameval.stream.records.decoder import RecordDecoder
from streameval.stream.runner import Runner
from streameval.stream.settings import RunSettings
from streameval.stream.sources.inbox import Inbox
from streameval.stream.store import inbox_of, open_store
from streameval.stream.webhook import Webhook
from streameval.stream.window_order import keep_window_order

__all__ = ["run_service"]

log = logging.getLogger("streameval.run")

_LONGEST_RECORD = 1 << 20


def run_service(
    settings: RunSettings,
    *,
    until_end: bool = False,
    started: Callable[[Runner, str | None], None] = lambda runner, url: None,
) -> None:
    """Run until a signal, or until the sources have ended.

    SIGTERM and Ctrl-C make it checkpoint and return; where this is not the
    main thread, :meth:`Runner.stop` does.

    Args:
        settings: The run's.
        until_end: End as soon as nothing is left to read.
        started: Called once with the runner and the server's address, when both are ready.

    Raises:
        ConfigError, StoreError, SourceError, MissingExtraError: It cannot be
            run, or not any longer; what was checkpointed is safe.
    """
    if until_end:
        settings = _ending(settings)
    resolve = resolved_secrets(settings)
    token = settings.serve.token
    if token is not None:
        token = resolve(token, "serve.token")
    stop = _Stop()
    with ExitStack() as stack:
        # From the start: a stop while it opens its store is a stop like any other.
        stack.enter_context(_signals(stop))
        stack.enter_context(_rare_collections())
        store = open_store(settings.store, fingerprint(settings))
        stack.callback(store.close)
        keep_window_order(store, settings)
        longest = _LONGEST_RECORD
        if settings.http is not None:
            longest = max(longest, settings.http.max_line_bytes)
        decoder = RecordDecoder(
            settings.fields, settings.evaluator, settings.join is not None, longest
        )
        # Nobody looks where nothing is served and no alert is judged: nothing is made for them.
        publisher = Publisher() if settings.serve.enabled or settings.alert else None
        webhook = None
        if settings.webhook is not None:
            webhook = Webhook(settings.webhook, resolve=resolve)
            stack.callback(webhook.close)
        join = open_join(settings, store, time.monotonic)
        runner = Runner(settings, store, decoder, publisher, join=join, webhook=webhook)
        stop.reaches(runner)
        log.info(
            "%s: %s events counted so far, in %d partitions",
            settings.store,
            f"{runner.events:,}",
            len(runner.positions),
        )
        inbox = None
        if settings.http is not None:
            inbox = Inbox(inbox_of(settings.store), max_bytes=settings.http.max_inbox_bytes)
            stack.callback(inbox.close)
        sources = open_sources(settings, runner.positions, inbox, resolve)
        for source in sources:
            stack.callback(source.close)
        url = None
        if settings.serve.enabled and publisher is not None:
            # Imported only where it is wanted: the server is an extra.
            from streameval.serve.server import start

            server = start(settings.serve, settings.http, publisher, inbox, token=token)
            stack.callback(server.stop)
            url = server.url
            log.info("listening at %s", url)
        started(runner, url)
        runner.run(sources, until_end=until_end)
        log.info("ended after a checkpoint: %s events counted", f"{runner.events:,}")


class _Stop:
    """Asks a run to end, even before it has begun."""

    def __init__(self) -> None:
        self._asked = False
        self._runner: Runner | None = None

    def __call__(self) -> None:
        self._asked = True
        if self._runner is not None:
            self._runner.stop()

    def reaches(self, runner: Runner) -> None:
        """From now on it is this runner that is asked."""
        self._runner = runner
        if self._asked:
            runner.stop()


def _ending(settings: RunSettings) -> RunSettings:
    """The settings with sources that end."""
    if settings.files is not None:
        files = msgspec.structs.replace(settings.files, follow=False)
        settings = msgspec.structs.replace(settings, files=files)
    if settings.kafka is not None:
        kafka = msgspec.structs.replace(settings.kafka, stop_at_end=True)
        settings = msgspec.structs.replace(settings, kafka=kafka)
    return settings


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let Python look for cycles less often: a run holds millions of tuples, and no cycles."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(200_000, 50, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT call ``stop``; a second SIGINT interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        asked = True
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
