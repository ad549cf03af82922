"""The Poisson bootstrap at the read: replicates of states, and intervals of any metric."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.metrics.metric import BINARY
from streameval.metrics.ranking import average_precision
from streameval.metrics.registry import ROWS
from streameval.states.confusion import ConfusionCounts
from streameval.states.score_index import ScoreIndex
from streameval.uncertainty.bootstrap import (
    REPLICATES,
    ResampledGroups,
    resampled_confusions,
    resampled_groups,
)

SCORES_METRICS = [row.name for row in ROWS if row.states == ("index",) and row.tasks == BINARY]


def scored(n: int) -> tuple[Any, Any]:
    """Labels, and scores that are normal in both classes with an AUC of 0.8."""
    rng = np.random.default_rng(1)
    y_true = rng.random(n) < 0.4
    return y_true, rng.normal(size=n) + y_true * math.sqrt(2) * NormalDist().inv_cdf(0.8)


def evaluator(n: int) -> se.Evaluator:
    y_true, score = scored(n)
    return se.Evaluator().update_many(y_true, score=score)


# Replicates


def test_cells_of_replicates_are_poisson_variables() -> None:
    counts = ConfusionCounts.from_matrix([[40, 9], [0, 25]], ["cat", "dog"])
    replicates = list(resampled_confusions(counts))
    assert len(replicates) == REPLICATES
    for cell, mean in (("cat", "cat"), 40), (("cat", "dog"), 9), (("dog", "dog"), 25):
        drawn = [replicate.cell(*cell) for replicate in replicates]
        assert abs(np.mean(drawn) - mean) < 4 * math.sqrt(mean / REPLICATES)
        # The variance is the mean: that of a binomial or multinomial variable is smaller.
        assert abs(np.var(drawn) / mean - 1) < 4 * math.sqrt(2 / REPLICATES)
    assert not any(replicate.cell("dog", "cat") for replicate in replicates)


def test_groups_of_replicates_are_poisson_variables() -> None:
    index = ScoreIndex()
    index.update_many([1, 0, 1, 0], [0.1, 0.1, 0.7, 0.9], weight=[7, 2, 30, 1])
    replicates = list(resampled_groups(index))
    positives = np.array([replicate.positives for replicate in replicates])
    negatives = np.array([replicate.negatives for replicate in replicates])
    for drawn, means in (positives, [7, 30, 0]), (negatives, [2, 0, 1]):
        error = 4 * np.sqrt(np.array(means) / REPLICATES)
        assert (abs(drawn.mean(axis=0) - means) <= error).all()
    assert np.corrcoef(positives[:, 0], negatives[:, 0])[0, 1] < 0.3


groups = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30)


@given(groups)
def test_average_precision_of_groups_is_that_of_their_state(pairs: list[tuple[int, int]]) -> None:
    positives, negatives = (np.array(side, dtype=np.int64) for side in zip(*pairs, strict=True))
    replicate = ResampledGroups(np.arange(len(pairs), dtype=np.float64), positives, negatives)
    expected = average_precision(replicate.state())
    assert replicate.average_precision() == pytest.approx(expected, rel=1e-12, nan_ok=True)


# Intervals


@pytest.fixture(scope="module")
def probabilities() -> se.Evaluator:
    y_true, score = scored(300)
    return se.Evaluator().update_many(y_true, score=1 / (1 + np.exp(-score)))


@pytest.mark.parametrize(
    "name", [*SCORES_METRICS, "binormal_auc", "log_loss", "expected_calibration_error"]
)
def test_every_metric_of_an_index_and_of_what_is_derived_of_it_has_one(name, probabilities):
    found = probabilities.interval(name, method="bootstrap")
    assert found.low < found.value < found.high
    assert (found.method, found.n) == ("bootstrap", 300)
    row = next(row for row in ROWS if row.name == name)
    assert row.low <= found.low
    assert found.high <= row.high
    wider = probabilities.interval(name, method="bootstrap", level=0.99)
    assert wider.low < found.low < found.high < wider.high


def test_its_width_is_that_of_resampling_by_the_literal_definition() -> None:
    y_true, score = scored(400)
    ev, again = evaluator(400), evaluator(400)
    rng = np.random.default_rng(0)
    names, logits = ("average_precision", "ks", "f1"), []
    for _ in range(300):
        rows = rng.integers(0, 400, 400)
        resampled = se.Evaluator().update_many(y_true[rows], score=score[rows])
        logits.append([math.log(resampled[name] / (1 - resampled[name])) for name in names])
    for name, error in zip(names, np.std(logits, axis=0), strict=True):
        found = ev.interval(name, method="bootstrap")
        assert again.interval(name, method="bootstrap") == found
        width = math.log(found.high / (1 - found.high)) - math.log(found.low / (1 - found.low))
        assert width == pytest.approx(2 * 1.959964 * error, rel=0.2)


def test_parameters_are_those_of_the_value() -> None:
    ev, options = evaluator(300), {"max_fpr": 0.5, "mcclish": False}
    found = ev.interval("partial_roc_auc", **options)
    assert found.low < ev.value("partial_roc_auc", **options) < found.high


def test_few_events_have_an_interval_that_says_so() -> None:
    few = evaluator(50).interval("average_precision")
    assert few.method == "bootstrap, few events"
    # As measured by `make coverage`: percentiles of the replicates miss .20 of such streams.
    assert (few.low, few.high) == pytest.approx((0.460371, 0.877348), abs=1e-6)
    assert evaluator(500).interval("average_precision").method == "bootstrap"
    perfect = se.Evaluator().update_many([1] * 40 + [0] * 40, score=[0.9] * 40 + [0.1] * 40)
    for name in ("average_precision", "ks", "f1"):
        found = perfect.interval(name, method="bootstrap")
        assert (found.value, found.high, found.method) == (1, 1, "bootstrap, few events")
        assert 0.8 < found.low < 0.95


def test_weights_that_are_not_counts_have_kishs_number_of_events() -> None:
    y_true, score = scored(400)
    equal, varied = (
        se.Evaluator(intervals=True).update_many(y_true, score=score, weight=weight)
        for weight in (np.full(400, 0.25), np.random.default_rng(1).exponential(size=400))
    )
    for name in ("average_precision", "f1"):
        whole, scaled, wider = (
            ev.interval(name, method="bootstrap") for ev in (evaluator(400), equal, varied)
        )
        assert (scaled.low, scaled.high) == pytest.approx((whole.low, whole.high))
        assert (scaled.method, scaled.n) == ("bootstrap (Kish)", 400)
        assert wider.high - wider.low > 1.2 * (whole.high - whole.low)


def test_events_that_cannot_be_resampled_are_named() -> None:
    without = se.Evaluator().update_many([1, 0], score=[0.9, 0.1], weight=[0.25, 0.5])
    sums = se.Evaluator(metrics=["binormal_auc"]).update_many([1, 0, 1], score=[0.9, 0.5, 0.4])
    several = se.Evaluator("multiclass").update("a", proba={"a": 0.7, "b": 0.3})
    several.update("b", proba={"a": 0.4, "b": 0.6})
    few = se.Evaluator().update_many([1, 0], score=[0.9, 0.1])
    for ev, name, reason in (
        (few, "average_precision", " of 200 replicates have no value: too few events"),
        (without, "average_precision", "needs Evaluator(intervals=True)"),
        (sums, "binormal_auc", "keeps sums, from which events cannot be resampled"),
        (several, "roc_auc_ovr", "each event together, so that events cannot be resampled"),
    ):
        found = ev.interval(name, method="bootstrap")
        assert (math.isnan(found.low), math.isnan(found.high), found.method) == (True, True, "")
        assert reason in found.reason
