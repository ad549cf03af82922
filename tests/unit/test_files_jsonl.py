"""JSON lines: what is read, and the errors of the rest."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import InputError
from streameval.records.chunk import BadRecord, Chunk, Kind, Wanted
from streameval.records.jsonl import read_jsonl

LABEL = Wanted("label", "label")
SCORE = Wanted("score", "number")


def read(data: bytes | str, *wanted: Wanted) -> list[Chunk]:
    raw = data.encode() if isinstance(data, str) else data
    return list(read_jsonl(io.BytesIO(raw), "a.jsonl", wanted or (LABEL, SCORE)))


def values(chunks: list[Chunk], path: str) -> list[Any]:
    return [value for chunk in chunks for value in list(chunk.events.columns[path])]


def lines(chunks: list[Chunk]) -> list[int]:
    return [int(line) for chunk in chunks for line in chunk.events.places]


def bad(chunks: list[Chunk]) -> list[BadRecord]:
    return [record for chunk in chunks for record in chunk.bad.first]


def test_columns_are_arrays_of_the_narrowest_type() -> None:
    (chunk,) = read('{"label": 1, "score": 0.5}\n{"label": 0, "score": 1}\n')
    assert chunk.events.columns["label"].dtype == np.int64
    assert chunk.events.columns["score"].dtype == np.float64
    assert chunk.events.places == range(1, 3)
    assert read('{"label": true, "score": 1}')[0].events.columns["label"].dtype == np.bool_


def test_equal_texts_are_one_object() -> None:
    (chunk,) = read('{"label": "spam", "score": 0.5}\n' * 3)
    assert chunk.events.columns["label"] == ["spam"] * 3
    assert len({id(label) for label in chunk.events.columns["label"]}) == 1


def test_a_number_and_a_text_stay_apart() -> None:
    (chunk,) = read('{"label": "1", "score": 0}\n{"label": 1, "score": 0}\n')
    assert chunk.events.columns["label"] == ["1", 1]


@pytest.mark.parametrize(
    "data",
    [
        '{"label": 1, "score": 0.5}\r\n{"label": 1, "score": 0.5}\r\n',
        '\ufeff{"label": 1, "score": 0.5}\n{"label": 1, "score": 0.5}',
        '\n{"label": 1, "score": 0.5}\n  \n\n{"label": 1, "score": 0.5}\n\n',
        '{"label": 1, "score": 0.5, "x": NaN}\n{"label": 1, "score": 0.5, "x": [-Infinity]}\n',
        '{"label": 0, "label": 1, "score": 0.5}\n{"label": 1, "score": 5e-1, "x": {"score": 2}}',
    ],
)
def test_what_is_tolerated(data: str) -> None:
    chunks = read(data)
    assert not bad(chunks)
    assert values(chunks, "label") == [1, 1]
    assert values(chunks, "score") == [0.5, 0.5]


def test_blank_lines_are_no_records_but_are_counted() -> None:
    assert lines(read('\n{"label": 1, "score": 1}\n\n\n{"label": 1, "score": 1}')) == [2, 5]


def test_paths_go_into_objects_and_a_backslash_keeps_a_dot() -> None:
    data = '{"meta": {"label": "a", "deep": {"s": 1}}, "meta.label": "b"}'
    wanted = [
        Wanted("meta.label", "label"),
        Wanted("meta.deep.s", "number"),
        Wanted(r"meta\.label", "label"),
    ]
    chunks = read(data, *wanted)
    assert [values(chunks, want.path) for want in wanted] == [["a"], [1.0], ["b"]]


@pytest.mark.parametrize(
    "wanted",
    [
        (Wanted("a", "label"), Wanted("a.b", "number")),
        (Wanted("a.b", "number"), Wanted("a", "label")),
        (Wanted("a", "label"), Wanted("a", "number")),
        (Wanted("a..b", "label"),),
        (Wanted("", "label"),),
    ],
)
def test_paths_that_clash_are_refused(wanted: tuple[Wanted, ...]) -> None:
    with pytest.raises(InputError):
        read("", *wanted)


def test_probabilities_of_the_same_labels_are_columns() -> None:
    wanted = Wanted("p", "probabilities")
    (chunk,) = read('{"p": {"a": 0.25, "b": 0.75}}\n{"p": {"a": 1, "b": 0}}\n', wanted)
    assert {k: v.tolist() for k, v in chunk.events.columns["p"].items()} == {
        "a": [0.25, 1.0],
        "b": [0.75, 0.0],
    }
    (chunk,) = read('{"p": {"a": 1}}\n{"p": {"b": 1}}\n', wanted)
    assert chunk.events.columns["p"] == [{"a": 1.0}, {"b": 1.0}]


FAULTS: list[tuple[str, Kind, str]] = [
    ('{"x": null}', "label", "x: expected a label (text, an integer or true/false), got null"),
    ('{"x": [1]}', "label", "got an array"),
    ('{"x": {"y": 1}}', "label", "got an object"),
    ('{"x": NaN}', "label", "got NaN"),
    (r'{"x": "\ud800"}', "label", "half of a surrogate pair"),
    ("{}", "label", "got no field 'x'; the record has none"),
    ('{"y": 1, "xx": 2}', "label", "got no field 'x'; the record has y, xx; did you mean 'xx'?"),
    ('{"x": NaN}', "number", "x: expected a finite number, got NaN"),
    ('{"x": -Infinity}', "number", "got -Infinity"),
    ('{"x": 1e999}', "number", "got Infinity"),
    ('{"x": ' + "9" * 400 + "}", "number", "got 9999999999999999999999999999999999999999…"),
    ('{"x": "0.9"}', "number", "got the text '0.9'; write numbers without quotes"),
    ('{"x": true}', "number", "got true"),
    ('{"x": null}', "number", "got null"),
    ('{"x": -2.5}', "weight", "expected a weight from 0 to 9007199254740992, got -2.5"),
    ('{"x": 1e17}', "weight", "got 1e+17"),
    ('{"x": 0.7}', "probabilities", "got 0.7; one number is a score: use --score"),
    ('{"x": {"cat": "1"}}', "probabilities", "x.cat: expected a finite number, got the text '1'"),
    ('{"x": {"cat": NaN}}', "probabilities", "x.cat: expected a finite number, got NaN"),
    ("[1, 2]", "label", "record: expected a JSON object, got an array; write one object a line"),
    ("[", "label", "got '['; write one object a line (jq -c '.[]')"),
    ("{", "label", "record: expected a whole JSON object on one line, got '{'; compact it"),
    ("17", "label", "record: expected a JSON object, got 17"),
    ('{"x": 1', "label", "record: expected a JSON object, got '{\"x\": 1' (Expecting ',' delim"),
    ('{"x": 1} {"x": 2}', "label", "record: expected one JSON object a line, got more after col"),
    ('{"x": 1, "y": ' + "[" * 99999 + "]" * 99999 + "}", "label", "JSON nested less deeply"),
    ('{"x": ' + "1" * 5000 + "}", "label", "expected numbers of a usual length"),
]


@pytest.mark.parametrize(("line", "kind", "message"), FAULTS)
def test_faults_are_reported_with_their_line(line: str, kind: Kind, message: str) -> None:
    good = {"label": '{"x": 1}', "probabilities": '{"x": {"a": 1}}'}.get(kind, '{"x": 1}')
    chunks = read(f"{good}\n{line}\n{good}\n", Wanted("x", kind))
    (record,) = bad(chunks)
    assert str(record).startswith("a.jsonl:2: ")
    assert message in str(record)
    assert "\n" not in str(record)
    assert lines(chunks) == [1, 3]


def test_faults_below_a_path() -> None:
    data = '{"m": {}}\n{"m": 3}\n{"m": null}\n{}\n{"m": {"s": "x"}}\n{"m": {"s": 4}}\n'
    chunks = read(data, Wanted("m.s", "number"))
    assert [(r.line, r.field, r.got) for r in bad(chunks)] == [
        (1, "m.s", "no field 's'; m has none"),
        (2, "m", "3"),
        (3, "m", "null"),
        (4, "m.s", "no field 'm'; the record has none"),
        (5, "m.s", "the text 'x'"),
    ]
    assert lines(chunks) == [6]


@pytest.mark.parametrize(
    "line", [b'{"label": "\xff", "score": 1}', b'{"label": 1, "score": 1, "x": "\xe9"}']
)
def test_bytes_that_are_not_utf8(line: bytes) -> None:
    chunks = read(b'{"label": "\xc3\xa9", "score": 1}\n' + line)
    (record,) = bad(chunks)
    assert (record.line, record.expected) == (2, "UTF-8 text")
    assert record.got.startswith(f"byte 0x{max(line):02x} at column")
    assert values(chunks, "label") == ["é"]


def test_a_line_of_ten_megabytes_is_skipped() -> None:
    good = b'{"label": 1, "score": 1}\n'
    long = b'{"label": 1, "score": 1, "x": "' + b"y" * (10 << 20) + b'"}\n'
    chunks = read(good + long + good)
    (record,) = bad(chunks)
    assert str(record) == (
        "a.jsonl:2: record: expected a line of at most 4 MiB, got one of 10,485,793 bytes"
    )
    assert lines(chunks) == [1, 3]


def test_all_bad_records_are_counted_and_ten_are_kept_in_order() -> None:
    chunks = read('{"label": 1, "score": "x"}\n' * 500 + '{"label": 1, "score": 1}\n')
    (chunk,) = chunks
    assert chunk.bad.count == 500
    assert [record.line for record in chunk.bad.first] == list(range(1, 11))
    assert lines(chunks) == [501]


def test_a_record_that_is_bad_twice_counts_once() -> None:
    wanted = (Wanted("a", "weight"), Wanted("b", "weight"))
    chunks = read('{"a": -1, "b": -1}\n{"a": 1, "b": -1}\n{"a": -1, "b": 1}\n', *wanted)
    assert [(r.line, r.field) for r in bad(chunks)] == [(1, "a"), (2, "b"), (3, "a")]
    assert chunks[0].bad.count == 3


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
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except ValueError:
            wrong.append(number)
            continue
        label, score = record.get("label"), record.get("score")
        number_like = isinstance(score, (int, float)) and not isinstance(score, bool)
        if isinstance(label, (str, int, bool, float)) and number_like:
            good.append((number, label, score))
        else:
            wrong.append(number)
    chunks = read("\n".join(texts))
    found = zip(lines(chunks), values(chunks, "label"), values(chunks, "score"), strict=True)
    assert list(found) == good
    assert [record.line for record in bad(chunks)][:10] == wrong[:10]
    assert sum(chunk.bad.count for chunk in chunks) == len(wrong)
