# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=True, embedsignature=False, cdivision=True
"""Multi-class events with probabilities, compiled: from the arguments to the sums.

What is not plain is declined, and takes the Python code: its twin, with the same bits.
"""

cimport cython
from cpython.dict cimport PyDict_Copy, PyDict_Next
from cpython.exc cimport PyErr_Clear, PyErr_ExceptionMatches, PyErr_Occurred
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport Py_GT, Py_LT, PyObject, PyObject_RichCompareBool
from cpython.unicode cimport PyUnicode_CheckExact
from libc.math cimport NAN, fabs, signbit
from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from streameval.states.native.native_index cimport ScoreIndexKernel

__all__ = [
    "ClassStates", "NativeClassTerms", "follow", "knows", "mean_share", "plain_event", "read_rows"
]  # fmt: skip


cdef extern from "class_terms.hpp" namespace "streameval" nogil:
    ctypedef uint64_t Wide
    ctypedef int64_t SignedWide

    cdef cppclass Whole:
        int64_t high()
        uint64_t low()

    Whole whole(Wide value)

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
        int64_t events
        void start(size_t count) except +
        void reserve(ptrdiff_t rank) except +
        void count(double given, Wide squares, ptrdiff_t rank, double confidence, cbool hit)
        void count_row(
            const double* row, ptrdiff_t columns, const int64_t* places,
            ptrdiff_t truth, ptrdiff_t predicted, cbool hit
        )
        void clear()

    int64_t in_units(double value)
    Wide share_of(uint64_t wins, uint64_t pairs)


cdef extern from "Python.h":
    # Not as Cython has it, which would turn an error into an exception at once.
    PyObject* PyDict_GetItemWithError(object table, object key)


cdef object _ONE = 1
# Pairs up to here are below 2^63 when counted twice.
cdef uint64_t _PAIRS_MOST = 1 << 62
# Sums of this many events of 2^67 units fit 128 bits.
cdef int64_t _EVENTS_MOST = 1 << 40


cdef int _forget_miss() except -1:
    """After a lookup that found nothing: what has no hash is declined as well."""
    if PyErr_Occurred() is NULL:
        return 0
    if PyErr_ExceptionMatches(TypeError):
        PyErr_Clear()
        return 0
    return -1


cdef inline object _integer(Whole value):
    if value.high() == 0:
        return value.low()
    return (<object>value.high() << 64) | value.low()


def plain_event(dict known, y_true, y_pred, proba, weight, double tolerance):
    """The validated fields of an event with probabilities, or None where it is not plain.

    Plain are known labels, a dict of floats from 0 to 1 whose rounded sum is well inside the
    tolerance, and the weight 1 itself.

    Args:
        known: From each label, as it may be given, to the canonical one.
        y_true: The true label.
        y_pred: The predicted label; None: the most probable.
        proba: Label -> probability.
        weight: Of the event.
        tolerance: How far the sum may be from 1.

    >>> plain_event({"a": "a", "b": "b"}, "b", None, {"a": 0.5, "b": 0.5}, 1, 0.001)
    ('b', 'a', {'a': 0.5, 'b': 0.5}, 1)
    """
    cdef PyObject* found
    cdef PyObject* key
    cdef PyObject* value
    cdef PyObject* best = NULL
    cdef Py_ssize_t at = 0
    cdef double share, total = 0.0, most = -1.0
    if weight is not _ONE or type(proba) is not dict:
        return None
    found = PyDict_GetItemWithError(known, y_true)
    if found is NULL:
        _forget_miss()
        return None
    true = <object>found
    while PyDict_Next(<dict>proba, &at, &key, &value):
        if not PyFloat_CheckExact(<object>value):
            return None
        if not (PyUnicode_CheckExact(<object>key) or PyLong_CheckExact(<object>key)):
            return None
        share = PyFloat_AS_DOUBLE(<object>value)
        # False for nan; -0.0 has another canonical form.
        if not 0.0 <= share <= 1.0 or (share == 0.0 and signbit(share)):
            return None
        if PyDict_GetItemWithError(known, <object>key) is NULL:
            _forget_miss()
            return None
        total += share
        if share > most or (
            share == most and PyObject_RichCompareBool(<object>key, <object>best, Py_LT)
        ):
            most, best = share, key
    # Python's sum is exact: near the limit it decides.
    if best is NULL or not fabs(total - 1.0) <= 0.9 * tolerance:
        return None
    predicted = <object>best
    if y_pred is not None:
        found = PyDict_GetItemWithError(known, y_pred)
        if found is NULL:
            _forget_miss()
            return None
        predicted = <object>found
    return true, predicted, PyDict_Copy(<dict>proba), _ONE


