"""The store: one SQLite file with all that a run must not lose.

States, positions, waiting predictions and quarantine change together, in one
transaction for each checkpoint. The file is in write-ahead mode with
``synchronous=FULL``: a commit returns when it is on the disk, so not even a
power cut loses what a source has been told is done with.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from streameval.errors import ConfigError, StoreError, shown
from streameval.stream.checksums import check_rows, check_types, keep_checksums, note_unwatched
from streameval.stream.private_files import private_file, tighten

if TYPE_CHECKING:
    from streameval.stream.config.settings import RunSettings

__all__ = [
    "RESTORED",
    "SCHEMA_VERSION",
    "Store",
    "StoreLock",
    "commits_noted",
    "finish_restore",
    "in_window_order",
    "inbox_of",
    "keep_window_order",
    "open_store",
    "read_store",
    "refused_change",
    "restoring",
    "sync",
    "verify",
    "worded",
]

SCHEMA_VERSION = 2
"""1 had no checksums of rows; a store of it gets them when a run opens it."""

RESTORED = "store.db"
"""The store in a backup."""

_WINDOW_ORDER = "windows"
"""The key in ``meta`` with the names of the windows in the order of the settings. What the counts
depend on does not include it: windows may be reordered, and their counts stay."""

_Found = TypeVar("_Found")

_APPLICATION_ID = 0x53455631  # "SEV1", which `file` and other tools can know it by

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE states (
    id INTEGER PRIMARY KEY,
    partition TEXT NOT NULL,
    window TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('snapshot', 'delta')),
    reverted BLOB NOT NULL,
    data BLOB NOT NULL
);
CREATE UNIQUE INDEX states_place ON states (partition, window, number);
CREATE TABLE positions (
    partition TEXT PRIMARY KEY,
    position TEXT NOT NULL,
    records INTEGER NOT NULL,
    newest INTEGER
) WITHOUT ROWID;
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE quarantine (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    partition TEXT NOT NULL,
    kind TEXT NOT NULL,
    place INTEGER NOT NULL,
    time INTEGER,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL,
    cut INTEGER NOT NULL,
    replay INTEGER NOT NULL DEFAULT 0,
    raw BLOB NOT NULL
);
CREATE INDEX quarantine_replay ON quarantine (id) WHERE replay;
CREATE TABLE quarantine_reasons (reason TEXT PRIMARY KEY, total INTEGER NOT NULL);
CREATE TABLE alerts (name TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
"""


class StoreLock:
    """The lock of a store, held until :meth:`close` or the end of the process.

    It is a lock of the operating system on ``<store>.lock``, so a killed
    process leaves none behind. The file stays, with the pid of its last holder:
    deleting it would let two processes lock two files of one name.

    Beside the pid stands how many commits the store has seen. It is written after each of
    them, so a store with fewer has lost some: SQLite takes a damaged end of its write-ahead
    log for one that a crash left unfinished, and drops it without an error.

    Args:
        store: The store's path; links are followed, so that two names of one
            store have one lock.

    Raises:
        StoreError: Another process holds it (its pid is named), or the file
            cannot be written.
    """

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
            # On a full disk the lock holds all the same, with what it said before.
            with suppress(OSError):
                os.pwrite(self._descriptor, b"%-20d\n%-20d\n" % (os.getpid(), commits), 0)

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _content(descriptor: int) -> tuple[str, int]:
    """The pid, and the number of commits; 0 where an older release has written it."""
    holder, *rest = os.pread(descriptor, 64, 0).decode("ascii", "replace").split("\n")
    commits = rest[0].strip() if rest else ""
    return holder.strip(), int(commits) if commits.isdecimal() else 0


