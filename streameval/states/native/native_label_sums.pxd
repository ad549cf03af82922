# What other compiled modules may know of a confusion's cells: see native_label_sums.pyx.

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector


cdef extern from "label_sums.hpp" namespace "streameval" nogil:
    # 128 bits; named here to be handed on, never to be turned into a Python int.
    ctypedef uint64_t Wide

    cdef cppclass Whole:
        int64_t high()
        uint64_t low()
        cbool equals(const Whole& other)
        int sign()
        cbool exact_as_double()
        double as_double()

    Whole whole(Wide value)

    cdef cppclass ClassSums:
        uint64_t truth
        uint64_t predicted
        uint64_t correct
        Wide precision
        Wide recall
        Wide f1

    cdef enum class Counted:
        yes
        too_large
        negative

    cdef struct Cell:
        size_t row
        size_t column
        uint64_t weight

    uint64_t MOST_TOTAL "streameval::ConfusionCells::most_total"

    cdef cppclass Cells "streameval::ConfusionCells":
        vector[ClassSums] classes
        uint64_t total
        uint64_t hits
        int64_t active
        int64_t with_true
        int64_t with_predicted
        Wide precision
        Wide recall
        Wide f1
        Wide true_predicted
        Wide true_squared
        Wide predicted_squared
        cbool watched
        uint64_t cell(size_t i, size_t j)
        vector[Cell] cells() except +
        void clear() except +
        Counted add(size_t i, size_t j, int64_t weight) except +
        cbool behind()
        void recompute()
        size_t bytes()
        Whole covariance()
        Whole rest_of_square(Wide sum)

    cbool mean_of_scaled(Wide scaled, int64_t count, double* mean)


cdef class NativeConfusionCells:
    cdef Cells _cells
    # Whether other cells hold the weights now, and these nothing.
    cdef bint _replaced
    cdef dict _index
    # The indices of the labels 0 and 1, which a binary task has; -1 while they are not known.
    cdef Py_ssize_t _places[2]

    cdef Py_ssize_t place(self, bint positive) except -2
    cdef bint find(self, y_true, y_pred, size_t* i, size_t* j) except -1
    cdef double _mean(self, Wide* scaled, int64_t classes) except? -2
    cdef ClassSums* _positive(self) except? NULL
    cpdef double accuracy(self) except? -2
    cpdef double precision_macro(self) except? -2
    cpdef double recall_macro(self) except? -2
    cpdef double f1_macro(self) except? -2
    cpdef double matthews_corrcoef(self) except? -2
    cpdef double cohen_kappa(self) except? -2
    cpdef double precision_of_positive(self) except? -2
    cpdef double recall_of_positive(self) except? -2
    cpdef double f1_of_positive(self) except? -2
