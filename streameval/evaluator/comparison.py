"""Several models on the same events: the metrics of each, and how sure their differences are."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self, TypeAlias

import numpy as np

from streameval.errors import InputError, MetricError, StateError, did_you_mean, listed, shown
from streameval.evaluator.evaluation import MergeableEvaluation
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.predictions import Predictions
from streameval.evaluator.public_class import PublicClass
from streameval.evaluator.reports import TableOfRows, number, slice_columns
from streameval.evaluator.slices import SlicedWindows, SliceKey, Slicer, part_of, slice_name
from streameval.evaluator.spellings import explains_attributes, explains_keywords
from streameval.evaluator.view import View, ViewContext, drawn, locked
from streameval.events.event import EventBatch
from streameval.events.values import Label, named_columns
from streameval.metrics.metric import Metric
from streameval.metrics.registry import USUAL_METRICS, find, metric_names
from streameval.metrics.undefined import json_number
from streameval.state_files.codec import Unpacked, unpack_one_of
from streameval.state_files.disk import read_one_of, read_provenance
from streameval.state_files.provenance import Provenance
from streameval.states.joint_losses import columns_of_losses, losses_of
from streameval.states.registry import STATES, states_of
from streameval.states.state_set import StatePlan, StateSet
from streameval.tasks.comparison import MAX_MODELS, ComparisonTask
from streameval.tasks.registry import TASKS, TaskName
from streameval.uncertainty.bootstrap import REPLICATES
from streameval.uncertainty.interval import checked_level, hash_of_values, same_values
from streameval.uncertainty.joint_influence import MEAN_LOSSES, Pairs
from streameval.uncertainty.multiple_testing import benjamini_hochberg, holm
from streameval.uncertainty.paired import (
    PairedRequest,
    needs_pairs,
    no_test,
    paired_test,
)
from streameval.windows import window_spec
from streameval.windows.last import Last
from streameval.windows.window import Window

_KIND = "comparison"
_OF_EVERY_EVENT = frozenset({"confusion", "errors", "label_counts", "label_sets"})
_REFUSED = {
    "max_scores": "no limit: a comparison keeps the scores of all models together, and exactly; "
    "metrics= that need no scores, and paired_scores=False, keep none",
    "bootstrap": "no replicates by unit: differences are resampled by event",
}
_WORDS = {"y_pred": "labels", "score": "scores", "proba": "probabilities"}
_WORDS_OF_KIND = {"labels": "sets of labels", "number": "predicted numbers"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Difference:
    """The difference of a metric of two models on the same events.

    >>> print(Difference(metric="accuracy", a="new", b="old", value=0.02, low=0.005, high=0.035,
    ...     p_value=0.009, method="McNemar", level=0.95, n=2000))
    accuracy of new less old: 0.02 [0.005, 0.035], p = 0.009
    """

    metric: str
    a: str
    """The model whose metric counts positively: by default the challenger."""
    b: str
    """The model whose metric is subtracted: by default the first one."""
    value: float
    """metric(a) − metric(b); ``nan`` where undefined."""
    low: float
    """The lower end of the interval; ``nan`` where there is none."""
    high: float
    p_value: float
    """Two-sided, of the hypothesis that the difference is 0; ``nan`` without a test."""
    method: str
    """How ends and p-value were computed; empty where there are none."""
    level: float
    n: float
    """The weight of the events that the test rests on."""
    reason: str = ""
    """Why there is no interval and no p-value; else empty."""
    p_adjusted: float = math.nan
    """The p-value adjusted for the other tests of its table; ``nan`` for a single test."""

    __eq__ = same_values
    __hash__ = hash_of_values

    def __str__(self) -> str:
        told = f" [{self.low:.4g}, {self.high:.4g}], p = {self.p_value:.3g}"
        if self.reason:
            told = f" ({self.reason})"
        return f"{self.metric} of {self.a} less {self.b}: {self.value:.4g}{told}"

    def __repr__(self) -> str:
        return f"<Difference: {self}>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: what is not a number is None."""
        numbers = ("value", "low", "high", "p_value")
        return {
            "a": self.a,
            "b": self.b,
            **{name: json_number(getattr(self, name)) for name in numbers},
            "method": self.method,
            "level": self.level,
            "n": self.n,
            **({} if math.isnan(self.p_adjusted) else {"p_adjusted": self.p_adjusted}),
            **({"reason": self.reason} if self.reason else {}),
        }

    def _cells(self, *, short: bool = False) -> list[str]:
        """Difference, ends, p-value and test, as tables show them."""
        numbers = [f"{end:.6g}" for end in (self.value, self.low, self.high)]
        if short:
            ends = "" if math.isnan(self.low) else f" [{self.low:.4g}, {self.high:.4g}]"
            numbers = [f"{self.value:.4g}{ends}"]
        return [*numbers, f"{self.p_value:.4g}", self.method or self.reason]

    def _numbers(self) -> dict[str, Any]:
        """The same for data frames."""
        names = ("value", "low", "high", "p_value", "p_adjusted", "method", "reason")
        return {name: getattr(self, name) for name in names}

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))} <small>{html.escape(self.method)}</small></p>"


_DIFFERENCE = ["difference", "low", "high", "p", "test"]
_SHORT_DIFFERENCE = ["difference", "p", "test"]


@dataclass(frozen=True, slots=True)
class SliceDifference:
    """A slice's difference, and whether it is flagged."""

    slice: SliceKey
    difference: Difference
    flagged: bool
    """Whether its adjusted p-value is at most the rate of false discoveries."""
    values: Mapping[str, float]
    """The metric of each model."""


