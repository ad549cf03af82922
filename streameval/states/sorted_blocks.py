"""A sorted multiset of floats that changes as fast as it is asked."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from streameval.events import FloatArray

__all__ = ["SortedBlocks"]

_LEAST = 512
_PACKED = 8192
"""From this capacity on blocks are arrays: a quarter of the memory, and near in the cache."""


class SortedBlocks:
    """Floats in ascending order, cut into blocks, which knows how many lie below any.

    ``sortedcontainers.SortedList`` does the same with a tree of positions, in
    Python; here the numbers of the blocks before one are added up instead,
    in C: up to a million floats that takes half the time.

    Args:
        capacity: About how many floats it will hold; blocks are as long as
            their number, or 512.

    Cost:
        1 µs for each call among 100,000 floats; O(√n).

    >>> blocks = SortedBlocks(100)
    >>> for value in (0.5, 0.25, 0.5, 0.75):
    ...     blocks.add(value)
    >>> blocks.rank(0.5), len(blocks)
    ((1, 3), 4)
    >>> blocks.remove(0.5)
    >>> list(blocks)
    [0.25, 0.5, 0.75]
    """

    __slots__ = ("_blocks", "_largest", "_length", "_lengths", "_load", "_new")

    def __init__(self, capacity: int = 0) -> None:
        self._load = max(_LEAST, int(capacity**0.5))
        self._new: Any = list if capacity < _PACKED else partial(array, "d")
        self._blocks: list[Any] = []
        self._largest: list[float] = []
        self._lengths: list[int] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[float]:
        for block in self._blocks:
            yield from block

    def add(self, value: float) -> None:
        """Put one more float in."""
        largest = self._largest
        place = bisect_left(largest, value)
        if place < len(largest):
            block = self._blocks[place]
            insort(block, value)
        elif place:
            place -= 1
            block = self._blocks[place]
            block.append(value)
            largest[place] = value
        else:
            block = self._new((value,))
            self._blocks.append(block)
            self._lengths.append(0)
            largest.append(value)
        self._lengths[place] += 1
        self._length += 1
        if len(block) > 2 * self._load:
            self._replace(place, place + 1, list(block))

    def remove(self, value: float) -> None:
        """Take one out; raises ValueError where there is none."""
        largest = self._largest
        place = bisect_left(largest, value)
        if place == len(largest):
            raise ValueError(value)
        block = self._blocks[place]
        at = bisect_left(block, value)
        if block[at] != value:
            raise ValueError(value)
        del block[at]
        self._lengths[place] -= 1
        self._length -= 1
        if 4 * len(block) < self._load and (len(largest) > 1 or not block):
            # Joined with a neighbour, so that there never are many small blocks.
            start = max(0, place - 1)
            joined = [value for part in self._blocks[start : place + 1] for value in part]
            self._replace(start, place + 1, joined)
        elif at == len(block):
            largest[place] = block[-1]

    def _replace(self, start: int, end: int, values: list[float]) -> None:
        """Put sorted floats, cut anew, in the place of some blocks."""
        load = self._load
        size = load if len(values) > 2 * load else max(1, len(values))
        blocks = [self._new(values[at : at + size]) for at in range(0, len(values), size)]
        self._blocks[start:end] = blocks
        self._largest[start:end] = [block[-1] for block in blocks]
        self._lengths[start:end] = map(len, blocks)

    def rank(self, value: float) -> tuple[int, int]:
        """How many lie below a float, and how many at or below it."""
        largest = self._largest
        place = bisect_left(largest, value)
        if place == len(largest):
            return self._length, self._length
        block = self._blocks[place]
        at = bisect_left(block, value)
        below = sum(self._lengths[:place]) + at
        if block[at] != value:
            return below, below
        end = bisect_right(block, value, at)
        tied = end - at
        # Equal floats may go on in the next blocks.
        while end == len(block) and place + 1 < len(largest):
            place += 1
            block = self._blocks[place]
            end = bisect_right(block, value)
            tied += end
        return below, below + tied

    def add_many(self, values: FloatArray) -> None:
        """Put many in, in any order; O(n) when they are many."""
        if 8 * len(values) < self._length:
            for value in values.tolist():
                self.add(value)
        else:
            merged = np.sort(np.concatenate((self.to_array(), values))).tolist()
            self._replace(0, len(self._blocks), merged)
            self._length = len(merged)

    def to_array(self) -> FloatArray:
        """All of them, ascending."""
        return np.fromiter(self, np.float64, self._length)

    def _check(self) -> None:
        assert list(self) == sorted(self)
        assert self._lengths == [len(block) for block in self._blocks]
        assert self._largest == [block[-1] for block in self._blocks]
        assert self._length == sum(self._lengths)
        assert all(0 < length <= 2 * self._load for length in self._lengths)
