# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=False, embedsignature=False
"""The fast path of an event, from the arguments of a call to the states of each window.

It takes an event of known labels and of whole weight, with scores that are floats, and a time, as
a number or a datetime of UTC, in the newest bucket or a later one. Any other event is declined
before anything has changed: Python validates it, counts it or refuses it. Both give the same bits.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS,
    PyBUF_FORMAT,
    PyBUF_ND,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.datetime cimport datetime, import_datetime
from cpython.dict cimport PyDict_Copy
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.set cimport PyFrozenSet_New
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.math cimport NAN, fabs, floor, rint, signbit
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t

import datetime as calendar

import numpy as np

from streameval.errors import InputError
from streameval.events.time import EARLIEST, LATEST, TIME_UNITS
from streameval.states.native.lookup cimport lookup
from streameval.states.native.event_ring cimport PREDICTED, SCORED, TRUE, NativeEventRing
from streameval.states.native.native_class_events cimport best_label
from streameval.states.native.native_confusion cimport MOST_TOTAL
from streameval.states.native.native_labels cimport F1, JACCARD, PRECISION, RECALL
from streameval.states.native.native_tallies cimport LabelRun, NativeEventQueue

__all__ = [
    "EvaluatorFastPath",
    "LastFastPath",
    "MergeReader",
    "PanesFastPath",
    "StateFastPath",
    "TimelineFields",
]


cdef extern from "Python.h":
    # Not as Cython has it, which would turn an error into an exception at once.
    long long as_long_long "PyLong_AsLongLongAndOverflow"(object number, int* overflow)
    object allocate "PyType_GenericAlloc"(type kind, Py_ssize_t size)


cdef extern from *:
    """
    /* A call of a method whose unknown keywords are explained: only a call that fails takes longer. */
    static vectorcallfunc streameval_call = NULL;
    static PyObject *streameval_explain = NULL;

    static PyObject *streameval_explained(
        PyObject *function, PyObject *const *args, size_t count, PyObject *names
    ) {
        PyObject *result = streameval_call(function, args, count, names);
        if (result == NULL && names != NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyObject *type, *value, *trace, *found;
            PyErr_Fetch(&type, &value, &trace);
            found = PyObject_CallFunctionObjArgs(streameval_explain, function, names, NULL);
            if (found != NULL) {
                Py_DECREF(found);
                PyErr_Restore(type, value, trace);
            } else {
                Py_XDECREF(type);
                Py_XDECREF(value);
                Py_XDECREF(trace);
            }
        }
        return result;
    }

    static void streameval_explain_keywords(PyObject *function, PyObject *explain) {
        PyCFunctionObject *method = (PyCFunctionObject *)function;
        if (method->vectorcall == NULL || method->vectorcall == streameval_explained) return;
        if (streameval_call != NULL && streameval_call != method->vectorcall) return;
        streameval_call = method->vectorcall;
        Py_INCREF(explain);
        Py_XSETREF(streameval_explain, explain);
        method->vectorcall = streameval_explained;
    }
    """
    void streameval_explain_keywords(object function, object explain)


def explain_keywords(str name, explain):
    """Have ``explain(function, names)`` raise a better error for a call with these keywords."""
    streameval_explain_keywords(EvaluatorFastPath.__dict__[name], explain)


# Compared by identity: the default weight, and labels as binary states count them.
cdef object _ONE = 1
cdef object _ZERO = 0
cdef object _NOUGHT = 0.0
cdef NativeConfusionCells _EMPTY = NativeConfusionCells({})
cdef object _FLOAT64 = np.float64
cdef object _DATETIME = calendar.datetime
cdef object _UTC = calendar.UTC
cdef int64_t _EARLIEST = EARLIEST
cdef int64_t _LATEST = LATEST

cdef enum:
    # So many events at most are counted one by one where they were given as columns.
    FEW = 32
    # The total and the slices of so many dimensions; an event of more is counted in Python.
    MOST_WINDOWS = 8

# MAX_WEIGHT of one event.
cdef int64_t _MOST_WEIGHT = <int64_t>1 << 53


import_datetime()


cdef bint _accepted(tuple states, tuple fields) except -1:
    """Whether no state refuses an event of these fields."""
    try:
        for state in states:
            state.check(*fields)
    except InputError:
        return False
    return True


cdef int _update(tuple states, tuple fields) except -1:
    for state in states:
        state.update(*fields)
    return 0


cdef class WindowFastPath:
    """How a window counts an event that ``ready`` has found countable.

    Between the two calls only the timeline reaches the event.
    """

    cdef bint ready(self, Event* event) except -1:
        return False

    cdef int add(self, Event* event) except -1:
        return 0


# One set of states --------------------------------------------------------


@cython.final
cdef class StateFastPath(WindowFastPath):
    """Counts events in the states of one set, which calls :meth:`bind` when they change.

    The methods named as metrics are those metrics, with the same bits; nan where they have no value
    or have to be read there.
    """

    def bind(
        self, bint binary, ScoreIndexKernel index, NativeLossTally losses, tuple tallies, counts,
        ClassCounter classes, LabelRun labels, tuple queued, tuple fed, tuple every, tuple refusing,
    ):  # fmt: skip
        """Count in these states from now on: see the attributes."""
        self._binary = binary
        self._index = index
        self._losses = losses
        self._errors, self._label_tally, self._size_tally = tallies
        self._tallied = any(tally is not None for tally in tallies)
        self._counts = counts
        self._classes = classes
        self._run = labels
        self._queued_scores, self._queued_labels = queued
        self._score_queues, self._label_queues = [
            tuple([state.queue() for state in states]) for states in queued
        ]
        self._scored, self._labelled, self._ordered = fed
        self._every = every
        self._refuse_scores, self._refuse_labels, self._all_scores, self._all_labels = refusing
        self._more_labels = labels is not None or bool(queued[1] or fed[1] or fed[2])
        self._more = self._more_labels or classes is not None or any(queued) or any(fed)
        self._takes_labels = counts is not None or self._tallied or self._more_labels
        self._cells = None
        self._found = counts is None

    cdef NativeConfusionCells _current_cells(self):
        """The compiled cells of the confusion; None where it has others."""
        if self._counts is None:
            return None
        if self._cells is None or self._cells._replaced:
            cells = self._counts._cells
            self._cells = cells if type(cells) is NativeConfusionCells else None
            if self._cells is not None and self._cells._replaced:
                self._cells = None  # in integers of another size
        return self._cells

    cdef NativeConfusionCells _readable_cells(self):
        """The same, or cells of which each metric is nan."""
        cells = self._current_cells()
        return _EMPTY if cells is None else cells

    cdef object _true(self, Event* event):
        """The true label, as the states count it."""
        if self._binary:
            return _ONE if event.positive else _ZERO
        return <object>event.y_true

    cdef tuple _score_fields(self, Event* event):
        """The event as states are fed with it by scores."""
        if self._binary:
            return (bool(event.positive), event.score, <object>event.given)
        return (<object>event.y_true, <object>event.proba, <object>event.given, <object>event.y_pred)

    cdef tuple _label_fields(self, Event* event):
        """The event as states are fed with it by labels."""
        if self._binary:
            predicted = _ONE if event.predicted else _ZERO
        else:
            predicted = <object>event.y_pred
        return (self._true(event), predicted, <object>event.given)

    cdef bint _find(self, Event* event, size_t* row, size_t* column) except -1:
        cdef NativeConfusionCells cells = self._cells
        cdef Py_ssize_t i, j
        if not self._binary:
            return cells.find(<object>event.y_true, <object>event.y_pred, row, column)
        i, j = cells._places[event.positive], cells._places[event.predicted]
        if i < 0 or j < 0:
            i, j = cells.place(event.positive), cells.place(event.predicted)
            if i < 0 or j < 0:
                return False
        row[0], column[0] = i, j
        return True

    cdef bint ready(self, Event* event) except -1:
        # Index, losses and confusion may take an event of whole weight in compiled code.
        cdef ScoreIndexKernel index = self._index
        cdef bint at_once = event.weight != 0
        if at_once and event.scored:
            if index is not None and not (
                index._plain
                and index._tree_total(event.positive) <= MOST_TOTAL - <uint64_t>event.weight
            ):
                at_once = False
            elif self._losses is not None:
                at_once = self._losses.ready(event.weight)
        if at_once and self._counts is not None:
            if (self._cells is None or self._cells._replaced) and self._current_cells() is None:
                at_once = False
            elif self._cells._cells.total > MOST_TOTAL - <uint64_t>event.weight:
                at_once = False
            else:
                self._found = self._find(event, &self._row, &self._column)
        if at_once and self._tallied:
            at_once = self._tally_ready(event)
        self._by_methods = not at_once
        if (
            self._by_methods or self._more_labels or not self._found
            or (event.scored and self._more)
        ):
            return self._accepts(event)
        return event.scored or self._takes_labels

    cdef bint _accepts(self, Event* event) except -1:
        """Whether the states that are called by their methods take an event."""
        if not (event.scored or self._takes_labels):
            return False
        if self._by_methods:
            return (
                self._every is not None
                and (not event.scored or _accepted(self._all_scores, self._score_fields(event)))
                and _accepted(self._all_labels, self._label_fields(event))
            )
        if not self._found and not _accepted((self._counts,), self._label_fields(event)):
            return False
        if event.scored:
            if self._classes is not None and not self._classes.ready(
                <object>event.y_true, <object>event.y_pred, <object>event.proba,
                <object>event.given, event.weight
            ):
                return False
            if self._refuse_scores and not _accepted(
                self._refuse_scores, self._score_fields(event)
            ):
                return False
        return not self._refuse_labels or _accepted(
            self._refuse_labels, self._label_fields(event)
        )

    cdef int add(self, Event* event) except -1:
        if event.scored:
            self.add_scores(event)
        self.add_labels(event)
        return 0

    cdef int add_scores(self, Event* event) except -1:
        if self._by_methods:
            _update(self._every[0], self._score_fields(event))
            return 0
        if self._index is not None:
            self._index.insert(event.positive, event.score, event.weight)
        if self._losses is not None:
            self._losses.count(event.positive, event.score, event.weight)
        if self._more:
            if self._classes is not None:
                self._classes.add(
                    <object>event.y_true, <object>event.y_pred, <object>event.proba,
                    <object>event.given, event.weight
                )
            if self._score_queues:
                self._push(self._score_queues, self._queued_scores, event, 1)
            if self._scored:
                _update(self._scored, self._score_fields(event))
        return 0

    cdef int evict_scores(self, Event* event) except -1:
        """Count an event less that is known to be inside."""
        if self._index is not None and not self._index.take(
            event.positive, event.score, event.weight
        ):
            raise RuntimeError("the window's oldest event is not in its score index")
        if self._losses is not None:
            self._losses.count(event.positive, event.score, -event.weight)
        if self._more:
            if self._classes is not None:
                self._classes.remove(self._score_fields(event))
            if self._score_queues:
                self._push(self._score_queues, self._queued_scores, event, -1)
            for state in self._scored:
                state.revert(*self._score_fields(event))
        return 0

    cdef int _push(self, tuple queues, tuple states, Event* event, int sign) except -1:
        cdef Py_ssize_t n
        cdef NativeEventQueue queue
        for n in range(len(queues)):
            queue = <NativeEventQueue>queues[n]
            queue.push(event.positive, event.score, sign * event.weight)
            if queue.full():
                states[n].count_queued()
        return 0

    cdef int add_labels(self, Event* event) except -1:
        """Count the labels of the event, which was the last one that was found ready."""
        if self._by_methods or self._more_labels or not self._found:
            return self._add_labels_to_all(event)
        if self._counts is not None:
            self._add_cell(event)
        if self._tallied:
            self._tally(event)
        return 0

    cdef int _add_cell(self, Event* event) except -1:
        if event.weight == 1:  # without products of 128 bits
            self._cells._cells.add(self._row, self._column, 1)
        else:
            self._cells._cells.add(self._row, self._column, event.weight)
        return 0

    cdef int _add_labels_to_all(self, Event* event) except -1:
        if self._by_methods:
            _update(self._every[1], self._label_fields(event))
            _update(self._every[2], (self._true(event),))
            return 0
        if not self._found:
            self._counts.update(*self._label_fields(event))
        elif self._counts is not None:
            self._add_cell(event)
        if self._tallied:
            self._tally(event)
        if self._label_queues:
            self._push(self._label_queues, self._queued_labels, event, 1)
        if self._labelled:
            _update(self._labelled, self._label_fields(event))
        if self._run is not None:
            self._run.follow(self._true(event))
        if self._ordered:
            _update(self._ordered, (self._true(event),))
        return 0

    cdef bint _tally_ready(self, Event* event) except -1:
        if self._errors is not None and not self._errors.ready(
            event.truth, event.score, event.weight
        ):
            return False
        if self._label_tally is not None and not self._label_tally.ready(
            <object>event.y_true, <object>event.y_pred, event.weight
        ):
            return False
        return self._size_tally is None or self._size_tally.ready(
            <object>event.y_true, <object>event.y_pred, event.weight
        )

    cdef int _tally(self, Event* event) except -1:
        if self._errors is not None:
            self._errors.count(event.weight)
        if self._label_tally is not None:
            self._label_tally.count(event.weight)
        if self._size_tally is not None:
            self._size_tally.count(event.weight)
        return 0

    cdef int evict_labels(self, Event* event) except -1:
        """Count the labels of an event less that is known to be inside."""
        cdef size_t row = 0, column = 0
        if self._counts is not None:
            self._find(event, &row, &column)
            if self._cells._cells.cell(row, column) <= <uint64_t>event.weight:
                self._remove_cell(event)
            elif event.weight == 1:
                self._cells._cells.add(row, column, -1)
            else:
                self._cells._cells.add(row, column, -event.weight)
        if self._errors is not None and not self._errors.remove(
            event.truth, event.score, event.weight
        ):
            self._errors._sums().revert(*self._label_fields(event))
        if self._label_tally is not None:
            self._label_tally.remove(<object>event.y_true, <object>event.y_pred, event.weight)
        if self._size_tally is not None:
            self._size_tally.remove(<object>event.y_true, <object>event.y_pred, event.weight)
        if self._more_labels:
            if self._label_queues:
                self._push(self._label_queues, self._queued_labels, event, -1)
            self._revert_labels(event)
        return 0

    cdef int _remove_cell(self, Event* event) except -1:
        """Remove the cell of an event, and perhaps a label."""
        self._counts.revert(*self._label_fields(event))
        return 0

    cdef int _revert_labels(self, Event* event) except -1:
        for state in self._labelled:
            state.revert(*self._label_fields(event))
        return 0

    cdef bint takes_order(self) noexcept:
        """Whether :meth:`forget_oldest` has to be called."""
        return self._more_labels and (self._run is not None or bool(self._ordered))

    cdef int forget_oldest(self, oldest, following) except -1:
        """Have states that depend on the order drop the first event, before the following one."""
        if self._run is not None:
            (<object>self._run).forget_oldest(oldest, following)
        for state in self._ordered:
            state.forget_oldest(oldest, following)
        return 0

    cdef bint revert(self, Event* event) except -1:
        """Count one earlier event less; False, and nothing is changed, where Python has to."""
        if self._more or self._tallied or not self.ready(event) or self._by_methods:
            return False
        if self._counts is not None and (
            not self._found
            or self._cells._cells.cell(self._row, self._column) <= <uint64_t>event.weight
        ):
            return False
        if event.scored:
            if self._losses is not None and self._index is None:
                return False  # the sums cannot tell whether it was counted
            if self._index is not None and not self._index.take(
                event.positive, event.score, event.weight
            ):
                return False
            if self._losses is not None:
                self._losses.count(event.positive, event.score, -event.weight)
        if self._counts is not None:
            self._cells._cells.add(self._row, self._column, -event.weight)
        return True

    cdef bint has_room(self, size_t events) noexcept:
        """Whether no total is near its limit, and so each of some events may be counted."""
        cdef ScoreIndexKernel index = self._index
        if self._by_methods or self._refuse_scores or self._refuse_labels:
            return False
        if index is not None and not (
            index._plain and index._tree.positives() + index._tree.negatives() < MOST_TOTAL - events
        ):
            return False
        return self._cells is None or self._cells._cells.total < MOST_TOTAL - events

    # Metrics

    def roc_auc(self):
        if self._index is None:
            return NAN
        return self._index.auc()

    def roc_auc_interval(self, double factor, uint64_t fewest, level, type kind):
        """DeLong's interval of the AUC, a tuple of type ``kind``; None where Python has to compute it."""
        cdef double ends[3]
        cdef tuple fields
        cdef object made
        cdef Py_ssize_t n
        if self._index is None or not self._index.delong_ends(factor, fewest, ends):
            return None
        events = self._index._tree.positives() + self._index._tree.negatives()
        fields = (ends[0], ends[1], ends[2], level, "delong", events, "")
        # As tuple.__new__ makes it, in a third of the time.
        made = allocate(kind, len(fields))
        for n in range(len(fields)):
            Py_INCREF(fields[n])
            PyTuple_SET_ITEM(made, n, fields[n])
        return made

    def accuracy(self):
        return self._readable_cells().accuracy()

    def precision_macro(self):
        return self._readable_cells().precision_macro()

    def recall_macro(self):
        return self._readable_cells().recall_macro()

    def f1_macro(self):
        return self._readable_cells().f1_macro()

    def matthews_corrcoef(self):
        return self._readable_cells().matthews_corrcoef()

    def cohen_kappa(self):
        return self._readable_cells().cohen_kappa()

    def precision(self):
        return self._readable_cells().precision_of_positive()

    def recall(self):
        return self._readable_cells().recall_of_positive()

    def f1(self):
        return self._readable_cells().f1_of_positive()

    def log_loss(self):
        return NAN if self._losses is None else self._losses.log_loss()

    def brier_score(self):
        return NAN if self._losses is None else self._losses.brier_score()

    def subset_accuracy(self):
        return NAN if self._size_tally is None else self._size_tally.accuracy()

    def precision_micro(self):
        return self._micro(PRECISION)

    def recall_micro(self):
        return self._micro(RECALL)

    def f1_micro(self):
        return self._micro(F1)

    def jaccard_micro(self):
        return self._micro(JACCARD)

    def label_precision_macro(self):
        return self._macro(PRECISION)

    def label_recall_macro(self):
        return self._macro(RECALL)

    def label_f1_macro(self):
        return self._macro(F1)

    def label_jaccard_macro(self):
        return self._macro(JACCARD)

    def precision_samples(self):
        return self._samples(PRECISION)

    def recall_samples(self):
        return self._samples(RECALL)

    def f1_samples(self):
        return self._samples(F1)

    def jaccard_samples(self):
        return self._samples(JACCARD)

    cdef object _micro(self, int rule):
        return NAN if self._label_tally is None else self._label_tally.micro(rule)

    cdef object _macro(self, int rule):
        return NAN if self._label_tally is None else self._label_tally.macro(rule)

    cdef object _samples(self, int rule):
        return NAN if self._size_tally is None else self._size_tally.samples(rule)

    def mean_error(self):
        return NAN if self._errors is None else self._errors.mean_error()

    def mean_absolute_error(self):
        return NAN if self._errors is None else self._errors.mean_absolute_error()

    def mean_squared_error(self):
        return NAN if self._errors is None else self._errors.mean_squared_error()

    def root_mean_squared_error(self):
        return NAN if self._errors is None else self._errors.root_mean_squared_error()

    def r2(self):
        return NAN if self._errors is None else self._errors.r2()


