"""Metrics of predicted numbers: errors, explained variance and correlation.

Each is computed from exact sums with one division at the end, so that no cancellation, order of
events or overflow on the way changes a digit.
"""

from __future__ import annotations

from streameval.errors import MetricError, shown
from streameval.events.values import is_number
from streameval.metrics.undefined import NO_EVENTS, undefined_value
from streameval.states.error_sums import ErrorSums
from streameval.states.sums.exact_sum import nearest_float, nearest_root

__all__ = [
    "concordance_correlation",
    "explained_variance",
    "mean_absolute_error",
    "mean_error",
    "mean_pinball_loss",
    "mean_squared_error",
    "pearson_r",
    "r2",
    "root_mean_squared_error",
]

_SAME_TRUTH = "all true numbers are equal, so that there is no variance to explain"


def mean_error(errors: ErrorSums, *, undefined: float | None = None) -> float:
    """Mean of y_true − y_pred: above 0 where predictions are too low (the bias is its negative).

    nan before the first event. Cost: O(1).

    >>> errors = ErrorSums()
    >>> for true, predicted in [(3.0, 2.5), (1.0, 2.5)]:
    ...     errors.update(true, predicted)
    >>> mean_error(errors)
    -0.5
    """
    at = errors.moments()
    if not at.count:
        return undefined_value(NO_EVENTS, undefined)
    return nearest_float(at.error << at.count_shift, at.count << at.shift)


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
    if not at.count:
        return undefined_value(NO_EVENTS, undefined)
    return nearest_float(at.absolute << at.count_shift, at.count << at.shift)


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
    if not at.count:
        return undefined_value(NO_EVENTS, undefined)
    return nearest_float(at.error_squares << at.count_shift, at.count << 2 * at.shift)


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
    if not at.count:
        return undefined_value(NO_EVENTS, undefined)
    return nearest_root(at.error_squares << at.count_shift, at.count << 2 * at.shift)


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
    if not at.count:
        return undefined_value(NO_EVENTS, undefined)
    spread = at.true_spread
    if not spread:
        return undefined_value(_SAME_TRUTH, undefined)
    return nearest_float(spread - at.count * at.error_squares, spread)


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
    if not at.count:
        return undefined_value(NO_EVENTS, undefined)
    spread = at.true_spread
    if not spread:
        return undefined_value(_SAME_TRUTH, undefined)
    return nearest_float(spread - at.error_spread, spread)


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
    if not at.count:
        return undefined_value(NO_EVENTS, undefined)
    share, whole = float(alpha).as_integer_ratio()
    units = share * at.under + (whole - share) * (at.under - at.error)
    return nearest_float(units << at.count_shift, (at.count << at.shift) * whole)


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
    if not at.count:
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
    if not at.count:
        return undefined_value(NO_EVENTS, undefined)
    apart = at.true_spread + at.predicted_spread + (at.error**2 << at.count_shift)
    if not apart:
        return undefined_value("all numbers are equal", undefined)
    return nearest_float(2 * at.joint_spread, apart)
