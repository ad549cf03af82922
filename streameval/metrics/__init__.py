"""Metrics: pure functions of states.

Every function takes a state and, by keyword, its options; ``undefined=`` is a
number in place of an undefined value, which is otherwise ``nan`` with a reason
(:class:`Undefined`). :data:`METRICS` holds them all by name.

>>> from streameval import metrics
>>> from streameval.states.confusion import ConfusionCounts
>>> counts = ConfusionCounts()
>>> counts.update_many(["cat", "dog", "dog"], ["cat", "dog", "cat"])
>>> metrics.f1(counts, positive="cat"), metrics.f1_macro(counts)
(0.6666666666666666, 0.6666666666666666)
"""

from __future__ import annotations

from inspect import isfunction

from streameval.metrics.agreement import (
    cohen_kappa,
    kappa_m,
    kappa_temporal,
    matthews_corrcoef,
)
from streameval.metrics.binormal import (
    BinormalModel,
    BinormalRoc,
    binormal_auc,
    binormal_model,
    binormal_roc,
)
from streameval.metrics.calibration import (
    CalibrationCurve,
    calibration_curve,
    expected_calibration_error,
    max_calibration_error,
)
from streameval.metrics.curves import (
    CURVES,
    DetCurve,
    PrecisionRecallCurve,
    RocCurve,
    det_curve,
    precision_recall_curve,
    roc_curve,
)
from streameval.metrics.cut_points import (
    CUT_POINTS,
    CutPoint,
    cost_cut,
    f1_cut,
    fbeta_cut,
    fpr_cut,
    mcc_cut,
    precision_cut,
    youden_cut,
)
from streameval.metrics.evidence import (
    informedness,
    markedness,
    negative_likelihood_ratio,
    positive_likelihood_ratio,
)
from streameval.metrics.f_measures import f1, fbeta, fowlkes_mallows, jaccard
from streameval.metrics.labels import accuracy, error_rate, precision, recall, support
from streameval.metrics.macro import (
    balanced_accuracy,
    f1_macro,
    geometric_mean,
    precision_macro,
    recall_macro,
)
from streameval.metrics.metric import Metric, of_states
from streameval.metrics.multiclass import (
    PairwiseAuc,
    roc_auc_micro,
    roc_auc_ovo,
    roc_auc_ovr,
    roc_auc_pairs,
)
from streameval.metrics.pr_gain import PrGainCurve, pr_gain_auc, pr_gain_curve
from streameval.metrics.prevalence import (
    prevalence_weighted_precision,
    prevalence_weighted_recall,
)
from streameval.metrics.probability import brier_score, log_loss, top_k_accuracy
from streameval.metrics.ranking import (
    average_precision,
    break_even,
    eleven_point_average_precision,
    gini,
    ks,
    partial_roc_auc,
    roc_auc,
)
from streameval.metrics.rates import fnr, fpr, npv, specificity
from streameval.metrics.registry import (
    METRICS,
    ROWS,
    compute,
    find,
    left_out,
    shown_metrics,
)
from streameval.metrics.thresholds import ThresholdTable, threshold_table
from streameval.metrics.undefined import Undefined, reason_of

__all__ = [
    "CURVES",
    "CUT_POINTS",
    "METRICS",
    "ROWS",
    "BinormalModel",
    "BinormalRoc",
    "CalibrationCurve",
    "CutPoint",
    "DetCurve",
    "Metric",
    "PairwiseAuc",
    "PrGainCurve",
    "PrecisionRecallCurve",
    "RocCurve",
    "ThresholdTable",
    "Undefined",
    "accuracy",
    "average_precision",
    "balanced_accuracy",
    "binormal_auc",
    "binormal_model",
    "binormal_roc",
    "break_even",
    "brier_score",
    "calibration_curve",
    "cohen_kappa",
    "compute",
    "cost_cut",
    "det_curve",
    "eleven_point_average_precision",
    "error_rate",
    "expected_calibration_error",
    "f1",
    "f1_cut",
    "f1_macro",
    "fbeta",
    "fbeta_cut",
    "find",
    "fnr",
    "fowlkes_mallows",
    "fpr",
    "fpr_cut",
    "geometric_mean",
    "gini",
    "informedness",
    "jaccard",
    "kappa_m",
    "kappa_temporal",
    "ks",
    "left_out",
    "log_loss",
    "markedness",
    "matthews_corrcoef",
    "max_calibration_error",
    "mcc_cut",
    "negative_likelihood_ratio",
    "npv",
    "partial_roc_auc",
    "positive_likelihood_ratio",
    "pr_gain_auc",
    "pr_gain_curve",
    "precision",
    "precision_cut",
    "precision_macro",
    "precision_recall_curve",
    "prevalence_weighted_precision",
    "prevalence_weighted_recall",
    "reason_of",
    "recall",
    "recall_macro",
    "roc_auc",
    "roc_auc_micro",
    "roc_auc_ovo",
    "roc_auc_ovr",
    "roc_auc_pairs",
    "roc_curve",
    "shown_metrics",
    "specificity",
    "support",
    "threshold_table",
    "top_k_accuracy",
    "youden_cut",
]

for _name in __all__:
    _value = globals()[_name]
    if isfunction(_value) and _value not in (compute, find, left_out, reason_of, shown_metrics):
        globals()[_name] = of_states(_value)
