"""The marks of all files that were ever read, and how a further file matches them.

A mark is never dropped: what was counted of a file is not counted again in that file, in a copy or
in its compressed form, under any name. A file costs some 300 bytes of memory and 60 of the store; a
look-up by inode is a dictionary's, one by content compares the files with the same first line.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from streameval.service.sources.file_marks import (
    NO_INODE,
    Inode,
    Mark,
    first_line_digest,
    head_digest,
    marks_text,
    tail_digest,
)
from streameval.service.sources.log_file import (
    COMPRESSED,
    LogFile,
    UnreadableError,
    inode_at,
    inode_of,
    is_exhausted,
    one_file,
)


def open_inodes() -> set[Inode]:
    """Files that this process has open."""
    # None of them may be opened and closed again: that releases the locks that the process
    # holds on it, such as those of the store, which may be in the same directory.
    found = set()
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):
            found.add(inode_of(os.fstat(int(name))))
    return found


class Listing:
    """Regular files of some directories that this process does not have open."""

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
            inode = inode_of(found)
            if stat.S_ISREG(found.st_mode) and inode not in self._open:
                self._paths.setdefault(inode, Path(entry.path))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Listing) and self._paths == other._paths

    __hash__ = None  # type: ignore[assignment]

    def at(self, inode: Inode) -> Path | None:
        """The path of an inode."""
        return self._paths.get(inode)

    def alike(self, mark: Mark) -> list[Path]:
        """Files with the marked head; each file's head is read once."""
        if self._heads is None:
            self._heads = {}
            for path in self._paths.values():
                begin = _begin(path)
                self._heads.setdefault(first_line_digest(begin), []).append((path, begin))
        return [
            path
            for path, begin in self._heads.get(mark.first, ())
            if mark.length <= len(begin) and head_digest(begin, mark.length) == mark.head
        ]


def _begin(path: Path) -> bytes:
    with suppress(UnreadableError), one_file(), closing(LogFile(path)) as log:
        return log.begin()
    return b""


@dataclass(slots=True, eq=False)
class KnownFile:
    """A file that was read, or is being read."""

    mark: Mark
    number: int
    """Files that were found earlier have lower numbers."""
    current: bool = False
    """Whether this mark is the position of a partition."""
    log: LogFile | None = None
    """The handle of the reader that has it open."""
    copies: list[tuple[KnownFile, int]] = field(default_factory=list)
    """Files with the same content, and their sizes: their marks advance with this one."""

    @property
    def rank(self) -> tuple[int, bool, int]:
        """Of two files with the same content the one with the lower rank is the copy."""
        return self.mark.offset, self.log is not None, -self.number


class MatchKind(Enum):
    """How a file is related to a known one."""

    NEW = "new"
    """No known file has its content."""
    KNOWN = "known"
    """It is the known file, or continues it where it no longer exists."""
    ARCHIVE = "archive"
    """Its compressed bytes were counted to their end."""
    COPY = "copy"
    """It has the content of a known file which still exists."""
    REPLACEMENT = "replacement"
    """A copy; the original is open but has no name, and no other file has its content."""
    LONGER = "longer"
    """It begins with the content of a known file which still exists."""
    SHORTER = "shorter"
    """It begins as a known file that no longer exists, and has fewer bytes than were counted."""


class FileMatch(NamedTuple):
    """How a file is related to the known ones, and to which of them."""

    kind: MatchKind
    known: KnownFile | None = None
    size: int = 0
    """Bytes of the file."""
    copied: int = 0
    """Bytes of whole lines that another file has too."""


