"""Label metrics against scikit-learn, undefined values included."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval import metrics
from streameval.metrics.undefined import reason_of
from streameval.states.confusion import ConfusionCounts

LABELS = st.sampled_from(["a", "b", "c", "d"])
BITS = st.integers(0, 1)


def events_of(labels, least=1):
    weights = st.one_of(st.integers(1, 4), st.integers(1, 40).map(lambda n: n / 8))
    event = st.tuples(labels, labels, weights)
    return st.lists(event, min_size=least, max_size=15)


def columns(events):
    y_true, y_pred, weight = map(list, zip(*events, strict=True))
    return y_true, y_pred, weight


def counted(events) -> ConfusionCounts:
    counts = ConfusionCounts()
    counts.update_many(*columns(events))
    return counts


def assert_near(ours, theirs):
    if math.isnan(theirs):
        assert math.isnan(ours)
        assert reason_of(ours)
    else:
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-12)


@pytest.fixture(autouse=True)
def _quiet_peer():
    # scikit-learn warns where it has no value, whatever was asked instead.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("zero_division", [0.0, 1.0, math.nan])
@pytest.mark.parametrize("average", [None, "macro", "micro", "weighted"])
@settings(max_examples=30, deadline=None)
@given(events=events_of(LABELS), beta=st.sampled_from([0.5, 1.0, 2.0]))
def test_precision_recall_fbeta_support(average, zero_division, events, beta):
    y_true, y_pred, weight = columns(events)
    theirs = sk.precision_recall_fscore_support(
        y_true, y_pred, beta=beta, average=average, sample_weight=weight,
        zero_division=zero_division,
    )  # fmt: skip
    counts = counted(events)
    options = {"average": average, "undefined": zero_division}
    ours = (
        metrics.precision(counts, **options),
        metrics.recall(counts, **options),
        metrics.fbeta(counts, beta=beta, **options),
    )
    if average is None:
        for mine, peer in zip(ours, theirs[:3], strict=True):
            assert list(mine) == counts.labels
            for a, b in zip(mine.values(), peer, strict=True):
                assert_near(a, b)
        assert list(metrics.support(counts, average=None).values()) == pytest.approx(theirs[3])
    else:
        for mine, peer in zip(ours, theirs[:3], strict=True):
            assert_near(mine, peer)


@pytest.mark.parametrize("zero_division", [0.0, 1.0, math.nan])
@settings(max_examples=30, deadline=None)
@given(events=events_of(BITS))
def test_the_positive_class(zero_division, events):
    y_true, y_pred, weight = columns(events)
    theirs = sk.precision_recall_fscore_support(
        y_true, y_pred, average=None, labels=[1], sample_weight=weight,
        zero_division=zero_division,
    )  # fmt: skip
    counts = counted(events)
    for metric, peer in zip((metrics.precision, metrics.recall, metrics.f1), theirs, strict=False):
        assert_near(metric(counts, positive=1, undefined=zero_division), peer[0])
        assert_near(metric(counts, positive=True, undefined=zero_division), peer[0])
    assert metrics.support(counts, positive=1) == pytest.approx(theirs[3][0])
    for metric, swap in ((metrics.specificity, sk.recall_score), (metrics.npv, sk.precision_score)):
        peer = swap(
            y_true, y_pred, average=None, labels=[0], sample_weight=weight,
            zero_division=zero_division,
        )  # fmt: skip
        assert_near(metric(counts, positive=1, undefined=zero_division), peer[0])


@pytest.mark.parametrize("average", [None, "macro", "micro", "weighted"])
@settings(max_examples=40, deadline=None)
@given(events=events_of(LABELS))
def test_jaccard(average, events):
    y_true, y_pred, weight = columns(events)
    theirs = sk.jaccard_score(y_true, y_pred, average=average, sample_weight=weight)
    ours = metrics.jaccard(counted(events), average=average)
    if average is None:
        assert list(ours.values()) == pytest.approx(list(theirs), rel=1e-12)
    else:
        assert_near(ours, theirs)


@settings(max_examples=80, deadline=None)
@given(events=events_of(LABELS))
def test_agreement(events):
    y_true, y_pred, weight = columns(events)
    counts = counted(events)
    assert_near(metrics.accuracy(counts), sk.accuracy_score(y_true, y_pred, sample_weight=weight))
    assert_near(metrics.error_rate(counts), sk.zero_one_loss(y_true, y_pred, sample_weight=weight))
    assert_near(
        metrics.balanced_accuracy(counts),
        sk.balanced_accuracy_score(y_true, y_pred, sample_weight=weight),
    )
    ours = metrics.matthews_corrcoef(counts)
    theirs = sk.matthews_corrcoef(y_true, y_pred, sample_weight=weight)
    # scikit-learn returns 0 for the correlation of a constant.
    assert_near(0.0 if math.isnan(ours) else ours, theirs)
    for weights in (None, "linear", "quadratic"):
        theirs = sk.cohen_kappa_score(y_true, y_pred, weights=weights, sample_weight=weight)
        assert_near(metrics.cohen_kappa(counts, weights=weights), theirs)


@settings(max_examples=80, deadline=None)
@given(events=events_of(BITS))
def test_likelihood_ratios(events):
    y_true, y_pred, weight = columns(events)
    if set(y_true) != {0, 1}:
        return  # scikit-learn takes fewer labels than it names
    positive, negative = sk.class_likelihood_ratios(
        y_true, y_pred, labels=[0, 1], sample_weight=weight, replace_undefined_by=np.nan
    )
    counts = counted(events)
    assert_near(metrics.positive_likelihood_ratio(counts, positive=1), positive)
    assert_near(metrics.negative_likelihood_ratio(counts, positive=1), negative)


@settings(max_examples=40, deadline=None)
@given(events=events_of(st.sampled_from([1, 2, 10, 11])))
def test_weighted_kappa_orders_numbers_as_numbers(events):
    y_true, y_pred, weight = columns(events)
    theirs = sk.cohen_kappa_score(y_true, y_pred, weights="linear", sample_weight=weight)
    assert_near(metrics.compute("cohen_kappa_linear", counted(events)), theirs)
