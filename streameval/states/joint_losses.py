"""Losses of several models on the same events: sums, and squares of their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np

from streameval.errors import StateError
from streameval.events.event import EventBatch
from streameval.events.values import FloatArray, Label, Weight
from streameval.states.class_probability import chunks_of_terms, event_terms
from streameval.states.fields import (
    MOST_WEIGHT,
    int_field,
    never_counted,
    refuse,
    removable_weight,
    weight_field,
    weights_field,
)
from streameval.states.probability import binary_terms, given_and_missed
from streameval.states.sums.fixed_point import UNIT, sum_units, to_units, total_weight
from streameval.states.sums.loss_sums import loss_column
from streameval.states.sums.sum_vector import Field, Form, Parts, SumVector
from streameval.tasks.comparison import MAX_MODELS, MOST_BRIER, MOST_LOG_LOSS, NO_LOSS

_KEYS = ("log_loss", "brier", "log_loss_squares", "brier_squares")
_SCALE = float(UNIT)
_FRACTION = 1.0 / _SCALE

LOG_DIFFERENCE_SCALE = 64
"""The squared differences of log losses are kept divided by this: each is then below 21."""

_EIGHTH = 0.125  # 8² is LOG_DIFFERENCE_SCALE

_MOST = (
    MOST_LOG_LOSS * UNIT,
    MOST_BRIER * UNIT,
    22 * UNIT,  # (MOST_LOG_LOSS / 8)²
    MOST_BRIER**2 * UNIT,
)


def losses_of(y_true: Any, given: float | Mapping[Label, float]) -> tuple[float, float]:
    """Log loss and Brier term of one prediction, in whole units of 2**-60.

    Args:
        y_true: Whether the event is positive; several classes: its label.
        given: The probability of positive; several classes: label -> probability.

    Returns:
        Both :data:`~streameval.tasks.comparison.NO_LOSS` where the score is no probability.

    >>> losses_of("cat", {"cat": 1.0, "dog": 0.0})[1], losses_of(True, 7.5)
    (0.0, (-1.0, -1.0))
    """
    if isinstance(given, Mapping):
        log_loss, brier = event_terms(y_true, given)[:2]
    elif 0.0 <= given <= 1.0:
        log_loss, brier = binary_terms(y_true, given)
    else:
        return NO_LOSS, NO_LOSS
    return log_loss * _FRACTION, brier * _FRACTION


def columns_of_losses(batch: EventBatch) -> FloatArray:
    """:func:`losses_of` each event of a batch with scores, bit for bit, of shape (n, 2)."""
    assert batch.score is not None
    losses = np.empty((len(batch), 2))
    if not batch.score_labels:
        inside = (batch.score >= 0.0) & (batch.score <= 1.0)
        given, missed = given_and_missed(batch.y_true, np.where(inside, batch.score, 0.0))
        losses[:, 0] = np.floor(loss_column(given) * _SCALE) * _FRACTION
        losses[:, 1] = np.floor(missed * missed * _SCALE) * _FRACTION
        losses[~inside] = NO_LOSS
        return losses
    start = 0
    for terms, _, _ in chunks_of_terms(batch):
        chunk = slice(start, start := start + len(terms.given))
        losses[chunk, 0] = np.floor(loss_column(terms.given) * _SCALE) * _FRACTION
        losses[chunk, 1] = terms.brier_units() * _FRACTION
    return losses


class JointLosses(SumVector):
    """Σ of each model's log loss and Brier term, and of the squared difference of each pair.

    The variance of the difference d of two models' losses follows without their events:

        s² = Σ w·d² / Σ w − ((Σ w·a − Σ w·b) / Σ w)²

    Terms are rounded down to units of 2⁻⁶⁰ and added as integers, so that the sums do not
    depend on how the events were counted. An event that has no probability of some model is
    left out.

    Cost:
        Two models: about 4 µs an event, 0.1 µs an event of a batch. m models: m·(m + 1) sums,
        however many events there are.

    >>> losses = JointLosses()
    >>> losses.update(1, (0.5, 1.0, 0.25, 0.0), 1, (1, 0))
    >>> units, squares, scale = losses.difference("brier_score", 0, 1)
    >>> losses.weight, units / UNIT, squares * scale / UNIT
    (1, 0.25, 0.0625)
    """

    __slots__ = ("_exact", "_models", "_sums", "_weight")
    NAME = "joint_losses"
    SETTINGS = ("models",)
    FIELDS = (Field("_weight", "weight"), Field("_sums", ""))  # the sums are written under _KEYS

    def __init__(self) -> None:
        self._exact = True
        self._weight: Weight = 0
        self._models = 0
        # As of _terms: log losses, Brier terms, then the squares of pairs (0, 1), (0, 2), ….
        self._sums: list[Weight] = []

    # -- reading ---------------------------------------------------------

    @property
    def weight(self) -> Weight:
        """Weight of the events."""
        return self._weight

    @property
    def models(self) -> int:
        """Number of models; 0 without an event."""
        return self._models

    def difference(self, metric: str, a: int, b: int) -> tuple[Weight, Weight, int]:
        """Σ w·d and Σ w·d² / scale in units of 2**-60, and that scale.

        Args:
            metric: ``"log_loss"`` or ``"brier_score"``; d is this loss of a less that of b.
            a: Position of the one model; ``b``: of another.
        """
        models = self._models
        low, high = sorted((a, b))
        pair = comb(models, 2) - comb(models - low, 2) + high - low - 1
        if metric == "log_loss":
            losses, squares, scale = 0, 2 * models, LOG_DIFFERENCE_SCALE
        else:
            losses, squares, scale = models, 2 * models + comb(models, 2), 1
        units = self._sums[losses + a] - self._sums[losses + b]
        return units, self._sums[squares + pair], scale

    # -- counting --------------------------------------------------------

    def update(
        self,
        y_true: object,
        score: Sequence[float],
        weight: Weight = 1,
        y_pred: Sequence[object] = (),
    ) -> None:
        """Count one validated event.

        Args:
            y_true: Ignored.
            score: The last ones are each model's log loss, then each model's Brier term; with
                fewer than two for each model there are none.
            weight: Positive.
            y_pred: Each model's label, of which the number counts.
        """
        if type(weight) is float:
            self._promote()
        terms = _terms(score, len(y_pred))
        if terms is not None:
            self._add(terms, weight)

    def _add(self, terms: _Terms, weight: Weight) -> None:
        self._add_sums([weight * term for term in terms.units], weight, terms.models)

    def _add_sums(self, sums: Sequence[Weight], weight: Weight, models: int) -> None:
        if not self._sums:
            self._models = models
            self._sums = [0 if self._exact else 0.0] * len(sums)
        self._sums = [total + more for total, more in zip(self._sums, sums, strict=True)]
        self._weight += weight
        if not self._weight and not any(self._sums):
            self._models, self._sums = 0, []

    def update_many(self, batch: EventBatch) -> None:
        """Count a validated batch, to the same bits as :meth:`update` of each event."""
        assert batch.y_pred is not None
        assert batch.score is not None
        weight = batch.weight
        if weight is not None and weight.dtype.kind == "f":
            self._promote()
        models = batch.y_pred.shape[1]
        if batch.score.shape[1] < 2 * models:
            return
        losses = batch.score[:, -2 * models :]
        known = (losses >= 0.0).all(axis=1)
        if not known.all():
            losses, weight = losses[known], None if weight is None else weight[known]
        if not len(losses):
            return
        columns = np.ascontiguousarray(losses.T)
        sums = [sum_units(column, weight) for column in columns]
        for part, factor in ((columns[:models], _EIGHTH), (columns[models:], 1.0)):
            for one, other in combinations(part, 2):
                gap = (one - other) * factor
                sums.append(sum_units(gap * gap, weight))
        self._add_sums(sums, len(losses) if weight is None else total_weight(weight), models)

    def revert(
        self,
        y_true: object,
        score: Sequence[float],
        weight: Weight = 1,
        y_pred: Sequence[object] = (),
    ) -> None:
        """Remove one earlier event, exactly; arguments as of :meth:`update`.

        Raises:
            InputError: The weight is not whole, or was not for some event of this state; or the
                remaining sums cannot be those of any events. Nothing is changed.
        """
        whole = removable_weight(weight, self._exact)
        terms = _terms(score, len(y_pred))
        if terms is None:
            return
        if self._models != len(y_pred):
            raise never_counted("score", score)
        self._remove(terms, whole, "score", score)

    def _check_merge(self, other: Any) -> None:
        super()._check_merge(other)
        if 0 not in (self._models, other._models) and self._models != other._models:
            raise StateError(
                f"merge: expected losses of {self._models} models, got {other._models}"
            )

    def _merge(self, other: JointLosses, times: int) -> None:
        if other._sums:
            sums = [times * total for total in other._sums]
            self._add_sums(sums, times * other._weight, other._models)

    # -- written form ----------------------------------------------------

    def _write(self) -> Form:
        parts: Form = {"weight": self._weight}
        start = 0
        for key, size in _sizes(self._models).items():
            parts[key] = self._sums[start : start + size]
            start += size
        return parts

    @classmethod
    def _keys(cls, data: object) -> frozenset[str]:
        return frozenset({"models", "exact", "weight", *_KEYS})

    @classmethod
    def _of_settings(cls, fields: Form) -> JointLosses:
        new = cls()
        new._models = int_field(fields, "models", cls.NAME, 0, MAX_MODELS)
        return new

    def _read(self, fields: Form) -> None:
        self._weight = weight_field(fields, "weight", self.NAME, self._exact)
        most = MOST_WEIGHT * MOST_LOG_LOSS * UNIT
        for key, size in _sizes(self._models).items():
            self._sums += weights_field(fields, key, self.NAME, self._exact, size, most)
        if bool(self._models) != bool(self._weight) or self._models == 1:
            refuse(f"{self.NAME}.models", "a number of models where there are events", self._models)

    @classmethod
    def scaled(cls, parts: Parts, unit: int) -> Form:
        """Written form of Σ factor · sums / unit over written forms, as floats."""
        total = cls()
        for form, factor in parts:
            total.merge(cls.from_state(dict(form)), factor)
        # Of whole sums the division is rounded once, whatever their size.
        total._sums = [part / unit for part in total._sums]
        total._weight = total._weight / unit
        total._exact = False
        return total.to_state()

    def _is_sound(self, left: Any = None) -> bool:
        """Whether some events have these sums."""
        # Float sums of the same terms differ by their order; a millionth is generous.
        weight = self._weight if self._exact else self._weight * 1.000001
        limits = [
            most
            for most, size in zip(_MOST, _sizes(self._models).values(), strict=True)
            for _ in range(size)
        ]
        return weight >= 0 and all(
            0 <= total <= weight * most for total, most in zip(self._sums, limits, strict=True)
        )

    def _check(self) -> None:
        super()._check()
        assert bool(self._weight) == bool(self._models)

    def __repr__(self) -> str:
        return f"<JointLosses of {self._models} models, weight {self._weight}>"


def _sizes(models: int) -> dict[str, int]:
    """How many sums there are of each kind, in their order."""
    pairs = comb(models, 2)
    return dict(zip(_KEYS, (models, models, pairs, pairs), strict=True))


class _Terms(NamedTuple):
    """What one event adds, in units."""

    models: int
    units: list[int]


def _terms(score: Sequence[float], models: int) -> _Terms | None:
    """What one event adds; None where some model has no losses."""
    losses = score[len(score) - 2 * models :]
    if len(score) < 2 * models or min(losses) < 0.0:
        return None
    units = [to_units(loss) for loss in losses]
    for part, factor in ((losses[:models], _EIGHTH), (losses[models:], 1.0)):
        for one, other in combinations(part, 2):
            gap = (one - other) * factor
            units.append(to_units(gap * gap))
    return _Terms(models, units)
