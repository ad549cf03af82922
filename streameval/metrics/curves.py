"""Curves over all thresholds: ROC, precision and recall and their gain, detection error trade-off.

Precision–recall–gain puts precision and recall on a scale with meaningful arithmetic means: Flach
& Kull, "Precision-Recall-Gain Curves: PR Analysis Done Right", NIPS 2015.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from streameval.events.values import FloatArray, Label
from streameval.metrics.averages import check_choice
from streameval.metrics.calibration import calibration_curve, quantile_calibration_curve
from streameval.metrics.score_profiles import (
    actual_vs_predicted,
    gain_curve,
    residual_distribution,
    score_distribution,
    threshold_metrics,
)
from streameval.metrics.thresholds import (
    Counts,
    CurveColumns,
    class_missing,
    coarsened,
    plain,
    quotients,
    threshold_counts,
    widened,
)
from streameval.metrics.undefined import NO_EVENTS, undefined_value
from streameval.states.class_scores import ClassScores
from streameval.states.ranking.score_groups import ScoreGroups
from streameval.states.score_index import ScoreIndex
from streameval.tasks.registry import TASKS

__all__ = [
    "CURVES",
    "DetCurve",
    "PrGainCurve",
    "PrecisionRecallCurve",
    "RocCurve",
    "det_curve",
    "pr_gain_auc",
    "pr_gain_curve",
    "precision_recall_curve",
    "precision_recall_curve_ovr",
    "roc_curve",
    "roc_curve_ovr",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RocCurve(CurveColumns):
    """False and true positive rates as the threshold falls; three columns of one length."""

    fpr: FloatArray
    tpr: FloatArray
    threshold: FloatArray
    reason: str = ""
    _name: ClassVar[str] = "roc"


def roc_curve(index: ScoreIndex, *, drop_intermediate: bool = True) -> RocCurve:
    """The ROC curve: (FPR, TPR) at every distinct threshold, descending.

    The first point is (0, 0) at threshold ``+inf``. Equal to scikit-learn's ``roc_curve``:
    `drop_intermediate` leaves out collinear points, those in the middle of a run of equal steps.
    The rates of a class that was not seen are nan. Cost: O(distinct scores).

    >>> curve = roc_curve(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    >>> fpr, tpr, threshold = curve
    >>> fpr.tolist(), tpr.tolist(), threshold.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0], [inf, 0.8, 0.4, 0.35, 0.1])
    """
    return _roc_of(index.groups(), drop_intermediate)


def _roc_of(groups: ScoreGroups, drop_intermediate: bool) -> RocCurve:
    counts = threshold_counts(groups)
    tp, fp, threshold = counts.tp, counts.fp, counts.threshold
    if drop_intermediate and len(tp) > 3:
        # Second differences of the counts, from the first score on, as scikit-learn does;
        # (0, 0) and the two ends always stay.
        corner = (np.diff(tp[1:], 2) != 0) | (np.diff(fp[1:], 2) != 0)
        kept = np.concatenate(([True, True], corner, [True]))
        tp, fp, threshold = tp[kept], fp[kept], threshold[kept]
    return RocCurve(
        fpr=quotients(fp, counts.negatives),
        tpr=quotients(tp, counts.positives),
        threshold=threshold,
        reason=class_missing(counts.positives, counts.negatives),
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrecisionRecallCurve(CurveColumns):
    """Precision and recall as the threshold rises.

    Both end with the point (1, 0), which has no threshold: ``threshold`` is one shorter, as in
    scikit-learn.
    """

    precision: FloatArray
    recall: FloatArray
    threshold: FloatArray
    reason: str = ""
    _name: ClassVar[str] = "precision_recall"


def precision_recall_curve(
    index: ScoreIndex, *, drop_intermediate: bool = False
) -> PrecisionRecallCurve:
    """Precision and recall at every distinct threshold, ascending.

    Equal to scikit-learn's ``precision_recall_curve``, except that recall is nan, not 1, while
    no positive was seen. `drop_intermediate` leaves out points between two others of the same
    recall. Cost: O(distinct scores).

    >>> curve = precision_recall_curve(
    ...     ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    >>> curve.recall.tolist(), curve.threshold.tolist()
    ([1.0, 1.0, 0.5, 0.5, 0.0], [0.1, 0.35, 0.4, 0.8])
    >>> curve.precision.tolist()
    [0.5, 0.6666666666666666, 0.5, 1.0, 1.0]
    """
    return _precision_recall_of(index.groups(), drop_intermediate)


def _precision_recall_of(groups: ScoreGroups, drop_intermediate: bool) -> PrecisionRecallCurve:
    counts = threshold_counts(groups)
    tp, fp, threshold = counts.tp[1:], counts.fp[1:], counts.threshold[1:]
    if drop_intermediate:
        tp, fp, threshold = _ends_of_level_runs(tp, fp, threshold)
    recall = quotients(tp, counts.positives)
    seen = bool(counts.positives)
    return PrecisionRecallCurve(
        precision=np.append(quotients(tp, tp + fp)[::-1], 1.0),
        recall=np.append(recall[::-1], 0.0 if seen else np.nan),
        threshold=threshold[::-1],
        reason="" if seen else class_missing(counts.positives, counts.negatives),
    )


def _ends_of_level_runs(tp: Counts, *others: Counts) -> list[Counts]:
    """The rows at which tp differs from that before or after, and both ends."""
    moved = np.diff(tp) != 0
    kept = np.concatenate(([True], moved[:-1] | moved[1:], [True]))[: len(tp)]
    return [column[kept] for column in (tp, *others)]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DetCurve(CurveColumns):
    """False positive and false negative rates as the threshold rises; columns of one length."""

    fpr: FloatArray
    fnr: FloatArray
    threshold: FloatArray
    reason: str = ""
    _name: ClassVar[str] = "det"


def det_curve(index: ScoreIndex, *, drop_intermediate: bool = False) -> DetCurve:
    """The detection error trade-off: FNR against FPR, threshold ascending.

    From the last threshold with FNR 0 to the first (possibly ``+inf``) with FPR 0, as
    scikit-learn's ``det_curve``. `drop_intermediate` leaves out points between two others of the
    same FNR. The rates of a class that was not seen are nan. Cost: O(distinct scores).

    >>> fpr, fnr, threshold = det_curve(
    ...     ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    >>> fpr.tolist(), fnr.tolist(), threshold.tolist()
    ([0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.35, 0.4, 0.8])
    """
    counts = threshold_counts(index.groups())
    tp, fp, threshold = counts.tp, counts.fp, counts.threshold
    if drop_intermediate:
        tp, fp, threshold = _ends_of_level_runs(tp, fp, threshold)
    first = int(np.searchsorted(fp, 0, side="right")) - 1
    last = int(np.searchsorted(tp, tp[-1])) + 1
    cut = slice(first, last)
    return DetCurve(
        fpr=quotients(fp[cut][::-1], counts.negatives),
        fnr=quotients((tp[-1] - tp[cut])[::-1], counts.positives),
        threshold=threshold[cut][::-1],
        reason=class_missing(counts.positives, counts.negatives),
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PrGainCurve(CurveColumns):
    """Recall gain in [0, 1] against precision gain, as the threshold falls.

    If no threshold gives a recall gain of exactly 0, the curve starts at its crossing of that
    axis, with a threshold of nan.
    """

    recall_gain: FloatArray
    precision_gain: FloatArray
    threshold: FloatArray
    reason: str = ""
    _name: ClassVar[str] = "pr_gain"


def pr_gain_curve(index: ScoreIndex) -> PrGainCurve:
    """The precision–recall–gain curve, from a recall gain of 0 (recall = π) on.

    With π the share of positives, a value v of precision or recall becomes the gain
    (v − π)/((1 − π)·v): 0 if every event is predicted positive, 1 at best; precision gain may be
    negative. Between two thresholds the curve is a straight line, ties included. Empty, with a
    reason, without both classes and where scores have been coarsened. Cost: O(distinct scores).

    >>> curve = pr_gain_curve(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    >>> curve.recall_gain.tolist(), curve.precision_gain.tolist()
    ([0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.5, 0.0])
    """
    counts = threshold_counts(index.groups())
    reason = class_missing(counts.positives, counts.negatives) or coarsened(index)
    if reason:
        return PrGainCurve.empty(reason)
    positives, negatives = counts.positives, counts.negatives
    # recall ≥ π  ⇔  TP·(P + N) ≥ P²
    wide = widened(counts.tp, 2 * positives * (positives + negatives))
    lead = wide * (positives + negatives) - positives * positives
    first = int(np.searchsorted(lead, 0))
    tp, fp = wide[first:], widened(counts.fp[first:], 2 * positives * negatives)
    recall_gain = quotients(lead[first:], negatives * tp)
    precision_gain = quotients(negatives * tp - positives * fp, negatives * tp)
    threshold = counts.threshold[first:]
    if lead[first] > 0:
        start = _crossing(counts.tp, counts.fp, first, positives, negatives)
        recall_gain = np.concatenate(([0.0], recall_gain))
        precision_gain = np.concatenate(([start], precision_gain))
        threshold = np.concatenate(([math.nan], threshold))
    return PrGainCurve(recall_gain, precision_gain, threshold)


def _crossing(tp: Counts, fp: Counts, row: int, positives: float, negatives: float) -> float:
    """Precision gain where the line from row − 1 to row of the counts crosses recall = π."""
    tp0, fp0 = plain(tp[row - 1]), plain(fp[row - 1])
    tp1, fp1 = plain(tp[row]), plain(fp[row])
    total = positives + negatives
    # All over (tp1 − tp0)·total, to divide once.
    wanted_tp = positives * positives * (tp1 - tp0)
    wanted_fp = fp0 * (tp1 - tp0) * total + (positives * positives - tp0 * total) * (fp1 - fp0)
    return (negatives * wanted_tp - positives * wanted_fp) / (negatives * wanted_tp)


def pr_gain_auc(index: ScoreIndex, *, undefined: float | None = None) -> float:
    """Area under the precision–recall–gain curve, over recall gain from 0 to 1.

    At most 1; 0 for a constant score, below 0 for worse. Undefined while a class is missing, and
    once scores have been coarsened. Cost: O(distinct scores).

    >>> pr_gain_auc(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    0.25
    """
    curve = pr_gain_curve(index)
    if curve.reason:
        return undefined_value(curve.reason, undefined)
    widths = np.diff(curve.recall_gain)
    heights = curve.precision_gain[1:] + curve.precision_gain[:-1]
    return math.fsum((widths * heights).tolist()) / 2


CurveAverage: TypeAlias = Literal["macro", "micro", "weighted"]
_Curve = TypeVar("_Curve", RocCurve, PrecisionRecallCurve)


def roc_curve_ovr(
    scores: ClassScores, *, average: CurveAverage | None = "macro", drop_intermediate: bool = True
) -> RocCurve | dict[Label, RocCurve]:
    """The ROC curve of several classes: of each against the rest, or an average.

    `average` is ``"macro"``, at each FPR the mean of the classes' TPR; ``"weighted"``, weighted by
    the number of events of the class; ``"micro"``, the curve of all (event, label) cases pooled;
    or None for a dict of label to curve. Raises MetricError for another. `drop_intermediate`
    leaves out collinear points, of each class and of ``"micro"``.

    A mean has no thresholds: they are nan. Its area is the mean of the areas,
    :func:`~streameval.metrics.multiclass.roc_auc_ovr`. Classes without a curve are left out of
    it; where none has one, it is empty, with a reason. Cost: O(classes · scores), of a mean times
    the logarithm.

    Source: Fawcett (2006), vertical averaging.

    >>> scores = ClassScores()
    >>> scores.update("cat", {"cat": 0.75, "dog": 0.25})
    >>> scores.update("dog", {"cat": 0.5, "dog": 0.5})
    >>> scores.update("dog", {"cat": 1.0})
    >>> curve = roc_curve_ovr(scores)
    >>> curve.fpr.tolist(), curve.tpr.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0, 1.0], [0.0, 0.25, 0.25, 0.75, 0.75, 1.0])
    """
    curve_of = partial(_roc_of, drop_intermediate=drop_intermediate)
    return _of_classes(scores, average, curve_of, RocCurve.empty, _mean_roc)


def precision_recall_curve_ovr(
    scores: ClassScores, *, average: CurveAverage | None = "macro", drop_intermediate: bool = False
) -> PrecisionRecallCurve | dict[Label, PrecisionRecallCurve]:
    """Precision and recall of several classes: of each against the rest, or an average.

    Averages, thresholds and cost are as those of :func:`roc_curve_ovr`; ``"macro"`` is at each
    recall the mean of the classes' precisions at the highest threshold that reaches it. The steps
    of a mean have the mean of the classes' areas,
    :func:`~streameval.metrics.multiclass.average_precision_ovr`. `drop_intermediate` leaves out
    points between two others of the same recall.

    >>> scores = ClassScores()
    >>> scores.update("cat", {"cat": 0.75, "dog": 0.25})
    >>> scores.update("dog", {"cat": 0.5, "dog": 0.5})
    >>> scores.update("dog", {"cat": 1.0})
    >>> curve = precision_recall_curve_ovr(scores)
    >>> curve.recall.tolist(), [round(p, 6) for p in curve.precision.tolist()]
    ([1.0, 0.5, 0.0], [0.583333, 0.75, 1.0])
    """
    curve_of = partial(_precision_recall_of, drop_intermediate=drop_intermediate)
    empty = PrecisionRecallCurve.empty
    return _of_classes(scores, average, curve_of, empty, _mean_precision_recall)


def _of_classes(
    scores: ClassScores,
    average: CurveAverage | None,
    curve_of: Callable[[ScoreGroups], _Curve],
    empty: Callable[[str], _Curve],
    mean: Callable[[Sequence[_Curve], FloatArray], _Curve],
) -> _Curve | dict[Label, _Curve]:
    check_choice("average", average, ("macro", "micro", "weighted", None))
    if average == "micro":
        return curve_of(scores.pooled())
    curves = {label: curve_of(scores.one_vs_rest_groups(label)) for label in scores.classes}
    if average is None:
        return curves
    defined = [label for label, curve in curves.items() if not curve.reason]
    if not defined:
        return empty(next((curve.reason for curve in curves.values()), NO_EVENTS))
    weights = [scores.true_count(label) if average == "weighted" else 1 for label in defined]
    shares = np.array(weights, dtype=np.float64)
    return mean([curves[label] for label in defined], shares / (shares.sum() or 1.0))


def _mean_roc(curves: Sequence[RocCurve], shares: FloatArray) -> RocCurve:
    """The mean of the TPRs at each FPR of some curve: where one rises, two points."""
    grid = np.unique(np.concatenate([curve.fpr for curve in curves]))
    low, high = np.zeros(len(grid)), np.zeros(len(grid))
    for curve, share in zip(curves, shares, strict=True):
        first = np.searchsorted(curve.fpr, grid)
        last = np.searchsorted(curve.fpr, grid, side="right") - 1
        # Between two points of this curve, where both are on the line from `last` to `first`.
        before, after = np.minimum(first, last), np.maximum(first, last)
        width = curve.fpr[after] - curve.fpr[before]
        along = np.where(width > 0, (grid - curve.fpr[before]) / np.where(width > 0, width, 1), 0)
        on_line = curve.tpr[before] + along * (curve.tpr[after] - curve.tpr[before])
        between = first > last
        low += share * np.where(between, on_line, curve.tpr[first])
        high += share * np.where(between, on_line, curve.tpr[last])
    twice = np.column_stack([grid, grid]).ravel()
    heights = np.minimum(np.column_stack([low, high]).ravel(), 1.0)
    heights[-1] = 1.0
    kept = np.append(True, (np.diff(twice) > 0) | (np.diff(heights) > 0))
    return RocCurve(twice[kept], heights[kept], np.full(int(kept.sum()), math.nan))


def _mean_precision_recall(
    curves: Sequence[PrecisionRecallCurve], shares: FloatArray
) -> PrecisionRecallCurve:
    """The mean of the precisions at each recall of some curve."""
    grid = np.unique(np.concatenate([curve.recall[:-1] for curve in curves]))
    grid = grid[grid > 0]
    precision = np.zeros(len(grid))
    for curve, share in zip(curves, shares, strict=True):
        # Thresholds descend: the first that reaches each recall.
        reached = np.searchsorted(curve.recall[-2::-1], grid)
        precision += share * curve.precision[-2::-1][reached]
    return PrecisionRecallCurve(
        precision=np.append(np.minimum(precision, 1.0)[::-1], 1.0),
        recall=np.append(grid[::-1], 0.0),
        threshold=np.full(len(grid), math.nan),
    )


class CurveRow(NamedTuple):
    """A curve's name, its function, and the state that it reads in each task."""

    name: str
    function: Callable[..., Any]
    states: Mapping[str, str]
    served: bool = False
    """The service publishes the curve and its page draws it."""


CURVES: Mapping[str, CurveRow] = MappingProxyType(
    {
        row.name: row
        for row in (
            CurveRow("roc", roc_curve, {"binary": "index"}, served=True),
            CurveRow("precision_recall", precision_recall_curve, {"binary": "index"}, served=True),
            CurveRow("det", det_curve, {"binary": "index"}),
            CurveRow("pr_gain", pr_gain_curve, {"binary": "index"}),
            CurveRow("gain", gain_curve, {"binary": "index"}),
            CurveRow("threshold_metrics", threshold_metrics, {"binary": "index"}),
            CurveRow("score_distribution", score_distribution, {"binary": "index"}),
            CurveRow(
                "residuals",
                residual_distribution,
                {"regression": "residuals"},
                served=True,
            ),
            CurveRow(
                "actual_vs_predicted",
                actual_vs_predicted,
                {"regression": "prediction_histogram"},
                served=True,
            ),
            CurveRow(
                "calibration",
                calibration_curve,
                {"binary": "probability", "multiclass": "class_probability"},
                served=True,
            ),
            CurveRow("calibration_quantile", quantile_calibration_curve, {"binary": "index"}),
            CurveRow("roc_ovr", roc_curve_ovr, {"multiclass": "class_scores"}),
            CurveRow(
                "precision_recall_ovr", precision_recall_curve_ovr, {"multiclass": "class_scores"}
            ),
        )
    }
)
"""Every curve by name: ``CURVES["roc"].function(index)`` returns the record."""


def served_curves(task: str) -> tuple[str, ...]:
    """Names of the curves of a service of a task, in the order of its page."""
    numbers = TASKS[task].truth == "numbers"
    return tuple(
        row.name
        for row in CURVES.values()
        if row.served and numbers == any(TASKS[name].truth == "numbers" for name in row.states)
    )


EVERY_SERVED_CURVE = tuple(row.name for row in CURVES.values() if row.served)
"""Names of the curves that services of all tasks have."""
