"""The written form of a segment: some hundred entries that are found by their number.

``ends`` (uint32, little-endian: where each entry ends, counted from the first
one's begin), then the entries in MessagePack: ``[key, [kind, time, partition, payload,
label, newest]]``. The row beside it holds how many there are and a CRC-32 of it all.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from streameval.errors import StoreError
from streameval.events import IntArray
from streameval.stream.join.label_rules import Entry

__all__ = ["MOST_ENTRIES", "Segment", "cuts", "damaged", "packed"]

MOST_ENTRIES = 128
"""Entries of a segment, some 16 KB of them: little to read for one label of a random age."""

_MOST_BYTES = 65_536
"""Those with large payloads hold fewer."""

# A payload is a tuple again: it takes half a list's memory, and the garbage collector lets it be.
_Written = tuple[int, int, int, tuple[Any, ...] | None, Any, int]
_one = msgspec.msgpack.Decoder(tuple[str, _Written])
_all = msgspec.msgpack.Decoder(list[tuple[str, _Written]])
_keys = msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]])


def cuts(sizes: IntArray, newest: IntArray, spread_us: int) -> list[tuple[int, int]]:
    """Where to cut entries into segments: (start, stop) of each.

    A segment is dropped when its newest entry is old. One with a time far ahead would keep
    its neighbours from that, so entries further apart than ``spread_us`` are not neighbours.

    Args:
        sizes: Bytes of each entry.
        newest: The newest time of each, ascending.
        spread_us: Microseconds.

    >>> cuts(np.array([60_000, 10_000, 10, 10]), np.array([0, 1, 2, 99]), 50)
    [(0, 1), (1, 3), (3, 4)]
    """
    ends = np.cumsum(sizes)
    jumps = [*(np.flatnonzero(np.diff(newest) > spread_us) + 1).tolist(), len(sizes)]
    found = []
    start = 0
    for jump in jumps:
        while start < jump:
            before = int(ends[start - 1]) if start else 0
            full = int(np.searchsorted(ends, before + _MOST_BYTES, side="right"))
            stop = min(jump, start + MOST_ENTRIES, max(full, start + 1))
            found.append((start, stop))
            start = stop
    return found


def packed(entries: Sequence[bytes], sizes: IntArray) -> bytes:
    """The written form of encoded entries of these sizes."""
    ends = np.cumsum(sizes)
    return ends.astype("<u4").tobytes() + b"".join(entries)


class Segment:
    """A segment that was read.

    Args:
        number: Of the segment, for errors.
        entries: How many.
        crc: Of ``data``.
        data: The written form.

    Raises:
        StoreError: It is not what was written; also later, when entries are read.
    """

    __slots__ = ("_ends", "_entries", "_number", "_view")

    def __init__(self, number: int, entries: object, crc: object, data: object) -> None:
        self._number = number
        if not isinstance(entries, int) or not isinstance(data, bytes):
            raise damaged(number, "its row does not hold what was written")
        if zlib.crc32(data) != crc:
            raise damaged(number, "its checksum is not the one it was written with")
        if not 0 < entries <= MOST_ENTRIES or len(data) < 4 * entries:
            raise damaged(number, "it does not hold as many entries as were written")
        self._entries = entries
        self._view = memoryview(data)[4 * entries :]
        ends: list[int] = np.frombuffer(data, dtype="<u4", count=entries).tolist()
        self._ends = [0, *ends]
        if self._ends[-1] != len(self._view):
            raise damaged(number, "it does not hold as many entries as were written")

    def __len__(self) -> int:
        return self._entries

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return len(self._view) + 40 * self._entries

    def keys(self) -> list[str]:
        """The keys of all."""
        return [key for key, _ in self._decoded(_keys.decode, self._whole())]

    def at(self, places: Sequence[int]) -> list[tuple[str, Entry]]:
        """Keys and entries at these places."""
        if 4 * len(places) > self._entries:
            whole = self._decoded(_all.decode, self._whole())
            if len(whole) != self._entries:
                raise damaged(self._number, "it does not hold as many entries as were written")
            return [whole[place] for place in places]
        ends, view = self._ends, self._view
        return [
            self._decoded(_one.decode, view[ends[place] : ends[place + 1]])
            for place in places
            if place < self._entries
        ]

    def _whole(self) -> bytes:
        # The entries lie one behind the other: with a header in front they are a list.
        return b"".join((struct.pack(">BI", 0xDD, self._entries), self._view))

    def _decoded(self, decode: Callable[[Any], Any], data: bytes | memoryview) -> Any:
        try:
            return decode(data)
        except (msgspec.DecodeError, ValueError) as error:
            raise damaged(self._number, str(error)) from None


def damaged(segment: int, how: str) -> StoreError:
    """What is said of a segment that cannot be read."""
    return StoreError(
        f"join segment {segment} is damaged: {how}; restore the store from a copy of it"
    )
