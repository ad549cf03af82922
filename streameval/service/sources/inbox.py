"""Posts over HTTP: durable in an inbox first, then read from there like a file.

A post is acknowledged when it is on disk, and the run reads it from there like
any other source: so a crash at any moment loses no acknowledged post.

On disk the inbox is segment files of frames, each frame one post. A frame is a header line,
``<microseconds> <bytes> <crc32 of the body> <crc32 of the offset and of the header up to here>``,
and the body: lines of JSON, each with its line break. Frames of an older release lack the last
number. What a crash leaves of a frame at the end of a segment was never acknowledged and is cut
off.
"""

from __future__ import annotations

import errno
import io
import os
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, TypeAlias

from streameval.errors import StoreError, shown
from streameval.service.closing import closed_on_error
from streameval.service.config.source_settings import HttpSettings, Kind
from streameval.service.private_files import private_directory, private_file
from streameval.service.sources.raw import (
    LagUnit,
    PartitionStatus,
    Position,
    RawBatch,
    Source,
    SourceContext,
)
from streameval.state_files.disk import sync

InboxKind: TypeAlias = Literal["predictions", "labels"]

_KINDS: tuple[InboxKind, ...] = ("predictions", "labels")
_SEGMENT_BYTES = 64 * 1024 * 1024
_READ_BYTES = 2 * 1024 * 1024

_HEADER = re.compile(rb"(\d{1,19}) (\d{1,12}) ([0-9a-f]{8})(?: ([0-9a-f]{8}))?\n")
_HEADER_BEGUN = re.compile(rb"[0-9a-f ]{1,51}")
_HEADER_BYTES = 64


class InboxFullError(StoreError):
    """The post was refused: the inbox has reached its bound, or the disk is full."""


