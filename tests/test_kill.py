"""A few kills of each kind; ``make kill`` makes two hundred."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.brokers import running_broker
from tests.kill_runs import SOURCES, kill_runs


@pytest.mark.parametrize("source", SOURCES)
def test_a_run_that_is_killed_loses_nothing_and_counts_nothing_twice(
    source: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        broker = stack.enter_context(running_broker()) if source == "kafka" else None
        found = kill_runs(source, tmp_path, kills=5, predictions=400, seed=7, broker=broker)
    assert found == []
