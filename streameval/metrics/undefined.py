"""Undefined values: ``nan`` with a reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Self

from streameval.errors import shown
from streameval.events.values import Label, Weight

__all__ = ["NO_EVENTS", "Undefined", "ratio", "reason_of", "undefined_value"]


class Undefined(float):
    """``nan`` with a reason in words.

    It is a float in every other respect: it compares, adds and prints as ``nan`` does, and survives
    copying and pickling. `reason` is a clause without a full stop, with one ``{}`` for each of the
    classes that it names, `labels`.

    >>> value = Undefined("no event was predicted {}", "cat")
    >>> value, value == value, value.reason
    (nan, False, "no event was predicted 'cat'")
    """

    __slots__ = ("_text", "labels")
    _text: str
    labels: tuple[Label, ...]

    def __new__(cls, reason: str, *labels: Label) -> Self:
        value = super().__new__(cls, math.nan)
        value._text = reason
        value.labels = labels
        return value

    @property
    def reason(self) -> str:
        """Why there is no value, in words."""
        return self._text.format(*map(shown, self.labels)) if self.labels else self._text

    def renamed(self, names: Mapping[Label, Label]) -> Undefined:
        """The same with other class names, for callers that count under substitute labels."""
        return Undefined(self._text, *(names.get(label, label) for label in self.labels))

    def __reduce__(self) -> tuple[type[Undefined], tuple[Label, ...]]:
        # float's pickling would restore the number without the reason.
        return Undefined, (self._text, *self.labels)


NO_EVENTS = "no event has been counted yet"
"""The reason of every metric before the first event."""


def undefined_value(reason: str, undefined: float | None = None, *labels: Label) -> float:
    """The caller's number, or with None or ``nan`` an :class:`Undefined` of this reason."""
    # nan is the one number that is not equal to itself.
    if undefined is None or undefined != undefined:
        return Undefined(reason, *labels)
    return float(undefined)


def ratio(
    numerator: Weight,
    denominator: Weight,
    reason: str,
    undefined: float | None = None,
    *labels: Label,
) -> float:
    """``numerator / denominator`` in one division, or undefined when the latter is 0."""
    if denominator:
        return numerator / denominator
    return undefined_value(reason, undefined, *labels)


def json_number(value: float) -> float | None:
    """A value as JSON has it: null where it is not finite."""
    return value if math.isfinite(value) else None


def reason_of(value: float) -> str:
    """Why `value` is undefined, or ``""`` where it is a number.

    >>> reason_of(0.5), reason_of(Undefined(NO_EVENTS))
    ('', 'no event has been counted yet')
    """
    if isinstance(value, Undefined):
        return value.reason
    return "" if value == value else "the value is not a number"
