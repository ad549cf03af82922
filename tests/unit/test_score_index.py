"""The score index against a double loop and scikit-learn, and its errors."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.errors import InputError
from streameval.states.ranking.reference_index import ReferenceScoreIndex
from streameval.states.ranking.weights import count_at_or_below
from streameval.states.score_index import ScoreIndex
from tests.properties.test_auc_intervals import by_pairs

KINDS = list(dict.fromkeys((ReferenceScoreIndex, ScoreIndex)))
POOL = [0.0, 0.25, 0.5, math.nextafter(0.5, 1.0), math.nextafter(0.5, 0.0), 1.0]
POOL += [5e-324, -5e-324, 2.5e-308, 1.7e308, -1.7e308, -0.0, -3.0]
scores = st.one_of(st.sampled_from(POOL), st.floats(allow_nan=False, allow_infinity=False))
weights = st.sampled_from([1, 1, 1, 2, 3, 2**40, 2**53])
events = st.lists(st.tuples(st.booleans(), scores, weights), max_size=12)


def literal_wins(listed):
    """Twice the weight of pairs won: every pair looked at."""
    return sum(
        weight * other_weight * ((score > other) + (score >= other))
        for positive, score, weight in listed
        if positive
        for other_positive, other, other_weight in listed
        if not other_positive
    )


def literal_groups(listed):
    rows = {}
    for positive, score, weight in listed:
        rows.setdefault(score + 0.0, [0, 0])[0 if positive else 1] += weight
    return [(score, *row) for score, row in sorted(rows.items())]


def found_groups(index):
    return list(zip(*map(np.ndarray.tolist, index.groups()), strict=True))


def as_columns(listed):
    return [list(column) for column in zip(*listed, strict=True)] or [[], [], []]


@pytest.mark.parametrize("kind", KINDS)
@given(listed=events, subtracted=events)
def test_sums_are_those_of_the_list_of_events(kind, listed, subtracted):
    """The laws of states have every other way to the same index."""
    index, other = kind(), kind()
    for event in listed:
        index.update(*event)
    other.update_many(*as_columns(subtracted))
    index.merge(other)
    assert index.twice_u == literal_wins([*listed, *subtracted])
    index.merge(other, times=-1)
    assert index.positives == sum(weight for positive, _, weight in listed if positive)
    assert index.negatives == sum(weight for positive, _, weight in listed if not positive)
    assert found_groups(index) == literal_groups(listed)
    assert index.distinct == len(literal_groups(listed))
    assert index.exact
    assert index.twice_u == literal_wins(listed)
    assert index.delong_sums() == by_pairs(listed)
    index._check()


@given(st.sets(scores.map(lambda score: score + 0.0)), st.sets(scores))
def test_counts_are_those_of_a_loop(values, queries):
    count, tied = count_at_or_below(np.array(sorted(values)), np.array(sorted(queries)))
    assert count.tolist() == [sum(value <= query for value in values) for query in sorted(queries)]
    assert tied.tolist() == [query in values for query in sorted(queries)]


def test_weight_beyond_the_limit_is_refused_and_nothing_counted():
    score, weight = np.arange(512.0), [1] + [2**53] * 511
    # Whichever class is too heavy, the other one is not counted either.
    for heavy_class in (True, False):
        index = ReferenceScoreIndex()
        index.update_many([not heavy_class] + [heavy_class] * 511, score, weight)
        before = index.copy()
        other = ReferenceScoreIndex([(False, 1.0), (True, 1.0)])
        other.merge(index)
        for refused in (
            lambda index=index, label=heavy_class: index.update(label, 0.5, 2**53),
            lambda index=index: index.update_many([False, True], [1.0, 2.0], [2**53, 2**53]),
            lambda index=index, other=other: index.merge(other),
        ):
            with pytest.raises(InputError, match="add up to at most 4611686018427387903, got"):
                refused()
            assert index == before
        assert index.twice_u == 2 * 511 * 2**53 * heavy_class
        index._check()


def test_columns_may_be_of_any_kind():
    expected = ReferenceScoreIndex([(True, 0.5), (False, 0.25), (True, 0.0)])
    positives = ([1, 0, 1], np.array([1, 0, 1], dtype=np.int8), pd.Series([True, False, True]),
                 [np.True_, 0, 1])  # fmt: skip
    scores = ([0.5, 0.25, -0.0], np.array([0.5, 0.25, 0], dtype=np.float32),
              pd.Series([0.5, 0.25, 0.0]), (0.5, 0.25, 0))  # fmt: skip
    for positive, score in zip(positives, scores, strict=True):
        index, single = ReferenceScoreIndex(), ReferenceScoreIndex()
        index.update_many(positive, score)
        for event in zip(positive, score, strict=True):
            single.update(*event)
        assert index == single == expected


def test_the_arrays_that_were_given_are_left_alone():
    score = np.random.default_rng(0).random(20_000)
    positive, kept = score > 0.5, score.copy()
    index = ReferenceScoreIndex()
    index.update_many(positive, score)
    assert index.twice_u == 2 * index.positives * index.negatives
    np.testing.assert_array_equal(score, kept)
    score[:] = 0.0
    index.to_state()["scores"][:] = 0.0
    np.testing.assert_array_equal(index.groups().scores, np.sort(kept))
    with pytest.raises(ValueError, match="read-only"):
        index.groups().scores[0] = 1.0
