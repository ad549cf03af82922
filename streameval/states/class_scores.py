"""Pairwise wins between classes in each column of scores: the basis of multi-class AUC.

The probability that a random event of class c outscores, in column c, a random
event of class j comes from the scores of column c for events of class c against
those for events of class j. One-vs-one AUC needs all these pairs; one-vs-rest
their sums over j.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

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
from streameval.states.fields import (
    MOST_WEIGHT,
    array_field,
    bool_field,
    fields_of,
    labels_field,
    never_counted,
    refuse,
    removable_weight,
    weights_field,
)
from streameval.states.ranking.coarse_score import (
    BOUNDED_KEYS,
    bounded_form,
    bounds_fields,
    check_cells,
    checked_limit,
    coarse,
    coarse_column,
    least_level,
)
from streameval.states.ranking.ranked_weights import MAX_TOTAL, RankedWeights
from streameval.states.ranking.score_groups import (
    ScoreGroups,
    group_scores,
    groups_to_state,
    twice_wins,
)
from streameval.states.ranking.sorted_runs import WeightArray
from streameval.states.score_index import ScoreIndex
from streameval.states.sums.fixed_point import total_weight

# The written form of class scores: one dict for one content, and none other accepted.
#
# ===========  ==================================================================
# ``exact``    bool: whether weights are integers
# ``labels``   list of str or of int, ascending; each is a true class or a column
# ``counts``   list: weight of each label as true class
# ``columns``  int64 array: index into ``labels`` of each multiset's column
# ``true``     int64 array: and of its true class; (column, true) ascend
# ``lengths``  int64 array: number of distinct scores of each multiset, above 0
# ``scores``   float64 array: those of all multisets, ascending in each, in (0, 1]
# ``weights``  int64 array, float64 once a weight was not whole; of like length
# ===========  ==================================================================
#
# Where the scores are no probabilities: also ``probabilities``, False; scores are then any
# finite ones but 0, and every event has one of every label.
# Where the scores are bounded: also ``max_scores``, the most of one multiset, and
# ``level``, that of the cells of all.

Columns: TypeAlias = dict[Label, dict[Label, RankedWeights]]
"""Column -> true class -> its scores above 0."""

_NAME = "class_scores"
_SIGNED = "probabilities"
_KEYS = frozenset({"exact", "labels", "counts", "columns", "true", "lengths", "scores", "weights"})


def write_form(
    labels: list[Label], counts: dict[Label, Weight], columns: Columns, exact: bool
) -> dict[str, Any]:
    """The dict of class scores; ``labels`` ascend."""
    index = {label: n for n, label in enumerate(labels)}
    parts = [
        (index[column], index[true], *columns[column][true].arrays())
        for column in labels
        for true in sorted(columns.get(column, ()))
    ]
    zero: Weight = 0 if exact else 0.0
    dtype = np.int64 if exact else np.float64
    return {
        "exact": exact,
        "labels": labels,
        "counts": [counts.get(label, zero) for label in labels],
        "columns": np.array([part[0] for part in parts], dtype=np.int64),
        "true": np.array([part[1] for part in parts], dtype=np.int64),
        "lengths": np.array([len(part[2]) for part in parts], dtype=np.int64),
        "scores": np.concatenate([np.zeros(0), *(part[2] for part in parts)]),
        "weights": np.concatenate([np.zeros(0, dtype), *(part[3] for part in parts)]),
    }


class ScoresForm(NamedTuple):
    """What a written form holds."""

    counts: dict[Label, Weight]
    columns: Columns
    exact: bool
    max_scores: int | None
    level: int
    probabilities: bool


def read_form(data: object) -> ScoresForm:
    """Counts by true class, scores by column and true class, and whether they are exact.

    Raises:
        StateError: Anything but what :func:`write_form` wrote.
    """
    bounded = bounded_form(data)
    # Written where it is False only: other files are as before.
    signed = isinstance(data, dict) and _SIGNED in data
    keys = _KEYS | (BOUNDED_KEYS if bounded else frozenset())
    fields = fields_of(data, _NAME, keys | {_SIGNED} if signed else keys)
    if signed and fields[_SIGNED] is not False:
        refuse(f"{_NAME}.{_SIGNED}", "False or no such key", fields[_SIGNED])
    max_scores, level = bounds_fields(fields, _NAME) if bounded else (None, 0)
    exact = bool_field(fields, "exact", _NAME)
    labels = labels_field(fields, "labels", _NAME)
    if len(labels) > MAX_CLASSES:
        raise StateError(
            f"{_NAME}.labels: expected at most {MAX_CLASSES} labels, got {len(labels)}"
        )
    held = weights_field(fields, "counts", _NAME, exact, len(labels))
    most = MAX_TOTAL // max(1, len(labels)) if exact else MOST_WEIGHT
    if sum(held) > most:
        refuse(f"{_NAME}.counts", f"a sum of at most {most}", sum(held))
    column = array_field(fields, "columns", _NAME, np.int64)
    true = array_field(fields, "true", _NAME, np.int64)
    lengths = array_field(fields, "lengths", _NAME, np.int64)
    _check_indices(column, true, lengths, len(labels))
    scores = array_field(fields, "scores", _NAME, np.float64)
    weights = array_field(fields, "weights", _NAME, np.int64 if exact else np.float64)
    ends = _check_values(lengths, scores, weights, signed=signed)
    check_cells(scores, None, level, _NAME)
    if max_scores is not None and (lengths > max_scores).any():
        raise StateError(f"{_NAME}.lengths: expected at most {max_scores} scores in each multiset")

    columns: Columns = {}
    start = 0
    for c, y, end in zip(column.tolist(), true.tolist(), ends, strict=True):
        where = f"{_NAME}.weights[{start}:{end}]"
        _check_total(weights[start:end], held[y], where)
        ranked = RankedWeights(scores[start:end], weights[start:end])
        columns.setdefault(labels[c], {})[labels[y]] = ranked
        start = end
    counts = {label: count for label, count in zip(labels, held, strict=True) if count}
    for n, label in enumerate(labels):
        if label not in counts and label not in columns:
            refuse(f"{_NAME}.labels[{n}]", "a label that occurs", label)
    return ScoresForm(counts, columns, exact, max_scores, level, not signed)


def _check_indices(column: IntArray, true: IntArray, lengths: IntArray, size: int) -> None:
    if not len(column) == len(true) == len(lengths):
        raise StateError(
            f"{_NAME}.columns: expected columns, true and lengths of one length, "
            f"got {len(column)}, {len(true)} and {len(lengths)}"
        )
    for name, indices in (("columns", column), ("true", true)):
        outside = (indices < 0) | (indices >= size)
        if outside.any():
            at = int(np.argmax(outside))
            refuse(f"{_NAME}.{name}[{at}]", f"an index into {size} labels", int(indices[at]))
    codes = column * size + true
    falls = codes[1:] <= codes[:-1]
    if falls.any():
        at = int(np.argmax(falls)) + 1
        refuse(f"{_NAME}.columns[{at}]", "ascending (column, true), none twice", int(column[at]))


def _check_values(
    lengths: IntArray, scores: FloatArray, weights: WeightArray, *, signed: bool
) -> list[int]:
    """Check the concatenated arrays; where each multiset ends."""
    if len(scores) != len(weights):
        raise StateError(f"{_NAME}.weights: expected {len(scores)} weights, got {len(weights)}")
    # Bounded one by one first, so that their sum cannot wrap around.
    bad = (lengths < 1) | (lengths > len(scores))
    if bad.any() or total_weight(lengths) != len(scores):
        raise StateError(f"{_NAME}.lengths: expected lengths above 0 that add up to {len(scores)}")
    ends = np.cumsum(lengths)
    # False for nan.
    good = np.isfinite(scores) & (scores != 0.0) if signed else (scores > 0.0) & (scores <= 1.0)
    if not good.all():
        at = int(np.argmin(good))
        expected = "a finite score but 0" if signed else "a score in (0, 1]"
        refuse(f"{_NAME}.scores[{at}]", expected, float(scores[at]))
    falls = scores[1:] <= scores[:-1]
    falls[ends[:-1] - 1] = False
    if falls.any():
        at = int(np.argmax(falls)) + 1
        refuse(f"{_NAME}.scores[{at}]", "ascending scores, none twice", float(scores[at]))
    positive = (weights > 0) & (weights <= MOST_WEIGHT)
    if not positive.all():
        at = int(np.argmin(positive))
        refuse(f"{_NAME}.weights[{at}]", "a weight above 0", weights[at].item())
    return [int(end) for end in ends]


def _check_total(weights: WeightArray, count: Weight, where: str) -> None:
    total = total_weight(weights)
    slack = 0 if isinstance(count, int) else 1e-9 * count
    if total > count + slack:
        refuse(where, f"a sum of at most {count}, the weight of the true class", total)


RESIDUE = 1e-9
"""Float sums of equal terms differ by less than this share: it is no weight of zeros."""


class ScoreColumns:
    """Scores of each class's column by true class, with zeros that are implied, not stored.

    ``S[c][y]`` is the multiset of the scores that column c gave to events of true
    class y. Only scores above 0 are kept. An event that does not name a class gave
    it 0, and so did all events before a class first occurred: how many zeros a
    multiset has follows from the weight of its true class.

    Args:
        signed: Whether scores may be below 0 (and above 1): no probabilities. Every event
            then has a score of every label, so that what is not stored is a 0 all the same.

    Attributes:
        counts: Weight of each true class.
        columns: Column -> true class -> its scores above 0.
        exact: Whether all weights are integers.

    >>> columns = ScoreColumns()
    >>> columns.count("cat", 2)
    >>> columns.ranked("cat", "cat").add(0.75, 1)
    >>> columns.zeros("cat", "cat"), columns.zeros("dog", "cat")
    (1, 2)
    """

    __slots__ = ("_whole", "columns", "counts", "exact", "signed")

    def __init__(self, *, signed: bool = False) -> None:
        self.signed = signed
        self.counts: dict[Label, Weight] = {}
        self.columns: Columns = {}
        self.exact = True
        self._whole = 0  # sum of counts while exact

    def labels(self) -> list[Label]:
        """True classes and columns, ascending."""
        return sorted(self.counts.keys() | self.columns.keys())

    def total(self) -> Weight:
        """The weight of all events; O(1) while exact."""
        return self._whole if self.exact else math.fsum(self.counts.values())

    def count(self, true: Label, weight: Weight) -> None:
        """Add to the weight of a true class; its scores are added separately."""
        self.counts[true] = self.counts.get(true, 0 if self.exact else 0.0) + weight
        if self.exact:
            self._whole += int(weight)

    def ranked(self, column: Label, true: Label) -> RankedWeights:
        """The scores above 0 of a column for a true class, made if there are none."""
        rows = self.columns.get(column)
        if rows is None:
            rows = self.columns[column] = {}
        ranked = rows.get(true)
        if ranked is None:
            ranked = rows[true] = RankedWeights()
            if not self.exact:
                ranked.promote()
        return ranked

    def holds(self, true: Label, scores: Mapping[Label, float], weight: int) -> bool:
        """Whether every column holds an event with this score, so that it can be removed."""
        left = self.counts.get(true, 0) - weight
        if left < 0:
            return False
        for column, rows in self.columns.items():
            score, ranked = scores.get(column, 0.0), rows.get(true)
            held = 0 if ranked is None else ranked.total
            if score:
                if ranked is None or ranked.weight_at(score) < weight:
                    return False
                held -= weight
            if held > left:  # fewer zeros are held
                return False
        return all(column in self.columns for column, score in scores.items() if score)

    def remove(self, true: Label, scores: Mapping[Label, float], weight: int) -> None:
        """Remove an event for which :meth:`holds` is true."""
        for column, score in scores.items():
            if score:
                self.columns[column][true].remove(score, weight)
                self._drop_empty(column, true)
        self._take_count(true, weight)

    def _drop_empty(self, column: Label, true: Label) -> None:
        rows = self.columns[column]
        if not rows[true].total:
            del rows[true]
            if not rows:
                del self.columns[column]

    def _take_count(self, true: Label, weight: Weight) -> None:
        self.count(true, -weight)
        if not self.counts[true]:
            del self.counts[true]

    def subtract(self, other: ScoreColumns) -> None:
        """Remove all of another that was merged; both exact."""
        for column, rows in other.columns.items():
            for true, ranked in rows.items():
                self.columns[column][true].subtract(ranked)
                self._drop_empty(column, true)
        for true, count in other.counts.items():
            self._take_count(true, count)

    @classmethod
    def of(
        cls, counts: dict[Label, Weight], columns: Columns, exact: bool, *, signed: bool = False
    ) -> ScoreColumns:
        """These scores; the dictionaries are taken over."""
        new = cls(signed=signed)
        new.columns, new.exact = columns, exact
        for true, weight in counts.items():
            new.count(true, weight)
        return new

    def merge(self, other: ScoreColumns) -> None:
        """Add the other's events; its content is unchanged."""
        if not other.exact:
            self.promote()
        for column, rows in list(other.columns.items()):
            for true, ranked in list(rows.items()):
                self.ranked(column, true).merge(ranked)
        for true, count in list(other.counts.items()):
            self.count(true, count)

    def promote(self) -> None:
        """Make all weights floats, for good."""
        if not self.exact:
            return
        self.exact = False
        self.counts = {label: float(count) for label, count in self.counts.items()}
        for rows in self.columns.values():
            for ranked in rows.values():
                ranked.promote()

    def copy(self) -> ScoreColumns:
        """Independent columns of the same events; score arrays are shared."""
        new = ScoreColumns(signed=self.signed)
        new.counts, new.exact, new._whole = self.counts.copy(), self.exact, self._whole
        new.columns = {
            column: {true: ranked.copy() for true, ranked in rows.items()}
            for column, rows in self.columns.items()
        }
        return new

    def zeros(self, column: Label, true: Label) -> Weight:
        """The weight of the events of a true class that gave the column 0."""
        count = self.counts[true]
        ranked = self.columns.get(column, {}).get(true)
        if ranked is None:
            return count
        zeros = count - ranked.total
        return zeros if self.exact or zeros > RESIDUE * count else 0.0

    def arrays(self, column: Label, true: Label) -> tuple[FloatArray, WeightArray]:
        """The distinct scores of a true class in a column, zeros included, and their weights."""
        ranked = self.columns.get(column, {}).get(true)
        scores, weights = (ranked or RankedWeights()).arrays()
        zeros = self.zeros(column, true) if true in self.counts else 0
        if not zeros:
            return scores, weights
        at = int(np.searchsorted(scores, 0.0))
        return np.insert(scores, at, 0.0), np.insert(weights, at, zeros)

    def standing(self, column: Label, true: Label, score: float) -> int:
        """Weight below plus weight at or below a score, zeros included; whole weights only."""
        zeros = self.zeros(column, true)
        if not score and not self.signed:
            return int(zeros)
        ranked = self.columns.get(column, {}).get(true)
        below, at_or_below = (0, 0) if ranked is None else ranked.rank(score)
        # Zeros are above a negative score, and equal to 0.
        times = 2 if score > 0 else int(score == 0)
        return int(below + at_or_below + times * zeros)

    def wins(self, column: Label, other: Label) -> Weight:
        """Twice the weight of pairs that class ``column`` wins over ``other`` in its column.

        Cost:
            O(n) of the two classes.
        """
        rows = self.columns.get(column, {})
        own, against = rows.get(column), rows.get(other)
        own_zeros, other_zeros = self.zeros(column, column), self.zeros(column, other)
        wins = own_zeros * other_zeros
        if own is not None:
            above = own.total - own.rank(0.0)[0] if self.signed else own.total
            wins += 2 * above * other_zeros
            if against is not None:
                wins += twice_wins(own, against)
        if self.signed and against is not None:
            wins += 2 * own_zeros * against.rank(0.0)[0]
        return wins

    def least_level(self, level: int, limit: int) -> int:
        """The least level, from that of the scores on, at which no multiset has more."""
        for rows in self.columns.values():
            for ranked in rows.values():
                if ranked.entries > limit:
                    scores = coarse_column(ranked.arrays()[0], level)
                    level = least_level(np.unique(scores), level, limit)
        return level

    def coarsen(self, level: int) -> None:
        """Replace each score by that of its cell."""
        for rows in self.columns.values():
            for true, ranked in rows.items():
                rows[true] = ranked.coarsened(level)

    def pooled(self, columns: Iterable[Label]) -> ScoreGroups:
        """Every (event, label) of these columns as one binary event, positive where it is true.

        Of one column, it is that class against the rest.
        """
        sides = (RankedWeights(), RankedWeights())  # negative, positive
        zeros: list[Weight] = [0, 0]
        if not self.exact:
            sides[0].promote()
            sides[1].promote()
        for label in columns:
            for true in sorted(self.counts):
                ranked = self.columns.get(label, {}).get(true)
                if ranked is not None:
                    sides[label == true].merge(ranked)
                zeros[label == true] += self.zeros(label, true)
        dtype = np.int64 if self.exact else np.float64
        for side, weight in zip(sides, zeros, strict=True):
            if weight:
                side.add_many(np.zeros(1), np.array([weight], dtype=dtype))
        negatives, positives = sides
        return group_scores(positives, negatives)

    def _check(self) -> None:
        kind = int if self.exact else float
        assert all(type(count) is kind and count > 0 for count in self.counts.values())
        if self.exact:
            assert self._whole == sum(self.counts.values())
        for rows in self.columns.values():
            assert rows
            for true, ranked in rows.items():
                ranked._check()
                scores, _ = ranked.arrays()
                assert ranked.exact is self.exact
                assert len(scores)
                assert (scores != 0.0).all()
                assert self.signed or (scores[0] > 0.0 and scores[-1] <= 1.0)
                slack = 0 if self.exact else RESIDUE * self.counts[true]
                assert ranked.total <= self.counts[true] + slack

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ScoreColumns):
            return NotImplemented
        return (
            self.exact == other.exact
            and self.signed == other.signed
            and self.counts == other.counts
            and self.columns == other.columns
        )

    __hash__ = None  # type: ignore[assignment]  # mutable


