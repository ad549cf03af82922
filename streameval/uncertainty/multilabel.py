"""Intervals of averages over labels and over events, by the delta method.

The labels of one event depend on each other, so that the unit is the event. To the first order a
metric moves by the mean over events of an influence: the sum over the event's labels of what each
outcome adds. Its variance over n is the metric's. The influence on a micro average, and on a mean
over events, follows from the sizes of the event's sets; that on a mean over labels requires how
often two labels have their outcomes together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import mul
from typing import Any

from streameval.events.values import Label
from streameval.metrics.averages import Rule, WholeCounts, whole_counts
from streameval.states.label_counts import LabelCounts
from streameval.states.label_pairs import LabelPairs
from streameval.states.label_sets import LabelSetCounts
from streameval.uncertainty.confusion_delta import (
    Table,
    degrees_of_freedom,
    derivatives,
    one_class_table,
    scaled_ends,
)
from streameval.uncertainty.interval import Ends, IntervalRequest, no_ends
from streameval.uncertainty.losses import student_quantile

NOT_KEPT = (
    "the labels of one event depend on each other, and how is not kept: pass intervals=True, "
    "or bootstrap=Bootstrap(...), to the Evaluator"
)
_ONE_EVENT = "a single event has no spread"


def by_events(request: IntervalRequest) -> Ends:
    """The interval of an average over labels or events, whose labels are dependent."""
    rule, average = request.metric.rule, request.metric.average
    assert rule is not None
    if rule.given is not None:
        rule = rule.given(**{name: float(value) for name, value in request.params.items()})
    if request.n <= 1:
        return no_ends(_ONE_EVENT)
    if average == "samples":
        return _of_events(request, rule, request.states[0])
    (counts,) = request.states
    sets: LabelSetCounts | None = request.state("label_sets")
    if average == "micro" and sets is not None:
        return _of_sizes(request, rule, sets, len(counts.labels))
    pairs: LabelPairs | None = request.state("label_pairs")
    if pairs is None:
        return no_ends(NOT_KEPT)
    return _of_pairs(request, rule, counts, pairs)


def _spread(
    request: IntervalRequest, smooth: float, n: float, influences: Iterable[tuple[float, float]]
) -> Ends:
    """The ends from each influence with its share of events, and the value beside an end."""
    cells = list(influences)
    mean = math.fsum(share * x for x, share in cells)
    variance = math.fsum(share * (x - mean) ** 2 for x, share in cells)
    fourth = math.fsum(share * (x - mean) ** 4 for x, share in cells)
    if not variance:
        return no_ends("no event differs from another")
    freedom = degrees_of_freedom(fourth / variance**2, n)
    z = student_quantile(request.level, freedom)
    return scaled_ends(request.metric, request.value, smooth, variance, n, z)


def _of_events(request: IntervalRequest, rule: Rule, sets: LabelSetCounts) -> Ends:
    """A mean over events of a ratio; those without a value are no part of it."""
    total = float(sets.total)
    values: list[tuple[float, float]] = []
    for (hits, predicted, true), weight in sets.sizes():
        numerator, denominator = rule.parts(hits, true, predicted, 0)
        if denominator:
            values.append((rule.value(numerator, denominator), weight / total))
    defined = math.fsum(share for _, share in values)
    n = request.n * defined
    if n <= 1:
        return no_ends(_ONE_EVENT)
    # One event more, half right: few events that are all right are no proof.
    cells = [(x, share / defined * n / (n + 1)) for x, share in values]
    cells.append(((rule.low + rule.high) / 2, 1 / (n + 1)))
    smooth = math.fsum(x * share for x, share in cells)
    return _spread(request, smooth, n, cells)._replace(n=n)


def _of_sizes(request: IntervalRequest, rule: Rule, sets: LabelSetCounts, labels: int) -> Ends:
    """A micro average, from the sizes of each event's sets."""
    n, total = request.n, float(sets.total)
    cells = [(tuple(map(float, sizes)), weight / total * n) for sizes, weight in sets.sizes()]
    hits, predicted, true = (
        math.fsum(sizes[at] * weight for sizes, weight in cells) for at in range(3)
    )
    # One event more, whose labels are right, false and missed alike.
    third = (predicted + true - hits) / n / 3 or labels / 4
    cells.append(((third, 2 * third, 2 * third), 1.0))
    scale = 1 << 40
    right, has, given = (
        round(x * scale) for x in (hits + third, true + 2 * third, predicted + 2 * third)
    )
    pooled = round((n + 1) * labels * scale)
    if not rule.parts(right, has, given, pooled)[1]:
        return no_ends("the value is at the edge of being undefined")
    smooth, slopes = derivatives(rule, right, has, given, pooled)
    by_hits, by_true, by_predicted = (slope / labels for slope in slopes)
    influences = [
        (h * by_hits + t * by_true + p * by_predicted, weight / (n + 1))
        for (h, p, t), weight in cells
    ]
    return _spread(request, smooth, n, influences)


