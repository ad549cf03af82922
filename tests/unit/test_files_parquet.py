"""Parquet files, read with pyarrow."""

from __future__ import annotations

import re
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
    ("values", "found"),
    [
        (arrow.array(["a", "b"], arrow.large_string()), ["a", "b"]),
        (arrow.array([1, 2], arrow.uint8()), [1, 2]),
        (arrow.array(np.array([1.0, 2.0], np.float16)), [1.0, 2.0]),
        (arrow.array([1.0, 2.0]).cast(arrow.decimal128(5, 1)), [1.0, 2.0]),
    ],
)
def test_columns_of_types_that_no_table_of_the_carriers_has(
    tmp_path: Path, values: Any, found: list[Any]
) -> None:
    path = written(tmp_path, {"y": values})
    for kind in ("label", "number") if found == [1, 2] else ("label",):
        read_ = read(path, FieldRequest("y", kind))
        assert read_["y"] == found
        assert read_.lines == [*range(1, len(found) + 1)]


def test_many_row_groups_are_read_in_steps(tmp_path: Path) -> None:
    scores = np.arange(200_000) / 200_000
    path = written(tmp_path, {"s": scores}, row_group_size=30_000)
    found = read(path, FieldRequest("s", "number"))
    assert len(found.chunks) > 3
    assert (found["s"], found.lines) == (scores.tolist(), [*range(1, 200_001)])


def test_gaps_and_numbers_that_are_none(tmp_path: Path) -> None:
    columns = {
        "y": ["a", None, "b", "c", None, "d"],
        "s": [0.5, 0.5, float("nan"), None, float("inf"), -0.5],
    }
    found = read(
        written(tmp_path, columns), FieldRequest("y", "label"), FieldRequest("s", "number")
    )
    # Their texts are in tests/golden/bad_records.json.
    assert [(record.place, record.field, record.got) for record in found.bad] == [
        *((2, "y", "null"), (3, "s", "nan"), (4, "s", "null"), (5, "y", "null")),
    ]
    assert (found.refused, found["y"], found.lines) == (4, ["a", "d"], [1, 6])


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


def test_probabilities_as_maps(tmp_path: Path) -> None:
    shares = [{"a": 0.25, "b": 0.75}, {"a": 1.0, "b": 0.0}]
    kind = arrow.map_(arrow.string(), arrow.float64())
    maps = arrow.array([[*one.items()] for one in shares], kind)
    found = read(written(tmp_path, {"p": maps}), FieldRequest("p", "probabilities"))
    assert found["p"] == shares


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("z", "label", "a.parquet: expected one column 'z', got none among y, t"),
        ("y.z", "label", "expected one column 'y.z'"),
        ("y", "number", "a finite number in column 'y', got a column of type str"),
        ("t", "label", "in column 't', got a column of type timestamp"),
        ("y", "probabilities", "for one column a label give proba={label: column"),
    ],
)
def test_columns_that_do_not_do(tmp_path: Path, name: str, kind: Any, message: str) -> None:
    times = arrow.array([0], arrow.timestamp("us"))
    with pytest.raises(InputError, match=re.escape(message)):
        read(written(tmp_path, {"y": ["a"], "t": times}), FieldRequest(name, kind))


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
