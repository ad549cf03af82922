"""One class against the rest, averages over classes, and the integers both are made of.

Counts are integers, divided once at the end. Fractional weights are floats, each an integer times a
power of two: scaled to one power they are integers too, and a ratio does not depend on the scale.
In floats ``1 - p`` would be 0 where one class of a fading window has weight 1 and another 1e-18.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from streameval.errors import MetricError, shown
from streameval.events.values import Label, Weight
from streameval.metrics.undefined import NO_EVENTS, undefined_value
from streameval.states.confusion import ConfusionCounts, distinct_labels
from streameval.states.confusion_parts.confusion_cells import FRACTION_BITS
from streameval.states.label_counts import LabelCounts

Average: TypeAlias = Literal["binary", "macro", "micro", "weighted"]

Counts = ConfusionCounts | LabelCounts
"""Of classes, of which an event has one, or of labels, of which it has any number."""

_Number = TypeVar("_Number", int, float)


class WholeCounts(NamedTuple):
    """Class counts in integers, up to one common factor; lists aligned with `labels`."""

    labels: list[Label]
    correct: list[int]
    true: list[int]
    predicted: list[int]
    total: int


def whole_counts(counts: Counts) -> WholeCounts:
    """Correct, true and predicted weight of each class, in integers; O(classes), else O(cells)."""
    counts = counts.whole
    if counts.exact:
        return WholeCounts(*counts.per_class(), counts.total)  # type: ignore[arg-type]
    if isinstance(counts, LabelCounts):
        return _whole_labels(counts)
    labels = counts.labels
    row = {label: n for n, label in enumerate(labels)}
    correct = [0] * len(labels)
    true = correct.copy()
    predicted = correct.copy()
    for y_true, y_pred, weight in _scaled_cells(counts):
        true[row[y_true]] += weight
        predicted[row[y_pred]] += weight
        if y_true == y_pred:
            correct[row[y_true]] += weight
    return WholeCounts(labels, correct, true, predicted, sum(true))


def _whole_labels(counts: LabelCounts) -> WholeCounts:
    labels, right, true, predicted = counts.per_class()
    whole = whole_weights([counts.total, *right, *true, *predicted])
    total, size = whole[0], len(labels)
    rights, trues, guesses = (whole[1 + n * size : 1 + (n + 1) * size] for n in range(3))
    columns = (rights, trues, guesses)
    for row, (c, t, p) in enumerate(zip(*columns, strict=True)):
        if (total - t - p + c) * _SUM_ROUNDING < total:
            # True negatives are a difference of float sums: below their rounding there are none.
            if t == c:
                c, t, p = (total if p == c else c), (total if p == c else t), total
            elif p == c:
                t = total
            else:
                p = total - t + c
            for column, weight in zip(columns, (c, t, p), strict=True):
                column[row] = weight
    return WholeCounts(labels, rights, trues, guesses, total)


_SUM_ROUNDING = 10**9
"""Float sums of the same events in another order are equal to one part in so many."""


def whole_weights(weights: Collection[Weight]) -> list[int]:
    """Weights as integers, up to one common factor."""
    ratios = [weight.as_integer_ratio() for weight in weights]
    # Every denominator is a power of two: the largest is a multiple of the others.
    scale = max((denominator for _, denominator in ratios), default=1)
    return [numerator * (scale // denominator) for numerator, denominator in ratios]


def whole_cells(counts: ConfusionCounts) -> Iterable[tuple[Label, Label, int]]:
    """The cells ``(true, predicted, weight)`` on the same scale as :func:`whole_counts`."""
    counts = counts.whole
    return counts.cells() if counts.exact else _scaled_cells(counts)  # type: ignore[return-value]


def _scaled_cells(counts: ConfusionCounts) -> list[tuple[Label, Label, int]]:
    cells = list(counts.cells())
    weights = whole_weights([weight for _, _, weight in cells])
    return [(true, pred, n) for (true, pred, _), n in zip(cells, weights, strict=True)]


class _Need(NamedTuple):
    """A count that a denominator is made of."""

    amount: Callable[[int, int, int, int], int]
    """From one class's (correct, true, predicted, total)."""
    reason: str
    """Why there is no value where the amount is 0, with ``{}`` for the label."""
    class_is: str
    """What such a class is, for docstrings."""


