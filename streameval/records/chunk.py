"""The result of every reader: columns of the good records, and the errors of the bad ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from streameval.errors import InputError, did_you_mean, shown
from streameval.events.values import MAX_WEIGHT, BoolArray
from streameval.records.event_columns import EventColumns
from streameval.records.times import time_column, time_error

Kind: TypeAlias = Literal[
    "label",
    "labels",
    "part",
    "indicator",
    "flag",
    "number",
    "weight",
    "probability",
    "probabilities",
    "time",
    "slice",
    "id",
]
"""Type that a field is read as.

``label``: text, an integer or true/false. ``labels``: a list of labels, or with
:attr:`FieldRequest.separator` one text. ``part``: either, of a set that arrives in parts.
``indicator``: 0 or 1, or false or true, of one label. ``flag``: false or true.
``number``: finite. ``weight``: a number above 0.
``probabilities``: an object label -> number, or a list of :attr:`FieldRequest.shares` numbers.
``probability``: the positive label's number, or one of these. ``time``: ISO 8601 with an offset,
or a number where its unit is declared. ``slice``: as a label, or None where it is missing; in CSV
text. ``id``: text or an integer.
"""

EXPECTED: Mapping[Kind, str] = {
    "label": "a label (text, an integer or true/false)",
    "labels": "a list of labels",
    "part": "a label, or a list of labels",
    "indicator": "0 or 1, or false or true",
    "flag": "true or false",
    "number": "a finite number",
    "weight": f"a weight from 0 to {MAX_WEIGHT}",
    "probability": "the positive label's probability, or an object label -> probability",
    "probabilities": "an object label -> probability",
    "time": "a time: ISO 8601 with an offset, or a number of a declared unit",
    "slice": "a value to slice by (text, an integer, true/false, or null)",
    "id": "an id (text or an integer)",
}

MISSING: Mapping[Kind, str] = {
    "label": "this event has no label yet: leave it out",
    "labels": "write [] for an event that has none of the labels",
}
"""Remedies for an empty field."""

SEPARATE = "of one text pass label_separator= with what stands between the labels, such as '|'"
"""The remedy for a text in place of a list of labels."""

_COMMAND: Mapping[str, str] = {
    "labels": "name both with --labels, or give --task multiclass for more than two labels",
    "object": "write one object a line (jq -c '.[]')",
    "one_line": "compact it (jq -c .)",
    "positive": "give --positive, or --task multiclass for more than two labels",
    "probability": "one number is a score: use --score",
    "probabilities": "of logits give the softmax; other scores of several classes require "
    "--no-probabilities",
    "score": "a fraction is a score: name its field with --score",
    "numbers": "a fraction is a score: name its field with --score; true numbers require --task "
    "regression",
    "task": "give --task multiclass for more than two labels",
    "naive_time": "add the offset, such as +00:00, or declare with --utc that such times are UTC",
    "encoding": "give --encoding with the encoding that the file was written in, such as cp1252",
    "header": "if the first line holds no names, give --no-header",
    "na_values": "leave this event out; or, if it is a class, --na-values '' keeps all texts",
    "labels_of_list": "name the labels of the list in their order with --labels",
    "label_scores": "name the fields of other scores with --score",
    "label_separator": "of one text give --label-separator with what stands between the labels, "
    "such as '|'",
    "unit": "give --on-bad skip to leave such records out, or no --unit",
    "time_unit": "declare the unit with --time-unit s, ms, us or ns",
    "label_type": "choose the type with --label-type",
    "label_types": "say which with --label-type str, int or bool",
    "input_format": "say what it is with --input-format jsonl, csv, tsv, parquet or arrow",
    "y_true": "name the field of the true labels with --y-true",
    "proba_column": "for one column a label give --proba label=column,label=column",
    "proba_text": "give --proba label=column,label=column, or --positive LABEL where the column is "
    "that label's probability",
    **{name: f"give --encoding {name}" for name in ("utf-16-le", "utf-16-be")},
    **{
        f"delimiter {mark}": f"if {mark!r} is between the fields, give --delimiter {name}"
        for mark, name in ((",", "comma"), (";", "semicolon"), ("|", "pipe"), ("\t", "tab"))
    },
}
"""From a code to the remedy in options of the command line; the error has its own of any other."""

_SETTINGS: Mapping[str, str] = {
    "object": "write one object a record",
    "one_line": "write one object a record",
    "probability": "one number is a score: name it in fields.score",
    "probabilities": "other scores of several classes require evaluator.probabilities = false",
    "numbers": 'a fraction is a score; true numbers require evaluator.task = "regression"',
    "naive_time": "add the offset, such as +00:00",
    "label_separator": 'write them as a list of texts: ["a", "b"]',
    "time_unit": "say in fields.time_unit what numbers are",
}
"""The same in keys of a run's configuration."""

