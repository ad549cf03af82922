"""Whole lines out of a growing file, in bounded memory."""

from __future__ import annotations

from itertools import accumulate
from operator import add
from typing import BinaryIO, NamedTuple

from streameval.stream.batch import BadEvent

__all__ = ["MAX_LINE_BYTES", "Lines", "next_lines", "too_long"]

MAX_LINE_BYTES = 1024 * 1024
"""A longer line is no record; it goes to quarantine, cut."""

_BLOCK = 1024 * 1024
_KEPT = 64 * 1024


class Lines(NamedTuple):
    """Some lines of a file, blank ones left out."""

    messages: list[bytes]
    places: list[int]
    """Where each begins, in bytes."""
    end: int
    """Where the next line begins."""
    bad: list[BadEvent]


def too_long(place: int, raw: bytes, limit: int = MAX_LINE_BYTES) -> BadEvent:
    """The event of a line beyond the limit; ``raw`` is its beginning."""
    detail = f"expected a line of at most {limit:,} bytes, got a longer one"
    return BadEvent(place, "too long", detail, raw[:_KEPT])


def next_lines(
    file: BinaryIO, start: int, stop: int, *, last: bool, limit: int = MAX_LINE_BYTES
) -> Lines:
    """The lines of the next megabyte.

    Args:
        file: Open for reading, in bytes.
        start: Where a line begins.
        stop: How far the file may be read.
        last: What stands at the end without a line break is a line too;
            otherwise its rest is still to come and it is left alone.
        limit: Longest line, in bytes.

    >>> import io
    >>> next_lines(io.BytesIO(b'{"a": 1}\\n\\n{"a"'), 0, 13, last=False)
    Lines(messages=[b'{"a": 1}'], places=[0], end=10, bad=[])
    """
    file.seek(start)
    data = file.read(min(max(_BLOCK, limit + 1), stop - start))
    whole = data.rfind(b"\n") + 1
    if not whole:
        if len(data) > limit:
            return _past_long_line(file, start, stop, data, last=last, limit=limit)
        if not (last and start + len(data) >= stop):
            return Lines([], [], start, [])
        whole = len(data)
    elif last and start + len(data) >= stop:
        whole = len(data)
    lines = data[:whole].split(b"\n")
    if not lines[-1]:
        lines.pop()
    lengths = list(map(len, lines))
    # Where each begins: behind all before it and their line breaks.
    places = list(map(add, accumulate(lengths, initial=start), range(len(lines))))
    bad: list[BadEvent] = []
    if max(lengths, default=0) > limit or not all(map(bytes.strip, lines)):
        good = []
        for place, line in zip(places, lines, strict=True):
            if len(line) > limit:
                bad.append(too_long(place, line, limit))
            elif line.strip():
                good.append((place, line))
        places, lines = [place for place, _ in good], [line for _, line in good]
    return Lines(lines, places, start + whole, bad)


def _past_long_line(
    file: BinaryIO, start: int, stop: int, head: bytes, *, last: bool, limit: int
) -> Lines:
    """Skip a line that is too long, once its end is there."""
    place = start + len(head)
    while place < stop:
        block = file.read(min(_BLOCK, stop - place))
        if not block:
            break
        found = block.find(b"\n")
        if found >= 0:
            return Lines([], [], place + found + 1, [too_long(start, head, limit)])
        place += len(block)
    if last:
        return Lines([], [], place, [too_long(start, head, limit)])
    return Lines([], [], start, [])
