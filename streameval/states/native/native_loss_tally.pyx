# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=False, embedsignature=False
"""The compiled counting of binary log losses: :class:`NativeLossTally` over integers of C++."""

cimport cython
from weakref import ref

from libc.math cimport NAN
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint64_t

from streameval.states.native.exact128 cimport Whole

__all__ = ["NativeLossTally"]


cdef extern from *:
    """
    #include "loss_tally.hpp"
    static inline streameval::Whole signed_whole(streameval::SignedWide value) { return {value}; }
    static inline streameval::SignedWide signed_wide(int64_t high, uint64_t low) {
        return static_cast<streameval::SignedWide>(
            static_cast<streameval::Wide>(static_cast<uint64_t>(high)) << 64 | low);
    }
    """
    Whole signed_whole(SignedWide value)
    SignedWide signed_wide(int64_t high, uint64_t low)


# Sums and weights up to here are held in the integers of C++.
cdef object _MOST_UNITS = 1 << 120
cdef object _MOST_WEIGHT = 1 << 60


cdef inline object _integer(SignedWide value):
    cdef Whole whole = signed_whole(value)
    return (<object>whole.high() << 64) | whole.low()


cdef inline SignedWide _wide(value):
    return signed_wide(value >> 64, value & 0xFFFF_FFFF_FFFF_FFFF)


@cython.final
cdef class NativeLossTally:
    """Counts binary events of weight 1 for a ``ProbabilitySums``.

    The sums call :meth:`take` before they are used in any way. The metrics, with the bits of
    those of ``streameval.metrics``, need no such call.

    Args:
        sums: Those that the events belong to; referred to weakly, since they hold the tally.

    >>> from streameval.states.probability import ProbabilitySums
    >>> sums = ProbabilitySums()
    >>> tally = sums.tally()
    >>> tally.update(True, 0.75)
    True
    >>> tally.brier_score()
    0.0625
    >>> sums.weight, tally.take()
    (1, None)
    """

    def __init__(self, sums):
        self._sums = ref(sums)
        self._tally.edges = sums._edges
        self._tally.bins.resize(sums.bins)
        self._empty = True

    def update(self, bint positive, double score):
        """Count an event; False, and nothing is counted, where the sums are floats or too large."""
        if not self.ready():
            return False
        self.count(positive, score, 1)
        return True

    cdef bint ready(self) except -1:
        """Whether :meth:`count` may be called."""
        if not self._known:
            self._look_up()
        return self._open

    cdef void count(self, bint positive, double score, int by) noexcept:
        """Count an event, or with ``by`` = -1 one that was counted before less."""
        self._tally.count(positive, score, by)
        self._empty = False

    def take(self):
        """What was counted since the last time; the sums may then change, and are read again.

        Returns:
            Log loss, Brier score, weight outside [0, 1], and a list of (bin, events, hits, sum
            of probabilities), in units; None without any event.
        """
        cdef size_t at
        self._known = False
        if self._empty:
            return None
        bins = [
            (
                at, self._tally.bins[at].weight, self._tally.bins[at].hits,
                _integer(self._tally.bins[at].units),
            )
            for at in range(self._tally.bins.size())
            # Also where the events of one bin cancel out but for their probabilities.
            if self._tally.bins[at].weight or self._tally.bins[at].hits
            or signed_whole(self._tally.bins[at].units).sign()
        ]
        taken = (
            _integer(self._tally.log_loss), _integer(self._tally.brier), self._tally.outside, bins
        )
        self._tally.clear()
        self._empty = True
        return taken

    cdef bint _look_up(self) except -1:
        sums = self._sums()
        self._open = False
        if sums is not None and sums.exact:
            weight, outside, log_loss = sums.weight, sums.outside, sums.log_loss_units
            if weight + outside < _MOST_WEIGHT and log_loss < _MOST_UNITS:
                self._weight, self._outside = weight, outside
                self._log_loss, self._brier = _wide(log_loss), _wide(sums.brier_units)
                self._open = True
        # Each read above called take.
        self._known = True
        return self._open

    cdef double _mean(self, SignedWide held, SignedWide more) noexcept:
        cdef SignedWide units = held + more
        cdef int64_t weight = self._weight + self._tally.weight
        if self._outside + self._tally.outside or weight <= 0:
            return NAN
        if signed_whole(units).sign() <= 0:
            return 0.0
        return mean_of_units(<Wide>units, <uint64_t>weight)

    cpdef double log_loss(self) except? -2:
        """The metric; nan where it has to be read there."""
        return self._mean(self._log_loss, self._tally.log_loss) if self.ready() else NAN

    cpdef double brier_score(self) except? -2:
        """The metric; nan where it has to be read there."""
        return self._mean(self._brier, self._tally.brier) if self.ready() else NAN
