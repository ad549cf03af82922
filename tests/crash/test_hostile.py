"""Ten thousand records that cannot be counted, from every source: each is refused, alone."""

from __future__ import annotations

import random
import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.crash.kill_runs import RUN, Life, living, read_so_far, wait_for
from tests.support.brokers import running_broker
from tests.support.hostile import good, hostile
from tests.support.run import config

pytestmark = pytest.mark.heavy

_MOST_GROWTH = 48 * 1024
"""KiB: loose, for the allocator's sake; 10,000 records kept would be several times as much."""


def configure(directory: Path, **source: Any) -> None:
    """Write the configuration of a run of a source."""
    fields = {"id": "id", "score": "score", "time": "time"}
    checkpoint = {"every": "50ms", "events": 500}
    given = {"store": "run.db", "window": None, "fields": fields, "join": {"wait": "48h"}}
    given |= {"checkpoint": checkpoint, "files": None, **source}
    (directory / "run.toml").write_text(config(**given))


def resident(life: Life) -> int:
    """KiB that a process has in memory."""
    status = Path(f"/proc/{life.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1])


def refused(directory: Path) -> tuple[int, int]:
    """How many events were counted, and how many records refused."""
    with closing(sqlite3.connect(directory / "run.db")) as store:
        (events,) = store.execute("SELECT value FROM counters WHERE name = 'events'").fetchone()
        (total,) = store.execute("SELECT sum(total) FROM quarantine_reasons").fetchone()
        (kept,) = store.execute("SELECT count(*) FROM quarantine").fetchone()
    assert kept == min(total, 10_000)
    return events, total


def test_in_files(tmp_path: Path) -> None:
    configure(tmp_path, files={"records": ["in.jsonl"]})
    file = tmp_path / "in.jsonl"
    # The first third shows what the run needs for itself.
    first, rest = list(hostile(1, 3_000)), list(hostile(2, 7_000))
    file.write_bytes(b"".join(line + b"\n" + good(n) + b"\n" for n, line in enumerate(first)))
    with living(tmp_path, *RUN) as life:
        wait_for(life, lambda: read_so_far(tmp_path) == 6_000)
        before = resident(life)
        with file.open("ab") as more:
            more.write(b"".join(line + b"\n" for line in rest))
        wait_for(life, lambda: read_so_far(tmp_path) == 13_000)
        growth = resident(life) - before
        life.process.terminate()
        life.expect(0)
    assert refused(tmp_path) == (3_000, 10_000)
    assert growth < _MOST_GROWTH


def test_posted(tmp_path: Path) -> None:
    serve = {"listen": "127.0.0.1:0"}
    configure(tmp_path, http={}, serve=serve, quarantine={"keep": 10000})
    answers: Counter[int] = Counter()
    taken = 0
    with living(tmp_path, *RUN) as life, httpx.Client(timeout=20) as client:
        wait_for(life, lambda: life.url() is not None)
        url = life.url()
        bodies: list[tuple[str, bytes]] = []
        for kind in ("predictions", "labels"):
            labels = kind == "labels"
            bodies += [(kind, body) for body in hostile(3, 750, labels=labels)]
            # One by one, and then many in a body: that one is taken or refused as a whole.
            for n in range(50):
                many = hostile(10 + n, 250, oversized=0, labels=labels)
                bodies.append((kind, b"\n".join(line for line in many if n < 10 or _is_text(line))))
        random.Random(5).shuffle(bodies)
        for number, (kind, body) in enumerate(bodies):
            answer = client.post(
                f"{url}/v1/{kind}",
                content=body,
                headers={"content-type": ["application/x-ndjson", "application/json"][number % 2]},
            )
            answers[answer.status_code] += 1
            if answer.status_code == 202:
                taken += answer.json()["accepted"]
            if number == len(bodies) // 3:
                before = resident(life)
        posted = client.post(f"{url}/v1/predictions", content=good(1))
        assert posted.status_code == 202
        wait_for(life, lambda: read_so_far(tmp_path) == taken + 1)
        growth = resident(life) - before
        life.process.terminate()
        life.expect(0)
    assert set(answers) == {202, 400, 413}, answers
    assert refused(tmp_path) == (1, taken)
    assert taken > 8_000
    assert growth < _MOST_GROWTH


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.broker
def test_in_a_topic(tmp_path: Path) -> None:
    values = list(hostile(4, 3_000, oversized=0))
    with running_broker() as broker:
        topic = f"hostile-{tmp_path.name}"
        broker.make_topic(topic, 2)
        # Keys that are no text either; a message may lack its value altogether.
        messages = [(value[:20], value, -1) for value in values]
        broker.send(topic, [*messages, (b"k", None, 0), (None, b"", 1), (None, good(1), 0)])
        servers = {"bootstrap.servers": broker.bootstrap}
        configure(tmp_path, kafka={"records": topic, "properties": servers})
        with living(tmp_path, *RUN, "--until-end") as life:
            life.expect(0)
    assert refused(tmp_path) == (1, len(values) + 2)
