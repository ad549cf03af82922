"""Why a JSON line cannot be counted, in words.

The fast decoder stops at the first thing that it does not like and tells it in
a decoder's terms. Only for such lines, the standard library's parser says where
the trouble is and shows the value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from streameval.errors import did_you_mean, shown
from streameval.events import is_missing
from streameval.files.chunk import EXPECTED, MISSING, Kind, Wanted
from streameval.files.json_record import split_path

__all__ = [
    "Fault",
    "fault_in_field",
    "find_fault",
    "plain_fields",
    "read_object",
    "sound_object",
]


class Fault(NamedTuple):
    """What is wrong with a record, wherever it stands."""

    field: str
    expected: str
    got: str
    remedy: str = ""
    remedy_code: str = ""


def sound_object(line: bytes, wanted: Sequence[Wanted]) -> dict[str, Any] | None:
    """The wanted fields of a line that the decoder refuses without need, or None.

    Python writes NaN and Infinity where JSON has no such words. Features that
    are missing should not cost the label and the score beside them, nor should
    a null in place of the object that a slice's value is looked for in.
    """
    record = read_object(line)
    if isinstance(record, dict) and all(fault_in_field(record, w) is None for w in wanted):
        return plain_fields(record, wanted)
    return None


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


def find_fault(line: bytes, wanted: Sequence[Wanted]) -> Fault:
    """The first thing that keeps this line from being counted."""
    record = read_object(line)
    if isinstance(record, Fault):
        return record
    for want in wanted:
        fault = fault_in_field(record, want)
        if fault is not None:
            return fault
    return Fault("record", "JSON", shown(line.decode()))


def read_object(line: bytes) -> dict[str, Any] | Fault:
    """The object in a line as Python's own parser reads it, or why there is none.

    Never raises, whatever the bytes are.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        return Fault(
            "record", "UTF-8 text", f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
        )
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
    """What is wrong with a wanted field of an object, if anything; a slice's may be absent."""
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
    return _fault_in_value(value, want.path, want.kind)


def _missing(name: str, names: list[str], seen: list[str]) -> tuple[str, str]:
    holder = ".".join(seen) or "the record"
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    got = f"no field {name!r}; {holder} has {shown(listed)[1:-1] if listed else 'none'}"
    return got, did_you_mean(name, names)


def _fault_in_value(value: Any, path: str, kind: Kind) -> Fault | None:
    expected = EXPECTED[kind]
    if kind == "slice" and is_missing(value):
        return None
    if value is None:
        return Fault(path, expected, "null", MISSING.get(kind, ""))
    if kind in ("label", "slice", "id"):
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                return Fault(path, expected, f"{shown(value)}, half of a surrogate pair")
            return None
        if kind == "id":
            whole = isinstance(value, int) and not isinstance(value, bool)
            return None if whole else Fault(path, expected, _shown_json(value))
        if isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
            return None
        return Fault(path, expected, _shown_json(value))
    if kind == "probabilities" or (kind == "probability" and isinstance(value, dict)):
        if not isinstance(value, dict):
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            code = "probability" if number else ""
            return Fault(path, expected, _shown_json(value), remedy_code=code)
        for label, probability in value.items():
            fault = _fault_in_value(probability, f"{path}.{label}", "number")
            if fault is not None:
                return fault
        return None
    if kind == "time" and isinstance(value, str):
        return None  # whether it reads is looked at later, a column at a time
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        remedy = "write numbers without quotes" if isinstance(value, str) else ""
        return Fault(path, expected, _shown_json(value), remedy)
    try:
        finite = math.isfinite(value)
    except OverflowError:  # an int beyond the floats
        finite = False
    return None if finite else Fault(path, expected, _shown_json(value))


def _shown_json(value: Any) -> str:
    """A value as its file has it, cut to a length that fits a message."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        return f"the text {shown(value)}"
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:40] + "…"
