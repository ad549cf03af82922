"""Settings as text again: every key with its value, and no secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from streameval.stream.secret_values import HIDDEN, hidden_url, is_secret
from streameval.stream.settings import RunSettings

__all__ = ["resolved"]

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def resolved(settings: RunSettings) -> str:
    """Settings as a TOML text with all defaults filled in and secrets hidden.

    Keys that are not set are there as comments. Hidden are tokens, the address
    of the webhook but for its host, and those properties of Kafka whose names
    sound like a secret's or whose values are taken from elsewhere.

    >>> print(resolved(RunSettings()).splitlines()[0])
    store = "streameval.db"
    """
    plain = msgspec.to_builtins(settings)
    return "\n".join(_table(plain, "", "")).strip() + "\n"


def _table(table: dict[str, Any], header: str, key: str) -> Iterator[str]:
    """A table's lines: plain keys first, then the tables in it."""
    if header:
        yield ""
        yield header
    inner: list[tuple[str, Any]] = []
    for name, value in table.items():
        path = f"{key}.{name}" if key else name
        if isinstance(value, dict) or (isinstance(value, list) and _are_tables(value)):
            inner.append((name, value))
        elif value is None:
            yield f"# {_key(name)} is not set"
        else:
            yield f"{_key(name)} = {_value(value, path)}"
    for name, value in inner:
        path = f"{key}.{name}" if key else name
        if isinstance(value, dict):
            yield from _table(value, f"[{path}]", path)
            continue
        for one in value:
            yield from _table(one, f"[[{path}]]", path)


def _are_tables(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(one, dict) for one in value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any, path: str) -> str:
    if path == "webhook.url" and not str(value).startswith(("env:", "file:")):
        return _text(hidden_url(value))
    if is_secret(path, value):
        return _text(HIDDEN)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return f"[{', '.join(_value(one, path) for one in value)}]"
    return repr(value)  # numbers, inf and nan included, are written alike


def _text(value: str) -> str:
    # A basic string of TOML has the escapes of JSON; and a control character
    # that JSON leaves alone it refuses.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
