"""Comma-separated values, as RFC 4180 and Python's ``csv`` read them, and with other delimiters."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from streameval.errors import InputError, shown
from streameval.events.values import BoolArray, FloatArray, LabelColumn, factorised
from streameval.records.blocks import Readable, line_blocks
from streameval.records.chunk import (
    EXPECTED,
    MISSING,
    BadRecords,
    Chunk,
    FieldRequest,
    RecordError,
    checked_chunk,
    no_column,
)
from streameval.records.event_columns import (
    Column,
    EventColumns,
    RecordPlaces,
    labels_in_text,
    probability_columns,
)
from streameval.records.json_records import CANNOT_DECODE, error_in_text, value_decoder
from streameval.records.label_text import LabelType, is_number, label_from_text, likely_type
from streameval.records.layout import Layout
from streameval.records.times import number_or_text
from streameval.states.backend import compiled

if TYPE_CHECKING:
    from streameval.records.native.native_csv import NativeTable

_ROWS = 8192
"""Rows converted at once: the rows of text are ten times the size of their columns."""

# Decoding UTF-8 yields neither. The first stands for a line that was
# not read; the second is how "surrogateescape" keeps a byte that is not UTF-8.
_OVERLONG = "\ud800"
_FIRST_ESCAPED, _LAST_ESCAPED = "\udc80", "\udcff"

_DELIMITERS = ",;\t|"
"""Delimiters that a header may have instead of the declared one."""

_NO_LAYOUT = Layout()

_OF_LABELS = ("label", "labels")


_cut: Callable[[str, int, str, int], NativeTable | None] | None = getattr(
    compiled("streameval.records.native.native_csv"), "cut", None
)
"""The compiled reader of lines without quotes; None where there is none."""


class LabelTypes:
    """Types of the label columns in the CSV files of one command."""

    def __init__(self, chosen: LabelType | None = None) -> None:
        self._chosen = chosen
        self._found: dict[str, LabelType] = {}

    def infer(
        self,
        source: str,
        columns: Mapping[str, Collection[str]],
        missing: frozenset[str] = frozenset(),
    ) -> None:
        """Infer the types of columns that have none; raises InputError for text beside numbers."""
        if self._chosen is not None:
            return
        for path, texts in columns.items():
            if path not in self._found and (found := likely_type(set(texts) - missing)):
                self._found[path] = found
        if len({kind == "str" for kind in self._found.values()}) > 1:
            names = ", ".join(f"{path} {kind}" for path, kind in self._found.items())
            raise InputError(
                source,
                expected="label columns of one type",
                got=names,
                remedy='say which with label_type="str", "int" or "bool"',
                remedy_code="label_types",
            )

    def knows(self, paths: Iterable[str]) -> bool:
        """Whether the types of these columns are known."""
        return self._chosen is not None or self._found.keys() >= set(paths)

    def of(self, path: str) -> LabelType:
        """The type of one column."""
        return self._chosen or self._found.get(path, "str")


def read_csv(
    stream: Readable,
    source: str,
    fields: Sequence[FieldRequest],
    label_types: LabelTypes,
    layout: Layout = _NO_LAYOUT,
    *,
    columns: list[str] | None = None,
    first_line: int = 1,
    cut: bool = False,  # whether the stream is a part of a file, cut behind newlines
) -> Iterator[Chunk]:
    """Chunks of some thousand rows each; the first line names the columns, or they are numbers."""
    table = _CsvRows(stream, source, layout, columns, first_line=first_line, cut=cut)
    indices = {one.column: _index(table, one.path, source) for one in fields}
    while not table.at_end:
        bad = BadRecords()
        column, lines = table.read(bad)
        if len(lines) or bad.count:
            # In a function of its own, which frees the cells before the next are read.
            yield text_chunk(
                source,
                fields,
                {name: column(index) for name, index in indices.items()},
                lines,
                label_types,
                layout,
                bad,
            )


def csv_columns(stream: Readable, source: str, layout: Layout = _NO_LAYOUT) -> list[str]:
    """The names in the header; raises InputError where there is none."""
    return _CsvRows(stream, source, layout).header


def begins_with_blanks(head: bytes, layout: Layout) -> bool:
    """Whether the first line of a file has blanks behind delimiters and outside quotes."""
    text = head.decode(errors="replace").removeprefix("\ufeff")
    return _has_blanks(text, layout.delimiter or ",")


def _has_blanks(text: str, delimiter: str) -> bool:
    if delimiter == " " or f"{delimiter} " not in text.lstrip("\r\n").partition("\n")[0]:
        return False
    found = []
    for skips in (False, True):
        lines = io.StringIO(text, newline="\n")
        rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=skips)
        try:
            found.append(next(filter(None, rows), None))
        except csv.Error:
            return False
    return found[0] != found[1]


class TextColumn:
    """The cells of one column as a list of texts."""

    __slots__ = ("_cells",)

    def __init__(self, cells: list[str]) -> None:
        self._cells = cells

    def text(self, row: int) -> str:
        """The cell of a row."""
        return self._cells[row]

    def texts(self) -> list[str]:
        """The cells of all rows."""
        return self._cells

    def distinct(self) -> Collection[str]:
        """Each text once."""
        return set(self._cells)

    def mapped(self, values: Mapping[str, Any], dtype: Any = None) -> Column:
        """The value of each cell's text: an array of a type, or distinct values with codes."""
        if dtype is None:
            distinct, codes = factorised(self._cells)
            return LabelColumn([values[text] for text in distinct], codes)
        return np.fromiter(map(values.__getitem__, self._cells), dtype, len(self._cells))

    def numbers(self) -> tuple[FloatArray, list[int]]:
        """The numbers, and the rows of cells that are not numbers (they become 1)."""
        cells = self._cells
        # float() reads 1_000 as 1000.
        if "_" not in "".join(cells):
            try:
                return np.fromiter(map(float, cells), np.float64, len(cells)), []
            except ValueError:
                pass
        numbers = np.ones(len(cells), dtype=np.float64)
        return numbers, _parse_each(numbers, range(len(cells)), self.text)


