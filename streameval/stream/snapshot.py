"""The metrics of a snapshot, out of the run's evaluators, within a share of its time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from streameval.errors import MetricError
from streameval.evaluator import Evaluator
from streameval.event_time import iso_time
from streameval.report import ReportRow
from streameval.slices import slice_name
from streameval.stream.config.evaluators import main_metrics, window_kind, window_spec_text
from streameval.stream.config.settings import RunSettings
from streameval.stream.evolution import Begins, note_begins
from streameval.stream.lateness import LateShare
from streameval.view import PaneReports, View

__all__ = ["Snapshots"]

_CURVE_POINTS = 500
_CLASSES = 100
_SHARE = 0.2
"""Most of the run's time that all parts together take."""


class _Part:
    """Something that is computed anew when it has changed and enough time has passed."""

    __slots__ = ("_at", "_cost", "_make", "as_of", "stale", "value")

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._at = -math.inf
        self._cost = 0.0
        self.stale = True
        self.value: Any = None
        self.as_of = 0
        """Microseconds since 1970: the value holds all that was counted until then."""

    def refresh(self, clock: Callable[[], float], share: float, now: int, *, force: bool) -> None:
        """Compute it, if it is stale and its last cost is less than its share of the time since."""
        begun = clock()
        if self.stale and (force or self._cost <= share * (begun - self._at)):
            self.value = self._make()
            self._at = clock()
            self._cost = self._at - begun
            self.stale = False
        if not self.stale:
            self.as_of = now


