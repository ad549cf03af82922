"""Paths, patterns and directories of a command line to chunks of records."""

from __future__ import annotations

import glob
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, BinaryIO
from urllib.parse import unquote

from streameval.errors import InputError, OptionError, shown
from streameval.records.arrow import arrow_columns, parquet_columns, read_arrow, read_parquet
from streameval.records.blocks import BLOCK_BYTES, LinesWithin, Readable
from streameval.records.chunk import BadRecords, Chunk, FieldRequest
from streameval.records.compression import (
    Codec,
    Rejoined,
    codec_of_bytes,
    codec_of_name,
    decompressed,
)
from streameval.records.csv_table import (
    LabelTypes,
    TextColumn,
    begins_with_blanks,
    csv_columns,
    read_csv,
    text_chunk,
)
from streameval.records.event_columns import EventColumns
from streameval.records.json_array import is_array
from streameval.records.json_records import jsonl_fields, read_jsonl
from streameval.records.layout import Format, Layout, Recoded, marked_encoding
from streameval.records.remote import is_remote, open_remote, remote_files, remote_size
from streameval.records.wording import Wording

_ENDINGS_OF: dict[Format, tuple[str, ...]] = {
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".arrows", ".feather", ".ipc"),
}
_ENDINGS = {ending: format for format, endings in _ENDINGS_OF.items() for ending in endings}

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The directory of rows without a value, as Hive, Spark and others name it."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file, or the standard input."""

    path: str
    """``-`` is the standard input."""
    format: Format
    compression: Codec | None = None
    """As its name says; of text files only."""
    layout: Layout = field(default_factory=Layout)

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "<stdin>" if self.path == "-" else self.path

    @property
    def is_pipe(self) -> bool:
        """Whether what is read of it is gone: the standard input, a named pipe, ``<(…)``."""
        if self.path == "-":
            return True
        if is_remote(self.path):
            return False
        try:
            return not stat.S_ISREG(os.stat(self.path).st_mode)
        except OSError:  # it is refused where it is opened
            return False

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

    @property
    def partitions(self) -> dict[str, str]:
        """From field to text, of directories named ``field=text`` on its path."""
        found = {}
        for part in self.path.replace(os.sep, "/").split("/")[:-1]:
            name, equals, text = part.partition("=")
            if name and equals:
                found[unquote(name)] = "" if text == _NO_VALUE else unquote(text)
        return found


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A range of a file's bytes: the lines, or row groups, that begin within it."""

    # A record's line is ``begin`` plus the number of the line inside the span, from 1, which is in
    # the order of the file. Its number in the file takes the lines before, see lines_of().
    begin: int
    end: int
    size: int
    """Of the file."""
    columns: list[str] | None = None
    """Of CSV: the names in the header, where the span does not begin with it."""


def can_be_cut(source: InputFile) -> bool:
    """Whether parts of the file can be read by themselves: see :class:`ByteRange`."""
    if source.format == "arrow" or source.compression or source.layout.encoding:
        return False
    if source.is_pipe or is_remote(source.path):
        return False
    with _opened(source.path) as file:
        head = file.read(BLOCK_BYTES) if file.seekable() else b""
    if not head or codec_of_bytes(head) or marked_encoding(head, source.name):
        return False
    if source.format == "jsonl":
        return not is_array(head)
    return not (source.format in ("csv", "tsv") and begins_with_blanks(head, source.layout))


def lines_of(source: InputFile, begin: int, end: int) -> int:
    """How many lines of a text file begin within a range of its bytes."""
    with _opened(source.path) as file:
        lines = LinesWithin(file, begin, end)
        return sum(data.count(b"\n") for data in iter(partial(lines.read, BLOCK_BYTES), b""))


def find_sources(
    arguments: Sequence[str], format: Format | None = None, layout: Layout | None = None
) -> list[InputFile]:
    """The files that paths, patterns, directories and ``-`` name; raises InputError."""
    paths = find_paths(arguments, directories=True)
    return [_source(path, format, layout or Layout()) for path in paths]


