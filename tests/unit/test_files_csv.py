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
from streameval.records.chunk import Chunk, FieldRequest, RecordError
from streameval.records.csv_table import LabelTypes, read_csv
from streameval.records.event_columns import plain_values
from streameval.records.label_text import LabelType, label_from_text, likely_type
from streameval.records.layout import Layout

LABEL = FieldRequest("label", "label")
SCORE = FieldRequest("score", "number")


def read(
    data: bytes | str, *wanted: FieldRequest, label_type: LabelType | None = None
) -> list[Chunk]:
    raw = data.encode() if isinstance(data, str) else data
    types = LabelTypes(label_type)
    return list(read_csv(io.BytesIO(raw), "a.csv", wanted or (LABEL, SCORE), types))


def values(chunks: list[Chunk], path: str) -> list[Any]:
    return [value for chunk in chunks for value in plain_values(chunk.events.columns[path])]


def lines(chunks: list[Chunk]) -> list[int]:
    return [int(line) for chunk in chunks for line in chunk.events.places]


def bad(chunks: list[Chunk]) -> list[RecordError]:
    return [record for chunk in chunks for record in chunk.bad.first]


@pytest.mark.parametrize(
    "data",
    [
        "label,score\n1,0.5\n0,2\n",
        "label,score\n1,0.5\n0,2",
        "score,x,label\n0.5,a,1\n2,b,0\n",
        "\ufefflabel,score\r\n1,0.5\r\n0,2\r\n",
        'label,"score"\n"1",0.5\n0," 2 "\n',
        "label,score\n\n1,0.5\n\n0,2\n\n",
        'x,label,score\n"a ""b"", c",1,0.5\n"two\nlines",0,2\n',
        "\ufefflabel, score\n1, 0.5\n 0,  2\n",
        'label,  "score"\r\n1,0.5\r\n0, "2"\r\n',
    ],
)
def test_what_is_one_table(data: str) -> None:
    chunks = read(data)
    assert not bad(chunks)
    assert values(chunks, "label") == [1, 0]
    assert values(chunks, "score") == [0.5, 2.0]
    assert chunks[0].events.columns["label"].dtype == np.int64  # type: ignore[union-attr]


def test_lines_are_those_where_rows_begin() -> None:
    data = 'label,x,score\n1,"a\nb\n\nc",1\n\n1,"d",1\n1,e,x\n1,"f\ng",y\n1,h,1\n'
    chunks = read(data)
    assert lines(chunks) == [2, 7, 11]
    assert [(r.place, r.got) for r in bad(chunks)] == [(8, "the text 'x'"), (9, "the text 'y'")]


def test_a_blank_line_under_one_column_is_no_record() -> None:
    chunks = read("label\n1\n\n0\n", LABEL)
    assert not bad(chunks)
    assert values(chunks, "label") == [1, 0]
    assert lines(chunks) == [2, 4]


def test_lines_are_right_when_a_quote_comes_late() -> None:
    plain = "1,a,1\n" * 400_000  # two blocks without a quote
    data = "label,x,score\n" + plain + '1,"q\nr",1\n1,s,bad\n' + plain
    chunks = read(data)
    assert [record.place for record in bad(chunks)] == [400_004]
    assert sum(chunk.events.rows for chunk in chunks) == 800_001
    assert lines(chunks)[-1] == 800_004


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
    chunks = read(text.getvalue(), *wanted, label_type="str")
    # An empty cell is no label.
    kept = [row for row in rows if row[0] and row[2]]
    found = list(zip(*(values(chunks, want.path) for want in wanted), strict=True))
    assert found == kept
    assert sum(chunk.bad.count for chunk in chunks) == len(rows) - len(kept)


@pytest.mark.parametrize("more", ["", '"d", "4"\n'])  # csv reads a block with quotes
def test_blanks_behind_delimiters_are_left_out_if_the_header_has_them(more: str) -> None:
    rows = " a, 1\nb,2\n  c,   x\n" + more
    spaced, plain = read("label, score\n" + rows), read("label,score\n" + rows)
    last = ["d"] if more else []
    assert values(spaced, "label") == ["a", "b", *last]
    assert values(plain, "label") == [" a", "b"]
    for chunks in (spaced, plain):
        assert (bad(chunks)[0].place, lines(chunks)[:2]) == (4, [2, 3])
    (record,) = bad(read('label, score\nb, "a"\n'))
    assert "got the text 'a'" in str(record)
    assert values(read('label, score\n" b", 1\n" b ", 2\n'), "label") == [" b", " b "]
    assert values(read('label," score",score\n b,1,2\n'), "label") == [" b"]


def test_blanks_are_left_out_of_rows_without_a_header_and_never_as_delimiters() -> None:
    wanted = [FieldRequest("1", "number"), FieldRequest("2", "label")]
    for text, delimiter, found in (
        ("1, a\n2,b\n", ",", ["a", "b"]),
        ("1,a\n2, b\n", ",", ["a", " b"]),
        ("1\t a\n2\t b\n", "\t", ["a", "b"]),
        ("1  a\n2  b\n", " ", ["", ""]),
    ):
        layout = Layout(delimiter, header=False)
        stream = io.BytesIO(text.encode())
        chunks = list(read_csv(stream, "a.csv", wanted, LabelTypes("str"), layout))
        assert [*values(chunks, "2"), *(bad(chunks) and ["", ""])] == found


