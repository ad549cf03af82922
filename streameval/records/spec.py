"""One specification of what is evaluated: fields, task, metrics, window, slices and limits.

``evaluate()``, the commands ``evaluate`` and ``compare``, the configuration of a run and the
engines make one each; ``rules.py`` checks what its options say together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from streameval.errors import InputError, listed, shown
from streameval.metrics.metric import Metric
from streameval.metrics.registry import ROWS, find
from streameval.records.chunk import FieldRequest, Kind
from streameval.records.event_columns import SLICE, columns_like, is_pattern, part_column
from streameval.records.wording import COMMAND, Wording
from streameval.states.registry import STATES
from streameval.tasks.registry import TASKS, TaskName, likely_task
from streameval.tasks.task import FieldKind
from streameval.windows.replicated import Bootstrap
from streameval.windows.window import WindowSpec

Dimensions: TypeAlias = tuple[tuple[str, ...], ...]
"""Names of the fields that make each kind of slice."""

Proba: TypeAlias = str | Mapping[Any, str] | Sequence[str]
"""A field, ``PREFIX*SUFFIX``, label -> field, or fields in the order of the labels."""

MAX_SLICES = 10_000

KINDS: dict[str, Kind] = {
    "y_true": "label",
    "y_pred": "label",
    "score": "number",
    "proba": "probabilities",
    "weight": "weight",
    "unit": "slice",
    "time": "time",
}
"""The options that name a field, in the order in which the fields of a record are checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The fields to read, and how to evaluate them; checked by :func:`.rules.check_spec`."""

    y_true: Any = "y_true"
    """None: the predictions have no true labels. Of label sets, as ``y_pred``, also as ``proba``:
    columns of 0 and 1."""
    y_pred: Any = None
    score: str | None = None
    proba: Proba | None = None
    models: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of a comparison, from each model to its fields: ``y_pred``, ``score`` or both."""
    weight: str | None = None
    unit: str | None = None
    positive: Any = None
    """A label, or its text."""
    negative: Any = None
    """The other label of a binary task, or its text."""
    labels: tuple[Any, ...] | None = None
    """All labels, or their texts."""
    threshold: float | Mapping[Any, float] | None = None
    """Of label sets also a mapping from labels, or their texts."""
    label_separator: str | None = None
    """Of label sets in one text: what stands between the labels."""
    task: str = "auto"
    metrics: tuple[str, ...] | None = None
    time: str | None = None
    time_unit: str | None = None
    utc: bool = False
    """Whether times of files that have no zone are UTC."""
    window: WindowSpec | None = None
    slices: Dimensions = ()
    max_slices: int = MAX_SLICES
    max_scores: int | None = None
    intervals: bool = False
    probabilities: bool = True
    """Whether the numbers of ``proba`` are probabilities, and no other scores."""
    as_scores: bool = False
    """Of label sets: whether ``proba`` was given as ``score``, of any numbers."""
    also_kept: tuple[str, ...] = ()
    """Metrics to keep beside those of ``metrics``."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Other arguments of :class:`~streameval.Evaluator`."""
    wording: Wording = COMMAND

    def __post_init__(self) -> None:
        if self.task_fields.get("score") == "probabilities" and self.proba is None:
            # What has a number of each label has one name here.
            object.__setattr__(self, "as_scores", self.as_scores or self.score is not None)
            object.__setattr__(self, "proba", self.score)
            object.__setattr__(self, "score", None)

    @property
    def fields(self) -> dict[str, str]:
        """The fields' paths by what they hold, without probabilities and slices."""
        paths = {name: getattr(self, name) for name in KINDS if name != "proba"}
        named = {n: path for n, path in paths.items() if path is not None and not self.pairs(n)}
        for model, fields in self.models.items():
            named |= {f"{name}:{model}": path for name, path in fields.items()}
        return named

    @property
    def paths(self) -> dict[str, str]:
        """From each argument of an evaluator, as errors name it, to the path of its field."""
        found = {}
        for column, path in self.fields.items():
            name, of, model = column.partition(":")
            argument = "event_time" if name == "time" else name
            found[f"{argument}[{model!r}]" if of else argument] = path
        if isinstance(self.proba, str) and not self.pairs("proba"):
            found["proba"] = self.proba
        return found | {f"slices[{shown(path)}]": path for path in self.slice_fields}

    @property
    def predicted(self) -> list[str]:
        """The paths of the predicted labels."""
        return [path for name, path in self.fields.items() if name.partition(":")[0] == "y_pred"]

    def has(self, name: str) -> bool:
        """Whether a field is named, of the one model or of one of several."""
        of_models = any(name in fields for fields in self.models.values())
        return of_models or getattr(self, name) is not None

    @property
    def has_scores(self) -> bool:
        """Whether predictions have scores or probabilities."""
        return self.proba is not None or self.has("score")

    @property
    def timed(self) -> bool:
        """Whether the window is one of event time."""
        return self.window is not None and self.window.needs_time

    @property
    def kind(self) -> TaskName:
        """The task as an evaluator names it."""
        if self.task != "auto":
            return self.task
        labelled = self.positive is not None or self.negative is not None
        return likely_task(labelled or self.has("score"))

    @property
    def measured(self) -> TaskName:
        """The task as the registry of metrics names it."""
        return self.kind if self.y_true is not None else str(TASKS[self.kind].unlabelled)

    @property
    def task_fields(self) -> Mapping[str, FieldKind]:
        """How the task's events are held, by their arguments."""
        return TASKS[self.kind].fields if self.kind in TASKS else {}

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of an evaluator that do not depend on the labels."""
        kept = self.metrics
        if kept is None and any(_on_request(find(one, self.measured)) for one in self.also_kept):
            every = (row for row in ROWS if self.measured in row.tasks)
            kept = tuple(row.name for row in every if not _on_request(row))
        if kept is not None:
            kept = tuple(dict.fromkeys((*kept, *self.also_kept)))
        given: dict[str, Any] = {
            "metrics": kept,
            "window": self.window,
            "slices": [names[0] if len(names) == 1 else names for names in self.slices],
            "max_slices": self.max_slices,
            "max_scores": self.max_scores,
            "time_unit": self.time_unit,
        }
        # A mapping has labels, whose type is known with the first records.
        if self.threshold is not None and not isinstance(self.threshold, Mapping):
            given["threshold"] = self.threshold
        if not self.models:
            given["temporal"] = any(find(name, self.measured).ordered for name in self.also_kept)
            given["intervals"] = self.intervals
            if self.unit is not None and "bootstrap" not in self.more:
                given["bootstrap"] = Bootstrap(unit=self.unit)
        if not self.probabilities:
            given["probabilities"] = False
        return given | dict(self.more)

    @property
    def slice_fields(self) -> tuple[str, ...]:
        """The fields that slices are made of, each once."""
        return tuple(dict.fromkeys(name for names in self.slices for name in names))

    @property
    def binary(self) -> bool:
        """Whether the task has a positive label, which its scores are of."""
        return TASKS[self.kind].positive is not None

    def pairs(self, name: str) -> list[tuple[Any, str]]:
        """Label and field of each column of ``proba`` or of label sets; empty: one field."""
        given = getattr(self, name)
        if name not in self._in_columns or given is None:
            return []
        if isinstance(given, Mapping):
            return list(given.items())
        if isinstance(given, str):
            return label_pairs(name, given)
        fields = list(given)
        # Fields without labels of their own are named as the labels, or in their order.
        if self.labels is None or set(map(str, self.labels)) == set(fields):
            return [(field, field) for field in fields]
        if len(self.labels) != len(fields):
            raise InputError(
                self.wording.where(name),
                expected=f"{len(self.labels)} fields, one for each of "
                + self.wording.option("labels"),
                got=f"{len(fields)}: {', '.join(fields[:8])}",
            )
        return list(zip(self.labels, fields, strict=True))

    @property
    def _in_columns(self) -> list[str]:
        """The options that may name a column for each label."""
        of_sets = [name for name in ("y_true", "y_pred") if self.task_fields.get(name) == "labels"]
        return [*of_sets, "proba"]

    @property
    def has_threshold(self) -> bool:
        """Whether the task predicts labels from the scores that reach a threshold."""
        return "threshold" in TASKS[self.kind].options

    @property
    def patterns(self) -> dict[str, str]:
        """The patterns that columns of labels are given by, by the options."""
        return {n: getattr(self, n) for n in self._in_columns if is_pattern(getattr(self, n))}

    @property
    def shares(self) -> int | None:
        """Of probabilities in a list: how many; None where nothing says whose they are."""
        if self.binary:
            return 2
        return None if self.labels is None else len(self.labels)

    def with_columns(self, names: Iterable[str] | None, source: str = "") -> Spec:
        """The Spec with the columns that a pattern matches; ``names`` is None for a stream.

        Errors are of the source, or without one of the option that has the pattern.
        """
        found: dict[str, Any] = {}
        option = self.wording.option
        known = None if names is None else list(names)
        for name, pattern in self.patterns.items():
            matching = columns_like(pattern, known or ())
            wanted = set(map(str, self.labels or matching))
            if known is None:
                expected = "columns"
                got = "standard input, whose fields are not known before they are read"
                remedy = f"name the fields: {option(name, self.wording.forms['proba_pairs'])}"
            elif not matching or "" in matching:
                expected = f"columns named {pattern.replace('*', 'LABEL')}"
                got = f"none among {shown(', '.join(known))[1:-1]}"
                if matching:
                    got = f"one named {pattern.replace('*', '')!r}, without a label"
                remedy = f"name them with {option(name)}"
            elif self.task_fields["y_true"] == "labels" and wanted != set(matching):
                expected = f"one column for each of {option('labels')}"
                got = ", ".join(matching.values())
                remedy = f"name each with {option(name, self.wording.forms['proba_pairs'])}"
            else:
                found[name] = matching
                continue
            expected += f", for {option(name, shown(pattern))}"
            raise InputError(source or name, expected=expected, got=got, remedy=remedy)
        return replace(self, **found) if found else self

    def field_requests(self) -> list[FieldRequest]:
        """The fields to read, each once."""
        fields: list[FieldRequest] = []
        for name, kind in KINDS.items():
            path = getattr(self, name)
            if pairs := self.pairs(name) if name in self._in_columns else []:
                cell: Kind = "number" if name == "proba" else "indicator"
                fields += [
                    FieldRequest(column, cell, part_column(name, number))
                    for number, (_, column) in enumerate(pairs)
                ]
            elif name == "proba" and path is not None:
                held = self.task_fields.get(name, kind)
                fields.append(FieldRequest(path, held, name, shares=self.shares))
            elif path is not None and kind == "time":
                fields.append(FieldRequest(path, kind, name, self.time_unit, self.utc))
            elif path is not None:
                fields.append(self._request(name, path, name))
        for model, of_model in self.models.items():
            fields += [
                self._request(name, path, f"{name}:{model}") for name, path in of_model.items()
            ]
        # A label that is sliced by is read once.
        labels = {field.path for field in fields if field.kind == "label"}
        for path in self.slice_fields:
            kind = "label" if path in labels else "slice"
            fields.append(FieldRequest(path, kind, f"{SLICE}{path}"))
        return _each_once(fields)

    def _request(self, name: str, path: str, column: str) -> FieldRequest:
        held = self.task_fields.get(name, KINDS[name])
        separator = self.label_separator if held == "labels" else None
        return FieldRequest(path, held, column, separator=separator)


def _on_request(metric: Metric) -> bool:
    """Whether a metric's states are kept only where it is named."""
    return any(STATES[state].requested_only for state in metric.states)


