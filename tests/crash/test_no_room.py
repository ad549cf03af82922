"""A full disk and a busy store: a run ends with an error or waits, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from streameval.service.config.load import load_settings
from streameval.service.run.service import run_service
from streameval.service.sources.inbox import Inbox
from tests.crash.kill_feeds import FilesFeed, PostsFeed
from tests.crash.kill_outcome import differences, outcome
from tests.crash.kill_runs import RUN, begin, finish, living, read_so_far, wait_for
from tests.crash.kill_stream import stream

_LINES = stream(11, 1_000)


@contextmanager
def small_disk(path: Path) -> Iterator[Callable[[], object]]:
    """A directory on a disk of 300 kB, or with a limit for files where this user may not mount;
    what is yielded makes it larger.
    """
    path.mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(path)]
    larger = ["mount", "-o", "remount,size=64m", str(path)]
    may_mount = os.geteuid() == 0 and shutil.which("mount") is not None
    mounted = may_mount and subprocess.run(mount).returncode == 0
    try:
        if mounted:
            yield lambda: subprocess.run(larger, check=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, before[1]))
            yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        if mounted:
            subprocess.run(["umount", "-l", str(path)], check=True)


def _to_the_end(directory: Path) -> dict[str, object]:
    """What a run in this process leaves that reads what is there to its end."""
    with contextlib.chdir(directory):
        run_service(load_settings("run.toml", []), until_end=True)
    return outcome(directory, retried=(directory / "run.db.inbox").exists())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What an undisturbed run of files leaves."""
    directory = tmp_path_factory.mktemp("whole")
    feed = FilesFeed(directory, directory / "run.db", _LINES, 1, 0)
    feed.step(None)
    begin(directory, feed.table, "files")
    return _to_the_end(directory)


def test_files_and_no_room_for_the_store(tmp_path: Path, whole: dict[str, object]) -> None:
    killed = tmp_path / "killed"
    killed.mkdir()
    feed = FilesFeed(killed, killed / "run.db", _LINES, 1, 0)
    feed.step(None)
    begin(killed, feed.table, "files")
    with small_disk(killed / "disk") as make_room:
        os.symlink("disk/run.db", killed / "run.db")
        ends = []
        for _ in range(2):
            with living(killed, *RUN, "--until-end") as life:
                life.expect(1)
                ends.append(life.said())
        make_room()
        found = _to_the_end(killed)
    for said in ends:
        last = said.splitlines()[-1]
        assert "Traceback" not in said
        assert re.search(r"run\.db: cannot be (written|opened): .*(full|disk)", last), said
    assert differences(whole, found) == []


def test_posts_and_no_room_for_them(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    begin(tmp_path / "whole", PostsFeed.table, "http")
    with closing(Inbox(tmp_path / "whole/run.db.inbox")) as inbox:
        for kind, body, status in PostsFeed(_LINES, 60, 0).posts:
            if status == 202:
                inbox.append(kind, body)
    expected = _to_the_end(tmp_path / "whole")
    killed = tmp_path / "killed"
    killed.mkdir()
    feed = PostsFeed(_LINES, 60, 0)
    begin(killed, feed.table, "http")
    with small_disk(killed / "disk") as make_room:
        os.symlink("disk/run.db", killed / "run.db")
        refused = 0
        for _ in range(2):
            with living(killed, *RUN) as life:
                while not life.ended() and refused < 20 and feed.left:
                    if (url := life.url()) is None:
                        time.sleep(0.01)
                    refused += url is not None and not feed.step(url)
                if not life.ended():
                    life.process.terminate()
                # It ends well if only the inbox had no room, else in words. While it ends by its
                # own error it handles no signal any more, so a late one ends it before them.
                code = life.process.wait(60)
                in_words = life.said().splitlines()[-1].startswith("streameval: ")
                assert code in (0, -signal.SIGTERM) or (in_words and code == 1), life.said()
                assert "Traceback" not in life.said()
                refused = 0
        assert feed.left
        make_room()
        finish(killed, feed, "http", len(_LINES))
        found = outcome(killed, retried=True)
    assert differences(expected, found) == []


def test_another_program_holds_the_store(tmp_path: Path, whole: dict[str, object]) -> None:
    """For less than the store waits; for longer: test_a_busy_database_is_reported."""
    held = tmp_path / "held"
    held.mkdir()
    feed = FilesFeed(held, held / "run.db", _LINES, 14, 0)  # none is rotated
    begin(held, feed.table, "files")
    with living(held, *RUN) as life:
        feed.step(None)
        wait_for(life, lambda: read_so_far(held) > 0)
        with closing(sqlite3.connect(held / "run.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            before = read_so_far(held)
            while feed.left > 5:
                feed.step(None)
            time.sleep(2.0)  # a hundred times what lies between two checkpoints
            assert read_so_far(held) == before
            other.execute("ROLLBACK")
        wait_for(life, lambda: read_so_far(held) > before)
        life.process.terminate()
        life.expect(0)
    finish(held, feed, "files", len(_LINES))
    assert differences(whole, outcome(held, retried=False)) == []
