"""Fairness: how far the rates of predictions of the groups of a slice key are apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb, nan
from typing import NamedTuple

from streameval.errors import InputError, MetricError, did_you_mean, listed, shown
from streameval.evaluator.reports import FairnessReport, FairnessRow, GroupRate, some_slices
from streameval.evaluator.slices import MISSING, OTHER, SliceKey, slice_name
from streameval.evaluator.view import View, counts_state
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
    "demographic_parity": ("positive_rate",),
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
    context = total._context
    state = counts_state(context.plan.task, "fairness")
    total._fed(KEPT_METRIC if state == "confusion" else "f1_macro", state)
    own = label_of(total, label)
    weights = {
        key: view._window.current().support(state)
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
    groups = _Groups(views, support, own, name, level, context.undefined, state)
    left_out = tuple(key for key in weights if key not in views)
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
    state: str
    """With the counts of each class or label."""

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
        reason = f"without the undefined {some_slices(without)}" if without else ""
        interval = self._interval(float(exact), found, ratio=metric.ratio)
        value, ends = float(exact), (highest, lowest)
        return FairnessRow(metric.name, value, reason, self.support, interval, *ends)

    def _shares(self, rate: Metric) -> _Shares:
        assert rate.rule is not None
        shares: dict[SliceKey, Fraction] = {}
        missing: dict[SliceKey, str] = {}
        for key, view in self.views.items():
            counts = getattr(view._window.current(), self.state)
            found = one_class_counts(counts, self.label)
            numerator, denominator = rate.rule.parts(*found)
            if denominator:
                shares[key] = Fraction(numerator, denominator)
            else:
                missing[key] = Undefined(rate.rule.reason(*found), self.name).reason
        return _Shares(rate, shares, missing)

    def _apart(self, found: _Shares, *, ratio: bool) -> _Apart | str:
        """How far the rates are apart; or why that is undefined."""
        if len(self.views) < 2:
            return f"one group only: {some_slices(list(self.views))}" if self.views else "no group"
        if len(found.of) < 2:
            key, reason = next(iter(found.missing.items()))
            return f"{slice_name(key)}: {reason}"
        # Of equal rates two different groups.
        high, low = (
            max(found.of, key=found.of.__getitem__),
            min(reversed([*found.of]), key=found.of.__getitem__),
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
        ends: list[tuple[float, float]] = []
        n = 0.0
        for shares in found:
            views = [self.views[key] for key in shares.of]
            rate = replace(shares.rate, state=self.state)
            each = [
                view._interval(rate, view._window.current(), level, positive=self.label)
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
