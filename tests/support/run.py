"""A stream, the configuration of a run of it, the run, and the evaluator that it must equal."""

from __future__ import annotations

import json
import os
import random
import resource
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

import streameval as se
from streameval.events.time import iso_time, wall_time
from streameval.service.config.evaluators import fingerprint
from streameval.service.config.load import settings_from_text
from streameval.service.config.settings import RunSettings
from streameval.service.decode.decoder import RecordDecoder
from streameval.service.join.label_join import open_join
from streameval.service.lateness import LateShare
from streameval.service.publish.builder import SnapshotBuilder
from streameval.service.publish.snapshot import Checkpoint, Publisher, Snapshot
from streameval.service.run.loop import ReadLoop
from streameval.service.run.runner import Runner
from streameval.service.run.unit import Unit
from streameval.service.sources.raw import Kind, LagUnit, PartitionStatus, Position, RawBatch
from streameval.service.store.store import Store, open_store
from streameval.state_files.codec import decompressed
from tests.support.command_runs import Command

Row = dict[str, Any]
MODELS = ("champion", "challenger")
KEPT: dict[str, Any] = {"time_unit": "us", "max_scores": 65_536, "intervals": True}
"""What the evaluators of a run keep by default."""

# The stream


def events(count: int, *, seconds: int = 60, seed: int = 3) -> list[Row]:
    """Records with a label, scores of two models, classes and slices, so many seconds apart."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        truth = rng.random() < 0.4
        common = rng.gauss(0, 0.1)
        score, other = (
            round(min(1.0, max(0.0, 0.5 + gap * (truth - 0.5) + common + rng.gauss(0, 0.1))), 2)
            for gap in (0.2, 0.4)
        )
        moment = datetime(2026, 1, 1) + timedelta(seconds=seconds * number)
        row = {"id": f"e{number}", "y_true": truth, "score": score, "other": other}
        row |= {"y_class": rng.choice("abc"), "y_pred": rng.choice("abc")}
        row |= {"country": rng.choice(["PT", "DE"]), "device": rng.choice(["phone", "tv"])}
        rows.append(row | {"time": moment.isoformat() + "Z"})
    return rows


def predictions_of(rows: list[Row]) -> list[Row]:
    """The records without their labels."""
    return [{key: value for key, value in row.items() if key != "y_true"} for row in rows]


def labels_of(rows: list[Row]) -> list[Row]:
    """The labels of records, at the time of each."""
    return [{key: row[key] for key in ("id", "y_true", "time")} for row in rows]


def lines(rows: list[Row]) -> str:
    """The records as JSON, one a line."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def write(name: str | Path, rows: list[Row], *, more: bool = False) -> None:
    """Write the records to a file, or append them with ``more``."""
    with Path(name).open("a" if more else "w") as file:
        file.write(lines(rows))


def expected(rows: list[Row], **options: Any) -> se.Evaluator:
    """The evaluator of a run that counted these records in a window of all events."""
    whole = se.Evaluator(**{"slices": ("country",), **KEPT, **options})
    whole.update_many(
        [row["y_true"] for row in rows],
        score=[row["score"] for row in rows],
        slices={"country": [row["country"] for row in rows]},
    )
    return whole


# Its configuration

RUN: dict[str, Any] = {
    "evaluator": {"slices": ["country"]},
    "window": [{"name": "all"}, {"name": "recent", "length": "1h", "pane": "5m"}],
    "fields": {"score": "score", "time": "time"},
    "files": {"records": ["events.jsonl"]},
    "checkpoint": {"every": "10ms", "events": 200},
    "serve": {"enabled": False},
}
"""A run of complete records in one file."""
JOINED: dict[str, Any] = {
    "fields": {"id": "id", "score": "score", "time": "time"},
    "files": {"predictions": ["p.jsonl"], "labels": ["l.jsonl"]},
    "join": {"wait": "1h"},
}
"""What makes of it a run of predictions and labels in two files."""
POSTED: dict[str, Any] = {"files": None, "http": {}, "serve": {"listen": "127.0.0.1:0"}}
"""What makes of it a run of posts."""


def config(**changes: Any) -> str:
    """``RUN`` with other tables, as TOML; a table that is None is left out."""
    return as_toml({key: one for key, one in {**RUN, **changes}.items() if one is not None})


def configure(**changes: Any) -> None:
    """Write such a configuration to ``run.toml``, here."""
    Path("run.toml").write_text(config(**changes))