def check_layout(sources: Iterable[InputFile], layout: Layout, wording: Wording) -> None:
    """Raise OptionError for an option of text files where no source is one."""
    formats = {source.format for source in sources}
    of_csv = {
        "delimiter": layout.delimiter is not None,
        "na_values": layout.missing is not None,
        "header" if not wording.command else "no_header": not layout.header,
    }
    for name, given in of_csv.items():
        if given and not formats & {"csv", "tsv"}:
            raise OptionError.requires(wording.where(name), "a CSV file")
    if layout.encoding is not None and not formats & {"csv", "tsv", "jsonl"}:
        raise OptionError.requires(wording.where("encoding"), "a CSV or JSONL file")


def find_paths(arguments: Sequence[str], *, directories: bool = False) -> list[str]:
    """The files that paths and patterns name, in their order; raises InputError."""
    paths: list[str] = []
    seen: set[str] = set()
    for argument in arguments:
        for path in _paths(argument, directories):
            identity = path if path == "-" or is_remote(path) else os.path.realpath(path)
            if identity in seen:
                raise InputError(
                    path, expected="each file once", got="it twice; its events would count twice"
                )
            seen.add(identity)
            paths.append(path)
    return paths


def _paths(argument: str, directories: bool) -> list[str]:
    if argument == "-":
        return [argument]
    if is_remote(argument):
        return remote_files(argument, directories=directories)
    if os.path.isdir(argument):
        if directories:
            return _files_below(argument)
        pattern = os.path.join(argument, "*")
        raise InputError(argument, expected="a file", got="a directory", remedy=f"give '{pattern}'")
    if os.path.exists(argument):
        return [argument]
    if glob.has_magic(argument):
        found = sorted(glob.glob(argument, recursive=True))
        paths = [path for path in found if not os.path.isdir(path)]
        if directories and not paths:  # such as 'country=*'
            paths = [path for folder in found for path in _files_below(folder)]
        if paths:
            return paths
        raise InputError(argument, expected="a pattern that some file matches", got="no match")
    raise InputError(argument, expected="a file", got="no such file")


def _files_below(folder: str) -> list[str]:
    paths = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        paths += [os.path.join(place, name) for name in names if not name.startswith((".", "_"))]
    if not paths:
        raise InputError(folder, expected="a directory with files", got="none in it")
    return sorted(paths)


def _source(path: str, format: Format | None, layout: Layout) -> InputFile:
    codec, name = codec_of_name(path)
    ending = os.path.splitext(name)[1].lower()
    chosen = format or ("jsonl" if path == "-" else _ENDINGS.get(ending))
    if chosen is None:
        raise InputError(
            path,
            expected="a name that ends in .jsonl, .csv, .tsv, .parquet, .arrow or .feather",
            got=shown(ending) if ending else "no ending",
            remedy='say what it is with input_format="jsonl", "csv", "tsv", "parquet" or "arrow"',
            remedy_code="input_format",
        )
    if codec is not None and chosen in ("parquet", "arrow"):
        raise InputError(
            path,
            expected=f"{chosen.capitalize()} as it is",
            got=f"it in {codec}",
            remedy=f"{chosen.capitalize()} is compressed inside; decompress the file first",
        )
    if chosen == "json":  # lines and arrays are told apart by how they begin
        chosen = "jsonl"
    if chosen == "tsv" and layout.delimiter is None:
        layout = replace(layout, delimiter="\t")
    return InputFile(path, chosen, codec, layout)


def column_names(source: InputFile) -> list[str] | None:
    """The columns of a file, in JSONL of its first record; None of a pipe, which is read once."""
    if source.is_pipe:
        return None
    with _opened(source.path) as file:
        if source.format in ("parquet", "arrow"):
            with _seekable(source, file) as whole:
                columns = parquet_columns if source.format == "parquet" else arrow_columns
                return columns(whole, source.name)
        if source.format == "jsonl":
            return jsonl_fields(_stream(source, file), source.name)
        return csv_columns(_stream(source, file), source.name, source.layout)


def read_source(
    source: InputFile,
    fields: Sequence[FieldRequest],
    label_types: LabelTypes,
    stdin: BinaryIO,
    progress: Callable[[int], None] = lambda position: None,
    span: ByteRange | None = None,
) -> Iterator[Chunk]:
    """The chunks of a file or of its span; ``progress`` is called with the position after each."""
    sized = bool(source.size)
    of_path = _of_path(source, fields)
    inside = [one for one in fields if one.path not in of_path]
    with nullcontext(stdin) if source.path == "-" else _opened(source.path) as file:
        for chunk in _chunks(source, file, inside, label_types, span):
            if of_path:
                chunk = _with_path(chunk, of_path, fields, label_types, source)
            yield chunk
            progress(file.tell() if sized else 0)


