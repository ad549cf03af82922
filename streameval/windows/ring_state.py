"""The events of a ring as plain columns, and back with everything checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from streameval.errors import StateError, shown
from streameval.events import MAX_WEIGHT, Label, Weight
from streameval.tally import Plan
from streameval.windows.window import EventFields

__all__ = ["events_from_state", "events_to_state"]

_NONE = -1


def events_to_state(events: Iterable[EventFields], plan: Plan) -> dict[str, Any]:
    """Columns ``true``, ``predicted`` (codes into ``labels``), ``weight``, and scores.

    Binary scores are ``score`` where ``scored`` says so. Multi-class ones are
    ``shares`` of the labels ``share_labels``, ``share_counts`` of them an
    event (−1 for none), by ascending label.
    """
    rows: list[tuple[Label, Any, Any, Weight]] = list(events)
    names: set[Label] = set()
    for true, predicted, score, _ in rows:
        names.add(true)
        names.add(predicted)
        if isinstance(score, dict):
            names.update(score)
    labels: list[Label] = [0, 1] if plan.task == "binary" else sorted(names)
    code = {label: n for n, label in enumerate(labels)}
    data: dict[str, Any] = {
        "labels": labels,
        "true": _ints(code[row[0]] for row in rows),
        "predicted": _ints(code[row[1]] for row in rows),
        "weight": _ints(row[3] for row in rows),
    }
    if plan.task == "binary":
        data["scored"] = np.asarray([row[2] is not None for row in rows], dtype=np.bool_)
        data["score"] = np.asarray([row[2] or 0.0 for row in rows], dtype=np.float64)
    else:
        shares = [row[2] for row in rows]
        data["share_counts"] = _ints(_NONE if s is None else len(s) for s in shares)
        # By label, so that one event is written in one way.
        given = [dict(sorted(s.items(), key=lambda item: code[item[0]])) for s in shares if s]
        data["share_labels"] = _ints(code[label] for s in given for label in s)
        data["shares"] = np.asarray([v for s in given for v in s.values()], dtype=np.float64)
    return data


def _ints(values: Iterable[Any]) -> npt.NDArray[np.int64]:
    return np.fromiter(values, dtype=np.int64)


def _column(
    data: dict[str, Any], key: str, dtype: str, length: int | None, low: float, high: float
) -> npt.NDArray[Any]:
    column = data.get(key)
    if not isinstance(column, np.ndarray) or column.dtype != np.dtype(dtype) or column.ndim != 1:
        raise StateError(f"window.{key}: expected a column of {dtype}, got {shown(column)}")
    if length is not None and len(column) != length:
        raise StateError(f"window.{key}: expected {length} values, got {len(column)}")
    # False for nan as well.
    if len(column) and not (column.min() >= low and column.max() <= high):
        raise StateError(f"window.{key}: expected values from {low} to {high}, got others")
    return column


def events_from_state(data: dict[str, Any], plan: Plan) -> list[EventFields]:
    """The events that :func:`events_to_state` wrote; raises StateError for anything else."""
    if not isinstance(data, dict):
        raise StateError(f"window: expected an object, got {shown(data)}")
    labels = _labels(data, plan)
    last = len(labels) - 1
    true = _column(data, "true", "int64", None, 0, last)
    n = len(true)
    predicted = _column(data, "predicted", "int64", n, 0, last)
    weights = _column(data, "weight", "int64", n, 1, MAX_WEIGHT)
    scores: Sequence[Any]
    if plan.task == "binary":
        scored = _column(data, "scored", "bool", n, 0, 1).tolist()
        largest = float(np.finfo(np.float64).max)
        values = _column(data, "score", "float64", n, -largest, largest).tolist()
        scores = [v if has else None for v, has in zip(values, scored, strict=True)]
    else:
        scores = _mappings(data, n, labels)
    return [
        (labels[t], labels[p], score, weight)
        for t, p, score, weight in zip(
            true.tolist(), predicted.tolist(), scores, weights.tolist(), strict=True
        )
    ]


def _labels(data: dict[str, Any], plan: Plan) -> list[Label]:
    labels = data.get("labels")
    if not isinstance(labels, list) or not (
        all(type(label) is str for label in labels) or all(type(label) is int for label in labels)
    ):
        raise StateError(f"window.labels: expected a list of labels, got {shown(labels)}")
    if len(set(labels)) != len(labels) or (plan.task == "binary" and labels != [0, 1]):
        raise StateError(f"window.labels: expected distinct labels, got {shown(labels)}")
    return labels


def _mappings(data: dict[str, Any], n: int, labels: list[Label]) -> list[dict[Label, float] | None]:
    counts = _column(data, "share_counts", "int64", n, _NONE, len(labels)).tolist()
    total = sum(count for count in counts if count > 0)
    codes = _column(data, "share_labels", "int64", total, 0, len(labels) - 1).tolist()
    shares = _column(data, "shares", "float64", total, 0.0, 1.0).tolist()
    mappings: list[dict[Label, float] | None] = []
    start = 0
    for count in counts:
        if count < 0:
            mappings.append(None)
            continue
        end = start + count
        mapping = {
            labels[code]: share
            for code, share in zip(codes[start:end], shares[start:end], strict=True)
        }
        if any(a >= b for a, b in pairwise(codes[start:end])):
            raise StateError("window.share_labels: expected each event's labels to ascend")
        mappings.append(mapping)
        start = end
    return mappings
