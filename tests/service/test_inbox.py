"""Acknowledged posts survive any crash, once and in order."""

from __future__ import annotations

import errno
import os
import random
import stat
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import StoreError
from streameval.service.sources import inbox as inbox_module
from streameval.service.sources.inbox import (
    Inbox,
    InboxFullError,
    InboxSource,
    frame_bytes,
    segments,
    sound_end,
)
from streameval.service.sources.raw import Position
from tests.support.run import without_handles

OPENED = ExitStack()


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    with OPENED:
        yield


def inbox_at(directory: Path, **options: Any) -> Inbox:
    return OPENED.enter_context(closing(Inbox(directory, **options)))


def reader_of(inbox: Inbox, positions: Mapping[str, Position]) -> InboxSource:
    return OPENED.enter_context(closing(InboxSource(inbox, positions)))


def drain(source: InboxSource, positions: dict[str, Position] | None = None) -> list[bytes]:
    found: list[bytes] = []
    while batches := source.read(100, 0.0):
        for batch in batches:
            assert len(batch.messages) == len(batch.places) == len(batch.times or ())
            found += batch.messages
            if positions is not None:
                positions[batch.partition] = batch.next
    return found


def test_posts_come_out_with_their_stamp(tmp_path: Path) -> None:
    now = [5.0]
    inbox = inbox_at(tmp_path / "in", clock=lambda: now[0])
    assert inbox.append("predictions", b'{"id": 1}\n\n{"id": 2}') == 2
    now[0] = 6.5
    assert inbox.append("labels", b'{"id": 1, "y_true": 0}\n') == 1
    assert inbox.append("labels", b"\n \n") == 0
    predictions, labels = reader_of(inbox, {}).read(10, 0.0)
    assert (predictions.kind, labels.kind) == ("records", "labels")
    assert predictions.messages == [b'{"id": 1}', b'{"id": 2}']
    assert list(predictions.times or ()) == [5_000_000, 5_000_000]
    assert list(labels.times or ()) == [6_500_000]
    path = tmp_path / "in" / "predictions-0000000001.jsonl"
    with path.open("rb") as file:
        file.seek(predictions.places[1])
        assert file.read(9) == b'{"id": 2}'


def test_a_full_inbox_refuses_and_keeps_nothing(tmp_path: Path) -> None:
    inbox = inbox_at(tmp_path, max_bytes=100)
    inbox.append("labels", b"x" * 50)
    with pytest.raises(InboxFullError, match=r"of at most 100 bytes.*post again later"):
        inbox.append("labels", b"y" * 60)
    assert drain(reader_of(inbox, {})) == [b"x" * 50]


@pytest.mark.parametrize("threads", [1, 8])
def test_a_post_that_was_not_flushed_is_refused_and_never_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(inbox_module, "_SEGMENT_BYTES", 300)
    inbox = inbox_at(tmp_path)
    source = reader_of(inbox, {})
    flush, write, rng = os.fsync, inbox_module._write_all, random.Random(threads)

    def failing(descriptor: int) -> None:
        if rng.random() < 0.3:
            raise OSError(errno.EIO, "Input/output error")
        flush(descriptor)

    def on_a_full_disk(file: BinaryIO, data: bytes) -> None:
        if rng.random() < 0.1:
            write(file, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, data)

    monkeypatch.setattr(inbox_module.os, "fsync", failing)
    monkeypatch.setattr(inbox_module, "_write_all", on_a_full_disk)
    kept: list[bytes] = []
    read: list[bytes] = []

    def post(who: int) -> None:
        for n in range(40):
            body = b'{"who": %d, "n": %d}' % (who, n)
            with suppress(InboxFullError):
                inbox.append("labels", body)
                kept.append(body)

    with ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(post, who) for who in range(threads)]
        while not all(one.done() for one in running):
            read += drain(source)
    assert [one.result() for one in running] == [None] * threads
    read += drain(source)
    monkeypatch.undo()
    assert 0 < len(kept) < 40 * threads
    assert sorted(read) == sorted(kept)
    assert inbox.append("labels", b"{last}") == 1
    assert inbox.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    # What is on disk after a crash is no more than that.
    assert sorted(drain(reader_of(inbox_at(tmp_path), {}))) == sorted([*kept, b"{last}"])


def test_a_refused_post_is_not_read_in_place_of_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = inbox_at(tmp_path)
    source = reader_of(inbox, {})
    inbox.append("labels", b"{kept}")
    write, flush = inbox_module._write_all, os.fsync
    read: list[bytes] = []

    def read_meanwhile(file: BinaryIO, data: bytes) -> None:
        write(file, data)
        read.extend(drain(source))  # it may have more in its buffer than it reads

    def failing(descriptor: int) -> None:
        monkeypatch.setattr(inbox_module.os, "fsync", flush)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(inbox_module, "_write_all", read_meanwhile)
    monkeypatch.setattr(inbox_module.os, "fsync", failing)
    with pytest.raises(InboxFullError):
        inbox.append("labels", b"{none}")
    assert read == [b"{kept}"]
    inbox.append("labels", b"{next}")
    assert drain(source) == [b"{next}"]


