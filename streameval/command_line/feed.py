"""Batches go into the evaluator; the records that it refuses come out with file and line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streameval.command_line.batches import Batch, BatchBuilder, Place
from streameval.command_line.request import Request, probability_pairs
from streameval.command_line.task import (
    check_time_unit,
    first_label,
    label_reader,
    open_evaluator,
)
from streameval.errors import InputError, StreamevalError, shown
from streameval.evaluator import Evaluator
from streameval.events import MAX_CLASSES, is_missing
from streameval.files.chunk import KEPT, BadRecord, BadRecords, Chunk, Column
from streameval.files.label_text import is_fraction

__all__ = ["BadRecordError", "Feed"]

_ONE_BY_ONE = 64
"""Records counted singly where one was refused: a call with columns costs as much as 20."""


class BadRecordError(StreamevalError):
    """The first bad record, where bad records stop the run."""


class Feed:
    """Counts the records of chunks with one evaluator.

    Args:
        request: What to evaluate.
        skip: Leave bad records out and count them; otherwise the first one
            raises BadRecordError.
    """

    def __init__(self, request: Request, *, skip: bool) -> None:
        self._request = request
        self._skip = skip
        self._builder = BatchBuilder()
        self._pairs = probability_pairs(request.proba)
        self._evaluator: Evaluator | None = None
        self._read_label: Any = None
        self._apart: tuple[set[Any], set[Any]] | None = (set(), set())
        self.slices_without_value = list(request.slice_fields)
        """Fields to slice by of which no record so far had a value."""
        self.rows = 0
        self.bad = BadRecords()

    def add(self, chunk: Chunk) -> None:
        """Take a chunk; its records are counted now or with a later chunk's."""
        if not self._builder.fits(chunk):
            self._flush()
        self._builder.add(chunk)
        if self._builder.full or (self._builder.has_bad and not self._skip):
            self._flush()

    def finish(self) -> Evaluator:
        """Count what is left over; the evaluator of all records."""
        self._flush()
        self._check_overlap()
        if self._evaluator is None:
            self._evaluator = open_evaluator(self._request, None)
        return self._evaluator

    def _flush(self) -> None:
        batch = self._builder.take()
        found = batch.bad
        self.bad.count_only(batch.reasons)
        if batch.rows:
            self._note_labels(batch)
            self.slices_without_value = [
                path
                for path in self.slices_without_value
                if all(map(is_missing, batch.columns[path]))
            ]
            before = self.bad.count
            found = found + self._count(batch)
            self.rows += batch.rows - (self.bad.count - before)
        found = sorted(found, key=lambda pair: pair[0])
        self.bad.first.extend(record for _, record in found[: KEPT - len(self.bad.first)])
        if self.bad.first and not self._skip:
            raise BadRecordError(str(self.bad.first[0]))

    def _note_labels(self, batch: Batch) -> None:
        """Collect the true and the predicted labels until one is in both."""
        request = self._request
        if self._apart is None or request.y_pred is None or request.labels is not None:
            return
        for labels, path in zip(self._apart, (request.y_true, request.y_pred), strict=True):
            column = batch.columns[path]
            if len(labels) <= MAX_CLASSES:  # else they are ids, and will be refused
                labels.update(
                    np.unique(column).tolist() if isinstance(column, np.ndarray) else column
                )
        if self._apart[0] & self._apart[1]:
            self._apart = None

    def _check_overlap(self) -> None:
        """Raises InputError where no predicted label is ever a true one, or the reverse."""
        if self._apart is None or len(self._apart[0]) < 2 or not self._apart[1]:
            return
        true, predicted = (sorted(labels, key=str)[:3] for labels in self._apart)
        fractions = all(isinstance(one, str) and is_fraction(one) for one in predicted)
        raise InputError(
            "--y-pred",
            expected=f"some of the labels in {self._request.y_true!r}: "
            + ", ".join(map(shown, true)),
            got=", ".join(map(shown, predicted)),
            remedy="a fraction is a score: name its field with --score, and the positive label "
            "with --positive"
            if fractions
            else "if they are labels of the same task, list all of them with --labels",
        )

    def _count(self, batch: Batch) -> list[tuple[Place, BadRecord]]:
        """Count the batch without the records that the evaluator refuses; the first ten of these.

        A refused call counted nothing and names one record that it cannot
        take. Those before it are counted first, alone. From there some records
        go one by one, for the bad ones often come in crowds; then in growing
        steps again.
        """
        if self._evaluator is None:
            self._open(batch)
        evaluator = self._evaluator
        assert evaluator is not None
        columns = self._arguments(batch)
        refused: list[tuple[Place, BadRecord]] = []
        start = 0
        step = batch.rows
        while start < batch.rows and (self._skip or not refused):
            stop = min(start + step, batch.rows)
            try:
                evaluator.update_many(
                    **{name: _rows(c, start, stop) for name, c in columns.items()}
                )
            except InputError as error:
                before = (stop - start) // 2 if error.position is None else error.position
                if 0 < before < stop - start:
                    step = before
                    continue
            else:
                start = stop
                step *= 2
                continue
            step = _ONE_BY_ONE
            stop = min(start + step, batch.rows)
            for position, event in enumerate(_events(columns, start, stop), start):
                try:
                    evaluator.update(**event)
                except InputError as error:
                    place = batch.place(position)
                    record = self._bad_record(place, error)
                    self.bad.count_only({record.reason: 1})
                    if len(refused) < KEPT:
                        refused.append((place, record))
            start = stop
        return refused

    def _open(self, batch: Batch) -> None:
        check_time_unit(self._request, batch)
        self._evaluator = open_evaluator(self._request, batch)
        self._read_label = label_reader(first_label(batch.columns[self._request.y_true]))

    def _arguments(self, batch: Batch) -> dict[str, Any]:
        """The batch as keyword arguments of ``update_many``."""
        request, columns = self._request, batch.columns
        arguments: dict[str, Any] = {"y_true": columns[request.y_true]}
        for name, path in (
            ("y_pred", request.y_pred),
            ("score", request.score),
            ("weight", request.weight),
            ("event_time", request.time),
        ):
            if path is not None:
                arguments[name] = columns[path]
        if request.slices:
            arguments["slices"] = {path: columns[path] for path in request.slice_fields}
        if self._pairs:
            shares = {self._label("--proba", text): columns[path] for text, path in self._pairs}
            arguments["proba"] = shares
            if request.binary:
                assert self._evaluator is not None
                positive = self._evaluator.labels[1]
                if positive not in shares:
                    raise InputError(
                        "--proba",
                        expected=f"a column for the positive label {shown(positive)}",
                        got=", ".join(map(shown, shares)),
                    )
                if len(shares) == 1:
                    # A column of numbers: its records need no other label's.
                    arguments["proba"] = shares[positive]
        elif request.proba is not None:
            arguments["proba"] = self._relabelled(columns[request.proba])
        return arguments

    def _relabelled(self, column: Column) -> Column:
        """Probabilities under labels of the true labels' type: a JSON key is always text."""
        if isinstance(column, np.ndarray):
            return column
        if isinstance(column, dict):
            return {self._key(text): values for text, values in column.items()}
        return [
            {self._key(text): share for text, share in shares.items()}
            if isinstance(shares, dict)
            else shares
            for shares in column
        ]

    def _key(self, text: Any) -> Any:
        try:
            return self._read_label(text)
        except InputError:
            return text  # the evaluator refuses it beside numbers, with its position

    def _label(self, option: str, text: str) -> Any:
        try:
            return self._read_label(text)
        except InputError as error:
            raise InputError(
                option, expected="labels that are numbers, as the true labels are", got=error.got
            ) from None

    def _bad_record(self, place: Place, error: InputError) -> BadRecord:
        paths = {
            "y_true": self._request.y_true,
            "y_pred": self._request.y_pred,
            "score": self._request.score,
            "proba": None if self._pairs else self._request.proba,
            "weight": self._request.weight,
            "event_time": self._request.time,
            **{f"slices[{path!r}]": path for path in self._request.slice_fields},
        }
        name, bracket, key = error.field.partition("[")  # proba['cat']
        return BadRecord(
            place.source,
            place.line,
            paths.get(error.field) or (paths.get(name) or name) + bracket + key,
            error.expected,
            error.got,
            _remedy(error.remedy),
        )


