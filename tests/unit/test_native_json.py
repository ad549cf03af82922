"""The compiled reader of JSON records against the one in Python, message by message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.records.blocks import Block
from streameval.records.chunk import BadRecords, FieldRequest
from streameval.records.event_columns import plain_values
from streameval.records.json_records import JsonDecoder
from streameval.service.sources import file_lines
from streameval.states.backend import compiled

pytestmark = pytest.mark.skipif(
    compiled("streameval.records.native.native_json") is None,
    reason="the compiled reader is not in use here",
)

FIELDS = (
    FieldRequest("id", "id", "id"),
    FieldRequest("score", "number", "score"),
    FieldRequest("w", "weight", "weight"),
    FieldRequest("y", "label", "y_true"),
    FieldRequest("time", "time", "time"),
    FieldRequest("country", "slice", "slice:country"),
)


def decoders(
    fields: tuple[FieldRequest, ...] = FIELDS, *, optional: bool = True
) -> tuple[JsonDecoder, JsonDecoder]:
    native, portable = (JsonDecoder(fields, optional=optional) for _ in range(2))
    assert native._compiled is not None
    portable._compiled = None
    return native, portable


def plain(values: Any, column: str) -> list[Any]:
    """With types, and -0.0 distinct; an id is text in the end."""
    found = plain_values(values)
    if column == "id":
        found = [None if value is None else str(value) for value in found]
    return [(type(value), repr(value)) for value in found]


def assert_same(messages: list[bytes], fields: tuple[FieldRequest, ...] = FIELDS) -> None:
    native, portable = decoders(fields)
    mine, my_errors = native.read_messages(messages)
    values, errors = portable.read_messages(messages)
    assert my_errors == errors
    for one, column, other in zip(fields, mine, values, strict=True):
        assert plain(column, one.column) == plain(other, one.column)
    # The same for lines of a file, where fields but those of slices are required.
    data = b"\n".join(message.replace(b"\n", b" ") for message in messages) + b"\n"
    results = []
    for decoder in decoders(tuple(one for one in fields if one.kind != "id"), optional=False):
        bad = BadRecords()
        events = decoder.read_lines(Block(data, 5, len(messages)), "a", bad)
        columns = {name: plain(column, name) for name, column in events.columns.items()}
        results.append((columns, list(events.places), bad.first, bad.reasons))
    assert results[0] == results[1]


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
@given(st.lists(messages(), min_size=1, max_size=8), NUMERALS)
def test_it_reads_what_the_other_reads(batch: list[bytes], numeral: str) -> None:
    assert_same([*batch, *(f'{{"{name}":{numeral}}}'.encode() for name in EVERY_NAME)])
    nested = (FieldRequest("score.w", "number"), FieldRequest("other.id", "label"))
    assert_same([*batch, b'{"score": {"w": 1}, "other": {"id": "a"}}'], nested)


def test_every_literal_in_every_field_once_and_twice() -> None:
    for name in EVERY_NAME:
        for form in ('{{"{}": {}}}', '{{"{}": 1}} {}', '{{"{}": 1, {}: 1}}'):
            assert_same([form.format(name, one).encode("latin-1") for one in LITERALS])
        for n, first in enumerate(LITERALS):
            pairs = [f'{{"{name}": {first}, "{name}": {one}}}' for one in LITERALS[n % 8 :: 8]]
            assert_same([pair.encode("latin-1") for pair in pairs])
    for depth in (31, 32, 33, 2_000):
        assert_same([b'{"other": ' + b"[" * depth + b"]" * depth + b"}"])


def test_escapes_in_other_fields_are_skipped() -> None:
    native, _ = decoders()
    assert native._compiled is not None
    good = [rb'{"x": "\"\\\/\b\f\n\r\t\u00e9\uFFFF"}', rb'{"x": ["\u0000", {"y": "\\"}]}']
    texts = (rb"\ud800", rb"\a", rb"\u00g0", rb"\u00", b"\\")
    odd = [b'{"x": "' + text + b'"}' for text in texts]
    assert native._compiled.read(good + odd)[1] == [2, 3, 4, 5, 6]
    assert_same([*good, *odd, *(line.replace(b'"x"', b'"country"') for line in good + odd)])


NESTED = (
    FieldRequest("m.s", "number", "score"),
    FieldRequest("m.deep.y", "label", "y_true"),
    FieldRequest("country", "slice"),
)


def test_nested_fields() -> None:
    texts = '{"s":0.5,"deep":{"y":1}} {"deep":{"y":"a"},"s":1} {"s":1,"deep":{}} {} null 5'
    objects = [*texts.split(" "), '{"s": {}, "deep": {"y": 1}}', "[1]", '"m"']
    lines = [f'{{"m": {one}, "s": 3, "y": 4}}'.encode() for one in objects]
    lines += [f'{{"m": {objects[0]}, "m": {one}}}'.encode() for one in objects]
    assert_same([*lines, b'{"country": "PT"}'], NESTED)
    native, _ = decoders(NESTED)
    assert native._compiled is not None
    assert native._compiled.read(lines[:2])[1] == []


def test_probabilities_by_label_are_left_to_the_other() -> None:
    twice = [FieldRequest("p", "label", "y_true"), FieldRequest("p", "label", "y_pred")]
    for wanted in ([FieldRequest("p", "probabilities")], twice):
        assert JsonDecoder(wanted)._compiled is None
    dotted = (FieldRequest(r"a\.b", "number"), FieldRequest("é", "label"))
    assert_same([b'{"a.b": 1.5}', '{"é": 1}'.encode()], dotted)


@given(
    st.lists(st.sampled_from([b"", b" ", b"\t", b"{}", b" {}", b"x" * 40, b"\r"])), st.booleans()
)
def test_lines_are_those_of_python(lines: list[bytes], ends: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ends else b"")
    for stop in range(len(data) + 1):
        mine = file_lines._split(data, stop, 10)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(file_lines, "_NATIVE", None)
            other = file_lines._split(data, stop, 10)
        assert (mine[0], mine[1].tolist()) == (other[0], other[1].tolist())
        # What may be blank is looked at.
        assert mine[2] or not other[2]
