"""Full confusion matrices: rows true, columns predicted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError, shown
from streameval.events import MAX_CLASSES, Label, Weight, canonical_label, check_same_kind

__all__ = ["MAX_MATRIX_CELLS", "distinct_labels", "full_matrix", "matrix_cells"]

MAX_MATRIX_CELLS = 10**8
"""Largest full matrix that is made: 800 MB."""


def distinct_labels(labels: Iterable[object], field: str) -> list[Label]:
    """Canonical labels in the order given, of one kind, none twice.

    >>> distinct_labels(["b", "a"], "labels")
    ['b', 'a']
    >>> distinct_labels([1, True], "labels")
    Traceback (most recent call last):
    streameval.errors.InputError: labels[1]: expected each label once, got True again
    """
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
    """The cells of a square matrix that are not 0.

    Raises:
        InputError: The shape does not fit the labels, or an entry is no weight.

    >>> list(matrix_cells([[5, 0], [1, 2]], ["a", "b"]))
    [('a', 'a', 5), ('b', 'a', 1), ('b', 'b', 2)]
    """
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
    """The matrix of some cells in the order of ``labels``; cells of other labels are left out.

    Raises:
        InputError: The matrix would have more than MAX_MATRIX_CELLS cells.
    """
    if len(labels) ** 2 > MAX_MATRIX_CELLS:
        raise InputError(
            "labels",
            expected=f"at most {int(MAX_MATRIX_CELLS**0.5)} labels for a full matrix",
            got=str(len(labels)),
            remedy="name the labels of interest, or read the cells() that are not 0",
        )
    place = {label: n for n, label in enumerate(labels)}
    kept = [(place[i], place[j], w) for i, j, w in cells if i in place and j in place]
    dtype: type = np.int64 if exact else np.float64
    if exact and max((weight for _, _, weight in kept), default=0) >= 2**63:
        dtype = object
    matrix: npt.NDArray[Any] = np.zeros((len(labels), len(labels)), dtype=dtype)
    for i, j, weight in kept:
        matrix[i, j] = weight
    return matrix
