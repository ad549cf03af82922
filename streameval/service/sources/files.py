"""JSON lines in files that grow, rotate and appear.

Patterns are evaluated every second, so that new files are found: a look is a listing and one
``stat`` a file, and a file is opened when it has changed. A path is followed through rotation by
rename, by copy and truncation, and by compression. What was counted of a file is not counted again
under another name, in a copy of it or in its compressed form.
"""

from __future__ import annotations

import glob
import logging
import os
import re
import resource
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from streameval.errors import ConfigError, SourceError
from streameval.service.config.source_settings import FilesSettings, Kind
from streameval.service.sources.file_decision import Action, carry_out, decide
from streameval.service.sources.file_marks import Inode, mark_at, marks_of
from streameval.service.sources.followed_file import FollowedFile
from streameval.service.sources.interleaving import Interleaving
from streameval.service.sources.known_files import FileMatch, KnownFile, KnownFiles, open_inodes
from streameval.service.sources.log_file import (
    LogFile,
    UnreadableError,
    inode_of,
    is_exhausted,
    state_of,
)
from streameval.service.sources.raw import (
    LagUnit,
    PartitionStatus,
    Position,
    RawBatch,
    Source,
    SourceContext,
)
from streameval.service.sources.rotation import rotated_from

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_POLL_SECONDS = 0.05

_KNOWN = "files:"
"""The row of positions that holds the marks of files that no partition is reading."""

_INCOMPLETE_SECONDS = 60.0
"""Compressed data that ends early and was not written for so long is taken as damaged."""


_ROTATED = re.compile(r"[._-][0-9][^a-zA-Z]*(\.[a-zA-Z0-9]{1,4})?$")
"""What rotation adds to a name, where no file has the name itself."""


class _Unread(NamedTuple):
    """A file under a pattern that is not read while it is in this state."""

    state: tuple[int, ...]
    original: KnownFile | None = None
    """The file with the same content that is being read."""
    size: int = 0
    """Bytes of this copy."""
    incomplete: str = ""
    """Why compressed data cannot be read that ends early."""
    since: float = 0.0
    """When it was seen first."""


