"""How each event's scores rank its labels: the counts that sample-wise ranking metrics need."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from streameval.events.event import EventBatch
from streameval.events.label_rows import LabelRows
from streameval.events.values import BoolArray, FloatArray, IntArray, Label, Weight
from streameval.states.fields import Fields, cell_weights, same_forms
from streameval.states.sums.cell_sums import weights_of_rows
from streameval.states.sums.fixed_point import total_weight, total_weight_by_group
from streameval.states.sums.sum_vector import DeclaredSums, Field, Form, Parts

Key: TypeAlias = tuple[Any, ...]

ABSENT = -1
"""The place of a true label that is never among the k highest scores."""

EMPTY = (0, 0, 0, 0, 0)
"""The group of an event without labels."""

_CELLS = 1 << 20
"""Most scores of a batch that are sorted at once."""

_TABLES = (
    (("true", "found", "group", "above", "reached"), "weights"),
    (("true_of_places", "places"), "place_weights"),
)
"""The written columns of the numbers of groups, and of places, and of the weights of each."""


class RankedGroup(NamedTuple):
    """Labels of one event that have equal scores, some of which are true."""

    true: int
    """How many labels the event has."""
    found: int
    """How many of them have this score or a higher one."""
    group: int
    """How many of them have this score."""
    above: int
    """How many labels have a higher score."""
    reached: int
    """How many labels have this score or a higher one."""

    # What a group adds to a metric of its event, as numerator and denominator; of arrays too.

    def precision(self, labels: int) -> tuple[int, int]:
        """Share of true labels among those of at least this score, for each of its true labels."""
        return self.group * self.found, self.true * self.reached

    def wrong_pairs(self, labels: int) -> tuple[int, int]:
        """Pairs of a true label and a false one of at least its score, out of all pairs."""
        pairs = self.true * (labels - self.true)
        return self.group * (self.reached - self.found), pairs + (pairs == 0)

    def right_pairs(self, labels: int) -> tuple[int, int]:
        """Pairs of a true label and a false one of a lower score, a tie counting half."""
        false = labels - self.true
        tied = self.reached - self.above - self.group
        below = false - (self.reached - self.found)
        pairs = 2 * self.true * false
        return self.group * (2 * below + tied), pairs + (pairs == 0)

    def coverage(self, labels: int) -> tuple[int, int]:
        """How many labels to take to have all true ones, in the lowest of their groups."""
        return (self.reached if self.found == self.true else 0), 1

    def whole(self, labels: int) -> tuple[int, int]:
        """1 in the lowest group of an event that has all labels, else 0."""
        return int(self.true == self.found == labels > 0), 1


Term: TypeAlias = Callable[[RankedGroup, int], tuple[int, int]]
"""From a group and the number of labels to what it adds, as numerator and denominator."""

BITS = 128
"""Terms are whole numbers of 2**-128: more than any rounding of a mean can show."""


def _units(term: tuple[int, int]) -> int:
    over, under = term
    return (over << BITS) // under if over else 0


def group_of(key: Key, labels: int) -> RankedGroup:
    """The group of a key, or of columns of keys, among so many labels."""
    true, found, group, above, reached = key
    above_bottom = (reached < 0) * (labels + 1)
    return RankedGroup(
        true, found, group, above + (above < 0) * above_bottom, reached + above_bottom
    )


class LabelRanking(DeclaredSums):
    """Counts of how events rank their labels by score.

    For each event and each of its groups of equal scores that holds a true label, the numbers of
    :class:`RankedGroup`; and for each true label its place among all scores, of equal ones the
    label that sorts later first. All are whole numbers: which events were counted in which order,
    in batches or in shards, leaves no trace. What stands above or below the labels without a score
    is counted from the top or from the bottom, so that labels may be discovered later.

    Args:
        declared: The closed list of labels; None where they are discovered: a label whose score is
            not above 0 then has no place.

    >>> ranking = LabelRanking(("ad", "spam", "toxic"))
    >>> ranking.update(frozenset({"spam"}), {"ad": 0.5, "spam": 0.25, "toxic": 0.125})
    >>> list(ranking.groups()), ranking.places
    ([(RankedGroup(true=1, found=1, group=1, above=1, reached=2), 1)], {(1, 1): 1})
    """

    # The cells of the base are by the numbers of a group, by a place (true, place), and, where
    # labels are discovered, by (label,).
    __slots__ = ("_kept", "_order")
    NAME = "label_ranking"
    KEYS = frozenset({"exact", "weight"}.union(*((*names, key) for names, key in _TABLES)))
    OPTIONAL = frozenset({"labels", "label_weights"})

    weight = Field[Weight]()

    def __init__(self, declared: tuple[Label, ...] | None = None) -> None:
        super().__init__(declared)
        self._order = {label: n for n, label in enumerate(sorted(declared or ()))}
        # Sums over groups that have been read, which each event then keeps current.
        self._kept: dict[Term, int] = {}

    # Reading

    @property
    def labels(self) -> list[Label]:
        """Labels that some event has, or scores but 0, ascending; none where they are declared."""
        return sorted(key[0] for key in self._cells if len(key) == 1)

    @property
    def number_of_labels(self) -> int:
        """How many labels each event ranks."""
        if self.declared is not None:
            return len(self.declared)
        return sum(len(key) == 1 for key in self._cells)

    def groups(self) -> Iterator[tuple[RankedGroup, Weight]]:
        """Each kind of group of true labels of equal score, and the weight of its events."""
        labels = self.number_of_labels
        for key, weight in self._cells.items():
            if len(key) == 5:
                yield group_of(key, labels), weight

    @property
    def weight_of_empty(self) -> Weight:
        """The weight of the events without labels."""
        return self._cells.get(EMPTY, 0)

    def weight_with(self, *, all_labels: bool) -> Weight:
        """The weight of the events with a label; with those of all labels, or without them."""
        if self._exact:
            full = 0 if all_labels else self.summed(RankedGroup.whole) >> BITS
            return self.weight - self.weight_of_empty - full
        labels = self.number_of_labels
        return math.fsum(
            weight
            for group, weight in self.groups()
            if group.true == group.found and 0 < group.true < labels + all_labels
        )

    def summed(self, term: Term) -> Any:
        """Σ weight · term of each group: whole numbers of 2**-128, or a float of float weights.

        Each term is rounded down. Cost: O(kinds of groups); where labels are declared, O(1) from
        the second read on.
        """
        labels = self.number_of_labels
        if not self._exact:
            return math.fsum(
                weight * (over / under)
                for group, weight in self.groups()
                for over, under in (term(group, labels),)
                if over
            )
        if term not in self._kept:
            total = sum(weight * _units(term(group, labels)) for group, weight in self.groups())
            if self.declared is None:
                return total
            self._kept[term] = int(total)
        return self._kept[term]

    @property
    def places(self) -> dict[tuple[int, int], Weight]:
        """From (labels of the event, labels ranked before a true label) to the weight."""
        return {key: weight for key, weight in self._cells.items() if len(key) == 2}

    # Counting

    def _terms_of(self, y_true: Any, given: Any, y_pred: Any) -> list[Key]:
        true = len(y_true)
        named = sorted([(score, label) for label, score in given.items() if score], reverse=True)
        keys: list[Key] = []
        if self.declared is None:
            keys += [(label,) for label in {*y_true, *[label for _, label in named]}]
        if not true:
            return [*keys, EMPTY]
        scores = [score for score, _ in named]
        hits = [label in y_true for _, label in named]
        low = sum([score < 0.0 for score in scores])
        high, found = len(named) - low, 0
        zeros = true - sum(hits)
        for first, end, shift in ((0, high, 0), (high, len(named), -1 - len(named))):
            while first < end:
                reached = first + 1
                while reached < end and scores[reached] == scores[first]:
                    reached += 1
                if group := sum(hits[first:reached]):
                    found += group
                    keys.append((true, found, group, first + shift, reached + shift))
                first = reached
            if not shift and zeros:
                found += zeros
                keys.append((true, found, zeros, high, -1 - low))
        keys += [(true, at) for at in range(high) if hits[at]]
        if self.declared is None:
            return keys + [(true, ABSENT)] * (true - sum(hits[:high]))
        rest = len(self._order) - len(named)
        keys += [(true, at + rest) for at in range(high, len(named)) if hits[at]]
        order = self._order
        for label in y_true if zeros else ():
            if not given.get(label):
                own = order[label]
                later = len(order) - 1 - own - sum([order[each] > own for _, each in named])
                keys.append((true, high + later))
        return keys

    def _add(self, terms: list[Key], weight: Weight) -> None:
        self._values[0] += weight
        for key in terms:
            self._add_cell(key, weight)
        if self._kept:
            labels = len(self._order)
            groups = [group_of(key, labels) for key in terms if len(key) == 5]
            for term in self._kept:
                units = sum([_units(term(group, labels)) for group in groups])
                self._kept[term] += int(weight) * units

    def _promote(self) -> None:
        super()._promote()
        self._kept.clear()

    def _merge(self, other: LabelRanking, times: int) -> None:
        super()._merge(other, times)
        self._kept.clear()

    def _fault(self, terms: list[Key] | None = None) -> str:
        keys = self._cells if terms is None else terms
        sound = self._values[0] >= 0 and all(self._cells.get(key, 0) >= 0 for key in keys)
        return "" if sound else self._no_events()

    def _add_many(self, y_true: Any, given: Any, weight: Any) -> None:
        batch: EventBatch = y_true
        if not len(batch) or batch.score is None:
            return
        self._kept.clear()
        self._values[0] += len(batch) if weight is None else total_weight(weight)
        sparse = isinstance(batch.score, LabelRows)
        width = len(batch.score.codes) // len(batch) + 1 if sparse else batch.score.shape[1]
        rows = max(1, _CELLS // max(1, width))
        for start in range(0, len(batch), rows):
            part = batch.take(slice(start, start + rows))
            for key, each in self._counted(part):
                self._add_cell(key, each if self._exact else float(each))

    def _counted(self, batch: EventBatch) -> Iterator[tuple[Key, Weight]]:
        """The keys of the events of a batch, with their weight."""
        names = sorted(self.declared or {*batch.labels, *batch.score_labels})
        code = self._order or {label: n for n, label in enumerate(names)}
        entries = entries_of(batch, code)
        weight, true = batch.weight, batch.y_true.lengths
        none = np.flatnonzero(true == 0)
        if len(none):
            yield EMPTY, len(none) if weight is None else total_weight(weight[none])
        if self.declared is None:
            counts = total_weight_by_group(
                entries.codes, len(names), None if weight is None else weight[entries.events]
            )
            for label, each in zip(names, counts, strict=True):
                if each:
                    yield (label,), each
        for events, columns in (*entries.groups(true), entries.places(true, self._order)):
            yield from weights_of_rows(columns, None if weight is None else weight[events])

    # Written form

    def to_state(self) -> Form:
        """Plain data; equal content gives equal data."""
        form: Form = {"exact": self._exact, "weight": self._values[0]}
        for names, weights in _TABLES:
            keys = sorted(key for key in self._cells if len(key) == len(names))
            table = np.array(keys, dtype=np.int64).reshape(len(keys), len(names))
            form |= {name: table[:, n].copy() for n, name in enumerate(names)}
            form[weights] = self._weights_of(keys)
        if self.declared is None:
            form["labels"] = labels = self.labels
            form["label_weights"] = self._weights_of([(label,) for label in labels])
        return form

    def _weights_of(self, keys: list[Key]) -> Any:
        return cell_weights([self._cells[key] for key in keys], exact=self._exact)

    def _read(self, fields: Fields) -> None:
        self._read_cells(fields)
        self._check_sound(fields)

    def _read_cells(self, fields: Fields) -> None:
        self._values[0] = fields.weight("weight")
        for names, weights in _TABLES:
            columns = [fields.array(name, np.int64).tolist() for name in names]
            keys: list[Key] = list(zip(*columns, strict=False))
            self._cells.update(zip(keys, fields.cells(weights, len(keys)), strict=True))
        if self.declared is None:
            keys = [(label,) for label in fields.labels()]
            self._cells.update(zip(keys, fields.cells("label_weights", len(keys)), strict=True))
        if not same_forms(self.to_state(), fields):
            fields.refuse("true", "distinct cells that ascend, with a weight of each", "others")

    @classmethod
    def _of_settings(cls, fields: Fields, *settings: Any) -> LabelRanking:
        new = cls(*settings)
        if ("labels" in fields) != (new.declared is None):
            fields.refuse("labels", "labels where these are discovered", sorted(fields))
        return new

    def _check_sound(self, fields: Fields) -> None:
        """Raise StateError where no events can have these groups."""
        labels, events = self.number_of_labels, []
        for group, weight in self.groups():
            true, found, own, above, reached = group
            inside = 0 <= true <= labels and above >= 0 and reached <= labels
            if group == EMPTY or (
                inside and 1 <= own <= found <= true and found - own <= above < reached
                and found <= reached and own <= reached - above
            ):  # fmt: skip
                if found == true:
                    events.append(weight)
                continue
            fields.refuse("true", f"numbers of labels of an event that ranks {labels}", group)
        total = sum(events) if self._exact else math.fsum(events)
        more, less = self._about(self._values[0])
        if not less <= total <= more:
            fields.refuse("weight", f"the weight of the events, {total}", self._values[0])

    @classmethod
    def scaled(cls, parts: Parts, unit: int) -> Form:
        """Written form of Σ factor · weight / unit of each cell over written forms."""
        # Whether labels are discovered shows in the form; which are declared does not matter.
        declared = None if "labels" in parts[0][0] else ()
        states = []
        for form, factor in parts:
            states.append((cls(declared), factor))
            states[-1][0]._exact = form["exact"]
            states[-1][0]._read_cells(Fields(form, cls.NAME, cls.KEYS, cls.OPTIONAL))
        return cls(declared).scaled_cells(states, unit)

    def _check(self) -> None:
        super()._check()
        for term, total in self._kept.items():
            assert self.copy().summed(term) == total
        self._check_sound(Fields(self.to_state(), self.NAME, self.KEYS, self.OPTIONAL))


class Entries(NamedTuple):
    """Labels of events in a batch, by event, from the highest score down."""

    events: IntArray
    codes: IntArray
    """Places of the labels in ascending order."""
    scores: FloatArray
    true: BoolArray

    def _places(self, length: int) -> tuple[IntArray, IntArray]:
        """The place of each entry within its event, and the number of entries of each event."""
        sizes = np.bincount(self.events, minlength=length)
        starts = np.cumsum(sizes) - sizes
        return np.arange(len(self.events)) - starts[self.events], sizes

    def groups(self, true: IntArray) -> Iterator[tuple[IntArray, tuple[IntArray, ...]]]:
        """The events and the numbers of each group that holds a true label."""
        events, scores, length = self.events, self.scores, len(self.events)
        if not length:
            return
        first = np.ones(length, np.bool_)
        first[1:] = (events[1:] != events[:-1]) | (scores[1:] != scores[:-1])
        at = np.flatnonzero(first)
        ends = np.append(at[1:], length)
        running = np.append(0, np.cumsum(self.true))
        group = running[ends] - running[at]
        held = np.flatnonzero(group)
        at, ends, group = at[held], ends[held], group[held]
        own, score = events[at], scores[at]
        places, sizes = self._places(len(true))
        before = np.append(0, np.cumsum(np.bincount(events[self.true], minlength=len(true))))
        found = running[ends] - before[own]
        above = places[at]
        reached = above + (ends - at)
        from_bottom = np.where(score < 0.0, -1 - sizes[own], 0)
        zero = score == 0.0
        if zero.any():
            low = np.bincount(events[scores < 0.0], minlength=len(true))
            reached[zero] = -1 - low[own[zero]]
        columns: Any = true[own], found, group, above + from_bottom, reached + from_bottom
        yield own, columns

    def places(
        self, true: IntArray, order: Mapping[Label, int]
    ) -> tuple[IntArray, tuple[IntArray, ...]]:
        """The events and places of the true labels; all labels are in ``order``, if any is."""
        place, sizes = self._places(len(true))
        own, score = self.events[self.true], self.scores[self.true]
        place = place[self.true]
        if not order:
            place[score <= 0.0] = ABSENT
            return own, (true[own], place)
        low, zero, width = score < 0.0, score == 0.0, len(order)
        place[low] += width - sizes[own[low]]
        if zero.any():
            # Before a score of 0 are those above it, and of the labels that sort later the zeros.
            named = self.scores != 0.0
            cells = np.sort(self.events[named] * width + self.codes[named])
            high = np.bincount(self.events[self.scores > 0.0], minlength=len(true))
            event, code = own[zero], self.codes[self.true][zero]
            starts = np.searchsorted(cells, event * width + code, side="right")
            later = np.searchsorted(cells, (event + 1) * width) - starts
            place[zero] = high[event] + (width - 1 - code) - later
        return own, (true[own], place)


def entries_of(batch: EventBatch, code: Mapping[Label, int]) -> Entries:
    """The scores but 0 of each event and those of its true labels, from the highest one down,
    of equal ones the label that sorts later first."""
    own = np.array([code[label] for label in batch.labels], dtype=np.int64)
    width, score, rows = len(code), batch.score, batch.y_true.rows
    true = own[batch.y_true.codes]
    if isinstance(score, LabelRows):
        assert score.values is not None
        cells, values = score.rows * width + own[score.codes], score.values
    else:
        columns = np.array([code[label] for label in batch.score_labels], dtype=np.int64)
        if len(columns) == width:
            return _of_table(score[:, np.argsort(columns)], rows, true)
        cells = (np.arange(len(batch))[:, None] * width + columns).ravel()
        values = score.ravel()
    held = values != 0.0
    cells, values = cells[held], values[held]
    wanted = rows * width + true
    missed = np.setdiff1d(wanted, cells)
    cells = np.concatenate([cells, missed])
    values = np.concatenate([values, np.zeros(len(missed))])
    # The last key of lexsort is the first to sort by.
    order = np.lexsort((-cells, -values, cells // width))
    cells, values = cells[order], values[order]
    return Entries(cells // width, cells % width, values, np.isin(cells, wanted))


def _of_table(table: FloatArray, rows: IntArray, columns: IntArray) -> Entries:
    """The entries of scores of all labels, which ascend, and the cells of true ones."""
    length, width = table.shape
    true = np.zeros(table.shape, np.bool_)
    true[rows, columns] = True
    down = slice(None, None, -1)
    order = np.argsort(-table[:, down], axis=1, kind="stable")
    scores = np.take_along_axis(table[:, down], order, axis=1).ravel()
    hits = np.take_along_axis(true[:, down], order, axis=1).ravel()
    events, codes = np.repeat(np.arange(length), width), (width - 1 - order).ravel()
    held = (scores != 0.0) | hits
    if not held.all():
        return Entries(events[held], codes[held], scores[held], hits[held])
    return Entries(events, codes, scores, hits)
