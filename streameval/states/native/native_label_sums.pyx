# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=True, embedsignature=False, cdivision=True
"""The compiled cells of a confusion: :class:`NativeConfusionCells` over integers of C++.

The contract of :class:`~streameval.states.confusion_parts.label_sums.ConfusionCells` for integer
weights, with the same integers. Weights outside their range are refused with OverflowError,
and ``ConfusionCounts`` moves its cells to the reference.
"""

cimport cython
from cpython.exc cimport PyErr_Clear, PyErr_ExceptionMatches, PyErr_Occurred
from cpython.object cimport PyObject
from libc.math cimport NAN, sqrt
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t

__all__ = ["NativeConfusionCells"]


cdef extern from "Python.h":
    # Not as Cython has it, which would turn an error into an exception at once.
    PyObject* PyDict_GetItemWithError(object table, object key)


cdef object _ONE = 1
cdef object _ZERO = 0


cdef int _forget_miss() except -1:
    """After a lookup that found nothing: only what is no label at all is no error here."""
    if PyErr_Occurred() is NULL:
        return 0
    if PyErr_ExceptionMatches(KeyError) or PyErr_ExceptionMatches(TypeError):
        PyErr_Clear()
        return 0
    return -1


cdef inline object _integer(Whole value):
    if value.high() == 0:
        return value.low()
    return (<object>value.high() << 64) | value.low()


cdef inline double _divide(Whole over, Whole under) except? -2:
    """One rounding, as Python divides integers; ``under`` is above 0."""
    if over.exact_as_double() and under.exact_as_double():
        return over.as_double() / under.as_double()
    return _integer(over) / _integer(under)


