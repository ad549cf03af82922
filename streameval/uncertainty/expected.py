"""Expected metrics: what a metric of predictions will be once their labels are there.

The rate of positives by score is taken from labelled events, in bins of equal mass; the number of
predictions in each bin is known. Both are score indexes, so that an expectation is a pure function
of two mergeable states. It assumes that P(y given score) is what it was in the labelled events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np

from streameval.errors import InputError, MetricError
from streameval.events.values import FloatArray, IntArray, Weight, canonical_score
from streameval.metrics.averages import exact_sum
from streameval.metrics.metric import BINARY, Metric, check_parameters, public_name, row_named
from streameval.metrics.probability import no_probabilities
from streameval.metrics.registry import ROWS, find
from streameval.metrics.undefined import NO_EVENTS, reason_of, undefined_value
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from streameval.states.confusion import ConfusionCounts
from streameval.states.ranking.coarse_score import coarse, coarse_column
from streameval.states.ranking.score_groups import equal_mass_edges
from streameval.states.score_index import ScoreIndex
from streameval.states.sums.fixed_point import UNIT
from streameval.states.sums.loss_terms import loss_column
from streameval.uncertainty.confusion_delta import gradient_of, scaled_ends
from streameval.uncertainty.interval import (
    DEFAULT_LEVEL,
    Ends,
    Interval,
    IntervalRequest,
    checked_level,
    normal_quantile,
)

FEWEST = 100
"""Labelled events without which there is no expectation."""

FEWEST_OF_CLASS = 10

MOST_OUTSIDE = 0.05
"""Share of the predictions outside of the labelled scores' range that a reason names."""

_MOST_APART = 2.0
"""Standard errors by which the sum of the classes' rates may differ from 1 without a reason."""


Scored: TypeAlias = ScoreIndex | ClassProbabilitySums | ClassScores
"""The states of scores that an expected metric is of."""


class Bins(NamedTuple):
    """Predictions and labelled events in common bins, ascending by score."""

    weight: FloatArray
    """Of the predictions in each bin."""
    rate: FloatArray
    """Share of positives among the labelled events, with half an event of each class added."""
    doubt: FloatArray
    """The variance of the rate."""
    first: int
    """The first bin that is predicted positive."""
    scores: tuple[FloatArray, FloatArray, IntArray]
    """Of the predictions: each distinct score, its weight and its bin."""
    labelled: tuple[FloatArray, FloatArray, FloatArray, IntArray]
    """Each distinct score, the weight of its positives and its negatives, and its bin."""

    def by_bin(self, bin_of: IntArray, values: FloatArray) -> FloatArray:
        """The sum of some values in each bin."""
        return _by_bin(bin_of, values, len(self.weight))

    def variance(self, sums: FloatArray, squares: FloatArray) -> float:
        """The variance of a metric, by the sums in each bin of its derivatives by one label.

        What is not known of the rates, and the chance of the labels that are still to come.
        """
        coming = self.rate * (1 - self.rate)
        return math.fsum([*(sums * sums * self.doubt), *(squares * coming)])


def _by_bin(bin_of: IntArray, values: FloatArray, size: int) -> FloatArray:
    return np.bincount(bin_of, values, size).astype(np.float64)


Expectation: TypeAlias = Callable[[Metric, Bins, Mapping[str, Any]], tuple[float, float]]
"""From the metric, the bins and the metric's parameters to its value and variance."""


def bins_of(
    predictions: ScoreIndex,
    labelled: ScoreIndex,
    threshold: float,
    scales: list[float],
    *,
    rare: bool = False,
) -> Bins:
    """The bins of a threshold; `rare` positives have bins of equal mass of their own among them."""
    known, positives, negatives = labelled.groups()
    own, one_class, another = predictions.groups()
    both: Any = positives + negatives
    # An index keeps the total of both classes below 2**63.
    pos, neg, weight = (
        column.astype(np.float64) * scale
        for column, scale in (
            (positives, scales[1]),
            (negatives, scales[1]),
            (one_class + another, scales[0]),
        )
    )
    wanted = round(2 * math.fsum(pos + neg) ** (1 / 3))
    edges = equal_mass_edges(known, both, wanted)
    if rare and labelled.positives:
        wanted = round(2 * math.fsum(pos) ** (1 / 3))
        edges = np.union1d(edges, equal_mass_edges(known, positives, wanted))
    # Bins are of whole cells, and the predicted label is the same in all of one.
    edges = np.union1d(coarse_column(edges, max(predictions.level, labelled.level)), [threshold])
    size = len(edges) + 1
    known_bin, own_bin = (np.searchsorted(edges, side, side="right") for side in (known, own))
    return Bins(
        _by_bin(own_bin, weight, size),
        *_rates(_by_bin(known_bin, pos, size), _by_bin(known_bin, neg, size)),
        int(np.searchsorted(edges, threshold)) + 1,
        (own, weight, own_bin),
        (known, pos, neg, known_bin),
    )


