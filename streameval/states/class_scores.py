"""Pairwise wins between classes in each column of scores: the basis of multi-class AUC.

The probability that a random event of class c outscores, in column c, a random
event of class j comes from the scores of column c for events of class c against
those for events of class j. One-vs-one AUC needs all these pairs; one-vs-rest
their sums over j.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events.event import EventBatch
from streameval.events.values import (
    MAX_CLASSES,
    BoolArray,
    FloatArray,
    IntArray,
    Label,
    Weight,
    check_same_kind,
)
from streameval.states.class_events import COMPILED
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
from streameval.states.ranking.keyed_scores import Entries, KeyedScores
from streameval.states.ranking.score_groups import (
    ScoreGroups,
    group_scores,
    groups_to_state,
    twice_wins,
    won_share,
)
from streameval.states.ranking.sorted_runs import MAX_TOTAL, WeightArray
from streameval.states.score_index import ScoreIndex
from streameval.states.sums.fixed_point import total_weight, total_weight_by_group

if TYPE_CHECKING:
    from streameval.states.class_probability import ClassProbabilitySums
    from streameval.states.native.native_class_events import ClassCounter

# The written form of class scores: one dict for one content, and none other accepted.
#
# ===========  ==================================================================
# ``exact``    bool: whether weights are integers
# ``labels``   list of str or of int, ascending; each is a true class or a column
# ``counts``   list: weight of each label as true class
# ``columns``  int64 array: index into ``labels`` of each multiset's column
# ``true``     int64 array: and of its true class; (column, true) ascend
# ``lengths``  int64 array: number of distinct scores of each multiset, above 0
# ``scores``   float64 array: those of all multisets, ascending in each, in (0, 1];
#              also 0 where ``exact`` is False
# ``weights``  int64 array, float64 once a weight was not whole; of like length
# ===========  ==================================================================
#
# Where the scores are no probabilities: also ``probabilities``, False; scores are then any
# finite ones but 0, and every event has one of every label.
# How many zeros a multiset has follows from ``counts``, as a difference of integers. One of
# floats would lose them beside heavier events, so that a multiset that is there has its own;
# without any, as written before, they are that difference if it is more than rounding.
# Where the scores are bounded: also ``max_scores``, the most of one multiset, and
# ``level``, that of the cells of all.

_NAME = "class_scores"
_SIGNED = "probabilities"
_KEYS = frozenset({"exact", "labels", "counts", "columns", "true", "lengths", "scores", "weights"})

# The key of a multiset: the code of its column, and that of its true class in the low bits.
_SHIFT = 26
_LOW = (1 << _SHIFT) - 1


class ScoresForm(NamedTuple):
    """What a written form holds."""

    labels: list[Label]
    counts: dict[Label, Weight]
    multisets: KeyedScores
    exact: bool
    max_scores: int | None
    level: int
    probabilities: bool


def read_form(data: object) -> ScoresForm:
    """Counts by true class, scores by column and true class, and whether they are exact.

    Raises:
        StateError: Anything but what :meth:`ScoreColumns.write` wrote.
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
    starts = _check_values(lengths, scores, weights, signed=signed, exact=exact)
    check_cells(scores, None, level, _NAME)
    if max_scores is not None and (lengths > max_scores + (not exact)).any():
        raise StateError(f"{_NAME}.lengths: expected at most {max_scores} scores in each multiset")
    _check_totals(starts, weights, [held[y] for y in true.tolist()])
    counts = {label: count for label, count in zip(labels, held, strict=True) if count}
    columns = set(column.tolist())
    for n, label in enumerate(labels):
        if label not in counts and n not in columns:
            refuse(f"{_NAME}.labels[{n}]", "a label that occurs", label)
    ones = exact and bool((weights == 1).all())
    multisets = KeyedScores(column << _SHIFT | true, starts, scores, None if ones else weights)
    return ScoresForm(labels, counts, multisets, exact, max_scores, level, not signed)


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
    lengths: IntArray, scores: FloatArray, weights: WeightArray, *, signed: bool, exact: bool
) -> IntArray:
    """Check the concatenated arrays; where each multiset begins, and where the last ends."""
    if len(scores) != len(weights):
        raise StateError(f"{_NAME}.weights: expected {len(scores)} weights, got {len(weights)}")
    # Bounded one by one first, so that their sum cannot wrap around.
    bad = (lengths < 1) | (lengths > len(scores))
    if bad.any() or total_weight(lengths) != len(scores):
        raise StateError(f"{_NAME}.lengths: expected lengths above 0 that add up to {len(scores)}")
    starts = np.append(0, np.cumsum(lengths)).astype(np.int64)
    # False for nan.
    good = np.isfinite(scores) & (scores != 0.0) if signed else (scores > 0.0) & (scores <= 1.0)
    if not exact:
        good |= (scores == 0.0) & ~np.signbit(scores)
    if not good.all():
        at = int(np.argmin(good))
        expected = "a finite score but 0" if signed else "a score in (0, 1]"
        refuse(f"{_NAME}.scores[{at}]", expected, float(scores[at]))
    falls = scores[1:] <= scores[:-1]
    falls[starts[1:-1] - 1] = False
    if falls.any():
        at = int(np.argmax(falls)) + 1
        refuse(f"{_NAME}.scores[{at}]", "ascending scores, none twice", float(scores[at]))
    alone = (scores[starts[:-1]] == 0.0) & (lengths == 1)
    if alone.any():
        refuse(f"{_NAME}.lengths[{int(np.argmax(alone))}]", "a score but 0", 1)
    positive = (weights > 0) & (weights <= MOST_WEIGHT)
    if not positive.all():
        at = int(np.argmin(positive))
        refuse(f"{_NAME}.weights[{at}]", "a weight above 0", weights[at].item())
    return starts


