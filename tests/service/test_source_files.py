"""Files that grow, rotate, shrink and appear: every line once, from any position on."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import ConfigError
from streameval.service.config.source_settings import FilesSettings
from streameval.service.sources import followed_file, rotation
from streameval.service.sources.file_lines import next_lines
from streameval.service.sources.files import FilesSource
from streameval.service.sources.followed_file import FollowedFile
from streameval.service.sources.known_files import KnownFiles, MatchKind
from streameval.service.sources.log_file import LogFile
from streameval.service.sources.raw import Position
from tests.crash.model_files import course
from tests.support.run import Clock, without_handles

OPENED = ExitStack()


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    with OPENED:
        yield


def source(
    *patterns: Path | str,
    positions: Mapping[str, Position] | None = None,
    follow: bool = True,
    **options: Any,
) -> tuple[FilesSource, Clock]:
    """A new one; with positions, after the end of those before it."""
    if positions is not None:
        OPENED.close()
    clock = Clock()
    chosen = FilesSettings(records=[str(p) for p in patterns], follow=follow)
    one = FilesSource(chosen, positions or {}, clock=clock, sleep=clock.sleep, **options)
    return OPENED.enter_context(closing(one)), clock


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


def test_files_are_known_once_and_the_last_copy_replaces_its_original(tmp_path: Path) -> None:
    noted, original, copy, other = (tmp_path / name for name in "abcd")
    known = KnownFiles(lambda path: False, lambda path: False)
    known.directories.add(tmp_path)
    fill(noted, 0, 20)
    for path in (original, copy, other):
        fill(path, 100, 20)
    with closing(LogFile(noted)) as a, closing(LogFile(original)) as b, closing(LogFile(copy)) as c:
        one = known.add(a.mark(0))
        known.update(one, a.mark(0))
        assert not known.changed
        assert known.add_unread(a, 9) is one
        assert (one.mark.offset, known.changed) == (9, True)
        known.add(b.mark(b.size)).log = b
        original.unlink()
        assert known.match(c).kind is MatchKind.COPY  # as the other is
        other.unlink()
        assert known.match(c).kind is MatchKind.REPLACEMENT


def test_labels_do_not_run_ahead_of_predictions_that_are_there(tmp_path: Path) -> None:
    for name, more in (("p", b', "score": 0.123456'), ("l", b"")):
        text = b"".join(b'{"id": "%06d"%s}\n' % (n, more) for n in range(150_000))
        (tmp_path / name).write_bytes(text)
    chosen = FilesSettings(
        predictions=[str(tmp_path / "p")], labels=[str(tmp_path / "l")], follow=False
    )
    reading = OPENED.enter_context(closing(FilesSource(chosen, {})))
    came = {"predictions": 0, "labels": 0}
    most = 0
    while batches := reading.read(20_000, 0.0):
        for batch in batches:
            came[batch.kind] += len(batch.messages)
        if came["predictions"] < 150_000:
            most = max(most, came["labels"] - came["predictions"])
    assert came == {"predictions": 150_000, "labels": 150_000}
    # Only the first megabyte of labels, whose number was unknown.
    assert most < (1 << 20) // 16 - (1 << 20) // 36 + 2


def test_a_file_that_is_not_there_or_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    with pytest.raises(ConfigError, match=r"files\.records: expected a file, got '.*b\.jsonl'"):
        source(path, follow=False)
    reading, clock = source(path)
    assert (reading.read(10, 0.2), clock.now) == ([], pytest.approx(0.2))
    append(path, b"1\n2")
    assert drain(reading) == [b"1"]
    ending, _ = source(path, follow=False)
    assert not ending.finished
    assert drain(ending) == [b"1", b"2"]
    assert (ending.finished, reading.finished) == (True, False)


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


def test_rotations_at_the_moments_of_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    append(path, b"0\n")
    reading, _ = source(path)
    found = drain(reading)
    rng = random.Random(1)
    look, replaced = rotation.rotated_from, FollowedFile._replaced
    lines = 1

    def rotate_now(share: float = 1) -> None:
        """Write, move away, and write again."""
        nonlocal lines
        if lines < 60 and rng.random() < share:
            append(path, b"%d\n" % lines)
            rotate(path, 1 + lines // 2)
            append(path, b"%d\n" % (lines + 1))
            lines += 2

    def looked(path: Path) -> list[rotation.RotatedFile]:
        seen = look(path)
        rotate_now(0.7)
        return seen

    def moved(file: FollowedFile) -> bool:
        rotate_now(0.3)
        return replaced(file)

    monkeypatch.setattr(followed_file, "rotated_from", looked)
    monkeypatch.setattr(FollowedFile, "_replaced", moved)
    while lines < 60:
        found += drain(reading)
    assert found == [b"%d" % n for n in range(lines)]


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


@settings(max_examples=60)
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
        found += zip(got.offsets, got.messages, strict=True)
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


# Identity: what was counted is not counted again, under whichever name


def lines(begin: int, count: int) -> list[bytes]:
    return [b'{"id": %d, "text": "some text"}' % n for n in range(begin, begin + count)]


def fill(path: Path, begin: int, count: int) -> None:
    append(path, b"".join(line + b"\n" for line in lines(begin, count)))


def compress(path: Path) -> Path:
    """A file compressed as gzip does: the time at which it was written is kept."""
    stat, archive = path.stat(), Path(f"{path}.gz")
    archive.write_bytes(gzip.compress(path.read_bytes()))
    os.utime(archive, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    path.unlink()
    return archive


class Log:
    """A log, and a run that reads it, which may be stopped and started."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "p.jsonl"
        self.positions: dict[str, Position] = {}
        self.found: list[bytes] = []
        self.number = 0

    def fill(self, count: int) -> None:
        """So many lines more."""
        fill(self.path, self.number, count)
        self.number += count

    def start(self, pattern: str = "p.jsonl") -> None:
        """Begin a run where the last one has ended, without reading."""
        self.reading, self.clock = source(self.directory / pattern, positions=self.positions)

    def read(self, pattern: str = "") -> list[bytes]:
        """Read what is there now, with a pattern in a new run; those lines."""
        if pattern:
            self.start(pattern)
        new = drain(self.reading, self.positions)
        self.found += new
        return new

    def look(self) -> list[bytes]:
        """The same, after a look at the names of the files."""
        self.clock.now += 2
        return self.read()

    def rename(self, name: str) -> Path:
        return self.path.rename(self.directory / name)

    @property
    def problems(self) -> list[str]:
        return [status.problem for status in self.reading.status() if status.problem]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@pytest.mark.parametrize(("restarted", "told"), [(False, "was cut"), (True, "not there any more")])
