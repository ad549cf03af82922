"""Mean and variance of the scores of each class, without rounding on the way.

Σx and Σx² are exact sums (:class:`~streameval.states.sums.exact_sum.ExactSum`), so
the variance does not suffer from large means or from the order of events, and
a reverted event does not change the bits.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from streameval.errors import StateError
from streameval.events.truth import canonical_positive, positive_column
from streameval.events.values import (
    MAX_WEIGHT,
    FloatArray,
    Weight,
    canonical_score,
    canonical_weight,
    check_same_length,
    score_column,
    weight_column,
)
from streameval.states.fields import MOST_WEIGHT, fields_of, refuse, removable_weight
from streameval.states.ranking.score_groups import ScoreGroups
from streameval.states.ranking.sorted_runs import WeightArray
from streameval.states.sums.exact_sum import ExactSum, inverse_of, nearest_float, scaled_sum
from streameval.states.sums.sum_vector import Field, Form, Parts, QueuedSums

_CLASSES = ("negative", "positive")  # in the order of False and True
_PARTS = frozenset({"weight", "sum", "squares"})


class ScoreMoments(QueuedSums):
    """Exact Σw, Σw·x and Σw·x² of the scores of positives and of negatives.

    Serves the binormal model: means and variances in memory that does not grow
    with the number of events. Scores may be any finite floats.

    Weights that are not whole are summed exactly too, but as in every other
    state they end ``exact`` and with it :meth:`revert`.

    Cost:
        About 2 µs an event, 0.04 µs an event of a batch. Memory: some 100
        bytes for scores of like size, up to a few kB where they span the whole
        range of floats.

    >>> moments = ScoreMoments()
    >>> for positive, score in [(True, 3.0), (True, 5.0), (False, 1.0)]:
    ...     moments.update(positive, score)
    >>> moments.count(True), moments.mean(True), moments.variance(True)
    (2, 4.0, 1.0)
    """

    __slots__ = ("_exact", "_squares", "_sums", "_weights")
    NAME = "moments"
    FIELDS = (Field("_weights", "weight"), Field("_sums", "sum"), Field("_squares", "squares"))

    def __init__(self) -> None:
        super().__init__()
        # Each pair is (negatives, positives), indexed by the bool.
        self._weights = (ExactSum(), ExactSum())
        self._sums = (ExactSum(), ExactSum())
        self._squares = (ExactSum(), ExactSum())
        self._exact = True

    # -- reading ---------------------------------------------------------

    def count(self, positive: bool) -> Weight:
        """The weight of one class: an int, or a float once :attr:`exact` is False."""
        self._settle()
        weight = self._weights[positive]
        return weight.as_integer_ratio()[0] if self._exact else weight.value()

    def mean(self, positive: bool) -> float | None:
        """Σwx / Σw of one class, correctly rounded; None when it has no event."""
        self._settle()
        count, over = self._weights[positive].as_integer_ratio()
        if not count:
            return None
        total, under = self._sums[positive].as_integer_ratio()
        return nearest_float(total * over, under * count)

    def mean_difference(self) -> float | None:
        """The mean of the positives less that of the negatives, rounded once; None without both.

        Of large scores, two means rounded first would differ by what is lost in rounding.
        """
        self._settle()
        parts = []
        for weights, sums in zip(self._weights, self._sums, strict=True):
            count, over = weights.as_integer_ratio()
            if not count:
                return None
            total, under = sums.as_integer_ratio()
            parts.append((total * over, under * count))
        (low, below), (high, under) = parts
        return nearest_float(high * below - low * under, under * below)

    def variance(self, positive: bool) -> float | None:
        """Population variance of the scores of one class, correctly rounded.

        Σwx²/Σw − (Σwx/Σw)² as one exact fraction and one division.

        Returns:
            At least 0, 0 for a single score; ``inf`` where it is beyond the
            largest float; None when the class has no event.
        """
        self._settle()
        count, over = self._weights[positive].as_integer_ratio()
        if not count:
            return None
        numerator, denominator = self._spread(positive)
        return nearest_float(numerator * over, denominator * count * count)

    def _spread(self, positive: bool) -> tuple[int, int]:
        """``count · Σwx² − over · (Σwx)²`` as a fraction; never negative."""
        count, over = self._weights[positive].as_integer_ratio()
        total, under = self._sums[positive].as_integer_ratio()
        squares, below = self._squares[positive].as_integer_ratio()
        numerator = squares * count * under * under - total * total * over * below
        return numerator, below * under * under

    # -- counting --------------------------------------------------------

    def update(self, positive: bool, score: float, weight: Weight = 1) -> None:
        """Count one event.

        Args:
            positive: Whether the event is positive.
            score: Any finite number.
            weight: Positive.

        Raises:
            InputError: A value is not as said. Nothing is counted.
        """
        if positive is not True and positive is not False:
            positive = canonical_positive(positive)
        score = canonical_score(score)
        if type(weight) is not int or not 0 < weight <= MAX_WEIGHT:
            weight = canonical_weight(weight)
            if type(weight) is float:
                self._exact = False
        self._add((positive, score), weight)

    def _add(self, terms: tuple[bool, float], weight: Weight) -> None:
        positive, score = terms
        self._weights[positive].add(weight)
        self._sums[positive].add(score, weight)
        self._squares[positive].add_square(score, weight)

    def update_many(self, positive: object, score: object, weight: object | None = None) -> None:
        """Count many events, to the same bits as :meth:`update` of each.

        Args:
            positive: Column of bools.
            score: Column of finite numbers.
            weight: Column of positive weights; None is 1 each.

        Raises:
            InputError: As :meth:`update`, with the position; or the columns
                differ in length. Nothing is counted.
        """
        scores = score_column(score)
        flags = positive_column(positive)
        check_same_length(len(flags), len(scores), "score")
        weights = weight_column(weight, len(flags))
        for wanted in (False, True):
            held = np.flatnonzero(flags == wanted)
            self._add_many(wanted, scores[held], None if weights is None else weights[held])
        if weights is not None and weights.dtype.kind == "f":
            self._exact = False

    def _add_many(self, positive: bool, scores: FloatArray, weight: WeightArray | None) -> None:
        self._sums[positive].add_many(scores, weight)
        self._squares[positive].add_squares_many(scores, weight)
        if weight is None:
            self._weights[positive].add(len(scores))
        else:
            self._weights[positive].add_many(np.ones(len(scores)), weight)

    @classmethod
    def from_groups(cls, groups: ScoreGroups) -> ScoreMoments:
        """:meth:`from_blocks` of a single block."""
        return cls.from_blocks((groups,))

    @classmethod
    def from_blocks(cls, blocks: Iterable[ScoreGroups]) -> ScoreMoments:
        """The moments of events that a score index already holds.

        Args:
            blocks: Distinct scores with the weight of positives and negatives, as
                :meth:`streameval.ScoreIndex.group_blocks` gives them.

        Returns:
            The same bits as of a state fed with the events, where weights are whole.

        Cost:
            About 0.1 µs a distinct score.
        """
        new = cls()
        for block in blocks:
            for wanted, weight in ((False, block.negatives), (True, block.positives)):
                held = np.flatnonzero(weight)
                new._add_many(wanted, block.scores[held], weight[held])
                new._exact &= weight.dtype.kind != "f"
        return new

    def revert(self, positive: bool, score: float, weight: int = 1) -> None:
        """Take one earlier event out, exactly.

        Raises:
            InputError: The weight is not whole, or was not for some event of
                this state; or no events have the moments that would be left,
                so this one was never counted. (Moments cannot detect every such case.)
                Nothing is changed.
        """
        positive = canonical_positive(positive)
        score = canonical_score(score)
        whole = removable_weight(weight, self._exact)
        self._remove((positive, score), whole, "score", score)

    # -- written form ----------------------------------------------------

    def _write(self) -> Form:
        return {
            name: {key: getattr(self, part)[positive].to_state() for part, key, _ in self.FIELDS}
            for positive, name in enumerate(_CLASSES)
        }

    @classmethod
    def _keys(cls, data: object) -> frozenset[str]:
        return frozenset({"exact", *_CLASSES})

    def _read(self, fields: Form) -> None:
        read = []
        for name in _CLASSES:
            path = f"{self.NAME}.{name}"
            part = fields_of(fields[name], path, _PARTS)
            read.append(
                [ExactSum.from_state(part[key], f"{path}.{key}") for _, key, _ in self.FIELDS]
            )
        self._weights, self._sums, self._squares = zip(*read, strict=True)

    def _refuse_unsound(self) -> None:
        for positive, name in enumerate(_CLASSES):
            if self._exact and self._weights[positive].as_integer_ratio()[1] != 1:
                refuse(f"moments.{name}.weight", "a whole weight", self.count(bool(positive)))
            sound = self._is_sound((bool(positive), 0.0))
            if self._weights[positive].value() > MOST_WEIGHT or not sound:
                raise StateError(f"moments.{name}: no events have these sums")

    @classmethod
    def scaled(cls, parts: Parts, unit: int) -> Form:
        """Written form of Σ factor · sums / unit over written forms."""
        # Rounding each sum separately could make a variance of 0 negative. All are
        # multiplied by one number instead.
        inverse, shift = inverse_of(unit)
        form: Form = {"exact": False}
        for name in _CLASSES:
            form[name] = {
                key: scaled_sum([(part[name][key], by) for part, by in parts], inverse, shift)
                for _, key, _ in cls.FIELDS
            }
        return form

    def _is_sound(self, left: tuple[bool, float] | None = None) -> bool:
        if left is None:
            return all(self._is_sound((positive, 0.0)) for positive in (False, True))
        # Of the event's class: Σw · Σwx² ≥ (Σwx)², and 0 only with 0.
        positive = left[0]
        count = self._weights[positive].as_integer_ratio()[0]
        total = self._sums[positive].as_integer_ratio()[0]
        squares = self._squares[positive].as_integer_ratio()[0]
        if count <= 0:
            return count == total == squares == 0
        return squares >= 0 and self._spread(positive)[0] >= 0

    def _check(self) -> None:
        super()._check()
        assert not self._exact or all(w.as_integer_ratio()[1] == 1 for w in self._weights)

    def __repr__(self) -> str:
        return f"<ScoreMoments of {self.count(True)} positives, {self.count(False)} negatives>"
