"""What a file is known by after it was renamed: its content, up to where it was read."""

from __future__ import annotations

import hashlib
import os
from typing import BinaryIO, NamedTuple

from streameval.stream.batch import Position

__all__ = ["Mark", "is_same", "mark_of", "past_of", "past_text"]

_HEAD = 1024
_TAIL = 256

_MOST_PAST = 32
"""Files of one name that are remembered after it was given to others."""


class Mark(NamedTuple):
    """How far a file was read, and digests of its first line and of the bytes before there."""

    offset: int
    head: str
    tail: str


def mark_of(file: BinaryIO, offset: int, head: str = "") -> Mark:
    """The mark at an offset; the head's digest may be known already."""
    return Mark(offset, head or _head(file), _digest(file, max(0, offset - _TAIL), offset))


def is_same(file: BinaryIO, mark: Mark) -> bool:
    """Whether a file has the content that was marked, and perhaps more."""
    try:
        size = os.fstat(file.fileno()).st_size
        return size >= mark.offset and mark_of(file, mark.offset) == mark
    except OSError:
        return False


def past_text(marks: list[Mark]) -> str:
    """Marks as a part of a position; the newest ones.

    >>> past_text([Mark(7, "aa", "bb"), Mark(9, "cc", "dd")])
    '7:aa:bb 9:cc:dd'
    """
    return " ".join(f"{mark.offset}:{mark.head}:{mark.tail}" for mark in marks[-_MOST_PAST:])


def past_of(position: Position) -> list[Mark]:
    """The marks that :func:`past_text` wrote into a position.

    >>> past_of({"offset": 3, "past": "7:aa:bb 9:cc:dd"})[1]
    Mark(offset=9, head='cc', tail='dd')
    """
    marks = []
    for text in str(position.get("past", "")).split():
        offset, head, tail = text.split(":")
        marks.append(Mark(int(offset), head, tail))
    return marks


def _head(file: BinaryIO) -> str:
    """A digest of the first line, or of its first kilobyte."""
    file.seek(0)
    line = file.read(_HEAD).partition(b"\n")[0]
    return hashlib.blake2b(line, digest_size=8).hexdigest()


def _digest(file: BinaryIO, start: int, end: int) -> str:
    file.seek(start)
    return hashlib.blake2b(file.read(end - start), digest_size=8).hexdigest()
