"""The snapshot that a run publishes after each checkpoint: immutable and typed.

The structs are the one definition of a snapshot: the HTTP API, the stream of events, the
dashboard, Prometheus and the alerts read their attributes, and ``openapi.json`` and the
dashboard's types are generated from them (``python -m tests.support.write_schema``).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from streameval.evaluator.reports import ReportRow
from streameval.metrics.curves import EVERY_SERVED_CURVE
from streameval.service.sources.raw import LagUnit, Position
from streameval.tasks.registry import task_names
from streameval.uncertainty.differences import Side
from streameval.windows.kinds import KINDS


def note(text: str | None = None, *, served: bool = False, **schema: Any) -> Meta:
    """A field's description, and what else its JSON schema says."""
    return Meta(description=text, extra_json_schema=schema, extra={"served": served})


Time: TypeAlias = Annotated[str, note(format="date-time")]
"""ISO 8601, UTC."""

Label: TypeAlias = str | int | float | bool
Weight: TypeAlias = int | float
Late: TypeAlias = Annotated[
    float | None,
    note(
        "Share of the recent records that were too late; above 0.5: not caught up. Null where "
        "another process counts."
    ),
]
Kind: TypeAlias = Literal["records", "predictions", "labels"]
Task: TypeAlias = Annotated[str, note(enum=list(task_names()))]