@dataclass(frozen=True, slots=True, repr=False)
class SliceDifferences(TableOfRows[SliceDifference]):
    """A difference for each slice, least p-value first; see :meth:`Comparison.slice_differences`.

    Iterating gives the rows; slices without a test are last.
    """

    metric: str
    rate: float
    rows: tuple[SliceDifference, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "metric": self.metric,
            "rate": self.rate,
            "slices": [
                {
                    "slice": dict(row.slice),
                    "values": {model: json_number(one) for model, one in row.values.items()},
                    "flagged": row.flagged,
                    **row.difference.to_dict(),
                }
                for row in self.rows
            ],
        }

    def _cells(self, *, short: bool = False) -> tuple[list[str], list[list[str]]]:
        rows = []
        for row in self.rows:
            one = row.difference
            marks = [f"{one.p_adjusted:.4g}", "yes" if row.flagged else ""]
            style = ".4g" if short else ".6g"
            values = [format(value, style) for value in row.values.values()]
            rows.append([slice_name(row.slice), *values, *one._cells(short=short), *marks])
        names = _SHORT_DIFFERENCE if short else _DIFFERENCE
        models = self.rows[0].values if self.rows else ()
        return ["slice", *models, *names, "p adjusted", "flagged"], rows

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        rows = [
            {
                **{f"value_{model}": value for model, value in row.values.items()},
                **row.difference._numbers(),
                "flagged": row.flagged,
            }
            for row in self.rows
        ]
        names = rows[0] if rows else ()
        return {
            **slice_columns([row.slice for row in self.rows]),
            **{name: [row[name] for row in rows] for name in names},
        }


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One metric of every model, and the differences from the first model."""

    metric: str
    values: Mapping[str, float]
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, repr=False)
class ComparisonReport(TableOfRows[ComparisonRow]):
    """Metrics × models, each challenger with its difference from the first model."""

    task: str
    level: float
    rows: tuple[ComparisonRow, ...]
    notes: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: what is undefined is None."""
        return {
            "task": self.task,
            **self.notes,
            "level": self.level,
            "metrics": {
                row.metric: {
                    "models": {name: json_number(value) for name, value in row.values.items()},
                    "differences": [one.to_dict() for one in row.differences],
                }
                for row in self.rows
            },
        }

    def _cells(self, *, short: bool = False) -> tuple[list[str], list[list[str]]]:
        several = any(len(row.differences) > 1 for row in self.rows)
        names = _SHORT_DIFFERENCE if short else _DIFFERENCE
        header = ["metric", "model", "value", *names] + (["p (Holm)"] if several else [])
        text = "{:.4g}".format if short else number
        lines = []
        for row in self.rows:
            (first, value), *challengers = row.values.items()
            lines.append([row.metric, first, text(value)] + [""] * (len(header) - 3))
            for (name, value), one in zip(challengers, row.differences, strict=True):
                adjusted = [f"{one.p_adjusted:.4g}"] if several else []
                lines.append(["", name, text(value), *one._cells(short=short), *adjusted])
        return header, lines

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        found = [
            {"metric": row.metric, "model": one.a, "model_value": row.values[one.a]}
            | {"reference": one.b, "reference_value": row.values[one.b]}
            | {"difference" if key == "value" else key: v for key, v in one._numbers().items()}
            for row in self.rows
            for one in row.differences
        ]
        return {name: [row[name] for row in found] for name in (found[0] if found else ())}


