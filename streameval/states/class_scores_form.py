"""The written form of class scores: one dict for one content, and none other accepted.

===========  ==================================================================
``exact``    bool: whether weights are integers
``labels``   list of str or of int, ascending; each is a true class or a column
``counts``   list: weight of each label as true class
``columns``  int64 array: index into ``labels`` of each multiset's column
``true``     int64 array: and of its true class; (column, true) ascend
``lengths``  int64 array: number of distinct scores of each multiset, above 0
``scores``   float64 array: those of all multisets, ascending in each, in (0, 1]
``weights``  int64 array, float64 once a weight was not whole; of like length
===========  ==================================================================
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from streameval.errors import StateError
from streameval.events import MAX_CLASSES, FloatArray, IntArray, Label, Weight
from streameval.states.fixed_point import total_weight
from streameval.states.ranked_weights import MAX_TOTAL, RankedWeights
from streameval.states.sorted_runs import WeightArray
from streameval.states.state_fields import (
    MOST_WEIGHT,
    array_field,
    bool_field,
    fields_of,
    labels_field,
    refuse,
    weights_field,
)

__all__ = ["Columns", "read_form", "write_form"]

Columns: TypeAlias = dict[Label, dict[Label, RankedWeights]]
"""Column -> true class -> its scores above 0."""

_NAME = "class_scores"
_KEYS = frozenset({"exact", "labels", "counts", "columns", "true", "lengths", "scores", "weights"})


def write_form(
    labels: list[Label], counts: dict[Label, Weight], columns: Columns, exact: bool
) -> dict[str, Any]:
    """The dict of class scores; ``labels`` ascend."""
    place = {label: n for n, label in enumerate(labels)}
    parts = [
        (place[column], place[true], *columns[column][true].arrays())
        for column in labels
        for true in sorted(columns.get(column, ()))
    ]
    zero: Weight = 0 if exact else 0.0
    dtype = np.int64 if exact else np.float64
    return {
        "exact": exact,
        "labels": labels,
        "counts": [counts.get(label, zero) for label in labels],
        "columns": np.array([part[0] for part in parts], dtype=np.int64),
        "true": np.array([part[1] for part in parts], dtype=np.int64),
        "lengths": np.array([len(part[2]) for part in parts], dtype=np.int64),
        "scores": np.concatenate([np.zeros(0), *(part[2] for part in parts)]),
        "weights": np.concatenate([np.zeros(0, dtype), *(part[3] for part in parts)]),
    }


def read_form(data: object) -> tuple[dict[Label, Weight], Columns, bool]:
    """Counts by true class, scores by column and true class, and whether they are exact.

    Raises:
        StateError: Anything but what :func:`write_form` wrote.
    """
    fields = fields_of(data, _NAME, _KEYS)
    exact = bool_field(fields, "exact", _NAME)
    labels = labels_field(fields, "labels", _NAME)
    if len(labels) > MAX_CLASSES:
        raise StateError(
            f"{_NAME}.labels: expected at most {MAX_CLASSES} labels, got {len(labels)}"
        )
    held = weights_field(fields, "counts", _NAME, exact, len(labels))
    most = MAX_TOTAL // max(1, len(labels)) if exact else MOST_WEIGHT
    if sum(held) > most:
        refuse(f"{_NAME}.counts", f"a sum of at most {most}", sum(held))
    column = array_field(fields, "columns", _NAME, np.int64)
    true = array_field(fields, "true", _NAME, np.int64)
    lengths = array_field(fields, "lengths", _NAME, np.int64)
    _check_places(column, true, lengths, len(labels))
    scores = array_field(fields, "scores", _NAME, np.float64)
    weights = array_field(fields, "weights", _NAME, np.int64 if exact else np.float64)
    ends = _check_values(lengths, scores, weights)

    columns: Columns = {}
    start = 0
    for c, y, end in zip(column.tolist(), true.tolist(), ends, strict=True):
        where = f"{_NAME}.weights[{start}:{end}]"
        _check_total(weights[start:end], held[y], where)
        ranked = RankedWeights(scores[start:end], weights[start:end])
        columns.setdefault(labels[c], {})[labels[y]] = ranked
        start = end
    counts = {label: count for label, count in zip(labels, held, strict=True) if count}
    for n, label in enumerate(labels):
        if label not in counts and label not in columns:
            refuse(f"{_NAME}.labels[{n}]", "a label that occurs", label)
    return counts, columns, exact


def _check_places(column: IntArray, true: IntArray, lengths: IntArray, size: int) -> None:
    if not len(column) == len(true) == len(lengths):
        raise StateError(
            f"{_NAME}.columns: expected columns, true and lengths of one length, "
            f"got {len(column)}, {len(true)} and {len(lengths)}"
        )
    for name, places in (("columns", column), ("true", true)):
        outside = (places < 0) | (places >= size)
        if outside.any():
            at = int(np.argmax(outside))
            refuse(f"{_NAME}.{name}[{at}]", f"a place among {size} labels", int(places[at]))
    codes = column * size + true
    falls = codes[1:] <= codes[:-1]
    if falls.any():
        at = int(np.argmax(falls)) + 1
        refuse(f"{_NAME}.columns[{at}]", "ascending (column, true), none twice", int(column[at]))


def _check_values(lengths: IntArray, scores: FloatArray, weights: WeightArray) -> list[int]:
    """Check the concatenated arrays; where each multiset ends."""
    if len(scores) != len(weights):
        raise StateError(f"{_NAME}.weights: expected {len(scores)} weights, got {len(weights)}")
    # Bounded one by one first, so that their sum cannot wrap around.
    bad = (lengths < 1) | (lengths > len(scores))
    if bad.any() or total_weight(lengths) != len(scores):
        raise StateError(f"{_NAME}.lengths: expected lengths above 0 that add up to {len(scores)}")
    ends = np.cumsum(lengths)
    good = (scores > 0.0) & (scores <= 1.0)  # False for nan
    if not good.all():
        at = int(np.argmin(good))
        refuse(f"{_NAME}.scores[{at}]", "a score in (0, 1]", float(scores[at]))
    falls = scores[1:] <= scores[:-1]
    falls[ends[:-1] - 1] = False
    if falls.any():
        at = int(np.argmax(falls)) + 1
        refuse(f"{_NAME}.scores[{at}]", "ascending scores, none twice", float(scores[at]))
    positive = (weights > 0) & (weights <= MOST_WEIGHT)
    if not positive.all():
        at = int(np.argmin(positive))
        refuse(f"{_NAME}.weights[{at}]", "a weight above 0", weights[at].item())
    return [int(end) for end in ends]


def _check_total(weights: WeightArray, count: Weight, where: str) -> None:
    total = total_weight(weights)
    slack = 0 if isinstance(count, int) else 1e-9 * count
    if total > count + slack:
        refuse(where, f"a sum of at most {count}, the weight of the true class", total)
