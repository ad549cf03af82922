"""Second moments of log loss, Brier score and calibration gaps: what their intervals read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from streameval.events.event import EventBatch
from streameval.events.truth import positive_column
from streameval.events.values import (
    BoolArray,
    FloatArray,
    Label,
    Weight,
    canonical_weight,
    score_column,
    weight_column,
)
from streameval.states.class_probability import chunks_of_terms, event_terms
from streameval.states.fields import MOST_WEIGHT, int_field, removable_weight
from streameval.states.probability import binary_chunks, binary_terms, columns_of_blocks
from streameval.states.ranking.score_groups import ScoreGroups
from streameval.states.ranking.sorted_runs import WeightArray
from streameval.states.sums.fixed_point import (
    UNIT,
    sum_units,
    sum_units_by_group,
    to_units,
    total_weight,
)
from streameval.states.sums.loss_sums import MOST_BINS, bin_edges, loss_column
from streameval.states.sums.sum_vector import Field, Form, QueuedSums, plus

_SCALE = float(UNIT)

LOG_LOSS_SCALE = 64
"""The squares of log losses are kept divided by this, so that each is below 64."""

_FRACTION = 1.0 / _SCALE
_EIGHTH = _FRACTION / 8.0  # 8² is LOG_LOSS_SCALE
_MOST_LOSS = 21 * UNIT  # (36.05 / 8)²
_MOST_BRIER = 9 * UNIT  # a Brier term is below 3
_MOST = MOST_WEIGHT * _MOST_LOSS


class _Terms(NamedTuple):
    """What one event adds, in units."""

    log_loss: int
    brier: int
    gap: int
    probability: float
    """Of its reliability bin."""


class LossSquares(QueuedSums):
    """Σ of the squared log loss, Brier term and calibration gap of each event.

    Beside the sums of the same terms in :class:`~streameval.states.probability.ProbabilitySums`
    or :class:`~streameval.states.class_probability.ClassProbabilitySums` they give the
    variance of a loss, and of the gap p − y in each reliability bin:

        s² = Σ w·x² / Σ w − (Σ w·x / Σ w)²

    The terms are those of these states, rounded down to units of 2⁻⁶⁰, and their squares are
    rounded down to units again (of log loss: of 2⁻⁵⁴), so that the sums do not depend on how
    the events were counted. Binary scores outside [0, 1] are no probabilities and are left out.

    Args:
        bins: Reliability bins of equal width, 1 to 10,000.

    Cost:
        About 4 µs an event, 0.1 µs an event of a batch. Memory does not grow.

    >>> squares = LossSquares()
    >>> squares.update(True, 0.5)
    >>> squares.update("cat", {"cat": 0.5, "dog": 0.5})
    >>> squares.brier_squares / UNIT, squares.weight
    (0.3125, 2)
    """

    __slots__ = ("_bins", "_brier", "_edges", "_exact", "_log_loss", "_weight")
    NAME = "loss_squares"
    SETTINGS = ("bins",)
    FIELDS = (
        Field("_weight", "weight"),
        Field("_log_loss", "log_loss_squares", _MOST),
        Field("_brier", "brier_squares", _MOST),
        Field("_bins", "bin_gap_squares", _MOST),
    )

    def __init__(self, bins: int = 10) -> None:
        super().__init__()
        self._edges = bin_edges(bins)
        self._exact = True
        self._weight: Weight = 0
        self._log_loss: Weight = 0
        self._brier: Weight = 0
        self._bins: list[Weight] = [0] * bins

    def _empty(self) -> LossSquares:
        return LossSquares(self.bins)

    @classmethod
    def _of_settings(cls, fields: Form) -> LossSquares:
        return cls(int_field(fields, "bins", cls.NAME, 1, MOST_BINS))

    # -- reading ---------------------------------------------------------

    @property
    def bins(self) -> int:
        """How many reliability bins."""
        return len(self._bins)

    @property
    def weight(self) -> Weight:
        """Weight of the events."""
        self._settle()
        return self._weight

    @property
    def log_loss_squares(self) -> Weight:
        """Σ weight · (ln q)², in units of 2**-54."""
        self._settle()
        return self._log_loss

    @property
    def brier_squares(self) -> Weight:
        """Σ weight · Brier term², in units of 2**-60."""
        self._settle()
        return self._brier

    @property
    def bin_gap_squares(self) -> list[Weight]:
        """Σ weight · (p − y)² in each reliability bin, in units of 2**-60."""
        self._settle()
        return self._bins[:]

    # -- counting --------------------------------------------------------

    def update(
        self,
        y_true: bool | Label,
        given: float | Mapping[Label, float],
        weight: Weight = 1,
        y_pred: Label | None = None,
    ) -> None:
        """Count one validated event.

        Args:
            y_true: Whether it is positive; several classes: the true one.
            given: The probability of positive; several classes: label -> probability.
            weight: Positive.
            y_pred: Several classes: the predicted label; None is the most probable one.
        """
        if type(weight) is not int:
            weight = canonical_weight(weight)
            if type(weight) is float:
                self._promote()
        terms = _terms(y_true, given, y_pred)
        if terms is not None:
            self._add(terms, weight)

    def _add(self, terms: _Terms, weight: Weight) -> None:
        self._weight += weight
        self._log_loss += weight * terms.log_loss
        self._brier += weight * terms.brier
        self._bins[bisect_left(self._edges, terms.probability)] += weight * terms.gap

    def update_many(self, first: Any, score: object = None, weight: object = None) -> None:
        """Count many events, to the same bits as :meth:`update` of each.

        Args:
            first: Column of bools; several classes: a validated batch.
            score: Column of probabilities.
            weight: Column of positive weights; None is 1 each.
        """
        if isinstance(first, EventBatch):
            if first.weight is not None and first.weight.dtype.kind == "f":
                self._promote()
            for terms, hit, part in chunks_of_terms(first):
                gap = terms.confidence - hit
                self._add_columns(
                    terms.given, terms.brier_units(), gap * gap, terms.confidence, part
                )
        else:
            flags = positive_column(first)
            scores = score_column(score, "probability")
            self._add_binary(flags, scores, weight_column(weight, len(flags)))

    def _add_binary(
        self, positive: BoolArray, scores: FloatArray, weight: WeightArray | None
    ) -> None:
        if weight is not None and weight.dtype.kind == "f":
            self._promote()
        inside = (scores >= 0.0) & (scores <= 1.0)
        if not inside.all():
            positive, scores = positive[inside], scores[inside]
            weight = None if weight is None else weight[inside]
        for given, missed, probability, among in binary_chunks(positive, scores, weight):
            missed *= missed
            self._add_columns(given, np.floor(missed * _SCALE), missed, probability, among)

    def _add_columns(
        self,
        given: FloatArray,
        brier: Any,
        gap: FloatArray,
        probability: FloatArray,
        weight: WeightArray | None,
    ) -> None:
        """Count a chunk: Brier terms in whole units, gaps squared."""
        self._weight += len(given) if weight is None else total_weight(weight)
        eighths = np.floor(loss_column(given) * _SCALE) * _EIGHTH
        self._log_loss += sum_units(eighths * eighths, weight)
        terms = brier * _FRACTION
        self._brier += sum_units(terms * terms, weight)
        groups = np.searchsorted(self._edges, probability)
        self._bins = plus(self._bins, sum_units_by_group(gap, groups, len(self._bins), weight), 1)

    @classmethod
    def from_blocks(cls, blocks: Iterable[ScoreGroups], bins: int = 10) -> LossSquares:
        """The sums over events that a score index already holds.

        Args:
            blocks: As :meth:`streameval.ScoreIndex.group_blocks` gives them.
            bins: Reliability bins.

        Returns:
            The same bits as of a state fed with the events, where weights are whole.

        Cost:
            About 0.1 µs a distinct score.
        """
        new = cls(bins)
        for columns in columns_of_blocks(blocks):
            new._add_binary(*columns)
        return new

    def revert(
        self,
        y_true: bool | Label,
        given: float | Mapping[Label, float],
        weight: Weight = 1,
        y_pred: Label | None = None,
    ) -> None:
        """Remove one earlier event, exactly; arguments as of :meth:`update`.

        Raises:
            InputError: The weight is not whole, or was not for some event of this state; or
                the remaining sums cannot be those of any events. Nothing is changed.
        """
        whole = removable_weight(weight, self._exact)
        terms = _terms(y_true, given, y_pred)
        if terms is not None:
            self._remove(terms, whole, "probability", given)

    def _is_sound(self, left: Any = None) -> bool:
        """Whether some events have these sums."""
        # Float sums of the same terms differ by their order; a millionth is generous.
        weight = self._weight if self._exact else self._weight * 1.000001
        return (
            0 <= self._log_loss <= weight * _MOST_LOSS
            and 0 <= self._brier <= weight * _MOST_BRIER
            and min(self._bins) >= 0
            and sum(self._bins) <= weight * UNIT
        )


def _terms(y_true: Any, given: Any, y_pred: Any) -> _Terms | None:
    """The terms of one event; None where its score is no probability."""
    if isinstance(given, Mapping):
        loss, brier, _, probability, hit = event_terms(y_true, given, y_pred)
        gap = probability - hit
        gap_square = to_units(gap * gap)
    else:
        if not 0.0 <= given <= 1.0:
            return None
        loss, brier = binary_terms(y_true, given)
        probability, gap_square = given, brier
    eighths, term = loss * _EIGHTH, brier * _FRACTION
    return _Terms(to_units(eighths * eighths), to_units(term * term), gap_square, probability)
