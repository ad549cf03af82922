# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=True, embedsignature=False
"""The tree of the compiled score index, in C++; see docs/native.md for its structure.

:class:`~streameval.states.ranking.compiled_index.NativeScoreIndex` is the class that is used:
it validates what is not plain, changes to an index of fractions, and has the written form.
"""

cimport cython
from cpython.pythread cimport (
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_release_lock,
)
from libc.math cimport INFINITY, NAN, exp, sqrt
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport SIZE_MAX, int64_t, uint8_t, uint64_t

import numpy as np

from streameval.states.native.exact128 cimport integer, long_integer

__all__ = ["FractionKernel", "ScoreIndexKernel", "own_methods"]


cdef extern from *:
    """
    static PyObject* own_descriptor(PyObject* type, PyObject* inherited) {
        PyTypeObject* owner = (PyTypeObject*)type;
        if (Py_TYPE(inherited) == &PyMethodDescr_Type)
            return PyDescr_NewMethod(owner, ((PyMethodDescrObject*)inherited)->d_method);
        if (Py_TYPE(inherited) == &PyGetSetDescr_Type)
            return PyDescr_NewGetSet(owner, ((PyGetSetDescrObject*)inherited)->d_getset);
        Py_INCREF(inherited);
        return inherited;
    }
    """
    object own_descriptor(object type, object inherited)


def own_methods(cls):
    """Give a subclass of the kernel descriptors of its own, which makes a call 6 % faster.

    CPython calls a method directly only for objects of the class that its descriptor was made for.
    """
    for name, inherited in vars(ScoreIndexKernel).items():
        if not (name.startswith("__") or name in vars(cls)):
            setattr(cls, name, own_descriptor(cls, inherited))
    return cls


cdef extern from "bulk.hpp" namespace "streameval" nogil:
    ptrdiff_t split_classes(
        const double* scores, const uint8_t* positive, ptrdiff_t count,
        double* negatives, double* positives
    )
    void add_runs(ScoreTree& tree, const Run& negatives, const Run& positives, int level) except +
    void absorb(ScoreTree& tree, const ScoreTree& other) except +
    void subtract(ScoreTree& tree, const ScoreTree& other, int level) except +
    double coarse(double score, int level)
    int fit(ScoreTree& tree, int level, int least, size_t limit) except +


# Of one class, MAX_TOTAL in Python; and of one event, MAX_WEIGHT.
cdef uint64_t _MOST = (<uint64_t>1 << 62) - 1
cdef double _MOST_WEIGHT = <double>(<uint64_t>1 << 53)
# Whole numbers up to here are exact as doubles.
cdef uint64_t _EXACT = 1 << 53
# The one object that is the default weight: the hot path compares identity.
cdef object _ONE = 1
# An empty run beside a weighted one still has to say that it is weighted.
cdef int64_t _EMPTY_WEIGHT = 0


cdef inline double _shifted(double won, double lost, double logits) noexcept:
    """The share whose logit is so much above that of ``won``."""
    if logits > 0:
        return won / (won + lost * exp(-logits))
    return won * exp(logits) / (won * exp(logits) + lost)


cdef object _two_threads():
    return RuntimeError("two threads changed one index at the same time")


cdef class FractionKernel:
    """Weights that are fractions, at canonical scores; OverflowError where they do not fit 128 bits."""

    level = 0
    exact = False

    @property
    def positives(self):
        return self.tree.positives()

    @property
    def negatives(self):
        return self.tree.negatives()

    @property
    def twice_u(self):
        # Each of the three is rounded: no quotient of them is above 1 for that.
        return min(self.tree.twice_u(), 2 * (self.tree.positives() * self.tree.negatives()))

    @property
    def distinct(self):
        return self.tree.distinct()

    def columns(self):
        """Scores, ascending, with the weights of the positives and of the negatives."""
        cdef size_t size = self.tree.distinct()
        columns = np.empty(size), np.empty(size), np.empty(size)
        cdef double[::1] scores = columns[0], positives = columns[1], negatives = columns[2]
        self.tree.read_groups(&scores[0], &positives[0], &negatives[0])
        for column in columns:
            column.flags.writeable = False
        return columns

    def __sizeof__(self):
        return object.__sizeof__(self) + self.tree.bytes()

    def update(self, bint positive, double score, double weight):
        if not self.tree.insert(positive, score, weight):
            raise OverflowError

    def update_many(self, positive, score, weight):
        """Add canonical columns, in any order."""
        order = np.argsort(score, kind="stable")
        each = np.ones(len(score)) if weight is None else weight[order].astype(np.float64)
        chosen = positive[order]
        self.insert_columns(score[order], np.where(chosen, each, 0.0), np.where(chosen, 0.0, each))

    def insert_columns(
        self, const double[::1] scores, const double[::1] positives, const double[::1] negatives
    ):
        """Add groups, ascending."""
        if not self.tree.insert_many(&scores[0], &positives[0], &negatives[0], scores.shape[0]):
            raise OverflowError

    def copy(self):
        cdef FractionKernel copied = type(self).__new__(type(self))
        copied.tree.copy_from(self.tree)
        return copied

    def _check(self):
        cdef const char* broken = self.tree.broken()
        assert broken is NULL, broken.decode()


