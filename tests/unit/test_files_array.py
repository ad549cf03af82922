"""JSON arrays: the same records as in lines, whatever they hold, in bounded memory."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.errors import InputError
from streameval.records.chunk import FieldRequest
from streameval.records.json_array import RecordLines
from streameval.records.json_records import read_jsonl
from tests.support.read_chunks import Chunks

VALUES = st.recursive(
    st.sampled_from(["},{", '"', "\\", '\\"', "[", "]}", "a,b", "\n", "é", 1, 0.5, None, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from('a{"'), inner),
    max_leaves=8,
)
SEPARATORS = st.sampled_from([None, (",", ":"), (" ,", ": "), (",\r\n" + " " * 20, ":")])


class Few:
    """Bytes that are read a few at a time, as of a pipe."""

    def __init__(self, data: bytes, most: int) -> None:
        self._file = io.BytesIO(data)
        self._most = most

    def read(self, size: int, /) -> bytes:
        return self._file.read(min(size, self._most))


def lines(data: bytes, most: int = 1 << 20) -> bytes:
    stream = RecordLines(Few(data, most), "a.json")
    return b"".join(iter(lambda: stream.read(1 << 20), b""))


@given(
    records=st.lists(VALUES, max_size=6),
    indent=st.none() | st.integers(0, 20),
    separators=SEPARATORS,
    around=st.sampled_from([(b"", b""), (b" \n", b"\n "), (b"\xef\xbb\xbf", b"")]),
    most=st.sampled_from([1, 2, 3, 7, 40, 1000]),
    data=st.data(),
)
def test_each_record_is_a_line_and_no_prefix_is_an_array(
    records: list[Any], indent: Any, separators: Any, around: Any, most: int, data: Any
) -> None:
    text = json.dumps(records, indent=indent, separators=separators).encode()
    found = lines(around[0] + text + around[1], most)
    assert [json.loads(line) for line in found.split(b"\n") if line.strip()] == records
    assert found.count(b"\n") == max(0, len(records) - 1)
    with pytest.raises(InputError, match="expected a whole JSON array"):
        lines(text[: data.draw(st.integers(1, len(text) - 1))], most)
    with pytest.raises(InputError, match="expected one JSON array, got more behind"):
        lines(text + b" \n" * 9 + text, most)


def test_lines_are_as_they_are() -> None:
    for data in (b"", b" \n", b'{"a": [1,\n2]}\n[1, 2]\n', b"x" * 3000):
        assert lines(data, 7) == data


def test_an_array_takes_the_memory_of_a_block() -> None:
    class Array:
        def __init__(self, records: int) -> None:
            self.left, self.text = records, b"["

        def read(self, size: int, /) -> bytes:
            while self.left and len(self.text) < size:
                self.left -= 1000
                self.text += b'{"y":1,"x":"},{\\""},' * 1000 if self.left else b'{"y":1}]'
            data, self.text = self.text[:size], self.text[size:]
            return data

    def peak(records: int) -> int:
        tracemalloc.start()
        wanted = [FieldRequest("y", "label")]
        found = sum(chunk.events.rows for chunk in read_jsonl(Array(records), "a", wanted))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found == records - 999
        return most

    peak(1000)
    assert peak(200_000) < 1.2 * peak(80_000)


def test_a_record_that_is_too_long_is_skipped() -> None:
    data = b'[{"y":1},{"y":"' + b"},{" * (3 << 20) + b'"},\n{"y":0},7,"},{",{"y":2}]'
    found = Chunks(read_jsonl(io.BytesIO(data), "a.json", [FieldRequest("y", "label")]))
    assert found.lines == [1, 3, 6]
    assert [str(bad).partition("; ")[0] for bad in found.bad] == [
        "a.json:2: record: expected a line of at most 4 MiB, got one of 9,437,192 bytes",
        "a.json:4: record: expected a JSON object, got 7",
        "a.json:5: record: expected a JSON object, got the text '},{'",
    ]
