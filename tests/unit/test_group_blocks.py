"""Groups read in blocks equal groups(), in both directions and with any block size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.metrics.cut_points import fbeta_cut
from streameval.metrics.thresholds import threshold_blocks, threshold_counts
from streameval.states.moments import ScoreMoments
from streameval.states.probability import ProbabilitySums
from streameval.states.ranking import score_groups
from streameval.states.ranking.reference_index import ReferenceScoreIndex

KINDS: list[Any] = [ReferenceScoreIndex, se.ScoreIndex]
NAMES = ["portable", "in use"]
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


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
@pytest.mark.parametrize(("weight", "most"), [("none", 1), ("whole", 700), ("float", 1 << 16)])
def test_blocks_of_many_leaves(
    kind: Any, weight: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_what_is_summed_does_not_depend_on_the_cut(
    weight: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
@given(EVENTS, st.sampled_from([0, 0.5, 1, 2]), st.sampled_from([[1], [1, 2, 3], [0.5]]))
def test_the_highest_f_beta_of_blocks_is_that_of_all_groups(
    kind: Any, events: list[tuple[bool, float]], beta: float, weights: list[float]
) -> None:
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
