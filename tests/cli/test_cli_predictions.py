"""``streameval predictions`` and ``streameval drift``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import streameval as se
from tests.cli.conftest import Command

ROWS = "p,label,country\n.9,cat,PT\n.2,dog,SE\n.4,cat,PT\n.7,dog,SE\n"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(ROWS)
    return "a.csv"


def test_predictions_are_reported_saved_and_merged(run: Command, path: str) -> None:
    options = (path, "--score", "p", "--slice", "country")
    shown = run("predictions", *options, "--intervals", "0.95")
    assert (shown.code, shown.err) == (0, "")
    for line in ("positive_rate  0.5", "mean_score     0.55", "predicted labels", "country=PT"):
        assert line in shown.out
    values = json.loads(run("predictions", *options, "--save", "a.state", "--format", "json").out)
    assert values["predicted_labels"] == {
        "0": {"value": 0.5, "support": 2},
        "1": {"value": 0.5, "support": 2},
    }
    assert json.loads(run("report", "a.state", "--format", "json").out) == values
    assert se.Predictions.load("a.state")["mean_score"] == 0.55
    quantile = ("--metrics", "score_quantile:q=.75", "--format", "json")
    found = json.loads(run("predictions", path, "--score", "p", *quantile).out)
    assert found["metrics"]["score_quantile:q=0.75"]["value"] == 0.7
    guessed = run("predictions", path)
    assert guessed.err == "streameval: used, by the names of the columns: --score p\n"
    several = run("predictions", path, "--y-pred", "label")
    assert "cat    0.5" in several.out
    rows = run("predictions", path, "--y-pred", "label", "--format", "csv").out.splitlines()
    assert "predicted_label,cat,share,0.5,,,,2," in rows


@pytest.mark.parametrize(
    ("rule", "code", "text"),
    [
        ("positive_rate < 0.4", 0, ""),
        ("positive_rate > 0.4", 4, "positive_rate"),
        ("mean_score.low < 0.5", 4, "mean_score.low"),
        ("slice.country support < 3", 4, "country=PT"),
        ("slice.device support < 3", 2, "add --slice device"),
        ("f1 < 0.8", 2, "f1 is about true labels"),
    ],
)
def test_a_gate(run: Command, path: str, rule: str, code: int, text: str) -> None:
    ended = run("predictions", path, "--score", "p", "--slice", "country", "--fail-if", rule)
    assert ended.code == code
    assert text in ended.err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--score p --metrics roc_auc", "roc_auc is about true labels, which predictions do not"),
        ("--score p --per-class", "confusion is about true labels"),
        ("--score p --top-k 3", "top_k_accuracy is about true labels"),
        ("--y-pred label --positive bird", "expected 'cat' or the positive label 'bird'"),
    ],
)
def test_what_is_about_labels_is_refused(run: Command, path: str, options: str, text: str) -> None:
    refused = run("predictions", path, *options.split())
    assert (refused.code, refused.out) == (2, "")
    assert text in refused.err


def test_drift_of_two_states(run: Command, path: str) -> None:
    for name, rows in (("now", ROWS * 1), ("before", ROWS.replace(".9,", ".1,"))):
        Path(f"{name}.csv").write_text(rows)
        run(
            "predictions",
            f"{name}.csv",
            "--score",
            "p",
            "--slice",
            "country",
            "--save",
            f"{name}.state",
        )
    found = json.loads(run("drift", "now.state", "before.state", "--format", "json").out)
    p, before = se.Predictions.load("now.state"), se.Predictions.load("before.state")
    assert found["drift"] == {name: p.drift(before, name).to_dict() for name in found["drift"]}
    assert [row["slice"] for row in found["slices"]["rows"]] == [
        {"country": "PT"},
        {"country": "SE"},
    ]
    table = run("drift", "now.state", "before.state").out
    assert table.splitlines()[1].startswith("ks")
    assert "slices that have drifted by ks: 0 of 2" in table
    assert run("drift", "now.state", "before.state", "--anytime").code == 0
    several = run("predictions", path, "--y-pred", "label", "--save", "labels.state")
    assert several.code == 0
    refused = run("drift", "labels.state", "before.state")
    assert refused.code == 2
    assert refused.err.startswith("streameval: ks compares scores of binary tasks")


def test_a_picture_of_drift(run: Command, path: str) -> None:
    options = ("--score", "p", "--slice", "country", "--save")
    run("predictions", path, *options, "now.state")
    Path("before.csv").write_text(ROWS.replace(".9,", ".1,"))
    run("predictions", "before.csv", *options, "before.state")
    drawn = ("--plot", "a.svg", "--report", "a.html")
    plain = run("drift", "now.state", "before.state")
    found = run("drift", "now.state", "before.state", *drawn)
    assert (found.code, found.out, found.err) == (0, plain.out, "")
    assert "before.state (4)" in Path("a.svg").read_text()
    report = Path("a.html").read_text()
    assert report.count("<figure>") == 1
    assert report.count("<table") == 1
    of_ks = se.Predictions.load("now.state").drift("before.state", "ks")
    assert f"<figcaption>Drift of the scores: ks {of_ks}</figcaption>" in report
    run("predictions", path, "--y-pred", "label", "--save", "labels.state")
    assert run("drift", "labels.state", "labels.state", "--plot", "b.png").code == 0
    assert Path("b.png").read_bytes().startswith(b"\x89PNG")
    se.Predictions().save("none.state")
    nothing = run("drift", "now.state", "none.state", "--plot", "c.svg", "--report", "c.html")
    assert (nothing.code, Path("c.svg").exists()) == (1, False)
    assert nothing.err == (
        "streameval: --plot drift: expected events on both sides, got the reference has no events\n"
    )
    assert "<table" in Path("c.html").read_text()
    assert run("drift", "now.state", "before.state", "--plot", "a.gif").code == 2
    # A state alone has no such picture.
    refused = run("report", "now.state", "--plot", "drift.svg")
    assert (refused.code, "a file that is named as one of" in refused.err) == (2, True)
