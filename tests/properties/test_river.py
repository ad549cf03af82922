"""RiverMetric inside River: its numbers are scikit-learn's, prefix by prefix."""

from __future__ import annotations

import copy
import math
import pickle
import random
from typing import Any

import pytest
from river import (
    anomaly,
    bandit,
    datasets,
    ensemble,
    evaluate,
    forest,
    linear_model,
    metrics,
    model_selection,
    multioutput,
    optim,
    preprocessing,
    utils,
)
from sklearn import metrics as reference

from streameval.errors import MetricError
from streameval.integrations.river import RiverMetric
from streameval.metrics import ROWS
from streameval.metrics.metric import BOTH


def assert_close(got: float, want: float) -> None:
    if math.isnan(want):
        assert math.isnan(got)
    else:
        assert got == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "labels", "better"),
    [("roc_auc", False, True), ("f1_macro", True, True), ("log_loss", False, False)],
)
def test_what_river_asks(name: str, labels: bool, better: bool) -> None:
    metric = RiverMetric(name)
    assert metric.requires_labels is labels
    assert metric.bigger_is_better is better
    model: Any = linear_model.LogisticRegression()
    assert metric.works_with(model)


def _events(count: int = 80) -> list[tuple[Any, Any]]:
    draw = random.Random(5)
    rows = []
    for _ in range(count):
        true = draw.random() < 0.3
        score = round(min(1.0, max(0.0, draw.gauss(0.6 if true else 0.4, 0.2))), 2)
        rows.append((true, {False: 1 - score, True: score}))
    return rows


EVENTS = _events()


def fed(metric: RiverMetric, rows: list[tuple[Any, Any]]) -> RiverMetric:
    for true, shares in rows:
        label = max(shares, key=shares.get)
        metric.update(true, label if metric.requires_labels else shares)
    return metric


OF_EACH_STATE = {tuple(row.states): row.name for row in ROWS if row.tasks <= BOTH}


@pytest.mark.parametrize("name", sorted(OF_EACH_STATE.values()))
def test_a_metric_of_each_state_is_pickled_copied_and_cloned(name: str) -> None:
    """River's generic tests of its own metrics, empty and fed."""
    empty, metric = RiverMetric(name), fed(RiverMetric(name), EVENTS[:40])
    for one, rest in ((empty, EVENTS), (metric, EVENTS[40:])):
        twins = [pickle.loads(pickle.dumps(one)), copy.deepcopy(one)]
        fed(one, rest)
        for twin in twins:
            assert isinstance(twin, RiverMetric)
            assert fed(twin, rest).evaluator == one.evaluator
            assert repr(twin) == repr(one)
    assert empty.evaluator == metric.evaluator
    clone = metric.clone()
    assert clone.evaluator == RiverMetric(name).evaluator
    assert fed(clone, EVENTS).evaluator == metric.evaluator
    # No threshold reaches the precision that this one is at.
    assert math.isnan(metric.get()) == (name == "recall_at_precision")


def test_river_finds_its_instances() -> None:
    for params in RiverMetric._unit_test_params():
        assert repr(RiverMetric(**params)).startswith(params["name"])


