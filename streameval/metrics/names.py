"""The names of metrics, curves and cut-points as types, so that editors complete them.

Written by ``python -m tests.support.write_names`` from the registries.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["CurveName", "CutPointName", "MetricName"]

MetricName: TypeAlias = Literal[
    "accuracy", "adjusted_balanced_accuracy", "average_precision", "average_precision_macro",
    "average_precision_micro", "average_precision_ovr", "average_precision_ovr_weighted",
    "average_precision_samples", "average_precision_weighted", "balanced_accuracy",
    "balanced_accuracy_macro", "binormal_auc", "break_even", "brier_score", "cohen_kappa",
    "cohen_kappa_linear", "cohen_kappa_macro", "cohen_kappa_quadratic", "concordance_correlation",
    "coverage_error", "d2_brier_score", "d2_log_loss_score", "eleven_point_average_precision",
    "equal_error_rate", "error_rate", "expected_calibration_error", "expected_cost",
    "explained_variance", "f1", "f1_macro", "f1_micro", "f1_samples", "f1_weighted", "fbeta",
    "fbeta_macro", "fbeta_micro", "fbeta_samples", "fbeta_weighted", "fnr", "fnr_macro",
    "fnr_micro", "fnr_weighted", "fowlkes_mallows", "fowlkes_mallows_macro",
    "fowlkes_mallows_micro", "fowlkes_mallows_weighted", "fpr", "fpr_macro", "fpr_micro",
    "fpr_weighted", "geometric_mean", "gini", "hamming_loss", "informedness", "jaccard",
    "jaccard_macro", "jaccard_micro", "jaccard_samples", "jaccard_weighted", "kappa_m",
    "kappa_temporal", "ks", "l2_calibration_error", "label_ranking_average_precision",
    "label_ranking_loss", "log_loss", "markedness", "matthews_corrcoef", "matthews_corrcoef_macro",
    "max_calibration_error", "max_error", "mean_absolute_error", "mean_absolute_percentage_error",
    "mean_confidence", "mean_error", "mean_pinball_loss", "mean_score", "mean_squared_error",
    "mean_squared_log_error", "median_absolute_error", "median_score", "negative_likelihood_ratio",
    "normalized_entropy", "npv", "npv_macro", "npv_micro", "npv_weighted", "partial_roc_auc",
    "pearson_r", "positive_likelihood_ratio", "positive_rate", "pr_gain_auc", "precision",
    "precision_at_k", "precision_at_recall", "precision_macro", "precision_micro",
    "precision_samples", "precision_weighted", "prevalence_weighted_precision",
    "prevalence_weighted_recall", "quantile_calibration_error", "r2", "recall", "recall_at_k",
    "recall_at_precision", "recall_macro", "recall_micro", "recall_samples", "recall_weighted",
    "residual_quantile", "roc_auc", "roc_auc_macro", "roc_auc_micro", "roc_auc_ovo",
    "roc_auc_ovo_weighted", "roc_auc_ovr", "roc_auc_ovr_weighted", "roc_auc_samples",
    "roc_auc_weighted", "root_mean_squared_error", "root_mean_squared_log_error", "score_quantile",
    "sensitivity_at_specificity", "specificity", "specificity_at_sensitivity", "specificity_macro",
    "specificity_micro", "specificity_weighted", "support",
    "symmetric_mean_absolute_percentage_error", "top_k_accuracy"
]  # fmt: skip

CurveName: TypeAlias = Literal[
    "actual_vs_predicted", "calibration", "calibration_quantile", "det", "gain", "pr_gain",
    "precision_recall", "precision_recall_ovr", "residuals", "roc", "roc_ovr", "score_distribution",
    "threshold_metrics"
]  # fmt: skip

CutPointName: TypeAlias = Literal[
    "closest_top_left", "cost", "f1", "fbeta", "fpr_at_most", "mcc", "precision_at_least", "youden"
]  # fmt: skip
