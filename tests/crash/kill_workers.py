"""Disturb the workers of one evaluation again and again, and compare with one undisturbed process.

    python -m tests.crash.kill_workers --kills 100 --seed 0 [--events N] [--workers 4]

Workers share a store on PostgreSQL and the partitions of two topics that are joined. They are
killed, stopped until the group has given their partitions to others and then resumed, added and
removed; the broker and the database are restarted as after a power cut; their settings are changed,
one worker after another, and changed back. The stream goes on meanwhile. In the end the merged
states of all units have the bytes of one process that read the same topics, and of the stream
itself. Needs what ``tests.support.apache_kafka`` needs.
"""

from __future__ import annotations

import io
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import typer

from streameval.cli import main as main_of_cli
from streameval.service.store.store import each_unit, read_store
from streameval.service.upkeep.settings_migration import stored_fingerprint
from tests.crash.kill_feeds import Feeding, TopicsFeed
from tests.crash.kill_outcome import outcome
from tests.crash.kill_runs import Life, begin, compare, finish, read_so_far, verdict, wait_for
from tests.crash.kill_stream import stream
from tests.support.apache_kafka import ApacheKafka, running_kafka
from tests.support.brokers import Broker
from tests.support.postgres_server import Postgres, running_postgres

PARTITIONS = 12

SESSION_SECONDS, SHORT_SESSION_SECONDS = 6.0, 2.0
"""The shortest that Apache Kafka permits unless it is configured otherwise, and Tansu."""

ACTIONS = {"kill": 36, "stop": 18, "add": 11, "remove": 11, "broker": 8, "postgres": 8, "change": 8}
"""Action -> how often it is chosen."""

_WITHOUT = "this worker ends without a partition"

_DROP = ("--drop", "slice.shop", "--drop", "window.again")

_PATIENCE = 240
"""Seconds for what has to come to pass, on a busy machine."""

_MOST_MORE = 2
"""Workers that are started beyond the usual number."""


class Workers:
    """The processes of one evaluation."""

    def __init__(
        self, directory: Path, table: str, store: str, count: int, session_seconds: float
    ) -> None:
        self._directory = directory
        self._session = session_seconds
        self._table = table
        self._store = store
        self.usual = count
        self._begun = 0
        self.changes = 0
        """How often the settings were changed: an odd number of times, there are more of them."""
        self._of: dict[Life, tuple[Path, int]] = {}
        """The directory of each, and the changes that there had been when it was started."""
        self.running: list[Life] = []
        self._stopped: list[tuple[Life, float]] = []
        for _ in range(count):
            self.add()

    def add(self) -> None:
        self._begun += 1
        place = self._directory / f"worker-{self._begun}"
        place.mkdir()
        self._configure(place)
        self._start(place)

    def _configure(self, place: Path) -> None:
        more = self.changes % 2 == 1  # of the slices and windows
        begin(place, self._table, "kafka", store=self._store, more=more)

    def _start(self, place: Path) -> None:
        life = Life(place, "-m", "streameval.cli", "run", "run.toml", *_DROP)
        self._of[life] = place, self.changes
        self.running.append(life)

    def is_current(self, life: Life) -> bool:
        """Whether it was started with the settings of now."""
        return self._of[life][1] == self.changes

    @property
    def current(self) -> list[Life]:
        return [life for life in self.running if self.is_current(life)]

    def change(self, life: Life) -> None:
        """Change the settings, and start one worker again with them; the others end."""
        self.changes += 1
        place, _ = self._of[life]
        self.remove(life)
        self._configure(place)
        self._start(place)

    def _restart(self, life: Life) -> None:
        """As a kubelet does with the old file, and then a rolling update with the new one."""
        self.running.remove(life)
        life.expect(0)
        assert "the group has newer settings" in life.said(), life.said()
        place, changes = self._of[life]
        self._start(place)
        if (self.changes - changes) % 2 == 0:
            return  # they were changed back meanwhile, or are about to be
        again = self.running.pop()
        again.expect(0)
        assert _WITHOUT in again.said(), again.said()
        self._configure(place)
        self._start(place)

    def kill(self, life: Life) -> None:
        self.running.remove(life)
        life.process.kill()
        life.expect(-9)

    def stop(self, life: Life) -> None:
        """Let it stand still until its session has expired."""
        self.running.remove(life)
        life.process.send_signal(signal.SIGSTOP)
        self._stopped.append((life, time.monotonic() + 1.6 * self._session))

    def resume(self, *, wait: bool = False) -> None:
        """Let those go on that have stood still for long enough."""
        for life, until in list(self._stopped):
            if wait:
                time.sleep(max(0.0, until - time.monotonic()))
            if time.monotonic() >= until:
                life.process.send_signal(signal.SIGCONT)
                self._stopped.remove((life, until))
                self.running.append(life)

    def remove(self, life: Life) -> None:
        """End it as a user does, once it hears signals."""
        self.running.remove(life)
        wait_for(life, lambda: "a worker of the group" in life.said())
        life.process.terminate()
        life.expect(0)

    def check(self) -> None:
        """No worker ends by itself, unless the group has newer settings."""
        for life in list(self.running):
            if life.ended() and (not self.is_current(life) or _WITHOUT in life.said()):
                self._restart(life)
            else:
                assert not life.ended(), f"a worker has ended by itself:\n{life.said()}"

    def close(self) -> None:
        """Whatever happens: no process is left."""
        for life in [*self.running, *(life for life, _ in self._stopped)]:
            if not life.ended():
                life.process.kill()
                life.process.wait()

    def said(self) -> str:
        """The logs of all there were."""
        logs = sorted(self._directory.glob("worker-*/log"))
        return "\n".join(log.read_text(errors="replace") for log in logs)


