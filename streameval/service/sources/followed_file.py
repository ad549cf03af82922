"""One path, followed by name through rotations, as ``tail -F`` does.

A position identifies the file by content and not by name: the offset, a digest of the head and
one of the bytes before the offset (:mod:`streameval.service.sources.file_marks`).
After a restart the file that was being read is searched by its inode, under its own name, and
by its content in the directories that files are read from, also in compressed files.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from streameval.events.values import IntArray
from streameval.records.chunk import RecordError
from streameval.service.sources.file_marks import (
    COMPRESSED,
    HEAD_BYTES,
    Inode,
    Judgement,
    Known,
    KnownFiles,
    Listing,
    LogFile,
    Mark,
    UnreadableError,
    one_file,
    position_of,
    whole_lines,
)
from streameval.service.sources.raw import Kind, PartitionStatus, RawBatch
from streameval.states.backend import compiled

_NATIVE = compiled("streameval.records.native.native_json")

_MOST_ABSENT = 60
"""Looks without the file's name after which the file is not waited for any more."""

_log = logging.getLogger(__name__)

MAX_LINE_BYTES = 1024 * 1024
"""A longer line is quarantined, truncated."""

_BLOCK = 1024 * 1024
_KEPT = 64 * 1024


class _NotYetError(Exception):
    """A file is a copy of one that is counted less far, and may be cut before that changes."""


