"""Intervals of AUCs of several classes: against brute force, resampled weights and streams."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.events.values import FloatArray, IntArray
from streameval.metrics.registry import METRICS
from streameval.states.class_scores import ClassScores
from streameval.uncertainty.delong import newcombe_interval
from streameval.uncertainty.multiclass_auc import CLASS_AUCS

NAMES = sorted(CLASS_AUCS)
LABELS = "abcd"

Event = tuple[str, dict[str, float]]


def scores_of(events: list[Event], weights: list[float] | None = None) -> ClassScores:
    state = ClassScores()
    for (true, proba), weight in zip(events, weights or [1] * len(events), strict=True):
        state.update(true, proba, weight)
    return state


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Events of two classes or more, with ties, zeros, and a label that no event may have."""
    count = draw(st.integers(2, 4))
    cells = st.integers(0, 3)
    event = st.tuples(
        st.sampled_from(LABELS[:count]), st.lists(cells, min_size=count, max_size=count)
    )
    drawn = draw(st.lists(event, min_size=2, max_size=14))
    # Each class of the first two at the start, so that there are pairs.
    first = [(label, draw(st.permutations(range(count)))) for label in LABELS[:2]]
    return [
        (true, {label: cell / 16 for label, cell in zip(LABELS, row, strict=False) if cell})
        for true, row in first + drawn
    ]


def test_every_metric_of_the_family_has_a_row() -> None:
    assert {name for name, row in METRICS.items() if row.family == "class_auc"} == set(NAMES)


# Brute force -----------------------------------------------------------------


def placement(score: float, others: list[float]) -> Fraction:
    """The share of other scores below one, a tie counting one half."""
    below = sum(Fraction(score > other) + Fraction(score == other) / 2 for other in others)
    return below / len(others)


def parts_of(name: str, events: list[Event]) -> dict[str, list[dict[str, Fraction]]]:
    """Of each event of a class, the part of its influence that each column decides."""
    present = sorted({true for true, _ in events})
    labels = sorted({label for true, proba in events for label in (true, *proba)})
    n, k = len(events), len(present)
    held = {
        (column, true): [proba.get(column, 0.0) for y, proba in events if y == true]
        for column in labels
        for true in present
    }
    share = {true: Fraction(sum(y == true for y, _ in events), n) for true in present}
    factor: dict[tuple[str, str], Fraction] = {}
    for c, j in permutations(present, 2):
        factor[c, j] = {
            "roc_auc_ovr": Fraction(1, k) * share[j] / (1 - share[c]),
            "roc_auc_ovr_weighted": share[c] * share[j] / (1 - share[c]),
            "roc_auc_ovo": Fraction(1, k * (k - 1)),
            "roc_auc_ovo_weighted": (share[c] + share[j]) / (2 * (k - 1)),
        }.get(name, Fraction(0))
    positives = [proba.get(true, 0.0) for true, proba in events]
    negatives = [
        proba.get(label, 0.0) for true, proba in events for label in labels if label != true
    ]
    found: dict[str, list[dict[str, Fraction]]] = {true: [] for true in present}
    for true, proba in events:
        parts = {}
        for column in labels:
            score = proba.get(column, 0.0)
            if name == "roc_auc_micro" and column == true:
                parts[column] = placement(score, negatives)
            elif name == "roc_auc_micro":
                parts[column] = (1 - placement(score, positives)) / (len(labels) - 1)
            elif column == true:
                terms = [
                    factor[true, j] * placement(score, held[true, j]) for j in present if j != true
                ]
                parts[column] = sum(terms, Fraction(0)) / share[true]
            elif column in present:
                lost = 1 - placement(score, held[column, column])
                parts[column] = factor[column, true] * lost / share[true]
        found[true].append(parts)
    return found


def spread_of(values: list[Fraction]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))


@given(streams())
def test_the_columns_have_the_spread_of_all_pairs(events: list[Event]) -> None:
    state = scores_of(events)
    for name in NAMES:
        found = CLASS_AUCS[name](state)
        wanted = parts_of(name, events)
        assert len(found.influences) == len(wanted)
        for one, parts in zip(found.influences, wanted.values(), strict=True):
            columns = parts[0].keys()
            spread = sum(spread_of([part[column] for part in parts]) for column in columns)
            assert one.spread == pytest.approx(spread, rel=1e-9, abs=1e-7), name
        # The AUCs of the mean are those of the metric.
        mean = math.fsum(auc.share * auc.value for auc in found.aucs)
        assert math.fsum(auc.share for auc in found.aucs) == pytest.approx(1, abs=1e-12)
        assert mean == pytest.approx(METRICS[name].bind()(state), abs=1e-12)


@given(streams())
def test_no_variance_of_the_influences_is_above_the_bound(events: list[Event]) -> None:
    # A little more weight of one event moves the value by its influence, as the delta method
    # has it, with all of what its columns have in common.
    step, n = 1e-5, len(events)
    plain, *moved = (
        scores_of(events, [1.0 + step * (number == event) for number in range(n)])
        for event in range(-1, n)
    )
    for name in NAMES:
        value = METRICS[name].bind()
        at = value(plain)
        influences = np.array([(value(state) - at) * (n + step) / step for state in moved])
        found = CLASS_AUCS[name](scores_of(events))
        for true, one in zip(sorted({true for true, _ in events}), found.influences, strict=True):
            of_class = influences[[y == true for y, _ in events]]
            assert of_class.mean() == pytest.approx(one.mean, abs=2e-3)
            assert of_class.std() <= one.spread + 2e-3