class ComparisonReadings:
    """What a comparison and its views read of the events in one window."""

    __slots__ = ()

    _context: ViewContext
    _views: Mapping[str, View]
    _joint_window: Window

    def __getitem__(self, model: str) -> View:
        """A model's view: every metric, report and curve of it."""
        return self._views[_known(model, self._views)]

    @property
    def models(self) -> tuple[str, ...]:
        """The models' names; the first one is the reference."""
        return tuple(self._views)

    def plot(self, /, name: str = "", ax: Any = None, **options: Any) -> Any:
        """Draw a display with a line of each model, such as ``"roc"``; as :meth:`Evaluator.plot`.

        Args:
            name: The display's name.
            ax: Axes of matplotlib; those of a new figure by default.
            options: As of the display's ``from_evaluator``.

        Raises:
            InputError: The display is of one model; ``c["champion"].plot(name)`` draws it.
        """
        return drawn(self._views, name, ax, options)

    @locked
    def difference(
        self,
        /,
        metric: str,
        a: str | None = None,
        b: str | None = None,
        *,
        level: float = 0.95,
        method: str = "auto",
        replicates: int = REPLICATES,
        seed: int = 0,
        **params: Any,
    ) -> Difference:
        """metric(a) − metric(b), with its interval and p-value; see :class:`Comparison`.

        Args:
            metric: A name of :data:`streameval.metrics.METRICS`.
            a: A model; the second one by default, which is the challenger.
            b: A model; the first one by default.
            level: Of the interval.
            method: ``"auto"``: DeLong's for AUC and Gini, McNemar's for accuracy, error rate,
                recall, specificity, FPR and FNR, Student's t for log loss and Brier score, the
                bootstrap for every other metric of labels; Student's t for errors of numbers and
                for micro and samples averages of label sets. Or ``"delong"``, ``"mcnemar"``,
                ``"t"``, ``"bootstrap"``; or ``"anytime"``, for the metrics of McNemar's test,
                which stays valid when it is looked at after every event; or
                ``"diebold_mariano"``, for the metrics of Student's t in a window of
                :class:`~streameval.Panes`, which stays valid where the errors of events of one
                pane depend on each other.
            replicates: Of the bootstrap.
            seed: Of the bootstrap: the same events give the same interval.
            params: The metric's own, such as ``beta=2``.

        Returns:
            The difference; its ends and p-value are ``nan``, with a reason, without a test.

        Raises:
            MetricError: An unknown metric, method or parameter, or a metric that is not kept.
            InputError: An unknown model, the same model twice, or a bad level.

        Cost:
            DeLong's: O(n log n) in the distinct pairs of scores. McNemar's, anytime and t: O(n).
            The bootstrap: `replicates` times the metric of the joint cells, which are few for
            labels; at 10⁵ distinct scores a few seconds.

        >>> c = Comparison(task="multiclass")
        >>> truth, wrong = ["a", "a", "b", "b"] * 5, ["a", "a", "b", "a"] * 5
        >>> _ = c.update_many(truth, {"champion": truth, "challenger": wrong})
        >>> c.difference("f1_macro", level=0.9).value < 0
        True
        >>> c.difference("accuracy").method
        'McNemar exact, Bonett-Price'
        """
        first, second = list(self._views)[:2]
        one = _known(second if a is None else a, self._views, "a")
        other = _known(first if b is None else b, self._views, "b")
        params |= {"level": level, "method": method, "replicates": replicates, "seed": seed}
        return self._difference(self._pairs(), metric, one, other, **params)

    def _pairs(self) -> Pairs:
        return Pairs.of(self._joint_window.current())

    def _panes(self) -> list[Pairs]:
        return list(map(Pairs.of, self._joint_window.parts()))

    def _difference(
        self,
        pairs: Pairs,
        metric: str,
        a: str,
        b: str,
        *,
        level: float = 0.95,
        method: str = "auto",
        replicates: int = REPLICATES,
        seed: int = 0,
        required: bool = True,
        **params: Any,
    ) -> Difference:
        """:meth:`difference` of pairs that are read once for many."""
        if a == b:
            raise InputError("b", expected=f"another model than a={a!r}", got=shown(b))
        level = checked_level(level)
        if type(replicates) is not int or not 10 <= replicates <= 100_000:
            raise InputError(
                "replicates", expected="a number from 10 to 100000", got=shown(replicates)
            )
        if type(seed) is not int or seed < 0:
            raise InputError("seed", expected="a whole number, 0 or more", got=shown(seed))
        context, views = self._context, self._views
        row: Metric = find(metric, context.plan.task, params.get("average", ...))
        of_a, of_b = (
            float(views[name].value(metric, undefined=math.nan, **params)) for name in (a, b)
        )
        params.pop("average", None)
        names = list(views)
        request = PairedRequest(
            metric=row,
            value=of_a - of_b,
            pairs=pairs,
            a=names.index(a),
            b=names.index(b),
            plan=context.plan,
            states=(views[a]._window.current(), views[b]._window.current()),
            panes=self._panes,
            level=level,
            cumulative=context.cumulative,
            params=params,
            replicates=replicates,
            seed=seed,
        )
        test = paired_test(request, method, required=required)
        if context.plan.max_scores is not None and not math.isnan(request.value):
            mine, theirs = (views[name].bounds(row.name, **params) for name in (a, b))
            if mine.width or theirs.width:
                low, high = mine.low - theirs.high, mine.high - theirs.low
                reason = f"of joined scores: the exact difference is from {low:.6g} to {high:.6g}"
                test = no_test(reason, test.n)
        return Difference(
            metric=row.name, a=a, b=b, value=request.value, level=level, **test._asdict()
        )

    @locked
    def differences(self, /, metric: str, **options: Any) -> list[Difference]:
        """Every challenger's difference from the first model.

        ``p_adjusted`` is Holm's: rejecting those of at most α has a chance of at most α of any
        false rejection. The intervals are those of single comparisons; arguments are as of
        :meth:`difference`, without ``a`` and ``b``.
        """
        return self._differences(self._pairs(), metric, **options)

    def _differences(self, pairs: Pairs, metric: str, **options: Any) -> list[Difference]:
        first, *others = self._views
        found = [self._difference(pairs, metric, name, first, **options) for name in others]
        adjusted = holm([one.p_value for one in found])
        return [replace(one, p_adjusted=p) for one, p in zip(found, adjusted, strict=True)]

    @locked
    def report(
        self, /, metrics: Iterable[str] | None = None, *, level: float = 0.95, **options: Any
    ) -> ComparisonReport:
        """Metrics of every model, and differences from the first one.

        Args:
            metrics: Names; by default those of ``metrics=``, else the task's main ones that can
                be answered.
            level: Of the intervals.
            options: As of :meth:`difference`. A `method` that does not serve a metric is not
                applied to it: the reason says so.
        """
        level = checked_level(level)
        context, views = self._context, self._views
        task = context.plan.task
        if metrics is None:
            fed = {row.metric for row in next(iter(views.values())).report()}
            kept = context.kept or USUAL_METRICS["folds", task]
            names = [name for name in kept if name in fed]
        else:
            names = metric_names(metrics)
        pairs = self._pairs()
        rows = []
        for name in names:
            values = {model: float(view[name]) for model, view in views.items()}
            found = self._differences(pairs, name, level=level, required=False, **options)
            rows.append(ComparisonRow(find(name, task).name, values, tuple(found)))
        return ComparisonReport(task, level, tuple(rows), context.notes)


