"""How a stream reaches a run, piece by piece: through files, posts or topics."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx

from streameval.errors import StoreError
from streameval.service.sources.raw import Position
from streameval.service.store.positions import read_positions
from streameval.service.store.store import read_store
from tests.crash.kill_stream import Kind, Line

KINDS: tuple[Kind, ...] = ("predictions", "labels")
_ROTATE_EVERY, _ROTATE_PATTERN_EVERY = 15, 3
"""Pieces between two rotations of a file."""

_PLAIN = 3
"""Rotated files of a kind that are not compressed."""


class Feed:
    """One stream on its way to one run."""

    table: str
    """Of the configuration: where the run finds it."""
    repeats = 0
    """How many pieces may have been fed twice."""
    _next = 0

    def __init__(self, pieces: Sequence[Any]) -> None:
        self._pieces = pieces

    def step(self, url: str | None) -> bool:
        """Feed a piece to the run that serves at ``url``; False: not now."""
        raise NotImplementedError

    @property
    def left(self) -> int:
        """How many pieces are still to be fed."""
        return len(self._pieces) - self._next


def pieces(lines: Sequence[Line], count: int, rng: random.Random) -> list[list[Line]]:
    """The lines in so many pieces of different lengths."""
    cuts = sorted(rng.sample(range(1, len(lines)), min(count, len(lines)) - 1))
    return [
        list(lines[start:end]) for start, end in zip([0, *cuts], [*cuts, len(lines)], strict=True)
    ]


class Feeding:
    """Feeds from a thread, until so many pieces are left, for as long as the block lasts."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.stop_at = feed.left
        self._ended = False
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Feeding:
        self._all = self._pool.submit(self._feed_all)
        return self

    def _feed_all(self) -> None:
        while self._feed.left and not self._ended:
            if self._feed.left > self.stop_at:
                self._feed.step(None)
            else:
                time.sleep(0.01)

    def check(self) -> None:
        """Raise what the thread has raised."""
        if self._all.done():
            self._all.result()

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._pool.shutdown()


class FilesFeed(Feed):
    """Appends to two files, with torn lines, and rotates them.

    Predictions are rotated as logrotate does (``.1`` is the youngest), labels get a date; every
    scheme is in ``model_files``. With a pattern every second rotation copies and truncates, and
    files are compressed some rotations later. Nothing is rotated before the store knows both files.
    """

    def __init__(
        self,
        directory: Path,
        store: Path | str,
        lines: list[Line],
        count: int,
        seed: int,
        *,
        pattern: bool = False,
    ):
        self._paths = {kind: directory / f"{kind}.jsonl" for kind in KINDS}
        for path in self._paths.values():
            path.touch()
        self._store = store
        self._rng = random.Random(seed)
        super().__init__(pieces(lines, count, self._rng))
        self._torn = dict.fromkeys(KINDS, b"")
        self._pattern = pattern
        self._every = _ROTATE_PATTERN_EVERY if pattern else _ROTATE_EVERY
        self.rotations: Counter[str] = Counter()
        """By kind and scheme."""
        self._known = False
        names = {kind: str(path) + "*" * pattern for kind, path in self._paths.items()}
        self.table = "[files]\n" + "".join(
            f"{kind} = [{json.dumps(name)}]\n" for kind, name in names.items()
        )

    def step(self, url: str | None) -> bool:
        if self._next and self._next % self._every == 0 and not self._rotate():
            return False
        piece = self._pieces[self._next]
        self._next += 1
        for kind, path in self._paths.items():
            data = self._torn[kind] + b"".join(
                line.body + b"\n" for line in piece if line.kind == kind
            )
            # The end of the last line comes later, unless the file is moved away before.
            whole = not self.left or self._next % self._every == 0
            cut = len(data) if whole else self._rng.randrange(len(data) + 1)
            with path.open("ab") as file:
                file.write(data[:cut])
            self._torn[kind] = data[cut:]
        return True

    def _rotate(self) -> bool:
        self._known = self._known or len(_positions(self._store)) >= len(KINDS)
        if not self._known:
            return False
        for kind, path in self._paths.items():
            if self._pattern and path.stat().st_size:
                self._compress(kind)
            if path.stat().st_size or not self._pattern:
                self._move(kind, path)
        return True

    def _move(self, kind: str, path: Path) -> None:
        number = self.rotations.total() + 1
        if self._pattern and self._next // self._every % 2:
            scheme = "copytruncate"
            shutil.copy(path, f"{path}-copy{number:06}")
            os.truncate(path, 0)
        elif kind == "labels":
            scheme = "dates"
            os.rename(path, f"{path}-{20260000 + number}")
        else:
            scheme = "numbers"
            last = 1
            while any(Path(f"{path}.{last}{end}").exists() for end in ("", ".gz")):
                last += 1
            for n, end in itertools.product(range(last - 1, 0, -1), ("", ".gz")):
                if Path(f"{path}.{n}{end}").exists():
                    os.rename(f"{path}.{n}{end}", f"{path}.{n + 1}{end}")
            os.rename(path, f"{path}.1")
        self.rotations[f"{kind} {scheme}"] += 1

    def _compress(self, kind: str) -> None:
        """One rotated file, some rotations after it was moved."""
        plain = [
            path
            for path in self._paths[kind].parent.glob(f"*{kind}*")
            if path not in self._paths.values() and path.suffix != ".gz"
        ]
        if len(plain) > _PLAIN:
            path = min(plain, key=lambda one: one.stat().st_mtime_ns)
            stat = path.stat()
            with gzip.open(f"{path}.gz", "wb") as file:
                file.write(path.read_bytes())
            os.utime(f"{path}.gz", ns=(stat.st_atime_ns, stat.st_mtime_ns))
            path.unlink()
            self.rotations[f"{kind} compressed"] += 1


