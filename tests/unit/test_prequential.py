"""Test-then-train against literal oracles, with River's own models."""

from __future__ import annotations

import math
import random
import statistics
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from river import (
    compose,
    datasets,
    evaluate,
    forest,
    linear_model,
    metrics,
    multiclass,
    naive_bayes,
    neighbors,
    optim,
    preprocessing,
    tree,
)

import streameval as se
from streameval.integrations.river import RiverMetric


def model() -> Any:
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def phishing(count: int = 400) -> list[tuple[dict[str, Any], bool]]:
    return list(datasets.Phishing().take(count))


class Notebook:
    """A model that records its calls, in order."""

    def __init__(self) -> None:
        self.lessons: list[Any] = []
        self.tests: list[Any] = []

    def predict_one(self, x: Any) -> Any:
        self.tests.append((x["n"], len(self.lessons)))
        return self.lessons[-1][1] if self.lessons else None

    def learn_one(self, x: Any, y: Any) -> None:
        self.lessons.append((x["n"], y))

    def clone(self) -> Notebook:
        return Notebook()


def numbered(count: int) -> list[tuple[dict[str, Any], str]]:
    return [({"n": n, "t": float(n)}, "abc"[n % 3]) for n in range(count)]


MODELS: list[Any] = [
    model(),
    preprocessing.StandardScaler() | naive_bayes.GaussianNB(),
    tree.HoeffdingTreeClassifier(),
    preprocessing.StandardScaler() | neighbors.KNNClassifier(),
    forest.AMFClassifier(n_estimators=3, seed=1),
    linear_model.LogisticRegression(optim.SGD(0.0)),  # stays at p = 0.5
    preprocessing.StandardScaler() | linear_model.Perceptron(),  # has no probabilities
]


@pytest.mark.parametrize("classifier", MODELS, ids=str)
def test_predicted_labels_are_rivers_on_ties_too(classifier: Any) -> None:
    binary = classifier in MODELS[3:]
    rows = list((datasets.Phishing if binary else datasets.ImageSegments)().take(300))
    if not binary and not classifier._multiclass:
        classifier = multiclass.OneVsRestClassifier(classifier)
    theirs = evaluate.progressive_val_score(rows, classifier.clone(), metrics.Accuracy())
    evaluator = se.Evaluator("binary" if binary else "multiclass")
    result = se.prequential(classifier.clone(), rows, evaluator)
    assert evaluator["accuracy"] == theirs.get()
    assert evaluator.confusion.total + result.unpredicted == len(rows)


class Even:
    """Always undecided: the order of its keys decides what is predicted."""

    def __init__(self, *labels: Any) -> None:
        self.labels = labels

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        return dict.fromkeys(self.labels, 1 / len(self.labels))

    def learn_one(self, x: Any, y: Any) -> None:
        pass


@pytest.mark.parametrize("labels", [(False, True), (True, False), ("b", "a"), ("a", "b")])
def test_of_equal_probabilities_the_first_is_predicted(labels: Any) -> None:
    stream: list[tuple[dict[str, Any], Any]] = [({}, labels[0])] * 4
    task: Any = "multiclass" if "a" in labels else "binary"
    evaluator = se.Evaluator(task)
    se.prequential(Even(*labels), stream, evaluator)
    assert evaluator["accuracy"] == 1.0
    assert evaluator["log_loss"] == pytest.approx(math.log(2))
    if task == "binary":  # another threshold is the evaluator's
        evaluator = se.Evaluator(threshold=0.4)
        se.prequential(Even(*labels), [({}, True), ({}, False)], evaluator)
        assert (evaluator["recall"], evaluator["specificity"]) == (1.0, 0.0)


