"""The base of the inputs of tasks: labels, scores and weights of events, validated once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streameval.errors import InputError
from streameval.events.event import EventBatch, EventFields
from streameval.events.values import (
    BoolArray,
    FloatArray,
    Label,
    Weight,
    canonical_label,
    canonical_weight,
    check_same_kind,
    check_same_length,
    label_column,
    named_columns,
    weight_column,
)

# Compared by identity: what is not the default itself is validated.
_ONE = 1


@dataclass(frozen=True, slots=True)
class InputOptions:
    """The options of an evaluator that are about its events; a task ignores other tasks' ones."""

    positive: object = 1
    threshold: object = 0.5
    labels: Sequence[object] | None = None
    probabilities: bool = True
    # A fast path of the compiled code, for tasks whose kernel is of classes.
    plain_event: Callable[..., EventFields | None] | None = None


class ScoreColumns(NamedTuple):
    """Scores of a batch, as :class:`~streameval.events.event.EventBatch` has them."""

    score: FloatArray
    labels: tuple[Label, ...] = ()
    named: BoolArray | None = None


class Input:
    """Makes validated events and batches of a task from the arguments of an evaluator.

    New labels of an event or batch are staged. They are committed once it was counted, and rolled
    back if it was refused or reverted. A task overrides the methods of labels and scores, or
    :meth:`event` and :meth:`batch` if its events have other parts.
    """

    __slots__ = ("closed", "known", "part", "staged")

    threshold: float = 0.0  # from which score on compiled code predicts the positive label
    score_field: str = "score"  # the argument that brings scores, in errors
    labelled: ClassVar[bool] = True  # whether events have true labels
    # Whether columns of labels are codes of their names, in the order of ``names``.
    _codes: ClassVar[bool] = True
    # The codes that declared labels have in every batch, if they are those of columns too.
    _code: Mapping[Label, int] = MappingProxyType({})

    def __init__(self, *, closed: bool = False) -> None:
        # From each known label to what states count of it; to be read only.
        self.known: dict[Any, Any] = {}
        self.closed = closed  # whether the labels were declared, and no other is accepted
        self.staged: tuple[Label, ...] = ()  # new labels of the latest event or batch
        # Whether predicted labels are kept, and whether scores are; None: both are.
        self.part: tuple[bool, bool] | None = None

    # What a task gives

    def _label(self, value: object, field: str, position: int | None = None) -> Any:
        """What states count of a label; InputError for one that is not accepted."""
        raise NotImplementedError

    def _scored(self, score: object, proba: object, true: Any, predicted: Any) -> tuple[Any, Any]:
        """What states count of the score that is given, and the predicted label, which by
        default follows from it."""
        raise NotImplementedError

    def _column_label(
        self, label: Label, field: str, names: dict[Label, int], column: Sequence[Label]
    ) -> int:
        """What a batch has for a label out of a column; ``names`` gains one that may be new."""
        raise NotImplementedError

    def _score_columns(
        self, score: object, proba: object, length: int, names: dict[Label, int]
    ) -> ScoreColumns:
        """A batch's scores, given in one of the two arguments; ``names`` gains their labels."""
        raise NotImplementedError

    def _predicted_column(self, scores: ScoreColumns, names: dict[Label, int]) -> NDArray[Any]:
        """The predicted labels if only scores are given."""
        raise NotImplementedError

    def _truths(self, predicted: NDArray[Any]) -> NDArray[Any]:
        """What a batch without true labels has in their place."""
        raise NotImplementedError

    def _labels_in(
        self, batch: EventBatch, names: dict[Label, int], predicted: bool
    ) -> Iterable[Label]:
        """Which of the names are labels of these events; ``predicted``: y_pred was given."""
        raise NotImplementedError

    def _label_column(self, column: object, field: str, names: dict[Label, int]) -> NDArray[Any]:
        """A batch's labels as states count them."""
        distinct, codes = label_column(column, field)
        present = np.bincount(codes, minlength=len(distinct))
        counted: NDArray[Any] = np.zeros(len(distinct), dtype=np.int64 if self._codes else np.bool_)
        for code, label in enumerate(distinct):
            if present[code]:
                try:
                    counted[code] = self._column_label(label, field, names, distinct)
                except InputError as error:
                    raise error.at(int(np.argmax(codes == code))) from None
        return counted[codes]

    # Reading, for reports and files

    @property
    def labels(self) -> list[Label]:
        """The labels as declared, else those seen, ascending."""
        return sorted(self.known)

    @property
    def names(self) -> Mapping[Label, Label]:
        """From the labels that states count to the user's, if these differ."""
        return {}

    @property
    def notes(self) -> dict[str, Any]:
        """Options that the numbers depend on, as reports and files have them."""
        return {}

    def to_parts(self) -> dict[str, Any]:
        """The parts of a file that the states do not imply."""
        return {}

    def restore(self, parts: Mapping[str, Any]) -> None:
        """Restore what :meth:`to_parts` gave; raises InputError."""

    def restore_labels(self, counted: Iterable[Label]) -> None:
        """Restore the labels from those that the states of a file have counted."""
        if not self.closed:
            for label in counted:
                self._learn(label)

    # Labels that an event brings

    def stage(self, labels: Iterable[Label]) -> None:
        """Stage the labels that are new, and no others."""
        self.staged = tuple([label for label in dict.fromkeys(labels) if label not in self.known])

    def stage_together(self, labels: Iterable[Label]) -> None:
        """:meth:`stage` labels of several predictions; raises InputError for too many."""
        self.stage(labels)

    def commit(self) -> None:
        """Add the staged labels to the known ones."""
        for label in self.staged:
            self._learn(label)
        self.staged = ()

    def roll_back(self) -> None:
        """Drop the staged labels."""
        self.staged = ()

    def _learn(self, label: Label) -> None:
        self.known.setdefault(label, label)

    def learn_from(self, other: Self) -> None:
        """Copy the labels of another input of the same options."""
        for label in other.known:
            self._learn(label)

    def check_merge(self, other: Self) -> None:
        """Raise StateError if one evaluator cannot have the labels of both."""

    # Events

    def event(
        self, y_true: object, y_pred: object, score: object, proba: object, weight: object
    ) -> EventFields:
        """Validate one event or raise InputError; its new labels are staged."""
        known = self.known
        fresh = False
        try:
            true = known[y_true]
            predicted = None if y_pred is None else known[y_pred]
        except (KeyError, TypeError):
            fresh = True
            true = self._label(y_true, "y_true")
            predicted = None if y_pred is None else self._label(y_pred, "y_pred")
            if predicted is not None:
                check_same_kind(true, predicted, "y_pred")
        number = None
        if score is not None or proba is not None:
            number, predicted = self._scored(score, proba, true, predicted)
        elif predicted is None:
            raise nothing_given("y_pred")
        canonical: Weight = 1 if weight is _ONE else canonical_weight(weight, zero=True)
        if fresh or (type(number) is dict and not known.keys() >= number.keys()):
            given = [canonical_label(label) for label in (y_true, y_pred) if label is not None]
            self.stage([*given, *(number if type(number) is dict else ())])
        if self.part is None:
            return true, predicted, number, canonical
        labels, scores = self.part
        return true, predicted if labels else None, number if scores else None, canonical

    def batch(
        self,
        y_true: object,
        y_pred: object = None,
        score: object = None,
        proba: object = None,
        weight: object = None,
    ) -> EventBatch:
        """Validate columns or raise InputError; their new labels are staged."""
        self.staged = ()
        names: dict[Label, int] = dict(self._code)
        true = self._label_column(y_true, "y_true", names) if self.labelled else None
        predicted = None
        if y_pred is not None:
            predicted = self._label_column(y_pred, "y_pred", names)
            if true is not None:
                check_same_length(len(true), len(predicted), "y_pred")
        scores: ScoreColumns | None = None
        if score is not None or proba is not None:
            first = predicted if true is None else true
            length = _rows(score, proba) if first is None else len(first)
            scores = self._score_columns(score, proba, length, names)
            if predicted is None:
                predicted = self._predicted_column(scores, names)
        elif predicted is None:
            raise nothing_given("y_pred")
        assert predicted is not None
        if true is None:
            true = self._truths(predicted)
        batch = EventBatch(
            true,
            predicted,
            None if scores is None else scores.score,
            weight_column(weight, len(true), zero=True),
            tuple(names) if self._codes else (),
            () if scores is None else scores.labels,
            None if scores is None else scores.named,
        )
        if names and not self.closed:
            rows = batch.weighing()
            if rows is None:
                self.stage(names)
            else:
                self.stage(self._labels_in(batch.take(rows), names, y_pred is not None))
        if self.part is None:
            return batch
        labels, kept = self.part
        return replace(
            batch,
            y_pred=batch.y_pred if labels else None,
            score=batch.score if kept else None,
        )


def _rows(score: Any, proba: Any) -> int:
    """The number of events of columns of scores."""
    given = score if proba is None else proba
    table = given if isinstance(given, Mapping) else named_columns(given)
    if table is not None:
        given = next(iter(table.values()), ())
    return len(given) if hasattr(given, "__len__") else 0


def nothing_given(field: str) -> InputError:
    """The error of an event without any prediction."""
    return InputError(
        field,
        expected="a prediction: y_pred, score= or proba=",
        got="none of them",
        remedy="pass the predicted label as y_pred, or a score",
    )
