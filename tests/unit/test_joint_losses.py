"""Differences of mean losses: against per-event losses, in bounded memory, at their level."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

import streameval as se
from streameval.errors import InputError, StateError
from streameval.evaluator.comparison import Comparison
from streameval.states.joint_losses import JointLosses
from streameval.uncertainty.losses import student_p_value
from streameval.uncertainty.paired import paired_t
from tests.unit.test_comparison import MODELS, WINDOWS, drawn

LOSSES = ("log_loss", "brier_score")
LABELS = np.array(["ant", "bee", "cow"])
Given = dict[str, Any]


def several(n: int, names: tuple[str, ...]) -> Given:
    """Columns of n events of three classes; a model's gap is what sets the true one apart."""
    generator = np.random.default_rng(3)
    true = generator.integers(0, 3, n)
    given = {}
    for name, gap in zip(names, (0.5, 1.5, 2.5), strict=True):
        logits = generator.normal(size=(n, 3)) + gap * np.eye(3)[true]
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        shares = np.round(shares * 1024) / 1024
        shares[:, 2] = 1 - shares[:, 0] - shares[:, 1]
        given[name] = {label: shares[:, c] for c, label in enumerate(LABELS.tolist())}
    return {"y_true": LABELS[true].tolist(), "proba": given}


def losses_of(y_true: Any, given: Any, metric: str) -> np.ndarray:
    """Per-event losses from their definitions."""
    if isinstance(given, dict):
        shares = np.column_stack([given[label] for label in LABELS.tolist()])
        hit = LABELS[None, :] == np.array(y_true)[:, None]
        right = shares[hit]
        brier = ((shares - hit) ** 2).sum(axis=1)
    else:
        positive = np.array(y_true, dtype=bool)
        right = np.where(positive, given, 1 - given)
        brier = (given - positive) ** 2
    if metric == "brier_score":
        return brier
    return -np.log(np.clip(right, 2.0**-52, 1 - 2.0**-52))