def _check_totals(starts: IntArray, weights: WeightArray, counts: list[Weight]) -> None:
    """Refuse a multiset that weighs more than its true class."""
    if not counts:
        return
    firsts = starts[:-1]
    over: BoolArray
    most: Any = np.array(counts, dtype=weights.dtype)
    if weights.dtype == np.int64:
        # In two halves, whose sums cannot wrap around.
        whole = weights.astype(np.int64, copy=False)
        low = np.add.reduceat(whole & 0xFFFF_FFFF, firsts)
        high = np.add.reduceat(whole >> 32, firsts) + (low >> 32)
        low &= 0xFFFF_FFFF
        over = (high > most >> 32) | ((high == most >> 32) & (low > most & 0xFFFF_FFFF))
    else:
        over = np.add.reduceat(weights, firsts) > most + 1e-9 * most
    if over.any():
        at = int(np.argmax(over))
        start, end = starts[at : at + 2].tolist()
        refuse(
            f"{_NAME}.weights[{start}:{end}]",
            f"a sum of at most {counts[at]}, the weight of the true class",
            total_weight(weights[start:end]),
        )


RESIDUE = 1e-9
"""Float sums of equal terms differ by less than this share."""

_EVENTS_MOST = 1024
_NEWEST = 8
_ROWS_JOINED = 2**14
_PARTS_MOST = 256
_CELLS_LEAST = 2**22


class _Part(NamedTuple):
    """Scores with weights that are fractions, and those zeros whose key has other scores too."""

    entries: Entries
    counts: FloatArray
    """The weight of each true class, at its code: that of the zeros of all other keys."""

    def zeros(self, keys: IntArray) -> Entries:
        """The zeros of those of some keys that this part has no scores of."""
        absent = np.setdiff1d(keys, self.entries.keys)
        true = absent & _LOW
        held = true < len(self.counts)
        weights = self.counts[true[held]]
        some = weights > 0
        return Entries(absent[held][some], np.zeros(int(some.sum())), weights[some])


class _Block(NamedTuple):
    """Rows of scores as they arrived."""

    true: IntArray
    """Code of each row's true class."""
    columns: IntArray
    """Code of each column."""
    scores: FloatArray
    weights: WeightArray | None

    def entries(self, *, zeros: bool = False) -> Entries:
        """The scores that are not 0; with ``zeros`` also those beside one of the same key."""
        keys = self.columns << _SHIFT | self.true[:, None]
        scores, weights = self.scores.ravel(), self.weights
        if weights is not None:
            weights = np.repeat(weights, len(self.columns))
        keys = keys.ravel()
        held = scores != 0.0
        if zeros and not held.all():
            held |= np.isin(keys, keys[held])
        if not held.all():
            keys, scores = keys[held], scores[held]
            weights = None if weights is None else weights[held]
        return Entries(keys, scores, weights)

    def part(self) -> _Part:
        """The rows as a part."""
        weights = np.ones(len(self.true)) if self.weights is None else self.weights
        return _Part(self.entries(zeros=True), np.bincount(self.true, weights).astype(np.float64))

    def fits(self, later: _Block) -> bool:
        """Whether rows of the same columns follow that are at least half as many."""
        return (
            2 * len(later.true) >= len(self.true)
            and np.array_equal(self.columns, later.columns)
            and (self.weights is None) is (later.weights is None)
        )

    def joined(self, later: _Block) -> _Block:
        """These rows and those of a block that :meth:`fits`."""
        return self._replace(
            true=np.concatenate([self.true, later.true]),
            scores=np.concatenate([self.scores, later.scores]),
            weights=None
            if self.weights is None or later.weights is None
            else np.concatenate([self.weights, later.weights]),
        )

    def rank(self, code: int, index: ScoreIndex) -> None:
        """Count the scores of one column that are not 0; its own class is positive."""
        for at in np.flatnonzero(self.columns == code).tolist():
            scores, positive, weights = self.scores[:, at], self.true == code, self.weights
            held = scores != 0.0
            if not held.all():
                scores, positive = scores[held], positive[held]
                weights = None if weights is None else weights[held]
            index.update_many(positive, np.ascontiguousarray(scores), weights)


def _read_rows(
    events: list[tuple[Label, Mapping[Label, float], Weight]],
    codes: Mapping[Label, int],
    names: tuple[Label, ...],
    scores: FloatArray,
    true: IntArray,
) -> bool:
    """Write events of weight 1 that name the same labels in one order into arrays, or return False.

    The twin of the compiled function of this name.
    """
    if any(weight != 1 or tuple(row) != names for _, row, weight in events):
        return False
    true[:] = [codes[label] for label, _, _ in events]
    for n, (_, row, _) in enumerate(events):
        scores[n] = list(row.values())
    return True


if COMPILED is not None:
    _read_rows = COMPILED.read_rows


