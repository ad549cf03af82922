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
        common = source.gauss(0.0, 0.1)
        scores = [
            round(min(1.0, max(0.0, 0.5 + gap * (label - 0.5) + common + source.gauss(0, 0.1))), 2)
            for gap in (0.2, 0.4)
        ]
        found.append(
            {
                "id": number,
                "label": int(label),
                "s1": scores[0],
                "s2": scores[1],
                "w": source.randint(1, 3),
                "country": source.choice(["PT", "DE"]),
            }
        )
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
    rows = events()
    path, state = written(tmp_path / "a.csv", rows), tmp_path / "c.state"
    given = [str(path), "--y-true", "label", *SCORES, "--weight", "w", "--slice", "country"]
    result = run("compare", *given, "--format", "json", "--save", str(state))
    assert (result.code, result.err) == (0, "")
    expected = compared(rows, slices=["country"])
    values = json.loads(result.out)
    slices = values.pop("slices")
    assert values == expected.report().to_dict()
    assert slices == expected.slice_differences("accuracy").to_dict()
    assert Comparison.load(state) == expected
    text = run("compare", *given, "--metrics", "roc_auc,accuracy", "--level", "0.9").out
    assert text.startswith(str(expected.report(["roc_auc", "accuracy"], level=0.9)) + "\n\nslices")
    markdown = run("compare", *given, "--format", "markdown").out
    assert markdown.startswith("| metric | model |")


@pytest.mark.parametrize(("old", "new"), [("jsonl", "csv"), ("csv", "parquet")])
def test_files_are_joined_by_id(run: Command, tmp_path: Path, old: str, new: str) -> None:
    """In any order of the second file, and with ids that only one of them has."""
    rows = events()
    first = [{**row, "score": row["s1"]} for row in rows if row["id"] % 50]
    second = [{"id": str(r["id"]), "score": r["s2"]} for r in reversed(rows) if r["id"] % 70]
    paths = [
        str(written(tmp_path / f"old.{old}", first)),
        str(written(tmp_path / f"new.{new}", second)),
    ]
    given = ["--on", "id", "--y-true", "label", "--weight", "w", "--slice", "country"]
    models = ["--score", "champion=score", "--score", "challenger=score"]
    state = tmp_path / "c.state"
    metrics = ["--metrics", "accuracy,roc_auc", "--format", "json"]
    result = run("compare", *paths, *given, *models, "--save", str(state), *metrics)
    both = [row for row in rows if row["id"] % 50 and row["id"] % 70]
    kept = {"slices": ["country"], "metrics": ["accuracy", "roc_auc"]}
    assert Comparison.load(state) == compared(both, **kept)
    assert json.loads(result.out)["joined"] == {
        "both": len(both),
        "not_in_every_file": {
            paths[0]: len(first) - len(both),
            paths[1]: len(second) - len(both),
        },
    }
    assert result.err == (
        f"streameval: --on id: compared {len(both)} events; not in every file: "
        f"{len(first) - len(both)} of {paths[0]}, {len(second) - len(both)} of {paths[1]}\n"
    )


def test_anytime(run: Command, tmp_path: Path) -> None:
    rows = events()
    path = str(written(tmp_path / "a.jsonl", rows))
    given = ["compare", path, "--y-true", "label", *SCORES, "--weight", "w", "--anytime"]
    result = run(*given, "--format", "json", "--metrics", "accuracy,roc_auc")
    found = json.loads(result.out)["metrics"]
    expected = compared(rows, slices=["country"]).difference("accuracy", method="anytime")
    assert found["accuracy"]["differences"][0]["p_value"] == expected.p_value
    assert "no anytime test" in found["roc_auc"]["differences"][0]["reason"]


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
    "twice": ([{"id": 1, "s": 0.5}, {"id": "1", "s": 0.4}], "new.jsonl:2: expected each 'id' once, "
              "got 1 of line 1 again"),
    "missing": ([{"id": None, "s": 0.5}], "new.jsonl:1: expected an id in 'id', got none"),
    "none in common": ([{"id": 99, "s": 0.5}], "--on: expected values of 'id' that every file has"),
    "bad score": ([{"id": 1, "s": "x"}], "new.jsonl:1: s: expected a finite number, got the text"),
}  # fmt: skip


@pytest.mark.parametrize("case", JOINS)
def test_bad_joins(run: Command, tmp_path: Path, case: str) -> None:
    second, message = JOINS[case]
    paths = [
        str(written(tmp_path / "old.jsonl", [{"id": 1, "label": 1, "s": 0.9}])),
        str(written(tmp_path / "new.jsonl", second)),
    ]
    result = run("compare", *paths, "--on", "id", "--y-true", "label", "--score", "a=s",
                 "--score", "b=s")  # fmt: skip
    assert result.code == 2
    assert message in result.err


def test_empty_files_are_joined_to_no_events(run: Command, tmp_path: Path) -> None:
    paths = [tmp_path / "old.jsonl", tmp_path / "new.jsonl"]
    for path in paths:
        path.write_text("")
    given = ["--on", "id", "--score", "a=s", "--score", "b=s", "--metrics", "accuracy"]
    result = run("compare", *paths, *given)
    assert (result.code, result.err) == (0, f"streameval: no events in {paths[0]}, {paths[1]}\n")
    assert "no events" in result.out


