# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=True, embedsignature=False, cdivision=True
"""Multi-class events with probabilities, compiled: from the arguments to the sums.

What is not counted here is counted by the Python code of the same states, to the same bits.
"""

cimport cython
from cpython.dict cimport PyDict_Copy, PyDict_Next
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport Py_GT, Py_LT, PyObject, PyObject_RichCompareBool
from cpython.unicode cimport PyUnicode_CheckExact
from libc.math cimport NAN, fabs, signbit
from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from streameval.errors import InputError
from streameval.states.native.exact128 cimport Wide, integer, signed_integer
from streameval.states.native.lookup cimport lookup
from streameval.states.native.native_index cimport ScoreIndexKernel

__all__ = [
    "ClassCounter", "NativeClassTerms", "ScoreFields", "follow", "knows", "mean_share",
    "plain_event", "read_rows",
]  # fmt: skip


cdef object _ONE = 1
# Pairs up to here are below 2^63 when counted twice.
cdef uint64_t _PAIRS_MOST = 1 << 62


cdef PyObject* best_label(dict known, proba, double tolerance) except? NULL:
    """The label of the largest of valid scores; NULL where Python has to validate them."""
    cdef PyObject* key
    cdef PyObject* value
    cdef PyObject* best = NULL
    cdef Py_ssize_t at = 0
    cdef double share, total = 0.0, most = 0.0
    if type(proba) is not dict:
        return NULL
    while PyDict_Next(<dict>proba, &at, &key, &value):
        if not PyFloat_CheckExact(<object>value):
            return NULL
        if not (PyUnicode_CheckExact(<object>key) or PyLong_CheckExact(<object>key)):
            return NULL
        share = PyFloat_AS_DOUBLE(<object>value)
        # nan for a number that is not finite; -0.0 has another canonical form.
        if share - share != 0.0 or (share == 0.0 and signbit(share)):
            return NULL
        if tolerance >= 0.0 and not 0.0 <= share <= 1.0:
            return NULL
        if lookup(known, <object>key) is NULL:
            return NULL
        total += share
        if best is NULL or share > most or (
            share == most and PyObject_RichCompareBool(<object>key, <object>best, Py_LT)
        ):
            most, best = share, key
    if tolerance < 0.0:
        return best if len(<dict>proba) == len(known) else NULL
    # Python's sum is exact: near the limit it decides.
    return best if fabs(total - 1.0) <= 0.9 * tolerance else NULL


def plain_event(dict known, y_true, y_pred, proba, weight, double tolerance):
    """The validated fields of an event with probabilities; None where Python has to validate it."""
    cdef PyObject* best
    cdef PyObject* true = NULL
    if weight is not _ONE:
        return None
    best = best_label(known, proba, tolerance)
    if best is not NULL and y_pred is not None:
        best = lookup(known, y_pred)
    if best is not NULL:
        true = lookup(known, y_true)
    if true is NULL:
        return None
    return <object>true, <object>best, PyDict_Copy(<dict>proba), _ONE


cpdef bint knows(dict codes, true, scores) except -1:
    """Whether the true label and all of a mapping are keys of ``codes``."""
    cdef PyObject* key
    cdef Py_ssize_t at = 0
    if type(scores) is not dict:
        return true in codes and codes.keys() >= scores.keys()
    if lookup(codes, true) is NULL:
        return False
    while PyDict_Next(<dict>scores, &at, &key, NULL):
        if lookup(codes, <object>key) is NULL:
            return False
    return True


def read_rows(
    list events, dict codes, tuple names, double[:, ::1] scores, int64_t[::1] true
):
    """Write events of weight 1 into arrays; False unless all name these labels in this order."""
    cdef Py_ssize_t n, column, at, columns = len(names)
    cdef PyObject* key
    cdef PyObject* value
    cdef PyObject* found
    for n in range(len(events)):
        label, row, weight = <tuple>events[n]
        found = lookup(codes, label)
        if found is NULL or weight is not _ONE or type(row) is not dict or len(row) != columns:
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


cpdef follow(dict rankings, true, dict scores, uint64_t weight=1):
    """Count an event of whole weight in the rankings of columns against the rest."""
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
        found = lookup(rankings, <object>key)
        if found is not NULL:
            index = <object>found
            index.insert(<object>key is true or <object>key == true, score, weight)


