# How compiled code counts an event: see native_fast_path.pyx.

from cpython.object cimport PyObject
from libc.stddef cimport size_t
from libc.stdint cimport int64_t

from streameval.states.native.native_class_events cimport ClassCounter
from streameval.states.native.native_index cimport ScoreIndexKernel
from streameval.states.native.native_confusion cimport NativeConfusionCells
from streameval.states.native.native_labels cimport NativeLabelTally, NativeSizeTally
from streameval.states.native.native_lock cimport NativeLock
from streameval.states.native.native_tallies cimport (
    LabelRun,
    NativeErrorTally,
    NativeLossTally,
)


# A valid event. References are borrowed.
cdef struct Event:
    # Its weight, 0 where that is a fraction; and as it was given.
    int64_t weight
    PyObject* given
    # Whether it has a score, or scores.
    bint scored
    # Numbers: the true one, and the predicted one as the score; and both as objects, as below.
    double truth
    # Binary: true and predicted class, and the score.
    bint positive
    bint predicted
    double score
    # Multi-class: the canonical labels, and a dict from these to scores. Of sets of labels frozen
    # sets of them, and such a dict.
    PyObject* y_true
    PyObject* y_pred
    PyObject* proba
    # In a window of time: the number of the event's bucket, as the timeline has it. It is the
    # newest, or begins with the event where `begins`, and `bucket` is then NULL.
    PyObject* bucket
    int64_t number
    bint begins
    int64_t moment


cdef class WindowFastPath:
    # Whether it counts an event that begins a new bucket.
    cdef readonly bint advances
    cdef bint ready(self, Event* event) except -1
    cdef int add(self, Event* event) except -1


cdef class StateFastPath(WindowFastPath):
    cdef ScoreIndexKernel _index
    cdef NativeLossTally _losses
    cdef NativeErrorTally _errors
    cdef NativeLabelTally _label_tally
    cdef NativeSizeTally _size_tally
    # Whether one of the three counts events.
    cdef bint _tallied
    cdef object _counts
    cdef NativeConfusionCells _cells
    # The cell of the event that was last found ready; whether its labels are in the confusion, or
    # there is none; and whether the methods of all states count it.
    cdef size_t _row
    cdef size_t _column
    cdef bint _found
    cdef bint _by_methods
    cdef bint _binary
    cdef bint _takes_labels
    # Whether there are states beside those above, and such as are fed by labels or by order.
    cdef bint _more
    cdef bint _more_labels
    cdef ClassCounter _classes
    cdef LabelRun _run
    # Queues, and the states that they belong to; then states that have methods only.
    cdef tuple _score_queues
    cdef tuple _queued_scores
    cdef tuple _label_queues
    cdef tuple _queued_labels
    cdef tuple _scored
    cdef tuple _labelled
    cdef tuple _ordered
    cdef tuple _refuse_scores
    cdef tuple _refuse_labels
    # All states fed by scores, by labels and by order; None where an event that is not counted in
    # compiled code is declined.
    cdef tuple _every
    cdef tuple _all_scores
    cdef tuple _all_labels

    cdef NativeConfusionCells _current_cells(self)
    cdef object _true(self, Event* event)
    cdef tuple _score_fields(self, Event* event)
    cdef tuple _label_fields(self, Event* event)
    cdef bint _find(self, Event* event, size_t* row, size_t* column) except -1
    cdef NativeConfusionCells _readable_cells(self)
    cdef bint _accepts(self, Event* event) except -1
    cdef int _push(self, tuple queues, tuple states, Event* event, int sign) except -1
    cdef int add_scores(self, Event* event) except -1
    cdef int evict_scores(self, Event* event) except -1
    cdef int add_labels(self, Event* event) except -1
    cdef int _add_cell(self, Event* event) except -1
    cdef int _add_labels_to_all(self, Event* event) except -1
    cdef bint _tally_ready(self, Event* event) except -1
    cdef int _tally(self, Event* event) except -1
    cdef int evict_labels(self, Event* event) except -1
    cdef int _remove_cell(self, Event* event) except -1
    cdef int _revert_labels(self, Event* event) except -1
    cdef bint takes_order(self) noexcept
    cdef int forget_oldest(self, oldest, following) except -1
    cdef bint revert(self, Event* event) except -1
    cdef bint has_room(self, size_t events) noexcept
    cdef object _micro(self, int rule)
    cdef object _macro(self, int rule)
    cdef object _samples(self, int rule)


cdef class TimelineFields:
    # The latest moment, once there is one.
    cdef int64_t _latest
    cdef bint _begun
    cdef public object newest
    cdef public list _counts


cdef class EvaluatorFastPath:
    cdef public dict _readers
    # Whether events are counted here.
    cdef public bint _fast
    cdef NativeLock _held
    # From a known label to whether it is the positive one, or to the canonical one of several.
    cdef dict _truth
    cdef bint _binary
    cdef bint _numbers
    cdef bint _sets
    # The thresholds of labels, where they are several, and how many labels were declared.
    cdef dict _limits
    cdef Py_ssize_t _closed
    # The sets of the event that was read last.
    cdef object _true_set
    cdef object _predicted_set
    # Whether True and False are labels, and True the positive one.
    cdef bint _of_bools
    cdef bint _true_is_positive
    cdef double _threshold
    cdef double _tolerance  # of best_label()
    cdef WindowFastPath _total
    # The same, where it is all that there is.
    cdef StateFastPath _alone
    cdef frozenset _declared  # the keys of slices
    cdef list _dimensions
    cdef list _slices
    # Of the event that was read last, where there are several classes.
    cdef dict _scores
    # From names of slices and an event's values to the fast path of their window.
    cdef object _locate
    cdef TimelineFields _timeline
    cdef bint _timed
    cdef int64_t _width
    cdef int64_t _scale
    # The newest bucket when it was last looked at, and its number as an integer of C.
    cdef object _bucket
    cdef int64_t _number

    cdef int _truth_of(self, label) except -2
    cdef bint _read(self, Event* event, y_true, y_pred, score, proba, weight) except -1
    cdef bint _read_numbers(self, Event* event, y_true, y_pred) except -1
    cdef bint _read_sets(self, Event* event, y_true, y_pred, score, proba) except -1
    cdef object _known_set(self, labels)
    cdef object _reached(self, dict scores, bint proba)
    cdef bint _read_scores(self, Event* event, y_pred, score, proba) except -1
    cdef bint _count(self, y_true, y_pred, score, proba, weight, event_time, slices) except -1
    cdef bint _count_few(self, y_true, y_pred, score) except -1
    cdef bint _labels(self, column, Py_ssize_t size, int* labels) except -1
    cdef bint _moment(self, event_time, int64_t* moment) except -1
    cdef WindowFastPath _slice(self, Py_ssize_t n, dict slices)
    cdef object _read_at_once(self, key)
