"""Parquet through pyarrow, a batch of rows at a time. The only module that imports it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError, MissingExtraError, did_you_mean, shown
from streameval.events.values import BoolArray
from streameval.records.chunk import (
    EXPECTED,
    MISSING,
    BadRecord,
    BadRecords,
    Chunk,
    Wanted,
    checked_chunk,
)
from streameval.records.event_columns import Column, EventColumns, probability_columns
from streameval.records.json_record import split_path

_ROWS = 1 << 16
_BUFFER_BYTES = 1 << 20


def read_parquet(file: BinaryIO, source: str, wanted: Sequence[Wanted]) -> Iterator[Chunk]:
    """Chunks of 65,536 rows; a record's line is the number of its row, from 1.

    Only the pages of the wanted columns are read. A dot in a path selects a
    field of a struct, unless a column has exactly that name. Probabilities may be a struct
    (one field for each label), a map, or one column for each label.

    Raises:
        MissingExtraError: pyarrow is not installed.
        InputError: The file is not Parquet or is damaged, lacks a column, or
            a column has a type that its kind cannot have.
    """
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtraError("reading Parquet", package="pyarrow", extra="files") from None
    try:
        # buffer_size: read a column in steps instead of a row group at once.
        table = parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        schema = table.schema_arrow
        paths = {want.path: _names(schema, want, source) for want in wanted}
        first = 1
        for batch in table.iter_batches(
            batch_size=_ROWS,
            columns=list(dict.fromkeys(".".join(names) for names in paths.values())),
            use_threads=False,
        ):
            yield _chunk(batch, first, source, wanted, paths)
            first += batch.num_rows
    except (arrow.ArrowException, OSError) as error:
        raise InputError(
            source, expected="a whole Parquet file", got=f"damage: {' '.join(str(error).split())}"
        ) from None


def _names(schema: Any, want: Wanted, source: str) -> tuple[str, ...]:
    """The column and the struct fields below it that a path names."""
    if want.path in schema.names:
        return (want.path,)
    names = split_path(want.path)
    if names[0] in schema.names:
        kind = schema.field(names[0]).type
        for name in names[1:]:
            inner = {kind.field(n).name: kind.field(n).type for n in range(kind.num_fields)}
            if name not in inner:
                break
            kind = inner[name]
        else:
            return names
    raise InputError(
        source,
        expected=f"a column {want.path!r}",
        got=f"none among {shown(', '.join(schema.names))[1:-1]}",
        remedy=did_you_mean(want.path, _paths(schema)),
    )


def _paths(fields: Any, before: str = "") -> list[str]:
    """The names of a schema's columns and of the struct fields below them."""
    found: list[str] = []
    for n in range(len(fields) if not before else fields.num_fields):
        field = fields.field(n)
        found.append(before + field.name)
        if str(field.type).startswith("struct"):
            found += _paths(field.type, f"{before}{field.name}.")
    return found


def _chunk(
    batch: Any,
    first: int,
    source: str,
    wanted: Sequence[Wanted],
    paths: dict[str, tuple[str, ...]],
) -> Chunk:
    import pyarrow.compute as compute

    lines = range(first, first + batch.num_rows)
    bad = BadRecords()
    keep = np.ones(batch.num_rows, dtype=np.bool_)
    columns: dict[str, Column] = {}
    for want in wanted:
        names = paths[want.path]
        values = batch.column(names[0])
        for name in names[1:]:
            # Unlike .field(), this keeps the nulls of the struct.
            values = compute.struct_field(values, name)
        missing = _truths(values.is_null())
        column = _column(values, want, source)
        if want.kind == "slice" and missing.any():
            assert not isinstance(column, dict)
            gaps = missing.tolist()
            column = [None if gap else v for v, gap in zip(list(column), gaps, strict=True)]
            missing[:] = False
        columns[want.path] = column
        new = missing & keep
        if new.any():
            bad.add_column(
                np.flatnonzero(new).tolist(),
                lambda n, w=want: BadRecord(  # type: ignore[misc]
                    source, lines[n], w.path, EXPECTED[w.kind], "null", MISSING.get(w.kind, "")
                ),
            )
            keep &= ~missing
    return checked_chunk(source, wanted, EventColumns(columns, lines), bad, keep)


def _column(values: Any, want: Wanted, source: str) -> Column:
    """The column as an array or list; values at nulls are undefined."""
    from pyarrow import types

    kind = values.type
    if types.is_dictionary(kind):
        values = values.dictionary_decode()
        kind = values.type
    if want.kind == "probabilities" or (
        want.kind == "probability" and (types.is_struct(kind) or types.is_map(kind))
    ):
        return _probabilities(values, want, source)
    if want.kind == "time" and types.is_timestamp(kind):
        ticks = _as_numpy(_filled(values.cast("int64"), 0))
        return ticks.view(f"datetime64[{kind.unit}]")
    if want.kind in ("label", "slice", "time"):
        if types.is_string(kind) or types.is_large_string(kind):
            # One str for each distinct text.
            encoded = _filled(values, "").dictionary_encode()
            distinct = np.asarray(encoded.dictionary.to_pylist(), dtype=object)
            texts: list[Any] = distinct[_as_numpy(encoded.indices)].tolist()
            return texts
        if types.is_boolean(kind) and want.kind != "time":
            return _truths(values)
        if types.is_integer(kind):
            return _as_numpy(_filled(values, 0))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        # 1, because nan at a null would be rejected a second time.
        return _as_numpy(_filled(values.cast("float64", safe=False), 1.0))
    raise InputError(
        source,
        expected=f"{EXPECTED[want.kind]} in column {want.path!r}",
        got=f"a column of type {kind}",
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


def _probabilities(values: Any, want: Wanted, source: str) -> Column:
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
    if types.is_map(kind):
        return probability_columns([dict(pairs or ()) for pairs in values.to_pylist()])
    raise InputError(
        source,
        expected=f"a struct or map label -> probability in column {want.path!r}",
        got=f"a column of type {kind}",
        remedy="for one column a label give --proba label=column,label=column",
    )
