"""The base of states that are the weights of cells, each named by labels and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self

import numpy as np

from streameval.errors import InputError, StateError
from streameval.events.event import EventBatch
from streameval.events.label_rows import LabelRows
from streameval.events.values import IntArray, Label, Weight
from streameval.states.backend import compiled
from streameval.states.fields import Fields, cell_weights, never_counted, same_forms
from streameval.states.ranking.weights import WeightArray
from streameval.states.sums.fixed_point import total_weight_by_group
from streameval.states.sums.sum_vector import Field, Form, SumVector

_NATIVE = compiled("streameval.states.native.native_labels")

_TABLE = 1 << 14
"""Up to so many numbers, or 16 for each row, a table of them takes less time than sorting."""

WRITTEN = ("exact", "weight", "cells")
"""The keys of the written form beside the labels and the columns of the cells' names."""


class CellSums(SumVector):
    """The weight of all events, and of those in each cell; an event may be in many, or in none.

    A subclass says what the columns of a cell's name are, and which cells an event is in.
    """

    __slots__ = ("__weakref__", "_tally")
    VALIDATED = CELLS = True
    FIELD = "y_true"
    TALLY: ClassVar[str] = ""
    """The compiled class that counts events of whole weight."""
    COLUMNS: ClassVar[dict[str, bool]]
    """From the columns of a cell's name to whether they are labels, else numbers from 0."""
    MOST: ClassVar[int] = 0
    """The largest of these numbers; 0: any."""

    weight = Field[Weight]()

    @property
    def total(self) -> Weight:
        """Weight of all events."""
        return self.weight

    def __init_subclass__(cls) -> None:
        labels = {"labels"} if any(cls.COLUMNS.values()) else set()
        cls.KEYS = frozenset({*WRITTEN, *cls.COLUMNS, *labels})
        super().__init_subclass__()

    # What a subclass writes

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> Iterable[tuple[Any, ...]]:
        """The cells of an event."""
        raise NotImplementedError

    def _cells_of(
        self, batch: EventBatch, hits: LabelRows
    ) -> Iterable[tuple[tuple[Any, ...], Weight]]:
        """The weight of each cell of a batch, whose events have these labels predicted rightly."""
        raise NotImplementedError

    # Counting

    def _start(self, size: int) -> None:
        super()._start(size)
        self._tally: Any = None

    def tally(self) -> Any:
        """Counts events of whole weight in compiled code; None where that was not built."""
        if self._tally is None and _NATIVE is not None:
            self._tally = getattr(_NATIVE, self.TALLY)(self)
        return self._tally

    def _settle(self) -> None:
        counted = None if self._tally is None else self._tally.take()
        if counted is not None:
            weight, cells = counted
            self._values[0] += weight
            for cell, by in cells:
                self._add_cell(cell, by)

    def _held(self) -> dict[Any, Weight]:
        """The weight of each cell that occurs."""
        if self._tally is not None:
            self._settle()
        return self._cells

    def _forget(self) -> None:
        """Have compiled code know that the sums change otherwise."""
        if self._tally is not None:
            self._settle()
            self._tally.forget()

    def _promote(self) -> None:
        super()._promote()
        self._forget()

    def _merge(self, other: Self, times: int) -> None:
        self._forget()
        super()._merge(other, times)

    def _add(self, terms: Any, weight: Weight) -> None:
        if self._tally is not None:
            self._settle()
            self._tally.follow(terms, weight)
        self._values[0] += weight
        cells, zero = self._cells, 0 if self._exact else 0.0
        for cell in terms:
            cells[cell] = held = cells.get(cell, zero) + weight
            if not held:
                del cells[cell]

    def _add_many(self, y_true: EventBatch, given: LabelRows | None, weight: Any) -> None:
        self._forget()
        each = [len(y_true)] if weight is None else weight.tolist()
        hits = given
        if hits is None:
            hits = y_true.y_true.common(y_true.y_pred, len(y_true.labels))
        for cell, by in self._cells_of(y_true, hits):
            self._add_cell(cell, by if self._exact else float(by))
        for by in each:
            self._values[0] += by

    def _fault(self, terms: Any = None) -> str:
        sound = self._values[0] >= 0
        if terms is not None:
            sound = sound and all(self._cells.get(cell, 0) >= 0 for cell in terms)
        return "" if sound else self._no_events()

    def _never_counted(self, y_true: Any, given: Any, weight: int) -> InputError:
        return never_counted("event", (set(y_true), set(given)))

    # Written form

    def to_state(self) -> Form:
        """Plain data; equal content gives equal data."""
        cells = sorted(self._held().items())
        columns = dict(
            zip(self.COLUMNS, zip(*[key for key, _ in cells], strict=True), strict=False)
        )
        named = [column for name, column in columns.items() if self.COLUMNS[name]]
        labels: list[Label] = sorted(set().union(*named))
        code = {label: n for n, label in enumerate(labels)}
        form: Form = {"exact": self._exact, "weight": self._values[0]}
        if "labels" in self.KEYS:
            form["labels"] = labels
        for name, is_label in self.COLUMNS.items():
            column = columns.get(name, ())
            codes = [code[label] for label in column] if is_label else column
            form[name] = np.array(codes, dtype=np.int64)
        form["cells"] = cell_weights([weight for _, weight in cells], exact=self._exact)
        return form

    def _read(self, fields: Fields) -> None:
        self._values[0] = fields.weight("weight")
        labels = fields.labels() if "labels" in self.KEYS else []
        columns: list[list[Any]] = []
        for name, is_label in self.COLUMNS.items():
            if is_label:
                columns.append(
                    [labels[code] for code in fields.indices(name, len(labels)).tolist()]
                )
            else:
                column: IntArray = fields.array(name, np.int64)
                outside = (column < 0) | (column > (self.MOST or column))
                expected = f"a number from 0 to {self.MOST}" if self.MOST else "a number from 0"
                fields.refuse_at(outside, name, expected, column)
                columns.append(column.tolist())
        weights = fields.cells("cells")
        if any(len(column) != len(weights) for column in columns):
            fields.refuse("cells", f"{len(columns[0])} weights", len(weights))
        self._cells = dict(zip(zip(*columns, strict=True), weights, strict=True))
        form = self.to_state()
        if not same_forms({key: form[key] for key in fields}, fields):
            raise StateError(f"{self.NAME}: expected distinct cells that ascend")
        most, _ = self._about(self._values[0])
        if any(weight > most for weight in weights):
            raise StateError(self.NAME + self._no_events())