class Inbox:
    """Stores posts durably until the run has counted them; raises StoreError."""

    def __init__(
        self,
        directory: Path,
        *,
        max_bytes: int = 4 * 1024**3,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.directory = directory
        self.arrived = threading.Event()
        """Set by each post; cleared by the reader before it reads."""
        try:
            private_directory(directory)
            ends = {kind: _cut_torn_end(directory, kind) for kind in _KINDS}
            self.tails = {kind: _Tail(directory, kind, end) for kind, end in ends.items()}
        except OSError as error:
            raise StoreError(f"{directory}: cannot hold the inbox: {error.strerror}") from None
        self.max_bytes = max_bytes
        self._clock = clock

    def append(self, kind: InboxKind, body: bytes) -> int:
        """Keep a post of JSON lines on disk, from any thread; the number of its lines."""
        lines = [line for line in body.split(b"\n") if line.strip()]
        if not lines:
            return 0
        # No line of a body looks like a header, so that damage and a torn end differ.
        lines = [b" " + line if line[:1].isdigit() else line for line in lines]
        body = b"\n".join(lines) + b"\n"
        if self.bytes + len(body) > self.max_bytes:
            raise InboxFullError(
                f"the inbox holds {self.bytes:,} of at most {self.max_bytes:,} bytes that are "
                "not counted yet; post again later"
            )
        try:
            self.tails[kind].append(int(self._clock() * 1_000_000), body)
        except OSError as error:
            raise InboxFullError(f"the inbox cannot be written: {error.strerror}") from None
        self.arrived.set()
        return len(lines)

    @property
    def bytes(self) -> int:
        """Size of the inbox in bytes."""
        return sum(tail.bytes for tail in self.tails.values())

    def close(self) -> None:
        """Close the files."""
        for tail in self.tails.values():
            tail.close()


class _Tail:
    """The newest segment of a kind, and how many of its bytes are on disk for certain."""

    def __init__(self, directory: Path, kind: InboxKind, end: int) -> None:
        self._directory = directory
        self._kind = kind
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        found = segments(directory, kind)
        self.number = found[-1] if found else 1
        path = segment_path(directory, kind, self.number)
        self.written = self.durable = end
        self._failed = False
        """Whether the segment may hold what was refused, behind ``durable``."""
        self._cut: list[tuple[int, int]] = []
        """The last durable position at the next cut; threads that write until then will see it."""
        for old in (*found, self.number):
            private_file(segment_path(directory, kind, old))
        self._file = path.open("ab", buffering=0)
        os.fsync(self._file.fileno())
        sync(directory)
        self._older = sum(
            segment_path(directory, kind, number).stat().st_size for number in found[:-1]
        )

    def append(self, time: int, body: bytes) -> None:
        try:
            with self._writing:
                self._cut_refused()
                if self.written >= _SEGMENT_BYTES:
                    self._next_segment()
                frame = frame_bytes(time, body, self.written)
                try:
                    _write_all(self._file, frame)
                except OSError:  # half a frame may be there, on a full disk
                    self._failed = True
                    raise
                self.written += len(frame)
                cut, mine = self._cut, (self.number, self.written)
            with self._syncing:
                # Where it was on disk before the cut, it was kept, and may have been read.
                if cut and cut[0] < mine:
                    raise _not_flushed()
                # Another thread's wait may have covered this post. The segment does
                # not change while this lock is held.
                if not cut and (self.number, self.durable) < mine:
                    self._flush()
        except OSError:
            # At once: a post that was refused is not to be found after a crash either.
            with self._writing, suppress(OSError):
                self._cut_refused()
            raise

    def _flush(self) -> None:
        """Wait for the disk. Holds ``_syncing``."""
        if self._failed:
            # The system reports such an error once; the next wait would return without one.
            raise _not_flushed()
        target = self.written
        try:
            os.fsync(self._file.fileno())
        except OSError:
            self._failed = True
            raise
        self.durable = target

    def _cut_refused(self) -> None:
        """Cut off what a failure has left behind the last durable post. Holds ``_writing``."""
        with self._syncing:
            if self._failed:
                os.truncate(self._file.fileno(), self.durable)
                self.written = self.durable
                self._cut.append((self.number, self.durable))
                self._cut = []
                os.fsync(self._file.fileno())
                self._failed = False

    def _next_segment(self) -> None:
        with self._syncing:
            self._flush()
            path = segment_path(self._directory, self._kind, self.number + 1)
            private_file(path)
            sync(self._directory)
            file = path.open("ab", buffering=0)
            self._file.close()
            self._file = file
            self._older += self.written
            self.number += 1
            self.written = self.durable = 0

    @property
    def bytes(self) -> int:
        return self._older + self.written

    def end_of(self, number: int) -> int:
        """The offset up to which a segment may be read."""
        with self._syncing:
            if number == self.number:
                return self.durable
        return segment_path(self._directory, self._kind, number).stat().st_size

    def drop_before(self, number: int) -> None:
        """Delete the segments before this one."""
        for old in segments(self._directory, self._kind):
            if old < min(number, self.number):
                path = segment_path(self._directory, self._kind, old)
                with self._writing:
                    self._older -= path.stat().st_size
                path.unlink()

    def close(self) -> None:
        self._file.close()


class InboxSource:
    """Reads an inbox, and closes it: partitions ``http:predictions`` and ``http:labels``."""

    lag_unit: LagUnit = "bytes"

    def __init__(self, inbox: Inbox, positions: Mapping[str, Position]) -> None:
        self.inbox = inbox
        self._readers = {
            kind: _Reader(inbox, kind, positions.get(f"http:{kind}")) for kind in _KINDS
        }

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        """What has been posted, some megabytes at a time."""
        # Cleared before reading: a later post sets it again.
        self.inbox.arrived.clear()
        batches = self._read()
        if not batches and timeout > 0 and self.inbox.arrived.wait(timeout):
            batches = self._read()
        return batches

    def _read(self) -> list[RawBatch]:
        found = [reader.read() for reader in self._readers.values()]
        return [batch for batch in found if batch is not None]

    def checkpointed(self, positions: Mapping[str, Position]) -> None:
        """Delete the segments that have been counted."""
        for kind, reader in self._readers.items():
            position = positions.get(reader.partition)
            if position is not None:
                self.inbox.tails[kind].drop_before(int(position["segment"]))

    def status(self) -> list[PartitionStatus]:
        """Both kinds; the lag is in bytes."""
        return [reader.status() for reader in self._readers.values()]

    @property
    def finished(self) -> bool:
        """Never: further posts may arrive."""
        return False

    def close(self) -> None:
        """Close the inbox."""
        for reader in self._readers.values():
            reader.close()
        self.inbox.close()


class _Reader:
    def __init__(self, inbox: Inbox, kind: InboxKind, position: Position | None) -> None:
        self.partition = f"http:{kind}"
        self._inbox = inbox
        self._kind: InboxKind = kind
        self._tail = inbox.tails[kind]
        there = segments(inbox.directory, kind)
        self._segment = int(position["segment"]) if position else there[0]
        self._offset = int(position["offset"]) if position else 0
        self._file: io.FileIO | None = None
        self._problem = ""
        if self._segment not in there or self._offset > self._tail.end_of(self._segment):
            raise _missing(inbox.directory, kind, self._segment, self._offset)

    def read(self) -> RawBatch | None:
        while True:
            # Before its end: posts until the next segment was begun are in this one.
            newest = self._tail.number
            end = self._tail.end_of(self._segment)
            if self._offset < end:
                file = self._opened()
                if file is None:
                    return None
                return self._batch(file, min(end, self._offset + _READ_BYTES), end)
            if self._segment == newest:
                return None
            self.close()
            self._segment += 1
            self._offset = 0

    def _opened(self) -> io.FileIO | None:
        """The segment's file; None while it cannot be opened, as without free file handles."""
        if self._file is None:
            path = segment_path(self._inbox.directory, self._kind, self._segment)
            try:
                self._file = path.open("rb", buffering=0)
            except OSError as error:
                self._problem = f"{shown(str(path))} cannot be opened: {error.strerror}"
                return None
            self._problem = ""
        return self._file

    def _batch(self, file: io.FileIO, stop: int, end: int) -> RawBatch:
        # Buffered for this batch alone: what lies behind `end` may be refused and cut off, and
        # other posts then take its place.
        buffered = io.BufferedReader(file)
        # At least one post, however large it is.
        frames = list(read_frames(buffered, self._offset, stop)) or list(
            islice(read_frames(buffered, self._offset, end), 1)
        )
        buffered.detach()
        if not frames:
            raise StoreError(
                f"{file.name}: damaged at byte {self._offset}; restore the file or move it away"
            )
        messages: list[bytes] = []
        places: list[int] = []
        times: list[int] = []
        for frame in frames:
            lines = frame.body.split(b"\n")[:-1]
            messages += lines
            place = frame.start
            for line in lines:
                places.append(place)
                place += len(line) + 1
            times += [frame.time] * len(lines)
            self._offset = frame.end
        # A prediction that is posted with its label in it needs no join.
        kind: Kind = "records" if self._kind == "predictions" else "labels"
        return RawBatch(self.partition, kind, messages, places, self._position, times)

    @property
    def _position(self) -> Position:
        return {"segment": self._segment, "offset": self._offset}

    def status(self) -> PartitionStatus:
        unread = range(self._segment, self._tail.number + 1)
        lag = sum(map(self._tail.end_of, unread)) - self._offset
        return PartitionStatus(self.partition, self._position, lag, self._problem)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def check_inbox(directory: Path, positions: Mapping[str, Position]) -> None:
    """Raise StoreError where a post in an inbox, or a segment that is not counted, is damaged."""
    # A run may delete a segment in the meantime: FileNotFoundError.
    for kind in _KINDS:
        position = positions.get(f"http:{kind}")
        there = segments(directory, kind) if directory.is_dir() else []
        ends = {
            number: sound_end(segment_path(directory, kind, number), newest=number == there[-1])
            for number in there
        }
        if position is not None:
            first, offset = int(position["segment"]), int(position["offset"])
            if ends.get(first, -1) < offset:
                raise _missing(directory, kind, first, offset)
        for number in range(there[0], there[-1]) if there else ():
            if number not in ends:
                raise _missing(directory, kind, number, 0)


def _missing(directory: Path, kind: InboxKind, segment: int, offset: int) -> StoreError:
    return StoreError(
        f"{directory}: expected segment {segment} with at least {offset} bytes of {kind}, which "
        "the store has counted; it is not there. The inbox and the store belong together: "
        "restore both from one backup, or move both away"
    )


def _cut_torn_end(directory: Path, kind: InboxKind) -> int:
    """The length of the newest segment, without what a crash left of a post."""
    found = segments(directory, kind)
    if not found:
        return 0
    path = segment_path(directory, kind, found[-1])
    end = sound_end(path)
    os.truncate(path, end)
    return end


def _not_flushed() -> OSError:
    return OSError(errno.EIO, "a write beside it failed")


def _write_all(file: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        written = file.write(view)
        view = view[written or 0 :]


class Frame(NamedTuple):
    """One post."""

    time: int
    """Microseconds since 1970 when it arrived."""
    start: int
    """The offset of its body."""
    body: bytes

    @property
    def end(self) -> int:
        """The offset of the next frame."""
        return self.start + len(self.body)


def segment_path(directory: Path, kind: str, number: int) -> Path:
    """The path of a segment."""
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
    """A frame as it is written at an offset of a segment."""
    header = b"%d %d %08x" % (time, len(body), zlib.crc32(body))
    return b"%s %08x\n%s" % (header, _header_sum(header, start), body)


def _header_sum(header: bytes, start: int) -> int:
    # With its offset, so that the loss of a frame before it is detected.
    return zlib.crc32(b"%d %s" % (start, header))


def _header(line: bytes, start: int) -> re.Match[bytes] | None:
    """The header at the beginning of a line, where it is one of this offset."""
    match = _HEADER.match(line)
    if match is None or match[4] is None:
        return match
    written = int(match[4], 16)
    return match if _header_sum(line[: match.start(4) - 1], start) == written else None


def read_frames(file: BinaryIO, start: int, stop: int) -> Iterator[Frame]:
    """The whole frames between two offsets; ends at the first that is not whole."""
    file.seek(start)
    offset = start
    while offset < stop:
        match = _header(file.readline(_HEADER_BYTES), offset)
        if match is None:
            return
        begin, length = offset + match.end(), int(match[2])
        if begin + length > stop:
            return
        body = file.read(length)
        if len(body) != length or zlib.crc32(body) != int(match[3], 16):
            return
        yield Frame(int(match[1]), begin, body)
        offset = begin + length


def sound_end(path: Path, *, newest: bool = True) -> int:
    """The offset after the last whole frame; StoreError where no crash leaves what follows."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        end = 0
        for frame in read_frames(file, 0, size):
            end = frame.end
        file.seek(end)
        tail = file.read(size - end)
    if tail and not (newest and _is_torn(tail, end)):
        raise StoreError(f"{path}: damaged at byte {end}; restore a backup, or move it away")
    return end


def _is_torn(tail: bytes, start: int) -> bool:
    """Whether this is the beginning of a frame, as a crash leaves it."""
    # Each acknowledged post is whole on disk, and one flipped bit in it matches none of these
    # cases: so it is not mistaken for a post that was never acknowledged.
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


def open_inbox(settings: HttpSettings, context: SourceContext) -> Source:
    """The inbox of posts, and one source that reads it."""
    directory = context.inbox if settings.inbox is None else Path(settings.inbox)
    inbox = Inbox(directory, max_bytes=settings.max_inbox_bytes, clock=context.clock)
    with closed_on_error(inbox):
        return InboxSource(inbox, context.positions)
