"""Metrics of predicted numbers: errors, explained variance and correlation.

Each is computed from exact sums with one division at the end, so that no cancellation, order of
events or overflow on the way changes a digit.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from streameval.errors import MetricError, shown
from streameval.events.values import is_number
from streameval.metrics.undefined import NO_EVENTS, undefined_value
from streameval.states.error_ratios import RatioSums
from streameval.states.error_residuals import ResidualIndex
from streameval.states.error_sums import ErrorSums, Moments
from streameval.states.sums.exact_sum import ExactSum, nearest_float, nearest_root

__all__ = [
    "concordance_correlation",
    "explained_variance",
    "max_error",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_error",
    "mean_pinball_loss",
    "mean_squared_error",
    "mean_squared_log_error",
    "median_absolute_error",
    "pearson_r",
    "r2",
    "residual_quantile",
    "root_mean_squared_error",
    "root_mean_squared_log_error",
    "symmetric_mean_absolute_percentage_error",
]

_SAME_TRUTH = "all true numbers are equal, so that there is no variance to explain"


def _quotient(
    at: Moments,
    top: int,
    bottom: int,
    undefined: float | None,
    without: str = "",
    rounded: Any = nearest_float,
) -> float:
    """The ratio, rounded once; undefined without an event, and for a reason where bottom is 0."""
    if not (at.weight and bottom):
        return undefined_value(without if at.weight else NO_EVENTS, undefined)
    return float(rounded(top, bottom))


def mean_error(errors: ErrorSums, *, undefined: float | None = None) -> float:
    """Mean of y_pred − y_true, the bias: above 0 where predictions are too high on the average.

    nan before the first event. Cost: O(1).

    >>> errors = ErrorSums()
    >>> for true, predicted in [(3.0, 2.5), (1.0, 2.5)]:
    ...     errors.update(true, predicted)
    >>> mean_error(errors)
    0.5
    """
    at = errors.moments()
    return _quotient(at, -at.error << at.weight_shift, at.weight << at.shift, undefined)


def mean_absolute_error(errors: ErrorSums, *, undefined: float | None = None) -> float:
    """Mean of \\|y_true − y_pred\\|.

    From 0 up, in the unit of the numbers; nan before the first event. Cost: O(1).

    >>> errors = ErrorSums()
    >>> for true, predicted in [(3.0, 2.5), (1.0, 2.5)]:
    ...     errors.update(true, predicted)
    >>> mean_absolute_error(errors)
    1.0
    """
    at = errors.moments()
    return _quotient(at, at.absolute << at.weight_shift, at.weight << at.shift, undefined)


def mean_squared_error(errors: ErrorSums, *, undefined: float | None = None) -> float:
    """Mean of (y_true − y_pred)².

    From 0 up, in the square of the unit, and inf where it is beyond the largest float; nan before
    the first event. Cost: O(1).

    >>> errors = ErrorSums()
    >>> for true, predicted in [(3.0, 2.5), (1.0, 2.5)]:
    ...     errors.update(true, predicted)
    >>> mean_squared_error(errors)
    1.25
    """
    at = errors.moments()
    return _quotient(at, at.error_squares << at.weight_shift, at.weight << 2 * at.shift, undefined)


def root_mean_squared_error(errors: ErrorSums, *, undefined: float | None = None) -> float:
    """Square root of the mean of (y_true − y_pred)².

    From 0 up, in the unit of the numbers, also where the mean is beyond the largest float; nan
    before the first event. Cost: O(1).

    >>> errors = ErrorSums()
    >>> for true, predicted in [(3e+200, 0.0), (0.0, 4e+200)]:
    ...     errors.update(true, predicted)
    >>> round(root_mean_squared_error(errors) / 1e200, 12), mean_squared_error(errors)
    (3.535533905933, inf)
    """
    at = errors.moments()
    top, bottom = at.error_squares << at.weight_shift, at.weight << 2 * at.shift
    return _quotient(at, top, bottom, undefined, rounded=nearest_root)


def r2(errors: ErrorSums, *, undefined: float | None = None) -> float:
    """Coefficient of determination: 1 − Σ (y_true − y_pred)² / Σ (y_true − their mean)².

    At most 1; 0 for predicting the mean. nan before the first event and while all true numbers
    are equal, as those of a single event are. Cost: O(1).

    >>> errors = ErrorSums()
    >>> for true, predicted in [(3.0, 2.5), (1.0, 1.0), (2.0, 2.0)]:
    ...     errors.update(true, predicted)
    >>> r2(errors)
    0.875
    """
    at = errors.moments()
    spread = at.true_spread
    return _quotient(at, spread - at.weight * at.error_squares, spread, undefined, _SAME_TRUTH)


def explained_variance(errors: ErrorSums, *, undefined: float | None = None) -> float:
    """1 − variance of the errors / variance of the true numbers: R² without the mean error.

    At most 1; nan in the cases of :func:`r2`. Cost: O(1).

    >>> errors = ErrorSums()
    >>> for true, predicted in [(3.0, 5.0), (1.0, 3.0), (2.0, 4.0)]:
    ...     errors.update(true, predicted)
    >>> explained_variance(errors), r2(errors)
    (1.0, -5.0)
    """
    at = errors.moments()
    spread = at.true_spread
    return _quotient(at, spread - at.error_spread, spread, undefined, _SAME_TRUTH)


def mean_pinball_loss(
    errors: ErrorSums, *, alpha: float = 0.5, undefined: float | None = None
) -> float:
    """Mean of alpha · (y_true − y_pred), or of (1 − alpha) · (y_pred − y_true), which is positive.

    What a quantile regression of the share `alpha` minimises; half the mean absolute error for
    0.5. From 0 up; nan before the first event. Raises MetricError for an `alpha` outside [0, 1].
    Cost: O(1).

    >>> errors = ErrorSums()
    >>> for true, predicted in [(3.0, 2.5), (1.0, 2.5)]:
    ...     errors.update(true, predicted)
    >>> mean_pinball_loss(errors, alpha=0.9)
    0.3
    """
    if not is_number(alpha) or not 0 <= alpha <= 1:
        raise MetricError(f"alpha: expected a number from 0 to 1, got {shown(alpha)}")
    at = errors.moments()
    share, whole = float(alpha).as_integer_ratio()
    units = share * at.under + (whole - share) * (at.under - at.error)
    bottom = (at.weight << at.shift) * whole
    return _quotient(at, units << at.weight_shift, bottom, undefined)


def pearson_r(errors: ErrorSums, *, undefined: float | None = None) -> float:
    """Pearson's correlation of true and predicted numbers.

    In [−1, 1]; nan before the first event and while all true or all predicted numbers are equal.
    Cost: O(1).

    >>> errors = ErrorSums()
    >>> for true, predicted in [(3.0, 7.0), (1.0, 3.0), (2.0, 5.0)]:
    ...     errors.update(true, predicted)
    >>> pearson_r(errors)
    1.0
    """
    at = errors.moments()
    if not at.weight:
        return undefined_value(NO_EVENTS, undefined)
    true, predicted, joint = at.true_spread, at.predicted_spread, at.joint_spread
    if not (true and predicted):
        which = "predicted" if true else "true"
        return undefined_value(f"all {which} numbers are equal", undefined)
    root = nearest_root(joint * joint, true * predicted)
    return -root if joint < 0 else root


def concordance_correlation(errors: ErrorSums, *, undefined: float | None = None) -> float:
    """Lin's concordance correlation: 2·cov / (variances + squared difference of the means).

    In [−1, 1], 1 for predictions without errors only. nan before the first event and while all
    numbers are equal. Cost: O(1). Source: Lin (1989), A concordance correlation coefficient to
    evaluate reproducibility.

    >>> errors = ErrorSums()
    >>> for true, predicted in [(3.0, 4.0), (1.0, 2.0), (2.0, 3.0)]:
    ...     errors.update(true, predicted)
    >>> concordance_correlation(errors), pearson_r(errors)
    (0.5714285714285714, 1.0)
    """
    at = errors.moments()
    apart = at.true_spread + at.predicted_spread + (at.error**2 << at.weight_shift)
    return _quotient(at, 2 * at.joint_spread, apart, undefined, "all numbers are equal")


def mean_absolute_percentage_error(ratios: RatioSums, *, undefined: float | None = None) -> float:
    """Mean of \\|y_true − y_pred\\| / max(\\|y_true\\|, 2⁻⁵²), as a share: 0.1 is 10 %.

    From 0 up, huge where a true number is 0, as scikit-learn's; nan before the first event.
    Cost: O(1).

    >>> ratios = RatioSums()
    >>> for true, predicted in [(2.0, 3.0), (4.0, 3.0)]:
    ...     ratios.update(true, predicted)
    >>> mean_absolute_percentage_error(ratios)
    0.375
    """
    return _mean_of(ratios.percentages, ratios, undefined)


def symmetric_mean_absolute_percentage_error(
    ratios: RatioSums, *, undefined: float | None = None
) -> float:
    """Mean of 2·\\|y_true − y_pred\\| / (\\|y_true\\| + \\|y_pred\\|), as a share.

    In [0, 2]; 0 for an event whose numbers are both 0; nan before the first event. Cost: O(1).

    >>> ratios = RatioSums()
    >>> for true, predicted in [(2.0, 3.0), (0.0, 3.0)]:
    ...     ratios.update(true, predicted)
    >>> symmetric_mean_absolute_percentage_error(ratios)
    1.2
    """
    return _mean_of(ratios.symmetric, ratios, undefined)


def mean_squared_log_error(ratios: RatioSums, *, undefined: float | None = None) -> float:
    """Mean of (ln(1 + y_true) − ln(1 + y_pred))².

    From 0 up; nan before the first event and while some number is −1 or less. Cost: O(1).

    >>> ratios = RatioSums()
    >>> for true, predicted in [(1.0, 3.0), (4.0, 4.0)]:
    ...     ratios.update(true, predicted)
    >>> round(mean_squared_log_error(ratios), 12)
    0.240226506959
    """
    if reason := _no_logarithm(ratios):
        return undefined_value(reason, undefined)
    return _mean_of(ratios.log_squares, ratios, undefined)


def root_mean_squared_log_error(ratios: RatioSums, *, undefined: float | None = None) -> float:
    """Square root of the mean of (ln(1 + y_true) − ln(1 + y_pred))².

    From 0 up; nan in the cases of :func:`mean_squared_log_error`. Cost: O(1).

    >>> ratios = RatioSums()
    >>> ratios.update(1.0, 3.0)
    >>> round(root_mean_squared_log_error(ratios), 12)
    0.69314718056
    """
    if reason := _no_logarithm(ratios):
        return undefined_value(reason, undefined)
    return _mean_of(ratios.log_squares, ratios, undefined, nearest_root)


def _mean_of(
    total: ExactSum, ratios: RatioSums, undefined: float | None, rounded: Any = nearest_float
) -> float:
    numerator, denominator = total.as_integer_ratio()
    weight, over = ratios.count.as_integer_ratio()
    if not weight:
        return undefined_value(NO_EVENTS, undefined)
    return float(rounded(numerator * over, denominator * weight))


def _no_logarithm(ratios: RatioSums) -> str:
    outside = ratios.outside.value()
    if not outside:
        return ""
    have = "event has" if outside == 1 else "events have"
    return (
        f"{outside:.6g} of {ratios.weight:.6g} {have} a true or predicted number of -1 or less, "
        "which ln(1 + y) has not"
    )


def max_error(residuals: ResidualIndex, *, undefined: float | None = None) -> float:
    """Largest \\|y_true − y_pred\\|.

    From 0 up; nan before the first event. Cost: O(1).

    >>> residuals = ResidualIndex()
    >>> for true, predicted in [(3.0, 2.5), (1.0, 2.5)]:
    ...     residuals.update(true, predicted)
    >>> max_error(residuals)
    1.5
    >>> residuals.revert(1.0, 2.5)
    >>> max_error(residuals)
    0.5
    """
    if not residuals.weight:
        return undefined_value(NO_EVENTS, undefined)
    last, first = (
        next(residuals.index.group_blocks(descending=down)).scores for down in (True, False)
    )
    return max(abs(float(first[0])), abs(float(last[-1])))


def median_absolute_error(residuals: ResidualIndex, *, undefined: float | None = None) -> float:
    """Median of \\|y_true − y_pred\\|: the mean of the two in the middle of an even weight.

    From 0 up; nan before the first event. Cost: O(n log n) of n distinct residuals.

    >>> residuals = ResidualIndex()
    >>> for true, predicted in [(3.0, 2.5), (1.0, 2.5), (2.0, 2.0), (1.0, 9.0)]:
    ...     residuals.update(true, predicted)
    >>> median_absolute_error(residuals)
    1.0
    """
    values, weights = residuals.weights()
    if not len(values):
        return undefined_value(NO_EVENTS, undefined)
    sizes = np.abs(values)
    order = np.argsort(sizes, kind="stable")
    at, tie = _place(weights[order], 0.5)
    low = float(sizes[order[at]])
    return low + (float(sizes[order[at + 1]]) - low) / 2 if tie else low


_ROUNDING = 1e-9
"""How far, of all weight, float sums may be from what they should be equal to."""


def _place(weights: Any, q: float) -> tuple[int, bool]:
    """The first place up to which there is the share q of the weight, and whether it is just that
    share; of weights that are not whole, to their rounding."""
    if weights.dtype.kind == "f":
        below = np.cumsum(weights)
        wanted, slack = q * below[-1], _ROUNDING * below[-1]
        at = int(np.searchsorted(below, wanted - slack))
        return at, bool(abs(below[at] - wanted) <= slack)
    # In integers of any size, as a product of floats may pass the weight it should be equal to.
    large = len(weights) * int(weights.max()) >= 2**62
    below = np.cumsum(weights.astype(object) if large else weights)
    share = Fraction(q) * int(below[-1])
    at = int(np.searchsorted(below, math.ceil(share)))
    return at, int(below[at]) == share


def residual_quantile(
    residuals: ResidualIndex, *, q: float = 0.5, undefined: float | None = None
) -> float:
    """The smallest y_true − y_pred that at least the share `q` of the events do not exceed.

    Always one of the residuals: ``numpy.quantile(..., method="inverted_cdf")``. Above 0 a
    prediction was too low. `q` is in [0, 1]; nan before the first event. Raises MetricError for
    another `q`. Cost: O(distinct residuals).

    >>> residuals = ResidualIndex()
    >>> for true, predicted in [(3.0, 2.5), (1.0, 2.5), (2.0, 2.0)]:
    ...     residuals.update(true, predicted)
    >>> residual_quantile(residuals), residual_quantile(residuals, q=0.9)
    (0.0, 0.5)
    """
    if not is_number(q) or not 0 <= q <= 1:
        raise MetricError(f"q: expected a number from 0 to 1, got {shown(q)}")
    values, weights = residuals.weights()
    if not len(values):
        return undefined_value(NO_EVENTS, undefined)
    return float(values[_place(weights, float(q))[0]])
