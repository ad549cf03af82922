"""Small chunks of files become large batches, and a place in a batch becomes a line again."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from streameval.files.chunk import KEPT, BadRecord, Chunk, Column, Reason
from streameval.files.columns import joined

__all__ = ["Batch", "BatchBuilder", "Place"]

BATCH_ROWS = 1 << 18
"""Records handed to the evaluator at once: a larger batch takes memory, a smaller one
makes the score index merge more often."""

_BATCH_CELLS = 1 << 21
"""The same in numbers, for records that hold a probability for each of many labels."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a record of a batch came from; places sort as the files were read."""

    part: int
    line: int
    source: str


@dataclass(slots=True)
class Batch:
    """Columns of consecutive good records, and the bad ones between them."""

    columns: dict[str, Column]
    bad: list[tuple[Place, BadRecord]]
    """The first ten."""
    reasons: Counter[Reason]
    """Of all bad ones."""
    rows: int
    _parts: list[Chunk]
    _starts: list[int]

    def place(self, position: int) -> Place:
        """File and line of record ``position``."""
        part = bisect_right(self._starts, position) - 1
        chunk = self._parts[part]
        return Place(part, int(chunk.lines[position - self._starts[part]]), chunk.source)

    def __len__(self) -> int:
        return self.rows


@dataclass(slots=True)
class BatchBuilder:
    """Collects chunks until they make a batch."""

    rows_wanted: int = BATCH_ROWS
    _parts: list[Chunk] = field(default_factory=list)
    _rows: int = 0
    _bad: Counter[Reason] = field(default_factory=Counter)

    def fits(self, chunk: Chunk) -> bool:
        """Whether a chunk can go into the batch: its probabilities are of the same labels."""
        for last in self._parts[-1:]:
            for path, column in chunk.columns.items():
                before = last.columns[path]
                if isinstance(column, dict) or isinstance(before, dict):
                    both = isinstance(column, dict) and isinstance(before, dict)
                    if not both or list(column) != list(before):
                        return False
        return True

    def add(self, chunk: Chunk) -> None:
        """Put a chunk that :meth:`fits` at the end."""
        self._parts.append(chunk)
        self._rows += chunk.rows
        self._bad.update(chunk.bad.reasons)

    @property
    def full(self) -> bool:
        """Whether the batch should be taken."""
        if not self._parts:
            return False
        width = sum(_width(column) for column in self._parts[-1].columns.values())
        return self._rows >= min(self.rows_wanted, _BATCH_CELLS // max(1, width - 3) + 1)

    @property
    def has_bad(self) -> bool:
        """Whether a bad record waits in the batch."""
        return bool(self._bad)

    def take(self) -> Batch:
        """The batch; the builder is empty afterwards."""
        parts = self._parts
        starts = np.cumsum([0] + [part.rows for part in parts])[:-1].tolist()
        columns = {
            path: joined([part.columns[path] for part in parts if part.rows] or [[]])
            for path in (parts[0].columns if parts else ())
        }
        bad = [
            (Place(number, record.line, record.source), record)
            for number, part in enumerate(parts)
            for record in part.bad.first
        ][:KEPT]
        batch = Batch(columns, bad, self._bad, self._rows, parts, starts)
        for part in parts:
            part.columns = {}  # joined now: do not hold them twice
        self._parts, self._rows, self._bad = [], 0, Counter()
        return batch


def _width(column: Column) -> int:
    """Numbers a record: one, or one for each label."""
    if isinstance(column, dict):
        return len(column)
    if isinstance(column, list) and column and isinstance(column[0], dict):
        # Mappings that differ: a dict takes the room of ten numbers a label.
        return 10 * len(column[0]) + 10
    return 1
