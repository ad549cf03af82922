# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=True, embedsignature=False
"""The compiled counting of a batch in many sets of states: see event_partition.hpp."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.math cimport INFINITY
from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp.vector cimport vector

import numpy as np

from streameval.states.native.native_index cimport (
    Run,
    ScoreIndexKernel,
    ScoreTree,
    build_from_groups,
)

__all__ = ["BatchPartition", "has_room", "is_packed", "occurrences", "pack", "unpack"]


cdef extern from "event_partition.hpp" namespace "streameval" nogil:
    cppclass Groups:
        vector[double] scores
        vector[int64_t] weights[2]
        void resize(size_t size) except +
        void merge(const Groups& a, const Groups& b) except +

    cppclass EventPartition:
        cppclass Set:
            # "from" is a word of Python's.
            size_t start "from"
            size_t end "to"
            int64_t window
            int64_t bucket
            int64_t cells[4]

        cppclass Columns:
            size_t size
            const uint8_t* truth
            const uint8_t* predicted
            const double* scores
            const int64_t* moments
            int64_t width
            int64_t least

        vector[Set] sets
        const double* scores()
        bint positive(size_t at)
        cppclass Dimension:
            const int64_t* codes
            const int64_t* windows

        void sort(
            const Columns& columns, const vector[Dimension]& dimensions, size_t windows
        ) except +
        const vector[int64_t]& buckets()
        void classes(const Set& counted, vector[double]* of) except +
        void groups(const Set& counted, Groups& to) except +

    cppclass PackedSet:
        @staticmethod
        int width(const Groups& groups)
        @staticmethod
        size_t size(size_t groups, int width)
        @staticmethod
        void write(char* to, const int64_t* cells, const Groups& groups, int width)
        @staticmethod
        void read(const char* start, int64_t* cells, Groups& groups) except +

    cdef unsigned char MARK "streameval::PackedSet::kMark"


# So far from the most that a class may weigh that no batch passes it.
cdef uint64_t _ROOM = 1 << 61


@cython.final
cdef class BatchPartition:
    """The events of a batch by set: one for each window and bucket that counts some, in this order."""

    cdef EventPartition _sets
    cdef vector[double] _scores[2]
    cdef Groups _groups[3]
    cdef readonly bint scored
    cdef readonly bint labelled

    def __init__(
        self, y_true, y_pred, score, const int64_t[::1] moments, int64_t width, int64_t least,
        size_t windows, dimensions,
    ):
        cdef EventPartition.Columns columns
        cdef const uint8_t[::1] truth = y_true.view(np.uint8), predicted
        cdef const double[::1] scores
        cdef const int64_t[::1] codes, windows_of
        cdef EventPartition.Dimension dimension
        cdef vector[EventPartition.Dimension] given
        columns.size, columns.width, columns.least = truth.shape[0], width, least
        if columns.size == 0:
            return
        self.labelled, self.scored = y_pred is not None, score is not None
        columns.truth = &truth[0]
        predicted = y_pred.view(np.uint8) if self.labelled else None
        columns.predicted = &predicted[0] if self.labelled else NULL
        scores = score
        columns.scores = &scores[0] if self.scored else NULL
        columns.moments = &moments[0] if moments is not None else NULL
        for codes, windows_of in dimensions:
            dimension.codes, dimension.windows = &codes[0], &windows_of[0]
            given.push_back(dimension)
        with nogil:
            self._sets.sort(columns, given, windows)

    def buckets(self):
        """The numbers of the buckets, ascending."""
        return self._sets.buckets()

    def spans(self):
        """For each window with events: its number, that of its first set, and its buckets'."""
        cdef list found = []
        cdef size_t n
        for n in range(self._sets.sets.size()):
            if n == 0 or self._sets.sets[n].window != self._sets.sets[n - 1].window:
                found.append((self._sets.sets[n].window, n, []))
            found[-1][2].append(self._sets.sets[n].bucket)
        return found

    def pairs(self, size_t n):
        """Number of events of each pair of true and predicted class in a set; none of 0."""
        cdef const int64_t* cells = self._sets.sets.at(n).cells
        return [(at >> 1, at & 1, cells[at]) for at in range(4) if self.labelled and cells[at]]

    def columns(self, size_t n):
        """The true classes and the scores of the events of a set, by score."""
        cdef const EventPartition.Set* counted = &self._sets.sets.at(n)
        cdef size_t at, size = counted.end - counted.start
        positive, score = np.empty(size, dtype=np.bool_), np.empty(size)
        cdef uint8_t[::1] flags = positive.view(np.uint8)
        cdef double[::1] scores = score
        for at in range(size):
            flags[at] = self._sets.positive(counted.start + at)
            scores[at] = self._sets.scores()[counted.start + at]
        return positive, score

    def add_scores(self, size_t n, ScoreIndexKernel index not None):
        """Count the scores of a set in an index that :func:`has_room`."""
        cdef Run runs[2]
        cdef int side
        if not self.scored:
            return
        self._sets.classes(self._sets.sets.at(n), self._scores)
        for side in range(2):
            runs[side].scores = self._scores[side].data()
            runs[side].size = self._scores[side].size()
            runs[side].weights = NULL
        index.add_sorted(runs[0], runs[1])

    def packed(self, size_t n, bytes before=None):
        """What :func:`pack` gives for states that have counted a set, and what was packed before."""
        cdef int64_t cells[4]
        cdef const EventPartition.Set* counted = &self._sets.sets.at(n)
        cdef Groups* groups = &self._groups[0]
        cdef int at
        cells[0] = cells[1] = cells[2] = cells[3] = 0
        if self.scored:
            self._sets.groups(counted[0], groups[0])
        if before is not None:
            PackedSet.read(PyBytes_AS_STRING(before), cells, self._groups[1])
            groups = &self._groups[2]
            groups.merge(self._groups[0], self._groups[1])
        for at in range(4 if self.labelled else 0):
            cells[at] += counted.cells[at]
        return _packed(cells, groups[0])


