"""A configuration file becomes settings, and settings become a text again.

A file is read as TOML, ``--set KEY=VALUE`` is applied to it, and the result is converted to
:class:`RunSettings` and checked. Every error names the key.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import tomli_w
from msgspec import inspect

from streameval.errors import ConfigError, InputError, shown
from streameval.events.time import duration_text
from streameval.service.config.checks import check_settings
from streameval.service.config.errors import inside, type_error, types_of
from streameval.service.config.evaluators import ahead_limit
from streameval.service.config.secrets import hidden
from streameval.service.config.settings import (
    LONGEST_AHEAD,
    DurationOrZero,
    RunSettings,
    parsed,
)
from streameval.service.config.source_settings import HttpSettings

_LARGEST = 1 << 20

_NEST = 16
"""Deepest key: no setting is half as deep."""


def load_settings(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> RunSettings:
    """The settings in a TOML file under ``KEY=VALUE`` overrides; raises ConfigError."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            data = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "; streameval init writes one" if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(f"{name}: expected a configuration file, got {reason}{remedy}") from None
    if len(data) > _LARGEST:
        raise ConfigError(
            f"{name}: expected a file of at most {_LARGEST:,} bytes, got a larger one"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}: expected UTF-8 text, got other bytes in line {line}") from None
    return settings_from_text(text, name, overrides)


def settings_from_text(
    text: str,
    name: str = "configuration",
    overrides: Sequence[str] = (),
    check: Callable[[RunSettings], None] = check_settings,
) -> RunSettings:
    """The settings in a TOML text, as :func:`load_settings`; ``check`` is of more than types."""
    try:
        data = tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: expected TOML, got a fault: {error}") from None
    except RecursionError:
        raise ConfigError(f"{name}: expected TOML nested less deeply") from None
    given = [_apply(override, data) for override in overrides]
    try:
        settings = _converted(data)
        if not settings.sources:
            settings = msgspec.structs.replace(settings, http=HttpSettings())
        check(settings)
    except InputError as error:
        key = error.field
        overridden = any(key == one or key.startswith((f"{one}.", f"{one}[")) for one in given)
        raise ConfigError(f"{'--set' if overridden else name}: {error}") from None
    except msgspec.ValidationError as error:  # of a key that looks like a path of msgspec's
        raise ConfigError(f"{name}: {shown(str(error))}") from None
    return _with_ahead(settings)


def _with_ahead(settings: RunSettings) -> RunSettings:
    """The settings with a default for ``fields.ahead``."""
    if settings.fields.ahead is not None:
        return settings
    limit, longest = ahead_limit(settings), LONGEST_AHEAD.us
    ahead = longest if limit is None else min(limit.ahead_us, longest)
    text = DurationOrZero(duration_text(ahead))
    fields = msgspec.structs.replace(settings.fields, ahead=text)
    return msgspec.structs.replace(settings, fields=fields)


def _converted(data: Mapping[str, Any]) -> RunSettings:
    try:
        return msgspec.convert(data, RunSettings, dec_hook=parsed)
    except msgspec.ValidationError as error:
        with suppress(LookupError, StopIteration):
            raise type_error(error, data, inspect.type_info(RunSettings)) from None
        raise


def resolved(settings: RunSettings) -> str:
    """Settings as a TOML text with all defaults filled in and secrets hidden."""
    return "\n".join(_table(msgspec.to_builtins(settings, enc_hook=str), "")).strip() + "\n"


def _table(table: Mapping[str, Any], key: str) -> Iterator[str]:
    """A table's lines: plain keys first, then the tables in it."""
    dot = f"{key}." if key else ""
    for name, value in table.items():
        if value is None:
            yield f"# {name} is not set"
        elif not _tables(value):
            yield tomli_w.dumps({name: hidden(f"{dot}{name}", value)}).rstrip("\n")
    for name, value in table.items():
        header = f"[{dot}{name}]" if isinstance(value, dict) else f"[[{dot}{name}]]"
        for one in _tables(value):
            yield f"\n{header}"
            yield from _table(one, f"{dot}{name}")


def _tables(value: Any) -> list[dict[str, Any]]:
    """The tables that a value is or holds."""
    items = value if isinstance(value, list) else [value]
    return [one for one in items if isinstance(one, dict)]


def _apply(override: str, data: dict[str, Any]) -> str:
    """Put an override into what a file holds; returns its key, as errors write it."""
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
        if _is(kind, inspect.DictType):
            # A property's name has dots of its own.
            name, names = ".".join([name, *names]), []
        if isinstance(target, list):
            index = int(name) if name.isascii() and name.isdecimal() and len(name) < 6 else -1
            if not 0 <= index < len(target):
                raise ConfigError(
                    f"--set: {written}: expected a number below {len(target)}, one for each there "
                    f"is, got {shown(name)}"
                )
            written += f"[{index}]"
            step: Any = index
        elif isinstance(target, dict):
            written += f".{name}" if written else name
            step = name
        else:
            raise ConfigError(f"--set: {written}: expected no key inside it, got {shown(name)}")
        kind = inside(kind, name)
        if not names:
            target[step] = _value(text.strip(), kind, written)
            return written
        if isinstance(target, dict):
            # If the file has no such table, the next name is a key of a new one.
            if _is(kind, inspect.ListType) and target.get(step, []) == []:
                raise _no_list(kind, written, empty=step in target)
            target.setdefault(step, {})
        target = target[step]


def _no_list(kind: Any, key: str, *, empty: bool) -> ConfigError:
    remedy = f"set all of it: '{key}=[…]'"
    if _is(types_of(kind)[0].item_type, inspect.StructType):
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


def _is(kind: Any, *wanted: type) -> bool:
    """Whether a value can be of one type only, and of these; None aside."""
    kinds = [] if kind is None else types_of(kind)
    return len(kinds) == 1 and isinstance(kinds[0], wanted)


def _value(text: str, kind: Any, key: str) -> Any:
    """A value as TOML has it; what is no TOML, or is meant as text, is text."""
    texts = (inspect.StrType, inspect.LiteralType, inspect.CustomType)
    if text[:1] not in ('"', "'", "[", "{") and _is(kind, *texts):
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
