"""Arrow through pyarrow: Parquet, Arrow files and tables, a batch of rows at a time.

The only module that imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError, MissingExtraError
from streameval.events.values import BoolArray, LabelColumn
from streameval.records.chunk import (
    EXPECTED,
    SEPARATE,
    BadRecords,
    Chunk,
    FieldRequest,
    checked_chunk,
    missing_value,
    no_column,
)
from streameval.records.event_columns import (
    Column,
    EventColumns,
    label_sets,
    plain_values,
    probability_columns,
)
from streameval.records.json_records import split_path, wrong_length
from streameval.records.times import NAIVE, NAIVE_REMEDY

_ROWS = 1 << 16
_BUFFER_BYTES = 1 << 20


def read_parquet(
    file: BinaryIO,
    source: str,
    fields: Sequence[FieldRequest],
    within: tuple[float, float] = (0.0, 1.0),
) -> Iterator[Chunk]:
    """Chunks of 65,536 rows of the row groups that begin within these shares of the bytes."""
    with _parquet(file, source) as table:
        schema = table.schema_arrow
        _check_zones(schema, source, fields)
        paths = [_named(schema, field, source)[0] for field in fields]
        groups, first = _row_groups(table.metadata, *within)
        batches = table.iter_batches(
            batch_size=_ROWS,
            row_groups=groups,
            columns=list(dict.fromkeys(".".join(names) for names in paths)),
            use_threads=False,
        )
        yield from _chunks(batches, first, source, fields)


def _row_groups(metadata: Any, begin: float, end: float) -> tuple[list[int], int]:
    """The row groups that begin in a part of a file, and the number of their first row."""
    sizes = [metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups)]
    total = sum(sizes) or 1
    groups: list[int] = []
    first, before = 1, 0
    for n, size in enumerate(sizes):
        if begin <= before / total < end:
            groups.append(n)
        elif not groups:
            first += metadata.row_group(n).num_rows
        before += size
    return groups, first


def parquet_columns(file: BinaryIO, source: str) -> list[str]:
    """The names of a Parquet file's columns; raises as :func:`read_parquet`."""
    with _parquet(file, source) as table:
        return list(table.schema_arrow.names)


def read_arrow(file: Any, source: str, fields: Sequence[FieldRequest]) -> Iterator[Chunk]:
    """Chunks as of :func:`read_parquet`, of an Arrow file (Feather, version 2) or stream."""
    with _ipc(file, source) as (open_reader, schema):
        _check_zones(schema, source, fields)
        names = {_named(schema, field, source)[0][0] for field in fields}
        indices = [n for n, name in enumerate(schema.names) if name in names]
        yield from _chunks(open_reader(indices), 1, source, fields)


def arrow_columns(file: Any, source: str) -> list[str]:
    """The names of an Arrow file's columns; raises as :func:`read_arrow`."""
    with _ipc(file, source) as (_, schema):
        return list(schema.names)


@contextmanager
def _ipc(file: Any, source: str) -> Iterator[tuple[Callable[[list[int]], Iterator[Any]], Any]]:
    """A function of the record batches with some columns, and the schema."""
    _arrow("reading Arrow files", "files")
    from pyarrow import ipc

    with _whole("Arrow", source):
        start = file.tell() if file.seekable() else 0
        magic = file.read(6) if file.seekable() else b""
        if magic.startswith(b"FEA1"):
            raise InputError(
                source,
                expected="Feather of version 2, which is an Arrow file",
                got="version 1",
                remedy="write it again with a current release of its library",
            )
        if magic:
            file.seek(start)
        opened = ipc.open_file if magic == b"ARROW1" else ipc.open_stream
        reader = opened(file)

        def batches(indices: list[int]) -> Iterator[Any]:
            chosen = ipc.IpcReadOptions(included_fields=indices, use_threads=False)
            parts: Any
            if file.seekable():
                file.seek(start)
                parts = opened(file, options=chosen)
                if opened is ipc.open_file:
                    parts = map(parts.get_batch, range(parts.num_record_batches))
            else:
                parts = (batch.select(indices) for batch in reader)
            for batch in parts:
                batch.validate(full=True)  # offsets and lengths in a file may be anything
                yield batch

        yield batches, reader.schema


