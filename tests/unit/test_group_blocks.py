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


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_into(monkeypatch, 3)


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


def check(index: Any, most: int) -> None:
    groups = index.groups()
    for descending in (False, True):
        blocks = list(index.group_blocks(descending=descending))
        assert all(0 < len(block.scores) <= most for block in blocks)
        if descending:
            blocks.reverse()
        for place, column in enumerate(groups):
            parts = [block[place] for block in blocks]
            joined = np.concatenate(parts) if parts else column[:0]
            assert joined.dtype == column.dtype
            assert joined.tobytes() == column.tobytes()
            assert not any(part.flags.writeable for part in parts)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
@pytest.mark.parametrize(("weight", "most"), [("none", 1), ("whole", 700), ("float", 1 << 16)])
def test_blocks_of_many_leaves(
    kind: Any, weight: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_into(monkeypatch, most)
    check(filled(kind, 2_000 if most == 1 else 10_000, weight), 2 * most)


@pytest.mark.parametrize("weight", ["none", "whole", "float"])
def test_what_is_summed_does_not_depend_on_the_cut(
    weight: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled(se.ScoreIndex, 5_000, weight)
    whole = se.metrics.average_precision(index)
    moments = ScoreMoments.from_blocks((index.groups(),))
    losses = ProbabilitySums.from_blocks((index.groups(),))
    cut_into(monkeypatch, 90)
    assert len(list(index.group_blocks())) > 20
    assert se.metrics.average_precision(index).hex() == whole.hex()
    assert ScoreMoments.from_blocks(index.group_blocks()) == moments
    again = ProbabilitySums.from_blocks(index.group_blocks())
    if weight == "float":
        assert again.log_loss_units == pytest.approx(losses.log_loss_units, rel=1e-12)
    else:
        assert again == losses


@pytest.mark.usefixtures("small_blocks")
def test_an_index_that_changes_meanwhile_is_read_on() -> None:
    index = filled(se.ScoreIndex, 40)
    before = index.groups().scores.tolist()
    blocks = index.group_blocks()
    seen = next(blocks).scores.tolist()
    index.revert(bool(index.groups().positives[0]), seen[0])
    seen += [score for block in blocks for score in block.scores.tolist()]
    assert seen == before


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
@pytest.mark.parametrize("weight", ["none", "whole", "fraction"])
@given(EVENTS, st.sampled_from([0, 0.5, 1, 2]))
def test_the_highest_f_beta_of_blocks_is_that_of_all_groups(
    kind: Any, weight: str, events: list[tuple[bool, float]], beta: float
) -> None:
    index = kind()
    for number, (positive, score) in enumerate(events):
        index.update(positive, score, {"none": 1, "whole": 1 + number % 3}.get(weight, 0.5))
    whole = threshold_counts(index.groups())
    blocks = list(threshold_blocks(index))
    for name in ("threshold", "tp", "fp") if events else ():
        joined = np.concatenate([getattr(block, name) for block in blocks])
        assert np.array_equal(joined, getattr(whole, name)), name
    cut = fbeta_cut(index, beta)
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
