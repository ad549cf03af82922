"""The options of ``evaluate`` and ``compare``, checked before any file is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streameval.cli.options import Dimensions
from streameval.cli.result import Details
from streameval.errors import InputError, MetricError, OptionError
from streameval.events.event import Task
from streameval.metrics.registry import find
from streameval.records.chunk import Kind, Wanted
from streameval.windows.kinds import kind_of, window_forms
from streameval.windows.last import LAST
from streameval.windows.window import WindowSpec

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The fields to read, and how to evaluate them."""

    y_true: str = "y_true"
    y_pred: str | None = None
    score: str | None = None
    proba: str | None = None
    models: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of a comparison, from each model to its fields: ``y_pred``, ``score`` or both."""
    weight: str | None = None
    unit: str | None = None
    positive: str | None = None
    labels: tuple[str, ...] | None = None
    threshold: float | None = None
    task: str = "auto"
    metrics: tuple[str, ...] | None = None
    time: str | None = None
    time_unit: str | None = None
    window: WindowSpec | None = None
    slices: Dimensions = ()
    max_slices: int = MAX_SLICES
    max_scores: int | None = None
    details: Details = field(default_factory=Details)

    def __post_init__(self) -> None:
        if not (self._has("y_pred") or self._has("score") or self.proba is not None):
            raise InputError(
                "evaluate",
                expected="--y-pred, --score or --proba",
                got="none of them",
                remedy="name the field that holds the prediction",
            )
        if self.score is not None and self.proba is not None:
            raise OptionError.conflicts("--proba", "--score")
        if self.threshold is not None and not self._scored:
            raise OptionError.requires("--threshold", "--score, or --proba in a binary task")
        if self.binary and self.labels is not None and len(self.labels) != 2:
            raise InputError(
                "--labels", expected="two labels in a binary task", got=", ".join(self.labels)
            )
        if self.task == "multiclass":
            binary = (("--score", self._has("score")), ("--positive", self.positive is not None))
            for option, given in binary:
                if given:
                    raise OptionError.conflicts(option, "--task multiclass")
        self._check_window()
        self._check_metrics()

    def _check_window(self) -> None:
        needs_time = self.window is not None and self.window.needs_time
        if needs_time and self.time is None:
            remedy = "add --time FIELD, the field of the event's time"
            raise OptionError.requires("--window", "--time", remedy=remedy)
        if self.time is not None and not needs_time:
            forms = " or ".join(f"--window {form}" for form in window_forms(timed=True))
            remedy = f"add {forms}, or leave --time out"
            raise OptionError.requires("--time", "a --window of event time", remedy=remedy)
        if self.max_scores is not None:
            if self.score is None and self.proba is None:
                raise OptionError.requires("--max-scores", "--score or --proba")
            if kind_of(self.window) is LAST:
                remedy = "leave --max-scores out: the window keeps its events anyhow"
                raise OptionError.conflicts("--max-scores", "--window last", remedy=remedy)
        if self.time_unit is not None and self.time is None:
            raise OptionError.requires("--time-unit", "--time", remedy="add --time FIELD")
        if self.details.anytime and self.window is not None:
            remedy = "such intervals cover all events since a start; leave one out"
            raise OptionError.conflicts("--anytime", "--window", remedy=remedy)
        kind = kind_of(self.window)
        if self.unit is not None and kind is LAST:
            remedy = "use --window panes:1h, or no --window"
            raise OptionError.conflicts("--unit", "--window last", remedy=remedy)
        if self.details.series is not None and (kind is None or kind.widest is None):
            remedy = "add --window panes:1h --time FIELD"
            raise OptionError.requires("--series", "a --window of panes", remedy=remedy)

    def _check_metrics(self) -> None:
        """Raise MetricError for a metric that cannot be computed from these fields."""
        scores = self._has("score") or self.proba is not None
        for name in (*(self.metrics or ()), *self.details.metrics):
            metric = find(name, self.kind)
            if not scores and metric.needs_scores:
                option, what = (
                    ("--score", "scores") if self.binary else ("--proba", "probabilities")
                )
                raise MetricError(f"{name} needs {what}: name their field with {option}")
            if metric.ordered and self.unit is not None:
                raise OptionError.conflicts("--unit", f"{name}, which is about the order of events")
            if metric.ordered and self.window is not None and not self.window.keeps_order:
                raise MetricError(
                    f"{name} is about the order of events, which this window does not keep: "
                    "use --window last:10000, or no --window"
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
    def kind(self) -> Task:
        """The task as an evaluator names it."""
        return "binary" if self.binary else "multiclass"

    @property
    def kept_metrics(self) -> tuple[str, ...] | None:
        """The metrics whose states an evaluator keeps; None for the usual ones."""
        if self.metrics is None:
            return None
        return tuple(dict.fromkeys((*self.metrics, *self.details.metrics)))

    @property
    def temporal(self) -> bool:
        """Whether a metric requires the order of events."""
        return any(find(name, self.kind).ordered for name in self.details.metrics)

    @property
    def slice_fields(self) -> tuple[str, ...]:
        """The fields that slices are made of, each once."""
        return tuple(dict.fromkeys(name for names in self.slices for name in names))

    @property
    def binary(self) -> bool:
        """Whether the task is binary: declared, or because of --score or --positive."""
        if self.task != "auto":
            return self.task == "binary"
        return self._has("score") or self.positive is not None

    @property
    def _scored(self) -> bool:
        return self._has("score") or (self.binary and self.proba is not None)

    def wanted(self) -> list[Wanted]:
        """The fields to read, each once."""
        fields: list[Wanted] = []
        for name, kind in _KINDS.items():
            path = getattr(self, name)
            if name == "proba" and (pairs := probability_pairs(path)):
                fields += [Wanted(column, "number") for _, column in pairs]
            elif name == "proba" and path is not None:
                fields.append(Wanted(path, "probability" if self.binary else kind))
            elif path is not None:
                fields.append(Wanted(path, kind, self.time_unit if kind == "time" else None))
        for of_model in self.models.values():
            fields += [Wanted(path, _KINDS[name]) for name, path in of_model.items()]
        # A label that is sliced by is read once.
        labels = {field.path for field in fields if field.kind == "label"}
        fields.extend(Wanted(path, "slice") for path in self.slice_fields if path not in labels)
        return _each_once(fields)


def _each_once(fields: Sequence[Wanted]) -> list[Wanted]:
    kinds: dict[str, Wanted] = {}
    for want in fields:
        if kinds.setdefault(want.path, want) != want:
            raise InputError(
                want.path,
                expected="one use of the field",
                got=f"it as a {kinds[want.path].kind} and as a {want.kind}",
            )
    return list(kinds.values())


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
