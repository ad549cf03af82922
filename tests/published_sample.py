"""A snapshot as a run publishes it, of any size, with texts that mean harm and values
that are undefined; and a publisher of such snapshots.

For the tests of whatever reads snapshots: the API, the metrics, the dashboard.

    data = published_data(slices=1000, classes=100, task="multiclass")
    publisher = SamplePublisher(data)
    publisher.publish(published_data(sequence=2))
"""

from __future__ import annotations

import random
import threading
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import msgspec

from streameval.metrics.registry import shown_metrics
from streameval.slices import slice_name

__all__ = ["HOSTILE", "SamplePublisher", "SamplePublished", "published_data"]

HOSTILE = (
    "<script>alert('x')</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    'quo"te\\back\nslash\n# TYPE fake counter\nfake 1',
    "{{constructor.constructor('return 1')()}}",
    "\x1b[31mred\x07 \x00nul\r\n",
    "‮gnirts desrever‬ \u2028line",
    "L" * 5000,
    "L" * 4999 + "M",
    "__proto__",
    "العربية 中文 😀 é",
    " ",
    "",
)
"""Labels and slice values as only an enemy would choose them."""

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
WINDOWS = (
    {"name": "all", "kind": "cumulative", "spec": "all events", "immature": True, "late": 0.0},
    {"name": "1h", "kind": "panes", "spec": "1h in panes of 5m", "immature": True, "late": 0.0},
    {"name": "recent", "kind": "fading", "spec": "half-life 6h", "immature": True, "late": 0.0},
)


