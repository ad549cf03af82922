"""Metrics of the scores of labels: of each label against its absence, and within each event."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from streameval.errors import MetricError, shown
from streameval.events.values import Label, Weight
from streameval.metrics import calibration, probability
from streameval.metrics.averages import check_choice, exact_sum
from streameval.metrics.metric import MULTILABEL, Metric
from streameval.metrics.multiclass import Share, mean_of_shares, mean_of_values, share_of_floats
from streameval.metrics.ranking import average_precision
from streameval.metrics.thresholds import coarsened
from streameval.metrics.undefined import NO_EVENTS, reason_of, undefined_value
from streameval.states.label_losses import LabelLosses
from streameval.states.label_ranking import BITS, LabelRanking, RankedGroup
from streameval.states.label_scores import LabelScores, area

__all__ = [
    "average_precision_samples",
    "coverage_error",
    "label_ranking_average_precision",
    "label_ranking_loss",
    "precision_at_k",
    "recall_at_k",
    "roc_auc_samples",
]

LabelAverage: TypeAlias = Literal["macro", "micro", "weighted"]
_AVERAGES = ("macro", "micro", "weighted", None)

_NO_LABEL = "no event has the label {}"
_NO_LABELS = "no event has a label, or scores one above 0"
_EVERY_LABEL = "every event has the label {}"


def _side_missing(scores: LabelScores, label: Label) -> str:
    """Why a label has no positives or no negatives; empty where it has both."""
    positives, negatives = scores.sides(label)
    return "" if positives and negatives else _EVERY_LABEL if positives else _NO_LABEL


def _without_value(scores: LabelScores, *, both: bool = True) -> list[Label]:
    """The labels that a mean leaves out: no event has them, or (with ``both``) every event."""
    reasons = {label: _side_missing(scores, label) for label in scores.classes}
    return [label for label, reason in reasons.items() if reason and (both or reason == _NO_LABEL)]


def left_out_labels(metric: Metric, scores: LabelScores) -> list[Label]:
    """The labels that a mean over labels leaves out, as they have no value."""
    average = metric.fixed.get("average")
    if average == "micro" or coarsened(scores) or not scores.weight:
        return []
    labels = _without_value(scores, both=metric.name.startswith("roc_auc"))
    # A label without weight contributes nothing to a weighted mean.
    return [label for label in labels if average == "macro" or scores.true_count(label)]


def left_out_rankings(metric: Metric, ranking: LabelRanking) -> Weight:
    """The weight of the events that a mean over events leaves out, as they have no value."""
    if metric.name not in _LEFT_OUT:
        return 0
    return ranking.weight - ranking.weight_with(all_labels=_LEFT_OUT[metric.name])


def label_roc_auc(
    scores: LabelScores,
    *,
    average: LabelAverage | None = "macro",
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """AUC of each label against its absence, or an average.

    Source: scikit-learn's ``roc_auc_score`` of indicator matrices.
    """
    check_choice("average", average, _AVERAGES)
    if average == "micro":
        share = area(scores.pooled())
        return share if share == share else _no_label(scores, undefined)
    if average is None:
        values = {}
        for label in scores.classes:
            wins, pairs, _ = _share(scores, label, 1)
            reason = _side_missing(scores, label) if scores.weight else NO_EVENTS
            values[label] = wins / pairs if pairs else undefined_value(reason, undefined, label)
        return values
    if not scores.weight:
        return undefined_value(NO_EVENTS, undefined)
    weighted = average == "weighted"
    shares = (
        _share(scores, label, scores.true_count(label) if weighted else 1)
        for label in scores.classes
    )
    value = mean_of_shares(shares, undefined)
    return _no_label(scores, undefined) if value is None else value


def _share(scores: LabelScores, label: Label, weight: Weight) -> Share:
    """The AUC of a label inside a mean."""
    if not scores.exact:
        return share_of_floats(area(scores.index(label)), weight)
    positives, negatives = scores.sides(label)
    pairs = positives * negatives
    return Share(scores.twice_u(label) if pairs else 0, 2 * pairs, weight)


def _no_label(scores: LabelScores, undefined: float | None, *, both: bool = True) -> float:
    """No label has a value, with the reason of the first one."""
    for label in _without_value(scores, both=both) if scores.weight else ():
        return undefined_value(_side_missing(scores, label), undefined, label)
    return undefined_value(_NO_LABELS if scores.weight else NO_EVENTS, undefined)


def label_average_precision(
    scores: LabelScores,
    *,
    average: LabelAverage | None = "macro",
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """Average precision of each label against its absence, or an average.

    A label that no event has counts as 0 in scikit-learn; here a mean leaves it out.

    Source: scikit-learn's ``average_precision_score`` of indicator matrices.
    """
    check_choice("average", average, _AVERAGES)
    reason = coarsened(scores) or ("" if scores.weight else NO_EVENTS)
    if reason:
        no_value = undefined_value(reason, undefined)
        return no_value if average else dict.fromkeys(scores.classes, no_value)
    if average == "micro":
        pooled = scores.pooled()
        if not pooled.positives:
            return _no_label(scores, undefined, both=False)
        return average_precision(pooled)
    values: dict[Label, float] = {}
    for label in scores.classes:
        if scores.true_count(label):
            values[label] = average_precision(scores.index(label))
        else:
            values[label] = undefined_value(_NO_LABEL, undefined, label)
    if average is None:
        return values
    weights = {label: scores.true_count(label) if average == "weighted" else 1 for label in values}
    value = mean_of_values(values, weights)
    return _no_label(scores, undefined, both=False) if value is None else value


# Losses


def _of_labels(
    of_label: Callable[..., float],
    losses: LabelLosses,
    *,
    average: str | None = "macro",
    undefined: float | None = None,
) -> float | dict[Label, float]:
    """A binary metric of each label, or its mean, which is undefined where one label's is."""
    # All labels have the same events: it is the mean over all pairs of an event and a label too.
    check_choice("average", average, ("macro", None))
    values = {
        label: of_label(losses.of_label(label), undefined=undefined) for label in losses.classes
    }
    if average is None:
        return values
    if not losses.weight or not values:
        return undefined_value(_NO_LABELS if losses.weight else NO_EVENTS, undefined)
    if undefined is None:
        for value in values.values():
            if reason_of(value):
                return value
    return math.fsum(values.values()) / len(values)


