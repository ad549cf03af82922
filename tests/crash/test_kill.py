"""A few kills of each kind; ``make kill`` makes two hundred."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from streameval.evaluator.evaluator import load
from tests.crash.kill_outcome import differences
from tests.crash.kill_runs import kill_runs
from tests.support.brokers import running_broker

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("files", {}),
        ("files", {"predictions": 3000, "max_scores": 1024}),
        ("files", {"sets": True}),
        ("files", {"server": "postgres"}),
        ("patterns", {}),
        ("http", {}),
        pytest.param("kafka", {}, marks=pytest.mark.broker),
    ],
)
def test_a_run_that_is_killed_loses_nothing_and_counts_nothing_twice(
    source: str, options: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    given: dict[str, Any] = {"kills": 4, "predictions": 300, "seed": 7, **options}
    if "server" in given:
        given["server"] = request.getfixturevalue(given["server"])
    with ExitStack() as stack:
        if source == "kafka":
            given["broker"] = stack.enter_context(running_broker())
            given["topic"] = f"killed-{time.time_ns()}"
        assert kill_runs(source, tmp_path, **given) == []
    if "max_scores" in given:
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
