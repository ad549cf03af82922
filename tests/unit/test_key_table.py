"""The key tables of the join, portable and compiled, against a dict."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.service.join.entry_store.entry_store import KeyTable, PortableKeyTable
from streameval.service.join.entry_store.segments import ENCODE, Versions
from streameval.service.join.rules import (
    Complete,
    Corrected,
    EarlyLabel,
    EarlyLabels,
    Labelled,
    LabelsByOrigin,
    Unlabelled,
)

try:
    from streameval.service.native.native_key_table import NativeKeyTable, hashes, in_order
except ImportError:
    TABLES: list[Callable[[], KeyTable]] = [PortableKeyTable]
else:

    def native(*numbers: bool) -> NativeKeyTable:
        return NativeKeyTable(numbers, {0: Unlabelled, 2: Labelled, 3: Complete}, ENCODE)

    TABLES = [PortableKeyTable, native]

every_table = pytest.mark.parametrize("make", TABLES)


TEXTS = st.one_of(
    st.sampled_from(["", "a", "b", "ä", "\U0001f600", "a" * 2000]), st.text(max_size=3)
)


@every_table
@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "put", "find", "versions"]), st.lists(TEXTS, max_size=12)
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
        values = [Unlabelled(n, 1, (k,), None, k) for k in range(len(keys))]
        if step == "add":
            changed |= {key: None for key in keys if key not in expected}
            there = [expected.setdefault(*pair) for pair in zip(keys, values, strict=True)]
            assert table.add(keys, values) == there
        elif step == "put":
            expected.update(zip(keys, values, strict=True))
            table.put(keys, iter(values))
            changed |= dict.fromkeys(keys)
        elif step == "find":
            known = [expected.get(key) for key in keys]
            assert table.find(keys) == [table.get(key) for key in keys] == known
        else:
            assert_versions(table, list(changed), [expected[key] for key in changed])
            changed = {}
        assert len(table) == len(expected)


def assert_versions(table: KeyTable, keys: list[str], entries: list[Any]) -> None:
    found, wanted = Versions(*table.versions()), Versions.of(keys, entries)
    assert (found.keys, found.data) == (wanted.keys, wanted.data)
    assert found.newest.tolist() == wanted.newest.tolist()
    assert found.ends.tolist() == wanted.ends.tolist()


@every_table
def test_many_keys_in_batches_of_every_size(make: Callable[[], KeyTable]) -> None:
    rng, table = random.Random(4), make()
    expected: dict[str, int] = {}
    for step in range(100):
        keys = [f"id-{rng.randrange(30_000)}" for _ in range(rng.choice([1, 127, 128, 129, 700]))]
        values = {key: step * 1_000 + n for n, key in enumerate(keys)}
        if step % 2:
            table.put([*values], [*values.values()])
            expected |= values
        else:
            table.add([*values], [*values.values()])
            expected = values | expected
    assert table.find(list(expected)) == list(expected.values())
    assert table.find([f"no-{n}" for n in range(1_000)]) == [None] * 1_000


@every_table
def test_references_are_given_back(make: Callable[[], KeyTable]) -> None:
    key, first, second, cell, label = "".join(["k", "1"]), object(), object(), object(), object()
    others = [f"x{n}" for n in range(1_000)]
    watched = [key, first, second, cell, label, *others]
    before = [sys.getrefcount(one) for one in watched]
    for _ in range(3):
        table = make()
        table.reserve(2_000)
        table.add([key], [first])
        assert table.add(["".join(["k", "1"])], [second])[0] is first
        table.put([key], [second])
        table.find([key, key])
        table.put(others, others)
        table.get(key)
        if make is PortableKeyTable:
            continue
        old, young = native(False), native(False)  # packed entries, too
        time, one = np.array([5], dtype=np.int64), np.ones(1, dtype=np.uint8)
        for _ in range(2):
            old.predict([key], time, 1, [[cell]], None, young, 0, one)
        for known in (True, False):
            assert young.label([key], [label], time, 1, old, 0)[0].tolist() == [known]
        old.put([key], [label])
        del old, young
    del table
    gc.collect()
    assert [sys.getrefcount(one) for one in watched] == before


compiled = pytest.mark.skipif(len(TABLES) == 1, reason="nothing was compiled here")


@compiled
def test_what_is_no_text_is_refused_and_changes_nothing() -> None:
    class Text(str):
        __slots__ = ()

    table = native()
    for bad in (None, b"a", Text("a")):
        for call in (table.find, lambda k: table.add(k, [1, 2]), lambda k: table.put(k, [1, 2])):
            with pytest.raises(TypeError, match="expected keys of type str, got"):
                call(["good", bad])
    for call in (table.add, table.put):
        with pytest.raises(ValueError, match="expected an entry for each of 1 keys, got 2"):
            call(["a"], [1, 2])
    assert (len(table), table.versions()[0]) == (0, [])
    keys = ["", "a", "ä" * 100]
    assert hashes(keys).tolist() == list(map(hash, keys))


@every_table
def test_the_collector_does_not_track_entries(make: Callable[[], KeyTable]) -> None:
    keys = [f"k{n}" for n in range(1_000)]
    table = make()
    table.add(keys, [Unlabelled(n, 1, (float(n), key), None, n) for n, key in enumerate(keys)])
    table.put(["early"], [EarlyLabels(1, 0, None, (EarlyLabel("spam", 1, 2),), 1)])
    # Payloads are out of its sight after the first young collection: they hold plain values.
    gc.collect(0)
    entries = table.find([*keys, "early"])
    held = [*entries, *(entry.payload for entry in entries[:-1]), entries[-1].labels]
    assert not any(map(gc.is_tracked, held))


WHOLE = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.sampled_from([-33, -32, -1, 127, 128, 65536])
)
CELLS = st.one_of(
    st.none(),
    st.booleans(),
    TEXTS,
    st.text("ab", min_size=250, max_size=260),
    WHOLE,
    st.floats(allow_nan=False),
    st.just(2**64 - 1),
    st.dictionaries(TEXTS, st.floats(0, 1), max_size=3),
)


@compiled
@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(TEXTS, WHOLE, st.none() | st.floats(allow_nan=False), CELLS, CELLS),
        min_size=1,
        max_size=20,
        unique_by=lambda row: row[0],
    ),
    st.integers(1, 100_000),
    st.booleans(),
)
def test_packed_entries_are_those_of_the_rules(rows, partition, complete):
    table = native(True, False)
    keys, times, scores, slices, given_labels = (list(column) for column in zip(*rows, strict=True))
    labels = ["x" if label is None else label for label in given_labels] if complete else None
    chosen = np.ones(len(keys), dtype=np.uint8)
    floats = np.array([np.nan if score is None else score for score in scores])
    moments = np.array(times, dtype=np.int64)
    inserted = table.predict(
        keys, moments, partition, [floats, slices], labels, native(True, False), -(2**63), chosen
    )
    assert inserted == len(keys) == chosen.sum()
    expected = [
        Unlabelled(time, partition, (score, cell), None, time)
        if labels is None
        else Complete(time, partition, (score, cell), labels[n], time)
        for n, (_, time, score, cell, _) in enumerate(rows)
    ]
    assert table.find(keys) == expected
    assert_versions(table, keys, expected)
    # In the place of a packed entry any other may stand.
    other = Corrected(1, 1, (), LabelsByOrigin(1, 1, 0, 1), 5)
    table.put(keys[:1], [other])
    assert table.find(keys) == [other, *expected[1:]]


@compiled
def test_columns_of_other_lengths_are_refused() -> None:
    table, none = native(True, False), native(True, False)
    one, two, some = np.zeros(1, np.int64), np.zeros(2, np.int64), np.ones(1, np.uint8)
    scored: Any = [["a"], one, 1, [np.zeros(1), [1]], None, none, 0, some]
    others: dict[int, Any] = {1: two, 3: [np.zeros(2), [1]], 4: [], 5: native(), 7: some[:0]}
    calls: list[tuple[Any, list[Any], dict[int, Any]]] = [
        (table.predict, scored, others),
        (table.predict, scored, {3: [np.zeros(1), []]}),
        (table.predict, scored, {3: [np.zeros(1)]}),
        (table.label, [["a"], [1], one, 1, none, 0], {1: [], 2: two, 4: native()}),
        (in_order, [b"ab", np.array([2]), one], {1: np.array([3]), 2: np.array([-1])}),
        (in_order, [b"ab", np.array([2]), one], {1: two, 2: np.array([1])}),
    ]
    for call, right, wrong in calls:
        for place, column in wrong.items():
            with pytest.raises(ValueError, match="columns"):
                call(*right[:place], column, *right[place + 1 :])
    assert len(table) == 0
