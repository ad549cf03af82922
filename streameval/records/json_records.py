"""JSON records, of lines and of messages: the columns of their fields, and the errors of bad ones.

Compiled code reads plain records. The other ones are decoded by msgspec, which stops at
the first error of a record; the standard library's parser then finds its field and value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from streameval.errors import InputError, did_you_mean, shown
from streameval.events.values import LabelColumn, factorised, is_missing
from streameval.records.blocks import Block, Readable, line_blocks
from streameval.records.chunk import (
    EXPECTED,
    MISSING,
    SEPARATE,
    BadRecords,
    Chunk,
    FieldRequest,
    Kind,
    RecordError,
    checked_chunk,
)
from streameval.records.event_columns import (
    Column,
    EventColumns,
    joined,
    label_sets,
    probability_columns,
)
from streameval.records.json_array import RecordLines, explained
from streameval.states.backend import compiled

if TYPE_CHECKING:
    from streameval.records.native.native_json import NativeRecords

Values: TypeAlias = list[Any] | npt.NDArray[Any]
"""Of a field: with None for a missing one, or an array of floats or booleans without any."""

CANNOT_DECODE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of a decoder at a record that is not of its shape."""

_TYPES: dict[Kind, Any] = {
    "label": int | str | bool | float,
    "labels": list[int | str | bool | float],
    "part": int | str | bool | float | list[int | str | bool | float],
    "indicator": bool | float,
    "flag": bool,
    "number": float,
    "weight": float,
    "probability": float | dict[str, float],
    "probabilities": dict[str, float],
    "time": int | float | str,
    "slice": int | str | bool | float,
    "id": int | str,
}


def read_jsonl(
    stream: Readable, source: str, fields: Sequence[FieldRequest], *, first_line: int = 1
) -> Iterator[Chunk]:
    """Chunks of about a megabyte of lines, or records of an array; blank lines are ignored."""
    decoder = JsonDecoder(fields)
    records = RecordLines(stream, source)
    for block in line_blocks(records if first_line == 1 else stream, first_line=first_line):
        bad = BadRecords()
        events = decoder.read_lines(block, source, bad)
        if bad.first and bad.first[0].place == 1:
            bad.first[0] = explained(bad.first[0], records.head)
        yield checked_chunk(source, fields, events, bad)


def jsonl_fields(stream: Readable, source: str) -> list[str]:
    """The fields of the first record; raises InputError where there is none."""
    records = RecordLines(stream, source)
    for block in line_blocks(records):
        for line in filter(bytes.strip, block.data.split(b"\n")):
            record = read_object(line)
            if isinstance(record, RecordError):
                record = explained(record._replace(remedy="", remedy_code=""), records.head)
                raise record.input_error(source)
            return list(record)
    raise InputError(source, expected="records, for the names of their fields", got="none")