_NEEDS: dict[str, _Need] = {
    "all": _Need(lambda c, t, p, s: s, NO_EVENTS, "read before the first event"),
    "true": _Need(lambda c, t, p, s: t, "no event is truly {}", "true of no event"),
    "predicted": _Need(lambda c, t, p, s: p, "no event was predicted {}", "predicted for no event"),
    "either": _Need(
        lambda c, t, p, s: t + p,
        "no event is truly {} or was predicted so",
        "neither true of nor predicted for any event",
    ),
    "others true": _Need(
        lambda c, t, p, s: s - t, "every event is truly {}", "true of every event"
    ),
    "others predicted": _Need(
        lambda c, t, p, s: s - p, "every event was predicted {}", "predicted for every event"
    ),
    "others either": _Need(
        lambda c, t, p, s: 2 * s - t - p,
        "every event is truly {} and was predicted so",
        "true of every event and predicted for every one",
    ),
    "false positives": _Need(
        lambda c, t, p, s: p - c,
        "no event of another class was predicted {}",
        "predicted for no event of another class",
    ),
    "true negatives": _Need(
        lambda c, t, p, s: s - t - p + c,
        "every event of another class was predicted {}",
        "predicted for every event of another class",
    ),
}


class Rule(NamedTuple):
    """One row of the table of class metrics: a value computed from four counts, and its meaning."""

    name: str
    """The metric; its averages are called ``<name>_macro`` and so on."""
    title: str
    """The term in full and its synonyms: the first line of the docstring."""
    definition: str
    """One line: what the number is. "Positive" is the class."""
    parts: Callable[[int, int, int, int], tuple[int, int]]
    """``(correct, true, predicted, total)`` to numerator and denominator, in integers."""
    needs: tuple[str, ...]
    """What must not be 0 for the value to exist; keys of ``_NEEDS``."""
    example: str = ""
    """A call's options and its value for the confusion matrix of the docstrings' examples."""
    root: bool = False
    """The value is the square root of the ratio."""
    low: float = 0.0
    high: float = 1.0
    direction: str = "up"
    """As in :class:`~streameval.metrics.metric.Metric`."""
    note: str = ""
    """Further sentences of the docstring."""
    source: str = ""
    synonyms: tuple[str, ...] = ()
    """Other names in use, for the hint in an error."""
    share: bool = False
    """The numerator counts some of the events that the denominator counts, so that the value
    is a proportion of these."""
    given: Callable[..., Rule] | None = None
    """The rule with the metric's own parameters; None where it has none."""
    fast: Mapping[str, Callable[..., float]] = MappingProxyType({})
    """Averages that have a function of their own, with the same bits."""

    @property
    def undefined_for(self) -> str:
        """Which classes have no value, in words: "a class that is …"."""
        return " or ".join(_NEEDS[need].class_is for need in self.needs)

    def value(self, numerator: float, denominator: float) -> float:
        value = numerator / denominator
        return math.copysign(math.sqrt(abs(value)), value) if self.root else value

    def scaled(self, numerator: int, denominator: int, weight: int = 1) -> int:
        """``weight · value`` in units of 2⁻⁶⁴, rounded down: a term that sums in any order."""
        if self.root:
            square = (weight * weight * abs(numerator) << 2 * FRACTION_BITS) // denominator
            return math.isqrt(square) if numerator >= 0 else -math.isqrt(square)
        return (weight * numerator << FRACTION_BITS) // denominator

    def reason(self, correct: int, true: int, predicted: int, total: int) -> str:
        """Why a class of these counts has no value, with ``{}`` for its label."""
        for need in self.needs:
            if not _NEEDS[need].amount(correct, true, predicted, total):
                return _NEEDS[need].reason
        raise AssertionError(f"{self.name} has a value")  # pragma: no cover


