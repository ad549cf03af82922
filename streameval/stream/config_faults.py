"""What is wrong with a configuration file, with the name of the key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

from msgspec import inspect

from streameval.errors import ConfigError, InputError, OptionError, shown
from streameval.stream.secret_values import is_secret

__all__ = ["Places", "TypeFault", "near", "type_fault", "type_words"]

_WORDS: Mapping[type, str] = {
    inspect.StrType: "text",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true or false",
    inspect.ListType: "a list",
    inspect.DictType: "a table",
    inspect.StructType: "a table",
}

_PYTHON: Mapping[type, tuple[type, ...]] = {
    inspect.StrType: (str,),
    inspect.IntType: (int,),
    inspect.FloatType: (float, int),
    inspect.BoolType: (bool,),
    inspect.ListType: (list,),
    inspect.DictType: (dict,),
    inspect.StructType: (dict,),
}

_OTHERWISE = {
    ("window", "last"): "use length (panes of time) or half_life (fading): which events are "
    "the last of several partitions depends on how they are read",
    ("window", "n"): "use length or half_life",
    ("", "windows"): "write [[window]] for each",
    ("", "alerts"): "write [[alert]] for each",
}


@dataclass(frozen=True, slots=True)
class Places:
    """Words every error of one configuration alike.

    Args:
        name: The file's.
        overridden: Keys that the command line gave.
    """

    name: str
    overridden: tuple[str, ...] = ()

    def error(self, key: str, *, expected: str, got: str, remedy: str = "") -> ConfigError:
        """One line: file, key, expected, got, and what to do.

        >>> print(Places("run.toml").error("join.hot", expected="a whole number", got="'5'"))
        run.toml: join.hot: expected a whole number, got '5'
        """
        return self._error(InputError(key, expected=expected, got=got, remedy=remedy))

    def requires(self, key: str, other: str, *, remedy: str = "") -> ConfigError:
        """One line: file, key, the key that it requires, and what to do.

        >>> print(Places("run.toml").requires("fields.label.id", "[join]"))
        run.toml: fields.label.id requires [join]
        """
        return self._error(OptionError.requires(key, other, remedy=remedy))

    def conflicts(self, key: str, other: str, *, remedy: str = "") -> ConfigError:
        """One line: file, key, the key that it conflicts with, and what to do.

        >>> print(Places("run.toml").conflicts("window[0].half_life", "window[0].length"))
        run.toml: window[0].half_life conflicts with window[0].length
        """
        return self._error(OptionError.conflicts(key, other, remedy=remedy))

    def _error(self, error: InputError) -> ConfigError:
        key = error.field
        given = any(
            key == name or key.startswith((f"{name}.", f"{name}[")) for name in self.overridden
        )
        return ConfigError(f"{'--set' if given else self.name}: {error}")


class TypeFault(NamedTuple):
    """The first value that is of another type than its key's."""

    key: str
    expected: str
    got: str
    remedy: str = ""


def near(name: str, names: Iterable[str]) -> str:
    """``did you mean this?``, where a name is nearly one of others; or nothing.

    >>> near("wiat", ["wait", "remember"]), near("foo", ["wait"])
    ('did you mean wait?', '')
    """
    found = get_close_matches(name, list(names), n=1)
    return f"did you mean {found[0]}?" if found else ""


def type_words(kind: Any) -> str:
    """A type as people call it.

    >>> from msgspec.inspect import type_info
    >>> type_words(type_info(int | None)), type_words(type_info(list[str]))
    ('a whole number', 'a list of texts')
    """
    if isinstance(kind, inspect.UnionType):
        parts = [type_words(one) for one in kind.types if not isinstance(one, inspect.NoneType)]
        return " or ".join(dict.fromkeys(parts))
    if isinstance(kind, inspect.LiteralType):
        return f"one of {', '.join(map(str, kind.values))}"
    if isinstance(kind, inspect.ListType):
        inner = kind.item_type
        several = {inspect.StrType: "texts", inspect.IntType: "whole numbers"}.get(type(inner))
        return f"a list of {several}" if several else "a list"
    return _WORDS[type(kind)]


def type_fault(kind: Any, value: Any, key: str = "") -> TypeFault | None:
    """The first thing in a value that does not fit a type of :mod:`msgspec.inspect`."""
    if isinstance(kind, inspect.UnionType):
        faults = [type_fault(one, value, key) for one in kind.types]
        if None in faults:
            return None
        # The one that looks inside says most: a list with one bad value in it.
        inner = [fault for fault in faults if fault is not None and fault.key != key]
        return inner[0] if inner else TypeFault(key, type_words(kind), _got(value, key))
    if isinstance(kind, inspect.NoneType):
        return TypeFault(key, "nothing", _got(value, key))
    if isinstance(kind, inspect.LiteralType):
        if type(value) is str and value in kind.values:
            return None
        hint = near(value, map(str, kind.values)) if isinstance(value, str) else ""
        return TypeFault(key, type_words(kind), _got(value, key), hint)
    if type(value) not in _PYTHON[type(kind)]:
        return TypeFault(key, type_words(kind), _got(value, key))
    if isinstance(kind, inspect.StructType):
        return _struct_fault(kind, value, key)
    if isinstance(kind, inspect.ListType):
        inside = ((kind.item_type, item, f"{key}[{n}]") for n, item in enumerate(value))
    elif isinstance(kind, inspect.DictType):
        inside = ((kind.value_type, item, f"{key}.{name}") for name, item in value.items())
    else:
        return None
    return next(filter(None, (type_fault(*one) for one in inside)), None)


def _struct_fault(kind: inspect.StructType, value: dict[str, Any], key: str) -> TypeFault | None:
    fields = {field.encode_name: field for field in kind.fields}
    dot = f"{key}." if key else ""
    for name, item in value.items():
        field = fields.get(name)
        if field is None:
            where = f"a key of {key}" if key else "a table or key of a run"
            hint = _OTHERWISE.get((key.partition("[")[0], name)) or near(name, fields)
            return TypeFault(
                f"{dot}{name}", f"{where} ({', '.join(fields)})", f"the unknown {name!r}", hint
            )
        fault = type_fault(field.type, item, f"{dot}{name}")
        if fault is not None:
            return fault
    for name, field in fields.items():
        if field.required and name not in value:
            return TypeFault(f"{dot}{name}", type_words(field.type), "nothing")
    return None


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
