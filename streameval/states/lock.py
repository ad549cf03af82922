"""The lock of an evaluator: compiled where it was built, else that of ``threading``.

A process is forked while no thread holds such a lock, so that no evaluator of the child is
half-way through a call of a thread that the child does not have.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from streameval.states.backend import compiled

PLAIN_LOCK: Any = type(threading.RLock())

__all__ = ["PLAIN_LOCK", "Lock", "new_lock"]

Lock: TypeAlias = Any
"""A ``threading.RLock`` or a ``NativeLock``: entered by ``with``, by its owner also again."""

_MADE: WeakValueDictionary[int, Lock] = WeakValueDictionary()
_HELD: list[Lock] = []
"""While a process is forked: all locks, which the forking thread holds."""


_NATIVE: Any = compiled("streameval.states.native.native_lock")
_lock_of_backend: Callable[[], Lock] = threading.RLock if _NATIVE is None else _NATIVE.NativeLock


def new_lock() -> Lock:
    """A lock, which is known to :func:`os.fork`."""
    lock = _lock_of_backend()
    _MADE[id(lock)] = lock
    return lock


def _hold_all() -> None:
    # A copy in one step, as other threads make locks meanwhile; in the order of merges.
    _HELD[:] = [lock for made in _MADE.valuerefs() if (lock := made()) is not None]
    _HELD.sort(key=id)
    for lock in _HELD:
        lock.__enter__()


def _leave_all() -> None:
    for lock in reversed(_HELD):
        lock.__exit__(None, None, None)
    _HELD.clear()


def _begin_child() -> None:
    for made in _MADE.valuerefs():
        lock = made()
        if lock is not None and not isinstance(lock, PLAIN_LOCK):
            lock.renew()
    _leave_all()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_all, after_in_parent=_leave_all, after_in_child=_begin_child)
