"""Intervals of a proportion: k of n independent events, and which events a metric is a share of."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias, cast

from streameval.events.values import Label
from streameval.metrics.averages import one_class_counts, pooled_counts, pooled_parts
from streameval.uncertainty.interval import Ends, IntervalRequest, normal_quantile

Bounded: TypeAlias = Callable[[float, float, float], tuple[float, float]]
"""From successes, trials and level to the ends of a proportion."""


def ends_of_share(request: IntervalRequest, bounded: Bounded) -> Ends:
    """The ends of a metric that is a share of events, or a monotone function of one."""
    rule, n, level = request.metric.rule, request.n, request.level
    if rule is None:
        # Whole weights have an exact quotient; others need not be near a whole number.
        hits = request.value * n
        return Ends(*bounded(round(hits) if request.whole else hits, n, level))
    (counts,) = request.states
    if request.metric.average == "micro":
        correct, total = pooled_counts(counts)
        classes = len(counts.labels)
        low, high = (
            rule.value(*pooled_parts(rule, end, 1.0, classes))
            for end in bounded(correct if request.whole else correct * (n / total), n, level)
        )
        return Ends(min(low, high), max(low, high))
    found = one_class_counts(counts, cast(Label, request.positive))
    successes, trials = rule.parts(*found)
    if request.whole:
        return Ends(*bounded(successes, trials, level), n=trials)
    scale = n / found[-1]
    return Ends(*bounded(successes * scale, trials * scale, level), n=trials * scale)


def wilson(successes: float, trials: float, level: float) -> tuple[float, float]:
    """Wilson's score interval of a proportion (1927; Brown, Cai & DasGupta 2001)."""
    return score_ends(successes, trials, normal_quantile(level))


def score_ends(successes: float, trials: float, z: float) -> tuple[float, float]:
    """Wilson's interval of a given number of standard errors; `trials` need not be counts."""
    z2 = z * z
    share = successes / trials
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = math.sqrt(z2 * (share * (1 - share) + z2 / (4 * trials)) / trials) / (1 + z2 / trials)
    # Rounding must not move an end off 0 or 1.
    return (
        0.0 if successes == 0 else max(0.0, middle - half),
        1.0 if successes == trials else min(1.0, middle + half),
    )


def clopper_pearson(successes: float, trials: float, level: float) -> tuple[float, float]:
    """Clopper and Pearson's (1934) interval of a proportion: coverage of `level` or more."""
    failures = trials - successes
    tail = (1 - level) / 2
    # The upper end is the lower end of the failures, reflected.
    return (
        0.0 if successes == 0 else _beta_quantile(tail, successes, failures + 1),
        1.0 if failures == 0 else 1 - _beta_quantile(tail, failures, successes + 1),
    )


def distribution_gap(events: float, level: float) -> float:
    """The Dvoretzky–Kiefer–Wolfowitz bound of an observed distribution function's error."""
    return math.sqrt(math.log(2 / (1 - level)) / (2 * events))


def beyond_log(x: float) -> float:
    """``x − ln(1 + x)``, without cancellation near 0."""
    if abs(x) > 0.1:
        return x - math.log1p(x)
    # x²/2 − x³/3 + x⁴/4 − …: the seventeenth term is below the last bit.
    # Written out: ends at every look are made of it, and a loop takes three times as long.
    last = 1 / 12 - x * (1 / 13 - x * (1 / 14 - x * (1 / 15 - x * (1 / 16 - x * (1 / 17)))))
    middle = 1 / 7 - x * (1 / 8 - x * (1 / 9 - x * (1 / 10 - x * (1 / 11 - x * last))))
    return x * x * (1 / 2 - x * (1 / 3 - x * (1 / 4 - x * (1 / 5 - x * (1 / 6 - x * middle)))))


def stirling_remainder(x: float) -> float:
    """``ln Γ(x) − x·ln x + x``, to the last bits however large x is (Stirling's series)."""
    if x < 15:
        return math.lgamma(x) - x * math.log(x) + x
    y = 1 / (x * x)
    series = 1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y * (1 / 1188 - y / 522.0))))
    return 0.5 * math.log(2 * math.pi / x) + series / x


def beta_shares(a: float, b: float, x: float) -> tuple[float, float, float]:
    """P(X < x) and P(X > x) for X of Beta(a, b), and x^a·(1 − x)^b/B(a, b)."""
    mean = a / (a + b)
    gap = x - mean
    constant = stirling_remainder(a + b) - stirling_remainder(a) - stirling_remainder(b)
    log_kernel = constant - a * beyond_log(gap / mean) - b * beyond_log(-gap / (b / (a + b)))
    kernel = math.exp(log_kernel)
    if gap < 0:
        below = kernel * beta_fraction(a, b, x) / a
        return below, 1 - below, kernel
    above = kernel * beta_fraction(b, a, 1 - x) / b
    return 1 - above, above, kernel


def _beta_quantile(probability: float, a: float, b: float) -> float:
    """The x with P(X < x) = `probability` for X of Beta(a, b), by Newton's steps in a bracket."""
    mean = a / (a + b)
    low, high = 0.0, 1.0
    spread = math.sqrt(mean * (1 - mean) / (a + b + 1))
    x = max(mean / 2, mean - normal_quantile(1 - 2 * probability) * spread)
    for _ in range(200):
        below, _, kernel = beta_shares(a, b, x)
        low, high = (x, high) if below < probability else (low, x)
        step = (below - probability) * x * (1 - x) / kernel if kernel else math.inf
        after = x - step
        if not low < after < high:
            after = (low + high) / 2
        if abs(after - x) <= 1e-15 * x or not low < after < high:
            return after
        x = after
    return x


def beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function (Lentz; Numerical Recipes, 6.4)."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d or tiny)
    value = d
    m = 0
    while True:
        m += 1
        for top in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / ((1 + top * d) or tiny)
            c = (1 + top / c) or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-16 or m > 10_000_000:
            return value
