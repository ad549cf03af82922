# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=True, embedsignature=False
"""The compiled ring of a window of the last n binary events."""

cimport cython
from libc.stdint cimport uint8_t

import numpy as np

__all__ = ["NativeEventRing"]


cdef inline object _event(uint8_t flags, double score):
    return (
        1 if flags & TRUE else 0,
        1 if flags & PREDICTED else 0,
        score if flags & SCORED else None,
        1,
    )


@cython.final
cdef class NativeEventRing:
    """The last binary events of weight 1, oldest first, 9 bytes each: a ``deque`` of EventFields."""

    def __init__(self, size_t most):
        self._most = most

    def __len__(self):
        return self._ring.size()

    def __getitem__(self, size_t at):
        if at >= self._ring.size():
            raise IndexError(at)
        return _event(self._ring.flags(at), self._ring.score(at))

    def __iter__(self):
        cdef size_t at = 0
        while at < self._ring.size():
            yield _event(self._ring.flags(at), self._ring.score(at))
            at += 1

    def append(self, event):
        """Put an event of weight 1 behind the newest."""
        cdef double score
        cdef uint8_t flags = _flags(event, &score)
        self._ring.reserve(1)
        self._ring.push(flags, score)

    def extend(self, events):
        """:meth:`append` each."""
        for event in events:
            self.append(event)

    def extend_columns(self, y_true, y_pred, score):
        """:meth:`append` events given as columns of bools and of floats (or None)."""
        cdef const uint8_t[::1] true = np.ascontiguousarray(y_true).view(np.uint8)
        cdef const uint8_t[::1] predicted = np.ascontiguousarray(y_pred).view(np.uint8)
        cdef const double[::1] scores
        cdef size_t at, size = true.shape[0]
        cdef bint scored = score is not None
        cdef uint8_t flags
        if scored:
            scores = np.ascontiguousarray(score)
        self._ring.reserve(size)
        for at in range(size):
            flags = (TRUE if true[at] else 0) | (PREDICTED if predicted[at] else 0)
            if scored:
                self._ring.push(flags | SCORED, scores[at] + 0.0)
            else:
                self._ring.push(flags, 0.0)

    def popleft(self):
        """Remove the oldest event and return it."""
        event = self[0]
        self._ring.drop(1)
        return event

    def drop(self, size_t count):
        """Forget so many of the oldest."""
        self._ring.drop(min(count, self._ring.size()))

    def newest(self, event):
        """How far back the newest event equal to this one lies, 1 for the last; 0 for none."""
        cdef double score
        if event[3] != 1:
            return 0
        cdef uint8_t flags = _flags(event, &score)
        return self._ring.newest(flags, score)

    def insert(self, size_t at, event):
        """Put an event of weight 1 before the one at a place."""
        cdef double score
        cdef uint8_t flags = _flags(event, &score)
        self._ring.reserve(1)
        self._ring.insert(min(at, self._ring.size()), flags, score)

    def __delitem__(self, size_t at):
        if at >= self._ring.size():
            raise IndexError(at)
        self._ring.erase(at)

    def __sizeof__(self):
        return object.__sizeof__(self) + self._ring.bytes()


cdef uint8_t _flags(event, double* score) except? 255:
    y_true, y_pred, value, weight = event
    assert weight == 1
    cdef uint8_t flags = (TRUE if y_true else 0) | (PREDICTED if y_pred else 0)
    score[0] = 0.0
    if value is not None:
        score[0] = value
        flags |= SCORED
    return flags
