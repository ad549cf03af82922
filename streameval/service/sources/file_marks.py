"""Identity of a file without its name: inode, content, and how much of it was counted.

A :class:`Mark` holds device and inode, a digest of the file's head of a stated length, the number
of bytes counted, and a digest of the bytes before there. The inode finds a renamed file
without reading others; the digests recognise a reused inode, a truncated file, a copy and a
compressed file, whose marks are of the decompressed content.

:class:`LogFile` is one regular file open for reading; :class:`KnownFiles` holds the marks of all
files that were ever read, and compares further files with them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec

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
from streameval.service.sources.raw import Position

Inode = tuple[int, int]
"""Device and inode; of a compressed file's content (0, 0)."""

HEAD_BYTES = 1024
_TAIL = 256
_BLOCK = 1 << 20

_FIRST_LINE = -1
"""Head length of a mark that an older release stored: the first line's digest."""

_NO_ID: Inode = (0, 0)


class UnreadableError(Exception):
    """A file whose content cannot be read; the message is the reason."""

    def __init__(self, reason: str, *, incomplete: bool = False) -> None:
        super().__init__(reason)
        self.incomplete = incomplete
        """Compressed data that ends early, as while it is being written."""


@contextmanager
def one_file() -> Iterator[None]:
    """Pass over what cannot be opened; raise OSError where the process can open no file at all."""
    try:
        yield
    except OSError as error:
        if is_exhausted(error):
            raise


def is_exhausted(error: OSError) -> bool:
    """Whether handles have run out, which says nothing about the file."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


class Mark(NamedTuple):
    """An offset in a file, and the file's identity."""

    offset: int
    head: str
    tail: str
    length: int = _FIRST_LINE
    """Bytes that ``head`` is the digest of."""
    device: int = 0
    inode: int = 0
    first: str = ""
    """Digest of the first line, or of its first kilobyte; empty while it is not whole."""
    changed: int = 0
    """When the file was last written, in nanoseconds, while no content identifies it."""

    @property
    def file_id(self) -> Inode:
        """Device and inode; (0, 0) of a compressed file."""
        return self.device, self.inode


def mark_at(position: Position) -> Mark:
    """The mark in a stored position, also in one of an older release.

    >>> mark_at({"offset": 3, "head": "aa", "tail": "bb"})
    Mark(offset=3, head='aa', tail='bb', length=-1, device=0, inode=0, first='aa', changed=0)
    """
    given: dict[str, Any] = {name: position[name] for name in Mark._fields if name in position}
    return _with_first(Mark(**given))


def _with_first(mark: Mark) -> Mark:
    """Older releases had no digest but that of the first line."""
    return mark._replace(first=mark.head) if mark.length == _FIRST_LINE else mark


def position_of(mark: Mark) -> dict[str, int | str]:
    """A mark as a position."""
    position = dict(mark._asdict())
    if not mark.changed:
        del position["changed"]
    return position


def marks_text(marks: Iterator[Mark]) -> str:
    """Marks in one text, some 80 bytes each.

    >>> marks_text(iter([Mark(7, "aa", "bb", 5, 1, 9, "cc"), Mark(9, "dd", "ee")]))
    '7:aa:bb:5:1:9:cc 9:dd:ee:-1:0:0:'
    """
    return " ".join(":".join(map(str, mark[:7])) for mark in marks)


def marks_of(text: str) -> Iterator[Mark]:
    """The marks of :func:`marks_text`, and those of an older release.

    >>> list(marks_of("7:aa:bb"))
    [Mark(offset=7, head='aa', tail='bb', length=-1, device=0, inode=0, first='aa', changed=0)]
    """
    for one in text.split():
        yield _with_first(msgspec.convert(one.split(":"), Mark, strict=False))


def mark_of(file: BinaryIO, offset: int, size: int, file_id: Inode = _NO_ID) -> Mark:
    """The mark of a file of so many bytes at an offset."""
    head = _part(file, 0, min(HEAD_BYTES, size))
    if not offset and b"\n" not in head and len(head) < HEAD_BYTES:
        # Many files begin with the same few bytes: less than a line identifies no file.
        head = b""
    first = _first_line(head) if head else ""
    return Mark(offset, _digest(head), _tail(file, offset), len(head), *file_id, first)


