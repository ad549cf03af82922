"""What has changed in a ranking since its arrays were last written: the answer stays at hand.

A sorted list counts its entries, not their weights. So there is one list for
each signed power of two: an event of weight 5 goes into the lists of 4 and of
1, and taking it back puts it into those of −4 and −1. Unit weights, the usual
case, need a single list.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sortedcontainers import SortedList

from streameval.events import FloatArray, IntArray

__all__ = ["RankDelta"]


class RankDelta:
    """Signed whole weights by score, with the weight below any score in O(log n).

    Attributes:
        weights: The change at each score; 0 where changes cancelled.
        entries: Number of entries in all lists: what it costs to keep.

    >>> delta = RankDelta()
    >>> delta.change(0.5, 5)
    >>> delta.change(0.2, -1)
    >>> delta.below(0.3), delta.below(0.9), delta.weights[0.5]
    (-1, 4, 5)
    """

    __slots__ = ("_powers", "_units", "entries", "weights")

    def __init__(self) -> None:
        self._units: Any = SortedList()
        self._powers: dict[int, Any] = {}
        self.weights: dict[float, int] = {}
        self.entries = 0

    def change(self, score: float, weight: int) -> None:
        """Add a weight, negative to take it back; one entry for each bit set in it."""
        if weight == 1:
            self._units.add(score)
            self.entries += 1
        else:
            sign, rest = (1, weight) if weight > 0 else (-1, -weight)
            while rest:
                lowest = rest & -rest
                rest -= lowest
                self._list(sign * lowest).add(score)
                self.entries += 1
        self.weights[score] = self.weights.get(score, 0) + weight

    def _list(self, power: int) -> Any:
        if power == 1:
            return self._units
        entries = self._powers.get(power)
        if entries is None:
            entries = self._powers[power] = SortedList()
        return entries

    def below(self, score: float) -> int:
        """The sum of the changes below a score."""
        weight: int = self._units.bisect_left(score)
        if self._powers:
            for power, entries in self._powers.items():
                weight += power * entries.bisect_left(score)
        return weight

    def arrays(self) -> tuple[FloatArray, IntArray]:
        """Scores, in no order, and their changes."""
        length = len(self.weights)
        scores = np.fromiter(self.weights.keys(), np.float64, length)
        return scores, np.fromiter(self.weights.values(), np.int64, length)

    def copy(self) -> RankDelta:
        """An independent delta of the same changes; O(n)."""
        twin = RankDelta()
        twin._units = SortedList(self._units)
        twin._powers = {power: SortedList(entries) for power, entries in self._powers.items()}
        twin.weights = self.weights.copy()
        twin.entries = self.entries
        return twin
