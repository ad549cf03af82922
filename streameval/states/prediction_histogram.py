"""The events of a regression by true and predicted number, in cells of bounded number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np

from streameval.errors import StateError
from streameval.events.values import FloatArray, IntArray, Weight
from streameval.states.fields import Fields, cell_weights, same_forms
from streameval.states.ranking.weights import WeightArray
from streameval.states.sums.cell_sums import weights_of_rows
from streameval.states.sums.fixed_point import chunks, total_weight_by_group
from streameval.states.sums.sum_vector import Field, Form, SumVector

LEAST_LEVEL, MOST_LEVEL = -1074, 1023
"""Each float is a cell of its own; there are 16 cells."""

LARGEST = float(np.finfo(np.float64).max)
"""Its negative stands for −2**1024, the edge of a cell that no float is."""

_NEAR, _SMALLEST = 2.0**20, 2.0**-1022
"""Up to so many cells from 0, whose side has an inverse, cells are known by small integers."""


def cell_edge(number: float, side: float) -> float:
    """The largest multiple of a power of two that does not exceed a number."""
    cells = number // side
    if math.isinf(cells):  # the floats of this size are all multiples
        return number
    return max(cells * side, -LARGEST) + 0.0


def cell_edges(numbers: FloatArray, side: float) -> FloatArray:
    """:func:`cell_edge` of a column."""
    with np.errstate(over="ignore", invalid="ignore"):
        cells = np.floor_divide(numbers, side)
        edges: FloatArray = np.maximum(cells * side, -LARGEST) + 0.0
    return np.where(np.isfinite(cells), edges, numbers)


def _pairs(true: FloatArray, predicted: FloatArray) -> Any:
    """Two columns as one that sorts by the first and then by the second."""
    return np.column_stack((true, predicted)).view(np.complex128).ravel()


def _weighted_cells(
    true: FloatArray, predicted: FloatArray, side: float, weight: WeightArray | None
) -> Iterator[tuple[tuple[float, float], Weight]]:
    """The cells of a batch, with the weight of each."""
    largest = max(float(np.abs(column).max()) for column in (true, predicted))
    if largest / side < _NEAR and side > _SMALLEST:
        # A table of small integers takes a tenth of the time of dividing and sorting.
        one, other = (_steps(column, side) for column in (true, predicted))
        for (first, second), total in weights_of_rows((one, other), weight):
            yield (max(first * side, -LARGEST), max(second * side, -LARGEST)), total
        return
    edges = cell_edges(true, side), cell_edges(predicted, side)
    cells, codes = np.unique(_pairs(*edges), return_inverse=True)
    totals = total_weight_by_group(codes, len(cells), weight)
    yield from zip(zip(cells.real.tolist(), cells.imag.tolist()), totals)  # noqa: B905


def _steps(numbers: FloatArray, side: float) -> IntArray:
    """How many sides from 0 the cell of each number begins."""
    with np.errstate(over="ignore", under="ignore"):
        steps = np.floor(numbers * (1.0 / side))
        # A quotient that is too small for a float has lost its sign.
        steps -= steps * side > numbers
    return steps.astype(np.int64)


class PredictionHistogram(SumVector):
    """The weight of the events in each square of a grid over true and predicted numbers.

    The squares touch the origin. Their side is the least power of two with which at most
    :attr:`MOST` of them have events: it follows from the events, whatever their order, and is
    kept where events are removed.

    Cost:
        O(1) an event, beside the few that double the side; memory O(:attr:`MOST`).

    >>> histogram = PredictionHistogram()
    >>> histogram.update(3.0, 2.5)
    >>> histogram.side, histogram.cells()
    (5e-324, (array([3.]), array([2.5]), array([1])))
    """

    __slots__ = ("side",)
    NAME = "prediction_histogram"
    FIELD = "y_pred"
    VALIDATED = CELLS = True
    KEYS = frozenset({"exact", "weight", "level", "true", "predicted", "cells"})
    MOST: ClassVar[int] = 500
    """Also the most points of a curve that a service publishes: it thins those, never cells."""

    weight = Field[Weight]()

    def _start(self, size: int) -> None:
        super()._start(size)
        self.side = math.ldexp(1.0, LEAST_LEVEL)

    def cells(self) -> tuple[FloatArray, FloatArray, Any]:
        """The lower edges of each cell that has events, ascending, and their weight."""
        cells = sorted(self._cells.items())
        edges = np.array([cell for cell, _ in cells], dtype=np.float64).reshape(-1, 2)
        weights = cell_weights([weight for _, weight in cells], exact=self._exact)
        return edges[:, 0].copy(), edges[:, 1].copy(), weights

    # Counting

    def update(self, y_true: Any, given: Any, weight: Weight = 1, y_pred: Any = None) -> None:
        """Count one validated event."""
        # A third of the time of the base class's, for the many that are in a known cell.
        side, cells = self.side, self._cells
        cell = y_true // side * side, given // side * side
        if type(weight) is int and self._exact and cell in cells:
            self._values[0] += weight
            cells[cell] += weight
        else:
            super().update(y_true, given, weight)

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> tuple[float, float]:
        return cell_edge(y_true, self.side), cell_edge(given, self.side)

    def _add(self, terms: Any, weight: Weight) -> None:
        self._values[0] += weight
        self._add_cell(terms, weight)
        # A removal that is refused is undone: until then there may be a cell more.
        if weight > 0:
            self._fit()

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        for part in chunks(len(y_true)):
            true, predicted = y_true[part], given[part]
            if self.side == math.ldexp(1.0, LEAST_LEVEL):
                self._widen(self._fitting(true, predicted))
            by = None if weight is None else weight[part]
            for cell, total in _weighted_cells(true, predicted, self.side, by):
                self._values[0] += total
                self._add_cell(cell, total)
            self._fit()

    def _edges(self) -> tuple[FloatArray, FloatArray]:
        edges = np.array(list(self._cells), dtype=np.float64).reshape(-1, 2)
        return edges[:, 0], edges[:, 1]

    def _fit(self) -> None:
        """Double the side until there are few enough cells."""
        if len(self._cells) > self.MOST:
            self._widen(self._fitting(*self._edges()))

    def _fitting(self, true: FloatArray, predicted: FloatArray) -> float:
        """The least side, from the present one on, with which these are in few enough cells."""
        if len(true) <= self.MOST:
            return self.side
        low, high = math.frexp(self.side)[1] - 1, MOST_LEVEL
        while low < high:
            level = (low + high) // 2
            side = math.ldexp(1.0, level)
            cells = _pairs(cell_edges(true, side), cell_edges(predicted, side))
            if len(np.unique(cells)) <= self.MOST:
                high = level
            else:
                low = level + 1
        return math.ldexp(1.0, low)

    def _widen(self, side: float) -> None:
        """Join the cells that one of this side contains."""
        if side == self.side:
            return
        true, predicted = (cell_edges(column, side).tolist() for column in self._edges())
        weights, self._cells, self.side = self._cells.values(), {}, side
        for cell, weight in zip(zip(true, predicted, strict=True), weights, strict=True):
            self._add_cell(cell, weight)

    def _merge(self, other: Self, times: int) -> None:
        if other.side < self.side:
            other = other.copy()
            other._widen(self.side)
        self._widen(other.side)
        super()._merge(other, times)
        if times > 0:
            self._fit()

    def _fault(self, terms: Any = None) -> str:
        sound = self._values[0] >= 0 and (terms is None or self._cells.get(terms, 0) >= 0)
        return "" if sound else self._no_events()

    def copy(self) -> Self:
        """An independent state of the same events."""
        new = super().copy()
        new.side = self.side
        return new

    # Written form

    def to_state(self) -> Form:
        """Plain data; equal content gives equal data."""
        true, predicted, cells = self.cells()
        return {
            "exact": self._exact,
            "weight": self._values[0],
            "level": math.frexp(self.side)[1] - 1,
            "true": true,
            "predicted": predicted,
            "cells": cells,
        }

    def _read(self, fields: Fields) -> None:
        self.side = math.ldexp(1.0, fields.integer("level", LEAST_LEVEL, MOST_LEVEL))
        self._values[0] = fields.weight("weight")
        edges = [fields.array(name, np.float64) for name in ("true", "predicted")]
        for name, column in zip(("true", "predicted"), edges, strict=True):
            fields.refuse_at(~np.isfinite(column), name, "a finite number", column)
            expected = f"a multiple of {self.side!r}"
            fields.refuse_at(cell_edges(column, self.side) != column, name, expected, column)
        weights = fields.cells("cells", len(edges[0]))
        if len(weights) > self.MOST or len(edges[1]) != len(weights):
            fields.refuse("cells", f"a weight of each of at most {self.MOST} cells", len(weights))
        pairs = zip(*((column + 0.0).tolist() for column in edges), strict=True)
        self._cells = dict(zip(pairs, weights, strict=True))
        if not same_forms(self.to_state(), fields):
            raise StateError(f"{self.NAME}: expected distinct cells that ascend")
        most, least = self._about(self._values[0])
        if not least <= sum(weights) <= most:
            raise StateError(self.NAME + self._no_events())