class JsonDecoder:
    """Decodes the wanted fields of records; if ``optional``, each may be missing or null."""

    __slots__ = ("_compiled", "_decoder", "_getters", "_optional", "_type", "fields")

    def __init__(self, fields: Sequence[FieldRequest], *, optional: bool = False) -> None:
        self.fields = tuple(fields)
        self._optional = optional
        self._type, self._getters = _record_shape(self.fields, optional)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self._type)
        self._compiled = _compiled_reader(self.fields, optional)

    def read_lines(self, block: Block, source: str, bad: BadRecords) -> EventColumns:
        """The columns of a block's good records, by their lines."""
        first = block.first_line
        if block.overlong:
            got = f"one of {block.overlong:,} bytes"
            bad.add(RecordError("record", "a line of at most 4 MiB", got).at(source, first))
            return self._events([], range(0))
        whole = EventColumns({}, range(0))
        others: Sequence[int] = range(block.lines)
        if self._compiled is not None:
            columns, others = self._compiled.read_lines(block.data)
            named = zip(self.fields, columns, strict=True)
            lines: Any = range(first, first + block.lines)
            if others:
                lines = np.delete(np.arange(first, first + block.lines), others)
                if len(others) > len(lines):  # its work is lost in most lines
                    self._compiled = None
            whole = EventColumns({one.column: _coded(values) for one, values in named}, lines)
            if not others:
                return whole
        elif is_utf8(block.data):
            try:
                records = self._decoder.decode_lines(block.data)
            except CANNOT_DECODE:
                pass
            else:
                # As many records as lines: none is blank, none holds two.
                if len(records) == block.lines:
                    return self._events(records, range(first, first + len(records)))
        texts = block.data.split(b"\n")
        good: dict[int, Any] = {}
        for row in others:
            line = texts[row]
            if not line or line.isspace():
                continue
            record = self.read(line)
            if isinstance(record, RecordError):
                bad.add(record.at(source, first + row))
            else:
                good[first + row] = record
        rest = self._events([*good.values()], np.fromiter(good, np.int64, len(good)))
        if not whole.rows:
            return rest
        events = joined([whole, rest])
        return events.select(np.argsort(np.asarray(events.places)))

    def _events(self, records: list[Any], lines: Any) -> EventColumns:
        columns: dict[str, Column] = {}
        for one, get in zip(self.fields, self._getters, strict=True):
            values = list(map(get, records))
            if one.kind in ("label", "slice"):
                columns[one.column] = _label_values(values)
            elif one.kind == "labels":
                columns[one.column] = label_sets(values, one.separator)
            elif one.kind in ("time", "id"):
                columns[one.column] = values
            elif one.kind in ("probability", "probabilities"):
                columns[one.column] = probability_columns(values)
            else:
                columns[one.column] = np.fromiter(values, np.float64, len(values))
        return EventColumns(columns, lines)

    def read_messages(self, messages: list[bytes]) -> tuple[list[Values], dict[int, RecordError]]:
        """The values of each field, None for a bad message, and the errors by message."""
        if self._compiled is None:
            return self._read_messages(messages)
        found: list[Values]
        found, others = self._compiled.read(messages)
        if not found:
            return self._read_messages(messages)
        if not others:
            return found, {}
        rest, errors = self._read_messages([messages[row] for row in others])
        for values, more in zip(found, rest, strict=True):
            for row, value in zip(others, more, strict=True):
                values[row] = value
        return found, {others[n]: error for n, error in errors.items()}

    def _read_messages(self, messages: list[bytes]) -> tuple[list[Values], dict[int, RecordError]]:
        """The same without compiled code: all at once, or one by one where one is bad."""
        try:
            if b"".join(messages).isascii() or all(map(is_utf8, messages)):
                records = list(map(self._decoder.decode, messages))
                return [list(map(get, records)) for get in self._getters], {}
        except CANNOT_DECODE:
            pass
        errors: dict[int, RecordError] = {}
        found: list[Values] = [[None] * len(messages) for _ in self.fields]
        for row, message in enumerate(messages):
            record = self.read(message)
            if isinstance(record, RecordError):
                errors[row] = record
                continue
            for values, get in zip(found, self._getters, strict=True):
                values[row] = get(record)
        return found, errors

    def read(self, message: bytes) -> Any | RecordError:
        """One record, or its first error."""
        if is_utf8(message):
            try:
                return self._decoder.decode(message)
            except CANNOT_DECODE:
                pass
        # Python writes NaN and Infinity, which JSON does not have, and halves of surrogate pairs:
        # in another field they do not make the record bad.
        record = read_object(message)
        if isinstance(record, RecordError):
            return record
        for one in self.fields:
            if self._optional and one.kind != "slice" and not plain_fields(record, [one]):
                continue
            error = error_in_field(record, one)
            if error is not None:
                return RecordError(*error[:7], one.column)
        try:
            return msgspec.convert(plain_fields(record, self.fields), self._type)
        except msgspec.ValidationError:
            return RecordError("record", "numbers of a usual size", "one that is too large")


def _compiled_reader(fields: Sequence[FieldRequest], optional: bool) -> NativeRecords | None:
    """None where nothing is compiled, or a field is of a kind that is not."""
    module = compiled("streameval.records.native.native_json")
    if module is None or len({one.path for one in fields}) < len(fields):
        return None
    plain = [
        (split_path(one.path), one.kind, not optional and one.kind != "slice") for one in fields
    ]
    return module.NativeRecords(plain) if module.NativeRecords.takes(plain) else None


def _coded(values: Any) -> Column:
    return LabelColumn(*values) if isinstance(values, tuple) else values


def _label_values(values: list[Any]) -> Column:
    """Numbers of one type as an array, text by its distinct values, a mixture as it is."""
    kinds = set(map(type, values))
    if kinds == {bool}:
        return np.fromiter(values, np.bool_, len(values))
    if kinds == {int}:
        try:
            return np.fromiter(values, np.int64, len(values))
        except OverflowError:
            return values
    if str in kinds and kinds <= {str, NoneType}:
        return LabelColumn(*factorised(values))
    return values


