"""The fields that a record requires by its kind: a prediction, a label, or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from streameval.records.chunk import Kind, Wanted
from streameval.records.json_record import (
    CANNOT_DECODE,
    Fault,
    fault_in_field,
    is_utf8,
    plain_fields,
    read_object,
    record_shape,
    split_path,
)
from streameval.service.config.evaluators import slice_fields
from streameval.service.config.settings import EvaluatorSettings, FieldSettings
from streameval.service.sources.raw import Kind as BatchKind
from streameval.states.backend import compiled

if TYPE_CHECKING:
    from streameval.service.native.native_json import NativeRecords

Values: TypeAlias = list[Any] | npt.NDArray[Any]
"""Of a field: with None for a missing one, or an array of floats or booleans without any."""

_LONGEST_DETAIL = 500

_REMEDIES = {
    "object": "write one object a record",
    "one_line": "write one object a record",
    "probability": "one number is a score: name it in fields.score",
    "naive_time": "add the offset, such as +00:00",
    "time_unit": "say in fields.time_unit what numbers are",
}
"""Remedies by code, in the keys of a run's configuration."""

_MARKS: Mapping[str, Kind] = {"y_pred": "label", "score": "number", "proba": "probabilities"}
"""The fields of which one makes a record a prediction."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column, and the field that it is read from."""

    column: str
    want: Wanted


@dataclass(frozen=True, slots=True)
class RecordFields:
    """The fields of each kind of record."""

    prediction: tuple[Field, ...]
    """With the id where labels are records of their own."""
    marks: tuple[Field, ...]
    """Those of which one makes a record a prediction: ``y_pred``, ``score``, ``proba``."""
    truths: tuple[Field, ...]
    """The true label in the record of a prediction, or nothing."""
    label: tuple[Field, ...]
    """Of a label that is a record of its own; empty without a join."""

    @property
    def label_truths(self) -> tuple[Field, ...]:
        """Those that make a record a label."""
        return tuple(field for field in self.label if field.column == "y_true")

    @property
    def complete(self) -> tuple[Field, ...]:
        """Of a record that is a prediction with its label."""
        return (*self.prediction, *self.truths)

    def of(self, kind: BatchKind) -> tuple[Field, ...]:
        """All that a batch's records may have, each field once."""
        if kind == "labels" and self.label:
            return self.label
        apart = self.label if kind == "records" else ()
        every = (*self.prediction, *self.truths, *apart)
        return tuple({field.want: field for field in reversed(every)}.values())


def record_fields(fields: FieldSettings, evaluator: EvaluatorSettings, join: bool) -> RecordFields:
    """The fields of each kind of record by the settings.

    Raises:
        InputError: A path is malformed, lies inside another, or has two kinds.
    """

    def field(column: str, path: str | None, kind: Kind, unit: str | None = None) -> list[Field]:
        return [] if path is None else [Field(column, Wanted(path, kind, unit))]

    paths = fields.paths
    marks = tuple(
        Field(column, Wanted(path, _MARKS[name]))
        for column, path in paths.items()
        if (name := column.partition(":")[0]) in _MARKS
    )
    keys = dict.fromkeys(name for part in evaluator.slices for name in slice_fields(part))
    prediction = (
        *(field("id", fields.id, "id") if join else ()),
        *marks,
        *field("weight", fields.weight, "weight"),
        *field("time", fields.time, "time", fields.time_unit),
        *(Field(f"slice:{key}", Wanted(fields.slices.get(key, key), "slice")) for key in keys),
    )
    apart = fields.label
    label = (
        *field("id", apart.id or fields.id, "id"),
        *field("y_true", apart.y_true or fields.y_true, "label"),
        *field("time", apart.time or fields.time, "time", fields.time_unit),
    )
    truths = tuple(field("y_true", fields.y_true, "label"))
    found = RecordFields(prediction, marks, truths, label if join else ())
    for kind in ("records", "labels"):
        record_shape([one.want for one in found.of(kind)], optional=True)
    return found


