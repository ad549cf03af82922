"""The state file: one text of bytes for each structure, compressed or not, and clear errors."""

import contextlib
import io
import math
import random
import re
import sys
import tracemalloc
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import StateError
from streameval.evaluator.comparison import load_any
from streameval.state_files import codec
from streameval.state_files.codec import (
    compressed,
    decompressed,
    inflated_header,
    pack,
    unpack,
    unpack_one_of,
)
from streameval.state_files.disk import read_file, read_one_of, read_provenance
from tests.crash.fuzz_state_file import COMPRESSED, KIND, forge, repacked, text_of
from tests.support.read_state import expanded, read_state

ROOT = Path(__file__).parents[2]
relaxed = partial(settings, suppress_health_check=[HealthCheck.too_slow])
DTYPES = ("bool", "float64", "int64", "uint8")


def arrays():
    return st.one_of(
        st.lists(st.booleans(), max_size=9).map(lambda v: np.array(v, dtype=bool)),
        st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5).map(
            lambda v: np.array(v, dtype=np.float64)
        ),
        st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5).map(
            lambda v: np.array(v, dtype=np.int64)
        ),
        st.binary(max_size=17).map(lambda v: np.frombuffer(v, dtype=np.uint8)),
    )


TEXTS = st.text(st.characters(exclude_categories=()), max_size=6) | st.sampled_from(
    ["$", "$$", "$int:5", "$text:", "$array:int64:0:0", "\ud83d\ude00", "😀", '"\\/\b\0\x7f\u2028']
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, -(2**64), 16**400])
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | arrays(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
STRUCTURES = st.dictionaries(TEXTS, VALUES, max_size=5)


@given(STRUCTURES)
@relaxed(max_examples=200)
def test_what_is_packed_comes_back_and_the_second_reader_agrees(structure):
    data = pack(structure, kind="example")
    assert type(data) is bytes
    assert text_of(unpack(data, kind="example")) == text_of(structure)
    kind, read = read_state(data)
    assert (kind, text_of(read)) == ("example", text_of(structure))


def shuffled(rng, value):
    """The same structure, with every dict filled in another order and every array strided."""
    if isinstance(value, dict):
        return {key: shuffled(rng, value[key]) for key in rng.sample(list(value), len(value))}
    if isinstance(value, list):
        return [shuffled(rng, item) for item in value]
    if isinstance(value, np.ndarray):
        return np.repeat(value, 2)[::2].astype(value.dtype.newbyteorder(">"))
    return value


@given(STRUCTURES, st.randoms(use_true_random=False))
@relaxed(max_examples=50)
def test_same_content_same_bytes(structure, rng):
    assert pack(shuffled(rng, structure), kind="x") == pack(structure, kind="x")


def test_subclasses_are_written_as_what_they_are():
    structure = {"float": np.float64(0.1), np.str_("key"): np.str_("text")}
    back = unpack(pack(structure, kind="x"), kind="x")
    assert back == {"float": 0.1, "key": "text"}
    assert [type(value) for value in back.values()] == [float, str]


def test_the_example_of_the_specification():
    text = (ROOT / "docs" / "state-format.md").read_text(encoding="utf-8")
    rows = re.findall(r"^([0-9a-f]{8})  ((?:[0-9a-f]{2} ?)+?)  +\S", text, re.MULTILINE)
    written = bytes.fromhex("".join(row for _, row in rows))
    assert [int(at, 16) for at, _ in rows] == list(range(0, len(written), 16))
    structure = {
        "hits": np.array([True, False, True]),
        "label": "$5",
        "scores": np.array([0.25, 0.5]),
        "threshold": 0.5,
        "total": 3,
        "wins": 18446744073709551616,
    }
    assert pack(structure, kind="example") == written
    assert len(written) == 248


# What cannot be written


@pytest.mark.parametrize(
    ("structure", "message"),
    [
        ({"a": {"b": [1, math.nan]}}, r"$.data.a.b[1]: expected a finite float, got nan"),
        ({"a": -math.inf}, "$.data.a: expected a finite float, got -inf"),
        ({"a": np.int64(1)}, "of type int64"),
        ({"a": b"x"}, "of type bytes"),
        ({"a": {1: 2}}, "$.data.a: expected keys of type str, got 1 of type int"),
        ({"a b": {2}}, "$.data['a b']: expected None, a bool, int"),
        ({"a": np.zeros((2, 2))}, "'float64' of shape (2, 2)"),
        ({"a": np.array(["x"])}, "expected a one-dimensional array of bool, float64, int64"),
        ({"a": np.array([0.0, -math.inf])}, "$.data.a[1]: expected finite floats, got -inf"),
        ({"a": np.array([math.inf, 0.0])}, "$.data.a[0]: expected finite floats, got inf"),
        ({"a": np.array([0, 9], dtype=np.uint8).view(bool)}, "expected the bytes 0 and 1, got 9"),
        ([1], "expected a dict and the name of its kind, got [1] and 'x'"),
    ],
)
def test_what_has_no_written_form_is_refused_by_place(structure, message):
    with pytest.raises(StateError, match=re.escape(message)):
        pack(structure, kind="x")


def nested(depth):
    """A dict of lists of dicts …, so many inside one another."""
    value = {} if depth % 2 else []
    for level in range(depth - 1, 0, -1):
        value = {"a": value} if level % 2 else [value]
    return value


def test_depth_is_bounded_on_both_sides():
    deepest = nested(64)
    assert unpack(pack(deepest, kind="x"), kind="x") == deepest
    with pytest.raises(StateError, match="nest more than 64 deep"):
        pack(nested(65), kind="x")
    cycle = {}
    cycle["cycle"] = [cycle]
    with pytest.raises(StateError, match="nest more than 64 deep"):
        pack(cycle, kind="x")
    far = 1_000_000  # which the parser must not get: it would need as deep a stack
    closed = ((b"[" * 64, b"]" * 64), (b'{"a":' * 64, b"1" + b"}" * 64))
    for head, tail in (*closed, (b"[" * far, b""), (b'["x\\\\",{"\\"":' * far, b"")):
        with pytest.raises(StateError, match="the header nests lists and dicts"):
            unpack(forge(b'{"data":{"a":' + head + tail + b'},"kind":"x"}'), kind="x")
    # Brackets inside strings are text, also behind escaped quotes and backslashes.
    texts = {"a": "[" * 99, 'q"' + "{" * 99: "\\", "b": '\\"' + "[" * 99, "c": "\\\\"}
    assert unpack(pack(texts, kind="x"), kind="x") == texts


def test_a_caller_near_its_recursion_limit_gets_a_state_error():
    data = pack(nested(60), kind="x")

    def at_depth(levels):
        return at_depth(levels - 1) if levels else unpack(data, kind="x")

    seen = set()
    # Less is not enough to make the error in.
    for room in range(12, 60):
        depth = 0
        frame = sys._getframe()
        while frame is not None:
            depth, frame = depth + 1, frame.f_back
        try:
            at_depth(sys.getrecursionlimit() - depth - room)
        except StateError as error:
            seen.add(str(error))
    assert seen == {"the header nests too deeply for the stack that is left"}


def test_limits_of_the_header_hold_on_both_sides(monkeypatch):
    structure = {"a": [[], {}, "x,[{", 1]}
    data = pack(structure, kind="x")
    # 3 lists and tables more, 5 commas.
    for limit, most, message in (
        ("MAX_VALUES", 8, "more than 8 values"),
        ("MAX_HEADER_BYTES", 41, "the header has 42 bytes; at most 41 are allowed"),
    ):
        monkeypatch.setattr(codec, limit, most)
        for refused in (partial(unpack, data), partial(pack, structure)):
            with pytest.raises(StateError, match=message):
                refused(kind="x")
        monkeypatch.setattr(codec, limit, most + 1)
        assert unpack(pack(structure, kind="x"), kind="x") == structure


def test_limits_do_not_depend_on_where_the_text_is_cut_for_counting(monkeypatch):
    def least(data, name, most):
        """The least limit with which it is read."""
        with monkeypatch.context() as limits:
            for limit in range(1, most):
                limits.setattr(codec, name, limit)
                with contextlib.suppress(StateError):
                    return limit, unpack(data, kind="x")
        raise AssertionError("never read")

    rng = random.Random(1)
    for _ in range(20):
        text = "".join(rng.choice('"\\[]{},:a') for _ in range(20))
        structure = {text: [text, nested(rng.randrange(1, 9)), {text: [1, [text]]}, []]}
        data = pack(structure, kind="x")
        for name in ("MAX_DEPTH", "MAX_VALUES"):
            monkeypatch.undo()
            whole = least(data, name, 99)
            monkeypatch.setattr(codec, "_CHUNK", rng.randrange(1, 9))
            assert least(data, name, 99) == whole == (whole[0], structure)


# What cannot be read


def header(text, area=b"", **wrong):
    return forge(b'{"data":{' + text + b'},"kind":"x"}', area, **wrong)


GOOD = pack({"a": np.array([1, 2]), "b": 1}, kind="x")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\3\4", r"not a streameval state file; it begins with b'PK\x03\x04'"),
        (GOOD.replace(b"\r\n", b"\n"), "looks changed by a transfer in text mode"),
        (GOOD.decode("latin-1").encode(), "looks changed by a transfer in text mode"),
        (GOOD[:31], "ends after 31 bytes, within its first part of 32: it is cut off"),
        (GOOD[:100], f"ends after 100 bytes; its first part promises {len(GOOD)}: it is cut off"),
        (GOOD + b"\n", f"has {len(GOOD) + 1} bytes; its first part promises {len(GOOD)}: 1 bytes"),
        (header(b"", version=7)[:20], "newer streameval (format 7); this one reads up to 3: upgra"),
        (header(b"", version=0), "byte 16: expected a format of at least 1, got 0"),
        (header(b"", header_length=2**32 - 1), f"byte 20: a header of {2**32 - 1} bytes does not"),
        (forge(b"{}", padding=b"\0\0\0\0\1\0"), "bytes 34 to 40: expected zeros"),
        (header(b'"a":1,"a":2'), "byte 45: the header is not in its one written form (keys sort"),
        (header(b'"a":1.50'), "shortest text of a number) at b'0}"),
        (
            header(b'"a":1e999'),
            "is not JSON that can be read: Number out of range",
        ),
        (header(b'"a":["$int:7fffffffffffffff"]'), "$.data.a[0]: '$int:7fffffffffffffff' is not"),
        (header(b'"$a":1'), "$.data['$a']: expected '$$', '$int:'"),
        (header(b'"a":"$array:int64:2:0"', bytes(8)), "2 values of int64 from byte 80 on need 16"),
        (
            header(b'"a":"$array:int64:1152921504606846976:0"', bytes(8)),
            "$.data.a: expected '$array:' dtype",
        ),
        (
            header(b'"a":"$array:int64:1:0","b":"$array:int64:1:0"', bytes(16)),
            "$.data.b: its array begins at byte 104; the one before it ends at 112: arrays lie in",
        ),
        (
            header(b'"a":"$array:int64:1:0","b":"$array:int64:1:16"', bytes(24)),
            "$.data.b: its array begins at byte 120; the one before it ends at 112",
        ),
        (header(b'"a":"$array:uint8:1:0"', b"\1\0\0\0\0\0\0\1"), "bytes 81 to 88: expected zeros"),
        (header(b"", bytes(8)), "bytes 56 to 64 belong to no array that the header names"),
        (header(b'"a":"$array:bool:2:0"', b"\1\2" + bytes(6)), "$.data.a[1]: expected the bytes 0"),
        (memoryview(GOOD)[::2], "expected bytes, got "),
    ],
)
def test_what_is_wrong_is_said_and_where(data, message):
    with pytest.raises(StateError, match=re.escape(message)) as caught:
        unpack(data, kind="x")
    assert len(str(caught.value)) < 300


