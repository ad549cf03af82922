"""A run that compares several models: its counts are those of one comparison of all events."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

import streameval as se
from streameval.evaluator.comparison import Comparison
from streameval.evaluator.slices import slice_name
from streameval.service.alerts.inputs import AlertInput, AlertInputs
from streameval.service.alerts.rules import AlertBook
from streameval.service.config.evaluators import open_evaluators
from streameval.service.publish.builder import SnapshotBuilder
from streameval.service.store.valid_from import ValidFrom
from streameval.uncertainty.multiple_testing import holm
from tests.support import run
from tests.support.command_runs import Command
from tests.support.published_sample import published as sample
from tests.support.run import (
    MODELS,
    Row,
    configure,
    exported,
    labels_of,
    predictions_of,
    settings,
    snapshot_of,
    write,
)
from tests.support.serve_runs import serving

NO_PAIRS = (
    "the joint cells hold no scores: these are kept with paired_scores, for metrics= of the ranking"
)

SCORES = {"champion": "score", "challenger": "other"}
SETTINGS: dict[str, Any] = {
    "evaluator": {"models": [*MODELS], "slices": ["country"], "paired_scores": True},
    "fields": {"score": SCORES, "time": "time"},
}
"""What makes of a run one of two models."""


def of_models(base: dict[str, Any] = SETTINGS, **changes: Any) -> dict[str, Any]:
    """Such settings with other keys of the evaluator; a key that is None is left out."""
    evaluator = {**base["evaluator"], **changes}
    return base | {"evaluator": {k: one for k, one in evaluator.items() if one is not None}}


UNPAIRED = of_models(paired_scores=None)
JOINED = run.JOINED | UNPAIRED
JOINED["fields"] = SETTINGS["fields"] | {"id": "id"}
METRICS = ["accuracy", "f1", "roc_auc", "log_loss", "average_precision", "error_rate"]


@pytest.fixture(autouse=True)
def run_toml(here: Path) -> None:
    configure(**SETTINGS)


def events(count: int) -> list[Row]:
    return run.events(count, seconds=1)


def counted(comparison: Any, rows: list[Row]) -> Any:
    comparison.update_many(
        [row["y_true"] for row in rows],
        score={model: [row[field] for row in rows] for model, field in SCORES.items()},
        event_time=[row["time"] for row in rows],
        slices={"country": [row["country"] for row in rows]},
    )
    return comparison


def expected(rows: list[Row], **options: Any) -> Comparison:
    kept = {} if options.get("paired_scores", True) else {"max_scores": 65_536}
    options = {"time_unit": "us", "intervals": True, **kept, **options}
    return counted(Comparison(MODELS, slices=("country",), **options), rows)


def test_a_run_over_a_file_is_the_comparison_of_that_file(here: Path, command: Command) -> None:
    rows = events(1500)
    write("events.jsonl", rows)
    assert command("run", "run.toml", "--until-end").code == 0
    found = exported(command, here / "out")
    whole = expected(rows)
    assert found["all.comparison"] == whole.to_bytes()
    assert found["all.state"] == whole.reference.to_bytes()
    recent = se.Panes("1h", pane="5m", lateness="1h")
    assert found["recent.comparison"] == expected(rows, window=recent).to_bytes()
    assert command("store", "check", "streameval.db").code == 0
    assert "accuracy" in command("store", "report", "streameval.db").out


def test_joined_labels_and_their_corrections(here: Path, command: Command) -> None:
    rows = events(600)
    wrong = [{**row, "y_true": not row["y_true"]} for row in rows[:100]]
    configure(**JOINED)
    write("p.jsonl", predictions_of(rows))
    write("l.jsonl", labels_of([*wrong, *rows[100:]]))
    assert command("run", "run.toml", "--until-end").code == 0
    write("l.jsonl", labels_of(rows[:100]), more=True)
    assert command("run", "run.toml", "--until-end").code == 0
    found = exported(command, here / "out")
    assert found["all.comparison"] == expected(rows, paired_scores=False).to_bytes()
    assert b'"scored":' in found["all.comparison"]
    difference = Comparison.from_bytes(found["all.comparison"]).difference("roc_auc")
    assert difference.reason == NO_PAIRS
    assert difference.value == expected(rows).difference("roc_auc").value


def test_other_models_need_a_new_store_and_windows_may_change(here: Path, command: Command) -> None:
    rows = events(300)
    write("events.jsonl", rows[:200])
    assert command("run", "run.toml", "--until-end").code == 0
    one = of_models(models=None, paired_scores=None) | {"fields": run.RUN["fields"]}
    for key, changes in (
        ("models", of_models(models=["challenger", "champion"])),
        ("models", one),
        ("threshold", of_models(threshold=0.4)),
        ("slices", of_models(slices=[])),
    ):
        configure(**changes)
        refused = command("run", "run.toml", "--until-end")
        assert refused.code == 2
        assert f"evaluator.{key}" in refused.err
        assert ("begin a new store with --store" in refused.err) >= (key == "models")
    other = {**run.RUN["window"][1], "name": "other"}
    configure(**SETTINGS, window=[run.RUN["window"][0], other])
    write("events.jsonl", rows[200:], more=True)
    kept = command("run", "run.toml", "--until-end", "--drop", "window.recent")
    assert kept.code == 0, kept.err
    found = exported(command, here / "out")
    assert found["all.comparison"] == expected(rows).to_bytes()
    assert sum(Comparison.from_bytes(found["other.comparison"]).arrivals.values()) == 100


def published(changes: dict[str, Any] = SETTINGS, metrics: list[str] = METRICS) -> Any:
    """The builder of a run's snapshots, one of them, and the counts of its first window."""
    chosen = settings(**{**changes, **of_models(changes, metrics=metrics)})
    evaluations = open_evaluators(chosen)
    for evaluation in evaluations.values():
        counted(evaluation, events(400))
    builder = SnapshotBuilder(chosen, evaluations, ValidFrom(), lambda: 1e9)
    return builder, snapshot_of(builder, now=1_000_000), evaluations["all"]


