"""The newest snapshot in Prometheus' text format. The only module that imports its client."""

from __future__ import annotations

import hashlib
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias, cast, get_args

from streameval import __version__
from streameval.errors import MissingExtraError
from streameval.service.http.health import Readiness, seconds_of
from streameval.service.join.counters import COUNTERS, GAUGES
from streameval.service.publish.snapshot import (
    AlertState,
    Join,
    Partition,
    PredictionReport,
    Publisher,
    Quarantine,
    Snapshot,
    State,
    Value,
)

try:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError:
    raise MissingExtraError("serving metrics", package="prometheus-client", extra="serve") from None

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TOTAL = "total"
"""The ``slice`` of a value over all events; a slice's own name has a ``=`` in it."""
_MOST_REASONS = 50
_MOST_PARTITIONS = 1000
_LONGEST = 120
_NOT_SHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_STATES: tuple[str, ...] = get_args(State)

_Sample: TypeAlias = tuple[float, *tuple[str, ...]]
"""A value, and the values of its labels."""
_Row: TypeAlias = tuple[Any, *tuple[str, ...]]
"""A struct with a value, and the values of its labels."""


class MetricsText:
    """Collects the snapshot anew with each scrape, in a registry of its own."""

    def __init__(
        self,
        publisher: Publisher,
        *,
        most_slices: int,
        readiness: Readiness,
        clock: Callable[[], float],
    ) -> None:
        self._publisher = publisher
        self._most_slices = most_slices
        self._readiness = readiness
        self._clock = clock
        self._registry = CollectorRegistry(auto_describe=False)
        # A collector is whatever has collect().
        self._registry.register(cast(Collector, self))
        self._rendering = threading.Lock()
        self._rendered: tuple[object, float, bytes] | None = None

    def text(self) -> bytes:
        """One scrape; those within a second share one text, so that many cost no more than one."""
        with self._rendering:
            newest, now = self._publisher.current(), self._clock()
            known = self._rendered
            if known is not None and known[0] is newest and abs(now - known[1]) < 1:
                return known[2]
            text = generate_latest(self._registry)
            self._rendered = newest, now, text
            return text

    def collect(self) -> Iterator[Metric]:
        """The families of a scrape, for the registry."""
        data = self._publisher.current()
        now = self._clock()
        yield _gauge("build_info", "Which streameval this is", [(1, __version__)], "version")
        ready = not self._readiness.reasons(data, now)
        yield _one("ready", "1 when caught up and checkpointing, as /caughtup", ready)
        if data is None:
            return
        yield from _checkpoint(data, None if self._readiness.following else now)
        yield from _values(data, self._most_slices)
        if data.comparison:
            yield from _comparison(data)
        if data.predictions:
            yield from _predictions(data.predictions)
        yield from _partitions(data.partitions)
        yield from _quarantine(data.quarantine)
        if data.join is not None:
            yield from _join(data.join)
        yield from _alerts(data.alerts)


def _family(
    kind: type[Any], name: str, text: str, samples: Iterable[_Sample], *labels: str
) -> Metric:
    """A metric's samples, each label set once: a second one would void the whole scrape."""
    metric = kind(f"streameval_{name}", text, labels=labels)
    safe: dict[str, str] = {}
    seen = set()
    for value, *texts in samples:
        for label in texts:
            if label not in safe:
                safe[label] = label_text(label)
        values = tuple([safe[label] for label in texts])
        if values not in seen:
            seen.add(values)
            metric.add_metric(values, float(value))
    return cast(Metric, metric)


_gauge = partial(_family, GaugeMetricFamily)
_counter = partial(_family, CounterMetricFamily)


def _one(name: str, text: str, value: float) -> Metric:
    return _gauge(name, text, [(value,)])


