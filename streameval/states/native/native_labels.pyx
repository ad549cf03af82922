# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=False, embedsignature=False
"""What compiled code counts of sets of labels for ``LabelCounts`` and ``LabelSetCounts``.

A tally holds what its state does and what was counted since, which the state takes before it is
read. An event that the state counts itself is followed; after any other change the tally forgets
what it held.
"""

cimport cython
from weakref import ref

from cpython.set cimport PySet_Contains, PySet_GET_SIZE
from libc.math cimport NAN

from streameval.states.native.lookup cimport lookup
from cpython.object cimport PyObject

__all__ = ["NativeLabelTally", "NativeSizeTally"]


@cython.final
cdef class NativeLabelTally:
    """Counts the outcome of each label of an event."""

    def __init__(self, counts):
        self._counts = ref(counts)
        self._codes, self._names = {}, []

    cdef bint ready(self, y_true, y_pred, int64_t weight) except -1:
        """Whether :meth:`count` may be called, with an event of these frozen sets."""
        if not self._known:
            self._look_up()
        if not self._open or weight >= MOST_LABELLED - self._tally.weight:
            return False
        self._mark(y_true, y_pred)
        return True

    cdef int _mark(self, y_true, y_pred) except -1:
        cdef Mark mark
        self._marks.clear()
        for label in y_true:
            mark.at = self._code(label)
            mark.outcome = HIT if PySet_Contains(y_pred, label) else MISS
            self._marks.push_back(mark)
        for label in y_pred:
            if not PySet_Contains(y_true, label):
                mark.at, mark.outcome = self._code(label), FALSE_ALARM
                self._marks.push_back(mark)
        return 0

    cdef size_t _code(self, label) except? 0:
        cdef PyObject* found = lookup(self._codes, label)
        cdef size_t at
        if found is not NULL:
            return <object>found
        at = self._tally.add_label()
        self._names.append(label)
        self._codes[label] = at
        return at

    cdef int count(self, int64_t weight) except -1:
        """Count the event that was last found ready; of a negative weight one less."""
        cdef size_t n
        self._tally.count_event(weight)
        for n in range(self._marks.size()):
            self._tally.count(self._marks[n].at, self._marks[n].outcome, weight)
        return 0

    cdef int remove(self, y_true, y_pred, int64_t weight) except -1:
        """Count an event less that was counted before."""
        self._mark(y_true, y_pred)
        return self.count(-weight)

    def take(self):
        """The weight, and the weight of each (label, outcome), since the last call; or None."""
        cdef size_t n, at
        cdef int outcome
        if not self._tally.changed:
            return None
        cells = []
        for n in range(self._tally.touched.size()):
            at = self._tally.touched[n]
            for outcome in range(3):
                if self._tally.labels[at].moved[outcome]:
                    cells.append(((self._names[at], outcome), self._tally.labels[at].moved[outcome]))
        weight = self._tally.moved
        self._tally.handed_over()
        return weight, cells

    def follow(self, cells, weight):
        """Hold an event too that the state counts itself, after it has taken what was counted."""
        if self._known and self._open:
            if not -MOST_LABELLED < weight < MOST_LABELLED - self._tally.weight:
                self._known = False
                return
            self._tally.weight += weight
            for label, outcome in cells:
                self._tally.follow(self._code(label), outcome, weight)

    def forget(self):
        """Hold nothing, as the state is about to change; what was counted has been taken."""
        self._known = False

    cdef bint _look_up(self) except -1:
        cdef LabelTally empty
        counts = self._counts()
        self._open, self._known = False, True
        if counts is not None and counts.exact and counts.weight < MOST_LABELLED:
            self._codes, self._names = {}, []
            self._tally = empty
            self._tally.weight = counts.weight
            for (label, outcome), weight in counts._cells.items():
                self._tally.hold(self._code(label), outcome, weight)
            self._open = True
        return self._open

    def _read(self):
        if not self._known:
            self._look_up()
        return self._open and self._tally.weight > 0

    def micro(self, int rule):
        return self._tally.micro(rule) if self._read() else NAN

    def macro(self, int rule):
        return self._tally.macro(rule) if self._read() else NAN


@cython.final
cdef class NativeSizeTally:
    """Counts how many labels of an event are right, were predicted and are true."""

    def __init__(self, sets):
        self._sets = ref(sets)

    cdef bint ready(self, y_true, y_pred, int64_t weight) except -1:
        """Whether :meth:`count` may be called, with an event of these frozen sets."""
        if not self._known:
            self._look_up()
        if not self._open or weight >= MOST_LABELLED - self._tally.weight:
            return False
        self._measure(y_true, y_pred)
        return True

    cdef int _measure(self, y_true, y_pred) except -1:
        self._truth, self._predicted = PySet_GET_SIZE(y_true), PySet_GET_SIZE(y_pred)
        self._hits = 0
        for label in y_true:
            self._hits += PySet_Contains(y_pred, label)
        return 0

    cdef int count(self, int64_t weight) except -1:
        """Count the event that was last found ready; of a negative weight one less."""
        self._tally.count(self._hits, self._predicted, self._truth, weight)
        return 0

    cdef int remove(self, y_true, y_pred, int64_t weight) except -1:
        """Count an event less that was counted before."""
        self._measure(y_true, y_pred)
        return self.count(-weight)

    def take(self):
        """The weight, and the weight of each cell, since the last call; or None."""
        cdef size_t n
        cdef SizeKey key
        if not self._tally.touched.size():
            return None
        cells = []
        for n in range(self._tally.touched.size()):
            key = self._tally.touched[n]
            cells.append(((key.hits, key.predicted, key.truth), self._tally.moved_of(key)))
        weight = self._tally.moved
        self._tally.handed_over()
        return weight, cells

    def follow(self, cells, weight):
        """Hold an event too that the state counts itself, after it has taken what was counted."""
        if self._known and self._open:
            if not -MOST_LABELLED < weight < MOST_LABELLED - self._tally.weight:
                self._known = False
                return
            for hits, predicted, true in cells:
                self._tally.follow(hits, predicted, true, weight)

    def forget(self):
        """Hold nothing, as the state is about to change; what was counted has been taken."""
        self._known = False

    cdef bint _look_up(self) except -1:
        cdef SizeTally empty
        sets = self._sets()
        self._open, self._known = False, True
        if sets is not None and sets.exact and sets.weight < MOST_LABELLED:
            self._tally = empty
            self._tally.weight = sets.weight
            for (hits, predicted, true), weight in sets._cells.items():
                self._tally.hold(hits, predicted, true, weight)
            self._open = True
        return self._open

    def _read(self):
        if not self._known:
            self._look_up()
        return self._open and self._tally.weight > 0

    def accuracy(self):
        return self._tally.accuracy() if self._read() else NAN

    def samples(self, int rule):
        return self._tally.samples(rule) if self._read() else NAN
