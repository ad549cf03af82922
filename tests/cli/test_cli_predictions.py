"""``streameval predictions`` and ``streameval drift``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    def values(*words: str) -> Any:
        return json.loads(run(*words, "--format", "json").out)

    options = ("predictions", path, "--score", "p", "--slice", "country")
    shown = run(*options, "--intervals", "0.95")
    assert (shown.code, shown.err) == (0, "")
    for line in ("positive_rate  0.5", "mean_score     0.55", "predicted labels", "country=PT"):
        assert line in shown.out
    found = values(*options, "--save", "a.state")
    assert found["predicted_labels"] == {one: {"value": 0.5, "support": 2} for one in "01"}
    assert values("report", "a.state") == values("merge", "a.state") == found
    assert se.Predictions.load("a.state")["mean_score"] == 0.55
    quantile = values(*options[:4], "--metrics", "score_quantile:q=.75")["metrics"]
    assert quantile["score_quantile:q=0.75"]["value"] == 0.7
    guessed = run("predictions", path)
    assert guessed.err == "streameval: used, by the names of the columns: --score p\n"
    several = ("predictions", path, "--y-pred", "label")
    assert "cat    0.5" in run(*several).out
    assert "\npredicted_label,cat,share,0.5,,,,2," in run(*several, "--format", "csv").out


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
        ("--score p --per-class", "confusion is about true labels"),
        ("--score p --top-k 3", "top_k_accuracy is about true labels, which predictions do not"),
        ("--y-pred label --positive bird", "expected 'cat' or the positive label 'bird'"),
    ],
)
def test_what_is_about_labels_is_refused(run: Command, path: str, options: str, text: str) -> None:
    refused = run("predictions", path, *options.split())
    assert (refused.code, refused.out, text in refused.err) == (2, "", True)


@pytest.fixture
def states(run: Command, path: str) -> tuple[str, str]:
    """Of the file, and of one with another score; and beside them one of labels."""
    for name, rows in (("now", ROWS), ("before", ROWS.replace(".9,", ".1,"))):
        Path(f"{name}.csv").write_text(rows)
        by_country = ("--slice", "country", "--save", f"{name}.state")
        assert run("predictions", f"{name}.csv", "--score", "p", *by_country).code == 0
    run("predictions", path, "--y-pred", "label", "--save", "labels.state")
    return "now.state", "before.state"


def test_drift_of_two_states(run: Command, states: tuple[str, str]) -> None:
    found = json.loads(run("drift", *states, "--format", "json").out)
    p, before = map(se.Predictions.load, states)
    assert found["drift"] == {name: p.drift(before, name).to_dict() for name in found["drift"]}
    countries = [{"country": "PT"}, {"country": "SE"}]
    assert [row["slice"] for row in found["slices"]["rows"]] == countries
    table = run("drift", *states).out
    assert table.splitlines()[1].startswith("ks")
    assert "slices that have drifted by ks: 0 of 2" in table
    assert run("drift", *states, "--anytime").code == 0
    refused = run("drift", "labels.state", "before.state")
    assert refused.code == 2
    assert refused.err.startswith("streameval: ks compares scores of binary tasks")


def test_a_picture_of_drift(run: Command, states: tuple[str, str]) -> None:
    plain = run("drift", *states)
    assert run("drift", *states, "--plot", "a.svg", "--report", "a.html") == plain
    assert plain.err == ""
    assert "before.state (4)" in Path("a.svg").read_text()
    report = Path("a.html").read_text()
    assert (report.count("<figure>"), report.count("<table")) == (1, 1)
    of_ks = se.Predictions.load("now.state").drift("before.state", "ks")
    assert f"<figcaption>Drift of the scores: ks {of_ks}</figcaption>" in report
    assert run("drift", "labels.state", "labels.state", "--plot", "b.png").code == 0
    assert Path("b.png").read_bytes().startswith(b"\x89PNG")
    se.Predictions().save("none.state")
    nothing = run("drift", "now.state", "none.state", "--plot", "c.svg", "--report", "c.html")
    assert (nothing.code, Path("c.svg").exists()) == (1, False)
    lacking = "expected events on both sides, got the reference has no events"
    assert nothing.err == f"streameval: --plot drift: {lacking}\n"
    assert "<table" in Path("c.html").read_text()
    assert run("drift", *states, "--plot", "a.gif").code == 2
    # A state alone has no such picture.
    refused = run("report", "now.state", "--plot", "drift.svg")
    assert (refused.code, "a file that is named as one of" in refused.err) == (2, True)
