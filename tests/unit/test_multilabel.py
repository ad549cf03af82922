"""Sets of labels and their scores: forms of input, errors, reports, one label, intervals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import sklearn.metrics

import streameval as se
from streameval.errors import InputError, MetricError, StateError
from streameval.metrics import CURVES
from tests.support.laws import assert_same

LABELS = ["spam", "toxic", "ad"]
TWO = [{"spam", "ad"}, set()]
SPARSE = scipy.sparse.csr_matrix
FORMS: dict[str, Any] = {
    "sets": TWO,
    "lists": [["spam", "ad"], []],
    "mappings": [{"spam": 1, "toxic": False, "ad": np.True_}, {}],
    "rows of several kinds": [("ad", "spam", "ad"), [0, 0, 0]],
    "arrays in a tuple": (np.array([True, False, True]), (False, False, False)),
    "a matrix of bools": np.array([[1, 0, 1], [0, 0, 0]], dtype=bool),
    "a matrix of floats": np.array([[1.0, 0.0, 1.0], [0.0, 0.0, -0.0]]),
    "a sparse matrix": scipy.sparse.csc_array(SPARSE([[1, 0, 1], [0, 0, 0]])),
    "pandas lists": pd.Series([["spam", "ad"], []]),
    "Arrow lists": pa.chunked_array([[["spam", "ad"]], [[]]]),
    "a pandas frame": pd.DataFrame({"ad": [1, 0], "spam": [True, False]}),
    "an Arrow table": pa.table({"ad": [1, 0], "spam": [True, False]}),
    "columns": {"ad": [1, 0], "spam": np.array([1, 0])},
}


def opened(**options: Any) -> se.Evaluator:
    return se.Evaluator(task="multilabel", **{"labels": LABELS, **options})


def fed() -> se.Evaluator:
    rng = np.random.default_rng(3)
    true = rng.random((300, 3)) < [0.3, 0.1, 0.5]
    return opened(undefined=0.0).update_many(true, true ^ (rng.random((300, 3)) < 0.15))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_the_same_events(form: str) -> None:
    ev = opened().update_many(FORMS[form], FORMS["lists"])
    assert ev.to_bytes() == opened().update_many(FORMS["lists"], FORMS[form]).to_bytes()
    assert (ev["accuracy"], ev["support"], ev["f1_micro"]) == (1.0, 2.0, 1.0)
    assert ev.label_counts.binary("ad") == (1, 0, 0, 1)


def test_labels_that_are_numbers() -> None:
    ev = opened(labels=[7, 8, 9])
    ev.update([7, 8], {8}).update(np.array([1, 1, 0]), [0, 1, 0]).update_many([[7, 8]], [[0, 1, 0]])
    assert ev.label_counts.binary(7) == (0, 0, 3, 0)
    assert ev.label_counts.binary(8) == (3, 0, 0, 0)
    mixed: Any = [[1, 1, 0], {2}, (0, 1), [*np.array([0, 0, 1])]]
    batch = opened(labels=[0, 1, 2]).update_many(mixed, mixed)
    for one in mixed:
        assert opened(labels=[0, 1, 2]).update(one, one)["accuracy"] == 1.0
        batch.revert(one, one)
    assert batch.to_bytes() == opened(labels=[0, 1, 2]).to_bytes()
    # Of two labels a list has labels, and an array indicators.
    two = opened(labels=[0, 1]).update([0, 1], np.array([0, 1]))
    assert two.label_counts.binary(0) == (0, 0, 1, 0)


@pytest.mark.parametrize("threshold", [0.5, {"spam": 0.9, "toxic": 0.1, "ad": 0.5}])
def test_scores_predict_by_the_threshold_of_each_label(threshold: Any) -> None:
    matrix = np.array([[0.8, 0.2, 0.5], [0.95, 0.05, 0.0]])
    names = dict(zip(LABELS, matrix.T, strict=True))
    limits = [0.9, 0.1, 0.5] if isinstance(threshold, dict) else [0.5] * 3
    forms: list[Any] = [matrix, names, pd.DataFrame(names)[["ad", "spam", "toxic"]], SPARSE(matrix)]
    forms.append([dict(zip(LABELS, row, strict=True)) for row in matrix.tolist()])
    evs = [opened(threshold=threshold).update_many(TWO, score=form) for form in forms]
    single = opened(threshold=threshold)
    for true, row in zip(TWO, matrix, strict=True):
        single.update(true, proba=row)
    expected = opened(threshold=threshold).update_many(TWO, matrix >= limits)
    for ev in (*evs, single):
        assert ev.label_counts == expected.label_counts
    assert se.from_bytes(evs[0].to_bytes()) == evs[0]


def test_discovered_labels() -> None:
    ev = opened(labels=None)
    ev.update_many([["a"], ["b", "c"]], score=[{"a": 0.7, "b": 0.6}, {"c": 0.5, "d": 0.1}])
    assert (ev.labels, ev.label_counts.labels) == ([*"abcd"], [*"abc"])
    assert ev.label_counts.binary("b") == (0, 1, 1, 0)
    assert "e" not in ev.update({"e"}, {"f"}, weight=0).labels
    assert se.from_bytes(ev.to_bytes()) == ev


FREE: dict[str, Any] = {"labels": None}
REFUSED: list[tuple[dict[str, Any], Any, str]] = [
    ({}, ("spam", set()), "y_true: expected the labels of an event: a set, .* got 'spam'; pass {'"),
    ({}, (set(), 3), "y_pred: expected the labels of an event.* got 3"),
    ({}, ({"spamm"}, set()), r"y_true: expected labels out of \[.*\], got 'spamm'; did you mean"),
    ({}, ([1, 0, 2], set()), "y_true: expected indicators: 0 and 1, .* got 2 of 'ad'"),
    ({}, ({"ad": math.nan}, set()), "y_true: expected indicators.* got nan of 'ad'"),
    ({}, ([1, 0], set()), r"y_true: expected a row of 3 indicators.* got 2 values, \[1, 0\]"),
    ({}, ([["spam"]], set()), "y_true: expected a str, int or bool label.* call update_many"),
    ({}, (set(), None, {"spam": 0.9}), "score: expected a score of each of labels=, got none of"),
    ({}, (set(), None, [0.9, 0.1]), "score: expected 3 scores, in the order of labels=, got 2"),
    ({}, (set(), None, 0.9), "score: expected a mapping label -> score, or 3 scores"),
    ({}, (set(), None, [0.9, math.inf, 0]), "score: expected a finite number, got inf"),
    ({}, (set(), None, None, [0.9, 1.5, 0]), "proba: expected probabilities from 0 to 1, got 1.5"),
    ({}, (set(), None, [1, 0, 0], [1, 0, 0]), "proba: expected score= or proba=, got both"),
    (FREE, ({"a", 1}, set()), "expected a (str|number) like the label"),
    (FREE, ({"a"}, None, [0.5]), "score: expected a mapping label -> score"),
]
# What rows are made of is refused as of one event; the rest is of columns and matrices.
REFUSED_BATCHES: list[tuple[dict[str, Any], Any, str]] = [
    ({}, (["spam", "ad"], [[], []]), r"y_true\[0\]: .* got 'spam'; pass {'spam'}"),
    ({}, ("spam", [[]]), "y_true: expected a set or list of labels of each event, .* got 'spam'"),
    ({}, (np.array([[1, 0, 1], [0, 2, 0]]), [[], []]), r"y_true\[1\]: .* got 2 of 'toxic'"),
    ({}, (np.zeros((2, 4)), [[], []]), r"y_true: expected 3 columns.* shape \(2, 4\)"),
    ({}, (SPARSE([[0, 0, 2]]), [[]]), r"y_true\[0\]: expected indicators.* got 2 of 'ad'"),
    ({}, ({"spam": [1], "toxc": [0]}, [[]]), "got 'toxc'; did you mean 'toxic'"),
    ({}, ({"spam": [1, 3]}, [[], []]), r"y_true\[1\]: expected indicators.* got 3 of 'spam'"),
    ({}, ({"spam": [1, 0], "ad": [1]}, [[], []]), "y_true: expected 2 values.* got 1"),
    ({}, ([[]], None, np.zeros((1, 2))), r"score: .* got shape \(1, 2\); labels= names 3"),
    ({}, (np.zeros((2, 3)), np.zeros((3, 3))), "y_pred: expected 2 values.* got 3"),
    ({}, (SPARSE([[0, 1]]), [[]]), r"y_true: expected 3 columns.* a matrix of shape \(1, 2\)"),
    ({}, ([[]], None, np.array([[1, math.nan, 0]])), r"score\[0\]: expected a finite number"),
    ({}, ([[]], None, None, np.array([[0, 0, 2]])), r"proba\[0\]: .* got 2.0 of 'ad'"),
    ({"threshold": 0.0}, ([[]], None, SPARSE([[0.0, 0, 1]])), "thresholds above 0 beside a sparse"),
    (FREE, (np.ones((1, 3)), [[]]), "y_true: expected a data frame or a mapping"),
    (FREE, (SPARSE([[0, 1]]), [[]]), "y_true: expected labels= of the Evaluator"),
    (FREE, ([["a"], [1]], [[], []]), r"y_true\[1\]: expected a str like the label 'a'"),
]


@pytest.mark.parametrize(
    ("method", "options", "given", "message"),
    [("update", *row) for row in REFUSED] + [("update_many", *row) for row in REFUSED_BATCHES],
)
def test_what_is_bad_is_refused_in_words(method, options, given, message):
    ev = opened(**options)
    before, labels = ev.to_bytes(), ev.labels
    with pytest.raises(InputError, match=message):
        getattr(ev, method)(
            **dict(zip(("y_true", "y_pred", "score", "proba"), given, strict=False))
        )
    assert (ev.to_bytes(), ev.labels) == (before, labels)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": {"spam": 0.5}}, "threshold: expected a threshold of each .* none of 'toxic"),
        ({"threshold": {"toxi": 0.5}}, "threshold: expected labels out of .* did you mean 'toxic'"),
        ({"labels": None, "threshold": 0}, "threshold: expected a number above 0, as labels that"),
        ({"labels": []}, "labels: expected distinct labels"),
    ],
)
def test_bad_options_are_refused_in_words(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        opened(**options)


# Reports ----------------------------------------------------------------------


@pytest.mark.parametrize("labels", [None, [2, 0]])
def test_the_classification_report_is_that_of_scikit_learn(labels: Any) -> None:
    rng = np.random.default_rng(5)
    true, predicted = rng.random((2, 200, 3)) < 0.4
    given = None if labels is None else [LABELS[n] for n in labels]
    report = opened(undefined=0.0).update_many(true, predicted).classification_report(labels=given)
    theirs = sklearn.metrics.classification_report(
        true, predicted, labels=labels, target_names=given or LABELS, digits=4, zero_division=0
    )
    lines = [line.split() for line in theirs.splitlines() if line.strip()]
    # A mean over events is of all their labels.
    wanted = [line for line in lines if labels is None or line[0] != "samples"]
    assert [line.split() for line in str(report).splitlines()] == wanted
    shown = str(fed().classification_report(labels=given, intervals=0.95))
    assert ("samples avg" in shown, "[" in shown) == (labels is None, True)


def test_names_and_undefined_values_say_why() -> None:
    ev = opened().update({"spam"}, {"spam"}).update(set(), set())
    row = {row.metric: row.reason for row in ev.report(["f1_macro", "f1_samples"])}
    assert row["f1_macro"] == "without the undefined toxic, ad"
    assert row["f1_samples"] == "without 1 event of no value"
    assert ev.value("f1_samples", undefined=0.0) == 0.5
    assert ev.value("precision", average=None)["ad"].reason == "no event was predicted 'ad'"
    nothing = opened(labels=None).update(set(), set())
    assert nothing["f1_micro"].reason == "no event has a label, and none was predicted of any"  # type: ignore[attr-defined]
    assert nothing["recall_samples"].reason == "no event has a label"  # type: ignore[attr-defined]
    classes = se.Evaluator(task="multiclass")
    cases: list[tuple[Any, str]] = [
        (lambda: ev["f1"], r"in a multi-label task use f1_macro, .* or f1_samples"),
        (lambda: ev.confusion, "read label_counts"),
        (lambda: classes.label_counts, "of classes read confusion"),
        (lambda: classes["hamming_loss"], "hamming_loss is for multi-label tasks; use error_rate"),
    ]
    for call, message in cases:
        with pytest.raises(MetricError, match=message):
            call()
    with pytest.raises(InputError, match='sets of labels are for task="multilabel"'):
        se.Evaluator().update({"spam"}, 1)


def test_fairness_of_one_label() -> None:
    rng = np.random.default_rng(7)
    true, predicted = rng.random((2, 400, 3)) < 0.4
    groups = {"sex": rng.choice(["x", "y"], 400)}
    ev = opened(slices=["sex"]).update_many(true, predicted, slices=groups)
    binary = se.Evaluator(slices=["sex"])
    binary.update_many(true[:, 2], predicted[:, 2], slices=groups)
    ours, theirs = ev.fairness("sex", label="ad"), binary.fairness("sex")
    assert [row[1:5] for row in ours] == [row[1:5] for row in theirs]
    with pytest.raises(MetricError, match="fairness is about one class: pass label="):
        ev.fairness("sex")


def test_merging_needs_the_same_labels() -> None:
    with pytest.raises(StateError, match="labels"):
        opened().merge(opened(labels=["spam", "ad"]))
    counts = se.LabelCounts(["a", "b"])
    with pytest.raises(StateError, match="other closed lists of labels"):
        counts.merge(se.LabelCounts(["b", "a"]))


# Intervals --------------------------------------------------------------------

BY_EVENT = ("hamming_loss", "f1_micro", "jaccard_micro", "precision_samples", "f1_samples")
BY_PAIR = ("f1_macro", "recall_weighted", "specificity_macro", "matthews_corrcoef_macro")


def test_intervals_know_that_labels_of_one_event_depend_on_each_other() -> None:
    rng = np.random.default_rng(9)
    one, wrong = rng.random((400, 1)) < 0.4, rng.random((400, 1)) < 0.2
    once, alike = (
        opened(labels=labels, intervals=True).update_many(
            *(np.repeat(column, len(labels), axis=1) for column in (one, one ^ wrong))
        )
        for labels in (["a"], [*"abcde"])
    )
    for name in (*BY_EVENT[:3], *BY_PAIR):
        # Five labels that are always alike are worth no more events than one.
        narrow, wide = once.interval(name), alike.interval(name)
        assert wide.method == "delta_by_event"
        assert wide.high - wide.low == pytest.approx(narrow.high - narrow.low, rel=0.06)
    assert alike.interval("accuracy").method == "wilson"


def test_an_interval_that_needs_pairs_names_the_option() -> None:
    ev = fed()
    assert all(ev.interval(name).defined for name in BY_EVENT)
    for name in BY_PAIR:
        assert "pass intervals=True" in ev.interval(name).reason
    true, predicted = [["ad"]] * 9, [["ad"], []] * 4 + [[]]
    few = opened(metrics=["f1_micro"], intervals=True).update_many(true, predicted)
    whole = opened().update_many(true, predicted)
    # From pairs as from the sizes of sets; the pseudo-event of each is another.
    assert few.interval("f1_micro")[1:3] == pytest.approx(whole.interval("f1_micro")[1:3], abs=0.05)


@pytest.mark.parametrize("predicted", [[{"ad"}] * 9, [{"spam"}] * 9, [set()] * 9])
def test_intervals_at_the_ends(predicted: Any) -> None:
    ev = opened(intervals=True).update_many([{"ad"}] * 9, predicted)
    for name in (*BY_EVENT, *BY_PAIR):
        found = ev.interval(name)
        assert not found.defined or found.low <= found.value <= found.high
        assert found.defined or found.reason
    assert ev.report("all", intervals=0.95)


# Scores: of all labels, of one, and of the ranking of each event ---------------------

LOSSES = ("log_loss", "brier_score")
RNG = np.random.default_rng(8)
SCORES = RNG.random((120, 3)).round(2)
TRUE = RNG.random(SCORES.shape) < SCORES


def evaluator(**options: Any) -> se.Evaluator:
    return opened(**options).update_many(TRUE, score=SCORES)


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
    assert view.labels == ["not ad", "ad"]
    for name in ("matthews_corrcoef", "balanced_accuracy", "cohen_kappa"):
        each = [ev.one_vs_rest(label)[name] for label in LABELS]
        assert ev[f"{name}_macro"] == pytest.approx(sum(each) / 3, rel=1e-12)


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
    scores = SPARSE(([0.75, 0.5, 0.25], ([0, 0, 1], [7, 9_999, 7])), shape=(2, 10_000))
    ev = se.Evaluator("multilabel", labels=range(10_000))
    ev.update_many([[7], [9_999]], score=scores)
    assert len(ev._window.current().label_scores._columns) == 2
    assert ev.value("roc_auc", average=None)[9_999] == 0.0
    assert ev["coverage_error"] == (1 + 10_000) / 2
    assert ev["log_loss"] > 0
    # All scores of label 5 are 0, and every pair of them is a tie.
    ev.update_many([[5], [], []], score=SPARSE((3, 10_000)))
    assert ev.value("roc_auc", average=None)[5] == 0.5


def test_tables_of_weights_beyond_machine_integers() -> None:
    ev = opened().update_many([["ad"]] * 1024, [[]] * 1024, weight=[2**53] * 1024)
    assert ev.label_counts.to_array(["ad"]).tolist() == [[[0, 0], [2**63, 0]]]


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
