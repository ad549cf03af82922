"""The fields that a record requires by its kind: a prediction, a label, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streameval.records.chunk import FieldRequest
from streameval.records.chunk import Kind as FieldKind
from streameval.records.json_records import JsonDecoder
from streameval.service.config.evaluators import slice_fields
from streameval.service.config.settings import EvaluatorSettings, FieldSettings
from streameval.service.config.source_settings import Kind
from streameval.tasks.registry import TASKS

_MARKS = ("y_pred", "score", "proba")
"""The fields that make a record a prediction, one of them or more."""

_READ_AS: Mapping[str, FieldKind] = {"probability": "probabilities"}
"""The kinds of fields that a run reads in another form than files."""


@dataclass(frozen=True, slots=True)
class RecordFields:
    """The fields of each kind of record."""

    prediction: tuple[FieldRequest, ...]
    """With the id where labels are records of their own."""
    marks: tuple[FieldRequest, ...]
    """The fields that make a record a prediction: ``y_pred``, ``score``, ``proba``."""
    truths: tuple[FieldRequest, ...]
    """The true label in the record of a prediction, or nothing."""
    label: tuple[FieldRequest, ...]
    """The fields of a label that is a record of its own; empty without a join."""

    @property
    def label_truths(self) -> tuple[FieldRequest, ...]:
        """The fields that make a record a label."""
        return tuple(field for field in self.label if field.column in ("y_true", "final"))

    @property
    def complete(self) -> tuple[FieldRequest, ...]:
        """The fields of a record that is a prediction with its label."""
        return (*self.prediction, *self.truths)

    def of(self, kind: Kind) -> tuple[FieldRequest, ...]:
        """All that a batch's records may have, each field once."""
        if kind == "labels" and self.label:
            return self.label
        apart = self.label if kind == "records" else ()
        return tuple(dict.fromkeys(reversed((*self.complete, *apart))))


def record_fields(fields: FieldSettings, evaluator: EvaluatorSettings, join: bool) -> RecordFields:
    """The fields of each kind of record by the settings; raises InputError."""

    def field(
        column: str, path: str | None, kind: FieldKind, unit: str | None = None
    ) -> list[FieldRequest]:
        return [] if path is None else [FieldRequest(path, kind, column, unit)]

    of_task = TASKS[evaluator.task].fields

    def kind_of(name: str) -> FieldKind:
        kind = of_task.get(name, "number")
        return _READ_AS.get(kind, kind)

    marks = tuple(
        FieldRequest(path, kind_of(name), column)
        for column, path in fields.paths.items()
        if (name := column.partition(":")[0]) in _MARKS
    )
    keys = dict.fromkeys(name for part in evaluator.slices for name in slice_fields(part))
    prediction = (
        *(field("id", fields.id, "id") if join else ()),
        *marks,
        *field("weight", fields.weight, "weight"),
        *field("time", fields.time, "time", fields.time_unit),
        *(FieldRequest(fields.slices.get(key, key), "slice", f"slice:{key}") for key in keys),
    )
    apart = fields.label
    # One kind in both records, which may have it in the same field.
    truth: FieldKind = "part" if apart.final else kind_of("y_true")
    label = (
        *field("id", apart.id or fields.id, "id"),
        *field("y_true", apart.y_true or fields.y_true, truth),
        *field("final", apart.final or None, "flag"),
        *field("time", apart.time or fields.time, "time", fields.time_unit),
    )
    truths = tuple(field("y_true", fields.y_true, truth))
    found = RecordFields(prediction, marks, truths, label if join else ())
    for kind in ("records", "labels"):
        JsonDecoder(found.of(kind), optional=True)
    return found