def _checkpoint(data: Snapshot, now: float | None) -> Iterator[Metric]:
    """Metrics of the last checkpoint; its age only where the process makes checkpoints itself."""
    # From a store alone one cannot tell an idle run from one that has ended.
    point = data.checkpoint
    at = seconds_of(point.at)
    yield _counter("events", "Events that were counted", [(point.events,)])
    yield _one("checkpoint_sequence", "Number of the last checkpoint", point.sequence)
    yield _one("checkpoint_timestamp_seconds", "When the last checkpoint was made", at)
    if now is not None:
        yield _one("checkpoint_age_seconds", "Time since the last checkpoint", max(0.0, now - at))
    if point.seconds is not None:
        yield _one("checkpoint_duration_seconds", "What the last checkpoint took", point.seconds)
    yield _one("published_sequence", "Number of the snapshot shown here", data.sequence)


def _values(data: Snapshot, most_slices: int) -> Iterator[Metric]:
    rows: list[_Row] = []
    supports: list[_Sample] = []
    left_out: list[_Sample] = []
    for window, report in data.reports.items():
        support = max((row.support for row in report.metrics.values()), default=0)
        supports.append((support, window, TOTAL))
        rows += [(row, name, window, TOTAL) for name, row in report.metrics.items()]
        slices = sorted(data.slices.get(window, []), key=lambda row: (-row.support, row.name))
        for part in slices[:most_slices]:
            supports.append((part.support, window, part.name))
            for name, value in part.metrics.items():
                row = Value(value, 0, low=part.low.get(name), high=part.high.get(name))
                rows.append((row, name, window, part.name))
        left_out.append((max(0, len(slices) - most_slices), window))
    labels = ("window", "slice")
    text = "A metric's value, in its own unit"
    end = "The {} end of a metric's interval; absent where there is none"
    yield from _with_ends("metric", text, end, rows, *labels)
    if data.level is not None:
        yield _one("interval_level", "The level of the intervals", data.level)
    undefined: list[_Sample] = [(1, *texts) for row, *texts in rows if row.value is None]
    yield _gauge("undefined", "1 where a metric has no value", undefined, "metric", *labels)
    yield _gauge("support", "Weight of the events that the metrics are about", supports, *labels)
    immature = [(window.immature, window.name) for window in data.windows]
    text = "1 while labels of the window still arrive"
    yield _gauge("window_immature", text, immature, "window")
    late = _numbers([(row, row.name) for row in data.windows], "late")
    text = "Share of the recent events that were too late"
    yield _gauge("window_late_ratio", text, late, "window")
    text = "Slices beyond serve.max_slices_exposed"
    yield _gauge("slices_left_out", text, left_out, "window")


def _comparison(data: Snapshot) -> Iterator[Metric]:
    rows: list[_Row] = [
        (row, row.metric, name, row.a)
        for name, one in data.comparison.items()
        for row in one.differences
    ]
    text = "A model's metric less that of the first model"
    end = "The {} end of the difference's interval; absent where there is none"
    yield from _with_ends("difference", text, end, rows, "window", "model")


def _predictions(reports: Mapping[str, PredictionReport]) -> Iterator[Metric]:
    def rows(field: str) -> list[_Row]:
        return [
            (row, name, window)
            for window, one in reports.items()
            for name, row in getattr(one, field).items()
        ]

    windows: list[_Row] = [(one, name) for name, one in reports.items()]
    text = "Weight of all predictions of the window"
    yield _gauge("predictions", text, _numbers(windows, "events"), "window")
    text = "Weight of the predictions whose labels still arrive, which drift and the like are about"
    yield _gauge("predictions_unlabelled", text, _numbers(windows, "unlabelled"), "window")
    for family, field, text in (
        ("prediction_metric", "metrics", "A metric of the unlabelled predictions alone"),
        ("expected_metric", "expected", "A metric as expected once the labels are there"),
    ):
        end = f"{text}: the {{}} end of its interval"
        yield from _with_ends(family, text, end, rows(field), "window")
    text = "How far the unlabelled predictions are from the reference; absent where undefined"
    yield _gauge("drift", text, _numbers(rows("drift"), "value"), "measure", "window")
    text = "The p-value of that drift; absent where there is none"
    yield _gauge("drift_p_value", text, _numbers(rows("drift"), "p_value"), "measure", "window")
    text = "1 where more expected values of panes have failed than their level allows"
    failed = _numbers(rows("checks"), "flagged")
    yield _gauge("expected_metric_failed", text, failed, "metric", "window")


