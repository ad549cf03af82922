"""The cells of a sparse confusion matrix by label indices, and the sums over them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from math import fsum

from streameval.events.values import Weight
from streameval.states.confusion_parts.label_index import INDEX_BITS, LabelIndex
from streameval.states.confusion_parts.label_sums import LabelSums, label_sums

_MASK = (1 << INDEX_BITS) - 1


class CellTable:
    """Weight of each (true, predicted) pair of indices, with sums that follow it.

    Args:
        places: The labels' indices. Shared with the owning confusion, which adds
            and removes labels.

    Attributes:
        cells: From ``i << INDEX_BITS | j`` to the weight. One int and not a
            tuple: smaller, and quicker to make and to look up. Code that writes a
            cell directly must call :meth:`sum_up`.
        exact: Whether every weight is an int.
        quick: The compiled sums' way to count an event of weight 1 under its
            labels, the cell included; it returns False, nothing done, for what
            is new. None while there are no such sums.

    Cost:
        An event O(1). The sums are made at the first read, in
        O(classes + cells), and then kept current; with float weights they are
        made anew after each event.

    >>> places = LabelIndex()
    >>> cat, dog = places.place("cat"), places.place("dog")
    >>> table = CellTable(places)
    >>> table.add([(0, 0, 3), (1, 0, 2)])
    >>> table.total, table.correct, table.margins().predicted
    (5, 3, [5, 0])
    """

    __slots__ = ("_correct", "_places", "_sums", "_total", "cells", "exact", "quick")

    def __init__(self, places: LabelIndex) -> None:
        self._places = places
        self.cells: dict[int, Weight] = {}
        self.exact = True
        # Of integer weights; with floats summed at each read. Where there are sums
        # they keep both, and these two are behind.
        self._total: Weight = 0
        self._correct: Weight = 0
        self._sums: LabelSums | None = None
        self.quick: Callable[[object, object], bool] | None = None

    # Counting

    def add(self, cells: Collection[tuple[int, int, Weight]]) -> None:
        """Count cells; a float among the weights makes it a float table before they count."""
        if float in {type(weight) for _, _, weight in cells}:
            self.promote()
        for i, j, weight in cells:
            self.add_one(i, j, weight)

    def add_one(self, i: int, j: int, weight: Weight) -> None:
        """Count one cell, as :meth:`add` does."""
        if type(weight) is float:
            self.promote()
        code = i << INDEX_BITS | j
        if self.exact:
            self.cells[code] = self.cells.get(code, 0) + weight
            self.sum_up(i, j, weight)
        else:
            self.cells[code] = self.cells.get(code, 0.0) + weight
            self._sums = None

    def sum_up(self, i: int, j: int, weight: Weight) -> None:
        """Carry an integer weight, in its cell already, over to what is summed."""
        if self._sums is None:
            self._total += weight
            if i == j:
                self._correct += weight
            return
        try:
            self._sums.count(i, j, weight)
        except OverflowError:
            # Too large for these sums: others are made, of the cells as they are now.
            self._forget_sums()
            self.margins()

    def take(self, i: int, j: int, weight: Weight) -> Weight:
        """Remove an integer weight from a cell of an exact table.

        Returns:
            What is left there; below 0 where there was less, and nothing is changed.
        """
        code = i << INDEX_BITS | j
        left = self.cells.get(code, 0) - weight
        if left >= 0:
            if left:
                self.cells[code] = left
            else:
                del self.cells[code]
            self.sum_up(i, j, -weight)
        return left

    def promote(self) -> None:
        """Make every weight a float, for good."""
        if self.exact:
            self.exact = False
            self._forget_sums()
            for code, weight in self.cells.items():
                self.cells[code] = float(weight)

    # Reading

    def coded(self) -> Iterator[tuple[int, int, Weight]]:
        """(true index, predicted index, weight) of the pairs that occur."""
        return ((code >> INDEX_BITS, code & _MASK, weight) for code, weight in self.cells.items())

    @property
    def total(self) -> Weight:
        """Weight of all events."""
        if not self.exact:
            return fsum(self.cells.values())
        return self._total if self._sums is None else self._sums.total

    @property
    def correct(self) -> Weight:
        """Weight of the events predicted rightly."""
        if self._sums is None and self.exact:
            return self._correct
        return self.margins().hits

    def margins(self) -> LabelSums:
        """The sums with row sums, column sums and diagonal; the ratios may be behind."""
        if self._sums is None:
            classes = len(self._places.labels)
            self._sums = label_sums(classes, self.coded, exact=self.exact)
            self.quick = self._sums.short_way(self._places.index, self.cells)
        return self._sums

    def settled(self) -> LabelSums:
        """The sums with up-to-date ratios, which the next events recompute at once."""
        sums = self._sums
        if sums is None:
            sums = self.margins()
        if sums.touched:
            sums.settle()
        sums.watched = True
        return sums

    # The object

    def grow(self) -> None:
        """Extend the sums to the labels that were added."""
        if self._sums is not None:
            self._sums.grow(len(self._places.labels))

    def copy(self, places: LabelIndex) -> CellTable:
        """An independent table over a copy of the same labels."""
        twin = CellTable(places)
        twin.cells = self.cells.copy()
        twin.exact = self.exact
        if self.exact:
            twin._total = self.total
            twin._correct = self.correct
        return twin

    def __getstate__(self) -> object:
        # The sums follow from the rest, and compiled ones cannot be pickled.
        twin = self.copy(self._places)
        return None, {name: getattr(twin, name) for name in self.__slots__}

    def _forget_sums(self) -> None:
        sums, self._sums, self.quick = self._sums, None, None
        # Cached readers of a metric still hold them.
        if sums is not None:
            sums.retire()

    def _check(self) -> None:
        """Assert every invariant."""
        kind = int if self.exact else float
        assert all(type(weight) is kind and weight > 0 for weight in self.cells.values())
        if self.exact:
            assert self.total == sum(self.cells.values())
            assert self.correct == sum(weight for i, j, weight in self.coded() if i == j)
        if self._sums is not None:
            classes = len(self._places.labels)
            self._sums._check(LabelSums(classes, self.coded(), exact=self.exact))
