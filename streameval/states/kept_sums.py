"""Which implementation keeps the sums over the classes of a confusion.

The compiled one holds them in integers of 64 and 128 bits, which is enough for
a total weight below 2⁶²; beyond that, for float weights, where it was not
built and with ``STREAMEVAL_BACKEND=portable`` it is the portable one. Both give
the same integers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from streameval.events import Weight
from streameval.states.label_sums import LabelSums
from streameval.states.score_index import backend

__all__ = ["label_sums"]


def choose(backend: str) -> type[Any] | None:
    """The compiled class, or None where the portable one serves.

    >>> choose("portable") is None
    True
    """
    if backend != "portable":
        try:
            return importlib.import_module(  # type: ignore[no-any-return]
                "streameval.native.native_label_sums"
            ).NativeLabelSums
        except ImportError:
            # Built apart from the index, and in need of a compiler with 128-bit integers.
            pass
    return None


_COMPILED = choose(backend())


def label_sums(
    classes: int, cells: Callable[[], Iterable[tuple[int, int, Weight]]], *, exact: bool
) -> LabelSums:
    """The sums of these cells, in the implementation that can hold them.

    Args:
        classes: Number of classes.
        cells: Gives index of the true class, index of the predicted class and
            weight of each cell; called once more where the first attempt fails.
        exact: False when the weights are floats.

    >>> label_sums(1, lambda: [(0, 0, 2**70)], exact=True).hits == 2**70
    True
    """
    if exact and _COMPILED is not None:
        try:
            sums: LabelSums = _COMPILED(classes, cells())
            return sums
        except OverflowError:
            pass
    return LabelSums(classes, cells(), exact=exact)