class _NativeColumn:
    """The cells of one column of a compiled table, as :class:`TextColumn`."""

    __slots__ = ("_coded", "_column", "_table")

    def __init__(self, table: NativeTable, column: int) -> None:
        self._table = table
        self._column = column
        self._coded: tuple[list[str], Any] | None = None

    def text(self, row: int) -> str:
        cell: str = self._table.text(row, self._column)
        return cell

    def texts(self) -> list[str]:
        cells: list[str] = self._table.texts(self._column)
        return cells

    def _codes(self) -> tuple[list[str], Any]:
        if self._coded is None:
            self._coded = self._table.coded(self._column)
        return self._coded

    def distinct(self) -> Collection[str]:
        return self._codes()[0]

    def mapped(self, values: Mapping[str, Any], dtype: Any = None) -> Column:
        texts, codes = self._codes()
        found = [values[text] for text in texts]
        if dtype is None:
            return LabelColumn(found, codes.astype(np.int64))
        return np.array(found, dtype)[codes]  # type: ignore[no-any-return]

    def numbers(self) -> tuple[FloatArray, list[int]]:
        numbers, others = self._table.numbers(self._column)
        return numbers, _parse_each(numbers, others, self.text)


CsvColumn: TypeAlias = TextColumn | _NativeColumn
"""The cells of one column."""


def _parse_each(
    numbers: FloatArray, rows: Iterable[int], text_of: Callable[[int], str]
) -> list[int]:
    """Set the numbers of these rows; the rows of cells that are not numbers."""
    wrong: list[int] = []
    for row in rows:
        text = text_of(row)
        try:
            if "_" in text:
                raise ValueError
            numbers[row] = float(text)
        except ValueError:
            wrong.append(row)
    return wrong


