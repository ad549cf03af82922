"""State files on disk: written atomically, verified when they are read.

Their bytes are defined in :mod:`streameval.state_files.codec`.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from streameval.errors import InputError, StateError, shown
from streameval.state_files.codec import (
    CHECKSUM_BYTES,
    COMPRESSED,
    FIRST_PART_BYTES,
    Unpacked,
    check_first_part,
    decompressed,
    format_of,
    inflated_header,
    memory_bytes,
    unpack_one_of,
    unpack_provenance,
)


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` to ``path`` so that a crash leaves the old file or the new one.

    The target of a link is replaced, and the permissions of an old file are kept. On a file system
    without nameless files a kill may leave one ``.streameval-*.tmp``. Raises StateError.
    """
    # A new file is written beside the old one, flushed to the disk, and renamed over it; then the
    # directory is flushed.
    name = _name(path)
    try:
        target = os.path.realpath(path)
        mode = _mode(target)
        if mode is not None and not stat.S_ISREG(mode):
            # A rename over /dev/null would succeed, for root.
            raise ValueError(f"it is {_file_type(mode)}, not a regular file")
        _replace(target, data, mode)
    except (OSError, ValueError) as error:
        raise _failure(name, "cannot be written", error) from error


def read_file(
    path: str | os.PathLike[str], *, kind: str, max_bytes: int | None = None
) -> dict[str, Any]:
    """The state in a file; raises StateError, which names the file."""
    return read_one_of(path, (kind,), max_bytes=max_bytes).data


def read_one_of(
    path: str | os.PathLike[str], kinds: Sequence[str], *, max_bytes: int | None = None
) -> Unpacked:
    """As :func:`read_file`, of a state of one of several kinds: all parts of it."""
    limit = memory_bytes() if max_bytes is None else max_bytes
    with _reading(path):
        return unpack_one_of(decompressed(_content(path, limit), limit=limit), kinds)


def read_provenance(path: str | os.PathLike[str]) -> tuple[Any, bytes]:
    """The provenance in a file, or None, and the checksum; nothing else is read or verified."""
    with _reading(path), open(path, "rb", opener=_open_without_waiting) as file:
        return _provenance(file, *_first_part(file))


def provenance_in(data: bytes) -> Any:
    """As :func:`read_provenance`, of a file's bytes: without the checksum."""
    first = data[:FIRST_PART_BYTES]
    length = check_first_part(first, len(data))
    return _provenance(io.BytesIO(data[FIRST_PART_BYTES:]), first, length)[0]


def _provenance(file: BinaryIO, first: bytes, length: int) -> tuple[Any, bytes]:
    """The provenance and the checksum in a file that is read from behind its first part."""
    version = format_of(first)
    if version == COMPRESSED:
        header, version = inflated_header(file)
    else:
        header = file.read(length)
    provenance = None if version == 1 else unpack_provenance(header, version)
    file.seek(-CHECKSUM_BYTES, os.SEEK_END)
    return provenance, file.read(CHECKSUM_BYTES)


@contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise errors of the block as a StateError that names the file."""
    name = _name(path)
    try:
        yield
    except StateError as error:
        raise StateError(f"{name}: {error}") from None
    except (OSError, ValueError) as error:
        raise _failure(name, "cannot be read", error) from error
    except MemoryError:
        raise StateError(f"{name}: does not fit into memory") from None


def _content(path: str | os.PathLike[str], limit: int) -> bytes:
    with open(path, "rb", opener=_open_without_waiting) as file:
        _first_part(file)
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise StateError(f"has {size} bytes; at most {limit} are read here")
        file.seek(0)
        # One byte more than its size, to detect a file that grows.
        return file.read(size + 1)


def _first_part(file: BinaryIO) -> tuple[bytes, int]:
    """The first 32 bytes, checked, and the header's length."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise StateError(f"is {_file_type(status.st_mode)}, not a regular file")
    first = file.read(FIRST_PART_BYTES)
    return first, check_first_part(first, status.st_size)


def _open_without_waiting(path: str, flags: int) -> int:
    # Opening a pipe would wait for its writer otherwise.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _replace(target: str, data: bytes, mode: int | None) -> None:
    directory = os.path.dirname(target)
    temporary = os.path.join(directory, f".streameval-{secrets.token_hex(8)}.tmp")
    try:
        if not _write_nameless(directory, temporary, data, mode):
            with open(temporary, "xb") as file:
                _fill(file, data, mode)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(directory)


def _write_nameless(directory: str, temporary: str, data: bytes, mode: int | None) -> bool:
    """Write a file that gets its name when it is complete; False if that is not supported."""
    if not hasattr(os, "O_TMPFILE"):
        return False
    try:
        descriptor = os.open(directory, os.O_WRONLY | os.O_TMPFILE, 0o666)
    except OSError:
        return False  # not supported, or an error that writing by name will raise
    with open(descriptor, "wb") as file:
        _fill(file, data, mode)
        try:
            # src_dir_fd means nothing beside an absolute path, but only with
            # it does Python call linkat and follow the link in /proc.
            os.link(f"/proc/self/fd/{descriptor}", temporary, src_dir_fd=descriptor)
        except OSError:
            return False
    return True


def sync(path: str | os.PathLike[str]) -> None:
    """Flush a file or directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fill(file: BinaryIO, data: bytes, mode: int | None) -> None:
    if mode is not None:
        with suppress(OSError, AttributeError):  # not every system keeps permissions
            os.fchmod(file.fileno(), stat.S_IMODE(mode))
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _sync_directory(directory: str) -> None:
    """Flush the rename to the disk."""
    if not hasattr(os, "O_DIRECTORY"):  # not on Windows
        return
    try:
        sync(directory)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _mode(target: str) -> int | None:
    try:
        return os.stat(target).st_mode
    except FileNotFoundError:
        return None


def _file_type(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"


def _name(path: str | os.PathLike[str]) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise InputError("path", expected="a str or os.PathLike", got=shown(path))
    name = os.fsdecode(path)
    return name if name.isprintable() and name else ascii(name)


def _failure(name: str, what: str, error: Exception) -> StateError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StateError(f"{name}: {what}: {reason}")