@cython.final
cdef class NativeConfusionCells:
    """Weight of each (true, predicted) pair of one confusion, with its sums; compiled.

    It has the attributes of :class:`~streameval.states.confusion_parts.label_sums.LabelSums`
    too, and :meth:`sums` returns the object itself. The methods from :meth:`accuracy` on are
    the metrics of these names, with the same bits as ``streameval.metrics``. They return nan
    where the metric has no value, or other cells have replaced these.

    Args:
        index: The index of each label. Kept, not copied; the confusion changes it.

    >>> cells = NativeConfusionCells({"cat": 0, "dog": 1})
    >>> for i, j, weight in [(0, 0, 2), (1, 1, 1), (1, 0, 1)]:
    ...     cells.add(i, j, weight)
    >>> cells.cell(1, 0), cells.sums().recall / 2**64, cells.true_predicted
    (1, 1.5, 8)
    """

    def __init__(self, dict index not None):
        self._index = index
        self._places[0] = self._places[1] = -1

    def count_known(self, y_true, y_pred):
        """Count an event of weight 1; False, and nothing is counted, where Python has to."""
        cdef size_t i = 0, j = 0
        if not self.find(y_true, y_pred, &i, &j) or self._cells.total >= MOST_TOTAL:
            return False
        self._cells.add(i, j, 1)
        return True

    def add(self, size_t i, size_t j, weight):
        """Add a weight to a cell.

        Raises:
            OverflowError: The weight is no int, or the total weight would reach 2⁶². Nothing
                is added.
        """
        if type(weight) is not int:
            raise OverflowError(f"weight: expected int, got {type(weight).__name__}")
        if self._cells.add(i, j, weight) != Counted.yes:
            raise OverflowError("the total weight would reach 2**62")

    def take(self, size_t i, size_t j, weight):
        """Remove a weight from a cell; returns the rest, or below 0 where nothing is changed."""
        left = self._cells.cell(i, j) - weight
        if left >= 0:
            self._cells.add(i, j, -<int64_t>weight)
            if left == 0:
                # The index of a label without events will be another's.
                self._places[0] = self._places[1] = -1
        return left

    def cell(self, size_t i, size_t j):
        """The weight of a cell."""
        return self._cells.cell(i, j)

    def coded(self):
        """(true index, predicted index, weight) of the cells that are not 0."""
        return iter([(cell.row, cell.column, cell.weight) for cell in self._cells.cells()])

    def sums(self):
        """This object, whose ratios are up to date."""
        self._cells.recompute()
        self._cells.watched = True
        return self

    def copy(self, dict index not None):
        """Independent cells over a copy of the same labels."""
        cdef NativeConfusionCells twin = NativeConfusionCells(index)
        twin._cells = self._cells
        return twin

    def release(self):
        """Hold nothing from now on: other cells have replaced these."""
        self._cells.clear()
        self._replaced = True

    @property
    def exact(self):
        """True: every weight is an int."""
        return True

    cdef Py_ssize_t place(self, bint positive) except -2:
        """The index of the label 1, or 0; -1 where it has no event."""
        cdef PyObject* found
        if self._places[positive] < 0:
            found = PyDict_GetItemWithError(self._index, _ONE if positive else _ZERO)
            if found is NULL:
                _forget_miss()
            else:
                self._places[positive] = <object>found
        return self._places[positive]

    cdef bint find(self, y_true, y_pred, size_t* i, size_t* j) except -1:
        """The indices of two labels; False where one is new, or is no label."""
        cdef PyObject* found
        if self._replaced:
            return False
        found = PyDict_GetItemWithError(self._index, y_true)
        if found is not NULL:
            i[0] = j[0] = <object>found
            if y_pred is not y_true:
                found = PyDict_GetItemWithError(self._index, y_pred)
                if found is not NULL:
                    j[0] = <object>found
        if found is NULL:
            # New, or not hashable and so no label: the caller finds out which.
            _forget_miss()
            return False
        return i[0] < self._cells.classes.size() and j[0] < self._cells.classes.size()

    # What one class has, and all of them.

    def of_class(self, size_t k):
        """Correct, true and predicted weight of the class of this index."""
        if k >= self._cells.classes.size():
            raise IndexError(f"class {k} of {self._cells.classes.size()}")
        return self._cells.classes[k].correct, self._cells.classes[k].truth, \
            self._cells.classes[k].predicted

    @property
    def total(self):
        """Weight of all events."""
        return self._cells.total

    @property
    def hits(self):
        """Weight of the events predicted rightly."""
        return self._cells.hits

    @property
    def active(self):
        """Number of classes with t + p > 0."""
        return self._cells.active

    @property
    def with_true(self):
        """Number of classes with t > 0."""
        return self._cells.with_true

    @property
    def with_predicted(self):
        """Number of classes with p > 0."""
        return self._cells.with_predicted

    @property
    def precision(self):
        """Σ ⌊2⁶⁴ c / p⌋, as of the last :meth:`sums`."""
        return _integer(whole(self._cells.precision))

    @property
    def recall(self):
        """Σ ⌊2⁶⁴ c / t⌋, as of the last :meth:`sums`."""
        return _integer(whole(self._cells.recall))

    @property
    def f1(self):
        """Σ ⌊2⁶⁴ 2c / (t + p)⌋, as of the last :meth:`sums`."""
        return _integer(whole(self._cells.f1))

    @property
    def true_predicted(self):
        """Σ t·p."""
        return _integer(whole(self._cells.true_predicted))

    @property
    def true_squared(self):
        """Σ t²."""
        return _integer(whole(self._cells.true_squared))

    @property
    def predicted_squared(self):
        """Σ p²."""
        return _integer(whole(self._cells.predicted_squared))

    # Metrics

    cdef double _mean(self, Wide* scaled, int64_t classes) except? -2:
        cdef double mean
        if classes == 0:
            return NAN
        if self._cells.behind():
            self._cells.recompute()
        self._cells.watched = True
        if mean_of_scaled(scaled[0], classes, &mean):
            return mean
        return _integer(whole(scaled[0])) / classes * 0.5**64

    cpdef double accuracy(self) except? -2:
        """c / s; nan before the first event."""
        if self._cells.total == 0:
            return NAN
        return _divide(whole(<Wide>self._cells.hits), whole(<Wide>self._cells.total))

    cpdef double precision_macro(self) except? -2:
        """The mean precision of the classes that were predicted; nan before the first event."""
        return self._mean(&self._cells.precision, self._cells.with_predicted)

    cpdef double recall_macro(self) except? -2:
        """The mean recall of the classes that occur; nan before the first event."""
        return self._mean(&self._cells.recall, self._cells.with_true)

    cpdef double f1_macro(self) except? -2:
        """The mean F1 of the active classes; nan before the first event."""
        return self._mean(&self._cells.f1, self._cells.active)

    cpdef double matthews_corrcoef(self) except? -2:
        """The correlation of the true and the predicted class; nan where one is constant."""
        cdef Whole covariance = self._cells.covariance()
        cdef Whole spread_true = self._cells.rest_of_square(self._cells.true_squared)
        cdef Whole spread_predicted = self._cells.rest_of_square(self._cells.predicted_squared)
        cdef double value
        if spread_true.sign() == 0 or spread_predicted.sign() == 0:
            return NAN
        if spread_true.equals(spread_predicted):
            return _divide(covariance, spread_true)
        value = sqrt(_divide(covariance, spread_true) * _divide(covariance, spread_predicted))
        return value if covariance.sign() >= 0 else -value

    cpdef double cohen_kappa(self) except? -2:
        """Agreement beyond chance; nan where chance explains all."""
        cdef Whole beyond = self._cells.rest_of_square(self._cells.true_predicted)
        if beyond.sign() == 0:
            return NAN
        return _divide(self._cells.covariance(), beyond)

    # Of the label 1 against the rest, where a task is binary.

    cdef ClassSums* _positive(self) except? NULL:
        """The sums of the label 1; NULL before its first event."""
        if self._replaced or self.place(True) < 0:
            return NULL
        return &self._cells.classes[<size_t>self._places[1]]

    cpdef double precision_of_positive(self) except? -2:
        """c / p; nan where it was never predicted."""
        cdef ClassSums* of = self._positive()
        if of is NULL or not of.predicted:
            return NAN
        return _divide(whole(<Wide>of.correct), whole(<Wide>of.predicted))

    cpdef double recall_of_positive(self) except? -2:
        """c / t; nan where it does not occur."""
        cdef ClassSums* of = self._positive()
        if of is NULL or not of.truth:
            return NAN
        return _divide(whole(<Wide>of.correct), whole(<Wide>of.truth))

    cpdef double f1_of_positive(self) except? -2:
        """2 c / (t + p); nan where it neither occurs nor was predicted."""
        cdef ClassSums* of = self._positive()
        if of is NULL or not of.truth + of.predicted:
            return NAN
        return _divide(whole(<Wide>(2 * of.correct)), whole(<Wide>(of.truth + of.predicted)))

    # The object

    def __sizeof__(self):
        """Bytes held, those of the classes included."""
        return object.__sizeof__(self) + self._cells.bytes()

    def __reduce__(self):
        raise TypeError("cells are pickled and copied by their confusion")

    def __repr__(self):
        return f"ConfusionCells(active={self._cells.active})"
