# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=False, embedsignature=False
"""What compiled code counts for states in Python, until these are next used.

:class:`NativeLossTally` has the losses of binary events in integers of C++,
:class:`NativeEventQueue` the events themselves.
"""

cimport cython
from weakref import ref

from libc.math cimport NAN
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t

import numpy as np

from streameval.states.native.exact128 cimport (
    SignedWide,
    U256,
    Wide,
    long_integer,
    long_wide,
    signed_integer,
    signed_wide,
)

__all__ = ["LabelRun", "NativeErrorTally", "NativeEventQueue", "NativeLossTally"]


cdef enum:
    # So many events are counted at once when a queue is full.
    FULL = 4096


# Sums and weights up to here are held in the integers of C++.
cdef object _MOST_UNITS = 1 << 120
cdef object _MOST_WEIGHT = 1 << 60


@cython.final
cdef class NativeLossTally:
    """Counts binary events of whole weight for a ``ProbabilitySums``, which takes them before use."""

    def __init__(self, sums):
        self._sums = ref(sums)
        self._tally.edges = sums._edges
        self._tally.bins.resize(sums.bins)
        self._empty = True

    def update(self, bint positive, double score):
        """Count an event; False, and nothing is counted, where the sums are floats or too large."""
        if not self.ready(1):
            return False
        self.count(positive, score, 1)
        return True

    cdef bint ready(self, int64_t weight) except -1:
        """Whether :meth:`count` may be called with this weight, or less."""
        if not self._known:
            self._look_up()
        return self._open and self._tally.moved < MOST_MOVED - weight

    cdef void count(self, bint positive, double score, int64_t weight) noexcept:
        """Count an event, or with a negative weight one less that was counted before."""
        self._tally.count(positive, score, weight)
        self._empty = False

    def take(self):
        """Log loss, Brier and outside units, and (bin, events, hits, units) since the last call."""
        cdef size_t at
        self._known = False
        if self._empty:
            return None
        bins = [
            (
                at, self._tally.bins[at].weight, self._tally.bins[at].hits,
                signed_integer(self._tally.bins[at].units),
            )
            for at in range(self._tally.bins.size())
            # Also where the events of one bin cancel out but for their probabilities.
            if self._tally.bins[at].weight or self._tally.bins[at].hits
            or self._tally.bins[at].units != 0
        ]
        taken = (
            signed_integer(self._tally.log_loss), signed_integer(self._tally.brier), self._tally.outside, bins
        )
        self._tally.clear()
        self._empty = True
        return taken

    cdef bint _look_up(self) except -1:
        sums = self._sums()
        self._open = False
        if sums is not None and sums.exact:
            weight, outside, log_loss = sums.weight, sums.outside, sums.log_loss_units
            if weight + outside < _MOST_WEIGHT and log_loss < _MOST_UNITS:
                self._weight, self._outside = weight, outside
                self._log_loss, self._brier = signed_wide(log_loss), signed_wide(sums.brier_units)
                self._open = True
        # Each read above called take.
        self._known = True
        return self._open

    cdef double _mean(self, SignedWide held, SignedWide more) noexcept:
        cdef SignedWide units = held + more
        cdef int64_t weight = self._weight + self._tally.weight
        if self._outside + self._tally.outside or weight <= 0:
            return NAN
        if units <= 0:
            return 0.0
        return mean_of_units(<Wide>units, <uint64_t>weight)

    cpdef double log_loss(self) except? -2:
        """The metric; nan where it has to be read there."""
        return self._mean(self._log_loss, self._tally.log_loss) if self.ready(0) else NAN

    cpdef double brier_score(self) except? -2:
        """The metric; nan where it has to be read there."""
        return self._mean(self._brier, self._tally.brier) if self.ready(0) else NAN


cdef inline object _number(const U256& value):
    """An integer of two's complement."""
    return -long_integer(negative(value)) if is_negative(value) else long_integer(value)


