"""Several classes: each event has one of the labels, and probabilities or scores of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from streameval.errors import StateError
from streameval.events.event import EventBatch, EventFields
from streameval.events.values import MAX_WEIGHT, Label, LabelColumn
from streameval.tasks.task import Task
from streameval.tasks.written_events import LARGEST, column, ints, label_list

_NO_SHARES = -1
"""In ``share_counts``: an event without probabilities."""


class MulticlassTask(Task):
    """States count the user's labels."""

    name = "multiclass"
    adjective = "multi-class"
    kernel = "classes"
    usual: ClassVar[Mapping[str, str]] = {
        "report": "accuracy balanced_accuracy precision_macro recall_macro f1_macro "
        "f1_weighted matthews_corrcoef cohen_kappa "
        "log_loss brier_score expected_calibration_error roc_auc_ovr",
        "slices": "accuracy balanced_accuracy f1_macro matthews_corrcoef log_loss",
        "folds": "accuracy f1_macro matthews_corrcoef cohen_kappa log_loss",
        "representation": "accuracy f1_macro",
        "single": "f1_macro",
    }

    def label_columns(self, batch: EventBatch) -> tuple[Any, ...]:
        assert batch.labels is not None
        assert batch.y_pred is not None
        labels = list(batch.labels)
        return LabelColumn(labels, batch.y_true), LabelColumn(labels, batch.y_pred), batch.weight

    def write_events(self, events: Iterable[EventFields]) -> dict[str, Any]:
        """Columns, ``true`` and ``predicted`` as codes into ``labels``.

        Probabilities are ``shares`` of the labels ``share_labels``, ``share_counts`` of them an
        event (−1 for none), by ascending label.
        """
        rows = list(events)
        names: set[Label] = set()
        for true, predicted, score, _ in rows:
            names.update((true, predicted, *(score or ())))
        labels = sorted(names)
        code = {label: n for n, label in enumerate(labels)}
        shares = [row[2] for row in rows]
        # By label, so that one event is written in one way.
        given = [dict(sorted(s.items(), key=lambda item: code[item[0]])) for s in shares if s]
        return {
            "labels": labels,
            "true": ints(code[row[0]] for row in rows),
            "predicted": ints(code[row[1]] for row in rows),
            "weight": ints(row[3] for row in rows),
            "share_counts": ints(_NO_SHARES if s is None else len(s) for s in shares),
            "share_labels": ints(code[label] for s in given for label in s),
            "shares": np.asarray([v for s in given for v in s.values()], dtype=np.float64),
        }

    def read_events(self, data: Any, plan: Any) -> list[EventFields]:
        labels = label_list(data)
        last = len(labels) - 1
        true = column(data, "true", "int64", None, 0, last)
        n = len(true)
        predicted = column(data, "predicted", "int64", n, 0, last)
        weights = column(data, "weight", "int64", n, 1, MAX_WEIGHT)
        ends = (0.0, 1.0) if plan.probabilities else (-LARGEST, LARGEST)
        return [
            (labels[t], labels[p], score, weight)
            for t, p, score, weight in zip(
                true.tolist(),
                predicted.tolist(),
                _mappings(data, n, labels, ends),
                weights.tolist(),
                strict=True,
            )
        ]


def _mappings(
    data: dict[str, Any], n: int, labels: list[Label], ends: tuple[float, float]
) -> list[dict[Label, float] | None]:
    counts = column(data, "share_counts", "int64", n, _NO_SHARES, len(labels)).tolist()
    total = sum(count for count in counts if count > 0)
    codes = column(data, "share_labels", "int64", total, 0, len(labels) - 1).tolist()
    shares = column(data, "shares", "float64", total, *ends).tolist()
    mappings: list[dict[Label, float] | None] = []
    start = 0
    for count in counts:
        if count < 0:
            mappings.append(None)
            continue
        end = start + count
        if any(a >= b for a, b in pairwise(codes[start:end])):
            raise StateError("window.share_labels: expected each event's labels to ascend")
        named = [labels[code] for code in codes[start:end]]
        mappings.append(dict(zip(named, shares[start:end], strict=True)))
        start = end
    return mappings
