# What other compiled modules may know of a confusion's cells: see native_confusion.pyx.

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from streameval.states.native.exact128 cimport U256, Wide


cdef extern from "confusion_cells.hpp" namespace "streameval" nogil:
    cdef struct Cell:
        size_t row
        size_t column
        Wide weight

    cdef struct ClassWeights:
        Wide correct
        Wide truth
        Wide predicted

    cdef struct Sums:
        Wide total
        Wide hits
        int64_t active
        int64_t with_true
        int64_t with_predicted
        Wide precision
        Wide recall
        Wide f1
        U256 true_predicted
        U256 true_squared
        U256 predicted_squared

    # What those of both sizes have; numbers of 64 bits are converted.
    cdef cppclass Cells:
        Wide total
        Wide hits
        Sums sums()
        size_t size()
        Wide cell(size_t i, size_t j)
        vector[Cell] cells() except +
        ClassWeights of_class(size_t k) except +
        void recompute() except +
        cbool change(size_t i, size_t j, Wide weight, cbool less) except +
        void clear() except +
        size_t bytes()

    cdef cppclass NarrowCells(Cells):
        cbool add(size_t i, size_t j, int64_t weight) except +
        double accuracy()
        double precision_macro()
        double recall_macro()
        double f1_macro()
        double precision_of(size_t k)
        double recall_of(size_t k)
        double f1_of(size_t k)
        double cohen_kappa()
        double matthews_corrcoef()

    cdef cppclass WideCells(Cells):
        WideCells(const Cells& other) except +

    uint64_t MOST_TOTAL "streameval::NarrowCells::most_total()"


cdef class NativeConfusionCells:
    cdef NarrowCells _cells
    # The cells from a total weight of 2^62 on.
    cdef WideCells* _wide
    # Whether _cells hold nothing any more: wider cells do, or those of another object.
    cdef bint _replaced
    cdef dict _index
    # The indices of the labels 0 and 1, which a binary task has; -1 while they are not known.
    cdef Py_ssize_t _places[2]

    cdef Py_ssize_t place(self, bint positive) except -2
    cdef bint find(self, y_true, y_pred, size_t* i, size_t* j) except -1
    cdef Wide _cell(self, size_t i, size_t j) noexcept
    cdef bint _change(self, size_t i, size_t j, weight, bint less) except -1
    cdef bint _has_positive(self) except -1
    cpdef double accuracy(self) except? -2
    cpdef double precision_macro(self) except? -2
    cpdef double recall_macro(self) except? -2
    cpdef double f1_macro(self) except? -2
    cpdef double matthews_corrcoef(self) except? -2
    cpdef double cohen_kappa(self) except? -2
    cpdef double precision_of_positive(self) except? -2
    cpdef double recall_of_positive(self) except? -2
    cpdef double f1_of_positive(self) except? -2
