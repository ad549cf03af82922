"""A few kills of each kind; ``make kill`` makes two hundred."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from streameval.evaluator.evaluator import load
from tests.crash.kill_outcome import differences
from tests.crash.kill_runs import SOURCES, kill_runs
from tests.support.brokers import running_broker

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(source, marks=[pytest.mark.broker] if source == "kafka" else [])
        for source in SOURCES
    ],
)
def test_a_run_that_is_killed_loses_nothing_and_counts_nothing_twice(
    source: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(running_broker()) if source == "kafka" else None
        topic = f"killed-{time.time_ns()}"
        found = kill_runs(
            source, tmp_path, kills=4, predictions=300, seed=7, broker=broker, topic=topic
        )
    assert found == []


def test_a_run_that_is_killed_with_its_server_loses_nothing(tmp_path: Path, postgres: Any) -> None:
    assert kill_runs("files", tmp_path, kills=3, predictions=200, seed=8, server=postgres) == []


def test_a_run_that_is_killed_joins_the_same_scores(tmp_path: Path) -> None:
    found = kill_runs("files", tmp_path, kills=4, predictions=3000, seed=7, max_scores=1024)
    assert found == []
    evaluator = load(tmp_path / "killed" / "states" / "all.state")
    bounds = evaluator.bounds("roc_auc")
    assert bounds.low < evaluator["roc_auc"] < bounds.high


def test_differences_are_reported() -> None:
    one = {"events": 5, "join": {"joined": 3}, "state all": b"ab", "refused": [(1, b"x")]}
    other = {"events": 6, "join": {"joined": 2}, "state all": b"ac", "refused": []}
    assert differences(one, one) == []
    assert differences(one, other) == [
        "events: expected 5, got 6",
        "join: joined: expected 3, got 2",
        "refused: missing [(1, b'x')], too many []",
        "state all: 2 and 2 bytes that are not the same",
    ]
