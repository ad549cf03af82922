"""A run of predictions and labels: read in turn, and one result wherever it was stopped."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.service.config.settings import RunSettings
from streameval.service.run.service import open_sources
from streameval.service.sources.interleaving import PairedSource
from streameval.service.sources.raw import Kind, PartitionStatus, Position, RawBatch
from tests.crash.kill_stream import stream
from tests.support.brokers import free_port
from tests.support.run import Lists, Partitions, Run, Scripted, opened, settings

METRICS = ["accuracy", "f1", "roc_auc", "log_loss"]
COUNTS = ("predictions", "labels", "joined", "waiting", "labels_waiting", "duplicate_predictions")
COUNTS += ("duplicate_labels", "corrected", "too_late")


def settings_in(directory: Path, name: str, **more: Any) -> RunSettings:
    hour = {"name": "hour", "length": "1h", "pane": "10m", "retain": "1d"}
    given: dict[str, Any] = {
        "store": str(directory / name),
        "intervals": False,
        "evaluator": {"slices": ["country"], "metrics": METRICS},
        "window": [{"name": "all"}, hour, {"name": "fading", "half_life": "30m"}],
        "fields": {"id": "id", "score": "score", "time": "time"},
        "join": {"wait": "3h", "remember": "1h", "hot": 60, "examples": 4},
        "checkpoint": {"events": 80},
    }
    return settings(**{**given, **more})


def partitions(seed: int, count: int) -> Partitions:
    """Three partitions of predictions and two of labels, each id's records in one of them."""
    found: Partitions = {}
    for line in stream(seed, count):
        number = sum(line.key.encode()) % (3 if line.kind == "predictions" else 2)
        name = f"{line.kind}/{number}"
        found.setdefault(name, (line.kind, []))[1].append(line.body)
    return found


def run(
    chosen: RunSettings, lists: Partitions, rng: random.Random, stop: int = 0
) -> tuple[Run, dict[str, Any]]:
    """One run to the end, or until so many reads; and what it published last."""
    with opened(chosen) as one:
        source = Lists(lists, one.runner.positions, rng, stop)
        one.runner.run([source])
        assert source.durable == one.runner.positions
        return one, one.data


def test_records_without_a_slice_value_count_in_the_total(tmp_path: Path) -> None:
    rng = random.Random(0)
    lists = {
        name: (kind, [_without_country(line, rng) for line in lines])
        for name, (kind, lines) in partitions(0, 160).items()
    }
    _, data = run(settings_in(tmp_path, "a.db"), lists, random.Random(1))
    plain = settings_in(tmp_path, "b.db", evaluator={"metrics": METRICS})
    _, without = run(plain, lists, random.Random(2))
    assert data["reports"] == without["reports"]
    assert data["join"]["corrected"] == without["join"]["corrected"] > 1
    assert data["quarantine"]["reasons"] == without["quarantine"]["reasons"]
    supports = {row["name"]: row["support"] for row in data["slices"]["all"]}
    assert sum(supports.values()) == data["reports"]["all"]["metrics"]["accuracy"]["support"]
    assert supports["country=(missing)"] > 40


def _without_country(line: bytes, rng: random.Random) -> bytes:
    with suppress(ValueError):
        record = json.loads(line)
        choice = rng.random()
        if isinstance(record, dict) and choice < 0.5:
            if choice < 0.2:
                record.pop("country", None)
            elif "country" in record:
                record["country"] = None if choice < 0.4 else float("nan")
            return json.dumps(record).encode()
    return line


def test_one_result_wherever_it_was_ended(tmp_path: Path) -> None:
    lists = partitions(0, 200)
    rng = random.Random(0)
    whole, first = run(settings_in(tmp_path, "whole.db"), lists, rng)
    every = {"every": "1h", "events": rng.randrange(20, 60)}
    broken = settings_in(tmp_path, "broken.db", checkpoint=every)
    kills = 0
    while True:
        try:
            again, second = run(broken, lists, rng, stop=rng.randrange(6, 14))
            break
        except KeyboardInterrupt:
            kills += 1
    assert kills > 2
    assert again.states == whole.states
    assert again.runner.positions == whole.runner.positions
    for part in ("reports", "slices", "confusion", "curves", "labels", "examples"):
        assert second[part] == first[part]
    assert second["series"]["hour"]["metrics"] == first["series"]["hour"]["metrics"]
    assert [second["join"][name] for name in COUNTS] == [first["join"][name] for name in COUNTS]
    assert second["quarantine"]["reasons"] == first["quarantine"]["reasons"]
    assert first["join"]["corrected"] > 1
    assert first["checkpoint"]["events"] == first["join"]["joined"] + first["join"]["corrected"]
    assert again.runner.events == whole.runner.events
    # What was taken back is out again: each prediction counts once.
    assert whole.evaluators["all"].confusion.total == first["join"]["joined"]
    counted = whole.evaluators["all:predictions"]
    assert counted.total.support == first["join"]["predictions"]
    assert counted.total.support == sum(view.support for view in counted.slices().values())
    assert second["predictions"]["all"]["metrics"] == first["predictions"]["all"]["metrics"]