class ScoreColumns:
    """Scores of each class's column by true class, with zeros that are implied, not stored.

    ``S[c][y]`` is the multiset of the scores that column c gave to events of true
    class y. Only scores other than 0 are kept. An event that does not name a class gave
    it 0, and so did all events before a class first occurred: how many zeros a
    multiset has follows from the weight of its true class. With weights that are not whole
    that would be a difference of floats, in which a light event's zero is lost beside a heavy
    one: then a multiset has its zeros too, and only one without any other score is implied.

    Rows are kept as they arrive, until a multiset is read or a row is removed: then all
    of them are folded into sorted arrays.

    Args:
        signed: Whether scores may be below 0 (and above 1): no probabilities. Every event
            then has a score of every label, so that what is not stored is a 0 all the same.

    Attributes:
        counts: Weight of each true class.
        exact: Whether all weights are integers.

    >>> columns = ScoreColumns()
    >>> columns.add("cat", {"cat": 0.75, "dog": 0.25}, 1)
    >>> columns.add("cat", {"dog": 1.0}, 2)
    >>> [side.tolist() for side in columns.arrays("cat", "cat")]
    [[0.0, 0.75], [2, 1]]
    """

    __slots__ = (
        "_base",
        "_blocks",
        "_codes",
        "_events",
        "_folded",
        "_fractions",
        "_owing",
        "_parts",
        "_sparse",
        "_stale",
        "_whole",
        "counts",
        "exact",
        "signed",
    )

    def __init__(self, *, signed: bool = False) -> None:
        self.signed = signed
        self.counts: dict[Label, Weight] = {}
        self.exact = True
        self._whole = 0  # sum of counts while exact
        # Those of labels that occur, unless stale; after a fold, places in ascending order.
        self._codes: dict[Label, int] = {}
        self._stale = False
        self._base = KeyedScores()
        self._folded: dict[Label, Weight] = {}  # the counts of what is in the base
        # What waits to be folded.
        self._events: list[tuple[Label, Mapping[Label, float], Weight]] = []
        self._blocks: list[_Block] = []
        self._parts: list[Entries] = []
        self._fractions: list[_Part] = []  # in place of parts, once a weight was not whole
        self._sparse = False
        self._owing = False  # whether parts with negative weights are among it

    # Reading

    def labels(self) -> list[Label]:
        """True classes and columns, ascending."""
        if self._stale:
            self.fold()
        return sorted(self._codes)

    def total(self) -> Weight:
        """The weight of all events; O(1) while exact."""
        return self._whole if self.exact else math.fsum(self.counts.values())

    def knows(self, true: Label, scores: Mapping[Label, float]) -> bool:
        """Whether no label is new."""
        codes = self._codes
        if COMPILED is not None:
            known: bool = COMPILED.knows(codes, true, scores)
            return known
        return true in codes and codes.keys() >= scores.keys()

    def unknown(self, labels: Iterable[Label]) -> list[Label]:
        """Those of some labels that are new; among the others some may occur no more."""
        return [label for label in labels if label not in self._codes]

    @property
    def labels_most(self) -> int:
        """At least the number of labels; O(1)."""
        return len(self._codes)

    def code(self, label: Label) -> int:
        """The code of a label that occurs, until the next :meth:`fold`."""
        return self._codes[label]

    def multisets(self) -> KeyedScores:
        """The scores other than 0, under the key ``column << 26 | true class``.

        Both are places among the :meth:`labels`.
        """
        self.fold()
        return self._base

    def arrays(self, column: Label, true: Label) -> tuple[FloatArray, WeightArray]:
        """The distinct scores of a true class in a column, zeros included, and their weights."""
        self.fold()
        codes = self._codes
        if column in codes and true in codes:
            scores, weights = self._base.arrays(codes[column] << _SHIFT | codes[true])
        else:
            scores, weights = np.zeros(0), np.zeros(0, np.int64 if self.exact else np.float64)
        zeros = self._zeros(total_weight(weights), self.counts.get(true, 0))
        if not zeros:
            return scores, weights
        at = int(np.searchsorted(scores, 0.0))
        return np.insert(scores, at, 0.0), np.insert(weights, at, zeros)

    def _zeros(self, held: Weight, count: Weight) -> Weight:
        """The implied weight of zeros of a multiset that weighs so much, of a true class."""
        return count - held if self.exact or not held else 0.0

    def wins(self, column: Label, other: Label | None) -> Weight:
        """Twice the weight of pairs that class ``column`` wins in its column.

        Over ``other``; where that is None over all other classes.

        Cost:
            O(n) of the column.
        """
        return twice_wins(self._against(column, other))

    def won_share(self, column: Label, other: Label | None) -> float:
        """The share of pairs that :meth:`wins` counts, of float weights; nan without pairs."""
        scores, *sides = self._against(column, other)
        own, rest = ((scores[side != 0], side[side != 0]) for side in sides)
        return won_share(own, rest)

    def pooled(self, columns: Iterable[Label]) -> ScoreGroups:
        """Every (event, label) of these columns as one binary event, positive where it is true.

        Of one column, it is that class against the rest.
        """
        self.fold()
        base, dtype = self._base, np.int64 if self.exact else np.float64
        own: list[tuple[FloatArray, WeightArray]] = []
        rest: list[tuple[FloatArray, WeightArray]] = []
        none: list[Weight] = [0, 0]
        for column in columns:
            code = self._codes.get(column, _LOW)
            groups, span = base.span(code << _SHIFT, (code + 1) << _SHIFT)
            at = base.place(code << _SHIFT | code)
            middle = slice(span.start, span.start)
            if at >= 0:
                middle = slice(*base.starts[at : at + 2].tolist())
            own.append((base.scores[middle], base.each(middle)))
            for part in (slice(span.start, middle.start), slice(middle.stop, span.stop)):
                rest.append((base.scores[part], base.each(part)))
            totals = dict(
                zip((base.keys[groups] & _LOW).tolist(), base.totals[groups].tolist(), strict=True)
            )
            for true, count in self.counts.items():
                none[true == column] += self._zeros(totals.get(self._codes[true], 0), count)
        for side, zeros in zip((rest, own), none, strict=True):
            number = 1 if zeros else 0
            side.append((np.zeros(number), np.full(number, zeros, dtype=dtype)))
        return group_scores(own, rest)

    def _against(self, column: Label, other: Label | None) -> ScoreGroups:
        """A column's scores of its class, the positives, and of another; None: of all others."""
        if other is None:
            return self.pooled([column])
        return group_scores([self.arrays(column, column)], [self.arrays(column, other)])

    def ranking(self, column: Label, other: Label | None) -> ScoreIndex:
        """A column's scores of its class, the positives, and of another (None: of all others).

        Zeros are counted where scores may be below them, else left out. For whole weights.

        Cost:
            O(n) of the column, and O(scores) where rows have arrived of which :meth:`fold`
            is needed.
        """
        base = self._base
        waiting = bool(self._events or self._blocks)
        if other is not None or self.signed or self._parts or base.weights is not None:
            waiting = False
        if waiting:
            # Rows are ranked as they are: to fold them would sort all columns.
            self._gather()
        if not waiting or self._parts:
            pooled = self._against(column, other)
            if not self.signed:
                held = pooled.scores != 0.0
                pooled = ScoreGroups(*(side[held] for side in pooled))
            return ScoreIndex.from_state(groups_to_state(pooled, True))
        index = ScoreIndex()
        code = self._codes.get(column, _LOW)
        groups, span = base.span(code << _SHIFT, (code + 1) << _SHIFT)
        if span.stop > span.start:
            positive = np.repeat(base.keys[groups] & _LOW == code, base.lengths[groups])
            index.update_many(positive, base.scores[span])
        for block in self._blocks:
            block.rank(code, index)
        return index

    # Counting

    def add(self, true: Label, scores: Mapping[Label, float], weight: Weight) -> None:
        """Add an event; a float weight only once :meth:`promote` was called."""
        if not self.knows(true, scores):
            self._learn([true, *(label for label, score in scores.items() if score)])
        self.counts[true] = self.counts.get(true, 0 if self.exact else 0.0) + weight
        if self.exact:
            self._whole += weight  # type: ignore[assignment]
        self._events.append((true, scores, weight))
        if len(self._events) >= _EVENTS_MOST:
            self._gather()
            self.relieve()

    def add_rows(
        self,
        labels: Sequence[Label],
        true: IntArray,
        columns: Sequence[Label],
        scores: FloatArray,
        weights: WeightArray | None,
    ) -> _Block:
        """Add rows, at least one.

        Args:
            labels: The labels that ``true`` has codes of.
            true: Of each row.
            columns: The label of each column.
            scores: One row for each event; kept, and not to be written to.
            weights: Of each row, float64 only once :meth:`promote` was called; None: all 1.

        Returns:
            The rows, whose codes are those of the labels until the next :meth:`fold`.
        """
        held: list[int] = np.flatnonzero(scores.any(axis=0)).tolist()
        totals = total_weight_by_group(true, len(labels), weights)
        counted = [label for label, total in zip(labels, totals, strict=True) if total]
        self._learn([*counted, *(columns[at] for at in held)])
        for label, total in zip(labels, totals, strict=True):
            if total:
                self._count(label, total)
        codes = self._codes
        if len(held) < len(columns):
            scores = scores[:, held]
        block = _Block(
            np.array([codes.get(label, 0) for label in labels], dtype=np.int64)[true],
            np.array([codes[columns[at]] for at in held], dtype=np.int64),
            scores,
            weights,
        )
        self._push(block)
        # Where most are zeros, sorted arrays hold the others only.
        self._sparse = self._sparse or 4 * int(np.count_nonzero(scores)) < scores.size
        return block

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
            self._stale = True

    def _push(self, block: _Block) -> None:
        blocks = self._blocks
        # Small blocks are joined to larger ones, so that there are few to read.
        while blocks and len(block.true) <= _ROWS_JOINED and blocks[-1].fits(block):
            block = blocks.pop().joined(block)
        blocks.append(block)

    def relieve(self) -> None:
        """Fold where so much waits that the arrays would take less memory."""
        waiting = sum(block.scores.size for block in self._blocks)
        waiting += sum(len(part.keys) for part in self._parts)
        waiting += sum(len(part.entries.keys) for part in self._fractions)
        parts = len(self._blocks) + len(self._parts) + len(self._fractions)
        most = max(_CELLS_LEAST, 2 * len(self._base))
        if self._sparse or waiting > most or parts > _PARTS_MOST:
            self.fold()

    def _gather(self) -> None:
        """Make arrays of the events that wait."""
        if not self._events:
            return
        events, self._events = self._events, []
        codes = self._codes
        names = tuple(events[0][1])
        columns = np.array([codes.get(name, -1) for name in names], dtype=np.int64)
        rows, true = np.empty((len(events), len(names))), np.empty(len(events), np.int64)
        if (columns >= 0).all() and _read_rows(events, codes, names, rows, true):
            self._push(_Block(true, columns, rows, None))
            return
        trues, scores, given = zip(*events, strict=True)
        true = np.array([codes[label] for label in trues], dtype=np.int64)
        if not self.exact:
            self._fractions.append(self._part_of(true, scores, np.array(given, np.float64)))
            return
        weights: WeightArray | None = None
        if given.count(1) < len(given):
            weights = np.array(given, np.int64)
        held = [
            (n, codes[label], score)
            for n, row in enumerate(scores)
            for label, score in row.items()
            if score
        ]
        if held:
            places, labels, values = zip(*held, strict=True)
            at = np.array(places)
            keys = np.array(labels, dtype=np.int64) << _SHIFT | true[at]
            among = None if weights is None else weights[at]
            self._parts.append(Entries(keys, np.array(values), among))

    def _part_of(
        self, true: IntArray, rows: Sequence[Mapping[Label, float]], weights: FloatArray
    ) -> _Part:
        """Events of float weights, which may name different labels, as a part."""
        found = []
        for code in np.unique(true).tolist():
            at = np.flatnonzero(true == code)
            own = [{self._codes[c]: s for c, s in rows[n].items() if s} for n in at.tolist()]
            columns = sorted({column for row in own for column in row})
            scores = np.array([[row.get(column, 0.0) for column in columns] for row in own])
            block = _Block(true[at], np.array(columns, np.int64), scores, weights[at])
            found.append(block.entries(zeros=True))
        keys, values, among = zip(*found, strict=True)
        entries = Entries(*map(np.concatenate, (keys, values, among)))
        return _Part(entries, np.bincount(true, weights).astype(np.float64))

    def fold(self) -> None:
        """Sort what waits into the arrays; O(n) where anything does."""
        waiting = self._events or self._blocks or self._parts or self._fractions
        if not (waiting or self._stale or self._base.worn):
            return
        self._gather()
        if self.exact:
            parts = [*self._parts, *(block.entries() for block in self._blocks)]
        else:
            blocks = [block.part() for block in self._blocks]
            parts = self._with_zeros([*self._fractions, *blocks])
        self._base = self._base.absorbed(*parts)
        self._blocks, self._parts, self._fractions = [], [], []
        self._sparse = self._owing = False
        self._folded = self.counts.copy()
        self._rename()

    def _with_zeros(self, parts: list[_Part]) -> list[Entries]:
        """The entries of parts, and the zeros of each key in those that have no scores of it."""
        counts = self._weights_of(self._folded)
        base = _Part(Entries(self._base.keys, np.zeros(0), None), counts)
        keys = np.unique(np.concatenate([part.entries.keys for part in (base, *parts)]))
        zeros = [part.zeros(keys) for part in (base, *parts)]
        return [*(part.entries for part in parts), *zeros]

    def _implied_zeros(self) -> Entries:
        """The zeros of the folded multisets that are not among their scores."""
        base, counts = self._base, self._weights_of(self.counts)[self._base.keys & _LOW]
        zeros = counts - base.totals if len(base) else np.zeros(0)
        if not self.exact:
            zeros[np.isin(base.keys, base.each_key()[base.scores == 0.0])] = 0.0
            zeros[zeros <= RESIDUE * counts] = 0.0
        some = zeros > 0
        return Entries(base.keys[some], np.zeros(int(some.sum())), zeros[some].astype(np.float64))

    def _weights_of(self, counts: Mapping[Label, Weight]) -> Any:
        """The weights of true classes, each at its code: int64, or float64."""
        weights = np.zeros(len(self._codes), np.int64 if self.exact else np.float64)
        for label, count in counts.items():
            weights[self._codes[label]] = count
        return weights

    def _rename(self) -> None:
        """Give the labels that occur the codes 0, 1, …, ascending; all is folded."""
        codes, base = self._codes, self._base
        if self._stale:
            held = set(np.unique(base.keys >> _SHIFT).tolist())
            codes = {
                label: code for label, code in codes.items() if label in self.counts or code in held
            }
        self._stale = False
        ascending = sorted(codes)
        self._codes = {label: code for code, label in enumerate(ascending)}
        if self._codes == codes:
            return
        places = np.zeros(max(codes.values(), default=0) + 1, np.int64)
        for label, code in codes.items():
            places[code] = self._codes[label]
        keys = places[base.keys >> _SHIFT] << _SHIFT | places[base.keys & _LOW]
        self._base = base.renamed(keys)

    # Removing, of exact states

    def remove(self, true: Label, scores: Mapping[Label, float], weight: int) -> bool:
        """Remove an event; False, and nothing changed, where some column holds none such."""
        if self._owing:
            # What is sorted may be more than there is.
            self.fold()
        found = self._retract(true, scores, weight) or self._take(true, scores, weight)
        if not found and (self._events or self._blocks or self._parts):
            self.fold()
            found = self._take(true, scores, weight)
        if found:
            self._count(true, -weight)
        return found

    def _retract(self, true: Label, scores: Mapping[Label, float], weight: int) -> bool:
        """Whether such an event is the oldest that waits or one of the newest; it is dropped."""
        events, event = self._events, (true, scores, weight)
        if not events:
            return False
        for at in (0, *range(-1, -min(len(events), _NEWEST) - 1, -1)):
            if events[at] == event:
                del events[at]
                self._removed(scores)
                return True
        return False

    def _removed(self, scores: Mapping[Label, float]) -> None:
        """Note that a label of an event that was removed may occur nowhere else."""
        newest = self._events[-1][1] if self._events else {}
        if not all(newest.get(label) for label, score in scores.items() if score):
            self._stale = True

    def _take(self, true: Label, scores: Mapping[Label, float], weight: int) -> bool:
        """Take an event out of the folded scores, if each column holds its score there."""
        base, codes = self._base, self._codes
        low = codes.get(true, _LOW)
        if self._folded.get(true, 0) < weight:
            return False
        places: list[tuple[int, int]] = []
        for column, score in scores.items():
            if score:
                key = codes.get(column, _LOW) << _SHIFT | low
                at = base.find(key, score)
                if at < 0 or base.weight_at(at) < weight:
                    return False
                places.append((key, at))
        if len(places) < len(codes):
            most = self._folded[true] - weight
            for column, code in codes.items():
                # It gave this column 0, of which there may be fewer.
                if not scores.get(column) and base.total(code << _SHIFT | low) > most:
                    return False
        left = [base.take(key, at, weight) for key, at in places]
        if not all(left):
            self._removed(scores)
        self._folded[true] -= weight
        return True

    def subtract(self, other: ScoreColumns) -> None:
        """Remove all of another that was merged; both exact."""
        self._parts.append(self._of(other, -1))
        self._owing = True
        for true, count in other.counts.items():
            self._count(true, -count)
        self._stale = True

    def _of(self, other: ScoreColumns, sign: int = 1) -> Entries:
        """The other's scores under the codes of this one's labels, which it learns."""
        multisets, labels = other.multisets(), other.labels()
        self._learn(labels)
        codes = np.array([self._codes[label] for label in labels], dtype=np.int64)
        keys = multisets.keys
        keys = codes[keys >> _SHIFT] << _SHIFT | codes[keys & _LOW]
        return multisets.entries(keys, sign)

    @classmethod
    def of(
        cls,
        labels: list[Label],
        counts: dict[Label, Weight],
        multisets: KeyedScores,
        exact: bool,
        *,
        signed: bool = False,
    ) -> ScoreColumns:
        """These scores, with the places of the labels, which ascend, as keys."""
        new = cls(signed=signed)
        new.exact = exact
        new._codes = {label: code for code, label in enumerate(labels)}
        new._base = multisets
        for true, weight in counts.items():
            new._count(true, weight)
        new._folded = new.counts.copy()
        zeros = None if exact else new._implied_zeros()
        if zeros is not None and len(zeros.keys):
            new._base = multisets.absorbed(zeros)
        return new

    def merge(self, other: ScoreColumns) -> None:
        """Add the other's events; its content is unchanged."""
        if not other.exact:
            self.promote()
        elif not self.exact and other.exact:
            other = other.copy()
            other.promote()
        entries = self._of(other)
        if not self.exact:
            self._fractions.append(_Part(entries, self._weights_of(other.counts)))
        elif len(entries.keys):
            self._parts.append(entries)
        for true, count in list(other.counts.items()):
            self._count(true, count)
        self.relieve()

    def promote(self) -> None:
        """Make all weights floats, for good."""
        if not self.exact:
            return
        self.fold()
        zeros = self._implied_zeros()
        self.exact = False
        self._base = self._base.promoted().absorbed(zeros)
        self.counts = {label: float(count) for label, count in self.counts.items()}

    def coarsen(self, level: int) -> None:
        """Replace each score by that of its cell."""
        self.fold()
        self._base = self._base.coarsened(level)

    def least_level(self, level: int, limit: int) -> int:
        """The least level, from that of the scores on, at which no multiset has more."""
        base = self.multisets()
        for at in np.flatnonzero(base.lengths > limit).tolist():
            scores = base.scores[base.starts[at] : base.starts[at + 1]]
            scores = scores[scores != 0.0]
            level = least_level(np.unique(coarse_column(scores, level)), level, limit)
        return level

    def copy(self) -> ScoreColumns:
        """Independent columns of the same events; score arrays are shared."""
        new = ScoreColumns(signed=self.signed)
        new.counts, new.exact, new._whole = self.counts.copy(), self.exact, self._whole
        new._codes, new._stale = self._codes.copy(), self._stale
        new._base, new._folded = self._base.shared(), self._folded.copy()
        new._events, new._blocks = self._events.copy(), self._blocks.copy()
        new._parts, new._sparse, new._owing = self._parts.copy(), self._sparse, self._owing
        new._fractions = self._fractions.copy()
        return new

    def write(self) -> dict[str, Any]:
        """The dict of class scores."""
        multisets, labels = self.multisets(), self.labels()
        zero: Weight = 0 if self.exact else 0.0
        dtype = np.int64 if self.exact else np.float64
        form = {
            "exact": self.exact,
            "labels": labels,
            "counts": [self.counts.get(label, zero) for label in labels],
            "columns": multisets.keys >> _SHIFT,
            "true": multisets.keys & _LOW,
            "lengths": multisets.lengths,
            "scores": multisets.scores.copy(),
            "weights": multisets.each().astype(dtype),
        }
        return {**form, _SIGNED: False} if self.signed else form

    def _check(self) -> None:
        kind = int if self.exact else float
        assert all(type(count) is kind and count > 0 for count in self.counts.values())
        if self.exact:
            assert self._whole == sum(self.counts.values())
        base, labels = self.multisets(), self.labels()
        base._check()
        assert list(self._codes.items()) == [(label, code) for code, label in enumerate(labels)]
        assert set(labels) == {
            *self.counts,
            *(labels[code] for code in (base.keys >> _SHIFT).tolist()),
        }
        assert not base.worn
        assert not (self.exact and (base.scores == 0.0).any())
        assert self.signed or ((base.scores >= 0.0) & (base.scores <= 1.0)).all()
        # A key is there for its other scores, and what it lacks to its class is no weight.
        assert set(base.each_key()[base.scores != 0.0].tolist()) == set(base.keys.tolist())
        assert self.exact or not len(self._implied_zeros().keys)
        assert base.each().dtype == (np.int64 if self.exact else np.float64)
        for key, total in zip(base.keys.tolist(), base.totals.tolist(), strict=True):
            count = self.counts[labels[key & _LOW]]
            assert total <= count + (0 if self.exact else RESIDUE * count)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ScoreColumns):
            return NotImplemented
        return (
            self.exact == other.exact
            and self.signed == other.signed
            and self.counts == other.counts
            and self.labels() == other.labels()
            and self.multisets() == other.multisets()
        )

    __hash__ = None  # type: ignore[assignment]  # mutable