def _positions(store: Path | str) -> dict[str, Position]:
    """What a store says of how far each partition was read."""
    with (
        suppress(StoreError),
        closing(read_store(str(store))) as opened,
        opened.reading() as connection,
    ):
        return {name: one.position for name, one in read_positions(connection).items()}
    return {}


class PostsFeed(Feed):
    """Posts, each repeated until it is answered; ids make the repetition harmless.

    No post holds two different labels of one id: repeated, it would correct
    what its own second half had corrected.
    """

    table = "[http]\n"

    def __init__(self, lines: list[Line], count: int, seed: int) -> None:
        self.posts: list[tuple[str, bytes, int]] = []
        super().__init__(self.posts)
        for piece in pieces(lines, count, random.Random(seed)):
            for kind in KINDS:
                self._cut(kind, [line.body for line in piece if line.kind == kind])

    def _cut(self, kind: Kind, bodies: list[bytes]) -> None:
        taken: list[bytes] = []
        ids: set[str] = set()
        for body in bodies:
            try:
                body.decode()
            except UnicodeDecodeError:
                self.posts.append((kind, body, 400))
                continue
            key = _id(body)
            if key in ids:
                self.posts.append((kind, b"\n".join(taken), 202))
                taken, ids = [], set()
            taken.append(body)
            if key is not None:
                ids.add(key)
        if taken:
            self.posts.append((kind, b"\n".join(taken), 202))

    def step(self, url: str | None) -> bool:
        if url is None:
            return False
        kind, body, expected = self.posts[self._next]
        try:
            # A connection of its own: one that a kill has cut is closed by no other code.
            with httpx.Client(timeout=20, verify=False) as client:
                answer = client.post(
                    f"{url}/v1/{kind}",
                    content=body,
                    headers={"content-type": "application/x-ndjson"},
                )
        except httpx.ConnectError:
            return False  # it was never there
        except httpx.HTTPError:
            self.repeats += 1
            return False
        if answer.status_code == 503:
            return False  # no room now
        assert answer.status_code == expected, (answer.status_code, answer.text)
        self._next += 1
        return True


def _id(body: bytes) -> str | None:
    try:
        record: Any = json.loads(body)
        return str(record["id"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


class TopicsFeed(Feed):
    """Produces to two topics, by key."""

    def __init__(
        self, broker: Any, lines: list[Line], count: int, seed: int, partitions: int = 4
    ) -> None:
        self._broker = broker
        super().__init__(pieces(lines, count, random.Random(seed)))
        now = time.time_ns()
        self._topics = {kind: f"killed-{now}-{kind}" for kind in KINDS}
        for topic in self._topics.values():
            broker.make_topic(topic, partitions)
        self.table = "[kafka]\n" + "".join(
            f'{kind} = "{topic}"\n' for kind, topic in self._topics.items()
        )
        self.table += f'[kafka.properties]\n"bootstrap.servers" = "{broker.bootstrap}"\n'

    def step(self, url: str | None) -> bool:
        piece = self._pieces[self._next]
        self._next += 1
        for kind, topic in self._topics.items():
            messages = [(line.key.encode(), line.body, -1) for line in piece if line.kind == kind]
            if messages:
                self._broker.send(topic, messages)
        return True
