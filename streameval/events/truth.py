"""Whether an event is positive, as the binary states take it."""

from __future__ import annotations

import numpy as np

from streameval.errors import InputError, shown
from streameval.events.values import BoolArray, label_column

_EXPECTED = "True or 1 for a positive event, False or 0 for a negative one"


def canonical_positive(value: object, field: str = "positive", position: int | None = None) -> bool:
    """``True`` for a positive event, from a bool, 0, 1 or a numpy scalar of these."""
    if type(value) is int and 0 <= value <= 1:
        return value == 1
    if isinstance(value, (bool, int, np.bool_, np.integer)) and value in (0, 1):
        return bool(value)
    raise InputError(field, expected=_EXPECTED, got=shown(value), position=position)


def positive_column(column: object, field: str = "positive") -> BoolArray:
    """A column of :func:`canonical_positive`."""
    if isinstance(column, np.ndarray) and column.dtype == np.bool_ and column.ndim == 1:
        return column
    try:
        labels, codes = label_column(column, field)
    except InputError as error:
        if error.position is None:
            raise
        raise InputError(
            field, expected=_EXPECTED, got=error.got, position=error.position
        ) from None
    for code, label in enumerate(labels):
        if label not in (0, 1) and (codes == code).any():
            position = int(np.argmax(codes == code))
            raise InputError(field, expected=_EXPECTED, got=shown(label), position=position)
    positive: BoolArray = np.array([label == 1 for label in labels], dtype=np.bool_)[codes]
    return positive