def text_chunk(
    source: str,
    fields: Sequence[FieldRequest],
    texts: Mapping[str, CsvColumn],
    lines: RecordPlaces,
    label_types: LabelTypes,
    layout: Layout,
    bad: BadRecords,
) -> Chunk:
    """The chunk of columns of text, one for each wanted path."""
    label_types.infer(
        source,
        {one.path: _label_texts(texts[one.column], one) for one in fields if one.holds_labels},
        layout.missing_labels,
    )
    columns: dict[str, Column] = {}
    keep: BoolArray = np.ones(len(lines), dtype=np.bool_)
    gone = layout.missing or frozenset()
    for one in fields:
        cells = texts[one.column]
        if gone and one.kind not in _OF_LABELS:
            cells = TextColumn(["" if text in gone else text for text in cells.texts()])
        errors = BadRecords()
        if one.kind in _OF_LABELS:
            column, wrong = _labels(cells, one, label_types.of(one.path), layout.missing_labels)
        elif one.kind == "indicator":
            column = cells.mapped({t: _indicator(t) for t in cells.distinct()}, np.float64)
            wrong = np.flatnonzero(np.isnan(column)).tolist()  # type: ignore[arg-type]
        elif one.kind == "slice":
            column, wrong = cells.mapped({text: text or None for text in cells.distinct()}), []
        elif one.kind == "time":
            column, wrong = list(map(number_or_text, cells.texts())), []
        elif one.kind in ("probability", "probabilities"):
            column, wrong = _probabilities(cells, one)
        else:
            column, wrong = cells.numbers()
        for position in wrong:
            if keep[position]:
                line, text = int(lines[position]), texts[one.column].text(position)
                error = _cell_error(one, text, cells.text(position), label_types, layout)
                errors.add(error.at(source, line))
                keep[position] = False
        bad.add_all(errors)
        columns[one.column] = column
    return checked_chunk(source, fields, EventColumns(columns, lines), bad, keep)


def _index(table: _CsvRows, path: str, source: str) -> int:
    header = table.header
    if header.count(path) == 1:
        return header.index(path)
    error = no_column(source, path, header)
    for other in _DELIMITERS if len(header) == 1 else "":
        if other in header[0]:
            remedy = f"if {shown(other)} is between the fields, declare it with delimiter="
            raise error.of(source, remedy=remedy, remedy_code=f"delimiter {other}")
    if table.named and not error.remedy_code and any(map(is_number, header)):
        remedy = "if the first line holds no names, pass header=False and number the columns"
        raise error.of(source, remedy=remedy, remedy_code="header")
    raise error


def _label_texts(cells: CsvColumn, one: FieldRequest) -> Collection[str]:
    """The texts of the labels in cells, each once."""
    texts = cells.distinct()
    if one.separator is None:
        return texts
    return {label for text in texts for label in labels_in_text(text, one.separator)}


def _indicator(text: str) -> float:
    """The number of a cell of 0 or 1, false or true; nan of any other text."""
    truth = {"true": 1.0, "false": 0.0}.get(text.lower())
    try:
        return float(text) if truth is None else truth
    except ValueError:
        return np.nan


def _labels(
    cells: CsvColumn, one: FieldRequest, label_type: LabelType, missing: frozenset[str]
) -> tuple[Column, list[int]]:
    """The labels or sets of labels, and the positions of cells that are neither."""
    kept: dict[str, Any] = {}
    unreadable: set[str] = set()
    read: Callable[[str], Any] = partial(label_from_text, label_type=label_type)
    if one.kind == "labels":
        read = _set_reader(one, read)
    for text in cells.distinct():
        try:
            if text in missing:
                raise InputError("label", expected="a label", got=text)
            kept[text] = read(text)
        except (InputError, *CANNOT_DECODE):
            kept[text] = () if one.kind == "labels" else 0 if label_type != "str" else ""
            unreadable.add(text)
    wrong: list[int] = []
    if unreadable:
        bad = cells.mapped({text: text in unreadable for text in kept}, np.bool_)
        wrong = np.flatnonzero(bad).tolist()  # type: ignore[arg-type]
    with suppress(OverflowError):
        if label_type != "str" and one.kind != "labels":
            return cells.mapped(kept, np.bool_ if label_type == "bool" else np.int64), wrong
    return cells.mapped(kept), wrong


