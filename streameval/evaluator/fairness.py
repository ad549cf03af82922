"""Fairness: how far the rates of predictions of the groups of a slice key are apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb, nan
from typing import Any, NamedTuple

from streameval.errors import InputError, MetricError, did_you_mean, listed, shown
from streameval.evaluator.reports import TableOfRows, plain_value, value_cells, value_columns
from streameval.evaluator.slices import MISSING, OTHER, SliceKey, slice_name
from streameval.evaluator.view import View
from streameval.events.values import Label, Weight, canonical_label
from streameval.metrics.averages import exact_sum, one_class_counts
from streameval.metrics.metric import Metric, row_named
from streameval.metrics.registry import METRICS, metric_names
from streameval.metrics.undefined import Undefined, reason_of, undefined_value
from streameval.uncertainty.differences import range_ends, ratio_ends
from streameval.uncertainty.interval import Interval

KEPT_METRIC = "accuracy"
"""The metric that keeps what these need in an evaluator of ``metrics=``, of either task."""


class FairnessMetric(NamedTuple):
    """A row of the registry: a difference, which is 0 if all groups are alike, or a ratio of 1."""

    name: str
    """As Fairlearn spells it."""
    rates: tuple[Metric, ...]
    """The shares that are compared; of two, the one that differs more counts."""
    ratio: bool


_RATES = {
    "demographic_parity": ("selection_rate",),
    "equal_opportunity": ("recall",),
    "predictive_equality": ("fpr",),
    "equalized_odds": ("recall", "fpr"),
}
FAIRNESS: Mapping[str, FairnessMetric] = {
    f"{name}_{kind}": FairnessMetric(
        f"{name}_{kind}", tuple(METRICS[rate] for rate in rates), kind == "ratio"
    )
    for name, rates in _RATES.items()
    for kind in ("difference", "ratio")
}
"""From the name of each metric of fairness to its row, in the order of reports."""


class GroupRate(NamedTuple):
    """A group and its rate."""

    slice: SliceKey
    rate: str
    """``"selection_rate"``, ``"recall"`` or ``"fpr"``."""
    value: float

    def __str__(self) -> str:
        return f"{slice_name(self.slice)}: {self.value:.4g}"


class FairnessRow(NamedTuple):
    """A metric of fairness, and the two groups that make it."""

    metric: str
    value: float
    """``nan`` where undefined."""
    reason: str
    """Why the value is undefined, or which groups it is without; else empty."""
    support: Weight
    """Weight of the events of the groups."""
    interval: Interval
    highest: GroupRate | None = None
    """The group of the largest rate; None where the value is undefined."""
    lowest: GroupRate | None = None
    bounds: None = None
    """As rows of other reports; no rate is of the ranking of scores."""


@dataclass(frozen=True, slots=True, repr=False)
class FairnessReport(TableOfRows[FairnessRow]):
    """The metrics of fairness over the groups of a slice key, each with its interval.

    Iterating gives its :class:`FairnessRow` s; ``report["demographic_parity_ratio"]`` is a value.
    """

    by: tuple[str, ...]
    """The slice key, or the keys of a combination."""
    label: Label
    """The class whose predictions are compared; the positive one of a binary task."""
    level: float
    groups: tuple[SliceKey, ...]
    left_out: tuple[SliceKey, ...]
    """Slices of less support, and those that are no group: ``(missing)`` and ``(other)``."""
    rows: tuple[FairnessRow, ...]
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What the numbers depend on, as in a :class:`~streameval.evaluator.reports.Report`."""

    @property
    def by_name(self) -> Mapping[str, FairnessRow]:
        """From each metric's name to its row."""
        return {row.metric: row for row in self.rows}

    def __getitem__(self, metric: str) -> float:
        return self.by_name[metric].value

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: undefined values are None with their reason."""
        metrics: dict[str, Any] = {}
        for row in self.rows:
            metrics[row.metric] = found = plain_value(row)
            for name, group in (("highest", row.highest), ("lowest", row.lowest)):
                if group is not None:
                    found[name] = {**group._asdict(), "slice": dict(group.slice)}
        return {
            "by": list(self.by),
            "label": self.label,
            **self.notes,
            "level": self.level,
            "groups": [dict(key) for key in self.groups],
            "left_out": [dict(key) for key in self.left_out],
            "metrics": metrics,
        }

    @property
    def without(self) -> str:
        """Which slices are left out, in words; empty where none is."""
        return f"left out: {_some(self.left_out)}" if self.left_out else ""

    def _names(self) -> dict[str, list[str]]:
        return {
            "metric": [row.metric for row in self.rows],
            "highest": [str(row.highest or "") for row in self.rows],
            "lowest": [str(row.lowest or "") for row in self.rows],
        }

    def _cells(self, *, short: bool = False) -> tuple[list[str], list[list[str]]]:
        return value_cells(self._names(), "value", self.rows, short=short)

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        return value_columns(self._names(), self.rows)

    def __str__(self) -> str:
        # Not super(), which knows the class as it was before it had slots.
        return "\n".join(filter(None, (TableOfRows.__str__(self), self.without)))


def _some(keys: Sequence[SliceKey]) -> str:
    names = "; ".join(map(slice_name, keys[:5]))
    return names if len(keys) <= 5 else f"{names} and {len(keys) - 5} more"


def fairness_report(
    total: View,
    slices: Mapping[SliceKey, View],
    kinds: Sequence[tuple[str, ...]],
    by: str | Iterable[str],
    metrics: Iterable[str] | None,
    label: object,
    min_support: Weight,
    level: float,
) -> FairnessReport:
    """The report over the slices of one of these kinds, whose keys are given in any order."""
    names = [by] if isinstance(by, str) else listed(by, "by", "a slice key, or several")
    kind = next((kind for kind in kinds if set(kind) == set(names)), None)
    if kind is None:
        known, got = ["+".join(one) for one in kinds], "+".join(map(str, names))
        raise InputError(
            "by",
            expected=f"slices of this evaluator: {', '.join(known) or 'it has none'}",
            got=shown(got),
            remedy=did_you_mean(got, known) or f"pass slices=[{shown(got)}] to the Evaluator",
        )
    given = FAIRNESS if metrics is None else metric_names(metrics)
    rows = [row_named("metric of fairness", name, FAIRNESS) for name in given]
    total._fed(KEPT_METRIC, "confusion")
    context, own = total._context, label_of(total, label)
    weights = {
        key: view._window.current().support("confusion")
        for key, view in slices.items()
        if tuple(name for name, _ in key) == kind
    }
    # A slice whose events have all left the window has no weight.
    weights = {key: weight for key, weight in weights.items() if weight}
    kept = tuple(
        key
        for key, weight in weights.items()
        if weight >= min_support and not {MISSING, OTHER}.intersection(dict(key).values())
    )
    name = context.names().get(own, own)
    support = exact_sum([weights[key] for key in kept])
    views = {key: slices[key] for key in kept}
    groups = _Groups(views, support, own, name, level, context.undefined)
    left_out = tuple(key for key in weights if key not in set(kept))
    found = tuple(map(groups.row, rows))
    return FairnessReport(kind, name, level, kept, left_out, found, context.notes)


def label_of(view: View, given: object) -> Label:
    """The class whose predictions are compared, as the states count it."""
    context, known = view._context, view.labels
    some = ", ".join(map(shown, known[:5])) + (", …" if len(known) > 5 else "")
    if given is None:
        if context.positive is None:
            raise MetricError(f"fairness is about one class: pass label=, one of {some}")
        return context.positive
    label = canonical_label(given, "label")
    if known and label not in known:
        near = did_you_mean(str(label), known)
        raise InputError("label", expected=f"one of {some}", got=shown(given), remedy=near)
    return {own: code for code, own in context.names().items()}.get(label, label)


class _Shares(NamedTuple):
    """A rate of each group."""

    rate: Metric
    of: Mapping[SliceKey, Fraction]
    missing: Mapping[SliceKey, str]
    """The groups without such a rate, and why."""


class _Apart(NamedTuple):
    """How far rates are apart, and between which groups."""

    value: Fraction
    highest: GroupRate
    lowest: GroupRate


@dataclass(frozen=True, slots=True)
class _Groups:
    """The views of the groups that are compared, and the class whose predictions are."""

    views: Mapping[SliceKey, View]
    support: Weight
    label: Label
    """As the states count it."""
    name: Label
    """The user's name of it."""
    level: float
    undefined: float | None
    """The number for undefined values."""

    def row(self, metric: FairnessMetric) -> FairnessRow:
        """The value of a metric, with its interval."""
        found = [self._shares(rate) for rate in metric.rates]
        apart: list[_Apart] = []
        for shares in found:
            one = self._apart(shares, ratio=metric.ratio)
            if isinstance(one, str):
                none = Interval(nan, nan, nan, self.level, "", self.support, one)
                value = undefined_value(one, self.undefined)
                reason = reason_of(value)
                return FairnessRow(metric.name, float(value), reason, self.support, none)
            apart.append(one)
        exact, highest, lowest = (min if metric.ratio else max)(apart, key=lambda one: one.value)
        without = list(dict.fromkeys(key for shares in found for key in shares.missing))
        reason = f"without the undefined {_some(without)}" if without else ""
        interval = self._interval(float(exact), found, ratio=metric.ratio)
        value, ends = float(exact), (highest, lowest)
        return FairnessRow(metric.name, value, reason, self.support, interval, *ends)

    def _shares(self, rate: Metric) -> _Shares:
        assert rate.rule is not None
        shares: dict[SliceKey, Fraction] = {}
        missing: dict[SliceKey, str] = {}
        for key, view in self.views.items():
            found = one_class_counts(view._window.current().confusion, self.label)
            numerator, denominator = rate.rule.parts(*found)
            if denominator:
                shares[key] = Fraction(numerator, denominator)
            else:
                missing[key] = Undefined(rate.rule.reason(*found), self.name).reason
        return _Shares(rate, shares, missing)

    def _apart(self, found: _Shares, *, ratio: bool) -> _Apart | str:
        """How far the rates are apart; or why that is undefined."""
        if len(self.views) < 2:
            return f"one group only: {_some(list(self.views))}" if self.views else "no group"
        if len(found.of) < 2:
            key, reason = next(iter(found.missing.items()))
            return f"{slice_name(key)}: {reason}"
        # Of equal rates two different groups.
        high, low = (
            max(found.of, key=found.of.__getitem__),
            min(reversed(found.of), key=found.of.__getitem__),
        )
        most, least = found.of[high], found.of[low]
        if ratio and not most:
            return f"the {found.rate.name} of every group is 0"
        ends = (GroupRate(key, found.rate.name, float(found.of[key])) for key in (high, low))
        return _Apart(least / most if ratio else most - least, *ends)

    def _interval(self, value: float, found: Sequence[_Shares], *, ratio: bool) -> Interval:
        # Bonferroni's inequality: the intervals of all pairs of groups hold at once.
        pairs = sum(comb(len(shares.of), 2) for shares in found)
        level = 1 - (1 - self.level) / pairs
        ends, n = [], 0.0
        for shares in found:
            views = [self.views[key] for key in shares.of]
            each = [
                view._interval(shares.rate, view._window.current(), level, positive=self.label)
                for view in views
            ]
            n += sum(one.n for one in each)
            for one in each:
                if not one.defined:
                    return Interval(value, nan, nan, self.level, "", n, one.reason)
            ends.append(ratio_ends(each) if ratio else range_ends(each))
        low, high = map(min if ratio else max, zip(*ends, strict=True))
        method = f"{'mover_r' if ratio else 'mover'} of {each[0].method}"
        # Rounding must not move an end beyond the value.
        return Interval(value, min(low, value), max(high, value), self.level, method, n)