def test_what_cannot_be_taken_back_exactly_is_not_counted(tmp_path: Path) -> None:
    record = '{"id": %d, "score": 0.9, "y_true": 1, "time": %d, "w": %s, "country": "PT"}'
    lines = [record % (1, 5, 1), record % (2, 6, 1.5), record % (3, 7, 2)]
    lists: Partitions = {"a": ("records", [line.encode() for line in lines])}
    fields = {"id": "id", "score": "score", "time": "time", "time_unit": "s", "weight": "w"}
    one, data = run(settings_in(tmp_path, "run.db", fields=fields), lists, random.Random(0))
    assert one.evaluators["all"].confusion.total == 3
    (row,) = data["quarantine"]["recent"]
    assert row["detail"].startswith("weight: expected a whole number, so that a corrected label")
    # Of the record itself only what the join had is left.
    assert row["raw"] == '{"y_true":1,"time":6,"score":0.9,"w":1.5,"country":"PT"}'
    assert row["raw_bytes_cut"]


def test_an_alert_fires_once_and_is_remembered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "streameval")
    lists = partitions(1, 100)
    alert = {"name": "low", "metric": "accuracy", "below": 0.99, "slice": {"country": "<b>"}}
    for _ in range(2):
        _, data = run(settings_in(tmp_path, "run.db", alert=[alert]), lists, random.Random(0))
        (state,) = data["alerts"]
        assert (state["state"], state["slice"]) == ("firing", "country=<b>")
    told = [message for message in caplog.messages if "alert" in message]
    assert len(told) == 1
    assert told[0].startswith("alert firing: low: accuracy is 0.")


def test_topics_of_predictions_and_labels_are_read_in_turn(tmp_path: Path) -> None:
    server = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    topics = {"predictions": "p", "labels": "l", "properties": server}
    (source,) = open_sources(settings_in(tmp_path, "run.db", files=None, kafka=topics), {})
    told = [status.partition for status in source.status()]
    source.close()
    assert told == ["kafka:p", "kafka:l"]


# Two sources read as one, in the order in which the fewest labels wait


class Sizes(Scripted):
    """A source of batches of given sizes, one at each look; 0 is a look that finds nothing."""

    def __init__(self, kind: Kind, sizes: Sequence[int]) -> None:
        self.kind: Kind = kind
        self.sizes, self.given, self.closed = list(sizes), 0, False
        self.waited: list[float] = []
        self.told: list[Mapping[str, Position]] = []

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        self.waited.append(timeout)
        size = self.sizes.pop(0) if self.sizes else 0
        self.finished = not self.sizes
        if not size:
            return []
        places = range(self.given, self.given + size)
        self.given += size
        return [RawBatch(self.kind, self.kind, [b"{}"] * size, places, {"offset": self.given})]

    def checkpointed(self, positions: Mapping[str, Position]) -> None:
        self.told.append(positions)

    def status(self) -> list[PartitionStatus]:
        return [PartitionStatus(self.kind, {"offset": self.given}, None)]

    def close(self) -> None:
        self.closed = True
        if self.kind == "predictions":
            raise OSError("no longer there")


def pair(predictions: Sequence[int], labels: Sequence[int]) -> tuple[PairedSource, Sizes, Sizes]:
    first, second = Sizes("predictions", predictions), Sizes("labels", labels)
    return PairedSource(first, second), first, second


def test_labels_that_ran_ahead_wait_for_a_backlog_of_predictions() -> None:
    # The first look at the predictions finds nothing, as when the broker is slower to answer.
    source, predictions, labels = pair([0, *[5_000] * 12], [5_000] * 12)
    source.read(20_000, 0.0)
    assert (predictions.given, labels.given) == (0, 5_000)
    ahead = []
    for _ in range(11):
        source.read(20_000, 0.0)
        ahead.append(labels.given - predictions.given)
    assert (max(ahead), ahead[-1]) == (0, 0)


def test_labels_are_never_shut_out() -> None:
    # In a backlog they come as soon as as many predictions did.
    source, _, labels = pair([0, *[5_000] * 200], [500_000, *[5_000] * 200])
    for _ in range(100):
        source.read(20_000, 0.0)
    assert labels.given > 500_000 + 70 * 5_000


def test_larger_batches_of_labels_come_when_there_is_a_prediction_for_each() -> None:
    source, predictions, labels = pair([5_000] * 60, [6_000] * 50)
    ahead = []
    for _ in range(60):
        source.read(20_000, 0.0)
        ahead.append(predictions.given - labels.given)
    # The first batch shows how many records a read returns.
    assert ahead[0] == -1_000
    assert min(ahead[1:]) >= 0
    assert max(ahead) < 5_000 + 6_000


@given(
    st.lists(st.integers(0, 9_000), max_size=40),
    st.lists(st.integers(0, 9_000), max_size=40),
)
def test_all_is_read_once(predictions: list[int], labels: list[int]) -> None:
    source, _, _ = pair(predictions, labels)
    read = {"predictions": 0, "labels": 0}
    for _ in range(len(predictions) + 3 * len(labels) + 30):
        for batch in source.read(20_000, 0.1):
            read[batch.kind] += len(batch.messages)
    assert read == {"predictions": sum(predictions), "labels": sum(labels)}
    assert source.finished
    assert [status.partition for status in source.status()] == ["predictions", "labels"]


def test_the_wait_is_shared_and_only_where_there_is_nothing() -> None:
    source, predictions, labels = pair([10], [])
    source.read(20_000, 0.1)
    assert predictions.waited == labels.waited == [0.0]
    source.read(20_000, 0.1)
    assert predictions.waited == labels.waited == [0.0, 0.0, 0.05]


def test_both_are_reported_and_closed() -> None:
    source, predictions, labels = pair([], [])
    source.checkpointed({"x": {"offset": 1}})
    assert predictions.told == labels.told == [{"x": {"offset": 1}}]
    with pytest.raises(OSError, match="no longer there"):
        source.close()
    assert predictions.closed
    assert labels.closed
