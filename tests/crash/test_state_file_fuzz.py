"""Damaged and forged state files: StateError and nothing else, for any bytes."""

import random
import zlib
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streameval.errors import StateError
from streameval.state_files.codec import encode_header, pack, unpack, unpack_one_of
from tests.crash.fuzz_state_file import KIND, SOUND, case, check, forge, sealed

relaxed = partial(settings, suppress_health_check=[HealthCheck.too_slow])

# One piece of every message that bytes alone can bring about.
REASONS = [
    "is empty",
    "not a streameval state file; it begins with",
    "transfer in text mode",
    "written by a newer streameval",
    "expected a format of at least 1",
    "within its first part",
    "it is cut off",
    "bytes too many",
    "does not fit into the",
    "the checksum at byte",
    "expected zeros between two parts",
    "is not JSON that can be read: JSON is malformed",
    "is not JSON that can be read: Input data was truncated",
    "codec can't decode",
    "out of range",
    "more than 64 deep",
    "not in its one written form (keys",
    "with the keys 'data' and 'kind' only",
    "with the keys 'data', 'kind' and 'provenance' only",
    "expected an object as 'data' and a text as 'kind'",
    "expected an object as 'provenance'",
    "provenance: expected contents and shards",
    "provenance: expected lists",
    "provenance: expected 32 digits of base 16",
    "provenance: expected a shard's name, epoch and sequences",
    "provenance: expected sorted contents and shards",
    "provenance: expected a content or a shard",
    "holds the state of kind",
    "belong to no array",
    "expected an int beyond 64 bits",
    "where a text begins with '$'",
    " is not in its one written form",
    "expected a text as a key",
    "expected '$array:' dtype",
    "without gap or overlap",
    "are there",
    "expected finite floats",
    "expected the bytes 0 and 1",
    "expected a text, got an array",
    "the compressed part from byte 40 on",
    "bytes, uncompressed; at most",
]

BY_HAND = [
    b"",
    b"\xef\xbf\xbdstreameval\r\n\x1a\n",
    forge(b"\xff"),
    forge(b"[]"),
    forge(b'{"data":{},"kind":"$array:int64:0:0"}'),
    forge(b'{"data":[],"kind":"example"}'),
    forge(b'{"data":{},"kind":"example","provenance":[]}', version=2),
    forge(b'{"data":{},"kind":"example","provenance":{"contents":1,"shards":[]}}', version=2),
    forge(b'{"data":{},"kind":"example","provenance":{"contents":[],"shards":[]}}', version=2),
    forge(b'{"data":{},"kind":"example","provenance":{"a":"$array:int64:0:0"}}', version=2),
    forge(b'{"data":{},"kind":"example","provenance":{"contents":[],"more":[]}}', version=2),
    forge(b'{"data":{},"kind":"example","provenance":{"contents":[],"shards":[["a"]]}}', version=2),
    forge(
        b'{"data":{},"kind":"example","provenance":{"contents":[],'
        b'"shards":[["b",0,0,1],["a",0,0,1]]}}',
        version=2,
    ),
    forge(b'{"data":{"a":9223372036854775808},"kind":"example"}'),
    forge(b'{"data":{"$array:int64:0:0":1},"kind":"example"}'),
    forge(b'{"data":{"a":"$array:bool:1:0"},"kind":"example"}', b"\2" + bytes(7)),
    forge(b'{"data":{"a":"$array:float64:1:0"},"kind":"example"}', b"\xff" * 8),
    forge(b"", bytes([255] * 8), version=3, header_length=zlib.crc32(b"")),
]


def test_forged_files_are_refused_by_both_readers_for_every_reason():
    cases = [*BY_HAND, *(case(random.Random(seed)) for seed in range(8_000))]
    outcomes = [check(data) for data in cases]
    refusals = {outcome for outcome in outcomes if outcome is not None}
    assert outcomes.count(None) > 300  # some changes are harmless, and then both readers agree
    missing = [reason for reason in REASONS if not any(reason in text for text in refusals)]
    assert not missing
    unknown = [text for text in refusals if not any(reason in text for reason in REASONS)]
    assert not unknown


JSON_TEXTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["$int:8000000000000000", "$int:7", "$text:eda080", "$array:int64:1:0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("$ab:", max_size=3), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), JSON_TEXTS, max_size=4), st.binary(max_size=16))
@relaxed(max_examples=200)
def test_any_tree_behind_a_true_checksum(data, area):
    try:
        header = encode_header({"data": data, "kind": KIND})
    except ValueError:
        return  # an infinite float
    check(forge(header, area))


@pytest.mark.parametrize("data", SOUND[1:4] + SOUND[5:7], ids=[*"stapq"])
def test_every_bit_flipped(data):
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(StateError):
                unpack(bytes(flipped), kind=KIND)


@pytest.mark.parametrize("data", SOUND[1:4] + SOUND[5:7], ids=[*"stapq"])
def test_every_bit_flipped_and_the_checksum_repaired(data):
    accepted = 0
    for position in range(len(data) - 32):
        for bit in range(8):
            flipped = bytearray(data[:-32])
            flipped[position] ^= 1 << bit
            accepted += check(sealed(bytes(flipped))) is None
    assert accepted > 0  # a letter of a key, a digit, a bit of a number: another sound file


@pytest.mark.parametrize("data", SOUND, ids=range(len(SOUND)))
def test_cut_at_every_byte(data):
    for length in range(len(data)):
        with pytest.raises(StateError, match=r"^is empty$|cut off$"):
            unpack(data[:length], kind=KIND)
        if length != len(data) - 32:
            assert check(sealed(data[:length]))
    _, state, provenance, *_ = unpack_one_of(data, (KIND,))
    assert pack(state, kind=KIND, provenance=provenance) == data
