"""Columns of decoded values, checked as an evaluator would: good ones, and what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from streameval.errors import InputError, shown
from streameval.event_time import EARLY_1970, iso_time, unit_remedy
from streameval.events import MAX_WEIGHT, BoolArray, IntArray, Label
from streameval.files.chunk import EXPECTED
from streameval.files.event_columns import Column, probability_columns
from streameval.files.json_faults import Fault
from streameval.files.times import time_column, time_error
from streameval.states.class_proba_input import check_probabilities
from streameval.stream.records.labels import LONGEST_NAME, RecordLabels

__all__ = ["Checked", "ids", "moments", "numbers", "probabilities", "refuse_outside", "weights"]

Checked = tuple[Column, dict[int, Fault]]
"""A column, and what is wrong with some of its values, by their place in it."""

_NEARLY = 9e-4
"""Sums that are nearer to 1 need no closer look; the rule itself is check_probabilities'."""


def ids(values: list[Any], short: bool) -> Checked:
    """Ids as text: the number 5 and the text ``"5"`` are one.

    Args:
        values: As decoded.
        short: No text among them can be too long.
    """
    if short and set(map(type, values)) == {str} and "" not in values:
        return values, {}
    taken: list[Any] = []
    faults: dict[int, Fault] = {}
    expected = EXPECTED["id"]
    for place, value in enumerate(values):
        if value is None:
            faults[place] = Fault("id", expected, "null")
            taken.append("")
            continue
        try:
            text = str(value)
            size = len(text.encode())
        except ValueError:  # an integer of thousands of digits
            text, size = "", LONGEST_NAME + 1
        if not size:
            faults[place] = Fault("id", expected, "an empty text")
        elif size > LONGEST_NAME:
            faults[place] = Fault("id", f"{expected} of at most {LONGEST_NAME:,} bytes", "more")
        taken.append(text)
    return taken, faults


def numbers(values: list[Any]) -> Checked:
    """Finite numbers as float64."""
    column = _floats(values)
    return column, _number_faults(values, np.isfinite(column), "number")


def weights(values: list[Any]) -> Checked:
    """Weights above 0 as float64."""
    column = _floats(values)
    return column, _number_faults(values, (column > 0) & (column <= MAX_WEIGHT), "weight")


def _floats(values: list[Any]) -> Any:
    try:
        return np.fromiter(values, np.float64, len(values))
    except TypeError:  # a None among them
        return np.asarray([np.nan if value is None else value for value in values], np.float64)


def _number_faults(values: list[Any], good: BoolArray, kind: Any) -> dict[int, Fault]:
    if good.all():
        return {}
    remedy = "leave events of weight 0 out"
    return {
        place: Fault("", EXPECTED[kind], shown(values[place]), "" if values[place] else remedy)
        for place in np.flatnonzero(~good).tolist()
    }


def moments(values: list[Any], unit: str | None) -> Checked:
    """Times as int64 microseconds since 1970."""
    column, wrong = time_column(values, unit)
    faults = {}
    for place in () if wrong is None else np.flatnonzero(wrong).tolist():
        if values[place] is None:
            faults[place] = Fault("time", EXPECTED["time"], "null")
        else:
            error = time_error(values[place], unit)
            faults[place] = Fault(
                "time", EXPECTED["time"], error.got, error.remedy, error.remedy_code
            )
    times = column.view(np.int64)
    if unit is not None and len(values) and int(times.min()) < EARLY_1970:
        for place, value in enumerate(values):
            if place not in faults and isinstance(value, (int, float)):
                remedy = unit_remedy(value, unit)
                if remedy:
                    faults[place] = Fault("time", f"a time in {unit}", shown(value), remedy)
    return times, faults


def refuse_outside(times: IntArray, earliest: int, latest: int) -> dict[int, Fault]:
    """The times that lie outside; one far ahead would make all others late."""
    if not len(times) or (int(times.min()) >= earliest and int(times.max()) <= latest):
        return {}
    return {
        place: Fault(
            "time",
            f"a time from {iso_time(earliest)} to {iso_time(latest)}",
            iso_time(int(times[place])),
            "set the clock of the machine that writes it, or raise fields.ahead",
        )
        for place in np.flatnonzero((times > latest) | (times < earliest)).tolist()
    }


def probabilities(values: list[Any], labels: RecordLabels) -> Checked:
    """Mappings label -> probability that add up to 1, as dictionaries of canonical labels."""
    faults: dict[int, Fault] = {}
    if None not in values:
        table = probability_columns(values)
        if isinstance(table, dict):
            found = _relabelled(values[0], labels)
            if not isinstance(found, Fault):
                matrix = np.column_stack(list(table.values()))
                good = (matrix >= 0.0).all(axis=1) & (np.abs(matrix.sum(axis=1) - 1) <= _NEARLY)
                if good.all():
                    if all(type(name) is str for name in found):
                        return values, {}
                    names = list(found)
                    return [dict(zip(names, v.values(), strict=True)) for v in values], {}
    taken: list[Any] = []
    for place, value in enumerate(values):
        one = Fault("", EXPECTED["probabilities"], "null") if value is None else _one(value, labels)
        if isinstance(one, Fault):
            faults[place] = one
        taken.append(one)
    return taken, faults


def _one(value: dict[str, float], labels: RecordLabels) -> dict[Label, float] | Fault:
    try:
        # Before its labels are learnt: a bad one should teach nothing.
        check_probabilities(value)
    except InputError as error:
        inside = error.field.removeprefix("proba")
        expected = f"{error.expected} in {inside}" if inside else error.expected
        return Fault("", expected, error.got, error.remedy)
    return _relabelled(value, labels)


def _relabelled(value: dict[str, float], labels: RecordLabels) -> dict[Label, float] | Fault:
    taken: dict[Label, float] = {}
    for text, share in value.items():
        label = labels.key(text)
        if isinstance(label, Fault):
            return label
        if label in taken:
            return Fault("", "each label once", f"{shown(text)} again")
        taken[label] = share
    return taken
