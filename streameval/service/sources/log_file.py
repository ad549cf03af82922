"""One regular file open for reading, decompressed where it is compressed."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from streameval.errors import MissingExtraError
from streameval.records.blocks import Readable
from streameval.records.compression import (
    DAMAGE,
    ENDINGS,
    NOT_READ,
    Codec,
    codec_of_bytes,
    is_cut_short,
    opened_archive,
)
from streameval.records.compression import HEAD_BYTES as _CODEC_BYTES
from streameval.service.closing import closed_on_error
from streameval.service.sources.file_marks import (
    HEAD_BYTES,
    NO_INODE,
    Inode,
    Mark,
    is_same,
    mark_of,
    part,
)

COMPRESSED = (*ENDINGS, ".lz4", ".zip", ".br", ".lzma", ".Z", ".7z")
"""Suffixes of names whose files are never read as lines of text."""

_READ = "gzip, bzip2, xz or zstd"
_BLOCK = 1 << 20


class UnreadableError(Exception):
    """A file whose content cannot be read; the message is the reason."""

    def __init__(self, reason: str, *, incomplete: bool = False) -> None:
        super().__init__(reason)
        self.incomplete = incomplete
        """Whether compressed data ends early, as while it is being written."""


def is_exhausted(error: OSError) -> bool:
    """Whether the process has no free handles, which says nothing about the file."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


@contextmanager
def one_file() -> Iterator[None]:
    """Ignore OSError about one file; raise it where the process has no free handles."""
    try:
        yield
    except OSError as error:
        if is_exhausted(error):
            raise


class LogFile:
    """One regular file, open for reading; raises OSError or UnreadableError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _check_regular(path.stat())
        # A FIFO may have taken the name in the meantime; opening one may not block.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # Not buffered: what was read once may be other bytes now.
        self._raw = cast(BinaryIO, os.fdopen(file, "rb", buffering=0))
        self._content: BinaryIO | None = None
        with closed_on_error(self._raw):
            found = os.fstat(file)
            _check_regular(found)
            self.inode = inode_of(found)
            self._codec = self._found_codec()

    def _found_codec(self) -> Codec | None:
        begin = part(self._raw, 0, _CODEC_BYTES)
        for magic, name in NOT_READ.items():
            if begin.startswith(magic):
                raise UnreadableError(
                    f"{name} data is not supported: expected JSON lines, or a file compressed "
                    f"by {_READ}"
                )
        codec = codec_of_bytes(begin)
        if codec is None and self.path.name.endswith(COMPRESSED):
            raise UnreadableError(
                f"expected data compressed by {_READ}, as the name says, got something else",
                incomplete=len(begin) < _CODEC_BYTES,
            )
        return codec

    @property
    def compressed(self) -> bool:
        """Whether the content is decompressed."""
        return self._codec is not None

    @property
    def file_id(self) -> Inode:
        """Device and inode as a mark holds them."""
        return NO_INODE if self.compressed else self.inode

    @property
    def file(self) -> BinaryIO:
        """The content; raises UnreadableError."""
        if self._codec is None:
            return self._raw
        if self._content is None:
            content = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by close()
            with closed_on_error(content):
                with self._decompressed() as data:
                    while block := data.read(_BLOCK):
                        content.write(block)
                # Its size is read by fstat, which sees only what is written.
                content.flush()
            self._content = cast(BinaryIO, content)
        return self._content

    @property
    def size(self) -> int:
        """Bytes of content."""
        return os.fstat(self.file.fileno()).st_size

    @property
    def state(self) -> tuple[int, ...]:
        """Size and times, which change when the file is written to or linked."""
        return state_of(os.fstat(self._raw.fileno()))

    @property
    def linked(self) -> bool:
        """Whether the file still has a name."""
        return os.fstat(self._raw.fileno()).st_nlink > 0

    def mark(self, offset: int) -> Mark:
        """The mark at an offset of the content."""
        mark = mark_of(self.file, offset, self.size, self.file_id)
        return mark if mark.length else mark._replace(changed=self.state[1])

    def raw_mark(self) -> Mark:
        """The mark of all bytes as they are on disk."""
        size = os.fstat(self._raw.fileno()).st_size
        return mark_of(self._raw, size, size, self.inode)

    def begin(self) -> bytes:
        """The first bytes of the content; of compressed data no more is decompressed."""
        if self._codec is None or self._content is not None:
            return part(self.file, 0, HEAD_BYTES)
        with self._decompressed() as data:
            return data.read(HEAD_BYTES)

    @contextmanager
    def _decompressed(self) -> Iterator[Readable]:
        assert self._codec is not None
        self._raw.seek(0)
        try:
            yield opened_archive(self._raw, self._codec)
        except MissingExtraError as error:
            raise UnreadableError(str(error)) from None
        except DAMAGE as error:
            if isinstance(error, OSError) and is_exhausted(error):
                raise
            raise UnreadableError(
                f"compressed data cannot be read: {error}", incomplete=is_cut_short(error)
            ) from None

    def holds(self, mark: Mark) -> bool:
        """Whether the content begins with what was marked."""
        return is_same(self.file, self.size, mark)

    def begins(self, other: LogFile) -> bool:
        """Whether the other's content begins with all of this."""
        size = self.size
        if size > other.size:
            return False
        return all(
            part(self.file, start, min(start + _BLOCK, size))
            == part(other.file, start, min(start + _BLOCK, size))
            for start in range(0, size, _BLOCK)
        )

    def is_distinct(self) -> bool:
        """Whether two lines differ; otherwise an equal file need not be a copy."""
        lines = iter(part(self.file, 0, _BLOCK).splitlines())
        first = next(lines, b"")
        return any(line != first for line in lines)

    def whole_lines(self) -> int:
        """The offset after the last whole line."""
        end = self.size
        while end:
            start = max(0, end - _BLOCK)
            found = part(self.file, start, end).rfind(b"\n") + 1
            if found:
                return start + found
            end = start
        return 0

    def close(self) -> None:
        """Close it."""
        self._raw.close()
        if self._content is not None:
            self._content.close()


def _check_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnreadableError("expected a regular file, got a FIFO, socket or device")


def inode_of(found: os.stat_result) -> Inode:
    """Device and inode of a ``stat``."""
    return found.st_dev, found.st_ino


def state_of(found: os.stat_result) -> tuple[int, ...]:
    """Size and times of a ``stat``, which change when the file is written to or linked."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def inode_at(path: Path) -> Inode | None:
    """The inode under a name; None where there is none."""
    try:
        return inode_of(path.stat())
    except OSError:
        return None
