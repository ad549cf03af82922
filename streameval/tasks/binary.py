"""Two classes: each event is positive or not, with one score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streameval.errors import InputError, StateError, did_you_mean, shown
from streameval.events.event import EventBatch, EventFields
from streameval.events.values import (
    BoolArray,
    FloatArray,
    Label,
    array_of,
    canonical_label,
    canonical_score,
    check_probabilities,
    check_probability_rows,
    check_same_kind,
    check_same_length,
    named_columns,
    score_column,
)
from streameval.tasks.input import Input, InputOptions, ScoreColumns
from streameval.tasks.task import FieldKind, Kernel, Task, Truth
from streameval.tasks.written_events import LARGEST, column, read_labels, written_labels

_MULTICLASS = 'task="multiclass" for more than two labels'
_SHOWN = 4


class BinaryInput(Input):
    """Labels that are positive or not, and predictions from scores of ``threshold`` and more."""

    __slots__ = ("negative", "positive", "threshold")

    _codes = False

    def __init__(
        self, positive: object, threshold: object = 0.5, labels: Iterable[object] | None = None
    ) -> None:
        super().__init__(closed=labels is not None)
        self.positive = canonical_label(positive, "positive")
        self.threshold = canonical_score(threshold, "threshold")
        self.negative: Label | None = None
        self.known[self.positive] = True
        if labels is not None:
            names = [canonical_label(label, "labels", n) for n, label in enumerate(labels)]
            if len(set(names)) != 2 or self.positive not in names:
                expected = f"two labels, one of them the positive {shown(self.positive)}"
                remedy = f"pass {_MULTICLASS}" if len(set(names)) > 2 else ""
                if len(set(names)) == 2:
                    last = shown(max(names, key=str))
                    remedy = f"pass positive={last} if that is the positive label"
                raise InputError("labels", expected=expected, got=shown(names), remedy=remedy)
            self._learn(names[0] if names[1] == self.positive else names[1])
        elif self.positive in (0, 1):
            self._learn(1 - int(self.positive))

    @property
    def labels(self) -> list[Label]:
        """Negative and positive, as reports show them."""
        negative = self.negative
        if negative is None:
            negative = f"not {self.positive}" if isinstance(self.positive, str) else 0
        return [negative, self.positive]

    @property
    def names(self) -> Mapping[Label, Label]:
        return dict(enumerate(self.labels))

    @property
    def notes(self) -> dict[str, Any]:
        return {"positive": self.positive, "threshold": self.threshold}

    # The negative label: the first one that is not positive, unless both are declared

    def to_parts(self) -> dict[str, Any]:
        return {"negative": self.negative}

    def restore(self, parts: Mapping[str, Any]) -> None:
        name, known = parts["negative"], self.negative
        good = name is None or type(name) is type(self.positive)
        if not good or name == self.positive or (known is not None and name != known):
            raise InputError("negative", expected=shown(known), got=shown(name))
        if name is not None and known is None:
            self._learn(canonical_label(name, "negative"))

    def restore_labels(self, counted: Iterable[Label]) -> None:
        """The states count no user's labels."""

    def stage(self, labels: Iterable[Label]) -> None:
        super().stage(labels)
        if len(self.staged) > 1:
            raise self._third_label("y_pred", self.staged)

    def _third_label(self, field: str, names: Iterable[Label]) -> InputError:
        return InputError(
            field,
            expected=f"two labels, {shown(self.positive)} and one other",
            got=" and ".join(shown(name) for name in sorted(names, key=str)),
            remedy=f"pass {_MULTICLASS}",
            remedy_code="task",
        )

    def _learn(self, label: Label) -> None:
        check_same_kind(self.positive, label, "labels")
        self.negative = label
        self.known[label] = False

    def learn_from(self, other: Self) -> None:
        if self.negative is None and other.negative is not None:
            self._learn(other.negative)

    def check_merge(self, other: Self) -> None:
        mine, theirs = self.negative, other.negative
        if mine is not None and theirs is not None and mine != theirs:
            raise StateError(
                "evaluators of different negative labels cannot be merged: "
                f"{shown(mine)} and {shown(theirs)}"
            )

    def _label(
        self,
        value: object,
        field: str,
        position: int | None = None,
        column: Sequence[Label] = (),
    ) -> bool:
        """Whether it is the positive label; ``column`` has all labels given with it, for errors."""
        label = canonical_label(value, field, position)
        known: bool | None = self.known.get(label)
        if known is not None:
            return known
        seen = self.closed or not (self.negative is None or self.positive in (0, 1))
        other = isinstance(label, str) != isinstance(self.positive, str)
        if other and not seen and str(label) not in map(str, self.known):
            # No label spelled as two types, and no label was known but by the option.
            came = list(column) or [label]
            default = "default " if self.positive == 1 else ""
            raise InputError(
                field,
                expected=f"labels like the {default}positive label {shown(self.positive)}",
                got=" and ".join(map(shown, came[:_SHOWN])) + (", …" if came[_SHOWN:] else ""),
                position=position,
                remedy=f"pass positive={shown(max(came, key=str))} if that is the positive label, "
                f"or {_MULTICLASS}",
                remedy_code="positive",
            )
        check_same_kind(self.positive, label, field, position)
        if self.negative is None:
            return False
        remedy, code = f"pass {_MULTICLASS}", "task"
        if not self.closed and self.positive in (0, 1):
            # The other label was assumed.
            both = f"[{shown(label)}, {shown(self.positive)}]"
            remedy = f"pass labels={both} if these are the two labels, or {_MULTICLASS}"
            code = "positive"
        elif not self.closed:
            # The first other label may have been a wrong one.
            remedy = f"pass labels=[negative, positive] to name both, or {_MULTICLASS}"
            code = "labels"
        raise InputError(
            field,
            expected=f"{shown(self.negative)} or the positive label {shown(self.positive)}",
            got=shown(label),
            position=position,
            remedy=remedy,
            remedy_code=code,
        )

    def _scored(self, score: object, proba: object, true: Any, predicted: Any) -> tuple[Any, Any]:
        # The difference is nan for a score that is nan or infinite.
        if proba is None and type(score) is float and score - score == 0.0:
            number = score + 0.0  # -0.0 becomes 0.0
        elif proba is None:
            number = canonical_score(score)
        elif score is not None:
            raise _both()
        else:
            number = self._probability(proba)
        return number, number >= self.threshold if predicted is None else predicted

    def _probability(self, proba: object, position: int | None = None) -> float:
        """The positive label's probability, out of a number or of a mapping."""
        if not isinstance(proba, Mapping):
            number = canonical_score(proba, "proba", position)
            if not 0.0 <= number <= 1.0:
                remedy = "pass a score that is not a probability as score="
                raise InputError(
                    "proba",
                    expected="a probability in [0, 1]",
                    got=shown(number),
                    position=position,
                    remedy=remedy,
                )
            return number
        shares = {
            label: canonical_score(share, "proba", position)
            for label, share in self._named(proba, position).items()
        }
        try:
            check_probabilities(shares)
        except InputError as error:
            raise error.at(position) from None
        return shares.get(self.positive, 0.0)

    def _named(self, given: Mapping[Any, Any], position: int | None = None) -> dict[Label, Any]:
        """The value given for each of the two labels; learns nothing."""
        # Files and data frames may name columns by text only.
        texts: dict[object, Label] = {str(label): label for label in self.known}
        found: dict[Label, Any] = {}
        for name, value in given.items():
            label = canonical_label(name, "proba", position)
            label = label if label in self.known else texts.get(label, label)
            self._label(label, "proba", position)
            if label in found or len(found) == 2:
                got = f"{shown(label)} beside {shown(list(found))}"
                raise InputError(
                    "proba", expected="two labels, each once", got=got, position=position
                )
            found[label] = value
        return found

    def _label_column(self, column: object, field: str, names: dict[Label, int]) -> NDArray[Any]:
        if type(column) is np.ndarray and column.ndim == 1 and self.known.keys() == {0, 1}:
            # The most common case, without codes.
            if column.dtype == np.bool_:
                return column.copy() if self.positive == 1 else ~column
            if column.dtype.kind in "iu" and len(column) and column.max() <= 1 <= 1 + column.min():
                same: BoolArray = column == self.positive
                return same
        return super()._label_column(column, field, names)

    def _column_label(
        self, label: Label, field: str, names: dict[Label, int], column: Sequence[Label]
    ) -> bool:
        positive = self._label(label, field, column=column)
        if not positive and self.negative is None:
            names.setdefault(label, 0)
            if len(names) > 1:
                raise self._third_label(field, names)
        return positive

    def _positive_column(self, proba: object, names: Mapping[Label, int]) -> object:
        """The positive label's column of (n, 2) probabilities; any other shape as it is."""
        matrix = array_of(proba)
        if matrix is None and isinstance(proba, Sequence) and proba:
            pair = isinstance(proba[0], (Sequence, np.ndarray)) and not isinstance(proba[0], str)
            try:
                matrix = np.asarray(proba, dtype=np.float64) if pair else None
            except (TypeError, ValueError):
                matrix = None
        if matrix is None or matrix.ndim != 2 or matrix.shape[1] != 2:
            return proba
        # ``predict_proba`` has columns in the order of the labels. Unless that is negative,
        # positive, they are refused: either order would be a guess.
        negative = next(iter(names), self.negative)
        if negative is None or not negative < self.positive:  # type: ignore[operator]
            known = "the negative label unknown" if negative is None else f"negative {negative!r}"
            raise InputError(
                "proba",
                expected="two columns in the order of the labels: negative, positive",
                got=f"{known}, positive {self.positive!r}",
                remedy="pass the positive label's column, or a mapping {label: column}",
            )
        columns = score_column(matrix[:, 0], "proba"), score_column(matrix[:, 1], "proba")
        check_probability_rows([negative, self.positive], np.column_stack(columns))
        return columns[1]

    def _score_columns(
        self, score: object, proba: object, length: int, names: dict[Label, int]
    ) -> ScoreColumns:
        field = "score" if proba is None else "proba"
        if proba is None:
            scores = score_column(score)
        elif score is not None:
            raise _both()
        else:
            scores = self._probabilities(proba, names)
        check_same_length(length, len(scores), field)
        return ScoreColumns(scores)

    def _predicted_column(self, scores: ScoreColumns, names: dict[Label, int]) -> BoolArray:
        predicted: BoolArray = scores.score >= self.threshold
        return predicted

    def _labels_in(
        self, batch: EventBatch, names: dict[Label, int], predicted: bool
    ) -> Iterable[Label]:
        given = [batch.y_true, batch.y_pred] if predicted else [batch.y_true]
        return () if all(column.all() for column in given if column is not None) else names

    def _probabilities(self, proba: object, names: Mapping[Label, int]) -> FloatArray:
        table = proba if isinstance(proba, Mapping) else named_columns(proba)
        if table is not None:
            columns = self._named(table)
            if self.positive not in columns:
                raise InputError(
                    "proba",
                    expected=f"a column for the positive label {shown(self.positive)}",
                    got=shown(list(columns)),
                    remedy=did_you_mean(str(self.positive), columns),
                )
            proba = columns.pop(self.positive)
            for label, column in columns.items():
                both = [score_column(proba, "proba"), score_column(column, "proba")]
                check_same_length(len(both[0]), len(both[1]), "proba")
                check_probability_rows([self.positive, label], np.column_stack(both))
        elif isinstance(proba, Sequence) and any(isinstance(p, Mapping) for p in proba):
            return np.asarray([self._probability(p, n) for n, p in enumerate(proba)])
        else:
            proba = self._positive_column(proba, names)
        scores = score_column(proba, "proba")
        good = (scores >= 0.0) & (scores <= 1.0)
        if not good.all():
            position = int(np.argmin(good))
            self._probability(float(scores[position]), position)
        return scores


