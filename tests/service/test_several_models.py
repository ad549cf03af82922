"""A run that compares several models: its counts are those of one comparison of all events."""

from __future__ import annotations

import json
import math
import random
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

import streameval as se
from streameval.errors import ConfigError
from streameval.evaluator.comparison import Comparison
from streameval.evaluator.slices import slice_name
from streameval.service.alerts.inputs import AlertInput, AlertInputs
from streameval.service.alerts.rules import AlertBook
from streameval.service.config.evaluators import open_evaluators
from streameval.service.config.load import resolved, settings_from_text
from streameval.service.config.settings import RunSettings
from streameval.service.lateness import LateShare
from streameval.service.publish.builder import SnapshotBuilder
from streameval.service.publish.snapshot import Checkpoint, Snapshot, Value
from streameval.service.run.service import run_service
from streameval.service.run.worker import Runner
from streameval.service.store.valid_from import ValidFrom
from streameval.state_files.codec import decompressed
from streameval.uncertainty.multiple_testing import holm
from tests.support.command_runs import COMMAND, Command, in_process, own_process
from tests.support.published_sample import published as sample
from tests.support.serve_runs import serving

MODELS = ("champion", "challenger")
KEPT: dict[str, Any] = {"max_scores": 65_536, "intervals": True}
"""What a run keeps by default."""
NO_PAIRS = (
    "the joint cells hold no scores: these are kept with paired_scores, for metrics= of the ranking"
)

CONFIG = """
[evaluator]
models = ["champion", "challenger"]
slices = ["country"]
paired_scores = true

[[window]]
name = "all"

[[window]]
name = "recent"
length = "1h"
pane = "5m"

[fields]
score = { champion = "s1", challenger = "s2" }
time = "time"

[files]
records = ["events.jsonl"]

[checkpoint]
every = "10ms"
events = 200

[serve]
enabled = false
"""

JOINED = (
    CONFIG.replace('records = ["events.jsonl"]', 'predictions = ["p.jsonl"]\nlabels = ["l.jsonl"]')
    .replace("[fields]", '[join]\nwait = "1h"\n\n[fields]\nid = "id"')
    .replace("paired_scores = true", "")
)


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    return in_process(capfd)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def events(count: int) -> list[dict[str, Any]]:
    rng = random.Random(3)
    rows = []
    for number in range(count):
        truth = rng.random() < 0.4
        common = rng.gauss(0, 0.1)
        scores = [
            round(min(1.0, max(0.0, 0.5 + gap * (truth - 0.5) + common + rng.gauss(0, 0.1))), 2)
            for gap in (0.2, 0.4)
        ]
        rows.append(
            {
                "id": f"e{number}",
                "y_true": truth,
                "s1": scores[0],
                "s2": scores[1],
                "time": f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:00Z",
                "country": rng.choice(["PT", "DE"]),
            }
        )
    return rows


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def expected(rows: list[dict[str, Any]], **options: Any) -> Comparison:
    kept = KEPT if not options.get("paired_scores", True) else {"intervals": True}
    options = {**kept, **options}
    whole = Comparison(MODELS, slices=("country",), time_unit="us", **options)
    whole.update_many(
        [row["y_true"] for row in rows],
        score={"champion": [r["s1"] for r in rows], "challenger": [r["s2"] for r in rows]},
        event_time=[row["time"] for row in rows],
        slices={"country": [row["country"] for row in rows]},
    )
    return whole


def exported(command: Command, directory: Path) -> dict[str, bytes]:
    directory.mkdir()
    done = command("store", "export", "streameval.db", "--to", directory)
    assert done.code == 0, done.err
    return {path.name: decompressed(path.read_bytes()) for path in sorted(directory.iterdir())}


