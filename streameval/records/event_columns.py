"""Events column by column: as files and messages are read, joined, and counted.

An evaluator's columns are ``y_true``, ``y_pred``, ``score``, ``proba``, ``weight``, ``unit``,
``time`` (microseconds since 1970) and ``slice:KEY``; it ignores others, such as ``id``. A
comparison's are ``y_pred:MODEL`` and ``score:MODEL`` instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streameval.errors import InputError
from streameval.evaluator.comparison import Comparison
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.slices import slice_column
from streameval.events.values import (
    BoolArray,
    FloatArray,
    IntArray,
    LabelColumn,
    factorised,
    label_column,
)

Column: TypeAlias = npt.NDArray[Any] | list[Any] | dict[Any, npt.NDArray[Any]] | LabelColumn
"""An array; a list where types are mixed or text; label -> array for probabilities."""

RecordPlaces: TypeAlias = range | IntArray
"""Where each record stands in its source: line, row or offset."""

SLICE = "slice:"
"""Prefix of the names of columns of slice values."""

_SAME = ("y_true", "y_pred", "score", "proba", "weight", "unit")

_ONE_BY_ONE = 64
"""Events counted singly after a rejected one: a call with columns costs as much as 20."""


def is_pattern(given: object) -> bool:
    """Whether columns are given by ``PREFIX*SUFFIX``, what their names have in common."""
    return isinstance(given, str) and "=" not in given and given != "*" and given.count("*") == 1


def columns_like(pattern: str, names: Iterable[str]) -> dict[str, str]:
    """From each label to the column that has it in place of the pattern's ``*``.

    >>> columns_like("p_*_v2", ["y", "p_cat_v2", "p_dog_v2", "p_dog"])
    {'cat': 'p_cat_v2', 'dog': 'p_dog_v2'}
    """
    whole = re.compile("(.*)".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    return {found[1]: name for name in names if (found := whole.fullmatch(name))}


@dataclass(slots=True)
class EventColumns:
    """Events of one source or of several: one value an event in each column, and their places."""

    columns: dict[str, Column]
    places: RecordPlaces

    @property
    def rows(self) -> int:
        """Number of events."""
        return len(self.places)

    def select(self, rows: slice | BoolArray | IntArray) -> EventColumns:
        """These events: a slice, the true ones of a mask, or indices in their order."""
        chosen: Any = rows
        places: Any = self.places
        if not isinstance(rows, slice):
            chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
            places = _place_array(places)
        columns = {name: _selected(column, chosen) for name, column in self.columns.items()}
        return EventColumns(columns, places[chosen])

    def coded(self) -> EventColumns:
        """The events with labels and slices' values as codes, once for several evaluators."""
        made = dict(self.columns)
        for name, column in self.columns.items():
            with suppress(InputError):
                if name.partition(":")[0] in ("y_true", "y_pred"):
                    made[name] = label_column(column, name)
                elif name.startswith(SLICE):
                    made[name] = slice_column(column, name)
        return EventColumns(made, self.places)

    def canonical(self) -> EventColumns:
        """The events with the codes of readers in the form that an evaluator takes."""
        made = {name: _canonical(column, name) for name, column in self.columns.items()}
        return EventColumns(made, self.places)

    def events(self) -> Iterator[dict[str, Any]]:
        """The events one by one, as plain values by the name of their column."""
        for values in zip(*map(plain_values, self.columns.values()), strict=True):
            yield dict(zip(self.columns, values, strict=True))


def joined(parts: Sequence[EventColumns]) -> EventColumns:
    """The events of several parts, one part after another, in the columns that all have."""
    parts = [part for part in parts if part.rows] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    columns = {
        name: _joined([part.columns[name] for part in parts])
        for name in (parts[0].columns if parts else ())
        # Only the id may be missing in some: joined events do not have it.
        if all(name in part.columns for part in parts)
    }
    places = [_place_array(part.places) for part in parts]
    return EventColumns(columns, np.concatenate(places) if places else range(0))


def arguments(values: Mapping[str, Any], *, probabilities: bool = True) -> dict[str, Any]:
    """Keyword arguments of ``update_many`` out of columns, or of ``update`` out of an event."""
    given = {name: values[name] for name in _SAME if values.get(name) is not None}
    if not probabilities and "proba" in given:
        given["score"] = given.pop("proba")
    if values.get("time") is not None:
        # As a number, the first time of a stream would have its unit checked again.
        given["event_time"] = np.asarray(values["time"], np.int64).view("datetime64[us]")[()]
    slices = {name[len(SLICE) :]: v for name, v in values.items() if name.startswith(SLICE)}
    if slices:
        given["slices"] = slices
    for name in ("y_pred", "score"):
        prefix = f"{name}:"
        models = {key[len(prefix) :]: v for key, v in values.items() if key.startswith(prefix)}
        if models:
            given[name] = models
    return given


def count_events(
    evaluator: Evaluator | Comparison, events: EventColumns
) -> Iterator[tuple[int, InputError]]:
    """Count the events, and yield the row and the error of each that the evaluator rejects."""
    # A rejected call counted nothing, and its error names one bad row. The rows before it are
    # counted first, alone. From there some are counted one by one, for bad ones often stand
    # together; then in growing steps again.
    start = 0
    step = events.rows
    probabilities = "proba" not in events.columns or evaluator.takes_probabilities
    given = partial(arguments, probabilities=probabilities)
    while start < events.rows:
        part = events.select(slice(start, start + step))
        try:
            evaluator.update_many(**given(part.columns))
        except InputError as error:
            before = part.rows // 2 if error.position is None else error.position
            if 0 < before < part.rows:
                step = before
                continue
        else:
            start += part.rows
            step *= 2
            continue
        step = _ONE_BY_ONE
        for row, event in enumerate(events.select(slice(start, start + step)).events(), start):
            try:
                evaluator.update(**given(event))
            except InputError as error:
                yield row, error
        start += step


