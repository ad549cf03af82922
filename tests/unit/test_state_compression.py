"""State files and rows of a store: compressed around the bytes of the state."""

from __future__ import annotations

import io
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import StateError
from streameval.evaluator.comparison import load_any
from streameval.state_files.codec import (
    compressed,
    decompressed,
    inflated_header,
    pack,
    unpack_one_of,
)
from streameval.state_files.disk import read_file, read_one_of, read_provenance
from tests.crash.fuzz_state_file import COMPRESSED, KIND, repacked
from tests.support.read_state import expanded, read_state

ARRAYS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40).map(np.array),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=40).map(np.array),
    st.lists(st.booleans(), max_size=40).map(lambda values: np.array(values, np.bool_)),
    st.lists(st.integers(0, 255), max_size=40).map(lambda values: np.array(values, np.uint8)),
)


@settings(max_examples=40)
@given(
    st.dictionaries(st.text(max_size=3), ARRAYS.filter(lambda array: array.dtype != object)),
    st.sampled_from([None, {"contents": ["ab" * 16], "shards": []}]),
)
def test_compressed_bytes_are_those_that_were_packed(
    data: dict[str, Any], provenance: dict[str, Any] | None
) -> None:
    packed = pack({**data, "counts": np.zeros(100)}, kind=KIND, provenance=provenance)
    file = compressed(packed, least=len(packed))
    assert len(file) < len(packed) == len(compressed(packed, least=len(packed) + 1))
    assert decompressed(file, limit=len(packed)) == packed == expanded(file)
    with pytest.raises(StateError, match="declares"):
        decompressed(file, limit=len(packed) - 1)
    found, plain = unpack_one_of(file, (KIND,)), unpack_one_of(packed, (KIND,))
    assert found.checksum == plain.checksum
    assert found.provenance == provenance
    assert found.size == len(packed)
    assert read_state(file) == read_state(packed)


def evaluator(rows: int = 2_000) -> se.Evaluator:
    rng = np.random.default_rng(1)
    ev = se.Evaluator()
    ev.update_many(rng.random(rows) < 0.3, score=rng.random(rows))
    return ev


def test_small_states_and_random_bytes_are_written_as_they_are() -> None:
    small = pack({"counts": np.zeros(100)}, kind=KIND)
    assert compressed(small) is small
    random = pack({"raw": np.random.default_rng(1).integers(0, 256, 9_000, np.uint8)}, kind=KIND)
    assert compressed(random) is random


@pytest.mark.parametrize("shards", [False, True])
def test_the_shards_of_a_file_are_read_alone(tmp_path: Path, shards: bool) -> None:
    ev = evaluator()
    if shards:
        for n in range(500):
            ev.name_shard(f"shard-{n}")
    path = tmp_path / "a.state"
    ev.save(path)
    assert path.read_bytes()[16] == 3
    assert path.stat().st_size < 0.6 * len(ev.to_bytes())
    assert ev.to_bytes()[16] == 1
    assert se.load(path) == ev == se.from_bytes(path.read_bytes())
    assert load_any(path).provenance == ev.provenance
    provenance, checksum = read_provenance(path)
    whole = read_one_of(path, ("evaluator",))
    assert (provenance, checksum) == (whole.provenance, whole.checksum)
    assert (provenance is not None) == shards
    data = path.read_bytes()
    for length in (40, 41, 60):
        cut = data[:24] + (length + 32).to_bytes(8, "little") + data[32:length] + data[-32:]
        path.write_bytes(cut)
        with pytest.raises(StateError, match=r"a\.state: the compressed part .* was damaged"):
            read_provenance(path)


@pytest.mark.parametrize("data", COMPRESSED, ids=range(len(COMPRESSED)))
def test_every_bit_flipped(data: bytes) -> None:
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(StateError):
                unpack_one_of(bytes(flipped), (KIND,))
    for length in range(len(data)):
        with pytest.raises(StateError, match=r"^is empty$|cut off$"):
            unpack_one_of(data[:length], (KIND,))


BOMB = zlib.compress(bytes(40 << 20), 1)


def bomb(declared: int) -> bytes:
    """A small stream of 40 MB."""
    return repacked(BOMB, declared, bytes(32))


def test_a_bomb_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    data = bomb(1_000)
    path = tmp_path / "bomb.state"
    path.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(StateError, match="it does not hold 968 bytes: the state was damaged"):
        unpack_one_of(data, (KIND,))
    with pytest.raises(StateError, match="it does not hold 968 bytes"):
        read_file(path, kind=KIND)
    with pytest.raises(StateError):
        read_provenance(path)
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()
    path.write_bytes(bomb(10**9))
    with pytest.raises(StateError, match=r"declares 1000000000 bytes, .*; at most 5"):
        read_file(path, kind=KIND, max_bytes=5_000_000)
    with pytest.raises(StateError, match=r"declares \d+ bytes, uncompressed; at most \d+ are read"):
        unpack_one_of(bomb(2**63), (KIND,))


def test_a_state_is_compressed_once() -> None:
    packed = pack({"counts": np.zeros(1_000)}, kind=KIND)
    inner = compressed(packed)
    padded = inner[:-32] + bytes(-len(inner) % 8)
    twice = repacked(zlib.compress(padded), len(padded) + 32, bytes(32))
    with pytest.raises(StateError, match="it holds no state"):
        unpack_one_of(twice, (KIND,))


def test_the_header_is_read_from_a_file_in_pieces() -> None:
    provenance = {"contents": [f"{n:032x}" for n in range(9_000)], "shards": []}
    packed = pack({}, kind=KIND, provenance=provenance)
    file = io.BytesIO(compressed(packed))
    file.seek(32)
    header, version = inflated_header(file)
    assert (header, version) == (packed[32 : 32 + len(header)], 2)
    assert len(header) == int.from_bytes(packed[20:24], "little")
