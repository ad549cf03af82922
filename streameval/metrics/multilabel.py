"""Metrics of sets of labels: of each label, averaged over labels, and averaged over events.

A label is one-vs-rest: TP events have it and were predicted it, FP were predicted it only, FN
have it only, TN neither.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Any

from streameval.events.values import Label, Weight
from streameval.metrics import class_metrics
from streameval.metrics.averages import (
    Rule,
    averaged,
    chosen_labels,
    mean_of_scaled,
    whole_weights,
)
from streameval.metrics.class_metrics import AVERAGES, FBETA, checked_beta, rule_row
from streameval.metrics.metric import MULTILABEL, Metric
from streameval.metrics.undefined import NO_EVENTS, ratio, undefined_value
from streameval.states.label_counts import LabelCounts
from streameval.states.label_sets import LabelSetCounts, SetSizes

__all__ = ["hamming_loss", "multilabel_confusion_matrix"]


def subset_accuracy(sets: LabelSetCounts, *, undefined: float | None = None) -> float:
    """The share of events all of whose labels were predicted, and no others."""
    sizes, weights, total = _whole_sizes(sets)
    right = (w for (hits, p, t), w in zip(sizes, weights, strict=True) if hits == p == t)
    return ratio(sum(right), total, NO_EVENTS, undefined)


def subset_error(sets: LabelSetCounts, *, undefined: float | None = None) -> float:
    """The share of events with a label too many or too few: 1 − subset accuracy."""
    sizes, weights, total = _whole_sizes(sets)
    wrong = (w for (hits, p, t), w in zip(sizes, weights, strict=True) if not hits == p == t)
    return ratio(sum(wrong), total, NO_EVENTS, undefined)


def _whole_sizes(sets: LabelSetCounts) -> tuple[list[Any], list[int], int]:
    """The sizes that occur, and their weights and the sum of them as integers, up to a factor."""
    cells = list(sets.sizes())
    weights = whole_weights([weight for _, weight in cells])
    return [sizes for sizes, _ in cells], weights, sum(weights)


def hamming_loss(
    counts: LabelCounts, *, labels: Iterable[object] | None = None, undefined: float | None = None
) -> float:
    """The share of (event, label) pairs that were predicted wrong: Σ (FP + FN) / (L · n).

    L is the number of declared labels; of discovered ones, of those that occur. `labels` names
    the labels to count. In [0, 1]; undefined before the first event, and without labels.
    Cost: O(labels).

    Source: scikit-learn's ``hamming_loss`` of indicator matrices.

    >>> counts = LabelCounts(["ad", "spam", "toxic", "none"])
    >>> counts.update({"ad", "spam"}, {"ad", "toxic"})
    >>> hamming_loss(counts)
    0.5
    """
    return label_average(HAMMING, counts, average="micro", labels=labels, undefined=undefined)  # type: ignore[return-value]


def label_average(
    rule: Rule,
    counts: LabelCounts,
    *,
    average: Any,
    labels: Iterable[object] | None = None,
    undefined: float | None = None,
    beta: float | None = None,
) -> float | dict[Label, float]:
    """A rule for each label, or averaged over all labels or some; as for classes."""
    if beta is not None and rule.given is not None:
        rule = rule.given(checked_beta(beta))
    return averaged(rule, counts, average, None, undefined, labels)


def samples_average(
    rule: Rule,
    sets: LabelSetCounts,
    *,
    undefined: float | None = None,
    beta: float | None = None,
) -> float:
    """The mean over events of a rule of the event's own labels; one of no value is left out."""
    if beta is not None and rule.given is not None:
        rule = rule.given(checked_beta(beta))

    def term(sizes: SetSizes) -> tuple[int, int, int]:
        numerator, denominator = rule.parts(sizes.hits, sizes.true, sizes.predicted, 0)
        return (rule.scaled(numerator, denominator), 1, 0) if denominator else (0, 0, 1)

    sizes, weights, _ = _whole_sizes(sets)
    terms = [[w * x for x in term(one)] for one, w in zip(sizes, weights, strict=True)]
    sums = [sum(column) for column in zip(*terms, strict=True)]
    scaled, defined, left = sums or (0, 0, 0)
    value = mean_of_scaled(scaled, defined, left, undefined)
    if value is not None:
        return value
    return undefined_value(_NO_SAMPLE[rule.needs[0]] if any(sums) else NO_EVENTS, undefined)


_NO_SAMPLE = {
    "true": "no event has a label",
    "predicted": "no label was predicted of any event",
    "either": "no event has a label, and none was predicted of any",
}
"""Why no event has a value, by what it needs."""


def left_out_events(metric: Metric, sets: LabelSetCounts) -> Weight:
    """The weight of the events that a mean over events leaves out, as they have no value."""
    if metric.rule is None or metric.average != "samples":
        return 0
    parts = ((metric.rule.parts(h, t, p, 0), weight) for (h, p, t), weight in sets.sizes())
    return sum(weight for (_, denominator), weight in parts if not denominator)


