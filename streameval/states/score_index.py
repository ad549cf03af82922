"""The score index of this process: see :mod:`streameval.states.backend`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streameval.states.backend import compiled
from streameval.states.ranking.portable_index import PortableScoreIndex

__all__ = ["ScoreIndex", "restore_score_index"]

_NATIVE = compiled("streameval.states.native.native_index")

if TYPE_CHECKING:
    from streameval.states.ranking.portable_index import PortableScoreIndex as ScoreIndex
else:
    ScoreIndex = PortableScoreIndex if _NATIVE is None else _NATIVE.NativeScoreIndex


def restore_score_index(state: dict[str, Any]) -> ScoreIndex:
    """The index of a written state, in the implementation in use here; for pickle.

    >>> restore_score_index(ScoreIndex([(True, 0.5)]).to_state()).positives
    1
    """
    return ScoreIndex.from_state(state)
