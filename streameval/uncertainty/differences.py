"""Differences of independent samples, and of a part of the events to all others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np

from streameval.errors import InputError, shown
from streameval.events.values import FloatArray
from streameval.uncertainty.interval import Interval, normal_quantile
from streameval.uncertainty.multiple_testing import benjamini_hochberg

Side: TypeAlias = Literal["below", "above"]

FALSE_DISCOVERIES = 0.05
"""The largest expected share of false ones among the slices that are marked as different."""


def difference(first: Interval, second: Interval) -> Interval:
    """The interval of a difference of two independent values: Newcombe's square-and-add (MOVER)."""
    if first.level != second.level:
        raise InputError(
            "level",
            expected=f"intervals of one level, {shown(first.level)}",
            got=shown(second.level),
        )
    value, level, n = first.value - second.value, first.level, first.n + second.n
    for one in (first, second):
        if not one.defined:
            return Interval(value, math.nan, math.nan, level, "", n, one.reason)
    low = value - math.hypot(first.value - first.low, second.high - second.value)
    high = value + math.hypot(first.high - first.value, second.value - second.low)
    return Interval(value, low, high, level, "mover", n)


def range_ends(shares: Sequence[Interval]) -> tuple[float, float]:
    """The ends of the largest less the smallest share, of intervals that hold for all pairs."""
    value, low, high = _columns(shares)
    below, above = (value - low) ** 2, (high - value) ** 2
    bottom = top = 0.0
    # Pairs row by row: all at once would take the memory of their number.
    for n in range(len(value)):
        gap = value[n] - value
        bottom = max(bottom, float((gap - np.sqrt(below[n] + above)).max()))
        ends = gap + np.sqrt(above[n] + below)
        ends[n] = 0  # no pair
        top = max(top, float(ends.max()))
    return bottom, min(1.0, top)


def ratio_ends(shares: Sequence[Interval]) -> tuple[float, float]:
    """The ends of the smallest over the largest share: MOVER-R of Donner & Zou (2012)."""
    value, low, high = _columns(shares)
    near, far = low * (2 * value - low), high * (2 * value - high)
    bottom = top = 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        for n in range(len(value)):
            both = value[n] * value
            ends = near[n] / (both + np.sqrt(np.maximum(0.0, both**2 - near[n] * far)))
            ends[n] = 1
            # 0 / 0 is a share of 0 over one that may be anything.
            bottom = min(bottom, float(ends.min()) if near[n] else 0.0)
            ends = (both + np.sqrt(np.maximum(0.0, both**2 - far[n] * near))) / near
            ends[near == 0] = ends[n] = math.inf
            top = min(top, float(ends.min()))
    return bottom, top


def _columns(shares: Sequence[Interval]) -> FloatArray:
    return np.array([(one.value, one.low, one.high) for one in shares]).T.copy()


def bound_p_value(interval: Interval, *, below: float | None, above: float | None) -> float:
    """The p-value of "the true value is within the bound", that `below` or that `above` it."""
    if not interval.defined:
        return math.nan
    if below is not None:
        distance, half = below - interval.value, interval.high - interval.value
    else:
        assert above is not None
        distance, half = interval.value - above, interval.value - interval.low
    return _tail(distance, half / normal_quantile(interval.level))


def part_p_value(part: Interval, whole: Interval) -> float:
    """The two-sided p-value of "a part of the events is like all the others"."""
    # S − R = (S − T)/(1 − w), Var(S − R) = ((1 − 2w)·Var(S) + Var(T))/(1 − w)², of the part's S,
    # the rest's R, and T = w·S + (1 − w)·R: the rest needs no state of its own.
    share = part.n / whole.n if whole.n else 1.0
    if not part.defined or not whole.defined or share >= 1:
        return math.nan
    if part.value < whole.value:
        halves = part.high - part.value, whole.value - whole.low
    else:
        halves = part.value - part.low, whole.high - whole.value
    own, all_of_it = (
        half / normal_quantile(one.level) for half, one in zip(halves, (part, whole), strict=True)
    )
    # A part that is like the rest varies as the whole does in as many events: its own interval
    # may say less, as the one of 40 right of 40 does.
    own = max(own, all_of_it / math.sqrt(share))
    variance = (1 - 2 * share) * own**2 + all_of_it**2
    return min(1.0, 2 * _tail(abs(part.value - whole.value), math.sqrt(max(0.0, variance))))


def sides(
    parts: Sequence[Interval], whole: Interval, *, rate: float = FALSE_DISCOVERIES
) -> list[Side | None]:
    """How each part differs from all other events: ``"below"``, ``"above"``, or None."""
    adjusted = benjamini_hochberg([part_p_value(part, whole) for part in parts])
    return [
        None if not p <= rate else "below" if part.value < whole.value else "above"
        for part, p in zip(parts, adjusted, strict=True)
    ]


def _tail(distance: float, error: float) -> float:
    """P(Z > distance / error) of a standard normal Z."""
    if error == 0:
        return 0.5 if distance == 0 else float(distance < 0)
    return NormalDist().cdf(-distance / error)
