"""Expected metrics: the closed form by hand, refusals, what is named beside a value, coverage."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.errors import InputError, MetricError
from streameval.states.class_probability import ClassProbabilitySums
from streameval.uncertainty.expected import (
    EXPECTED,
    bins_of,
    expected,
    outside,
)
from streameval.uncertainty.interval import normal_quantile

Column = Any
Z = normal_quantile(0.95)


def index_of(
    positive: Column, score: Column, weight: Column = None, **options: Any
) -> se.ScoreIndex:
    index = se.ScoreIndex(**options)
    index.update_many(np.asarray(positive, dtype=bool), score, weight)
    return index


def predicted(score: Column, weight: Column = None, **options: Any) -> se.ScoreIndex:
    return index_of(np.zeros(len(score), dtype=bool), score, weight, **options)


def stream(
    rng: np.random.Generator, size: int, shift: float = 0.0, sharpened: float = 0.7, digits: int = 9
) -> tuple[Column, Column]:
    """Labels and scores whose odds are those of the labels, to some power, and biased."""
    logits = rng.normal(shift - 0.5, 1.5, size)
    score = np.clip((1 / (1 + np.exp(-logits))).round(digits), 0.01, 0.99)
    odds = (score / (1 - score)) ** sharpened * 0.8
    return rng.random(size) < odds / (1 + odds), score


RNG = np.random.default_rng(0)
LABELLED = index_of(*stream(RNG, 2_000, digits=3))
PREDICTIONS = predicted(stream(RNG, 1_000, 0.5, digits=3)[1])


# The closed form --------------------------------------------------------------


def literal(
    labelled: Column, scores: Column, edges: list[float], threshold: float
) -> dict[str, tuple[float, float | None]]:
    """Some metrics by loops over events of weight 1 and bins, and the variance of losses.

    The variance of the others follows from the differences of their values, see below.
    """
    bins: list[dict[str, Any]] = [{"pos": [], "neg": [], "now": []} for _ in range(len(edges) + 1)]

    def place(score: float) -> int:
        return sum(score >= edge for edge in edges)

    for positive, score in zip(*labelled, strict=True):
        bins[place(score)]["pos" if positive else "neg"].append(score)
    for score in scores:
        bins[place(score)]["now"].append(score)
    for held in bins:
        held["r"] = (len(held["pos"]) + 0.5) / (len(held["pos"]) + len(held["neg"]) + 1)
        pairs = [(s > t) + (s == t) / 2 for s in held["pos"] for t in held["neg"]]
        held["a"] = sum(pairs) / len(pairs) if pairs else 0.5
    now = [(score, held["r"]) for held in bins for score in held["now"]]
    tp, fp = (sum(side(r) for s, r in now if s >= threshold) for side in (float, (1.0).__sub__))
    fn, tn = (sum(side(r) for s, r in now if s < threshold) for side in (float, (1.0).__sub__))
    plus = [len(b["now"]) * b["r"] for b in bins]
    minus = [len(b["now"]) * (1 - b["r"]) for b in bins]
    won = sum(p * (sum(minus[:j]) + bins[j]["a"] * minus[j]) for j, p in enumerate(plus))

    def of_loss(loss: Callable[[float], float]) -> tuple[float, float]:
        value = variance = 0.0
        for held in bins:
            r, known = held["r"], held["pos"] + held["neg"]
            here, pos, of_known = (
                [loss(s) - loss(1 - s) for s in side] for side in (held["now"], held["pos"], known)
            )
            value += sum(loss(1 - s) for s in held["now"]) + r * sum(here)
            if known:
                inside = sum(pos) - len(pos) * sum(of_known) / len(known)
                value += inside / len(known) * len(here)
            squares = sum(here) ** 2 / (len(known) + 1) + sum(gap * gap for gap in here)
            variance += squares * r * (1 - r)
        return value / len(scores), variance / len(scores) ** 2

    return {
        "accuracy": ((tp + tn) / len(scores), None),
        "f1": (2 * tp / (2 * tp + fp + fn), None),
        "roc_auc": (won / (tp + fn) / (tn + fp), None),
        "log_loss": of_loss(lambda q: -math.log(q)),
        "brier_score": of_loss(lambda q: (1 - q) ** 2),
    }


@pytest.mark.parametrize("threshold", [0.5, 0.31, 0.05])
def test_the_closed_form_is_that_of_loops_over_events(threshold: float) -> None:
    rng = np.random.default_rng(7)
    labelled, (_, scores) = stream(rng, 400, digits=2), stream(rng, 300, 0.5, digits=2)
    ordered = np.sort(labelled[1])
    wanted = round(2 * 400 ** (1 / 3))
    edges = {ordered[k * 400 // wanted] for k in range(wanted)} - {ordered[0]} | {threshold}
    expectations = literal(labelled, scores, sorted(edges), threshold)
    for name, (value, variance) in expectations.items():
        found = expected(name, predicted(scores), index_of(*labelled), threshold=threshold)
        assert found.value == pytest.approx(value, rel=1e-12), name
        if variance is not None:
            half = (found.high - found.low) / 2
            assert half == pytest.approx(Z * math.sqrt(variance), rel=0.05), name


@pytest.mark.parametrize("name", EXPECTED)
def test_the_variance_follows_from_the_differences_of_the_value(name: str) -> None:
    metric, expectation = EXPECTED[name]
    bins = bins_of(PREDICTIONS, LABELLED, 0.4, [1.0, 1.0])
    value, variance = expectation(metric, bins, {})
    sums = np.empty(len(bins.weight))
    for j in range(len(sums)):
        ends = []
        for step in (1e-5, -1e-5):
            rate = bins.rate.copy()
            rate[j] += step
            ends.append(expectation(metric, bins._replace(rate=rate), {})[0])
        sums[j] = (ends[0] - ends[1]) / 2e-5
    squares = sums**2 / bins.weight
    if metric.family == "loss":
        # Scores of one bin differ, and so do their losses.
        assert bins.variance(sums, squares) <= variance <= 1.5 * bins.variance(sums, squares)
    else:
        assert variance == pytest.approx(bins.variance(sums, squares), rel=1e-4)
    assert metric.low <= value <= metric.high
    found = expected(name, PREDICTIONS, LABELLED, threshold=0.4)
    # A part of the interval that does not depend on its scale: half its width, nearly.
    half = (found.high - found.low) / 2
    assert half == pytest.approx(Z * math.sqrt(variance), rel=0.05)


def test_a_metrics_own_parameters_are_passed_on() -> None:
    def found(name: str = "f1", **options: Any) -> Any:
        return expected(name, PREDICTIONS, LABELLED, **options)

    assert len(EXPECTED) > 40
    once, wider = found(), found(level=0.99)
    assert found("fbeta", beta=1).value == pytest.approx(once.value)
    assert found("fbeta", beta=2).value != once.value
    assert found("precision", threshold=0.9).value > found("precision").value
    assert found("precision") == found("precision", threshold=0.5)
    assert (once.method, once.n) == ("expected", 1_000)
    assert wider.low < once.low < once.high < wider.high


# Refusals and notes -----------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "labelled", "options", "message"),
    [
        ("f1", index_of([1] * 9 + [0] * 991, [0.5] * 1000), {}, "10 of each class, got 9 and 991"),
        ("f1", index_of([0, 1] * 49, [0.5] * 98), {}, "labelled: .* 10 of each class, got 49 and"),
        ("roc_acu", LABELLED, {}, "no expected metric is called 'roc_acu'; did you mean 'roc_auc'"),
        ("accuracy", {"a": 1}, {}, "expected accuracy is of two ScoreIndex, .*ScoreIndex and dict"),
        ("f1", LABELLED, {"beta": 2}, "f1 takes no parameter 'beta'; it takes none"),
        ("average_precision", LABELLED, {}, "no expectation; there are accuracy, .*, brier_score$"),
    ],
)
def test_refusals(name: str, labelled: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, MetricError), match=message):
        expected(name, PREDICTIONS, labelled, **options)


def test_what_speaks_against_a_value_is_named_beside_it() -> None:
    labelled = index_of([0, 1] * 200, np.linspace(0.2, 0.8, 400))
    few, many = predicted([0.5] * 96 + [0.9] * 4), predicted([0.5] * 90 + [0.1, 0.9] * 5)
    assert outside(few, labelled) == 0.04
    assert expected("accuracy", few, labelled).reason == ""
    assert str(expected("accuracy", many, labelled)).endswith(
        "] (10.0% of the scores are outside of those of the labelled events, 0.2 to 0.8)"
    )
    rng = np.random.default_rng(0)
    labels, scores = stream(rng, 4_000)
    bounded = index_of(labels, scores, max_scores=1024)
    exact = index_of(labels, scores)
    for name in ("f1", "roc_auc", "log_loss"):
        found = expected(name, predicted(scores), bounded, threshold=0.3)
        known = expected(name, predicted(scores), exact, threshold=0.3)
        assert found.value == pytest.approx(known.value, abs=0.01)
        assert ("scores have been coarsened" in found.reason) == (name != "roc_auc")
    assert expected("f1", predicted(scores), bounded).reason == ""
    # Bins are of whole cells: of the same scores each side has the same in each.
    bins = bins_of(predicted(scores, max_scores=1024), exact, 0.5, [1.0, 1.0])
    _, pos, neg, bin_of = bins.labelled
    assert bins.weight.tolist() == bins.by_bin(bin_of, pos + neg).tolist()
    margins = expected("log_loss", predicted([-1.0, 0.5]), exact)
    assert margins.reason == "1 of 2 scores lies outside [0, 1]; log_loss needs probabilities"
    nothing = expected("accuracy", predicted([]), exact)
    assert str(nothing) == "nan (no event has been counted yet)"
    none = expected("precision", predicted([0.1] * 9), exact, threshold=0.9)
    assert str(none) == "nan (no event was predicted True)"


def test_fractions_count_as_their_effective_sizes() -> None:
    labels, scores = stream(np.random.default_rng(1), 1_000, digits=2)
    whole = expected("f1", PREDICTIONS, index_of(labels, scores))
    fractions = index_of(labels, scores, [0.05] * 1_000)
    assert expected("f1", PREDICTIONS, fractions, sizes=(1_000, 1_000))._replace(
        method="expected"
    ) == pytest.approx(whole)
    without = expected("f1", PREDICTIONS, index_of(labels, scores, [0.5] * 1_000))
    assert without.reason == (
        "with weights that are not whole, it needs sizes: evaluators keep them with intervals=True"
    )
    assert without.value == pytest.approx(whole.value, abs=0.02)


def class_stream(
    rng: np.random.Generator,
    size: int,
    scale: float = 1.0,
    power: float = 0.7,
    classes: int = 3,
) -> tuple[Column, Column]:
    """Labels of several classes, whose odds are those of the probabilities to some power."""
    odds = np.exp(scale * rng.normal(0, 1.5, (size, classes)))
    p = odds / odds.sum(axis=1, keepdims=True)
    true = p**power / (p**power).sum(axis=1, keepdims=True)
    return np.minimum((rng.random((size, 1)) > true.cumsum(axis=1)).sum(axis=1), classes - 1), p


def class_scores(label: Column, p: Column, weight: Column = None, **options: Any) -> Any:
    ev = se.Evaluator("multiclass", labels=list(range(p.shape[1])), **options)
    return ev.update_many(label, proba=dict(enumerate(p.T)), weight=weight)


def class_predictions(p: Column) -> se.Predictions:
    now = se.Predictions("multiclass", labels=list(range(p.shape[1])))
    return now.update_many(proba=dict(enumerate(p.T)))


def test_of_several_classes_the_predicted_labels_probability_gives_the_accuracy() -> None:
    rng = np.random.default_rng(0)
    known, (label, p) = class_scores(*class_stream(rng, 2_000)), class_stream(rng, 1_000, 1.3)
    now = class_predictions(p)
    found = now.expected("accuracy", known)
    assert found.low < (p.argmax(axis=1) == label).mean() < found.high
    assert 0.03 < found.high - found.low < 0.1
    assert now.expected("error_rate", known).value == pytest.approx(1 - found.value)
    sums = ClassProbabilitySums()
    for name, other, message in (
        ("f1_macro", sums, "of several classes f1_macro has no expectation: no state holds"),
        ("log_loss", sums, "of several classes log_loss is of two ClassScores, got Class"),
        ("accuracy", ClassProbabilitySums(5), "requires states of the same bins, got 5 and 10"),
        ("accuracy", LABELLED, "got ScoreIndex and ClassProbabilitySums"),
    ):
        with pytest.raises(MetricError, match=message):
            expected(name, other, sums)


def test_losses_of_several_classes_are_sums_over_columns_of_loss_times_rate() -> None:
    """By loops over bins."""
    rng = np.random.default_rng(5)
    (label, p), (_, now) = class_stream(rng, 500), class_stream(rng, 400, 1.3)
    known, predictions = class_scores(label, p), class_predictions(now)
    for name, loss in (("log_loss", lambda q: -math.log(q)), ("brier_score", lambda q: 1 - 2 * q)):
        added = total = 0.0
        for k in range(3):
            ordered, own = np.sort(p[:, k]), np.sort(p[label == k, k])
            edges: set[float] = set()
            for scores in (ordered, own):
                bins = round(2 * len(scores) ** (1 / 3))
                edges |= {scores[j * len(scores) // bins] for j in range(1, bins)}
            cuts = np.array(sorted(edges))
            places, now_places = (np.searchsorted(cuts, s[:, k], side="right") for s in (p, now))
            for b in range(len(cuts) + 1):
                here, there = p[places == b, k], now[now_places == b, k]
                positive = label[places == b] == k
                rate, losses = positive.mean(), np.array([loss(s) for s in here])
                inside = (losses[positive] - losses.mean()).sum() / len(here)
                added += sum(rate * loss(s) for s in there) + inside * len(there)
                total += rate * len(there)
        value = added / total + (name == "brier_score") * (now**2).sum() / len(now)
        assert predictions.expected(name, known).value == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("scale", "power", "noted"),
    [(1.0, 1.5, False), (1.33, 1.0, False), (1.33, 1.5, True), (1.33, 0.6, True)],
)
def test_a_loss_has_a_reason_where_the_rates_of_the_classes_do_not_add_up(scale, power, noted):
    """Badly calibrated probabilities, in another mixture: a class's rate depends on the others."""
    rng = np.random.default_rng(8)
    known = class_stream(rng, 5_000, power=power, classes=10)
    _, p = class_stream(rng, 2_000, scale, power, classes=10)
    for name in ("log_loss", "brier_score"):
        found = class_predictions(p).expected(name, class_scores(*known))
        assert found.defined
        assert ("add up to" in found.reason) == noted