def commits_noted(store: str) -> int:
    """How many commits a store has seen, by its lock file; 0 where there is none.

    To be read before the store: a commit between the two is no loss then.
    """
    try:
        descriptor = os.open(os.path.realpath(store) + ".lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return _content(descriptor)[1]
    finally:
        os.close(descriptor)


class Store:
    """An open store; :func:`open_store` and :func:`read_store` make one."""

    __slots__ = ("_lock", "connection", "path")

    def __init__(self, path: str, connection: sqlite3.Connection, lock: StoreLock | None) -> None:
        self.path = path
        self.connection = connection
        self._lock = lock

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of the block, or nothing of it, is in the store afterwards.

        Raises:
            StoreError: It could not be written; nothing of it was.
        """
        with worded(self.path, "cannot be written"):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                note_unwatched(self.connection)
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
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One unchanging view of the store; raises StoreError where it cannot be read."""
        with worded(self.path, "cannot be read"):
            self.connection.execute("BEGIN")
            try:
                yield self.connection
            finally:
                with suppress(sqlite3.Error):
                    self.connection.execute("ROLLBACK")

    def counters(self) -> dict[str, int]:
        """The counters by name."""
        with worded(self.path, "cannot be read"):
            return dict(self.connection.execute("SELECT name, value FROM counters"))

    def set_counters(self, values: Mapping[str, int]) -> None:
        """Write counters; inside a transaction."""
        self.connection.executemany(
            "INSERT INTO counters VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            list(values.items()),
        )

    def set_meta(self, key: str, value: str) -> None:
        """Note something about the store; inside a transaction."""
        self.connection.execute(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, value),
        )

    def meta(self) -> dict[str, str]:
        """What the store is about: its schema's version and the evaluated task."""
        with worded(self.path, "cannot be read"):
            return dict(self.connection.execute("SELECT key, value FROM meta"))

    def close(self) -> None:
        """Let go of the file and its lock."""
        with suppress(sqlite3.Error):
            self.connection.close()
        if self._lock is not None:
            self._lock.close()


def open_store(
    path: str,
    fingerprint: Mapping[str, str] | None = None,
    *,
    evolve: Callable[[Store], None] | None = None,
    busy_seconds: float = 10.0,
) -> Store:
    """Open a store for writing, or begin a new one where there is none.

    Args:
        path: The file; its directory must exist.
        fingerprint: Key of the configuration -> its value as text: what the
            counts in the store rest on. Kept in a new store, compared with an
            old one's. None: whatever it is.
        evolve: Called with an old store, under its lock, before that comparison.
        busy_seconds: How long to wait for another program that writes to it.

    Raises:
        StoreError: It is another process's, no store of streameval, of a
            newer release, damaged, or cannot be written.
        ConfigError: It was begun with another fingerprint.
    """
    directory = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(directory):
        raise StoreError(f"{path}: there is no directory {directory}; make it first")
    lock = StoreLock(path)
    try:
        finish_restore(path, lock)
        connection = _connect(path, busy_seconds, lock)
        try:
            if evolve is not None and _holds_tables(connection, path):
                evolve(Store(path, connection, lock))
            _settle(connection, path, fingerprint)
        except BaseException:
            connection.close()
            raise
    except BaseException:
        lock.close()
        raise
    return Store(path, connection, lock)


def read_store(path: str) -> Store:
    """Open a store for reading only, also while a run writes to it.

    Raises:
        StoreError: There is none, or it cannot be read.
    """
    if os.path.isdir(restoring(path)):
        raise StoreError(
            f"{path}: a restore was interrupted; repeat it, or start the run, which finishes it"
        )
    if not os.path.isfile(path):
        raise StoreError(f"{path}: there is no such store")
    with worded(path, "cannot be read"):
        uri = "file:" + os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace(
            "#", "%23"
        )
        connection = sqlite3.connect(uri + "?mode=ro", uri=True, timeout=10, isolation_level=None)
        try:
            _check_kind(connection, path)
        except BaseException:
            connection.close()
            raise
    return Store(path, connection, None)


def inbox_of(path: str) -> Path:
    """The directory of a store's inbox: beside it, also where its path is a link."""
    return Path(os.path.realpath(path) + ".inbox")


def restoring(path: str) -> str:
    """The directory of a verified copy that is about to take the place of a store."""
    return os.path.realpath(path) + ".restoring"


def finish_restore(path: str, lock: StoreLock) -> None:
    """Put what is in :func:`restoring` in the place of a store and its inbox, if it is there.

    Each step can be repeated: a crash between two of them is mended by the next call.

    Args:
        path: Of the store.
        lock: Of the store.

    Raises:
        StoreError: The old files cannot be replaced.
    """
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