label_log_loss = functools.partial(_of_labels, probability.log_loss)
label_brier_score = functools.partial(_of_labels, probability.brier_score)
label_calibration_error = functools.partial(_of_labels, calibration.expected_calibration_error)


# Rankings of the labels of one event


def _sample_mean(
    ranking: LabelRanking, total: Any, undefined: float | None, *, n: Weight, certain: Weight = 0
) -> float:
    """The mean of terms of this sum over events of weight n; of those, ``certain`` ones have 1."""
    if not ranking.weight:
        return undefined_value(NO_EVENTS, undefined)
    if not n:
        some = ranking.weight - ranking.weight_of_empty
        return undefined_value(_ONE_SIDED if some else "no event has a label", undefined)
    unit = 1 << BITS if ranking.exact else 1
    value = (total + certain * unit) / (n * unit)
    return _with_others(value, n, ranking.weight, undefined)


def _with_others(value: float, n: Weight, total: Weight, undefined: float | None) -> float:
    """A mean over n events; the others count as `undefined`, if it is a number."""
    if undefined is None or undefined != undefined or n == total:
        return value
    return (value * n + undefined * (total - n)) / total


_ONE_SIDED = "no event has some of the labels, and not all"

_LEFT_OUT = {"roc_auc_samples": False, "average_precision_samples": True, "recall_at_k": True}
"""From the metrics that not every event has to whether one with all labels has a value."""


def label_ranking_average_precision(
    ranking: LabelRanking, *, undefined: float | None = None
) -> float:
    """Mean over events of the share of true labels among those ranked at or above each true label.

    Labels of equal score share the worst rank. An event without labels counts as 1. Equal to
    scikit-learn's. In [0, 1]; undefined before the first event. Cost: O(kinds of groups).

    Source: scikit-learn's ``label_ranking_average_precision_score``; Tsoumakas et al. (2010),
    Mining multi-label data.

    >>> ranking = LabelRanking(("ad", "spam", "toxic"))
    >>> ranking.update(frozenset({"spam"}), {"ad": 0.5, "spam": 0.25, "toxic": 0.125})
    >>> label_ranking_average_precision(ranking)
    0.5
    """
    n, certain = ranking.weight, ranking.weight_of_empty
    return _sample_mean(
        ranking, ranking.summed(RankedGroup.precision), undefined, n=n, certain=certain
    )


