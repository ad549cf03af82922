"""Checksums of a store's rows: one for each row of each table, over all of its columns.

Table ``checksums`` holds (table, key of the row, CRC-32). Temporary triggers of the writer's
connection update it in the transaction that changes the row, so no other statement has to; only
:func:`insert_rows` adds many of them by itself.
A row that was changed without them does not match its checksum; a row that was deleted
without them leaves its checksum behind.

A trigger never replaces the checksum of a row that did not match it before: an update of a
damaged row leaves it a damaged row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from streameval.errors import StoreError, shown
from streameval.service.store.dialect import RESTORE, Connection, has_table
from streameval.service.store.postgres import STATE_CHECKSUM_OK

_SCHEMA = """
CREATE TABLE checksums (
    name TEXT NOT NULL, key NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (name, key)
) WITHOUT ROWID
"""

_MOST_VALUES = 900
"""In one statement; some builds of SQLite take 999."""

_encode = msgspec.msgpack.Encoder().encode


class _Table(NamedTuple):
    name: str
    key: str
    columns: tuple[str, ...]
    types: tuple[str, ...]

    def values(self, row: str) -> str:
        """The key and every column of a row, for SQL; ``row`` names it."""
        return ", ".join(f"{row}.{column}" for column in (self.key, *self.columns))


def row_sum(*values: object) -> int:
    """CRC-32 of the values of a row; the type of a value counts as well."""
    blobs = [value for value in values if type(value) is bytes]
    if not blobs:
        return crc32(_encode(values))
    # Large values are not copied: an array of one number represents a blob's length.
    head = [(len(value),) if type(value) is bytes else value for value in values]
    total = crc32(_encode(head))
    for blob in blobs:
        total = crc32(blob, total)
    return total


def keep_checksums(connection: Connection) -> None:
    """Keep the checksums of all tables, inside a transaction; again after a table was created."""
    # On PostgreSQL triggers of the server do the same.
    if not isinstance(connection, sqlite3.Connection):
        return
    connection.create_function("row_sum", -1, row_sum, deterministic=True)
    begins = not has_table(connection, "checksums")
    if begins:
        connection.execute(_SCHEMA)
    for table in _tables(connection):
        name, key = table.name, table.key
        old, new = table.values("old"), table.values("new")
        for event, statement in (
            (
                f"INSERT ON main.{name} WHEN NOT EXISTS "
                f"(SELECT 1 FROM checksums WHERE name = '{name}' AND key = +new.{key})",
                f"INSERT INTO checksums VALUES ('{name}', new.{key}, row_sum({new}))",
            ),
            (
                f"UPDATE ON main.{name}",
                f"UPDATE checksums SET key = new.{key}, crc = row_sum({new}) "
                f"WHERE name = '{name}' AND key = +old.{key} AND crc = row_sum({old})",
            ),
            (
                f"DELETE ON main.{name}",
                f"DELETE FROM checksums WHERE name = '{name}' AND key = +old.{key}",
            ),
        ):
            connection.execute(
                f"CREATE TEMP TRIGGER IF NOT EXISTS {name}_{event[:6]} AFTER {event} "
                f"BEGIN {statement}; END"
            )
        if begins:
            connection.execute(
                f"INSERT INTO checksums SELECT '{name}', t.{key}, row_sum({table.values('t')}) "
                f"FROM {name} AS t"
            )
    connection.execute(
        "INSERT OR IGNORE INTO checksums SELECT 'sqlite_master', name, "
        "row_sum(name, type, name, tbl_name, sql) FROM sqlite_master"
    )
    checksum_sqlite_sequence(connection)


def insert_rows(connection: Connection, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows of a table whose first column is their rowid, inside a transaction."""
    # Few statements, in which SQLite calls no Python: executemany and the triggers take the lock of
    # the interpreter for each row, which takes milliseconds while another thread computes.
    if not rows:
        return
    if not isinstance(connection, sqlite3.Connection):
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        return
    if has_table(connection, "checksums"):
        _insert(connection, "checksums", [(name, row[0], row_sum(row[0], *row)) for row in rows])
    _insert(connection, name, rows)


