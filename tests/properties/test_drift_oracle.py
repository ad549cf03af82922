"""Measures of drift: against scipy and literal definitions, of shards, and of bounded scores."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial.distance import jensenshannon

from streameval.states.ranking.coarse_score import cell_limits, coarse_column
from streameval.states.score_index import ScoreIndex
from streameval.uncertainty.drift import DRIFTS, chi_squared_tail, drift, kolmogorov_tail
from tests.support.bounded_streams import EDGES, indexes

SIDE = st.lists(
    st.tuples(
        st.sampled_from([-1.5, 0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 40.0]), st.integers(1, 5)
    ),
    min_size=1,
    max_size=40,
)
FAR = [(10.0, 3)], [(20.0, 4), (30.0, 1)]
NAMES = [name for name, row in DRIFTS.items() if row.input == "scores"]


def index_of(side: list[tuple[float, int]]) -> ScoreIndex:
    """Of either class in turn: it makes no difference."""
    index = ScoreIndex()
    for n, (score, weight) in enumerate(side):
        index.update(n % 2 == 0, score, weight)
    return index


def repeated(side: list[tuple[float, int]]) -> np.ndarray:
    return np.repeat([score for score, _ in side], [weight for _, weight in side])


def close(number: float) -> object:
    return pytest.approx(number, rel=1e-12, abs=1e-12)


@given(SIDE, SIDE)
@example(*FAR)
def test_distances_of_scores_are_those_of_scipy(now, reference):
    x, y = repeated(now), repeated(reference)
    sides = index_of(now), index_of(reference)
    found = drift("ks", *sides)
    size = len(x) * len(y) / (len(x) + len(y))
    if size >= 1:
        # scipy rounds this size, and takes the law of one sample of so many events.
        assert found.value == close(stats.ks_2samp(x, y, method="asymp").statistic)
    assert found.p_value == close(stats.kstwobign.sf(math.sqrt(size) * found.value))
    assert drift("wasserstein", *sides).value == close(stats.wasserstein_distance(x, y))
    binned = drift("psi", *sides)
    if not binned.reason:
        # Evidently's formula on the same edges, a share of less than half an event raised to it.
        p, r = (
            np.maximum(np.histogram(side, [-math.inf, *binned.edges, math.inf])[0], 0.5) / len(side)
            for side in (x, y)
        )
        assert binned.value == close(float(np.sum((r - p) * np.log(r / p))))
        distance = drift("jensen_shannon", *sides)
        assert distance.value == pytest.approx(jensenshannon(p, r), abs=1e-7)
        assert distance.value**2 == close(jensenshannon(p, r) ** 2)
        assert distance.edges == binned.edges
        scale = size * binned.value
        assert binned.p_value == close(stats.chi2.sf(scale, len(binned.edges)))


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50)).filter(any), min_size=2, max_size=8
    ).filter(lambda rows: all(map(sum, zip(*rows, strict=True))))
)
def test_distances_of_labels_are_those_of_scipy(rows: list[tuple[int, int]]) -> None:
    now, reference = ({n: row[k] for n, row in enumerate(rows) if row[k]} for k in (0, 1))
    expected = stats.chi2_contingency(np.array(rows).T, correction=False)
    found = drift("chi_squared", now, reference)
    assert (found.value, found.p_value) == (close(expected.statistic), close(expected.pvalue))
    cramer = drift("cramers_v", now, reference)
    assert cramer.value == close(stats.contingency.association(np.array(rows).T, "cramer"))
    assert cramer.p_value == found.p_value
    # The confidence sequence is around the value, and without 0 where its p-value is small.
    for name in ("chi_squared", "cramers_v"):
        looked = drift(name, now, reference, method="anytime")
        assert looked.low <= looked.value <= looked.high
        assert (looked.low > 0) == (looked.p_value < 0.05)
        assert looked.p_value >= found.p_value


@given(st.floats(1e-9, 1e6), st.sampled_from([1, 2, 3, 9, 100, 12_345]))
@example(1e-300, 1)
@example(9.0, 9)
def test_the_tails_are_those_of_scipy(x: float, freedom: int) -> None:
    expected = stats.chi2.sf(x, freedom)
    assert chi_squared_tail(x, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-13)
    assert kolmogorov_tail(x) == close(stats.kstwobign.sf(math.sqrt(x)))


@given(st.lists(SIDE, min_size=1, max_size=4), SIDE)
@example([[(0.25, 1)] * 12, [(0.75, 2)] * 11], [(0.1, 1), (0.5, 1), (0.9, 2)])
def test_shards_have_the_drift_of_the_whole_to_the_bit(parts, reference):
    merged, other = ScoreIndex(), index_of(reference)
    for part in parts:
        merged.merge(index_of(part))
    whole = index_of([event for part in reversed(parts) for event in part])
    for name in NAMES:
        for method in DRIFTS[name].methods:
            sides = [(merged, other), (whole, other), (other, merged), (other, whole)]
            found = [str(drift(name, *pair, method=method)._asdict()) for pair in sides]
            assert found[0] == found[1]
            assert found[2] == found[3]


@given(st.integers(0, 10**12))
def test_the_bounds_contain_the_drift_of_all_scores(seed: int) -> None:
    rng = random.Random(seed)
    exact, bounded = indexes(rng)
    other, cells = indexes(rng)
    for reference in (other, cells):
        for name in ("ks", "wasserstein"):
            found, back = drift(name, bounded, reference), drift(name, reference, bounded)
            truth = drift(name, exact, other)
            if bounded.level and not math.isnan(truth.value):
                assert found.method == "bounds"
                for one in (found, back):
                    assert one.low <= truth.value <= one.high, name
                    assert one.low <= one.value <= one.high, name


@given(
    st.lists(st.one_of(st.sampled_from(EDGES), st.floats(-1e9, 1e9)), min_size=1),
    st.integers(1, 55),
)
def test_a_cell_ends_where_the_next_one_begins(scores: list[float], level: int) -> None:
    cells = np.unique(coarse_column(np.unique(np.array(scores) + 0.0), level))
    limits = cell_limits(cells, level)
    for cell, limit in zip(cells.tolist(), limits.tolist(), strict=True):
        if limit != cell:
            inside = np.array([math.nextafter(limit, -math.inf), limit])
            found = coarse_column(inside + 0.0, level).tolist()
            assert found[0] == cell
            assert found[1] != cell or limit == np.finfo(float).max
        else:
            assert coarse_column(np.array([math.nextafter(cell, math.inf)]), level)[0] != cell
