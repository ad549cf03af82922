"""A few disturbances of workers that share an evaluation; ``make kill-workers`` makes a hundred."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.kill_workers import kill_workers
from tests.support.brokers import running_broker
from tests.support.postgres_server import Postgres


@pytest.mark.broker
def test_workers_that_are_disturbed_lose_nothing_and_count_nothing_twice(
    tmp_path: Path, postgres: Postgres
) -> None:
    with running_broker() as broker:
        found = kill_workers(
            broker,
            postgres,
            tmp_path,
            actions=["stop", "kill", "postgres"],
            predictions=600,
            seed=7,
            workers=3,
        )
    assert found == []
