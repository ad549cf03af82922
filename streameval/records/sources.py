"""Paths and patterns of a command line to chunks of records."""

from __future__ import annotations

import glob
import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import BinaryIO, Literal, TypeAlias, get_args

from streameval.errors import InputError, shown
from streameval.records.arrow import parquet_columns, read_parquet
from streameval.records.blocks import Readable
from streameval.records.chunk import Chunk, Wanted
from streameval.records.csv_table import LabelTypes, csv_columns, read_csv
from streameval.records.jsonl import read_jsonl
from streameval.records.remote import is_remote, open_remote, remote_files, remote_size

Format: TypeAlias = Literal["jsonl", "csv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)

_ENDINGS: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


@dataclass(frozen=True, slots=True)
class Source:
    """One file, or the standard input."""

    path: str
    """``-`` is the standard input."""
    format: Format
    gzipped: bool = False

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "<stdin>" if self.path == "-" else self.path

    @property
    def size(self) -> int | None:
        """Bytes on disk; None where that is unknown."""
        if self.path == "-":
            return None
        if is_remote(self.path):
            return remote_size(self.path)
        try:
            return os.path.getsize(self.path) or None
        except OSError:
            return None


def find_sources(arguments: Sequence[str], format: Format | None = None) -> list[Source]:
    """The sources that paths and patterns name.

    Args:
        arguments: As for :func:`find_paths`, or ``-``.
        format: None infers it from the name's ending; the standard input is JSONL.

    Raises:
        InputError: As :func:`find_paths`, or an unknown ending.
    """
    return [_source(path, format) for path in find_paths(arguments)]


def find_paths(arguments: Sequence[str]) -> list[str]:
    """The files that paths and patterns name, in their order; a pattern's files sorted.

    Args:
        arguments: Paths or URLs, or patterns with ``*``, ``?``, ``[…]`` or ``**`` (a
            file of exactly that name comes first).

    Raises:
        InputError: No such file, a directory, or a file that is named twice,
            whose events would count twice.
    """
    paths: list[str] = []
    seen: set[str] = set()
    for argument in arguments:
        for path in _paths(argument):
            identity = path if path == "-" or is_remote(path) else os.path.realpath(path)
            if identity in seen:
                raise InputError(
                    path, expected="each file once", got="it twice; its events would count twice"
                )
            seen.add(identity)
            paths.append(path)
    return paths


def _paths(argument: str) -> list[str]:
    if argument == "-":
        return [argument]
    if is_remote(argument):
        return remote_files(argument)
    if os.path.isdir(argument):
        pattern = os.path.join(argument, "*.jsonl")
        raise InputError(argument, expected="a file", got="a directory", remedy=f"give '{pattern}'")
    if os.path.exists(argument):
        return [argument]
    if glob.has_magic(argument):
        paths = sorted(p for p in glob.glob(argument, recursive=True) if not os.path.isdir(p))
        if paths:
            return paths
        raise InputError(argument, expected="a pattern that some file matches", got="no match")
    raise InputError(argument, expected="a file", got="no such file")


def _source(path: str, format: Format | None) -> Source:
    gzipped = path.lower().endswith(".gz")
    if path == "-":
        return Source(path, format or "jsonl")
    ending = os.path.splitext(path[:-3] if gzipped else path)[1].lower()
    chosen = format or _ENDINGS.get(ending)
    if chosen is None:
        raise InputError(
            path,
            expected="a name that ends in .jsonl, .csv or .parquet",
            got=shown(ending) if ending else "no ending",
            remedy='say what it is with input_format="jsonl", "csv" or "parquet"',
            remedy_code="input_format",
        )
    if gzipped and chosen == "parquet":
        raise InputError(
            path,
            expected="Parquet as it is",
            got="it in gzip",
            remedy="Parquet is compressed inside; run gunzip first",
        )
    return Source(path, chosen, gzipped)


def column_names(source: Source) -> list[str] | None:
    """The columns of a CSV or Parquet file; None where records have none before they are read.

    Raises:
        InputError: The file cannot be read.
        MissingExtraError: Parquet without pyarrow.
    """
    if source.path == "-" or source.format == "jsonl":
        return None
    with _unpacked(source), _opened(source.path) as file:
        if source.format == "parquet":
            return parquet_columns(file, source.name)
        return csv_columns(_stream(source, file), source.name)


def read_source(
    source: Source,
    wanted: Sequence[Wanted],
    label_types: LabelTypes,
    stdin: BinaryIO,
    progress: Callable[[int], None] = lambda position: None,
) -> Iterator[Chunk]:
    """The chunks of one source; ``progress`` is called with the position in the file after each.

    Raises:
        InputError: The file as a whole cannot be read.
        MissingExtraError: Parquet without pyarrow.
    """
    sized = bool(source.size)
    with (
        _unpacked(source),
        nullcontext(stdin) if source.path == "-" else _opened(source.path) as file,
    ):
        for chunk in _chunks(source, file, wanted, label_types):
            yield chunk
            progress(file.tell() if sized else 0)


@contextmanager
def _unpacked(source: Source) -> Iterator[None]:
    """Raise InputError where the gzip file read inside is damaged."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            source.name, expected="a whole gzip file", got=f"damage: {error}"
        ) from None


def _opened(path: str) -> BinaryIO:
    if is_remote(path):
        return open_remote(path)
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        got = error.strerror or str(error)
        raise InputError(path, expected="a file that can be read", got=got) from None


def _chunks(
    source: Source, file: BinaryIO, wanted: Sequence[Wanted], label_types: LabelTypes
) -> Iterator[Chunk]:
    if source.format == "parquet":
        if file.seekable():
            yield from read_parquet(file, source.name, wanted)
            return
        # Parquet is read from its end, and a pipe cannot seek.
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            yield from read_parquet(copy, source.name, wanted)
        return
    stream = _stream(source, file)
    if source.format == "jsonl":
        yield from read_jsonl(stream, source.name, wanted)
    else:
        yield from read_csv(stream, source.name, wanted, label_types)


def _stream(source: Source, file: BinaryIO) -> Readable:
    return gzip.GzipFile(fileobj=file) if source.gzipped else file
