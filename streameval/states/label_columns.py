"""Scores of events that have sets of labels: a binary state for each label, implied zeros."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self

import numpy as np

from streameval.errors import InputError, StateError
from streameval.events.event import EventBatch
from streameval.events.label_rows import LabelRows
from streameval.events.values import (
    MAX_CLASSES,
    BoolArray,
    FloatArray,
    IntArray,
    Label,
    Weight,
    check_same_kind,
)
from streameval.states.fields import MOST_WEIGHT, Fields, never_counted, removable_weight
from streameval.states.ranking.weights import MAX_TOTAL, WeightArray, check_total
from streameval.states.sums.fixed_point import total_weight
from streameval.states.sums.sum_vector import DeclaredSums, Field, Form, Parts, total_over

RESIDUE = 1e-9
"""Of float weights, zeros of less than this share of all are the rounding of a difference."""

_ANY_TOTAL = MAX_TOTAL // MAX_CLASSES
"""Whole weight of all events of which the pairs of all labels pooled fit an int64, however many."""


def cell_columns(
    batch: EventBatch,
) -> Iterator[tuple[Label, BoolArray, FloatArray, WeightArray | None, Weight]]:
    """Each label that an event of a batch has, or scores other than 0.

    With it whether the events that score it have it, their scores and weights, and the weight of
    the others that have it.
    """
    labels, weight = batch.labels, batch.weight
    nothing: IntArray = np.zeros(0, np.int64)
    true = {labels[code]: rows for code, (rows, _) in _by_code(batch.y_true, len(labels)).items()}
    scored: dict[Label, tuple[Any, FloatArray]]
    if isinstance(batch.score, LabelRows):
        values: Any = batch.score.values
        found = _by_code(batch.score, len(labels), values != 0.0)
        scored = {labels[code]: (rows, values[cells]) for code, (rows, cells) in found.items()}
    else:
        scored = {label: (None, batch.score[:, n]) for n, label in enumerate(batch.score_labels)}
    flags = np.zeros(len(batch), np.bool_)
    for label in dict.fromkeys((*scored, *true)):
        own = true.get(label, nothing)
        rows, scores = scored.get(label, (nothing, np.zeros(0)))
        flags[own] = True
        if rows is None:
            scores = np.ascontiguousarray(scores)
            rows = np.flatnonzero(scores)
            scores = scores[rows]
        positive = flags[rows]
        flags[rows] = False
        missed = _weight_of(weight, own[flags[own]])
        flags[own] = False
        among = None if weight is None else weight[rows]
        if len(rows) or len(own):
            yield label, positive, scores, among, missed


def _by_code(
    rows: LabelRows, size: int, held: BoolArray | None = None
) -> dict[int, tuple[IntArray, IntArray]]:
    """From each code that occurs to its events, ascending, and its cells."""
    codes, events = rows.codes, rows.rows
    cells = np.argsort(codes, kind="stable")
    if held is not None:
        cells = cells[held[cells]]
    ends = np.cumsum(np.bincount(codes[cells], minlength=size))
    found = np.flatnonzero(np.diff(ends, prepend=0)).tolist()
    starts = np.append(0, ends)
    parts = {code: cells[starts[code] : starts[code + 1]] for code in found}
    return {code: (events[part], part) for code, part in parts.items()}


def _weight_of(weight: WeightArray | None, rows: IntArray) -> Weight:
    return len(rows) if weight is None else total_weight(weight[rows])


class LabelColumns(DeclaredSums):
    """For each label a state of binary events: its scores, positive where an event has the label.

    A score of 0 is not kept: how many of them a label has follows from the weight of all events,
    so that a label that an event neither has nor scores costs nothing.

    Args:
        declared: The closed list of labels; None where they are discovered: a label then
            belongs to the state while some event has it or gives it a score but 0.
    """

    # The cells of the base are the weight of the events that have a label, and gave it 0.
    __slots__ = ("_columns",)
    KEYS = frozenset({"exact", "weight", "labels", "missed", "columns"})
    COLUMN: ClassVar[Any]
    """The class of a column, which takes the settings."""
    SCALED: ClassVar[Any]
    """The written form of a column of several ones' events."""

    weight = Field[Weight]()

    def __init__(self, declared: tuple[Label, ...] | None = None) -> None:
        super().__init__(declared)
        self._columns: dict[Label, Any] = {}

    def _held(self, column: Any) -> Weight:
        """The weight of a column's events; a subclass says it."""
        raise NotImplementedError

    def _new(self) -> Any:
        """A column without events."""
        return self.COLUMN(**self._settings())

    def _restored(self, form: object) -> Any:
        """The column that was written; raises StateError."""
        column = self.COLUMN.from_state(form)
        for name, value in self._settings().items():
            if (got := getattr(column, name)) != value:
                raise StateError(f"{name}: expected {value}, got {got}")
        return column

    # Reading

    @property
    def labels(self) -> list[Label]:
        """Labels that some event has, or gives a score but 0, ascending. A new list."""
        return sorted({*self._columns, *self._cells})

    @property
    def classes(self) -> list[Label]:
        """The declared labels in their order, or all that occur, ascending."""
        return self.labels if self.declared is None else list(self.declared)

    def column(self, label: Label) -> Any:
        """The state of a label's scores but 0; None where it has none."""
        return self._columns.get(label)

    def zeros(self, label: Label) -> tuple[Weight, Weight]:
        """The weight of the scores of 0 of a label: of events that have it, and of others."""
        total, missed = self._values[0], self._cells.get(label, 0)
        column = self._columns.get(label)
        rest = total - missed - (0 if column is None else self._held(column))
        if not self._exact and rest <= RESIDUE * total:
            rest = 0.0
        return missed, rest

    # Counting

    def check(
        self, y_true: Iterable[Label], given: Any, weight: Weight = 1, y_pred: Any = None
    ) -> None:
        """Raise InputError for too much weight."""
        total = self._values[0]
        if self._exact and total + weight > _ANY_TOTAL:
            check_total(total, weight, self._most_total((*y_true, *given)), "weights")

    def check_many(self, batch: EventBatch) -> None:
        """:meth:`check` of all events of a batch together."""
        weight = batch.weight
        self.check(batch.labels, (), len(batch) if weight is None else total_weight(weight))

    def _most_total(self, labels: Iterable[Label]) -> int:
        """The most whole weight of events of these labels too."""
        known = self.declared or {*self._columns, *self._cells, *labels}
        return MAX_TOTAL // max(1, len(known))

    def update(self, y_true: Any, given: Any, weight: Weight = 1, y_pred: Any = None) -> None:
        """Count one validated event; ``y_pred`` is not used."""
        self.check(y_true, given, weight)
        super().update(y_true, given, weight)

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> tuple[Any, Any]:
        return y_true, given

    def _add(self, terms: Any, weight: Weight) -> None:
        y_true, score = terms
        if not self._exact:
            weight = float(weight)
        for label, value in score.items():
            if value:
                self._column(label).update(label in y_true, value, weight)
        for label in y_true:
            if not score.get(label):
                self._add_cell(label, weight)
        self._values[0] += weight

    def _column(self, label: Label) -> Any:
        column = self._columns.get(label)
        if column is None:
            column = self._columns[label] = self._new()
        return column

    def update_many(self, y_true: Any, given: Any = None, weight: Any = None) -> None:
        """Count a validated batch, to the same bits as its events one by one."""
        if len(y_true) and y_true.score is not None:
            self.check_many(y_true)
            super().update_many(y_true)

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        for label, positive, scores, among, missed in cell_columns(y_true):
            if len(scores):
                if not self._exact and among is None:
                    among = np.ones(len(scores))
                self._column(label).update_many(positive, scores, among)
            if missed:
                self._add_cell(label, missed)
        self._values[0] += len(y_true) if weight is None else total_weight(weight)

    def revert(self, y_true: Any, given: Any, weight: Weight = 1, y_pred: Any = None) -> None:
        """Remove one earlier event, exactly, or raise InputError and change nothing.

        That all its scores belong to one event is not recorded, and not checked.
        """
        whole = removable_weight(weight, self._exact)
        missed = [label for label in y_true if not given.get(label)]
        if min([self._values[0], *[self._cells.get(label, 0) for label in missed]]) < whole:
            raise never_counted("score", dict(given))
        done: list[tuple[Label, float]] = []
        try:
            for label, value in given.items():
                if value:
                    column = self._columns.get(label)
                    if column is None:
                        raise never_counted("score", {label: value})
                    column.revert(label in y_true, value, whole)
                    done.append((label, value))
        except InputError:
            for label, value in done:
                self._columns[label].update(label in y_true, value, whole)
            raise
        for label in missed:
            self._add_cell(label, -whole)
        self._values[0] -= whole
        self._prune([label for label, _ in done])

    def _prune(self, labels: Iterable[Label]) -> None:
        """Drop the columns that have no event any more."""
        for label in labels:
            if not self._held(self._columns[label]):
                del self._columns[label]

    # Other states and the written form

    def check_merge(self, other: Self) -> None:
        """Raise InputError for labels or weight of the other that :meth:`merge` refuses."""
        mine, theirs = (
            next(iter(one._columns), next(iter(one._cells), None)) for one in (self, other)
        )
        if mine is not None and theirs is not None:
            check_same_kind(mine, theirs, "y_true")
        if other._exact:
            self.check(other.labels, (), other._values[0])

    def merge(self, other: Self, times: int = 1) -> None:
        """Add the other's events so many times; −1 removes merged ones, both of whole weights."""
        self._check_merge(other)
        if times > 0:
            try:
                self.check_merge(other)
            except InputError as error:
                raise StateError(f"merge: {error}") from None
        super().merge(other, times)

    def _merge(self, other: Self, times: int) -> None:
        super()._merge(other, times)
        columns = list(other._columns.items())
        for label, column in columns:
            own = self._column(label)
            own.merge(column) if times == 1 else own.merge(column, times)
        if times < 0:
            self._prune(label for label, _ in columns)

    def _holding(self, other: LabelColumns, columns: dict[Label, Any]) -> Self:
        """This state, a new one, with the events of another, whose columns are these."""
        self._exact, self._columns = other._exact, columns
        self._values, self._cells = other._values[:], other._cells.copy()
        return self

    def copy(self) -> Self:
        """An independent state of the same events."""
        columns = {label: column.copy() for label, column in self._columns.items()}
        return self._empty()._holding(self, columns)

    def to_state(self) -> Form:
        """The written form, as plain data."""
        labels, none = self.labels, 0 if self._exact else 0.0
        columns = [self._columns.get(label) for label in labels]
        return {
            "exact": self._exact,
            "weight": self._values[0],
            "labels": labels,
            "missed": [self._cells.get(label, none) for label in labels],
            "columns": [None if each is None else each.to_state() for each in columns],
            **self._settings(),
        }

    def _read(self, fields: Fields) -> None:
        labels = fields.labels()
        most = self._most_total(labels) if fields.exact else MOST_WEIGHT
        self._values[0] = total = fields.weight("weight", most)
        missed = fields.weights("missed", len(labels))
        columns = fields["columns"]
        if type(columns) is not list or len(columns) != len(labels):
            fields.refuse("columns", f"a list of {len(labels)} states", columns)
        known = set(labels if self.declared is None else self.declared)
        for n, (label, weight, form) in enumerate(zip(labels, missed, columns, strict=True)):
            held = weight
            if label not in known:
                fields.refuse(f"labels[{n}]", "a declared label", label)
            if weight:
                self._cells[label] = weight
            if form is not None:
                try:
                    column = self._columns[label] = self._restored(form)
                except StateError as error:
                    raise StateError(f"{self.NAME}.columns[{n}]: {error}") from None
                held += self._held(column)
                if held == weight or (self._exact and not column.exact):
                    fields.refuse(f"columns[{n}]", "events of whole weights, as exact says", form)
            elif not weight:
                fields.refuse(f"labels[{n}]", "a label that occurs", label)
            if held > total * (1 if self._exact else 1 + RESIDUE):
                fields.refuse(f"columns[{n}]", f"a weight of at most {total}", held)

    @classmethod
    def scaled(cls, parts: Parts, unit: int) -> Form:
        """Written form of Σ factor · state / unit over written forms, of float weights."""
        labels = sorted({label for form, _ in parts for label in form["labels"]})
        found: dict[Label, list[tuple[Weight, Any, int]]] = {label: [] for label in labels}
        for form, factor in parts:
            each = zip(form["labels"], form["missed"], form["columns"], strict=True)
            for label, weight, column in each:
                found[label].append((weight, column, factor))
        columns = [[(c, factor) for _, c, factor in own if c is not None] for own in found.values()]
        return {
            **parts[0][0],
            "exact": False,
            "weight": total_over([(form["weight"], factor) for form, factor in parts], unit),
            "labels": labels,
            "missed": [
                total_over([(weight, factor) for weight, _, factor in own], unit)
                for own in found.values()
            ],
            "columns": [cls.SCALED(own, unit) if own else None for own in columns],
        }

    def _check(self) -> None:
        super()._check()
        assert math.isfinite(self.weight)
        for column in self._columns.values():
            column._check()
            assert self._held(column) > 0
            assert column.exact or not self._exact
        for label in self.labels:
            assert self.zeros(label)[1] >= 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of weight {self.weight}, {len(self.labels)} labels>"