def as_toml(tables: Mapping[str, Any]) -> str:
    """Tables as TOML, one a line."""
    return "".join(f"{key} = {_toml(one)}\n" for key, one in tables.items())


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(k)} = {_toml(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value) if isinstance(value, float) else json.dumps(value)


def settings(**changes: Any) -> RunSettings:
    """The settings of such a configuration."""
    return settings_from_text(config(**changes))


# The run


class Clock:
    """Seconds that pass when the test says so, or in a wait."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@contextmanager
def without_handles() -> Iterator[None]:
    """No further file can be opened."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Scripted:
    """A source of nothing; a test's own source overrides what it needs."""

    lag_unit: LagUnit = "records"
    finished = False

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        return []

    def checkpointed(self, positions: Mapping[str, Position]) -> None: ...

    def status(self) -> list[PartitionStatus]:
        return [PartitionStatus("a", None, 0)]

    def close(self) -> None: ...


Partitions = dict[str, tuple[Kind, list[bytes]]]


class InTurn:
    """In the place of random.Random: one after another, so many records at a time."""

    def __init__(self, piece: int = 10, turn: int = 0) -> None:
        self.turn = turn
        self.piece = piece

    def choice(self, names: list[str]) -> str:
        self.turn += 1
        return names[self.turn % len(names)]

    def randrange(self, low: int, high: int) -> int:
        return self.piece


class Lists(Scripted):
    """A source of lists; ``rng`` chooses the partition and size of each piece.

    The read of number ``stop`` raises KeyboardInterrupt, which writes nothing.
    """

    def __init__(
        self,
        lists: Partitions,
        positions: Mapping[str, Position],
        rng: random.Random | InTurn,
        stop: int = 0,
    ) -> None:
        self.lists = lists
        self.offsets = {name: int(positions.get(name, {"offset": 0})["offset"]) for name in lists}
        self.rng = rng
        self.stop = stop
        self.durable = dict(positions)

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        self.stop -= 1
        if not self.stop:
            raise KeyboardInterrupt
        left = [name for name in self.lists if self.offsets[name] < len(self.lists[name][1])]
        if not left:
            return []
        name = self.rng.choice(left)
        kind, lines = self.lists[name]
        start = self.offsets[name]
        taken = lines[start : start + self.rng.randrange(1, 60)]
        self.offsets[name] = end = start + len(taken)
        return [RawBatch(name, kind, taken, range(start, end), {"offset": end})]

    def checkpointed(self, positions: Mapping[str, Position]) -> None:
        self.durable.update(positions)

    def status(self) -> list[PartitionStatus]:
        return [
            PartitionStatus(name, {"offset": offset}, len(self.lists[name][1]) - offset)
            for name, offset in self.offsets.items()
        ]

    @property
    def finished(self) -> bool:  # type: ignore[override]
        return all(offset == len(self.lists[name][1]) for name, offset in self.offsets.items())


@dataclass
class Run:
    """A run in this process."""

    runner: Runner
    store: Store
    publisher: Publisher

    @property
    def evaluators(self) -> dict[str, Any]:
        """What it counts, by window."""
        return self.runner._unit.counting.evaluators

    @property
    def states(self) -> dict[str, bytes]:
        return {name: each.to_bytes() for name, each in self.evaluators.items()}

    @property
    def data(self) -> Any:
        """The newest snapshot, as JSON would have it."""
        current = self.publisher.current()
        assert current is not None
        return msgspec.to_builtins(current)


@contextmanager
def opened(
    settings: RunSettings,
    *,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], int] = wall_time,
    publisher: Publisher | None = None,
    store: Store | None = None,
    webhook: Any = None,
    **loop: Any,
) -> Iterator[Run]:
    """A run on its store, which is closed at the end of the block."""
    with closing(store or open_store(settings.store, fingerprint(settings))) as store:
        decoder = RecordDecoder(
            settings.fields,
            settings.evaluator,
            settings.join is not None,
            clock=lambda: now() / 1e6,
            ticks=clock,
        )
        publisher = publisher or Publisher()
        join = open_join(settings, store, clock, now)
        unit = Unit(settings, store, decoder, join=join, now=now)
        reading = ReadLoop(settings, clock, **loop)
        runner = Runner(unit, publisher, reading, webhook=webhook, now=now)
        yield Run(runner, store, publisher)


def snapshot_of(builder: SnapshotBuilder, *, now: int = 0, **given: Any) -> Snapshot:
    """The next snapshot of evaluators alone, without sources, join and quarantine."""
    usual = {
        "sequence": 1,
        "labelled_until": None,
        "late": {name: LateShare() for name in builder._given},
        "join": None,
        "partitions": [],
        "quarantine": {"total": 0, "kept": 0, "reasons": {}, "recent": []},
        "checkpoint": Checkpoint(1, iso_time(0), 0, 0.0),
    }
    return builder.build(now=now, **{**usual, **given})


def exported(command: Command, directory: Path, store: str = "streameval.db") -> dict[str, bytes]:
    """The files that ``store export`` writes, without their compression."""
    directory.mkdir()
    done = command("store", "export", store, "--to", directory)
    assert done.code == 0, done.err
    return {path.name: decompressed(path.read_bytes()) for path in sorted(directory.iterdir())}


def dump(path: str = "streameval.db") -> list[str]:
    """Every statement that makes the store of one file."""
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())
