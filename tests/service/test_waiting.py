"""Entries of the join on disk: their bytes, their bounds, and the errors of damage."""

from __future__ import annotations

import random
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from streameval.errors import StoreError
from streameval.service.join.entry_store.entry_store import EntryStore
from streameval.service.join.rules import (
    Complete,
    Corrected,
    EarlyLabel,
    EarlyLabels,
    Entry,
    Labelled,
    LabelsByOrigin,
    Unlabelled,
)
from streameval.service.store.tables import create_tables


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as opened:
        create_tables(opened, "join_segments")
        yield opened


def write(store: EntryStore, connection: sqlite3.Connection, entries: dict[str, Entry]) -> None:
    if entries:
        put(store, entries)
    checkpoint(store, connection)


def put(store: EntryStore, entries: dict[str, Entry]) -> None:
    oldest = min(one.newest for one in entries.values())
    store.put(list(entries), list(entries.values()), oldest)


def checkpoint(
    store: EntryStore, connection: sqlite3.Connection, before: int | None = None
) -> None:
    changes = store.stage(before)
    store.write(connection, changes)
    store.committed(changes)


def entry(newest: int, payload: Any = ("x", 0.5)) -> Entry:
    return Unlabelled(newest, 1, payload, None, newest)


def test_entries_in_memory_are_bounded_and_large_payloads_make_small_segments(
    connection: sqlite3.Connection,
) -> None:
    store = EntryStore(connection, 50, 100)
    for n in range(20):
        write(store, connection, {f"{n}/{k}": entry(n) for k in range(30)})
        assert store.held <= 100
    assert store.held >= 50
    write(store, connection, {f"many/{k}": entry(30) for k in range(101)})
    assert store.held == 0
    assert None not in store.find([f"{n}/3" for n in range(20)] + ["many/7"])
    connection.execute("DELETE FROM join_segments")
    large = ("x" * 20_000,)
    write(EntryStore(connection), connection, {f"k{n}": entry(n, large) for n in range(10)})
    sizes = connection.execute("SELECT length(data) FROM join_segments").fetchall()
    assert (len(sizes), max(sizes)[0] < 70_000) == (4, True)
    assert EntryStore(connection).find(["k7"])[0].payload == large


# Of every kind of entry, as segments have held them since there was a join.
EVERY_KIND: dict[str, Entry] = {
    "waits": Unlabelled(100, 1, ("PT", 0.5), None, 100),
    "early": EarlyLabels(107, 0, None, (EarlyLabel("spam", 101, 2), EarlyLabel(1, 107, 3)), 107),
    "met": Labelled(110, 1, ("PT", None), "ham", 115),
    "inside": Complete(120, 2, ({"a": 0.25, "b": 0.75},), True, 120),
    "corrected": Corrected(130, 1, (), LabelsByOrigin("x", "y", None, None), 140),
    "both": Corrected(131, 70_000, ("é",), LabelsByOrigin(1, 1, 0, 1), 1 << 52),
}
WRITTEN = bytes.fromhex(
    "1A00000034000000470000006D00000087000000A800000092A577616974739600640192A25054CB3FE0000000"
    "000000C06492A56561726C7996016B00C09293A47370616D650293016B036B92A36D657496026E0192A25054C0"
    "A368616D7392A6696E73696465960378029182A161CB3FD0000000000000A162CB3FE8000000000000C37892A9"
    "636F727265637465649604CC82019094A178A179C0C0CC8C92A4626F74689604CC83CE0001117091A2C3A99401"
    "010001CF0010000000000000"
)


def test_the_bytes_of_every_kind_of_entry(connection: sqlite3.Connection) -> None:
    write(EntryStore(connection), connection, EVERY_KIND)
    rows = connection.execute("SELECT * FROM join_segments").fetchall()
    assert rows == [(1, 1 << 52, 6, 2_381_072_208, WRITTEN)]
    found = EntryStore(connection).find(list(EVERY_KIND))
    assert found == list(EVERY_KIND.values())
    assert list(map(type, found)) == list(map(type, EVERY_KIND.values()))


def filled(connection: sqlite3.Connection, count: int = 6) -> list[str]:
    keys = [f"k{n}" for n in range(count)]
    store = EntryStore(connection)
    for half in (keys[: count // 2], keys[count // 2 :]):
        write(store, connection, {key: entry(n, ("ü", 0.25)) for n, key in enumerate(half)})
    return keys


def test_every_flipped_bit_is_reported_with_its_segment(connection: sqlite3.Connection) -> None:
    keys = filled(connection)
    store = EntryStore(connection)
    (data,) = connection.execute("SELECT data FROM join_segments WHERE segment = 2").fetchone()
    for place in range(len(data) * 8):
        noisy = bytearray(data)
        noisy[place // 8] ^= 1 << place % 8
        connection.execute("UPDATE join_segments SET data = ? WHERE segment = 2", (bytes(noisy),))
        for opened in (EntryStore, lambda _: store.find(keys)):
            with pytest.raises(StoreError, match="join segment 2 is damaged: its checksum"):
                opened(connection)


@pytest.mark.parametrize(
    "change",
    [
        *("SET newest = 0.5", f"SET newest = {2**62}", "SET entries = 4", "SET crc = 'text'"),
        *("SET data = x''", "DELETE"),
    ],
)
def test_no_value_of_a_column_is_another_error(connection: sqlite3.Connection, change: str) -> None:
    keys = filled(connection)
    store = EntryStore(connection)
    if change == "DELETE":
        connection.execute("DELETE FROM join_segments WHERE segment = 1")
    else:
        connection.execute(f"UPDATE join_segments {change} WHERE segment = 1")
    if str(2**62) in change:
        checkpoint(EntryStore(connection), connection, 3)
        return
    if change != "DELETE":
        with pytest.raises(StoreError, match="join segment 1 is damaged"):
            EntryStore(connection)
    if "newest" not in change:
        with pytest.raises(StoreError, match="join segment 1 is damaged"):
            store.find(keys)


def test_a_checksum_that_fits_makes_no_sense_of_nonsense(connection: sqlite3.Connection) -> None:
    keys = filled(connection)
    rng = random.Random(5)
    (data,) = connection.execute("SELECT data FROM join_segments WHERE segment = 1").fetchone()
    reported = 0
    for _ in range(500):
        noisy = bytearray(data)
        noisy[rng.randrange(len(data))] = rng.randrange(256)
        row = (zlib.crc32(noisy), bytes(noisy))
        connection.execute("UPDATE join_segments SET crc = ?, data = ? WHERE segment = 1", row)
        try:
            EntryStore(connection).find(keys)
        except StoreError as error:
            reported += "join segment 1 is damaged" in str(error)
    assert reported > 100
