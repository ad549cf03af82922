"""Kill a run again and again; in the end its numbers are those of a run that nobody killed.

    python -m tests.kill_runs --source files --kills 200 --seed 0

A stream with everything that goes wrong in it (``kill_stream``) is fed piece by
piece to ``streameval run``. Each life of the process ends by SIGKILL, at a random
moment or at a random call of a random step (``killed_at``), and the next
one goes on. Then all is read to the end, and compared with an uninterrupted
run of the same pieces: every metric and its support in every window and
slice, the states' bytes, the join's counts, quarantine and positions.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Protocol

from tests.brokers import Broker, free_port, running_broker
from tests.kill_stream import Line, stream
from tests.killed_at import STEPS

CONFIG = """
store = "run.db"
[evaluator]
slices = ["country"]
[fields]
id = "id"
score = "score"
time = "time"
[join]
wait = "6h"
hot = 500
[[window]]
name = "all"
[[window]]
name = "1h"
length = "1h"
pane = "10m"
[checkpoint]
every = "50ms"
events = 500
"""

_LIFE_SECONDS = 6.0
"""A life that its step does not end is ended by the clock."""


class Feed(Protocol):
    """Brings pieces of the stream to where a run reads."""

    config: str

    def send(self, lines: list[Line], number: int) -> None:
        """Bring a piece."""

    def retry(self) -> bool:
        """Bring what could not be brought before; whether all is there."""


class Files:
    """Two files that grow; after every fifth piece they are rotated by rename."""

    config = """
[serve]
enabled = false
[files]
predictions = ["predictions.jsonl"]
labels = ["labels.jsonl"]
"""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        for kind in ("predictions", "labels"):
            (directory / f"{kind}.jsonl").touch()

    def send(self, lines: list[Line], number: int) -> None:
        for kind in ("predictions", "labels"):
            path = self._directory / f"{kind}.jsonl"
            if number % 5 == 4:
                path.rename(self._directory / f"{kind}.jsonl-{number:05d}")
            with path.open("ab") as file:
                for line in lines:
                    if line.kind == kind:
                        file.write(line.body + b"\n")

    def retry(self) -> bool:
        return True


class Posts:
    """Posts that are repeated until they are answered."""

    def __init__(self) -> None:
        self.port = free_port()
        self.config = f'[serve]\nlisten = "127.0.0.1:{self.port}"\n[http]\n'
        self._pending: list[tuple[str, bytes]] = []

    def send(self, lines: list[Line], number: int) -> None:
        for kind in ("predictions", "labels"):
            mine = [line.body for line in lines if line.kind == kind]
            for start in range(0, len(mine), 50):
                self._pending.append((kind, b"\n".join(mine[start : start + 50])))

    def retry(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            while self._pending:
                kind, body = self._pending[0]
                connection.request("POST", f"/v1/{kind}", body)
                answer = connection.getresponse()
                answer.read()
                # What is not UTF-8 is refused as a whole, and not sent again.
                if answer.status not in (202, 400):
                    return False
                self._pending.pop(0)
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return True


class Topics:
    """Two topics of four partitions each, by key."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker = broker
        self._name = name
        for kind in ("predictions", "labels"):
            broker.make_topic(f"{name}-{kind}", 4)
        self.config = f"""
[serve]
enabled = false
[kafka]
predictions = "{name}-predictions"
labels = "{name}-labels"
[kafka.properties]
"bootstrap.servers" = "{broker.bootstrap}"
"""

    def send(self, lines: list[Line], number: int) -> None:
        for kind in ("predictions", "labels"):
            mine = [(line.key.encode(), line.body, -1) for line in lines if line.kind == kind]
            self._broker.send(f"{self._name}-{kind}", mine)

    def retry(self) -> bool:
        return True


def command(directory: Path, *arguments: str, step: tuple[str, int] | None = None) -> list[str]:
    module = ["streameval.cli"] if step is None else ["tests.killed_at", step[0], str(step[1])]
    return [sys.executable, "-m", *module, *arguments]


