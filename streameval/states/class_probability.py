"""Sums over the probabilities of a multi-class classifier.

Log loss, Brier score, the rank of the true class, and reliability of the
predicted label: the first two are sums of units of 2**-60 (see
:mod:`streameval.states.sums.fixed_point`), the rest are weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streameval.errors import StateError, shown
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
from streameval.states.fields import (
    fields_of,
    never_counted,
    refuse,
    removable_weight,
    weights_field,
)
from streameval.states.ranking.sorted_runs import WeightArray
from streameval.states.sums.fixed_point import CHUNK, UNIT, total_weight, total_weight_by_group
from streameval.states.sums.loss_sums import LossSums, loss_units

if TYPE_CHECKING:
    from streameval.states.native.native_class_events import NativeClassTerms

_MOST_BRIER = 3 * UNIT  # (1 − p_true)² + Σ p² is at most 2 and a little

_KEYS = frozenset(
    {
        "bins",
        "exact",
        "log_loss_units",
        "brier_units",
        "bin_weights",
        "bin_correct",
        "bin_probability_units",
        "ranks",
        "rank_weights",
    }
)
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
    n = len(proba)
    named = np.flatnonzero(true >= 0)
    at = true[named]
    given = np.zeros(n)
    given[named] = proba[named, at]
    rank = _ranks(true, proba, given)
    missed = proba.copy()
    missed[named, at] = 1.0 - given[named]
    missed *= missed
    confidence = np.where(predicted < 0, 0.0, proba[np.arange(n), predicted])
    return ColumnTerms(given, missed, rank, confidence)


def _ranks(true: IntArray, scores: FloatArray, given: FloatArray) -> IntArray:
    before = scores > given[:, None]
    before |= (scores == given[:, None]) & (np.arange(scores.shape[1]) > true[:, None])
    ranks: IntArray = np.where(true < 0, ABSENT, before.sum(axis=1))
    return ranks


def chunks_of_ranks(batch: EventBatch) -> Iterator[tuple[IntArray, WeightArray | None]]:
    """The rank of each event's true class, and weights; a chunk at a time."""
    for part, columns, scores in _ordered_chunks(batch):
        true = columns[part.y_true]
        named = np.flatnonzero(true >= 0)
        given = np.zeros(len(true))
        given[named] = scores[named, true[named]]
        yield _ranks(true, scores, given), part.weight


def _places(labels: Sequence[Label]) -> IntArray:
    """The place of each label among all, ascending."""
    places = np.empty(len(labels), dtype=np.int64)
    places[sorted(range(len(labels)), key=labels.__getitem__)] = np.arange(len(labels))
    return places


def _row_codes(batch: EventBatch) -> tuple[IntArray, IntArray, npt.NDArray[np.uint8], IntArray]:
    """The columns of the true and the predicted label, whether they are one, and the places."""
    assert batch.score is not None
    column_of = {label: n for n, label in enumerate(batch.score_labels)}
    columns = np.array([column_of.get(label, ABSENT) for label in batch.labels], dtype=np.int64)
    true = columns[batch.y_true]
    if batch.y_pred is None:
        predicted = most_probable_columns(batch.score, batch.score_labels)
        hit = true == predicted
    else:
        predicted, hit = columns[batch.y_pred], batch.y_true == batch.y_pred
    return true, predicted, hit.view(np.uint8), _places(batch.score_labels)


def _ordered_chunks(batch: EventBatch) -> Iterator[tuple[EventBatch, IntArray, FloatArray]]:
    """Parts of a batch with the column of each code, and the scores.

    The columns of the scores are in the order of their labels, so that a tie is decided by
    position.
    """
    assert batch.score is not None
    names = batch.score_labels
    order = sorted(range(len(names)), key=names.__getitem__)
    column_of = {names[column]: n for n, column in enumerate(order)}
    columns = np.array([column_of.get(label, ABSENT) for label in batch.labels], dtype=np.int64)
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


