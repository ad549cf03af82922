# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=True, embedsignature=False
"""The compiled reader of CSV without quotes: columns of numbers, labels and texts."""

cimport cython
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t
from libcpp cimport bool as cbool
from libcpp.string_view cimport string_view
from libcpp.vector cimport vector

import numpy as np

__all__ = ["NativeTable", "cut"]


cdef extern from "csv_cells.hpp" namespace "streameval":
    cdef cppclass CsvCells:
        cbool cut(
            const char* text, size_t size, char delimiter, size_t width, size_t limit
        ) nogil
        size_t rows() nogil
        string_view cell(size_t row, size_t column) nogil

    cdef cppclass TextCodes:
        int32_t code(string_view text) except +
        size_t size()

    cbool parse_number(string_view text, double& value) nogil


cdef str _text(string_view cell):
    return PyUnicode_DecodeUTF8(cell.data(), cell.size(), NULL)


@cython.final
cdef class NativeTable:
    """The cells of whole lines, which :func:`cut` has found."""

    cdef str _whole
    cdef CsvCells _cells

    def __len__(self):
        return self._cells.rows()

    def text(self, Py_ssize_t row, Py_ssize_t column):
        """One cell."""
        return _text(self._cells.cell(row, column))

    def texts(self, Py_ssize_t column):
        """The cells of a column."""
        cdef Py_ssize_t row
        return [
            _text(self._cells.cell(row, column)) for row in range(<Py_ssize_t>self._cells.rows())
        ]

    def numbers(self, Py_ssize_t column):
        """A column of numbers, and the rows whose cells another parser has to read."""
        cdef Py_ssize_t row, rows = self._cells.rows()
        cdef list others = []
        found = np.ones(rows, dtype=np.float64)
        cdef double[::1] values = found
        for row in range(rows):
            if not parse_number(self._cells.cell(row, column), values[row]):
                others.append(row)
        return found, others

    def coded(self, Py_ssize_t column):
        """The distinct texts of a column, and the number of each row's."""
        cdef Py_ssize_t row, rows = self._cells.rows()
        cdef list texts = []
        cdef TextCodes known
        cdef string_view cell
        found = np.empty(rows, dtype=np.int32)
        cdef int32_t[::1] codes = found
        for row in range(rows):
            cell = self._cells.cell(row, column)
            codes[row] = known.code(cell)
            if known.size() > <size_t>len(texts):
                texts.append(_text(cell))
        return texts, found


def cut(str text, Py_ssize_t width, str delimiter, Py_ssize_t limit):
    """The cells of whole lines, ``limit`` bytes each at most; None where ``csv`` has to parse them."""
    cdef NativeTable table = NativeTable.__new__(NativeTable)
    cdef Py_ssize_t size = 0
    cdef const char* data = PyUnicode_AsUTF8AndSize(text, &size)
    cdef char mark = <char>ord(delimiter)
    cdef cbool good
    table._whole = text
    with nogil:
        good = table._cells.cut(data, size, mark, width, limit)
    return table if good else None
