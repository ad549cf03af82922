"""The store: one process, one schema, one set-up, and every failure in words."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from streameval.errors import ConfigError, StoreError
from streameval.records.chunk import RecordError
from streameval.service.config.settings import EvaluatorSettings, FieldSettings, QuarantineSettings
from streameval.service.join.counts import read_spans
from streameval.service.join.label_join import JOIN_LAYOUT, join_layout
from streameval.service.sources.raw import RawBatch
from streameval.service.store.checksums import (
    check_rows,
    delete_rows,
    insert_rows,
    keep_checksums,
    row_sum,
)
from streameval.service.store.fingerprints import changed_settings
from streameval.service.store.positions import Positions
from streameval.service.store.quarantine import Quarantine, listed, mark_for_replay, merged
from streameval.service.store.staged import write_now
from streameval.service.store.store import Store, open_store, read_store
from streameval.service.store.tables import JOIN_TABLES, create_tables
from streameval.service.store.valid_from import VALID_FROM, ValidFrom, read_valid_from, since_text

SETUP = {"evaluator.task": '"binary"', "evaluator.threshold": "0.5"}
PRAGMAS = ("journal_mode", "synchronous")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "run.db")


@pytest.fixture
def store(path: str) -> Iterator[Store]:
    with closing(open_store(path, SETUP)) as opened:
        yield opened


def test_a_transaction_is_all_or_nothing(path: str) -> None:
    def fails() -> None:
        with store.transaction():
            store.set_counters({"events": 2})
            raise ZeroDivisionError

    with closing(open_store(path, SETUP)) as store:
        with store.transaction():
            store.set_counters({"events": 1, "checkpoints": 1})
        with pytest.raises(ZeroDivisionError):
            fails()
        assert store.counters() == {"events": 1, "checkpoints": 1}
    with closing(open_store(path, SETUP)) as store:
        assert store.counters() == {"events": 1, "checkpoints": 1}
        assert store.meta() == {"schema": "2"} | {f"config.{k}": v for k, v in SETUP.items()}
        pragmas = [store.connection.execute(f"PRAGMA {name}").fetchone() for name in PRAGMAS]
        assert pragmas == [("wal",), (2,)]


def test_the_second_process_is_refused_with_the_pid_of_the_first(path: str) -> None:
    code = (
        "import sys; from streameval.service.store.store import Store, open_store\n"
        f"store = open_store({path!r}, {{}}); print('open', flush=True); sys.stdin.read()"
    )
    first = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with first:
        assert first.stdout.readline() == b"open\n"
        with pytest.raises(StoreError, match=f"is in use by the process {first.pid}; stop"):
            open_store(path, {})
        link = path + ".link"
        os.symlink(path, link)
        with pytest.raises(StoreError, match=f"process {first.pid}"):
            open_store(link, {})
        first.kill()
    open_store(path, {}).close()  # the lock went with the process


def test_a_changed_set_up_is_refused(path: str) -> None:
    open_store(path, SETUP).close()
    for key, now, told in (
        ("evaluator.threshold", "0.7", "was begun with '0.5', .*'0.7'; put it back"),
        ("evaluator.bins", "5", "was begun with nothing"),
    ):
        with pytest.raises(ConfigError, match=f"{key}: .* {told}"):
            open_store(path, {**SETUP, key: now})
    open_store(path, SETUP).close()  # the lock was let go


def test_what_is_no_store_is_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "text.db", tmp_path / "other.db"
    text.write_bytes(b"not a database, but some text that is longer than a header" * 100)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE mine (x)")
    for path in (text, other):
        before = path.read_bytes()
        for opened in (open_store, read_store):
            with pytest.raises(StoreError, match=r"left alone[:;] give another path"):
                opened(str(path))
        assert path.read_bytes() == before
    with pytest.raises(StoreError, match="there is no such store"):
        read_store(str(tmp_path / "none.db"))
    with pytest.raises(StoreError, match="there is no directory"):
        open_store(str(tmp_path / "no" / "run.db"), SETUP)


def test_a_newer_schema_is_refused(path: str) -> None:
    store = open_store(path, SETUP)
    store.connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    store.close()
    for opened in (open_store, read_store):
        with pytest.raises(StoreError, match=r"newer streameval .*its schema is 99"):
            opened(path)


def test_a_busy_database_is_reported(path: str) -> None:
    with (
        closing(open_store(path, SETUP, busy_seconds=0.05)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another program is writing"), store.transaction():
            pass
        other.execute("ROLLBACK")
        with store.transaction():
            store.set_counters({"events": 1})


def test_a_damaged_file_is_reported(path: str) -> None:
    with closing(open_store(path, SETUP)) as store, store.transaction():
        store.set_counters({f"counter {n}": n for n in range(2000)})
    size = Path(path).stat().st_size
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(StoreError, match=r"damaged: restore a backup"):
        open_store(path, SETUP)


def test_a_reader_sees_one_moment_beside_the_writer(path: str, store: Store) -> None:
    with store.transaction():
        store.set_counters({"events": 1})
    reader = read_store(path)
    with reader.reading():
        assert reader.counters() == {"events": 1}
        with store.transaction():
            store.set_counters({"events": 2})
        assert reader.counters() == {"events": 1}
    assert reader.counters() == {"events": 2}
    with pytest.raises(StoreError, match="it is read-only"), reader.transaction():
        reader.set_counters({"events": 3})
    reader.close()


@pytest.mark.parametrize("umask", [0, 0o777])
def test_a_store_is_private(path: str, umask: int, caplog: pytest.LogCaptureFixture) -> None:
    def modes() -> set[int]:
        return {
            stat.S_IMODE(os.stat(path + suffix).st_mode) for suffix in ("", "-wal", "-shm", ".lock")
        }

    before = os.umask(umask)
    try:
        with closing(open_store(path, SETUP)) as store, store.transaction():
            assert modes() == {0o600}
    finally:
        os.umask(before)
    assert not caplog.records
    os.chmod(path, 0o644)
    with closing(open_store(path, SETUP)):
        assert modes() == {0o600}
    assert "other users had access (mode 0644); the mode is 0600 now" in caplog.text


def test_what_is_committed_is_read_beside_a_transaction(path: str) -> None:
    with closing(open_store(path, SETUP)) as store:
        counted = "SELECT count(*) FROM counters"
        with store.transaction():
            store.set_counters({"events": 1})
            assert store.read_connection().execute(counted).fetchone() == (0,)
        assert store.read_connection().execute(counted).fetchone() == (1,)
    assert not Path(f"{path}-wal").exists()


def test_the_sum_of_a_row_is_of_values_and_types() -> None:
    sums = [row_sum("a", 1), row_sum("a", "1"), row_sum(b"a", 1)]
    assert sums == [3847662356, 937742728, 1249120020]  # stores hold them


@pytest.mark.parametrize("count", [0, 1, 180, 181])
def test_many_rows_are_written_with_their_checksums(store: Store, count: int) -> None:
    rows = [(n, n + 0.5, n * 7, n * 9, b"x" * (n % 50)) for n in range(1, count + 1)]
    with store.transaction() as connection:
        create_tables(connection, *JOIN_TABLES)
        keep_checksums(connection)
    with store.transaction() as connection:
        insert_rows(connection, "join_segments", rows)
    assert store.connection.execute("SELECT * FROM join_segments").fetchall() == rows
    assert check_rows(store.connection)
    with store.transaction() as connection:
        delete_rows(connection, "join_segments", "segment", range(2, count))
    left = store.connection.execute("SELECT segment FROM join_segments").fetchall()
    assert left == sorted({(1,), (count,)}) if count else left == []
    assert check_rows(store.connection)


def test_positions(store: Store) -> None:
    positions = Positions(store.connection)
    positions.advance("a", {"offset": 5, "head": "x"}, 2, 7)
    positions.advance("a", {"offset": 9, "head": "x"}, 1, 6)
    positions.advance("b", {"offset": 0}, 0, None)
    with store.transaction():
        changes = positions.stage()
        positions.write(store.connection, changes)
    assert {name: one.position for name, one in changes.items()} == positions.next_to_read
    assert positions.stage() == {}
    again = Positions(store.connection)
    assert again.next_to_read == {"a": {"offset": 9, "head": "x"}, "b": {"offset": 0}}
    assert (again.partitions["a"].records, again.partitions["a"].newest) == (3, 7)
    assert again.newest == 7
    store.connection.execute("UPDATE positions SET position = '[1' WHERE partition = 'a'")
    with pytest.raises(StoreError, match="the position of partition 'a' is damaged"):
        Positions(store.connection)


def bad(place: int, raw: bytes = b"{", reason: str = "record") -> RecordError:
    return RecordError("", "an object", "text", column=reason, place=place, raw=raw)


def test_the_quarantine_is_bounded_and_counts_all(store: Store) -> None:
    quarantine = Quarantine(
        store.connection, QuarantineSettings(keep=10, max_bytes=4), now=lambda: 0
    )
    for place in range(35):
        quarantine.note("a", "records", bad(place, b"x" * (place % 8)), None)
        if place % 10 == 0:
            with store.transaction():
                write_now(quarantine, store.connection)
    for place in range(5000):
        quarantine.note("a", "records", bad(place, reason=f"reason {place}"), None)
    with store.transaction():
        write_now(quarantine, store.connection)
    found = listed(store.connection)
    assert [row["place"] for row in found] == list(range(4999, 4989, -1))
    data = quarantine.published()
    assert (data["total"], data["kept"], data["reasons"]["record"]) == (5035, 10, 35)
    assert len(data["reasons"]) == 201  # a hostile number of reasons is not kept apart


def test_a_record_that_is_refused_while_it_is_counted_belongs_to_that_checkpoint(
    store: Store,
) -> None:
    quarantine = Quarantine(store.connection, QuarantineSettings(), now=lambda: 0)
    quarantine.note("a", "records", bad(1), None)
    changes = quarantine.stage()
    quarantine.note("a", "records", bad(3), None)
    quarantine.note("a", "records", bad(2, reason="score"), None, into=changes)
    for places, reasons in (
        ([2, 1], {"record": 1, "score": 1}),
        ([3, 2, 1], {"record": 2, "score": 1}),
    ):
        with store.transaction():
            quarantine.write(store.connection, changes)
        quarantine.committed(changes)
        assert [row["place"] for row in listed(store.connection)] == places
        assert quarantine.published()["reasons"] == reasons
        changes = quarantine.stage()
    assert not changes


def test_cut_records_cannot_be_replayed(store: Store) -> None:
    def opened() -> Quarantine:
        return Quarantine(store.connection, QuarantineSettings(max_bytes=4), now=lambda: 0)

    def places(reason: str | None = None) -> list[tuple[int, str, bool]]:
        rows = listed(store.connection, reason=reason)
        return [(row["place"], row["raw"], row["raw_bytes_cut"]) for row in rows]

    quarantine = opened()
    own = bad(99, b"long")
    batch = RawBatch("a", "labels", [b"123", b"12345"], [10, 20], {"offset": 30}, [7, 8], bad=[own])
    quarantine.note_batch(batch, [bad(10, b"123", "id"), bad(20, b"12345", "id"), own])
    quarantine.note("b", "records", bad(1, b"abc"), None)
    with store.transaction():
        write_now(quarantine, store.connection)
    cut = [(99, "long", True), (20, "1234", True)]
    assert places() == [(1, "abc", False), *cut, (10, "123", False)]
    with store.transaction():
        assert mark_for_replay(store.connection, "id") == (1, 1)
        assert mark_for_replay(store.connection, None) == (2, 2)
    quarantine = opened()
    first, second = quarantine.to_replay(most=1)
    assert (first.partition, first.kind) == ("a", "labels")
    assert (first.messages, first.places) == ([b"123"], [10])
    assert (first.times, second.times) == ([7], None)
    assert len(places()) == 4  # until the checkpoint that counts them
    with store.transaction():
        changes = quarantine.stage()
        quarantine.write(store.connection, changes)
    assert len(changes.replayed) == 2
    assert places("record") == [(99, "long", True)]
    assert list(opened().to_replay()) == []


def test_damaged_json_of_a_store_is_named(path: str) -> None:
    with closing(open_store(path, SETUP)) as store, store.transaction():
        store.set_meta(VALID_FROM, '{"joined": 5}')
    remedy = ".*; restore a backup, or begin a new store$"
    with (
        closing(read_store(path)) as store,
        store.reading() as connection,
        pytest.raises(StoreError, match="beginning of its parts is damaged in the" + remedy),
    ):
        read_valid_from(connection)
    with pytest.raises(StoreError, match="the join's spans are damaged in the store" + remedy):
        read_spans('{"wait": "an hour"}')
    with pytest.raises(StoreError, match="columns of waiting predictions are damaged" + remedy):
        join_layout(FieldSettings(), EvaluatorSettings(), {JOIN_LAYOUT: "[5]"})


def test_events_before_the_panes_that_a_window_still_has_are_not_counted_in_it() -> None:
    grown = ValidFrom(panes={"week": 100})
    found = grown.parts("week", (("country",),), np.array([50, 150, 99, 100]))
    assert [(rows if rows is None else rows.tolist(), part) for rows, part in found] == [
        ([1, 3], None)
    ]


def test_a_change_of_settings_is_told_by_its_keys() -> None:
    was = {"hour": {"kind": "panes", "lateness": 86_400_000_000}}
    got = {"hour": {"kind": "panes", "lateness": 3_600_000_000}, "day": {"length": 3}}
    assert list(changed_settings("window", was, got)) == [
        ("window.hour.lateness", 86_400_000_000, 3_600_000_000),
        ("window.day", None, {"length": 3}),
    ]


def test_units_are_shown_as_one() -> None:
    one = {"total": 2, "kept": 1, "reasons": {"score": 2}, "recent": []}
    assert merged([one, one]) == {**one, "total": 4, "kept": 2, "reasons": {"score": 4}}
    notes = {"since": "2026-01-02T00:00:00Z", "slices_since": {"device": "2026-02-01"}}
    assert since_text(notes) == ", since 2026-01-02T00:00:00Z, slice device since 2026-02-01"
