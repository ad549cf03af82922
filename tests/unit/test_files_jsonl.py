"""JSON lines: what is read, and the errors of the rest."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import InputError
from streameval.records.chunk import FieldRequest
from streameval.records.json_records import read_jsonl
from tests.support.read_chunks import LABEL, SCORE, Chunks


def read(data: bytes | str, *wanted: FieldRequest) -> Chunks:
    raw = data.encode() if isinstance(data, str) else data
    return Chunks(read_jsonl(io.BytesIO(raw), "a.jsonl", wanted or (LABEL, SCORE)))


def test_columns_are_arrays_of_the_narrowest_type_and_equal_texts_one_object() -> None:
    (chunk,) = read('{"label": 1, "score": 0.5}\n{"label": 0, "score": 1}\n').chunks
    assert chunk.events.columns["label"].dtype == np.int64
    assert chunk.events.columns["score"].dtype == np.float64
    assert chunk.events.places == range(1, 3)
    (chunk,) = read('{"label": true, "score": 1}').chunks
    assert chunk.events.columns["label"].dtype == np.bool_
    found = read('{"label": "spam", "score": 0.5}\n' * 3)
    assert found["label"] == ["spam"] * 3
    assert found.chunks[0].events.columns["label"].labels == ["spam"]  # type: ignore[union-attr]


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
    found = read(data)
    assert (found.bad, found["label"], found["score"]) == ([], [1, 1], [0.5, 0.5])


def test_paths_go_into_objects_and_a_backslash_keeps_a_dot() -> None:
    data = '{"meta": {"label": "a", "deep": {"s": 1}}, "meta.label": "b"}'
    wanted = [
        FieldRequest("meta.label", "label"),
        FieldRequest("meta.deep.s", "number"),
        FieldRequest(r"meta\.label", "label"),
    ]
    found = read(data, *wanted)
    assert [found[want.path] for want in wanted] == [["a"], [1.0], ["b"]]


@pytest.mark.parametrize(
    "wanted",
    [
        (FieldRequest("a", "label"), FieldRequest("a.b", "number")),
        (FieldRequest("a.b", "number"), FieldRequest("a", "label")),
        (FieldRequest("a", "label"), FieldRequest("a", "number")),
        (FieldRequest("a..b", "label"),),
        (FieldRequest("", "label"),),
    ],
)
def test_paths_that_clash_are_refused(wanted: tuple[FieldRequest, ...]) -> None:
    with pytest.raises(InputError):
        read("", *wanted)


def test_probabilities_of_the_same_labels_are_columns() -> None:
    wanted = FieldRequest("p", "probabilities")
    (chunk,) = read('{"p": {"a": 0.25, "b": 0.75}}\n{"p": {"a": 1, "b": 0}}\n', wanted).chunks
    columns = {label: shares.tolist() for label, shares in chunk.events.columns["p"].items()}
    assert columns == {"a": [0.25, 1.0], "b": [0.75, 0.0]}
    (chunk,) = read('{"p": {"a": 1}}\n{"p": {"b": 1}}\n', wanted).chunks
    assert chunk.events.columns["p"] == [{"a": 1.0}, {"b": 1.0}]


# Which texts and which other values are bad: tests/unit/test_frozen_bad_records.py; lines that are
# too long: tests/unit/test_files_array.py, of the same reader.


def test_all_bad_records_are_counted_and_ten_are_kept_in_order() -> None:
    found = read('{"label": 1, "score": "x"}\n' * 500 + '{"label": 1, "score": 1}\n')
    assert (len(found.chunks), found.refused, found.lines) == (1, 500, [501])
    assert [record.place for record in found.bad] == list(range(1, 11))


def test_a_record_that_is_bad_twice_counts_once() -> None:
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
    found = read("\n".join(texts))
    assert list(zip(found.lines, found["label"], found["score"], strict=True)) == good
    assert [record.place for record in found.bad][:10] == wrong[:10]
    assert found.refused == len(wrong)
