"""``streameval metrics``: the list of metrics."""

from __future__ import annotations

from streameval.cli.options import FormatOption
from streameval.cli.output import Format, Section
from streameval.cli.page import write_as
from streameval.evaluator.reports import Table
from streameval.metrics.metric import BOTH, Metric
from streameval.metrics.registry import ROWS

_HEADER = ("metric", "task", "range", "better", "definition")
_BETTER = {"up": "higher", "down": "lower", "none": "neither"}


def metrics(format: FormatOption = Format.TABLE) -> None:
    """List the metrics: name, task, range, which way is better, and definition."""
    cells = [_cells(row) for row in ROWS]
    title = "metrics" if format is Format.HTML else ""
    write_as(
        format,
        "Metrics of streameval",
        lambda: [_fields(row) for row in ROWS],
        lambda: [dict(zip(_HEADER, row, strict=True)) for row in cells],
        lambda: [Section(title, Table(_HEADER, cells))],
    )


def _fields(row: Metric) -> dict[str, object]:
    return {
        "name": row.name,
        "tasks": sorted(row.tasks),
        "low": _bound(row.low),
        "high": _bound(row.high),
        "direction": row.direction,
        "definition": row.definition,
    }


def _bound(value: float) -> float | None:
    """JSON has no infinity: no bound is null."""
    return value if abs(value) != float("inf") else None


def _cells(row: Metric) -> list[str]:
    task = "both" if row.tasks == BOTH else "".join(row.tasks & BOTH) or "predictions"
    low, high = (f"{value:g}".replace("inf", "∞") for value in (row.low, row.high))
    return [row.name, task, f"{low} … {high}", _BETTER[row.direction], row.definition]
