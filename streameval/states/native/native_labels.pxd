# How compiled code counts sets of labels: see native_labels.pyx.

from libc.stddef cimport size_t
from libc.stdint cimport int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector


cdef extern from "label_tally.hpp" namespace "streameval" nogil:
    cdef enum LabelRule:
        PRECISION
        RECALL
        F1
        JACCARD

    cdef enum Outcome:
        HIT
        FALSE_ALARM
        MISS

    int64_t MOST_LABELLED

    cdef cppclass LabelTally:
        cppclass Label:
            int64_t moved[3]
        int64_t weight
        int64_t moved
        cbool changed
        vector[Label] labels
        vector[size_t] touched
        size_t add_label() except +
        void count_event "count"(int64_t by)
        void count(size_t at, Outcome outcome, int64_t by) except +
        void follow(size_t at, int outcome, int64_t by)
        void hold(size_t at, int outcome, int64_t by)
        void handed_over()
        double micro(int rule)
        double macro(int rule)

    cdef cppclass SizeKey:
        int64_t hits
        int64_t predicted
        int64_t truth

    cdef cppclass SizeTally:
        int64_t weight
        int64_t moved
        vector[SizeKey] touched
        void count(int64_t hits, int64_t predicted, int64_t truth, int64_t by) except +
        void follow(int64_t hits, int64_t predicted, int64_t truth, int64_t by) except +
        void hold(int64_t hits, int64_t predicted, int64_t truth, int64_t by) except +
        int64_t moved_of(const SizeKey& key)
        void handed_over()
        double accuracy()
        double samples(int rule)


cdef struct Mark:
    size_t at
    Outcome outcome


cdef class NativeLabelTally:
    cdef LabelTally _tally
    # The state, what its labels are called here, and whether the tally holds what it does.
    cdef object _counts
    cdef dict _codes
    cdef list _names
    cdef bint _known
    cdef bint _open
    # The labels of the event that was last found ready.
    cdef vector[Mark] _marks

    cdef bint ready(self, y_true, y_pred, int64_t weight) except -1
    cdef int _mark(self, y_true, y_pred) except -1
    cdef size_t _code(self, label) except? 0
    cdef bint _look_up(self) except -1
    cdef int count(self, int64_t weight) except -1
    cdef int remove(self, y_true, y_pred, int64_t weight) except -1


cdef class NativeSizeTally:
    cdef SizeTally _tally
    cdef object _sets
    cdef bint _known
    cdef bint _open
    cdef int64_t _hits
    cdef int64_t _predicted
    cdef int64_t _truth

    cdef bint ready(self, y_true, y_pred, int64_t weight) except -1
    cdef int _measure(self, y_true, y_pred) except -1
    cdef bint _look_up(self) except -1
    cdef int count(self, int64_t weight) except -1
    cdef int remove(self, y_true, y_pred, int64_t weight) except -1
