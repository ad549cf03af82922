# What other compiled modules may know of what is counted for states: see native_tallies.pyx.

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from streameval.states.native.exact128 cimport SignedWide, U256, Wide


cdef extern from "loss_tally.hpp" namespace "streameval" nogil:
    cdef cppclass Bin:
        int64_t weight
        int64_t hits
        SignedWide units

    cdef cppclass LossTally:
        int64_t weight
        int64_t outside
        int64_t moved
        SignedWide log_loss
        SignedWide brier
        vector[double] edges
        vector[Bin] bins
        void count(cbool positive, double score, int64_t by)
        void clear()

    int64_t MOST_MOVED "streameval::LossTally::most_moved"

    double mean_of_units(Wide over, uint64_t under)


cdef class NativeLossTally:
    cdef LossTally _tally
    # The sums that it is handed over to, and what they hold, where that was looked up since.
    cdef object _sums
    cdef bint _known
    cdef bint _open
    cdef bint _empty
    cdef int64_t _weight
    cdef int64_t _outside
    cdef SignedWide _log_loss
    cdef SignedWide _brier

    cdef bint ready(self, int64_t weight) except -1
    cdef bint _look_up(self) except -1
    cdef void count(self, bint positive, double score, int64_t weight) noexcept
    cdef double _mean(self, SignedWide held, SignedWide more) noexcept
    cpdef double log_loss(self) except? -2
    cpdef double brier_score(self) except? -2


cdef extern from "error_tally.hpp" namespace "streameval" nogil:
    cbool number_units(double value, SignedWide* units)
    U256 negative(const U256& value)
    cbool is_negative(const U256& value)
    int NUMBER_UNIT

    cdef cppclass ErrorTally:
        int64_t weight
        int64_t moved
        U256 truths
        U256 given
        U256 truth_squares
        U256 products
        U256 given_squares
        U256 under
        void count(SignedWide truth, SignedWide prediction, int64_t by)
        void count_many(
            const double* truth, const double* prediction, const int64_t* by, size_t size,
            vector[size_t]* rest
        ) except +
        void subtract(const ErrorTally& less)
        double mean_error()
        double mean_absolute_error()
        double mean_squared_error()
        double root_mean_squared_error()
        double r2()

    int64_t MOST_ERRORS "streameval::ErrorTally::most_moved"


cdef class NativeErrorTally:
    # All that was counted, and the part of it that the sums have.
    cdef ErrorTally _tally
    cdef ErrorTally _held
    cdef object _sums
    cdef bint _known
    cdef bint _open
    # The event that was last found ready.
    cdef SignedWide _truth
    cdef SignedWide _prediction

    cdef bint ready(self, double truth, double prediction, int64_t weight) except -1
    cdef bint _look_up(self) except -1
    cdef void count(self, int64_t weight) noexcept
    cdef bint remove(self, double truth, double prediction, int64_t weight) noexcept
    cdef bint _read(self) except -1
    cpdef double mean_error(self) except? -2
    cpdef double mean_absolute_error(self) except? -2
    cpdef double mean_squared_error(self) except? -2
    cpdef double root_mean_squared_error(self) except? -2
    cpdef double r2(self) except? -2


cdef struct QueuedEvent:
    double score
    int64_t weight
    bint positive


cdef class NativeEventQueue:
    cdef vector[QueuedEvent] _events

    cdef int push(self, bint positive, double score, int64_t weight) except -1
    cdef bint full(self) noexcept


cdef class LabelRun:
    cdef public object last
    cdef public object events
    cdef public object pairs
    cdef public object repeats

    cdef int follow(self, label) except -1
