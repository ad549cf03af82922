"""Made of the settings' types: the file to start from, the list of keys, the JSON schema."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import NODEFAULT, inspect

from streameval.service.config import settings
from streameval.service.config.errors import types_of
from streameval.windows.kinds import KINDS

_COLUMNS = 88

_HEAD = """\
# The configuration of `streameval run`. A line that begins with "#" and no space is
# a setting that is off: remove the "#" to switch it on. Check the file with
#
#     streameval run CONFIG.toml --check
#
# Durations are texts: "500ms", "90s", "5m", "1h", "7d", "2w". Secrets need not be
# in this file: "env:NAME" is a variable of the environment, "file:PATH" the text
# in a file.

"""

_SECTIONS = {
    "evaluator": "What is evaluated",
    "window": "Windows",
    "fields": "The fields of a record",
    "files": "Sources of records: any of these, together or alone",
    "join": "Labels that arrive later",
    "checkpoint": "How it runs",
    "alert": "Alerts",
}
"""Headings, by the table that they stand before."""

_SHOWN = {"evaluator", "fields", "http", "join", "checkpoint", "quarantine", "serve"}
"""Tables that are on; all lines of every other table are off."""

_ON = {
    *("store", "evaluator.task", "evaluator.positive", "evaluator.threshold", "fields.id"),
    *("fields.y_true", "fields.score", "join.wait", "serve.listen"),
}
"""Keys whose lines are on."""

_MORE = {
    "alert": """\
#[[alert]]
#name = "f1-fell"
#metric = "f1"
#below = -0.02
#window = "hour"
#against = "previous"

#[[alert]]
#name = "many-bad"
#metric = "quarantine"
#above = 0.01
#per = "10m"
"""
}
"""Further examples of a table."""


class Key(NamedTuple):
    """A key that a configuration may have."""

    path: str
    """With its table, as ``join.wait``; a table in a list has no number."""
    field: Any
    about: str
    examples: list[Any]

    @property
    def name(self) -> str:
        """The name in its table."""
        return str(self.field.encode_name)

    @property
    def default(self) -> Any:
        """The default; None where the key is required or not set."""
        if self.field.default_factory is not NODEFAULT:
            return self.field.default_factory()
        found = None if self.field.required else self.field.default
        return None if found is NODEFAULT else found


def keys_of(kind: Any, path: str = "") -> Iterator[Key]:
    """The keys of a table, in their order, without the tables in it."""
    for field in kind.fields:
        if table_in(field.type) is None:
            extra = getattr(field.type, "extra_json_schema", None) or {}
            key = f"{path}.{field.encode_name}" if path else field.encode_name
            yield Key(key, field, extra.get("description", ""), extra.get("examples") or [])


def tables_of(kind: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The tables in a table and in these, by their paths."""
    for field in kind.fields:
        if (table := table_in(field.type)) is not None:
            key = f"{path}.{field.encode_name}" if path else field.encode_name
            yield key, table
            yield from tables_of(table, key)


def table_in(kind: Any) -> Any:
    """The table that a key's value is, or a list has; None for a plain key."""
    for one in types_of(kind):
        inner = types_of(one.item_type)[0] if isinstance(one, inspect.ListType) else one
        if isinstance(inner, inspect.StructType):
            return inner
    return None


def configuration_keys() -> list[Key]:
    """Every key of a configuration, by tables."""
    whole = inspect.type_info(settings.RunSettings)
    found = list(keys_of(whole))
    return found + [key for path, table in tables_of(whole) for key in keys_of(table, path)]