def averaged(
    rule: Rule,
    counts: Counts,
    average: Average | None,
    positive: Label | None,
    undefined: float | None,
    labels: Iterable[object] | None = None,
) -> float | dict[Label, float]:
    """The rule for one class, for each, or averaged over all or over those of `labels`."""
    if average == "binary":
        if labels is not None:
            raise MetricError(
                "labels: conflicts with average='binary', which is about one class; "
                "requires average='macro', 'micro', 'weighted' or None (each class)"
            )
        if positive is None:
            raise MetricError(
                f"{rule.name} is about one class: pass positive=..., "
                "or use average='macro', 'micro', 'weighted' or None (each class)"
            )
        found = one_class_counts(counts, positive)
        numerator, denominator = rule.parts(*found)
        if denominator:
            return rule.value(numerator, denominator)
        return _no_value(rule, *found, positive, undefined)
    check_choice("average", average, ("binary", "macro", "micro", "weighted", None))
    chosen = None if labels is None else _chosen(whole_counts(counts), chosen_labels(labels))
    if average == "micro":
        return _micro(rule, counts, chosen, undefined)
    whole = chosen or whole_counts(counts)
    if average is None:
        return _each_class(rule, whole, undefined)
    return _mean(rule, whole, undefined, by_support=average == "weighted")


def check_choice(name: str, value: object, choices: tuple[str | None, ...]) -> None:
    """Raises MetricError where an option is none of its choices."""
    if not (value is None or isinstance(value, str)) or value not in choices:
        names = ", ".join(map(repr, choices[:-1])) + f" or {choices[-1]!r}"
        raise MetricError(f"{name}: expected {names}, got {shown(value)}")


def chosen_labels(labels: Iterable[object]) -> list[Label]:
    """The labels of ``labels=``, in its order; raises MetricError or InputError."""
    chosen = distinct_labels(labels, "labels")
    if not chosen:
        raise MetricError("labels: expected at least one label, got none")
    return chosen


def _chosen(whole: WholeCounts, labels: list[Label]) -> WholeCounts:
    """The counts of some classes, and the total of all events; those never seen have 0."""
    row = {label: n for n, label in enumerate(whole.labels)}
    rows = [row.get(label) for label in labels]

    def of_rows(column: list[int]) -> list[int]:
        return [0 if n is None else column[n] for n in rows]

    columns = of_rows(whole.correct), of_rows(whole.true), of_rows(whole.predicted)
    return WholeCounts(labels, *columns, whole.total)


def _each_class(rule: Rule, whole: WholeCounts, undefined: float | None) -> dict[Label, float]:
    labels, *columns, total = whole
    values: dict[Label, float] = {}
    for label, correct, true, predicted in zip(labels, *columns, strict=True):
        numerator, denominator = rule.parts(correct, true, predicted, total)
        if denominator:
            values[label] = rule.value(numerator, denominator)
        else:
            values[label] = _no_value(rule, correct, true, predicted, total, label, undefined)
    return values


def _no_value(
    rule: Rule, c: int, t: int, p: int, s: int, label: Label, undefined: float | None
) -> float:
    """The value of a class whose denominator is 0."""
    if not s:
        return undefined_value(NO_EVENTS, undefined)
    return undefined_value(rule.reason(c, t, p, s), undefined, label)


def one_class_counts(counts: Counts, label: Label) -> tuple[int, int, int, int]:
    """Correct, true and predicted weight of a class, and the total, in integers."""
    total = counts.total
    if type(total) is int:
        correct, fp, fn, _ = counts.binary(label)
        return correct, correct + fn, correct + fp, total  # type: ignore[return-value]
    whole = whole_counts(counts)
    if label not in whole.labels:
        return 0, 0, 0, whole.total
    row = whole.labels.index(label)
    return whole.correct[row], whole.true[row], whole.predicted[row], whole.total


