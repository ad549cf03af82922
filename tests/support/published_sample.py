"""A snapshot as a run publishes it, of any size, with hostile texts and undefined values; and
a publisher of such snapshots. For the tests of whatever reads snapshots.

    data = published_data(slices=1000, classes=100)
    publisher = SamplePublisher(data)
    publisher.publish(published_data(sequence=2))
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from streameval.evaluator.slices import slice_name
from streameval.metrics.registry import shown_metrics
from streameval.service.publish.snapshot import (
    AlertState,
    BadRecord,
    Checkpoint,
    ClassRow,
    Cohort,
    Confusion,
    Curve,
    Delay,
    Drift,
    EstimateCheck,
    Join,
    Mature,
    ModelComparison,
    ModelDifference,
    Partition,
    PredictionReport,
    PredictionSeries,
    Publisher,
    Quarantine,
    Report,
    ScoreShares,
    Series,
    Slice,
    SliceDifference,
    Snapshot,
    SourceInfo,
    State,
    Value,
    Window,
)

HOSTILE = (
    "<script>alert('x')</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    'quo"te\\back\nslash\n# TYPE fake counter\nfake 1',
    "{{constructor.constructor('return 1')()}}",
    "\x1b[31mred\x07 \x00nul\r\n",
    "‮gnirts desrever‬ \u2028line",
    "L" * 5000,
    "L" * 4999 + "M",
    "__proto__",
    "العربية 中文 😀 é",
    " ",
    "",
)
"""Labels and slice values as only an enemy would choose them."""

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
WINDOWS = {
    "all": ("cumulative", "all events"),
    "1h": ("panes", "1h in panes of 5m"),
    "recent": ("fading", "half-life 6h"),
}

PANES = 48
"""Of the window of panes."""


def iso(seconds: float) -> str:
    """ISO 8601, so many seconds after the sample's start."""
    return (START + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def published_data(**wanted: Any) -> dict[str, Any]:
    """:func:`published` as plain data, as JSON has it, for tests that change it."""
    data: dict[str, Any] = msgspec.to_builtins(published(**wanted))
    return data


def published(
    *,
    slices: int = 20,
    classes: int = 2,
    sequence: int = 1,
    hostile: bool = True,
    undefined: bool = True,
    join: bool = True,
    models: int = 0,
    predictions: bool = False,
    at: datetime = START,
    lag: int | None = 120,
) -> Snapshot:
    """A snapshot with so many of each; ``models`` are compared, and 0 is a run of one.

    ``hostile`` puts texts of :data:`HOSTILE` among labels, slices, reasons and records;
    ``undefined`` makes some values None, with their reasons. Numbers differ a little from sequence
    to sequence. The checkpoint was written ``at`` its publication.
    """
    task = "binary" if classes == 2 else "multiclass"
    rng = random.Random(f"0/{sequence}")
    stamp = at.isoformat().replace("+00:00", "Z")
    labels = _labels(classes, hostile and task == "multiclass")
    names = [row.name for row in shown_metrics(task)]
    topic = HOSTILE[3] if hostile else "b"
    return Snapshot(
        sequence=sequence,
        at=stamp,
        task=task,
        positive=1 if task == "binary" else None,
        labels=labels,
        level=0.95,
        windows=[
            Window(name=name, kind=kind, spec=spec, immature=True, as_of=stamp, late=0.0)
            for name, (kind, spec) in WINDOWS.items()
        ],
        sources=[
            SourceInfo("http", "predictions", "/v1/predictions"),
            SourceInfo("kafka", "labels", topic),
        ],
        reports={name: _report(rng, task, 40_000 + sequence, undefined) for name in WINDOWS},
        series={"1h": _series(rng, names, undefined)},
        curves={name: _curves(rng, task) for name in WINDOWS},
        confusion={name: _confusion(rng, labels) for name in WINDOWS},
        slices={name: _slices(rng, names, slices, hostile, undefined) for name in WINDOWS},
        comparison={name: _comparison(models, stamp) for name in WINDOWS} if models else {},
        predictions=_predictions(task, labels) if predictions else {},
        join=_join(rng, sequence) if join else None,
        partitions=[
            _partition("http:predictions", {"segment": 3, "offset": 4096}, lag, 12_000, "bytes"),
            _partition(f"kafka:{topic}/3", {"offset": 77}, 0, 10_000, "records"),
        ],
        quarantine=_quarantine(hostile),
        alerts=[
            _alert("accuracy falls", "firing", 0.71),
            _alert("in PT", "ok", 0.9, slice="country=PT"),
            _alert(HOSTILE[1] if hostile else "slow", "pending", 0.79),
            _alert("no labels yet", "undefined", None, reason="no events"),
        ],
        checkpoint=Checkpoint(100 + sequence, stamp, 40_000 + sequence, 0.012),
    )


def _labels(classes: int, hostile: bool) -> list[str | int | float | bool]:
    if classes == 2 and not hostile:
        return [0, 1]
    enemy = list(HOSTILE[: max(0, classes - 1)]) if hostile else []
    return [*enemy, *(f"class {number}" for number in range(classes - len(enemy)))]


def _value(rng: random.Random, name: str) -> float:
    return rng.uniform(0.1, 2) if name == "log_loss" else rng.uniform(0.4, 0.99)


def _report(rng: random.Random, task: str, support: int, undefined: bool) -> Report:
    rows = {
        row.name: _sure(_value(rng, row.name), support, resampled=row.family == "bootstrap")
        for row in shown_metrics(task)
    }
    if undefined:
        rows["matthews_corrcoef"] = Value(None, support, "every event was predicted 'a'")
    return Report(task=task, metrics=rows, level=0.95)


def _sure(value: float, support: int, *, resampled: bool) -> Value:
    """A value with an interval; that of a resampled one is five seconds old."""
    ends = Value(value, support, "", value - 0.02, value + 0.01, "wilson")
    if not resampled:
        return ends
    return msgspec.structs.replace(ends, method="bootstrap", interval_as_of=iso(-5))


def _series(rng: random.Random, names: list[str], undefined: bool) -> Series:
    gap = {PANES // 3, PANES // 3 + 1} if undefined else set()
    metrics = {
        name: [None if n in gap else _value(rng, name) for n in range(PANES)] for name in names
    }
    plain = [name for name in names if name != "average_precision"]
    return Series(
        **_spans(),
        support=[0 if n in gap else rng.randrange(500, 1500) for n in range(PANES)],
        metrics=metrics,
        low={name: _moved(metrics[name], -0.05) for name in plain},
        high={name: _moved(metrics[name], 0.04) for name in plain},
    )


def _spans() -> dict[str, Any]:
    """The panes of five minutes, of which the last three are immature."""
    return {
        "start": [iso(300 * n) for n in range(PANES)],
        "end": [iso(300 * (n + 1)) for n in range(PANES)],
        "immature": [n >= PANES - 3 for n in range(PANES)],
    }


def _moved(values: list[float | None], by: float) -> list[float | None]:
    return [None if value is None else value + by for value in values]


def _curves(rng: random.Random, task: str) -> dict[str, Curve]:
    bend = rng.uniform(0.1, 0.4)
    steps = [n / 99 for n in range(100)]
    bins = [(n / 10, (n + 1) / 10) for n in range(10)]
    columns: dict[str, dict[str, Any]] = {
        "roc": {
            "fpr": steps,
            "tpr": [step**bend for step in steps],
            "threshold": [None, *(1 - step for step in steps[1:])],
        },
        "precision_recall": {
            "precision": [0.4 + 0.6 * step for step in steps],
            "recall": [1 - step for step in steps],
            "threshold": steps[:-1],
        },
        "calibration": {
            "observed": [low + rng.uniform(0, 0.1) for low, _ in bins],
            "predicted": [(low + high) / 2 for low, high in bins],
            "weight": [rng.randrange(1, 5000) for _ in bins],
            "low": [low for low, _ in bins],
            "high": [high for _, high in bins],
        },
    }
    kept = ["calibration"] if task == "multiclass" else list(columns)
    return {name: Curve(name, "", columns[name]) for name in kept}


def _confusion(rng: random.Random, labels: list[Any]) -> Confusion:
    kept = labels[:100]
    matrix: list[list[int | float]] = [
        [rng.randrange(500, 900) if row == column else rng.randrange(0, 40) for column in kept]
        for row in kept
    ]
    sums = [sum(row) for row in matrix], [sum(row[n] for row in matrix) for n in range(len(kept))]
    classes = [
        ClassRow(label, sums[0][n], sums[1][n], matrix[n][n]) for n, label in enumerate(kept)
    ]
    classes += [ClassRow(label, 3, 2, 1) for label in labels[100:]]
    return Confusion(kept, matrix, len(labels) - len(kept), classes)


def _slices(
    rng: random.Random, names: list[str], count: int, hostile: bool, undefined: bool
) -> list[Slice]:
    rows = []
    for number in range(count):
        key: dict[str, Any] = {"country": f"C{number}"}
        if hostile and number < len(HOSTILE):
            key = {"country": HOSTILE[number]}
        elif number % 3 == 2:
            key["model"] = number % 7
        nothing = undefined and number % 10 == 9
        metrics = {name: _value(rng, name) for name in names}
        sure = [] if nothing else [name for name in names if name != "average_precision"]
        rows.append(
            Slice(
                slice=key,
                name=slice_name(tuple(key.items())),
                support=rng.randrange(1, 10_000),
                metrics=dict.fromkeys(names) if nothing else metrics,
                reasons=dict.fromkeys(names if nothing else [], "no event of the positive class"),
                low={name: metrics[name] - 0.06 for name in sure},
                high={name: metrics[name] + 0.05 for name in sure},
                differs={sure[0]: "below"} if sure and number % 4 == 1 else {},
            )
        )
    return rows


def _comparison(models: int, stamp: str) -> ModelComparison:
    rng = random.Random(models)
    names = [f"model-{number}" for number in range(models)]
    values = {
        metric: {name: rng.uniform(0.7, 0.9) for name in names} for metric in ("f1", "recall")
    }

    def difference(metric: str, name: str, width: float) -> ModelDifference:
        value = values[metric][name] - values[metric][names[0]]
        ends = (value, value - width, value + width)
        return ModelDifference(metric, name, names[0], *ends, 0.04, 0.08, "McNemar", "")

    return ModelComparison(
        models=names,
        as_of=stamp,
        level=0.95,
        values=values,
        differences=[
            *(difference("f1", name, 0.02) for name in names[1:]),
            *(
                ModelDifference("recall", name, names[0], *[None] * 5, "", "no events")
                for name in names[1:]
            ),
        ],
        slice_metric="f1",
        slices=[
            SliceDifference("country=PT", 400, True, difference("f1", names[1], 0.01)),
            SliceDifference("country=DE", 30, False, difference("f1", names[1], 0.2)),
        ],
        slices_left_out=0,
    )


def _predictions(task: str, labels: list[Any]) -> dict[str, PredictionReport]:
    """Of every window; that of panes has a reference, and an estimate that has failed."""
    rng = random.Random(0)
    bins = 20 if task == "binary" else len(labels)

    def column(center: float, lacking: int = 12) -> list[float | None]:
        """Of the panes, of which the first are the reference."""
        return [None if n < lacking else center + rng.uniform(-0.02, 0.02) for n in range(PANES)]

    rate = "positive_rate" if task == "binary" else "mean_confidence"
    expected = {name: column(0.8) for name in ("accuracy", "f1")}
    compared = PredictionReport(
        events=40_000,
        start=iso(300 * (PANES - 3)),
        end=iso(300 * PANES),
        unlabelled=2500,
        metrics={
            rate: Value(0.25, 2500, "", 0.24, 0.26, "wilson"),
            "median_score": Value(None, 0, "no scores"),
        },
        reference=f"panes from {iso(0)} to {iso(3600)}",
        reference_reason="",
        drift={
            "ks": Drift(0.125, 0.0001),
            "wasserstein": Drift(0.0625, None, "a Wasserstein distance has no p-value"),
        },
        expected={
            "accuracy": Value(0.8125, 2500, "", 0.79, 0.83, "expected"),
            "f1": Value(0.75, 2500, "", 0.71, 0.79, "expected"),
        },
        checks={
            "accuracy": EstimateCheck(33, 20, 0.05, True, "13 of 33 intervals failed"),
            "f1": EstimateCheck(33, 32, -0.001, False, ""),
        },
        scores=ScoreShares(
            [n / 20 for n in range(21)] if task == "binary" else [],
            [] if task == "binary" else labels,
            [1 / bins] * bins,
            [2 * n / (bins * (bins - 1)) for n in range(bins)],
        ),
        series=PredictionSeries(
            **_spans(),
            events=[rng.randrange(500, 1500) for _ in range(PANES)],
            metrics={rate: column(0.25, 0)},
            drift={"ks": column(0.1), "wasserstein": column(0.05)},
            expected=expected,
            low={name: _moved(values, -0.05) for name, values in expected.items()},
            high={name: _moved(values, 0.04) for name, values in expected.items()},
        ),
    )
    alone = msgspec.structs.replace(
        compared,
        start=None,
        end=None,
        unlabelled=40_000,
        reference="",
        reference_reason="a window without panes is compared with a file",
        drift={},
        expected={},
        checks={},
        scores=msgspec.structs.replace(compared.scores, reference=[]),
        series=None,
    )
    return {name: compared if kind == "panes" else alone for name, (kind, _) in WINDOWS.items()}


def _join(rng: random.Random, sequence: int) -> Join:
    labelled = [900] * 9 + [900, 600, 300]
    return Join(
        predictions=12_000 + sequence,
        labels=10_000 + sequence,
        joined=9_900 + sequence,
        waiting=1200,
        labels_waiting=7,
        expired=900,
        orphans=31,
        duplicate_predictions=12,
        duplicate_labels=44,
        corrected=5,
        partial_labels=0,
        too_late=3,
        coverage=0.9166,
        coverage_reason="",
        mature=Mature(iso(2100), iso(2700), 5000, 4583),
        late=0.0,
        watermark=iso(50_000),
        delay=Delay(1830.0 + rng.random(), 14_400.0, 43_000.0, 0.02),
        cohorts=[
            Cohort(
                start=iso(300 * n),
                end=iso(300 * (n + 1)),
                predictions=1000,
                labelled=count,
                expired=100 if n < 9 else 0,
                coverage=count / 1000,
                immature=n >= 9,
            )
            for n, count in enumerate(labelled)
        ],
    )


def _partition(name: str, position: Any, lag: int | None, records: int, unit: Any) -> Partition:
    return Partition(
        partition=name,
        position=position,
        lag=lag,
        lag_unit=unit,
        problem="",
        missed="",
        records=records,
        newest=iso(14_000) if unit == "bytes" else None,
    )


def _quarantine(hostile: bool) -> Quarantine:
    raws = HOSTILE if hostile else ("{broken",)
    recent = [
        BadRecord(
            id=1000 - number,
            at=iso(number),
            partition="http:predictions",
            kind="predictions",
            place=17 * number,
            reason=("record", "score", "y_true")[number % 3],
            detail=f"expected a JSON object, got {raw[:40]!a}",
            raw=raw[:4096],
            raw_bytes_cut=len(raw) > 4096,
            replay=False,
        )
        for number, raw in enumerate(raws)
    ]
    reasons = {"record": 700, "score": 200, HOSTILE[0] if hostile else "y_true": 100}
    return Quarantine(1000, len(recent), reasons, recent)


def _alert(
    name: str, state: State, value: float | None, slice: str = "", reason: str = ""
) -> AlertState:
    return AlertState(
        name=name,
        metric="accuracy",
        window="1h",
        slice=slice,
        state=state,
        value=value,
        bound="below 0.8",
        below=0.8,
        above=None,
        when="value" if value is None else "certain",
        against="",
        level=None if value is None else 0.95,
        low=None if value is None else value - 0.02,
        high=None if value is None else value + 0.01,
        method="" if value is None else "wilson",
        slices=[],
        support=500,
        since=iso(3) if state in ("firing", "pending") else None,
        reason=reason,
    )


class SamplePublisher(Publisher):
    """A publisher that also takes plain data, which must be of a snapshot's types."""

    def __init__(self, data: Snapshot | dict[str, Any] | None = None) -> None:
        super().__init__()
        self.open_slice = self._open_slice
        if data is not None:
            self.publish(data)

    @staticmethod
    def _open_slice(data: Snapshot, window: str, name: str, *_: str) -> Snapshot | None:
        """Every slice, model and label of the sample has the numbers of its window."""
        return data if not name or any(row.name == name for row in data.slices[window]) else None

    def publish(self, data: Snapshot | dict[str, Any]) -> None:
        """Make it the newest."""
        super().publish(data if isinstance(data, Snapshot) else msgspec.convert(data, Snapshot))
