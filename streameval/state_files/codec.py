"""States as bytes: a fixed first part, a header, the arrays, a checksum.

The bytes are a function of the content alone. Files and rows of a store hold them compressed
(:func:`compressed`). The specification, complete enough to read and write such files without
this module, is docs/state-format.md.

The header is one canonical JSON text. A value has exactly one written form, so a text
is accepted only if writing its value gives the same bytes again. That one comparison
rejects repeated keys, blanks, unsorted keys and other spellings of a number.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from streameval.errors import StateError, shown

Path: TypeAlias = list[str | int]
"""Keys and indices from the header's root to a value."""

# From a kind to what reads it, for errors.
_READERS = {
    "comparison": "streameval.Comparison.load or from_bytes",
    "evaluator": "streameval.load or from_bytes",
    "predictions": "streameval.Predictions.load or from_bytes",
}

MAX_HEADER_BYTES = 2**28
MAX_VALUES = 10_000_000  # of a header: three bytes of JSON can cost 72 bytes of Python objects
MAX_DEPTH = 64  # of lists and dicts inside one another

MAGIC = b"\x89streameval\r\n\x1a\n\x00"
"""First 16 bytes. As in PNG, a transfer in text mode damages at least one of them."""

FORMAT = 2
"""The newest format of a state: with its provenance. One without is written in format 1."""

COMPRESSED = 3
"""The format of compressed bytes of a format before it."""

_FIRST_PART = struct.Struct("<16sIIQ")
FIRST_PART_BYTES = _FIRST_PART.size
_CONTENT_LENGTH = struct.Struct("<Q")
_STREAM_BEGIN = FIRST_PART_BYTES + _CONTENT_LENGTH.size
_FEW_BYTES = 1 << 12
_VERSION_END = 20
CHECKSUM_BYTES = 32
_DTYPES = {
    "bool": np.dtype("?"),
    "float64": np.dtype("<f8"),
    "int64": np.dtype("<i8"),
    "uint8": np.dtype("u1"),
}
_CHUNK = 2**20
_QUOTE = ord('"')
_STEP = np.zeros(256, dtype=np.int8)
_STEP[[ord("["), ord("{")]] = 1
_STEP[[ord("]"), ord("}")]] = -1
_REFERENCE = re.compile(r"(bool|float64|int64|uint8):(0|[1-9]\d{0,17}):(0|[1-9]\d{0,17})", re.ASCII)


class Unpacked(NamedTuple):
    """The parts of a state file."""

    kind: str
    data: dict[str, Any]
    provenance: Any  # a plain structure as it was packed; None for a state without one
    checksum: bytes  # of all bytes before it
    size: int = 0  # bytes of the state, uncompressed


def pack(data: dict[str, Any], *, kind: str, provenance: dict[str, Any] | None = None) -> bytes:
    """The bytes of a state: equal for equal data, whatever the order of the dicts' keys.

    Raises StateError, which has the path, for a value that the format does not have.
    """
    if not isinstance(data, dict) or not isinstance(kind, str) or not kind:
        raise StateError(
            f"expected a dict and the name of its kind, got {shown(data)} and {shown(kind)}"
        )
    sections: list[npt.NDArray[np.uint8]] = []
    position = 0

    def add_array(array: npt.NDArray[Any], path: Path) -> str:
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

    about = {} if provenance is None else {"provenance": provenance}
    header = encode_header(written({"data": data, "kind": kind, **about}, add_array, []))
    total = FIRST_PART_BYTES + _rounded_up(len(header)) + position + CHECKSUM_BYTES
    version = 1 if provenance is None else FORMAT
    parts: list[Any] = [_FIRST_PART.pack(MAGIC, version, len(header), total)]
    for section in (header, *sections):
        parts += [section, bytes(-len(section) % 8)]
    checksum = hashlib.sha256()
    for part in parts:
        checksum.update(part)
    parts.append(checksum.digest())
    # Joined once: a bytearray would be copied into the bytes again.
    return b"".join(parts)


def unpack(data: bytes | bytearray | memoryview, *, kind: str) -> dict[str, Any]:
    """The data that :func:`pack` packed; raises StateError, and no other error, for other bytes.

    Arrays are read-only: views of ``data`` if it is immutable, otherwise copies.
    """
    return unpack_one_of(data, (kind,)).data


def unpack_one_of(data: bytes | bytearray | memoryview, kinds: Sequence[str]) -> Unpacked:
    """As :func:`unpack`, of a state of one of several kinds: all parts of it."""
    try:
        view = memoryview(data).cast("B")
    except (TypeError, ValueError):
        raise StateError(f"expected bytes, got {shown(data)} of {type(data).__name__}") from None
    try:
        return _unpack(memoryview(decompressed(view)), kinds)
    except RecursionError:
        # Only near the caller's own limit: the depth is bounded.
        raise StateError("the header nests too deeply for the stack that is left") from None
    except MemoryError:
        raise StateError(f"{len(view)} bytes of state do not fit into memory") from None