def _rates(positives: FloatArray, negatives: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The rate in each bin, and its variance."""
    events = positives + negatives + 1
    rate = (positives + 0.5) / events
    return rate, rate * (1 - rate) / events


def _of_cells(metric: Metric, bins: Bins, params: Mapping[str, Any]) -> tuple[float, float]:
    """Of a metric of the four cells, by its own function and gradient."""
    high = np.arange(len(bins.weight)) >= bins.first
    total = math.fsum(bins.weight)
    cells = [
        # Cells in units: a metric does not depend on the scale.
        [round(math.fsum(side[high == predicted]) / total * UNIT) for predicted in (False, True)]
        for side in (bins.weight * (1 - bins.rate), bins.weight * bins.rate)
    ]
    counts = ConfusionCounts.from_matrix(cells, [False, True])
    positive = {"positive": True} if metric.needs_positive else {}
    value = metric.bind(**positive, **params)(counts)
    if value != value:
        return value, math.nan
    if metric.average == "micro":
        # Of two classes: the mean by support, which has a gradient.
        metric = replace(metric, average="weighted")
    request = IntervalRequest(
        metric, value, (counts,), DEFAULT_LEVEL, float(UNIT), True, True, params, cumulative=False
    )
    _, gradient = gradient_of(request)
    rows = gradient.rows(slice(0, 2))
    # The class of the request is the first one; of all classes they are in order.
    negative, own = (1, 0) if metric.rule is not None and metric.average == "binary" else (0, 1)
    changes = (rows[own] - rows[negative]) / total
    by_label = np.where(high, changes[own], changes[negative])
    return value, bins.variance(bins.weight * by_label, bins.weight * by_label * by_label)


def _auc(metric: Metric, bins: Bins, params: Mapping[str, Any]) -> tuple[float, float]:
    """Pairs of bins are ranked by their order, pairs within one as the labelled events are."""
    _, pos, neg, bin_of = bins.labelled
    held_pos, held_neg = bins.by_bin(bin_of, pos), bins.by_bin(bin_of, neg)
    below = np.cumsum(neg) - neg - (np.cumsum(held_neg) - held_neg)[bin_of]
    won, pairs = bins.by_bin(bin_of, pos * (below + neg / 2)), held_pos * held_neg
    within = np.divide(won, pairs, out=np.full_like(won, 0.5), where=pairs > 0)
    positives, negatives = bins.weight * bins.rate, bins.weight * (1 - bins.rate)
    p, n = math.fsum(positives), math.fsum(negatives)
    beaten = np.cumsum(negatives) - negatives + within * negatives
    lost = np.cumsum(positives[::-1])[::-1] - positives + within * positives
    auc = min(1.0, math.fsum(positives * beaten) / (p * n))
    by_label = (beaten - lost) / (p * n) - auc / p + auc / n
    variance = bins.variance(bins.weight * by_label, bins.weight * by_label * by_label)
    width = metric.high - metric.low
    return metric.low + width * auc, width * width * variance


def _loss(positive: Callable[[FloatArray], FloatArray]) -> Expectation:
    """Of the mean of a loss, `positive` of the probability given to what happened."""

    def expectation(metric: Metric, bins: Bins, params: Mapping[str, Any]) -> tuple[float, float]:
        scores, weight, bin_of = bins.scores
        known, pos, neg, known_bin = bins.labelled
        total = math.fsum(weight)
        for some, held in ((scores, weight), (known, pos + neg)):
            out = math.fsum(held[(some < 0) | (some > 1)])
            if out:
                reason = no_probabilities(math.fsum(held) - out, out, metric.name)
                return undefined_value(reason), math.nan
        negative_loss, more = positive(1 - scores), positive(scores) - positive(1 - scores)
        rate = bins.rate[bin_of]
        # Within a bin, labels go with scores as they do in the labelled events.
        slope = positive(known) - positive(1 - known)
        events = bins.by_bin(known_bin, pos + neg)
        held_pos = bins.by_bin(known_bin, pos)
        means = np.divide(
            bins.by_bin(known_bin, (pos + neg) * slope), events, out=np.zeros_like(events),
            where=events > 0,
        )  # fmt: skip
        inside = bins.by_bin(known_bin, pos * slope) - held_pos * means
        inside = np.divide(inside, events, out=np.zeros_like(events), where=events > 0)
        value = math.fsum([*(weight * (negative_loss + rate * more)), *(bins.weight * inside)])
        sums = bins.by_bin(bin_of, weight * more) / total
        squares = bins.by_bin(bin_of, weight * more * more) / (total * total)
        return max(0.0, value / total), bins.variance(sums, squares)

    return expectation


def _class_loss(
    loss: Callable[[FloatArray], FloatArray],
    square: float,
    predictions: ClassScores,
    labelled: ClassScores,
    scales: list[float],
) -> tuple[float, float, str]:
    """Of the mean of a loss of the true class's probability, as a sum over the classes' columns.

    Each class has bins of its own. The rates of all classes add up to 1 but for their error: the
    mean is over what they do add up to. Each event adds `square` times its squares. Third is what
    speaks against the value: rates that do not add up, as a class's rate given its own score has
    changed with the mixture of the other classes' scores.
    """
    labels = list(dict.fromkeys([*predictions.classes, *labelled.classes]))
    columns = []
    added = total = fixed = doubts = 0.0
    for label in labels:
        sides = predictions.one_vs_rest(label), labelled.one_vs_rest(label)
        bins = bins_of(*sides, -math.inf, scales, rare=True)
        scores, weight, bin_of = bins.scores
        known, pos, neg, known_bin = bins.labelled
        held = bins.by_bin(known_bin, pos)
        events = held + bins.by_bin(known_bin, neg)
        some = np.where(events > 0, events, 1)
        # Half an event of each class in every bin would be too much of a class among many.
        rate = np.where(events > 0, held / some, 1 / len(labels))
        doubt = (held + 1 / len(labels)) / (events + 1) / (events + 1)
        losses = loss(scores)
        # Within a bin, labels go with scores as they do in the labelled events.
        apart = loss(known) - (bins.by_bin(known_bin, (pos + neg) * loss(known)) / some)[known_bin]
        inside = bins.weight * bins.by_bin(known_bin, pos * apart) / some
        added += math.fsum([*(weight * rate[bin_of] * losses), *inside])
        total += math.fsum(bins.weight * rate)
        doubts += math.fsum(bins.weight * bins.weight * doubt)
        fixed += square * math.fsum(weight * scores * scores)
        columns.append((bins, losses, rate, doubt))
    if not total:
        return undefined_value("no labelled event has probabilities like these"), math.nan, ""
    mean, variance = added / total, 0.0
    for bins, losses, rate, doubt in columns:
        _, weight, bin_of = bins.scores
        by_label = (losses - mean) / total
        sums, squares = (bins.by_bin(bin_of, weight * g) for g in (by_label, by_label * by_label))
        # Of one event's labels only one is true: no more than the second moment about the mean.
        variance += math.fsum([*(sums * sums * doubt), *(squares * rate)])
    size, note = math.fsum(bins.weight), ""
    if abs(total - size) > _MOST_APART * math.sqrt(doubts):
        note = (
            f"the expected shares of the classes add up to {total / size:.4g}, not 1: the labels "
            "go with each class's scores otherwise than in the labelled events"
        )
    return max(0.0, mean + fixed / size), variance, note


_OTHERS: Mapping[str, Expectation] = {
    "roc_auc": _auc,
    "gini": _auc,
    "log_loss": _loss(loss_column),
    "brier_score": _loss(lambda given: (1 - given) ** 2),
}

EXPECTED: Mapping[str, tuple[Metric, Expectation]] = MappingProxyType(
    {
        row.name: (row, _OTHERS.get(row.name, _of_cells))
        for row in ROWS
        if row.tasks >= BINARY
        and row.name != "positive_rate"  # it needs no labels
        and not row.name.endswith("_micro")
        and (
            row.name in _OTHERS
            or (row.states == ("confusion",) and row.family in ("proportion", "confusion"))
        )
    }
)
"""From the metrics of two classes that have an expectation to their rows, and how it is computed:
those of the four expected cells, and those of scores."""

_CLASS_LOSSES: Mapping[str, tuple[Callable[[FloatArray], FloatArray], float]] = {
    "log_loss": (loss_column, 0.0),
    "brier_score": (lambda given: 1 - 2 * given, 1.0),
}
"""Of several classes: a function of the true class's probability, and the factor of all squares."""

_OF_CLASSES: Mapping[str, Any] = {
    **dict.fromkeys(("accuracy", "error_rate"), ClassProbabilitySums),
    **dict.fromkeys(_CLASS_LOSSES, ClassScores),
}

_NAMES = frozenset(row.name for row in ROWS)


def outside(predictions: ScoreIndex, labelled: ScoreIndex) -> float:
    """The share of the predictions whose score is outside of the labelled events' range."""
    known = labelled.groups().scores
    scores, positives, negatives = predictions.groups()
    weight = positives + negatives
    return float(weight[(scores < known[0]) | (scores > known[-1])].sum() / weight.sum())


def _notes(
    metric: Metric, predictions: ScoreIndex, labelled: ScoreIndex, threshold: float, border: float
) -> str:
    """What speaks against a value, as a reason beside it."""
    notes = []
    share = outside(predictions, labelled)
    if share > MOST_OUTSIDE:
        known = labelled.groups().scores
        notes.append(
            f"{share:.1%} of the scores are outside of those of the labelled events, "
            f"{known[0]:.6g} to {known[-1]:.6g}"
        )
    if metric.state == "confusion" and border != threshold:
        notes.append(f"scores have been coarsened, and the threshold is taken as {border:.6g}")
    if metric.family == "loss" and (coarsened := _coarsened(predictions, labelled)):
        notes.append(coarsened)
    return "; ".join(notes)


def _coarsened(*sides: ScoreIndex | ClassScores) -> str:
    """What speaks against a loss of coarse scores; empty where all scores are kept."""
    if not any(side.level for side in sides):
        return ""
    return "scores have been coarsened, and each has the loss of its cell's least one"


def state_read(name: str, *, binary: bool) -> str:
    """The state that an expected metric is of."""
    if binary:
        return "index"
    return "class_scores" if name in _CLASS_LOSSES else "class_probability"


def expected(
    name: str,
    predictions: Scored,
    labelled: Scored,
    *,
    threshold: float = 0.5,
    level: float = 0.95,
    sizes: tuple[float, float] | None = None,
    **params: Any,
) -> Interval:
    """The value that a metric is expected to have once the labels are there, with its interval.

    The interval is of the later value of these predictions: it has the error of rates that are
    known from so many labelled events, and the chance of the labels to come. It holds as long as
    P(y given score) is what it was: another mixture of scores is accounted for, a model that has
    become wrong is not.

    Args:
        name: A metric of :data:`EXPECTED`.
        predictions: Scores without labels, counted as of either class. Of several classes,
            counted as if each predicted label were true: for ``accuracy`` and ``error_rate``, sums
            over the predicted labels' probabilities; for ``log_loss`` and ``brier_score``, the
            scores of every class.
        labelled: The same with labels, of earlier events: at least 100, of two classes 10 of each.
        threshold: Scores from it on are predicted positive.
        level: Of the interval.
        sizes: Of weights that are not whole, Kish's effective sizes of the predictions and of the
            labelled events; without them there is no interval.
        params: The metric's own, such as ``beta``.

    Returns:
        The value and its interval; with a reason beside both where more than 5 % of the predictions
        are outside of the labelled scores' range, ``max_scores`` has coarsened the threshold or
        the scores of a loss, or the expected shares of several classes do not add up to 1.
        Undefined where the metric of the expected cells is.

    Raises:
        InputError: There are too few labelled events.
        MetricError: The metric has no expectation, or takes no such parameter.

    Cost:
        O(distinct scores).

    >>> labelled, predictions = ScoreIndex(), ScoreIndex()
    >>> labelled.update_many([0, 0, 0, 1] * 40 + [0, 1, 1, 1] * 40, [0.2] * 160 + [0.9] * 160)
    >>> predictions.update_many([0] * 400, [0.2] * 300 + [0.9] * 100)
    >>> print(expected("accuracy", predictions, labelled))
    0.748447 [0.675118, 0.809886]
    """
    if name in _NAMES and name not in EXPECTED:
        raise MetricError(f"{name} has no expectation; there are {', '.join(EXPECTED)}")
    metric, expectation = row_named("expected metric", name, EXPECTED)
    # The averages are metrics of their own, and the labels are no more than two.
    check_parameters(name, params, [one for one in metric.params if one == "beta"])
    sides = predictions, labelled
    if not any(all(isinstance(side, kind) for side in sides) for kind in get_args(Scored)):
        got = " and ".join(public_name(type(side)) for side in sides)
        raise MetricError(
            f"expected {name} is of two ScoreIndex, ClassProbabilitySums or ClassScores, got {got}"
        )
    checked_level(level)
    if not isinstance(labelled, ScoreIndex):
        _check_classes(name, predictions, labelled)
        metric = find(name, "multiclass")
    totals = [_weights(side) for side in sides]
    whole = predictions.exact and labelled.exact
    if sizes is not None and any(map(math.isnan, sizes)):
        sizes = None  # of an evaluator that does not keep them
    counted = [sum(held) for held in totals] if whole or sizes is None else list(sizes)
    scales = [size / (sum(held) or 1) for size, held in zip(counted, totals, strict=True)]
    _check_labelled([weight * scales[1] for weight in totals[1]])
    if not sum(totals[0]):
        return _without(undefined_value(NO_EVENTS), level)
    notes = ""
    if isinstance(predictions, ScoreIndex) and isinstance(labelled, ScoreIndex):
        cells = max(predictions.level, labelled.level)
        border = coarse(canonical_score(threshold, "threshold"), cells)
        bins = bins_of(predictions, labelled, border, scales)
        notes = _notes(metric, predictions, labelled, threshold, border)
        value, variance = expectation(metric, bins, params)
    elif isinstance(predictions, ClassScores) and isinstance(labelled, ClassScores):
        loss, square = _CLASS_LOSSES[name]
        value, variance, note = _class_loss(loss, square, predictions, labelled, scales)
        notes = "; ".join(filter(None, (_coarsened(predictions, labelled), note)))
    else:
        value, variance = expectation(metric, _class_bins(predictions, labelled, scales), params)
    if value != value:
        return _without(value, level)
    if not whole and sizes is None:
        reason = "with weights that are not whole, it needs sizes: "
        reason += "evaluators keep them with intervals=True"
        return Interval(value, math.nan, math.nan, level, "", math.nan, reason)
    if not variance and metric.family == "auc":
        reason = "all scores are in one bin, whose ranking no label changes"
        return Interval(value, math.nan, math.nan, level, "", float(counted[0]), reason)
    ends = Ends(value, value)
    if variance and metric.low < value < metric.high:
        ends = scaled_ends(metric, value, value, variance, 1.0, normal_quantile(level))
    method = "expected" if whole else "expected (Kish)"
    return Interval(value, ends.low, ends.high, level, method, float(counted[0]), notes)


def _weights(side: Any) -> list[Weight]:
    """The weight of the labelled events of each class; of several classes, right and wrong."""
    if isinstance(side, ScoreIndex):
        return [side.positives, side.negatives]
    if isinstance(side, ClassScores):
        return [side.total]
    right = exact_sum(side.bin_correct)
    return [right, side.weight - right]


def _check_labelled(held: list[float]) -> None:
    if sum(held) < FEWEST or min(held) < FEWEST_OF_CLASS:
        raise InputError(
            "labelled",
            expected=f"at least {FEWEST} labelled events"
            + f", {FEWEST_OF_CLASS} of each class" * (len(held) > 1),
            got=" and ".join(f"{weight:.6g}" for weight in held),
            remedy="count more labelled events",
        )


def _without(value: float, level: float) -> Interval:
    return Interval(value, math.nan, math.nan, level, "", 0, reason_of(value))


def _check_classes(name: str, predictions: Any, labelled: Any) -> None:
    if name not in _OF_CLASSES:
        raise MetricError(
            f"of several classes {name} has no expectation: no state holds which label was "
            f"predicted at which probabilities; there are {', '.join(_OF_CLASSES)}"
        )
    kind = _OF_CLASSES[name]
    if type(labelled) is not kind:
        got = public_name(type(labelled))
        raise MetricError(f"of several classes {name} is of two {kind.__name__}, got {got}")
    if kind is ClassScores:
        if predictions.not_probabilities or labelled.not_probabilities:
            raise MetricError(f"expected {name} needs probabilities, got probabilities=False")
    elif predictions.bins != labelled.bins:
        raise MetricError(
            f"expected {name} requires states of the same bins, got {predictions.bins} and "
            f"{labelled.bins}"
        )


def _class_bins(predictions: Any, labelled: Any, scales: list[float]) -> Bins:
    """Bins of the predicted label's probability, right as the positive class, all predicted so."""
    right, all_of, weight = (
        np.array(column, dtype=np.float64) * scale
        for column, scale in (
            (labelled.bin_correct, scales[1]),
            (labelled.bin_weights, scales[1]),
            (predictions.bin_weights, scales[0]),
        )
    )
    no, nowhere = np.zeros(0), np.zeros(0, dtype=np.int64)
    return Bins(weight, *_rates(right, all_of - right), 0, (no, no, nowhere), (no, no, no, nowhere))
