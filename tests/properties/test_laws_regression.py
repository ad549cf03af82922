"""The laws of all states, for the sums and the index of predicted numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from streameval.events.values import weight_column
from streameval.states.error_moments import ErrorMoments
from streameval.states.error_ratios import RatioSquares, RatioSums
from streameval.states.error_residuals import ResidualIndex
from streameval.states.error_sums import ErrorSums
from streameval.states.prediction_histogram import PredictionHistogram
from tests.support.laws import LAWS, StateSpec, check_law, columns

WEIGHTS = st.one_of(st.just(1), st.integers(1, 4), st.integers(1, 2**53))
FLOAT_WEIGHTS = st.one_of(st.sampled_from([0.5, 1.5, 2.0]), st.floats(1e-300, 2.0**53))
FEW = st.sampled_from([0.0, 1.0, -1.0, 0.1, -0.3, 1e16, 5e-324, -2.5, 8.9e307, -8.9e307])
# No two are further from each other than the largest float.
NUMBERS = st.one_of(FEW, st.floats(-3.0, 3.0), st.floats(-8.9e307, 8.9e307)).map(lambda x: x + 0.0)


def feed(state: Any, events: list[Any]) -> None:
    true, predicted, weights = columns(events, 3)
    by = weight_column(weights, len(true)) if set(weights) != {1} else None
    state.update_many(np.array(true, dtype=float), np.array(predicted, dtype=float), by)


def one(state: Any, event: Any) -> None:
    true, predicted, weight = event
    whole = type(weight) is float and weight.is_integer()
    state.update(true, predicted, int(weight) if whole else weight)


class FewCells(PredictionHistogram):
    """With so few cells that they are joined all the time."""

    __slots__ = ()
    KEYS = PredictionHistogram.KEYS
    MOST = 16


KINDS: dict[str, Callable[[], Any]] = {
    "errors": ErrorSums,
    "ratios": RatioSums,
    "ratio-squares": RatioSquares,
    "moments": ErrorMoments,
    "residuals": ResidualIndex,
    "histogram": PredictionHistogram,
    "few-cells": FewCells,
}
SPECS = [
    StateSpec(
        name=name,
        empty=kind,
        events=st.tuples(NUMBERS, NUMBERS, WEIGHTS),
        update=one,
        update_many=feed,
        # The side of a histogram's squares does not fall.
        revert=None if name == "few-cells" else lambda state, event: state.revert(*event),
        read=lambda state: (state.weight, state.exact),
    )
    for name, kind in KINDS.items()
] + [
    # Sums of float weights are exact as well, and compared to the bit; they are not reverted.
    StateSpec(
        name=f"{name}-floats",
        empty=kind,
        events=st.tuples(NUMBERS, NUMBERS, FLOAT_WEIGHTS),
        update=one,
        update_many=feed,
        read=lambda state: (state.weight, state.exact),
    )
    for name, kind in KINDS.items()
    if name not in ("residuals", "histogram", "few-cells")
]
CASES = [(s, law) for s in SPECS for law in LAWS if law != "revert" or s.revert is not None]


@pytest.mark.parametrize(("spec", "law"), CASES, ids=lambda value: getattr(value, "name", value))
def test_laws(spec: StateSpec, law: str) -> None:
    if law == "hostile":
        # The tester damages integers as floats: they must not be beyond these.
        small = st.floats(-8, 8, width=16).map(lambda x: x + 0.0)
        spec = replace(spec, events=st.tuples(small, small, st.integers(1, 4)))
    check_law(spec, law, max_examples=20)
