"""The result of a run as plain values, by which two runs are compared.

Left out, because they depend on clocks and on when a process ended: numbers of
checkpoints, times at which records were refused, and how far the join's
watermark stands (which partitions are idle depends on the clock).
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing, redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from streameval.cli import main
from streameval.evaluator.predictions import Predictions
from streameval.service.config.evaluators import open_evaluators
from streameval.service.config.load import load_settings
from streameval.service.join.counters import OUTCOMES_OF_LABELS, STORED
from streameval.service.store.store import Store, each_unit, read_store
from streameval.state_files.codec import decompressed
from tests.crash.kill_stream import Line

_REPEATED = ("duplicate_predictions", "duplicate_labels")
_RETRIED = "posts that were sent again"


def outcome(directory: Path, *, retried: bool = False, shared: str = "") -> dict[str, Any]:
    """Everything in ``run.db`` of a directory that does not depend on kills.

    With ``retried``, posts may have been taken twice: counts of records, duplicates, refused
    records and unmatched labels say nothing, and places in the inbox differ. ``shared`` is the
    address of a store that many workers have written, of which all units are seen together.
    """
    store = shared or str(directory / "run.db")
    exported = directory / "states"
    exported.mkdir()
    with redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        assert main(["store", "check", store]) == 0
        assert main(["store", "export", store, "--to", str(exported)]) == 0
    with closing(read_store(store)) as opened:
        units = [_stored(opened, str(directory), retried=retried) for _ in each_unit(opened)]
    found = units[0]
    if shared:
        found = {"events": sum(one["events"] for one in units), "join": {}, "positions": {}}
        for one in units:
            found["join"] |= one["join"]
            found["positions"] |= one["positions"]
        found["refused"] = sorted(row for one in units for row in one["refused"])
        reasons = sum((Counter(one["quarantine"]) for one in units), Counter[str]())
        found["quarantine"] = dict(sorted(reasons.items()))
    for path in sorted(exported.iterdir()):
        name = path.stem.replace(".predictions", ":predictions")
        found[f"state {name}"] = decompressed(path.read_bytes())
    return found


def _stored(store: Store, directory: str, *, retried: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"events": store.counters()["events"]}
    with store.reading() as connection:
        (text,) = connection.execute("SELECT data FROM join_counts").fetchone()
        join = json.loads(text)
        rows = connection.execute("SELECT partition, position, records, newest FROM positions")
        positions = {
            name.replace(directory, ""): (json.loads(position), records, newest)
            for name, position, records, newest in rows
            if not name.endswith(":")
        }
        reasons = dict(connection.execute("SELECT reason, total FROM quarantine_reasons"))
        refused = sorted(
            (name.replace(directory, ""), kind, place, reason, detail, cut, raw)
            for name, kind, place, reason, detail, cut, raw in connection.execute(
                "SELECT partition, kind, place, reason, detail, cut, raw FROM quarantine"
            )
        )
    counts = {
        partition.replace(directory, ""): by
        for partition, by in join["coverage"].pop("counts").items()
    }
    _balance(counts, positions, reasons, join["coverage"])
    # Which file a name is of depends on when it was renamed, and inodes on the file system.
    if any(name.startswith("files:") for name in positions):
        counts, positions = _by_kind(counts, positions)
        # Goes by the watermark.
        join["coverage"].pop("border", None)
        refused = sorted((_kind(name), *rest) for name, *rest in refused)
    if retried:
        for by in counts.values():
            by.update(dict.fromkeys((*_REPEATED, "labels"), _RETRIED))
        # A label that waits is a record like another; sent again, it is a second one.
        join["coverage"]["labels"] = sorted(cohort for cohort, _ in join["coverage"]["labels"])
        join["coverage"]["orphans"] = _RETRIED
        positions = {name: newest for name, (*_, newest) in positions.items()}
        reasons = dict.fromkeys(sorted(reasons), _RETRIED)
        refused = sorted({raw for *_, raw in refused})
    found["join"] = counts
    found.update({f"join {name}": value for name, value in join["coverage"].items()})
    found["positions"] = positions
    found["quarantine"] = dict(sorted(reasons.items()))
    found["refused"] = refused
    return found


def _kind(partition: str) -> str:
    return "labels" if "labels" in partition else "predictions"


def _by_kind(
    counts: Mapping[str, Mapping[str, int]], positions: Mapping[str, tuple[Any, int, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Counts, records and newest times of all files of a kind."""
    sums: dict[str, Counter[str]] = {}
    for name, by in counts.items():
        sums.setdefault(_kind(name), Counter()).update(by)
    places: dict[str, Any] = {}
    for name, (_, records, newest) in positions.items():
        total, latest = places.get(_kind(name), (0, 0))
        places[_kind(name)] = (total + records, max(latest, newest or 0))
    return {kind: dict(by) for kind, by in sums.items()}, places