def test_a_run_over_a_file_is_the_comparison_of_that_file(here: Path, command: Command) -> None:
    rows = events(1500)
    (here / "events.jsonl").write_text(lines(rows))
    assert command("run", "run.toml", "--until-end").code == 0
    found = exported(command, here / "out")
    whole = expected(rows)
    assert found["all.comparison"] == whole.to_bytes()
    assert found["all.state"] == whole.reference.to_bytes()
    recent = se.Panes("1h", pane="5m", lateness="1h")
    assert found["recent.comparison"] == expected(rows, window=recent).to_bytes()
    scores = ["--score", "champion=s1", "--score", "challenger=s2"]
    compared = command("compare", "events.jsonl", *scores, "--slice", "country", "--format", "json")
    report = Comparison.from_bytes(found["all.comparison"]).report()
    metrics = json.loads(compared.out)["metrics"]
    assert metrics == json.loads(json.dumps(report.to_dict()["metrics"]))
    assert metrics["roc_auc"]["differences"][0]["method"] == "paired DeLong"
    assert command("store", "check", "streameval.db").code == 0
    assert "accuracy" in command("store", "report", "streameval.db").out


def test_killed_runs_count_every_event_of_every_model_once(here: Path, command: Command) -> None:
    rows = events(3000)
    (here / "events.jsonl").write_text(lines(rows))
    rng = random.Random(1)
    for _ in range(3):
        arguments = ["run", "run.toml", "--until-end", "--set", "checkpoint.events=50"]
        with subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            assert b"counted so far" in process.stderr.readline()  # it has opened its store
            time.sleep(rng.random() * 0.15)  # anywhere: what is asserted holds wherever it falls
            process.kill()
    assert command("run", "run.toml", "--until-end").code == 0
    assert exported(command, here / "out")["all.comparison"] == expected(rows).to_bytes()


def test_joined_labels_and_their_corrections(here: Path, command: Command) -> None:
    rows = events(600)
    wrong = [{**row, "y_true": not row["y_true"]} for row in rows[:100]]
    (here / "run.toml").write_text(JOINED)
    predictions = [{key: value for key, value in row.items() if key != "y_true"} for row in rows]
    labels = [{key: row[key] for key in ("id", "y_true", "time")} for row in [*wrong, *rows[100:]]]
    (here / "p.jsonl").write_text(lines(predictions))
    (here / "l.jsonl").write_text(lines(labels))
    assert command("run", "run.toml", "--until-end").code == 0
    corrections = [{key: row[key] for key in ("id", "y_true", "time")} for row in rows[:100]]
    with (here / "l.jsonl").open("a") as file:
        file.write(lines(corrections))
    assert command("run", "run.toml", "--until-end").code == 0
    found = exported(command, here / "out")
    assert found["all.comparison"] == expected(rows, paired_scores=False).to_bytes()
    assert b'"scored":' in found["all.comparison"]
    difference = Comparison.from_bytes(found["all.comparison"]).difference("roc_auc")
    assert difference.reason == NO_PAIRS
    assert difference.value == expected(rows).difference("roc_auc").value


def test_a_record_without_a_model_s_score_is_in_quarantine(here: Path, command: Command) -> None:
    rows = events(50)
    del rows[7]["s2"]
    rows[9]["s1"] = "high"
    (here / "events.jsonl").write_text(lines(rows))
    assert command("run", "run.toml", "--until-end").code == 0
    kept = json.loads(command("store", "quarantine", "streameval.db", "--format", "json").out)
    assert kept["reasons"] == {"score:challenger": 1, "score:champion": 1}
    details = [row["detail"] for row in kept["records"]]
    assert any("s2: expected a finite number, got no field 's2'" in one for one in details)
    good = [row for n, row in enumerate(rows) if n not in (7, 9)]
    assert exported(command, here / "out")["all.comparison"] == expected(good).to_bytes()