# Wins of one class over another or over all others, kept current from the first read.

_UNREAD_MOST = 4
_MOST_PAIRS = 2**14
"""Pairs of classes whose rankings are kept; a ranking takes about 1 kB beside its scores."""


class Wins:
    """Rankings of columns, kept current with each event, so that their wins are at hand.

    One binary index for each column that was read: of its class against all others; or
    against one other, where that pair was read. A pair is no part of any other's cost.

    >>> scores, wins = ScoreColumns(), Wins()
    >>> scores.add("cat", {"cat": 0.75, "dog": 0.25}, 1)
    >>> scores.add("dog", {"dog": 1.0}, 1)
    >>> wins.read(scores, "cat", None), wins.read(scores, "cat", "dog")
    (2, 2)
    """

    __slots__ = ("_pairs", "_rest", "_unread", "kept")

    def __init__(self) -> None:
        self.kept = False
        """Whether there is any ranking."""
        self._unread = 0  # batches since the last read
        self._rest: dict[Label, ScoreIndex] = {}
        # By column, then by the class that it is compared with.
        self._pairs: dict[Label, dict[Label, ScoreIndex]] = {}

    def read(self, scores: ScoreColumns, column: Label, other: Label | None) -> int:
        """The wins of class ``column`` over ``other`` (None: all others); whole weights only.

        Cost:
            O(1) where it was read before, else O(n) of the column.
        """
        self._unread = 0
        kept = self._rest if other is None else self._pairs.get(column, {})
        index = kept.get(column if other is None else other)
        if index is None:
            index = scores.ranking(column, other)
            self.kept = True
            if other is None:
                self._rest[column] = index
            elif len(scores.counts) ** 2 <= _MOST_PAIRS:
                self._pairs.setdefault(column, {})[other] = index
        wins = int(index.twice_wins)
        if scores.signed:
            return wins
        # Zeros are not in it. They are below all other scores.
        rivals = scores.total() - scores.counts[column] if other is None else scores.counts[other]
        zeros = scores.counts[column] - index.positives
        return wins + int((rivals - index.negatives) * (2 * index.positives + zeros))

    def mean_share(self, scores: ScoreColumns) -> float:
        """The mean over the classes of the share of pairs won over the rest; nan if not at hand.

        It has to be so where a class was not read yet.
        """
        if COMPILED is None or not self.kept or scores.signed or not scores.exact:
            return math.nan
        self._unread = 0
        mean: float = COMPILED.mean_share(self._rest, scores.counts, scores.total())
        return mean

    def forget(self) -> None:
        """Drop all rankings."""
        self._rest, self._pairs, self.kept = {}, {}, False

    def forget_class(self, label: Label) -> None:
        """Drop the rankings of a class that has no event any more."""
        self._rest.pop(label, None)
        self._pairs.pop(label, None)
        for row in self._pairs.values():
            row.pop(label, None)

    def follow(self, true: Label, scores: Mapping[Label, float], weight: int, signed: bool) -> None:
        """Add one event, or remove it with a negative weight.

        Cost:
            O(log n) for each class that it names and that was read.
        """
        if COMPILED is not None and weight == 1 and not (self._pairs or signed):
            COMPILED.follow(self._rest, true, scores)
            return
        for column, score in scores.items():
            if score or signed:
                index = self._rest.get(column)
                if index is not None:
                    _change(index, column == true, score, weight)
                row = self._pairs.get(column)
                if row:
                    if column == true:
                        for index in row.values():
                            _change(index, True, score, weight)
                    elif true in row:
                        _change(row[true], False, score, weight)

    def follow_rows(self, scores: ScoreColumns, block: _Block) -> None:
        """Add the rows of a batch that ``scores`` has just added.

        Cost:
            As :meth:`follow` for each row; O(1) where the batch is large, or wins are
            read so rarely that it is cheaper to derive them anew.
        """
        if not self.kept:
            return
        self._pairs = {}
        self._unread += 1
        seldom = self._unread > _UNREAD_MOST or 8 * len(block.true) > scores.total()
        if seldom or scores.signed or not scores.exact:
            self._rest = {}
        self.kept = bool(self._rest)
        for column, index in self._rest.items():
            block.rank(scores.code(column), index)

    def copy(self) -> Wins:
        """An independent copy, which derives its rankings anew."""
        return Wins()

    def _check(self, scores: ScoreColumns) -> None:
        for column in self._rest:
            assert self.read(scores, column, None) == scores.wins(column, None)
        for column, row in self._pairs.items():
            for other in row:
                assert self.read(scores, column, other) == scores.wins(column, other)


