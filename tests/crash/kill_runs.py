"""Kill ``streameval run`` again and again, and compare with an undisturbed run.

    python -m tests.crash.kill_runs --source SOURCE --kills 200 --seed 0 [--events N]
        [--max-scores N] [--store postgresql] [--sets]

SOURCE is files, patterns, http, kafka or broker. With --store postgresql the killed run keeps its
store there, and the server is killed as well and started again. With --sets labels arrive label by
label.

Every life of the run ends with SIGKILL: at a random moment, while it starts,
or at a random call of one of the steps of ``tests.crash.killed_at``. The stream goes
on coming in the meantime. In the end nothing may be missing or counted twice.

With ``--source broker`` it is Apache Kafka that is killed like a power cut and started again, with
messages on their way to it and from it. The run waits, and reads on. Needs what
``tests.support.apache_kafka`` needs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from streameval.errors import StoreError
from streameval.service.config.address import is_postgres
from streameval.service.sources.inbox import segment_path, segments
from streameval.service.store.positions import read_positions
from streameval.service.store.store import each_unit, read_store
from streameval.service.upkeep.copy import copy_store
from tests.crash.kill_feeds import KINDS, Feed, Feeding, FilesFeed, PostsFeed, TopicsFeed
from tests.crash.kill_outcome import differences, outcome, true_states
from tests.crash.kill_stream import Line, label_by_label, stream
from tests.support.apache_kafka import running_kafka
from tests.support.brokers import Broker, running_broker
from tests.support.postgres_server import Postgres, running_postgres
from tests.support.run import config

SOURCES = ("files", "patterns", "http", "kafka", "broker")
RUN = ("-m", "streameval.cli", "run", "run.toml")

_STEPS = {
    "opened": 2,
    "decode": 10,
    "join": 10,
    "join written": 5,
    "states written": 10,
    "states merged": 2,
    "positions written": 5,
    "checkpoint": 10,
}
"""Step -> up to which of its calls is chosen; then those that only one source has."""

_STEPS_OF = {
    "files": {"rotation": 2},
    "patterns": {"rotation": 2, "look": 3, "cut": 1},
    "http": {"inbox": 10, "inbox segment": 1, "inbox dropped": 5},
    "kafka": {},
}
_PATIENCE = 240
"""Seconds that a life may take until it is ready, or until all is read, on a busy machine."""

_PIECES = 8
"""That come in one life, on average, unless another number is given."""


class Life:
    """One process of a run, and what it has said."""

    def __init__(self, directory: Path, *command: str) -> None:
        self._log = directory / "log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                stderr=log,
                stdout=subprocess.DEVNULL,
                cwd=directory,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            )

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def url(self) -> str | None:
        found = re.search(r"listening at (\S+?)/?\n", self.said())
        return found and found[1]

    @property
    def ready(self) -> bool:
        return "counted so far" in self.said()

    def ended(self) -> bool:
        return self.process.poll() is not None

    def expect(self, code: int) -> None:
        """Wait for the end, and see that it is this one."""
        got = self.process.wait(_PATIENCE)
        assert got == code, f"a run ended with {got} instead of {code}:\n{self.said()}"


@contextmanager
def living(directory: Path, *command: str) -> Iterator[Life]:
    """A life for as long as the block lasts."""
    life = Life(directory, *command)
    try:
        yield life
    finally:
        if not life.ended():
            life.process.kill()
            life.process.wait()


def wait_for(life: Life, condition: Callable[[], bool], feeding: Feeding | None = None) -> None:
    """Wait until something has come to pass in a life that goes on, and is fed."""
    until = time.monotonic() + _PATIENCE
    while not condition():
        if feeding is not None:
            feeding.check()
        assert not life.ended(), f"a run has ended by itself, {life.process.poll()}:\n{life.said()}"
        assert time.monotonic() < until, f"it did not come to pass in time:\n{life.said()}"
        time.sleep(0.05)


def kill_once(
    directory: Path, feed: Feed, source: str, rng: random.Random, *, most: int = 2 * _PIECES
) -> str:
    """One life, fed and killed; how it was ended."""
    steps = {**_STEPS, **_STEPS_OF[source]}
    kind = rng.choice(["early", "time", "time", "step", "step", "step", "step"])
    command = [*RUN]
    if kind == "step":
        kind = rng.choice(list(steps))
        number = str(rng.randrange(1, steps[kind] + 1))
        command = ["-m", "tests.crash.killed_at", kind, number, "run", "run.toml"]
    begun = time.monotonic()
    with living(directory, *command) as life, ExitStack() as stack:
        if kind == "early":
            after = rng.uniform(0.0, 1.5)
        else:
            while not (life.ended() or (life.url() if source == "http" else life.ready)):
                assert time.monotonic() - begun < _PATIENCE, life.said()
                time.sleep(0.005)
            # Where a step does not come so often, time ends it.
            after = rng.uniform(0.0, 0.4) if kind == "time" else 1.5
        # From another thread, because a post is waited for in this one.
        out_of_time = threading.Event()
        timer = threading.Timer(after, lambda: (out_of_time.set(), life.process.kill()))
        timer.start()
        stack.callback(timer.join)
        stack.callback(timer.cancel)
        url = life.url()
        pieces = rng.randrange(most)
        while not life.ended():
            if pieces and feed.left and rng.random() < 0.5 and feed.step(url):
                pieces -= 1
            time.sleep(rng.uniform(0.0, 0.02))
        if kind in steps and out_of_time.is_set():
            kind = "time"
        life.expect(-9)
    # The stream does not wait for the next life.
    if source != "http":
        for _ in range(rng.choice([0, 0, 1, 3])):
            if feed.left:
                feed.step(None)
    return kind


def kill_broker(directory: Path, feed: Feed, kafka: Any, kills: int, rng: random.Random) -> None:
    """One life, while the broker is killed again and again."""
    with living(directory, *RUN) as life:
        wait_for(life, lambda: life.ready)
        with Feeding(feed) as feeding:
            each, before = feed.left // kills, 0
            for number in reversed(range(kills)):
                # Each time more comes, and some of it was read.
                feeding.stop_at = number * each
                wait_for(life, lambda: feed.left <= (number + 0.5) * each, feeding)  # noqa: B023
                wait_for(life, lambda: read_so_far(directory) > before, feeding)  # noqa: B023
                time.sleep(rng.uniform(0.0, 0.5))
                before = read_so_far(directory)
                kafka.kill()
                time.sleep(rng.uniform(0.0, 2.0))
                kafka.start()
            wait_for(life, lambda: not feed.left, feeding)
        life.process.terminate()
        life.expect(0)


def finish(
    directory: Path,
    feed: Feed,
    source: str,
    records: int,
    store: str = "run.db",
    disturb: Callable[[], None] = lambda: None,
) -> None:
    """One last life: feed what is left, read to the end, stop; something happens in its middle."""
    if source in ("kafka", "broker"):
        while feed.left:
            feed.step(None)
        with living(directory, *RUN, "--until-end") as life:
            life.expect(0)
        return
    with living(directory, *RUN) as life:
        if source == "http":
            wait_for(life, lambda: life.url() is not None)
        url = life.url()
        wait_for(life, lambda: life.ready)
        middle = feed.left // 2
        while feed.left:
            if feed.left == middle:
                middle = -1
                disturb()
            if not feed.step(url):
                assert not life.ended(), life.said()
                time.sleep(0.01)
        if url is not None:
            wait_for(life, lambda: _is_read(url, directory))
        else:
            wait_for(life, lambda: read_so_far(directory, store) == records)
        # All may have been read by the lives before it: only from here on does it hear a signal.
        wait_for(life, lambda: "events counted so far" in life.said())
        life.process.terminate()
        life.expect(0)


def _is_read(url: str, directory: Path) -> bool:
    """Whether all posts are read; lags alone may be those from before the last post."""
    inbox = Path(os.path.realpath(directory / "run.db") + ".inbox")
    with urllib.request.urlopen(f"{url}/api/partitions") as answer:
        read = {row["partition"]: row["position"] for row in json.load(answer)["partitions"]}
    for kind in KINDS:
        newest = segments(inbox, kind)[-1]
        end = {"segment": newest, "offset": segment_path(inbox, kind, newest).stat().st_size}
        if read.get(f"http:{kind}") != end:
            return False
    return True


def read_so_far(directory: Path, store: str = "run.db") -> int:
    """How many records have been counted or refused, for certain."""
    read = 0
    with suppress(StoreError), closing(read_store(_of(directory, store))) as opened:
        for _ in each_unit(opened):
            with opened.reading() as connection:
                read += sum(one.records for one in read_positions(connection).values())
        return read
    return 0


def begin(
    directory: Path,
    table: str,
    source: str,
    max_scores: int | None = None,
    store: str = "run.db",
    *,
    sets: bool = False,
    more: bool = False,
) -> None:
    """Write the configuration; ``sets``: of labels that arrive label by label; ``more`` slices."""
    evaluator: dict[str, Any] = {"metrics": ["accuracy", "roc_auc", "log_loss"]}
    fields: dict[str, Any] = {"id": "id", "score": "score", "time": "time"}
    if sets:
        evaluator = {"task": "multilabel", "labels": ["ad", "spam"], "threshold": 0.5}
        evaluator["metrics"] = ["f1_micro"]
        fields["label"] = {"y_true": "tag", "final": "final"}
    if max_scores is not None:
        evaluator["max_scores"] = max_scores
    hour = {"name": "hour", "length": "1h", "pane": "10m", "retain": "7d"}
    text = config(
        store=store,
        evaluator={**evaluator, "slices": ["country", *["shop"] * more]},
        window=[{"name": "all"}, hour, *[{"name": "again"}] * more],
        fields=fields,
        files=None,
        # Longer than the whole stream, so that nothing expires by what the clock calls idle.
        join={"wait": "48h", "hot": 300},
        checkpoint={"every": "20ms", "events": 60},
        quarantine={"keep": 100000},
        serve={"enabled": source == "http", "listen": "127.0.0.1:0"},
    )
    (directory / "run.toml").write_text(text + table)


def kill_runs(
    source: str,
    directory: Path,
    *,
    kills: int,
    predictions: int,
    seed: int,
    pieces: int = _PIECES,
    broker: Any = None,
    kafka: Any = None,
    max_scores: int | None = None,
    server: Postgres | None = None,
    sets: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> list[str]:
    """Run twice in an empty directory, once with kills; a line for every difference."""
    lines = stream(seed, predictions)
    if sets:
        lines = label_by_label(lines, seed)
    count = kills * pieces
    rng = random.Random(seed)
    killed, whole = directory / "killed", directory / "whole"
    endings: Counter[str] = Counter()
    feeds: list[Feed] = []
    address = None if server is None else server.address(f"killed_{source}")
    for place in (killed, whole):
        place.mkdir()
        store = address if address is not None and place == killed else "run.db"
        if source in ("files", "patterns"):
            pattern = source == "patterns"
            feeds.append(FilesFeed(place, _of(place, store), lines, count, seed, pattern=pattern))
        elif source == "http":
            feeds.append(PostsFeed(lines, count, seed))
        elif not feeds:
            feeds.append(TopicsFeed(broker, lines, count, seed))
        else:
            feeds.append(feeds[0])  # the same messages in the same topics, all there
        begin(place, feeds[-1].table, source, max_scores, store, sets=sets)
    if kafka is not None:
        kill_broker(killed, feeds[0], kafka, kills, rng)
        endings["broker"] = kills
    for number in range(1, kills + 1) if kafka is None else ():
        endings[kill_once(killed, feeds[0], source, rng, most=2 * pieces)] += 1
        if number % 20 == 0:
            tell(f"{source}: {number} kills, {feeds[0].left} of {count} pieces left")
    for place, feed in zip((killed, whole), feeds, strict=True):
        if server is None or address is None or place == whole:
            finish(place, feed, source, len(lines))
        else:
            finish(place, feed, source, len(lines), address, server.restart)
            copy_store(address, str(killed / "run.db"))
    retried = source == "http"
    found, told = compare(whole, outcome(killed, retried=retried), lines, retried=retried)
    told += "; ended by " + ", ".join(f"{name} {n}" for name, n in sorted(endings.items()))
    if isinstance(feeds[0], FilesFeed):
        rotations = sorted(feeds[0].rotations.items())
        tell(f"{source}: rotated " + ", ".join(f"{name} {n}" for name, n in rotations))
    tell(f"{source}: {kills} kills, {feeds[0].repeats} posts repeated, {told}")
    return found


def _of(directory: Path, store: str) -> str:
    return store if is_postgres(store) else str(directory / store)


def compare(
    whole: Path, got: dict[str, Any], lines: list[Line], *, retried: bool = False
) -> tuple[list[str], str]:
    """A line for each difference of two runs, and of the stream itself; and what was compared.

    Of the join of many workers only the counts are compared.
    """
    expected = outcome(whole, retried=retried)
    named = {name: expected[name] for name in expected if name in got or "join " not in name}
    found = differences(named, got)
    for name, state in true_states(whole / "run.toml", lines).items():
        if state != expected[f"state {name}"]:
            found.append(f"state {name}: the run that was not broken differs from the stream")
    told = f"{len(lines):,} records, {got['events']:,} events counted, {len(got)} values compared"
    return found, told


def verdict(found: list[str]) -> str:
    """Print differences; in a few words how it went."""
    for line in found[:50]:
        print(line)
    return f"NOT EQUAL: {len(found)} differences" if found else "equal: nothing lost or doubled"


def main() -> int:
    """The command; 1 when anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", choices=SOURCES, required=True)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--events", type=int, default=None, help="predictions; 60 for each kill")
    parser.add_argument("--max-scores", type=int, default=None, help="as in the configuration")
    parser.add_argument("--sets", action="store_true", help="of labels, label by label")
    parser.add_argument("--pieces", type=int, default=_PIECES, help="of the stream for each kill")
    parser.add_argument("--store", choices=("file", "postgresql"), default="file")
    given = vars(parser.parse_args())
    source, kills, seed = (given[name] for name in ("source", "kills", "seed"))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kill")))
        given["predictions"] = given.pop("events") or 60 * kills
        if source == "broker":
            given["kafka"] = kafka = stack.enter_context(running_kafka(directory))
            if kafka is None:
                return 0
            given["broker"] = Broker(kafka.bootstrap, keeps_data=True)
        if source == "kafka":
            given["broker"] = stack.enter_context(running_broker())
        if given.pop("store") == "postgresql":
            given["server"] = stack.enter_context(running_postgres(directory / "server"))
        found = kill_runs(directory=directory, tell=partial(print, flush=True), **given)
    print(f"{source}, seed {seed}, {kills} kills: {verdict(found)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
