"""Several models on the same events: tuples of labels and of scores, one of each model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from streameval.errors import StateError, shown
from streameval.events.event import EventFields
from streameval.events.values import MAX_WEIGHT
from streameval.tasks.task import Task
from streameval.tasks.written_events import LARGEST, column, label_list, written_labels

MAX_MODELS = 100
"""Most models of one comparison."""

NO_LOSS = -1.0
"""In place of both losses of a score outside [0, 1], which is no probability."""

MOST_LOG_LOSS = 37
"""More than any log loss: probabilities are clipped to 2**-52."""

MOST_BRIER = 3
"""More than any Brier term."""


class ComparisonTask(Task):
    """The joint events of a comparison's models, which evaluators of their own count too.

    An event's numbers are the models' scores, log losses and Brier terms, as far as they are kept.
    """

    name = "comparison"
    adjective = "comparison"
    evaluated = False

    def write_events(self, events: Iterable[EventFields]) -> dict[str, Any]:
        """Columns with ``models`` codes of predicted labels an event, and numbers if ``scored``."""
        rows: list[tuple[Any, Any, Any, Any]] = list(events)
        labels = sorted({label for row in rows for label in (row[0], *row[1])})
        return {
            "models": len(rows[0][1]) if rows else 0,
            **written_labels(rows, labels, [label for row in rows for label in row[1]]),
            "scored": np.array([bool(row[2]) for row in rows], dtype=np.bool_),
            "scores": np.array([number for row in rows for number in row[2]], dtype=np.float64),
        }

    def read_events(self, data: Any, plan: Any) -> list[EventFields]:
        labels = label_list(data)
        last = len(labels) - 1
        models = data.get("models")
        true = column(data, "true", "int64", None, 0, last)
        n = len(true)
        if type(models) is not int or not bool(n) <= models <= MAX_MODELS * bool(n):
            raise StateError(f"window.models: expected a number of models, got {shown(models)}")
        predicted = column(data, "predicted", "int64", n * models, 0, last).reshape(n, models)
        codes = np.unique(np.concatenate([true, predicted.ravel()]))
        if len(codes) != len(labels) or labels != sorted(labels):
            raise StateError("window.labels: expected the labels of the events, ascending")
        scored = column(data, "scored", "bool", n, 0, 1)
        weights = column(data, "weight", "int64", n, 1, MAX_WEIGHT)
        numbers = column(data, "scores", "float64", None, -LARGEST, LARGEST)
        if (np.signbit(numbers) & (numbers == 0)).any():
            raise StateError("window.scores: expected finite numbers without -0.0, got others")
        known = int(scored.sum())
        width = len(numbers) // known if known else 0
        if known * width != len(numbers) or (
            known and width not in (models * k for k in (1, 2, 3))
        ):
            raise StateError(f"window.scores: expected {known * models} values, got {len(numbers)}")
        table = numbers.reshape(known, width)
        if width > models:
            for start, most in ((-2 * models, MOST_LOG_LOSS), (-models, MOST_BRIER)):
                losses = table[:, start : start + models or None]
                if not ((losses == NO_LOSS) | ((losses >= 0) & (losses <= most))).all():
                    raise StateError(
                        f"window.scores: expected losses from 0 to {most}, or {NO_LOSS}"
                    )
        given = map(tuple, table.tolist())
        return [
            (labels[t], tuple([labels[p] for p in row]), next(given) if has else (), weight)
            for t, row, has, weight in zip(
                true.tolist(), predicted.tolist(), scored.tolist(), weights.tolist(), strict=True
            )
        ]
