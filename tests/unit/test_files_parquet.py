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
from streameval.records.chunk import FieldRequest
from tests.support.read_chunks import Chunks

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def read(path: Path, *wanted: FieldRequest) -> Chunks:
    with path.open("rb") as file:
        return Chunks(read_parquet(file, "a.parquet", wanted))


def written(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    target = path / "a.parquet"
    parquet.write_table(arrow.table(columns), target, **options)
    return target


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
    found = read(written(tmp_path, {"y": values}), FieldRequest("y", "label"))
    assert found["y"] == labels
    assert found.chunks[0].events.places == range(1, len(labels) + 1)


@pytest.mark.parametrize("type_name", ["float16", "float32", "float64", "int8", "decimal"])
def test_number_columns(tmp_path: Path, type_name: str) -> None:
    kind = arrow.decimal128(5, 1) if type_name == "decimal" else getattr(arrow, type_name)()
    values = arrow.array([1, 2]).cast(arrow.float64()).cast(kind)
    (chunk,) = read(written(tmp_path, {"s": values}), FieldRequest("s", "number")).chunks
    assert chunk.events.columns["s"].dtype == np.float64
    assert chunk.events.columns["s"].tolist() == [1.0, 2.0]


def test_many_row_groups_are_read_in_steps(tmp_path: Path) -> None:
    scores = np.arange(200_000) / 200_000
    path = written(tmp_path, {"s": scores}, row_group_size=30_000)
    found = read(path, FieldRequest("s", "number"))
    assert len(found.chunks) > 3
    assert found["s"] == scores.tolist()
    assert found.lines == list(range(1, 200_001))


def test_gaps_and_numbers_that_are_none(tmp_path: Path) -> None:
    columns = {
        "y": ["a", None, "b", "c", None, "d"],
        "s": [0.5, 0.5, float("nan"), None, float("inf"), -0.5],
        "w": [1, 1, 1, 1, 1, 0],
    }
    wanted = (FieldRequest("y", "label"), FieldRequest("s", "number"), FieldRequest("w", "weight"))
    found = read(written(tmp_path, columns), *wanted)
    # Their texts are in tests/golden/bad_records.json.
    assert [(record.place, record.field, record.got) for record in found.bad] == [
        *((2, "y", "null"), (3, "s", "nan"), (4, "s", "null"), (5, "y", "null")),
    ]
    assert (found.refused, found["y"], found["w"], found.lines) == (4, ["a", "d"], [1, 0], [1, 6])


def test_a_dot_goes_into_structs_unless_a_column_has_the_name(tmp_path: Path) -> None:
    columns = {
        "m": [{"y": "a", "deep": {"s": 1.0}}, None, {"y": "b", "deep": None}],
        "m.y": ["x", "y", "z"],
    }
    path = written(tmp_path, columns)
    found = read(path, FieldRequest("m.deep.s", "number"), FieldRequest("m.y", "label"))
    assert [(r.place, r.field, r.got) for r in found.bad] == [
        (2, "m.deep.s", "null"),
        (3, "m.deep.s", "null"),
    ]
    assert (found["m.deep.s"], found["m.y"]) == ([1.0], ["x"])


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
        (chunk,) = read(path, FieldRequest(name, "probabilities")).chunks
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


@pytest.mark.parametrize("data", [b"", b"y\n1\n", b"PAR1" + b"\0" * 40 + b"PAR1", None])
def test_files_that_are_not_parquet(tmp_path: Path, data: bytes | None) -> None:
    path = written(tmp_path, {"y": list(range(1000))})
    path.write_bytes(path.read_bytes()[:-9] if data is None else data)
    with pytest.raises(InputError, match="expected a whole Parquet file, got damage"):
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