class ClassProbabilitySums:
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

    Cost:
        An event 0.1 µs and 10 ns a class where compiled, else 3 µs and 0.4 µs a class; a
        cell of a batch 2 ns, else 20 ns. The first read after them 1 µs and 0.3 µs a bin.
        Memory: the bins, and one weight for each rank that occurred.

    >>> sums = ClassProbabilitySums()
    >>> sums.update("cat", {"cat": 0.5, "dog": 0.25, "cow": 0.25})
    >>> sums.brier_units / UNIT, sums.ranks
    (0.375, {0: 1})
    """

    __slots__ = ("_ranks", "_sums", "_terms", "_whole", "probabilities")

    def __init__(self, bins: int = 10, *, probabilities: bool = True) -> None:
        self.probabilities = probabilities
        self._start(LossSums(bins, _MOST_BRIER))

    def _start(self, sums: LossSums) -> None:
        self._sums = sums
        self._whole: ClassProbabilitySums | None = None
        self._ranks: dict[int, Weight] = {}
        # Counts events of weight 1 until the sums are read, which adds its own to them.
        self._terms: NativeClassTerms | None = None
        if COMPILED is not None and self.probabilities and sums.exact:
            self._terms = COMPILED.NativeClassTerms(sums.bins.edges)

    def _settle(self) -> None:
        """Add what the compiled terms have counted; called before the sums are read or changed."""
        terms = self._terms
        if terms is not None and terms.events:
            loss, brier, ranks, bins = terms.take()
            self._sums.add_sums(loss, brier, bins)
            for rank, weight in ranks:
                self._add_rank(rank, weight)

    # -- reading ---------------------------------------------------------

    @property
    def bins(self) -> int:
        """How many reliability bins."""
        return len(self._sums.bins.weights)

    @property
    def exact(self) -> bool:
        """False from the first weight that is not whole: all sums are floats then."""
        return self._sums.exact

    @property
    def weight(self) -> Weight:
        """Weight of all events."""
        if not self.probabilities:
            weights = self._ranks.values()
            return sum(weights) if self.exact else math.fsum(weights)
        self._settle()
        return self._sums.bins.total()

    @property
    def log_loss_units(self) -> Weight:
        """Σ weight · (−ln p_true), in units of 2**-60."""
        self._settle()
        return self._sums.log_loss

    @property
    def brier_units(self) -> Weight:
        """Σ weight · Σ_k (p_k − [k is true])², in units of 2**-60."""
        self._settle()
        return self._sums.brier

    @property
    def whole(self) -> ClassProbabilitySums:
        """The sums that a mean is computed of: integers where these are a multiple of some."""
        return self._whole or self

    def stands_for(self, whole: ClassProbabilitySums) -> ClassProbabilitySums:
        """This state, whose floats are a multiple of whole sums, and which does not change."""
        self._whole = whole
        return self

    @property
    def ranks(self) -> dict[int, Weight]:
        """Rank of the true class (0 is the top, −1 not named) -> weight; ranks ascend."""
        self._settle()
        return dict(sorted(self._ranks.items()))

    @property
    def bin_edges(self) -> list[float]:
        """The ``bins + 1`` edges from 0 to 1."""
        return [0.0, *self._sums.bins.edges, 1.0]

    @property
    def bin_weights(self) -> list[Weight]:
        """Weight of the events by the probability of their predicted label."""
        self._settle()
        return self._sums.bins.weights[:]

    @property
    def bin_correct(self) -> list[Weight]:
        """The same of those whose predicted label was true."""
        self._settle()
        return self._sums.bins.hits[:]

    @property
    def bin_probability_units(self) -> list[Weight]:
        """Σ weight · probability of the predicted label in each bin, in units of 2**-60."""
        self._settle()
        return self._sums.bins.units[:]

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
        if not self.probabilities:
            self._add_rank(rank_of(y_true, proba), weight)
            return
        loss, brier, rank, confidence, hit = event_terms(y_true, proba, y_pred)
        self._sums.add(loss, brier, confidence, hit, weight)
        self._add_rank(rank, weight)

    def add_multiples(self, parts: Iterable[tuple[ClassProbabilitySums, int]]) -> None:
        """Count all of others, whose sums are whole, so many times; negative to take back."""
        for other, factor in parts:
            other._settle()
            self._sums.add_multiple(other._sums, factor)
            for rank, weight in other._ranks.items():
                self._add_rank(rank, weight * factor)

    def update_many(self, batch: EventBatch) -> None:
        """Count a validated batch: the same bits as its events one by one."""
        if batch.weight is not None and batch.weight.dtype.kind == "f":
            self._promote()
        if not self.probabilities:
            for ranks, weight in chunks_of_ranks(batch):
                self._add_ranks(ranks, len(batch.score_labels), weight)
            return
        if self._terms is not None and batch.weight is None and batch.score is not None:
            self._terms.count_rows(np.ascontiguousarray(batch.score), *_row_codes(batch))
            return
        for terms, hit, weight in chunks_of_terms(batch):
            self._add_chunk(terms, hit, weight)

    def _add_chunk(self, terms: ColumnTerms, hit: BoolArray, weight: WeightArray | None) -> None:
        self._sums.add_bins(terms.confidence, hit, weight)
        cells: WeightArray | None = None
        if weight is not None:
            cells = np.repeat(weight, terms.squares.shape[1])
        self._sums.add_losses(terms.given, terms.squares.ravel(), weight, cells)
        absent = terms.rank == ABSENT
        if absent.any():
            # A class without a column has no cell to be wrong in by 1.
            missed = int(absent.sum()) if weight is None else total_weight(weight[absent])
            self._sums.brier += UNIT * missed
        self._add_ranks(terms.rank, terms.squares.shape[1], weight)

    def _add_ranks(self, ranks: IntArray, columns: int, weight: WeightArray | None) -> None:
        size = columns - ABSENT
        for code, total in enumerate(total_weight_by_group(ranks - ABSENT, size, weight)):
            if total:
                self._add_rank(code + ABSENT, total)

    def _add_rank(self, rank: int, weight: Weight) -> None:
        known = self._ranks.pop(rank, 0 if self.exact else 0.0) + weight
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
        whole = removable_weight(weight, self.exact)
        self._settle()
        if not self.probabilities:
            rank = rank_of(y_true, proba)
            if self._ranks.get(rank, 0) < whole:
                raise never_counted("score", proba)
            self._add_rank(rank, -whole)
            return
        loss, brier, rank, confidence, hit = event_terms(y_true, proba, y_pred)
        held = self._ranks.get(rank, 0)
        if held < whole or not self._sums.remove(loss, brier, confidence, hit, whole):
            raise never_counted("proba", proba)
        self._add_rank(rank, -whole)

    def merge(self, other: ClassProbabilitySums) -> None:
        """Add the other's events; it is unchanged.

        Raises:
            StateError: The other is no such state, or has another number of
                bins. Nothing is changed.
        """
        if not isinstance(other, ClassProbabilitySums):
            raise StateError(f"merge: expected ClassProbabilitySums, got {shown(other)}")
        if self.probabilities != other.probabilities:
            raise StateError(
                f"merge: expected ClassProbabilitySums with probabilities={self.probabilities}, "
                f"got {other.probabilities}"
            )
        self._settle()
        other._settle()
        self._sums.merge(other._sums)
        if not self.exact:
            self._promote()
        for rank, weight in list(other._ranks.items()):
            self._add_rank(rank, weight)

    def subtract(self, other: ClassProbabilitySums) -> None:
        """Remove all of another that was merged; both exact."""
        self._settle()
        other._settle()
        self._sums.subtract(other._sums)
        for rank, weight in other._ranks.items():
            self._add_rank(rank, -weight)

    def _promote(self) -> None:
        self._settle()
        self._terms = None
        self._sums.promote()
        self._ranks = {rank: float(weight) for rank, weight in self._ranks.items()}

    # -- written form ----------------------------------------------------

    def copy(self) -> ClassProbabilitySums:
        """An independent state of the same events."""
        self._settle()
        new = ClassProbabilitySums.__new__(ClassProbabilitySums)
        new.probabilities = self.probabilities
        new._start(self._sums.copy())
        new._ranks = self._ranks.copy()
        new._whole = None if self._whole is None else self._whole.copy()
        return new

    def to_state(self) -> dict[str, Any]:
        """Plain data; equal content gives equal data."""
        ranks = self.ranks
        return {
            **({} if self.probabilities else {_SIGNED: False}),
            **self._sums.write("bin_correct"),
            "ranks": list(ranks),
            "rank_weights": list(ranks.values()),
        }

    @classmethod
    def from_state(cls, data: dict[str, Any]) -> ClassProbabilitySums:
        """The state that :meth:`to_state` wrote; raises StateError."""
        name = "class_probability"
        # Written where it is False only: other files are as before.
        ranks_only = isinstance(data, dict) and _SIGNED in data
        data = fields_of(data, name, _KEYS | {_SIGNED} if ranks_only else _KEYS)
        if ranks_only and data[_SIGNED] is not False:
            refuse(f"{name}.{_SIGNED}", "False or no such key", data[_SIGNED])
        new = cls(probabilities=not ranks_only)
        new._start(LossSums.read(data, name, "bin_correct", _MOST_BRIER))
        ranks = data["ranks"]
        if type(ranks) is not list or not all(
            type(rank) is int and ABSENT <= rank < 2**53 for rank in ranks
        ):
            refuse(f"{name}.ranks", f"integers from {ABSENT}", ranks)
        if any(a >= b for a, b in pairwise(ranks)):
            refuse(f"{name}.ranks", "each rank once, ascending", ranks)
        weights = weights_field(data, "rank_weights", name, new.exact, len(ranks))
        if not all(weights):
            refuse(f"{name}.rank_weights", "weights above 0", weights)
        new._ranks = dict(zip(ranks, weights, strict=True))
        if not new._ranks_agree():
            raise StateError(f"{name}.rank_weights: not of the events that the bins hold")
        return new

    def _ranks_agree(self) -> bool:
        """Whether ranks and bins count the same events; bins only those of probabilities."""
        if not self.probabilities:
            return not self._sums.bins.total()
        total, found = sum(self._ranks.values()), self.weight
        return total == found if self.exact else abs(total - found) <= 1e-6 * found

    def _check(self) -> None:
        self._settle()
        self._sums._check()
        kind = int if self.exact else float
        assert all(type(weight) is kind and weight > 0 for weight in self._ranks.values())
        assert self._ranks_agree()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClassProbabilitySums):
            return NotImplemented
        return self.to_state() == other.to_state()

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"<ClassProbabilitySums of weight {self.weight}>"
