"""Apache Kafka for the tests: fetched with Maven, one node, started and stopped.

    python -m tests.support.apache_kafka             # the Kafka tests against it
    python -m tests.support.apache_kafka COMMAND...  # any command, with KAFKA_BOOTSTRAP set

Needs Java 17 and Maven. Where they are not there, or Maven cannot fetch it, it
says so in one line and ends well: the tests have run against Tansu anyway.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.brokers import Broker, free_port
from tests.support.maven import AbsentError, fetch

VERSION = "4.1.0"
HOME = Path(__file__).parents[2] / "build" / "kafka"


class ApacheKafka:
    """One node that is broker and controller; its data outlive :meth:`kill`."""

    def __init__(self, directory: Path) -> None:
        self._jars = fetch(f"org.apache.kafka:kafka_2.13:{VERSION}", HOME)
        self._directory = directory
        self.port, controller = free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._properties = directory / "server.properties"
        self._properties.write_text(
            f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={directory / "data"}
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
        )
        form = ("format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(self._properties))
        formatting = self._command("kafka.tools.StorageTool", *form)
        subprocess.run(formatting, check=True, capture_output=True, timeout=90)
        self.start()

    def _command(self, name: str, *arguments: str) -> list[str]:
        return ["java", "-Xmx512m", "-cp", f"{self._jars}/*", name, *arguments]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        path = self._directory / "kafka.log"
        with path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._properties)), stdout=log, stderr=log
            )
        Broker(self.bootstrap, keeps_data=True).wait(self._process, path)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()
        self._process.wait()


@contextmanager
def running_kafka(directory: Path) -> Iterator[ApacheKafka | None]:
    """A node for as long as the block lasts; None, and a line that says why, if there is none."""
    try:
        kafka = ApacheKafka(directory)
    except AbsentError as error:
        print(f"NOT TESTED against Apache Kafka: {error}")
        yield None
        return
    try:
        yield kafka
    finally:
        kafka.kill()


def main(command: list[str]) -> int:
    if not command:
        tests = ("tests/service/test_source_kafka.py", "tests/service/test_workers.py")
        command = [sys.executable, "-m", "pytest", "-q", *tests]
    with (
        tempfile.TemporaryDirectory(prefix="kafka-") as directory,
        running_kafka(Path(directory)) as kafka,
    ):
        if kafka is None:
            return 0
        print(f"Apache Kafka {VERSION} at {kafka.bootstrap}", flush=True)
        environment = {**os.environ, "KAFKA_BOOTSTRAP": kafka.bootstrap}
        code = subprocess.run(command, env=environment).returncode
    print(f"tested against Apache Kafka {VERSION}: {'passed' if code == 0 else 'FAILED'}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
