"""Log loss, Brier and reliability of binary events, against scikit-learn and exact fractions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from streameval.errors import InputError, StateError
from streameval.states.moments import ScoreMoments
from streameval.states.probability import ProbabilitySums
from streameval.states.sums.fixed_point import UNIT

EDGES = [0.0, 1.0, 2.0**-52, 2.0**-53, 1 - 2.0**-52, 1 - 2.0**-53, 5e-324, 0.5]
EDGES += np.linspace(0, 1, 11).tolist() + np.nextafter(np.linspace(0, 1, 11)[1:], 0).tolist()


def sums_of(positive: Any, scores: Any, weight: Any = None, bins: int = 10) -> ProbabilitySums:
    sums = ProbabilitySums(bins)
    sums.update_many(positive, scores, weight)
    sums._check()
    return sums


@pytest.mark.parametrize("kind", [ProbabilitySums, ScoreMoments])
def test_one_by_one_and_many_have_the_same_bits(kind: Any) -> None:
    rng = np.random.default_rng(4)
    n = 17_000  # more than one chunk
    large = rng.normal(size=50) * 2.0 ** rng.integers(-1070, 1020, 50)
    scores = np.concatenate([rng.random(n), rng.normal(size=500), rng.choice(EDGES, 500), large])
    positive = rng.random(len(scores)) < 0.4
    big = np.where(rng.random(len(scores)) < 0.01, 2**53, rng.integers(1, 5, len(scores)))
    for weight in (None, big, *[rng.random(len(scores))] * (kind is ScoreMoments)):
        many, single = kind(), kind()
        many.update_many(positive, scores, weight)
        many._check()
        weights = [1] * len(scores) if weight is None else weight.tolist()
        for event in zip(positive.tolist(), scores.tolist(), weights, strict=True):
            single.update(*event)
        assert many == single
        assert many.to_state() == single.to_state()


def test_scores_that_are_no_probabilities_are_counted_apart() -> None:
    sums = ProbabilitySums()
    sums.update(True, 1.5, 2)
    sums.update_many([True, False, True], [-0.1, 0.5, 7], [3, 1, 1])
    assert (sums.outside, sums.weight) == (6, 1)
    assert sums.brier_units == UNIT // 4
    sums.revert(True, 1.5, 2)
    assert sums.outside == 4
    with pytest.raises(InputError, match="event that was counted before"):
        sums.revert(True, 1.5, 5)
    assert sums.outside == 4


def test_a_float_state_is_refused_what_it_would_write_otherwise() -> None:
    data = sums_of([True, False], [0.5, 0.25], [0.5, 1], bins=2).to_state()
    assert ProbabilitySums.from_state(data).to_state() == data
    for value in (-0.0, math.nan, math.inf, 0):
        with pytest.raises(StateError, match=r"probability\.outside: expected a finite"):
            ProbabilitySums.from_state({**data, "outside": value})
