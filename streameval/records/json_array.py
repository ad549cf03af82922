"""JSON arrays, read as lines: the decoder of lines, its limits and its errors serve both."""

from __future__ import annotations

import re
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError
from streameval.records.blocks import BLOCK_BYTES, BOM, Readable
from streameval.records.chunk import RecordError

IntArray: TypeAlias = npt.NDArray[np.int64]

_HEAD_BYTES = 100
"""First bytes of a file that are kept, to explain what it is."""

_QUOTE, _COMMA, _NEWLINE, _BLANK = b'",\n '

# The brackets, and four other characters, differ in these bits only.
_BRACKET_BITS, _BRACKET = 0x26, 0x7F

_DEPTH = np.zeros(256, np.int8)
_DEPTH[list(b"[{")] = 1
_DEPTH[list(b"]}")] = -1

_LONGEST_GAP = 16
"""Bytes between two records that are looked at without a loop."""

_QUOTE_OR_COMMA = re.compile(rb'[",]')
_ESCAPED = re.compile(rb'\\["\\]')


def is_array(head: bytes) -> bool:
    """Whether JSON that begins so is an array."""
    return head.removeprefix(BOM).lstrip().startswith(b"[")


_OTHER_SHAPES = {
    "columns": re.compile(rb'\{\s*"[^"]*"\s*:\s*\{\s*"0"\s*:'),
    "rows by their index": re.compile(rb'\{\s*"0"\s*:\s*\{'),
    "an object around its records": re.compile(
        rb'\{\s*"(?:data|records|rows|results|items|columns|index|schema)"\s*:\s*[\[{]'
    ),
    "rows without names": re.compile(rb"\[\s*\["),
}


def explained(error: RecordError, head: bytes) -> RecordError:
    """The error of a file's first record; what the file holds instead of records is its remedy."""
    for shape, pattern in _OTHER_SHAPES.items():
        # A record of the task may have an object of probabilities in such a place.
        absent = error.got.startswith("no field") and shape != "columns"
        whole = error.field == "record" or error.got == "an object" or absent
        if whole and pattern.match(head):
            remedy = f"the file holds {shape}: write an array of objects or an object a line, "
            remedy += 'such as df.to_json(path, orient="records", lines=True)'
            return error._replace(remedy=remedy, remedy_code="")
    return error


class RecordLines:
    """JSON with a record in each line: an array in this form, and lines as they are."""

    # An array keeps its bytes: the commas between its records become newlines, and newlines
    # carriage returns, which are blanks in a record and as bad in a text.

    def __init__(self, stream: Readable, source: str) -> None:
        self._stream = stream
        self._source = source
        self.head = b""
        """How the file begins, without blanks; empty before the first read."""
        self._array = False
        self._depth = 0
        self._in_text = 0
        self._escapes = False  # whether the next byte is escaped
        self._record = 1
        self._begun = self._ended = False

    def read(self, size: int, /) -> bytes:
        """About ``size`` bytes; none at the end; raises InputError if an array is not whole."""
        data = self._stream.read(size) if self.head else self._first(size)
        if not self._array:
            return data
        if not data and not self._ended:
            got = f"the end of the file in or behind record {self._record}"
            remedy = "it was cut short, or a bracket or quote is not closed: write it again"
            raise self._refused("a whole JSON array", got, remedy)
        return self._lines(data) if data else b""

    def _first(self, size: int) -> bytes:
        data = b""
        while len(data.lstrip()) < _HEAD_BYTES and len(data) < BLOCK_BYTES:
            more = self._stream.read(size)
            if not more:
                break
            data += more
        self.head = data[:BLOCK_BYTES].removeprefix(BOM).lstrip()[:_HEAD_BYTES]
        self._array = is_array(self.head)
        return data.removeprefix(BOM) if self._array else data

    def _lines(self, data: bytes) -> bytes:
        text = b" " + data[1:] if self._escapes else data
        self._escapes = False
        if b"\\" in text:
            text = _ESCAPED.sub(b"  ", text)
            self._escapes = text.endswith(b"\\")
        marks = np.frombuffer(text, np.uint8)
        places = np.flatnonzero((marks | _BRACKET_BITS) == _BRACKET)
        # Whether a text is open at each bracket, and at the end: the quotes before are odd.
        odd = np.bitwise_xor.reduceat((marks == _QUOTE).view(np.uint8), np.append(0, places))
        in_text = np.bitwise_xor.accumulate(odd) ^ np.uint8(self._in_text)
        places = places[in_text[:-1] == 0]
        depths = np.cumsum(_DEPTH[marks[places]], dtype=np.int64) + self._depth
        lines = bytearray(data.replace(b"\n", b"\r"))
        if not self._begun:
            lines[places[0]] = _BLANK
            self._begun = True
        closed = np.flatnonzero(depths == 0)[:1]
        if self._ended or len(closed):
            end = -1 if self._ended else int(places[closed[0]])
            if data[end + 1 :].strip():
                got = "more behind its closing bracket"
                raise self._refused("one JSON array", got, "write all records into one array")
            self._ended = True
            if end >= 0:
                lines[end] = _BLANK
        self._cut(lines, text, places, depths)
        self._in_text = int(in_text[-1])
        self._depth = int(depths[-1]) if len(depths) else self._depth
        return bytes(lines)

    def _cut(self, lines: bytearray, text: bytes, places: IntArray, depths: IntArray) -> None:
        """Set the newlines between records, whose brackets are at these places."""
        if self._depth == 1:
            self._cut_gap(lines, text, 0, int(places[0]) if len(places) else len(text))
        begins = np.flatnonzero(depths == 1)
        if not len(begins):
            return
        ends = np.append(places, len(text))[begins + 1]
        begins = places[begins] + 1
        marks = np.frombuffer(text + b",", np.uint8)
        usual = marks[begins] == _COMMA
        for n in range(1, _LONGEST_GAP + 1):
            inside = ends - begins > n
            if not inside.any():
                break
            usual &= ~inside | (marks[np.minimum(begins + n, len(text))] <= _BLANK)
            usual &= ~inside | (n < _LONGEST_GAP)
        usual &= ends < len(text)
        np.frombuffer(lines, np.uint8)[begins[usual]] = _NEWLINE
        self._record += int(np.count_nonzero(usual))
        for begin, end in zip(begins[~usual].tolist(), ends[~usual].tolist(), strict=True):
            self._in_text = 0
            self._cut_gap(lines, text, begin, end)

    def _cut_gap(self, lines: bytearray, text: bytes, begin: int, end: int) -> None:
        """The same of a gap that may have values without brackets."""
        for found in _QUOTE_OR_COMMA.finditer(text, begin, end):
            if found.group() == b'"':
                self._in_text ^= 1
            elif not self._in_text:
                lines[found.start()] = _NEWLINE
                self._record += 1

    def _refused(self, expected: str, got: str, remedy: str) -> InputError:
        return InputError(self._source, expected=expected, got=got, remedy=remedy)
