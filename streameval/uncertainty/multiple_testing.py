"""Adjusted p-values of several tests."""

from __future__ import annotations

import math
from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's (1979) adjusted p-values: they bound the chance of any false rejection."""
    adjusted = [math.nan] * len(p_values)
    order = _ascending(p_values)
    most = 0.0
    for rank, position in enumerate(order):
        most = max(most, min(1.0, (len(order) - rank) * p_values[position]))
        adjusted[position] = most
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's (1995) adjusted p-values: they bound the false discovery rate."""
    adjusted = [math.nan] * len(p_values)
    order = _ascending(p_values)
    least = 1.0
    for rank in range(len(order), 0, -1):
        position = order[rank - 1]
        # In this order no rounding leaves it below the p-value itself.
        least = min(least, p_values[position] * (len(order) / rank))
        adjusted[position] = least
    return adjusted


def _ascending(p_values: Sequence[float]) -> list[int]:
    """Positions of the p-values that are numbers, ascending."""
    numbers = [n for n, p in enumerate(p_values) if not math.isnan(p)]
    return sorted(numbers, key=p_values.__getitem__)