class FollowedFile:
    """Reads a path's lines, the rest of rotated files first.

    Args:
        path: The name to follow; it need not exist yet.
        kind: What its records are.
        files: All files that are known.
        follow: False: what the file holds now is all there is.
        matched: The path was found by a pattern: an empty file may become a copy of another.
        partition: The partition, if not that of the path.
    """

    def __init__(
        self,
        path: Path,
        kind: Kind,
        files: KnownFiles,
        *,
        follow: bool,
        matched: bool,
        partition: str = "",
    ) -> None:
        self.path = path
        self.partition = partition or f"files:{path}"
        self.kind = kind
        self._files = files
        self._follow = follow
        self._matched = matched
        self._unjudged = False
        """Whether the file was empty when it was found."""
        self._known: Known | None = None
        self._log: LogFile | None = None
        self._inode: Inode | None = None
        self._idle: tuple[int, ...] | None = None
        """The state of the file when nothing was left to read."""
        self._refused: tuple[Inode, tuple[int, ...]] | None = None
        """A file under the path that was refused, and its state then."""
        self._problem = ""
        self._unopened = False
        """Whether the problem is that the next file cannot be opened: opening it ends that."""
        self.missed = ""
        self.opened = False
        """Whether the position of an opened file is still to be stored."""
        self._is_first = True
        """Whether none was open yet: what was rotated before the first one is not read."""
        self._not_read: set[Inode] = set()
        """Rotated files that were there before the first one, or were reported."""
        self._absent = 0
        self._last: Mark | None = None
        self.gone = False
        """Whether the file was deleted and no other has its name."""

    # Where to begin

    def begin(self) -> None:
        """Hold the file open, so that a rotation before the first read loses nothing."""
        self._not_read.update(sibling.inode for sibling in rotated_from(self.path))
        self._open_next()

    def resume(self, known: Known, listing: Listing) -> None:
        """Continue at a stored position; the file is searched in a listing."""
        self._known, self._is_first = known, False
        while not self._find_moved(listing) and not self._find(listing):
            # A rotation in the meantime may have given it a name that was not looked at.
            again = self._files.listing()
            if again == listing:
                self._vanished()
                return
            listing = again

    def take(self, known: Known, log: LogFile) -> None:
        """Continue in the file of a mark."""
        self._known = known
        known.current = True
        self._hold(log, known.mark.offset)

    def _find(self, listing: Listing, *, cut: bool = False) -> bool:
        assert self._known is not None
        log = self._files.find(self._known, listing, near=self.path, cut=cut)
        if log is None:
            return False
        self._hold(log, self._known.mark.offset)
        return True

    def _find_moved(self, listing: Listing | None = None) -> bool:
        """Continue in a rotated file if the current one was empty when it was last seen.

        Only its inode identifies an empty file, and that may be reused; a copy may have been made
        of it, and it cut. Files that were rotated from this name since are older than the file
        there, and are read first; while it is open, those that a pattern finds.
        """
        known = self._known
        assert known is not None
        mark = known.mark
        if not mark.changed:
            return False
        empty = self._log
        if listing is not None:
            empty = self._files.find(known, listing, near=self.path)
        rotated = rotated_from(self.path)
        if empty is not None:
            # Those after it are younger; of what is live now, none is.
            inodes = [sibling.inode for sibling in rotated]
            if empty.inode in inodes:
                del rotated[inodes.index(empty.inode) :]
            elif empty.inode != _stat_inode(self.path):
                last = empty.state[1]
                rotated = [sibling for sibling in rotated if sibling.changed <= last]
            # Before the others, because files with the same content are copies of it.
            self._files.update(known, empty.mark(0))
            if empty is not self._log:
                empty.close()
        moved = False
        try:
            moved = any(
                self._continues_in(sibling)
                for sibling in rotated
                if sibling.changed > mark.changed
                and (listing is not None or self._files.is_matched(sibling.path))
            )
        finally:
            if not moved and self._known is known:
                self._files.update(known, mark)
        return moved

    def _continues_in(self, sibling: _Rotated) -> bool:
        """Whether a rotated file is the next one, and is open now."""
        if sibling.inode in self._files.claimed:
            return False
        try:
            log = LogFile(sibling.path)
        except FileNotFoundError:
            return False
        except UnreadableError as error:
            if not error.incomplete:
                self._miss(sibling.path, str(error))
            return False
        with _closed_on_error(log):
            # One equal line makes no copy, but the current file may be cut only after this.
            uncut = self._log is not None and not log.compressed and log.begins(self._log)
            if log.inode == sibling.inode and not uncut and self._move_to(log, live=False):
                return True
        log.close()
        return False

    def _hold(self, log: LogFile, offset: int) -> None:
        assert self._known is not None
        self._close_log()
        self._unjudged = self._matched and not self._known.mark.length
        self._log, self._inode = log, log.inode
        self._known.log = log
        self._files.update(self._known, log.mark(offset))
        self._files.claimed[log.inode] = self._known
        self._idle = None
        self.opened = True
        self._is_first = False
        if self._unopened:
            self._problem, self._unopened = "", False

    def _close_log(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._known is not None:
            self._known.log = None
        if self._inode is not None:
            self._files.claimed.pop(self._inode, None)
            self._inode = None

    def _retire(self) -> None:
        """Close the current file: it was read to its end, or is lost."""
        self._close_log()
        if self._known is not None:
            self._files.retire(self._known)
            self._known = None

    def _vanished(self) -> None:
        """The current file no longer exists under any name."""
        assert self._known is not None
        offset = self._known.mark.offset
        text = f"the file read up to byte {offset} is not there any more"
        # A file that was read to its end may be deleted.
        read_all = self._idle is not None and self._idle[0] == offset
        followed = not self._matched or _stat_inode(self.path) is not None
        if not read_all:
            self._lost(text, as_missed=not (followed and offset))
        if followed:
            self._retire()
            self._open_next()
        else:
            self._end()

    def _end(self) -> None:
        """Stop reading this name until another file has it."""
        self._last = self._known.mark if self._known is not None else None
        self._retire()
        self.gone = self.opened = True

    def _lost(self, what: str, *, as_missed: bool = False) -> None:
        """Report content that is lost: as missed, or as a problem of the partition."""
        text = f"{what}; what it held beyond that is not counted"
        _log.warning("%a: %s", str(self.path), text)
        if as_missed:
            self.missed = text
        else:
            self._problem, self._unopened = text, False

    def refresh(self) -> None:
        """Bring the marks up to date with what is there, so that copies of it are recognised."""
        if self._log is None and self._known is not None:
            self._reopen()
        log, known = self._log, self._known
        if log is not None and known is not None:
            if not log.holds(known.mark):
                self._cut(log.size)
            elif known.mark.length < HEAD_BYTES:
                self._files.update(known, log.mark(known.mark.offset))
        live = _stat_inode(self.path)
        if live is not None and live not in self._files.claimed:
            self._files.note(self.path)

    def note_absent(self) -> None:
        """Count a look without the name; a minute of these ends a file that was read."""
        self._absent += 1
        if (
            self._absent >= _MOST_ABSENT
            and self._matched
            and self._known is not None
            and self._idle is not None
            and self._idle[0] == self._known.mark.offset
        ):
            self._end()

    # Handles

    @property
    def inode(self) -> Inode | None:
        """The file that is being read."""
        return self._inode

    @property
    def is_at_end(self) -> bool:
        """Whether all that the current file holds was read."""
        return self._log is None or self._known is None or self._size() <= self._known.mark.offset

    @property
    def is_open(self) -> bool:
        """Whether a file handle is held."""
        return self._log is not None

    @property
    def is_released(self) -> bool:
        """Whether the handle of a known file was closed."""
        return self._log is None and self._known is not None

    def release(self) -> None:
        """Close the handle; the file is found again by its mark."""
        if self._log is not None and self._known is not None:
            if not self._log.linked or self._log.compressed:
                return
            self._log.close()
            self._log = None
            self._known.log = None

    def _reopen(self) -> bool:
        """Whether there is something to read in a file whose handle was closed."""
        assert self._known is not None
        try:
            found = self.path.stat()
        except OSError:
            found = None
        if found is not None and _inode(found) == self._inode:
            if (found.st_size, found.st_mtime_ns, found.st_ctime_ns) == self._idle:
                return False
            if self._find_moved(self._files.listing()):
                return True
            log = self._files.open_if_same(self.path, self._known.mark, must_open=True)
            if log is not None:
                self._hold(log, self._known.mark.offset)
                return True
            self._cut(found.st_size)
            return self._log is not None
        listing = self._files.listing()
        if not self._find_moved(listing) and not self._find(listing):
            self._vanished()
        return self._log is not None

    # Reading

    def read(self) -> RawBatch | None:
        """The next megabyte of lines, or None while there is nothing new."""
        while not self.gone:
            if self._known is None and not self._open_next():
                return None
            if self._log is None and not self._reopen():
                return None
            log, known = self._log, self._known
            if log is None or known is None:
                return None
            # First: no program appends to a file after it was moved away and replaced, so
            # the size that is read after this is final.
            replaced = self._replaced()
            state = log.state
            if state == self._idle and not replaced:
                return None
            mark = known.mark
            if not log.holds(mark):
                self._cut(log.size)
                continue
            size = log.size
            if size and self._unjudged and not self._is_new(log, known):
                return None
            if size > mark.offset:
                last = not self._follow or replaced or log.compressed
                lines = next_lines(log.file, mark.offset, size, last=last)
                after = log.mark(lines.end)
                # The lines are of this file only if it was not cut in the meantime.
                if not log.holds(mark):
                    continue
                if lines.end > mark.offset:
                    # No content identified it so far: it may hold what came after a copy of it.
                    if not mark.length and self._find_moved():
                        continue
                    return self._batch(lines, after)
            if log.compressed:
                self._files.add_archive(log)
            if not replaced:
                self._idle = state
                # A file of this name comes after a rotated one, compressed or not.
                if log.compressed and log.path == self.path:
                    self._end()
                return None
            if self._matched and self._files.is_rotated(self.path):
                # What has its name now comes after files that others read.
                self._end()
            elif not self._open_next():
                return None
        return None

    def _batch(self, lines: Lines, after: Mark) -> RawBatch:
        assert self._known is not None
        self._files.advance(self._known, after)
        self.opened = False
        return RawBatch(
            self.partition,
            self.kind,
            lines.messages,
            lines.places,
            position_of(after),
            bad=lines.bad,
        )

    def opening(self) -> RawBatch | None:
        """The position at which an opened file begins, or the note that it was deleted."""
        self.opened = False
        mark = self._last if self._known is None else self._known.mark
        if mark is None:
            return None
        position = position_of(mark)
        if self.gone:
            position["gone"] = 1
        return RawBatch(self.partition, self.kind, [], [], position)

    def _is_new(self, log: LogFile, known: Known) -> bool:
        """Whether a file that was empty now has content that no other file has."""
        if log.inode != _stat_inode(self.path):
            self._files.note(self.path)
        verdict = self._files.judge(log, unread=True)
        if verdict.judgement is Judgement.NEW or verdict.known is known:
            self._unjudged = False
            return True
        self._end()
        return False

    def _cut(self, size: int) -> None:
        """The current file has other content now: its copy, if there is one, is read first."""
        assert self._known is not None
        known = self._known
        if self._find(self._files.listing(), cut=True):
            return
        self._lost(f"the file was cut to {size} bytes when {known.mark.offset} had been read")
        # The counted content is still recognised in a copy that is found later.
        self._close_log()
        self._files.update(known, known.mark._replace(device=0, inode=0))
        self._retire()
        self._open_next()

    # Finding the next file

    def _open_next(self) -> bool:
        """Open the file after the one that was read to its end; False: it does not exist yet.

        Names are not kept: the next rotation moves them to other files.
        """
        passed: set[Inode] = set()
        while True:
            younger = self._younger(passed)
            path = younger[0].path if younger else self.path
            if younger:
                # Before the others: what holds the same as the live file is a copy of it.
                self._files.note(self.path)
            if not younger and _stat_inode(path) in self._files.claimed:
                return False
            try:
                log = LogFile(path)
            except FileNotFoundError:
                if younger:
                    continue
                return False
            except UnreadableError as error:
                if younger:
                    if not error.incomplete:
                        self._miss(path, str(error))
                    passed.add(younger[0].inode)
                    continue
                self._cannot_open(error)
                return False
            # A rotation in the meantime gave the name to a later file. A rotated file is the
            # one that was seen under it; what is live comes next while nothing is in between.
            with _closed_on_error(log):
                if younger[0].inode == log.inode if younger else not self._younger(passed):
                    first = self._is_first
                    if self._move_to(log, live=not younger):
                        if not younger and not first:
                            self._report_unread()
                        return True
                    passed.add(log.inode)
                    if not younger:
                        log.close()
                        return False
            log.close()

    def _move_to(self, log: LogFile, *, live: bool) -> bool:
        """Continue in the next file, unless it is counted or another reader has it."""
        if log.inode in self._files.claimed or (log.inode, log.state) == self._refused:
            return False
        try:
            known = self._next_known(log, live=live)
        except _NotYetError:
            return False
        except UnreadableError as error:
            if not error.incomplete:
                self._refuse(log, str(error), live=live)
            known = None
        if known is None:
            self._refused = log.inode, log.state
            return False
        if known is not self._known:
            self._retire()
            self._known = known
            known.current = True
        self._hold(log, min(known.mark.offset, log.size))
        self._unjudged = False
        return True

    def _next_known(self, log: LogFile, *, live: bool) -> Known | None:
        if log.compressed and self._files.is_counted_archive(log):
            return None
        judgement, known, offset = self._files.judge(log)
        # An equal first line proves little for a file that follows by its name.
        alike = judgement is Judgement.UNSURE and known is not None and known.mark.length > log.size
        if known is None or (live and alike):
            return self._unread(log, 0)
        if judgement is Judgement.LONGER:
            log_copy(log.path, offset)
            return self._unread(log, offset)
        if judgement is Judgement.KNOWN:
            if known is self._known:
                return known
            counted = known.mark.offset >= log.size and not live
            return None if known.current or counted else known
        if judgement is Judgement.UNSURE:
            self._refuse(log, unsure(log, known), live=live)
            return None
        if not live:
            self._files.add_copy(log, known)
            log_copy(log.path)
            return None
        # Its own file was replaced by a copy: an editor does so.
        if known is self._known and self._log is not None and not self._log.linked:
            others = self._files.listing().alike(known.mark)
            if all(_stat_inode(other) == log.inode for other in others):
                return known
        if known.mark.offset < whole_lines(log):
            raise _NotYetError
        log_copy(log.path)
        return self._unread(log, whole_lines(log))

    def _unread(self, log: LogFile, offset: int) -> Known:
        """The mark of an unread file; an earlier look may have added it."""
        known = None if log.compressed else self._files.at(log.inode)
        if known is None or known.mark.offset:
            known = self._files.add(log.mark(offset))
        else:
            self._files.update(known, log.mark(offset))
        return known

    def _refuse(self, log: LogFile, why: str, *, live: bool) -> None:
        if live:
            self._cannot_open(why)
        else:
            self._miss(log.path, why)

    def fail(self, error: OSError) -> None:
        """Note that a file cannot be opened, or its directory cannot be listed."""
        self._cannot_open(error.strerror)

    def _cannot_open(self, why: object) -> None:
        self._problem, self._unopened = f"cannot be opened: {why}", True

    def _report_unread(self) -> None:
        """Name the rotated files that no mark knows and that are passed over."""
        found = {
            sibling.inode: sibling.path
            for sibling in rotated_from(self.path)
            if sibling.inode not in self._not_read
            and not self._files.is_matched(sibling.path)
            and not self._files.knows(sibling.path)
        }
        self._not_read.update(found)
        if found:
            names = ", ".join(f"{path.name!a}" for path in found.values())
            self.missed = f"{names} not read: by name and time older than what was read before"
            _log.warning("%a: %s", str(self.path), self.missed)

    def _miss(self, path: Path, why: str) -> None:
        missed = f"{path.name!a} is not read: {why}"
        if missed != self.missed:
            _log.warning("%a: %s", str(self.path), missed)
        self.missed = missed

    def _replaced(self) -> bool:
        """Whether another file has taken the name of the one being read."""
        live = _stat_inode(self.path)
        if live is None:
            # Moved away, and its successor does not exist yet; but it may be further behind.
            return bool(self._younger(set()))
        return live != self._inode

    def _younger(self, passed: set[Inode]) -> list[_Rotated]:
        """The rotated files that are younger than the current one, oldest first."""
        rotated: list[_Rotated] = []
        # None is younger than the live one.
        if self._inode not in (None, _stat_inode(self.path)):
            rotated = rotated_from(self.path)
        return [
            sibling
            for sibling in rotated[self._place(rotated) :]
            if sibling.inode not in passed and sibling.inode not in self._files.claimed
        ]

    def _place(self, rotated: list[_Rotated]) -> int:
        """Of the first rotated file that is younger than the current one."""
        places = range(len(rotated), 0, -1)
        for n in places:
            if rotated[n - 1].inode == self._inode:
                return n
        if self._log is None:
            return len(rotated)
        # A deleted file, as after compression, is not in the list.
        changed = self._log.state[1]
        return next((n for n in places if rotated[n - 1].changed < changed), 0)

    def coming(self) -> set[Path]:
        """The files that this reader will read after the current one. Cost: a look at siblings."""
        if self._matched and self._files.is_rotated(self.path):
            return {self.path}
        return {self.path, *(sibling.path for sibling in self._younger(set()))}

    # How far

    @property
    def finished(self) -> bool:
        """Whether a file that is not followed was read to its end."""
        if self._follow:
            return False
        if self.gone or self._problem:
            return True
        if self._known is None:
            return _stat_inode(self.path) is None
        with suppress(OSError):
            return self._size() <= self._known.mark.offset and not self._replaced()
        return False

    def _size(self) -> int:
        if self._log is not None:
            return self._log.size
        return _size(self.path) if _stat_inode(self.path) == self._inode else 0

    def status(self) -> PartitionStatus:
        """Position and lag in bytes."""
        lag: int | None = None
        with suppress(OSError):
            lag = self._lag()
        position = None if self._known is None else position_of(self._known.mark)
        return PartitionStatus(
            self.partition, position, lag, self._problem, self.missed, self._unopened
        )

    def _lag(self) -> int:
        if self._known is None:
            return _size(self.path)
        if self.gone:
            return 0
        lag = max(0, self._size() - self._known.mark.offset)
        if self._log is not None and self._replaced():
            later = [rotated.path for rotated in self._younger(set())]
            if _stat_inode(self.path) not in self._files.claimed:
                later.append(self.path)
            lag += sum(map(_size, later))
        return lag

    def close(self) -> None:
        """Close the file."""
        self._close_log()


def log_copy(path: Path, offset: int | None = None) -> None:
    """Log that a file, or its first bytes up to an offset, are what another file holds."""
    if offset is None:
        _log.info("%a: holds what another file holds; is not counted", str(path))
        return
    text = "%a: its first %d bytes are what another file holds; that part is not counted"
    _log.info(text, str(path), offset)


def unsure(log: LogFile, known: Known) -> str:
    """Why a file is refused that may be an older state of a counted one."""
    return (
        f"its {log.size} bytes begin as a file of which {known.mark.offset} were counted and which "
        "is not there any more, so it may be a copy of that one: expected a file that is longer, "
        "or begins otherwise"
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _inode(found: os.stat_result) -> Inode:
    return found.st_dev, found.st_ino


def _stat_inode(path: Path) -> Inode | None:
    try:
        return _inode(path.stat())
    except OSError:
        return None


@contextmanager
def _closed_on_error(log: LogFile) -> Iterator[None]:
    try:
        yield
    except BaseException:
        log.close()
        raise


class _Rotated(NamedTuple):
    """A rotated file at the time of a look."""

    changed: int
    """When it was last written, at the latest: a younger one was written after it."""
    path: Path
    inode: Inode


def rotated_from(path: Path) -> list[_Rotated]:
    """The files that were rotated from a path, oldest first."""
    found = _looked_at(path)
    # The look may have missed a file that was renamed during it.
    while (again := _looked_at(path)) != found:
        found = again
    return found


def _looked_at(path: Path) -> list[_Rotated]:
    """Ranked by the number or date in the name, and several kinds of names by time.

    A program that compresses, copies or restores a file may leave a later time, but no earlier
    one: a file was last written at its own time or that of a file that its name places after it,
    whichever is the earliest.
    """
    kinds: dict[object, list[tuple[tuple[int, ...], _Rotated]]] = {}
    names: list[str] = []
    with one_file():
        names = os.listdir(path.parent)
    for name in names:
        suffix = name.removeprefix(path.name)
        if suffix == name or suffix[:1] not in (".", "-", "_"):
            continue
        with suppress(OSError):
            stat = (path.parent / name).stat()
            rotated = _Rotated(stat.st_mtime_ns, path.parent / name, _inode(stat))
            kind, rank = _rank_of(suffix, stat.st_mtime_ns)
            kinds.setdefault(kind, []).append((rank, rotated))
    found = []
    for ranked in kinds.values():
        ranked.sort(reverse=True)
        latest = ranked[0][1].changed
        for n, (_, rotated) in enumerate(ranked):
            latest = min(latest, rotated.changed)
            found.append((latest, -n, rotated._replace(changed=latest)))
    return [rotated for *_, rotated in sorted(found)]


def _rank_of(suffix: str, changed: int) -> tuple[object, tuple[int, ...]]:
    """The kind of a rotated file's suffix, and its rank among those: the youngest's is the largest.

    >>> _rank_of(".2.gz", 5), _rank_of("-20260131-0915", 5), _rank_of(".old", 5)
    ((1, (-2,)), (8, (20260131, 915)), (0, (5, 0)))
    """
    for compressed in COMPRESSED:
        suffix = suffix.removesuffix(compressed)
    numbers = re.findall("[0-9]+", suffix)
    is_number = suffix[1:].isdecimal() and len(suffix) <= 6
    number = -int(suffix[1:]) if is_number else 0
    if is_number and suffix[0] == ".":
        return 1, (number,)
    # A date has eight digits at least; it begins with the year, or counts seconds.
    if sum(map(len, numbers)) >= 8:
        return len(numbers[0]), tuple(map(int, numbers))
    # Of -1 and -2 either may be the younger one.
    return 0, (changed, number)


_NO_PLACES = np.empty(0, dtype=np.int64)


class Lines(NamedTuple):
    """Some lines of a file, without blank ones."""

    messages: list[bytes]
    places: IntArray
    """Where each begins, in bytes."""
    end: int
    """Where the next line begins."""
    bad: list[RecordError]


def too_long(place: int, raw: bytes, limit: int = MAX_LINE_BYTES) -> RecordError:
    """The error of a line beyond the limit; ``raw`` is its beginning."""
    expected = f"a line of at most {limit:,} bytes"
    error = RecordError("", expected, "a longer one", column="too long")
    return error._replace(place=place, raw=raw[:_KEPT])


def next_lines(
    file: BinaryIO, start: int, stop: int, *, last: bool, limit: int = MAX_LINE_BYTES
) -> Lines:
    """The lines of the next megabyte.

    Args:
        file: Open for reading, in bytes.
        start: Where a line begins.
        stop: How far the file may be read.
        last: Text at the end without a line break is a line too;
            otherwise it is left until its rest is written.
        limit: Longest line, in bytes.

    >>> import io
    >>> next_lines(io.BytesIO(b'{"a": 1}\\n\\n{"a"'), 0, 13, last=False)
    Lines(messages=[b'{"a": 1}'], places=array([0]), end=10, bad=[])
    """
    file.seek(start)
    data = file.read(min(max(_BLOCK, limit + 1), stop - start))
    whole = data.rfind(b"\n") + 1
    if not whole:
        if len(data) > limit:
            return _past_long_line(file, start, stop, data, last=last, limit=limit)
        if not (last and start + len(data) >= stop):
            return Lines([], _NO_PLACES, start, [])
        whole = len(data)
    elif last and start + len(data) >= stop:
        whole = len(data)
    lines, places, may_be_blank = _split(data, whole, start)
    bad: list[RecordError] = []
    if may_be_blank or max(map(len, lines), default=0) > limit:
        good = []
        for place, line in zip(places.tolist(), lines, strict=True):
            if len(line) > limit:
                bad.append(too_long(place, line, limit))
            elif line.strip():
                good.append((place, line))
        places = np.array([place for place, _ in good], dtype=np.int64)
        lines = [line for _, line in good]
    return Lines(lines, places, start + whole, bad)


def _split(data: bytes, stop: int, start: int) -> tuple[list[bytes], IntArray, bool]:
    """The lines of ``data[:stop]``, where each begins, and whether one may be blank."""
    if _NATIVE is not None:
        return _NATIVE.lines(data, stop, start)  # type: ignore[no-any-return]
    lines = data[:stop].split(b"\n")
    if not lines[-1]:
        lines.pop()
    sizes = np.fromiter(map(len, lines), np.int64, len(lines))
    # Each begins after all before it and their line breaks.
    places = start + np.cumsum(sizes) - sizes + np.arange(len(lines))
    return lines, places, not all(map(bytes.strip, lines))


def _past_long_line(
    file: BinaryIO, start: int, stop: int, head: bytes, *, last: bool, limit: int
) -> Lines:
    """Skip a line that is too long, once its end is written."""
    offset = start + len(head)
    while offset < stop:
        block = file.read(min(_BLOCK, stop - offset))
        if not block:
            break
        found = block.find(b"\n")
        if found >= 0:
            return Lines([], _NO_PLACES, offset + found + 1, [too_long(start, head, limit)])
        offset += len(block)
    if last:
        return Lines([], _NO_PLACES, offset, [too_long(start, head, limit)])
    return Lines([], _NO_PLACES, start, [])
