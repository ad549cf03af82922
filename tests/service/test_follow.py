"""Following a store: what is published equals what the run itself publishes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streameval.service.config.evaluators import with_stored_defaults
from streameval.service.config.settings import RunSettings
from streameval.service.publish.snapshot import Kind, Publisher, Snapshot
from streameval.service.run.store_reader import StoreReader
from streameval.service.store import state_rows
from streameval.service.store.fingerprints import changed_settings
from streameval.service.store.kept_settings import keep_settings, kept_settings
from streameval.service.store.state_rows import merged_windows
from streameval.service.store.store import read_store
from tests.support.run import (
    JOINED,
    MODELS,
    RUN,
    InTurn,
    Lists,
    Partitions,
    Run,
    events,
    labels_of,
    opened,
    predictions_of,
    settings,
    write,
)

LOW = {"name": "low", "metric": "accuracy", "below": 0.99}
SLOW = {"name": "slow", "metric": "f1", "below": 0.99, "for": "1h"}
FEW = {"store": "run.db", "intervals": False, "checkpoint": {"every": "1h", "events": 5}}
METRICS = ["accuracy", "f1", "roc_auc", "log_loss"]
MULTICLASS: dict[str, Any] = {
    **FEW,
    "evaluator": {
        "task": "multiclass",
        "metrics": ["accuracy", "matthews_corrcoef"],
        "slices": ["country"],
    },
    "window": [{"name": "fading", "half_life": "1h"}, RUN["window"][1]],
    "fields": {"y_true": "y_class", "y_pred": "y_pred", "time": "time"},
}
OF_MODELS: dict[str, Any] = {
    **FEW,
    **JOINED,
    "evaluator": {"metrics": METRICS, "slices": ["country"], "models": [*MODELS]},
    "quarantine": {"keep": 5},
    "fields": {
        **JOINED["fields"],
        "score": {"champion": "score", "challenger": "other"},
    },
    "window": RUN["window"],
    "alert": [LOW, SLOW],
}


def write_events(count: int) -> None:
    """Events as complete records, and as predictions and labels, some of which are corrected."""
    rows = events(count)
    wrong = [{**row, "y_true": not row["y_true"]} for row in rows[::9]]
    write("events.jsonl", [*rows[:8], {"y_true": "neither", "score": 2}, *rows[8:]])
    write("p.jsonl", predictions_of(rows))
    write("l.jsonl", sorted(labels_of([*wrong, *rows]), key=lambda row: row["time"]))


def partitions(settings: RunSettings) -> Partitions:
    """The lines of the run's files in two partitions each."""
    kinds: dict[Kind, list[str]] = {
        "records": settings.files.records,
        "predictions": settings.files.predictions,
        "labels": settings.files.labels,
    }
    return {
        f"{kind}/{number}": (kind, Path(name).read_bytes().splitlines()[number::2])
        for kind, names in kinds.items()
        for name in names
        for number in range(2)
    }


@contextmanager
def running(
    settings: RunSettings, seen: Callable[[Snapshot], None] = lambda snapshot: None
) -> Iterator[Run]:
    """A run of all files; calls ``seen`` with each snapshot that it publishes."""
    publisher = Publisher()
    published = publisher.publish

    def publish(snapshot: Snapshot) -> None:
        published(snapshot)
        seen(snapshot)

    publisher.publish = publish  # type: ignore[method-assign]
    settings = with_stored_defaults(settings, {})
    # With a clock that stands still every part of a snapshot is current.
    with opened(settings, publisher=publisher, clock=lambda: 1.0) as run:
        keep_settings(run.store, settings)
        # A few of one partition at a time: many checkpoints, and rows of states are merged.
        run.runner.run([Lists(partitions(settings), run.runner.positions, InTurn(5))])
        yield run


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


@pytest.mark.parametrize("changes", [MULTICLASS, OF_MODELS])
def test_a_follower_publishes_what_the_run_publishes(
    here: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Rows are merged soon.
    monkeypatch.setattr(state_rows, "_MANY_ROWS", 4)
    write_events(25 if changes is OF_MODELS else 45)
    chosen = settings(**changes)
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
            found.append(follower(chosen))
        following, publisher = found[0]
        following.read()
        mine, theirs = described(publisher.current()), described(snapshot)
        # The store has the states of alerts as of the checkpoint, before they were judged again.
        for one in (mine, theirs):
            for alert in one["alerts"]:
                alert.pop("state"), alert.pop("since")
        # Not ==: pytest would explain a difference for minutes.
        assert [*changed_settings("", mine, theirs)] == []

    with running(chosen, compare) as run:
        assert looks >= 8
        following, publisher = found[0]
        following.read()
        last = publisher.current()
        assert [*changed_settings("", described(last), described(run.publisher.current()))] == []
        assert [alert.state for alert in last.alerts if last] in (["firing", "pending"], [])
        with closing(read_store(chosen.store)) as store:
            expected = merged_windows(store.connection)
        for window, evaluator in following._states.evaluators.items():
            assert evaluator.to_bytes() == expected[window].to_bytes()
    following.close()