@pytest.mark.parametrize("delay", [1, 7, timedelta(0), timedelta(minutes=45)], ids=str)
def test_a_delay_is_rivers(delay: Any) -> None:
    """Of events it is River's less one."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        ({**x, "at": start + timedelta(minutes=n * n % 7 + 15 * n)}, y)
        for n, (x, y) in enumerate(phishing(150))
    ]
    features = compose.Discard("at") | model()
    moment, more = ("at", timedelta(0)) if isinstance(delay, timedelta) else (None, 1)
    theirs, ours = RiverMetric("log_loss"), se.Evaluator()
    evaluate.progressive_val_score(
        rows, features.clone(), theirs, moment=moment, delay=delay + more
    )
    se.prequential(features.clone(), rows, ours, moment=moment, delay=delay or None)
    assert ours["log_loss"] == theirs.get()


@pytest.mark.parametrize("unit", [None, "s"])
def test_a_label_comes_after_a_duration(unit: Any) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    minutes = [0, 10, 5, 20, 70, 75, 74, 200]
    moments = [m * 60.0 if unit else start + timedelta(minutes=m) for m in minutes]
    rows = [({"n": n, "at": at}, "a") for n, at in enumerate(moments)]
    for delay in (0, 1, 60, 10_000):
        book = Notebook()
        evaluator = se.Evaluator(task="multiclass", window=se.Panes("1h", retain="1d"))
        given = f"{delay}m" if delay else None
        result = se.prequential(book, rows, evaluator, delay=given, moment="at", time_unit=unit)
        known = [
            sum(m + delay <= now for m in minutes[:n]) if delay else n
            for n, now in enumerate(minutes)
        ]
        assert [lessons for _, lessons in book.tests] == known
        assert result.unpredicted == known.count(0)
        assert sum(row.support for row in evaluator.series("accuracy")) == 8 - known.count(0)


@pytest.mark.parametrize("validation", ["cross", "split", "bootstrap"])
def test_folds_share_the_stream(validation: Any) -> None:
    options: dict[str, Any] = {"folds": 5, "validation": validation, "seed": 3}
    result = se.prequential(Notebook(), numbered(600), se.Evaluator("multiclass"), **options)
    for n in range(600):
        tested = [f for f, book in enumerate(result.models) if n in {t for t, _ in book.tests}]
        taught = [f for f, book in enumerate(result.models) if n in {t for t, _ in book.lessons}]
        assert set(tested) | set(taught) == set(range(5))
        assert not set(tested) & set(taught)
        if validation == "cross":
            assert len(tested) == 1
        elif validation == "split":
            assert len(taught) == 1
    lessons = sum(len(book.lessons) for book in result.models)
    if validation == "bootstrap":
        tests = sum(len(book.tests) for book in result.models)
        assert lessons == pytest.approx(3000, rel=0.1)
        assert tests == pytest.approx(3000 / math.e, rel=0.1)


@pytest.mark.parametrize("validation", ["cross", "split", "bootstrap"])
def test_pooled_is_the_merge_and_mean_is_the_mean(validation: Any) -> None:
    options: dict[str, Any] = {"folds": 3, "seed": 9, "validation": validation}
    classifier, rows = tree.HoeffdingTreeClassifier(), phishing(200)
    result, again = (
        se.prequential(classifier.clone(), rows, se.Evaluator(), **options) for _ in range(2)
    )
    assert result.evaluator is not None
    assert result.evaluator.to_bytes() == se.merge(result.folds).to_bytes()
    assert result.evaluator == again.evaluator  # the same seed
    for row in result.rows():
        assert row.mean == pytest.approx(statistics.fmean(row.folds))
        assert row.deviation == pytest.approx(statistics.stdev(row.folds))
    assert "pooled" in str(result).splitlines()[0]
    assert result.to_dict()["metrics"]["f1"]["pooled"] == result.evaluator["f1"]


def test_slices_and_multi_class_probabilities() -> None:
    evaluator = se.Evaluator(task="multiclass", slices=("parity",))
    result = se.prequential(
        preprocessing.StandardScaler() | naive_bayes.GaussianNB(),
        datasets.ImageSegments().take(200),
        evaluator,
        slices=lambda x: {"parity": int(x["region-centroid-col"]) % 2},
    )
    assert result.unpredicted == 1
    slices = evaluator.slices()
    assert sum(view.confusion.total for view in slices.values()) == 199
    assert evaluator["log_loss"] > 0


def test_windows_that_cannot_be_pooled_say_so() -> None:
    result = se.prequential(model(), phishing(200), se.Evaluator(window=se.Last(50)), folds=2)
    assert result.evaluator is None
    (row,) = result.rows(["accuracy"])
    assert math.isnan(row.pooled)
    assert row.reason == "these windows cannot be merged"
    assert row.mean > 0.5


# Several models --------------------------------------------------------------


class Recent:
    """Predicts the last label, with a probability of 0.75."""

    def __init__(self) -> None:
        self.last: Any = None

    def predict_one(self, x: Any) -> Any:
        return self.last

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        return {} if self.last is None else {self.last: 0.75, not self.last: 0.25}

    def learn_one(self, x: Any, y: Any) -> None:
        self.last = y


def booleans(count: int) -> list[tuple[dict[str, Any], bool]]:
    source = random.Random(9)
    return [({"n": n, "half": n % 2}, source.random() < 0.7) for n in range(count)]


def test_several_models_are_tested_and_trained_on_the_same_events() -> None:
    stream = booleans(200)
    comparison = se.Comparison(("recent", "again"), slices=["half"])
    models = {"recent": Recent(), "again": Recent()}
    result = se.prequential(models, stream, comparison, slices=["half"], delay=3)
    one = se.Evaluator(slices=["half"])
    alone = se.prequential(Recent(), stream, one, slices=["half"], delay=3)
    for name in models:
        assert comparison[name].report() == one.report()
    assert len(comparison.slices()) == 2
    assert comparison.difference("roc_auc").p_value == 1.0
    assert (result.events, result.unpredicted) == (200, alone.unpredicted)
    assert result.models == tuple(models.values())
    assert result.to_dict()["metrics"] == comparison.report().to_dict()["metrics"]


PAIR = {"a": Recent(), "b": Recent()}
BOTH, CLASSES = se.Comparison(("a", "b")), se.Evaluator("multiclass")


@pytest.mark.parametrize(
    ("models", "evaluator", "options", "message"),
    [
        (PAIR, se.Evaluator(), {}, "pass a Comparison to compare several"),
        ({"a": Recent()}, BOTH, {}, "a mapping with the models of the comparison"),
        ({"a": Recent(), "b": 1}, BOTH, {}, "int without learn_one"),
        (PAIR, BOTH, {"folds": 2}, "folds: expected 1 with several models"),
        (Recent(), BOTH, {}, "model: expected a mapping with the models"),
        (Recent(), CLASSES, {"folds": 0}, "folds: expected a number of folds"),
        (Recent(), CLASSES, {"validation": "x"}, "validation: expected cross or split or boot"),
        (Recent(), CLASSES, {"delay": "1h"}, "moment= beside a delay by time"),
        (Recent(), CLASSES, {"delay": -1}, "delay: expected 0 events or more"),
        (Recent(), CLASSES, {"delay": "soon", "moment": "t"}, "delay: expected a duration"),
        (Recent(), CLASSES, {"moment": 3}, "moment: expected a key"),
    ],
)
def test_what_does_not_fit_is_refused(
    models: Any, evaluator: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(se.InputError, match=message):
        se.prequential(models, [], evaluator, **options)


class Tagger:
    """Predicts each label with the share of the events that had it, as River's models do."""

    def __init__(self) -> None:
        self.seen = dict.fromkeys("pq", 1)
        self.events = 2

    def predict_proba_one(self, x: Any) -> dict[str, dict[bool, float]]:
        shares = {label: count / self.events for label, count in self.seen.items()}
        return {label: {False: 1 - share, True: share} for label, share in shares.items()}

    def predict_one(self, x: Any) -> dict[str, bool]:
        shares = self.predict_proba_one(x)
        return {label: share[True] > share[False] for label, share in shares.items()}

    def learn_one(self, x: Any, y: dict[str, bool]) -> None:
        self.events += 1
        for label, flag in y.items():
            self.seen[label] += flag


