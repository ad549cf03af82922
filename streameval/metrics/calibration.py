"""Calibration: observed frequency against predicted probability, in equal-width bins.

Binary (:class:`ProbabilitySums`): the probability of the positive class
against how often the event was positive. Multi-class
(:class:`ClassProbabilitySums`): the probability of an event's predicted label,
its *confidence*, against how often that label was the true one.

The number of bins is the state's. A probability on an edge belongs to the bin
below, as in scikit-learn's ``calibration_curve``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streameval.events.values import FloatArray, Weight
from streameval.metrics.probability import AnySums, missing_probability
from streameval.metrics.thresholds import Counts, columns_of, iterate_columns, to_dict_as
from streameval.metrics.undefined import undefined_value
from streameval.states.probability import ProbabilitySums
from streameval.states.sums.fixed_point import UNIT

__all__ = [
    "CalibrationCurve",
    "calibration_curve",
    "expected_calibration_error",
    "max_calibration_error",
]


def filled_bins(sums: AnySums) -> list[tuple[int, Weight, Weight, Weight]]:
    """(position, weight, observed weight, units of probability) of each bin with events."""
    happened = sums.bin_positives if isinstance(sums, ProbabilitySums) else sums.bin_correct
    rows = zip(sums.bin_weights, happened, sums.bin_probability_units, strict=True)
    return [(position, *row) for position, row in enumerate(rows) if row[0]]


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationCurve:
    """One row for each bin with events.

    ``observed`` is the observed frequency, ``predicted`` the mean probability,
    ``weight`` the events of the bin, ``low`` and ``high`` its edges. The first
    two are scikit-learn's ``prob_true`` and ``prob_pred``.
    """

    observed: FloatArray
    predicted: FloatArray
    weight: Counts
    low: FloatArray
    high: FloatArray
    reason: str = ""

    columns = columns_of
    __iter__ = iterate_columns
    to_dict = to_dict_as("calibration")


def calibration_curve(sums: AnySums) -> CalibrationCurve:
    """The reliability curve: observed frequency against mean probability.

    Returns:
        A row for each bin with events; none, and a reason, while there
        is no event or, binary, while some score lies outside [0, 1].

    Cost:
        O(bins).

    >>> sums = ProbabilitySums(bins=5)
    >>> for positive, probability in [(False, 0.1), (True, 0.125), (True, 0.75)]:
    ...     sums.update(positive, probability)
    >>> curve = calibration_curve(sums)
    >>> curve.observed.tolist(), curve.predicted.tolist(), curve.weight.tolist()
    ([0.5, 1.0], [0.1125, 0.75], [2, 1])
    """
    reason = missing_probability(sums, "calibration")
    rows = [] if reason else filled_bins(sums)
    edges = np.linspace(0.0, 1.0, len(sums.bin_weights) + 1)
    positions = np.array([position for position, *_ in rows], dtype=np.intp)
    return CalibrationCurve(
        observed=np.array([happened / weight for _, weight, happened, _ in rows]),
        predicted=np.array([units / (weight * UNIT) for _, weight, _, units in rows]),
        weight=np.array([weight for _, weight, _, _ in rows]),
        low=edges[positions],
        high=edges[positions + 1],
        reason=reason,
    )


def expected_calibration_error(sums: AnySums, *, undefined: float | None = None) -> float:
    """Mean gap between frequency and probability, over equal-width bins.

        ECE = Σ_b (w_b / W) · |observed_b − predicted_b|

    Returns:
        A fraction in [0, 1]; nan with a reason as :func:`calibration_curve`.

    Cost:
        O(bins).

    >>> sums = ProbabilitySums()
    >>> sums.update(True, 0.75)
    >>> sums.update(False, 0.25)
    >>> expected_calibration_error(sums)
    0.25
    """
    reason = missing_probability(sums, "the calibration error")
    if reason:
        return undefined_value(reason, undefined)
    gap = sum(abs(happened * UNIT - units) for _, _, happened, units in filled_bins(sums))
    return gap / (sums.weight * UNIT)


def max_calibration_error(sums: AnySums, *, undefined: float | None = None) -> float:
    """Largest gap between frequency and probability in any bin with events.

    Returns:
        A fraction in [0, 1]; nan with a reason as :func:`calibration_curve`.

    Cost:
        O(bins).

    >>> sums = ProbabilitySums()
    >>> sums.update(True, 0.75)
    >>> sums.update(False, 0.125)
    >>> max_calibration_error(sums)
    0.25
    """
    reason = missing_probability(sums, "the calibration error")
    if reason:
        return undefined_value(reason, undefined)
    return max(
        abs(happened * UNIT - units) / (weight * UNIT)
        for _, weight, happened, units in filled_bins(sums)
    )