def assert_is_ttest(found: se.Difference, a: np.ndarray, b: np.ndarray) -> None:
    oracle = stats.ttest_rel(a, b)
    ends = oracle.confidence_interval(0.95)
    assert (found.method, found.n) == ("paired t", len(a))
    assert found.value == pytest.approx((a - b).mean(), rel=1e-11)
    assert found.p_value == pytest.approx(oracle.pvalue, rel=1e-8)
    # Hill's quantile is right to 3e-5.
    assert found.low == pytest.approx(ends.low, rel=1e-4, abs=1e-5)
    assert found.high == pytest.approx(ends.high, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("metrics", [None, LOSSES], ids=["all", "losses only"])
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_it_is_the_paired_t_test_of_the_losses(task: str, metrics: Any) -> None:
    names = ("old", "new", "other")
    if task == "binary":
        data = drawn()
        scores = [data["score"]["champion"], data["score"]["challenger"]]
        given = dict(zip(names, [*scores, scores[0][::-1]], strict=True))
        data = {"y_true": data["y_true"], "score": given}
    else:
        data = several(90, names)
        given = data["proba"]
    c = Comparison(names, task=task, metrics=metrics)
    c.update_many(**data)
    for metric in LOSSES:
        for a, b in [*combinations(names, 2), ("other", "old")]:
            of = [losses_of(data["y_true"], given[name], metric) for name in (a, b)]
            assert_is_ttest(c.difference(metric, a, b), *of)
        one, other = c.difference(metric, "old", "new"), c.difference(metric, "new", "old")
        assert (one.low, one.high, one.p_value) == (-other.high, -other.low, other.p_value)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_every_window_and_slice(window: Any) -> None:
    """Losses alone give the numbers of a comparison that keeps every score."""
    data = drawn()
    options: Given = {"window": window, "slices": ["country"], "time_unit": "s"}
    full, less = Comparison(**options), Comparison(metrics=LOSSES, **options)
    for c in (full, less):
        c.update_many(**data)
    found = less.difference("log_loss")
    if isinstance(window, se.Fading):
        joint = less._joint.total.current().joint_losses
        own = less["champion"]._window.current().probability
        assert joint.to_state()["log_loss"][0] == pytest.approx(own.log_loss_units, rel=1e-12)
        assert "weights are not whole" in found.reason
        return
    views = [full.total, *full.slices().values()]
    for one, other in zip(views, [less.total, *less.slices().values()], strict=True):
        for metric in LOSSES:
            assert repr(one.difference(metric)) == repr(other.difference(metric))
    if window is WINDOWS["last"]:
        models = [data["score"][name][-60:] for name in MODELS[::-1]]
        of = [losses_of(data["y_true"][-60:], scores, "log_loss") for scores in models]
        assert_is_ttest(found, *of)


def test_memory_does_not_grow_with_the_events() -> None:
    data = drawn(20_000)
    c = Comparison(metrics=[*LOSSES, "accuracy"])
    c.update_many(data["y_true"], score=data["score"])
    assert len(c.to_bytes()) < 6_000
    assert not c.difference("brier_score").reason
    assert c.difference("log_loss", method="bootstrap").reason.startswith(
        "the joint cells hold no scores: these are kept with paired_scores, for metrics= of the"
    )
    for metrics in (["roc_auc"], ["accuracy"]):  # losses that are not wanted
        assert Comparison(metrics=metrics)._joint.total.current().joint_losses is None


def test_a_score_that_is_no_probability_leaves_the_event_out() -> None:
    data = drawn(50)
    c, batched = Comparison(window=se.Last(40)), Comparison(window=se.Last(40))
    for one in (c, batched):
        one.update_many(data["y_true"], score=data["score"])
    c.update(True, score={"champion": 7.0, "challenger": 0.5})
    batched.update_many([True], score={"champion": [7.0], "challenger": [0.5]})
    assert batched == c == Comparison.from_bytes(c.to_bytes())
    assert c._joint.total.current().joint_losses.weight == 39
    assert "undefined" in c.difference("log_loss").reason
    for n in range(40):
        c.update(True, score={"champion": 0.5, "challenger": n / 40})
    assert c.difference("log_loss").n == 40


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_an_event_that_one_model_never_had_is_refused_as_a_whole(task: str) -> None:
    """Without scores, joint cells cannot tell: the sums of the losses and of each model do."""

    def event(*scores: float) -> Given:
        place: Given = {"slices": {"country": "PT"}}
        if task == "binary":
            return {"y_true": True, "score": dict(zip(MODELS, scores, strict=True)), **place}
        proba = {m: {"a": s, "b": 1 - s} for m, s in zip(MODELS, scores, strict=True)}
        return {"y_true": "a", "proba": proba, **place}

    c = Comparison(task=task, metrics=LOSSES, slices=["country"])
    c.update(**event(0.875, 0.875))
    two = c.copy()
    for scores in ((0.9375, 0.5625), (0.625, 0.5625)):
        two.update(**event(*scores))
    # The sums of both events less the last one could be those of some event; its bin is empty.
    for one, never in ((c, (0.875, 0.984375)), (c, (0.984375, 0.984375)), (two, (0.75, 0.5625))):
        before = one.to_bytes()
        with pytest.raises(InputError, match="counted before"):
            one.revert(**event(*never))
        assert one.to_bytes() == before
        one._check()
    c.revert(**event(0.875, 0.875))
    assert c._joint.total.current().joint_losses == JointLosses()


def test_when_there_is_no_test() -> None:
    c = Comparison()
    assert c.difference("brier_score").reason == "no events"
    c.update_many([True, False, True], score={name: [0.5, 0.25, 0.75] for name in MODELS})
    assert "four events" in c.difference("brier_score").reason
    c.update(True, score=dict.fromkeys(MODELS, 0.5))
    same = c.difference("brier_score")
    assert (same.value, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    for other, weight, reason in ((0.75, 1, "differ by the same"), (0.5, 0.5, "are not whole")):
        c = Comparison()
        scores = {"champion": [0.5] * 9, "challenger": [other] * 9}
        c.update_many([True] * 9, score=scores, weight=[weight] * 9)
        assert reason in c.difference("log_loss").reason
    c = Comparison(task="multiclass").update_many(["a"] * 9, {name: ["a"] * 9 for name in MODELS})
    with pytest.raises(se.MetricError):
        c.difference("log_loss")


@pytest.mark.parametrize("freedom", [1, 3, 9.5, 120, 10**6])
def test_students_p_values(freedom: float) -> None:
    for t in (0.0, 0.01, 1.0, 2.5, 8.0, 30.0, 1e5, 1e17):
        expected = 2 * stats.t.sf(t, freedom)
        assert student_p_value(t, freedom) == pytest.approx(expected, rel=1e-9, abs=0)
    assert student_p_value(1e200, freedom) <= 1e-200 * (freedom + 1)
    assert paired_t(0.0, 1.0, 30).p_value == 1.0


def test_damaged_events_of_a_window_are_refused() -> None:
    c = Comparison(window=se.Last(5))
    c.update(True, score={"champion": 0.9, "challenger": 0.4})
    data = c.to_state()
    joint = data["joint"]
    *before, last = joint["window"]["scores"]
    for scores, message in (
        ([*before, 100.0], "losses from 0 to 3"),
        ([*before, -2.0], "losses from 0 to 3"),
        ([*before, last, 0.5], r"window\.scores"),
    ):
        damaged = {**joint, "window": {**joint["window"], "scores": np.array(scores)}}
        with pytest.raises(StateError, match=message):
            Comparison.from_state({**data, "joint": damaged})
    with pytest.raises(StateError, match="joint: expected the parts"):
        Comparison.from_state({**data, "joint": {**joint, "extra": None}})
