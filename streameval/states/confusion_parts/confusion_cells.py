"""The cells of a confusion and the sums over its classes.

Macro averages sum the ratio of every class. A sum of float ratios would depend on the order
of the events. So each ratio is a whole number of 2⁻⁶⁴, rounded down: adding and taking away
integers leaves no trace, and any path to the same counts gives the same bits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import fsum
from typing import Any, NamedTuple

from streameval.events.values import Weight
from streameval.states.backend import compiled

FRACTION_BITS = 64
"""Ratios are summed in units of 2 to the minus this: 5e-20, far below a float's last bit."""


class LabelSums(NamedTuple):
    """Sums over the classes of one confusion, t true, p predicted and c correct per class.

    Of floats the ratios are not rounded, on the same scale of 2⁶⁴.
    """

    total: Weight
    """Σ t, the weight of all events."""
    hits: Weight
    """Σ c, the weight of the events predicted rightly."""
    active: int
    """Number of classes with t + p > 0."""
    with_true: int
    """Number of classes with t > 0."""
    with_predicted: int
    """Number of classes with p > 0."""
    precision: Weight
    """Σ ⌊2⁶⁴ c / p⌋ over the classes with p > 0."""
    recall: Weight
    """Σ ⌊2⁶⁴ c / t⌋ over the classes with t > 0."""
    f1: Weight
    """Σ ⌊2⁶⁴ 2c / (t + p)⌋ over the active classes."""
    true_predicted: Weight
    """Σ t·p."""
    true_squared: Weight
    """Σ t²."""
    predicted_squared: Weight
    """Σ p²."""


def _terms(c: Any, t: Any, p: Any, exact: bool) -> tuple[Any, ...]:
    """What a class of this correct, true and predicted weight adds to each of the sums."""
    ratios: tuple[Any, ...] = (0, 0, 0)
    if c and exact:
        scaled = c << FRACTION_BITS
        ratios = (scaled // p, scaled // t, 2 * scaled // (t + p))
    elif c:
        scaled = c * 2.0**FRACTION_BITS
        ratios = (scaled / p, scaled / t, 2 * scaled / (t + p))
    return (t, c, bool(t or p), bool(t), bool(p), *ratios, t * p, t * t, p * p)


class ConfusionCells:
    """Weight of each (true, predicted) pair of indices: the reference, in plain Python.

    The first read of the sums after a change costs O(K) with integer weights, O(K + cells) with
    floats. ``NativeConfusionCells`` has the same methods for integers and a total below 2¹²⁵.
    """

    __slots__ = ("_cells", "_classes", "_index", "_sums", "exact", "whole")

    def __init__(
        self, index: dict[Any, int], cells: Iterable[tuple[int, int, Weight]] = ()
    ) -> None:
        self._index = index
        self._cells: dict[tuple[int, int], Weight] = {}
        # Correct, true and predicted weight of each class; of floats as of the last read.
        self._classes: defaultdict[int, list[Weight]] = defaultdict(lambda: [0, 0, 0])
        self._sums: LabelSums | None = None
        self.exact = True
        # The confusion of integers that the floats are a rounded multiple of; None after a change.
        self.whole: Any = None
        for i, j, weight in cells:
            self.add(i, j, weight)

    def count_known(self, y_true: object, y_pred: object) -> bool:
        """Count an event of weight 1; False, and nothing is counted, where a label is new."""
        try:
            i, j = self._index[y_true], self._index[y_pred]
        except (KeyError, TypeError):
            return False
        self.add(i, j, 1)
        return True

    def add(self, i: int, j: int, weight: Weight) -> None:
        """Add a weight to a cell; a float makes every weight one."""
        if type(weight) is float:
            self.promote()
        zero = 0 if self.exact else 0.0
        self._cells[i, j] = self._cells.get((i, j), zero) + weight
        self._changed(i, j, weight)

    def take(self, i: int, j: int, weight: Weight) -> Weight:
        """Remove an integer weight; returns the rest, or below 0 where nothing is changed."""
        left = self._cells.get((i, j), 0) - weight
        if left >= 0:
            self._cells[i, j] = left
            if not left:
                del self._cells[i, j]
            self._changed(i, j, -weight)
        return left

    def _changed(self, i: int, j: int, weight: Weight) -> None:
        self._sums = self.whole = None
        if self.exact:
            row, column = self._classes[i], self._classes[j]
            row[0] += weight if i == j else 0
            row[1] += weight
            column[2] += weight

    def promote(self) -> None:
        """Make every weight a float, for good."""
        if self.exact:
            self.exact = False
            self._cells = {pair: float(weight) for pair, weight in self._cells.items()}
            self._sums = None

    def cell(self, i: int, j: int) -> Weight:
        """The weight of a cell."""
        return self._cells.get((i, j), 0)

    def coded(self) -> Iterator[tuple[int, int, Weight]]:
        """(true index, predicted index, weight) of the cells that are not 0."""
        return ((i, j, weight) for (i, j), weight in self._cells.items())

    @property
    def total(self) -> Weight:
        """Weight of all events."""
        return self.sums().total

    @property
    def hits(self) -> Weight:
        """Weight of the events predicted rightly."""
        return self.sums().hits

    def of_class(self, k: int) -> tuple[Weight, Weight, Weight]:
        """Correct, true and predicted weight of the class of this index."""
        if not self.exact:
            self.sums()
        correct, true, predicted = self._classes[k]
        return correct, true, predicted

    def sums(self) -> LabelSums:
        """The sums over the classes."""
        if self._sums is None:
            if not self.exact:
                self._sum_floats()
            # fsum rounds once: the order of the classes leaves no trace.
            add: Any = sum if self.exact else fsum
            terms = [_terms(c, t, p, self.exact) for c, t, p in self._classes.values()]
            columns = zip(*terms, strict=True) if terms else [()] * len(LabelSums._fields)
            sums = LabelSums._make(map(add, columns))
            self._sums = sums._replace(
                total=sums.total if self.exact else fsum(self._cells.values()),
                active=int(sums.active),
                with_true=int(sums.with_true),
                with_predicted=int(sums.with_predicted),
            )
        return self._sums

    def _sum_floats(self) -> None:
        rows: defaultdict[int, list[Weight]] = defaultdict(list)
        columns: defaultdict[int, list[Weight]] = defaultdict(list)
        for i, j, weight in self.coded():
            rows[i].append(weight)
            columns[j].append(weight)
        self._classes.clear()
        for k in rows.keys() | columns.keys():
            self._classes[k] = [self.cell(k, k), fsum(rows[k]), fsum(columns[k])]

    def copy(self, index: dict[Any, int]) -> ConfusionCells:
        """Independent cells over a copy of the same labels."""
        twin = ConfusionCells(index, self.coded())
        twin.whole = None if self.whole is None else self.whole.copy()
        return twin


_COMPILED: Any = getattr(
    compiled("streameval.states.native.native_confusion"), "NativeConfusionCells", None
)


def new_cells(index: dict[Any, int]) -> ConfusionCells:
    """Empty cells over these labels: compiled ones where they were built, else the reference."""
    return (_COMPILED or ConfusionCells)(index)
