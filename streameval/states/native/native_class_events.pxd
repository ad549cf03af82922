# How compiled code counts multi-class events with probabilities: see native_class_events.pyx.

from cpython.object cimport PyObject
from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport int64_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from streameval.states.native.exact128 cimport SignedWide, Wide


cdef extern from "class_terms.hpp" namespace "streameval" nogil:
    cbool mean_of_scaled(Wide scaled, int64_t count, double* mean)

    # Of loss_tally.hpp: the events whose predicted label had a probability in one bin.
    cdef cppclass Bin:
        int64_t weight
        int64_t hits
        SignedWide units

    cdef cppclass ClassTerms:
        vector[double] edges
        vector[uint64_t] ranks
        vector[Bin] bins
        vector[size_t] ranks_used
        vector[size_t] bins_used
        Wide log_loss
        Wide brier
        int64_t weight
        void start(size_t count) except +
        void reserve(ptrdiff_t rank) except +
        void count(
            double given, Wide squares, ptrdiff_t rank, double confidence, cbool hit, int64_t by
        )
        void count_row(
            const double* row, ptrdiff_t columns, const int64_t* places,
            ptrdiff_t truth, ptrdiff_t predicted, cbool hit
        )
        void clear()

    int64_t MOST_WEIGHT "streameval::ClassTerms::most_weight"

    int64_t in_units(double value)
    Wide share_of(uint64_t wins, uint64_t pairs)


cdef PyObject* best_label(dict known, proba, double tolerance) except? NULL


cdef class NativeClassTerms:
    cdef ClassTerms _terms

    cpdef bint count(self, y_true, dict proba, y_pred, int64_t weight=*) except -1


cdef class ScoreFields:
    cdef public dict _codes
    cdef public list _events
    cdef public int _level
    cdef public object _whole
    cdef public object _wins
    cdef public dict counts
    cdef public bint exact
    cdef public bint not_probabilities


cdef class ClassCounter:
    cdef ScoreFields _scores
    cdef object _sums
    cdef Py_ssize_t _rows_most
    cdef int64_t _weight_most
    # Whether the event that was last found ready is counted without the methods of the scores.
    cdef bint _at_once

    cdef bint ready(self, y_true, y_pred, dict proba, weight, int64_t whole) except -1
    cdef int add(self, y_true, y_pred, dict proba, weight, int64_t whole) except -1
    cdef int remove(self, tuple fields) except -1
