"""Errors in a configuration: one line with the file, the key, and expected and got."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

from streameval.errors import InputError, did_you_mean, shown
from streameval.service.config.secrets import is_secret

_WORDS: Mapping[type, str] = {
    inspect.StrType: "text",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true or false",
    inspect.ListType: "a list",
    inspect.DictType: "a table",
    inspect.StructType: "a table",
    inspect.CustomType: "text",
}

_OTHERWISE = {
    ("window", "last"): "use length (panes of time) or half_life (fading): which events are "
    "the last of several partitions depends on how they are read",
    ("window", "n"): "use length or half_life",
    ("", "windows"): "write [[window]] for each",
    ("", "alerts"): "write [[alert]] for each",
}

_PATH = re.compile(r" - at `\$([^`]*)`\Z")
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_GOT = re.compile(r", got `(\w+)`")


def types_of(kind: Any) -> list[Any]:
    """The types that a value may have, without None and without their descriptions."""
    if isinstance(kind, inspect.Metadata):
        return types_of(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [inner for one in kind.types for inner in types_of(one)]
    return [] if isinstance(kind, inspect.NoneType) else [kind]


def type_words(kind: Any) -> str:
    """A type in words."""
    if len(kinds := types_of(kind)) > 1:
        return " or ".join(dict.fromkeys(map(type_words, kinds)))
    kind = kinds[0]
    if isinstance(kind, inspect.LiteralType):
        if len(kind.values) == 1:
            return f'"{kind.values[0]}"'
        return f"one of {', '.join(map(str, kind.values))}"
    if isinstance(kind, inspect.ListType):
        inner = types_of(kind.item_type)[0]
        names: dict[type, str] = {inspect.StrType: "texts", inspect.IntType: "whole numbers"}
        several = names.get(type(inner))
        return f"a list of {several}" if several else "a list"
    return _WORDS[type(kind)]


def inside(kind: Any, name: str) -> Any:
    """The type of a table's key or of a list's items; None where the type has none."""
    for one in types_of(kind):
        if isinstance(one, inspect.StructType):
            return next((field.type for field in one.fields if field.encode_name == name), None)
        if isinstance(one, inspect.ListType):
            return one.item_type
        if isinstance(one, inspect.DictType):
            return one.value_type
    return None


def type_error(error: msgspec.ValidationError, data: Mapping[str, Any], kind: Any) -> InputError:
    """The error of msgspec.convert(data, kind), with key, expected, got and remedy."""
    text = str(error)
    key = ""
    value: Any = data
    path = _PATH.search(text)
    for name, index in _STEP.findall(path[1] if path else ""):
        step: Any = name or index
        if index == "...":
            step = _offending(value, text)
        elif index:
            step = int(index)
        key += f"[{index}]" if isinstance(value, list) else f".{step}" if key else step
        kind, value = inside(kind, step), value[step]
    unknown = "Object contains unknown field" in text
    if unknown or "Object missing required field" in text:
        return _key_error(kind, value, key, unknown=unknown)
    if isinstance(cause := error.__cause__, InputError):  # raised by what parses the value
        return InputError(key, expected=cause.expected, got=cause.got, remedy=cause.remedy)
    literals = [one for one in types_of(kind) if hasattr(one, "values")]
    remedy = did_you_mean(value, literals[0].values) if literals and type(value) is str else ""
    expected = type_words(kind)
    numbers = [one for one in types_of(kind) if isinstance(one, inspect.IntType)]
    if numbers and type(value) is int:
        number = _WORDS[inspect.IntType]
        expected = expected.replace(number, f"{number} of at least {numbers[0].ge}")
    return InputError(key, expected=expected, got=_got(value, key), remedy=remedy)


def _offending(table: Mapping[str, Any], text: str) -> str:
    """The first key whose value has the type that msgspec reports; it names no keys of tables."""
    found = _GOT.search(text)
    names: dict[type, str] = {list: "array", dict: "object"}
    types = {key: names.get(type(value), type(value).__name__) for key, value in table.items()}
    return next(key for key, name in types.items() if found and name == found[1])


def _key_error(kind: Any, table: Mapping[str, Any], key: str, *, unknown: bool) -> InputError:
    struct = next(one for one in types_of(kind) if isinstance(one, inspect.StructType))
    fields = {field.encode_name: field for field in struct.fields}
    dot = f"{key}." if key else ""
    if not unknown:
        name = next(name for name, one in fields.items() if one.required and name not in table)
        return InputError(f"{dot}{name}", expected=type_words(fields[name].type), got="nothing")
    name = next(name for name in table if name not in fields)
    where = f"a key of {key}" if key else "a table or key of a run"
    return InputError(
        f"{dot}{name}",
        expected=f"{where} ({', '.join(fields)})",
        got=f"the unknown {name!r}",
        remedy=_OTHERWISE.get((key.partition("[")[0], name)) or did_you_mean(name, fields),
    )


def _got(value: Any, key: str) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (str, int, float)):
        return "a date or time"
    if is_secret(key, value):
        return "text" if isinstance(value, str) else "a number"
    return shown(value)
