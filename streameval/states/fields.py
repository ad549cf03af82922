"""What states check alike: removed events, merged states and written forms."""

from __future__ import annotations

import math
from collections.abc import Set
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError, StateError, shown
from streameval.events.values import Label, Weight, canonical_weight

# Which events can be removed from a state, and the errors where they cannot.


def removable_weight(weight: Weight, exact: bool) -> int:
    """The whole weight of an event to remove; raises InputError where some weight is a fraction."""
    whole = weight if type(weight) is int and weight == 1 else canonical_weight(weight)
    if not exact or not isinstance(whole, int):
        raise InputError(
            "weight",
            expected="whole weights only, in this event and in all counted before",
            got="weights that are not whole" if not exact else shown(whole),
            remedy="float sums cannot be undone exactly: count the remaining events anew",
        )
    return whole


def never_counted(field: str, value: object) -> InputError:
    """The error for an event that the state cannot have counted."""
    return InputError(
        field,
        expected="an event that was counted before",
        got=f"{shown(value)}, of which not enough was",
        remedy="revert takes the event with the very values that update was given",
    )


def check_mergeable(state: Any, other: object, *settings: str) -> None:
    """Raise StateError where the other is of another class, or has another value of a setting."""
    name = type(state).__name__
    if not isinstance(other, type(state)):
        raise StateError(f"merge: expected {name}, got {shown(other)}")
    for setting in settings:
        mine, theirs = getattr(state, setting), getattr(other, setting)
        if mine != theirs:
            raise StateError(f"merge: expected {name} with {setting}={mine}, got {theirs}")


MOST_WEIGHT = 2**127
"""Largest total weight that a written state may claim: no stream is that long,
and sums of that size still have a float."""

PROBABILITIES_KEY = frozenset({"probabilities"})
"""Written where scores are no probabilities only, as False: other files are as before."""

_INT64_MAX = 2**63 - 1


def cell_weights(weights: list[Weight], *, exact: bool) -> Any:
    """Weights above 0 as written: int64 or float64, or a list of int where one passes int64."""
    if exact and max(weights, default=0) > _INT64_MAX:
        return weights
    return np.array(weights, dtype=np.int64 if exact else np.float64)


def same_forms(mine: Any, theirs: Any) -> bool:
    """Whether two written forms are equal, and the parts of them of the same types."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(
            same_forms(value, theirs[key]) for key, value in mine.items()
        )
    if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
        return np.array_equal(mine, theirs)
    if type(mine) is not type(theirs):
        return False
    if type(mine) is list and dict in map(type, mine):
        return len(mine) == len(theirs) and all(map(same_forms, mine, theirs))
    return bool(mine == theirs)


def falls(column: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a value is not above the one before it."""
    return np.append(False, column[1:] <= column[:-1])[: len(column)]


