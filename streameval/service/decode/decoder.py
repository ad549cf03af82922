"""Raw messages to columns of predictions, labels and complete records, and the bad messages.

The fields of a record determine its kind: with one of ``y_pred``, ``score`` or ``proba`` it is a
prediction, with the true label as well it is complete, with the true label alone it is a label.
null is treated as a missing field. Without a join only complete records are accepted; with one,
every record needs its id, so that duplicates are found. In a batch of ``labels`` only the fields of
a label are read.

No message raises an error: each is in exactly one of the predictions, labels, complete and bad
records of the result. Records are accepted or rejected independently of each other; but the first
label of a multi-class run that does not list its labels decides whether labels are text or numbers
(:attr:`RecordDecoder.label_kind`, stored with the run).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError, shown
from streameval.events.time import (
    EARLIEST,
    EARLY_1970,
    LATEST,
    ForwardClock,
    iso_time,
    unit_remedy,
)
from streameval.events.values import MAX_WEIGHT, BoolArray, IntArray, Label, check_probabilities
from streameval.records.chunk import EXPECTED, FieldRequest, RecordError
from streameval.records.chunk import Kind as FieldKind
from streameval.records.event_columns import Column, EventColumns, probability_columns
from streameval.records.json_records import JsonDecoder, Values, error_in_field, read_object
from streameval.records.times import time_column, time_error
from streameval.service.config.record_fields import RecordFields, record_fields
from streameval.service.config.settings import LONGEST_AHEAD, EvaluatorSettings, FieldSettings
from streameval.service.decode.labels import (
    LONGEST_NAME,
    Checked,
    LabelKind,
    RecordLabels,
    checked_values,
    listed,
)
from streameval.service.sources.raw import KINDS, Decoded, Kind, RawBatch

_NEARLY = 9e-4
"""Sums nearer to 1 pass without check_probabilities, which has the rule itself."""


class RecordDecoder:
    """Decodes the batches of a run."""

    def __init__(
        self,
        fields: FieldSettings,
        evaluator: EvaluatorSettings,
        join: bool,
        max_record_bytes: int = 1 << 20,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        # The clock is the time of a record without any other, and the reference for times in the
        # future; the reference goes on by the ticks while the clock is set back.
        self._fields = record_fields(fields, evaluator, join)
        self._readers = {kind: JsonDecoder(self._fields.of(kind), optional=True) for kind in KINDS}
        self._labels = RecordLabels(evaluator)
        self._join = join
        self._most = max_record_bytes
        self._wall = clock
        self._ticks = ticks
        self._reference = 0.0
        self._ticked = ticks()
        self.clock = ForwardClock(clock)
        self._ahead = (LONGEST_AHEAD if fields.ahead is None else fields.ahead).us

    @property
    def label_kind(self) -> LabelKind | None:
        """Whether labels are ``"text"`` or ``"number"``; None before the first label."""
        return self._labels.kind

    @label_kind.setter
    def label_kind(self, kind: LabelKind | None) -> None:
        if self._labels.kind is None:
            self._labels.kind = kind

    def decode(self, batch: RawBatch) -> Decoded:
        """The records of a batch as columns, and the errors of bad ones, with the batch's own."""
        reading = self._open(batch)
        everything = reading.read(self._most)
        decoded = Decoded(batch.partition)
        fields = self._fields
        if not self._join:
            decoded.complete = reading.columns(everything, fields.complete)
        elif batch.kind == "labels":
            decoded.labels = reading.columns(everything, fields.label)
        else:
            marked = reading.present(everything, fields.marks)
            true = reading.present(everything, fields.truths)
            predictions = everything.where(marked & ~true)
            decoded.predictions = reading.columns(predictions, fields.prediction)
            if true.any():
                complete = everything.where(marked & true)
                decoded.complete = reading.columns(complete, fields.complete)
            if not marked.all():
                rest = everything.where(~marked)
                true = reading.present(rest, fields.label_truths)
                if batch.kind == "records":
                    decoded.labels = reading.columns(rest.where(true), fields.label)
                    rest = rest.where(~true)
                reading.refuse(rest, fields, batch.kind)
        reading.bad.sort(key=lambda error: error.place)
        decoded.bad = reading.bad
        return decoded

    def _open(self, batch: RawBatch) -> _Reading:
        if batch.times is not None and len(batch.times) and batch.partition.startswith("http:"):
            # The inbox was stamped by this machine's clock, perhaps before a restart.
            self._reference = max(self._reference, max(batch.times) / 1e6)
            self.clock.at_least(self._reference)
        now = round(self.clock() * 1e6)
        latest = min(LATEST, round(self._steady() * 1e6) + self._ahead)
        return _Reading(batch, self._readers[batch.kind], self._labels, now, latest)

    def resume(self, newest: int | None, own: int | None) -> None:
        """Continue after a restart, in which the machine's clock may have been set back."""
        self._reference = (newest or 0) / 1e6
        self.clock.at_least((own or 0) / 1e6)

    def _steady(self) -> float:
        """The machine's clock, which does not go back by more than a second."""
        ticked, self._ticked = self._ticked, self._ticks()
        steady, wall = self._reference + self._ticked - ticked, self._wall()
        self._reference = steady if wall < steady - 1.0 else wall
        return self._reference


