"""An evaluator updated with chunks of records: which columns, which labels, which is positive."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from streameval.errors import InputError, StreamevalError, shown
from streameval.evaluator.comparison import Comparison
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.predictions import Predictions
from streameval.events.time import NANOSECONDS, iso_time, unit_remedy
from streameval.events.values import MAX_CLASSES, Label, LabelColumn, is_missing
from streameval.records.chunk import KEPT, BadRecords, Chunk, RecordError
from streameval.records.event_columns import (
    SLICE,
    Column,
    EventColumns,
    count_events,
    distinct_values,
    joined,
    part_column,
)
from streameval.records.label_text import is_fraction, is_number, label_from_text, likely_type
from streameval.records.spec import Spec
from streameval.records.wording import Wording

BATCH_ROWS = 1 << 18
"""Records passed to the evaluator at once: a larger batch takes memory, a smaller one
makes the score index merge more often."""

_BATCH_CELLS = 1 << 21
"""The same in numbers, for records that hold a probability for each of many labels."""

_LISTED = 8


class BadRecordError(StreamevalError):
    """The first bad record, where bad records stop the run."""

    def __init__(self, record: RecordError) -> None:
        super().__init__(str(record))
        self.record = record


class RecordCounter:
    """Counts the records of chunks with one evaluator; skips bad ones, or raises BadRecordError."""

    def __init__(self, spec: Spec, *, skip: bool) -> None:
        self.spec = spec
        self._skip = skip
        self._chunks: list[Chunk] = []
        self._pending = 0
        self._pairs = {name: spec.pairs(name) for name in ("y_true", "y_pred", "proba")}
        self.evaluator: Evaluator | Comparison | None = None
        """Counts the records; None before the first."""
        self._read_label: Any = None
        self._sample: Any = None
        compared = spec.predicted and spec.labels is None
        compared = compared and spec.task_fields["y_true"] == "label" and spec.y_true is not None
        self._apart: tuple[set[Any], set[Any]] | None = (set(), set()) if compared else None
        self.slices_without_value = list(spec.slice_fields)
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

    def count(self, chunks: Iterable[Chunk]) -> Evaluator | Comparison:
        """Count the records of chunks and finish; the evaluator of all records."""
        for chunk in chunks:
            self.add(chunk)
        return self.finish()

    def finish(self) -> Evaluator | Comparison:
        """Count the rest; the evaluator of all records."""
        self.flush()
        self._check_overlap()
        if self.evaluator is None:
            self.evaluator = _open_evaluator(self.spec, None)
        return self.evaluator

    def __getstate__(self) -> dict[str, Any]:
        # To another process of this call: plain arrays, without the checksums of a file.
        counted = self.evaluator and (type(self.evaluator), self.evaluator.to_state())
        return {**vars(self), "_read_label": None, "evaluator": counted}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.evaluator is not None:
            kind, data = state["evaluator"]
            self.evaluator = kind.from_state(data)
        self._know_label(self._sample)

    def part(self) -> RecordCounter:
        """A counter of other records of the stream, for :meth:`add_part`, with the same labels."""
        assert isinstance(self.evaluator, Evaluator)
        new = RecordCounter(self.spec, skip=self._skip)
        new.evaluator = self.evaluator.delta()
        new._know_label(self._sample)
        return new

    def add_part(self, part: RecordCounter) -> None:
        """Add the records that a part has counted; bad ones of several parts are in no order."""
        assert isinstance(self.evaluator, Evaluator)
        assert isinstance(part.evaluator, Evaluator)
        self.evaluator.add_events(part.evaluator)
        self.rows += part.rows
        self.bad.count_only(part.bad.reasons)
        self.bad.first += part.bad.first
        empty = set(part.slices_without_value)
        self.slices_without_value = [path for path in self.slices_without_value if path in empty]
        if self._apart is None or part._apart is None:
            self._apart = None
        else:
            self._note_apart(*part._apart)

    def flush(self) -> None:
        """Count the pending chunks as one batch."""
        events = joined([chunk.events for chunk in self._chunks])
        sources = [chunk.source for chunk in self._chunks]
        ends = list(accumulate(chunk.events.rows for chunk in self._chunks))
        found: list[tuple[int, RecordError]] = []
        for number, chunk in enumerate(self._chunks):
            self.bad.count_only(chunk.bad.reasons)
            found += [(number, record) for record in chunk.bad.first]
        self._chunks, self._pending = [], 0  # joined: not kept twice
        if events.rows:
            found += self._count_batch(events, sources, ends)
        found.sort(key=lambda pair: (pair[0], pair[1].place))
        self.bad.first.extend(record for _, record in found[: KEPT - len(self.bad.first)])
        if self.bad.first and not self._skip:
            raise BadRecordError(self.bad.first[0])

    def _count_batch(
        self, events: EventColumns, sources: list[str], ends: list[int]
    ) -> list[tuple[int, RecordError]]:
        """Count a batch; the first ten records that are rejected, and their chunks' numbers."""
        columns = events.columns
        self._note_labels(columns)
        self.slices_without_value = [
            path
            for path in self.slices_without_value
            if all(map(is_missing, distinct_values(columns[f"{SLICE}{path}"])))
        ]
        if self.evaluator is None:
            self._open(columns)
        assert self.evaluator is not None
        rejected: list[tuple[int, RecordError]] = []
        named = EventColumns(self._named(columns), events.places).canonical()
        self.rows += events.rows
        for row, error in count_events(self.evaluator, named):
            number = bisect_right(ends, row)
            record = RecordError.of(error, self._path_of(error.field))
            record = record.at(sources[number], int(events.places[row]))
            self.rows -= 1
            self.bad.count_only({record.counted_as: 1})
            if len(rejected) < KEPT:
                rejected.append((number, record))
            if not self._skip:
                break
        return rejected

    def _note_labels(self, columns: dict[str, Column]) -> None:
        """Collect the true and the predicted labels until one is in both."""
        if self._apart is None:
            return
        true, predicted = self._apart
        for name, column in columns.items():
            labels = {"y_true": true, "y_pred": predicted}.get(name.partition(":")[0])
            # More labels are ids, which the evaluator rejects.
            if labels is not None and len(labels) <= MAX_CLASSES:
                labels.update(distinct_values(column))
        self._note_apart(true, predicted)

    def _note_apart(self, true: set[Any], predicted: set[Any]) -> None:
        assert self._apart is not None
        true, predicted = self._apart[0] | true, self._apart[1] | predicted
        self._apart = None if true & predicted else (true, predicted)

    def _check_overlap(self) -> None:
        """Raise InputError where true and predicted labels have none in common."""
        if self._apart is None or len(self._apart[0]) < 2 or not self._apart[1]:
            return
        true, predicted = (sorted(labels, key=str)[:3] for labels in self._apart)
        fractions = all(isinstance(one, str) and is_fraction(one) for one in predicted)
        wording = self.spec.wording
        raise InputError(
            wording.where("y_pred"),
            expected=f"some of the labels in {self.spec.y_true!r}: " + ", ".join(map(shown, true)),
            got=", ".join(map(shown, predicted)),
            remedy=f"a fraction is a score: name its field with {wording.option('score')}, and the "
            f"positive label with {wording.option('positive')}"
            if fractions
            else "if they are labels of the same task, list all of them with "
            + wording.option("labels"),
        )

    def _open(self, columns: dict[str, Column]) -> None:
        if self.spec.time is not None:
            _check_time_unit(self.spec, columns["time"])
        first = columns.get("y_true", columns.get("y_pred"))
        _check_no_numbers(self.spec, first)
        self.evaluator = _open_evaluator(self.spec, first)
        self._know_label(_sample(self.spec, first))

    def _know_label(self, sample: object) -> None:
        """Note a true label: probabilities have labels of its type."""
        self._sample = sample
        self._read_label = _label_reader(sample)

    def _named(self, columns: dict[str, Column]) -> dict[str, Column]:
        """The columns with times as numbers, and probabilities by the evaluator's labels."""
        named = dict(columns)
        if "time" in named:
            times: Any = named["time"]
            named["time"] = times.view(np.int64)
        for name, pairs in self._pairs.items():
            if not pairs:
                continue
            shares: dict[Any, Any] = {
                self._proba_label(name, text): named.pop(part_column(name, n))
                for n, (text, _) in enumerate(pairs)
            }
            named[name] = shares
            spec = self.spec
            if spec.binary:
                assert isinstance(self.evaluator, Evaluator)
                positive = self.evaluator.labels[1]
                if positive not in shares:
                    raise InputError(
                        spec.wording.where("proba"),
                        expected=f"a column for the positive label {shown(positive)}",
                        got=", ".join(map(shown, shares)),
                    )
                if len(shares) == 1:
                    # A column of numbers: records need no probability of the other label.
                    named["proba"] = shares[positive]
        for name in ("y_true", "y_pred"):
            if getattr(named.get(name), "ndim", 1) == 2:
                named[name] = self._labelled(named[name], name)
        if "proba" in named and not self._pairs["proba"]:
            named["proba"] = self._relabelled(named["proba"])
        if self.spec.as_scores:
            named["score"] = named.pop("proba")
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
        assert self.evaluator is not None
        given = self.spec.labels
        return self.evaluator.labels if given is None else given

    def _labelled(self, block: Any, name: str = "proba") -> Column:
        """A block of numbers under the labels, whose order its columns have."""
        spec = self.spec
        assert isinstance(self.evaluator, Evaluator)
        held = "probabilities" if name == "proba" else "indicators"
        labels = self._list_labels
        if not spec.binary and self.evaluator.options["labels"] is None:
            raise InputError(
                spec.wording.where(name),
                expected=f"{spec.wording.option('labels')} with the labels of its columns",
                got=f"{block.shape[1]} {held} without labels",
                remedy=f"add {spec.wording.option('labels', '[LABEL, ...]')}, in their order",
            )
        if block.shape[1] != len(labels):
            raise InputError(
                spec.wording.where(name),
                expected=f"{len(labels)} {held}, of {', '.join(map(shown, labels[:8]))}",
                got=f"{block.shape[1]}",
            )
        return {self._key(label): block[:, n] for n, label in enumerate(labels)}

    def _key(self, text: Any) -> Any:
        try:
            return self._read_label(text)
        except InputError:
            return text  # the evaluator rejects it beside numbers, with its position

    def _proba_label(self, name: str, text: Any) -> Any:
        try:
            return self._read_label(text)
        except InputError as error:
            raise InputError(
                self.spec.wording.where(name),
                expected="labels that are numbers, as the true labels are",
                got=error.got,
            ) from None

    def _path_of(self, argument: str) -> str:
        """The path of the field that an argument of the evaluator was read from."""
        paths = self.spec.paths
        name, bracket, key = argument.partition("[")  # proba['cat']
        name = "proba" if name == "score" and self.spec.as_scores else name
        return paths.get(argument) or paths.get(name, name) + bracket + key


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
    """Reads a text as a label of the type of ``sample``, and returns other values as they are."""
    if isinstance(sample, str):
        return lambda text: text

    def number(text: Any) -> Label:
        if not isinstance(text, str):
            return text  # type: ignore[no-any-return]
        if text.lower() in ("true", "false"):
            return int(text.lower() == "true")
        return int(label_from_text(text, "int"))

    return number


