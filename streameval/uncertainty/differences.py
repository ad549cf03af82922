"""Differences of independent samples, and of a part of the events to all others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal, TypeAlias

from streameval.errors import InputError, shown
from streameval.uncertainty.interval import Interval, normal_quantile
from streameval.uncertainty.multiple_testing import benjamini_hochberg

Side: TypeAlias = Literal["below", "above"]

FALSE_DISCOVERIES = 0.05
"""The largest expected share of false ones among the slices that are marked as different."""


def difference(first: Interval, second: Interval) -> Interval:
    """The interval of a difference of two independent values, from their own intervals.

    Newcombe's square-and-add method (MOVER): with values a and b and ends l and u,

        low = a − b − √((a − l_a)² + (u_b − b)²),  high = a − b + √((u_a − a)² + (b − l_b)²)

    Each side uses the variance near its own end, so skewed intervals stay skewed. The ends are
    ``nan``, with a reason, where one of the two has none; `n` is the events of both. Newcombe
    (1998), Statistics in Medicine 17, method 10; Zou & Donner (2008).
    """
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


def bound_p_value(interval: Interval, *, below: float | None, above: float | None) -> float:
    """The p-value of "the true value is within the bound", that `below` or that `above` it.

    Normal, with the standard error of that half of the interval that lies towards the bound: it is
    (1 − level)/2 where the interval's end is the bound.
    """
    if not interval.defined:
        return math.nan
    if below is not None:
        distance, half = below - interval.value, interval.high - interval.value
    else:
        assert above is not None
        distance, half = interval.value - above, interval.value - interval.low
    return _tail(distance, half / normal_quantile(interval.level))


def part_p_value(part: Interval, whole: Interval) -> float:
    """The two-sided p-value of "a part of the events is like all the others".

    The value S of a part of share w and the value R of the rest make that of the whole,
    T = w·S + (1 − w)·R (exactly for a mean, nearly for other metrics), so

        S − R = (S − T)/(1 − w),  Var(S − R) = ((1 − 2w)·Var(S) + Var(T))/(1 − w)²

    and the rest needs no state of its own. Standard errors are of the halves of the intervals that
    lie between S and T; that of the part is at least √(Var(T)/w), which it is where the part is
    like the rest. Two intervals that overlap prove nothing: with equal errors they part at 2.8
    standard errors of the difference instead of 1.96, and those of the part and the whole are of
    the same events. ``nan`` where one of the two has no interval, or the part is the whole.
    """
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
    # Where the part is like the rest, it varies as the whole does in as many events: its own
    # interval may say less, as that of 40 right ones of 40 does.
    own = max(own, all_of_it / math.sqrt(share))
    variance = (1 - 2 * share) * own**2 + all_of_it**2
    return min(1.0, 2 * _tail(abs(part.value - whole.value), math.sqrt(max(0.0, variance))))


def sides(
    parts: Sequence[Interval], whole: Interval, *, rate: float = FALSE_DISCOVERIES
) -> list[Side | None]:
    """For each part of the events ``"below"``, ``"above"`` or None: how it differs from the others.

    Each part is tested by :func:`part_p_value`, and Benjamini and Hochberg's procedure keeps the
    expected share of false ones among those that are named at `rate`, however many parts there are.
    """
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
