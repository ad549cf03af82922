"""Backups: of one moment, also under load; a restore is all or nothing.

``python -m tests.crash.test_backup`` takes 200 backups under load.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import streameval as se
from streameval.errors import StoreError
from streameval.service.config.load import load_settings
from streameval.service.run.service import run_service
from streameval.service.run.worker import Runner
from streameval.service.sources import inbox as inbox_module
from streameval.service.store.sqlite import inbox_of
from streameval.service.store.state_rows import merged_windows
from streameval.service.store.store import open_store, read_store
from streameval.service.upkeep.backup import back_up, restore
from streameval.service.upkeep.check import check_store
from tests.crash.store_damage import answers

CONFIG = """
[evaluator]
slices = ["who"]
[fields]
score = "score"
[checkpoint]
every = "20ms"
[http]
[serve]
listen = "127.0.0.1:0"
"""

_POSTERS = 3


class Posters:
    """Threads that post record after record, each the next when the last one was answered."""

    def __init__(self, url: str) -> None:
        self.sent = [0] * _POSTERS
        self.answered = [0] * _POSTERS
        self._url = url.rstrip("/") + "/v1/predictions"
        self.progress = threading.Event()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._post, args=(who,)) for who in range(_POSTERS)
        ]

    def _post(self, who: int) -> None:
        while not self._stopping:
            self.sent[who] += 1
            body = json.dumps(event(who, self.sent[who])).encode()
            request = urllib.request.Request(
                self._url, body, {"Content-Type": "application/x-ndjson"}
            )
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert answer.status == 202
            self.answered[who] += 1
            self.progress.set()

    def __enter__(self) -> Posters:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        for thread in self._threads:
            thread.join()


def event(who: int, number: int) -> dict[str, Any]:
    """The posts of a poster are distinct events: the state shows which of them it counted."""
    return {"who": str(who), "y_true": number % 3 == 0, "score": number / 2**20}


@contextmanager
def running(directory: Path) -> Iterator[str]:
    """A run that takes posts into an inbox of tiny segments; its address."""
    (directory / "run.toml").write_text(f'store = "{directory}/run.db"\n{CONFIG}')
    ready = threading.Event()
    found: list[tuple[Runner, str]] = []

    def started(runner: Runner, url: str | None) -> None:
        assert url is not None
        found.append((runner, url))
        ready.set()

    settings = load_settings(str(directory / "run.toml"), [])
    with patch.object(inbox_module, "_SEGMENT_BYTES", 4_096):
        thread = threading.Thread(target=run_service, args=(settings,), kwargs={"started": started})
        thread.start()
        assert ready.wait(60)
        try:
            yield found[0][1]
        finally:
            found[0][0].stop()
            thread.join()


def run_to_the_end(path: Path) -> se.Evaluator:
    """Count what is left in a store's inbox; the window."""
    config = path.parent / "again.toml"
    config.write_text(f'store = "{path}"\n{CONFIG}')
    run_service(load_settings(str(config), []), until_end=True)
    check_store(str(path))
    store = read_store(str(path))
    try:
        with store.reading() as connection:
            return merged_windows(connection)["all"]
    finally:
        store.close()


def backups_under_load(directory: Path, count: int) -> int:
    """Take backups while posts come, restore each, run it to its end; events in the last one."""
    events = 0
    with running(directory) as url, Posters(url) as posters:
        while min(posters.answered) < 5:
            assert posters.progress.wait(30)
            posters.progress.clear()
        for number in range(count):
            target = directory / f"backup {number}"
            before = list(posters.answered)
            back_up(str(directory / "run.db"), str(target))
            after = list(posters.sent)
            restored = directory / f"restored{number}" / "run.db"
            restored.parent.mkdir()
            restore(str(target), str(restored))
            window = run_to_the_end(restored)
            # Posters send one post after another, so what is kept of each is a beginning.
            kept = {key[0][1]: int(view.confusion.total) for key, view in window.slices().items()}
            expected = se.Evaluator(
                slices=["who"], time_unit="us", max_scores=65_536, intervals=True
            )
            events = 0
            for who in range(_POSTERS):
                assert before[who] <= kept[who] <= after[who]
                events += kept[who]
                for n in range(1, kept[who] + 1):
                    one = event(who, n)
                    expected.update(one["y_true"], score=one["score"], slices={"who": one["who"]})
            assert window.to_bytes() == expected.to_bytes()
            shutil.rmtree(target)
            shutil.rmtree(restored.parent)
    return events


@pytest.mark.heavy
def test_backups_under_load_have_every_answered_post_once(tmp_path: Path) -> None:
    assert backups_under_load(tmp_path, 4) > 0


@pytest.fixture
def store(made_store: Path, tmp_path: Path) -> Path:
    shutil.copytree(made_store.parent, tmp_path / "run")
    return tmp_path / "run" / made_store.name


