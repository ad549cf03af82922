"""Damaged and forged state files: StateError and nothing else, for any bytes."""

import random
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streameval.errors import StateError
from streameval.state_files.codec import encode_header, unpack
from tests.crash.fuzz_state_file import KIND, SOUND, case, check, forge, sealed

KINDLESS = b'{"data":{},"kind":"example","provenance":%b}'
BY_HAND = [
    b"",
    b"\xef\xbf\xbdstreameval\r\n\x1a\n",
    forge(b"\xff"),
    forge(b"[]"),
    forge(b'{"data":{},"kind":"$array:int64:0:0"}'),
    forge(b'{"data":[],"kind":"example"}'),
    *(
        forge(KINDLESS % provenance, version=2)
        for provenance in (
            b"[]",
            b'{"contents":1,"shards":[]}',
            b'{"contents":[],"shards":[]}',
            b'{"a":"$array:int64:0:0"}',
            b'{"contents":[],"more":[]}',
            b'{"contents":[],"shards":[["a"]]}',
            b'{"contents":[],"shards":[["b",0,0,1],["a",0,0,1]]}',
        )
    ),
    forge(b'{"data":{"a":9223372036854775808},"kind":"example"}'),
    forge(b'{"data":{"$array:int64:0:0":1},"kind":"example"}'),
    forge(b'{"data":{"a":"$array:bool:1:0"},"kind":"example"}', b"\2" + bytes(7)),
    forge(b'{"data":{"a":"$array:float64:1:0"},"kind":"example"}', b"\xff" * 8),
    forge(b"", bytes([255] * 8), version=3, header_length=zlib.crc32(b"")),
]


def test_forged_files_are_refused_by_both_readers():
    assert all(map(check, BY_HAND))
    outcomes = [check(case(random.Random(seed))) for seed in range(8_000)]
    assert outcomes.count(None) > 300  # some changes are harmless, and then both readers agree
    assert len({text[:9] for text in outcomes if text}) > 20


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
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_any_tree_behind_a_true_checksum(data, area):
    try:
        header = encode_header({"data": data, "kind": KIND})
    except ValueError:
        return  # an infinite float
    check(forge(header, area))


@pytest.mark.parametrize("data", SOUND[1:4] + SOUND[5:7], ids=[*"stapq"])
def test_every_bit_flipped_and_cut_at_every_byte(data):
    accepted = 0
    for position in range(len(data)):
        with pytest.raises(StateError, match=r"^is empty$|cut off$"):
            unpack(data[:position], kind=KIND)
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(StateError):
                unpack(bytes(flipped), kind=KIND)
            # With the checksum repaired it may be sound: a letter of a key, a digit of a number.
            if position < len(data) - 32:
                accepted += check(sealed(bytes(flipped[:-32]))) is None
    assert accepted > 0
