"""Every residual of a regression, in order."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events.values import FloatArray, Weight
from streameval.states.fields import never_counted
from streameval.states.score_index import ScoreIndex
from streameval.states.sums.sum_vector import Form


class ResidualIndex:
    """The weight of each distinct residual y_true − y_pred, as a score index whose class is one.

    Cost:
        O(log n) an event; memory grows with the distinct residuals.

    >>> residuals = ResidualIndex()
    >>> residuals.update(3.0, 2.5)
    >>> residuals.update(1.0, 2.0)
    >>> residuals.weights()
    (array([-1. ,  0.5]), array([1, 1]))
    """

    __slots__ = ("index",)

    def __init__(self) -> None:
        self.index = ScoreIndex()

    @classmethod
    def of_plan(cls, plan: Any) -> Self:
        """An empty one; InputError where scores are to be bounded, as residuals are not."""
        if plan.max_scores is not None:
            raise InputError(
                "max_scores",
                expected="no limit beside metrics that keep every residual",
                got=shown(plan.max_scores),
                remedy="conflicts with median_absolute_error, residual_quantile and max_error in "
                "metrics=: leave it out, or pass window=",
            )
        return cls()

    @property
    def weight(self) -> Weight:
        """Weight of the events."""
        return self.index.negatives

    @property
    def exact(self) -> bool:
        """False from the first weight that is not whole."""
        return self.index.exact

    def weights(self) -> tuple[FloatArray, Any]:
        """The distinct residuals, ascending, and the weight of each."""
        groups = self.index.groups()
        return groups.scores, groups.negatives

    def update(self, y_true: float, y_pred: float, weight: Weight = 1) -> None:
        """Count one validated event."""
        self.index.update(False, y_true - y_pred + 0.0, weight)

    def check(self, y_true: float, y_pred: float, weight: Weight = 1) -> None:
        """Raise what :meth:`update` would raise: for too large a total weight."""
        self.index.check(False, y_true - y_pred + 0.0, weight)

    def update_many(self, y_true: FloatArray, y_pred: FloatArray, weight: Any = None) -> None:
        """Count validated columns."""
        negative = np.zeros(len(y_true), dtype=np.bool_)
        self.index.update_many(negative, y_true - y_pred + 0.0, weight)

    def check_many(self, y_true: FloatArray, y_pred: FloatArray, weight: Any = None) -> None:
        """Raise what :meth:`update_many` would raise."""
        self.index.check_many(np.zeros(len(y_true), dtype=np.bool_), y_true, weight)

    def revert(self, y_true: float, y_pred: float, weight: Weight = 1) -> None:
        """Remove one earlier event; InputError where no such residual was counted."""
        try:
            self.index.revert(False, y_true - y_pred + 0.0, weight)
        except InputError as error:
            if error.field == "score":
                raise never_counted("y_pred", y_pred) from None
            raise

    def check_merge(self, other: Self) -> None:
        """Raise InputError for too large a total weight."""
        self.index.check_merge(other.index)

    def merge(self, other: Self, times: int = 1) -> None:
        """Add the other's events so many times; it is unchanged."""
        if not isinstance(other, ResidualIndex):
            raise StateError(f"merge: expected ResidualIndex, got {shown(other)}")
        if times == 1:
            self.index.merge(other.index)
        else:
            self.index.merge(other.index, times)

    def copy(self) -> Self:
        """An independent state of the same events."""
        new = type(self)()
        new.index = self.index.copy()
        return new

    def to_state(self) -> Form:
        """Plain data of the score index; equal content gives equal data."""
        return self.index.to_state()

    @classmethod
    def from_state(cls, data: Any) -> Self:
        """The state that :meth:`to_state` wrote; raises StateError."""
        new = cls()
        try:
            new.index = ScoreIndex.from_state(data)
        except StateError as error:
            raise StateError(f"residuals: {error}") from None
        if new.index.positives or new.index.max_scores is not None:
            raise StateError("residuals: expected negatives only, and no max_scores")
        return new

    def _check(self) -> None:
        self.index._check()
        assert not self.index.positives

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResidualIndex) and self.index == other.index

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __reduce__(self) -> tuple[Any, ...]:
        return ResidualIndex.from_state, (self.to_state(),)

    def __repr__(self) -> str:
        return f"<ResidualIndex of weight {self.weight}>"
