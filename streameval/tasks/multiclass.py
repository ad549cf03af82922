"""Several classes: each event has one of the labels, and probabilities or scores of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from streameval.errors import InputError, StateError, did_you_mean, shown
from streameval.events.event import EventBatch, EventFields
from streameval.events.values import (
    MAX_CLASSES,
    SUM_TOLERANCE,
    BoolArray,
    FloatArray,
    IntArray,
    Label,
    LabelColumn,
    array_of,
    canonical_label,
    canonical_score,
    check_probabilities,
    check_probability_rows,
    check_same_kind,
    check_same_length,
    most_probable,
    most_probable_columns,
    named_columns,
    score_column,
)
from streameval.tasks.input import (
    Input,
    InputOptions,
    ScoreColumns,
    nothing_given,
)
from streameval.tasks.task import FieldKind, Kernel, Task
from streameval.tasks.written_events import (
    LARGEST,
    ints,
    read_labels,
    read_mappings,
    read_sets,
    written_labels,
)

_NO_SHARES = -1
"""In ``share_counts``: an event without probabilities."""


class ClassInput(Input):
    """Canonical labels, and predictions from probabilities, or from any scores of all classes."""

    __slots__ = ("_plain", "_texts", "classes", "probabilities", "score_field")
    # Of errors: which labels are known, and what an event without some score lacks, with a remedy.
    _known_labels: ClassVar[str] = "one of the classes {}"
    _every_score: ClassVar[tuple[str, str]] = (
        "a score of every label, with probabilities=False",
        "",
    )

    def __init__(
        self,
        labels: Iterable[object] | None = None,
        *,
        probabilities: bool = True,
        plain: Callable[..., EventFields | None] | None = None,
    ) -> None:
        super().__init__(closed=labels is not None)
        # A fast path: the fields of a plain event with probabilities, or None for any other.
        self._plain = plain if probabilities else None
        self.probabilities = probabilities
        self.score_field = "proba" if probabilities else "score"
        if not probabilities and labels is None:
            raise InputError(
                "probabilities",
                expected="labels= beside probabilities=False, as each event has a score of each",
                got="no labels=",
                remedy="pass labels=[...]",
            )
        self.classes: tuple[Label, ...] = ()
        self._texts: dict[object, Label] = {}
        if labels is not None:
            names = [canonical_label(label, "labels", n) for n, label in enumerate(labels)]
            for name in names:
                check_same_kind(names[0], name, "labels")
            if len(set(names)) != len(names) or not names:
                raise InputError("labels", expected="distinct labels", got=shown(names))
            self.classes = tuple(names)
            self.known = {name: name for name in names}
            self._texts = {str(name): name for name in names}

    @property
    def labels(self) -> list[Label]:
        return list(self.classes) if self.closed else super().labels

    def stage_together(self, labels: Iterable[Label]) -> None:
        self.stage(labels)
        if len(self.known) + len(self.staged) > MAX_CLASSES:
            raise InputError("y_pred", expected=f"at most {MAX_CLASSES} labels", got="more")

    def check_merge(self, other: Self) -> None:
        mine, theirs = next(iter(self.known), None), next(iter(other.known), None)
        if mine is not None and theirs is not None:
            try:
                check_same_kind(self.known[mine], other.known[theirs], "labels")
            except InputError as error:
                raise StateError(f"these evaluators cannot be merged: {error}") from None

    def _label(self, value: object, field: str, position: int | None = None) -> Label:
        """The canonical label; learns nothing."""
        label = canonical_label(value, field, position)
        if label in self.known:
            return label
        if self.known:
            check_same_kind(next(iter(self.known.values())), label, field, position)
        if self.closed:
            raise self._unknown(label, field, position)
        if len(self.known) >= MAX_CLASSES:
            raise InputError(
                field,
                expected=f"at most {MAX_CLASSES} distinct labels",
                got=f"another one, {shown(label)}",
                position=position,
                remedy="is this column an id rather than a label?",
            )
        return label

    def _unknown(
        self, label: Label, field: str, position: int | None, remedy: str = ""
    ) -> InputError:
        """The error of a label that is not declared."""
        expected = self._known_labels.format(shown(list(self.classes)))
        remedy = did_you_mean(str(label), self._texts) or remedy
        return InputError(
            field, expected=expected, got=shown(label), position=position, remedy=remedy
        )

    def _named(self, name: object, position: int | None = None) -> Label:
        """The canonical label of a probability; learns nothing."""
        if not self.closed:
            return self._label(name, self.score_field, position)
        label = canonical_label(name, self.score_field, position)
        # Files and data frames may name columns by text only.
        known = label if label in self.known else self._texts.get(label)
        if known is None:
            remedy = "name the columns by the labels, or pass an array in the order of labels="
            raise self._unknown(label, self.score_field, position, remedy)
        return known

    def event(
        self, y_true: object, y_pred: object, score: object, proba: object, weight: object
    ) -> EventFields:
        if self._plain is not None and score is None and proba is not None and self.part is None:
            fields = self._plain(self.known, y_true, y_pred, proba, weight, SUM_TOLERANCE)
            if fields is not None:
                return fields
        return super().event(y_true, y_pred, score, proba, weight)

    def _scored(self, score: object, proba: object, true: Any, predicted: Any) -> tuple[Any, Any]:
        shares = self._shares(self._scores_given(score, proba), true)
        return shares, most_probable(shares) if predicted is None else predicted

    def _shares(self, proba: object, true: Label) -> dict[Label, float]:
        if not isinstance(proba, Mapping):
            expected = f"a mapping label -> {'probability' if self.probabilities else 'number'}"
            got = f"{shown(proba)} of type {type(proba).__name__}"
            several = hasattr(type(proba), "__len__") and not isinstance(proba, (str, bytes))
            remedy = "pass {label: probability} of one event, or call update_many()" * several
            raise InputError(self.score_field, expected=expected, got=got, remedy=remedy)
        shares: dict[Label, float] = {}
        for name, share in proba.items():
            label = self._named(name)
            check_same_kind(true, label, self.score_field)
            shares[label] = canonical_score(share, self.score_field)
        if len(shares) < len(proba):
            raise _twice(self.score_field, list(proba))
        if self.probabilities:
            return check_probabilities(shares)
        if len(shares) < len(self.classes):
            raise self._score_missing(shares)
        return shares

    def _score_missing(self, named: Iterable[Label], position: int | None = None) -> InputError:
        held, (expected, remedy) = set(named), self._every_score
        got = f"none of {shown(next(label for label in self.classes if label not in held))}"
        return InputError(
            self.score_field, expected=expected, got=got, position=position, remedy=remedy
        )

    def _scores_given(self, score: object, proba: object) -> object:
        """What an event or a batch has of each label, or None; raises InputError."""
        if self.probabilities:
            if score is not None:
                raise InputError(
                    "score",
                    expected="proba={label: probability} in a multi-class evaluator",
                    got="score=",
                    remedy="pass proba=, or probabilities=False to the Evaluator if they are none, "
                    'or use task="binary"',
                )
            return proba
        if proba is not None:
            raise InputError(
                "proba",
                expected="score={label: number} with probabilities=False",
                got="proba=",
                remedy="proba= conflicts with probabilities=False: pass score=",
            )
        return score

    def _column_label(
        self, label: Label, field: str, names: dict[Label, int], column: Sequence[Label]
    ) -> int:
        return self._code_of(self._label(label, field), field, names)

    @staticmethod
    def _code_of(
        label: Label, field: str, names: dict[Label, int], position: int | None = None
    ) -> int:
        """The code of a label, which ``names`` gains; InputError where it is of another kind."""
        if names:
            check_same_kind(next(iter(names)), label, field, position)
        return names.setdefault(label, len(names))

    def _score_columns(
        self, score: object, proba: object, length: int, names: dict[Label, int]
    ) -> ScoreColumns:
        columns, matrix, named = self._matrix(self._scores_given(score, proba), length)
        for label in columns:
            self._code_of(label, self.score_field, names)
        return ScoreColumns(matrix, columns, named)

    def _predicted_column(self, scores: ScoreColumns, names: dict[Label, int]) -> IntArray:
        if not len(scores.score):
            return np.zeros(0, dtype=np.int64)
        if not scores.labels:
            raise nothing_given("proba")
        codes = np.asarray([names[label] for label in scores.labels], dtype=np.int64)
        chosen: IntArray = codes[most_probable_columns(scores.score, scores.labels)]
        return chosen

    def _labels_in(
        self, batch: EventBatch, names: dict[Label, int], predicted: bool
    ) -> Iterable[Label]:
        assert batch.y_pred is not None
        labels = list(names)
        codes = np.unique(np.concatenate([batch.y_true, batch.y_pred])).tolist()
        scored = batch.score_labels if len(batch) else ()
        if batch.named is not None:
            columns = np.flatnonzero(batch.named.any(axis=0)).tolist()
            scored = tuple(batch.score_labels[n] for n in columns)
        return [*(labels[code] for code in codes), *scored]

    def _matrix(
        self, proba: object, length: int
    ) -> tuple[tuple[Label, ...], FloatArray, BoolArray | None]:
        """The labels of the columns, the probabilities, and which cells were named."""
        named: BoolArray | None = None
        table = proba if isinstance(proba, Mapping) else named_columns(proba)
        if table is not None:
            indices: dict[Label, int] = {}
            for name in table:
                indices.setdefault(self._named(name), len(indices))
            if len(indices) < len(table):
                raise _twice(self.score_field, list(table))
            columns = tuple(indices)
            parts = [score_column(column, self.score_field) for column in table.values()]
            for part in parts:
                check_same_length(length, len(part), self.score_field)
            matrix = np.column_stack(parts) if parts else np.zeros((length, 0))
        elif isinstance(proba, Sequence) and all(isinstance(row, Mapping) for row in proba):
            check_same_length(length, len(proba), self.score_field)
            names: dict[Label, int] = {}
            label_of: dict[object, Label] = {}
            for position, row in enumerate(proba):
                for name in row:
                    if name not in label_of:
                        label_of[name] = self._named(name, position)
                        names.setdefault(label_of[name], len(names))
                if self._texts and len({label_of[name] for name in row}) < len(row):
                    raise _twice(self.score_field, list(row), position)
            columns = tuple(names)
            matrix = np.zeros((length, len(columns)))
            named = np.zeros(matrix.shape, dtype=np.bool_)
            for position, row in enumerate(proba):
                for name, share in row.items():
                    column = names[label_of[name]]
                    matrix[position, column] = canonical_score(share, self.score_field, position)
                    named[position, column] = True
        else:
            columns, matrix = self._array(proba, length)
        for label in columns:
            check_same_kind(columns[0], label, self.score_field)
        if self.probabilities:
            check_probability_rows(columns, matrix)
        elif len(columns) < len(self.classes) and len(matrix):
            raise self._score_missing(columns, 0)
        elif named is not None and not named.all():
            position = int(np.argmin(named.all(axis=1)))
            held = [label for at, label in enumerate(columns) if named[position, at]]
            raise self._score_missing(held, position)
        return columns, matrix, None if named is None or named.all() else named

    def _array(self, proba: object, length: int) -> tuple[tuple[Label, ...], FloatArray]:
        if isinstance(proba, np.ma.MaskedArray):
            proba = np.ma.filled(proba.astype(np.float64), np.nan)
        expected = f"{length} rows and a column for each of labels="
        try:
            found = array_of(proba)
            array = np.asarray(proba) if found is None else found
        except ValueError:
            raise InputError(
                self.score_field, expected=expected, got="rows of different length"
            ) from None
        if array.ndim != 2 or array.dtype.kind not in "fiu":
            got = f"{array.dtype} of {array.shape}"
            raise InputError(self.score_field, expected=expected, got=got)
        if not self.closed:
            raise InputError(
                self.score_field,
                expected="a data frame or a mapping, label -> column",
                got="an array, whose columns have no names",
                remedy="pass a data frame with the labels as column names, or labels= to the "
                "Evaluator in the order of the columns",
            )
        if array.shape != (length, len(self.classes)):
            wanted = f"labels= names {len(self.classes)}, so pass {len(self.classes)} columns"
            fits = array.shape[1] == len(self.classes)
            remedy = "" if fits else f"{wanted} in their order"
            got = f"shape {array.shape}"
            raise InputError(self.score_field, expected=expected, got=got, remedy=remedy)
        matrix = array.astype(np.float64)
        matrix += 0.0
        if not np.isfinite(matrix).all():
            position, column = map(int, np.argwhere(~np.isfinite(matrix))[0])
            canonical_score(float(matrix[position, column]), self.score_field, position)
        return self.classes, matrix


def _twice(field: str, names: list[Any], position: int | None = None) -> InputError:
    return InputError(field, expected="each label once", got=shown(names), position=position)


class MulticlassTask(Task):
    """States count the user's labels."""

    name = "multiclass"
    adjective = "multi-class"
    compared = "comparison"
    unlabelled: ClassVar[str | None] = "class_predictions"
    kernel: ClassVar[Kernel] = "classes"
    fields: ClassVar[Mapping[str, FieldKind]] = {
        "y_true": "label",
        "y_pred": "label",
        "proba": "probabilities",
    }
    usual: ClassVar[Mapping[str, str]] = {
        "report": "accuracy balanced_accuracy precision_macro recall_macro f1_macro "
        "f1_weighted matthews_corrcoef cohen_kappa "
        "log_loss brier_score expected_calibration_error roc_auc_ovr",
        "slices": "accuracy balanced_accuracy f1_macro matthews_corrcoef log_loss",
        "folds": "accuracy f1_macro matthews_corrcoef cohen_kappa log_loss",
        "representation": "accuracy f1_macro",
        "single": "f1_macro",
    }

    def input(self, options: InputOptions) -> ClassInput:
        return ClassInput(
            options.labels, probabilities=options.probabilities, plain=options.plain_event
        )

    def label_columns(self, batch: EventBatch) -> tuple[Any, ...]:
        assert batch.y_pred is not None
        labels = list(batch.labels)
        return LabelColumn(labels, batch.y_true), LabelColumn(labels, batch.y_pred), batch.weight

    def write_events(self, events: Iterable[EventFields]) -> dict[str, Any]:
        """Columns; of an event ``share_counts`` (−1 for none) ``shares`` of ``share_labels``."""
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
            **written_labels(rows, labels),
            "share_counts": ints(_NO_SHARES if s is None else len(s) for s in shares),
            "share_labels": ints(code[label] for s in given for label in s),
            "shares": np.asarray([v for s in given for v in s.values()], dtype=np.float64),
        }

    def read_events(self, data: Any, plan: Any) -> list[EventFields]:
        labels, true, predicted, weights = read_labels(data)
        ends = (0.0, 1.0) if plan.probabilities else (-LARGEST, LARGEST)
        sets = read_sets(data, "share_counts", "share_labels", len(true), labels, _NO_SHARES)
        scores = read_mappings(data, "shares", sets, ends)
        return [
            (labels[t], labels[p], score, weight)
            for t, p, score, weight in zip(true, predicted, scores, weights, strict=True)
        ]
