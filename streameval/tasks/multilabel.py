"""Sets of labels: each event has any number of them, and a score of each label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from streameval.errors import InputError, StateError, did_you_mean, shown
from streameval.events.event import EventBatch, EventFields
from streameval.events.label_rows import LabelRows
from streameval.events.values import (
    MAX_CLASSES,
    Label,
    array_of,
    canonical_label,
    canonical_score,
    canonical_weight,
    check_same_kind,
    check_same_length,
    weight_column,
)
from streameval.tasks.input import Input, InputOptions, nothing_given
from streameval.tasks.task import FieldKind, Task, Truth

_SETS = "a collection of labels"


class LabelSetInput(Input):
    """Sets of canonical labels, and those predicted from scores that reach their threshold."""

    __slots__ = ("_code", "classes", "limits")

    def __init__(self, labels: Iterable[object] | None, threshold: object) -> None:
        super().__init__(closed=labels is not None)
        self.classes: tuple[Label, ...] = ()
        if labels is not None:
            names = [canonical_label(label, "labels", n) for n, label in enumerate(labels)]
            for name in names:
                check_same_kind(names[0], name, "labels")
            if len(set(names)) != len(names) or not names:
                raise InputError("labels", expected="distinct labels", got=shown(names))
            self.classes = tuple(names)
            self.known = {name: name for name in names}
        self._code = {label: n for n, label in enumerate(self.classes)}
        self.limits: float | dict[Label, float]
        if isinstance(threshold, Mapping):
            self.limits = {
                self._label(name, "threshold"): canonical_score(value, "threshold")
                for name, value in threshold.items()
            }
        else:
            self.limits = canonical_score(threshold, "threshold")

    @property
    def labels(self) -> list[Label]:
        return list(self.classes) if self.closed else super().labels

    @property
    def notes(self) -> dict[str, Any]:
        return {"threshold": self.limits}

    def check_merge(self, other: Self) -> None:
        mine, theirs = next(iter(self.known), None), next(iter(other.known), None)
        if mine is not None and theirs is not None:
            try:
                check_same_kind(mine, theirs, "labels")
            except InputError as error:
                raise StateError(f"these evaluators cannot be merged: {error}") from None

    def _label(self, value: object, field: str, position: int | None = None) -> Label:
        label = canonical_label(value, field, position)
        if label in self.known:
            return label
        if self.known:
            check_same_kind(next(iter(self.known)), label, field, position)
        if self.closed:
            raise InputError(
                field,
                expected=f"labels out of {shown(list(self.classes))}",
                got=shown(label),
                position=position,
                remedy=did_you_mean(str(label), {str(name): name for name in self.classes}),
            )
        if len(self.known) >= MAX_CLASSES:
            raise InputError(
                field, expected=f"at most {MAX_CLASSES} distinct labels", got="another one"
            )
        return label

    def _set(self, value: object, field: str, position: int | None = None) -> frozenset[Label]:
        """The labels of one event, given as a collection, a mapping or an indicator row."""
        if isinstance(value, Mapping):
            return frozenset(
                self._label(name, field, position)
                for name, has in value.items()
                if self._flag(has, field, position)
            )
        array = array_of(value)
        if array is not None:
            if not self.closed or array.shape != (len(self.classes),):
                raise InputError(
                    field,
                    expected=f"a row of {len(self.classes)} indicators, in the order of labels="
                    if self.closed
                    else f"{_SETS}, or labels= with rows of indicators",
                    got=f"an array of shape {array.shape}",
                    position=position,
                )
            flags = [self._flag(flag, field, position) for flag in array.tolist()]
            return frozenset(label for label, has in zip(self.classes, flags, strict=True) if has)
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise InputError(
                field,
                expected=_SETS,
                got=shown(value),
                position=position,
                remedy=f"pass {{{shown(value)}}} for the one label" if value is not None else "",
            )
        return frozenset([self._label(label, field, position) for label in value])

    @staticmethod
    def _flag(value: object, field: str, position: int | None) -> bool:
        if value in (0, 1):
            return bool(value)
        raise InputError(
            field, expected="indicators 0 and 1, or False and True", got=shown(value),
            position=position,
        )  # fmt: skip

    def _scores(self, given: object, field: str) -> dict[Label, float]:
        """The score of each label of one event."""
        if not isinstance(given, Mapping):
            array = array_of(given)
            row = list(given) if isinstance(given, (list, tuple)) else None
            row = row if array is None else array.tolist()
            if row is None or not self.closed or len(row) != len(self.classes):
                expected = "a mapping label -> score"
                if self.closed:
                    expected += f", or {len(self.classes)} scores in the order of labels="
                raise InputError(field, expected=expected, got=shown(given))
            given = dict(zip(self.classes, row, strict=True))
        scores = {
            self._label(name, field): canonical_score(value, field) for name, value in given.items()
        }
        if self.closed and len(scores) < len(self.classes):
            missing = [label for label in self.classes if label not in scores]
            raise InputError(
                field, expected="a score of each label", got=f"none of {shown(missing[0])}"
            )
        return scores

    def _reached(self, scores: Mapping[Label, float]) -> frozenset[Label]:
        """The labels that scores predict."""
        limits = self.limits
        if isinstance(limits, dict):
            return frozenset([at for at, score in scores.items() if score >= limits.get(at, 0.5)])
        return frozenset([at for at, score in scores.items() if score >= limits])

    def event(
        self, y_true: object, y_pred: object, score: object, proba: object, weight: object
    ) -> EventFields:
        true = self._set(y_true, "y_true")
        predicted = None if y_pred is None else self._set(y_pred, "y_pred")
        scores = None
        if score is not None or proba is not None:
            if score is not None and proba is not None:
                raise InputError("proba", expected="score= or proba=", got="both")
            given, field = (score, "score") if proba is None else (proba, "proba")
            scores = self._scores(given, field)
            if predicted is None:
                predicted = self._reached(scores)
        elif predicted is None:
            raise nothing_given("y_pred")
        canonical = canonical_weight(weight, zero=True)
        if not self.closed:
            self.stage([*sorted(true | (predicted or frozenset())), *(scores or ())])
        return true, predicted, scores, canonical  # type: ignore[return-value]

    def batch(
        self,
        y_true: object,
        y_pred: object = None,
        score: object = None,
        proba: object = None,
        weight: object = None,
    ) -> EventBatch:
        self.staged = ()
        names = dict(self._code)
        true = self._rows(y_true, "y_true", names)
        predicted = None if y_pred is None else self._rows(y_pred, "y_pred", names)
        if predicted is not None:
            check_same_length(len(true), len(predicted), "y_pred")
        scores = None
        if score is not None or proba is not None:
            given, field = (score, "score") if proba is None else (proba, "proba")
            scores = self._score_matrix(given, field, len(true))
            if predicted is None:
                limits = self.limits
                if isinstance(limits, dict):
                    limits = np.array([limits.get(label, 0.5) for label in self.classes])
                predicted = LabelRows.of_indicator(scores >= limits)
        elif predicted is None:
            raise nothing_given("y_pred")
        if not self.closed:
            self.stage(names)
        weights = weight_column(weight, len(true), zero=True)
        labels = self.classes if scores is not None else ()
        return EventBatch(true, predicted, scores, weights, tuple(names), labels)

    def _rows(self, column: object, field: str, names: dict[Label, int]) -> LabelRows:
        """The sets of many events; ``names`` gains labels that may be new."""
        array = array_of(column)
        if array is not None and array.ndim == 2:
            if not self.closed or array.shape[1] != len(self.classes):
                raise InputError(
                    field,
                    expected="columns for each of labels=, in their order",
                    got=f"shape {array.shape}",
                )
            if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
                bad = np.argwhere(~np.isin(array, (0, 1)))[0]
                self._flag(array[tuple(bad)].item(), field, int(bad[0]))
            return LabelRows.of_indicator(array.astype(np.bool_))
        if not isinstance(column, Sequence) or isinstance(column, (str, bytes)):
            raise InputError(field, expected="a sequence of label sets", got=shown(column))
        sets = [self._set(value, field, n) for n, value in enumerate(column)]
        return LabelRows.of_sets(
            [[names.setdefault(label, len(names)) for label in sorted(found)] for found in sets]
        )

    def _score_matrix(self, given: object, field: str, length: int) -> Any:
        array = array_of(given)
        if array is None or not self.closed or array.shape != (length, len(self.classes)):
            raise InputError(
                field, expected=f"{length} rows and a column for each of labels=", got=shown(given)
            )
        matrix = array.astype(np.float64)
        matrix += 0.0
        if not np.isfinite(matrix).all():
            row, at = map(int, np.argwhere(~np.isfinite(matrix))[0])
            canonical_score(float(matrix[row, at]), field, row)
        return matrix


class MultilabelTask(Task):
    """States count sets of the user's labels."""

    name = "multilabel"
    adjective = "multi-label"
    truth: ClassVar[Truth] = "label sets"
    fields: ClassVar[Mapping[str, FieldKind]] = {
        "y_true": "labels",
        "y_pred": "labels",
        "score": "probabilities",
        "proba": "probabilities",
    }
    options: ClassVar[Mapping[str, tuple[type, ...]]] = {"threshold": (float, int, dict)}
    usual: ClassVar[Mapping[str, str]] = {
        "report": "f1_micro",
        "representation": "f1_micro",
        "single": "f1_micro",
    }

    def input(self, options: InputOptions) -> LabelSetInput:
        return LabelSetInput(options.labels, options.threshold)

    def label_columns(self, batch: EventBatch) -> tuple[Any, ...]:
        return (batch,)
