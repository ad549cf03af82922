"""Events in a table that an engine cuts into parts: which columns they are, and how a part counts.

A part is counted where the engine runs its task, and its evaluator is merged with those of other
parts. So all parts count with one set-up, made before any of them is read: nothing is inferred
from the values of a part.

A table is anything that gives a column by ``table[name]``: a data frame of pandas or polars, an
Arrow table or batch, a mapping of names to columns. Records, such as those of a bag, are mappings.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, Self

import numpy as np

from streameval.errors import InputError, OptionError, did_you_mean, listed, shown
from streameval.evaluator.evaluator import Evaluator, from_bytes
from streameval.evaluator.options import known_window
from streameval.evaluator.slices import Slicer
from streameval.events.time import event_times
from streameval.events.values import LabelColumn, column_array
from streameval.records.csv_table import LabelTypes
from streameval.records.event_columns import SLICE, EventColumns, arguments, plain_values
from streameval.records.input_files import find_sources, read_sources
from streameval.records.json_records import split_path
from streameval.records.rules import check_spec
from streameval.records.spec import Proba, Spec
from streameval.records.tables import set_column
from streameval.records.wording import ENGINE
from streameval.tasks.registry import TaskName, likely_task

RECORDS = 1 << 16
"""Most records, which are dicts, that are made columns at once."""


def check_name(path: object, use: str) -> None:
    """Raise InputError unless it is a name, such as for a column of Spark or of a data frame."""
    if not isinstance(path, str):
        remedy = "add what you compute to the table as a column, and name that"
        raise InputError(use, expected="the name of a column", got=shown(path), remedy=remedy)


def no_table_column(use: str, path: str, names: list[str]) -> InputError:
    """The error of a column that a table lacks."""
    return InputError(
        use,
        expected=f"a column {path!r}",
        got=f"none among {shown(', '.join(names))[1:-1]}" if names else "no columns",
        remedy=did_you_mean(path, names),
    )


def _names(table: Any) -> Iterable[object]:
    if isinstance(table, Mapping):
        return table
    schema = getattr(table, "schema", None)
    names = getattr(schema, "names", None)  # of Arrow; a method of polars
    return names if isinstance(names, list) else list(table.columns)


def _probabilities(column: Any, labels: Sequence[Any] | None) -> Any:
    """A column of numbers, mappings, Arrow's pairs, or arrays in the order of the labels."""
    array = column_array(column, "proba")
    if array.dtype.kind not in "OU":
        return array
    values: list[Any] = array.tolist()
    mapped = [isinstance(value, Mapping) for value in values]
    others = (value for value, one in zip(values, mapped, strict=True) if not one)
    first = next((value for value in others if value is not None), None)
    if isinstance(first, str):
        raise InputError(
            "proba",
            expected="numbers, mappings from labels, or lists in the order of labels=",
            got=f"the text {shown(first)}",
            remedy="give each label a column, as Dask turns lists and dicts of Python into text",
        )
    if not hasattr(first, "__len__"):
        return values
    if isinstance(first, (list, tuple)) and len(first) and isinstance(first[0], tuple):
        return [None if pairs is None else dict(pairs) for pairs in values]
    if labels is None:
        raise OptionError.requires(
            "proba",
            "labels",
            remedy="pass labels=[...], the labels of an event's probabilities in their order",
        )
    for position, shares in enumerate(values):
        size = len(shares) if hasattr(shares, "__len__") else 0
        if size != len(labels) and not mapped[position]:
            raise InputError(
                "proba",
                expected=f"{len(labels)} probabilities, one of each of labels=",
                got=shown(shares) if not size else str(size),
                position=position,
            )
    if any(mapped):
        rows = zip(values, mapped, strict=True)
        return [row if one else dict(zip(labels, row, strict=True)) for row, one in rows]
    matrix = np.asarray([list(shares) for shares in values], dtype=np.float64)
    return {label: matrix[:, n] for n, label in enumerate(labels)}


