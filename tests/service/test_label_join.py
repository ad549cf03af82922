"""The label join against its rules, for any interleaving, any checkpoints and any restarts."""

from __future__ import annotations

import random
import re
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import StoreError
from streameval.records.event_columns import EventColumns
from streameval.service.join.counters import (
    COUNTERS,
    GAUGES,
    OUTCOMES_OF_LABELS,
    REPORTED,
    STORED,
)
from streameval.service.join.coverage import Coverage, Delays
from streameval.service.join.label_join import LabelJoin
from streameval.service.join.pairing import JoinedEvents
from streameval.service.publish.snapshot import Join
from streameval.service.sources.raw import Decoded
from streameval.service.store.tables import JOIN_TABLES, create_tables
from tests.support.join_model import Label, Prediction, joined
from tests.support.run import Clock

MINUTE, HOUR = 60_000_000, 3_600_000_000
NOW = 1_800_000_000_000_000
LAYOUT = ("score", "slice:country")


def country(score: float) -> Any:
    """A value of a slice, of any kind: payloads must not be mixed up."""
    return ["PT", "SE", None, 3][int(score * 1000) % 4]


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        create_tables(opened, *JOIN_TABLES)
        yield opened


def opened(connection: sqlite3.Connection, **options: Any) -> LabelJoin:
    chosen = {
        "layout": LAYOUT,
        "wait_us": 10 * MINUTE,
        "remember_us": 5 * MINUTE,
        "hot": 100,
        "cohort_us": MINUTE,
        "clock": Clock(),
        "now": lambda: NOW,
    }
    return LabelJoin(connection, **{**chosen, **options})


def predictions(*rows: Prediction, labels: list[int] | None = None) -> Decoded:
    columns: dict[str, Any] = {
        "id": [row.id for row in rows],
        "time": np.array([row.time for row in rows], dtype=np.int64),
        "score": np.array([row.score for row in rows]),
        "slice:country": [country(row.score) for row in rows],
    }
    places = np.arange(len(rows))
    if labels is not None:
        complete = EventColumns({**columns, "y_true": labels}, places)
        return Decoded(rows[0].partition, complete=complete)
    return Decoded(rows[0].partition, predictions=EventColumns(columns, places))


def labels(*rows: Label) -> Decoded:
    columns: dict[str, Any] = {
        "id": [row.id for row in rows],
        "time": np.array([row.time for row in rows], dtype=np.int64),
        "y_true": [row.y_true for row in rows],
    }
    return Decoded(rows[0].partition, labels=EventColumns(columns, np.arange(len(rows))))