def is_same(file: BinaryIO, size: int, mark: Mark) -> bool:
    """Whether a file has the content that was marked, and perhaps more."""
    if size < max(mark.offset, mark.length):
        return False
    head = _head_digest(_part(file, 0, HEAD_BYTES), mark.length)
    return head == mark.head and _tail(file, mark.offset) == mark.tail


def _head_digest(head: bytes, length: int) -> str:
    return _first_line(head) if length == _FIRST_LINE else _digest(head[:length])


def _first_line(head: bytes) -> str:
    return _digest(head.partition(b"\n")[0])


def _tail(file: BinaryIO, offset: int) -> str:
    return _digest(_part(file, max(0, offset - _TAIL), offset))


def _part(file: BinaryIO, start: int, end: int) -> bytes:
    file.seek(start)
    return file.read(end - start)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


# Compressed files

COMPRESSED = (*ENDINGS, ".lz4", ".zip", ".br", ".lzma", ".Z", ".7z")
"""Suffixes of names whose files are never read as lines of text."""

_READ = "gzip, bzip2, xz or zstd"


class LogFile:
    """One regular file, open for reading; its content decompressed where it is compressed.

    Args:
        path: Its name just now.

    Raises:
        OSError: It cannot be opened.
        UnreadableError: It is no regular file, or is compressed in a way that is not supported.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableError("expected a regular file, got a FIFO, socket or device")
        # A FIFO may have taken the name in the meantime; opening one may not block.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # Not buffered: what was read once may be other bytes now.
        self._raw = cast(BinaryIO, os.fdopen(file, "rb", buffering=0))
        self._content: BinaryIO | None = None
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise UnreadableError("expected a regular file, got a FIFO, socket or device")
            self.inode: Inode = found.st_dev, found.st_ino
            self._codec = self._found_codec()
        except BaseException:
            self._raw.close()
            raise

    def _found_codec(self) -> Codec | None:
        begin = _part(self._raw, 0, _CODEC_BYTES)
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
        return _NO_ID if self.compressed else self.inode

    @property
    def file(self) -> BinaryIO:
        """The content; raises UnreadableError."""
        if self._codec is None:
            return self._raw
        if self._content is None:
            content = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by close()
            try:
                with self._decompressed() as data:
                    while block := data.read(_BLOCK):
                        content.write(block)
                # Its size is read by fstat, which sees only what is written.
                content.flush()
            except BaseException:
                content.close()
                raise
            self._content = cast(BinaryIO, content)
        return self._content

    @property
    def size(self) -> int:
        """Bytes of content."""
        return os.fstat(self.file.fileno()).st_size

    @property
    def state(self) -> tuple[int, ...]:
        """Size and times, which change when the file is written to or linked."""
        found = os.fstat(self._raw.fileno())
        return found.st_size, found.st_mtime_ns, found.st_ctime_ns

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
            return _part(self.file, 0, HEAD_BYTES)
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
        """Whether the content is what was marked, and perhaps more."""
        return is_same(self.file, self.size, mark)

    def begins(self, other: LogFile) -> bool:
        """Whether the other's content begins with all of this."""
        size = self.size
        if size > other.size:
            return False
        return all(
            _part(self.file, start, min(start + _BLOCK, size))
            == _part(other.file, start, min(start + _BLOCK, size))
            for start in range(0, size, _BLOCK)
        )

    def is_distinct(self) -> bool:
        """Whether two lines differ; otherwise an equal file need not be a copy."""
        lines = iter(_part(self.file, 0, _BLOCK).splitlines())
        first = next(lines, b"")
        return any(line != first for line in lines)

    def close(self) -> None:
        """Close it."""
        self._raw.close()
        if self._content is not None:
            self._content.close()


# All files


def open_inodes() -> set[Inode]:
    """Files that this process has open.

    None of them may be opened and closed again: that releases the locks that the process
    holds on it, such as those of the store, which may be in the same directory.
    """
    found = set()
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):
            one = os.fstat(int(name))
            found.add((one.st_dev, one.st_ino))
    return found


