"""Sums over the probabilities of a multi-class classifier.

Log loss, Brier score, the rank of the true class, and reliability of the
predicted label: the first two are sums of units of 2**-60 (see
:mod:`streameval.states.sums.fixed_point`), the rest are weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streameval.errors import StateError
from streameval.events.event import EventBatch
from streameval.events.values import (
    BoolArray,
    FloatArray,
    IntArray,
    Label,
    Weight,
    most_probable,
    most_probable_columns,
)
from streameval.states.class_events import COMPILED
from streameval.states.fields import refuse, removable_weight, weights_field
from streameval.states.ranking.sorted_runs import WeightArray
from streameval.states.sums.fixed_point import CHUNK, UNIT, total_weight, total_weight_by_group
from streameval.states.sums.loss_sums import LossSums, loss_fields, loss_units
from streameval.states.sums.sum_vector import Form, Parts, total_over

_SIGNED = "probabilities"
_SCALE = float(UNIT)

# What one multi-class event adds to the sums over probabilities.
#
# Written twice, for one event and for many, to the same bits: a Brier term is
# cut to units cell by cell, so that neither the order of the labels nor labels
# of probability 0 change the bits.

ABSENT = -1
"""The rank of a true class that its event gave no probability: never in the top k."""


class EventTerms(NamedTuple):
    """The terms of one event."""

    loss: int
    """Log loss in units."""
    brier: int
    """Brier score in units."""
    rank: int
    """Number of labels ranked before the true class, or :data:`ABSENT`."""
    confidence: float
    """Probability of the predicted label; 0 where the event did not name it."""
    hit: bool
    """Whether the predicted label is the true class."""


def event_terms(
    y_true: Label, proba: Mapping[Label, float], y_pred: Label | None = None
) -> EventTerms:
    """The terms of one event; without ``y_pred`` the most probable label is predicted.

    >>> event_terms("b", {"a": 0.5, "b": 0.5, "c": 0.0})[2:]
    (0, 0.5, False)
    """
    given = proba.get(y_true)
    rank = 0
    if given is None:
        rank, given = ABSENT, 0.0
    missed = 1.0 - given
    brier = int(missed * missed * _SCALE)
    for label, p in proba.items():
        if label == y_true:
            continue
        brier += int(p * p * _SCALE)
        if p >= given and rank != ABSENT and (p > given or label > y_true):  # type: ignore[operator]
            rank += 1
    if y_pred is None:
        y_pred = most_probable(proba)
    confidence = proba.get(y_pred, 0.0)
    return EventTerms(loss_units(given), brier, rank, confidence, y_pred == y_true)


def rank_of(y_true: Label, scores: Mapping[Label, float]) -> int:
    """The rank that :func:`event_terms` has, of scores in any unit.

    >>> rank_of("b", {"a": -1.0, "b": -2.0, "c": -2.0}), rank_of("d", {"a": 1.0})
    (2, -1)
    """
    given = scores.get(y_true)
    if given is None:
        return ABSENT
    return sum(
        score > given or (score == given and label > y_true)  # type: ignore[operator]
        for label, score in scores.items()
    )


class ColumnTerms(NamedTuple):
    """The terms of n events over K columns."""

    given: FloatArray
    """Probability of the true class; 0 where it has no column."""
    squares: FloatArray
    """(p_k − [k is true])² of each cell, shape (n, K)."""
    rank: IntArray
    """Number of columns ranked before the true class, or :data:`ABSENT`."""
    confidence: FloatArray
    """Probability of the predicted label; 0 where it has no column."""

    def brier_units(self) -> IntArray:
        """Each event's Brier term, in units."""
        brier: IntArray = np.floor(self.squares * _SCALE).astype(np.int64).sum(axis=1)
        # A class without a column has no cell to be wrong in by 1.
        brier[self.rank == ABSENT] += UNIT
        return brier


def column_terms(true: IntArray, proba: FloatArray, predicted: IntArray) -> ColumnTerms:
    """The terms of many events.

    Args:
        true: Column of each event's true class, :data:`ABSENT` where it has none.
        proba: Matrix of shape (n, K), columns in the order of their labels:
            among equal probabilities the later column is ranked first.
        predicted: Column of each event's predicted label, :data:`ABSENT` where it has none.

    >>> even = np.array([[0.5, 0.5], [0.5, 0.5]])
    >>> column_terms(np.array([0, 1]), even, np.array([0, 0])).rank.tolist()
    [1, 0]
    """
    given, rank = _given_and_ranks(true, proba)
    named = np.flatnonzero(true >= 0)
    missed = proba.copy()
    missed[named, true[named]] = 1.0 - given[named]
    missed *= missed
    confidence = np.where(predicted < 0, 0.0, proba[np.arange(len(proba)), predicted])
    return ColumnTerms(given, missed, rank, confidence)


