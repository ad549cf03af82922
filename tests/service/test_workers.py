"""Workers that share an evaluation: what is refused, and who writes when two hold a partition."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewPartitions

from streameval.cli import main
from streameval.errors import ConfigError, SourceError, StoreError
from streameval.evaluator.comparison import reference_of
from streameval.service.config.load import settings_from_text
from streameval.service.config.settings import RunSettings
from streameval.service.config.source_settings import KafkaSettings
from streameval.service.publish.snapshot import Publisher
from streameval.service.run.group_worker import GroupWorker
from streameval.service.run.loop import ReadLoop, Submit, Write, in_this_thread
from streameval.service.run.opening import check_units, open_unit
from streameval.service.run.reload import while_running
from streameval.service.run.service import _generation, run_service
from streameval.service.run.store_reader import StoreReader
from streameval.service.run.unit import Unit
from streameval.service.sources import kafka_consumer, kafka_group
from streameval.service.sources.kafka_group import KafkaGroup
from streameval.service.sources.raw import Position, RawBatch
from streameval.service.store import postgres as postgres_store
from streameval.service.store.kept_settings import (
    SupersededError,
    check_generation,
    join_group,
    kept_settings,
)
from streameval.service.store.store import read_store
from tests.support.brokers import Broker, running_broker
from tests.support.postgres_server import Postgres

CONFIG = """
store = "{store}"
[fields]
score = "score"
{more}
[kafka]
records = "events"
assignment = "group"
[kafka.properties]
"bootstrap.servers" = "localhost:1"
"group.id" = "g"
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as one:
        yield one


# What is refused


def test_a_worker_does_not_end_by_itself() -> None:
    settings = settings_from_text(CONFIG.format(store="postgresql://db/eval", more=""))
    with pytest.raises(ConfigError, match="--until-end conflicts with"):
        run_service(settings, until_end=True)


class Numbers:
    """Units without content."""

    def __init__(self) -> None:
        self.opened: set[int] = set()

    def open(self, number: int) -> Mapping[str, Position]:
        self.opened.add(number)
        return {}

    def release(self, numbers: Any, *, write: bool) -> None:
        self.opened -= set(numbers)


def joining(broker: Broker, units: Numbers, owner: str, **given: Any) -> KafkaGroup:
    group = given.pop("group", f"group-{time.time_ns()}")
    settings = KafkaSettings(
        **given,
        assignment="group",
        properties={
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "group.instance.id": "",
            "fetch.wait.max.ms": 10,
            # Tansu takes half of it until it assigns.
            "session.timeout.ms": 6000 if broker.keeps_data else 1000,
            "heartbeat.interval.ms": 100,
        },
    )
    return KafkaGroup(settings, units, owner=owner)


def until(source: KafkaGroup, done: Callable[[list[RawBatch]], bool]) -> list[RawBatch]:
    """Everything that is read until this holds."""
    found: list[RawBatch] = []
    ends = time.monotonic() + 60
    while not done(found):
        assert time.monotonic() < ends, source.status()
        found += source.read(1000, 0.05)
    return found


@pytest.mark.broker
def test_topics_of_different_numbers_of_partitions_are_refused(broker: Broker) -> None:
    name = f"unequal-{time.time_ns()}"
    broker.make_topic(f"{name}-p", 3)
    broker.make_topic(f"{name}-l", 2)
    source = joining(broker, Numbers(), "one", predictions=f"{name}-p", labels=f"{name}-l")
    told = f"the topic {name}-p has 3 partitions and {name}-l has 2; .*add partitions to {name}-l"
    with closing(source), pytest.raises(SourceError, match=told):
        until(source, lambda found: False)


