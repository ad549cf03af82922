"""One metric over all slices, the worst first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from streameval.errors import InputError, shown
from streameval.events import Weight
from streameval.metrics.registry import METRICS
from streameval.report import html_table, markdown_table, number, text_table, weight
from streameval.slices import SliceKey, slice_name
from streameval.view import View

__all__ = ["SliceReport", "SliceRow", "slice_report"]


class SliceRow(NamedTuple):
    """A slice's value of the metric."""

    slice: SliceKey
    value: float
    reason: str
    support: Weight


@dataclass(frozen=True, slots=True)
class SliceReport:
    """A metric for each slice, worst first; undefined values come last."""

    metric: str
    total: SliceRow
    rows: tuple[SliceRow, ...]
    below_support: int
    """Slices that were left out for want of support."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "metric": self.metric,
            "total": _plain(self.total),
            "slices": [_plain(row) for row in self.rows],
            "below_support": self.below_support,
        }

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        reasons = any(row.reason for row in self.rows)
        header = ["slice", self.metric, "support"] + (["reason"] if reasons else [])
        rows = [
            [slice_name(row.slice), number(row.value), weight(row.support)]
            + ([row.reason] if reasons else [])
            for row in (self.total, *self.rows)
        ]
        return header, rows

    def __str__(self) -> str:
        tail = f"\nleft out for less support: {self.below_support}" if self.below_support else ""
        return text_table(*self._cells(), right=frozenset({2})) + tail

    def to_markdown(self) -> str:
        """A Markdown table."""
        return markdown_table(*self._cells(), right=frozenset({2}))

    def _repr_html_(self) -> str:
        return html_table(*self._cells())


def _plain(row: SliceRow) -> dict[str, Any]:
    return {
        "slice": dict(row.slice),
        "value": row.value if math.isfinite(row.value) else None,
        "support": row.support,
        **({"reason": row.reason} if row.reason else {}),
    }


def slice_report(
    metric: str,
    total: View,
    slices: Mapping[SliceKey, View],
    *,
    min_support: Weight = 1,
    worst: int | None = None,
    best: int | None = None,
) -> SliceReport:
    """Ask every slice the same question.

    Worst is lowest where larger is better, and highest where smaller is.
    ``worst=n`` and ``best=n`` keep the ends of that order; given together,
    both ends. Slices of equal value are in the order of their names.
    """
    for name, number_of in (("worst", worst), ("best", best)):
        if number_of is not None and (type(number_of) is not int or number_of < 0):
            raise InputError(name, expected="a number of slices", got=shown(number_of))
    if not isinstance(min_support, (int, float, np.integer, np.floating)):
        raise InputError("min_support", expected="a number", got=shown(min_support))
    rows = [_row(key, view, metric) for key, view in slices.items()]
    kept = [row for row in rows if row.support >= min_support]
    sign = -1.0 if METRICS[metric].direction == "down" else 1.0
    defined = sorted((r for r in kept if not math.isnan(r.value)), key=lambda r: sign * r.value)
    undefined = [row for row in kept if math.isnan(row.value)]
    if worst is not None or best is not None:
        front, back = worst or 0, best or 0
        if front + back < len(defined):
            defined = defined[:front] + defined[len(defined) - back :]
        undefined = []
    return SliceReport(
        metric, _row((), total, metric), (*defined, *undefined), len(rows) - len(kept)
    )


def _row(key: SliceKey, view: View, metric: str) -> SliceRow:
    (row,) = view.report([metric])
    return SliceRow(key, row.value, row.reason, row.support)
