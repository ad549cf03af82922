"""Identity of a file without its name: inode, content, and how much of it was counted.

The inode finds a renamed file without reading others; the digests recognise a reused inode, a
truncated file, a copy and a compressed file, whose marks are of the decompressed content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec

from streameval.service.sources.raw import Position

Inode = tuple[int, int]
"""Device and inode; of a compressed file's content (0, 0)."""

NO_INODE: Inode = (0, 0)

HEAD_BYTES = 1024
_TAIL_BYTES = 256

_FIRST_LINE = -1
"""Head length of a mark that an older release stored: the first line's digest."""


class Mark(NamedTuple):
    """An offset in a file, and the file's identity."""

    offset: int
    head: str
    tail: str
    """Digest of the last bytes before the offset."""
    length: int = _FIRST_LINE
    """Bytes that ``head`` is the digest of."""
    device: int = 0
    inode: int = 0
    first: str = ""
    """Digest of the first line, or of its first kilobyte; empty while it is not whole."""
    changed: int = 0
    """When the file was last written, in nanoseconds, while no content identifies it."""

    @property
    def file_id(self) -> Inode:
        """Device and inode; (0, 0) of a compressed file."""
        return self.device, self.inode


def mark_at(position: Position) -> Mark:
    """The mark in a stored position, also in one of an older release."""
    given: dict[str, Any] = {name: position[name] for name in Mark._fields if name in position}
    return _with_first(Mark(**given))


def _with_first(mark: Mark) -> Mark:
    """A mark with the first line's digest: an older release stored no other one."""
    return mark._replace(first=mark.head) if mark.length == _FIRST_LINE else mark


def position_of(mark: Mark) -> dict[str, int | str]:
    """A mark as a position."""
    return {key: value for key, value in mark._asdict().items() if key != "changed" or value}


def marks_text(marks: Iterator[Mark]) -> str:
    """Marks in one text, some 80 bytes each: ``7:aa:bb:5:1:9:cc 9:dd:ee:-1:0:0:``."""
    return " ".join(":".join(map(str, mark[:7])) for mark in marks)


def marks_of(text: str) -> Iterator[Mark]:
    """The marks in a text; older releases wrote them as ``7:aa:bb``."""
    for one in text.split():
        yield _with_first(msgspec.convert(one.split(":"), Mark, strict=False))


def mark_of(file: BinaryIO, offset: int, size: int, file_id: Inode = NO_INODE) -> Mark:
    """The mark at an offset of a file that has ``size`` bytes."""
    head = part(file, 0, min(HEAD_BYTES, size))
    if not offset and b"\n" not in head and len(head) < HEAD_BYTES:
        # Many files begin with the same few bytes: less than a line identifies no file.
        head = b""
    first = first_line_digest(head) if head else ""
    return Mark(offset, _digest(head), tail_digest(file, offset), len(head), *file_id, first)


def is_same(file: BinaryIO, size: int, mark: Mark) -> bool:
    """Whether a file begins with the content that was marked."""
    if size < max(mark.offset, mark.length):
        return False
    head = head_digest(part(file, 0, HEAD_BYTES), mark.length)
    return head == mark.head and tail_digest(file, mark.offset) == mark.tail


def head_digest(head: bytes, length: int) -> str:
    """The digest of a file's head as a mark with this head length has it."""
    return first_line_digest(head) if length == _FIRST_LINE else _digest(head[:length])


def first_line_digest(head: bytes) -> str:
    """The digest of the first line of a file's head."""
    return _digest(head.partition(b"\n")[0])


def tail_digest(file: BinaryIO, offset: int) -> str:
    """The digest of the last bytes before an offset."""
    return _digest(part(file, max(0, offset - _TAIL_BYTES), offset))


def part(file: BinaryIO, start: int, end: int) -> bytes:
    """The bytes of a file between two offsets."""
    file.seek(start)
    return file.read(end - start)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
