# What compiled modules may know of the tree of 128-bit weights: see wide_tree.hpp.

from libc.stdint cimport uint64_t
from libcpp cimport bool as cbool

from streameval.states.native.exact128 cimport U256, Wide


cdef extern from "wide_tree.hpp" namespace "streameval" nogil:
    double scaled(Wide value, int exponent)
    double scaled(U256 value, int exponent)
    int length(Wide value)

    cdef cppclass WideTree:
        WideTree() except +
        void swap(WideTree& other)
        void clear() except +
        Wide negatives()
        Wide positives()
        U256 twice_wins()
        double won_share()
        size_t distinct()
        Wide weight_at(cbool positive, double key)
        void insert(cbool positive, double key, Wide weight) except +
        cbool remove(cbool positive, double key, Wide weight)
        void shift_left(int bits)
        void shift_right(int bits)
        void build(
            const double* scores, const uint64_t* positives, const uint64_t* negatives, size_t count
        ) except +
        void read_groups(double* scores, uint64_t* positives, uint64_t* negatives)
        void read_scaled(double* scores, double* positives, double* negatives, int exponent)
        void copy_from(const WideTree& other) except +
        size_t bytes()
        const char* broken()