_Input = TypeVar("_Input", bound=BinaryInput)


def _both() -> InputError:
    return InputError("proba", expected="score= or proba=", got="both")


class BinaryTask(Task):
    """States count the labels 1, which is positive, and 0."""

    name = "binary"
    adjective = "binary"
    compared = "comparison"
    truth: ClassVar[Truth] = "two classes"
    unlabelled: ClassVar[str | None] = "predictions"
    classes = (0, 1)
    kernel: ClassVar[Kernel] = "two classes"
    fields: ClassVar[Mapping[str, FieldKind]] = {
        "y_true": "label",
        "y_pred": "label",
        "score": "number",
        "proba": "probability",
    }
    options: ClassVar[Mapping[str, tuple[type, ...]]] = {
        "positive": (str, int),
        "threshold": (float, int),
    }
    parts = ("negative",)
    positive = 1
    usual: ClassVar[Mapping[str, str]] = {
        "report": "accuracy balanced_accuracy precision recall f1 specificity "
        "matthews_corrcoef cohen_kappa roc_auc average_precision "
        "log_loss brier_score expected_calibration_error",
        "slices": "accuracy precision recall f1 roc_auc average_precision",
        "folds": "accuracy f1 matthews_corrcoef cohen_kappa roc_auc log_loss",
        "representation": "accuracy f1 roc_auc",
        "single": "f1",
    }

    def input(self, options: InputOptions) -> BinaryInput:
        return self._checked(BinaryInput, options)

    def _checked(self, kind: type[_Input], options: InputOptions) -> _Input:
        """The input of a class; raises InputError."""
        if not options.probabilities:
            raise InputError(
                "probabilities",
                expected='task="multiclass"',
                got="probabilities=False with a binary task",
                remedy="leave it out: binary scores may be any numbers, passed as score=",
            )
        return kind(options.positive, options.threshold, options.labels)

    def of_scores(self, y_true: Any, y_pred: Any, score: Any, weight: Any) -> tuple[Any, ...]:
        # A bool takes the fast path of a state, the label 1 or 0 does not.
        return y_true == 1, score, weight

    def score_columns(self, batch: EventBatch) -> tuple[Any, ...]:
        return batch.y_true, batch.score, batch.weight

    def coded(
        self, labels: Sequence[Label], y_true: Any, y_pred: Any, score: Any, weight: Any
    ) -> EventBatch:
        truths = np.array([label == self.positive for label in labels], dtype=np.bool_)
        return EventBatch(truths[y_true], truths[y_pred], score, weight)

    def write_events(self, events: Iterable[EventFields]) -> dict[str, Any]:
        """Columns; ``score`` is 0 unless ``scored`` is true."""
        rows = list(events)
        return {
            **written_labels(rows, list(self.classes)),
            "scored": np.asarray([row[2] is not None for row in rows], dtype=np.bool_),
            "score": np.asarray([row[2] or 0.0 for row in rows], dtype=np.float64),
        }

    def read_events(self, data: Any, plan: Any) -> list[EventFields]:
        _, true, predicted, weights = read_labels(data, self.classes)
        scored = column(data, "scored", "bool", len(true), 0, 1).tolist()
        values = column(data, "score", "float64", len(true), -LARGEST, LARGEST).tolist()
        scores = [value if has else None for value, has in zip(values, scored, strict=True)]
        return list(zip(true, predicted, scores, weights, strict=True))
