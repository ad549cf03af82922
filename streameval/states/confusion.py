"""Sparse confusion matrix: total weight of each (true, predicted) pair of labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import fsum
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError, StateError, shown
from streameval.events.values import (
    MAX_CLASSES,
    BoolArray,
    FloatArray,
    IntArray,
    Label,
    LabelColumn,
    Weight,
    canonical_label,
    canonical_weight,
    check_same_kind,
    check_same_length,
    label_column,
    weight_column,
)
from streameval.states.confusion_parts.confusion_cells import (
    ConfusionCells,
    LabelSums,
    new_cells,
)
from streameval.states.confusion_parts.confusion_form import (
    ConfusionForm,
    read_form,
    write_form,
)
from streameval.states.confusion_parts.label_index import LabelIndex
from streameval.states.confusion_parts.pair_counts import PairWeights, bool_pairs, code_pairs
from streameval.states.fields import (
    MOST_WEIGHT,
    check_mergeable,
    never_counted,
    removable_weight,
)
from streameval.tables import Table

MAX_MATRIX_CELLS = 10**8
"""Largest full matrix that is made: 800 MB."""


def distinct_labels(labels: Iterable[object], field: str) -> list[Label]:
    """Canonical labels of one kind, in the order given; raises InputError for one given twice."""
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise InputError(field, expected="a list of labels", got=shown(labels))
    seen: dict[Label, None] = {}
    for position, value in enumerate(labels):
        label = canonical_label(value, field, position)
        if label in seen:
            raise InputError(
                field, expected="each label once", got=f"{shown(value)} again", position=position
            )
        if seen:
            check_same_kind(next(iter(seen)), label, field, position)
        if position >= MAX_CLASSES:
            raise InputError(field, expected=f"at most {MAX_CLASSES} labels", got="more")
        seen[label] = None
    return list(seen)


def matrix_cells(matrix: object, labels: list[Label]) -> Iterator[tuple[Label, Label, Weight]]:
    """The cells of a square matrix that are not 0; raises InputError."""
    try:
        array: npt.NDArray[Any] = np.asarray(matrix)
    except ValueError:  # rows of different length
        array = np.empty(0, dtype=object)
    classes = len(labels)
    if array.size == 0 == classes:
        return
    if array.shape != (classes, classes):
        raise InputError(
            "matrix",
            expected=f"shape {(classes, classes)}, a row and a column for each label",
            got=f"shape {array.shape}" if array.size else "rows of another length",
        )
    for i, row in enumerate(array.tolist()):
        for j, weight in enumerate(row):
            # False for nan; a bool matrix counts True as 1.
            if not (isinstance(weight, (int, float)) and 0 <= weight < float("inf")):
                raise InputError(
                    "matrix",
                    expected="finite weights of 0 or more",
                    got=f"{shown(weight)} in row {i}, column {j}",
                )
            if weight:
                yield labels[i], labels[j], int(weight) if weight == int(weight) else weight


def full_matrix(
    cells: Iterable[tuple[Label, Label, Weight]], labels: list[Label], *, exact: bool
) -> npt.NDArray[Any]:
    """The matrix of some cells in the order of ``labels``; omits the cells of other labels."""
    if len(labels) ** 2 > MAX_MATRIX_CELLS:
        raise InputError(
            "labels",
            expected=f"at most {int(MAX_MATRIX_CELLS**0.5)} labels for a full matrix",
            got=str(len(labels)),
            remedy="name the labels of interest, or read the cells() that are not 0",
        )
    index = {label: n for n, label in enumerate(labels)}
    kept = [(index[i], index[j], w) for i, j, w in cells if i in index and j in index]
    dtype: type = np.int64 if exact else np.float64
    if exact and max((weight for _, _, weight in kept), default=0) >= 2**63:
        dtype = object
    matrix: npt.NDArray[Any] = np.zeros((len(labels), len(labels)), dtype=dtype)
    for i, j, weight in kept:
        matrix[i, j] = weight
    return matrix


class BinaryCounts(NamedTuple):
    """One label against the rest."""

    tp: Weight
    """Weight of the label's events predicted as the label."""
    fp: Weight
    """Weight of other events predicted as the label."""
    fn: Weight
    """Weight of the label's events predicted otherwise."""
    tn: Weight
    """All other weight."""


