"""A store: everything that a run must not lose, in a SQLite file or on PostgreSQL.

States, positions, waiting predictions and quarantine change together, in one transaction for each
checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from streameval.service.closing import closed_on_error
from streameval.service.config.address import is_postgres, parse_address
from streameval.service.store.dialect import ONE_UNIT
from streameval.service.store.fingerprints import check_unchanged
from streameval.service.store.postgres import (
    PostgresStore,
    open_postgres,
    postgres_exists,
    read_postgres,
)
from streameval.service.store.sqlite import SqliteStore, open_sqlite, read_sqlite

Store: TypeAlias = SqliteStore | PostgresStore

CHECKPOINT_AT = "checkpoint_at"
"""The counter with the time of the last checkpoint that wrote, in microseconds since 1970."""


def open_store(
    path: str,
    fingerprint: Mapping[str, str] | None = None,  # None: any
    *,
    migrate: Callable[[Store], Mapping[str, str]] | None = None,
    busy_seconds: float = 10.0,  # to wait for another program that writes to the file
    unit: str = ONE_UNIT,
    worker: str | None = None,  # takes the unit from its holder; None: a held unit is refused
    sibling: Store | None = None,  # another unit, whose connection is shared
    replaced: bool = False,  # all rows are replaced by the caller: they may be damaged
) -> Store:
    """Open a store for writing, or begin a new one; raises StoreError or ConfigError."""
    store: Store
    if is_postgres(path):
        assert sibling is None or isinstance(sibling, PostgresStore)
        begins = fingerprint is not None
        store = open_postgres(path, unit, worker, sibling, begins=begins)
        with closed_on_error(store):
            is_new = _begun(store, fingerprint or {}, replaced=replaced)
    else:
        store, is_new = open_sqlite(path, fingerprint, busy_seconds)
    if is_new:
        return store
    with closed_on_error(store):
        # What the fingerprint of an old store has to be, is known after its migration.
        wanted = fingerprint if migrate is None else migrate(store)
        check_unchanged(store.path, store.meta(), wanted or {})
    return store


def _begun(store: PostgresStore, fingerprint: Mapping[str, str], *, replaced: bool) -> bool:
    """Whether a unit was empty; it has a fingerprint then, unless the first commit is another's."""
    if not replaced:
        store.verify(store.unit)
    if store.meta():
        return False
    if fingerprint:
        with store.transaction():
            for key, value in fingerprint.items():
                store.set_meta(f"config.{key}", value)
    return True


def read_store(path: str, unit: str | None = None) -> Store:
    """Open a store for reading only, also while a run writes to it; raises StoreError."""
    return read_postgres(path, unit) if is_postgres(path) else read_sqlite(path)


def each_unit(store: Store) -> Iterator[str]:
    """Show each unit of a store in turn."""
    for unit in store.units():
        store.select(unit)
        yield unit


def store_exists(path: str) -> bool:
    """Whether there is a store to read; raises StoreError where that cannot be found out."""
    return postgres_exists(path) if is_postgres(path) else os.path.exists(path)


def shown_path(path: str) -> str:
    """A store's path as it may be shown: without a password."""
    return parse_address(path).shown if is_postgres(path) else path


def file_of(path: str) -> tuple[int, int] | None:
    """What identifies the file at a path: a restored store is another one. None: there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