def _check_no_numbers(spec: Spec, first: Column | None) -> None:
    """Reject numbers as true labels, where no option says that they are classes."""
    named = spec.task != "auto" or spec.labels is not None or spec.positive is not None
    if named or spec.y_true is None or first is None:
        return
    values = [str(value) for value in set(distinct_values(first)) if not is_missing(value)]
    fractions = list(filter(is_fraction, values))
    if 2 * len(fractions) > len(values) and all(map(is_number, values)):
        option, text = spec.wording.option, spec.wording.text
        raise InputError(
            spec.wording.where("y_true"),
            expected=f"labels in {spec.y_true!r}",
            got=f"numbers, such as {min(fractions)}",
            remedy=f"true numbers require {option('task', text('regression'))}; if they are "
            f"classes, give {option('task', text('multiclass'))}",
        )


def _check_time_unit(spec: Spec, times: Any) -> None:
    """Reject a unit of times by which half of the first records are in early 1970."""
    if spec.time_unit is None:
        return
    middle = len(times) // 2
    moment = int(np.partition(times.view(np.int64), middle)[middle])
    remedy = unit_remedy(moment * 1_000 // NANOSECONDS[spec.time_unit], spec.time_unit)
    if remedy:
        raise InputError(
            spec.wording.where("time_unit"),
            expected=f"the unit of the times in {spec.time!r}",
            got=f"{spec.time_unit}, by which a typical one is {iso_time(moment)}",
            remedy=remedy,
        )


def _open_evaluator(spec: Spec, first: Column | None) -> Evaluator | Comparison:
    """The evaluator for a spec and the first true labels; a comparison if it names models."""
    options = spec.arguments
    if spec.labels is not None:
        options["labels"] = _labels("labels", first, spec)
    elif found := _labels_of_columns(spec, first):
        options["labels"] = found
    if isinstance(spec.threshold, Mapping):
        read = _label_reader(_sample(spec, first))
        options["threshold"] = limits = {read(one): at for one, at in spec.threshold.items()}
        for label in options.get("labels") or ():
            if label not in limits:
                raise InputError(
                    spec.wording.where("threshold"),
                    expected="a threshold of each label",
                    got=f"none of {shown(label)}",
                )
    if spec.binary:
        options["positive"] = positive = _positive(spec, first)
        if spec.negative is not None:
            options["labels"] = [*_labels("negative", first, spec), positive]
    if spec.models:
        return Comparison(list(spec.models), spec.kind, **options)
    return (Predictions if spec.y_true is None else Evaluator)(spec.kind, **options)


def _labels_of_columns(spec: Spec, first: Column | None) -> list[Label]:
    """The labels that columns of indicators say there are; of an array their numbers."""
    if isinstance(first, np.ndarray) and first.ndim == 2:
        return list(range(first.shape[1]))
    names = list(first) if isinstance(first, dict) else [text for text, _ in spec.pairs("y_true")]
    return list(map(_label_reader(_sample(spec, first)), names))


def _labels(name: str, first: Column | None, spec: Spec) -> list[Label]:
    """The labels of the option ``labels``, ``positive`` or ``negative``, of the records' type."""
    given = getattr(spec, name)
    texts = given if name == "labels" else (given,)
    sample = _sample(spec, first, texts)
    read = _label_reader(sample)
    labels: list[Label] = []
    for text in texts:
        try:
            labels.append(read(text))
        except InputError:
            expected = f"a number like the label {shown(sample)}"
            where = spec.wording.where(name)
            raise InputError(where, expected=expected, got=shown(text)) from None
    return labels


def _sample(spec: Spec, first: Column | None, texts: Iterable[Any] = ()) -> Any:
    """A label of the records, for the labels that options name."""
    found = None
    if isinstance(first, dict):
        found = next(iter(first))
    elif first is not None and getattr(first, "ndim", 1) == 1:
        found = _first(first)
    if isinstance(found, tuple):
        found = next((label for one in distinct_values(first) for label in one or ()), None)
    if found is not None:
        return found
    named = (label for name in ("y_true", "proba") for label, _ in spec.pairs(name))
    # Numbers are assumed to be of 0 and 1.
    return "" if likely_type(map(str, texts or spec.labels or named)) == "str" else 0


def _positive(spec: Spec, first: Column | None) -> Label:
    if spec.positive is not None:
        return _labels("positive", first, spec)[0]
    if spec.labels is not None:
        labels = _labels("labels", first, spec)
    elif first is not None:
        labels = sorted(set(distinct_values(first)), key=lambda label: (str(type(label)), label))
        labels = [label for label in labels if not is_missing(label)]
        if spec.negative is not None:
            (negative,) = _labels("negative", first, spec)
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
        spec.wording.where("positive"),
        expected="the label that counts as positive",
        got=f"nothing; the labels of {spec.y_true or spec.y_pred!r} are {listed}{more}",
        remedy=f"give {_either_positive(labels, spec.wording)}",
    )


def _either_positive(labels: Sequence[Label], wording: Wording) -> str:
    """The option of the positive label, of two labels with either of them."""
    if len(labels) != 2:
        return wording.option("positive", "LABEL")
    texts = [str(label) if wording.command else shown(label) for label in reversed(labels)]
    return " or ".join(wording.option("positive", text) for text in texts)


def _first(column: Any) -> Any:
    if isinstance(column, LabelColumn):
        return column.labels[column.codes[0]]
    return column[0].item() if isinstance(column, np.ndarray) else column[0]
