# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=True, embedsignature=False, cdivision=True
"""The compiled sums of a fading window: its rankings, and those of binary events in one."""

cimport cython
from libc.math cimport NAN
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

import numpy as np

from streameval.states.native.exact128 cimport (
    U256, Wide, integer, long_integer, long_wide, wide,
)
from streameval.states.native.native_fast_path cimport Event, TimelineFields, WindowFastPath
from streameval.states.native.wide_tree cimport WideTree, read_limbs, read_scaled

__all__ = ["NativeFadingSums", "NativeWideRanking"]

cdef extern from "fading_sums.hpp" namespace "streameval" nogil:
    cdef cppclass FadingUnits:
        vector[double] coarse
        vector[double] middle
        vector[double] fine
        uint64_t at(int64_t phase, int64_t span)

    cdef cppclass WaitingEvent:
        double score
        uint64_t units
        int64_t epoch
        uint8_t flags

    cdef cppclass FadingSums:
        cbool counts
        cbool ranks
        cbool loses
        int64_t base
        Wide cells[4]
        WideTree* tree
        vector[U256] losses
        vector[double] edges
        cbool any()
        Wide all()
        void forget() except +
        Wide weight_of_losses()
        cbool count(
            uint8_t flags, double score, uint64_t units, int64_t epoch, int64_t oldest, cbool less
        ) except +
        void rebase(int64_t oldest)
        size_t waiting()
        const WaitingEvent& waiting_at(size_t at)
        void reserve() except +
        void wait(uint8_t flags, double score, uint64_t units, int64_t epoch)
        void clear_waiting()
        cbool drop_before(int64_t oldest)
        double accuracy()
        double precision()
        double recall()
        double f1()
        double log_loss()
        double brier_score()

    void change(U256& sum, const U256& by, cbool less)
    void change(Wide& sum, Wide by, cbool less)


cdef enum:
    TRUE = 1
    PREDICTED = 2
    SCORED = 4
    LABELLED = 8

cdef object _ONE = 1
# The same of all windows: 100 KB.
cdef FadingUnits _UNITS
# MAX_EVENT_WEIGHT and MAX_TOTAL in Python.
cdef int64_t _MOST_WEIGHT = <int64_t>1 << 20
cdef uint64_t _MOST_UNITS = (<uint64_t>1 << 62) - 1
# Events that wait before Python takes them into their epochs' states.
cdef size_t _MOST_WAITING = 8192
# A weight of all events that the sums do not hold.
cdef object _TOO_WIDE = 2**125


cdef inline Wide _within(number, Wide held) except? 0:
    """A weight that may be added to what is held; raises OverflowError."""
    if number >= _TOO_WIDE or (wide(number) + held) >> 125 != 0:
        raise OverflowError("sums of a fading window hold weights below 2**125")
    return wide(number)


