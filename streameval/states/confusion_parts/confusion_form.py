"""The written form of a confusion (docs/state-format.md), validated when read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streameval.events.values import MAX_CLASSES, IntArray, Label, Weight
from streameval.states.fields import (
    MOST_WEIGHT,
    array_field,
    bool_field,
    fields_of,
    labels_field,
    refuse,
)

_NAME = "confusion"
_KEYS = frozenset({"closed", "labels", "predicted", "true", "weight"})
_INT64_MAX = 2**63 - 1


class ConfusionForm(NamedTuple):
    """The content of a written form; a cell is true index, predicted index and weight."""

    labels: list[Label]
    closed: bool
    cells: list[tuple[int, int, Weight]]
    exact: bool


def write_form(form: ConfusionForm) -> dict[str, Any]:
    """The dict of a confusion whose cells ascend by the indices of their labels."""
    weights = [weight for _, _, weight in form.cells]
    weight: Any
    if not form.exact:
        weight = np.array(weights, dtype=np.float64)
    elif max(weights, default=0) > _INT64_MAX:
        weight = weights
    else:
        weight = np.array(weights, dtype=np.int64)
    return {
        "labels": form.labels,
        "closed": form.closed,
        "true": np.array([i for i, _, _ in form.cells], dtype=np.int64),
        "predicted": np.array([j for _, j, _ in form.cells], dtype=np.int64),
        "weight": weight,
    }


def read_form(data: object) -> ConfusionForm:
    """The content of a dict of unknown origin; raises StateError."""
    fields = fields_of(data, _NAME, _KEYS)
    closed = bool_field(fields, "closed", _NAME)
    labels = labels_field(fields, "labels", _NAME, ascending=not closed)
    if len(labels) > MAX_CLASSES:
        refuse(f"{_NAME}.labels", f"at most {MAX_CLASSES} labels", len(labels))
    true = _indices(fields, "true", len(labels))
    predicted = _indices(fields, "predicted", len(labels))
    weight, exact = _weights(fields)
    for key, length in (("predicted", len(predicted)), ("weight", len(weight))):
        if length != len(true):
            refuse(f"{_NAME}.{key}", f"{len(true)} values, as many as in true", length)
    # At most MAX_CLASSES squared: far inside int64.
    falls = np.diff(true * len(labels) + predicted) <= 0
    if falls.any():
        position = int(np.argmax(falls)) + 1
        refuse(
            f"{_NAME}.true[{position}]",
            "cells that ascend by true, then predicted",
            (int(true[position]), int(predicted[position])),
        )
    if not closed:
        occurs = np.zeros(len(labels), dtype=np.bool_)
        occurs[true] = True
        occurs[predicted] = True
        if not occurs.all():
            position = int(np.argmin(occurs))
            refuse(f"{_NAME}.labels[{position}]", "a label that occurs in a cell", labels[position])
    cells = list(zip(true.tolist(), predicted.tolist(), weight, strict=True))
    return ConfusionForm(labels, closed, cells, exact)


def _indices(fields: dict[str, Any], key: str, classes: int) -> IntArray:
    indices: IntArray = array_field(fields, key, _NAME, np.int64)
    outside = (indices < 0) | (indices >= classes)
    if outside.any():
        position = int(np.argmax(outside))
        refuse(
            f"{_NAME}.{key}[{position}]", f"an index into {classes} labels", int(indices[position])
        )
    return indices


def _weights(fields: dict[str, Any]) -> tuple[list[Weight], bool]:
    """The weights as Python numbers, and whether they are whole."""
    field = f"{_NAME}.weight"
    value = fields["weight"]
    exact = not (isinstance(value, np.ndarray) and value.dtype == np.float64)
    weights: list[Weight]
    if type(value) is list:
        weights = value.copy()
        if set(map(type, weights)) != {int} or max(weights) <= _INT64_MAX:
            refuse(field, "an array, or a list of int of which one passes int64", value)
    else:
        weights = array_field(fields, "weight", _NAME, np.int64 if exact else np.float64).tolist()
        if not exact and not weights:
            refuse(field, "at least one weight where weights are floats", value)
    for n, weight in enumerate(weights):
        if not 0 < weight <= MOST_WEIGHT:  # nan is not
            refuse(f"{field}[{n}]", "a finite weight above 0", weight)
    return weights, exact