def average_precision_samples(ranking: LabelRanking, *, undefined: float | None = None) -> float:
    """Mean over events of the average precision of the ranking of their labels.

    The value of :func:`label_ranking_average_precision`, except that an event without labels has
    none: it is left out, or counts as `undefined` (in scikit-learn as 0). In [0, 1]. Cost: O(kinds
    of groups).

    Source: scikit-learn's ``average_precision_score(average="samples")``.

    >>> ranking = LabelRanking(("ad", "spam", "toxic"))
    >>> ranking.update(frozenset({"spam"}), {"ad": 0.5, "spam": 0.25, "toxic": 0.125})
    >>> ranking.update(frozenset(), {"ad": 0.5, "spam": 0.25, "toxic": 0.125})
    >>> average_precision_samples(ranking), average_precision_samples(ranking, undefined=0.0)
    (0.5, 0.25)
    """
    n = ranking.weight_with(all_labels=True)
    return _sample_mean(ranking, ranking.summed(RankedGroup.precision), undefined, n=n)


def coverage_error(ranking: LabelRanking, *, undefined: float | None = None) -> float:
    """Mean over events of how many labels to take, by score, so that all true ones are among them.

    Labels of equal score are taken together. An event without labels needs 0. Equal to
    scikit-learn's. From 0 to the number of labels; undefined before the first event. Cost: O(kinds
    of groups).

    Source: scikit-learn's ``coverage_error``; Tsoumakas et al. (2010), Mining multi-label data.

    >>> ranking = LabelRanking(("ad", "spam", "toxic"))
    >>> ranking.update(frozenset({"spam"}), {"ad": 0.5, "spam": 0.25, "toxic": 0.125})
    >>> coverage_error(ranking)
    2.0
    """
    return _sample_mean(ranking, ranking.summed(RankedGroup.coverage), undefined, n=ranking.weight)


def label_ranking_loss(ranking: LabelRanking, *, undefined: float | None = None) -> float:
    """Mean over events of the share of pairs of a true and a false label in the wrong order.

    A pair of equal scores is in the wrong order. An event with no or all labels counts as 0. Equal
    to scikit-learn's. In [0, 1]; undefined before the first event. Cost: O(kinds of groups).

    Source: scikit-learn's ``label_ranking_loss``; Tsoumakas et al. (2010), Mining multi-label data.

    >>> ranking = LabelRanking(("ad", "spam", "toxic"))
    >>> ranking.update(frozenset({"spam"}), {"ad": 0.5, "spam": 0.25, "toxic": 0.125})
    >>> label_ranking_loss(ranking)
    0.5
    """
    return _sample_mean(
        ranking, ranking.summed(RankedGroup.wrong_pairs), undefined, n=ranking.weight
    )


def roc_auc_samples(ranking: LabelRanking, *, undefined: float | None = None) -> float:
    """Mean over events of the AUC of the scores of their labels, the true ones as positives.

    An event with no or all labels has none: it is left out, or counts as `undefined`. Equal to
    scikit-learn's ``roc_auc_score(average="samples")``, which is then nan. In [0, 1]. Cost:
    O(kinds of groups).

    Source: scikit-learn's ``roc_auc_score(average="samples")``.

    >>> ranking = LabelRanking(("ad", "spam", "toxic"))
    >>> ranking.update(frozenset({"spam"}), {"ad": 0.5, "spam": 0.25, "toxic": 0.125})
    >>> roc_auc_samples(ranking)
    0.5
    """
    n = ranking.weight_with(all_labels=False)
    return _sample_mean(ranking, ranking.summed(RankedGroup.right_pairs), undefined, n=n)


def precision_at_k(ranking: LabelRanking, k: int = 2, *, undefined: float | None = None) -> float:
    """Mean over events of the share of true labels among the k of the highest scores.

    Of equal scores the label that sorts later ranks higher, as in
    :func:`~streameval.metrics.top_k_accuracy`. Where labels are discovered, one whose score is not
    above 0 is never among them. In [0, 1]; undefined before the first event. Raises MetricError
    where `k` is not a whole number above 0. Cost: O(distinct places).

    Source: Manning, Raghavan & Schütze (2008), Introduction to information retrieval.

    >>> ranking = LabelRanking(("ad", "spam", "toxic"))
    >>> ranking.update(frozenset({"spam"}), {"ad": 0.5, "spam": 0.25, "toxic": 0.125})
    >>> precision_at_k(ranking, k=1), precision_at_k(ranking, k=2)
    (0.0, 0.5)
    """
    hits = exact_sum([weight for _, weight in _hits(ranking, k)])
    if not ranking.weight:
        return undefined_value(NO_EVENTS, undefined)
    return hits / (k * ranking.weight)


