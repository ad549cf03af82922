"""Multi-class events that are drawn, and batches of them for a state that is updated directly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from streameval.events.event import EventBatch
from streameval.events.values import Label
from streameval.tasks.multiclass import ClassInput


def class_batch(
    y_true: Any, proba: Any, labels: Sequence[Label], weight: Any = None, y_pred: Any = None
) -> EventBatch:
    """A validated batch; ``proba`` has shape (n, K), ``labels`` names its columns."""
    columns = dict(zip(labels, np.asarray(proba).T, strict=True))
    return ClassInput().batch(y_true, y_pred, None, columns, weight)


ClassEvents: TypeAlias = tuple[list[str], Any, list[int]]
"""True labels, a matrix whose rows add up to 1, weights."""


@st.composite
def class_events(
    draw: st.DrawFn, labels: list[str], *, every_class: bool = True, steps: int = 4
) -> ClassEvents:
    """Events with few distinct probabilities, which tie often; each label is true of some."""
    rest = st.lists(st.sampled_from(labels), min_size=1, max_size=15)
    y_true = (labels if every_class else []) + draw(rest)
    parts = st.tuples(*[st.integers(0, steps)] * len(labels)).filter(any)
    matrix = np.array([draw(parts) for _ in y_true], dtype=np.float64)
    weight = draw(st.lists(st.integers(1, 4), min_size=len(y_true), max_size=len(y_true)))
    return y_true, matrix / matrix.sum(axis=1, keepdims=True), weight