def write(join: LabelJoin, connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    changes = join.stage()
    join.write(connection, changes)
    connection.execute("COMMIT")
    join.committed(changes)


def counted(label: Any) -> Any:
    return tuple(label) if isinstance(label, list) else label


def absorbed(join: LabelJoin, events: Counter[Any]) -> JoinedEvents:
    """Count what the join gives out, and take back what it takes back; its new predictions."""
    outcome, predicted = join.drain()
    for partition, columns in outcome.counted.items():
        assert list(columns["slice:country"]) == [country(one) for one in columns["score"]]
        for label, time, score in zip(
            columns["y_true"], columns["time"], columns["score"], strict=True
        ):
            events[partition, counted(label), int(time), float(score)] += 1
    for partition, event in outcome.reverted:
        assert event.get("slice:country") == country(event["score"])
        events[partition, counted(event["y_true"]), event["time"], event["score"]] -= 1
    assert all(count >= 0 for count in events.values())
    return predicted


def test_memory_is_given_back(connection: sqlite3.Connection) -> None:
    join = opened(connection, hot=10)
    for minute in range(60):
        time = minute * MINUTE
        join.add(predictions(*(Prediction("p", f"{minute}/{n}", time, 0.5) for n in range(50))))
        join.add(labels(*(Label("l", f"{minute}/{n}", time, 1) for n in range(25))))
        join.drain()
        write(join, connection)
    (segments,) = connection.execute("SELECT count(*) FROM join_segments").fetchone()
    assert segments <= 16
    coverage = join.coverage()
    assert coverage["joined"] == 60 * 25
    assert coverage["waiting"] + coverage["expired"] == 60 * 25
    assert coverage["expired"] >= 48 * 25


class Run:
    """A join that is cut, killed and fed in any order of its partitions."""

    def __init__(self, connection: sqlite3.Connection, names: list[str], hot: int) -> None:
        self.connection, self.names, self.hot = connection, names, hot
        self.events: Counter[Any] = Counter()
        self.predicted: Counter[Any] = Counter()
        self.restart()

    def read(self, rows: list[Any]) -> int:
        for decoded in batches(rows):
            self.join.add(decoded)
        return len(rows)

    def begin(self) -> None:
        """A checkpoint of what was read so far."""
        for name, columns in absorbed(self.join, self.events).counted.items():
            assert "y_true" not in columns
            self.predicted.update(
                (name, *row) for row in zip(columns["time"], columns["score"], strict=True)
            )
        self.changes = self.join.stage()

    def end(self) -> None:
        self.connection.execute("BEGIN")
        self.join.write(self.connection, self.changes)
        self.connection.execute("COMMIT")
        self.join.committed(self.changes)

    def restart(self) -> None:
        """All of the memory is lost; the last checkpoint holds."""
        self.join = opened(self.connection, hot=self.hot, has_predictions=True)
        self.join.expect(self.names)


WAIT, REMEMBER = 10 * MINUTE, 5 * MINUTE


def stream(rng: random.Random, count: int) -> dict[str, list[Any]]:
    """Partitions of a stream that goes on for long beyond what is remembered.

    Each record is late in its partition by at most what the join allows for.
    """
    placed: list[tuple[int, Any]] = []
    for n in range(count):
        begun = rng.randrange(120) * MINUTE
        # All records of an id and a sort are in one partition, as those with a key are.
        own, other = f"p{n % 2}", f"l{n % 3}"
        complete = rng.random() < 0.3
        late = rng.randrange(REMEMBER // 2)
        for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
            inside = rng.randrange(2) if complete else None
            made = Prediction(own, f"id{n}", begun, rng.random(), inside)
            placed.append((begun + rng.randrange(late + 1), made))
        for _ in range(rng.choice([0, 1, 1, 2, 4])):
            gap = rng.choice([0, 1, 9, 10, 11, 12, 15, 16, 30]) * MINUTE
            slack = WAIT + REMEMBER - gap
            if 0 <= slack < late:
                gap, slack = WAIT, REMEMBER
            time = begun + rng.choice([-1, 1, 1, 1]) * gap
            shift = rng.randrange(min(slack, REMEMBER) + 1) if slack > 0 else 0
            y_true: Any = rng.choice([0, 1, 1, "x"])
            placed.append((time + shift, Label(other, f"id{n}", time, y_true)))
    placed.sort(key=lambda pair: pair[0])
    queues: dict[str, list[Any]] = {}
    for _, record in placed:
        queues.setdefault(record.partition, []).append(record)
    return queues


def batches(rows: list[Any]) -> Iterator[Decoded]:
    """Records of one partition: those of one kind that follow each other at once."""
    for (complete, _), some in groupby(
        rows, key=lambda row: (getattr(row, "inside", None) is not None, type(row))
    ):
        part = list(some)
        if isinstance(part[0], Label):
            yield labels(*part)
        else:
            yield predictions(*part, labels=[row.inside for row in part] if complete else None)


def played(
    rng: random.Random, queues: dict[str, list[Any]], hot: int
) -> tuple[Counter[Any], Counter[Any], dict[str, Any]]:
    """Events, predictions and counts after reading all, in some order with some kills."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_tables(connection, *JOIN_TABLES)
        run = Run(connection, list(queues), hot)
        committed = dict.fromkeys(queues, 0)
        read = dict(committed)
        favourite = rng.choice([0.0, 0.9])
        while True:
            action = rng.random()
            if action < 0.2:
                run.begin()
                begun = dict(read)
                # What is read before it is committed is in the next one.
                for name in rng.choices(list(queues), k=rng.randrange(3)):
                    read[name] += run.read(queues[name][read[name] : read[name] + 4])
                run.end()
                committed = begun
            elif action < 0.25:
                run.restart()
                read = dict(committed)
            else:
                left = [name for name, queue in queues.items() if read[name] < len(queue)]
                if not left:
                    break
                # Sometimes one partition runs far ahead of the others.
                name = left[0] if rng.random() < favourite else rng.choice(left)
                read[name] += run.read(queues[name][read[name] : read[name] + rng.randrange(1, 9)])
        run.begin()
        run.end()
        run.restart()
        return +run.events, run.predicted, run.join.coverage()


def colliding(keys: Sequence[str]) -> Any:
    return np.array([hash(key) % 4 for key in keys], dtype=np.int64)


_ENTRIES = "streameval.service.join.entry_store"


@settings(max_examples=120)
@given(
    st.integers(0, 2**32),
    st.integers(1, 60),
    st.sampled_from([0, 3, 100]),
    st.sampled_from(["compiled", "portable", "colliding"]),
)
def test_any_interleaving_gives_the_rules(seed: int, count: int, hot: int, code: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in ("entry_store", "segments"):
            if code == "portable":
                patch.setattr(f"{_ENTRIES}.{module}._NATIVE", None)
        if code == "colliding":
            patch.setattr(f"{_ENTRIES}.segments.key_hashes", colliding)
        rng = random.Random(seed)
        queues = stream(rng, count)
        records = [record for queue in queues.values() for record in queue]
        expected, counts = joined(
            [record for record in records if isinstance(record, Prediction)],
            [record for record in records if isinstance(record, Label)],
            WAIT,
            REMEMBER,
        )
        events, predicted, coverage = played(rng, queues, hot)
        assert events == expected
        first: dict[str, Prediction] = {}
        for record in records:
            if isinstance(record, Prediction):
                first.setdefault(record.id, record)
        assert predicted == Counter((one.partition, one.time, one.score) for one in first.values())
        counts["orphans"] -= coverage["labels_waiting"]
        names = ("predictions", "labels", "joined", "orphans", *STORED)
        assert {name: coverage[name] for name in names} == {name: counts[name] for name in names}
        assert (
            coverage["predictions"]
            == coverage["joined"] + coverage["waiting"] + coverage["expired"]
        )
        # All that is coverage, cohorts, delays and watermark too, is that of another order.
        assert (events, predicted, coverage) == played(rng, queues, hot)


def test_a_duplicate_after_everything_else_was_dropped_counts_nothing(
    connection: sqlite3.Connection,
) -> None:
    # The prediction waits in a segment with a younger one, and is labelled in another segment
    # that is old sooner: its first version must not come back.
    join = opened(connection, hot=0, remember_us=0)
    join.add(predictions(Prediction("p", "a", 0, 0.5), Prediction("p", "z", 9 * MINUTE, 0.5)))
    write(join, connection)
    join.add(labels(Label("l", "a", MINUTE, 1)))
    join.drain()
    write(join, connection)
    join.add(predictions(Prediction("p", "r", 12 * MINUTE, 0.5)))
    join.add(labels(Label("l", "q", 12 * MINUTE, 1)))
    write(join, connection)
    assert connection.execute("SELECT segment FROM join_segments").fetchall() == [(1,), (3,)]
    join.add(labels(Label("l", "a", MINUTE, 1)))
    assert join.drain()[0].counted == {}
    assert join.coverage()["joined"] == 1


def test_labels_that_met_a_prediction_do_not_wait_again(connection: sqlite3.Connection) -> None:
    # The label is younger than its prediction, and so is the version in which it waits alone.
    join = opened(connection, hot=0)
    join.add(labels(Label("l", "a", 12 * MINUTE, 1)))
    write(join, connection)
    join.add(predictions(Prediction("p", "a", 0, 0.5)))
    assert join.coverage()["too_late"] == 1
    write(join, connection)
    join.add(predictions(Prediction("p", "b", 20 * MINUTE, 0.5)))
    join.add(labels(Label("l", "c", 20 * MINUTE, 1)))
    write(join, connection)
    join.add(predictions(Prediction("p", "a", 0, 0.5)))
    coverage = join.coverage()
    names = ("duplicate_predictions", "labels_waiting", "too_late")
    assert [coverage[name] for name in names] == [1, 1, 1]


def test_very_many_labels_of_one_id_stay_bounded(connection: sqlite3.Connection) -> None:
    join = opened(connection)
    join.add(labels(*(Label("l", "a", n, n % 2) for n in range(200))))
    write(join, connection)
    assert connection.execute("SELECT length(data) < 2000 FROM join_segments").fetchone() == (1,)
    join.add(predictions(Prediction("p", "a", 0, 0.5)))
    coverage = join.coverage()
    assert (coverage["labels"], coverage["joined"], coverage["corrected"]) == (200, 1, 63)


def test_damaged_counts_are_reported(connection: sqlite3.Connection) -> None:
    join = opened(connection)
    join.add(predictions(Prediction("p", "a", 0, 0.5)))
    join.add(labels(Label("l", "a", 1, 1)))
    write(join, connection)
    crc, data = connection.execute("SELECT crc, data FROM join_counts").fetchone()
    rng = random.Random(3)
    others = [(zlib.crc32(other), other) for other in (b"{}", b'{"coverage": 1}', b"\xff")]
    for _ in range(200):
        noisy = bytearray(data)
        noisy[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        others.append((crc, bytes(noisy)))
    for row in others:
        connection.execute("UPDATE join_counts SET crc = ?, data = ?", row)
        with pytest.raises(StoreError, match="the join's counts are damaged"):
            opened(connection)


def parts_model(
    predictions: list[Prediction], parts: list[Label]
) -> tuple[Counter[Any], Counter[str]]:
    """What counts in the end of sets that arrive in parts, and the outcomes, literally."""
    events: Counter[Any] = Counter()
    counts: Counter[str] = Counter()
    first = {one.id: one for one in reversed(predictions)}
    for key, prediction in first.items():
        found: frozenset[int] | None = None
        closed = False
        for label in parts:
            added, final = frozenset(label.y_true["labels"]), label.y_true["final"]
            gap = abs(label.time - prediction.time)
            if label.id != key:
                continue
            if gap > WAIT + REMEMBER:
                counts["orphans"] += 1
            elif gap > WAIT and not closed:
                counts["too_late"] += 1
            else:
                whole = (found or frozenset()) | added
                same = whole == found and (closed or not final)
                outcome = "corrected" if closed else "joined" if final else "partial_labels"
                counts["duplicate_labels" if same else outcome] += 1
                found, closed = whole, closed or final
        if closed and found is not None:
            events[prediction.partition, tuple(sorted(found)), prediction.time, 0.5] += 1
    counts["orphans"] += sum(label.id not in first for label in parts)
    return events, counts


@settings(max_examples=120)
@given(st.integers(0, 2**32), st.sampled_from([0, 3, 100]))
def test_sets_that_arrive_label_by_label(seed: int, hot: int) -> None:
    rng = random.Random(seed)
    made = [Prediction("p", f"id{n}", rng.randrange(3) * MINUTE, 0.5) for n in range(12)]
    parts = []
    for _ in range(rng.randrange(90)):
        key, final = f"id{rng.randrange(14)}", rng.random() < 0.25
        time = rng.choice([0, 1, 5, 9, 9, 11, 14, 17]) * MINUTE
        empty = final and rng.random() < 0.6
        added = [] if empty else sorted(rng.sample(range(4), rng.choice([1, 1, 1, 2])))
        parts.append(Label("l", key, time, {"labels": added, "final": final}))  # type: ignore[arg-type]
    expected, counts = parts_model(made, parts)
    events, _, coverage = played(rng, {"p": [*made, *made[:3]], "l": parts}, hot)
    assert events == expected
    counts["orphans"] -= coverage["labels_waiting"]
    names = ("joined", "corrected", "duplicate_labels", "partial_labels", "too_late", "orphans")
    assert {name: coverage[name] for name in names} == {name: counts[name] for name in names}
    assert coverage["labels"] == len(parts)


def test_a_complete_record_counts_until_its_own_set_is_final(
    connection: sqlite3.Connection,
) -> None:
    def part(given: list[int], final: bool) -> Decoded:
        decoded = labels(Label("l", "a", MINUTE, 0))
        decoded.labels.columns["y_true"] = [{"labels": given, "final": final}]
        return decoded

    join = opened(connection)
    join.add(predictions(Prediction("p", "a", 0, 0.5)))
    join.add(part([1], False))
    for first, last in ((None, 2), (2, 4)):
        inside: Any = [[last]]
        join.add(predictions(Prediction("p", "a", 0, 0.5), labels=inside))
        join.add(part([1, last], False))
        outcome, _ = join.drain()
        assert outcome.counted["p"]["y_true"] == [[last]]
        assert [event["y_true"] for _, event in outcome.reverted] == ([[first]] if first else [])
    write(join, connection)
    join = opened(connection, hot=0)
    join.add(part([3], True))
    outcome, _ = join.drain()
    assert outcome.counted["p"]["y_true"] == [[1, 2, 3, 4]]
    assert [event["y_true"] for _, event in outcome.reverted] == [[4]]


# What it counts


@given(st.lists(st.integers(-5, 2**50), min_size=1, max_size=60), st.floats(0.01, 1))
def test_a_quantile_is_within_its_bound(delays: list[int], share: float) -> None:
    histogram = Delays()
    for some in (delays[::2], delays[1::2]):
        histogram.add(np.array(some, dtype=np.int64))
    exact = sorted(max(delay, 0) for delay in delays)[max(int(np.ceil(share * len(delays))), 1) - 1]
    found = histogram.quantile(share)
    assert exact / 1e6 <= found + 1e-9
    assert found <= exact / 1e6 * (1 + histogram.relative_error) + 1e-9


@given(st.integers(0, 2**32))
def test_coverage_is_as_counted_by_hand(seed: int) -> None:
    rng = random.Random(seed)
    rows = [(rng.randrange(8 * HOUR), rng.random() < 0.5) for _ in range(rng.randrange(200))]
    wait, cohort = rng.randrange(1, 3 * HOUR), rng.choice([HOUR // 60, HOUR // 4, HOUR, 24 * HOUR])
    # What is kept may be more than what is covered.
    keep, watermarks = rng.choice([0, 6 * HOUR]), [rng.randrange(12 * HOUR) for _ in range(6)]
    coverage = Coverage(wait, cohort)
    assert coverage.to_dict(None)["coverage_reason"] == "no prediction is mature yet"
    coverage.predicted.add(np.array([time for time, _ in rows], dtype=np.int64))
    coverage.labelled.add(np.array([time for time, has in rows if has], dtype=np.int64))
    for watermark in sorted(watermarks):
        coverage.sum_up(watermark, keep)
        end = (watermark - wait) // cohort * cohort
        span = -(-min(wait, HOUR) // cohort) * cohort
        mature = [has for time, has in rows if end - span <= time < end]
        found = coverage.to_dict(watermark)
        assert found["mature"]["predictions"] == len(mature)
        assert found["mature"]["labelled"] == sum(mature)
        assert found["coverage"] == (sum(mature) / len(mature) if mature else None)
        assert found["coverage_reason"].startswith("no mature prediction from ") == (not mature)


def test_cohorts_ripen() -> None:
    coverage = Coverage(HOUR, HOUR)
    coverage.predicted.add(np.array([0, 1, 2 * HOUR]))
    coverage.labelled.add(np.array([1]))
    young, ripe = (coverage.to_dict(at)["cohorts"] for at in (2 * HOUR - 1, 2 * HOUR))
    assert [(one["expired"], one["immature"]) for one in young] == [(0, True), (0, True)]
    assert [(one["expired"], one["immature"]) for one in ripe] == [(1, False), (0, True)]


def test_times_all_over_the_calendar_stay_bounded() -> None:
    coverage = Coverage(HOUR, HOUR)
    for start in range(0, 300_000, 50_000):
        times = np.arange(start, start + 50_000) * HOUR
        coverage.predicted.add(times)
        coverage.count("p", "predictions", len(times))
        coverage.sum_up(None, 0)
    assert len(coverage.saved().predicted) <= 100_000
    assert len(coverage.to_dict(None)["cohorts"]) == 200
    assert coverage.to_dict(None)["predictions"] == 300_000


def test_the_counters_are_those_that_are_published() -> None:
    published = {field.name for field in msgspec.structs.fields(Join) if field.type is int}
    assert published == set(COUNTERS) == set(REPORTED)
    assert set(STORED) | set(OUTCOMES_OF_LABELS) | set(GAUGES) | {"expired"} == set(COUNTERS)
    script = Path(se.__file__).parent / "service" / "http" / "static" / "labels.js"
    page = set(re.findall(r'\["(\w+)", "', script.read_text(encoding="utf-8")))
    assert set(COUNTERS) <= page
