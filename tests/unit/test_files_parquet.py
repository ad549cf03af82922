"""Parquet files, read with pyarrow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streameval.errors import InputError, MissingExtraError
from streameval.records.arrow import read_parquet
from streameval.records.chunk import Chunk, FieldRequest, RecordError
from streameval.records.event_columns import plain_values

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def read(path: Path, *wanted: FieldRequest) -> list[Chunk]:
    with path.open("rb") as file:
        return list(read_parquet(file, "a.parquet", wanted))


def written(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    target = path / "a.parquet"
    parquet.write_table(arrow.table(columns), target, **options)
    return target


def bad(chunks: list[Chunk]) -> list[RecordError]:
    return [record for chunk in chunks for record in chunk.bad.first]


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0, 1], [0, 1]),
        ([True, False], [True, False]),
        (["spam", "ham"], ["spam", "ham"]),
        (arrow.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (arrow.array(["a", "b"], arrow.large_string()), ["a", "b"]),
        (arrow.array([1, 2], arrow.uint8()), [1, 2]),
        (arrow.array([1.0, 2.0]), [1.0, 2.0]),
    ],
)
def test_label_columns(tmp_path: Path, values: Any, labels: list[Any]) -> None:
    (chunk,) = read(written(tmp_path, {"y": values}), FieldRequest("y", "label"))
    assert plain_values(chunk.events.columns["y"]) == labels
    assert chunk.events.places == range(1, len(labels) + 1)


@pytest.mark.parametrize("type_name", ["float16", "float32", "float64", "int8", "decimal"])
def test_number_columns(tmp_path: Path, type_name: str) -> None:
    kind = arrow.decimal128(5, 1) if type_name == "decimal" else getattr(arrow, type_name)()
    values = arrow.array([1, 2]).cast(arrow.float64()).cast(kind)
    (chunk,) = read(written(tmp_path, {"s": values}), FieldRequest("s", "number"))
    assert chunk.events.columns["s"].dtype == np.float64
    assert chunk.events.columns["s"].tolist() == [1.0, 2.0]


def test_many_row_groups_are_read_in_steps(tmp_path: Path) -> None:
    scores = np.arange(200_000) / 200_000
    path = written(tmp_path, {"s": scores}, row_group_size=30_000)
    chunks = read(path, FieldRequest("s", "number"))
    assert len(chunks) > 3
    assert np.array_equal(np.concatenate([chunk.events.columns["s"] for chunk in chunks]), scores)
    assert [n for chunk in chunks for n in chunk.events.places] == list(range(1, 200_001))


def test_gaps_and_numbers_that_are_none(tmp_path: Path) -> None:
    columns = {
        "y": ["a", None, "b", "c", None, "d"],
        "s": [0.5, 0.5, float("nan"), None, float("inf"), -0.5],
    }
    chunks = read(
        written(tmp_path, columns), FieldRequest("y", "label"), FieldRequest("s", "number")
    )
    assert [str(record).partition("; ")[0] for record in bad(chunks)] == [
        "a.parquet:2: y: expected a label (text, an integer or true/false), got null",
        "a.parquet:3: s: expected a finite number, got nan",
        "a.parquet:4: s: expected a finite number, got null",
        "a.parquet:5: y: expected a label (text, an integer or true/false), got null",
    ]
    assert sum(chunk.bad.count for chunk in chunks) == 4
    assert plain_values(chunks[0].events.columns["y"]) == ["a", "d"]
    assert chunks[0].events.places.tolist() == [1, 6]


def test_weights(tmp_path: Path) -> None:
    chunks = read(written(tmp_path, {"w": [1, 0, -3, 2**60, 2]}), FieldRequest("w", "weight"))
    assert [record.place for record in bad(chunks)] == [3, 4]
    assert chunks[0].events.columns["w"].tolist() == [1.0, 0.0, 2.0]


def test_a_dot_goes_into_structs_unless_a_column_has_the_name(tmp_path: Path) -> None:
    columns = {
        "m": [{"y": "a", "deep": {"s": 1.0}}, None, {"y": "b", "deep": None}],
        "m.y": ["x", "y", "z"],
    }
    path = written(tmp_path, columns)
    chunks = read(path, FieldRequest("m.deep.s", "number"), FieldRequest("m.y", "label"))
    assert [(r.place, r.field, r.got) for r in bad(chunks)] == [
        (2, "m.deep.s", "null"),
        (3, "m.deep.s", "null"),
    ]
    assert chunks[0].events.columns["m.deep.s"].tolist() == [1.0]
    assert plain_values(chunks[0].events.columns["m.y"]) == ["x"]


def test_probabilities_as_struct_and_as_map(tmp_path: Path) -> None:
    columns = {
        "struct": [{"a": 0.25, "b": 0.75}, {"a": 1.0, "b": 0.0}],
        "map": arrow.array(
            [[("a", 0.25), ("b", 0.75)], [("a", 1.0), ("b", 0.0)]],
            arrow.map_(arrow.string(), arrow.float64()),
        ),
    }
    path = written(tmp_path, columns)
    for name in columns:
        (chunk,) = read(path, FieldRequest(name, "probabilities"))
        found = {label: shares.tolist() for label, shares in chunk.events.columns[name].items()}
        assert found == {"a": [0.25, 1.0], "b": [0.75, 0.0]}


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (FieldRequest("z", "label"), "a.parquet: expected one column 'z', got none among y, t"),
        (FieldRequest("y.z", "label"), "expected one column 'y.z'"),
        (
            FieldRequest("y", "number"),
            "expected a finite number in column 'y', got a column of type str",
        ),
        (FieldRequest("t", "label"), "in column 't', got a column of type timestamp"),
        (FieldRequest("y", "probabilities"), "for one column a label give proba={label: column"),
    ],
)
def test_columns_that_do_not_do(tmp_path: Path, wanted: FieldRequest, message: str) -> None:
    times = arrow.array([0], arrow.timestamp("us"))
    path = written(tmp_path, {"y": ["a"], "t": times})
    with pytest.raises(InputError) as caught:
        read(path, wanted)
    assert message in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"y\n1\n", b"PAR1" + b"\0" * 40 + b"PAR1"])
def test_files_that_are_not_parquet(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(data)
    with pytest.raises(InputError, match="expected a whole Parquet file, got damage"):
        read(path, FieldRequest("y", "label"))


def test_a_truncated_file(tmp_path: Path) -> None:
    path = written(tmp_path, {"y": list(range(1000))})
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="got damage"):
        read(path, FieldRequest("y", "label"))


def test_without_pyarrow_the_message_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, {"y": [1]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'streameval\[files\]'"):
        read(path, FieldRequest("y", "label"))


def test_pandas_is_not_imported(tmp_path: Path) -> None:
    """pyarrow would, for 50 MB and half a second, at the least conversion."""
    path = written(tmp_path, {"y": ["a", "b"], "s": [0.5, 1.0], "t": [True, False]})
    code = f"""
import sys
from streameval.records.chunk import FieldRequest
from streameval.records.arrow import read_parquet
wanted = [FieldRequest("y", "label"), FieldRequest("s", "number"), FieldRequest("t", "label")]
rows = sum(chunk.events.rows for chunk in read_parquet(open({str(path)!r}, "rb"), "a", wanted))
sys.exit(rows != 2 or "pandas" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