def _with_ends(name: str, text: str, end: str, rows: list[_Row], *labels: str) -> Iterator[Metric]:
    """The values of metrics, and the ends of their intervals."""
    labels = ("metric", *labels)
    yield _gauge(name, f"{text}; absent where undefined", _numbers(rows, "value"), *labels)
    for side in ("low", "high"):
        samples = _numbers(rows, side)
        yield _gauge(f"{name}_{side}", end.format(side), samples, *labels)


def _numbers(rows: Iterable[_Row], field: str) -> list[_Sample]:
    """A field of each row that is not None, with the row's labels."""
    return [(value, *labels) for row, *labels in rows if (value := getattr(row, field)) is not None]


def _partitions(partitions: list[Partition]) -> Iterator[Metric]:
    rows = partitions[:_MOST_PARTITIONS]
    read = [(row.records, row.partition) for row in rows]
    yield _counter("records", "Records that were read", read, "partition")
    lag = [(row.lag, row.partition) for row in rows if row.lag is not None]
    yield _gauge("partition_lag", "Records, or bytes of files, left to read", lag, "partition")
    problem = [(bool(row.problem), row.partition) for row in rows]
    yield _gauge("partition_problem", "1 while it cannot be read", problem, "partition")
    newest = [(seconds_of(row.newest), row.partition) for row in rows if row.newest is not None]
    text = "The newest event's time"
    yield _gauge("partition_newest_timestamp_seconds", text, newest, "partition")
    position = [
        (value, row.partition, part)
        for row in rows
        for part, value in (row.position or {}).items()
        if isinstance(value, int)
    ]
    text = "Next to read; one series for each part"
    yield _gauge("partition_position", text, position, "partition", "part")


def _quarantine(quarantine: Quarantine) -> Iterator[Metric]:
    # In the order of their first occurrence, so that a count never moves to "other" and back.
    counts: list[_Sample] = [(count, reason) for reason, count in quarantine.reasons.items()]
    if len(counts) > _MOST_REASONS:
        counts[_MOST_REASONS:] = [(sum(row[0] for row in counts[_MOST_REASONS:]), "(other)")]
    yield _counter("quarantined", "Records that could not be counted", counts, "reason")
    yield _one("quarantine_kept", "Records in quarantine that can be looked at", quarantine.kept)


def _join(join: Join) -> Iterator[Metric]:
    for name, one in COUNTERS.items():
        make = _gauge if name in GAUGES else _counter
        yield make(one.metric, one.help, [(getattr(join, name),)])
    if join.coverage is not None:
        text = "Share of the newest mature predictions with a label; absent without any"
        yield _one("label_coverage_ratio", text, join.coverage)
    mature = join.mature.predictions
    yield _one("label_coverage_support", "Predictions that label_coverage_ratio is about", mature)
    if join.late is not None:
        yield _one("join_late_ratio", "Share of the recent records that were too late", join.late)
    delays = {name: getattr(join.delay, name) for name in ("p50", "p95", "p99")}
    delay = [(value, name) for name, value in delays.items() if value is not None]
    yield _gauge("label_delay_seconds", "Percentiles of the labels' delay", delay, "percentile")


def _alerts(alerts: list[AlertState]) -> Iterator[Metric]:
    states = [(alert.state == state, alert.name, state) for alert in alerts for state in _STATES]
    text = "1 for the state that an alert is in"
    yield _gauge("alert_state", text, states, "alert", "state")
    firing = [
        (alert.state == "firing", alert.name, alert.metric, alert.window, alert.slice or TOTAL)
        for alert in alerts
    ]
    labels = ("alert", "metric", "window", "slice")
    yield _gauge("alert_firing", "1 while an alert fires", firing, *labels)


def label_text(text: str) -> str:
    """A text cut to 120 characters, without characters that control a terminal or a page."""
    # A text that was changed ends with eight digits of its hash: two texts never become equal, for
    # which Prometheus would reject the whole scrape.
    safe = "".join(
        "\ufffd" if unicodedata.category(letter) in _NOT_SHOWN else letter
        for letter in text[:_LONGEST]
    )
    if safe == text:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe} #{digest}"
