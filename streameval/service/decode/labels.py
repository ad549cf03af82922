"""Labels and slice values of records: which are accepted, and their canonical form."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from types import NoneType
from typing import Any, Literal, TypeAlias

import numpy as np

from streameval.errors import InputError, shown
from streameval.evaluator.slices import MISSING
from streameval.events.values import MAX_CLASSES, Label, canonical_label, is_missing
from streameval.records.chunk import EXPECTED, RecordError
from streameval.records.event_columns import Column
from streameval.records.json_records import Values
from streameval.service.config.settings import EvaluatorSettings
from streameval.tasks.registry import TASKS

LONGEST_NAME = 1024
"""Most bytes of an id, a label or a slice's value: they are stored, so their size is bounded."""

LabelKind: TypeAlias = Literal["text", "number"]

Checked: TypeAlias = tuple[Column, dict[int, RecordError]]
"""A column, and the errors of some of its values by their index."""

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,18})", re.ASCII)
_KIND_NAMES = {"text": "text", "number": "a number"}


def listed(values: Values) -> list[Any]:
    """The values of a field as plain ones."""
    return values.tolist() if isinstance(values, np.ndarray) else values


def plain_value(value: object, expected: str) -> Label | RecordError:
    """A str or int that can be stored, or the error of the value."""
    try:
        label = canonical_label(value)
    except InputError as error:
        remedy = "a fraction is a score" if error.remedy_code == "score" else ""
        return RecordError("", expected, error.got, remedy)
    if isinstance(label, int):
        if not -(2**63) <= label < 2**63:
            return RecordError("", expected, "an integer of more than 64 bits")
        return label
    try:
        size = len(label.encode())
    except UnicodeEncodeError:
        return RecordError("", expected, f"{shown(label)}, half of a surrogate pair")
    if size > LONGEST_NAME:
        return RecordError("", f"{expected} of at most {LONGEST_NAME:,} bytes", f"{size:,} bytes")
    return label


def checked_values(values: list[Any], short: bool, expected: str) -> Checked:
    """Values to slice by, each a str, an int or None."""
    kinds = set(map(type, values))
    if short and kinds <= {str, NoneType} and MISSING not in values:
        return values, {}
    if kinds == {int} and min(values) >= -(2**63) and max(values) < 2**63:
        return values, {}

    def checked(value: object) -> Label | RecordError | None:
        if is_missing(value):
            return None
        if value == MISSING:
            return RecordError("", f"{expected} other than {MISSING!r}", "that", "write null")
        return plain_value(value, expected)

    return _each_checked(values, checked)


def _each_checked(values: list[Any], check: Callable[[Any], Label | RecordError | None]) -> Checked:
    """The canonical values, and the errors; each distinct value is checked once."""
    taken: list[Any] = []
    errors: dict[int, RecordError] = {}
    known: dict[tuple[type, Any], Label | RecordError | None] = {}
    for row, value in enumerate(values):
        key = (type(value), value)
        found = known.get(key)
        if found is None:
            found = known[key] = check(value)
        if isinstance(found, RecordError):
            errors[row] = found
        taken.append(found)
    return taken, errors