def test_refusals_need_no_memory():
    million = pack({"scores": np.arange(10**6) / 7, "b": 1}, kind="x")
    length = int.from_bytes(million[20:24], "little")
    larger = million[32 : 32 + length].replace(b":1000000:", b":9999999:")
    forged = [
        header(b'"a":"$array:int64:100000000000000000:0"', bytes(8)),
        header(b"", header_length=2**32 - 1),
        million + b"x",
        million[:4_000_000] + b"x" + million[4_000_001:],
        forge(larger, bytes(8**7)),
    ]
    for data in forged:
        tracemalloc.start()
        try:
            with pytest.raises(StateError):
                unpack(data, kind="x")
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()


# Memory and ownership of the arrays


def test_arrays_of_bytes_are_views_and_of_anything_else_copies():
    structure = {name: np.ones(3, dtype=name) for name in DTYPES} | {"none": np.zeros(0)}
    data = pack(structure, kind="x")
    shifted = memoryview(b"-" + data)[1:]
    whole = np.frombuffer(data, np.uint8)
    for source, shared in ((data, True), (memoryview(data), True), (bytearray(data), False)):
        back = unpack(source, kind="x")
        for name in DTYPES:
            assert np.shares_memory(back[name], whole) is shared
    for source in (data, memoryview(data), bytearray(data), shifted):
        for array in unpack(source, kind="x").values():
            assert array.flags.aligned
            assert not array.flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 0


