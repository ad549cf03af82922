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


@pytest.mark.parametrize("dataset", [datasets.Phishing, datasets.ImageSegments])
@pytest.mark.parametrize("classifier", MODELS, ids=str)
def test_predicted_labels_are_rivers_on_ties_too(classifier: Any, dataset: Any) -> None:
    if dataset is datasets.ImageSegments and not classifier._multiclass:
        classifier = multiclass.OneVsRestClassifier(classifier)
    rows = list(dataset().take(300))
    theirs = evaluate.progressive_val_score(rows, classifier.clone(), metrics.Accuracy())
    evaluator = se.Evaluator("binary" if dataset is datasets.Phishing else "multiclass")
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


def test_another_threshold_is_the_evaluators() -> None:
    evaluator = se.Evaluator(threshold=0.4)
    se.prequential(Even(False, True), [({}, True), ({}, False)], evaluator)
    assert evaluator["recall"] == 1.0
    assert evaluator["specificity"] == 0.0


@pytest.mark.parametrize("delay", [1, 2, 7, 50, 1000])
def test_a_delay_in_events_is_rivers_less_one(delay: int) -> None:
    theirs = RiverMetric("log_loss")
    evaluate.progressive_val_score(phishing(), model(), theirs, delay=delay + 1)
    ours = se.Evaluator()
    se.prequential(model(), phishing(), ours, delay=delay)
    assert ours["log_loss"] == theirs.get()


@pytest.mark.parametrize("minutes", [0, 1, 45, 60, 10_000])
def test_a_delay_by_time_is_rivers(minutes: int) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        ({**x, "at": start + timedelta(minutes=n * n % 7 + 15 * n)}, y)
        for n, (x, y) in enumerate(phishing())
    ]
    features = compose.Discard("at") | model()
    theirs = RiverMetric("log_loss")
    delay = timedelta(minutes=minutes)
    evaluate.progressive_val_score(rows, features.clone(), theirs, moment="at", delay=delay)
    ours = se.Evaluator()
    se.prequential(features.clone(), rows, ours, moment="at", delay=delay or None)
    assert ours["log_loss"] == theirs.get()


@pytest.mark.parametrize("delay", [1, 2, 7])
def test_a_label_comes_after_so_many_further_events(delay: int) -> None:
    book = Notebook()
    se.prequential(book, numbered(20), se.Evaluator(task="multiclass"), delay=delay)
    assert book.tests == [(n, max(0, n - delay)) for n in range(20)]
    assert [n for n, _ in book.lessons] == list(range(20))


def test_a_label_comes_after_a_duration() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    minutes = [0, 10, 20, 70, 75, 200]
    rows = [({"n": n, "at": start + timedelta(minutes=m)}, "a") for n, m in enumerate(minutes)]
    book = Notebook()
    evaluator = se.Evaluator(task="multiclass", window=se.Panes("1h"))
    result = se.prequential(book, rows, evaluator, delay="1h", moment="at")
    known = [sum(m + 60 <= now for m in minutes[:n]) for n, now in enumerate(minutes)]
    assert [lessons for _, lessons in book.tests] == known
    assert result.unpredicted == known.count(0)


def test_numeric_moments_with_their_unit() -> None:
    book = Notebook()
    evaluator = se.Evaluator(task="multiclass", window=se.Panes("10s", retain="1d"))
    se.prequential(book, numbered(40), evaluator, delay="5s", moment="t", time_unit="s")
    assert book.tests[10] == (10, 6)
    assert sum(row.support for row in evaluator.series("accuracy")) == 40 - 5


@pytest.mark.parametrize("validation", ["cross", "split", "bootstrap"])
def test_folds_share_the_stream(validation: Any) -> None:
    result = se.prequential(
        Notebook(),
        numbered(600),
        se.Evaluator(task="multiclass"),
        folds=5,
        validation=validation,
        seed=3,
    )
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
    result = se.prequential(
        model(), phishing(), se.Evaluator(), folds=4, validation=validation, seed=1
    )
    assert result.evaluator is not None
    assert result.evaluator.to_bytes() == se.merge(result.folds).to_bytes()
    for row in result.rows():
        assert row.mean == pytest.approx(statistics.fmean(row.folds))
        assert row.deviation == pytest.approx(statistics.stdev(row.folds))
    table = str(result)
    assert "pooled" in table.splitlines()[0]
    assert "mean of folds" in table.splitlines()[0]
    assert "divided once" in table.splitlines()[-1]
    assert result.to_dict()["metrics"]["f1"]["pooled"] == result.evaluator["f1"]


