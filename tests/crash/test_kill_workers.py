"""A few disturbances of workers that share an evaluation; ``make kill-workers`` makes a hundred."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.kill_workers import kill_workers
from tests.support.brokers import running_broker
from tests.support.postgres_server import running_postgres


@pytest.mark.broker
def test_workers_that_are_disturbed_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    with running_broker() as broker, running_postgres(tmp_path / "postgres") as postgres:
        found = kill_workers(
            broker,
            postgres,
            tmp_path,
            actions=["stop", "postgres", "kill"],
            predictions=600,
            seed=7,
            workers=2,
            tell=print,
        )
    assert found == []
