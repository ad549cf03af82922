"""Columns and events as they pass through a run, and as an evaluator takes them.

A run's columns are ``y_true``, ``y_pred``, ``score``, ``proba``, ``weight``,
``time`` (microseconds since 1970) and ``slice:KEY``; others, such as ``id``,
are not the evaluator's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
import numpy as np

from streameval.errors import InputError
from streameval.event_time import TIME_UNITS, iso_time
from streameval.events import LabelColumn, label_column
from streameval.files.chunk import Column
from streameval.files.json_record import split_path
from streameval.slices import slice_column
from streameval.stream.config.settings import FieldSettings

__all__ = [
    "Columns",
    "arguments",
    "as_record",
    "coded",
    "events",
    "joined",
    "rows_of",
    "taken_rows",
]

Columns: TypeAlias = Mapping[str, Column | LabelColumn]
"""Columns of a batch of events; labels and slices' values may be coded."""

_SLICE = "slice:"
_SAME = ("y_true", "y_pred", "score", "proba", "weight")


def arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of ``update_many`` out of columns, or of ``update`` out of an event.

    Times become ``datetime64``: as numbers the first of a stream would be
    judged by its unit, which the decoder has done.

    >>> arguments({"id": "a", "y_true": 1, "score": 0.5, "slice:country": "PT"})
    {'y_true': 1, 'score': 0.5, 'slices': {'country': 'PT'}}
    """
    given = {name: values[name] for name in _SAME if values.get(name) is not None}
    if values.get("time") is not None:
        given["event_time"] = np.asarray(values["time"], np.int64).view("datetime64[us]")[()]
    slices = {name[len(_SLICE) :]: v for name, v in values.items() if name.startswith(_SLICE)}
    if slices:
        given["slices"] = slices
    return given


def joined(parts: list[Mapping[str, Column]]) -> dict[str, Column]:
    """The columns that all parts have, one part after another."""
    if len(parts) == 1:
        return dict(parts[0])
    result: dict[str, Column] = {}
    for name in parts[0]:
        # Only the id may be missing in some: joined events do not bring it.
        if not all(name in part for part in parts):
            continue
        columns = [part[name] for part in parts]
        arrays = [column for column in columns if isinstance(column, np.ndarray)]
        if len(arrays) == len(columns):
            result[name] = np.concatenate(arrays)
        else:
            result[name] = [value for column in columns for value in _values(column)]
    return result


def coded(columns: Mapping[str, Column]) -> Columns:
    """The columns with labels and slices' values as codes, once for all evaluators.

    What cannot be coded stays as it is, for an evaluator to refuse.
    """
    made: dict[str, Column | LabelColumn] = dict(columns)
    for name, column in columns.items():
        with suppress(InputError):
            if name in ("y_true", "y_pred"):
                made[name] = label_column(column, name)
            elif name.startswith(_SLICE):
                made[name] = slice_column(column, name)
    return made


def rows_of(columns: Columns, start: int, stop: int) -> Columns:
    """Some consecutive rows."""
    return {
        name: LabelColumn(column.labels, column.codes[start:stop])
        if isinstance(column, LabelColumn)
        else column[start:stop]
        for name, column in columns.items()
    }


def taken_rows(columns: Columns, rows: np.ndarray[Any, Any]) -> Columns:
    """These rows, in this order."""
    places: list[int] = rows.tolist()
    taken: dict[str, Any] = {}
    for name, column in columns.items():
        if isinstance(column, LabelColumn):
            taken[name] = LabelColumn(column.labels, column.codes[rows])
        elif isinstance(column, np.ndarray):
            taken[name] = column[rows]
        else:
            taken[name] = [column[place] for place in places]
    return taken


def events(columns: Columns) -> Iterator[dict[str, Any]]:
    """The rows as events of plain values."""
    names = list(columns)
    for values in zip(*(_values(column) for column in columns.values()), strict=True):
        yield dict(zip(names, values, strict=True))


def _values(column: Any) -> list[Any]:
    if isinstance(column, LabelColumn):
        return [column.labels[code] for code in column.codes.tolist()]
    values: list[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    return values


def as_record(event: Mapping[str, Any], fields: FieldSettings) -> bytes:
    """The event as a JSON record with the fields where the settings say.

    For one whose own records are gone: joined of two, long ago.
    """
    paths = {
        "id": fields.id,
        "y_true": fields.y_true,
        "y_pred": fields.y_pred,
        "score": fields.score,
        "proba": fields.proba,
        "weight": fields.weight,
        "time": fields.time,
    }
    record: dict[str, Any] = {}
    for name, value in event.items():
        if name.startswith(_SLICE):
            key = name[len(_SLICE) :]
            path: str | None = fields.slices.get(key, key)
        else:
            path = paths.get(name)
        if path is None or value is None:
            continue
        if name == "time":
            value = _time(value, fields.time_unit)
        *branches, leaf = split_path(path)
        place = record
        for branch in branches:
            place = place.setdefault(branch, {})
        place[leaf] = value
    return msgspec.json.encode(record)


def _time(moment: int, unit: str | None) -> int | str:
    if unit is None:
        return iso_time(moment)
    return moment * 1_000 if unit == "ns" else moment // TIME_UNITS[unit]
