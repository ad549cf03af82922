"""Curves over all thresholds: ROC, precision and recall, detection error trade-off.

An event is predicted positive when ``score >= threshold``. Each curve is a frozen
record of numpy columns; it unpacks into them in scikit-learn's order, and
``to_dict`` returns plain lists. An undefined value is nan in its column, and
``reason`` is its cause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from streameval.events.values import FloatArray
from streameval.metrics.calibration import calibration_curve
from streameval.metrics.pr_gain import pr_gain_curve
from streameval.metrics.thresholds import (
    Counts,
    class_missing,
    columns_of,
    iterate_columns,
    quotients,
    threshold_counts,
    to_dict_as,
)
from streameval.states.score_index import ScoreIndex

__all__ = [
    "CURVES",
    "DetCurve",
    "PrecisionRecallCurve",
    "RocCurve",
    "det_curve",
    "precision_recall_curve",
    "roc_curve",
]


@dataclass(frozen=True, slots=True, eq=False)
class RocCurve:
    """False and true positive rates as the threshold falls; three columns of one length."""

    fpr: FloatArray
    tpr: FloatArray
    threshold: FloatArray
    reason: str = ""

    columns = columns_of
    __iter__ = iterate_columns
    to_dict = to_dict_as("roc")


def roc_curve(index: ScoreIndex, *, drop_intermediate: bool = True) -> RocCurve:
    """The ROC curve: (FPR, TPR) at every distinct threshold, descending.

    The first point is (0, 0) at threshold ``+inf``. Equal to scikit-learn's
    ``roc_curve``, which also drops points by default.

    Args:
        index: Scores in any unit.
        drop_intermediate: Leave out collinear points: those in the middle of
            a run of equal steps.

    Returns:
        The rates of a class that was not seen are nan.

    Cost:
        O(distinct scores).

    >>> curve = roc_curve(ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    >>> fpr, tpr, threshold = curve
    >>> fpr.tolist(), tpr.tolist(), threshold.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0], [inf, 0.8, 0.4, 0.35, 0.1])
    """
    counts = threshold_counts(index.groups())
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


@dataclass(frozen=True, slots=True, eq=False)
class PrecisionRecallCurve:
    """Precision and recall as the threshold rises.

    ``precision`` and ``recall`` end with the point (1, 0), which has no
    threshold, so ``threshold`` is one shorter, as in scikit-learn.
    """

    precision: FloatArray
    recall: FloatArray
    threshold: FloatArray
    reason: str = ""

    columns = columns_of
    __iter__ = iterate_columns
    to_dict = to_dict_as("precision_recall")


def precision_recall_curve(
    index: ScoreIndex, *, drop_intermediate: bool = False
) -> PrecisionRecallCurve:
    """Precision and recall at every distinct threshold, ascending.

    Equal to scikit-learn's ``precision_recall_curve``, except that recall is
    nan, not 1, while no positive was seen.

    Args:
        index: Scores in any unit.
        drop_intermediate: Leave out points between two others of the same recall.

    Cost:
        O(distinct scores).

    >>> curve = precision_recall_curve(
    ...     ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    >>> curve.recall.tolist(), curve.threshold.tolist()
    ([1.0, 1.0, 0.5, 0.5, 0.0], [0.1, 0.35, 0.4, 0.8])
    >>> curve.precision.tolist()
    [0.5, 0.6666666666666666, 0.5, 1.0, 1.0]
    """
    counts = threshold_counts(index.groups())
    tp, fp, threshold = counts.tp[1:], counts.fp[1:], counts.threshold[1:]
    if drop_intermediate and len(tp) > 2:
        kept = _ends_of_level_runs(tp)
        tp, fp, threshold = tp[kept], fp[kept], threshold[kept]
    recall = quotients(tp, counts.positives)
    seen = bool(counts.positives)
    return PrecisionRecallCurve(
        precision=np.append(quotients(tp, tp + fp)[::-1], 1.0),
        recall=np.append(recall[::-1], 0.0 if seen else np.nan),
        threshold=threshold[::-1],
        reason="" if seen else class_missing(counts.positives, counts.negatives),
    )


def _ends_of_level_runs(tp: Counts) -> Counts:
    """True where tp differs from the point before or after, and at both ends."""
    moved = np.diff(tp) != 0
    return np.concatenate(([True], moved[:-1] | moved[1:], [True]))


@dataclass(frozen=True, slots=True, eq=False)
class DetCurve:
    """False positive and false negative rates as the threshold rises; columns of one length."""

    fpr: FloatArray
    fnr: FloatArray
    threshold: FloatArray
    reason: str = ""

    columns = columns_of
    __iter__ = iterate_columns
    to_dict = to_dict_as("det")


def det_curve(index: ScoreIndex, *, drop_intermediate: bool = False) -> DetCurve:
    """The detection error trade-off: FNR against FPR, threshold ascending.

    From the last threshold with FNR 0 to the first (possibly ``+inf``) with
    FPR 0, as scikit-learn's ``det_curve``.

    Args:
        index: Scores in any unit.
        drop_intermediate: Leave out points between two others of the same FNR.

    Returns:
        The rates of a class that was not seen are nan.

    Cost:
        O(distinct scores).

    >>> fpr, fnr, threshold = det_curve(
    ...     ScoreIndex([(False, .1), (False, .4), (True, .35), (True, .8)]))
    >>> fpr.tolist(), fnr.tolist(), threshold.tolist()
    ([0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.35, 0.4, 0.8])
    """
    counts = threshold_counts(index.groups())
    tp, fp, threshold = counts.tp, counts.fp, counts.threshold
    if drop_intermediate and len(tp) > 2:
        kept = _ends_of_level_runs(tp)
        tp, fp, threshold = tp[kept], fp[kept], threshold[kept]
    first = int(np.searchsorted(fp, 0, side="right")) - 1
    last = int(np.searchsorted(tp, tp[-1])) + 1
    cut = slice(first, last)
    return DetCurve(
        fpr=quotients(fp[cut][::-1], counts.negatives),
        fnr=quotients((tp[-1] - tp[cut])[::-1], counts.positives),
        threshold=threshold[cut][::-1],
        reason=class_missing(counts.positives, counts.negatives),
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
            CurveRow(
                "calibration",
                calibration_curve,
                {"binary": "probability", "multiclass": "class_probability"},
                served=True,
            ),
        )
    }
)
"""Every curve by name: ``CURVES["roc"].function(index)`` returns the record."""

SERVED_CURVES = tuple(row.name for row in CURVES.values() if row.served)
"""Names of the curves of a service, in the order of its page."""