def test_other_models_need_a_new_store_and_windows_may_change(here: Path, command: Command) -> None:
    rows = events(300)
    (here / "events.jsonl").write_text(lines(rows[:200]))
    assert command("run", "run.toml", "--until-end").code == 0
    for change in (
        'models = ["challenger", "champion"]',
        "",
    ):
        text = CONFIG.replace('models = ["champion", "challenger"]', change)
        if not change:
            text = text.replace('{ champion = "s1", challenger = "s2" }', '"s1"')
            text = text.replace("paired_scores = true", "")
        (here / "run.toml").write_text(text)
        refused = command("run", "run.toml", "--until-end")
        assert refused.code == 2
        assert "evaluator.models" in refused.err
        assert "begin a new store with --store" in refused.err
    for key, text in (
        ("threshold", "slices = ['country']\nthreshold = 0.4"),
        ("slices", "slices = []"),
    ):
        (here / "run.toml").write_text(CONFIG.replace('slices = ["country"]', text))
        refused = command("run", "run.toml", "--until-end")
        assert refused.code == 2
        assert f"evaluator.{key}" in refused.err
    more = CONFIG.replace('name = "recent"', 'name = "other"')
    (here / "run.toml").write_text(more)
    with (here / "events.jsonl").open("a") as file:
        file.write(lines(rows[200:]))
    kept = own_process("run", "run.toml", "--until-end", "--drop", "window.recent")
    assert kept.code == 0, kept.err
    found = exported(command, here / "out")
    assert found["all.comparison"] == expected(rows).to_bytes()
    assert sum(Comparison.from_bytes(found["other.comparison"]).arrivals.values()) == 100


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('models = ["champion", "challenger"]', ""), "evaluator.paired_scores requires"),
        (("paired_scores = true", 'positive = "a"'), "evaluator.labels"),
        (('["champion", "challenger"]', '["champion"]'), "from 2 to 100 distinct names"),
        (('["champion", "challenger"]', '["champion", "a b"]'), "1 to 64 letters"),
        (('["champion", "challenger"]', '["champion", "new"]'), "a field for each of the models"),
        (('{ champion = "s1", challenger = "s2" }', '"s1"'), "got 's1'; write score = {"),
        (('challenger = "s2"', 'challenger = "s1"'), "got that of fields.score.champion"),
        (("paired_scores", "max_scores = 2048\npaired_scores"), "max_scores conflicts with"),
        (("time =", 'proba = "p"\ntime ='), "fields.proba conflicts with evaluator.models"),
        (('challenger = "s2"', "challenger = 5"), "fields.score.challenger: expected text"),
        (('{ champion = "s1", challenger = "s2" }', "5"), "text or a table"),
    ],
)
def test_a_bad_configuration_says_what_to_write(change: tuple[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_from_text(CONFIG.replace(*change))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_tables_of_fields_require_models() -> None:
    text = CONFIG.replace('models = ["champion", "challenger"]', "")
    with pytest.raises(ConfigError, match=r"fields.score as a table requires evaluator.models"):
        settings_from_text(text.replace("paired_scores = true", ""))


def published(text: str = CONFIG, count: int = 400) -> tuple[SnapshotBuilder, Snapshot, Comparison]:
    """The builder of a run's snapshots, one of them, and the counts of its first window."""
    settings = settings_from_text(text)
    evaluations = open_evaluators(settings)
    for row in events(count):
        for evaluation in evaluations.values():
            evaluation.update(
                row["y_true"],
                score={"champion": row["s1"], "challenger": row["s2"]},
                event_time=row["time"],
                slices={"country": row["country"]},
            )
    builder = SnapshotBuilder(settings, evaluations, ValidFrom(), lambda: 1e9)
    snapshot = builder.build(
        sequence=1,
        now=1_000_000,
        labelled_until=None,
        late={window.name: LateShare() for window in settings.window},
        join=None,
        partitions=[],
        quarantine={"total": 0, "kept": 0, "reasons": {}, "recent": []},
        checkpoint=Checkpoint(1, "1970-01-01T00:00:00Z", 0, 0.0),
    )
    whole = evaluations["all"]
    assert isinstance(whole, Comparison)
    return builder, snapshot, whole


def number(value: float) -> float | None:
    return None if math.isnan(value) else value


def test_the_snapshot_holds_every_difference_and_the_reference_is_the_run() -> None:
    builder, snapshot, whole = published()
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
    assert opened is not None
    one = next(d for d in opened.comparison["all"].differences if d.metric == "accuracy")
    view = whole.slices()[("country", "PT"),]
    assert one.value == view.difference("accuracy").value
    assert opened.comparison["recent"] == snapshot.comparison["recent"]


def test_without_pairs_of_scores_their_differences_say_why() -> None:
    _, snapshot, whole = published(CONFIG.replace("paired_scores = true", ""))
    found = {one.metric: one for one in snapshot.comparison["all"].differences}
    assert found["roc_auc"].value == whole.difference("roc_auc").value
    assert found["roc_auc"].low is None
    assert found["roc_auc"].reason == NO_PAIRS
    assert found["accuracy"].p_value == whole.difference("accuracy").p_value


def test_many_challengers_are_adjusted_together() -> None:
    text = CONFIG.replace('"champion", "challenger"', '"champion", "challenger", "third"')
    text = text.replace('challenger = "s2"', 'challenger = "s2", third = "s3"')
    evaluation = open_evaluators(settings_from_text(text))["all"]
    assert isinstance(evaluation, Comparison)
    rows = events(300)
    evaluation.update_many(
        [row["y_true"] for row in rows],
        score={
            "champion": [row["s1"] for row in rows],
            "challenger": [row["s2"] for row in rows],
            "third": [row["s1"] / 2 for row in rows],
        },
        slices={"country": [row["country"] for row in rows]},
    )
    settings = settings_from_text(text)
    builder = SnapshotBuilder(
        settings, {"all": evaluation, "recent": evaluation}, ValidFrom(), lambda: 1e9
    )
    found = builder._make_compared("all")
    accuracy = [one for one in found.differences if one.metric == "accuracy"]
    assert [one.a for one in accuracy] == ["challenger", "third"]
    assert [one.p_adjusted for one in accuracy] == holm([one.p_value or 0.0 for one in accuracy])
    assert len(found.slices) == 4


def test_the_api_answers_the_comparison_and_null_of_one_model() -> None:
    data = sample(models=2)
    with serving(data) as one:
        answer = one.json("/api/comparison?window=1h")
        assert answer["window"]["name"] == "1h"
        assert answer["comparison"] == msgspec.to_builtins(data.comparison["1h"])
        assert one.json("/api/status")["run"]["models"] == ["model-0", "model-1"]
        assert one.json("/api/comparison?slice=x%3Dy", 404)["error"]["where"] == "slice"
    with serving(sample(models=0)) as one:
        assert one.json("/api/status")["run"]["models"] == []
        assert one.json("/api/comparison")["comparison"] is None


def watched(alert: str, text: str = CONFIG) -> tuple[Value, Comparison, RunSettings]:
    """What an alert on the challenger looks at, the counts, and the settings."""
    settings = settings_from_text(f"{text}\n[[alert]]\nname = 'worse'\n{alert}")
    _, snapshot, whole = published(text)
    evaluations = {"all": whole, "recent": whole}
    found = AlertInputs(settings, evaluations, lambda: 1e9).observe(snapshot, 1_000_000)
    return found["worse"].value, whole, settings


@pytest.mark.parametrize(
    ("metric", "when", "method"),
    [
        ("accuracy", "value", ""),
        ("accuracy", "certain", "McNemar, Bonett-Price"),
        ("accuracy", "anytime", "anytime beta-binomial"),
        ("roc_auc", "certain", "paired DeLong"),
        ("f1", "certain", "paired bootstrap, 200 replicates"),
    ],
)
@pytest.mark.parametrize("part", ["", "PT"])
def test_alerts_compare_models(metric: str, when: str, method: str, part: str) -> None:
    where = f"slice = {{ country = '{part}' }}" if part else ""
    keys = f"metric = '{metric}'\nbelow = 0\nmodel = 'challenger'\nwhen = '{when}'\n{where}"
    found, whole, settings = watched(keys)
    view = whole.slices()[("country", part),] if part else whole.total
    wanted = view.difference(metric, method="anytime" if when == "anytime" else "auto")
    assert found.value == wanted.value
    assert found.support == view["challenger"].report([metric]).rows[0].support
    assert found.method == method
    if when != "value":
        assert (found.low, found.high) == (wanted.low, wanted.high)
    book = AlertBook(settings.alert, "all", settings)
    (state,) = book.judge({"worse": AlertInput(found)}, 0).states
    assert (state.state, state.model, state.against) == ("ok", "challenger", "champion")


def test_an_alert_between_models_fires_in_words() -> None:
    keys = "metric = 'error_rate'\nbelow = 0\nmodel = 'challenger'\nwhen = 'certain'"
    found, _, settings = watched(keys)
    book = AlertBook(settings.alert, "all", settings)
    (transition,) = book.judge({"worse": AlertInput(found)}, 0).transitions
    assert transition.text.startswith("firing: worse: error_rate of challenger is -0.")
    assert "against champion (certainly below 0 fires) in window all" in transition.text
    again = AlertBook(settings.alert, "all", settings)
    again.restore(json.loads(json.dumps(book.to_state())))
    assert again.judge({"worse": AlertInput(found)}, 1).transitions == []
    third = msgspec.structs.replace(settings.alert[0], model="third")
    fresh = AlertBook([third], "all", settings)
    fresh.restore(json.loads(json.dumps(book.to_state())))
    assert fresh.judge({"worse": AlertInput(found)}, 1).transitions != []


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("model = 'champion'", "one of challenger, which is compared with champion"),
        ("model = 'chalenger'", "did you mean 'challenger'?"),
        ("model = 'challenger'\nagainst = 'previous'", "model conflicts with alert[0].against"),
        ("model = 'challenger'\nreference = 'x'", "model conflicts with alert[0].reference"),
        (
            "model = 'challenger'\nslice = 'any'\nwhen = 'certain'",
            'model conflicts with alert[0].slice = "any"',
        ),
        (
            "model = 'challenger'\nwhen = 'anytime'\nwindow = 'recent'",
            "no interval holds at every look at a window that moves",
        ),
        (
            "model = 'challenger'\nwhen = 'anytime'\nmetric = 'roc_auc'",
            "for whose difference no interval holds at every look",
        ),
        (
            "model = 'challenger'\nwhen = 'certain'\nmetric = 'average_precision'",
            "which a run does not do",
        ),
        ("model = 'challenger'\nmetric = 'lag'", "model conflicts with alert[0].metric = 'lag'"),
    ],
)
def test_bad_alerts_between_models_say_why(keys: str, message: str) -> None:
    if "metric" not in keys:
        keys += "\nmetric = 'accuracy'"
    with pytest.raises(ConfigError) as caught:
        settings_from_text(f"{CONFIG}\n[[alert]]\nname = 'worse'\nbelow = 0\n{keys}")
    assert message in str(caught.value)


