"""The store on PostgreSQL: many workers share one evaluation, each writes the units it owns.

A *unit* is what one worker owns: a partition number of the topics, or "0" in a run of a single
process. Each table of the SQLite store is here, with a column ``unit`` more; a view over each,
by the name that it has in SQLite, shows the rows of the session's unit. So the statements of a
run are the same for both stores, and a thousand partitions need no more tables than one.

A unit is claimed before it is written: ``claims`` has a generation, which each claim increases.
Every transaction begins by counting itself in the row of its claim, which locks the row and finds
none if the generation is another one. So a worker that was cut off writes nothing after another
took over, and after a lost connection the number of the last transaction says whether
its commit was executed. What a transaction wrote is kept until then: it is repeated on a new
connection.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from streameval.errors import FencedError, MissingExtraError, StoreError, shown
from streameval.service.closing import closed_on_error
from streameval.service.config.address import StoreAddress, no_store_address, parse_address
from streameval.service.store.dialect import ONE_UNIT, Connection, KeyedValues, Values
from streameval.service.store.tables import TABLES, postgres_columns, quoted

if TYPE_CHECKING:
    import psycopg

_T = TypeVar("_T")
_Call: TypeAlias = "Callable[[psycopg.Connection[Any]], _T]"

_PATIENCE_SECONDS = 30.0
"""The longest wait for a lost server."""

_HOLDER_SECONDS = 5.0
"""The longest wait for the end of a holder's session; a killed process ends it at once."""

_SESSION = {
    # A worker that stands still inside a transaction must not hold its locks for ever.
    "idle_in_transaction_session_timeout": "60s",
    "lock_timeout": "30s",
    # The session of a machine that is gone ends.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "client_min_messages": "warning",
    "TimeZone": "UTC",
}
_KEEPALIVES = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


def _first_version() -> Iterator[str]:
    unit = "current_setting('streameval.unit')"
    yield (
        "CREATE TABLE claims (unit TEXT PRIMARY KEY, generation BIGINT NOT NULL, "
        "commits BIGINT NOT NULL, worker TEXT NOT NULL, pid INTEGER NOT NULL, "
        "started TIMESTAMPTZ NOT NULL, at TIMESTAMPTZ NOT NULL DEFAULT now())"
    )
    for name, table in TABLES.items():
        yield (
            f"CREATE TABLE unit_{name} ({postgres_columns(name)}, "
            f"unit TEXT NOT NULL DEFAULT {unit}, "
            f"PRIMARY KEY (unit, {', '.join(map(quoted, table.key))}))"
        )
        yield f"CREATE VIEW {name} AS SELECT * FROM unit_{name} WHERE unit = {unit}"
    # States and entries are compressed, or do not compress.
    yield "ALTER TABLE unit_states ALTER COLUMN data SET STORAGE EXTERNAL"
    yield "ALTER TABLE unit_join_segments ALTER COLUMN data SET STORAGE EXTERNAL"


def _sum(name: str, row: str) -> str:
    """A checksum of a row, for SQL: 64 bits of what the server would send of its columns."""
    # The column data, which may be large, has a checksum of its own, which is compared when the
    # row is read. Only its size and its end, where states have theirs, cost the server time here.
    columns = ["unit", *map(quoted, TABLES[name].columns)]
    if "data" in columns:
        columns.remove("data")
        size = f"octet_length({row}.data)"
        end = f"substring({row}.data FROM greatest(1, {size} - 31))"
        row = f"ROW({', '.join([*(f'{row}.{column}' for column in columns), size, end])})"
    return f"hash_record_extended(ROW(record_send({row})), 0)"


def _key(name: str, row: str) -> str:
    """The key of a row within its unit as text, for SQL."""
    columns = map(quoted, TABLES[name].key)
    return f"ROW({', '.join(f'{row}.{column}' for column in columns)})::text"


