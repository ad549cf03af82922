"""The score index against a double loop and scikit-learn, and its errors."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from sklearn.metrics import roc_auc_score

from streameval.errors import InputError
from streameval.states.ranking.reference_index import ReferenceScoreIndex
from streameval.states.ranking.score_groups import exact_dot
from streameval.states.ranking.weights import count_at_or_below
from streameval.states.score_index import ScoreIndex
from streameval.states.sums.fixed_point import total_weight
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


def auc(index):
    return index.twice_u / (2 * index.positives * index.negatives)


def fed(listed, kind=ReferenceScoreIndex):
    index = kind()
    for event in listed:
        index.update(*event)
    return index


def as_columns(listed):
    return [list(column) for column in zip(*listed, strict=True)] or [[], [], []]


class IndexMachine(RuleBasedStateMachine):
    """Anything in any order, in every index; the same bits as the plain list of events gives."""

    def __init__(self):
        super().__init__()
        self.indices = [kind() for kind in KINDS]
        self.listed = []

    @rule(event=st.tuples(st.booleans(), scores, weights))
    def update(self, event):
        self.listed.append(event)
        for index in self.indices:
            index.update(*event)

    @rule(listed=events)
    def update_many(self, listed):
        self.listed += listed
        for index in self.indices:
            index.update_many(*as_columns(listed))

    @rule(listed=events)
    def merge(self, listed):
        self.listed += listed
        for index in self.indices:
            other = fed(listed, type(index))
            if len(listed) % 2:
                assert other.twice_u == literal_wins(listed)
            before, mine = other.to_state(), index.to_state()
            index.merge(other)
            index.merge(other, times=-1)
            assert str(index.to_state()) == str(mine)
            index.merge(other)
            assert str(other.to_state()) == str(before)

    @rule(place=st.integers(0, 10**6))
    def revert(self, place):
        if self.listed:
            positive, score, weight = self.listed.pop(place % len(self.listed))
            for index in self.indices:  # a whole float is a weight to revert as well
                index.revert(positive, score, float(weight) if place % 2 else weight)

    @rule()
    def read(self):
        """What was read is kept current from then on."""
        for index in self.indices:
            assert index.twice_u == literal_wins(self.listed)
            assert index.delong_sums() == by_pairs(self.listed)

    @rule(event=st.tuples(st.booleans(), scores, weights))
    def copy(self, event):
        twins = [index.copy() for index in self.indices]
        for index, twin in zip(self.indices, twins, strict=True):
            index.update(*event)
            index.merge(twin)
            index._check()
        self.indices = twins

    @rule()
    def round_trip(self):
        self.indices = [type(index).from_state(index.to_state()) for index in self.indices]

    @rule()
    def pickled(self):
        self.indices = [pickle.loads(pickle.dumps(index)) for index in self.indices]

    @invariant()
    def same_as_the_list(self):
        for each in self.indices:
            index = each.copy()
            assert index.positives == sum(w for positive, _, w in self.listed if positive)
            assert index.negatives == sum(w for positive, _, w in self.listed if not positive)
            assert found_groups(index) == literal_groups(self.listed)
            assert index.distinct == len(literal_groups(self.listed))
            assert index.exact
            assert index.twice_u == literal_wins(self.listed)
            assert index.delong_sums() == by_pairs(self.listed)
            assert {type(sums) for sums in (index.twice_u, *index.delong_sums())} == {int}
            # On a copy, because checking settles what waits.
            each.copy()._check()


TestActions = IndexMachine.TestCase
TestActions.settings = settings(max_examples=60, stateful_step_count=15)


# --- numbers ------------------------------------------------------------------------------


def test_twice_wins_of_columns_passes_int64_and_stays_an_integer():
    many = ReferenceScoreIndex()
    many.update_many([True] * 5000 + [False] * 5000, list(range(10_000)), [2**40] * 10_000)
    assert many.twice_u == 0
    many.update_many([True] * 5000, [20_000.0] * 5000, [2**40] * 5000)
    assert many.twice_u == 2 * 5000 * 5000 * 2**80
    many.update(True, 20_000, 2**40)
    assert many.twice_u == 2 * 5001 * 5000 * 2**80
    many._check()


def test_large_shares_of_events_give_the_same_bits():
    random = np.random.default_rng(5)
    positive, score = random.random(9_000) < 0.5, random.normal(size=9_000)
    whole = ReferenceScoreIndex()
    whole.update_many(positive, score)
    one, merged = ReferenceScoreIndex(), ReferenceScoreIndex()
    for n, (label, value) in enumerate(zip(positive.tolist(), score.tolist(), strict=True)):
        one.update(label, value)
        if n % 3000 == 0:
            assert one.twice_u >= 0
    for part in np.array_split(np.arange(9_000), 3):
        shard = ReferenceScoreIndex()
        shard.update_many(positive[part], score[part])
        merged.merge(shard)
    assert one == whole == merged
    assert one.twice_u == whole.twice_u == merged.twice_u
    assert math.isclose(auc(whole), roc_auc_score(positive, score), rel_tol=1e-12)


def test_an_empty_batch_leaves_the_number_of_scores_bounded():
    index = ReferenceScoreIndex(max_scores=1024)
    assert index.twice_u == 0
    index.update_many([], [])
    for n in range(1500):
        index.update(n % 2 == 0, n / 1500)
        # A read settles what waits; most are left out, because each takes milliseconds.
        if n < 5 or n % 100 > 95:
            assert index.auc is None or 0 <= index.auc <= 1
    assert index.distinct <= 1024
    index._check()


def test_small_batches_and_merges_among_many_scores():
    random = np.random.default_rng(3)
    index = ReferenceScoreIndex()
    index.update_many(random.random(5000) < 0.5, random.random(5000))
    assert index.twice_u > 0
    index.update_many([True, False, True], [0.5, 0.25, 0.75], [1, 2, 2**40])
    index.merge(ReferenceScoreIndex([(True, 0.5), (False, 0.5)]))
    index.merge(ReferenceScoreIndex())
    index.update_many([], [])
    index._check()
    large = index.copy()
    index.update_many([True] * 5000, random.random(5000))
    large.merge(large)
    for each in (index, large):
        each._check()
        assert each.twice_u == ReferenceScoreIndex.from_state(each.to_state()).twice_u


@given(st.lists(st.tuples(st.integers(0, 2**61), st.integers(0, 2**61)), max_size=20))
def test_sums_and_products_do_not_overflow(pairs):
    left, right = (np.array([pair[n] for pair in pairs], dtype=np.int64) for n in (0, 1))
    expected = sum(a * b for a, b in pairs)
    assert exact_dot(left, right, expected) == expected
    assert total_weight(left) == sum(a for a, _ in pairs)


@given(st.sets(scores.map(lambda score: score + 0.0)), st.sets(scores))
def test_counts_are_those_of_a_loop(values, queries):
    count, tied = count_at_or_below(np.array(sorted(values)), np.array(sorted(queries)))
    assert count.tolist() == [sum(value <= query for value in values) for query in sorted(queries)]
    assert tied.tolist() == [query in values for query in sorted(queries)]


# --- fractions ----------------------------------------------------------------------------


def test_the_first_fraction_promotes_for_good():
    index = ReferenceScoreIndex([(True, 0.5), (False, 0.5)])
    assert (index.exact, index.twice_u) == (True, 1)
    index.update(True, 0.7, 2.0)
    assert index.exact
    index.update(True, 0.7, 0.5)
    assert not index.exact
    assert type(index.twice_u) is type(index.positives) is float
    assert (index.twice_u, index.positives, index.negatives) == (6.0, 3.5, 1.0)
    index.update(False, 0.1)
    assert index.twice_u == 13.0
    assert index.groups().negatives.dtype == np.float64
    index.merge(ReferenceScoreIndex([(True, 0.5)]))
    assert (index.exact, index.twice_u) == (False, 16.0)
    empty = ReferenceScoreIndex.from_state(ReferenceScoreIndex().to_state() | {
        "exact": False, "positives": np.zeros(0), "negatives": np.zeros(0)})  # fmt: skip
    assert not empty.exact
    assert empty.twice_u == 0.0


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


# --- columns, copies, memory --------------------------------------------------------------


def test_columns_may_be_of_any_kind():
    expected = ReferenceScoreIndex([(True, 0.5), (False, 0.25), (True, 0.0)])
    for positive in ([True, False, True], [1, 0, 1], np.array([1, 0, 1], dtype=np.int8),
                     pd.Series([True, False, True]), [np.True_, 0, 1]):  # fmt: skip
        for score in ([0.5, 0.25, -0.0], np.array([0.5, 0.25, 0], dtype=np.float32),
                      pd.Series([0.5, 0.25, 0.0]), (0.5, 0.25, 0)):  # fmt: skip
            index = ReferenceScoreIndex()
            index.update_many(positive, score)
            assert index == expected
    index = ReferenceScoreIndex()
    for event in ((np.True_, np.float32(0.5)), (np.int64(0), 0.25), (1, 0)):
        index.update(*event)
    assert index == expected


def test_the_arrays_that_were_given_are_left_alone():
    score = np.random.default_rng(0).random(20_000)
    positive = score > 0.5
    kept = score.copy()
    index = ReferenceScoreIndex()
    index.update_many(positive, score)
    assert index.twice_u == 2 * index.positives * index.negatives
    np.testing.assert_array_equal(score, kept)
    score[:] = 0.0
    assert auc(index) == 1.0
    state = index.to_state()
    state["scores"][:] = 0.0
    assert index == ReferenceScoreIndex.from_state(index.to_state())
    with pytest.raises(ValueError, match="read-only"):
        index.groups().scores[0] = 1.0


def test_pickles_that_name_the_former_module_are_read():
    index = ReferenceScoreIndex([(True, 0.5), (False, 0.25)])
    name = b"cstreameval.states.ranking.%s\nPortableScoreIndex\n"
    restore = b"cbuiltins\ngetattr\n(" + name % b"portable_index" + b"Vfrom_state\ntR"
    assert pickle.loads(restore + b".")(index.to_state()) == index