def _balance(
    counts: Mapping[str, Mapping[str, int]],
    positions: Mapping[str, tuple[Any, int, Any]],
    reasons: Mapping[str, int],
    coverage: Mapping[str, Any],
) -> None:
    """Every record that was read is in exactly one place."""
    total = {name: sum(by.get(name, 0) for by in counts.values()) for name in STORED}
    labels = total["labels"] + sum(n for _, n in coverage["labels"]) + coverage["orphans"]
    read = sum(records for _, records, _ in positions.values())
    placed = total["predictions"] + total["duplicate_predictions"] + labels
    assert read == placed + sum(reasons.values()), (read, total, labels, reasons)
    assert total["labels"] == sum(total[name] for name in OUTCOMES_OF_LABELS if name in total), (
        total
    )


def differences(expected: Mapping[str, Any], got: Mapping[str, Any]) -> list[str]:
    """A line for each value that differs."""
    found = []
    for name in sorted({*expected, *got}):
        one, other = expected.get(name), got.get(name)
        if one == other:
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            found += [f"{name}: {line}" for line in differences(one, other)]
        elif isinstance(one, list) and isinstance(other, list):
            missing = [item for item in one if item not in other]
            more = [item for item in other if item not in one]
            found.append(f"{name}: missing {missing[:5]!r}, too many {more[:5]!r}")
        elif isinstance(one, bytes) and isinstance(other, bytes):
            found.append(f"{name}: {len(one)} and {len(other)} bytes that are not the same")
        else:
            found.append(f"{name}: expected {one!r}, got {other!r}")
    return found


def true_states(config: Path, lines: Iterable[Line]) -> dict[str, bytes]:
    """The states of all windows, straight from the stream: no run has a part in it.

    The first prediction of an id counts, with its first label; another label
    of the id later takes that one's place. Labels of a set add up, and count when it is final.
    """
    predictions: dict[str, dict[str, Any]] = {}
    labels: dict[str, list[Any]] = {}
    sets: dict[str, set[str]] = {}
    for line in lines:
        try:
            record = json.loads(line.body)
            key = record["id"]
            if line.kind == "predictions":
                _event(record)
                predictions.setdefault(key, record)
            elif "tag" in record or "final" in record:
                whole = sets.setdefault(key, set())
                whole.update([record["tag"]] if "tag" in record else [])
                known = labels.setdefault(key, []) if "final" in record else labels.get(key)
                if known is not None and known[-1:] != [sorted(whole)]:
                    known.append(sorted(whole))
            elif labels.setdefault(key, [record["y_true"]])[-1] != record["y_true"]:
                labels[key].append(record["y_true"])
        except (ValueError, KeyError, TypeError):
            continue
    met = [(_event(record), labels[key]) for key, record in predictions.items() if key in labels]
    found = {}
    for name, evaluator in open_evaluators(load_settings(config)).items():
        if isinstance(evaluator, Predictions):
            for record in predictions.values():
                evaluator.update(**_event(record))
            found[name] = evaluator.to_bytes()
            continue
        for event, given in met:
            evaluator.update(given[0], **event)
            for before, label in pairwise(given):
                evaluator.revert(before, **event)
                evaluator.update(label, **event)
        found[name] = evaluator.to_bytes()
    return found


def _event(record: dict[str, Any]) -> dict[str, Any]:
    score = record["score"]
    moment = np.datetime64(record["time"].removesuffix("Z"), "us")
    return {
        "score": score if isinstance(score, dict) else float(score),
        "slices": {"country": record["country"]},
        "event_time": int(moment.astype(np.int64)),
    }
