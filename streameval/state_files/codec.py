"""States as bytes: a fixed first part, a header, the arrays, a checksum.

:func:`pack` and :func:`unpack` know nothing of evaluators; they carry the
plain structure that the states' ``to_state`` gives. The bytes are a function
of the content alone. The specification, complete enough to read and write
such files without this module, is docs/state-format.md.
"""

from __future__ import annotations

import hashlib
import re
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from streameval.errors import StateError, shown
from streameval.state_files.header import (
    Path,
    encode_header,
    parse_header,
    resolved,
    spelled,
    written,
)

MAGIC = b"\x89streameval\r\n\x1a\n\x00"
"""First 16 bytes. As in PNG, a transfer in text mode damages at least one of them."""

FORMAT = 1
"""The format that is written, and the newest that is read."""

_FIRST_PART = struct.Struct("<16sIIQ")
FIRST_PART_BYTES = _FIRST_PART.size
_VERSION_END = 20
_CHECKSUM_BYTES = 32
_DTYPES = {
    "bool": np.dtype("?"),
    "float64": np.dtype("<f8"),
    "int64": np.dtype("<i8"),
    "uint8": np.dtype("u1"),
}
_REFERENCE = re.compile(r"(bool|float64|int64|uint8):(0|[1-9]\d{0,17}):(0|[1-9]\d{0,17})", re.ASCII)


def pack(data: dict[str, Any], *, kind: str) -> bytes:
    """The bytes of a state.

    Equal data gives equal bytes, whatever the order of the dicts' keys.

    Args:
        data: ``None``, bool, int of any size, finite float, str, list, dict
            with str keys, and one-dimensional numpy arrays of int64, float64
            (finite), bool or uint8, nested at most 64 deep.
        kind: The kind of data, e.g. ``"evaluator"``, which :func:`unpack` requires.

    Returns:
        The content of a state file.

    Raises:
        StateError: A value that has no written form; the message says where.

    Cost:
        One copy of the arrays and one SHA-256 of the result.

    >>> unpack(pack({"total": 3}, kind="example"), kind="example")
    {'total': 3}
    """
    if not isinstance(data, dict) or not isinstance(kind, str) or not kind:
        raise StateError(
            f"expected a dict and the name of its kind, got {shown(data)} and {shown(kind)}"
        )
    sections: list[npt.NDArray[np.uint8]] = []
    position = 0

    def place(array: npt.NDArray[Any], path: Path) -> str:
        nonlocal position
        name = array.dtype.name
        if array.ndim != 1 or name not in _DTYPES:
            raise StateError(
                f"{spelled(path)}: expected a one-dimensional array of {', '.join(_DTYPES)}, "
                f"got {shown(name)} of shape {array.shape}"
            )
        plain = np.ascontiguousarray(array, dtype=_DTYPES[name])
        _check_content(plain, path)
        sections.append(plain.view(np.uint8))
        reference = f"$array:{name}:{len(plain)}:{position}"
        position += _rounded_up(plain.nbytes)
        return reference

    tree = {
        "data": written(data, place, ["data"]),
        "kind": written(kind, place, ["kind"]),
    }
    header = encode_header(tree)
    total = FIRST_PART_BYTES + _rounded_up(len(header)) + position + _CHECKSUM_BYTES
    parts: list[Any] = [_FIRST_PART.pack(MAGIC, FORMAT, len(header), total)]
    for section in (header, *sections):
        parts += [section, bytes(-len(section) % 8)]
    checksum = hashlib.sha256()
    for part in parts:
        checksum.update(part)
    parts.append(checksum.digest())
    # Joined once: a bytearray would be copied into the bytes again.
    return b"".join(parts)


def unpack(data: bytes | bytearray | memoryview, *, kind: str) -> dict[str, Any]:
    """The state that :func:`pack` packed.

    Every length is compared with what is really there before it is used, and
    the bytes are accepted only if packing the result gives them again.

    Args:
        data: The whole content of a state file.
        kind: The expected kind.

    Returns:
        The data. Arrays are read-only; where ``data`` is immutable they are
        views of it and keep it alive, otherwise copies.

    Raises:
        StateError: Whatever is wrong with the bytes; nothing else is raised.

    Cost:
        One SHA-256 of the data; memory for the header's values, not for arrays.

    >>> unpack(b"PK", kind="example")
    Traceback (most recent call last):
    streameval.errors.StateError: not a streameval state file; it begins with b'PK'
    """
    try:
        view = memoryview(data).cast("B")
    except (TypeError, ValueError):
        raise StateError(f"expected bytes, got {shown(data)} of {type(data).__name__}") from None
    try:
        return _unpack(view, kind)
    except RecursionError:
        # Only near the caller's own limit: the depth is bounded.
        raise StateError("the header nests too deeply for the stack that is left") from None
    except MemoryError:
        raise StateError(f"{len(view)} bytes of state do not fit into memory") from None


