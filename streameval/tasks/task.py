"""What a task of evaluation defines; everything else asks its object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from streameval.errors import StateError
from streameval.events.event import EventBatch, EventFields
from streameval.events.values import Label
from streameval.tasks.input import Input, InputOptions

Kernel: TypeAlias = Literal["two classes", "classes", "numbers", "label sets"] | None
"""Which compiled code counts a task's events one by one: labels that are positive or not, with
one score; canonical labels, or sets of them, with a mapping of scores; numbers; or none."""


FieldKind: TypeAlias = Literal["label", "labels", "number", "probability", "probabilities"]

Truth: TypeAlias = Literal["two classes", "classes", "label sets", "numbers"]
"""What the true labels of a task's events are."""


class Task:
    """One task; :data:`~streameval.tasks.registry.TASKS` has one object of each subclass.

    Methods are functions of their arguments, of events and batches that the task's own input has
    validated. The defaults are for labels and scores that states take as the input gives them.
    """

    name: ClassVar[str]  # in ``task=``, files and errors
    adjective: ClassVar[str]  # in prose
    truth: ClassVar[Truth] = "classes"
    # The labels as states count them, if they are the same for all events.
    classes: ClassVar[tuple[Label, ...] | None] = None
    # From each use (report, slices, folds, representation, single) to the names of its metrics if
    # a caller names none, in the order of reports.
    usual: ClassVar[Mapping[str, str]] = {}
    kernel: ClassVar[Kernel] = None
    # From each argument that an event may have to how files and tables hold it.
    fields: ClassVar[Mapping[str, FieldKind]] = {"y_true": "label", "y_pred": "label"}
    # What a file has of the input: the types of its ``notes``, and the names of its ``to_parts``.
    options: ClassVar[Mapping[str, tuple[type, ...]]] = {}
    parts: ClassVar[tuple[str, ...]] = ()
    # The label that metrics of one class are about, as states count it.
    positive: ClassVar[Label | None] = None
    evaluated: ClassVar[bool] = True  # whether evaluators take it as ``task=``
    # The task of the same predictions without true labels, by its name; None: there is none.
    unlabelled: ClassVar[str | None] = None
    # The task of the joint events of several models, by its name; None: they are not compared.
    compared: ClassVar[str | None] = None

    def input(self, options: InputOptions) -> Input:
        """What validates the events of an evaluator with these options; raises InputError."""
        raise NotImplementedError

    # What an event gives to the states of each feed; one without a label or score feeds none.

    def of_scores(self, y_true: Any, y_pred: Any, score: Any, weight: Any) -> tuple[Any, ...]:
        """The arguments of ``update`` of states fed by scores."""
        return y_true, score, weight, y_pred

    def of_labels(self, y_true: Any, y_pred: Any, weight: Any) -> tuple[Any, ...]:
        """The arguments of ``update`` of states fed by labels."""
        return y_true, y_pred, weight

    def score_columns(self, batch: EventBatch) -> tuple[Any, ...]:
        """The arguments of ``update_many`` of states fed by scores."""
        return (batch,)

    def label_columns(self, batch: EventBatch) -> tuple[Any, ...]:
        """The arguments of ``update_many`` of states fed by labels."""
        return batch.y_true, batch.y_pred, batch.weight

    def coded(
        self, labels: Sequence[Label], y_true: Any, y_pred: Any, score: Any, weight: Any
    ) -> EventBatch:
        """The batch of columns that have codes of these labels."""
        return EventBatch(y_true, y_pred, score, weight, tuple(labels))

    # The events of a window that keeps them

    def write_events(self, events: Iterable[EventFields]) -> dict[str, Any]:
        """Plain data of events, in their order."""
        return {"events": [list(event) for event in events]}

    def read_events(self, data: Any, plan: Any) -> list[EventFields]:
        """The written events of a window with this StatePlan; raises StateError."""
        rows = data.get("events") if isinstance(data, dict) else None
        if not isinstance(rows, list) or not all(
            isinstance(row, list) and len(row) == 4 for row in rows
        ):
            raise StateError("window: expected a list of events")
        return [(row[0], row[1], row[2], row[3]) for row in rows]
