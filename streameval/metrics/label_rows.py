"""The registry's rows of the metrics that ask a confusion.

A metric of one class has a row under its plain name, for binary tasks, and
one for each average, such as ``f1_macro``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from streameval.metrics import (
    agreement,
    evidence,
    f_measures,
    labels,
    macro,
    prevalence,
    rates,
)
from streameval.metrics.averages import Rule
from streameval.metrics.metric import BINARY, BOTH, MULTICLASS, NOWHERE, Metric

__all__ = ["AVERAGES", "LABEL_ROWS", "RULE_OF_MEAN"]

AVERAGES: Mapping[str, str] = MappingProxyType(
    {
        "macro": "the mean of the classes' {}",
        "micro": "{} of the classes' counts added up",
        "weighted": "the mean of the classes' {}, each weighted by its support",
    }
)
"""The averages that have a row of their own, and what they are in words."""

# What is read after every event has a function of its own, which goes straight
# to the sums that are kept current.
_FAST: Mapping[str, Callable[..., float]] = {
    "precision_macro": macro.precision_macro,
    "recall_macro": macro.recall_macro,
    "f1_macro": macro.f1_macro,
    # With one label an event, what is a false positive of one class is a false
    # negative of another: pooled, these are the share predicted right, or wrong.
    "precision_micro": labels.accuracy,
    "recall_micro": labels.accuracy,
    "f1_micro": labels.accuracy,
    "fnr_micro": labels.error_rate,
    # A class's support cancels its denominator.
    "recall_weighted": labels.accuracy,
    "fnr_weighted": labels.error_rate,
}


def _family(
    function: Callable[..., Any],
    definition: str,
    *,
    direction: str = "up",
    params: tuple[str, ...] = (),
    shown: bool = False,
    shown_averages: frozenset[str] = frozenset(),
) -> tuple[Metric, ...]:
    """The plain row, about the positive class, and one for each average."""
    name = function.__name__
    plain = Metric(
        name=name,
        function=function,
        state="confusion",
        definition=definition,
        tasks=BINARY,
        direction=direction,
        params=(*params, "average"),
        needs_positive=True,
        shown=BINARY if shown else NOWHERE,
    )
    rows = [plain]
    for average, words in AVERAGES.items():
        full = f"{name}_{average}"
        rows.append(
            Metric(
                name=full,
                function=_FAST.get(full, functools.partial(function, average=average)),
                state="confusion",
                definition=words.format(name),
                tasks=BOTH,
                direction=direction,
                params=params,
                shown=MULTICLASS if average in shown_averages else NOWHERE,
                fixed=MappingProxyType({"average": average}),
            )
        )
    return tuple(rows)


def _of_one_class(function: Callable[..., Any], definition: str, **fields: Any) -> Metric:
    """A row about the positive class whose averages say nothing."""
    return Metric(
        name=function.__name__,
        function=function,
        state="confusion",
        definition=definition,
        tasks=BINARY,
        needs_positive=True,
        **fields,
    )


def _of_all(function: Callable[..., Any], definition: str, **fields: Any) -> Metric:
    """A row about all classes together."""
    return Metric(
        name=function.__name__,
        function=function,
        state="confusion",
        definition=definition,
        **fields,
    )


def _kappa(weights: Literal["linear", "quadratic"]) -> Metric:
    distance = {"linear": "distance", "quadratic": "squared distance"}[weights]
    return Metric(
        name=f"cohen_kappa_{weights}",
        function=functools.partial(agreement.cohen_kappa, weights=weights),
        state="confusion",
        definition=f"cohen_kappa where an error counts by its {distance} in label order",
        low=-1.0,
        fixed=MappingProxyType({"weights": weights}),
    )


_MACRO = frozenset({"macro"})

LABEL_ROWS: tuple[Metric, ...] = (
    _of_all(labels.accuracy, "share of events predicted right", shown=BOTH),
    _of_all(labels.error_rate, "share of events predicted wrong: 1 - accuracy", direction="down"),
    _of_all(macro.balanced_accuracy, "mean recall of the classes that some event has", shown=BOTH),
    *_family(
        labels.precision,
        "share of the events predicted positive that are: TP / (TP + FP)",
        shown=True,
        shown_averages=_MACRO,
    ),
    *_family(
        labels.recall,
        "share of the positive events predicted so: TP / (TP + FN)",
        shown=True,
        shown_averages=_MACRO,
    ),
    *_family(
        f_measures.f1,
        "harmonic mean of precision and recall: 2 TP / (2 TP + FP + FN)",
        shown=True,
        shown_averages=frozenset({"macro", "weighted"}),
    ),
    *_family(
        f_measures.fbeta,
        "F-measure in which recall counts beta times as much (1 unless given)",
        params=("beta",),
    ),
    *_family(
        f_measures.jaccard,
        "share of the events positive or predicted so that are both: TP / (TP + FP + FN)",
    ),
    *_family(f_measures.fowlkes_mallows, "geometric mean of precision and recall"),
    *_family(
        rates.specificity, "share of the negative events predicted so: TN / (TN + FP)", shown=True
    ),
    *_family(
        rates.fpr,
        "share of the negative events predicted positive: FP / (FP + TN)",
        direction="down",
    ),
    *_family(
        rates.fnr,
        "share of the positive events predicted negative: FN / (FN + TP)",
        direction="down",
    ),
    *_family(rates.npv, "share of the events predicted negative that are: TN / (TN + FN)"),
    _of_all(macro.geometric_mean, "K-th root of the product of the K classes' recalls"),
    _of_all(
        agreement.matthews_corrcoef,
        "correlation of the true and the predicted class",
        low=-1.0,
        shown=BOTH,
    ),
    Metric(
        name="cohen_kappa",
        function=agreement.cohen_kappa,
        state="confusion",
        definition="agreement beyond chance: (p_o - p_e) / (1 - p_e)",
        low=-1.0,
        params=("weights",),
        shown=BOTH,
    ),
    _kappa("linear"),
    _kappa("quadratic"),
    _of_all(
        agreement.kappa_m,
        "accuracy beyond always answering the most frequent class",
        low=-math.inf,
    ),
    _of_all(
        agreement.kappa_temporal,
        "accuracy beyond answering the previous event's true label",
        low=-math.inf,
        also=("succession",),
    ),
    _of_one_class(evidence.informedness, "recall + specificity - 1 (Youden's J)", low=-1.0),
    _of_one_class(evidence.markedness, "precision + npv - 1", low=-1.0),
    _of_one_class(evidence.positive_likelihood_ratio, "recall / fpr", high=math.inf),
    _of_one_class(
        evidence.negative_likelihood_ratio,
        "fnr / specificity",
        high=math.inf,
        direction="down",
    ),
    _of_all(
        prevalence.prevalence_weighted_precision,
        "correct over predicted, each class counting as often as it is true",
    ),
    _of_all(
        prevalence.prevalence_weighted_recall,
        "correct over true, each class counting as often as it is true",
    ),
    Metric(
        name="support",
        function=labels.support,
        state="confusion",
        definition="weight of the positive events",
        tasks=BINARY,
        high=math.inf,
        direction="none",
        params=("average",),
        needs_positive=True,
    ),
    Metric(
        name="support",
        function=labels.support,
        state="confusion",
        definition="weight of all events",
        tasks=MULTICLASS,
        high=math.inf,
        direction="none",
        params=("average",),
    ),
)

_RULES: Mapping[str, Rule] = {
    "precision": labels.PRECISION,
    "recall": labels.RECALL,
    "f1": f_measures.F1,
    # Whatever beta is, the same classes have a value.
    "fbeta": f_measures.F1,
    "jaccard": f_measures.JACCARD,
    "fowlkes_mallows": f_measures.FOWLKES_MALLOWS,
    "specificity": rates.SPECIFICITY,
    "fpr": rates.FPR,
    "fnr": rates.FNR,
    "npv": rates.NPV,
}

RULE_OF_MEAN: Mapping[str, Rule] = MappingProxyType(
    {
        "balanced_accuracy": labels.RECALL,
        **{
            f"{name}_{average}": rule
            for name, rule in _RULES.items()
            for average in ("macro", "weighted")
        },
    }
)
"""The metrics that are means over classes, and the rule that says which classes have a value."""
