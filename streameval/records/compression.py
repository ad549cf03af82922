"""Compressed files, known by their first bytes, and read in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from streameval.errors import InputError
from streameval.records.arrow import zstd_stream
from streameval.records.blocks import BLOCK_BYTES, Readable

Codec: TypeAlias = Literal["gzip", "zstd", "bz2", "xz"]

HEAD_BYTES = 10
"""First bytes of a file by which its codec is known."""

DAMAGE = (EOFError, zlib.error, lzma.LZMAError, ValueError, OSError)
"""Errors of reading an archive; an OSError with an ``errno`` is of the disk."""


def is_cut_short(error: BaseException) -> bool:
    """Whether an archive ends too early, and may still be written."""
    return isinstance(error, EOFError) or "Truncated compressed stream" in str(error)


NOT_READ = {b"\x04\x22\x4d\x18": "LZ4", b"PK\x03\x04": "ZIP", b"\x1f\x9d": "compress"}
"""First bytes of archives that are not read, and their names."""

_STEP = 1 << 16
_XZ_MEMORY = 256 << 20
"""Most memory of a decoder of xz, whose files declare what they take; ``xz -9`` takes 65 MiB."""


class _Format(NamedTuple):
    endings: tuple[str, ...]
    magic: bytes
    opened: Callable[[Any], Readable]


def decompressed(file: Readable, source: str, named: Codec | None) -> Readable:
    """A file's bytes, decompressed in bounded memory; raises InputError if not as named."""
    whole = Rejoined(file)
    found = codec_of_bytes(whole.head)
    if named is not None and found != named:
        got = f"a {found} file" if found else "one that is not compressed"
        raise InputError(
            source,
            expected=f"a {named} file, as its name says",
            got=got if whole.head else "an empty file",
            remedy="rename it" if whole.head else "write it again",
        )
    if found is None:
        return whole.unread()
    return _Archive(_FORMATS[found].opened(whole), source, found)


def opened_archive(file: Readable, codec: Codec) -> Readable:
    """The decompressed bytes of an archive; raises ``DAMAGE``, EOFError where it is cut short."""
    return _FORMATS[codec].opened(Rejoined(file))


class Rejoined:
    """A stream whose first bytes have been looked at."""

    closed = False

    def __init__(self, file: Readable) -> None:
        self._file = file
        self.head = b""
        while len(self.head) < HEAD_BYTES and (more := file.read(HEAD_BYTES - len(self.head))):
            self.head += more
        self._unread = self.head

    def unread(self) -> Readable:
        """The file itself at its first byte, or this one where it is a pipe."""
        file: Any = self._file
        if not getattr(file, "seekable", bool)():
            return self
        file.seek(-len(self.head), 1)
        return self._file

    def read(self, size: int = BLOCK_BYTES, /) -> bytes:
        """Up to ``size`` bytes; none at the end."""
        if not self._unread:
            return self._file.read(size)
        first, self._unread = self._unread[:size], self._unread[size:]
        return first + self._file.read(size - len(first)) if size > len(first) else first

    def seekable(self) -> bool:
        """Whether it can be read from another place: no."""
        return False

    def close(self) -> None:
        """Do nothing: the file is closed where it was opened."""


class _Archive:
    """A stream of decompressed bytes whose errors name the file."""

    def __init__(self, stream: Readable, source: str, codec: Codec) -> None:
        self._stream = stream
        self._source = source
        self._codec = codec

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes; none at the end."""
        try:
            return self._stream.read(size)
        except DAMAGE as error:
            if getattr(error, "errno", None) is not None:  # of the disk, not of the archive
                raise
            raise InputError(
                self._source,
                expected=f"a whole {self._codec} file",
                got=f"damage: {' '.join(str(error).split())}",
            ) from None


class _Decoded:
    """Archives one after another in one stream, as ``cat`` joins them.

    The readers of the standard library do the same, but let an xz file declare any memory.
    """

    def __init__(self, decoder: Callable[[], Any], file: Readable) -> None:
        self._new = decoder
        self._file = file
        self._decoder: Any = None
        self._input = b""

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes; none at the end."""
        while True:
            if not self._input and (self._decoder is None or self._decoder.needs_input):
                self._input = self._file.read(_STEP)
                if not self._input and self._decoder is None:
                    return b""
                if not self._input:
                    raise EOFError("it ends before its end marker")
            if self._decoder is None:
                self._input = self._input.lstrip(b"\0")  # xz pads archives
                if not self._input:
                    continue
                self._decoder = self._new()
            data: bytes = self._decoder.decompress(self._input, size)
            self._input = b""
            if self._decoder.eof:
                self._input, self._decoder = self._decoder.unused_data, None
            if data:
                return data


_FORMATS: dict[Codec, _Format] = {
    "gzip": _Format((".gz",), b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    "zstd": _Format((".zst", ".zstd"), b"\x28\xb5\x2f\xfd", zstd_stream),
    "bz2": _Format((".bz2",), b"BZh", partial(_Decoded, bz2.BZ2Decompressor)),
    "xz": _Format(
        (".xz",),
        b"\xfd7zXZ\0",
        partial(_Decoded, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, _XZ_MEMORY)),
    ),
}

ENDINGS: dict[str, Codec] = {
    ending: codec for codec, one in _FORMATS.items() for ending in one.endings
}
"""Endings of names that say a codec."""

# Text may begin with BZh, but not with a block of such an archive, or the end of an empty one.
_BZ2_BLOCKS = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")


def codec_of_name(path: str) -> tuple[Codec | None, str]:
    """The codec that a name's ending says, and the name without it."""
    for ending, codec in ENDINGS.items():
        if path.lower().endswith(ending):
            return codec, path[: -len(ending)]
    return None, path


def codec_of_bytes(head: bytes) -> Codec | None:
    """The codec of a file by its first ten bytes."""
    for codec, one in _FORMATS.items():
        if head.startswith(one.magic) and (codec != "bz2" or head[4:10] in _BZ2_BLOCKS):
            return codec
    return None