def _row_checksums() -> Iterator[str]:
    """Checksums that the server keeps of what the sessions of streameval write, and of no other."""
    # A checksum is never replaced where the row did not match it: as checksums.py for a file.
    yield (
        "CREATE TABLE unit_checksums (unit TEXT NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL, "
        "sum BIGINT NOT NULL, PRIMARY KEY (unit, name, key))"
    )
    for name in TABLES:
        old, new = (f"{row}.unit, '{name}', {_key(name, row)}" for row in ("old", "new"))
        sum_old, sum_new = _sum(name, "old"), _sum(name, "new")
        of_old = f"WHERE (unit, name, key) = ({old})"
        yield (
            f"CREATE FUNCTION note_{name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF tg_op = 'INSERT' THEN INSERT INTO unit_checksums VALUES ({new}, {sum_new}) "
            "ON CONFLICT DO NOTHING; "
            f"ELSIF tg_op = 'DELETE' THEN DELETE FROM unit_checksums {of_old}; "
            f"ELSE UPDATE unit_checksums SET (unit, name, key, sum) = ({new}, {sum_new}) "
            f"{of_old} AND sum = {sum_old}; "
            "END IF; RETURN NULL; END $$"
        )
        yield (
            f"CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON unit_{name} FOR EACH ROW "
            f"WHEN (current_setting('streameval.unit', true) <> '') EXECUTE FUNCTION note_{name}()"
        )
        yield (
            f"INSERT INTO unit_checksums SELECT t.unit, '{name}', {_key(name, 't')}, "
            f"{_sum(name, 't')} FROM unit_{name} AS t"
        )
    # A restore has emptied them; from now on one with commits and without rows is damaged.
    yield "UPDATE claims SET commits = 0 WHERE unit NOT IN (SELECT unit FROM unit_meta)"


MIGRATIONS: list[Callable[[], Iterable[str]]] = [_first_version, _row_checksums]
"""The statements from each version of the schema to the next; version 0 is an empty schema.

One that adds a column to a table has to write its checksums anew, as :func:`_row_checksums` does.
"""

READABLE = 1
"""The oldest version that is read: later ones have added nothing but checksums."""

STATE_CHECKSUM_OK = (
    f"{_sum('states', 'states')} IS NOT DISTINCT FROM (SELECT sum FROM unit_checksums AS c "
    + (f"WHERE (c.unit, c.name, c.key) = (states.unit, 'states', {_key('states', 'states')}))")
)
"""SQL that is true for a row of ``states`` that matches its checksum."""


@lru_cache(1024)
def _translated(statement: str) -> str:
    """A portable statement as PostgreSQL and its client have it."""
    statement = statement.replace("%", "%%").replace("?", "%s")
    statement = re.sub(r"(?<!:):(\w+)", r"%(\1)s", statement)
    return statement.replace("ON CONFLICT (", "ON CONFLICT (unit, ")


class _Session:
    """A connection to the server, of one or several stores of a process."""

    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self.users = 0
        self.number = 0
        """The number of the connection, increased when a lost one is replaced."""
        self.unit: str | None = None
        """The unit that the views show."""
        self.reader: _Session | None = None
        """The session of another thread, for the same stores."""
        self.open()

    def open(self) -> None:
        """Connect; raises StoreError where that is not possible."""
        self.raw = _connected(self.address)
        self.number += 1
        self.unit = None
        values = {**_SESSION, "search_path": self.address.schema, "application_name": "streameval"}
        with closed_on_error(self.raw):
            with translating_errors(self.address, "cannot be opened"):
                pairs = [text for pair in values.items() for text in pair]
                calls = ", ".join(["set_config(%s, %s, FALSE)"] * len(values))
                self.raw.execute(f"SELECT {calls}", pairs)
                self.raw.execute(
                    "SELECT set_config('synchronous_commit', 'on', FALSE) "
                    "WHERE current_setting('synchronous_commit') = 'off'"
                )
                (encoding,) = self.raw.execute("SHOW server_encoding").fetchone() or ("",)
            if encoding != "UTF8":
                raise StoreError(
                    f"{self.address.shown}: expected a database in UTF8, got {encoding}; make one "
                    "with createdb --encoding UTF8 --template template0"
                )

    def reopen(self) -> None:
        """Connect again; waits for a server that is starting. Raises StoreError."""
        self.raw.close()
        ends = time.monotonic() + _PATIENCE_SECONDS
        wait = 0.05
        while True:
            try:
                self.open()
                return
            except StoreError:
                if time.monotonic() > ends:
                    raise
            time.sleep(wait)
            wait = min(1.0, 2 * wait)

    def show(self, unit: str) -> None:
        """Make the views show a unit."""
        if self.unit != unit:
            self.raw.execute("SELECT set_config('streameval.unit', %s, FALSE)", (unit,))
            self.unit = unit

    def lost(self, error: BaseException | None) -> bool:
        """Whether an error is that of a connection or server that has gone."""
        state = getattr(error, "sqlstate", None) or ""
        if not self.users:
            return False  # it was closed by its stores
        return self.raw.closed or state.startswith(_LOST) or state in _LOST_STATES


