"""Predictions that a run counts before their labels: what it says of them, and alerts on them."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.errors import ConfigError
from streameval.service.alerts.inputs import AlertInput, AlertInputs
from streameval.service.alerts.rules import AlertBook
from streameval.service.config.evaluators import kept_metrics, main_metrics
from streameval.service.config.load import settings_from_text
from streameval.service.config.settings import AlertSettings, RunSettings
from streameval.service.publish.predictions import PredictionReports
from streameval.service.publish.snapshot import Value
from streameval.service.run.reload import while_running
from tests.service.test_settings_migration import migrate
from tests.support.run import JOINED, KEPT, InTurn, Lists, Partitions, Run, opened, settings

HOURS, WAIT, PANE = 40, 8, 3_600_000_000
KEEPS: dict[str, Any] = {"slices": ["country"], "metrics": ["accuracy", "f1", "roc_auc"]}
START = 1_767_225_600_000_000
"""2026-01-01, the start of an hour."""


def stream(flip: float = 0.0, *, shift: float = 0.0, each: int = 20) -> list[dict[str, Any]]:
    """Records of so many an hour. From the 20th hour on labels are flipped or scores shifted."""
    rng = random.Random(7)
    rows = []
    for n in range(HOURS * each):
        hour = n // each
        score = 1 / (1 + math.exp(-rng.gauss(shift * (hour >= 20), 1.5)))
        label = rng.random() < score
        label ^= hour >= 20 and rng.random() < flip
        time = START + n * PANE // each
        row = {"id": n, "score": score, "other": score * score, "y_true": label, "time": time}
        rows.append(row | {"country": "PT" if n % 3 else "DE"})
    return rows


def lists(rows: list[dict[str, Any]]) -> Partitions:
    """The predictions, and the labels of all but the last hours, each an hour later."""
    known = rows[: len(rows) * (HOURS - WAIT) // HOURS]
    labels = [{**{key: row[key] for key in ("id", "y_true")}, "time": row["time"]} for row in known]
    bare = [{key: value for key, value in row.items() if key != "y_true"} for row in rows]
    return {
        "p": ("predictions", [json.dumps(row).encode() for row in bare]),
        "l": ("labels", [json.dumps(row).encode() for row in labels]),
    }


def joined(store: Path, **changes: Any) -> RunSettings:
    tables: dict[str, Any] = {
        "store": str(store),
        "evaluator": KEEPS,
        "window": [{"name": "hours", "length": "40h", "pane": "1h"}, {"name": "all"}],
        "fields": {"id": "id", "score": "score", "time": "time", "time_unit": "us"},
        "join": {"wait": f"{WAIT}h"},
        "reference": {"panes": 10},
        "checkpoint": {"every": "1h", "events": 1000},
    }
    return settings(**{**JOINED, **tables, **changes})


def ran(given: RunSettings, records: Partitions) -> tuple[Run, Any]:
    # With a clock that stands still every part of a snapshot is current.
    with opened(given, clock=lambda: 1.0) as run:
        run.runner.run([Lists(records, run.runner.positions, InTurn(50))])
        return run, run.data


def evaluated(rows: list[dict[str, Any]], **options: Any) -> se.Evaluator:
    found = se.Evaluator(**{**KEPT, **options})
    return found.update_many([r["y_true"] for r in rows], score=[r["score"] for r in rows])


def predicted(rows: list[dict[str, Any]]) -> se.Predictions:
    return se.Predictions(**KEPT).update_many(score=[row["score"] for row in rows])


def hours(rows: list[dict[str, Any]], first: int, last: int) -> list[dict[str, Any]]:
    return [row for row in rows if first <= (row["time"] - START) // PANE < last]


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunSettings, Run, Any]:
    """A run whose scores are shifted from the 20th hour on, for tests that only read."""
    given = joined(tmp_path_factory.mktemp("counted") / "a.db")
    return given, *ran(given, lists(stream(shift=0.6)))


def test_the_panes_without_labels_are_compared_with_the_first_that_have_them(
    counted: tuple[RunSettings, Run, Any],
) -> None:
    rows = stream(shift=0.6)
    _, run, data = counted
    found = data["predictions"]["hours"]
    # The watermark is that of the labels, in the hour before the last WAIT ones.
    late = found["series"]["immature"].index(True)
    assert late == HOURS - 2 * WAIT - 1
    reference, now = evaluated(hours(rows, 0, 10)), predicted(hours(rows, late, HOURS))
    assert (found["events"], found["unlabelled"]) == (len(rows), len(hours(rows, late, HOURS)))
    assert found["reference"] == "panes from 2026-01-01T00:00:00Z to 2026-01-01T10:00:00Z"
    for name in ("ks", "wasserstein", "psi", "jensen_shannon", "chi_squared", "cramers_v"):
        drift = now.drift(reference, name)
        assert found["drift"][name]["value"] == drift.value, name
        assert found["drift"][name].get("p_value") == (
            None if math.isnan(drift.p_value) else drift.p_value
        )
    for name in ("accuracy", "f1", "roc_auc"):
        value, low, high, *_ = now.expected(name, labelled=reference)
        one = found["expected"][name]
        assert (one["value"], one["low"], one["high"]) == (value, low, high), name
    assert found["metrics"]["positive_rate"]["value"] == now["positive_rate"]
    assert sum(found["scores"]["now"]) == pytest.approx(1) == sum(found["scores"]["reference"])
    # Of a pane of the reference there is nothing to compare.
    series = found["series"]
    assert series["events"] == [20] * HOURS
    assert series["drift"]["ks"][:10] == [None] * 10
    pane = predicted(hours(rows, 30, 31))
    assert series["drift"]["ks"][30] == pane.drift(reference, "ks").value
    assert series["low"]["f1"][30] == pane.expected("f1", labelled=reference).low
    # In a window without panes there is no reference but a file.
    assert data["predictions"]["all"]["unlabelled"] == len(rows)
    assert "set state under [reference]" in data["predictions"]["all"]["reference_reason"]
    # A slice is the same of its own events.
    opened_slice: Any = run.publisher.open_slice(  # type: ignore[misc]
        run.publisher.current(), "hours", "country=DE", "predictions"
    )
    of_slice = opened_slice.predictions["hours"]
    mine = [row for row in rows if row["country"] == "DE"]
    own = evaluated(hours(mine, 0, 10))
    assert of_slice.drift["ks"].value == predicted(hours(mine, late, HOURS)).drift(own, "ks").value


def test_an_estimate_that_fails_is_flagged(
    counted: tuple[RunSettings, Run, Any], tmp_path: Path
) -> None:
    alerts = [
        {"name": "whole", "metric": "expected.accuracy", "below": 0.01},
        {"name": "slice", "metric": "expected.accuracy", "below": 0.01, "when": "certain",
         "slice": {"country": "PT"}},
        {"name": "drift", "metric": "drift.ks", "below": 0.0},
    ]  # fmt: skip
    given = joined(tmp_path / "a.db", join={"wait": "1h"}, reference={"panes": 19}, alert=alerts)
    _, data = ran(given, lists(stream(0.3, each=60)))
    checks = data["predictions"]["hours"]["checks"]
    assert checks["f1"]["panes"] == HOURS - WAIT - 21
    for found, flagged in ((checks, True), (counted[2]["predictions"]["hours"]["checks"], False)):
        assert found["accuracy"]["flagged"] is flagged
        assert ("which has a chance of" in found["accuracy"]["reason"]) is flagged
    # An estimate that has failed before has no value for an alert.
    *estimates, drift = data["alerts"]
    assert drift["state"] == "ok"
    for one in estimates:
        assert (one["state"], one["value"]) == ("undefined", None)
        assert one["reason"].startswith("former estimates have failed: ")
        assert "outside of its 95% interval in 6 of 11 panes" in one["reason"]


def test_panes_that_still_fill_leave_time_for_the_others(
    counted: tuple[RunSettings, Run, Any],
) -> None:
    given, run, data = counted
    ticks = itertools.count()
    # The clock lets three panes be compared in each report, fewer than still fill.
    reports = PredictionReports(given, run.evaluators, clock=lambda: float(next(ticks)))
    until = datetime.fromisoformat(data["predictions"]["hours"]["start"])
    reports.labelled_until = int(until.timestamp()) * 1_000_000
    found = [reports.make("hours", since=None, seconds=6)[0] for _ in range(30)]
    series: Any = found[-1].series
    assert [value is None for value in series.drift["ks"]] == [True] * 10 + [False] * (HOURS - 10)
    assert found[-1].checks["accuracy"].panes == series.immature.count(False) - 10


def test_a_state_file_is_a_reference(tmp_path: Path) -> None:
    rows = stream()
    before = evaluated(hours(rows, 0, 20))
    before.save(tmp_path / "before.state")
    predicted(rows[:200]).save(tmp_path / "bare.state")
    alerts = [
        {"name": "drift", "metric": "drift.ks", "above": 0.001, "when": "anytime"},
        {"name": "expected", "metric": "expected.f1", "below": 0.1, "when": "certain"},
    ]

    def found(name: str, **more: Any) -> Any:
        state, window = {"state": str(tmp_path / name)}, [{"name": "all"}]
        given = joined(tmp_path / f"{name}.db", reference=state, window=window, **more)
        return ran(given, lists(rows))[1]

    data = found("before.state", alert=alerts)
    drift = predicted(rows).drift(before, "ks", method="anytime")
    assert data["predictions"]["all"]["reference"] == str(tmp_path / "before.state")
    assert data["predictions"]["all"]["drift"]["ks"]["value"] == drift.value
    watched, expected = data["alerts"]
    assert (watched["value"], watched["low"]) == (drift.value, drift.low)
    assert expected["low"] == predicted(rows).expected("f1", before).low
    assert (watched["state"], expected["state"]) == ("ok", "ok")
    # Predictions without labels are no reference of an expectation.
    shown = found("bare.state")["predictions"]["all"]
    assert shown["drift"]["psi"]["value"] > 0
    assert "events with true labels" in shown["expected"]["f1"]["reason"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "other.state",
            "reference.state: expected a state file of the run's task and labels, got ",
        ),
        ("no.state", "no.state"),
    ],
)
def test_a_reference_that_is_none_is_refused(tmp_path: Path, name: str, message: str) -> None:
    se.Evaluator(threshold=0.7).save(tmp_path / "other.state")
    with pytest.raises(ConfigError, match="reference") as refused:
        joined(tmp_path / "a.db", reference={"state": str(tmp_path / name)})
    assert message in str(refused.value)


def test_of_several_models_each_is_counted_and_the_first_is_watched(tmp_path: Path) -> None:
    rows = stream()
    models = {"one": "other", "two": "score"}
    alert = {"name": "a", "metric": "predictions.mean_score", "above": 0.1}
    alert |= {"slice": {"country": "PT"}}
    given = joined(
        tmp_path / "a.db",
        evaluator={**KEEPS, "models": list(models)},
        fields={"id": "id", "score": models, "time": "time", "time_unit": "us"},
        alert=[alert, alert | {"name": "b", "metric": "drift.ks"}],
    )
    run, data = ran(given, lists(rows))
    assert {name for name in run.evaluators if ":" in name} == {
        f"{window}:predictions:{model}" for window in ("hours", "all") for model in models
    }
    means = {}
    for model, column in models.items():
        means[model] = float(run.evaluators[f"all:predictions:{model}"]["mean_score"])
        assert means[model] == pytest.approx(np.mean([row[column] for row in rows]), rel=1e-12)
    assert data["predictions"]["all"]["metrics"]["mean_score"]["value"] == means["one"]
    other: Any = run.publisher.open_slice(  # type: ignore[misc]
        run.publisher.current(), "all", "", "predictions", model="two"
    )
    assert other.predictions["all"].metrics["mean_score"].value == means["two"]
    first, second = data["alerts"]
    waiting = hours(rows, HOURS - 2 * WAIT - 1, HOURS)
    later = [row["other"] for row in waiting if row["country"] == "PT"]
    assert first["value"] == pytest.approx(math.fsum(later) / len(later), rel=1e-12)
    assert second["value"] is not None


def test_several_classes_have_their_labels(tmp_path: Path) -> None:
    rng = random.Random(3)
    rows = [
        {"id": n, "y_pred": rng.choice("abc"), "y_true": "a", "time": START + n * PANE // 60}
        for n in range(0, 2400, 4)
    ]
    given = joined(
        tmp_path / "a.db",
        evaluator={"task": "multiclass"},
        fields={"id": "id", "y_pred": "y_pred", "time": "time", "time_unit": "us"},
    )
    found = ran(given, lists(rows))[1]["predictions"]["hours"]
    assert sorted(found["scores"]["labels"]) == ["a", "b", "c"]
    assert found["scores"]["edges"] == []
    assert sum(found["scores"]["now"]) == pytest.approx(1)
    assert found["drift"].keys() == {"chi_squared", "cramers_v"}
    assert found["expected"] == {}


def test_predictions_begin_where_they_are_switched_on(tmp_path: Path) -> None:
    rows = stream(each=5)
    records = lists(rows)
    first = {name: (kind, lines[: len(lines) // 2]) for name, (kind, lines) in records.items()}
    few = {"window": [{"name": "hours", "length": "4h", "pane": "1h"}, {"name": "all"}]}
    off = joined(
        tmp_path / "a.db", join={"wait": "8h", "predictions": False}, reference=None, **few
    )
    run, data = ran(off, first)
    assert data["predictions"] == {}
    assert not any(":" in name for name in run.evaluators)
    on = joined(tmp_path / "a.db", reference=None, **few)
    lines, drops = migrate(on)
    assert [line.partition(" begins now: it holds")[0] for line in lines] == [
        "counting predictions of window 'all'",
        "counting predictions of window 'hours'",
    ]
    assert drops == {}
    _, data = ran(on, records)
    later = rows[len(rows) // 2 :]
    found = data["predictions"]["all"]
    assert found["events"] == len(later)
    assert found["since"].startswith("2026-01-01T19:48:00")
    # Another threshold: those of before say nothing of it.
    changed = joined(tmp_path / "a.db", evaluator={**KEEPS, "threshold": 0.7}, **few)
    assert sum("counting predictions" in line for line in migrate(changed)[0]) == 2
    assert ran(changed, records)[1]["predictions"]["all"]["events"] == 0
    # And off again: nothing of them is left.
    lines, _ = migrate(off)
    assert "predictions of window 'all' are no longer counted" in lines
    assert ran(off, records)[1]["predictions"] == {}


def test_what_cannot_be_joined_exactly_is_not_counted_before(tmp_path: Path) -> None:
    rows = [{"id": n, "score": 0.5, "w": w, "time": START} for n, w in enumerate([1, 2.5, 3])]
    fields = {"id": "id", "score": "score", "weight": "w", "time": "time", "time_unit": "us"}
    records: Partitions = {"p": ("predictions", [json.dumps(row).encode() for row in rows])}
    _, data = ran(joined(tmp_path / "a.db", fields=fields, evaluator={}), records)
    assert data["predictions"]["all"]["events"] == 4
    assert data["quarantine"]["total"] == 0


@pytest.mark.parametrize(("length", "first", "last"), [("40h", "00", "14"), ("3h", "20", "21")])
def test_the_reference_is_a_third_of_the_window_unless_settings_say_more(
    tmp_path: Path, length: str, first: str, last: str
) -> None:
    window = [{"name": "hours", "length": length, "pane": "1h"}]
    _, data = ran(joined(tmp_path / "a.db", reference=None, window=window), lists(stream(each=3)))
    words = data["predictions"]["hours"]["reference"]
    assert words == f"panes from 2026-01-01T{first}:00:00Z to 2026-01-01T{last}:00:00Z"


# Alerts on them: drift, expected metrics, metrics of predictions

FIRST_WAITING = HOURS - 2 * WAIT - 1
"""Labels are waited for from this hour on."""


def watched(name: str, metric: str, **given: Any) -> dict[str, Any]:
    return {"name": name, "metric": metric, **given}


def test_what_alerts_see_is_what_the_library_computes(tmp_path: Path) -> None:
    rows = stream(shift=0.6, each=40)
    sure: dict[str, Any] = {"when": "certain", "level": 0.9}
    alerts = [
        watched("drift", "drift.ks", above=0.1),
        watched("sure-drift", "drift.ks", above=0.1, **sure),
        watched("distance", "drift.wasserstein", above=0.01),
        watched("expected", "expected.f1", below=0.99),
        watched("sure", "expected.f1", below=0.99, **sure),
        watched("rate", "predictions.positive_rate", above=0.5, **sure),
        watched("median", "predictions.median_score", above=0.99),
        watched("of-PT", "predictions.mean_score", above=0.1, slice={"country": "PT"}),
        watched("any-drift", "drift.ks", above=0.1, slice="any", **sure),
        watched("any-rate", "predictions.positive_rate", above=0.99, slice="any", **sure),
        watched("always", "predictions.positive_rate", above=0.1, when="anytime", window="all"),
    ]
    _, data = ran(joined(tmp_path / "a.db", alert=alerts), lists(rows))
    found = {one["name"]: one for one in data["alerts"]}
    now, old = hours(rows, FIRST_WAITING, HOURS), evaluated(hours(rows, 0, 10))
    p = predicted(now)
    ks, f1 = p.drift(old, "ks"), p.expected("f1", old, level=0.9)
    fine = {"median", "any-rate"}
    assert {name: one["state"] for name, one in found.items()} == {
        one["name"]: "ok" if one["name"] in fine else "firing" for one in alerts
    }
    for name in ("drift", "sure-drift"):
        assert (found[name]["value"], found[name]["p_value"]) == (ks.value, ks.p_value)
        assert found[name]["support"] == len(now)
    assert found["distance"]["value"] == p.drift(old, "wasserstein").value
    assert "p_value" not in found["distance"]
    assert found["expected"]["value"] == f1.value
    ends = [found["sure"][key] for key in ("value", "low", "high", "level")]
    assert ends == [f1.value, f1.low, f1.high, 0.9]
    assert found["rate"]["low"] == p.interval("positive_rate", level=0.9).low
    part = predicted([row for row in now if row["country"] == "PT"])
    assert found["of-PT"]["value"] == part["mean_score"]
    assert found["any-drift"]["slices"] == ["country=PT"]
    # It has no interval, which the page would show.
    assert (found["any-drift"]["method"], found["any-drift"]["level"]) == ("", None)
    whole = predicted(rows).interval("positive_rate", method="anytime")
    assert (found["always"]["low"], found["always"]["high"]) == (whole.low, whole.high)


LOW = AlertSettings(name="low", metric="expected.f1", below=0.8)
FAILED = AlertInput(Value(None, 0, "former estimates have failed: 5 of 9"), failed=True)


@pytest.mark.parametrize(
    ("seen", "posted"),
    [
        # Once, when the alert can no longer be judged; a firing one has been posted already.
        ([0.9, FAILED, FAILED, 0.9, FAILED], ["undefined", "undefined"]),
        ([0.7, FAILED, 0.9, None], ["firing", "resolved"]),
        ([FAILED, 0.7], ["firing"]),
    ],
)
def test_estimates_that_failed_are_posted(seen: list[Any], posted: list[str]) -> None:
    book = AlertBook(RunSettings(alert=[LOW]))
    for n, one in enumerate(seen):
        found = one if isinstance(one, AlertInput) else AlertInput(Value(one, 9))
        book.judge({"low": found}, n)
    assert [one.event for one in book.unsent] == posted
    if "undefined" in posted:
        assert book.unsent[0].text == (
            "undefined: low: expected.f1 has no value in window all: "
            "former estimates have failed: 5 of 9"
        )


@pytest.mark.parametrize(
    ("when", "value", "p_value", "state"),
    [
        ("certain", 0.3, 0.01, "firing"),
        ("certain", 0.3, 0.06, "ok"),
        ("certain", 0.1, 0.0, "ok"),
        ("value", 0.3, 0.9, "firing"),
    ],
)
def test_a_certain_drift_is_beyond_its_bound_and_no_chance(
    when: Any, value: float, p_value: float, state: str
) -> None:
    alert = AlertSettings(name="a", metric="drift.ks", above=0.2, when=when)
    book = AlertBook(RunSettings(alert=[alert]))
    found = AlertInput(Value(value, 9), p_value=p_value)
    changes = book.judge({"a": found}, 0)
    assert changes.states[0].state == state
    if state == "firing":
        assert f"drift.ks is 0.3 (p = {p_value:.3g})" in changes.transitions[0].text


@pytest.mark.parametrize(
    ("metric", "given", "kept"),
    [
        ("drift.ks", {}, ["accuracy", "roc_auc"]),
        ("drift.cramers_v", {}, ["accuracy"]),
        ("expected.recall", {}, ["accuracy", "recall", "roc_auc"]),
        ("predictions.mean_score", {}, ["accuracy"]),
        ("drift.ks", {"reference": "state"}, ["accuracy"]),
    ],
)
def test_what_is_kept_for_an_alert(
    tmp_path: Path, metric: str, given: dict[str, Any], kept: list[str]
) -> None:
    evaluated(stream()[:200]).save(tmp_path / "a.state")
    tables: dict[str, Any] = {"evaluator": {"metrics": ["accuracy"], "slices": ["country"]}}
    if given:
        tables["reference"] = {"state": str(tmp_path / "a.state")}
    alert = watched("a", metric, above=0.1, slice={"country": "PT"})
    settings = joined(tmp_path / "a.db", alert=[alert], **tables)
    assert (kept_metrics(settings), main_metrics(settings)) == (kept, ["accuracy"])
    bare = joined(tmp_path / "a.db", **tables)
    # It is adopted while the run runs, if what it reads is kept.
    adopted, _ = while_running(bare, settings)
    assert adopted.alert == (settings.alert if kept == ["accuracy"] else [])
    off = joined(tmp_path / "a.db", evaluator=tables["evaluator"], reference=None,
                 join={"wait": "8h", "predictions": False})  # fmt: skip
    assert while_running(off, settings)[0].alert == []


def test_the_file_of_a_reference_is_read_once_until_it_is_another(tmp_path: Path) -> None:
    path = tmp_path / "a.state"
    rows = stream()
    evaluated(rows[:200]).save(path)
    given = {"reference": {"state": str(path)}, "evaluator": {"slices": ["country"]}}
    settings = joined(tmp_path / "a.db", alert=[watched("a", "drift.ks", above=0.1)], **given)
    reports = PredictionReports(settings, {}, lambda: 0.0), AlertInputs(settings, {}, lambda: 0.0)
    assert reports[1]._predictions
    assert reports[0]._file is reports[1]._predictions._file
    evaluated(rows[:100]).save(path)
    assert reports[0]._file != PredictionReports(settings, {}, lambda: 0.0)._file


def test_the_configuration_of_the_page_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "run-predictions.md").read_text("utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert len(settings_from_text(text).alert) == 3