@pytest.mark.broker
def test_a_group_of_another_evaluation_is_refused(broker: Broker) -> None:
    if not broker.keeps_data:
        pytest.skip("Tansu drops the metadata of a commit")
    name = f"owned-{time.time_ns()}"
    broker.make_topic(name, 2)
    group = f"group-{name}"
    other = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0})
    with closing(other):
        positions = [TopicPartition(name, 0, 0, "prod, schema fraud")]
        assert other.commit(offsets=positions, asynchronous=False)
    one = joining(broker, Numbers(), "prod, schema spam", records=name, group=group)
    with closing(one), pytest.raises(SourceError) as caught:
        until(one, lambda found: False)
    assert str(caught.value) == (
        f"kafka: the group {group} belongs to the evaluation in prod, schema fraud, got prod, "
        "schema spam; each would read a part of the topics only: give this one a "
        '"group.id" of its own'
    )


@pytest.mark.broker
def test_both_topics_are_read_by_the_holder_of_a_number(broker: Broker) -> None:
    name = f"both-{time.time_ns()}"
    for kind in ("p", "l"):
        broker.make_topic(f"{name}-{kind}", 2)
        broker.send(f"{name}-{kind}", [(None, kind.encode(), n) for n in (0, 1, 1)])
    units = Numbers()
    with closing(
        joining(broker, units, "one", predictions=f"{name}-p", labels=f"{name}-l")
    ) as source:
        assert source.status() == [] or source.status()[0].lag is None
        found = until(source, lambda found: sum(batch.records for batch in found) == 6)
        assert units.opened == {0, 1}
        source.drop(1)
        assert {status.partition for status in source.status()} == set(source.names(0))
        # As long as it is assigned it is opened again, and read from where its unit says.
        found = until(source, lambda found: sum(batch.records for batch in found) == 4)
        assert {batch.partition for batch in found if batch.records} == set(source.names(1))
    # Leaving the group releases what it held.
    assert units.opened == set()


