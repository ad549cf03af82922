"""A score index with ``max_scores``: its cells, and one content for one set of events.

The oracle tries every level from 0 on, with a definition of cells by comparison of floats
alone.
"""

from __future__ import annotations

import math
import pickle
import random
import struct
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import InputError, StateError
from streameval.states.class_scores import ClassScores
from streameval.states.ranking.coarse_score import (
    LEAST_SCORES,
    MOST_LEVEL,
    coarse,
    coarse_column,
    wide_cells,
)
from streameval.states.ranking.reference_index import ReferenceScoreIndex
from streameval.states.score_index import ScoreIndex
from tests.support.bounded_streams import EDGES, POINTS, stream

# One where nothing is compiled, in an order that every process has.
CLASSES = list(dict.fromkeys((ReferenceScoreIndex, ScoreIndex)))
scores = st.one_of(
    st.sampled_from(EDGES),
    st.floats(0, 1),
    st.floats(allow_nan=False, allow_infinity=False),
).map(lambda score: score + 0.0)
levels = st.integers(0, MOST_LEVEL)


def _bits(score: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", score))[0])


def _place(score: float) -> tuple[str, int]:
    """The score's part of the axis, and its offset there."""
    if score in POINTS:
        return f"at {score}", 0
    if score < 0:
        return "below 0", -_bits(-score)
    if score < 0.5:
        return "to 1/2", _bits(score)
    if score < 1:
        return "to 1", _bits(0.5) - _bits(1 - score)
    return "above 1", _bits(score) - _bits(1.0)


def _cell(score: float, level: int) -> tuple[str, int]:
    """A name of the score's cell by the definition: part of the axis, and offset >> level."""
    part, offset = _place(score)
    return part, offset >> level


def _level_of(events: list[float], limit: int) -> int:
    """The least level with at most so many cells, or one above all of them."""
    places = {_place(score) for score in events}
    for level in range(MOST_LEVEL + 1):
        if len({(part, offset >> level) for part, offset in places}) <= limit:
            return level
    return MOST_LEVEL + 1


@given(st.lists(scores, min_size=1, max_size=50), levels)
def test_a_representative_is_the_smallest_score_of_its_cell(values: list[float], level: int):
    for score in values:
        cell = coarse(score, level)
        assert cell <= score
        assert _cell(cell, level) == (_cell(score, level) if level else _cell(score, 0))
        assert coarse(cell, level) == cell
        below = math.nextafter(cell, -math.inf) + 0.0
        assert not math.isfinite(below) or _cell(below, level) != _cell(score, level)
        above = math.nextafter(cell, math.inf) + 0.0
        wide = bool(wide_cells(np.array([cell]), level)[0])
        assert wide == (level > 0 and _cell(above, level) == _cell(cell, level))


@given(st.lists(scores, min_size=1, max_size=200, unique=True), levels, levels)
def test_columns_are_coarsened_as_scores_are_and_levels_nest(values, level, more):
    column = np.array(sorted(values))
    coarser = coarse_column(column, level)
    assert coarser.tolist() == [coarse(score, level) for score in column.tolist()]
    assert (coarser[1:] >= coarser[:-1]).all()
    high = max(level, more)
    assert (coarse_column(coarser, high) == coarse_column(column, high)).all()


def test_the_highest_level_fits_the_smallest_limit():
    bits = np.arange(0, (2047 << 52) - 1, 1 << 45).view(np.float64)
    axis = np.unique(np.concatenate([bits, -bits, 1 - bits[bits <= 1], EDGES]) + 0.0)
    cells = len(np.unique(coarse_column(axis, MOST_LEVEL)))
    assert cells == 522 <= LEAST_SCORES


def _stream(seed: int, size: int) -> list[tuple[bool, float]]:
    return [(positive, score) for positive, score, _ in stream(random.Random(seed), size)]


def _form(index: ScoreIndex | ClassScores) -> dict[str, object]:
    return {
        key: value.tolist() if isinstance(value, np.ndarray) else value
        for key, value in index.to_state().items()
    }


def _expected(events: list[tuple[bool, float]], limit: int) -> dict[str, object]:
    level = _level_of([score for _, score in events], limit)
    cells = [Counter(coarse(s, level) for p, s in events if p is side) for side in (False, True)]
    reached = sorted(cells[0].keys() | cells[1].keys())
    return {
        "exact": True,
        "scores": reached,
        "positives": [cells[1][score] for score in reached],
        "negatives": [cells[0][score] for score in reached],
        "max_scores": limit,
        "level": level,
    }


@pytest.mark.parametrize("kind", CLASSES)
@settings(max_examples=40)
@given(seed=st.integers(0, 10**9))
def test_any_way_in_gives_one_content(kind: type[ScoreIndex], seed: int):
    rng = random.Random(seed)
    events = _stream(seed, rng.choice((300, 1200, 2400)))
    limit = rng.choice((1024, 1100, 2000))
    wanted = _expected(events, limit)
    one_by_one = kind(max_scores=limit)
    for n, (positive, score) in enumerate(events):
        one_by_one.update(positive, score)
        if n % 97 == 0:
            # Keeps W2 and, in the compiled index, DeLong's sums current from here on.
            assert one_by_one.twice_u >= 0
            assert min(one_by_one.delong_sums()) >= 0
    shards = [kind(max_scores=limit) for _ in range(7)]
    for shard in shards:
        # Read early or not, which is the portable index's choice of structure.
        assert shard.twice_u == 0
    rest = events[:]
    rng.shuffle(rest)
    while rest:
        shard, size = rng.choice(shards), rng.choice((1, 5, 300, 2000))
        part, rest = rest[:size], rest[size:]
        shard.update_many([p for p, _ in part], [s for _, s in part])
    rng.shuffle(shards)
    merged = kind(max_scores=limit)
    for shard in shards:
        before = _form(shard)
        merged.merge(shard)
        assert _form(shard) == before
    restored = kind.from_state(one_by_one.to_state())
    for index in (one_by_one, merged, merged.copy(), restored, pickle.loads(pickle.dumps(merged))):
        index._check()
        assert _form(index) == wanted
        assert index == merged
        assert index.level == wanted["level"]
        assert index.twice_u == merged.twice_u
        assert index.delong_sums() == merged.delong_sums()
        index._check()


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("read", [False, True])
def test_the_limit_is_the_most_that_is_exact(kind: type[ScoreIndex], read: bool):
    index = kind([(n % 2 == 0, n / 4096) for n in range(1023)], max_scores=1024)
    assert not read or index.twice_u
    for positive in (True, False):
        index.update(positive, 0.75)
    assert (index.level, index.distinct) == (0, 1024)
    index.update(True, 0.8)
    assert index.level > 0
    assert index.distinct < 1024


def _probabilities(seed: int, size: int) -> list[tuple[str, dict[str, float]]]:
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet([0.3, 1.0, 0.1], size)
    rows[rng.random(size) < 0.1] = [0.0, 1.0, 0.0]
    return [
        (true, dict(zip("abc", row, strict=True)))
        for true, row in zip(rng.choice(list("abc"), size).tolist(), rows.tolist(), strict=True)
    ]


def _scores_of(events: list[tuple[str, dict[str, float]]], *, read: bool = False) -> ClassScores:
    scores = ClassScores(max_scores=1024)
    for n, (true, proba) in enumerate(events):
        scores.update(true, proba)
        if read and n % 50 == 0:
            assert scores.pair_wins("a", "b") >= 0
    return scores


def test_probabilities_of_classes_have_one_level_that_fits_each_multiset():
    events = _probabilities(1, 4500)
    whole = _scores_of(events)
    columns = [[p[c] for true, p in events if true == own and p[c]] for c in "abc" for own in "abc"]
    level = max(_level_of(column, 1024) for column in columns)
    assert whole.level == level > 0
    exact = ClassScores()
    for true, proba in events:
        exact.update(true, {label: coarse(score, level) for label, score in proba.items()})
    assert _form(whole) == {**_form(exact), "max_scores": 1024, "level": level}
    # Shards of unequal size are at unequal levels.
    shards = [_scores_of(events[a:b]) for a, b in pairwise((0, 8, 100, 4400, 4500))]
    assert len({shard.level for shard in shards}) > 1
    for order in (shards, shards[::-1]):
        merged = ClassScores(max_scores=1024)
        for shard in order:
            before = _form(shard)
            merged.merge(shard)
            assert _form(shard) == before
        merged._check()
        assert _form(merged) == _form(whole)
    again = ClassScores.from_state(_scores_of(events, read=True).to_state())
    assert again == whole
    assert again.pair_wins("b", "c") == whole.pair_wins("b", "c")
    for true, proba in events[500:]:
        again.revert(true, proba)
    again._check()
    assert again.level == level
    rest = _scores_of(events[:500])
    rest.merge(again)
    for true, proba in events[:500]:
        rest.revert(true, proba)
    assert rest == again
    with pytest.raises(StateError, match="expected ClassScores with max_scores=1024, got None"):
        again.merge(exact)


@pytest.mark.parametrize("kind", CLASSES)
def test_events_are_taken_out_of_their_cells_and_the_level_stays(kind: type[ScoreIndex]):
    events = _stream(7, 2500)
    index, kept, empty = (kind(max_scores=1024) for _ in range(3))
    index.update_many(*map(list, zip(*events, strict=True)))
    kept.update_many(*map(list, zip(*events[:1000], strict=True)))
    level = index.level
    for positive, score in events[1000:]:
        index.revert(positive, score)
    index._check()
    assert index.level == level > 0
    assert level >= kept.level
    # At one level the two are equal.
    empty.merge(index)
    assert empty == index
    kept.merge(index)
    for positive, score in events[:1000]:
        kept.revert(positive, score)
    assert kept == index
    with pytest.raises(InputError, match="score: expected an event that was counted before"):
        index.revert(True, 123.456)


@pytest.mark.parametrize("kind", CLASSES)
def test_weights_that_are_fractions_are_kept_by_cell(kind: type[ScoreIndex]):
    index = kind(max_scores=1024)
    values = np.random.default_rng(1).random(5000)
    index.update_many(values > 0.6, values, np.full(5000, 0.25))
    index.update(True, 0.123, 0.5)
    index._check()
    assert not index.exact
    assert index.distinct <= 1024
    assert math.isclose(index.positives + index.negatives, 1250.5)
    assert kind.from_state(index.to_state()) == index


@pytest.mark.parametrize("kind", CLASSES)
def test_an_index_merges_with_one_of_its_own_limit_only(kind: type[ScoreIndex]):
    for other in (kind(), kind(max_scores=4096)):
        with pytest.raises(StateError, match="expected an index with max_scores=2048"):
            kind([(True, 0.5)], max_scores=2048).merge(other)
    for most in (1023, 2048.0):
        with pytest.raises(InputError, match="max_scores: expected a number of distinct scores"):
            kind(max_scores=most)


def test_a_written_form_is_not_trusted():
    form = ScoreIndex([(True, 0.3), (False, 0.7)], max_scores=2048).to_state()
    many = ScoreIndex([(True, n / 2000) for n in range(2000)]).to_state()
    for change, message in (
        ({"level": 56}, "index.level: expected a level from 0 to 55"),
        ({"max_scores": 10}, "index.max_scores: expected a number of distinct scores"),
        ({"max_scores": None}, "index.level: expected a level from 0 to 55 beside a limit"),
        ({"level": 40}, r"index.scores\[0\]: expected the smallest score of a cell of level 40"),
        (
            many | {"max_scores": 1024, "level": 0},
            "index.scores: expected at most 1024 scores, got",
        ),
    ):
        with pytest.raises(StateError, match=message):
            ScoreIndex.from_state(form | change)
    with pytest.raises(StateError, match="index: expected the keys"):
        ScoreIndex.from_state({key: form[key] for key in form if key != "level"})
