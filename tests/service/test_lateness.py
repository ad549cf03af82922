"""A clock that is ahead of time: neither the join nor a window loses later records."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.events.time import iso_time
from streameval.service.config.settings import ServeSettings
from streameval.service.http.health import Readiness
from streameval.service.join.counts import SavedJoin
from streameval.service.join.watermark import Watermark
from streameval.service.lateness import LateShare
from streameval.service.publish.snapshot import Snapshot
from streameval.service.sources.raw import PartitionStatus, RawBatch, Source
from streameval.service.store.store import open_store
from tests.support.command_runs import Command
from tests.support.run import JOINED, Clock, InTurn, Lists, Partitions, Scripted, opened, settings

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
START = 1_790_000_000_000_000 // HOUR * HOUR


class Clocks:
    """Both clocks of a run, moved by the test."""

    def __init__(self) -> None:
        self.passed = 0
        self.step = 0
        """How far the machine's clock was set."""

    def now(self) -> int:
        return START + self.passed + self.step

    def seconds(self) -> float:
        return self.passed / 1e6


class Service:
    """Runs over one store, each reading lists to their ends, all on the test's clocks."""

    def __init__(self, directory: Path, **tables: Any) -> None:
        usual: dict[str, Any] = {"window": None, "intervals": False, "checkpoint": {"events": 50}}
        usual |= {"store": f"{directory}/run.db", "evaluator": {"metrics": ["accuracy"]}}
        self.settings = settings(**{**usual, **tables})
        self.clocks = Clocks()

    def run(self, lists: Partitions, source: Source | None = None) -> Mapping[str, Any]:
        clocks = self.clocks
        with opened(self.settings, clock=clocks.seconds, now=clocks.now) as one:
            one.runner.run([source or Lists(lists, one.runner.positions, InTurn())])
            data: dict[str, Any] = one.data
        return data

    def reasons(self, data: Mapping[str, Any]) -> list[str]:
        snapshot = msgspec.convert(data, Snapshot)
        found = Readiness(ServeSettings()).reasons(snapshot, self.clocks.now() / 1e6)
        return [reason.text for reason in found]


def line(**fields: Any) -> bytes:
    return json.dumps({k: iso_time(v) if k == "time" else v for k, v in fields.items()}).encode()


def pairs(
    count: int, time: Callable[[int], int], first: int = 0
) -> tuple[list[bytes], list[bytes]]:
    """Predictions, and a label for each a minute later."""
    numbers = range(first, first + count)
    return (
        [line(id=n, score=0.9, time=time(n - first)) for n in numbers],
        [line(id=n, y_true=True, time=time(n - first) + MINUTE) for n in numbers],
    )


JOIN: dict[str, Any] = {
    "fields": {"id": "id", "score": "score", "time": "time"},
    "join": {"wait": "1h"},
}


def test_one_clock_ahead_costs_no_label(tmp_path: Path) -> None:
    service = Service(tmp_path, **JOIN)
    early = [line(id=f"early {n}", score=0.5, time=START + 29 * MINUTE) for n in range(20)]
    later, labels = pairs(300, lambda n: START - 2 * MINUTE + n)
    data = service.run({"p": ("predictions", early + later), "q": ("labels", labels)})
    join = data["join"]
    assert (join["joined"], join["expired"], join["orphans"]) == (300, 0, 0)
    assert join["watermark"] <= iso_time(service.clocks.now())
    assert service.reasons(data) == []
    # What is further ahead is refused, as below; what is allowed waits for its label.
    assert join["waiting"] == 20


def test_a_store_whose_watermark_is_ahead_goes_on_at_the_clock(tmp_path: Path) -> None:
    service = Service(tmp_path, **JOIN)
    predictions, labels = pairs(1, lambda n: START - 10 * MINUTE)
    service.run({"p": ("predictions", predictions), "q": ("labels", labels)})
    with closing(open_store(service.settings.store)) as store, store.transaction() as connection:
        saved = SavedJoin.of(*connection.execute("SELECT crc, data FROM join_counts").fetchone())
        far = START + 20 * HOUR
        saved.watermark.partitions = dict.fromkeys(saved.watermark.partitions, (far, 0, 0))
        saved.watermark.value = far
        connection.execute("UPDATE join_counts SET crc = ?, data = ?", saved.row())
    more, theirs = pairs(100, lambda n: START + n, first=1)
    service.clocks.passed = 5 * MINUTE
    lists: Partitions = {"p": ("predictions", predictions + more), "q": ("labels", labels + theirs)}
    join = service.run(lists)["join"]
    assert (join["joined"], join["expired"]) == (101, 0)