def template() -> str:
    """The file that ``streameval init`` writes: every key with its description."""
    whole = inspect.type_info(settings.RunSettings)
    parts = [_HEAD, *_key_lines(keys_of(whole))]
    for path, table in tables_of(whole):
        if path in _SECTIONS:
            parts.append(f"\n\n# --- {_SECTIONS[path]} ".ljust(_COLUMNS, "-") + "\n")
        on = path in _SHOWN
        parts.append("\n" + _comment(_about(table)))
        if path == "window":
            parts += _windows(table)
            continue
        is_list = any(key.name == "name" for key in keys_of(table, path))
        header = f"[[{path}]]" if is_list else f"[{path}]"
        parts.append(("" if on else "#") + header + "\n")
        plain = [key for key in keys_of(table, path) if not _is_table(key)]
        parts += _key_lines(plain, off=not on)
        for key in keys_of(table, path):
            if _is_table(key):
                parts += ["\n", _comment(key.about), f"#[{key.path}]\n"]
                given = key.examples[0].items()
                parts += [f"#{_bare(name)} = {_toml(value)}\n" for name, value in given]
        if path in _MORE:
            parts.append("\n" + _MORE[path])
    return "".join(parts)


def _windows(table: Any) -> Iterator[str]:
    """A ``[[window]]`` for each kind, the keys of any window in the first."""
    known = {key.name: key for key in keys_of(table, "window")}
    common = [known[name] for name in settings.KEYS_OF_ANY_WINDOW if name != "name"]
    name = _comment(known["name"].about)
    for kind in KINDS.values():
        if kind.sample is None:
            continue
        mark = "" if kind.sample.on else "#"
        yield f"\n{_comment(kind.sample.about)}{mark}[[window]]\n"
        yield f'{name}{mark}name = "{kind.sample.name}"\n'
        for key in kind.keys:
            off = mark or ("" if key.name in kind.steps else "#")
            yield f"{_comment(key.about)}{off}{key.name} = {_toml(key.example)}\n"
        yield from _key_lines(common, off=True)
        # These are described once.
        common, name = [], ""


def _key_lines(keys: Any, *, off: bool = False) -> Iterator[str]:
    """The description and the line of each key; without an example in it there is no line."""
    for key in keys:
        yield _comment(key.about)
        value = key.examples[0] if key.examples else key.default
        if value not in (None, [], {}):
            mark = "" if key.path in _ON and not off else "#"
            yield f"{mark}{key.name} = {_toml(value)}\n"


def _is_table(key: Key) -> bool:
    """Whether a key's value is a table of free names."""
    return [type(one) for one in types_of(key.field.type)] == [inspect.DictType]


def _about(table: Any) -> str:
    return (table.cls.__doc__ or "").partition("\n\n")[0]


def _comment(text: str) -> str:
    # Code is kept on one line.
    whole = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", "\0"), " ".join(text.split()))
    lines = textwrap.wrap(whole, _COLUMNS - 2, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines).replace("\0", " ")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_bare(key)} = {_toml(one)}' for key, one in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _bare(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name) else json.dumps(name)


def json_schema() -> dict[str, Any]:
    """The JSON schema of a configuration, for editors of TOML."""
    found = _schema(inspect.type_info(settings.RunSettings))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def _schema(kind: Any) -> dict[str, Any]:
    match kind:
        case inspect.Metadata():
            return _schema(kind.type) | dict(kind.extra_json_schema or {})
        case inspect.UnionType():
            kinds = [_schema(one) for one in types_of(kind)]
            return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        case inspect.LiteralType():
            return {"enum": list(kind.values)}
        case inspect.ListType():
            return {"type": "array", "items": _schema(kind.item_type)}
        case inspect.DictType():
            return {"type": "object", "additionalProperties": _schema(kind.value_type)}
        case inspect.IntType():
            return {"type": "integer"} | ({} if kind.ge is None else {"minimum": kind.ge})
        case inspect.StructType():
            keys = {key.name: key for key in keys_of(kind)}
            properties = {field.encode_name: _schema(field.type) for field in kind.fields}
            for name, key in keys.items():
                if key.default is not None:
                    properties[name]["default"] = key.default
            return {
                "type": "object",
                "description": _about(kind),
                "properties": properties,
                "required": [field.encode_name for field in kind.fields if field.required],
                "additionalProperties": False,
            }
    names: dict[type, str] = {inspect.BoolType: "boolean", inspect.FloatType: "number"}
    return {"type": names.get(type(kind), "string")}
