"""The lock of a store in a file, with the number of its commits."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from streameval.errors import StoreError
from streameval.service.private_files import private_file


class StoreLock:
    """The lock of a store, held until :meth:`close` or the end of the process."""

    # A lock of the operating system on <store>.lock: a killed process leaves none behind. The file
    # stays, with the pid of its last holder: deleting it would let two processes lock two files of
    # one name. It also holds the number of commits, which is written after each of them. So a store
    # with fewer has lost some: SQLite treats a damaged end of its write-ahead log like one that a
    # crash left unfinished, and drops it without an error.

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
            # On a full disk the lock still holds, with its former content.
            with suppress(OSError):
                os.pwrite(self._descriptor, b"%-20d\n%-20d\n" % (os.getpid(), commits), 0)

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _content(descriptor: int) -> tuple[str, int]:
    """The pid, and the number of commits; 0 in a file of an older release."""
    holder, *rest = os.pread(descriptor, 64, 0).decode("ascii", "replace").split("\n")
    commits = rest[0].strip() if rest else ""
    return holder.strip(), int(commits) if commits.isdecimal() else 0


def commits_noted(store: str) -> int:
    """The number of commits that a store's lock file has noted; 0 where there is none."""
    # Read it before the store: a commit between the two is then not reported as lost.
    try:
        descriptor = os.open(os.path.realpath(store) + ".lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return _content(descriptor)[1]
    finally:
        os.close(descriptor)
