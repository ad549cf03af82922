"""Predictions without labels: numbers against numpy, files, windows, refusals."""

from __future__ import annotations

import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.evaluator.comparison import load_any
from streameval.uncertainty.drift import DRIFTS, drift

SCORES = st.one_of(st.sampled_from([0.0, 0.1, 0.2, 0.7, 1.0]), st.floats(-1e6, 1e6))


@given(
    st.lists(st.tuples(SCORES, st.integers(1, 3)), min_size=1, max_size=40),
    st.one_of(st.floats(0, 1), st.sampled_from([0, 0.1, 0.2, 0.5, 0.7, 1])),
)
def test_the_numbers_are_those_of_the_repeated_scores(events, q):
    scores, weights = map(list, zip(*events, strict=True))
    p = se.Predictions().update_many(score=scores, weight=weights)
    each = sorted(np.repeat(scores, weights).tolist())
    assert p["positive_rate"] == sum(score >= 0.5 for score in each) / len(each)
    assert p["mean_score"] == float(sum(map(Fraction, each)) / len(each))
    reached = (n for n in range(len(each)) if n + 1 >= Fraction(q) * len(each))
    assert p.quantile(q) == each[next(reached)] + 0.0
    assert p["median_score"] == p.quantile(0.5)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_the_interval_of_a_mean_is_students_and_that_of_a_share_is_wilsons(task: str) -> None:
    rng = np.random.default_rng(5)
    if task == "binary":
        values = rng.normal(size=9)
        p = se.Predictions().update_many(score=values)
        found, quantile = p.interval("mean_score"), 2.306004
        ev = se.Evaluator().update_many([1] * 9, (values >= 0.5).astype(int))
        assert p.interval("positive_rate")[:3] == ev.interval("accuracy")[:3]
    else:  # of the predicted labels
        shares = rng.dirichlet([1, 2, 3], size=300)
        given = dict(zip("abc", shares.T, strict=True))
        p = se.Predictions(task="multiclass").update_many(proba=given)
        values = shares.max(axis=1)
        found, quantile = p.interval("mean_confidence"), 1.967929
        counted = np.bincount(shares.argmax(axis=1), minlength=3) / 300
        assert [row.value for row in p.shares()] == counted.tolist()
        assert p.one_vs_rest("b")["mean_score"] == pytest.approx(shares[:, 1].mean(), abs=1e-15)
    mean, half = values.mean(), quantile * values.std(ddof=1) / len(values) ** 0.5
    assert found[:3] == pytest.approx([mean, mean - half, mean + half], 1e-4)
    assert found.method == "student_t"


def test_windows_slices_merges_and_files(tmp_path: Path) -> None:
    p = se.Predictions(window="panes:1h", slices=["country"], time_unit="s")
    for n in range(8):
        p.update(score=n / 8, event_time=1_700_000_000 + 900 * n, slices={"country": "PD"[n % 2]})
    assert [row.support for row in p.series("positive_rate")] == [4, 4]
    means = {key[0][1]: view["mean_score"] for key, view in p.slices().items()}
    assert means == {"D": 0.75, "P": 0.625}
    other = p.delta().update(score=1.0, event_time=1_700_007_000, slices={"country": "P"})
    merged = pickle.loads(pickle.dumps(p)).merge(other)
    assert [row.support for row in merged.series("support")] == [4, 1]
    assert se.merge([p, other]) == merged
    p.save(tmp_path / "p.state")
    loaded = se.Predictions.load(tmp_path / "p.state")
    for read in (loaded, load_any(str(tmp_path / "p.state"))):
        assert type(read) is se.Predictions
        assert read == p
    with pytest.raises(se.StateError, match=r"Predictions\.load or from_bytes reads it"):
        se.load(tmp_path / "p.state")