def _given_and_ranks(true: IntArray, scores: FloatArray) -> tuple[FloatArray, IntArray]:
    """Score and rank of each event's true class."""
    named = np.flatnonzero(true >= 0)
    given = np.zeros(len(true))
    given[named] = scores[named, true[named]]
    before = scores > given[:, None]
    before |= (scores == given[:, None]) & (np.arange(scores.shape[1]) > true[:, None])
    return given, np.where(true < 0, ABSENT, before.sum(axis=1))


def _columns_of(batch: EventBatch, names: Sequence[Label]) -> IntArray:
    """The column of each label code, :data:`ABSENT` where it has none."""
    column_of = {label: n for n, label in enumerate(names)}
    return np.array([column_of.get(label, ABSENT) for label in batch.labels], dtype=np.int64)


def _order_of(names: Sequence[Label]) -> list[int]:
    """The columns of the labels, ascending by label."""
    return sorted(range(len(names)), key=names.__getitem__)


def _row_codes(batch: EventBatch) -> tuple[IntArray, IntArray, npt.NDArray[np.uint8], IntArray]:
    """The columns of the true and the predicted label, whether they are one, and the places."""
    assert batch.score is not None
    columns = _columns_of(batch, batch.score_labels)
    true = columns[batch.y_true]
    if batch.y_pred is None:
        predicted = most_probable_columns(batch.score, batch.score_labels)
        hit = true == predicted
    else:
        predicted, hit = columns[batch.y_pred], batch.y_true == batch.y_pred
    places = np.argsort(_order_of(batch.score_labels))
    return true, predicted, hit.view(np.uint8), places


