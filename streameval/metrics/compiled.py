"""Metrics that the compiled sums of a confusion answer by themselves.

Same definitions, same bits; for who reads a number after every event, where
the way to a function of Python and back would take longer than the event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streameval.states.confusion import ConfusionCounts

__all__ = ["compiled_reader"]

_METHODS: Mapping[str, str] = {
    "accuracy": "accuracy",
    "balanced_accuracy": "recall_macro",
    "cohen_kappa": "cohen_kappa",
    "f1_macro": "f1_macro",
    "matthews_corrcoef": "matthews_corrcoef",
    "precision_macro": "precision_macro",
    "recall_macro": "recall_macro",
}


def compiled_reader(name: str, counts: ConfusionCounts) -> Callable[[], float] | None:
    """The metric of this name as a function of nothing, or None where there is none.

    It reads the counts as they then are. Where it returns nan, the metric
    itself has to be asked: it may know a reason, or a number.

    Args:
        name: As the registry has it, without parameters and with no number
            in place of undefined values.
        counts: The events.

    >>> compiled_reader("kappa_m", ConfusionCounts()) is None
    True
    """
    method = _METHODS.get(name)
    return None if method is None else getattr(counts.sums, method, None)