def test_every_carrier_gives_one_state(tmp_path: Path) -> None:
    rows = {
        "s": [0.1, 0.9, 0.7],
        "c": ["a", "b", "a"],
        "p_x": [0.2, 0.3, 0.5],
        "p_y": [0.8, 0.7, 0.5],
    }
    lines = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    (tmp_path / "f.jsonl").write_text("".join(f"{line}\n".replace("'", '"') for line in lines))
    text = [",".join(map(str, line.values())) for line in lines]
    (tmp_path / "f.csv").write_text("\n".join([",".join(rows), *text]) + "\n")
    score = se.Predictions(slices=["c"]).update_many(score=rows["s"], slices={"c": rows["c"]})
    both = {"x": rows["p_x"], "y": rows["p_y"]}
    proba = se.Predictions(task="multiclass").update_many(proba=both)
    for data in (rows, tmp_path / "f.jsonl", tmp_path / "f.csv"):
        assert se.evaluate(data, y_true=None, score="s", by="c") == score
        assert se.evaluate(data, y_true=None, proba="p_*") == proba
    assert se.evaluate(y_true=None, score=rows["s"]) == se.evaluate(None, rows["s"], y_true=None)
    track = se.Predictions().track(2, metrics=["mean_score"])
    track.update(score=0.5)
    track.update_many(score=[0.7, 0.2, 0.6])
    assert [row.value for row in track.series("mean_score")] == [0.6, 0.5]
    p = se.Predictions()
    assert p.consume([(0.2,), (0.4,)]) + p.consume([{"score": 0.9, "weight": 2}]) == 3
    assert p["support"] == 4


CALLS: list[tuple[Any, type[Exception], str]] = [
    (lambda p: se.Predictions(task="regression"), se.InputError, 'task: expected "binary"'),
    (lambda p: p.update(), se.InputError, "y_pred: expected a prediction: y_pred, score= or proba"),
    (lambda p: p.update("yes"), se.InputError, "pass positive='yes' if that is the positive label"),
    (lambda p: p["accuracy"], se.MetricError, "accuracy is about true labels, which predictions"),
    (lambda p: p.quantile(1.5), se.MetricError, "q: expected a number from 0 to 1, got 1.5"),
    (lambda p: p.confusion, se.MetricError, "confusion is about true labels"),
    (lambda p: p.thresholds("f1"), se.MetricError, "the cut-point f1 is about true labels"),
    (lambda p: p.curve("roc"), se.MetricError, "the curve 'roc' is not for predictions tasks"),
    (lambda p: p.merge(se.Evaluator()), se.StateError, "expected Predictions to merge, got Eval"),
    (lambda p: se.Evaluator().merge(p), se.StateError, "expected an Evaluator to merge, got Pred"),
    (lambda p: se.Evaluator()["mean_score"], se.MetricError, "count them in Predictions"),
    (lambda p: p.consume([{"y_true": 1, "score": 0.1}]), se.InputError, "events[0]: expected some"),
    (lambda p: p.revert(score=0.9), se.InputError, "expected an event that was counted before"),
]


def test_bounded_scores_give_a_quantile_within_its_cell() -> None:
    scores = np.random.default_rng(7).random(20_000)
    p = se.Predictions(max_scores=1024).update_many(score=scores)
    for q in (0.0, 0.1, 0.5, 0.999, 1.0):
        exact = float(np.quantile(scores, q, method="inverted_cdf"))
        bounds = p.bounds("score_quantile", q=q)
        assert bounds.low <= exact <= bounds.high
        assert bounds.width < 0.01
    assert p["mean_score"] == pytest.approx(scores.mean(), abs=1e-15)


# Against a reference


