"""Paths, patterns, formats, compression."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path
from typing import Any

import pytest

from streameval.errors import InputError
from streameval.records.chunk import FieldRequest
from streameval.records.csv_table import LabelTypes
from streameval.records.input_files import InputFile, find_paths, find_sources, read_source
from streameval.records.layout import Layout
from tests.support.read_chunks import Chunks

WANTED = [FieldRequest("y", "label")]


def labels(source: InputFile, stdin: io.BytesIO | None = None) -> list[object]:
    return Chunks(read_source(source, WANTED, LabelTypes(), stdin or io.BytesIO()))["y"]


@pytest.fixture
def files(here: Path) -> None:
    (here / "deep").mkdir()
    for name in ("b.jsonl", "a.jsonl", "c[1].jsonl", "deep/d.jsonl", "e.csv"):
        (here / name).touch()
    for name in ("x", "x.txt", "x.parquet.gz", "x.arrow.zst"):
        (here / name).touch()


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["e.csv", "*.jsonl"], ["e.csv", "a.jsonl", "b.jsonl", "c[1].jsonl"]),
        (["**/[cd]*.jsonl"], ["c[1].jsonl", "deep/d.jsonl"]),
        (["c[1].jsonl"], ["c[1].jsonl"]),
    ],
)
def test_patterns_are_sorted_and_arguments_keep_their_order(
    files: None, arguments: list[str], found: list[str]
) -> None:
    assert find_paths(arguments) == found
    with pytest.raises(InputError, match=r"deep: expected a file, got a directory; give 'deep/\*'"):
        find_paths(["deep"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.jsonl"], "no.jsonl: expected a file, got no such file"),
        (["no*.jsonl"], "no*.jsonl: expected a pattern that some file matches, got no match"),
        (["a.jsonl", "*.jsonl"], "a.jsonl: expected each file once, got it twice"),
        (["a.jsonl", "./a.jsonl"], "./a.jsonl: expected each file once, got it twice"),
        (["-", "-"], "-: expected each file once, got it twice"),
        (["x.txt"], "in .jsonl, .csv, .tsv, .parquet, .arrow or .feather, got '.txt'; say"),
        (["x"], "got no ending"),
        (["x.parquet.gz"], "x.parquet.gz: expected Parquet as it is, got it in gzip"),
        (["x.arrow.zst"], "x.arrow.zst: expected Arrow as it is, got it in zstd"),
    ],
)
def test_arguments_that_do_not_do(files: None, arguments: list[str], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        find_sources(arguments)
    assert find_sources(["x"], "csv") == [InputFile("x", "csv")]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("-", ("jsonl",)),
        ("x.JSON", ("jsonl",)),
        ("x.ndjson.gz", ("jsonl", "gzip")),
        ("x.csv.XZ", ("csv", "xz")),
        ("x.tsv.bz2", ("tsv", "bz2", Layout("\t"))),
        ("x.feather", ("arrow",)),
        ("x.parquet", ("parquet",)),
    ],
)
def test_formats_by_ending(here: Path, name: str, kind: tuple[Any, ...]) -> None:
    (here / name).touch()
    assert find_sources([name]) == [InputFile(name, *kind)]


def test_stdin_and_gzip() -> None:
    for stdin in (b"y\n1\n", gzip.compress(b"y\n1\n")):
        assert labels(InputFile("-", "csv"), io.BytesIO(stdin)) == [1]


def test_parquet_from_a_pipe() -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    data = io.BytesIO()
    parquet.write_table(arrow.table({"y": ["a", "b"]}), data)
    assert labels(InputFile("-", "parquet"), Pipe(data.getvalue())) == ["a", "b"]


# Archives that are cut short: tests/cli/test_cli_files.py.
@pytest.mark.parametrize("place", [-6, 10], ids=["checksum", "kind of block"])
def test_damaged_gzip(tmp_path: Path, place: int) -> None:
    path, data = tmp_path / "a.jsonl.gz", bytearray(gzip.compress(b'{"y": 1}\n' * 1000))
    data[place] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InputError, match="expected a whole gzip file, got damage"):
        labels(InputFile(str(path), "jsonl", "gzip"))