def read_sources(
    sources: Iterable[InputFile],
    fields: Sequence[FieldRequest],
    label_types: LabelTypes,
    progress: Callable[[InputFile], Callable[[int], None]] = lambda source: lambda position: None,
) -> Iterator[Chunk]:
    """The chunks of files, one file after another; ``-`` is the standard input."""
    for source in sources:
        yield from read_source(source, fields, label_types, sys.stdin.buffer, progress(source))


def _of_path(source: InputFile, fields: Sequence[FieldRequest]) -> dict[str, str]:
    """The requested fields that are in the path; a column of the file comes first."""
    paths = {one.path for one in fields}
    found = {name: text for name, text in source.partitions.items() if name in paths}
    if found and source.format != "jsonl":
        for name in column_names(source) or ():
            found.pop(name, None)
    return found


def _with_path(
    chunk: Chunk,
    of_path: dict[str, str],
    fields: Sequence[FieldRequest],
    label_types: LabelTypes,
    source: InputFile,
) -> Chunk:
    """The chunk with the fields of the path, which are read as cells of CSV."""
    events = chunk.events
    more = [one for one in fields if one.path in of_path]
    texts = {one.column: TextColumn([of_path[one.path]] * events.rows) for one in more}
    bad = BadRecords()
    added = text_chunk(source.name, more, texts, events.places, label_types, source.layout, bad)
    chunk.bad.add_all(added.bad)
    if added.events.rows < events.rows:  # all are bad, for the same text
        events = events.select(slice(0, 0))
    both = events.columns | added.events.columns
    columns = {name: both[name] for one in fields for name in (one.column, *one.also)}
    return Chunk(chunk.source, EventColumns(columns, events.places), chunk.bad)


def _opened(path: str) -> BinaryIO:
    if is_remote(path):
        return open_remote(path)
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        got = error.strerror or str(error)
        raise InputError(path, expected="a file that can be read", got=got) from None


def _chunks(
    source: InputFile,
    file: BinaryIO,
    fields: Sequence[FieldRequest],
    label_types: LabelTypes,
    span: ByteRange | None,
) -> Iterator[Chunk]:
    if source.format == "parquet":
        within = (0.0, 1.0) if span is None else (span.begin / span.size, span.end / span.size)
        with _seekable(source, file) as whole:
            yield from read_parquet(whole, source.name, fields, within)
        return
    if source.format == "arrow":
        with _seekable(source, file) as whole:
            yield from read_arrow(whole, source.name, fields)
        return
    columns, first_line, cut = None, 1, False
    if span is None:
        lines = _stream(source, file)
    else:
        lines = LinesWithin(file, span.begin, span.end)
        columns, first_line = span.columns if span.begin else None, span.begin + 1
        cut = (span.begin, span.end) != (0, span.size)
    if source.format == "jsonl":
        yield from read_jsonl(lines, source.name, fields, first_line=first_line)
    else:
        yield from read_csv(
            lines,
            source.name,
            fields,
            label_types,
            source.layout,
            columns=columns,
            first_line=first_line,
            cut=cut,
        )


@contextmanager
def _seekable(source: InputFile, file: BinaryIO) -> Iterator[Any]:
    """The file, or a copy of a pipe: Parquet and Arrow files are read from their end."""
    if file.seekable():
        yield file
        return
    pipe = Rejoined(file)
    if source.format == "arrow" and not pipe.head.startswith(b"ARROW1"):
        yield pipe  # Arrow's stream is read from its beginning
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(pipe, copy)
        copy.seek(0)
        yield copy


def _stream(source: InputFile, file: BinaryIO) -> Readable:
    stream = decompressed(file, source.name, source.compression)
    encoding = source.layout.encoding
    if encoding is None:
        whole = Rejoined(stream)
        stream, encoding = whole.unread(), marked_encoding(whole.head, source.name)
    return stream if encoding is None else Recoded(stream, encoding, source.name)
