"""Any course of writes, rotations, stops and kills over files gives each line once.

    python -m tests.crash.model_files --cases 5000 --seed 0

A case is a directory with one or two logs, a pattern, and a course of random actions: append, a
torn line, rotation under each naming scheme, copy and truncate, compression, another name for a
rotated file, deletion, look, checkpoint, stop, start, and kill (what was read since the last
checkpoint is forgotten). In half of the cases the tools that compress, copy and restore do not keep
the time of a file. In the end each line that was written has been counted once, those of a log
whose rotated names begin with its own in their order. A
line is missing only if its file was deleted before it was counted, or if a loss was told.
"""

from __future__ import annotations

import bz2
import gzip
import logging
import lzma
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import typer

from streameval.service.config.source_settings import FilesSettings
from streameval.service.sources.file_marks import is_same, mark_at
from streameval.service.sources.files import FilesSource
from streameval.service.sources.raw import Position

PATTERNS = ("{log}", "{log}*", "*", "*p.jsonl*", "*.jsonl")
SIBLINGS = ("numbers", "delayed", "dates", "counters", "times")
"""Their names begin with the log's; delayed: the youngest is not compressed."""
SCHEMES = (*SIBLINGS, "prefix", "infix", "infix numbers")
_COMPRESS: dict[str, Any] = {".gz": gzip, ".bz2": bz2, ".xz": lzma}
ACTIONS = {
    "append": 10,
    "torn": 3,
    "rotate": 6,
    "copytruncate": 3,
    "copy": 1,
    "compress": 3,
    "restore": 1,
    "rename": 1,
    "delete": 0.5,
    "poll": 8,
    "look": 4,
    "checkpoint": 4,
    "stop": 2,
    "start": 4,
    "kill": 3,
    "outage": 3,
}