def unpack_provenance(header: bytes, version: int) -> Any:
    """The provenance that a header of this format names, or None; raises StateError."""
    return _provenance_of(_header_tree(memoryview(header), version))


def _unpack(view: memoryview, kinds: Sequence[str]) -> Unpacked:
    header_length = check_first_part(view[:FIRST_PART_BYTES], len(view))
    checksum_at = len(view) - CHECKSUM_BYTES
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
    tree = _header_tree(view[FIRST_PART_BYTES:header_end], format_of(view))
    found: str = resolved(tree["kind"], _refuse_array, ["kind"])
    if found not in kinds or not found:
        expected = " or ".join(map(shown, kinds))
        remedy = f"; {_READERS[found]} reads it" if found in _READERS else ""
        raise StateError(f"holds the state of kind {shown(found)}; expected {expected}{remedy}")
    result: dict[str, Any] = resolved(tree["data"], area.take, ["data"])
    if area.position != area.end:
        raise StateError(
            f"bytes {area.position} to {area.end} belong to no array that the header names"
        )
    return Unpacked(found, result, _provenance_of(tree), stored, len(view))


def _provenance_of(tree: dict[str, Any]) -> Any:
    held = tree.get("provenance")
    return None if held is None else resolved(held, _refuse_array, ["provenance"])


def compressed(data: bytes, *, least: int = _FEW_BYTES) -> bytes:
    """What :func:`pack` gave, compressed from ``least`` bytes on if that saves enough."""
    if len(data) < least:
        return data
    view = memoryview(data)
    (_, _, header_length, _) = _FIRST_PART.unpack(view[:FIRST_PART_BYTES])
    arrays = FIRST_PART_BYTES + _rounded_up(header_length)
    # Runs of one byte only: to look for longer matches takes twice the time, and saves a hundredth.
    compressor = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_RLE)
    stream = compressor.compress(view[:arrays])
    # The lowest bytes of all 8-byte numbers, then the next: the upper ones are mostly zero.
    stream += compressor.compress(_regrouped(view[arrays:-CHECKSUM_BYTES], 8))
    stream += compressor.flush()
    total = _STREAM_BEGIN + len(stream) + CHECKSUM_BYTES
    if total > len(data) - len(data) // 8:
        return data
    first = _FIRST_PART.pack(MAGIC, COMPRESSED, zlib.crc32(stream), total)
    length = _CONTENT_LENGTH.pack(len(data))
    return b"".join((first, length, stream, view[-CHECKSUM_BYTES:]))


def _regrouped(area: memoryview, rows: int) -> bytes:
    """The bytes of a matrix of so many bytes a row, column by column."""
    return np.frombuffer(area, np.uint8).reshape(-1, rows).T.tobytes()