cdef Run _run(const double[::1] scores, const int64_t[::1] weights):
    cdef Run run
    run.size = scores.shape[0]
    run.scores = &scores[0] if run.size else NULL
    run.weights = NULL
    if weights is not None:
        run.weights = &weights[0] if run.size else <const int64_t*>&_EMPTY_WEIGHT
    return run


cdef class ScoreIndexKernel:
    """The tree and its lock; a subclass has the methods ``_..._in_full`` for what is not plain."""

    def __cinit__(self):
        self._tree = new ScoreTree()
        self._lock = PyThread_allocate_lock()
        if self._lock is NULL:
            raise MemoryError
        self._plain = True
        self._limit = SIZE_MAX

    def __dealloc__(self):
        del self._tree
        if self._lock is not NULL:
            PyThread_free_lock(self._lock)

    def __init__(self, events=(), *, max_scores=None):
        if max_scores is not None:
            self._limit_in_full(max_scores)
        for positive, score in events:
            self.update(positive, score)

    def keep_at_most(self, size_t scores):
        """Coarsen scores beyond so many distinct ones; the index is new."""
        self._limit = scores

    # One thread at a time -------------------------------------------------
    #
    # The interpreter's lock protects single events. A bulk operation releases
    # it and marks the index busy. Code that touches the tree calls _wait right
    # before: between the two no Python code may run, or threads could change.

    cdef int _wait(self) except -1:
        """Wait until no other thread is in a bulk operation on this index."""
        while self._busy:
            with nogil:
                PyThread_acquire_lock(self._lock, 1)
                PyThread_release_lock(self._lock)
        return 0

    cdef bint _uses_tree(self) except -1:
        """Whether the tree can be read now, after a wait; otherwise the fractions are used."""
        if not self._plain:
            self._wait()
        return self._fractional is None

    cdef void _begin(self) noexcept:
        # Called right after _wait with the interpreter's lock held: no thread is in
        # between. A waiting thread may hold the lock for a moment, never for long.
        self._busy = True
        self._plain = False
        PyThread_acquire_lock(self._lock, 1)

    cdef int _begin_both(self, ScoreIndexKernel other) except -1:
        # Both have to be free at one moment, and no thread holds one while waiting
        # for the other: a.merge(b) beside b.merge(a) cannot lock up.
        while self._busy or other._busy:
            self._wait()
            other._wait()
        if self._fractional is not None or other._fractional is not None:
            raise _two_threads()
        self._begin()
        other._begin()
        return 0

    cdef void _end(self) noexcept:
        self._busy = False
        self._plain = self._fractional is None
        PyThread_release_lock(self._lock)

    # Reading --------------------------------------------------------------

    @property
    def max_scores(self):
        """Most distinct scores; None where all are kept."""
        return None if self._limit == SIZE_MAX else self._limit

    @property
    def level(self):
        """The level of the cells that scores are coarsened to; 0 while all are kept."""
        return self._level if self._uses_tree() else self._fractional.level

    @property
    def positives(self):
        """P, the weight of all positives."""
        return self._tree.positives() if self._uses_tree() else self._fractional.positives

    @property
    def negatives(self):
        """N, the weight of all negatives."""
        return self._tree.negatives() if self._uses_tree() else self._fractional.negatives

    @property
    def exact(self):
        """Whether every weight so far is an integer, and so every answer exact."""
        return self._uses_tree() or self._fractional.exact

    @property
    def distinct(self):
        """Number of distinct scores."""
        return self._tree.distinct() if self._uses_tree() else self._fractional.distinct

    @property
    def twice_u(self):
        """W2: twice the weight of pairs that the positive wins, a tie counting one half."""
        if self._uses_tree():
            return integer(self._tree.twice_u())
        return self._fractional.twice_u

    def delong_sums(self):
        """(Q10, Q01), the sums that DeLong's variance of the AUC is made of; O(n) at the first read."""
        if not self._uses_tree():
            return self._fractional.delong_sums()
        if not self._tree.keeps_delong():
            self._begin()
            try:
                with nogil:
                    self._tree.delong_sums()
            finally:
                self._end()
        cdef const DelongSums* sums = &self._tree.delong_sums()
        return long_integer(sums.q10), long_integer(sums.q01)

    @cython.binding(False)
    def auc_variance(self, unit=1):
        """DeLong's variance of the AUC; nan unless both classes weigh more than a unit."""
        cdef double variance
        if unit is _ONE and self._plain:
            variance = self._tree.auc_variance()
            if variance == variance:
                return variance
        return self._variance_in_full(unit)

    cdef bint delong_ends(self, double factor, uint64_t fewest, double* ends) noexcept:
        """The bits of ``reliable_delong``: AUC, lower and upper end; False where that has to be called."""
        cdef uint64_t positives, negatives, pairs, wins, rarer, other
        cdef double won, lost, least, variance, half
        if not self._plain:
            return False
        positives, negatives = self._tree.positives(), self._tree.negatives()
        rarer, other = min(positives, negatives), max(positives, negatives)
        if rarer == 0 or rarer < fewest or rarer > _EXACT // 2 // other:
            return False
        pairs, wins = 2 * rarer * other, <uint64_t>self._tree.twice_u()
        won, lost = <double>wins / <double>pairs, <double>(pairs - wins) / <double>pairs
        least = min(won, lost)
        if (other > 3 * rarer and <double>rarer * least < 5) or (
            won == lost and self._tree.distinct() == 1
        ):
            return False
        variance = self._tree.auc_variance()
        if not (variance > 0 and least > 0):
            return False
        half = factor * sqrt(variance) / (won * lost)
        ends[0], ends[1], ends[2] = won, _shifted(won, lost, -half), _shifted(won, lost, half)
        return True

    cdef double auc(self) except? -2:
        """W2 / (2·P·N), the same bits as ``streameval.metrics.roc_auc``; nan while a class is missing."""
        cdef uint64_t positives, negatives
        if self._plain:
            positives, negatives = self._tree.positives(), self._tree.negatives()
            if positives == 0 or negatives == 0:
                return NAN
            if positives <= _EXACT // 2 // negatives:
                # At most the divisor, which a double holds: one rounding, as Python's.
                return <double><uint64_t>self._tree.twice_u() / <double>(2 * positives * negatives)
        elif self._fractions is not None:
            return self._fractions.tree.auc()
        total = 2 * (self.positives * self.negatives)
        return self.twice_u / total if total else NAN

    def roc_auc(self):
        """W2 / (2·P·N), the AUC; nan while a class is missing."""
        return self.auc()

    @property
    def auc(self):
        """W2 / (2·P·N), the AUC; None while a class is missing."""
        cdef double share = self.auc()
        return share if share == share else None

    def tree_gap(self):
        """The largest ``|TPR − FPR|``; nan where it is not found in the tree."""
        return self._tree.ks_statistic() if self._uses_tree() else NAN

    def columns(self):
        """Scores, ascending, with the weights of the positives and of the negatives."""
        columns = self._read(-INFINITY, False, SIZE_MAX)
        return self._fractional.groups() if columns is None else columns

    def block(self, double reached, bint down, size_t most):
        """The next columns above a score, or below it; None where there are no more."""
        columns = self._read(reached, down, most)
        if columns is None:
            raise RuntimeError("the score index took a weight that is a fraction while it was read")
        return columns if len(columns[0]) else None

    cdef tuple _read(self, double reached, bint down, size_t most):
        """At most so many columns above a score, or below it; None after a fraction."""
        cdef ScoreTree.Room room
        cdef double[::1] scores
        cdef int64_t[::1] positives, negatives
        room.start, room.end = 0, SIZE_MAX
        self._wait()
        while room.end != min(self._tree.distinct(), most):
            # Again where another thread counted while the arrays were made.
            room.end = min(self._tree.distinct(), most)
            columns = np.empty(room.end), np.empty(room.end, np.int64), np.empty(room.end, np.int64)
            scores, positives, negatives = columns
            self._wait()
        if self._fractional is not None:
            return None
        room.scores, room.positives, room.negatives = &scores[0], &positives[0], &negatives[0]
        self._begin()
        try:
            with nogil:
                self._tree.read_groups(reached, down, room)
        finally:
            self._end()
        if room.start < room.end:
            part = slice(room.end, None) if down else slice(room.start)
            columns = tuple([column[part] for column in columns])
        for column in columns:
            column.flags.writeable = False
        return columns

    def __sizeof__(self):
        """Bytes held, the tree included."""
        shell = object.__sizeof__(self) + (0 if self._uses_tree() else self._fractional.__sizeof__())
        return shell + self._tree.bytes()

    # One event ------------------------------------------------------------
    #
    # Without the wrapper that Cython puts around methods: a tenth of an update.

    @cython.binding(False)
    def update(self, positive, score, weight=1):
        """Count one event; an InputError, and nothing is counted, where a value is invalid."""
        cdef double value, each
        cdef bint side = positive is True
        if type(score) is not float or not (side or positive is False):
            pass
        elif weight is _ONE and self._plain:
            value = <double>score + 0.0  # -0.0 becomes 0.0
            # The difference is nan for a score that is nan or infinite.
            if value - value == 0.0 and self._tree_total(side) < _MOST:
                self._tree.insert(side, coarse(value, self._level), 1)
                if self._tree.distinct() > self._limit:
                    self._level = fit(self._tree[0], self._level, 0, self._limit)
                return
        elif self._fractions is not None and (weight is _ONE or type(weight) is float):
            value, each = <double>score + 0.0, weight
            if (
                value - value == 0.0
                and 0.0 < each <= _MOST_WEIGHT
                and self._fractions.tree.insert(side, value, each)
            ):
                return
        self._update_in_full(positive, score, weight)

    cdef int insert(self, bint positive, double score, uint64_t weight) except -1:
        """Count one event whose values the caller has already made canonical."""
        score += 0.0
        if (
            self._plain
            and score - score == 0.0
            and weight <= _MOST
            and self._tree_total(positive) <= _MOST - weight
        ):
            self._tree.insert(positive, coarse(score, self._level), weight)
            if self._tree.distinct() > self._limit:
                self._level = fit(self._tree[0], self._level, 0, self._limit)
        else:
            self._update_in_full(bool(positive), score, weight)
        return 0

    cdef uint64_t _tree_total(self, bint positive) noexcept:
        return self._tree.positives() if positive else self._tree.negatives()

    def insert_weight(self, bint positive, double score, uint64_t weight):
        """Count canonical values; False, and nothing is changed, after a fraction."""
        if not self._uses_tree():
            return False
        self._tree.insert(positive, coarse(score, self._level), weight)
        self._level = fit(self._tree[0], self._level, 0, self._limit)
        return True

    @cython.binding(False)
    def revert(self, positive, score, weight=1):
        """Take one event back, exactly; an InputError where no such event was counted."""
        cdef double value
        cdef bint side = positive is True
        if type(score) is float and weight is _ONE and (side or positive is False) and self._plain:
            value = <double>score + 0.0
            if value - value == 0.0 and self._tree.remove(side, coarse(value, self._level), 1):
                return
        self._revert_in_full(positive, score, weight)

    def remove_weight(self, bint positive, double score, uint64_t weight):
        """Count canonical values less; None, or the coarse score, which was never counted so."""
        self._wait()
        score = coarse(score, self._level)
        return None if self._tree.remove(positive, score, weight) else score

    cdef bint take(self, bint positive, double score, uint64_t weight) except -1:
        """:meth:`revert` of a whole weight; False where no such event was counted."""
        return self._tree.remove(positive, coarse(score, self._level), weight)

    def check(self, positive, score, weight=1):
        """Raise what ``update`` of a validated event would raise; nothing is counted."""
        if weight is not _ONE or not self._plain or self._tree_total(positive) >= _MOST:
            self._check_in_full(positive, weight)

    # Many events ----------------------------------------------------------

    def update_many(self, positive, score, weight=None):
        """Count many events given as columns: lists, arrays or series of one length."""
        if (
            weight is None
            and self._fractional is None
            and _is_plain_column(score, np.float64)
            and _is_plain_column(positive, np.bool_)
        ):
            runs = _split_plain(score, positive)
            if runs is not None:
                low, high = runs
                self._wait()
                if (
                    <uint64_t>len(low) <= _MOST - self._tree.negatives()
                    and <uint64_t>len(high) <= _MOST - self._tree.positives()
                ):
                    self.add_sorted(_run(low, None), _run(high, None))
                    return
        self._update_many_in_full(positive, score, weight)

    def add_runs(self, low, low_weights, high, high_weights):
        """Count ascending scores of negatives and of positives, which the totals have room for."""
        self.add_sorted(_run(low, low_weights), _run(high, high_weights))

    cdef int add_sorted(self, Run negatives, Run positives) except -1:
        """Count ascending scores, which the totals have room for."""
        if negatives.size + positives.size == 0:
            return 0
        if not self._uses_tree():
            raise _two_threads()
        self._begin()
        try:
            with nogil:
                add_runs(self._tree[0], negatives, positives, self._level)
                self._level = fit(self._tree[0], self._level, 0, self._limit)
        finally:
            self._end()
        return 0

    def merge(self, other, int times=1):
        """Add all that another index has counted, or (−1) remove it; ``other`` stays as it is."""
        cdef ScoreIndexKernel index
        if times < 0:
            self._subtract(other)
            return
        if type(other) is type(self) and other is not self:
            index = other
            if (
                self._plain
                and index._plain
                and self._limit == index._limit
                and self._level == index._level
                and index._tree.positives() <= _MOST - self._tree.positives()
                and index._tree.negatives() <= _MOST - self._tree.negatives()
            ):
                self.merge_tree(index)
                return
        self._merge_in_full(other)

    def merge_tree(self, ScoreIndexKernel other not None):
        """Add what another index has counted; the totals have room, and its level is no lower."""
        self._begin_both(other)
        try:
            with nogil:
                if self._level != other._level:
                    # Of the two the lower one is raised: self, or a copy made by merge().
                    self._level = fit(self._tree[0], self._level, other._level, self._limit)
                    other._level = fit(other._tree[0], other._level, self._level, self._limit)
                absorb(self._tree[0], other._tree[0])
                self._level = fit(self._tree[0], self._level, 0, self._limit)
        finally:
            other._end()
            self._end()

    def _subtract(self, ScoreIndexKernel other not None):
        """Take out all of another index that was merged in; both exact."""
        self._begin_both(other)
        try:
            with nogil:
                subtract(self._tree[0], other._tree[0], self._level)
        finally:
            other._end()
            self._end()

    def hand_over(self, index):
        """Let an index of fractions be used from now on; the tree becomes empty."""
        cdef ScoreTree empty
        self._wait()
        self._tree.swap(empty)
        self._use(index)

    cdef void _use(self, index):
        self._fractional = index
        self._fractions = index if isinstance(index, FractionKernel) else None
        self._plain = False

    # Copies ---------------------------------------------------------------

    def copy(self):
        """An independent index of the same content; O(n), a tenth of a merge."""
        cdef ScoreIndexKernel copied = type(self).__new__(type(self))
        copied._limit = self._limit
        if not self._uses_tree():
            copied._use(self._fractional.copy())
            return copied
        self._begin()
        try:
            with nogil:
                copied._tree.copy_from(self._tree[0])
                copied._level = self._level
        finally:
            self._end()
        return copied

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def fill(
        self, const double[::1] scores, const int64_t[::1] positives,
        const int64_t[::1] negatives, int level,
    ):
        """Take over groups of scores; the index is new and known to this thread only."""
        self._level = level
        with nogil:
            build_from_groups(
                self._tree[0], &scores[0], &positives[0], &negatives[0], scores.shape[0]
            )

    def _check(self):
        """Raise AssertionError when an invariant is broken; O(n), for tests."""
        self._wait()
        assert self._plain == (self._fractional is None), "the fast path is open at the wrong time"
        cdef const char* broken = self._tree.broken()
        assert broken is NULL, broken.decode()
        assert self._tree.distinct() <= self._limit, "more distinct scores than the limit"
        assert self._level == 0 or self._limit != SIZE_MAX, "coarsened without a limit"
        if self._fractional is not None:
            assert self._tree.distinct() == 0, "the tree holds scores beside the fractions"
            self._fractional._check()
        elif self._level:
            for score in self.columns()[0]:
                assert coarse(score, self._level) == score, "a score is no cell's smallest"


cdef bint _is_plain_column(column, dtype):
    """Whether a column is a numpy array that C++ can read where it lies."""
    return (
        type(column) is np.ndarray
        and column.dtype == dtype
        and column.ndim == 1
        and column.flags.c_contiguous
        and column.flags.aligned
    )


cdef object _split_plain(score, positive):
    """Sorted columns of both classes in one pass, or None where a value needs a closer look."""
    cdef const double[::1] scores = score
    cdef const uint8_t[::1] flags = positive.view(np.uint8)
    cdef ptrdiff_t count = scores.shape[0], bad
    if count == 0 or flags.shape[0] != count:
        return None
    cdef ptrdiff_t ones = np.count_nonzero(positive)
    low, high = np.empty(count - ones), np.empty(ones)
    cdef double[::1] negatives = low, positives = high
    with nogil:
        bad = split_classes(&scores[0], &flags[0], count, &negatives[0], &positives[0])
    if bad >= 0:
        return None
    low.sort()
    high.sort()
    return low, high
