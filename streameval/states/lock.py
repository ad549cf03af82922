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

__all__ = ["PLAIN_LOCK", "Lock", "new_lock"]

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
