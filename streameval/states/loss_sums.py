"""What binary and multi-class probabilities have in common: two losses and bins.

The part of :class:`~streameval.states.probability.ProbabilitySums` and of
:class:`~streameval.states.class_probability.ClassProbabilitySums` that adds,
takes out, merges and is written.
"""

from __future__ import annotations

from typing import Any

from streameval.errors import StateError, shown
from streameval.events import BoolArray, FloatArray, Weight
from streameval.states.fixed_point import UNIT, sum_units
from streameval.states.loss_terms import loss_column, sound_losses
from streameval.states.reliability import MOST_BINS, ReliabilityBins
from streameval.states.sorted_runs import WeightArray
from streameval.states.state_fields import MOST_WEIGHT, bool_field, int_field, weight_field

__all__ = ["LossSums"]

_MOST_LOSS = 64 * UNIT  # a log loss of one event is below 37


class LossSums:
    """Sums of log loss and Brier terms in units of 2**-60, and reliability bins.

    Args:
        bins: Reliability bins of equal width, 1 to 10,000.
        most_brier: Units of the largest Brier term of one event.

    Attributes:
        bins: The reliability bins.
        exact: False from the first weight that is not whole: all is float then.
        log_loss: Σ weight · term.
        brier: Σ weight · term.

    >>> sums = LossSums(10, UNIT)
    >>> sums.add(UNIT, UNIT // 4, 0.5, True, weight=2)
    >>> sums.brier / UNIT, sums.bins.total()
    (0.5, 2)
    """

    __slots__ = ("bins", "brier", "exact", "log_loss", "most_brier")

    def __init__(self, bins: int, most_brier: int) -> None:
        self.bins = ReliabilityBins(bins)
        self.exact = True
        self.log_loss: Weight = 0
        self.brier: Weight = 0
        self.most_brier = most_brier

    def add(self, loss: int, brier: int, probability: float, hit: bool, weight: Weight) -> None:
        """Count one event: its terms in units, its bin's probability, whether it was a hit."""
        self.log_loss += weight * loss
        self.brier += weight * brier
        self.bins.add(probability, hit, weight)

    def add_losses(
        self, given: FloatArray, squares: FloatArray, weight: WeightArray | None,
        square_weight: WeightArray | None,
    ) -> None:  # fmt: skip
        """Count the losses of many events; :meth:`add_bins` counts their bins.

        Args:
            given: Probability given to what happened.
            squares: Brier terms: one for each event, or one for each cell.
            weight: Of each event.
            square_weight: Of each of ``squares``.
        """
        self.log_loss += sum_units(loss_column(given), weight)
        self.brier += sum_units(squares, square_weight)

    def add_bins(self, probability: FloatArray, hit: BoolArray, weight: WeightArray | None) -> None:
        """Count many events in the bins."""
        self.bins.add_many(probability, hit, weight)

    def remove(self, loss: int, brier: int, probability: float, hit: bool, weight: int) -> bool:
        """Remove one event; False, and nothing changed, when it cannot have been counted."""
        if not self.bins.remove(probability, hit, weight):
            return False
        self.log_loss -= weight * loss
        self.brier -= weight * brier
        if self._agree():
            return True
        self.add(loss, brier, probability, hit, weight)
        return False

    def merge(self, other: LossSums) -> None:
        """Add the other's events; it is unchanged.

        Raises:
            StateError: The other has another number of bins. Nothing is changed.
        """
        self.bins.merge(other.bins)
        if not other.exact:
            self.promote()
        self.log_loss += other.log_loss
        self.brier += other.brier

    def subtract(self, other: LossSums) -> None:
        """Take out all of another that was merged in; both exact."""
        self.bins.subtract(other.bins)
        self.log_loss -= other.log_loss
        self.brier -= other.brier

    def promote(self) -> None:
        """Make all sums floats, for good."""
        self.exact = False
        self.bins.promote()
        self.log_loss = float(self.log_loss)
        self.brier = float(self.brier)

    def copy(self) -> LossSums:
        """Independent sums of the same events."""
        new = LossSums.__new__(LossSums)
        new.bins = self.bins.copy()
        new.exact, new.most_brier = self.exact, self.most_brier
        new.log_loss, new.brier = self.log_loss, self.brier
        return new

    def write(self, hits: str) -> dict[str, Any]:
        """The fields of the written form; ``hits`` names the list of hit weights."""
        return {
            "bins": len(self.bins.weights),
            "exact": self.exact,
            "log_loss_units": self.log_loss,
            "brier_units": self.brier,
            "bin_weights": self.bins.weights[:],
            hits: self.bins.hits[:],
            "bin_probability_units": self.bins.units[:],
        }

    @classmethod
    def read(cls, data: dict[str, Any], name: str, hits: str, most_brier: int) -> LossSums:
        """The sums that :meth:`write` wrote; the keys are known to be there.

        Raises:
            StateError: They are not those of any events.
        """
        exact = bool_field(data, "exact", name)
        new = cls(int_field(data, "bins", name, 1, MOST_BINS), most_brier)
        new.exact = exact
        new.bins.read(data, name, exact, hits)
        most = MOST_WEIGHT * _MOST_LOSS
        new.log_loss = weight_field(data, "log_loss_units", name, exact, most)
        new.brier = weight_field(data, "brier_units", name, exact, most)
        if not new._agree():
            raise StateError(
                f"{name}.log_loss_units: not the losses of events of weight "
                f"{shown(new.bins.total())}"
            )
        return new

    def _agree(self) -> bool:
        """Whether the losses can be those of events of the bins' weight."""
        return sound_losses(self.log_loss, self.brier, self.bins.total(), self.most_brier)

    def _check(self) -> None:
        kind = int if self.exact else float
        values = [self.log_loss, self.brier]
        values += self.bins.weights + self.bins.hits + self.bins.units
        assert all(type(value) is kind for value in values)
        assert self.bins.is_sound()
        assert self._agree()