class ComparisonView(ComparisonReadings):
    """The models' metrics and differences over the events of one window, read-only.

    Made by a :class:`~streameval.Comparison`: one for all events and one for each slice.
    """

    __slots__ = ("_context", "_joint_window", "_views")

    def __init__(self, views: Mapping[str, View], joint: Window, context: ViewContext) -> None:
        self._views = views
        self._joint_window = joint
        self._context = context


class Comparison(MergeableEvaluation, ComparisonReadings, metaclass=PublicClass):
    """Evaluates two or more models on the same events, and their differences.

    Each model has an :class:`Evaluator` of its own, from which any metric of it is read. Beside
    them joint cells are counted: the true label, every model's label and score. They are in the
    same windows and slices, and merge and save exactly as evaluators do.

    Args:
        models: Names, the first one the reference that the others are compared with.
        task: As of :class:`Evaluator`.
        threshold: As of :class:`Evaluator`, or a mapping model -> threshold.
        paired_scores: Whether the joint cells hold the models' scores. Without them memory
            does not grow with the pairs of scores, and differences of metrics of scores have
            a value, no interval and no p-value.
        options: The other options of :class:`Evaluator`, without ``temporal`` and ``bootstrap``;
            ``max_scores`` requires ``paired_scores=False``.

    ``difference("roc_auc")`` is the second model's metric less the first model's: a positive
    number says that the challenger is higher. For a loss, lower is better.

    Several classes: differences of metrics of labels, of log loss and of Brier score have
    intervals. Other metrics of probabilities have none, because the joint cells hold no
    probabilities of several classes. Numbers: mean errors, the root mean squared error and R² have
    intervals. Sets of labels: accuracy, Hamming loss, micro and samples averages have.

    Whole weights are counts. A weight that is not whole ends the tests (``nan`` with a reason):
    a cell keeps the total weight, from which the number of events is not known.

    Threads:
        As of :class:`Evaluator`: one lock for all models.

    Cost:
        An event of two models some 40 µs, of numbers 55 µs; in a batch 2 to 3 µs. Memory: the
        models' evaluators, and in every window and slice about 115 bytes for each distinct pair of
        scores (12 more for each further model); no pairs are kept with ``paired_scores=False``, or
        ``metrics=`` of labels, log loss and Brier score only.

    >>> c = Comparison()
    >>> _ = c.update_many(
    ...     [0, 0, 0, 1, 1, 1],
    ...     score={"champion": [.1, .4, .6, .3, .5, .9], "challenger": [.1, .2, .4, .6, .7, .9]},
    ... )
    >>> c["champion"]["accuracy"], c["challenger"]["accuracy"]
    (0.6666666666666666, 1.0)
    >>> print(c.difference("accuracy"))
    accuracy of challenger less champion: 0.3333 [-0.2083, 0.7083], p = 0.5
    """

    _kind = _KIND
    _called = "a Comparison"

    __slots__ = (
        "__weakref__",
        "_compared",
        "_context",
        "_evaluators",
        "_inputs",
        "_joint",
        "_joint_window",
        "_keeps_losses",
        "_keeps_scores",
        "_model_windows",
        "_paired_scores",
        "_provenance",
        "_scores_only",
        "_slicer",
        "_views",
        "_windows",
    )

    @explains_keywords
    def __init__(
        self,
        models: Sequence[str] = ("champion", "challenger"),
        task: TaskName | None = None,
        *,
        threshold: float | Mapping[str, float] = 0.5,
        paired_scores: bool = True,
        **options: Any,
    ) -> None:
        names = checked_models(models)
        if "temporal" in options:
            raise InputError(
                "temporal", expected="options that do not depend on the order of events", got="it"
            )
        thresholds = dict.fromkeys(names, threshold)
        # A mapping may also have a threshold of each label, the same for all models.
        of_labels = task in TASKS and "labels" in TASKS[str(task)].fields.values()
        if isinstance(threshold, Mapping) and not (
            of_labels and threshold.keys().isdisjoint(names)
        ):
            thresholds = _of_every_model(threshold, "threshold", names)
        if type(paired_scores) is not bool:
            raise InputError("paired_scores", expected="True or False", got=shown(paired_scores))
        self._take(
            {name: Evaluator(task, threshold=thresholds[name], **options) for name in names},
            paired_scores,
        )

    def _take(self, evaluators: dict[str, Evaluator], paired_scores: bool) -> None:
        self._evaluators = evaluators
        self._paired_scores = paired_scores
        self._provenance = Provenance()
        first, *others = evaluators.values()
        for other in others:
            other.share_lock(first)
        # The windows of every model hold the same events.
        self._context, self._windows, self._slicer = first._context, first._windows, first._slicer
        self._scores_only = first._scores_only
        for option, expected in _REFUSED.items():
            exempt = option == "max_scores" and not paired_scores
            if first.options.get(option) is not None and not exempt:
                raise InputError(option, expected=expected, got="one")
        self._inputs = {name: one._context.input for name, one in evaluators.items()}
        self._model_windows = [one._windows for one in evaluators.values()]
        plan, kept = self._context.plan, self._context.kept
        compared = TASKS[str(plan.task_row.compared)]
        assert isinstance(compared, ComparisonTask)
        self._compared = compared
        states = {row.name for row in states_of(self._compared.name, STATES)}
        # Differences of mean losses need no scores of single events.
        self._keeps_losses = (
            "joint_losses" in states
            and plan.keeps_scores
            and plan.probabilities
            and (kept is None or not MEAN_LOSSES.isdisjoint(kept))
        )
        self._keeps_scores = (
            paired_scores
            and plan.task_row.positive is not None
            and plan.keeps_scores
            and (kept is None or any(needs_pairs(find(name, plan.task)) for name in kept))
        )
        if plan.ordered:
            raise MetricError(
                "kappa_temporal depends on the order of events: leave it out of the metrics"
            )
        options = first.options
        self._joint = SlicedWindows(
            window_spec(options["window"]),
            StatePlan(
                self._compared.name,
                frozenset(states if self._keeps_losses else states - {"joint_losses"}),
            ),
            Slicer(options["slices"], options["max_slices"]),
            options["time_unit"],
        )
        self._views = {name: evaluator.total for name, evaluator in evaluators.items()}
        self._joint_window = self._joint.total

    @property
    def task(self) -> str:
        """As of :class:`Evaluator`, such as ``"binary"``."""
        return self._context.plan.task

    @property
    def options(self) -> dict[str, Any]:
        """The arguments that it was made with, without the models, as plain data."""
        thresholds = {name: one.options.get("threshold") for name, one in self._evaluators.items()}
        options = self._first.options
        if any(one != options.get("threshold") for one in thresholds.values()):
            options["threshold"] = thresholds
        if not self._paired_scores:
            options["paired_scores"] = False
        return options

    @property
    def labels(self) -> list[Label]:
        """The labels as declared, else those seen in any model; binary ``[negative, positive]``."""
        return self._first.labels

    @property
    def _first(self) -> Evaluator:
        return next(iter(self._evaluators.values()))

    # Counting

    @locked
    def update(
        self,
        y_true: object,
        y_pred: object = None,
        *,
        score: object = None,
        proba: object = None,
        weight: object = 1,
        event_time: object = None,
        slices: object = None,
    ) -> Self:
        """Count one event with the predictions of every model.

        Args:
            y_true: The true label.
            y_pred: From each model to its predicted label.
            score: Binary, or with ``probabilities=False``: from each model to its score or scores.
            proba: From each model to what :meth:`Evaluator.update` takes as ``proba``.
            weight: As of :meth:`Evaluator.update`; so are ``event_time`` and ``slices``.

        Raises:
            InputError: A bad value, or a model's prediction is missing; nothing was counted for
                any model.

        >>> c = Comparison().update(True, score={"champion": 0.9})
        Traceback (most recent call last):
        streameval.errors.InputError: score: expected scores of champion and challenger, got ...
        """
        # Probabilities of several classes, or errors, can weigh too much for one model only.
        heavy = self._context.positive is None and (self.wants_scores or self._context.plan.checked)
        if heavy and not self._context.cumulative:
            given = {"y_pred": y_pred, "score": score, "proba": proba, "slices": slices}
            self._update_one(y_true, weight, event_time, **given)
            return self
        try:
            events = self._checked("event", y_true, y_pred, score, proba, weight=weight)
            self._stage_labels()
            counted = list(zip(self._model_windows, events, strict=True))
            if heavy and events[0][3]:
                for windows, event in counted:
                    windows.total.current().check(*event)
            for windows, event in counted:
                # Only the first can refuse: weight, time and slices are the same for all.
                windows.add(event, event_time, slices)
        except InputError:
            self._roll_back()
            raise
        self._joint.add(self._joint_event(events), event_time, slices)
        if events[0][3]:
            self._commit()
        else:
            self._roll_back()
        return self

    def _update_one(
        self, y_true: object, weight: object, event_time: object, **by_key: object
    ) -> None:
        """:meth:`update` as a batch, which is checked for every model before any counts it."""
        columns = {
            field_name: {key: [value] for key, value in given.items()}
            if isinstance(given, Mapping)
            else given
            for field_name, given in by_key.items()
        }
        times = None if event_time is None else [event_time]
        try:
            self.update_many([y_true], weight=[weight], event_time=times, **columns)
        except InputError as error:
            raise error.at(None) from None

    @locked
    def update_many(
        self,
        y_true: object,
        y_pred: object = None,
        *,
        score: object = None,
        proba: object = None,
        weight: object = None,
        event_time: object = None,
        slices: object = None,
    ) -> Self:
        """Count many events: the same bits as one by one.

        As :meth:`update` with columns: ``score`` is a mapping model -> column, or a data frame
        whose columns are named by the models; so is ``y_pred``.

        Raises:
            InputError: A bad value, with its position; nothing was counted for any model.
        """
        staged = []
        try:
            batches = self._checked("batch", y_true, y_pred, score, proba, weight=weight)
            self._stage_labels()
            if len(batches[0]):
                staged = [
                    windows.stage_many(batch, event_time, slices)
                    for windows, batch in zip(self._model_windows, batches, strict=True)
                ]
                joint = self._joint_batch(batches)
                staged.append(self._joint.stage_many(joint, event_time, slices))
        except InputError:
            self._roll_back()
            raise
        for commit in staged:
            commit()
        self._commit()
        return self

    @locked
    def revert(
        self,
        y_true: object,
        y_pred: object = None,
        *,
        score: object = None,
        proba: object = None,
        weight: object = 1,
        event_time: object = None,
        slices: object = None,
    ) -> None:
        """Undo exactly one earlier event, given as :meth:`update` was.

        Raises:
            InputError: No such event was counted, its weight is not whole, or the window is of
                the last n events, in which equal predictions of one model may be of different
                events; nothing was changed.
        """
        if isinstance(window_spec(self._first.options["window"]), Last):
            raise InputError(
                "revert", expected="a window other than Last(n)", got="a comparison of one"
            )
        try:
            events = self._checked("event", y_true, y_pred, score, proba, weight=weight)
        finally:
            self._roll_back()
        undone = [self._joint.remove(self._joint_event(events), event_time, slices)]
        try:
            for windows, event in zip(self._model_windows, events, strict=True):
                undone.append(windows.remove(event, event_time, slices))
        except InputError:
            # Joint cells without probabilities do not tell every event from another.
            for undo in reversed(undone):
                undo()
            raise

    def _checked(self, form: str, y_true: object, *given: object, weight: object) -> list[Any]:
        """Each model's ``"event"`` or ``"batch"``; errors name the model."""
        if self._scores_only and given[1:] == (None, None):
            raise self._score_missing()
        kind = self._context.plan.task_row.fields["y_pred"]
        words = {**_WORDS, "y_pred": _WORDS_OF_KIND.get(kind, _WORDS["y_pred"])}
        parts = {
            name: None if values is None else _of_every_model(values, name, self.models, words)
            for name, values in zip(_WORDS, given, strict=True)
        }
        checked = []
        for name, one in self._inputs.items():
            own = [None if part is None else part[name] for part in parts.values()]
            try:
                checked.append(getattr(one, form)(y_true, *own, weight))
            except InputError as error:
                base, bracket, key = error.field.partition("[")
                if parts.get(base) is None:
                    raise
                raise InputError(
                    f"{base}[{name!r}]{bracket}{key}",
                    expected=error.expected,
                    got=error.got,
                    position=error.position,
                    remedy=error.remedy,
                    remedy_code=error.remedy_code,
                ) from None
        return checked

    def _stage_labels(self) -> None:
        """Have every model know the new labels of all of them, or raise InputError."""
        inputs = self._inputs.values()
        pending = dict.fromkeys(label for one in inputs for label in one.staged)
        if pending:
            for one in inputs:
                one.stage_together(pending)

    def _commit(self) -> None:
        for one in self._inputs.values():
            one.commit()

    def _roll_back(self) -> None:
        for one in self._inputs.values():
            one.roll_back()

    def _joint_event(self, events: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        true, _, _, weight = events[0]
        kept: tuple[Any, ...] = ()
        # All models have a score, or none.
        if events[0][2] is not None:
            if self._keeps_scores:
                kept = tuple([event[2] for event in events])
            if self._keeps_losses:
                losses = [losses_of(true, event[2]) for event in events]
                kept += tuple([both[which] for which in (0, 1) for both in losses])
        classes = self._context.plan.task_row.classes
        return (*self._compared.of_models(events, classes), kept, weight)

    def _joint_batch(self, batches: Sequence[EventBatch]) -> EventBatch:
        first = batches[0]
        kept = [np.zeros((len(first), 0))]
        if first.score is not None:
            if self._keeps_scores:
                kept += [batch.score for batch in batches]
            if self._keeps_losses:
                losses = [columns_of_losses(batch) for batch in batches]
                kept += [both[:, which] for which in (0, 1) for both in losses]
        classes = self._context.plan.task_row.classes
        true, predicted, labels = self._compared.columns_of_models(batches, classes)
        return EventBatch(true, predicted, np.column_stack(kept), first.weight, labels)

    # Reading

    @property
    def total(self) -> ComparisonView:
        """The view of all events, beside those of :meth:`slices`."""
        return ComparisonView(self._views, self._joint_window, self._context)

    @locked
    def slices(self) -> dict[SliceKey, ComparisonView]:
        """Every slice's key and its view, sorted."""
        models = {name: evaluator.slices() for name, evaluator in self._evaluators.items()}
        return {
            key: ComparisonView(
                {name: views[key] for name, views in models.items()},
                self._joint.slices[key],
                self._context,
            )
            for key in self._joint.in_order()
        }

    def report(
        self, metrics: Iterable[str] | None = None, *, level: float = 0.95, **options: Any
    ) -> ComparisonReport:
        """Metrics × models with differences: :meth:`ComparisonView.report`."""
        report = super().report(metrics, level=level, **options)
        threshold = self.options.get("threshold")
        if isinstance(threshold, dict):
            return replace(report, notes={**report.notes, "threshold": threshold})
        return report

    @locked
    def slice_differences(
        self, /, metric: str, *, rate: float = 0.05, **options: Any
    ) -> SliceDifferences:
        """A difference for each slice, flagged by Benjamini and Hochberg's rule.

        Of many slices some differ by chance: of the flagged ones, whose adjusted p-value is at
        most `rate` (between 0 and 1), a share of at most `rate` is expected to.

        Args:
            metric: A name of :data:`streameval.metrics.METRICS`.
            rate: Of false discoveries.
            options: As of :meth:`difference`.
        """
        if not isinstance(rate, (int, float)) or isinstance(rate, bool) or not 0 < rate < 1:
            raise InputError("rate", expected="a number between 0 and 1", got=shown(rate))
        views = self.slices()
        found = {key: view.difference(metric, **options) for key, view in views.items()}
        adjusted = benjamini_hochberg([one.p_value for one in found.values()])
        of_test = ("a", "b", "level", "method", "replicates", "seed")
        params = {name: value for name, value in options.items() if name not in of_test}
        values = {
            key: {
                model: float(view[model].value(metric, undefined=math.nan, **params))
                for model in self.models
            }
            for key, view in views.items()
        }
        rows = [
            SliceDifference(key, replace(one, p_adjusted=p), p <= rate, values[key])
            for (key, one), p in zip(found.items(), adjusted, strict=True)
        ]
        # nan last; slices of equal p-value in the order of their names.
        rows.sort(key=lambda row: (math.isnan(p := row.difference.p_value), p if p == p else 0.0))
        return SliceDifferences(metric, rate, tuple(rows))

    @property
    def reference(self) -> Evaluator:
        """The first model's evaluator, for reading: only the comparison counts events."""
        return self._first

    @property
    def evaluators(self) -> Mapping[str, Evaluator]:
        """Every model's evaluator, for reading, as :attr:`reference`."""
        return MappingProxyType(self._evaluators)

    @property
    def keeps(self) -> frozenset[str]:
        """The states of each model and of all together, and ``pairs`` where scores are paired."""
        pairs = {"pairs"} if self._keeps_scores else set()
        return self._context.plan.keeps | self._joint.total.current().plan.keeps | pairs

    def show(self, metrics: Iterable[str] | None) -> None:
        """As :meth:`Evaluator.show`, for every model."""
        for evaluator in self._evaluators.values():
            evaluator.show(metrics)

    def emptied(self) -> Self:
        """A new comparison set up in the same way, without events."""
        new = type(self).__new__(type(self))
        emptied = {name: one.emptied() for name, one in self._evaluators.items()}
        new._take(emptied, self._paired_scores)
        return new

    def _take_over(self, new: Self) -> None:
        new._context.notes, new._context.later = self._context.notes, self._context.later
        kept = self._context.kept
        for one in new._evaluators.values():
            one.share_lock(self._first)
        for name in set(type(self).__slots__) - {"__weakref__"}:
            setattr(self, name, getattr(new, name))
        self._context.kept = kept

    def _follow(self, other: Self, newest: int | None) -> None:
        for name, evaluator in self._evaluators.items():
            evaluator._follow(other._evaluators[name], newest)
        self._joint.follow(other._joint, newest)

    # Other comparisons, and files

    def _check_kind(self, other: Self) -> None:
        super()._check_kind(other)
        if self.models != other.models:
            raise StateError(
                f"comparisons of different models cannot be merged: {', '.join(self.models)} here "
                f"and {', '.join(other.models)} there"
            )
        if self._paired_scores != other._paired_scores:
            raise StateError(
                f"paired_scores is {self._paired_scores} here and {other._paired_scores} there"
            )

    def add_events(self, other: Self) -> None:
        """Add another's events, of whatever shards; raises StateError where they cannot be."""
        pairs = [(one, other._evaluators[name]) for name, one in self._evaluators.items()]
        for mine, theirs in pairs:
            mine.check_events(theirs)
        for mine, theirs in pairs:
            mine.add_events(theirs)
        self._joint.merge(other._joint)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The comparison that :meth:`to_bytes` wrote, as of an evaluator; raises StateError."""
        return cls.from_parts(unpack_one_of(data, (_KIND,)), in_memory=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The comparison that :meth:`save` wrote; raises StateError."""
        return cls.from_parts(read_one_of(path, (_KIND,)))

    @locked
    def to_state(self) -> dict[str, Any]:
        """Plain canonical data: what :meth:`to_bytes` packs."""
        return {
            "models": [
                {"name": name, "evaluator": evaluator.to_state()}
                for name, evaluator in self._evaluators.items()
            ],
            "joint": self._joint.to_state(),
            # Written only where set: files of comparisons without it are as before.
            **({} if self._paired_scores else {"paired_scores": False}),
        }

    @classmethod
    def from_state(cls, data: dict[str, Any]) -> Self:
        """The comparison that :meth:`to_state` wrote; raises StateError."""
        if not isinstance(data, dict) or set(data) - {"paired_scores"} != {"models", "joint"}:
            raise StateError("expected the parts models and joint")
        if data.get("paired_scores", False) is not False:
            raise StateError(f"paired_scores: expected false, got {shown(data['paired_scores'])}")
        saved = data["models"]
        parts = saved if isinstance(saved, list) else []
        if not all(isinstance(part, dict) and set(part) == {"name", "evaluator"} for part in parts):
            raise StateError(f"models: expected names and evaluators, got {shown(saved)}")
        new = cls.__new__(cls)
        try:
            names = checked_models([part["name"] for part in parts])
            evaluators = [Evaluator.from_state(part["evaluator"]) for part in parts]
            new._take(dict(zip(names, evaluators, strict=True)), "paired_scores" not in data)
        except (InputError, MetricError) as error:
            raise StateError(f"models: {error}") from None
        settings = [{**one.options, "threshold": None} for one in evaluators]
        if any(one != settings[0] for one in settings):
            raise StateError("models: expected evaluators of the same options")
        for evaluator in evaluators:
            # As while it counted: a label of one model is known to all.
            evaluator.learn_labels(evaluators)
        joint = part_of(data["joint"], "joint")
        keys = new._joint.to_state().keys()
        if joint.keys() != keys:
            raise StateError(f"joint: expected the parts {', '.join(keys)}")
        new._joint.restore(joint)
        new._joint_window = new._joint.total
        if any(one.in_order() != new._joint.in_order() for one in new._model_windows):
            raise StateError("joint: expected the slices of the models")
        for key, window in (((), new._joint.total), *new._joint.slices.items()):
            new._check_joint(key, window.current())
        return new

    def _check_joint(self, key: SliceKey, joint: StateSet) -> None:
        """Raise StateError where joint states that were read contradict the models'."""
        for windows in self._model_windows:
            path = (windows.slices[key] if key else windows.total).fast_path()
            own = None if path is None else path.states
            if own is not None and own.has_whole_weights and joint.has_whole_weights:
                for name in own.plan.stored:
                    most, got = joint.support(joint.plan.stored[0]), own.support(name)
                    every = name in _OF_EVERY_EVENT
                    if got > most or (got < most and every):
                        raise StateError(f"joint: expected weight {got} of {name}, got {most}")
        for name in joint.plan.stored:
            found = getattr(joint, name).models
            if found not in (0, len(self._inputs)):
                raise StateError(f"{name}: expected {len(self._inputs)} models, got {found}")
        if not self._paired_scores and joint.joint and joint.joint.columns().scored.any():
            raise StateError("joint: expected no scores, as paired_scores is false")

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, self._pickled()

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self)[1:-1])}</p>{self.report()._repr_html_()}"

    def __dir__(self) -> list[str]:
        return dir(type(self))

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.models)}>"

    def _check(self) -> None:
        for evaluator in self._evaluators.values():
            evaluator._check()
        self._joint._check()


