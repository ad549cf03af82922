"""Entries on disk against a dict, and the errors of damage."""

from __future__ import annotations

import random
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import StoreError
from streameval.service.join.entry_store.entry_store import EntryStore
from streameval.service.join.entry_store.segments import MOST_ENTRIES, SegmentStore, segment_bounds
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


def colliding(keys: Sequence[str]) -> Any:
    return np.array([hash(key) % 4 for key in keys], dtype=np.int64)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from([0, 5, 10_000]), st.booleans())
def test_it_is_a_dict_that_forgets(seed: int, hot: int, collide: bool) -> None:
    rng = random.Random(seed)
    keys = [f"k{n}" for n in range(rng.choice([3, 40, 600]))]
    expected: dict[str, Entry] = {}
    newest: dict[str, int] = {}
    dropped = 0
    with pytest.MonkeyPatch.context() as patch:
        if collide:
            patch.setattr("streameval.service.join.entry_store.segments.key_hashes", colliding)
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            create_tables(connection, "join_segments")
            store = EntryStore(connection, 50, hot)
            for step in range(25):
                if rng.random() < 0.3:
                    # What changes while a checkpoint is being written is in the next one.
                    begun = store.stage()
                    store.write(connection, begun)
                else:
                    begun = None
                if rng.random() < 0.8:
                    # Newer versions are never older: what the join takes care of.
                    changed = {
                        key: entry(max(newest.get(key, 0), step * 10 + rng.randrange(-30, 9)))
                        for key in rng.sample(keys, rng.randrange(len(keys)))
                    }
                    newest.update((key, one.newest) for key, one in changed.items())
                    expected.update(changed)
                    if begun is None:
                        write(store, connection, changed)
                    elif changed:
                        put(store, changed)
                        some = rng.choices(keys, k=9)
                        for key, one in zip(some, store.find(some), strict=True):
                            known = expected.get(key)
                            assert one == known or known is None or known.newest < dropped
                if begun is not None:
                    store.committed(begun)
                    checkpoint(store, connection)
                if rng.random() < 0.3:
                    dropped = max(dropped, step * 10 - rng.randrange(100))
                    checkpoint(store, connection, dropped)
                if rng.random() < 0.2:
                    store = EntryStore(connection, 50, hot)
                wanted = rng.choices([*keys, "absent"], k=rng.randrange(30))
                found = store.find(wanted)
                assert len(found) == len(wanted)
                for key, one in zip(wanted, found, strict=True):
                    known = expected.get(key)
                    if known is not None and known.newest >= dropped:
                        assert one == known
                    else:
                        # Dropped or not: but nothing that would be taken for young.
                        assert one is None or one.newest < dropped


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from([0, 5, 10_000]))
def test_only_what_is_not_known_is_put_in(seed: int, hot: int) -> None:
    rng = random.Random(seed)
    names = [f"k{n}" for n in range(rng.choice([3, 40, 300]))]
    expected: dict[str, Entry] = {}
    border = -1_000
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_tables(connection, "join_segments")
        store = EntryStore(connection, 50, hot)
        for step in range(30):
            keys = rng.choices(names, k=rng.randrange(1, 20))
            entries = [entry(step * 10 + rng.randrange(-60, 9), (n,)) for n in range(len(keys))]
            known: dict[int, Entry] = {}
            for n, (key, one) in enumerate(zip(keys, entries, strict=True)):
                there = expected.get(key)
                if there is not None and there.newest >= border:
                    known[n] = there
                else:
                    expected[key] = one
            assert store.add(keys, entries, min(one.newest for one in entries)) == known
            for key in rng.sample(names, 3):
                (found,) = store.find([key])
                there = expected.get(key)
                assert found == (None if there is None or there.newest < border else there)
                assert store.latest(key, found) == found
            if rng.random() < 0.7:
                border = max(border, step * 10 - rng.randrange(40, 200))
                checkpoint(store, connection, border)
                if rng.random() < 0.3:
                    store = EntryStore(connection, 50, hot)
                    store.forget_before(border)


def test_entries_in_memory_are_bounded(connection: sqlite3.Connection) -> None:
    store = EntryStore(connection, 50, 100)
    for n in range(20):
        write(store, connection, {f"{n}/{k}": entry(n) for k in range(30)})
        assert store.held <= 100
    assert store.held >= 50
    write(store, connection, {f"many/{k}": entry(30) for k in range(101)})
    assert store.held == 0
    assert None not in store.find([f"{n}/3" for n in range(20)] + ["many/7"])


