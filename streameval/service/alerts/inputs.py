"""The inputs of alerts: a value for each, from the snapshot, the evaluators and the run's counts.

A value that is published is taken from the snapshot. Intervals of an alert's own level, windows
one length earlier and reference files are read from the evaluators, when these have changed and
within a share of the time, as the parts of a snapshot are.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from streameval.errors import InputError, MetricError, StateError
from streameval.evaluator.comparison import Comparison, Difference, Evaluation, reference_of
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.fairness import FAIRNESS
from streameval.evaluator.predictions import drift_between, expected_of
from streameval.evaluator.slices import SliceKey, slice_name, slice_value
from streameval.evaluator.view import View
from streameval.events.time import duration_text, event_time
from streameval.service.config.evaluators import (
    groups_of_alert,
    kept_for,
    open_reference,
    predictions_name,
    window_of_alert,
    window_spec_of,
)
from streameval.service.config.settings import (
    LABEL_COVERAGE,
    LAG,
    LATELY,
    QUARANTINE,
    RUN_METRICS,
    VOLUME,
    AlertSettings,
    PredictedMetric,
    RunSettings,
    level_of_alert,
)
from streameval.service.lateness import MOST_LATE
from streameval.service.publish.builder import (
    MOST_RESAMPLED,
    CachedPart,
    is_resampled,
    resampling_seconds,
)
from streameval.service.publish.predictions import PredictionReports
from streameval.service.publish.snapshot import PredictionReport, Slice, Snapshot, Value, finite
from streameval.uncertainty.differences import bound_p_value, difference
from streameval.uncertainty.drift import Drift
from streameval.uncertainty.interval import Interval
from streameval.uncertainty.multiple_testing import benjamini_hochberg
from streameval.uncertainty.proportions import wilson
from streameval.windows.panes import Panes

log = logging.getLogger(__name__)

_SHARE = 0.05
"""Largest share of the run's time that reading evaluators for all alerts takes."""

_SAMPLES = 100
"""Samples of the run's counts that are kept for each span of the clock."""

_NO_EVENT = "no event of this slice yet"

MOST_SLICES = 100
"""The most slices that an alert on any slice names."""


class AlertInput(NamedTuple):
    """What an alert compares with its bound."""

    value: Value
    slices: tuple[str, ...] = ()
    """The slices beyond the bound of an alert on any slice, the most certain first; of one on
    fairness the groups of the largest and the smallest rate."""
    p_value: float | None = None
    """Of drift, that nothing has drifted; an alert that is certain requires it to be small."""
    failed: bool = False
    """The value is withheld, because former estimates of the metric have failed."""


class _Tested(NamedTuple):
    """A slice of an alert on any slice."""

    name: str
    found: AlertInput
    p_value: float = math.nan
    """That it is within the bound, or of drift that nothing has drifted."""
    beyond: bool = True
    """Its value is beyond the bound."""


class _Sample(NamedTuple):
    at: int
    records: int
    quarantined: int


