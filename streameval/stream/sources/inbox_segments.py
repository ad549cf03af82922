"""The inbox on disk: segment files of frames, each frame one post.

A frame is a header line, ``<microseconds> <bytes> <crc32 of the body> <crc32 of the place and
of the header up to here>``, and the body: lines of JSON, each with its line break. Frames of an
older release lack the last number. What a crash leaves of a frame at the end of a segment was
never acknowledged and is cut off.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from streameval.errors import StoreError

__all__ = ["Frame", "frame_bytes", "read_frames", "segment_path", "segments", "sound_end"]

_HEADER = re.compile(rb"(\d{1,19}) (\d{1,12}) ([0-9a-f]{8})(?: ([0-9a-f]{8}))?\n")
_HEADER_BEGUN = re.compile(rb"[0-9a-f ]{1,51}")
_HEADER_BYTES = 64


class Frame(NamedTuple):
    """One post."""

    time: int
    """Microseconds since 1970 when it came."""
    start: int
    """Where its body begins."""
    body: bytes

    @property
    def end(self) -> int:
        """Where the next frame begins."""
        return self.start + len(self.body)


def segment_path(directory: Path, kind: str, number: int) -> Path:
    """Where a segment lies."""
    return directory / f"{kind}-{number:010d}.jsonl"


def segments(directory: Path, kind: str) -> list[int]:
    """The numbers of the segments that are there, ascending."""
    found = []
    for name in os.listdir(directory):
        match = re.fullmatch(rf"{kind}-(\d{{10}})\.jsonl", name)
        if match:
            found.append(int(match[1]))
    return sorted(found)


def frame_bytes(time: int, body: bytes, start: int) -> bytes:
    """A frame as it is written at a place in a segment.

    >>> frame_bytes(5, b"{}\\n", 0)
    b'5 3 dda1b006 1339f1d1\\n{}\\n'
    """
    header = b"%d %d %08x" % (time, len(body), zlib.crc32(body))
    return b"%s %08x\n%s" % (header, _header_sum(header, start), body)


def _header_sum(header: bytes, start: int) -> int:
    # With its place, so that a frame that was lost before it does not go unnoticed.
    return zlib.crc32(b"%d %s" % (start, header))


def _header(line: bytes, start: int) -> re.Match[bytes] | None:
    """The header at the beginning of a line, where it is one of this place."""
    match = _HEADER.match(line)
    if match is None or match[4] is None:
        return match
    written = int(match[4], 16)
    return match if _header_sum(line[: match.start(4) - 1], start) == written else None


def read_frames(file: BinaryIO, start: int, stop: int) -> Iterator[Frame]:
    """The whole frames between two places; ends at the first that is not whole."""
    file.seek(start)
    place = start
    while place < stop:
        match = _header(file.readline(_HEADER_BYTES), place)
        if match is None:
            return
        begin, length = place + match.end(), int(match[2])
        if begin + length > stop:
            return
        body = file.read(length)
        if len(body) != length or zlib.crc32(body) != int(match[3], 16):
            return
        yield Frame(int(match[1]), begin, body)
        place = begin + length


def sound_end(path: Path) -> int:
    """Where the last whole frame of a segment ends.

    Raises:
        StoreError: What follows it is not what a crash leaves.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        end = 0
        for frame in read_frames(file, 0, size):
            end = frame.end
        file.seek(end)
        tail = file.read(size - end)
    if tail and not _is_torn(tail, end):
        raise StoreError(f"{path}: damaged at byte {end}; restore a backup, or move it away")
    return end


def _is_torn(tail: bytes, start: int) -> bool:
    """Whether this is the beginning of a frame, as a crash leaves it.

    Each answered post is whole on disk, and one bit that flips in it gives none of these: so
    it is not taken for a post that was never answered.
    """
    if not tail.strip(b"\0"):
        return True  # a power cut: the file's new length without its content
    header = _header(tail, start)
    if header is None:
        return _HEADER_BEGUN.fullmatch(tail) is not None
    # No line of a body looks like a header.
    if re.search(rb"\n" + _HEADER.pattern, tail):
        return False
    body = tail[header.end() :]
    return len(body) < int(header[2]) or body.endswith(b"\0")
