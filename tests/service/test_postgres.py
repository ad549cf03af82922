"""A store on PostgreSQL: claims, lost connections, units, copies, and what may go wrong."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from zlib import crc32

import psycopg
import pytest

from streameval.errors import FencedError, StoreError, StreamevalError
from streameval.evaluator.evaluator import Evaluator
from streameval.records.chunk import RecordError
from streameval.service.config.address import parse_address
from streameval.service.config.load import settings_from_text
from streameval.service.config.settings import QuarantineSettings
from streameval.service.store import postgres as module
from streameval.service.store.positions import Positions
from streameval.service.store.postgres import MIGRATIONS
from streameval.service.store.quarantine import Quarantine
from streameval.service.store.staged import write_now
from streameval.service.store.state_rows import StateRows, merged_windows
from streameval.service.store.store import open_store, read_store
from streameval.service.upkeep.backup import back_up, restore
from streameval.service.upkeep.check import check_store
from streameval.service.upkeep.copy import copy_store

KEYS = {"a": "1"}


@pytest.fixture
def address(postgres: Any, request: pytest.FixtureRequest) -> str:
    return str(postgres.address(f"test_{crc32(request.node.name.encode()):08x}"))


def end(address: str, pid: int) -> None:
    """End a session as an administrator does."""
    with psycopg.connect(parse_address(address).conninfo, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


def write_events(store: Any, partition: str, scores: list[float]) -> Evaluator:
    """A checkpoint with a state, a position, a refused record and their counts."""
    with store.reading() as connection:
        rows, positions = StateRows(connection), Positions(connection)
        quarantine = Quarantine(connection, QuarantineSettings(), lambda: 1)
        counters = store.counters()
    evaluator = Evaluator("binary")
    evaluator.update_many([score > 0.5 for score in scores], score=scores)
    number = counters.get("checkpoints", 0) + 1
    with store.transaction() as connection:
        rows.write(partition, "all", number, evaluator, [])
        positions.advance(partition, {"offset": len(scores)}, len(scores) + 1, None)
        write_now(positions, connection)
        bad = RecordError("score", "1", "2", place=number, raw=b"\x00")
        quarantine.note(partition, "records", bad, None)
        write_now(quarantine, connection)
        store.set_counters(
            {"checkpoints": number, "events": counters.get("events", 0) + len(scores)}
        )
    return evaluator


def test_a_unit_has_one_holder(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HOLDER_SECONDS", 0.0)
    with closing(open_store(address, KEYS)):
        with pytest.raises(StoreError, match="unit '0' is in use by process"):
            open_store(address, KEYS)
        with closing(open_store(address, KEYS, unit="1")) as other:
            assert other.units() == ["0", "1"]
    with closing(open_store(address, KEYS)) as again:  # it was left
        assert again.commits()["0"] == (2, 1)


def test_a_worker_that_was_cut_off_writes_nothing(address: str) -> None:
    first = open_store(address, KEYS, unit="7", worker="one")
    with first.transaction():
        first.set_counters({"events": 1})
    standing = ExitStack()
    standing.enter_context(first.transaction())
    first.set_counters({"events": 2})
    # It stands still here, with the lock of its unit: the other does not wait for it.
    second = open_store(address, KEYS, unit="7", worker="two")
    assert second.counters() == {"events": 1}
    with pytest.raises(FencedError, match="unit '7' was taken over by another worker"):
        standing.close()
    with second.transaction():
        second.set_counters({"events": 3})
    with pytest.raises(FencedError), first.transaction():
        raise AssertionError("entered")
    assert second.counters() == {"events": 3}
    first.close()
    second.close()


@pytest.mark.parametrize("place", ["before", "inside", "read"])
def test_a_lost_connection_is_replaced_and_the_transaction_repeated(
    address: str, place: str
) -> None:
    def at(now: str) -> None:
        if now == place:
            end(address, store.session.raw.info.backend_pid)

    with closing(open_store(address, KEYS)) as store:
        with store.transaction():
            store.set_counters({"events": 1, "lost": 0})
        number = store.session.number
        at("before")
        with store.transaction() as connection:
            store.set_counters({"events": 2})
            connection.execute("UPDATE counters SET value = value + 5 WHERE name = ?", ("lost",))
            at("inside")
            store.set_meta("b", "2")
            at("read")
            # A transaction reads what it wrote, also before the connection was lost.
            assert store.counters() == {"events": 2, "lost": 5}
        assert store.session.number == number + 1
        assert store.counters() == {"events": 2, "lost": 5}
        assert store.meta()["b"] == "2"
        assert store.commits()["0"] == (1, 3)


class Cut:
    """A connection that is lost at its commit: before the server executes it, or after."""

    def __init__(self, raw: Any, executed: bool) -> None:
        self._raw = raw
        self._executed = executed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def execute(self, query: Any, *values: Any, **more: Any) -> Any:
        if query == "COMMIT":
            if self._executed:
                self._raw.execute(query)
            self._raw.close()
        return self._raw.execute(query, *values, **more)


@pytest.mark.parametrize("executed", [False, True])
def test_a_commit_whose_answer_was_lost_is_executed_once(address: str, executed: bool) -> None:
    with closing(open_store(address, KEYS)) as store:
        with store.transaction():
            store.set_counters({"events": 1})
        for events in (2, 3):
            with store.transaction() as connection:
                connection.execute("UPDATE counters SET value = value + 1")
                if events == 2:
                    store.session.raw = Cut(store.session.raw, executed)
            assert store.counters() == {"events": events}
            assert store.commits()["0"] == (1, events + 1)


def test_units_share_a_connection(address: str) -> None:
    first = open_store(address, KEYS, unit="1", worker="one")
    second = open_store(address, KEYS, unit="2", worker="one", sibling=first)
    assert first.session is second.session
    for count in (1, 2):
        for store in (first, second):
            with store.transaction():
                store.set_counters({"events": count * (1 if store is first else 10)})
    end(address, first.session.raw.info.backend_pid)
    assert (second.counters(), first.counters()) == ({"events": 20}, {"events": 2})
    first.close()
    # What was closed is free, though its connection lives on.
    third = open_store(address, KEYS, unit="1", worker="two")
    with second.transaction():
        second.set_counters({"events": 30})
    third.close()
    second.close()


def test_a_reader_shows_the_unit_that_is_named_or_the_first(address: str) -> None:
    for unit in ("7", "10"):
        with closing(open_store(address, KEYS, unit=unit)) as store, store.transaction():
            store.set_counters({"events": int(unit)})
    for named, events in ((None, 7), ("7", 7), ("10", 10)):
        with closing(read_store(address, named)) as shown:
            assert shown.counters() == {"events": events}
    with pytest.raises(StoreError, match="has no unit '2'"):
        read_store(address, "2")


def filled(address: str) -> dict[str, bytes]:
    """Three units of two partitions each; the bytes of the merged windows."""
    whole = Evaluator("binary")
    for unit in ("0", "2", "10"):
        with closing(open_store(address, KEYS, unit=unit)) as store:
            for name in "ab":
                whole.merge(write_events(store, f"{name}/{unit}", [0.25, 0.75, int(unit) / 16]))
    return {"all": whole.to_bytes()}


def exported(path: str, directory: Path, command: Any) -> dict[str, bytes]:
    directory.mkdir()
    assert command("store", "export", path, "--to", directory).code == 0
    return {file.stem: file.read_bytes() for file in directory.iterdir()}


def test_all_units_are_reported_copied_and_restored(
    address: str, tmp_path: Path, command: Any
) -> None:
    expected = filled(address)
    assert exported(address, tmp_path / "a", command) == expected
    checked = check_store(address)
    assert (checked.events, checked.partitions, checked.quarantined) == (18, 6, 6)
    assert "18" in command("store", "report", address, "--metrics", "accuracy").out
    listed = command("store", "quarantine", address, "--limit", "4").out
    assert listed.count("expected 1, got 2") == 4
    assert "6 records will be read first" in command("store", "quarantine", address, "--replay").out
    other = address + "2"
    assert copy_store(address, other) == checked
    assert exported(other, tmp_path / "b", command) == expected
    with pytest.raises(StoreError, match="exists already and holds a store; --overwrite"):
        copy_store(address, other)
    with pytest.raises(StoreError, match="a file holds one unit"):
        copy_store(address, str(tmp_path / "one.db"))
    assert back_up(address, str(tmp_path / "backup")) == checked
    names = {path.name for path in (tmp_path / "backup").iterdir()}
    assert names == {"store.db", "unit-2.db", "unit-10.db"}
    with pytest.raises(StoreError, match="holds 3 units"):
        restore(str(tmp_path / "backup"), str(tmp_path / "one.db"))
    with closing(open_store(other, KEYS, unit="99")) as more:
        write_events(more, "c", [0.5])
    assert restore(str(tmp_path / "backup"), other, overwrite=True).events == 18
    assert exported(other, tmp_path / "c", command) == expected
    with closing(open_store(other, KEYS, unit="2")) as again:
        write_events(again, "a/2", [0.5])  # numbers go on after those that were copied


def test_a_file_is_copied_there_and_back(address: str, tmp_path: Path, command: Any) -> None:
    path = str(tmp_path / "run.db")
    with closing(open_store(path, KEYS)) as store:
        write_events(store, "p", [0.25, 0.75])
    assert command("store", "copy", path, address).code == 0
    assert command("store", "copy", address, tmp_path / "back.db").code == 0
    back = exported(str(tmp_path / "back.db"), tmp_path / "a", command)
    assert back == exported(path, tmp_path / "b", command)
    with closing(read_store(path)) as one, closing(read_store(address)) as other:
        meta = one.meta()
        meta.pop("schema")
        assert (other.meta(), other.counters()) == (meta, one.counters())


def test_damage_is_found(address: str) -> None:
    filled(address)
    with psycopg.connect(parse_address(address).conninfo, autocommit=True) as other:
        schema = parse_address(address).schema
        other.execute(
            f"UPDATE {schema}.unit_states SET data = set_byte(data, 40, 255 - get_byte(data, 40)) "
            "WHERE unit = '2' AND partition = 'a/2'"
        )
    with pytest.raises(StoreError, match="state 1 of partition 'a/2', window 'all' is damaged"):
        check_store(address)


def test_a_view_is_of_one_moment(address: str) -> None:
    with closing(open_store(address, KEYS)) as store, closing(read_store(address)) as reader:
        write_events(store, "p", [0.25])
        with reader.reading() as connection:
            before = merged_windows(connection)
            write_events(store, "p", [0.75])
            assert merged_windows(connection)["all"].to_bytes() == before["all"].to_bytes()
            assert reader.counters()["events"] == 1
        assert reader.counters()["events"] == 2


def test_schemas_of_other_versions(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr(module, "MIGRATIONS", MIGRATIONS[:1])
        with closing(open_store(address, KEYS)) as store:
            write_events(store, "p", [0.25])
    found = check_store(address)
    assert (found.events, found.has_checksums) == (1, False)
    open_store(address, KEYS).close()
    assert check_store(address).has_checksums
    newer = [*MIGRATIONS, lambda: ["ALTER TABLE claims ADD more TEXT"]]
    monkeypatch.setattr(module, "MIGRATIONS", newer)
    monkeypatch.setattr(module, "READABLE", 3)
    with pytest.raises(StoreError, match=r"older streameval .*its schema is 2, .* reads 3"):
        read_store(address)
    with ThreadPoolExecutor(4) as pool:
        for opened in list(pool.map(lambda n: open_store(address, KEYS, unit=n), "0123")):
            opened.close()
    monkeypatch.undo()
    for open_it in (read_store, lambda path: open_store(path, KEYS)):
        with pytest.raises(StoreError, match=r"newer streameval .its schema is 3, .* up to 2"):
            open_it(address)


def test_what_is_no_store_is_left_alone(address: str) -> None:
    with pytest.raises(StoreError, match="there is no such store"):
        read_store(address)
    with pytest.raises(StoreError, match="holds nothing yet"):
        open_store(address)
    schema = parse_address(address).schema
    with psycopg.connect(parse_address(address).conninfo, autocommit=True) as other:
        other.execute(f"CREATE SCHEMA {schema}")
        other.execute(f"CREATE TABLE {schema}.mine (a INTEGER)")
    with pytest.raises(StoreError, match="is not a store of streameval, and was left alone"):
        open_store(address, KEYS)


def test_a_role_without_rights_is_told_so(address: str) -> None:
    conninfo = parse_address(address).conninfo
    role = parse_address(address).schema
    with psycopg.connect(conninfo, autocommit=True) as other:
        other.execute(f"CREATE ROLE {role} LOGIN PASSWORD 's3cret'")
    weak = address.replace("postgres:@", f"{role}:s3cret@")
    with pytest.raises(StoreError, match=r"permission denied.*the role lacks a right") as raised:
        open_store(weak, KEYS)
    assert "s3cret" not in str(raised.value)
    # The rights that docs/postgresql.md lists are enough.
    with psycopg.connect(conninfo, autocommit=True) as other:
        other.execute(f"CREATE SCHEMA {role} AUTHORIZATION {role}")
    with closing(open_store(weak, KEYS)) as store:
        write_events(store, "p", [0.25])
    assert check_store(weak).events == 1


def test_a_database_of_another_encoding_is_refused(address: str) -> None:
    conninfo = parse_address(address).conninfo
    with psycopg.connect(conninfo, autocommit=True) as other:
        other.execute(
            "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
    with pytest.raises(StoreError, match="expected a database in UTF8, got LATIN1"):
        open_store(address.replace("/postgres?", "/latin?"), KEYS)


@pytest.mark.parametrize(
    "text",
    [
        "me:s3cret@127.0.0.1:1/db",
        *(f"me:s3c{sign}ret@127.0.0.1/db" for sign in "@/#?%"),
        "127.0.0.1:1/db?user=me&password=s3cret",
        "me:s3cret@127.0.0.1:1/db?nothing=1",
        "me:s3cret@127.0.0.1:1/db?schema=A%22B",
    ],
)
def test_a_password_is_never_shown(text: str) -> None:
    with pytest.raises(StreamevalError) as raised:
        read_store(f"postgresql://{text}")
    assert "s3c" not in str(raised.value)
    assert "ret@" not in str(raised.value)


def test_settings_with_such_a_store() -> None:
    address = 'store = "postgresql://me:s3cret@db.example/prod"\n'
    for store, inbox, text in (
        (address, "", "http.inbox"),
        ("", 'inbox = "posts"', "http.inbox conflicts with a store in a file"),
    ):
        with pytest.raises(StreamevalError, match=text):
            settings_from_text(f"{store}[fields]\nscore = 's'\n[http]\n{inbox}")
    settings_from_text(address + "[fields]\nscore = 's'\n[http]\ninbox = 'posts'")
