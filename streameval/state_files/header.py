"""The header of a state file: plain Python values as one canonical JSON text.

A value has exactly one written form, so a text is accepted only if writing
its value gives the same bytes again. That one comparison rejects repeated
keys, blanks, unsorted keys and other spellings of a number.

Values that JSON does not have are written as a string that begins with one ``$``;
a string that itself begins with ``$`` gets a second one. The complete
specification is docs/state-format.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from streameval.errors import StateError, shown

Path: TypeAlias = list[str | int]
"""Keys and indices from the header's root to a value."""

MAX_HEADER_BYTES = 2**28
"""Most bytes of header text."""

MAX_VALUES = 10_000_000
"""Most values in a header: three bytes of JSON can cost 72 bytes of Python objects."""

MAX_DEPTH = 64
"""Most lists and dicts inside one another."""

_CHUNK = 2**20
_QUOTE = ord('"')
_STEP = np.zeros(256, dtype=np.int8)
_STEP[[ord("["), ord("{")]] = 1
_STEP[[ord("]"), ord("}")]] = -1


def spelled(path: Path) -> str:
    """The path of a value, as a message shows it.

    >>> spelled(["data", "slices", 3, "odd key"])
    "$.data.slices[3]['odd key']"
    """
    return "$" + "".join(
        f".{step}"
        if isinstance(step, str) and step.isascii() and step.isidentifier() and len(step) < 60
        else f"[{shown(step)}]"
        for step in path
    )