class Listing:
    """Regular files of some directories that this process does not have open.

    Args:
        directories: Which.
    """

    def __init__(self, directories: Iterable[Path]) -> None:
        self._paths: dict[Inode, Path] = {}
        self._heads: dict[str, list[tuple[Path, bytes]]] | None = None
        self._open = open_inodes()
        for directory in directories:
            with one_file(), os.scandir(directory) as entries:
                for entry in entries:
                    self._add(entry)

    def _add(self, entry: os.DirEntry[str]) -> None:
        with suppress(OSError):
            found = entry.stat()
            inode = found.st_dev, found.st_ino
            if stat.S_ISREG(found.st_mode) and inode not in self._open:
                self._paths.setdefault(inode, Path(entry.path))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Listing) and self._paths == other._paths

    __hash__ = None  # type: ignore[assignment]

    def at(self, inode: Inode) -> Path | None:
        """The file of an inode."""
        return self._paths.get(inode)

    def alike(self, mark: Mark) -> list[Path]:
        """Files whose head is the marked one's; each file's head is read once."""
        if self._heads is None:
            self._heads = {}
            for path in self._paths.values():
                begin = _begin(path)
                self._heads.setdefault(_first_line(begin), []).append((path, begin))
        return [
            path
            for path, begin in self._heads.get(mark.first, ())
            if mark.length <= len(begin) and _head_digest(begin, mark.length) == mark.head
        ]


def _begin(path: Path) -> bytes:
    with suppress(UnreadableError), one_file(), closing(LogFile(path)) as log:
        return log.begin()
    return b""


@dataclass(slots=True, eq=False)
class Known:
    """A file that was read, or is being read."""

    mark: Mark
    number: int
    """Files that were found earlier have lower ones."""
    current: bool = False
    """Whether this mark is the position of a partition."""
    log: LogFile | None = None
    """The handle of the reader that has it open."""
    copies: list[tuple[Known, int]] = field(default_factory=list)
    """Files with the same content, and their sizes: their marks advance with this one."""


class Judgement(Enum):
    """How a file is related to the known ones."""

    NEW = "new"
    KNOWN = "known"
    """It is one of them, or continues one that no longer exists."""
    COPY = "copy"
    """It has the content of another one that still exists."""
    LONGER = "longer"
    """It begins with the content of another one that still exists."""
    UNSURE = "unsure"
    """It begins as one that no longer exists, and is shorter than what was counted of that."""


class Verdict(NamedTuple):
    """A judgement, the known file that it refers to, and the offset to read from."""

    judgement: Judgement
    known: Known | None = None
    offset: int = 0


