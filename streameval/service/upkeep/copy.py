"""Copies of stores between files and PostgreSQL: unit by unit, each in one transaction."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, closing
from itertools import islice
from urllib.parse import quote, unquote

from streameval.errors import StoreError
from streameval.service.config.address import is_postgres
from streameval.service.join.label_join import create_join_tables
from streameval.service.store.dialect import ONE_UNIT, Connection, has_table, streamed
from streameval.service.store.postgres import PostgresStore
from streameval.service.store.sqlite import RESTORED
from streameval.service.store.store import Store, each_unit, open_store, read_store
from streameval.service.store.tables import TABLES, quoted
from streameval.service.upkeep.check import Checked, check_store, checked_unit, summed
from streameval.state_files.disk import sync

_OF_THE_FILE = "schema"
"""The key in ``meta`` that a file has for itself."""

_ROWS = 64
"""Copied at once: each may have megabytes."""


def copy_store(source: str, target: str, *, overwrite: bool = False) -> Checked:
    """Copy a store to another place, also while a run writes to it."""
    with closing(read_store(source)) as store, store.reading() as connection:
        units = store.units()
        for _ in each_unit(store):
            checked_unit(store, connection)
        _copy_units(dict.fromkeys(units, (store, connection)), store.path, target, overwrite)
    return check_store(target)


def back_up_units(source: str, directory: str) -> Checked:
    """Copy each unit of a PostgreSQL store, as of one moment, into a file of its own."""
    found = []
    with closing(read_store(source)) as store, store.reading() as connection:
        for unit in each_unit(store):
            name = RESTORED if unit == ONE_UNIT else f"unit-{quote(unit, safe='')}.db"
            path = os.path.join(directory, name)
            checked_unit(store, connection)
            _copy_units({unit: (store, connection)}, store.path, path, overwrite=False)
            found.append(check_store(path))
            with closing(sqlite3.connect(path)) as file:
                file.execute("PRAGMA journal_mode = DELETE")
            sync(path)
            os.unlink(path + ".lock")
    sync(directory)
    return summed(found)


def restore_units(directory: str, target: str, *, overwrite: bool = False) -> Checked:
    """Copy the files of a backup into the units of a PostgreSQL store."""
    with ExitStack() as stack:
        sources: dict[str, tuple[Store, Connection]] = {}
        for unit, path in backed_up_units(directory).items():
            check_store(path)
            store = stack.enter_context(closing(read_store(path)))
            sources[unit] = (store, stack.enter_context(store.reading()))
        _copy_units(sources, directory, target, overwrite)
    return check_store(target)


def backed_up_units(directory: str) -> dict[str, str]:
    """The files of a backup by unit; empty where it is none."""
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    found = {}
    for name in names:
        if name == RESTORED:
            found[ONE_UNIT] = os.path.join(directory, name)
        elif name.startswith("unit-") and name.endswith(".db"):
            found[unquote(name[5:-3])] = os.path.join(directory, name)
    return found


def _copy_units(
    sources: Mapping[str, tuple[Store, Connection]], named: str, target: str, overwrite: bool
) -> None:
    """Copy units that are open for reading; nothing is written unless all can be claimed."""
    if not sources:
        raise StoreError(f"{named}: holds nothing yet")
    whole = is_postgres(target)
    if not whole and len(sources) > 1:
        raise StoreError(
            f"{target}: a file holds one unit, and {named} has {len(sources)}; copy it to another "
            "PostgreSQL store, or let `streameval store backup` write a file for each"
        )
    with ExitStack() as stack:
        targets: dict[str, Store] = {}
        sibling: Store | None = None
        for unit in [*sources, *(_other_units(target, sources) if whole else ())]:
            opened = open_store(target, {}, unit=unit, sibling=sibling, replaced=overwrite)
            targets[unit] = sibling = stack.enter_context(closing(opened))
            if opened.meta().keys() - {_OF_THE_FILE} and not (overwrite and whole):
                remedy = "; --overwrite replaces it" if whole else "; name another"
                raise StoreError(f"{opened.path}: exists already and holds a store{remedy}")
        for unit, opened in targets.items():
            if isinstance(opened, PostgresStore):
                opened.repeats = False  # rows of gigabytes are not kept for a lost connection
            with opened.transaction() as connection:
                if whole:
                    for table in TABLES:
                        connection.execute(f"DELETE FROM {table}")
                    # The checksums of rows that were missing.
                    connection.execute("DELETE FROM unit_checksums WHERE unit = ?", (unit,))
                if unit in sources:
                    store, origin = sources[unit]
                    store.select(unit)
                    _copy_tables(origin, connection)
                else:
                    # A unit that has commits and holds nothing would be a damaged one.
                    connection.execute("UPDATE claims SET commits = 0 WHERE unit = ?", (unit,))


def _other_units(target: str, known: Mapping[str, object]) -> list[str]:
    """Units of a store that are not among those that are copied to it."""
    try:
        store = read_store(target)
    except StoreError:
        return []
    with closing(store):
        return [unit for unit in store.units() if unit not in known]


def _copy_tables(source: Connection, target: Connection) -> None:
    if has_table(source, "join_counts"):
        create_join_tables(target)
    for name, table in TABLES.items():
        if not has_table(source, name):
            continue
        columns, booleans = table.copied, table.booleans
        names, marks = ", ".join(map(quoted, columns)), ", ".join("?" * len(columns))
        query = f"SELECT {names} FROM {name}"
        if name == "meta":
            query += f" WHERE key <> '{_OF_THE_FILE}'"
        if table.order:
            query += f" ORDER BY {table.order}"
        insert = f"INSERT INTO {name} ({names}) VALUES ({marks})"
        found = streamed(source, query)
        while rows := list(islice(found, _ROWS)):
            if booleans:
                rows = [
                    tuple(bool(one) if n in booleans else one for n, one in enumerate(row))
                    for row in rows
                ]
            target.executemany(insert, rows)
