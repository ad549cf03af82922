"""Mean and variance of the scores of each class, without rounding on the way."""

from __future__ import annotations

from typing import Any

import numpy as np

from streameval.events.truth import canonical_positive
from streameval.events.values import Weight, canonical_score
from streameval.states.fields import MOST_WEIGHT, Fields
from streameval.states.sums.exact_sum import ExactSum, nearest_float, scaled_sum
from streameval.states.sums.sum_vector import Field, Form, Parts, SumVector

_CLASSES = ("negative", "positive")  # in the order of False and True
_SUMS = ("weight", "sum", "squares")  # of each class, in the order of the fields


class ScoreMoments(SumVector):
    """Exact Σw, Σw·x and Σw·x² of the scores of positives and of negatives.

    Serves the binormal model: means and variances in memory that does not grow with the number
    of events. Scores may be any finite floats. Weights that are not whole end ``exact`` and
    with it :meth:`revert`.

    Cost:
        About 2 µs an event, 0.04 µs an event of a batch. Memory: some 100
        bytes for scores of like size, up to a few kB of the whole range of floats.

    >>> moments = ScoreMoments()
    >>> for positive, score in [(True, 3.0), (True, 5.0), (False, 1.0)]:
    ...     moments.update(positive, score)
    >>> moments.count(True), moments.mean(True), moments.variance(True)
    (2, 4.0, 1.0)
    """

    __slots__ = ()
    NAME = "moments"

    # Each list is of the negatives and of the positives, indexed by the bool.
    _weights = Field[list[ExactSum]](2, kind=ExactSum)
    _sums = Field[list[ExactSum]](2, kind=ExactSum)
    _squares = Field[list[ExactSum]](2, kind=ExactSum)
    KEYS = frozenset({"exact", *_CLASSES})

    def __init__(self) -> None:
        super().__init__()

    # -- reading ---------------------------------------------------------

    def count(self, positive: bool) -> Weight:
        """The weight of one class: an int, or a float once :attr:`exact` is False."""
        weight = self._weights[positive]
        return weight.as_integer_ratio()[0] if self._exact else weight.value()

    def _ratios(self, positive: bool) -> list[int]:
        """Numerator and denominator of Σw, of Σw·x and of Σw·x² of one class."""
        self._settle()
        return [n for each in self._values[positive::2] for n in each.as_integer_ratio()]

    def mean(self, positive: bool) -> float | None:
        """Σwx / Σw of one class, correctly rounded; None when it has no event."""
        count, over, total, under, _, _ = self._ratios(positive)
        return nearest_float(total * over, under * count) if count else None

    def mean_difference(self) -> float | None:
        """The mean of the positives less that of the negatives, rounded once; None without both."""
        few, of_few, low, below, _, _ = self._ratios(False)
        many, of_many, high, under, _, _ = self._ratios(True)
        if not (few and many):
            return None
        low, below, high, under = low * of_few, below * few, high * of_many, under * many
        return nearest_float(high * below - low * under, under * below)

    def variance(self, positive: bool) -> float | None:
        """Population variance of the scores of one class, at least 0, correctly rounded.

        0 for a single score; ``inf`` beyond the largest float; None when the class has no event.
        """
        count, over, total, under, squares, below = self._ratios(positive)
        if not count:
            return None
        numerator = squares * count * under**2 - total**2 * over * below
        return nearest_float(numerator * over, below * under**2 * count**2)

    @property
    def weight(self) -> Weight:
        """The weight of both classes."""
        return self.count(True) + self.count(False)

    # -- counting --------------------------------------------------------

    def update(  # type: ignore[override]  # the names of a binary event's arguments
        self, positive: bool, score: float, weight: Weight = 1
    ) -> None:
        """Count one event, of any finite score; else as :meth:`ProbabilitySums.update`."""
        SumVector.update(self, positive, score, weight)

    def update_many(  # type: ignore[override]
        self, positive: object, score: object, weight: object | None = None
    ) -> None:
        """Count columns of events; see :meth:`ProbabilitySums.update_many`."""
        SumVector.update_many(self, positive, score, weight)

    def revert(  # type: ignore[override]
        self, positive: bool, score: float, weight: int = 1
    ) -> None:
        """Remove one earlier event, exactly; see :meth:`ProbabilitySums.revert`."""
        SumVector.revert(self, positive, score, weight)

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> tuple[bool, float]:
        if y_true is not True and y_true is not False:
            y_true = canonical_positive(y_true)
        return y_true, canonical_score(given)

    def _add(self, terms: tuple[bool, float], weight: Weight) -> None:
        positive, score = terms
        values = self._values
        values[positive].add(weight)
        values[2 + positive].add(score, weight)
        values[4 + positive].add_square(score, weight)

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        for positive in (False, True):
            held = np.flatnonzero(y_true == positive)
            scores, by = given[held], None if weight is None else weight[held]
            weights, sums, squares = self._values[positive::2]
            sums.add_many(scores, by)
            squares.add_squares_many(scores, by)
            if by is None:
                weights.add(len(scores))
            else:
                weights.add_many(np.ones(len(scores)), by)

    # -- written form ----------------------------------------------------

    def to_state(self) -> Form:
        """Plain data; equal content gives equal data."""
        self._settle()
        return {"exact": self._exact, **_of_classes([each.to_state() for each in self._values])}

    def _read(self, fields: Fields) -> None:
        for n, name in enumerate(_CLASSES):
            path = f"{self.NAME}.{name}"
            part = Fields(fields[name], path, {*_SUMS})
            self._values[n::2] = [ExactSum.from_state(part[key], f"{path}.{key}") for key in _SUMS]

    @classmethod
    def scaled(cls, parts: Parts, unit: int) -> Form:
        """Written form of Σ factor · sums / unit over written forms."""
        # Rounding each sum separately could make a variance of 0 negative. All are
        # multiplied by one number instead.
        factors = [factor for _, factor in parts]
        sums = [
            scaled_sum([part[name][key] for part, _ in parts], factors, unit)
            for key in _SUMS
            for name in _CLASSES
        ]
        return {"exact": False, **_of_classes(sums)}

    def __getstate__(self) -> object:
        # As pickles of versions before have it.
        self._settle()
        weights, sums, squares = (tuple(self._values[at : at + 2]) for at in (0, 2, 4))
        parts = {"_exact": self._exact, "_weights": weights, "_sums": sums, "_squares": squares}
        return None, parts

    def __setstate__(self, state: tuple[None, Form]) -> None:
        self.__init__()  # type: ignore[misc]
        parts = state[1]
        self._exact = parts["_exact"]
        self._values = [*parts["_weights"], *parts["_sums"], *parts["_squares"]]

    def _fault(self, terms: tuple[bool, float] | None = None) -> str:
        for positive in (False, True) if terms is None else terms[:1]:
            name = _CLASSES[positive]
            count, over, total, under, squares, below = self._ratios(positive)
            if self._exact and over != 1:
                return f".{name}.weight: expected a whole weight, got {nearest_float(count, over)}"
            # Σw · Σwx² ≥ (Σwx)², and 0 only with 0.
            sound = squares >= 0 and squares * count * under**2 >= total**2 * below * over
            if count <= 0:
                sound = count == total == squares == 0
            if not sound or count > over * MOST_WEIGHT:
                return f".{name}: no events have these sums"
        return ""

    def __repr__(self) -> str:
        return f"<ScoreMoments of {self.count(True)} positives, {self.count(False)} negatives>"


def _of_classes(sums: list[Any]) -> Form:
    """The written form of each class's sums, which alternate."""
    return {name: dict(zip(_SUMS, sums[n::2], strict=True)) for n, name in enumerate(_CLASSES)}
