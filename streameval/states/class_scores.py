"""Pairwise wins between classes in each column of scores: the basis of multi-class AUC."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events.event import EventBatch
from streameval.events.values import (
    MAX_CLASSES,
    FloatArray,
    IntArray,
    Label,
    Weight,
    check_same_kind,
)
from streameval.states.class_events import COMPILED
from streameval.states.fields import (
    MOST_WEIGHT,
    PROBABILITIES_KEY,
    Fields,
    check_mergeable,
    falls,
    never_counted,
    removable_weight,
)
from streameval.states.ranking.coarse_score import (
    BOUNDED_KEYS,
    bounds_of,
    check_cells,
    checked_limit,
    coarse,
    coarse_column,
)
from streameval.states.ranking.keyed_scores import KEY_SHIFT, LOW_KEY, Entries, KeyedScores
from streameval.states.ranking.score_groups import (
    ScoreGroups,
    auc_of_groups,
    group_scores,
    groups_to_state,
    twice_u,
)
from streameval.states.ranking.weights import MAX_TOTAL, WeightArray, check_total
from streameval.states.score_index import ScoreIndex
from streameval.states.sums.fixed_point import total_weight, total_weight_by_group

if TYPE_CHECKING:
    from streameval.states.class_probability import ClassProbabilitySums

RESIDUE = 1e-9
"""Float sums of equal terms differ by less than this share."""

Scores: TypeAlias = Mapping[Label, float]
"""Label -> probability, or any number."""

_KEYS = frozenset({"exact", "labels", "counts", "columns", "true", "lengths", "scores", "weights"})
_EVENTS_MOST = 1024
_PARTS_MOST = 256
_CELLS_LEAST = 2**22


class _Part(NamedTuple):
    """Scores but 0; of weights that are not whole also the zeros beside them, and all others."""

    entries: Entries
    counts: FloatArray = np.zeros(0)
    """The weight of each true class, at its code: that of the zeros of all other keys."""

    @property
    def size(self) -> int:
        """Memory, in numbers."""
        return 3 * len(self.entries.keys)

    def part(self, *, zeros: bool) -> _Part:
        """This part itself."""
        return self

    def zeros(self, keys: IntArray) -> Entries:
        """The zeros of those of some keys that this part has no scores of."""
        absent = np.setdiff1d(keys, self.entries.keys)
        true = absent & LOW_KEY
        held = true < len(self.counts)
        weights = self.counts[true[held]]
        some = weights > 0
        return Entries(absent[held][some], np.zeros(int(some.sum())), weights[some])


class _Rows(NamedTuple):
    """Rows of scores as they arrived."""

    true: IntArray
    """Code of each row's true class."""
    columns: IntArray
    """Code of each column."""
    scores: FloatArray
    weights: WeightArray | None

    @property
    def size(self) -> int:
        """Memory, in numbers."""
        return self.scores.size

    def part(self, *, zeros: bool) -> _Part:
        """The scores but 0; with ``zeros`` also the zeros beside another score of the same key."""
        keys = (self.columns << KEY_SHIFT | self.true[:, None]).ravel()
        scores, weights = self.scores.ravel(), self.weights
        if weights is not None:
            weights = np.repeat(weights, len(self.columns))
        held = scores != 0.0
        if zeros and not held.all():
            held |= np.isin(keys, keys[held])
        if not held.all():
            keys, scores = keys[held], scores[held]
            weights = None if weights is None else weights[held]
        entries = Entries(keys, scores, weights)
        if not zeros:
            return _Part(entries)
        return _Part(entries, np.bincount(self.true, self.weights).astype(np.float64))

    def rank(self, code: int, index: ScoreIndex) -> None:
        """Count the scores of one column that are not 0; its own class is positive."""
        for at in np.flatnonzero(self.columns == code).tolist():
            scores, positive, weights = self.scores[:, at], self.true == code, self.weights
            held = scores != 0.0
            if not held.all():
                scores, positive = scores[held], positive[held]
                weights = None if weights is None else weights[held]
            index.update_many(positive, np.ascontiguousarray(scores), weights)


# Wins of one class over another or over all others, kept current from the first read.

_UNREAD_MOST = 4
_MOST_PAIRS = 2**14
"""Pairs of classes whose rankings are kept; a ranking takes about 1 kB beside its scores."""


