"""A JSON record: the fields to decode, and the fault of a record that cannot be counted.

The fast decoder stops at the first fault and names it in a decoder's terms. Only for
such lines, the standard library's parser finds the field and shows its value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import msgspec

from streameval.errors import InputError, did_you_mean, shown
from streameval.events.values import is_missing
from streameval.records.chunk import EXPECTED, MISSING, Kind, Wanted

CANNOT_DECODE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of a decoder at a record that is not of its shape."""

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
    """A decoder's type, and a getter of each wanted path on its instances."""

    type: Any
    getters: dict[str, Callable[[Any], Any]]


@lru_cache(256)  # called for every field of a bad record
def split_path(path: str) -> tuple[str, ...]:
    """The names along the path of a field.

    >>> split_path("meta.label"), split_path(r"meta\\.label")
    (('meta', 'label'), ('meta.label',))
    """
    names = re.split(r"(?<!\\)\.", path)
    if not all(names):
        raise InputError("path", expected="names joined by dots", got=repr(path))
    return tuple(name.replace("\\.", ".") for name in names)


def is_utf8(data: bytes) -> bool:
    """Whether bytes are text in UTF-8; decoders skip unwanted text unchecked."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def record_shape(wanted: Sequence[Wanted], *, optional: bool = False) -> RecordShape:
    """A type with the wanted fields only: other fields are skipped undecoded.

    Args:
        wanted: The fields.
        optional: Every field may be missing or null, and is None then; a slice's may always.

    Raises:
        InputError: One path lies inside another, or has two kinds.
    """
    tree: dict[str, Any] = {}
    for want in wanted:
        names = split_path(want.path)
        branch = tree
        for name in names[:-1]:
            branch = branch.setdefault(name, {})
            if not isinstance(branch, dict):
                raise _clash(want)
        leaf = want.kind, want.shares
        if branch.setdefault(names[-1], leaf) != leaf:
            raise _clash(want)
    getters = {want.path: _getter(tree, split_path(want.path)) for want in wanted}
    return RecordShape(_struct(tree, optional), getters)


def _clash(want: Wanted) -> InputError:
    return InputError(
        want.path,
        expected="a field of its own",
        got=f"one that is also read as another kind than {want.kind}",
    )


def _getter(tree: dict[str, Any], names: tuple[str, ...]) -> Callable[[Any], Any]:
    steps = []
    for name in names:
        steps.append(f"f{list(tree).index(name)}")
        tree = tree[name]
    return attrgetter(".".join(steps))


def _struct(tree: dict[str, Any], optional: bool) -> Any:
    # gc=False: records hold no cycles, and the collector would walk a million of them.
    fields = []
    for number, (name, inner) in enumerate(tree.items()):
        default: dict[str, Any] = {}
        if isinstance(inner, dict):
            kind = _struct(inner, optional)
            # An empty object instead of a missing one, so that getters do not fail.
            if optional or _only_slices(inner):
                default = {"default_factory": kind}
        else:
            kind = _type(*inner)
            if optional or inner[0] == "slice":
                kind, default = kind | None, {"default": None}
        fields.append((f"f{number}", kind, msgspec.field(name=name, **default)))
    return msgspec.defstruct("Record", fields, gc=False)


def _type(kind: Kind, shares: int | None) -> Any:
    if shares is None:
        return _TYPES[kind]
    length = msgspec.Meta(min_length=shares, max_length=shares)
    return _TYPES[kind] | Annotated[list[float], length]


def value_decoder(want: Wanted) -> msgspec.json.Decoder[Any]:
    """A decoder of the values of one field, where each is a text of its own."""
    return msgspec.json.Decoder(_type(want.kind, want.shares))


def fault_in_text(text: str, want: Wanted) -> Fault:
    """The fault of a text that :func:`value_decoder` rejects."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if not isinstance(value, str):
        fault = _fault_in_value(value, want.path, want.kind, want.shares)
        if fault is not None:
            return fault
    remedy = "write it as JSON, with commas: [0.25, 0.75]" if text.startswith("[") else ""
    got = f"the text {shown(text)}" if text else "nothing"
    return Fault(want.path, _expected(want.kind, want.shares), got, remedy)


def _expected(kind: Kind, shares: int | None) -> str:
    also = f", or a list of {shares}" if shares else ""
    return EXPECTED[kind] + also


def wrong_length(path: str, shares: int | None, length: int) -> Fault:
    """The fault of a list of so many probabilities.

    >>> wrong_length("p", 3, 2)[1:3]
    ('a list of 3 probabilities, one for each label', '2')
    """
    return Fault(path, f"a list of {shares} probabilities, one for each label", str(length))


def _only_slices(tree: dict[str, Any]) -> bool:
    return all(
        _only_slices(inner) if isinstance(inner, dict) else inner[0] == "slice"
        for inner in tree.values()
    )


class Fault(NamedTuple):
    """The fault of a record, without its source and line."""

    field: str
    expected: str
    got: str
    remedy: str = ""
    remedy_code: str = ""


