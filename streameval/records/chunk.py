"""The result of every reader: columns of the good records, and the bad records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from streameval.errors import InputError, did_you_mean, shown
from streameval.events.values import MAX_WEIGHT, BoolArray
from streameval.records.event_columns import EventColumns
from streameval.records.times import time_column, time_error

Kind: TypeAlias = Literal[
    "label", "number", "weight", "probability", "probabilities", "time", "slice", "id"
]
"""Type that a field is read as.

``label``: text, an integer or true/false. ``number``: finite. ``weight``: a
number above 0. ``probabilities``: an object label -> number, or a list of :attr:`Wanted.shares`
numbers. ``probability``: the positive label's number, or one of these. ``time``: ISO 8601 with an
offset, or a number where its unit is declared. ``slice``: as a label, or None where it is missing;
in CSV text. ``id``: text or an integer.
"""

EXPECTED: Mapping[Kind, str] = {
    "label": "a label (text, an integer or true/false)",
    "number": "a finite number",
    "weight": f"a weight from 0 to {MAX_WEIGHT}",
    "probability": "the positive label's probability, or an object label -> probability",
    "probabilities": "an object label -> probability",
    "time": "a time: ISO 8601 with an offset, or a number of a declared unit",
    "slice": "a value to slice by (text, an integer, true/false, or null)",
    "id": "an id (text or an integer)",
}

MISSING: Mapping[Kind, str] = {"label": "this event has no label yet: leave it out"}
"""Remedies for an empty field."""

_REMEDIES: Mapping[str, str] = {
    "labels": "name both with --labels, or give --task multiclass for more than two labels",
    "object": "write one object a line (jq -c '.[]')",
    "one_line": "compact it (jq -c .)",
    "positive": "give --positive, or --task multiclass for more than two labels",
    "probability": "one number is a score: use --score",
    "score": "a fraction is a score: name its field with --score",
    "task": "give --task multiclass for more than two labels",
    "naive_time": "add the offset, such as +00:00, or declare with --utc that such times are UTC",
    "encoding": "give --encoding with the encoding that the file was written in, such as cp1252",
    **{
        f"delimiter {mark}": f"if {mark!r} is between the fields, give --delimiter {name}"
        for mark, name in ((",", "comma"), (";", "semicolon"), ("|", "pipe"), ("\t", "tab"))
    },
    "header": "if the first line holds no names, give --no-header",
    "na_values": "leave this event out; or, if it is a class, --na-values '' keeps all texts",
    "labels_of_list": "name the labels of the list in their order with --labels",
    "unit": "give --on-bad skip to leave such records out, or no --unit",
    "time_unit": "declare the unit with --time-unit s, ms, us or ns",
    "label_type": "choose the type with --label-type",
    "label_types": "say which with --label-type str, int or bool",
    "input_format": "say what it is with --input-format jsonl, csv, tsv, parquet or arrow",
    "y_true": "name the field of the true labels with --y-true",
    "proba_column": "for one column a label give --proba label=column,label=column",
    "proba_text": "give --proba label=column,label=column, or --positive LABEL "
    "where the column is that label's probability",
}
"""Remedies by code, in the options of the command line."""

KEPT = 10
"""How many bad records are kept in full; the others are counted."""

Reason: TypeAlias = tuple[str, str]
"""Reason that records are bad: the field, and the value expected of it."""

MAX_REASONS = 100
"""Most reasons with a count of their own: a field's name may be part of the data."""


def remedy_text(remedy: str, code: str) -> str:
    """A remedy in the options of the command line.

    >>> remedy_text('declare its unit with time_unit="s" or "ms"', "time_unit")
    'declare the unit with --time-unit s, ms, us or ns'
    """
    return _REMEDIES.get(code, remedy)