Evaluation: TypeAlias = Evaluator | Comparison
"""What evaluates a stream: one model's predictions, or those of several."""


explains_attributes(Comparison, 'comparison["champion"]')


def evaluation_from_bytes(data: bytes) -> Evaluation:
    """What ``to_bytes`` wrote, without a provenance: for a carrier that delivers once."""
    unpacked = unpack_one_of(data, tuple(_KINDS))
    return _KINDS[unpacked.kind].from_state(unpacked.data)


_KINDS: dict[str, type[Evaluation]] = {
    kind._kind: kind for kind in (Evaluator, Predictions, Comparison)
}


def _unpickled(data: bytes, provenance: Any) -> Comparison:
    return Comparison._from_pickled(data, provenance)


def reference_of(evaluation: Evaluation) -> Evaluator:
    """The evaluator itself, or the evaluator of a comparison's first model."""
    return evaluation.reference if isinstance(evaluation, Comparison) else evaluation


def load_any(path: str | os.PathLike[str]) -> Evaluation:
    """What evaluates a stream, out of a file; raises StateError."""
    return evaluation_of(unpacked_any(path))


def unpacked_any(path: str | os.PathLike[str]) -> Unpacked:
    """The parts of the file of an evaluator, predictions or a comparison; raises StateError."""
    return read_one_of(path, tuple(_KINDS))


