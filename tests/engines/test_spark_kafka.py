"""Predictions and delayed labels from Kafka, joined by Spark, evaluated by windows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import streameval as se
from tests.support.brokers import Broker, running_broker
from tests.support.maven import AbsentError, fetch

pytestmark = [pytest.mark.slow, pytest.mark.broker]

pytest.importorskip("pyspark", reason="NOT TESTED: Spark is not installed")

CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{metadata.version('pyspark')}"
"""Of Spark's own version."""
HOME = Path(__file__).parents[2] / "build" / "spark-kafka"
NEEDED = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
"""The jars that Spark itself has not."""

HOUR = 3600
START = 1_700_000_000 // HOUR * HOUR

DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"

DRIVER = """
import sys
from pathlib import Path
from tests.support.spark_sessions import session

bootstrap, directory, jars = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
spark = session(
    "local[2]",
    directory / "spark",
    **{"spark.jars": jars, "spark.sql.shuffle.partitions": "1"},
)
out, checkpoint = str(directory / "out"), str(directory / "checkpoint")
EXAMPLE
query.processAllAvailable()
query.stop()
"""


def example() -> str:
    """The program of the document's section on Kafka."""
    section = DOCUMENT.read_text("utf-8").partition("## Kafka")[2]
    return section.partition("```python\n")[2].partition("```")[0]


def send(broker: Broker, topic: str, values: list[dict[str, object]]) -> None:
    # One by one: of a batch of several records Tansu reports a wrong end.
    for value in values:
        broker.send(topic, [(str(value["id"]).encode(), json.dumps(value).encode(), -1)])


def iso(second: int) -> str:
    return se.events.time.iso_time((START + second) * 10**6)


def test_labels_that_arrive_later_are_joined(tmp_path: Path) -> None:
    try:
        folder = fetch(CONNECTOR, HOME)
    except AbsentError as error:
        pytest.skip(f"NOT TESTED with Spark's Kafka connector: {error}")
    jars = ",".join(str(path) for path in folder.iterdir() if path.name.startswith(NEEDED))
    one = {hour: se.Evaluator(metrics=["roc_auc"]) for hour in range(8)}
    with running_broker() as broker:
        for topic in ("predictions", "labels"):
            broker.make_topic(topic)
        predictions, labels = [], []
        for number in range(24):
            at, truth, score = number * 600, number % 3 == 0, (number * 7 % 10) / 10
            predictions.append({"id": number, "at": iso(at), "score": score})
            if number % 5 == 4:
                continue  # its label never arrives
            labels.append({"id": number, "labelled_at": iso(at + 1800), "label": int(truth)})
            one[at // HOUR].update(truth, score=score)
        driver = DRIVER.replace("EXAMPLE", example())
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            driver,
            broker.bootstrap,
            str(tmp_path),
            jars,
        ]
        # Two runs on one checkpoint: labels of the first predictions are read by the second.
        send(broker, "predictions", predictions)
        send(broker, "labels", labels[:5])
        assert subprocess.run(command, env=os.environ).returncode == 0
        send(broker, "labels", labels[5:])
        # An hour is emitted when predictions and labels of a later time have arrived.
        late = {"id": 99, "at": iso(30 * HOUR), "score": 0.5}
        send(broker, "predictions", [late])
        send(broker, "labels", [{"id": 99, "labelled_at": iso(31 * HOUR), "label": 1}])
        assert subprocess.run(command, env=os.environ).returncode == 0
    import pyarrow.parquet as parquet

    rows = parquet.read_table(tmp_path / "out").to_pylist()
    states = {int(row["window"]["start"].timestamp() - START) // HOUR: row["state"] for row in rows}
    assert states == {hour: one[hour].to_bytes() for hour in range(4)}