@pytest.mark.broker
def test_partitions_that_are_added_wait_until_both_topics_have_them(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not broker.keeps_data:
        pytest.skip("NOT TESTED: Tansu adds no partitions; `make test-kafka` tests it")
    monkeypatch.setattr(kafka_group, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(kafka_consumer, "_LOOK_SECONDS", 0.1)
    name = f"added-{time.time_ns()}"
    for kind in ("p", "l"):
        broker.make_topic(f"{name}-{kind}", 2)
    units = Numbers()

    def add(kind: str) -> None:
        topic = f"{name}-{kind}"
        broker.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)

    def problems(source: KafkaGroup) -> list[str]:
        return [one.problem for one in source.status() if "group" in one.partition and one.problem]

    with closing(
        joining(broker, units, "one", predictions=f"{name}-p", labels=f"{name}-l")
    ) as source:
        until(source, lambda found: units.opened == {0, 1})
        add("p")
        until(source, lambda found: bool(problems(source)))
        (problem,) = problems(source)
        assert problem.startswith(f"the topic {name}-p has 3 partitions and {name}-l has 2; with")
        assert f"add partitions to {name}-l" in problem
        broker.send(f"{name}-p", [(None, b"new", 2)])
        # Assigned or not, it is not read: its labels may be in another partition of their topic.
        until(source, lambda found: 2 in source._assigned)
        assert until(source, lambda found: True) == []
        assert units.opened == {0, 1}
        add("l")
        found = until(source, lambda found: any(batch.messages for batch in found))
        assert units.opened == {0, 1, 2}
        assert [batch.partition for batch in found if batch.messages] == [f"kafka:{name}-p/2"]
        assert problems(source) == []


# Who writes


class Assigned:
    """A group that assigns what a test says, and takes a step of it at each look for records."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dropped: list[int] = []
        self.steps: list[Callable[[], list[RawBatch]]] = []
        self.durable: list[Mapping[str, Position]] = []
        self.left: Callable[[], None] = lambda: None
        """What leaving it calls."""

    @property
    def finished(self) -> bool:
        return not self.steps

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        return self.steps.pop(0)() if self.steps else []

    def checkpointed(self, positions: Mapping[str, Position]) -> None:
        self.durable.append(positions)

    def close(self) -> None:
        self.left()

    def drop(self, number: int) -> None:
        self.dropped.append(number)

    def names(self, number: int) -> list[str]:
        return [f"kafka:events/{number}"]

    def status(self) -> list[Any]:
        return []


class Sharing:
    """A worker, and the group that it believes in."""

    def __init__(
        self,
        name: str,
        settings: RunSettings,
        submit: Submit = in_this_thread,
        file: str = "",
        drops: Collection[str] = (),
    ) -> None:
        self.group = Assigned(name)
        generation = 0
        if file:
            generation = join_group(
                settings,
                file,
                check=partial(check_units, settings, lambda found: drops),
                confirmed=lambda: "settings" in drops,
            )
        self.worker = GroupWorker(
            settings,
            ReadLoop(settings, submit=submit),
            lambda worker: cast("Any", self.group),
            partial(open_unit, lambda found: drops, generation=generation),
            check=partial(check_generation, generation=generation),
        )

    def read(self, number: int, first: int, last: int) -> None:
        self.worker.collect(self.batch(number, first, last))

    def batch(self, number: int, first: int, last: int) -> RawBatch:
        lines = [json.dumps({"score": 0.7, "y_true": n % 2}).encode() for n in range(first, last)]
        partition = f"kafka:events/{number}"
        return RawBatch(partition, "records", lines, range(first, last), {"offset": last})

    def checkpoint(self) -> Mapping[str, Position]:
        positions = self.worker.stage(lambda: True)()
        self.worker.committed()
        return positions


@pytest.fixture
def sharing(postgres: Postgres) -> Iterator[Callable[..., Sharing]]:
    address = postgres.address(f"s{time.time_ns()}")
    made: list[Sharing] = []

    def make(name: str, more: str = "", **options: Any) -> Sharing:
        settings = settings_from_text(CONFIG.format(store=address, more=more))
        made.append(Sharing(name, settings, **options))
        return made[-1]

    yield make
    for one in made:
        with suppress(StoreError):
            one.worker.release(list(one.worker._units), write=False)


def by_unit(one: Sharing, read: Callable[[Any], Any]) -> dict[str, Any]:
    """What is read of each unit of the store."""
    found = {}
    with closing(read_store(one.worker._settings.store)) as store:
        for unit in store.units():
            store.select(unit)
            found[unit] = read(store)
    return found


def counted(one: Sharing) -> int:
    return sum(by_unit(one, lambda store: store.counters().get("events", 0)).values())


def test_a_worker_that_was_cut_off_writes_nothing(
    sharing: Callable[..., Sharing], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = sharing("first"), sharing("second")
    assert first.worker.open(0) == {}
    assert first.worker.open(1) == {}
    first.read(0, 0, 10)
    first.read(1, 0, 5)
    assert first.checkpoint() == {"kafka:events/0": {"offset": 10}, "kafka:events/1": {"offset": 5}}
    first.read(0, 10, 15)  # and then it stands still
    assert second.worker.open(0) == {"kafka:events/0": {"offset": 10}}
    second.read(0, 10, 20)
    assert second.checkpoint() == {"kafka:events/0": {"offset": 20}}
    first.read(1, 5, 8)
    with caplog.at_level(logging.WARNING):
        assert first.checkpoint() == {"kafka:events/1": {"offset": 8}}
    (line,) = caplog.messages
    assert line.startswith("partition 0: postgresql://")
    assert "unit '0' was taken over by another worker; nothing was written" in line
    assert first.group.dropped == [0]
    first.read(0, 15, 30)  # fetched before it was dropped
    assert first.checkpoint() == {}
    assert counted(first) == 28
    # If it is still assigned, it takes the number back, where the other has left it.
    assert first.worker.open(0) == {"kafka:events/0": {"offset": 20}}
    second.read(0, 20, 21)
    assert second.checkpoint() == {}
    assert counted(first) == 28
    # A fault of the store ends a worker.
    with first.worker._units[0].store.transaction() as connection:
        connection.execute("UPDATE positions SET position = '7'")
    with pytest.raises(StoreError, match="the position of partition 'kafka:events/0' is damaged"):
        second.worker.open(0)


def test_new_settings_are_those_of_units_that_are_opened_later_too(
    sharing: Callable[..., Sharing], caplog: pytest.LogCaptureFixture
) -> None:
    exact = '[[window]]\nname = "all"\nmax_scores = "exact"\n'
    first = sharing("first", exact)
    for number in (0, 1, 2):
        first.worker.open(number)
        first.read(number, 0, 4)
    first.checkpoint()
    first.worker.release([0, 1, 2], write=False)
    # Its file leaves open what its windows keep: as it is in the store.
    one, other = sharing("one"), sharing("other")
    for number in (0, 1):
        one.worker.open(number)
    other.worker.open(1)
    wanted = sharing("new", "[quarantine]\nkeep = 7\n").worker._settings
    settings, later = while_running(one.worker._settings, wanted)
    assert (settings.quarantine.keep, later) == (7, [])
    with caplog.at_level(logging.WARNING):
        one.worker.configure(settings, None)
    assert one.group.dropped == [1]
    assert "unit '1' was taken over by another worker" in caplog.text
    assert one.worker.open(2) == {"kafka:events/2": {"offset": 4}}
    kept = by_unit(one, lambda store: kept_settings("db", store.meta()))
    keep = {unit: one.quarantine.keep for unit, one in kept.items()}
    assert keep == {"0": 7, "1": 10_000, "2": 7}
    assert {one.window[0].max_scores for one in kept.values()} == {"exact"}


def test_a_server_follows_the_settings_of_the_first_unit(sharing: Callable[..., Sharing]) -> None:
    one, other = sharing("one"), sharing("other", "[quarantine]\nkeep = 7\n")
    one.worker.open(0)
    other.worker.open(1)
    path = one.worker._settings.store
    with closing(StoreReader(path, partial(kept_settings, path), Publisher())) as follower:
        follower.read()
        states = follower._states
        for number, worker in ((1, other), (0, one)):
            worker.read(number, 0, 3)
            worker.checkpoint()
            follower.read()
            # New rows are merged; nothing is read anew because settings differ.
            assert follower._states is states
            assert follower.settings.quarantine.keep == 10_000
        one.worker.configure(other.worker._settings, None)
        follower.read()
        assert follower.settings.quarantine.keep == 7
        assert follower._states.evaluators["all"].to_bytes() == states.evaluators["all"].to_bytes()


MORE = '[evaluator]\nslices = ["country"]\n[[window]]\nname = "again"\n[[window]]\nname = "all"\n'
FEWER = '[evaluator]\nmetrics = ["accuracy"]\n'
DROPS = ["slice.country", "window.again", "scores"]


@pytest.mark.parametrize(("before", "after"), [("", MORE), (MORE, ""), ("", FEWER), (FEWER, "")])
def test_a_rolling_update_of_the_settings_of_a_group(
    sharing: Callable[..., Sharing],
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    before: str,
    after: str,
) -> None:
    old = sharing("old", before, file="pod-0")
    for number in (0, 1):
        old.worker.open(number)
        old.read(number, 0, 4)
    old.checkpoint()
    path = old.worker._settings.store

    def reported(waiting: str = "") -> dict[str, int]:
        assert main(["store", "report", path, "--format", "json"]) == 0
        told = capsys.readouterr()
        assert (waiting in told.err) if waiting else not told.err
        found = json.loads(told.out).items()
        return {name: one["metrics"]["accuracy"]["support"] for name, one in found}

    def states() -> dict[str, bytes]:
        follower.read()
        return {name: one.to_bytes() for name, one in follower._states.evaluators.items()}

    with closing(StoreReader(path, partial(kept_settings, path), Publisher())) as follower:
        follower.read()
        new = sharing("new", after, file="pod-1", drops=DROPS)
        assert new.worker.open(0) == {"kafka:events/0": {"offset": 4}}
        new.read(0, 4, 6)
        new.checkpoint()
        old.read(1, 4, 9)
        caplog.set_level(logging.INFO)
        assert old.checkpoint() == {"kafka:events/1": {"offset": 9}}
        # The last records of the old worker are counted, and then it ends.
        (line,) = [message for message in caplog.messages if "generation" in message]
        assert "the group has newer settings, of generation 2: this worker has those of 1" in line
        assert old.worker.loop.stopping
        # Nor does it convert a unit back that is assigned to it.
        new.worker.release([0], write=True)
        assert old.worker.open(0) is None
        old.worker.release([1], write=True)
        for _ in range(2):  # as often as it is restarted; it does not look for a broker
            caplog.clear()
            run_service(old.worker._settings, file="pod-0")
            (line,) = caplog.messages
            assert "ends without a partition; to return to its settings, add --drop" in line
        windows = {"all": 15, "again": 2} if after == MORE else {"all": 15}
        assert reported("the partitions 1 have earlier settings") == windows
        shown = states()
        assert "the partitions 1 have earlier settings until a worker opens them" in caplog.text
        for one in (old.worker._settings, new.worker._settings):
            # A server with the file of before or after; what it shows is under this file.
            with closing(StoreReader(path, lambda meta: one, Publisher())) as other:  # noqa: B023
                other.read()
                assert reference_of(other._states.evaluators["all"]).total.support == 15
        assert new.worker.open(1) == {"kafka:events/1": {"offset": 9}}
        # What was shown is what the conversion makes of it.
        assert states() == shown
        assert "all partitions are converted" in caplog.text
        assert reported() == windows
        # The file of one pod is the old one again: that is a change like another.
        back = sharing("back", before, file="pod-1", drops=DROPS)
        back.worker.open(0)
        back.read(0, 6, 7)
        back.checkpoint()
        new.read(1, 9, 10)
        new.checkpoint()
        assert new.worker.loop.stopping
        assert reported("the partitions 1 have earlier settings")["all"] == 17
        with pytest.raises(SupersededError):
            sharing("new", after, file="pod-2")  # a container of the settings that are left
        assert sharing("old", before, file="pod-0", drops=DROPS).worker.open(1) is not None
        assert reported()["all"] == 17


def test_a_worker_waits_for_a_store_that_is_away(
    postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    address = postgres.address(f"s{time.time_ns()}")
    settings = settings_from_text(CONFIG.format(store=address, more=""))
    loop = ReadLoop(settings)
    postgres.kill()
    try:
        with ThreadPoolExecutor(2) as threads, caplog.at_level(logging.WARNING):
            waiting = threads.submit(_generation, settings, "one", lambda found: (), loop)
            while "waiting for the store" not in caplog.text:
                assert not waiting.done()
                time.sleep(0.01)
            loop.stop()
            assert waiting.result(60) is None
    finally:
        postgres.start()
    assert _generation(settings, "one", lambda found: (), ReadLoop(settings)) == 1


def test_settings_that_are_refused_are_not_those_of_the_group(
    sharing: Callable[..., Sharing],
) -> None:
    old = sharing("old", MORE, file="pod-0")
    old.worker.open(0)
    old.read(0, 0, 4)
    old.checkpoint()
    for wrong in ("", "[evaluator]\npositive = 0\n" + MORE.partition("\n")[2]):
        with pytest.raises(ConfigError, match=r"to confirm, add --drop|its counts depend on it"):
            sharing("new", wrong, file="pod-1")
    old.read(0, 4, 5)
    old.checkpoint()
    assert old.worker.open(1) == {}
    assert not old.worker.loop.stopping


def test_earlier_settings_return_where_no_worker_is_left_or_by_confirmation(
    sharing: Callable[..., Sharing],
) -> None:
    sharing("old", file="one")
    new = sharing("new", MORE, file="two")
    new.worker.open(0)
    with pytest.raises(SupersededError):
        sharing("old", file="three")
    sharing("old", file="three", drops=["settings"])
    with pytest.raises(SupersededError):
        sharing("new", MORE, file="four")
    new.worker.release([0], write=False)
    sharing("new", MORE, file="five")


class Awaited(Future[Any]):
    """A checkpoint that is not written before its end is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.is_awaited = threading.Event()

    def result(self, timeout: float | None = None) -> Any:
        self.is_awaited.set()
        return super().result(timeout)


@pytest.fixture
def submit() -> Iterator[Submit]:
    """Writes in another thread, as late as it may."""
    with ThreadPoolExecutor(1) as writer:

        def submit(write: Write) -> Awaited:
            written = Awaited()

            def when_awaited() -> None:
                try:
                    assert written.is_awaited.wait(60)
                    written.set_result(write())
                except BaseException as error:
                    written.set_exception(error)

            writer.submit(when_awaited)
            return written

        yield submit


TWO_RECORDS = '[checkpoint]\nevery = "1h"\nevents = 2\n'


def under_way(one: Sharing) -> list[Callable[[], list[RawBatch]]]:
    """Steps to a checkpoint of five records that is not written yet, and one record after it."""

    def opened() -> list[RawBatch]:
        assert [one.worker.open(number) for number in (0, 1)] == [{}, {}]
        return [one.batch(0, 0, 3), one.batch(1, 0, 2)]

    def read_on() -> list[RawBatch]:
        assert not one.worker.loop._writing.done()
        return [one.batch(0, 3, 4)]

    return [opened, read_on]


def test_a_rebalance_waits_for_the_checkpoint_that_is_being_written(
    sharing: Callable[..., Sharing], submit: Submit, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = sharing("one", TWO_RECORDS, submit=submit), sharing("other")

    def revoked() -> list[RawBatch]:
        assert one.worker.loop._writing is not None
        one.worker.release([0], write=True)
        assert one.group.durable == [
            {"kafka:events/0": {"offset": 3}, "kafka:events/1": {"offset": 2}}
        ]
        # The group gives it to another worker, which has all that this one has read.
        assert other.worker.open(0) == {"kafka:events/0": {"offset": 4}}
        other.read(0, 4, 6)
        assert other.checkpoint() == {"kafka:events/0": {"offset": 6}}
        return [one.batch(1, 2, 5)]

    one.group.steps = [*under_way(one), revoked]
    with caplog.at_level(logging.WARNING, "streameval.run"):
        one.worker.run()
    assert not caplog.records
    assert counted(one) == 11
    assert by_unit(one, lambda store: store.counters()["checkpoints"]) == {"0": 3, "1": 2}


def test_a_unit_that_is_taken_over_during_a_checkpoint_is_dropped_alone(
    sharing: Callable[..., Sharing], submit: Submit, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = sharing("one", TWO_RECORDS, submit=submit), sharing("other")

    def taken_over() -> list[RawBatch]:
        assert other.worker.open(0) == {}
        other.read(0, 0, 6)
        assert other.checkpoint() == {"kafka:events/0": {"offset": 6}}
        # Opening waits for the checkpoint, because units share a connection.
        assert one.worker.open(2) == {}
        assert one.group.dropped == [0]
        assert one.group.durable == [{"kafka:events/1": {"offset": 2}}]
        return [one.batch(1, 2, 5), one.batch(2, 0, 1), one.batch(0, 4, 9)]

    one.group.steps = [*under_way(one), taken_over]
    with caplog.at_level(logging.WARNING, "streameval.run"):
        one.worker.run()
    (line,) = caplog.messages
    assert "unit '0' was taken over by another worker; nothing was written" in line
    assert counted(one) == 12


@pytest.mark.parametrize("end", ["expired", "failed", "unwritten"])
def test_the_checkpoint_that_is_being_written_is_waited_for_at_the_end(
    sharing: Callable[..., Sharing], submit: Submit, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    one = sharing("one", TWO_RECORDS, submit=submit)

    def write(self: Unit, *arguments: Any) -> Any:
        monkeypatch.undo()
        raise StoreError("the disk is full")

    def ends() -> list[RawBatch]:
        if end == "expired":  # what was read since is another worker's
            one.worker.release([0, 1], write=False)
            return []
        if end == "unwritten":
            monkeypatch.setattr(Unit, "write", write)
        one.worker.loop._writing.is_awaited.set()
        # What was read since would be without what was not written.
        one.group.left = lambda: one.worker.release([0, 1], write=True)
        raise StoreError("a unit is damaged")

    one.group.steps = [*under_way(one), ends]
    with nullcontext() if end == "expired" else pytest.raises(StoreError, match="is damaged"):
        one.worker.run()
    assert counted(one) == (0 if end == "unwritten" else 5)


def test_a_worker_that_was_cut_off_does_not_end_where_entries_are_gone(
    sharing: Callable[..., Sharing], caplog: pytest.LogCaptureFixture
) -> None:
    waiting = 'id = "id"\n[join]\nwait = "1h"\nhot = 1\n'
    first, second = sharing("first", waiting), sharing("second", waiting)

    def records(kind: str, ids: range) -> RawBatch:
        more = {"predictions": '"score": 0.7', "labels": '"y_true": 1'}[kind]
        lines = [f'{{"id": "{n}", {more}}}'.encode() for n in ids]
        times = [1_000_000] * len(lines)
        topic = f"kafka:{kind}/0"
        return RawBatch(topic, kind, lines, ids, {"offset": ids.stop}, times=times)  # type: ignore[arg-type]

    assert first.worker.open(0) == {}
    for start in range(0, 40, 10):
        first.worker.collect(records("predictions", range(start, start + 10)))
        first.checkpoint()
    assert second.worker.open(0) == {"kafka:predictions/0": {"offset": 40}}
    with second.worker._units[0].store.transaction() as connection:
        connection.execute("DELETE FROM join_segments")
    with caplog.at_level(logging.WARNING):
        first.worker.collect(records("labels", range(10)))
    (line,) = caplog.messages
    assert "unit '0' was taken over by another worker" in line
    assert first.group.dropped == [0]
    # Where they are gone although the unit is its own, the store is damaged.
    with pytest.raises(StoreError, match="is missing"):
        second.worker.collect(records("labels", range(10)))


def test_a_restart_of_the_database_loses_nothing(
    sharing: Callable[..., Sharing],
    postgres: Postgres,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = sharing("one")
    for number in (0, 1):
        one.worker.open(number)
    one.read(0, 0, 3)
    postgres.restart()
    # Within its patience the store connects again, and nothing is read twice.
    assert one.checkpoint() == {"kafka:events/0": {"offset": 3}}
    monkeypatch.setattr(postgres_store, "_PATIENCE_SECONDS", 0.1)
    one.read(0, 3, 5)
    one.read(1, 0, 2)
    postgres.kill()
    with caplog.at_level(logging.INFO):
        # The others would wait for as long, each for itself, and the group for all of them.
        assert (one.checkpoint(), one.group.dropped) == ({}, [0, 1])
        assert [one.worker.open(0), one.worker.open(1)] == [None, None]
        postgres.start()
        assert one.worker.open(0) == {"kafka:events/0": {"offset": 3}}
        assert one.worker.open(1) == {}
    said = [record for record in caplog.records if record.name == "streameval.run"]
    waiting, again = [record.getMessage() for record in said]
    assert waiting.startswith("waiting for the store: postgresql://")
    assert "cannot be reached: " in waiting
    assert "; check that it is running, and the host, port, " in waiting
    assert again == "the store is there again"
    one.read(0, 3, 5)
    assert one.checkpoint() == {"kafka:events/0": {"offset": 5}}
    one.read(1, 0, 2)
    one.worker.release([1], write=True)
    assert counted(one) == 7


def test_workers_of_one_machine_have_names_of_their_own(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    properties = {"bootstrap.servers": broker.bootstrap, "group.id": "names"}
    settings = KafkaSettings(records="none", assignment="group", properties=dict(properties))
    first = KafkaGroup(settings, Numbers(), owner="one")
    second = KafkaGroup(settings, Numbers(), owner="one")
    assert first.name.endswith("-0")
    assert second.name.endswith("-1")
    second.close()
    third = KafkaGroup(settings, Numbers(), owner="one")
    assert third.name == second.name
    for one in (first, third):
        one.close()
