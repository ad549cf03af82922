"""The weight of each joint cell of several models' predictions of the same events."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError, StateError
from streameval.events.event import EventBatch
from streameval.events.values import BoolArray, FloatArray, IntArray, Label, Weight
from streameval.states.fields import (
    Fields,
    cell_weights,
    check_mergeable,
    never_counted,
    same_forms,
)
from streameval.states.sums.sum_vector import Form, SumVector
from streameval.tasks.comparison import MAX_MODELS

_KEYS = frozenset({"exact", "models", "labels", "true", "predicted", "scored", "scores", "weight"})


@dataclass(frozen=True, slots=True)
class JointColumns:
    """Joint cells, column by column; the labels that occur ascend, and codes are their places."""

    labels: list[Label]
    true: IntArray
    predicted: IntArray
    """Of shape (n, models)."""
    scored: BoolArray
    scores: FloatArray
    """Of shape (n, models); 0 where they are not known."""
    weight: npt.NDArray[Any]
    """Above 0: int64, float64, or Python ints where one passes int64."""

    @property
    def models(self) -> int:
        """Number of models; 0 without a row."""
        return int(self.predicted.shape[1])

    def right(self, model: int) -> BoolArray:
        """Whether a model predicted the true label."""
        right: BoolArray = self.predicted[:, model] == self.true
        return right

    def take(self, rows: npt.NDArray[Any]) -> JointColumns:
        """These rows, in this order, under the same labels."""
        columns = (self.true, self.predicted, self.scored, self.scores, self.weight)
        return JointColumns(self.labels, *[column[rows] for column in columns])


@cache
def _packer(models: int, scores: int) -> struct.Struct:
    return struct.Struct(f"<{models + 1}i{scores}d")


class JointCells(SumVector):
    """The base of weights of cells, each named by what several models predicted of an event."""

    __slots__ = ()
    VALIDATED = CELLS = True
    WHAT: ClassVar[str]
    """What each model predicts."""

    @property
    def models(self) -> int:
        """Number of models; 0 without an event."""
        return self._size if self._cells else 0

    @property
    def total(self) -> Weight:
        """Weight of all events; O(cells)."""
        return sum(self._cells.values())

    weight = total

    def _check_models(self, models: int) -> None:
        if not self._cells:
            self._size = models
        elif models != self._size:
            expected = f"{self.WHAT} of {self._size} models"
            raise InputError("y_pred", expected=expected, got=str(models))

    def _add(self, terms: Any, weight: Weight) -> None:
        self._add_cell(terms, weight)

    def _fault(self, terms: Any = None) -> str:
        return "" if terms is None or self._cells.get(terms, 0) >= 0 else ": below 0"

    def _never_counted(self, y_true: Any, given: Any, weight: int) -> InputError:
        return never_counted("y_true", y_true)

    def _check_merge(self, other: Any) -> None:
        check_mergeable(self, other)
        if self._cells and other.models not in (0, self._size):
            what = "joint counts" if self.NAME == "joint" else self.WHAT
            raise StateError(f"merge: expected {what} of {self._size} models, got {other.models}")

    def copy(self) -> Self:
        """An independent state of the same events."""
        new = super().copy()
        new._size = self._size
        return new


class JointCounts(JointCells):
    """Weight of each joint cell: the true label, every model's label and every model's score.

    Events without scores are cells of labels only, of which there are few. With scores
    nearly every event is a cell of its own: 115 bytes of two models, 12 of each further one.
    """

    # The cells of the base are by packed codes of 32 bits, then float64 scores: a tuple of tuples
    # takes twice as much memory.
    __slots__ = ("_codes",)
    NAME = "joint"
    WHAT = "labels"
    KEYS = _KEYS

    def __init__(self) -> None:
        super().__init__()
        self._codes: dict[Label, int] = {}

    # Counting

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> bytes:
        # The two losses of each model that may follow the scores are not of this state.
        self._check_models(len(y_pred))
        codes = self._codes
        indices = [codes.setdefault(label, len(codes)) for label in (y_true, *y_pred)]
        own = _number_of_scores(len(given), len(y_pred))
        return _packer(len(y_pred), own).pack(*indices, *given[:own])

    def _add_many(self, y_true: EventBatch, given: Any, weight: Any) -> None:
        batch = y_true
        assert batch.y_pred is not None
        assert batch.score is not None
        if len(batch):
            models = batch.y_pred.shape[1]
            self._check_models(models)
            own = _number_of_scores(batch.score.shape[1], models)
            codes = np.column_stack([batch.y_true, batch.y_pred])
            each = [1] * len(batch) if weight is None else weight.tolist()
            self._add_rows(batch.labels or (), codes, batch.score[:, :own], each)

    def _add_rows(
        self, labels: Sequence[Label], codes: IntArray, scores: FloatArray, weights: list[Weight]
    ) -> None:
        """Add rows of the true and each model's label, which all have scores, or none of them."""
        own = self._codes
        mapped = np.zeros(len(labels), dtype=np.int64)
        for code in np.unique(codes).tolist():
            mapped[code] = own.setdefault(labels[code], len(own))
        self._size = codes.shape[1] - 1
        if not self._exact:
            weights = list(map(float, weights))
        cells = self._cells
        for key, weight in zip(_packed(mapped[codes], scores), weights, strict=True):
            cells[key] = cells.get(key, 0) + weight

    def _merge(self, other: JointCounts, times: int) -> None:
        names = list(other._codes)
        for codes, scores, weights in list(other._parts()):
            if len(codes):
                self._add_rows(names, codes, scores, [weight * times for weight in weights])
        if times < 0:
            self._cells = {key: weight for key, weight in self._cells.items() if weight}

    # Reading

    def _parts(self) -> Iterator[tuple[IntArray, FloatArray, list[Weight]]]:
        """Codes, scores and weights of the cells without scores, then of those with scores."""
        models = self.models
        for width in (0, models):
            size = _packer(models, width).size
            keys = [key for key in self._cells if len(key) == size]
            dtype = np.dtype([("codes", "<i4", (models + 1,)), ("scores", "<f8", (width,))])
            table = np.frombuffer(b"".join(keys), dtype, len(keys))
            codes = table["codes"].reshape(len(keys), models + 1).astype(np.int64)
            scores = table["scores"].reshape(len(keys), width)
            yield codes, scores, [self._cells[key] for key in keys]

    def columns(self) -> JointColumns:
        """The cells, ascending by true label, labels, then scores: the same for equal content."""
        (short, _, weights), (long, values, more) = self._parts()
        indices = np.concatenate([short, long])
        names = list(self._codes)
        labels = sorted(names[code] for code in np.unique(indices).tolist())
        rank = {label: n for n, label in enumerate(labels)}
        indices = np.array([rank.get(label, 0) for label in names], dtype=np.int64)[indices]
        weight = cell_weights(weights + more, exact=self._exact)
        cells = JointColumns(
            labels,
            indices[:, 0].copy(),
            indices[:, 1:].copy(),
            np.repeat([False, True], [len(short), len(long)]),
            np.concatenate([np.zeros((len(short), self.models)), values]),
            np.array(weight, dtype=object) if type(weight) is list else weight,
        )
        # The last key of lexsort is the first to sort by.
        order = np.lexsort((*cells.scores.T[::-1], cells.scored, *indices.T[::-1]))
        return cells.take(order)

    def copy(self) -> JointCounts:
        """An independent state of the same events."""
        new = super().copy()
        new._codes = self._codes.copy()
        return new

    # Written form

    def to_state(self) -> Form:
        """Plain data; equal content gives equal data."""
        cells = self.columns()
        return {
            "exact": self._exact,
            "models": cells.models,
            "labels": cells.labels,
            "true": cells.true,
            "predicted": cells.predicted.ravel(),
            "scored": cells.scored,
            "scores": cells.scores[cells.scored].ravel(),
            "weight": cells.weight.tolist() if cells.weight.dtype == object else cells.weight,
        }

    def _read(self, fields: Fields) -> None:
        models = fields.integer("models", 0, MAX_MODELS)
        labels = fields.labels()
        true = fields.array("true", np.int64)
        predicted = fields.array("predicted", np.int64)
        scored, n = fields["scored"], len(true)
        if not isinstance(scored, np.ndarray) or scored.dtype != bool or scored.shape != (n,):
            fields.refuse("scored", f"{n} bools", scored)
        values = fields.array("scores", np.float64)
        if len(predicted) != n * models:
            fields.refuse("predicted", f"{n * models} values", len(predicted))
        known = int(scored.sum())
        if len(values) != known * models:
            fields.refuse("scores", f"{known * models} values", len(values))
        if not np.isfinite(values).all() or (np.signbit(values) & (values == 0)).any():
            fields.refuse("scores", "finite numbers without -0.0", "others")
        codes = np.column_stack([true, predicted.reshape(n, models)])
        occurring = np.unique(codes)
        if not np.array_equal(occurring, np.arange(len(labels))):
            expected = f"indices into {len(labels)} labels, each at least once"
            fields.refuse("true", expected, occurring)
        if bool(n) != bool(models):
            fields.refuse("models", "a number of models where there are events", models)
        weight = fields.cells("weight", n)
        for has, width in ((False, 0), (True, models)):
            rows = np.flatnonzero(scored == has)
            if len(rows):
                scores = values[: len(rows) * width].reshape(len(rows), width)
                self._add_rows(labels, codes[rows], scores, [weight[row] for row in rows.tolist()])
        if not same_forms(self.to_state(), fields):
            raise StateError("joint: expected distinct cells that ascend")

    def _check(self) -> None:
        super()._check()
        sizes = {_packer(self._size, 0).size, _packer(self._size, self._size).size}
        assert set(map(len, self._cells)) <= sizes
        assert list(self._codes.values()) == list(range(len(self._codes)))


def _number_of_scores(numbers: int, models: int) -> int:
    """How many of an event's numbers are scores: one of each model, or none, before its losses."""
    return numbers % (2 * models)


def _packed(codes: IntArray, scores: FloatArray) -> list[bytes]:
    """The keys of rows: codes as 32 bits each, then the scores."""
    parts = [
        np.ascontiguousarray(codes, dtype="<i4").view(np.uint8),
        np.ascontiguousarray(scores, dtype="<f8").view(np.uint8).reshape(len(codes), -1),
    ]
    table = np.ascontiguousarray(np.concatenate(parts, axis=1))
    keys: list[bytes] = table.view(f"V{table.shape[1]}").ravel().tolist()
    return keys
