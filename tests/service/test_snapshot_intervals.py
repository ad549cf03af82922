"""Published intervals: those of the evaluator itself, in reports, series and slices."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from streameval.evaluator.evaluator import Evaluator
from streameval.service.config.evaluators import open_evaluators
from streameval.service.config.settings import RunSettings
from streameval.service.publish.builder import SnapshotBuilder, is_resampled
from streameval.service.publish.snapshot import Snapshot, Value
from streameval.service.store.valid_from import ValidFrom
from tests.support.run import Clock, settings, snapshot_of

MINUTE = 60_000_000
ALL = [{"name": "all"}]


def run_settings(**tables: Any) -> RunSettings:
    return settings(**{"window": [*ALL, {"name": "hour", "length": "1h", "pane": "10m"}], **tables})


def counted(chosen: RunSettings, events: int = 400) -> dict[str, Evaluator]:
    rng = random.Random(1)
    evaluators = open_evaluators(chosen)
    for n in range(events):
        truth = rng.random() < 0.4
        score = min(max(rng.gauss(0.6 if truth else 0.4, 0.2), 0.0), 1.0)
        slices = {"country": "PT" if n % 4 else "ES"}
        for evaluator in evaluators.values():
            evaluator.update(truth, score=score, event_time=(n % 80) * MINUTE, slices=slices)
    return evaluators


def builder_of(chosen: RunSettings, evaluators: Mapping[str, Any]) -> SnapshotBuilder:
    return SnapshotBuilder(chosen, evaluators, ValidFrom(), Clock(1e9))


def counted_builder(**tables: Any) -> tuple[dict[str, Evaluator], SnapshotBuilder]:
    chosen = run_settings(**tables)
    evaluators = counted(chosen)
    return evaluators, builder_of(chosen, evaluators)


def build(builder: SnapshotBuilder, now: int = 0, *, force: bool = False) -> Snapshot:
    return snapshot_of(builder, now=now, force=force)


def end(value: float) -> float | None:
    return value if math.isfinite(value) else None


def test_bounds_are_published_where_scores_are_coarsened() -> None:
    evaluator = Evaluator("binary", labels=[0, 1], max_scores=1024)
    chosen = run_settings(window=ALL)
    builder = builder_of(chosen, {"all": evaluator})
    rng = random.Random(2)
    for events, coarse in ((500, False), (3000, True)):
        for _ in range(events):
            truth = rng.random() < 0.4
            evaluator.update(int(truth), score=rng.random() ** (1 if truth else 2))
        builder.changed()
        metrics = build(builder, force=True).reports["all"].metrics
        assert metrics["accuracy"].bounds is UNSET
        for name in ("roc_auc", "average_precision"):
            certain = evaluator.bounds(name)
            found = metrics[name].bounds
            assert found == ([certain.low, certain.high] if coarse else UNSET)
        if coarse:
            data = msgspec.to_builtins(metrics["roc_auc"])
            assert data["bounds"][0] < data["value"] < data["bounds"][1]


def test_published_ends_are_the_evaluators() -> None:
    evaluators, builder = counted_builder(intervals=0.9)
    found = build(builder)
    assert found.level == 0.9
    for window, report in found.reports.items():
        assert report.level == 0.9
        for name, value in report.metrics.items():
            wanted = evaluators[window].interval(name, level=0.9)
            assert (value.low, value.high) == (end(wanted.low), end(wanted.high)), name
            assert value.method == wanted.method
    panes = found.series["hour"]
    assert "accuracy" in panes.low
    for name in panes.low:
        rows = evaluators["hour"].series(name, intervals=0.9)
        ends = [row.interval for row in rows]
        assert panes.low[name] == [end(one.low) for one in ends if one is not None]
        assert panes.high[name] == [end(one.high) for one in ends if one is not None]
    for row in found.slices["all"]:
        view = evaluators["all"].slices()[tuple(row.slice.items())]
        for name in row.metrics:
            wanted = view.interval(name, level=0.9)
            if is_resampled(name, "binary"):
                assert name not in row.low
            elif wanted.defined:
                assert (row.low[name], row.high[name]) == (wanted.low, wanted.high)


def test_without_intervals_nothing_is_published() -> None:
    _, builder = counted_builder(intervals=False)
    found = build(builder)
    assert found.level is None
    assert b'"level"' not in msgspec.json.encode(found.reports)
    assert not any(value.method for value in found.reports["all"].metrics.values())
    assert set(found.series["hour"].low["accuracy"]) == {None}
    assert not any(row.low for row in found.slices["all"])


def test_a_slice_is_opened_with_its_own_numbers() -> None:
    evaluators, builder = counted_builder()
    data = build(builder)
    view = evaluators["hour"].slices()[(("country", "ES"),)]

    def opened(window: str, *part: str, name: str = "ES") -> Any:
        return builder.open_slice(data, window, f"country={name}", *part)

    reports = opened("hour", "reports").reports
    assert reports["all"] is data.reports["all"]
    assert reports["hour"].metrics["f1"].value == view["f1"]
    found = reports["hour"].metrics["accuracy"]
    wanted = view.interval("accuracy")
    assert (found.low, found.high) == (wanted.low, wanted.high)
    series, rows = opened("hour", "series", "accuracy").series["hour"], view.series("accuracy")
    assert series.start == data.series["hour"].start
    assert series.metrics == {"accuracy": [end(row.value) for row in rows]}
    assert series.support == [row.support for row in rows]
    assert None not in series.low["accuracy"]
    assert sum(map(sum, opened("all", "confusion").confusion["all"].matrix)) == 100
    assert opened("all", "curves").curves["all"]["roc"] != data.curves["all"]["roc"]
    assert opened("all", "curves", name="IT") is None
    assert opened("day", "curves") is None
    # It is read once for each snapshot.
    evaluators["hour"].update(True, score=0.9, event_time=79 * MINUTE, slices={"country": "ES"})
    for sequence in (data.sequence, data.sequence + 1):
        data = msgspec.structs.replace(data, sequence=sequence)
        now = opened("hour", "reports").reports["hour"]
        assert (now == reports["hour"]) == (sequence == 1)


def test_a_slice_is_found_by_its_older_name_where_no_other_had_it() -> None:
    chosen = run_settings(evaluator={"slices": ["country", ["country", "m"]]})
    evaluators = open_evaluators(chosen)
    events = [("x, m=y", "z"), ("x", "y"), ("a, b", "z"), ("p, q, m=r, s", "z"), ("p, q", "r, s")]
    for country, m in events:
        evaluators["all"].update(True, score=0.9, slices={"country": country, "m": m})
    builder = builder_of(chosen, evaluators)
    data = build(builder)
    names = {row.name for row in data.slices["all"]}
    assert {"country=x\\, m=y", "country=x, m=y", "country=a\\, b"} <= names

    def found(name: str) -> bool:
        return builder.open_slice(data, "all", name, "reports") is not None

    assert all(map(found, names))
    assert found("country=a, b")
    assert not found("country=p, q, m=r, s")  # of two


def test_a_slice_that_differs_is_marked_in_the_metrics_where_it_does() -> None:
    evaluators, builder = counted_builder()
    for n in range(200):
        slices = {"country": f"C{n % 2}"}
        evaluators["all"].update(True, score=0.1, event_time=79 * MINUTE, slices=slices)
    found = build(builder)
    marks = {row.name: row.differs.get("accuracy") for row in found.slices["all"]}
    below = {"country=C0": "below", "country=C1": "below"}
    assert marks == {**below, "country=ES": "above", "country=PT": "above"}


def test_a_resampled_interval_says_what_time_it_is_of() -> None:
    evaluators, builder = counted_builder()
    clock: Any = builder._clock
    part, made = builder._resampled["all"], []
    builder._resampled["hour"]._make = dict

    def dear() -> dict[str, Value]:
        clock.now += 100.0
        made.append(len(made))
        return {"average_precision": Value(0.5, 1, "", 0.1 * len(made), 0.9, "bootstrap")}

    part._make = dear
    ends: list[tuple[float | None, Any]] = []
    for second in range(10):
        clock.now += 1.0
        if second:
            builder.changed()
        found = build(builder, second * 1_000_000).reports["all"].metrics["average_precision"]
        assert found.value == evaluators["all"]["average_precision"]
        assert found.method == "bootstrap"
        ends.append((found.low, found.interval_as_of))
    assert ends[0] == (0.1, msgspec.UNSET)
    assert ends[1:] == [(0.1, "1970-01-01T00:00:00Z")] * 9
    builder.changed()
    found = build(builder, 60_000_000, force=True).reports["all"].metrics["average_precision"]
    assert (found.low, found.interval_as_of) == (0.2, msgspec.UNSET)
    # 100 s are made again after 10,000 s: each of the two windows has a hundredth of the time.
    for second in range(10):
        clock.now += 1500.0
        builder.changed()
        build(builder, second * 1_000_000)
    assert len(made) == 3
    part.expected = lambda: 1e9  # longer than it has ever taken
    clock.now += 1e6
    builder.changed()
    build(builder)
    assert len(made) == 3


def test_of_too_many_scores_nothing_is_resampled(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluators, builder = counted_builder()
    assert build(builder).reports["all"].metrics["average_precision"].method == "bootstrap"
    assert evaluators["all"].total.distinct_scores > 300
    monkeypatch.setattr("streameval.service.publish.builder.MOST_RESAMPLED", 300)
    _, builder = counted_builder()
    found = build(builder)
    assert found.reports["all"].metrics["average_precision"].method == ""
    assert found.reports["all"].metrics["accuracy"].method == "wilson"


def test_the_report_has_the_values_of_the_references(tmp_path: Path) -> None:
    alone = run_settings()
    evaluators = counted(alone)
    older = counted(alone, 90)["all"]
    older.save(tmp_path / "older.state")
    paths = [str(tmp_path / name) for name in ("older.state", "absent.state")]
    older.save(paths[1])
    watched = {"metric": "f1", "below": 0}
    alerts = [{"name": f"a{n}", "reference": one, **watched} for n, one in enumerate(paths)]
    chosen = run_settings(alert=alerts)
    Path(paths[1]).unlink()  # after the start
    builder = builder_of(chosen, evaluators)
    snapshot = build(builder)
    for name, view in (("", older.total), ("country=ES", older.slices()[("country", "ES"),])):
        opened = builder.open_slice(snapshot, "hour", name, "reports")
        report = opened.reports["hour"]
        assert report.references == {paths[0]: {metric: view[metric] for metric in report.metrics}}
    without = build(builder_of(alone, evaluators))
    assert without.reports["all"].references is UNSET


def test_a_value_without_an_interval_says_why() -> None:
    chosen = run_settings(window=ALL)
    accuracy: dict[str, Any] = {"metrics": ["accuracy"]}
    needs = "with weights that are not whole, it needs interval_sums = true under [[window]]"
    temporal = {"temporal": True, "metrics": ["kappa_temporal"]}
    for keys, name, wanted in (
        (temporal, "kappa_temporal", "this metric never has one"),
        (accuracy, "accuracy", needs),
        ({**accuracy, "intervals": True}, "accuracy", ""),
    ):
        evaluator = Evaluator("binary", **keys)
        for n in range(40):
            evaluator.update(n % 3 == 0, score=(n % 7) / 7, weight=0.5)
        report = build(builder_of(chosen, {"all": evaluator})).reports["all"]
        assert report.metrics[name].no_interval == wanted
