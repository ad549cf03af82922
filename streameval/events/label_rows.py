"""Sets of labels of many events, as rows of codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from streameval.events.values import BoolArray, FloatArray, IntArray, Label


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
        first = np.repeat(self.starts[chosen] - starts[:-1], lengths)
        return self._taken(starts, first + np.arange(starts[-1]))

    def _taken(self, starts: IntArray, cells: Any) -> Self:
        values = None if self.values is None else self.values[cells]
        return type(self)(starts, self.codes[cells], values)

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
        return [frozenset(named[a:b]) for a, b in zip(ends[:-1], ends[1:], strict=True)]

    def mappings(self, labels: Sequence[Label]) -> list[dict[Label, float]]:
        """The score of each label of each event."""
        assert self.values is not None
        pairs = [
            (labels[c], v) for c, v in zip(self.codes.tolist(), self.values.tolist(), strict=True)
        ]
        ends = self.starts.tolist()
        return [dict(pairs[a:b]) for a, b in zip(ends[:-1], ends[1:], strict=True)]
