"""Metrics of sets of labels."""

from __future__ import annotations

from streameval.metrics.undefined import Undefined
from streameval.states.label_counts import LabelCounts


def f1_micro(counts: LabelCounts, undefined: float | None = None) -> float:
    """F1 of all pairs of an event and a label."""
    hits, false, missed = counts.sums()
    if not hits + false + missed:
        return Undefined("no label occurs") if undefined is None else undefined
    return 2 * hits / (2 * hits + false + missed)