cdef bytes _packed(const int64_t* cells, const Groups& groups):
    cdef int width = PackedSet.width(groups)
    cdef bytes data = PyBytes_FromStringAndSize(NULL, PackedSet.size(groups.scores.size(), width))
    PackedSet.write(PyBytes_AS_STRING(data), cells, groups, width)
    return data


def occurrences(const int64_t[::1] codes, size_t most):
    """(code, its first row, number of its rows) of the codes below ``most`` that occur, ascending."""
    cdef vector[ptrdiff_t] firsts, counts
    cdef ptrdiff_t n
    cdef size_t code
    firsts.resize(most)
    counts.resize(most)
    with nogil:
        for n in range(codes.shape[0]):
            code = codes[n]
            if counts[code] == 0:
                firsts[code] = n
            counts[code] += 1
    return [(code, firsts[code], counts[code]) for code in range(most) if counts[code]]


def has_room(index):
    """Whether an index takes the scores of any batch of weight 1: compiled, whole and not full."""
    if not isinstance(index, ScoreIndexKernel):
        return False
    cdef ScoreIndexKernel one = index
    one._wait()
    return one._plain and one._tree.positives() < _ROOM and one._tree.negatives() < _ROOM


def is_packed(bytes data):
    """Whether bytes are from :func:`pack`: no others of a set of states begin like these."""
    return <unsigned char>PyBytes_AS_STRING(data)[0] == MARK


def pack(index, cells):
    """The cells of a confusion of two classes and an index that :func:`has_room`, or None, as
    bytes: 10 a score."""
    cdef int64_t of[4]
    cdef ScoreIndexKernel one
    cdef Groups groups
    cdef ScoreTree.Room room
    of[0], of[1], of[2], of[3] = cells
    if index is not None:
        one = index
        one._wait()
        groups.resize(one._tree.distinct())
        room.scores, room.start, room.end = groups.scores.data(), 0, groups.scores.size()
        room.positives, room.negatives = groups.weights[1].data(), groups.weights[0].data()
        one._tree.read_groups(-INFINITY, False, room)
    return _packed(of, groups)


def unpack(bytes data, index):
    """The cells that were packed; the scores are counted in an index, which is empty, or None."""
    cdef int64_t cells[4]
    cdef ScoreIndexKernel one
    cdef Groups groups
    PackedSet.read(PyBytes_AS_STRING(data), cells, groups)
    if index is not None and groups.scores.size():
        one = index
        build_from_groups(
            one._tree[0], groups.scores.data(), groups.weights[1].data(),
            groups.weights[0].data(), groups.scores.size(),
        )
    return cells[0], cells[1], cells[2], cells[3]
