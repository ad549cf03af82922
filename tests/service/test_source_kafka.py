"""The Kafka source against a real broker: every message once, and failures in words."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewPartitions

from streameval.errors import ConfigError, SourceError
from streameval.service.config.settings import FieldSettings, RunSettings
from streameval.service.config.source_settings import KafkaSettings
from streameval.service.sources import open_source
from streameval.service.sources.kafka_client import KafkaProperties
from streameval.service.sources.kafka_consumer import KafkaSource, Partition, is_known
from streameval.service.sources.raw import Position, RawBatch, Source, SourceContext
from tests.support import run
from tests.support.apache_kafka import ApacheKafka, running_kafka
from tests.support.brokers import Broker, Tansu, free_port, running_broker, running_tansu

pytestmark = pytest.mark.broker

NAMES = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as found:
        yield found


@pytest.fixture
def tansu() -> Iterator[Tansu]:
    with running_tansu() as started:
        yield started


@pytest.fixture
def apache(broker: Broker, tmp_path: Path) -> Iterator[ApacheKafka]:
    """A node of the test's own, to be killed."""
    if not broker.keeps_data:
        pytest.skip("NOT TESTED: Tansu forgets all when killed; `make test-kafka` tests it")
    with running_kafka(tmp_path) as started:
        if started is None:
            pytest.skip("NOT TESTED: a broker that is killed and keeps its data")
        yield started