def test_certain_alerts_of_scores_require_their_pairs() -> None:
    keys = "metric = 'roc_auc'\nbelow = 0\nmodel = 'challenger'\nwhen = 'certain'"
    with pytest.raises(ConfigError, match=r"requires evaluator.paired_scores = true"):
        watched(keys, CONFIG.replace("paired_scores = true", ""))
    fading = CONFIG.replace('length = "1h"\npane = "5m"', 'half_life = "1h"')
    with pytest.raises(ConfigError, match="no test of pairs is known"):
        watched(f"{keys}\nwindow = 'recent'", fading)


def test_prometheus_has_the_differences() -> None:
    data = sample(models=3)
    with serving(data) as one:
        samples = {
            (found.name, *found.labels.values()): found.value
            for family in text_string_to_metric_families(one.client.get("/metrics").text)
            for found in family.samples
            if found.name.startswith("streameval_difference")
        }
    wanted = {
        (name, row.metric, row.a, window): getattr(row, end)
        for window, compared in data.comparison.items()
        for row in compared.differences
        for name, end in (
            ("streameval_difference", "value"),
            ("streameval_difference_low", "low"),
            ("streameval_difference_high", "high"),
        )
        if getattr(row, end) is not None
    }
    assert samples == wanted
    assert len(wanted) == 3 * 2 * 3  # recall is undefined
    with serving(sample(models=0)) as one:
        assert "streameval_difference" not in one.client.get("/metrics").text


