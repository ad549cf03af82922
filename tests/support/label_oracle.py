"""Label metrics straight from their definitions: slow, literal, in fractions.

An event is (true label, predicted label, weight). None stands for undefined.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

Event = tuple[object, object, object]


def weight_of(events, keep) -> Fraction:
    return sum((Fraction(w) for t, p, w in events if keep(t, p)), Fraction(0))


def divide(numerator, denominator):
    return None if denominator == 0 else Fraction(numerator) / denominator


def four_counts(events, label):
    """TP, FP, FN, TN of a label against all others."""
    return (
        weight_of(events, lambda t, p: t == label and p == label),
        weight_of(events, lambda t, p: t != label and p == label),
        weight_of(events, lambda t, p: t == label and p != label),
        weight_of(events, lambda t, p: t != label and p != label),
    )


def f_measure(beta, tp, fp, fn):
    square = Fraction(beta) ** 2
    return divide((1 + square) * tp, (1 + square) * tp + square * fn + fp)


def both(left, right, combine):
    return None if left is None or right is None else combine(left, right)


def _recall(tp, fp, fn, tn):
    return divide(tp, tp + fn)


def _specificity(tp, fp, fn, tn):
    return divide(tn, tn + fp)


def _precision(tp, fp, fn, tn):
    return divide(tp, tp + fp)


def _npv(tp, fp, fn, tn):
    return divide(tn, tn + fn)


CLASS_METRICS = {
    "precision": _precision,
    "recall": _recall,
    "specificity": _specificity,
    "npv": _npv,
    "fpr": lambda tp, fp, fn, tn: divide(fp, fp + tn),
    "fnr": lambda tp, fp, fn, tn: divide(fn, fn + tp),
    "f1": lambda tp, fp, fn, tn: f_measure(1, tp, fp, fn),
    "fbeta": lambda tp, fp, fn, tn: f_measure(1, tp, fp, fn),
    "jaccard": lambda tp, fp, fn, tn: divide(tp, tp + fp + fn),
    "fowlkes_mallows": lambda *c: both(
        _precision(*c), _recall(*c), lambda a, b: Fraction(math.sqrt(a * b))
    ),
    "positive_rate": lambda *c: divide(c[0] + c[1], sum(c)),
    "informedness": lambda *c: both(_recall(*c), _specificity(*c), lambda a, b: a + b - 1),
    "markedness": lambda *c: both(_precision(*c), _npv(*c), lambda a, b: a + b - 1),
    "positive_likelihood_ratio": lambda *c: both(_recall(*c), divide(c[1], c[1] + c[3]), divide),
    "negative_likelihood_ratio": lambda *c: both(
        divide(c[2], c[2] + c[0]), _specificity(*c), divide
    ),
}


def classes(events):
    return sorted({t for t, _, _ in events} | {p for _, p, _ in events})


def class_value(name, events, label):
    return CLASS_METRICS[name](*four_counts(events, label))


def average(name, events, how, undefined=None):
    """A macro, micro or weighted average; classes without a value are left out or `undefined`."""
    counts = [four_counts(events, k) for k in classes(events)]
    return average_of(CLASS_METRICS[name], counts, how, undefined)


def average_of(metric, counts, how, undefined=None):
    """The average over the four counts of each class or label."""
    if how == "micro":
        value = metric(*map(sum, zip(*counts, strict=True))) if counts else None
        return undefined if value is None else value
    terms = []
    for tp, fp, fn, tn in counts:
        value = metric(tp, fp, fn, tn)
        value = undefined if value is None else value
        if value is not None:
            terms.append((Fraction(value), tp + fn if how == "weighted" else 1))
    # Where no class that has a value is true of any event, their plain mean.
    return mean(terms, mean([(value, 1) for value, _ in terms], undefined))


def mean(terms, undefined=None):
    """The mean of values with weights."""
    total = sum(weight for _, weight in terms)
    return sum(value * weight for value, weight in terms) / total if total else undefined


def accuracy(events):
    return divide(weight_of(events, lambda t, p: t == p), weight_of(events, lambda t, p: True))


def chance(events):
    """p_e: how often truth and prediction would agree were they independent."""
    total = weight_of(events, lambda t, p: True)
    return sum(
        weight_of(events, lambda t, p, k=k: t == k) * weight_of(events, lambda t, p, k=k: p == k)
        for k in classes(events)
    ) / (total * total)


def cohen_kappa(events, weights=None):
    if not events:
        return None
    labels = classes(events)
    total = weight_of(events, lambda t, p: True)

    def distance(a, b):
        apart = abs(labels.index(a) - labels.index(b))
        return {None: int(apart > 0), "linear": apart, "quadratic": apart**2}[weights]

    seen = sum(Fraction(w) * distance(t, p) for t, p, w in events) / total
    expected = sum(
        distance(a, b)
        * weight_of(events, lambda t, p, a=a: t == a)
        * weight_of(events, lambda t, p, b=b: p == b)
        for a in labels
        for b in labels
    ) / (total * total)
    ratio = divide(seen, expected)
    return None if ratio is None else 1 - ratio


def matthews_corrcoef(events):
    """The correlation of the one-hot truth with the one-hot prediction, summed over classes."""
    total = weight_of(events, lambda t, p: True)

    def covariance(one, other):
        """Of two places in an event, times the square of all weight."""
        return sum(
            total * sum(Fraction(event[2]) for event in events if event[one] == k == event[other])
            - math.prod(sum(Fraction(e[2]) for e in events if e[n] == k) for n in (one, other))
            for k in classes(events)
        )

    spread, top = covariance(0, 0) * covariance(1, 1), covariance(0, 1)
    return math.copysign(math.sqrt(top * top / spread), top) if spread else None


def _better_than(events, share):
    """How much of the error of always being right in this share of cases is avoided."""
    ratio = divide(1 - accuracy(events), 1 - share)
    return None if ratio is None else 1 - ratio


def kappa_m(events):
    if not events:
        return None
    total = weight_of(events, lambda t, p: True)
    most = max(weight_of(events, lambda t, p, k=k: t == k) for k in classes(events)) / total
    return _better_than(events, most)


def kappa_temporal(events):
    pairs = list(pairwise(events))
    if not pairs:
        return None
    return _better_than(events, Fraction(sum(a[0] == b[0] for a, b in pairs), len(pairs)))


def balanced_accuracy(events):
    return average("recall", events, "macro")


def adjusted_balanced_accuracy(events):
    present = {t for t, _, w in events if w}
    mean_recall, least = balanced_accuracy(events), divide(1, len(present))
    return None if mean_recall is None else divide(mean_recall - least, 1 - least)


def geometric_mean(events):
    recalls = [class_value("recall", events, label) for label in classes(events)]
    if not recalls or None in recalls:
        return None
    return math.prod(map(float, recalls)) ** (1 / len(recalls))


def _prevalence_weighted(events, count):
    fours = [four_counts(events, k) for k in classes(events)]
    return divide(
        sum(four[0] * sum(four[::2]) for four in fours),
        sum(count(four) * sum(four[::2]) for four in fours),
    )


WHOLE_METRICS = {
    "accuracy": accuracy,
    "error_rate": lambda events: divide(
        weight_of(events, lambda t, p: t != p), weight_of(events, lambda t, p: True)
    ),
    "balanced_accuracy": balanced_accuracy,
    "adjusted_balanced_accuracy": adjusted_balanced_accuracy,
    "geometric_mean": geometric_mean,
    "matthews_corrcoef": matthews_corrcoef,
    "cohen_kappa": cohen_kappa,
    "cohen_kappa_linear": lambda events: cohen_kappa(events, "linear"),
    "cohen_kappa_quadratic": lambda events: cohen_kappa(events, "quadratic"),
    "kappa_m": kappa_m,
    "prevalence_weighted_precision": lambda events: _prevalence_weighted(
        events, lambda four: four[0] + four[1]
    ),
    "prevalence_weighted_recall": lambda events: _prevalence_weighted(
        events, lambda four: four[0] + four[2]
    ),
}
