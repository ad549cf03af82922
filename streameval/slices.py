"""Which slices an event belongs to: one for each key, or combination of keys.

Values come from the stream, and a hostile one has a new value in every
record: past ``max_slices`` the rest goes into one slice called ``(other)``
for each dimension, and how many events that were is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events import (
    IntArray,
    Label,
    canonical_label,
    check_same_length,
    label_column,
)

__all__ = ["OTHER", "SliceKey", "Slicer", "slice_name", "slice_order"]

OTHER = "(other)"
"""The value of the slice that takes what comes after ``max_slices``."""

SliceKey: TypeAlias = tuple[tuple[str, Label], ...]
"""Pairs of key and value, in the order of the dimension: ``(("country", "PT"),)``."""


def slice_name(key: SliceKey) -> str:
    """A slice as people write it; the total is ``"total"``.

    >>> slice_name((("country", "PT"), ("model", 7)))
    'country=PT, model=7'
    """
    return ", ".join(f"{name}={value}" for name, value in key) or "total"


def slice_order(key: SliceKey) -> tuple[Any, ...]:
    """A sort key: by dimension, then by value; numbers before text, ``(other)`` last."""
    return (
        tuple(name for name, _ in key),
        tuple(
            (
                value == OTHER,
                isinstance(value, str),
                0 if isinstance(value, str) else value,
                value if isinstance(value, str) else "",
            )
            for _, value in key
        ),
    )


class Slicer:
    """Turns an event's ``slices=`` into the keys of the slices that it belongs to.

    Args:
        dimensions: Names, or tuples of names for combinations:
            ``("country", ("country", "model"))``.
        max_slices: Most slices that are opened, ``(other)`` not counted.

    >>> slicer = Slicer(("country", ("country", "model")), 10)
    >>> list(map(slice_name, slicer.keys({"country": "PT", "model": 7})))
    ['country=PT', 'country=PT, model=7']
    """

    __slots__ = ("dimensions", "max_slices", "names", "overflowed")

    def __init__(self, dimensions: Iterable[str | Iterable[str]], max_slices: int) -> None:
        expected = "names, or tuples of names for combinations"
        if isinstance(dimensions, str):
            dimensions = (dimensions,)
        parsed: list[tuple[str, ...]] = []
        for dimension in dimensions:
            names = (dimension,) if isinstance(dimension, str) else tuple(dimension)
            if not names or not all(isinstance(name, str) and name for name in names):
                raise InputError("slices", expected=expected, got=shown(dimension))
            if len(set(names)) != len(names) or names in parsed:
                raise InputError("slices", expected="each name once", got=shown(dimension))
            parsed.append(names)
        if type(max_slices) is not int or not 1 <= max_slices <= 10_000_000:
            raise InputError(
                "max_slices", expected="a number from 1 to 10000000", got=shown(max_slices)
            )
        self.dimensions = tuple(parsed)
        self.names = tuple(dict.fromkeys(name for names in parsed for name in names))
        self.max_slices = max_slices
        self.overflowed = 0
        """Assignments of events to an ``(other)`` slice."""

    def _values(self, slices: object, position: int | None = None) -> dict[str, Label]:
        if not isinstance(slices, Mapping) or not all(name in slices for name in self.names):
            raise InputError(
                "slices",
                expected=f"a mapping with {', '.join(map(repr, self.names))}",
                got=shown(slices),
                position=position,
            )
        return {
            name: canonical_label(slices[name], f"slices[{name!r}]", position)
            for name in self.names
        }

    def keys(self, slices: object) -> list[SliceKey]:
        """The event's slices, unknown ones included; raises InputError."""
        values = self._values(slices)
        return [tuple((name, values[name]) for name in names) for names in self.dimensions]

    def admit(self, key: SliceKey, known: Mapping[SliceKey, object], count: int = 1) -> SliceKey:
        """The slice that takes ``count`` events of this key: itself, or ``(other)``."""
        if key in known:
            return key
        if len(known) - self._others(known) < self.max_slices and not _is_other(key):
            return key
        self.overflowed += count
        return tuple((name, OTHER) for name, _ in key)

    def located(self, key: SliceKey, known: Mapping[SliceKey, object]) -> SliceKey:
        """Where an earlier event of this key was counted."""
        return key if key in known else tuple((name, OTHER) for name, _ in key)

    def _others(self, known: Mapping[SliceKey, object]) -> int:
        return sum(tuple((name, OTHER) for name in names) in known for names in self.dimensions)

    def groups(self, slices: object, length: int) -> Iterator[tuple[SliceKey, IntArray]]:
        """For columns: each slice's key and its rows, in the order of first appearance."""
        if not isinstance(slices, Mapping) or not all(name in slices for name in self.names):
            self._values(slices)
        assert isinstance(slices, Mapping)
        columns = {name: label_column(slices[name], f"slices[{name!r}]") for name in self.names}
        for name, column in columns.items():
            check_same_length(length, len(column.codes), f"slices[{name!r}]")
        for names in self.dimensions:
            codes = np.zeros(length, dtype=np.int64)
            for name in names:
                column = columns[name]
                # Compacted after each name, so that no product of sizes overflows.
                codes = codes * len(column.labels) + column.codes
                codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
            order = np.argsort(codes, kind="stable")
            borders = np.flatnonzero(np.diff(codes[order])) + 1
            groups = [rows for rows in np.split(order, borders) if len(rows)]
            for rows in sorted(groups, key=lambda rows: int(rows[0])):
                first = int(rows[0])
                yield (
                    tuple(
                        (name, columns[name].labels[int(columns[name].codes[first])])
                        for name in names
                    ),
                    rows,
                )

    def key_from_state(self, pairs: object) -> SliceKey:
        """A key out of a saved state; raises StateError."""
        if isinstance(pairs, list):
            key = tuple(tuple(pair) if isinstance(pair, list) else pair for pair in pairs)
            names = tuple(pair[0] for pair in key if isinstance(pair, tuple) and len(pair) == 2)
            if (
                len(names) == len(key)
                and names in self.dimensions
                and all(type(value) in (str, int) for _, value in key)
            ):
                return key
        raise StateError(f"slices: expected a slice of {self.dimensions}, got {shown(pairs)}")


def _is_other(key: SliceKey) -> bool:
    return all(value == OTHER for _, value in key)