def start(directory: Path, *options: str, step: tuple[str, int] | None = None) -> Any:
    with (directory / "run.log").open("ab") as log:
        return subprocess.Popen(
            command(directory, "run", str(directory / "run.toml"), *options, step=step),
            cwd=directory,
            stderr=log,
            env=_environment(),
        )


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}


def finish(directory: Path, feed: Feed) -> None:
    """Read what is left; a run that posts go to is ended when it has caught up."""
    if isinstance(feed, Posts):
        process = start(directory)
        try:
            _until(feed.retry, "the posts are not taken")
            _until(lambda: _caught_up(feed.port), "the inbox is not read to its end")
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
        finally:
            process.kill()
    else:
        code = start(directory, "--until-end").wait(300)
    assert code == 0, (directory / "run.log").read_text()[-2000:]


def _until(done: Callable[[], bool], trouble: str, seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until, trouble
        time.sleep(0.05)


def _has_counted(directory: Path) -> bool:
    with closing(sqlite3.connect(directory / "run.db")) as store:
        try:
            (count,) = store.execute("SELECT count(*) FROM positions").fetchone()
        except sqlite3.OperationalError:
            return False
    # Files or inbox: both; of topics' partitions some.
    return bool(count >= 2)


def begin(directory: Path, feed: Feed, first: list[Line]) -> Any:
    """Start on the first piece. What was never read cannot be known after a rotation."""
    feed.send(first, 0)
    process = start(directory)
    _until(feed.retry, "the posts are not taken")
    _until(lambda: _has_counted(directory), "nothing is counted")
    return process


def _caught_up(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/api/partitions")
        partitions = json.loads(connection.getresponse().read())["partitions"]
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return bool(partitions) and all(part["lag"] == 0 for part in partitions)


def result(directory: Path, source: str) -> dict[str, Any]:
    """All that a run knows in the end, comparable with another's."""
    report = subprocess.run(
        command(directory, "store", "report", "run.db", "--format", "json"),
        cwd=directory,
        env=_environment(),
        capture_output=True,
        check=True,
    )
    told = json.loads(report.stdout.replace(str(directory).encode(), b""))
    with closing(sqlite3.connect(directory / "run.db")) as store:
        rows = store.execute("SELECT partition, position, records FROM positions").fetchall()
        reasons = dict(store.execute("SELECT reason, total FROM quarantine_reasons"))
        counts = json.loads(store.execute("SELECT data FROM join_counts").fetchone()[0])
    positions = {
        name.replace(str(directory), ""): [json.loads(position), records]
        for name, position, records in rows
    }
    told["quarantine_reasons"] = reasons
    told["positions"] = positions
    told["join_counts"] = json.loads(json.dumps(counts["coverage"]).replace(str(directory), ""))
    if source == "http":
        # A post whose answer was lost comes twice: more records, and more duplicates.
        del told["positions"]
        del told["join_counts"]["labels"]  # those without a prediction, by their time
        for partition in told["join_counts"]["counts"].values():
            for name in ("duplicate_predictions", "duplicate_labels", "labels"):
                partition.pop(name, None)
        _without(told, ("labels", "duplicate_predictions", "duplicate_labels", "position"))
        _without(told, ("records", "quarantine_reasons", "quarantine"))
    # When a part of it was shown, and how late each event was, depends on the checkpoints.
    _without(told, ("at", "seconds", "sequence", "arrivals", "checkpoint", "checkpoints"))
    return told


def _without(value: Any, names: tuple[str, ...]) -> None:
    if isinstance(value, dict):
        for name in names:
            # The list of a window's labels has the name of the join's count of them.
            if not isinstance(value.get(name), list):
                value.pop(name, None)
        for inner in value.values():
            _without(inner, names)
    elif isinstance(value, list):
        for inner in value:
            _without(inner, names)


def pieces(lines: list[Line], count: int) -> list[list[Line]]:
    size = -(-len(lines) // count)
    return [lines[n : n + size] for n in range(0, len(lines), size)]


def killed(
    directory: Path, feed: Feed, parts: list[list[Line]], kills: int, rng: random.Random
) -> dict[str, int]:
    """Feed the pieces, one a life; how many lives each step ended."""
    ends: dict[str, int] = {}
    begin(directory, feed, parts[0]).kill()
    for number in range(1, max(kills, len(parts))):
        if number < len(parts):
            feed.send(parts[number], number)
        step = None
        if rng.random() < 0.7:
            name = rng.choice([name for name in STEPS if _can(name, feed)])
            step = name, rng.randrange(1, 7)
        process = start(directory, step=step)
        until = time.monotonic() + (_LIFE_SECONDS if step else rng.uniform(0.3, 2.5))
        while process.poll() is None and time.monotonic() < until:
            feed.retry()
            time.sleep(0.02)
        by_step = process.poll() is not None
        process.kill()
        code = process.wait()
        assert code == -signal.SIGKILL, (code, (directory / "run.log").read_text()[-3000:])
        end = step[0] if by_step and step else "the clock"
        ends[end] = ends.get(end, 0) + 1
        if number % 10 == 9:
            print(f"{number + 1} kills", file=sys.stderr, flush=True)
    return ends


def _can(step: str, feed: Feed) -> bool:
    if step == "rotation":
        return isinstance(feed, Files)
    return not step.startswith("inbox") or isinstance(feed, Posts)


def uninterrupted(directory: Path, feed: Feed, parts: list[list[Line]]) -> None:
    """The same pieces to one life; topics hold them already."""
    if not isinstance(feed, Topics):
        process = begin(directory, feed, parts[0])
        try:
            for number, part in enumerate(parts[1:], 1):
                feed.send(part, number)
                _until(feed.retry, "the posts are not taken")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (directory / "run.log").read_text()[-3000:]
        finally:
            process.kill()
    finish(directory, feed)


def run(source: str, kills: int, seed: int, events: int) -> tuple[bool, str]:
    """Whether both runs agree, and a line that says so."""
    rng = random.Random(seed)
    lines = stream(seed, events)
    parts = pieces(lines, kills)
    with ExitStack() as stack:
        folders = [
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kill-"))) for _ in "ab"
        ]
        feeds: list[Feed]
        if source == "files":
            feeds = [Files(folder) for folder in folders]
        elif source == "http":
            feeds = [Posts(), Posts()]
        else:
            broker = stack.enter_context(running_broker())
            # One set of topics: what is fed once is read by both.
            topics = Topics(broker, f"kill{time.time_ns()}")
            feeds = [topics, topics]
        for folder, feed in zip(folders, feeds, strict=True):
            (folder / "run.toml").write_text(CONFIG + feed.config)
        ends = killed(folders[0], feeds[0], parts, kills, rng)
        finish(folders[0], feeds[0])
        uninterrupted(folders[1], feeds[1], parts)
        found, expected = (result(folder, source) for folder in folders)
        same = found == expected
        if not same:
            for name, told in (("killed", found), ("uninterrupted", expected)):
                Path(f"kill-{name}.json").write_text(json.dumps(told, indent=1, sort_keys=True))
        ways = ", ".join(f"{count} in {name}" for name, count in sorted(ends.items()))
        verdict = "equal to the bit" if same else "DIFFERENT: see kill-*.json"
        told = (
            f"{source}: {len(lines):,} records, {sum(ends.values())} kills ({ways}), "
            f"seed {seed}: {verdict}"
        )
    return same, told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", choices=["files", "http", "kafka"], required=True)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--events", type=int, default=20_000)
    given = parser.parse_args()
    same, told = run(given.source, given.kills, given.seed, given.events)
    print(told)
    sys.exit(not same)


if __name__ == "__main__":
    main()
