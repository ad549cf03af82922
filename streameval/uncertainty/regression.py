"""Intervals of metrics of predicted numbers, from exact moments up to the fourth degree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from math import comb
from typing import TypeAlias

from streameval.states.error_moments import ErrorMoments
from streameval.states.error_ratios import RatioSums
from streameval.states.error_sums import ErrorSums
from streameval.states.sums.exact_sum import ExactSum
from streameval.uncertainty.interval import Ends, IntervalRequest, no_ends, normal_quantile
from streameval.uncertainty.losses import LEAST_FREEDOM, NOT_KEPT, mean_ends, student_quantile
from streameval.uncertainty.proportions import Bounded

_NOT_KEPT_FIT = "moments of the fourth degree are not kept: pass intervals=True to the Evaluator"

_FEWEST = 4
"""Fewest events of an interval of a correlation: one of Fisher's z needs more than three."""

_RATIOS: Mapping[str, str] = {
    "mean_absolute_percentage_error": "percentages",
    "symmetric_mean_absolute_percentage_error": "symmetric",
    "mean_squared_log_error": "log_squares",
    "root_mean_squared_log_error": "log_squares",
}
"""From the metric to the field of its state."""

_ROOTS = frozenset({"root_mean_squared_error", "root_mean_squared_log_error"})


def _fraction(total: ExactSum) -> Fraction:
    return Fraction(*total.as_integer_ratio())


def _mean_and_square(request: IntervalRequest) -> tuple[Fraction, Fraction] | None:
    """The means of an event's loss and of its square; None where these are not kept."""
    name, state = request.metric.name, request.states[0]
    if isinstance(state, RatioSums):
        squares = request.state("error_ratio_squares")
        if squares is None:
            return None
        weight, field = _fraction(state.count), _RATIOS[name]
        return _fraction(getattr(state, field)) / weight, _fraction(
            getattr(squares, field)
        ) / weight
    weight = _fraction(state.count)
    under = _fraction(state.under)
    over = under - _fraction(state.true) + _fraction(state.predicted)
    squares = _error_squares(state)
    if name == "mean_error":
        return (over - under) / weight, squares / weight
    if name == "mean_absolute_error":
        return (over + under) / weight, squares / weight
    moments = request.state("error_moments")
    if moments is None:
        return None
    if name == "mean_pinball_loss":
        alpha = Fraction(float(request.params.get("alpha", 0.5)))
        low = _fraction(moments.under_squares)
        spread = alpha**2 * low + (1 - alpha) ** 2 * (squares - low)
        return (alpha * under + (1 - alpha) * over) / weight, spread / weight
    fourth = sum(
        (-1) ** n * comb(4, n) * _fraction(getattr(moments, "t" * (4 - n) + "p" * n))
        for n in range(5)
    )
    return squares / weight, fourth / weight


def _error_squares(state: ErrorSums) -> Fraction:
    products = _fraction(state.true_squares) + _fraction(state.predicted_squares)
    return products - 2 * _fraction(state.products)


def error_ends(request: IntervalRequest) -> Ends:
    """Student's interval of a mean of an event's numbers, of losses on the log scale."""
    found = _mean_and_square(request)
    if found is None:
        return no_ends(NOT_KEPT)
    mean, square = found
    spread = square - mean * mean
    if request.n <= 1:
        return no_ends("a single event has no spread")
    if request.metric.low < 0:
        # Neither the mean nor its spread overflows where the ends do not.
        half = student_quantile(request.level, request.n - 1.0) * _root(
            spread / Fraction(request.n - 1.0)
        )
        return Ends(request.value - half, request.value + half, "student_t")
    if not mean:
        return no_ends("no event has an error")
    # In units of the mean, as the limits of mean_ends are of numbers near 1.
    ends = mean_ends(1.0, float(spread / (mean * mean)), request.n, request.level)
    if ends.reason:
        return ends
    root = request.metric.name in _ROOTS
    low, high = (math.sqrt(end) if root else end for end in (ends.low, ends.high))
    return Ends(request.value * low, min(request.value * high, request.metric.high))


def _root(value: Fraction) -> float:
    return math.sqrt(value) if value > 0 else 0.0


Central: TypeAlias = dict[tuple[int, int], float]
"""The mean of uᵃ·vᵇ by (a, b), u and v being the true and the predicted number less its mean, in
standard deviations of the true ones."""


def _central(sums: ErrorSums, moments: ErrorMoments) -> tuple[Central, float]:
    """The central moments, and the difference of the means."""
    weight = _fraction(sums.count)
    raw = {
        (1, 0): sums.true,
        (0, 1): sums.predicted,
        (2, 0): sums.true_squares,
        (1, 1): sums.products,
        (0, 2): sums.predicted_squares,
        **{
            (d - b, b): getattr(moments, "t" * (d - b) + "p" * b)
            for d in (3, 4)
            for b in range(d + 1)
        },
    }
    means = {(0, 0): Fraction(1), **{at: _fraction(s) / weight for at, s in raw.items()}}
    y, p = means[1, 0], means[0, 1]
    central = {
        (a, b): sum(
            comb(a, i) * comb(b, j) * (-y) ** (a - i) * (-p) ** (b - j) * means[i, j]
            for i in range(a + 1)
            for j in range(b + 1)
        )
        for a, b in means
    }
    unit = Fraction(_root(Fraction(central[2, 0])))
    found = {at: float(value / unit ** sum(at)) for at, value in central.items()}
    return found, float((y - p) / unit)


