"""Files that grow, rotate, shrink and appear: every line once, from any position on."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import ConfigError
from streameval.stream.batch import Position
from streameval.stream.settings import FilesSettings
from streameval.stream.sources import followed_file
from streameval.stream.sources.files import FilesSource
from streameval.stream.sources.followed_file import FollowedFile
from streameval.stream.sources.lines import next_lines


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


OPENED: list[FilesSource] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def source(
    *patterns: Path | str, positions: Mapping[str, Position] | None = None, follow: bool = True
) -> tuple[FilesSource, Clock]:
    clock = Clock()
    chosen = FilesSettings(records=[str(p) for p in patterns], follow=follow)
    OPENED.append(FilesSource(chosen, positions or {}, clock=clock, sleep=clock.sleep))
    return OPENED[-1], clock


def drain(
    reading: FilesSource, positions: dict[str, Position] | None = None, most: int = 10_000
) -> list[bytes]:
    """All that is there now; the positions are brought up to date."""
    found: list[bytes] = []
    while batches := reading.read(most, 0.0):
        for batch in batches:
            assert len(batch.places) == len(batch.messages)
            found += batch.messages
            if positions is not None:
                positions[batch.partition] = batch.next
    return found


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def test_lines_come_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b'{"n": 1}\n\n{"n": 2}\n{"n":')
    reading, _ = source(path)
    assert drain(reading) == [b'{"n": 1}', b'{"n": 2}']
    append(path, b" 3}\n")
    assert drain(reading) == [b'{"n": 3}']
    assert reading.status()[0].lag == 0


def test_labels_do_not_run_ahead_of_predictions_that_are_there(tmp_path: Path) -> None:
    append(
        tmp_path / "p", b"".join(b'{"id": "%06d", "score": 0.123456}\n' % n for n in range(150_000))
    )
    append(tmp_path / "l", b"".join(b'{"id": "%06d"}\n' % n for n in range(150_000)))
    chosen = FilesSettings(
        predictions=[str(tmp_path / "p")], labels=[str(tmp_path / "l")], follow=False
    )
    reading = FilesSource(chosen, {})
    OPENED.append(reading)
    came = {"predictions": 0, "labels": 0}
    most = 0
    while batches := reading.read(20_000, 0.0):
        for batch in batches:
            came[batch.kind] += len(batch.messages)
        if came["predictions"] < 150_000:
            most = max(most, came["labels"] - came["predictions"])
    assert came == {"predictions": 150_000, "labels": 150_000}
    # Only the first megabyte of labels, of which nobody knew how many they are.
    assert most < (1 << 20) // 16 - (1 << 20) // 36 + 2


def test_a_file_that_is_not_followed_ends_with_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"1\n2")
    reading, _ = source(path, follow=False)
    assert not reading.finished
    assert drain(reading) == [b"1", b"2"]
    assert reading.finished


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"files\.records: expected a file, got '.*b\.jsonl'"):
        source(tmp_path / "b.jsonl", follow=False)
    reading, _ = source(tmp_path / "b.jsonl")
    assert drain(reading) == []
    append(tmp_path / "b.jsonl", b"1\n")
    assert drain(reading) == [b"1"]


def test_new_files_of_a_pattern_are_found(tmp_path: Path) -> None:
    append(tmp_path / "a.jsonl", b"1\n")
    reading, clock = source(tmp_path / "*.jsonl")
    assert drain(reading) == [b"1"]
    append(tmp_path / "b.jsonl", b"2\n")
    assert drain(reading) == []
    clock.now += 1
    assert drain(reading) == [b"2"]
    assert [status.partition for status in reading.status()] == [
        f"files:{tmp_path}/a.jsonl",
        f"files:{tmp_path}/b.jsonl",
    ]


def test_waiting_is_bounded(tmp_path: Path) -> None:
    append(tmp_path / "a.jsonl", b"")
    reading, clock = source(tmp_path / "a.jsonl")
    (opened,) = reading.read(10, 0.2)
    assert (opened.messages, opened.next["offset"], clock.now) == ([], 0, 0.0)
    assert reading.read(10, 0.2) == []
    assert clock.now == pytest.approx(0.2)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("rotations", [1, 2, 3])
def test_rotation_by_rename_loses_nothing(tmp_path: Path, restart: bool, rotations: int) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"0\n")
    positions: dict[str, Position] = {}
    reading, _ = source(path)
    assert drain(reading, positions) == [b"0"]
    expected = []
    for n in range(rotations):
        append(path, b"old %d\n" % n)
        expected.append(b"old %d" % n)
        for older in range(n, 0, -1):
            (tmp_path / f"a.jsonl.{older}").rename(tmp_path / f"a.jsonl.{older + 1}")
        path.rename(tmp_path / "a.jsonl.1")
        stamp = 1_000_000_000 + n
        os.utime(tmp_path / "a.jsonl.1", (stamp, stamp))
    append(path, b"new\n")
    if restart:
        reading.close()
        reading, _ = source(path, positions=positions)
    assert drain(reading, positions) == [*expected, b"new"]
    assert drain(source(path, positions=positions)[0]) == []


def rotate(path: Path, count: int) -> None:
    """As logrotate does it: every number goes up by one."""
    for number in range(count - 1, 0, -1):
        os.rename(f"{path}.{number}", f"{path}.{number + 1}")
    path.rename(f"{path}.1")


def test_a_reader_that_is_behind_while_numbers_go_up(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"0\n")
    reading, _ = source(path)
    found = drain(reading)
    for n in range(1, 4):  # three files behind ...
        rotate(path, n)
        append(path, b"%d\n" % n)
    for n in range(4, 9):  # ... and each read is followed by one more
        found += [line for batch in reading.read(1, 0.0) for line in batch.messages]
        rotate(path, n)
        append(path, b"%d\n" % n)
    assert reading.status()[0].lag == 6
    assert found + drain(reading) == [b"%d" % n for n in range(9)]
    assert reading.status()[0].lag == 0


@pytest.mark.parametrize("seed", range(8))
def test_rotations_after_a_look_at_the_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"0\n")
    reading, _ = source(path)
    found = drain(reading)
    rng = random.Random(seed)
    original = followed_file._rotated
    rotations = 0

    def rotate_now() -> None:
        nonlocal rotations
        rotations += 1
        rotate(path, rotations)
        append(path, b"%d\n" % rotations)

    def looked(path: Path) -> list[followed_file._Rotated]:
        seen = original(path)
        if rotations < 30 and rng.random() < 0.7:
            rotate_now()
        return seen

    monkeypatch.setattr(followed_file, "_rotated", looked)
    while rotations < 30:
        rotate_now()
        found += drain(reading)
    assert found == [b"%d" % n for n in range(rotations + 1)]


def test_files_of_one_moment_are_told_by_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"0\n")
    reading, _ = source(path)
    found = drain(reading)
    for n in range(1, 13):
        rotate(path, n)
        append(path, b"%d\n" % n)
    for file in tmp_path.iterdir():
        os.utime(file, ns=(0, 0))
    assert found + drain(reading) == [b"%d" % n for n in range(13)]


def test_written_and_moved_away_at_the_moment_of_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"1\n")
    reading, _ = source(path)
    found = drain(reading)
    original = FollowedFile._replaced
    moments = iter([True])

    def replaced(file: FollowedFile) -> bool:
        if next(moments, False):
            append(path, b"2\n")
            rotate(path, 1)
            append(path, b"3\n")
        return original(file)

    monkeypatch.setattr(FollowedFile, "_replaced", replaced)
    assert found + drain(reading) == [b"1", b"2", b"3"]


def test_moved_away_and_not_yet_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"1\n")
    reading, _ = source(path)
    assert drain(reading) == [b"1"]
    path.rename(tmp_path / "a.jsonl.1")
    # Who writes may still have it open.
    append(tmp_path / "a.jsonl.1", b"2\n")
    assert drain(reading) == [b"2"]
    append(path, b"3\n")
    assert drain(reading) == [b"3"]


def test_a_pattern_that_matches_rotated_names_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"1\n")
    reading, clock = source(tmp_path / "a*")
    assert drain(reading) == [b"1"]
    path.rename(tmp_path / "a.jsonl.1")
    clock.now += 2
    assert drain(reading) == []


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("renamed", ["a.1.jsonl", "a.jsonl.1", "0-a.jsonl"])
def test_a_rotated_file_is_not_read_again_under_a_name_that_matches(
    tmp_path: Path, renamed: str, restart: bool
) -> None:
    path = tmp_path / "a.jsonl"
    positions: dict[str, Position] = {}
    append(path, b"1\n2\n")
    reading, clock = source(tmp_path / "*a*", positions=positions)
    assert drain(reading, positions) == [b"1", b"2"]
    append(path, b"3\n")
    path.rename(tmp_path / renamed)
    append(path, b"4\n")
    if restart:
        reading, clock = source(tmp_path / "*a*", positions=dict(positions))
    found = drain(reading, positions)
    assert found == [b"3", b"4"]
    for n in range(3):
        # Neither while it runs on nor after a restart.
        if n == 2:
            reading, clock = source(tmp_path / "*a*", positions=dict(positions))
        clock.now += 2
        assert drain(reading, positions) == []
    # A new file of that name is new.
    (tmp_path / renamed).unlink()
    append(tmp_path / "b", b"5\n6\n")
    (tmp_path / "b").rename(tmp_path / "b-a.jsonl")
    clock.now += 2
    assert drain(reading, positions) == [b"5", b"6"]
    assert all(not status.problem for status in reading.status())


def test_a_file_that_was_cut_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"1\n2\n3\n")
    reading, _ = source(path)
    drain(reading)
    path.write_bytes(b"4\n")
    assert drain(reading) == [b"4"]
    assert "was cut" in reading.status()[0].problem


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"1\n")
    positions: dict[str, Position] = {}
    drain(source(path)[0], positions)
    path.write_bytes(b"other\n")
    reading, _ = source(path, positions=positions)
    assert drain(reading) == [b"other"]
    assert "not there any more" in reading.status()[0].problem


def test_a_long_line_is_bad_and_the_next_ones_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"1\n" + b"x" * 3_500_000)
    reading, _ = source(path)
    assert drain(reading) == [b"1"]
    append(path, b"\n2\n")
    (batch,) = reading.read(10, 0.0)
    assert (batch.messages, [bad.reason for bad in batch.bad]) == ([], ["too long"])
    assert len(batch.bad[0].raw) <= 65_536
    assert drain(reading) == [b"2"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), max_size=30),
    st.integers(1, 6),
    st.booleans(),
)
def test_lines_at_every_border(lines: list[bytes], limit: int, last: bool) -> None:
    data = b"\n".join(lines)
    file = io.BytesIO(data)
    found: list[tuple[int, bytes]] = []
    bad: list[int] = []
    start = 0
    while True:
        got = next_lines(file, start, len(data), last=last, limit=limit)
        found += zip(got.places, got.messages, strict=True)
        bad += [event.place for event in got.bad]
        if got.end == start:
            break
        start = got.end
    expected, expected_bad, place = [], [], 0
    whole = lines if last else lines[:-1]
    for line in whole:
        if len(line) > limit:
            expected_bad.append(place)
        elif line.strip():
            expected.append((place, line))
        place += len(line) + 1
    assert (found, bad) == (expected, expected_bad)


@pytest.mark.parametrize("seed", range(8))
def test_any_course_of_events_gives_each_line_once(tmp_path: Path, seed: int) -> None:
    """Writes, rotations and restarts in random order."""
    rng = random.Random(seed)
    path = tmp_path / "a.jsonl"
    path.touch()
    positions: dict[str, Position] = {}
    reading, clock = source(path)
    written: list[bytes] = []
    found: list[bytes] = []
    stamp = 1_000_000_000
    for step in range(200):
        action = rng.choice(["write", "write", "read", "rotate", "restart"])
        if action == "write":
            line = b'{"n": %d}' % step
            append(path, line + b"\n")
            written.append(line)
        elif action == "rotate":
            path.rename(tmp_path / f"a.jsonl-{step:04d}")
            # The clock of a file system may be too coarse to tell their order.
            stamp += 1
            os.utime(tmp_path / f"a.jsonl-{step:04d}", (stamp, stamp))
            path.touch()
        elif action == "read":
            found += drain(reading, positions)
        elif written and found:
            # Read but not checkpointed: to be read again.
            reading.read(rng.choice([1, 100]), 0.0)
            reading.close()
            reading, clock = source(path, positions=positions)
    clock.now += 2
    found += drain(reading, positions)
    assert found == written
