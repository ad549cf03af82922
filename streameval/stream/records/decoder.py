"""Raw messages become columns of predictions, labels and complete records; the bad stay apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from streameval.errors import shown
from streameval.event_time import EARLIEST, LATEST, duration
from streameval.events import BoolArray, IntArray
from streameval.files.chunk import EXPECTED, Column, Wanted, taken
from streameval.files.json_faults import Fault, read_object
from streameval.stream.batch import BadEvent, Batch, Decoded, Kind, Records
from streameval.stream.config.settings import LONGEST_AHEAD, EvaluatorSettings, FieldSettings
from streameval.stream.records import columns as checks
from streameval.stream.records.fields import (
    Field,
    RecordFields,
    RecordReader,
    fault_text,
    record_fields,
)
from streameval.stream.records.labels import (
    LONGEST_NAME,
    LabelKind,
    RecordLabels,
    checked_values,
)

__all__ = ["RecordDecoder"]

_KINDS: tuple[Kind, ...] = ("records", "predictions", "labels")


class RecordDecoder:
    """Decodes the batches of a run.

    What a record is, its fields tell: with one of ``y_pred``, ``score`` or
    ``proba`` it is a prediction, with the true label as well it is complete, with
    the true label alone it is a label. A null is as good as a missing field.
    Without a join only complete records count; with one, every record needs its id,
    or nobody could tell when it comes twice. In a batch of ``labels`` only the
    label's own fields are looked at.

    Whatever the bytes are, nothing is raised: each message ends up in exactly one
    of the predictions, labels, complete and bad ones of the result. A record is
    taken or refused for what is in it, whatever comes beside it; but the first
    label of a multi-class run that does not list its labels decides whether
    labels are text or numbers (:attr:`label_kind`, to be kept with the run).

    Args:
        fields: Where records have what is wanted.
        evaluator: What is evaluated: its labels and slices.
        join: Whether labels may come apart.
        max_record_bytes: A longer message is bad.
        clock: Seconds since 1970: the time of a record that nobody else knows a
            time of, and the moment that a time may not be far ahead of.

    Cost:
        About 0.6 µs for a record of two fields in 66 bytes; about 10 µs for a bad one.

    Raises:
        InputError: A field's path is none, or two of them clash.

    >>> fields = FieldSettings(id="id", score="score")
    >>> decoder = RecordDecoder(fields, EvaluatorSettings(), join=True)
    >>> lines = [b'{"id": 7, "score": 0.5}', b'{"id": "7", "y_true": true}', b'{"id": 7}']
    >>> decoded = decoder.decode(Batch("files:a", "records", lines, [0, 24, 53], {"offset": 63}))
    >>> decoded.predictions.columns["id"], decoded.labels.columns["y_true"]
    (['7'], array([1]))
    >>> decoded.bad[0].detail
    'record: expected a prediction (score) or a label (y_true), got neither; the record has id'
    """

    def __init__(
        self,
        fields: FieldSettings,
        evaluator: EvaluatorSettings,
        join: bool,
        max_record_bytes: int = 1 << 20,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._fields = record_fields(fields, evaluator, join)
        self._readers = {kind: RecordReader(self._fields.of(kind)) for kind in _KINDS}
        self._labels = RecordLabels(evaluator)
        self._join = join
        self._most = max_record_bytes
        self._clock = clock
        ahead = LONGEST_AHEAD if fields.ahead is None else fields.ahead
        self._ahead = duration(ahead, "fields.ahead", zero=True)

    @property
    def label_kind(self) -> LabelKind | None:
        """Whether labels are ``"text"`` or ``"number"``; None while nobody knows."""
        return self._labels.kind

    @label_kind.setter
    def label_kind(self, kind: LabelKind | None) -> None:
        if self._labels.kind is None:
            self._labels.kind = kind

    def decode(self, batch: Batch) -> Decoded:
        """The records of a batch as columns; what is bad in words.

        The bad events that the batch brings are among those of the result.
        """
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
        reading.bad.sort(key=lambda event: event.place)
        decoded.bad = reading.bad
        return decoded

    def _open(self, batch: Batch) -> _Reading:
        now = int(self._clock() * 1e6)
        latest = min(LATEST, now + self._ahead)
        return _Reading(batch, self._readers[batch.kind], self._labels, now, latest)


class _Group(NamedTuple):
    """Records of one batch that are the same thing."""

    records: list[Any]
    rows: IntArray
    """Their places among the batch's messages."""

    def where(self, mask: BoolArray) -> _Group:
        if mask.all():
            return self
        return _Group(list(compress(self.records, mask.tolist())), self.rows[mask])