# Wins of one class over another, kept current from the first read.

_KEPT_LEAST = 100
_KEPT_SHARE = 50
# Keeping a pair current costs 1.5 µs an event, deriving it 30 ns for each event
# counted: with more than n/50 events between two reads the latter is cheaper.


class PairWins:
    """Cache of :meth:`ScoreColumns.wins`, kept current while that costs less than a new sum.

    >>> scores, wins = ScoreColumns(), PairWins()
    >>> scores.count("cat", 1)
    >>> scores.count("dog", 1)
    >>> wins.read(scores, "cat", "dog")
    1
    """

    __slots__ = ("_rows", "_unread")

    def __init__(self) -> None:
        # Column -> true class it is compared with -> wins.
        self._rows: dict[Label, dict[Label, Weight]] = {}
        self._unread = 0  # events since the last read

    def __bool__(self) -> bool:
        return bool(self._rows)

    def read(self, scores: ScoreColumns, column: Label, other: Label) -> Weight:
        """The wins of class ``column`` over ``other``; both have events.

        Cost:
            O(1) when cached, else O(n) of the two classes.
        """
        self._unread = 0
        row = self._rows.get(column)
        if row is None:
            row = self._rows[column] = {}
        wins = row.get(other)
        if wins is None:
            wins = row[other] = scores.wins(column, other)
        return wins

    def forget(self) -> None:
        """Empty the cache."""
        self._rows = {}

    def forget_class(self, label: Label) -> None:
        """Drop the class, which has no event any more."""
        self._rows.pop(label, None)
        for row in self._rows.values():
            row.pop(label, None)

    def follow(
        self, scores: ScoreColumns, true: Label, proba: Mapping[Label, float], weight: int
    ) -> None:
        """Add one event, or remove it with a negative weight.

        To be called before or after ``scores`` counts it: the event changes
        the scores of its own true class only, and those are not what its
        scores are compared with.

        Args:
            scores: Those of all events; whole weights only.
            true: The event's class.
            proba: Its probabilities.
            weight: Its weight.

        Cost:
            Two ranks for each class that was read.
        """
        self._unread += 1
        if self._unread > _KEPT_LEAST and self._unread > scores.total() // _KEPT_SHARE:
            self.forget()
            return
        for column, row in self._rows.items():
            score = proba.get(column, 0.0)
            if column == true:
                for other in row:
                    row[other] += weight * scores.standing(column, other, score)
            elif true in row:
                above = 2 * scores.counts[column] - scores.standing(column, column, score)
                row[true] += weight * above

    def copy(self) -> PairWins:
        """An independent copy."""
        new = PairWins()
        new._rows = {column: row.copy() for column, row in self._rows.items()}
        new._unread = self._unread
        return new

    def _check(self, scores: ScoreColumns) -> None:
        for column, row in self._rows.items():
            for other, wins in row.items():
                assert other != column
                if scores.exact:
                    assert wins == scores.wins(column, other)


