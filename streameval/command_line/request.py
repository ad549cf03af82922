"""What a user asked ``evaluate`` for, checked before any file is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from streameval.command_line.details import Details
from streameval.command_line.window_text import Dimensions
from streameval.errors import InputError, MetricError
from streameval.files.chunk import Wanted
from streameval.metrics.registry import find
from streameval.tally import Task
from streameval.windows.kinds import kind_of, window_forms
from streameval.windows.window import WindowSpec

__all__ = ["Request", "probability_pairs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The fields to read and how to judge them; the options of ``evaluate``."""

    y_true: str = "y_true"
    y_pred: str | None = None
    score: str | None = None
    proba: str | None = None
    weight: str | None = None
    positive: str | None = None
    labels: tuple[str, ...] | None = None
    threshold: float | None = None
    task: str = "auto"
    metrics: tuple[str, ...] | None = None
    time: str | None = None
    time_unit: str | None = None
    window: WindowSpec | None = None
    slices: Dimensions = ()
    max_slices: int = 10_000
    details: Details = field(default_factory=Details)

    def __post_init__(self) -> None:
        if self.y_pred is None and self.score is None and self.proba is None:
            raise InputError(
                "evaluate",
                expected="--y-pred, --score or --proba",
                got="none of them",
                remedy="name the field that holds the prediction",
            )
        if self.score is not None and self.proba is not None:
            raise InputError("--proba", expected="--score or --proba", got="both")
        if self.threshold is not None and not self._scored:
            raise InputError(
                "--threshold",
                expected="it beside --score, or beside --proba in a binary task",
                got="neither",
            )
        if self.binary and self.labels is not None and len(self.labels) != 2:
            raise InputError(
                "--labels", expected="two labels in a binary task", got=", ".join(self.labels)
            )
        if self.task == "multiclass":
            for option, value in (("--score", self.score), ("--positive", self.positive)):
                if value is not None:
                    raise InputError(
                        option, expected="it in a binary task only", got="--task multiclass"
                    )
        self._check_window()
        self._check_metrics()

    def _check_window(self) -> None:
        needs_time = self.window is not None and self.window.needs_time
        if needs_time and self.time is None:
            raise InputError(
                "--window",
                expected="--time beside a window of event time",
                got="no --time",
                remedy="add --time FIELD, the field that says when the event happened",
            )
        if self.time is not None and not needs_time:
            raise InputError(
                "--time",
                expected="it beside a window of event time",
                got="none",
                remedy="add "
                + " or ".join(f"--window {form}" for form in window_forms(timed=True))
                + ", or leave --time out",
            )
        if self.time_unit is not None and self.time is None:
            raise InputError(
                "--time-unit",
                expected="it beside --time",
                got="no --time",
                remedy="add --time FIELD",
            )
        kind = kind_of(self.window)
        if self.details.series is not None and (kind is None or kind.widest is None):
            raise InputError(
                "--series",
                expected="a window of panes",
                got="no --window" if self.window is None else "another window",
                remedy="add --window panes:1h --time FIELD",
            )

    def _check_metrics(self) -> None:
        """Raise now, not after an hour, for a metric that these fields cannot give."""
        scores = self.score is not None or self.proba is not None
        for name in (*(self.metrics or ()), *self.details.metrics):
            metric = find(name, self.kind)
            if not scores and metric.needs_scores:
                option, what = (
                    ("--score", "scores") if self.binary else ("--proba", "probabilities")
                )
                raise MetricError(f"{name} needs {what}: name their field with {option}")
            if metric.ordered and self.window is not None and not self.window.keeps_order:
                raise MetricError(
                    f"{name} is about the order of events, which this window does not keep: "
                    "use --window last:10000, or no --window"
                )

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
        """Whether a metric is asked for that the usual ones do without."""
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
        return self.score is not None or self.positive is not None

    @property
    def _scored(self) -> bool:
        return self.score is not None or (self.binary and self.proba is not None)

    def wanted(self) -> list[Wanted]:
        """The fields to read, each once."""
        fields = [Wanted(self.y_true, "label")]
        if self.y_pred is not None:
            fields.append(Wanted(self.y_pred, "label"))
        if self.score is not None:
            fields.append(Wanted(self.score, "number"))
        pairs = probability_pairs(self.proba)
        if pairs:
            fields.extend(Wanted(path, "number") for _, path in pairs)
        elif self.proba is not None:
            fields.append(Wanted(self.proba, "probability" if self.binary else "probabilities"))
        if self.weight is not None:
            fields.append(Wanted(self.weight, "weight"))
        if self.time is not None:
            fields.append(Wanted(self.time, "time", self.time_unit))
        # To slice by a label is no second reading of it.
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
    """The ``label=column`` pairs of ``--proba``; none where it names one field.

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