class Rankings:
    """Score indexes of the columns that were read, kept current with each event from then on."""

    __slots__ = ("_unread", "kept")

    def __init__(self) -> None:
        self._unread = 0  # batches since the last read
        # By the other class, None being all others, then by column.
        self.kept: dict[Label | None, dict[Label, ScoreIndex]] = {}

    def wins(self, scores: ClassScores, column: Label, other: Label | None) -> int:
        """Twice the whole weight of the pairs that ``column`` wins over ``other`` or all others."""
        self._unread = 0
        index = self.kept.get(other, {}).get(column)
        if index is None:
            index = scores.ranking(column, other)
            if other is None or len(scores.counts) ** 2 <= _MOST_PAIRS:
                self.kept.setdefault(other, {})[column] = index
        wins = int(index.twice_u)
        if scores.not_probabilities:
            return wins
        # Zeros are not in it. They are below all other scores.
        rivals = scores.total - scores.counts[column] if other is None else scores.counts[other]
        zeros = scores.counts[column] - index.positives
        return wins + int((rivals - index.negatives) * (2 * index.positives + zeros))

    def mean_share(self, scores: ClassScores) -> float:
        """The macro mean of one-vs-rest AUCs; nan where it has to be read class by class."""
        rest = self.kept.get(None)
        if COMPILED is None or not rest or scores.not_probabilities or not scores.exact:
            return math.nan
        self._unread = 0
        mean: float = COMPILED.mean_share(rest, scores.counts, scores.total)
        return mean

    def forget_class(self, label: Label) -> None:
        """Drop the rankings of a class that has no event any more."""
        self.kept.pop(label, None)
        for rankings in self.kept.values():
            rankings.pop(label, None)

    def follow(self, true: Label, scores: Scores, weight: int, not_probabilities: bool) -> None:
        """Add one event, or remove it with a negative weight."""
        kept = self.kept
        alone = len(kept) == 1 and None in kept
        if COMPILED is not None and weight == 1 and alone and not not_probabilities:
            COMPILED.follow(kept[None], true, scores)
            return
        for other, rankings in kept.items():
            # Against one class only its events count, and those of the column's own class.
            both = other is None or other == true
            for column, score in scores.items() if both else ((true, scores.get(true, 0.0)),):
                index = rankings.get(column) if score or not_probabilities else None
                if index is None:
                    continue
                if weight > 0:
                    index.update(column == true, score, weight)
                else:
                    index.revert(column == true, score, -weight)

    def follow_rows(self, scores: ClassScores, rows: _Rows) -> None:
        """Add the rows of a batch that ``scores`` has just added."""
        self._unread += 1
        # After a large batch, or of rankings seldom read, it is cheaper to derive them anew.
        seldom = self._unread > _UNREAD_MOST or 8 * len(rows.true) > scores.total
        if seldom or scores.not_probabilities or not scores.exact:
            self.kept.clear()
        self.kept = {other: kept for other, kept in self.kept.items() if other is None}
        for column, index in self.kept.get(None, {}).items():
            rows.rank(scores._codes.get(column, LOW_KEY), index)

    def _check(self, scores: ClassScores) -> None:
        for other, rankings in self.kept.items():
            for column in rankings:
                found = twice_u(scores.against(column, other))
                assert self.wins(scores, column, other) == found


class ScoreFields:
    """What an event changes in :class:`ClassScores`; compiled code has these attributes itself."""

    __slots__ = (
        "_codes",
        "_events",
        "_level",
        "_whole",
        "_wins",
        "counts",
        "exact",
        "not_probabilities",
    )


if not TYPE_CHECKING and COMPILED is not None:
    ScoreFields = COMPILED.ScoreFields