@cython.final
cdef class NativeWideRanking:
    """:class:`~streameval.states.ranking.wide_ranking.WideRanking`, compiled, of totals below 2¹²⁵."""

    cdef WideTree _tree

    cdef Wide _total(self) noexcept:
        return self._tree.negatives() + self._tree.positives()

    @property
    def distinct(self):
        """Number of distinct scores."""
        return self._tree.distinct()

    @property
    def totals(self):
        """The weight of the negatives and of the positives."""
        return integer(self._tree.negatives()), integer(self._tree.positives())

    @property
    def twice_u(self):
        """W2."""
        return long_integer(self._tree.twice_u())

    @property
    def auc(self):
        """W2 / (2·P·N), the AUC, divided once; None while a class is missing."""
        cdef double share = self._tree.auc()
        return share if share == share else None

    def add_whole(self, bint positive, double score, weight):
        """Add a weight, negative to remove some that is there."""
        if weight > 0:
            self._tree.insert(positive, score, _within(weight, self._total()))
        elif not self._tree.remove(positive, score, wide(-weight)):
            raise RuntimeError("a fading window's event is not in its sums")

    def merge(self, index, times):
        """Add an index of integer weights so many times; negative to remove it."""
        self.add_groups(index.groups(), times)

    def add_groups(self, groups, times):
        """Add scores of integer weights so many times, ±2^k; negative to remove them."""
        cdef const double[::1] scores = groups.scores
        cdef const int64_t[::1] column
        cdef Wide factor = wide(abs(times))
        cdef bint less = times < 0, positive
        cdef Py_ssize_t at
        if not less:
            _within(int(groups.positives.sum() + groups.negatives.sum()) * times, self._total())
        for positive in range(2):
            column = groups.positives if positive else groups.negatives
            for at in range(scores.shape[0]):
                if column[at] and not less:
                    self._tree.insert(positive, scores[at], <Wide>column[at] * factor)
                elif column[at] and not self._tree.remove(
                    positive, scores[at], <Wide>column[at] * factor
                ):
                    raise RuntimeError("a fading window's epoch is not in its sums")

    def shift_right(self, int bits):
        """Divide all weights by 2**bits, of which they are multiples."""
        self._tree.shift_right(min(bits, 127))

    def groups(self):
        """Score, weight of positives and weight of negatives, ascending."""
        size = self._tree.distinct()
        scores = np.empty(size)
        columns = np.empty((2, size, 2), dtype=np.uint64)
        cdef double[::1] to_scores = scores
        cdef uint64_t[::1] positives = columns[0].reshape(-1), negatives = columns[1].reshape(-1)
        if size:
            read_limbs(self._tree, &to_scores[0], &positives[0], &negatives[0])
        weights = [
            [low | high << 64 for low, high in column] for column in columns.tolist()
        ]
        return zip(scores.tolist(), *weights)

    def scaled(self, units, bits):
        """Columns of the groups, weights over ``units * 2**bits``, as floats; rounded twice."""
        size = self._tree.distinct()
        columns = np.empty(size), np.empty(size), np.empty(size)
        cdef double[::1] scores, positives, negatives
        scores, positives, negatives = columns
        if size:
            read_scaled(self._tree, &scores[0], &positives[0], &negatives[0], -bits)
        return columns[0], columns[1] / units, columns[2] / units

    def __sizeof__(self):
        return object.__sizeof__(self) + self._tree.bytes()

    def _check(self):
        """Assert every invariant."""
        cdef const char* broken = self._tree.broken()
        assert broken is NULL, broken.decode()