cpdef bint knows(dict codes, true, scores) except -1:
    """Whether the true label and all of a mapping are keys of ``codes``.

    >>> knows({"a": 0, "b": 1}, "b", {"a": 0.5}), knows({"a": 0}, "a", {"b": 1.0})
    (True, False)
    """
    cdef PyObject* key
    cdef Py_ssize_t at = 0
    if type(scores) is not dict:
        return true in codes and codes.keys() >= scores.keys()
    if PyDict_GetItemWithError(codes, true) is NULL:
        _forget_miss()
        return False
    while PyDict_Next(<dict>scores, &at, &key, NULL):
        if PyDict_GetItemWithError(codes, <object>key) is NULL:
            _forget_miss()
            return False
    return True


def read_rows(
    list events, dict codes, tuple names, double[:, ::1] scores, int64_t[::1] true
):
    """Write events of weight 1 that name the same labels in one order into arrays.

    Args:
        events: Tuples of true label, mapping label -> score, and weight.
        codes: From each true label to its code.
        names: The labels, in the order of the columns.
        scores: A row for each event, to be written.
        true: The code of each event's true label, to be written.

    Returns:
        False where some event is another.
    """
    cdef Py_ssize_t n, column, at, columns = len(names)
    cdef PyObject* key
    cdef PyObject* value
    cdef PyObject* found
    for n in range(len(events)):
        label, row, weight = <tuple>events[n]
        found = PyDict_GetItemWithError(codes, label)
        if found is NULL or weight is not _ONE or type(row) is not dict or len(row) != columns:
            _forget_miss()
            return False
        true[n] = <object>found
        column = at = 0
        while PyDict_Next(<dict>row, &at, &key, &value):
            name = names[column]
            if <object>key is not name and <object>key != name:
                return False
            scores[n, column] = <object>value
            column += 1
    return True


def follow(dict rankings, true, dict scores):
    """Count an event of weight 1 in the rankings of columns against the rest.

    Scores of 0 are left out, and so are labels without a ranking.

    Args:
        rankings: From labels to score indices.
        true: The true label.
        scores: Label -> score, a float from 0 to 1.

    >>> index = ScoreIndex()
    >>> follow({"a": index}, "a", {"a": 0.75, "b": 0.25})
    >>> index.positives, index.negatives
    (1, 0)
    """
    cdef PyObject* key
    cdef PyObject* value
    cdef PyObject* found
    cdef Py_ssize_t at = 0
    cdef double score
    cdef ScoreIndexKernel index
    while PyDict_Next(scores, &at, &key, &value):
        score = <object>value
        if score == 0.0:
            continue
        found = PyDict_GetItemWithError(rankings, <object>key)
        if found is not NULL:
            index = <object>found
            index.insert(<object>key is true or <object>key == true, score)


def mean_share(dict rankings, dict counts, total):
    """The mean over the classes of the share of pairs that one wins over all others.

    As the metric ``roc_auc_ovr``, whose bits it has; nan where that has to be read.

    Args:
        rankings: From labels to score indices, which lack scores of 0.
        counts: The weight of each class, an int.
        total: Of all.

    >>> mean_share({}, {"a": 1}, 1)
    nan
    """
    cdef PyObject* key
    cdef PyObject* value
    cdef PyObject* found
    cdef Py_ssize_t at = 0
    cdef uint64_t count, rivals, wins, below, zeros, all_events
    cdef int64_t classes = 0
    cdef Wide scaled = 0
    cdef double mean
    cdef ScoreIndexKernel index
    if total >= _PAIRS_MOST:
        return NAN
    all_events = total
    while PyDict_Next(counts, &at, &key, &value):
        count = <object>value
        rivals = all_events - count
        if rivals == 0:
            continue
        found = PyDict_GetItemWithError(rankings, <object>key)
        if found is NULL or rivals > _PAIRS_MOST // count:
            _forget_miss()
            return NAN
        index = <object>found
        if not index._plain:
            return NAN
        zeros = count - index._tree.positives()
        below = rivals - index._tree.negatives()
        wins = <uint64_t>index._tree.twice_wins() + below * (2 * index._tree.positives() + zeros)
        scaled += share_of(wins, 2 * count * rivals)
        classes += 1
    if classes and mean_of_scaled(scaled, classes, &mean):
        return mean
    return NAN


