"""Predictions without labels: what states count in place of the true label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streameval.events.event import EventFields
from streameval.events.values import Label, most_probable
from streameval.tasks.binary import BinaryInput, BinaryTask
from streameval.tasks.input import InputOptions, nothing_given
from streameval.tasks.multiclass import ClassInput, MulticlassTask
from streameval.tasks.task import FieldKind


class ScoredInput(BinaryInput):
    """Scored events without labels: each counts as a negative one."""

    __slots__ = ()

    labelled = False

    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self.known[None] = False

    def _label(self, value: object, field: str, *more: Any, **options: Any) -> bool:
        return field != "y_true" and super()._label(value, field, *more, **options)

    def _truths(self, predicted: NDArray[Any]) -> NDArray[Any]:
        return np.zeros(len(predicted), dtype=np.bool_)


class ClassesInput(ClassInput):
    """Events of several classes without labels: each counts as one of its predicted label."""

    __slots__ = ()

    labelled = False

    def _label(self, value: object, field: str, position: int | None = None) -> Label:
        return super()._label(value, "y_pred" if field == "y_true" else field, position)

    def event(
        self, y_true: object, y_pred: object, score: object, proba: object, weight: object
    ) -> EventFields:
        if y_pred is None:
            given: Any = self._scores_given(score, proba)
            if given is None:
                raise nothing_given("y_pred")
            first = next(iter(given), "") if isinstance(given, Mapping) else ""
            y_pred = most_probable(self._shares(given, first))
        return super().event(y_pred, y_pred, score, proba, weight)

    def _truths(self, predicted: NDArray[Any]) -> NDArray[Any]:
        return predicted


class PredictionsTask(BinaryTask):
    """Scores and predicted labels of two classes, without true labels."""

    name = "predictions"
    adjective = "label-free"
    evaluated = False
    unlabelled = None
    fields: ClassVar[Mapping[str, FieldKind]] = {
        name: kind for name, kind in BinaryTask.fields.items() if name != "y_true"
    }
    usual: ClassVar[Mapping[str, str]] = {
        "report": "positive_rate support mean_score median_score",
        "representation": "positive_rate mean_score median_score",
        "single": "positive_rate",
    }

    def input(self, options: InputOptions) -> ScoredInput:
        return self._checked(ScoredInput, options)


class ClassPredictionsTask(MulticlassTask):
    """Predicted labels and probabilities of several classes, without true labels."""

    name = "class_predictions"
    adjective = "multi-class label-free"
    evaluated = False
    unlabelled = None
    kernel = None
    fields: ClassVar[Mapping[str, FieldKind]] = {
        name: kind for name, kind in MulticlassTask.fields.items() if name != "y_true"
    }
    usual: ClassVar[Mapping[str, str]] = {
        "report": "support mean_confidence",
        "representation": "mean_confidence",
        "single": "mean_confidence",
    }

    def input(self, options: InputOptions) -> ClassesInput:
        return ClassesInput(options.labels, probabilities=options.probabilities)
