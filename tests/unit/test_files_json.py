"""JSON files: blocks of whole lines, records in lines and in arrays, and the errors of the rest."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streameval.errors import InputError
from streameval.records.blocks import Block, line_blocks
from streameval.records.chunk import FieldRequest
from streameval.records.json_array import RecordLines
from streameval.records.json_records import read_jsonl
from tests.support.read_chunks import LABEL, SCORE, Chunks

MARK = b"\xef\xbb\xbf"


def read(data: bytes | str, *wanted: FieldRequest) -> Chunks:
    raw = data.encode() if isinstance(data, str) else data
    return Chunks(read_jsonl(io.BytesIO(raw), "a.jsonl", wanted or (LABEL, SCORE)))


class Few(io.BytesIO):
    """Bytes that are read a few at a time, as of a pipe."""

    def __init__(self, data: bytes, most: int) -> None:
        super().__init__(data)
        self._most = most

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, self._most))


class Pieces:
    """Bytes that are made while they are read."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)

    def read(self, size: int, /) -> bytes:
        return next(self._pieces, b"")


# Lines --------------------------------------------------------------------------


def oracle(data: bytes, limit: int) -> list[tuple[int, bytes | int]]:
    """Number and text of every line, or its length where it is beyond the limit."""
    lines = data.split(b"\n")
    return [
        (number, len(line) if len(line) > limit else line)
        for number, line in enumerate(lines[: -1 if lines[-1] == b"" else None], 1)
    ]


@given(
    data=st.lists(st.sampled_from([b"a", b"\n", b"bcd", b"\n\n", b"x" * 9])).map(b"".join),
    block_bytes=st.integers(1, 12),
    most=st.integers(1, 12),
    limit=st.integers(1, 12),
)
@example(data=b"abcd\n", block_bytes=3, most=3, limit=4)
@settings(max_examples=300)
def test_every_line_comes_once_whatever_the_cuts(
    data: bytes, block_bytes: int, most: int, limit: int
) -> None:
    found: list[tuple[int, bytes | int]] = []
    for block in line_blocks(Few(data, most), block_bytes=block_bytes, line_limit=limit):
        if block.overlong:
            found.append((block.first_line, block.overlong))
            continue
        lines = oracle(block.data, 1 << 20)
        assert len(lines) == block.lines
        found.extend((block.first_line + n - 1, line) for n, line in lines)
    assert found == oracle(data, limit)


def test_a_byte_order_mark_is_dropped_at_the_start_only() -> None:
    blocks = line_blocks(io.BytesIO(MARK + b"{}\n" + MARK + b"\n"), block_bytes=6)
    assert [block.data for block in blocks] == [b"{}\n", MARK + b"\n"]


def test_a_line_of_fifty_megabytes_is_never_held() -> None:
    tracemalloc.start()
    blocks = list(line_blocks(Pieces([*[b"x" * (1 << 16)] * 800, b"\nlast\n"])))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert blocks == [Block(b"", 1, 1, 50 << 20), Block(b"last\n", 2, 1)]
    assert peak < 12 << 20


# Arrays -------------------------------------------------------------------------

