"""Lists of decoded values become columns: arrays where they can, short lists where not."""

from __future__ import annotations

from types import NoneType
from typing import Any

import numpy as np

from streameval.events import MAX_CLASSES
from streameval.files.chunk import Column

__all__ = ["LabelPool", "joined", "probability_columns"]


class LabelPool:
    """One object for each distinct text, so that a column of it is a column of pointers.

    A decoder makes a new str for every record: 60 bytes a label, where this
    leaves 8.
    """

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    def column(self, values: list[Any]) -> Column:
        """Numbers of one type as an array, text as a list of shared str, a mixture as it is."""
        kinds = set(map(type, values))
        if kinds == {bool}:
            return np.fromiter(values, np.bool_, len(values))
        if kinds == {int}:
            try:
                return np.fromiter(values, np.int64, len(values))
            except OverflowError:
                return values
        if str in kinds and kinds <= {str, NoneType}:
            kept = self._kept
            if len(kept) > MAX_CLASSES:  # ids, not labels: they will be refused further on
                kept.clear()
            return [None if value is None else kept.setdefault(value, value) for value in values]
        return values


def probability_columns(values: list[dict[str, float]]) -> Column:
    """Label -> column where all records name the same labels, otherwise the mappings."""
    if not values:
        return []
    labels = tuple(values[0])
    if all(tuple(value) == labels for value in values):
        table = np.array([list(value.values()) for value in values], dtype=np.float64)
        if labels:
            return {label: table[:, place] for place, label in enumerate(labels)}
    return values


def joined(columns: list[Column]) -> Column:
    """One column after another.

    Columns of different type become a list, so that ``"1"`` and ``1`` stay
    apart; probabilities must all name the same labels in the same order.
    """
    first = columns[0]
    if len(columns) == 1:
        return first
    if isinstance(first, dict):
        return {
            label: np.concatenate([column[label] for column in columns if isinstance(column, dict)])
            for label in first
        }
    arrays = [column for column in columns if isinstance(column, np.ndarray)]
    if len(arrays) == len(columns):
        return np.concatenate(arrays)
    values: list[Any] = []
    for column in columns:
        values.extend(column.tolist() if isinstance(column, np.ndarray) else column)
    return values
