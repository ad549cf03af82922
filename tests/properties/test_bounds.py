"""Bounded evaluators: certain bounds of rankings, in every stream, and exact sums beside them.

`make fuzz` runs the same check for many more streams.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.errors import MetricError, StateError
from streameval.metrics import CUT_POINTS, average_precision, roc_auc
from streameval.metrics.registry import ROWS
from streameval.states.ranking.coarse_score import LEAST_SCORES, MOST_LEVEL, coarse, wide_cells
from streameval.states.score_index import ScoreIndex
from streameval.uncertainty.bounds import (
    BOUNDED,
    BOUNDED_CUTS,
    bounds_of,
    extreme_index,
    without_bounds,
)
from tests.support.bounded_streams import (
    attainable,
    class_scores_escaped,
    counted,
    escaped,
    stream,
)

seeds = st.integers(0, 10**12)


@given(seeds)
def test_the_exact_value_is_within_its_bounds(seed: int):
    assert not escaped(seed)


@given(seeds)
def test_the_exact_multiclass_value_is_within_its_bounds(seed: int):
    assert not class_scores_escaped(seed)


def _cells(events: list[tuple[bool, float, int]], level: int) -> ScoreIndex:
    cells = counted([(positive, coarse(s, level), weight) for positive, s, weight in events])
    return ScoreIndex.from_state({**cells.to_state(), "max_scores": LEAST_SCORES, "level": level})


@given(seeds)
def test_the_bounds_of_auc_are_reached_by_some_stream(seed: int):
    """They are no wider than certainty requires: AUC ± T / 2PN with the pairs tied in cells."""
    rng = random.Random(seed)
    level = rng.randint(20, MOST_LEVEL)
    events = [(positive, s, 1) for positive, s, _ in stream(rng, rng.randint(2, 20))]
    bounded = _cells(events, level)
    pairs = bounded.positives * bounded.negatives
    if not pairs:
        return
    groups = bounded.groups()
    wide = wide_cells(groups.scores, level)
    tied = int((groups.positives * groups.negatives)[wide].sum())
    bounds = bounds_of(BOUNDED["roc_auc"], roc_auc, bounded)
    low, high = bounded.twice_u - tied, bounded.twice_u + tied
    assert math.isclose(bounds.low, low / (2 * pairs), abs_tol=1e-14)
    assert math.isclose(bounds.high, high / (2 * pairs), abs_tol=1e-14)
    best, worst = (counted(other).twice_u for other in attainable(events, level))
    # Cells of few float64 have not enough of them for each event.
    assert low <= worst
    assert best <= high
    sizes = groups.positives + groups.negatives
    if sizes.max(initial=0) <= 2 and not (wide & (sizes < 2)).any():
        assert (worst, best) == (low, high)
    for first, twice in ((True, high), (False, low)):
        assert extreme_index(bounded, positives_first=first).twice_u == twice


def test_the_lower_bound_of_average_precision_is_tight():
    # One cell of 1000 positives and 3000 negatives, of which the worst order is known.
    events = [(n % 4 == 0, 0.3 + n * 2.0**-54, 1) for n in range(4000)]
    bounded = _cells(events, 45)
    assert bounded.distinct == 1
    bounds = bounds_of(BOUNDED["average_precision"], average_precision, bounded)
    worst = math.fsum(k / (3000 + k) for k in range(1, 1001)) / 1000
    assert bounds.low <= worst <= bounds.low + 1e-8
    assert 1.0 - 1e-14 <= bounds.high <= 1.0
    psi = math.fsum(1 / n for n in range(3001, 4001))  # ψ(4001) − ψ(3001)
    assert math.isclose(worst, (1000 - 3000 * psi) / 1000, abs_tol=1e-12)


def test_the_best_correlation_may_be_inside_a_cell_above_all_positives():
    # All negatives are above all positives, so that every threshold is worse than chance.
    top = [(False, 0.3 + n * 2.0**-54, 1) for n in range(5)]
    events = [*top, *((True, 0.1, 1) for _ in range(4))]
    bounded, exact = _cells(events, 40), counted(events)
    best = CUT_POINTS["mcc"](exact).value
    assert CUT_POINTS["mcc"](bounded).value < best < 0
    bounds = bounds_of(BOUNDED_CUTS["mcc"], lambda index: CUT_POINTS["mcc"](index).value, bounded)
    assert bounds.low <= best <= bounds.high < 1e-14


def test_every_metric_of_a_ranking_is_bounded_or_refused():
    rankings = {
        row.name for row in ROWS if {"index", "class_scores", "label_scores"} & set(row.states)
    }
    assert rankings - {row.name for row in ROWS if without_bounds(row)} == set(BOUNDED)
    assert set(BOUNDED_CUTS) == set(CUT_POINTS)


@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_bounds_of_the_scores_of_labels(zeros: float) -> None:
    rng = np.random.default_rng(3)
    scores = rng.random((4000, 3))
    true = rng.random(scores.shape) < scores * 0.8
    scores[:, 0] = scores[:, 0].round(2)
    scores[rng.random(scores.shape) < zeros] = 0.0
    bounded, exact = (
        se.Evaluator("multilabel", labels=list("abc"), max_scores=most).update_many(
            true, score=scores
        )
        for most in (1024, None)
    )
    for name in ("roc_auc_macro", "roc_auc_micro", "roc_auc_weighted"):
        bounds = bounded.bounds(name)
        assert 0 < bounds.width < 0.01
        for value in (exact[name], bounded[name]):
            assert bounds.low <= value <= bounds.high
    assert "max_scores=1024" in bounded["average_precision_macro"].reason
    assert bounded["log_loss"] == exact["log_loss"]


@pytest.fixture(scope="module")
def pair() -> tuple[se.Evaluator, se.Evaluator]:
    """A bounded evaluator and an exact one of the same events."""
    rng = np.random.default_rng(5)
    positive = rng.random(30_000) < 0.3
    score = np.where(positive, rng.beta(3, 2, 30_000), rng.beta(2, 3, 30_000))
    bounded, exact = se.Evaluator(max_scores=2048), se.Evaluator()
    return bounded.update_many(positive, score=score), exact.update_many(positive, score=score)


def test_an_evaluator_has_bounds_of_rankings_and_exact_values_of_the_rest(pair):
    bounded, exact = pair
    for row in ROWS:
        if "binary" not in row.tasks or row.ordered or without_bounds(row):
            continue
        bounds, value = bounded.bounds(row.name), exact[row.name]
        assert exact.bounds(row.name) == se.Bounds(value, value)
        assert bounds.low <= value <= bounds.high
        assert (bounds.width > 0) == (row.state == "index")
        if row.state != "index":
            assert bounded[row.name] == value
    cuts = {"precision_at_least": {"precision": 0.8}, "youden": {}, "f1_cut": {}, "cost": {}}
    for name, params in cuts.items():
        value = exact.thresholds(name.removesuffix("_cut"), **params).value
        bounds = bounded.bounds(name, **params)
        assert bounds.low <= value <= bounds.high
        assert 0 < bounds.width < 0.02
    assert bounded.bounds("f1").width == 0  # the metric of the predicted labels


def test_what_has_no_bounds_is_refused_and_never_approximated(pair):
    bounded, _ = pair
    with pytest.raises(MetricError, match="pr_gain_auc has no certain bounds; of the metrics"):
        bounded.bounds("pr_gain_auc")
    for row in bounded.report([r.name for r in ROWS if without_bounds(r) and "binary" in r.tasks]):
        interval = bounded.interval(row.metric)
        assert math.isnan(bounded[row.metric])
        assert math.isnan(interval.value)
        assert "more than max_scores=2048, and the value has no certain bounds" in row.reason
        assert interval.reason == row.reason
        assert bounded.value(row.metric, undefined=0.25) == 0.25
    curve = bounded.curve("pr_gain")
    assert not len(curve.threshold)
    assert "no certain bounds" in curve.reason
    assert len(bounded.curve("roc").fpr) > 100
    few = se.Evaluator(max_scores=2048)
    few.update_many([True, False, True], score=[0.9, 0.5, 0.3])
    assert few["break_even"] == 0.5
    assert few.bounds("roc_auc") == se.Bounds(0.5, 0.5)
    # The reader that was kept for the next read is not one of exact scores only.
    few.update_many([True, False] * 1500, score=[n / 4096 for n in range(3000)])
    assert math.isnan(few["break_even"])


def test_reports_have_bounds_where_scores_are_coarsened(pair: tuple[se.Evaluator, se.Evaluator]):
    bounded, exact = pair
    bounds, report = bounded.bounds("roc_auc"), bounded.report()
    rows = {row.metric: row.bounds for row in report}
    assert (rows["roc_auc"], rows["accuracy"]) == (bounds, None)
    plain = report.to_dict()["metrics"]
    assert plain["roc_auc"]["bounds"] == [bounds.low, bounds.high]
    assert "bounds" not in plain["accuracy"]
    assert ("bounds" in str(report), "bounds" in str(exact.report())) == (True, False)


@pytest.mark.parametrize(
    ("task", "window"),
    [
        ("binary", se.Panes("40s", pane="10s", lateness="20s")),
        ("multiclass", se.Panes("40s", pane="10s", lateness="20s")),
        ("multiclass", se.Fading("15s")),
    ],
)
def test_windows_and_slices_hold_what_a_merge_of_shards_holds(window, task):
    """Panes are merged at the level of their union, also after one has left the window."""
    rng = np.random.default_rng(8)
    size = 12_000
    times = np.sort(rng.integers(10**9, 10**9 + 90, size))
    countries, true = rng.choice(["PT", "SE"], size), rng.integers(0, 3, size)
    proba = rng.dirichlet([0.4] * 3, size)
    kind: dict[str, Any] = {"positive": "a"} if task == "binary" else {"labels": list("abc")}
    kind |= {"task": task, "window": window, "slices": ("country",), "time_unit": "s"}

    def fed(chosen: np.ndarray, ev: se.Evaluator) -> se.Evaluator:
        given = {"score": proba[chosen, 0]} if task == "binary" else {"proba": proba[chosen]}
        labels = np.array(list("abb" if task == "binary" else "abc"))[true[chosen]].tolist()
        where = {"country": countries[chosen].tolist()}
        return ev.update_many(labels, event_time=times[chosen], slices=where, **given)

    name = "roc_auc" if task == "binary" else "roc_auc_ovr"
    live, *shards = (se.Evaluator(**kind, max_scores=1024) for _ in range(4))
    for part in np.array_split(np.arange(size), 13):
        fed(part, live)
        # Keeps the merge of the panes from here on.
        assert all(view[name] >= 0 for view in (live, *live.slices().values()))
    live._check()
    merged = se.merge(fed(np.arange(n, size, 3), shard) for n, shard in enumerate(shards))
    assert merged.to_bytes() == live.to_bytes()
    assert se.from_bytes(live.to_bytes())[name] == live[name] == merged[name]
    exact = fed(np.arange(size), se.Evaluator(**kind))
    bounds = live.bounds(name)
    assert bounds.width > 0
    assert bounds.low <= exact[name] <= bounds.high
    for key, view in live.slices().items():
        assert view.bounds(name).low <= exact.slices()[key][name] <= view.bounds(name).high
    report = live.slice_report(name)
    assert report.total.bounds == bounds
    # A slice of few scores is exact, and has no column.
    assert [row.bounds or se.Bounds(row.value, row.value) for row in report.rows] == [
        live.slices()[row.slice].bounds(name) for row in report.rows
    ]


def test_a_reverted_event_leaves_a_window_as_its_file_has_it():
    ev = se.Evaluator(max_scores=1024, window=se.Panes("20s", pane="10s"), time_unit="s")
    rng = np.random.default_rng(3)
    first, second = rng.random(900), rng.random(900)
    labels = rng.random(900) < 0.5
    for start, scores in ((10**9, first), (10**9 + 10, second)):
        ev.update_many(labels, score=scores, event_time=[start] * 900)
    assert ev.bounds("roc_auc").width > 0
    for label, score in zip(labels.tolist(), second.tolist(), strict=True):
        ev.revert(label, score=score, event_time=10**9 + 10)
    ev._check()
    # Neither pane alone is over the limit.
    assert ev.bounds("roc_auc").width == 0
    assert ev["roc_auc"] == se.from_bytes(ev.to_bytes())["roc_auc"]


def test_a_limit_in_a_file_is_not_trusted(pair: tuple[se.Evaluator, se.Evaluator]):
    state = pair[0].to_state()
    for value, message in (
        ("many", "options.max_scores: expected a number or no such key, got 'many'"),
        (1000, "options: max_scores: expected a number of distinct scores"),
        (4096, "state set.index: expected 4096 max_scores, got 2048"),
    ):
        with pytest.raises(StateError, match=message):
            se.Evaluator.from_state({**state, "options": {**state["options"], "max_scores": value}})
    options = {key: value for key, value in state["options"].items() if key != "max_scores"}
    with pytest.raises(StateError, match="state set: expected the states"):
        se.Evaluator.from_state({**state, "options": options})


def test_a_state_is_24_bytes_a_score_of_the_limit_at_most():
    rng, limit = np.random.default_rng(4096), 4096
    for size in (limit, 3 * limit, 30 * limit):
        ev = se.Evaluator(max_scores=limit)
        ev.update_many(rng.random(size) < 0.5, score=rng.random(size))
        assert 12 * limit < len(ev.to_bytes()) <= 24 * limit + 1500


LIMIT = 1024


def test_the_sums_are_written_where_the_index_is_coarse_and_ignored_where_it_is_not():
    few, many = se.Evaluator(max_scores=LIMIT), se.Evaluator(max_scores=LIMIT)
    for number in range(2000):
        many.update(number % 3 == 0, score=number / 2000)
        if number < 1000:
            few.update(number % 3 == 0, score=number / 2000)
    exact, coarse = few.to_state(), many.to_state()
    assert set(exact["window"]) == {"confusion", "index"}
    assert set(coarse["window"]) == {"confusion", "index", "probability", "moments"}
    # As written by a version that kept them from the start.
    older = {**exact, "window": {**coarse["window"], **exact["window"]}}
    assert se.Evaluator.from_state(older).to_bytes() == few.to_bytes()
    del coarse["window"]["probability"]
    with pytest.raises(StateError, match="expected probability beside coarsened scores"):
        se.Evaluator.from_state(coarse)
