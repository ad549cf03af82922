"""Scores of label sets: what a user reads of all labels, of one, and of each event's ranking."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.errors import InputError, MetricError
from streameval.metrics import CURVES
from tests.support.laws import assert_same

LABELS = ["spam", "toxic", "ad"]
LOSSES = ("log_loss", "brier_score")
RNG = np.random.default_rng(8)
SCORES = RNG.random((120, 3)).round(2)
TRUE = RNG.random(SCORES.shape) < SCORES


def evaluator(rows: Any = slice(None), **options: Any) -> se.Evaluator:
    ev = se.Evaluator("multilabel", labels=LABELS, **options)
    return ev.update_many(TRUE[rows], score=SCORES[rows])


def test_documented_values_of_torchmetrics_and_torcheval() -> None:
    """`MultilabelAUROC` of 1.9, `multilabel_auprc` of 0.0.7: their numbers have four digits."""
    scores = np.array(
        [[0.75, 0.05, 0.35], [0.45, 0.75, 0.05], [0.05, 0.55, 0.75], [0.05, 0.65, 0.05]]
    )
    ev = se.Evaluator("multilabel", labels=range(3))
    ev.update_many(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1], [1, 1, 1]]), score=scores)
    for name, each, macro in (
        ("roc_auc", [0.6250, 0.5000, 0.8333], 0.6528),
        ("average_precision", [0.7500, 0.5833, 0.9167], 0.7500),
    ):
        assert list(ev.value(name, average=None).values()) == pytest.approx(each, abs=5e-5)
        assert ev.value(name, average="macro") == ev[f"{name}_macro"]
        assert ev[f"{name}_macro"] == pytest.approx(macro, abs=5e-5)


def test_a_label_is_the_binary_task_of_its_scores() -> None:
    ev = evaluator(threshold={"spam": 0.5, "toxic": 0.7, "ad": 0.5})
    for n, label in enumerate(LABELS):
        threshold = 0.7 if label == "toxic" else 0.5
        binary = se.Evaluator(threshold=threshold).update_many(TRUE[:, n], score=SCORES[:, n])
        view = ev.one_vs_rest(label)
        assert view.threshold == threshold
        for name in (row.metric for row in binary.report("all")):
            assert view[name] == binary[name] or view[name] != view[name]
        assert view.interval("roc_auc") == binary.interval("roc_auc")
        for name in CURVES:
            if "binary" in CURVES[name].states:
                assert_same(view.curve(name).to_dict(), binary.curve(name).to_dict())
        assert view.thresholds("youden") == binary.thresholds("youden")
        assert ev.thresholds("youden")[label] == binary.thresholds("youden")
        for name in (*LOSSES, "expected_calibration_error", "roc_auc", "average_precision"):
            assert ev.value(name, average=None)[label] == binary[name]


def test_one_label_of_scores_alone_and_of_predictions_alone() -> None:
    scores = evaluator(metrics=["roc_auc_macro"]).one_vs_rest("ad")
    assert scores["roc_auc"] == evaluator().one_vs_rest("ad")["roc_auc"]
    of_labels = evaluator(metrics=["f1_micro"]).one_vs_rest("ad")
    some = evaluator(metrics=["roc_auc_macro"], max_scores=1024).one_vs_rest("ad")
    labels = se.Evaluator("multilabel", labels=LABELS).update({"ad"}, {"ad"})
    assert labels.one_vs_rest("ad")["f1"] == 1.0
    for view, name, text in [
        (scores, "f1", "f1 is .* this evaluator keeps other metrics: add 'f1_macro' to metrics="),
        (scores, "accuracy", "add 'hamming_loss' to metrics="),
        (of_labels, "log_loss", "add 'roc_auc_macro' to metrics="),
        (of_labels, "kappa_temporal", "not in this view of one_vs_rest"),
        (some, "log_loss", "not in this view of one_vs_rest"),
        (labels.one_vs_rest("ad"), "roc_auc", "roc_auc needs scores: .*; got labels only"),
    ]:
        with pytest.raises(MetricError, match=text):
            view[name]
    with pytest.raises(InputError, match="label: expected one of 3 labels, got 'spma'; did you"):
        labels.one_vs_rest("spma")
    with pytest.raises(MetricError, match="one_vs_rest is not kept; this evaluator keeps other"):
        evaluator(metrics=["label_ranking_loss"]).one_vs_rest("ad")


def test_the_best_threshold_of_each_label_makes_the_next_evaluator() -> None:
    cuts = evaluator().thresholds("f1")
    ev = evaluator(threshold=cuts.thresholds)
    for label in LABELS:
        assert ev.one_vs_rest(label)["f1"] == pytest.approx(cuts[label].value, abs=1e-15)
    assert cuts.to_frame().shape == (3, 7)
    empty = se.Evaluator("multilabel", labels=["a", "b"]).update({"a"}, score={"a": 1, "b": 0})
    assert empty.thresholds("f1")["b"].reason
    assert list(empty.thresholds("f1").thresholds) == ["a"]


def test_the_table_of_labels() -> None:
    ev = evaluator()
    table = ev.label_table()
    assert list(table.columns) == ["support", "precision", "recall", "f1", "roc_auc", "threshold"]
    assert table["roc_auc"] == ev.value("roc_auc", average=None)
    assert table["support"] == dict(zip(LABELS, TRUE.sum(axis=0).tolist(), strict=True))
    best = ev.label_table(["average_precision"], threshold="youden")
    assert best["threshold"] == ev.thresholds("youden").thresholds
    assert "average_precision" in str(best)
    alone = se.Evaluator("multilabel").update({"a"}, {"b"}).label_table()
    assert list(alone.columns) == ["support", "precision", "recall", "f1", "threshold"]
    with pytest.raises(MetricError, match="label_table is for multi-label tasks"):
        se.Evaluator().label_table()


def test_what_a_mean_leaves_out_is_named() -> None:
    scores = {"a": 0.75, "b": 0.5, "c": 0.25}
    ev = se.Evaluator("multilabel", labels=["a", "b", "c"])
    ev.update({"a", "b"}, score=scores).update({"a"}, score=scores)
    rows = {row.metric: row.reason for row in ev.report("all")}
    assert rows["roc_auc_macro"] == "without the undefined a, c"
    assert rows["roc_auc_weighted"] == "without the undefined a"
    assert rows["average_precision_macro"] == "without the undefined c"
    assert rows["average_precision_weighted"] == rows["roc_auc_micro"] == ""
    assert ev.value("roc_auc_macro", undefined=0.0) == ev["roc_auc_macro"] / 3
    ev.update(set(), score=scores, weight=2)
    rows = {row.metric: row.reason for row in ev.report("all")}
    for name in ("roc_auc_samples", "recall_at_k", "average_precision_samples"):
        assert rows[name] == "without 2 events of no value"
    assert rows["label_ranking_average_precision"] == ""
    assert ev.value("roc_auc", average=None)["c"].reason == "no event has the label 'c'"
    margins = se.Evaluator("multilabel", labels=["a", "b"], threshold=0.0)
    margins.update({"a"}, score={"a": 3.5, "b": -2.0})
    assert margins["log_loss"].reason.startswith("1 of 1 scores lies outside [0, 1]; log loss")
    assert margins["label_ranking_loss"] == 0.0


def test_a_label_without_scores_costs_no_index() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    scores = sparse.csr_matrix(([0.75, 0.5, 0.25], ([0, 0, 1], [7, 9_999, 7])), shape=(2, 10_000))
    ev = se.Evaluator("multilabel", labels=range(10_000))
    ev.update_many([[7], [9_999]], score=scores)
    assert len(ev._window.current().label_scores._columns) == 2
    assert ev.value("roc_auc", average=None)[9_999] == 0.0
    assert ev["coverage_error"] == (1 + 10_000) / 2
    assert ev["log_loss"] > 0


def test_intervals_of_means_over_events() -> None:
    ev = evaluator(intervals=True)
    replicated = se.Evaluator("multilabel", labels=LABELS, bootstrap=se.Bootstrap(150))
    replicated.update_many(TRUE, score=SCORES, unit=np.arange(120))
    for name in (
        *("label_ranking_average_precision", "label_ranking_loss", "coverage_error"),
        *("roc_auc_samples", "average_precision_samples", *LOSSES),
    ):
        found, wanted = ev.interval(name), replicated.interval(name)
        assert found.method == "log_t_by_event"
        assert found.high - found.low == pytest.approx(wanted.high - wanted.low, rel=0.35)
        assert found.low < ev[name] < found.high
    assert replicated.interval("roc_auc_macro").low < ev["roc_auc_macro"]
    discovered = se.Evaluator("multilabel", intervals=True).update({"ad"}, score={"ad": 0.5})
    for one, name, reason in (
        (evaluator(), "log_loss", "pass intervals=True"),
        (discovered, "label_ranking_loss", "pass labels=[...]"),
        (ev, "roc_auc_macro", "bootstrap=Bootstrap(...)"),
    ):
        assert reason in one.interval(name).reason


def test_whole_weights_after_a_fraction_are_floats_too() -> None:
    one, many = (
        se.Evaluator("multilabel", labels=["a", "b"]).update(set(), score=[0.0, 0.0], weight=0.5)
        for _ in range(2)
    )
    one.update({"a"}, score=[0.0, 0.0])
    many.update_many([["a"]], score=[[0.0, 0.0]])
    one._check()
    many._check()
    assert one.to_bytes() == many.to_bytes()
