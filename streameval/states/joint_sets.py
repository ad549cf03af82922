"""Sets of labels of several models on the same events: how many labels each has right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError, StateError
from streameval.events.event import EventBatch
from streameval.events.values import BoolArray, IntArray
from streameval.states.fields import (
    Fields,
    cell_weights,
    same_forms,
)
from streameval.states.joint import JointCells
from streameval.states.sums.cell_sums import weights_of_rows
from streameval.states.sums.sum_vector import Form
from streameval.tasks.comparison import MAX_MODELS


@dataclass(frozen=True, slots=True)
class SetColumns:
    """Cells of numbers of labels, column by column."""

    true: IntArray
    hits: IntArray
    """Of shape (n, models), as ``predicted``."""
    predicted: IntArray
    weight: npt.NDArray[Any]

    def right(self, model: int) -> BoolArray:
        """Whether a model predicted the true labels and no others."""
        hits, predicted = self.hits[:, model], self.predicted[:, model]
        right: BoolArray = (hits == self.true) & (hits == predicted)
        return right


class JointSets(JointCells):
    """Weight of the events of each number of true labels, and of each model's right and predicted.

    The difference of two models in any ratio of an event's numbers follows, and its variance.

    >>> sets = JointSets()
    >>> sets.update(2, (), 1, (1, 1, 2, 3))
    >>> sets.columns().hits.tolist(), sets.columns().predicted.tolist()
    ([[1, 2]], [[1, 3]])
    """

    __slots__ = ()
    NAME = "joint_sets"
    WHAT = "sets"
    KEYS = frozenset({"exact", "models", "sizes", "cells"})

    def _table(self) -> tuple[IntArray, Any]:
        """A row for each cell, ascending, and the weights as they are written."""
        cells = sorted(self._cells.items())
        table = np.array([key for key, _ in cells], dtype=np.int64)
        weight = cell_weights([weight for _, weight in cells], exact=self._exact)
        return table.reshape(len(cells), 1 + 2 * self.models), weight

    def columns(self) -> SetColumns:
        """The cells, ascending."""
        table, weight = self._table()
        if type(weight) is list:
            weight = np.array(weight, dtype=object)
        return SetColumns(table[:, 0], table[:, 1::2], table[:, 2::2], weight)

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> tuple[int, ...]:
        self._check_models(len(y_pred) // 2)
        return (y_true, *y_pred)

    def _add_many(self, y_true: EventBatch, given: Any, weight: Any) -> None:
        batch = y_true
        self._check_models(batch.y_pred.shape[1] // 2)
        columns = (batch.y_true, *batch.y_pred.T)
        for key, by in weights_of_rows(columns, weight):
            self._add_cell(key, by if self._exact else float(by))

    def _merge(self, other: JointSets, times: int) -> None:
        self._size = other.models or self._size
        super()._merge(other, times)

    def _never_counted(self, y_true: Any, given: Any, weight: int) -> InputError:
        return InputError(
            "revert",
            expected="an event that was counted before",
            got="one with as many labels true, predicted and right as none that is left",
            remedy="revert takes the event with the very values that update was given",
        )

    def to_state(self) -> Form:
        """Plain data; equal content gives equal data."""
        table, weight = self._table()
        form = {"exact": self._exact, "models": self.models}
        return {**form, "sizes": table.ravel(), "cells": weight}

    def _read(self, fields: Fields) -> None:
        models = fields.integer("models", 0, MAX_MODELS)
        sizes = fields.array("sizes", np.int64)
        weights = fields.cells("cells")
        n = len(weights)
        if bool(n) != bool(models) or models == 1:
            fields.refuse("models", "a number of models where there are events", models)
        if len(sizes) != n * (1 + 2 * models):
            fields.refuse("sizes", f"{n * (1 + 2 * models)} values", len(sizes))
        table = sizes.reshape(n, 1 + 2 * models)
        true, hits, predicted = table[:, :1], table[:, 1::2], table[:, 2::2]
        if not ((hits >= 0) & (hits <= np.minimum(true, predicted))).all():
            fields.refuse("sizes", "no more labels right than true or predicted", "others")
        self._size = models
        self._cells = dict(zip(map(tuple, table.tolist()), weights, strict=True))
        if not same_forms(self.to_state(), fields):
            raise StateError("joint_sets: expected distinct cells that ascend")
