"""The cells of a confusion and the sums over its classes.

Macro averages sum the ratio of every class. A sum of float ratios would depend on the order
of the events. So each ratio is a whole number of 2⁻⁶⁴, rounded down: adding and taking away
integers leaves no trace, and any path to the same counts gives the same bits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import fsum
from operator import add, sub
from typing import Any, NamedTuple

from streameval.events.values import Weight
from streameval.states.backend import compiled
from streameval.states.confusion_parts.label_index import INDEX_BITS

FRACTION_BITS = 64
"""Ratios are summed in units of 2 to the minus this: 5e-20, far below a float's last bit."""

_MASK = (1 << INDEX_BITS) - 1


class LabelSums(NamedTuple):
    """Sums over the classes of one confusion, t true, p predicted and c correct per class.

    Integer weights give Python ints throughout. Float weights give floats for the sums of
    weights, and the ratios unrounded, on the same scale of 2⁶⁴.
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


def _terms(of_class: list[Any], exact: bool) -> tuple[Any, ...]:
    """What one class adds to each of the sums; it has its correct, true and predicted weight."""
    c, t, p = of_class
    ratios: tuple[Any, ...] = (0, 0, 0)
    if c and exact:
        scaled = c << FRACTION_BITS
        ratios = (scaled // p, scaled // t, 2 * scaled // (t + p))
    elif c:
        scaled = c * 2.0**FRACTION_BITS
        ratios = (scaled / p, scaled / t, 2 * scaled / (t + p))
    return (t, c, bool(t or p), bool(t), bool(p), *ratios, t * p, t * t, p * p)


_NO_SUMS = LabelSums._make([0] * len(LabelSums._fields))


class ConfusionCells:
    """Weight of each (true, predicted) pair of indices: the reference, in plain Python.

    :class:`~streameval.states.native.native_label_sums.NativeConfusionCells` has the same
    methods for integer weights and a total below 2⁶². With integer weights a read of the sums
    costs O(1) for each class that has changed since the last; with floats, O(K + cells).

    Args:
        index: The index of each label. Shared with the owning confusion, which adds
            and removes labels.
        cells: Index of the true class, index of the predicted class, weight.

    Attributes:
        exact: Whether every weight is an int.
        whole: The confusion of integers of which the float weights are a multiple, each
            rounded; None where there is none, and from the next event on.

    >>> cells = ConfusionCells({"cat": 0, "dog": 1}, [(0, 0, 2), (1, 1, 1)])
    >>> cells.count_known("dog", "cat"), cells.count_known("dog", "emu")
    (True, False)
    >>> cells.sums().recall / 2**64, cells.sums().true_predicted
    (1.5, 8)
    """

    __slots__ = ("_cells", "_changed", "_classes", "_index", "_sums", "_terms", "exact", "whole")

    def __init__(
        self, index: dict[Any, int], cells: Iterable[tuple[int, int, Weight]] = ()
    ) -> None:
        self._index = index
        # One int for a pair and not a tuple: smaller, and quicker to look up.
        self._cells: dict[int, Weight] = {}
        # Correct, true and predicted weight of each class, and what it adds to the sums.
        self._classes: dict[int, list[Weight]] = {}
        self._terms: dict[int, tuple[Any, ...]] = {}
        self._sums = _NO_SUMS
        # Classes whose terms are behind; of floats, any that has changed.
        self._changed: set[int] = set()
        self.exact = True
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
        code = i << INDEX_BITS | j
        if type(weight) is float:
            self.promote()
        if self.exact:
            self._cells[code] = self._cells.get(code, 0) + weight
            self._shift(i, j, weight)
        else:
            self._cells[code] = self._cells.get(code, 0.0) + weight
            self._changed.add(i)
            self.whole = None

    def take(self, i: int, j: int, weight: Weight) -> Weight:
        """Remove an integer weight; returns the rest, or below 0 where nothing is changed."""
        code = i << INDEX_BITS | j
        left = self._cells.get(code, 0) - weight
        if left >= 0:
            if left:
                self._cells[code] = left
            else:
                del self._cells[code]
            self._shift(i, j, -weight)
        return left

    def _shift(self, i: int, j: int, weight: Weight) -> None:
        row = self._classes.setdefault(i, [0, 0, 0])
        column = self._classes.setdefault(j, [0, 0, 0])
        row[1] += weight
        column[2] += weight
        if i == j:
            row[0] += weight
        self._changed.update((i, j))

    def promote(self) -> None:
        """Make every weight a float, for good."""
        if self.exact:
            self.exact = False
            self._cells = {code: float(weight) for code, weight in self._cells.items()}
            self._changed.update(self._classes)

    def cell(self, i: int, j: int) -> Weight:
        """The weight of a cell."""
        return self._cells.get(i << INDEX_BITS | j, 0)

    def coded(self) -> Iterator[tuple[int, int, Weight]]:
        """(true index, predicted index, weight) of the cells that are not 0."""
        return ((code >> INDEX_BITS, code & _MASK, weight) for code, weight in self._cells.items())

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
        if self._changed and not self.exact:
            self._sum_floats()
        correct, true, predicted = self._classes[k]
        return correct, true, predicted

    def sums(self) -> LabelSums:
        """The sums over the classes."""
        if self._changed and not self.exact:
            self._sum_floats()
        elif self._changed:
            totals: Iterable[Any] = self._sums
            for k in self._changed:
                terms = _terms(self._classes[k], True)
                more = map(sub, terms, self._terms.get(k, _NO_SUMS))
                totals = list(map(add, totals, more))
                self._terms[k] = terms
            self._changed.clear()
            self._sums = LabelSums._make(totals)
        return self._sums

    def _sum_floats(self) -> None:
        rows: defaultdict[int, list[Weight]] = defaultdict(list)
        columns: defaultdict[int, list[Weight]] = defaultdict(list)
        for i, j, weight in self.coded():
            rows[i].append(weight)
            columns[j].append(weight)
        # fsum rounds once: neither the order of the cells nor that of the classes leaves a trace.
        self._classes = {
            k: [self.cell(k, k), fsum(rows.get(k, ())), fsum(columns.get(k, ()))]
            for k in rows.keys() | columns.keys()
        }
        terms = [_terms(of, False) for of in self._classes.values()]
        sums = LabelSums._make(map(fsum, zip(*terms, strict=True)))
        self._sums = sums._replace(
            total=fsum(self._cells.values()),
            active=int(sums.active),
            with_true=int(sums.with_true),
            with_predicted=int(sums.with_predicted),
        )
        self._changed.clear()

    def copy(self, index: dict[Any, int]) -> ConfusionCells:
        """Independent cells over a copy of the same labels."""
        twin = ConfusionCells(index, self.coded())
        twin.whole = None if self.whole is None else self.whole.copy()
        return twin


# Which implementation holds the cells of a confusion.
#
# The compiled one holds them in integers of 64 and 128 bits, which is enough for
# a total weight below 2⁶²; beyond that, for float weights, where it was not
# built and with ``STREAMEVAL_BACKEND=portable`` it is the reference. Both give
# the same integers.

_COMPILED: Any = getattr(
    compiled("streameval.states.native.native_label_sums"), "NativeConfusionCells", None
)


def new_cells(index: dict[Any, int]) -> ConfusionCells:
    """Empty cells over these labels, compiled where that is built.

    >>> new_cells({}).total
    0
    """
    return (_COMPILED or ConfusionCells)(index)
