"""Alerts on predictions before their labels: drift, expected metrics, metrics of predictions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from streameval.service.alerts.inputs import AlertInput, AlertInputs
from streameval.service.alerts.rules import AlertBook
from streameval.service.config.evaluators import kept_metrics, main_metrics
from streameval.service.config.load import settings_from_text
from streameval.service.config.settings import AlertSettings
from streameval.service.publish.predictions import PredictionReports
from streameval.service.publish.snapshot import Value
from streameval.service.run.reload import while_running
from tests.service.test_run_predictions import (
    HOURS,
    WAIT,
    evaluated,
    hours,
    joined,
    lists,
    predicted,
    ran,
    stream,
)

FIRST_WAITING = HOURS - 2 * WAIT - 1
"""Labels are waited for from this hour on."""


def watched(name: str, metric: str, **given: Any) -> dict[str, Any]:
    return {"name": name, "metric": metric, **given}


def states(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in data["alerts"]}


def test_what_alerts_see_is_what_the_library_computes(tmp_path: Path) -> None:
    rows = stream(shift=0.6, each=40)
    sure: dict[str, Any] = {"when": "certain", "level": 0.9}
    alerts = [
        watched("drift", "drift.ks", above=0.1),
        watched("sure drift", "drift.ks", above=0.1, **sure),
        watched("larger drift", "drift.ks", above=0.5, **sure),
        watched("distance", "drift.wasserstein", above=0.01),
        watched("expected", "expected.f1", below=0.99),
        watched("sure", "expected.f1", below=0.99, **sure),
        watched("rate", "predictions.positive_rate", above=0.5, **sure),
        watched("median", "predictions.median_score", above=0.99),
        watched("of PT", "predictions.mean_score", above=0.1, slice={"country": "PT"}),
        watched("of ES", "drift.ks", above=0.1, slice={"country": "ES"}),
        watched("any drift", "drift.ks", above=0.1, slice="any", **sure),
        watched("any rate", "predictions.positive_rate", above=0.99, slice="any", **sure),
        watched("always", "predictions.positive_rate", above=0.1, when="anytime", window="all"),
        watched("few", "drift.ks", above=0.1, min_support=10**6),
    ]
    alerts = [{**one, "name": one["name"].replace(" ", "-")} for one in alerts]
    _, data = ran(joined(tmp_path / "a.db", alert=alerts), lists(rows))
    found = states(data)
    now, old = hours(rows, FIRST_WAITING, HOURS), evaluated(hours(rows, 0, 10))
    p = predicted(now)
    ks, f1 = p.drift(old, "ks"), p.expected("f1", old, level=0.9)
    assert {name: one["state"] for name, one in found.items()} == {
        "drift": "firing", "sure-drift": "firing", "larger-drift": "ok", "distance": "firing",
        "expected": "firing", "sure": "firing", "rate": "firing", "median": "ok",
        "of-PT": "firing", "of-ES": "undefined", "any-drift": "firing", "any-rate": "ok",
        "always": "firing", "few": "undefined",
    }  # fmt: skip
    for name in ("drift", "sure-drift", "larger-drift", "few"):
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
    assert found["of-ES"]["reason"] == "no event of this slice yet"
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
        ([0.7, FAILED, 0.9], ["firing", "resolved"]),
        ([0.9, None], []),
        ([FAILED, 0.7], ["firing"]),
    ],
)
def test_estimates_that_failed_are_posted(seen: list[Any], posted: list[str]) -> None:
    book = AlertBook([LOW], "hours")
    for n, one in enumerate(seen):
        found = one if isinstance(one, AlertInput) else AlertInput(Value(one, 9))
        book.judge({"low": found}, n)
    assert [one.event for one in book.unsent] == posted
    texts = [one.text for one in book.unsent if one.event == "undefined"]
    wanted = (
        "undefined: low: expected.f1 has no value in window hours: "
        "former estimates have failed: 5 of 9"
    )
    assert texts == [wanted] * len(texts)
    again = AlertBook([LOW], "hours")
    again.restore(book.to_state())
    assert again.unsent == book.unsent


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
    book = AlertBook([alert], "hours")
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
    assert [one.metric for one in settings_from_text(text).alert] == [
        "drift.ks",
        "expected.f1",
        "predictions.positive_rate",
    ]