class Clock:
    """Each look at it is a quarter of a second later, so that nothing waits for long."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


OPENED = ExitStack()


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    with OPENED:
        yield


def opened(
    bootstrap: str, positions: dict[str, Position] | None = None, **options: Any
) -> KafkaSource:
    properties = {"bootstrap.servers": bootstrap, **options.pop("properties", {})}
    secret = options.pop("secret", lambda value, key: value)
    settings = KafkaSettings(properties=properties, **options)
    source = KafkaSource(settings, positions or {}, clock=Clock(), secret=secret)
    return OPENED.enter_context(closing(source))


def topic_of(broker: Broker, partitions: int = 1) -> str:
    name = f"t{os.getpid()}-{next(NAMES)}"
    broker.make_topic(name, partitions)
    return name


def numbered(start: int, stop: int, partition: int = 0) -> list[tuple[bytes, bytes, int]]:
    return [(b"k", b'{"n": %d}' % n, partition) for n in range(start, stop)]


def read_until(source: Source, done: Callable[[list[RawBatch]], bool]) -> list[RawBatch]:
    found: list[RawBatch] = []
    for _ in range(600):
        found += source.read(10_000, 0.05)
        if done(found):
            return found
    raise AssertionError(f"nothing more came: {source.status()}")


def messages(batches: list[RawBatch]) -> list[bytes]:
    return [message for batch in batches for message in batch.messages]


def having(number: int) -> Callable[[list[RawBatch]], bool]:
    return lambda found: len(messages(found)) >= number


def test_every_message_of_every_partition_in_its_order_over_three_runs(broker: Broker) -> None:
    topic = topic_of(broker, 3)
    found: list[RawBatch] = []
    positions: dict[str, Position] = {}
    for start in (0, 700, 1_400):
        for partition in range(3):
            broker.send(topic, numbered(start, start + 700, partition))
        source = opened(broker.bootstrap, positions, records=topic, stop_at_end=True)
        found += read_until(source, lambda _: source.finished)  # noqa: B023
        positions |= {batch.partition: batch.next for batch in found}
        assert {status.lag for status in source.status()} == {0}
        OPENED.close()
    for partition in range(3):
        mine = [b for b in found if b.partition == f"kafka:{topic}/{partition}"]
        assert messages(mine) == [b'{"n": %d}' % n for n in range(2_100)]
        assert [place for b in mine for place in b.places] == list(range(2_100))
        assert mine[-1].next == {"offset": 2_100}
        stamps = [stamp for b in mine for stamp in np.asarray(b.times)]
        assert (len(stamps), min(stamps) > 1_700_000_000_000_000) == (2_100, True)


def test_two_topics_and_some_partitions(broker: Broker) -> None:
    topics = {"predictions": topic_of(broker, 2), "labels": topic_of(broker, 2)}
    for topic in topics.values():
        for partition in range(2):
            broker.send(topic, numbered(0, 5, partition))
    options: dict[str, Any] = {**topics, "partitions": [1], "stop_at_end": True}
    settings = KafkaSettings(**options, properties={"bootstrap.servers": broker.bootstrap})
    context = SourceContext({}, lambda value, key: value, stamps=True, inbox=Path())
    source = OPENED.enter_context(closing(open_source(settings, context)))
    found = read_until(source, lambda _: source.finished)
    wanted = {(f"kafka:{topic}/1", kind) for kind, topic in topics.items()}
    assert {(b.partition, b.kind) for b in found} == wanted


def test_latest_begins_at_the_end(broker: Broker) -> None:
    topic = topic_of(broker)
    for n in range(50 * broker.keeps_data):  # Tansu's answer to "latest" is wrong after others
        broker.send(topic, numbered(n, n + 1))
    source = opened(broker.bootstrap, records=topic, start="latest")
    read_until(source, lambda _: source.status()[0].lag == 0)
    broker.send(topic, numbered(50, 53))
    assert messages(read_until(source, having(3))) == [b'{"n": %d}' % n for n in (50, 51, 52)]


def test_the_lag_is_what_is_there_and_not_read(broker: Broker) -> None:
    topic = topic_of(broker)
    broker.send(topic, numbered(0, 500))
    source = opened(broker.bootstrap, records=topic)
    read = 0
    while read < 500:
        read += len(messages(source.read(100, 0.05)))
        if read:
            assert source.status()[0].lag == 500 - read
            assert source.status()[0].position == {"offset": read}
    assert not source.finished  # stop_at_end is not set


def test_partitions_that_are_not_there_are_waited_for(broker: Broker) -> None:
    topic = topic_of(broker)
    broker.send(topic, numbered(0, 5))
    source = opened(broker.bootstrap, records=topic, partitions=[0, 5], stop_at_end=True)
    read_until(source, having(5))
    read_until(source, lambda _: source.status()[-1].lag == 0)
    assert source.status()[0].problem == "waiting for partitions [5] to be made"
    assert not source.finished


def lost(tansu: Tansu, options: dict[str, Any]) -> tuple[Broker, str, KafkaSource]:
    """A source that has read 50 records of a broker that forgets them, and has three others."""
    tansu.broker.make_topic("t")
    tansu.broker.send("t", numbered(0, 50))
    source = opened(tansu.broker.bootstrap, records="t", **options)
    read_until(source, having(50))
    tansu.stop()
    tansu.start()
    tansu.broker.make_topic("t")
    for n in range(100, 103):
        tansu.broker.send("t", numbered(n, n + 1))
    return tansu.broker, "t", source


# What is stored, the first and the end of what is there, and what is said of it.
OUT_OF_RANGE = {
    "not reached": (70, 0, 10, "at offset 70, the broker has 0 to 10"),
    "deleted": (20, 60, 100, "at offset 20, the broker has 60 to 100"),
    "lost": (50, 100, 103, "at offset 50"),
}


@pytest.mark.parametrize("policy", ["stop", "earliest", "latest"])
@pytest.mark.parametrize("way", OUT_OF_RANGE)
def test_a_position_that_the_broker_does_not_have(
    broker: Broker, way: str, policy: str, request: pytest.FixtureRequest
) -> None:
    stored, first, stop, told = OUT_OF_RANGE[way]
    options = {"out_of_range": policy}
    if way == "lost":
        broker, topic, source = lost(request.getfixturevalue("tansu"), options)
    else:
        topic = topic_of(broker)
        for n in range(stop):
            # One by one: Tansu counts a batch as one record in some of its answers.
            broker.send(topic, numbered(n, n + 1))
        if way == "deleted":
            if not broker.keeps_data:
                pytest.skip("NOT TESTED: Tansu deletes no records; `make test-kafka` tests it")
            deleted = broker.admin.delete_records([TopicPartition(topic, 0, first)])
            next(iter(deleted.values())).result(30)
        place: dict[str, Position] = {f"kafka:{topic}/0": {"offset": stored}}
        source = opened(broker.bootstrap, place, records=topic, **options)
    told = f"kafka:{topic}/0: expected to read on {told}"
    if policy == "stop":
        with pytest.raises(SourceError, match=told + '.*; set kafka.out_of_range to "earliest"'):
            read_until(source, lambda _: False)
        return
    if policy == "latest":
        if way == "not reached":  # stored before any message
            (batch,) = read_until(source, bool)
            assert (batch.messages, batch.next) == ([], {"offset": stop})
        read_until(source, lambda _: "went on at offset" in source.status()[0].missed)
        read_until(source, lambda _: source.status()[0].lag == 0)
        broker.send(topic, numbered(stop, stop + 1))
        first, stop = stop, stop + 1
    found = read_until(source, having(stop - first))
    assert messages(found) == [b'{"n": %d}' % n for n in range(first, stop)]
    # It is still said, after what was read since.
    (status,) = source.status()
    assert status.problem == ""
    assert "went on at offset" in status.missed
    assert f"expected to read on at offset {stored}" in status.missed


def test_a_broker_that_is_killed_and_keeps_its_data(apache: ApacheKafka) -> None:
    broker = Broker(apache.bootstrap, keeps_data=True)
    broker.make_topic("t", 2)
    source = opened(apache.bootstrap, records="t")
    found: list[RawBatch] = []
    for life in range(3):
        for partition in range(2):
            broker.send("t", numbered(life * 500, (life + 1) * 500, partition))
        if life == 1:
            # Killed with all of it unread.
            apache.kill()
            for _ in range(20):
                found += source.read(10_000, 0.05)
            apache.start()
        found += read_until(source, lambda new: len(messages(found + new)) == 1_000 * (life + 1))  # noqa: B023
        if life == 0:
            apache.kill()
            apache.start()
    for partition in range(2):
        mine = [batch for batch in found if batch.partition == f"kafka:t/{partition}"]
        assert messages(mine) == [b'{"n": %d}' % n for n in range(1_500)]


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
    # It is new, so that it is read from its beginning all the same.
    source = opened(broker.bootstrap, records=topic, start="latest")
    for _ in range(3):
        assert messages(source.read(10, 0.05)) == []
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


@pytest.mark.parametrize(("start", "running"), [("earliest", True), ("latest", False)])
def test_partitions_that_are_added_are_found(broker: Broker, start: str, running: bool) -> None:
    topic = topic_of(broker)
    broker.send(topic, numbered(0, 5))
    source = opened(broker.bootstrap, records=topic, start=start)
    batch = read_until(source, bool)[-1]
    if not broker.keeps_data:
        pytest.skip("NOT TESTED: Tansu adds no partitions; `make test-kafka` tests it")
    broker.admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    # The answer comes before every part of the broker knows of it.
    for _ in range(1_000):
        if len(broker.admin.list_topics(topic, timeout=10).topics[topic].partitions) == 2:
            break
    broker.send(topic, numbered(5, 10, 1))
    if not running:
        OPENED.close()
        source = opened(broker.bootstrap, {batch.partition: batch.next}, records=topic, start=start)
    found = [b for b in read_until(source, having(5)) if b.messages]
    assert {batch.partition for batch in found} == {f"kafka:{topic}/1"}
    assert messages(found)[0] == b'{"n": 5}'


@pytest.mark.parametrize("named", [True, False])
def test_a_group_is_committed_to_only_where_one_is_named(broker: Broker, named: bool) -> None:
    topic = topic_of(broker)
    broker.send(topic, numbered(0, 5))
    group = f"g-{topic}" if named else "streameval"
    properties = {"group.id": group} if named else {}
    source = opened(broker.bootstrap, records=topic, properties=properties)
    batch = read_until(source, having(5))[-1]
    source.checkpointed({batch.partition: batch.next})
    OPENED.close()  # what is on its way is sent first
    other = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    (told,) = other.committed([TopicPartition(topic, 0)], timeout=10)
    other.close()
    assert told.offset == 5 if named else told.offset < 0


@pytest.mark.parametrize(
    ("key", "times"),
    [
        *(("broker.address.ttl", 1), ("security.protocol", 300)),
        *(("ssl.key.pem", 1), ("ssl.certificate.pem", 300)),
    ],
)
def test_a_refused_value_of_a_secret_is_not_shown(key: str, times: int) -> None:
    # A key is looked at only where TLS is on; what is long librdkafka cuts.
    properties = {"security.protocol": "SSL", key: "env:P"}
    with pytest.raises(ConfigError, match=r"^kafka\.properties: ") as error:
        opened("x:1", records="t", properties=properties, secret=lambda *_: "hunter2" * times)
    assert "hunter" not in str(error.value)


def test_secrets_are_taken_out_of_every_text() -> None:
    given = {
        "sasl.password": "pass",
        "ssl.keystore.password": "env:LONG",
        "ssl.key.pem": "-----BEGIN-----\nabcdefghijkl\n-----END-----",
        "sasl.oauthbearer.client.secret": "written-in-the-file",
    }
    told = KafkaProperties(given, lambda value, key: "a-pass-phrase")
    assert told.scrubbed("got a-pass-phrase here") == "got *** here"
    assert told.scrubbed("bad line abcdefghijkl.") == "bad line ***."
    assert told.scrubbed("got written-in-the-file, and pass") == "got ***, and ***"
    assert told.scrubbed("cut: a-pass-phr") == "cut: ***"
    assert told.scrubbed("a\nb\x1b") == "a\\nb\\x1b"
    assert len(told.scrubbed("x" * 5_000)) == 300


@pytest.mark.parametrize("answers", [True, False])
def test_secrets_are_never_shown(
    broker: Broker, caplog: pytest.LogCaptureFixture, answers: bool
) -> None:
    asked: list[tuple[str, str]] = []

    def secret(value: str, key: str) -> str:
        asked.append((value, key))
        return "hunter2-hunter2"

    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256" if answers else "PLAIN",
        "sasl.username": "u",
        "sasl.password": "env:PASSWORD",
    }
    where = broker.bootstrap if answers else f"127.0.0.1:{free_port()}"
    with caplog.at_level(logging.DEBUG):
        source = opened(where, records="t", properties=properties, secret=secret)
        read_until(source, lambda _: "no broker answers" in source.status()[0].problem)
    assert asked[0] == ("env:PASSWORD", "kafka.properties.sasl.password")
    assert "hunter2" not in repr(source.status()) + caplog.text


def test_a_broker_that_recovers_is_given_time_before_its_range_counts() -> None:
    partition = Partition("t", 0, next=100)
    # In range again when it is asked: a crash had set the high watermark back.
    assert partition.may_be_recovering(0, 100, 0.0)
    assert not partition.may_be_recovering(101, 200, 0.0)  # retention has passed it
    assert partition.may_be_recovering(0, 99, 0.0)
    assert "waiting for offset 100" in partition.problem
    assert partition.may_be_recovering(0, 99, 2.0)
    assert not partition.may_be_recovering(0, 99, 4.0)
    assert partition.may_be_recovering(0, 120, 4.0)
    assert partition.may_be_recovering(0, 99, 4.0)  # another crash, another wait


def test_a_position_beyond_the_brokers_has_no_lag_and_no_end() -> None:
    partition = Partition("t", 0, next=100)
    partition.ended(100, 40)  # so says a broker that has lost the rest
    assert not partition.at_end
    assert partition.lag(40) is None
    assert partition.lag(140) == 40
    partition.ended(100, 100)
    assert partition.at_end
    assert partition.lag(100) == 0
    assert partition.may_be_recovering(0, 40, 0.0)
    assert not partition.at_end
    assert partition.lag(100) is None  # the broker's last answer was another


def test_a_topic_is_known_by_any_of_its_partitions() -> None:
    stored = ["kafka:a/1", "kafka:b/c/0", "files:/kafka:d/0"]
    known = [topic for topic in ("a", "b", "b/c", "d", "") if is_known(topic, stored)]
    assert known == ["a", "b/c"]


def test_a_topic_made_while_the_run_is_down_is_read_from_its_beginning(broker: Broker) -> None:
    topic = f"down{os.getpid()}-{next(NAMES)}"
    source = opened(broker.bootstrap, records=topic, start="latest")
    (batch,) = read_until(source, bool)
    assert (batch.partition, batch.next) == (f"kafka:{topic}/0", {"offset": 0})
    OPENED.close()
    broker.make_topic(topic, 2)
    broker.send(topic, numbered(0, 3) + numbered(3, 6, 1))
    again = opened(broker.bootstrap, {batch.partition: batch.next}, records=topic, start="latest")
    assert len(messages(read_until(again, having(6)))) == 6


def settings_of(directory: Path, **tables: Any) -> RunSettings:
    store = str(directory / "run.db")
    return RunSettings(store=store, fields=FieldSettings(score="score"), **tables)


def test_a_run_at_a_quiet_end_goes_on_there(broker: Broker, tmp_path: Path) -> None:
    topic = topic_of(broker)
    record = (None, b'{"score": 0.7, "y_true": 1}', 0)
    if broker.keeps_data:
        broker.send(topic, [record] * 2)
    options: dict[str, Any] = {"records": topic, "start": "latest", "stop_at_end": True}
    events = []
    for _ in range(3):
        with run.opened(settings_of(tmp_path, kafka=KafkaSettings(**options))) as one:
            one.runner.run([opened(broker.bootstrap, one.runner.positions, **options)])
            events.append(one.runner.events)
        broker.send(topic, [record] * 3)
    assert events == [0, 3, 6]


def test_what_was_missed_is_published_when_all_is_well_again(
    broker: Broker, tmp_path: Path
) -> None:
    topic = topic_of(broker)
    broker.send(topic, [(None, b'{"score": 0.7, "y_true": 1}', 0)])
    with run.opened(settings_of(tmp_path)) as one:
        stored: dict[str, Position] = {f"kafka:{topic}/0": {"offset": 70}}
        options = {"records": topic, "out_of_range": "earliest", "stop_at_end": True}
        one.runner.run([opened(broker.bootstrap, stored, **options)])
        assert one.runner.events == 1
    (row,) = one.data["partitions"]
    assert (row["position"], row["lag"], row["problem"]) == ({"offset": 1}, 0, "")
    assert "expected to read on at offset 70" in row["missed"]
