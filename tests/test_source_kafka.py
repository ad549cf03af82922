"""The Kafka source against a real broker: every message once, and trouble in words."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions

from streameval.errors import ConfigError, SourceError
from streameval.stream.batch import Batch, Position
from streameval.stream.settings import KafkaSettings
from streameval.stream.sources.kafka import KafkaSource, _Partition
from tests.brokers import Broker, Tansu, free_port, running_broker

NAMES = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as found:
        yield found


@pytest.fixture
def tansu() -> Iterator[Tansu]:
    started = Tansu()
    yield started
    started.stop()


class Clock:
    """Each look at it is a quarter of a second later, so that nothing waits for long."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


OPENED: list[KafkaSource] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def opened(
    bootstrap: str, positions: dict[str, Position] | None = None, **options: Any
) -> KafkaSource:
    properties = {"bootstrap.servers": bootstrap, **options.pop("properties", {})}
    secret = options.pop("secret", lambda value, key: value)
    settings = KafkaSettings(properties=properties, **options)
    source = KafkaSource(settings, positions or {}, clock=Clock(), secret=secret)
    OPENED.append(source)
    return source


def topic_of(broker: Broker, partitions: int = 1) -> str:
    name = f"t{os.getpid()}-{next(NAMES)}"
    broker.make_topic(name, partitions)
    return name


def numbered(start: int, stop: int, partition: int = 0) -> list[tuple[bytes, bytes, int]]:
    return [(b"k", b'{"n": %d}' % n, partition) for n in range(start, stop)]


def read_until(source: KafkaSource, done: Callable[[list[Batch]], bool]) -> list[Batch]:
    found: list[Batch] = []
    for _ in range(600):
        found += source.read(10_000, 0.05)
        if done(found):
            return found
    raise AssertionError(f"nothing more came: {source.status()}")


def messages(batches: list[Batch]) -> list[bytes]:
    return [message for batch in batches for message in batch.messages]


def having(number: int) -> Callable[[list[Batch]], bool]:
    return lambda found: len(messages(found)) >= number


def test_every_message_of_every_partition_in_its_order(broker: Broker) -> None:
    topic = topic_of(broker, 3)
    for partition in range(3):
        broker.send(topic, numbered(0, 2_000, partition))
    source = opened(broker.bootstrap, records=topic, stop_at_end=True)
    found = read_until(source, lambda _: source.finished)
    for partition in range(3):
        mine = [b for b in found if b.partition == f"kafka:{topic}/{partition}"]
        assert messages(mine) == [b'{"n": %d}' % n for n in range(2_000)]
        assert [place for b in mine for place in b.places] == list(range(2_000))
        assert mine[-1].next == {"offset": 2_000}
        stamps = [stamp for b in mine for stamp in b.times or ()]
        assert len(stamps) == 2_000
        assert min(stamps) > 1_700_000_000_000_000
    assert {status.lag for status in source.status()} == {0}


def test_positions_are_where_the_next_run_goes_on(broker: Broker) -> None:
    topic = topic_of(broker)
    broker.send(topic, numbered(0, 300))
    seen: list[bytes] = []
    positions: dict[str, Position] = {}
    for end in (300, 600, 900):
        source = opened(broker.bootstrap, positions, records=topic)
        batches = read_until(source, having(300))
        seen += messages(batches)
        positions = {batch.partition: batch.next for batch in batches}
        source.close()
        OPENED.remove(source)
        broker.send(topic, numbered(end, end + 300))
    assert seen == [b'{"n": %d}' % n for n in range(900)]


def test_two_topics_and_some_partitions(broker: Broker) -> None:
    predictions, labels = topic_of(broker, 2), topic_of(broker, 2)
    for topic in (predictions, labels):
        for partition in range(2):
            broker.send(topic, numbered(0, 5, partition))
    source = opened(
        broker.bootstrap, predictions=predictions, labels=labels, partitions=[1], stop_at_end=True
    )
    found = read_until(source, lambda _: source.finished)
    assert {(b.partition, b.kind) for b in found} == {
        (f"kafka:{predictions}/1", "predictions"),
        (f"kafka:{labels}/1", "labels"),
    }


def test_latest_begins_at_the_end(broker: Broker) -> None:
    if not broker.keeps_data:
        # Tansu's answer to "latest" is wrong for batches of several records.
        topic = topic_of(broker)
        source = opened(broker.bootstrap, records=topic, start="latest")
    else:
        topic = topic_of(broker)
        broker.send(topic, numbered(0, 50))
        source = opened(broker.bootstrap, records=topic, start="latest")
    read_until(source, lambda _: source.status()[0].lag == 0)
    broker.send(topic, numbered(50, 53))
    assert messages(read_until(source, having(3))) == [b'{"n": %d}' % n for n in (50, 51, 52)]


def test_what_is_no_record_passes_as_it_is_and_a_tombstone_is_bad(broker: Broker) -> None:
    topic = topic_of(broker)
    large = b"x" * 900_000
    broker.send(topic, [(b"k", b"\xff\x00", 0), (b"k", None, 0), (None, large, 0), (None, b"", 0)])
    source = opened(broker.bootstrap, records=topic, stop_at_end=True)
    found = read_until(source, lambda _: source.finished)
    assert messages(found) == [b"\xff\x00", large, b""]
    (bad,) = [event for batch in found for event in batch.bad]
    assert (bad.place, bad.reason) == (1, "record")
    assert found[-1].next == {"offset": 4}


def test_a_missing_topic_is_waited_for(broker: Broker) -> None:
    topic = f"late{os.getpid()}"
    source = opened(broker.bootstrap, records=topic)
    for _ in range(3):
        assert source.read(10, 0.05) == []
    (status,) = source.status()
    assert status.partition == f"kafka:{topic}"
    assert "waiting for the topic to be made" in status.problem
    broker.make_topic(topic)
    broker.send(topic, numbered(0, 5))
    assert len(messages(read_until(source, having(5)))) == 5
    assert [status.problem for status in source.status()] == [""]


