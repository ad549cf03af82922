"""What one multi-class event adds to the sums over probabilities.

Written twice, for one event and for many, to the same bits: a Brier term is
cut to units cell by cell, so that neither the order of the labels nor labels
of probability 0 leave a trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from streameval.events import FloatArray, IntArray, Label
from streameval.states.fixed_point import UNIT
from streameval.states.loss_terms import loss_units

__all__ = [
    "ABSENT",
    "ColumnTerms",
    "EventTerms",
    "column_terms",
    "event_terms",
    "most_probable",
    "most_probable_columns",
]

ABSENT = -1
"""The rank of a true class that its event gave no probability: never in the top k."""

_SCALE = float(UNIT)


def most_probable(proba: Mapping[Label, float]) -> Label:
    """The predicted label where no other is given: of equal probabilities the first in order.

    >>> most_probable({"cow": 0.2, "dog": 0.4, "cat": 0.4})
    'cat'
    """
    best = max(proba.values())
    return min(label for label, p in proba.items() if p == best)


def most_probable_columns(proba: FloatArray, labels: Sequence[Label]) -> IntArray:
    """The column of :func:`most_probable` of each row; columns in any order."""
    order = np.asarray(sorted(range(len(labels)), key=labels.__getitem__), dtype=np.int64)
    columns: IntArray = order[np.argmax(proba[:, order], axis=1)]
    return columns


class EventTerms(NamedTuple):
    """The terms of one event."""

    loss: int
    """Log loss in units."""
    brier: int
    """Brier score in units."""
    rank: int
    """Number of labels placed before the true class, or :data:`ABSENT`."""
    confidence: float
    """Probability of the predicted label; 0 where the event did not name it."""
    hit: bool
    """Whether the predicted label is the true class."""


def event_terms(
    y_true: Label, proba: Mapping[Label, float], y_pred: Label | None = None
) -> EventTerms:
    """The terms of one event; without ``y_pred`` the most probable label is predicted.

    >>> event_terms("b", {"a": 0.5, "b": 0.5, "c": 0.0})[2:]
    (0, 0.5, False)
    """
    given = proba.get(y_true)
    rank = 0
    if given is None:
        rank, given = ABSENT, 0.0
    missed = 1.0 - given
    brier = int(missed * missed * _SCALE)
    for label, p in proba.items():
        if label == y_true:
            continue
        brier += int(p * p * _SCALE)
        if p >= given and rank != ABSENT and (p > given or label > y_true):  # type: ignore[operator]
            rank += 1
    if y_pred is None:
        y_pred = most_probable(proba)
    confidence = proba.get(y_pred, 0.0)
    return EventTerms(loss_units(given), brier, rank, confidence, y_pred == y_true)


class ColumnTerms(NamedTuple):
    """The terms of n events over K columns."""

    given: FloatArray
    """Probability of the true class; 0 where it has no column."""
    squares: FloatArray
    """(p_k − [k is true])² of each cell, shape (n, K)."""
    rank: IntArray
    """Number of columns placed before the true class, or :data:`ABSENT`."""
    confidence: FloatArray
    """Probability of the predicted label; 0 where it has no column."""


def column_terms(true: IntArray, proba: FloatArray, predicted: IntArray) -> ColumnTerms:
    """The terms of many events.

    Args:
        true: Column of each event's true class, :data:`ABSENT` where it has none.
        proba: Matrix of shape (n, K), columns in the order of their labels:
            among equal probabilities the later column is placed first.
        predicted: Column of each event's predicted label, :data:`ABSENT` where it has none.

    >>> even = np.array([[0.5, 0.5], [0.5, 0.5]])
    >>> column_terms(np.array([0, 1]), even, np.array([0, 0])).rank.tolist()
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
    confidence = np.where(predicted < 0, 0.0, proba[np.arange(n), predicted])
    return ColumnTerms(given, missed, rank, confidence)
