"""Backups of a store and its inbox, also while a run writes to them, and their restore.

A backup is a directory with ``store.db``, which is a store like any other, and
``store.db.inbox`` where there are posts. It is consistent: one commit of the store, and every
post that was answered before the backup began and that this commit has not counted.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from streameval.errors import StoreError
from streameval.service.config.address import is_postgres
from streameval.service.private_files import private_directory, private_file
from streameval.service.store.dialect import ONE_UNIT
from streameval.service.store.positions import Positions
from streameval.service.store.sqlite import (
    RESTORED,
    StoreLock,
    commits_noted,
    finish_restore,
    inbox_of,
    read_sqlite,
    restoring,
    translating_errors,
)
from streameval.service.store.store import read_store, shown_path
from streameval.service.upkeep.check import Checked, check_store
from streameval.service.upkeep.copy import back_up_units, backed_up_units, restore_units
from streameval.state_files.disk import sync

_TRIES = 20


def back_up(store: str, destination: str, *, overwrite: bool = False) -> Checked:
    """Copy a store and its inbox, also while a run writes to them."""
    target = os.path.abspath(destination)
    if is_postgres(destination):
        raise StoreError(
            f"{shown_path(destination)}: a backup is a directory; `streameval store copy` "
            "copies a store to PostgreSQL"
        )
    there = os.path.lexists(target)
    if there and not overwrite:
        raise StoreError(f"{destination}: exists already; --overwrite replaces it")
    if there and not backed_up_units(target):
        raise StoreError(f"{destination}: is not a backup, and was left alone")
    with _made_beside(target) as made:
        checked = back_up_units(store, made) if is_postgres(store) else _copied(store, made)
        with suppress(OSError):
            inbox_of(os.path.join(made, RESTORED)).rmdir()  # where it is empty
        if there:
            os.rename(target, made + ".old")
        os.rename(made, target)
        sync(os.path.dirname(target))
        shutil.rmtree(made + ".old", ignore_errors=True)
    return checked


def restore(backup: str, store: str, *, overwrite: bool = False) -> Checked:
    """Replace a store, which no run may have open, and its inbox by a backup; raises StoreError."""
    # The copy is verified first. A crash leaves the old store or the new one: a restore that was
    # begun is finished when the store is opened the next time.
    source = os.path.join(backup, RESTORED)
    found = backed_up_units(backup)
    if is_postgres(store) and found:
        return restore_units(backup, store, overwrite=overwrite)
    if found and list(found) != [ONE_UNIT]:
        raise StoreError(
            f"{backup}: holds {len(found)} units of a PostgreSQL store, and a file holds one; give "
            "the address of a PostgreSQL database"
        )
    if not found:
        raise StoreError(f"{backup}: is not a backup: there is no {RESTORED} in it")
    target = os.path.realpath(store)
    with _made_beside(target) as made, closing(StoreLock(store)) as lock:
        for path in (target, f"{target}-wal", str(inbox_of(store))):
            if os.path.lexists(path) and not overwrite:
                raise StoreError(f"{path}: exists already; --overwrite replaces the store")
        checked = _copied(source, made)
        shutil.rmtree(restoring(store), ignore_errors=True)
        # From here on the new store is valid.
        os.rename(made, restoring(store))
        sync(os.path.dirname(target))
        finish_restore(store, lock)
    return checked


@contextmanager
def _made_beside(target: str) -> Iterator[str]:
    """A new directory on the same file system, deleted afterwards unless it was renamed."""
    try:
        parent, name = os.path.split(target)
        with tempfile.TemporaryDirectory(
            prefix=f"{name}.", suffix=".tmp", dir=parent, ignore_cleanup_errors=True
        ) as made:
            yield made
    except OSError as error:
        raise StoreError(f"{target}: cannot be written: {error.strerror}") from None


def _copied(store: str, directory: str) -> Checked:
    """Copy a store and its inbox into an empty directory, flush them to the disk, verify them."""
    target = os.path.join(directory, RESTORED)
    for tries in range(_TRIES, 0, -1):
        commits = commits_noted(store)
        try:
            _copy(store, target)
            return check_store(target)
        except (StoreError, FileNotFoundError) as error:
            # A run may have counted posts in the meantime, and deleted them.
            if tries > 1 and commits_noted(store) > commits:
                os.unlink(target)
                shutil.rmtree(inbox_of(target), ignore_errors=True)
                continue
            raise StoreError(f"{store}: cannot be copied: {error}") from None
    raise AssertionError("unreachable")


def _copy(store: str, target: str) -> None:
    private_file(target)
    inbox, copied = inbox_of(store), inbox_of(target)
    private_directory(copied)
    with ExitStack() as stack:
        # An open segment can be read to its end even if the run deletes it in the meantime.
        held: dict[str, BinaryIO] = {}

        def hold() -> None:
            for path in sorted(inbox.iterdir()) if inbox.is_dir() else ():
                if path.name not in held and path.suffix == ".jsonl":
                    with suppress(FileNotFoundError):
                        held[path.name] = stack.enter_context(path.open("rb"))

        hold()
        opened = stack.enter_context(closing(read_sqlite(store)))
        with (
            translating_errors(store, "cannot be copied"),
            closing(sqlite3.connect(target)) as connection,
        ):
            opened.connection.backup(connection)
            connection.execute("PRAGMA journal_mode = DELETE")
        # Posts after the store: no segment that it has counted in part may be missing. A segment
        # that it has counted completely is not copied.
        hold()
        first = _first_segments(target)
        for name, file in held.items():
            kind, _, number = Path(name).stem.partition("-")
            if int(number) >= first.get(kind, 0):
                private_file(copied / name)
                with (copied / name).open("wb") as copy:
                    shutil.copyfileobj(file, copy)
    for path in (Path(target), *copied.iterdir(), copied, copied.parent):
        sync(path)


def _first_segments(store: str) -> dict[str, int]:
    with closing(read_store(store)) as opened, opened.reading() as connection:
        positions = Positions(connection).next_to_read
    return {
        name.removeprefix("http:"): int(position["segment"])
        for name, position in positions.items()
        if name.startswith("http:")
    }