@cython.final
cdef class NativeFadingSums(WindowFastPath):
    """:class:`~streameval.windows.fading_sums.FadingSums` of binary events, compiled."""

    cdef FadingSums _sums
    cdef NativeWideRanking _ranking
    cdef object _plan
    cdef object _advance
    cdef object _losses
    cdef TimelineFields _timeline
    cdef int64_t _span
    cdef int64_t _epochs
    cdef bint _labels
    cdef bint _scores
    cdef bint _limited
    # Drops epochs that have faded out, and removes them from these sums: _advance. The newest
    # epoch for which what has faded out is no longer in the sums.
    cdef public object advanced_to
    # The oldest epoch that has a state, the newest in which anything was counted, and what one
    # class of an epoch may still weigh.
    cdef public int64_t oldest_held
    cdef public int64_t newest_seen
    cdef uint64_t _room
    cdef int64_t _room_of
    cdef public bint retired

    def __init__(self, plan, span, epochs, timeline, tables, advance, losses):
        self._ranking = NativeWideRanking()
        self._sums.tree = &self._ranking._tree
        self._plan = plan
        self._advance = advance
        self._losses = losses
        self._span = span
        self._epochs = epochs
        self._timeline = timeline
        if _UNITS.coarse.empty():
            _UNITS.coarse, _UNITS.middle, _UNITS.fine = tables
        self._labels = "confusion" in plan.keeps
        self._scores = bool(plan.fed["scores"])
        self._limited = "index" in plan.keeps
        self.advances = True
        self.oldest_held = INT64_MAX
        self.newest_seen = INT64_MIN
        self._room_of = INT64_MAX

    # The sums -------------------------------------------------------------

    def base(self, name):
        """The epoch whose units these are."""
        return self._sums.base

    cdef int64_t _oldest(self) except? -1:
        """The oldest epoch of which anything is in the sums."""
        if self.advanced_to is None:
            return self._sums.base
        return <int64_t>self.advanced_to - self._epochs + 1

    def keeps(self, name):
        """Whether a state's sum is kept current."""
        if name == "confusion":
            return self._sums.counts
        return self._sums.ranks if name == "index" else self._sums.loses

    def whole(self, name):
        """A state's sum; None where it is not kept."""
        cdef size_t at
        if not self.keeps(name):
            return None
        if name == "index":
            return self._ranking
        if name == "confusion":
            counts = self._plan.confusion()
            for at in range(4):
                if self._sums.cells[at] != 0:
                    counts.add_whole(at // 2, at % 2, integer(self._sums.cells[at]))
            return counts
        sums = [long_integer(self._sums.losses[at]) for at in range(self._sums.losses.size())]
        size = self._sums.edges.size() + 1
        return self._losses.from_state({
            "bins": size,
            "exact": True,
            "log_loss_units": sums[0],
            "brier_units": sums[1],
            "outside": sums[3],
            "bin_weights": sums[4 : 4 + size],
            "bin_positives": sums[4 + size : 4 + 2 * size],
            "bin_probability_units": sums[4 + 2 * size :],
        })

    def begin(self, name, int64_t oldest, parts):
        """Sum a state of all epochs; False, and nothing is kept, where the numbers are too large."""
        if not self._sums.any():
            self._sums.base = oldest
        elif oldest > self._sums.base:
            self._sums.rebase(oldest)
        if name == "confusion":
            self._sums.counts = True
        elif name == "index":
            self._sums.ranks = True
        else:
            self._sums.loses = True
            self._sums.edges = self._losses(self._plan.bins).bin_edges[1 : self._plan.bins]
            self._sums.losses.resize(4 + 3 * self._plan.bins)
        try:
            for number, part in parts:
                self._change(name, number, part, False)
        except OverflowError:
            self.forget()
            return False
        return True

    def forget(self):
        """Keep nothing current, until it begins again."""
        self._sums.forget()

    def count(self, event, number, int sign):
        """Count an event with the units that it weighs in its epoch, or (−1) remove it."""
        cdef uint8_t flags = 0
        cdef double score = 0.0
        true, predicted, value, units = event
        if true:
            flags = TRUE
        if predicted is not None:
            flags |= LABELLED | PREDICTED if predicted else LABELLED
        if value is not None:
            flags |= SCORED
            score = value
        if not self._sums.count(flags, score, units, number, self._oldest(), sign < 0):
            raise RuntimeError("a fading window's event is not in its sums")

    def drop(self, number, part):
        """Remove an epoch, given as the function from the name of a state to its part in it."""
        for name in ("confusion", "index", "probability"):
            if self.keeps(name):
                self._change(name, number, part(name), True)

    cdef object _change(self, name, int64_t number, part, bint less):
        """Add a state of an epoch, or remove it; raises OverflowError."""
        cdef size_t at = 0
        factor = _ONE << (number - self._sums.base)
        if name == "index":
            self._ranking.merge(part, -factor if less else factor)
        elif name == "confusion":
            if not less:
                _within(part.total * factor, self._sums.all())
            for true, predicted, weight in part.cells():
                change(self._sums.cells[2 * true + predicted], wide(weight * factor), less)
        else:
            if not less:
                _within((part.weight + part.outside) * factor, self._sums.weight_of_losses())
            for units in (
                part.log_loss_units, part.brier_units, part.weight, part.outside,
                *part.bin_weights, *part.bin_positives, *part.bin_probability_units,
            ):
                change(self._sums.losses[at], long_wide(units * factor), less)
                at += 1

    @property
    def distinct(self):
        """Number of distinct scores, where they are kept."""
        return self._ranking.distinct

    # Plain events ----------------------------------------------------------

    def hold(self, int64_t number):
        """Note that an epoch has a state, in which something was just counted elsewhere."""
        self.oldest_held = min(self.oldest_held, number)
        self.newest_seen = max(self.newest_seen, number)
        self._room = 0

    def allow(self, int64_t number, uint64_t units):
        """Let one class of an epoch weigh so much more, until :meth:`hold` is called."""
        self._room_of = number
        self._room = units

    @property
    def waiting(self):
        """How many events are not yet in their epochs' states."""
        return self._sums.waiting()

    def take(self):
        """Remove the waiting events: runs of epoch, true labels, predicted ones, scores and units."""
        cdef size_t at, size = self._sums.waiting()
        epochs, flags = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.uint8)
        scores, units = np.empty(size), np.empty(size, dtype=np.int64)
        cdef int64_t[::1] to_epochs = epochs, to_units = units
        cdef uint8_t[::1] to_flags = flags
        cdef double[::1] to_scores = scores
        for at in range(size):
            to_epochs[at] = self._sums.waiting_at(at).epoch
            to_flags[at] = self._sums.waiting_at(at).flags
            to_scores[at] = self._sums.waiting_at(at).score
            to_units[at] = <int64_t>self._sums.waiting_at(at).units
        self._sums.clear_waiting()
        scored = flags & SCORED
        # Columns of a batch have scores for all events or none.
        borders = np.flatnonzero((np.diff(epochs) != 0) | (np.diff(scored) != 0)) + 1
        starts = [0, *borders.tolist()]
        return [
            (
                int(epochs[start]),
                (flags[start:end] & TRUE).astype(np.bool_),
                (flags[start:end] & PREDICTED).astype(np.bool_),
                scores[start:end] if scored[start] else None,
                units[start:end],
            )
            for start, end in zip(starts, [*starts[1:], size])
            if end > start
        ]

    cdef bint ready(self, Event* event) except -1:
        if self.retired or self._sums.waiting() >= _MOST_WAITING:
            return False
        if not (event.scored and self._scores) and not self._labels:
            return False  # nothing of it would be counted
        if not 0 < event.weight <= _MOST_WEIGHT:
            return False
        if not (self._limited and event.scored) or event.number > self.newest_seen:
            return True
        # A class of an epoch may weigh 2^62 units.
        return self._room_of == event.number and self._room >= self._units_of(event)

    cdef uint64_t _units_of(self, Event* event) noexcept:
        return _UNITS.at(event.moment - event.number * self._span, self._span) * <uint64_t>event.weight

    cdef int add(self, Event* event) except -1:
        cdef uint64_t units = self._units_of(event)
        cdef uint8_t flags = LABELLED
        cdef int64_t oldest = event.number - self._epochs + 1
        if event.positive:
            flags |= TRUE
        if event.predicted:
            flags |= PREDICTED
        if event.scored and self._scores:
            flags |= SCORED
        self._sums.reserve()
        if event.number > self.newest_seen:
            self.newest_seen = event.number
            self._room_of = event.number
            self._room = _MOST_UNITS
        if self._limited and flags & SCORED:
            self._room -= units
        if self._behind():
            if not self._sums.drop_before(oldest):
                raise RuntimeError("a fading window's event is not in its sums")
            if self.oldest_held < oldest:
                self._advance(self)
            self.advanced_to = self._timeline.newest
        self._sums.wait(flags, event.score, units, event.number)
        self._sums.count(flags, event.score, units, event.number, oldest, False)
        return 0

    # Metrics ------------------------------------------------------------------

    cdef bint _behind(self) except -1:
        """Whether an epoch has faded out that is still in the sums."""
        newest = self._timeline.newest
        return newest is not self.advanced_to and newest != self.advanced_to

    def roc_auc(self):
        return NAN if not self._sums.ranks or self._behind() else self._sums.tree.auc()

    def accuracy(self):
        return NAN if not self._sums.counts or self._behind() else self._sums.accuracy()

    def precision(self):
        return NAN if not self._sums.counts or self._behind() else self._sums.precision()

    def recall(self):
        return NAN if not self._sums.counts or self._behind() else self._sums.recall()

    def f1(self):
        return NAN if not self._sums.counts or self._behind() else self._sums.f1()

    def log_loss(self):
        return NAN if not self._sums.loses or self._behind() else self._sums.log_loss()

    def brier_score(self):
        return NAN if not self._sums.loses or self._behind() else self._sums.brier_score()

    # The object

    def __sizeof__(self):
        return object.__sizeof__(self) + self._sums.tree.bytes() + 32 * self._sums.waiting()

    def _check(self):
        """Assert every invariant of the ranking."""
        self._ranking._check()