def test_a_broker_that_is_down_at_the_start(tansu: Tansu) -> None:
    tansu.stop()
    source = opened(f"127.0.0.1:{tansu.port}", records="t")
    assert source.read(10, 0.05) == []
    (status,) = source.status()
    assert "no broker answers" in status.problem
    tansu.start()
    tansu.broker.make_topic("t")
    tansu.broker.send("t", numbered(0, 5))
    assert len(messages(read_until(source, having(5)))) == 5


@pytest.mark.parametrize("policy", ["stop", "earliest", "latest"])
def test_a_broker_that_comes_back_without_its_data(tansu: Tansu, policy: str) -> None:
    bootstrap = tansu.broker.bootstrap
    tansu.broker.make_topic("t")
    tansu.broker.send("t", numbered(0, 50))
    source = opened(bootstrap, records="t", out_of_range=policy)
    read_until(source, having(50))
    tansu.stop()
    tansu.start()
    tansu.broker.make_topic("t")
    tansu.broker.send("t", numbered(100, 103))
    if policy == "stop":
        with pytest.raises(SourceError, match=r"kafka:t/0: expected to read on at offset 50"):
            read_until(source, lambda _: False)
        return
    if policy == "earliest":
        assert messages(read_until(source, having(3))) == [
            b'{"n": %d}' % n for n in (100, 101, 102)
        ]
    else:
        read_until(source, lambda _: "went on at offset" in source.status()[0].problem)


def test_partitions_that_are_added_are_found(broker: Broker) -> None:
    topic = topic_of(broker)
    broker.send(topic, numbered(0, 5))
    source = opened(broker.bootstrap, records=topic)
    read_until(source, having(5))
    if not broker.keeps_data:
        pytest.skip("NOT TESTED: Tansu adds no partitions; `make test-kafka` tests it")
    broker.admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    # The answer comes before every part of the broker knows of it.
    for _ in range(1_000):
        if len(broker.admin.list_topics(topic, timeout=10).topics[topic].partitions) == 2:
            break
    broker.send(topic, numbered(5, 10, 1))
    found = read_until(source, having(5))
    assert {batch.partition for batch in found} == {f"kafka:{topic}/1"}
    assert messages(found)[0] == b'{"n": 5}'


@pytest.mark.parametrize("policy", ["stop", "earliest"])
def test_retention_that_has_passed_a_position(broker: Broker, policy: str) -> None:
    if not broker.keeps_data:
        pytest.skip("NOT TESTED: Tansu deletes no records; `make test-kafka` tests it")
    topic = topic_of(broker)
    broker.send(topic, numbered(0, 100))
    deleted = broker.admin.delete_records([TopicPartition(topic, 0, 60)])
    next(iter(deleted.values())).result(30)
    stored: dict[str, Position] = {f"kafka:{topic}/0": {"offset": 20}}
    source = opened(broker.bootstrap, stored, records=topic, out_of_range=policy)
    if policy == "stop":
        with pytest.raises(SourceError, match=r"at offset 20, the broker has 60 to 100"):
            read_until(source, lambda _: False)
        return
    assert messages(read_until(source, having(40)))[0] == b'{"n": 60}'


def test_a_group_is_told_only_where_one_is_named(broker: Broker) -> None:
    topic = topic_of(broker)
    broker.send(topic, numbered(0, 5))
    source = opened(broker.bootstrap, records=topic, properties={"group.id": f"g-{topic}"})
    (batch,) = read_until(source, having(5))[-1:]
    source.checkpointed({batch.partition: batch.next})
    place = TopicPartition(topic, 0)
    for _ in range(100):
        (told,) = source._consumer.committed([place], timeout=10)
        if told.offset == 5:
            break
        source.read(10, 0.05)
    assert told.offset == 5


def test_secrets_are_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[tuple[str, str]] = []

    def secret(value: str, key: str) -> str:
        asked.append((value, key))
        return "hunter2-hunter2"

    options = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "env:PASSWORD",
    }
    with caplog.at_level(logging.DEBUG):
        source = opened(f"127.0.0.1:{free_port()}", records="t", properties=options, secret=secret)
        source.read(10, 0.05)
        shown = repr(source.status()) + caplog.text
        with pytest.raises(ConfigError) as error:
            opened("x:1", records="t", properties={"broker.address.ttl": "env:P"}, secret=secret)
    assert asked[0] == ("env:PASSWORD", "kafka.properties.sasl.password")
    assert "hunter2" not in shown
    assert "hunter2" not in str(error.value)
    assert "kafka.properties" in str(error.value)


def test_a_broker_that_recovers_is_given_time_before_its_range_counts() -> None:
    now = 0.0
    source = KafkaSource(
        KafkaSettings(records="t", properties={"bootstrap.servers": f"127.0.0.1:{free_port()}"}),
        {},
        clock=lambda: now,
    )
    try:
        partition = _Partition("t", 0, "records", next=100)
        # In range again when it is asked: a crash had set the high watermark back.
        assert source._may_be_recovering(partition, 0, 100)
        assert not source._may_be_recovering(partition, 101, 200)  # retention has passed it
        assert source._may_be_recovering(partition, 0, 99)
        assert "waiting for offset 100" in partition.problem
        now = 2.0
        assert source._may_be_recovering(partition, 0, 99)
        now = 4.0
        assert not source._may_be_recovering(partition, 0, 99)
        assert source._may_be_recovering(partition, 0, 120)
        assert source._may_be_recovering(partition, 0, 99)  # another crash, another wait
    finally:
        source.close()
