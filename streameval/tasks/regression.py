"""Numbers: each event has a true number and a predicted one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from streameval.errors import InputError, shown
from streameval.events.event import EventBatch, EventFields
from streameval.events.values import (
    MAX_WEIGHT,
    Weight,
    canonical_score,
    canonical_weight,
    check_same_length,
    measured_column,
    weight_column,
)
from streameval.tasks.input import Input, InputOptions
from streameval.tasks.task import FieldKind, Kernel, Task, Truth
from streameval.tasks.written_events import LARGEST, column, ints


class NumbersInput(Input):
    """Finite numbers, whose difference is finite too."""

    __slots__ = ()

    def event(
        self, y_true: object, y_pred: object, score: object, proba: object, weight: object
    ) -> EventFields:
        _check_given(y_pred, score, proba)
        true, predicted = canonical_score(y_true, "y_true"), canonical_score(y_pred, "y_pred")
        if not math.isfinite(true - predicted):
            raise _too_far(true, predicted)
        canonical: Weight = canonical_weight(weight, zero=True)
        return true, predicted, None, canonical  # type: ignore[return-value]

    def batch(
        self,
        y_true: object,
        y_pred: object = None,
        score: object = None,
        proba: object = None,
        weight: object = None,
    ) -> EventBatch:
        _check_given(y_pred, score, proba)
        true, largest = measured_column(y_true, "y_true")
        predicted, other = measured_column(y_pred, "y_pred")
        check_same_length(len(true), len(predicted), "y_pred")
        # Only numbers of half the largest size can be too far from each other.
        if largest + other > LARGEST:
            with np.errstate(over="ignore"):
                bad = ~np.isfinite(true - predicted)
            if bad.any():
                at = int(np.argmax(bad))
                raise _too_far(float(true[at]), float(predicted[at]), at)
        return EventBatch(true, predicted, None, weight_column(weight, len(true), zero=True))


def _check_given(y_pred: object, score: object, proba: object) -> None:
    """Refuse what is no prediction of a number."""
    for field, given in (("score", score), ("proba", proba)):
        if given is not None:
            raise InputError(
                field,
                expected="the predicted number as y_pred in a regression evaluator",
                got=f"{field}=",
                remedy=f'pass y_pred=..., or use task="binary" if these are labels and a {field}'
                if field == "score"
                else 'pass y_pred=..., or use task="binary" or "multiclass" for labels',
            )
    if y_pred is None:
        raise InputError(
            "y_pred",
            expected="the predicted number",
            got="None",
            remedy="pass the predicted number as y_pred",
        )


def _too_far(true: float, predicted: float, position: int | None = None) -> InputError:
    return InputError(
        "y_pred",
        expected=f"a number whose difference from the true one, {true!r}, is a finite float",
        got=shown(predicted),
        position=position,
        remedy="pass both in a larger unit",
    )


class RegressionTask(Task):
    """States count numbers as they are."""

    name = "regression"
    adjective = "regression"
    compared = "number_comparison"
    truth: ClassVar[Truth] = "numbers"
    kernel: ClassVar[Kernel] = "numbers"
    fields: ClassVar[Mapping[str, FieldKind]] = {"y_true": "number", "y_pred": "number"}
    usual: ClassVar[Mapping[str, str]] = {
        "report": "mean_error mean_absolute_error root_mean_squared_error r2",
        "slices": "mean_error mean_absolute_error root_mean_squared_error r2",
        "folds": "mean_absolute_error root_mean_squared_error r2",
        "representation": "mean_absolute_error root_mean_squared_error r2",
        "single": "mean_absolute_error",
    }

    def input(self, options: InputOptions) -> NumbersInput:
        for name, given, usual in (
            ("labels", options.labels, None),
            ("probabilities", options.probabilities, True),
        ):
            if given is not usual:
                raise InputError(
                    name,
                    expected="no such option in a regression, whose events have numbers",
                    got=shown(given),
                    remedy=f'{name}= conflicts with task="regression": leave it out',
                )
        return NumbersInput()

    def write_events(self, events: Iterable[EventFields]) -> dict[str, Any]:
        rows = list(events)
        true, predicted = ([row[n] for row in rows] for n in (0, 1))
        return {
            "true": np.asarray(true, dtype=np.float64),
            "predicted": np.asarray(predicted, dtype=np.float64),
            "weight": ints(row[3] for row in rows),
        }

    def read_events(self, data: Any, plan: Any) -> list[EventFields]:
        true = column(data, "true", "float64", None, -LARGEST, LARGEST)
        predicted = column(data, "predicted", "float64", len(true), -LARGEST, LARGEST)
        weights = column(data, "weight", "int64", len(true), 1, MAX_WEIGHT)
        numbers = (true.tolist(), predicted.tolist(), weights.tolist())
        return [(y, p, None, weight) for y, p, weight in zip(*numbers, strict=True)]
