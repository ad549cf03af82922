# cython: language_level=3
"""The lock as other compiled code takes it, without a call of Python."""

from cpython.pythread cimport PyThread_type_lock


cdef class NativeLock:
    cdef PyThread_type_lock _gate
    cdef unsigned long _owner
    cdef int _depth
    cdef int _waiting
    cdef bint _opened
    cdef bint _passed_over
    cdef object __weakref__

    cdef void enter(self) noexcept
    cdef void leave(self) noexcept
    cdef bint _taken(self) noexcept
    cdef void _wait(self) noexcept
