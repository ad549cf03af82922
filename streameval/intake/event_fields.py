"""Fields of a validated event, and errors that binary and multi-class input share."""

from __future__ import annotations

from typing import Any

import numpy as np

from streameval.errors import InputError
from streameval.events import IntArray, Label, Weight

__all__ = ["EventFields", "first_position", "nothing_given"]

EventFields = tuple[Label, Label | None, Any, Weight]
"""What :meth:`streameval.tally.Tally.update` takes: true, predicted, score, weight."""


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
