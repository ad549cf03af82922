"""A store in a SQLite file: lock, connection, transactions, signs of damage, a begun restore.

The file is in write-ahead mode with ``synchronous=FULL``: a commit returns when it is on the disk,
so not even a power cut loses records that a source no longer keeps.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from streameval.errors import StoreError
from streameval.service.closing import closed_on_error
from streameval.service.private_files import private_file, tighten
from streameval.service.store.checksums import (
    check_rows,
    check_types,
    checksum_sqlite_sequence,
    keep_checksums,
)
from streameval.service.store.dialect import ONE_UNIT, RESTORE, Connection, KeyedValues
from streameval.service.store.tables import JOIN_TABLES, TABLES, create_tables
from streameval.state_files.disk import sync

SCHEMA_VERSION = 2
"""Version 1 had no checksums of rows; a run that opens such a store adds them."""

RESTORED = "store.db"
"""The store in a backup."""

_APPLICATION_ID = 0x53455631  # "SEV1", by which `file` and other tools recognise it

_LEAST_BYTES = 512
"""The smallest page of SQLite: a shorter file holds nothing."""

_REMEDIES = {
    sqlite3.SQLITE_FULL: "the disk is full: free some space",
    sqlite3.SQLITE_BUSY: "another program is writing to it: let that one finish",
    sqlite3.SQLITE_LOCKED: "another program is writing to it: let that one finish",
    sqlite3.SQLITE_READONLY: "it is read-only: make it and its directory writable",
    sqlite3.SQLITE_CANTOPEN: "check that it may be read and written, and its directory too",
    sqlite3.SQLITE_CORRUPT: f"the file is damaged: {RESTORE}",
    sqlite3.SQLITE_NOTADB: "the file is not a database, and was left alone: give another path",
    sqlite3.SQLITE_IOERR: "the disk failed, or is full: repair it or free some space",
}


class StoreLock:
    """The lock of a store, held until :meth:`close` or the end of the process."""

    # A lock of the operating system on <store>.lock: a killed process leaves none behind. The file
    # stays, with the pid of its last holder: deleting it would let two processes lock two files of
    # one name. It also holds the number of commits, which is written after each of them. So a store
    # with fewer has lost some: SQLite treats a damaged end of its write-ahead log like one that a
    # crash left unfinished, and drops it without an error.

    __slots__ = ("_descriptor", "commits")

    def __init__(self, store: str) -> None:
        path = os.path.realpath(store) + ".lock"
        try:
            private_file(path)
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise StoreError(
                f"{store}: cannot be locked: {path}: {error.strerror}; "
                "the store's directory must exist and be writable"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder, _ = _content(descriptor)
            os.close(descriptor)
            whose = f"the process {holder}" if holder.isdecimal() else "another process"
            raise StoreError(
                f"{store}: is in use by {whose}; stop that one first, or give this one "
                "a store of its own"
            ) from None
        self._descriptor: int | None = descriptor
        _, self.commits = _content(descriptor)
        self.note(self.commits)

    def note(self, commits: int) -> None:
        """Note how many commits the store has seen."""
        self.commits = commits
        if self._descriptor is not None:
            # On a full disk the lock still holds, with its former content.
            with suppress(OSError):
                os.pwrite(self._descriptor, b"%-20d\n%-20d\n" % (os.getpid(), commits), 0)

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _content(descriptor: int) -> tuple[str, int]:
    """The pid, and the number of commits; 0 in a file of an older release."""
    holder, *rest = os.pread(descriptor, 64, 0).decode("ascii", "replace").split("\n")
    commits = rest[0].strip() if rest else ""
    return holder.strip(), int(commits) if commits.isdecimal() else 0


def commits_noted(store: str) -> int:
    """The number of commits that a store's lock file has noted; 0 where there is none."""
    # Read it before the store: a commit between the two is then not reported as lost.
    try:
        descriptor = os.open(os.path.realpath(store) + ".lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return _content(descriptor)[1]
    finally:
        os.close(descriptor)


class SqliteStore(KeyedValues):
    """An open SQLite store; one thread after another may use it."""

    __slots__ = ("_lock", "_reader", "connection", "path")

    connection: sqlite3.Connection

    def __init__(self, path: str, connection: sqlite3.Connection, lock: StoreLock | None) -> None:
        self.path = path
        self.connection = connection
        self._reader: sqlite3.Connection | None = None
        self._lock = lock

    def read_connection(self) -> Connection:
        """Another connection, for a thread that reads what is committed while one writes."""
        if self._reader is None:
            with translating_errors(self.path, "cannot be opened"):
                self._reader = _connected_to_read(self.path)
        return self._reader

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Write all of the block, or nothing of it."""
        with translating_errors(self.path, "cannot be written"):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                checksum_sqlite_sequence(self.connection)
                commits = _commits(self.connection) + 1
                self.connection.execute(f"PRAGMA user_version = {commits}")
                self.connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")
                raise
            if self._lock is not None:
                self._lock.note(commits)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A consistent view of the store; raises StoreError where it cannot be read."""
        with translating_errors(self.path, "cannot be read"):
            self.connection.execute("BEGIN")
            try:
                yield self.connection
            finally:
                with suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")

    def counters(self) -> dict[str, int]:
        """The counters by name."""
        with translating_errors(self.path, "cannot be read"):
            return dict(self.connection.execute("SELECT name, value FROM counters"))

    def meta(self) -> dict[str, str]:
        """The properties of the store: its schema's version, its settings and more."""
        with translating_errors(self.path, "cannot be read"):
            return dict(self.connection.execute("SELECT key, value FROM meta"))

    def units(self) -> list[str]:
        """The units of the store: a file is one."""
        return [ONE_UNIT]

    def select(self, unit: str) -> None:
        """Show a unit of a store that is only read: a file shows its one."""

    def commits(self) -> dict[str, tuple[int, int]]:
        """Generation and number of commits by unit: they differ when a unit has changed."""
        return {ONE_UNIT: (1, _commits(self.connection))}

    def close(self) -> None:
        """Close the file and release its lock."""
        # SQLite empties its log with the last one, which has to be the one that can write.
        for connection in (self._reader, self.connection):
            if connection is not None:
                with suppress(sqlite3.Error):
                    connection.close()
        if self._lock is not None:
            self._lock.close()


def verify(connection: sqlite3.Connection, path: str, commits: int) -> bool:
    """Whether a store is whole: the file, every row, and the last commit."""
    with translating_errors(path, "cannot be read"):
        faults = [text for (text,) in connection.execute("PRAGMA integrity_check(3)")]
        if faults != ["ok"]:
            what = "; ".join(" ".join(fault.split()) for fault in faults)
            raise StoreError(f"{path}: is damaged: {what}; {RESTORE}")
        has_checksums = check_rows(connection)
        if not has_checksums:
            check_types(connection)
    found = _commits(connection)
    if found < commits:
        raise StoreError(
            f"{path}: the last commits are missing: expected {commits}, got {found}; the end of "
            f"{path}-wal was damaged, or the file was removed: restore a backup (or, where an "
            f"older copy was put there on purpose, delete {path}.lock)"
        )
    return has_checksums


def _commits(connection: sqlite3.Connection) -> int:
    (commits,) = connection.execute("PRAGMA user_version").fetchone()
    return int(commits)


def _connected_to_read(path: str) -> sqlite3.Connection:
    escaped = os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return sqlite3.connect(f"file:{escaped}?mode=ro", uri=True, timeout=10, isolation_level=None)


def open_sqlite(
    path: str, fingerprint: Mapping[str, str] | None, busy_seconds: float
) -> tuple[SqliteStore, bool]:
    """A store that is open for writing, and whether it has been begun now; raises StoreError."""
    directory = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(directory):
        raise StoreError(f"{path}: there is no directory {directory}; make it first")
    lock = StoreLock(path)
    with closed_on_error(lock):
        finish_restore(path, lock)
        connection, is_new = _connect(path, busy_seconds, lock)
        with closed_on_error(connection):
            if is_new:
                _begin(connection, path, fingerprint)
    return SqliteStore(path, connection, lock), is_new


def read_sqlite(path: str) -> SqliteStore:
    """Open a store for reading only, also while a run writes to it; raises StoreError."""
    if os.path.isdir(restoring(path)):
        raise StoreError(
            f"{path}: a restore was interrupted; repeat it, or start the run, which finishes it"
        )
    commits = commits_noted(path)
    _check_not_lost(path, commits)
    if not os.path.isfile(path):
        raise StoreError(f"{path}: there is no such store")
    with translating_errors(path, "cannot be read"):
        connection = _connected_to_read(path)
        with closed_on_error(connection):
            if _is_new(connection, path, commits):
                raise StoreError(f"{path}: holds nothing yet")
            _check_kind(connection, path)
    return SqliteStore(path, connection, None)


def _connect(path: str, busy_seconds: float, lock: StoreLock) -> tuple[sqlite3.Connection, bool]:
    _check_not_lost(path, lock.commits)
    try:
        # SQLite gives the files that it makes beside this one the same rights.
        private_file(path)
        for suffix in ("-wal", "-shm"):
            tighten(path + suffix)
    except OSError as error:
        raise StoreError(f"{path}: cannot be opened: {error.strerror}") from None
    with translating_errors(path, "cannot be opened"):
        connection = sqlite3.connect(
            path,
            timeout=busy_seconds,
            isolation_level=None,
            cached_statements=256,
            # By one after another.
            check_same_thread=False,
        )
        with closed_on_error(connection):
            is_new = _is_new(connection, path, lock.commits)
            if not is_new:
                _check_kind(connection, path)
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise StoreError(
                    f"{path}: SQLite's write-ahead log (WAL) is not supported on this file "
                    f"system (journal mode is {mode!r}); use a local disk"
                )
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA journal_size_limit = 67108864")
            if not is_new:
                connection.execute("BEGIN IMMEDIATE")
                verify(connection, path, lock.commits)
                keep_checksums(connection)
                connection.execute(
                    "UPDATE meta SET value = ? WHERE key = 'schema' AND value <> ?",
                    (str(SCHEMA_VERSION), str(SCHEMA_VERSION)),
                )
                connection.execute("COMMIT")
    return connection, is_new


def _check_kind(connection: sqlite3.Connection, path: str) -> None:
    (identity,) = connection.execute("PRAGMA application_id").fetchone()
    if identity != _APPLICATION_ID:
        raise _of_another(path)
    (text,) = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone() or ("",)
    if not isinstance(text, str) or not text.isdecimal() or text == "0":
        raise StoreError(f"{path}: is damaged: its schema's version is missing")
    if int(text) > SCHEMA_VERSION:
        raise StoreError(
            f"{path}: was written by a newer streameval (its schema is {text}, this release "
            f"knows up to {SCHEMA_VERSION}): upgrade, or begin a new store"
        )


def _is_new(connection: sqlite3.Connection, path: str, commits: int) -> bool:
    """Whether a file is an empty database; raises StoreError where it was a store, or another's."""
    with translating_errors(path, "cannot be read"):
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (identity,) = connection.execute("PRAGMA application_id").fetchone()
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if not tables:
        if commits or identity == _APPLICATION_ID:
            raise _lost(path, "it has no tables", commits)
        if identity or pages > 1:
            raise _of_another(path)
    return not tables


def _check_not_lost(path: str, commits: int) -> None:
    """Raise StoreError where a file is empty or gone, and its lock or its log is a store's."""
    # Before SQLite opens it, which deletes the log of an empty file.
    size = os.path.getsize(path) if os.path.exists(path) else None
    log = f"{os.path.realpath(path)}-wal"
    if (size or 0) < _LEAST_BYTES and (commits or (os.path.exists(log) and os.path.getsize(log))):
        raise _lost(path, "it is missing" if size is None else f"it has {size} bytes", commits)


def _lost(path: str, found: str, commits: int) -> StoreError:
    beside = ", ".join(f"{path}{suffix}" for suffix in ("", "-wal", ".lock"))
    noted = f"{path}.lock notes {commits:,} commits" if commits else "it was a store"
    return StoreError(
        f"{path}: is damaged: {found}, although {noted}; restore a backup (or, to begin a new "
        f"store on purpose, delete {beside})"
    )


def _of_another(path: str) -> StoreError:
    return StoreError(
        f"{path}: is not a store of streameval, and was left alone; give another path"
    )


def _begin(
    connection: sqlite3.Connection, path: str, fingerprint: Mapping[str, str] | None
) -> None:
    if fingerprint is None:
        raise StoreError(f"{path}: holds nothing yet")
    with translating_errors(path, "cannot be written"):
        meta = {"schema": str(SCHEMA_VERSION)}
        meta.update({f"config.{key}": value for key, value in fingerprint.items()})
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        create_tables(connection, *(name for name in TABLES if name not in JOIN_TABLES))
        connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))
        keep_checksums(connection)
        connection.execute("COMMIT")


