# What compiled modules may know of the tree of 128-bit weights: see score_tree.hpp.

from libc.stdint cimport uint64_t
from libcpp cimport bool as cbool

from streameval.states.native.exact128 cimport U256, Wide


cdef extern from "fraction_tree.hpp" namespace "streameval" nogil:
    cdef cppclass WideTree:
        WideTree() except +
        Wide negatives()
        Wide positives()
        U256 twice_u()
        double auc()
        size_t distinct()
        void insert(cbool positive, double key, Wide weight) except +
        cbool remove(cbool positive, double key, Wide weight)
        void shift_right(int bits)
        size_t bytes()
        const char* broken()

    void read_limbs(
        const WideTree& tree, double* scores, uint64_t* positives, uint64_t* negatives
    )
    void read_scaled(
        const WideTree& tree, double* scores, double* positives, double* negatives, int exponent
    )
