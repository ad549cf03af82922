"""The two-normal model of scores: ROC from a mean and a variance of each class, in O(1) memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from streameval.events.values import FloatArray
from streameval.metrics.thresholds import CurveColumns, class_missing, threshold_column
from streameval.metrics.undefined import undefined_value
from streameval.states.moments import ScoreMoments

__all__ = ["BinormalModel", "BinormalRoc", "binormal_auc", "binormal_model", "binormal_roc"]

_NO_SPREAD = "the scores of both classes are constant, so the two-normal model has no spread"
_TOO_WIDE = "the scores are so large that their spread is beyond the largest float"


def _above(threshold: float, mean: float, deviation: float) -> float:
    """Share of a normal distribution at or above the threshold."""
    if not deviation:
        return 1.0 if mean >= threshold else 0.0
    return math.erfc((threshold - mean) / (deviation * math.sqrt(2))) / 2


class BinormalModel(NamedTuple):
    """Mean and standard deviation of the scores of each class.

    >>> model = BinormalModel(mean_positive=5, sd_positive=3.5, mean_negative=-1, sd_negative=3.8)
    >>> round(model.tpr(4), 4), round(model.fpr(4), 4)
    (0.6125, 0.0941)
    """

    mean_positive: float
    sd_positive: float
    mean_negative: float
    sd_negative: float

    def tpr(self, threshold: float) -> float:
        """1 − Φ((T − μ₁)/σ₁): share of positives at or above the threshold."""
        return _above(threshold, self.mean_positive, self.sd_positive)

    def fpr(self, threshold: float) -> float:
        """1 − Φ((T − μ₀)/σ₀): share of negatives at or above the threshold."""
        return _above(threshold, self.mean_negative, self.sd_negative)

    def auc(self, *, undefined: float | None = None) -> float:
        """Φ((μ₁ − μ₀)/√(σ₁² + σ₀²)); nan with a reason where that is 0 or not finite."""
        return _area(self, self.mean_positive - self.mean_negative, undefined)


def _area(model: BinormalModel, distance: float, undefined: float | None) -> float:
    """The AUC of two normal distributions whose means are so far apart."""
    spread = math.hypot(model.sd_positive, model.sd_negative)
    if not spread:
        return undefined_value(_NO_SPREAD, undefined)
    if not math.isfinite(spread):
        return undefined_value(_TOO_WIDE, undefined)
    return math.erfc(-distance / spread / math.sqrt(2)) / 2


def binormal_model(moments: ScoreMoments) -> BinormalModel | None:
    """The model fitted to the events: means and population deviations; None without both classes.

    >>> moments = ScoreMoments()
    >>> for positive, score in [(True, 3.0), (True, 5.0), (False, 1.0), (False, 1.0)]:
    ...     moments.update(positive, score)
    >>> binormal_model(moments)
    BinormalModel(mean_positive=4.0, sd_positive=1.0, mean_negative=1.0, sd_negative=0.0)
    """
    if _missing(moments):
        return None
    numbers: list[Any] = [
        number
        for positive in (True, False)
        for number in (moments.mean(positive), moments.variance(positive))
    ]
    return BinormalModel(numbers[0], math.sqrt(numbers[1]), numbers[2], math.sqrt(numbers[3]))


def _missing(moments: ScoreMoments) -> str:
    return class_missing(moments.count(True), moments.count(False))


def binormal_auc(moments: ScoreMoments, *, undefined: float | None = None) -> float:
    """Area under the ROC curve of the two-normal model, Φ((μ₁ − μ₀)/√(σ₁² + σ₀²)).

    Variances are those of the population (divided by n). It is the AUC of normal scores; for any
    scores exactly, and from their order alone, see :func:`~streameval.metrics.ranking.roc_auc`.
    In [0, 1]; undefined while a class is missing, or where the scores of both are constant or
    spread beyond every float. Cost: O(1), in time and in memory.

    >>> moments = ScoreMoments()
    >>> for positive, score in [(True, 3.0), (True, 5.0), (False, 1.0), (False, 3.0)]:
    ...     moments.update(positive, score)
    >>> round(binormal_auc(moments), 6)
    0.92135
    """
    model, distance = binormal_model(moments), moments.mean_difference()
    if model is None or distance is None:
        return undefined_value(_missing(moments), undefined)
    return _area(model, distance, undefined)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BinormalRoc(CurveColumns):
    """False and true positive rates of the model; three columns of one length."""

    fpr: FloatArray
    tpr: FloatArray
    threshold: FloatArray
    reason: str = ""
    _name: ClassVar[str] = "binormal_roc"


def binormal_roc(moments: ScoreMoments, thresholds: Iterable[float] | None = None) -> BinormalRoc:
    """The ROC curve of the two-normal model; empty, with a reason, where it has no AUC.

    The points are at `thresholds`, in the order wanted; by default at 201 that fall from five
    deviations above the higher mean to five below the lower one, between ``+inf`` and ``−inf``.

    >>> moments = ScoreMoments()
    >>> for positive, score in [(True, 3.0), (True, 5.0), (False, 1.0), (False, 3.0)]:
    ...     moments.update(positive, score)
    >>> curve = binormal_roc(moments, [2.0, 4.0])
    >>> curve.tpr.round(4).tolist(), curve.fpr.round(4).tolist()
    ([0.9772, 0.5], [0.5, 0.0228])
    """
    model = binormal_model(moments)
    if model is None:
        return BinormalRoc.empty(_missing(moments))
    mean_1, sd_1, mean_0, sd_0 = model
    high = max(mean_1 + 5 * sd_1, mean_0 + 5 * sd_0)
    low = min(mean_1 - 5 * sd_1, mean_0 - 5 * sd_0)
    if not math.isfinite(high - low):
        return BinormalRoc.empty(_TOO_WIDE)
    if thresholds is None:
        points = np.concatenate(([math.inf], np.linspace(high, low, 201), [-math.inf]))
    else:
        points = threshold_column(thresholds)
    return BinormalRoc(
        fpr=np.array([model.fpr(point) for point in points.tolist()]),
        tpr=np.array([model.tpr(point) for point in points.tolist()]),
        threshold=points,
    )
