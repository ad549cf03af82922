"""The registry's rows of the metrics that need scores or probabilities."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from streameval.metrics.binormal import binormal_auc
from streameval.metrics.calibration import expected_calibration_error, max_calibration_error
from streameval.metrics.metric import BINARY, MULTICLASS, Metric
from streameval.metrics.multiclass import (
    roc_auc_micro,
    roc_auc_ovo,
    roc_auc_ovr,
)
from streameval.metrics.pr_gain import pr_gain_auc
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

__all__ = ["SCORE_ROWS"]

_WEIGHTED: Mapping[str, Any] = MappingProxyType({"average": "weighted"})
_MACRO: Mapping[str, Any] = MappingProxyType({"average": "macro"})

_RANKING = (
    Metric(
        name="roc_auc",
        function=roc_auc,
        state="index",
        definition="share of (positive, negative) pairs that the score orders rightly, ties half",
        tasks=BINARY,
        shown=BINARY,
    ),
    Metric(
        name="gini",
        function=gini,
        state="index",
        definition="2 · AUC − 1",
        tasks=BINARY,
        low=-1.0,
    ),
    Metric(
        name="ks",
        function=ks,
        state="index",
        definition="largest |TPR − FPR| over all thresholds (Kolmogorov–Smirnov)",
        tasks=BINARY,
    ),
    Metric(
        name="average_precision",
        function=average_precision,
        state="index",
        definition="Σ (R_n − R_{n−1}) · P_n over the distinct scores, descending",
        tasks=BINARY,
        shown=BINARY,
    ),
    Metric(
        name="eleven_point_average_precision",
        function=eleven_point_average_precision,
        state="index",
        definition="mean interpolated precision at recall 0, 0.1, …, 1",
        tasks=BINARY,
    ),
    Metric(
        name="break_even",
        function=break_even,
        state="index",
        definition="the value at which precision equals recall",
        tasks=BINARY,
    ),
    Metric(
        name="pr_gain_auc",
        function=pr_gain_auc,
        state="index",
        definition="area under the precision–recall–gain curve (Flach & Kull 2015)",
        tasks=BINARY,
        low=-math.inf,
    ),
    Metric(
        name="partial_roc_auc",
        function=partial_roc_auc,
        state="index",
        definition="area under the ROC curve up to FPR max_fpr, McClish-standardised",
        tasks=BINARY,
        params=("max_fpr", "mcclish"),
    ),
    Metric(
        name="binormal_auc",
        function=binormal_auc,
        state="moments",
        definition="Φ((μ₁ − μ₀)/√(σ₁² + σ₀²)), the AUC if the scores of each class are normal",
        tasks=BINARY,
    ),
)

_PROBABILITY = tuple(
    row
    for tasks, state, top, subject in (
        (BINARY, "probability", 1.0, "the positive class's probability"),
        (MULTICLASS, "class_probability", 2.0, "the predicted label's probability"),
    )
    for row in (
        Metric(
            name="log_loss",
            function=log_loss,
            state=state,
            definition="mean −ln(probability given to the true class), clipped at 2⁻⁵²",
            tasks=tasks,
            high=math.inf,
            direction="down",
            shown=tasks,
        ),
        Metric(
            name="brier_score",
            function=brier_score,
            state=state,
            definition="mean squared distance between probabilities and what happened",
            tasks=tasks,
            high=top,
            direction="down",
            shown=tasks,
        ),
        Metric(
            name="expected_calibration_error",
            function=expected_calibration_error,
            state=state,
            definition=f"mean gap between {subject} and how often it came true, over bins",
            tasks=tasks,
            direction="down",
            shown=tasks,
        ),
        Metric(
            name="max_calibration_error",
            function=max_calibration_error,
            state=state,
            definition=f"largest gap between {subject} and how often it came true, in any bin",
            tasks=tasks,
            direction="down",
        ),
    )
)

_MULTICLASS = (
    *(
        Metric(
            name=name,
            function=functools.partial(function, average=fixed["average"]),
            state="class_scores",
            definition=definition,
            tasks=MULTICLASS,
            shown=MULTICLASS if shown else frozenset(),
            fixed=fixed,
        )
        for name, function, fixed, shown, definition in (
            ("roc_auc_ovr", roc_auc_ovr, _MACRO, True, "mean over classes of one-vs-rest AUC"),
            (
                "roc_auc_ovr_weighted",
                roc_auc_ovr,
                _WEIGHTED,
                False,
                "mean over classes of one-vs-rest AUC, by support",
            ),
            (
                "roc_auc_ovo",
                roc_auc_ovo,
                _MACRO,
                False,
                "mean over pairs of classes of ½(A(i|j) + A(j|i)) (Hand & Till 2001)",
            ),
            (
                "roc_auc_ovo_weighted",
                roc_auc_ovo,
                _WEIGHTED,
                False,
                "mean over pairs of classes of ½(A(i|j) + A(j|i)), by support",
            ),
        )
    ),
    Metric(
        name="roc_auc_micro",
        function=roc_auc_micro,
        state="class_scores",
        definition="AUC of all (event, label) cases pooled",
        tasks=MULTICLASS,
    ),
    Metric(
        name="top_k_accuracy",
        function=top_k_accuracy,
        state="class_probability",
        definition="share of events whose true label is among the k most probable",
        tasks=MULTICLASS,
        params=("k",),
    ),
)

SCORE_ROWS: tuple[Metric, ...] = (*_RANKING, *_PROBABILITY, *_MULTICLASS)
"""A name that both tasks have stands twice, once with each task's state."""
