# What other compiled modules may know of the score index: see native_index.pyx.

cimport cython
from cpython.pythread cimport PyThread_type_lock
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int64_t, uint64_t
from libcpp cimport bool as cbool

from streameval.states.native.exact128 cimport U256, Wide


cdef extern from "bulk.hpp" namespace "streameval" nogil:
    cdef cppclass DelongSums:
        U256 q10
        U256 q01

    cdef cppclass ScoreTree:
        ScoreTree() except +
        void swap(ScoreTree& other)
        uint64_t negatives()
        uint64_t positives()
        Wide twice_u()
        cbool keeps_delong()
        const DelongSums& delong_sums() except +
        double auc_variance()
        double ks_statistic()
        size_t distinct()
        void insert(cbool positive, double key, uint64_t weight) except +
        cbool remove(cbool positive, double key, uint64_t weight)
        size_t bytes()
        cppclass Room:
            double* scores
            int64_t* positives
            int64_t* negatives
            size_t start "from"  # a word of Python's
            size_t end
        void read_groups(double score, cbool down, Room& room)
        void copy_from(const ScoreTree& other) except +
        const char* broken()

    cdef cppclass Run:
        const double* scores
        const int64_t* weights
        ptrdiff_t size

    void build_from_groups(
        ScoreTree& tree, const double* scores, const int64_t* positives,
        const int64_t* negatives, ptrdiff_t count
    ) except +


cdef extern from "fraction_tree.hpp" namespace "streameval" nogil:
    cdef cppclass FractionTree:
        void copy_from(const FractionTree& other) except +
        double negatives()
        double positives()
        double twice_u()
        double auc()
        size_t distinct()
        size_t bytes()
        cbool insert(cbool positive, double key, double weight) except +
        cbool insert_many(
            const double* scores, const double* positives, const double* negatives, size_t count
        ) except +
        void read_groups(double* scores, double* positives, double* negatives)
        const char* broken()


cdef class FractionKernel:
    cdef FractionTree tree


cdef class ScoreIndexKernel:
    cdef ScoreTree* _tree
    cdef PyThread_type_lock _lock
    # True while a bulk operation works on the tree without the interpreter's lock.
    cdef bint _busy
    # What is used once a weight was a fraction, and the tree is empty: a FractionKernel or,
    # where weights do not fit 128 bits or scores are coarsened, the portable index.
    cdef readonly object _fractional
    # The same where it is the first of the two, else None.
    cdef FractionKernel _fractions
    # Whether the fast path may be taken: neither of the two above.
    cdef bint _plain
    # Most distinct scores, and the level of their cells: see coarse_score.hpp.
    cdef size_t _limit
    cdef int _level

    @cython.final
    cdef int _wait(self) except -1
    @cython.final
    cdef bint _uses_tree(self) except -1
    @cython.final
    cdef void _begin(self) noexcept
    @cython.final
    cdef int _begin_both(self, ScoreIndexKernel other) except -1
    @cython.final
    cdef void _end(self) noexcept
    cdef int insert(self, bint positive, double score, uint64_t weight) except -1
    cdef bint take(self, bint positive, double score, uint64_t weight) except -1
    cdef bint delong_ends(self, double factor, uint64_t fewest, double* ends) noexcept
    cdef double auc(self) except? -2
    @cython.final
    cdef uint64_t _tree_total(self, bint positive) noexcept
    cdef int add_sorted(self, Run negatives, Run positives) except -1
    @cython.final
    cdef tuple _read(self, double reached, bint down, size_t most)
    cdef void _use(self, index)
