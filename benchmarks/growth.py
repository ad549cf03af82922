"""Pictures of the cost of an event against size, drawn from the results."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

from matplotlib.figure import Figure

GROWTH = (
    ("growth", "", "distinct scores (River: window)"),
    ("growth_of_windows", "-windows", "events before, or n"),
)
"""Curves of cost against size: key in the JSON, ending of the picture, and what grows."""


def pictures(results: Mapping[str, Any], name: str) -> Iterator[tuple[str, bytes]]:
    """The file name and the SVG of each picture that results have curves for."""
    for key, suffix, sizes in GROWTH:
        if key in results:
            yield f"{name}{suffix}.svg", _drawn(results[key], sizes)


def _drawn(curves: Mapping[str, list[tuple[int, float]]], sizes: str) -> bytes:
    """The curves on log-log axes."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    ax = figure.subplots()
    for name, points in curves.items():
        ax.loglog(*zip(*points, strict=True), marker="o", label=name)
    ax.set_xlabel(sizes)
    ax.set_ylabel("µs of one update and one read of the AUC")
    ax.grid(alpha=0.3, which="both")
    ax.legend()
    file = io.BytesIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()
