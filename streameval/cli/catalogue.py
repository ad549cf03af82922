"""``streameval metrics``: the list of metrics."""

from __future__ import annotations

from streameval.cli.options import FormatOption
from streameval.cli.output import Format, to_json, write
from streameval.evaluator.reports import markdown_table, text_table
from streameval.metrics.metric import Metric
from streameval.metrics.registry import ROWS

_HEADER = ("metric", "task", "range", "better", "definition")
_BETTER = {"up": "higher", "down": "lower", "none": "neither"}


def metrics(format: FormatOption = Format.TABLE) -> None:
    """List the metrics: name, task, range, which way is better, and definition."""
    if format is Format.JSON:
        write(to_json([_fields(row) for row in ROWS]))
    elif format is Format.MARKDOWN:
        write(markdown_table(_HEADER, [_cells(row) for row in ROWS]))
    else:
        write(text_table(_HEADER, [_cells(row) for row in ROWS]))


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
    task = "both" if len(row.tasks) == 2 else "".join(row.tasks)
    low, high = (f"{value:g}".replace("inf", "∞") for value in (row.low, row.high))
    return [row.name, task, f"{low} … {high}", _BETTER[row.direction], row.definition]
