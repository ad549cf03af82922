"""What to read of records and how to evaluate it, checked before anything is read.

The commands ``evaluate`` and ``compare`` and :func:`streameval.evaluate` make one request each;
errors are written in the options of the command line, or in the arguments of the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from streameval.errors import InputError, MetricError, OptionError, listed, shown
from streameval.metrics.registry import find
from streameval.records.chunk import FieldRequest, Kind
from streameval.records.event_columns import SLICE, ColumnPattern, proba_column
from streameval.tasks.registry import TASKS, TaskName, likely_task
from streameval.tasks.task import FieldKind
from streameval.windows.kinds import KINDS, kind_of, window_forms
from streameval.windows.last import LAST
from streameval.windows.replicated import Bootstrap
from streameval.windows.window import WindowSpec

Dimensions: TypeAlias = tuple[tuple[str, ...], ...]
"""Names of the fields that make each kind of slice."""

Proba: TypeAlias = str | Mapping[Any, str] | Sequence[str]
"""A field, ``PREFIX*SUFFIX``, label -> field, or fields in the order of the labels."""

MAX_SLICES = 10_000

_KINDS: dict[str, Kind] = {
    "y_true": "label",
    "y_pred": "label",
    "score": "number",
    "proba": "probabilities",
    "weight": "weight",
    "unit": "slice",
    "time": "time",
}
"""The options that name a field, in the order in which the fields of a record are checked."""


@dataclass(frozen=True, slots=True)
class Wording:
    """How errors write the options: those of the command line, or the arguments of a call.

    >>> COMMAND.option("y_pred"), CALL.option("y_pred"), CALL.option("positive", "LABEL")
    ('--y-pred', 'y_pred=', 'positive=LABEL')
    """

    command: bool
    names: Mapping[str, str]
    """Options that have another name than the field of the request."""

    def option(self, name: str, value: str = "") -> str:
        """An option, or an option with its value."""
        name = self.names.get(name, name)
        if not self.command:
            return f"{name}={value}"
        return f"--{name.replace('_', '-')}" + (f" {value}" if value else "")

    def where(self, name: str) -> str:
        """The option as the place of an error."""
        return self.option(name).rstrip("=")

    def timed_windows(self) -> str:
        """The windows of event time, as they are given."""
        if self.command:
            return " or ".join(self.option("window", form) for form in window_forms(timed=True))
        timed = (kind.spec.__name__ for kind in KINDS.values() if kind.clock != "events")
        return " or ".join(self.option("window", f"streameval.{name}(...)") for name in timed)

    def panes(self) -> str:
        """A window of panes, as it is given."""
        return self.option("window", "panes:1h" if self.command else 'streameval.Panes("1h")')


COMMAND = Wording(True, {"slices": "slice"})
CALL = Wording(False, {"slices": "by", "unit": "bootstrap"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The fields to read, and how to evaluate them."""

    y_true: str = "y_true"
    y_pred: str | None = None
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
    threshold: float | None = None
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
    also_kept: tuple[str, ...] = ()
    """Metrics to keep beside those of ``metrics``."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Other arguments of :class:`~streameval.Evaluator`."""
    wording: Wording = COMMAND

    def __post_init__(self) -> None:
        option = self.wording.option
        if not (self._has("y_pred") or self._has("score") or self.proba is not None):
            raise InputError(
                "evaluate",
                expected=f"{option('y_pred')}, {option('score')} or {option('proba')}",
                got="none of them",
                remedy="name the field that holds the prediction",
            )
        if self.score is not None and self.proba is not None:
            raise OptionError.conflicts(option("proba"), option("score"))
        if self.threshold is not None and not self._scored:
            raise OptionError.requires(
                option("threshold"), f"{option('score')}, or {option('proba')} in a binary task"
            )
        if self.binary and self.labels is not None and len(self.labels) != 2:
            raise InputError(
                self.wording.where("labels"),
                expected="two labels in a binary task",
                got=", ".join(map(str, self.labels)),
            )
        if self.negative is not None:
            if self.labels is not None:
                raise OptionError.conflicts(option("negative"), option("labels"))
            if str(self.negative) == str(self.positive):
                raise InputError(
                    self.wording.where("negative"),
                    expected="another label than the positive one",
                    got=shown(self.negative),
                )
        if self.utc and self.time is None:
            remedy = f"add {option('time', 'FIELD')}"
            raise OptionError.requires(self.wording.where("utc"), option("time"), remedy=remedy)
        if not self.binary:
            for name in ("score", "positive", "negative"):
                if self._has(name):
                    task = option("task", self.task if self.wording.command else f'"{self.task}"')
                    raise OptionError.conflicts(option(name), task)
        self._check_scores()
        self._check_window()
        self._check_metrics()

    def _check_scores(self) -> None:
        if self.probabilities:
            return
        option = self.wording.option
        this = "--no-probabilities" if self.wording.command else "probabilities=False"
        if self.binary:
            remedy = f"binary scores may be any numbers: name their field with {option('score')}"
            raise OptionError.requires(this, "a multi-class task", remedy=remedy)
        for name, given, value in (
            ("proba", self.proba, "FIELD,FIELD"),
            ("labels", self.labels, "LABEL,LABEL"),
        ):
            if given is None:
                raise OptionError.requires(this, option(name), remedy=f"add {option(name, value)}")

    def _check_window(self) -> None:
        option = self.wording.option
        needs_time = self.window is not None and self.window.needs_time
        if needs_time and self.time is None:
            remedy = f"add {option('time', 'FIELD')}, the field of the event's time"
            raise OptionError.requires(option("window"), option("time"), remedy=remedy)
        if self.time is not None and not needs_time:
            remedy = f"add {self.wording.timed_windows()}, or leave {option('time')} out"
            raise OptionError.requires(
                option("time"), f"a {option('window')} of event time", remedy=remedy
            )
        if self.max_scores is not None:
            if self.score is None and self.proba is None:
                raise OptionError.requires(
                    option("max_scores"), f"{option('score')} or {option('proba')}"
                )
            if kind_of(self.window) is LAST:
                remedy = f"leave {option('max_scores')} out: the window keeps its events anyhow"
                last = option("window", "last" if self.wording.command else "Last(n)")
                raise OptionError.conflicts(option("max_scores"), last, remedy=remedy)
        if self.time_unit is not None and self.time is None:
            remedy = f"add {option('time', 'FIELD')}"
            raise OptionError.requires(option("time_unit"), option("time"), remedy=remedy)
        if self.unit is not None and kind_of(self.window) is LAST:
            remedy = f"use {self.wording.panes()}, or no {option('window')}"
            last = option("window", "last" if self.wording.command else "Last(n)")
            raise OptionError.conflicts(option("unit"), last, remedy=remedy)

    def _check_metrics(self) -> None:
        """Raise MetricError for a metric that cannot be computed from these fields."""
        option = self.wording.option
        scores = self._has("score") or self.proba is not None
        for name in (*(self.metrics or ()), *self.also_kept):
            metric = find(name, self.kind)
            if not scores and metric.needs_scores:
                given, what = ("score", "scores") if self.binary else ("proba", "probabilities")
                raise MetricError(f"{name} needs {what}: name their field with {option(given)}")
            if metric.ordered and self.unit is not None:
                raise OptionError.conflicts(
                    option("unit"), f"{name}, which is about the order of events"
                )
            if metric.ordered and self.window is not None and not self.window.keeps_order:
                last = "last:10000" if self.wording.command else "streameval.Last(10_000)"
                raise MetricError(
                    f"{name} is about the order of events, which this window does not keep: "
                    f"use {option('window', last)}, or no {option('window')}"
                )

    @property
    def fields(self) -> dict[str, str]:
        """The fields' paths by what they hold, without probabilities and slices."""
        paths = {name: getattr(self, name) for name in _KINDS if name != "proba"}
        named = {name: path for name, path in paths.items() if path is not None}
        for model, fields in self.models.items():
            named |= {f"{name}:{model}": path for name, path in fields.items()}
        return named

    @property
    def predicted(self) -> list[str]:
        """The paths of the predicted labels."""
        return [path for name, path in self.fields.items() if name.partition(":")[0] == "y_pred"]

    def _has(self, name: str) -> bool:
        of_models = any(name in fields for fields in self.models.values())
        return of_models or getattr(self, name) is not None

    @property
    def kind(self) -> TaskName:
        """The task as an evaluator names it."""
        if self.task != "auto":
            return self.task
        labelled = self.positive is not None or self.negative is not None
        return likely_task(labelled or self._has("score"))

    @property
    def task_fields(self) -> Mapping[str, FieldKind]:
        """How the task's events are held, by their arguments."""
        return TASKS[self.kind].fields

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of an evaluator that do not depend on the labels."""
        kept = self.metrics
        if kept is not None:
            kept = tuple(dict.fromkeys((*kept, *self.also_kept)))
        given: dict[str, Any] = {
            "metrics": kept,
            "window": self.window,
            "slices": self.slices,
            "max_slices": self.max_slices,
            "max_scores": self.max_scores,
            "time_unit": self.time_unit,
        }
        if self.binary and self.threshold is not None:
            given["threshold"] = self.threshold
        if not self.models:
            given["temporal"] = any(find(name, self.kind).ordered for name in self.also_kept)
            given["intervals"] = self.intervals
            given["bootstrap"] = None if self.unit is None else Bootstrap(unit=self.unit)
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

    @property
    def _scored(self) -> bool:
        return self._has("score") or (self.binary and self.proba is not None)

    @property
    def proba_pairs(self) -> list[tuple[Any, str]]:
        """Label and field of each column of probabilities; empty where one field holds them all.

        Fields without labels of their own are those of ``labels``, unless they are named as these.
        """
        if isinstance(self.proba, Mapping):
            return list(self.proba.items())
        if isinstance(self.proba, str) or self.proba is None:
            return probability_pairs(self.proba)
        fields = self.proba_fields
        if self.labels is None or set(map(str, self.labels)) == set(fields):
            return [(field, field) for field in fields]
        if len(self.labels) != len(fields):
            raise InputError(
                self.wording.where("proba"),
                expected=f"{len(self.labels)} fields, one for each of "
                + self.wording.option("labels"),
                got=f"{len(fields)}: {', '.join(fields[:8])}",
            )
        return list(zip(self.labels, fields, strict=True))

    @property
    def proba_fields(self) -> list[str]:
        """The fields that hold one label's probabilities each; empty where one holds them all."""
        if isinstance(self.proba, str) or self.proba is None:
            return [path for _, path in probability_pairs(self.proba)]
        return list(self.proba.values() if isinstance(self.proba, Mapping) else self.proba)

    @property
    def proba_pattern(self) -> ColumnPattern | None:
        """The pattern that probabilities are given by; None where they are given otherwise."""
        return ColumnPattern.of(self.proba)

    @property
    def shares(self) -> int | None:
        """Of probabilities in a list: how many; None where nothing says whose they are."""
        if self.binary:
            return 2
        return None if self.labels is None else len(self.labels)

    def with_columns(self, names: Iterable[str] | None, source: str) -> Request:
        """The request in terms of the columns of the data: each of a pattern by its name.

        Args:
            names: Of the columns; None where records have none before they are read.
            source: Its name in errors.

        Raises:
            InputError: No column is of the pattern, or there are no columns.
        """
        pattern = self.proba_pattern
        if pattern is None:
            return self
        option = self.wording.option
        if names is None:
            pair = "LABEL=FIELD,LABEL=FIELD" if self.wording.command else "{LABEL: FIELD, ...}"
            raise InputError(
                source,
                expected=f"columns, for {option('proba', shown(self.proba))}",
                got="standard input, whose fields are not known before they are read",
                remedy=f"name the fields: {option('proba', pair)}",
            )
        known = list(names)
        found = pattern.matching(known)
        if not found or "" in found:
            raise InputError(
                source,
                expected=f"columns named {pattern.prefix}LABEL{pattern.suffix}, for "
                + option("proba", shown(self.proba)),
                got=f"none among {shown(', '.join(known))[1:-1]}"
                if not found
                else f"one named {pattern.prefix + pattern.suffix!r}, without a label",
                remedy=f"name them with {option('proba')}",
            )
        return replace(self, proba=found)

    def wanted(self) -> list[FieldRequest]:
        """The fields to read, each once."""
        fields: list[FieldRequest] = []
        for name, kind in _KINDS.items():
            path = getattr(self, name)
            if name == "proba" and self.proba_fields:
                fields += [
                    FieldRequest(column, "number", proba_column(number))
                    for number, column in enumerate(self.proba_fields)
                ]
            elif name == "proba" and path is not None:
                held = self.task_fields.get(name, kind)
                fields.append(FieldRequest(path, held, name, shares=self.shares))
            elif path is not None and kind == "time":
                fields.append(FieldRequest(path, kind, name, self.time_unit, self.utc))
            elif path is not None:
                fields.append(FieldRequest(path, self.task_fields.get(name, kind), name))
        for model, of_model in self.models.items():
            fields += [
                FieldRequest(path, _KINDS[name], f"{name}:{model}")
                for name, path in of_model.items()
            ]
        # A label that is sliced by is read once.
        labels = {field.path for field in fields if field.kind == "label"}
        for path in self.slice_fields:
            kind = "label" if path in labels else "slice"
            fields.append(FieldRequest(path, kind, f"{SLICE}{path}"))
        return _each_once(fields)


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


def probability_pairs(proba: str | None) -> list[tuple[str, str]]:
    """The ``label=column`` pairs of ``--proba``; empty where it names one field.

    >>> probability_pairs("cat=p_cat,dog=p_dog"), probability_pairs("proba")
    ([('cat', 'p_cat'), ('dog', 'p_dog')], [])
    """
    if proba is None or "=" not in proba:
        return []
    pairs: list[tuple[str, str]] = []
    for part in proba.split(","):
        label, equals, column = part.partition("=")
        if not (label and equals and column) or label in dict(pairs):
            raise InputError(
                "--proba",
                expected="a field, or label=column,label=column with each label once",
                got=repr(proba),
            )
        pairs.append((label, column))
    return pairs
