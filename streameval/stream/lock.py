"""One process at a time on a store."""

from __future__ import annotations

import fcntl
import os

from streameval.errors import StoreError

__all__ = ["StoreLock"]


class StoreLock:
    """The lock of a store, held until :meth:`release` or the end of the process.

    It is a lock of the operating system on ``<store>.lock``, so a killed
    process leaves none behind. The file stays, with the pid of who held it
    last: deleting it would let two processes lock two files of one name.

    Args:
        store: The store's path; links are followed, so that two names of one
            store have one lock.

    Raises:
        StoreError: Another process holds it (its pid is named), or the file
            cannot be written.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, store: str) -> None:
        path = os.path.realpath(store) + ".lock"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(
                f"{store}: cannot be locked: {path}: {error.strerror}; "
                "the store's directory must exist and be writable"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            whose = f"the process {holder}" if holder.isdecimal() else "another process"
            raise StoreError(
                f"{store}: is in use by {whose}; stop that one first, or give this one "
                "a store of its own"
            ) from None
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            pass  # on a full disk the lock holds all the same, without its pid
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Let others have it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
