"""Quality of probabilities: log loss, Brier score, their D², and top-k accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from streameval.errors import MetricError, shown
from streameval.events.values import Weight
from streameval.metrics.averages import exact_sum
from streameval.metrics.thresholds import class_missing
from streameval.metrics.undefined import NO_EVENTS, Undefined, ratio, undefined_value
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.confusion import ConfusionCounts
from streameval.states.probability import ProbabilitySums
from streameval.states.sums.fixed_point import UNIT

__all__ = [
    "brier_score",
    "d2_brier_score",
    "d2_log_loss_score",
    "log_loss",
    "normalized_entropy",
    "top_k_accuracy",
]

AnySums: TypeAlias = ProbabilitySums | ClassProbabilitySums


def missing_probability(sums: AnySums, what: str) -> str:
    """Why a metric of probabilities has no value; empty when it has one."""
    if isinstance(sums, ClassProbabilitySums) and not sums.probabilities and sums.weight:
        return (
            f"the scores are no probabilities, as probabilities=False says, and {what} needs them"
        )
    outside: Weight = sums.outside if isinstance(sums, ProbabilitySums) else 0
    return no_probabilities(sums.weight, outside, what)


def no_probabilities(weight: Weight, outside: Weight, what: str) -> str:
    """The same for scores: `weight` are probabilities, and `outside` are none."""
    if outside:
        lie = "lies" if outside == 1 else "lie"
        share = f"{_spelled(outside)} of {_spelled(weight + outside)} scores"
        return f"{share} {lie} outside [0, 1]; {what} needs probabilities"
    return "" if weight else NO_EVENTS


def _spelled(weight: Weight) -> str:
    return str(int(weight)) if weight == int(weight) else f"{weight:.6g}"


def _mean(units: str, sums: AnySums, what: str, undefined: float | None) -> float:
    whole = sums.whole
    weight = whole.weight
    # Read after every event: a reason is looked for where there is one.
    if weight and (not sums.outside if isinstance(sums, ProbabilitySums) else sums.probabilities):
        return float(getattr(whole, units) / (weight * UNIT))
    return undefined_value(missing_probability(sums, what), undefined)


def log_loss(sums: AnySums, *, undefined: float | None = None) -> float:
    """Mean of −ln(probability given to the true class), in nats.

    Probabilities are clipped to [ε, 1 − ε] with ε = 2⁻⁵², as scikit-learn's ``log_loss`` clips,
    so one event adds at most about 36. From 0 up; undefined while there is no event or, binary,
    while some score lies outside [0, 1]. Cost: O(1).

    >>> sums = ProbabilitySums()
    >>> sums.update(True, 0.8)
    >>> sums.update(False, 0.5)
    >>> round(log_loss(sums), 12)
    0.458145365937
    """
    return _mean("log_loss_units", sums, "log loss", undefined)


def brier_score(sums: AnySums, *, undefined: float | None = None) -> float:
    """Mean squared distance between probabilities and outcomes.

    Binary: mean of (p − y)², in [0, 1]. Multi-class: mean over events of Σ_k (p_k − y_k)² over
    the labels, in [0, 2]: scikit-learn's ``brier_score_loss`` in its default scale for three or
    more classes. Undefined in the cases of :func:`log_loss`. Cost: O(1).

    >>> sums = ProbabilitySums()
    >>> sums.update(True, 0.75)
    >>> sums.update(False, 0.5)
    >>> brier_score(sums)
    0.15625
    """
    return _mean("brier_units", sums, "the Brier score", undefined)


def normalized_entropy(
    sums: AnySums, counts: ConfusionCounts | None = None, *, undefined: float | None = None
) -> float:
    """Log loss over the log loss of always predicting how frequent each class is.

        NE = log loss / H,  H = −Σ (tₖ/s)·ln(tₖ/s)

    H is the entropy of the true classes: unlike the log loss, NE can be compared between streams
    whose classes are not equally frequent. Multi-class, `counts` has these, of the same events.
    From 0 up, 1 for predicting the frequencies; undefined in the cases of :func:`log_loss`, while
    all events are of one class, and, multi-class, where some event without probabilities was
    counted. Cost: O(bins), multi-class O(classes).

    Source: He et al. (2014), Practical lessons from predicting clicks on ads at Facebook;
    torcheval's ``BinaryNormalizedEntropy``.

    >>> sums = ProbabilitySums()
    >>> sums.update(True, 0.8)
    >>> sums.update(False, 0.2)
    >>> round(normalized_entropy(sums), 12)
    0.321928094887
    """
    return _of_baseline("the log loss", sums.log_loss_units, _entropy, sums, counts, undefined)


def d2_log_loss_score(
    sums: AnySums, counts: ConfusionCounts | None = None, *, undefined: float | None = None
) -> float:
    """The share of the log loss of predicting the class frequencies that is removed.

        D² = 1 − log loss / H = 1 − NE

    At most 1; 0 for predicting the frequencies, negative for worse. Arguments, undefined values
    and cost are those of :func:`normalized_entropy`.

    Source: scikit-learn's ``d2_log_loss_score``; McFadden's pseudo-R².

    >>> sums = ProbabilitySums()
    >>> sums.update(True, 0.8)
    >>> sums.update(False, 0.2)
    >>> round(d2_log_loss_score(sums), 12)
    0.678071905113
    """
    return _removed(normalized_entropy(sums, counts), undefined)


def d2_brier_score(
    sums: AnySums, counts: ConfusionCounts | None = None, *, undefined: float | None = None
) -> float:
    """The share of the Brier score of predicting the class frequencies that is removed.

        D² = 1 − Brier / (1 − Σ (tₖ/s)²)

    Binary, the denominator is half of that, as the Brier score is. Also called the Brier skill
    score. At most 1; 0 for predicting the frequencies, negative for worse. Arguments, undefined
    values and cost are those of :func:`normalized_entropy`.

    Source: scikit-learn's ``d2_brier_score``.

    >>> sums = ProbabilitySums()
    >>> sums.update(True, 0.75)
    >>> sums.update(False, 0.25)
    >>> d2_brier_score(sums)
    0.75
    """
    parts = 2 if isinstance(sums, ProbabilitySums) else 1
    share = _of_baseline("the Brier score", sums.brier_units, _spread, sums, counts, None, parts)
    return _removed(share, undefined)


def _of_baseline(
    what: str,
    units: Weight,
    baseline: Callable[[list[Weight], Weight], float],
    sums: AnySums,
    counts: ConfusionCounts | None,
    undefined: float | None,
    parts: int = 1,
) -> float:
    """The mean of a loss over the loss of predicting the frequencies, one of so many parts."""
    if reason := missing_probability(sums, what):
        return undefined_value(reason, undefined)
    if isinstance(sums, ProbabilitySums):
        positives = exact_sum(sums.bin_positives)
        others = zip(sums.bin_weights, sums.bin_positives, strict=True)
        negatives = exact_sum([weight - held for weight, held in others])
        if reason := class_missing(positives, negatives):
            return undefined_value(reason, undefined)
        true: list[Weight] = [negatives, positives]
    else:
        if counts is None:
            raise MetricError(f"{what} of several classes is compared with ConfusionCounts too")
        labels, _, every, _ = counts.per_class()
        held_labels = [label for label, weight in zip(labels, every, strict=True) if weight]
        true = [weight for weight in every if weight]
        if not math.isclose(counts.total, sums.weight, rel_tol=1e-9):
            return undefined_value("some events have no probabilities", undefined)
        if len(true) < 2:
            return undefined_value("every event is truly {}", undefined, held_labels[0])
    return units / (sums.weight * UNIT) / (baseline(true, exact_sum(true)) / parts)


def _removed(share: float, undefined: float | None) -> float:
    if isinstance(share, Undefined):
        return share if undefined is None or undefined != undefined else float(undefined)
    return 1.0 - share


def _with_rest(true: list[Weight], total: Weight) -> Iterator[tuple[float, float]]:
    """The share of each class and of all others, neither as 1 less the other."""
    for at, weight in enumerate(true):
        rest = total - weight
        if 2 * weight > total:
            rest = exact_sum(true[:at] + true[at + 1 :])
        yield weight / total, rest / total


def _entropy(true: list[Weight], total: Weight) -> float:
    # Close to 1, a share has lost what its logarithm is made of.
    return -math.fsum(
        share * (math.log1p(-rest) if rest < 0.5 else math.log(share))
        for share, rest in _with_rest(true, total)
    )


def _spread(true: list[Weight], total: Weight) -> float:
    return math.fsum(share * rest for share, rest in _with_rest(true, total))


def top_k_accuracy(
    sums: ClassProbabilitySums, k: int = 2, *, undefined: float | None = None
) -> float:
    """Share of events whose true label is among the k most probable, in [0, 1].

    Of equal probabilities the label that sorts later ranks higher, as in scikit-learn's
    ``top_k_accuracy_score``. Undefined before the first event. Raises MetricError where `k` is not
    a whole number above 0. Cost: O(distinct ranks).

    >>> sums = ClassProbabilitySums()
    >>> sums.update("cat", {"cat": 0.5, "dog": 0.25, "fox": 0.25})
    >>> sums.update("dog", {"cat": 0.5, "dog": 0.125, "fox": 0.375})
    >>> top_k_accuracy(sums, k=1), top_k_accuracy(sums, k=2), top_k_accuracy(sums, k=3)
    (0.5, 0.5, 1.0)
    """
    if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
        raise MetricError(f"k: expected a whole number above 0, got {shown(k)}")
    hits = exact_sum([weight for rank, weight in sums.ranks.items() if 0 <= rank < k])
    return ratio(hits, sums.weight, NO_EVENTS, undefined)
