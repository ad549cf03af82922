"""The key tables of the join, portable and compiled, against a dict."""

from __future__ import annotations

import gc
import pickle
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.service.join.entry_store.entry_store import KeyTable, PortableKeyTable, key_table
from streameval.service.join.rules import EarlyLabel, EarlyLabels, Unlabelled

try:
    from streameval.states.native.native_key_table import NativeKeyTable
except ImportError:
    TABLES: list[Callable[[], KeyTable]] = [PortableKeyTable]
else:
    TABLES = [PortableKeyTable, NativeKeyTable]

every_table = pytest.mark.parametrize("make", TABLES)


def test_the_compiled_table_serves_where_the_compiled_index_does() -> None:
    assert (type(key_table()) is PortableKeyTable) == (se.backend() == "portable")


TEXTS = st.one_of(
    st.sampled_from(["", "a", "b", "ä", "\U0001f600", "a" * 2000]), st.text(max_size=3)
)


@every_table
@settings(max_examples=100)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["add", "put", "find", "get", "changes"]), st.lists(TEXTS, max_size=12)
        ),
        max_size=30,
    )
)
def test_it_is_a_dict(make: Callable[[], KeyTable], steps: list[tuple[str, list[str]]]) -> None:
    table = make()
    expected: dict[str, Any] = {}
    changed: dict[str, None] = {}
    for n, (step, keys) in enumerate(steps):
        # Texts of their own: equal to those in the table, and not the same objects.
        keys = ["".join([*key, ""]) for key in keys]
        values = [(n, k) for k in range(len(keys))]
        if step == "add":
            new = {key: None for key in keys if key not in expected}
            wanted = [expected.setdefault(*pair) for pair in zip(keys, values, strict=True)]
            assert table.add(keys, values) == wanted
            changed.update(new)
        elif step == "put":
            expected.update(zip(keys, values, strict=True))
            table.put(keys, iter(values))
            changed.update(dict.fromkeys(keys))
        elif step == "find":
            assert table.find(keys) == [expected.get(key) for key in keys]
        elif step == "get":
            assert [table.get(key) for key in keys] == [expected.get(key) for key in keys]
        else:
            assert table.changes() == (list(changed), [expected[key] for key in changed])
            changed = {}
        assert len(table) == len(expected)


@every_table
def test_many_keys_in_batches_of_every_size(make: Callable[[], KeyTable]) -> None:
    rng = random.Random(4)
    table = make()
    expected: dict[str, int] = {}
    for step in range(300):
        keys = [f"id-{rng.randrange(100_000)}" for _ in range(rng.choice([1, 127, 128, 129, 700]))]
        values = [step * 1_000 + n for n in range(len(keys))]
        if step % 2:
            table.put(keys, values)
            expected.update(zip(keys, values, strict=True))
        else:
            table.add(keys, values)
            for pair in zip(keys, values, strict=True):
                expected.setdefault(*pair)
    assert table.find(list(expected)) == list(expected.values())
    assert table.find([f"no-{n}" for n in range(1_000)]) == [None] * 1_000
    keys, values = table.changes()
    assert dict(zip(keys, values, strict=True)) == expected


@every_table
def test_references_are_given_back(make: Callable[[], KeyTable]) -> None:
    key, first, second = "".join(["k", "1"]), object(), object()
    others = [f"x{n}" for n in range(3_000)]

    def counts() -> list[int]:
        return [sys.getrefcount(one) for one in [key, first, second, *others]]

    before = counts()
    for _ in range(3):
        table = make()
        table.reserve(5_000)
        table.add([key], [first])
        found = table.add(["".join(["k", "1"])], [second])
        assert found[0] is first
        del found
        table.put([key], [second])
        table.find([key, key])
        table.put(others, others)
        table.changes()
        table.get(key)
        del table
    gc.collect()
    assert counts() == before


compiled = pytest.mark.skipif(len(TABLES) == 1, reason="nothing was compiled here")


@compiled
def test_what_is_no_text_is_refused_and_changes_nothing() -> None:
    class Text(str):
        __slots__ = ()

    table = NativeKeyTable()
    for bad in (None, 5, b"a", Text("a")):
        for call in (table.find, lambda k: table.add(k, [1, 2]), lambda k: table.put(k, [1, 2])):
            with pytest.raises(TypeError, match="expected keys of type str, got"):
                call(["good", bad])
        with pytest.raises(TypeError, match="expected keys of type str, got"):
            table.get(bad)  # type: ignore[arg-type]
    for call in (table.add, table.put):
        with pytest.raises(ValueError, match="expected a value for each of 1 keys, got 2"):
            call(["a"], [1, 2])
    assert len(table) == 0
    assert table.changes() == ([], [])
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(table)


@compiled
def test_its_memory_is_reported() -> None:
    table = NativeKeyTable()
    small = sys.getsizeof(table)
    table.put([f"k{n}" for n in range(10_000)], range(10_000))
    assert 32 * 20_000 <= sys.getsizeof(table) - small <= 32 * 40_000


@every_table
def test_the_collector_does_not_track_entries(make: Callable[[], KeyTable]) -> None:
    keys = [f"k{n}" for n in range(1_000)]
    payloads = zip(map(float, range(1_000)), keys, strict=True)
    table = make()
    table.add(keys, [Unlabelled(n, 1, payload, None, n) for n, payload in enumerate(payloads)])
    table.put(["early"], [EarlyLabels(1, 0, None, (EarlyLabel("spam", 1, 2),), 1)])
    # Payloads are out of its sight after the first young collection: they hold plain values.
    gc.collect(0)
    entries = table.find(keys)
    assert not any(map(gc.is_tracked, entries))
    assert not any(gc.is_tracked(entry.payload) for entry in entries)
    (early,) = table.find(["early"])
    assert not gc.is_tracked(early)
    assert not gc.is_tracked(early.labels)