class Window(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A window of the settings."""

    name: str
    kind: Annotated[str, note(enum=list(KINDS))]
    spec: str
    immature: Annotated[bool, note("Labels for it are still arriving.")]
    as_of: Annotated[Time, note("Its numbers hold all that was counted until then.")]
    late: Late
    max_scores: Annotated[int | None, note("The limit of distinct scores; null: all are kept.")] = (
        None
    )


class Value(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A metric's value, and its confidence interval where there is one."""

    value: Annotated[float | None, note("Null where undefined; the reason says why.")]
    support: Annotated[Weight, note("Weight of the events that the value is about.")]
    reason: str = ""
    low: Annotated[float | None, note("Lower end of the interval; missing: none, or infinite.")] = (
        None
    )
    high: Annotated[
        float | None, note("Upper end of the interval; missing: none, or infinite.")
    ] = None
    method: Annotated[str, note("How the interval was computed; missing: there is none.")] = ""
    bounds: Annotated[
        list[float] | UnsetType,
        note("Lower and upper: the exact value is between them, always; missing: it is exact."),
    ] = UNSET
    interval_as_of: Annotated[
        Time | UnsetType,
        note("Missing: the interval is of the value's own events; else of those until then."),
    ] = UNSET
    no_interval: Annotated[
        str, note("Why there is no interval; missing: there is, or it is resampled.")
    ] = ""

    @classmethod
    def of(cls, row: ReportRow) -> Value:
        """A row of a report."""
        low, high = ends_of(row)
        found = row.interval
        method = "" if found is None or not found.defined else found.method
        ends = [] if row.bounds is None else [row.bounds.low, row.bounds.high]
        bounds = ends if ends and all(map(math.isfinite, ends)) else UNSET
        missing = "" if found is None or found.defined or math.isnan(row.value) else found.reason
        missing = missing.replace(
            f"there is no interval for {row.metric}", "this metric never has one"
        )
        missing = missing.replace(
            "Evaluator(intervals=True)", "interval_sums = true under [[window]]"
        )
        value, support = finite(row.value), row.support
        return cls(value, support, row.reason, low, high, method, bounds, no_interval=missing)


class Report(Struct, frozen=True, kw_only=True):
    """Every metric of a window, and what the values rest on."""

    task: Task
    positive: Annotated[Label | UnsetType | None, note("Of a binary task.")] = UNSET
    threshold: Annotated[
        Weight | list[list[Label]] | UnsetType | None,
        note("Of a binary or multi-label task; pairs of a label and its own."),
    ] = UNSET
    window: Annotated[dict[str, str | int] | UnsetType, note("Its kind and options.")] = UNSET
    since: Annotated[Time | UnsetType, note("The first event time; missing: all.")] = UNSET
    labels_since: Annotated[Time | UnsetType, note("Of metrics of labels, if later.")] = UNSET
    scores_since: Annotated[Time | UnsetType, note("Of metrics of scores, if later.")] = UNSET
    slices_since: Annotated[dict[str, Time] | UnsetType, note("By slice key, if later.")] = UNSET
    level: Annotated[float | UnsetType, note("Of the intervals; missing: there are none.")] = UNSET
    references: Annotated[
        dict[str, dict[str, float | None]] | UnsetType,
        note("Metrics of the states that alerts compare with, by file; missing: there are none."),
    ] = UNSET
    metrics: dict[str, Value]


class Curve(Struct, frozen=True, forbid_unknown_fields=True):
    """A curve's columns.

    roc: fpr, tpr, threshold. precision_recall: precision, recall, threshold (one shorter).
    calibration: observed, predicted, weight, low, high. residuals: low, high, events.
    actual_vs_predicted: true_low, true_high, predicted_low, predicted_high, events of each square.
    """

    curve: Annotated[str, note(enum=list(EVERY_SERVED_CURVE))]
    reason: Annotated[str, note("Why there are no points; else empty.")]
    columns: dict[str, list[Weight | None]]


class Series(Struct, frozen=True, forbid_unknown_fields=True):
    """Metrics in each pane of a window: columns of one length, the oldest pane first."""

    start: list[Time]
    end: list[Time]
    immature: list[bool]
    support: list[Weight]
    metrics: dict[str, list[float | None]]
    low: Annotated[dict[str, list[float | None]], note("Lower ends of the intervals; null: none.")]
    high: Annotated[dict[str, list[float | None]], note("Upper ends of the intervals; null: none.")]


class ClassRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A class, or a label of sets of labels, and its weights."""

    label: Label
    true: Annotated[Weight, note("Weight of the events of this class.")]
    predicted: Annotated[Weight, note("Weight of the events predicted as this class.")]
    right: Annotated[Weight, note("Weight of the events of which both hold.")]
    metrics: Annotated[
        dict[str, Value] | UnsetType, note("Of one of the largest labels of sets of labels.")
    ] = UNSET


class Confusion(Struct, frozen=True, forbid_unknown_fields=True):
    """The confusion matrix of the largest classes, and every class."""

    labels: Annotated[list[Label], note("None of sets of labels, which have no matrix.")]
    matrix: Annotated[list[list[Weight]], note("Rows are true classes, columns predicted.")]
    left_out: Annotated[int, note("Classes of less support that are not shown.")]
    classes: Annotated[list[ClassRow], note("All classes, the largest first.")]


class Example(Struct, frozen=True, forbid_unknown_fields=True):
    """An event of a cell of the confusion matrix."""

    id: str
    time: Time
    score: Annotated[
        float | None, note("Of a binary task its score, else that of the predicted label.")
    ]


class ExampleCell(Struct, frozen=True, forbid_unknown_fields=True):
    """Some events of a cell of the confusion matrix."""

    true: Label
    predicted: Label
    newest: Annotated[list[Example], note("The newest first.")]
    by_confidence: Annotated[
        list[Example],
        note("Of errors the most confident first; of right ones the least confident."),
    ]


class Slice(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A slice's metrics."""

    slice: dict[str, Label]
    name: str
    support: Weight
    metrics: dict[str, float | None]
    reasons: Annotated[dict[str, str], note("Of the metrics that are undefined.")]
    low: Annotated[dict[str, float], note("Lower ends of the intervals, where there are any.")]
    high: Annotated[dict[str, float], note("Upper ends of the intervals, where there are any.")]
    differs: Annotated[
        dict[str, Side],
        note("Metrics that differ from those of all other events, by a test at 5 %."),
    ]
    models: Annotated[
        dict[str, dict[str, float | None]],
        note("The metrics of every model; missing unless models=all requests them."),
    ] = {}


class ModelDifference(Struct, frozen=True, forbid_unknown_fields=True):
    """A metric of model a less that of model b, on the same events."""

    metric: str
    a: str
    b: Annotated[str, note("The reference.")]
    value: float | None
    low: Annotated[float | None, note("Lower end of the interval; null: none.")]
    high: Annotated[float | None, note("Upper end of the interval; null: none.")]
    p_value: Annotated[float | None, note("Of the hypothesis that there is no difference.")]
    p_adjusted: Annotated[
        float | None,
        note("Adjusted for the other challengers (Holm); of a slice for the other slices (BH)."),
    ]
    method: str
    reason: Annotated[str, note("Why there is no interval and no p-value; else empty.")]


class SliceDifference(Struct, frozen=True, forbid_unknown_fields=True):
    """A slice's difference of two models."""

    slice: Annotated[str, note("The slice's name.")]
    support: Weight
    flagged: Annotated[bool, note("The models differ in it: of those flagged 5 % by chance.")]
    difference: ModelDifference


class ModelComparison(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The models of a window side by side, and their differences from the first one."""

    models: Annotated[list[str], note("The first is the reference.")]
    as_of: Annotated[Time, note("Its numbers hold all that was counted until then.")]
    level: Annotated[float, note("Of the intervals.")]
    values: Annotated[dict[str, dict[str, float | None]], note("By metric, then by model.")]
    differences: list[ModelDifference]
    slice_metric: Annotated[str, note("What slices are compared in; empty: in nothing.")]
    slices: Annotated[list[SliceDifference], note("The most certain first; at most 1,000.")]
    slices_left_out: int


class Drift(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How far predictions are from the reference, by one measure."""

    value: Annotated[float | None, note("Null where undefined; the reason says why.")]
    p_value: Annotated[float | None, note("Of the hypothesis that nothing has drifted.")] = None
    reason: str = ""


class ScoreShares(Struct, frozen=True, forbid_unknown_fields=True):
    """The share of the events in each bin, of the unlabelled predictions and of the reference."""

    edges: Annotated[list[float], note("One more than there are bins; empty for labels.")]
    labels: Annotated[list[Label], note("Of several classes: the predicted label of each bin.")]
    now: list[float]
    reference: Annotated[list[float], note("Empty where there is none.")]


class EstimateCheck(Struct, frozen=True, forbid_unknown_fields=True):
    """How the estimates of a metric compare with its values in the panes whose labels came."""

    panes: Annotated[int, note("Panes with an estimate and a value.")]
    held: Annotated[int, note("Of these, those whose interval had the value.")]
    error: Annotated[float | None, note("Mean of estimate less value; null without panes.")]
    flagged: Annotated[bool, note("More failed than the level allows: do not believe it.")]
    reason: Annotated[str, note("How many failed, in words.")]


class PredictionSeries(Struct, frozen=True, forbid_unknown_fields=True):
    """Predictions in each pane of a window: columns of one length, the oldest pane first."""

    start: list[Time]
    end: list[Time]
    immature: Annotated[list[bool], note("Labels for it are still arriving.")]
    events: list[Weight]
    metrics: Annotated[dict[str, list[float | None]], note("Of the predictions alone.")]
    drift: Annotated[dict[str, list[float | None]], note("By measure; null: undefined.")]
    expected: Annotated[dict[str, list[float | None]], note("By metric; null: undefined.")]
    low: Annotated[dict[str, list[float | None]], note("Lower ends of the expectation.")]
    high: Annotated[dict[str, list[float | None]], note("Upper ends of the expectation.")]


class PredictionReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the predictions of a window say before their labels are there."""

    since: Annotated[Time | None, note("The first event time; null: all are counted.")] = None
    events: Annotated[Weight, note("Weight of all predictions of the window.")]
    start: Annotated[Time | None, note("Of the unlabelled ones; null in a window without panes.")]
    end: Time | None
    unlabelled: Annotated[
        Weight,
        note("Weight of the predictions in panes whose labels are still arriving, which all that "
             "follows is about; in a window without panes of all predictions."),
    ]  # fmt: skip
    metrics: Annotated[dict[str, Value], note("Of the predictions alone, as positive_rate.")]
    reference: Annotated[str, note("What they are compared with; empty where there is nothing.")]
    reference_reason: Annotated[str, note("Why there is no reference; empty where there is.")]
    drift: Annotated[dict[str, Drift], note("By measure; empty without a reference.")]
    expected: Annotated[
        dict[str, Value], note("Metrics as expected once the labels are there, by their names.")
    ]
    checks: Annotated[dict[str, EstimateCheck], note("By expected metric; of windows of panes.")]
    scores: ScoreShares
    series: Annotated[PredictionSeries | None, note("Null in a window without panes.")]


class SourceInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """What the run reads."""

    kind: Annotated[str, note("The source's table of the configuration, as files.")]
    holds: Kind
    name: Annotated[str, note("A path or pattern, a topic, or the path of posts.")]


class Mature(Struct, frozen=True, forbid_unknown_fields=True):
    """What label coverage is measured over: the newest cohorts whose labels are no longer
    waited for."""

    start: Time | None
    end: Time | None
    predictions: int
    labelled: int


class Delay(Struct, frozen=True, forbid_unknown_fields=True):
    """Percentiles of the labels' delay, in seconds."""

    p50: float | None
    p95: float | None
    p99: float | None
    relative_error: Annotated[float, note("By how much a percentile may be too high.")]


class Cohort(Struct, frozen=True, forbid_unknown_fields=True):
    """Predictions of one span of event time."""

    start: Time
    end: Time
    predictions: int
    labelled: int
    expired: int
    coverage: float | None
    immature: bool


class Join(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The label join: counts, coverage, delays and cohorts."""

    predictions: int
    labels: int
    joined: int
    duplicate_predictions: int
    duplicate_labels: int
    corrected: int
    partial_labels: int
    too_late: int
    waiting: int
    labels_waiting: int
    expired: int
    orphans: int
    coverage: Annotated[float | None, note("Share of mature with a label; null without any.")]
    coverage_reason: Annotated[str, note("Why there is no coverage; empty where there is.")]
    mature: Mature
    delay: Delay
    watermark: Annotated[Time | None, note("How far event time has advanced.")]
    cohorts: list[Cohort]
    late: Late


class Partition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a partition has been read."""

    partition: str
    position: Position | None
    lag: Annotated[int | None, note("Left to read; null while not known.")]
    lag_unit: Annotated[LagUnit | None, note("Of lag; null where no source reads it.")]
    problem: Annotated[str, note("Why it cannot be read at present; empty where it can.")]
    missed: Annotated[str, note("What this run left out: the source no longer has it.")]
    records: int
    newest: Time | None


class BadRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """A record that could not be counted."""

    id: int
    at: Time
    partition: str
    kind: Kind
    place: int
    reason: str
    detail: str
    raw: str
    raw_bytes_cut: bool
    replay: Annotated[bool, note("Marked to be read again by the next run.")]


class Quarantine(Struct, frozen=True, forbid_unknown_fields=True):
    """Records that could not be counted: how many, why, and the newest of them."""

    total: int
    kept: int
    reasons: dict[str, int]
    recent: list[BadRecord]


class Checkpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """The last checkpoint."""

    sequence: int
    at: Time
    events: int
    seconds: Annotated[float | None, note("What it took; null where another process made it.")]


State: TypeAlias = Literal["ok", "pending", "firing", "undefined"]


When: TypeAlias = Literal["value", "certain", "anytime"]
"""What of a metric is compared with the bound: its value, its interval, or one that may be
looked at at any time."""


class AlertState(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An alert and its state."""

    name: str
    metric: str
    window: Annotated[str, note("Empty where the metric is of the join.")]
    slice: Annotated[str, note("The slice's name, any, or the groups' key; empty: all events.")]
    state: State
    value: Annotated[float | None, note("Of the metric, or its difference against another.")]
    bound: str
    below: Annotated[float | None, note("The bound, where it fires below it.")]
    above: Annotated[float | None, note("The bound, where it fires above it.")]
    when: When
    against: Annotated[str, note("What is subtracted from the metric; empty: nothing.")]
    model: Annotated[str, note("The model whose metric it is; empty: the only or first one.")] = ""
    level: Annotated[float | None, note("Of the interval; null where there is none.")]
    low: Annotated[float | None, note("Lower end of the interval; null: none, or infinite.")]
    high: Annotated[float | None, note("Upper end of the interval; null: none, or infinite.")]
    method: Annotated[str, note("How the interval was computed; empty: there is none.")]
    p_value: Annotated[
        float | UnsetType, note("Of drift, that nothing has drifted; missing: there is none.")
    ] = UNSET
    slices: Annotated[list[str], note("Those of any beyond the bound; of fairness both groups.")]
    support: Weight
    since: Annotated[Time | None, note("Null before the first value.")]
    reason: str


class Snapshot(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that readers see of a run."""

    sequence: Annotated[int, note("Number of the snapshot; grows with each one.")]
    at: Annotated[Time, note("When it was published.")]
    task: Task
    positive: Label | None
    labels: list[Label]
    level: Annotated[float | None, note("Of the intervals; null: there are none.")]
    windows: list[Window]
    sources: list[SourceInfo]
    reports: dict[str, Report]
    curves: dict[str, dict[str, Curve]]
    confusion: dict[str, Confusion]
    examples: dict[str, list[ExampleCell]] | UnsetType = UNSET
    """By window; missing where none are kept."""
    series: dict[str, Series]
    slices: dict[str, list[Slice]]
    comparison: Annotated[
        dict[str, ModelComparison], note("By window; empty where the run has one model.")
    ] = {}
    predictions: Annotated[
        dict[str, PredictionReport], note("By window; empty where they are not counted.")
    ] = {}
    join: Annotated[Join | None, note("The label join; null without one.", served=True)]
    partitions: Annotated[
        list[Partition], note("How far each partition has been read.", served=True)
    ]
    quarantine: Quarantine
    checkpoint: Checkpoint
    alerts: Annotated[list[AlertState], note("Every alert and its state.", served=True)] = []


OpenedPart: TypeAlias = Literal[
    "reports", "curves", "confusion", "series", "slices", "comparison", "predictions"
]


OpenSlice: TypeAlias = Callable[[Snapshot, str, str, OpenedPart, str, str, str], Snapshot | None]
"""Reads one slice of a run, or another model than the first, which no snapshot holds.

From a window, a slice (empty: all events), the part, a metric, a model (empty: the first) and a
label, of which against all others curves may be, to the snapshot with these numbers in place of the
window's.
"""


class Publisher:
    """Holds the newest snapshot; one thread publishes, others read without locking a state."""

    def __init__(self) -> None:
        self._current: Snapshot | None = None
        self._changed = threading.Condition()
        self.open_slice: OpenSlice | None = None
        """Reads a slice of the run that publishes; None where only snapshots can be read."""

    def publish(self, snapshot: Snapshot) -> None:
        """Replace the newest snapshot and wake the waiting threads."""
        with self._changed:
            self._current = snapshot
            self._changed.notify_all()

    def current(self) -> Snapshot | None:
        """The newest snapshot; None before the first."""
        return self._current

    def wait(self, sequence: int, timeout: float) -> Snapshot | None:
        """The newest snapshot, once its number exceeds ``sequence`` or the timeout has passed."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._current is not None and self._current.sequence > sequence, timeout
            )
            return self._current


def ends_of(row: ReportRow) -> tuple[float | None, float | None]:
    """The ends of a row's interval; None in place of those that there are none of."""
    found = row.interval
    return (None, None) if found is None else (finite(found.low), finite(found.high))


def finite(value: float | None) -> float | None:
    """The value, or None where JSON cannot express it."""
    return value if value is not None and math.isfinite(value) else None