# Windows ------------------------------------------------------------------


@cython.final
cdef class LastFastPath(WindowFastPath):
    """Counts events in a window of the last n: by its compiled ring, or its deque of events."""

    cdef object _window
    cdef size_t _most
    cdef NativeEventRing _ring
    cdef StateFastPath _states
    cdef bint _binary

    def __init__(
        self, window, size_t most, NativeEventRing ring, StateFastPath states not None, bint binary
    ):
        self._window = window
        self._most = most
        self._ring = ring
        self._states = states
        self._binary = binary

    cdef bint ready(self, Event* event) except -1:
        if event.weight != 1 and self._window._ring is self._ring:
            return False  # Python goes on with a deque
        return self._states.ready(event) and not self._states._by_methods

    cdef int add(self, Event* event) except -1:
        cdef NativeEventRing ring = self._ring
        cdef Event old
        cdef uint8_t flags
        cdef bint full, same = False
        if ring is None or self._window._ring is not ring:
            return self._add_to_deque(event)
        full = ring._ring.size() >= self._most
        ring._ring.reserve(1)
        if full:
            flags = ring._ring.flags(0)
            old.positive = flags & TRUE != 0
            old.predicted = flags & PREDICTED != 0
            old.scored = flags & SCORED != 0
            old.score = ring._ring.score(0)
            old.weight, old.given = 1, <PyObject*>_ONE
            same = old.positive == event.positive and old.predicted == event.predicted
        self._count(event, &old if full else NULL, same)
        if full:
            ring._ring.drop(1)
        ring._ring.push(
            (TRUE if event.positive else 0)
            | (PREDICTED if event.predicted else 0)
            | (SCORED if event.scored else 0),
            event.score,
        )
        return 0

    cdef int _add_to_deque(self, Event* event) except -1:
        cdef Event old
        cdef bint same
        cdef tuple added
        cdef StateFastPath states = self._states
        events = self._window._ring
        if self._binary:
            true, predicted, weight = states._label_fields(event)
            added = (true, predicted, event.score if event.scored else None, weight)
        else:
            score = <object>event.proba if event.scored else None
            added = (<object>event.y_true, <object>event.y_pred, score, <object>event.given)
        if <size_t>len(events) < self._most:
            self._count(event, NULL, False)
            events.append(added)
            return 0
        true, predicted, score, weight = events[0]
        old.scored = score is not None
        old.score = 0.0
        if self._binary:
            old.positive, old.predicted = true == 1, predicted == 1
            if old.scored:
                old.score = score
        else:
            old.y_true, old.y_pred, old.proba = <PyObject*>true, <PyObject*>predicted, <PyObject*>score
            if states._errors is not None:
                old.truth, old.score = true, predicted
        old.weight, old.given = weight, <PyObject*>weight
        same = old.weight == event.weight and (true is added[0] or true == added[0]) and (
            predicted is added[1] or predicted == added[1]
        )
        self._count(event, &old, same)
        events.append(added)
        events.popleft()
        if states.takes_order():
            states.forget_oldest(true, events[0][0])
        return 0

    cdef int _count(self, Event* event, Event* old, bint same) except -1:
        """Count an event, and the one less that it replaces; often one of the same labels."""
        cdef StateFastPath states = self._states
        if event.scored:
            states.add_scores(event)
        if old is not NULL and old.scored:
            states.evict_scores(old)
        if same and not states._more_labels:
            return 0
        states.add_labels(event)
        if old is not NULL:
            states.evict_labels(old)
        return 0


