"""The label join against its rules, for any interleaving, any checkpoints and any restarts."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.stream.batch import Decoded, Records
from streameval.stream.label_join import LabelJoin
from tests.join_model import Label, Prediction, joined

MINUTE = 60_000_000
LAYOUT = ("score", "slice:country")


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        LabelJoin.create(opened)
        yield opened


def opened(connection: sqlite3.Connection, **options: Any) -> LabelJoin:
    chosen = {
        "layout": LAYOUT,
        "wait_us": 10 * MINUTE,
        "remember_us": 5 * MINUTE,
        "hot": 100,
        "cohort_us": MINUTE,
        "clock": Time(),
    }
    return LabelJoin(connection, **{**chosen, **options})


def predictions(*rows: Prediction, labels: list[int] | None = None) -> Decoded:
    columns: dict[str, Any] = {
        "id": [row.id for row in rows],
        "time": np.array([row.time for row in rows], dtype=np.int64),
        "score": np.array([row.score for row in rows]),
        "slice:country": ["PT"] * len(rows),
    }
    places = np.arange(len(rows))
    if labels is not None:
        complete = Records({**columns, "y_true": labels}, places)
        return Decoded(rows[0].partition, complete=complete)
    return Decoded(rows[0].partition, predictions=Records(columns, places))


def labels(*rows: Label) -> Decoded:
    columns: dict[str, Any] = {
        "id": [row.id for row in rows],
        "time": np.array([row.time for row in rows], dtype=np.int64),
        "y_true": [row.y_true for row in rows],
    }
    return Decoded(rows[0].partition, labels=Records(columns, np.arange(len(rows))))


def write(join: LabelJoin, connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    join.write(connection)
    connection.execute("COMMIT")


def absorbed(join: LabelJoin, events: Counter[Any]) -> None:
    """Count what the join gives out, and take back what it takes back."""
    outcome = join.take()
    for partition, columns in outcome.counted.items():
        assert columns["slice:country"] == ["PT"] * len(columns["y_true"])
        for label, time, score in zip(
            columns["y_true"], columns["time"], columns["score"], strict=True
        ):
            events[partition, label, int(time), float(score)] += 1
    for partition, event in outcome.reverted:
        assert event["slice:country"] == "PT"
        events[partition, event["y_true"], event["time"], event["score"]] -= 1
    assert all(count >= 0 for count in events.values())


def test_either_side_may_come_first(connection: sqlite3.Connection) -> None:
    join = opened(connection)
    join.add(predictions(Prediction("p", "a", MINUTE, 0.5)))
    join.add(labels(Label("l", "b", 2 * MINUTE, 1)))
    assert join.take().counted == {}
    join.add(labels(Label("l", "a", 3 * MINUTE, 0)))
    join.add(predictions(Prediction("p", "b", 2 * MINUTE, 0.25)))
    columns = join.take().counted["p"]
    assert columns["y_true"] == [0, 1]
    assert columns["score"].tolist() == [0.5, 0.25]
    told = join.coverage()
    assert (told["predictions"], told["labels"], told["joined"]) == (2, 2, 2)
    assert (told["waiting"], told["labels_waiting"], told["coverage"]) == (0, 0, 1.0)
    assert told["delay"]["p50"] == 0.0
    assert 120 <= told["delay"]["p99"] <= 120 * (1 + told["delay"]["relative_error"])


def test_a_correction_takes_back_what_was_counted(connection: sqlite3.Connection) -> None:
    join = opened(connection)
    join.add(predictions(Prediction("p", "a", 0, 0.5)))
    join.add(labels(Label("l", "a", 1, 0)))
    join.take()
    write(join, connection)
    join = opened(connection, hot=0)
    join.add(labels(Label("l", "a", 2, 1)))
    outcome = join.take()
    assert outcome.counted["p"]["y_true"] == [1]
    assert outcome.reverted == [
        ("p", {"y_true": 0, "time": 0, "score": 0.5, "slice:country": "PT"})
    ]
    assert join.coverage()["corrected"] == 1


def test_complete_records_are_remembered(connection: sqlite3.Connection) -> None:
    join = opened(connection)
    event = Prediction("p", "a", 0, 0.5)
    join.add(predictions(event, Prediction("p", "b", 0, 0.25), labels=[1, 0]))
    assert join.take().counted["p"]["y_true"] == [1, 0]
    join.add(predictions(event, labels=[1]))
    join.add(labels(Label("l", "b", 5, 1)))
    outcome = join.take()
    assert outcome.counted["p"]["y_true"] == [1]
    assert [event["score"] for _, event in outcome.reverted] == [0.25]
    told = join.coverage()
    assert (told["duplicate_predictions"], told["duplicate_labels"], told["corrected"]) == (1, 1, 1)
    assert told["delay"]["p50"] is None


def test_what_waits_too_long_expires(connection: sqlite3.Connection) -> None:
    time = Time()
    join = opened(connection, clock=time)
    join.expect(["p", "l"])
    join.add(predictions(Prediction("p", "a", 0, 0.5), Prediction("p", "c", 30 * MINUTE, 0.5)))
    # The labels' partition has brought nothing yet and may bring what is old.
    assert join.coverage()["expired"] == 0
    join.add(labels(Label("l", "b", 0, 1), Label("l", "x", 30 * MINUTE, 1)))
    told = join.coverage()
    assert (told["expired"], told["waiting"]) == (1, 1)
    assert (told["orphans"], told["labels_waiting"]) == (1, 1)
    assert [cohort["immature"] for cohort in told["cohorts"]] == [False, True]
    assert told["cohorts"][0]["expired"] == 1


def test_an_idle_partition_does_not_hold_time_back_for_ever(
    connection: sqlite3.Connection,
) -> None:
    time = Time()
    join = opened(connection, clock=time)
    join.expect(["p", "l"])
    join.add(predictions(Prediction("p", "a", 0, 0.5), Prediction("p", "c", 30 * MINUTE, 0.5)))
    time.now = 59.0
    join.add(predictions(Prediction("p", "d", 31 * MINUTE, 0.5)))
    assert join.coverage()["expired"] == 0
    time.now = 61.0
    assert join.coverage()["expired"] == 1


def test_memory_is_given_back(connection: sqlite3.Connection) -> None:
    join = opened(connection, hot=10)
    for minute in range(60):
        time = minute * MINUTE
        join.add(predictions(*(Prediction("p", f"{minute}/{n}", time, 0.5) for n in range(50))))
        join.add(labels(*(Label("l", f"{minute}/{n}", time, 1) for n in range(25))))
        join.take()
        write(join, connection)
    (segments,) = connection.execute("SELECT count(*) FROM join_segments").fetchone()
    assert segments <= 16
    told = join.coverage()
    assert told["joined"] == 60 * 25
    assert told["waiting"] + told["expired"] == 60 * 25
    assert told["expired"] >= 48 * 25


class Run:
    """A join that is cut, restarted and fed in any order."""

    def __init__(self, connection: sqlite3.Connection, hot: int) -> None:
        self.connection = connection
        self.hot = hot
        self.events: Counter[Any] = Counter()
        self.join = opened(connection, hot=hot)

    def checkpoint(self) -> None:
        absorbed(self.join, self.events)
        write(self.join, self.connection)

    def restart(self) -> None:
        """All of the memory is lost; the last checkpoint holds."""
        self.join = opened(self.connection, hot=self.hot)


def records(rng: random.Random, count: int) -> tuple[list[Prediction], list[Label]]:
    ids = [f"id{n}" for n in range(count)]
    made = [
        Prediction(f"p{hash(i) % 2}", i, rng.randrange(8) * MINUTE, rng.random())
        for i in rng.choices(ids, k=count)
    ]
    # Of one id all records of a kind are in one partition, as a key keeps them.
    fates = [
        Label(f"l{hash(i) % 3}", i, rng.choice([0, 3, 14, 22]) * MINUTE, rng.randrange(2))
        for i in rng.choices(ids, k=2 * count)
    ]
    return made, fates


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.sampled_from([0, 3, 100]))
def test_any_interleaving_gives_the_rules(seed: int, count: int, hot: int) -> None:
    rng = random.Random(seed)
    made, fates = records(rng, count)
    queues: dict[str, list[Any]] = {}
    for record in [*made, *fates]:
        queues.setdefault(record.partition, []).append(record)
    expected, counts = joined(made, fates, 10 * MINUTE, 5 * MINUTE)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        LabelJoin.create(connection)
        run = Run(connection, hot)
        # Nothing expires: one partition stays behind.
        run.join.expect(["behind"])
        committed: dict[str, int] = dict.fromkeys(queues, 0)
        read = dict(committed)
        while True:
            action = rng.random()
            if action < 0.15:
                run.checkpoint()
                committed = dict(read)
            elif action < 0.25:
                run.restart()
                run.join.expect(["behind"])
                read = dict(committed)
            else:
                left = [name for name, queue in queues.items() if read[name] < len(queue)]
                if not left:
                    break
                name = rng.choice(left)
                rows = queues[name][read[name] : read[name] + rng.randrange(1, 6)]
                read[name] += len(rows)
                run.join.add((predictions if name[0] == "p" else labels)(*rows))
        run.checkpoint()
        run.restart()
        assert +run.events == expected
        told = run.join.coverage()
        for name in (
            "predictions",
            "labels",
            "joined",
            "duplicate_predictions",
            "duplicate_labels",
            "corrected",
            "too_late",
        ):
            assert told[name] == counts[name], name
        assert told["labels_waiting"] + told["orphans"] == counts["alone"]
        assert told["predictions"] == told["joined"] + told["waiting"] + told["expired"]
