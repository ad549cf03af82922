"""One path, followed by name through rotations, as ``tail -F`` does.

After a restart the file that was being read is searched by its inode, under its own name, and
by its content in the directories that files are read from, also in compressed files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from streameval.service.sources.file_decision import Action, carry_out, decide
from streameval.service.sources.file_lines import Lines, next_lines
from streameval.service.sources.file_marks import HEAD_BYTES, Inode, Mark, position_of
from streameval.service.sources.known_files import KnownFile, KnownFiles, Listing, MatchKind
from streameval.service.sources.log_file import (
    LogFile,
    UnreadableError,
    inode_at,
    inode_of,
    state_of,
)
from streameval.service.sources.raw import Kind, PartitionStatus, RawBatch
from streameval.service.sources.rotation import RotatedFile, rotated_from

_MOST_ABSENT = 60
"""Looks without the file's name after which the file is not waited for any more."""

_log = logging.getLogger(__name__)


class FollowedFile:
    """Reads a path's lines, the rest of rotated files first."""

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
        """The name to follow; it need not exist yet."""
        self.partition = partition or f"files:{path}"
        self.kind = kind
        self._files = files
        self._follow = follow
        self._matched = matched
        """Whether a pattern found the path: an empty file may become a copy of another one."""
        self._unjudged = False
        """Whether the file was empty when it was found."""
        self._known: KnownFile | None = None
        self._log: LogFile | None = None
        self.inode: Inode | None = None
        """The file that is being read, also while its handle is closed."""
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

    def resume(self, known: KnownFile, listing: Listing) -> None:
        """Continue at a stored position; the file is searched in a listing."""
        self._known, self._is_first = known, False
        while not self._find_moved(listing) and not self._find(listing):
            # A rotation in the meantime may have given it a name that was not looked at.
            again = self._files.listing()
            if again == listing:
                self._vanished()
                return
            listing = again

    def continue_in(self, known: KnownFile, log: LogFile) -> None:
        """Read an open file from the mark of a known one."""
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
        """Continue in a rotated file if the current one was empty when it was last seen."""
        # Only its inode identifies an empty file, and that may be reused; a copy may have been
        # made of it, and it cut. Files that were rotated from this name since are older than the
        # file there, and are read first; while it is open, only files that a pattern finds.
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
            # Rotated files after it are younger; none is younger than the live file.
            inodes = [sibling.inode for sibling in rotated]
            if empty.inode in inodes:
                del rotated[inodes.index(empty.inode) :]
            elif empty.inode != inode_at(self.path):
                last = empty.state[1]
                rotated = [sibling for sibling in rotated if sibling.changed <= last]
            # Before the others, because files with the same content are copies of it.
            self._files.update(known, empty.mark(0))
            if empty is not self._log:
                empty.close()
        moved = False
        try:
            moved = any(
                self._open_rotated(sibling, moved=True)
                for sibling in rotated
                if sibling.changed > mark.changed
                and sibling.inode not in self._files.claimed
                and (listing is not None or self._files.is_matched(sibling.path))
            )
        finally:
            if not moved and self._known is known:
                self._files.update(known, mark)
        return moved

    def _hold(self, log: LogFile, offset: int) -> None:
        assert self._known is not None
        self.close()
        self._unjudged = self._matched and not self._known.mark.length
        self._log, self.inode = log, log.inode
        self._known.log = log
        self._files.update(self._known, log.mark(offset))
        self._files.claimed[log.inode] = self._known
        self._idle = None
        self.opened = True
        self._is_first = False
        if self._unopened:
            self._problem, self._unopened = "", False

    def close(self) -> None:
        """Close the file."""
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._known is not None:
            self._known.log = None
        if self.inode is not None:
            self._files.claimed.pop(self.inode, None)
            self.inode = None

    def _retire(self) -> None:
        """Close the current file: it was read to its end, or is lost."""
        self.close()
        if self._known is not None:
            self._files.retire(self._known)
            self._known = None

    def _vanished(self) -> None:
        """The current file no longer exists under any name."""
        assert self._known is not None
        offset = self._known.mark.offset
        followed = not self._matched or inode_at(self.path) is not None
        # A file that was read to its end may be deleted.
        if not self._is_read_to_end():
            text = f"the file read up to byte {offset} is not there any more"
            self._lost(text, as_missed=not (followed and offset))
        if followed:
            self._retire()
            self._open_next()
        else:
            self._end()

    def _is_read_to_end(self) -> bool:
        assert self._known is not None
        return self._idle is not None and self._idle[0] == self._known.mark.offset

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
        live = inode_at(self.path)
        if live is not None and live not in self._files.claimed:
            self._files.note(self.path)

    def note_absent(self) -> None:
        """Count a look without the name; after a minute without it a file that was read ends."""
        self._absent += 1
        is_over = self._absent >= _MOST_ABSENT and self._matched
        if is_over and self._known is not None and self._is_read_to_end():
            self._end()

    # Handles

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
        if found is not None and inode_of(found) == self.inode:
            if state_of(found) == self._idle:
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
                    # No content identified it so far: it may hold what followed a copy of it.
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
        position = position_of(after)
        return RawBatch(
            self.partition, self.kind, lines.messages, lines.offsets, position, bad=lines.bad
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

    def _is_new(self, log: LogFile, known: KnownFile) -> bool:
        """Whether a file that was empty now has content that no other file has."""
        if log.inode != inode_at(self.path):
            self._files.note(self.path)
        match = self._files.match(log, unread=True)
        if match.kind is MatchKind.NEW or match.known is known:
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
        self.close()
        self._files.update(known, known.mark._replace(device=0, inode=0))
        self._retire()
        self._open_next()

    # Finding the next file

    def _open_next(self) -> bool:
        """Open the file after the one that was read to its end; False: it does not exist yet."""
        # Names are not kept: the next rotation moves them to other files.
        passed: set[Inode] = set()
        opened: bool | None = None
        while opened is None:
            while younger := self._younger(passed):
                # Before the others: what holds the same as the live file is a copy of it.
                self._files.note(self.path)
                opened = self._open_rotated(younger[0])
                if opened:
                    return True
                if opened is not None:
                    passed.add(younger[0].inode)
            opened = self._open_live(passed)
        return opened

    def _open_rotated(self, sibling: RotatedFile, *, moved: bool = False) -> bool | None:
        """Whether a rotated file is read now; None where its name has another file."""
        try:
            with self._opened(sibling.path) as log:
                if log.inode != sibling.inode:
                    return None
                # One equal line makes no copy, but the current file may be cut only after this.
                current = self._log if moved and not log.compressed else None
                if current is not None and log.begins(current):
                    return False
                return self._move_to(log, live=False)
        except FileNotFoundError:
            return None
        except UnreadableError as error:
            self._refuse(sibling.path, error, live=False)
            return False

    def _open_live(self, passed: set[Inode]) -> bool | None:
        """Whether the file of the name is read now; None where others are to be read before it."""
        if inode_at(self.path) in self._files.claimed:
            return False
        try:
            with self._opened(self.path) as log:
                # A rotation in the meantime gave the name to a later file.
                if self._younger(passed):
                    return None
                first = self._is_first
                if not self._move_to(log, live=True):
                    return False
                if not first:
                    self._report_unread()
                return True
        except FileNotFoundError:
            return False
        except UnreadableError as error:
            self.fail(error)
            return False

    @contextmanager
    def _opened(self, path: Path) -> Iterator[LogFile]:
        """An open file; closed in the end unless it is the current one."""
        log = LogFile(path)
        try:
            yield log
        finally:
            if log is not self._log:
                log.close()

    def _move_to(self, log: LogFile, *, live: bool) -> bool:
        """Continue in the next file, unless it is counted or another reader has it."""
        if log.inode in self._files.claimed or (log.inode, log.state) == self._refused:
            return False
        known: KnownFile | None = None
        try:
            match = self._files.match(log)
            decision = decide(match, live=live, own=self._known)
            if decision.action is Action.WAIT:
                # The file may be cut before its original is counted further.
                return False
            known = carry_out(decision, match, self._files, log)
        except UnreadableError as error:
            self._refuse(log.path, error, live=live)
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

    def _refuse(self, path: Path, error: UnreadableError, *, live: bool) -> None:
        """Report that a file is not read; not while it is still being compressed."""
        if error.incomplete:
            return
        if live:
            self.fail(error)
            return
        missed = f"{path.name!a} is not read: {error}"
        if missed != self.missed:
            _log.warning("%a: %s", str(self.path), missed)
        self.missed = missed

    def fail(self, why: object) -> None:
        """Note that a file cannot be opened, or its directory cannot be listed."""
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

    def _replaced(self) -> bool:
        """Whether another file has taken the name of the one being read."""
        live = inode_at(self.path)
        if live is None:
            # Moved away, and its successor does not exist yet; but it may be further behind.
            return bool(self._younger(set()))
        return live != self.inode

    def _younger(self, passed: set[Inode]) -> list[RotatedFile]:
        """The rotated files that are younger than the current one, oldest first."""
        # None is younger than the live one.
        if self.inode in (None, inode_at(self.path)):
            return []
        rotated = rotated_from(self.path)
        return [
            sibling
            for sibling in rotated[self._first_younger(rotated) :]
            if sibling.inode not in passed and sibling.inode not in self._files.claimed
        ]

    def _first_younger(self, rotated: list[RotatedFile]) -> int:
        """The index of the first rotated file that is younger than the current one."""
        indices = range(len(rotated), 0, -1)
        for n in indices:
            if rotated[n - 1].inode == self.inode:
                return n
        if self._log is None:
            return len(rotated)
        # A deleted file, as after compression, is not in the list.
        changed = self._log.state[1]
        return next((n for n in indices if rotated[n - 1].changed < changed), 0)

    def coming(self) -> set[Path]:
        """The files that this reader will read after the current one; looks at siblings."""
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
            return inode_at(self.path) is None
        with suppress(OSError):
            return self._size() <= self._known.mark.offset and not self._replaced()
        return False

    def _size(self) -> int:
        if self._log is not None:
            return self._log.size
        return _size(self.path) if inode_at(self.path) == self.inode else 0

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
            if inode_at(self.path) not in self._files.claimed:
                later.append(self.path)
            lag += sum(map(_size, later))
        return lag


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
