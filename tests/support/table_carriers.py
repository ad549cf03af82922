"""One Arrow table in every carrier that :func:`streameval.evaluate` accepts."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet

Carrier = Callable[[arrow.Table, Path], Any]


def _text(value: Any) -> Any:
    """A value as CSV and JSON have it: a list as a JSON array."""
    if isinstance(value, (list, dict)):
        return json.dumps(value)
    return value.isoformat() if isinstance(value, date) else value


def _duckdb(table: arrow.Table, folder: Path) -> Any:
    connection = import_module("duckdb").connect()
    connection.register("events", table)
    return connection.sql("SELECT * FROM events")


def _csv(
    table: arrow.Table,
    folder: Path,
    name: str = "events.csv",
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> str:
    path = folder / name
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(table.column_names)
        writer.writerows([_text(value) for value in row.values()] for row in table.to_pylist())
    return str(path)


def _compressed(ending: str, compress: Callable[[bytes], bytes]) -> Carrier:
    def carrier(table: arrow.Table, folder: Path) -> str:
        path = Path(_csv(table, folder)) if len(ending) % 2 else _jsonl(table, folder)
        packed = path.with_name(path.name + ending)
        data = path.read_bytes()
        # Two archives, as cat joins them.
        packed.write_bytes(compress(data[:1000]) + compress(data[1000:]))
        return str(packed)

    return carrier


def _unnamed(table: arrow.Table, folder: Path) -> str:
    path = Path(_csv(table, folder))
    path.write_bytes(gzip.compress(path.read_bytes()))
    return str(path)


def _feather(table: arrow.Table, folder: Path) -> Path:
    path = folder / "events.feather"
    arrow.feather.write_feather(table, str(path), chunksize=41)
    return path


def _stream(table: arrow.Table, folder: Path) -> str:
    path = folder / "events.arrows"
    with arrow.OSFile(str(path), "wb") as file, arrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=41)
    return str(path)


def _directory(table: arrow.Table, folder: Path) -> str:
    by = [name for name in ("country",) if name in table.column_names]
    keys = arrow.schema([table.schema.field(name) for name in by])
    arrow.dataset.write_dataset(
        table,
        folder / "events",
        format="parquet",
        partitioning=arrow.dataset.partitioning(keys, flavor="hive") if by else None,
    )
    (folder / "events" / "_SUCCESS").touch()
    return str(folder / "events")


def _jsonl(table: arrow.Table, folder: Path) -> Path:
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(row, default=_text) + "\n" for row in table.to_pylist()))
    return path


def _array(table: arrow.Table, folder: Path) -> Path:
    path = folder / "events.json"
    path.write_text(json.dumps(table.to_pylist(), indent=2, default=_text), encoding="utf-16")
    return path


def _blanks(table: arrow.Table, folder: Path) -> str:
    path = Path(_csv(table, folder))
    path.write_text(re.sub(r',(?=([^"]*"[^"]*")*[^"]*$)', ", ", path.read_text(), flags=re.M))
    return str(path)


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
    url = f"memory://{folder.name}"
    for name, part in _parts(table, folder):
        with import_module("fsspec").open(f"{url}/{name}", "wb") as file:
            arrow.parquet.write_table(part, file)
    return f"{url}/part-*.parquet"


# What not every environment of the tests has is imported where it is used.
CARRIERS: dict[str, Carrier] = {
    "dict": lambda table, folder: {
        name: column.to_numpy() for name, column in table.to_pandas().items()
    },
    "pandas": lambda table, folder: table.to_pandas(),
    "pandas of Arrow types": lambda table, folder: table.to_pandas(
        types_mapper=import_module("pandas").ArrowDtype
    ),
    "polars": lambda table, folder: import_module("polars").from_arrow(table),
    "polars lazy": lambda table, folder: import_module("polars").from_arrow(table).lazy(),
    "polars scan": lambda table, folder: import_module("polars").scan_parquet(
        _parquet(table, folder)
    ),
    "narwhals": lambda table, folder: import_module("narwhals").from_native(table),
    "arrow table": lambda table, folder: table,
    "arrow reader": lambda table, folder: table.to_reader(max_chunksize=41),
    "arrow batch": lambda table, folder: table.combine_chunks().to_batches()[0],
    "arrow data set": _dataset,
    "duckdb": _duckdb,
    "csv": _csv,
    "jsonl": _jsonl,
    "json array": _array,
    "csv with blanks": _blanks,
    "parquet": _parquet,
    "glob": _glob,
    "memory://": _memory,
    "tsv": partial(_csv, name="events.tsv", delimiter="\t"),
    "csv with semicolons": partial(_csv, delimiter=";"),
    "csv in UTF-16": partial(_csv, encoding="utf-16"),
    "gzip": _compressed(".gz", gzip.compress),
    "bz2": _compressed(".bz2", bz2.compress),
    "xz": _compressed(".xz", lzma.compress),
    "zstd": _compressed(".zst", lambda data: arrow.compress(data, "zstd", asbytes=True)),
    "gzip that its name does not say": _unnamed,
    "feather": _feather,
    "arrow stream": _stream,
    "directory": _directory,
}

FILES = frozenset([*CARRIERS][[*CARRIERS].index("csv") :])
"""The carriers that are files."""

WRITTEN: Mapping[str, Mapping[str, Any]] = {"csv with semicolons": {"delimiter": ";"}}
"""What a call says of how files are written."""