def test_metrics_of_what_is_kept_may_change(here: Path, command: Command) -> None:
    rows = events(300)
    text = CONFIG.replace("paired_scores = true", 'metrics = ["accuracy", "roc_auc"]')
    (here / "run.toml").write_text(text)
    (here / "events.jsonl").write_text(lines(rows[:200]))
    assert command("run", "run.toml", "--until-end").code == 0
    # As an alert on f1 does.
    (here / "run.toml").write_text(text.replace('["accuracy"', '["accuracy", "f1"'))
    with (here / "events.jsonl").open("a") as file:
        file.write(lines(rows[200:]))
    assert command("run", "run.toml", "--until-end").code == 0
    wanted = expected(rows, metrics=["accuracy", "f1", "roc_auc"], paired_scores=False)
    assert exported(command, here / "out")["all.comparison"] == wanted.to_bytes()
    (here / "run.toml").write_text(text.replace('"accuracy", ', ""))
    refused = command("run", "run.toml", "--until-end")
    assert refused.code == 2
    assert "evaluator.metrics" in refused.err


def test_a_joined_event_that_is_refused_is_kept_with_every_model_s_field(
    here: Path, command: Command
) -> None:
    row = {**events(1)[0], "w": 0.5}
    text = JOINED.replace('id = "id"', 'id = "id"\nweight = "w"')
    text = text.replace('challenger = "s2"', 'challenger = "new.score"')
    (here / "run.toml").write_text(text)
    prediction = {key: row[key] for key in ("id", "s1", "w", "time", "country")}
    prediction["new"] = {"score": row["s2"]}
    (here / "p.jsonl").write_text(lines([prediction]))
    (here / "l.jsonl").write_text(lines([{key: row[key] for key in ("id", "y_true", "time")}]))
    assert command("run", "run.toml", "--until-end").code == 0
    kept = json.loads(command("store", "quarantine", "streameval.db", "--format", "json").out)
    (record,) = kept["records"]
    assert record["reason"] == "weight"
    found = json.loads(record["raw"])
    assert (found["s1"], found["new"]) == (row["s1"], {"score": row["s2"]})


