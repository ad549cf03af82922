"""Rows of a batch by the stretch of time that they fall into."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from streameval.events import IntArray

__all__ = ["grouped"]


def grouped(numbers: IntArray) -> Iterator[tuple[int, IntArray | None]]:
    """Each number with its rows, ascending; None where all rows have the one number.

    >>> [(number, rows.tolist()) for number, rows in grouped(np.array([7, 5, 7]))]
    [(5, [1]), (7, [0, 2])]
    """
    if not len(numbers):
        return
    if (numbers == numbers[0]).all():
        yield int(numbers[0]), None
        return
    # Most streams are nearly in order, which a stable sort makes use of.
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    names = ordered[starts].tolist()
    ends = np.append(starts[1:], len(order)).tolist()
    for number, start, end in zip(names, starts.tolist(), ends, strict=True):
        yield number, order[start:end]