@lru_cache(256)  # called for every field of a bad record
def split_path(path: str) -> tuple[str, ...]:
    r"""The names along the path of a field; ``\.`` is a dot of a name."""
    names = re.split(r"(?<!\\)\.", path)
    if not all(names):
        raise InputError("path", expected="names joined by dots", got=repr(path))
    return tuple(name.replace("\\.", ".") for name in names)


def is_utf8(data: bytes) -> bool:
    """Whether bytes are text in UTF-8; decoders skip unwanted text unchecked."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _record_shape(
    fields: Sequence[FieldRequest], optional: bool
) -> tuple[Any, list[Callable[[Any], Any]]]:
    """A type with the wanted fields only, and a getter of each: other fields are not decoded."""
    tree: dict[str, Any] = {}
    for one in fields:
        names = split_path(one.path)
        branch = tree
        for name in names[:-1]:
            branch = branch.setdefault(name, {})
            if not isinstance(branch, dict):
                raise _clash(one)
        leaf = one.kind, one.shares, one.separator
        if branch.setdefault(names[-1], leaf) != leaf:
            raise _clash(one)
    return _struct(tree, optional), [_getter(tree, split_path(one.path)) for one in fields]


def _clash(field: FieldRequest) -> InputError:
    return InputError(
        field.path,
        expected="a field of its own",
        got=f"one that is also read as another kind than {field.kind}",
    )


def _getter(tree: dict[str, Any], names: tuple[str, ...]) -> Callable[[Any], Any]:
    steps = []
    for name in names:
        steps.append(f"f{list(tree).index(name)}")
        tree = tree[name]
    return attrgetter(".".join(steps))


def _struct(tree: dict[str, Any], optional: bool) -> Any:
    # gc=False: records hold no cycles, and the collector would walk a million of them.
    fields = []
    for number, (name, inner) in enumerate(tree.items()):
        default: dict[str, Any] = {}
        if isinstance(inner, dict):
            kind = _struct(inner, optional)
            # An empty object instead of a missing one, so that getters do not fail.
            if optional or _only_slices(inner):
                default = {"default_factory": kind}
        else:
            kind = _type(*inner)
            if optional or inner[0] == "slice":
                kind, default = kind | None, {"default": None}
        fields.append((f"f{number}", kind, msgspec.field(name=name, **default)))
    return msgspec.defstruct("Record", fields, gc=False)


def _type(kind: Kind, shares: int | None, separator: str | None) -> Any:
    if separator is not None:
        return _TYPES[kind] | str
    if shares is None:
        return _TYPES[kind]
    length = msgspec.Meta(min_length=shares, max_length=shares)
    return _TYPES[kind] | Annotated[list[float], length]


def value_decoder(field: FieldRequest) -> msgspec.json.Decoder[Any]:
    """A decoder of the values of one field, where each is a text of its own."""
    return msgspec.json.Decoder(_type(field.kind, field.shares, field.separator))


def error_in_text(text: str, field: FieldRequest) -> RecordError:
    """The error of a text that :func:`value_decoder` rejects."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if not isinstance(value, str):
        error = _error_in_value(value, field)
        if error is not None:
            return error
    got = f"the text {shown(text)}" if text else "nothing"
    if field.kind == "labels" and not text.startswith("["):
        remedy = MISSING[field.kind] if not text else SEPARATE
        return RecordError(
            field.path, _expected(field), got, remedy, "label_separator" if text else ""
        )
    example = '["a", "b"]' if field.kind == "labels" else "[0.25, 0.75]"
    remedy = f"write it as JSON, with commas: {example}" if text.startswith("[") else ""
    return RecordError(field.path, _expected(field), got, remedy)


def _expected(field: FieldRequest) -> str:
    also = f", or a list of {field.shares}" if field.shares else ""
    return EXPECTED[field.kind] + also


def wrong_length(field: FieldRequest, length: int) -> RecordError:
    """The error of a list of so many probabilities."""
    expected = f"a list of {field.shares} probabilities, one for each label"
    return RecordError(field.path, expected, str(length))


def _only_slices(tree: dict[str, Any]) -> bool:
    return all(
        _only_slices(inner) if isinstance(inner, dict) else inner[0] == "slice"
        for inner in tree.values()
    )


def plain_fields(record: dict[str, Any], fields: Sequence[FieldRequest]) -> dict[str, Any]:
    """The object with its wanted fields only, and without nulls."""
    plain: dict[str, Any] = {}
    for field in fields:
        *path, last = split_path(field.path)
        value: Any = record
        for name in (*path, last):
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            branch = plain
            for name in path:
                branch = branch.setdefault(name, {})
            branch[last] = value
    return plain


