"""Tables in memory and queries, of any library, as columns of events.

The only module that imports narwhals, which reads the data frames of pandas, polars, DuckDB, Modin,
Ibis and others. None of these is imported here: a program that passes such a table has imported
its library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from streameval.errors import InputError, MissingExtraError, shown
from streameval.events.time import event_times
from streameval.events.values import (
    FloatArray,
    LabelColumn,
    check_same_length,
    column_array,
    is_missing,
    named_columns,
)
from streameval.records.arrow import Table, arrow_table
from streameval.records.chunk import (
    EXPECTED,
    SEPARATE,
    BadRecords,
    Chunk,
    FieldRequest,
    missing_value,
    no_column,
)
from streameval.records.event_columns import Column, EventColumns, label_sets

_ROWS = 1 << 16
"""Rows of a data frame converted at once."""

_STREAMS = ("collect_batches", "to_arrow_reader", "fetch_arrow_reader", "to_pyarrow_batches")
"""Methods of lazy tables that give batch after batch: of polars, DuckDB (two versions), Ibis."""


def find_table(data: Any) -> Table | None:
    """A data frame, a query, or an object of Arrow; None where ``data`` is none of them."""
    if type(data).__module__.partition(".")[0] == "pyarrow":
        return arrow_table(data)
    try:
        import narwhals
    except ImportError:
        if not hasattr(data, "columns"):
            return arrow_table(data)
        raise MissingExtraError("evaluating tables", package="narwhals", extra="tables") from None
    frame: Any = narwhals.from_native(data, pass_through=True)
    if isinstance(frame, narwhals.DataFrame):
        names = list(frame.columns)

        def sliced(chosen: list[str]) -> Iterator[Any]:
            # Slice after slice: the frame is not held in memory a second time.
            some = _narrowed(frame.select(chosen))
            for start in range(0, len(some), _ROWS):
                yield some[start : start + _ROWS].to_arrow()

        return Table(names, sliced)
    if isinstance(frame, narwhals.LazyFrame):
        return Table(list(frame.collect_schema().names()), lambda chosen: _streamed(frame, chosen))
    return arrow_table(data)


def _streamed(frame: Any, names: list[str]) -> Iterator[Any]:
    chosen = _narrowed(frame.select(names))
    native = chosen.to_native()
    for method in _STREAMS:
        if hasattr(native, method):
            yield from getattr(native, method)()
            return
    # Its library has no way to give a part: the wanted columns as a whole.
    yield chosen.collect(backend="pyarrow").to_native()


def _narrowed(frame: Any) -> Any:
    """The frame with polars' integers of 128 bits, which Arrow has not, as decimals."""
    import narwhals

    schema = frame.collect_schema().items()
    wide = [name for name, dtype in schema if dtype in (narwhals.Int128, narwhals.UInt128)]
    if not wide or not frame.implementation.is_polars():
        return frame
    polars = narwhals.get_native_namespace(frame)
    whole = polars.Decimal(38, 0)
    columns = [polars.col(name).cast(whole, strict=False) for name in wide]
    return narwhals.from_native(frame.to_native().with_columns(columns))


def read_columns(
    columns: Mapping[Any, Any], source: str, fields: Sequence[FieldRequest], rows: int
) -> Iterator[Chunk]:
    """Chunks of columns by name, each of what :meth:`Evaluator.update_many` takes."""
    read: dict[str, Column] = {}
    length: int | None = None
    for field in fields:
        if field.path not in columns:
            raise no_column(source, field.path, list(map(str, columns)))
        column = _column(columns[field.path], field)
        read |= dict.fromkeys((field.column, *field.also), column)
        own = _length(column)
        length = own if length is None else length
        check_same_length(length, own, field.path)
    events = EventColumns(read, range(length or 0))
    for start in range(0, events.rows, rows):
        yield _chunk(source, events.select(slice(start, start + rows)), fields)


def _chunk(source: str, events: EventColumns, fields: Sequence[FieldRequest]) -> Chunk:
    """The chunk of these events, those without a value for a field left out as bad."""
    bad = BadRecords()
    keep = np.ones(events.rows, dtype=np.bool_)
    for field in fields:
        column = events.columns[field.column]
        if field.kind == "slice" or not isinstance(column, (list, LabelColumn)):
            continue
        # Of label sets each distinct one is looked at once.
        values, codes = column if isinstance(column, LabelColumn) else (column, None)
        missing = np.fromiter(map(is_missing, values), np.bool_, len(values))
        bad.reject(
            keep,
            missing if codes is None else missing[codes],
            lambda n, f=field, v=values, c=codes: missing_value(  # type: ignore[misc]
                f, shown(v[n if c is None else c[n]])
            ).at(source, int(events.places[n])),
        )
    return Chunk(source, events if keep.all() else events.select(keep), bad)


def _column(values: Any, field: FieldRequest) -> Column:
    """The column as it is counted: the evaluator checks all but times."""
    if field.kind == "time":
        given = values if hasattr(values, "dtype") or isinstance(values, list) else list(values)
        times = event_times(given, len(given), field.unit, field.path)
        return times.view("datetime64[us]")
    if field.kind == "labels":
        return set_column(values, field.path, field.separator)
    if field.kind in ("probability", "probabilities"):
        table = values if isinstance(values, Mapping) else named_columns(values)
        if table is not None:
            return {label: column_array(column, field.path) for label, column in table.items()}
        if isinstance(values, list) and any(isinstance(value, Mapping) for value in values):
            rows: list[Any] = values
            return rows
        if np.ndim(values) == 2:
            return probability_block(values, field.path)
    array = column_array(values, field.path)
    if field.kind == "indicator":
        array = _flags(array)
    if array.dtype.kind in "biuf":
        return array
    values_of: list[Any] = array.tolist()
    return values_of


def set_column(values: Any, field: str, separator: str | None = None) -> Column:
    """Sets of labels: collections, texts with a separator, or rows or columns of indicators."""
    table = values if isinstance(values, Mapping) else named_columns(values)
    if table is not None:
        return {label: _flags(column_array(column, field)) for label, column in table.items()}
    if hasattr(values, "tocsr"):
        values = values.toarray()  # of scipy
    if getattr(values, "ndim", 1) == 2:
        return np.asarray(values)
    rows: list[Any] = column_array(values, field).tolist()
    for n, value in enumerate(() if separator else rows):
        if isinstance(value, str):
            raise InputError(
                field, expected=EXPECTED["labels"], got=shown(value), position=n, remedy=SEPARATE,
                remedy_code="label_separator",
            )  # fmt: skip
    return label_sets(rows, separator)


def _flags(array: Any) -> Any:
    """Indicators as booleans; as they are where one is another number."""
    good = array.dtype.kind in "biuf" and bool(((array == 0) | (array == 1)).all())
    return array == 1 if good else array


def probability_block(values: Any, field: str) -> FloatArray:
    """An (n, K) array of numbers; raises InputError."""
    try:
        block: FloatArray = np.asarray(values).astype(np.float64, casting="same_kind")
    except (TypeError, ValueError):
        raise InputError(
            field,
            expected="probabilities: an array of numbers with a row for each event",
            got=f"a {type(values).__name__} of something else",
        ) from None
    return block


def _length(column: Column) -> int:
    if isinstance(column, dict):
        return max(map(len, column.values()), default=0)
    return len(column.codes if isinstance(column, LabelColumn) else column)
