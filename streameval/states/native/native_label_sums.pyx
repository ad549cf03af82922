# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=True, embedsignature=False, cdivision=True
"""The compiled sums over classes: :class:`NativeLabelSums` over integers of C++.

The contract of :class:`~streameval.states.confusion_parts.label_sums.LabelSums` for integer
weights, and the same integers. What passes their range is refused with
OverflowError, and ``ConfusionCounts`` goes on with the portable sums.
"""

cimport cython
from cpython.dict cimport PyDict_SetItem
from cpython.exc cimport PyErr_Clear, PyErr_ExceptionMatches, PyErr_Occurred
from cpython.object cimport PyObject
from libc.math cimport NAN, sqrt
from libc.stddef cimport size_t
from libc.stdint cimport int64_t

__all__ = ["NativeLabelSums"]


cdef extern from "Python.h":
    # Not as Cython has it, which would turn an error into an exception at once.
    PyObject* PyDict_GetItemWithError(object table, object key)


cdef object _ONE = 1
cdef object _ZERO = 0
# INDEX_BITS of label_index.py.
cdef int _BITS = 17


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
cdef class NativeLabelSums:
    """Sums over the classes of one confusion of integer weights, compiled.

    See :class:`~streameval.states.confusion_parts.label_sums.LabelSums` for the attributes.
    The methods from :meth:`accuracy` on are the metrics of these names, with
    the same bits as ``streameval.metrics`` gives. They return nan where the
    metric has no value or has to be read there.

    Args:
        classes: Number of classes.
        cells: Index of the true class, index of the predicted class, weight.

    Raises:
        OverflowError: The total weight would reach 2⁶².

    Cost:
        0.1 µs an event, its cell included; 0.04 µs for a metric. About 110 bytes
        a class.

    >>> sums = NativeLabelSums(2, [(0, 0, 2), (1, 1, 1), (1, 0, 1)])
    >>> sums.recompute()
    >>> sums.recall / 2**64, sums.true_predicted
    (1.5, 8)
    """

    def __init__(self, size_t classes, cells):
        self.lose_places()
        self._sums.grow(classes)
        for i, j, weight in cells:
            self.count(i, j, weight)

    def grow(self, size_t classes):
        """Make room for classes that have joined."""
        self._sums.grow(classes)

    def count(self, size_t i, size_t j, weight):
        """Count events of class i predicted as class j; a negative weight takes them back.

        Raises:
            OverflowError: The total weight would reach 2⁶². Nothing is counted.
            ValueError: More is taken back than came. Nothing is changed.
        """
        cdef int64_t number = 1
        if weight is not _ONE:
            # A float would be cut to an integer.
            if not isinstance(weight, int):
                raise TypeError(f"weight: expected int, got {type(weight).__name__}")
            number = weight
        if i >= self._sums.classes.size() or j >= self._sums.classes.size():
            raise IndexError(f"class {max(i, j)} of {self._sums.classes.size()}")
        cdef Counted counted = self._sums.count(i, j, number)
        if counted != Counted.yes:
            if counted == Counted.negative:
                raise ValueError(f"weight {number}: a count would fall below 0")
            raise OverflowError("the total weight would reach 2**62")

    def short_way(self, dict index, dict cells):
        """The bound :meth:`count_known`, for a confusion of this index of labels and these cells.

        Both are kept, not copied.
        """
        self._index = index
        self._cells = cells
        self.lose_places()
        return self.count_known

    def lose_places(self):
        """Look labels up again: one of them has been removed, and its index will be another's."""
        self._places[0] = self._places[1] = -1

    def count_known(self, y_true, y_pred):
        """Count an event of weight 1 between known labels, in its cell as well.

        Returns:
            False, and nothing is counted, where a label is new or the numbers become too large.
        """
        cdef size_t i = 0, j = 0
        if not self.find(y_true, y_pred, &i, &j) or self._sums.total >= MOST_TOTAL:
            return False
        self.shift(i, j, 1)
        return True

    cdef Py_ssize_t place(self, bint positive) except -2:
        """The index of the label 1, or 0; -1 where it has no event."""
        cdef PyObject* found
        if self._index is not None and self._places[positive] < 0:
            found = PyDict_GetItemWithError(self._index, _ONE if positive else _ZERO)
            if found is NULL:
                _forget_miss()
            else:
                self._places[positive] = <object>found
        return self._places[positive]

    cdef bint find(self, y_true, y_pred, size_t* i, size_t* j) except -1:
        """The indices of two labels; False where one is new, or is no label."""
        cdef PyObject* found
        if self._index is None or self._cells is None:
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
        return i[0] < self._sums.classes.size() and j[0] < self._sums.classes.size()

    cdef int64_t cell(self, size_t i, size_t j) except -1:
        """The weight of a cell."""
        cdef PyObject* found = PyDict_GetItemWithError(self._cells, i << _BITS | j)
        cdef int64_t weight = 0
        if found is not NULL:
            weight = <object>found
        else:
            _forget_miss()
        return weight + (self._unsettled[2 * i + j] if i < 2 and j < 2 else 0)

    cdef int shift(self, size_t i, size_t j, int weight) except -1:
        """Count in the sums and in the cell, of which the caller knows that both can take it.

        A negative weight leaves a cell with some.
        """
        if i < 2 and j < 2:
            # Two classes have four cells, whose ints would be replaced with each event.
            self._unsettled[2 * i + j] += weight
            self._behind = True
        else:
            code = i << _BITS | j
            found = PyDict_GetItemWithError(self._cells, code)
            if found is NULL:
                _forget_miss()
            more = weight if found is NULL else <object>found + weight
            PyDict_SetItem(self._cells, code, more)
        self._sums.count(i, j, weight)
        return 0

    def settle(self):
        """Bring the cells up to date with what :meth:`count_known` counted."""
        cdef size_t place
        if not self._behind:
            return
        for place in range(4):
            if self._unsettled[place]:
                code = (place >> 1) << _BITS | (place & 1)
                self._cells[code] = self._cells.get(code, 0) + self._unsettled[place]
                self._unsettled[place] = 0
        self._behind = False

    def recompute(self):
        """Bring the ratios of the classes touched since the last time up to date."""
        self._sums.recompute()

    def retire(self):
        """Return nan from now on for every metric: other sums have replaced these."""
        self._retired = True

    # What one class has, and all of them.

    def of_class(self, size_t k):
        """Correct, true and predicted weight of the class of this index."""
        if k >= self._sums.classes.size():
            raise IndexError(f"class {k} of {self._sums.classes.size()}")
        return self._sums.classes[k].correct, self._sums.classes[k].truth, \
            self._sums.classes[k].predicted

    @property
    def true(self):
        """t of each class, by its index; a new list."""
        return [self._sums.classes[k].truth for k in range(self._sums.classes.size())]

    @property
    def predicted(self):
        """p of each class, by its index; a new list."""
        return [self._sums.classes[k].predicted for k in range(self._sums.classes.size())]

    @property
    def correct(self):
        """c of each class, by its index; a new list."""
        return [self._sums.classes[k].correct for k in range(self._sums.classes.size())]

    @property
    def touched(self):
        """Whether the ratios are behind."""
        return self._sums.behind()

    @property
    def watched(self):
        """Whether the next event renews its ratios at once."""
        return self._sums.watched

    @watched.setter
    def watched(self, bint value):
        self._sums.watched = value

    @property
    def total(self):
        """Weight of all events."""
        return self._sums.total

    @property
    def hits(self):
        """Weight of the events predicted rightly."""
        return self._sums.hits

    @property
    def active(self):
        """Number of classes with t + p > 0."""
        return self._sums.active

    @property
    def with_true(self):
        """Number of classes with t > 0."""
        return self._sums.with_true

    @property
    def with_predicted(self):
        """Number of classes with p > 0."""
        return self._sums.with_predicted

    @property
    def precision(self):
        """Σ ⌊2⁶⁴ c / p⌋, as of the last :meth:`recompute`."""
        return _integer(whole(self._sums.precision))

    @property
    def recall(self):
        """Σ ⌊2⁶⁴ c / t⌋, as of the last :meth:`recompute`."""
        return _integer(whole(self._sums.recall))

    @property
    def f1(self):
        """Σ ⌊2⁶⁴ 2c / (t + p)⌋, as of the last :meth:`recompute`."""
        return _integer(whole(self._sums.f1))

    @property
    def true_predicted(self):
        """Σ t·p."""
        return _integer(whole(self._sums.true_predicted))

    @property
    def true_squared(self):
        """Σ t²."""
        return _integer(whole(self._sums.true_squared))

    @property
    def predicted_squared(self):
        """Σ p²."""
        return _integer(whole(self._sums.predicted_squared))

    # Metrics

    cdef double _mean(self, Wide* scaled, int64_t classes) except? -2:
        cdef double mean
        if self._retired or classes == 0:
            return NAN
        if self._sums.behind():
            self._sums.recompute()
        self._sums.watched = True
        if mean_of_scaled(scaled[0], classes, &mean):
            return mean
        return _integer(whole(scaled[0])) / classes * 0.5**64

    cpdef double accuracy(self) except? -2:
        """c / s; nan before the first event."""
        if self._retired or self._sums.total == 0:
            return NAN
        return _divide(whole(<Wide>self._sums.hits), whole(<Wide>self._sums.total))

    cpdef double precision_macro(self) except? -2:
        """The mean precision of the classes that were predicted; nan before the first event."""
        return self._mean(&self._sums.precision, self._sums.with_predicted)

    cpdef double recall_macro(self) except? -2:
        """The mean recall of the classes that occur; nan before the first event."""
        return self._mean(&self._sums.recall, self._sums.with_true)

    cpdef double f1_macro(self) except? -2:
        """The mean F1 of the active classes; nan before the first event."""
        return self._mean(&self._sums.f1, self._sums.active)

    cpdef double matthews_corrcoef(self) except? -2:
        """The correlation of the true and the predicted class; nan where one is constant."""
        cdef Whole covariance = self._sums.covariance()
        cdef Whole spread_true = self._sums.rest_of_square(self._sums.true_squared)
        cdef Whole spread_predicted = self._sums.rest_of_square(self._sums.predicted_squared)
        cdef double value
        if self._retired or spread_true.sign() == 0 or spread_predicted.sign() == 0:
            return NAN
        if spread_true.equals(spread_predicted):
            return _divide(covariance, spread_true)
        value = sqrt(_divide(covariance, spread_true) * _divide(covariance, spread_predicted))
        return value if covariance.sign() >= 0 else -value

    cpdef double cohen_kappa(self) except? -2:
        """Agreement beyond chance; nan where chance explains all."""
        cdef Whole beyond = self._sums.rest_of_square(self._sums.true_predicted)
        if self._retired or beyond.sign() == 0:
            return NAN
        return _divide(self._sums.covariance(), beyond)

    # Of the label 1 against the rest, where a task is binary.

    cdef ClassSums* _positive(self) except? NULL:
        """The sums of the label 1; NULL before its first event."""
        if self._retired or self.place(True) < 0:
            return NULL
        return &self._sums.classes[<size_t>self._places[1]]

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
        return object.__sizeof__(self) + self._sums.bytes()

    def __reduce__(self):
        raise TypeError("sums are made from their confusion, and not pickled or copied")

    def __repr__(self):
        return f"LabelSums(active={self.active})"

    def _check(self, fresh):
        """Assert that these are the sums of ``fresh``, portable or compiled."""
        fresh.recompute()
        self._sums.recompute()
        for name in (
            "active", "with_true", "with_predicted", "precision", "recall", "f1", "total", "hits",
            "true_predicted", "true_squared", "predicted_squared", "true", "predicted", "correct",
        ):
            assert getattr(self, name) == getattr(fresh, name), name
