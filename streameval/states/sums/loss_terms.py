"""What events add to sums of losses: log loss, Brier term, rank and reliability.

Each term is written here for one event and for columns of events, to the same bits, and in
``states/native/loss_terms.hpp`` for compiled code. Losses are rounded down to units of 2**-60
(:mod:`streameval.states.sums.fixed_point`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from streameval.events.event import EventBatch
from streameval.events.values import (
    BoolArray,
    FloatArray,
    IntArray,
    Label,
    most_probable,
    most_probable_columns,
)
from streameval.states.ranking.weights import WeightArray
from streameval.states.sums.fixed_point import CHUNK, UNIT, chunks

# The natural logarithm with the same bits on every machine and in every path.
#
# math.log and np.log differ from each other in the last bit, and each
# differs between platforms, so a log loss summed from either could not be merged
# or resumed bit for bit elsewhere. Here one sequence of IEEE additions,
# multiplications and divisions is written twice, for one float and for arrays;
# each single operation is correctly rounded everywhere, so the two agree.
#
# The algorithm is that of FreeBSD's e_log.c (Sun Microsystems, 1993): write
# x = 2**k · (1 + f) with √½ ≤ 1 + f < √2, and sum a polynomial in
# s = f / (2 + f) fitted to the remainder of log(1 + f). Its error is below one
# unit in the last place.

_SQRT_HALF = 0.7071067811865476
_LN2_HIGH = 6.93147180369123816490e-01  # its last 32 bits are 0: k · _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_L1 = 6.666666666666735130e-01
_L2 = 3.999999999940941908e-01
_L3 = 2.857142874366239149e-01
_L4 = 2.222219843214978396e-01
_L5 = 1.818357216161805012e-01
_L6 = 1.531383769920937332e-01
_L7 = 1.479819860511658591e-01


def portable_log(x: float) -> float:
    """Natural logarithm of a positive finite float, within one unit in the last place."""
    mantissa, k = math.frexp(x)
    if mantissa < _SQRT_HALF:
        mantissa += mantissa
        k -= 1
    f = mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    remainder = z * (_L1 + w * (_L3 + w * (_L5 + w * _L7))) + w * (_L2 + w * (_L4 + w * _L6))
    half_square = 0.5 * f * f
    return s * (half_square + remainder) + k * _LN2_LOW - half_square + f + k * _LN2_HIGH


def portable_log_many(x: FloatArray) -> FloatArray:
    """:func:`portable_log` of each element, bit for bit."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < _SQRT_HALF
    mantissa *= 1.0 + low
    k = (exponent - low).astype(np.float64)
    f = mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    # Each numpy call rounds its result, so that no two operations are fused into one with one
    # rounding, as a compiler might do with C.
    remainder = z * (_L1 + w * (_L3 + w * (_L5 + w * _L7))) + w * (_L2 + w * (_L4 + w * _L6))
    half_square = 0.5 * f * f
    result: FloatArray = (
        s * (half_square + remainder) + k * _LN2_LOW - half_square + f + k * _LN2_HIGH
    )
    return result


LOWEST = float(np.finfo(np.float64).eps)
"""Probabilities are raised to this before the logarithm, as scikit-learn clips them."""

HIGHEST = 1.0 - LOWEST
"""Probabilities are lowered to this before the logarithm."""

_SCALE = float(UNIT)
FRACTION = 1.0 / _SCALE


def loss_units(given: float) -> int:
    """−ln of the probability given to what happened, in units of 2**-60."""
    if given < LOWEST:
        given = LOWEST
    elif given > HIGHEST:
        given = HIGHEST
    return int(-portable_log(given) * _SCALE)


LEAST_LOSS, MOST_LOSS = loss_units(1.0), loss_units(0.0)
"""The log losses of one event, in units, lie between these."""


def loss_column(given: FloatArray) -> FloatArray:
    """−ln of each probability, as :func:`loss_units` before it is cut to units."""
    loss = portable_log_many(np.clip(given, LOWEST, HIGHEST))
    return np.negative(loss, out=loss)


ABSENT = -1
"""The rank of a true class that its event gave no probability: never in the top k."""


EventTerms: TypeAlias = tuple[int, int, int, float, bool]
"""The terms of one event; a plain tuple, which is made in a tenth of the time.

- Log loss and Brier score, in units.
- The number of labels ranked before the true class, or :data:`ABSENT`; 0 of binary events.
- Probability of the predicted label, 0 where the event did not name it, and whether that is the
  true class; of binary events the probability of the positive class, and whether it occurred.
"""


def binary_terms(positive: bool, probability: float) -> EventTerms | None:
    """The terms of one binary event; None where its score is no probability."""
    if not 0.0 <= probability <= 1.0:
        return None
    rest = 1.0 - probability
    given, missed = (probability, rest) if positive else (rest, probability)
    # int() rounds down, as to_units; written out because a call costs 50 ns.
    return loss_units(given), int(missed * missed * _SCALE), 0, probability, positive