class Fields(dict[str, Any]):
    """The written form of a state, which may be damaged or made to do harm.

    Each method returns the value of one key, if it is exactly of the type that ``to_state``
    writes; a list or an array is a copy. It raises StateError else.

    >>> Fields({"bins": 1}, "state", {"bins", "exact"})
    Traceback (most recent call last):
    streameval.errors.StateError: state: expected the keys bins, exact, got bins
    """

    __slots__ = ("exact", "name")

    def __init__(self, data: object, name: str, keys: Set[str], *optional: Set[str]) -> None:
        """With these keys, and all or none of each further set."""
        if not isinstance(data, dict):
            raise StateError(f"{name}: expected a dictionary, got {type(data).__name__}")
        wanted = set(keys).union(*(more for more in optional if not more.isdisjoint(data)))
        if data.keys() != wanted:
            found = ", ".join(sorted(shown(key).strip("'") for key in list(data)[:20])) or "none"
            raise StateError(f"{name}: expected the keys {', '.join(sorted(wanted))}, got {found}")
        super().__init__(data)
        self.name = name
        self.exact = "exact" not in data or self.flag("exact")

    def refuse(self, field: str, expected: str, got: object) -> NoReturn:
        """Raise the StateError of one field."""
        raise StateError(f"{self.name}.{field}: expected {expected}, got {shown(got)}")

    def refuse_at(
        self, bad: npt.NDArray[np.bool_], field: str, expected: str, got: npt.NDArray[Any]
    ) -> None:
        """Raise the StateError of the first bad value of an array, if there is any."""
        if bad.any():
            at = int(np.argmax(bad))
            self.refuse(f"{field}[{at}]", expected, got[at].item())

    def flag(self, key: str) -> bool:
        """A plain bool."""
        value = self[key]
        if type(value) is not bool:
            self.refuse(key, "a bool", value)
        return value

    def probabilities(self) -> bool:
        """Whether scores are probabilities."""
        if self.get("probabilities", False) is not False:
            self.refuse("probabilities", "False or no such key", self["probabilities"])
        return "probabilities" not in self

    def integer(self, key: str, low: int, high: int) -> int:
        """A plain int between ``low`` and ``high``, both included."""
        value = self[key]
        if type(value) is not int or not low <= value <= high:
            self.refuse(key, f"an integer in {low} … {high}", value)
        return value

    def weight(self, key: str, most: int | None = MOST_WEIGHT) -> Any:
        """A number from 0, of either sign if ``most`` is None: int where exact, else float."""
        return self._weight(self[key], key, most)

    def _weight(self, value: Any, field: str, most: int | None) -> Any:
        if self.exact and type(value) is int and (most is None or 0 <= value <= most):
            return value
        if not self.exact and type(value) is float:
            # -0.0 would be written differently.
            inside = most is not None and 0.0 <= value <= most and math.copysign(1.0, value) > 0.0
            if inside or (most is None and math.isfinite(value)):
                return value
        kind = "an integer" if self.exact else "a finite float"
        if most is not None:
            kind = "a non-negative integer" if self.exact else "a finite non-negative float"
            kind += f" of at most {most}" if most < MOST_WEIGHT else ""
        self.refuse(field, kind, value)

    def weights(self, key: str, length: int, most: int | None = MOST_WEIGHT) -> list[Weight]:
        """A list of ``length`` values as :meth:`weight` takes them."""
        values = self[key]
        if type(values) is not list or len(values) != length:
            size = f"{len(values)} values" if type(values) is list else type(values).__name__
            raise StateError(f"{self.name}.{key}: expected a list of {length} values, got {size}")
        return [self._weight(value, f"{key}[{n}]", most) for n, value in enumerate(values)]

    def labels(self, *, key: str = "labels", ascending: bool = True) -> list[Label]:
        """Distinct labels of one kind, ascending unless any order will do."""
        values = self[key]
        if type(values) is not list:
            self.refuse(key, "a list of labels", values)
        if set(map(type, values)) not in (set(), {int}, {str}):
            self.refuse(key, "labels that are all str or all int", values)
        if not ascending and len(set(values)) != len(values):
            self.refuse(key, "distinct labels", values)
        for n, (label, following) in enumerate(pairwise(values) if ascending else ()):
            if not label < following:
                self.refuse(f"{key}[{n + 1}]", f"a label after {shown(label)}", following)
        return list(values)

    def array(self, key: str, dtype: type[np.int64] | type[np.float64]) -> npt.NDArray[Any]:
        """A one-dimensional int64 or float64 array."""
        value = self[key]
        if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype != np.dtype(dtype):
            got = type(value).__name__
            if isinstance(value, np.ndarray):
                got = f"{value.dtype} of shape {value.shape}"
            expected = f"a one-dimensional {dtype.__name__} array"
            raise StateError(f"{self.name}.{key}: expected {expected}, got {got}")
        return value.copy()

    def indices(self, key: str, labels: int) -> npt.NDArray[Any]:
        """An array of indices into so many labels."""
        indices = self.array(key, np.int64)
        outside = (indices < 0) | (indices >= labels)
        self.refuse_at(outside, key, f"an index into {labels} labels", indices)
        return indices

    def cell_weights(self, key: str) -> tuple[list[Weight], bool]:
        """What :func:`cell_weights` wrote, as Python numbers, and whether they are whole."""
        value = self[key]
        exact = not (isinstance(value, np.ndarray) and value.dtype == np.float64)
        if type(value) is list:
            weights: list[Weight] = value.copy()
            if set(map(type, weights)) != {int} or max(weights) <= _INT64_MAX:
                self.refuse(key, "an array, or a list of int of which one passes int64", value)
        else:
            weights = self.array(key, np.int64 if exact else np.float64).tolist()
        for n, weight in enumerate(weights):
            if not 0 < weight <= MOST_WEIGHT:  # nan is not
                self.refuse(f"{key}[{n}]", "a finite weight above 0", weight)
        return weights, exact

    def cells(self, key: str, length: int | None = None) -> list[Weight]:
        """The weights of so many cells, or of any number: whole where exact, else floats."""
        weights, exact = self.cell_weights(key)
        if length not in (None, len(weights)):
            self.refuse(key, f"{length} weights", len(weights))
        if weights and exact != self.exact:
            self.refuse(key, "ints where exact, else floats", self[key])
        return weights
