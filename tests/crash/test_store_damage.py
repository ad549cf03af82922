"""What ``streameval store check`` finds: a sample of all damages to a small store.

``python -m tests.crash.store_damage`` does them all.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

import psycopg
import pytest

from streameval.errors import StoreError
from streameval.service.config.address import parse_address
from streameval.service.store.store import open_store, read_store
from streameval.service.store.tables import TABLES
from streameval.service.upkeep.check import check_store
from streameval.service.upkeep.copy import copy_store
from tests.crash.store_damage import answers, copied_to, damaged, postgres_damages

HOLDER = {f"claims.{one}" for one in ("generation", "commits", "worker", "pid", "started", "at")}
"""Who holds a unit, since when, and how often it was written: no count depends on it."""
HARMLESS = {
    "file": {"file"},  # in a page of SQLite's there are bytes without a meaning
    # The id of another row is refused by the database.
    "values": {"states.id"},
    "postgres": HOLDER,
}


# Some ten to thirty cases of each.
@pytest.mark.parametrize(
    ("kind", "share", "at_least"),
    [
        ("rows", 0.2, 15),
        ("values", 0.0005, 15),
        ("file", 0.000025, 8),
        ("predictions", 0.007, 8),
        ("labels", 0.008, 6),
        ("wal", 0.0001, 12),
        ("postgres", 0.09, 30),
    ],
)
def test_damage_is_found(
    made_store: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    kind: str,
    share: float,
    at_least: int,
) -> None:
    rng = random.Random(kind)
    if kind == "postgres":
        address = request.getfixturevalue("postgres").address("damaged")
        copied_to(address, made_store)
        found = [(what, how) for what, how, _ in postgres_damages(address, share, rng)]
    else:
        found = list(damaged(made_store, tmp_path / "work", kind, share, rng))
    left = [(what, how) for what, how in found if how != "found"]
    harmless = HARMLESS.get(kind, set())
    assert [one for one in left if one[0] not in harmless or one[1] != "without effect"] == []
    assert len(found) >= at_least


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        ("DROP TABLE unit_counters CASCADE", 'unit_counters" does not exist; the store is damaged'),
        ("DROP TABLE unit_meta CASCADE", 'unit_meta" does not exist; the store is damaged'),
        ("TRUNCATE unit_states, unit_positions", "is missing; restore a backup"),
        ("TRUNCATE unit_meta, unit_checksums", "has no checksum; restore a backup"),
        ("UPDATE unit_counters SET value = 0", "does not match its checksum"),
        # All that is left is the claim, which has counted the commits.
        (
            f"TRUNCATE {', '.join(f'unit_{name}' for name in (*TABLES, 'checksums'))}",
            "the unit '0' is missing; restore a backup, or begin a new store in another .schema=",
        ),
        ("DELETE FROM claims", "the claim of unit '0' is missing"),
    ],
)
def test_a_lost_store_on_postgres_is_not_begun_anew(
    made_store: Path, postgres: Any, damage: str, fault: str
) -> None:
    address = postgres.address(f"lost_{crc32(damage.encode()):08x}")
    copied = copy_store(str(made_store), address)
    with psycopg.connect(parse_address(address).conninfo, autocommit=True) as other:
        other.execute(f"SET search_path = {parse_address(address).schema}")
        other.execute(damage)
    with pytest.raises(StoreError, match=fault):
        check_store(address)
    if damage != "DELETE FROM claims":  # a claim is made anew, and nothing else is lost
        with pytest.raises(StoreError, match=fault):
            open_store(address, {})
    if "DROP" not in damage:
        assert copy_store(str(made_store), address, overwrite=True) == copied


LOST = 'DELETE FROM states WHERE id = (SELECT min(id) FROM states WHERE "window" = '


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (LOST + "'all')", "events of"),
        (LOST + "'hour')", "events of"),
        ("DELETE FROM positions", "records were read"),
        ("DELETE FROM positions WHERE partition = 'http:predictions'", "records were read"),
        ("UPDATE positions SET records = records - 1", "records were read"),
        ("UPDATE positions SET records = records + 1", "records were read"),
        ("UPDATE counters SET value = value - 1 WHERE name = 'events'", "events of"),
        ("UPDATE counters SET value = value + 1 WHERE name = 'events'", "events of"),
        ("UPDATE counters SET value = value + 1 WHERE name = 'replayed'", "records were read"),
        ("DELETE FROM counters WHERE name = 'events'", "predictions have labels, 0 were counted"),
        ("UPDATE quarantine_reasons SET total = total + 1", "records were read"),
        ("DELETE FROM quarantine_reasons", "records were read"),
    ],
)
def test_the_books_show_what_was_lost_with_its_checksum(
    made_store: Path, tmp_path: Path, change: str, fault: str
) -> None:
    shutil.copytree(made_store.parent, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "run.db"
    with closing(open_store(str(path))) as opened, opened.transaction() as connection:
        connection.execute(change)
    with pytest.raises(StoreError, match=f"the counts are inconsistent: .*{fault}"):
        check_store(str(path))


def test_a_damaged_row_is_refused_and_stays_damaged(made_store: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.db"

    def damage(statement: str) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)

    for statement in (
        "UPDATE states SET reverted = X'80'",
        "UPDATE positions SET records = records + 1",
        "DELETE FROM quarantine WHERE id = 1",
        "INSERT INTO counters VALUES ('more', 1)",
        "DROP TABLE alerts",
    ):
        path.write_bytes(made_store.read_bytes())
        damage(statement)
        with pytest.raises(StoreError, match=r"the store is damaged: .*; restore a backup, or"):
            open_store(str(path))
        with pytest.raises(StoreError, match="the store is damaged"):
            check_store(str(path))
    path.write_bytes(made_store.read_bytes())
    with closing(open_store(str(path))) as opened:
        damage("UPDATE quarantine SET raw = X'00' WHERE id = 1")
        with opened.transaction() as connection:
            connection.execute("UPDATE quarantine SET replay = 1")
    with pytest.raises(StoreError, match="row 1 of table quarantine does not match its checksum"):
        check_store(str(path))


def test_a_store_of_schema_1_is_opened_and_gets_checksums(made_store: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    shutil.copytree(made_store.parent, tmp_path, dirs_exist_ok=True)
    path.with_name("run.db.lock").unlink()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE checksums")
        connection.execute("UPDATE meta SET value = '1' WHERE key = 'schema'")
        connection.execute("PRAGMA user_version = 0")
    before = answers(str(path), ["states", "positions"])
    assert not check_store(str(path)).has_checksums
    open_store(str(path)).close()
    assert check_store(str(path)).has_checksums
    with closing(read_store(str(path))) as read:
        assert read.meta()["schema"] == "2"
    assert answers(str(path), ["states", "positions"]) == before
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = '1' WHERE key = 'schema'")
        connection.execute("DROP TABLE checksums")
        connection.execute("UPDATE positions SET records = 'many'")
    for opened in (check_store, open_store):
        with pytest.raises(StoreError, match="has a records that is no integer"):
            opened(str(path))


def test_lost_commits_are_found(tmp_path: Path) -> None:
    path = str(tmp_path / "run.db")
    store = open_store(path, {})
    for n in range(3):
        with store.transaction():
            store.set_counters({"events": n})
        if n == 1:
            kept = {name: Path(path + name).read_bytes() for name in ("", "-wal")}
    store.close()
    for name, data in kept.items():
        Path(path + name).write_bytes(data)
    for opened in (open_store, check_store):
        with pytest.raises(StoreError, match=r"the last commits are missing: expected 3, got 2;"):
            opened(path)
    Path(path + ".lock").unlink()  # an older copy that was put there on purpose
    open_store(path).close()


def _without_schema_rows(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[103:105] = b"\0\0"
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("left", "loss"),
    [
        *((left, loss) for left in ("-wal", ".lock") for loss in (Path.unlink, 0, 1)),
        (".lock", _without_schema_rows),
        ("", _without_schema_rows),
    ],
)
def test_a_lost_store_is_not_begun_anew(tmp_path: Path, left: str, loss: Any) -> None:
    made, path = tmp_path / "made.db", tmp_path / "run.db"
    store = open_store(str(made), {})
    with store.transaction():
        store.set_counters({"events": 5})
    if left != "-wal":
        store.close()
    for suffix in {"", left}:
        shutil.copy(f"{made}{suffix}", f"{path}{suffix}")
    store.close()
    os.truncate(path, loss) if isinstance(loss, int) else loss(path)
    kept = [one for one in tmp_path.glob("run.db*") if one.suffix != ".lock"]
    before = [one.read_bytes() for one in kept]
    for opened in (lambda path: open_store(path, {}), read_store, check_store):
        with pytest.raises(StoreError, match=r"^[^\n]*; restore a backup \(or, to begin a new "):
            opened(str(path))
        assert [one.read_bytes() for one in kept] == before
    for one in tmp_path.glob("run.db*"):
        one.unlink()
    open_store(str(path), {}).close()
