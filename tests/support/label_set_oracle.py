"""Every event of label sets kept, and each metric computed from them anew, in fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from tests.support.label_oracle import CLASS_METRICS, average_of, divide, mean

Event: TypeAlias = tuple[frozenset[Any], frozenset[Any], Any]
"""True labels, predicted labels and weight."""

_METRICS = {
    **CLASS_METRICS,
    "hamming_loss": lambda tp, fp, fn, tn: divide(fp + fn, tp + fp + fn + tn),
    "cohen_kappa": lambda tp, fp, fn, tn: divide(
        2 * (tp * tn - fp * fn), (tp + fp) * (fp + tn) + (tp + fn) * (fn + tn)
    ),
}


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
        right = mean([(Fraction(true == predicted), w) for true, predicted, w in events])
        return right if name == "accuracy" else 1 - right
    family, _, average = name.rpartition("_") if name != "hamming_loss" else (name, "", "micro")
    if average == "samples":
        terms = []
        for t, p, w in events:
            four = len(t & p), len(p - t), len(t - p), len(labels) - len(t | p)
            found = _METRICS[family](*four)
            terms.append((undefined if found is None else found, w))
        return mean([term for term in terms if term[0] is not None], undefined)
    counts = {label: [Fraction(0)] * 4 for label in labels}
    for true, predicted, weight in events:
        for label in labels:
            place = {(1, 1): 0, (0, 1): 1, (1, 0): 2, (0, 0): 3}[label in true, label in predicted]
            counts[label][place] += weight
    return average_of(_METRICS[family], list(counts.values()), average, undefined)
