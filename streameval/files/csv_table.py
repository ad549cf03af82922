"""Comma-separated values with a header, as RFC 4180 and Python's ``csv`` read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from streameval.errors import InputError, did_you_mean, shown
from streameval.events import BoolArray, FloatArray
from streameval.files.blocks import Readable
from streameval.files.chunk import (
    EXPECTED,
    BadRecord,
    BadRecords,
    Chunk,
    Wanted,
    checked_chunk,
)
from streameval.files.csv_rows import CsvRows, Rows
from streameval.files.event_columns import Column, EventColumns
from streameval.files.label_text import LabelType, label_from_text, likely_type
from streameval.files.times import number_or_text

__all__ = ["LabelTypes", "read_csv"]


class LabelTypes:
    """What type the label columns of a run's CSV files have.

    A CSV cell is text: whether ``1`` is a number is decided once, from the
    first rows that hold labels, and holds for every later file.

    Args:
        chosen: The type, or None to find it out.
    """

    def __init__(self, chosen: LabelType | None = None) -> None:
        self._chosen = chosen
        self._found: dict[str, LabelType] = {}

    def settle(self, source: str, columns: dict[str, Sequence[str]]) -> None:
        """Decide for columns that are still open.

        Raises:
            InputError: One column looks like text and another like numbers.
        """
        if self._chosen is not None:
            return
        for path, texts in columns.items():
            if path not in self._found:
                found = likely_type(texts)
                if found is not None:
                    self._found[path] = found
        texts_of = {path: kind == "str" for path, kind in self._found.items()}
        if len(set(texts_of.values())) > 1:
            names = ", ".join(f"{path} {kind}" for path, kind in self._found.items())
            raise InputError(
                source,
                expected="label columns of one type",
                got=names,
                remedy="say which with --label-type str, int or bool",
            )

    def of(self, path: str) -> LabelType:
        """The type of one column."""
        return self._chosen or self._found.get(path, "str")


def read_csv(
    stream: Readable, source: str, wanted: Sequence[Wanted], label_types: LabelTypes
) -> Iterator[Chunk]:
    """Chunks of some thousand rows each; the first line names the columns.

    Quoted fields may hold commas, quotes and newlines. A row with too few or
    too many fields, an open quote or a field beyond ``csv.field_size_limit()``
    is a bad record.

    Cost:
        About 0.4 µs for a row of five fields, 0.9 where some are quoted.

    Raises:
        InputError: There is no header, or it lacks a wanted column.

    >>> import io
    >>> table = io.BytesIO(b"label,score\\n1,0.5\\n")
    >>> wanted = [Wanted("label", "label"), Wanted("score", "number")]
    >>> [chunk.events.columns["label"] for chunk in read_csv(table, "a.csv", wanted, LabelTypes())]
    [array([1])]
    """
    for want in wanted:
        if want.kind == "probabilities":
            raise InputError(
                source,
                expected="one column for each label's probability",
                got=f"the one column {want.path!r}",
                remedy="give --proba label=column,label=column, or --positive LABEL "
                "where the column is that label's probability",
            )
    table = CsvRows(stream, source)
    places = {want.path: _place(table.header, want.path, source) for want in wanted}
    while not table.at_end:
        bad = BadRecords()
        rows = table.read(bad)
        if len(rows.lines) or bad.count:
            yield _chunk(source, wanted, places, label_types, rows, bad)


def _place(header: list[str], path: str, source: str) -> int:
    count = header.count(path)
    if count == 1:
        return header.index(path)
    listed = ", ".join(header[:12]) + (", …" if len(header) > 12 else "")
    raise InputError(
        source,
        expected=f"one column {path!r}",
        got=f"{count or 'none'} among {shown(listed)[1:-1]}",
        remedy="" if count else did_you_mean(path, header),
    )


def _chunk(
    source: str,
    wanted: Sequence[Wanted],
    places: dict[str, int],
    label_types: LabelTypes,
    rows: Rows,
    bad: BadRecords,
) -> Chunk:
    lines = rows.lines
    texts = {path: rows.column(place) for path, place in places.items()}
    label_types.settle(source, {w.path: texts[w.path] for w in wanted if w.kind == "label"})
    columns: dict[str, Column] = {}
    keep: BoolArray = np.ones(len(lines), dtype=np.bool_)
    for want in wanted:
        cells = texts[want.path]
        faults = BadRecords()
        if want.kind == "label":
            column, wrong = _labels(cells, label_types.of(want.path))
        elif want.kind == "slice":
            column, wrong = [text or None for text in cells], []
        elif want.kind == "time":
            column, wrong = list(map(number_or_text, cells)), []
        else:
            column, wrong = _numbers(cells)
        for position in wrong:
            if keep[position]:
                line = int(lines[position])
                faults.add(_bad_cell(source, line, want, cells[position], label_types))
                keep[position] = False
        bad.add_all(faults)
        columns[want.path] = column
    return checked_chunk(source, wanted, EventColumns(columns, lines), bad, keep)


def _labels(cells: list[str], label_type: LabelType) -> tuple[Column, list[int]]:
    """The labels, and the positions of cells that are none."""
    kept: dict[str, Any] = {}
    unreadable: set[str] = set()
    for text in set(cells):
        try:
            kept[text] = label_from_text(text, label_type)
        except InputError:
            kept[text] = 0 if label_type != "str" else ""
            unreadable.add(text)
    values = list(map(kept.__getitem__, cells))
    wrong = [n for n, text in enumerate(cells) if text in unreadable] if unreadable else []
    if label_type == "str":
        return values, wrong
    try:
        dtype = np.bool_ if label_type == "bool" else np.int64
        return np.fromiter(values, dtype, len(values)), wrong
    except OverflowError:
        return values, wrong


def _numbers(cells: list[str]) -> tuple[FloatArray, list[int]]:
    """The numbers, and the positions of cells that are none (they become 0)."""
    # float() takes 1_000 as 1000, for literals in programs.
    if "_" not in "".join(cells):
        try:
            return np.fromiter(map(float, cells), np.float64, len(cells)), []
        except ValueError:
            pass
    numbers = np.ones(len(cells), dtype=np.float64)
    wrong: list[int] = []
    for position, text in enumerate(cells):
        try:
            if "_" in text:
                raise ValueError
            numbers[position] = float(text)
        except ValueError:
            wrong.append(position)
    return numbers, wrong


def _bad_cell(
    source: str, line: int, want: Wanted, text: str, label_types: LabelTypes
) -> BadRecord:
    if want.kind != "label":
        got = f"the text {shown(text)}" if text else "nothing"
        return BadRecord(source, line, want.path, EXPECTED[want.kind], got)
    try:
        label_from_text(text, label_types.of(want.path))
    except InputError as error:
        return BadRecord(source, line, want.path, error.expected, error.got, error.remedy)
    raise AssertionError("a cell that reads is not bad")