def decompressed(data: bytes | memoryview, *, limit: int | None = None) -> bytes | memoryview:
    """The bytes that :func:`compressed` was given, at most ``limit``; other bytes as they are."""
    view = memoryview(data)
    if format_of(view) != COMPRESSED or view[: len(MAGIC)] != MAGIC:
        return data
    check_first_part(view[:FIRST_PART_BYTES], len(view))
    if len(view) < _STREAM_BEGIN + CHECKSUM_BYTES:
        raise _damaged("it is too short")
    stream = view[_STREAM_BEGIN:-CHECKSUM_BYTES]
    if zlib.crc32(stream) != _FIRST_PART.unpack(view[:FIRST_PART_BYTES])[2]:
        raise _damaged("it does not match its checksum")
    (length,) = _CONTENT_LENGTH.unpack(view[FIRST_PART_BYTES:_STREAM_BEGIN])
    most = memory_bytes() if limit is None else limit
    if length > most:
        raise StateError(f"declares {length} bytes, uncompressed; at most {most} are read here")
    content = memoryview(_inflated(stream, length - CHECKSUM_BYTES))
    _, version, header_length, _ = _FIRST_PART.unpack(content[:FIRST_PART_BYTES])
    arrays = FIRST_PART_BYTES + _rounded_up(header_length)
    area = content[arrays:]
    if version >= COMPRESSED or len(area) % 8:
        raise _damaged("it holds no state")
    whole = _regrouped(area, len(area) // 8) if len(area) else b""
    return b"".join((content[:arrays], whole, view[-CHECKSUM_BYTES:]))


def _inflated(stream: memoryview, length: int) -> bytes:
    """So many bytes out of a stream of zlib, whatever it holds; raises StateError."""
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(stream, max(length, 1))
        rest = inflater.decompress(inflater.unconsumed_tail, 1)
    except zlib.error as error:
        raise _damaged(str(error)) from None
    whole = inflater.eof and not rest and not inflater.unused_data
    if not whole or len(content) != length or length < FIRST_PART_BYTES:
        raise _damaged(f"it does not hold {length} bytes")
    return content


def _damaged(why: str) -> StateError:
    return StateError(
        f"the compressed part from byte {_STREAM_BEGIN} on: {why}: the state was damaged or "
        "changed after it was written"
    )


def inflated_header(file: BinaryIO) -> tuple[bytes, int]:
    """The header (of format 1 none) and the format of a compressed state, read from its stream."""
    inflater = zlib.decompressobj()
    file.read(_CONTENT_LENGTH.size)
    content, wanted, version = b"", FIRST_PART_BYTES, 0
    while len(content) < wanted:
        piece = inflater.unconsumed_tail or file.read(_CHUNK >> 4)
        try:
            content += inflater.decompress(piece, wanted - len(content))
        except zlib.error as error:
            raise _damaged(str(error)) from None
        if not piece:
            raise _damaged("it ends within the header")
        if not version and len(content) == FIRST_PART_BYTES:
            _, version, header_length, _ = _FIRST_PART.unpack(content)
            _check_size(header_length)
            wanted += header_length if version > 1 else 0
    return content[FIRST_PART_BYTES:], version


def memory_bytes() -> int:
    """Size of the machine's memory."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**40


def _header_tree(text: memoryview, version: int) -> dict[str, Any]:
    """The parts of a header's bytes, not resolved yet."""
    tree = parse_header(text, FIRST_PART_BYTES)
    keys = {"data", "kind"} if version == 1 else {"data", "kind", "provenance"}
    if not isinstance(tree, dict) or tree.keys() != keys:
        named = "'data' and 'kind'" if version == 1 else "'data', 'kind' and 'provenance'"
        raise StateError(f"the header: expected an object with the keys {named} only")
    if not isinstance(tree["data"], dict) or not isinstance(tree["kind"], str):
        raise StateError("the header: expected an object as 'data' and a text as 'kind'")
    if not isinstance(tree.get("provenance", {}), dict):
        raise StateError("the header: expected an object as 'provenance'")
    return tree


def _refuse_array(reference: str, path: Path) -> npt.NDArray[Any]:
    raise StateError(f"{spelled(path)}: expected a text, got an array")


def format_of(first: bytes | memoryview) -> int:
    """The format of a file, from the first bytes of it."""
    return int.from_bytes(first[len(MAGIC) : _VERSION_END], "little")


def check_first_part(first: bytes | memoryview, size: int) -> int:
    """The header's length, from the first 32 bytes (or fewer) of ``size``; raises StateError."""
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
        version = format_of(first)
        if version > COMPRESSED:
            raise StateError(
                f"written by a newer streameval (format {version}); this one reads up to "
                f"{COMPRESSED}: upgrade streameval"
            )
        if version < 1:
            raise StateError(f"byte {len(MAGIC)}: expected a format of at least 1, got {version}")
    if len(first) < FIRST_PART_BYTES:
        raise StateError(
            f"ends after {size} bytes, within its first part of {FIRST_PART_BYTES}: it is cut off"
        )
    _, _, header_length, total = _FIRST_PART.unpack(first)
    promise = f"bytes; its first part promises {total}"
    if size < total:
        raise StateError(f"ends after {size} {promise}: it is cut off")
    if size > total:
        raise StateError(f"has {size} {promise}: {size - total} bytes too many")
    room = size - FIRST_PART_BYTES - CHECKSUM_BYTES
    if version != COMPRESSED and _rounded_up(header_length) > room:
        raise StateError(
            f"byte {_VERSION_END}: a header of {header_length} bytes does not fit into the {size}"
        )
    return int(header_length)


class _ArrayArea:
    """The arrays' part of a file, read in order, each byte once."""

    def __init__(self, view: memoryview, start: int, end: int) -> None:
        self.view = view
        self.start = self.position = start
        self.end = end

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
        position = int(np.argmax(~np.isfinite(array) if array.dtype.kind == "f" else array > 1))
        raise StateError(
            f"{spelled(path)}[{position}]: expected {expected}, got {shown(array[position].item())}"
        )


def spelled(path: Path) -> str:
    """The path of a value as messages show it, such as ``$.data.slices[3]['odd key']``."""
    return "$" + "".join(
        f".{step}"
        if isinstance(step, str) and step.isascii() and step.isidentifier() and len(step) < 60
        else f"[{shown(step)}]"
        for step in path
    )


def written(value: object, add: Callable[[npt.NDArray[Any], Path], str], path: Path) -> object:
    """The JSON tree of a value, whose arrays ``add`` turns into references; ``path`` is scratch."""
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
        return add(value, path)
    if isinstance(value, list):
        _descend(path)
        tree: list[object] = []
        for position, item in enumerate(value):
            path[-1] = position
            tree.append(written(item, add, path))
        path.pop()
        return tree
    if isinstance(value, dict):
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
        _descend(path)
        table: dict[str, object] = {}
        for key, item in pairs:
            path[-1] = key
            table[key] = written(item, add, path)
        path.pop()
        return table
    raise StateError(
        f"{spelled(path)}: expected None, a bool, int, float, str, list, dict or numpy array, "
        f"got {shown(value)} of type {type(value).__name__}"
    )


def resolved(value: Any, take: Callable[[str, Path], npt.NDArray[Any]], path: Path) -> Any:
    """The value of a JSON tree, which is changed in place; ``take`` returns the arrays."""
    if isinstance(value, str):
        if not value.startswith("$"):
            return value
        if value.startswith("$array:"):
            return take(value.removeprefix("$array:"), path)
        return _resolved_text(value, path)
    if isinstance(value, list):
        _descend(path)
        for position, item in enumerate(value):
            path[-1] = position
            value[position] = resolved(item, take, path)
        path.pop()
    elif isinstance(value, dict):
        _descend(path)
        for key, item in value.items():
            path[-1] = key
            value[key] = resolved(item, take, path)
        path.pop()
        if any(key.startswith("$") for key in value):
            value = {_resolved_key(key, path): item for key, item in value.items()}
    elif type(value) is int and not -(2**63) <= value < 2**63:
        raise StateError(f"{spelled(path)}: expected an int beyond 64 bits as '$int:…' in base 16")
    return value


def encode_header(tree: object) -> bytes:
    """The canonical text of a tree; raises StateError if :func:`parse_header` would."""
    text = _text(tree)
    _check_extent(text)
    return text


def parse_header(view: memoryview, start: int) -> Any:
    """The JSON tree of a header's bytes, which begin at byte ``start``; raises StateError."""
    _check_size(len(view))
    text = bytes(view)
    _check_extent(text)
    try:
        tree = msgspec.json.decode(text)
    except ValueError as error:  # msgspec's and Unicode's errors are ValueErrors
        why = f"is not JSON that can be read: {error}"
        raise StateError(f"the header, from byte {start} on, {why}") from None
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
    # Not msgspec: the float text here is float.__repr__, which is documented and does not change.
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


def _descend(path: Path) -> None:
    """Add a step to the path, for the keys or indices of a list or dict; raises StateError."""
    if len(path) > MAX_DEPTH:
        raise StateError(f"{spelled(path[:4])}…: lists and dicts nest more than {MAX_DEPTH} deep")
    path.append("")


def _first_difference(one: bytes, other: bytes) -> int:
    shorter = min(len(one), len(other))
    for start in range(0, shorter, _CHUNK):
        chunk, twin = one[start : start + _CHUNK], other[start : start + _CHUNK]
        if chunk != twin:
            pairs = zip(chunk, twin, strict=False)
            return next((start + n for n, (a, b) in enumerate(pairs) if a != b), shorter)
    return shorter


def _written_int(number: int) -> int | str:
    # Base 10 costs quadratic time, and Python refuses to read more than 4,300 digits of it.
    return number if -(2**63) <= number < 2**63 else f"$int:{number:x}"


def _written_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        # A lone surrogate, as file names and argv may hold: no JSON reader accepts it.
        return "$text:" + text.encode("utf-8", "surrogatepass").hex()
    return "$" + text if text.startswith("$") else text


def _resolved_text(text: str, path: Path) -> str | int:
    if text.startswith("$$"):
        return text[1:]
    if not text.startswith(("$int:", "$text:")):
        raise StateError(
            f"{spelled(path)}: expected '$$', '$int:', '$text:' or '$array:' "
            f"where a text begins with '$', got {shown(text)}"
        )
    value: str | int
    try:
        if text.startswith("$int:"):
            value = int(text.removeprefix("$int:"), 16)
            again = _written_int(value)
        else:
            value = bytes.fromhex(text.removeprefix("$text:")).decode("utf-8", "surrogatepass")
            again = _written_text(value)
    except ValueError:
        again = None
    if again != text:
        raise StateError(f"{spelled(path)}: {shown(text)} is not in its one written form")
    return value


def _resolved_key(key: str, path: Path) -> str:
    if not key.startswith("$"):
        return key
    name = None if key.startswith("$array:") else _resolved_text(key, [*path, key])
    if not isinstance(name, str):
        raise StateError(f"{spelled([*path, key])}: expected a text as a key, got {shown(key)}")
    return name