def inbox_of(path: str) -> Path:
    """The directory of a store's inbox: beside it, also where its path is a link."""
    return Path(os.path.realpath(path) + ".inbox")


def restoring(path: str) -> str:
    """The directory of a verified copy that is about to replace a store."""
    return os.path.realpath(path) + ".restoring"


def finish_restore(path: str, lock: StoreLock) -> None:
    """Replace a store and its inbox by the content of :func:`restoring`, if it exists."""
    # Each step can be repeated: after a crash between two of them the next call finishes it.
    copied = os.path.join(restoring(path), RESTORED)
    if not os.path.isdir(restoring(path)):
        return
    store, inbox = os.path.realpath(path), inbox_of(path)
    try:
        lock.note(0)  # it has noted the commits of the old store
        for suffix in ("-wal", "-shm"):
            Path(store + suffix).unlink(missing_ok=True)
        if os.path.isfile(copied):
            os.replace(copied, store)
        if inbox_of(copied).is_dir():
            if inbox.is_dir():
                shutil.rmtree(inbox)
            os.rename(inbox_of(copied), inbox)
        sync(os.path.dirname(store))
        shutil.rmtree(restoring(path))
        with suppress(OSError):
            inbox.rmdir()  # where the backup had no posts
    except OSError as error:
        raise StoreError(
            f"{path}: a restore cannot be finished: {error.filename}: {error.strerror}"
        ) from None


@contextmanager
def translating_errors(path: str, what: str) -> Iterator[None]:
    """Raise SQLite's errors as StoreError, with a remedy."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if isinstance(error, UnicodeDecodeError):
            # A message of SQLite that quotes a damaged schema.
            code, text = sqlite3.SQLITE_CORRUPT, error.object.decode(errors="replace")
        else:
            # The lower byte is the primary code, the rest its origin.
            code, text = getattr(error, "sqlite_errorcode", 0) & 0xFF, str(error)
        text = " ".join(text.split())
        remedy = _REMEDIES.get(code, "")
        safe = (
            ", then start again: what was checkpointed is safe, and the rest is read again"
            if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR)
            else ""
        )
        tail = f"; {remedy}{safe}" if remedy else ""
        raise StoreError(f"{path}: {what}: {text}{tail}") from error
