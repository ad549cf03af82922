"""JSON lines in files that grow, rotate and appear."""

from __future__ import annotations

import glob
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from streameval.errors import ConfigError
from streameval.stream.batch import Batch, Kind, PartitionStatus, Position
from streameval.stream.settings import FilesSettings
from streameval.stream.sources.followed_file import FollowedFile
from streameval.stream.sources.label_turns import LabelTurns

__all__ = ["FilesSource"]

_LOOK_SECONDS = 1.0
_POLL_SECONDS = 0.05


class FilesSource:
    """Follows files by name, each path a partition of its own.

    Patterns are looked at again every second, so that new files are found. A
    path is followed through rotation by rename, and what it was renamed to is not
    read again where a pattern matches that name too. A file that was cut to nothing
    is read from its beginning.

    Args:
        settings: Which files.
        positions: Where to go on, by partition.
        clock: Seconds, only ever forward.
        sleep: How to wait for so many seconds.

    Raises:
        ConfigError: A path without a pattern in it does not exist, and is not followed.
    """

    def __init__(
        self,
        settings: FilesSettings,
        positions: Mapping[str, Position],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._settings = settings
        self._positions = dict(positions)
        self._clock = clock
        self._sleep = sleep
        self._files: dict[Path, FollowedFile] = {}
        self._past: dict[Path, tuple[int, int]] = {}
        """Names of files that were read to their end under another name, and which these are."""
        self._turn = 0
        self._label_turns = LabelTurns()
        self._patterns: list[tuple[Kind, str]] = [
            *(("records", pattern) for pattern in settings.records),
            *(("predictions", pattern) for pattern in settings.predictions),
            *(("labels", pattern) for pattern in settings.labels),
        ]
        if not settings.follow:
            for kind, pattern in self._patterns:
                if not glob.has_magic(pattern) and not Path(pattern).exists():
                    raise ConfigError(f"files.{kind}: expected a file, got {pattern!r}: not there")
        self._looked = self._clock()
        self._look()

    def _look(self) -> None:
        """Find files that match and are not followed yet."""
        found: list[tuple[Path, Kind, bool]] = []
        for kind, pattern in self._patterns:
            magic = glob.has_magic(pattern)
            for name in sorted(glob.glob(pattern)) if magic else [pattern]:
                path = Path(name).absolute()
                if path not in self._files and not path.is_dir():
                    found.append((path, kind, magic))
        others = [path for path, _, magic in found if magic and not self._position(path)]
        # Those first that were read before: what looks new may be one of them, renamed.
        for path, kind, magic in sorted(found, key=lambda one: self._position(one[0]) is None):
            position = self._position(path)
            if path in self._files or self._is_known(path, new=position is None and magic):
                continue
            self._files[path] = FollowedFile(
                path,
                kind,
                position,
                follow=self._settings.follow,
                others=others if magic else (),
                keep_past=magic,
            )

    def _position(self, path: Path) -> Position | None:
        return self._positions.get(f"files:{path}")

    def _is_known(self, path: Path, *, new: bool) -> bool:
        """Whether it is a file that is being read, or was, under the name it had before."""
        try:
            found = path.stat()
        except OSError:
            return False
        files = self._files.values()
        inode = found.st_dev, found.st_ino
        if self._past.get(path) == inode or any(file.inode == inode for file in files):
            return True
        if new and any(file.has_read(path) for file in files):
            self._past[path] = inode
            return True
        return False

    def read(self, most: int, timeout: float) -> list[Batch]:
        """Some megabyte of lines of each file in turn, until there are ``most`` records.

        Files of labels come after the others, as :class:`LabelTurns` says, up to ``most`` too.
        """
        until = self._clock() + timeout
        while True:
            if self._clock() - self._looked >= _LOOK_SECONDS:
                self._looked = self._clock()
                self._look()
            batches = self._read_round(most)
            left = until - self._clock()
            if batches or left <= 0 or self.finished:
                return batches
            self._sleep(min(_POLL_SECONDS, left))

    def _read_round(self, most: int) -> list[Batch]:
        files = list(self._files.values())
        # Who comes first changes, so that a fast file does not starve the others.
        self._turn += 1
        others = self._read_each([file for file in files if file.kind != "labels"], most)
        labels = [file for file in files if file.kind == "labels"]
        return self._label_turns.with_labels(others, lambda: self._read_each(labels, most))

    def _read_each(self, files: list[FollowedFile], most: int) -> list[Batch]:
        batches: list[Batch] = []
        records = 0
        for n in range(len(files)):
            batch = files[(self._turn + n) % len(files)].read()
            if batch is not None:
                batches.append(batch)
                records += len(batch.messages)
                if records >= most:
                    break
        return batches

    def checkpointed(self, positions: Mapping[str, Position]) -> None:
        """Nothing to do: files belong to who writes them."""

    def status(self) -> list[PartitionStatus]:
        """Every file, and how many bytes of it are still to be read."""
        return [file.status() for file in self._files.values()]

    @property
    def finished(self) -> bool:
        """Whether all was read of files that are not followed."""
        return not self._settings.follow and all(file.finished for file in self._files.values())

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
