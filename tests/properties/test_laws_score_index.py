"""The laws of every state, kept by both score indices."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import strategies as st

import streameval.states.score_index  # what is in use can be pickled
from streameval.states.ranking.reference_index import ReferenceScoreIndex
from tests.support.laws import StateSpec, check_law, columns, law_cases

KINDS = {"portable": ReferenceScoreIndex}
with contextlib.suppress(ImportError):  # where none was compiled
    from streameval.states.ranking.compiled_index import NativeScoreIndex

    KINDS["native"] = NativeScoreIndex

HALF = 0.5
# Few enough to tie often; neighbours in the last bit, subnormals and both ends.
SCORES = [
    0.0, -0.0, 5e-324, -5e-324, 1e308, -1e308, 0.1, -7.25, 3.0,
    HALF, math.nextafter(HALF, 1.0), math.nextafter(HALF, 0.0), math.nextafter(HALF, 0.0) / 2,
]  # fmt: skip
scores = st.one_of(
    st.sampled_from(SCORES), st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1)
)


def spec(kind: str, name: str, weights: st.SearchStrategy[float], **more: object) -> StateSpec:
    return StateSpec(
        name=f"{kind}, {name}",
        empty=KINDS[kind],
        events=st.tuples(st.booleans(), scores, weights),
        update_many=lambda state, events: state.update_many(*columns(events, 3)),
        read=lambda state: [
            state.twice_u,
            state.positives,
            state.negatives,
            state.distinct,
            state.delong_sums(),
        ],
        # An index that is not in use is not pickled.
        pickled=kind == "portable" or streameval.backend() == "native",
        **more,
    )


SPECS = [
    made
    for kind in KINDS
    for made in (
        spec(kind, "unit weights", st.just(1)),
        # Of one, two, four and eight bytes, as the compiled index keeps them.
        spec(kind, "whole weights", st.sampled_from([1, 2, 3, 5, 300, 70_000, 2**40, 2**53])),
        # Weights that add without rounding, so that every order gives the same bits.
        spec(
            kind,
            "fractions",
            st.sampled_from([1, 0.5, 1.5, 2]),
            excused={"revert": "float sums cannot be undone exactly"},
        ),
    )
]


@pytest.mark.parametrize(("spec", "law"), law_cases(SPECS))
def test_laws(spec, law):
    check_law(spec, law, max_examples=20)
