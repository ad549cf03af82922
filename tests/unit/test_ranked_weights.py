"""The parts of the score index, against literal loops and numpy's own search."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import InputError
from streameval.states.ranking import ranked_weights, sorted_runs
from streameval.states.ranking.ranked_weights import MAX_TOTAL, RankedWeights
from streameval.states.ranking.score_groups import twice_wins
from streameval.states.ranking.sorted_runs import (
    count_at_or_below,
    distinct_run,
    exact_dot,
    exact_sum,
    merge_into,
    merge_runs,
    sum_by_score,
)

# Neighbouring floats, since the lowest bit is given up while two runs are merged.
NEIGHBOURS = [
    math.nextafter(0.5, 0.0),
    0.5,
    math.nextafter(0.5, 1.0),
    math.nextafter(0.5, 1) + 2e-16,
]
POOL = [
    *NEIGHBOURS,
    *(-x for x in NEIGHBOURS),
    0.0,
    5e-324,
    1e-323,
    -5e-324,
    -1e-323,
    1e308,
    -1e308,
]
scores = st.one_of(
    st.sampled_from(POOL),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda score: score + 0.0),
)
runs = st.lists(scores).map(lambda values: np.array(sorted(values), dtype=np.float64))
distinct_runs = st.sets(scores).map(lambda values: np.array(sorted(values), dtype=np.float64))
LARGE = np.random.default_rng(7)


@pytest.fixture(params=["as it is", "tight"])
def limits(request, monkeypatch):
    """Once with the limits as they are, once so low that few events pass every stage."""
    if request.param == "tight":
        monkeypatch.setattr(ranked_weights, "_CHANGES_LEAST", 3)
        monkeypatch.setattr(ranked_weights, "_CHANGES_FACTOR", 0)
        monkeypatch.setattr(ranked_weights, "_QUEUE_LEAST", 5)
        monkeypatch.setattr(ranked_weights, "_LOOSE_MOST", 3)
        monkeypatch.setattr(ranked_weights, "_SMALL_ARRAY", 2)
        monkeypatch.setattr(sorted_runs, "_BLOCK", 2)


def same(left, right):
    assert left.dtype == right.dtype
    np.testing.assert_array_equal(left, right)


# --- ascending runs -----------------------------------------------------------------------


@given(st.lists(runs, max_size=4))
def test_merged_runs_are_all_scores_sorted(many):
    expected = np.sort(np.concatenate([np.zeros(0), *many]))
    merged = merge_runs(many)
    same(merged, expected)
    assert not np.signbit(merged[merged == 0]).any()


def test_merging_leaves_the_runs_alone():
    left, right = np.array([-2.0, 1.0]), np.array([-3.0, 0.5])
    merge_runs([left, right])
    same(left, np.array([-2.0, 1.0]))
    same(right, np.array([-3.0, 0.5]))


@given(runs)
def test_distinct_run_counts_what_lies_below(run):
    distinct, counts = distinct_run(run)
    same(distinct, np.unique(run))
    expected = np.searchsorted(run, np.append(distinct, np.inf))
    assert (counts is None) == (len(distinct) == len(run))
    same(np.arange(len(run) + 1) if counts is None else counts, expected)


@given(distinct_runs, distinct_runs, st.sampled_from([1, 3, 2**15]))
def test_counts_are_those_of_a_search(values, queries, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_runs, "_BLOCK", block)
        patch.setattr(sorted_runs, "_SEARCH_FACTOR", block)
        count, tied = count_at_or_below(values, queries)
    same(count, np.searchsorted(values, queries, side="right"))
    same(tied, np.isin(queries, values))


@pytest.mark.parametrize("length", [1, 5_000, 200_000])
@pytest.mark.parametrize("shape", ["uniform", "normal", "rounded", "neighbours", "one side"])
def test_counts_of_long_runs_are_those_of_a_search(length, shape):
    draw = {
        "uniform": lambda n: LARGE.random(n),
        "normal": lambda n: LARGE.normal(size=n),
        "rounded": lambda n: LARGE.normal(size=n).round(3) + 0.0,
        "neighbours": lambda n: (1 + LARGE.integers(0, n, n) * 2.0**-52) * -0.5,
        "one side": lambda n: LARGE.random(n) + (n == length),
    }[shape]
    values, queries = np.unique(draw(length)), np.unique(draw(100_000))
    count, tied = count_at_or_below(values, queries)
    same(count, np.searchsorted(values, queries, side="right"))
    same(tied, np.isin(queries, values))


@given(st.lists(st.tuples(scores, st.integers(1, 9))))
def test_weights_of_equal_scores_are_added(pairs):
    expected = Counter()
    for score, weight in pairs:
        expected[score] += weight
    found = sum_by_score(
        np.array([score for score, _ in pairs], dtype=np.float64),
        np.array([weight for _, weight in pairs], dtype=np.int64),
    )
    assert dict(zip(*map(np.ndarray.tolist, found), strict=True)) == expected
    assert found[0].tolist() == sorted(expected)


def test_weights_that_cancel_take_their_score_along():
    scores, weights = np.array([0.1, 0.2]), np.array([1, 2])
    found = merge_into(scores, weights, np.array([0.2, 0.3]), np.array([-2, 1]))
    assert [array.tolist() for array in found] == [[0.1, 0.3], [1, 1]]
    assert weights.tolist() == [1, 2]


@given(st.lists(st.tuples(st.integers(0, 2**61), st.integers(0, 2**61)), max_size=20))
def test_sums_and_products_do_not_overflow(pairs):
    left = np.array([a for a, _ in pairs], dtype=np.int64)
    right = np.array([b for _, b in pairs], dtype=np.int64)
    expected = sum(a * b for a, b in pairs)
    assert exact_dot(left, right, expected) == expected
    assert exact_sum(left) == sum(a for a, _ in pairs)


def test_a_long_product_beyond_int64_is_exact():
    left = np.full(200_001, 2**40)
    assert exact_dot(left, left, 2**100) == 200_001 * 2**80


# --- one class ----------------------------------------------------------------------------


class LiteralWeights:
    """A dictionary and loops."""

    def __init__(self):
        self.weights = Counter()

    def twice_below(self, score):
        return sum(w * ((s < score) + (s <= score)) for s, w in self.weights.items())


actions = st.lists(
    st.one_of(
        st.tuples(st.just("change"), scores, st.sampled_from([1, 1, 2, 7, 2**53])),
        st.tuples(st.just("queue"), scores, st.sampled_from([1, 2, 2**53 - 1])),
        st.tuples(st.just("add_many"), st.lists(scores, max_size=6), st.booleans()),
        st.tuples(st.just("merge"), st.lists(scores, max_size=6), st.booleans()),
        st.tuples(st.just("remove"), st.integers(0, 99), st.booleans()),
        st.tuples(st.just("twice_below"), scores, st.none()),
        st.tuples(st.just("arrays"), st.none(), st.none()),
        st.tuples(st.just("copy"), st.none(), st.none()),
    ),
    max_size=12,
)


@pytest.mark.usefixtures("limits")
def test_mixed_actions():
    @given(actions)
    @settings(max_examples=150)
    def check(steps):
        ranked, literal = RankedWeights(), LiteralWeights()
        for name, value, more in steps:
            ranked = act(ranked, literal, name, value, more)
            assert ranked.total == sum(literal.weights.values())
            assert ranked.entries >= len(literal.weights)
        for score in [*literal.weights, 0.25]:
            assert ranked.twice_below(score) == literal.twice_below(score)
            assert ranked.weight_at(score) == literal.weights[score]
        ranked._check()
        found = zip(*map(np.ndarray.tolist, ranked.arrays()), strict=True)
        assert list(found) == sorted(literal.weights.items())
        assert pickle.loads(pickle.dumps(ranked)) == ranked

    check()


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("most", [1, 3])
def test_few_scores_that_are_added_and_removed_again_and_again(most):
    ranked, literal = RankedWeights(), LiteralWeights()
    draw = np.random.default_rng(most)
    pool = [-1.0, 0.0, *NEIGHBOURS]
    for step in range(6000):
        score, weight = pool[draw.integers(len(pool))], int(draw.integers(1, most + 1))
        if draw.random() < 0.5:
            ranked.change(score, weight)
            literal.weights[score] += weight
        elif weight <= literal.weights[score]:
            assert ranked.remove(score, weight) == weight
            literal.weights[score] -= weight
        else:
            with pytest.raises(InputError, match="counted before"):
                ranked.remove(score, weight)
        assert ranked.weight_at(score) == literal.weights[score]
        assert ranked.twice_below(score) == literal.twice_below(score)
        if step % 500 == 0:
            ranked._check()
    ranked._check()
    held = {score: weight for score, weight in literal.weights.items() if weight}
    assert dict(zip(*map(np.ndarray.tolist, ranked.arrays()), strict=True)) == held


def act(ranked, literal, name, value, more):
    if name in ("change", "queue"):
        getattr(ranked, name)(value, more)
        literal.weights[value] += more
    elif name in ("add_many", "merge"):
        weights = [1 + n % 3 for n in range(len(value))] if more else [1] * len(value)
        column = np.array(value, dtype=np.float64)
        given_weights = np.array(weights, dtype=np.int64) if more else None
        if name == "add_many":
            ranked.add_many(column, given_weights)
        else:
            other = RankedWeights(column, given_weights)
            ranked.merge(other)
            assert other == RankedWeights(column, given_weights)
        for score, weight in zip(value, weights, strict=True):
            literal.weights[score] += weight
    elif name == "remove" and literal.weights:
        score = sorted(literal.weights)[value % len(literal.weights)]
        weight = min(literal.weights[score], 2**53) if more else 1
        ranked.remove(score, weight)
        literal.weights[score] -= weight
        literal.weights += Counter()  # drops scores of weight 0
    elif name == "twice_below":
        assert ranked.twice_below(value) == literal.twice_below(value)
    elif name == "arrays":
        found = zip(*map(np.ndarray.tolist, ranked.arrays()), strict=True)
        assert list(found) == sorted(literal.weights.items())
    elif name == "copy":
        twin = ranked.copy()
        ranked.change(0.125, 1)
        ranked.add_many(np.array([0.125, -3.0]))
        return twin
    return ranked


@given(st.lists(st.tuples(scores, st.sampled_from([1, 0.5, 2.25, 3]))))
def test_fractions_are_summed_by_score(pairs):
    ranked = RankedWeights()
    expected = Counter()
    for score, weight in pairs:
        ranked.queue(score, weight)
        expected[score] += weight
    found = zip(*map(np.ndarray.tolist, ranked.arrays()), strict=True)
    assert list(found) == sorted(expected.items())
    assert ranked.total == sum(weight for _, weight in pairs)
    assert ranked.exact == all(isinstance(weight, int) for _, weight in pairs)
    ranked._check()


def test_a_small_fraction_survives_beside_large_ones():
    ranked = RankedWeights(np.array([0.1, 0.2]), np.array([1e15, 1e-9]))
    ranked.queue(0.3, 0.5)
    assert ranked.arrays()[1].tolist() == [1e15, 1e-9, 0.5]


def test_arrays_given_are_copied_and_arrays_taken_are_read_only():
    for length in (10, 10_000):
        column = LARGE.random(length)
        kept = column.copy()
        ranked = RankedWeights(column)
        column[:] = 7.0
        same(ranked.arrays()[0], np.sort(kept))
        for array in ranked.arrays():
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1


def test_more_weight_than_int64_can_hold_is_refused():
    ranked = RankedWeights(np.array([0.5]), np.array([2**61]))
    for attempt in (
        lambda: ranked.change(0.5, 2**61),
        lambda: ranked.queue(0.5, 2**61),
        lambda: ranked.add_many(np.array([0.1, 0.2]), np.array([2**60, 2**60])),
        lambda: ranked.merge(ranked.copy()),
    ):
        with pytest.raises(
            InputError, match=f"add up to at most {MAX_TOTAL}, got 2305843009213693952"
        ):
            attempt()
        assert ranked.total == 2**61
    ranked.change(0.6, 2**61 - 1)
    assert ranked.twice_below(0.7) == 2 * MAX_TOTAL
    ranked._check()


def test_only_what_came_can_be_removed():
    ranked = RankedWeights(np.array([0.5, 0.5, 0.7]))
    for score, weight in ((0.4, 1), (0.7, 2), (0.5, 3)):
        with pytest.raises(InputError, match="score: expected an event that was counted before"):
            ranked.remove(score, weight)
    ranked.remove(0.5, 2)
    assert ranked.arrays()[0].tolist() == [0.7]
    with pytest.raises(InputError, match="counted before"):
        ranked.remove(0.5)
    ranked.promote()
    with pytest.raises(InputError, match="float sums cannot be undone exactly"):
        ranked.remove(0.7)


def test_equal_content_is_equal_and_unit_weights_are_not_stored():
    column = LARGE.random(1000)
    ranked = RankedWeights(np.append(column, 0.5))
    ranked.change(0.5, 1)
    ranked.remove(0.5)
    ranked.remove(0.5)
    assert ranked == RankedWeights(column)
    assert ranked._base.sums is None
    assert ranked != RankedWeights(column[1:])
    assert ranked != RankedWeights(column, np.full(1000, 1.5))
    assert ranked != 3


# --- pairs of classes ---------------------------------------------------------------------

weighted = st.lists(st.tuples(scores, st.sampled_from([1, 1, 3, 2**53])), max_size=12)


def of(pairs, dtype=np.int64):
    return RankedWeights(
        np.array([score for score, _ in pairs], dtype=np.float64),
        np.array([weight for _, weight in pairs], dtype=dtype),
    )


@given(weighted, weighted, st.booleans())
def test_wins_are_those_of_a_double_loop(positives, negatives, unit):
    if unit:
        positives = [(score, 1) for score, _ in positives]
        negatives = [(score, 1) for score, _ in negatives]
    expected = sum(a * b * ((s > t) + (s >= t)) for s, a in positives for t, b in negatives)
    found = twice_wins(of(positives), of(negatives))
    assert type(found) is int
    assert found == expected
    for half in (
        twice_wins(of(positives, np.float64), of(negatives)),
        twice_wins(of(positives), of(negatives, np.float64)),
    ):
        assert type(half) is float
        assert math.isclose(half, expected, rel_tol=1e-12)


def test_wins_of_fractions_do_not_depend_on_the_order():
    score, weight = LARGE.random(2000).round(2), LARGE.random(2000)
    expected = Fraction(0)
    for s, a in zip(score[:40], weight[:40], strict=True):
        for t, b in zip(score[40:80], weight[40:80], strict=True):
            expected += Fraction(a) * Fraction(b) * (int(s > t) + int(s >= t))
    left, right = RankedWeights(score[:40], weight[:40]), RankedWeights(score[40:80], weight[40:80])
    assert math.isclose(twice_wins(left, right), expected, rel_tol=1e-12)
    order = LARGE.permutation(2000)
    one = twice_wins(RankedWeights(score, weight), left)
    other = twice_wins(RankedWeights(score[order], weight[order]), left)
    assert math.isclose(one, other, rel_tol=1e-14)
