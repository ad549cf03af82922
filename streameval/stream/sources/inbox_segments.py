"""The inbox on disk: segment files of frames, each frame one post.

A frame is a header line, ``<microseconds> <bytes> <crc32 of the body>``, and the
body: lines of JSON, each with its line break. What a crash leaves of a frame
at the end of a segment was never acknowledged and is cut off.
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

_HEADER = re.compile(rb"(\d{1,19}) (\d{1,12}) ([0-9a-f]{8})\n")
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


def frame_bytes(time: int, body: bytes) -> bytes:
    """A frame as it is written.

    >>> frame_bytes(5, b"{}\\n")
    b'5 3 dda1b006\\n{}\\n'
    """
    return b"%d %d %08x\n" % (time, len(body), zlib.crc32(body)) + body


def read_frames(file: BinaryIO, start: int, stop: int) -> Iterator[Frame]:
    """The whole frames between two places; ends at the first that is not whole."""
    file.seek(start)
    place = start
    while place < stop:
        match = _HEADER.fullmatch(file.readline(_HEADER_BYTES))
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
        StoreError: Behind the damage there are whole frames, so that it is
            not what a crash leaves.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        end = 0
        for frame in read_frames(file, 0, size):
            end = frame.end
        file.seek(end)
        # No line of a body looks like a header, so what follows is what it seems.
        for header in re.finditer(rb"^" + _HEADER.pattern, file.read(), re.MULTILINE):
            file.seek(end + header.end())
            body = file.read(int(header[2]))
            if len(body) == int(header[2]) and zlib.crc32(body) == int(header[3], 16):
                raise StoreError(
                    f"{path}: damaged at byte {end}, before whole posts at byte "
                    f"{end + header.start()}; restore the file or move it away"
                )
    return end