class _Group(NamedTuple):
    """Records of one batch that are of one kind."""

    values: dict[FieldRequest, Values]
    """The values of all messages of the batch, by field."""
    rows: IntArray
    """The indices of these records."""

    def where(self, mask: BoolArray) -> _Group:
        return self if mask.all() else _Group(self.values, self.rows[mask])

    def of(self, field: FieldRequest) -> Values:
        """The values of a field of these records."""
        values = self.values[field]
        if len(self.rows) == len(values):
            return values
        if isinstance(values, np.ndarray):
            return values[self.rows]
        return list(map(values.__getitem__, self.rows.tolist()))


class _Reading:
    """One batch while it is decoded."""

    __slots__ = ("_batch", "_labels", "_latest", "_now", "_places", "_reader", "_short", "bad")

    def __init__(
        self, batch: RawBatch, reader: JsonDecoder, labels: RecordLabels, now: int, latest: int
    ) -> None:
        self._batch = batch
        self._reader = reader
        self._labels = labels
        self._now = now
        self._latest = latest
        places = batch.places
        if isinstance(places, range):  # numpy would convert its numbers one by one
            places = np.arange(places.start, places.stop, places.step)
        self._places = np.asarray(places, dtype=np.int64)
        self._short = False
        self.bad = list(batch.bad)

    def read(self, most: int) -> _Group:
        """The messages that can be decoded."""
        messages = self._batch.messages
        longest = max(map(len, messages), default=0)
        # A decoded JSON text is never longer than its source.
        self._short = longest <= LONGEST_NAME
        good = np.ones(len(messages), dtype=np.bool_)
        if longest > most:
            for row, message in enumerate(messages):
                if len(message) > most:
                    good[row] = False
                    got = f"{len(message):,}"
                    error = RecordError("record", f"at most {most:,} bytes", got)
                    self._refuse(row, error._replace(column="too long"))
            messages = [message if good[row] else b"{}" for row, message in enumerate(messages)]
        values, errors = self._reader.read_messages(messages)
        for row, error in errors.items():
            good[row] = False
            same = [field for field in self._reader.fields if field.column == error.column]
            exact = (field for field in same if field.path == error.field)
            self._refuse(row, error, next(exact, same[0] if same else None))
        return _Group(dict(zip(self._reader.fields, values, strict=True)), np.flatnonzero(good))

    def present(self, group: _Group, fields: tuple[FieldRequest, ...]) -> BoolArray:
        """Which records have any of these fields."""
        found = np.zeros(len(group.rows), dtype=np.bool_)
        for field in fields:
            values = group.of(field)
            missing = 0 if isinstance(values, np.ndarray) else values.count(None)
            if not missing:
                found[:] = True
            elif missing < len(values):
                found |= np.asarray([value is not None for value in values], dtype=np.bool_)
        return found

    def columns(self, group: _Group, fields: tuple[FieldRequest, ...]) -> EventColumns | None:
        """The columns of records that require these fields; None where no record is good."""
        if not len(group.rows):
            return None
        columns: dict[str, Column] = {}
        errors: dict[int, tuple[FieldRequest, RecordError | None]] = {}
        final = next((group.of(field) for field in fields if field.kind == "flag"), None)
        for field in fields:
            if field.kind == "flag":
                continue
            values = group.of(field)
            if field.kind == "part" and final is not None:
                columns[field.column], wrong = self._labels.parts(values, final)
            else:
                columns[field.column], wrong = self._checked(field, values)
            for row, error in wrong.items():
                errors.setdefault(row, (field, None if values[row] is None else error))
        if "time" not in columns:
            columns["time"] = self._times(group.rows)
        times = columns["time"]
        assert isinstance(times, np.ndarray)
        for row, outside in _outside(times, self._latest).items():
            errors.setdefault(row, (_TIME, outside))
        rows = group.rows
        places = self._places
        events = EventColumns(columns, places if len(rows) == len(places) else places[rows])
        if errors:
            for n, (field, known) in errors.items():
                row = int(rows[n])
                self._refuse(row, known or _missing(self._batch.messages[row], field), field)
            keep = np.ones(len(rows), dtype=np.bool_)
            keep[list(errors)] = False
            if not keep.any():
                return None
            events = events.select(keep)
        return events

    def _checked(self, field: FieldRequest, values: Values) -> Checked:
        kind = field.kind
        if kind in ("number", "weight"):
            return _numbers(values, kind)
        if kind == "label":
            return self._labels.column(values)
        if kind in ("labels", "part"):
            return self._labels.sets(values)
        values = listed(values)
        if kind == "id":
            return _ids(values, self._short)
        if kind == "slice":
            return checked_values(values, self._short, EXPECTED["slice"])
        if kind == "time":
            return _moments(values, field.unit)
        if kind == "probabilities":
            return _probabilities(values, self._labels)
        raise AssertionError(kind)

    def _times(self, rows: IntArray) -> IntArray:
        """The times of the broker or the inbox, or the time of reading."""
        given = self._batch.times
        if given is None:
            return np.full(len(rows), self._now, dtype=np.int64)
        return np.asarray(given, dtype=np.int64)[rows]

    def refuse(self, group: _Group, fields: RecordFields, kind: Kind) -> None:
        """Records that are neither prediction nor label."""
        wanted = f"a prediction ({' or '.join(field.path for field in fields.marks)})"
        if kind == "records":
            wanted += f" or a label ({fields.label_truths[0].path})"
        for row in group.rows.tolist():
            found = read_object(self._batch.messages[row])
            names = shown(", ".join(list(found)[:12]))[1:-1] if isinstance(found, dict) else ""
            got = f"neither; the record has {names or 'no fields'}"
            self._refuse(row, RecordError("record", wanted, got))

    def _refuse(self, row: int, error: RecordError, field: FieldRequest | None = None) -> None:
        """Add a bad record; its error names the field, and what is inside it as a part."""
        path, expected, column = error.field, error.expected, error.column
        if field is not None:
            if path not in ("", field.path):
                expected += f" in {path[:80]!r}"
            path, column = field.path, field.column
        place, raw = int(self._places[row]), self._batch.messages[row]
        # Not _replace(), which takes longer than all else here.
        made = path, expected, *error[2:5], self._batch.partition, place, column, raw
        self.bad.append(RecordError(*made))