PAIRS: list[tuple[RiverMetric, Any]] = [
    (RiverMetric("accuracy"), reference.accuracy_score),
    (RiverMetric("f1", undefined=0.0), reference.f1_score),
    (
        RiverMetric("fbeta", beta=2, average="macro", undefined=0.0),
        lambda *a, **k: reference.fbeta_score(*a, beta=2, average="macro", **k),
    ),
    (RiverMetric("roc_auc"), reference.roc_auc_score),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize(("metric", "wanted"), PAIRS, ids=[repr(metric) for metric, _ in PAIRS])
@pytest.mark.parametrize("window", [None, 1, 10])
def test_weighted_and_rolling_prefixes(
    metric: RiverMetric, wanted: Any, window: int | None
) -> None:
    draw = random.Random(window)
    metric = metric.clone()
    rows = [(draw.random() < 0.5, draw.random() < 0.5, draw.random()) for _ in range(20)]
    rolling = utils.Rolling(
        RiverMetric, window_size=window or 1, name=metric.name, **metric.evaluator_options
    )
    if not metric.requires_labels:
        rows = [(true, weight, 1 - weight) for true, _, weight in rows]  # as good a score as any
    for n, (true, predicted, weight) in enumerate(rows, 1):
        if window is None:
            metric.update(y_true=true, y_pred=predicted, w=weight)
            seen, got = rows[:n], metric.get()
        else:
            rolling.update(true, predicted)
            seen, got = [(t, p, 1.0) for t, p, _ in rows[max(0, n - window) : n]], rolling.get()
        labels, predictions, weights = map(list, zip(*seen, strict=True))
        options = {"zero_division": 0.0} if "undefined" in repr(metric) else {}
        assert_close(got, wanted(labels, predictions, sample_weight=weights, **options))


@pytest.mark.parametrize(("name", "nothing"), [("accuracy", None), ("log_loss", {})])
def test_no_prediction_counts_for_nothing(name: str, nothing: Any) -> None:
    metric = RiverMetric(name)
    metric.update(True, nothing)
    metric.revert(True, nothing)
    metric.update("spam", nothing)  # its label does not determine the task either
    assert metric.evaluator == RiverMetric(name).evaluator
    assert fed(metric, EVENTS).evaluator == fed(RiverMetric(name), EVENTS).evaluator


@pytest.mark.parametrize("name", ["log_loss", "brier_score", "expected_calibration_error"])
def test_the_task_is_inferred(name: str) -> None:
    assert fed(RiverMetric(name), EVENTS).evaluator.task == "binary"
    numbers = [(int(true), {int(k): v for k, v in p.items()}) for true, p in EVENTS]
    assert fed(RiverMetric(name), numbers).get() == fed(RiverMetric(name), EVENTS).get()
    texts = [(str(true), {str(k): v for k, v in p.items()}) for true, p in EVENTS]
    inferred, told = RiverMetric(name), RiverMetric(name, task="multiclass")
    assert fed(inferred, texts).evaluator == fed(told, texts).evaluator
    assert RiverMetric(name, positive="True").evaluator.task == "binary"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("fbeta", {"betta": 2}, "fbeta takes no parameter 'betta'"),
        ("accuracy", {"beta": 2}, "accuracy takes no parameter 'beta'"),
        ("acc", {}, "did you mean accuracy"),
        ("roc_auc", {"task": "multiclass"}, "roc_auc is for binary tasks"),
    ],
)
def test_a_wrong_metric_or_parameter_is_refused_at_once(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(MetricError, match=message):
        RiverMetric(name, **options)


def test_a_regressor_and_a_multi_label_model() -> None:
    names = "mean_absolute_error", "r2"
    of_numbers = RiverMetric(names[0]) + metrics.MAE() + RiverMetric(names[1]) + metrics.R2()
    model = preprocessing.StandardScaler() | linear_model.LinearRegression()
    evaluate.progressive_val_score(datasets.TrumpApproval().take(300), model, of_numbers)
    mine, theirs, mine_r2, theirs_r2 = of_numbers.get()
    assert (mine, mine_r2) == (pytest.approx(theirs), pytest.approx(theirs_r2))
    with pytest.raises(ValueError, match="r2 and Accuracy are not compatible"):
        RiverMetric("r2") + metrics.Accuracy()
    with pytest.raises(ValueError, match="not compatible"):
        RiverMetric("log_loss") + metrics.MSE()
    assert not RiverMetric("r2").works_with(linear_model.LogisticRegression())
    draw = random.Random(7)
    rows = []
    for _ in range(200):
        x = {"a": draw.random(), "b": draw.random()}
        rows.append((x, {"p": x["a"] > 0.5, "q": x["a"] + x["b"] > 1}))
    average = metrics.multioutput.MicroAverage
    pairs: list[tuple[RiverMetric, Any]] = [
        (RiverMetric("f1_micro"), average(metrics.F1())),
        (RiverMetric("accuracy"), metrics.multioutput.ExactMatch()),
    ]
    for metric, reference_metric in pairs:
        chain = multioutput.ClassifierChain(linear_model.LogisticRegression(), order=["p", "q"])
        assert metric.works_with(chain)
        evaluate.progressive_val_score(rows, chain.clone(), metric)
        evaluate.progressive_val_score(rows, chain.clone(), reference_metric)
        assert metric.get() == pytest.approx(reference_metric.get())
    scored = RiverMetric("roc_auc_macro")
    for label, share in ((True, 0.8), (False, 0.3), (True, 0.9)):
        both = {False: 1 - share, True: share}
        scored.update({"p": label, "q": not label}, {"p": both, "q": both})
    assert scored.get() == 0.5


def sine(count: int) -> list[tuple[dict[str, float], bool]]:
    rows = datasets.synth.AnomalySine(n_samples=count, n_anomalies=count // 10, seed=3)
    return [(x, bool(y)) for x, y in rows]


def test_an_anomaly_detector() -> None:
    rows = sine(300)
    detector = anomaly.HalfSpaceTrees(seed=1, n_trees=5, height=5)
    twin = detector.clone()
    model = preprocessing.StandardScaler() | detector
    metric = RiverMetric("roc_auc")
    evaluate.progressive_val_score(rows, model, metric)
    pipeline = preprocessing.StandardScaler() | twin
    scores = []
    for x, _ in rows:
        scores.append(pipeline.score_one(x))
        pipeline.learn_one(x)
    assert_close(metric.get(), reference.roc_auc_score([y for _, y in rows], scores))


def test_an_anomaly_filter_predicts_labels() -> None:
    def filtering() -> Any:
        return anomaly.ThresholdFilter(anomaly.HalfSpaceTrees(seed=1, n_trees=5), threshold=0.6)

    rows = sine(600)
    ours = RiverMetric("f1", undefined=0.0)
    evaluate.progressive_val_score(rows, filtering(), ours)
    detector = filtering()
    predicted = []
    for x, _ in rows:
        predicted.append(detector.classify(detector.score_one(x)))
        detector.learn_one(x)
    true = [y for _, y in rows]
    assert_close(ours.get(), reference.f1_score(true, predicted, zero_division=0.0))


@pytest.mark.slow
def test_a_forest_weighs_its_trees_by_our_metrics() -> None:
    rows = list(datasets.ImageSegments().take(400))
    model = forest.ARFClassifier(n_models=3, seed=1, metric=RiverMetric("accuracy", undefined=0.0))
    ours = evaluate.progressive_val_score(rows, model, metrics.Accuracy())
    assert ours.get() > 0.5
    rows_of_trees = [row for metric in model._metrics for row in metric.evaluator.report()]
    assert [row.metric for row in rows_of_trees] == ["accuracy"] * 3
    assert all(row.support > 300 for row in rows_of_trees)
    assert len({metric.get() for metric in model._metrics}) > 1
    copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    assert [m.get() for m in copies[0]._metrics] == [m.get() for m in model._metrics]
    assert copies[1].predict_proba_one(rows[0][0]) == model.predict_proba_one(rows[0][0])


def chooser(place: int, metric: Any) -> Any:
    models = [linear_model.LogisticRegression(optim.SGD(rate)) for rate in (1e-5, 0.01, 0.1)]
    if place == 2:
        return model_selection.SuccessiveHalvingClassifier(
            models, metric=metric, budget=200, eta=2, verbose=False
        )
    if place == 3:
        return ensemble.SRPClassifier(models[1], n_models=3, seed=1, metric=metric)
    policy = (
        bandit.EpsilonGreedy(epsilon=0.1, burn_in=5, seed=1),
        bandit.UCB(delta=1, burn_in=5, seed=1),
    )[place]
    return model_selection.BanditClassifier(models, metric=metric, policy=policy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "name", "theirs"),
    [
        (0, "log_loss", metrics.LogLoss()),
        (1, "accuracy", metrics.Accuracy()),
        (2, "log_loss", metrics.LogLoss()),
        (3, "accuracy", metrics.Accuracy()),
    ],
)
def test_model_selection_chooses_as_by_rivers_own_metric(
    place: int, name: str, theirs: Any
) -> None:
    rows = list(datasets.Phishing().take(300))
    results = []
    for metric in (RiverMetric(name, undefined=0.0), theirs.clone()):
        model = preprocessing.StandardScaler() | chooser(place, metric)
        found = metrics.Accuracy() + metrics.LogLoss()
        results.append(evaluate.progressive_val_score(rows, model, found).get())
    # River's log loss is clipped elsewhere, so that its votes differ in the last digits.
    assert results[0] == pytest.approx(results[1], rel=0 if name == "accuracy" else 1e-6)


WRAPPERS = [
    metrics.multioutput.MacroAverage,
    metrics.multioutput.MicroAverage,
    metrics.multioutput.SampleAverage,
    metrics.multioutput.PerOutput,
]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_multi_output_models(wrapper: Any) -> None:
    rows = [
        (x, {"phishing": y, "long": x["long_url"] > 0.5}) for x, y in datasets.Phishing().take(200)
    ]
    got = []
    for metric in (RiverMetric("f1", undefined=0.0), metrics.F1()):
        model = preprocessing.StandardScaler() | multioutput.ClassifierChain(
            linear_model.LogisticRegression(), order=["long", "phishing"]
        )
        wrapped = wrapper(metric)
        evaluate.progressive_val_score(rows, model, wrapped)
        assert repr(wrapped)
        value = wrapped.get()
        got.append({k: m.get() for k, m in value.items()} if isinstance(value, dict) else value)
    assert got[0] == pytest.approx(got[1], abs=1e-12)
