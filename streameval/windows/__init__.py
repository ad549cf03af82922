"""Which events count: a specification of what to remember, for any metric.

Every window keeps state sets of mergeable states, so every metric works with
every window.
"""

from __future__ import annotations

from streameval.windows.cumulative import Cumulative
from streameval.windows.fading import Fading
from streameval.windows.kinds import window_note, window_spec
from streameval.windows.last import Last
from streameval.windows.panes import Panes
from streameval.windows.replicated import Bootstrap

__all__ = ["Bootstrap", "Cumulative", "Fading", "Last", "Panes", "window_note", "window_spec"]