def test_a_backup_of_an_open_store_is_the_store(store: Path, tmp_path: Path) -> None:
    opened = open_store(str(store))
    with opened.transaction():
        opened.set_counters({"replayed": 0})
    found = back_up(str(store), str(tmp_path / "b"))
    opened.close()
    assert found == check_store(str(store))
    assert answers(str(tmp_path / "b" / "store.db")) == answers(str(store))
    posts = {path.name: path.read_bytes() for path in inbox_of(str(store)).iterdir()}
    copied = inbox_of(str(tmp_path / "b" / "store.db"))
    assert {path.name: path.read_bytes() for path in copied.iterdir()} == posts
    # One file: nothing of it is in a log beside it.
    assert sorted(os.listdir(tmp_path / "b")) == ["store.db", "store.db.inbox"]


def test_nothing_is_overwritten_unless_it_is_allowed(store: Path, tmp_path: Path) -> None:
    backup = str(tmp_path / "b")
    back_up(str(store), backup)
    with pytest.raises(StoreError, match="exists already; --overwrite replaces it"):
        back_up(str(store), backup)
    back_up(str(store), backup, overwrite=True)
    with pytest.raises(StoreError, match=r"run.db: exists already; --overwrite"):
        restore(backup, str(store))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    with pytest.raises(StoreError, match="is not a backup, and was left alone"):
        back_up(str(store), str(tmp_path / "mine"), overwrite=True)
    with pytest.raises(StoreError, match=r"is not a backup: there is no store.db in it"):
        restore(str(tmp_path / "mine"), str(tmp_path / "new.db"))
    assert sorted(os.listdir(tmp_path)) == ["b", "mine", "run"]


def test_what_is_damaged_is_neither_backed_up_nor_restored(store: Path, tmp_path: Path) -> None:
    backup = tmp_path / "b"
    back_up(str(store), str(backup))
    before = answers(str(store))
    data = (backup / "store.db").read_bytes()
    (backup / "store.db").write_bytes(data.replace(b"Not json", b"not json").replace(b"PT", b"PU"))
    with pytest.raises(StoreError, match="the store is damaged"):
        restore(str(backup), str(store), overwrite=True)
    with pytest.raises(StoreError, match="the store is damaged"):
        back_up(str(backup / "store.db"), str(tmp_path / "c"))
    assert answers(str(store)) == before
    assert sorted(os.listdir(tmp_path)) == ["b", "run"]
    opened = open_store(str(store))
    (backup / "store.db").write_bytes(data)
    with pytest.raises(StoreError, match="is in use by the process"):
        restore(str(backup), str(store), overwrite=True)
    opened.close()
    restore(str(backup), str(store), overwrite=True)
    assert answers(str(store)) == before


def killed_restore(step: int, backup: str, store: str) -> bool:
    """Restore in a process that ends with SIGKILL before a step; whether it came to its end."""
    child = os.fork()
    if not child:
        left = step

        def killing(call: Any) -> Any:
            def wrapped(*arguments: Any, **options: Any) -> Any:
                nonlocal left
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*arguments, **options)

            return wrapped

        for owner, names in (
            (os, ("rename", "replace", "fsync", "pwrite", "unlink", "rmdir")),
            (shutil, ("rmtree",)),
            (Path, ("unlink", "rmdir")),
        ):
            for name in names:
                setattr(owner, name, killing(getattr(owner, name)))
        restore(backup, store, overwrite=True)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def killed_restores(backup: str, kept: str, store: str) -> None:
    """Print of each step what a restore that is killed before it leaves: the old store or the new.

    In a process of its own: one without threads may fork.
    """
    old, new = answers(f"{kept}/run.db"), answers(f"{backup}/store.db")
    for step in range(1, 100):
        shutil.rmtree(os.path.dirname(store))
        shutil.copytree(kept, os.path.dirname(store))
        ended = killed_restore(step, backup, store)
        open_store(store).close()
        found = answers(str(store))
        assert found in (old, new), step
        # The old store had no inbox.
        assert inbox_of(store).is_dir() == (found == new), step
        assert not os.path.exists(f"{store}.restoring")
        print("new" if found == new else "old")
        if ended:
            return


def test_a_killed_restore_leaves_the_old_store_or_the_new_one(store: Path, tmp_path: Path) -> None:
    backup = str(tmp_path / "b")
    back_up(str(store), backup)
    opened = open_store(str(store))
    with opened.transaction():
        opened.set_counters({"lives": 1})
    opened.close()
    shutil.rmtree(inbox_of(str(store)))
    kept = str(tmp_path / "kept")
    shutil.copytree(store.parent, kept)
    code = f"""
from tests.crash.test_backup import *
killed_restores({backup!r}, {kept!r}, {str(store)!r})
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    left = ended.stdout.split()
    assert left == sorted(left, reverse=True)  # from one step on it is the new one, for good
    assert set(left) == {"old", "new"}
    assert len(left) > 15


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backups", type=int, default=200)
    count = parser.parse_args().backups
    with tempfile.TemporaryDirectory() as directory:
        events = backups_under_load(Path(directory), count)
    print(f"{count} backups, the last of {events:,} events: all sound, each answered post once")


if __name__ == "__main__":
    _main()