class Snapshots:
    """Makes the part of a snapshot that is about metrics.

    Every part that is dear (totals, slices, series) is made anew when it can be
    within its share of a fifth of the time; between, the last one is shown. The report,
    curves and confusion of a window are one part, so they always agree.

    Args:
        settings: The run's.
        evaluators: The run's, by window.
        begins: From when on parts of the windows hold events.
        clock: Seconds, only ever forward.
    """

    def __init__(
        self,
        settings: RunSettings,
        evaluators: Mapping[str, Evaluator],
        begins: Begins,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._evaluators = evaluators
        self._begins = begins
        self._clock = clock
        self._wanted = main_metrics(settings)
        self._panes: dict[str, PaneReports] = {}
        self._parts: dict[str, dict[str, _Part]] = {
            "totals": {},
            "series": {},
            "slices": {},
        }
        for window in settings.window:
            name, evaluator = window.name, evaluators[window.name]
            made: dict[str, Callable[[], Any]] = {
                "totals": partial(self._totals, name),
                "slices": partial(self._slices, evaluator),
            }
            if window_kind(window) == "panes":
                made["series"] = partial(self._series, name, evaluator)
            for part, make in made.items():
                self._parts[part][name] = _Part(make)
        self._all = [part for parts in self._parts.values() for part in parts.values()]
        # Half of the time is for the totals, which are what people wait for.
        totals = self._parts["totals"].values()
        others = len(self._all) - len(totals)
        self._shares = [
            (part, _SHARE / 2 / (len(totals) if part in totals else others)) for part in self._all
        ]
        self._sources = _sources(settings)

    def changed(self) -> None:
        """Something was counted."""
        for part in self._all:
            part.stale = True

    @property
    def stale(self) -> bool:
        """Whether some part does not show all that was counted."""
        return any(part.stale for part in self._all)

    def build(
        self,
        *,
        now: int,
        waiting: bool,
        settled: int | None,
        late: Mapping[str, LateShare],
        force: bool = False,
    ) -> dict[str, Any]:
        """Plain data.

        Args:
            now: Microseconds since 1970.
            waiting: Whether labels are being waited for.
            settled: Up to which moment no more labels will come; None: unknown.
            late: By window, which part of the recent events it dropped.
            force: Make everything anew that has changed, whatever it costs.
        """
        for part, share in self._shares:
            part.refresh(self._clock, share, now, force=force)
        given = self._settings.evaluator
        first = next(iter(self._evaluators.values()))
        data: dict[str, Any] = {
            "task": given.task,
            "positive": first.labels[1] if given.task == "binary" else None,
            "labels": first.labels,
            "windows": [
                {
                    "name": window.name,
                    "kind": window_kind(window),
                    "spec": window_spec_text(window) + self._since(window.name),
                    "immature": waiting,
                    "as_of": iso_time(self._parts["totals"][window.name].as_of),
                    "late": late[window.name].value,
                }
                for window in self._settings.window
            ],
            "sources": self._sources,
        }
        totals = self._parts["totals"]
        for name in ("reports", "curves", "confusion"):
            data[name] = {window: part.value[name] for window, part in totals.items()}
        for name in ("series", "slices"):
            data[name] = {window: part.value for window, part in self._parts[name].items()}
        # Whether a pane is mature changes with time, while its values stay.
        data["series"] = {
            window: {
                **series,
                "start": list(map(iso_time, series["start"])),
                "end": list(map(iso_time, series["end"])),
                "immature": [settled is None or end > settled for end in series["end"]],
            }
            for window, series in data["series"].items()
        }
        return data

    def _since(self, window: str) -> str:
        return note_begins(self._begins, window, self._evaluators[window])

    def _totals(self, window: str) -> dict[str, Any]:
        self._since(window)  # a window moves on, past the panes that are missing
        evaluator = self._evaluators[window]
        return {
            "reports": evaluator.report().to_dict(),
            "curves": _curves(evaluator.total),
            "confusion": _confusion(evaluator.total),
        }

    def _names(self, view: View) -> list[str]:
        """The wanted metrics that can be answered with what was fed."""
        names = []
        for name in self._wanted:
            try:
                view.report([name])
            except MetricError:
                continue
            names.append(name)
        return names

    def _series(self, window: str, evaluator: Evaluator) -> dict[str, Any]:
        # All that has a tile, so that each can be drawn over time; the report is made first.
        reported = self._parts["totals"][window].value["reports"]["metrics"]
        names = list(dict.fromkeys([*reported, *self._names(evaluator.total)]))
        known = self._panes.get(window, {})
        if any(len(rows) != len(names) for _, rows in known.values()):
            known = {}  # what is fed has changed: scores came beside labels
        reports = self._panes[window] = evaluator.total.pane_reports(names, known)
        marks = [mark for mark, _ in reports.values()]
        rows = [rows for _, rows in reports.values()]
        return {
            "start": [mark.start for mark in marks],
            "end": [mark.end for mark in marks],
            "support": [max((row.support for row in pane), default=0) for pane in rows],
            "metrics": {
                name: [_finite(pane[place].value) for pane in rows]
                for place, name in enumerate(names)
            },
        }

    def _slices(self, evaluator: Evaluator) -> list[dict[str, Any]]:
        names = self._names(evaluator.total)
        found = []
        for key, view in evaluator.slices().items():
            rows = _rows(view, names)
            found.append(
                {
                    "slice": dict(key),
                    "name": slice_name(key),
                    "support": max((row.support for row in rows), default=0),
                    "metrics": {row.metric: _finite(row.value) for row in rows},
                    "reasons": {row.metric: row.reason for row in rows if row.reason},
                }
            )
        return found


def _sources(settings: RunSettings) -> list[dict[str, str]]:
    """What the run reads: its kind, which records it holds, and its name there."""
    return [
        {"kind": table, "holds": holds, "name": name}
        for table, source in settings.sources.items()
        for holds, names in source.names().items()
        for name in names
    ]


def _rows(view: View, names: Sequence[str]) -> Sequence[ReportRow]:
    try:
        return view.report(names).rows
    except MetricError:  # this slice was fed less than the total
        return view.report().rows


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _curves(view: View) -> dict[str, Any]:
    curves = {}
    for name in ("roc", "precision_recall", "calibration"):
        try:
            curves[name] = _thinned(view.curve(name)).to_dict()
        except MetricError:
            continue
    return curves


def _thinned(curve: Any) -> Any:
    """The curve with at most 500 points: both ends, and others evenly between."""
    columns = {
        field.name: column
        for field in dataclasses.fields(curve)
        if isinstance(column := getattr(curve, field.name), np.ndarray)
    }
    length = max(map(len, columns.values()), default=0)
    if length <= _CURVE_POINTS:
        return curve
    kept = np.unique(np.linspace(0, length - 1, _CURVE_POINTS).astype(np.int64))
    # Precision and recall have a last point more than there are thresholds.
    thin = {name: column[kept[kept < len(column)]] for name, column in columns.items()}
    return dataclasses.replace(curve, **thin)


def _confusion(view: View) -> dict[str, Any]:
    try:
        counts = view.confusion
    except MetricError:
        return {"labels": [], "matrix": [], "left_out": 0, "classes": []}
    cells = list(counts.cells())
    rows: dict[Any, dict[str, Any]] = {
        label: {"label": label, "true": 0, "predicted": 0, "right": 0} for label in counts.labels
    }
    for true, predicted, weight in cells:
        rows[true]["true"] += weight
        rows[predicted]["predicted"] += weight
        if true == predicted:
            rows[true]["right"] += weight
    classes = sorted(rows.values(), key=lambda row: -(row["true"] + row["predicted"]))
    largest = {row["label"] for row in classes[:_CLASSES]}
    labels = [label for label in counts.labels if label in largest]
    places = {label: n for n, label in enumerate(labels)}
    matrix: list[list[Any]] = [[0] * len(labels) for _ in labels]
    for true, predicted, weight in cells:
        if true in places and predicted in places:
            matrix[places[true]][places[predicted]] += weight
    return {
        "labels": labels,
        "matrix": matrix,
        "left_out": len(rows) - len(labels),
        "classes": classes,
    }
