"""The compiled reader of JSON records against the one in Python, message by message."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.records.chunk import Wanted
from streameval.service.decode.fields import Field, RecordReader, listed
from streameval.service.sources import followed_file
from streameval.states.backend import compiled

pytestmark = pytest.mark.skipif(
    compiled("streameval.service.native.native_json") is None,
    reason="the compiled reader is not in use here",
)

FIELDS = (
    Field("id", Wanted("id", "id")),
    Field("score", Wanted("score", "number")),
    Field("weight", Wanted("w", "weight")),
    Field("y_true", Wanted("y", "label")),
    Field("time", Wanted("time", "time")),
    Field("slice:country", Wanted("country", "slice")),
)


def readers(fields: tuple[Field, ...] = FIELDS) -> tuple[RecordReader, RecordReader]:
    native, portable = RecordReader(fields), RecordReader(fields)
    assert native._compiled is not None
    portable._compiled = None
    return native, portable


def plain(values: Any, path: str) -> list[Any]:
    """With types, and -0.0 distinct; an id is text in the end."""
    found = listed(values)
    if path == "id":
        found = [None if value is None else str(value) for value in found]
    return [(type(value), repr(value)) for value in found]


def assert_same(messages: list[bytes], fields: tuple[Field, ...] = FIELDS) -> None:
    native, portable = readers(fields)
    mine, my_faults = native.read_many(messages)
    values, faults = portable.read_many(messages)
    assert my_faults == faults
    assert {path: plain(column, path) for path, column in mine.items()} == {
        path: plain(column, path) for path, column in values.items()
    }


TEXTS = st.one_of(
    st.sampled_from(["", "a", "PT", "é", "\ud83d\ude00", "x" * 15, "x" * 16, "x" * 300, "\x7f"]),
    st.text('ab01"\\\x1f é', max_size=40),
)
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(0, 1),
    st.decimals(-10, 10, places=5).map(float),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), TEXTS, NUMBERS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
WORDS = (
    "0 -0 -0.0 00 01 1. .5 +1 1e5 1E+5 1e-5 1e400 1e-400 - 1e 5 -7 0.1 true false null nul "
    'nan NaN tru "" "a" "PT" " "x "\\u0041" "a\\tb" "a\x01b" "\x7f" "\x00" "a\\" "é" "\xff" '
    '"Ã©" "ã\x81\x82" "ð\x9f\x98\x80" "í\xa0\x80" "à\x80\x80" "Á\xa1" '
    "123456789012345678 1234567890123456789 -123456789012345678 -1234567890123456789 "
    "999999999999999999999999999 0.1234567890123456789 12345678901234567890.5 4.9e-324 "
    "{ } [] {} [1,] [,] [[[]]] [1,null,true] [1}"
)
LITERALS = (*WORDS.split(" "), '"abcdefghijklmnopq\x1fr"', '"abcdefghijklmnopqrs\\"', '" "')
NUMERALS = st.from_regex(r"-?[0-9]{1,22}(\.[0-9]{1,22})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
EVERY_NAME = ("id", "score", "w", "y", "time", "country", "other", "é")
NAMES = st.sampled_from(EVERY_NAME)
BLANKS = st.sampled_from(["", "", "", " ", "\n", "\t \r"])
WRITTEN = VALUES.map(lambda value: json.dumps(value, ensure_ascii=False))
PAIRS = st.tuples(NAMES, WRITTEN | st.sampled_from(LITERALS) | NUMERALS)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    blank = [draw(BLANKS) for _ in range(5)]
    pairs = draw(st.lists(PAIRS, max_size=7))
    text = f"{blank[1]},{blank[2]}".join(
        f"{json.dumps(name, ensure_ascii=False)}{blank[3]}:{blank[4]}{value}"
        for name, value in pairs
    )
    made = bytearray(f"{blank[0]}{{{text}}}{blank[0]}".encode("utf-8", "surrogatepass"))
    if draw(st.integers(0, 9)) == 0:
        made[draw(st.integers(0, len(made) - 1))] = draw(st.integers(0, 255))
    elif draw(st.integers(0, 9)) == 0:
        del made[draw(st.integers(0, len(made) - 1)) :]
    return bytes(made)


@settings(max_examples=600)
@given(st.lists(messages(), min_size=1, max_size=8))
def test_it_reads_what_the_other_reads(batch: list[bytes]) -> None:
    assert_same(batch)


@settings(max_examples=300)
@given(NUMERALS)
def test_every_number_in_every_field(numeral: str) -> None:
    assert_same([f'{{"{name}":{numeral}}}'.encode() for name in EVERY_NAME])


def test_every_literal_in_every_field() -> None:
    for name in EVERY_NAME:
        assert_same([f'{{"{name}": {one}}}'.encode("latin-1") for one in LITERALS])
        assert_same([f'{{"{name}": 1}} {one}'.encode("latin-1") for one in LITERALS])
        assert_same([f'{{"{name}": 1, {one}: 1}}'.encode("latin-1") for one in LITERALS])


def test_of_a_field_that_is_there_twice() -> None:
    for name in EVERY_NAME:
        for first in LITERALS:
            assert_same(
                [f'{{"{name}": {first}, "{name}": {one}}}'.encode("latin-1") for one in LITERALS]
            )


def test_plain_records_become_arrays() -> None:
    native, _ = readers()
    record = b'{"id": 7, "score": 0.25, "skipped": {"a": [1, null]}, "y": true, "country": "PT"}'
    batch = [record, record]
    found, faults = native.read_many(batch)
    assert faults == {}
    assert isinstance(found["score"], np.ndarray)
    assert isinstance(found["y"], np.ndarray)
    assert found["id"] == ["7", "7"]
    assert found["country"][0] is found["country"][1]
    assert native._compiled is not None
    assert native._compiled.read(batch)[1] == []
    assert_same(batch)
    # One that is not plain leaves the others as they are.
    assert native._compiled.read([record, b'{"id": "\\u0041"}'])[1] == [1]


def test_deep_nesting_is_left_to_the_other() -> None:
    for depth in (30, 31, 32, 33, 100, 2_000):
        assert_same([b'{"other": ' + b"[" * depth + b"]" * depth + b"}"])


def test_nested_fields_and_probabilities_are_left_to_the_other() -> None:
    for want in (Wanted("a.b", "number"), Wanted("p", "probabilities")):
        assert RecordReader((Field("x", want),))._compiled is None
    dotted = (Field("x", Wanted(r"a\.b", "number")), Field("y", Wanted("é", "label")))
    assert_same([b'{"a.b": 1.5}', '{"é": 1}'.encode()], dotted)


def test_many_texts_of_one_field() -> None:
    texts = [f"{n % 1_000}" for n in range(3_000)]
    assert_same([json.dumps({"country": text, "y": text}).encode() for text in texts])


@given(
    st.lists(st.sampled_from([b"", b" ", b"\t", b"{}", b" {}", b"x" * 40, b"\r"])), st.booleans()
)
def test_lines_are_those_of_python(lines: list[bytes], ends: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ends else b"")
    for stop in range(len(data) + 1):
        mine = followed_file._split(data, stop, 10)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(followed_file, "_NATIVE", None)
            other = followed_file._split(data, stop, 10)
        assert (mine[0], mine[1].tolist()) == (other[0], other[1].tolist())
        # What may be blank is looked at.
        assert mine[2] or not other[2]
