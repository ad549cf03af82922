"""Fields of a validated event, and errors that binary and multi-class input share."""

from __future__ import annotations

import numpy as np

from streameval.errors import InputError
from streameval.events import IntArray

__all__ = ["first_position", "nothing_given"]


def nothing_given(field: str) -> InputError:
    """The error of an event without any prediction."""
    return InputError(
        field,
        expected="a prediction: y_pred, score= or proba=",
        got="none of them",
        remedy="pass the predicted label as y_pred, or a score",
    )


def first_position(codes: IntArray, code: int) -> int:
    """Position of the first event of a code."""
    return int(np.argmax(codes == code))