class ClassCounts(NamedTuple):
    """Weights per class, each list aligned with ``labels``."""

    labels: list[Label]
    correct: list[Weight]
    """Weight predicted rightly: the matrix's diagonal."""
    true: list[Weight]
    """Weight of the class (its support): the row sums."""
    predicted: list[Weight]
    """Weight predicted as the class: the column sums."""


# Compared by identity: a weight of another type that equals 1 takes the slow
# path, where it is validated.
_ONE = 1

# The labels of a binary task.
_CLASSES: list[Label] = [0, 1]
_ROOM = 1 << 61
# No label has this index.
_NO_INDEX = MAX_CLASSES
# Classes of a matrix that is printed.
_MOST_PRINTED = 20
# In a pickle an index takes so many bits of a cell's key.
_INDEX_BITS = 17


class ConfusionCounts:
    """Confusion of a stream: weight of each (true, predicted) pair, sparse and exact.

    Labels are ``str`` or ``int`` and are added as they occur, up to 100,000 of them; a label
    without an event is removed. Labels of a closed list are classes from the beginning, and
    stay; their order is that of the rows. Integer weights are counted as Python ints of any
    size; the first weight that is not whole turns the state to float64 for good (``exact``
    becomes False).

    Args:
        labels: The closed list of classes; any other label is then an InputError. None adds
            labels as they occur.

    Cost:
        About 0.1 µs for an event of weight 1 whose labels are known. Sums over rows, columns or
        classes are kept current; with float weights they are computed on the first read after
        an event, in O(K + cells).

    >>> counts = ConfusionCounts()
    >>> counts.update("cat", "cat")
    >>> counts.update("dog", "cat", weight=2)
    >>> counts.labels, counts.total, counts.correct
    (['cat', 'dog'], 3, 1)
    >>> print(counts)
    true \\ predicted  cat  dog
    cat                 1    0
    dog                 2    0
    """

    __slots__ = ("_cells", "_index", "_label_index")

    def __init__(self, labels: Iterable[object] | None = None) -> None:
        closed = None if labels is None else distinct_labels(labels, "labels")
        self._set(LabelIndex(closed))

    @classmethod
    def from_matrix(cls, matrix: object, labels: Iterable[object]) -> ConfusionCounts:
        """The counts of a full matrix, rows true and columns predicted.

        Args:
            matrix: (K, K) weights of 0 or more, nested lists or an array.
            labels: K distinct labels, of the rows and of the columns.

        Raises:
            InputError: Another shape, a negative or nan weight, a bad label.

        >>> ConfusionCounts.from_matrix([[50, 10], [5, 100]], [0, 1]).binary(1)
        BinaryCounts(tp=100, fp=10, fn=5, tn=50)
        """
        counts = cls()
        counts.add_cells(matrix_cells(matrix, distinct_labels(labels, "labels")))
        return counts

    # Feeding

    def update(self, y_true: object, y_pred: object, weight: Weight = 1) -> None:
        """Count one event.

        Args:
            y_true: Its true label.
            y_pred: The label that was predicted.
            weight: How much it counts, above 0.

        Raises:
            InputError: A label that is no str or int, is a str beside numbers, is outside the
                closed list, or is one too many; a weight that is not above 0. Nothing is counted.
        """
        if weight is not _ONE:
            weight = canonical_weight(weight)
        elif self._cells.count_known(y_true, y_pred):
            return
        try:
            i, j = self._index[y_true], self._index[y_pred]
        except (KeyError, TypeError):
            self.add_whole(y_true, y_pred, weight)
        else:
            self._count_one(i, j, weight)

    def check(self, y_true: Label, y_pred: Label, weight: Weight = 1) -> None:
        """Raise what :meth:`update` of a validated event would raise."""
        if y_true not in self._index or y_pred not in self._index:
            self._label_index.check([("y_true", [y_true], [0]), ("y_pred", [y_pred], [0])], None)

    def check_many(
        self,
        y_true: LabelColumn,
        y_pred: LabelColumn,
        weight: IntArray | FloatArray | None = None,
    ) -> None:
        """Raise what :meth:`update_many` of these would raise."""
        self._label_index.check(
            [
                (field, column.labels, np.flatnonzero(np.bincount(column.codes)).tolist())
                for field, column in (("y_true", y_true), ("y_pred", y_pred))
            ],
            _finder(y_true.codes, y_pred.codes),
        )

    def update_many(self, y_true: object, y_pred: object, weight: object = None) -> None:
        """Count a column of events; the same as :meth:`update` for each, and faster.

        Args:
            y_true: Column of true labels: list, array, pandas, polars, Arrow or a LabelColumn.
            y_pred: Column of predicted labels.
            weight: Column of weights above 0, or None where each counts 1.

        Raises:
            InputError: As :meth:`update`, with the position, or columns of
                different length. Nothing is counted.

        Cost:
            3 ns an event beyond finding the distinct labels; 0.3 ns of two boolean arrays.

        >>> counts = ConfusionCounts()
        >>> counts.update_many(["cat", "dog", "dog"], ["cat", "cat", "dog"])
        >>> counts.correct
        2
        """
        if weight is None and _is_bool_column(y_true) and _is_bool_column(y_pred):
            check_same_length(len(y_true), len(y_pred), "y_pred")
            self._add(_CLASSES, _CLASSES, bool_pairs(y_true, y_pred), _finder(y_true, y_pred))
        else:
            true = label_column(y_true, "y_true")
            weights = weight_column(weight, len(true.codes))
            predicted = label_column(y_pred, "y_pred")
            check_same_length(len(true.codes), len(predicted.codes), "y_pred")
            pairs = code_pairs(true, predicted, weights)
            self._add(true.labels, predicted.labels, pairs, _finder(true.codes, predicted.codes))

    def add_cells(self, cells: Iterable[tuple[object, object, Weight]]) -> None:
        """Count cells of (true label, predicted label, weight), as :meth:`cells` gives them.

        Raises:
            InputError: As :meth:`update`, with the position; an int weight may
                pass that of one event. Nothing is counted.

        >>> counts = ConfusionCounts()
        >>> counts.add_cells([("cat", "cat", 10), ("cat", "dog", 3)])
        >>> counts.total
        13
        """
        true: dict[Label, int] = {}
        predicted: dict[Label, int] = {}
        pairs: PairWeights = []
        for n, (y_true, y_pred, weight) in enumerate(cells):
            i = true.setdefault(canonical_label(y_true, "y_true", n), len(true))
            j = predicted.setdefault(canonical_label(y_pred, "y_pred", n), len(predicted))
            if type(weight) is not int or not 0 < weight <= MOST_WEIGHT:
                weight = canonical_weight(weight, "weight", n)
            pairs.append((i, j, weight))

        def find(field: str, code: int) -> int:
            column = 0 if field == "y_true" else 1
            return next(n for n, pair in enumerate(pairs) if pair[column] == code)

        self._add(list(true), list(predicted), pairs, find)

    def add_pairs(self, pairs: PairWeights) -> None:
        """Count weights of pairs of the classes 0 and 1."""
        index = self._index
        if 0 in index and 1 in index:
            self._count([(index[i], index[j], weight) for i, j, weight in pairs])
        else:
            self._add(_CLASSES, _CLASSES, pairs, None)

    def pairs(self) -> tuple[Weight, Weight, Weight, Weight]:
        """The weights of (0, 0), (0, 1), (1, 0) and (1, 1): what :meth:`add_pairs` added."""
        low, high = self._index.get(0, _NO_INDEX), self._index.get(1, _NO_INDEX)
        cell = self._cells.cell
        return cell(low, low), cell(low, high), cell(high, low), cell(high, high)

    @property
    def has_room(self) -> bool:
        """Whether weights are whole, and no batch of weight 1 makes one pass 62 bits."""
        return self._cells.exact and self._cells.total < _ROOM

    def add_whole(self, y_true: object, y_pred: object, weight: Weight) -> None:
        """:meth:`update` with a weight that is not checked; a negative one removes it."""
        try:
            i, j = self._index[y_true], self._index[y_pred]
        except (KeyError, TypeError):
            true, predicted = canonical_label(y_true, "y_true"), canonical_label(y_pred, "y_pred")
            self.check(true, predicted)
            i, j = self._label_index.add(true), self._label_index.add(predicted)
        self._count_one(i, j, weight)

    def revert(self, y_true: object, y_pred: object, weight: Weight = 1) -> None:
        """Remove one earlier event, exactly.

        Raises:
            InputError: The event was never counted, or a weight is or was not whole. Nothing is
                changed.

        >>> counts = ConfusionCounts()
        >>> counts.update("cat", "dog")
        >>> counts.revert("cat", "dog")
        >>> counts.labels
        []
        """
        if weight is not _ONE or not self.exact:
            weight = removable_weight(weight, self.exact)
        i: int | None
        j: int | None
        try:
            i, j = self._index[y_true], self._index[y_pred]
        except (KeyError, TypeError):
            i, j = self._find(y_true, "y_true"), self._find(y_pred, "y_pred")
        if i is None or j is None or self._take(i, j, weight) < 0:
            raise never_counted("event", (y_true, y_pred, weight))

    def check_merge(self, other: ConfusionCounts) -> None:
        """Raise InputError for labels that :meth:`merge` would refuse."""
        self._label_index.check([("labels", other.labels, range(len(other.labels)))], None)

    def merge(self, other: ConfusionCounts, times: int = 1) -> None:
        """Add the other's events so many times; ``other`` is unchanged.

        Args:
            other: A confusion of the same closed list of classes.
            times: 1; another number requires that both are exact, and a negative one removes
                events, which must have been counted.

        Raises:
            StateError: The closed lists differ, be it in their order; labels of two kinds; more
                than 100,000 labels together. Nothing is changed.

        Cost:
            O(cells of other).
        """
        check_mergeable(self, other)
        mine, theirs = self._label_index.closed, other._label_index.closed
        if mine is not theirs and (mine is None or theirs is None or list(mine) != list(theirs)):
            raise StateError(
                "merge: the two confusions differ in their closed list of classes: "
                f"{_list_text(mine)} here and {_list_text(theirs)} there"
            )
        labels = other._label_index.labels
        try:
            cells = [(i, j, weight * times) for i, j, weight in other._cells.coded()]
            self._add(labels, labels, cells, None)
        except InputError as error:
            raise StateError(f"merge: {error}") from None

    def emptied(self) -> ConfusionCounts:
        """An empty state that shares the closed list of classes."""
        twin = ConfusionCounts()
        twin._label_index.closed = self._label_index.closed
        return twin

    def shift_right(self, bits: int) -> None:
        """Divide all weights by 2**bits, of which they are multiples."""
        cells: PairWeights = [
            (i, j, weight >> bits)  # type: ignore[operator]
            for i, j, weight in self._cells.coded()
        ]
        self._set(self._label_index)
        self._count(cells)

    def copy(self) -> ConfusionCounts:
        """An independent copy. Cost: O(K + cells)."""
        twin = ConfusionCounts()
        twin._set(self._label_index.copy())
        twin._cells = self._cells.copy(twin._index)
        return twin

    def __getstate__(self) -> object:
        table: Any = CellTable()
        table._label_index = self._label_index
        table._cells = {i << _INDEX_BITS | j: weight for i, j, weight in self._cells.coded()}
        table._total, table._correct = (self.total, self.correct) if self.exact else (0, 0)
        table._sums = table.quick = None
        table.exact = self.exact
        table.whole = None if self.whole is self else self.whole
        return None, {"_index": self._index, "_label_index": self._label_index, "_table": table}

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        table = state[1]["_table"]
        self._set(state[1]["_label_index"])
        cells = table._cells.items()
        self._count([(*divmod(code, 1 << _INDEX_BITS), weight) for code, weight in cells])
        self.with_exact_source(table.whole)

    def renamed(self, names: Mapping[Label, Label]) -> ConfusionCounts:
        """A copy under other labels; ``names`` has one for each, and no two are the same."""
        form = self._form(occurring=True)
        closed = self._label_index.closed
        twin = ConfusionCounts(
            None if closed is None else [new for old, new in names.items() if old in closed]
        )
        twin._filled(form._replace(labels=[names[label] for label in form.labels]))
        whole = self.whole
        return twin if whole is self else twin.with_exact_source(whole.renamed(names))

    # copy.copy() would share the tables within.
    __copy__ = copy

    # Reading

    @property
    def labels(self) -> list[Label]:
        """The classes: the closed list as declared, or all that occur, ascending. A new list."""
        closed = self._label_index.closed
        return sorted(self._index) if closed is None else list(closed)

    @property
    def exact(self) -> bool:
        """Whether every weight was whole, so that all sums are integers."""
        return self._cells.exact

    @property
    def whole(self) -> ConfusionCounts:
        """The counts that ratios are computed of: integers, also for a multiple of integers."""
        return self if self.exact else self._cells.whole or self

    def with_exact_source(self, whole: ConfusionCounts | None) -> ConfusionCounts:
        """This confusion, noting until its next change that it is a multiple of ``whole``."""
        if not self.exact:
            self._cells.whole = whole
        return self

    @property
    def total(self) -> Weight:
        """Weight of all events. Cost: O(1); O(cells) with float weights."""
        return self._cells.total

    @property
    def correct(self) -> Weight:
        """Weight of the events predicted rightly. Cost: O(1); O(cells) with float weights."""
        return self._cells.hits

    @property
    def sums(self) -> LabelSums:
        """Sums over the classes, for macro averages and agreement."""
        return LabelSums._make(self.whole._cells.sums())

    def cell(self, y_true: object, y_pred: object) -> Weight:
        """Weight of the events of one label predicted as another; 0 for labels never seen.

        >>> ConfusionCounts.from_matrix([[50, 10], [5, 100]], ["no", "yes"]).cell("yes", "no")
        5
        """
        i = self._find(y_true, "y_true")
        j = self._find(y_pred, "y_pred")
        return 0 if i is None or j is None else self._cells.cell(i, j)

    def cells(self) -> Iterator[tuple[Label, Label, Weight]]:
        """(true label, predicted label, weight) of pairs that occur, in the order of ``labels``.

        >>> list(ConfusionCounts.from_matrix([[2, 0], [1, 0]], ["a", "b"]).cells())
        [('a', 'a', 2), ('b', 'a', 1)]
        """
        form = self._form()
        return ((form.labels[i], form.labels[j], weight) for i, j, weight in form.cells)

    def to_array(self, labels: Iterable[object] | None = None) -> npt.NDArray[Any]:
        """The full matrix, rows true and columns predicted.

        Args:
            labels: Rows and columns to show, in this order; a label never seen gives zeros. None
                shows ``self.labels``.

        Returns:
            (K, K) array of int64; of Python ints where one passes int64; of float64 once a weight
            was not whole.

        Raises:
            InputError: More than 10⁸ cells, a label twice, or a str beside numbers.

        >>> counts = ConfusionCounts.from_matrix([[2, 0], [1, 4]], ["a", "b"])
        >>> counts.to_array(["b", "a"]).tolist()
        [[4, 1], [0, 2]]
        """
        names = self.labels if labels is None else distinct_labels(labels, "labels")
        known = next(iter(self._label_index.closed or self._index), None)
        if names and known is not None:
            check_same_kind(known, names[0], "labels", 0)
        return full_matrix(self.cells(), names, exact=self.exact)

    def per_class(self) -> ClassCounts:
        """Correct, true and predicted weight of each label. Cost: O(K log K).

        >>> ConfusionCounts.from_matrix([[2, 0], [1, 4]], ["a", "b"]).per_class()
        ClassCounts(labels=['a', 'b'], correct=[2, 4], true=[2, 5], predicted=[3, 4])
        """
        labels = self.labels
        index, of_class = self._index, self._cells.of_class
        of = [of_class(index[label]) if label in index else (0, 0, 0) for label in labels]
        return ClassCounts(labels, *([one[n] for one in of] for n in range(3)))

    def true_count(self, label: object) -> Weight:
        """Weight of the label's events (its support); 0 for a label never seen."""
        k = self._find(label, "label")
        return 0 if k is None else self._cells.of_class(k)[1]

    def predicted_count(self, label: object) -> Weight:
        """Weight predicted as the label; 0 for a label never seen."""
        k = self._find(label, "label")
        return 0 if k is None else self._cells.of_class(k)[2]

    def binary(self, positive: object) -> BinaryCounts:
        """One label against the rest; all zeros but ``tn`` for a label never seen.

        Cost:
            O(1); O(cells) with float weights, where the four are summed apart
            because a difference of large sums has no correct digit left.

        >>> ConfusionCounts.from_matrix([[2, 0], [1, 4]], ["a", "b"]).binary("b")
        BinaryCounts(tp=4, fp=0, fn=1, tn=2)
        """
        k = self._find(positive, "positive")
        if k is None:
            return BinaryCounts(0, 0, 0, self.total)
        if self.exact:
            tp, true, predicted = self._cells.of_class(k)
            tn = self.total - true - predicted + tp
            return BinaryCounts(tp, predicted - tp, true - tp, tn)
        parts: dict[tuple[bool, bool], list[Weight]] = {}
        for i, j, weight in self._cells.coded():
            parts.setdefault((i == k, j == k), []).append(weight)
        hits = ((True, True), (False, True), (True, False), (False, False))
        return BinaryCounts(*(fsum(parts.get(pair, ())) for pair in hits))

    # Writing and checking

    def to_state(self, *, occurring: bool = False) -> dict[str, Any]:
        """The written form, the same for the same content.

        Args:
            occurring: Write the labels that occur, ascending, and no closed list, which an
                evaluator writes once for all states.

        >>> ConfusionCounts.from_matrix([[2, 0], [1, 0]], ["a", "b"]).to_state()["weight"]
        array([2, 1])
        """
        return write_form(self._form(occurring=occurring))

    @classmethod
    def from_state(cls, data: object) -> ConfusionCounts:
        """The state that :meth:`to_state` wrote; raises StateError."""
        form = read_form(data)
        return cls(form.labels if form.closed else None)._filled(form)

    def restored(self, data: object) -> ConfusionCounts:
        """What ``to_state(occurring=True)`` wrote, with this closed list; raises StateError."""
        form = read_form(data)
        if form.closed:
            raise StateError("confusion.closed: expected False in an evaluator, got True")
        try:
            return self.emptied()._filled(form)
        except InputError as error:
            raise StateError(f"confusion.{error}") from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConfusionCounts):
            return NotImplemented
        return self._form() == other._form()

    def __repr__(self) -> str:
        return (
            f"ConfusionCounts({len(self.labels)} labels, "
            f"total={self.total}, correct={self.correct})"
        )

    def _rows(self) -> tuple[list[str], list[list[str]], str]:
        """The header and the rows of the matrix, and a line on what is not shown."""
        labels = self.labels
        shown, more = labels[:_MOST_PRINTED], len(labels[_MOST_PRINTED:])
        matrix = full_matrix(self.cells(), shown, exact=self.exact).tolist()
        form = "{}" if self.exact else "{:.12g}"
        rows = [
            [str(label), *map(form.format, line)] for label, line in zip(shown, matrix, strict=True)
        ]
        note = f"{more} more classes are not shown; to_array() has all" if more else ""
        return ["true \\ predicted", *map(str, shown)], rows, note

    def __str__(self) -> str:
        header, rows, more = self._rows()
        table = Table(header, rows, right=frozenset(header[1:])).to_text()
        return f"{table}\n{more}" if more else table

    def _repr_html_(self) -> str:
        header, rows, more = self._rows()
        return Table(header, rows).to_html() + (f"<p>{more}</p>" if more else "")

    def _check(self) -> None:
        """Assert every invariant."""
        cells = list(self._cells.coded())
        kind = int if self.exact else float
        assert all(type(weight) is kind and weight > 0 for _, _, weight in cells)
        fresh = ConfusionCells(self._index, cells)
        assert tuple(self._cells.sums()) == fresh.sums()
        for k in self._index.values():
            assert self._cells.of_class(k) == fresh.of_class(k)
        occurring = {k for i, j, _ in cells for k in (i, j)}
        self._label_index._check(occurring)
        assert self._index is self._label_index.index

    # The cells within

    def _set(self, label_index: LabelIndex) -> None:
        """Have these labels and no cells."""
        self._label_index = label_index
        # The same dict, which saves update() a look-up.
        self._index = label_index.index
        self._cells = new_cells(self._index)

    def _form(self, *, occurring: bool = False) -> ConfusionForm:
        labels = sorted(self._index) if occurring else self.labels
        row = {self._index.get(label): n for n, label in enumerate(labels)}
        cells = sorted((row[i], row[j], weight) for i, j, weight in self._cells.coded())
        closed = self._label_index.closed is not None and not occurring
        return ConfusionForm(labels, closed, cells, self.exact)

    def _filled(self, form: ConfusionForm) -> ConfusionCounts:
        """This state with the cells of a form; raises InputError outside the closed list."""
        codes = {k for i, j, _ in form.cells for k in (i, j)}
        (index,) = self._label_index.add_columns([("labels", form.labels, codes)], None)
        # Not through add_cells(): a cell of a float state may weigh more than an event
        # may, or look like an integer. Float weights make it a float state.
        self._count([(index[i], index[j], weight) for i, j, weight in form.cells])
        return self

    def _find(self, label: object, field: str) -> int | None:
        try:
            return self._index[label]
        except (KeyError, TypeError):
            return self._index.get(canonical_label(label, field))

    def _add(
        self,
        true_labels: list[Label],
        predicted_labels: list[Label],
        pairs: PairWeights,
        find: Callable[[str, int], int] | None,
    ) -> None:
        """Add weights to pairs of codes into two lists of labels, or raise InputError."""
        rows, columns = {i for i, _, _ in pairs}, {j for _, j, _ in pairs}
        row, column = self._label_index.add_columns(
            [("y_true", true_labels, rows), ("y_pred", predicted_labels, columns)], find
        )
        self._count([(row[i], column[j], weight) for i, j, weight in pairs])

    def _count(self, cells: PairWeights) -> None:
        # A float makes all weights floats before any of the call counts.
        if float in {type(weight) for _, _, weight in cells}:
            self._to_reference()
            self._cells.promote()
        for i, j, weight in cells:
            self._count_one(i, j, weight)

    def _count_one(self, i: int, j: int, weight: Weight) -> None:
        if weight < 0:
            self._take(i, j, -weight)
            return
        try:
            self._cells.add(i, j, weight)
        except OverflowError:
            self._to_reference()
            self._cells.add(i, j, weight)

    def _take(self, i: int, j: int, weight: Weight) -> Weight:
        """Remove a weight and labels without events; returns the rest, below 0 if refused."""
        left = self._cells.take(i, j, weight)
        if not left:
            for k in {i, j}:
                if not any(self._cells.of_class(k)):
                    self._label_index.remove(k)
        return left

    def _to_reference(self) -> None:
        cells: Any = self._cells
        if type(cells) is not ConfusionCells:
            self._cells = ConfusionCells(self._index, cells.coded())
            # Cached readers of a metric still hold them.
            cells.release()


class CellTable:
    """The cells of a confusion as every version pickles them."""

    __slots__ = ("_cells", "_correct", "_label_index", "_sums", "_total", "exact", "quick", "whole")


def _finder(
    y_true: IntArray | BoolArray, y_pred: IntArray | BoolArray
) -> Callable[[str, int], int]:
    """The position of the first event with a code, of either field."""
    return lambda field, code: int(np.argmax((y_true if field == "y_true" else y_pred) == code))


def _list_text(closed: Mapping[Label, int] | None) -> str:
    return "none" if closed is None else shown(list(closed))


def _is_bool_column(column: object) -> TypeGuard[BoolArray]:
    return isinstance(column, np.ndarray) and column.dtype == np.bool_ and column.ndim == 1
