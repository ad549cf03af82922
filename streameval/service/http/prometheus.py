"""The newest snapshot in Prometheus' text format. The only module that imports its client."""

from __future__ import annotations

import hashlib
import threading
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, cast, get_args

from streameval.errors import MissingExtraError
from streameval.service.alerts.rules import AlertState, State
from streameval.service.http.health import Readiness, seconds_of
from streameval.service.snapshot import Join, Partition, Publisher, Quarantine, Snapshot

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

_JOIN_COUNTERS = {
    "predictions": ("join_predictions", "Predictions that were read"),
    "labels": ("join_labels", "Labels that were read"),
    "joined": ("joined", "Predictions that were joined with their label and counted"),
    "expired": ("join_expired", "Predictions that expired without a label"),
    "orphans": ("join_orphans", "Labels that expired without a prediction"),
    "duplicate_predictions": (
        "join_duplicate_predictions",
        "Predictions of an id that already had one; not counted",
    ),
    "duplicate_labels": (
        "join_duplicate_labels",
        "Labels that were the same as before; not counted again",
    ),
    "corrected": ("join_corrected", "Labels that replaced another one"),
    "too_late": ("join_too_late", "Labels outside the time that predictions wait"),
}


class Exposition:
    """Collects the snapshot anew with each scrape, in a registry of its own.

    Args:
        publisher: Has the snapshots.
        most_slices: Slices of each window that are exposed, those of the largest support.
        readiness: For ``streameval_ready``.
        clock: Seconds since 1970.
        version: streameval's.
    """

    def __init__(
        self,
        publisher: Publisher,
        *,
        most_slices: int,
        readiness: Readiness,
        clock: Callable[[], float],
        version: str,
    ) -> None:
        self._publisher = publisher
        self._most_slices = most_slices
        self._readiness = readiness
        self._clock = clock
        self._version = version
        self._registry = CollectorRegistry(auto_describe=False)
        # A collector is whatever has collect().
        self._registry.register(cast(Collector, self))
        self._rendering = threading.Lock()
        self._rendered: tuple[object, float, bytes] | None = None

    def text(self) -> bytes:
        """One scrape; those within a second share one text, so that many cost no more than one.

        Cost:
            O(windows · (1 + exposed slices) · metrics), some 15 µs a sample.
        """
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
        yield _one("build_info", "Which streameval this is", 1, version=self._version)
        ready = not self._readiness.reasons(data, now)
        yield _one("ready", "1 when caught up and checkpointing, as /readyz", ready)
        if data is None:
            return
        yield from _checkpoint(data, now)
        yield from _values(data, self._most_slices)
        yield from _partitions(data.partitions)
        yield from _quarantine(data.quarantine)
        if data.join is not None:
            yield from _join(data.join)
        yield from _alerts(data.alerts)


class _Family:
    """A metric's samples, each label set once: a second one would void the whole scrape."""

    def __init__(self, kind: type[Any], name: str, text: str, *labels: str) -> None:
        self.metric: Any = kind(f"streameval_{name}", text, labels=labels)
        self._seen: set[tuple[str, ...]] = set()
        self._safe: dict[str, str] = {}

    def add(self, value: float, *labels: str) -> None:
        for label in labels:
            if label not in self._safe:
                self._safe[label] = label_text(label)
        safe = tuple([self._safe[label] for label in labels])
        if safe not in self._seen:
            self._seen.add(safe)
            self.metric.add_metric(safe, float(value))


def _gauge(name: str, text: str, *labels: str) -> _Family:
    return _Family(GaugeMetricFamily, name, text, *labels)


def _counter(name: str, text: str, *labels: str) -> _Family:
    return _Family(CounterMetricFamily, name, text, *labels)


def _one(name: str, text: str, value: float, **labels: str) -> Metric:
    family = _gauge(name, text, *labels)
    family.add(value, *labels.values())
    return cast(Metric, family.metric)


def _count(name: str, text: str, value: float) -> Metric:
    family = _counter(name, text)
    family.add(value)
    return cast(Metric, family.metric)


def _checkpoint(data: Snapshot, now: float) -> Iterator[Metric]:
    point = data.checkpoint
    at = seconds_of(point.at)
    yield _count("events", "Events that were counted", point.events)
    yield _one("checkpoint_sequence", "Number of the last checkpoint", point.sequence)
    yield _one("checkpoint_timestamp_seconds", "When the last checkpoint was made", at)
    yield _one("checkpoint_age_seconds", "Time since the last checkpoint", max(0.0, now - at))
    yield _one("checkpoint_duration_seconds", "What the last checkpoint took", point.seconds)
    yield _one("published_sequence", "Number of the snapshot shown here", data.sequence)


