"""Dask: partitions in any cut, on processes that are killed, give the bytes of one evaluator.

Every kind of column in every collection: test_carriers.py.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import streameval as se
from streameval.errors import InputError, StateError
from tests.engines.conftest import run_examples
from tests.support.table_cases import cases

dask = pytest.importorskip("dask", reason="NOT TESTED: Dask is not installed")
dataframe = pytest.importorskip("dask.dataframe", reason="NOT TESTED: dask[dataframe] is missing")
distributed = pytest.importorskip("distributed", reason="NOT TESTED: distributed is missing")

from dask import bag as dask_bag  # noqa: E402
from dask.delayed import Delayed  # noqa: E402

from streameval.integrations.dask import evaluate  # noqa: E402

CASE = next(case for case in cases() if case.name == "weights and slices")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes, each restarted by its nanny."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as workers,
        distributed.Client(workers),
    ):
        yield workers


def cuts(edges: list[int]) -> list[list[int]]:
    return [list(range(n, m)) for n, m in pairwise([0, *edges, CASE.rows])]


def killed_once(part: pd.DataFrame, marker: str) -> pd.DataFrame:
    """The part; the first time that it is loaded its process is killed."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return part
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed process went on")


def test_workers_that_are_killed_in_the_middle_change_no_bit(cluster: Any, tmp_path: Path) -> None:
    parts = []
    for number, rows in enumerate(cuts(list(range(40, 600, 40)))):
        part = dask.delayed(pd.DataFrame(CASE.part(rows)))
        if number in (5, 14):
            # A killed worker loses what it has counted so far; all of that is counted again.
            part = dask.delayed(killed_once)(part, str(tmp_path / f"killed-{number}"))
        parts.append(part)
    before = pids(cluster)
    assert len(before) == 2
    found = evaluate(parts, **CASE.keywords, split_every=3)
    assert found.to_bytes() == CASE.expected().to_bytes()
    assert len(list(tmp_path.iterdir())) == 2
    assert before - pids(cluster)


def pids(cluster: Any) -> set[int]:
    return {nanny.pid for nanny in cluster.workers.values()}


def test_files_are_read_by_the_workers(cluster: Any, tmp_path: Path) -> None:
    parts = []
    for number, rows in enumerate(cuts([100, 350])):
        path = tmp_path / f"{number}.parquet"
        pd.DataFrame(CASE.part(rows)).to_parquet(path)
        parts.append(dask.delayed(str(path)))
    assert evaluate(parts, **CASE.keywords) == CASE.expected()


def test_only_the_named_columns_are_loaded() -> None:
    asked: list[Any] = []

    class Loaded:
        columns = (*CASE.columns, "other")

        def __getitem__(self, names: list[str]) -> Any:
            asked.extend(names)
            return self

        def to_delayed(self) -> list[Delayed]:
            return [dask.delayed(pd.DataFrame(CASE.columns))]

    evaluate(Loaded(), **CASE.keywords)
    assert sorted(asked) == sorted(CASE.columns)


def test_an_error_of_a_worker_is_that_of_the_call(cluster: Any) -> None:
    events = dask_bag.from_sequence([{"y": 1, "p": 0.5}] * 5 + [{"y": 1, "p": None}], npartitions=2)
    text = r"^score \(column 'p', part 1, row 2\): expected a finite number, got None$"
    with pytest.raises(InputError, match=text):
        evaluate(events, y_true="y", score="p")


def test_partitions_of_other_types_or_columns_than_the_meta_says() -> None:
    frames = [pd.DataFrame(one) for one in ({"y": [1], "g": [1]}, {"y": ["1"], "g": ["1"]})]
    data = dataframe.from_delayed(
        [dask.delayed(frame) for frame in frames], meta=frames[0], verify_meta=False
    )
    text = r"^part 0 and part 1: .*coerce the labels of both sides with int\(...\)$"
    with pytest.raises(StateError, match=text):
        evaluate(data, y_true="y", y_pred="g")
    frames[1] = pd.DataFrame({"y": [1], "h": [1]})
    with pytest.raises(InputError, match=r"^y_pred \(column 'g', part 1\): expected a column 'g'"):
        evaluate([dask.delayed(frame) for frame in frames], y_true="y", y_pred="g")


def test_a_file_under_two_keys_is_counted_once_or_refused(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.csv" for number in range(9)]
    for number, path in enumerate(paths):
        path.write_text(f"y,p\n1,0.{number}\n0,0.5\n")
    named = {"y_true": "y", "score": "p", "split_every": 2}
    parts = [dask.delayed(str(path), name=f"part-{path.stem}") for path in paths]
    assert evaluate(parts, **named)["support"] == 9
    again = dask.delayed(str(tmp_path / "." / "3.csv"), name="another key")
    message = r"^data\[9\]: expected each part once, got the file of data\[3\] again, whose events"
    with pytest.raises(InputError, match=message):
        evaluate([*parts, again], **named)


PART = dask.delayed({"y": [1], "p": [0.5]})


@pytest.mark.parametrize(
    ("data", "keywords", "message"),
    [
        (
            dataframe.from_pandas(pd.DataFrame({"y": [1], "prob": [1.0]}), npartitions=1),
            {"score": "probb"},
            "score: expected a column 'probb', got none among y, prob; did you mean 'prob'?",
        ),
        (
            [PART, PART],
            {},
            "data[1]: expected each part once, got that of data[0] again, whose events would count",
        ),
        (
            [{"y": 1, "p": 0.5}],
            {},
            "data: expected a Dask DataFrame, a bag of dicts or a list of delayed objects, got [{",
        ),
        ([], {}, "data: expected a Dask DataFrame, a bag of dicts or a list of delayed objects"),
        ([PART], {"split_every": 1}, "split_every: expected a number of states from 2, got 1"),
        (
            [PART],
            {"window": se.Last(100)},
            "window: expected None, or Panes or Fading of event time, got Last(n=100), whose "
            'events depend on an order that parts do not share; use streameval.Panes("1h")',
        ),
    ],
)
def test_bad_calls(data: Any, keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        evaluate(data, **{"y_true": "y", "score": "p"} | keywords)


def test_the_examples_of_the_document_and_the_module_run() -> None:
    from streameval.integrations import dask as module

    run_examples("dask.md", module)