def zstd_stream(file: Any) -> Any:
    """The bytes of a file in zstd, decompressed a part at a time."""
    return _arrow("reading zstd", "files").CompressedInputStream(file, "zstd")


@contextmanager
def _parquet(file: BinaryIO, source: str) -> Iterator[Any]:
    _arrow("reading Parquet", "files")
    from pyarrow import parquet

    with _whole("Parquet", source):
        # buffer_size: read a column in steps instead of a row group at once.
        yield parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)


@contextmanager
def _whole(kind: str, source: str) -> Iterator[None]:
    """Errors of reading a file as InputError."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        got = f"damage: {' '.join(str(error).split())}"
        raise InputError(source, expected=f"a whole {kind} file", got=got) from None


def _arrow(purpose: str = "evaluating tables", extra: str = "tables") -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(purpose, package="pyarrow", extra=extra) from None
    return pyarrow


class Table(NamedTuple):
    """Columns that can be read as Arrow batches, whatever holds them."""

    names: list[str]
    """Of all columns."""
    batches: Callable[[list[str]], Iterator[Any]]
    """The rows in order, as objects with Arrow's C interface, of these columns at least."""


def arrow_table(data: Any) -> Table | None:
    """What implements Arrow's C interface, or a data set of pyarrow; None for anything else."""
    streams = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    if not streams and not hasattr(data, "to_batches"):
        return None
    arrow = _arrow()
    if not streams:  # a pyarrow.dataset.Dataset

        def scanned(names: list[str]) -> Iterator[Any]:
            return iter(data.to_batches(columns=names, batch_size=_ROWS))

        return Table(list(data.schema.names), scanned)
    try:
        if hasattr(data, "__arrow_c_stream__"):
            reader = arrow.RecordBatchReader.from_stream(data)
        else:
            batch = arrow.record_batch(data)
            reader = arrow.RecordBatchReader.from_batches(batch.schema, [batch])
    except arrow.ArrowException:  # an array or a series, which has no columns
        return None
    return Table(list(reader.schema.names), lambda names: iter(reader))


def read_table(table: Table, source: str, fields: Sequence[FieldRequest]) -> Iterator[Chunk]:
    """Chunks of 65,536 rows at most, as :func:`read_parquet`; rows are numbered from 0."""
    arrow = _arrow()
    columns: list[str] = []
    for field in fields:
        name = field.path if field.path in table.names else split_path(field.path)[0]
        if table.names.count(name) != 1:
            raise no_column(source, name, table.names)
        columns.append(name)
    pieces = table.batches(list(dict.fromkeys(columns)))
    batches = (batch for piece in pieces for batch in arrow.table(piece).to_batches())
    try:
        yield from _chunks(batches, 0, source, fields)
    except arrow.ArrowException as error:
        raise InputError(
            source,
            expected="columns of one type each",
            got=" ".join(" ".join(map(str, error.args)).split()),
            remedy="convert such a column to one type: text, numbers, true/false or timestamps",
        ) from None


def _named(schema: Any, field: FieldRequest, source: str) -> tuple[tuple[str, ...], Any]:
    """The column and the struct fields below it that a path names, and the type."""
    if field.path in schema.names:
        return (field.path,), schema.field(schema.names.index(field.path)).type
    names = split_path(field.path)
    if names[0] in schema.names:
        kind = schema.field(names[0]).type
        for name in names[1:]:
            inner = {kind.field(n).name: kind.field(n).type for n in range(kind.num_fields)}
            if name not in inner:
                break
            kind = inner[name]
        else:
            return names, kind
    raise no_column(source, field.path, schema.names, _paths(schema))


def _paths(fields: Any, before: str = "") -> list[str]:
    """The names of a schema's columns and of the struct fields below them."""
    found: list[str] = []
    for n in range(len(fields) if not before else fields.num_fields):
        field = fields.field(n)
        found.append(before + field.name)
        if str(field.type).startswith("struct"):
            found += _paths(field.type, f"{before}{field.name}.")
    return found