def read_object(line: bytes) -> dict[str, Any] | RecordError:
    """The object in a line as the standard library parses it, or the error; never raises."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        got = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
        return RecordError("record", "UTF-8 text", got, remedy_code="encoding")
    try:
        record = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        return _not_json(line, error)
    except RecursionError:
        return RecordError("record", "JSON nested less deeply", shown(text))
    except ValueError as error:  # an integer of thousands of digits
        return RecordError("record", "numbers of a usual length", str(error).partition(":")[0])
    if not isinstance(record, dict):
        code = "object" if isinstance(record, list) else ""
        return RecordError("record", "a JSON object", _shown_json(record), remedy_code=code)
    return record


def _not_json(line: bytes, error: json.JSONDecodeError) -> RecordError:
    text = line.decode().strip()
    if error.msg == "Extra data":
        return RecordError("record", "one JSON object a line", f"more after column {error.pos}")
    if text.startswith("["):
        return RecordError("record", "a JSON object", shown(text), remedy_code="object")
    if text in ("{", "}"):
        expected = "a whole JSON object on one line"
        return RecordError("record", expected, shown(text), remedy_code="one_line")
    return RecordError(
        "record", "a JSON object", f"{shown(text)} ({error.msg} at column {error.colno})"
    )


def error_in_field(record: dict[str, Any], field: FieldRequest) -> RecordError | None:
    """The error of a wanted field of an object, or None; a slice's field may be absent."""
    value: Any = record
    seen: list[str] = []
    for name in split_path(field.path):
        absent = value is None or (isinstance(value, dict) and name not in value)
        if absent and field.kind == "slice":
            return None
        if not isinstance(value, dict):
            return RecordError(
                ".".join(seen), f"an object with the field {name!r}", _shown_json(value)
            )
        if name not in value:
            return RecordError(field.path, EXPECTED[field.kind], *_missing(name, list(value), seen))
        value = value[name]
        seen.append(name)
    return _error_in_value(value, field)


def _missing(name: str, names: list[str], seen: list[str]) -> tuple[str, str]:
    holder = ".".join(seen) or "the record"
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    got = f"no field {name!r}; {holder} has {shown(listed)[1:-1] if listed else 'none'}"
    return got, did_you_mean(name, names)


def _error_in_value(value: Any, field: FieldRequest) -> RecordError | None:
    path, kind, expected = field.path, field.kind, _expected(field)
    if kind == "slice" and is_missing(value):
        return None
    if value is None:
        return RecordError(path, expected, "null", MISSING.get(kind, ""))
    good, remedy, code = False, "", ""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(value, str) and (kind in ("label", "part", "slice", "id") or field.separator):
        try:
            value.encode()
        except UnicodeEncodeError:
            return RecordError(path, expected, f"{shown(value)}, half of a surrogate pair")
        good = True
    elif kind == "id":
        good = number and isinstance(value, int)
    elif kind in ("labels", "part") and isinstance(value, list):
        return _first_error({f"{path}[{n}]": one for n, one in enumerate(value)}, "label")
    elif kind in ("label", "part", "slice"):
        good = isinstance(value, int) or (number and _is_finite(value))
    elif kind == "flag":
        good = isinstance(value, bool)
    elif kind == "labels":
        remedy, code = (SEPARATE, "label_separator") if isinstance(value, str) else ("", "")
    elif kind == "indicator":
        good = value in (0, 1)
    elif kind in ("probability", "probabilities") and isinstance(value, dict):
        return _first_error({f"{path}.{label}": one for label, one in value.items()}, "number")
    elif field.shares is not None and isinstance(value, list):
        if len(value) != field.shares:
            return wrong_length(field, len(value))
        return _first_error({f"{path}[{n}]": one for n, one in enumerate(value)}, "number")
    elif kind == "probabilities":
        code = "probability" if number else "labels_of_list" if isinstance(value, list) else ""
    elif kind == "time" and isinstance(value, str):
        good = True  # parsed later, a column at a time
    else:
        good = number and _is_finite(value)
        remedy = "write numbers without quotes" if isinstance(value, str) else ""
    return None if good else RecordError(path, expected, _shown_json(value), remedy, code)


def _first_error(values: dict[str, Any], kind: Kind) -> RecordError | None:
    errors = (_error_in_value(one, FieldRequest(path, kind)) for path, one in values.items())
    return next(filter(None, errors), None)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an int beyond the floats
        return False


def _shown_json(value: Any) -> str:
    """A value as JSON, cut to a length that fits a message."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        return f"the text {shown(value)}"
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:40] + "…"
