"""Metrics that compiled states answer by themselves.

Same definitions, same bits; for who reads a number after every event, where
the way to a function of Python and back would take longer than the event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from streameval.states.confusion import ConfusionCounts
from streameval.states.score_index import ScoreIndex

__all__ = ["compiled_reader"]

# Name of the metric to name of the method, by state.
_OF_SUMS: Mapping[str, str] = {
    "accuracy": "accuracy",
    "balanced_accuracy": "recall_macro",
    "cohen_kappa": "cohen_kappa",
    "f1_macro": "f1_macro",
    "matthews_corrcoef": "matthews_corrcoef",
    "precision_macro": "precision_macro",
    "recall_macro": "recall_macro",
}
_OF_INDEX: Mapping[str, str] = {"roc_auc": "roc_auc"}


def compiled_reader(name: str, state: ConfusionCounts | ScoreIndex) -> Callable[[], float] | None:
    """The metric of this name as a function of nothing, or None where there is none.

    It reads the state as it then is. Where it returns nan, the metric itself
    has to be asked: it may know a reason, or a number.

    Args:
        name: As the registry has it, without parameters and with no number
            in place of undefined values.
        state: The events.

    >>> compiled_reader("kappa_m", ConfusionCounts()) is None
    True
    """
    source: Any
    if isinstance(state, ConfusionCounts):
        method, source = _OF_SUMS.get(name), state.sums
    else:
        method, source = _OF_INDEX.get(name), state
    # The portable ones have no such methods.
    return None if method is None else getattr(source, method, None)