class Steps(Scripted):
    """20 predictions a second and a label for each half a second later; in the reads ``off`` the
    clock is ``step`` microseconds away.
    """

    def __init__(
        self, clocks: Clocks, step: int, off: range, numbers: range, *, timed: bool
    ) -> None:
        self.clocks, self.step, self.off, self.timed = clocks, step, off, timed
        self.numbers = iter(numbers)
        self.finished = False

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        n = next(self.numbers, None)
        if n is None:
            self.finished = True
            return []
        self.clocks.passed = n * SECOND // 20
        self.clocks.step = self.step if n in self.off else 0
        time = {"time": START + self.clocks.passed} if self.timed else {}
        lines = {"predictions": line(id=n, score=0.9, **time)}
        if n >= 10:
            lines["labels"] = line(id=n - 10, y_true=True, **time)
        return [
            RawBatch(f"files:/{kind}", kind, [text], [n], {"offset": n + 1})  # type: ignore[arg-type]
            for kind, text in lines.items()
        ]

    def status(self) -> list[PartitionStatus]:
        return []


@pytest.mark.parametrize(
    ("off", "step", "timed", "restart"),
    [
        (range(200, 280), -HOUR, False, 230),
        (range(200, 600), -HOUR, True, 600),
        (range(200, 600), HOUR, True, 230),
    ],
)
def test_a_clock_that_is_set_loses_no_label_that_was_in_time(
    tmp_path: Path, off: range, step: int, timed: bool, restart: int
) -> None:
    fields = {"id": "id", "score": "score"} | ({"time": "time"} if timed else {})
    service = Service(tmp_path, **{**JOINED, "fields": fields, "join": {"wait": "30s"}})
    for numbers in (range(restart), range(restart, 610)):
        data = service.run({}, Steps(service.clocks, step, off, numbers, timed=timed))
    join = data["join"]
    # Without times of their own, records before and after a step forwards are as far apart.
    between = 10 if step > 0 and not timed else 0
    refused = data["quarantine"]["reasons"].get("time", 0)
    assert (join["joined"], refused) == (600 - between, 0)
    assert service.reasons(data) == []


ALERT = [{"name": "low", "metric": "accuracy", "below": 0.1}]


def test_most_records_behind_the_watermark_are_reported_and_a_reset_mends_it(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    command: Command,
) -> None:
    caplog.set_level("INFO", "streameval")
    service = Service(tmp_path, **JOIN, alert=ALERT)
    # Of the past, so that no clock refuses them: 20 records, 20 hours ahead of the others.
    past = START - 40 * HOUR
    early = [line(id=f"early {n}", score=0.5, time=past + 20 * HOUR) for n in range(20)]
    theirs = [line(id=f"early {n}", y_true=True, time=past + 20 * HOUR) for n in range(20)]
    predictions, labels = pairs(300, lambda n: past + n)
    data = service.run(
        {"p": ("predictions", early + predictions), "q": ("labels", theirs + labels)}
    )
    (reason,) = service.reasons(data)
    assert reason.startswith("the join: ")
    assert "of the recent records are behind the watermark" in reason
    (alert,) = data["alerts"]
    assert (alert["state"], "too late" in alert["reason"]) == ("undefined", True)
    warnings = [record for record in caplog.records if "too late" in record.getMessage()]
    assert [record.levelname for record in warnings] == ["WARNING"]

    store = service.settings.store
    shown = command("store", "watermark", store)
    assert (shown.code, iso_time(past + 20 * HOUR) in shown.out) == (0, True)
    assert command("store", "watermark", store, "--reset").code == 0
    assert "20" not in command("store", "watermark", store).out
    more, others = pairs(300, lambda n: past + HOUR + n, first=300)
    before = data["join"]["joined"]
    predictions, labels = early + predictions + more, theirs + labels + others
    data = service.run({"p": ("predictions", predictions), "q": ("labels", labels)})
    assert service.reasons(data) == []
    assert data["join"]["joined"] == before + 300
    assert data["alerts"][0]["state"] == "ok"
    assert command("store", "check", store).code == 0


def test_a_watermark_is_of_a_join(tmp_path: Path, command: Command) -> None:
    service = Service(tmp_path, **PANES)
    service.run({})
    for more in ((), ("--reset",)):
        result = command("store", "watermark", service.settings.store, *more)
        assert (result.code, "holds no label join" in result.err) == (1, True)


PANES: dict[str, Any] = {"window": [{"name": "hour", "length": "1h", "pane": "5m"}]}


def complete(count: int, time: int) -> list[bytes]:
    return [line(score=0.9, y_true=True, time=time + n) for n in range(count)]


def test_one_clock_ahead_empties_no_window(tmp_path: Path) -> None:
    service = Service(tmp_path, **PANES)
    data = service.run({"p": ("records", complete(20, START + HOUR) + complete(300, START))})
    assert data["reports"]["hour"]["metrics"]["accuracy"]["support"] == 300
    assert data["quarantine"]["reasons"] == {"time": 20}
    assert service.reasons(data) == []


def test_a_window_that_drops_most_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(tmp_path, **PANES, alert=ALERT)
    past = START - 40 * HOUR
    records = complete(20, past + 20 * HOUR) + complete(300, past)
    data = service.run({"p": ("records", records)})
    (reason,) = service.reasons(data)
    assert reason.startswith("window hour: ")
    assert data["alerts"][0]["state"] == "undefined"
    assert sum("window hour" in message for message in caplog.messages) == 1
    # As many in time as are remembered, and it is over.
    data = service.run({"p": ("records", records + complete(1000, past + 21 * HOUR))})
    assert service.reasons(data) == []
    assert data["alerts"][0]["state"] == "ok"