# Compressed around the bytes of the state


@relaxed(max_examples=40)
@given(
    st.dictionaries(st.text(max_size=3), arrays()),
    st.sampled_from([None, {"contents": ["ab" * 16], "shards": []}]),
)
def test_compressed_bytes_are_those_that_were_packed(data, provenance):
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


def test_small_states_and_random_bytes_are_written_as_they_are():
    small = pack({"counts": np.zeros(100)}, kind=KIND)
    assert compressed(small) is small
    random = pack({"raw": np.random.default_rng(1).integers(0, 256, 9_000, np.uint8)}, kind=KIND)
    assert compressed(random) is random


@pytest.mark.parametrize("shards", [False, True])
def test_the_shards_of_a_file_are_read_alone(tmp_path, shards):
    rng = np.random.default_rng(1)
    ev = se.Evaluator().update_many(rng.random(2_000) < 0.3, score=rng.random(2_000))
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
def test_every_bit_of_compressed_files_flipped(data):
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


def bomb(declared):
    """A small stream of 40 MB."""
    return repacked(BOMB, declared, bytes(32))


def test_a_bomb_is_refused_in_bounded_memory(tmp_path):
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


def test_a_state_is_compressed_once():
    packed = pack({"counts": np.zeros(1_000)}, kind=KIND)
    inner = compressed(packed)
    padded = inner[:-32] + bytes(-len(inner) % 8)
    twice = repacked(zlib.compress(padded), len(padded) + 32, bytes(32))
    with pytest.raises(StateError, match="it holds no state"):
        unpack_one_of(twice, (KIND,))


def test_the_header_is_read_from_a_file_in_pieces():
    provenance = {"contents": [f"{n:032x}" for n in range(9_000)], "shards": []}
    packed = pack({}, kind=KIND, provenance=provenance)
    file = io.BytesIO(compressed(packed))
    file.seek(32)
    header, version = inflated_header(file)
    assert (header, version) == (packed[32 : 32 + len(header)], 2)
    assert len(header) == int.from_bytes(packed[20:24], "little")