def _remedy(remedy: str) -> str:
    """The library's advice in terms of the command line."""
    if remedy.startswith("pass labels=[negative"):
        return "name both with --labels, or give --task multiclass for more than two labels"
    if remedy.startswith("pass labels="):
        return "give --positive, or --task multiclass for more than two labels"
    if remedy.startswith('pass task="multiclass"'):
        return "give --task multiclass for more than two labels"
    if remedy.startswith("a fraction is a score"):
        return "a fraction is a score: name its field with --score"
    return remedy


def _events(columns: dict[str, Column], start: int, stop: int) -> Iterator[dict[str, Any]]:
    """Some records as keyword arguments of ``update``."""
    values = [_values(_rows(column, start, stop)) for column in columns.values()]
    return (dict(zip(columns, event, strict=True)) for event in zip(*values, strict=True))


def _values(column: Column) -> list[Any]:
    if isinstance(column, dict):
        shares = zip(*map(_values, column.values()), strict=True)
        return [dict(zip(column, share, strict=True)) for share in shares]
    if isinstance(column, np.ndarray):
        # Python's own datetime would come without its zone.
        return list(column) if column.dtype.kind == "M" else column.tolist()
    return column


def _rows(column: Column, start: int, stop: int) -> Column:
    if isinstance(column, dict):
        return {label: values[start:stop] for label, values in column.items()}
    part: np.ndarray[Any, Any] | list[Any] = column[start:stop]
    return part