def _set_reader(one: FieldRequest, label: Callable[[str], Any]) -> Callable[[str], Any]:
    """Reads the labels of a cell: a JSON list, or texts between separators."""
    if one.separator is None:
        decode = value_decoder(one).decode
        return lambda text: tuple(decode(text))
    separator = one.separator
    return lambda text: tuple(map(label, labels_in_text(text, separator)))


def _probabilities(cells: CsvColumn, one: FieldRequest) -> tuple[Column, list[int]]:
    """The probabilities of JSON texts or numbers, and the positions of cells that are neither."""
    texts = cells.texts()
    if one.kind == "probability" and not {"[", "{"} & set("".join(texts)):
        return cells.numbers()
    decoder = value_decoder(one)
    values: list[Any] = []
    wrong: list[int] = []
    for position, text in enumerate(texts):
        try:
            values.append(decoder.decode(text))
        except CANNOT_DECODE:
            wrong.append(position)
            values.append(None)
    if wrong:  # they are left out: any value stands for them
        good = next((value for value in values if value is not None), None)
        values = [good if value is None else value for value in values]
    return probability_columns(values), wrong


def _cell_error(
    one: FieldRequest, text: str, cell: str, label_types: LabelTypes, layout: Layout
) -> RecordError:
    """The error of a cell: ``text`` as it is written, ``cell`` empty where that is missing."""
    of_labels = one.kind in _OF_LABELS
    if text and (not cell or (of_labels and text in layout.missing_labels)):
        remedy, code = MISSING.get(one.kind, ""), ""
        if of_labels and layout.missing is None:
            remedy = "leave this event out; or, if it is a class, pass na_values=[]"
            code = "na_values"
        return RecordError(one.path, EXPECTED[one.kind], f"{text}, a missing value", remedy, code)
    if one.kind in ("probability", "probabilities") or (one.kind == "labels" and not one.separator):
        error = error_in_text(text, one)
        if error.remedy_code == "probability":
            remedy = "give proba={label: column, ...}, or positive= where the column is that "
            return error._replace(remedy=remedy + "label's probability", remedy_code="proba_text")
        return error
    if not of_labels:
        got = f"the text {shown(text)}" if text else "nothing"
        return RecordError(one.path, EXPECTED[one.kind], got)
    try:
        for label in labels_in_text(text, one.separator) if one.separator else [text]:
            label_from_text(label, label_types.of(one.path))
    except InputError as error:
        return RecordError.of(error, one.path)
    raise AssertionError("a cell that reads is not bad")


class _Lines:
    """Decoded text: by line for ``csv.reader``, by block for :class:`_CsvRows`."""

    def __init__(self, stream: Readable, first_line: int) -> None:
        self._blocks = line_blocks(stream, first_line=first_line)
        self._current = io.StringIO()
        self._put_back: list[str] = []
        self.marked = False  # some line so far was too long, or held bytes that are not UTF-8

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._texts())

    def _texts(self) -> Iterator[io.StringIO]:
        while text := self._next_text():
            # newline="\n": csv sees the carriage return.
            self._current = io.StringIO(text, newline="\n")
            yield self._current

    def _next_text(self) -> str:
        if self._put_back:
            return self._put_back.pop()
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
        """The unread lines of the current block, or the next block; empty at the end."""
        return self._current.read() or self._next_text()

    @property
    def text(self) -> str:
        """The current block."""
        return self._current.getvalue()

    def put_back(self, text: str) -> None:
        """Return text to be read next."""
        self._put_back.append(text)