@dataclass(frozen=True, slots=True)
class PartCounter:
    """How parts are counted; sent to the engine's tasks."""

    spec: Spec
    empty: bytes
    """The state of an evaluator without events."""

    @classmethod
    def of(
        cls,
        *,
        y_true: str | Mapping[Any, str] | None = "y_true",
        y_pred: str | None = None,
        score: str | None = None,
        proba: Proba | None = None,
        label_separator: str | None = None,
        weight: str | None = None,
        unit: str | None = None,
        time: str | None = None,
        by: str | Iterable[str | Iterable[str]] | None = (),
        task: TaskName | Literal["auto"] | None = None,
        **options: Any,
    ) -> Self:
        """The counter of these columns, and of an evaluator with these options."""
        if y_true is None:
            raise InputError(
                "y_true",
                expected="the column of the true labels, which engines require",
                got="None",
                remedy="count each part's predictions with streameval.evaluate(part, y_true=None, "
                "...), and merge these with streameval.merge",
            )
        options = {name: value for name, value in options.items() if value is not None}
        if task == "auto":
            task = None
        if by is None or isinstance(by, str):
            by = [] if by is None else [by]
        by = listed(by, "by", "columns, or tuples of columns")
        known = inspect.signature(Evaluator).parameters
        for name in options:
            if name not in known or name == "slices":
                near = "write by=" if name == "slices" else did_you_mean(name, known)
                raise InputError(name, expected="an option of Evaluator", got="none", remedy=near)
        window = options.get("window")
        spec = Spec(
            y_true=y_true,
            y_pred=y_pred,
            score=score,
            proba=proba,
            label_separator=label_separator,
            weight=weight,
            unit=unit or getattr(options.get("bootstrap"), "unit", None),
            time=time,
            time_unit=options.get("time_unit"),
            task=task or likely_task(score is not None or {"positive", "threshold"} & set(options)),
            window=None if window is None else known_window(window),
            slices=Slicer(by, 1).dimensions,
            more={"bootstrap": None, **options},
            wording=ENGINE,
        )
        check_spec(spec)
        evaluator = Evaluator(spec.kind, **spec.arguments)
        if evaluator.plan.ordered:
            raise InputError(
                "metrics",
                expected="metrics that do not depend on the order of events, which parts do not "
                "share",
                got="kappa_temporal",
                remedy="leave out temporal= and kappa_temporal",
            )
        if proba is not None and not isinstance(proba, (str, Mapping)):
            spec = replace(spec, proba=_in_order(proba, evaluator.options["labels"]))
        counter = cls(spec, evaluator.to_bytes())._declared()
        for use, path in counter.paths.items():
            check_name(path, use)
        return counter

    @classmethod
    def of_call(cls, given: Mapping[str, Any], **changed: Any) -> Self:
        """The counter of the arguments of an engine's function, as its local names."""
        known = (
            inspect.signature(cls.of).parameters.keys() | inspect.signature(Evaluator).parameters
        )
        named = {name: value for name, value in given.items() if name in known - {"options"}}
        return cls.of(**{**named, **given["options"], **changed})

    def evaluator(self) -> Evaluator:
        """A new evaluator without events."""
        return from_bytes(self.empty)

    @property
    def paths(self) -> dict[str, str]:
        """From each argument of an evaluator, as errors name it, to the column of its values."""
        of_labels = {
            f"{name}[{shown(label)}]": path
            for name in ("y_true", "y_pred", "proba")
            if isinstance(getattr(self.spec, name), Mapping)
            for label, path in getattr(self.spec, name).items()
        }
        return self.spec.paths | of_labels

    def with_columns(self, names: Iterable[object]) -> Self:
        """The counter with the columns that the patterns match."""
        spec = self.spec.with_columns(map(str, names))
        return self if spec is self.spec else replace(self, spec=spec)._declared()

    def _declared(self) -> Self:
        """The counter whose evaluators have the labels of the columns of the true sets."""
        columns = self.spec.y_true
        if not isinstance(columns, Mapping) or self.evaluator().options["labels"] is not None:
            return self
        evaluator = Evaluator(self.spec.kind, **{**self.spec.arguments, "labels": list(columns)})
        return replace(self, empty=evaluator.to_bytes())

    def columns_in(self, names: Iterable[object]) -> list[str]:
        """The columns to read of a table, each once; raises InputError for a missing one."""
        known = list(map(str, names))
        paths = self.with_columns(known).paths
        for use, path in paths.items():
            if path not in known:
                raise no_table_column(use, path, known)
        return list(dict.fromkeys(paths.values()))

    def _events(self, table: Any, evaluator: Evaluator) -> EventColumns:
        """The events of a table, in the order of their times where they have some."""
        names = list(_names(table))
        self.columns_in(names)
        spec = self.with_columns(names).spec
        columns: dict[str, Any] = {
            use: table[path] for use, path in spec.fields.items() if use != "time"
        }
        columns |= {f"{SLICE}{name}": table[name] for name in spec.slice_fields}
        for name in ("y_true", "y_pred"):
            paths = getattr(spec, name)
            if isinstance(paths, Mapping):
                columns[name] = {label: table[path] for label, path in paths.items()}
            if name in columns and spec.task_fields.get(name) == "labels":
                sets = set_column(columns[name], name, spec.label_separator)
                columns[name] = plain_values(sets) if isinstance(sets, LabelColumn) else sets
        truths = columns["y_true"]
        rows = len(next(iter(truths.values())) if isinstance(truths, dict) else truths)
        if isinstance(spec.proba, str) and rows:
            columns["proba"] = _probabilities(table[spec.proba], evaluator.options["labels"])
        elif isinstance(spec.proba, Mapping):
            columns["proba"] = {label: table[path] for label, path in spec.proba.items()}
        events = EventColumns(columns, range(rows))
        if spec.time is None or not rows:
            return events
        columns["time"] = times = event_times(table[spec.time], rows, spec.time_unit, first=True)
        if (times[1:] >= times[:-1]).all():
            return events
        # The order of rows is not that of arrival. In the order of time no event is late.
        arrays: dict[str, Any] = {
            name: {label: column_array(values, "proba") for label, values in column.items()}
            if isinstance(column, dict)
            else column_array(column, name)
            for name, column in columns.items()
        }
        return EventColumns(arrays, events.places).select(np.argsort(times, kind="stable"))

    def count(self, evaluator: Evaluator, part: Any, where: str = "") -> None:
        """Count a part: a table, the path of a file, or an iterable of records."""
        start = 0
        for table in self._tables(part, where):
            self.count_table(evaluator, table, where, range(start, sys.maxsize))
            start += _rows(table)

    def count_events(self, evaluator: Evaluator, events: Sequence[Any]) -> None:
        """Count events, which are mappings and have no place; an error shows the event."""
        table = self.table_of(events)
        self.count_table(evaluator, table, name=lambda row: f"event {shown(events[row])}")

    def count_table(
        self,
        evaluator: Evaluator,
        table: Any,
        where: str = "",
        rows: Any = range(sys.maxsize),
        name: Callable[[int], str] = "row {}".format,
    ) -> None:
        """Count a table, or no row of it if it raises; errors have the number of its row."""
        places: Any = range(sys.maxsize)
        try:
            events = self._events(table, evaluator)
            places = events.places
            if events.rows:
                shares = evaluator.takes_probabilities and not self.spec.as_scores
                given = arguments(events.columns, probabilities=shares)
                evaluator.update_many(**given)
        except InputError as error:
            row = "" if error.position is None else name(int(rows[places[error.position]]))
            raise self.located(error, where, row) from None

    def located(self, error: InputError, where: str, row: str) -> InputError:
        """An error of a table's columns, with their names and the place of the row."""
        paths = self.paths
        path = paths.get(error.field) or paths.get(error.field.partition("[")[0])
        place = ", ".join(filter(None, ("" if path is None else f"column {path!r}", where, row)))
        return error.of(f"{error.field} ({place})" if place else error.field)

    def _tables(self, part: Any, where: str) -> Iterator[Any]:
        if isinstance(part, (str, os.PathLike)):
            return self._file(os.fspath(part))
        if isinstance(part, Mapping) or hasattr(part, "columns") or hasattr(part, "schema"):
            return iter([part])
        if isinstance(part, Iterable):
            return self._records(part, where)
        raise InputError(
            where or "part",
            expected="a table, the path of a file, or a list of dicts",
            got=f"{shown(part)} of type {type(part).__name__}",
        )

    def _records(self, records: Iterable[Any], where: str) -> Iterator[dict[str, Any]]:
        stream = iter(records)
        start = 0
        while rows := list(islice(stream, RECORDS)):
            yield self.table_of(rows, where, start)
            start += len(rows)

    def table_of(self, records: Sequence[Any], where: str = "", start: int = 0) -> dict[str, Any]:
        """The columns of records, which are mappings; a dot in a name goes into one."""
        for number, record in enumerate(records, start):
            if not isinstance(record, Mapping):
                raise InputError(
                    f"{where}, row {number}".removeprefix(", "),
                    expected="a dict with the names of columns",
                    got=f"{shown(record)} of type {type(record).__name__}",
                )
        first = records[0]
        paths, slices = {*self.paths.values()}, self.spec.slice_fields
        nested = {path: split_path(path) for path in paths if path not in first and "." in path}
        columns: dict[str, list[Any]] = {}
        # All keys of the first record, for a prefix and for the names of an error.
        for name in {**dict.fromkeys(map(str, first)), **dict.fromkeys(slices)}:
            columns[name] = [record.get(name) for record in records]
        for path, names in nested.items():
            values = [_inner(record, names) for record in records]
            if values[0] is not None or path in slices:
                columns[path] = values
        return columns

    def _file(self, path: str) -> Iterator[dict[str, Any]]:
        """The tables of a file that the command line reads; a bad record raises InputError."""
        for name in self.spec.patterns:
            raise InputError(
                name,
                expected="a field, or a mapping from labels to fields, for files",
                got=shown(getattr(self.spec, name)),
            )
        labels = self.evaluator().options.get("labels")
        shares = None if labels is None else len(labels)
        wanted = [
            replace(one, shares=shares) if one.column == "proba" else one
            for one in self.spec.field_requests()
        ]
        for chunk in read_sources(find_sources([path]), wanted, LabelTypes()):
            for bad in chunk.bad.first:
                raise bad.input_error(f"{bad.source}:{bad.place}: {bad.field}")
            columns = chunk.events.columns
            yield {one.path: _as_table_column(columns[one.column]) for one in wanted}


def _as_table_column(column: Any) -> Any:
    if isinstance(column, np.ndarray) and column.ndim == 2:
        return column.tolist()  # of lists of probabilities, as other tables have them
    return plain_values(column) if isinstance(column, LabelColumn) else column


def _rows(table: Any) -> int:
    return len(next(iter(table.values()), ())) if isinstance(table, Mapping) else len(table)


def _inner(record: Any, names: Sequence[str]) -> Any:
    for name in names:
        record = record.get(name) if isinstance(record, Mapping) else None
    return record


def _in_order(paths: Sequence[str], labels: Sequence[Any] | None) -> dict[Any, str]:
    names = listed(paths, "proba", "a column, columns, or a mapping from labels to columns")
    if labels is None:
        remedy = "pass labels=[...] in the order of the columns, or a mapping label -> column"
        raise OptionError.requires("proba", "labels", remedy=remedy)
    if len(names) != len(labels):
        raise InputError(
            "proba", expected=f"{len(labels)} columns, one of each label", got=str(len(names))
        )
    by_name = {str(label): label for label in labels}
    if by_name.keys() == set(names):
        return {by_name[name]: name for name in names}
    return dict(zip(labels, names, strict=True))
