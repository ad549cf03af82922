"""An evaluator updated with chunks of records: which columns, which labels, which is positive."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from streameval.errors import InputError, StreamevalError, shown
from streameval.evaluator.comparison import Comparison
from streameval.evaluator.evaluator import Evaluator
from streameval.events.time import NANOSECONDS, iso_time, unit_remedy
from streameval.events.values import MAX_CLASSES, Label, is_missing
from streameval.records.chunk import KEPT, BadRecord, BadRecords, Chunk
from streameval.records.event_columns import SLICE, Column, EventColumns, count_events, joined
from streameval.records.label_text import is_fraction, label_from_text, likely_type
from streameval.records.spec import Spec

BATCH_ROWS = 1 << 18
"""Records passed to the evaluator at once: a larger batch takes memory, a smaller one
makes the score index merge more often."""

_BATCH_CELLS = 1 << 21
"""The same in numbers, for records that hold a probability for each of many labels."""

_LISTED = 8


class BadRecordError(StreamevalError):
    """The first bad record, where bad records stop the run."""

    def __init__(self, record: BadRecord) -> None:
        super().__init__(str(record))
        self.record = record


class Feed:
    """Counts the records of chunks with one evaluator.

    Args:
        request: What to read, and how to evaluate it.
        skip: Skip and count bad records; otherwise the first one raises
            BadRecordError.
    """

    def __init__(self, request: Spec, *, skip: bool) -> None:
        self.request = request
        self._skip = skip
        self._chunks: list[Chunk] = []
        self._pending = 0
        self._pairs = request.proba_pairs
        self._evaluator: Evaluator | Comparison | None = None
        self._read_label: Any = None
        self._sample: Any = None
        self._apart: tuple[set[Any], set[Any]] | None = (set(), set())
        self.slices_without_value = list(request.slice_fields)
        """Slice fields without a value in any record so far."""
        self.rows = 0
        self.bad = BadRecords()

    def add(self, chunk: Chunk) -> None:
        """Add a chunk; its records are counted now or with a later chunk's."""
        if self._chunks and not _of_one_batch(self._chunks[-1].events, chunk.events):
            self.flush()
        self._chunks.append(chunk)
        self._pending += chunk.events.rows
        width = sum(map(_width, chunk.events.columns.values()))
        full = self._pending >= min(BATCH_ROWS, _BATCH_CELLS // max(1, width - 3) + 1)
        if full or (chunk.bad.count and not self._skip):
            self.flush()

    def finish(self) -> Evaluator | Comparison:
        """Count the rest; the evaluator of all records."""
        self.flush()
        self._check_overlap()
        if self._evaluator is None:
            self._evaluator = _open_evaluator(self.request, None)
        return self._evaluator

    @property
    def evaluator(self) -> Evaluator | Comparison | None:
        """What counts the records; None before the first."""
        return self._evaluator

    def __getstate__(self) -> dict[str, Any]:
        # To another process of this call: plain arrays, without the checksums of a file.
        counted = self._evaluator and (type(self._evaluator), self._evaluator.to_state())
        return {**vars(self), "_read_label": None, "_evaluator": counted}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self._evaluator is not None:
            kind, data = state["_evaluator"]
            self._evaluator = kind.from_state(data)
        self._know_label(self._sample)

    def part(self) -> Feed:
        """A feed of other records of the same stream, for :meth:`add_part`.

        It counts and refuses the same records as this one, which has counted some: labels,
        their types and slices are those that this one knows.
        """
        assert isinstance(self._evaluator, Evaluator)
        new = Feed(self.request, skip=self._skip)
        new._evaluator = self._evaluator.delta()
        new._know_label(self._sample)
        return new

    def add_part(self, part: Feed) -> None:
        """Add the records that a part has counted; bad ones of several parts are in no order.

        Raises:
            StateError: Both have labels that do not belong together.
        """
        assert isinstance(self._evaluator, Evaluator)
        assert isinstance(part._evaluator, Evaluator)
        self._evaluator.add_events(part._evaluator)
        self.rows += part.rows
        self.bad.count_only(part.bad.reasons)
        self.bad.first += part.bad.first
        empty = set(part.slices_without_value)
        self.slices_without_value = [path for path in self.slices_without_value if path in empty]
        if self._apart is None or part._apart is None:
            self._apart = None
        else:
            (true, predicted), (more_true, more_predicted) = self._apart, part._apart
            self._apart = true | more_true, predicted | more_predicted
            if self._apart[0] & self._apart[1]:
                self._apart = None

    def flush(self) -> None:
        """Count the pending chunks as one batch."""
        events = joined([chunk.events for chunk in self._chunks])
        sources = [chunk.source for chunk in self._chunks]
        ends = list(accumulate(chunk.events.rows for chunk in self._chunks))
        found: list[tuple[int, BadRecord]] = []
        for number, chunk in enumerate(self._chunks):
            self.bad.count_only(chunk.bad.reasons)
            found += [(number, record) for record in chunk.bad.first]
        self._chunks, self._pending = [], 0  # joined: not kept twice
        if events.rows:
            found += self._count(events, sources, ends)
        found.sort(key=lambda pair: (pair[0], pair[1].line))
        self.bad.first.extend(record for _, record in found[: KEPT - len(self.bad.first)])
        if self.bad.first and not self._skip:
            raise BadRecordError(self.bad.first[0])

    def _count(
        self, events: EventColumns, sources: list[str], ends: list[int]
    ) -> list[tuple[int, BadRecord]]:
        """Count a batch; the first ten records that are rejected, and their chunks' numbers."""
        columns = events.columns
        self._note_labels(columns)
        self.slices_without_value = [
            path for path in self.slices_without_value if all(map(is_missing, columns[path]))
        ]
        if self._evaluator is None:
            self._open(columns)
        assert self._evaluator is not None
        rejected: list[tuple[int, BadRecord]] = []
        named = EventColumns(self._named(columns), events.places)
        self.rows += events.rows
        for row, error in count_events(self._evaluator, named):
            number = bisect_right(ends, row)
            record = self._bad_record(sources[number], int(events.places[row]), error)
            self.rows -= 1
            self.bad.count_only({record.reason: 1})
            if len(rejected) < KEPT:
                rejected.append((number, record))
            if not self._skip:
                break
        return rejected

    def _note_labels(self, columns: dict[str, Column]) -> None:
        """Collect the true and the predicted labels until one is in both."""
        request = self.request
        if self._apart is None or not request.predicted or request.labels is not None:
            return
        if request.task_fields["y_true"] != "label":
            return
        true, predicted = self._apart
        paths = [(predicted, path) for path in request.predicted]
        for labels, path in [(true, request.y_true), *paths]:
            if len(labels) <= MAX_CLASSES:  # else they are ids, which the evaluator rejects
                labels.update(_distinct(columns[path]))
        if self._apart[0] & self._apart[1]:
            self._apart = None

    def _check_overlap(self) -> None:
        """Raise InputError where true and predicted labels have none in common."""
        if self._apart is None or len(self._apart[0]) < 2 or not self._apart[1]:
            return
        true, predicted = (sorted(labels, key=str)[:3] for labels in self._apart)
        fractions = all(isinstance(one, str) and is_fraction(one) for one in predicted)
        wording = self.request.wording
        raise InputError(
            wording.where("y_pred"),
            expected=f"some of the labels in {self.request.y_true!r}: "
            + ", ".join(map(shown, true)),
            got=", ".join(map(shown, predicted)),
            remedy=f"a fraction is a score: name its field with {wording.option('score')}, and the "
            f"positive label with {wording.option('positive')}"
            if fractions
            else "if they are labels of the same task, list all of them with "
            + wording.option("labels"),
        )

    def _open(self, columns: dict[str, Column]) -> None:
        if self.request.time is not None:
            _check_time_unit(self.request, columns[self.request.time])
        first = columns[self.request.y_true]
        self._evaluator = _open_evaluator(self.request, first)
        self._know_label(_first(first))

    def _know_label(self, sample: object) -> None:
        """Note a true label: probabilities have labels of its type."""
        self._sample = sample
        self._read_label = _label_reader(sample)

    def _named(self, columns: dict[str, Column]) -> dict[str, Column]:
        """The columns under the names of an evaluator's columns."""
        request = self.request
        named = {name: columns[path] for name, path in request.fields.items()}
        if request.time is not None:
            times: Any = columns[request.time]
            named["time"] = times.view(np.int64)
        named |= {f"{SLICE}{path}": columns[path] for path in request.slice_fields}
        if self._pairs:
            shares: dict[Any, Any] = {
                self._proba_label(text): columns[path] for text, path in self._pairs
            }
            named["proba"] = shares
            if request.binary:
                assert isinstance(self._evaluator, Evaluator)
                positive = self._evaluator.labels[1]
                if positive not in shares:
                    raise InputError(
                        request.wording.where("proba"),
                        expected=f"a column for the positive label {shown(positive)}",
                        got=", ".join(map(shown, shares)),
                    )
                if len(shares) == 1:
                    # A column of numbers: records need no probability of the other label.
                    named["proba"] = shares[positive]
        elif request.proba is not None:
            assert isinstance(request.proba, str)
            named["proba"] = self._relabelled(columns[request.proba])
        return named

    def _relabelled(self, column: Column) -> Column:
        """Probabilities under labels of the true labels' type: a JSON key is always text."""
        if isinstance(column, np.ndarray):
            return column if column.ndim == 1 else self._labelled(column)
        if isinstance(column, dict):
            return {self._key(text): values for text, values in column.items()}
        return list(map(self._of_one_record, column))

    def _of_one_record(self, shares: Any) -> Any:
        """A record's probabilities under the labels, where others have another form."""
        if isinstance(shares, list):
            shares = dict(zip(self._list_labels, shares, strict=True))
        if isinstance(shares, dict):
            return {self._key(text): share for text, share in shares.items()}
        return shares

    @property
    def _list_labels(self) -> Sequence[Any]:
        """The labels of a list of probabilities, in their order."""
        assert self._evaluator is not None
        given = self.request.labels
        return self._evaluator.labels if given is None else given

    def _labelled(self, block: Any) -> Column:
        """A block of probabilities under the labels, whose order its columns have."""
        request = self.request
        labels = self._list_labels
        if request.labels is None and not request.binary:
            raise InputError(
                request.wording.where("proba"),
                expected=f"{request.wording.option('labels')} with the labels of its columns",
                got=f"{block.shape[1]} probabilities without labels",
                remedy=f"add {request.wording.option('labels', '[LABEL, ...]')}, in their order",
            )
        if block.shape[1] != len(labels):
            raise InputError(
                request.wording.where("proba"),
                expected=f"{len(labels)} probabilities, of {', '.join(map(shown, labels[:8]))}",
                got=f"{block.shape[1]}",
            )
        return {self._key(label): block[:, n] for n, label in enumerate(labels)}

    def _key(self, text: Any) -> Any:
        try:
            return self._read_label(text)
        except InputError:
            return text  # the evaluator rejects it beside numbers, with its position

    def _proba_label(self, text: Any) -> Any:
        try:
            return self._read_label(text)
        except InputError as error:
            raise InputError(
                self.request.wording.where("proba"),
                expected="labels that are numbers, as the true labels are",
                got=error.got,
            ) from None

    def _bad_record(self, source: str, line: int, error: InputError) -> BadRecord:
        request = self.request
        paths = {
            **request.fields,
            "event_time": request.time,
            "proba": request.proba if isinstance(request.proba, str) and not self._pairs else None,
            **{f"slices[{path!r}]": path for path in request.slice_fields},
            **{
                f"{name}[{model!r}]": path
                for model, fields in request.models.items()
                for name, path in fields.items()
            },
        }
        name, bracket, key = error.field.partition("[")  # proba['cat']
        field = paths.get(error.field) or (paths.get(name) or name) + bracket + key
        return BadRecord(
            source, line, field, error.expected, error.got, error.remedy, error.remedy_code
        )


def _of_one_batch(one: EventColumns, other: EventColumns) -> bool:
    """Whether two chunks can be joined: their probabilities are of the same labels."""
    return all(
        _share_labels(column) == _share_labels(other.columns[path])
        for path, column in one.columns.items()
    )


def _share_labels(column: Column) -> list[Any] | None:
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return [column.shape[1]]
    return list(column) if isinstance(column, dict) else None


def _width(column: Column) -> int:
    """Numbers a record: one, or one for each label."""
    if isinstance(column, dict):
        return len(column)
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return int(column.shape[1])
    if isinstance(column, list) and column and isinstance(column[0], dict):
        # Mappings that differ: a dict takes as much memory as ten numbers a label.
        return 10 * len(column[0]) + 10
    return 1


def _label_reader(sample: object) -> Callable[[Any], Label]:
    """Reads text of the command line, or a JSON key, as a label of the type of ``sample``.

    What is no text is returned as it is: the evaluator checks it.

    >>> _label_reader(0)("1"), _label_reader("ham")("1")
    (1, '1')
    """
    if isinstance(sample, str):
        return lambda text: text

    def number(text: Any) -> Label:
        if not isinstance(text, str):
            return text  # type: ignore[no-any-return]
        if text.lower() in ("true", "false"):
            return int(text.lower() == "true")
        return int(label_from_text(text, "int"))

    return number


def _check_time_unit(request: Spec, times: Any) -> None:
    """Reject a unit of times by which half of the first records are in early 1970.

    Raises:
        InputError: By another unit they are between 1990 and 2100.
    """
    if request.time_unit is None:
        return
    middle = len(times) // 2
    moment = int(np.partition(times.view(np.int64), middle)[middle])
    remedy = unit_remedy(moment * 1_000 // NANOSECONDS[request.time_unit], request.time_unit)
    if remedy:
        raise InputError(
            request.wording.where("time_unit"),
            expected=f"the unit of the times in {request.time!r}",
            got=f"{request.time_unit}, by which a typical one is {iso_time(moment)}",
            remedy=remedy,
        )


def _open_evaluator(request: Spec, first: Column | None) -> Evaluator | Comparison:
    """The evaluator for a request; a comparison where it names models.

    Args:
        request: What to read, and how to evaluate it.
        first: True labels of the first records; None where there are none.

    Raises:
        InputError: The positive label is not known.
        MetricError: A metric that the task does not have.
    """
    options = request.arguments
    if request.labels is not None:
        options["labels"] = _labels(request.labels, first, request)
    if request.binary:
        options["positive"] = positive = _positive(request, first)
        if request.negative is not None:
            options["labels"] = [*_labels((request.negative,), first, request), positive]
    if request.models:
        return Comparison(list(request.models), request.kind, **options)
    return Evaluator(request.kind, **options)


def _labels(texts: tuple[Any, ...], first: Column | None, request: Spec) -> list[Label]:
    """The labels of ``labels`` or ``positive``, of the records' type."""
    name = "labels" if texts is request.labels else "positive"
    if texts == (request.negative,):
        name = "negative"
    option = request.wording.where(name)
    if first is None:
        # No record has a label: numbers are assumed to be of 0 and 1.
        sample: Any = "" if likely_type(map(str, texts)) == "str" else 0
    else:
        sample = _first(first)
    read = _label_reader(sample)
    labels: list[Label] = []
    for text in texts:
        try:
            labels.append(read(text))
        except InputError:
            raise InputError(
                option, expected=f"a number like the label {shown(sample)}", got=shown(text)
            ) from None
    return labels


def _positive(request: Spec, first: Column | None) -> Label:
    if request.positive is not None:
        return _labels((request.positive,), first, request)[0]
    if request.labels is not None:
        labels = _labels(request.labels, first, request)
    elif first is not None:
        labels = sorted(_distinct(first), key=lambda label: (str(type(label)), label))
        labels = [label for label in labels if not is_missing(label)]
        if request.negative is not None:
            (negative,) = _labels((request.negative,), first, request)
            others = [label for label in labels if label != negative]
            if len(others) == 1:
                return others[0]
            if negative != 1 and 1 in others:
                return 1
    else:
        return 1
    # Beside 0 and 1 another label is a bad record, which the evaluator rejects.
    if all(label in (0, 1) for label in labels) or {0, 1} <= set(labels):
        return 1
    listed = ", ".join(shown(label) for label in labels[:_LISTED])
    more = f" and {len(labels) - _LISTED} more" if len(labels) > _LISTED else ""
    raise InputError(
        request.wording.where("positive"),
        expected="the label that counts as positive",
        got=f"nothing; the labels of {request.y_true!r} are {listed}{more}",
        remedy=f"give {request.wording.option('positive', 'LABEL')}",
    )


def _first(column: Any) -> Any:
    return column[0].item() if isinstance(column, np.ndarray) else column[0]


def _distinct(column: Any) -> set[Any]:
    if isinstance(column, np.ndarray):
        # numpy.unique makes one nan of all, but imports numpy.ma, which takes 20 ms.
        column = (np.unique(column) if column.dtype.kind == "f" else column).tolist()
    return set(column)