# Further rules of a label. Of c right, t true and p predicted of s events, as in class_metrics.

HAMMING = Rule(
    name="hamming_loss",
    title="Hamming loss",
    definition="share of (event, label) pairs that were predicted wrong",
    parts=lambda c, t, p, s: (t + p - 2 * c, s),
    needs=("all",),
    direction="down",
)
BALANCED_ACCURACY = Rule(
    name="balanced_accuracy",
    title="Balanced accuracy",
    definition="mean of recall and specificity, or the one that has a value",
    parts=lambda c, t, p, s: (
        (c * (s - t) + (s - t - p + c) * t, 2 * t * (s - t))
        if t and t != s
        else (c, t)
        if t
        else (s - p, s)
    ),
    needs=("all",),
)
MATTHEWS = Rule(
    name="matthews_corrcoef",
    title="Matthews correlation coefficient",
    definition="correlation of having a label and being predicted it",
    parts=lambda c, t, p, s: ((c * s - t * p) * abs(c * s - t * p), t * (s - t) * p * (s - p)),
    needs=("true", "others true", "predicted", "others predicted"),
    root=True,
    low=-1.0,
)
KAPPA = Rule(
    name="cohen_kappa",
    title="Cohen's kappa",
    definition="agreement of a label and its prediction beyond chance",
    parts=lambda c, t, p, s: (2 * (c * s - t * p), t * (s - p) + p * (s - t)),
    needs=("either", "others either"),
    low=-1.0,
)

_OF_LABELS = (
    class_metrics.precision,
    class_metrics.recall,
    class_metrics.f1,
    class_metrics.fbeta,
    class_metrics.jaccard,
    class_metrics.fowlkes_mallows,
    class_metrics.specificity,
    class_metrics.fpr,
    class_metrics.fnr,
    class_metrics.npv,
)
_OF_EVENTS = frozenset({"precision", "recall", "f1", "fbeta", "jaccard"})


def label_rows() -> Iterator[Metric]:
    """The registry's rows of metrics of sets of labels."""
    row = functools.partial(Metric, tasks=MULTILABEL)
    yield row(
        name="accuracy",
        function=subset_accuracy,
        state="label_sets",
        definition="share of events all of whose labels were predicted right (subset accuracy)",
        family="proportion",
    )
    yield row(
        name="error_rate",
        function=subset_error,
        state="label_sets",
        definition="share of events with a wrong label: 1 - accuracy",
        direction="down",
        family="proportion",
    )
    yield rule_row(
        HAMMING,
        "hamming_loss",
        function=hamming_loss,
        state="label_counts",
        definition=HAMMING.definition,
        tasks=MULTILABEL,
        params=("labels",),
        average="micro",
        family="label_micro",
    )
    for function in _OF_LABELS:
        rule = function.rule
        for average in AVERAGES:
            yield _label_row(rule, average)
        if rule.name in _OF_EVENTS:
            yield rule_row(
                rule,
                f"{rule.name}_samples",
                function=functools.partial(samples_average, rule),
                state="label_sets",
                definition=f"the mean of the events' {rule.name}",
                tasks=MULTILABEL,
                params=_own_params(rule),
                average="samples",
                family="label_samples",
            )
    for rule in (BALANCED_ACCURACY, MATTHEWS, KAPPA):
        yield _label_row(rule, "macro")
    yield row(
        name="support",
        function=class_metrics.support,
        state="label_counts",
        definition="weight of all events",
        high=float("inf"),
        direction="none",
        params=("average",),
        family="none",
    )


def _own_params(rule: Rule) -> tuple[str, ...]:
    return ("beta",) if rule is FBETA else ()


def _label_row(rule: Rule, average: str) -> Metric:
    return rule_row(
        rule,
        f"{rule.name}_{average}",
        function=functools.partial(label_average, rule, average=average),
        state="label_counts",
        definition=AVERAGES[average].format("labels", rule.name),
        tasks=MULTILABEL,
        params=(*_own_params(rule), "labels"),
        fixed=MappingProxyType({"average": average}),
        average=average,
        family="label_micro" if average == "micro" else "label_mean",
    )


def multilabel_confusion_matrix(
    counts: LabelCounts, *, labels: Iterable[object] | None = None
) -> Any:
    """A matrix ``[[tn, fp], [fn, tp]]`` of each label: an array of (L, 2, 2).

    Source: scikit-learn's ``multilabel_confusion_matrix``.

    >>> counts = LabelCounts()
    >>> counts.update({"ad"}, {"ad"}, weight=3)
    >>> multilabel_confusion_matrix(counts).tolist()
    [[[0, 0], [0, 3]]]
    """
    return counts.to_array(None if labels is None else chosen_labels(labels))
