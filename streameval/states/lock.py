"""The lock of an evaluator: compiled where it was built, else that of ``threading``."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from streameval.states.score_index import backend

if TYPE_CHECKING:
    from threading import RLock as PLAIN_LOCK  # noqa: N814 -- a function at run time

    from streameval.states.native.native_lock import NativeLock
else:
    PLAIN_LOCK = type(threading.RLock())

__all__ = ["PLAIN_LOCK", "Lock", "held", "new_lock"]

Lock: TypeAlias = "threading.RLock | NativeLock"
"""Entered by ``with``; its owner may enter it again."""


def _choose() -> Callable[[], Lock]:
    if backend() == "native":
        try:
            compiled = importlib.import_module("streameval.states.native.native_lock")
        except ImportError:  # one compiled module can be missing alone
            return threading.RLock
        made: Callable[[], Lock] = compiled.NativeLock
        return made
    return threading.RLock


new_lock = _choose()
"""Makes a lock."""


def held(lock: Lock, read: Callable[[], float]) -> Callable[[], float]:
    """``read`` as a function that holds the lock meanwhile.

    >>> held(new_lock(), lambda: 0.5)()
    0.5
    """
    if not isinstance(lock, PLAIN_LOCK):
        return lock.reader(read)

    def holding() -> float:
        with lock:
            return read()

    return holding
