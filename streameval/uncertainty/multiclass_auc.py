"""Intervals of AUCs of several classes, from each column's scores by true class.

Only the columns are kept, and not which scores one event had in them, so that the variance is not
known but has a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from streameval.events.values import FloatArray
from streameval.metrics.multiclass import pair_auc
from streameval.states.class_scores import ClassScores
from streameval.states.ranking.score_groups import auc_of_groups
from streameval.states.ranking.weights import WeightArray, count_at_or_below
from streameval.uncertainty.delong import FEWEST, logit_interval, newcombe_interval
from streameval.uncertainty.interval import Ends, IntervalRequest, normal_quantile

RARE = 10
"""A class is rare where another has more than so many times its events."""

FEWEST_LOST = 5
"""Lost events of the rarest class, if it is rare, from which its error is to be relied on."""


class Auc(NamedTuple):
    """One AUC of a mean."""

    share: float
    """Its weight in the mean; they add up to 1."""
    value: float
    positives: float
    negatives: float


class Influence(NamedTuple):
    """How far one event of a class moves the value, times the number of events: its influence."""

    mean: float
    """Of the events of the class."""
    spread: float
    """The sum over the columns of the standard deviations of their parts."""


class ClassAuc(NamedTuple):
    """A mean of AUCs, and what its error is computed from."""

    aucs: list[Auc]
    influences: list[Influence]
    """Of the classes that have events, ascending."""


class _Scores(NamedTuple):
    """The distinct scores of a class in a column, ascending, 0 among them."""

    scores: FloatArray
    weights: WeightArray

    def ranks(self, queries: FloatArray) -> FloatArray:
        """The weight below each query and that at it, one half of the latter."""
        count, tied = count_at_or_below(self.scores, queries)
        sums = np.append(np.zeros(1, self.weights.dtype), np.cumsum(self.weights))
        ranks: FloatArray = (sums[count] + sums[count - tied]) / 2
        return ranks

    def mean(self, values: FloatArray) -> float:
        """The mean of a value of each score."""
        return float((self.weights * values).sum() / self.weights.sum())

    def spread(self, values: FloatArray) -> float:
        """Their standard deviation."""
        return math.sqrt(self.mean(np.square(values - self.mean(values))))


class _Columns:
    """What the rows of :data:`CLASS_AUCS` are computed from, in the order of the labels."""

    def __init__(self, state: ClassScores) -> None:
        labels = [label for label in state.labels if state.true_count(label)]
        self.columns = [
            [_Scores(*state.column_scores(column, true)) for true in labels] for column in labels
        ]
        self.weights = np.array([state.true_count(label) for label in labels], dtype=np.float64)
        self.shares = self.weights / self.weights.sum()
        others = ~np.eye(len(labels), dtype=np.bool_)
        self.rest = (others * self.weights).sum(axis=1)
        """The weight of all other classes: a sum, as one class may outweigh them by any factor."""
        self.aucs = np.zeros((len(labels), len(labels)))
        """A(c | j) in row c and column j; 0 in the diagonal."""
        for c, j in np.argwhere(others):
            self.aucs[c, j] = pair_auc(state, labels[c], labels[j])

    def influences(self, factors: FloatArray, means: FloatArray) -> list[Influence]:
        """Of the classes' events on Σ factors[c, j]·A(c | j); `means` are those by the shares."""
        found = []
        for y, share in enumerate(self.shares):
            own = self.columns[y]
            parts = np.zeros(len(own[y].scores))
            spread = 0.0
            for other, weight in enumerate(self.weights):
                if other == y:
                    continue
                parts += factors[y, other] / weight * own[other].ranks(own[y].scores)
                column = self.columns[other]
                below = column[other].ranks(column[y].scores)
                spread += factors[other, y] / weight * column[y].spread(below)
            found.append(Influence(float(means[y]), (own[y].spread(parts) + spread) / share))
        return found


def _one_vs_rest(state: ClassScores, *, weighted: bool) -> ClassAuc:
    columns = _Columns(state)
    shares, weights, aucs = columns.shares, columns.weights, columns.aucs
    inside = shares if weighted else np.full(len(shares), 1 / len(shares))
    rest = columns.rest / weights.sum()
    factors = inside[:, None] * shares / rest[:, None]
    of_class = (aucs * shares).sum(axis=1) / rest
    # That of c is a mean over the other classes, which depends on how frequent they are.
    apart = (inside / rest)[:, None] * (aucs - of_class[:, None])
    np.fill_diagonal(apart, 0)
    means = apart.sum(axis=0)
    if weighted:
        means += of_class - (inside * of_class).sum()
    sizes = zip(inside, of_class, weights, columns.rest, strict=True)
    return ClassAuc([Auc(*map(float, one)) for one in sizes], columns.influences(factors, means))


