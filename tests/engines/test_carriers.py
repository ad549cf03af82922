"""Spark's and Dask's tables give the bytes of every other carrier, of the same events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas
import pyarrow as arrow
import pytest

import streameval as se
from tests.support.carried_events import CASES, Case

pytest.importorskip("dask", reason="NOT TESTED: Dask is not installed")
pytest.importorskip("dask.dataframe", reason="NOT TESTED: dask[dataframe] is missing")
pytest.importorskip("pyspark", reason="NOT TESTED: Spark is not installed")

import dask.bag
import dask.dataframe

from streameval.integrations import dask as on_dask

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

PARTS = 4


def in_time(case: Case) -> Case:
    """The events in the order of their times, as engines count them: they have no other order."""
    if "time" not in case.call:
        return case
    table = case.table().sort_by(case.call["time"])
    return replace(case, columns={name: table[name] for name in table.column_names})


def slices(table: arrow.Table) -> list[arrow.Table]:
    """The table in parts, the last part first; one part is empty."""
    rows = -(-table.num_rows // PARTS)
    parts = [table.slice(start, rows) for start in range(0, table.num_rows, rows)]
    return [*reversed(parts), table.slice(0, 0)]


LEFT_OUT = {
    "probabilities: array": "beside a table, it has no rows in the parts of an engine",
    "probabilities: text of pairs": "it is the form of the command line",
    "probabilities: pattern": "engines take PREFIX* only",
}
NAMES = sorted(CASES.keys() - LEFT_OUT.keys())


# A session's zone is about times and dates.
ZONES = [(name, "Europe/Lisbon") for name in NAMES]
ZONES += [(name, "Etc/UTC") for name in NAMES if name.startswith(("times", "slices"))]


@pytest.mark.parametrize(("name", "zone"), ZONES)
def test_spark_gives_the_same_bytes(local: Any, name: str, zone: str) -> None:
    case = CASES[name]
    local.conf.set("spark.sql.session.timeZone", zone)
    table = case.table()
    for n, column in enumerate(table.columns):
        if arrow.types.is_dictionary(column.type):  # not a type of Spark
            table = table.set_column(n, table.column_names[n], column.cast(column.type.value_type))
    data = local.createDataFrame(table).repartition(PARTS)
    assert se.evaluate(data, **case.call).to_bytes() == in_time(case).state()


REFUSED = {
    # A datetime of Python without a zone, as a bag holds it; a column's is UTC.
    ("times in us, naive", "bag"),
    # The engine's own function takes labels=, which negative= becomes in streameval.evaluate.
    ("a list of both probabilities", "delayed"),
}
NAMED = {
    "label sets: columns": {"y_true": {name: f"y_{name}_v2" for name in ("cat", "cow", "dog")}}
}
"""Records and delayed parts are read by tasks only: a pattern declares no label."""
ON_DASK = [
    (name, carrier)
    for name in NAMES
    for carrier in ("data frame", "bag", "delayed")
    if (name, carrier) not in REFUSED
]


@pytest.mark.parametrize(("name", "carrier"), ON_DASK)
def test_dask_gives_the_same_bytes(name: str, carrier: str) -> None:
    case = CASES[name]
    table = case.table()
    call = {**case.call, **(NAMED.get(name, {}) if carrier != "data frame" else {})}
    with dask.config.set(scheduler="synchronous"):
        if carrier == "delayed":
            parts = [dask.delayed(part) for part in slices(table)]
            found = on_dask.evaluate(parts, **call)
        elif carrier == "bag":
            data = dask.bag.from_sequence(table.to_pylist(), npartitions=PARTS)
            found = (on_dask if name in NAMED else se).evaluate(data, **call)
        else:
            frame = table.to_pandas(types_mapper=pandas.ArrowDtype)
            data = dask.dataframe.from_pandas(frame, npartitions=PARTS)
            found = se.evaluate(data, **call)
    assert found.to_bytes() == in_time(case).state()
