"""What the run is and how it does, in one answer."""

from __future__ import annotations

from streameval import __version__
from streameval.event_time import iso_time
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
            "metrics": list(data["reports"][first]["metrics"]) if first else [],
            "series": list(data["series"]),
            "curves": {window: list(curves) for window, curves in data["curves"].items()},
            "slices": {window: len(rows) for window, rows in data["slices"].items()},
            "join": data["join"] is not None,
            "checkpoint": data["checkpoint"],
        },
    }
