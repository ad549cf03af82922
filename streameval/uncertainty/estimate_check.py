"""How well expected metrics held: estimates of panes against the values of their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

from streameval.errors import InputError
from streameval.metrics.undefined import json_number
from streameval.uncertainty.interval import Interval, normal_quantile

LEAST_CHANCE = 0.01
"""So many failures are flagged as have a smaller chance than this where the intervals are right."""

_POINTS = 200
"""Of the shared error's distribution, each of the same chance."""


class EstimateCheck(NamedTuple):
    """How many of some intervals held the later value, and whether too few did."""

    panes: int
    """How many panes are compared: those with an interval and a value."""
    held: int
    """How many of their intervals contain the value."""
    error: float
    """The mean of estimate less value; ``nan`` of no pane."""
    flagged: bool
    """Whether so many intervals failed as have a chance below .01 at their level."""
    reason: str
    """One sentence: how many failed, with which chance, and how many panes are left out."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: an error that is not finite is None."""
        return {**self._asdict(), "error": json_number(self.error)}


def check_estimates(
    estimates: Sequence[Interval], values: Sequence[float], labelled: float = math.inf
) -> EstimateCheck:
    """How estimates of panes held against the panes' values, and whether too many failed.

    If P(y given score) is as it was in the labelled events of the estimates, each interval fails
    with the chance 1 − level. All estimates share the error of the labelled events, which is the
    share n / (n + `labelled`) of a pane's variance, n being the mean of the panes' events; given
    that error, the failures are binomial. They are flagged where so many or more have a chance
    below .01: at the level .95, of labelled events without number, two of three, three of nine,
    five of twenty. Pairs without an interval or a value, of panes with too few events, are left
    out.

    Args:
        estimates: The expected metric of each pane, as :func:`~.expected.expected` gives it.
        values: The same panes' metric by their labels.
        labelled: The number of labelled events that the estimates are made from.

    Raises:
        InputError: The numbers of both differ, or the levels of the intervals do.

    >>> estimates = [Interval(0.75, 0.5, 0.9, 0.95, "expected", 100)] * 6
    >>> check_estimates(estimates, [0.75, 0.75, 0.75, 0.25, 0.25, 0.25]).flagged
    True
    """
    if len(estimates) != len(values):
        raise InputError(
            "values", expected=f"one of each of {len(estimates)} estimates", got=str(len(values))
        )
    levels = sorted({one.level for one in estimates})
    if len(levels) > 1:
        got = " and ".join(f"{level:g}" for level in levels)
        raise InputError("estimates", expected="intervals of one level", got=got)
    pairs = [
        (one, value)
        for one, value in zip(estimates, values, strict=True)
        if one.defined and not math.isnan(value)
    ]
    panes, left_out = len(pairs), len(values) - len(pairs)
    without = f"{left_out} pane{'s have' if left_out > 1 else ' has'} no interval or no value"
    if not panes:
        return EstimateCheck(0, 0, math.nan, False, without if left_out else "there is no pane")
    failed = sum(not has_held(one, value) for one, value in pairs)
    error = math.fsum(one.value - value for one, value in pairs) / panes
    size = math.fsum(one.n for one, _ in pairs) / panes
    chance = shared_tail(failed, panes, levels[0], size / (size + max(labelled, 1)))
    flagged = chance < LEAST_CHANCE
    where = f"{failed} of {panes} pane{'s' * (panes > 1)}"
    reason = f"the value is outside of its {100 * levels[0]:.4g}% interval in {where}"
    if flagged:
        reason += (
            f", which has a chance of {chance:.2g} if labels go with scores as they did in the "
            "labelled events"
        )
    if left_out:
        reason += f"; {without}"
    return EstimateCheck(panes, panes - failed, error, flagged, reason)


def has_held(estimate: Interval, value: float) -> bool:
    """Whether an interval contains a value; of one that is missing, False."""
    # An estimate that no label can change has no width, and the value another rounding.
    slack = 1e-9 * abs(value)
    return estimate.low - slack <= value <= estimate.high + slack


def shared_tail(least: int, trials: int, level: float, shared: float) -> float:
    """P(X ≥ `least`) of failures at a level, of errors that have a share of variance in common."""
    if not shared:
        return binomial_tail(least, trials, 1 - level)
    normal, limit = NormalDist(), normal_quantile(level)
    common, own = math.sqrt(shared), math.sqrt(1 - shared)
    tails = []
    for k in range(_POINTS):
        moved = common * normal.inv_cdf((k + 0.5) / _POINTS)
        failing = normal.cdf((moved - limit) / own) + normal.cdf((-moved - limit) / own)
        tails.append(binomial_tail(least, trials, min(max(failing, 1e-300), 1 - 1e-12)))
    return math.fsum(tails) / _POINTS


def binomial_tail(least: int, trials: int, chance: float) -> float:
    """P(X ≥ `least`) of a binomial X."""
    return math.fsum(
        math.exp(
            math.lgamma(trials + 1)
            - math.lgamma(k + 1)
            - math.lgamma(trials - k + 1)
            + k * math.log(chance)
            + (trials - k) * math.log1p(-chance)
        )
        for k in range(least, trials + 1)
    )
