"""Sorted multisets of scores under keys, against a dictionary of counters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.states.ranking.coarse_score import coarse
from streameval.states.ranking.keyed_scores import MOST_KEY, Entries, KeyedScores

Entry = tuple[int, float, int]
KEYS = st.sampled_from([0, 1, 5, 2**40, MOST_KEY])
SCORES = st.one_of(st.sampled_from([-1.5, 0.25, 0.5, 1.0, 5e-324]), st.floats(0.1, 0.9))
PARTS = st.lists(
    st.lists(st.tuples(KEYS, SCORES, st.sampled_from([1, 1, 2, 2**53])), max_size=8), max_size=5
)


def entries(events: list[Entry], sign: int = 1) -> Entries:
    keys, scores, weights = ([event[n] for event in events] for n in range(3))
    whole = sign == 1 and set(weights) <= {1}
    return Entries(
        np.array(keys, dtype=np.int64),
        np.array(scores, dtype=np.float64),
        None if whole else sign * np.array(weights, dtype=np.int64),
    )


def assert_holds(kept: KeyedScores, held: Counter[tuple[int, float]]) -> None:
    kept._check()
    found = zip(kept.each_key().tolist(), kept.scores.tolist(), kept.each().tolist(), strict=True)
    assert {(key, score): weight for key, score, weight in found if weight} == +held
    for key in {key for key, _ in held} | {3}:
        of_key = {score: weight for (k, score), weight in held.items() if k == key and weight}
        scores, weights = kept.arrays(key)
        assert {s: w for s, w in zip(scores.tolist(), weights.tolist(), strict=True) if w} == of_key
        assert kept.total(key) == sum(of_key.values())


@settings(max_examples=60)
@given(PARTS, st.data())
def test_multisets_are_those_of_a_counter(parts: list[list[Entry]], data: st.DataObject) -> None:
    kept, held = KeyedScores(), Counter[tuple[int, float]]()
    for part in parts:
        kept = kept.absorbed(entries(part))
        for key, score, weight in part:
            held[key, score] += weight
        assert_holds(kept, held)
    twin, before = kept, held.copy()
    for key, score in data.draw(st.lists(st.sampled_from(sorted(held)))) if held else ():
        if not held[key, score]:
            continue
        if data.draw(st.booleans()):
            twin, before = kept.shared(), held.copy()
        weight = data.draw(st.integers(1, held[key, score]))
        at = kept.find(key, score)
        assert kept.weight_at(at) == held[key, score]
        held[key, score] -= weight
        left = sum(w for (k, _), w in held.items() if k == key)
        assert kept.take(key, at, weight) == left
        assert_holds(kept, held)
        if twin is not kept:
            assert_holds(twin, before)
    assert kept.find(0, 0.75 + 2**-40) == -1 == kept.find(7, 0.5)
    # What was taken is gone after the next merge.
    folded = kept.absorbed()
    assert not folded.has_removed
    assert_holds(folded, held)
    if twin is not kept:
        assert_holds(twin.absorbed(kept.entries(times=-1)), before - held)


@settings(max_examples=40)
@given(st.lists(st.tuples(KEYS, SCORES, st.sampled_from([1, 3])), max_size=12), st.data())
def test_other_keys_cells_and_floats(events: list[Entry], data: st.DataObject) -> None:
    kept = KeyedScores().absorbed(entries(events))
    keys = kept.keys.tolist()
    names = data.draw(st.permutations(range(10, 10 + len(keys))))
    renamed = kept.renamed(np.array(names, dtype=np.int64))
    name_of = dict(zip(keys, names, strict=True))
    held, cells = Counter[Any](), Counter[Any]()
    for key, score, weight in events:
        held[name_of[key], score] += weight
        cells[key, coarse(score, 50)] += weight
    assert_holds(renamed, held)
    assert_holds(kept.coarsened(50), cells)
    floats = kept.promoted().absorbed(Entries(*entries(events)[:2], np.full(len(events), 0.5)))
    assert floats.each().dtype == np.float64
    each: dict[Any, float] = {}
    for key, score, weight in events:
        each[key, score] = each.get((key, score), 0.0) + weight + 0.5
    for key, score in each:
        assert floats.weight_at(floats.find(key, score)) == each[key, score]
    if events:
        assert kept != renamed
    assert kept == KeyedScores(kept.keys, kept.starts, kept.scores, kept.weights)


def test_the_check_finds_a_wrong_total() -> None:
    kept = KeyedScores().absorbed(entries([(0, 0.5, 1), (5, 0.25, 2)]))
    kept.totals[1] += 1
    with pytest.raises(AssertionError):
        kept._check()
