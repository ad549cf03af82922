"""Which events can be removed from a state, and the errors where they cannot."""

from __future__ import annotations

from streameval.errors import InputError, shown
from streameval.events import Weight, canonical_weight

__all__ = ["never_came", "removable_weight"]


def removable_weight(weight: Weight, exact: bool) -> int:
    """The weight of an event to remove, where that can be done exactly.

    Args:
        weight: As the event was counted.
        exact: Whether the state holds integers only.

    Raises:
        InputError: The weight, or one already counted, is not whole.

    >>> removable_weight(2.0, True)
    2
    """
    whole = weight if type(weight) is int and weight == 1 else canonical_weight(weight)
    if not exact or not isinstance(whole, int):
        raise InputError(
            "weight",
            expected="whole weights only, in this event and in all counted before",
            got="weights that are not whole" if not exact else shown(whole),
            remedy="float sums cannot be undone exactly: count the remaining events anew",
        )
    return whole


def never_came(field: str, value: object) -> InputError:
    """The error for an event that the state cannot have counted."""
    return InputError(
        field,
        expected="an event that was counted before",
        got=f"{shown(value)}, of which not enough was",
        remedy="revert takes the event with the very values that update was given",
    )
