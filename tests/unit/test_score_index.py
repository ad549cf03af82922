"""The score index against a double loop; its errors; its groups in blocks of any size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError
from streameval.metrics.cut_points import fbeta_cut
from streameval.metrics.thresholds import threshold_blocks, threshold_counts
from streameval.states.moments import ScoreMoments
from streameval.states.probability import ProbabilitySums
from streameval.states.ranking import score_groups
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


# Groups in blocks --------------------------------------------------------------------------


EVENTS = st.lists(
    st.tuples(st.booleans(), st.sampled_from([n / 16 for n in range(17)])), max_size=60
)


def cut_into(monkeypatch: pytest.MonkeyPatch, groups: int) -> None:
    monkeypatch.setattr(score_groups, "GROUPS_AT_ONCE", groups)
    if se.backend() == "native":
        from streameval.states.ranking import compiled_index

        monkeypatch.setattr(compiled_index, "GROUPS_AT_ONCE", groups)


def filled(kind: Any, count: int, weight: str = "none") -> Any:
    rng = np.random.default_rng(3)
    positive = rng.random(count) < 0.3
    # The highest scores are of positives only.
    score = (rng.random(count) + 0.5 * positive).round(4)
    index = kind()
    weights = {"none": None, "whole": rng.integers(1, 400, count), "float": rng.random(count) + 0.1}
    index.update_many(positive, score, weights[weight])
    return index


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("weight", "most"), [("none", 1), ("whole", 700), ("float", 1 << 16)])
def test_blocks_of_many_leaves(kind, weight, most, monkeypatch):
    cut_into(monkeypatch, most)
    index = filled(kind, 2_000 if most == 1 else 10_000, weight)
    for descending in (False, True):
        blocks = list(index.group_blocks(descending=descending))
        assert all(0 < len(block.scores) <= 2 * most for block in blocks)
        for place, column in enumerate(index.groups()):
            parts = [block[place] for block in blocks][:: -1 if descending else 1]
            joined = np.concatenate(parts)
            assert (joined.dtype, joined.tobytes()) == (column.dtype, column.tobytes())
            assert not any(part.flags.writeable for part in parts)


@pytest.mark.parametrize("weight", ["none", "whole", "float"])
def test_what_is_summed_does_not_depend_on_the_cut(weight, monkeypatch):
    index = filled(se.ScoreIndex, 5_000, weight)
    read = (
        lambda: se.metrics.average_precision(index).hex(),
        lambda: ScoreMoments.from_blocks(index.group_blocks()),
        lambda: ProbabilitySums.from_blocks(index.group_blocks()),
    )
    whole = [one() for one in read[: 2 if weight == "float" else 3]]
    cut_into(monkeypatch, 90)
    assert len(list(index.group_blocks())) > 20
    assert [one() for one in read[: len(whole)]] == whole


@pytest.mark.parametrize("kind", KINDS)
@given(EVENTS, st.sampled_from([0, 0.5, 1, 2]), st.sampled_from([[1], [1, 2, 3], [0.5]]))
def test_the_highest_f_beta_of_blocks_is_that_of_all_groups(kind, events, beta, weights):
    index = kind()
    for number, event in enumerate(events):
        index.update(*event, weights[number % len(weights)])
    whole = threshold_counts(index.groups())
    with pytest.MonkeyPatch.context() as patch:
        cut_into(patch, 3)
        blocks = list(threshold_blocks(index))
        cut = fbeta_cut(index, beta)
    for name in ("threshold", "tp", "fp") if events else ():
        joined = np.concatenate([getattr(block, name) for block in blocks])
        assert np.array_equal(joined, getattr(whole, name)), name
    if not index.positives:
        assert cut.reason
        return
    square = beta**2
    over, under = (1 + square) * whole.tp, square * whole.positives + whole.tp + whole.fp
    # Nothing is predicted positive above all scores, which with a beta of 0 is no precision.
    values = np.minimum(over / np.where(under, under, 1), 1.0)
    row = int(np.argmax(values))
    assert (cut.threshold, cut.tp, cut.fp) == (whole.threshold[row], whole.tp[row], whole.fp[row])
    assert cut.value == values[row]
