"""A few kills of each kind; ``make kill`` makes two hundred, ``make kill-workers`` a hundred."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streameval.evaluator.evaluator import load
from tests.crash.kill_outcome import differences
from tests.crash.kill_runs import kill_runs
from tests.crash.kill_workers import kill_workers
from tests.support.brokers import running_broker

pytestmark = pytest.mark.heavy
FEW: dict[str, Any] = {"kills": 4, "predictions": 300, "seed": 7}


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("files", {"predictions": 3000, "max_scores": 1024}),
        ("files", {"sets": True}),
        ("files", {"server": "postgres"}),
        ("patterns", {}),
        ("http", {}),
    ],
)
def test_a_run_that_is_killed_loses_nothing_and_counts_nothing_twice(
    source: str, options: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "server" in options:
        options = {"server": request.getfixturevalue(options["server"])}
    assert kill_runs(source, tmp_path, **{**FEW, **options}) == []
    if "max_scores" in options:
        evaluator = load(tmp_path / "killed" / "states" / "all.state")
        bounds = evaluator.bounds("roc_auc")
        assert bounds.low < evaluator["roc_auc"] < bounds.high


@pytest.mark.broker
def test_one_run_and_workers_on_a_broker_lose_nothing_and_count_nothing_twice(
    tmp_path: Path, postgres: Any
) -> None:
    with running_broker() as broker:
        assert kill_runs("kafka", tmp_path, **FEW, broker=broker) == []
        (tmp_path / "workers").mkdir()
        given: dict[str, Any] = {"predictions": 600, "seed": 7, "workers": 3}
        actions = ["stop", "kill", "postgres"]
        assert kill_workers(broker, postgres, tmp_path / "workers", actions=actions, **given) == []


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