def _one_vs_one(state: ClassScores, *, weighted: bool) -> ClassAuc:
    columns = _Columns(state)
    shares, weights = columns.shares, columns.weights
    classes = len(shares)
    of_pair = (columns.aucs + columns.aucs.T) / 2
    factors = np.full((classes, classes), 1 / (classes * (classes - 1)))
    means = np.zeros(classes)
    if weighted:
        factors = (shares[:, None] + shares) / (2 * (classes - 1))
        means = of_pair.sum(axis=0) / (classes - 1)
        means -= (shares * means).sum()
    pairs = zip(*np.triu_indices(classes, 1), strict=True)
    return ClassAuc(
        [
            Auc(*map(float, (2 * factors[c, j], of_pair[c, j], weights[c], weights[j])))
            for c, j in pairs
        ],
        columns.influences(factors, means),
    )


def _pooled(state: ClassScores) -> ClassAuc:
    groups = state.pooled()
    sides = [_Scores(groups.scores, column) for column in (groups.positives, groups.negatives)]
    positives, negatives = (float(side.weights.sum()) for side in sides)
    value = auc_of_groups(*sides)
    labels = state.classes
    influences = []
    for true in labels:
        if not state.true_count(true):
            continue
        mean, spread = -2 * value, 0.0
        for column in labels:
            held = _Scores(*state.column_scores(column, true))
            if column == true:
                parts = sides[1].ranks(held.scores) / negatives
            else:
                parts = (1 - sides[0].ranks(held.scores) / positives) / (len(labels) - 1)
            mean += held.mean(parts)
            spread += held.spread(parts)
        influences.append(Influence(mean, spread))
    # The mean over an event's negatives varies no more than one of them, and together with its
    # positive at most as in half as many events in which these are independent.
    return ClassAuc([Auc(1.0, value, positives / 2, positives / 2)], influences)


CLASS_AUCS: Mapping[str, Callable[[ClassScores], ClassAuc]] = MappingProxyType(
    {
        "roc_auc_ovr": lambda state: _one_vs_rest(state, weighted=False),
        "roc_auc_ovr_weighted": lambda state: _one_vs_rest(state, weighted=True),
        "roc_auc_ovo": lambda state: _one_vs_one(state, weighted=False),
        "roc_auc_ovo_weighted": lambda state: _one_vs_one(state, weighted=True),
        "roc_auc_micro": _pooled,
    }
)
"""From the metrics of the family ``class_auc`` to their AUCs and influences."""


def error_bound(found: ClassAuc, sizes: Iterable[float]) -> float:
    """The largest standard error of a mean of AUCs, whatever the dependence between columns."""
    # The standard deviation of a sum of functions of one event's scores, one for each column, is at
    # most the sum of theirs (Cauchy & Schwarz), and events are independent.
    sizes = list(sizes)
    terms = [
        size * (one.mean**2 + one.spread**2 * size / (size - 1))
        for one, size in zip(found.influences, sizes, strict=True)
    ]
    return math.sqrt(math.fsum(terms)) / math.fsum(sizes)


def summed(request: IntervalRequest) -> Ends:
    """The interval with :func:`error_bound`, or the means of Newcombe's ends where that fails."""
    (state,) = request.states
    found = CLASS_AUCS[request.metric.name](state)
    scale = request.n / state.total
    sizes = [state.true_count(label) * scale for label in state.labels if state.true_count(label)]
    value, level = request.value, request.level
    rarest, lost = min(sizes), min(value, 1 - value)
    rare = max(sizes) > RARE * rarest and rarest * lost < FEWEST_LOST
    if rarest >= FEWEST and lost > 0 and not rare:
        error = error_bound(found, sizes)
        if error:
            margin = normal_quantile(level) * error
            return Ends(*logit_interval(value, 1 - value, margin))
    ends = [
        newcombe_interval(one.value, one.positives * scale, one.negatives * scale, level)
        for one in found.aucs
    ]
    low, high = (
        math.fsum(one.share * end for one, end in zip(found.aucs, column, strict=True))
        for column in zip(*ends, strict=True)
    )
    # Rounding must not move an end past the value.
    return Ends(min(low, value), min(1.0, max(high, value)), "newcombe, summed")
