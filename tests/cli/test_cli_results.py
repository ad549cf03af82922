"""What `evaluate`, `report`, `diff` and `inspect` show beside the metrics, and in what form."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import classification_report, confusion_matrix, fbeta_score

import streameval as se
from streameval.cli import options, output
from streameval.plots import ALONE
from tests.cli.test_cli_evaluate import binary_events, write_jsonl
from tests.support.command_runs import Command

SCORED = ("--y-true", "label", "--score", "score")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    events = [{**event, "country": "DE" if n % 3 else "PT"} for n, event in enumerate(EVENTS)]
    return write_jsonl(tmp_path / "a.jsonl", events)


EVENTS = binary_events(200)
TRUE = [event["label"] for event in EVENTS]
SCORES = [event["score"] for event in EVENTS]


def predicted(threshold: float) -> list[int]:
    return [int(score >= threshold) for score in SCORES]


def values_of(run: Command, *arguments: str | Path) -> dict[str, Any]:
    result = run(*arguments, "--format", "json")
    assert result.code == 0, result.err
    values: dict[str, Any] = json.loads(result.out)
    return values


def test_classes_confusion_and_a_better_threshold_are_shown(run: Command, path: Path) -> None:
    values = values_of(run, "evaluate", path, *SCORED)
    theirs = classification_report(TRUE, predicted(0.5), output_dict=True)
    assert values["classes"]["1"] == pytest.approx(theirs["1"], abs=1e-12)
    assert values["classes"]["macro avg"] == pytest.approx(theirs["macro avg"], abs=1e-12)
    assert values["confusion"] == {
        "labels": [0, 1],
        "matrix": confusion_matrix(TRUE, predicted(0.5)).tolist(),
    }
    best = values["cut_points"]["f1"]
    text = run("evaluate", path, *SCORED).out
    now = values["metrics"]["f1"]["value"]
    assert (
        f"threshold {best['threshold']:g} would give f1 {best['value']:.4g} instead of {now:.4g}"
        in text
    )
    assert "\n\nclasses\n" in text
    assert "\n\nconfusion\ntrue \\ predicted" in text
    assert fbeta_score(TRUE, predicted(best["threshold"]), beta=1) == pytest.approx(best["value"])


@pytest.mark.parametrize(
    "options", [("--no-per-class",), ("--metrics", "f1,accuracy")], ids=["refused", "named"]
)
def test_only_the_metrics(run: Command, path: Path, options: tuple[str, ...]) -> None:
    values = values_of(run, "evaluate", path, *SCORED, *options)
    assert list(values) == ["task", "positive", "threshold", "metrics"]


def test_a_state_of_named_metrics_shows_its_classes_on_request(
    run: Command, path: Path, tmp_path: Path
) -> None:
    state = tmp_path / "a.state"
    shown = run("evaluate", path, *SCORED, "--metrics", "f1", "--save", state)
    assert run("report", state).out == run("merge", state).out == shown.out
    assert "classes" not in shown.out
    assert "classes\n" in run("report", state, "--per-class").out
    run("evaluate", path, *SCORED, "--metrics", "roc_auc", "--save", state)
    refused = run("report", state, "--per-class")
    assert (refused.code, "not kept" in refused.err) == (2, True)


def test_many_classes(run: Command, tmp_path: Path) -> None:
    rows = [{"y_true": f"c{n % 30}", "y_pred": f"c{(n + (n % 7 == 0)) % 30}"} for n in range(900)]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    text = run("evaluate", path, "--y-pred", "y_pred").out
    assert "30 classes: --per-class shows their table" in text
    assert re.search(r"most frequent errors\ntrue +predicted +events  of true\n", text)
    assert "20 more pairs of labels: --format json has all" in text
    assert run("evaluate", path, "--y-pred", "y_pred", "--per-class").out.count("c29") >= 1


@pytest.mark.parametrize(
    ("rule", "name", "params"),
    [
        ("youden", "youden", {}),
        ("f1", "f1", {}),
        ("cost:5:1", "cost", {"c_fp": 5, "c_fn": 1}),
        ("precision_at_least:0.7", "precision_at_least", {"precision": 0.7}),
    ],
)
def test_a_rule_chooses_the_threshold_of_everything(
    run: Command, path: Path, tmp_path: Path, rule: str, name: str, params: dict[str, float]
) -> None:
    ev = se.Evaluator("binary", positive=1)
    ev.update_many(TRUE, score=SCORES)
    cut = ev.thresholds(name, **params)
    state = tmp_path / "a.state"
    values = values_of(run, "evaluate", path, *SCORED, "--threshold", rule, "--save", state)
    assert values["threshold"] == cut.threshold
    assert values["threshold_chosen"] == {"rule": rule, **cut.to_dict()}
    assert values["confusion"]["matrix"] == [[cut.tn, cut.fp], [cut.fn, cut.tp]]
    once = se.Evaluator("binary", positive=1, threshold=cut.threshold)
    once.update_many(TRUE, score=SCORES)
    assert se.load(state) == once


def test_a_rule_needs_files_and_a_threshold(run: Command, tmp_path: Path) -> None:
    one = write_jsonl(tmp_path / "b.jsonl", [{"label": 0, "score": 0.5}] * 3)
    for source, rule, message in (
        ("-", "f1", "requires files"),
        (one, "cost:1:1", "best to predict none"),
        (one, "f1", "--threshold: expected events of"),
    ):
        assert message in run("evaluate", source, *SCORED, "--threshold", rule).err


def test_metrics_with_parameters_and_all_of_them(run: Command, path: Path) -> None:
    named = "fbeta:beta=2,partial_roc_auc:max_fpr=.1"
    values = values_of(run, "evaluate", path, *SCORED, "--metrics", named)["metrics"]
    assert values["fbeta:beta=2"]["value"] == pytest.approx(
        fbeta_score(TRUE, predicted(0.5), beta=2), abs=1e-12
    )
    assert list(values) == ["fbeta:beta=2", "partial_roc_auc:max_fpr=0.1"]
    every = values_of(run, "evaluate", path, *SCORED, "--metrics", "all")["metrics"]
    ev = se.Evaluator("binary", positive=1)
    ev.update_many(TRUE, score=SCORES)
    assert len(every) > 40
    assert "kappa_temporal" not in every
    for name, row in every.items():
        assert row["value"] == pytest.approx(ev[name], abs=0, rel=0), name
    plain = ev.report([("fbeta", {"beta": 2})], intervals=0.9)
    assert plain.rows[0].interval == ev.interval("fbeta", level=0.9, beta=2)


def test_top_k(run: Command, tmp_path: Path) -> None:
    rows = [
        {"y_true": t, "p": {"a": 0.5, "b": 0.3, "c": 0.2}} for t in ("a", "b", "c", "a", "b", "b")
    ]
    path = write_jsonl(tmp_path / "b.jsonl", rows)
    named = ("--proba", "p", "--top-k", "2", "--metrics", "accuracy")
    values = values_of(run, "evaluate", path, *named)
    assert values["metrics"]["top_k_accuracy:k=2"]["value"] == 5 / 6


class Page(HTMLParser):
    """The tags of a page, its addresses, and text by tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data.strip())