def test_settings_of_several_models_read_back_as_they_are_printed() -> None:
    settings = settings_from_text(CONFIG)
    assert settings_from_text(resolved(settings)) == settings
    chosen = settings_from_text(CONFIG, overrides=["fields.score.challenger=p.new"])
    assert chosen.fields.paths["score:challenger"] == "p.new"


def test_labels_of_several_classes(here: Path, command: Command) -> None:
    rng = random.Random(5)
    names = ["cat", "dog", "fox"]
    first, second = "p1", "p2"
    rows = []
    for number in range(400):
        truth = rng.choice(names)
        rows.append(
            {
                "y_true": truth,
                first: truth if rng.random() < 0.6 else rng.choice(names),
                second: truth if rng.random() < 0.8 else rng.choice([*names, "owl"]),
                "time": f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z",
            }
        )
    (here / "events.jsonl").write_text(lines(rows))
    text = CONFIG.replace('slices = ["country"]\npaired_scores = true', 'task = "multiclass"')
    text = text.replace("score = {", "y_pred = {").replace("s1", first).replace("s2", second)
    (here / "run.toml").write_text(text)
    assert command("run", "run.toml", "--until-end").code == 0, text
    found = Comparison.from_bytes(exported(command, here / "out")["all.comparison"])
    whole = Comparison(MODELS, "multiclass", time_unit="us", paired_scores=False, **KEPT)
    whole.update_many(
        [row["y_true"] for row in rows],
        {"champion": [r[first] for r in rows], "challenger": [r[second] for r in rows]},
    )
    assert found.to_bytes() == whole.to_bytes()
    assert found.labels == ["cat", "dog", "fox", "owl"]


