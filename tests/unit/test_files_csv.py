"""CSV files: quoting, label types, and rows that cannot be read."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import InputError
from streameval.records import csv_table
from streameval.records.chunk import FieldRequest
from streameval.records.csv_table import LabelTypes, read_csv
from streameval.records.label_text import LabelType, label_from_text, likely_type
from streameval.records.layout import Layout
from tests.support.read_chunks import LABEL, SCORE, Chunks

UTF8 = Layout()


def read(
    data: bytes | str,
    *wanted: FieldRequest,
    label_type: LabelType | None = None,
    layout: Layout = UTF8,
) -> Chunks:
    raw = io.BytesIO(data.encode() if isinstance(data, str) else data)
    return Chunks(read_csv(raw, "a.csv", wanted or (LABEL, SCORE), LabelTypes(label_type), layout))


@pytest.mark.parametrize(
    "data",
    [
        "score,x,label\n0.5,a,1\n2,b,0\n",
        '\ufefflabel,"score"\r\n"1",0.5\r\n0," 2 "\r\n',
        'x,label,score\n\n"a ""b"", c",1,0.5\n\n"two\nlines",0,2\n\n',
        "\ufefflabel, score\n1, 0.5\n 0,  2\n",
        'label,  "score"\r\n1,0.5\r\n0, "2"\r\n',
    ],
)
def test_what_is_one_table(data: str) -> None:
    found = read(data)
    assert (found.bad, found["label"], found["score"]) == ([], [1, 0], [0.5, 2.0])
    assert found.chunks[0].events.columns["label"].dtype == np.int64  # type: ignore[union-attr]


PLAIN = "1,a,1\n" * 400_000  # two blocks without a quote


QUOTED = 'label,x,score\n1,"a\nb\n\nc",1\n\n1,"d",1\n1,e,x\n1,"f\ng",y\n1,h,1\n'


@pytest.mark.parametrize(
    ("data", "events", "last", "bad"),
    [
        (QUOTED, 3, 11, [(8, "the text 'x'"), (9, "the text 'y'")]),
        (
            f'label,x,score\n{PLAIN}1,"q\nr",1\n1,s,bad\n{PLAIN}',
            *(800_001, 800_004, [(400_004, "the text 'bad'")]),
        ),
        ("label,x,score\n1,a,1\n\n0,b,0", 2, 4, []),
    ],
    ids=["quotes", "a late quote", "a blank line and no end"],
)
def test_lines_are_those_where_rows_begin(
    data: str, events: int, last: int, bad: list[Any]
) -> None:
    found = read(data)
    assert (len(found.lines), found.lines[-1]) == (events, last)
    assert [(record.place, record.got) for record in found.bad] == bad


def test_a_header_alone_and_blank_lines_under_one_column_have_no_records() -> None:
    for data, labels in (("label\n1\n\n0\n", [1, 0]), ("label\n", []), ("label", [])):
        found = read(data, LABEL)
        assert (found.bad, [*found["label"]]) == ([], labels)


CELL = st.text('a1",\n \ré_', max_size=4)


@given(
    rows=st.lists(st.tuples(CELL, st.sampled_from(["spam", "ham"]), CELL), max_size=8),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=200)
def test_rows_are_those_that_were_written(
    rows: list[tuple[str, str, str]], quoting: Any, end: str
) -> None:
    if quoting == csv.QUOTE_MINIMAL:
        # Python's writer leaves a lone carriage return without quotes.
        rows = [tuple(cell.replace("\r", "") for cell in row) for row in rows]  # type: ignore[misc]
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=quoting, lineterminator=end)
    writer.writerow(["first", "label", "last"])
    writer.writerows(rows)
    wanted = [FieldRequest(name, "label") for name in ("first", "label", "last")]
    found = read(text.getvalue(), *wanted, label_type="str")
    # An empty cell is no label.
    kept = [row for row in rows if row[0] and row[2]]
    assert list(zip(*(found[want.path] for want in wanted), strict=True)) == kept
    assert found.refused == len(rows) - len(kept)


@pytest.mark.parametrize("more", ["", '"d", "4"\n'])  # csv reads a block with quotes
def test_blanks_behind_delimiters_are_left_out_if_the_header_has_them(more: str) -> None:
    rows = " a, 1\nb,2\n  c,   x\n" + more
    spaced, plain = read("label, score\n" + rows), read("label,score\n" + rows)
    assert spaced["label"] == ["a", "b", *(["d"] if more else [])]
    assert plain["label"][:2] == [" a", "b"]
    for found in (spaced, plain):
        assert (found.bad[0].place, found.lines[:2]) == (4, [2, 3])
    assert read('label, score\n" b", 1\n" b ", 2\n')["label"] == [" b", " b "]
    assert read('label," score",score\n b,1,2\n')["label"] == [" b"]


@pytest.mark.parametrize(
    ("text", "delimiter", "labels"),
    [
        ("1, a\n2,b\n", ",", ["a", "b"]),
        ("1,a\n2, b\n", ",", ["a", " b"]),
        ("1\t a\n2\t b\n", "\t", ["a", "b"]),
        ("1  a\n2  b\n", " ", []),
    ],
)
def test_blanks_are_left_out_of_rows_without_a_header_and_never_as_delimiters(
    text: str, delimiter: str, labels: list[str]
) -> None:
    wanted = [FieldRequest("1", "number"), FieldRequest("2", "label")]
    found = read(text, *wanted, label_type="str", layout=Layout(delimiter, header=False))
    assert (found["2"], bool(found.bad)) == (labels, not labels)


# Of single values: tests/golden/bad_records.json.
FAULTS = [
    ("1,0.5\r1,0.5", "record: expected lines that end with a newline, got a carriage return"),
    ("1," + "x" * 200_000, "expected a field of at most 131,072 characters, got a longer"),
    ('1,"' + "x" * 200_000 + '"', "expected a field of at most 131,072 characters, got a longer"),
    ("1," + "x" * (10 << 20), "record: expected a line of at most 4 MiB, got a longer one"),
]


@pytest.mark.parametrize(("row", "message"), FAULTS)
@pytest.mark.parametrize("first", ["1,1", '"1",1'])
def test_faults_are_reported_with_their_line(row: str, message: str, first: str) -> None:
    found = read(f"label,score\n{first}\n{row}\n0,0\n", label_type="int")
    (record,) = found.bad
    assert str(record).startswith("a.csv:3: ")
    assert message in str(record)
    assert (found["label"], found.lines) == ([1, 0], [2, 4])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("\n\n", "a.csv: expected a header line that names the columns, got an empty file"),
        (b"label,\xff\n", "got byte 0xff"),
        ("label,scor\n", "one column 'score', got none among label, scor; did you mean 'scor'"),
        ("label,score,score\n", "a.csv: expected one column 'score', got 2 among"),
    ],
)
def test_headers_that_do_not_do(data: bytes | str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(data)


@pytest.mark.parametrize(
    ("cells", "label_type", "labels"),
    [
        (["1.0", "-2", "9" * 30], None, [1, -2, int("9" * 30)]),
        (["true", "False"], None, [True, False]),
        (["0", "true"], None, ["0", "true"]),
        (["007", "7"], None, ["007", "7"]),
        (["0", "1"], "str", ["0", "1"]),
        (["TRUE"], "bool", [True]),
    ],
)
def test_label_types(cells: list[str], label_type: LabelType | None, labels: list[Any]) -> None:
    found = read("\n".join(["label", *cells, ""]), LABEL, label_type=label_type)["label"]
    assert list(map(repr, found)) == list(map(repr, labels))


def test_a_type_once_found_holds_for_later_files() -> None:
    types = LabelTypes()
    first, second = (
        Chunks(read_csv(io.BytesIO(data), "a.csv", [LABEL], types))
        for data in (b"label\n1\n", b"label\nspam\n2\n")
    )
    assert (first["label"], second["label"]) == ([1], [2])
    assert str(second.bad[0]).endswith("; choose the type with --label-type")


def test_label_columns_that_look_different_are_refused() -> None:
    wanted = FieldRequest("t", "label"), FieldRequest("p", "label")
    with pytest.raises(InputError, match="got t int, p str; say which with label_type="):
        read("t,p\n1,spam\n", *wanted)
    assert read("t,p\n1,true\n", *wanted)["p"] == [True]


@given(st.lists(st.text("01-+.truefals e", max_size=5), max_size=6))
@settings(max_examples=200)
def test_the_likely_type_reads_every_text(texts: list[str]) -> None:
    found = likely_type(texts)
    assert (found is None) == (not any(texts))
    if found is not None:
        for text in filter(None, texts):
            label_from_text(text, found)


NUMBERS = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.floats(0, 1).map(repr),
    st.integers(-(10**24), 10**24).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=12).map(str),
    st.tuples(st.integers(0, 10**20), st.integers(-40, 330)).map("{0[0]}e{0[1]}".format),
    st.tuples(st.integers(0, 10**20), st.integers(0, 10**20)).map("{0[0]}.{0[1]}".format),
    st.text("0123456789.-+eE_ inf", max_size=8),
    st.text(max_size=4).filter(lambda text: not set(text) & set(',"\r\n')),
    # Halfway between two floats, and next to it.
    st.integers(2**53, 2**54).map(lambda n: str(2 * n + 1)),
    st.sampled_from(["9007199254740993", "0.30000000000000004", "5e-324", "1.", ".5", ".", "+.0"]),
)


@given(
    rows=st.lists(st.tuples(st.sampled_from("abé"), NUMBERS), max_size=20),
    end=st.sampled_from(["\n", "\r\n"]),
    odd=st.sampled_from(["", "", "\r", "\n", "a", "a,1,1", '"a",1', "a,1\ra,1"]),
    last=st.booleans(),
    delimiter=st.sampled_from(",;\t|§"),
)
@settings(max_examples=300)
def test_the_compiled_reader_and_the_portable_one_agree(
    rows: list[tuple[str, str]], end: str, odd: str, last: bool, delimiter: str
) -> None:
    lines_ = ["label,score", *map(",".join, rows), *([odd] if odd else [])]
    text = end.join(lines_) + end * last
    data = text.replace(",", delimiter).encode()
    layout = Layout(delimiter=delimiter)

    def found() -> str:
        result: list[Any] = []
        for score in (SCORE, FieldRequest("score", "slice")):
            one = read(data, LABEL, score, label_type="str", layout=layout)
            result += [one["label"], one["score"], one.lines, one.bad]
            result += [type(chunk.events.columns["score"]) for chunk in one.chunks]
        return repr(result)

    compiled = found()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_table, "_cut", None)
        assert compiled == found()


def test_decimal_numbers_are_the_nearest_floats() -> None:
    rng = np.random.default_rng(3)
    texts = [repr(number) for number in rng.random(20_000).tolist()]
    texts += [
        f"{rng.random() * 10.0 ** rng.integers(-9, 9):.{rng.integers(1, 19)}f}" for _ in texts
    ]
    texts += [f"{m}e-{k}" for m, k in rng.integers(1, [2**63 - 1, 28], (20_000, 2)).tolist()]
    found = read("\n".join(["label,score", *(f"a,{text}" for text in texts)]))
    assert found["score"] == list(map(float, texts))