cdef class PanesFastPath(WindowFastPath):
    """The base class of a window of panes: counts events of the newest pane."""

    cdef public object buckets
    cdef dict _sets
    cdef public TimelineFields _timeline
    # The merge of the panes inside, or None; the newest pane when the window last followed the
    # timeline, and when the merge was last read.
    cdef public object _merged
    cdef object _at
    cdef public object _read_at
    # The states of the newest pane and of the merge, when they were last looked at.
    cdef object _pane_set
    cdef StateFastPath _pane
    cdef object _merged_set
    cdef StateFastPath _merge
    # Of the event that was last found ready: its pane, if that is new, and whether it counts
    # in the merge.
    cdef object _opened
    cdef bint _inside

    def __cinit__(self):
        self.advances = True

    @property
    def _merged_at(self):
        return self._at

    @_merged_at.setter
    def _merged_at(self, number):
        # What was looked at is freed with the pane.
        self._at, self._pane_set, self._merged_set, self._opened = number, None, None, None

    cdef bint ready(self, Event* event) except -1:
        cdef PyObject* found = NULL
        if self._sets is None:
            self._sets = self.buckets._buckets
        if self._at is not self._timeline.newest:
            self._advance()
        if not event.begins:
            found = lookup(self._sets, <object>event.bucket)
        if found is NULL:
            self._opened = pane = self.buckets.read(event.number)
        else:
            self._opened, pane = None, <object>found
        if pane is not self._pane_set:
            if type(pane) is bytes:
                return False
            self._pane_set, self._pane = pane, _path_of(pane)
        if self._pane is None or not self._pane.ready(event):
            return False
        # A pane that begins joins the merge when the window follows.
        self._inside = self._merged is not None and not event.begins
        return self._merged is None or self._path_of_merge().ready(event)

    cdef StateFastPath _path_of_merge(self):
        if self._merged_set is not self._merged:
            self._merged_set, self._merge = self._merged, _path_of(self._merged)
        return self._merge

    cdef int add(self, Event* event) except -1:
        if self._opened is not None:
            # By this very int, which is then found without a comparison.
            self.buckets.keep(self._timeline.newest, self._opened)
            self._opened = None
        self._pane.add(event)
        if self._inside:
            self._merge.add(event)
        return 0