def _hits(ranking: LabelRanking, k: int) -> Iterator[tuple[int, Weight]]:
    """The number of true labels of events, and their weight, for each true label in the top k."""
    if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
        raise MetricError(f"k: expected a whole number above 0, got {shown(k)}")
    for (true, place), weight in ranking.places.items():
        if 0 <= place < k:
            yield true, weight


def recall_at_k(ranking: LabelRanking, k: int = 2, *, undefined: float | None = None) -> float:
    """Mean over events of the share of their labels that are among the k of the highest scores.

    Ties and errors as of :func:`precision_at_k`. An event without labels is left out, or counts as
    `undefined`. In [0, 1]. Cost: O(distinct places).

    Source: Manning, Raghavan & Schütze (2008), Introduction to information retrieval.

    >>> ranking = LabelRanking(("ad", "spam", "toxic"))
    >>> ranking.update(frozenset({"spam"}), {"ad": 0.5, "spam": 0.25, "toxic": 0.125})
    >>> recall_at_k(ranking, k=1), recall_at_k(ranking, k=2)
    (0.0, 1.0)
    """
    hits, n = list(_hits(ranking, k)), ranking.weight_with(all_labels=True)
    total: Any = math.fsum(weight / true for true, weight in hits)
    if ranking.exact:
        total = sum((int(weight) << BITS) // true for true, weight in hits)
    return _sample_mean(ranking, total, undefined, n=n)


def score_rows() -> Iterator[Metric]:
    """The registry's rows of metrics of the scores of label sets."""
    function: Any
    for function, name, what in (
        (label_roc_auc, "roc_auc", "AUC"),
        (label_average_precision, "average_precision", "average precision"),
    ):
        for average, words in (
            ("macro", f"mean over labels of the {what}"),
            ("micro", f"{what} of all pairs of an event and a label"),
            ("weighted", f"mean over labels, by support, of the {what}"),
        ):
            yield _score_row(
                functools.partial(function, average=average),
                words,
                f"{name}_{average}",
                state="label_scores",
                family="bootstrap",
                fixed=MappingProxyType({"average": average}),
            )
    yield _score_row(roc_auc_samples, "mean over events of the AUC of the scores of their labels")
    yield _score_row(
        average_precision_samples,
        "mean over events of the average precision of the ranking of their labels",
    )
    yield _score_row(
        label_ranking_average_precision,
        "mean over events and their labels of the share of true labels among those of at least "
        "its score",
        synonyms=("lrap", "label_ranking_average_precision_score"),
    )
    yield _score_row(
        label_ranking_loss,
        "mean over events of the share of pairs of a true and a false label in the wrong order",
        direction="down",
        synonyms=("ranking_loss",),
    )
    yield _score_row(
        coverage_error,
        "mean over events of how many labels to take, by score, to have all true ones",
        direction="down",
        high=math.inf,
        synonyms=("coverage",),
    )
    yield _score_row(
        precision_at_k,
        "mean over events of the share of true labels among the k of the highest scores",
        params=("k",),
        family="bootstrap",
    )
    yield _score_row(
        recall_at_k,
        "mean over events of the share of their labels among the k of the highest scores",
        params=("k",),
        family="bootstrap",
    )
    losses = functools.partial(
        _score_row, state="label_losses", direction="down", params=("average",)
    )
    text = "mean over labels of the {}".format
    yield losses(label_log_loss, text("binary log loss"), "log_loss", high=math.inf)
    yield losses(label_brier_score, text("binary Brier score"), "brier_score")
    yield losses(
        label_calibration_error,
        text("expected calibration error, over bins"),
        "expected_calibration_error",
        family="bootstrap",
    )


def _score_row(function: Any, definition: str, name: str = "", **columns: Any) -> Metric:
    usual = {"state": "label_ranking", "family": "label_ranking", "tasks": MULTILABEL}
    return Metric(
        name=name or function.__name__,
        function=function,
        definition=definition,
        **{**usual, **columns},
    )
