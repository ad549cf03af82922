"""Scores of events that have sets of labels: a binary state for each label, implied zeros."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self

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
from streameval.states.fields import (
    MOST_WEIGHT,
    Fields,
    check_mergeable,
    never_counted,
    removable_weight,
    same_forms,
)
from streameval.states.ranking.weights import MAX_TOTAL, WeightArray
from streameval.states.sums.fixed_point import total_weight
from streameval.states.sums.sum_vector import Form, Parts, total_over

RESIDUE = 1e-9
"""Of float weights, zeros of less than this share of all are the rounding of a difference."""

_ANY_TOTAL = MAX_TOTAL // MAX_CLASSES
"""Whole weight of all events of which the pairs of all labels pooled fit an int64, however many."""


class CellColumn(NamedTuple):
    """The scores but 0 of one label in a batch."""

    label: Label
    positive: BoolArray
    scores: FloatArray
    weight: WeightArray | None
    missed: Weight
    """The weight of the events that have the label, and a score of 0."""


def cell_columns(batch: EventBatch) -> Iterator[CellColumn]:
    """Each label that an event of a batch has, or scores other than 0."""
    labels, weight, length = batch.labels, batch.weight, len(batch)
    true = _by_code(batch.y_true, len(labels))
    if isinstance(batch.score, LabelRows):
        values: Any = batch.score.values
        scored = _by_code(batch.score, len(labels), values != 0.0)
        columns: Iterable[tuple[Label, Any, FloatArray]] = (
            (labels[code], rows, values[cells]) for code, (rows, cells) in scored.items()
        )
    else:
        columns = (
            (label, None, np.ascontiguousarray(batch.score[:, at]))
            for at, label in enumerate(batch.score_labels)
        )
    codes = {label: code for code, label in enumerate(labels) if code in true}
    nothing: IntArray = np.zeros(0, np.int64)
    flags = np.zeros(length, np.bool_)
    for label, rows, scores in columns:
        own = true[codes.pop(label)][0] if label in codes else nothing
        flags[own] = True
        if rows is None and not scores.all():
            rows = np.flatnonzero(scores)
            scores = scores[rows]
        if rows is None:
            yield CellColumn(label, flags.copy(), scores, weight, _weight_of(weight, nothing))
        else:
            positive = flags[rows]
            flags[rows] = False
            among = None if weight is None else weight[rows]
            missed = _weight_of(weight, own[flags[own]])
            if len(rows) or len(own):
                yield CellColumn(label, positive, scores, among, missed)
        flags[own] = False
    for label, code in codes.items():
        own = true[code][0]
        yield CellColumn(label, flags[:0], np.zeros(0), None, _weight_of(weight, own))


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


class LabelColumns:
    """For each label a state of binary events: its scores, positive where an event has the label.

    A score of 0 is not kept: how many of them a label has follows from the weight of all events,
    so that a label that an event neither has nor scores costs nothing. A subclass says what a
    column is (:meth:`_new`, :meth:`_held`).

    Args:
        declared: The closed list of labels; None where they are discovered: a label then
            belongs to the state while some event has it or gives it a score but 0.
    """

    __slots__ = ("_columns", "_exact", "_missed", "_total", "declared")

    NAME: ClassVar[str]
    SETTINGS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, declared: tuple[Label, ...] | None = None) -> None:
        self.declared = declared
        self._exact = True
        self._total: Weight = 0
        self._columns: dict[Label, Any] = {}
        # The weight of the events that have a label, and gave it 0.
        self._missed: dict[Label, Weight] = {}

    # What a subclass writes

    def _new(self) -> Any:
        """A column without events."""
        raise NotImplementedError

    def _held(self, column: Any) -> Weight:
        """The weight of a column's events."""
        raise NotImplementedError

    def _empty(self) -> Self:
        """A state without events, of the same settings."""
        return type(self)(self.declared)

    def _restored(self, form: object) -> Any:
        """The column that was written; raises StateError."""
        raise NotImplementedError

    @classmethod
    def _scaled_column(cls, parts: Parts, unit: int) -> Form:
        raise NotImplementedError

    # Reading

    @property
    def exact(self) -> bool:
        """False from the first weight that is not whole."""
        return self._exact

    @property
    def weight(self) -> Weight:
        """The weight of all events."""
        return self._total

    @property
    def labels(self) -> list[Label]:
        """Labels that some event has, or gives a score but 0, ascending. A new list."""
        return sorted({*self._columns, *self._missed})

    @property
    def classes(self) -> list[Label]:
        """The declared labels in their order, or all that occur, ascending."""
        return self.labels if self.declared is None else list(self.declared)

    def column(self, label: Label) -> Any:
        """The state of a label's scores but 0; None where it has none."""
        return self._columns.get(label)

    def zeros(self, label: Label) -> tuple[Weight, Weight]:
        """The weight of the scores of 0 of a label: of events that have it, and of others."""
        missed = self._missed.get(label, 0)
        column = self._columns.get(label)
        rest = self._total - missed - (0 if column is None else self._held(column))
        if not self._exact and rest <= RESIDUE * self._total:
            rest = 0.0
        return missed, rest

    # Counting

    def check(
        self, y_true: frozenset[Label], score: Any, weight: Weight = 1, y_pred: Any = None
    ) -> None:
        """Raise InputError for too much weight."""
        self._check_room(weight, (*y_true, *score))

    def check_many(self, batch: EventBatch) -> None:
        """:meth:`check` of all events of a batch together."""
        weight = batch.weight
        self._check_room(len(batch) if weight is None else total_weight(weight), batch.labels)

    def _check_room(self, weight: Weight, labels: Iterable[Label]) -> None:
        """Raise InputError where the pairs of all labels would weigh too much."""
        if not self._exact or self._total + weight <= _ANY_TOTAL:
            return
        most = self._most_total(labels)
        if self._total + weight > most:
            raise InputError(
                "weight",
                expected=f"weights that add up to at most {most}",
                got=f"{weight} beside {self._total} counted before",
                remedy="scale the weights down",
            )

    def _most_total(self, labels: Iterable[Label]) -> int:
        """The most whole weight of events of these labels too."""
        known = self.declared or {*self._columns, *self._missed, *labels}
        return MAX_TOTAL // max(1, len(known))

    def update(
        self,
        y_true: frozenset[Label],
        score: Mapping[Label, float],
        weight: Weight = 1,
        y_pred: Any = None,
    ) -> None:
        """Count one validated event; ``y_pred`` is not used."""
        self._check_room(weight, (*y_true, *score))
        if type(weight) is float:
            self._promote()
        elif not self._exact:
            weight = float(weight)
        columns = self._columns
        for label, value in score.items():
            if value:
                column = columns.get(label)
                if column is None:
                    column = columns[label] = self._new()
                column.update(label in y_true, value, weight)
        for label in y_true:
            if not score.get(label):
                self._missed[label] = self._missed.get(label, 0) + weight
        self._total += weight

    def update_many(self, batch: EventBatch) -> None:
        """Count a validated batch, to the same bits as its events one by one."""
        if not len(batch) or batch.score is None:
            return
        self.check_many(batch)
        weight = batch.weight
        if weight is not None and weight.dtype.kind == "f":
            self._promote()
        for label, positive, scores, among, missed in cell_columns(batch):
            if len(scores):
                column = self._columns.get(label)
                if column is None:
                    column = self._columns[label] = self._new()
                if not self._exact and among is None:
                    among = np.ones(len(scores))
                column.update_many(positive, scores, among)
            if missed:
                more = missed if self._exact else float(missed)
                self._missed[label] = self._missed.get(label, 0) + more
        total = len(batch) if weight is None else total_weight(weight)
        self._total += total if self._exact else float(total)

    def revert(
        self,
        y_true: frozenset[Label],
        score: Mapping[Label, float],
        weight: Weight = 1,
        y_pred: Any = None,
    ) -> None:
        """Remove one earlier event, exactly, or raise InputError and change nothing.

        That all its scores belong to one event is not recorded, and not checked.
        """
        whole = removable_weight(weight, self._exact)
        missed = [label for label in y_true if not score.get(label)]
        known = all(self._missed.get(label, 0) >= whole for label in missed)
        if not known or self._total < whole:
            raise never_counted("score", dict(score))
        done: list[tuple[Label, float]] = []
        try:
            for label, value in score.items():
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
            self._missed[label] -= whole
        self._total -= whole
        self._prune([label for label, _ in done], missed)

    def _prune(self, scored: Iterable[Label], missed: Iterable[Label]) -> None:
        """Drop what has no event any more."""
        for label in scored:
            column = self._columns.get(label)
            if column is not None and not self._held(column):
                del self._columns[label]
        for label in missed:
            if not self._missed.get(label, 1):
                del self._missed[label]

    def _promote(self) -> None:
        """Make all weights floats, for good; a column's own with its next event."""
        if self._exact:
            self._exact = False
            self._total = float(self._total)
            self._missed = {label: float(weight) for label, weight in self._missed.items()}

    # Other states and the written form

    def check_merge(self, other: Self) -> None:
        """Raise InputError for labels or weight of the other that :meth:`merge` refuses."""
        mine, theirs = self._some_label(), other._some_label()
        if mine is not None and theirs is not None:
            check_same_kind(mine, theirs, "y_true")
        if other._exact:
            self._check_room(other._total, other.labels)

    def _some_label(self) -> Label | None:
        return next(iter(self._columns), next(iter(self._missed), None))

    def merge(self, other: Self, times: int = 1) -> None:
        """Add the other's events so many times; −1 removes merged ones, both of whole weights."""
        check_mergeable(self, other, *self.SETTINGS)
        if times > 0:
            try:
                self.check_merge(other)
            except InputError as error:
                raise StateError(f"merge: {error}") from None
        if not other._exact:
            self._promote()
        for label, column in list(other._columns.items()):
            own = self._columns.get(label)
            if own is None:
                own = self._columns[label] = self._new()
            own.merge(column) if times == 1 else own.merge(column, times)
        for label, weight in list(other._missed.items()):
            self._missed[label] = self._missed.get(label, 0) + times * weight
        self._total += times * other._total
        if not self._exact:
            self._total = float(self._total)
            self._missed = {label: float(weight) for label, weight in self._missed.items()}
        if times < 0:
            self._prune(list(other._columns), list(other._missed))

    def copy(self) -> Self:
        """An independent state of the same events."""
        new = self._empty()
        new._exact, new._total = self._exact, self._total
        new._columns = {label: column.copy() for label, column in self._columns.items()}
        new._missed = self._missed.copy()
        return new

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).from_state, (self.to_state(), self.declared)

    def to_state(self) -> Form:
        """The written form, as plain data."""
        labels, none = self.labels, 0 if self._exact else 0.0
        columns = [self._columns.get(label) for label in labels]
        return {
            "exact": self._exact,
            "weight": self._total,
            "labels": labels,
            "missed": [self._missed.get(label, none) for label in labels],
            "columns": [None if each is None else each.to_state() for each in columns],
            **{setting: getattr(self, setting) for setting in self.SETTINGS},
        }

    @classmethod
    def from_state(cls, data: object, declared: tuple[Label, ...] | None = None) -> Self:
        """The state that :meth:`to_state` wrote; raises StateError."""
        keys = {"exact", "weight", "labels", "missed", "columns", *cls.SETTINGS}
        fields = Fields(data, cls.NAME, keys)
        new = cls._of_settings(fields, declared)
        new._exact = fields.exact
        labels = fields.labels()
        most = new._most_total(labels) if fields.exact else MOST_WEIGHT
        new._total = fields.weight("weight", most)
        missed = fields.weights("missed", len(labels))
        columns = fields["columns"]
        if type(columns) is not list or len(columns) != len(labels):
            fields.refuse("columns", f"a list of {len(labels)} states", columns)
        known = set(labels if declared is None else declared)
        for n, (label, weight, form) in enumerate(zip(labels, missed, columns, strict=True)):
            if label not in known:
                fields.refuse(f"labels[{n}]", "a declared label", label)
            if weight:
                new._missed[label] = weight
            if form is not None:
                try:
                    column = new._columns[label] = new._restored(form)
                except StateError as error:
                    raise StateError(f"{cls.NAME}.columns[{n}]: {error}") from None
                if not new._held(column) or (new._exact and not column.exact):
                    fields.refuse(f"columns[{n}]", "events of whole weights, as exact says", form)
            elif not weight:
                fields.refuse(f"labels[{n}]", "a label that occurs", label)
            held = weight + (new._held(new._columns[label]) if form is not None else 0)
            if held > new._total * (1 if new._exact else 1 + RESIDUE):
                fields.refuse(f"columns[{n}]", f"a weight of at most {new._total}", held)
        return new

    @classmethod
    def _of_settings(cls, fields: Fields, declared: tuple[Label, ...] | None) -> Self:
        """A state without events, of the settings that were written."""
        return cls(declared)

    @classmethod
    def scaled(cls, parts: Parts, unit: int) -> Form:
        """Written form of Σ factor · state / unit over written forms, of float weights."""
        labels = sorted({label for form, _ in parts for label in form["labels"]})
        missed: dict[Label, list[tuple[Weight, int]]] = {label: [] for label in labels}
        columns: dict[Label, list[tuple[Form, int]]] = {label: [] for label in labels}
        for form, factor in parts:
            each = zip(form["labels"], form["missed"], form["columns"], strict=True)
            for label, weight, column in each:
                missed[label].append((weight, factor))
                if column is not None:
                    columns[label].append((column, factor))
        return {
            **parts[0][0],
            "exact": False,
            "weight": total_over([(form["weight"], factor) for form, factor in parts], unit),
            "labels": labels,
            "missed": [total_over(missed[label], unit) for label in labels],
            "columns": [
                cls._scaled_column(columns[label], unit) if columns[label] else None
                for label in labels
            ],
        }

    def _check(self) -> None:
        kind = int if self._exact else float
        assert type(self._total) is kind
        assert all(type(each) is kind and each > 0 for each in self._missed.values())
        assert math.isfinite(self._total)
        for column in self._columns.values():
            column._check()
            assert self._held(column) > 0
            assert column.exact or not self._exact
        for label in self.labels:
            assert self.zeros(label)[1] >= 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        mine, theirs = self.to_state(), other.to_state()
        columns = mine.pop("columns"), theirs.pop("columns")
        return (
            mine == theirs
            and len(columns[0]) == len(columns[1])
            and all(
                one == two if one is None or two is None else same_forms(one, two)
                for one, two in zip(*columns, strict=True)
            )
        )

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of weight {self._total}, {len(self.labels)} labels>"
