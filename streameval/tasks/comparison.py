"""Several models on the same events: tuples of labels and of scores, one of each model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from streameval.errors import StateError, shown
from streameval.events.event import EventBatch, EventFields
from streameval.events.values import MAX_WEIGHT, Label
from streameval.tasks.task import Task
from streameval.tasks.written_events import LARGEST, column, ints, label_list, written_labels

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

    def of_models(
        self, events: Sequence[Any], classes: tuple[Label, ...] | None
    ) -> tuple[Any, Any]:
        """The truth, and what was predicted, of the models' validated events of one."""
        true, predicted = events[0][0], tuple([event[1] for event in events])
        if classes is not None:
            return int(true), tuple(map(int, predicted))
        return true, predicted

    def columns_of_models(
        self, batches: Sequence[EventBatch], classes: tuple[Label, ...] | None
    ) -> tuple[Any, Any, tuple[Label, ...]]:
        """The same of batches: columns of the truth and of predictions, and the labels of codes."""
        codes: dict[Label, int] = {}
        predicted = []
        for batch in batches:
            # Columns of booleans are codes of the labels 0 and 1.
            known = batch.labels or classes or ()
            own = [codes.setdefault(label, len(codes)) for label in known]
            predicted.append(np.array(own, np.int64)[batch.y_pred.astype(np.int64)])
        return batches[0].y_true.astype(np.int64), np.column_stack(predicted), tuple(codes)

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
        true = column(data, "true", "int64", None, 0, last)
        n = len(true)
        models = _models(data, n)
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


class NumberComparisonTask(ComparisonTask):
    """The joint events of models that predict numbers."""

    name = "number_comparison"

    def columns_of_models(
        self, batches: Sequence[EventBatch], classes: Any
    ) -> tuple[Any, Any, Any]:
        return batches[0].y_true, np.column_stack([batch.y_pred for batch in batches]), ()

    def write_events(self, events: Iterable[EventFields]) -> dict[str, Any]:
        rows = list(events)
        return {
            "models": len(rows[0][1]) if rows else 0,
            "true": np.array([row[0] for row in rows], dtype=np.float64),
            "predicted": np.array([one for row in rows for one in row[1]], dtype=np.float64),
            "weight": ints(row[3] for row in rows),
        }

    def read_events(self, data: Any, plan: Any) -> list[EventFields]:
        true = column(data, "true", "float64", None, -LARGEST, LARGEST)
        models = _models(data, len(true))
        n = len(true) * models
        predicted = column(data, "predicted", "float64", n, -LARGEST, LARGEST)
        table = predicted.reshape(len(true), models)
        with np.errstate(over="ignore"):
            if not np.isfinite(table - true[:, np.newaxis]).all():
                raise StateError("window.predicted: expected finite errors, got others")
        return _events(data, true, table)


class SetComparisonTask(ComparisonTask):
    """The joint events of models that predict sets of labels: how many are true, and of each
    model how many are right and how many were predicted."""

    name = "set_comparison"

    def of_models(self, events: Sequence[Any], classes: Any) -> tuple[Any, Any]:
        true = events[0][0]
        sizes = [(len(true & predicted), len(predicted)) for _, predicted, *_ in events]
        return len(true), tuple([size for pair in sizes for size in pair])

    def columns_of_models(
        self, batches: Sequence[EventBatch], classes: Any
    ) -> tuple[Any, Any, Any]:
        columns = []
        for batch in batches:
            hits = batch.y_true.common(batch.y_pred, len(batch.labels))
            columns += [hits.lengths, batch.y_pred.lengths]
        return batches[0].y_true.lengths, np.column_stack(columns), ()

    def write_events(self, events: Iterable[EventFields]) -> dict[str, Any]:
        rows = list(events)
        return {
            "models": len(rows[0][1]) // 2 if rows else 0,
            "true": ints(row[0] for row in rows),
            "predicted": ints(size for row in rows for size in row[1]),
            "weight": ints(row[3] for row in rows),
        }

    def read_events(self, data: Any, plan: Any) -> list[EventFields]:
        true = column(data, "true", "int64", None, 0, MAX_WEIGHT)
        models = _models(data, len(true))
        sizes = column(data, "predicted", "int64", 2 * len(true) * models, 0, MAX_WEIGHT)
        table = sizes.reshape(len(true), 2 * models)
        hits = table[:, ::2]
        if (hits > np.minimum(true[:, np.newaxis], table[:, 1::2])).any():
            raise StateError("window.predicted: more labels were right than true or predicted")
        return _events(data, true, table)


def _models(data: Any, events: int) -> int:
    """The number of models of written events; raises StateError."""
    models = data.get("models")
    if type(models) is not int or not bool(events) <= models <= MAX_MODELS * bool(events):
        raise StateError(f"window.models: expected a number of models, got {shown(models)}")
    return models


def _events(data: Any, true: Any, predicted: Any) -> list[EventFields]:
    """Written events of columns, without scores."""
    weights = column(data, "weight", "int64", len(true), 1, MAX_WEIGHT).tolist()
    rows = zip(true.tolist(), map(tuple, predicted.tolist()), weights, strict=True)
    return [(one, others, (), weight) for one, others, weight in rows]