def _change(index: ScoreIndex, positive: bool, score: float, weight: int) -> None:
    if weight > 0:
        index.update(positive, score, weight)
    else:
        index.revert(positive, score, -weight)


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
        declared: The closed list of classes, each of which has a column, whether a label
            belongs to the state or not; None where labels are discovered. It is not written.

    Cost:
        An event with K classes: 0.5 µs and 0.1 µs a class; from the first read of wins
        on 0.3 µs a class more, and from that of pairs on 0.6 µs. A batch: 10 ns a cell.
        The first wins of each class over all others: 50 ns a cell. Memory: 8 bytes a
        score above 0, and 15 more from that read on. Nothing grows with the number of
        pairs of classes until :meth:`pair_wins` is read.

    >>> scores = ClassScores()
    >>> scores.update("cat", {"cat": 0.75, "dog": 0.25})
    >>> scores.update("dog", {"cat": 0.25, "dog": 0.5, "cow": 0.25})
    >>> scores.labels
    ['cat', 'cow', 'dog']
    >>> scores.pair_wins("cat", "dog"), scores.pair_wins("cow", "dog")
    (2, 0)
    """

    __slots__ = ("_level", "_limit", "_room", "_scores", "_unfit", "_wins", "declared")

    def __init__(
        self,
        *,
        max_scores: int | None = None,
        probabilities: bool = True,
        declared: tuple[Label, ...] | None = None,
    ) -> None:
        self.declared = declared
        self._scores = ScoreColumns(signed=not probabilities)
        self._wins = Wins()
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
    def whole(self) -> ClassScores:
        """The scores that areas are computed of: integers where these are a multiple of some."""
        return self

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
    def classes(self) -> list[Label]:
        """The declared classes, or all labels where they are discovered, ascending. A new list."""
        return self.labels if self.declared is None else sorted(self.declared)

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
            O(1) when it was read before and no batch was counted since; else 50 ns a
            score of the two classes. O(n) at each read once a weight was not whole, and
            for more than 128 classes.
        """
        if column == other or other not in self._scores.counts:
            return 0 if self.exact else 0.0
        return self._won(column, other)

    def one_vs_rest_wins(self, column: Label) -> Weight:
        """:meth:`pair_wins` of a class over all others together.

        Cost:
            O(1) when it was read before, else 50 ns a score of the column; O(n) at each
            read once a weight was not whole.
        """
        return self._won(column, None)

    def won_share(self, column: Label, other: Label | None = None) -> float:
        """A(column | other), of weights that are not whole; None: over all other classes.

        Returns:
            A fraction in [0, 1]; nan where a class has no events.

        Cost:
            O(n) of the column.
        """
        self._fit()
        return self._scores.won_share(column, other)

    def mean_share(self) -> float:
        """The macro mean of one-vs-rest AUCs where it is at hand, else nan. Cost: O(K)."""
        self._fit()
        return self._wins.mean_share(self._scores)

    def _won(self, column: Label, other: Label | None) -> Weight:
        if column not in self._scores.counts:
            return 0 if self.exact else 0.0
        self._fit()
        if not self.exact:
            return self._scores.wins(column, other)
        return self._wins.read(self._scores, column, other)

    def column_scores(self, column: Label, true: Label) -> tuple[FloatArray, WeightArray]:
        """The distinct scores of a true class in a column, ascending, and their weights.

        Those of 0 are included. Both arrays are empty where the class has no events.

        Cost:
            O(n) of the class.
        """
        self._fit()
        return self._scores.arrays(column, true)

    def pooled(self) -> ScoreGroups:
        """Every (event, class) as one binary event, positive where the class is true.

        What the micro average ranks: n · K scores of the K :attr:`classes`, zeros included.

        Cost:
            O(n · K).
        """
        self._fit()
        return self._scores.pooled(self.classes)

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
        if self._wins.kept:
            self._wins.follow(y_true, proba, weight, scores.signed)  # type: ignore[arg-type]
        scores.add(y_true, proba, weight)
        if self._limit is not None:
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
        scores = self._scores
        if not scores.knows(y_true, proba) or scores.total() + weight > MAX_TOTAL // MAX_CLASSES:
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
        new = scores.unknown(labels)
        if new and scores.counts:
            for label in new:
                check_same_kind(next(iter(scores.counts)), label, "y_true")
        total = scores.total() + weight
        if scores.labels_most + len(new) <= MAX_CLASSES and total <= MAX_TOTAL // MAX_CLASSES:
            return
        known = set(scores.labels())
        new = scores.unknown(labels)
        classes = len(known | set(new))
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
        weights = batch.weight
        if weights is not None and weights.dtype.kind == "f":
            self._promote()
        scores = self._scores
        if self._level:
            proba = coarse_column(proba.ravel(), self._level).reshape(proba.shape)
        block = scores.add_rows(batch.labels, batch.y_true, batch.score_labels, proba, weights)
        self._wins.follow_rows(scores, block)
        scores.relieve()
        if self._limit is not None:
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
        if not self._scores.remove(y_true, proba, whole):
            raise never_counted("proba", {"y_true": y_true, **given})
        if self._wins.kept:
            self._wins.follow(y_true, proba, -whole, self._scores.signed)
        if y_true not in self._scores.counts:
            self._wins.forget_class(y_true)

    def check_merge(self, other: ClassScores) -> None:
        """Raise InputError for labels or weight of the other that :meth:`merge` refuses."""
        self._check_capacity(other.labels, other.total)

    def merge(self, other: ClassScores) -> None:
        """Add the other's events; its content is unchanged.

        Raises:
            StateError: Labels of two kinds, or too many, or too much weight.
                Nothing is changed.

        Cost:
            O(n) of the other's scores, which are merged at the next read.
        """
        if not isinstance(other, ClassScores):
            raise StateError(f"merge: expected ClassScores, got {shown(other)}")
        try:
            self.check_merge(other)
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
        if self._limit is not None:
            self._arrived(self._limit)

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
        new = ClassScores(declared=self.declared)
        new._scores = self._scores.copy()
        new._wins = self._wins.copy()
        new._limit, new._level = self._limit, self._level
        new._unfit, new._room = self._unfit, self._room
        return new

    def to_state(self) -> dict[str, Any]:
        """Plain data, described at :func:`write_form`."""
        self._fit()
        form = self._scores.write()
        if self._limit is None:
            return form
        return {**form, "max_scores": self._limit, "level": self._level}

    @classmethod
    def from_state(cls, data: object, declared: tuple[Label, ...] | None = None) -> ClassScores:
        """The state that :meth:`to_state` wrote; raises StateError."""
        labels, counts, multisets, exact, max_scores, level, probabilities = read_form(data)
        new = cls(max_scores=max_scores, declared=declared)
        new._scores = ScoreColumns.of(labels, counts, multisets, exact, signed=not probabilities)
        new._level = level
        return new

    def _check(self) -> None:
        self._fit()
        self._scores._check()
        self._wins._check(self._scores)
        multisets = self._scores.multisets()
        most = None if self._limit is None else self._limit + (not self.exact)
        assert most is None or (multisets.lengths <= most).all()
        assert (coarse_column(multisets.scores, self._level) == multisets.scores).all()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClassScores):
            return NotImplemented
        return (self._limit, self.level) == (other._limit, other.level) and (
            self._scores == other._scores
        )

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"<ClassScores of weight {self.total}, {len(self.labels)} classes>"


def class_counter(
    scores: ClassScores | None, sums: ClassProbabilitySums | None
) -> ClassCounter | None:
    """Counts events in these states in compiled code; None where there is none."""
    if COMPILED is None or (scores is None and sums is None):
        return None
    counter: ClassCounter = COMPILED.ClassCounter(
        scores, sums, _EVENTS_MOST, MAX_TOTAL // MAX_CLASSES
    )
    return counter