@cython.final
cdef class MergeReader:
    """A metric of the merge of a window's panes, which is brought up to date."""

    cdef PanesFastPath _window
    cdef str _metric
    # The method, of the states that were last read.
    cdef StateFastPath _read_of
    cdef object _read

    def __init__(self, PanesFastPath window not None, str metric not None):
        self._window = window
        self._metric = metric

    def read(self):
        window = self._window
        newest = window._timeline.newest
        if window._merged is None or window._at is not newest or window._read_at is not newest:
            window.current()
        states = window._path_of_merge()
        if states is not self._read_of:
            self._read_of, self._read = states, getattr(states, self._metric)
        return self._read()


cdef int64_t _microseconds(moment):
    """Of a datetime of UTC, since 1970."""
    cdef datetime given = moment
    # Days from the civil calendar, in years that begin in March.
    cdef int64_t late = given.month > 2
    cdef int64_t year = given.year - (not late)
    cdef int64_t century = year // 100
    cdef int64_t day = (153 * (given.month + (-3 if late else 9)) + 2) // 5 + given.day - 1
    day += 365 * year + year // 4 - century + century // 4 - 719_468
    cdef int64_t seconds = ((day * 24 + given.hour) * 60 + given.minute) * 60 + given.second
    return seconds * 1_000_000 + given.microsecond