class KnownFiles:
    """Marks of all files that were read, found by inode and by content.

    A mark is never dropped: what was counted of a file is not counted again in that file, in a
    copy or in its compressed form, under any name.

    Cost:
        Some 300 bytes of memory and 60 of the store a file; a look-up by inode is a
        dictionary's, one by content compares the files that have the same first line.
    """

    def __init__(self) -> None:
        self._all: dict[int, Known] = {}
        self._by_id: dict[Inode, Known] = {}
        self._heads: dict[str, list[Known]] = {}
        self._number = 0
        self.directories: set[Path] = set()
        """Directories that are searched for files under other names."""
        self.claimed: dict[Inode, Known] = {}
        """The files that readers are reading."""
        self.is_matched: Callable[[Path], bool] = lambda path: False
        """Whether a pattern finds a file, so that it is read in any case."""
        self.is_rotated: Callable[[Path], bool] = lambda path: False
        """Whether a file was rotated from the name of a reader, by its own name."""
        self.changed = False
        """Whether :meth:`text` differs from the stored one."""

    def add(self, mark: Mark, *, current: bool = False) -> Known:
        """Add a file."""
        self._number += 1
        known = Known(mark, self._number, current)
        self._all[known.number] = known
        self._index(known)
        self.changed |= not current and mark.offset > 0
        return known

    def _index(self, known: Known) -> None:
        mark = known.mark
        if mark.file_id != _NO_ID:
            self._by_id[mark.file_id] = known
        if mark.first:
            self._heads.setdefault(mark.first, []).append(known)

    def _unindex(self, known: Known) -> None:
        mark = known.mark
        if self._by_id.get(mark.file_id) is known:
            del self._by_id[mark.file_id]
        if mark.first:
            self._heads[mark.first].remove(known)

    def update(self, known: Known, mark: Mark) -> None:
        """Replace a file's mark: it was read further, or found elsewhere."""
        if (mark.file_id, mark.first) != (known.mark.file_id, known.mark.first):
            self._unindex(known)
            known.mark = mark
            self._index(known)
        known.mark = mark
        self.changed |= not known.current and mark.offset > 0

    def advance(self, known: Known, mark: Mark) -> None:
        """Replace the marks of a file that was read further, and of its copies."""
        self.update(known, mark)
        for copy, size in known.copies:
            offset = min(size, mark.offset)
            assert known.log is not None
            tail = _tail(known.log.file, offset)
            self.update(copy, copy.mark._replace(offset=offset, tail=tail))
        known.copies = [(copy, size) for copy, size in known.copies if size > mark.offset]

    def add_copy(self, log: LogFile, known: Known) -> None:
        """Add a file with the content of a known one that still exists."""
        size = log.size
        mark = log.mark(min(size, known.mark.offset))
        copy = None if log.compressed else self._by_id.get(log.inode)
        if copy is None or not log.holds(copy.mark):
            copy = self.add(mark)
        else:
            self.update(copy, mark)
        known.copies = [(one, end) for one, end in known.copies if one is not copy]
        if mark.offset < size:
            known.copies.append((copy, size))

    def add_archive(self, log: LogFile) -> None:
        """Add compressed bytes whose content was counted to its end."""
        if not self.is_counted_archive(log):
            self.add(log.raw_mark())

    def forget(self, known: Known) -> None:
        """Drop a file of which nothing was counted, or that has another mark."""
        if self._all.pop(known.number, None) is not None:
            self._unindex(known)

    def retire(self, known: Known) -> None:
        """Note that no partition's position is in this file any more."""
        known.current = False
        if known.mark.offset:
            self.changed = True
        else:
            self.forget(known)

    def text(self) -> str:
        """All marks except those that are positions of partitions."""
        return marks_text(
            known.mark for known in self._all.values() if known.mark.offset and not known.current
        )

    def at(self, inode: Inode) -> Known | None:
        """The file that was last known to have this inode."""
        return self._by_id.get(inode)

    def note(self, path: Path) -> None:
        """Add the file of a name that a reader reads later, to recognise its copies."""
        with suppress(UnreadableError), one_file(), closing(LogFile(path)) as log:
            known = self._by_id.get(log.inode)
            if log.inode not in self.claimed and not log.compressed:
                if known is None or not log.holds(known.mark):
                    self.add(log.mark(0))
                elif not known.mark.offset:
                    self.update(known, log.mark(0))

    def knows(self, path: Path) -> bool:
        """Whether some of a file was counted, also as a copy; so is what cannot be read."""
        with suppress(UnreadableError), one_file(), closing(LogFile(path)) as log:
            alike = self._alike(log)
            here = self._by_id.get(log.inode)
            # The inode may have been reused.
            if here is not None and log.holds(here.mark):
                alike.append(here)
            counted = any(known.current or known.mark.offset for known in alike)
            archive = log.compressed and self.is_counted_archive(log)
            return counted or archive or not log.begin()
        return True

    def listing(self) -> Listing:
        """The files in the directories now."""
        return Listing(self.directories)

    def is_counted_archive(self, log: LogFile) -> bool:
        """Whether these compressed bytes were counted to their end, in any file."""
        raw = log.raw_mark()
        return any(known.mark[:4] == raw[:4] for known in self._heads.get(raw.first, ()))

    def judge(self, log: LogFile, *, unread: bool = False) -> Verdict:
        """Compare a file with the known ones.

        Args:
            log: The file.
            unread: It was empty when a reader opened it, so that any other one has precedence.
        """
        size = log.size
        best = None if log.compressed else self._by_id.get(log.inode)
        if best is not None and not log.holds(best.mark):
            best = None
        if best is not None and best.mark.offset == size:
            return Verdict(Judgement.KNOWN, best, size)
        here = best
        copies = [] if here is None else [copy for copy, _ in here.copies]
        unsure: Known | None = None
        longer: tuple[Known, int] | None = None
        listing: Listing | None = None
        for known in self._alike(log):
            if known is here or known.log is log or known in copies:
                continue
            if here is not None and not unread and _rank(here) > _rank(known):
                continue
            listing = listing or self.listing()
            original = self._original(known, listing, log)
            if original is not None:
                try:
                    if log.begins(original) and (log.compressed or log.is_distinct()):
                        return Verdict(Judgement.COPY, known)
                    if original.begins(log) and original.is_distinct():
                        longer = known, whole_lines(original)
                finally:
                    if original is not known.log:
                        original.close()
            elif log.holds(known.mark):
                if best is None or known.mark.offset > best.mark.offset:
                    best = known
            elif size < known.mark.offset:
                unsure = known
        if best is not None and best.mark.offset:
            return Verdict(Judgement.KNOWN, best, best.mark.offset)
        if longer is not None:
            return Verdict(Judgement.LONGER, longer[0], longer[1])
        if best is not None:
            return Verdict(Judgement.KNOWN, best)
        return Verdict(Judgement.NEW if unsure is None else Judgement.UNSURE, unsure)

    def _alike(self, log: LogFile) -> list[Known]:
        begin = log.begin()
        return [
            known
            for known in self._heads.get(_first_line(begin), ())
            if known.mark.length > len(begin)
            or _head_digest(begin, known.mark.length) == known.mark.head
        ]

    def _original(self, known: Known, listing: Listing, log: LogFile) -> LogFile | None:
        """The file of a mark, if it still exists and is another one."""
        if known.log is not None:
            return known.log if known.log.holds(known.mark) else None
        path = listing.at(known.mark.file_id)
        if path is None or known.mark.file_id == log.inode:
            return None
        return self.open_if_same(path, known.mark)

    def open_if_same(self, path: Path, mark: Mark, *, must_open: bool = False) -> LogFile | None:
        """Open a file if it has the content of a mark; with ``must_open`` raise OSError if not."""
        log = None
        try:
            log = LogFile(path)
            if log.holds(mark):
                return log
        except (FileNotFoundError, UnreadableError):
            pass
        except OSError as error:
            if must_open or is_exhausted(error):
                raise
        if log is not None:
            log.close()
        return None

    def find(
        self, known: Known, listing: Listing, *, near: Path, cut: bool = False
    ) -> LogFile | None:
        """Open the file of a mark under any name, otherwise its copy or its compressed form.

        Args:
            known: The file.
            listing: The files to search.
            near: Its own name, tried first, then those that begin with it.
            cut: The file of its inode has other content now.
        """
        mark = known.mark
        moved = listing.at(mark.file_id)
        if moved is not None and not cut and (log := self._unclaimed(moved, known)):
            # The inode may have been reused: it was not compressed when it was read, and of what
            # was empty nothing is counted.
            if not log.compressed and (mark.length or not self._is_counted(log, known)):
                return log
            log.close()
        # Of several copies the longest is the latest; else the name itself, names that rotation
        # makes of it, and not compressed before compressed.
        paths = sorted(
            listing.alike(mark),
            key=lambda one: (
                one != near,
                not one.name.startswith(near.name),
                one.name.endswith(COMPRESSED),
            ),
        )
        best: LogFile | None = None
        for path in paths:
            log = self._unclaimed(path, known)
            if log is None or (cut and log.inode == mark.file_id):
                continue
            if best is None or log.size > best.size:
                best, log = log, best
            if log is not None:
                log.close()
        return best

    def _is_counted(self, log: LogFile, but: Known) -> bool:
        """Whether some content of a file is that of another known one."""
        known = self.judge(log).known if log.size else None
        return known is not None and known is not but and known.mark.offset > 0

    def _unclaimed(self, path: Path, known: Known) -> LogFile | None:
        log = self.open_if_same(path, known.mark)
        if log is not None and self.claimed.get(log.inode, known) is not known:
            log.close()
            return None
        return log


def whole_lines(log: LogFile) -> int:
    """Where the last whole line of a file ends."""
    end = log.size
    while end:
        start = max(0, end - _BLOCK)
        found = _part(log.file, start, end).rfind(b"\n") + 1
        if found:
            return start + found
        end = start
    return 0


def _rank(known: Known) -> tuple[int, bool, int]:
    """Of two files with the same content, the higher one is read and the other is its copy."""
    return known.mark.offset, known.log is not None, -known.number
