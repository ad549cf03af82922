"""Events as columns: what tasks write of labels and weights, and how columns are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from streameval.errors import StateError, shown
from streameval.events.values import MAX_WEIGHT, Label

LARGEST = float(np.finfo(np.float64).max)
"""The largest finite score."""


def ints(values: Iterable[Any]) -> npt.NDArray[np.int64]:
    """A column of whole numbers."""
    return np.fromiter(values, dtype=np.int64)


def column(
    data: Any, key: str, dtype: str, length: int | None, low: float, high: float
) -> npt.NDArray[Any]:
    """A column of this type and length, with values in [low, high]; raises StateError."""
    if not isinstance(data, dict):
        raise StateError(f"window: expected an object, got {shown(data)}")
    found = data.get(key)
    if not isinstance(found, np.ndarray) or found.dtype != np.dtype(dtype) or found.ndim != 1:
        raise StateError(f"window.{key}: expected a column of {dtype}, got {shown(found)}")
    if length is not None and len(found) != length:
        raise StateError(f"window.{key}: expected {length} values, got {len(found)}")
    # False also for nan.
    if len(found) and not (found.min() >= low and found.max() <= high):
        raise StateError(f"window.{key}: expected values from {low} to {high}, got others")
    return found


def written_labels(
    rows: Sequence[Any], labels: list[Label], predicted: Iterable[Label] | None = None
) -> dict[str, Any]:
    """Labels as codes into ``labels``, and weights; ``predicted`` if not one label an event."""
    code = {label: n for n, label in enumerate(labels)}.__getitem__
    predicted = map(itemgetter(1), rows) if predicted is None else predicted
    return {
        "labels": labels,
        "true": ints(map(code, map(itemgetter(0), rows))),
        "predicted": ints(map(code, predicted)),
        "weight": ints(map(itemgetter(3), rows)),
    }


def read_labels(
    data: Any, wanted: tuple[Label, ...] | None = None
) -> tuple[list[Label], list[int], list[int], list[int]]:
    """The labels, true and predicted codes, and weights that were written; raises StateError."""
    labels = label_list(data, wanted)
    last = len(labels) - 1
    true = column(data, "true", "int64", None, 0, last)
    predicted = column(data, "predicted", "int64", len(true), 0, last)
    weights = column(data, "weight", "int64", len(true), 1, MAX_WEIGHT)
    return labels, true.tolist(), predicted.tolist(), weights.tolist()


def label_list(data: Any, wanted: tuple[Label, ...] | None = None) -> list[Label]:
    """The distinct labels of one kind that columns have codes of; ``wanted``: just these."""
    if not isinstance(data, dict):
        raise StateError(f"window: expected an object, got {shown(data)}")
    labels = data.get("labels")
    if not isinstance(labels, list) or not (
        all(type(label) is str for label in labels) or all(type(label) is int for label in labels)
    ):
        raise StateError(f"window.labels: expected a list of labels, got {shown(labels)}")
    if len(set(labels)) != len(labels) or wanted not in (None, tuple(labels)):
        raise StateError(f"window.labels: expected distinct labels, got {shown(labels)}")
    return labels


def read_sets(
    data: Any, counts: str, codes: str, n: int, labels: list[Label], least: int
) -> list[list[Label] | None]:
    """The labels of each event, ascending, by their number and their codes; None for −1."""
    sizes = column(data, counts, "int64", n, least, len(labels)).tolist()
    total = sum(size for size in sizes if size > 0)
    each = column(data, codes, "int64", total, 0, len(labels) - 1).tolist()
    sets: list[list[Label] | None] = []
    start = 0
    for size in sizes:
        own = each[start : start + max(size, 0)]
        if any(a >= b for a, b in pairwise(own)):
            raise StateError(f"window.{codes}: expected each event's labels to ascend")
        sets.append(None if size < 0 else [labels[code] for code in own])
        start += len(own)
    return sets


def read_mappings(
    data: Any, key: str, sets: Sequence[list[Label] | None], ends: tuple[float, float]
) -> list[dict[Label, float] | None]:
    """From each label of each event to its number, which is within the ends."""
    total = sum(len(own) for own in sets if own)
    each = iter(column(data, key, "float64", total, *ends).tolist())
    return [None if own is None else {label: next(each) for label in own} for own in sets]