cdef StateFastPath _path_of(state_set):
    path = state_set._path
    return state_set.fast_path() if path is None else path


# The evaluator ------------------------------------------------------------


cdef class TimelineFields:
    """The base class of the timeline: the fields that both change with each event."""

    @property
    def latest(self):
        return self._latest if self._begun else None

    @latest.setter
    def latest(self, moment):
        self._begun = moment is not None
        if self._begun:
            self._latest = moment


cdef class EvaluatorFastPath:
    """The base class of an evaluator, with the methods that are called for each event.

    Python calls a method, and ``ev[name]`` above all, without a frame only where it is that of
    a compiled type.
    """

    def _bind(
        self, NativeLock lock, dict truth, str kernel, threshold, double tolerance, WindowFastPath total, dimensions, locate, timeline, time_unit, bint timed, Py_ssize_t closed,
    ):  # fmt: skip
        """Count in these windows from now on: see the attributes. Without a lock or a window, nothing."""
        self._readers = {}
        self._held = lock
        self._truth = truth
        self._binary = kernel == "two classes"
        self._numbers = kernel == "numbers"
        self._sets = kernel == "label sets"
        self._closed = closed
        self._of_bools = self._binary and _ONE in truth and _ZERO in truth
        self._true_is_positive = self._of_bools and truth[_ONE] is True
        self._limits = threshold if type(threshold) is dict else None
        self._threshold = 0.0 if self._limits is not None else threshold
        self._tolerance = tolerance
        self._total = total
        self._dimensions = list(dimensions)
        self._slices = [{} for _ in self._dimensions]
        self._declared = frozenset([name for names in self._dimensions for name in names])
        self._locate = locate
        self._timeline = timeline
        self._timed = timed
        self._bucket = None
        if timeline is not None:
            self._width = timeline.width
        # 0 where a number is no time, −1 for nanoseconds.
        self._scale = 0 if time_unit is None else TIME_UNITS[time_unit] or -1
        alone = timeline is None and not self._dimensions
        self._alone = total if alone and type(total) is StateFastPath else None
        self._fast = (
            lock is not None and total is not None and len(self._dimensions) < MOST_WINDOWS
        )

    # One event

    @cython.binding(True)
    def update(
        self, y_true, y_pred=None, *, score=None, proba=None, weight=1, event_time=None,
        slices=None, unit=None,
    ):  # fmt: skip
        cdef bint done
        if unit is None and self._fast:
            self._held.enter()
            try:
                done = self._count(y_true, y_pred, score, proba, weight, event_time, slices)
            finally:
                self._held.leave()
            if done:
                return self
        return self._update_checked(
            y_true, y_pred, score=score, proba=proba, weight=weight, event_time=event_time,
            slices=slices, unit=unit,
        )

    @cython.binding(True)
    def revert(
        self, y_true, y_pred=None, *, score=None, proba=None, weight=1, event_time=None,
        slices=None, unit=None,
    ):  # fmt: skip
        cdef bint done = False
        cdef Event event
        if unit is None and self._fast and self._alone is not None:
            self._held.enter()
            try:
                if self._read(&event, y_true, y_pred, score, proba, weight):
                    done = self._alone.revert(&event)
            finally:
                self._held.leave()
            if done:
                return
        self._revert_checked(
            y_true, y_pred, score=score, proba=proba, weight=weight, event_time=event_time,
            slices=slices, unit=unit,
        )

    cdef bint _count(self, y_true, y_pred, score, proba, weight, event_time, slices) except -1:
        """Count an event in all its windows; False, and nothing is changed, where Python has to."""
        cdef Event event
        cdef PyObject* windows[MOST_WINDOWS]
        cdef Py_ssize_t n, size = 1
        cdef int64_t moment = 0
        cdef WindowFastPath window
        cdef Py_ssize_t arrival = 0
        if not self._read(&event, y_true, y_pred, score, proba, weight):
            return False
        if not self._binary:
            # The event refers to them.
            scores, true, predicted = self._scores, self._true_set, self._predicted_set
        if self._alone is not None:
            if not self._alone.ready(&event):
                return False
            self._alone.add(&event)
            return True
        cdef TimelineFields timeline = self._timeline
        if timeline is not None:
            if not timeline._begun:
                return False
            if self._timed:
                if not self._moment(event_time, &moment):
                    return False
            else:
                moment = timeline._latest + 1
            if timeline.newest is not self._bucket:
                self._bucket = timeline.newest
                self._number = timeline.newest
            event.number = self._number
            event.bucket = <PyObject*>timeline.newest
            event.moment = moment
            if moment < event.number * self._width:
                return False
            event.begins = moment >= (event.number + 1) * self._width
            if event.begins:
                if not self._total.advances:
                    return False
                event.bucket = NULL
                event.number = moment // self._width
            if moment < timeline._latest:
                arrival = timeline._arrival(moment, timeline._latest)
                if arrival == len(timeline._counts) - 1:
                    return False
        windows[0] = <PyObject*>self._total
        if self._dimensions:
            if type(slices) is not dict:
                return False
            for n in range(len(self._dimensions)):
                window = self._slice(n, slices)
                if window is None:
                    return False
                windows[size] = <PyObject*>window
                size += 1
        for n in range(size):
            if not (<WindowFastPath>windows[n]).ready(&event):
                return False
        if timeline is not None:
            timeline._counts[arrival] += 1
            if event.begins:
                timeline.reach(moment)
            elif moment >= timeline._latest:
                timeline._latest = moment
        for n in range(size):
            (<WindowFastPath>windows[n]).add(&event)
        return True

    cdef int _truth_of(self, label) except -2:
        """1 for the positive label, 0 for the negative one, −1 for any other."""
        cdef PyObject* found
        if self._of_bools:
            if label is True:
                return self._true_is_positive
            if label is False:
                return not self._true_is_positive
        found = lookup(self._truth, label)
        return -1 if found is NULL else <object>found is True

    cdef bint _read(self, Event* event, y_true, y_pred, score, proba, weight) except -1:
        """Write the event of these arguments; False where Python has to validate them."""
        cdef int truth, overflow = 0
        cdef PyObject* found
        cdef double value
        event.weight, event.given = 1, <PyObject*>weight
        if weight is not _ONE:
            if type(weight) is int:
                event.weight = as_long_long(weight, &overflow)
                if overflow or not 0 < event.weight <= _MOST_WEIGHT:
                    return False
            elif PyFloat_CheckExact(weight):
                # Of the floats those that are no integers.
                value = PyFloat_AS_DOUBLE(weight)
                event.weight = 0
                if not 0.0 < value < <double>_MOST_WEIGHT or value == floor(value):
                    return False
            else:
                return False
        event.scored = False
        if self._numbers:
            return score is None and proba is None and self._read_numbers(event, y_true, y_pred)
        if self._sets:
            return self._read_sets(event, y_true, y_pred, score, proba)
        if not self._binary:
            event.y_true = lookup(self._truth, y_true)
            if event.y_true is NULL:
                return False
            if score is not None or proba is not None:
                return self._read_scores(event, y_pred, score, proba)
            if y_pred is None:
                return False
            event.y_pred = lookup(self._truth, y_pred)
            return event.y_pred is not NULL
        event.score = 0.0
        truth = self._truth_of(y_true)
        if truth < 0:
            return False
        event.positive = truth
        if proba is not None:
            if score is not None:
                return False
            score = proba
        if score is not None:
            if not PyFloat_CheckExact(score) and type(score) is not _FLOAT64:
                return False
            value = PyFloat_AS_DOUBLE(score) + 0.0  # -0.0 becomes 0.0
            # The difference is nan for a score that is nan or infinite.
            if value - value != 0.0 or (proba is not None and not 0.0 <= value <= 1.0):
                return False
            event.scored = True
            event.score = value
        elif y_pred is None:
            return False
        if y_pred is None:
            event.predicted = value >= self._threshold
            return True
        truth = self._truth_of(y_pred)
        event.predicted = truth > 0
        return truth >= 0

    cdef bint _read_numbers(self, Event* event, y_true, y_pred) except -1:
        """:meth:`_read` of a number and its prediction."""
        if not (PyFloat_CheckExact(y_true) and PyFloat_CheckExact(y_pred)):
            return False
        event.truth, event.score = PyFloat_AS_DOUBLE(y_true), PyFloat_AS_DOUBLE(y_pred)
        # The error's difference from itself is nan where it, or one of the two, is not finite.
        cdef double error = event.truth - event.score
        if error - error != 0.0:
            return False
        if event.truth == 0.0:
            y_true = _NOUGHT  # and not -0.0
        if event.score == 0.0:
            y_pred = _NOUGHT
        event.y_true, event.y_pred = <PyObject*>y_true, <PyObject*>y_pred
        event.positive = event.predicted = False
        return True

    cdef bint _read_sets(self, Event* event, y_true, y_pred, score, proba) except -1:
        """:meth:`_read` of sets of labels, of which the second may follow from scores."""
        if score is not None and proba is not None:
            return False
        self._true_set, self._predicted_set = self._known_set(y_true), None
        if self._true_set is None:
            return False
        event.positive, event.score = False, 0.0
        given = score if proba is None else proba
        if given is not None:
            if type(given) is not dict:
                return False
            self._predicted_set = self._reached(<dict>given, proba is not None)
            if self._predicted_set is None:
                return False
            self._scores = PyDict_Copy(<dict>given)
            event.scored, event.proba = True, <PyObject*>self._scores
        if y_pred is not None:
            self._predicted_set = self._known_set(y_pred)
        if self._predicted_set is None:
            return False
        event.y_true, event.y_pred = <PyObject*>self._true_set, <PyObject*>self._predicted_set
        return True

    cdef object _known_set(self, labels):
        """A frozen set of canonical labels; None where Python has to make it."""
        cdef PyObject* found
        if type(labels) is not set and type(labels) is not frozenset:
            return None
        for label in labels:
            found = lookup(self._truth, label)
            # True equals 1, and would be found.
            if found is NULL or type(<object>found) is not type(label):
                return None
        return PyFrozenSet_New(labels)

    cdef object _reached(self, dict scores, bint proba):
        """The frozen set of the labels whose scores reach their threshold; None as above."""
        cdef PyObject* found
        cdef double number, limit = self._threshold
        if self._closed and len(scores) != self._closed:
            return None
        reached = []
        for label, score in scores.items():
            found = lookup(self._truth, label)
            if found is NULL or type(<object>found) is not type(label):
                return None
            if not PyFloat_CheckExact(score):
                return None
            number = PyFloat_AS_DOUBLE(score)
            # The difference is nan for a score that is nan or infinite; -0.0 is to become 0.0.
            if number - number != 0.0 or (number == 0.0 and signbit(number)):
                return None
            if proba and not 0.0 <= number <= 1.0:
                return None
            if self._limits is not None:
                found = lookup(self._limits, label)
                limit = 0.5 if found is NULL else <object>found
            if number >= limit:
                reached.append(label)
        return PyFrozenSet_New(reached)

    cdef bint _read_scores(self, Event* event, y_pred, score, proba) except -1:
        """:meth:`_read` of the scores of several classes, and of the predicted label."""
        cdef PyObject* found
        if self._tolerance >= 0.0:
            score, proba = proba, score
        if proba is not None:
            return False
        found = best_label(self._truth, score, self._tolerance)
        if found is NULL:
            return False
        if y_pred is not None:
            found = lookup(self._truth, y_pred)
            if found is NULL:
                return False
        # The caller may change its own.
        self._scores = PyDict_Copy(<dict>score)
        event.scored = True
        event.proba, event.y_pred = <PyObject*>self._scores, found
        event.positive, event.score = False, 0.0
        return True

    cdef bint _moment(self, event_time, int64_t* moment) except -1:
        """The microseconds of a number, or of a datetime of UTC; False for any other time, and
        outside the years 1 to 9999."""
        cdef int overflow = 0
        cdef long long whole
        cdef double number
        if type(event_time) is _DATETIME:
            if event_time.tzinfo is not _UTC:
                return False
            moment[0] = _microseconds(event_time)
            return True
        if self._scale == 0:
            return False
        if PyFloat_CheckExact(event_time) or type(event_time) is _FLOAT64:
            number = PyFloat_AS_DOUBLE(event_time)
            number = floor(number / 1000) if self._scale < 0 else rint(number * self._scale)
            if not fabs(number) < 9e17:
                return False
            moment[0] = <int64_t>number
        elif type(event_time) is int:
            whole = as_long_long(event_time, &overflow)
            if overflow:
                return False
            if self._scale < 0:
                moment[0] = whole // 1000
            elif -(_LATEST // self._scale) <= whole <= _LATEST // self._scale:
                moment[0] = whole * self._scale
            else:
                return False
        else:
            return False
        return _EARLIEST <= moment[0] <= _LATEST

    cdef WindowFastPath _slice(self, Py_ssize_t n, dict slices):
        """The window of the event's slice in a dimension; None where Python has to find it."""
        cdef tuple names = self._dimensions[n]
        cdef PyObject* found
        cdef list values = None
        cdef dict known = self._slices[n]
        key = None
        if len(names) > 1:
            values = []
        for name in names:
            found = lookup(slices, name)
            if found is NULL and not self._declared.issuperset(slices):
                return None  # a key may be misspelt
            key = None if found is NULL else <object>found
            # True and 1.0 equal 1, and would find it.
            if key is not None and type(key) is not str and type(key) is not int:
                return None
            if values is not None:
                values.append(key)
        if values is not None:
            key = tuple(values)
        found = lookup(known, key)
        if found is not NULL:
            return <WindowFastPath>found
        try:
            window = self._locate(names, (key,) if values is None else key)
        except InputError:
            return None
        if window is not None:
            known[key] = window
        return window

    # A few events

    @cython.binding(True)
    def update_many(
        self, y_true, y_pred=None, *, score=None, proba=None, weight=None, event_time=None,
        slices=None, unit=None,
    ):  # fmt: skip
        cdef bint done
        if (
            proba is None
            and weight is None
            and unit is None
            and self._fast
            and self._alone is not None
            and self._binary
        ):
            self._held.enter()
            try:
                done = self._count_few(y_true, y_pred, score)
            finally:
                self._held.leave()
            if done:
                return self
        return self._update_many_checked(
            y_true, y_pred, score=score, proba=proba, weight=weight, event_time=event_time,
            slices=slices, unit=unit,
        )

    cdef bint _count_few(self, y_true, y_pred, score) except -1:
        cdef Event events[FEW]
        cdef int labels[FEW]
        cdef double scores[FEW]
        cdef Py_ssize_t n, size
        if type(y_true) is list:
            size = len(<list>y_true)
        elif type(y_true) is np.ndarray and y_true.ndim == 1:
            size = len(y_true)
        else:
            return False
        if size == 0 or size > FEW or not self._labels(y_true, size, labels):
            return False
        for n in range(size):
            events[n].positive = labels[n]
            events[n].weight, events[n].given = 1, <PyObject*>_ONE
            events[n].scored = score is not None
            events[n].score = 0.0
        if score is not None:
            if not _scores(score, size, scores):
                return False
            for n in range(size):
                events[n].score = scores[n]
                events[n].predicted = scores[n] >= self._threshold
        elif y_pred is None:
            return False
        if y_pred is not None:
            if not self._labels(y_pred, size, labels):
                return False
            for n in range(size):
                events[n].predicted = labels[n]
        # All of them before the first is counted.
        for n in range(size):
            if not self._alone.ready(&events[n]):
                return False
        if not self._alone.has_room(size):
            return False
        for n in range(size):
            self._alone.ready(&events[n])
            self._alone.add(&events[n])
        return True

    cdef bint _labels(self, column, Py_ssize_t size, int* labels) except -1:
        """Truths of a list of known labels or an array of bools; False where it is neither."""
        cdef Py_buffer view
        cdef Py_ssize_t n
        if type(column) is list:
            if len(<list>column) != size:
                return False
            for n in range(size):
                labels[n] = self._truth_of((<list>column)[n])
                if labels[n] < 0:
                    return False
            return True
        if type(column) is not np.ndarray or not self._of_bools:
            return False
        if not _column(column, size, b"?", &view):
            return False
        for n in range(size):
            labels[n] = ((<uint8_t*>view.buf)[n] != 0) == self._true_is_positive
        PyBuffer_Release(&view)
        return True

    # Reading

    def __getitem__(self, name):
        cdef double number
        value = self._read_at_once(name)
        if PyFloat_CheckExact(value):
            number = PyFloat_AS_DOUBLE(value)
            if number == number:
                return value
        return self._value_checked(name)

    @cython.binding(True)
    def interval(self, name, *, level=0.95, method="auto", **params):
        # Of other types numbers can be equal that are refused as a level.
        if not params and PyFloat_CheckExact(level):
            found = self._read_at_once((name, level, method))
            if found is not None:
                return found
        return self._interval_checked(name, level=level, method=method, **params)

    cdef object _read_at_once(self, key):
        """What the reader of this key returns; None where there is no such reader."""
        cdef PyObject* found
        if self._held is None:
            return None
        found = lookup(self._readers, key)
        if found is NULL:
            return None
        read = <object>found
        self._held.enter()
        try:
            return read()
        finally:
            self._held.leave()


cdef bint _column(column, Py_ssize_t size, bytes format, Py_buffer* view) except -1:
    """The memory of a column of one dimension and this type; False for any other."""
    try:
        PyObject_GetBuffer(column, view, PyBUF_ND | PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)
    except (BufferError, ValueError):
        return False
    if view.ndim == 1 and view.shape[0] == size and <bytes>view.format == format:
        return True
    PyBuffer_Release(view)
    return False


cdef bint _scores(column, Py_ssize_t size, double* scores) except -1:
    """Finite scores of a list of floats or an array of them; False where it is neither."""
    cdef Py_buffer view
    cdef Py_ssize_t n
    cdef double value
    if type(column) is list:
        if len(<list>column) != size:
            return False
        for n in range(size):
            score = (<list>column)[n]
            if not PyFloat_CheckExact(score):
                return False
            scores[n] = PyFloat_AS_DOUBLE(score)
    elif type(column) is np.ndarray and _column(column, size, b"d", &view):
        for n in range(size):
            scores[n] = (<double*>view.buf)[n]
        PyBuffer_Release(&view)
    else:
        return False
    for n in range(size):
        scores[n] += 0.0
        if scores[n] - scores[n] != 0.0:
            return False
    return True
