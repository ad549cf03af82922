"""``--set KEY=VALUE``: keys of a configuration, given on the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from msgspec import inspect

from streameval.errors import ConfigError, shown
from streameval.stream.settings import RunSettings

__all__ = ["applied"]

_NEST = 16
"""Deepest key: no setting is half as deep."""


def applied(overrides: Sequence[str], data: dict[str, Any]) -> tuple[str, ...]:
    """Put overrides into what a file holds; the keys that were given, as errors write them.

    Raises:
        ConfigError: No ``KEY=VALUE``, or a key that leads nowhere.

    >>> data = {"window": [{"name": "all"}]}
    >>> applied(["join.wait=6h", "window.0.length=1h", "join.hot=10"], data)
    ('join.wait', 'window[0].length', 'join.hot')
    >>> data
    {'window': [{'name': 'all', 'length': '1h'}], 'join': {'wait': '6h', 'hot': 10}}
    """
    return tuple(_apply(override, data) for override in overrides)


def _apply(override: str, data: dict[str, Any]) -> str:
    key, equals, text = override.partition("=")
    names = _names(key.strip())
    if not equals or not names:
        # The text may be a secret that was typed without its key.
        raise ConfigError("--set: expected KEY=VALUE, as join.wait=6h, got no key with a value")
    kind: Any = inspect.type_info(RunSettings)
    target: Any = data
    written = ""
    while True:
        name = names.pop(0)
        if isinstance(_plain(kind), inspect.DictType):
            # A property's name has dots of its own.
            name, names = ".".join([name, *names]), []
        if isinstance(target, list):
            place = int(name) if name.isascii() and name.isdecimal() and len(name) < 6 else -1
            if not 0 <= place < len(target):
                raise ConfigError(
                    f"--set: {written}: expected a number below {len(target)}, one for each there "
                    f"is, got {shown(name)}"
                )
            written += f"[{place}]"
            step: Any = place
        elif isinstance(target, dict):
            written += f".{name}" if written else name
            step = name
        else:
            raise ConfigError(f"--set: {written}: expected no key inside it, got {shown(name)}")
        kind = _inside(kind, name)
        if not names:
            target[step] = _value(text.strip(), kind, written)
            return written
        if isinstance(target, dict):
            # Where the file has no such table, the next name is a key of a new one.
            if isinstance(_plain(kind), inspect.ListType) and target.get(step, []) == []:
                raise _no_list(kind, written, empty=step in target)
            target.setdefault(step, {})
        target = target[step]


def _no_list(kind: Any, key: str, *, empty: bool) -> ConfigError:
    """There is no list to set a part of; what to do instead."""
    remedy = f"set all of it: '{key}=[…]'"
    if isinstance(_plain(kind).item_type, inspect.StructType):
        whole = f"{key}=[{{KEY = VALUE, …}}, …]"
        remedy = f"write each [[{key}]] in the file, or set all of them: '{whole}'"
    got = "an empty one" if empty else "none"
    return ConfigError(f"--set: {key}: expected a list to set a part of, got {got}; {remedy}")


def _names(key: str) -> list[str]:
    """The parts of a dotted key, which may be quoted as in TOML."""
    if "\n" in key or not key:
        return []
    try:
        found: Any = tomllib.loads(f"{key} = 0")
    except (tomllib.TOMLDecodeError, RecursionError):
        return []
    names: list[str] = []
    while isinstance(found, dict) and len(found) == 1 and len(names) < _NEST:
        name, found = next(iter(found.items()))
        names.append(name)
    return names if found == 0 else []


def _plain(kind: Any) -> Any:
    """A type without its None."""
    if isinstance(kind, inspect.UnionType):
        others = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
        return others[0] if len(others) == 1 else kind
    return kind


def _inside(kind: Any, name: str) -> Any:
    kind = _plain(kind)
    if isinstance(kind, inspect.StructType):
        found = [field.type for field in kind.fields if field.encode_name == name]
        return found[0] if found else None
    if isinstance(kind, inspect.ListType):
        return kind.item_type
    return kind.value_type if isinstance(kind, inspect.DictType) else None


def _value(text: str, kind: Any, key: str) -> Any:
    """A value as TOML has it; what is no TOML, or is meant as text, is text."""
    if text[:1] not in ('"', "'", "[", "{") and isinstance(
        _plain(kind), (inspect.StrType, inspect.LiteralType)
    ):
        return text
    if "\n" not in text:
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            value = None
        if isinstance(value, (str, int, float, list, dict)):
            return value
    if text[:1] in ('"', "'", "[", "{"):
        raise ConfigError(f"--set: {key}: expected a value as in TOML, got one that does not end")
    return text
