# cython: language_level=3, boundscheck=False, initializedcheck=False
# cython: binding=True, embedsignature=False
"""The compiled table of the entries of a label join, by id."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.float cimport PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject, PyObject_Hash
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_CheckExact
from libc.math cimport isnan
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

import numpy as np

__all__ = ["NativeKeyRun", "NativeKeyTable", "hashes", "in_order", "merged"]


cdef extern from "key_slots.hpp" namespace "streameval":
    cdef union Cell:
        double number
        PyObject* held

    cdef cppclass KeyEntry:
        PyObject* key
        PyObject* value
        int64_t time
        int64_t newest
        int32_t partition
        uint32_t declined
        uint8_t kind
        cbool changed
        uint32_t number
        Cell* cells()

    const uint8_t unpacked

    cdef cppclass KeySlots:
        void set_width(size_t width)
        size_t size()
        size_t bytes()
        void reserve(size_t more) except +
        void prefetch(const Py_hash_t* hashes, size_t count)
        KeyEntry* find(PyObject* key, Py_hash_t hash)
        KeyEntry* take(PyObject* key, Py_hash_t hash) except +
        KeyEntry* at(size_t n)

    cdef cppclass Packer:
        string bytes
        void nil() except +
        void number(double value) except +
        void whole(int64_t value) except +
        void text(const char* data, size_t size) except +
        void array(size_t size) except +

    cdef cppclass SortedHashes:
        void set(const int64_t* hashes, size_t size) except +
        void first(const int64_t* wanted, size_t count, int64_t* found) nogil

    void merge(
        const int64_t* hashes, const int64_t* places, size_t size,
        const int64_t* more_hashes, const int64_t* more_places, size_t more,
        int64_t* all_hashes, int64_t* all_places,
    ) nogil


cdef enum:
    BATCH = 128  # Keys whose slots, entries and texts are prefetched at once.
    # The tags of packed entries, which are those of the module of the rules.
    UNLABELLED = 0
    LABELLED = 2
    COMPLETE = 3


cdef list _texts(object keys):
    """The keys as a list; each has to be a str and no subclass of it."""
    cdef list names = keys if type(keys) is list else list(keys)
    for key in names:
        if not PyUnicode_CheckExact(key):
            raise TypeError(f"expected keys of type str, got {type(key).__name__}")
    return names


cdef uint32_t _batch = 0  # Of the last call of label(), in any table.


cdef inline void _own(PyObject** place, object value):
    """Replace an owned object, or null."""
    cdef PyObject* before = place[0]
    Py_INCREF(value)
    place[0] = <PyObject*>value
    Py_XDECREF(before)


@cython.final
cdef class NativeKeyTable:
    """Entries by key, a batch at a time: PortableKeyTable, several times as fast."""

    cdef KeySlots _slots
    cdef vector[uint8_t] _numbers
    cdef vector[uint32_t] _changed
    cdef Py_hash_t _hashes[BATCH]
    cdef dict _kinds
    cdef object _encode

    def __init__(self, numbers, kinds, encode):
        for number in numbers:
            self._numbers.push_back(number)
        self._slots.set_width(self._numbers.size())
        if set(kinds) != {UNLABELLED, LABELLED, COMPLETE}:
            raise ValueError("expected the types of three kinds of entries")
        self._kinds = kinds
        self._encode = encode

    def __dealloc__(self):
        cdef KeyEntry* entry
        cdef size_t n
        for n in range(self._slots.size()):
            entry = self._slots.at(n)
            self._unpack(entry)
            Py_XDECREF(entry.key)
            Py_XDECREF(entry.value)

    def __len__(self):
        return self._slots.size()

    def __sizeof__(self):
        return object.__sizeof__(self) + self._slots.bytes()

    def __reduce__(self):
        raise TypeError("a table of keys is a part of a running join and is not pickled")

    # Entries as objects

    def reserve(self, count):
        """Reserve memory for so many more keys."""
        self._slots.reserve(count)

    def find(self, keys):
        """The entry of each key, or None."""
        cdef list names = _texts(keys)
        cdef Py_ssize_t total = len(names), start, count, n
        cdef KeyEntry* entry
        cdef list found = [None] * total
        if self._slots.size() == 0:
            return found
        for start in range(0, total, BATCH):
            count = min(BATCH, total - start)
            self._prefetch(names, start, count)
            for n in range(count):
                entry = self._slots.find(<PyObject*>names[start + n], self._hashes[n])
                if entry is not NULL:
                    found[start + n] = self._made(entry)
        return found

    def get(self, key):
        """The entry of one key, or None."""
        return self.find((key,))[0]

    def add(self, keys, entries):
        """Insert the entries of keys without one; returns the entry of each key afterwards."""
        return self._set(keys, entries, False)

    def put(self, keys, entries):
        """Set the entries of keys."""
        self._set(keys, entries, True)

    cdef list _set(self, keys, values, cbool replace):
        """The entry that each key has afterwards."""
        cdef list names = _texts(keys)
        cdef list given = values if type(values) is list else list(values)
        cdef Py_ssize_t total = len(names), start, count, n
        cdef KeyEntry* entry
        cdef list found = [None] * total
        if len(given) != total:
            raise ValueError(f"expected an entry for each of {total} keys, got {len(given)}")
        self._slots.reserve(total)
        for start in range(0, total, BATCH):
            count = min(BATCH, total - start)
            self._prefetch(names, start, count)
            for n in range(count):
                key = names[start + n]
                entry = self._slots.find(<PyObject*>key, self._hashes[n])
                if entry is NULL:
                    entry = self._slots.take(<PyObject*>key, self._hashes[n])
                    entry.kind = unpacked
                elif not replace:
                    found[start + n] = self._made(entry)
                    continue
                self._unpack(entry)
                _own(&entry.value, given[start + n])
                self._change(entry)
                found[start + n] = given[start + n]
        return found

    cdef object _made(self, KeyEntry* entry):
        cdef size_t n
        if entry.kind == unpacked:
            return <object>entry.value
        payload = tuple([self._cell(entry, n) for n in range(self._numbers.size())])
        label = None if entry.value is NULL else <object>entry.value
        return self._kinds[entry.kind](entry.time, entry.partition, payload, label, entry.newest)

    cdef object _cell(self, KeyEntry* entry, size_t n):
        cdef Cell cell = entry.cells()[n]
        if self._numbers[n]:
            return None if isnan(cell.number) else cell.number
        return <object>cell.held

    # Packed entries

    def predict(
        self,
        list keys not None,
        const int64_t[::1] times not None,
        int32_t partition,
        list columns not None,
        list labels,
        NativeKeyTable older not None,
        int64_t border,
        uint8_t[::1] chosen not None,
    ):
        """Insert predictions of unknown ids; returns how many."""
        # An id is known if it is in this table with a newest time from `border` on; its row in
        # `chosen` becomes 0. A column is an array of floats with nan for None, or a list.
        cdef Py_ssize_t total = len(keys), start, count, n, row, inserted = 0
        cdef KeyEntry* entry
        cdef KeyEntry* before
        cdef uint8_t kind = UNLABELLED if labels is None else COMPLETE
        cdef vector[const double*] floats
        cdef size_t k, width = self._numbers.size()
        cdef const double[::1] view
        cdef list names = _texts(keys)
        if (
            len(columns) != <Py_ssize_t>width
            or older._numbers != self._numbers
            or times.shape[0] != total
            or chosen.shape[0] != total
            or labels is not None and len(labels) != total
            or any([len(column) != total for column in columns])
        ):
            raise ValueError("expected columns of one length, for tables of the same")
        floats.resize(width)
        for k in range(width):
            if self._numbers[k]:
                view = columns[k]
                floats[k] = &view[0]
            elif type(columns[k]) is not list:
                raise TypeError("expected a list of values")
        self._slots.reserve(total)
        for start in range(0, total, BATCH):
            count = min(BATCH, total - start)
            self._prefetch(names, start, count)
            older._slots.prefetch(self._hashes, count)
            for n in range(count):
                row = start + n
                if not chosen[row]:
                    continue
                key = names[row]
                before = older._slots.find(<PyObject*>key, self._hashes[n])
                if (
                    self._slots.find(<PyObject*>key, self._hashes[n]) is not NULL
                    or before is not NULL and older._newest(before) >= border
                ):
                    chosen[row] = 0
                    continue
                entry = self._slots.take(<PyObject*>key, self._hashes[n])
                entry.kind = kind
                entry.partition = partition
                entry.time = entry.newest = times[row]
                for k in range(width):
                    if self._numbers[k]:
                        entry.cells()[k].number = floats[k][row]
                    else:
                        _own(&entry.cells()[k].held, (<list>columns[k])[row])
                if labels is not None:
                    _own(&entry.value, labels[row])
                self._change(entry)
                inserted += 1
        return inserted

    def label(
        self,
        list keys not None,
        list labels not None,
        const int64_t[::1] times not None,
        int64_t wait,
        NativeKeyTable older not None,
        int64_t border,
    ):
        """Label packed predictions: a mask of the rows, and of these the columns of the predictions."""
        # Once a row of an id is declined, so are all later ones of it.
        global _batch
        cdef Py_ssize_t total = len(keys), start, count, n, row
        cdef size_t k, width = self._numbers.size()
        cdef KeyEntry* entry
        cdef KeyEntry* before
        cdef vector[KeyEntry*] labelled
        cdef list names = _texts(keys)
        if len(labels) != total or times.shape[0] != total or older._numbers != self._numbers:
            raise ValueError("expected columns of one length, for tables of the same")
        taken = np.zeros(total, dtype=np.bool_)
        cdef uint8_t[::1] mask = taken.view(np.uint8)
        self._slots.reserve(total)
        _batch += 1
        for start in range(0, total, BATCH):
            count = min(BATCH, total - start)
            self._prefetch(names, start, count)
            older._slots.prefetch(self._hashes, count)
            for n in range(count):
                row = start + n
                key = names[row]
                before = entry = self._slots.find(<PyObject*>key, self._hashes[n])
                if before is NULL:
                    before = older._slots.find(<PyObject*>key, self._hashes[n])
                    if before is NULL:
                        continue
                if (
                    before.kind != UNLABELLED
                    or before.newest < border
                    or before.declined == _batch
                    or times[row] - before.time > wait
                    or before.time - times[row] > wait
                ):
                    before.declined = _batch
                    continue
                if entry is NULL:
                    entry = self._slots.take(<PyObject*>before.key, self._hashes[n])
                    entry.time = before.time
                    entry.partition = before.partition
                    for k in range(width):
                        if self._numbers[k]:
                            entry.cells()[k].number = before.cells()[k].number
                        else:
                            _own(&entry.cells()[k].held, <object>before.cells()[k].held)
                entry.kind = LABELLED
                entry.newest = max(before.newest, times[row])
                _own(&entry.value, labels[row])
                self._change(entry)
                mask[row] = 1
                labelled.push_back(entry)
        plain = np.empty((3, labelled.size()), dtype=np.int64)
        cdef int64_t[:, ::1] values = plain
        for n in range(plain.shape[1]):
            values[0, n] = labelled[n].time
            values[1, n] = labelled[n].partition
            values[2, n] = labelled[n].newest
        return taken, *plain, [self._column(labelled, k) for k in range(width)]

    cdef object _column(self, const vector[KeyEntry*]& entries, size_t k):
        """One column of the payload of packed entries."""
        cdef Py_ssize_t n, total = entries.size()
        cdef double[::1] floats
        if not self._numbers[k]:
            return [<object>entries[n].cells()[k].held for n in range(total)]
        column = np.empty(total, dtype=np.float64)
        floats = column
        for n in range(total):
            floats[n] = entries[n].cells()[k].number
        return column

    # What has changed

    def versions(self):
        """The entries that changed since the last call: keys, newest times, bytes and their ends."""
        cdef Py_ssize_t total = self._changed.size(), n
        cdef list keys = [None] * total
        newest, ends = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
        cdef int64_t[::1] moments = newest, until = ends
        cdef Packer packer
        cdef KeyEntry* entry
        for n in range(total):
            entry = self._slots.at(self._changed[n])
            entry.changed = False
            keys[n] = <object>entry.key
            moments[n] = self._newest(entry)
            if entry.kind == unpacked:
                self._append(&packer, (keys[n], <object>entry.value))
            else:
                self._pack(&packer, entry)
            until[n] = packer.bytes.size()
        self._changed.clear()
        return keys, newest, PyBytes_FromStringAndSize(packer.bytes.data(), packer.bytes.size()), ends

    cdef int _pack(self, Packer* packer, KeyEntry* entry) except -1:
        cdef size_t k, width = self._numbers.size()
        packer.array(2)
        self._pack_object(packer, <object>entry.key)
        packer.array(6)
        packer.whole(entry.kind)
        packer.whole(entry.time)
        packer.whole(entry.partition)
        packer.array(width)
        for k in range(width):
            if not self._numbers[k]:
                self._pack_object(packer, <object>entry.cells()[k].held)
            elif isnan(entry.cells()[k].number):
                packer.nil()
            else:
                packer.number(entry.cells()[k].number)
        if entry.value is NULL:
            packer.nil()
        else:
            self._pack_object(packer, <object>entry.value)
        packer.whole(entry.newest)
        return 0

    cdef int _pack_object(self, Packer* packer, object value) except -1:
        cdef Py_ssize_t size = 0
        cdef const char* data
        cdef long long whole
        cdef int beyond = 0
        if PyUnicode_CheckExact(value):
            data = PyUnicode_AsUTF8AndSize(value, &size)
            packer.text(data, size)
            return 0
        if PyLong_CheckExact(value):
            whole = PyLong_AsLongLongAndOverflow(value, &beyond)
            if not beyond:
                packer.whole(whole)
                return 0
        if value is None:
            packer.nil()
        elif PyFloat_CheckExact(value):
            packer.number(value)
        else:
            self._append(packer, value)
        return 0

    cdef int _append(self, Packer* packer, object value) except -1:
        cdef bytes data = self._encode(value)
        packer.bytes.append(PyBytes_AS_STRING(data), len(data))
        return 0

    # Parts of the above

    cdef int _prefetch(self, list names, Py_ssize_t start, Py_ssize_t count) except -1:
        """Hash some keys and prefetch their entries."""
        cdef Py_ssize_t n
        for n in range(count):
            self._hashes[n] = PyObject_Hash(names[start + n])
        self._slots.prefetch(self._hashes, count)
        return 0

    cdef int64_t _newest(self, KeyEntry* entry) except? -1:
        return (<object>entry.value).newest if entry.kind == unpacked else entry.newest

    cdef int _change(self, KeyEntry* entry) except -1:
        if not entry.changed:
            entry.changed = True
            self._changed.push_back(entry.number)
        return 0

    cdef void _unpack(self, KeyEntry* entry):
        """Release the cells of a packed entry, which becomes an object."""
        cdef size_t k
        if entry.kind == unpacked:
            return
        entry.kind = unpacked
        for k in range(self._numbers.size()):
            if not self._numbers[k]:
                Py_XDECREF(entry.cells()[k].held)
                entry.cells()[k].held = NULL


@cython.final
cdef class NativeKeyRun:
    """Finds hashes among others, which are ascending."""

    cdef SortedHashes _sorted
    cdef object _hashes

    def __init__(self, const int64_t[::1] hashes not None):
        self._hashes = hashes
        self._sorted.set(&hashes[0], hashes.shape[0])

    def first(self, const int64_t[::1] wanted not None):
        """The first place of each hash, -1 where there is none."""
        found = np.empty(wanted.shape[0], dtype=np.int64)
        cdef int64_t[::1] places = found
        with nogil:
            self._sorted.first(&wanted[0], wanted.shape[0], &places[0])
        return found


def merged(
    const int64_t[::1] hashes not None,
    const int64_t[::1] places not None,
    const int64_t[::1] more_hashes not None,
    const int64_t[::1] more_places not None,
):
    """Two ascending runs of hashes, and what belongs to each, as one; equal ones in this order."""
    cdef size_t size = hashes.shape[0], more = more_hashes.shape[0]
    if <size_t>places.shape[0] != size or <size_t>more_places.shape[0] != more:
        raise ValueError("expected columns of one length")
    made = np.empty((2, size + more), np.int64)
    cdef int64_t[:, ::1] into = made
    with nogil:
        merge(
            &hashes[0], &places[0], size, &more_hashes[0], &more_places[0], more,
            &into[0, 0], &into[1, 0],
        )
    return made[0], made[1]


def hashes(keys):
    """The hash of each key."""
    cdef list names = _texts(keys)
    cdef Py_ssize_t n
    found = np.empty(len(names), dtype=np.int64)
    cdef int64_t[::1] values = found
    for n in range(len(names)):
        values[n] = PyObject_Hash(names[n])
    return found


def in_order(bytes data not None, const int64_t[::1] ends not None, const int64_t[::1] order not None):
    """Parts of ``data``, which end at ``ends``, in another order; and the ends of these."""
    cdef Py_ssize_t total = ends.shape[0], n
    cdef int64_t start, stop, at = 0, whole = len(data)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, whole)
    cdef char* out = PyBytes_AS_STRING(made)
    cdef const char* given = PyBytes_AS_STRING(data)
    cdef cbool good = order.shape[0] == total
    found = np.empty(total, dtype=np.int64)
    cdef int64_t[::1] until = found
    with nogil:
        for n in range(total if good else 0):
            good = 0 <= order[n] < total
            if not good:
                break
            start, stop = ends[order[n] - 1] if order[n] else 0, ends[order[n]]
            good = 0 <= start <= stop <= whole and stop - start <= whole - at
            if not good:
                break
            memcpy(out + at, given + start, stop - start)
            at += stop - start
            until[n] = at
    if not good or at != whole:
        raise ValueError("expected columns of the parts of the data")
    return made, found