def test_the_same_seed_gives_the_same_bits() -> None:
    runs = [
        se.prequential(model(), phishing(150), se.Evaluator(), folds=3, seed=9) for _ in range(2)
    ]
    assert runs[0].evaluator == runs[1].evaluator


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


def test_weighted_lessons_where_the_model_takes_weights() -> None:
    result = se.prequential(
        tree.HoeffdingTreeClassifier(),
        phishing(200),
        se.Evaluator(),
        folds=2,
        validation="bootstrap",
    )
    assert len(result.models) == 2


def test_windows_that_cannot_be_pooled_say_so() -> None:
    result = se.prequential(model(), phishing(200), se.Evaluator(window=se.Last(50)), folds=2)
    assert result.evaluator is None
    (row,) = result.rows(["accuracy"])
    assert math.isnan(row.pooled)
    assert row.reason == "these windows cannot be merged"
    assert row.mean > 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 0}, "folds: expected a number of folds"),
        ({"validation": "leave-one-out"}, "validation: expected cross or split or bootstrap"),
        ({"delay": "1h"}, "moment= beside a delay by time"),
        ({"delay": -1}, "delay: expected 0 events or more"),
        ({"delay": "soon", "moment": "t"}, "delay: expected a duration"),
        ({"moment": 3}, "moment: expected a key"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(se.InputError, match=message):
        se.prequential(Notebook(), numbered(3), se.Evaluator(task="multiclass"), **options)


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


class Always:
    """Predicts one label, and has no probabilities."""

    def __init__(self, label: Any) -> None:
        self.label = label

    def predict_one(self, x: Any) -> Any:
        return self.label

    def learn_one(self, x: Any, y: Any) -> None:
        pass


def booleans(count: int) -> list[tuple[dict[str, Any], bool]]:
    source = random.Random(9)
    return [({"n": n, "half": n % 2}, source.random() < 0.7) for n in range(count)]


def test_several_models_are_tested_and_trained_on_the_same_events() -> None:
    stream = booleans(200)
    comparison = se.Comparison(("recent", "again"), slices=["half"])
    models = {"recent": Recent(), "again": Recent()}
    result = se.prequential(models, stream, comparison, slices=["half"], delay=3)
    alone = se.prequential(
        Recent(), stream, se.Evaluator(slices=["half"]), slices=["half"], delay=3
    )
    assert result.evaluator is comparison
    for name in models:
        assert comparison[name].report() == alone.evaluator.report()
    assert len(comparison.slices()) == 2
    assert comparison.difference("roc_auc").p_value == 1.0
    assert (result.events, result.unpredicted) == (200, alone.unpredicted)
    assert result.models == tuple(models.values())
    assert str(result) == str(comparison.report())
    assert result.to_dict()["metrics"] == comparison.report().to_dict()["metrics"]


def test_labels_count_where_a_model_has_no_probabilities() -> None:
    comparison = se.Comparison(("recent", "always"))
    se.prequential({"recent": Recent(), "always": Always(True)}, booleans(100), comparison)
    found = comparison.difference("accuracy")
    assert found.n == 99
    assert found.value > 0
    with pytest.raises(se.MetricError, match="roc_auc needs scores"):
        comparison.difference("roc_auc")


@pytest.mark.parametrize(
    ("models", "evaluator", "options", "message"),
    [
        (
            {"a": Recent(), "b": Recent()},
            se.Evaluator(),
            {},
            "pass a Comparison to compare several",
        ),
        (
            {"a": Recent()},
            se.Comparison(("a", "b")),
            {},
            "a mapping with the models of the comparison",
        ),
        ({"a": Recent(), "b": 1}, se.Comparison(("a", "b")), {}, "int without learn_one"),
        (
            {"a": Recent(), "b": Recent()},
            se.Comparison(("a", "b")),
            {"folds": 2},
            "folds: expected 1 with several models",
        ),
        (Recent(), se.Comparison(("a", "b")), {}, "model: expected a mapping with the models"),
    ],
)
def test_models_that_do_not_fit_are_refused(
    models: Any, evaluator: Any, options: Any, message: str
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
