"""The log loss of one event, clipped as scikit-learn clips, in fixed point."""

from __future__ import annotations

import numpy as np

from streameval.events import FloatArray, Weight
from streameval.states.fixed_point import UNIT, to_units
from streameval.states.portable_log import portable_log, portable_log_many

__all__ = ["HIGHEST", "LOWEST", "loss_column", "loss_units", "sound_losses"]

LOWEST = float(np.finfo(np.float64).eps)
"""Probabilities are raised to this before the logarithm, so that 0 is not infinite."""

HIGHEST = 1.0 - LOWEST
"""Probabilities are lowered to this before the logarithm."""

_MOST = to_units(-portable_log(LOWEST))
_LEAST = to_units(-portable_log(HIGHEST))
_SCALE = float(UNIT)


def loss_units(given: float) -> int:
    """−ln of the probability given to what happened, in units of 2**-60.

    >>> round(loss_units(0.5) / UNIT, 6), round(loss_units(0.0) / UNIT, 6)
    (0.693147, 36.043653)
    """
    if given < LOWEST:
        given = LOWEST
    elif given > HIGHEST:
        given = HIGHEST
    return int(-portable_log(given) * _SCALE)


def loss_column(given: FloatArray) -> FloatArray:
    """−ln of each probability, as :func:`loss_units` before it is cut to units."""
    loss = portable_log_many(np.clip(given, LOWEST, HIGHEST))
    return np.negative(loss, out=loss)


def sound_losses(log_loss: Weight, brier: Weight, weight: Weight, most_brier: int) -> bool:
    """Whether the two sums can be those of events of this total weight.

    Args:
        log_loss: Units of 2**-60.
        brier: Units of 2**-60.
        weight: Total weight of the events.
        most_brier: Units of the largest Brier term of one event.
    """
    if type(weight) is int:
        return weight * _LEAST <= log_loss <= weight * _MOST and 0 <= brier <= weight * most_brier
    # Float sums of the same terms differ by their order; a millionth is generous.
    more, less = weight * 1.000001, weight * 0.999999
    return less * _LEAST <= log_loss <= more * _MOST and 0.0 <= brier <= more * most_brier
