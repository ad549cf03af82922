"""``--intervals`` and ``--anytime``: the ends of each value, in tables, JSON, slices and series."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import streameval as se
from tests.support.command_runs import Command

FIELDS = ("--y-true", "label", "--y-pred", "predicted", "--positive", "1")


def events(weight: float = 1) -> list[dict[str, object]]:
    return [
        {
            "label": (n % 3 == 0 and 1) or 0,
            "predicted": (n % 4 == 0 and 1) or 0,
            "country": "PT" if n % 2 else "DE",
            "weight": weight,
            "time": n * 600,
        }
        for n in range(60)
    ]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events()))
    return path


def evaluator() -> se.Evaluator:
    ev = se.Evaluator(positive=1)
    for event in events():
        ev.update(event["label"], event["predicted"])
    return ev


def test_the_table_has_the_ends(run: Command, log: Path) -> None:
    result = run("evaluate", log, *FIELDS, "--intervals", "0.95", "--metrics", "accuracy,recall,f1")
    assert result.code == 0, result.err
    header, *rows = [line.split() for line in result.out.splitlines()]
    assert header == ["metric", "value", "low", "high", "interval", "support"]
    for name, value, low, high, method, support in rows:
        found = evaluator().interval(name)
        assert float(value) == pytest.approx(found.value)
        assert (low, high) == (f"{found.low:.6g}", f"{found.high:.6g}")
        assert (method, support) == (found.method, "60")
    assert run("evaluate", log, *FIELDS, "--metrics", "f1").out.split()[:3] == [
        "metric",
        "value",
        "support",
    ]


def test_every_usual_metric_fits_100_columns(run: Command, log: Path) -> None:
    result = run("evaluate", log, *FIELDS, "--intervals", "0.95")
    assert max(map(len, result.out.splitlines())) <= 100
    assert "wilson" in result.out
    assert "delta" in result.out


def test_slices_series_and_json_have_them(run: Command, log: Path) -> None:
    options = ("--slice", "country", "--by", "accuracy", "--metrics", "accuracy", "--series", "f1")
    window = ("--window", "panes:1h", "--time", "time", "--time-unit", "s")
    command = ("evaluate", log, *FIELDS, *options, *window, "--intervals", "0.9")
    values = json.loads(run(*command, "--format", "json").out)
    ends = {"low", "high", "method", "n"}
    assert set(values["metrics"]["accuracy"]["interval"]) == ends
    assert all(set(row["interval"]) == ends for row in values["slices"]["slices"])
    panes = values["series"]["panes"]
    assert len(panes) == 10
    assert all("interval" in pane for pane in panes)
    assert panes[0]["interval"]["method"] == "delta"
    table = run(*command).out
    assert table.count("low") == 3
    markdown = run(*command, "--format", "markdown").out
    assert markdown.count("| low | high | interval |") == 3


def test_anytime_intervals(run: Command, log: Path, tmp_path: Path) -> None:
    saved = tmp_path / "all.state"
    options = ("--intervals", "0.95", "--anytime", "--metrics", "recall,f1", "--format", "json")
    values = json.loads(run("evaluate", log, *FIELDS, *options, "--save", saved).out)["metrics"]
    found = evaluator().interval("recall", method="anytime")
    assert values["recall"]["interval"] == found.to_dict()
    reason = values["f1"]["interval"]["reason"]
    assert reason == "f1 has no anytime interval; it has delta, bootstrap"
    for command in ("report", "merge"):
        assert json.loads(run(command, saved, *options).out)["metrics"] == values


def test_weights_that_are_not_whole(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "weighted.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events(0.5)))
    command = ("evaluate", path, *FIELDS, "--weight", "weight", "--metrics", "accuracy")
    values = json.loads(run(*command, "--intervals", "0.95", "--format", "json").out)
    found = values["metrics"]["accuracy"]["interval"]
    assert (found["method"], found["n"]) == ("wilson (Kish)", 60)
    saved = tmp_path / "without.state"
    run(*command, "--save", saved)
    shown = run("report", saved, "--intervals", "0.95").out
    assert "it needs Evaluator(intervals=True)" in shown


def test_anytime_is_refused_for_the_state_of_a_window(
    run: Command, log: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "last.state"
    run("evaluate", log, *FIELDS, "--window", "last:5", "--save", saved)
    result = run("report", saved, "--intervals", "0.9", "--anytime")
    assert (result.code, result.out) == (2, "")
    assert "--anytime: expected a state of all events, got one of a window: last" in result.err