def test_csv_and_html(run: Command, path: Path) -> None:
    named = ("--metrics", "f1,accuracy", "--per-class")
    by_country = (*SCORED, *named, "--slice", "country", "--intervals", "0.95")
    values = values_of(run, "evaluate", path, *by_country)
    rows = list(
        csv.DictReader(io.StringIO(run("evaluate", path, *by_country, "--format", "csv").out))
    )
    total = {row["metric"]: float(row["value"]) for row in rows if row["scope"] == "total"}
    assert total == {name: one["value"] for name, one in values["metrics"].items()}
    slices = {row["name"]: float(row["low"]) for row in rows if row["scope"] == "slice"}
    assert slices == {
        f"country={one['slice']['country']}": one["interval"]["low"]
        for one in values["slices"]["slices"]
    }
    assert {row["scope"] for row in rows} == {"total", "class", "confusion", "slice"}
    text = run("evaluate", path, *by_country, "--format", "html").out
    page = Page(text)
    assert page.open == []
    assert "<th></th>" not in text
    assert page.texts["h2"][:3] == ["Metrics", "Classes", "Confusion"]
    assert len([tag for tag, _ in page.tags if tag == "caption"]) == 4


def test_every_picture_and_the_page(run: Command, tmp_path: Path) -> None:
    at = [f"2026-03-01T{n // 10:02d}:00:00Z" for n in range(200)]
    events = [
        {**event, "at": time, "country": "<b>" if n % 3 else "PT"}
        for n, (event, time) in enumerate(zip(EVENTS, at, strict=True))
    ]
    path = write_jsonl(tmp_path / "a.jsonl", [*events, {"label": 1}])
    page = tmp_path / "page.html"
    result = run(
        "evaluate", path, *SCORED, "--time", "at", "--window", "panes:7d/4h", "--series", "f1",
        "--slice", "country", "--metrics", "f1", "--on-bad", "skip",
        "--report", page, "--plot", f"pr={tmp_path / 'any.svg'}",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert (tmp_path / "any.svg").read_text().startswith("<?xml")
    text = page.read_text()
    read = Page(text)
    images = [attributes for tag, attributes in read.tags if tag == "img"]
    assert len(images) == len(ALONE) - len({"residuals", "actual_vs_predicted"})
    assert all(str(one["src"]).startswith("data:image/svg+xml;base64,") for one in images)
    assert all(one["alt"] for one in images)
    # Nothing is loaded, no script runs, and text of the stream is no markup.
    assert not {tag for tag, _ in read.tags} & {"script", "link", "iframe", "b"}
    assert not re.search(r"""(src|href|url)\s*[=(]\s*["']?\s*(https?:)?//""", text)
    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert "@media print" in text
    assert "prefers-color-scheme: dark" in text
    assert "Bad records" in read.texts["h2"]


def test_pictures_that_there_are_not(run: Command, tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "a.jsonl", [{"y_true": 1, "y_pred": 1}, {"y_true": 0, "y_pred": 1}]
    )
    result = run("evaluate", path, "--y-pred", "y_pred", "--plot", tmp_path / "roc.png")
    assert result.code == 1
    assert result.out.startswith("metric")
    assert "--plot roc: " in result.err
    pictures = tmp_path / "made" / "with its parents"
    result = run("evaluate", path, "--y-pred", "y_pred", "--plot-dir", pictures)
    assert result.err == f"streameval: --plot-dir {pictures}: confusion.png\n"
    assert [file.name for file in pictures.iterdir()] == ["confusion.png"]
    kind = ("--plot-format", "html")
    result = run("evaluate", path, "--y-pred", "y_pred", "--plot-dir", pictures, *kind)
    assert result.err == f"streameval: --plot-dir {pictures}: confusion.html\n"
    assert (pictures / "confusion.html").read_bytes().startswith(b"<!DOCTYPE html>")
    # Before anything is read.
    refused = run("evaluate", path, "--y-pred", "y_pred", "--plot-dir", path / "a")
    assert (refused.code, refused.out) == (1, "")
    assert f"{path / 'a'}: the directory cannot be made: Not a directory" in refused.err
    missing = run("evaluate", path, "--y-pred", "y_pred", "--report", tmp_path / "no" / "a.html")
    assert (missing.code, missing.out) == (1, "")
    assert "there is no directory" in missing.err


def test_pages_and_pictures_without_matplotlib(tmp_path: Path) -> None:
    """The page draws its pictures itself; what needs a package names it before reading."""
    path = write_jsonl(tmp_path / "a.jsonl", [{**one, "other": one["score"] / 2} for one in EVENTS])
    models = ("--score", "old=score", "--score", "new=other", "--y-true", "label")
    calls: list[tuple[Any, ...]] = [
        ("evaluate", path, *SCORED, "--report", "a.html", "--save", "a", "--plot", "roc.svg"),
        ("report", "a", "--report", "b.html", "--plot-dir", "all", "--plot-format", "html"),
        ("compare", path, *models, "--report", "c.html", "--save", "c"),
        ("report", "c", "--report", "d.html"),
        ("evaluate", path, *SCORED, "--plot", "roc.png"),
        ("evaluate", path, *SCORED, "--plot-dir", "not made"),
    ]
    code = f"""
import sys
sys.modules["matplotlib"] = sys.modules["plotly"] = None
from streameval.cli import main
print([main(call) for call in {[[str(part) for part in call] for call in calls]!r}])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    *_, codes = done.stdout.splitlines()
    assert codes == "[0, 0, 0, 0, 1, 1]", done.stderr
    needs = "a picture in .png (not in .svg or .html) needs the package 'matplotlib', which is"
    assert done.stderr.count(needs) == 2
    assert not (tmp_path / "not made").exists()
    for name, pictures in (("a", 10), ("b", 10), ("c", 13), ("d", 13)):
        page = Page((tmp_path / f"{name}.html").read_text("utf-8"))
        assert page.open == []
        drawn = [
            attributes for tag, attributes in page.tags if tag == "svg" and "role" in attributes
        ]
        assert len(drawn) == len(page.texts["desc"]) == pictures
        assert not any(tag == "img" or "id" in one for tag, one in page.tags if tag != "section")
    assert (tmp_path / "roc.svg").read_text("utf-8").startswith("<svg")
    assert len(list((tmp_path / "all").glob("*.html"))) == 10


def states_of_two_weeks(run: Command, tmp_path: Path, *more: str) -> tuple[Path, Path]:
    halves = EVENTS[:100], [{**one, "score": 1 - one["score"]} for one in EVENTS[100:]]
    paths = []
    for name, events in zip(("old", "new"), halves, strict=True):
        rows = [{**one, "country": "PT" if n % 2 else "DE"} for n, one in enumerate(events)]
        path = write_jsonl(tmp_path / f"{name}.jsonl", rows)
        paths.append(tmp_path / f"{name}.state")
        assert run("evaluate", path, *SCORED, *more, "--save", paths[-1]).code == 0
    return paths[0], paths[1]


def test_diff(run: Command, tmp_path: Path) -> None:
    old, new = states_of_two_weeks(run, tmp_path, "--slice", "country")
    values = values_of(run, "diff", old, new)
    before, after = se.load(old), se.load(new)
    one = values["metrics"]["accuracy"]
    assert one["before"] == before["accuracy"]
    assert one["difference"] == after["accuracy"] - before["accuracy"]
    assert one["interval"]["low"] < one["difference"] < one["interval"]["high"] < 0
    assert one["differs"]
    assert values["independent"]
    assert set(values["labels"]) == {"0", "1"}
    assert set(values["slices"]["slices"]) == {"country=DE", "country=PT"}
    text = run("diff", old, new).out
    assert "95 % intervals of the difference, for two independent samples" in text
    assert "shares of the true labels" in text
    narrow = values_of(run, "diff", old, new, "--level", "0.5", "--metrics", "accuracy")
    assert list(narrow["metrics"]) == ["accuracy"]
    assert narrow["metrics"]["accuracy"]["interval"]["high"] < one["interval"]["high"]
    assert run("diff", old, new, "--format", "csv").out.startswith("scope,name,metric,before,")
    assert Page(run("diff", old, new, "--format", "html").out).open == []


def test_states_that_share_events_have_no_intervals(run: Command, tmp_path: Path) -> None:
    old, new = states_of_two_weeks(run, tmp_path)
    both = tmp_path / "both.state"
    assert run("merge", old, new, "--save", both).code == 0
    values = values_of(run, "diff", old, both)
    assert not values["independent"]
    assert all(one["interval"]["low"] is None for one in values["metrics"].values())
    assert "not independent samples, as both hold the content" in run("diff", old, both).out
    run("evaluate", tmp_path / "new.jsonl", "--y-pred", "label", "--y-true", "label", "--save", new)
    refused = run("diff", old, new)
    assert refused.code == 2
    assert "different tasks" in refused.err


def test_inspect(run: Command, tmp_path: Path) -> None:
    events = [{**one, "at": 1_700_000_000 + 60 * n} for n, one in enumerate(EVENTS)]
    path, state = write_jsonl(tmp_path / "a.jsonl", events), tmp_path / "a.state"
    timed = ("--time", "at", "--time-unit", "s", "--window", "panes:7d/1h", "--shard", "eu-1")
    run("evaluate", path, *SCORED, *timed, "--slice", "label", "--save", state)
    values = values_of(run, "inspect", state)
    assert values["events"] == 200
    assert (values["from"], values["to"]) == ("2023-11-14T22:00:00Z", "2023-11-15T01:32:20Z")
    assert values["bytes"] == state.stat().st_size
    assert values["bytes_uncompressed"] == sum(values["bytes_by_part"].values())
    assert values["bytes"] < values["bytes_uncompressed"]
    assert {"total: index", "slices: index"} < set(values["bytes_by_part"])
    assert values["slices"] == ["label"]
    assert values["window"]["kind"] == "panes"
    assert values["states"] == ["confusion", "index"]
    text = run("inspect", state).out
    assert re.search(r"^shards +shard 'eu-1' \(epoch 0\)$", text, re.MULTILINE)
    damaged = state.read_bytes()
    state.write_bytes(damaged[:-40] + bytes(40))
    result = run("inspect", state)
    assert (result.code, result.out) == (2, "")
    assert "the state was damaged or changed" in result.err
    assert len(result.err.splitlines()) == 1
    assert "not a streameval state file" in run("inspect", path).err


@pytest.mark.parametrize("width", [40, 200])
def test_tables_fit_the_terminal_and_numbers_are_whole(
    run: Command, path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr("streameval.cli.output.terminal_width", lambda: width)
    monkeypatch.setattr("streameval.cli.result.terminal_width", lambda: width)
    named = ("--metrics", "f1,log_loss,expected_calibration_error", "--per-class")
    sliced = ("--slice", "country", "--intervals", "0.95")
    shown = run("evaluate", path, *SCORED, *named, *sliced).out
    assert max(map(len, shown.splitlines())) <= width
    values = values_of(run, "evaluate", path, *SCORED, *named)["metrics"]
    for row in values.values():
        assert f"{row['value']:.10g}" in shown
    assert max(map(len, run("metrics").out.splitlines())) <= width


def test_the_help_of_evaluate_fits_two_screens(
    run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("evaluate", "--help").out.splitlines()
    assert len(lines) <= 110
    assert max(map(len, lines)) <= 80
    headings = [line[:-1] for line in lines if re.fullmatch(r"[A-Z][a-z ]+:", line)]
    assert headings == ["Arguments", *options.GROUPS, "Examples"]
    assert "\x1b" not in "".join(lines)
    for form in (
        "last:10000",
        "panes:1h/5m,lateness=10m,retain=7d",
        "fading:1000",
        "country+model",
    ):
        assert form in "".join(lines)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_metrics(
    run: Command, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setenv("_STREAMEVAL_COMPLETE", f"source_{shell}")
    with pytest.raises(SystemExit):
        run()
    monkeypatch.setenv("_STREAMEVAL_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    line = "streameval evaluate --metrics f1,brier_s"
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", "3")
    shown = io.StringIO()
    monkeypatch.setattr("sys.stdout", shown)
    with pytest.raises(SystemExit):
        run()
    assert "f1,brier_score" in shown.getvalue()


def test_the_manual_page_is_that_of_the_help(run: Command) -> None:
    page = run("--man").out
    assert ".SS streameval evaluate\n" in page
    assert "\\fB\\-\\-threshold NUMBER|RULE\\fR" in page


def test_the_terminal_decides_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(output.shutil, "get_terminal_size", lambda: os.terminal_size((123, 50)))
    assert output.terminal_width() == 123
    monkeypatch.setattr(output.sys.stdout, "isatty", lambda: False, raising=False)
    assert output.terminal_width() is None


HOSTILE = [
    "=1+1",
    "@SUM(A1)",
    "+x",
    "-x",
    "\tx",
    "-2",
    "a\rb",
    "![i](http://e.example/x)",
    "www.e.com",
]


def test_labels_are_neither_formulas_nor_links(run: Command, tmp_path: Path) -> None:
    events = [{"label": one, "guess": HOSTILE[0]} for one in HOSTILE]
    path = write_jsonl(tmp_path / "a.jsonl", events)
    given = ("evaluate", path, "--y-true", "label", "--y-pred", "guess", "--per-class", "--format")

    def names(text: str) -> set[str]:
        rows = csv.DictReader(io.StringIO(text, newline=""))
        return {row["name"] for row in rows if row["scope"] == "class"}

    defused = {f"'{one}" if one[0] in "=@+\t" or one == "-x" else one for one in HOSTILE}
    assert names(run(*given, "csv").out) == defused
    assert names(run(*given, "csv-raw").out) == set(HOSTILE)
    markdown = run(*given, "markdown").out
    assert r"![i\](http\://e.example/x)" in markdown
    assert r"www\.e.com" in markdown
    assert "](" not in markdown.replace(r"\](", "")
