"""``streameval compare``: models of one file, of several joined files, and bad input."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from streameval.evaluator.comparison import Comparison, evaluation_from_bytes
from tests.cli.test_cli_evaluate import written
from tests.cli.test_cli_results import Page
from tests.support.command_runs import Command

MODELS = ("champion", "challenger")
SCORES = ["--score", "champion=s1", "--score", "challenger=s2"]


def events(count: int = 200) -> list[dict[str, Any]]:
    source = random.Random(3)
    found = []
    for number in range(count):
        label = source.random() < 0.4
        common = 0.5 + source.gauss(0.0, 0.1)
        s1, s2 = (
            round(min(1.0, max(0.0, gap * (label - 0.5) + common + source.gauss(0, 0.1))), 2)
            for gap in (0.2, 0.4)
        )
        more = {"w": source.randint(1, 3), "country": source.choice(["PT", "DE"])}
        found.append({"id": number, "label": int(label), "s1": s1, "s2": s2, **more})
    return found


def compared(rows: list[dict[str, Any]], **options: Any) -> Comparison:
    c = Comparison(MODELS, positive=1, **options)
    c.update_many(
        [row["label"] for row in rows],
        score={"champion": [r["s1"] for r in rows], "challenger": [r["s2"] for r in rows]},
        weight=[row["w"] for row in rows],
        slices={"country": [row["country"] for row in rows]},
    )
    return c


def test_two_columns_of_one_file(run: Command, tmp_path: Path) -> None:
    """Tables are in docs/command-line.md."""
    rows = events()
    path, state = written(tmp_path / "a.csv", rows), tmp_path / "c.state"
    given = [path, "--y-true", "label", *SCORES, "--weight", "w", "--slice", "country"]
    result = run("compare", *given, "--format", "json", "--save", state)
    assert (result.code, result.err) == (0, "")
    expected = compared(rows, slices=["country"])
    values = json.loads(result.out)
    assert values.pop("slices") == expected.slice_differences("accuracy").to_dict()
    assert values == expected.report().to_dict()
    assert Comparison.load(state) == expected
    anytime = json.loads(run("compare", *given, "--anytime", "--format", "json").out)["metrics"]
    p_value = expected.difference("accuracy", method="anytime").p_value
    assert anytime["accuracy"]["differences"][0]["p_value"] == p_value
    assert "no anytime test" in anytime["roc_auc"]["differences"][0]["reason"]


@pytest.mark.parametrize(("old", "new"), [("jsonl", "csv"), ("csv", "parquet")])
def test_files_are_joined_by_id(run: Command, tmp_path: Path, old: str, new: str) -> None:
    """In any order of the second file, and with ids that only one of them has."""
    rows, state = events(), tmp_path / "c.state"
    first = [{**row, "score": row["s1"]} for row in rows if row["id"] % 50]
    second = [{"id": str(r["id"]), "score": r["s2"]} for r in reversed(rows) if r["id"] % 70]
    paths = [written(tmp_path / f"old.{old}", first), written(tmp_path / f"new.{new}", second)]
    given = ["--on", "id", "--y-true", "label", "--weight", "w", "--slice", "country"]
    models = ["--score", "champion=score", "--score", "challenger=score"]
    metrics = ["--metrics", "accuracy,roc_auc", "--format", "json"]
    result = run("compare", *paths, *given, *models, "--save", state, *metrics)
    both = [row for row in rows if row["id"] % 50 and row["id"] % 70]
    kept = {"slices": ["country"], "metrics": ["accuracy", "roc_auc"]}
    assert Comparison.load(state) == compared(both, **kept)
    others = [len(some) - len(both) for some in (first, second)]
    assert json.loads(result.out)["joined"] == {
        "both": len(both),
        "not_in_every_file": dict(zip(map(str, paths), others, strict=True)),
    }
    said = ", ".join(f"{n} of {path}" for n, path in zip(others, paths, strict=True))
    compared_ = f"streameval: --on id: compared {len(both)} events; not in every file: {said}\n"
    assert result.err == compared_


def test_a_bad_score_names_its_field_and_place(run: Command, tmp_path: Path) -> None:
    rows = events(5)
    rows[2]["s2"] = None
    path = written(tmp_path / "a.jsonl", rows)
    given = ["compare", str(path), "--y-true", "label", *SCORES]
    result = run(*given)
    assert result.code == 2
    assert result.err.startswith(f"streameval: {path}:3: s2: expected a finite number, got null")
    skip = ["--on-bad", "skip", "--max-bad", "1", "--metrics", "accuracy"]
    skipped = run(*given, *skip, "--format", "json")
    assert json.loads(skipped.out)["bad_records"]["count"] == 1


JOINS = {
    "new.jsonl:2: expected each 'id' once, got 1 of line 1 again": [
        {"id": 1, "s": 0.5}, {"id": "1", "s": 0.4}],
    "new.jsonl:1: expected an id in 'id', got none": [{"id": None, "s": 0.5}],
    "--on: expected values of 'id' that every file has": [{"id": 99, "s": 0.5}],
    "new.jsonl:1: s: expected a finite number, got the text": [{"id": 1, "s": "x"}],
}  # fmt: skip


@pytest.mark.parametrize("message", JOINS)
def test_bad_joins(run: Command, tmp_path: Path, message: str) -> None:
    old = written(tmp_path / "old.jsonl", [{"id": 1, "label": 1, "s": 0.9}])
    new = written(tmp_path / "new.jsonl", JOINS[message])
    models = ("--y-true", "label", "--score", "a=s", "--score", "b=s")
    result = run("compare", old, new, "--on", "id", *models)
    assert (result.code, message in result.err) == (2, True)


def test_empty_files_are_joined_to_no_events(run: Command, tmp_path: Path) -> None:
    paths = [tmp_path / "old.jsonl", tmp_path / "new.jsonl"]
    for path in paths:
        path.write_text("")
    given = ["--on", "id", "--score", "a=s", "--score", "b=s", "--metrics", "accuracy"]
    result = run("compare", *paths, *given)
    assert (result.code, result.err) == (0, f"streameval: no events in {paths[0]}, {paths[1]}\n")
    assert "no events" in result.out


@pytest.mark.parametrize(("format", "sliced"), [("table", True), ("json", False)])
def test_saved_comparisons_are_reported_and_merged(
    run: Command, tmp_path: Path, format: str, sliced: bool
) -> None:
    """Reports print what compare printed; merged shards, what it prints of all their events."""
    rows = events()
    metrics = ["--metrics", "roc_auc,accuracy,brier_score", "--format", format]
    options = ["--y-true", "label", *SCORES, *metrics, *["--slice", "country"] * sliced]
    parts = {"a": rows[:120], "b": rows[120:]}
    paths = [written(tmp_path / f"{name}.jsonl", part) for name, part in parts.items()]
    states = [path.with_suffix(".cmp") for path in paths]
    for path, state in zip(paths, states, strict=True):
        printed = run("compare", path, *options, "--save", state)
        assert run("report", state, *metrics) == printed
    whole = run("compare", *paths, *options, "--save", tmp_path / "whole")
    assert run("merge", *states, *metrics, "--save", tmp_path / "merged") == whole
    one, other = (
        evaluation_from_bytes((tmp_path / name).read_bytes()) for name in ("merged", "whole")
    )
    assert one.to_bytes() == other.to_bytes()


def test_options_of_a_saved_comparison(run: Command, tmp_path: Path) -> None:
    path, state = written(tmp_path / "a.jsonl", events()), tmp_path / "a.cmp"
    given = [path, "--y-true", "label", *SCORES, "--slice", "country"]
    run("compare", *given, "--metrics", "accuracy,f1,log_loss,brier_score", "--save", state)
    one = ["--metrics", "accuracy", "--anytime"]
    asked = run("compare", *given, *one, "--level", "0.9")
    assert run("report", state, *one, "--intervals", "0.9") == asked
    by = run("report", state, "--metrics", "f1", "--by", "brier_score").out
    assert str(Comparison.load(state).slice_differences("brier_score")) in by
    assert "slices by the difference of brier_score" in by


def test_what_saved_comparisons_refuse(run: Command, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", events())
    one, other, single = tmp_path / "a.cmp", tmp_path / "b.cmp", tmp_path / "a.state"
    few = ("--y-true", "label", "--metrics", "accuracy", "--save")
    run("compare", path, *SCORES, *few, one)
    run("compare", path, "--score", "champion=s1", "--score", "third=s2", *few, other)
    run("evaluate", path, "--score", "s1", *few, single)
    of_evaluate = "expected a state of evaluate, got one of compare"
    for command, message in (
        (["report", one, "--worst", "3"], f"--worst: {of_evaluate}"),
        (["report", one, "--series", "f1"], f"--series: {of_evaluate}"),
        (["report", one, "--slice", "country"], f"--slice: {of_evaluate}"),
        (["report", one, "--by", "f1"], "--by: expected a comparison with slices, got one without"),
        (["merge", one, single], f"{single}: expected a"),
        (["merge", single, one], f"{one}: expected a"),
        (["diff", one, other], "comparisons of different models cannot be compared: champion, ch"),
        (["diff", one, single], "expected a state like "),
        (["diff", single, one], "expected a state like "),
    ):
        result = run(*command)
        assert (result.code, result.out) == (2, "")
        assert message in result.err


def test_the_page_of_a_comparison(run: Command, tmp_path: Path) -> None:
    path, page = written(tmp_path / "a.jsonl", events()), tmp_path / "a.html"
    given = [path, "--y-true", "label", *SCORES, "--slice", "country", "--metrics", "accuracy"]
    plain = run("compare", *given)
    assert run("compare", *given, "--report", page) == plain
    read = Page(page.read_text())
    assert read.open == []
    images = [attributes for tag, attributes in read.tags if tag == "img"]
    words = [str(one["alt"]) for one in images]
    # Curves are drawn once, with a line of each model; what holds one model, beside each other.
    assert sum(all(f". {model}" in text for model in MODELS) for text in words) == 7
    for kind in ("Confusion matrix", "Scores by class", "Metrics by threshold"):
        assert [text.split(".")[0] for text in words if text.startswith(kind)] == [
            f"{kind} of {model}" for model in MODELS
        ]
    assert len(images) == 7 + 3 * len(MODELS)
    assert read.texts["h2"][:-1] == ["Metrics", "Curves", "Each model"]


def test_what_changed_between_comparisons(run: Command, tmp_path: Path) -> None:
    rows = events()
    parts = {"old": rows[:100], "new": [{**row, "s2": 1 - row["s2"]} for row in rows[100:]]}
    options = ["--y-true", "label", *SCORES, "--weight", "w", "--slice", "country"]
    options += ["--metrics", "accuracy,log_loss"]
    paths = [tmp_path / f"{name}.cmp" for name in parts]
    for path, part in zip(paths, parts.values(), strict=True):
        file = written(path.with_suffix(".jsonl"), part)
        assert run("compare", file, *options, "--save", path).code == 0
    before, after = map(Comparison.load, paths)
    found = json.loads(run("diff", *paths, "--format", "json").out)
    for model in MODELS:
        one = found["models"][model]["metrics"]["log_loss"]
        assert one["before"] == before[model]["log_loss"]
        assert one["after"] == after[model]["log_loss"]
        assert set(found["models"][model]["slices"]["slices"]) == {"country=DE", "country=PT"}
    for metric, one in found["differences"]["challenger"].items():
        old, new = before.difference(metric), after.difference(metric)
        assert (one["before"], one["after"]) == (old.value, new.value)
        assert one["difference"] == new.value - old.value < one["interval"]["high"]
        # Square and add, of two independent samples.
        below = math.hypot(new.value - new.low, old.high - old.value)
        assert one["difference"] - one["interval"]["low"] == pytest.approx(below)
    assert found["differences"]["challenger"]["accuracy"]["differs"]
    assert set(found["labels"]) == {"0", "1"}
    text = run("diff", *paths).out
    for title in (
        "metrics of champion",
        "differences of challenger less champion",
        "slices of challenger by the change of accuracy",
    ):
        assert f"\n{title}\n" in text
    csv = run("diff", *paths, "--format", "csv").out
    assert csv.startswith("model,scope,name,metric,before,")
    assert csv.count("\nchallenger,difference,") == 2
    assert Page(run("diff", *paths, "--format", "html").out).open == []
    same = json.loads(run("diff", paths[0], paths[0], "--format", "json").out)
    assert not same["independent"]
    assert same["differences"]["challenger"]["accuracy"]["interval"]["low"] is None
