"""Input of a multi-class evaluator: canonical labels, predictions from probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from streameval.errors import InputError, StateError, did_you_mean, shown
from streameval.events.event import EventBatch, EventFields, first_position, nothing_given
from streameval.events.values import (
    MAX_CLASSES,
    SUM_TOLERANCE,
    BoolArray,
    FloatArray,
    IntArray,
    Label,
    LabelColumn,
    Weight,
    array_of,
    canonical_label,
    canonical_score,
    canonical_weight,
    check_probabilities,
    check_probability_rows,
    check_same_kind,
    check_same_length,
    label_column,
    most_probable,
    most_probable_columns,
    named_columns,
    score_column,
    weight_column,
)

# Compared by identity: what is not the default itself is validated.
_ONE = 1


class ClassIntake:
    """Canonical labels of a multi-class evaluator, and the prediction out of probabilities.

    Args:
        labels: The closed list of classes, or None to discover them. The
            columns of a two-dimensional ``proba`` array are in its order.
        probabilities: Whether events bring probabilities, as ``proba``; else any finite
            scores of every class, as ``score``. That requires `labels`.

        plain: A quick way: the fields of a plain event with probabilities, or None for any
            other; see ``plain_event`` of ``states/native/native_class_events.pyx``.

    Attributes:
        pending: New labels of the latest event or batch, until :meth:`learn` or
            :meth:`forget`; one of the two follows where there are any.
    """

    __slots__ = (
        "_field",
        "_known",
        "_plain",
        "_texts",
        "classes",
        "closed",
        "pending",
        "probabilities",
    )

    def __init__(
        self,
        labels: Iterable[object] | None = None,
        *,
        probabilities: bool = True,
        plain: Callable[..., EventFields | None] | None = None,
    ) -> None:
        self._plain = plain if probabilities else None
        self.closed = labels is not None
        self.probabilities = probabilities
        self._field = "proba" if probabilities else "score"
        if not probabilities and labels is None:
            raise InputError(
                "probabilities",
                expected="labels= beside probabilities=False, as each event has a score of each",
                got="no labels=",
                remedy="pass labels=[...]",
            )
        self.classes: tuple[Label, ...] = ()
        self.pending: tuple[Label, ...] = ()
        self._known: dict[object, Label] = {}
        self._texts: dict[object, Label] = {}
        if labels is not None:
            names = [canonical_label(label, "labels", n) for n, label in enumerate(labels)]
            for name in names:
                check_same_kind(names[0], name, "labels")
            if len(set(names)) != len(names) or not names:
                raise InputError("labels", expected="distinct labels", got=shown(names))
            self.classes = tuple(names)
            self._known = {name: name for name in names}
            self._texts = {str(name): name for name in names}

    @property
    def canonical(self) -> dict[object, Label]:
        """From a known label to its canonical form; to be read only."""
        return self._known

    def _label(self, value: object, field: str, position: int | None = None) -> Label:
        """The canonical label; learns nothing."""
        label = canonical_label(value, field, position)
        if label in self._known:
            return self._known[label]
        if self._known:
            check_same_kind(next(iter(self._known.values())), label, field, position)
        if self.closed:
            raise InputError(
                field,
                expected=f"one of the classes {shown(list(self.classes))}",
                got=shown(label),
                position=position,
                remedy=did_you_mean(str(label), self._texts),
            )
        if len(self._known) >= MAX_CLASSES:
            raise InputError(
                field,
                expected=f"at most {MAX_CLASSES} distinct labels",
                got=f"another one, {shown(label)}",
                position=position,
                remedy="is this column an id rather than a label?",
            )
        return label

    def _named(self, name: object, position: int | None = None) -> Label:
        """The canonical label of a probability; learns nothing.

        Files and data frames may name columns by text only, so the text of a
        declared numeric label is accepted for it.
        """
        if not self.closed:
            return self._label(name, self._field, position)
        label = canonical_label(name, self._field, position)
        known = label if label in self._known else self._texts.get(label)
        if known is None:
            raise InputError(
                self._field,
                expected=f"one of the classes {shown(list(self.classes))}",
                got=shown(label),
                position=position,
                remedy=did_you_mean(str(label), self._texts)
                or "name the columns by the labels, or pass an array in the order of labels=",
            )
        return known

    def expect(self, labels: Iterable[Label]) -> None:
        """Make these labels of several predictions of one event or batch the pending ones.

        Raises:
            InputError: There would be more classes than one evaluator takes.
        """
        self.pending = tuple(label for label in labels if label not in self._known)
        if len(self._known) + len(self.pending) > MAX_CLASSES:
            raise InputError("y_pred", expected=f"at most {MAX_CLASSES} labels", got="more")

    def learn(self) -> None:
        """Add the pending labels to the known ones, once their event or batch is counted."""
        self._learn(self.pending)
        self.forget()

    def forget(self) -> None:
        """Drop the pending labels: their event or batch was refused, or reverted."""
        self.pending = ()

    def _learn(self, labels: Iterable[Label]) -> None:
        for label in labels:
            self._known.setdefault(label, label)

    def event(
        self,
        y_true: object,
        y_pred: object,
        score: object,
        proba: object,
        weight: object,
    ) -> EventFields:
        """Validate one event or raise InputError; its new labels are :attr:`pending`."""
        known = self._known
        if self._plain is not None and score is None and proba is not None:
            fields = self._plain(known, y_true, y_pred, proba, weight, SUM_TOLERANCE)
            if fields is not None:
                return fields
        shares: dict[Label, float] | None = None
        fresh = False
        try:
            true = known[y_true]
            predicted = known[y_pred] if y_pred is not None else None
        except (KeyError, TypeError):
            fresh = True
            true = self._label(y_true, "y_true")
            predicted = None if y_pred is None else self._label(y_pred, "y_pred")
            if predicted is not None:
                check_same_kind(true, predicted, "y_pred")
        proba = self._scores_given(score, proba)
        if proba is not None:
            shares = self._shares(proba, true)
            if predicted is None:
                predicted = most_probable(shares)
        elif predicted is None:
            raise nothing_given("y_pred")
        canonical: Weight = 1 if weight is _ONE else canonical_weight(weight, zero=True)
        if fresh or (shares is not None and not known.keys() >= shares.keys()):
            labels = (true, predicted, *(shares or ()))
            self.pending = tuple(
                label for label in labels if label is not None and label not in known
            )
        return true, predicted, shares, canonical

    def _shares(self, proba: object, true: Label) -> dict[Label, float]:
        if not isinstance(proba, Mapping):
            raise InputError(
                self._field,
                expected="a mapping label -> "
                + ("probability" if self.probabilities else "number"),
                got=f"{shown(proba)} of type {type(proba).__name__}",
            )
        shares: dict[Label, float] = {}
        for name, share in proba.items():
            label = self._named(name)
            check_same_kind(true, label, self._field)
            shares[label] = canonical_score(share, self._field)
        if len(shares) < len(proba):
            raise _twice(self._field, list(proba))
        if self.probabilities:
            return check_probabilities(shares)
        if len(shares) < len(self.classes):
            raise self._score_missing(shares)
        return shares

    def _score_missing(self, named: Iterable[Label], position: int | None = None) -> InputError:
        missing = [label for label in self.classes if label not in set(named)]
        return InputError(
            self._field,
            expected="a score of every label, with probabilities=False",
            got=f"none of {shown(missing[0])}",
            position=position,
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

    def batch(
        self,
        y_true: object,
        y_pred: object = None,
        score: object = None,
        proba: object = None,
        weight: object = None,
    ) -> EventBatch:
        """Validate columns or raise InputError; their new labels are :attr:`pending`."""
        proba = self._scores_given(score, proba)
        codes: dict[Label, int] = {}
        true = self._codes(label_column(y_true, "y_true"), "y_true", codes)
        predicted = None
        if y_pred is not None:
            predicted = self._codes(label_column(y_pred, "y_pred"), "y_pred", codes)
            check_same_length(len(true), len(predicted), "y_pred")
        matrix: FloatArray | None = None
        named: BoolArray | None = None
        columns: tuple[Label, ...] = ()
        if proba is not None:
            columns, matrix, named = self._matrix(proba, len(true))
            for label in columns:
                if codes:
                    check_same_kind(next(iter(codes)), label, self._field)
                codes.setdefault(label, len(codes))
            if predicted is None:
                predicted = _most_probable_codes(columns, matrix, codes)
        elif predicted is None:
            raise nothing_given("y_pred")
        weights = weight_column(weight, len(true), zero=True)
        batch = EventBatch(true, predicted, matrix, weights, tuple(codes), columns, named)
        counted: Iterable[Label] = codes
        if (rows := batch.weighing()) is not None:
            counted = _labels_of(batch.take(rows))
        self.pending = tuple(label for label in counted if label not in self._known)
        return batch

    def _codes(self, column: LabelColumn, field: str, known: dict[Label, int]) -> IntArray:
        """The column's codes in terms of ``known``, which gains its new labels."""
        mapped = np.zeros(len(column.labels), dtype=np.int64)
        present = np.bincount(column.codes, minlength=len(column.labels)) > 0
        for code, raw in enumerate(column.labels):
            if not present[code]:
                continue
            try:
                label = self._label(raw, field)
                if known:
                    check_same_kind(next(iter(known)), label, field)
            except InputError as error:
                raise error.at(first_position(column.codes, code)) from None
            mapped[code] = known.setdefault(label, len(known))
        codes: IntArray = mapped[column.codes]
        return codes

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
                raise _twice(self._field, list(table))
            columns = tuple(indices)
            parts = [score_column(column, self._field) for column in table.values()]
            for part in parts:
                check_same_length(length, len(part), self._field)
            matrix = np.column_stack(parts) if parts else np.zeros((length, 0))
        elif isinstance(proba, Sequence) and all(isinstance(row, Mapping) for row in proba):
            check_same_length(length, len(proba), self._field)
            names: dict[Label, int] = {}
            label_of: dict[object, Label] = {}
            for position, row in enumerate(proba):
                for name in row:
                    if name not in label_of:
                        label_of[name] = self._named(name, position)
                        names.setdefault(label_of[name], len(names))
                if self._texts and len({label_of[name] for name in row}) < len(row):
                    raise _twice(self._field, list(row), position)
            columns = tuple(names)
            matrix = np.zeros((length, len(columns)))
            named = np.zeros(matrix.shape, dtype=np.bool_)
            for position, row in enumerate(proba):
                for name, share in row.items():
                    column = names[label_of[name]]
                    matrix[position, column] = canonical_score(share, self._field, position)
                    named[position, column] = True
        else:
            columns, matrix = self._array(proba, length)
        for label in columns:
            check_same_kind(columns[0], label, self._field)
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
                self._field, expected=expected, got="rows of different length"
            ) from None
        if array.ndim != 2 or array.dtype.kind not in "fiu":
            raise InputError(self._field, expected=expected, got=f"{array.dtype} of {array.shape}")
        if not self.closed:
            raise InputError(
                self._field,
                expected="a data frame or a mapping, label -> column",
                got="an array, whose columns have no names",
                remedy="pass a data frame with the labels as column names, or labels= to the "
                "Evaluator in the order of the columns",
            )
        if array.shape != (length, len(self.classes)):
            raise InputError(self._field, expected=expected, got=f"shape {array.shape}")
        matrix = array.astype(np.float64)
        matrix += 0.0
        if not np.isfinite(matrix).all():
            position, column = map(int, np.argwhere(~np.isfinite(matrix))[0])
            canonical_score(float(matrix[position, column]), self._field, position)
        return self.classes, matrix

    def known(self) -> list[Label]:
        """The labels as declared, else those seen, ascending."""
        return list(self.classes) if self.closed else sorted(self._known.values())

    def learn_from(self, other: ClassIntake) -> None:
        """Copy the labels of another input, before the first event."""
        self._learn(other._known.values())

    def restore_labels(self, labels: Iterable[Label]) -> None:
        """Restore the labels of a saved state."""
        if not self.closed:
            self._learn(labels)

    def merge(self, other: ClassIntake) -> None:
        """Add the other's labels."""
        mine, theirs = next(iter(self._known), None), next(iter(other._known.values()), None)
        if mine is not None and theirs is not None:
            try:
                check_same_kind(self._known[mine], theirs, "labels")
            except InputError as error:
                raise StateError(f"these evaluators cannot be merged: {error}") from None
        self._learn(other._known.values())


def _twice(field: str, names: list[Any], position: int | None = None) -> InputError:
    return InputError(field, expected="each label once", got=shown(names), position=position)


def _labels_of(batch: EventBatch) -> list[Label]:
    """The labels of a batch's own events, out of those that it may have from others."""
    assert batch.y_pred is not None
    codes = np.unique(np.concatenate([batch.y_true, batch.y_pred])).tolist()
    named = np.full((len(batch), len(batch.score_labels)), True)
    if batch.named is not None:
        named = batch.named
    columns = np.flatnonzero(named.sum(axis=0)).tolist()
    return [batch.labels[code] for code in codes] + [batch.score_labels[n] for n in columns]


def _most_probable_codes(
    columns: tuple[Label, ...], matrix: FloatArray, code_of: Mapping[Label, int]
) -> IntArray:
    if not len(matrix):
        return np.zeros(0, dtype=np.int64)
    if not columns:
        raise nothing_given("proba")
    codes = np.asarray([code_of[label] for label in columns], dtype=np.int64)
    chosen: IntArray = codes[most_probable_columns(matrix, columns)]
    return chosen
