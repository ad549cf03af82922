"""Reading the written form of a state, which may be damaged or made to do harm.

Each function takes one field out of the dictionary, in exactly the type that ``to_state``
writes, or raises :class:`~streameval.errors.StateError` with its name.
"""

from __future__ import annotations

import math
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


def refuse(field: str, expected: str, got: object) -> NoReturn:
    """Raise the StateError of one field."""
    raise StateError(f"{field}: expected {expected}, got {shown(got)}")


def refuse_at(bad: npt.NDArray[np.bool_], field: str, expected: str, got: Any) -> None:
    """Raise the StateError of the first bad value of an array, if there is any."""
    if bad.any():
        at = int(np.argmax(bad))
        refuse(f"{field}[{at}]", expected, got[at].item())


def same_forms(mine: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Whether two written forms are equal."""
    return mine.keys() == theirs.keys() and all(
        np.array_equal(value, theirs[key])
        if isinstance(value, np.ndarray) and isinstance(theirs[key], np.ndarray)
        else type(value) is type(theirs[key]) and value == theirs[key]
        for key, value in mine.items()
    )


def falls(column: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a value is not above the one before it."""
    return np.append(False, column[1:] <= column[:-1])[: len(column)]


def fields_of(
    data: object, name: str, keys: frozenset[str], *optional: frozenset[str]
) -> dict[str, Any]:
    """``data``, when it is a dictionary of exactly these keys, and all or none of each further set.

    >>> fields_of({"bins": 1}, "state", frozenset({"bins", "exact"}))
    Traceback (most recent call last):
    streameval.errors.StateError: state: expected the keys bins, exact, got bins
    """
    if not isinstance(data, dict):
        raise StateError(f"{name}: expected a dictionary, got {type(data).__name__}")
    keys = keys.union(*(more for more in optional if not more.isdisjoint(data)))
    if data.keys() != keys:
        found = ", ".join(sorted(shown(key).strip("'") for key in list(data)[:20])) or "none"
        raise StateError(f"{name}: expected the keys {', '.join(sorted(keys))}, got {found}")
    return data


def bool_field(data: dict[str, Any], key: str, name: str) -> bool:
    """A plain bool."""
    value = data[key]
    if type(value) is not bool:
        refuse(f"{name}.{key}", "a bool", value)
    return value


PROBABILITIES_KEY = frozenset({"probabilities"})
"""Written where scores are no probabilities only, as False: other files are as before."""


def probabilities_field(data: dict[str, Any], name: str) -> bool:
    """Whether the scores of a written form are probabilities."""
    if data.get("probabilities", False) is not False:
        refuse(f"{name}.probabilities", "False or no such key", data["probabilities"])
    return "probabilities" not in data


def int_field(data: dict[str, Any], key: str, name: str, low: int, high: int) -> int:
    """A plain int between ``low`` and ``high``, both included."""
    value = data[key]
    if type(value) is not int or not low <= value <= high:
        refuse(f"{name}.{key}", f"an integer in {low} … {high}", value)
    return value


def _weight(value: object, exact: bool, field: str, most: int | None) -> Weight:
    if most is None:
        if type(value) is (int if exact else float) and (exact or math.isfinite(value)):
            return value
        refuse(field, "an integer" if exact else "a finite float", value)
    if exact and type(value) is int and 0 <= value <= most:
        return value
    if (
        not exact
        and type(value) is float
        and 0.0 <= value <= most
        and math.copysign(1.0, value) > 0.0  # -0.0 would be written differently
    ):
        return value
    kind = "a non-negative integer" if exact else "a finite non-negative float"
    refuse(field, kind + (f" of at most {most}" if most < MOST_WEIGHT else ""), value)


def weight_field(
    data: dict[str, Any], key: str, name: str, exact: bool, most: int | None = MOST_WEIGHT
) -> Weight:
    """A non-negative int where the state is exact, float where it is not."""
    return _weight(data[key], exact, f"{name}.{key}", most)


def weights_field(
    data: dict[str, Any],
    key: str,
    name: str,
    exact: bool,
    length: int,
    most: int | None = MOST_WEIGHT,
) -> list[Weight]:
    """A list of ``length`` values as :func:`weight_field` takes them; a copy."""
    values = data[key]
    if type(values) is not list or len(values) != length:
        size = f"{len(values)} values" if type(values) is list else type(values).__name__
        raise StateError(f"{name}.{key}: expected a list of {length} values, got {size}")
    return [_weight(value, exact, f"{name}.{key}[{n}]", most) for n, value in enumerate(values)]


def labels_field(
    data: dict[str, Any], key: str, name: str, *, ascending: bool = True
) -> list[Label]:
    """Distinct labels of one kind, ascending unless any order will do; a copy."""
    values = data[key]
    if type(values) is not list:
        refuse(f"{name}.{key}", "a list of labels", values)
    kinds = set(map(type, values))
    if kinds not in (set(), {int}, {str}):
        refuse(f"{name}.{key}", "labels that are all str or all int", values)
    if not ascending:
        if len(set(values)) != len(values):
            refuse(f"{name}.{key}", "distinct labels", values)
        return list(values)
    for n in range(len(values) - 1):
        if not values[n] < values[n + 1]:
            refuse(f"{name}.{key}[{n + 1}]", f"a label after {shown(values[n])}", values[n + 1])
    return list(values)


def array_field(
    data: dict[str, Any], key: str, name: str, dtype: type[np.int64] | type[np.float64]
) -> npt.NDArray[Any]:
    """A one-dimensional int64 or float64 array; a copy that may be written to."""
    value = data[key]
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype != np.dtype(dtype):
        got = (
            f"{value.dtype} of shape {value.shape}"
            if isinstance(value, np.ndarray)
            else type(value).__name__
        )
        raise StateError(
            f"{name}.{key}: expected a one-dimensional {dtype.__name__} array, got {got}"
        )
    return value.copy()


def indices_field(data: dict[str, Any], key: str, name: str, labels: int) -> npt.NDArray[Any]:
    """An array of indices into so many labels; a copy."""
    indices = array_field(data, key, name, np.int64)
    outside = (indices < 0) | (indices >= labels)
    refuse_at(outside, f"{name}.{key}", f"an index into {labels} labels", indices)
    return indices


_INT64_MAX = 2**63 - 1


def cell_weights(weights: list[Weight], *, exact: bool) -> Any:
    """Weights above 0 as written: int64 or float64, or a list of int where one passes int64."""
    if exact and max(weights, default=0) > _INT64_MAX:
        return weights
    return np.array(weights, dtype=np.int64 if exact else np.float64)


def cell_weights_field(data: dict[str, Any], key: str, name: str) -> tuple[list[Weight], bool]:
    """What :func:`cell_weights` wrote, as Python numbers, and whether they are whole."""
    field, value = f"{name}.{key}", data[key]
    exact = not (isinstance(value, np.ndarray) and value.dtype == np.float64)
    if type(value) is list:
        weights: list[Weight] = value.copy()
        if set(map(type, weights)) != {int} or max(weights) <= _INT64_MAX:
            refuse(field, "an array, or a list of int of which one passes int64", value)
    else:
        weights = array_field(data, key, name, np.int64 if exact else np.float64).tolist()
    for n, weight in enumerate(weights):
        if not 0 < weight <= MOST_WEIGHT:  # nan is not
            refuse(f"{field}[{n}]", "a finite weight above 0", weight)
    return weights, exact
