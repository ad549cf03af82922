"""Lines of a file from an offset on, up to a megabyte, and the errors of longer ones."""

from __future__ import annotations

from typing import BinaryIO, NamedTuple

import numpy as np

from streameval.events.values import IntArray
from streameval.records.chunk import RecordError
from streameval.states.backend import compiled

_NATIVE = compiled("streameval.records.native.native_json")

MAX_LINE_BYTES = 1024 * 1024
"""A longer line is quarantined, truncated."""

_BLOCK = 1024 * 1024
_KEPT = 64 * 1024

_NO_OFFSETS = np.empty(0, dtype=np.int64)


class Lines(NamedTuple):
    """Some lines of a file, without blank ones."""

    messages: list[bytes]
    offsets: IntArray
    """Byte offset of each."""
    end: int
    """Offset of the next line."""
    bad: list[RecordError]


def next_lines(
    file: BinaryIO, start: int, stop: int, *, last: bool, limit: int = MAX_LINE_BYTES
) -> Lines:
    """The lines of the next megabyte; with ``last`` also text at the end without a line break."""
    file.seek(start)
    data = file.read(min(max(_BLOCK, limit + 1), stop - start))
    at_end = last and start + len(data) >= stop
    whole = len(data) if at_end else data.rfind(b"\n") + 1
    if not whole:
        if len(data) > limit:
            return _past_long_line(file, start, stop, data, last=last, limit=limit)
        return Lines([], _NO_OFFSETS, start, [])
    lines, offsets, may_be_blank = _split(data, whole, start)
    bad: list[RecordError] = []
    if may_be_blank or max(map(len, lines), default=0) > limit:
        good = []
        for offset, line in zip(offsets.tolist(), lines, strict=True):
            if len(line) > limit:
                bad.append(_too_long(offset, line, limit))
            elif line.strip():
                good.append((offset, line))
        offsets = np.array([offset for offset, _ in good], dtype=np.int64)
        lines = [line for _, line in good]
    return Lines(lines, offsets, start + whole, bad)


def _split(data: bytes, stop: int, start: int) -> tuple[list[bytes], IntArray, bool]:
    """The lines of ``data[:stop]``, the offset of each, and whether one may be blank."""
    if _NATIVE is not None:
        return _NATIVE.lines(data, stop, start)  # type: ignore[no-any-return]
    lines = data[:stop].split(b"\n")
    if not lines[-1]:
        lines.pop()
    sizes = np.fromiter(map(len, lines), np.int64, len(lines))
    # Each begins after all before it and their line breaks.
    offsets = start + np.cumsum(sizes) - sizes + np.arange(len(lines))
    return lines, offsets, not all(map(bytes.strip, lines))


def _past_long_line(
    file: BinaryIO, start: int, stop: int, head: bytes, *, last: bool, limit: int
) -> Lines:
    """Skip a line that is too long, once its end is written."""
    offset, is_ended = start + len(head), last
    while block := file.read(min(_BLOCK, stop - offset)):
        line, end, _ = block.partition(b"\n")
        offset += len(line) + len(end)
        if end:
            is_ended = True
            break
    if is_ended:
        return Lines([], _NO_OFFSETS, offset, [_too_long(start, head, limit)])
    return Lines([], _NO_OFFSETS, start, [])


def _too_long(offset: int, raw: bytes, limit: int) -> RecordError:
    expected = f"a line of at most {limit:,} bytes"
    return RecordError(
        "", expected, "a longer one", column="too long", place=offset, raw=raw[:_KEPT]
    )