@pytest.fixture(scope="module")
def usual() -> Any:
    """Such a run, for tests that only read."""
    return published()


def number(value: float) -> float | None:
    return None if math.isnan(value) else value


def test_the_snapshot_holds_every_difference_and_the_reference_is_the_run(usual: Any) -> None:
    builder, snapshot, whole = usual
    assert snapshot.reports["all"].metrics["accuracy"].value == whole["champion"]["accuracy"]
    found = snapshot.comparison["all"]
    assert (found.models, found.level, found.as_of) == ([*MODELS], 0.95, "1970-01-01T00:00:01Z")
    for one in found.differences:
        wanted = whole.differences(one.metric)[0]
        assert one.value == number(wanted.value)
        assert found.values[one.metric] == {name: whole[name][one.metric] for name in MODELS}
        if one.metric == "average_precision":
            assert one.low is None
            assert one.reason.startswith("a run does not resample scores")
        else:
            assert (one.low, one.high) == (wanted.low, wanted.high)
            assert (one.p_value, one.p_adjusted) == (wanted.p_value, wanted.p_adjusted)
            assert (one.method, one.reason) == (wanted.method, "")
    assert [one.metric for one in found.differences] == list(found.values)
    slices = whole.slice_differences(found.slice_metric)
    assert [(row.slice, row.flagged) for row in found.slices] == [
        (slice_name(row.slice), row.flagged) for row in slices
    ]
    assert [row.difference.p_adjusted for row in found.slices] == [
        row.difference.p_adjusted for row in slices
    ]
    opened = builder.open_slice(snapshot, "all", "country=PT", "comparison")
    one = next(d for d in opened.comparison["all"].differences if d.metric == "accuracy")
    view = whole.slices()[("country", "PT"),]
    assert one.value == view.difference("accuracy").value
    assert opened.comparison["recent"] == snapshot.comparison["recent"]


@pytest.mark.parametrize(("pairs", "metric"), [(True, "roc_auc"), (False, "accuracy")])
def test_without_pairs_of_scores_their_differences_say_why(pairs: bool, metric: str) -> None:
    _, snapshot, whole = published(SETTINGS if pairs else UNPAIRED, ["f1", "roc_auc", "accuracy"])
    found = {one.metric: one for one in snapshot.comparison["all"].differences}
    assert found["roc_auc"].value == whole.difference("roc_auc").value
    assert (found["roc_auc"].low is None, found["roc_auc"].reason) == (
        (False, "") if pairs else (True, NO_PAIRS)
    )
    assert found["accuracy"].p_value == whole.difference("accuracy").p_value
    # Slices are compared in the first metric whose test has a formula.
    assert snapshot.comparison["all"].slice_metric == metric
    assert {row.difference.metric for row in snapshot.comparison["all"].slices} == {metric}


