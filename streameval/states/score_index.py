"""The score index of this process: see :mod:`streameval.states.backend`."""

from __future__ import annotations

import copyreg
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from streameval.states.backend import backend

if TYPE_CHECKING or backend() == "portable":
    from streameval.states.ranking.reference_index import ReferenceScoreIndex as ScoreIndex
else:
    from streameval.states.ranking.compiled_index import NativeScoreIndex as ScoreIndex

__all__ = ["ScoreIndex", "restore_score_index", "without_labels"]


def restore_score_index(state: dict[str, Any]) -> ScoreIndex:
    """The index of a written state, in the implementation in use here; for pickle."""
    return ScoreIndex.from_state(state)


def without_labels(index: ScoreIndex) -> ScoreIndex:
    """An index of the same scores, all of them negatives."""
    form = index.to_state()
    every = form["negatives"] + form["positives"]
    return ScoreIndex.from_state({**form, "negatives": every, "positives": every * 0})


if not TYPE_CHECKING:
    # A pickle of the compiled index is read where only the reference index is, and the reverse.
    copyreg.pickle(ScoreIndex, lambda index: (restore_score_index, (index.to_state(),)))
    # Names of the release before, until the next one.
    for _former, _name in {
        "twice_wins": "twice_u",
        "won_share": "auc",
        "largest_gap": "ks_statistic",
    }.items():
        setattr(ScoreIndex, _former, property(attrgetter(_name)))