def _each_once(fields: Sequence[FieldRequest]) -> list[FieldRequest]:
    found: dict[str, FieldRequest] = {}
    for one in fields:
        known = found.get(one.path)
        if known is None:
            found[one.path] = one
        elif replace(known, column=one.column, also=()) == one:
            found[one.path] = replace(known, also=(*known.also, one.column))
        else:
            raise InputError(
                one.path,
                expected="one use of the field",
                got=f"it as a {known.kind} and as a {one.kind}",
            )
    return list(found.values())


def checked_proba(proba: object) -> Proba | None:
    """The argument ``proba`` of a call; raises InputError."""
    if proba is None or isinstance(proba, str):
        return proba
    expected = "a column, 'prefix*', columns, or a mapping label -> column"
    if isinstance(proba, Mapping):
        columns = listed(proba.values(), "proba", expected)
    else:
        columns = proba = listed(proba, "proba", expected)
    if not columns or not all(isinstance(column, str) for column in columns):
        raise InputError("proba", expected=expected, got=shown(proba))
    if len(set(columns)) < len(columns):
        raise InputError("proba", expected="each column once", got=shown(columns))
    return proba


def label_pairs(name: str, text: str) -> list[tuple[str, str]]:
    """The ``label=column`` pairs of ``--proba`` and the like; empty where it names one field."""
    if "=" not in text:
        return []
    pairs: list[tuple[str, str]] = []
    for part in text.split(","):
        label, equals, column = part.partition("=")
        if not (label and equals and column) or label in dict(pairs):
            raise InputError(
                COMMAND.where(name),
                expected="a field, or label=column,label=column with each label once",
                got=repr(text),
            )
        pairs.append((label, column))
    return pairs
