"""What the run is and how it does, in one answer."""

from __future__ import annotations

import math

from streameval import __version__
from streameval.event_time import iso_time
from streameval.metrics.registry import find
from streameval.serve.answers import Answer
from streameval.serve.seams import Data

__all__ = ["status"]

_MOST_LABELS = 100


def status(
    data: Data | None, *, now: float, started: float, reasons: list[str], posts: bool
) -> Answer:
    """The answer of ``/api/status``.

    Args:
        data: The newest snapshot; with None the answer has what is known without.
        now: Seconds since 1970.
        started: When the server started, likewise.
        reasons: Why the run is not ready.
        posts: Whether events can be posted.
    """
    about_server = {
        "version": __version__,
        "started": iso_time(int(started * 1e6)),
        "uptime_seconds": max(0.0, now - started),
        "ready": not reasons,
        "reasons": reasons,
        "posts": posts,
    }
    if data is None:
        return {**about_server, "run": None}
    labels = data["labels"]
    first = data["windows"][0]["name"] if data["windows"] else ""
    metrics = list(data["reports"][first]["metrics"]) if first else []
    return {
        **about_server,
        "run": {
            "sequence": data["sequence"],
            "at": data["at"],
            "task": data["task"],
            "positive": data["positive"],
            "classes": len(labels),
            "labels": labels[:_MOST_LABELS],
            "windows": data["windows"],
            "metrics": metrics,
            "definitions": {name: _definition(name, data["task"]) for name in metrics},
            "series": list(data["series"]),
            "curves": {window: list(curves) for window, curves in data["curves"].items()},
            "slices": {window: len(rows) for window, rows in data["slices"].items()},
            "join": data["join"] is not None,
            "sources": data["sources"],
            "checkpoint": data["checkpoint"],
        },
    }


def _definition(name: str, task: str) -> Answer:
    """What a metric's number means; JSON has no infinity, so no bound is null."""
    row = find(name, task)
    return {
        "definition": row.definition,
        "low": row.low if math.isfinite(row.low) else None,
        "high": row.high if math.isfinite(row.high) else None,
        "direction": row.direction,
    }