class RecordReader:
    """Reads the records of one kind of batch; a field that is missing or null is None.

    Where all fields are plain values at the top level, compiled code reads the messages that are
    plain too: without escapes, and with values of the types of their fields.
    """

    __slots__ = ("_compiled", "_convert", "_decode", "_getters", "_wanted", "fields")

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self._wanted = [field.want for field in fields]
        shape = record_shape(self._wanted, optional=True)
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(shape.type).decode
        self._convert: Callable[[Any], Any] = lambda plain: msgspec.convert(plain, shape.type)
        self._getters = shape.getters
        self._compiled = _compiled_reader(self._wanted)

    def read_many(self, messages: list[bytes]) -> tuple[dict[str, Values], dict[int, Fault]]:
        """The values of each field by its path, and the faults of bad messages by their index.

        The values of a bad message are None.
        """
        if self._compiled is None:
            return self._read_all(messages)
        columns, others = self._compiled.read(messages)
        if not columns:
            return self._read_all(messages)
        found = dict(zip(self._getters, columns, strict=True))
        if not others:
            return found, {}
        rest, faults = self._read_all([messages[row] for row in others])
        for path, values in found.items():
            for row, value in zip(others, rest[path], strict=True):
                values[row] = value
        return found, {others[n]: fault for n, fault in faults.items()}

    def _read_all(self, messages: list[bytes]) -> tuple[dict[str, Values], dict[int, Fault]]:
        """The same without compiled code: all at once, or one by one where one is bad."""
        faults: dict[int, Fault] = {}
        getters = self._getters.items()
        try:
            if b"".join(messages).isascii() or all(map(is_utf8, messages)):
                records = list(map(self._decode, messages))
                return {path: list(map(get, records)) for path, get in getters}, {}
        except CANNOT_DECODE:
            pass
        found: dict[str, Values] = {path: [None] * len(messages) for path, _ in getters}
        for row, message in enumerate(messages):
            record = self.read(message)
            if isinstance(record, Fault):
                faults[row] = record
                continue
            for path, get in getters:
                found[path][row] = get(record)
        return found, faults

    def read(self, message: bytes) -> Any | Fault:
        """One record, or its fault."""
        if is_utf8(message):
            try:
                return self._decode(message)
            except CANNOT_DECODE:
                pass
        # One parser rejects values of unwanted fields (Python's NaN, half of a
        # surrogate pair) that the other reads.
        found = read_object(message)
        if isinstance(found, Fault):
            return found
        for field in self.fields:
            if not plain_fields(found, [field.want]) and field.want.kind != "slice":
                continue
            fault = fault_in_field(found, field.want)
            if fault is not None:
                return fault._replace(field=field.column, expected=_expected(fault, field))
        try:
            return self._convert(plain_fields(found, self._wanted))
        except msgspec.ValidationError:
            return Fault("record", "numbers of a usual size", "one that is too large")

    def missing(self, message: bytes, field: Field) -> Fault:
        """The fault of a record that can be decoded and lacks a field."""
        found = read_object(message)
        fault = None if isinstance(found, Fault) else fault_in_field(found, field.want)
        if fault is None:
            return Fault(field.column, f"the field {field.want.path!r}", "none")
        return fault._replace(field=field.column, expected=_expected(fault, field))


def listed(values: Values) -> list[Any]:
    """The values of a field as plain ones."""
    return values.tolist() if isinstance(values, np.ndarray) else values


def _compiled_reader(wanted: Sequence[Wanted]) -> NativeRecords | None:
    """None where nothing is compiled, or a field is no plain value at the top level."""
    module = compiled("streameval.service.native.native_json")
    if module is None or any(len(split_path(want.path)) > 1 for want in wanted):
        return None
    fields = [(split_path(want.path)[0], want.kind) for want in wanted]
    return module.NativeRecords(fields) if module.NativeRecords.takes(fields) else None


def _expected(fault: Fault, field: Field) -> str:
    """The expected value, with the fault's field where it is a part of the wanted one."""
    inside = "" if fault.field == field.want.path else f" in {fault.field[:80]!r}"
    return f"{fault.expected}{inside}"


def fault_text(fault: Fault, path: str) -> str:
    """One line: where, expected, got, and what to do.

    >>> fault_text(Fault("score", "a finite number", "NaN"), "meta.score")
    'meta.score: expected a finite number, got NaN'
    """
    remedy = _REMEDIES.get(fault.remedy_code, fault.remedy)
    tail = f"; {remedy}" if remedy else ""
    text = f"{path}: expected {fault.expected}, got {fault.got}{tail}"
    return text if len(text) <= _LONGEST_DETAIL else text[: _LONGEST_DETAIL - 1] + "…"
