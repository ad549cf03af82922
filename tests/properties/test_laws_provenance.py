"""Provenance: merges in any order and of any shape, against sets of positions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import StateError
from streameval.state_files.provenance import Collection, Provenance, Shard

CONTENTS = [bytes([number]) * 16 for number in range(4)]
SHARDS = st.builds(
    lambda name, epoch, first, length: Shard(name, epoch, first, first + length),
    st.sampled_from(["a", "b", "eu-1"]),
    st.integers(0, 1),
    st.integers(0, 12),
    st.integers(1, 5),
)
PARTS = st.lists(st.one_of(SHARDS, st.sampled_from(CONTENTS)), max_size=8)


def held(parts: list[Shard | bytes]) -> Provenance:
    """A provenance of these parts, some of which may overlap."""
    result = Provenance()
    for part in parts:
        if isinstance(part, bytes):
            result.contents.add(part)
        else:
            result.add_shard(part)
        result._check()
    return result


def cells(parts: list[Shard | bytes]) -> set[object]:
    """The oracle: each content, and each position of each epoch of a shard."""
    return {
        cell
        for part in parts
        for cell in (
            [part]
            if isinstance(part, bytes)
            else [(part.name, part.epoch, at) for at in range(part.first, part.end)]
        )
    }


@given(PARTS, PARTS)
def test_a_union_holds_what_either_holds_and_is_written_in_one_way(one, other):
    union = held(one)
    before = held(other)
    union.add(before)
    union._check()
    assert union.to_data() == held(one + other).to_data() == held(other + one).to_data()
    assert before.to_data() == held(other).to_data()
    again = Provenance.from_data(union.to_data()) if union else Provenance()
    assert again.to_data() == union.to_data()
    same = cells(one) == cells(other)
    assert (held(one).to_data() == before.to_data()) == same


@given(PARTS, PARTS)
def test_an_overlap_is_found_where_a_position_is_shared_or_epochs_differ(one, other):
    def newest(parts):
        return {
            name: max(part.epoch for part in parts if part[:1] == (name,))
            for name in {part.name for part in parts if isinstance(part, Shard)}
        }

    mine, theirs = newest(one), newest(other)
    differ = any(mine[name] != theirs[name] for name in mine.keys() & theirs.keys())
    shared = bool(cells(one) & cells(other))
    for left, right in ((one, other), (other, one)):
        found = held(left).overlap(held(right))
        assert (found is not None) == (shared or differ)


@given(PARTS, st.lists(SHARDS, max_size=4))
def test_what_is_missing(parts, expected):
    provenance = held(parts)
    newest = {name: max(epochs) for name, epochs in provenance.shards.items()}
    for shard in expected:
        found = provenance.missing([shard])
        lacking = {
            at
            for at in range(shard.first, shard.end)
            if (shard.name, newest.get(shard.name), at) not in cells(parts)
        }
        assert {at for part in found for at in range(part.first, part.end)} == lacking
        assert all(part.first < part.end for part in found)


# Real states, merged as trees of any shape.


@st.composite
def _shards(draw):
    """Bytes of states: without a name, or consecutive sequences of a few shards."""
    count = draw(st.integers(2, 6))
    result = []
    for number in range(count):
        ev = se.Evaluator(metrics=["accuracy"])
        for y_pred in draw(st.lists(st.booleans(), min_size=1, max_size=3)):
            ev.update(True, y_pred, weight=number + 1)
        name = draw(st.sampled_from([None, "a", "b"]))
        if name is None:
            ev.update(False, False, weight=1000 + number)  # no two contents are alike
        else:
            ev.name_shard(name, epoch=3, sequence=(10 * number, 10 * number + 10))
        result.append(ev.to_bytes(provenance=True))
    return result


def merged_as_tree(draw, states: list[bytes]) -> se.Evaluator:
    """The states merged in a tree of any shape; inner nodes travel as bytes, or do not."""
    nodes = [se.from_bytes(data) for data in draw(st.permutations(states))]
    while len(nodes) > 1:
        left = nodes.pop(draw(st.integers(0, len(nodes) - 1)))
        right = nodes.pop(draw(st.integers(0, len(nodes) - 1)))
        way = draw(st.sampled_from(["method", "function", "bytes"]))
        if way == "method":
            left.merge(right)
        else:
            left = se.merge([left, right])
        if way == "bytes":
            left = se.from_bytes(left.to_bytes(provenance=True))
        nodes.append(left)
    return nodes[0]


@settings(max_examples=15)
@given(_shards(), st.data())
def test_any_tree_of_merges_gives_the_same_bytes_and_refuses_what_is_held(states, data):
    whole = se.merge(map(se.from_bytes, states))
    one = merged_as_tree(data.draw, states)
    before = whole.to_bytes(provenance=True)
    assert one.to_bytes(provenance=True) == before
    assert one.to_bytes() == whole.to_bytes()
    # The canonical state says nothing of shards.
    assert se.from_bytes(whole.to_bytes()) == whole
    part = data.draw(st.lists(st.sampled_from(states), min_size=1, unique=True))
    some = se.merge(map(se.from_bytes, part)).to_bytes(provenance=True)
    with pytest.raises(StateError, match="expected each shard once"):
        merged_as_tree(data.draw, [*states, some])
    with pytest.raises(StateError, match="expected each shard once"):
        one.merge(se.from_bytes(some))
    assert one.to_bytes(provenance=True) == before


@given(st.lists(SHARDS.map(lambda shard: shard._replace(first=0, end=1)), max_size=6), st.data())
def test_of_several_epochs_the_newest_is_merged_in_any_order(shards, data):
    shards = list(dict.fromkeys(shards))
    parts = [(f"{n}.state", held([shard])) for n, shard in enumerate(shards)]
    newest = {name: max(s.epoch for s in shards if s.name == name) for name, *_ in shards}
    order = data.draw(st.permutations(parts))
    together = Collection(order)
    left_out = {name for name, provenance in order if together.replaced(name, provenance)}
    assert left_out == {
        f"{n}.state" for n, shard in enumerate(shards) if shard.epoch < newest[shard.name]
    }
    assert together.union.to_data()["shards"] == sorted(
        [name, epoch, 0, 1] for name, epoch in newest.items()
    )