@cython.final
cdef class NativeClassTerms:
    """Sums of what events of weight 1 add to a ``ClassProbabilitySums``, compiled.

    Args:
        edges: The inner edges of the reliability bins, ascending.

    Cost:
        0.1 µs an event and 10 ns a class; a batch 2 ns a cell.

    >>> terms = NativeClassTerms([0.5])
    >>> terms.count("b", {"a": 0.75, "b": 0.25}, "a")
    True
    >>> terms.take()[2:]
    ([(1, 1)], [(1, 1, 0, 864691128455135232)])
    """

    cdef ClassTerms _terms

    def __init__(self, edges):
        self._terms.start(len(edges))
        for edge in edges:
            self._terms.edges.push_back(edge)

    cpdef bint count(self, y_true, dict proba, y_pred) except -1:
        """Count a validated event with its predicted label; False, and nothing, where not plain.
        """
        cdef PyObject* own
        cdef PyObject* key
        cdef PyObject* value
        cdef Py_ssize_t at = 0
        cdef double share, given = 0.0, missed
        cdef ptrdiff_t rank = 0
        cdef int64_t squares
        cdef Wide total = 0
        cdef double confidence = 0.0
        if self._terms.events >= _EVENTS_MOST:
            return False
        own = PyDict_GetItemWithError(proba, y_true)
        if own is NULL:
            rank = -1
        else:
            if not PyFloat_CheckExact(<object>own):
                return False
            given = PyFloat_AS_DOUBLE(<object>own)
        missed = 1.0 - given
        total = <Wide>in_units(missed * missed)
        while PyDict_Next(proba, &at, &key, &value):
            if not PyFloat_CheckExact(<object>value):
                return False
            share = PyFloat_AS_DOUBLE(<object>value)
            total += <Wide>in_units(share * share)
            if share >= given and own is not NULL:
                if share > given or PyObject_RichCompareBool(<object>key, y_true, Py_GT):
                    rank += 1
        # The true class's own cell was among them.
        total -= <Wide>in_units(given * given)
        value = PyDict_GetItemWithError(proba, y_pred)
        if value is not NULL:
            confidence = PyFloat_AS_DOUBLE(<object>value)
        self._terms.reserve(rank)
        self._terms.count(given, total, rank, confidence, y_true == y_pred)
        return True

    def count_rows(
        self, const double[:, ::1] proba, const int64_t[::1] true, const int64_t[::1] predicted,
        const uint8_t[::1] hit, const int64_t[::1] places,
    ):
        """Count a batch.

        Args:
            proba: A row for each event.
            true: Column of each event's true class, −1 where it has none.
            predicted: Column of its predicted label, −1 where it has none.
            hit: Whether the predicted label is the true one.
            places: The place of each column's label among all, ascending.
        """
        cdef ptrdiff_t at, columns = proba.shape[1]
        if columns == 0:
            return
        self._terms.reserve(columns)
        with nogil:
            for at in range(proba.shape[0]):
                self._terms.count_row(
                    &proba[at, 0], columns, &places[0], true[at], predicted[at], hit[at] != 0
                )

    def take(self):
        """What was counted since the last time, in units: log loss, Brier, ranks, bins.

        Returns:
            Two sums, a list of (rank, events), and one of (bin, events, hits, sum of
            probabilities), without those that are empty; None without any event.
        """
        cdef size_t at
        if not self._terms.events:
            return None
        ranks = [(<ptrdiff_t>at - 1, self._terms.ranks[at]) for at in self._terms.ranks_used]
        bins = [
            (
                at, self._terms.bins[at].weight, self._terms.bins[at].hits,
                _integer(whole(<Wide>self._terms.bins[at].units)),
            )
            for at in self._terms.bins_used
        ]
        taken = (
            _integer(whole(self._terms.log_loss)), _integer(whole(self._terms.brier)), ranks, bins
        )
        self._terms.clear()
        return taken


@cython.final
cdef class ClassStates:
    """Counts plain events with probabilities in the states of one set, in one call.

    Plain are events of weight 1 with known labels. Any other is declined before anything has
    changed, and so is the last event that ``scores`` keeps as a row before it makes arrays of
    them.

    Args:
        scores: The ClassScores.
        sums: The ClassProbabilitySums, or None.
        confusion: The ConfusionCounts.
        rows_most: How many rows ``scores`` keeps at most.
        weight_most: What may be the weight of all events.

    Cost:
        0.5 µs an event and 0.1 µs a class, where the states one by one take 2 µs.
    """

    cdef object _scores
    cdef object _sums
    cdef object _confusion
    cdef Py_ssize_t _rows_most
    cdef object _weight_most

    def __init__(self, scores, sums, confusion, rows_most, weight_most):
        self._scores = scores
        self._sums = sums
        self._confusion = confusion
        self._rows_most = rows_most
        self._weight_most = weight_most

    def count(self, y_true, y_pred, proba):
        """Count a validated event with its predicted label; False, and nothing, where not plain."""
        cdef dict counts
        columns, index = self._scores, self._confusion._index
        rows = columns._events
        if (
            type(proba) is not dict
            or self._scores._limit is not None
            or not columns.exact
            or columns._whole >= self._weight_most
            or len(<list>rows) + 1 >= self._rows_most
            or not knows(columns._codes, y_true, proba)
            or y_true not in <dict>index
            or y_pred not in <dict>index
        ):
            return False
        if self._sums is not None:
            terms = self._sums._terms
            if terms is None or not (<NativeClassTerms>terms).count(y_true, proba, y_pred):
                return False
        wins = self._scores._wins
        if wins.kept:
            wins.follow(y_true, proba, _ONE, columns.signed)
        counts = columns.counts
        counts[y_true] = counts.get(y_true, 0) + _ONE
        columns._whole += _ONE
        (<list>rows).append((y_true, proba, _ONE))
        self._confusion.update(y_true, y_pred)
        return True
