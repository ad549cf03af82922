"""Tallies that will hardly change again, as compact bytes in memory.

A live tally of a few label pairs takes some kilobytes of dicts and lists;
frozen it takes about a hundred bytes, so that ten thousand slices of several
hundred panes fit. Never written to disk: the state file has its own format.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from streameval.tally import Plan, Tally

__all__ = ["freeze", "thaw"]

_ARRAYS = {1: "int64", 2: "float64", 3: "bool", 4: "uint8"}
_CODES = {np.dtype(name): code for code, name in _ARRAYS.items()}
_BIG_INT = 5


def _plain(value: Any) -> Any:
    """Python ints beyond 64 bits as text; everything else as it is."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return msgspec.msgpack.Ext(_BIG_INT, str(value).encode())
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _array(value: Any) -> Any:
    return msgspec.msgpack.Ext(_CODES[value.dtype], value.tobytes())


def _restored(code: int, data: memoryview) -> Any:
    if code == _BIG_INT:
        return int(bytes(data))
    return np.frombuffer(bytes(data), dtype=_ARRAYS[code])


_encoder = msgspec.msgpack.Encoder(enc_hook=_array)
_decoder = msgspec.msgpack.Decoder(ext_hook=_restored)


def freeze(tally: Tally) -> bytes:
    """The tally as bytes for :func:`thaw` of the same process."""
    state = tally.to_state()
    try:
        return _encoder.encode(state)
    except OverflowError:
        # The encoder asks its hook about what it does not know, not about large ints.
        return _encoder.encode(_plain(state))


def thaw(data: bytes, plan: Plan) -> Tally:
    """The tally that was frozen."""
    return Tally.from_state(_decoder.decode(data), plan)