def test_two_classes_have_the_interval_of_the_binary_task() -> None:
    rng = np.random.default_rng(5)
    truth = rng.random(400) < 0.3
    score = np.round(1 / (1 + np.exp(-rng.normal(size=400) - 1.2 * truth)), 2)
    score = np.clip(score, 1 / 128, 127 / 128)
    score = np.round(score * 128) / 128  # so that 1 − score is exact
    binary = se.Evaluator()
    binary.update_many(truth, score=score)
    wanted = binary.interval("roc_auc")
    several = se.Evaluator("multiclass", labels=["no", "yes"])
    several.update_many(np.where(truth, "yes", "no"), proba=np.column_stack([1 - score, score]))
    for name in ("roc_auc_ovr", "roc_auc_ovo", "roc_auc_ovr_weighted", "roc_auc_ovo_weighted"):
        found = several.interval(name)
        assert (found.method, found.n) == ("delong_summed", 400)
        assert found.value == pytest.approx(wanted.value, rel=1e-12)
        assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), rel=1e-12)


# Laws ------------------------------------------------------------------------


def filled(events: list[Event], weight: int) -> se.Evaluator:
    ev = se.Evaluator("multiclass")
    for true, proba in events:
        ev.update(true, proba={**proba, "rest": 1 - math.fsum(proba.values())}, weight=weight)
    return ev


@given(streams().flatmap(lambda events: st.tuples(st.just(events), st.permutations(events))))
def test_any_order_and_any_shards_have_the_same_bits(both: tuple[list[Event], list[Event]]) -> None:
    one, other = both
    whole, shards = filled(one, 20), filled(other, 7)
    shards.merge(filled(other[::-1], 13))
    for name in NAMES:
        found = whole.interval(name)
        assert repr(shards.interval(name)) == repr(found)
        assert 0 <= found.low <= found.value <= found.high <= 1


def drawn(seed: int, sizes: list[int], shift: float) -> tuple[IntArray, FloatArray]:
    """Classes of these sizes, and probabilities of which that of the true class is higher."""
    true = np.repeat(np.arange(len(sizes)), sizes)
    logits = np.random.default_rng(seed).normal(size=(len(true), len(sizes)))
    logits[np.arange(len(true)), true] += shift
    odds = np.exp(logits)
    return true, odds / odds.sum(axis=1, keepdims=True)


def counted(
    events: tuple[IntArray, FloatArray], weight: Any = None, **options: Any
) -> se.Evaluator:
    ev = se.Evaluator("multiclass", labels=[0, 1, 2], **options)
    return ev.update_many(events[0], proba=events[1], weight=weight)


def test_weights_of_events() -> None:
    events = drawn(2, [100, 60, 40], 1.0)
    thrice = tuple(np.concatenate([column] * 3) for column in events)
    plain, halves = counted(events), counted(events, np.full(200, 0.5), intervals=True)
    for name in NAMES:
        assert counted(events, np.full(200, 3)).interval(name) == counted(thrice).interval(name)  # type: ignore[arg-type]
        found, wanted = halves.interval(name), plain.interval(name)
        assert (found.method, found.n) == ("delong_summed (Kish)", 200)
        assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), rel=1e-12)


# Few events ------------------------------------------------------------------


@pytest.mark.parametrize("size", [5, 100])
def test_a_perfect_ranking_has_the_mean_of_newcombes_ends(size: int) -> None:
    ev = se.Evaluator("multiclass")
    for label in "abc" * size:
        ev.update(label, proba={label: 1.0})
    sizes = {"ovr": (size, 2 * size), "ovo": (size, size), "micro": (1.5 * size, 1.5 * size)}
    for name in NAMES:
        found = ev.interval(name)
        low, high = newcombe_interval(1.0, *sizes[name.split("_")[2]], 0.95)
        assert found.method == "newcombe, summed"
        assert (found.value, found.high) == (1.0, high)
        assert found.low == pytest.approx(low, rel=1e-12)


@pytest.mark.parametrize(
    ("sizes", "shift", "method"),
    [
        ([29] * 3, 1.0, "newcombe, summed"),
        ([30] * 3, 1.0, "delong_summed"),
        # The low placements of a rare class make most of the error, and are often missing.
        ([480, 40, 40], 2.5, "newcombe, summed"),
        ([380, 40, 40], 2.5, "delong_summed"),
    ],
)
def test_delongs_error_needs_events_and_lost_ones_of_a_rare_class(sizes, shift, method):
    found = counted(drawn(6, sizes, shift)).interval("roc_auc_ovo")
    assert (found.value > 0.98) == (shift > 1)
    assert found.method == method


def test_equal_scores_have_newcombes_ends_and_one_class_has_none() -> None:
    ev = se.Evaluator("multiclass")
    for label in "ab" * 50:
        ev.update(label, proba={"a": 0.5, "b": 0.5})
    found = ev.interval("roc_auc_ovr")
    assert (found.value, found.method) == (0.5, "newcombe, summed")
    assert found.low < 0.4 < 0.6 < found.high
    alone = se.Evaluator("multiclass", undefined=0.5)
    alone.update("a", proba={"a": 0.5, "b": 0.5})
    assert alone.interval("roc_auc_ovo").reason == "every event is truly 'a'"


def test_a_bounded_evaluator_has_the_interval_of_its_cells() -> None:
    events = drawn(3, [3000, 1800, 1200], 1.0)
    exact, bounded = counted(events), counted(events, max_scores=1024)
    for name in NAMES:
        found, wanted = bounded.interval(name), exact.interval(name)
        certain = bounded.bounds(name)
        assert certain.low < found.value < certain.high
        assert found.low < found.value < found.high
        assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=1e-3)
