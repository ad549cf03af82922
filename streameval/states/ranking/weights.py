"""Weights of scores, their exact sum and its limit; and scores counted among others."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError
from streameval.events.values import BoolArray, FloatArray, IntArray, Weight

WeightArray: TypeAlias = npt.NDArray[np.int64 | np.float64]

MAX_TOTAL = 2**62 - 1
"""Most whole weight one class may hold, so that twice a running sum is an int64."""


def check_total(
    held: Weight, arriving: Weight, most: int = MAX_TOTAL, what: str = "weights of one class"
) -> None:
    """Refuse whole weights that would pass the most of their kind."""
    if held + arriving > most:
        raise InputError(
            "weight",
            expected=f"{what} that add up to at most {most}",
            got=f"{arriving} beside {held} counted before",
            remedy="scale the weights down",
        )


def count_at_or_below(values: FloatArray, queries: FloatArray) -> tuple[IntArray, BoolArray]:
    """For each query the number of values, distinct and ascending, at or below it; and a tie."""
    count: IntArray = np.searchsorted(values, queries, side="right")
    if not len(values):
        return count, np.zeros(len(queries), np.bool_)
    # A count of 0 compares with the last value, which is above the query.
    return count, values[count - 1] == queries