class PostgresStore(KeyedValues):
    """A store on PostgreSQL, and the connection to the tables of the unit that it shows."""

    def __init__(self, session: _Session, unit: str) -> None:
        self.session = session
        self._reader: PostgresStore | None = None
        session.users += 1
        self.path = session.address.shown
        self.unit = unit
        self.connection = self
        self.generation: int | None = None
        """The generation of the claim on the unit; None for a store that is only read."""
        self._held = 0
        """The number of the connection that the claim names."""
        self._commits = 0
        self._written: list[_Call[Any]] | None = None
        self._reading = False
        self._streaming: Any = None
        """The rows that are being read; the connection is theirs until they are closed."""
        self.repeats = True
        """Whether a transaction is repeated after a lost connection; it is kept until then."""

    def read_connection(self) -> Connection:
        """This unit through another connection: as :meth:`Store.read_connection`."""
        if self._reader is None:
            session = self.session
            if session.reader is None or not session.reader.users:
                session.reader = _Session(session.address)
            self._reader = PostgresStore(session.reader, self.unit)
        return self._reader

    # Statements

    def execute(self, statement: str, values: Values = ()) -> psycopg.Cursor[Any]:
        """Execute a statement; raises StoreError."""
        query = _translated(statement)
        return self.executed(lambda raw: raw.execute(query, values, binary=True))

    def executemany(self, statement: str, values: Iterable[Values]) -> None:
        """Execute a statement once for each row of values; raises StoreError."""
        query, rows = _translated(statement), list(values)
        if rows:
            self.executed(lambda raw: raw.cursor(binary=True).executemany(query, rows))

    def stream(self, statement: str, values: Values = ()) -> Iterator[Any]:
        """The rows of a query, a few at a time; raises StoreError."""
        query = _translated(statement)

        def begun(raw: psycopg.Connection[Any]) -> tuple[Any, Iterator[Any]]:
            rows = raw.cursor(binary=True).stream(query, values)
            return next(rows, None), rows

        row, rows = self.executed(begun)
        self._streaming = rows
        while row is not None:
            yield row
            with translating_errors(self.session.address, "cannot be read"):
                row = next(rows, None)

    # The connection

    def _ready(self) -> psycopg.Connection[Any]:
        """The connection, with this unit shown, and named in the claim."""
        session = self.session
        if self.generation is not None and self._held != session.number:
            # The lost one may still be known to the server, and hold the row.
            session.raw.execute(
                f"SELECT pg_terminate_backend(c.pid) {_HOLDER} AND c.generation = %s",
                (self.unit, self.generation),
            )
            row = session.raw.execute(
                "UPDATE claims SET pid = s.pid, started = s.backend_start "
                "FROM pg_stat_activity AS s WHERE s.pid = pg_backend_pid() "
                "AND unit = %s AND generation = %s RETURNING commits",
                (self.unit, self.generation),
            ).fetchone()
            if row is None:
                raise self._fenced()
            (self._commits,) = row
            self._held = session.number
        session.show(self.unit)
        return session.raw

    def _fenced(self) -> FencedError:
        return FencedError(
            f"{self.path}: unit {self.unit!r} was taken over by another worker; nothing was "
            "written after that, and this one has to stop"
        )

    def executed(self, call: _Call[_T]) -> _T:
        """Execute a call on the connection; again, on a new one, where it was lost."""
        self._end_stream()
        what = "cannot be read" if self._written is None else "cannot be written"
        while True:
            try:
                with translating_errors(self.session.address, what):
                    found = call(self.session.raw if self._inside else self._ready())
            except StoreError as error:
                once = self._reading or (self._written is not None and not self.repeats)
                if once or not self.session.lost(error.__cause__):
                    raise
            else:
                if self._written is not None and self.repeats:
                    self._written.append(call)
                return found
            self.reconnect()

    @property
    def _inside(self) -> bool:
        return self._reading or self._written is not None

    def reconnect(self) -> None:
        """Replace the connection, and execute on it what an open transaction has done so far."""
        while True:
            self.session.reopen()
            try:
                with translating_errors(self.session.address, "cannot be written"):
                    if self._written is None:
                        self._ready()
                    else:
                        self._enter()
                        for call in self._written:
                            call(self.session.raw)
                return
            except StoreError as error:
                if not self.session.lost(error.__cause__):
                    raise

    # Transactions

    def _enter(self) -> None:
        raw = self._ready()
        raw.execute("BEGIN")
        row = raw.execute(
            "UPDATE claims SET commits = commits + 1 WHERE unit = %s AND generation = %s "
            "RETURNING commits",
            (self.unit, self.generation),
        ).fetchone()
        if row is None:
            self._leave()
            raise self._fenced()

    def _end_stream(self) -> None:
        """End the reading of rows that an error has interrupted; no other code has its cursor."""
        rows, self._streaming = self._streaming, None
        if rows is not None:
            with suppress(StoreError), translating_errors(self.session.address, "cannot be read"):
                rows.close()

    def _leave(self) -> None:
        self._end_stream()
        with suppress(StoreError), translating_errors(self.session.address, "cannot be read"):
            self.session.raw.execute("ROLLBACK")
        # Of a unit that was selected inside, the setting is reverted too.
        self.session.unit = None

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Write all of the block, or nothing of it; raises FencedError or StoreError."""
        # A lost connection is replaced, and the statements of the block are executed again.
        if self.generation is None:
            raise StoreError(f"{self.path}: was opened for reading only")
        assert not self._inside, "a transaction inside another"
        self._written = []
        try:
            try:
                with translating_errors(self.session.address, "cannot be written"):
                    self._enter()
            except StoreError as error:
                if not self.session.lost(error.__cause__):
                    raise
                self.reconnect()
            try:
                yield self
            except BaseException:
                self._leave()
                raise
            self._commit()
        finally:
            self._written = None

    def _commit(self) -> None:
        wanted = self._commits + 1
        while True:
            try:
                with translating_errors(self.session.address, "cannot be written"):
                    self.session.raw.execute("COMMIT")
                self._commits = wanted
                return
            except StoreError as error:
                if not self.session.lost(error.__cause__):
                    self._leave()
                    raise
            # Only its answer may be lost: then the number is there already.
            written, self._written = self._written, None
            self.reconnect()
            if self._commits == wanted:
                return
            if not self.repeats:
                raise StoreError(f"{self.path}: cannot be written: the connection was lost")
            self._written = written
            self.reconnect()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A consistent view of the store; raises StoreError where it cannot be read."""
        assert not self._inside, "a view inside a transaction"
        self.executed(lambda raw: raw.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
        self._reading = True
        try:
            yield self
        finally:
            self._reading = False
            self._leave()

    # Content

    def counters(self) -> dict[str, int]:
        """The counters by name."""
        return dict(self.execute("SELECT name, value FROM counters").fetchall())

    def meta(self) -> dict[str, str]:
        """The properties of the unit: its settings and more."""
        return dict(self.execute("SELECT key, value FROM meta").fetchall())

    def units(self) -> list[str]:
        """The units that have been claimed, numbers in their order."""
        return sorted(self.commits(), key=lambda unit: (len(unit), unit))

    def select(self, unit: str) -> None:
        """Show another unit of a store that is only read; also inside :meth:`reading`."""
        assert self.generation is None, "a claimed unit cannot be exchanged"
        self.unit = unit
        self.executed(lambda raw: self.session.show(unit))

    def commits(self) -> dict[str, tuple[int, int]]:
        """Generation and number of commits by unit: they differ when a unit has changed."""
        query = "SELECT unit, generation, commits FROM claims"
        rows = self.executed(lambda raw: raw.execute(query).fetchall())
        return {unit: (generation, commits) for unit, generation, commits in rows}

    def property_of(self, unit: str, key: str) -> str | None:
        """A property of any unit, also of one that no worker claims; None where it has none."""
        row = self._row("SELECT value FROM unit_meta WHERE unit = %s AND key = %s", unit, key)
        return None if row is None else str(row[0])

    def is_held(self) -> bool:
        """Whether another process that is alive has claimed a unit."""
        return bool(self._row(f"SELECT EXISTS (SELECT {_HOLDERS})")[0])

    def _row(self, query: str, *values: object) -> Any:
        """The first row of a query in PostgreSQL's own SQL; None if it has none."""
        return self.executed(lambda raw: raw.execute(query, values).fetchone())

    def close(self) -> None:
        """Leave the unit to others, and close the connection unless other stores use it."""
        if self._reader is not None:
            self._reader.close()
        self._end_stream()
        session = self.session
        session.users -= 1
        if not session.users:
            session.raw.close()
        elif self.generation is not None and not session.raw.closed:
            with suppress(StoreError), translating_errors(session.address, "cannot be written"):
                session.raw.execute(
                    "UPDATE claims SET pid = 0 WHERE unit = %s AND generation = %s",
                    (self.unit, self.generation),
                )

    # Damage

    def verify(self, unit: str | None = None) -> bool:
        """Compare every row with its checksum."""
        if (self.version() or 0) < 2:
            return False
        chosen = "" if unit is None else "WHERE unit = ?"
        rows = " UNION ALL ".join(
            f"SELECT t.unit, '{name}' AS name, {_key(name, 't')} AS key, {_sum(name, 't')} AS sum "
            f"FROM unit_{name} AS t {chosen}"
            for name in TABLES
        )
        query = (
            f"SELECT unit, name, key, t.sum, c.sum FROM ({rows}) AS t FULL JOIN "
            f"(SELECT * FROM unit_checksums {chosen}) AS c USING (unit, name, key) "
            "WHERE t.sum IS DISTINCT FROM c.sum LIMIT 1"
        )
        values = [] if unit is None else [unit] * (len(TABLES) + 1)
        row = self.execute(query, values).fetchone()
        if row is not None:
            of, name, key, found, expected = row
            how = "does not match its checksum"
            if expected is None or found is None:
                how = "has no checksum" if expected is None else "is missing"
            raise self._damaged(f"row {shown(key)} of table unit_{name}, unit {of!r}, {how}")
        # Alerts that servers judge, and the settings of a group, are of units that no run claims.
        query = (
            "SELECT c.unit, m.unit FROM claims AS c FULL JOIN (SELECT DISTINCT unit FROM unit_meta "
            "WHERE key <> 'group.settings') AS m USING (unit) "
            "WHERE m.unit IS NULL AND c.commits > 0 OR c.unit IS NULL"
        )
        for claimed, begun in self.execute(query):
            if unit in (None, claimed):
                missing = f"claim of unit {begun!r}" if claimed is None else f"unit {claimed!r}"
                raise self._damaged(f"the {missing} is missing")
        return True

    def _damaged(self, what: str) -> StoreError:
        return StoreError(f"{self.path}: is damaged: {what}; {_RESTORE}")

    # The schema

    def version(self) -> int | None:
        """The version of the schema; None where there is none."""
        schema = self.session.address.schema
        query = (
            "SELECT count(*), count(*) FILTER (WHERE relname = 'streameval_schema') "
            "FROM pg_class WHERE relnamespace = to_regnamespace(%s)"
        )
        relations, ours = self._row(query, schema) or (0, 0)
        if not relations:
            return None
        if not ours:
            raise StoreError(
                f"{self.path}: the schema {schema} is not a store of streameval, and was left "
                "alone; name another with ?schema="
            )
        row = self._row("SELECT version FROM streameval_schema")
        if row is None:
            raise self._damaged("its schema's version is missing")
        if row[0] > len(MIGRATIONS):
            raise StoreError(
                f"{self.path}: was written by a newer streameval (its schema is {row[0]}, this "
                f"release knows up to {len(MIGRATIONS)}): upgrade, or begin a new store"
            )
        return int(row[0])

    def migrate(self) -> None:
        """Bring the schema to this release's version, in one transaction, once."""
        if self.version() == len(MIGRATIONS):
            return
        schema, raw = self.session.address.schema, self.session.raw
        with translating_errors(self.session.address, "its schema cannot be made"):
            raw.execute("BEGIN")
            try:
                # Not two at once; it ends with the transaction.
                raw.execute(
                    "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
                    (f"streameval {schema}",),
                )
                version = self.version()
                if version is None:
                    row = raw.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone()
                    if row is None or row[0] is None:
                        raw.execute(f"CREATE SCHEMA {schema}")
                    raw.execute("CREATE TABLE streameval_schema (version BIGINT NOT NULL)")
                    raw.execute("INSERT INTO streameval_schema VALUES (0)")
                for step in MIGRATIONS[version or 0 :]:
                    for statement in step():
                        raw.execute(statement)
                raw.execute("UPDATE streameval_schema SET version = %s", (len(MIGRATIONS),))
                raw.execute("COMMIT")
            except BaseException:
                self._leave()
                raise

    def claim(self, worker: str | None) -> None:
        """Take the unit."""
        ends = time.monotonic() + _HOLDER_SECONDS
        while True:
            holder = self._claimed(worker)
            if holder is None:
                return
            if time.monotonic() > ends:
                raise StoreError(
                    f"{self.path}: unit {self.unit!r} is in use by {holder}; stop that one first, "
                    "or give this one a store of its own (?schema=)"
                )
            time.sleep(0.05)

    def _claimed(self, worker: str | None) -> str | None:
        """Claim the unit; returns the holder where it is held and not to be taken."""
        if worker is None:
            row = self._row(f"SELECT c.worker {_HOLDER}", self.unit)
            if row is not None:
                return str(row[0])
        else:
            # It may stand still inside a transaction, and hold the lock of its row.
            query = f"SELECT pg_terminate_backend(c.pid) {_HOLDER}"
            self.executed(lambda raw: raw.execute(query, (self.unit,)))
        name = worker or f"process {os.getpid()} on {socket.gethostname()}"
        with translating_errors(self.session.address, "cannot be written"):
            row = self.session.raw.execute(
                "INSERT INTO claims (unit, generation, commits, worker, pid, started) "
                "SELECT %s, 1, 0, %s, pid, backend_start FROM pg_stat_activity "
                "WHERE pid = pg_backend_pid() "
                "ON CONFLICT (unit) DO UPDATE SET generation = claims.generation + 1, "
                "worker = excluded.worker, pid = excluded.pid, started = excluded.started, "
                "at = now() RETURNING generation, commits",
                (self.unit, name),
            ).fetchone()
        assert row is not None
        self.generation, self._commits = row
        self._held = self.session.number
        return None


@contextmanager
def translating_errors(address: StoreAddress, what: str) -> Iterator[None]:
    """Raise the client's errors as StoreError, with a remedy."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise StoreError(_sentence(address, what, error)) from error


_HOLDERS = (
    "FROM claims AS c JOIN pg_stat_activity AS s "
    "ON s.pid = c.pid AND s.backend_start = c.started "
    "WHERE c.pid <> pg_backend_pid()"
)
"""The sessions that claims name, where they are alive and others."""

_HOLDER = f"{_HOLDERS} AND c.unit = %s"
"""The session that a unit's claim names, where it is alive and another one."""

_RESTORE = "restore a backup, or begin a new store in another ?schema="

_REMEDIES = {
    # What the schema's version promises.
    **dict.fromkeys(("42P01", "42P07", "42703", "42723"), f"the store is damaged: {_RESTORE}"),
    "42501": "the role lacks a right: docs/postgresql.md lists those that are needed",
    "53100": "the server's disk is full: free some space",
    "53300": "the server has no free connection: raise max_connections, or use fewer workers",
    "25006": "the server only reads: name the primary one",
    "55P03": "another session holds a lock: let that one finish",
    "57014": "a time limit of the server ended it: raise statement_timeout for this role",
}


def _sentence(address: StoreAddress, what: str, error: psycopg.Error) -> str:
    text = " ".join((error.diag.message_primary or str(error)).split())
    if address.password:
        text = text.replace(address.password, "***")
    remedy = _REMEDIES.get(error.sqlstate or "", "")
    return f"{address.shown}: {what}: {text}" + (f"; {remedy}" if remedy else "")


_SILENCE = "10s"
"""After so much silence the server ends a session that holds an advisory lock."""

_LOST = ("08", "57P")
"""The beginnings of the SQL states that say that a connection or server has gone."""
_LOST_STATES = ("25P03", "25P04")


def is_away(error: StoreError) -> bool:
    """Whether an error is about a server that cannot be reached for now, and not about a fault."""
    import psycopg

    cause = error.__cause__
    if not isinstance(cause, psycopg.OperationalError):
        return False
    state = cause.sqlstate or ""
    return not state or state.startswith(_LOST) or state in (*_LOST_STATES, "53300")


def _connected(address: StoreAddress) -> psycopg.Connection[Any]:
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise MissingExtraError(
            "a store on PostgreSQL", package="psycopg", extra="postgres"
        ) from None
    try:
        given = conninfo_to_dict(address.conninfo)
    except psycopg.Error:
        raise no_store_address(address.shown) from None
    try:
        values: dict[str, Any] = {**_KEEPALIVES, **given}
        return psycopg.connect(**values, autocommit=True)
    except psycopg.Error as error:
        text = _sentence(address, "the server cannot be reached", error)
        raise StoreError(
            f"{text}; check that it is running, and the host, port, database, user and password"
        ) from error


class LockedTables:
    """The tables of a unit that is written by the session that holds its advisory lock."""

    # The lock and the rows belong to one connection, which is not replaced when it is lost: what
    # has lost the lock cannot write. The server ends it after ten silent seconds, so that a process
    # that stands still does not keep the lock.

    def __init__(self, path: str, unit: str) -> None:
        self._address = parse_address(path)
        self._unit = unit
        session = _Session(self._address)
        self._raw = session.raw
        with closed_on_error(self._raw), translating_errors(self._address, "cannot be opened"):
            session.show(unit)
            self._raw.execute("SELECT set_config('idle_session_timeout', %s, FALSE)", (_SILENCE,))

    def locked(self) -> bool:
        """Take the lock if no other session holds it, at once; whether this one has it now."""
        with translating_errors(self._address, "cannot be read"):
            row = self._raw.execute(
                "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))",
                (f"streameval {self._address.schema} {self._unit}",),
            ).fetchone()
        return row is not None and bool(row[0])

    def execute(self, statement: str, values: Values = ()) -> psycopg.Cursor[Any]:
        """Execute a statement; raises StoreError."""
        with translating_errors(self._address, "cannot be written"):
            return self._raw.execute(_translated(statement), values, binary=True)

    def executemany(self, statement: str, values: Iterable[Values]) -> None:
        """Execute a statement once for each row of values; raises StoreError."""
        for row in values:
            self.execute(statement, row)

    def close(self) -> None:
        """End the session, and with it the lock."""
        self._raw.close()


def open_postgres(
    path: str, unit: str, worker: str | None, sibling: PostgresStore | None = None, *, begins: bool
) -> PostgresStore:
    """Open a unit for writing, and claim it."""
    session = _Session(parse_address(path)) if sibling is None else sibling.session
    store = PostgresStore(session, unit)
    with closed_on_error(store):
        if not begins and store.version() is None:
            raise StoreError(f"{store.path}: holds nothing yet")
        store.migrate()
        if not begins and unit not in store.units():
            raise StoreError(f"{store.path}: has no unit {unit!r}: {_units(store)}")
        store.claim(worker)
    return store


def open_unclaimed(path: str, unit: str) -> PostgresStore:
    """Show a unit, in a schema that is made or brought up to date where it has to be."""
    store = PostgresStore(_Session(parse_address(path)), unit)
    with closed_on_error(store):
        store.migrate()
    return store


def postgres_exists(path: str) -> bool:
    """Whether there is a store with a unit at an address; raises StoreError."""
    with closing(PostgresStore(_Session(parse_address(path)), ONE_UNIT)) as store:
        return store.version() is not None and bool(store.units())


def read_postgres(path: str, unit: str | None = None) -> PostgresStore:
    """Open a store for reading only."""
    store = PostgresStore(_Session(parse_address(path)), ONE_UNIT if unit is None else unit)
    with closed_on_error(store):
        version = store.version()
        if version is None:
            raise StoreError(f"{store.path}: there is no such store")
        if version < READABLE:
            raise StoreError(
                f"{store.path}: was written by an older streameval (its schema is {version}, this "
                f"release reads {READABLE}): the next run brings it up to date"
            )
        units = store.units()
        if unit is None and units:
            store.select(units[0])
        elif unit is not None and unit not in units:
            raise StoreError(f"{store.path}: has no unit {unit!r}: {_units(store)}")
    return store


def _units(store: PostgresStore) -> str:
    units = store.units()
    return f"it has {', '.join(map(repr, units[:20]))}" if units else "it holds nothing yet"