KEPT = 10
"""How many bad records are kept in full; the others are counted."""

Reason: TypeAlias = tuple[str, str]
"""Reason that records are bad: the field, and the value expected of it."""

_LONGEST_DETAIL = 500

MAX_REASONS = 100
"""Most reasons with a count of their own: a field's name may be part of the data."""


def remedy_text(remedy: str, code: str) -> str:
    """A remedy in the options of the command line."""
    return _COMMAND.get(code, remedy)


def missing_value(field: FieldRequest, got: str) -> RecordError:
    """The error of a record without a value for a field."""
    return RecordError(field.path, EXPECTED[field.kind], got, MISSING.get(field.kind, ""))


def no_column(
    source: str, path: str, columns: Sequence[str], paths: Sequence[str] | None = None
) -> InputError:
    """The error of a column that the source lacks, or has twice."""
    count = columns.count(path)
    listed = ", ".join(columns[:12]) + (", …" if len(columns) > 12 else "")
    remedy, code = did_you_mean(path, columns if paths is None else paths), ""
    if count:
        remedy = "rename one of them"
    elif not remedy and path == "y_true":  # where no other name was given
        remedy, code = "name the column of the true labels with y_true=", "y_true"
    return InputError(
        source,
        expected=f"one column {path!r}",
        got=f"{count or 'none'} among {shown(listed)[1:-1]}",
        remedy=remedy,
        remedy_code=code,
    )


@dataclass(frozen=True, slots=True)
class FieldRequest:
    """A field to read, its type, and the column that it becomes."""

    path: str
    """A column's name; in JSONL and Parquet a dot separates levels (``meta.label``), and ``\\.``
    is a dot that belongs to the name."""
    kind: Kind
    column: str = ""
    """By what it is for, such as ``y_true``; by default its path."""
    unit: str | None = None
    """Of a time that is a number: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``."""
    utc: bool = False
    """Whether a time without a zone is UTC; otherwise files must have the zone."""
    shares: int | None = None
    """Of probabilities in a list: how many; None: lists are not read."""
    separator: str | None = None
    """Of labels: what stands between them in one text; None: texts are not read."""
    also: tuple[str, ...] = ()
    """Other columns with the same values."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", self.column or self.path)

    @property
    def holds_labels(self) -> bool:
        """Whether text that is read has labels, whose type is inferred."""
        return self.kind == "label" or self.separator is not None


class RecordError(NamedTuple):
    """Why one record cannot be counted.

    >>> print(RecordError("score", "a finite number", "NaN").at("a.jsonl", 3))
    a.jsonl:3: score: expected a finite number, got NaN
    """

    field: str
    """Its path, or ``record`` where the record as a whole is bad."""
    expected: str
    got: str
    remedy: str = ""
    remedy_code: str = ""
    """Names a remedy that front ends word in their options."""
    source: str = ""
    place: int = 0
    """In files the line where the record begins, or the row of Parquet, from 1; in a partition
    its offset."""
    column: str = ""
    """What the field is for; also ``record`` and ``too long``."""
    raw: bytes = b""
    """The record itself, in a run."""

    @classmethod
    def of(cls, error: InputError, field: str = "", expected: str = "") -> RecordError:
        """The error of a value, as one of its record."""
        return cls(
            field or error.field,
            expected or error.expected,
            error.got,
            error.remedy,
            error.remedy_code,
        )

    def input_error(self, field: str, position: int | None = None) -> InputError:
        """The error as one of a call, at a position of the caller's arrays."""
        return InputError(
            field,
            expected=self.expected,
            got=self.got,
            position=position,
            remedy=self.remedy,
            remedy_code=self.remedy_code,
        )

    def at(self, source: str, place: int) -> RecordError:
        """The same with the record's place."""
        return self._replace(source=source, place=place)

    @property
    def counted_as(self) -> Reason:
        """Key that it is counted by; probabilities of all labels count under their field."""
        return self.field.partition("[")[0], self.expected

    @property
    def reason(self) -> str:
        """Of a small set of words, to count by in a run."""
        return self.column or self.field

    @property
    def detail(self) -> str:
        """The error in the keys of a run's configuration, of 500 characters at most."""
        text = self._text(_SETTINGS)
        return text if len(text) <= _LONGEST_DETAIL else text[: _LONGEST_DETAIL - 1] + "…"

    def _text(self, words: Mapping[str, str]) -> str:
        remedy = words.get(self.remedy_code, self.remedy)
        tail = f"; {remedy}" if remedy else ""
        where = f"{self.field}: " if self.field else ""
        return f"{where}expected {self.expected}, got {self.got}{tail}"

    def __str__(self) -> str:
        return f"{self.source}:{self.place}: {self._text(_COMMAND)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: source, line, field, expected, got and, if any, remedy."""
        values = {
            "source": self.source,
            "line": self.place,
            "field": self.field,
            "expected": self.expected,
            "got": self.got,
        }
        if self.remedy:
            values["remedy"] = remedy_text(self.remedy, self.remedy_code)
        return values