def test_segments_are_dropped_when_they_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox_module, "_SEGMENT_BYTES", 100)
    inbox = inbox_at(tmp_path)
    source = reader_of(inbox, {})
    for n in range(20):
        inbox.append("labels", b"{%d}" % n * 10)
    before = inbox.bytes
    assert len(segments(tmp_path, "labels")) > 3
    positions: dict[str, Position] = {}
    assert len(drain(source, positions)) == 20
    source.checkpointed(positions)
    assert len(segments(tmp_path, "labels")) == 1
    assert inbox.bytes < before
    assert inbox.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    inbox.append("labels", b"{last}")
    assert drain(reader_of(inbox_at(tmp_path), positions)) == [b"{last}"]


def test_an_inbox_and_a_store_that_do_not_belong_together(tmp_path: Path) -> None:
    inbox = inbox_at(tmp_path)
    with pytest.raises(StoreError, match="belong together"):
        reader_of(inbox, {"http:labels": {"segment": 1, "offset": 10}})


def test_damage_is_reported_and_a_torn_end_is_cut(tmp_path: Path) -> None:
    inbox = inbox_at(tmp_path)
    for n in range(3):
        inbox.append("labels", b'{"n": %d}' % n)
    inbox.close()
    path = tmp_path / "labels-0000000001.jsonl"
    whole = path.read_bytes()
    third = whole.index(b'"n": 1}\n') + 8
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert sound_end(path) <= end
        # A power cut leaves zeros.
        path.write_bytes(whole[:end] + b"\0" * (len(whole) - end))
        if end == third or b"\n" in whole[third:end]:
            assert sound_end(path) == third
    path.write_bytes(whole[:5] + b"!" + whole[6:])
    with pytest.raises(StoreError, match=r"damaged at byte 0; restore a backup, or move it away"):
        inbox_at(tmp_path)
    # The last post is as whole as the others: it was answered, and is not cut off.
    for place in range(whole.rindex(b"\n", 0, -1) + 1, len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(StoreError, match="damaged at byte"):
                inbox_at(tmp_path)


def test_posts_of_an_older_release_are_read(tmp_path: Path) -> None:
    body = b'{"n": 1}\n'
    old = b"5 9 %08x\n%s" % (zlib.crc32(body), body)
    (tmp_path / "labels-0000000001.jsonl").write_bytes(old)
    inbox = inbox_at(tmp_path)
    inbox.append("labels", b'{"n": 2}')
    assert drain(reader_of(inbox, {})) == [b'{"n": 1}', b'{"n": 2}']


def test_posts_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        inbox_at(tmp_path / "in").append("labels", b"{}")
    finally:
        os.umask(before)
    OPENED.close()
    paths = [tmp_path / "in", *(tmp_path / "in").iterdir()]
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o600, 0o600]
    for path in paths:
        path.chmod(0o755)
    inbox_at(tmp_path / "in")
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o700, 0o700]


def test_without_file_handles_reading_goes_on_later(tmp_path: Path) -> None:
    inbox = inbox_at(tmp_path)
    source = reader_of(inbox, {})
    inbox.append("labels", b"{}")
    with without_handles():
        assert source.read(10, 0) == []
        # A post is on disk all the same: its segment is open.
        assert inbox.append("labels", b"[]") == 1
        problems = [status.problem for status in source.status()]
    assert problems[0] == ""
    assert "cannot be opened: Too many open files" in problems[1]
    assert drain(source) == [b"{}", b"[]"]
    assert [status.problem for status in source.status()] == ["", ""]


def test_a_body_cannot_forge_a_post(tmp_path: Path) -> None:
    inbox = inbox_at(tmp_path)
    inbox.append("labels", b'{"n": 1}')
    inbox.append("labels", b"{}\n" + frame_bytes(5, b'{"forged": 1}\n', 3))
    inbox.close()
    path = tmp_path / "labels-0000000001.jsonl"
    path.write_bytes(path.read_bytes()[:-2])
    # The torn post goes as a whole, whatever it holds, and does not keep the run from starting.
    assert drain(reader_of(inbox_at(tmp_path), {})) == [b'{"n": 1}']


@settings(max_examples=40)
@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(0, 400), st.integers(0, 2**64 - 1))
def test_any_damage_gives_whole_posts_or_an_error(
    bodies: list[bytes], place: int, noise: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        inbox = inbox_at(Path(folder))
        expected = []
        for body in bodies:
            inbox.append("labels", body)
            expected += [
                b" " + line if line[:1].isdigit() else line
                for line in body.split(b"\n")
                if line.strip()
            ]
        assert drain(reader_of(inbox, {})) == expected
        inbox.close()
        path = Path(folder) / "labels-0000000001.jsonl"
        data = bytearray(path.read_bytes())
        data[place : place + 8] = noise.to_bytes(8, "little")
        path.write_bytes(bytes(data))
        try:
            damaged = inbox_at(Path(folder))
        except StoreError:
            return
        found = drain(reader_of(damaged, {}))
        assert found == expected[: len(found)]
        OPENED.close()
