"""Log loss, Brier score and calibration against scikit-learn and their definitions."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve as sk_calibration_curve

from streameval.metrics.calibration import (
    calibration_curve,
    expected_calibration_error,
    l2_calibration_error,
    max_calibration_error,
)
from streameval.metrics.probability import (
    brier_score,
    d2_brier_score,
    d2_log_loss_score,
    log_loss,
    normalized_entropy,
)
from streameval.metrics.undefined import Undefined
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.confusion import ConfusionCounts
from streameval.states.probability import ProbabilitySums
from tests.support.class_batch import class_batch, class_events

PROBABILITIES = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0]))
EVENTS = st.lists(
    st.tuples(st.booleans(), PROBABILITIES, st.integers(1, 4)), min_size=1, max_size=30
)
LABELS = ["ant", "bee", "cow", "dog"]
SHARES_REMOVED = {
    d2_log_loss_score: sk.d2_log_loss_score,
    d2_brier_score: sk.d2_brier_score,
}
METRICS = [log_loss, brier_score, expected_calibration_error, max_calibration_error]


def sums_of(events: list[tuple[bool, float, Any]], bins: int = 10) -> ProbabilitySums:
    sums = ProbabilitySums(bins)
    for positive, probability, weight in events:
        sums.update(positive, probability, weight)
    return sums


@settings(max_examples=60)
@given(st.floats(1e-6, 2.0**52), st.floats(1e-6, 2.0**52), st.sampled_from([int, float]))
def test_baselines_of_very_rare_classes_are_exact(one: float, other: float, kind: type) -> None:
    weights = [max(1, int(one)), max(1, int(other))] if kind is int else [one, other]
    sums, classes, counts = ProbabilitySums(), ClassProbabilitySums(), ConfusionCounts()
    # Each class has a bin of its own, and every event the same losses.
    for label, by in zip("ab", weights, strict=True):
        sums.update(label == "b", 0.25 if label == "a" else 0.75, by)
        classes.update(
            label, {"a": 0.75, "b": 0.25} if label == "a" else {"a": 0.25, "b": 0.75}, by
        )
        counts.update(label, label, by)
    with localcontext(prec=80):
        a, b = (Decimal(w) for w in weights)
        shares = (a / (a + b), b / (a + b))
        entropy = -sum(share * share.ln() for share in shares)
        loss = -Decimal("0.75").ln() / entropy
        brier = Decimal("0.0625") / (shares[0] * shares[1])
        removed = float(1 - loss), float(1 - brier)
    near = {"rel": 1e-12, "abs": 1e-15}
    for given_states in ((sums,), (classes, counts)):
        assert normalized_entropy(*given_states) == pytest.approx(float(loss), **near)
        assert d2_log_loss_score(*given_states) == pytest.approx(removed[0], **near)
        assert d2_brier_score(*given_states) == pytest.approx(removed[1], **near)


@settings(max_examples=80)
@given(EVENTS, st.sampled_from([1, 0.5]))
def test_binary_losses_equal_scikit_learn(events, unit):
    events = [(positive, p, w * unit) for positive, p, w in events]  # type: ignore[misc]
    y_true, probability, weight = zip(*events, strict=True)
    expected = sk.log_loss(y_true, probability, sample_weight=weight, labels=[False, True])
    sums = sums_of(events)
    assert log_loss(sums) == pytest.approx(expected, abs=1e-12)
    squares = [w * (p - y) ** 2 for y, p, w in events]
    assert brier_score(sums) == pytest.approx(math.fsum(squares) / sum(weight), abs=1e-12)
    if len(set(y_true)) == 2:
        expected = sk.brier_score_loss(y_true, probability, sample_weight=weight)
        assert brier_score(sums) == pytest.approx(expected, abs=1e-12)
        shares = [f(y_true, probability, sample_weight=weight) for f in SHARES_REMOVED.values()]
        assert [f(sums) for f in SHARES_REMOVED] == pytest.approx(shares, rel=1e-12, abs=1e-12)


@settings(max_examples=80)
@given(EVENTS, st.sampled_from([1, 5, 10, 15]))
def test_calibration_equals_scikit_learn_and_its_errors_their_definition(events, bins):
    *pairs, weight = zip(*events, strict=True)
    y_true, probability = (np.repeat(column, weight) for column in pairs)
    observed, predicted = sk_calibration_curve(y_true, probability, n_bins=bins, pos_label=True)
    sums = sums_of(events, bins)
    curve = calibration_curve(sums)
    np.testing.assert_allclose(curve.observed, observed, rtol=0, atol=1e-12)
    np.testing.assert_allclose(curve.predicted, predicted, rtol=0, atol=1e-12)
    assert np.allclose(curve.high - curve.low, 1 / bins)
    # A probability on an edge belongs below it; 0 to the first bin.
    weights = [
        sum(w for _, p, w in events if low < p <= high or p == low == 0)
        for low, high in pairwise(np.linspace(0, 1, bins + 1))
    ]
    assert curve.weight.tolist() == [weight for weight in weights if weight]
    gaps = np.abs(observed - predicted)
    for error, expected in (
        (expected_calibration_error, np.average(gaps, weights=curve.weight)),
        (l2_calibration_error, math.sqrt(np.average(gaps**2, weights=curve.weight))),
        (max_calibration_error, gaps.max()),
    ):
        assert error(sums) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=60)
@given(class_events(LABELS, every_class=False, steps=8), st.sampled_from([1, 0.5]))
def test_class_losses_equal_scikit_learn_and_calibration_is_of_the_predicted_label(events, unit):
    y_true, matrix, weight = events
    weight = [w * unit for w in weight]  # type: ignore[misc]
    sums = ClassProbabilitySums()
    sums.update_many(class_batch(y_true, matrix, LABELS, weight))
    for loss, peer in ((log_loss, sk.log_loss), (brier_score, sk.brier_score_loss)):
        expected = peer(y_true, matrix, sample_weight=weight, labels=LABELS)
        assert loss(sums) == pytest.approx(expected, abs=1e-12)
    # Among equal probabilities the label that sorts first is predicted, as by np.argmax.
    top = matrix.argmax(axis=1)
    right = [LABELS[at] == true for at, true in zip(top, y_true, strict=True)]
    same = sums_of(list(zip(right, matrix.max(axis=1).tolist(), weight, strict=True)))
    for error in (expected_calibration_error, max_calibration_error):
        assert error(sums) == error(same)
    for ours, theirs in zip(calibration_curve(sums), calibration_curve(same), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("metric", METRICS)
def test_scores_that_are_no_probabilities_are_a_reason(metric: Any) -> None:
    sums = sums_of([(True, 0.5, 7), (True, 1.5, 2), (False, -0.1, 1)])
    value = metric(sums)
    assert isinstance(value, Undefined)
    assert value.reason.startswith("3 of 10 scores lie outside [0, 1]; ")
    assert value.reason.endswith(" needs probabilities")
    assert metric(sums, undefined=2) == 2
    curve = calibration_curve(sums)
    assert (len(curve.observed), curve.reason[:34]) == (0, "3 of 10 scores lie outside [0, 1];")
    assert log_loss(sums_of([(True, 1.5, 1)])).reason.startswith("1 of 1 scores lies outside")
    halves = sums_of([(True, 1.5, 0.5), (True, 0.5, 2.5)])
    assert log_loss(halves).reason.startswith("0.5 of 3 scores lie outside")


def test_certain_mistakes_are_clipped() -> None:
    assert log_loss(sums_of([(True, 0.0, 1)])) == pytest.approx(-math.log(2**-52), abs=1e-12)
    assert log_loss(sums_of([(True, 1.0, 1)])) == pytest.approx(2**-52, rel=1e-2)
