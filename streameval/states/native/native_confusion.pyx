# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=True, embedsignature=False, cdivision=True
"""The compiled cells of a confusion: the contract of ``ConfusionCells`` for integer weights.

Weights outside their range are refused with OverflowError, and ``ConfusionCounts`` moves its cells
to the reference.
"""

cimport cython
from cpython.object cimport PyObject
from libc.math cimport NAN
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t

from streameval.states.native.exact128 cimport Wide, integer, long_integer, wide
from streameval.states.native.lookup cimport lookup

__all__ = ["NativeConfusionCells"]


cdef extern from "Python.h":
    # Not as Cython has it, which would turn an error into an exception at once.
    int64_t PyLong_AsLongLongAndOverflow(object number, int* overflow)


cdef object _ONE = 1
cdef object _ZERO = 0
cdef object _TOO_WIDE = 2**125


@cython.final
cdef class NativeConfusionCells:
    """Weight of each (true, predicted) pair, with its sums; ``index`` is that of the confusion."""

    def __init__(self, dict index not None):
        self._index = index
        self._places[0] = self._places[1] = -1

    def __dealloc__(self):
        del self._wide

    def count_known(self, y_true, y_pred):
        """Count an event of weight 1; False, and nothing is counted, where Python has to."""
        cdef size_t i = 0, j = 0
        if not self.find(y_true, y_pred, &i, &j):
            return False
        return self._cells.add(i, j, 1)

    def add(self, size_t i, size_t j, weight):
        """Add a weight; OverflowError if it is no int, or the total would reach 2¹²⁵."""
        if type(weight) is not int or not self._change(i, j, weight, False):
            raise OverflowError("the cells hold int weights below 2**125")

    def take(self, size_t i, size_t j, weight):
        """Remove a weight from a cell; returns the rest, or below 0 where nothing is changed."""
        left = integer(self._cell(i, j)) - weight
        if left >= 0:
            self._change(i, j, weight, True)
            if left == 0:
                # The index of a label without events will be another's.
                self._places[0] = self._places[1] = -1
        return left

    cdef bint _change(self, size_t i, size_t j, weight, bint less) except -1:
        cdef int overflow = 0
        cdef int64_t small = PyLong_AsLongLongAndOverflow(weight, &overflow)
        if self._wide is NULL:
            if not overflow and self._cells.change(i, j, <uint64_t>small, less):
                return True
            self._wide = new WideCells(self._cells)
            self.release()
        if overflow and weight >= _TOO_WIDE:
            return False
        return self._wide.change(i, j, wide(weight) if overflow else <uint64_t>small, less)

    cdef Wide _cell(self, size_t i, size_t j) noexcept:
        return self._cells.cell(i, j) if self._wide is NULL else self._wide.cell(i, j)

    def cell(self, size_t i, size_t j):
        """The weight of a cell."""
        return integer(self._cell(i, j))

    def coded(self):
        """(true index, predicted index, weight) of the cells that are not 0."""
        cells = self._cells.cells() if self._wide is NULL else self._wide.cells()
        return iter([(cell.row, cell.column, integer(cell.weight)) for cell in cells])

    def of_class(self, size_t k):
        """Correct, true and predicted weight of the class of this index."""
        cdef ClassWeights of = (
            self._cells.of_class(k) if self._wide is NULL else self._wide.of_class(k))
        return integer(of.correct), integer(of.truth), integer(of.predicted)

    def sums(self):
        """The fields of LabelSums, in its order; the ratios are of this call."""
        if self._wide is NULL:
            self._cells.recompute()
        else:
            self._wide.recompute()
        cdef Sums of = self._cells.sums() if self._wide is NULL else self._wide.sums()
        return (
            integer(of.total), integer(of.hits), of.active, of.with_true, of.with_predicted,
            integer(of.precision), integer(of.recall), integer(of.f1),
            long_integer(of.true_predicted), long_integer(of.true_squared),
            long_integer(of.predicted_squared),
        )

    @property
    def total(self):
        """Weight of all events."""
        return integer(self._cells.total if self._wide is NULL else self._wide.total)

    @property
    def hits(self):
        """Weight of the events predicted rightly."""
        return integer(self._cells.hits if self._wide is NULL else self._wide.hits)

    @property
    def exact(self):
        """True: every weight is an int."""
        return True

    def copy(self, dict index not None):
        """Independent cells over a copy of the same labels."""
        cdef NativeConfusionCells twin = NativeConfusionCells(index)
        twin._cells = self._cells
        twin._replaced = self._replaced
        if self._wide is not NULL:
            twin._wide = new WideCells(self._wide[0])
        return twin

    def release(self):
        """Hold nothing in 64 bits from now on: other cells have replaced these."""
        self._cells.clear()
        self._replaced = True

    # Labels

    cdef Py_ssize_t place(self, bint positive) except -2:
        """The index of the label 1, or 0; -1 where it has no event."""
        cdef PyObject* found
        if self._places[positive] < 0:
            found = lookup(self._index, _ONE if positive else _ZERO)
            if found is not NULL:
                self._places[positive] = <object>found
        return self._places[positive]

    cdef bint find(self, y_true, y_pred, size_t* i, size_t* j) except -1:
        """The indices of two labels; False where one is new, or is no label."""
        cdef PyObject* found
        if self._replaced:
            return False
        found = lookup(self._index, y_true)
        if found is not NULL:
            i[0] = j[0] = <object>found
            if y_pred is not y_true:
                found = lookup(self._index, y_pred)
                if found is not NULL:
                    j[0] = <object>found
        if found is NULL:
            return False  # new, or not hashable and so no label: the caller finds out which
        return i[0] < self._cells.size() and j[0] < self._cells.size()

    # Metrics

    cpdef double accuracy(self) except? -2:
        return self._cells.accuracy()

    cpdef double precision_macro(self) except? -2:
        return self._cells.precision_macro()

    cpdef double recall_macro(self) except? -2:
        return self._cells.recall_macro()

    cpdef double f1_macro(self) except? -2:
        return self._cells.f1_macro()

    cpdef double matthews_corrcoef(self) except? -2:
        return self._cells.matthews_corrcoef()

    cpdef double cohen_kappa(self) except? -2:
        return self._cells.cohen_kappa()

    # Of the label 1 against the rest, where a task is binary.

    cdef bint _has_positive(self) except -1:
        return not self._replaced and self.place(True) >= 0

    cpdef double precision_of_positive(self) except? -2:
        return self._cells.precision_of(self._places[1]) if self._has_positive() else NAN

    cpdef double recall_of_positive(self) except? -2:
        return self._cells.recall_of(self._places[1]) if self._has_positive() else NAN

    cpdef double f1_of_positive(self) except? -2:
        return self._cells.f1_of(self._places[1]) if self._has_positive() else NAN

    # The object

    def __sizeof__(self):
        """Bytes held, those of the classes included."""
        cdef size_t wide_bytes = 0 if self._wide is NULL else self._wide.bytes()
        return object.__sizeof__(self) + self._cells.bytes() + wide_bytes

    def __reduce__(self):
        raise TypeError("cells are pickled and copied by their confusion")

    def __repr__(self):
        return f"ConfusionCells(total={self.total})"