def _of_pairs(request: IntervalRequest, rule: Rule, counts: LabelCounts, pairs: LabelPairs) -> Ends:
    """An average over labels, from how often two labels have their outcomes together."""
    whole = whole_counts(counts)
    slopes, smooth = _label_slopes(request, rule, counts, whole)
    total = float(counts.total)
    variance = 0.0
    means: list[float] = []
    influence: dict[tuple[Label, int], float] = {}
    for label, (table, (by_correct, by_true, by_predicted)) in slopes.items():
        # In the order of the outcomes: right, false and missed.
        found = (by_correct + by_true + by_predicted, by_predicted, by_true)
        influence.update({(label, outcome): x for outcome, x in enumerate(found)})
        correct, true, predicted, every = table.margins()
        c, t, p = (column[0] / every for column in (correct, true, predicted))
        shares = (c, p - c, t - c)
        mean = sum(map(mul, shares, found))
        variance += sum(share * x * x for share, x in zip(shares, found, strict=True)) - mean * mean
        means.append(sum(map(mul, counts.binary(label)[:3], found)) / total)
    together = math.fsum(
        weight * influence.get((a, first), 0.0) * influence.get((b, second), 0.0)
        for a, first, b, second, weight in pairs.cells()
    )
    apart = math.fsum(means) ** 2 - math.fsum(mean * mean for mean in means)
    variance += 2 * together / total - apart
    if variance <= 0:
        return no_ends("no event differs from another")
    z = student_quantile(request.level, max(3.0, request.n - 1))
    return scaled_ends(request.metric, request.value, smooth, variance, request.n, z)


def _label_slopes(
    request: IntervalRequest, rule: Rule, counts: LabelCounts, whole: WholeCounts
) -> tuple[dict[Label, tuple[Table, Any]], float]:
    """The derivatives of the average by each label's shares, and its value beside an end."""
    n, average = request.n, request.metric.average
    labels, *columns, total = whole
    tables = {
        label: one_class_table(counts, label, n)
        for label, c, t, p in zip(labels, *columns, strict=True)
        if average == "micro" or rule.parts(c, t, p, total)[1]
    }
    found = {}
    for label, table in tables.items():
        correct, true, predicted, every = table.margins()
        own = correct[0], true[0], predicted[0]
        found[label] = (table, own, every, *derivatives(rule, *own, every))
    if average == "micro":
        # All labels have one factor, and one total.
        c, t, p = (sum(own[at] for _, own, *_ in found.values()) for at in range(3))
        every = sum(every for _, _, every, *_ in found.values())
        smooth, slopes = derivatives(rule, c, t, p, every)
        by = [slope / len(found) for slope in slopes]
        return {label: (row[0], by) for label, row in found.items()}, smooth
    by_support = average == "weighted"
    shares = {label: row[1][1] / row[2] if by_support else 1.0 for label, row in found.items()}
    weight = math.fsum(shares.values())
    smooth = math.fsum(shares[label] * row[3] for label, row in found.items()) / weight
    slopes_of = {}
    for label, (table, _, _, value, slopes) in found.items():
        by_correct, by_true, by_predicted = (shares[label] * slope / weight for slope in slopes)
        if by_support:
            by_true += (value - smooth) / weight
        slopes_of[label] = table, (by_correct, by_true, by_predicted)
    return slopes_of, smooth
