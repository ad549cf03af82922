# What other compiled modules may know of the ring of events: see event_ring.pyx.

from libc.stdint cimport uint8_t


cdef extern from "event_ring.hpp" namespace "streameval" nogil:
    cdef cppclass EventRing:
        size_t size()
        double score(size_t at)
        uint8_t flags(size_t at)
        size_t bytes()
        void reserve(size_t more) except +
        void push(uint8_t flags, double score)
        void drop(size_t count)
        void insert(size_t at, uint8_t flags, double score)
        void erase(size_t at)
        size_t newest(uint8_t flags, double score)


cdef enum:
    TRUE = 1
    PREDICTED = 2
    SCORED = 4


cdef class NativeEventRing:
    cdef EventRing _ring
    cdef size_t _most