@cython.final
cdef class NativeErrorTally:
    """Counts numbers of whole weight for an ``ErrorSums``, which takes their sums before use."""

    def __init__(self, sums):
        self._sums = ref(sums)

    cdef bint ready(self, double truth, double prediction, int64_t weight) except -1:
        """Whether :meth:`count` may be called, with an event of these numbers."""
        if not self._known:
            self._look_up()
        return (
            self._open
            # What the sums hold, and what was moved since, have one half of the room each.
            and weight < MOST_ERRORS // 2 - self._tally.moved
            and number_units(truth, &self._truth)
            and number_units(prediction, &self._prediction)
        )

    cdef void count(self, int64_t weight) noexcept:
        """Count the event that was last found ready."""
        self._tally.count(self._truth, self._prediction, weight)

    def count_many(
        self, const double[::1] truth, const double[::1] prediction, const int64_t[::1] weight=None
    ):
        """Count events; the places of those that the state has to count, None: all of them."""
        cdef const int64_t* by = NULL
        cdef vector[size_t] rest
        if not self._known:
            self._look_up()
        if not self._open:
            return None
        if truth.shape[0]:
            if weight is not None:
                by = &weight[0]
            self._tally.count_many(&truth[0], &prediction[0], by, truth.shape[0], &rest)
        return rest

    cdef bint remove(self, double truth, double prediction, int64_t weight) noexcept:
        """Count an event less that was counted before; False where the state has to."""
        cdef SignedWide one = 0, other = 0
        if not (
            weight < MOST_ERRORS // 2 - self._tally.moved
            and number_units(truth, &one)
            and number_units(prediction, &other)
        ):
            return False
        self._tally.count(one, other, -weight)
        return True

    def take(self):
        """Weight and sums since the last call, and the unit; None where nothing was counted."""
        cdef ErrorTally tally = self._tally
        self._known = False
        if not tally.moved:
            return None
        tally.subtract(self._held)
        self._tally.moved = 0
        self._held = self._tally
        return (
            tally.weight, _number(tally.truths), _number(tally.given),
            _number(tally.truth_squares), _number(tally.products), _number(tally.given_squares),
            _number(tally.under), NUMBER_UNIT,
        )

    cdef bint _look_up(self) except -1:
        cdef ErrorTally held
        sums = self._sums()
        # Takes what was counted; None where they are no such integers.
        units = None if sums is None else sums.in_units(NUMBER_UNIT)
        self._open = False
        if units is not None and units[0] < MOST_ERRORS // 2:
            held.weight = units[0]
            held.truths, held.given = _long(units[1]), _long(units[2])
            held.truth_squares, held.products = _long(units[3]), _long(units[4])
            held.given_squares, held.under = _long(units[5]), _long(units[6])
            self._tally = self._held = held
            self._open = True
        self._known = True
        return self._open

    cdef bint _read(self) except -1:
        if not self._known:
            self._look_up()
        return self._open

    cpdef double mean_error(self) except? -2:
        return self._tally.mean_error() if self._read() else NAN

    cpdef double mean_absolute_error(self) except? -2:
        return self._tally.mean_absolute_error() if self._read() else NAN

    cpdef double mean_squared_error(self) except? -2:
        return self._tally.mean_squared_error() if self._read() else NAN

    cpdef double root_mean_squared_error(self) except? -2:
        return self._tally.root_mean_squared_error() if self._read() else NAN

    cpdef double r2(self) except? -2:
        return self._tally.r2() if self._read() else NAN


cdef inline U256 _long(object number) except *:
    return long_wide(number & ((1 << 256) - 1))


@cython.final
cdef class NativeEventQueue:
    """Binary events of whole weight that a state has yet to count, in batches: 20 times as fast."""

    cdef int push(self, bint positive, double score, int64_t weight) except -1:
        """Add an event, or with a negative weight one to be removed; the state counts both."""
        cdef QueuedEvent event
        event.score, event.weight, event.positive = score, weight, positive
        self._events.push_back(event)
        return 0

    cdef bint full(self) noexcept:
        return self._events.size() >= FULL

    def take(self):
        """Columns of positives, scores and weights, with 1 or −1: of added and of removed events."""
        cdef size_t n, size = self._events.size()
        cdef vector[QueuedEvent] empty
        if not size:
            return []
        positive, score = np.empty(size, dtype=np.bool_), np.empty(size)
        weight = np.empty(size, dtype=np.int64)
        cdef uint8_t[::1] flags = positive.view(np.uint8)
        cdef double[::1] scores = score
        cdef int64_t[::1] weights = weight
        cdef bint removed = False, weighted = False
        for n in range(size):
            flags[n] = self._events[n].positive
            scores[n], weights[n] = self._events[n].score, self._events[n].weight
            removed = removed or weights[n] < 0
            weighted = weighted or (weights[n] != 1 and weights[n] != -1)
        self._events.swap(empty)
        if not removed:
            return [(positive, score, weight if weighted else None, 1)]
        parts = [(weight > 0, 1), (weight < 0, -1)]
        return [
            (positive[rows], score[rows], np.abs(weight[rows]) if weighted else None, times)
            for rows, times in parts
            if rows.any()
        ]


@cython.auto_pickle(False)
cdef class LabelRun:
    """The base class of ``LabelPersistence``: the numbers that compiled code changes in place."""

    cdef int follow(self, label) except -1:
        """Count the next true label, of the kind of those before."""
        if self.last is not None:
            self.pairs += 1
            if self.last is label or self.last == label:
                self.repeats += 1
        self.events += 1
        self.last = label
        return 0
