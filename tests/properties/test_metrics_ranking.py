"""Ranking metrics against scikit-learn and against their definitions read literally."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import MetricError
from streameval.metrics.curves import pr_gain_auc
from streameval.metrics.ranking import (
    average_precision,
    break_even,
    eleven_point_average_precision,
    gini,
    ks,
    partial_roc_auc,
    roc_auc,
)
from streameval.metrics.undefined import Undefined
from streameval.states.score_index import ScoreIndex

Event = tuple[bool, float, int]

TIED = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5000000001, 0.9, 1.0])
ANY = st.floats(-1e6, 1e6)
EVENTS = st.one_of(
    st.lists(st.tuples(st.booleans(), scores, st.integers(1, 3)), max_size=30)
    for scores in (TIED, ANY)
)
BOTH_CLASSES = EVENTS.filter(lambda events: len({positive for positive, *_ in events}) == 2)
WITH_POSITIVE = EVENTS.filter(lambda events: any(positive for positive, *_ in events))

TWO_CLASS_METRICS = [roc_auc, gini, ks, partial_roc_auc, pr_gain_auc]
POSITIVE_METRICS = [average_precision, eleven_point_average_precision, break_even]


def index_of(events: list[tuple[bool, float, Any]]) -> ScoreIndex:
    index = ScoreIndex()
    for positive, score, weight in events:
        index.update(positive, score, weight)
    return index


def columns(events: list[tuple[bool, float, Any]]) -> tuple[Any, Any, Any]:
    y_true, score, weight = (np.array(column) for column in zip(*events, strict=True))
    return y_true, score, weight


def counts_falling(events: list[Event]) -> list[tuple[float, int, int]]:
    """(threshold, TP, FP), literally, for +inf and each distinct score descending."""
    thresholds = [math.inf, *sorted({score for _, score, _ in events}, reverse=True)]
    return [
        (
            threshold,
            sum(w for positive, score, w in events if positive and score >= threshold),
            sum(w for positive, score, w in events if not positive and score >= threshold),
        )
        for threshold in thresholds
    ]


@settings(max_examples=60)
@given(BOTH_CLASSES)
def test_auc_and_gini_count_every_pair(events: list[Event]) -> None:
    wins = Fraction(0)
    pairs = 0
    for positive, score, weight in events:
        for other, below, times in events:
            if positive and not other:
                pairs += weight * times
                tie = Fraction(score == below) / 2
                wins += weight * times * (Fraction(score > below) + tie)
    index = index_of(events)
    assert roc_auc(index) == float(wins / pairs)
    assert gini(index) == float(2 * wins / pairs - 1)


@settings(max_examples=60)
@given(BOTH_CLASSES)
def test_ks_is_the_largest_gap_of_the_rates(events: list[Event]) -> None:
    rows = counts_falling(events)
    _, positives, negatives = rows[-1]
    gaps = [abs(Fraction(tp, positives) - Fraction(fp, negatives)) for _, tp, fp in rows]
    assert ks(index_of(events)) == float(max(gaps))


@settings(max_examples=60)
@given(WITH_POSITIVE)
def test_eleven_points_take_the_best_precision_at_each_recall(events: list[Event]) -> None:
    rows = counts_falling(events)[1:]
    positives = rows[-1][1]
    best = [
        max(Fraction(tp, tp + fp) for _, tp, fp in rows if Fraction(tp, positives) >= level)
        for level in (Fraction(tenth, 10) for tenth in range(11))
    ]
    expected = float(sum(best) / 11)
    assert eleven_point_average_precision(index_of(events)) == pytest.approx(expected, abs=1e-15)


@settings(max_examples=60)
@given(WITH_POSITIVE)
def test_break_even_calls_as_many_positive_as_there_are(events: list[Event]) -> None:
    rows = counts_falling(events)
    positives = rows[-1][1]
    for (_, tp0, fp0), (_, tp1, fp1) in pairwise(rows):
        if tp0 + fp0 <= positives <= tp1 + fp1:
            share = Fraction(positives - tp0 - fp0, tp1 + fp1 - tp0 - fp0)
            expected = (tp0 + share * (tp1 - tp0)) / positives
            break
    assert break_even(index_of(events)) == float(expected)


@settings(max_examples=60)
@given(BOTH_CLASSES, st.booleans())
def test_areas_equal_scikit_learn(events: list[Event], fractions: bool) -> None:
    if fractions:
        events = [(positive, score, weight / 2 + 0.25) for positive, score, weight in events]
    y_true, score, weight = columns(events)
    index = index_of(events)
    for metric, expected in (
        (roc_auc, sk.roc_auc_score(y_true, score, sample_weight=weight)),
        (average_precision, sk.average_precision_score(y_true, score, sample_weight=weight)),
        (partial_roc_auc, sk.roc_auc_score(y_true, score, sample_weight=weight, max_fpr=0.1)),
    ):
        assert metric(index) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("metric", TWO_CLASS_METRICS)
@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], "no event has been counted yet"),
        ([(True, 0.5, 1)], "no negative event has been seen"),
        ([(False, 0.5, 1)], "no positive event has been seen"),
    ],
)
def test_a_missing_class_is_a_reason(metric: Any, events: list[Event], reason: str) -> None:
    value = metric(index_of(events))
    assert isinstance(value, Undefined)
    assert value.reason == reason
    assert metric(index_of(events), undefined=0.5) == 0.5


@pytest.mark.parametrize("metric", POSITIVE_METRICS)
def test_precision_needs_a_positive_only(metric: Any) -> None:
    assert metric(index_of([])).reason == "no event has been counted yet"
    value = metric(index_of([(False, 0.5, 1)]))
    assert value.reason == "no positive event has been seen"
    assert metric(index_of([(False, 0.5, 1)]), undefined=0) == 0
    assert metric(index_of([(True, 0.5, 1)])) == 1


@pytest.mark.parametrize("max_fpr", [0, -0.1, 1.1, math.nan, "0.1", True])
def test_partial_auc_refuses_a_bad_limit(max_fpr: Any) -> None:
    with pytest.raises(MetricError, match="max_fpr: expected a number above 0 and at most 1, got"):
        partial_roc_auc(index_of([(True, 0.5, 1)]), max_fpr)
