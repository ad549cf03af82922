"""The loop of a run over real files, with the clock as an argument."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import streameval as se
from streameval.errors import ConfigError, SourceError, StoreError
from streameval.events.time import iso_time
from streameval.service.config.settings import RunSettings, ServeSettings
from streameval.service.http.api import ENDPOINTS
from streameval.service.http.health import Readiness
from streameval.service.publish.snapshot import Publisher
from streameval.service.run.loop import in_this_thread
from streameval.service.sources.files import FilesSource
from streameval.service.sources.raw import PartitionStatus, Position, RawBatch
from streameval.service.store.positions import Positions
from streameval.service.store.quarantine import listed, mark_for_replay
from streameval.service.upkeep.settings_migration import migration_of
from tests.support.run import Clock, Scripted, events, opened, settings, snapshot_of

ALL = {"name": "all"}
FEW = {"slices": ["country"], "metrics": ["accuracy", "roc_auc", "log_loss"]}


class Bench:
    """A run over a file, that may be ended and begun again."""

    def __init__(self, directory: Path, **tables: Any) -> None:
        self.file = directory / "events.jsonl"
        self.file.touch()
        recent = {"name": "recent", "length": "10m", "pane": "5m", "lateness": "1h"}
        given: dict[str, Any] = {
            "store": str(directory / "run.db"),
            "window": [ALL, recent],
            "files": {"records": [str(self.file)]},
            "checkpoint": None,
        }
        self.settings = settings(**given | tables)
        self.clock = Clock(1000.0)
        self.publisher = Publisher()
        self.ends = ExitStack()
        self.start()

    def start(self, **options: Any) -> None:
        self.end()
        run = opened(self.settings, publisher=self.publisher, clock=self.clock, **options)
        self.one = self.ends.enter_context(run)
        self.store, self.runner = self.one.store, self.one.runner

    def change(self, **given: Any) -> None:
        self.settings = msgspec.structs.replace(self.settings, **given)

    def run(self, *sources: Any) -> None:
        files: Any = FilesSource(self.settings.files, self.runner.positions)  # type: ignore[arg-type]
        with closing(files):
            self.runner.run(sources or [files], until_end=True)

    def end(self) -> None:
        self.ends.close()

    def append(self, *lines: str | Mapping[str, Any]) -> None:
        with self.file.open("a") as file:
            file.writelines(
                (line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines
            )

    @property
    def data(self) -> Mapping[str, Any]:
        return self.one.data  # type: ignore[no-any-return]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return listed(self.store.connection)


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    made: list[Bench] = []

    def make(**settings: Any) -> Bench:
        made.append(Bench(tmp_path, **settings))
        return made[-1]

    yield make
    for one in made:
        one.end()


Make = Callable[..., Bench]


def records(start: int, count: int) -> list[bytes]:
    return [json.dumps(row).encode() for row in events(start + count)[start:]]


def test_curves_and_classes_are_bounded(bench: Make) -> None:
    several = {"evaluator": {"task": "multiclass"}, "fields": {"y_pred": "y_pred"}}
    run = bench(**several, window=[ALL], intervals=False)
    run.append(*({"y_true": f"c{n % 150}", "y_pred": f"c{n % 149}"} for n in range(300)))
    run.run()
    confusion = run.data["confusion"]["all"]
    assert (len(confusion["labels"]), confusion["left_out"]) == (100, 50)
    assert run.data["curves"] == {"all": {}}


def test_bad_records_are_kept_and_replayed_after_a_fix(bench: Make, tmp_path: Path) -> None:
    run = bench(fields={"score": "score", "time": "when"})
    run.append(*events(20), "not json", '{"y_true": 1}')
    run.run()
    assert run.data["checkpoint"]["events"] == 0
    assert run.data["quarantine"]["reasons"] == {"time": 20, "record": 1, "score": 1}
    assert [row["place"] for row in run.rows][:1] == [run.file.stat().st_size - 14]
    assert run.data["quarantine"]["recent"][1]["raw"] == "not json"
    # The field's name was wrong; with the right one they can be read.
    run.change(fields=settings().fields)
    run.start()
    with run.store.transaction() as connection:
        assert mark_for_replay(connection, None) == (22, 0)
    run.start()
    run.run()
    data = run.data
    assert data["checkpoint"]["events"] == 20
    assert sorted(row["reason"] for row in run.rows) == ["record", "score"]
    assert run.store.counters()["replayed"] == 22
    before = data["reports"]
    run.start()
    run.run()
    assert run.data["reports"] == before


class Closed(Scripted):
    """Gives ten records, and ends without another partition."""

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        if self.finished:
            return []
        self.finished = True
        return [RawBatch("a", "records", records(0, 10), range(10), {"offset": 10})]

    def status(self) -> list[PartitionStatus]:
        return [
            PartitionStatus("a", {"offset": 10}, 0, "is not read: not JSON"),
            PartitionStatus("b", None, 0, "cannot be opened: Permission denied", unopened=True),
        ]


def test_a_run_is_not_finished_where_a_file_cannot_be_opened(bench: Make) -> None:
    run = bench()
    message = "^not finished, all else is counted: b: cannot be opened: Permission denied$"
    with pytest.raises(SourceError, match=message):
        run.run(Closed())
    assert run.runner.events == 10


class Quiet(Scripted):
    """Ten records, and then nothing: each read waits for as long as it may, and moves the clock."""

    def __init__(self, clock: Clock, seconds: float, seen: Callable[[], None]) -> None:
        self.clock, self.seconds, self.seen = clock, seconds, seen
        self.idle: float | None = None
        self.reads = 0

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        if self.idle is None:
            self.clock.now += 1.0
            return [RawBatch("a", "records", records(0, 10), range(10), {"offset": 10})]
        self.reads += 1
        self.clock.now += max(timeout, 0.001)
        self.finished = self.clock.now > self.idle + self.seconds
        self.seen()
        return []

    def checkpointed(self, positions: Mapping[str, Position]) -> None:
        if self.idle is None:
            self.clock.now += 12.0
            self.idle = self.clock.now


def test_an_idle_run_waits_and_stays_ready_after_a_dear_checkpoint(bench: Make) -> None:
    run = bench()
    clock = run.clock
    run.start(now=lambda: int(clock.now * 1e6))
    readiness, reasons = Readiness(ServeSettings()), set()

    def seen() -> None:
        reasons.update(readiness.reasons(run.publisher.current(), clock.now))

    source = Quiet(clock, 300, seen)
    run.runner.run([source])
    shown = run.data["checkpoint"]
    assert (shown["sequence"], shown["seconds"], reasons) == (1, 12.0, set())
    # Each waits for as long as a stop may have to, or until something is due.
    assert source.reads < 1.2 * 300 / 0.1


class Failing(Scripted):
    """A source with two records, then trouble."""

    reads = 0
    problem = ""

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        self.reads += 1
        if self.reads > 1:
            raise SourceError("the topic has gone")
        return [RawBatch("kafka:a/0", "records", records(0, 2), [0, 1], {"offset": 2})]

    def status(self) -> list[PartitionStatus]:
        return [PartitionStatus("kafka:a/0", {"offset": 2}, None, self.problem)]


def test_what_was_read_before_a_source_failed_is_counted(bench: Make) -> None:
    run = bench()
    with pytest.raises(SourceError, match="the topic has gone"):
        run.run(Failing())
    run.start()
    assert run.runner.positions == {"kafka:a/0": {"offset": 2}}
    assert run.runner.events == 2


def test_problems_are_reported_once(bench: Make, caplog: pytest.LogCaptureFixture) -> None:
    run = bench()
    caplog.set_level(logging.INFO, "streameval")
    source = Failing()
    source.problem = "the broker\nis away"
    run.runner.loop.sources = [source]
    for _ in range(3):
        run.runner.publish()
    source.problem = ""
    run.runner.publish()
    assert run.data["partitions"][0]["problem"] == ""
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "kafka:a/0: the broker\nis away"),
        ("INFO", "kafka:a/0: is being read again"),
    ]


def test_nothing_is_acknowledged_or_published_before_it_is_committed(bench: Make) -> None:
    run = bench(checkpoint={"every": "1h", "events": 2})
    held: list[tuple[Future[Any], Callable[[], Any]]] = []
    durable: list[int] = []
    looks: list[Any] = []

    def seen() -> Any:
        current: Any = run.publisher.current()
        committed = Positions(run.store.read_connection()).partitions.get("a")
        read = sum(partition.records for partition in current.partitions)
        return current.checkpoint.events, read, committed and committed.records, [*durable]

    class Source(Scripted):
        """Two records at each read; the first checkpoint is written in the fifth."""

        reads = 0

        def read(self, most: int, timeout: float) -> list[RawBatch]:
            self.reads += 1
            if self.reads > 6:
                self.finished = True
                return []
            if self.reads > 2:
                looks.append(seen())
            if self.reads == 5:
                future, write = held.pop()
                future.set_result(write())
            end = 2 * self.reads
            return [RawBatch("a", "records", records(end - 2, 2), [end, end], {"offset": end})]

        def checkpointed(self, positions: Mapping[str, Position]) -> None:
            durable.append(int(positions["a"]["offset"]))

    source = Source()

    def submit(write: Callable[[], Any]) -> Future[Any]:
        """As an executor whose thread writes the first checkpoint slowly."""
        if source.reads > 4:
            return in_this_thread(write)
        held.append((Future(), write))
        return held[0][0]

    run.start(submit=submit)
    run.runner.run([source])
    # What was read in the meantime is neither shown nor acknowledged.
    assert looks == [(0, 0, None, [])] * 3 + [(2, 2, 2, [2])]
    assert seen() == (12, 12, 12, [2, 12])


def test_a_failed_write_ends_the_run_and_loses_nothing(bench: Make) -> None:
    run = bench(intervals=False)
    run.append(*events(50))
    run.run()
    before = run.data["reports"]
    rng = random.Random(9)
    run.append(*({**row, "score": rng.random()} for row in events(1000)))
    run.start()
    (pages,) = run.store.connection.execute("PRAGMA page_count").fetchone()
    run.store.connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="the disk is full"):
        run.run()
    run.start()
    run.runner.publish(force=True)
    assert run.data["reports"] == before
    run.run()
    assert run.data["checkpoint"]["events"] == 1050


def test_dear_parts_of_a_snapshot_are_made_less_often_and_agree(bench: Make) -> None:
    run = bench(evaluator=FEW)
    run.append(*events(10))
    run.run()
    snapshots = run.runner._assembler.snapshots
    snapshots._level = None  # by the clock of the test, intervals would take no time
    evaluator, part = run.one.evaluators["all"], snapshots._totals["all"]
    make, made = part._make, []

    def dear() -> Any:
        run.clock.now += 0.5
        made.append(run.clock.now)
        return make()

    part._make = dear
    resampled = [*snapshots._resampled.values()]
    # All but what is resampled, which has a share of its own.
    shares = {id(one): each for one, each, _ in snapshots._parts if one not in resampled}
    assert sum(shares.values()) == pytest.approx(0.2)
    for number in range(60):
        evaluator.update(number % 2, score=0.25, slices={"country": "PT"})
        run.clock.now += 1.0
        snapshots.changed()
        data = snapshot_of(snapshots, now=number)
        # Report, curves and confusion of a window are of one moment, and so is their time.
        support = int(data.reports["all"].metrics["accuracy"].support)
        assert sum(map(sum, data.confusion["all"].matrix)) == support
        curve = data.curves["all"]["calibration"].columns
        assert sum(weight or 0 for weight in curve["weight"]) == support
        assert data.windows[0].as_of == iso_time(support - 11) or number == 0
    # Half a second each, out of its share of the time.
    few = 1 + int(59 * shares[id(part)] / 0.5)
    assert len(made) > 2
    assert len(made) in (few, few + 1)
    snapshots.changed()
    assert snapshots.stale
    snapshot_of(snapshots, force=True)
    assert not snapshots.stale


def migrated(run: Bench, wanted: RunSettings) -> Any:
    with run.store.reading() as connection:
        return migration_of("run.db", connection, wanted, 0)


@pytest.mark.parametrize(
    ("before", "after", "was", "got"),
    [(None, 1024, "65536", "1024"), ("exact", 2048, '"', "2")],
)
def test_another_limit_of_scores_is_refused(
    before: Any, after: Any, was: str, got: str, bench: Make
) -> None:
    run = bench(evaluator={"max_scores": before} if before else {})
    run.append(*events(10))
    run.run()

    def evolved(evaluator: Any = None, window: Any = None, name: str = "all") -> Any:
        """The store under other limits of its evaluators or of its first window."""
        replace = msgspec.structs.replace
        first, *others = run.settings.window
        windows = [replace(first, max_scores=window, name=name), *others]
        wanted = replace(run.settings.evaluator, max_scores=evaluator)
        return migrated(run, replace(run.settings, evaluator=wanted, window=windows))

    message = rf"^evaluator\.max_scores: run.db was begun with '{was}.*got '{got}.*another name"
    with pytest.raises(ConfigError, match=message):
        evolved(after)
    with pytest.raises(ConfigError, match=r"^window\.all\.max_scores: run.db was begun with"):
        evolved(before, after)
    found = evolved(before, after, "new")
    assert [one.max_scores for one in found.settings.window] == [after, before or 65_536]
    # Without a limit in the settings a stored window keeps its own.
    found = evolved()
    assert [window.max_scores for window in found.settings.window] == [before or 65_536] * 2
    grows = [f"window '{name}' keeps all scores, as it was begun" for name in ("all", "recent")]
    assert [line.partition(", and its")[0] for line in found.lines] == grows * (before == "exact")


def test_a_store_of_an_older_release_stays_exact(bench: Make) -> None:
    run = bench(window=[ALL | {"interval_sums": False}], evaluator={"max_scores": "exact"})
    rows = events(100) + events(100, seed=1)
    run.append(*rows[:100])
    run.run()
    with run.store.transaction() as connection:
        assert connection.execute("DELETE FROM meta WHERE key = 'config.kept'").rowcount == 1
    silent = settings(evaluator={}, window=[ALL])
    run.change(evaluator=silent.evaluator, window=silent.window)
    found = migrated(run, run.settings)
    assert found.changed
    assert (len(found.lines), found.drops) == (1, {})
    assert 'max_scores = "exact" leaves it so' in found.lines[0]
    found.apply(run.store)
    run.settings = found.settings
    run.append(*rows[100:])
    run.start()
    run.run()
    whole = se.Evaluator()
    whole.update_many([row["y_true"] for row in rows], score=[row["score"] for row in rows])
    evaluator = run.one.evaluators["all"]
    assert evaluator.plan == whole.plan
    assert evaluator.report() == whole.report()


def test_what_bounded_scores_cannot_say_is_left_out(bench: Make) -> None:
    names = ["roc_auc", "average_precision", "log_loss", "break_even", "pr_gain_auc"]
    names += ["eleven_point_average_precision", "accuracy"]
    windows = [ALL | {"max_scores": 1024}, {"name": "exact", "max_scores": "exact"}]
    run = bench(evaluator={"metrics": names}, window=windows)
    rng = random.Random(3)
    rows = [{**row, "score": rng.random()} for row in events(3000, seconds=0)]
    run.append(*rows)
    run.run()
    whole = se.Evaluator()
    whole.update_many([row["y_true"] for row in rows], score=[row["score"] for row in rows])
    snapshot: Any = run.publisher.current()
    report = ENDPOINTS["/api/report"]
    answers = {
        name: msgspec.to_builtins(report.answer(snapshot, [("window", name)]))["report"]["metrics"]
        for name in ("all", "exact")
    }
    assert run.one.evaluators["all"].total.distinct_scores <= 1024
    for name in ("roc_auc", "average_precision"):
        low, high = answers["all"][name]["bounds"]
        assert low < whole[name] < high
        assert low < answers["all"][name]["value"] < high
        assert high - low < 1e-2
    assert answers["all"]["roc_auc"]["low"] < whole["roc_auc"] < answers["all"]["roc_auc"]["high"]
    for name in ("log_loss", "accuracy"):
        assert answers["all"][name] == answers["exact"][name]
        assert answers["all"][name]["low"] < whole[name]
    for name in ("break_even", "pr_gain_auc", "eleven_point_average_precision"):
        assert answers["exact"][name]["value"] == whole[name]
        assert answers["all"][name]["value"] is None
        assert "more than max_scores=1024" in answers["all"][name]["reason"]
    assert not any("bounds" in value for value in answers["exact"].values())
    assert [window.max_scores for window in snapshot.windows] == [1024, None]
    # Of many scores a curve is thin.
    roc = run.data["curves"]["exact"]["roc"]["columns"]
    assert 400 < len(roc["fpr"]) == len(roc["tpr"]) == len(roc["threshold"]) <= 500
    assert (roc["fpr"][0], roc["tpr"][-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("more", "window"), [({"weight": "weight"}, ALL), ({}, {"name": "fade", "half_life": "1h"})]
)
def test_weights_and_half_lives_have_intervals_in_a_new_run(
    more: dict[str, str], window: Any, bench: Make
) -> None:
    given = {"fields": {"score": "score", "time": "time", **more}, "window": [window]}
    run = bench(**given, evaluator=FEW)
    rng = random.Random(3)
    run.append(*({**row, "weight": rng.random() + 0.1} for row in events(300)))
    run.run()
    for name in ("accuracy", "roc_auc", "log_loss"):
        value = run.data["reports"][window["name"]]["metrics"][name]
        assert value["low"] < value["value"] < value["high"]
    without = bench(**given, intervals=False, store=run.settings.store + "2")
    without.run()
    assert not any("weights" in n for n in without.one.evaluators[window["name"]].plan.keeps)
