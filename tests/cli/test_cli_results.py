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
from sklearn.metrics import classification_report, fbeta_score

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


def test_json_has_classes_and_a_better_threshold_unless_metrics_are_named(
    run: Command, path: Path
) -> None:
    """Tables of them are in docs/command-line.md."""
    values = values_of(run, "evaluate", path, *SCORED)
    theirs = classification_report(TRUE, predicted(0.5), output_dict=True)
    for name in ("1", "macro avg"):
        assert values["classes"][name] == pytest.approx(theirs[name], abs=1e-12)
    best = values["cut_points"]["f1"]
    assert fbeta_score(TRUE, predicted(best["threshold"]), beta=1) == pytest.approx(best["value"])
    for more in (["--no-per-class"], ["--metrics", "f1,accuracy"]):
        values = values_of(run, "evaluate", path, *SCORED, *more)
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
    # Beside that line of a page its curves have their heading.
    shares = [{"y_true": row["y_true"], "p": {row["y_pred"]: 1.0}} for row in rows]
    path, page = write_jsonl(tmp_path / "b.jsonl", shares), tmp_path / "page.html"
    assert run("evaluate", path, "--proba", "p", "--report", page).code == 0
    assert Page(page.read_text()).texts["h2"] == ["Metrics", "Most frequent errors", "Curves"]


@pytest.mark.parametrize(
    ("rule", "params"),
    [
        ("youden", {}),
        ("cost:5:1", {"c_fp": 5, "c_fn": 1}),
        ("precision_at_least:0.7", {"precision": 0.7}),
    ],
)
def test_a_rule_chooses_the_threshold_of_everything(
    run: Command, path: Path, tmp_path: Path, rule: str, params: dict[str, float]
) -> None:
    ev = se.evaluate(path, y_true="label", score="score")
    cut = ev.thresholds(rule.partition(":")[0], **params)
    state = tmp_path / "a.state"
    values = values_of(run, "evaluate", path, *SCORED, "--threshold", rule, "--save", state)
    assert values["threshold"] == cut.threshold
    assert values["threshold_chosen"] == {"rule": rule, **cut.to_dict()}
    assert values["confusion"]["matrix"] == [[cut.tn, cut.fp], [cut.fn, cut.tp]]
    once = se.evaluate(path, y_true="label", score="score", threshold=cut.threshold)
    assert se.load(state) == once


def test_a_rule_needs_files_and_a_threshold(run: Command, tmp_path: Path) -> None:
    one = write_jsonl(tmp_path / "b.jsonl", [{"label": 0, "score": 0.5}] * 3)
    for source, rule, message in (
        ("-", "f1", "requires files"),
        (one, "cost:1:1", "best to predict none"),
        (one, "f1", "--threshold: expected events of"),
    ):
        assert message in run("evaluate", source, *SCORED, "--threshold", rule).err


