"""Rows of a CSV file, each with the line it began at; rows that cannot be read set aside."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from itertools import chain, islice
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from streameval.errors import InputError
from streameval.files.blocks import Readable, line_blocks
from streameval.files.chunk import BadRecord, BadRecords
from streameval.files.event_columns import Places

__all__ = ["CsvRows", "Rows"]

_ROWS = 8192
"""Rows converted at once: the rows of text are ten times the size of their columns."""

# Neither can come out of decoding UTF-8. The first stands for a line that was
# not read; the second is how "surrogateescape" keeps a byte that is not UTF-8.
_OVERLONG = "\ud800"
_FIRST_ESCAPED, _LAST_ESCAPED = "\udc80", "\udcff"


class _Lines:
    """Decoded text, for ``csv.reader`` line by line, for :class:`CsvRows` block by block."""

    def __init__(self, stream: Readable) -> None:
        self._blocks = line_blocks(stream)
        self._current = io.StringIO()
        self._put_back: list[str] = []
        self.marked = False  # some line so far was too long, or held bytes that are not UTF-8

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._texts())

    def _texts(self) -> Iterator[io.StringIO]:
        while text := self._put_back.pop() if self._put_back else self._next_text():
            # newline="\n": the carriage return stays for csv to judge.
            self._current = io.StringIO(text, newline="\n")
            yield self._current

    def _next_text(self) -> str:
        for block in self._blocks:
            if block.overlong:
                self.marked = True
                return _OVERLONG + "\n"
            try:
                return block.data.decode()
            except UnicodeDecodeError:
                self.marked = True
                return block.data.decode(errors="surrogateescape")
        return ""

    def take(self) -> str:
        """All lines of the current block that were not read, or the next block; none at the end."""
        return self._current.read() or self._next_text()

    def put_back(self, text: str) -> None:
        """Let the next reader have what was taken."""
        self._put_back.append(text)


class Rows(NamedTuple):
    """Some rows, column by column."""

    column: Callable[[int], list[str]]
    """The cells of the column at a place in the header."""
    lines: Places


class CsvRows:
    """The rows of a stream under their header.

    Blocks without quotes are cut at their commas, three times faster than
    ``csv`` does it. From the first block that has a quote, or a row of another
    width, or anything else out of the ordinary, ``csv`` takes over for good.

    Raises:
        InputError: There is no header.
    """

    def __init__(self, stream: Readable, source: str) -> None:
        self._lines = _Lines(stream)
        # strict: without it a stray quote is taken as text and shifts the fields.
        self._reader: Any = csv.reader(iter(self._lines), strict=True)
        self._source = source
        self._plain = True
        self._plain_lines = 0  # lines that csv has not counted
        self.header = self._read_header()
        self.at_end = False

    def _read_header(self) -> list[str]:
        try:
            header: list[str] = next((row for row in self._reader if row), [])
        except csv.Error as error:
            raise self._no_header(_why(error)[1]) from None
        trouble = _mark(header) if self._lines.marked else None
        if trouble or not header:
            raise self._no_header(trouble[1] if trouble else "an empty file")
        return header

    def _no_header(self, got: str) -> InputError:
        return InputError(self._source, expected="a header line that names the columns", got=got)

    @property
    def _next_line(self) -> int:
        line: int = self._reader.line_num + self._plain_lines + 1
        return line

    def read(self, bad: BadRecords) -> Rows:
        """The next rows that are as wide as the header, and their lines."""
        if self._plain:
            text = self._lines.take()
            cells = None if self._lines.marked else _plain_cells(text, len(self.header))
            if cells is not None:
                self.at_end = not text
                step = len(self.header) + 1
                first = self._next_line
                self._plain_lines += len(cells) // step
                return Rows(lambda place: cells[place:-1:step], range(first, self._next_line))
            self._plain = False
            self._lines.put_back(text)
        rows, lines = self._read_csv(bad)
        return Rows(lambda place: list(map(itemgetter(place), rows)), lines)

    def _read_csv(self, bad: BadRecords) -> tuple[list[list[str]], Places]:
        first = self._next_line
        rows: list[list[str]] = []
        error: csv.Error | None = None
        try:
            # extend() keeps what it was given before the iterator failed.
            rows.extend(islice(self._reader, _ROWS))
            self.at_end = len(rows) < _ROWS
        except csv.Error as caught:
            error = caught
        good, lines = self._good_rows(rows, first, error is not None, bad)
        if error is not None:
            expected, got, remedy = _why(error)
            line = first + sum(map(_physical_lines, rows))
            bad.add(BadRecord(self._source, line, "record", expected, got, remedy))
        return good, lines

    def _good_rows(
        self, rows: list[list[str]], first: int, failed: bool, bad: BadRecords
    ) -> tuple[list[list[str]], Places]:
        consumed = self._next_line - first
        width = len(self.header)
        plain = consumed == len(rows) and not failed and not self._lines.marked
        if plain and set(map(len, rows)) <= {width}:
            return rows, range(first, first + len(rows))
        good: list[list[str]] = []
        lines: list[int] = []
        line = first
        for row in rows:
            trouble = self._trouble(row)
            if trouble:
                bad.add(BadRecord(self._source, line, "record", *trouble))
            elif row:
                good.append(row)
                lines.append(line)
            line += _physical_lines(row)
        return good, np.asarray(lines, dtype=np.int64)

    def _trouble(self, row: list[str]) -> tuple[str, str] | None:
        if self._lines.marked and (mark := _mark(row)):
            return mark
        if row and len(row) != len(self.header):
            return f"{len(self.header)} fields, as the header has", str(len(row))
        return None


def _plain_cells(text: str, width: int) -> list[str] | None:
    """The cells of all lines in one list, a newline after each line's; None if ``csv`` should look.

    >>> _plain_cells("1,a\\n2,b\\n", 2)
    ['1', 'a', '\\n', '2', 'b', '\\n', '']
    """
    if '"' in text:
        return None
    if "\r" in text:
        text = text.replace("\r\n", "\n")
        if "\r" in text:
            return None
    if text and not text.endswith("\n"):
        text += "\n"
    if max(map(len, text.split("\n"))) > csv.field_size_limit():
        return None
    cells = text.replace("\n", ",\n,").split(",")
    # Only a newline became a cell that is one, so this counts every row's cells.
    ends = cells[width :: width + 1]
    if len(ends) * (width + 1) + 1 != len(cells) or ends.count("\n") != len(ends):
        return None
    # Under one column a blank line cannot be told from an empty cell.
    return None if width == 1 and "" in cells[:-1] else cells


def _physical_lines(row: list[str]) -> int:
    return 1 + sum(field.count("\n") for field in row)


def _why(error: csv.Error) -> tuple[str, str, str]:
    """Expected, got and remedy for what ``csv`` tells in passing."""
    text = str(error)
    if "field limit" in text:
        limit = f"a field of at most {csv.field_size_limit():,} characters"
        return limit, "a longer one", "is a quote left open?"
    if "end of data" in text:
        return "a closing quote", "the end of the file", "is a quote left open?"
    if "expected after" in text:
        return "a comma after the closing quote", "other text", "double a quote inside quotes"
    if "new-line character" in text:
        return "lines that end with a newline", "a carriage return inside a field", ""
    return "comma-separated values", text, ""


def _mark(row: list[str]) -> tuple[str, str] | None:
    """Expected and got if a row holds one of the marks that decoding left."""
    text = "".join(row)
    if _OVERLONG in text:
        return "a line of at most 4 MiB", "a longer one"
    for character in text:
        if _FIRST_ESCAPED <= character <= _LAST_ESCAPED:
            return "UTF-8 text", f"byte 0x{ord(character) - 0xDC00:02x}"
    return None
