"""Scores with whole weights of any size, and W2 of them: the rankings of a fading window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streameval.events.values import Weight
from streameval.states.backend import compiled
from streameval.states.ranking.score_groups import ScoreGroups, auc


class WideRanking:
    """Integer weights at the scores of two classes: the reference, in plain Python.

    ``NativeWideRanking`` has the same methods for totals below 2¹²⁵.
    """

    __slots__ = ("weights",)

    def __init__(self) -> None:
        # The weight of the negatives and of the positives at each score.
        self.weights: dict[float, list[Any]] = {}

    @property
    def distinct(self) -> int:
        """Number of distinct scores."""
        return len(self.weights)

    @property
    def totals(self) -> tuple[int, int]:
        """The weight of the negatives and of the positives."""
        held = self.weights.values()
        return sum(weights[0] for weights in held), sum(weights[1] for weights in held)

    @property
    def twice_u(self) -> int:
        """W2: Σ over (positive, negative) pairs of weights · (2·[s⁺ > s⁻] + [s⁺ = s⁻])."""
        under = wins = 0
        for _, positives, negatives in self.groups():
            wins += positives * (2 * under + negatives)
            under += negatives
        return wins

    @property
    def auc(self) -> float | None:
        """W2 / (2·P·N), the AUC, divided once; None while a class is missing."""
        return auc(self.twice_u, *self.totals)

    def add_whole(self, positive: bool, score: float, weight: Weight) -> None:
        """Add a weight, negative to remove some that is there."""
        weights = self.weights.setdefault(score, [0, 0])
        weights[positive] += weight
        if not any(weights):
            del self.weights[score]

    def merge(self, index: Any, times: int) -> None:
        """Add an index of integer weights so many times; negative to remove it."""
        self.add_groups(index.groups(), times)

    def add_groups(self, groups: ScoreGroups, times: int) -> None:
        """Add scores of integer weights so many times; negative to remove them."""
        for score, *weights in zip(*map(np.ndarray.tolist, groups), strict=True):
            for positive, weight in zip((True, False), weights, strict=True):
                if weight:
                    self.add_whole(positive, score, weight * times)

    def shift_right(self, bits: int) -> None:
        """Divide all weights by 2**bits, of which they are multiples."""
        for weights in self.weights.values():
            weights[:] = [weight >> bits for weight in weights]

    def groups(self) -> Iterator[tuple[float, int, int]]:
        """Score, weight of positives and weight of negatives, ascending."""
        for score, (negatives, positives) in sorted(self.weights.items()):
            yield score, positives, negatives

    def scaled(self, units: int, bits: int) -> tuple[Any, ...]:
        """Columns of the groups, weights over ``units * 2**bits``, as floats; rounded twice."""
        columns = np.array(list(self.groups()), dtype=np.float64).reshape(-1, 3).T.copy()
        factor = 2.0**-bits
        return columns[0], columns[1] * factor / units, columns[2] * factor / units

    def _check(self) -> None:
        for weights in self.weights.values():
            assert min(weights) >= 0 < max(weights)


_COMPILED: Any = getattr(
    compiled("streameval.states.native.fading_sums"), "NativeWideRanking", WideRanking
)


def new_ranking() -> WideRanking:
    """An empty ranking: a compiled one where it was built, else the reference."""
    ranking: WideRanking = _COMPILED()
    return ranking
