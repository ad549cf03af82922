# cython: language_level=3
# cython: binding=False, embedsignature=False
"""The compiled lock of an evaluator: a few integers while only one thread calls.

The interpreter's own lock lets one thread at a time run this code, so what is not
contended needs no operation of the system. A thread that has to wait does so at a gate:
a lock of the system that is closed, and that who leaves opens once.
"""

cimport cython
from cpython.pythread cimport (
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_get_thread_ident,
    PyThread_release_lock,
)


cdef extern from "<thread>" namespace "std::this_thread" nogil:
    void pause "std::this_thread::yield"()


__all__ = ["NativeLock"]


@cython.final
cdef class NativeLock:
    """A lock with the contract of :class:`threading.RLock`, fair to a thread that was woken."""

    def __cinit__(self):
        self.renew()

    def renew(self):
        """Forget all other threads, in a process that was forked and does not have them."""
        # The old gate is left as it is: a thread of the parent may have been inside of it.
        self._gate = PyThread_allocate_lock()
        if self._gate is NULL:
            raise MemoryError
        PyThread_acquire_lock(self._gate, 1)
        if self._owner != <unsigned long>PyThread_get_thread_ident():
            self._depth = 0
        self._waiting = 0
        self._opened = self._passed_over = False

    def __dealloc__(self):
        if self._gate is not NULL:
            PyThread_release_lock(self._gate)
            PyThread_free_lock(self._gate)

    def __enter__(self):
        self.enter()
        return self

    def __exit__(self, kind, error, traceback):
        self.leave()

    cdef bint _taken(self) noexcept:
        # By another thread, or kept for one that has been woken.
        if self._depth:
            return self._owner != <unsigned long>PyThread_get_thread_ident()
        return self._passed_over

    cdef void enter(self) noexcept:
        if self._taken():
            self._wait()
        self._owner = <unsigned long>PyThread_get_thread_ident()
        self._depth += 1

    cdef void leave(self) noexcept:
        self._depth -= 1
        if not self._depth and self._waiting and not self._opened:
            self._opened = True
            PyThread_release_lock(self._gate)

    cdef void _wait(self) noexcept:
        # The next thread to hold it has been woken.
        while self._passed_over and not self._depth:
            with nogil:
                pause()
        if not self._depth:
            return
        self._waiting += 1
        while True:
            with nogil:
                PyThread_acquire_lock(self._gate, 1)
            self._opened = False
            if not self._depth:
                break
            self._passed_over = True
        self._waiting -= 1
        self._passed_over = False