@pytest.mark.parametrize(
    ("format", "sliced"), [("table", True), ("json", False), ("markdown", True)]
)
def test_saved_comparisons_are_reported_and_merged(
    run: Command, tmp_path: Path, format: str, sliced: bool
) -> None:
    """Reports print what compare printed; merged shards, what it prints of all their events."""
    rows = events()
    metrics = ["--metrics", "roc_auc,accuracy,brier_score", "--format", format]
    options = ["--y-true", "label", *SCORES, *metrics]
    options += ["--slice", "country"] if sliced else []
    paths = [
        written(tmp_path / f"{name}.jsonl", part)
        for name, part in (("a", rows[:120]), ("b", rows[120:]))
    ]
    states = [path.with_suffix(".cmp") for path in paths]
    printed = [
        run("compare", path, *options, "--save", state)
        for path, state in zip(paths, states, strict=True)
    ]
    assert run("report", states[0], *metrics) == printed[0]
    whole = run("compare", *paths, *options, "--save", tmp_path / "whole")
    merged = run("merge", *states, *metrics, "--save", tmp_path / "merged")
    assert merged == whole
    saved = [(tmp_path / name).read_bytes() for name in ("merged", "whole")]
    one, other = map(evaluation_from_bytes, saved)
    assert one.to_bytes() == other.to_bytes()


def test_options_of_a_saved_comparison(run: Command, tmp_path: Path) -> None:
    path, state = written(tmp_path / "a.jsonl", events()), tmp_path / "a.cmp"
    given = [path, "--y-true", "label", *SCORES, "--slice", "country"]
    run("compare", *given, "--metrics", "accuracy,f1,log_loss,brier_score", "--save", state)
    one = ["--metrics", "accuracy"]
    for shown, asked in (
        ([*one, "--intervals", "0.9", "--anytime"], [*one, "--level", "0.9", "--anytime"]),
        (["--metrics", "f1,log_loss"], ["--metrics", "f1,log_loss"]),
    ):
        assert run("report", state, *shown) == run("compare", *given, *asked)
    by = run("report", state, "--metrics", "f1", "--by", "brier_score")
    expected = Comparison.load(state).slice_differences("brier_score")
    assert str(expected) in by.out
    assert "slices by the difference of brier_score" in by.out


def test_what_a_saved_comparison_refuses(run: Command, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", events())
    compared_, evaluated = tmp_path / "a.cmp", tmp_path / "a.state"
    few = ("--metrics", "accuracy", "--save")
    run("compare", path, "--y-true", "label", *SCORES, *few, compared_)
    run("evaluate", path, "--y-true", "label", "--score", "s1", "--save", evaluated)
    for option in (["--worst", "3"], ["--series", "f1"], ["--slice", "country"]):
        result = run("report", compared_, *option)
        assert result.code == 2
        assert f"{option[0]}: expected a state of evaluate, got one of compare" in result.err
    result = run("report", compared_, "--by", "f1")
    assert (result.code, result.out) == (2, "")
    assert "--by: expected a comparison with slices, got one without" in result.err
    for states in ([compared_, evaluated], [evaluated, compared_]):
        result = run("merge", *states)
        assert result.code == 2
        assert f"{states[1]}: expected a" in result.err


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
    parts = rows[:100], [{**row, "s2": 1 - row["s2"]} for row in rows[100:]]
    of_metrics = ["--metrics", "accuracy,log_loss"]
    options = ["--y-true", "label", *SCORES, "--weight", "w", "--slice", "country", *of_metrics]
    paths = []
    for name, part in zip(("old", "new"), parts, strict=True):
        paths.append(tmp_path / f"{name}.cmp")
        file = written(tmp_path / f"{name}.jsonl", part)
        assert run("compare", file, *options, "--save", paths[-1]).code == 0
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
        assert one["difference"] == new.value - old.value
        low, high = one["interval"]["low"], one["interval"]["high"]
        assert low < one["difference"] < high
        # Square and add, of two independent samples.
        assert one["difference"] - low == pytest.approx(
            math.hypot(new.value - new.low, old.high - old.value)
        )
    assert found["differences"]["challenger"]["accuracy"]["differs"]
    assert set(found["labels"]) == {"0", "1"}
    text = run("diff", *paths).out
    assert "\nmetrics of champion\n" in text
    assert "\ndifferences of challenger less champion\n" in text
    assert "\nslices of challenger by the change of accuracy\n" in text
    csv = run("diff", *paths, "--format", "csv").out.splitlines()
    assert csv[0].startswith("model,scope,name,metric,before,")
    assert len([line for line in csv if line.startswith("challenger,difference,")]) == 2
    assert Page(run("diff", *paths, "--format", "html").out).open == []
    same = json.loads(run("diff", paths[0], paths[0], "--format", "json").out)
    assert not same["independent"]
    assert same["differences"]["challenger"]["accuracy"]["interval"]["low"] is None


def test_states_that_have_no_changes(run: Command, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", events())
    one, other, single = tmp_path / "a.cmp", tmp_path / "b.cmp", tmp_path / "a.state"
    few = ("--metrics", "accuracy", "--save")
    run("compare", path, "--y-true", "label", *SCORES, *few, one)
    names = ["--score", "champion=s1", "--score", "third=s2"]
    run("compare", path, "--y-true", "label", *names, *few, other)
    run("evaluate", path, "--y-true", "label", "--score", "s1", "--save", single)
    for states, message in (
        ([one, other], "comparisons of different models cannot be compared: champion, challenger"),
        ([one, single], "expected a state like "),
        ([single, one], "expected a state like "),
    ):
        result = run("diff", *states)
        assert (result.code, result.out) == (2, "")
        assert message in result.err