def _mean(rule: Rule, whole: WholeCounts, undefined: float | None, *, by_support: bool) -> float:
    labels, *columns, total = whole
    scaled = defined = 0
    for correct, true, predicted in zip(*columns, strict=True):
        numerator, denominator = rule.parts(correct, true, predicted, total)
        if denominator:
            # The weight multiplies the numerator, not the rounded term: in recall it
            # cancels, and the weighted recall equals the accuracy to the last bit.
            weight = true if by_support else 1
            scaled += rule.scaled(numerator, denominator, weight)
            defined += weight
    if not total:
        return undefined_value(NO_EVENTS, undefined)
    left = (sum(whole.true) if by_support else len(labels)) - defined
    value = mean_of_scaled(scaled, defined, left, undefined)
    if value is None and by_support:
        # Classes with a value but without events (predicted, never true) have
        # weight 0; without other classes the result is their plain mean, as in
        # scikit-learn.
        return _mean(rule, whole, undefined, by_support=False)
    return _no_class(rule, whole, undefined) if value is None else value


def _micro(
    rule: Rule, counts: Counts, chosen: WholeCounts | None, undefined: float | None
) -> float:
    """The rule of the counts of all classes added up, or of some: FP and FN may differ then."""
    if chosen is None and isinstance(counts, ConfusionCounts):
        correct, total = pooled_counts(counts)
        parts = pooled_parts(rule, correct, total, len(counts.labels))
    else:
        labels, *columns, total = chosen or whole_counts(counts)
        correct, true, predicted = map(sum, columns)
        parts = rule.parts(correct, true, predicted, total * len(labels))
    if not total:
        return undefined_value(NO_EVENTS, undefined)
    numerator, denominator = parts
    if denominator:
        return rule.value(numerator, denominator)
    return _no_class(rule, chosen or whole_counts(counts), undefined)


def pooled_counts(counts: ConfusionCounts) -> tuple[int, int]:
    """The weight of the correct events and of all, as :func:`whole_counts` has it."""
    correct, total = counts.correct, counts.total
    if type(total) is int:
        return correct, total  # type: ignore[return-value]
    whole = whole_counts(counts)
    return sum(whole.correct), whole.total


def pooled_parts(
    rule: Rule, correct: _Number, total: _Number, classes: int
) -> tuple[_Number, _Number]:
    """Numerator and denominator of a rule's micro average, a function of the accuracy alone."""
    # Pooled over all classes, each event is one true and one predicted label. The
    # number of true negatives depends on the number of classes.
    return rule.parts(correct, total, total, total * classes)  # type: ignore[arg-type]


def exact_sum(weights: Collection[Weight]) -> Weight:
    """The sum of integers, or of floats rounded once: the same in any order."""
    return sum(weights) if all(isinstance(w, int) for w in weights) else math.fsum(weights)


def mean_of_scaled(
    scaled: int | float, defined: int, left: int, undefined: float | None
) -> float | None:
    """The mean of `defined` values summed in units of 2⁻⁶⁴, and of `left` that are undefined."""
    if undefined is None or undefined != undefined or not left:
        return scaled / (defined << FRACTION_BITS) if defined else None
    if math.isinf(undefined):
        return undefined
    if isinstance(scaled, float):
        return (scaled / 2.0**FRACTION_BITS + left * undefined) / (defined + left)
    # In integers, so that the mean of ones is 1.
    top, bottom = float(undefined).as_integer_ratio()
    numerator = scaled * bottom + (left * top << FRACTION_BITS)
    return numerator / ((defined + left) * bottom << FRACTION_BITS)


def _no_class(rule: Rule, whole: WholeCounts, undefined: float | None) -> float:
    """Undefined, because no class has a value: with the reason of the first one."""
    found = next(undefined_classes(rule, whole), None)
    if not whole.labels:
        return undefined_value("no event has a label, and none was predicted of any", undefined)
    if found is None:
        # Of pooled counts only: each class has a value, and their sums have none.
        return undefined_value("the classes' counts add up to no value", undefined)
    label, reason = found
    return undefined_value(reason, undefined, label)


def undefined_classes(rule: Rule, whole: WholeCounts) -> Iterator[tuple[Label, str]]:
    """The classes without a value, each with the reason (``{}`` for its label)."""
    labels, *columns, total = whole
    for label, correct, true, predicted in zip(labels, *columns, strict=True):
        if not rule.parts(correct, true, predicted, total)[1]:
            yield label, rule.reason(correct, true, predicted, total) if total else NO_EVENTS
