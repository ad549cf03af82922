"""Ranking by several classes' probabilities: AUC of each pair and of each class.

Column c of the scores is the probability given to label c. ``A(c|j)`` is the AUC of column c with
the events of class c as positives and those of class j as negatives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np

from streameval.events.values import FloatArray, Label, Weight
from streameval.metrics.averages import check_choice, exact_sum, mean_of_scaled
from streameval.metrics.ranking import average_precision_of
from streameval.metrics.thresholds import coarsened, column_list
from streameval.metrics.undefined import NO_EVENTS, undefined_value
from streameval.states.class_scores import ClassScores
from streameval.states.confusion_parts.confusion_cells import FRACTION_BITS
from streameval.states.ranking.score_groups import auc, auc_of_groups, twice_u

__all__ = [
    "PairwiseAuc",
    "average_precision_micro",
    "average_precision_ovr",
    "roc_auc_micro",
    "roc_auc_ovo",
    "roc_auc_ovr",
    "roc_auc_pairs",
]

AucAverage: TypeAlias = Literal["macro", "weighted"]


class Share(NamedTuple):
    """One AUC inside a mean: its pairs won (twice), its pairs (twice), its weight in the mean."""

    twice_u: Weight
    twice_pairs: Weight
    weight: Weight


def mean_of_shares(shares: Iterable[Share], undefined: float | None) -> float | None:
    """The weighted mean of AUCs; one without pairs counts as `undefined` if it is a number."""
    defined: list[Share] = []
    left: list[Share] = []
    for share in shares:
        (defined if share.twice_pairs else left).append(share)
    if all(isinstance(number, int) for share in defined for number in share):
        scaled = 0
        for wins, pairs, weight in defined:
            scaled += (int(weight * wins) << FRACTION_BITS) // int(pairs)
        inside, outside = (sum(int(share.weight) for share in part) for part in (defined, left))
        return mean_of_scaled(scaled, inside, outside, undefined)
    terms = [weight * (wins / pairs) for wins, pairs, weight in defined]
    weights = [share.weight for share in defined]
    if undefined is not None and undefined == undefined:
        weights += [share.weight for share in left]
        terms += [share.weight * undefined for share in left]
    return math.fsum(terms) / math.fsum(weights)


def mean_of_values(values: Mapping[Label, float], weights: Mapping[Label, Weight]) -> float | None:
    """The weighted mean of the values that are numbers; None without any of a weight."""
    held = [label for label, value in values.items() if value == value and weights[label]]
    if not held:
        return None
    total = exact_sum([weights[label] for label in held])
    return math.fsum(weights[label] * values[label] for label in held) / total


def _true_counts(scores: ClassScores) -> dict[Label, Weight]:
    return {label: scores.true_count(label) for label in scores.classes}


@overload
def roc_auc_ovr(
    scores: ClassScores, *, average: AucAverage = "macro", undefined: float | None = None
) -> float: ...


@overload
def roc_auc_ovr(
    scores: ClassScores, *, average: None, undefined: float | None = None
) -> dict[Label, float]: ...


def roc_auc_ovr(
    scores: ClassScores, *, average: AucAverage | None = "macro", undefined: float | None = None
) -> float | dict[Label, float]:
    """AUC of each class against the rest, averaged.

    `average` is ``"macro"``, the plain mean; ``"weighted"``, by the number of events of the class;
    or None for a dict of label to AUC. Raises MetricError for another. Equal to scikit-learn's
    ``roc_auc_score(multi_class="ovr")``. In [0, 1]; undefined until events of two classes were
    seen. `undefined` is also the AUC of a class that has none; by default the mean leaves it out.
    Cost: the first read O(scores), then O(classes); O(scores) with fractional weights.

    >>> scores = ClassScores()
    >>> scores.update("cat", {"cat": 0.75, "dog": 0.25})
    >>> scores.update("dog", {"cat": 0.5, "dog": 0.5})
    >>> roc_auc_ovr(scores)
    1.0
    """
    check_choice("average", average, ("macro", "weighted", None))
    scores = scores.whole
    if average == "macro" and undefined is None:
        share = scores.mean_share()
        if share == share:
            return share
    counts = _true_counts(scores)
    if average is None:
        return _auc_of_each(scores, counts, undefined)
    total = exact_sum(counts.values())

    def shares() -> Iterator[Share]:
        for label, count in counts.items():
            yield _over_rest(scores, label, total, count if average == "weighted" else 1)

    value = mean_of_shares(shares(), undefined) if total else None
    return _no_two_classes(counts, undefined) if value is None else value


def _over_rest(scores: ClassScores, label: Label, total: Weight, weight: Weight) -> Share:
    """The AUC of a class against all others; ``total`` is the weight of all classes."""
    if not scores.exact:
        return share_of_floats(scores.auc(label), weight)
    count = scores.true_count(label)
    pairs = count * (total - count)
    return Share(scores.one_vs_rest_wins(label) if pairs else 0, 2 * pairs, weight)


def pair_auc(scores: ClassScores, label: Label, other: Label) -> float:
    """A(label | other): the AUC of two classes in the column of the first; nan without events."""
    wins, pairs, _ = _over_other(scores, label, other)
    return wins / pairs if pairs else math.nan


def _over_other(scores: ClassScores, label: Label, other: Label) -> Share:
    if not scores.exact:
        return share_of_floats(scores.auc(label, other), 1)
    pairs = scores.true_count(label) * scores.true_count(other)
    return Share(scores.pair_wins(label, other) if pairs else 0, 2 * pairs, 1)


def share_of_floats(share: float, weight: Weight) -> Share:
    """An AUC of float weights, which is a share of pairs already; nan: there are none."""
    return Share(share, 1.0, weight) if share == share else Share(0, 0, weight)


def _auc_of_each(
    scores: ClassScores, counts: dict[Label, Weight], undefined: float | None
) -> dict[Label, float]:
    total = exact_sum(counts.values())
    values: dict[Label, float] = {}
    for label, count in counts.items():
        wins, pairs, _ = _over_rest(scores, label, total, 1)
        if pairs:
            values[label] = wins / pairs
        elif not total:
            values[label] = undefined_value(NO_EVENTS, undefined)
        else:
            reason = "every event is truly {}" if count else "no event is truly {}"
            values[label] = undefined_value(reason, undefined, label)
    return values


def _no_two_classes(counts: dict[Label, Weight], undefined: float | None) -> float:
    for label, count in counts.items():
        if count:
            return undefined_value("every event is truly {}", undefined, label)
    return undefined_value(NO_EVENTS, undefined)


def roc_auc_ovo(
    scores: ClassScores, *, average: AucAverage = "macro", undefined: float | None = None
) -> float:
    """AUC of each pair of classes, averaged (Hand & Till 2001).

    The mean over unordered pairs of ½(A(c|j) + A(j|c)): a perfect ranking gives 1. `average` is
    ``"macro"``, the plain mean, or ``"weighted"``, by the number of events of the two classes.
    Raises MetricError for another. Equal to scikit-learn's ``roc_auc_score(multi_class="ovo")``.
    In [0, 1]; undefined until events of two classes were seen. `undefined` is also the AUC of a
    pair with a class that no event has; by default the mean leaves it out. Cost: O(classes ·
    scores) in all pairs together.

    >>> scores = ClassScores()
    >>> scores.update("cat", {"cat": 0.75, "dog": 0.25})
    >>> scores.update("dog", {"cat": 0.5, "dog": 0.5})
    >>> roc_auc_ovo(scores)
    1.0
    """
    check_choice("average", average, ("macro", "weighted"))
    counts = _true_counts(scores)
    if undefined is None:
        # Pairs without events are left out of the mean: of a long list of classes they are most.
        counts = {label: count for label, count in counts.items() if count}

    def shares() -> Iterator[Share]:
        for (c, count_c), (j, count_j) in combinations(counts.items(), 2):
            weight = count_c + count_j if average == "weighted" else 1
            one, other = _over_other(scores, c, j), _over_other(scores, j, c)
            wins, pairs = (one[at] + other[at] for at in (0, 1))
            yield Share(wins, pairs, weight)

    two_classes = sum(1 for count in counts.values() if count) > 1
    value = mean_of_shares(shares(), undefined) if two_classes else None
    return _no_two_classes(counts, undefined) if value is None else value


def roc_auc_micro(scores: ClassScores, *, undefined: float | None = None) -> float:
    """AUC of all columns pooled: every (event, label) is one case, positive where it is true.

    Equal to scikit-learn's ``roc_auc_score(multi_class="ovr", average="micro")``. Declared classes
    have a case in every event, even where all gave them 0. Of discovered labels, one that was
    named with 0 only is no class. In [0, 1]; undefined until there are two classes and an event.
    Cost: O(scores).

    >>> scores = ClassScores()
    >>> scores.update("cat", {"cat": 0.75, "dog": 0.25})
    >>> scores.update("dog", {"cat": 0.5, "dog": 0.5})
    >>> roc_auc_micro(scores)
    0.875
    """
    groups = scores.pooled()
    positives, negatives = groups.positives, groups.negatives
    if not scores.exact:
        share = auc_of_groups((groups.scores, positives), (groups.scores, negatives))
        return share if share == share else _no_two_classes(_true_counts(scores), undefined)
    value = auc(twice_u(groups), int(positives.sum()), int(negatives.sum()))
    return _no_two_classes(_true_counts(scores), undefined) if value is None else value


@overload
def average_precision_ovr(
    scores: ClassScores, *, average: AucAverage = "macro", undefined: float | None = None
) -> float: ...


@overload
def average_precision_ovr(
    scores: ClassScores, *, average: None, undefined: float | None = None
) -> dict[Label, float]: ...


def average_precision_ovr(
    scores: ClassScores, *, average: AucAverage | None = "macro", undefined: float | None = None
) -> float | dict[Label, float]:
    """Average precision of each class against the rest, averaged.

    `average` is as in :func:`roc_auc_ovr`. Equal to scikit-learn's ``average_precision_score`` of
    the classes as indicator columns, except that there a class without events counts as 0: here
    `undefined` is its value, and by default the mean leaves it out. In [0, 1]; undefined before the
    first event, and once scores have been coarsened. Cost: O(classes · scores).

    >>> scores = ClassScores()
    >>> scores.update("cat", {"cat": 0.75, "dog": 0.25})
    >>> scores.update("dog", {"cat": 0.5, "dog": 0.5})
    >>> scores.update("dog", {"cat": 1.0})
    >>> average_precision_ovr(scores, average=None)
    {'cat': 0.5, 'dog': 0.8333333333333333}
    """
    check_choice("average", average, ("macro", "weighted", None))
    counts = _true_counts(scores)
    reason = coarsened(scores)
    values: dict[Label, float] = {}
    for label, count in counts.items():
        if reason:
            values[label] = undefined_value(reason, undefined)
        elif count:
            values[label] = average_precision_of((scores.one_vs_rest_groups(label),))
        else:
            values[label] = undefined_value("no event is truly {}", undefined, label)
    if average is None:
        return values
    if reason or not any(counts.values()):
        return undefined_value(reason or NO_EVENTS, undefined)
    weights = counts if average == "weighted" else dict.fromkeys(counts, 1)
    return mean_of_values(values, weights)  # type: ignore[return-value]  # some class has events


def average_precision_micro(scores: ClassScores, *, undefined: float | None = None) -> float:
    """Average precision of all columns pooled: every (event, label) is one case.

    Equal to scikit-learn's ``average_precision_score(average="micro")``; the classes are those of
    :func:`roc_auc_micro`. In [0, 1]; undefined before the first event, and once scores have been
    coarsened. Cost: O(scores).

    >>> scores = ClassScores()
    >>> scores.update("cat", {"cat": 0.75, "dog": 0.25})
    >>> scores.update("dog", {"cat": 0.5, "dog": 0.5})
    >>> average_precision_micro(scores)
    0.8333333333333333
    """
    if not scores.total or coarsened(scores):
        return undefined_value(coarsened(scores) or NO_EVENTS, undefined)
    return average_precision_of((scores.pooled(),))


@dataclass(frozen=True, slots=True, eq=False)
class PairwiseAuc:
    """AUC of every ordered pair of classes.

    ``auc[a, b]`` is A(labels[a] | labels[b]): how well the probability of labels[a] separates its
    events from those of labels[b]. The diagonal, and the rows and columns of a class without
    events, are nan.
    """

    labels: list[Label]
    auc: FloatArray

    def to_dict(self) -> dict[str, Any]:
        """Plain lists for JSON; nan becomes None."""
        return {"labels": list(self.labels), "auc": [column_list(row) for row in self.auc]}


def roc_auc_pairs(scores: ClassScores) -> PairwiseAuc:
    """The table behind :func:`roc_auc_ovo`: A(c|j) of every ordered pair of classes.

    Cost: O(classes · scores), and classes² cells.

    >>> scores = ClassScores()
    >>> scores.update("cat", {"cat": 0.75, "dog": 0.25})
    >>> scores.update("dog", {"cat": 0.5, "dog": 0.5})
    >>> roc_auc_pairs(scores).to_dict()
    {'labels': ['cat', 'dog'], 'auc': [[None, 1.0], [1.0, None]]}
    """
    counts = _true_counts(scores)
    labels = list(counts)
    auc = np.full((len(labels), len(labels)), math.nan)
    for row, c in enumerate(labels):
        for column, j in enumerate(labels):
            if row != column:
                auc[row, column] = pair_auc(scores, c, j)
    return PairwiseAuc(labels, auc)
