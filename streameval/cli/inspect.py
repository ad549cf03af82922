"""``streameval inspect``: what is in a saved state."""

from __future__ import annotations

import os
from collections import Counter
from typing import Annotated, Any

import numpy as np
import typer

from streameval.cli import options
from streameval.cli.output import Format, Section
from streameval.cli.page import write_as
from streameval.evaluator.changes import describe
from streameval.evaluator.comparison import Comparison, evaluation_of, reference_of, unpacked_any
from streameval.evaluator.reports import Table
from streameval.state_files.codec import FORMAT, Unpacked
from streameval.state_files.provenance import Shard
from streameval.states.registry import STATES

_LISTED = 10

StateFileArgument = Annotated[str, typer.Argument(metavar="STATE", help="A saved state.")]


def inspect(state: StateFileArgument, *, format: options.FormatOption = Format.TABLE) -> None:
    """Show what a state holds: task, labels, window, slices, shards, times, and bytes by part.

    The whole file is read and checked.
    """
    unpacked = unpacked_any(state)
    size = os.path.getsize(state)
    parts = _bytes_by_part(unpacked)
    facts = _facts(unpacked, size)
    rows = [[name.replace("_", " "), _words(name, value)] for name, value in facts.items()]
    pairs = rows + [[f"bytes of {part}", str(count)] for part, count in parts.items()]
    cells = [[part, f"{count:,}"] for part, count in parts.items()]
    title = "state" if format is Format.HTML else ""
    write_as(
        format,
        state,
        lambda: {**facts, "bytes_by_part": parts},
        lambda: [{"name": name, "value": value} for name, value in pairs],
        lambda: [
            Section(title, Table(["state", state], rows)),
            Section("bytes by part", Table(["part", "bytes"], cells, frozenset({"bytes"}))),
        ],
    )


def _facts(unpacked: Unpacked, size: int) -> dict[str, Any]:
    """What is in the state, as plain data for JSON."""
    loaded = evaluation_of(unpacked)
    first = reference_of(loaded)
    given = first.options
    kept = first.plan.keeps
    arrivals, retained = loaded.arrivals, loaded.retained
    span = first.span
    facts: dict[str, Any] = {
        "kind": loaded._kind,
        "models": list(loaded.models) if isinstance(loaded, Comparison) else None,
        "bytes": size,
        "bytes_uncompressed": None if size == unpacked.size else unpacked.size,
        "format": 1 if unpacked.provenance is None else FORMAT,
        "task": loaded.task,
        "events": first.total.support,
        "labels": loaded.labels,
        "labels_declared": given["labels"] is not None,
        "positive": given.get("positive"),
        "threshold": given.get("threshold"),
        "metrics": given["metrics"] or "all of the task",
        "window": first.notes.get("window", "all events"),
        "from": None if span is None else span[0],
        "to": None if span is None else span[1],
        "arrivals": dict(arrivals) or None,
        "retained": dict(retained) or None,
        "slices": [" and ".join(names) for names in given["slices"]] or None,
        "slices_kept": len(loaded.slices()) if given["slices"] else None,
        "slices_overflowed": loaded.slices_overflowed or None,
        "states": sorted(kept),
        "distinct_scores": first.total.distinct_scores or None,
        "max_scores": given.get("max_scores"),
        "shards": loaded.provenance,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _words(name: str, value: Any) -> str:
    if name == "shards":
        value = [
            *(
                str(Shard(shard, epoch, *sequence))
                for shard, epoch, *borders in value["shards"]
                for sequence in zip(borders[::2], borders[1::2], strict=True)
            ),
            *(f"content {content[:16]}" for content in value["contents"]),
        ]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        more = f" and {len(value) - _LISTED:,} more" if len(value) > _LISTED else ""
        return ", ".join(map(str, value[:_LISTED])) + more
    if isinstance(value, int):
        return f"{value:,}"
    return describe(value) if isinstance(value, dict) else str(value)


def _bytes_by_part(unpacked: Unpacked) -> dict[str, int]:
    """The bytes of the arrays of each state, of the total and of slices, and all the rest."""
    sizes: Counter[str] = Counter()

    def add(value: Any, where: str, state: str) -> None:
        if isinstance(value, np.ndarray):
            sizes[f"{where} {state}".strip()] += value.nbytes
        elif isinstance(value, dict):
            for key, inner in value.items():
                add(inner, where, key if key in STATES and not state else state)
        elif isinstance(value, list):
            for inner in value:
                add(inner, where, state)

    for key, value in unpacked.data.items():
        add(value, "slices:" if key == "slices" else "total:", "")
    found = dict(sorted(sizes.items(), key=lambda pair: -pair[1]))
    return {**found, "header and the rest": unpacked.size - sum(found.values())}
