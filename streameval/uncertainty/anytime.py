"""Intervals that may be read after every event: confidence sequences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from streameval.uncertainty.delong import sequence
from streameval.uncertainty.interval import Ends, IntervalRequest, no_ends
from streameval.uncertainty.proportions import beyond_log, ends_of_share, stirling_remainder
from streameval.uncertainty.regression import bounded_ends


def beta_binomial(successes: float, trials: float, level: float) -> tuple[float, float]:
    """Robbins's confidence sequence of a proportion, from the beta-binomial mixture."""
    failures = trials - successes
    limit = _mixture_limit(successes, failures, level)
    return (
        0.0 if successes == 0 else 1 - _upper_root(failures, successes, limit),
        1.0 if failures == 0 else _upper_root(successes, failures, limit),
    )


def _mixture_limit(successes: float, failures: float, level: float) -> float:
    """The n·KL(k/n, p) below which a share p is in the sequence."""
    # With p = k/n the left side is at most 0; ln B(½, ½) = ln π.
    return (
        math.log(math.pi / (1 - level))
        + _half_remainder(successes + failures, 1.0)
        - _half_remainder(successes, 0.5)
        - _half_remainder(failures, 0.5)
    )


def disjoint_error(first: tuple[float, float], second: tuple[float, float]) -> float:
    """The least 1 − level at which :func:`beta_binomial` of two (successes, trials) is disjoint.

    At most 1. As long as both shares are equal, it is ever α or below with a chance of 2·α.
    """
    low, high = sorted((first, second), key=lambda counts: counts[0] / counts[1])
    below, above = low[0] / low[1], high[0] / high[1]
    limits = [_mixture_limit(k, n - k, 0.0) for k, n in (low, high)]
    left = right = 0.0
    share = (below + above) / 2
    # From the lower share to the higher one the first excess rises and the second falls: Newton's
    # steps to where they meet, kept in the bracket.
    for _ in range(64):
        left, right = (
            _divergence(k, n, share) - limit
            for (k, n), limit in zip((low, high), limits, strict=True)
        )
        if not below < share < above:
            break
        below, above = (share, above) if left < right else (below, share)
        slope = (low[1] * share - low[0]) + (high[0] - high[1] * share)
        step = (left - right) * share * (1 - share) / slope
        if abs(step) <= 1e-15 * share:
            break
        share -= step
        if not below < share < above:
            share = (below + above) / 2
    return math.exp(-max(0.0, min(left, right)))


def _divergence(successes: float, trials: float, share: float) -> float:
    """n·KL(k/n, p), of a share p that is neither 0 nor 1 unless it is k/n."""
    if not successes:
        return -trials * math.log1p(-share)
    if successes == trials:
        return -trials * math.log(share)
    beyond, failures = share - successes / trials, trials - successes
    return successes * beyond_log(beyond * trials / successes) + failures * beyond_log(
        -beyond * trials / failures
    )


def _upper_root(successes: float, failures: float, limit: float) -> float:
    """The p above k/n where n·KL(k/n, p) = `limit`, by Newton's steps kept in a bracket."""
    trials = successes + failures
    if not successes:
        return -math.expm1(-limit / trials)
    share, rest = successes / trials, failures / trials
    low, high = 0.0, rest
    beyond = min(math.sqrt(2 * limit * share * rest / trials), rest / 2)
    while low < beyond < high:
        more, less = beyond / share, beyond / rest
        distance = successes * beyond_log(more) + failures * beyond_log(-less)
        low, high = (beyond, high) if distance < limit else (low, beyond)
        step = (distance - limit) / (trials * (more / (1 + more) + less / (1 - less)))
        if abs(step) <= 1e-15 * beyond:
            break
        beyond -= step
        if not low < beyond < high:
            beyond = (low + high) / 2
    return min(1.0, share + beyond)


def _half_remainder(x: float, more: float) -> float:
    """``ln Γ(x + more) − x·ln x + x``, likewise."""
    total = x + more
    grown = x * math.log1p(more / x) if x else 0.0
    return stirling_remainder(total) + grown + more * math.log(total) - more


ANYTIME: Mapping[str, Callable[[IntervalRequest], Ends]] = {
    "proportion": lambda request: ends_of_share(request, beta_binomial),
    "auc": sequence,
    "error": lambda request: bounded_ends(request, beta_binomial),
}
"""From the families of metrics that have a confidence sequence to it."""


def anytime(request: IntervalRequest) -> Ends:
    """The ends of a metric's confidence sequence, for events that are counted since a start."""
    if not request.cumulative:
        return no_ends(
            "anytime covers all events since a start, no window: pass no window= to the Evaluator"
        )
    if not request.whole:
        return no_ends("anytime needs weights that are counts")
    return ANYTIME[request.metric.family](request)
