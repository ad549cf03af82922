"""The base of sums over the events of several models, as many as the first event has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streameval.errors import StateError
from streameval.states.fields import Fields
from streameval.states.sums.sum_vector import Form, Parts, SumVector
from streameval.tasks.comparison import MAX_MODELS


class JointSums(SumVector):
    """Sums whose number follows from that of the models, which is 0 without an event."""

    __slots__ = ()
    SIZE = ("models", 0, MAX_MODELS)
    VALIDATED = True

    @property
    def models(self) -> int:
        """Number of models; 0 without an event."""
        return self._size

    def _add_sums(self, models: int, sums: Sequence[Any]) -> None:
        """Add one number for each sum of so many models."""
        if not self.models:
            self._start(models)
        self._values = [total + more for total, more in zip(self._values, sums, strict=True)]
        self._end()

    def _end(self) -> None:
        """Forget the number of models with the last event."""
        if not any(self._values):
            self._start(0)

    def _start(self, size: int) -> None:
        super()._start(size)
        if not self._exact and self._layout.plain:
            self._values = [0.0] * len(self._values)

    def _check_merge(self, other: Any) -> None:
        if isinstance(other, type(self)) and other.models != self.models:
            if other.models and self.models:
                what = self.NAME.removeprefix("joint_")
                raise StateError(
                    f"merge: expected {what} of {self.models} models, got {other.models}"
                )
            return
        super()._check_merge(other)

    def _merge(self, other: Any, times: int) -> None:
        if other.models:
            self._add_sums(other.models, [times * total for total in other._values])

    def _read(self, fields: Fields) -> None:
        super()._read(fields)
        if bool(self.models) != bool(self.weight) or self.models == 1:
            fields.refuse("models", "a number of models where there are events", self.models)

    @classmethod
    def scaled(cls, parts: Parts, unit: int) -> Form:
        """Written form of Σ factor · sums / unit over written forms, as floats."""
        return super().scaled([part for part in parts if part[0]["models"]] or parts, unit)

    def _check(self) -> None:
        super()._check()
        assert bool(self.weight) == bool(self.models)
