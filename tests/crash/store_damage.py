"""Damage to a store: every bit flipped and every row deleted, one at a time; on PostgreSQL every
column changed.

``python -m tests.crash.store_damage`` damages everything; the suite takes a sample of it. A damage
is *found* where the check of a store raises a StoreError of one line. A bit of a file may be
flipped without being found only where every row and every answer stay what they were:
SQLite leaves bytes in a page that mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import psycopg

from streameval.errors import StoreError
from streameval.service.alerts.shared import ALERTS_UNIT
from streameval.service.config.address import parse_address
from streameval.service.config.load import load_settings
from streameval.service.join.counts import read_join
from streameval.service.run.service import run_service
from streameval.service.sources.inbox import Inbox
from streameval.service.store.postgres import LockedTables
from streameval.service.store.state_rows import merged_windows
from streameval.service.store.store import each_unit, open_store, read_store
from streameval.service.store.tables import TABLES
from streameval.service.upkeep.check import check_store
from streameval.service.upkeep.copy import copy_store
from tests.support.postgres_server import running_postgres

CONFIG = """
store = "run.db"
[evaluator]
slices = ["country"]
metrics = ["accuracy", "roc_auc"]
[[window]]
name = "all"
[[window]]
name = "hour"
length = "1h"
pane = "30m"
[fields]
id = "id"
score = "score"
time = "time"
[files]
predictions = ["p.jsonl"]
labels = ["l.jsonl"]
follow = false
[http]
[join]
wait = "1h"
[serve]
listen = "127.0.0.1:0"
[[alert]]
name = "low"
metric = "accuracy"
below = 0.9
"""


def make_store(directory: Path) -> Path:
    """A small store with something in every table, and an inbox that is partly counted."""
    (directory / "run.toml").write_text(CONFIG)
    inbox = Inbox(directory / "run.db.inbox", clock=lambda: 1_767_225_600.0)
    predictions = [
        {"id": str(n), "score": n / 12, "time": f"2026-01-01T00:{n:02}:00Z", "country": "PT"}
        for n in range(12)
    ]
    (directory / "p.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in predictions[:8]))
    labels = directory / "l.jsonl"
    for life in range(3):
        with labels.open("a") as file:
            for n in range(life, 12, 2):
                # The third life corrects labels of the first: events are taken back.
                one = {"id": str(n), "y_true": life == 2, "time": f"2026-01-01T00:{n + 20}:00Z"}
                file.write(json.dumps(one) + "\n")
            file.write('{"id": "x", "y_true": \n' if life else "not json\n")
        body = "".join(f"{json.dumps(one)}\n" for one in predictions[8 + life : 9 + life])
        inbox.append("predictions", body.encode())
        previous = os.getcwd()
        os.chdir(directory)
        try:
            run_service(load_settings("run.toml", []), until_end=True)
        finally:
            os.chdir(previous)
    inbox.append("labels", b'{"id": "11", "y_true": true, "time": "2026-01-01T00:40:00Z"}\n')
    inbox.append("labels", b'{"id": "10", "y_true": true, "time": "2026-01-01T00:40:00Z"}\n')
    inbox.close()
    return directory / "run.db"


def answers(path: Path) -> list[object]:
    """Every row of every table, and what is computed from them."""
    store = read_store(str(path))
    try:
        with store.reading() as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            found: list[object] = [
                (name, connection.execute(f"SELECT * FROM {name}").fetchall())
                for (name,) in tables.fetchall()
            ]
            found += [
                (name, evaluator.to_bytes(), evaluator.report().to_dict())
                for name, evaluator in merged_windows(connection).items()
            ]
            found.append(read_join(connection))
    finally:
        store.close()
    return found


def values(path: Path) -> Iterator[tuple[str, tuple[str, ...], tuple[object, ...], str, object]]:
    """Each value of each row: table, key's columns, key, column, value."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall()
        for (table,) in tables:
            info = connection.execute(f"PRAGMA table_info({table})").fetchall()
            columns = [row[1] for row in info]
            keys = tuple(row[1] for row in info if row[5]) or ("rowid",)
            for row in connection.execute(f"SELECT {', '.join((*keys, *columns))} FROM {table}"):
                for column, value in zip(columns, row[len(keys) :], strict=True):
                    yield table, keys, row[: len(keys)], column, value


