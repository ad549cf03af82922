"""Output of the commands: results on stdout, messages on stderr, exit codes."""

from __future__ import annotations

import csv
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import SimpleNamespace
from typing import Any

import msgspec

from streameval.cli.streams import BAD_INPUT, FAILURE
from streameval.cli.streams import say as say
from streameval.cli.streams import write as write
from streameval.errors import MissingExtraError, SourceError, StoreError, StreamevalError
from streameval.evaluator.reports import Table
from streameval.records.chunk import KEPT, BadRecords
from streameval.tables import markdown_text


class TargetError(StreamevalError):
    """A file cannot be written: a failure, not bad input."""


class Format(StrEnum):
    """Format of a result."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    CSV_RAW = "csv-raw"
    MARKDOWN = "markdown"
    HTML = "html"

    @property
    def is_csv(self) -> bool:
        """Whether it is CSV: for spreadsheets, or with every cell as it is."""
        return self in (Format.CSV, Format.CSV_RAW)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a result: a table with its title, lines beneath it, or one of the two."""

    title: str = ""
    table: Table | None = None
    notes: tuple[str, ...] = ()
    kind: str = ""
    """What the table is of, for pages: ``slices``, for instance."""


def exit_code(error: BaseException) -> int:
    """The exit code of an error that ends a command."""
    failures = (MissingExtraError, SourceError, StoreError, TargetError, OSError, MemoryError)
    return FAILURE if isinstance(error, failures) else BAD_INPUT


def text_of(sections: Sequence[Section], format: Format) -> str:
    """Sections as plain text in the width of the terminal, or as Markdown."""
    markdown = format is Format.MARKDOWN
    parts = []
    for section in sections:
        title = section.title
        lines = [f"**{markdown_text(title)}**" if markdown else title] if title else []
        if section.table is not None:
            table = section.table
            lines.append(table.to_markdown() if markdown else table.to_text(terminal_width()))
        width = None if markdown else terminal_width()
        for note in section.notes:
            text = markdown_text(note) if markdown else note
            lines.extend([text] if width is None else textwrap.wrap(text, width))
        parts.append(("\n\n" if markdown else "\n").join(lines))
    return "\n\n".join(parts)


def terminal_width() -> int | None:
    """The columns of the terminal that the output is written to; None where it is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def csv_text(rows: Sequence[Mapping[str, Any]], format: Format = Format.CSV) -> str:
    """A CSV table with a header line and every digit; what is absent or undefined is empty."""
    header = list(rows[0]) if rows else []
    lines: list[str] = []
    # With this end of lines a lone carriage return in a cell is quoted too.
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n")
    table: list[list[Any]] = [header, *([row.get(name) for name in header] for row in rows)]
    for cells in table:
        # nan is the only value that differs from itself.
        known = [None if cell != cell else cell for cell in cells]
        writer.writerow(known if format is Format.CSV_RAW else map(_defused, known))
    return "\n".join(line.removesuffix("\r\n") for line in lines)


def _defused(cell: Any) -> Any:
    """The cell, a text that begins as a formula behind an apostrophe; a number is none."""
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def escaped(text: str) -> str:
    """Text of a stream with its unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def to_json(value: Any) -> str:
    """Indented JSON with keys in their order."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def check_target(path: str) -> None:
    """Check that a file can be written, before the input is read."""
    directory = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise TargetError(f"{path}: cannot be written: it is a directory")
    if not os.path.isdir(directory):
        raise TargetError(f"{path}: cannot be written: there is no directory {directory}")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise TargetError(f"{path}: cannot be written: the directory {directory} is read-only")


def say_bad_records(bad: BadRecords) -> None:
    """Print the skipped records on the standard error."""
    count = bad.count
    if count:
        which = "" if count <= len(bad.first) else f"; the first {len(bad.first)}"
        say(f"skipped {count:,} bad record{'s' if count > 1 else ''}{which}:")
        for record in bad.first:
            say(f"  {record}")


def say_reasons(bad: BadRecords, records: int) -> None:
    """Print the reasons of skipped records and their counts on the standard error."""
    say(f"of {records:,} records were skipped:")
    for (field, expected), count in bad.most_common(KEPT):
        say(f"  {count:,} ({count / records:.2%}) for {field}: expected {expected}")
    if len(bad.reasons) > KEPT:
        say(f"  and others for {len(bad.reasons) - KEPT} more reasons")
