"""A posted body: read within limits of size and time, and checked to be lines of text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from streameval.errors import shown
from streameval.service.http.asgi import JSON, Receive, Scope, header
from streameval.service.http.errors import RefusedError


class BodyMemory:
    """Bytes of bodies that may be in memory at once, all requests together."""

    def __init__(self, most: int) -> None:
        self.free = most

    @contextmanager
    def reserve(self) -> Iterator[Callable[[int], None]]:
        """A function that reserves bytes of a request until the end of the ``with``, or raises."""
        reserved = 0

        def reserve(size: int) -> None:
            nonlocal reserved
            if size > self.free:
                raise RefusedError(
                    503,
                    expected="fewer posts at a time",
                    got="more bodies than memory is set aside for",
                    where="the server",
                    remedy="send it again a little later",
                    retry_seconds=1,
                )
            self.free -= size
            reserved += size

        try:
            yield reserve
        finally:
            self.free += reserved


async def read_body(
    scope: Scope, receive: Receive, *, most: int, seconds: float, reserve: Callable[[int], None]
) -> bytes:
    """The whole body; RefusedError 413 too large, 408 too slow, 415 compressed, 400 broken off."""
    coding = header(scope, "content-encoding")
    if coding is not None and coding.lower() != "identity":
        raise RefusedError(
            415,
            expected="a body as it is",
            got=shown(coding),
            where="the header Content-Encoding",
            remedy="send it uncompressed",
        )
    declared = header(scope, "content-length")
    # The protocol's parser has made sure that it is a number.
    if declared is not None and int(declared) > most:
        raise _too_large(most, f"{int(declared):,}")
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RefusedError(
                        400, expected="a whole body", got="a part of one", where="the body"
                    )
                chunk: bytes = message.get("body", b"")
                if size + len(chunk) > most:
                    raise _too_large(most, "more")
                reserve(len(chunk))
                size += len(chunk)
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return b"".join(chunks)
    except TimeoutError:
        raise RefusedError(
            408,
            expected=f"the whole body within {seconds:g} s",
            got=f"{size:,} bytes of it",
            where="the body",
            remedy="send smaller bodies",
            headers=(("connection", "close"),),
        ) from None


def _too_large(most: int, got: str) -> RefusedError:
    return RefusedError(
        413,
        expected=f"at most {most:,} bytes",
        got=got,
        where="the body",
        remedy="send the events in several posts",
    )


def check_lines(body: bytes, most: int) -> None:
    """Raise RefusedError unless the body is UTF-8 text in lines of at most ``most`` bytes."""
    if not body or body.isspace():
        raise RefusedError(400, expected="one JSON object a line", got="nothing", where="the body")
    # Nearly always the whole is shorter than a line may be.
    if len(body) > most:
        for number, line in enumerate(body.split(b"\n"), 1):
            if len(line) > most:
                raise RefusedError(
                    413,
                    expected=f"at most {most:,} bytes",
                    got=f"{len(line):,}",
                    where=f"line {number}",
                    remedy="nothing of this body was taken; leave the line out and send it again",
                )
    try:
        body.decode()
    except UnicodeDecodeError as error:
        line_number = body.count(b"\n", 0, error.start) + 1
        raise RefusedError(
            400,
            expected="UTF-8",
            got=f"the bytes {body[error.start : error.end + 8].hex(' ')}",
            where=f"line {line_number}",
            remedy="nothing of this body was taken; encode it as UTF-8",
        ) from None


def one_line_each(body: bytes, content_type: str | None) -> bytes:
    """The body as JSON lines, also if it is one object over several lines; RefusedError 400."""
    # Only a body of type application/json is parsed: lines of JSON are returned unchanged.
    if (content_type or "").partition(";")[0].strip().lower() != JSON:
        return body
    text = body.strip()
    if text[:1] == b"[":
        raise RefusedError(
            400,
            expected="one JSON object, or several with a line for each",
            got="an array",
            where="the body",
            remedy="send a line for each event, as application/x-ndjson",
        )
    first, _, more = text.partition(b"\n")
    if not more or _whole(first):
        return body
    try:
        return msgspec.json.format(text, indent=-1)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RefusedError(
            400,
            expected="one JSON object, or several with a line for each",
            got=shown(str(error)),
            where="the body",
        ) from None


def _whole(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