def read_fields(line: bytes, wanted: Sequence[Wanted]) -> dict[str, Any] | Fault:
    """The wanted fields of a line that the decoder rejects, or the first fault.

    Python writes NaN and Infinity, which JSON does not have. Such a value in
    another field does not make the record bad, nor does null for the object
    that holds a slice's value.
    """
    record = read_object(line)
    if isinstance(record, Fault):
        return record
    for want in wanted:
        fault = fault_in_field(record, want)
        if fault is not None:
            return fault
    return plain_fields(record, wanted)


def plain_fields(record: dict[str, Any], wanted: Sequence[Wanted]) -> dict[str, Any]:
    """The object with its wanted fields only, and without nulls."""
    plain: dict[str, Any] = {}
    for want in wanted:
        *path, last = split_path(want.path)
        value: Any = record
        for name in (*path, last):
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            branch = plain
            for name in path:
                branch = branch.setdefault(name, {})
            branch[last] = value
    return plain


def read_object(line: bytes) -> dict[str, Any] | Fault:
    """The object in a line as the standard library parses it, or the fault.

    Never raises, whatever the bytes are.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        got = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
        return Fault("record", "UTF-8 text", got, remedy_code="encoding")
    try:
        record = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        return _not_json(line, error)
    except RecursionError:
        return Fault("record", "JSON nested less deeply", shown(text))
    except ValueError as error:  # an integer of thousands of digits
        return Fault("record", "numbers of a usual length", str(error).partition(":")[0])
    if not isinstance(record, dict):
        code = "object" if isinstance(record, list) else ""
        return Fault("record", "a JSON object", _shown_json(record), remedy_code=code)
    return record


def _not_json(line: bytes, error: json.JSONDecodeError) -> Fault:
    text = line.decode().strip()
    if error.msg == "Extra data":
        return Fault("record", "one JSON object a line", f"more after column {error.pos}")
    if text.startswith("["):
        return Fault("record", "a JSON object", shown(text), remedy_code="object")
    if text in ("{", "}"):
        expected = "a whole JSON object on one line"
        return Fault("record", expected, shown(text), remedy_code="one_line")
    return Fault("record", "a JSON object", f"{shown(text)} ({error.msg} at column {error.colno})")


def fault_in_field(record: dict[str, Any], want: Wanted) -> Fault | None:
    """The fault of a wanted field of an object, or None; a slice's field may be absent."""
    value: Any = record
    seen: list[str] = []
    for name in split_path(want.path):
        absent = value is None or (isinstance(value, dict) and name not in value)
        if absent and want.kind == "slice":
            return None
        if not isinstance(value, dict):
            return Fault(".".join(seen), f"an object with the field {name!r}", _shown_json(value))
        if name not in value:
            return Fault(want.path, EXPECTED[want.kind], *_missing(name, list(value), seen))
        value = value[name]
        seen.append(name)
    return _fault_in_value(value, want.path, want.kind, want.shares)


def _missing(name: str, names: list[str], seen: list[str]) -> tuple[str, str]:
    holder = ".".join(seen) or "the record"
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    got = f"no field {name!r}; {holder} has {shown(listed)[1:-1] if listed else 'none'}"
    return got, did_you_mean(name, names)


def _fault_in_value(value: Any, path: str, kind: Kind, shares: int | None = None) -> Fault | None:
    expected = _expected(kind, shares)
    if kind == "slice" and is_missing(value):
        return None
    if value is None:
        return Fault(path, expected, "null", MISSING.get(kind, ""))
    remedy = code = ""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in ("label", "slice", "id") and isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return Fault(path, expected, f"{shown(value)}, half of a surrogate pair")
        good = True
    elif kind == "id":
        good = number and isinstance(value, int)
    elif kind in ("label", "slice"):
        good = isinstance(value, int) or (number and _is_finite(value))
    elif kind in ("probability", "probabilities") and isinstance(value, dict):
        named = ((f"{path}.{label}", share) for label, share in value.items())
        faults = (_fault_in_value(share, name, "number") for name, share in named)
        return next(filter(None, faults), None)
    elif shares is not None and isinstance(value, list):
        if len(value) != shares:
            return wrong_length(path, shares, len(value))
        faults = (_fault_in_value(share, f"{path}[{n}]", "number") for n, share in enumerate(value))
        return next(filter(None, faults), None)
    elif kind == "probabilities":
        good = False
        code = "probability" if number else "labels_of_list" if isinstance(value, list) else ""
    elif kind == "time" and isinstance(value, str):
        good = True  # parsed later, a column at a time
    else:
        good = number and _is_finite(value)
        remedy = "write numbers without quotes" if isinstance(value, str) else ""
    return None if good else Fault(path, expected, _shown_json(value), remedy, code)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an int beyond the floats
        return False


def _shown_json(value: Any) -> str:
    """A value as JSON, cut to a length that fits a message."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        return f"the text {shown(value)}"
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:40] + "…"
