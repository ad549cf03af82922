"""Sums over the probabilities of a binary classifier: log loss, Brier, reliability.

Every term is a whole number of units of 2**-60 (see
:mod:`streameval.states.sums.fixed_point`), so the sums do not depend on how the
events were counted: one by one, in batches, from shards, or with others reverted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from streameval.events.truth import canonical_positive, positive_column
from streameval.events.values import (
    MAX_WEIGHT,
    BoolArray,
    FloatArray,
    Weight,
    canonical_score,
    canonical_weight,
    check_same_length,
    score_column,
    weight_column,
)
from streameval.states.backend import compiled
from streameval.states.fields import removable_weight
from streameval.states.ranking.score_groups import ScoreGroups
from streameval.states.ranking.sorted_runs import WeightArray
from streameval.states.sums.fixed_point import CHUNK, UNIT, total_weight
from streameval.states.sums.loss_sums import LossSums, loss_fields, loss_units
from streameval.states.sums.sum_vector import Field

if TYPE_CHECKING:
    from streameval.states.native.native_loss_tally import NativeLossTally

_NATIVE = compiled("streameval.states.native.native_loss_tally")

_SCALE = float(UNIT)


class ProbabilitySums(LossSums):
    """Log loss, Brier score and reliability bins of binary events, as exact sums.

    With q the probability given to what happened, p for a positive event and
    1 − p for a negative one:

        log loss = Σ w · (−ln q) / Σ w      q clipped to [2⁻⁵², 1 − 2⁻⁵²]
        Brier    = Σ w · (1 − q)² / Σ w

    A score outside [0, 1] is no probability and no error either: its weight is
    counted in :attr:`outside` and not in the sums, so that a metric can give the
    reason why margins have no log loss.

    Args:
        bins: Reliability bins of equal width, 1 to 10,000; an inner edge
            belongs to the bin below it.

    Cost:
        About 2 µs an event, 0.06 µs an event of a batch; O(bins) to read.
        Memory does not grow.

    >>> sums = ProbabilitySums()
    >>> sums.update(True, 0.75)
    >>> sums.update(False, 0.5)
    >>> sums.brier_units / UNIT / sums.weight
    0.15625
    """

    __slots__ = ("_outside",)
    NAME = "probability"
    FIELDS = (*loss_fields("bin_positives"), Field("_outside", "outside"))
    MOST_BRIER = UNIT

    def __init__(self, bins: int = 10) -> None:
        super().__init__(bins)
        self._outside: Weight = 0

    def tally(self) -> NativeLossTally | None:
        """Counts plain events of weight 1 in compiled code; None where that was not built."""
        if self._terms is None and _NATIVE is not None:
            self._terms = _NATIVE.NativeLossTally(self)
        tally: NativeLossTally | None = self._terms
        return tally

    def _add_rest(self, rest: int) -> None:
        self._outside += rest

    @property
    def outside(self) -> Weight:
        """Weight of the events whose score is not in [0, 1]."""
        self._settle()
        return self._outside

    @property
    def bin_positives(self) -> list[Weight]:
        """Weight of the positive events in each bin."""
        self._settle()
        return self._bin_hits[:]

    # -- counting --------------------------------------------------------

    def update(self, positive: bool, probability: float, weight: Weight = 1) -> None:
        """Count one event.

        Args:
            positive: Whether the event is positive.
            probability: The probability given to that, in [0, 1].
            weight: Positive.

        Raises:
            InputError: ``positive`` is no bool, 0 or 1; the probability is not
                finite; the weight is not positive. Nothing is counted.
        """
        if positive is not True and positive is not False:
            positive = canonical_positive(positive)
        if type(probability) is not float or not 0.0 <= probability <= 1.0:
            probability = canonical_score(probability, "probability")
        if type(weight) is not int or not 0 < weight <= MAX_WEIGHT:
            weight = canonical_weight(weight)
            if type(weight) is float:
                self._promote()
        self.add_whole(positive, probability, weight)

    def add_whole(self, positive: bool, probability: float, weight: Weight) -> None:
        """:meth:`update` with validated values; whole weights of any size, negative to take back.

        Neither is checked.
        """
        self._settle()
        self._add((positive, probability), weight)

    def _add(self, terms: tuple[bool, float], weight: Weight) -> None:
        positive, probability = terms
        self._whole = None
        if 0.0 <= probability <= 1.0:
            loss, brier = binary_terms(positive, probability)
            self._add_event(loss, brier, probability, positive, weight)
        else:
            self._outside += weight

    def update_many(
        self, positive: object, probability: object, weight: object | None = None
    ) -> None:
        """Count many events, to the same bits as :meth:`update` of each.

        Args:
            positive: Column of bools.
            probability: Column of floats.
            weight: Column of positive weights; None is 1 each.

        Raises:
            InputError: As :meth:`update`, with the position; or the columns
                differ in length. Nothing is counted.
        """
        scores = score_column(probability, "probability")
        flags = positive_column(positive)
        check_same_length(len(flags), len(scores), "probability")
        self._add_many(flags, scores, weight_column(weight, len(flags)))

    def _add_many(
        self, positive: BoolArray, scores: FloatArray, weight: WeightArray | None
    ) -> None:
        self._settle()
        self._whole = None
        if weight is not None and weight.dtype.kind == "f":
            self._promote()
        inside = (scores >= 0.0) & (scores <= 1.0)
        if not inside.all():
            out = ~inside
            self._outside += int(out.sum()) if weight is None else total_weight(weight[out])
            positive, scores = positive[inside], scores[inside]
            weight = None if weight is None else weight[inside]
        for given, missed, _, among in binary_chunks(positive, scores, weight):
            self._add_losses(given, missed * missed, among, among)
        self._add_bins(scores, positive, weight)

    @classmethod
    def from_groups(cls, groups: ScoreGroups, bins: int = 10) -> ProbabilitySums:
        """:meth:`from_blocks` of a single block."""
        return cls.from_blocks((groups,), bins)

    @classmethod
    def from_blocks(cls, blocks: Iterable[ScoreGroups], bins: int = 10) -> ProbabilitySums:
        """The sums over events that a score index already holds.

        Args:
            blocks: Distinct scores with the weight of positives and negatives, as
                :meth:`streameval.ScoreIndex.group_blocks` gives them.
            bins: Reliability bins.

        Returns:
            The same bits as of a state fed with the events, where weights are whole.

        Cost:
            About 0.1 µs a distinct score.
        """
        new = cls(bins)
        for columns in columns_of_blocks(blocks):
            new._add_many(*columns)
        return new

    def revert(self, positive: bool, probability: float, weight: int = 1) -> None:
        """Remove one earlier event, exactly.

        Raises:
            InputError: The weight is not whole, or was not for some event of
                this state; or the remaining sums cannot be those of any events, so
                it was never counted. (Sums cannot detect every such case.)
                Nothing is changed.
        """
        positive = canonical_positive(positive)
        probability = canonical_score(probability, "probability")
        whole = removable_weight(weight, self.exact)
        self._settle()
        self._remove((positive, probability), whole, "probability", probability)

    def _is_sound(self, left: Any = None) -> bool:
        if left is not None and not 0.0 <= left[1] <= 1.0:
            return self._outside >= 0
        return self._outside >= 0 and super()._is_sound(left and left[1])


def columns_of_blocks(
    blocks: Iterable[ScoreGroups],
) -> Iterator[tuple[BoolArray, FloatArray, WeightArray]]:
    """The events of a score index as columns: positive, score, weight."""
    for block in blocks:
        for positive, weight in ((True, block.positives), (False, block.negatives)):
            held = np.flatnonzero(weight)
            flags = np.full(len(held), positive, dtype=np.bool_)
            yield flags, block.scores[held], weight[held]


def binary_chunks(
    positive: BoolArray, scores: FloatArray, weight: WeightArray | None
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray, WeightArray | None]]:
    """Of each chunk :func:`given_and_missed`, the scores and the weights."""
    for start in range(0, len(scores), CHUNK):
        chunk = slice(start, start + CHUNK)
        among = None if weight is None else weight[chunk]
        yield *given_and_missed(positive[chunk], scores[chunk]), scores[chunk], among


def given_and_missed(positive: BoolArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The probability given to what happened, and what it lacks to 1."""
    rest = 1.0 - scores
    return np.where(positive, scores, rest), np.where(positive, rest, scores)


def binary_terms(positive: bool, probability: float) -> tuple[int, int]:
    """Log loss and Brier term of one event, in units."""
    if positive:
        given, missed = probability, 1.0 - probability
    else:
        missed, given = probability, 1.0 - probability
    # int() rounds down, as to_units; written out because a call costs 50 ns.
    return loss_units(given), int(missed * missed * _SCALE)