def logistic(n: int, shift: float, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    score = 1 / (1 + np.exp(-rng.normal(shift, 1, n)))
    return rng.random(n) < score, score


def test_drift_is_that_of_the_states_of_whatever_holds_them(tmp_path: Path) -> None:
    labels, before = logistic(3000, 0.0, 1)
    country = np.where(np.arange(3000) % 3 == 0, "PT", "SE")
    ev = se.Evaluator(slices=["country"])
    ev.update_many(labels, score=before, slices={"country": country})
    after = np.where(country == "PT", logistic(3000, 1.0, 2)[1], logistic(3000, 0.0, 3)[1])
    p = se.Predictions(slices=["country"])
    p.update_many(score=after, slices={"country": country})
    ev.save(tmp_path / "ev.state")
    indices = [se.ScoreIndex([(False, one) for one in side]) for side in (after, before)]
    assert p.drift(ev, "ks") == drift("ks", *indices)
    for name in DRIFTS:
        found = p.drift(ev, name)
        assert found.value > 0
        assert p.drift(tmp_path / "ev.state", name) == p.drift(ev.total, name) == found
        halves = [se.Predictions().update_many(score=part) for part in (after[:999], after[999:])]
        assert halves[1].merge(halves[0]).drift(ev, name) == found
    assert [key[0][1] for key in p.slice_drift(ev, "ks")] == ["PT"]
    anytime = p.drift(ev, "ks", method="anytime")
    assert anytime.low < p.drift(ev, "ks").value < anytime.high


@pytest.mark.parametrize("max_scores", [None, 1024])
def test_labels_that_are_not_the_thresholds_have_no_expected_cells(max_scores: int | None) -> None:
    rng = np.random.default_rng(2)
    score = rng.random(3_000)
    ev = se.Evaluator(max_scores=max_scores).update_many(rng.random(3_000) < score, score=score)
    for labels, known in ((score >= 0.5, True), (score >= 0.6, False)):
        p = se.Predictions(max_scores=max_scores).update_many(labels, score=score)
        found = p.expected("f1", ev)
        assert found.defined is known
        assert ("not those of the threshold" in found.reason) is not known
        assert p.expected("roc_auc", ev).defined


REFERENCES: list[tuple[Any, type[Exception], str]] = [
    (lambda p, ev, m: p.drift(m, "ks"), se.MetricError, "ks compares scores of binary tasks"),
    (lambda p, ev, m: m.drift(ev, "chi_squared"), se.MetricError, "compares the same labels, got"),
    (lambda p, ev, m: p.drift(ev, "kss"), se.MetricError, "did you mean 'ks'?"),
    (lambda p, ev, m: p.drift(3, "ks"), se.InputError, "reference: expected an evaluator, pred"),
    (lambda p, ev, m: p.drift("no.state", "ks"), se.StateError, "no.state: cannot be read"),
    (lambda p, ev, m: p.expected("f1", p), se.InputError, "labelled: expected events with true"),
    (lambda p, ev, m: p.expected("f1", ev), se.InputError, "expected at least 100 labelled events"),
    (lambda p, ev, m: m.expected("accuracy", ev), se.MetricError, "scores of multi-class tasks"),
    (lambda p, ev, m: p.previous(), se.MetricError, "requires a window of panes that retains twi"),
    (lambda p, ev, m: p.slice_drift(ev.total, "ks"), se.MetricError, "compares all slices of"),
    (
        lambda p, ev, m: se.Predictions(metrics=["mean_score"]).drift(ev, "ks"),
        se.MetricError,
        "ks is not kept; this evaluator keeps other metrics: add 'median_score' to metrics=",
    ),
    (
        lambda p, ev, m: se.Predictions(window="last:9").drift(ev, "ks", method="anytime"),
        se.MetricError,
        "anytime covers all events since a start, no window",
    ),
]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [*REFERENCES, *((lambda p, ev, m, call=call: call(p), *row) for call, *row in CALLS)],
)
def test_what_is_refused_leaves_the_state(call: Any, kind: type[Exception], text: str) -> None:
    p = se.Predictions().update_many(score=[0.2, 0.8])
    ev = se.Evaluator().update_many([0, 1], score=[0.2, 0.8])
    several = se.Predictions(task="multiclass").update_many(proba={"a": [0.2], "b": [0.8]})
    before = p.to_bytes()
    with pytest.raises(kind) as refused:
        call(p, ev, several)
    assert text in str(refused.value)
    assert p.to_bytes() == before
