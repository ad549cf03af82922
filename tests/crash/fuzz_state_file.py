"""Endless damaged and forged state files, read by streameval and by the second reader.

    python -m tests.crash.fuzz_state_file --seconds 60 [--seed 0]

Each case is given to streameval and to the independent reader. streameval may
raise nothing but StateError; both accept or both refuse; what is accepted
means the same to both and packs to the same bytes again. So it is with the
provenance, and with what is one.
"""

import hashlib
import random
import time
import zlib
from collections import Counter

import numpy as np
import typer

from streameval.errors import StateError
from streameval.state_files.codec import compressed, pack, unpack_one_of
from streameval.state_files.provenance import Provenance
from tests.support.read_state import check_provenance, expanded, read_parts

KIND = "example"
MAGIC = b"\x89streameval\r\n\x1a\n\x00"

STRUCTURES = [
    {},
    {"total": 3, "threshold": 0.5, "closed": None, "exact": True},
    {"labels": ["a", "b,c", '"', "\\", "é", "$", "$int:5", "\ud800", ""], "wins": 2**64, "$x": -1},
    {
        "hits": np.array([True, False, True]),
        "raw": np.arange(5, dtype=np.uint8),
        "scores": np.array([-1.5, 0.0, 1e300]),
        "weights": np.array([1, 2, -3]),
        "zero": np.zeros(0),
    },
    {"slices": [{"state": {"counts": np.arange(3), "sums": [-(2**200), 1e-7, 1e22, -0.0]}}] * 2},
]

PROVENANCES = [
    {"contents": ["00" * 16, "7f" * 16], "shards": []},
    {
        "contents": [],
        "shards": [["$x", 0, 1, 2], ["eu-1", 0, 0, 2**63 - 1], ["eu-1", 2, 0, 5, 7, 9]],
    },
    {"contents": ["ab" * 16], "shards": [["é/1", 7, 0, 1000]]},
]

FRAGMENTS = [
    b'["eu-1",2,0,5,7,9]', b'["eu-1",2,0,5,5,9]', b'["eu-1",2,9,5]', b'["eu-1",2]', b"[true,0,0,1]",
    b'"AB"', b'"contents":[],', b'"provenance":{}', b'"shards":[]',
    b"[" * 70 + b"]" * 70, b'{"a":' * 70 + b"1" + b"}" * 70, b"[" * 2000,
    b'"$int:10000000000000000"', b'"$int:-ff"', b'"$int:"', b'"$int:0x1"',
    b'"$int:1_0000000000000000"', b'"$text:eda080"', b'"$text:61"', b'"$text:zz"',
    b'"$text:ED A0 80"', b'"$array:int64:0:0"', b'"$array:int64:1:0"',
    b'"$array:float64:999999999999999999:0"', b'"$array:bool:3:0"', b'"$array:uint8:5:8"',
    b'"$array:int64:-1:0"', b'"$array:int64:01:0"', b'"$array:object:1:0"', b'"$array:int64:1:8"',
    b'"$array:float64:2:0"', b'"$array"', b'"$what"', b'"$"', b'"$$"', b"NaN", b"Infinity",
    b"-Infinity", b"1e999", b"1E5", b"1.50", b"-0", b"-0.0", b"01", b"1.", b".5", b"1e+16",
    b"10000000000000000.0", b"9223372036854775807", b"9223372036854775808",
    b"-9223372036854775808", b"9" * 5000, b'"\\ud800"', b'"\\u0041"', b'"\\u0000"',
    b'"\xed\xa0\x80"', b'"\xff"', b'"\x00"', b"true", b"null", b" ", b"\n", b",", b":", b'"',
    b"{", b"}", b"[", b"]", b"\\", b"$", b"{}", b"[]", b'""', b'"data":{},', b'"kind":"example"',
    b'"kind":7', b'"a":1,', b'"$$a":1,', b'"$text:eda080":1,', b'"$array:int64:0:0":1,', b"\x89",
    b"\xef\xbb\xbf", b"5e-324", b"0.1", b"1e-05", b"0.00001",
]  # fmt: skip


def forge(header, area=b"", *, version=1, header_length=None, total=None, padding=None):
    """A file whose lengths and checksum are right unless others are given."""
    if padding is None:
        padding = bytes(-len(header) % 8)
    body = header + padding + area
    first = MAGIC + version.to_bytes(4, "little")
    first += (len(header) if header_length is None else header_length).to_bytes(4, "little")
    first += (32 + len(body) + 32 if total is None else total).to_bytes(8, "little")
    return sealed(first + body)


def sealed(body):
    """Bytes with the checksum that belongs to them."""
    return body + hashlib.sha256(body).digest()


def parts(data):
    """Header and array area of a sound file."""
    length = int.from_bytes(data[20:24], "little")
    return data[32 : 32 + length], data[32 + length + -length % 8 : -32]


