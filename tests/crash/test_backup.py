"""Backups: of one moment, also under load; a restore is all or nothing.

``python -m tests.crash.test_backup`` takes 200 backups under load.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import typer

import streameval as se
from streameval.errors import StoreError
from streameval.service.config.load import load_settings
from streameval.service.run.service import run_service
from streameval.service.store.sqlite import inbox_of
from streameval.service.store.state_rows import merged_windows
from streameval.service.store.store import open_store, read_store
from streameval.service.upkeep.backup import back_up, restore
from streameval.service.upkeep.check import check_store
from tests.crash.kill_runs import living, wait_for
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


def event(who: int, number: int) -> dict[str, Any]:
    """The posts of a poster are distinct events: the state shows which of them it counted."""
    return {"who": str(who), "y_true": number % 3 == 0, "score": number / 2**20}


def run_to_the_end(path: Path) -> se.Evaluator:
    """Count what is left in a store's inbox; the window."""
    config = path.parent / "again.toml"
    config.write_text(f'store = "{path}"\n{CONFIG}')
    run_service(load_settings(str(config), []), until_end=True)
    check_store(str(path))
    with closing(read_store(str(path))) as store, store.reading() as connection:
        return merged_windows(connection)["all"]


def backups_under_load(directory: Path, count: int) -> int:
    """Take backups while posts come, restore each, run it to its end; events in the last one."""
    sent, answered = [0] * _POSTERS, [0] * _POSTERS
    stopping = threading.Event()

    def post(url: str, who: int) -> None:
        """Record after record, each the next when the last one was answered."""
        while not stopping.is_set():
            sent[who] += 1
            body = json.dumps(event(who, sent[who])).encode()
            request = urllib.request.Request(f"{url}/v1/predictions", body)
            request.add_header("Content-Type", "application/x-ndjson")
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert answer.status == 202
            answered[who] += 1

    events = 0
    (directory / "run.toml").write_text(f'store = "run.db"\n{CONFIG}')
    # Killed at no call; segments are small.
    run = ("-m", "tests.crash.killed_at", "decode", "0", "run", "run.toml")
    with living(directory, *run) as life, ThreadPoolExecutor() as pool:
        wait_for(life, lambda: life.url() is not None)
        url = str(life.url())
        posters = [pool.submit(post, url, who) for who in range(_POSTERS)]
        with ExitStack() as stack:
            stack.callback(stopping.set)
            while min(answered) < 5 and not any(poster.done() for poster in posters):
                time.sleep(0.01)
            for number in range(count):
                events = _backup_under_load(directory, number, sent, answered)
        for poster in posters:
            poster.result()
    return events


def _backup_under_load(directory: Path, number: int, sent: list[int], answered: list[int]) -> int:
    target = directory / f"backup {number}"
    before = list(answered)
    back_up(str(directory / "run.db"), str(target))
    after = list(sent)
    restored = directory / f"restored{number}" / "run.db"
    restored.parent.mkdir()
    restore(str(target), str(restored))
    window = run_to_the_end(restored)
    # Posters send one post after another, so what is kept of each is a beginning.
    kept = {key[0][1]: int(view.confusion.total) for key, view in window.slices().items()}
    expected = se.Evaluator(slices=["who"], time_unit="us", max_scores=65_536, intervals=True)
    for who in range(_POSTERS):
        assert before[who] <= kept[who] <= after[who]
        for n in range(1, kept[who] + 1):
            one = event(who, n)
            expected.update(one["y_true"], score=one["score"], slices={"who": one["who"]})
    assert window.to_bytes() == expected.to_bytes()
    shutil.rmtree(target)
    shutil.rmtree(restored.parent)
    return sum(kept.values())


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


def killed_restores(backup: str, kept: str, store: str) -> None:
    """Print of each step what a restore that is killed before it leaves: the old store or the new.

    In a process of its own: one without threads may fork.
    """
    old, new = answers(f"{kept}/run.db"), answers(f"{backup}/store.db")
    for step in itertools.count(1):
        shutil.rmtree(os.path.dirname(store))
        shutil.copytree(kept, os.path.dirname(store))
        child = os.fork()
        if not child:
            _restore_and_die(step, backup, store)
        ended = os.waitpid(child, 0)[1] == 0
        open_store(store).close()
        found = answers(store)
        assert found in (old, new), step
        # The old store had no inbox.
        assert inbox_of(store).is_dir() == (found == new), step
        assert not os.path.exists(f"{store}.restoring")
        print("new" if found == new else "old")
        if ended:
            return


def _restore_and_die(step: int, backup: str, store: str) -> None:
    """Restore, and end with SIGKILL before a step; otherwise end well."""
    steps = itertools.count(1)

    def killing(call: Any) -> Any:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            if next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return wrapped

    for name in ("rename", "replace", "fsync", "pwrite", "unlink", "rmdir"):
        setattr(os, name, killing(getattr(os, name)))
    for owner, name in ((shutil, "rmtree"), (Path, "unlink"), (Path, "rmdir")):
        setattr(owner, name, killing(getattr(owner, name)))
    restore(backup, store, overwrite=True)
    os._exit(0)


def test_a_killed_restore_leaves_the_old_store_or_the_new_one(store: Path, tmp_path: Path) -> None:
    backup = str(tmp_path / "b")
    back_up(str(store), backup)
    with closing(open_store(str(store))) as opened, opened.transaction():
        opened.set_counters({"lives": 1})
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


def _main(backups: int = 200) -> None:
    with tempfile.TemporaryDirectory() as directory:
        events = backups_under_load(Path(directory), backups)
    print(f"{backups} backups, the last of {events:,} events: all sound, each answered post once")


if __name__ == "__main__":
    typer.run(_main)
