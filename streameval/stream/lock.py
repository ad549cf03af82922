"""One process at a time on a store."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from streameval.errors import StoreError
from streameval.stream.private_files import private_file

__all__ = ["StoreLock", "commits_noted"]


class StoreLock:
    """The lock of a store, held until :meth:`close` or the end of the process.

    It is a lock of the operating system on ``<store>.lock``, so a killed
    process leaves none behind. The file stays, with the pid of its last holder:
    deleting it would let two processes lock two files of one name.

    Beside the pid stands how many commits the store has seen. It is written after each of
    them, so a store with fewer has lost some: SQLite takes a damaged end of its write-ahead
    log for one that a crash left unfinished, and drops it without an error.

    Args:
        store: The store's path; links are followed, so that two names of one
            store have one lock.

    Raises:
        StoreError: Another process holds it (its pid is named), or the file
            cannot be written.
    """

    __slots__ = ("_descriptor", "commits")

    def __init__(self, store: str) -> None:
        path = os.path.realpath(store) + ".lock"
        try:
            private_file(path)
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise StoreError(
                f"{store}: cannot be locked: {path}: {error.strerror}; "
                "the store's directory must exist and be writable"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder, _ = _content(descriptor)
            os.close(descriptor)
            whose = f"the process {holder}" if holder.isdecimal() else "another process"
            raise StoreError(
                f"{store}: is in use by {whose}; stop that one first, or give this one "
                "a store of its own"
            ) from None
        self._descriptor: int | None = descriptor
        _, self.commits = _content(descriptor)
        self.note(self.commits)

    def note(self, commits: int) -> None:
        """Note how many commits the store has seen."""
        self.commits = commits
        if self._descriptor is not None:
            # On a full disk the lock holds all the same, with what it said before.
            with suppress(OSError):
                os.pwrite(self._descriptor, b"%-20d\n%-20d\n" % (os.getpid(), commits), 0)

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _content(descriptor: int) -> tuple[str, int]:
    """The pid, and the number of commits; 0 where an older release has written it."""
    holder, *rest = os.pread(descriptor, 64, 0).decode("ascii", "replace").split("\n")
    commits = rest[0].strip() if rest else ""
    return holder.strip(), int(commits) if commits.isdecimal() else 0


def commits_noted(store: str) -> int:
    """How many commits a store has seen, by its lock file; 0 where there is none.

    To be read before the store: a commit between the two is no loss then.
    """
    try:
        descriptor = os.open(os.path.realpath(store) + ".lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return _content(descriptor)[1]
    finally:
        os.close(descriptor)
