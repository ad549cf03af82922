"""Damage to a store: every bit flipped and every row deleted, one at a time; on PostgreSQL every
column changed.

``python -m tests.crash.store_damage`` damages everything; the suite takes a sample of it. A damage
is *found* where the check of a store raises a StoreError of one line. A bit of a file may be
flipped without being found only where every row and every answer stay what they were:
SQLite leaves bytes in a page that mean nothing.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, chdir, closing, contextmanager, nullcontext
from functools import partial
from itertools import groupby, product
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer

from streameval.errors import StoreError
from streameval.service.alerts.shared import ALERTS_UNIT
from streameval.service.config.address import parse_address
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
from tests.support.run import settings

SETTINGS = settings(
    store="run.db",
    evaluator={"slices": ["country"], "metrics": ["accuracy", "roc_auc"]},
    window=[{"name": "all"}, {"name": "hour", "length": "1h", "pane": "30m"}],
    fields={"id": "id", "score": "score", "time": "time"},
    files={"predictions": ["p.jsonl"], "labels": ["l.jsonl"], "follow": False},
    http={},
    join={"wait": "1h"},
    checkpoint=None,
    serve={"listen": "127.0.0.1:0"},
    alert=[{"name": "low", "metric": "accuracy", "below": 0.9}],
)


def make_store(directory: Path) -> Path:
    """A small store with something in every table, and an inbox that is partly counted."""
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
        with chdir(directory):
            run_service(SETTINGS, until_end=True)
    inbox.append("labels", b'{"id": "11", "y_true": true, "time": "2026-01-01T00:40:00Z"}\n')
    inbox.append("labels", b'{"id": "10", "y_true": true, "time": "2026-01-01T00:40:00Z"}\n')
    inbox.close()
    return directory / "run.db"


def answers(address: str, tables: Iterable[str] = TABLES) -> list[object]:
    """Every row of every unit, and what is computed from them."""
    found: list[object] = []
    with closing(read_store(address)) as store, store.reading() as connection:
        for unit in [*each_unit(store), ALERTS_UNIT]:
            store.select(unit)
            found += [connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables]
            windows = merged_windows(connection).values()
            found += [(one.to_bytes(), one.report().to_dict()) for one in windows]
            found.append(read_join(connection))
    return found


def judged(address: str, before: list[object]) -> str:
    """What becomes of a damage: found, without effect, missed, or an error that is no sentence."""
    try:
        check_store(address)
    except StoreError as error:
        return "found" if "\n" not in str(error) else f"more than one line: {error}"
    except Exception as error:
        return f"traceback: {error!r}"
    return "without effect" if answers(address) == before else "missed"


Damage = Callable[[Path], None]


def _flipped(value: Any, bit: int) -> Any:
    """A value with a bit flipped."""
    if value in (None, "", b""):
        return b"1"
    if isinstance(value, int):
        return ((value ^ 1 << bit) + 2**63) % 2**64 - 2**63
    data = bytearray(value if isinstance(value, bytes) else value.encode())
    data[bit * len(data) // 64] ^= 1 << bit % 8
    return bytes(data) if isinstance(value, bytes) else data.decode("latin-1")


def row_damages(path: Path) -> Iterator[tuple[str, Damage]]:
    """Each row deleted, and 64 bits of each of its values flipped, by SQL."""
    query = "SELECT t.name, c.name, c.pk FROM sqlite_master t, pragma_table_info(t.name) c "
    with closing(sqlite3.connect(path)) as connection:
        columns = connection.execute(query + "WHERE t.type = 'table' ORDER BY t.name, cid")
        for table, group in groupby(columns.fetchall(), itemgetter(0)):
            names = [(name, is_key) for _, name, is_key in group]
            keys = [name for name, is_key in names if is_key] or ["rowid"]
            where = " AND ".join(f"{name} IS ?" for name in keys)
            for key in connection.execute(f"SELECT {', '.join(keys)} FROM {table}"):
                yield f"{table} deleted", _sql(f"DELETE FROM {table} WHERE {where}", key)
                for (name, _), bit in product(names, range(64)):
                    change = f"UPDATE OR IGNORE {table} SET {name} = flipped({name}, {bit})"
                    yield f"{table}.{name}", _sql(f"{change} WHERE {where}", key)


def _sql(query: str, parameters: tuple[object, ...]) -> Damage:
    def damage(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.create_function("flipped", 2, _flipped)
            connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.execute(query, parameters)

    return damage


def file_flips(path: Path, name: str = "") -> Iterator[tuple[str, Damage]]:
    """A flip of each bit of a file: the store's, or the one with ``name`` behind its path."""
    for place in range(os.path.getsize(f"{path}{name}")):
        for bit in range(8):
            yield name or "file", partial(_flip, name, place, bit)


