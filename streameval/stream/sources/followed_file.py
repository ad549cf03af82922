"""One path, followed by name through rotations, as ``tail -F`` does.

What a position means is told by the file's content, not by its inode, which a
restored or copied file does not keep: how far it was read, a digest of its
first line and one of the bytes before that place. After a restart the file
that was being read is looked for under its own name and under those that
rotation gives (``a.jsonl.1``, ``a.jsonl-20260101``).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from streameval.errors import shown
from streameval.stream.batch import Batch, Kind, PartitionStatus, Position
from streameval.stream.sources.file_marks import Mark, is_same, mark_of, past_of, past_text
from streameval.stream.sources.lines import Lines, next_lines

__all__ = ["FollowedFile"]

_log = logging.getLogger(__name__)


class FollowedFile:
    """Reads a path's lines, the rest of rotated files first.

    Args:
        path: The name that is followed; it need not exist yet.
        kind: What its records are.
        position: Next to read, or None for the beginning.
        follow: False: what the file holds now is all there is.
        others: Other names that the file of the position may have been given by a
            rotation whose names do not begin with the path's.
        keep_past: Remember what was read under the name before, for :meth:`has_read`.
    """

    def __init__(
        self,
        path: Path,
        kind: Kind,
        position: Position | None,
        *,
        follow: bool,
        others: Sequence[Path] = (),
        keep_past: bool = False,
    ) -> None:
        self.path = path
        self.partition = f"files:{path}"
        self.kind = kind
        self._follow = follow
        self._offset = 0
        self._file: BinaryIO | None = None
        self._head = ""
        self._problem = ""
        self._keep_past = keep_past
        self._past: list[Mark] = []
        if position is not None and keep_past:
            self._past = past_of(position)
        if position is not None and int(position["offset"]):
            self._offset = int(position["offset"])
            self._head = str(position["head"])
            self._resume(position, others)
        else:
            # Held open from now on, so that a rotation before the first read loses nothing.
            self._open_next()

    # Finding the file again

    def _resume(self, position: Position, others: Sequence[Path]) -> None:
        mark = Mark(self._offset, self._head, str(position["tail"]))
        while True:
            before = _rotated(self.path)
            for candidate in (self.path, *(sibling.path for sibling in before), *others):
                try:
                    file = candidate.open("rb")
                except OSError:
                    continue
                if is_same(file, mark):
                    self._file = file
                    return
                file.close()
            # A rotation in the meantime may have given it a name that was not looked at.
            if _rotated(self.path) == before:
                break
        self._lost(f"the file read up to byte {self._offset} is not there any more")
        self._offset = 0
        self._head = ""
        # Which rotated files have been read cannot be told then: only the live one is.

    def _lost(self, what: str) -> None:
        self._problem = f"{what}; what it held beyond that is not counted"
        _log.warning("%s: %s", shown(str(self.path)), self._problem)

    def has_read(self, path: Path) -> bool:
        """Whether a file is one that was read to its end, before its name went to another."""
        try:
            with path.open("rb") as file:
                return any(is_same(file, mark) for mark in self._past)
        except OSError:
            return False

    @property
    def inode(self) -> tuple[int, int] | None:
        """Device and inode of the file that is being read."""
        return None if self._file is None else _inode(os.fstat(self._file.fileno()))

    # Reading

    def read(self) -> Batch | None:
        """The next megabyte of lines, or None while there is nothing new."""
        while True:
            if self._file is None and not self._open_next():
                return None
            assert self._file is not None
            # Asked first: nobody appends to a file after it was moved away and replaced, so
            # the size that is told after that is its last.
            replaced = self._replaced()
            size = os.fstat(self._file.fileno()).st_size
            if size < self._offset:
                self._lost(f"the file was cut to {size} bytes when {self._offset} had been read")
                self._offset = 0
                self._head = ""
            if size > self._offset:
                last = not self._follow or replaced
                lines = next_lines(self._file, self._offset, size, last=last)
                if lines.end > self._offset:
                    return self._batch(lines)
                if not replaced:
                    return None
            if not replaced:
                return None
            if not self._open_next():
                return None

    def _open_next(self) -> bool:
        """Open what comes after the file that was read to its end; False: not there yet.

        Names are not kept: the next rotation gives them to other files.
        """
        while True:
            younger = _younger(self.path, self._file)
            path = younger[0].path if younger else self.path
            try:
                file = path.open("rb")
            except FileNotFoundError:
                if younger:
                    continue
                return False
            except OSError as error:
                self._problem = f"cannot be opened: {error.strerror}"
                return False
            opened = _inode(os.fstat(file.fileno()))
            # A rotation in the meantime gave the name to a later file. A rotated file is the
            # one that was seen under it; what is live comes next while nothing is in between.
            if younger[0].inode == opened if younger else not _younger(self.path, self._file):
                break
            file.close()
        if self._file is not None:
            if opened == self.inode:
                file.close()
                return False
            if self._keep_past and self._offset:
                self._past.append(mark_of(self._file, self._offset, self._head))
            self._file.close()
        self._file = file
        self._offset = 0
        self._head = ""
        if self._problem.startswith("cannot"):
            self._problem = ""
        return True

    def _replaced(self) -> bool:
        """Whether another file has taken the name of the one being read."""
        live = _stat_inode(self.path)
        if live is None:
            # Moved away, and its successor is not there yet; but it may be further behind.
            return bool(_younger(self.path, self._file))
        return live != self.inode

    def _batch(self, lines: Lines) -> Batch:
        assert self._file is not None
        self._offset = lines.end
        self._head = self._head or mark_of(self._file, 0).head
        position = self._position()
        assert position is not None
        return Batch(
            self.partition,
            self.kind,
            lines.messages,
            lines.places,
            position,
            bad=lines.bad,
        )

    def _position(self) -> Position | None:
        if not self._offset or self._file is None:
            return None
        position: dict[str, int | str] = mark_of(self._file, self._offset, self._head)._asdict()
        if self._past:
            position["past"] = past_text(self._past)
        return position

    @property
    def finished(self) -> bool:
        """Whether all was read of a file that is not followed."""
        if self._follow:
            return False
        if self._file is None:
            return not self.path.exists()
        return os.fstat(self._file.fileno()).st_size <= self._offset and not self._replaced()

    def status(self) -> PartitionStatus:
        """How far it has been read; the lag is in bytes."""
        lag = 0
        if self._file is None:
            lag = _size(self.path)
        else:
            lag = max(0, os.fstat(self._file.fileno()).st_size - self._offset)
            if self._replaced():
                later = [rotated.path for rotated in _younger(self.path, self._file)]
                lag += sum(map(_size, [*later, self.path]))
        return PartitionStatus(self.partition, self._position(), lag, self._problem)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _inode(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _stat_inode(path: Path) -> tuple[int, int] | None:
    try:
        return _inode(path.stat())
    except OSError:
        return None


class _Rotated(NamedTuple):
    """A file as it was when it was looked at; they sort by age, the youngest last."""

    changed: int
    number: int
    """Of ``.1``, ``.2``, ... the first is the youngest; a date tells by its name."""
    path: Path
    inode: tuple[int, int]


def _rotated(path: Path) -> list[_Rotated]:
    """What rotation made of the path's files, youngest first."""
    found = _looked_at(path)
    # A file that was renamed during the look may have been missed.
    while (again := _looked_at(path)) != found:
        found = again
    return found


