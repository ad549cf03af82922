"""What a long-running process does on SIGTERM, SIGINT and SIGHUP."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def on_signals(stop: Callable[[], None], hangup: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT call ``stop``, SIGHUP ``hangup``; a second SIGINT interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signalled = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal signalled
        if signalled and number == signal.SIGINT:
            raise KeyboardInterrupt
        signalled = True
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    if hasattr(signal, "SIGHUP"):  # not on Windows
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, lambda number, frame: hangup())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
