"""How a stream comes to a run, piece by piece: into files, as posts, into topics."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import httpx

from streameval.errors import StoreError
from streameval.stream.progress import read_progress
from streameval.stream.store import read_store
from tests.kill_stream import Kind, Line

KINDS: tuple[Kind, ...] = ("predictions", "labels")
_ROTATE_EVERY = 15
"""Pieces between two rotations of a file."""


class Feed(Protocol):
    """One stream on its way to one run."""

    table: str
    """Of the configuration: where the run finds it."""

    def step(self, url: str | None) -> bool:
        """Feed a piece to the run that serves at ``url``; False: not now."""

    @property
    def left(self) -> int:
        """How many pieces are still to be fed."""

    @property
    def repeats(self) -> int:
        """How many pieces may have been fed twice."""


def pieces(lines: Sequence[Line], count: int, rng: random.Random) -> list[list[Line]]:
    """The lines in so many pieces of different lengths."""
    cuts = sorted(rng.sample(range(1, len(lines)), min(count, len(lines)) - 1))
    return [
        list(lines[start:end]) for start, end in zip([0, *cuts], [*cuts, len(lines)], strict=True)
    ]


class FilesFeed:
    """Appends to two files, with torn lines, and rotates them by renaming.

    Predictions are rotated as logrotate does (``.1`` is the youngest), labels
    get a date. Nothing is rotated before the store knows both files: what a
    name held before the first checkpoint nobody has promised to remember.
    """

    repeats = 0

    def __init__(self, directory: Path, store: Path, lines: list[Line], count: int, seed: int):
        self._paths = {kind: directory / f"{kind}.jsonl" for kind in KINDS}
        for path in self._paths.values():
            path.touch()
        self._store = store
        self._rng = random.Random(seed)
        self._pieces = pieces(lines, count, self._rng)
        self._next = 0
        self._torn = dict.fromkeys(KINDS, b"")
        self._rotated = 0
        self._known = False
        self.table = "[files]\n" + "".join(
            f"{kind} = [{json.dumps(str(path))}]\n" for kind, path in self._paths.items()
        )

    @property
    def left(self) -> int:
        return len(self._pieces) - self._next

    def step(self, url: str | None) -> bool:
        if self._next and self._next % _ROTATE_EVERY == 0 and not self._rotate():
            return False
        piece = self._pieces[self._next]
        self._next += 1
        for kind, path in self._paths.items():
            data = self._torn[kind] + b"".join(
                line.body + b"\n" for line in piece if line.kind == kind
            )
            # The end of the last line comes later, unless the file is moved away before.
            whole = not self.left or self._next % _ROTATE_EVERY == 0
            cut = len(data) if whole else self._rng.randrange(len(data) + 1)
            with path.open("ab") as file:
                file.write(data[:cut])
            self._torn[kind] = data[cut:]
        return True

    def _rotate(self) -> bool:
        if not self._known:
            self._known = _partitions(self._store) == len(KINDS)
            if not self._known:
                return False
        self._rotated += 1
        live = self._paths["predictions"]
        for number in range(self._rotated - 1, 0, -1):
            os.rename(f"{live}.{number}", f"{live}.{number + 1}")
        os.rename(live, f"{live}.1")
        os.rename(self._paths["labels"], f"{self._paths['labels']}-{20260100 + self._rotated}")
        return True


def _partitions(store: Path) -> int:
    """How many partitions a store has positions of."""
    with suppress(StoreError):
        opened = read_store(str(store))
        try:
            with opened.reading() as connection:
                return len(read_progress(connection))
        finally:
            opened.close()
    return 0


class PostsFeed:
    """Posts, each repeated until it is answered; ids make the repetition harmless.

    No post holds two different labels of one id: repeated, it would correct
    what its own second half had corrected.
    """

    table = "[http]\n"

    def __init__(self, lines: list[Line], count: int, seed: int) -> None:
        self._posts: list[tuple[str, bytes, int]] = []
        for piece in pieces(lines, count, random.Random(seed)):
            for kind in KINDS:
                self._cut(kind, [line.body for line in piece if line.kind == kind])
        self._next = 0
        self.repeats = 0

    def _cut(self, kind: Kind, bodies: list[bytes]) -> None:
        taken: list[bytes] = []
        ids: set[str] = set()
        for body in bodies:
            try:
                body.decode()
            except UnicodeDecodeError:
                self._posts.append((kind, body, 400))
                continue
            key = _id(body)
            if key in ids:
                self._posts.append((kind, b"\n".join(taken), 202))
                taken, ids = [], set()
            taken.append(body)
            if key is not None:
                ids.add(key)
        if taken:
            self._posts.append((kind, b"\n".join(taken), 202))

    @property
    def left(self) -> int:
        return len(self._posts) - self._next

    def step(self, url: str | None) -> bool:
        if url is None:
            return False
        kind, body, expected = self._posts[self._next]
        try:
            # A connection of its own: nobody is left to close one that a kill has cut.
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


class TopicsFeed:
    """Produces to two topics of four partitions, by key."""

    repeats = 0

    def __init__(self, broker: Any, name: str, lines: list[Line], count: int, seed: int) -> None:
        self._broker = broker
        self._pieces = pieces(lines, count, random.Random(seed))
        self._next = 0
        self._topics = {kind: f"{name}-{kind}" for kind in KINDS}
        for topic in self._topics.values():
            broker.make_topic(topic, 4)
        self.table = "[kafka]\n" + "".join(
            f'{kind} = "{topic}"\n' for kind, topic in self._topics.items()
        )
        self.table += f'[kafka.properties]\n"bootstrap.servers" = "{broker.bootstrap}"\n'

    @property
    def left(self) -> int:
        return len(self._pieces) - self._next

    def step(self, url: str | None) -> bool:
        piece = self._pieces[self._next]
        self._next += 1
        for kind, topic in self._topics.items():
            messages = [(line.key.encode(), line.body, -1) for line in piece if line.kind == kind]
            if messages:
                self._broker.send(topic, messages)
        return True