def _looked_at(path: Path) -> list[_Rotated]:
    found = []
    for sibling in _siblings(path):
        try:
            stat = sibling.stat()
        except OSError:
            continue
        suffix = sibling.name[len(path.name) + 1 :]
        number = int(suffix) if suffix.isdecimal() and len(suffix) <= 5 else 0
        found.append(_Rotated(stat.st_mtime_ns, -number, sibling, _inode(stat)))
    return sorted(found, reverse=True)


def _siblings(path: Path) -> Iterator[Path]:
    try:
        names = os.listdir(path.parent)
    except OSError:
        return
    for name in names:
        rest = name.removeprefix(path.name)
        compressed = name.endswith((".gz", ".bz2", ".xz", ".zst"))
        if rest != name and rest[:1] in (".", "-", "_") and not compressed:
            yield path.parent / name


def _younger(path: Path, file: BinaryIO | None) -> list[_Rotated]:
    """The rotated files that came after an open one, oldest first."""
    if file is None:
        return []
    inode = _inode(os.fstat(file.fileno()))
    younger: list[_Rotated] = []
    for sibling in _rotated(path):
        if sibling.inode == inode:
            return list(reversed(younger))
        younger.append(sibling)
    # It is the live one, or it is gone and nobody knows what came after it.
    return []