class AlertInputs:
    """Observes what the alerts of a run compare with their bounds."""

    def __init__(
        self,
        settings: RunSettings,
        evaluators: Mapping[str, Evaluation],
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._evaluators = evaluators
        self._clock = clock
        self._checkpoint = -1
        self._references: dict[str, Evaluator | str] = {}
        predicted = any(PredictedMetric.of(alert.metric) for alert in settings.alert)
        self._predictions = PredictionReports(settings, evaluators, clock) if predicted else None
        self._read: dict[str, CachedPart[AlertInput]] = {}
        for alert in settings.alert:
            if alert.reference is not None and alert.reference not in self._references:
                self._references[alert.reference] = self._reference(alert.reference)
            if _reads_evaluators(alert):
                self._read[alert.name] = CachedPart(
                    partial(self._input_of, alert), partial(self._seconds, alert)
                )
        self._spans = {
            alert.name: (alert.per or LATELY).us
            for alert in settings.alert
            if alert.metric in (VOLUME, QUARANTINE)
        }
        self._samples: deque[_Sample] = deque()

    def _reference(self, path: str) -> Evaluator | str:
        try:
            return open_reference(self._settings, path)
        except StateError as error:
            log.error("alerts cannot compare with a reference: %s", error)
            return str(error)

    def observe(self, snapshot: Snapshot, now: int) -> dict[str, AlertInput]:
        """The input of each alert, by its name."""
        join, wait = snapshot.join, self._settings.join
        if self._predictions is not None and wait is not None and join is not None:
            # No label is waited for up to then, as the snapshot has it.
            known = None if join.watermark is None else event_time(join.watermark) - wait.wait.us
            self._predictions.labelled_until = known
        changed = snapshot.checkpoint.sequence != self._checkpoint
        self._checkpoint = snapshot.checkpoint.sequence
        for part in self._read.values():
            part.stale |= changed
            part.refresh(self._clock, _SHARE / len(self._read), now, force=False)
        self._sample(snapshot, now)
        return {alert.name: self._observed(alert, snapshot, now) for alert in self._settings.alert}

    def _observed(self, alert: AlertSettings, snapshot: Snapshot, now: int) -> AlertInput:
        window = alert.window or self._settings.window[0].name
        join = snapshot.join
        about_join = alert.metric == LABEL_COVERAGE
        if about_join or alert.metric not in RUN_METRICS:
            shares = [row.late for row in snapshot.windows if row.name == window and not about_join]
            shares += [] if join is None else [join.late]
            late = max((share for share in shares if share is not None), default=0.0)
            if late > MOST_LATE:
                reason = f"{late:.0%} of the recent records are too late to be counted"
                return AlertInput(Value(None, 0, reason))
        if alert.metric in RUN_METRICS:
            return AlertInput(self._of_run(alert, snapshot, now))
        predicted = PredictedMetric.of(alert.metric)
        if predicted is not None and predicted.kind == "expected":
            report = snapshot.predictions.get(window)
            check = None if report is None else report.checks.get(predicted.name)
            if check is not None and check.flagged:
                reason = f"former estimates have failed: {check.reason}"
                return AlertInput(Value(None, 0, reason), failed=True)
        if alert.name in self._read:
            return self._read[alert.name].value
        if predicted is not None:
            return _published_prediction(predicted, snapshot.predictions.get(window))
        if alert.slice == "any":
            return self._of_slices(alert, snapshot.slices.get(window, []))
        return AlertInput(_published(alert, window, snapshot))

    def _of_run(self, alert: AlertSettings, snapshot: Snapshot, now: int) -> Value:
        level = level_of_alert(alert, self._settings)
        if alert.metric == LABEL_COVERAGE:
            join = snapshot.join
            if join is None:
                return Value(None, 0, "not published")
            share = Value(join.coverage, join.mature.predictions, join.coverage_reason)
            return _with_wilson(share, level)
        if alert.metric == LAG:
            known = [row.lag for row in snapshot.partitions if row.lag is not None]
            if not known:
                return Value(None, 0, "no partition knows its lag yet")
            return Value(sum(known), len(known))
        span = self._spans[alert.name]
        first = next((one for one in reversed(self._samples) if one.at <= now - span), None)
        if first is None:
            watched = now - self._samples[0].at
            reason = f"watched for {duration_text(watched)}, less than {duration_text(span)}"
            return Value(None, 0, reason)
        newest = self._samples[-1]
        records = newest.records - first.records
        if alert.metric == VOLUME:
            return Value(records, records)
        if not records:
            return Value(None, 0, "no record was read")
        bad = min(records, newest.quarantined - first.quarantined)
        return _with_wilson(Value(bad / records, records), level)

    def _sample(self, snapshot: Snapshot, now: int) -> None:
        """Note the run's counts, and forget those that no alert needs."""
        if not self._spans:
            return
        samples = self._samples
        if samples and now < samples[-1].at:
            samples.clear()  # the clock was set back
        records = sum(row.records for row in snapshot.partitions)
        newest = _Sample(now, records, snapshot.quarantine.total)
        if len(samples) > 1 and now - samples[-2].at < min(self._spans.values()) // _SAMPLES:
            samples.pop()
        samples.append(newest)
        oldest = now - max(self._spans.values())
        while len(samples) > 1 and samples[1].at <= oldest:
            samples.popleft()

    def _of_slices(self, alert: AlertSettings, rows: list[Slice]) -> AlertInput:
        """The published slices beyond the bound."""
        tested = []
        for row in rows:
            if row.support >= alert.min_support and row.metrics.get(alert.metric) is not None:
                found = _interval(row, alert.metric, self._settings)
                p_value = bound_p_value(found, below=alert.below, above=alert.above)
                value = _with_ends(found, found.value, row.support)
                tested.append(_Tested(row.name, AlertInput(value), p_value))
        return self._beyond(alert, tested)

    def _beyond(self, alert: AlertSettings, tested: Sequence[_Tested]) -> AlertInput:
        """The slices beyond the bound, by Benjamini and Hochberg's procedure over all of them."""
        p_values = [one.p_value for one in tested]
        certain = [n for n, p in enumerate(p_values) if not math.isnan(p)]
        if not certain:
            return AlertInput(Value(None, 0, f"no slice of support {alert.min_support} has one"))
        adjusted = benjamini_hochberg(p_values)
        most = 1 - level_of_alert(alert, self._settings)
        ranked = sorted(certain, key=lambda n: (not tested[n].beyond, p_values[n], tested[n].name))
        beyond = [tested[n].name for n in ranked if tested[n].beyond and adjusted[n] <= most]
        return tested[ranked[0]].found._replace(slices=tuple(beyond[:MOST_SLICES]))

    def _seconds(self, alert: AlertSettings) -> float:
        """How many seconds the value takes at least."""
        task = self._settings.evaluator.task
        resampled = any(is_resampled(name, task) for name in kept_for(self._settings, alert))
        if alert.model is not None or not resampled:
            return 0.0
        view = self._view(alert)
        return 0.0 if view is None else resampling_seconds(view)

    def _view(self, alert: AlertSettings) -> View | None:
        """What the alert's window holds of its slice."""
        window = window_of_alert(self._settings, alert)
        return _view_of(reference_of(self._evaluators[window.name]), alert)

    def _input_of(self, alert: AlertSettings) -> AlertInput:
        """What is read from the evaluators for an alert."""
        predicted = PredictedMetric.of(alert.metric)
        if predicted is not None:
            return self._of_predictions(alert, predicted)
        groups = groups_of_alert(self._settings, alert)
        if groups is None:
            return AlertInput(self._value_of(alert))
        window = window_of_alert(self._settings, alert)
        evaluator = reference_of(self._evaluators[window.name])
        level = level_of_alert(alert, self._settings)
        try:
            (row,) = evaluator.fairness(
                groups, [alert.metric], min_support=alert.min_support, level=level
            )
        except MetricError as error:
            return AlertInput(Value(None, 0, str(error)))
        value = _with_ends(row.interval, row.value, row.support, row.reason or row.interval.reason)
        ends = (row.highest, row.lowest)
        return AlertInput(value, tuple(slice_name(one.slice) for one in ends if one is not None))

    def _of_predictions(self, alert: AlertSettings, metric: PredictedMetric) -> AlertInput:
        """What predictions without labels say, of all, of a slice or of any slice."""
        assert self._predictions is not None
        window = window_of_alert(self._settings, alert).name
        model = (self._settings.evaluator.models or [""])[0]
        counted = reference_of(self._evaluators[predictions_name(window, model)])
        sides = partial(self._predictions.sides, window)
        if alert.slice != "any":
            key = _slice_key(counted, alert)
            return self._prediction("", alert, metric, *sides(key or None)).found
        tested = [
            self._prediction(slice_name(key), alert, metric, *sides(key))
            for key in counted.slices()
        ]
        enough = [one for one in tested if one.found.value.support >= alert.min_support]
        return self._beyond(alert, [one for one in enough if one.found.value.value is not None])

    def _prediction(
        self,
        name: str,
        alert: AlertSettings,
        metric: PredictedMetric,
        now: View | None,
        reference: View | None,
        no_reference: str,
    ) -> _Tested:
        """A metric of predictions without labels, and how certainly it is beyond the bound."""
        kind, of = metric
        reason = _NO_EVENT if now is None else "" if kind == "predictions" else no_reference
        if now is None or reason:
            return _Tested(name, AlertInput(Value(None, 0, reason)))
        level, method = level_of_alert(alert, self._settings), _method_of(alert)
        try:
            if kind == "predictions" and alert.when == "value":
                (row,) = now.report([of])
                return _Tested(name, AlertInput(Value.of(row)))
            if kind == "drift":
                assert reference is not None
                drift = drift_between(now, reference, of, method=method, level=level)
                value = Value(finite(drift.value), now.support, drift.reason)
                found = AlertInput(value, p_value=finite(drift.p_value))
                if drift.method == "anytime":
                    found = AlertInput(_with_ends(drift, drift.value, now.support, drift.reason))
                beyond = alert.above is not None and drift.value > alert.above
                return _Tested(name, found, drift.p_value, beyond)
            if kind == "expected":
                assert reference is not None
                interval = expected_of(now, reference, of, level=level)
            else:
                interval = now.interval(of, level=level, method=method)
        except (MetricError, InputError) as error:
            return _Tested(name, AlertInput(Value(None, 0, str(error))))
        value = _with_ends(interval, interval.value, now.support, interval.reason)
        p_value = bound_p_value(interval, below=alert.below, above=alert.above)
        return _Tested(name, AlertInput(value), p_value)

    def _value_of(self, alert: AlertSettings) -> Value:
        """The value of an alert that is read from the evaluators."""
        window = window_of_alert(self._settings, alert)
        if alert.model is not None:
            return self._between_models(self._evaluators[window.name], alert, alert.model)
        view = self._view(alert)
        if view is None:
            return Value(None, 0, _NO_EVENT)
        mine, value = self._interval_of(view, alert)
        if alert.against is None and alert.reference is None:
            return value
        other: View | None
        if alert.reference is not None:
            reference = self._references[alert.reference]
            if isinstance(reference, str):
                return Value(None, 0, reference)
            other, where = _view_of(reference, alert), "the reference"
        else:
            spec = window_spec_of(window, self._settings.join)
            assert isinstance(spec, Panes)
            other, where = view.before(spec.length_us), "the window before"
        if other is None:
            return Value(None, 0, f"{where} has no event of this slice")
        theirs, of_other = self._interval_of(other, alert)
        if mine is None:
            return value
        if theirs is None:
            return Value(None, 0, f"{where}: {of_other.reason}")
        found = difference(mine, theirs)
        support = min(value.support, of_other.support)
        return _with_ends(found, found.value, support, found.reason)

    def _between_models(self, evaluation: Evaluation, alert: AlertSettings, model: str) -> Value:
        """The metric of a model less that of the first one."""
        assert isinstance(evaluation, Comparison)
        key = _slice_key(evaluation, alert)
        view = evaluation.slices().get(key) if key else evaluation.total
        if view is None:
            return Value(None, 0, _NO_EVENT)
        try:
            (mine,), (theirs,) = (
                view[name].report([alert.metric]) for name in (model, view.models[0])
            )
            if alert.when == "value" or mine.reason or theirs.reason:
                value = finite(mine.value - theirs.value)
                return Value(value, mine.support, mine.reason or theirs.reason)
            found = view.difference(
                alert.metric,
                a=model,
                level=level_of_alert(alert, self._settings),
                method=_method_of(alert),
            )
        except MetricError as error:
            return Value(None, 0, str(error))
        return _with_ends(found, found.value, mine.support, found.reason)

    def _interval_of(self, view: View, alert: AlertSettings) -> tuple[Interval | None, Value]:
        """The interval, None where the metric has no value, and what is published of it."""
        level = level_of_alert(alert, self._settings)
        try:
            (row,) = view.report([alert.metric])
            resampled = is_resampled(alert.metric, self._settings.evaluator.task)
            if resampled and view.distinct_scores > MOST_RESAMPLED:
                reason = f"more than {MOST_RESAMPLED:,} distinct scores: too many to resample"
                none = Interval(row.value, math.nan, math.nan, level, "", row.support, reason)
                return none, Value(finite(row.value), row.support, row.reason or reason)
            found = view.interval(alert.metric, level=level, method=_method_of(alert))
        except MetricError as error:
            return None, Value(None, 0, str(error))
        reason = row.reason or found.reason
        if math.isnan(row.value):
            return None, Value(None, row.support, reason)
        return found, _with_ends(found, row.value, row.support, reason)


def _method_of(alert: AlertSettings) -> str:
    return "anytime" if alert.when == "anytime" else "auto"


def _with_ends(
    found: Interval | Difference | Drift, value: float, support: float, reason: str = ""
) -> Value:
    """A value with the ends of an interval; None in place of those that are not finite."""
    return Value(
        finite(value), support, reason, finite(found.low), finite(found.high), found.method
    )


def _reads_evaluators(alert: AlertSettings) -> bool:
    if PredictedMetric.of(alert.metric) is not None:
        return alert.when != "value" or bool(alert.slice)
    compares = any(one is not None for one in (alert.against, alert.reference, alert.model))
    certain = alert.when != "value" and alert.slice != "any"
    return alert.metric not in RUN_METRICS and (compares or certain or alert.metric in FAIRNESS)


def _view_of(evaluator: Evaluator, alert: AlertSettings) -> View | None:
    key = _slice_key(evaluator, alert)
    return evaluator.slices().get(key) if key else evaluator.total


def _slice_key(evaluation: Evaluation, alert: AlertSettings) -> SliceKey:
    """The key of an alert's slice; empty where it is about all events."""
    assert not isinstance(alert.slice, str)
    wanted = {key: slice_value(value) for key, value in alert.slice.items()}
    for names in evaluation.options["slices"]:
        if set(names) == set(wanted):
            return tuple((name, wanted[name]) for name in names)
    # A reference has other slices than the run: no event is in this one.
    return tuple(wanted.items())


def _published(alert: AlertSettings, window: str, snapshot: Snapshot) -> Value:
    """The value in the snapshot."""
    if alert.slice:
        assert not isinstance(alert.slice, str)
        wanted = {key: slice_value(value) for key, value in alert.slice.items()}
        for row in snapshot.slices.get(window, ()):
            if row.slice == wanted:
                reason = row.reasons.get(alert.metric, "")
                return Value(row.metrics.get(alert.metric), row.support, reason)
        return Value(None, 0, _NO_EVENT)
    report = snapshot.reports.get(window)
    value = None if report is None else report.metrics.get(alert.metric)
    return Value(None, 0, "not published") if value is None else value


def _published_prediction(metric: PredictedMetric, report: PredictionReport | None) -> AlertInput:
    """What the snapshot says of predictions without labels."""
    if report is None:
        return AlertInput(Value(None, 0, "not published"))
    if metric.kind != "predictions" and report.reference_reason:
        return AlertInput(Value(None, 0, report.reference_reason))
    if metric.kind == "drift":
        drift = report.drift.get(metric.name)
        if drift is not None:
            value = Value(drift.value, report.unlabelled, drift.reason)
            return AlertInput(value, p_value=drift.p_value)
    values = report.expected if metric.kind == "expected" else report.metrics
    return AlertInput(values.get(metric.name, Value(None, 0, "not published")))


def _with_wilson(share: Value, level: float) -> Value:
    if share.value is None or not share.support:
        return share
    low, high = wilson(share.value * share.support, share.support, level)
    return Value(share.value, share.support, share.reason, low, high, "wilson")


def _interval(row: Slice, metric: str, settings: RunSettings) -> Interval:
    """The published interval of a slice's metric."""
    value, level = row.metrics[metric], settings.intervals
    assert value is not None
    low, high = row.low.get(metric, -math.inf), row.high.get(metric, math.inf)
    if metric not in row.low and metric not in row.high:
        low = high = math.nan
    return Interval(value, low, high, float(level), "published", row.support)
