"""Paths, patterns, formats, compression."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

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
    for name in ("b.jsonl", "a.jsonl", "c[1].jsonl", "deep/d.jsonl", "e.csv"):
        path = here / name
        path.parent.mkdir(exist_ok=True)
        path.touch()


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["e.csv", "*.jsonl"], ["e.csv", "a.jsonl", "b.jsonl", "c[1].jsonl"]),
        (["**/[cd]*.jsonl"], ["c[1].jsonl", "deep/d.jsonl"]),
        (["c[1].jsonl"], ["c[1].jsonl"]),
        (["[a]*"], ["a.jsonl"]),
    ],
)
def test_patterns_are_sorted_and_arguments_keep_their_order(
    files: None, arguments: list[str], found: list[str]
) -> None:
    assert find_paths(arguments) == found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.jsonl"], "no.jsonl: expected a file, got no such file"),
        (["no*.jsonl"], "no*.jsonl: expected a pattern that some file matches, got no match"),
        (["deep"], "deep: expected a file, got a directory; give 'deep/*'"),
        (["a.jsonl", "*.jsonl"], "a.jsonl: expected each file once, got it twice"),
        (["a.jsonl", "./a.jsonl"], "./a.jsonl: expected each file once, got it twice"),
        (["-", "-"], "-: expected each file once, got it twice"),
    ],
)
def test_arguments_that_do_not_do(files: None, arguments: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        find_paths(arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("-", InputFile("-", "jsonl")),
        ("x.jsonl", InputFile("x.jsonl", "jsonl")),
        ("x.JSON", InputFile("x.JSON", "jsonl")),
        ("x.ndjson.gz", InputFile("x.ndjson.gz", "jsonl", "gzip")),
        ("x.csv.gz", InputFile("x.csv.gz", "csv", "gzip")),
        ("x.csv.XZ", InputFile("x.csv.XZ", "csv", "xz")),
        ("x.tsv.bz2", InputFile("x.tsv.bz2", "tsv", "bz2", Layout("\t"))),
        ("x.feather", InputFile("x.feather", "arrow")),
        ("x.parquet", InputFile("x.parquet", "parquet")),
    ],
)
def test_formats_by_ending(here: Path, name: str, source: InputFile) -> None:
    (here / name).touch()
    assert find_sources([name]) == [source]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.txt", "that ends in .jsonl, .csv, .tsv, .parquet, .arrow or .feather, got '.txt'; say"),
        ("x", "got no ending"),
        ("x.parquet.gz", "x.parquet.gz: expected Parquet as it is, got it in gzip"),
        ("x.arrow.zst", "x.arrow.zst: expected Arrow as it is, got it in zstd"),
    ],
)
def test_endings_that_tell_nothing(here: Path, name: str, message: str) -> None:
    (here / name).touch()
    with pytest.raises(InputError) as caught:
        find_sources([name])
    assert message in str(caught.value)
    if name == "x":
        assert find_sources([name], "csv") == [InputFile("x", "csv")]


def test_stdin_and_gzip(tmp_path: Path) -> None:
    assert labels(InputFile("-", "jsonl"), io.BytesIO(b'{"y": 1}\n')) == [1]
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"y\n1\n"))
    assert labels(InputFile(str(path), "csv", "gzip")) == [1]
    for stdin in (b"y\n1\n", path.read_bytes()):
        assert labels(InputFile("-", "csv"), io.BytesIO(stdin)) == [1]


def test_parquet_from_a_pipe(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    path = tmp_path / "a.parquet"
    parquet.write_table(arrow.table({"y": ["a", "b"]}), path)
    source = InputFile("-", "parquet")
    found = Chunks(read_source(source, WANTED, LabelTypes(), Pipe(path.read_bytes())))
    assert (found["y"], found.chunks[0].source) == (["a", "b"], "<stdin>")


@pytest.mark.parametrize("damage", ["cut", "checksum", "stream"])
def test_damaged_gzip(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a.jsonl.gz"
    data = bytearray(gzip.compress(b'{"y": 1}\n' * 1000))
    if damage == "cut":
        del data[-12:]
    elif damage == "checksum":
        data[-6] ^= 1
    else:
        data[10] = 0xFF  # a kind of block that does not exist
    path.write_bytes(data)
    with pytest.raises(InputError, match="expected a whole gzip file, got damage"):
        labels(InputFile(str(path), "jsonl", "gzip"))


def test_progress_hears_positions(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"y": 1}\n' * 300_000)
    heard: list[int] = []
    source = InputFile(str(path), "jsonl")
    for _ in read_source(source, WANTED, LabelTypes(), io.BytesIO(), heard.append):
        pass
    assert heard == sorted(heard)
    assert heard[-1] == source.size == 2_700_000
