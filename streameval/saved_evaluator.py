"""The written form of an evaluator, checked before anything is built from it."""

from __future__ import annotations

from typing import Any

from streameval.errors import StateError, shown

__all__ = ["checked_options", "part_of"]


def part_of(data: dict[str, Any], key: str) -> dict[str, Any]:
    """The object under a key; raises StateError where there is none."""
    part = data.get(key) if isinstance(data, dict) else data
    if not isinstance(part, dict):
        raise StateError(f"{key}: expected an object, got {shown(part)}")
    return part


_PARTS = ("options", "window", "timeline", "slices", "slices_overflowed", "negative")

_OPTION_TYPES: dict[str, tuple[type, ...]] = {
    "task": (str,),
    "positive": (str, int),
    "threshold": (float, int),
    "labels": (list, type(None)),
    "metrics": (list, type(None)),
    "bins": (int,),
    "temporal": (bool,),
    "undefined": (float, int, type(None)),
    "window": (dict,),
    "time_unit": (str, type(None)),
    "slices": (list,),
    "max_slices": (int,),
}


def checked_options(data: dict[str, Any]) -> dict[str, Any]:
    """The constructor's options of a saved state, their types checked."""
    options = part_of(data, "options")
    wanted = set(_OPTION_TYPES)
    parts = set(_PARTS)
    task = options.get("task")
    if isinstance(task, str) and task == "multiclass":  # an array is compared item by item
        wanted -= {"positive", "threshold"}
        parts -= {"negative"}
    if set(data) != parts:
        raise StateError(f"expected the parts {sorted(parts)}, got {shown(sorted(data))}")
    if set(options) != wanted:
        raise StateError(f"options: expected {sorted(wanted)}, got {shown(sorted(options))}")
    for name, value in options.items():
        wrong = isinstance(value, bool) != (name == "temporal")
        if wrong or not isinstance(value, _OPTION_TYPES[name]):
            raise StateError(f"options.{name}: got {shown(value)}, which is of the wrong type")
    for name in ("labels", "metrics"):
        for item in options[name] or ():
            if not isinstance(item, (str, int)) or (name == "metrics" and type(item) is not str):
                raise StateError(f"options.{name}: got {shown(item)} in the list")
    for item in options["slices"]:
        if not isinstance(item, list) or not all(isinstance(name, str) for name in item):
            raise StateError(f"options.slices: expected lists of names, got {shown(item)}")
    return options