def evaluation_of(unpacked: Unpacked) -> Evaluation:
    """The evaluator, predictions or comparison of a file's parts; raises StateError."""
    return _KINDS[unpacked.kind].from_parts(unpacked)


def provenances_of(paths: Iterable[str]) -> list[tuple[str, Provenance]]:
    """The provenance of the state in each file, from its head; raises StateError."""
    result = []
    contents: set[bytes] = set()
    for path in paths:
        data, checksum = read_provenance(path)
        provenance = Provenance.of(Unpacked("", {}, data, checksum), empty=False)
        if not contents.isdisjoint(provenance.contents):
            # A second file of this content may be empty, and then it is no shard.
            provenance = load_any(path)._provenance
        contents |= provenance.contents
        result.append((path, provenance))
    return result


def checked_models(models: object) -> list[str]:
    """Names of models, the reference first; raises InputError."""
    names = listed(models, "models", "names of two models or more")
    good = all(isinstance(name, str) and name for name in names)
    if not good or len(set(names)) != len(names) or not 2 <= len(names) <= MAX_MODELS:
        raise InputError(
            "models", expected=f"from 2 to {MAX_MODELS} distinct names", got=shown(names)
        )
    return names


def _known(model: object, models: Mapping[str, Any], field_name: str = "model") -> str:
    """A model's name; raises InputError for any other."""
    if isinstance(model, str) and model in models:
        return model
    expected = f"one of the models {', '.join(models)}"
    remedy = did_you_mean(model, models) if isinstance(model, str) else ""
    raise InputError(field_name, expected=expected, got=shown(model), remedy=remedy)


def _of_every_model(
    given: object, field_name: str, models: Sequence[str], kinds: Mapping[str, str] = _WORDS
) -> dict[str, Any]:
    """An argument's part for each model, in the models' order; raises InputError."""
    parts = given if isinstance(given, Mapping) else named_columns(given)
    words = f"{kinds.get(field_name, 'numbers')} of {', '.join(models[:-1])} and {models[-1]}"
    if parts is None:
        raise InputError(
            field_name,
            expected=f"a mapping with {words}",
            got=shown(given),
            remedy=f"pass {field_name}={{{models[0]!r}: ..., {models[1]!r}: ...}}",
        )
    for name in parts:
        if name not in models:
            remedy = did_you_mean(str(name), models)
            raise InputError(field_name, expected=words, got=shown(name), remedy=remedy)
    found = [name for name in models if name in parts and parts[name] is not None]
    if len(found) < len(models):
        got = f"{' and '.join(found)} only" if found else "none of them"
        raise InputError(field_name, expected=words, got=got)
    return {name: parts[name] for name in models}
