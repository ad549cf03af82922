# A key in a dict, as compiled modules look it up.

from cpython.exc cimport PyErr_Clear, PyErr_ExceptionMatches, PyErr_Occurred
from cpython.object cimport PyObject


cdef extern from "Python.h":
    # Not as Cython has it, which would turn an error into an exception at once.
    PyObject* item "PyDict_GetItemWithError"(object table, object key)


cdef inline PyObject* lookup(dict table, object key) except? NULL:
    """The value of a key; NULL also for a key that cannot be hashed, and so is no label."""
    cdef PyObject* found = item(table, key)
    if found is NULL and PyErr_Occurred() is not NULL:
        if PyErr_ExceptionMatches(TypeError) or PyErr_ExceptionMatches(KeyError):
            PyErr_Clear()
    return found