def written(value: object, place: Callable[[npt.NDArray[Any], Path], str], path: Path) -> object:
    """The JSON tree of a value; dicts are sorted by their written keys.

    Args:
        value: Plain values as the states' ``to_state`` returns them.
        place: Adds an array to the file and returns its reference.
        path: Of the value; used as scratch space.

    Raises:
        StateError: A type that has no written form, a float that is not
            finite, or a structure nested too deeply.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _written_text(value)
    if isinstance(value, int):
        return _written_int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise StateError(f"{spelled(path)}: expected a finite float, got {value}")
        return value
    if isinstance(value, np.ndarray):
        return place(value, path)
    if isinstance(value, list):
        _check_depth(path)
        path.append(0)
        tree: list[object] = []
        for position, item in enumerate(value):
            path[-1] = position
            tree.append(written(item, place, path))
        path.pop()
        return tree
    if isinstance(value, dict):
        _check_depth(path)
        pairs: list[tuple[str, Any]] = []
        for key, item in value.items():
            if not isinstance(key, str):
                raise StateError(
                    f"{spelled(path)}: expected keys of type str, got {shown(key)} "
                    f"of type {type(key).__name__}"
                )
            pairs.append((_written_text(key), item))
        # Sorted here, not only in the text: arrays lie in the file in this order.
        pairs.sort(key=lambda pair: pair[0])
        path.append("")
        table: dict[str, object] = {}
        for key, item in pairs:
            path[-1] = key
            table[key] = written(item, place, path)
        path.pop()
        return table
    raise StateError(
        f"{spelled(path)}: expected None, a bool, int, float, str, list, dict or numpy array, "
        f"got {shown(value)} of type {type(value).__name__}"
    )


def resolved(value: Any, take: Callable[[str, Path], npt.NDArray[Any]], path: Path) -> Any:
    """The value of a JSON tree; lists and dicts are changed in place.

    Args:
        value: The result of :func:`parse_header`, or a part of it.
        take: Returns the array for the part of a reference behind ``$array:``.
        path: Of the value; used as scratch space.
    """
    if isinstance(value, str):
        if not value.startswith("$"):
            return value
        if value.startswith("$array:"):
            return take(value.removeprefix("$array:"), path)
        return _resolved_text(value, path)
    if isinstance(value, list):
        _check_depth(path)
        path.append(0)
        for position, item in enumerate(value):
            path[-1] = position
            value[position] = resolved(item, take, path)
        path.pop()
    elif isinstance(value, dict):
        _check_depth(path)
        path.append("")
        for key, item in value.items():
            path[-1] = key
            value[key] = resolved(item, take, path)
        if any(key.startswith("$") for key in value):
            value = {_resolved_key(key, path): item for key, item in value.items()}
        path.pop()
    elif type(value) is int and not -(2**63) <= value < 2**63:
        raise StateError(f"{spelled(path)}: expected an int beyond 64 bits as '$int:…' in base 16")
    return value


def encode_header(tree: object) -> bytes:
    """The canonical text of a tree; raises StateError where :func:`parse_header` would."""
    text = _text(tree)
    _check_extent(text)
    return text


def parse_header(view: memoryview, start: int) -> Any:
    """The JSON tree of a header's bytes, which begin at byte ``start`` of the file.

    Raises:
        StateError: Too large, too deep, not JSON, or not in its one written
            form; the message gives the byte.
    """
    _check_size(len(view))
    text = bytes(view)
    _check_extent(text)
    try:
        tree = msgspec.json.decode(text)
    except ValueError as error:  # msgspec's and Unicode's errors are ValueErrors
        raise StateError(
            f"the header, from byte {start} on, is not JSON that can be read: {error}"
        ) from None
    again = _text(tree)
    if again != text:
        here = _first_difference(text, again)
        raise StateError(
            f"byte {start + here}: the header is not in its one written form (keys sorted and "
            "none twice, no blanks, the shortest text of a number) at "
            f"{shown(text[here : here + 40])}"
        )
    return tree


def _text(tree: object) -> bytes:
    # The standard library writes, not msgspec: its float text is
    # float.__repr__, which is documented and does not change.
    return json.dumps(
        tree,
        ensure_ascii=False,
        check_circular=False,
        allow_nan=False,
        sort_keys=True,
        separators=(",", ":"),
    ).encode()


def _check_size(size: int) -> None:
    if size > MAX_HEADER_BYTES:
        raise StateError(f"the header has {size} bytes; at most {MAX_HEADER_BYTES} are allowed")


def _check_extent(text: bytes) -> None:
    """Reject text that would need far more memory, or stack, as objects."""
    _check_size(len(text))
    # Without escaped quotes each remaining quote begins or ends a string.
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    depth = values = quotes = 0
    for start in range(0, len(bare), _CHUNK):
        part = np.frombuffer(bare, np.uint8, min(_CHUNK, len(bare) - start), start)
        quotes_before = np.cumsum(part == _QUOTE, dtype=np.int32) + quotes
        outside = part[(quotes_before & 1) == 0]
        steps = _STEP[outside]
        levels = np.cumsum(steps, dtype=np.int32) + depth
        quotes = int(quotes_before[-1]) & 1
        values += int(np.count_nonzero((outside == ord(",")) | (steps == 1)))
        if len(levels):
            depth = int(levels[-1])
            if levels.max() > MAX_DEPTH + 1:  # the header's own object comes on top
                raise StateError(f"the header nests lists and dicts more than {MAX_DEPTH} deep")
        if values > MAX_VALUES:
            raise StateError(f"the header holds more than {MAX_VALUES} values")


def _check_depth(path: Path) -> None:
    if len(path) > MAX_DEPTH:
        raise StateError(f"{spelled(path[:4])}…: lists and dicts nest more than {MAX_DEPTH} deep")


def _first_difference(one: bytes, other: bytes) -> int:
    shorter = min(len(one), len(other))
    for start in range(0, shorter, _CHUNK):
        chunk, twin = one[start : start + _CHUNK], other[start : start + _CHUNK]
        if chunk != twin:
            pairs = zip(chunk, twin, strict=False)
            return next((start + n for n, (a, b) in enumerate(pairs) if a != b), shorter)
    return shorter


def _written_int(number: int) -> int | str:
    # Base 16, because base 10 costs quadratic time and Python refuses
    # to read more than 4,300 digits of it.
    return number if -(2**63) <= number < 2**63 else f"$int:{number:x}"


def _written_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        # A lone surrogate, as file names and argv may hold: no JSON reader takes it.
        return "$text:" + text.encode("utf-8", "surrogatepass").hex()
    return "$" + text if text.startswith("$") else text


def _resolved_text(text: str, path: Path) -> str | int:
    if text.startswith("$$"):
        return text[1:]
    value: str | int
    try:
        if text.startswith("$int:"):
            value = int(text.removeprefix("$int:"), 16)
            again = _written_int(value)
        elif text.startswith("$text:"):
            value = bytes.fromhex(text.removeprefix("$text:")).decode("utf-8", "surrogatepass")
            again = _written_text(value)
        else:
            raise StateError(
                f"{spelled(path)}: expected '$$', '$int:', '$text:' or '$array:' "
                f"where a text begins with '$', got {shown(text)}"
            )
    except ValueError as error:
        if isinstance(error, StateError):
            raise
        again = None
    if again != text:
        raise StateError(f"{spelled(path)}: {shown(text)} is not in its one written form")
    return value


def _resolved_key(key: str, path: Path) -> str:
    if not key.startswith("$"):
        return key
    path[-1] = key
    name = None if key.startswith("$array:") else _resolved_text(key, path)
    if not isinstance(name, str):
        raise StateError(f"{spelled(path)}: expected a text as a key, got {shown(key)}")
    return name
