"""The edge of an evaluator: raw arguments become validated events and batches.

Behind this module labels, scores and weights are canonical. Names of labels
that are new are only remembered once the whole call has proved good, so a
refused call leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events import (
    MAX_CLASSES,
    BoolArray,
    FloatArray,
    IntArray,
    Label,
    LabelColumn,
    Weight,
    canonical_label,
    canonical_score,
    canonical_weight,
    check_same_kind,
    check_same_length,
    label_column,
    score_column,
    weight_column,
)
from streameval.states.class_proba_input import check_probabilities
from streameval.tally import Batch

__all__ = ["BinaryIntake", "ClassIntake", "EventFields"]

EventFields = tuple[Label, Label | None, Any, Weight]
"""What :meth:`streameval.tally.Tally.update` takes: true, predicted, score, weight."""

_PROBABILITY = "a probability in [0, 1]"


def _nothing_given(field: str) -> InputError:
    return InputError(
        field,
        expected="a prediction: y_pred, score= or proba=",
        got="none of them",
        remedy="pass the predicted label as y_pred, or a score",
    )


class BinaryIntake:
    """Turns labels into "positive or not" and scores into predictions.

    Args:
        positive: The label that counts as positive; every other is the one
            negative label, learnt as it comes.
        threshold: An event with ``score >= threshold`` is predicted positive
            where no ``y_pred`` is given.
        labels: Both labels, where they are known beforehand.
    """

    __slots__ = ("_truth", "closed", "negative", "positive", "threshold")

    def __init__(
        self, positive: object, threshold: object = 0.5, labels: Iterable[object] | None = None
    ) -> None:
        self.positive = canonical_label(positive, "positive")
        self.threshold = canonical_score(threshold, "threshold")
        self.negative: Label | None = None
        self.closed = labels is not None
        self._truth: dict[object, int] = {self.positive: 1}
        if labels is not None:
            known = [canonical_label(label, "labels", n) for n, label in enumerate(labels)]
            if len(set(known)) != 2 or self.positive not in known:
                raise InputError(
                    "labels",
                    expected=f"two labels, one of them the positive {shown(self.positive)}",
                    got=shown(known),
                )
            self._learn(known[0] if known[1] == self.positive else known[1])
        elif self.positive in (0, 1):
            self._learn(1 - int(self.positive))

    def _learn(self, negative: Label) -> None:
        check_same_kind(self.positive, negative, "labels")
        self.negative = negative
        self._truth[negative] = 0

    @property
    def labels(self) -> tuple[Label, Label]:
        """The names of negative and positive, as reports show them."""
        negative = self.negative
        if negative is None:
            negative = f"not {self.positive}" if isinstance(self.positive, str) else 0
        return negative, self.positive

    def _place(self, value: object, field: str, position: int | None = None) -> int:
        """1 for the positive label, 0 for the negative one; learns nothing."""
        label = canonical_label(value, field, position)
        known = self._truth.get(label)
        if known is not None:
            return known
        if self.negative is None:
            check_same_kind(self.positive, label, field, position)
            return 0
        check_same_kind(self.positive, label, field, position)
        raise InputError(
            field,
            expected=f"{shown(self.negative)} or the positive label {shown(self.positive)}",
            got=shown(label),
            position=position,
            remedy='pass positive=, or task="multiclass" for more than two labels',
        )

    def event(
        self,
        y_true: object,
        y_pred: object,
        score: object,
        proba: object,
        weight: object,
        *,
        learn: bool = True,
    ) -> EventFields:
        """Validate one event; raises InputError and remembers nothing of a bad one.

        ``learn=False`` remembers nothing of a good one either: for an event
        that is to be undone.
        """
        truth = self._truth
        try:
            true = truth[y_true]
            predicted = truth[y_pred] if y_pred is not None else None
            fresh = False
        except (KeyError, TypeError):
            true = self._place(y_true, "y_true")
            predicted = None if y_pred is None else self._place(y_pred, "y_pred")
            fresh = True
        number: float | None = None
        if score is not None:
            if proba is not None:
                raise InputError("proba", expected="score= or proba=", got="both")
            number = canonical_score(score)
        elif proba is not None:
            number = self._probability(proba)
        elif y_pred is None:
            raise _nothing_given("y_pred")
        if predicted is None and number is not None:
            predicted = 1 if number >= self.threshold else 0
        if weight != 1 or weight is True:
            weight = canonical_weight(weight)
        else:
            weight = 1
        if fresh and learn:
            self._learn_from((y_true, y_pred))
        return true, predicted, number, weight

    def _learn_from(self, values: Iterable[object]) -> None:
        names = [canonical_label(value) for value in values if value is not None]
        new = {name for name in names if name not in self._truth}
        if len(new) > 1:
            raise InputError(
                "y_pred",
                expected=f"two labels, {shown(self.positive)} and one other",
                got=" and ".join(shown(name) for name in sorted(new, key=str)),
                remedy='pass task="multiclass" for more than two labels',
            )
        for name in new:
            self._learn(name)

    def _probability(self, proba: object, position: int | None = None) -> float:
        """The positive label's probability, out of a number or of a mapping."""
        if not isinstance(proba, Mapping):
            number = canonical_score(proba, "proba", position)
            if not 0.0 <= number <= 1.0:
                raise InputError(
                    "proba",
                    expected=_PROBABILITY,
                    got=shown(number),
                    position=position,
                    remedy="pass a score that is not a probability as score=",
                )
            return number
        shares = {
            canonical_label(label, "proba", position): canonical_score(share, "proba", position)
            for label, share in proba.items()
        }
        for label in shares:
            self._place(label, "proba", position)
        try:
            check_probabilities(shares)
        except InputError as error:
            raise error.at(position) from None
        return shares.get(self.positive, 0.0)

    def batch(
        self,
        y_true: object,
        y_pred: object = None,
        score: object = None,
        proba: object = None,
        weight: object = None,
    ) -> Batch:
        """Validate columns; raises InputError and remembers nothing of bad ones."""
        names: set[Label] = set()
        true = self._truths(y_true, "y_true", names)
        predicted = None if y_pred is None else self._truths(y_pred, "y_pred", names)
        if predicted is not None:
            check_same_length(len(true), len(predicted), "y_pred")
        scores: FloatArray | None = None
        if score is not None:
            if proba is not None:
                raise InputError("proba", expected="score= or proba=", got="both")
            scores = score_column(score)
            check_same_length(len(true), len(scores), "score")
        elif proba is not None:
            scores = self._probabilities(proba)
            check_same_length(len(true), len(scores), "proba")
        elif predicted is None:
            raise _nothing_given("y_pred")
        if predicted is None and scores is not None:
            predicted = scores >= self.threshold
        weights = weight_column(weight, len(true))
        self._learn_from(names)
        return Batch(true, predicted, scores, weights)

    def _truths(self, column: object, field: str, names: set[Label]) -> BoolArray:
        if isinstance(column, np.ndarray) and column.ndim == 1 and self.positive in (0, 1):
            # The commonest case, without a pass over codes.
            if column.dtype == np.bool_:
                return column.copy() if self.positive == 1 else ~column
            if column.dtype.kind in "iu" and len(column) and column.max() <= 1 <= 1 + column.min():
                same: BoolArray = column == self.positive
                return same
        distinct, codes = label_column(column, field)
        present = np.bincount(codes, minlength=len(distinct)) if len(distinct) <= 2 else None
        truths = np.zeros(len(distinct), dtype=np.bool_)
        others: list[Label] = []
        for place, label in enumerate(distinct):
            if present is not None and not present[place]:
                continue
            try:
                truths[place] = self._place(label, field)
            except InputError as error:
                raise error.at(_first(codes, place)) from None
            if not truths[place] and self.negative is None:
                others.append(label)
                names.add(label)
                if len(names) > 1:
                    raise InputError(
                        field,
                        expected=f"two labels, {shown(self.positive)} and one other",
                        got=" and ".join(shown(name) for name in sorted(names, key=str)),
                        position=_first(codes, place),
                        remedy='pass task="multiclass" for more than two labels',
                    )
        result: BoolArray = truths[codes]
        return result

    def _probabilities(self, proba: object) -> FloatArray:
        if isinstance(proba, Mapping):
            columns = {canonical_label(label, "proba"): column for label, column in proba.items()}
            if self.positive not in columns:
                raise InputError(
                    "proba",
                    expected=f"a column for the positive label {shown(self.positive)}",
                    got=shown(list(columns)),
                )
            proba = columns[self.positive]
        elif isinstance(proba, Sequence) and any(isinstance(p, Mapping) for p in proba):
            return np.asarray([self._probability(p, n) for n, p in enumerate(proba)])
        scores = score_column(proba, "proba")
        good = (scores >= 0.0) & (scores <= 1.0)
        if not good.all():
            position = int(np.argmin(good))
            self._probability(float(scores[position]), position)
        return scores

    def restore_negative(self, name: object) -> None:
        """Know the negative label's name from a saved state."""
        known = self.negative
        good = name is None or type(name) is type(self.positive)
        if not good or name == self.positive or (known is not None and name != known):
            raise InputError("negative", expected=shown(known), got=shown(name))
        if name is not None and known is None:
            self._learn(canonical_label(name, "negative"))

    def merge(self, other: BinaryIntake) -> None:
        """Take over the negative label's name where only the other knows it."""
        if other.negative is not None and self.negative != other.negative:
            if self.negative is not None:
                raise StateError(
                    "evaluators of different negative labels cannot be merged: "
                    f"{shown(self.negative)} and {shown(other.negative)}"
                )
            self._learn(other.negative)