@pytest.mark.parametrize(
    "options", [{}, {"threshold": 0.3}, {"metrics": ["f1_micro"]}, {"labels": ["p", "q"]}]
)
def test_a_multi_label_model(options: dict[str, Any]) -> None:
    draw = random.Random(4)
    stream = [({}, {"p": draw.random() < 0.4, "q": draw.random() < 0.6}) for _ in range(120)]
    ev = se.Evaluator("multilabel", **options)
    result = se.prequential(Tagger(), stream, ev)
    own, expected = Tagger(), se.Evaluator("multilabel", **options)
    for x, y in stream:
        labels = own.predict_one(x) if "threshold" not in options else None
        shares = {label: share[True] for label, share in own.predict_proba_one(x).items()}
        expected.update(y, labels, score=shares if "metrics" not in options else None)
        own.learn_one(x, y)
    assert result.evaluator == expected
    assert 0 < expected["f1_micro"] < 1


def test_a_regressor() -> None:
    rows = list(datasets.TrumpApproval().take(200))
    model = preprocessing.StandardScaler() | linear_model.LinearRegression()
    result = se.prequential(model.clone(), rows, se.Evaluator("regression"))
    theirs = evaluate.progressive_val_score(rows, model.clone(), metrics.MAE())
    assert isinstance(result.evaluator, se.Evaluator)
    assert result.evaluator["mean_absolute_error"] == pytest.approx(theirs.get())
