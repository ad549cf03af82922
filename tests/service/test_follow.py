"""Following a store: what is published equals what the run itself publishes."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streameval.events.time import wall_time
from streameval.service.config.evaluators import fingerprint, with_stored_defaults
from streameval.service.config.load import settings_from_text
from streameval.service.config.settings import RunSettings
from streameval.service.decode.decoder import RecordDecoder
from streameval.service.join.label_join import open_join
from streameval.service.publish.snapshot import Kind, Publisher, Snapshot
from streameval.service.run.loop import ReadLoop
from streameval.service.run.store_reader import StoreReader
from streameval.service.run.unit import Unit
from streameval.service.run.worker import Runner
from streameval.service.sources.raw import LagUnit, PartitionStatus, Position, RawBatch
from streameval.service.store import state_rows
from streameval.service.store.fingerprints import changed_settings
from streameval.service.store.kept_settings import keep_settings, kept_settings
from streameval.service.store.state_rows import merged_windows
from streameval.service.store.store import open_store, read_store

BINARY = """
store = "run.db"
intervals = false
[evaluator]
metrics = ["accuracy", "f1", "roc_auc", "log_loss"]
slices = ["country", ["country", "device"]]
[[window]]
name = "all"
[[window]]
name = "recent"
length = "1h"
pane = "5m"
[[window]]
name = "day"
length = "1d"
pane = "1h"
[fields]
score = "score"
time = "time"
[files]
records = ["events.jsonl"]
[checkpoint]
every = "1h"
events = 5
[quarantine]
keep = 5
[[alert]]
name = "low"
metric = "accuracy"
below = 0.99
[[alert]]
name = "slow"
metric = "f1"
below = 0.99
slice = { country = "PT" }
for = "1h"
"""
MULTICLASS = """
store = "run.db"
intervals = false
[evaluator]
task = "multiclass"
metrics = ["accuracy", "matthews_corrcoef"]
slices = ["country"]
[[window]]
name = "fading"
half_life = "1h"
[[window]]
name = "recent"
length = "1h"
pane = "5m"
[fields]
y_true = "y_class"
y_pred = "y_pred"
time = "time"
[files]
records = ["events.jsonl"]
[checkpoint]
every = "1h"
events = 5
"""
JOINED = BINARY.replace(
    'records = ["events.jsonl"]', 'predictions = ["p.jsonl"]\nlabels = ["l.jsonl"]'
).replace("[fields]", '[join]\nwait = "1h"\n[fields]\nid = "id"')
MODELS = (
    JOINED.replace('score = "score"', 'score = { champion = "score", challenger = "other" }')
    .replace(
        '["country", ["country", "device"]]', '["country"]\nmodels = ["champion", "challenger"]'
    )
    .replace('slice = { country = "PT" }\n', "")
)


def write_events(count: int, seed: int = 3) -> None:
    """Events as complete records, and as predictions and labels, some of which are corrected."""
    rng = random.Random(seed)
    events, predictions, labels = [], [], []
    for number in range(count):
        truth = rng.random() < 0.4
        row = {
            "id": f"e{number}",
            "score": round(min(1.0, max(0.0, rng.gauss(0.6 if truth else 0.4, 0.2))), 3),
            "other": round(min(1.0, max(0.0, rng.gauss(0.7 if truth else 0.4, 0.2))), 3),
            "y_pred": rng.choice("abc"),
            "y_class": rng.choice("abc"),
            "time": f"2026-01-01T{number // 60 % 24:02}:{number % 60:02}:00Z",
            "country": rng.choice(["PT", "DE"]),
            "device": rng.choice(["phone", "tv"]),
        }
        predictions.append(row)
        label = {"id": row["id"], "y_true": truth, "time": row["time"]}
        labels += [{**label, "y_true": not truth}] * (number % 9 == 0) + [label]
        events.append({**row, "y_true": truth})
        if number % 100 == 7:
            events.append({"y_true": "neither", "score": 2})
    for name, rows in (("events", events), ("p", predictions), ("l", labels)):
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


class Pieces:
    """A source of the lines of files, a few from one partition at a time.

    So there are many checkpoints, and rows of states are merged.
    """

    lag_unit: LagUnit = "records"

    def __init__(self, settings: RunSettings, positions: Mapping[str, Position]) -> None:
        assert settings.files is not None
        kinds: dict[Kind, list[str]] = {
            "records": settings.files.records,
            "predictions": settings.files.predictions,
            "labels": settings.files.labels,
        }
        self.lists = {
            f"{kind}/{number}": (kind, Path(name).read_bytes().splitlines()[number::2])
            for kind, names in kinds.items()
            for name in names
            for number in range(2)
        }
        self.offsets = {
            name: int(positions.get(name, {"offset": 0})["offset"]) for name in self.lists
        }

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        name = min(self.offsets, key=self.offsets.__getitem__)
        kind, lines = self.lists[name]
        start = self.offsets[name]
        taken = lines[start : start + 5]
        self.offsets[name] = end = start + len(taken)
        return [RawBatch(name, kind, taken, range(start, end), {"offset": end})] * bool(taken)

    def checkpointed(self, positions: Mapping[str, Position]) -> None: ...

    def status(self) -> list[PartitionStatus]:
        return [
            PartitionStatus(name, {"offset": offset}, len(self.lists[name][1]) - offset)
            for name, offset in self.offsets.items()
        ]

    def close(self) -> None: ...

    @property
    def finished(self) -> bool:
        return all(offset == len(self.lists[name][1]) for name, offset in self.offsets.items())


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def running(
    settings: RunSettings, seen: Callable[[Snapshot], None] = lambda snapshot: None
) -> Iterator[Runner]:
    """A run of all files; calls ``seen`` with each snapshot that it publishes."""
    publisher = Publisher()
    published = publisher.publish

    def publish(snapshot: Snapshot) -> None:
        published(snapshot)
        seen(snapshot)

    publisher.publish = publish  # type: ignore[method-assign]
    store = open_store(settings.store, fingerprint(settings))
    try:
        settings = with_stored_defaults(settings, {})
        keep_settings(store, settings)
        decoder = RecordDecoder(settings.fields, settings.evaluator, settings.join is not None)
        join = open_join(settings, store, time.monotonic, wall_time)
        # With a clock that stands still every part of a snapshot is current.
        runner = Runner(
            Unit(settings, store, decoder, join=join), publisher, ReadLoop(settings, lambda: 1.0)
        )
        runner.run([Pieces(settings, runner.positions)])
        yield runner
    finally:
        store.close()


def run(settings: RunSettings, seen: Callable[[Snapshot], None] = lambda snapshot: None) -> Runner:
    with running(settings, seen) as runner:
        return runner


_UNKNOWN = {"late": None, "lag": None, "lag_unit": None, "seconds": None}
_OWN = {"sequence", "at", "as_of", "interval_as_of"}


def comparable(data: Any) -> Any:
    """A snapshot without what only the process that counts knows, and the times of publishing."""
    if isinstance(data, Mapping):
        checkpoint = {"sequence"} if "seconds" in data else set()
        return {
            key: _UNKNOWN[key] if key in _UNKNOWN else comparable(value)
            for key, value in data.items()
            if key not in _OWN or key in checkpoint
        }
    return [comparable(one) for one in data] if isinstance(data, list) else data


def described(snapshot: Snapshot | None) -> Any:
    assert snapshot is not None
    data = msgspec.to_builtins(snapshot)
    # Partitions of which nothing was read are in no store.
    data["partitions"] = [one for one in data["partitions"] if one["position"] is not None]
    return comparable(data)


def follower(settings: RunSettings) -> tuple[StoreReader, Publisher]:
    publisher = Publisher()
    of = partial(kept_settings, settings.store)
    return StoreReader(settings.store, of, publisher, clock=lambda: 1.0), publisher


@pytest.mark.parametrize("config", [BINARY, MULTICLASS, JOINED, MODELS])
def test_a_follower_publishes_what_the_run_publishes(
    config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Rows are merged soon.
    monkeypatch.setattr(state_rows, "_MANY_ROWS", 4)
    write_events(45)
    settings = settings_from_text(config)
    found: list[tuple[StoreReader, Publisher]] = []
    looks = 0

    def compare(snapshot: Snapshot) -> None:
        # Not at each checkpoint: several rows are new, or were merged in the meantime.
        nonlocal looks
        looks += 1
        # Before the first checkpoint the time of the last one is that of the start.
        if looks % 4 or snapshot.checkpoint.sequence == 0:
            return
        if not found:
            found.append(follower(settings))
        following, publisher = found[0]
        following.read()
        mine, theirs = described(publisher.current()), described(snapshot)
        # The store has the states of alerts as of the checkpoint, before they were judged again.
        for one in (mine, theirs):
            for alert in one["alerts"]:
                alert.pop("state"), alert.pop("since")
        # Not ==: pytest would explain a difference for minutes.
        assert [*changed_settings("", mine, theirs)] == []

    with running(settings, compare) as runner:
        assert looks > 8
        following, publisher = found[0]
        following.read()
        last, own = publisher.current(), runner._publisher
        assert own is not None
        assert [*changed_settings("", described(last), described(own.current()))] == []
        assert [alert.state for alert in last.alerts if last] in (["firing", "pending"], [])
        with closing(read_store(settings.store)) as store:
            expected = merged_windows(store.connection)
        for window, evaluator in following._states.evaluators.items():
            assert evaluator.to_bytes() == expected[window].to_bytes()
    following.close()