class _Reading:
    """One batch on its way."""

    __slots__ = ("_batch", "_labels", "_latest", "_now", "_places", "_reader", "_short", "bad")

    def __init__(
        self, batch: Batch, reader: RecordReader, labels: RecordLabels, now: int, latest: int
    ) -> None:
        self._batch = batch
        self._reader = reader
        self._labels = labels
        self._now = now
        self._latest = latest
        places = batch.places
        if isinstance(places, range):  # numpy would take it for a list
            self._places = np.arange(places.start, places.stop, places.step)
        else:
            self._places = np.asarray(places, dtype=np.int64)
        self._short = False
        self.bad = list(batch.bad)

    def read(self, most: int) -> _Group:
        """All messages that are records."""
        messages = self._batch.messages
        longest = max(map(len, messages), default=0)
        # What JSON text stands for is never longer than the text.
        self._short = longest <= LONGEST_NAME
        if longest <= most:
            records = self._reader.read_all(messages)
            if records is not None:
                return _Group(records, np.arange(len(messages)))
        records, rows = [], []
        for row, message in enumerate(messages):
            if len(message) > most:
                limit, got = f"at most {most:,} bytes", f"{len(message):,}"
                self._refuse(row, "too long", fault_text(Fault("", limit, got), "record"))
                continue
            record = self._reader.read(message)
            if isinstance(record, Fault):
                self._refuse(row, record.field, fault_text(record, self._path(record.field)))
            else:
                records.append(record)
                rows.append(row)
        return _Group(records, np.asarray(rows, dtype=np.int64))

    def present(self, group: _Group, fields: tuple[Field, ...]) -> BoolArray:
        """Which records have any of these fields."""
        found = np.zeros(len(group.records), dtype=np.bool_)
        for field in fields:
            values = list(map(self._reader.getters[field.want.path], group.records))
            missing = values.count(None)
            if not missing:
                found[:] = True
            elif missing < len(values):
                found |= np.asarray([value is not None for value in values])
        return found

    def columns(self, group: _Group, fields: tuple[Field, ...]) -> Records | None:
        """The columns of records that need all of these fields; None where no record is good."""
        if not group.records:
            return None
        columns: dict[str, Column] = {}
        faults: dict[int, tuple[Field, Fault | None]] = {}
        for field in fields:
            values = list(map(self._reader.getters[field.want.path], group.records))
            columns[field.column], wrong = self._checked(field, values)
            for place, fault in wrong.items():
                faults.setdefault(place, (field, None if values[place] is None else fault))
        if "time" not in columns:
            columns["time"] = self._times(group.rows)
        times = columns["time"]
        assert isinstance(times, np.ndarray)
        for place, outside in checks.refuse_outside(times, EARLIEST, self._latest).items():
            faults.setdefault(place, (_TIME, outside))
        rows = group.rows
        if faults:
            for place, (field, known) in faults.items():
                row = int(rows[place])
                fault = known or self._reader.missing(self._batch.messages[row], field)
                self._refuse(row, field.column, fault_text(fault, field.want.path))
            keep = np.ones(len(rows), dtype=np.bool_)
            keep[list(faults)] = False
            if not keep.any():
                return None
            columns = {name: taken(column, keep) for name, column in columns.items()}
            rows = rows[keep]
        return Records(
            columns, self._places if len(rows) == len(self._places) else self._places[rows]
        )

    def _checked(self, field: Field, values: list[Any]) -> checks.Checked:
        kind = field.want.kind
        if kind == "id":
            return checks.ids(values, self._short)
        if kind == "label":
            return self._labels.column(values, self._short)
        if kind == "slice":
            return checked_values(values, self._short, EXPECTED["slice"])
        if kind == "time":
            return checks.moments(values, field.want.unit)
        if kind == "probabilities":
            return checks.probabilities(values, self._labels)
        return checks.weights(values) if kind == "weight" else checks.numbers(values)

    def _times(self, rows: IntArray) -> IntArray:
        """The times that the broker or the inbox gives, or the time of reading."""
        given = self._batch.times
        if given is None:
            return np.full(len(rows), self._now, dtype=np.int64)
        return np.asarray(given, dtype=np.int64)[rows]

    def refuse(self, group: _Group, fields: RecordFields, kind: Kind) -> None:
        """Records that are neither prediction nor label."""
        wanted = f"a prediction ({' or '.join(field.want.path for field in fields.marks)})"
        if kind == "records":
            wanted += f" or a label ({fields.label_truths[0].want.path})"
        for row in group.rows.tolist():
            found = read_object(self._batch.messages[row])
            names = shown(", ".join(list(found)[:12]))[1:-1] if isinstance(found, dict) else ""
            fault = Fault("record", wanted, f"neither; the record has {names or 'no fields'}")
            self._refuse(row, "record", fault_text(fault, "record"))

    def _path(self, column: str) -> str:
        return next((f.want.path for f in self._reader.fields if f.column == column), column)

    def _refuse(self, row: int, reason: str, detail: str) -> None:
        place = int(self._places[row])
        self.bad.append(BadEvent(place, reason, detail, self._batch.messages[row]))


_TIME = Field("time", Wanted("time", "time"))
