"""A small number for each partition, so that an entry need not hold its name."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["PartitionNumbers"]


class PartitionNumbers:
    """Numbers from 1 on, in the order in which partitions are first asked for.

    >>> numbers = PartitionNumbers({"files:a": 1})
    >>> numbers.number("files:b"), numbers.number("files:a"), numbers.names
    (2, 1, {1: 'files:a', 2: 'files:b'})
    """

    __slots__ = ("_numbers", "names")

    def __init__(self, known: Mapping[str, int]) -> None:
        self._numbers = dict(known)
        self.names = {number: name for name, number in known.items()}

    def number(self, partition: str) -> int:
        """The number of a partition; a new one if it has none."""
        found = self._numbers.get(partition)
        if found is None:
            found = self._numbers[partition] = len(self._numbers) + 1
            self.names[found] = partition
        return found
