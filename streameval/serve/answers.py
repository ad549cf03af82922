"""What the API answers: functions of a snapshot and a query, without a server around them.

Each answer starts with the snapshot's ``sequence`` and time ``at``, and one about
a window with the window. The shapes are in ``openapi.json``.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from streameval.errors import shown
from streameval.metrics.curves import SERVED_CURVES
from streameval.serve.asking import Asking
from streameval.serve.fault import RefusedError
from streameval.serve.seams import Data

__all__ = [
    "Answer",
    "alerts",
    "compact",
    "confusion",
    "curve",
    "join",
    "partitions",
    "quarantine",
    "report",
    "series",
    "view",
]

Answer: TypeAlias = dict[str, Any]


def _stamp(data: Data) -> Answer:
    return {"sequence": data["sequence"], "at": data["at"]}


def about_window(data: Data, name: str) -> Answer:
    """How an answer about a window starts."""
    described = next(window for window in data["windows"] if window["name"] == name)
    return {**_stamp(data), "window": described}


def report(data: Data, asking: Asking) -> Answer:
    """Every metric of a window, with its support and, where undefined, its reason."""
    window = asking.window(data)
    asking.finish()
    return {**about_window(data, window), "report": data["reports"][window]}


def view(data: Data, asking: Asking) -> Answer:
    """Everything about a window's total, of one snapshot: report, curves, confusion, and a metric
    over time (of the first window of panes where this one has none)."""
    window = asking.window(data)
    metrics = list(data["reports"][window]["metrics"])
    metric = asking.choice("metric", metrics, metrics[0] if metrics else "")
    asking.finish()
    paned = window if window in data["series"] else next(iter(data["series"]), None)
    shown = paned is not None and metric in data["series"][paned]["metrics"]
    return {
        **about_window(data, window),
        "report": data["reports"][window],
        "curves": {name: _curve(data, window, name) for name in SERVED_CURVES},
        "confusion": _matrix(data, window, 100),
        "series": _series(data, str(paned), metric) if shown else None,
    }


def curve(data: Data, asking: Asking, name: str) -> Answer:
    """A curve's columns; without points, and with a reason, where the window has no such curve."""
    window = asking.window(data)
    asking.finish()
    if name not in SERVED_CURVES:
        raise RefusedError(
            404,
            expected="one of " + ", ".join(SERVED_CURVES),
            got=shown(name),
            where="the curve's name",
        )
    return {**about_window(data, window), **_curve(data, window, name)}


def _curve(data: Data, window: str, name: str) -> Answer:
    found = data["curves"].get(window, {}).get(name)
    if found is None:
        task = data["task"]
        found = {"reason": f"a {task} task without what this curve is made of has none"}
    # One spelling of the columns' dictionary, whoever made it.
    columns = {key: column for key, column in found.items() if isinstance(column, list)}
    return {"curve": name, "reason": found.get("reason") or "", "columns": columns}


def series(data: Data, asking: Asking, metric: str) -> Answer:
    """A metric in each pane of a window, the oldest first."""
    every = data["series"]
    names = list(every)
    window = asking.text("window", names[0] if names else "")
    asking.finish()
    if window not in every:
        raise RefusedError(
            404,
            expected="a window of panes: " + (", ".join(names) or "this run has none"),
            got=shown(window),
            where="window",
            remedy="" if names else "give a window a length and a pane in the run's settings",
        )
    found = every[window]
    if metric not in found["metrics"]:
        raise RefusedError(
            404,
            expected="one of " + ", ".join(found["metrics"]),
            got=shown(metric),
            where="the metric's name",
        )
    return _series(data, window, metric)


def _series(data: Data, window: str, metric: str) -> Answer:
    found = data["series"][window]
    return {
        **about_window(data, window),
        "metric": metric,
        **{key: found[key] for key in ("start", "end", "immature", "support")},
        "values": found["metrics"][metric],
    }


def confusion(data: Data, asking: Asking) -> Answer:
    """The confusion matrix, rows true; ``limit`` keeps the classes of the most support. And every
    class with its weight, also those that the matrix leaves out."""
    window = asking.window(data)
    limit = asking.number("limit", 100, most=100)
    asking.finish()
    return {
        **about_window(data, window),
        **_matrix(data, window, limit),
        "classes": data["confusion"].get(window, {}).get("classes", []),
    }


def _matrix(data: Data, window: str, limit: int) -> Answer:
    found = data["confusion"].get(window) or {"labels": [], "matrix": [], "left_out": 0}
    labels, matrix, left_out = found["labels"], found["matrix"], found["left_out"]
    if len(labels) > limit:
        by_support = sorted(range(len(labels)), key=lambda row: -sum(matrix[row]))
        kept = sorted(by_support[:limit])
        left_out += len(labels) - limit
        labels = [labels[row] for row in kept]
        matrix = [[matrix[row][column] for column in kept] for row in kept]
    return {"labels": labels, "matrix": matrix, "left_out": left_out}


def quarantine(data: Data, asking: Asking) -> Answer:
    """How many records could not be counted, why, and the newest of them."""
    reason = asking.text("reason")
    offset = asking.number("offset", 0)
    limit = asking.number("limit", 100, most=1000)
    asking.finish()
    found = data["quarantine"]
    recent = [row for row in found["recent"] if not reason or row["reason"] == reason]
    return {
        **_stamp(data),
        "total": found["total"],
        "kept": found["kept"],
        "reasons": found["reasons"],
        "matching": len(recent),
        "offset": offset,
        "limit": limit,
        "recent": recent[offset : offset + limit],
    }


def join(data: Data, asking: Asking) -> Answer:
    """Labels that came and that are waited for; null without a join."""
    asking.finish()
    return {**_stamp(data), "join": data["join"]}


def partitions(data: Data, asking: Asking) -> Answer:
    """How far each partition of the source has been read."""
    asking.finish()
    return {**_stamp(data), "partitions": data["partitions"]}


def alerts(data: Data, asking: Asking) -> Answer:
    """Every alert and its state."""
    asking.finish()
    return {**_stamp(data), "alerts": data["alerts"]}


def compact(data: Data) -> Answer:
    """What the stream of events says of each snapshot: enough to redraw what is read at a glance,
    and to know that the rest has changed."""
    joined = data["join"]
    if joined is not None:
        joined = {key: value for key, value in joined.items() if key != "cohorts"}
    kept = data["quarantine"]
    return {
        **_stamp(data),
        "windows": data["windows"],
        "reports": data["reports"],
        "join": joined,
        "partitions": data["partitions"],
        "quarantine": {key: kept[key] for key in ("total", "kept", "reasons")},
        "alerts": data["alerts"],
        "checkpoint": data["checkpoint"],
    }
