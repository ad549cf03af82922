"""Sets of labels of many events, as rows of codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from streameval.events.values import BoolArray, FloatArray, IntArray, Label

_BLOCK = 1 << 22
"""Pairs of an event and a label that are looked at together."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelRows:
    """For each event some labels, and a score of each of them where there are ``values``.

    >>> rows = LabelRows.of_sets([[2, 0], [], [1]])
    >>> rows.starts.tolist(), rows.codes.tolist()
    ([0, 2, 2, 3], [0, 2, 1])
    >>> rows[[0, 2]].sets(["a", "b", "c"]) == [{"a", "c"}, {"b"}]
    True
    """

    starts: IntArray
    """Event n has the codes from ``starts[n]`` to ``starts[n + 1]``."""
    codes: IntArray
    """Ascending within each event, each once."""
    values: FloatArray | None = None

    @classmethod
    def of_sets(cls, sets: Iterable[Iterable[int]]) -> Self:
        """The rows of one collection of distinct codes for each event."""
        rows = [sorted(codes) for codes in sets]
        starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return cls(starts, np.asarray([code for row in rows for code in row], dtype=np.int64))

    @classmethod
    def of_indicator(cls, cells: BoolArray) -> Self:
        """The rows of an array with a row for each event and a column for each label."""
        length, width = cells.shape
        places = np.flatnonzero(cells)
        starts = np.zeros(length + 1, dtype=np.int64)
        np.cumsum(np.count_nonzero(cells, axis=1), out=starts[1:])
        return cls(starts, places % width if width else places)

    @classmethod
    def of_keys(cls, keys: IntArray, length: int, width: int) -> Self:
        """The rows of ascending numbers ``event * width + code``, each once."""
        starts = np.searchsorted(keys, np.arange(length + 1, dtype=np.int64) * max(width, 1))
        return cls(starts.astype(np.int64), keys % max(width, 1))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, rows: Any) -> Self:
        """The rows of these events, as an array is indexed."""
        if isinstance(rows, slice) and rows.step in (None, 1):
            first, end, _ = rows.indices(len(self))
            starts = self.starts[first : max(first, end) + 1]
            cells: Any = slice(starts[0], starts[-1])
            return self._taken(starts - starts[0], cells)
        chosen = np.arange(len(self))[rows]
        lengths = self.lengths[chosen]
        starts = np.zeros(len(chosen) + 1, dtype=np.int64)
        np.cumsum(lengths, out=starts[1:])
        moved = np.repeat(self.starts[chosen] - starts[:-1], lengths)
        return self._taken(starts, moved + np.arange(starts[-1]))

    def _taken(self, starts: IntArray, cells: Any) -> Self:
        values = None if self.values is None else self.values[cells]
        return type(self)(starts, self.codes[cells], values)

    def kept(self, cells: BoolArray) -> Self:
        """The rows of some of the codes."""
        before = np.zeros(len(cells) + 1, dtype=np.int64)
        np.cumsum(cells, out=before[1:])
        return self._taken(before[self.starts], cells)

    def common(self, other: LabelRows, width: int) -> LabelRows:
        """The codes that both have of each event, out of ``width``."""
        inside = np.zeros(len(other.codes), dtype=np.bool_)
        step = max(1, _BLOCK // max(width, 1))
        for first in range(0, len(self), step):
            mine, theirs = self[first : first + step], other[first : first + step]
            mask = np.zeros(len(mine) * width, dtype=np.bool_)
            mask[mine.rows * width + mine.codes] = True
            at = int(other.starts[first])
            inside[at : at + len(theirs.codes)] = mask[theirs.rows * width + theirs.codes]
        return LabelRows(other.starts, other.codes).kept(inside)

    @property
    def lengths(self) -> IntArray:
        """How many labels each event has."""
        return np.diff(self.starts)

    @property
    def rows(self) -> IntArray:
        """The event of each code."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def sets(self, labels: Sequence[Label]) -> list[frozenset[Label]]:
        """The labels of each event."""
        named = [labels[code] for code in self.codes.tolist()]
        ends = self.starts.tolist()
        return [frozenset(named[a:b]) for a, b in pairwise(ends)]

    def mappings(self, labels: Sequence[Label]) -> list[dict[Label, float]]:
        """The score of each label of each event."""
        assert self.values is not None
        pairs = [
            (labels[c], v) for c, v in zip(self.codes.tolist(), self.values.tolist(), strict=True)
        ]
        ends = self.starts.tolist()
        return [dict(pairs[a:b]) for a, b in pairwise(ends)]