def kill_workers(
    broker: Broker,
    postgres: Postgres,
    directory: Path,
    *,
    actions: Sequence[str],
    predictions: int,
    seed: int,
    workers: int = 4,
    kafka: ApacheKafka | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> list[str]:
    """Disturb workers in an empty directory by these actions; a line for every difference."""
    rng = random.Random(seed)
    lines = stream(seed, predictions)
    topic = f"workers-{time.time_ns()}"
    count = 10 * (len(actions) + 1)
    feed = TopicsFeed(broker, lines, count, seed, PARTITIONS)
    store = postgres.address("workers")
    # The default, a name for each worker of a machine, where the broker knows static members.
    session = SESSION_SECONDS if broker.keeps_data else SHORT_SESSION_SECONDS
    instance = "" if broker.keeps_data else '"group.instance.id" = ""\n'
    head, properties = feed.table.split("[kafka.properties]\n")
    table = (
        f'{head}assignment = "group"\n[kafka.properties]\n{properties}{instance}'
        f'"group.id" = "{topic}"\n"session.timeout.ms" = {session * 1000:.0f}\n'
        f'"heartbeat.interval.ms" = {session * 50:.0f}\n'
    )
    whole = directory / "whole"
    whole.mkdir()
    begin(whole, feed.table, "kafka")
    group = Workers(directory, table, store, workers, session)
    done: Counter[str] = Counter()
    with Feeding(feed) as feeding, closing(group):

        def wait_until(condition: Callable[[], bool]) -> None:
            until = time.monotonic() + _PATIENCE
            while not condition():
                feeding.check()
                group.check()
                group.resume()
                assert time.monotonic() < until, f"it did not come to pass in time:\n{group.said()}"
                time.sleep(0.05)

        for number, action in enumerate(actions, 1):
            before = read_so_far(directory, store)
            feeding.stop_at = count - 10 * number
            wait_until(lambda: read_so_far(directory, store) > before)  # noqa: B023
            time.sleep(rng.uniform(0.0, 0.5))
            done[_act(action, group, rng, postgres, kafka)] += 1
            if action == "change":
                # While there are units of both settings, all of them are shown.
                with redirect_stdout(io.TextIOWrapper(io.BytesIO())):
                    assert main_of_cli(["store", "report", store]) == 0
            if number % 10 == 0:
                read = read_so_far(directory, store)
                tell(f"{number} actions, {len(group.running)} workers, {read:,} records")
        feeding.stop_at = 0
        group.resume(wait=True)
        if group.changes % 2:
            wait_until(lambda: bool(group.current))
            group.change(group.current[0])
        wait_until(lambda: len(group.current) == len(group.running))
        wait_until(lambda: not feed.left and read_so_far(directory, store) >= len(lines))
        wait_until(lambda: _settings(store) == 1)
        group.check()
        for life in list(group.running):
            group.remove(life)
    finish(whole, feed, "kafka", len(lines))
    found, compared = compare(whole, outcome(directory, shared=store), lines)
    told = ", ".join(f"{name} {n}" for name, n in sorted(done.items()))
    fenced = group.said().count("was taken over by another worker")
    tell(f"{told}; {fenced} units of a worker that was cut off were refused their write")
    tell(compared)
    return found


def _settings(store: str) -> int:
    """How many different settings the units of a store have."""
    with closing(read_store(store)) as opened:
        found = [stored_fingerprint(opened.meta()) for _ in each_unit(opened)]
    return len({tuple(sorted(one.items())) for one in found})


def _act(action: str, group: Workers, rng: random.Random, postgres: Postgres, kafka: Any) -> str:
    """Do it, or what is possible in its place; returns what was done."""
    few = len(group.current) <= 1
    if action == "change" and not group.current:
        action = "add"
    if action in ("kill", "stop", "remove") and few:
        action = "add"
    if action == "add" and len(group.running) >= group.usual + _MOST_MORE:
        action = "remove"
    if action == "broker" and kafka is None:
        action = "postgres"
    if action == "add":
        group.add()
    elif action in ("broker", "postgres"):
        server = postgres if action == "postgres" else kafka
        server.kill()
        time.sleep(rng.uniform(0.0, 2.0))
        server.start()
    else:
        life = rng.choice(group.current)
        getattr(group, action)(life)
        # One that was killed is started again, now or with the next action.
        if action == "kill" and rng.random() < 0.7:
            group.add()
    return action


def main(kills: int = 100, seed: int = 0, events: int = 0, workers: int = 4) -> None:
    """``--kills`` actions of all kinds; ``--events``: predictions, 300 for each action unless set.

    Ends with 1 when anything differs, with 0 as well where there is no Apache Kafka.
    """
    rng = random.Random(seed)
    # Each at least once, if there are as many.
    actions = [*ACTIONS, *rng.choices([*ACTIONS], [*ACTIONS.values()], k=kills)][:kills]
    rng.shuffle(actions)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="workers-")))
        kafka = stack.enter_context(running_kafka(directory))
        if kafka is None:
            return
        found = kill_workers(
            Broker(kafka.bootstrap, keeps_data=True),
            stack.enter_context(running_postgres(directory / "postgres")),
            directory,
            actions=actions,
            predictions=events or 300 * kills,
            seed=seed,
            workers=workers,
            kafka=kafka,
            tell=partial(print, flush=True),
        )
    print(f"workers, seed {seed}, {kills} actions: {verdict(found)}")
    if found:
        sys.exit(1)


if __name__ == "__main__":
    typer.run(main)