def no_column(
    source: str, path: str, columns: Sequence[str], paths: Sequence[str] | None = None
) -> InputError:
    """The error of a column that the source lacks, or has twice.

    Args:
        source: Its name.
        path: The column.
        columns: The names that it has.
        paths: Names like which the column may be meant; None: the columns.
    """
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
class Wanted:
    """A field to read, and its type.

    Args:
        path: A column's name; in JSONL and Parquet a dot separates levels
            (``meta.label``), and ``\\.`` is a dot that belongs to the name.
        kind: Type of its values.
        unit: Of a time that is a number: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``.
        utc: Whether a time without a zone is UTC; otherwise files must have the zone.
        shares: Of probabilities in a list: how many; None: they are not read.
    """

    path: str
    kind: Kind
    unit: str | None = None
    utc: bool = False
    shares: int | None = None


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One record that cannot be counted.

    >>> print(BadRecord("a.jsonl", 3, "score", "a finite number", "NaN"))
    a.jsonl:3: score: expected a finite number, got NaN
    """

    source: str
    line: int
    """Counted from 1: the line where the record begins; in Parquet the row."""
    field: str
    """The field's path, or ``record`` where the record as a whole is bad."""
    expected: str
    got: str
    remedy: str = ""
    remedy_code: str = ""
    """Names a remedy that the command line words in its options, as texts of a record do."""

    @property
    def reason(self) -> Reason:
        """Key that it is counted by; probabilities of all labels count under their field."""
        return self.field.partition("[")[0], self.expected

    def __str__(self) -> str:
        remedy = remedy_text(self.remedy, self.remedy_code)
        remedy = f"; {remedy}" if remedy else ""
        return (
            f"{self.source}:{self.line}: {self.field}: "
            f"expected {self.expected}, got {self.got}{remedy}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: source, line, field, expected, got and, if any, remedy."""
        values = asdict(self)
        del values["remedy_code"]
        values["remedy"] = remedy_text(self.remedy, self.remedy_code)
        return values if self.remedy else {k: v for k, v in values.items() if k != "remedy"}


@dataclass(slots=True)
class BadRecords:
    """Bad records: all counted by their reason, the first ten kept.

    A file may be bad from its first line to its last, so a list of all of them
    would not be bounded.
    """

    first: list[BadRecord] = field(default_factory=list)
    reasons: Counter[Reason] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.reasons.total()

    def most_common(self, most: int | None = None) -> list[tuple[Reason, int]]:
        """The reasons and their counts, the largest first, equal ones by name."""
        counts = sorted(self.reasons.items(), key=lambda item: (-item[1], item[0]))
        return counts[:most]

    def add(self, record: BadRecord, count: int = 1) -> None:
        """Add a record, and count `count` records of its reason."""
        self.count_only({record.reason: count})
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
        self.first = sorted(self.first + other.first, key=lambda record: record.line)[:KEPT]

    def add_column(self, positions: Sequence[int], describe: Callable[[int], BadRecord]) -> None:
        """Count records at these positions, all for the reason of the first."""
        if positions:
            found = BadRecords([describe(position) for position in positions[:KEPT]])
            found.count_only({found.first[0].reason: len(positions)})
            self.add_all(found)


@dataclass(slots=True)
class Chunk:
    """Some consecutive records of one source.

    ``events.columns[path][n]`` is the value of record n, which began at line ``events.places[n]``.
    Every number is finite and every weight 0 or more; every label is a str, an
    int, a bool or a float, and a slice's value may be None as well; times are
    numpy ``datetime64`` in UTC.
    """

    source: str
    events: EventColumns
    bad: BadRecords


def checked_chunk(
    source: str,
    wanted: Sequence[Wanted],
    events: EventColumns,
    bad: BadRecords,
    keep: BoolArray | None = None,
) -> Chunk:
    """A chunk of the events to keep, without those whose numbers, weights or times are invalid."""
    if keep is not None and not keep.all():
        events = events.take(keep)
    columns = events.columns
    rejected: BoolArray | None = None
    for want in wanted:
        values: Any = columns[want.path]
        wrong = None
        if want.kind == "time":
            columns[want.path], wrong = time_column(values, want.unit, utc=want.utc)
        elif want.kind == "number":
            wrong = ~np.isfinite(values)
        elif want.kind == "weight":
            wrong = ~((values >= 0) & (values <= MAX_WEIGHT))
        if wrong is None or not wrong.any():
            continue
        # A record with two bad fields is one bad record, counted for the first field.
        new = wrong if rejected is None else wrong & ~rejected
        rejected = wrong if rejected is None else wrong | rejected
        bad.add_column(
            np.flatnonzero(new).tolist(),
            lambda n, w=want, v=values: _bad_value(source, int(events.places[n]), w, v[n]),  # type: ignore[misc]
        )
    return Chunk(source, events if rejected is None else events.take(~rejected), bad)


def _bad_value(source: str, line: int, want: Wanted, value: Any) -> BadRecord:
    if want.kind == "time":
        error = time_error(value, want.unit)
        expected, got = EXPECTED[want.kind], error.got
        return BadRecord(source, line, want.path, expected, got, error.remedy, error.remedy_code)
    number = float(value)
    got = str(int(number)) if number.is_integer() and abs(number) < 1e15 else shown(number)
    return BadRecord(source, line, want.path, EXPECTED[want.kind], got)