def test_many_challengers_are_adjusted_together_and_an_alert_watches_the_one_it_names() -> None:
    """Of three models, the last of which reverses the scores of the first."""
    three = of_models(models=[*MODELS, "third"])
    three["fields"] = {"score": SCORES | {"third": "s3"}, "time": "time"}
    alert = {"name": "worse", "metric": "accuracy", "below": 0, "model": "third"}
    chosen = settings(**three, alert=[alert | {"when": "certain"}])
    whole: Any = open_evaluators(chosen)["all"]
    for row in events(300):
        scores = {model: row[field] for model, field in SCORES.items()}
        scores["third"] = 1 - row["score"]
        whole.update(row["y_true"], score=scores, slices={"country": row["country"]})
    builder = SnapshotBuilder(chosen, {"all": whole, "recent": whole}, ValidFrom(), lambda: 1e9)
    found = builder._make_compared("all")
    accuracy = [one for one in found.differences if one.metric == "accuracy"]
    assert [one.a for one in accuracy] == ["challenger", "third"]
    assert [one.p_adjusted for one in accuracy] == holm([one.p_value or 0.0 for one in accuracy])
    assert len(found.slices) == 4
    value = AlertInputs(chosen, {"all": whole}, lambda: 1e9)._value_of(chosen.alert[0])
    wanted = whole.difference("accuracy", a="third")
    assert (value.value, value.low) == (wanted.value, wanted.low)
    assert value.value != whole.difference("accuracy").value


@pytest.mark.parametrize(("model", "part"), [("champion", "PT"), ("challenger", "")])
def test_the_api_answers_the_numbers_of_any_model(usual: Any, model: str, part: str) -> None:
    builder, snapshot, whole = usual
    wanted = (whole.slices()[("country", part),] if part else whole.total)[model]
    given = {"model": model, **({"slice": f"country={part}"} if part else {})}
    with serving(snapshot) as one:
        one.publisher.open_slice = builder.open_slice
        view = one.json("/api/view", params={**given, "metric": "f1"})
        report = one.json("/api/report", params=given)["report"]
        roc = one.json("/api/curves/roc", params=given)["columns"]
        series = one.json("/api/series/f1", params=given)
        confusion = one.json("/api/confusion", params=given)
    for name in ("accuracy", "roc_auc", "log_loss"):
        assert report["metrics"][name]["value"] == wanted[name]
    assert view["report"] == report
    assert view["curves"]["roc"]["columns"] == roc
    assert roc["tpr"] == wanted.curve("roc").tpr.tolist()
    assert confusion["matrix"] == wanted.confusion.to_array(confusion["labels"]).tolist()
    assert view["series"]["values"] == series["values"]
    assert max(series["support"]) > 0


def test_the_api_answers_the_slices_of_any_model_and_of_all(usual: Any) -> None:
    builder, snapshot, whole = usual
    with serving(snapshot) as one:
        one.publisher.open_slice = builder.open_slice
        rows = one.json("/api/slices?model=challenger&sort=f1&order=asc")["slices"]
        each = one.json("/api/slices?model=challenger&sort=f1&order=asc&models=all")["slices"]
        refused = one.json("/api/slices?model=third", 400)["error"]
    views = {slice_name(key): view for key, view in whole.slices().items()}
    values = {name: view["challenger"]["f1"] for name, view in views.items()}
    assert {row["name"]: row["metrics"]["f1"] for row in rows} == values
    assert [row["name"] for row in rows] == sorted(values, key=values.__getitem__)
    for row in each:
        found = {name: metrics["f1"] for name, metrics in row.pop("models").items()}
        assert found == {name: views[row["name"]][name]["f1"] for name in MODELS}
    assert each == rows
    assert (refused["where"], refused["expected"]) == ("model", "one of champion, challenger")
    with serving(sample(models=0)) as one:
        assert "models" not in one.json("/api/slices?models=all")["slices"][0]
        assert one.json("/api/report?model=champion", 400)["error"]["where"] == "model"


def test_slices_of_a_model_take_a_share_of_the_time_and_follow_the_counts() -> None:
    now = [0.0]
    builder, snapshot, whole = published()
    builder._clock = lambda: now[0]

    def first(sequence: int) -> int | float:
        shown = msgspec.structs.replace(snapshot, sequence=sequence)
        opened = builder.open_slice(shown, "all", "", "slices", model="challenger")
        return sum(row.support for row in opened.slices["all"])

    before = first(1)
    counted(whole, events(100))
    builder.changed()
    part = builder._of_models["all", "challenger"]
    part._cost = 1.0
    assert first(2) == before
    now[0] = 1000.0
    assert first(3) == before + 100


