"""Input of a binary evaluator: labels as positive or not, predictions from scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from streameval.errors import InputError, StateError, did_you_mean, shown
from streameval.events.event import EventBatch, EventFields, first_position, nothing_given
from streameval.events.values import (
    BoolArray,
    FloatArray,
    Label,
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
    named_columns,
    score_column,
    weight_column,
)

_MULTICLASS = 'task="multiclass" for more than two labels'
_PROBABILITY = "a probability in [0, 1]"
_SHOWN = 4
# Compared by identity: what is not the default itself is validated.
_ONE = 1


class BinaryIntake:
    """Turns labels into "positive or not" and scores into predictions.

    Args:
        positive: The label that counts as positive; every other is the one
            negative label, taken from the events.
        threshold: An event with ``score >= threshold`` is predicted positive
            where no ``y_pred`` is given.
        labels: Both labels, where they are known beforehand.

    Attributes:
        pending: New labels of the latest event or batch, until :meth:`learn` or
            :meth:`forget`; one of the two follows where there are any.
    """

    __slots__ = ("_truth", "closed", "negative", "pending", "positive", "threshold")

    def __init__(
        self, positive: object, threshold: object = 0.5, labels: Iterable[object] | None = None
    ) -> None:
        self.positive = canonical_label(positive, "positive")
        self.threshold = canonical_score(threshold, "threshold")
        self.negative: Label | None = None
        self.closed = labels is not None
        self.pending: tuple[Label, ...] = ()
        self._truth: dict[object, bool] = {self.positive: True}
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
        self._truth[negative] = False

    @property
    def truth(self) -> dict[Any, bool]:
        """From a known label to whether it is the positive one; to be read only."""
        return self._truth

    @property
    def labels(self) -> tuple[Label, Label]:
        """The names of negative and positive, as reports show them."""
        negative = self.negative
        if negative is None:
            negative = f"not {self.positive}" if isinstance(self.positive, str) else 0
        return negative, self.positive

    def _is_positive(
        self,
        value: object,
        field: str,
        position: int | None = None,
        column: Sequence[Label] = (),
    ) -> bool:
        """Whether it is the positive label rather than the negative one; learns nothing.

        Args:
            value: The label.
            field: Where it was given, for errors.
            position: Of the event, for errors.
            column: All labels given with it, for errors.
        """
        label = canonical_label(value, field, position)
        known = self._truth.get(label)
        if known is not None:
            return known
        seen = self.closed or not (self.negative is None or self.positive in (0, 1))
        other = isinstance(label, str) != isinstance(self.positive, str)
        if other and not seen and str(label) not in map(str, self._truth):
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

    def event(
        self,
        y_true: object,
        y_pred: object,
        score: object,
        proba: object,
        weight: object,
    ) -> EventFields:
        """Validate one event or raise InputError; its new labels are :attr:`pending`."""
        truth = self._truth
        try:
            true = truth[y_true]
            predicted = None if y_pred is None else truth[y_pred]
            fresh = False
        except (KeyError, TypeError):
            true = self._is_positive(y_true, "y_true")
            predicted = None if y_pred is None else self._is_positive(y_pred, "y_pred")
            fresh = True
        number: float | None = None
        if score is not None:
            if proba is not None:
                raise InputError("proba", expected="score= or proba=", got="both")
            # The difference is nan for a score that is nan or infinite.
            if type(score) is float and score - score == 0.0:
                number = score + 0.0  # -0.0 becomes 0.0
            else:
                number = canonical_score(score)
        elif proba is not None:
            number = self._probability(proba)
        elif y_pred is None:
            raise nothing_given("y_pred")
        if predicted is None and number is not None:
            predicted = number >= self.threshold
        canonical: Weight = 1 if weight is _ONE else canonical_weight(weight, zero=True)
        if fresh:
            self.pending = self._new_labels((y_true, y_pred))
        return true, predicted, number, canonical

    def expect(self, labels: Iterable[Label]) -> None:
        """Make these labels of several predictions of one event or batch the pending ones.

        Raises:
            InputError: More than one of them is new.
        """
        self.pending = self._new_labels(labels)

    def learn(self) -> None:
        """Add the pending labels to the known ones, once their event or batch is counted."""
        for name in self.pending:
            self._learn(name)
        self.forget()

    def forget(self) -> None:
        """Drop the pending labels: their event or batch was refused, or reverted."""
        self.pending = ()

    def _new_labels(self, values: Iterable[object]) -> tuple[Label, ...]:
        names = [canonical_label(value) for value in values if value is not None]
        new = {name for name in names if name not in self._truth}
        if len(new) > 1:
            raise InputError(
                "y_pred",
                expected=f"two labels, {shown(self.positive)} and one other",
                got=" and ".join(shown(name) for name in sorted(new, key=str)),
                remedy=f"pass {_MULTICLASS}",
                remedy_code="task",
            )
        return tuple(new)

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
            label: canonical_score(share, "proba", position)
            for label, share in self._named(proba, position).items()
        }
        try:
            check_probabilities(shares)
        except InputError as error:
            raise error.at(position) from None
        return shares.get(self.positive, 0.0)

    def _named(self, given: Mapping[Any, Any], position: int | None = None) -> dict[Label, Any]:
        """The value given for each of the two labels; learns nothing.

        Files and data frames may name columns by text only, so the text of a
        known numeric label is accepted for it.
        """
        texts: dict[object, Label] = {str(label): label for label in self._truth}  # type: ignore[misc]
        found: dict[Label, Any] = {}
        for name, value in given.items():
            label = canonical_label(name, "proba", position)
            label = label if label in self._truth else texts.get(label, label)
            self._is_positive(label, "proba", position)
            if label in found or len(found) == 2:
                raise InputError(
                    "proba",
                    expected="two labels, each once",
                    got=f"{shown(label)} beside {shown(list(found))}",
                    position=position,
                )
            found[label] = value
        return found

    def batch(
        self,
        y_true: object,
        y_pred: object = None,
        score: object = None,
        proba: object = None,
        weight: object = None,
    ) -> EventBatch:
        """Validate columns or raise InputError; their new labels are :attr:`pending`."""
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
            scores = self._probabilities(proba, names)
            check_same_length(len(true), len(scores), "proba")
        elif predicted is None:
            raise nothing_given("y_pred")
        if predicted is None and scores is not None:
            predicted = scores >= self.threshold
        weights = weight_column(weight, len(true), zero=True)
        batch = EventBatch(true, predicted, scores, weights)
        self.pending = self._new_labels(names)
        if self.pending and (rows := batch.weighing()) is not None:
            given = [true] if y_pred is None or predicted is None else [true, predicted]
            if all(column[rows].all() for column in given):
                self.forget()
        return batch

    def _truths(self, column: object, field: str, names: set[Label]) -> BoolArray:
        if type(column) is np.ndarray and column.ndim == 1 and self._truth.keys() == {0, 1}:
            # The most common case, without codes.
            if column.dtype == np.bool_:
                return column.copy() if self.positive == 1 else ~column
            if column.dtype.kind in "iu" and len(column) and column.max() <= 1 <= 1 + column.min():
                same: BoolArray = column == self.positive
                return same
        distinct, codes = label_column(column, field)
        present = np.bincount(codes, minlength=len(distinct))
        truths = np.zeros(len(distinct), dtype=np.bool_)
        others: list[Label] = []
        for code, label in enumerate(distinct):
            if not present[code]:
                continue
            try:
                truths[code] = self._is_positive(label, field, column=distinct)
            except InputError as error:
                raise error.at(first_position(codes, code)) from None
            if not truths[code] and self.negative is None:
                others.append(label)
                names.add(label)
                if len(names) > 1:
                    raise InputError(
                        field,
                        expected=f"two labels, {shown(self.positive)} and one other",
                        got=" and ".join(shown(name) for name in sorted(names, key=str)),
                        position=first_position(codes, code),
                        remedy=f"pass {_MULTICLASS}",
                        remedy_code="task",
                    )
        result: BoolArray = truths[codes]
        return result

    def _positive_column(self, proba: object, names: set[Label]) -> object:
        """The positive label's column of (n, 2) probabilities; any other shape as it is.

        The columns are those of ``predict_proba``, whose order is that of the labels. Where
        that is not negative, positive, they are refused: either order would be a guess.
        """
        matrix = array_of(proba)
        if matrix is None and isinstance(proba, Sequence) and proba:
            pair = isinstance(proba[0], (Sequence, np.ndarray)) and not isinstance(proba[0], str)
            try:
                matrix = np.asarray(proba, dtype=np.float64) if pair else None
            except (TypeError, ValueError):
                matrix = None
        if matrix is None or matrix.ndim != 2 or matrix.shape[1] != 2:
            return proba
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

    def _probabilities(self, proba: object, names: set[Label]) -> FloatArray:
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

    def learn_from(self, other: BinaryIntake) -> None:
        """Copy the negative label of another input, before the first event."""
        if self.negative is None and other.negative is not None:
            self._learn(other.negative)

    def restore_negative(self, name: object) -> None:
        """Restore the negative label of a saved state."""
        known = self.negative
        good = name is None or type(name) is type(self.positive)
        if not good or name == self.positive or (known is not None and name != known):
            raise InputError("negative", expected=shown(known), got=shown(name))
        if name is not None and known is None:
            self._learn(canonical_label(name, "negative"))

    def merge(self, other: BinaryIntake) -> None:
        """Copy the negative label where only the other has one."""
        if other.negative is not None and self.negative != other.negative:
            if self.negative is not None:
                raise StateError(
                    "evaluators of different negative labels cannot be merged: "
                    f"{shown(self.negative)} and {shown(other.negative)}"
                )
            self._learn(other.negative)
