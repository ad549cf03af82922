"""The names that compiled modules import from here."""

from streameval.states.ranking.sorted_runs import MAX_TOTAL, check_total

__all__ = ["MAX_TOTAL", "check_total"]
