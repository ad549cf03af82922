"""A progress bar on the standard error, where somebody can see it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streameval.files.sources import Source

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["ByteBar", "byte_bar"]


class ByteBar:
    """Bytes read of the files of a run."""

    def __init__(self, progress: Progress | None, sources: Sequence[Source]) -> None:
        self._progress = progress
        self._before = 0
        self._source: Source | None = None
        self._at = 0
        sizes = [source.size for source in sources]
        if progress is not None:
            total = sum(size or 0 for size in sizes) if all(sizes) else None
            self._task = progress.add_task("", total=total)

    def start(self, source: Source) -> None:
        """The next file begins."""
        self._before += (self._source.size or 0) if self._source else 0
        self._source = source
        self._at = 0
        if self._progress is not None:
            self._progress.update(self._task, description=os.path.basename(source.name))

    def move(self, position: int) -> None:
        """So far the file has been read."""
        self._at = max(self._at, position)  # Parquet is not read from front to end
        if self._progress is not None:
            self._progress.update(self._task, completed=self._before + self._at)


@contextmanager
def byte_bar(sources: Sequence[Source], *, wanted: bool) -> Iterator[ByteBar]:
    """The bar; it draws nothing when the standard error is not a terminal."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield ByteBar(None, sources)
        return
    # Imported only where somebody sees it: most runs of the command are in scripts.
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with progress:
        yield ByteBar(progress, sources)