def test_joined_events_that_a_window_drops_are_reported(tmp_path: Path) -> None:
    service = Service(tmp_path, **JOIN, window=[{"name": "all"}, {"name": "hour", "length": "1h"}])
    # The watermark stands where the slowest partition is, the window where the newest event is.
    past = START - 40 * HOUR
    first = [line(id=f"a{n}", score=0.5, y_true=True, time=past + 20 * HOUR) for n in range(20)]
    second = [line(id=f"b{n}", score=0.5, y_true=True, time=past + n) for n in range(300)]
    data = service.run({"a": ("records", first), "b": ("records", second)})
    reasons = service.reasons(data)
    assert [reason.partition(":")[0] for reason in reasons] == ["window hour"]


CLOCK = st.lists(
    st.tuples(st.integers(-HOUR, HOUR), st.lists(st.integers(-30 * HOUR, 30 * HOUR), max_size=30)),
    max_size=20,
)


@given(CLOCK)
def test_a_watermark_is_never_ahead_of_the_newest_clock(steps: list[tuple[int, list[int]]]) -> None:
    clocks = Clocks()
    newest = START
    watermark = Watermark(clocks.seconds, clocks.now, leap_us=HOUR)
    for step, times in steps:
        clocks.passed += step
        now = clocks.now()
        newest = max(newest, now)
        watermark.note("a", np.array([now + time for time in times], dtype=np.int64))
        value = watermark.value
        assert value is None or value <= newest
        again = Watermark(clocks.seconds, clocks.now)
        again.restore(watermark.saved())
        assert again.value is None or again.value <= now


@given(st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 1)), max_size=30))
def test_a_share_is_of_the_recent_records(steps: list[tuple[int, float]]) -> None:
    share = LateShare()
    for records, late in steps:
        share.add(records, int(records * late))
        assert 0 <= share.value <= 1
    share.add(20_000, 20_000)
    assert share.is_most
    share.add(20_000, 0)
    assert not share.is_most


def test_a_partition_that_falls_behind_at_once_is_reported_before_half_of_all_records() -> None:
    clocks = Clocks()
    watermark = Watermark(clocks.seconds, clocks.now, wait_us=30 * SECOND)

    def note(partition: str, count: int, behind: int) -> None:
        watermark.note(partition, np.full(count, START - behind, dtype=np.int64))

    for partition in ("a", "b"):
        note(partition, 1000, 0)
    assert watermark.value == START
    note("b", 19, HOUR)
    note("a", 100, 0)
    assert not watermark.late.is_most
    note("b", 1, HOUR)
    assert (watermark.late.is_most, watermark.late.value) == (True, 1.0)
    note("b", 2, 0)
    assert not watermark.late.is_most
    # One that has ended is not reported for ever.
    note("b", 20, HOUR)
    note("a", 1001, 0)
    assert not watermark.late.is_most


def test_the_slowest_partition_tells_the_time_and_it_never_goes_back() -> None:
    clock = Clock()
    watermark = Watermark(clock, lambda: START)
    assert watermark.value is None
    watermark.expect(["a", "b"])
    watermark.note("a", np.array([HOUR]))
    assert watermark.value is None
    watermark.note("b", np.array([5, 3]))
    assert watermark.value == 5
    clock.now = 61.0
    watermark.note("a", np.array([2 * HOUR]))
    assert watermark.value == 2 * HOUR
    watermark.note("b", np.array([6]))
    assert watermark.value == 2 * HOUR
    clock.now = 200.0
    assert watermark.value == 2 * HOUR
    again = Watermark(clock, lambda: START)
    again.restore(watermark.saved())
    again.expect(["c"])
    assert again.value == 2 * HOUR


def test_a_leap_is_believed_once_it_prevails() -> None:
    watermark = Watermark(Clock(), lambda: START, leap_us=HOUR)
    watermark.note("a", np.array([0, 400 * DAY, HOUR]))
    assert watermark.value == HOUR
    for n in range(100):
        # Of three records one is wrong.
        watermark.note("a", np.array([n * HOUR, 500 * DAY, n * HOUR]))
    assert watermark.value == 99 * HOUR
    watermark.note("a", np.full(15, 100 * DAY))
    assert watermark.value == 99 * HOUR
    watermark.note("a", np.full(1, 101 * DAY))
    assert watermark.value == 100 * DAY


@given(st.integers(0, 2**32))
def test_batches_may_be_cut_anywhere(seed: int) -> None:
    rng = random.Random(seed)
    moment, times = 0, []
    for _ in range(300):
        moment += rng.choice([0, HOUR, 3 * DAY if rng.random() < 0.02 else 1])
        times.append(moment + rng.choice([0] * 9 + [rng.randrange(10) * DAY]))
    written = []
    for longest in (1, 7, 300):
        watermark = Watermark(Clock(), lambda: START, leap_us=HOUR)
        left = times
        while left:
            size = rng.randrange(1, longest + 1)
            watermark.note("a", np.array(left[:size]))
            left = left[size:]
        written.append((watermark.value, watermark.saved()))
    assert written[0] == written[1] == written[2]