def _flip(name: str, place: int, bit: int, path: Path) -> None:
    with open(f"{path}{name}", "r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))


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
        before = answers(address)
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
                    yield what, judged(address, before), row
                    other.execute(f"TRUNCATE {table}")
                    other.execute(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE TABLE kept")
            other.execute("DROP TABLE kept")


def copied_to(address: str, path: Path) -> None:
    """Copy a store to PostgreSQL, beside another unit, a group's settings and a servers' alert."""
    copy_store(str(path), address)
    open_store(address, {"evaluator.task": "1"}, unit="7").close()
    for unit, row in (
        (ALERTS_UNIT, "alerts VALUES ('book', '{}')"),
        ("settings", "meta VALUES ('group.settings', '{}')"),
    ):
        with closing(LockedTables(address, unit)) as tables:
            tables.execute(f"INSERT INTO {row}")
    check_store(address)


KINDS: dict[str, Callable[[Path], Iterator[tuple[str, Damage]]]] = {
    "rows": lambda path: (one for one in row_damages(path) if "deleted" in one[0]),
    "values": lambda path: (one for one in row_damages(path) if "deleted" not in one[0]),
    "file": file_flips,
    "predictions": lambda path: file_flips(path, ".inbox/predictions-0000000001.jsonl"),
    "labels": lambda path: file_flips(path, ".inbox/labels-0000000001.jsonl"),
    "wal": wal_flips,
}


def damaged(
    path: Path, work: Path, kind: str, share: float, rng: random.Random
) -> Iterator[tuple[str, str]]:
    """This share of the damages of a kind, chosen at random: what, and what became of it."""
    with left_open(path) if kind == "wal" else nullcontext():
        before: list[object] = []
        for what, damage in [("", lambda work: None), *KINDS[kind](path)]:
            if before and rng.random() >= share:
                continue
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(path.parent, work, ignore=shutil.ignore_patterns("*-shm"))
            if before:
                damage(work / "run.db")
                yield what, judged(str(work / "run.db"), before)
            else:
                check_store(str(work / "run.db"))
                before = answers(str(work / "run.db"))


def _main(
    kinds: Annotated[list[str] | None, typer.Argument()] = None, share: float = 1.0, seed: int = 0
) -> None:
    """Damages of these kinds, or of all; of each a share at random."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="damage") as directory, ExitStack() as stack:
        place = Path(directory)
        (place / "made").mkdir()
        path = make_store(place / "made")
        for kind in kinds or [*KINDS, "postgres"]:
            found: Iterable[tuple[str, ...]]
            if kind == "postgres":
                server = stack.enter_context(running_postgres(place / "server"))
                copied_to(server.address("damaged"), path)
                found = postgres_damages(server.address("damaged"), share, rng)
            else:
                found = damaged(path, place / "work", kind, share, rng)
            for (what, how), count in sorted(Counter(one[:2] for one in found).items()):
                print(f"{kind:12} {what:32} {how:15} {count:8,}", flush=True)


if __name__ == "__main__":
    typer.run(_main)
