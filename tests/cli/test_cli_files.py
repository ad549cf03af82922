"""Files as people have them: dialects, encodings, compression, directories, missing values."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tracemalloc
import zlib
from functools import partial
from pathlib import Path

import pyarrow as arrow
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.errors import OptionError
from streameval.records.blocks import BLOCK_BYTES
from streameval.records.compression import decompressed
from streameval.records.layout import Recoded
from tests.support.command_runs import Command

BINARY = ("--y-true", "y", "--score", "s", "--metrics", "roc_auc")
PROBA = ("--y-true", "y", "--proba", "p", "--metrics", "log_loss")
SKIP = ("--on-bad", "skip", "--max-bad", "1")
LABEL = "y: expected a label (text, an integer or true/false), got "
ABSENT = LABEL + "no field 'y'; the record has "
TOO_LONG = "record: expected a line of at most 4 MiB, got one of 5,242,894 bytes"
BROKEN = "record: expected a whole JSON object on one line, got '{'"
AROUND, NAMELESS = "an object around its records", "rows without names"
NA = ("--na-values", "NA,-999")
GOOD = b"y,s\n1,0.9\n0,0.4\n1,0.3\n"


def zstd(data: bytes) -> bytes:
    packed: bytes = arrow.compress(data, "zstd", asbytes=True)
    return packed


def large_xz() -> bytes:
    """An xz file that declares a dictionary of 4 GiB."""
    data = bytearray(lzma.compress(GOOD))
    end = 12 + (data[12] + 1) * 4
    data[16] = 40
    data[end - 4 : end] = zlib.crc32(data[12 : end - 4]).to_bytes(4, "little")
    return bytes(data)


PACKED = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}

OTHER_SHAPES = (
    *(
        (text, f"{expected}; the file holds {shape}: write an array of objects or an object a line")
        for text, expected, shape in (
            (b'{"y":{"0":1},"s":{"0":1}}', LABEL + "an object", "columns"),
            (b'{"y":{"0":"' + b"x" * (5 << 20) + b'"}}', TOO_LONG, "columns"),
            (b'{"0":{"y":1,"s":2}}', ABSENT + "0", "rows by their index"),
            (b'{"data":[{"y":1,"s":2}]}', ABSENT + "data", AROUND),
            (b'{"columns":["y"],"data":[[1]]}', ABSENT + "columns, data", AROUND),
            (b'{\n  "data": [\n', BROKEN, AROUND),
            (b"[[1, 2], [0, 3]]", "record: expected a JSON object, got an array", NAMELESS),
        )
    ),
    # Records of a task whose field looks so.
    (b'{"p":{"0":1},"s":1}', ABSENT + "p, s; nothing was reported"),
)

P_ANY = ("--y-true", "y", "--proba", "p_*")
HAM = (*BINARY, "--negative", "ham")
LATIN, UTF16, CP1252 = ((*BINARY, "--encoding", one) for one in ("latin-1", "utf-16", "cp1252"))
TWO_BYTES = "y,s\n1,0.9\n".encode("utf-16")
# Of options alone: tests/golden/option_errors.json.
BAD: list[tuple[str, bytes, tuple[str, ...], str]] = [
    ("a.csv.gz", GOOD, BINARY, "expected a gzip file, as its name says, got one that is not compr"),
    ("a.csv.gz", bz2.compress(GOOD), BINARY, "expected a gzip file, as its name says, got a bz2"),
    ("a.csv.gz", b"", BINARY, "expected a gzip file, as its name says, got an empty file"),
    *(
        (f"a.csv{ending}", pack(GOOD * 999)[:-9], BINARY, "expected a whole ")
        for ending, pack in PACKED.items()
    ),
    ("a.csv.xz", lzma.compress(GOOD) + b"more", BINARY, "expected a whole xz file, got damage"),
    ("a.csv.xz", large_xz(), BINARY, "got damage: Memory usage limit exceeded"),
    ("a.csv", "y,s,g\n1,0.9,ö\n".encode("latin-1"), BINARY, ":2: record: expected UTF-8 text, g"),
    ("a.csv", TWO_BYTES[:-1], BINARY, "expected text in utf-16, got byte"),
    ("a.csv", TWO_BYTES, LATIN, "expected one column 'y', got none among"),
    ("a.csv", TWO_BYTES[:-1], UTF16, "expected text in utf-16, got byte"),
    ("a.csv", b"y,s,g\n1,0.9,x\n0,0.1,\x81\n", CP1252,
     ":3: expected text in cp1252, got byte 0x81 (character maps to <undefined>); give --enc"),
    *(("a.json", text, BINARY, f"a.json:1: {message}") for text, message in OTHER_SHAPES),
    ("a.json", b'[{"y": 1, "s": 2}, {"y', (*BINARY, *SKIP),
     "a.json: expected a whole JSON array, got the end of the file in or behind record 2;"),
    ("a.csv", b"y,s\n1,0.5\n1\n", BINARY, ":3: record: expected 2 fields, as the header has, "),
    ("a.csv", b"", (*BINARY, "--no-header"), "expected rows, got an empty file"),
    ("a.csv", GOOD, (*BINARY, "--no-header"), "expected one column 'y', got none among 1, 2"),
    ("a.csv", GOOD, (*BINARY, "--delimiter", '"'), "--delimiter: expected one character, such as"),
    ("a.csv", GOOD, (*BINARY, "--encoding", "rot13"), "--encoding: expected an encoding of text"),
    ("a.jsonl", b"{}", (*BINARY, "--delimiter", ";"), "--delimiter requires a CSV file"),
    ("a.jsonl", b"{}", (*BINARY, "--no-header"), "--no-header requires a CSV file"),
    ("a.csv", b"y,s\nham,1\nspam,2\neggs,3\n", (*HAM, "--positive", "spam"),
     ":4: y: expected 'ham' or the positive label 'spam', got 'eggs'"),
    ("a.csv", b"y,s\nham,1\nx,2\nz,3\n", HAM, "give --positive LABEL"),
    ("a.feather", b"FEA1....", BINARY, "expected Feather of version 2, which is an Arrow file, "),
    ("a.arrow", b"ARROW1\0\0" + bytes(99), BINARY, "expected a whole Arrow file, got damage"),
    ("a.arrow", GOOD, BINARY, "expected a whole Arrow file, got damage"),
    ("a.jsonl", b"[1]", P_ANY, "expected a JSON object, got 1"),
    ("a.jsonl", b"\n\n", P_ANY, "expected records, for the names of"),
    # Before the file is read.
    ("a.jsonl", b"no record", ("--y-pred", "p", "--metrics", "log_loss"), "log_loss needs proba"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "options", "message"), BAD, ids=range(len(BAD)))
def test_bad_files_are_refused_in_one_line(
    run: Command, tmp_path: Path, name: str, data: bytes, options: tuple[str, ...], message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    result = run("evaluate", path, *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.count("\n") == 1


def test_a_list_of_another_length_is_a_bad_record(run: Command, tmp_path: Path) -> None:
    lists = ["[0.5, 0.5]", "[0.5, 0.25, 0.25]", "[NaN, 0.5]", "[null, 1]", "[]", "[0.25, 0.75]"]
    both = list(zip("ababab", lists, strict=True))
    (tmp_path / "a.jsonl").write_text("\n".join(f'{{"y": "{y}", "p": {p}}}' for y, p in both))
    (tmp_path / "a.csv").write_text("\n".join(["y,p", *(f'{y},"{p}"' for y, p in both)]))
    table = arrow.table({"y": list("ababab"), "p": [json.loads(text) for text in lists]})
    arrow.parquet.write_table(table, tmp_path / "a.parquet")
    arrow.feather.write_feather(table, str(tmp_path / "a.feather"))
    good = se.evaluate(
        {"y": ["a", "b"], "p": [{"a": 0.5, "b": 0.5}, {"a": 0.25, "b": 0.75}]},
        y_true="y",
        proba="p",
        labels=["a", "b"],
        metrics="log_loss",
    )
    for name in ("a.jsonl", "a.csv", "a.parquet", "a.feather"):
        state = tmp_path / f"{name}.state"
        result = run("evaluate", tmp_path / name, *PROBA, "--labels", "a,b", *SKIP, "--save", state)
        assert result.code == 0, result.err
        assert "skipped 4 bad records" in result.err
        assert "p: expected a list of 2 probabilities, one for each label, got 3" in result.err
        assert state.read_bytes() == good.to_bytes(), name


def test_rows_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(GOOD)
    (tmp_path / "b.csv").write_bytes(GOOD.partition(b"\n")[2])
    (tmp_path / "c.csv").write_bytes(b'1,"0.9"\n0,0.4\n1,0.3\n')
    expected = se.evaluate(tmp_path / "a.csv", y_true="y", score="s")
    for name in ("b.csv", "c.csv"):
        assert se.evaluate(tmp_path / name, y_true="1", score="2", header=False) == expected
    with pytest.raises(OptionError, match="header requires a CSV file"):
        se.evaluate(_jsonl(tmp_path), y_true="y", score="s", header=False)


def _jsonl(folder: Path) -> Path:
    path = folder / "a.jsonl"
    path.write_text('{"y": 1, "s": 0.9}\n{"y": 0, "s": 0.4}\n{"y": 1, "s": 0.3}\n')
    return path


def test_missing_values(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("y,s,g\n1,0.9,NA\nNA,0.8,x\n0,-999,x\n0,0.1,x\n,0.1,x\n")
    sliced = ("evaluate", path, *BINARY, *SKIP, "--slice", "g", "--format=json")
    for more, bad, groups in (((), 2, {"NA", "x"}), (NA, 3, {"(missing)", "x"})):
        found = json.loads(run(*sliced, *more).out)
        assert found["bad_records"]["count"] == bad
        assert {one["slice"]["g"] for one in found["slices"]["slices"]} == groups
    classes = ("--y-true", "y", "--y-pred", "y", "--na-values", "", *SKIP, "--format=json")
    assert json.loads(run("evaluate", path, *classes).out)["bad_records"]["count"] == 1


def test_fields_of_directories(run: Command, tmp_path: Path) -> None:
    for field, rows in (
        ("events/y=1/c=S%20E", b"s\n0.9\n0.3\n"),
        ("events/y=0/c=__HIVE_DEFAULT_PARTITION__", b"s\n0.4\n"),
        ("y=0", GOOD),
    ):
        folder = tmp_path / field
        folder.mkdir(parents=True)
        (folder / "a.csv").write_bytes(rows)
        (folder / ".a.csv.crc").touch()
    ev = se.evaluate(tmp_path / "events", y_true="y", score="s", by="c")
    assert ev["roc_auc"] == 0.5
    assert {key[0][1] for key in ev.slices()} == {"S E", "(missing)"}
    # A column of the file comes before a directory's name.
    own = se.evaluate(tmp_path / "y=0", y_true="y", score="s")
    assert own == se.evaluate(_jsonl(tmp_path), y_true="y", score="s")
    (tmp_path / "empty").mkdir()
    said = "expected a directory with files, got none in it"
    assert said in run("evaluate", tmp_path / "empty", *BINARY).err


def test_times_without_a_zone_are_refused(run: Command, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "y,s,at\n1,0.9,2026-03-01 12:00:00\n0,0.1,2026-03-01 12:00:01\n"
    )
    arrow.parquet.write_table(arrow.csv.read_csv(tmp_path / "a.csv"), tmp_path / "a.parquet")
    states = set()
    for name in ("a.csv", "a.parquet"):
        timed = (tmp_path / name, *BINARY, "--time", "at", "--window", "panes:1h")
        refused = run("evaluate", *timed)
        assert refused.code == 2
        assert "or declare with --utc that such times are UTC" in refused.err
        assert run("evaluate", *timed, "--utc", "--save", tmp_path / "state").code == 0
        states.add((tmp_path / "state").read_bytes())
    assert len(states) == 1


class _Few(io.BytesIO):
    """Bytes that are read a few at a time, as of a pipe."""

    most = 1 << 16

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, self.most))


def test_a_bomb_is_read_in_bounded_memory() -> None:
    for pack in (gzip.compress, bz2.compress, lzma.compress):
        packed = pack(bytes(16 << 20))
        tracemalloc.start()
        stream = decompressed(_Few(packed), "a", None)
        read = sum(map(len, iter(partial(stream.read, BLOCK_BYTES), b"")))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert read == 16 << 20
        assert peak < 12 << 20


@given(st.text(), st.sampled_from(["utf-16", "utf-32", "utf-8-sig", "gb18030"]), st.integers(1, 9))
def test_text_of_another_encoding(text: str, encoding: str, most: int) -> None:
    few = _Few(text.encode(encoding))
    few.most = most
    stream = Recoded(few, encoding, "a")
    assert b"".join(iter(lambda: stream.read(4), b"")).decode() == text


def test_the_compare_command_reads_the_same(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(gzip.compress(b"ham;0.1;0.2\nspam;0.9;0.8\n"))
    options = "--input-format csv --delimiter ; --no-header --negative ham --y-true 1"
    models = ["--score", "a=2", "--score", "b=3", "--metrics", "accuracy"]
    result = run("compare", path, *options.split(), *models)
    assert (result.code, "accuracy" in result.out) == (0, True), result.err