def weights_of_rows(
    columns: tuple[IntArray, ...], weight: WeightArray | None
) -> Iterator[tuple[tuple[int, ...], Weight]]:
    """The distinct rows of columns, with the weight of each; None: each event is 1."""
    if not len(columns[0]):
        return
    packed, size = np.zeros(len(columns[0]), np.int64), 1
    ranges = [(int(column.min()), int(column.max())) for column in columns]
    for column, (least, most) in zip(columns, ranges, strict=True):
        span = most - least + 1
        packed = packed * span + (column - least)
        size *= span
    if size >= 2**62:  # of huge ranges
        table, codes = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    else:
        if size <= max(16 * len(packed), _TABLE):
            distinct = np.flatnonzero(np.bincount(packed, minlength=size))
            codes = np.zeros(size, np.int64)
            codes[distinct] = np.arange(len(distinct))
            codes = codes[packed]
        else:
            distinct, codes = np.unique(packed, return_inverse=True)
        parts = []
        for least, most in reversed(ranges):
            parts.append(distinct % (most - least + 1) + least)
            distinct = distinct // (most - least + 1)
        table = np.column_stack(parts[::-1])
    totals = total_weight_by_group(codes.ravel(), len(table), weight)
    yield from zip(map(tuple, table.tolist()), totals, strict=True)
