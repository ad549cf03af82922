"""The connection to the tables of a store, whichever database holds them.

The statements of a run are written once, in SQL that SQLite and PostgreSQL have in common: ``?``
or ``:name`` for a value, ``ON CONFLICT`` for an upsert, ``"window"`` in quotes. The few
questions that the two answer differently are the functions of this module.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from streameval.errors import StoreError

ONE_UNIT = "0"
"""The unit of a run of a single process."""

RESTORE = "restore a backup, or begin a new store"

Values: TypeAlias = Sequence[Any] | Mapping[str, Any]
_Value = TypeVar("_Value")

SET_META = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


class Connection(Protocol):
    """The tables of a store: ``sqlite3.Connection``, or one unit of a PostgreSQL store."""

    def execute(self, statement: str, values: Values = ..., /) -> Any:
        """Execute a statement; returns the cursor of its rows."""

    def executemany(self, statement: str, values: Iterable[Values], /) -> object:
        """Execute a statement once for each row of values."""


def has_table(connection: Connection, name: str) -> bool:
    """Whether a store has a table of this name."""
    if isinstance(connection, sqlite3.Connection):
        query = "SELECT count(*) FROM sqlite_master WHERE name = ?"
    else:
        query = "SELECT count(*) FROM pg_class WHERE oid = to_regclass(?)"
    return bool(connection.execute(query, (name,)).fetchone()[0])


def streamed(connection: Connection, query: str, values: Values = ()) -> Iterator[Any]:
    """The rows of a query, a few at a time: for tables that may be larger than the memory."""
    # No other statement may be executed until the last row, or until it is closed.
    stream = getattr(connection, "stream", connection.execute)
    yield from stream(query, values)


def decoded(text: str | bytes, kind: type[_Value], what: str) -> _Value:
    """A JSON value out of a store; the error about a damaged one begins with ``what``."""
    try:
        return msgspec.json.decode(text, type=kind)
    except ValueError as error:
        raise StoreError(f"{what} damaged in the store: {error}; {RESTORE}") from None


class KeyedValues:
    """Writes counters and properties of the unit that a store shows; inside a transaction."""

    __slots__ = ()

    connection: Connection

    def set_counters(self, values: Mapping[str, int]) -> None:
        """Write counters."""
        self.connection.executemany(
            "INSERT INTO counters VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            list(values.items()),
        )

    def set_meta(self, key: str, value: str) -> None:
        """Write a property."""
        self.connection.execute(SET_META, (key, value))