_TIME = FieldRequest("time", "time")


def _missing(message: bytes, field: FieldRequest) -> RecordError:
    """The error of a record that can be decoded and lacks a field."""
    found = read_object(message)
    error = None if isinstance(found, RecordError) else error_in_field(found, field)
    return error or RecordError("", f"the field {field.path!r}", "none")


def _ids(values: list[Any], short: bool) -> Checked:
    """Ids as text: 5 and ``"5"`` are one; ``short``: no text among them can be too long."""
    if short and set(map(type, values)) == {str} and "" not in values:
        return values, {}
    taken: list[Any] = []
    errors: dict[int, RecordError] = {}
    expected = EXPECTED["id"]
    for row, value in enumerate(values):
        try:
            text = "" if value is None else str(value)
            size = len(text.encode())
        except ValueError:  # an integer of thousands of digits
            text, size = "", LONGEST_NAME + 1
        if not size:
            errors[row] = RecordError("", expected, "an empty text")
        elif size > LONGEST_NAME:
            limit = f"{expected} of at most {LONGEST_NAME:,} bytes"
            errors[row] = RecordError("", limit, "more")
        taken.append(text)
    return taken, errors


def _numbers(values: Values, kind: FieldKind) -> Checked:
    """Finite numbers, or weights of 0 or more, as float64."""
    column: npt.NDArray[np.float64]
    try:
        is_array = isinstance(values, np.ndarray)
        column = np.asarray(values) if is_array else np.fromiter(values, np.float64, len(values))
    except TypeError:  # a None among them
        column = np.asarray([np.nan if value is None else value for value in values], np.float64)
    good = (column >= 0) & (column <= MAX_WEIGHT) if kind == "weight" else np.isfinite(column)
    if good.all():
        return column, {}
    given = listed(values)
    return column, {
        row: RecordError("", EXPECTED[kind], shown(given[row]))
        for row in np.flatnonzero(~good).tolist()
    }