def mean_share(dict rankings, dict counts, total):
    """The bits of the metric ``roc_auc_ovr``; nan where that has to be read."""
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
        found = lookup(rankings, <object>key)
        if found is NULL or rivals > _PAIRS_MOST // count:
            return NAN
        index = <object>found
        if not index._plain:
            return NAN
        zeros = count - index._tree.positives()
        below = rivals - index._tree.negatives()
        wins = <uint64_t>index._tree.twice_u() + below * (2 * index._tree.positives() + zeros)
        scaled += share_of(wins, 2 * count * rivals)
        classes += 1
    if classes and mean_of_scaled(scaled, classes, &mean):
        return mean
    return NAN


@cython.final
cdef class NativeClassTerms:
    """Sums of what events of whole weight add to a ``ClassProbabilitySums``, compiled."""

    def __init__(self, edges):
        self._terms.start(len(edges))
        for edge in edges:
            self._terms.edges.push_back(edge)

    cpdef bint count(self, y_true, dict proba, y_pred, int64_t weight=1) except -1:
        """Count a validated event with its predicted label; False where Python has to."""
        cdef PyObject* own
        cdef PyObject* key
        cdef PyObject* value
        cdef Py_ssize_t at = 0
        cdef double share, given = 0.0, missed
        cdef ptrdiff_t rank = 0
        cdef int64_t squares
        cdef Wide total = 0
        cdef double confidence = 0.0
        if self._terms.weight >= MOST_WEIGHT - weight:
            return False
        own = lookup(proba, y_true)
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
        value = lookup(proba, y_pred)
        if value is not NULL:
            confidence = PyFloat_AS_DOUBLE(<object>value)
        self._terms.reserve(rank)
        self._terms.count(
            given, total, rank, confidence, y_true is y_pred or y_true == y_pred, weight
        )
        return True

    def count_rows(
        self, const double[:, ::1] proba, const int64_t[::1] true, const int64_t[::1] predicted,
        const uint8_t[::1] hit, const int64_t[::1] places,
    ):
        """Count a batch, a row of ``proba`` for each event; −1 for a label without a column."""
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
        """Log loss and Brier units, (rank, events) and (bin, events, hits, units) since the last call."""
        cdef size_t at
        if not self._terms.weight:
            return None
        ranks = [(<ptrdiff_t>at - 1, self._terms.ranks[at]) for at in self._terms.ranks_used]
        bins = [
            (
                at, self._terms.bins[at].weight, self._terms.bins[at].hits,
                signed_integer(self._terms.bins[at].units),
            )
            for at in self._terms.bins_used
        ]
        taken = integer(self._terms.log_loss), integer(self._terms.brier), ranks, bins
        self._terms.clear()
        return taken


cdef class ScoreFields:
    """What an event changes in a ``ClassScores``, of which this is the base class."""


@cython.final
cdef class ClassCounter:
    """Counts events with probabilities in the states of one set that are fed by scores."""

    def __init__(self, ScoreFields scores, sums, Py_ssize_t rows_most, int64_t weight_most):
        self._scores = scores
        self._sums = sums
        self._rows_most = rows_most
        self._weight_most = weight_most

    cdef bint ready(self, y_true, y_pred, dict proba, weight, int64_t whole) except -1:
        """Whether :meth:`add` can count a validated event; no other call is made in between."""
        cdef ScoreFields scores = self._scores
        if scores is None:
            return True
        self._at_once = (
            scores._level == 0
            and scores.exact
            and len(scores._events) + 1 < self._rows_most
            and <int64_t>scores._whole <= self._weight_most - whole
            and knows(scores._codes, y_true, proba)
        )
        if not self._at_once:
            try:
                (<object>scores).check(y_true, proba, weight, y_pred)
            except InputError:
                return False
        return True

    cdef int add(self, y_true, y_pred, dict proba, weight, int64_t whole) except -1:
        """Count an event that was found ready."""
        cdef ScoreFields scores = self._scores
        cdef PyObject* known
        if self._sums is not None:
            terms = self._sums._terms
            if terms is None or not (<NativeClassTerms>terms).count(y_true, proba, y_pred, whole):
                self._sums.update(y_true, proba, weight, y_pred)
        if scores is None:
            return 0
        if not self._at_once:
            (<object>scores).update(y_true, proba, weight, y_pred)
            return 0
        if scores._wins.kept:
            scores._wins.follow(y_true, proba, weight, scores.not_probabilities)
        known = lookup(scores.counts, y_true)
        scores.counts[y_true] = weight if known is NULL else <object>known + weight
        scores._whole = scores._whole + weight
        scores._events.append((y_true, proba, weight))
        return 0

    cdef int remove(self, tuple fields) except -1:
        """Count an event less that is known to be inside."""
        for state in (self._scores, self._sums):
            if state is not None:
                state.revert(*fields)
        return 0
