"""Two classes: each event is positive or not, with one score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from streameval.events.event import EventBatch, EventFields
from streameval.events.values import MAX_WEIGHT
from streameval.tasks.task import Task
from streameval.tasks.written_events import LARGEST, column, ints, label_list


class BinaryTask(Task):
    """States count the labels 1, which is positive, and 0."""

    name = "binary"
    adjective = "binary"
    classes = (0, 1)
    kernel = "two classes"
    usual: ClassVar[Mapping[str, str]] = {
        "report": "accuracy balanced_accuracy precision recall f1 specificity "
        "matthews_corrcoef cohen_kappa roc_auc average_precision "
        "log_loss brier_score expected_calibration_error",
        "slices": "accuracy precision recall f1 roc_auc average_precision",
        "folds": "accuracy f1 matthews_corrcoef cohen_kappa roc_auc log_loss",
        "representation": "accuracy f1 roc_auc",
        "single": "f1",
    }

    def of_scores(self, y_true: Any, y_pred: Any, score: Any, weight: Any) -> tuple[Any, ...]:
        # A bool takes the fast path of a state, the label 1 or 0 does not.
        return y_true == 1, score, weight

    def score_columns(self, batch: EventBatch) -> tuple[Any, ...]:
        return batch.y_true, batch.score, batch.weight

    def write_events(self, events: Iterable[EventFields]) -> dict[str, Any]:
        """Columns, ``true`` and ``predicted`` as codes; ``score`` where ``scored`` is true."""
        rows = list(events)
        return {
            "labels": list(self.classes),
            "true": ints(row[0] for row in rows),
            "predicted": ints(row[1] for row in rows),
            "weight": ints(row[3] for row in rows),
            "scored": np.asarray([row[2] is not None for row in rows], dtype=np.bool_),
            "score": np.asarray([row[2] or 0.0 for row in rows], dtype=np.float64),
        }

    def read_events(self, data: Any, plan: Any) -> list[EventFields]:
        label_list(data, self.classes)
        true = column(data, "true", "int64", None, 0, 1)
        n = len(true)
        predicted = column(data, "predicted", "int64", n, 0, 1)
        weights = column(data, "weight", "int64", n, 1, MAX_WEIGHT)
        scored = column(data, "scored", "bool", n, 0, 1).tolist()
        values = column(data, "score", "float64", n, -LARGEST, LARGEST).tolist()
        scores = [value if has else None for value, has in zip(values, scored, strict=True)]
        return list(zip(true.tolist(), predicted.tolist(), scores, weights.tolist(), strict=True))
