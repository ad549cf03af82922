"""Sums over the probabilities of a multi-class classifier: log loss, Brier, ranks, reliability."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from streameval.events.event import EventBatch
from streameval.events.values import IntArray, Weight
from streameval.states.class_events import COMPILED
from streameval.states.fields import PROBABILITIES_KEY, Fields
from streameval.states.ranking.weights import WeightArray
from streameval.states.sums.fixed_point import UNIT, chunks, total_weight, total_weight_by_group
from streameval.states.sums.loss_sums import LossSums
from streameval.states.sums.loss_terms import (
    ABSENT,
    ColumnTerms,
    EventTerms,
    event_terms,
    given_and_ranks,
    rank_of,
    rows_of,
)
from streameval.states.sums.sum_vector import Field, Form, Parts, per_size, total_over


class ClassProbabilitySums(LossSums):
    """Log loss, Brier score, ranks and reliability of multi-class events.

    The losses are those of :func:`streameval.metrics.log_loss` and ``brier_score``. A rank is the
    number of classes before the true one; among equal probabilities the label that sorts later
    is first, as in ``sklearn.metrics.top_k_accuracy_score``. A label that an event does not name
    has probability 0; a true class that is not named has rank −1. Reliability is about the
    predicted label: ``y_pred``, or the most probable one.

    Args:
        bins: Reliability bins of the predicted label's probability, 1 to 10,000.
        probabilities: Whether scores are probabilities. Else only ranks are counted.

    >>> sums = ClassProbabilitySums()
    >>> sums.update("cat", {"cat": 0.5, "dog": 0.25, "cow": 0.25})
    >>> sums.brier_units / UNIT, sums.ranks
    (0.375, {0: 1})
    """

    # The cells of the base are the ranks.
    __slots__ = ("probabilities",)
    NAME = "class_probability"
    VALIDATED = True
    MOST_BRIER = 3 * UNIT  # (1 − p_true)² + Σ p² is at most 2 and a little
    KEYS = LossSums.KEYS | {"bin_correct", "ranks", "rank_weights"}
    OPTIONAL = PROBABILITIES_KEY
    SETTINGS = ("probabilities",)

    bin_correct = Field[list[Weight]](per_size)
    """Of :attr:`bin_weights` the weight of those whose predicted label was true."""

    def __init__(self, bins: int = 10, *, probabilities: bool = True) -> None:
        super().__init__(bins)
        self.probabilities = probabilities
        if COMPILED is not None and probabilities:
            self._terms = COMPILED.NativeClassTerms(self._edges)

    def _empty(self) -> ClassProbabilitySums:
        return ClassProbabilitySums(self.bins, probabilities=self.probabilities)

    def copy(self) -> ClassProbabilitySums:
        """An independent state of the same events."""
        new = super().copy()
        if not self._exact:
            new._terms = None
        return new

    @property
    def FIELD(self) -> str:  # type: ignore[override]  # noqa: N802
        """The argument that errors about an event name."""
        return "proba" if self.probabilities else "score"

    # Reading

    @property
    def weight(self) -> Weight:
        """Weight of all events."""
        if self.probabilities:
            return super().weight
        return sum(self._cells.values()) if self._exact else math.fsum(self._cells.values())

    @property
    def ranks(self) -> dict[int, Weight]:
        """Rank of the true class (0 is the top, −1 not named) -> weight; ranks ascend."""
        self._settle()
        return dict(sorted(self._cells.items()))

    # Counting

    def update(self, y_true: Any, given: Any, weight: Weight = 1, y_pred: Any = None) -> None:
        """Count one validated event; without ``y_pred`` the most probable label is predicted."""
        terms = self._terms
        if (
            terms is not None
            and weight == 1
            and type(weight) is int
            and y_pred is not None
            and terms.count(y_true, given, y_pred)
        ):
            return
        super().update(y_true, given, weight, y_pred)

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> EventTerms | None:
        if self.probabilities:
            return event_terms(y_true, given, y_pred)
        return 0, 0, rank_of(y_true, given), 0.0, False

    def _add(self, terms: EventTerms | None, weight: Weight) -> None:
        assert terms is not None
        if self.probabilities:
            super()._add(terms, weight)
        self._add_cell(terms[2], weight)

    def _add_rest(self, rest: Iterable[tuple[int, int]]) -> None:
        for rank, weight in rest:
            self._add_cell(rank, weight)

    def _add_columns(self, y_true: EventBatch, given: Any, weight: Any) -> None:
        batch = y_true
        if self._terms is None or weight is not None or batch.score is None:
            super()._add_columns(batch, given, weight)
            return
        scores, true, predicted, hit, places = rows_of(batch)
        rows = np.ascontiguousarray(scores)
        self._terms.count_rows(rows, true, predicted, hit.view(np.uint8), places)

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        if self.probabilities:
            super()._add_many(y_true, given, weight)
            return
        rows = rows_of(y_true)
        for part in chunks(len(y_true)):
            _, ranks = given_and_ranks(rows.true[part], rows.scores[part], rows.places)
            self._add_ranks(ranks, len(rows.places), None if weight is None else weight[part])

    def _add_chunk(self, terms: ColumnTerms) -> None:
        super()._add_chunk(terms)
        assert terms.rank is not None
        absent = terms.rank == ABSENT
        if absent.any():
            # A class without a column has no cell to be wrong in by 1.
            weight = terms.weight
            missed = int(absent.sum()) if weight is None else total_weight(weight[absent])
            self._values[2 * self._size + 1] += UNIT * missed
        self._add_ranks(terms.rank, terms.squares.shape[1], terms.weight)

    def _add_ranks(self, ranks: IntArray, columns: int, weight: WeightArray | None) -> None:
        totals = total_weight_by_group(ranks - ABSENT, columns - ABSENT, weight)
        for rank, total in enumerate(totals, ABSENT):
            if total:
                self._add_cell(rank, total)

    # Soundness and other states

    def _fault(self, terms: EventTerms | None = None) -> str:
        agree = True
        if terms is not None:
            agree = self._cells.get(terms[2], 0) >= 0
        elif not self.probabilities:
            agree = not self._in_bins()
        else:
            more, less = self._about(self._in_bins())
            agree = less <= sum(self._cells.values()) <= more
        ranks = "" if agree else ".rank_weights: not of the events that the bins hold"
        return super()._fault(terms) or ranks

    def _promote(self) -> None:
        super()._promote()
        self._terms = None  # counts in integers

    # Written form

    def to_state(self) -> Form:
        """Plain data; equal content gives equal data."""
        form, ranks = super().to_state(), self.ranks
        form["ranks"], form["rank_weights"] = list(ranks), list(ranks.values())
        return form if self.probabilities else {"probabilities": False, **form}

    @classmethod
    def _of_settings(cls, fields: Fields, *settings: Any) -> ClassProbabilitySums:
        return cls(super()._of_settings(fields).bins, probabilities=fields.probabilities())

    def _read(self, fields: Fields) -> None:
        super()._read(fields)
        if not self._exact:
            self._terms = None
        ranks = fields["ranks"]
        if type(ranks) is not list or not all(
            type(rank) is int and ABSENT <= rank < 2**53 for rank in ranks
        ):
            fields.refuse("ranks", f"integers from {ABSENT}", ranks)
        if any(a >= b for a, b in pairwise(ranks)):
            fields.refuse("ranks", "each rank once, ascending", ranks)
        weights = fields.weights("rank_weights", len(ranks))
        if not all(weights):
            fields.refuse("rank_weights", "weights above 0", weights)
        self._cells = dict(zip(ranks, weights, strict=True))

    @classmethod
    def scaled(cls, parts: Parts, unit: int) -> Form:
        """Written form of Σ factor · sums / unit over written forms, as floats."""
        ranks: dict[int, list[tuple[Weight, int]]] = {}
        for form, factor in parts:
            for rank, weight in zip(form["ranks"], form["rank_weights"], strict=True):
                ranks.setdefault(rank, []).append((weight, factor))
        return {
            **{key: False for key in PROBABILITIES_KEY if key in parts[0][0]},
            **super().scaled(parts, unit),
            "ranks": sorted(ranks),
            "rank_weights": [total_over(ranks[rank], unit) for rank in sorted(ranks)],
        }