class ClassIntake:
    """Canonical labels of a multi-class evaluator, and the prediction out of probabilities.

    Args:
        labels: The closed list of classes, or None to discover them. The
            columns of a two-dimensional ``proba`` array are in its order.
    """

    __slots__ = ("_known", "classes", "closed")

    def __init__(self, labels: Iterable[object] | None = None) -> None:
        self.closed = labels is not None
        self.classes: tuple[Label, ...] = ()
        self._known: dict[object, Label] = {}
        if labels is not None:
            names = [canonical_label(label, "labels", n) for n, label in enumerate(labels)]
            for name in names:
                check_same_kind(names[0], name, "labels")
            if len(set(names)) != len(names) or not names:
                raise InputError("labels", expected="distinct labels", got=shown(names))
            self.classes = tuple(names)
            self._known = {name: name for name in names}

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
        *,
        learn: bool = True,
    ) -> EventFields:
        """Validate one event; raises InputError and remembers nothing of a bad one.

        ``learn=False`` remembers nothing of a good one either: for an event
        that is to be undone.
        """
        known = self._known
        shares: dict[Label, float] | None = None
        try:
            true = known[y_true]
            predicted = known[y_pred] if y_pred is not None else None
        except (KeyError, TypeError):
            true = self._label(y_true, "y_true")
            predicted = None if y_pred is None else self._label(y_pred, "y_pred")
            if predicted is not None:
                check_same_kind(true, predicted, "y_pred")
        if score is not None:
            raise InputError(
                "score",
                expected="proba={label: probability} in a multi-class evaluator",
                got="score=",
                remedy='pass proba=, or use task="binary"',
            )
        if proba is not None:
            shares = self._shares(proba, true)
            if predicted is None:
                predicted = _most_probable(shares)
        elif predicted is None:
            raise _nothing_given("y_pred")
        weight = canonical_weight(weight) if weight != 1 or weight is True else 1
        if learn:
            known.setdefault(true, true)
            if predicted is not None:
                known.setdefault(predicted, predicted)
            if shares is not None:
                self._learn(shares)
        return true, predicted, shares, weight

    def _shares(
        self, proba: object, true: Label, position: int | None = None
    ) -> dict[Label, float]:
        if not isinstance(proba, Mapping):
            raise InputError(
                "proba",
                expected="a mapping label -> probability",
                got=f"{shown(proba)} of type {type(proba).__name__}",
                position=position,
            )
        shares: dict[Label, float] = {}
        for name, share in proba.items():
            label = self._label(name, "proba", position)
            check_same_kind(true, label, "proba", position)
            shares[label] = canonical_score(share, "proba", position)
        try:
            check_probabilities(shares)
        except InputError as error:
            raise error.at(position) from None
        return shares

    def batch(
        self,
        y_true: object,
        y_pred: object = None,
        score: object = None,
        proba: object = None,
        weight: object = None,
    ) -> Batch:
        """Validate columns; raises InputError and remembers nothing of bad ones."""
        if score is not None:
            self.event(0, None, score, None, 1)  # raises with the remedy
        places: dict[Label, int] = {}
        true = self._codes(label_column(y_true, "y_true"), "y_true", places)
        predicted = None
        if y_pred is not None:
            predicted = self._codes(label_column(y_pred, "y_pred"), "y_pred", places)
            check_same_length(len(true), len(predicted), "y_pred")
        matrix: FloatArray | None = None
        named: BoolArray | None = None
        columns: tuple[Label, ...] = ()
        if proba is not None:
            columns, matrix, named = self._matrix(proba, len(true))
            for label in columns:
                if places:
                    check_same_kind(next(iter(places)), label, "proba")
                places.setdefault(label, len(places))
            if predicted is None:
                predicted = self._most_probable_codes(columns, matrix, places)
        elif predicted is None:
            raise _nothing_given("y_pred")
        weights = weight_column(weight, len(true))
        self._learn(places)
        return Batch(true, predicted, matrix, weights, tuple(places), columns, named)

    def _codes(self, column: LabelColumn, field: str, places: dict[Label, int]) -> IntArray:
        """The column's codes in terms of ``places``, which gains its new labels."""
        mapped = np.zeros(len(column.labels), dtype=np.int64)
        present = np.bincount(column.codes, minlength=len(column.labels)) > 0
        for code, raw in enumerate(column.labels):
            if not present[code]:
                continue
            try:
                label = self._label(raw, field)
                if places:
                    check_same_kind(next(iter(places)), label, field)
            except InputError as error:
                raise error.at(_first(column.codes, code)) from None
            mapped[code] = places.setdefault(label, len(places))
        codes: IntArray = mapped[column.codes]
        return codes

    def _matrix(
        self, proba: object, length: int
    ) -> tuple[tuple[Label, ...], FloatArray, BoolArray | None]:
        """The labels of the columns, the probabilities, and which cells were named."""
        named: BoolArray | None = None
        if isinstance(proba, Mapping):
            columns = tuple(self._label(label, "proba") for label in proba)
            parts = [score_column(column, "proba") for column in proba.values()]
            for part in parts:
                check_same_length(length, len(part), "proba")
            matrix = np.column_stack(parts) if parts else np.zeros((length, 0))
        elif isinstance(proba, Sequence) and all(isinstance(row, Mapping) for row in proba):
            check_same_length(length, len(proba), "proba")
            names: dict[Label, int] = {}
            for position, row in enumerate(proba):
                for name in row:
                    names.setdefault(self._label(name, "proba", position), len(names))
            columns = tuple(names)
            matrix = np.zeros((length, len(columns)))
            named = np.zeros(matrix.shape, dtype=np.bool_)
            for position, row in enumerate(proba):
                for name, share in row.items():
                    place = names[canonical_label(name)]
                    matrix[position, place] = canonical_score(share, "proba", position)
                    named[position, place] = True
        else:
            columns, matrix = self._array(proba, length)
        for label in columns:
            check_same_kind(columns[0], label, "proba")
        _check_rows(columns, matrix)
        return columns, matrix, None if named is None or named.all() else named

    def _array(self, proba: object, length: int) -> tuple[tuple[Label, ...], FloatArray]:
        array = np.asarray(proba)
        expected = f"{length} rows and a column for each of labels="
        if array.ndim != 2 or array.dtype.kind not in "fiu":
            raise InputError("proba", expected=expected, got=f"{array.dtype} of {array.shape}")
        if not self.closed:
            raise InputError(
                "proba",
                expected="a mapping label -> column",
                got="an array, whose columns have no names",
                remedy="pass labels= to the Evaluator, in the order of the columns",
            )
        if array.shape != (length, len(self.classes)):
            raise InputError("proba", expected=expected, got=f"shape {array.shape}")
        matrix = array.astype(np.float64) + 0.0
        if not np.isfinite(matrix).all():
            position, column = map(int, np.argwhere(~np.isfinite(matrix))[0])
            canonical_score(float(matrix[position, column]), "proba", position)
        return self.classes, matrix

    def _most_probable_codes(
        self, columns: tuple[Label, ...], matrix: FloatArray, places: dict[Label, int]
    ) -> IntArray:
        if not len(matrix):
            return np.zeros(0, dtype=np.int64)
        if not columns:
            raise _nothing_given("proba")
        # Of equal probabilities the label that sorts first wins.
        order = sorted(range(len(columns)), key=lambda n: columns[n])
        best = np.argmax(matrix[:, order], axis=1)
        codes = np.asarray([places[columns[n]] for n in order], dtype=np.int64)
        chosen: IntArray = codes[best]
        return chosen

    def known(self) -> list[Label]:
        """The labels seen or declared, sorted."""
        return sorted(self._known.values())

    def restore_labels(self, labels: Iterable[Label]) -> None:
        """Know the labels of a saved state."""
        if not self.closed:
            self._learn(labels)

    def merge(self, other: ClassIntake) -> None:
        """Know the other's labels too."""
        mine, theirs = next(iter(self._known), None), next(iter(other._known.values()), None)
        if mine is not None and theirs is not None:
            try:
                check_same_kind(self._known[mine], theirs, "labels")
            except InputError as error:
                raise StateError(f"these evaluators cannot be merged: {error}") from None
        self._learn(other._known.values())


def _most_probable(shares: Mapping[Label, float]) -> Label:
    """The label of highest probability; of equal ones the label that sorts first."""
    if not shares:
        raise _nothing_given("proba")
    best = max(shares.values())
    return min(label for label, share in shares.items() if share == best)


def _check_rows(columns: tuple[Label, ...], matrix: FloatArray) -> None:
    """Find the first row that is no distribution, and let the state's own rule word it."""
    good = (
        (matrix >= 0.0).all(axis=1)
        & (matrix <= 1.0).all(axis=1)
        & (np.abs(matrix.sum(axis=1) - 1.0) <= 9e-4)
    )
    for position in np.flatnonzero(~good).tolist():
        try:
            check_probabilities(dict(zip(columns, matrix[position].tolist(), strict=True)))
        except InputError as error:
            raise error.at(position) from None


def _first(codes: IntArray, code: int) -> int:
    """Position of the first event of a code."""
    return int(np.argmax(codes == code))