VALUES = st.recursive(
    st.sampled_from(["},{", '"', "\\", '\\"', "[", "]}", "a,b", "\n", "é", 1, 0.5, None, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from('a{"'), inner),
    max_leaves=8,
)
SEPARATORS = st.sampled_from([None, (",", ":"), (" ,", ": "), (",\r\n" + " " * 20, ":")])


def lines_of(data: bytes, most: int = 1 << 20) -> bytes:
    stream = RecordLines(Few(data, most), "a.json")
    return b"".join(iter(lambda: stream.read(1 << 20), b""))


@given(
    records=st.lists(VALUES, max_size=6),
    indent=st.none() | st.integers(0, 20),
    separators=SEPARATORS,
    around=st.sampled_from([(b"", b""), (b" \n", b"\n "), (MARK, b"")]),
    most=st.sampled_from([1, 2, 3, 7, 40, 1000]),
    data=st.data(),
)
def test_each_record_of_an_array_is_a_line_and_no_prefix_is_an_array(
    records: list[Any], indent: Any, separators: Any, around: Any, most: int, data: Any
) -> None:
    text = json.dumps(records, indent=indent, separators=separators).encode()
    found = lines_of(around[0] + text + around[1], most)
    assert [json.loads(line) for line in found.split(b"\n") if line.strip()] == records
    assert found.count(b"\n") == max(0, len(records) - 1)
    with pytest.raises(InputError, match="expected a whole JSON array"):
        lines_of(text[: data.draw(st.integers(1, len(text) - 1))], most)
    with pytest.raises(InputError, match="expected one JSON array, got more behind"):
        lines_of(text + b" \n" * 9 + text, most)


def test_lines_are_as_they_are() -> None:
    for data in (b"", b" \n", b'{"a": [1,\n2]}\n[1, 2]\n', b"x" * 3000):
        assert lines_of(data, 7) == data


def test_an_array_takes_the_memory_of_a_block() -> None:
    def array(records: int) -> Iterator[bytes]:
        yield b"["
        yield from [b'{"y":1,"x":"},{\\""},' * 1000] * (records // 1000)
        yield b'{"y":1}]'

    def peak(records: int) -> int:
        tracemalloc.start()
        wanted = [FieldRequest("y", "label")]
        found = sum(chunk.events.rows for chunk in read_jsonl(Pieces(array(records)), "a", wanted))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found == records + 1
        return most

    peak(1000)
    assert peak(200_000) < 1.2 * peak(80_000)


def test_a_record_that_is_too_long_is_skipped() -> None:
    data = b'[{"y":1},{"y":"' + b"},{" * (3 << 20) + b'"},\n{"y":0},7,"},{",{"y":2}]'
    found = read(data, FieldRequest("y", "label"))
    assert found.lines == [1, 3, 6]
    assert [str(bad).partition("; ")[0] for bad in found.bad] == [
        "a.jsonl:2: record: expected a line of at most 4 MiB, got one of 9,437,192 bytes",
        "a.jsonl:4: record: expected a JSON object, got 7",
        "a.jsonl:5: record: expected a JSON object, got the text '},{'",
    ]


# Records: which texts and which other values are bad is in tests/golden/bad_records.json. ------


@pytest.mark.parametrize(
    "data",
    [
        '{"label": 1, "score": 0.5}\r\n{"label": 1, "score": 0.5}\r\n',
        '{"label": 1, "score": 0.5, "x": NaN}\n{"label": 1, "score": 0.5, "x": [-Infinity]}\n',
        '{"label": 0, "label": 1, "score": 0.5}\n{"label": 1, "score": 5e-1, "x": {"score": 2}}',
    ],
)
def test_what_is_tolerated(data: str) -> None:
    found = read(data)
    assert (found.bad, found["label"], found["score"]) == ([], [1, 1], [0.5, 0.5])


KINDS: Any = ("label", "number", "label")


def test_paths_go_into_objects_and_a_backslash_keeps_a_dot() -> None:
    data = '{"meta": {"label": "a", "deep": {"s": 1}}, "meta.label": "b"}'
    names = ("meta.label", "meta.deep.s", r"meta\.label")
    found = read(data, *(FieldRequest(name, kind) for name, kind in zip(names, KINDS, strict=True)))
    assert [found[name] for name in names] == [["a"], [1.0], ["b"]]


@pytest.mark.parametrize("paths", [("a", "a.b"), ("a.b", "a"), ("a", "a"), ("a..b",), ("",)])
def test_paths_that_clash_are_refused(paths: tuple[str, ...]) -> None:
    with pytest.raises(InputError):
        read("", *(FieldRequest(path, kind) for path, kind in zip(paths, KINDS, strict=False)))


def test_bad_records_count_once_and_ten_are_kept_in_order() -> None:
    found = read('{"label": 1, "score": "x"}\n' * 500 + '{"label": 1, "score": 1}\n')
    assert (len(found.chunks), found.refused, found.lines) == (1, 500, [501])
    assert [record.place for record in found.bad] == list(range(1, 11))
    wanted = (FieldRequest("a", "weight"), FieldRequest("b", "weight"))
    found = read('{"a": -1, "b": -1}\n{"a": 1, "b": -1}\n{"a": -1, "b": 1}\n', *wanted)
    assert [(r.place, r.field) for r in found.bad] == [(1, "a"), (2, "b"), (3, "a")]
    assert found.refused == 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(0, 1) | st.text("aé1", max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("xy"), inner, max_size=2),
    max_leaves=4,
)
LINES = st.lists(
    st.fixed_dictionaries({}, optional={"label": JSON, "score": JSON, "other": JSON}).map(
        json.dumps
    )
    | st.sampled_from(["", " ", "{", "nonsense", '{"label": 1, "score": 0.5}']),
    max_size=12,
)


@given(LINES)
@settings(max_examples=200)
def test_good_records_are_those_that_python_reads_so(texts: list[str]) -> None:
    good, wrong = [], []
    for number, text in enumerate(texts, 1):
        try:
            record = json.loads(text) if text.strip() else None
        except ValueError:
            wrong.append(number)
            continue
        if record is None:
            continue
        label, score = record.get("label"), record.get("score")
        number_like = isinstance(score, (int, float)) and not isinstance(score, bool)
        if isinstance(label, (str, int, bool, float)) and number_like:
            good.append((number, label, score))
        else:
            wrong.append(number)
    found = read("\n".join(texts))
    assert list(zip(found.lines, found["label"], found["score"], strict=True)) == good
    assert [record.place for record in found.bad][:10] == wrong[:10]
    assert found.refused == len(wrong)
