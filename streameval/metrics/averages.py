"""One class against the rest, and the four ways to make one number of many classes.

A :class:`Rule` says how a metric follows from one class's four counts. From
it follow the value of one class, of each class, and the macro, micro and
weighted averages, all in integers that are divided once at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, cast, overload

from streameval.errors import MetricError, shown
from streameval.events import Label
from streameval.metrics.undefined import NO_EVENTS, undefined_value
from streameval.metrics.whole_counts import whole_counts
from streameval.states.confusion import ConfusionCounts
from streameval.states.label_sums import FRACTION_BITS

__all__ = [
    "FRACTION_BITS",
    "Average",
    "ClassMetric",
    "Rule",
    "averaged",
    "mean_of_scaled",
    "typed_by_average",
    "undefined_classes",
]

Average: TypeAlias = Literal["binary", "macro", "micro", "weighted"]

# What a denominator is made of: how much of it there is, from one class's
# (correct, true, predicted, total), and what to say where there is none.
_NEEDS: dict[str, tuple[Callable[[int, int, int, int], int], str]] = {
    "true": (lambda c, t, p, s: t, "no event is truly {}"),
    "predicted": (lambda c, t, p, s: p, "no event was predicted {}"),
    "either": (lambda c, t, p, s: t + p, "no event is truly {} or was predicted so"),
    "others true": (lambda c, t, p, s: s - t, "every event is truly {}"),
    "others predicted": (lambda c, t, p, s: s - p, "every event was predicted {}"),
    "false positives": (
        lambda c, t, p, s: p - c,
        "no event of another class was predicted {}",
    ),
    "true negatives": (
        lambda c, t, p, s: s - t - p + c,
        "every event of another class was predicted {}",
    ),
}


@dataclass(frozen=True, slots=True)
class Rule:
    """How a metric of one class follows from its counts.

    Args:
        name: The metric.
        parts: ``(correct, true, predicted, total)`` of a class to the
            numerator and denominator of its value, in integers.
        needs: What must not be 0 for the value to exist; keys of a table
            that also holds the words.
        root: The value is the square root of the ratio.
    """

    name: str
    parts: Callable[[int, int, int, int], tuple[int, int]]
    needs: tuple[str, ...]
    root: bool = False

    def value(self, numerator: int, denominator: int) -> float:
        value = numerator / denominator
        return math.sqrt(value) if self.root else value

    def scaled(self, numerator: int, denominator: int, weight: int = 1) -> int:
        """``weight · value`` in units of 2⁻⁶⁴, rounded down: a term that sums in any order."""
        if self.root:
            square = (weight * weight * numerator << 2 * FRACTION_BITS) // denominator
            return math.isqrt(square)
        return (weight * numerator << FRACTION_BITS) // denominator

    def reason(self, correct: int, true: int, predicted: int, total: int) -> str:
        """Why a class of these counts has no value, with ``{}`` for its label."""
        for need in self.needs:
            amount, words = _NEEDS[need]
            if not amount(correct, true, predicted, total):
                return words
        raise AssertionError(f"{self.name} has a value")  # pragma: no cover

    @property
    def asks_total(self) -> bool:
        """Whether events of neither the true nor the predicted class play a part."""
        return any(need.startswith("others") for need in self.needs)


def averaged(
    rule: Rule,
    counts: ConfusionCounts,
    average: Average | None,
    positive: Label | None,
    undefined: float | None,
) -> float | dict[Label, float]:
    """The rule for one class, for each, or averaged over all.

    Raises:
        MetricError: An unknown average, or ``"binary"`` without `positive`.
    """
    if average == "binary":
        if positive is None:
            raise MetricError(
                f"{rule.name} is about one class: say which with positive=..., "
                "or ask average='macro', 'micro', 'weighted' or None (each class)"
            )
        return _one_class(rule, counts, positive, undefined)
    if average == "macro":
        return _macro(rule, counts, undefined)
    if average == "micro":
        return _micro(rule, counts, undefined)
    if average == "weighted":
        return _weighted(rule, counts, undefined)
    if average is None:
        return _each_class(rule, counts, undefined)
    raise MetricError(
        f"average: expected 'binary', 'macro', 'micro', 'weighted' or None, got {shown(average)}"
    )


def _one_class(
    rule: Rule, counts: ConfusionCounts, positive: Label, undefined: float | None
) -> float:
    total = counts.total
    if type(total) is int:
        correct, fp, fn, _ = counts.binary(positive)
        true, predicted = correct + fn, correct + fp
    else:
        whole = whole_counts(counts)
        total = whole.total
        correct = true = predicted = 0
        if positive in whole.labels:
            place = whole.labels.index(positive)
            correct, true = whole.correct[place], whole.true[place]
            predicted = whole.predicted[place]
    numerator, denominator = rule.parts(correct, true, predicted, total)  # type: ignore[arg-type]
    if denominator:
        return rule.value(numerator, denominator)
    if not total:
        return undefined_value(NO_EVENTS, undefined)
    reason = rule.reason(correct, true, predicted, total)  # type: ignore[arg-type]
    return undefined_value(reason, undefined, positive)


def _each_class(rule: Rule, counts: ConfusionCounts, undefined: float | None) -> dict[Label, float]:
    labels, *columns, total = whole_counts(counts)
    values: dict[Label, float] = {}
    for label, correct, true, predicted in zip(labels, *columns, strict=True):
        numerator, denominator = rule.parts(correct, true, predicted, total)
        if denominator:
            values[label] = rule.value(numerator, denominator)
        elif total:
            reason = rule.reason(correct, true, predicted, total)
            values[label] = undefined_value(reason, undefined, label)
        else:
            values[label] = undefined_value(NO_EVENTS, undefined)
    return values


def _macro(rule: Rule, counts: ConfusionCounts, undefined: float | None) -> float:
    labels, *columns, total = whole_counts(counts)
    scaled = defined = 0
    for correct, true, predicted in zip(*columns, strict=True):
        numerator, denominator = rule.parts(correct, true, predicted, total)
        if denominator:
            scaled += rule.scaled(numerator, denominator)
            defined += 1
    if not total:
        return undefined_value(NO_EVENTS, undefined)
    value = mean_of_scaled(scaled, defined, len(labels) - defined, undefined)
    return _no_class(rule, counts) if value is None else value


def _weighted(rule: Rule, counts: ConfusionCounts, undefined: float | None) -> float:
    _, *columns, total = whole_counts(counts)
    scaled = defined = 0
    for correct, true, predicted in zip(*columns, strict=True):
        numerator, denominator = rule.parts(correct, true, predicted, total)
        if denominator:
            # The class's weight inside the term, not around it: recall's then
            # cancels, and the weighted recall is the accuracy to the last bit.
            scaled += rule.scaled(numerator, denominator, true)
            defined += true
    if not total:
        return undefined_value(NO_EVENTS, undefined)
    value = mean_of_scaled(scaled, defined, total - defined, undefined)
    # Classes that have a value but no event (predicted, never true) weigh
    # nothing; where there are no others it is their plain mean, as in
    # scikit-learn.
    return _macro(rule, counts, None) if value is None else value


def _micro(rule: Rule, counts: ConfusionCounts, undefined: float | None) -> float:
    correct, total = counts.correct, counts.total
    if type(total) is not int:
        whole = whole_counts(counts)
        correct, total = sum(whole.correct), whole.total
    # Over all classes, each event is once a truth and once a prediction. What
    # is left for the true negatives depends on how many classes there are.
    pool = total * len(counts.labels) if rule.asks_total else total
    numerator, denominator = rule.parts(correct, total, total, pool)  # type: ignore[arg-type]
    if denominator:
        return rule.value(numerator, denominator)
    if not total:
        return undefined_value(NO_EVENTS, undefined)
    if undefined is None or undefined != undefined:
        return _no_class(rule, counts)
    return undefined


def mean_of_scaled(
    scaled: int | float, defined: int, left: int, undefined: float | None
) -> float | None:
    """The mean of values summed in units of 2⁻⁶⁴, or None where nothing has a value.

    Args:
        scaled: Σ weight · value of the classes that have one.
        defined: Their weights' sum: for a macro average, how many they are.
        left: The weights' sum of the classes without a value.
        undefined: A number that stands for each of those; None or ``nan``
            leave them out of the mean.

    >>> mean_of_scaled(3 << 63, 2, 2, None), mean_of_scaled(3 << 63, 2, 2, 1.0)
    (0.75, 0.875)
    """
    if undefined is None or undefined != undefined or not left:
        return scaled / (defined << FRACTION_BITS) if defined else None
    if math.isinf(undefined):
        return undefined
    if isinstance(scaled, float):
        return (scaled / 2.0**FRACTION_BITS + left * undefined) / (defined + left)
    # Exactly, so that ones and a one make a one.
    top, bottom = float(undefined).as_integer_ratio()
    numerator = scaled * bottom + (left * top << FRACTION_BITS)
    return numerator / ((defined + left) * bottom << FRACTION_BITS)


def _no_class(rule: Rule, counts: ConfusionCounts) -> float:
    """Undefined, because no class has a value: in the words of the first one."""
    label, reason = next(undefined_classes(rule, counts))
    return undefined_value(reason, None, label)


def undefined_classes(rule: Rule, counts: ConfusionCounts) -> Iterator[tuple[Label, str]]:
    """The classes without a value, each with the reason (``{}`` for its label)."""
    labels, *columns, total = whole_counts(counts)
    for label, correct, true, predicted in zip(labels, *columns, strict=True):
        if not rule.parts(correct, true, predicted, total)[1]:
            reason = rule.reason(correct, true, predicted, total) if total else NO_EVENTS
            yield label, reason


class ClassMetric(Protocol):
    """The signature of a metric of one class: a number, or with ``average=None`` one for each."""

    @property
    def __name__(self) -> str: ...

    @overload
    def __call__(
        self,
        counts: ConfusionCounts,
        *,
        average: Average = "binary",
        positive: Label | None = None,
        undefined: float | None = None,
    ) -> float: ...

    @overload
    def __call__(
        self,
        counts: ConfusionCounts,
        *,
        average: None,
        positive: Label | None = None,
        undefined: float | None = None,
    ) -> dict[Label, float]: ...


def typed_by_average(function: Callable[..., float | dict[Label, float]]) -> ClassMetric:
    """The same function, for a type checker: what it returns follows from ``average``."""
    return cast(ClassMetric, function)
