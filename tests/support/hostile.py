"""Records that cannot be counted: malformed, oversized, nested, truncated, badly encoded."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

_OVERSIZED = (1 << 20) + 1


def good(number: int) -> bytes:
    """A record that counts, complete with its label."""
    return json.dumps(_record(number)).encode()


def _record(number: int) -> dict[str, Any]:
    return {
        "id": f"g{number}",
        "y_true": number % 3 == 0,
        "score": number % 97 / 100,
        "time": "2026-01-01T00:00:00Z",
        "country": "PT",
    }


def _with(key: str, *values: str) -> Callable[[random.Random], bytes]:
    """A good record, but for one value that is written as it stands here."""

    def make(rng: random.Random) -> bytes:
        fields = {name: json.dumps(value) for name, value in _record(0).items()}
        # A good record of this id must not make it harmless.
        fields["id"] = f'"bad{rng.randrange(10**9)}"'
        fields[key] = rng.choice(values)
        return ("{" + ", ".join(f'"{name}": {text}' for name, text in fields.items()) + "}").encode(
            errors="surrogatepass"
        )

    return make


def _noise(rng: random.Random) -> bytes:
    return b"\x01" + rng.randbytes(rng.randrange(1, 300)).replace(b"\n", b"\x02")


def _cut(rng: random.Random) -> bytes:
    body = good(rng.randrange(10**9))
    return body[: rng.randrange(1, len(body))]


def _not_utf8(rng: random.Random) -> bytes:
    body = good(rng.randrange(10**9))
    place = body.index(b'"g') + 2
    return (
        body[:place] + rng.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\x80"]) + body[place:]
    )


def _deep(rng: random.Random) -> bytes:
    depth = rng.choice([10, 500, 2_000, 50_000])
    opening = rng.choice(["[", '{"a":'])
    closing = "]" if opening == "[" else "}"
    nested = opening * depth + "1" + rng.choice(["", closing * depth])
    return rng.choice([nested, f'{{"id": "n", "score": {nested}, "time": 5}}']).encode()


def _other_json(rng: random.Random) -> bytes:
    return rng.choice(
        [b"1", b"null", b'"text"', b"[]", b"{}", b"true", b"\xef\xbb\xbf{}", b"{},{}"]
    )


_LONG = '"' + "x" * 2_000 + '"'

_KINDS: tuple[Callable[[random.Random], bytes], ...] = (
    _noise,
    _cut,
    _not_utf8,
    _deep,
    _other_json,
    lambda rng: b"\0" * rng.randrange(1, 50),
    _with("time", '"yesterday"', '"2026-01-01T00:00:00"', "[]", '"9999-12-31T23:59:59Z"', _LONG),
    _with("time", "9" * 40, '"2026-13-45T00:00:00Z"', "true", '""'),
    _with("y_true", "7", '"maybe"', "[true]", "{}", "0.5", "-1"),
    _with("id", "[1]", "{}", "1.5", "true", _LONG, '"\\ud800"', '"\\x41"'),
)

# What is wrong with a prediction, while a label has no use for it.
_OF_PREDICTIONS = (
    _with("score", '"high"', "NaN", "Infinity", "-Infinity", "1e999", "[]", "{}", "0x1", "1_0"),
    _with("score", "9" * 400, "1e", "--1", "01", ".5", "true"),
    _with("country", "[]", "{}", '"(missing)"', _LONG, "0.5"),
)


def hostile(seed: int, count: int, *, oversized: int = 5, labels: bool = False) -> Iterator[bytes]:
    """So many of them, without line breaks, some too long; with ``labels`` bad as labels too."""
    rng = random.Random(seed)
    kinds = _KINDS if labels else _KINDS + _OF_PREDICTIONS
    large = {rng.randrange(count) for _ in range(oversized)}
    for number in range(count):
        if number in large:
            yield b'{"id": "' + b"x" * _OVERSIZED + b'"}'
        else:
            yield rng.choice(kinds)(rng)
