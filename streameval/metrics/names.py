"""The names of metrics, curves and cut-points as types, so that editors complete them.

Written by ``python -m tests.support.write_names`` from the registries.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["CurveName", "CutPointName", "MetricName"]

MetricName: TypeAlias = Literal[
    "accuracy", "adjusted_balanced_accuracy", "average_precision", "average_precision_macro",
    "average_precision_micro", "average_precision_ovr", "average_precision_ovr_weighted",
    "average_precision_samples", "average_precision_weighted", "balanced_accuracy", "binormal_auc",
    "break_even", "brier_score", "cohen_kappa", "cohen_kappa_linear", "cohen_kappa_quadratic",
    "coverage_error", "d2_brier_score", "d2_log_loss_score", "eleven_point_average_precision",
    "equal_error_rate", "error_rate", "expected_calibration_error", "expected_cost", "f1",
    "f1_macro", "f1_micro", "f1_weighted", "fbeta", "fbeta_macro", "fbeta_micro", "fbeta_weighted",
    "fnr", "fnr_macro", "fnr_micro", "fnr_weighted", "fowlkes_mallows", "fowlkes_mallows_macro",
    "fowlkes_mallows_micro", "fowlkes_mallows_weighted", "fpr", "fpr_macro", "fpr_micro",
    "fpr_weighted", "geometric_mean", "gini", "informedness", "jaccard", "jaccard_macro",
    "jaccard_micro", "jaccard_weighted", "kappa_m", "kappa_temporal", "ks", "l2_calibration_error",
    "label_ranking_average_precision", "label_ranking_loss", "log_loss", "markedness",
    "matthews_corrcoef", "max_calibration_error", "mean_confidence", "mean_score", "median_score",
    "negative_likelihood_ratio", "normalized_entropy", "npv", "npv_macro", "npv_micro",
    "npv_weighted", "partial_roc_auc", "positive_likelihood_ratio", "positive_rate", "pr_gain_auc",
    "precision", "precision_at_k", "precision_at_recall", "precision_macro", "precision_micro",
    "precision_weighted", "prevalence_weighted_precision", "prevalence_weighted_recall",
    "quantile_calibration_error", "recall", "recall_at_k", "recall_at_precision", "recall_macro",
    "recall_micro", "recall_weighted", "roc_auc", "roc_auc_macro", "roc_auc_micro", "roc_auc_ovo",
    "roc_auc_ovo_weighted", "roc_auc_ovr", "roc_auc_ovr_weighted", "roc_auc_samples",
    "roc_auc_weighted", "score_quantile", "sensitivity_at_specificity", "specificity",
    "specificity_at_sensitivity", "specificity_macro", "specificity_micro", "specificity_weighted",
    "support", "top_k_accuracy"
]  # fmt: skip

CurveName: TypeAlias = Literal[
    "calibration", "calibration_quantile", "det", "gain", "pr_gain", "precision_recall",
    "precision_recall_ovr", "roc", "roc_ovr", "score_distribution", "threshold_metrics"
]  # fmt: skip

CutPointName: TypeAlias = Literal[
    "closest_top_left", "cost", "f1", "fbeta", "fpr_at_most", "mcc", "precision_at_least", "youden"
]  # fmt: skip
