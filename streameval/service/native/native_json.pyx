# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=True, embedsignature=False
"""Compiled readers of JSON records: lines, and the fields of plain messages as columns."""

cimport cython
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

import numpy as np

__all__ = ["NativeRecords", "lines"]


cdef extern from "flat_json.hpp" namespace "streameval":
    cdef enum JsonKind:
        json_missing
        json_text
        json_whole
        json_float
        json_false
        json_true

    cdef enum JsonField:
        field_id
        field_number
        field_label
        field_time

    cdef cppclass JsonValue:
        JsonKind kind
        uint32_t size
        const char* text
        double number
        int64_t whole

    cdef cppclass FlatJson:
        void field(string name, JsonField kind) except +
        cbool read(const char* text, size_t size, JsonValue* values) nogil


cdef dict _KINDS = {
    "id": field_id,
    "number": field_number,
    "weight": field_number,
    "label": field_label,
    "slice": field_label,
    "time": field_time,
}

cdef enum:
    MOST_FIELDS = 64
    KEPT = 256  # Texts of a field that are kept, so that equal ones are one object.
    LONGEST = 64  # Bytes of a text that is kept.


cdef struct Part:
    const char* text
    size_t size


cdef class _KeptTexts:
    """Labels and the like, of which there are few: one object for equal ones."""

    cdef list _kept

    def __cinit__(self):
        self._kept = [None] * KEPT

    cdef object text(self, const char* data, uint32_t size):
        cdef uint32_t place = size, n
        if size > LONGEST:
            return PyUnicode_DecodeUTF8(data, size, NULL)
        for n in range(size):
            place = place * 31 + <unsigned char>data[n]
        place %= KEPT
        kept = self._kept[place]
        if kept is not None and PyBytes_GET_SIZE(kept[0]) == size and (
            memcmp(PyBytes_AS_STRING(kept[0]), data, size) == 0
        ):
            return kept[1]
        text = PyUnicode_DecodeUTF8(data, size, NULL)
        self._kept[place] = (data[:size], text)
        return text


@cython.final
cdef class NativeRecords:
    """Reads the fields of objects, a batch at a time."""

    cdef FlatJson _json
    cdef list _names
    cdef list _kinds
    cdef list _texts

    def __init__(self, fields):
        self._names = [name for name, _ in fields]
        self._kinds = [kind for _, kind in fields]
        self._texts = [_KeptTexts() for _ in fields]
        for name, kind in fields:
            self._json.field(name.encode(), _KINDS[kind])

    @staticmethod
    def takes(fields):
        """Whether fields, as (name, kind), are of kinds that it reads."""
        return len(fields) <= MOST_FIELDS and all(kind in _KINDS for _, kind in fields)

    def read(self, list messages not None):
        """Columns of the fields, none where no row is plain; and the rows that are not plain.

        An array of numbers or of booleans where each record has one, else a list with None
        for a field that is missing or null. An id is a text.
        """
        cdef Py_ssize_t rows = len(messages), width = len(self._names), row, n
        cdef vector[Part] parts
        cdef vector[JsonValue] values
        cdef vector[uint8_t] plain
        parts.resize(rows)
        plain.resize(rows)
        values.resize(rows * width + 1)
        for row in range(rows):
            message = messages[row]
            if not PyBytes_CheckExact(message):
                raise TypeError(f"expected bytes, got {type(message).__name__}")
            parts[row].text = PyBytes_AS_STRING(message)
            parts[row].size = PyBytes_GET_SIZE(message)
        # The list keeps the bytes, which never change.
        with nogil:
            for row in range(rows):
                plain[row] = self._json.read(
                    parts[row].text, parts[row].size, &values[row * width]
                )
        cdef list others = [row for row in range(rows) if not plain[row]]
        if len(others) == rows:
            return [], others
        for row in others:
            for n in range(width):
                values[row * width + n].kind = json_missing
        return [self._column(n, rows, &values[0]) for n in range(width)], others

    cdef object _column(self, Py_ssize_t n, Py_ssize_t rows, JsonValue* values):
        cdef Py_ssize_t width = len(self._names), row
        cdef JsonField field = _KINDS[self._kinds[n]]
        cdef cbool numbers = rows > 0, booleans = rows > 0
        cdef JsonKind one
        cdef double[::1] floats
        cdef uint8_t[::1] flags
        for row in range(rows):
            one = values[row * width + n].kind
            numbers = numbers and one == json_float
            booleans = booleans and one >= json_false
        if numbers and field == field_number:
            found = np.empty(rows, dtype=np.float64)
            floats = found
            for row in range(rows):
                floats[row] = values[row * width + n].number
            return found
        if booleans:
            found = np.empty(rows, dtype=np.bool_)
            flags = found.view(np.uint8)
            for row in range(rows):
                flags[row] = values[row * width + n].kind == json_true
            return found
        return self._objects(n, rows, values)

    cdef list _objects(self, Py_ssize_t n, Py_ssize_t rows, JsonValue* values):
        cdef _KeptTexts texts = self._texts[n]
        cdef list found = [None] * rows
        cdef JsonValue* value
        cdef Py_ssize_t row, width = len(self._names)
        cdef JsonField field = _KINDS[self._kinds[n]]
        for row in range(rows):
            value = &values[row * width + n]
            if value.kind == json_missing:
                continue
            # The text of an integer is its digits, as no other integer has them.
            if value.kind == json_text or field == field_id:
                found[row] = (
                    texts.text(value.text, value.size)
                    if field == field_label
                    else PyUnicode_DecodeUTF8(value.text, value.size, NULL)
                )
            elif value.kind == json_whole:
                found[row] = value.whole
            elif value.kind == json_float:
                found[row] = value.number
            else:
                found[row] = value.kind == json_true
        return found


def lines(bytes data not None, Py_ssize_t stop, int64_t start):
    """The lines of ``data[:stop]`` without their breaks; an array of their places, from ``start``
    on; and whether one may be blank: it is empty or begins with a blank."""
    cdef const char* text = PyBytes_AS_STRING(data)
    cdef const char* found
    cdef Py_ssize_t at = 0, end, row = 0
    cdef list taken = []
    cdef cbool blank = False
    if not 0 <= stop <= len(data):
        raise ValueError(f"expected a stop up to {len(data)}, got {stop}")
    while at < stop:
        found = <const char*>memchr(text + at, 10, stop - at)
        end = stop if found is NULL else found - text
        blank = blank or end == at or <unsigned char>text[at] <= 32
        taken.append(PyBytes_FromStringAndSize(text + at, end - at))
        at = end + 1
    places = np.empty(len(taken), dtype=np.int64)
    cdef int64_t[::1] begins = places
    for line in taken:
        begins[row] = start
        start += PyBytes_GET_SIZE(line) + 1
        row += 1
    return taken, places, blank