def flipped(value: object, bit: int) -> tuple[str, object] | None:
    """A value with a bit flipped, as SQL and its parameter; None where there are no more."""
    if isinstance(value, int):
        return None if bit >= 64 else ("?", _signed(value ^ (1 << bit)))
    if value is None:
        return None
    data = bytearray(value if isinstance(value, bytes) else str(value).encode())
    if bit >= 8 * len(data):
        return None
    data[bit // 8] ^= 1 << bit % 8
    return ("?" if isinstance(value, bytes) else "CAST(? AS TEXT)"), bytes(data)


def _signed(value: int) -> int:
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


Damage = Callable[[Path], None]


def value_flips(path: Path) -> Iterator[tuple[str, Damage]]:
    """A flip of each bit of each value, by SQL."""
    for table, keys, key, column, value in values(path):
        bit = 0
        while (new := flipped(value, bit)) is not None:
            where = " AND ".join(f"{name} IS ?" for name in keys)
            query = f"UPDATE OR IGNORE {table} SET {column} = {new[0]} WHERE {where}"
            yield f"{table}.{column}", _sql(query, (new[1], *key))
            bit += 1


def deletions(path: Path) -> Iterator[tuple[str, Damage]]:
    """Each row deleted."""
    seen = set()
    for table, keys, key, _, _ in values(path):
        if (table, key) not in seen:
            seen.add((table, key))
            where = " AND ".join(f"{name} IS ?" for name in keys)
            yield f"{table} deleted", _sql(f"DELETE FROM {table} WHERE {where}", key)


def _sql(query: str, parameters: tuple[object, ...]) -> Damage:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.execute(query, parameters)

    return damage


def file_flips(path: Path, name: str = "") -> Iterator[tuple[str, Damage]]:
    """A flip of each bit of a file: the store's, or the one with ``name`` behind its path."""
    for place in range(os.path.getsize(f"{path}{name}")):
        for bit in range(8):
            yield name or "file", _flip(name, place, bit)


def _flip(name: str, place: int, bit: int) -> Damage:
    def damage(path: Path) -> None:
        with open(f"{path}{name}", "r+b") as file:
            file.seek(place)
            (byte,) = file.read(1)
            file.seek(place)
            file.write(bytes([byte ^ 1 << bit]))

    return damage


class Tally:
    """What became of damages: found, without effect, missed, or ended in a traceback."""

    def __init__(self, path: Path, work: Path) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.faults: list[str] = []
        self._path = path
        self._work = work / "run.db"
        self._fresh()
        check_store(str(self._work))
        self._answers = answers(self._work)

    def _fresh(self) -> None:
        for old in self._work.parent.iterdir():
            if old.is_dir():
                shutil.rmtree(old)
            else:
                old.unlink()
        for suffix in ("", "-wal", ".lock"):
            if os.path.exists(f"{self._path}{suffix}"):
                shutil.copy(f"{self._path}{suffix}", f"{self._work}{suffix}")
        if os.path.exists(f"{self._path}.inbox"):
            shutil.copytree(f"{self._path}.inbox", f"{self._work}.inbox")

    def add(self, number: int, what: str, damage: Damage) -> None:
        """Damage a copy, and look at what is said of it."""
        self._fresh()
        damage(self._work)
        try:
            check_store(str(self._work))
        except StoreError as error:
            found = "found" if "\n" not in str(error) else "more than one line"
            self._note(number, what, found, str(error))
        except Exception as error:
            self._note(number, what, "traceback", repr(error))
        else:
            same = answers(self._work) == self._answers
            self._note(number, what, "without effect" if same else "missed", "")

    def _note(self, number: int, what: str, how: str, text: str) -> None:
        self.counts[what, how] += 1
        if how not in ("found", "without effect"):
            self.faults.append(f"{number} {what}: {how}: {text}")

    def total(self, how: str) -> int:
        """How many ended so."""
        return sum(count for (_, one), count in self.counts.items() if one == how)


@contextmanager
def left_open(path: Path) -> Iterator[None]:
    """A store as a killed run leaves it: the last commits are in the write-ahead log only."""
    store = open_store(str(path))
    try:
        for n in range(3):
            with store.transaction():
                store.set_counters({"replayed": 0, "lives": n})
        yield
    finally:
        store.close()


def wal_flips(path: Path) -> Iterator[tuple[str, Damage]]:
    """A flip of each bit of the write-ahead log, and the log removed or cut short."""
    yield "-wal removed", lambda work: os.unlink(f"{work}-wal")
    size = os.path.getsize(f"{path}-wal")
    for end in (0, 32, size // 2, size - 1):
        yield "-wal cut", lambda work, end=end: os.truncate(f"{work}-wal", end)  # type: ignore[misc]
    yield from file_flips(path, "-wal")


def answers_of_postgres(address: str) -> list[object]:
    """Every row of every unit, and what is computed from them."""
    found: list[object] = []
    with closing(read_store(address)) as store, store.reading() as connection:
        for unit in [*each_unit(store), ALERTS_UNIT]:
            store.select(unit)
            found += [connection.execute(f"SELECT * FROM {name}").fetchall() for name in TABLES]
            found += [one.to_bytes() for one in merged_windows(connection).values()]
            found.append(read_join(connection))
    return found


_CHANGED = {
    "bigint": "coalesce({0}, 0) + 1000003",
    "integer": "{0} + 1",
    "boolean": "NOT {0}",
    "bytea": "CASE octet_length({0}) WHEN 0 THEN '\\x80' "
    "ELSE set_byte({0}, octet_length({0}) / 2, get_byte({0}, octet_length({0}) / 2) # 1) END",
    "text": "CASE {0} WHEN 'delta' THEN 'snapshot' WHEN 'snapshot' THEN 'delta' "
    "ELSE {0} || 'x' END",
    "timestamp with time zone": "{0} + interval '1 day'",
}


def postgres_damages(
    address: str, share: float, rng: random.Random
) -> Iterator[tuple[str, str, str]]:
    """Each row deleted and each of its columns changed: what, and what check and answers say.

    Each is committed by another session than a run's, looked at, and undone.
    """
    place = parse_address(address)
    with psycopg.connect(place.conninfo, autocommit=True) as other:
        other.execute(f"SET search_path = {place.schema}")
        query = (
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            "JOIN information_schema.tables USING (table_schema, table_name) "
            "WHERE table_schema = %s AND table_type = 'BASE TABLE' ORDER BY 1, ordinal_position"
        )
        columns = other.execute(query, (place.schema,)).fetchall()
        before = answers_of_postgres(address)
        for table in dict.fromkeys(name for name, _, _ in columns):
            other.execute(f"CREATE TEMP TABLE kept AS TABLE {table}")
            damages = [(f"{table} deleted", f"DELETE FROM {table}")]
            damages += [
                (f"{table}.{column}", f'UPDATE {table} SET "{column}" = {_CHANGED[kind]}')
                for name, column, kind in columns
                if name == table
            ]
            for (row,) in other.execute("SELECT k::text FROM kept AS k").fetchall():
                for what, damage in damages:
                    if rng.random() >= share:
                        continue
                    column = what.rpartition(".")[2]
                    other.execute(
                        f"{damage.format(chr(34) + column + chr(34))} WHERE {table}::text = %s",
                        (row,),
                    )
                    try:
                        check_store(address)
                    except StoreError as error:
                        how = "found" if "\n" not in str(error) else "more than one line"
                    else:
                        same = answers_of_postgres(address) == before
                        how = "without effect" if same else "missed"
                    yield what, how, row
                    other.execute(f"TRUNCATE {table}")
                    other.execute(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE TABLE kept")
            other.execute("DROP TABLE kept")


def copied_to(address: str, path: Path) -> None:
    """Copy a store to PostgreSQL, beside another unit and an alert that servers judge."""
    copy_store(str(path), address)
    open_store(address, {"evaluator.task": "1"}, unit="7").close()
    tables = LockedTables(address, ALERTS_UNIT)
    tables.execute("INSERT INTO alerts VALUES ('book', '{}')")
    tables.close()


KINDS: dict[str, Callable[[Path], Iterator[tuple[str, Damage]]]] = {
    "values": value_flips,
    "rows": deletions,
    "file": file_flips,
    "predictions": lambda path: file_flips(path, ".inbox/predictions-0000000001.jsonl"),
    "labels": lambda path: file_flips(path, ".inbox/labels-0000000001.jsonl"),
    "wal": wal_flips,
}


def damaged(path: Path, work: Path, kind: str, share: float, rng: random.Random) -> Tally:
    """What becomes of this share of the damages of a kind, chosen at random."""
    with left_open(path) if kind == "wal" else nullcontext():
        tally = Tally(path, work)
        for number, (what, damage) in enumerate(KINDS[kind](path)):
            if rng.random() < share:
                tally.add(number, what, damage)
    return tally


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=[*KINDS, "postgres"])
    parser.add_argument("--share", type=float, default=1.0, help="of the damages, at random")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as work:
        path = make_store(Path(made))
        for kind in arguments.kinds:
            if kind == "postgres":
                _show_postgres(path, arguments.share, rng)
                continue
            tally = damaged(path, Path(work), kind, arguments.share, rng)
            for (what, how), count in sorted(tally.counts.items()):
                print(f"{kind:8} {what:32} {how:15} {count:8,}", flush=True)
            for fault in tally.faults[:20]:
                print(fault)


def _show_postgres(path: Path, share: float, rng: random.Random) -> None:
    with tempfile.TemporaryDirectory(prefix="pg") as made, running_postgres(Path(made)) as server:
        address = server.address("damaged")
        copied_to(address, path)
        counts = Counter(found[:2] for found in postgres_damages(address, share, rng))
    for (what, how), count in sorted(counts.items()):
        print(f"postgres {what:32} {how:15} {count:8,}", flush=True)


if __name__ == "__main__":
    _main()