def iso(seconds: float) -> str:
    """ISO 8601, so many seconds after the sample's start."""
    return (START + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def published_data(
    *,
    slices: int = 20,
    classes: int = 2,
    task: str | None = None,
    sequence: int = 1,
    panes: int = 48,
    points: int = 100,
    hostile: bool = True,
    undefined: bool = True,
    join: bool = True,
    at: datetime = START,
    lag: int | None = 120,
    seed: int = 0,
) -> dict[str, Any]:
    """The data of a snapshot.

    Args:
        slices: Slices in each window.
        classes: Labels; more than two make the task multi-class.
        task: To have a multi-class task of two classes.
        sequence: Numbers of the same seed differ a little from sequence to sequence.
        panes: Points of the time series.
        points: Points of each curve.
        hostile: Texts of :data:`HOSTILE` among labels, slices, reasons, records.
        undefined: Some values are None, with their reasons.
        join: False: a run without a join.
        at: When it was published, which is also the checkpoint's time.
        lag: Of the first partition.
        seed: Another seed, other numbers.
    """
    task = task or ("binary" if classes == 2 else "multiclass")
    rng = random.Random(f"{seed}/{sequence}")
    stamp = at.isoformat().replace("+00:00", "Z")
    labels = _labels(classes, hostile and task == "multiclass")
    names = [row.name for row in shown_metrics(task)]
    windows = [{**window, "as_of": stamp} for window in WINDOWS]
    metric_rows = {w["name"]: _metrics(rng, task, 40_000 + sequence, undefined) for w in windows}
    return {
        "sequence": sequence,
        "at": stamp,
        "task": task,
        "positive": 1 if task == "binary" else None,
        "labels": labels,
        "windows": windows,
        "sources": [
            {"kind": "http", "holds": "predictions", "name": "/v1/predictions"},
            {"kind": "kafka", "holds": "labels", "name": HOSTILE[3] if hostile else "b"},
        ],
        "reports": {name: {"task": task, "metrics": rows} for name, rows in metric_rows.items()},
        "series": {"1h": _series(rng, names, panes, undefined)},
        "curves": {w["name"]: _curves(rng, task, points) for w in windows},
        "confusion": {w["name"]: _confusion(rng, labels) for w in windows},
        "slices": {w["name"]: _slices(rng, names, slices, hostile, undefined) for w in windows},
        "join": _join(rng, sequence) if join else None,
        "partitions": _partitions(lag, hostile),
        "quarantine": _quarantine(hostile),
        "alerts": _alerts(hostile),
        "checkpoint": {
            "sequence": 100 + sequence,
            "at": stamp,
            "events": 40_000 + sequence,
            "seconds": 0.012,
        },
    }


def _labels(classes: int, hostile: bool) -> list[str | int]:
    if classes == 2 and not hostile:
        return [0, 1]
    enemy = list(HOSTILE[: max(0, classes - 1)]) if hostile else []
    return [*enemy, *(f"class {number}" for number in range(classes - len(enemy)))]


def _value(rng: random.Random, name: str) -> float:
    return rng.uniform(0.1, 2) if name == "log_loss" else rng.uniform(0.4, 0.99)


def _metrics(rng: random.Random, task: str, support: int, undefined: bool) -> dict[str, Any]:
    rows: dict[str, Any] = {
        row.name: {"value": _value(rng, row.name), "support": support}
        for row in shown_metrics(task)
    }
    if undefined:
        rows["matthews_corrcoef"] = {
            "value": None,
            "support": support,
            "reason": "every event was predicted 'a'",
        }
    return rows


def _series(rng: random.Random, names: list[str], panes: int, undefined: bool) -> dict[str, Any]:
    gap = {panes // 3, panes // 3 + 1} if undefined else set()
    return {
        "start": [iso(300 * n) for n in range(panes)],
        "end": [iso(300 * (n + 1)) for n in range(panes)],
        "immature": [n >= panes - 3 for n in range(panes)],
        "support": [0 if n in gap else rng.randrange(500, 1500) for n in range(panes)],
        "metrics": {
            name: [None if n in gap else _value(rng, name) for n in range(panes)] for name in names
        },
    }


def _curves(rng: random.Random, task: str, points: int) -> dict[str, Any]:
    bend = rng.uniform(0.1, 0.4)
    steps = [n / (points - 1) for n in range(points)]
    bins = [(n / 10, (n + 1) / 10) for n in range(10)]
    calibration = {
        "curve": "calibration",
        "reason": None,
        "observed": [low + rng.uniform(0, 0.1) for low, _ in bins],
        "predicted": [(low + high) / 2 for low, high in bins],
        "weight": [rng.randrange(1, 5000) for _ in bins],
        "low": [low for low, _ in bins],
        "high": [high for _, high in bins],
    }
    if task == "multiclass":
        return {"calibration": calibration}
    return {
        "roc": {
            "curve": "roc",
            "reason": None,
            "fpr": steps,
            "tpr": [step**bend for step in steps],
            "threshold": [None, *(1 - step for step in steps[1:])],
        },
        "precision_recall": {
            "curve": "precision_recall",
            "reason": None,
            "precision": [0.4 + 0.6 * step for step in steps],
            "recall": [1 - step for step in steps],
            "threshold": steps[:-1],
        },
        "calibration": calibration,
    }


def _confusion(rng: random.Random, labels: list[str | int]) -> dict[str, Any]:
    kept = labels[:100]
    matrix = [
        [rng.randrange(500, 900) if row == column else rng.randrange(0, 40) for column in kept]
        for row in kept
    ]
    classes = [
        {
            "label": label,
            "true": sum(matrix[n]) if n < len(kept) else 3,
            "predicted": sum(row[n] for row in matrix) if n < len(kept) else 2,
            "right": matrix[n][n] if n < len(kept) else 1,
        }
        for n, label in enumerate(labels)
    ]
    left_out = len(labels) - len(kept)
    return {"labels": kept, "matrix": matrix, "left_out": left_out, "classes": classes}


def _slices(
    rng: random.Random, names: list[str], count: int, hostile: bool, undefined: bool
) -> list[dict[str, Any]]:
    rows = []
    for number in range(count):
        if hostile and number < len(HOSTILE):
            key: dict[str, Any] = {"country": HOSTILE[number]}
        elif number % 3 == 2:
            key = {"country": f"C{number}", "model": number % 7}
        else:
            key = {"country": f"C{number}"}
        nothing = undefined and number % 10 == 9
        rows.append(
            {
                "slice": key,
                "name": slice_name(tuple(key.items())),
                "support": rng.randrange(1, 10_000),
                "metrics": {n: None if nothing else _value(rng, n) for n in names},
                "reasons": dict.fromkeys(names, "no event of the positive class")
                if nothing
                else {},
            }
        )
    return rows


def _join(rng: random.Random, sequence: int) -> dict[str, Any]:
    cohorts = []
    for number in range(12):
        labelled = 900 if number < 9 else 300 * (12 - number)
        cohorts.append(
            {
                "start": iso(300 * number),
                "end": iso(300 * (number + 1)),
                "predictions": 1000,
                "labelled": labelled,
                "expired": 100 if number < 9 else 0,
                "coverage": labelled / 1000,
                "immature": number >= 9,
            }
        )
    return {
        "predictions": 12_000 + sequence,
        "labels": 10_000 + sequence,
        "joined": 9_900 + sequence,
        "waiting": 1200,
        "labels_waiting": 7,
        "expired": 900,
        "orphans": 31,
        "duplicate_predictions": 12,
        "duplicate_labels": 44,
        "corrected": 5,
        "too_late": 3,
        "coverage": 0.9166,
        "coverage_reason": "",
        "mature": {"start": iso(2100), "end": iso(2700), "predictions": 5000, "labelled": 4583},
        "late": 0.0,
        "watermark": iso(50_000),
        "delay": {
            "p50": 1830.0 + rng.random(),
            "p95": 14_400.0,
            "p99": 43_000.0,
            "relative_error": 0.02,
        },
        "cohorts": cohorts,
    }


def _partitions(lag: int | None, hostile: bool) -> list[dict[str, Any]]:
    name = HOSTILE[3] if hostile else "b"
    return [
        {
            "partition": "http:predictions",
            "position": {"segment": 3, "offset": 4096},
            "lag": lag,
            "problem": "",
            "missed": "",
            "records": 12_000,
            "newest": iso(14_000),
        },
        {
            "partition": f"kafka:{name}/3",
            "position": {"offset": 77},
            "lag": 0,
            "problem": "",
            "missed": "",
            "records": 10_000,
            "newest": None,
        },
    ]


def _quarantine(hostile: bool) -> dict[str, Any]:
    raws = HOSTILE if hostile else ("{broken",)
    recent = [
        {
            "id": 1000 - number,
            "at": iso(number),
            "partition": "http:predictions",
            "place": 17 * number,
            "reason": ("record", "score", "y_true")[number % 3],
            "detail": f"expected a JSON object, got {raw[:40]!a}",
            "raw": raw[:4096],
            "raw_bytes_cut": len(raw) > 4096,
        }
        for number, raw in enumerate(raws)
    ]
    return {
        "total": 1000,
        "kept": len(recent),
        "reasons": {"record": 700, "score": 200, HOSTILE[0] if hostile else "y_true": 100},
        "recent": recent,
    }


def _alerts(hostile: bool) -> list[dict[str, Any]]:
    def alert(name: str, state: str, value: float | None, reason: str = "") -> dict[str, Any]:
        return {
            "name": name,
            "metric": "accuracy",
            "window": "1h",
            "slice": "country=PT" if name == "in PT" else "",
            "state": state,
            "value": value,
            "bound": "below 0.8",
            "support": 500,
            "since": iso(3) if state in ("firing", "pending") else None,
            "reason": reason,
        }

    return [
        alert("accuracy falls", "firing", 0.71),
        alert("in PT", "ok", 0.9),
        alert(HOSTILE[1] if hostile else "slow", "pending", 0.79),
        alert("no labels yet", "undefined", None, "no events"),
    ]


class SamplePublished:
    """A snapshot; data and its JSON."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @cached_property
    def bytes_json(self) -> bytes:
        """The data as JSON."""
        return msgspec.json.encode(self.data)


class SamplePublisher:
    """Publishes what the test hands it, to any number of threads."""

    def __init__(self, data: dict[str, Any] | None = None) -> None:
        self._changed = threading.Condition()
        self._newest = None if data is None else SamplePublished(data)

    def current(self) -> SamplePublished | None:
        """The newest snapshot; None before the first."""
        return self._newest

    def publish(self, data: dict[str, Any]) -> None:
        """Make it the newest, and wake who waits."""
        with self._changed:
            self._newest = SamplePublished(data)
            self._changed.notify_all()

    def wait(self, sequence: int, timeout: float) -> SamplePublished | None:
        """The newest snapshot, as soon as it is newer than that, or after so many seconds."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._newest is not None and self._newest.data["sequence"] > sequence,
                timeout,
            )
            return self._newest
