"""Losses of several models on the same events: sums, and squares of their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from streameval.events.event import EventBatch
from streameval.events.values import FloatArray, Label, Weight
from streameval.states.fields import never_counted
from streameval.states.joint_sums import JointSums
from streameval.states.sums.fixed_point import UNIT, sum_units, to_units, total_weight
from streameval.states.sums.loss_terms import FRACTION, columns_of_terms, event_terms
from streameval.states.sums.sum_vector import Field, per_size
from streameval.tasks.comparison import MOST_BRIER, MOST_LOG_LOSS, NO_LOSS

LOG_DIFFERENCE_SCALE = 64
"""The squared differences of log losses are kept divided by this: each is then below 21."""

_EIGHTH = 0.125  # 8² is LOG_DIFFERENCE_SCALE


def losses_of(y_true: Any, given: float | Mapping[Label, float]) -> tuple[float, float]:
    """Log loss and Brier term of one prediction, in whole units of 2**-60; NO_LOSS without."""
    terms = event_terms(y_true, given)
    return (NO_LOSS, NO_LOSS) if terms is None else (terms[0] * FRACTION, terms[1] * FRACTION)


def columns_of_losses(batch: EventBatch) -> FloatArray:
    """:func:`losses_of` each event of a batch with scores, bit for bit, of shape (n, 2)."""
    assert batch.score is not None
    score, inside = batch.score, None
    if not batch.score_labels:
        inside = (score >= 0.0) & (score <= 1.0)
        parts = columns_of_terms(batch.y_true, np.where(inside, score, 0.0))
    else:
        parts = columns_of_terms(batch)
    losses = [np.zeros((0, 2))]
    for terms in parts:
        losses.append(np.column_stack([terms.loss_fractions(), terms.brier_fractions()]))
    table: FloatArray = np.concatenate(losses)
    if inside is not None:
        table[~inside] = NO_LOSS
    return table


def _pairs(models: int) -> int:
    return comb(models, 2)


class JointLosses(JointSums):
    """Σ of each model's losses, and of the squared difference of each pair of models.

    The variance of the difference of two models' losses follows without their events. An event
    that has no probability of some model is left out.

    >>> losses = JointLosses()
    >>> losses.update(1, (0.5, 1.0, 0.25, 0.0), 1, (1, 0))
    >>> units, squares, scale = losses.difference("brier_score", 0, 1)
    >>> losses.weight, units / UNIT, squares * scale / UNIT
    (1, 0.25, 0.0625)
    """

    __slots__ = ()
    NAME = "joint_losses"

    weight = Field[Weight]()
    log_loss = Field[list[Weight]](per_size, MOST_LOG_LOSS * UNIT)
    brier = Field[list[Weight]](per_size, MOST_BRIER * UNIT)
    log_loss_squares = Field[list[Weight]](_pairs, 22 * UNIT)  # (MOST_LOG_LOSS / 8)²
    """Of the pairs of models (0, 1), (0, 2), …."""
    brier_squares = Field[list[Weight]](_pairs, MOST_BRIER**2 * UNIT)

    def difference(self, metric: str, a: int, b: int) -> tuple[Weight, Weight, int]:
        """Σ w·d and Σ w·d² / scale in units of 2**-60, and that scale; d is a's loss less b's."""
        low, high = sorted((a, b))
        pair = comb(self.models, 2) - comb(self.models - low, 2) + high - low - 1
        if metric == "log_loss":
            losses, squares, scale = self.log_loss, self.log_loss_squares, LOG_DIFFERENCE_SCALE
        else:
            losses, squares, scale = self.brier, self.brier_squares, 1
        return losses[a] - losses[b], squares[pair], scale

    def _terms_of(self, y_true: object, given: Any, y_pred: Any) -> list[int] | None:
        # The last numbers are each model's log loss, then each model's Brier term; or there are
        # fewer than two of each model, and no losses.
        models = len(y_pred)
        losses = given[len(given) - 2 * models :]
        if len(given) < 2 * models or min(losses) < 0.0:
            return None
        if self.models not in (0, models):
            raise never_counted("score", given)
        return [1, *map(to_units, losses), *[to_units(d * d) for d in _differences(losses)]]

    def _add(self, terms: list[int] | None, weight: Weight) -> None:
        if terms is not None:
            sums = terms if weight == 1 else [weight * term for term in terms]
            self._add_sums(int((len(sums) - 1) ** 0.5), sums)  # m models: 1 + m·(m + 1) sums

    def _add_many(self, y_true: EventBatch, given: Any, weight: Any) -> None:
        batch = y_true
        assert batch.y_pred is not None
        assert batch.score is not None
        models = batch.y_pred.shape[1]
        if batch.score.shape[1] < 2 * models:
            return
        losses = batch.score[:, -2 * models :]
        known = (losses >= 0.0).all(axis=1)
        if not known.all():
            losses, weight = losses[known], None if weight is None else weight[known]
        if not len(losses):
            return
        columns = list(np.ascontiguousarray(losses.T))
        sums = [len(losses) if weight is None else total_weight(weight)]
        sums += [sum_units(column, weight) for column in columns]
        sums += [sum_units(d * d, weight) for d in _differences(columns)]
        self._add_sums(models, sums)


def _differences(losses: Sequence[Any]) -> list[Any]:
    """For each pair of models the difference of log losses, an eighth of it, and of Brier terms."""
    models = len(losses) // 2
    logs = [(one - other) * _EIGHTH for one, other in combinations(losses[:models], 2)]
    return logs + [one - other for one, other in combinations(losses[models:], 2)]
