"""Killed and started again: a short form of ``python -m tests.kill_runs`` for each source."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.brokers import running_broker
from tests.kill_outcome import differences
from tests.kill_runs import kill_runs
from tests.kill_stream import stream


@pytest.mark.parametrize("source", ["files", "http"])
def test_killed_six_times(tmp_path: Path, source: str) -> None:
    assert kill_runs(source, tmp_path, kills=6, predictions=500, seed=3) == []


def test_killed_six_times_on_kafka(tmp_path: Path) -> None:
    with running_broker() as broker:
        name = f"kill-{random.SystemRandom().randrange(10**9)}"
        found = kill_runs(
            "kafka", tmp_path, kills=6, predictions=500, seed=4, broker=broker, topic=name
        )
    assert found == []


def test_differences_are_told() -> None:
    one = {"events": 5, "join": {"joined": 3}, "state all": b"ab", "refused": [(1, b"x")]}
    other = {"events": 6, "join": {"joined": 2}, "state all": b"ac", "refused": []}
    assert differences(one, one) == []
    assert differences(one, other) == [
        "events: expected 5, got 6",
        "join: joined: expected 3, got 2",
        "refused: missing [(1, b'x')], too many []",
        "state all: 2 and 2 bytes that are not the same",
    ]


def test_the_stream_has_everything_that_goes_wrong() -> None:
    lines = stream(3, 500)
    bodies = [(line.kind, line.body) for line in lines]
    assert len(set(bodies)) < len(bodies)
    assert sum(b"stray" in body for _, body in bodies) > 0
    assert sum(not body.startswith(b'{"id": "') for _, body in bodies) > 0
