"""Sums over the probabilities of a binary classifier: log loss, Brier, reliability."""

from __future__ import annotations

from typing import Any

from streameval.events.truth import canonical_positive
from streameval.events.values import Weight, canonical_score
from streameval.states.backend import compiled
from streameval.states.sums.fixed_point import UNIT, total_weight
from streameval.states.sums.loss_sums import LossSums
from streameval.states.sums.loss_terms import EventTerms, binary_terms
from streameval.states.sums.sum_vector import Field, per_size

_NATIVE = compiled("streameval.states.native.native_tallies")


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

    __slots__ = ()
    NAME = "probability"
    FIELD = "probability"
    MOST_BRIER = UNIT

    bin_positives = Field[list[Weight]](per_size)
    """Weight of the positive events in each bin."""
    outside = Field[Weight]()
    """Weight of the events whose score is not in [0, 1]."""

    def tally(self) -> Any:
        """Counts events of whole weight in compiled code; None where that was not built."""
        if self._terms is None and _NATIVE is not None:
            self._terms = _NATIVE.NativeLossTally(self)
        return self._terms

    def update(  # type: ignore[override]  # the names of a binary event's arguments
        self, positive: bool, probability: float, weight: Weight = 1
    ) -> None:
        """Count one event.

        Args:
            positive: Whether the event is positive.
            probability: The probability given to that, in [0, 1].
            weight: Above 0.

        Raises:
            InputError: One of them is none of that. Nothing is counted.
        """
        LossSums.update(self, positive, probability, weight)

    def update_many(  # type: ignore[override]
        self, positive: object, probability: object, weight: object | None = None
    ) -> None:
        """Count columns of events, to the same bits as :meth:`update` of each.

        Raises:
            InputError: As :meth:`update`, with the position; or the columns
                differ in length. Nothing is counted.
        """
        LossSums.update_many(self, positive, probability, weight)

    def revert(  # type: ignore[override]
        self, positive: bool, probability: float, weight: int = 1
    ) -> None:
        """Remove one earlier event, exactly.

        Raises:
            InputError: A weight is or was not whole; or no events have the remaining sums, so
                this one was never counted (sums cannot detect every such case). Nothing is
                changed.
        """
        LossSums.revert(self, positive, probability, weight)

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> EventTerms | None:
        if y_true is not True and y_true is not False:
            y_true = canonical_positive(y_true)
        if type(given) is not float or not 0.0 <= given <= 1.0:
            given = canonical_score(given, "probability")
        return binary_terms(y_true, given)

    def _add_rest(self, rest: int) -> None:
        self._values[-1] += rest

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        inside = (given >= 0.0) & (given <= 1.0)
        if not inside.all():
            out = ~inside
            self._add(None, int(out.sum()) if weight is None else total_weight(weight[out]))
            y_true, given = y_true[inside], given[inside]
            weight = None if weight is None else weight[inside]
        super()._add_many(y_true, given, weight)

    def _fault(self, terms: EventTerms | None = None) -> str:
        return super()._fault(terms) if self._values[-1] >= 0 else ".outside: below 0"