def test_weights_and_bounds_of_several_classes() -> None:
    rng = np.random.default_rng(7)
    known, (_, p) = class_stream(rng, 600), class_stream(rng, 300)
    now = class_predictions(p)
    whole = now.expected("log_loss", class_scores(*known))
    fractions = class_scores(*known, weight=[0.5] * 600, intervals=True)
    assert now.expected("log_loss", fractions)._replace(method="expected") == pytest.approx(whole)
    without = now.expected("log_loss", class_scores(*known, weight=[0.5] * 600))
    assert "needs sizes" in without.reason
    with pytest.raises(InputError, match=r"expected at least 100 labelled events, got 99; count"):
        now.expected("log_loss", class_scores(*class_stream(rng, 99)))
    certain = class_scores(np.arange(300) % 3, np.eye(3)[np.arange(300) % 3])
    thirds = class_predictions(np.full((9, 3), 1 / 3)).expected("log_loss", certain)
    assert str(thirds) == "nan (no labelled event has probabilities like these)"
    nothing = class_predictions(p[:0]).expected("log_loss", class_scores(*known))
    assert str(nothing).startswith("nan (no event")


def test_what_no_label_can_change_has_no_width_and_one_bin_no_ranking() -> None:
    half = predicted([0.5] * 7)
    for name, value in (("brier_score", 0.25), ("log_loss", math.log(2))):
        found = expected(name, half, index_of([0, 1] * 200, [0.5] * 400))
        assert found.low == found.value == found.high == pytest.approx(value)
    found = expected("roc_auc", half, LABELLED)
    assert not found.defined
    assert found.reason == "all scores are in one bin, whose ranking no label changes"
