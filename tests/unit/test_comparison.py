"""Comparisons: each model as its own evaluator, the differences, and what is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import streameval as se
from streameval.errors import InputError, MetricError, StateError
from streameval.evaluator.comparison import Comparison
from streameval.metrics.registry import task_metrics
from streameval.states.joint import JointCounts
from streameval.uncertainty.multiple_testing import benjamini_hochberg, holm
from streameval.uncertainty.paired import mcnemar
from tests.support.aneurysms import aneurysms

MODELS = ("champion", "challenger")


def drawn(n: int = 200, seed: int = 5) -> dict[str, Any]:
    """Columns of n events: the challenger is the better model."""
    generator = np.random.default_rng(seed)
    true = generator.random(n) < 0.4
    common = generator.normal(size=n)
    logits = [gap * (true - 0.5) + common + generator.normal(size=n) for gap in (1.0, 2.0)]
    scores = [np.round(1 / (1 + np.exp(-column)), 3) for column in logits]
    return {
        "y_true": true,
        "score": dict(zip(MODELS, scores, strict=True)),
        "slices": {"country": generator.choice(["PT", "DE", "FR"], n)},
        "event_time": np.arange(n) * 30 + 10**9,
    }


def counted(data: dict[str, Any] | None = None, **more: Any) -> Comparison:
    """A comparison of two models without options, and with some drawn events."""
    data = drawn() if data is None else data
    return Comparison().update_many(data["y_true"], score=data["score"], **more)


WINDOWS: dict[str, Any] = {
    "all": None,
    "last": se.Last(60),
    "panes": se.Panes("10m", retain="1h"),
    "fading": se.Fading("20m"),
}


def numbers(n: int, seed: int = 2, unit: float = 1.0) -> dict[str, Any]:
    """Columns of n events whose errors have something in common."""
    rng = np.random.default_rng(seed)
    true, common = rng.normal(3, 2, n), rng.normal(0, 0.5, n)
    y_pred = {
        name: true + common + rng.normal(0.1, 0.6 + 0.2 * k, n) for k, name in enumerate(MODELS)
    }
    return {"y_true": unit * true, "y_pred": {name: unit * one for name, one in y_pred.items()}}


def sets(n: int, seed: int = 2) -> dict[str, Any]:
    """Indicators of n events; the challenger is the better model."""
    rng = np.random.default_rng(seed)
    true = rng.random((n, 3)) < 0.4
    wrong = {name: rng.random((n, 3)) < 0.3 - 0.1 * k for k, name in enumerate(MODELS)}
    return {"y_true": true, "y_pred": {name: true ^ flips for name, flips in wrong.items()}}


def signed(n: int) -> dict[str, Any]:
    """Scores of three classes that are no probabilities."""
    rng = np.random.default_rng(7)
    scores = {name: dict(zip(CLASSES, rng.normal(size=(3, n)), strict=True)) for name in MODELS}
    return {"y_true": rng.choice(CLASSES, n).tolist(), "score": scores}


CLASSES = ["ant", "bee", "cow"]
ANY_SCORES = {"task": "multiclass", "labels": CLASSES, "probabilities": False}
TAGS = ("ad", "spam", "toxic")
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "binary": ({}, drawn(120), "accuracy"),
    "losses": ({"metrics": ["log_loss", "brier_score"]}, drawn(120), "log_loss"),
    "classes": (ANY_SCORES, signed(100), "accuracy"),
    "numbers": ({"task": "regression"}, numbers(100), "mean_absolute_error"),
    "sets": ({"task": "multilabel", "labels": TAGS}, sets(100), "hamming_loss"),
}


def at(columns: Any, n: int | slice) -> Any:
    """What columns hold of one event, or of some; they may be in mappings, at any depth."""
    if isinstance(columns, dict):
        return {name: at(column, n) for name, column in columns.items()}
    return columns[n]


PAIRS = [("binary", name) for name in WINDOWS]
PAIRS += [("losses", "panes"), ("classes", "last"), ("numbers", "panes"), ("sets", "fading")]


@pytest.mark.parametrize(("case", "window"), PAIRS)
def test_each_model_reads_as_its_own_evaluator(case: str, window: str) -> None:
    """In slices as in total, one by one and in batches."""
    more, data, metric = CASES[case]
    events = len(data["y_true"])
    slices = {"country": (["PT", "DE", "FR"] * events)[:events]}
    data = {"slices": slices, "event_time": np.arange(events) * 30 + 10**9} | data
    options: dict[str, Any] = {"window": WINDOWS[window], "slices": ["country"], "time_unit": "s"}
    options |= more
    batched = Comparison(MODELS, **options).update_many(**data)
    single = Comparison(MODELS, **options)
    for n in range(events):
        single.update(**at(data, n))
    assert batched == single == Comparison.from_bytes(batched.to_bytes())
    batched._check()
    for name in MODELS:
        alone = se.Evaluator(**options)
        own = {key: data[key][name] for key in ("score", "y_pred") if key in data}
        alone.update_many(**data | own)
        assert str(batched[name].report()) == str(alone.report())
        for key, view in alone.slices().items():
            assert str(batched.slices()[key][name].report()) == str(view.report())
    found = batched.difference(metric)
    assert bool(found.reason) is (window == "fading")
    assert found.value == batched["challenger"][metric] - batched["champion"][metric]


def test_the_difference_of_auc_is_that_of_proc() -> None:
    positive, scores = aneurysms()
    c = Comparison(("s100b", "wfns"))
    c.update_many(positive, score={name: scores[name] for name in ("s100b", "wfns")})
    found, narrow = c.difference("roc_auc"), c.difference("roc_auc", level=0.9)
    assert (found.a, found.b, found.method, found.n) == ("wfns", "s100b", "paired DeLong", 113)
    ends = (0.0271757822291882, 0.0104061769564846, 0.8236789 - 0.7313686)
    assert (found.p_value, found.low, found.value) == pytest.approx(ends, rel=1e-6)
    ratio = stats.norm.ppf(0.975) / stats.norm.ppf(0.95)
    assert found.value - found.low == pytest.approx(ratio * (narrow.value - narrow.low))
    swapped, gini = c.difference("roc_auc", "s100b", "wfns"), c.difference("gini")
    assert (swapped.value, swapped.low, swapped.high) == (-found.value, -found.high, -found.low)
    assert (gini.low, gini.high, gini.p_value) == (2 * found.low, 2 * found.high, found.p_value)


@pytest.mark.parametrize(
    ("only", "up", "down"),
    [(None, "accuracy", "error_rate"), (True, "recall", "fnr"), (False, "specificity", "fpr")],
)
def test_shares_of_events_have_mcnemars_test(only: bool | None, up: str, down: str) -> None:
    data = drawn()
    kept = slice(None) if only is None else data["y_true"] == only
    old, new = (((data["score"][name] >= 0.5) == data["y_true"])[kept] for name in MODELS)
    wins = int((new & ~old).sum()), int((old & ~new).sum())
    for metric, sign in ((up, 1), (down, -1)):
        found, test = counted(data).difference(metric), mcnemar(*wins[::sign], len(old))
        assert found.value == pytest.approx(sign * (wins[0] - wins[1]) / len(old), abs=1e-15)
        assert (found.low, found.high, found.p_value) == (test.low, test.high, test.p_value)


def test_the_bootstrap_computes_the_metric_of_resampled_events() -> None:
    """Its error is that of evaluators of resampled events, and its replicates are of both."""
    data = drawn(150)
    c = counted(data)
    metrics = ("f1", "matthews_corrcoef", "average_precision", "brier_score")
    generator = np.random.default_rng(1)
    values = []
    for _ in range(100):
        rows = np.repeat(np.arange(150), generator.poisson(1.0, 150))
        old, new = (
            se.Evaluator().update_many(data["y_true"][rows], score=data["score"][name][rows])
            for name in MODELS
        )
        values.append([new[metric] - old[metric] for metric in metrics])
    for metric, error in zip(metrics, np.std(values, axis=0), strict=True):
        found = c.difference(metric, method="bootstrap", replicates=200)
        assert (found.high - found.low) / 2 == pytest.approx(1.96 * error, rel=0.2), metric
        assert "200 replicates" in found.method
    few = [c.difference("f1", method="bootstrap", replicates=20, seed=seed) for seed in (0, 0, 1)]
    assert few[0] == few[1] != few[2]
    old, new = (c[name].value("fbeta", beta=2) for name in MODELS)
    assert c.difference("fbeta", beta=2, replicates=20).value == new - old
    assert c.difference("f1", average="macro", replicates=20) == c.difference(
        "f1_macro", replicates=20
    )


@pytest.mark.parametrize("positives", [6, 55])
def test_the_bootstraps_error_has_the_freedom_of_the_smaller_class(positives: int) -> None:
    """Seen in how much wider a 99 % interval is than one of 80 %."""
    generator = np.random.default_rng(positives)
    true = np.arange(60) < positives
    c = Comparison(metrics=["f1"])
    c.update_many(true, {name: true ^ (generator.random(60) < 0.2) for name in MODELS})
    wide, narrow = (c.difference("f1", level=level) for level in (0.99, 0.8))
    freedom = min(positives, 60 - positives) - 1
    ratio = stats.t.ppf(0.995, freedom) / stats.t.ppf(0.9, freedom)
    widths = [one.high - one.low for one in (wide, narrow)]
    assert widths[0] / widths[1] == pytest.approx(ratio, rel=1e-3)
    at_its_p = c.difference("f1", level=1 - wide.p_value)
    assert min(abs(at_its_p.low), abs(at_its_p.high)) == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_every_metric_has_a_difference_or_a_reason(case: str) -> None:
    options, data, _ = CASES[case]
    if case == "sets":
        rng = np.random.default_rng(1)
        data = data | {"score": {name: rng.random((100, 3)) for name in MODELS}, "y_pred": None}
    c = Comparison(**options).update_many(**data)
    for row in task_metrics(options.get("task", "binary")):
        if row.ordered or (case == "losses" and row.name not in options["metrics"]):
            continue
        try:
            found = c.difference(row.name, replicates=10)
        except MetricError:
            continue  # kept on request only
        assert bool(found.reason) == math.isnan(found.low)
        assert bool(found.method) != bool(found.reason)
        if case == "classes" and row.name == "roc_auc_ovr":
            assert "no probabilities" in found.reason
        if case in ("numbers", "sets") and row.name in ("f1_macro", "roc_auc_macro", "pearson_r"):
            assert f"interval('{row.name}') has one, with intervals=True" in found.reason


def test_several_challengers_are_adjusted_by_holm() -> None:
    data = drawn()
    names, old, new = ("old", "same", "new"), *data["score"].values()
    c = Comparison(names).update_many(
        data["y_true"], score=dict(zip(names, (old, old, new), strict=True))
    )
    found = c.differences("roc_auc")
    assert [(one.a, one.b) for one in found] == [("same", "old"), ("new", "old")]
    assert [one.p_adjusted for one in found] == holm([one.p_value for one in found])
    assert found[0].p_value == 1.0
    assert found[1].p_adjusted == pytest.approx(2 * found[1].p_value)
    assert "p (Holm)" in str(c.report(["accuracy"]))


def test_slices_are_flagged_by_the_rate_of_false_discoveries() -> None:
    c = Comparison(slices=["country"], metrics=["accuracy"])
    new = np.ones(40, bool)
    for country, better in [("PT", 20), *[(f"c{k:02}", 3) for k in range(20)]]:
        guesses = {"champion": np.arange(40) >= better, "challenger": new}
        c.update_many(new, guesses, slices={"country": [country] * 40})
    table = c.slice_differences("accuracy")
    assert table.rows[0].slice == (("country", "PT"),)
    assert [row.flagged for row in table] == [True] + [False] * 20
    p_values = [row.difference.p_value for row in table]
    assert p_values == sorted(p_values)
    assert [row.difference.p_adjusted for row in table] == benjamini_hochberg(p_values)
    assert json.loads(json.dumps(table.to_dict()))["slices"][0]["flagged"] is True
    assert "country=PT" in str(table)
    assert "<table>" in table._repr_html_()


def test_scores_of_any_size_are_kept_for_a_window() -> None:
    c = Comparison(metrics=["roc_auc"], window=se.Last(9)).update(
        True, score=dict.fromkeys(MODELS, 9.5)
    )
    assert Comparison.from_bytes(c.to_bytes()) == c


def test_anytime_says_where_it_does_not_hold() -> None:
    c = Comparison(window=se.Last(100)).update(True, score=dict.fromkeys(MODELS, 0.9))
    assert "this window forgets some" in c.difference("accuracy", method="anytime").reason
    accuracy, auc = counted().report(["accuracy", "roc_auc"], method="anytime")
    assert accuracy.differences[0].reason == ""
    assert "no anytime test" in auc.differences[0].reason


def test_a_report_is_text_a_page_and_json() -> None:
    c = counted()
    report = c.report()
    assert report.to_markdown().startswith("| metric | model | value | difference |")
    assert "<table>" in report._repr_html_()
    values = json.loads(report.to_json())
    assert [*values["metrics"]][:2] == ["accuracy", "f1"]
    found = values["metrics"]["roc_auc"]
    assert found["models"] == {name: c[name]["roc_auc"] for name in MODELS}
    assert found["differences"][0]["p_value"] == c.difference("roc_auc").p_value
    assert (values["level"], values["threshold"]) == (0.95, 0.5)


def test_fractional_weights_have_a_value_and_no_test() -> None:
    data = drawn(50)
    found = counted(data, weight=np.full(50, 0.5)).difference("roc_auc")
    assert found.value > 0
    assert math.isnan(found.low)
    assert "weights are not whole" in found.reason
    whole, twice = counted(data, weight=np.full(50, 2)), counted(data)
    twice.update_many(data["y_true"], score=data["score"])
    assert whole.difference("roc_auc") == twice.difference("roc_auc")


def test_a_late_label_of_one_model_is_learned_by_all() -> None:
    c = Comparison(positive="spam").update("spam", {"champion": "spam", "challenger": "ham"})
    with pytest.raises(InputError, match="'ham' or the positive label"):
        c.update("spam", {"champion": "eggs", "challenger": "spam"})
    assert c["champion"]["accuracy"] == 1.0


@pytest.mark.parametrize("window", [None, se.Last(1_000)])
def test_a_refusal_of_one_model_s_weight_changes_no_model(window: Any) -> None:
    c = Comparison(task="multiclass", slices=["country"], window=window)
    sure = {name: [{"a": 1.0}] * 500 for name in MODELS}
    slices = {"country": ["PT"] * 500}
    c.update_many(["a"] * 500, proba=sure, weight=[2**53] * 500, slices=slices)
    before = c.to_bytes()
    # The weight of a column of probabilities passes 62 bits for one model only.
    shares = {"champion": {"a": 1.0}, "challenger": {"a": 0.5, "b": 0.25, "c": 0.25}}
    with pytest.raises(InputError, match="weight: expected weights"):
        c.update("a", proba=shares, weight=2**53, slices={"country": "PT"})
    assert c.to_bytes() == before


@pytest.mark.parametrize(
    ("metric", "options", "message"),
    [
        ("accuracy", {"level": 95}, "level: expected a number between 0 and 1"),
        ("accuracy", {"method": "mcnemr"}, "no paired method is called 'mcnemr'; did you mean"),
        ("f1", {"replicates": 1}, "replicates: expected a number from 10"),
        ("roc_auc", {"method": "anytime"}, "roc_auc has no anytime test; it has delong, bootstrap"),
    ],
)
def test_bad_arguments(metric: str, options: dict[str, Any], message: str) -> None:
    c = counted(drawn(20))
    with pytest.raises((InputError, MetricError), match=message):
        c.difference(metric, **options)
    with pytest.raises(InputError, match="rate: expected a number between"):
        c.slice_differences("accuracy", rate=0)


def test_joint_counts_beyond_64_bits_and_of_other_numbers_of_models() -> None:
    joint, three = JointCounts(), JointCounts()
    joint.update(1, (0.5, 0.25), 2**62, (1, 0))
    three.update(1, (), 1, (1, 0, 1))
    with pytest.raises(InputError, match="y_pred: expected labels of 2 models, got 3"):
        joint.update(1, (), 1, (1, 0, 0))
    with pytest.raises(StateError, match="expected joint counts of 2 models, got 3"):
        joint.merge(three)
    for _ in range(3):
        joint.merge(joint.copy())
    joint._check()
    assert joint.total == 2**65
    assert JointCounts.from_state(joint.to_state()) == joint
    joint.merge(joint.copy(), times=-1)
    assert joint == JointCounts()


def test_panes_read_after_each_event_hold_the_events_of_the_window() -> None:
    """Panes that are evicted are subtracted from the merged counts."""
    data = drawn(80)
    del data["slices"]
    c = Comparison(window=se.Panes("20m", pane="5m", retain="30m"), time_unit="s")
    for n, time in enumerate(data["event_time"].tolist()):
        c.update(**at(data, n))
        start = int(np.searchsorted(data["event_time"], time // 300 * 300 - 900))
        plain = counted(at(data, slice(start, n + 1)))
        assert c._joint.total.current().joint == plain._joint.total.current().joint
        assert c.difference("accuracy") == plain.difference("accuracy")


@pytest.mark.parametrize(("window", "paired"), [("all", True), ("panes", False)])
def test_deltas_add_up_to_the_whole(window: str, paired: bool) -> None:
    data = drawn(120)
    options: dict[str, Any] = {"window": WINDOWS[window], "slices": ["country"], "max_slices": 2}
    options |= {"time_unit": "s", "paired_scores": paired}
    whole, parts = Comparison(MODELS, **options), Comparison(MODELS, **options)
    whole.update_many(**data)
    for start in range(0, 120, 30):
        delta = parts.delta(newest=parts.newest)
        delta.update_many(**at(data, slice(start, start + 30)))
        parts.merge(Comparison.from_bytes(delta.to_bytes()))
    assert parts.to_bytes() == whole.to_bytes()
    assert parts.options.get("paired_scores", True) is paired
    assert parts.emptied() == Comparison(MODELS, **options)


def test_without_paired_scores_memory_is_bounded_and_differences_of_scores_have_no_test() -> None:
    data = drawn()
    full = Comparison(MODELS, slices=["country"], time_unit="s").update_many(**data)
    part = Comparison(MODELS, slices=["country"], time_unit="s", paired_scores=False)
    part.update_many(**data)
    for view in (part.total, *part.slices().values()):
        assert len(view._pairs().cells.true) <= 8
    for name in ("accuracy", "f1", "log_loss"):
        assert part.difference(name) == full.difference(name)
    found = part.difference("roc_auc")
    assert found.value == full.difference("roc_auc").value
    assert [math.isnan(found.low), math.isnan(found.p_value)] == [True, True]
    assert "kept with paired_scores" in found.reason
    state = full.to_state()
    for given, message in ((False, "expected no scores"), (True, "paired_scores: expected false")):
        with pytest.raises(StateError, match=message):
            Comparison.from_state({**state, "paired_scores": given})
    state["models"][1]["evaluator"]["options"]["bins"] = 20
    with pytest.raises(StateError, match="evaluators of the same options"):
        Comparison.from_state(state)


def test_joined_scores_say_where_the_exact_difference_is() -> None:
    data = drawn(3000)
    del data["slices"]
    more = np.random.default_rng(1).random((2, 3000))
    data["score"] = {name: data["score"][name] + more[k] for k, name in enumerate(MODELS)}
    exact = Comparison(MODELS, time_unit="s").update_many(**data)
    limited = Comparison(MODELS, time_unit="s", paired_scores=False, max_scores=1024)
    found, wanted = limited.update_many(**data).difference("roc_auc"), exact.difference("roc_auc")
    low, high = map(float, found.reason.rpartition("from ")[2].split(" to "))
    assert low <= wanted.value <= high
    assert low < found.value < high
    assert math.isnan(found.low)
    assert limited.difference("accuracy") == exact.difference("accuracy")
    assert Comparison.from_bytes(limited.to_bytes()) == limited
