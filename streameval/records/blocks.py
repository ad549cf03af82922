"""Whole lines of a byte stream, block by block, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, pairwise
from typing import BinaryIO, NamedTuple, Protocol

import numpy as np

BLOCK_BYTES = 1 << 20
"""Bytes per read. More do not make decoding faster, and fewer stay in the cache."""

LINE_LIMIT = 4 << 20
"""Longest line that is read. A longer one is skipped without being kept in memory."""

_LOOK_BYTES = 1 << 14

_NEWLINE = ord("\n")
BOM = b"\xef\xbb\xbf"
"""Of UTF-8."""


class Readable(Protocol):
    """A binary stream: a file, a pipe, a gzip file."""

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes; none at the end."""
        ...


class Block(NamedTuple):
    """Consecutive whole lines, or one line that was too long to be read."""

    data: bytes
    """The lines with their newlines; the file's last may have none."""
    first_line: int
    """Number of the first line, from 1."""
    lines: int
    overlong: int = 0
    """Bytes of a line that passed the limit; ``data`` is then empty."""


def line_blocks(
    stream: Readable,
    *,
    block_bytes: int = BLOCK_BYTES,
    line_limit: int = LINE_LIMIT,
    first_line: int = 1,
) -> Iterator[Block]:
    """Cut a stream after newlines; a byte order mark at the start of a file is dropped."""
    line = first_line
    for block in _cut(stream, min(block_bytes, line_limit), line_limit):
        if line == 1 and block.data.startswith(BOM):
            block = block._replace(data=block.data[len(BOM) :])
        yield block._replace(first_line=line)
        line += block.lines


def _cut(stream: Readable, block_bytes: int, line_limit: int) -> Iterator[Block]:
    carry, length = b"", 0  # the beginning of a line, which is not kept where it is too long
    pieces = iter(partial(stream.read, block_bytes), b"")
    for piece, following in pairwise(chain(pieces, [b""])):
        newline = piece.find(b"\n")
        length += len(piece) if newline < 0 else newline
        if length > line_limit:
            carry = b""
            if newline < 0:
                continue
            yield Block(b"", 0, 1, length)
            piece = piece[newline + 1 :]
        # The last line needs no newline.
        end = piece.rfind(b"\n") + 1 if following else len(piece)
        if end:
            whole, carry = carry + piece[:end], b""
            yield Block(whole, 0, _newlines(whole) + (not whole.endswith(b"\n")))
        carry += piece[end:]
        length = len(carry)
    if length > line_limit:
        yield Block(b"", 0, 1, length)


def _newlines(data: bytes) -> int:
    # bytes.count takes six times as long where lines are short.
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == _NEWLINE))


class LinesWithin:
    """The lines of a file that begin within a range of its bytes."""

    def __init__(self, file: BinaryIO, begin: int, end: int) -> None:
        first = _line_start(file, begin)
        self._left = _line_start(file, end) - first
        self._file = file
        file.seek(first)

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes; none at the end."""
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


def _line_start(file: BinaryIO, position: int) -> int:
    """The first position from this one on at which a line begins, or the end of the file."""
    if not position:
        return 0
    at = file.seek(position - 1)
    while data := file.read(_LOOK_BYTES):
        newline = data.find(b"\n")
        if newline >= 0:
            return at + newline + 1
        at += len(data)
    return at