def event_terms(y_true: Any, given: Any, y_pred: Any = None) -> EventTerms | None:
    """The terms of one event, of a probability or of a mapping label -> probability.

    Without ``y_pred`` the most probable label is predicted. A Brier term is cut to units cell
    by cell, so that neither the order of the labels nor labels of probability 0 change the bits.
    """
    if type(given) is not dict and (type(given) is float or not isinstance(given, Mapping)):
        return binary_terms(y_true, given)
    rank, own = 0, given.get(y_true)
    if own is None:
        rank, own = ABSENT, 0.0
    missed = 1.0 - own
    brier = int(missed * missed * _SCALE) - int(own * own * _SCALE)
    for label, p in given.items():
        brier += int(p * p * _SCALE)
        if p >= own and rank != ABSENT and (p > own or label > y_true):
            rank += 1
    if y_pred is None:
        y_pred = most_probable(given)
    return loss_units(own), brier, rank, given.get(y_pred, 0.0), y_pred == y_true


def rank_of(y_true: Label, scores: Mapping[Label, float]) -> int:
    """Rank of the true class among scores in any unit; of equal ones the later label is first."""
    own = scores.get(y_true)
    if own is None:
        return ABSENT
    return sum(
        score > own or (score == own and label > y_true)  # type: ignore[operator]
        for label, score in scores.items()
    )


class ColumnTerms(NamedTuple):
    """The terms of n events, of a chunk."""

    given: FloatArray
    """Probability of what happened; 0 where the true class has no column."""
    squares: FloatArray
    """(p_k − [k is true])² of each cell, shape (n, K); of binary events one cell."""
    rank: IntArray | None
    """As of :class:`EventTerms`; None of binary events."""
    confidence: FloatArray
    hit: BoolArray
    weight: WeightArray | None

    def brier_units(self) -> IntArray:
        """Each event's Brier term, in units."""
        brier: IntArray = np.floor(self.squares * _SCALE).astype(np.int64).sum(axis=1)
        if self.rank is not None:
            # A class without a column has no cell to be wrong in by 1.
            brier[self.rank == ABSENT] += UNIT
        return brier

    def loss_fractions(self) -> FloatArray:
        """Each event's log loss, in whole units."""
        return np.floor(loss_column(self.given) * _SCALE) * FRACTION

    def brier_fractions(self) -> FloatArray:
        """Each event's Brier term, in whole units."""
        if self.rank is None:
            return np.floor(self.squares.ravel() * _SCALE) * FRACTION
        return self.brier_units().astype(np.float64) * FRACTION


def columns_of_terms(
    y_true: EventBatch | BoolArray, score: Any = None, weight: WeightArray | None = None
) -> Iterator[ColumnTerms]:
    """The terms of a validated batch, or of columns of binary probabilities, in chunks."""
    if isinstance(y_true, EventBatch):
        yield from _class_terms(y_true)
        return
    for chunk in chunks(len(score)):
        positive, probability = y_true[chunk], score[chunk]
        rest = 1.0 - probability
        missed = np.where(positive, rest, probability)
        missed *= missed
        yield ColumnTerms(
            np.where(positive, probability, rest),
            missed[:, None],
            None,
            probability,
            positive,
            None if weight is None else weight[chunk],
        )


def _class_terms(batch: EventBatch) -> Iterator[ColumnTerms]:
    rows = rows_of(batch)
    size = max(1, CHUNK // max(1, len(rows.places)))
    for start in range(0, len(batch), size):
        part = slice(start, start + size)
        true, predicted, proba = rows.true[part], rows.predicted[part], rows.scores[part]
        given, rank = given_and_ranks(true, proba, rows.places)
        named = np.flatnonzero(true >= 0)
        squares = proba.copy()
        squares[named, true[named]] = 1.0 - given[named]
        squares *= squares
        confidence = np.where(predicted < 0, 0.0, proba[np.arange(len(proba)), predicted])
        weight = None if batch.weight is None else batch.weight[part]
        yield ColumnTerms(given, squares, rank, confidence, rows.hit[part], weight)


class Rows(NamedTuple):
    """The events of a batch of several classes."""

    scores: FloatArray
    """A row for each event, a column for each label that has scores."""
    true: IntArray
    """Column of the true class, :data:`ABSENT` where it has none."""
    predicted: IntArray
    """Column of the predicted label, :data:`ABSENT` where it has none."""
    hit: BoolArray
    """Whether these are one label."""
    places: IntArray
    """The place of each column's label among all, ascending."""


def rows_of(batch: EventBatch) -> Rows:
    """The rows of a batch; without predicted labels the most probable ones are predicted."""
    assert batch.score is not None
    names = batch.score_labels
    columns = _column_codes(batch.labels or (), names)
    true = columns[batch.y_true]
    if batch.y_pred is None:
        predicted = most_probable_columns(batch.score, names)
        hit = true == predicted
    else:
        predicted, hit = columns[batch.y_pred], batch.y_true == batch.y_pred
    return Rows(batch.score, true, predicted, hit, _column_codes(names, sorted(names)))


def _column_codes(labels: Sequence[Label], names: Sequence[Label]) -> IntArray:
    column_of = {label: n for n, label in enumerate(names)}
    return np.array([column_of.get(label, ABSENT) for label in labels], dtype=np.int64)


def given_and_ranks(
    true: IntArray, scores: FloatArray, places: IntArray
) -> tuple[FloatArray, IntArray]:
    """Score and rank of the true class; the arguments are those of :class:`Rows`."""
    named = np.flatnonzero(true >= 0)
    given = np.zeros(len(true))
    given[named] = scores[named, true[named]]
    before = scores > given[:, None]
    before |= (scores == given[:, None]) & (places > places[true][:, None])
    return given, np.where(true < 0, ABSENT, before.sum(axis=1))