def test_what_was_lost_is_reported(log: Log, restarted: bool, told: str) -> None:
    log.fill(100)
    log.read("p.jsonl")
    log.path.write_bytes(b"")
    log.fill(200)
    assert log.read("p.jsonl" * restarted) == lines(100, 200)
    assert told in log.problems[0]


def test_compressed_by_zstandard_after_rotation(log: Log) -> None:
    log.fill(100)
    log.read("p.jsonl")
    log.reading.close()
    log.fill(50)
    whole = pyarrow.compress(log.path.read_bytes(), "zstd", asbytes=True)
    Path(f"{log.path}.1.zst").write_bytes(whole)
    log.path.unlink()
    log.fill(50)
    log.read("p.jsonl")
    assert (log.found, log.problems) == (lines(0, 200), [])


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.jsonl.zst", b"\x28\xb5\x2f\xfd\xff\xff\xff\xff", "cannot be read"),
        ("a.jsonl.lz4", b"\x04\x22\x4d\x181234", "LZ4"),
        ("a.jsonl.zip", b"PK\x03\x041234", "ZIP"),
        ("a.jsonl.gz", b"\x1f\x8b\x08\x00broken!!", "cannot be read"),
        ("a.jsonl.gz", b'{"id": 1}\n', "as the name says"),
    ],
)
def test_a_compressed_file_that_cannot_be_read_is_refused_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, data: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(data)
    reading, clock = source(tmp_path / "a*")
    for _ in range(100):
        assert drain(reading) == []
        clock.now += 2
    (status,) = reading.status()
    assert (status.partition, said in status.problem) == (f"files:{tmp_path / name}", True)
    assert len([record for record in caplog.records if name in record.getMessage()]) == 1
    (tmp_path / name).unlink()
    clock.now += 2
    drain(reading)
    assert reading.status() == []