class KnownFiles:
    """Marks of all files that were read, found by inode and by content."""

    def __init__(
        self, is_matched: Callable[[Path], bool], is_rotated: Callable[[Path], bool]
    ) -> None:
        self._all: dict[int, KnownFile] = {}
        self._by_id: dict[Inode, KnownFile] = {}
        self._heads: dict[str, list[KnownFile]] = {}
        self._numbers = itertools.count()
        self.directories: set[Path] = set()
        """Directories that are searched for files under other names."""
        self.claimed: dict[Inode, KnownFile] = {}
        """The files that readers are reading."""
        self.is_matched = is_matched
        """Whether a pattern finds a file, so that it is read in any case."""
        self.is_rotated = is_rotated
        """Whether a file was rotated from the name of a reader, by its own name."""
        self.changed = False
        """Whether :meth:`text` differs from the stored one."""

    def add(self, mark: Mark, *, current: bool = False) -> KnownFile:
        """Add a file."""
        known = KnownFile(mark, next(self._numbers), current)
        self._all[known.number] = known
        self._index(known)
        self.changed |= bool(mark.offset) and not current
        return known

    def _index(self, known: KnownFile) -> None:
        mark = known.mark
        if mark.file_id != NO_INODE:
            self._by_id[mark.file_id] = known
        if mark.first:
            self._heads.setdefault(mark.first, []).append(known)

    def _unindex(self, known: KnownFile) -> None:
        mark = known.mark
        if self._by_id.get(mark.file_id) is known:
            del self._by_id[mark.file_id]
        if mark.first:
            self._heads[mark.first].remove(known)

    def update(self, known: KnownFile, mark: Mark) -> None:
        """Replace a file's mark: it was read further, or found elsewhere."""
        if (mark.file_id, mark.first) != (known.mark.file_id, known.mark.first):
            self._unindex(known)
            known.mark = mark
            self._index(known)
        known.mark = mark
        self.changed |= bool(mark.offset) and not known.current

    def advance(self, known: KnownFile, mark: Mark) -> None:
        """Replace the marks of a file that was read further, and of its copies."""
        self.update(known, mark)
        for copy, size in known.copies:
            offset = min(size, mark.offset)
            assert known.log is not None
            tail = tail_digest(known.log.file, offset)
            self.update(copy, copy.mark._replace(offset=offset, tail=tail))
        known.copies = [(copy, size) for copy, size in known.copies if size > mark.offset]

    def add_unread(self, log: LogFile, offset: int) -> KnownFile:
        """The known file of one that is read from an offset; an earlier look may have added it."""
        known = self._here(log)
        if known is None or known.current or known.mark.offset:
            return self.add(log.mark(offset))
        self.update(known, log.mark(offset))
        return known

    def add_copy(self, log: LogFile, known: KnownFile) -> None:
        """Add a file with the content of a known one that still exists."""
        size = log.size
        mark = log.mark(min(size, known.mark.offset))
        copy = self._here(log)
        if copy is None or not log.holds(copy.mark):
            copy = self.add(mark)
        else:
            self.update(copy, mark)
        known.copies = [(one, end) for one, end in known.copies if one is not copy]
        if mark.offset < size:
            known.copies.append((copy, size))

    def add_archive(self, log: LogFile) -> None:
        """Add compressed bytes whose content was counted to its end."""
        if not self._is_counted_archive(log):
            self.add(log.raw_mark())

    def retire(self, known: KnownFile) -> None:
        """Note that no partition's position is in this file any more."""
        known.current = False
        if known.mark.offset:
            self.changed = True
        elif self._all.pop(known.number, None) is not None:
            self._unindex(known)

    def text(self) -> str:
        """All marks except the positions of partitions."""
        return marks_text(
            known.mark for known in self._all.values() if known.mark.offset and not known.current
        )

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
        """Whether some of a file was counted, also as a copy, or it cannot be read."""
        with suppress(UnreadableError), one_file(), closing(LogFile(path)) as log:
            alike = self._alike(log)
            here = self._by_id.get(log.inode)
            # The inode may have been reused.
            if here is not None and log.holds(here.mark):
                alike.append(here)
            counted = any(known.current or known.mark.offset for known in alike)
            return counted or self._is_counted_archive(log) or not log.begin()
        return True

    def listing(self) -> Listing:
        """The files in the directories now."""
        return Listing(self.directories)

    def _here(self, log: LogFile) -> KnownFile | None:
        """The file that was last known to have the inode of this one."""
        return None if log.compressed else self._by_id.get(log.inode)

    def _is_counted_archive(self, log: LogFile) -> bool:
        """Whether these compressed bytes were counted to their end, in any file."""
        if not log.compressed:
            return False
        raw = log.raw_mark()
        return any(known.mark[:4] == raw[:4] for known in self._heads.get(raw.first, ()))

    def match(self, log: LogFile, *, unread: bool = False) -> FileMatch:
        """Compare a file with the known ones; an ``unread`` one is the copy of any equal one."""
        if self._is_counted_archive(log):
            return FileMatch(MatchKind.ARCHIVE)
        size = log.size
        best = self._here(log)
        if best is not None and not log.holds(best.mark):
            best = None
        if best is not None and best.mark.offset == size:
            return FileMatch(MatchKind.KNOWN, best, size)
        here = best
        copies = [] if here is None else [copy for copy, _ in here.copies]
        shorter: KnownFile | None = None
        longer: FileMatch | None = None
        listing: Listing | None = None
        for known in self._alike(log):
            if known is here or known.log is log or known in copies:
                continue
            if here is not None and not unread and here.rank > known.rank:
                continue
            listing = listing or self.listing()
            original = self._original(known, listing, log)
            if original is not None:
                try:
                    if log.begins(original) and (log.compressed or log.is_distinct()):
                        kind = MatchKind.COPY
                        if not original.linked and all(
                            inode_at(path) == log.inode for path in listing.alike(known.mark)
                        ):
                            kind = MatchKind.REPLACEMENT
                        return FileMatch(kind, known, size, log.whole_lines())
                    if original.begins(log) and original.is_distinct():
                        longer = FileMatch(MatchKind.LONGER, known, size, original.whole_lines())
                finally:
                    if original is not known.log:
                        original.close()
            elif log.holds(known.mark):
                if best is None or known.mark.offset > best.mark.offset:
                    best = known
            elif size < known.mark.offset:
                shorter = known
        if best is not None and (best.mark.offset or longer is None):
            return FileMatch(MatchKind.KNOWN, best, size)
        if longer is not None:
            return longer
        return FileMatch(MatchKind.NEW if shorter is None else MatchKind.SHORTER, shorter, size)

    def _alike(self, log: LogFile) -> list[KnownFile]:
        begin = log.begin()
        return [
            known
            for known in self._heads.get(first_line_digest(begin), ())
            if known.mark.length > len(begin)
            or head_digest(begin, known.mark.length) == known.mark.head
        ]

    def _original(self, known: KnownFile, listing: Listing, log: LogFile) -> LogFile | None:
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
        self, known: KnownFile, listing: Listing, *, near: Path, cut: bool = False
    ) -> LogFile | None:
        """Open a file under any name, near its own first; of one that was ``cut`` only a copy."""
        mark = known.mark
        moved = listing.at(mark.file_id)
        if moved is not None and not cut and (log := self._unclaimed(moved, known)):
            # The inode may have been reused: it was not compressed when it was read, and nothing
            # is counted of an empty file.
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

    def _is_counted(self, log: LogFile, but: KnownFile) -> bool:
        """Whether some content of a file is counted in another known one."""
        known = self.match(log).known if log.size else None
        return known is not None and known is not but and known.mark.offset > 0

    def _unclaimed(self, path: Path, known: KnownFile) -> LogFile | None:
        log = self.open_if_same(path, known.mark)
        if log is not None and self.claimed.get(log.inode, known) is not known:
            log.close()
            return None
        return log