def part_column(name: str, number: int) -> str:
    """The name of the column that holds what ``proba`` or label sets have of one label."""
    return f"{name}:{number}"


def label_sets(values: list[Any], separator: str | None = None) -> Column:
    """Sets of labels, each distinct one once as a tuple; a text is cut at the separator."""
    sets = [_label_set(value, separator) for value in values]
    try:
        return LabelColumn(*factorised(sets))
    except TypeError:  # a mapping, or what the evaluator refuses
        return sets


def _label_set(value: Any, separator: str | None) -> Any:
    """A set of labels as a tuple; anything else as it is."""
    if isinstance(value, str) and separator is not None:
        return tuple(labels_in_text(value, separator))
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(value) if isinstance(value, (list, set, frozenset)) else value


def labels_in_text(text: str, separator: str) -> Iterator[str]:
    """The labels in a text, without blanks around them.

    >>> list(labels_in_text("spam| ad", "|")), list(labels_in_text("", "|"))
    (['spam', 'ad'], [])
    """
    return filter(None, map(str.strip, text.split(separator)))


def distinct_values(column: Any) -> Iterable[Any]:
    """The values of a column of labels or slices, each once where that saves time."""
    if isinstance(column, LabelColumn):
        present = np.flatnonzero(np.bincount(column.codes, minlength=1))
        return [column.labels[n] for n in present.tolist()]
    if isinstance(column, np.ndarray):
        # numpy.unique makes one nan of all, but imports numpy.ma, which takes 20 ms.
        return (np.unique(column) if column.dtype.kind == "f" else column).tolist()  # type: ignore[no-any-return]
    values: Iterable[Any] = column
    return values


def probability_columns(values: list[Any]) -> Column:
    """Probabilities as label -> column, an array or its rows; as they are where forms differ."""
    kinds = set(map(type, values))
    if kinds == {float}:
        return np.array(values, dtype=np.float64)
    if kinds == {list}:
        return _rows_of(values, len(values[0]), len(values))
    if kinds != {dict} or not values[0] or len(set(map(tuple, values))) > 1:
        return values
    table = _rows_of(map(dict.values, values), len(values[0]), len(values))
    return {label: table[:, n] for n, label in enumerate(values[0])}


def _rows_of(numbers: Iterable[Iterable[float]], width: int, rows: int) -> FloatArray:
    # fromiter() takes a third of the time that array() takes for a list of lists.
    flat = np.fromiter(chain.from_iterable(numbers), np.float64, rows * width)
    return flat.reshape(rows, width)


def _place_array(places: RecordPlaces) -> IntArray:
    if isinstance(places, range):  # numpy would convert it as a list
        return np.arange(places.start, places.stop, places.step)
    return places


def _selected(column: Column, rows: slice | IntArray) -> Column:
    if isinstance(column, LabelColumn):
        return LabelColumn(column.labels, column.codes[rows])
    if isinstance(column, dict):
        return {label: values[rows] for label, values in column.items()}
    if isinstance(column, list):
        return column[rows] if isinstance(rows, slice) else [column[n] for n in rows.tolist()]
    taken: npt.NDArray[Any] = column[rows]
    return taken


def _canonical(column: Column, name: str) -> Column:
    """Codes of distinct values as codes of labels; as values where one is no label."""
    if not isinstance(column, LabelColumn):
        return column
    labels, codes = column
    if any(isinstance(label, tuple) for label in labels):  # label sets
        return plain_values(column)
    of_slices = name.startswith(SLICE)
    if not of_slices and name.partition(":")[0] not in ("y_true", "y_pred"):
        return plain_values(column)
    if of_slices or set(map(type, labels)) != {str}:
        try:
            found = (slice_column if of_slices else label_column)(labels, name)
        except InputError:  # which the evaluator raises, with the position
            return plain_values(column)
        labels, codes = found.labels, found.codes[codes]
    # The labels of these events only, in the order of their first occurrence.
    first = np.full(len(labels), len(codes))
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    order = np.argsort(first, kind="stable")
    order = order[first[order] < len(codes)]
    rank = np.zeros(len(first), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return LabelColumn([labels[n] for n in order.tolist()], rank[codes])


def _joined(columns: Sequence[Column]) -> Column:
    first = columns[0]
    if all(isinstance(column, LabelColumn) for column in columns):
        known: dict[Any, int] = {}
        codes = []
        for labels, own in columns:
            new = [known.setdefault(label, len(known)) for label in labels]
            codes.append(np.array(new, dtype=np.int64)[own])
        return LabelColumn(list(known), np.concatenate(codes))
    if isinstance(first, dict):
        return {
            label: np.concatenate([column[label] for column in columns if isinstance(column, dict)])
            for label in first
        }
    arrays = [column for column in columns if isinstance(column, np.ndarray)]
    if len(arrays) == len(columns):
        return np.concatenate(arrays)
    # A list, so that "1" and 1 stay distinct.
    return [value for column in columns for value in plain_values(column)]


def plain_values(column: Column) -> list[Any]:
    """A column as one plain value an event."""
    if isinstance(column, LabelColumn):
        return [column.labels[code] for code in column.codes.tolist()]
    if isinstance(column, dict):
        shares = zip(*map(plain_values, column.values()), strict=True)
        return [dict(zip(column, share, strict=True)) for share in shares]
    values: list[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    return values
