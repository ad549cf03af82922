"""A run with late, doubled, corrected and bad records, stopped anywhere: one result."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from streameval.service.config.settings import RunSettings
from streameval.service.run.service import open_sources
from tests.crash.kill_stream import stream
from tests.support.brokers import free_port
from tests.support.run import Lists, Partitions, Run, opened, settings

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
    told = [record.getMessage() for record in caplog.records if "alert" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("alert firing: low: accuracy is 0.")


def test_topics_of_predictions_and_labels_are_read_in_turn(tmp_path: Path) -> None:
    server = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    topics = {"predictions": "p", "labels": "l", "properties": server}
    (source,) = open_sources(settings_in(tmp_path, "run.db", files=None, kafka=topics), {})
    told = [status.partition for status in source.status()]
    source.close()
    assert told == ["kafka:p", "kafka:l"]
