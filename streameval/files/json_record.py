"""The shape of a JSON record: which fields are decoded, and how a path is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from streameval.errors import InputError
from streameval.files.chunk import Kind, Wanted

__all__ = ["RecordShape", "record_shape", "split_path"]

_TYPES: dict[Kind, Any] = {
    "label": int | str | bool | float,
    "number": float,
    "weight": float,
    "probability": float | dict[str, float],
    "probabilities": dict[str, float],
    "time": int | float | str,
    "slice": int | str | bool | float,
    "id": int | str,
}


class RecordShape(NamedTuple):
    """A decoder's type, and where each wanted path is found in what it decodes."""

    type: Any
    getters: dict[str, Callable[[Any], Any]]


@lru_cache(256)  # asked of every field of a bad record
def split_path(path: str) -> tuple[str, ...]:
    """The names on the way to a field.

    >>> split_path("meta.label"), split_path(r"meta\\.label")
    (('meta', 'label'), ('meta.label',))
    """
    names = re.split(r"(?<!\\)\.", path)
    if not all(names):
        raise InputError("path", expected="names joined by dots", got=repr(path))
    return tuple(name.replace("\\.", ".") for name in names)


def record_shape(wanted: Sequence[Wanted], *, optional: bool = False) -> RecordShape:
    """A type that holds the wanted fields only, so that the rest is skipped undecoded.

    Args:
        wanted: The fields.
        optional: Every field may be missing or null, and is None then; a slice's may always.

    Raises:
        InputError: One path lies inside another, or is wanted as two kinds.
    """
    tree: dict[str, Any] = {}
    places: dict[str, str] = {}
    for want in wanted:
        names = split_path(want.path)
        branch = tree
        for name in names[:-1]:
            branch = branch.setdefault(name, {})
            if not isinstance(branch, dict):
                raise _clash(want)
        if branch.setdefault(names[-1], want.kind) != want.kind:
            raise _clash(want)
    for want in wanted:
        places[want.path] = _place(tree, split_path(want.path))
    getters: dict[str, Callable[[Any], Any]] = {
        path: attrgetter(place) for path, place in places.items()
    }
    return RecordShape(_struct(tree, optional), getters)


def _clash(want: Wanted) -> InputError:
    return InputError(
        want.path,
        expected="a field of its own",
        got=f"one that is also wanted as something else than a {want.kind}",
    )


def _place(tree: dict[str, Any], names: tuple[str, ...]) -> str:
    steps = []
    for name in names:
        steps.append(f"f{list(tree).index(name)}")
        tree = tree[name]
    return ".".join(steps)


def _struct(tree: dict[str, Any], optional: bool) -> Any:
    # gc=False: records hold no cycles, and the collector would walk a million of them.
    fields = []
    for place, (name, inner) in enumerate(tree.items()):
        default: dict[str, Any] = {}
        if isinstance(inner, dict):
            kind = _struct(inner, optional)
            # An empty object in place of none, so that a getter finds its way.
            if optional or _only_slices(inner):
                default = {"default_factory": kind}
        else:
            kind = _TYPES[inner]
            if optional or inner == "slice":
                kind, default = kind | None, {"default": None}
        fields.append((f"f{place}", kind, msgspec.field(name=name, **default)))
    return msgspec.defstruct("Record", fields, gc=False)


def _only_slices(tree: dict[str, Any]) -> bool:
    return all(
        _only_slices(inner) if isinstance(inner, dict) else inner == "slice"
        for inner in tree.values()
    )