def _insert(connection: sqlite3.Connection, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    marks = f"({', '.join('?' * len(rows[0]))})"
    step = _MOST_VALUES // len(rows[0])
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        connection.execute(
            f"INSERT INTO {name} VALUES {', '.join([marks] * len(part))}",
            list(chain.from_iterable(part)),
        )


def delete_rows(connection: Connection, name: str, key: str, keys: Sequence[int]) -> None:
    """Delete rows by their keys, inside a transaction, by few statements."""
    for start in range(0, len(keys), _MOST_VALUES):
        part = keys[start : start + _MOST_VALUES]
        marks = ", ".join("?" * len(part))
        connection.execute(f"DELETE FROM {name} WHERE {key} IN ({marks})", part)


def checksum_sqlite_sequence(connection: sqlite3.Connection) -> None:
    """Update the checksums of what SQLite itself writes, where triggers do not run."""
    connection.execute(
        "INSERT OR REPLACE INTO checksums SELECT 'sqlite_sequence', rowid, "
        "row_sum(rowid, name, seq) FROM sqlite_sequence"
    )


def _tables(connection: sqlite3.Connection) -> Iterator[_Table]:
    """Every table on which triggers can be defined, by name."""
    query = (
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' "
        "AND name <> 'checksums' AND name NOT LIKE 'sqlite%' ORDER BY name"
    )
    for name, sql in connection.execute(query).fetchall():
        info = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
        # A table without rowids has a primary key of one column, here.
        key = next(row[1] for row in info if row[5]) if "WITHOUT ROWID" in sql else "rowid"
        yield _Table(name, key, tuple(row[1] for row in info), tuple(row[2] for row in info))


_UNWATCHED = (
    _Table("sqlite_master", "name", ("type", "name", "tbl_name", "sql"), ()),
    _Table("sqlite_sequence", "rowid", ("name", "seq"), ()),
)


def check_rows(connection: Connection, *names: str) -> bool:
    """Compare rows with their checksums."""
    if not isinstance(connection, sqlite3.Connection) or not has_table(connection, "checksums"):
        return False
    connection.create_function("row_sum", -1, row_sum, deterministic=True)
    known = []
    # The schema first: all other queries, also the query of _tables, depend on it.
    for table in chain(_UNWATCHED, _tables(connection)):
        known.append(table.name)
        if not names or table.name in names:
            _check_table(connection, table)
    if not names:
        marks = ", ".join("?" * len(known))
        row = connection.execute(
            f"SELECT name FROM checksums WHERE name NOT IN ({marks}) LIMIT 1", known
        ).fetchone()
        if row is not None:
            raise _damaged(f"table {shown(row[0])} is missing")
    return True


def _check_table(connection: sqlite3.Connection, table: _Table) -> None:
    name, key = table.name, table.key
    row = connection.execute(
        f"SELECT t.{key}, c.crc FROM {name} AS t LEFT JOIN checksums AS c "
        f"ON c.name = ? AND c.key = +t.{key} "
        f"WHERE c.crc IS NOT row_sum({table.values('t')}) LIMIT 1",
        (name,),
    ).fetchone()
    if row is not None:
        how = "has no checksum" if row[1] is None else "does not match its checksum"
        raise _damaged(f"row {shown(row[0])} of table {name} {how}")
    row = connection.execute(
        f"SELECT c.key FROM checksums AS c WHERE c.name = ? "
        f"AND NOT EXISTS (SELECT 1 FROM {name} AS t WHERE t.{key} = c.key) LIMIT 1",
        (name,),
    ).fetchone()
    if row is not None:
        raise _damaged(f"row {shown(row[0])} of table {name} is missing")


def _damaged(what: str) -> StoreError:
    return StoreError(f"the store is damaged: {what}; {RESTORE}")


def check_types(connection: sqlite3.Connection) -> None:
    """Compare the type of each value with its column's, in a store without checksums."""
    for table in _tables(connection):
        for column, kind in zip(table.columns, table.types, strict=True):
            row = connection.execute(
                f"SELECT {table.key} FROM {table.name} "
                f"WHERE typeof({column}) NOT IN (?, 'null') LIMIT 1",
                (kind.lower(),),
            ).fetchone()
            if row is not None:
                raise _damaged(
                    f"row {shown(row[0])} of table {table.name} has a {column} that is "
                    f"no {kind.lower()}"
                )


def checksum_ok_sql(connection: Connection) -> str:
    """SQL that is true for a row of ``states`` that matches its checksum."""
    # True for every row of an old store, which has no checksums.
    if not isinstance(connection, sqlite3.Connection):
        return STATE_CHECKSUM_OK if has_table(connection, "unit_checksums") else "1"
    if not has_table(connection, "checksums"):
        return "1"
    connection.create_function("row_sum", -1, row_sum, deterministic=True)
    (table,) = (one for one in _tables(connection) if one.name == "states")
    return (
        f"row_sum({table.values('states')}) IS (SELECT crc FROM checksums AS c "
        f"WHERE c.name = 'states' AND c.key = +states.{table.key})"
    )
