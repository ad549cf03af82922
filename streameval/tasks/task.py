"""What a task of evaluation defines; everything else asks its object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from streameval.errors import StateError
from streameval.events.event import EventBatch, EventFields
from streameval.events.values import Label
from streameval.tasks.input import Input, InputOptions

Kernel: TypeAlias = Literal["two classes", "classes"] | None
"""Which compiled code counts a task's events one by one: labels that are positive or not, with
one score; canonical labels, with a mapping of scores; or none."""


FieldKind: TypeAlias = Literal["label", "number", "probability", "probabilities"]


class Task:
    """One task: a subclass of this class, of which :data:`~streameval.tasks.registry.TASKS` has
    one object. Methods are functions of their arguments; the object holds no state.

    Events and batches are those that the task's own input validated. The defaults are for labels
    and scores that states take as the input gives them.

    Attributes:
        name: In ``task=``, files and errors.
        adjective: In prose.
        classes: The labels as states count them, where they are the same for all events.
        usual: From each use (``report``, ``slices``, ``folds``, ``representation``, ``single``)
            to the names of its metrics where a caller names none, in the order of reports.
        kernel: Which compiled code counts its events.
        fields: From each argument that an event may have to how files and tables hold it.
        options: The types of its own options in a file: :attr:`Input.notes`.
        parts: The names of its own parts of a file: :meth:`Input.to_parts`.
        positive: The label that metrics of one class are about, as states count it.
        evaluated: Whether evaluators take it as ``task=``.
    """

    name: ClassVar[str]
    adjective: ClassVar[str]
    classes: ClassVar[tuple[Label, ...] | None] = None
    usual: ClassVar[Mapping[str, str]] = {}
    kernel: ClassVar[Kernel] = None
    fields: ClassVar[Mapping[str, FieldKind]] = {"y_true": "label", "y_pred": "label"}
    options: ClassVar[Mapping[str, tuple[type, ...]]] = {}
    parts: ClassVar[tuple[str, ...]] = ()
    positive: ClassVar[Label | None] = None
    evaluated: ClassVar[bool] = True

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
        """The events that :meth:`write_events` wrote; raises StateError for anything else.

        ``plan`` is the :class:`~streameval.states.state_set.StatePlan` of the window.
        """
        rows = data.get("events") if isinstance(data, dict) else None
        if not isinstance(rows, list) or not all(
            isinstance(row, list) and len(row) == 4 for row in rows
        ):
            raise StateError("window: expected a list of events")
        return [(row[0], row[1], row[2], row[3]) for row in rows]