class ClassScores:
    """Scores of each class's column by true class, and the pairwise wins between classes.

    A label belongs to the state while some event has it as true class or gives
    it a probability above 0; a probability of 0 is the same as none.

    Args:
        max_scores: Most distinct scores above 0 of each pair (column, true class),
            beyond which all scores are coarsened, to one level; see
            :mod:`~streameval.states.ranking.coarse_score`. None keeps all.
        probabilities: Whether scores are probabilities; else any finite numbers, of which
            each event then names one for every label.

    Cost:
        An event with K classes: 1 µs a class until wins are read, 6 µs a
        class while they are read often. A batch: 50 ns a cell. All K² wins of
        n events: 60 ns · K · n. Memory: 8 bytes a score above 0, and about
        1 kB for each pair (column, true class) that occurs.

    >>> scores = ClassScores()
    >>> scores.update("cat", {"cat": 0.75, "dog": 0.25})
    >>> scores.update("dog", {"cat": 0.25, "dog": 0.5, "cow": 0.25})
    >>> scores.labels
    ['cat', 'cow', 'dog']
    >>> scores.pair_wins("cat", "dog"), scores.pair_wins("cow", "dog")
    (2, 0)
    """

    __slots__ = ("_level", "_limit", "_room", "_scores", "_unfit", "_wins")

    def __init__(self, *, max_scores: int | None = None, probabilities: bool = True) -> None:
        self._scores = ScoreColumns(signed=not probabilities)
        self._wins = PairWins()
        self._limit = checked_limit(max_scores)
        self._level = 0
        # Whether scores were counted since they were last within the limit, and how many
        # more events may be before they have to be, so that memory stays bounded.
        self._unfit = False
        self._room = 0 if self._limit is None else self._limit

    def _fit(self) -> None:
        """Raise the level to the least at which each multiset is within the limit."""
        if self._unfit and self._limit is not None:
            self._coarsen(self._scores.least_level(self._level, self._limit))
            self._unfit, self._room = False, self._limit

    def _coarsen(self, level: int) -> None:
        if level > self._level:
            self._level = level
            self._scores.coarsen(level)
            self._wins.forget()

    def _arrived(self, events: int) -> None:
        if self._limit is not None:
            self._unfit = True
            self._room -= events
            if self._room < 0:
                self._fit()

    # -- reading ---------------------------------------------------------

    @property
    def max_scores(self) -> int | None:
        """Most distinct scores of a column and true class; None where all are kept."""
        return self._limit

    @property
    def probabilities(self) -> bool:
        """Whether scores are probabilities."""
        return not self._scores.signed

    @property
    def level(self) -> int:
        """The level of the cells that scores are coarsened to; 0 while all are kept."""
        self._fit()
        return self._level

    @property
    def labels(self) -> list[Label]:
        """All labels, ascending. A new list."""
        return self._scores.labels()

    @property
    def exact(self) -> bool:
        """False from the first weight that is not whole: wins are floats then."""
        return self._scores.exact

    @property
    def total(self) -> Weight:
        """The weight of all events."""
        return self._scores.total()

    def true_count(self, label: Label) -> Weight:
        """The weight of the events of one true class; 0 for an unknown label."""
        return self._scores.counts.get(label, 0 if self.exact else 0.0)

    def pair_wins(self, column: Label, other: Label) -> Weight:
        """How often events of class ``column`` outscore those of ``other`` in that column.

        Twice the weight of the pairs (event of class ``column``, event of class
        ``other``) in which the first has the higher score in ``column``, a tie
        counting one half; so A(column | other) = wins / (2 · n_column · n_other).

        Returns:
            An int, or a float once a weight was not whole; 0 when a class has
            no events, or is compared with itself.

        Cost:
            O(1) when it was read before and not too many events have been counted
            since; else 30 ns a score of the two classes.
        """
        counts = self._scores.counts
        if column == other or column not in counts or other not in counts:
            return 0 if self.exact else 0.0
        self._fit()
        return self._wins.read(self._scores, column, other)

    def one_vs_rest_wins(self, column: Label) -> Weight:
        """:meth:`pair_wins` of a class over all others together.

        Cost:
            O(K) when the pairs were read before.
        """
        wins = [self.pair_wins(column, other) for other in self._scores.counts if other != column]
        return sum(wins) if self.exact else math.fsum(wins)

    def column_scores(self, column: Label, true: Label) -> tuple[FloatArray, WeightArray]:
        """The distinct scores of a true class in a column, ascending, and their weights.

        Those of 0 are included. Both arrays are empty where the class has no events.

        Cost:
            O(n) of the class.
        """
        self._fit()
        return self._scores.arrays(column, true)

    def pooled(self) -> ScoreGroups:
        """Every (event, label) as one binary event, positive where the label is true.

        What the micro average ranks: n · K scores, zeros included.

        Cost:
            O(n · K).
        """
        self._fit()
        return self._scores.pooled(self.labels)

    def one_vs_rest(self, column: Label) -> ScoreIndex:
        """The scores of a class's column as a binary index: the class's events are positive.

        Cost:
            O(n).

        >>> scores = ClassScores()
        >>> scores.update("cat", {"cat": 0.75, "dog": 0.25})
        >>> scores.update("dog", {"dog": 1.0})
        >>> scores.one_vs_rest("cat").groups().scores.tolist()
        [0.0, 0.75]
        """
        groups, limit = self.one_vs_rest_groups(column), self._limit
        if limit is not None:
            # Of all true classes together there may be more scores than of one.
            limit = max(limit, len(groups.scores))
        return ScoreIndex.from_state(groups_to_state(groups, self.exact, limit, self._level))

    def one_vs_rest_groups(self, column: Label) -> ScoreGroups:
        """The scores of a column, zeros included: its class against all others.

        >>> scores = ClassScores()
        >>> scores.update("cat", {"cat": 0.75, "dog": 0.25})
        >>> scores.update("dog", {"dog": 1.0})
        >>> [side.tolist() for side in scores.one_vs_rest_groups("cat")]
        [[0.0, 0.75], [0, 1], [1, 0]]

        Cost:
            O(n).
        """
        self._fit()
        return self._scores.pooled([column])

    # -- counting --------------------------------------------------------

    def update(
        self,
        y_true: Label,
        proba: Mapping[Label, float],
        weight: Weight = 1,
        y_pred: Label | None = None,
    ) -> None:
        """Count one validated event that :meth:`check` accepts.

        Args:
            y_true: The true class, canonical.
            proba: Canonical label -> probability.
            weight: Canonical.
            y_pred: Not used; all states of class probabilities take it.
        """
        scores = self._scores
        if self._level:
            proba = {label: coarse(score, self._level) for label, score in proba.items()}
        if type(weight) is float:
            self._promote()
        if not scores.exact:
            self._wins.forget()  # wins of floats are derived anew, in one order of summing
        # Sorted in at once only where wins are read often; queued, it costs a tenth.
        often = bool(self._wins)
        if often:
            self._wins.follow(scores, y_true, proba, int(weight))
        for column, score in proba.items():
            if score:
                ranked = scores.ranked(column, y_true)
                if often:
                    ranked.add(score, weight)
                else:
                    ranked.queue(score, weight)
        scores.count(y_true, weight)
        self._arrived(1)

    def check(
        self,
        y_true: Label,
        proba: Mapping[Label, float],
        weight: Weight = 1,
        y_pred: Label | None = None,
    ) -> None:
        """Whether an event can be counted.

        Raises:
            InputError: A str label in a state of numbers, or the reverse; too
                many labels or too much weight.
        """
        self._check_capacity((y_true, *proba), weight)

    def check_many(self, batch: EventBatch) -> None:
        """:meth:`check` of all events of a batch together."""
        counted = np.flatnonzero(np.bincount(batch.y_true)).tolist()
        names = batch.score_labels
        if batch.named is not None:
            held = np.flatnonzero(np.logical_or.reduce(batch.named)).tolist()
            names = tuple(names[column] for column in held)
        total = len(batch) if batch.weight is None else total_weight(batch.weight)
        if total:
            self._check_capacity((*(batch.labels[code] for code in counted), *names), total)

    def _check_capacity(self, labels: Sequence[Label], weight: Weight) -> None:
        scores = self._scores
        counts, columns = scores.counts, scores.columns
        new = [label for label in labels if label not in counts and label not in columns]
        if new and counts:
            known = next(iter(counts))
            for label in new:
                check_same_kind(known, label, "y_true")
        total = scores.total() + weight
        if not new and total <= MAX_TOTAL // MAX_CLASSES:
            return
        classes = len(counts.keys() | columns.keys() | set(new))
        if classes > MAX_CLASSES:
            raise InputError(
                "proba",
                expected=f"at most {MAX_CLASSES} classes in all",
                got=f"{shown(new[-1])} beside {classes - 1} others",
                remedy="ids are no classes",
            )
        # The pooled scores of all columns weigh this much.
        if self.exact and total * classes > MAX_TOTAL:
            raise InputError(
                "weight",
                expected=f"weights that add up to at most {MAX_TOTAL // classes}",
                got=f"{weight} beside {scores.total()} counted before",
                remedy="scale the weights down",
            )

    def update_many(self, batch: EventBatch) -> None:
        """Count a batch that :meth:`check_many` accepts: the same bits as its events one by one."""
        n, proba = len(batch), batch.score
        if not n or proba is None:
            return
        # Events of one class together, so that each multiset gets one array.
        order = np.argsort(batch.y_true, kind="stable")
        codes = batch.y_true[order]
        starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])).tolist()
        true = [batch.labels[code] for code in codes[starts].tolist()]
        spans = [slice(a, b) for a, b in zip(starts, [*starts[1:], n], strict=True)]
        weights = None if batch.weight is None else batch.weight[order]
        if weights is not None and weights.dtype.kind == "f":
            self._promote()
        self._wins.forget()
        scores = self._scores
        for at, column in enumerate(batch.score_labels):
            values = coarse_column(proba[order, at], self._level)
            for label, span in zip(true, spans, strict=True):
                held = np.flatnonzero(values[span]) + span.start
                if len(held):
                    among = None if weights is None else weights[held]
                    scores.ranked(column, label).add_many(values[held], among)
        for label, span in zip(true, spans, strict=True):
            scores.count(
                label, span.stop - span.start if weights is None else total_weight(weights[span])
            )
        self._arrived(n)

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
                this state; or no event with these scores was counted. (That
                they belong to one event is not recorded.) Nothing is changed.
        """
        whole = removable_weight(weight, self.exact)
        self._fit()
        given = proba
        proba = {label: coarse(score, self._level) for label, score in given.items()}
        if not self._scores.holds(y_true, proba, whole):
            raise never_counted("proba", {"y_true": y_true, **given})
        if self._wins:
            self._wins.follow(self._scores, y_true, proba, -whole)
        self._scores.remove(y_true, proba, whole)
        if y_true not in self._scores.counts:
            self._wins.forget_class(y_true)

    def merge(self, other: ClassScores) -> None:
        """Add the other's events; its content is unchanged.

        Raises:
            StateError: Labels of two kinds, or too many, or too much weight.
                Nothing is changed.

        Cost:
            O(K²) once the other's scores are folded; scores are merged at the next read.
        """
        if not isinstance(other, ClassScores):
            raise StateError(f"merge: expected ClassScores, got {shown(other)}")
        try:
            self._check_capacity(other.labels, other.total)
        except InputError as error:
            raise StateError(f"merge: {error}") from None
        if self._limit != other._limit:
            raise StateError(
                f"merge: expected ClassScores with max_scores={self._limit}, got {other._limit}"
            )
        if self.probabilities != other.probabilities:
            raise StateError(
                f"merge: expected ClassScores with probabilities={self.probabilities}, "
                f"got {other.probabilities}"
            )
        self._coarsen(other.level)
        self._wins.forget()
        self._scores.merge(other._at(self.level)._scores)
        self._arrived(self._limit or 0)

    def _at(self, level: int) -> ClassScores:
        """These scores at a level of at least their own; a copy where it is higher."""
        if level == self._level:
            return self
        coarser = self.copy()
        coarser._coarsen(level)
        return coarser

    def subtract(self, other: ClassScores) -> None:
        """Remove all of another that was merged; both exact. Cost: as :meth:`merge`."""
        self._wins.forget()
        self._scores.subtract(other._at(self.level)._scores)

    def _promote(self) -> None:
        if self.exact:
            self._scores.promote()
            self._wins.forget()

    # -- written form ----------------------------------------------------

    def copy(self) -> ClassScores:
        """An independent state of the same events; score arrays are shared."""
        new = ClassScores()
        new._scores = self._scores.copy()
        new._wins = self._wins.copy()
        new._limit, new._level = self._limit, self._level
        new._unfit, new._room = self._unfit, self._room
        return new

    def to_state(self) -> dict[str, Any]:
        """Plain data, described at :func:`write_form`."""
        self._fit()
        scores = self._scores
        form = write_form(self.labels, scores.counts, scores.columns, scores.exact)
        if scores.signed:
            form[_SIGNED] = False
        if self._limit is None:
            return form
        return {**form, "max_scores": self._limit, "level": self._level}

    @classmethod
    def from_state(cls, data: dict[str, Any]) -> ClassScores:
        """The state that :meth:`to_state` wrote; raises StateError."""
        counts, columns, exact, max_scores, level, probabilities = read_form(data)
        new = cls(max_scores=max_scores)
        new._scores = ScoreColumns.of(counts, columns, exact, signed=not probabilities)
        new._level = level
        return new

    def _check(self) -> None:
        self._fit()
        self._scores._check()
        self._wins._check(self._scores)
        for rows in self._scores.columns.values():
            for ranked in rows.values():
                scores, _ = ranked.arrays()
                assert self._limit is None or len(scores) <= self._limit
                assert (coarse_column(scores, self._level) == scores).all()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClassScores):
            return NotImplemented
        return (self._limit, self.level) == (other._limit, other.level) and (
            self._scores == other._scores
        )

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"<ClassScores of weight {self.total}, {len(self.labels)} classes>"
