"""The written form of a confusion (docs/state-format.md), validated when read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streameval.events.values import MAX_CLASSES, Label, Weight
from streameval.states.fields import Fields, cell_weights, falls

_KEYS = frozenset({"closed", "labels", "predicted", "true", "weight"})


class ConfusionForm(NamedTuple):
    """The content of a written form; a cell is true index, predicted index and weight."""

    labels: list[Label]
    closed: bool
    cells: list[tuple[int, int, Weight]]
    exact: bool


def write_form(form: ConfusionForm) -> dict[str, Any]:
    """The dict of a confusion whose cells ascend by the indices of their labels."""
    return {
        "labels": form.labels,
        "closed": form.closed,
        "true": np.array([i for i, _, _ in form.cells], dtype=np.int64),
        "predicted": np.array([j for _, j, _ in form.cells], dtype=np.int64),
        "weight": cell_weights([weight for _, _, weight in form.cells], exact=form.exact),
    }


def read_form(data: object) -> ConfusionForm:
    """The content of a dict of unknown origin; raises StateError."""
    fields = Fields(data, "confusion", _KEYS)
    closed = fields.flag("closed")
    labels = fields.labels(ascending=not closed)
    if len(labels) > MAX_CLASSES:
        fields.refuse("labels", f"at most {MAX_CLASSES} labels", len(labels))
    true, predicted = (fields.indices(key, len(labels)) for key in ("true", "predicted"))
    weight, exact = fields.cell_weights("weight")
    if not exact and not weight:
        expected = "at least one weight where weights are floats"
        fields.refuse("weight", expected, fields["weight"])
    for key, length in (("predicted", len(predicted)), ("weight", len(weight))):
        if length != len(true):
            fields.refuse(key, f"{len(true)} values, as many as in true", length)
    cells = list(zip(true.tolist(), predicted.tolist(), weight, strict=True))
    # At most MAX_CLASSES squared: far inside int64.
    falling = falls(true * len(labels) + predicted)
    if falling.any():
        n = int(np.argmax(falling))
        fields.refuse(f"true[{n}]", "cells that ascend by true, then predicted", cells[n][:2])
    unused = {*range(len(labels))}.difference(true.tolist(), predicted.tolist())
    if unused and not closed:
        n = min(unused)
        fields.refuse(f"labels[{n}]", "a label that occurs in a cell", labels[n])
    return ConfusionForm(labels, closed, cells, exact)
