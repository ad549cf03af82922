"""Files and directories that only their owner may read: a run keeps records of its users."""

from __future__ import annotations

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)


def private_file(path: str | os.PathLike[str]) -> None:
    """Make sure that a file exists, with mode 0600 whatever the umask is; raises OSError."""
    # It is not opened: closing a descriptor of SQLite's file would end the locks on it.
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        tighten(path)
        return
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def private_directory(path: Path) -> None:
    """Make sure that a directory exists, with mode 0700 whatever the umask is."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        if not path.is_dir():
            raise
        tighten(path)
    else:
        path.chmod(0o700)


def tighten(path: str | os.PathLike[str]) -> None:
    """Remove the rights of group and others from a file or directory that exists, and log that."""
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if not mode & 0o077:
            return
        try:
            os.chmod(path, mode & 0o700)
        except PermissionError as error:
            log.warning(
                "%s: other users have access (mode %04o), which cannot be changed: %s",
                os.fspath(path),
                mode,
                error.strerror,
            )
        else:
            log.warning(
                "%s: other users had access (mode %04o); the mode is %04o now",
                os.fspath(path),
                mode,
                mode & 0o700,
            )
