"""One Arrow table in every carrier that :func:`streameval.evaluate` accepts."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.dataset
import pyarrow.parquet

Carrier = Callable[[arrow.Table, Path], Any]


def _text(value: Any) -> Any:
    """A value as CSV and JSON have it: a time with its offset."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
    return value


def _pandas(table: arrow.Table, folder: Path) -> Any:
    return table.to_pandas()


def _pandas_of_arrow(table: arrow.Table, folder: Path) -> Any:
    import pandas

    return table.to_pandas(types_mapper=pandas.ArrowDtype)


def _polars(table: arrow.Table, folder: Path) -> Any:
    import polars

    return polars.from_arrow(table)


def _lazy(table: arrow.Table, folder: Path) -> Any:
    return _polars(table, folder).lazy()


def _scanned(table: arrow.Table, folder: Path) -> Any:
    import polars

    return polars.scan_parquet(_parquet(table, folder))


def _narwhals(table: arrow.Table, folder: Path) -> Any:
    import narwhals

    return narwhals.from_native(table)


def _duckdb(table: arrow.Table, folder: Path) -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.register("events", table)
    return connection.sql("SELECT * FROM events")


def _dictionary(table: arrow.Table, folder: Path) -> Any:
    frame = table.to_pandas()
    return {name: frame[name].to_numpy() for name in table.column_names}


def _csv(table: arrow.Table, folder: Path) -> str:
    path = folder / "events.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.column_names)
        writer.writerows([_text(value) for value in row.values()] for row in table.to_pylist())
    return str(path)


def _jsonl(table: arrow.Table, folder: Path) -> Path:
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(row, default=_text) + "\n" for row in table.to_pylist()))
    return path


def _parquet(table: arrow.Table, folder: Path) -> str:
    path = folder / "events.parquet"
    arrow.parquet.write_table(table, path, row_group_size=37)
    return str(path)


def _parts(table: arrow.Table, folder: Path) -> Iterator[tuple[str, arrow.Table]]:
    for start in range(0, table.num_rows, 50):
        yield f"part-{start:05d}.parquet", table.slice(start, 50)


def _glob(table: arrow.Table, folder: Path) -> str:
    for name, part in _parts(table, folder):
        arrow.parquet.write_table(part, folder / name)
    return str(folder / "part-*.parquet")


def _dataset(table: arrow.Table, folder: Path) -> Any:
    _glob(table, folder)
    return arrow.dataset.dataset(sorted(map(str, folder.glob("part-*.parquet"))))


def _memory(table: arrow.Table, folder: Path) -> str:
    import fsspec

    url = f"memory://{folder.name}"
    for name, part in _parts(table, folder):
        with fsspec.open(f"{url}/{name}", "wb") as file:
            arrow.parquet.write_table(part, file)
    return f"{url}/part-*.parquet"


def _batch(table: arrow.Table, folder: Path) -> Any:
    return table.combine_chunks().to_batches()[0]


CARRIERS: dict[str, Carrier] = {
    "dict": _dictionary,
    "pandas": _pandas,
    "pandas of Arrow types": _pandas_of_arrow,
    "polars": _polars,
    "polars lazy": _lazy,
    "polars scan": _scanned,
    "narwhals": _narwhals,
    "arrow table": lambda table, folder: table,
    "arrow reader": lambda table, folder: table.to_reader(max_chunksize=41),
    "arrow batch": _batch,
    "arrow data set": _dataset,
    "duckdb": _duckdb,
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
    "glob": _glob,
    "memory://": _memory,
}
