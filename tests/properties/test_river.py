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
    assert (metric.requires_labels, metric.bigger_is_better) == (labels, better)
    detector = anomaly.HalfSpaceTrees(seed=1)
    filtering: Any = anomaly.ThresholdFilter(detector, threshold=0.6)
    model: Any = linear_model.LogisticRegression()
    assert [metric.works_with(one) for one in (model, filtering, detector)] == [
        *(True, labels, not labels)
    ]


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
def test_weighted_and_rolling_prefixes(metric, wanted, window):
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


def test_a_wrong_metric_or_parameter_is_refused_at_once() -> None:
    for name, options, message in (
        ("fbeta", {"betta": 2}, "fbeta takes no parameter 'betta'"),
        ("accuracy", {"beta": 2}, "accuracy takes no parameter 'beta'"),
        ("acc", {}, "did you mean accuracy"),
        ("roc_auc", {"task": "multiclass"}, "roc_auc is for binary tasks"),
    ):
        with pytest.raises(MetricError, match=message):
            RiverMetric(name, **options)  # type: ignore[arg-type]


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


def test_an_anomaly_detector() -> None:
    sine = datasets.synth.AnomalySine(n_samples=300, n_anomalies=30, seed=3)
    rows = [(x, bool(y)) for x, y in sine]
    detector = anomaly.HalfSpaceTrees(seed=1, n_trees=5, height=5)
    pipeline = preprocessing.StandardScaler() | detector.clone()
    metric = RiverMetric("roc_auc")
    evaluate.progressive_val_score(rows, preprocessing.StandardScaler() | detector, metric)
    scores = []
    for x, _ in rows:
        scores.append(pipeline.score_one(x))
        pipeline.learn_one(x)
    assert_close(metric.get(), reference.roc_auc_score([y for _, y in rows], scores))


def bandit_of(models: list[Any], metric: Any) -> Any:
    policy = bandit.EpsilonGreedy(epsilon=0.1, burn_in=5, seed=1)
    return model_selection.BanditClassifier(models, metric=metric, policy=policy)


def patches_of(models: list[Any], metric: Any) -> Any:
    return ensemble.SRPClassifier(models[1], n_models=3, seed=1, metric=metric)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chooser", "name", "theirs"),
    [(bandit_of, "log_loss", metrics.LogLoss()), (patches_of, "accuracy", metrics.Accuracy())],
)
def test_model_selection_chooses_as_by_rivers_own_metric(chooser, name, theirs):
    rows = list(datasets.Phishing().take(300))
    results = []
    for metric in (RiverMetric(name, undefined=0.0), theirs.clone()):
        models = [linear_model.LogisticRegression(optim.SGD(rate)) for rate in (1e-5, 0.01, 0.1)]
        model = preprocessing.StandardScaler() | chooser(models, metric)
        found = metrics.Accuracy() + metrics.LogLoss()
        results.append(evaluate.progressive_val_score(rows, model, found).get())
    # River's log loss is clipped elsewhere, so that its votes differ in the last digits.
    assert results[0] == pytest.approx(results[1], rel=0 if name == "accuracy" else 1e-6)
