"""What keeps the events of a window of the last n, in their order."""

from __future__ import annotations

import importlib
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from streameval.states.score_index import backend
from streameval.tally import Plan
from streameval.windows.window import EventFields

if TYPE_CHECKING:
    from streameval.native.event_ring import NativeEventRing

__all__ = ["Ring", "compiled_ring", "newest"]

Ring: TypeAlias = "deque[EventFields] | NativeEventRing"
"""Oldest first. The compiled one takes binary events of weight 1."""


def compiled_ring(most: int, plan: Plan) -> NativeEventRing | None:
    """A compiled ring for windows of such tallies; None where only a deque will do.

    That is where nothing was compiled, where there are more than two classes,
    and where the order of the events is itself a state.
    """
    if plan.task != "binary" or plan.ordered or backend() != "native":
        return None
    try:
        compiled = importlib.import_module("streameval.native.event_ring")
    except ImportError:  # each compiled module is left out by itself where it fails
        return None
    ring: NativeEventRing = compiled.NativeEventRing(most)
    return ring


def newest(ring: Ring, event: EventFields) -> int:
    """How far back the newest event equal to this one lies, 1 for the last; 0 for none; O(n).

    >>> newest(deque([(1, 1, 0.5, 1), (0, 1, 0.5, 1)]), (True, True, 0.5, 1))
    2
    """
    if isinstance(ring, deque):
        return next((back for back, other in enumerate(reversed(ring), 1) if other == event), 0)
    return ring.newest(event)