@pytest.mark.parametrize("reused", [False, True])
def test_a_rotated_file_that_no_mark_knows_is_named(
    log: Log, caplog: pytest.LogCaptureFixture, reused: bool
) -> None:
    path = log.path
    fill(Path(f"{path}.1"), 50, 5)
    log.fill(5)
    log.read("p.jsonl")
    # What was there before the first file is not read, and need not be named.
    rotate(path, 2)
    log.fill(5)
    log.read()
    assert log.reading.status()[0].missed == ""
    if reused:
        # The inode is that of a counted file, which was deleted.
        Path(f"{path}.1").rename(f"{path}.7")
        os.truncate(f"{path}.7", 0)
    fill(Path(f"{path}.7"), 60, 5)
    rotate(path, 1 if reused else 3)
    log.fill(5)
    log.read()
    assert log.found == lines(0, 15)
    (named,) = [status.missed for status in log.reading.status()]
    assert named == "'p.jsonl.7' not read: by name and time older than what was read before"
    assert [record.getMessage() for record in caplog.records] == [f"{str(path)!a}: {named}"]


def test_files_are_named_without_a_handle_and_read_later(tmp_path: Path) -> None:
    for n in range(3):
        fill(tmp_path / f"{n}.jsonl", n * 10, 10)
    reading, clock = source(tmp_path / "*.jsonl", follow=False)
    reading._release()
    with without_handles():
        assert (drain(reading), reading.finished) == ([], True)
        problems = {status.problem for status in reading.status() if status.unopened}
    assert problems == {"cannot be opened: Too many open files"}
    clock.now += 2
    assert sorted(drain(reading)) == sorted(lines(0, 30))
    assert not any(status.problem for status in reading.status())


def test_a_file_whose_disk_fails_keeps_no_other_from_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = LogFile.begin

    def failing(log: LogFile) -> bytes:
        if log.path.name == "0.jsonl":
            raise OSError(errno.EIO, "Input/output error")
        return begin(log)

    monkeypatch.setattr(LogFile, "begin", failing)
    for n in range(3):
        fill(tmp_path / f"{n}.jsonl", n * 10, 10)
    reading, clock = source(tmp_path / "*.jsonl")
    assert sorted(drain(reading)) == lines(10, 20)
    (problem,) = [status.problem for status in reading.status() if status.unopened]
    assert problem == "cannot be opened: Input/output error"
    monkeypatch.undo()
    clock.now += 2
    assert drain(reading) == lines(0, 10)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
@pytest.mark.parametrize("pattern", ["p.jsonl", "*.jsonl"])
@pytest.mark.parametrize("denied", ["file", "directory"])
def test_what_may_not_be_opened_is_not_read_to_its_end(
    tmp_path: Path, pattern: str, denied: str
) -> None:
    directory = tmp_path / "logs"
    directory.mkdir()
    fill(directory / "p.jsonl", 0, 10)
    (directory / "p.jsonl" if denied == "file" else directory).chmod(0)
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    os.seteuid(65534)
    try:
        reading, _ = source(directory / pattern, follow=False)
        assert (drain(reading), reading.finished) == ([], True)
        (status,) = [status for status in reading.status() if status.unopened]
    finally:
        os.seteuid(0)
    assert status.problem == "cannot be opened: Permission denied"


def test_a_position_of_an_older_release(log: Log) -> None:
    log.fill(100)
    data = log.path.read_bytes()
    append(Path(f"{log.path}-1"), b"x\ny\n")

    def digest(part: bytes) -> str:
        return hashlib.blake2b(part, digest_size=8).hexdigest()

    name = f"files:{log.path}"
    log.positions[name] = {
        "offset": len(data),
        "head": digest(data.partition(b"\n")[0]),
        "tail": digest(data[len(data) - 256 :]),
        "past": f"4:{digest(b'x')}:{digest(b'x' + bytes([10]) + b'y' + bytes([10]))}",
    }
    log.fill(5)
    assert log.read("p.jsonl*") == lines(100, 5)
    assert log.read("p.jsonl*") == []
    assert "past" not in log.positions[name]
    assert log.positions["files:"]["past"]


