"""``streameval metrics``: the list of metrics."""

from __future__ import annotations

from streameval.cli.options import FormatOption
from streameval.cli.output import Format, Section, csv_text, text_of, to_json, write
from streameval.cli.page import page
from streameval.evaluator.reports import Table
from streameval.metrics.metric import Metric
from streameval.metrics.registry import ROWS

_HEADER = ("metric", "task", "range", "better", "definition")
_BETTER = {"up": "higher", "down": "lower", "none": "neither"}


def metrics(format: FormatOption = Format.TABLE) -> None:
    """List the metrics: name, task, range, which way is better, and definition."""
    if format is Format.JSON:
        write(to_json([_fields(row) for row in ROWS]))
        return
    rows = [_cells(row) for row in ROWS]
    if format.is_csv:
        write(csv_text([dict(zip(_HEADER, row, strict=True)) for row in rows], format))
    elif format is Format.HTML:
        write(page("Metrics of streameval", [Section("metrics", Table(_HEADER, rows))]))
    else:
        write(text_of([Section(table=Table(_HEADER, rows))], format))


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