def watched(usual: Any, **alert: Any) -> Any:
    """What an alert on the challenger looks at, the counts, and the settings."""
    named = {"name": "worse", "below": 0, "model": "challenger"}
    chosen = settings(**SETTINGS, alert=[named | alert])
    _, snapshot, whole = usual
    inputs = AlertInputs(chosen, {"all": whole, "recent": whole}, lambda: 1e9)
    return inputs.observe(snapshot, 1_000_000)["worse"].value, whole, chosen


@pytest.mark.parametrize(
    ("metric", "when", "method", "part"),
    [
        ("accuracy", "value", "", "PT"),
        ("accuracy", "certain", "McNemar, Bonett-Price", ""),
        ("accuracy", "anytime", "anytime beta-binomial", "PT"),
        ("roc_auc", "certain", "paired DeLong", "PT"),
        ("f1", "certain", "paired bootstrap, 200 replicates", ""),
    ],
)
def test_alerts_compare_models(usual: Any, metric: str, when: str, method: str, part: str) -> None:
    where = {"slice": {"country": part}} if part else {}
    found, whole, chosen = watched(usual, metric=metric, when=when, **where)
    view = whole.slices()[("country", part),] if part else whole.total
    wanted = view.difference(metric, method="anytime" if when == "anytime" else "auto")
    assert found.value == wanted.value
    assert found.support == view["challenger"].report([metric]).rows[0].support
    assert found.method == method
    if when != "value":
        assert (found.low, found.high) == (wanted.low, wanted.high)
    book = AlertBook(chosen)
    (state,) = book.judge({"worse": AlertInput(found)}, 0).states
    assert (state.state, state.model, state.against) == ("ok", "challenger", "champion")


def test_an_alert_between_models_fires_in_words(usual: Any) -> None:
    found, _, chosen = watched(usual, metric="error_rate", when="certain")
    book = AlertBook(chosen)
    (transition,) = book.judge({"worse": AlertInput(found)}, 0).transitions
    assert transition.text.startswith("firing: worse: error_rate of challenger is -0.")
    assert "against champion (certainly below 0 fires) in window all" in transition.text
    again = AlertBook(chosen)
    again.restore(json.loads(json.dumps(book.to_state())))
    assert again.judge({"worse": AlertInput(found)}, 1).transitions == []
    third = msgspec.structs.replace(chosen.alert[0], model="third")
    fresh = AlertBook(msgspec.structs.replace(chosen, alert=[third]))
    fresh.restore(json.loads(json.dumps(book.to_state())))
    assert fresh.judge({"worse": AlertInput(found)}, 1).transitions != []


def test_metrics_of_what_is_kept_may_change(here: Path, command: Command) -> None:
    rows = events(300)

    def keep(*names: str) -> None:
        configure(**of_models(paired_scores=None, metrics=[*names]))

    keep("accuracy", "roc_auc")
    write("events.jsonl", rows[:200])
    assert command("run", "run.toml", "--until-end").code == 0
    keep("accuracy", "f1", "roc_auc")  # as an alert on f1 does
    write("events.jsonl", rows[200:], more=True)
    assert command("run", "run.toml", "--until-end").code == 0
    wanted = expected(rows, metrics=["accuracy", "f1", "roc_auc"], paired_scores=False)
    assert exported(command, here / "out")["all.comparison"] == wanted.to_bytes()
    keep("roc_auc")
    refused = command("run", "run.toml", "--until-end")
    assert refused.code == 2
    assert "evaluator.metrics" in refused.err


def test_a_joined_event_that_is_refused_is_kept_with_every_model_s_field(
    here: Path, command: Command
) -> None:
    row = {**events(1)[0], "w": 0.5}
    fields = {"champion": "score", "challenger": "new.score"}
    configure(**JOINED | {"fields": JOINED["fields"] | {"score": fields, "weight": "w"}})
    prediction = {key: row[key] for key in ("id", "score", "w", "time", "country")}
    write("p.jsonl", [prediction | {"new": {"score": row["other"]}}])
    write("l.jsonl", labels_of([row]))
    assert command("run", "run.toml", "--until-end").code == 0
    kept = json.loads(command("store", "quarantine", "streameval.db", "--format", "json").out)
    (record,) = kept["records"]
    assert record["reason"] == "weight"
    found = json.loads(record["raw"])
    assert (found["score"], found["new"]) == (row["score"], {"score": row["other"]})