def test_what_is_in_memory_is_not_read_from_disk(connection: sqlite3.Connection) -> None:
    store = EntryStore(connection, 50, 100)
    write(store, connection, {"a": entry(1), "old": entry(1)})
    write(store, connection, {"b": entry(2), "a": entry(3)})
    connection.execute("UPDATE join_segments SET data = 'x'")
    assert store.find(["a", "b", "c", "old"]) == [entry(3), entry(2), None, entry(1)]


def test_what_is_dropped_is_given_back(connection: sqlite3.Connection) -> None:
    store = EntryStore(connection, 50, 10)
    for n in range(300):
        write(store, connection, {f"{n}/{k}": entry(n) for k in range(20)})
        checkpoint(store, connection, n - 5)
    (rows,) = connection.execute("SELECT count(*) FROM join_segments").fetchone()
    assert rows <= 6
    # Runs lose the dead when they are merged.
    assert len(SegmentStore(connection)) <= 20 * 6


def test_large_payloads_make_small_segments(connection: sqlite3.Connection) -> None:
    store = EntryStore(connection)
    write(store, connection, {f"k{n}": entry(n, ("x" * 20_000,)) for n in range(10)})
    sizes = connection.execute("SELECT length(data) FROM join_segments").fetchall()
    assert len(sizes) == 4
    assert max(sizes)[0] < 70_000
    found = store.find(["k7"])[0]
    assert found is not None
    assert found.payload == ("x" * 20_000,)


@given(
    st.lists(st.tuples(st.integers(1, 100_000), st.integers(0, 10**6)), min_size=1, max_size=400),
    st.integers(0, 10**5),
)
def test_cuts_cover_all_and_keep_their_bounds(rows: list[tuple[int, int]], spread: int) -> None:
    sizes = np.array([size for size, _ in rows])
    newest = np.sort(np.array([time for _, time in rows]))
    found = segment_bounds(sizes, newest, spread)
    assert [start for start, _ in found] == [0, *(stop for _, stop in found[:-1])]
    assert found[-1][1] == len(rows)
    for start, stop in found:
        assert 0 < stop - start <= MOST_ENTRIES
        assert stop - start == 1 or sizes[start:stop].sum() <= 65_536
        assert (np.diff(newest[start:stop]) <= spread).all()


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


def damage(connection: sqlite3.Connection, keys: list[str]) -> str:
    """What is said when all is read; empty where nothing is."""
    try:
        EntryStore(connection).find(keys)
    except StoreError as error:
        return str(error)
    return ""


def test_every_flipped_bit_is_reported_with_its_segment(connection: sqlite3.Connection) -> None:
    keys = filled(connection)
    store = EntryStore(connection)
    (data,) = connection.execute("SELECT data FROM join_segments WHERE segment = 2").fetchone()
    for place in range(len(data) * 8):
        noisy = bytearray(data)
        noisy[place // 8] ^= 1 << place % 8
        connection.execute("UPDATE join_segments SET data = ? WHERE segment = 2", (bytes(noisy),))
        with pytest.raises(StoreError, match="join segment 2 is damaged: its checksum"):
            EntryStore(connection)
        with pytest.raises(StoreError, match="join segment 2 is damaged: its checksum"):
            store.find(keys)


@pytest.mark.parametrize("column", ["newest", "entries", "crc", "data"])
@pytest.mark.parametrize("value", [-1, 2, 4, 257, 2**62, 0.5, "text", b"", b"\xff" * 40])
def test_no_value_of_a_column_is_another_error(
    connection: sqlite3.Connection, column: str, value: object
) -> None:
    keys = filled(connection)
    store = EntryStore(connection)
    connection.execute(f"UPDATE join_segments SET {column} = ? WHERE segment = 1", (value,))
    if column == "newest" and isinstance(value, int):
        checkpoint(EntryStore(connection), connection, 3)
        return
    with pytest.raises(StoreError, match="join segment 1 is damaged"):
        EntryStore(connection)
    if column != "newest":
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
        reported += "join segment 1 is damaged" in damage(connection, keys)
    assert reported > 100


def test_a_missing_segment_is_reported(connection: sqlite3.Connection) -> None:
    keys = filled(connection)
    store = EntryStore(connection)
    connection.execute("DELETE FROM join_segments WHERE segment = 2")
    with pytest.raises(StoreError, match="join segment 2 is damaged: it is missing"):
        store.find(keys)


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        create_tables(connection, "join_segments")
        keys = filled(connection, 3_000)
    whole = path.read_bytes()
    rng = random.Random(11)
    reported = 0
    for _ in range(60):
        noisy = bytearray(whole)
        for _ in range(40):
            # Behind the header and the schema, which whoever opens the file looks at.
            noisy[rng.randrange(8192, len(noisy))] = rng.randrange(256)
        path.write_bytes(noisy)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            reported += "join segment" in damage(connection, keys)
    assert reported > 50