def test_a_fifo_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    append(tmp_path / "b.jsonl", b"1\n")
    reading, clock = source(tmp_path / "*.jsonl")
    assert drain(reading) == [b"1"]
    exact, _ = source(tmp_path / "a.jsonl")
    assert drain(exact) == []
    for one in (reading, exact):
        problems = [status.problem for status in one.status() if "a.jsonl" in status.partition]
        assert "regular file" in problems[0]
    (tmp_path / "a.jsonl").unlink()
    append(tmp_path / "a.jsonl", b"2\n")
    clock.now += 2
    assert drain(reading) == drain(exact) == [b"2"]
    assert exact.status()[0].problem == ""


def test_many_files_need_few_handles_and_linear_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, opened = 100, []
    for n in range(count):
        fill(tmp_path / f"{n}.jsonl", 10 * n, 2)
    original = LogFile.__init__

    def counted(log: LogFile, path: Path) -> None:
        opened.append(path)
        original(log, path)

    monkeypatch.setattr(LogFile, "__init__", counted)
    before = len(os.listdir("/proc/self/fd"))
    positions: dict[str, Position] = {}
    reading, clock = source(tmp_path / "*.jsonl", handles=20)
    assert len(drain(reading, positions)) == 2 * count
    assert len(os.listdir("/proc/self/fd")) - before <= 21
    assert len(opened) <= 3 * count
    opened.clear()
    for _ in range(20):
        clock.now += 2
        assert drain(reading) == opened == []
    fill(tmp_path / "7.jsonl", 100_000, 1)
    clock.now += 2
    assert drain(reading, positions) == lines(100_000, 1)
    again, _ = source(tmp_path / "*.jsonl", positions=positions)
    assert drain(again) == []


def test_many_rotated_files_that_wait_for_a_reader_cost_few_listings(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.fill(100)
    log.read("p.jsonl*")
    log.reading.close()
    rotations = 60
    for n in range(1, rotations + 1):
        log.rename(f"p.jsonl-{20260000 + n}")
        log.fill(100)
    listings = 0
    original = os.listdir

    def counted(directory: str | os.PathLike[str] = ".") -> list[str]:
        nonlocal listings
        listings += os.fspath(directory) == str(log.directory)
        return original(directory)

    monkeypatch.setattr(os, "listdir", counted)
    log.start("p.jsonl*")
    # The first look: not one for each file that waits.
    assert listings < 20
    assert log.read() == lines(100, 100 * rotations)


def test_a_file_that_begins_as_a_lost_one_and_is_shorter_is_refused(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    log.fill(100)
    log.read("*.jsonl")
    log.path.unlink()
    fill(log.directory / "b.jsonl", 0, 60)
    assert log.read("*.jsonl") == []
    assert any("may be a copy" in problem for problem in log.problems)
    assert "may be a copy" in caplog.text
    fill(log.directory / "b.jsonl", 60, 50)
    assert (log.look(), log.problems) == (lines(100, 10), [])


def test_a_copy_that_takes_the_name_of_a_file_that_is_read(log: Log) -> None:
    first = log.directory / "p.1.jsonl"
    fill(first, 0, 10)
    log.path.touch()
    log.read("*.jsonl")
    fill(log.path, 10, 10)
    first.rename(log.directory / "p.2.jsonl")
    shutil.copy(log.path, first)
    # Each of the two is a copy of the other one; a file that is new has all of them looked at.
    fill(log.directory / "a.jsonl", 20, 10)
    log.look()
    os.truncate(log.path, 0)
    for _ in range(3):
        log.look()
    assert sorted(log.found) == sorted(lines(0, 30))


@pytest.mark.parametrize("seeds", [range(start, start + 20) for start in (0, 20, 40, 31200)])
def test_any_course_over_any_scheme_gives_each_line_once(tmp_path: Path, seeds: range) -> None:
    for seed in seeds:
        directory = tmp_path / str(seed)
        directory.mkdir()
        wrong, _ = course(seed, directory, 25)
        assert not wrong, f"seed {seed}: {wrong}"