class ClassScores(ScoreFields):
    """Scores of each class's column by true class, and the pairwise wins between classes.

    The state keeps, by column and true class, the multiset of the scores other than 0: how many
    zeros it has follows from the weight of the true class. With weights that are not whole that
    would be a difference of floats, in which a light event's zero is lost beside a heavy one:
    then a multiset has its zeros too, and only one without any other score is implied.

    Args:
        max_scores: Most distinct scores above 0 of each multiset, beyond which all scores are
            coarsened, to one level (:mod:`~streameval.states.ranking.coarse_score`); None: all.
        probabilities: Whether scores are probabilities; else any finite numbers, of which
            each event then names one for every label.
        declared: The closed list of classes, each of which has a column; None where labels are
            discovered: one then belongs to the state while some event has it as true class or
            gives it a probability above 0. The list is not written.

    >>> scores = ClassScores()
    >>> scores.update("cat", {"cat": 0.75, "dog": 0.25})
    >>> scores.update("dog", {"cat": 0.25, "dog": 0.5, "cow": 0.25})
    >>> scores.pair_wins("cat", "dog"), scores.pair_wins("cow", "dog")
    (2, 0)
    """

    __slots__ = (
        "_base",
        "_folded",
        "_has_removed_columns",
        "_size",
        "_waiting",
        "declared",
        "max_scores",
    )

    def __init__(
        self,
        *,
        max_scores: int | None = None,
        probabilities: bool = True,
        declared: tuple[Label, ...] | None = None,
    ) -> None:
        self.declared = declared
        self.max_scores = checked_limit(max_scores)
        self.not_probabilities = not probabilities
        self.counts: dict[Label, Weight] = {}  # the weight of each true class
        self.exact = True
        self._whole = 0  # sum of counts while exact
        self._level = 0
        self._wins = Rankings()
        # Of all labels that occur; after a fold, their places in ascending order.
        self._codes: dict[Label, int] = {}
        self._has_removed_columns = False  # whether one of them may occur no more
        self._base = KeyedScores()
        self._folded: dict[Label, Weight] = {}  # the counts of what is in the base
        # What waits to be folded; the events are the newest.
        self._waiting: list[_Rows | _Part] = []
        self._size = 0  # of all that waits
        self._events: list[tuple[Label, Scores, Weight]] = []

    # Reading

    @property
    def whole(self) -> ClassScores:
        """The scores that areas are computed of: integers where these are a multiple of some."""
        return self

    @property
    def probabilities(self) -> bool:
        """Whether scores are probabilities."""
        return not self.not_probabilities

    @property
    def level(self) -> int:
        """The level of the cells that scores are coarsened to; 0 while all are kept."""
        self._fit()
        return self._level

    @property
    def labels(self) -> list[Label]:
        """True classes and columns with a score but 0, ascending. A new list."""
        if self._has_removed_columns:
            self._fold()
        return sorted(self._codes)

    @property
    def classes(self) -> list[Label]:
        """The declared classes, or all labels where they are discovered, ascending. A new list."""
        return self.labels if self.declared is None else sorted(self.declared)

    @property
    def total(self) -> Weight:
        """The weight of all events."""
        return self._whole if self.exact else math.fsum(self.counts.values())

    @property
    def _dtype(self) -> Any:
        return np.int64 if self.exact else np.float64

    def true_count(self, label: Label) -> Weight:
        """The weight of the events of one true class; 0 for an unknown label."""
        return self.counts.get(label, 0 if self.exact else 0.0)

    def multisets(self) -> KeyedScores:
        """The scores other than 0; the key's column and true class are places of :attr:`labels`."""
        self._fold()
        return self._base

    def pair_wins(self, column: Label, other: Label | None) -> Weight:
        """Twice the weight of the pairs in which ``column`` outscores ``other``, in its column."""
        held = column in self.counts and (other is None or other in self.counts)
        if column == other or not held:
            return 0 if self.exact else 0.0
        if not self.exact:
            return twice_u(self.against(column, other))
        self._fit()
        return self._wins.wins(self, column, other)

    def one_vs_rest_wins(self, column: Label) -> Weight:
        """:meth:`pair_wins` of a class over all others together."""
        return self.pair_wins(column, None)

    def auc(self, column: Label, other: Label | None = None) -> float:
        """A(column | other) of float weights; None: over all other classes; nan without pairs."""
        scores, *sides = self.against(column, other)
        own, rest = ((scores[side != 0], side[side != 0]) for side in sides)
        return auc_of_groups(own, rest)

    def mean_share(self) -> float:
        """The macro mean of one-vs-rest AUCs where it is at hand, else nan."""
        self._fit()
        return self._wins.mean_share(self)

    def column_scores(self, column: Label, true: Label) -> tuple[FloatArray, WeightArray]:
        """The distinct scores of a true class in a column, zeros too, and their weights."""
        self._fold()
        codes = self._codes
        key = codes.get(column, LOW_KEY) << KEY_SHIFT | codes.get(true, LOW_KEY)
        scores, weights = self._base.arrays(key)
        held, count = total_weight(weights), self.counts.get(true, 0)
        zeros = count - held if self.exact or not held else 0.0
        if not zeros:
            return scores, weights
        at = int(np.searchsorted(scores, 0.0))
        return np.insert(scores, at, 0.0), np.insert(weights, at, zeros)

    def pooled(self, columns: Iterable[Label] | None = None) -> ScoreGroups:
        """Every (event, column) of all classes, or of some, as one binary event, zeros included."""
        self._fold()
        base, counts = self._base, self._weights_of(self.counts)
        sides: tuple[list[Any], list[Any]] = ([(np.zeros(0), counts[:0])], [])
        for column in self.classes if columns is None else columns:
            code = self._codes.get(column, LOW_KEY)
            start, end = np.searchsorted(base.keys, [code << KEY_SHIFT, (code + 1) << KEY_SHIFT])
            span = slice(base.starts[start], base.starts[end])
            true = base.keys[start:end] & LOW_KEY
            zeros = counts.copy()
            # Of floats, a multiset has its zeros itself.
            zeros[true] = zeros[true] - base.totals[start:end] if self.exact else 0.0
            own = np.repeat(true == code, base.lengths[start:end]), np.arange(len(zeros)) == code
            for positive, side in enumerate(sides):
                of_side, of_class = (chosen == bool(positive) for chosen in own)
                side.append((base.scores[span][of_side], base.each(span)[of_side]))
                implied = zeros[of_class].sum(keepdims=True)
                side.append((np.zeros(1)[implied > 0], implied[implied > 0]))
        return group_scores(sides[1], sides[0])

    def against(self, column: Label, other: Label | None) -> ScoreGroups:
        """A column's scores of its class, the positives, and of another; None: of all others."""
        if other is None:
            return self.pooled([column])
        return group_scores(
            [self.column_scores(column, column)], [self.column_scores(column, other)]
        )

    def ranking(self, column: Label, other: Label | None) -> ScoreIndex:
        """:meth:`against` as an index, without zeros where no score is below; of whole weights."""
        # Rows are ranked as they are: to fold them would sort all columns.
        self._gather()
        base, rows = self._base, [each for each in self._waiting if isinstance(each, _Rows)]
        derived = other is not None or self.not_probabilities or base.weights is not None
        if derived or len(rows) < len(self._waiting):
            groups = self.against(column, other)
            if not self.not_probabilities:
                held = groups.scores != 0.0
                groups = ScoreGroups(*(side[held] for side in groups))
            return ScoreIndex.from_state(groups_to_state(groups, True))
        index = ScoreIndex()
        code = self._codes.get(column, LOW_KEY)
        start, end = np.searchsorted(base.keys, [code << KEY_SHIFT, (code + 1) << KEY_SHIFT])
        if end > start:
            positive = np.repeat(base.keys[start:end] & LOW_KEY == code, base.lengths[start:end])
            index.update_many(positive, base.scores[base.starts[start] : base.starts[end]])
        for each in rows:
            each.rank(code, index)
        return index

    def one_vs_rest(self, column: Label) -> ScoreIndex:
        """:meth:`one_vs_rest_groups` as a binary index."""
        groups, limit = self.one_vs_rest_groups(column), self.max_scores
        if limit is not None:
            # Of all true classes together there may be more scores than of one.
            limit = max(limit, len(groups.scores))
        return ScoreIndex.from_state(groups_to_state(groups, self.exact, limit, self._level))

    def one_vs_rest_groups(self, column: Label) -> ScoreGroups:
        """The scores of a column, zeros included: its class, the positives, against all others."""
        return self.pooled([column])

    # Counting

    def update(self, y_true: Label, proba: Scores, weight: Weight = 1, y_pred: Any = None) -> None:
        """Count one validated event that :meth:`check` accepts; ``y_pred`` is not used."""
        if self._level:
            proba = {label: coarse(score, self._level) for label, score in proba.items()}
        if type(weight) is float:
            self._promote()
        if self._wins.kept:
            self._wins.follow(y_true, proba, weight, self.not_probabilities)  # type: ignore[arg-type]
        if not self._knows(y_true, proba):
            self._learn([y_true, *(label for label, score in proba.items() if score)])
        self._count(y_true, weight)
        self._events.append((y_true, proba, weight))
        if len(self._events) >= _EVENTS_MOST:
            self._gather()
            self._relieve()

    def check(self, y_true: Label, proba: Scores, weight: Weight = 1, y_pred: Any = None) -> None:
        """Raise InputError for labels of two kinds, too many labels or too much weight."""
        if not self._knows(y_true, proba) or self.total + weight > MAX_TOTAL // MAX_CLASSES:
            self._check_capacity((y_true, *proba), weight)

    def check_many(self, batch: EventBatch) -> None:
        """:meth:`check` of all events of a batch together."""
        counted = np.flatnonzero(np.bincount(batch.y_true)).tolist()
        names = batch.score_labels
        if batch.named is not None:
            held = np.flatnonzero(np.logical_or.reduce(batch.named)).tolist()
            names = tuple(names[column] for column in held)
        total = len(batch) if batch.weight is None else total_weight(batch.weight)
        labels = batch.labels or ()
        if total:
            self._check_capacity((*(labels[code] for code in counted), *names), total)

    def _check_capacity(self, labels: Sequence[Label], weight: Weight) -> None:
        new = [label for label in labels if label not in self._codes]
        if new and self.counts:
            for label in new:
                check_same_kind(next(iter(self.counts)), label, "y_true")
        total = self.total + weight
        # Some of the labels with a code may occur no more.
        if len(self._codes) + len(new) <= MAX_CLASSES and total <= MAX_TOTAL // MAX_CLASSES:
            return
        known = set(self.labels)
        classes = len(known.union(labels))
        if classes > MAX_CLASSES:
            raise InputError(
                "proba",
                expected=f"at most {MAX_CLASSES} classes in all",
                got=f"{shown([label for label in labels if label not in known][-1])} "
                f"beside {classes - 1} others",
                remedy="ids are no classes",
            )
        # The pooled scores of all columns weigh this much.
        if self.exact:
            check_total(self.total, weight, MAX_TOTAL // classes, "weights")

    def update_many(self, batch: EventBatch) -> None:
        """Count a batch that :meth:`check_many` accepts: the same bits as its events one by one."""
        scores, weights, labels = batch.score, batch.weight, batch.labels or ()
        if not len(batch) or scores is None:
            return
        if weights is not None and weights.dtype.kind == "f":
            self._promote()
        if self._level:
            scores = coarse_column(scores.ravel(), self._level).reshape(scores.shape)
        held: list[int] = np.flatnonzero(scores.any(axis=0)).tolist()
        names = [batch.score_labels[at] for at in held]
        totals = total_weight_by_group(batch.y_true, len(labels), weights)
        counted = {label: total for label, total in zip(labels, totals, strict=True) if total}
        self._learn([*counted, *names])
        for label, total in counted.items():
            self._count(label, total)
        codes = self._codes
        rows = _Rows(
            np.array([codes.get(label, 0) for label in labels], dtype=np.int64)[batch.y_true],
            np.array([codes[name] for name in names], dtype=np.int64),
            scores if len(held) == scores.shape[1] else scores[:, held],
            weights,
        )
        self._wait(rows)
        self._wins.follow_rows(self, rows)
        self._relieve()

    def _knows(self, true: Label, scores: Scores) -> bool:
        """Whether no label is new."""
        codes = self._codes
        if COMPILED is not None:
            known: bool = COMPILED.knows(codes, true, scores)
            return known
        return true in codes and codes.keys() >= scores.keys()

    def _learn(self, labels: Iterable[Label]) -> None:
        codes = self._codes
        for label in labels:
            codes.setdefault(label, len(codes))

    def _count(self, true: Label, weight: Weight) -> None:
        """Add to the weight of a true class."""
        count = self.counts[true] = self.counts.get(true, 0 if self.exact else 0.0) + weight
        if self.exact:
            self._whole += weight  # type: ignore[assignment]
        if not count:
            del self.counts[true]
            self._has_removed_columns = True

    def _relieve(self) -> None:
        """Fold where so much waits that the arrays would take less memory."""
        most = max(_CELLS_LEAST, 2 * len(self._base))
        if self.max_scores is not None:
            most = self.max_scores * len(self._codes)
        if self._size > most or len(self._waiting) > _PARTS_MOST:
            self._fold()

    def _keep(self, part: _Rows | _Part) -> None:
        self._waiting.append(part)
        self._size += part.size

    def _wait(self, rows: _Rows) -> None:
        """Add rows to what waits; where most scores are 0, the others alone take less memory."""
        sparse = 4 * int(np.count_nonzero(rows.scores)) < rows.scores.size
        self._keep(rows.part(zeros=not self.exact) if sparse else rows)

    def _gather(self) -> None:
        """Make rows of the events that wait."""
        events, self._events = self._events, []
        if not events:
            return
        codes, names = self._codes, tuple(events[0][1])
        true, scores = np.empty(len(events), np.int64), np.empty((len(events), len(names)))
        columns = np.array([codes.get(name, -1) for name in names], np.int64)
        known = COMPILED is not None and (columns >= 0).all()
        if known and COMPILED.read_rows(events, codes, names, scores, true):
            self._keep(_Rows(true, columns, scores, None))
            return
        # Events of other weights, or that name other labels.
        places: dict[Label, int] = {}
        cells = [
            (n, places.setdefault(label, len(places)), score)
            for n, (_, row, _) in enumerate(events)
            for label, score in row.items()
            if score
        ]
        given = zip(*cells, strict=True) if cells else ((), (), ())
        arrays: list[Any] = list(map(np.array, given, (np.int64, np.int64, np.float64)))
        at, place, values = arrays
        true[:] = [codes[label] for label, _, _ in events]
        columns = np.array([codes[name] for name in places], np.int64)
        weights = np.array([weight for _, _, weight in events], self._dtype)
        if self.exact:
            entries = Entries(columns[place] << KEY_SHIFT | true[at], values, weights[at])
            self._keep(_Part(entries))
        else:
            scores = np.zeros((len(events), len(places)))
            scores[at, place] = values
            self._wait(_Rows(true, columns, scores, weights))

    def _fold(self) -> None:
        """Sort what waits into the arrays, within the limit; O(n) where anything waits."""
        waiting = self._events or self._waiting
        if not (waiting or self._has_removed_columns or self._base.has_removed):
            return
        self._gather()
        parts = [each.part(zeros=not self.exact) for each in self._waiting]
        self._waiting, self._size = [], 0
        entries = [part.entries for part in parts]
        if not self.exact:
            # Each part adds its zeros to the multisets that it has no scores of.
            folded = self._weights_of(self._folded)
            parts.insert(0, _Part(Entries(self._base.keys, np.zeros(0)), folded))
            keys = np.unique(np.concatenate([part.entries.keys for part in parts]))
            entries += [part.zeros(keys) for part in parts]
        self._base = self._base.absorbed(*entries)
        self._folded = self.counts.copy()
        self._rename()
        if self.max_scores is not None:
            self._coarsen(self._base.least_level(self._level, self.max_scores))

    def _fit(self) -> None:
        """Raise the level to the least at which each multiset is within the limit."""
        if self.max_scores is not None:
            self._fold()

    def _coarsen(self, level: int) -> None:
        """Replace each score by that of its cell; all is folded."""
        if level > self._level:
            self._level = level
            self._base = self._base.coarsened(level)
            self._wins.kept.clear()

    def _implied_zeros(self) -> Entries:
        """The zeros of the folded multisets that are not among their scores."""
        base, counts = self._base, self._weights_of(self.counts)[self._base.keys & LOW_KEY]
        zeros = counts - base.totals
        if not self.exact:
            zeros[np.isin(base.keys, base.each_key()[base.scores == 0.0])] = 0.0
            zeros[zeros <= RESIDUE * counts] = 0.0
        some = zeros > 0
        return Entries(base.keys[some], np.zeros(int(some.sum())), zeros[some].astype(np.float64))

    def _weights_of(self, counts: Mapping[Label, Weight]) -> Any:
        """The weights of true classes, each at its code: int64, or float64."""
        weights = np.zeros(len(self._codes), self._dtype)
        for label, count in counts.items():
            weights[self._codes[label]] = count
        return weights

    def _rename(self) -> None:
        """Give the labels that occur the codes 0, 1, …, ascending; all is folded."""
        codes, base = self._codes, self._base
        if self._has_removed_columns:
            held = set(np.unique(base.keys >> KEY_SHIFT).tolist())
            codes = {
                label: code for label, code in codes.items() if label in self.counts or code in held
            }
        self._has_removed_columns = False
        self._codes = {label: code for code, label in enumerate(sorted(codes))}
        if self._codes != codes:
            places = np.zeros(max(codes.values(), default=0) + 1, np.int64)
            for label, code in codes.items():
                places[code] = self._codes[label]
            keys = places[base.keys >> KEY_SHIFT] << KEY_SHIFT | places[base.keys & LOW_KEY]
            self._base = base.renamed(keys)

    def _promote(self) -> None:
        """Make all weights floats, for good."""
        if self.exact:
            self._fold()
            zeros = self._implied_zeros()
            self.exact = False
            self._base = self._base.promoted().absorbed(zeros)
            self.counts = {label: float(count) for label, count in self.counts.items()}
            self._wins.kept.clear()

    # Removing

    def revert(self, y_true: Label, proba: Scores, weight: Weight = 1, y_pred: Any = None) -> None:
        """Remove one earlier event, exactly, or raise InputError and change nothing.

        That all its scores belong to one event is not recorded, and not checked.
        """
        whole = removable_weight(weight, self.exact)
        self._fit()
        event = y_true, {label: coarse(s, self._level) for label, s in proba.items()}, whole
        if self._waiting and any(isinstance(each, _Part) for each in self._waiting):
            # Some may have negative weights: what is sorted may be more than there is.
            self._fold()
        found = self._retract(*event) or self._take(*event)
        if not found and (self._events or self._waiting):
            self._fold()
            found = self._take(*event)
        if not found:
            raise never_counted("proba", {"y_true": y_true, **proba})
        self._count(y_true, -whole)
        if self._wins.kept:
            self._wins.follow(y_true, event[1], -whole, self.not_probabilities)
        if y_true not in self.counts:
            self._wins.forget_class(y_true)

    def _retract(self, true: Label, scores: Scores, weight: int) -> bool:
        """Whether such an event is the oldest or the newest that waits; it is dropped."""
        events, event = self._events, (true, scores, weight)
        for at in (0, -1) if events else ():
            if events[at] == event:
                del events[at]
                self._removed(scores)
                return True
        return False

    def _removed(self, scores: Scores) -> None:
        """Note that a label of an event that was removed may occur nowhere else."""
        newest = self._events[-1][1] if self._events else {}
        if not all(newest.get(label) for label, score in scores.items() if score):
            self._has_removed_columns = True

    def _take(self, true: Label, scores: Scores, weight: int) -> bool:
        """Take an event out of the folded scores, if each column holds its score there."""
        base, codes = self._base, self._codes
        low = codes.get(true, LOW_KEY)
        if self._folded.get(true, 0) < weight:
            return False
        places: list[tuple[int, int]] = []
        for column, score in scores.items():
            if score:
                key = codes.get(column, LOW_KEY) << KEY_SHIFT | low
                at = base.find(key, score)
                if at < 0 or base.weight_at(at) < weight:
                    return False
                places.append((key, at))
        if len(places) < len(codes):
            most = self._folded[true] - weight
            for column, code in codes.items():
                # It gave this column 0, of which there may be fewer.
                if not scores.get(column) and base.total(code << KEY_SHIFT | low) > most:
                    return False
        left = [base.take(key, at, weight) for key, at in places]
        if not all(left):
            self._removed(scores)
        self._folded[true] -= weight
        return True

    # Other states and the written form

    def check_merge(self, other: ClassScores) -> None:
        """Raise InputError for labels or weight of the other that :meth:`merge` refuses."""
        self._check_capacity(other.labels, other.total)

    def merge(self, other: ClassScores, times: int = 1) -> None:
        """Add the other's events so many times; −1 removes merged ones, both of whole weights."""
        check_mergeable(self, other, "max_scores", "probabilities")
        try:
            self._check_capacity(other.labels, times * other.total)
        except InputError as error:
            raise StateError(f"merge: {error}") from None
        if self.level < other.level:
            self._fold()
            self._coarsen(other.level)
        if self._level > other.level or self.exact < other.exact:
            other = other.copy()
            other._fold()
            other._coarsen(self._level)
            if not self.exact:
                other._promote()
        if not other.exact:
            self._promote()
        multisets, labels = other.multisets(), other.labels
        self._learn(labels)
        codes = np.array([self._codes[label] for label in labels], dtype=np.int64)
        keys = codes[multisets.keys >> KEY_SHIFT] << KEY_SHIFT | codes[multisets.keys & LOW_KEY]
        entries = multisets.entries(keys, times)
        self._keep(_Part(entries) if self.exact else _Part(entries, self._weights_of(other.counts)))
        for true, count in list(other.counts.items()):
            self._count(true, times * count)
        self._has_removed_columns = self._has_removed_columns or times < 0
        self._wins.kept.clear()
        self._relieve()

    def copy(self) -> ClassScores:
        """An independent state of the same events; score arrays are shared."""
        new = ClassScores(probabilities=self.probabilities, declared=self.declared)
        for name in ("exact", "max_scores", "_whole", "_level", "_size", "_has_removed_columns"):
            setattr(new, name, getattr(self, name))
        for name in ("counts", "_codes", "_folded", "_waiting", "_events"):
            setattr(new, name, getattr(self, name).copy())
        new._base = self._base.shared()
        return new

    def __reduce__(self) -> tuple[object, ...]:
        return ClassScores.from_state, (self.to_state(), self.declared)

    def to_state(self) -> dict[str, Any]:
        """The written form, as plain data."""
        multisets, labels = self.multisets(), self.labels
        form = {
            "exact": self.exact,
            "labels": labels,
            "counts": [self.true_count(label) for label in labels],
            "columns": multisets.keys >> KEY_SHIFT,
            "true": multisets.keys & LOW_KEY,
            "lengths": multisets.lengths,
            "scores": multisets.scores.copy(),
            "weights": multisets.each().astype(self._dtype),
        }
        if self.not_probabilities:
            form["probabilities"] = False
        if self.max_scores is not None:
            form |= {"max_scores": self.max_scores, "level": self._level}
        return form

    @classmethod
    def from_state(cls, data: object, declared: tuple[Label, ...] | None = None) -> ClassScores:
        """The state that :meth:`to_state` wrote; raises StateError."""
        fields = Fields(data, "class_scores", _KEYS, BOUNDED_KEYS, PROBABILITIES_KEY)
        max_scores, level = bounds_of(fields)
        probabilities = fields.probabilities()
        new = cls(max_scores=max_scores, probabilities=probabilities, declared=declared)
        new._level, new.exact = level, fields.exact
        labels = fields.labels()
        if len(labels) > MAX_CLASSES:
            fields.refuse("labels", f"at most {MAX_CLASSES} labels", len(labels))
        counts = fields.weights("counts", len(labels))
        most = MAX_TOTAL // max(1, len(labels)) if new.exact else MOST_WEIGHT
        if sum(counts) > most:
            fields.refuse("counts", f"a sum of at most {most}", sum(counts))
        new._base = new._read(fields, counts)
        named = set((new._base.keys >> KEY_SHIFT).tolist())
        for n, (label, count) in enumerate(zip(labels, counts, strict=True)):
            new._codes[label] = n
            if count:
                new._count(label, count)
            elif n not in named:
                fields.refuse(f"labels[{n}]", "a label that occurs", label)
        new._folded = new.counts.copy()
        if not new.exact:
            # Older forms imply the zeros of floats, too.
            new._base = new._base.absorbed(new._implied_zeros())
        return new

    def _read(self, fields: Fields, counts: list[Weight]) -> KeyedScores:
        """The multisets of a written form, every value checked; raises StateError."""
        columns, true = (fields.indices(key, len(counts)) for key in ("columns", "true"))
        lengths = fields.array("lengths", np.int64)
        if not len(columns) == len(true) == len(lengths):
            raise StateError(
                f"class_scores.columns: expected columns, true and lengths of one length, "
                f"got {len(columns)}, {len(true)} and {len(lengths)}"
            )
        keys = columns << KEY_SHIFT | true
        fields.refuse_at(falls(keys), "columns", "ascending (column, true), none twice", columns)
        scores = fields.array("scores", np.float64)
        weights = fields.array("weights", self._dtype)
        if len(scores) != len(weights):
            fields.refuse("weights", f"{len(scores)} weights", len(weights))
        # Bounded one by one first, so that their sum cannot wrap around.
        bad = (lengths < 1) | (lengths > len(scores))
        if bad.any() or total_weight(lengths) != len(scores):
            fields.refuse("lengths", f"lengths above 0 that add up to {len(scores)}", lengths)
        starts = np.append(0, np.cumsum(lengths)).astype(np.int64)
        firsts = starts[:-1]
        # False for nan.
        if self.not_probabilities:
            expected, good = "a finite score but 0", np.isfinite(scores) & (scores != 0.0)
        else:
            expected, good = "a score in (0, 1]", (scores > 0.0) & (scores <= 1.0)
        if not self.exact:
            good |= (scores == 0.0) & ~np.signbit(scores)
        fields.refuse_at(~good, "scores", expected, scores)
        falling = falls(scores)
        falling[firsts] = False
        fields.refuse_at(falling, "scores", "ascending scores, none twice", scores)
        alone = (scores[firsts] == 0.0) & (lengths == 1)
        fields.refuse_at(alone, "lengths", "a score but 0", lengths)
        positive = (weights > 0) & (weights <= MOST_WEIGHT)
        fields.refuse_at(~positive, "weights", "a weight above 0", weights)
        if self._is_over_limit(lengths):
            most = f"at most {self.max_scores} scores in each multiset"
            fields.refuse("lengths", most, lengths.max())
        of_class = np.array([counts[y] for y in true.tolist()], weights.dtype)
        # Of floats, so that a sum of integers that wraps around is found as well.
        over = np.add.reduceat(weights.astype(np.float64), firsts) > of_class * (1 + RESIDUE)
        if self.exact:
            over |= np.add.reduceat(weights, firsts) > of_class
        if over.any():
            at = int(np.argmax(over))
            start, end = starts[at : at + 2].tolist()
            fields.refuse(
                f"weights[{start}:{end}]",
                f"a sum of at most {of_class[at]}, the weight of the true class",
                total_weight(weights[start:end]),
            )
        check_cells(fields, scores, None, self._level)
        ones = self.exact and bool((weights == 1).all())
        return KeyedScores(keys, starts, scores, None if ones else weights)

    def _is_over_limit(self, lengths: IntArray) -> bool:
        """Whether a multiset has more scores than :attr:`max_scores`; its zeros are one more."""
        limit = self.max_scores
        return limit is not None and bool((lengths > limit + (not self.exact)).any())

    def _check(self) -> None:
        self._wins._check(self)
        kind = int if self.exact else float
        assert all(type(count) is kind and count > 0 for count in self.counts.values())
        if self.exact:
            assert self._whole == sum(self.counts.values())
        base, labels = self.multisets(), self.labels
        base._check()
        assert list(self._codes.items()) == [(label, code) for code, label in enumerate(labels)]
        assert set(labels) == {
            *self.counts,
            *(labels[code] for code in (base.keys >> KEY_SHIFT).tolist()),
        }
        assert not base.has_removed
        assert not (self.exact and (base.scores == 0.0).any())
        assert self.not_probabilities or ((base.scores >= 0.0) & (base.scores <= 1.0)).all()
        # A key is there for its other scores, and what it lacks to its class is no weight.
        assert set(base.each_key()[base.scores != 0.0].tolist()) == set(base.keys.tolist())
        assert self.exact or not len(self._implied_zeros().keys)
        assert base.each().dtype == self._dtype
        for key, total in zip(base.keys.tolist(), base.totals.tolist(), strict=True):
            count = self.counts[labels[key & LOW_KEY]]
            assert total <= count + (0 if self.exact else RESIDUE * count)
        assert not self._is_over_limit(base.lengths)
        assert (coarse_column(base.scores, self._level) == base.scores).all()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClassScores):
            return NotImplemented
        # Level and labels after the fold that the multisets are read with.
        return self.multisets() == other.multisets() and all(
            getattr(self, name) == getattr(other, name)
            for name in ("max_scores", "level", "exact", "not_probabilities", "counts", "labels")
        )

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"<ClassScores of weight {self.total}, {len(self.labels)} classes>"


def class_counter(scores: ClassScores | None, sums: ClassProbabilitySums | None) -> Any:
    """Counts events in these states in compiled code; None where there is none."""
    if COMPILED is None or (scores is None and sums is None):
        return None
    return COMPILED.ClassCounter(scores, sums, _EVENTS_MOST, MAX_TOTAL // MAX_CLASSES)
