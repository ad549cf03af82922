"""What differs between two evaluators of different events, with intervals of the differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from streameval.errors import MetricError, StateError, shown
from streameval.evaluator.comparison import Comparison, Difference
from streameval.evaluator.evaluation import different_settings
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.reports import ReportRow, Table, number
from streameval.evaluator.slices import slice_name
from streameval.events.values import Label, Weight
from streameval.metrics.registry import USUAL_METRICS, metric_names
from streameval.metrics.undefined import json_number
from streameval.states.confusion import ConfusionCounts
from streameval.uncertainty.differences import FALSE_DISCOVERIES, bound_p_value, difference
from streameval.uncertainty.interval import Interval, checked_level, hash_of_values, same_values
from streameval.uncertainty.multiple_testing import benjamini_hochberg
from streameval.uncertainty.proportions import wilson

__all__ = ["Change", "Changes", "ComparisonChanges", "change", "changes", "comparison_changes"]


@dataclass(frozen=True, slots=True)
class Change:
    """A value before and after."""

    name: str
    """The metric, the label or the slice."""
    before: float
    """``nan`` where undefined."""
    after: float
    difference: Interval
    """``after - before``; without ends where there is no interval, with the reason."""
    flagged: bool
    """Whether the two differ: the interval excludes 0, or of slices the adjusted p-value is
    at most :data:`~streameval.uncertainty.differences.FALSE_DISCOVERIES`."""

    __eq__ = same_values
    __hash__ = hash_of_values

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "before": json_number(self.before),
            "after": json_number(self.after),
            "difference": json_number(self.difference.value),
            "interval": self.difference.to_dict(),
            "differs": self.flagged,
        }


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between two evaluators."""

    level: float
    support: tuple[Weight, Weight]
    metrics: tuple[Change, ...]
    labels: tuple[Change, ...]
    """The share of each true label."""
    by: str = ""
    """The metric of the slices."""
    slices: tuple[Change, ...] = ()
    """The slices of both, the least p-value first."""
    slices_gone: tuple[str, ...] = ()
    slices_new: tuple[str, ...] = ()
    settings: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """The options that differ."""
    shared: str = ""
    """What events both hold; then the samples are not independent, and there are no intervals."""

    def table(self) -> Table:
        """The metrics as cells."""
        return _table("metric", self.metrics)

    def label_table(self) -> Table:
        """The shares of the true labels as cells."""
        return _table("label", self.labels)

    def slice_table(self) -> Table:
        """The slices as cells."""
        return _table("slice", self.slices)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "level": self.level,
            "support": {"before": self.support[0], "after": self.support[1]},
            "independent": not self.shared,
            **({"shared": self.shared} if self.shared else {}),
            "settings": _settings_data(self.settings),
            "metrics": {one.name: one.to_dict() for one in self.metrics},
            "labels": {one.name: one.to_dict() for one in self.labels},
            "slices": {
                "metric": self.by,
                "slices": {one.name: one.to_dict() for one in self.slices},
                "gone": list(self.slices_gone),
                "new": list(self.slices_new),
            },
        }


def changes(
    before: Evaluator,
    after: Evaluator,
    metrics: Iterable[str] | None = None,
    *,
    level: float = 0.95,
    by: str | None = None,
    shared: str | None = None,
) -> Changes:
    """What differs between evaluators of independent events; `shared`: the events both hold."""
    if shared is None:
        shared = before.shared_events(after)
    checked_level(level)
    if before.task != after.task:
        raise StateError(
            f"evaluators of different tasks cannot be compared: {before.task}, {after.task}"
        )
    if metrics is None:
        known = {row.metric for row in after.report()}
        names = [row.metric for row in before.report() if row.metric in known]
    else:
        names = metric_names(metrics)
    old, new = (one.report(names, intervals=level) for one in (before, after))
    pairs = zip(old, new, strict=True)
    of_metrics = tuple(change(first.metric, first, second, shared) for first, second in pairs)
    usual = USUAL_METRICS["single", before.task][0]
    metric = by or (usual if usual in names or not names else names[0])
    return Changes(
        level,
        (before.total.support, after.total.support),
        of_metrics,
        _labels(before, after, level, shared),
        metric,
        *_slices(before, after, metric, level, shared),
        different_settings(before.options, after.options),
        shared,
    )


