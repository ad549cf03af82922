"""Every event of label sets kept, and each metric computed from them anew, in fractions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

Event: TypeAlias = tuple[frozenset[Any], frozenset[Any], Any]
"""True labels, predicted labels and weight."""

_RATIOS: dict[str, Callable[[Any, Any, Any, Any], tuple[Any, Any]]] = {
    "precision": lambda tp, fp, fn, tn: (tp, tp + fp),
    "recall": lambda tp, fp, fn, tn: (tp, tp + fn),
    "f1": lambda tp, fp, fn, tn: (2 * tp, 2 * tp + fp + fn),
    "jaccard": lambda tp, fp, fn, tn: (tp, tp + fp + fn),
    "specificity": lambda tp, fp, fn, tn: (tn, tn + fp),
    "hamming_loss": lambda tp, fp, fn, tn: (fp + fn, tp + fp + fn + tn),
    "cohen_kappa": lambda tp, fp, fn, tn: (
        2 * (tp * tn - fp * fn),
        (tp + fp) * (fp + tn) + (tp + fn) * (fn + tn),
    ),
}


def _quotient(top: Any, bottom: Any, undefined: Any) -> Any:
    return top / bottom if bottom else undefined


def _mean(values: Iterable[tuple[Any, Any]]) -> Any:
    """The mean of values with weights, without those that are None."""
    held = [(value, weight) for value, weight in values if value is not None]
    total = sum(weight for _, weight in held)
    return sum(value * weight for value, weight in held) / total if total else None


def value(
    name: str, events: Sequence[Event], labels: Sequence[Any], undefined: float | None = None
) -> float:
    """The metric of these events, nan where it is undefined."""
    instead = None if undefined is None else Fraction(undefined)
    found = _value(name, [(t, p, Fraction(w)) for t, p, w in events if w], labels, instead)
    return math.nan if found is None else float(found)


def _value(name: str, events: list[Any], labels: Sequence[Any], undefined: Any) -> Any:
    if not events:
        return undefined
    if name in ("accuracy", "error_rate"):
        right = _mean([(Fraction(true == predicted), w) for true, predicted, w in events])
        return right if name == "accuracy" else 1 - right
    counts = {label: [Fraction(0)] * 4 for label in labels}
    for true, predicted, weight in events:
        for label in labels:
            place = {(1, 1): 0, (0, 1): 1, (1, 0): 2, (0, 0): 3}[label in true, label in predicted]
            counts[label][place] += weight
    family, _, average = name.rpartition("_")
    if name == "hamming_loss":
        family, average = name, "micro"
    if average == "micro":
        pooled = [sum(counts[label][at] for label in labels) for at in range(4)]
        return _quotient(*_RATIOS[family](*pooled), undefined)
    if average == "samples":
        sizes = [
            (len(t & p), len(p - t), len(t - p), len(labels) - len(t | p), w) for t, p, w in events
        ]
        each = [(_quotient(*_RATIOS[family](*four), undefined), w) for *four, w in sizes]
        return _or(_mean(each), undefined)
    ratios = {label: _quotient(*_RATIOS[family](*counts[label]), undefined) for label in labels}
    if average == "weighted":
        found = _mean([(ratios[at], counts[at][0] + counts[at][2]) for at in labels])
        if found is not None:
            return found
    return _or(_mean([(ratios[label], 1) for label in labels]), undefined)


def _or(found: Any, undefined: Any) -> Any:
    return undefined if found is None else found
