"""Metrics that compiled states compute themselves: same definitions, same bits.

For callers that read a value after every event, where a call of a Python
function would take longer than the event.
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
    """The metric of this name as a function without arguments; None where it is not compiled.

    The function reads the state at the time of the call. Where it returns nan,
    call the metric itself, which returns a reason or a number.

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
