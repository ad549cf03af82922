"""Kill Apache Kafka again and again while a run reads from it, and compare.

    python -m tests.crash.kill_broker --kills 20 --seed 0 [--events N]

The broker is killed like a power cut and started again, with messages on their
way to it and from it. The run is not restarted: it waits, and reads on. In the
end it has counted what a run does that reads the same topics undisturbed, and
what the stream itself amounts to. Needs what ``tests.support.apache_kafka`` needs.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.crash.kill_feeds import TopicsFeed
from tests.crash.kill_runs import begin, compare, finish, living, read_so_far, verdict, wait_for
from tests.crash.kill_stream import stream
from tests.support.apache_kafka import AbsentError, ApacheKafka
from tests.support.brokers import Broker

_PIECES = 30
"""For each kill."""


def kill_broker(
    kafka: ApacheKafka, directory: Path, *, kills: int, predictions: int, seed: int
) -> list[str]:
    """The whole comparison; a line for every difference."""
    rng = random.Random(seed)
    lines = stream(seed, predictions)
    broker = Broker(kafka.bootstrap, keeps_data=True)
    feed = TopicsFeed(broker, "shaken", lines, kills * _PIECES, seed)
    shaken, whole = directory / "shaken", directory / "whole"
    for place in (shaken, whole):
        place.mkdir()
        begin(place, feed.table, "kafka")
    fed = threading.Event()
    failed: list[BaseException] = []

    def feed_all() -> None:
        try:
            while feed.left and not fed.is_set():
                feed.step(None)
        except BaseException as error:
            failed.append(error)
        finally:
            fed.set()

    feeder = threading.Thread(target=feed_all)
    with living(shaken, "-m", "streameval.cli", "run", "run.toml") as life:
        wait_for(life, lambda: life.ready)
        feeder.start()
        try:
            before = 0
            for number in range(1, kills + 1):
                # Each time more has come, and some of it was read.
                left = (kills - number) * _PIECES + _PIECES // 2
                wait_for(life, lambda: feed.left <= left or fed.is_set())  # noqa: B023
                wait_for(life, lambda: read_so_far(shaken) > before or fed.is_set())  # noqa: B023
                time.sleep(rng.uniform(0.0, 0.5))
                before = read_so_far(shaken)
                kafka.kill()
                time.sleep(rng.uniform(0.0, 2.0))
                kafka.start()
                print(f"{number} kills, {feed.left} pieces left, {before:,} records", flush=True)
            wait_for(life, fed.is_set)
            assert not failed, failed
            wait_for(life, lambda: read_so_far(shaken) >= len(lines))
        finally:
            fed.set()
            feeder.join()
        life.process.terminate()
        life.expect(0)
    for place in (shaken, whole):
        finish(place, feed, "kafka", len(lines))
    found, told = compare(whole, shaken, lines, retried=False)
    print(f"kafka: {kills} kills of the broker, {told}")
    return found


def main() -> int:
    """The command; 1 when anything differs, 0 as well where there is no Apache Kafka."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--events", type=int, default=None, help="predictions; 1,000 for each kill")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafka-") as place:
        directory = Path(place)
        try:
            kafka = ApacheKafka(directory)
        except AbsentError as error:
            print(f"NOT TESTED against Apache Kafka: {error}")
            return 0
        try:
            found = kill_broker(
                kafka,
                directory,
                kills=given.kills,
                predictions=given.events or 1_000 * given.kills,
                seed=given.seed,
            )
        finally:
            kafka.kill()
    print(f"broker, seed {given.seed}, {given.kills} kills: {verdict(found)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
