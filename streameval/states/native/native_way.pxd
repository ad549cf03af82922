# How compiled code counts an event: see native_way.pyx.

from cpython.object cimport PyObject
from libc.stddef cimport size_t
from libc.stdint cimport int64_t

from streameval.states.native.event_ring cimport NativeEventRing
from streameval.states.native.native_index cimport ScoreIndexKernel
from streameval.states.native.native_confusion cimport NativeConfusionCells
from streameval.states.native.native_lock cimport NativeLock
from streameval.states.native.native_loss_tally cimport NativeLossTally


# A valid event of weight 1. References are borrowed.
cdef struct PlainEvent:
    # Binary: true and predicted class, and the score where it is `scored`.
    bint positive
    bint predicted
    bint scored
    double score
    # Multi-class: the canonical labels.
    PyObject* y_true
    PyObject* y_pred
    # In a window of time: the number of the event's bucket, as the timeline has it. It is the
    # newest, or begins with the event where `begins`, and `bucket` is then NULL.
    PyObject* bucket
    int64_t number
    bint begins
    int64_t moment


cdef class WindowWay:
    # Whether it counts an event that begins a new bucket.
    cdef readonly bint advances
    cdef bint ready(self, PlainEvent* event) except -1
    cdef int add(self, PlainEvent* event) except -1


cdef class StateWay(WindowWay):
    cdef bint _open
    cdef bint _binary
    cdef ScoreIndexKernel _index
    cdef NativeLossTally _losses
    cdef tuple _others
    cdef object _counts
    cdef NativeConfusionCells _cells
    # The cell of the event that was last found ready, where its labels are in the confusion.
    cdef bint _found
    cdef size_t _row
    cdef size_t _column

    cdef NativeConfusionCells _current_cells(self)
    cdef tuple _labels(self, PlainEvent* event)
    cdef bint _find(self, PlainEvent* event, size_t* row, size_t* column) except -1
    cdef int add_scores(self, PlainEvent* event) except -1
    cdef int evict_scores(self, PlainEvent* event) except -1
    cdef int add_labels(self, PlainEvent* event) except -1
    cdef int evict_labels(self, PlainEvent* event) except -1
    cdef bint revert(self, PlainEvent* event) except -1
    cdef bint has_room(self, size_t events) noexcept


cdef class TimelineWay:
    # The latest moment, once there is one.
    cdef int64_t _latest
    cdef bint _begun
    cdef public object newest
    cdef public list _counts


cdef class EvaluatorWay:
    cdef public dict _readers
    cdef public bint _plain_open
    cdef NativeLock _held
    cdef dict _truth
    cdef bint _binary
    # Whether True and False are labels, and True the positive one.
    cdef bint _of_bools
    cdef bint _true_is_positive
    cdef double _threshold
    cdef WindowWay _whole
    # The same, where it is all that there is.
    cdef StateWay _alone
    cdef list _dimensions
    cdef list _ways
    cdef object _locate
    cdef TimelineWay _timeline
    cdef bint _timed
    cdef int64_t _width
    cdef int64_t _scale
    # The newest bucket when it was last looked at, and its number as an integer of C.
    cdef object _bucket
    cdef int64_t _number

    cdef int _truth_of(self, label) except -2
    cdef bint _read(self, PlainEvent* event, y_true, y_pred, score, proba) except -1
    cdef bint _count(self, y_true, y_pred, score, proba, event_time, slices) except -1
    cdef bint _count_few(self, y_true, y_pred, score) except -1
    cdef bint _labels(self, column, Py_ssize_t size, int* labels) except -1
    cdef bint _moment(self, event_time, int64_t* moment) except -1
    cdef WindowWay _slice(self, Py_ssize_t n, dict slices)
    cdef object _read_at_once(self, key)