def _check_zones(schema: Any, source: str, fields: Sequence[FieldRequest]) -> None:
    """Raise InputError for a column of a file whose times have no zone and are not declared UTC."""
    from pyarrow import types

    for field in fields:
        if field.kind != "time" or field.utc:
            continue
        _, kind = _named(schema, field, source)
        if types.is_date(kind) or (types.is_timestamp(kind) and kind.tz is None):
            raise InputError(
                source,
                expected=f"times with a zone in column {field.path!r}",
                got=f"a column of type {kind}",
                remedy=NAIVE_REMEDY,
                remedy_code=NAIVE,
            )


def _chunks(
    batches: Iterator[Any], first: int, source: str, fields: Sequence[FieldRequest]
) -> Iterator[Chunk]:
    """Chunks of 65,536 rows at most; the number of the first row is ``first``."""
    for batch in batches:
        paths = {field.path: _named(batch.schema, field, source)[0] for field in fields}
        for start in range(0, batch.num_rows, _ROWS):
            part = batch.slice(start, _ROWS)
            yield _chunk(part, first, source, fields, paths)
            first += part.num_rows


def _chunk(
    batch: Any,
    first: int,
    source: str,
    fields: Sequence[FieldRequest],
    paths: dict[str, tuple[str, ...]],
) -> Chunk:
    import pyarrow.compute as compute

    lines = range(first, first + batch.num_rows)
    bad = BadRecords()
    keep = np.ones(batch.num_rows, dtype=np.bool_)
    columns: dict[str, Column] = {}
    for field in fields:
        names = paths[field.path]
        values = batch.column(names[0])
        for name in names[1:]:
            # Unlike .field(), this keeps the nulls of the struct.
            values = compute.struct_field(values, name)
        missing = _truths(values.is_null())
        if field.shares is not None and _is_list(values.type):
            wrong = ~missing & (_lengths(values) != field.shares)
            bad.reject(
                keep,
                wrong,
                lambda n, f=field, v=values: wrong_length(f, len(v[n])).at(source, lines[n]),  # type: ignore[misc]
            )
            column: Column = _block(values, ~(wrong | missing), field.shares)
        else:
            column = _column(values, field, source)
        if field.kind == "slice" and missing.any():
            assert not isinstance(column, dict)
            column = _with_gaps(column, missing)
            missing[:] = False
        columns[field.column] = column
        bad.reject(
            keep,
            missing,
            lambda n, f=field: missing_value(f, "null").at(source, lines[n]),  # type: ignore[misc]
        )
    return checked_chunk(source, fields, EventColumns(columns, lines), bad, keep)


def _with_gaps(column: Any, missing: BoolArray) -> Column:
    """A column of slices with None where values are missing."""
    if isinstance(column, LabelColumn):
        codes = np.where(missing, len(column.labels), column.codes)
        return LabelColumn([*column.labels, None], codes)  # type: ignore[list-item]
    return [
        None if gap else value for value, gap in zip(list(column), missing.tolist(), strict=True)
    ]


def _column(values: Any, field: FieldRequest, source: str) -> Column:
    """The column as an array or list; values at nulls are undefined."""
    from pyarrow import types

    kind = values.type
    if types.is_dictionary(kind):
        distinct = values.dictionary
        if str(distinct.type) == "string_view":  # of polars; Arrow has no kernel that takes from it
            distinct = distinct.cast("string")
        values = distinct.take(values.indices)
        kind = values.type
    if types.is_null(kind):  # no value at all: each is missing, whatever its type
        values = values.cast("int64")
    elif str(kind) == "string_view" or (field.kind == "slice" and types.is_date(kind)):
        values = values.cast("string")
    elif field.kind == "time" and types.is_date(kind):
        values = values.cast("timestamp[us]" if types.is_date32(kind) else "timestamp[ms]")
    kind = values.type
    by_label = types.is_struct(kind) or types.is_map(kind) or _is_list(kind)
    if field.kind == "probabilities" or (field.kind == "probability" and by_label):
        return _probabilities(values, field, source)
    text = types.is_string(kind) or types.is_large_string(kind)
    if field.kind == "labels" and (_is_list(kind) or (text and field.separator)):
        return label_sets(values.to_pylist(), field.separator)
    if field.kind == "time" and types.is_timestamp(kind):
        ticks = _as_numpy(_filled(values.cast("int64"), 0))
        return ticks.view(f"datetime64[{kind.unit}]")
    if field.kind in ("label", "slice", "time"):
        if text:
            # One str for each distinct text.
            encoded = _filled(values, "").dictionary_encode()
            texts = LabelColumn(
                encoded.dictionary.to_pylist(), _as_numpy(encoded.indices).astype(np.int64)
            )
            return texts if field.kind != "time" else plain_values(texts)
        if types.is_boolean(kind) and field.kind != "time":
            return _truths(values)
        if types.is_decimal(kind) and kind.scale == 0 and field.kind != "time":
            with suppress(ValueError):  # whole numbers, such as DuckDB's SUM, that fit
                values = values.cast("int64")
                kind = values.type
        if types.is_integer(kind):
            return _as_numpy(_filled(values, 0))
    if field.kind == "indicator" and types.is_boolean(kind):
        return _truths(values)
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if number and field.kind != "labels":
        # 1, because nan at a null would be rejected a second time.
        return _as_numpy(_filled(values.cast("float64", safe=False), 1.0))
    joined = field.kind == "labels" and text
    raise InputError(
        source,
        expected=f"{EXPECTED[field.kind]} in column {field.path!r}",
        got=f"a column of type {kind}",
        remedy=SEPARATE if joined else "convert the column, or name another one",
        remedy_code="label_separator" if joined else "",
    )