def sync(path: str | os.PathLike[str]) -> None:
    """Bring a file or directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def verify(connection: sqlite3.Connection, path: str, commits: int) -> bool:
    """Whether a store is whole: the file, every row, and the last commit.

    Args:
        connection: Of the store; inside a transaction.
        path: Of the store, for errors.
        commits: How many its lock file has noted.

    Returns:
        False where it is an older store, of whose rows only the types are verified.

    Raises:
        StoreError: It is damaged.

    Cost:
        One read of the whole file.
    """
    with worded(path, "cannot be read"):
        faults = [text for (text,) in connection.execute("PRAGMA integrity_check(3)")]
        if faults != ["ok"]:
            what = "; ".join(" ".join(fault.split()) for fault in faults)
            raise StoreError(f"{path}: is damaged: {what}; {_RESTORE}")
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


def _connect(path: str, busy_seconds: float, lock: StoreLock) -> sqlite3.Connection:
    try:
        # SQLite gives the files that it makes beside this one the same rights.
        private_file(path)
        for suffix in ("-wal", "-shm"):
            tighten(path + suffix)
    except OSError as error:
        raise StoreError(f"{path}: cannot be opened: {error.strerror}") from None
    with worded(path, "cannot be opened"):
        connection = sqlite3.connect(
            path, timeout=busy_seconds, isolation_level=None, cached_statements=256
        )
        try:
            _check_kind(connection, path, may_be_new=True)
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise StoreError(
                    f"{path}: this file system cannot hold a store: SQLite's write-ahead "
                    f"log is not to be had there (got {mode!r}); use a local disk"
                )
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA journal_size_limit = 67108864")
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                lock.note(0)  # what it says is of a store that was here before
            else:
                connection.execute("BEGIN IMMEDIATE")
                verify(connection, path, lock.commits)
                keep_checksums(connection)
                connection.execute(
                    "UPDATE meta SET value = ? WHERE key = 'schema' AND value <> ?1",
                    (str(SCHEMA_VERSION),),
                )
                connection.execute("COMMIT")
            return connection
        except BaseException:
            connection.close()
            raise


def _check_kind(connection: sqlite3.Connection, path: str, *, may_be_new: bool = False) -> None:
    (identity,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables and may_be_new:
        return
    if identity != _APPLICATION_ID:
        raise StoreError(
            f"{path}: is not a store of streameval, and was left alone; give another path"
        )
    (text,) = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone() or ("",)
    if not isinstance(text, str) or not text.isdecimal() or text == "0":
        raise StoreError(f"{path}: is damaged: it does not tell its schema's version")
    if int(text) > SCHEMA_VERSION:
        raise StoreError(
            f"{path}: was written by a newer streameval (its schema is {text}, this release "
            f"knows up to {SCHEMA_VERSION}): upgrade, or begin a new store"
        )


def _holds_tables(connection: sqlite3.Connection, path: str) -> bool:
    with worded(path, "cannot be read"):
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(tables)


def _settle(
    connection: sqlite3.Connection, path: str, fingerprint: Mapping[str, str] | None
) -> None:
    with worded(path, "cannot be written"):
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables:
            if fingerprint is None:
                raise StoreError(f"{path}: holds nothing yet")
            begun = {"schema": str(SCHEMA_VERSION)}
            begun.update({f"config.{key}": value for key, value in fingerprint.items()})
            rows = "".join(f"INSERT INTO meta VALUES ({_q(k)}, {_q(v)});" for k, v in begun.items())
            connection.executescript(
                f"BEGIN IMMEDIATE; PRAGMA application_id = {_APPLICATION_ID}; {_SCHEMA} {rows}"
            )
            keep_checksums(connection)
            connection.execute("COMMIT")
            return
        if fingerprint is None:
            return
        known = dict(connection.execute("SELECT key, value FROM meta"))
    for key, value in fingerprint.items():
        before = known.get(f"config.{key}")
        if before != value:
            raise refused_change(path, *_difference(key, _decoded(before), _decoded(value)))


def keep_window_order(store: Store, settings: RunSettings) -> None:
    """Note the order of the settings in a store, where it has another one.

    Raises:
        StoreError: The store cannot be read or written.
    """
    order = msgspec.json.encode([window.name for window in settings.window]).decode()
    if store.meta().get(_WINDOW_ORDER) != order:
        with store.transaction():
            store.set_meta(_WINDOW_ORDER, order)


def in_window_order(found: Mapping[str, _Found], store: Store) -> dict[str, _Found]:
    """What was found for each window, in the order of the last run's settings.

    A store that tells no order, or one that does not have them all, is no
    reason to leave one out: the others follow by name.

    Raises:
        StoreError: The store cannot be read.
    """
    try:
        order = msgspec.json.decode(store.meta().get(_WINDOW_ORDER, "[]"), type=list[str])
    except msgspec.MsgspecError:
        order = []
    names = dict.fromkeys([*order, *sorted(found)])
    return {name: found[name] for name in names if name in found}


def refused_change(path: str, key: str, was: Any, got: Any, remedy: str = "") -> ConfigError:
    """What is said of a setting that a store cannot go on under.

    Args:
        path: Of the store.
        key: Of the setting.
        was: What the store was begun with; None where it had none.
        got: What is wanted now.
        remedy: What may be done beside putting it back, with a comma behind it.
    """
    return ConfigError(
        f"{key}{_DEFAULTS.get(key.rpartition('.')[2], '')}: {path} was begun with "
        f"{_worded(key, was)}, and its counts rest on that; got {_worded(key, got)}; "
        f"put it back, {remedy}or begin a new store with --store"
    )


def _decoded(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


def _difference(key: str, was: Any, got: Any) -> tuple[str, Any, Any]:
    """The first place where two settings differ, and what stands there.

    >>> was = {"hour": {"kind": "panes", "lateness": 86_400_000_000}}
    >>> _difference("window", was, {"hour": {"kind": "panes", "lateness": 3_600_000_000}})
    ('window.hour.lateness', 86400000000, 3600000000)
    >>> _difference("window", {"all": {}}, {"all": {}, "day": {"length": 3}})
    ('window.day', None, {'length': 3})
    """
    if isinstance(was, dict) and isinstance(got, dict):
        for name in [*was, *(name for name in got if name not in was)]:
            if was.get(name) != got.get(name):
                return _difference(f"{key}.{name}", was.get(name), got.get(name))
    return key, was, got


_DEFAULTS = {
    # What changes with them stands nowhere in the settings under its own name.
    "lateness": " (join.wait unless it is set)",
    "retain": " (length and lateness unless it is set)",
}


def _worded(key: str, value: Any) -> str:
    if value is None:
        return "nothing"
    if key.startswith("window.") and isinstance(value, int):
        return f"{value / 1_000_000:.15g} s"
    return shown(json.dumps(value))


def _q(text: str) -> str:
    return "'" + text.replace("'", "''").replace("\0", "") + "'"


_RESTORE = "restore a backup, or begin a new store"

_REMEDIES = {
    sqlite3.SQLITE_FULL: "the disk is full: make room",
    sqlite3.SQLITE_BUSY: "another program is writing to it: let that one finish",
    sqlite3.SQLITE_LOCKED: "another program is writing to it: let that one finish",
    sqlite3.SQLITE_READONLY: "it is read-only: make it and its directory writable",
    sqlite3.SQLITE_CANTOPEN: "check that it may be read and written, and its directory too",
    sqlite3.SQLITE_CORRUPT: f"the file is damaged: {_RESTORE}",
    sqlite3.SQLITE_NOTADB: "the file is not a database, and was left alone: give another path",
    sqlite3.SQLITE_IOERR: "the disk failed, or is full: see to it",
}


@contextmanager
def worded(path: str, what: str) -> Iterator[None]:
    """SQLite's errors as StoreError, with what to do."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if isinstance(error, UnicodeDecodeError):
            # A message of SQLite's that quotes a damaged schema.
            code, text = sqlite3.SQLITE_CORRUPT, error.object.decode(errors="replace")
        else:
            # The lower byte is the primary code, the rest tells where it came from.
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