def test_posts_are_compared_and_alerts_judged_while_the_run_goes_on(here: Path) -> None:
    rows = events(400)
    text = JOINED.replace('predictions = ["p.jsonl"]\nlabels = ["l.jsonl"]', "")
    text = text.replace("[files]", "[http]").replace("enabled = false", 'listen = "127.0.0.1:0"')
    text += (
        "\n[[alert]]\nname = 'worse'\nmetric = 'error_rate'\nbelow = 0\nmodel = 'challenger'\n"
        "when = 'anytime'\n"
    )
    # Differences in these have formulas: nothing is resampled, so they are computed often.
    text = text.replace("[[window]]", 'metrics = ["accuracy", "roc_auc"]\n\n[[window]]', 1)
    settings = settings_from_text(text)
    found: list[Any] = []

    def ready(runner: Runner, url: str | None) -> None:
        def talk() -> None:
            with httpx.Client(base_url=str(url), timeout=20) as client:
                for kind, keys in (
                    ("predictions", ("id", "s1", "s2", "time", "country")),
                    ("labels", ("id", "y_true", "time")),
                ):
                    body = lines([{key: row[key] for key in keys} for row in rows])
                    client.post(f"/v1/{kind}", content=body).raise_for_status()
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline:
                    answer = client.get("/api/comparison").json()
                    alerts = client.get("/api/alerts").json()["alerts"]
                    status = client.get("/api/status").json()["run"]
                    done = status["checkpoint"]["events"] == len(rows)
                    if done and answer["comparison"]["as_of"] >= status["checkpoint"]["at"]:
                        # After the others: a slice is there from the first checkpoint on.
                        part = client.get("/api/comparison?slice=country%3DPT").json()
                        found.extend([answer, alerts, part])
                        break
                    time.sleep(0.05)
                runner.stop()

        threading.Thread(target=talk).start()

    run_service(settings, started=ready)
    answer, (alert,), part = found
    whole = expected(rows, paired_scores=False)
    compared = {row["metric"]: row for row in answer["comparison"]["differences"]}
    wanted = whole.difference("accuracy")
    assert (compared["accuracy"]["value"], compared["accuracy"]["low"]) == (
        wanted.value,
        wanted.low,
    )
    assert answer["comparison"]["slice_metric"] == "accuracy"
    assert {row["slice"] for row in answer["comparison"]["slices"]} == {"country=DE", "country=PT"}
    assert part["comparison"]["values"]["accuracy"] == {
        name: whole.slices()[("country", "PT"),][name]["accuracy"] for name in MODELS
    }
    anytime = whole.difference("error_rate", method="anytime")
    assert (alert["value"], alert["high"]) == (anytime.value, anytime.high)
    assert alert["state"] == ("firing" if anytime.high < 0 else "ok")
    assert (alert["model"], alert["against"]) == ("challenger", "champion")


@pytest.mark.parametrize(("pairs", "metric"), [("true", "roc_auc"), ("false", "accuracy")])
def test_slices_are_compared_in_the_first_metric_whose_test_has_a_formula(
    pairs: str, metric: str
) -> None:
    text = CONFIG.replace("paired_scores = true", f"paired_scores = {pairs}")
    text = text.replace("[[window]]", 'metrics = ["f1", "roc_auc", "accuracy"]\n\n[[window]]', 1)
    _, snapshot, _ = published(text)
    found = snapshot.comparison["all"]
    assert found.slice_metric == metric
    assert {row.difference.metric for row in found.slices} == {metric}


def test_an_alert_watches_the_challenger_that_it_names() -> None:
    text = CONFIG.replace('"champion", "challenger"', '"champion", "challenger", "third"')
    text = text.replace('challenger = "s2"', 'challenger = "s2", third = "s3"')
    keys = "metric = 'accuracy'\nbelow = 0\nmodel = 'third'\nwhen = 'certain'"
    settings = settings_from_text(f"{text}\n[[alert]]\nname = 'worse'\n{keys}")
    whole = open_evaluators(settings)["all"]
    assert isinstance(whole, Comparison)
    for row in events(200):
        whole.update(
            row["y_true"],
            score={"champion": row["s1"], "challenger": row["s2"], "third": 1 - row["s1"]},
            slices={"country": row["country"]},
        )
    observer = AlertInputs(settings, {"all": whole}, lambda: 1e9)
    found = observer._value_of(settings.alert[0])
    wanted = whole.difference("accuracy", a="third")
    assert (found.value, found.low) == (wanted.value, wanted.low)
    assert found.value != whole.difference("accuracy").value
