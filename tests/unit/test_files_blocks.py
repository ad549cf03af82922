"""Lines cut from byte streams: none lost, none kept that is too long."""

from __future__ import annotations

import io
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streameval.records.blocks import Block, line_blocks


def oracle(data: bytes, limit: int) -> list[tuple[int, bytes | int]]:
    """Number and text of every line, or its length where it is beyond the limit."""
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return [
        (number, len(line) if len(line) > limit else line) for number, line in enumerate(lines, 1)
    ]


def lines_of(blocks: list[Block]) -> list[tuple[int, bytes | int]]:
    found: list[tuple[int, bytes | int]] = []
    for block in blocks:
        if block.overlong:
            found.append((block.first_line, block.overlong))
            continue
        lines = block.data.split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        assert len(lines) == block.lines
        found.extend(enumerate(lines, block.first_line))
    return found


@given(
    data=st.lists(st.sampled_from([b"a", b"\n", b"bcd", b"\n\n", b"x" * 9]), max_size=40).map(
        b"".join
    ),
    block_bytes=st.integers(1, 12),
    limit=st.integers(1, 12),
)
@example(data=b"abcd\n", block_bytes=3, limit=4)
@settings(max_examples=300)
def test_every_line_comes_once_whatever_the_cuts(data: bytes, block_bytes: int, limit: int) -> None:
    blocks = line_blocks(io.BytesIO(data), block_bytes=block_bytes, line_limit=limit)
    assert lines_of(list(blocks)) == oracle(data, limit)


def test_a_short_read_is_not_the_end() -> None:
    class Drip(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(1)

    assert lines_of(list(line_blocks(Drip(b"ab\n\ncd")))) == [(1, b"ab"), (2, b""), (3, b"cd")]


@pytest.mark.parametrize(
    ("data", "lines"),
    [(b"\xef\xbb\xbf{}\n", [b"{}\n"]), (b"{}\n\xef\xbb\xbf", [b"{}\n\xef\xbb\xbf"])],
)
def test_a_byte_order_mark_is_dropped_at_the_start_only(data: bytes, lines: list[bytes]) -> None:
    assert [block.data for block in line_blocks(io.BytesIO(data))] == lines
    blocks = list(line_blocks(io.BytesIO(b"{}\n\xef\xbb\xbf\n"), block_bytes=3))
    assert blocks[1].data.startswith(b"\xef\xbb\xbf")


def test_a_line_of_fifty_megabytes_is_never_held() -> None:
    class Endless:
        def __init__(self, pieces: int) -> None:
            self.left = pieces

        def read(self, size: int, /) -> bytes:
            self.left -= 1
            if self.left < 0:
                return b""
            return b"x" * size if self.left else b"\nlast\n"

    tracemalloc.start()
    blocks = list(line_blocks(Endless(51)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert blocks == [Block(b"", 1, 1, 50 << 20), Block(b"last\n", 2, 1)]
    assert peak < 12 << 20
