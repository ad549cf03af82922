"""Whole lines of a byte stream, block by block, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

BLOCK_BYTES = 1 << 20
"""Bytes per read. More do not make decoding faster, and fewer stay in the cache."""

LINE_LIMIT = 4 << 20
"""Longest line that is read. A longer one is skipped without being kept in memory."""

_BOM = b"\xef\xbb\xbf"


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
    stream: Readable, *, block_bytes: int = BLOCK_BYTES, line_limit: int = LINE_LIMIT
) -> Iterator[Block]:
    """Cut a stream after newlines. A byte order mark at the start is dropped.

    Memory: ``line_limit + 3 * block_bytes`` at most, whatever the stream holds.

    >>> import io
    >>> [block.data for block in line_blocks(io.BytesIO(b"one\\ntwo"), block_bytes=5)]
    [b'one\\n', b'two']
    """
    line = 1
    for block in _cut(stream, min(block_bytes, line_limit), line_limit):
        if line == 1 and block.data.startswith(_BOM):
            block = block._replace(data=block.data[len(_BOM) :])
        yield block._replace(first_line=line)
        line += block.lines


def _cut(stream: Readable, block_bytes: int, line_limit: int) -> Iterator[Block]:
    carry = b""  # the beginning of a line whose end has not been read
    skipped = 0  # bytes skipped of a line that is too long
    piece = stream.read(block_bytes)
    while piece:
        following = stream.read(block_bytes)
        if skipped:
            newline = piece.find(b"\n")
            if newline < 0:
                skipped += len(piece)
                piece = following
                continue
            yield Block(b"", 0, 1, skipped + newline)
            skipped = 0
            piece = piece[newline + 1 :]
        # The last line needs no newline.
        end = piece.rfind(b"\n") + 1 if following else len(piece)
        if end == 0:
            carry += piece
            if len(carry) > line_limit:
                skipped = len(carry)
                carry = b""
            piece = following
            continue
        whole = piece[:end]
        if carry:
            newline = whole.find(b"\n")
            length = len(carry) + (newline if newline >= 0 else end)
            if length > line_limit:
                yield Block(b"", 0, 1, length)
                whole = whole[length - len(carry) + 1 :]
            else:
                whole = carry + whole
        carry = piece[end:]
        if whole:
            yield Block(whole, 0, whole.count(b"\n") + (not whole.endswith(b"\n")))
        piece = following
    if skipped:
        yield Block(b"", 0, 1, skipped)