Polynomial: TypeAlias = dict[tuple[int, int], float]
"""Factors of uᵃ·vᵇ by (a, b)."""


def _variance(of: Polynomial, central: Central) -> float:
    """The variance of a polynomial of degree 2 at most."""
    mean = sum(factor * central[at] for at, factor in of.items())
    square = sum(
        one * other * central[a + c, b + d]
        for (a, b), one in of.items()
        for (c, d), other in of.items()
    )
    return max(0.0, square - mean * mean)


def _of_error_square(gap: float) -> Polynomial:
    """(u − v + gap)²."""
    return {(2, 0): 1.0, (1, 1): -2.0, (0, 2): 1.0, (1, 0): 2 * gap, (0, 1): -2 * gap}


def fit_ends(request: IntervalRequest) -> Ends:
    """The interval of R², of explained variance or of a correlation, by the delta method.

    On the scale log(1 − R²), and for a correlation Fisher's z; without moments of the fourth
    degree Pearson's r has the interval for numbers that are jointly normal.
    """
    name, n, value = request.metric.name, request.n, request.value
    moments = request.state("error_moments")
    correlation = request.metric.low == -1.0
    if n < _FEWEST:
        return no_ends(f"fewer than {_FEWEST} events")
    if abs(value) >= 1.0 and (correlation or value > 0):
        return no_ends("the predictions explain every difference: there is no spread")
    if moments is None:
        if name != "pearson_r":
            return no_ends(_NOT_KEPT_FIT)
        half = normal_quantile(request.level) / math.sqrt(n - 3.0)
        return _z_ends(value, half, "fisher_z")
    central, gap = _central(request.states[0], moments)
    true, predicted, joint = central[2, 0], central[0, 2], central[1, 1]
    # Where few events have most of the squared errors, these are known as of so few.
    rest = true - 2 * joint + predicted
    differ = _variance(_of_error_square(0.0), central) / (rest * rest) if rest > 0 else 0.0
    freedom = n / (1.0 + differ) - 1.0
    if not freedom >= LEAST_FREEDOM:
        return no_ends("too few events for errors that differ as much")
    quantile = student_quantile(request.level, freedom) / math.sqrt(n - 1.0)
    if correlation:
        if name == "pearson_r":
            influence = {
                (1, 1): 1.0 / math.sqrt(true * predicted),
                (2, 0): -value / (2 * true),
                (0, 2): -value / (2 * predicted),
            }
        else:
            apart = true + predicted + gap * gap
            share = -value / apart
            influence = {
                (1, 1): 2.0 / apart,
                (2, 0): share,
                (0, 2): share,
                (1, 0): 2 * gap * share,
                (0, 1): -2 * gap * share,
            }
        spread = _variance(influence, central) / (1 - value * value) ** 2
        return _z_ends(value, quantile * math.sqrt(spread), "")
    if name == "explained_variance":
        gap = 0.0
    rest += gap * gap
    influence = {at: factor / rest for at, factor in _of_error_square(gap).items()}
    influence[2, 0] -= 1.0 / true
    half = quantile * math.sqrt(_variance(influence, central))
    if not math.isfinite(half):
        return no_ends("the spread is beyond the largest float")
    return Ends(1 - (1 - value) * math.exp(half), 1 - (1 - value) * math.exp(-half))


def _z_ends(value: float, half: float, method: str) -> Ends:
    centre = math.atanh(value)
    return Ends(math.tanh(centre - half), math.tanh(centre + half), method)


def bounded_ends(request: IntervalRequest, sequence: Bounded) -> Ends:
    """The confidence sequence of a mean of losses, none of which is above `request.bound`.

    That of a share, which is valid for a mean of any numbers in [0, 1]: by Jensen's inequality
    these have no larger a likelihood ratio than events of the same mean.
    """
    bound, name = request.bound, request.metric.name
    if name in _ROOTS or request.metric.low < 0:
        return no_ends("anytime is for a mean of losses from 0 up, and this is none")
    if bound is None:
        most = request.metric.high
        if not math.isfinite(most):
            return no_ends(
                "anytime needs the largest loss that an event can have: pass bound= to interval()"
            )
        bound = most
    found = _mean_and_square(request)
    limit = Fraction(bound)
    mean = found[0] if found is not None else Fraction(request.value)
    # A loss above the bound may show in the moments.
    if mean > limit or (found is not None and found[1] > limit * mean):
        return no_ends(f"some event has a larger loss than bound={bound:g}")
    share = float(mean / limit)
    low, high = sequence(share * request.n, request.n, request.level)
    return Ends(low * bound, high * bound)