class FilesSource:
    """Follows files by name, each path a partition of its own."""

    lag_unit: LagUnit = "bytes"

    def __init__(
        self,
        settings: FilesSettings,
        positions: Mapping[str, Position],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        handles: int | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._handles = handles or (256 if limit < 0 else max(4, min(256, limit // 4)))
        """Most files that are kept open."""
        self._known = KnownFiles(
            is_matched=lambda path: self._kind(path) is not None,
            is_rotated=lambda path: bool(self._bases(path)),
        )
        self._files: dict[str, FollowedFile] = {}
        self._open: dict[FollowedFile, None] = {}
        """Readers that have a file open, the last one read at the end."""
        self._due: set[FollowedFile] = set()
        """Readers without an open file that were not tried since the last look."""
        self._unread: dict[Inode, _Unread] = {}
        self._refused: dict[Path, str] = {}
        self._unopened: set[Path] = set()
        """Those of the refused ones that cannot be opened or listed."""
        self._missed: dict[str, str] = {}
        """What was lost of files that no longer exist."""
        self._held: set[Inode] = set()
        """The files that the process had open at the last look: a pattern may match the store."""
        self._refreshed = False
        """Whether readers have refreshed their marks since this look."""
        self._coming: dict[FollowedFile, set[Path]] = {}
        """Files that readers will read after their current ones, as found in this look."""
        self._base: dict[FollowedFile, Path] = {}
        """The name from which the name of a reader was rotated."""
        self._ages: dict[Path, dict[FollowedFile, Inode | None]] = {}
        """Readers of one name that had something to read, the oldest first, and their files."""
        self._turn = 0
        self._interleaving = Interleaving()
        self._patterns = [
            (kind, pattern) for kind, patterns in settings.names().items() for pattern in patterns
        ]
        for kind, pattern in self._patterns:
            if not settings.follow and not glob.has_magic(pattern):
                try:
                    os.stat(pattern)
                except FileNotFoundError:
                    told = f"files.{kind}: expected a file, got {pattern!r}: not there"
                    raise ConfigError(told) from None
                except OSError:  # which is reported when it is opened
                    pass
        self._looked = self._clock()
        try:
            self._resume(positions)
            self._look()
        except OSError as error:
            self.close()
            why = f"{error.strerror}; raise the limit of open files (ulimit -n)"
            raise SourceError(f"files: cannot be searched: {why}") from None

    # Where to begin

    def _resume(self, positions: Mapping[str, Position]) -> None:
        """Find every file that was being read, before any other file is judged."""
        resumed = []
        for mark in marks_of(str(positions.get(_KNOWN, {}).get("past", ""))):
            self._known.add(mark)
        self._known.changed = False
        for partition, position in positions.items():
            if not partition.startswith("files:/"):
                continue
            # Rotated files, as an older release stored them.
            for mark in marks_of(str(position.get("past", ""))):
                self._known.add(mark)
            path = Path(partition.removeprefix("files:"))
            self._known.directories.add(path.parent)
            kind = self._kind(path)
            if position.get("gone"):
                continue
            known = self._known.add(mark_at(position), current=kind is not None)
            if kind is not None:
                resumed.append((path, kind, known))
        for _, pattern in self._patterns:
            self._known.directories.add(Path(pattern).absolute().parent)
        listing = self._known.listing()
        for path, kind, known in resumed:
            file = self._follow(path, kind)
            try:
                file.resume(known, listing)
            except OSError as error:
                if is_exhausted(error):
                    raise
                file.fail(error.strerror)
            self._bound(file, read=False)

    def _kind(self, path: Path) -> Kind | None:
        """The kind of a path's records; None where no pattern matches it."""
        for kind, pattern in self._patterns:
            parts = Path(pattern).absolute().parts
            if not glob.has_magic(pattern):
                if path.parts == parts:
                    return kind
            elif len(parts) == len(path.parts) and all(map(fnmatchcase, path.parts, parts)):
                return kind
        return None

    def _follow(self, path: Path, kind: Kind, *, partition: str = "") -> FollowedFile:
        exact = any(str(Path(pattern).absolute()) == str(path) for _, pattern in self._patterns)
        file = FollowedFile(
            path,
            kind,
            self._known,
            follow=self._settings.follow,
            matched=not exact,
            partition=partition,
        )
        self._files[file.partition] = file
        self._base.clear()
        self._due.add(file)
        self._known.directories.add(path.parent)
        return file

    # Looking for files

    def _look(self) -> None:
        """Find files that match and are not followed yet; raises OSError without handles."""
        try:
            self._find()
        except OSError:
            self._release()
            self._find()

    def _release(self) -> None:
        """Close all handles that can be opened again."""
        for file in self._files.values():
            file.release()
        self._open.clear()

    def _find(self) -> None:
        found: set[Path] = set()
        self._refreshed = False
        self._coming.clear()
        for kind, pattern in self._patterns:
            if not glob.has_magic(pattern):
                path = Path(pattern).absolute()
                found.add(path)
                if f"files:{path}" not in self._files:
                    file = self._follow(path, kind)
                    file.begin()
                    self._bound(file, read=False)
                continue
            found.add(self._check_directory(pattern))
            for name in sorted(glob.glob(pattern)):
                path = Path(name).absolute()
                if path not in found:
                    found.add(path)
                    try:
                        self._look_at(path, kind)
                    except FileNotFoundError:
                        pass  # it was renamed in the meantime; the next look finds it
                    except OSError as error:
                        self._cannot_open(path, error)
        self._refused = {path: text for path, text in self._refused.items() if path in found}
        self._unopened &= self._refused.keys()
        for file in list(self._files.values()):
            self._drop_ended(file, found)
        self._due.update(self._files.values())

    def _check_directory(self, pattern: str) -> Path:
        """The directory that a pattern begins in; :mod:`glob` passes over what it cannot list."""
        parts = Path(pattern).absolute().parts
        depth = next(n for n, part in enumerate(parts) if glob.has_magic(part))
        directory = Path(*parts[:depth])
        try:
            with ExitStack() as stack:
                # As many as glob holds at once.
                for _ in parts[depth:]:
                    stack.enter_context(os.scandir(directory))
        except FileNotFoundError:
            pass
        except OSError as error:
            self._cannot_open(directory, error)
        else:
            self._refused.pop(directory, None)
        return directory

    def _cannot_open(self, path: Path, error: OSError) -> None:
        if is_exhausted(error):
            raise error
        self._unopened.add(path)
        self._report(path, f"cannot be opened: {error.strerror}")

    def _drop_ended(self, file: FollowedFile, found: set[Path]) -> None:
        if file.path not in found:
            file.note_absent()
        if file.gone and not file.opened:
            if file.missed:
                self._missed[file.partition] = file.missed
            file.close()
            self._open.pop(file, None)
            self._due.discard(file)
            del self._files[file.partition]
            self._base.clear()
            self._ages.clear()

    def _look_at(self, path: Path, kind: Kind) -> None:
        seen = path.stat()
        inode = inode_of(seen)
        if stat.S_ISDIR(seen.st_mode) or inode in self._known.claimed:
            self._refused.pop(path, None)
            return
        state = state_of(seen)
        unread = self._unread.get(inode)
        if unread is not None and unread.state == state:
            original = unread.original
            if unread.incomplete:
                if self._clock() - unread.since >= _INCOMPLETE_SECONDS:
                    self._report(path, unread.incomplete)
                return
            if original is None or (original.current and original.mark.offset < unread.size):
                return
        # Readers open their own names and the files rotated from them; but what now has the
        # name of a file that was rotated further comes before the live one.
        is_own = f"files:{path}" in self._files and not self._bases(path)
        if is_own or self._is_coming(path):
            return
        if not self._refreshed:
            self._refreshed = True
            self._held = open_inodes()
            for file in self._files.values():
                file.refresh()
        if inode in self._known.claimed or inode in self._held:
            return
        try:
            with ExitStack() as stack:
                log = LogFile(path)
                stack.callback(log.close)
                self._unopened.discard(path)
                # Otherwise it was renamed in the meantime; the next look finds it.
                if log.inode == inode and self._follow_or_note(path, kind, log, state):
                    stack.pop_all()
        except UnreadableError as error:
            self._refuse(path, inode, state, error)

    def _is_coming(self, path: Path) -> bool:
        """Whether a reader will read this file after its current one."""
        for file in self._bases(path):
            # Many files may wait for one reader: it is queried again only for one that is new.
            if path in self._coming.get(file, ()):
                return True
            self._coming[file] = file.coming()
            if path in self._coming[file]:
                return True
        return False

    def _bases(self, path: Path) -> list[FollowedFile]:
        """Readers of the names from which a name may have been rotated."""
        name, found = path.name, []
        for end, sign in enumerate(name):
            if sign in ".-_" and end:
                base = self._files.get(f"files:{path.parent / name[:end]}")
                if base is not None:
                    found.append(base)
        return found

    def _follow_or_note(self, path: Path, kind: Kind, log: LogFile, state: tuple[int, ...]) -> bool:
        """Start a reader of a file, or note why it is not read; whether a reader has it now."""
        self._unread.pop(log.inode, None)
        match = self._known.match(log)
        decision = decide(match, live=False)
        known = carry_out(decision, match, self._known, log)
        if known is None:
            self._leave(match, decision.action, log, state)
            return False
        if decision.action is Action.CONTINUE and known.mark.file_id != log.inode:
            text = "%a: continues a file of which %d bytes are counted"
            _log.info(text, str(path), decision.offset)
        self._refused.pop(path, None)
        partition = f"files:{path}"
        if partition in self._files:
            partition = f"{partition}#{log.inode[1]}"
        file = self._follow(path, kind, partition=partition)
        file.continue_in(known, log)
        self._bound(file, read=False)
        return True

    def _leave(
        self, match: FileMatch, action: Action, log: LogFile, state: tuple[int, ...]
    ) -> None:
        """Note why a file is not read."""
        known = match.known
        if action is Action.LEAVE:
            # Its reader will notice that it was cut or moved.
            return
        unread = _Unread(state)
        if action is Action.NOTE_COPY and known is not None and known.mark.offset < match.size:
            unread = _Unread(state, known, match.size)
        elif log.compressed:
            self._known.add_archive(log)
        elif action is Action.COUNTED and known is not None and known.mark.file_id != log.inode:
            self._known.update(known, log.mark(known.mark.offset))
        self._unread[log.inode] = unread
        self._refused.pop(log.path, None)

    def _refuse(
        self, path: Path, inode: Inode, state: tuple[int, ...], error: UnreadableError
    ) -> None:
        """Report that a file cannot be read; not while it is still being compressed."""
        text = f"is not read: {error}"
        if error.incomplete and self._settings.follow:
            self._unread[inode] = _Unread(state, incomplete=text, since=self._clock())
        else:
            self._unread[inode] = _Unread(state)
            self._report(path, text)

    def _report(self, path: Path, text: str) -> None:
        if self._refused.get(path) != text:
            _log.warning("%a: %s", str(path), text)
        self._refused[path] = text

    # Reading

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        """A megabyte of lines of each file in turn, labels last, until ``most`` records of each."""
        until = self._clock() + timeout
        while True:
            if self._clock() - self._looked >= _LOOK_SECONDS:
                self._looked = self._clock()
                with suppress(OSError):  # tried again at the next look
                    self._look()
            # Openings before and after: a reader may open another file while it reads.
            batches = [*self._openings(), *self._read_round(most), *self._openings()]
            left = until - self._clock()
            if batches or left <= 0 or self.finished:
                return batches
            self._sleep(min(_POLL_SECONDS, left))

    def _read_round(self, most: int) -> list[RawBatch]:
        files = [file for file in self._files.values() if file in self._due or not file.is_released]
        # The first file rotates, so that a fast file does not starve the others.
        self._turn += 1
        others = self._read_each([file for file in files if file.kind != "labels"], most)
        labels = [file for file in files if file.kind == "labels"]
        return self._interleaving.with_labels(others, lambda: self._read_each(labels, most))

    def _read_each(self, files: list[FollowedFile], most: int) -> list[RawBatch]:
        batches: list[RawBatch] = []
        records = 0
        groups = list(self._grouped(files).items())
        for n in range(len(groups)):
            for file in self._by_age(*groups[(self._turn + n) % len(groups)]):
                batch = self._read_file(file)
                self._bound(file, read=batch is not None)
                if batch is None:
                    self._due.discard(file)
                    continue
                batches.append(batch)
                records += len(batch.messages)
                if not file.is_at_end:
                    break  # before younger files
            if records >= most:
                break
        return batches

    def _grouped(self, files: list[FollowedFile]) -> dict[Path, list[FollowedFile]]:
        """Readers of files that were rotated from one name, by that name."""
        groups: dict[Path, list[FollowedFile]] = {}
        for file in files:
            base = self._base.get(file)
            if base is None:
                path = file.path
                known = next((base.path for base in self._bases(path)), None)
                base = known or path.with_name(_ROTATED.sub("", path.name) or path.name)
                self._base[file] = base
            groups.setdefault(base, []).append(file)
        return groups

    def _by_age(self, base: Path, group: list[FollowedFile]) -> list[FollowedFile]:
        """Readers of a group, the reader of the oldest file first."""
        if len(group) == 1:
            return group
        inodes = {file: file.inode for file in group}
        ordered = self._ages.get(base, {})
        if ordered != inodes:
            ages: dict[Inode | None, int] = {}
            with suppress(OSError):  # without handles none is read anyway
                rotated = rotated_from(base)
                ages = {sibling.inode: n for n, sibling in enumerate(rotated)}
            inodes = dict(
                sorted(
                    inodes.items(),
                    # What is live is the youngest; what is deleted was rotated earliest.
                    key=lambda one: ages.get(one[1], len(ages) if one[0].path == base else -1),
                )
            )
            ordered = self._ages[base] = inodes
        return list(ordered)

    def _read_file(self, file: FollowedFile) -> RawBatch | None:
        try:
            try:
                return file.read()
            except OSError as error:
                if not is_exhausted(error):
                    raise
                self._release()
                return file.read()
        except OSError as error:
            file.fail(error.strerror)
            return None

    def _bound(self, file: FollowedFile, *, read: bool) -> None:
        """Keep few files open: close the least recently read ones."""
        if file.is_open and (read or file not in self._open):
            self._open.pop(file, None)
            self._open[file] = None
        while len(self._open) > self._handles:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.release()

    def _openings(self) -> list[RawBatch]:
        """Positions of opened files, then the marks of all files that are not being read."""
        batches = [file.opening() for file in self._files.values() if file.opened]
        found = [batch for batch in batches if batch is not None]
        if self._known.changed:
            self._known.changed = False
            found.append(RawBatch(_KNOWN, "records", [], [], {"past": self._known.text()}))
        return found

    def checkpointed(self, positions: Mapping[str, Position]) -> None:
        """Do nothing: files belong to the program that writes them."""

    def status(self) -> list[PartitionStatus]:
        """Every file; the lag is in bytes."""
        found = {file.partition: file.status() for file in self._files.values()}
        for partition, missed in self._missed.items():
            found.setdefault(partition, PartitionStatus(partition, None, 0, "", missed))
        for path, problem in self._refused.items():
            name, unopened = f"files:{path}", path in self._unopened
            found.setdefault(name, PartitionStatus(name, None, 0, problem, unopened=unopened))
        return list(found.values())

    @property
    def finished(self) -> bool:
        """Whether files that are not followed were read to their ends."""
        return not self._settings.follow and all(file.finished for file in self._files.values())

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


def open_files(settings: FilesSettings, context: SourceContext) -> Source:
    """One source for all files."""
    return FilesSource(settings, context.positions)