def _unpack(view: memoryview, kind: str) -> dict[str, Any]:
    header_length = check_first_part(view[:FIRST_PART_BYTES], len(view))
    checksum_at = len(view) - _CHECKSUM_BYTES
    computed = hashlib.sha256(view[:checksum_at]).digest()
    stored = bytes(view[checksum_at:])
    if computed != stored:
        raise StateError(
            f"the checksum at byte {checksum_at} says {stored[:4].hex()}…, the bytes before it "
            f"have {computed[:4].hex()}…: the state was damaged or changed after it was written"
        )
    header_end = FIRST_PART_BYTES + header_length
    area = _ArrayArea(view, FIRST_PART_BYTES + _rounded_up(header_length), checksum_at)
    _check_padding(view, header_end, area.start)
    tree = parse_header(view[FIRST_PART_BYTES:header_end], FIRST_PART_BYTES)
    if not isinstance(tree, dict) or tree.keys() != {"data", "kind"}:
        raise StateError("the header: expected an object with the keys 'data' and 'kind' only")
    if not isinstance(tree["data"], dict) or not isinstance(tree["kind"], str):
        raise StateError("the header: expected an object as 'data' and a text as 'kind'")
    found = resolved(tree["kind"], area.refuse, ["kind"])
    if found != kind or not kind:
        raise StateError(f"holds the state of kind {shown(found)}; expected {shown(kind)}")
    result: dict[str, Any] = resolved(tree["data"], area.take, ["data"])
    if area.position != area.end:
        raise StateError(
            f"bytes {area.position} to {area.end} belong to no array that the header names"
        )
    return result


def check_first_part(first: bytes | memoryview, size: int) -> int:
    """The header's length, from the first 32 bytes of ``size``; ``first`` may be cut shorter.

    Raises:
        StateError: Another magic, a newer format, or lengths that contradict the size.
    """
    start = bytes(first[: len(MAGIC)])
    if not start:
        raise StateError("is empty")
    if start != MAGIC[: len(start)]:
        damaged = b"streameval" in start
        raise StateError(
            f"not a streameval state file; it begins with {shown(start)}"
            + ("; it looks changed by a transfer in text mode" if damaged else "")
        )
    if len(first) >= _VERSION_END:  # a newer format may be shorter than this one's first part
        version = int.from_bytes(first[len(MAGIC) : _VERSION_END], "little")
        if version > FORMAT:
            raise StateError(
                f"written by a newer streameval (format {version}); this one reads up to "
                f"{FORMAT}: upgrade streameval"
            )
        if version < 1:
            raise StateError(f"byte {len(MAGIC)}: expected a format of at least 1, got {version}")
    if len(first) < FIRST_PART_BYTES:
        raise StateError(
            f"ends after {size} bytes, within its first part of {FIRST_PART_BYTES}: it is cut off"
        )
    _, _, header_length, total = _FIRST_PART.unpack(first)
    if size < total:
        raise StateError(f"ends after {size} bytes; its first part promises {total}: it is cut off")
    if size > total:
        raise StateError(
            f"has {size} bytes; its first part promises {total}: {size - total} bytes too many"
        )
    room = size - FIRST_PART_BYTES - _CHECKSUM_BYTES
    if _rounded_up(header_length) > room:
        raise StateError(
            f"byte {_VERSION_END}: a header of {header_length} bytes does not fit into the {size}"
        )
    return int(header_length)


class _ArrayArea:
    """The arrays' part of a file, read in order, each byte once."""

    __slots__ = ("end", "position", "start", "view")

    def __init__(self, view: memoryview, start: int, end: int) -> None:
        self.view = view
        self.start = self.position = start
        self.end = end

    def refuse(self, reference: str, path: Path) -> npt.NDArray[Any]:
        raise StateError(f"{spelled(path)}: expected a text, got an array")

    def take(self, reference: str, path: Path) -> npt.NDArray[Any]:
        """The array of a reference like ``float64:1000:0``."""
        parts = _REFERENCE.fullmatch(reference)
        if parts is None:
            raise StateError(
                f"{spelled(path)}: expected '$array:' dtype ':' length ':' offset, with a dtype "
                f"of {', '.join(_DTYPES)}, got {shown(reference)}"
            )
        dtype, length = _DTYPES[parts[1]], int(parts[2])
        begin = self.start + int(parts[3])
        if begin != self.position:
            raise StateError(
                f"{spelled(path)}: its array begins at byte {begin}; the one before it ends at "
                f"{self.position}: arrays lie in order, without gap or overlap"
            )
        end = begin + length * dtype.itemsize
        if _rounded_up(end) > self.end:
            raise StateError(
                f"{spelled(path)}: {length} values of {parts[1]} from byte {begin} on need "
                f"{end - begin} bytes; {self.end - begin} are there"
            )
        self.position = _rounded_up(end)
        _check_padding(self.view, end, self.position)
        array = np.frombuffer(self.view, dtype, length, begin) if length else np.empty(0, dtype)
        _check_content(array, path)
        if not (self.view.readonly and array.flags.aligned):
            array = array.copy()
        array.flags.writeable = False
        return array


def _rounded_up(size: int) -> int:
    return size + -size % 8


def _check_padding(view: memoryview, start: int, end: int) -> None:
    if any(view[start:end]):
        raise StateError(f"bytes {start} to {end}: expected zeros between two parts")


def _check_content(array: npt.NDArray[Any], path: Path) -> None:
    """Refuse floats that are not finite, and bytes that are neither false nor true."""
    if not len(array):
        return
    if array.dtype.kind == "f":
        # min and max are nan if any value is; unlike isfinite they need no memory.
        with np.errstate(invalid="ignore"):
            good = bool(np.isfinite(array.min()) and np.isfinite(array.max()))
        expected = "finite floats"
    elif array.dtype.kind == "b":
        array = array.view(np.uint8)
        good = bool(array.max() <= 1)
        expected = "the bytes 0 and 1"
    else:
        return
    if not good:
        bad = ~np.isfinite(array) if expected == "finite floats" else array > 1
        position = int(np.argmax(bad))
        raise StateError(
            f"{spelled(path)}[{position}]: expected {expected}, got {shown(array[position].item())}"
        )