def _moments(values: list[Any], unit: str | None) -> Checked:
    """Times as int64 microseconds since 1970."""
    column, wrong = time_column(values, unit)
    errors = {}
    for row in () if wrong is None else np.flatnonzero(wrong).tolist():
        error = RecordError.of(time_error(values[row], unit), expected=EXPECTED["time"])
        errors[row] = error._replace(field="")
    times = column.view(np.int64)
    if unit is not None and len(values) and int(times.min()) < EARLY_1970:
        for row, value in enumerate(values):
            if row not in errors and isinstance(value, (int, float)):
                remedy = unit_remedy(value, unit)
                if remedy:
                    errors[row] = RecordError("", f"a time in {unit}", shown(value), remedy)
    return times, errors


def _outside(times: IntArray, latest: int) -> dict[int, RecordError]:
    """The errors of times outside the range; one far ahead would make all others late."""
    if not len(times) or (int(times.min()) >= EARLIEST and int(times.max()) <= latest):
        return {}
    return {
        row: RecordError(
            "",
            f"a time from {iso_time(EARLIEST)} to {iso_time(latest)}",
            iso_time(int(times[row])),
            "set the clock of the machine that writes it, or raise fields.ahead",
        )
        for row in np.flatnonzero((times > latest) | (times < EARLIEST)).tolist()
    }


def _probabilities(values: list[Any], labels: RecordLabels) -> Checked:
    """Mappings label -> probability that add up to 1, or label -> score, by canonical labels."""
    errors: dict[int, RecordError] = {}
    if None not in values:
        table = probability_columns(values)
        if isinstance(table, dict):
            found = _relabelled(values[0], labels)
            if not isinstance(found, RecordError):
                matrix = np.column_stack(list(table.values()))
                good = (matrix >= 0.0).all(axis=1) & (np.abs(matrix.sum(axis=1) - 1) <= _NEARLY)
                good |= not labels.probabilities
                if good.all():
                    if all(type(name) is str for name in found):
                        return values, {}
                    names = list(found)
                    return [dict(zip(names, v.values(), strict=True)) for v in values], {}
    taken: list[Any] = []
    missing = RecordError("", EXPECTED["probabilities"], "null")
    for row, value in enumerate(values):
        one = missing if value is None else _one(value, labels)
        if isinstance(one, RecordError):
            errors[row] = one
        taken.append(one)
    return taken, errors


def _one(value: dict[str, float], labels: RecordLabels) -> dict[Label, float] | RecordError:
    if not labels.probabilities:
        return _relabelled(value, labels)
    try:
        # Before its labels are registered: a bad mapping must not register any.
        check_probabilities(value)
    except InputError as error:
        inside = error.field.removeprefix("proba")
        expected = f"{error.expected} in {inside}" if inside else error.expected
        return RecordError("", expected, error.got, error.remedy, error.remedy_code)
    return _relabelled(value, labels)


def _relabelled(value: dict[str, float], labels: RecordLabels) -> dict[Label, float] | RecordError:
    taken: dict[Label, float] = {}
    for text, share in value.items():
        label = labels.key(text)
        if isinstance(label, RecordError):
            return label
        if label in taken:
            return RecordError("", "each label once", f"{shown(text)} again")
        taken[label] = share
    return labels.unscored(taken) or taken