_Columns: TypeAlias = Callable[[int], CsvColumn]
"""Some rows: the column at an index of the header."""


class _CsvRows:
    """The rows of a stream under their header; raises InputError where there is none."""

    def __init__(
        self,
        stream: Readable,
        source: str,
        layout: Layout,
        columns: list[str] | None = None,
        *,
        first_line: int = 1,
        cut: bool = False,
    ) -> None:
        self._lines = _Lines(stream, first_line)
        self._cut = cut
        self._delimiter = layout.delimiter or ","
        text = self._lines.take()
        self._lines.put_back(text)
        self._blanks = columns is None and _has_blanks(text, self._delimiter)
        # strict: without it a stray quote is taken as text and shifts the fields.
        self._reader = self._csv(iter(self._lines))
        self._source = source
        self.named = layout.header
        self._plain = True
        self._plain_lines = first_line - 1  # lines that csv has not counted
        self.header = self._read_header() if columns is None else columns
        self.at_end = False

    def _csv(self, lines: Iterator[str]) -> Any:
        return csv.reader(
            lines, strict=True, delimiter=self._delimiter, skipinitialspace=self._blanks
        )

    def _read_header(self) -> list[str]:
        try:
            if not self.named:
                text = self._lines.take()
                self._lines.put_back(text)
                lines = io.StringIO(text, newline="\n")
                width = len(next((row for row in self._csv(lines) if row), []))
                if not width:
                    raise self._no_header(_EMPTY)
                return [str(number + 1) for number in range(width)]
            header: list[str] = next((row for row in self._reader if row), [])
        except csv.Error as error:
            # A file in another encoding may be no CSV either.
            mark = _mark([self._lines.text]) if self._lines.marked else None
            raise self._no_header(
                mark or _why(error, self._delimiter)._replace(remedy="")
            ) from None
        mark = _mark(header) if self._lines.marked else None
        if mark or not header:
            raise self._no_header(mark or _EMPTY)
        return header

    def _no_header(self, error: RecordError) -> InputError:
        expected = "a header line that names the columns" if self.named else "rows"
        return error._replace(expected=expected).input_error(self._source)

    @property
    def _next_line(self) -> int:
        return int(self._reader.line_num) + self._plain_lines + 1

    def read(self, bad: BadRecords) -> tuple[_Columns, RecordPlaces]:
        """The next rows that are as wide as the header, and their lines."""
        # Cut at delimiters three times faster than csv does it, up to the first block that has a
        # quote, a row of another width, or any other exception.
        if self._plain:
            text = self._lines.take()
            plain = None
            if not self._lines.marked:
                cells_text = self._without_blanks(text) if self._blanks else text
                plain = _plain_rows(cells_text, len(self.header), self._delimiter)
            if plain is not None:
                self.at_end = not text
                rows, cells = plain
                first = self._next_line
                self._plain_lines += rows
                return cells, range(first, self._next_line)
            self._plain = False
            self._lines.put_back(text)
        return self._read_csv(bad)

    def _without_blanks(self, text: str) -> str:
        """Lines without blanks at the beginning of cells; with quotes they are left to ``csv``."""
        if '"' in text:
            return text
        for before in (self._delimiter, "\n"):
            while before + " " in text:
                text = text.replace(before + " ", before)
        return text.lstrip(" ")

    def _read_csv(self, bad: BadRecords) -> tuple[_Columns, RecordPlaces]:
        first = self._next_line
        rows: list[list[str]] = []
        error: csv.Error | None = None
        try:
            # extend() keeps the rows read before the iterator failed.
            rows.extend(islice(self._reader, _ROWS))
            self.at_end = len(rows) < _ROWS
        except csv.Error as caught:
            if self._cut:
                # A row may be cut inside its quotes. A part that begins with a row and ends
                # without an open quote ends with a row, so that the next one begins with one.
                got = str(caught)
                raise InputError(self._source, expected="a part of whole rows", got=got) from None
            error = caught
        good, lines = self._good_rows(rows, first, error is not None, bad)
        if error is not None:
            line = first + sum(map(_physical_lines, rows))
            bad.add(_why(error, self._delimiter).at(self._source, line))
        return lambda index: TextColumn(list(map(itemgetter(index), good))), lines

    def _good_rows(
        self, rows: list[list[str]], first: int, failed: bool, bad: BadRecords
    ) -> tuple[list[list[str]], RecordPlaces]:
        consumed = self._next_line - first
        width = len(self.header)
        plain = consumed == len(rows) and not failed and not self._lines.marked
        if plain and set(map(len, rows)) <= {width}:
            return rows, range(first, first + len(rows))
        good: list[list[str]] = []
        lines: list[int] = []
        line = first
        for row in rows:
            mark = _mark(row) if self._lines.marked else None
            if row and not mark and len(row) != width:
                mark = RecordError("record", f"{width} fields, as the header has", str(len(row)))
            if mark:
                bad.add(mark.at(self._source, line))
            elif row:
                good.append(row)
                lines.append(line)
            line += _physical_lines(row)
        return good, np.asarray(lines, dtype=np.int64)