def mutated(rng, data):
    """One to three small changes: a bit, a run cut, doubled, moved or replaced, a fragment."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(data) + 1)
        to = min(len(data), at + rng.choice((1, 1, 2, 4, 8, 16, 40)))
        way = rng.randrange(7)
        if way == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif way == 1:
            del data[at:to]
        elif way == 2:
            data[at:at] = data[at:to]
        elif way == 3:
            data[at:to] = rng.randbytes(to - at)
        elif way == 4:
            data[at:at] = rng.choice(FRAGMENTS)
        elif way == 5:
            data[at:to] = rng.choice(FRAGMENTS)
        else:  # a whole value replaced, so that the text stays JSON
            begin = data.find(b":", at) + 1
            ends = [end for end in (data.find(b",", begin), data.find(b"}", begin)) if end >= 0]
            data[begin : min(ends, default=begin)] = rng.choice(FRAGMENTS)
    return bytes(data)


def case(rng):
    """One damaged or forged file."""
    data = rng.choice(SOUND)
    header, area = parts(data)
    way = rng.randrange(14)
    if way in (0, 1):
        return MAGIC * way + rng.randbytes(rng.randrange(200))
    if way == 2:
        return mutated(rng, data)
    if way == 3:
        return sealed(mutated(rng, data[:-32]))
    if way == 4:
        numbers = (0, 1, 2, 7, 8, 1000, 2**31, 2**32 - 1, len(header) + 1, len(data), 2**63)
        name = rng.choice(("version", "header_length", "total"))
        most = 2**64 - 1 if name == "total" else 2**32 - 1
        return forge(header, area, **{name: min(most, rng.choice((*numbers, 2**64 - 1)))})
    if way == 5:
        return forge(header, mutated(rng, area))
    if way == 6:
        padding = rng.choice((rng.randbytes(-len(header) % 8), bytes(rng.randrange(17))))
        return forge(header, area, padding=padding)
    if way == 7:
        return forge(header, rng.choice((b"", area + bytes(8), area[8:], area * 2, area[:-8])))
    if way == 8:
        return mutated(rng, rng.choice(COMPRESSED))
    if way == 9:
        packed = rng.choice(COMPRESSED)
        length = int.from_bytes(packed[32:40], "little")
        if rng.random() < 0.5:  # a sound stream, of anything
            stream = zlib.compress(mutated(rng, data[:-32]))
            return repacked(stream, rng.choice((len(data), len(data) + 8)), data[-32:])
        lengths = (length, length, length + 8, length - 8, 0, 31, 32, 64, 10**6, 2**63, 2**64 - 1)
        return repacked(mutated(rng, packed[40:-32]), rng.choice(lengths), packed[-32:])
    return forge(mutated(rng, header), area)


def repacked(stream, length, checksum):
    """A compressed file whose sum and length are right."""
    first = MAGIC + (3).to_bytes(4, "little") + zlib.crc32(stream).to_bytes(4, "little")
    first += (40 + len(stream) + 32).to_bytes(8, "little") + length.to_bytes(8, "little")
    return first + stream + checksum


def text_of(value):
    """One text for equal structures only: 1, True, 1.0 and -0.0 differ; arrays as read_state's."""
    if isinstance(value, np.ndarray):
        value = value.dtype.name, value.tolist()
    if isinstance(value, tuple):
        return f"{value[0]}{value[1]!r}"
    if isinstance(value, list):
        return "[" + ",".join(map(text_of, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{text_of(value[key])}" for key in sorted(value)) + "}"
    # Python refuses the repr of very large integers.
    return hex(value) if type(value) is int else repr(value)


def check(data):
    """The refusal of a file, or None where it is sound; AssertionError where readers differ."""
    try:
        kind, expected, parts = read_parts(data)
        refused = kind != KIND
        if parts is not None and not refused:
            check_provenance(parts)
    except ValueError:
        refused = True
    try:
        _, got, found, *_ = unpack_one_of(data, (KIND,))
        if found is not None:
            found = Provenance.from_data(found).to_data()
        refusal = None
    except StateError as error:
        refusal = str(error)
    assert refused == (refusal is not None), f"one reader refuses alone: {refusal}"
    if refusal is None:
        assert text_of(got) == text_of(expected)
        assert (found is None) == (parts is None)
        assert found is None or text_of(found) == text_of(parts)
        assert pack(got, kind=KIND, provenance=found) == expanded(data)
    else:
        assert len(refusal) < 600
    return refusal


SOUND = [pack(structure, kind=KIND) for structure in STRUCTURES]
SOUND += [
    pack(structure, kind=KIND, provenance=provenance)
    for structure, provenance in zip(STRUCTURES[1:4], PROVENANCES, strict=True)
]

COMPRESSED = [
    compressed(pack(structure, kind=KIND, provenance=provenance), least=0)
    for structure, provenance in [
        ({"counts": np.arange(300), "raw": np.zeros(7, np.uint8)}, None),
        ({"a": "é" * 200, "sums": [{"counts": np.zeros(9)}]}, PROVENANCES[0]),
        ({"none": ["b"] * 90}, None),
    ]
]


def main(seconds: float = 10.0, seed: int = 0):
    end = time.monotonic() + seconds
    outcomes = Counter()
    first = seed
    while time.monotonic() < end:
        data = case(random.Random(seed))
        try:
            outcomes["refused" if check(data) else "sound"] += 1
        except BaseException:
            print(f"seed {seed}: {data!r}")
            raise
        seed += 1
    print(f"seeds {first} to {seed - 1}: {dict(outcomes)}")


if __name__ == "__main__":
    typer.run(main)