def _ordered_chunks(batch: EventBatch) -> Iterator[tuple[EventBatch, IntArray, FloatArray]]:
    """Parts of a batch with the column of each code, and the scores.

    The columns of the scores are in the order of their labels, so that a tie is decided by
    position.
    """
    assert batch.score is not None
    order = _order_of(batch.score_labels)
    columns = _columns_of(batch, [batch.score_labels[column] for column in order])
    rows = max(1, CHUNK // max(1, len(order)))
    for start in range(0, len(batch), rows):
        part = batch.take(slice(start, start + rows))
        assert part.score is not None
        yield part, columns, part.score[:, order]


def chunks_of_terms(
    batch: EventBatch,
) -> Iterator[tuple[ColumnTerms, BoolArray, WeightArray | None]]:
    """A batch's terms, whether the predicted label was true, and weights; a chunk at a time."""
    for part, columns, proba in _ordered_chunks(batch):
        true = columns[part.y_true]
        if part.y_pred is None:
            predicted = np.argmax(proba, axis=1)
            hit = true == predicted
        else:
            predicted, hit = columns[part.y_pred], part.y_true == part.y_pred
        yield column_terms(true, proba, predicted), hit, part.weight


class ClassProbabilitySums(LossSums):
    """Log loss, Brier score, ranks and reliability of multi-class events.

    With p_k the probabilities of one event, t its true class and w its weight:

        log loss = Σ w · (−ln p_t) / Σ w       p_t clipped to [2⁻⁵², 1 − 2⁻⁵²]
        Brier    = Σ w · Σ_k (p_k − [k = t])² / Σ w     (not halved: 0 to 2)
        rank     = number of classes ranked before t

    Among equal probabilities the label that sorts later is ranked first in the
    ranks, as in ``sklearn.metrics.top_k_accuracy_score``. Reliability is about
    the predicted label: ``y_pred``, or the most probable label, of equal ones
    the one that sorts first, as in ``np.argmax``. A label that an event does not
    name has probability 0; a true class that is not named has rank −1 and
    counts as not found whatever k.

    Args:
        bins: Reliability bins of the predicted label's probability, 1 to 10,000.
        probabilities: Whether scores are probabilities. Else only ranks are counted.

    >>> sums = ClassProbabilitySums()
    >>> sums.update("cat", {"cat": 0.5, "dog": 0.25, "cow": 0.25})
    >>> sums.brier_units / UNIT, sums.ranks
    (0.375, {0: 1})
    """

    __slots__ = ("_ranks", "probabilities")
    NAME = "class_probability"
    FIELDS = loss_fields("bin_correct")
    MOST_BRIER = 3 * UNIT  # (1 − p_true)² + Σ p² is at most 2 and a little

    def __init__(self, bins: int = 10, *, probabilities: bool = True) -> None:
        super().__init__(bins)
        self.probabilities = probabilities
        self._ranks: dict[int, Weight] = {}
        if COMPILED is not None and probabilities:
            self._terms = COMPILED.NativeClassTerms(self._edges)

    def _empty(self) -> ClassProbabilitySums:
        return ClassProbabilitySums(self.bins, probabilities=self.probabilities)

    def copy(self) -> ClassProbabilitySums:
        """An independent state of the same events."""
        new = super().copy()
        new._ranks = self._ranks.copy()
        if not self._exact:
            new._terms = None
        return new

    # -- reading ---------------------------------------------------------

    @property
    def weight(self) -> Weight:
        """Weight of all events."""
        if self.probabilities:
            return super().weight
        return sum(self._ranks.values()) if self._exact else math.fsum(self._ranks.values())

    @property
    def ranks(self) -> dict[int, Weight]:
        """Rank of the true class (0 is the top, −1 not named) -> weight; ranks ascend."""
        self._settle()
        return dict(sorted(self._ranks.items()))

    @property
    def bin_correct(self) -> list[Weight]:
        """Of :attr:`bin_weights` the weight of those whose predicted label was true."""
        self._settle()
        return self._bin_hits[:]

    # -- counting --------------------------------------------------------

    def update(
        self,
        y_true: Label,
        proba: Mapping[Label, float],
        weight: Weight = 1,
        y_pred: Label | None = None,
    ) -> None:
        """Count one validated event.

        Args:
            y_true: The true class, canonical.
            proba: Canonical label -> probability.
            weight: Canonical.
            y_pred: The predicted label; None is the most probable one.
        """
        terms = self._terms
        if (
            terms is not None
            and weight == 1
            and type(weight) is int
            and y_pred is not None
            and terms.count(y_true, proba, y_pred)
        ):
            return
        if type(weight) is float:
            self._promote()
        self.add_whole(y_true, proba, weight, y_pred)

    def add_whole(
        self,
        y_true: Label,
        proba: Mapping[Label, float],
        weight: Weight,
        y_pred: Label | None = None,
    ) -> None:
        """:meth:`update` with whole weights of any size, negative to take back; not checked."""
        self._add(self._terms_of(y_true, proba, y_pred), weight)

    def _terms_of(
        self, y_true: Label, proba: Mapping[Label, float], y_pred: Label | None
    ) -> EventTerms:
        if self.probabilities:
            return event_terms(y_true, proba, y_pred)
        return EventTerms(0, 0, rank_of(y_true, proba), 0.0, False)

    def _add(self, terms: EventTerms, weight: Weight) -> None:
        loss, brier, rank, confidence, hit = terms
        if self.probabilities:
            self._add_event(loss, brier, confidence, hit, weight)
        self._add_rank(rank, weight)

    def _add_rest(self, rest: Iterable[tuple[int, int]]) -> None:
        for rank, weight in rest:
            self._add_rank(rank, weight)

    def update_many(self, batch: EventBatch) -> None:
        """Count a validated batch: the same bits as its events one by one."""
        if batch.weight is not None and batch.weight.dtype.kind == "f":
            self._promote()
        if not self.probabilities:
            for part, columns, scores in _ordered_chunks(batch):
                _, ranks = _given_and_ranks(columns[part.y_true], scores)
                self._add_ranks(ranks, len(batch.score_labels), part.weight)
            return
        if self._terms is not None and batch.weight is None and batch.score is not None:
            self._terms.count_rows(np.ascontiguousarray(batch.score), *_row_codes(batch))
            return
        for terms, hit, weight in chunks_of_terms(batch):
            self._add_chunk(terms, hit, weight)

    def _add_chunk(self, terms: ColumnTerms, hit: BoolArray, weight: WeightArray | None) -> None:
        self._add_bins(terms.confidence, hit, weight)
        cells: WeightArray | None = None
        if weight is not None:
            cells = np.repeat(weight, terms.squares.shape[1])
        self._add_losses(terms.given, terms.squares.ravel(), weight, cells)
        absent = terms.rank == ABSENT
        if absent.any():
            # A class without a column has no cell to be wrong in by 1.
            missed = int(absent.sum()) if weight is None else total_weight(weight[absent])
            self._brier += UNIT * missed
        self._add_ranks(terms.rank, terms.squares.shape[1], weight)

    def _add_ranks(self, ranks: IntArray, columns: int, weight: WeightArray | None) -> None:
        size = columns - ABSENT
        for code, total in enumerate(total_weight_by_group(ranks - ABSENT, size, weight)):
            if total:
                self._add_rank(code + ABSENT, total)

    def _add_rank(self, rank: int, weight: Weight) -> None:
        known = self._ranks.pop(rank, 0 if self._exact else 0.0) + weight
        if known:
            self._ranks[rank] = known

    def revert(
        self,
        y_true: Label,
        proba: Mapping[Label, float],
        weight: Weight = 1,
        y_pred: Label | None = None,
    ) -> None:
        """Remove one earlier event, exactly; arguments as of :meth:`update`.

        Raises:
            InputError: The weight is not whole, or was not for some event of
                this state; or the remaining sums cannot be those of any events, so
                it was never counted. (Sums cannot detect every such case.)
                Nothing is changed.
        """
        whole = removable_weight(weight, self._exact)
        self._settle()
        terms = self._terms_of(y_true, proba, y_pred)
        self._remove(terms, whole, "proba" if self.probabilities else "score", proba)

    def _is_sound(self, left: EventTerms | None = None) -> bool:
        if left is None:
            return super()._is_sound() and self._ranks_agree()
        return self._ranks.get(left.rank, 0) >= 0 and super()._is_sound(left.confidence)

    def _ranks_agree(self) -> bool:
        """Whether ranks and bins count the same events; bins only those of probabilities."""
        found = self._in_bins()
        if not self.probabilities:
            return not found
        total = sum(self._ranks.values())
        return total == found if self._exact else abs(total - found) <= 1e-6 * found

    def _check_merge(self, other: Any) -> None:
        if isinstance(other, ClassProbabilitySums) and self.probabilities != other.probabilities:
            raise StateError(
                f"merge: expected ClassProbabilitySums with probabilities={self.probabilities}, "
                f"got {other.probabilities}"
            )
        super()._check_merge(other)

    def _merge(self, other: ClassProbabilitySums, times: int) -> None:
        super()._merge(other, times)
        for rank, weight in list(other._ranks.items()):
            self._add_rank(rank, weight * times)

    def _promote(self) -> None:
        super()._promote()
        self._terms = None  # counts in integers
        self._ranks = {rank: float(weight) for rank, weight in self._ranks.items()}

    # -- written form ----------------------------------------------------

    def to_state(self) -> Form:
        """Plain data; equal content gives equal data."""
        # Written where it is False only: other files are as before.
        return {**({} if self.probabilities else {_SIGNED: False}), **super().to_state()}

    def _write(self) -> Form:
        ranks = self.ranks
        return {**super()._write(), "ranks": list(ranks), "rank_weights": list(ranks.values())}

    @classmethod
    def _keys(cls, data: object) -> frozenset[str]:
        signed = {_SIGNED} if isinstance(data, dict) and _SIGNED in data else set()
        return super()._keys(data) | {"ranks", "rank_weights"} | signed

    @classmethod
    def _of_settings(cls, fields: Form) -> ClassProbabilitySums:
        if fields.get(_SIGNED, False) is not False:
            refuse(f"{cls.NAME}.{_SIGNED}", "False or no such key", fields[_SIGNED])
        new = super()._of_settings(fields)
        return cls(new.bins, probabilities=_SIGNED not in fields)

    def _read(self, fields: Form) -> None:
        super()._read(fields)
        if not self._exact:
            self._terms = None
        ranks = fields["ranks"]
        if type(ranks) is not list or not all(
            type(rank) is int and ABSENT <= rank < 2**53 for rank in ranks
        ):
            refuse(f"{self.NAME}.ranks", f"integers from {ABSENT}", ranks)
        if any(a >= b for a, b in pairwise(ranks)):
            refuse(f"{self.NAME}.ranks", "each rank once, ascending", ranks)
        weights = weights_field(fields, "rank_weights", self.NAME, self._exact, len(ranks))
        if not all(weights):
            refuse(f"{self.NAME}.rank_weights", "weights above 0", weights)
        self._ranks = dict(zip(ranks, weights, strict=True))

    def _refuse_unsound(self) -> None:
        super()._refuse_unsound()
        if not self._ranks_agree():
            raise StateError(f"{self.NAME}.rank_weights: not of the events that the bins hold")

    @classmethod
    def scaled(cls, parts: Parts, unit: int) -> Form:
        """Written form of Σ factor · sums / unit over written forms, as floats."""
        ranks: dict[int, list[tuple[Weight, int]]] = {}
        for form, factor in parts:
            for rank, weight in zip(form["ranks"], form["rank_weights"], strict=True):
                ranks.setdefault(rank, []).append((weight, factor))
        return {
            **({_SIGNED: False} if _SIGNED in parts[0][0] else {}),
            **super().scaled(parts, unit),
            "ranks": sorted(ranks),
            "rank_weights": [total_over(ranks[rank], unit) for rank in sorted(ranks)],
        }

    def _check(self) -> None:
        super()._check()
        kind = int if self._exact else float
        assert all(type(weight) is kind and weight > 0 for weight in self._ranks.values())
