"""A few kills of each kind; ``make kill`` makes two hundred."""

from __future__ import annotations

import pytest

from tests.kill_runs import run


@pytest.mark.parametrize("source", ["files", "http", "kafka"])
def test_a_run_that_is_killed_loses_nothing_and_counts_nothing_twice(source: str) -> None:
    same, told = run(source, kills=5, seed=7, events=2_000)
    assert same, told