def test_all_metrics(run: Command, path: Path) -> None:
    every = values_of(run, "evaluate", path, *SCORED, "--metrics", "all")["metrics"]
    ev = se.evaluate(path, y_true="label", score="score")
    assert len(every) > 40
    assert "kappa_temporal" not in every
    assert {name: row["value"] for name, row in every.items()} == {name: ev[name] for name in every}


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
    text = run("evaluate", path, *by_country, "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["scope"] for row in rows} == {"total", "class", "confusion", "slice"}
    total = {row["metric"]: float(row["value"]) for row in rows if row["scope"] == "total"}
    assert total == {name: one["value"] for name, one in values["metrics"].items()}
    slices = {row["name"]: float(row["low"]) for row in rows if row["scope"] == "slice"}
    assert slices == {
        f"country={one['slice']['country']}": one["interval"]["low"]
        for one in values["slices"]["slices"]
    }
    page = Page(run("evaluate", path, *by_country, "--format", "html").out)
    assert page.open == []
    assert page.texts["h2"][:3] == ["Metrics", "Classes", "Confusion"]
    assert len([tag for tag, _ in page.tags if tag == "caption"]) == 4


def test_every_picture_and_the_page(run: Command, tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [
        {**one, "at": f"2026-03-01T{n // 10:02d}:00Z", "country": "<b>" if n % 3 else "PT"}
        for n, one in enumerate(EVENTS)
    ]
    path, page = write_jsonl(tmp_path / "a.jsonl", [*events, {"label": 1}]), tmp_path / "page.html"
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
    events = [{"y_true": 1, "y_pred": 1}, {"y_true": 0, "y_pred": 1}]
    given = ("evaluate", write_jsonl(tmp_path / "a.jsonl", events), "--y-pred", "y_pred")
    result = run(*given, "--plot", tmp_path / "roc.png")
    assert (result.code, result.out[:6]) == (1, "metric")
    assert "--plot roc: " in result.err
    pictures = tmp_path / "made" / "with its parents"
    for kind, begin in (("png", b"\x89PNG"), ("html", b"<!DOCTYPE html>")):
        result = run(*given, "--plot-dir", pictures, "--plot-format", kind)
        assert result.err == f"streameval: --plot-dir {pictures}: confusion.{kind}\n"
        assert (pictures / f"confusion.{kind}").read_bytes().startswith(begin)
    # Before anything is read.
    for option, place, message in (
        ("--plot-dir", given[1] / "a", ": the directory cannot be made: Not a directory"),
        ("--report", tmp_path / "no" / "a.html", "there is no directory"),
    ):
        refused = run(*given, option, place)
        assert (refused.code, refused.out, message in refused.err) == (1, "", True)


def test_pages_and_pictures_without_matplotlib(tmp_path: Path) -> None:
    """The page draws its pictures itself; what needs a package names it before reading."""
    path = write_jsonl(tmp_path / "a.jsonl", [{**one, "other": one["score"] / 2} for one in EVENTS])
    scored, models = f"{path} --y-true label --score", "old=score --score new=other"
    calls = [
        f"evaluate {scored} score --report a.html --save a --plot roc.svg",
        "report a --report b.html --plot-dir all --plot-format html",
        f"compare {scored} {models} --report c.html --save c",
        "report c --report d.html",
        f"evaluate {scored} score --plot roc.png",
        f"evaluate {scored} score --plot-dir made",
    ]
    code = f"""
import sys
sys.modules["matplotlib"] = sys.modules["plotly"] = None
from streameval.cli import main
print([main(call.split()) for call in {calls!r}])
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[0, 0, 0, 0, 1, 1]", done.stderr
    needs = "a picture in .png (not in .svg or .html) needs the package 'matplotlib', which is"
    assert done.stderr.count(needs) == 2
    assert not (tmp_path / "made").exists()
    for name, pictures in (("a", 10), ("b", 10), ("c", 13), ("d", 13)):
        page = Page((tmp_path / f"{name}.html").read_text("utf-8"))
        assert page.open == []
        drawn = [one for tag, one in page.tags if tag == "svg" and "role" in one]
        assert len(drawn) == len(page.texts["desc"]) == pictures
        assert not any(tag == "img" or "id" in one for tag, one in page.tags if tag != "section")
    assert (tmp_path / "roc.svg").read_text("utf-8").startswith("<svg")
    assert len(list((tmp_path / "all").glob("*.html"))) == 10


def test_diff(run: Command, tmp_path: Path) -> None:
    old, new, both = (tmp_path / f"{name}.state" for name in ("old", "new", "both"))
    halves = EVENTS[:100], [{**one, "score": 1 - one["score"]} for one in EVENTS[100:]]
    for state, events in zip((old, new), halves, strict=True):
        rows = [{**one, "country": "PT" if n % 2 else "DE"} for n, one in enumerate(events)]
        path = write_jsonl(tmp_path / "a.jsonl", rows)
        assert run("evaluate", path, *SCORED, "--slice", "country", "--save", state).code == 0
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
    assert "shares of the true labels" in run("diff", old, new).out
    narrow = values_of(run, "diff", old, new, "--level", "0.5", "--metrics", "accuracy")["metrics"]
    assert list(narrow) == ["accuracy"]
    assert narrow["accuracy"]["interval"]["high"] < one["interval"]["high"]
    assert run("diff", old, new, "--format", "csv").out.startswith("scope,name,metric,before,")
    assert Page(run("diff", old, new, "--format", "html").out).open == []

    assert run("merge", old, new, "--save", both).code == 0
    values = values_of(run, "diff", old, both)
    assert not values["independent"]
    assert all(one["interval"]["low"] is None for one in values["metrics"].values())
    assert "not independent samples, as both hold the content" in run("diff", old, both).out
    run("evaluate", path, "--y-pred", "label", "--y-true", "label", "--save", new)
    refused = run("diff", old, new)
    assert (refused.code, "different tasks" in refused.err) == (2, True)


def test_inspect(run: Command, tmp_path: Path) -> None:
    events = [{**one, "at": 1_700_000_000 + 60 * n} for n, one in enumerate(EVENTS)]
    path, state = write_jsonl(tmp_path / "a.jsonl", events), tmp_path / "a.state"
    timed = ("--time", "at", "--time-unit", "s", "--window", "panes:7d/1h", "--shard", "eu-1")
    run("evaluate", path, *SCORED, *timed, "--slice", "label", "--save", state)
    values = values_of(run, "inspect", state)
    assert (values["from"], values["to"]) == ("2023-11-14T22:00:00Z", "2023-11-15T01:32:20Z")
    assert values["bytes"] == state.stat().st_size < values["bytes_uncompressed"]
    assert values["bytes_uncompressed"] == sum(values["bytes_by_part"].values())
    assert {"total: index", "slices: index"} < set(values["bytes_by_part"])
    assert (values["slices"], values["window"]["kind"]) == (["label"], "panes")
    assert (values["events"], values["states"]) == (200, ["confusion", "index"])
    text = run("inspect", state).out
    assert re.search(r"^shards +shard 'eu-1' \(epoch 0\)$", text, re.MULTILINE)
    state.write_bytes(state.read_bytes()[:-40] + bytes(40))
    result = run("inspect", state)
    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)
    assert "the state was damaged or changed" in result.err
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
    for form in ("last:10000", "panes:1h/5m,lateness=10m,retain=7d", "fading:1000", "y+model"):
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


HOSTILE = ["=1+1", "@SUM(A1)", "+x", "-x", "\tx", "-2", "a\rb", "a|b"]
HOSTILE += ["![i](http://e.example/x)", "www.e.com"]


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
    assert r" a\|b " in markdown
    assert "](" not in markdown.replace(r"\](", "")
