"""The compiled index of weights that are fractions, against exact rational sums.

The weight at each score is the float sum of its events in the order of arrival; W2, P, N and
the AUC are the exact numbers that follow from these weights, rounded once.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streameval.events.values import MAX_WEIGHT
from streameval.states.ranking.reference_index import ReferenceScoreIndex
from tests.support.laws import assert_near, assert_same

NativeScoreIndex = pytest.importorskip(
    "streameval.states.ranking.compiled_index",
    reason="NOT TESTED: compiled code, of which none was built",
).NativeScoreIndex

Event = tuple[bool, float, float]

SCORES = st.one_of(st.sampled_from([0.0, 0.1, 0.25, 0.5, -7.5]), st.floats(-1e9, 1e9))
# Of 53 digits, and within the 126 bits that sums are kept in.
FITTING = st.one_of(st.just(1), st.sampled_from([0.1, 2.5, 1 / 3, 7]), st.floats(1e-9, 1e6))
ANY = st.one_of(FITTING, st.floats(5e-324, MAX_WEIGHT), st.integers(1, MAX_WEIGHT))


def stages(weights: st.SearchStrategy[float]) -> st.SearchStrategy[list[tuple[str, list[Event]]]]:
    events = st.lists(st.tuples(st.booleans(), SCORES, weights), max_size=12)
    return st.lists(st.tuples(st.sampled_from(["one by one", "batch", "merge"]), events))


def past_126_bits(weights: list[float]) -> list[tuple[str, list[Event]]]:
    events = [(n % 2 == 0, n / 7, weight) for n, weight in enumerate(weights * 2)]
    return [("one by one", events), ("batch", events), ("merge", events)]


class Exact:
    """The weights of both classes at each score, and what follows from them."""

    def __init__(self) -> None:
        self.weights: dict[float, list[float]] = {}

    def add(self, positive: bool, score: float, weight: float) -> None:
        here = self.weights.setdefault(score + 0.0, [0.0, 0.0])
        here[positive] += float(weight)

    def merge(self, other: Exact) -> None:
        for score, (negatives, positives) in other.weights.items():
            here = self.weights.setdefault(score, [0.0, 0.0])
            here[0] += negatives
            here[1] += positives

    def groups(self) -> list[tuple[float, float, float]]:
        return sorted((score, here[1], here[0]) for score, here in self.weights.items())

    def totals(self) -> tuple[Fraction, Fraction, Fraction]:
        """W2, P and N."""
        wins = positives = negatives = Fraction(0)
        for _, positive, negative in self.groups():
            wins += Fraction(positive) * (2 * negatives + Fraction(negative))
            negatives += Fraction(negative)
            positives += Fraction(positive)
        return wins, positives, negatives


def feed(index: Any, exact: Exact, stage: str, events: list[Event]) -> None:
    if stage == "batch":
        columns = zip(*events, strict=True) if events else ([], [], [])
        index.update_many(*(np.array(column) for column in columns))
    elif stage == "merge":
        more, more_exact = type(index)(), Exact()
        feed(more, more_exact, "one by one", events)
        index.merge(more)
        exact.merge(more_exact)
        return
    for event in events:
        exact.add(*event)
        if stage == "one by one":
            index.update(*event)


def assert_exact(index: Any, exact: Exact) -> None:
    index._check()
    assert not index.exact
    groups = index.groups()
    assert list(zip(*(column.tolist() for column in groups), strict=True)) == exact.groups()
    assert index.distinct == len(exact.weights)
    wins, positives, negatives = exact.totals()
    assert (index.positives, index.negatives) == (float(positives), float(negatives))
    assert index.twice_u == min(float(wins), 2 * (index.positives * index.negatives))
    if positives and negatives:
        assert index.roc_auc() == float(wins / (2 * positives * negatives)) == index.auc
    else:
        assert math.isnan(index.roc_auc())
        assert index.auc is None


def read(index: Any) -> list[Any]:
    values = [index.twice_u, index.positives, index.negatives, index.roc_auc()]
    return [*values, index.distinct, *index.delong_sums()]


@given(stages(FITTING))
@settings(max_examples=100)
def test_sums_are_exact_and_rounded_once_and_written(given_stages):
    index, exact = NativeScoreIndex(), Exact()
    index.update(True, 0.5, 0.5)
    exact.add(True, 0.5, 0.5)
    for stage, events in given_stages:
        feed(index, exact, stage, events)
        assert_exact(index, exact)
    for twin in (NativeScoreIndex.from_state(index.to_state()), index.copy()):
        assert twin == index
        assert_same(read(twin), read(index))
        twin.update(True, 0.4, 0.5)
        twin._check()
        assert twin != index


@given(stages(ANY), st.booleans())
@example(past_126_bits([1.5, 5e-324]), False)
@example(past_126_bits([2.0**53, 1e-25 / 3]), False)
@example(past_126_bits([0.1, 0.1, 0.1, 1e-40]), False)
@example([("one by one", [(True, 0.5, weight) for weight in (0.1, 0.1, 0.1, 1)])], False)
@example(
    [("one by one", [(True, 0.5, 2.5)]), ("batch", [(True, 0.5, 1), (True, 0.5, 2**53)])], True
)
@settings(max_examples=100)
def test_it_agrees_with_the_portable_index_which_adds_in_the_order_of_arrival(given_stages, often):
    native, portable, exact = NativeScoreIndex(), ReferenceScoreIndex(), Exact()
    for stage, events in given_stages:
        feed(native, Exact(), stage, events)
        feed(portable, exact, stage, events)
        native._check()
        assert native.exact == portable.exact
        if not often:
            continue  # a read folds what waits
        assert_near([*native.groups()], [*portable.groups()])
        for name in ("twice_u", "positives", "negatives", "auc"):
            left, right = getattr(native, name), getattr(portable, name)
            assert type(left) is type(right)
            assert left is None or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-300)
    assert_near([*native.groups()], [*portable.groups()])
    if not portable.exact:
        columns = (column.tolist() for column in portable.groups())
        assert list(zip(*columns, strict=True)) == exact.groups()


@pytest.mark.parametrize("order", ["random", "ascending", "descending", "few"])
def test_a_tall_tree(order):
    draw = random.Random(3)
    scores = [round(draw.random(), 2 if order == "few" else 17) for _ in range(2_000)]
    if order.endswith("cending"):
        scores.sort(reverse=order == "descending")
    index, exact = NativeScoreIndex(), Exact()
    for n, score in enumerate(scores):
        # Finer and finer: the unit changes on the way.
        weight = draw.choice((1, 2.5, draw.random() * 2.0 ** -(n // 100)))
        feed(index, exact, "one by one", [(draw.random() < 0.4, score, weight)])
        if n % 500 == 0 and not index.exact:
            assert_exact(index, exact)
    block = [(draw.random() < 0.5, draw.random(), draw.random()) for _ in range(300)]
    for stage in ("batch", "merge"):
        feed(index, exact, stage, block)
        assert_exact(index, exact)