def _settings_data(settings: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    return {name: {"before": before, "after": after} for name, (before, after) in settings.items()}


@dataclass(frozen=True, slots=True)
class ComparisonChanges:
    """What differs between two comparisons of the same models."""

    models: Mapping[str, Changes]
    differences: Mapping[str, tuple[Change, ...]]
    """From each challenger to the change of its differences from the reference."""
    settings: Mapping[str, tuple[Any, Any]]
    """The options that differ."""

    @property
    def reference(self) -> Changes:
        """Those of the first model, whose events and labels are those of all."""
        return next(iter(self.models.values()))

    def difference_table(self, model: str) -> Table:
        """The differences of a challenger as cells."""
        return _table("metric", self.differences[model])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        first = self.reference.to_dict()
        for part in ("metrics", "slices"):
            del first[part]
        return {
            **first,
            "settings": _settings_data(self.settings),
            "models": {
                model: {part: of_model.to_dict()[part] for part in ("metrics", "slices")}
                for model, of_model in self.models.items()
            },
            "differences": {
                model: {one.name: one.to_dict() for one in rows}
                for model, rows in self.differences.items()
            },
        }


def comparison_changes(
    before: Comparison,
    after: Comparison,
    metrics: Iterable[str] | None = None,
    *,
    level: float = 0.95,
    by: str | None = None,
) -> ComparisonChanges:
    """What differs between two comparisons of the same models on different events."""
    checked_level(level)
    if before.models != after.models:
        raise StateError(
            f"comparisons of different models cannot be compared: {', '.join(before.models)} "
            f"before and {', '.join(after.models)} after"
        )
    shared = before.shared_events(after)
    old = {row.metric: row.differences for row in before.report(metrics, level=level)}
    new = {row.metric: row.differences for row in after.report(metrics, level=level)}
    names = [name for name in old if name in new]
    return ComparisonChanges(
        {
            model: changes(one, after.evaluators[model], names, level=level, by=by, shared=shared)
            for model, one in before.evaluators.items()
        },
        {
            model: tuple(change(m, _as_row(old[m][n]), _as_row(new[m][n]), shared) for m in names)
            for n, model in enumerate(before.models[1:])
        },
        different_settings(before.options, after.options),
    )


def _as_row(one: Difference) -> ReportRow:
    """A difference as a value with an interval."""
    interval = Interval(one.value, one.low, one.high, one.level, one.method, one.n, one.reason)
    return ReportRow(one.metric, one.value, one.reason, one.n, interval)


def change(name: str, before: ReportRow, after: ReportRow, shared: str) -> Change:
    """The change of a value; both rows have intervals, and `shared` are the events both hold."""
    assert before.interval is not None
    assert after.interval is not None
    found = difference(after.interval, before.interval)
    reason = f"both hold {shared}" if shared else found.reason
    if math.isnan(before.value) or math.isnan(after.value):
        reason = after.reason or before.reason
    if reason or not found.defined:
        found = _without_ends(after.value - before.value, found.level, found.n, reason)
    flagged = found.defined and not found.low <= 0 <= found.high
    return Change(name, before.value, after.value, found, flagged)


def _labels(before: Evaluator, after: Evaluator, level: float, shared: str) -> tuple[Change, ...]:
    try:
        old, new = before.confusion, after.confusion
    except MetricError:  # no labels are kept
        return ()
    if not old.total or not new.total:
        return ()
    # A list of all labels is made anew at each read of `labels`.
    labels = dict.fromkeys([*old.labels, *new.labels])
    shares = zip(labels, _shares(old, labels, level), _shares(new, labels, level), strict=True)
    return tuple(change(str(label), one, other, shared) for label, one, other in shares)


def _shares(counts: ConfusionCounts, labels: Iterable[Label], level: float) -> list[ReportRow]:
    """The share of each true label; 0 where these counts do not have it."""
    known, total = frozenset(counts.labels), counts.total
    rows = []
    for label in labels:
        part = counts.true_count(label) if label in known else 0
        value = part / total
        found = _without_ends(value, level, total, "weights are not whole")
        if counts.exact:
            found = Interval(value, *wilson(part, total, level), level, "wilson", total)
        rows.append(ReportRow("share", value, "", total, found))
    return rows


def _without_ends(value: float, level: float, n: float, reason: str) -> Interval:
    return Interval(value, math.nan, math.nan, level, "", n, reason)


def _slices(
    before: Evaluator, after: Evaluator, metric: str, level: float, shared: str
) -> tuple[tuple[Change, ...], tuple[str, ...], tuple[str, ...]]:
    first, second = before.slices(), after.slices()
    found = []
    for key in filter(second.__contains__, first):
        (old,), (new,) = (views[key].report([metric], intervals=level) for views in (first, second))
        found.append(change(slice_name(key), old, new, shared))
    adjusted = benjamini_hochberg([_p_value(one.difference) for one in found])
    ordered = sorted(
        zip(adjusted, found, strict=True),
        key=lambda pair: (math.isnan(pair[0]), pair[0], -abs(pair[1].difference.value)),
    )
    flagged = tuple(replace(one, flagged=p <= FALSE_DISCOVERIES) for p, one in ordered)
    gone = tuple(slice_name(key) for key in first if key not in second)
    added = tuple(slice_name(key) for key in second if key not in first)
    return flagged, gone, added


def _p_value(interval: Interval) -> float:
    """The two-sided p-value of "there is no difference"."""
    below, above = (0.0, None) if interval.value < 0 else (None, 0.0)
    return min(1.0, 2 * bound_p_value(interval, below=below, above=above))


def _table(name: str, rows: Iterable[Change]) -> Table:
    header = [name, "before", "after", "difference", "low", "high", "differs"]
    cells, reasons = [], []
    for one in rows:
        values = [number(one.before), number(one.after)]
        ends = one.difference.value, one.difference.low, one.difference.high
        values += [f"{value:.6g}" for value in ends]
        cells.append([one.name, *values, "yes" if one.flagged else ""])
        reasons.append(one.difference.reason)
    if len(set(reasons)) > 1:
        header.append("reason")
        cells = [[*line, reason] for line, reason in zip(cells, reasons, strict=True)]
    return Table(header, cells)


def describe(value: Any) -> str:
    """A setting as a line shows it, such as ``kind last, n 10``; ``none`` for an empty one."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {describe(one)}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(describe, value)) or "none"
    return "none" if value is None else shown(value)[1:-1] if isinstance(value, str) else str(value)