@dataclass(slots=True)
class BadRecords:
    """Bad records: all counted by their reason, the first ten kept."""

    first: list[RecordError] = field(default_factory=list)
    reasons: Counter[Reason] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.reasons.total()

    def most_common(self, most: int | None = None) -> list[tuple[Reason, int]]:
        """The reasons and their counts, the largest first, equal ones by name."""
        counts = sorted(self.reasons.items(), key=lambda item: (-item[1], item[0]))
        return counts[:most]

    def add(self, record: RecordError, count: int = 1) -> None:
        """Add a record, and count `count` records of its reason."""
        self.count_only({record.counted_as: count})
        if len(self.first) < KEPT:
            self.first.append(record)

    def count_only(self, reasons: Mapping[Reason, int]) -> None:
        """Count records that are not kept."""
        for reason, count in reasons.items():
            known = reason in self.reasons or len(self.reasons) < MAX_REASONS
            self.reasons[reason if known else ("record", "another reason")] += count

    def add_all(self, other: BadRecords) -> None:
        """Add those of a later check of the same lines; the first ten lines are kept."""
        self.count_only(other.reasons)
        self.first = sorted(self.first + other.first, key=lambda record: record.place)[:KEPT]

    def reject(
        self, keep: BoolArray, wrong: BoolArray, error: Callable[[int], RecordError]
    ) -> None:
        """Take wrong rows out of those to keep, and count them for the reason of the first."""
        rows = np.flatnonzero(wrong & keep).tolist()
        if rows:
            found = BadRecords([error(row) for row in rows[:KEPT]])
            found.count_only({found.first[0].counted_as: len(rows)})
            self.add_all(found)
            keep &= ~wrong


@dataclass(slots=True)
class Chunk:
    """Some consecutive records of one source.

    ``events.columns[column][n]`` is the value of record n, which began at line
    ``events.places[n]``. Every number is finite and every weight 0 or more; every label is a str,
    an int, a bool or a float, and a slice's value may be None as well; times are numpy
    ``datetime64`` in UTC.
    """

    source: str
    events: EventColumns
    bad: BadRecords


def checked_chunk(
    source: str,
    fields: Sequence[FieldRequest],
    events: EventColumns,
    bad: BadRecords,
    keep: BoolArray | None = None,
) -> Chunk:
    """A chunk of the events to keep, without those whose numbers, weights or times are invalid."""
    columns, places = events.columns, events.places
    keep = np.ones(events.rows, dtype=np.bool_) if keep is None else keep
    for one in fields:
        values: Any = columns[one.column]
        wrong = None
        if one.kind == "time":
            columns[one.column], wrong = time_column(values, one.unit, utc=one.utc)
        elif one.kind == "number":
            wrong = ~np.isfinite(values)
        elif one.kind == "indicator":
            columns[one.column] = values == 1
            wrong = ~(columns[one.column] | (values == 0))
        elif one.kind == "weight":
            wrong = ~((values >= 0) & (values <= MAX_WEIGHT))
        # A record with two bad fields is one bad record, counted for the first field.
        if wrong is not None and wrong.any():
            bad.reject(
                keep,
                wrong,
                lambda n, f=one, v=values: _value_error(f, v[n]).at(source, int(places[n])),  # type: ignore[misc]
            )
    if not keep.all():
        events = events.select(keep)
    for one in fields:
        events.columns |= dict.fromkeys(one.also, events.columns[one.column])
    return Chunk(source, events, bad)


def _value_error(field: FieldRequest, value: Any) -> RecordError:
    if field.kind == "time":
        return RecordError.of(time_error(value, field.unit), field.path, EXPECTED[field.kind])
    number = float(value)
    got = str(int(number)) if number.is_integer() and abs(number) < 1e15 else shown(number)
    return RecordError(field.path, EXPECTED[field.kind], got)
