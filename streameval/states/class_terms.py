"""What one multi-class event adds to the sums over probabilities.

Written twice, for one event and for many, to the same bits: a Brier term is
cut to units cell by cell, so that neither the order of the labels nor labels
of probability 0 leave a trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from streameval.events import FloatArray, IntArray, Label
from streameval.states.fixed_point import UNIT
from streameval.states.loss_terms import loss_units

__all__ = ["ABSENT", "ColumnTerms", "column_terms", "event_terms"]

ABSENT = -1
"""The rank of a true class that its event gave no probability: never in the top k."""

_SCALE = float(UNIT)


def event_terms(y_true: Label, proba: Mapping[Label, float]) -> tuple[int, int, int, float]:
    """Log loss and Brier in units, rank of the true class, probability of the top label.

    >>> event_terms("b", {"a": 0.5, "b": 0.5, "c": 0.0})[2:]
    (0, 0.5)
    """
    given = proba.get(y_true)
    rank = 0
    if given is None:
        rank, given = ABSENT, 0.0
    missed = 1.0 - given
    brier = int(missed * missed * _SCALE)
    top = given
    for label, p in proba.items():
        if label == y_true:
            continue
        brier += int(p * p * _SCALE)
        if p >= given and rank != ABSENT and (p > given or label > y_true):  # type: ignore[operator]
            rank += 1
        if p > top:
            top = p
    return loss_units(given), brier, rank, top


class ColumnTerms(NamedTuple):
    """The terms of n events over K columns."""

    given: FloatArray
    """Probability of the true class; 0 where it has no column."""
    squares: FloatArray
    """(p_k − [k is true])² of each cell, shape (n, K)."""
    rank: IntArray
    """Number of columns placed before the true class, or :data:`ABSENT`."""
    top: FloatArray
    """Probability of the top label."""


def column_terms(true: IntArray, proba: FloatArray) -> ColumnTerms:
    """The terms of many events.

    Args:
        true: Column of each event's true class, :data:`ABSENT` where it has none.
        proba: Matrix of shape (n, K), columns in the order of their labels:
            among equal probabilities the later column is placed first.

    >>> column_terms(np.array([0, 1]), np.array([[0.5, 0.5], [0.5, 0.5]])).rank.tolist()
    [1, 0]
    """
    n, size = proba.shape
    named = np.flatnonzero(true >= 0)
    at = true[named]
    given = np.zeros(n)
    given[named] = proba[named, at]
    before = proba > given[:, None]
    before |= (proba == given[:, None]) & (np.arange(size) > true[:, None])
    rank = np.where(true < 0, ABSENT, before.sum(axis=1))
    missed = proba.copy()
    missed[named, at] = 1.0 - given[named]
    missed *= missed
    return ColumnTerms(given, missed, rank, proba.max(axis=1))
