"""Batches of multi-class events for tests that update a state directly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streameval.events.event import EventBatch
from streameval.events.values import Label
from streameval.tasks.multiclass import ClassInput


def class_batch(
    y_true: Any, proba: Any, labels: Sequence[Label], weight: Any = None, y_pred: Any = None
) -> EventBatch:
    """A validated batch; ``proba`` has shape (n, K), ``labels`` names its columns."""
    columns = dict(zip(labels, np.asarray(proba).T, strict=True))
    return ClassInput().batch(y_true, y_pred, None, columns, weight)
