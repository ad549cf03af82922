"""The output of a join: events to count, in columns by partition, and events to revert."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from streameval.records.event_columns import Column

Joined: TypeAlias = tuple[Any, int, Sequence[Any]]
"""A label, the prediction's time and its payload."""


class Outcome(NamedTuple):
    """Events to count and to revert.

    Events have the columns of records: ``y_true``, ``score``, ``time``,
    ``slice:KEY`` and so on.
    """

    counted: dict[str, dict[str, Column]]
    """Columns, by the prediction's partition."""
    reverted: list[tuple[str, dict[str, Any]]]
    """Single events that were counted now or earlier."""


class JoinedEvents:
    """The events since the last :meth:`take`.

    Args:
        layout: The payload's columns.
    """

    def __init__(self, layout: Sequence[str]) -> None:
        self._layout = tuple(layout)
        self._counted: dict[int, tuple[list[Any], list[int], list[Sequence[Any]]]] = {}
        self._reverted: list[tuple[int, Joined]] = []

    def add(
        self,
        number: int,
        labels: Iterable[Any],
        times: Iterable[int],
        payloads: Iterable[Sequence[Any]],
    ) -> None:
        """Add events of a partition to count."""
        events = self._counted.get(number)
        if events is None:
            events = self._counted[number] = ([], [], [])
        events[0].extend(labels)
        events[1].extend(times)
        events[2].extend(payloads)

    def revert(self, number: int, event: Joined) -> None:
        """Add an event of a partition to revert."""
        self._reverted.append((number, event))

    def take(self, names: Mapping[int, str]) -> Outcome:
        """Return and remove all of them, by the partitions' names."""
        outcome = Outcome(
            {names[number]: self._columns(*events) for number, events in self._counted.items()},
            [(names[number], self._event(*event)) for number, event in self._reverted],
        )
        self._counted = {}
        self._reverted = []
        return outcome

    def _columns(
        self, labels: list[Any], times: list[int], payloads: list[Sequence[Any]]
    ) -> dict[str, Column]:
        columns: dict[str, Column] = {"y_true": labels, "time": np.array(times, dtype=np.int64)}
        # Payloads from before a column was added are shorter: columns are added at the end.
        for name, values in zip(self._layout, zip_longest(*payloads), strict=False):
            if type(values[0]) is float and None not in values:
                columns[name] = np.array(values)
            # An absent column is None in all rows; so may be the value of a slice.
            elif name.startswith("slice:") or any(value is not None for value in values):
                columns[name] = list(values)
        return columns

    def _event(self, label: Any, time: int, payload: Sequence[Any]) -> dict[str, Any]:
        values = zip(self._layout, payload, strict=False)
        return {
            "y_true": label,
            "time": time,
            **{
                name: value
                for name, value in values
                if value is not None or name.startswith("slice:")
            },
        }