class Told(logging.Handler):
    """Losses and refusals in the log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.copies = False
        """Whether different files may hold the same."""
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        copy = record.getMessage().endswith("is not counted")
        if record.levelno == logging.INFO and not (copy and self.copies):
            return
        self.lines.append(record.getMessage())


class Model:
    """One case."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.directory = directory
        self.logs = [
            directory / name for name in ("p.jsonl", "a-p.jsonl")[: self.rng.choice([1, 1, 2])]
        ]
        pattern = self.rng.choice(PATTERNS)
        self.patterns = sorted({str(directory / pattern.format(log=log.name)) for log in self.logs})
        self.exact = pattern == "{log}"
        self.scheme = {log: self.rng.choice(SCHEMES) for log in self.logs}
        self.header = self.rng.random() < 0.2
        self.long = self.rng.random() < 0.3
        self.handles = self.rng.choice([None, 1])
        self.keeps_times = self.rng.random() < 0.5
        self.source: FilesSource | None = None
        self.now = 0.0
        self.stamp = 1_700_000_000_000_000_000
        self.number = 0
        self.written: Counter[bytes] = Counter()
        self.rests: dict[Path, bytes] = {}
        self.positions: dict[str, Position] = {}
        self.counted: Counter[bytes] = Counter()
        self.read: Counter[bytes] = Counter()
        self.read_positions: dict[str, Position] = {}
        self.deleted: Counter[bytes] = Counter()
        self.rotated: dict[Path, Path] = {}
        """Rotated file -> its log."""
        self.seen: set[Path] = set()
        self.fresh: set[Path] = set()
        """Logs that have not been cut or moved since a checkpoint knew their content."""
        self.log_of: dict[bytes, Path] = {}
        self.has_order = True
        """Whether each rotated file has a name that places it among the others."""
        self.disordered: list[bytes] = []
        """Lines that were read after later ones of their log."""
        self.newest: dict[Path, int] = {}
        self.counted_newest: dict[Path, int] = {}
        self.lost: set[str] = set()
        """What partitions said that they lost or refused."""

    # The programs that write

    def touch(self, path: Path) -> None:
        self.stamp += 1_000_000_000
        os.utime(path, ns=(self.stamp, self.stamp))

    def line(self, log: Path) -> bytes:
        self.number += 1
        text = b'{"%d": 1}' % self.number
        self.log_of[text] = log
        if self.long:
            text += b" " * self.rng.choice([0, 50, 700, 2000])
        self.written[text] += 1
        return text

    def write(self, path: Path, data: bytes) -> None:
        with path.open("ab") as file:
            file.write(data)
        self.touch(path)

    def append(self) -> None:
        log = self.rng.choice(self.logs)
        if self.header and not (log.exists() and log.stat().st_size):
            self.written[b'{"header": 1}'] += 1
            self.write(log, b'{"header": 1}\n')
        self.whole(log)
        self.write_lines(log, self.rng.choice([1, 1, 2, 5]))

    def write_lines(self, log: Path, count: int) -> None:
        for _ in range(count):
            self.write(log, self.line(log) + b"\n")

    def torn(self) -> None:
        log = self.rng.choice(self.logs)
        if log in self.rests or not log.exists():
            return
        line = self.line(log)
        cut = self.rng.randrange(1, len(line) + 1)
        self.rests[log] = line[cut:] + b"\n"
        self.write(log, line[:cut])

    def whole(self, log: Path) -> None:
        if log in self.rests:
            self.write(log, self.rests.pop(log))

    def name(self, log: Path) -> Path:
        """A free name for a rotated file; numbers go up."""
        self.number += 1
        n = self.number
        stem = log.name.removesuffix(".jsonl")
        scheme = self.scheme[log]
        if "numbers" in scheme or scheme == "delayed":
            begin, end = (stem, ".jsonl") if scheme == "infix numbers" else (log.name, "")
            self.shift(lambda k: [f"{begin}.{k}{end}{packed}" for packed in ("", *_COMPRESS)])
            return log.with_name(f"{begin}.1{end}")
        names = {
            "dates": f"{log.name}-{20260000 + n}",
            "times": f"{log.name}.2026-01-{n // 60 + 1:02d}_12-{n % 60:02d}",
            "counters": f"{log.name}-20260101.{n}",
            "prefix": f"old-{n}-{log.name}",
            "infix": f"{stem}.{20260000 + n}.jsonl",
        }
        return log.with_name(names[scheme])

    def shift(self, names: Callable[[int], list[str]]) -> None:
        last = 1
        while any((self.directory / name).exists() for name in names(last)):
            last += 1
        for k in range(last, 1, -1):
            for old, new in zip(names(k - 1), names(k), strict=True):
                if (self.directory / old).exists():
                    self.move(self.directory / old, self.directory / new)

    def move(self, old: Path, new: Path) -> None:
        os.rename(old, new)
        if old in self.rotated:
            self.rotated[new] = self.rotated.pop(old)

    def is_matched(self, path: Path) -> bool:
        return any(fnmatchcase(str(path), pattern) for pattern in self.patterns)

    def is_sibling(self, path: Path, log: Path) -> bool:
        rest = path.name.removeprefix(log.name)
        return rest != path.name and rest[:1] in ".-_"

    def may_leave(self, log: Path, name: Path, *, moved: bool) -> bool:
        """Under a name that is not looked at, a file is found only if its content was known."""
        if self.source is not None and self.rng.random() < 0.3:
            self.settle()
        if self.is_matched(name):
            return True
        self.settle()
        # The file of a known log that was moved beside it is told by its name and age.
        return log in self.fresh or (moved and log in self.seen and self.is_sibling(name, log))

    def settle(self) -> None:
        if self.source is not None:
            self.look()
            self.poll(50)
            self.checkpoint()

    def probe(self, log: Path) -> Path:
        """A name as the log's scheme makes them."""
        if self.scheme[log] == "prefix":
            return log.with_name(f"old-1-{log.name}")
        if self.scheme[log].startswith("infix"):
            return log.with_name(f"{log.name.removesuffix('.jsonl')}.1.jsonl")
        return log.with_name(f"{log.name}.1")

    def taken(self, *, moved: bool) -> tuple[Path, Path] | None:
        """A log that may be rotated, and the name that it is moved or copied to."""
        log = self.rng.choice(self.logs)
        if not log.exists() or not log.stat().st_size:
            return None
        self.whole(log)
        if not self.may_leave(log, self.probe(log), moved=moved):
            return None
        name = self.name(log)
        self.fresh.discard(log)
        self.rotated[name] = log
        return log, name

    def rotate(self) -> None:
        if (taken := self.taken(moved=True)) is None:
            return
        log, name = taken
        os.rename(log, name)
        if self.rng.random() < 0.6:
            log.touch()
            self.touch(log)

    def copytruncate(self) -> None:
        if (taken := self.taken(moved=False)) is None:
            return
        log, name = taken
        shutil.copy(log, name)
        self.touch(name)
        two = log.read_bytes().count(b"\n") >= 2
        if self.source is not None and two and self.rng.random() < 0.3:
            self.look()
        os.truncate(log, 0)
        self.touch(log)
        if self.rng.random() < 0.5:
            self.write_lines(log, self.rng.choice([1, 20]))

    def copy(self) -> None:
        """A backup beside the log, which is not cut."""
        log = self.rng.choice(self.logs)
        # One line has no identity: two files may hold it.
        if not log.exists() or log.read_bytes().count(b"\n") < 2:
            return
        name = log.with_name(f"{log.name}.backup{self.number}")
        if name.exists():
            return
        self.whole(log)
        self.has_order = False
        shutil.copy(log, name)
        self.touch(name)

    def compress(self) -> None:
        files = [
            path
            for path, log in self.rotated.items()
            if path.suffix not in _COMPRESS
            and not (self.scheme[log] == "delayed" and path.suffix == ".1")
        ]
        if not files:
            return
        path = self.rng.choice(files)
        end = self.rng.choice(list(_COMPRESS))
        new = path.with_name(path.name + end)
        data = _COMPRESS[end].compress(path.read_bytes())
        cut = len(data) // 2
        new.write_bytes(data[:cut])
        if self.rng.random() < 0.3 and self.source is not None:
            self.look()
        self.write(new, data[cut:])
        stat = path.stat()
        if self.keeps_times:
            os.utime(new, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
        if self.rng.random() < 0.3 and self.source is not None:
            self.look()
        if self.is_matched(path) and not self.is_matched(new):
            self.deleted.update(path.read_bytes().split(b"\n"))
        path.unlink()
        self.rotated[new] = self.rotated.pop(path)

    def restore(self) -> None:
        """A copy in place of a rotated file, as after a restored backup."""
        if not self.rotated:
            return
        path = self.rng.choice(list(self.rotated))
        if path.read_bytes().count(b"\n") < 2:
            return
        self.settle()
        copy = self.directory / "restored"
        shutil.copy2(path, copy)
        if not self.keeps_times:
            self.touch(copy)
        os.replace(copy, path)

    def rename(self) -> None:
        """Another name for a rotated file, which is still looked at if it was before."""
        # Without its time and the name of its scheme it has no place among the others.
        if not self.rotated or not self.keeps_times:
            return
        path = self.rng.choice(list(self.rotated))
        end = path.suffix if path.suffix in _COMPRESS else ""
        log = self.rotated[path]
        if self.is_matched(path) and not self.is_matched(log.with_name(f"{log.name}-again{end}")):
            return
        self.number += 1
        new = log.with_name(f"{log.name}-again{self.number}{end}")
        self.has_order = False
        self.move(path, new)

    def delete(self) -> None:
        if not self.rotated:
            return
        path = self.rng.choice(list(self.rotated))
        data = path.read_bytes()
        if path.suffix in _COMPRESS:
            data = _COMPRESS[path.suffix].decompress(data)
        self.deleted.update(data.split(b"\n"))
        path.unlink()
        del self.rotated[path]

    # The run

    def start(self) -> None:
        if self.source is not None:
            return
        self.read = Counter(self.counted)
        self.newest = dict(self.counted_newest)
        self.read_positions = dict(self.positions)
        self.source = FilesSource(
            FilesSettings(records=self.patterns),
            dict(self.positions),
            clock=lambda: self.now,
            sleep=lambda seconds: None,
            handles=self.handles,
        )
        # As a run does, which stores where its files begin at once.
        self.poll(1)
        self.checkpoint()

    def poll(self, rounds: int | None = None) -> None:
        if self.source is None:
            return
        rounds = rounds or self.rng.choice([1, 2, 50])
        for _ in range(rounds):
            batches = self.source.read(10_000, 0.0)
            for batch in batches:
                self.read.update(batch.messages)
                self.note_order(batch.messages)
                assert not batch.bad
                self.read_positions[batch.partition] = batch.next
            if not batches:
                break

    def note_order(self, messages: list[bytes]) -> None:
        for line in messages:
            log = self.log_of.get(line.strip())
            if log is not None and self.scheme[log] in SIBLINGS:
                number = int(line.split(b'"')[1])
                if number < self.newest.get(log, 0):
                    self.disordered.append(line)
                self.newest[log] = max(number, self.newest.get(log, 0))

    def look(self) -> None:
        self.now += 1.5
        self.poll()

    def checkpoint(self) -> None:
        if self.source is None:
            return
        self.counted = Counter(self.read)
        self.counted_newest = dict(self.newest)
        self.positions = dict(self.read_positions)
        marks = [mark_at(p) for p in self.positions.values() if "head" in p]
        for log in self.logs:
            with suppress(FileNotFoundError), log.open("rb") as file:
                size = log.stat().st_size
                if any(mark.length and is_same(file, size, mark) for mark in marks):
                    self.fresh.add(log)
                    self.seen.add(log)

    def stop(self) -> None:
        self.checkpoint()
        self.kill()

    def kill(self) -> None:
        if self.source is not None:
            self.lost |= {
                text for one in self.source.status() for text in (one.problem, one.missed) if text
            }
            self.source.close()
            self.source = None

    def outage(self) -> None:
        """Rotations while nothing reads."""
        self.rng.choice([self.stop, self.kill])()
        for _ in range(self.rng.choice([1, 2, 3])):
            self.append()
            self.rng.choice([self.rotate, self.rotate, self.copytruncate])()
        for _ in range(self.rng.choice([0, 1, 2])):
            self.rng.choice([self.compress, self.restore])()

    def act(self) -> None:
        names, weights = list(ACTIONS), list(ACTIONS.values())
        action = self.rng.choices(names, weights)[0]
        getattr(self, action)()

    def end(self) -> None:
        """Read to the end, twice."""
        for log in self.logs:
            self.whole(log)
        for _ in range(2):
            self.start()
            for _ in range(4):
                self.look()
                self.poll(1000)
            self.stop()


def course(seed: int, directory: Path, steps: int) -> tuple[list[str], bool]:
    """What went wrong in a case, and whether a loss was told."""
    told = Told()
    log = logging.getLogger("streameval.service.sources")
    propagate, log.propagate = log.propagate, False
    log.addHandler(told)
    log.setLevel(logging.INFO)
    model = Model(directory, seed)
    told.copies = model.header
    try:
        model.append()
        model.start()
        for _ in range(steps):
            model.act()
        model.end()
    finally:
        model.kill()
        log.removeHandler(told)
        log.propagate = propagate
        log.setLevel(logging.NOTSET)
    wrong = []
    more = model.counted - model.written
    missing = model.written - model.counted
    silent = missing - model.deleted
    if more:
        wrong.append(f"counted more than once: {sorted(more)[:5]}")
    if silent and not (told.lines or model.lost):
        wrong.append(f"missing, and no loss was told: {sorted(silent)[:5]}")
    if model.disordered and model.has_order and not (silent or told.lines or model.lost):
        wrong.append(f"read after later ones: {model.disordered[:5]}")
    if wrong:
        wrong += [
            f"{model.patterns} {list(model.scheme.values())} handles={model.handles}",
            *told.lines,
        ]
    return [line[:300] for line in wrong], bool(silent)


def main(cases: int = 5000, steps: int = 25, seed: int = 0) -> None:
    """The command; ends with 1 when a case went wrong."""
    failed = told = 0
    for number in range(seed, seed + cases):
        with tempfile.TemporaryDirectory() as directory:
            wrong, lost = course(number, Path(directory), steps)
        told += lost
        if wrong:
            failed += 1
            print(f"seed {number}:", *wrong, sep="\n  ", flush=True)
    print(f"{cases} cases of {steps} actions: {failed} wrong, {told} with a told loss")
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    typer.run(main)
