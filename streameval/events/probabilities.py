"""Probabilities over classes, validated: one event's mapping, or a matrix of many.

A label that an event does not name has probability 0 there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError, shown
from streameval.events.values import (
    FloatArray,
    IntArray,
    Label,
    canonical_label,
    canonical_score,
    check_same_kind,
    check_same_length,
    label_column,
    named_columns,
    score_column,
    weight_column,
)


def most_probable(proba: Mapping[Label, float]) -> Label:
    """The predicted label where no other is given: of equal probabilities the first in order.

    >>> most_probable({"cow": 0.2, "dog": 0.4, "cat": 0.4})
    'cat'
    """
    best = max(proba.values())
    return min(label for label, p in proba.items() if p == best)


def most_probable_columns(proba: FloatArray, labels: Sequence[Label]) -> IntArray:
    """The column of :func:`most_probable` of each row; columns in any order."""
    order = np.asarray(sorted(range(len(labels)), key=labels.__getitem__), dtype=np.int64)
    columns: IntArray = order[np.argmax(proba[:, order], axis=1)]
    return columns


SUM_TOLERANCE = 1e-3
"""How far the probabilities of one event may be from adding up to 1."""

_DOUBT = 1e-9  # more than any rounding of a sum of probabilities
_SUM_REMEDY = "give every class's probability, after softmax and not rounded to few digits"


def check_probabilities(
    proba: object, field: str = "proba", position: int | None = None
) -> dict[Label, float]:
    """One event's probabilities as a new dictionary of canonical labels and floats.

    Args:
        proba: Mapping label -> probability.
        field: Name used in messages.
        position: Index in the caller's column, used in messages.

    Raises:
        InputError: No mapping, or an empty one; a label that is none, or a str
            beside a number; a probability outside [0, 1]; a sum further than
            0.001 from 1.

    Cost:
        About 0.2 µs a label.

    >>> check_probabilities({"cat": 0.7, "dog": 0.3})
    {'cat': 0.7, 'dog': 0.3}
    >>> check_probabilities({"cat": 0.7, "dog": 0.7})
    Traceback (most recent call last):
    streameval.errors.InputError: proba: expected probabilities that add up to 1, got 1.4; ...
    """
    if type(proba) is not dict and not isinstance(proba, Mapping):
        raise InputError(
            field,
            expected="a mapping of labels to probabilities",
            got=f"{shown(proba)} of type {type(proba).__name__}",
            position=position,
        )
    result: dict[Label, float] = {}
    for name, value in proba.items():
        label = name if type(name) is str else canonical_label(name, field, position)
        if type(value) is not float or not 0.0 <= value <= 1.0:
            value = canonical_score(value, f"{field}[{shown(name)}]", position)
            if not 0.0 <= value <= 1.0:
                raise _not_a_probability(f"{field}[{shown(name)}]", value, position)
        result[label] = value
    if len(set(map(type, result))) > 1:
        known = next(iter(result))
        for label in result:
            check_same_kind(known, label, field, position)
    total = math.fsum(result.values())
    if not abs(total - 1.0) <= SUM_TOLERANCE:
        raise _not_one(field, total, position)
    return result


def check_probability_matrix(
    proba: object, labels: object, field: str = "proba"
) -> tuple[FloatArray, list[Label]]:
    """Many events' probabilities as a new float64 matrix, and the labels of its columns.

    Args:
        proba: Two-dimensional, one row for each event: an array, a data frame
            or a list of rows.
        labels: The label of each column, in any order. Columns of a data
            frame that are named by these labels are taken by name.
        field: Name used in messages.

    Returns:
        The matrix of shape (n, K) and K canonical labels.

    Raises:
        InputError: As :func:`check_probabilities`, with the row; or the shape
            does not fit the labels.

    Cost:
        About 5 ns a cell.

    >>> matrix, labels = check_probability_matrix([[0.7, 0.3]], ["cat", "dog"])
    >>> matrix.tolist(), labels
    ([[0.7, 0.3]], ['cat', 'dog'])
    """
    names = _column_labels(labels)
    table = named_columns(proba)
    if table is not None and set(table) == set(names):
        proba = np.column_stack([score_column(table[name], field) for name in names])
    matrix = _matrix(proba, field)
    if matrix.shape[1] != len(names):
        raise InputError(
            field,
            expected=f"{len(names)} columns, one for each label",
            got=f"shape {matrix.shape}",
        )
    good = (matrix >= 0.0) & (matrix <= 1.0)  # False for nan
    if not good.all():
        row, column = divmod(int(np.argmin(good)), len(names))
        name, value = f"{field}[{shown(names[column])}]", float(matrix[row, column])
        canonical_score(value, name, row)
        raise _not_a_probability(name, value, row)
    totals = matrix.sum(axis=1) if len(names) else np.zeros(len(matrix))
    off = np.abs(totals - 1.0)
    # Numpy's sum is rounded; what is near the limit is summed as for one event.
    for row in np.flatnonzero(off > SUM_TOLERANCE - _DOUBT).tolist():
        total = math.fsum(matrix[row].tolist())
        if not abs(total - 1.0) <= SUM_TOLERANCE:
            raise _not_one(field, total, row)
    return matrix, names


def _not_a_probability(field: str, value: float, position: int | None) -> InputError:
    return InputError(
        field, expected="a probability from 0 to 1", got=repr(value), position=position
    )


def _not_one(field: str, total: float, position: int | None) -> InputError:
    return InputError(
        field,
        expected="probabilities that add up to 1",
        got=f"{total:.6g}",
        position=position,
        remedy=_SUM_REMEDY,
    )


def _column_labels(labels: object) -> list[Label]:
    try:
        given = list(labels)  # type: ignore[call-overload]
    except TypeError:
        given = None
    if given is None or isinstance(labels, (str, bytes)):
        raise InputError("labels", expected="a list of labels", got=shown(labels))
    names = [canonical_label(label, "labels", n) for n, label in enumerate(given)]
    seen: set[Label] = set()
    for n, name in enumerate(names):
        check_same_kind(names[0], name, "labels", n)
        if name in seen:
            raise InputError(
                "labels", expected="each label once", got=f"{shown(name)} again", position=n
            )
        seen.add(name)
    return names


def _matrix(proba: object, field: str) -> FloatArray:
    source: Any = proba
    if isinstance(proba, np.ma.MaskedArray):
        source = np.ma.filled(proba.astype(np.float64), np.nan)
    if hasattr(proba, "to_numpy"):  # pandas, polars
        source = proba.to_numpy()
    try:
        array: npt.NDArray[Any] = np.asarray(source)
    except (TypeError, ValueError):  # rows of different length
        array = np.zeros(0)
    if array.ndim == 1 and array.dtype == object and len(array):
        # A column of lists, as Arrow and pandas hold them.
        try:
            array = np.array([list(row) for row in array])
        except (TypeError, ValueError):
            array = np.zeros(0)
    if array.ndim != 2:
        raise InputError(
            field,
            expected="a matrix: one row for each event, one column for each label",
            got=f"{type(proba).__name__} that is none",
        )
    if array.dtype.kind not in "fiu":
        cells = [
            [canonical_score(value, field, row) for value in values]
            for row, values in enumerate(array.tolist())
        ]
        array = np.asarray(cells, dtype=np.float64).reshape(array.shape)
    matrix: FloatArray = array.astype(np.float64)
    matrix += 0.0
    return matrix


def check_true_kind(y_true: Label, proba_labels: Iterable[Label]) -> None:
    """Refuse a true label of another kind (str or number) than those of the probabilities."""
    for label in proba_labels:
        check_same_kind(label, y_true, "y_true")
        return


class ClassColumns(NamedTuple):
    """Many validated events, in the order that ``add_codes`` takes them."""

    y_true: IntArray
    """Codes into ``labels``."""
    labels: list[Label]
    proba: FloatArray
    """Shape (n, K)."""
    proba_labels: list[Label]
    """The label of each column."""
    weight: IntArray | FloatArray | None


def check_class_columns(
    y_true: object, proba: object, proba_labels: object, weight: object | None
) -> ClassColumns:
    """Columns of many events, each checked, and against one another.

    Raises:
        InputError: As :func:`check_probability_matrix`; or the columns differ
            in length; or labels of two kinds.
    """
    matrix, names = check_probability_matrix(proba, proba_labels)
    true = label_column(y_true, "y_true")
    check_same_length(len(true.codes), len(matrix), "proba")
    if len(matrix):
        check_true_kind(true.labels[0], names)
    return ClassColumns(true.codes, true.labels, matrix, names, weight_column(weight, len(matrix)))