class RecordLabels:
    """The labels that a run's records may have; a multi-class run may discover them."""

    def __init__(self, settings: EvaluatorSettings) -> None:
        self.kind: LabelKind | None = None
        """None before the first label."""
        of_sets = TASKS[settings.task].truth == "label sets"
        self.probabilities = settings.probabilities and not of_sets
        """Whether numbers by label add up to 1."""
        self._why = "" if of_sets else ", as evaluator.probabilities is false"
        binary = TASKS[settings.task].positive is not None
        known: list[Label] = []
        if settings.labels is not None:
            known = [canonical_label(label) for label in settings.labels]
        elif binary and not isinstance(settings.positive, str):
            known = [0, 1]
        self._closed = bool(known)
        self._remedy = "add it to evaluator.labels"
        if binary:
            self._remedy = 'set evaluator.positive and labels, or task = "multiclass"'
        self._known: set[Label] = set(known)
        self._keys: dict[str, Label] = {str(label): label for label in known}
        if self._closed:
            self.kind = "text" if isinstance(known[0], str) else "number"
            if self._known == {0, 1}:
                self._keys |= {"false": 0, "true": 1}
        listed = ", ".join(shown(label) for label in known[:8])
        more = f" and {len(known) - 8} more" if len(known) > 8 else ""
        self._expected = f"one of the labels {listed}{more}" if self._closed else "a label"

    def column(self, values: Values) -> Checked:
        """The labels as str or int; booleans become 0 and 1."""
        if isinstance(values, np.ndarray) and {0, 1} <= self._known:
            return values.astype(np.int64), {}
        values = listed(values)
        kinds = set(map(type, values))
        if kinds == {bool} and {0, 1} <= self._known:
            return np.asarray(values).astype(np.int64), {}
        # Equal is not enough: 1.0 and true are equal to the label 1.
        if kinds <= {str, int} and self._known.issuperset(values):
            return values, {}
        return _each_checked(values, self._checked)

    def sets(self, values: Values) -> Checked:
        """Lists of labels, each ascending and with each label once."""
        taken: list[Any] = []
        errors: dict[int, RecordError] = {}
        for row, value in enumerate(listed(values)):
            if not isinstance(value, list):
                taken.append(value)
                got = "null" if value is None else shown(value)
                errors[row] = RecordError("", EXPECTED["labels"], got)
                continue
            labels: Any
            labels, wrong = self.column(value)
            taken.append([] if wrong else sorted(set(listed(labels))))
            if wrong:
                errors[row] = wrong[min(wrong)]
        return taken, errors

    def parts(self, values: Values, final: Values) -> Checked:
        """Parts of sets, as the join has them; one that is final may have no labels."""
        ends = listed(final)
        given = [
            ([] if end else None) if one is None else one if isinstance(one, list) else [one]
            for one, end in zip(listed(values), ends, strict=True)
        ]
        sets, errors = self.sets(given)
        found = zip(sets, ends, strict=True)
        return [{"labels": labels, "final": bool(end)} for labels, end in found], errors

    def unscored(self, scored: Container[Label]) -> RecordError | None:
        """The error of scores by label, where every label needs one and one has none."""
        if self.probabilities or not self._closed:
            return None
        lacking = next((one for one in self._known if one not in scored), None)
        if lacking is None:
            return None
        return RecordError("", f"a score of every label{self._why}", f"none of {shown(lacking)}")

    def key(self, text: str) -> Label | RecordError:
        """The label that a key of a JSON object, which is always text, denotes."""
        label = self._keys.get(text)
        if label is not None:
            return label
        is_number = not self._closed and self.kind == "number" and _WHOLE.fullmatch(text)
        return self._checked(int(text) if is_number else text)

    def _checked(self, value: object) -> Label | RecordError:
        label = plain_value(value, self._expected)
        if isinstance(label, RecordError) or label in self._known:
            return label
        if self._closed:
            return RecordError("", self._expected, shown(label), self._remedy)
        kind: LabelKind = "text" if isinstance(label, str) else "number"
        if self.kind not in (None, kind):
            assert self.kind is not None
            return RecordError(
                "",
                f"{_KIND_NAMES[self.kind]}, as the labels before",
                f"{shown(label)}, {_KIND_NAMES[kind]}",
                "give all labels one type, or list them in evaluator.labels",
            )
        if len(self._known) >= MAX_CLASSES:
            return RecordError(
                "",
                f"at most {MAX_CLASSES:,} distinct labels",
                f"another one, {shown(label)}",
                "is this field an id rather than a label?",
            )
        self.kind = kind
        self._known.add(label)
        self._keys[str(label)] = label
        return label