def _values(data: Snapshot, most_slices: int) -> Iterator[Metric]:
    labels = ("window", "slice")
    values = _gauge(
        "metric", "A metric's value, in its own unit; absent where undefined", "metric", *labels
    )
    undefined = _gauge("undefined", "1 where a metric has no value", "metric", *labels)
    support = _gauge("support", "Weight of the events that the metrics are about", *labels)
    immature = _gauge("window_immature", "1 while labels of the window still arrive", "window")
    late = _gauge("window_late_ratio", "Share of the recent events that were too late", "window")
    left_out = _gauge("slices_left_out", "Slices beyond serve.max_slices_exposed", "window")

    def add(name: str, value: float | None, window: str, part: str) -> None:
        if value is None:
            undefined.add(1, name, window, part)
        else:
            values.add(value, name, window, part)

    for described in data.windows:
        window = described.name
        immature.add(described.immature, window)
        late.add(described.late, window)
        metrics = data.reports[window].metrics
        for name, row in metrics.items():
            add(name, row.value, window, TOTAL)
        support.add(max((row.support for row in metrics.values()), default=0), window, TOTAL)
        rows = data.slices.get(window, [])
        kept = sorted(rows, key=lambda row: (-row.support, row.name))[:most_slices]
        left_out.add(len(rows) - len(kept), window)
        for part in kept:
            support.add(part.support, window, part.name)
            for name, value in part.metrics.items():
                add(name, value, window, part.name)
    for family in (values, undefined, support, immature, late, left_out):
        yield cast(Metric, family.metric)


def _partitions(partitions: list[Partition]) -> Iterator[Metric]:
    records = _counter("records", "Records that were read", "partition")
    lag = _gauge("partition_lag", "Records, or bytes of files, left to read", "partition")
    problem = _gauge("partition_problem", "1 while it cannot be read", "partition")
    newest = _gauge("partition_newest_timestamp_seconds", "The newest event's time", "partition")
    position = _gauge(
        "partition_position", "Next to read; one series for each part", "partition", "part"
    )
    for row in partitions[:_MOST_PARTITIONS]:
        name = row.partition
        records.add(row.records, name)
        problem.add(bool(row.problem), name)
        if row.lag is not None:
            lag.add(row.lag, name)
        if row.newest is not None:
            newest.add(seconds_of(row.newest), name)
        for part, value in (row.position or {}).items():
            if isinstance(value, int):
                position.add(value, name, part)
    for family in (records, lag, problem, newest, position):
        yield cast(Metric, family.metric)


def _quarantine(quarantine: Quarantine) -> Iterator[Metric]:
    counted = _counter("quarantined", "Records that could not be counted", "reason")
    # In the order of their first occurrence, so that a count never moves to "other" and back.
    reasons = list(quarantine.reasons.items())
    for reason, count in reasons[:_MOST_REASONS]:
        counted.add(count, reason)
    if len(reasons) > _MOST_REASONS:
        counted.add(sum(count for _, count in reasons[_MOST_REASONS:]), "(other)")
    yield cast(Metric, counted.metric)
    yield _one("quarantine_kept", "Records in quarantine that can be looked at", quarantine.kept)


def _join(join: Join) -> Iterator[Metric]:
    for key, (name, text) in _JOIN_COUNTERS.items():
        yield _count(name, text, getattr(join, key))
    yield _one("join_waiting", "Predictions that wait for their label", join.waiting)
    yield _one("join_labels_waiting", "Labels that wait for their prediction", join.labels_waiting)
    if join.coverage is not None:
        yield _one(
            "label_coverage_ratio",
            "Share of the newest mature predictions with a label; absent without any",
            join.coverage,
        )
    mature = join.mature.predictions
    yield _one("label_coverage_support", "Predictions that label_coverage_ratio is about", mature)
    yield _one("join_late_ratio", "Share of the recent records that were too late", join.late)
    delay = _gauge("label_delay_seconds", "Percentiles of the labels' delay", "percentile")
    for percentile in ("p50", "p95", "p99"):
        value = getattr(join.delay, percentile)
        if value is not None:
            delay.add(value, percentile)
    yield cast(Metric, delay.metric)


def _alerts(alerts: list[AlertState]) -> Iterator[Metric]:
    states = _gauge("alert_state", "1 for the state that an alert is in", "alert", "state")
    firing = _gauge("alert_firing", "1 while an alert fires", "alert", "metric", "window", "slice")
    for alert in alerts:
        for state in _STATES:
            states.add(alert.state == state, alert.name, state)
        part = alert.slice or TOTAL
        firing.add(alert.state == "firing", alert.name, alert.metric, alert.window, part)
    yield cast(Metric, states.metric)
    yield cast(Metric, firing.metric)


def label_text(text: str) -> str:
    """A text cut to 120 characters, without characters that control a terminal or a page.

    Control characters, line ends, marks of writing direction and half surrogates
    become ``\\ufffd``. A text that was changed ends with eight digits of its hash:
    two texts never become equal, for which Prometheus would reject the whole scrape.

    >>> label_text("country=PT")
    'country=PT'
    >>> label_text("a\\nb")
    'a\ufffdb #7e18f737'
    >>> len(label_text("x" * 5000)), label_text("x" * 5000) == label_text("x" * 5001)
    (130, False)
    """
    safe = "".join(
        "\ufffd" if unicodedata.category(letter) in _NOT_SHOWN else letter
        for letter in text[:_LONGEST]
    )
    if safe == text:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe} #{digest}"