def _plain_rows(text: str, width: int, delimiter: str) -> tuple[int, _Columns] | None:
    """How many rows lines without quotes have, and the cells of a column; None: ``csv`` parses."""
    if _cut is not None and delimiter.isascii():
        table = _cut(text, width, delimiter, csv.field_size_limit())
        return None if table is None else (len(table), partial(_NativeColumn, table))
    cells = _plain_cells(text, width, delimiter)
    if cells is None:
        return None
    step = width + 1
    return len(cells) // step, lambda index: TextColumn(cells[index:-1:step])


def _plain_cells(text: str, width: int, delimiter: str = ",") -> list[str] | None:
    """The cells of all lines, a newline after each line's; None if ``csv`` must parse them."""
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
    cells = text.replace("\n", f"{delimiter}\n{delimiter}").split(delimiter)
    # Only newlines became cells of a newline: one ends each row, and none is within a row, where
    # two short lines would have as many cells as one row.
    ends = cells[width :: width + 1]
    rows = text.count("\n")
    if rows * (width + 1) + 1 != len(cells) or ends.count("\n") != rows:
        return None
    # With one column a blank line equals an empty cell.
    return None if width == 1 and "" in cells[:-1] else cells


def _physical_lines(row: list[str]) -> int:
    return 1 + sum(field.count("\n") for field in row)


def _why(error: csv.Error, delimiter: str) -> RecordError:
    """The error of a record that ``csv`` rejects."""
    text = str(error)
    expected, got, remedy = "comma-separated values", text, ""
    if "field limit" in text:
        expected = f"a field of at most {csv.field_size_limit():,} characters"
        got, remedy = "a longer one", "is a quote left open?"
    elif "end of data" in text:
        expected, got, remedy = "a closing quote", "the end of the file", "is a quote left open?"
    elif "expected after" in text:
        mark = "a comma" if delimiter == "," else shown(delimiter)
        expected, got = f"{mark} after the closing quote", "other text"
        remedy = "double a quote inside quotes"
    elif "new-line character" in text:
        expected, got = "lines that end with a newline", "a carriage return inside a field"
    return RecordError("record", expected, got, remedy)


def _mark(row: list[str]) -> RecordError | None:
    """The error if a row holds a marker of a line that could not be decoded."""
    text = "".join(row)
    if _OVERLONG in text:
        return RecordError("record", "a line of at most 4 MiB", "a longer one")
    for character in text:
        if _FIRST_ESCAPED <= character <= _LAST_ESCAPED:
            got = f"byte 0x{ord(character) - 0xDC00:02x}"
            remedy = 'declare the encoding of the file, such as encoding="cp1252"'
            return RecordError("record", "UTF-8 text", got, remedy, "encoding")
    return None


_EMPTY = RecordError("record", "rows", "an empty file")
