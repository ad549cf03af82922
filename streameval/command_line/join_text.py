"""The counts of a label join as a report shows them."""

from __future__ import annotations

from typing import Any

from streameval.report import markdown_table, number, text_table

__all__ = ["join_text", "join_values"]

_ROWS = {
    "predictions": "predictions",
    "joined": "with their label",
    "waiting": "waiting for it",
    "expired": "never labelled",
    "labels": "labels read",
    "corrected": "that corrected another",
    "duplicate_labels": "that came again",
    "too_late": "that came too late",
    "labels_waiting": "waiting for their prediction",
    "orphans": "that found no prediction",
    "duplicate_predictions": "predictions that came again",
}


def join_values(join: dict[str, Any]) -> dict[str, Any]:
    """Plain data for JSON: without the cohorts, and whether the report will change."""
    told = {name: value for name, value in join.items() if name != "cohorts"}
    return {**told, "immature": join["waiting"] > 0}


def join_text(join: dict[str, Any], *, markdown: bool) -> str:
    """The same as a table."""
    coverage = join["coverage"]
    rows = [["coverage", "-" if coverage is None else number(coverage)]]
    for name in ("p50", "p95", "p99"):
        delay = join["delay"][name]
        rows.append([f"delay {name}, s", "-" if delay is None else number(delay)])
    rows += [[words, f"{join[name]:,}"] for name, words in _ROWS.items()]
    table = markdown_table if markdown else text_table
    body = table(["labels", "value"], rows, right=frozenset({1}))
    if join["coverage_reason"]:
        body += f"\n\ncoverage: {join['coverage_reason']}"
    if not join["waiting"]:
        return body
    number_of = join["waiting"]
    wait = "prediction waits for its" if number_of == 1 else "predictions wait for their"
    young = f"immature: {number_of:,} {wait} label; numbers will change"
    return f"{body}\n\n{young}" if markdown else f"{body}\n{young}"