FAULTS = [
    ("1,nan", "score: expected a finite number, got nan"),
    ("1_0,1", "label: expected an integer label, as the type of the labels is int, got '1_0'"),
    ("1,0.5\r1,0.5", "record: expected lines that end with a newline, got a carriage return"),
    ("1," + "x" * 200_000, "expected a field of at most 131,072 characters, got a longer"),
    ('1,"' + "x" * 200_000 + '"', "expected a field of at most 131,072 characters, got a longer"),
]


@pytest.mark.parametrize(("row", "message"), FAULTS)
@pytest.mark.parametrize("first", ["1,1", '"1",1'])
def test_faults_are_reported_with_their_line(row: str, message: str, first: str) -> None:
    chunks = read(f"label,score\n{first}\n{row}\n0,0\n", label_type="int")
    (record,) = bad(chunks)
    assert str(record).startswith("a.csv:3: ")
    assert message in str(record)
    assert values(chunks, "label") == [1, 0]
    assert lines(chunks) == [2, 4]


def test_bytes_that_are_not_utf8_and_a_line_of_ten_megabytes() -> None:
    data = b"label,x,score\n1,a,1\n1,\xff,1\n1," + b"y" * (10 << 20) + b",1\n1,\xc3\xa9,1\n"
    chunks = read(data)
    assert [str(record) for record in bad(chunks)] == [
        "a.csv:3: record: expected UTF-8 text, got byte 0xff; give --encoding with the encoding "
        "that the file was written in, such as cp1252",
        "a.csv:4: record: expected a line of at most 4 MiB, got a longer one",
    ]
    assert lines(chunks) == [2, 5]


def test_a_header_alone_is_no_record() -> None:
    assert sum(chunk.events.rows for chunk in read("label,score\n")) == 0
    assert sum(chunk.events.rows for chunk in read("label,score")) == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "a.csv: expected a header line that names the columns, got an empty file"),
        ("\n\n", "got an empty file"),
        (b"label,\xff\n", "got byte 0xff"),
        (
            "label,scor\n1,1\n",
            "one column 'score', got none among label, scor; did you mean 'scor'",
        ),
        ("label,score,score\n", "a.csv: expected one column 'score', got 2 among"),
    ],
)
def test_headers_that_do_not_do(data: bytes | str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(data)
    assert message in str(caught.value)


def test_probabilities_need_a_column_for_each_label() -> None:
    (record,) = bad(read("p\n0.5\n", FieldRequest("p", "probabilities")))
    assert record.expected == "an object label -> probability"
    assert record.remedy.startswith("give proba={label: column")


@pytest.mark.parametrize(
    ("cells", "label_type", "labels"),
    [
        (["0", "1"], None, [0, 1]),
        (["1.0", "-2"], None, [1, -2]),
        (["true", "False"], None, [True, False]),
        (["0", "true"], None, ["0", "true"]),
        (["007", "7"], None, ["007", "7"]),
        (["0", "1"], "str", ["0", "1"]),
        (["TRUE"], "bool", [True]),
        (["9" * 30, "1"], None, [int("9" * 30), 1]),
    ],
)
def test_label_types(cells: list[str], label_type: LabelType | None, labels: list[Any]) -> None:
    data = "label\n" + "\n".join(cells) + "\n"
    found = values(read(data, LABEL, label_type=label_type), "label")
    assert found == labels
    assert [isinstance(a, str) for a in found] == [isinstance(b, str) for b in labels]


def test_a_type_once_found_holds_for_later_files() -> None:
    types = LabelTypes()
    first, second = (
        list(read_csv(io.BytesIO(data), "a.csv", [LABEL], types))
        for data in (b"label\n1\n", b"label\nspam\n2\n")
    )
    assert values(first, "label") == [1]
    assert values(second, "label") == [2]
    assert bad(second)[0].remedy_code == "label_type"
    assert str(bad(second)[0]).endswith("; choose the type with --label-type")


def test_label_columns_that_look_different_are_refused() -> None:
    with pytest.raises(InputError, match="got t int, p str; say which with label_type="):
        read("t,p\n1,spam\n", FieldRequest("t", "label"), FieldRequest("p", "label"))
    chunks = read("t,p\n1,true\n", FieldRequest("t", "label"), FieldRequest("p", "label"))
    assert values(chunks, "p") == [True]


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

    def found() -> list[Any]:
        types = LabelTypes("str")
        result = []
        for want in ([LABEL, SCORE], [LABEL, FieldRequest("score", "slice")]):
            chunks = list(read_csv(io.BytesIO(data), "a.csv", want, types, layout))
            result += [values(chunks, path) for path in ("label", "score")]
            result += [lines(chunks), bad(chunks)]
            result += [type(chunk.events.columns["score"]) for chunk in chunks]
        return list(map(repr, result))

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
    chunks = read("\n".join(["label,score", *(f"a,{text}" for text in texts)]))
    assert values(chunks, "score") == list(map(float, texts))