# pyarrow imports pandas, where it is installed, when its own methods convert a column
# from or to Python values or numpy arrays: 50 MB and half a second. So nulls are filled
# only where there are any, and arrays are exchanged by dlpack.


def _filled(values: Any, value: object) -> Any:
    return values.fill_null(value) if values.null_count else values


def _as_numpy(values: Any) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.from_dlpack(values)
    return array


def _truths(values: Any) -> BoolArray:
    """A column of booleans, which Arrow packs into bits; null is false."""
    return _as_numpy(_filled(values, False).cast("uint8")).astype(np.bool_)


def _probabilities(values: Any, field: FieldRequest, source: str) -> Column:
    from pyarrow import compute, types

    kind = values.type
    if types.is_struct(kind):
        columns: dict[Any, Any] = {}
        for n in range(kind.num_fields):
            name = kind.field(n).name
            shares = compute.struct_field(values, name).cast("float64", safe=False)
            # A null inside becomes nan, which is not a probability.
            columns[name] = _as_numpy(_filled(shares, np.nan))
        return columns
    if _is_list(kind):
        return _of_one_length(values, field, source)
    if types.is_map(kind):
        # A null inside becomes nan here too.
        return probability_columns(
            [
                {label: np.nan if share is None else float(share) for label, share in pairs or ()}
                for pairs in values.to_pylist()
            ]
        )
    raise InputError(
        source,
        expected=f"a struct or map label -> probability in column {field.path!r}",
        got=f"a column of type {kind}",
        remedy="for one column a label give proba={label: column, ...}",
        remedy_code="proba_column",
    )


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _lengths(values: Any) -> npt.NDArray[np.int64]:
    """The lengths of lists; 0 at nulls."""
    from pyarrow import compute

    return _as_numpy(_filled(compute.list_value_length(values).cast("int64"), 0))


def _of_one_length(values: Any, field: FieldRequest, source: str) -> Column:
    lengths = np.unique(_lengths(values.drop_null()))
    if len(lengths) > 1:
        raise InputError(
            source,
            expected=f"lists of one length in column {field.path!r}",
            got=f"lists of {lengths[0]} and of {lengths[-1]}",
            remedy="give each list one probability for each of labels=, in their order",
        )
    width = int(lengths[0]) if len(lengths) else 0
    return _block(values, _truths(values.is_valid()), width)


def _block(values: Any, rows: BoolArray, width: int) -> Column:
    """Lists as the rows of a two-dimensional array; ``nan`` in other rows than these."""
    import pyarrow

    # Most columns have neither nulls nor lists of another length.
    given = values if rows.all() else values.take(pyarrow.array(np.flatnonzero(rows)))
    shares = given.flatten().cast("float64", safe=False)
    block = np.full((len(values), width), np.nan)
    block[rows] = _as_numpy(_filled(shares, np.nan)).reshape(len(given), width)
    return block
