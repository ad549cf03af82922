"""Metrics, reports and curves of the events in one window, read-only."""

from __future__ import annotations

import functools
import html
import importlib
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import (
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

from streameval.errors import (
    InputError,
    MetricError,
    MissingExtraError,
    did_you_mean,
    listed,
    shown,
)
from streameval.evaluator.public_class import PublicClass
from streameval.evaluator.reports import (
    ClassificationReport,
    ExpectedCheck,
    ExpectedRow,
    LabelCutPoints,
    LabelTable,
    Report,
    ReportRow,
    Series,
    SeriesRow,
    slice_columns,
)
from streameval.evaluator.reports import weight as count_text
from streameval.evaluator.slices import SliceKey, slice_name
from streameval.evaluator.spellings import explains_attributes
from streameval.events.time import event_time, iso_time
from streameval.events.values import Label, Weight, canonical_label
from streameval.metrics.averages import Counts, exact_sum
from streameval.metrics.calibration import CalibrationCurve
from streameval.metrics.curves import (
    CURVES,
    DetCurve,
    PrecisionRecallCurve,
    PrGainCurve,
    RocCurve,
)
from streameval.metrics.cut_points import CUT_POINTS
from streameval.metrics.metric import LABEL_PARAMS, Metric, call, row_named
from streameval.metrics.multilabel import left_out_events
from streameval.metrics.multilabel_ranking import left_out_labels, left_out_rankings
from streameval.metrics.names import CutPointName, MetricName
from streameval.metrics.registry import (
    METRICS,
    USUAL_METRICS,
    call_name,
    find,
    left_out,
    metric_calls,
    shown_metrics,
    task_metrics,
)
from streameval.metrics.score_profiles import GainCurve, ScoreDistribution, ThresholdMetrics
from streameval.metrics.undefined import Undefined, reason_of
from streameval.states.class_scores import ClassScores
from streameval.states.confusion import ConfusionCounts, distinct_labels
from streameval.states.label_counts import LabelCounts
from streameval.states.label_scores import LabelScores
from streameval.states.lock import Lock, new_lock
from streameval.states.ranking.coarse_score import coarse
from streameval.states.registry import STATES
from streameval.states.score_index import without_labels
from streameval.states.state_set import StatePlan, StateSet
from streameval.tables import Table, data_frame
from streameval.tasks.binary import BinaryInput, BinaryTask
from streameval.tasks.input import Input
from streameval.tasks.multiclass import MulticlassTask
from streameval.tasks.predictions import PredictionsTask, ScoredInput
from streameval.tasks.registry import TASKS, TaskName
from streameval.tasks.task import Kernel
from streameval.uncertainty.bounds import BOUNDED, BOUNDED_CUTS, bounds_of, without_bounds
from streameval.uncertainty.delong import FEWEST
from streameval.uncertainty.estimate_check import check_estimates, has_held
from streameval.uncertainty.expected import EXPECTED, expected, state_read
from streameval.uncertainty.interval import (
    Bounds,
    Interval,
    IntervalRequest,
    Replicates,
    checked_bound,
    checked_level,
    normal_quantile,
)
from streameval.uncertainty.methods import interval
from streameval.windows.replicated import ReplicatedWindow, panes_of
from streameval.windows.window import FastPath, PaneMark, PaneSeries, Window

_NO_PARAMS: Mapping[str, Any] = MappingProxyType({})

# Cut-point rules by the names of their bounds: a rule that is called as a metric is has "_cut".
_CUTS: Mapping[str, str] = {
    f"{rule}_cut" if rule in METRICS else rule: rule for rule in BOUNDED_CUTS
}

_OTHER_LABELS = (
    "predicted labels were given that are not those of the threshold, from which alone the metric "
    "has an expectation; metrics of scores have theirs"
)

_OF_ORDER = (
    "it depends on the order of events, which shards do not share: pass temporal=True to the "
    "Evaluator"
)

# From the state to the labels that a mean leaves out, or to the weight of the events.
_LEFT_OUT: Mapping[str, Callable[[Metric, Any], Any]] = {
    "label_sets": left_out_events,
    "label_ranking": left_out_rankings,
    "label_scores": left_out_labels,
}
_AVERAGED = ("micro", "macro", "weighted")
_SHOWN_VALUES = 4
"""Metrics of a representation."""

PaneReports: TypeAlias = dict[int, tuple[PaneMark, list[ReportRow]]]

# From the metric to the method of a fast path.
_COMPILED: Mapping[str, str] = {
    "balanced_accuracy": "recall_macro",
    **{name: name for name in ("accuracy", "cohen_kappa", "matthews_corrcoef", "roc_auc")},
    **{name: name for name in ("f1_macro", "precision_macro", "recall_macro")},
}
_COMPILED_BINARY: Mapping[str, str] = {
    name: name for name in ("brier_score", "f1", "log_loss", "precision", "recall")
}
_ERRORS = "mean_error mean_absolute_error mean_squared_error root_mean_squared_error r2"
_COMPILED_OF: Mapping[Kernel, Mapping[str, str]] = {
    None: {},
    "two classes": {**_COMPILED, **_COMPILED_BINARY},
    "classes": _COMPILED,
    "numbers": {name: name for name in _ERRORS.split()},
    "label sets": {
        "accuracy": "subset_accuracy",
        **{
            f"{rule}_{average}": f"{prefix}{rule}_{average}"
            for rule in ("precision", "recall", "f1", "jaccard")
            for average, prefix in (("micro", ""), ("macro", "label_"), ("samples", ""))
        },
    },
}


@dataclass(slots=True)
class ViewContext:
    """How metrics of an evaluator are computed: shared by all its views."""

    plan: StatePlan
    input: Input
    undefined: float | None = None
    """The number for undefined values."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """The notes of reports: settings that the numbers depend on."""
    kept: Sequence[str] | None = None
    """The metrics that were named as ``metrics=``."""
    time_unit: str | None = None
    """Of event times that are numbers."""
    later: bool = False
    """Labels or scores are kept from a later time on than the other: what is not fed yet is
    undefined and no error."""
    cumulative: bool = True
    """No event is ever removed from the window."""
    readers: dict[str, Callable[[StateSet], float]] = field(default_factory=dict)
    """Metrics without parameters as functions of a state set, made at their first read."""
    estimators: dict[str, Callable[..., float]] = field(default_factory=dict)
    """The same as functions of their states, nan where undefined, made at their first interval."""
    source: tuple[StatePlan, Mapping[str, str]] | None = None
    """Of a view of one class: the evaluator's plan, and its state by that of this view."""
    lock: Lock = field(default_factory=new_lock, repr=False, compare=False)
    """Held by each call that counts, and by each that reads: states derive and keep what a
    metric needs when it is first read, so a read changes them too."""

    @property
    def positive(self) -> Label | None:
        """The positive class as the state sets count it."""
        return self.plan.task_row.positive

    def names(self) -> Mapping[Label, Label]:
        """From the labels that a state set counts to the user's, where these differ."""
        return self.input.names

    def counted(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """A metric's parameters, with labels as the state sets count them; raises MetricError."""
        counted = dict(params)
        for name in LABEL_PARAMS:
            given = params.get(name)
            if given is None:
                continue
            if name == "labels":
                given = counted[name] = distinct_labels(given, name)
            if names := self.input.names:
                codes = {label: code for code, label in names.items()}
                counted[name] = _coded(given, codes, name)
        return counted

    def require(self, metric: str, states: Iterable[str], state_set: StateSet) -> None:
        """Raise MetricError where the evaluator cannot answer as it is set up and fed."""
        for state in states:
            row = STATES[state]
            if self.plan.task not in row.tasks:
                adjective = self.plan.task_row.adjective
                raise MetricError(f"{metric} is not for {adjective} tasks")
            if not self.plan.serves(state):
                plan, read = self.plan, state
                if self.source:
                    plan, sources = self.source
                    origin = row.source or state
                    read = sources.get(origin, "")
                    if not read or self.plan.serves(origin):
                        at = "this view of one_vs_rest; its report() has what is"
                        raise MetricError(f"{metric} is not in {at}")
                    if plan.serves(read):
                        got = "labels" if row.input == "scores" else "scores"
                        raise MetricError(f"{metric} needs {row.requires}; got {got} only")
                rows = {one.name: one.states for one in task_metrics(plan.task)}
                # Curves, drift and expected metrics read a state, and are no metrics to keep.
                reads = [(read,), *((other,) for other in row.kept_beside)]
                of_state = [name for name, states in rows.items() if states in reads]
                # Another task may call it otherwise, and mean another by its name.
                likely: Collection[str] = of_state if self.source else rows
                names = (name for name in (metric, f"{metric}_macro") if name in likely)
                kept = next(names, of_state[0] if of_state else metric)
                how = f"this evaluator keeps other metrics: add {kept!r} to metrics="
                if row.ordered:
                    how = _OF_ORDER
                raise MetricError(f"{metric} is not kept; {how}")
            if self.later:
                continue
            of_labels = row.input != "scores"
            # Before the first event it is unknown what will be fed.
            if state_set.has_scores and of_labels and not state_set.has_labels:
                raise MetricError(f"{metric} needs {row.requires}; got scores only")
            if state_set.has_labels and not of_labels and not state_set.has_scores:
                raise MetricError(f"{metric} needs {row.requires}; got labels only")

    def reader(self, name: str, state_set: StateSet) -> Callable[[StateSet], float]:
        """The metric as a function of a state set; raises MetricError for an unknown name."""
        metric = find(name, self.plan.task)
        made = self.bound(metric, {})
        self.require(name, metric.states, state_set)
        if state_set.has_labels or state_set.has_scores:
            # Before the first event it is unknown what will be fed: checked again then.
            self.readers[name] = made
        return made

    def estimator(
        self, metric: Metric, params: Mapping[str, Any], positive: Label | None
    ) -> Callable[..., float]:
        """The metric as a function of its states, nan (never a substitute) where undefined."""
        if params or positive != self.positive:
            return metric.bind(positive=positive, undefined=math.nan, **params)
        if metric.name not in self.estimators:
            made = metric.bind(positive=positive, undefined=math.nan)
            self.estimators[metric.name] = made
        return self.estimators[metric.name]

    def bound(
        self, metric: Metric, params: Mapping[str, Any], undefined: float | None = None
    ) -> Callable[[StateSet], float]:
        """The metric with parameters that are :meth:`counted`, as a function of a state set."""
        if undefined is None:
            undefined = self.undefined
        function = metric.bind(positive=self.positive, undefined=undefined, **params)
        states = metric.states
        # The two states that are read after every event, without a lookup by name.
        if states == ("confusion",):
            return lambda state_set: function(state_set.confusion)
        if states == ("index",):
            return lambda state_set: function(state_set.index)
        return lambda state_set: function(*[getattr(state_set, state) for state in states])


def _coded(given: Any, codes: Mapping[Label, Label], name: str) -> Any:
    """Labels, or a mapping of mappings by label, with each label's code."""
    if isinstance(given, Mapping):
        return {
            _code(label, codes, name): _coded(inner, codes, name) for label, inner in given.items()
        }
    return [_code(label, codes, name) for label in given] if name == "labels" else given


def counts_state(task: str, name: str) -> str:
    """The state with the counts of each class or label; MetricError where a task has none."""
    for row in task_metrics(task):
        if row.name == "f1_macro":
            return row.state
    raise MetricError(f"{name} is not for {TASKS[task].adjective} tasks")


def _check_known(label: Label, known: Sequence[Label], kind: str) -> None:
    if label not in known:
        expected, near = f"one of {len(known)} {kind}", did_you_mean(str(label), known)
        raise InputError("label", expected=expected, got=shown(label), remedy=near)


def _titles(
    labels: Sequence[Label], names: Mapping[Label, Label], target_names: Iterable[str] | None
) -> list[Label]:
    """What a report calls each class."""
    if target_names is None:
        return [names.get(label, label) for label in labels]
    titles = listed(target_names, "target_names", "a list of names")
    if len(titles) != len(labels) or not all(isinstance(title, str) for title in titles):
        raise MetricError(
            f"target_names: expected {len(labels)} names, one for each class, got {shown(titles)}"
        )
    if len(set(titles)) < len(titles):
        raise MetricError(f"target_names: expected each name once, got {shown(titles)}")
    return titles


def _code(label: object, codes: Mapping[Label, Label], name: str) -> Label:
    code = codes.get(canonical_label(label, name))
    if code is None:
        raise MetricError(f"{name}: expected {' or '.join(map(shown, codes))}, got {shown(label)}")
    return code


def compiled_reader(name: str, window: Window, kernel: Kernel) -> Callable[[], float] | None:
    """The metric's compiled function of the window as it then is, or None; nan: ask the metric."""
    method = _COMPILED_OF[kernel].get(name)
    if method is None:
        return None
    path = window.fast_path()
    if path is None:
        return None
    if path.states is not None:
        return getattr(path.states.fast_path(), method, None)
    return None if path.compiled is None else path.compiled(method)


def compiled_interval(
    name: str, level: float, method: str, window: Window
) -> Callable[[], Interval | None] | None:
    """As :func:`compiled_reader`, DeLong's interval of an AUC; None: ask the view."""
    if (name, method) != ("roc_auc", "auto") or isinstance(window, ReplicatedWindow):
        return None
    path = window.fast_path()
    states = None if path is None or path.states is None else path.states.fast_path()
    if states is None:
        return None
    factor = normal_quantile(level)
    return functools.partial(states.roc_auc_interval, factor, FEWEST, level, Interval)


class _Locked(Protocol):
    """An evaluator, or a view of one."""

    _context: ViewContext


_Self = TypeVar("_Self", bound=_Locked)
_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


def locked(
    method: Callable[Concatenate[_Self, _Params], _Result],
) -> Callable[Concatenate[_Self, _Params], _Result]:
    """The method with the evaluator's lock held, so that it sees whole calls of other threads."""

    @functools.wraps(method)
    def holding(self: _Self, /, *args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        with self._context.lock:
            return method(self, *args, **kwargs)

    return holding


def drawn(source: Any, name: str, ax: Any, options: Mapping[str, Any]) -> Any:
    """The display of an evaluator, or of several by name; drawn if matplotlib is installed."""
    package = __name__.partition(".")[0]
    # Above this layer, and loaded for pictures only.
    displays = importlib.import_module(f"{package}.plots").DISPLAYS
    kind = row_named("display", name, displays)
    if isinstance(source, Mapping) and not kind.several:
        raise InputError(
            "plot",
            expected=f"one of {', '.join(row for row in displays if displays[row].several)}, "
            "which have a line of each model",
            got=shown(name),
            remedy=f"c[{next(iter(source))!r}].plot({name!r}) draws it of one model",
        )
    try:
        return kind.from_evaluator(source, ax=ax, **options)
    except MissingExtraError:
        if ax is not None:
            raise
        try:
            given = dict(options)
            return kind.computed(source, **given.pop("params", {}), **given)
        except (MetricError, TypeError):
            pass  # arguments of matplotlib
        raise


def _states_of(metric: Metric, state_set: StateSet) -> tuple[Any, ...]:
    if not metric.also:
        return (getattr(state_set, metric.state),)
    return tuple([getattr(state_set, state) for state in metric.states])


def _first_number(
    fast: Callable[[], float],
    of_state_set: Callable[[StateSet], float],
    current: Callable[[], StateSet],
) -> float:
    """What the fast reader returns, or where that is nan the metric itself."""
    value = fast()
    return value if value == value else of_state_set(current())


class _Unchanging:
    """A window of events that are given once."""

    def __init__(self, state_set: StateSet) -> None:
        self._state_set = state_set

    def current(self) -> StateSet:
        return self._state_set

    def fast_path(self) -> None:
        """Nothing is counted."""


class Readings:
    """What an evaluator and its views read of the events in one window."""

    __slots__ = ()

    _context: ViewContext
    _window: Window

    @property
    def task(self) -> TaskName:
        """``"binary"``, ``"multiclass"`` or ``"multilabel"``."""
        return self._context.plan.task

    @property
    @locked
    def labels(self) -> list[Label]:
        """The labels as declared, else those seen, ascending; binary ``[negative, positive]``."""
        return self._context.input.labels

    @overload
    def value(
        self, /, name: str, *, average: None, undefined: float | None = None, **params: Any
    ) -> dict[Label, float]: ...
    @overload
    def value(
        self, /, name: MetricName | str, *, undefined: float | None = None, **params: Any
    ) -> float: ...
    @locked
    def value(self, /, name: str, *, undefined: float | None = None, **params: Any) -> Any:
        """A metric with parameters.

        Args:
            name: A name of :data:`streameval.metrics.METRICS`; with
                ``average=`` also a family's, such as ``"fbeta"``.
            undefined: The number for an undefined value, instead of ``nan``.
            params: The metric's own, such as ``beta=2`` or ``max_fpr=0.1``.

        Returns:
            A float, ``nan`` (with ``.reason``) where undefined; with ``average=None`` a dict
            from class to float.

        Raises:
            MetricError: An unknown name or parameter, or the evaluator was
                not fed what the metric needs.

        >>> from streameval import Evaluator
        >>> ev = Evaluator(task="multiclass").update_many(["a", "b", "a"], ["a", "b", "b"])
        >>> ev.value("fbeta", beta=2, average="macro") == ev.value("fbeta_macro", beta=2)
        True
        """
        context = self._context
        metric = find(name, context.plan.task, params.pop("average", ...))
        state_set = self._fed(name, *metric.states)
        return self._named(context.bound(metric, context.counted(params), undefined)(state_set))

    def _require_labels(self, name: str) -> None:
        """Raise MetricError for what is about true labels, where events have none."""
        if not self._context.input.labelled:
            raise MetricError(f"{name} is about true labels, which predictions do not have")

    def _fed(self, name: str, *states: str) -> StateSet:
        """The window's state set; raises MetricError where it lacks one of these states."""
        state_set = self._window.current()
        self._context.require(name, states, state_set)
        return state_set

    def _named(self, value: Any) -> Any:
        """Reasons and per-class dicts under the user's labels."""
        if type(value) is float:
            return value
        names = self._context.names()
        if isinstance(value, Undefined):
            return value.renamed(names)
        if isinstance(value, dict):
            return {names.get(label, label): self._named(item) for label, item in value.items()}
        return value

    def interval(
        self,
        /,
        name: str,
        *,
        level: float = 0.95,
        method: str = "auto",
        bound: float | None = None,
        **params: Any,
    ) -> Interval:
        """A metric with its confidence interval.

        Args:
            name: As in :meth:`value`.
            level: The share of such intervals that contain the true value.
            method: A name of :data:`streameval.uncertainty.methods.METHODS`; by
                default the metric's own.
            bound: Regression: the largest loss that an event can have, which ``"anytime"``
                requires for a mean of losses.
            params: As in :meth:`value`.

        Returns:
            Value, ends (``nan`` with a reason where there are none), method, number of events.

        Raises:
            MetricError: As :meth:`value`, or the metric has no interval of this method.
            InputError: The level is not between 0 and 1.
        """
        context = self._context
        # In place of @locked, which forwards all arguments once more: 0.5 µs.
        with context.lock:
            state_set = self._window.current()
            level = checked_level(level)
            average = params.pop("average", ...)
            metric = find(name, context.plan.task, average)
            if average is None:
                raise MetricError(
                    "an interval is of one number, and average=None has one for each class: "
                    "classification_report(intervals=0.95) has theirs"
                )
            if metric.name not in context.readers:
                # It raises where the evaluator cannot answer, which need not be checked again.
                context.reader(metric.name, state_set)
            counted = context.counted(params) if params else params
            return self._interval(metric, state_set, level, method, params=counted, bound=bound)

    def _interval(
        self,
        metric: Metric,
        state_set: StateSet,
        level: float,
        method: str = "auto",
        *,
        params: Mapping[str, Any] = _NO_PARAMS,
        positive: Label | None = None,
        required: bool = True,
        pane: int | None = None,
        bound: float | None = None,
    ) -> Interval:
        context, window = self._context, self._window
        if positive is None:
            positive = context.positive
        of_states = context.estimator(metric, params, positive)
        states = _states_of(metric, state_set)
        value = self._named(of_states(*states))
        replicates = None
        if isinstance(window, ReplicatedWindow):
            resampled = window.resampled(pane)
            values = (of_states(*_states_of(metric, replicate)) for replicate in resampled)
            replicates = Replicates(window.unit, values)
        support = state_set.support(metric.state)
        whole = isinstance(support, int)
        request = IntervalRequest(
            metric,
            value,
            states,
            level,
            support if whole or replicates else state_set.effective_size(metric.state),
            whole,
            positive,
            params,
            context.cumulative,
            functools.partial(getattr, state_set),
            replicates,
            checked_bound(bound),
        )
        return interval(request, method, required=required)

    @locked
    def bounds(self, /, name: str, **params: Any) -> Bounds:
        """Guaranteed bounds: the value if all scores had been kept lies between them.

        Args:
            name: A metric, as in :meth:`value`; or a rule of :meth:`thresholds`, for
                its criterion (``"youden"``, ``"precision_at_least"``; ``"f1_cut"`` and
                ``"fbeta_cut"``, since ``f1`` and ``fbeta`` are metrics).
            params: The metric's or the rule's own.

        Returns:
            Two equal numbers while no score has been coarsened, and for metrics that do not
            depend on the ranking of scores.

        Raises:
            MetricError: As :meth:`value`, or with ``max_scores=`` a metric without bounds.

        Cost:
            Three times the value's.

        >>> from streameval import Evaluator
        >>> ev = Evaluator(max_scores=1024)
        >>> scores = [n / 9e3 for n in range(9000)]
        >>> _ = ev.update_many([n % 3 == 0 for n in range(9000)], score=scores)
        >>> bounds = ev.bounds("roc_auc")
        >>> bounds.low < ev["roc_auc"] < bounds.high, round(bounds.width, 4)
        (True, 0.0026)
        """
        context = self._context
        rule = _CUTS.get(name) if isinstance(name, str) else None
        if rule is not None and context.positive is not None:
            return bounds_of(
                BOUNDED_CUTS[rule],
                lambda index: call(f"the cut-point {name}", CUT_POINTS[rule], index, params).value,
                self._fed(name, "index").index,
            )
        metric = find(name, context.plan.task, params.pop("average", ...))
        state_set = self._fed(name, *metric.states)
        if context.plan.max_scores is not None and without_bounds(metric):
            raise MetricError(
                f"{name} has no certain bounds; of the metrics of a ranking these have: "
                + ", ".join(other for other in BOUNDED if context.plan.task in METRICS[other].tasks)
            )
        return self._bounds(metric, state_set, context.counted(params))

    def _bounds(
        self, metric: Metric, state_set: StateSet, params: Mapping[str, Any] = _NO_PARAMS
    ) -> Bounds:
        context = self._context
        if metric.name not in BOUNDED:
            value = float(context.bound(metric, params)(state_set))
            return Bounds(value, value)
        function = metric.bind(undefined=context.undefined, **params)
        return bounds_of(BOUNDED[metric.name], function, getattr(state_set, metric.state))

    @locked
    def report(
        self,
        metrics: Iterable[str | tuple[str, Mapping[str, Any]]] | None = None,
        *,
        intervals: float | None = None,
        method: str = "auto",
    ) -> Report:
        """The values of many metrics at once, with reasons and support.

        Args:
            metrics: Names, or pairs of a name and its parameters, as ``("fbeta", {"beta": 2})``;
                ``"all"`` for each that can be computed of what was fed; or None for those of
                ``metrics=``, else the default ones of what was fed.
            intervals: The level of the confidence interval of each; None: without.
            method: As in :meth:`interval`; a metric that it does not serve has no interval.

        Raises:
            MetricError: A metric was named that this evaluator cannot answer, or no such method.
            InputError: The level is not between 0 and 1.
        """
        level = None if intervals is None else checked_level(intervals)
        context, state_set = self._context, self._window.current()
        if metrics is None:
            metrics = context.kept
        task = context.plan.task
        calls: list[tuple[Metric, Mapping[str, Any]]]
        if metrics is None or (isinstance(metrics, str) and metrics == "all"):
            rows = shown_metrics(task) if metrics is None else task_metrics(task)
            calls = [(m, _NO_PARAMS) for m in rows if self._can_answer(m, state_set)]
        else:
            calls = [(find(name, task), params) for name, params in metric_calls(metrics)]
            for metric, _ in calls:
                context.require(metric.name, metric.states, state_set)
        values = (
            self._row(metric, state_set, level, method, params=params) for metric, params in calls
        )
        return Report(task, tuple(values), context.notes)

    def _can_answer(self, metric: Metric, state_set: StateSet) -> bool:
        try:
            self._context.require(metric.name, metric.states, state_set)
        except MetricError:
            return False
        return True

    def _row(
        self,
        metric: Metric,
        state_set: StateSet,
        level: float | None = None,
        method: str = "auto",
        pane: int | None = None,
        params: Mapping[str, Any] = _NO_PARAMS,
    ) -> ReportRow:
        context = self._context
        name = call_name(metric.name, params)
        params = context.counted(params) if params else params
        value = self._named(context.bound(metric, params)(state_set))
        reason = reason_of(value)
        if not reason:
            reason = self._without(metric, getattr(state_set, metric.state))
        found = bounds = None
        if level is not None:
            found = self._interval(
                metric, state_set, level, method, params=params, required=False, pane=pane
            )
        if metric.name in BOUNDED and getattr(state_set, metric.state).level:
            bounds = self._bounds(metric, state_set, params)
        support = state_set.support(metric.state)
        return ReportRow(name, float(value), reason, support, found, bounds)

    def _without(self, metric: Metric, counts: Any) -> str:
        """Which classes, labels or events a mean leaves out, in words; empty where none."""
        undefined = self._context.undefined
        missing: Any = []
        if isinstance(counts, Counts):
            missing = left_out(metric, counts, undefined)
        elif metric.state in _LEFT_OUT and (undefined is None or undefined != undefined):
            missing = _LEFT_OUT[metric.state](metric, counts)
        if not missing:
            return ""
        if not isinstance(missing, list):
            events = "event" if missing == 1 else "events"
            return f"without {count_text(missing)} {events} of no value"
        names = self._context.names()
        some = ", ".join(str(names.get(label, label)) for label in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        return f"without the undefined {some}{more}"

    @locked
    def classification_report(
        self,
        *,
        labels: Iterable[object] | None = None,
        target_names: Iterable[str] | None = None,
        digits: int = 4,
        intervals: float | None = None,
    ) -> ClassificationReport:
        """Precision, recall, F1 and support of each class, and their averages.

        Args:
            labels: The classes to report and to average, in this order; None: all. Where
                some class is left out there is a micro average in place of the accuracy.
            target_names: A name for each class, in the order of the rows; None: the labels.
            digits: Decimal places of the printed numbers, from 0 to 17.
            intervals: The level of the confidence interval of each number; None: without.

        Raises:
            MetricError: No predicted labels were fed, or bad `target_names` or `digits`.
            InputError: The level is not between 0 and 1, or a label is twice in `labels`.

        >>> from streameval import Evaluator
        >>> ev = Evaluator(task="multiclass").update_many(["a", "b"], ["a", "b"], weight=[4, 6])
        >>> print(ev.classification_report(intervals=0.95))
                             precision            recall          f1-score  support
        a                       1.0000            1.0000            1.0000        4
                      [0.5101, 1.0000]  [0.5101, 1.0000]  [...]
        ...
        """
        level = None if intervals is None else checked_level(intervals)
        if type(digits) is not int or not 0 <= digits <= 17:
            raise MetricError(f"digits: expected a whole number from 0 to 17, got {shown(digits)}")
        self._require_labels("classification_report")
        context, names = self._context, self._context.names()
        families = ("precision", "recall", "f1")
        task = MulticlassTask.name if context.positive is not None else context.plan.task
        counts = self._counts("classification_report")
        state_set = self._window.current()
        every_row = {row.name: row for row in task_metrics(task)}
        params = {} if labels is None else context.counted({"labels": labels})
        chosen: list[Label] = params.get("labels", counts.labels)
        every = set(chosen) >= set(counts.labels)
        titles = _titles(chosen, names, target_names)
        # Of one class an event, the micro average of all classes is the accuracy.
        exclusive = isinstance(counts, ConfusionCounts)
        shown_averages = ["macro", "weighted"] if every and exclusive else [*_AVERAGED]
        if every and "f1_samples" in every_row and context.plan.serves("label_sets"):
            shown_averages.append("samples")
        of_average = {
            f"{average} avg": [find(f"{family}_{average}", task) for family in families]
            for average in shown_averages
        }

        def value(metric: Metric, **more: Any) -> Any:
            return metric.bind(undefined=context.undefined, **more)(
                getattr(state_set, metric.state)
            )

        support = value(find("support", task, None))
        columns = [value(find(family, task, None), **params) for family in families]
        rows = {
            title: (*(float(column[label]) for column in columns), support.get(label, 0))
            for label, title in zip(chosen, titles, strict=True)
        }
        total = exact_sum([row[-1] for row in rows.values()])
        if every and exclusive:
            total = counts.total
        # A mean over events is of all labels.
        params = {} if every and not exclusive else params
        averages = {
            title: (*(float(value(metric, **params)) for metric in metrics), total)
            for title, metrics in of_average.items()
        }
        of_all = find("accuracy", task) if every and exclusive else None
        accuracy = None if of_all is None else float(value(of_all))
        report = ClassificationReport(rows, accuracy, total, averages, digits=digits)  # type: ignore[arg-type]
        if level is None:
            return report
        of_classes = [
            replace(find(family), state=every_row["f1_macro"].state) for family in families
        ]
        # An average of all classes has a formula, whatever their order.
        params = {} if every else params
        ends = functools.partial(self._interval, state_set=state_set, level=level)
        return replace(
            report,
            row_intervals={
                title: tuple(ends(metric, positive=label) for metric in of_classes)
                for label, title in zip(chosen, titles, strict=True)
            },
            average_intervals={
                title: tuple(ends(metric, params=params) for metric in metrics)
                for title, metrics in of_average.items()
            },
            accuracy_interval=None if of_all is None else ends(of_all),
        )

    @overload
    def curve(self, /, name: Literal["roc"], **params: Any) -> RocCurve: ...
    @overload
    def curve(
        self, /, name: Literal["precision_recall"], **params: Any
    ) -> PrecisionRecallCurve: ...
    @overload
    def curve(self, /, name: Literal["det"], **params: Any) -> DetCurve: ...
    @overload
    def curve(self, /, name: Literal["pr_gain"], **params: Any) -> PrGainCurve: ...
    @overload
    def curve(self, /, name: Literal["gain"], **params: Any) -> GainCurve: ...
    @overload
    def curve(self, /, name: Literal["threshold_metrics"], **params: Any) -> ThresholdMetrics: ...
    @overload
    def curve(self, /, name: Literal["score_distribution"], **params: Any) -> ScoreDistribution: ...
    @overload
    def curve(self, /, name: Literal["calibration"], **params: Any) -> CalibrationCurve: ...
    @overload
    def curve(self, /, name: str, **params: Any) -> Any: ...
    @locked
    def curve(self, /, name: str, **params: Any) -> Any:
        """A curve by its name in :data:`streameval.metrics.CURVES`, such as ``"roc"``.

        Returns:
            A frozen object with numpy columns and ``to_dict()``; of several classes with
            ``average=None`` a dict from class to such an object.

        Raises:
            MetricError: No such curve, a parameter that it does not take, or no scores were fed.
        """
        curve = row_named("curve", name, CURVES)
        task = self._context.plan.task
        state = curve.states.get(task)
        if state is None:
            raise MetricError(f"the curve {name!r} is not for {task} tasks")
        of_state = getattr(self._fed(name, state), state)
        return call(f"the curve {name}", curve.function, of_state, params)

    def plot(self, /, name: str = "", ax: Any = None, **options: Any) -> Any:
        """Draw a display by its name in :data:`streameval.plots.DISPLAYS`, such as ``"roc"``.

        Args:
            name: The display's name.
            ax: Axes of matplotlib; those of a new figure by default.
            options: As of the display's ``from_evaluator``, such as ``intervals=0.95``.

        Returns:
            The display, with the axes in ``ax_``; notebooks show it, ``save(path)`` writes it.
            Without matplotlib it is an SVG picture, and has no axes.

        Raises:
            MetricError: No such display, or the evaluator was not fed what it draws.
            MissingExtraError: Axes or arguments of matplotlib are given, and the extra ``plots``
                is not installed.
        """
        return drawn(self, name, ax, options)

    @locked
    def one_vs_rest(self, label: Label) -> View:
        """One class against all others, as the view of a binary task; O(scores of the class).

        Its score is the probability that the events gave to the class, so that it has the
        curves, cut-points and metrics of scores, and no predicted labels. A label of sets of
        labels has the metrics of its predicted label.

        Args:
            label: A class of a multi-class task, or a label of a multi-label one.

        Returns:
            A view of the events counted until now; it does not change.

        Raises:
            MetricError: A binary task, or no probabilities were fed.
            InputError: No such class.

        >>> from streameval import Evaluator
        >>> ev = Evaluator(task="multiclass").update("cat", proba={"cat": 0.75, "dog": 0.25})
        >>> _ = ev.update("dog", proba={"cat": 0.5, "dog": 0.5})
        >>> ev.one_vs_rest("cat")["roc_auc"]
        1.0
        """
        context = self._context
        if context.positive is not None:
            raise MetricError("one_vs_rest is for multiclass tasks; a binary task is one already")
        if context.plan.task_row.truth == "label sets":
            return self._one_label(label)
        scores: ClassScores = self._fed("one_vs_rest", "class_scores").class_scores
        known = scores.labels if context.plan.labels is None else context.plan.labels
        _check_known(label, known, "classes")
        index = scores.one_vs_rest(label)
        bins, most = context.plan.bins, index.max_scores
        task = BinaryTask.name if context.input.labelled else PredictionsTask.name
        plan = StatePlan(task, frozenset({"index"}), bins, max_scores=most)
        binary = StateSet(plan)
        binary.index.merge(index if context.input.labelled else without_labels(index))
        of_one = BinaryInput if context.input.labelled else ScoredInput
        of_class = ViewContext(
            plan,
            of_one(str(label)),
            context.undefined,
            source=(context.plan, {"index": "class_scores"}),
        )
        return View(cast(Window, _Unchanging(binary)), of_class)

    def _one_label(self, label: Label) -> View:
        """A label of sets of labels as the view of a binary task, of what was fed."""
        context, states = self._context, self._window.current()
        kinds = {"confusion": "label_counts", "index": "label_scores"}
        held = [kind for kind, state in kinds.items() if states.support(state)]
        if not held:
            # Before the first event, or nothing is kept that it reads.
            served = [kind for kind, state in kinds.items() if context.plan.serves(state)]
            held = served or list(kinds)
            self._fed("one_vs_rest", kinds[held[0]])
        _check_known(label, context.input.labels, "labels")
        index = states.label_scores.index(label) if "index" in held else None
        most = None if index is None else index.max_scores
        plan = StatePlan(BinaryTask.name, frozenset(held), context.plan.bins, max_scores=most)
        binary = StateSet(plan)
        if "confusion" in held:
            tp, fp, fn, tn = states.label_counts.binary(label)
            cells = [(1, 1, tp), (0, 1, fp), (1, 0, fn), (0, 0, tn)]
            binary.confusion.add_pairs([cell for cell in cells if cell[2]])
        if index is not None:
            binary.index.merge(index)
        one = BinaryInput(str(label), context.input.limit(label))  # type: ignore[attr-defined]
        of_label = ViewContext(plan, one, context.undefined, source=(context.plan, kinds))
        return View(cast(Window, _Unchanging(binary)), of_label)

    @locked
    def thresholds(self, /, name: CutPointName | str, **params: Any) -> Any:
        """The cut-point that is best by a rule, such as ``"youden"``.

        Returns:
            A :class:`~streameval.metrics.CutPoint`; of sets of labels
            :class:`~streameval.evaluator.reports.LabelCutPoints`, a dict of each label's.

        Raises:
            MetricError: No such rule, a parameter that it does not take, or no scores were fed.

        >>> from streameval import Evaluator
        >>> ev = Evaluator(task="multilabel").update({"ad"}, score={"ad": 0.75, "spam": 0.5})
        >>> _ = ev.update({"spam"}, score={"ad": 0.25, "spam": 0.625})
        >>> ev.thresholds("youden").thresholds
        {'ad': 0.75, 'spam': 0.625}
        """
        rule = row_named("cut-point", name, CUT_POINTS)
        self._require_labels(f"the cut-point {name}")
        if self._context.plan.task_row.truth == "label sets":
            scores: LabelScores = self._fed(name, "label_scores").label_scores
            cuts = (
                (label, call(f"the cut-point {name}", rule, scores.index(label), params))
                for label in scores.classes
            )
            return LabelCutPoints(cuts)
        if self._context.positive is None:
            raise MetricError("cut-points are for binary tasks: one score, one threshold")
        index = self._fed(name, "index").index
        return call(f"the cut-point {name}", rule, index, params)

    @locked
    def label_table(
        self,
        metrics: Iterable[str] = ("precision", "recall", "f1", "roc_auc"),
        *,
        threshold: CutPointName | str | None = None,
    ) -> LabelTable:
        """The metrics of each label of a multi-label task, and the threshold that is its own.

        Args:
            metrics: Names of metrics of a label; those of scores or of predicted labels are left
                out where none were fed.
            threshold: The rule of :meth:`thresholds` for each label's best threshold; None: the
                threshold from which on a label is predicted.

        Raises:
            MetricError: Another task, no such metric or rule, or no scores were fed for the rule.

        >>> from streameval import Evaluator
        >>> ev = Evaluator(task="multilabel").update({"ad"}, score={"ad": 0.75, "spam": 0.5})
        >>> _ = ev.update({"spam"}, score={"ad": 0.25, "spam": 0.625})
        >>> print(ev.label_table(threshold="youden"))
        label  support  precision  recall      f1  roc_auc  threshold
        ad           1     1.0000  1.0000  1.0000   1.0000       0.75
        spam         1     0.5000  1.0000  0.6667   1.0000      0.625
        """
        context, states = self._context, self._window.current()
        if context.plan.task_row.truth != "label sets":
            raise MetricError("label_table is for multi-label tasks")
        rows = [find(name, context.plan.task, None) for name in metrics]
        columns = {
            row.name.removesuffix("_macro"): context.bound(row, {})(states)
            for row in rows
            if self._can_answer(row, states)
        }
        labels = context.input.labels
        support = {}
        if states.has_labels:
            support = {label: states.label_counts.true_count(label) for label in labels}
        elif states.has_scores and context.plan.serves("label_scores"):
            support = {label: states.label_scores.true_count(label) for label in labels}
        limits = {label: context.input.limit(label) for label in labels}  # type: ignore[attr-defined]
        if threshold is not None:
            limits = {label: cut.threshold for label, cut in self.thresholds(threshold).items()}
        table: dict[str, Any] = {"support": support, **columns, "threshold": limits}
        return LabelTable(labels, table)

    @locked
    def series(self, metric: str, *, intervals: float | None = None) -> Series:
        """A metric for each retained pane: start, end, value, reason, support, interval.

        A list of rows, with ``to_frame()``.

        Args:
            metric: A name of :data:`streameval.metrics.METRICS`.
            intervals: The level of the confidence interval of each; None: without.

        Raises:
            MetricError: An unknown metric, or the window is not of panes.
        """
        level = None if intervals is None else checked_level(intervals)
        context = self._context
        row = find(metric, context.plan.task)
        self._fed(metric, *row.states)
        panes = self._panes(
            "a series needs a window of panes: pass window=Panes(...) to the Evaluator"
        )
        rows = (
            SeriesRow(
                iso_time(mark.start),
                iso_time(mark.end),
                *self._row(row, panes.state_set_from(mark.start), level, pane=mark.start)[1:],
            )
            for mark in panes.marked()
        )
        return Series(row.name, rows)

    def check_expected(
        self,
        name: str,
        reference: Readings,
        *,
        level: float = 0.95,
        since: object = None,
        panes: Iterable[object] | None = None,
        **params: Any,
    ) -> ExpectedCheck:
        """How well an expected metric holds: for each retained pane its estimate and its value.

        The estimate is :meth:`streameval.Predictions.expected` without the labels.

        Args:
            name: As of that method, and `level` and `params`.
            reference: Other events with labels; leave its panes out.
            since: The event time of the first pane.
            panes: The starts of the panes; None: all.

        Raises:
            InputError: Too few labelled events, or no pane has such a start.
            MetricError: As of that method, or the window is not of panes.

        Cost:
            A pane: O(distinct scores).

        >>> from streameval import Evaluator, Panes
        >>> labels, scores = [0, 0, 0, 1, 0, 1, 1, 1] * 20, ([0.2] * 4 + [0.9] * 4) * 20
        >>> reference = Evaluator().update_many(labels, score=scores)
        >>> ev = Evaluator(window=Panes("1h"), time_unit="s")
        >>> ev = ev.update_many([0, 1] * 80, score=scores, event_time=[1_700_000_000] * 160)
        >>> ev.check_expected("accuracy", reference).held
        0
        """
        self._require_labels("check_expected")
        series = self._panes(
            "check_expected needs a window of panes: pass window=Panes(...) to the Evaluator"
        )
        if not isinstance(reference, Readings):
            raise InputError(
                "reference",
                expected="an evaluator with labels, or a view of one",
                got=shown(reference),
                remedy="load(path) opens a saved state",
            )
        context, views = self._context, (self, reference)
        with both_locked(views):
            estimate = expectation(name, views, level, params, "reference")
            value_of = context.bound(find(name, self.task), params, math.nan)
            known, rows = float(reference._counted()), []
            for mark in _chosen(series.marked(), since, panes, context.time_unit):
                states = series.state_set_from(mark.start)
                found, value = estimate(states), float(value_of(states))
                held = has_held(found, value) if found.defined and value == value else None
                ends = iso_time(mark.start), iso_time(mark.end)
                rows.append(ExpectedRow(*ends, found, value, held))
        check = check_estimates([row.expected for row in rows], [row.value for row in rows], known)
        return ExpectedCheck(name, tuple(rows), *check)

    def _counted(self) -> Weight:
        """The weight of the events; of those with labels and of those with scores, the larger."""
        state_set = self._window.current()
        return max(map(state_set.support, self._context.plan.keeps), default=0)

    def _panes(self, refusal: str) -> PaneSeries:
        panes = panes_of(self._window)
        if panes is None:
            raise MetricError(refusal)
        return panes

    def _counts(self, name: str) -> Counts:
        """The counts of each class or label; raises MetricError where the task has none."""
        state = counts_state(self._context.plan.task, name)
        counts: Counts = getattr(self._fed(name, state), state)
        return counts

    @property
    @locked
    def confusion(self) -> ConfusionCounts:
        """The confusion counts under the user's labels; a copy.

        Raises:
            MetricError: Sets of labels, which have no pairs of classes.
        """
        self._require_labels("confusion")
        counts = self._counts("confusion")
        if isinstance(counts, LabelCounts):
            raise MetricError("confusion is of classes; of sets of labels read label_counts")
        names = self._context.names()
        if not names:
            return counts.copy()
        # Rows ascend by name, whichever label is the positive one.
        return counts.renamed(dict(sorted(names.items(), key=lambda item: item[1])))

    @property
    @locked
    def label_counts(self) -> LabelCounts:
        """True and false positives and negatives of each label; a copy.

        Raises:
            MetricError: Another task than multi-label.

        >>> from streameval import Evaluator
        >>> ev = Evaluator(task="multilabel").update({"ad", "spam"}, {"spam"})
        >>> print(ev.label_counts)
        label  tp  fp  fn  tn
        ad      0   0   1   0
        spam    1   0   0   0
        """
        counts = self._counts("label_counts")
        if not isinstance(counts, LabelCounts):
            raise MetricError("label_counts is of sets of labels; of classes read confusion")
        return counts.copy()


class View(Readings, metaclass=PublicClass):
    """Metrics, reports and curves of the events in one window.

    Made by an :class:`~streameval.Evaluator`, whose lock it shares; read-only, and always current.
    """

    __slots__ = ("_context", "_window")

    def __init__(self, window: Window, context: ViewContext) -> None:
        self._window = window
        self._context = context

    @property
    def threshold(self) -> float | None:
        """Binary: ``score >= threshold`` is predicted positive; None where no label is kept."""
        context = self._context
        if context.positive is None or not context.plan.serves("confusion"):
            return None
        return context.input.threshold

    @property
    @locked
    def support(self) -> Weight:
        """Weight of the events counted."""
        return self._counted()

    def __getitem__(self, name: MetricName | str) -> float:
        context = self._context
        with context.lock:
            state_set = self._window.current()
            known = context.readers.get(name) if isinstance(name, str) else None
            reader = known or context.reader(name, state_set)
            value = reader(state_set)
            return value if value == value else self._named(value)

    def fast_reader(self, name: str) -> Callable[[], float] | None:
        """What reads a metric of the window as it then is, or None; nan: the view has a reason."""
        context, window = self._context, self._window
        path = window.fast_path() or FastPath()
        of_state_set = context.readers.get(name)
        if of_state_set is None:
            return None
        metric = find(name, context.plan.task)
        function = metric.bind(positive=context.positive, undefined=context.undefined)
        fast = None
        kernel = context.plan.task_row.kernel
        if context.undefined is None and kernel is not None:
            fast = compiled_reader(metric.name, window, kernel)
            if fast is None and path.reader is not None and not metric.also:
                fast = path.reader(metric.name, metric.state, function)
            if fast is not None and not math.isnan(fast()):
                return fast
        state_set, current = path.states, window.current
        if not metric.also and metric.state in ("confusion", "index", "class_scores"):
            if path.every:
                return functools.partial(function, getattr(state_set, metric.state))
            if fast is None and state_set is not None:
                return functools.partial(of_state_set, state_set)
        if fast is None:
            return lambda: of_state_set(current())
        return functools.partial(_first_number, fast, of_state_set, current)

    @locked
    def _summary(self) -> tuple[str, str]:
        """The task, window and events; and the main metrics that can be answered, with values."""
        context = self._context
        state_set = self._window.current()
        task = context.plan.task
        notes = context.notes
        words = [f"{task}, positive {shown(notes['positive'])}" if "positive" in notes else task]
        if "window" in notes:
            window = dict(notes["window"])
            sizes = " ".join(f"{key} {value}" for key, value in window.items() if key != "kind")
            words.append(f"window {window['kind']} ({sizes})")
        words.append(f"{count_text(self.support)} events")
        values: list[str] = []
        names = context.kept or USUAL_METRICS["representation", task]
        for name in names if self.support else ():
            metric = find(name, task)
            if len(values) < _SHOWN_VALUES and self._can_answer(metric, state_set):
                value = float(context.bound(metric, {})(state_set))
                values.append(f"{name} {value:.4g}")
        return ", ".join(words), ", ".join(values)

    def __dir__(self) -> list[str]:
        return dir(type(self))

    def __repr__(self) -> str:
        return f"<View: {'; '.join(filter(None, self._summary()))}>"

    def _repr_html_(self) -> str:
        words, _ = self._summary()
        return f"<p>{html.escape(words)}</p>{self.report()._repr_html_()}"

    @locked
    def pane_reports(
        self, metrics: Sequence[str], known: PaneReports, *, intervals: float | None = None
    ) -> PaneReports:
        """Rows of metrics for each retained pane; those `known` of panes without further events."""
        context = self._context
        rows = [find(name, context.plan.task) for name in metrics]
        panes = self._panes("reports of panes need a window of panes")
        reports: PaneReports = {}
        for mark in panes.marked():
            report = known.get(mark.start)
            if report is None or mark.frozen is None or report[0].frozen is not mark.frozen:
                states = panes.state_set_from(mark.start)
                start = mark.start
                report = mark, [self._row(row, states, intervals, pane=start) for row in rows]
            reports[mark.start] = report
        return reports

    @property
    @locked
    def distinct_scores(self) -> int:
        """Binary: how many distinct scores, or cells of them, are kept; 0 where none are."""
        index = self._window.current().index
        return 0 if index is None else int(index.distinct)

    @property
    @locked
    def marks(self) -> list[PaneMark]:
        """The retained panes, the oldest first; none where the window is not of panes."""
        panes = panes_of(self._window)
        return [] if panes is None else panes.marked()

    @locked
    def of_panes(self, starts: Iterable[int]) -> View:
        """The merge of some retained panes, as a view that stays; raises MetricError."""
        panes = self._panes("the events of some panes need a window of panes")
        merged = StateSet(self._context.plan)
        for start in starts:
            merged.merge(panes.state_set_from(start))
        return View(cast(Window, _Unchanging(merged)), self._context)

    @locked
    def before(self, length_us: int) -> View:
        """The window one length before this one; raises MetricError where it has no panes."""
        self._panes("the window before needs a window of panes")
        marks = self.marks
        end = marks[-1].end - length_us if marks else 0
        return self.of_panes(mark.start for mark in marks if end - length_us < mark.end <= end)


explains_attributes(View, "view")


@contextmanager
def both_locked(views: Sequence[Readings]) -> Iterator[None]:
    """With the locks of both, in one order for either first, so that threads cannot deadlock."""
    first, second = sorted((view._context.lock for view in views), key=id)
    with first, second:
        yield


def fed_scores(view: Readings, name: str, state: str) -> StateSet:
    """The states of a view; raises MetricError where it has no such state."""
    context = view._context
    if state != "confusion" and (state == "index") != (context.positive is not None):
        task, other = ("binary", "multi-class")[:: 1 if state == "index" else -1]
        raise MetricError(
            f"{name} compares scores of {task} tasks, got those of a {other} one; of several "
            "classes one_vs_rest(label) has the scores of one"
        )
    return view._fed(name, state)


def expectation(
    name: str,
    views: tuple[Readings, Readings],
    level: float,
    params: Mapping[str, Any],
    field: str,
) -> Callable[[StateSet], Interval]:
    """From states as the first view has them to a metric that the second one's labels predict."""
    now, labelled = views
    if not labelled._context.input.labelled:
        got = "predictions without them"
        raise InputError(field, expected="events with true labels", got=got)
    state = state_read(name, binary=now._context.positive is not None)
    _, known = (fed_scores(view, f"expected {name}", state) for view in views)
    threshold, size = now._context.input.threshold, known.effective_size(state)
    of_cells = name in EXPECTED and EXPECTED[name][0].state == "confusion"

    def of_states(states: StateSet) -> Interval:
        if state == "index" and of_cells and not _is_by_threshold(states, threshold):
            return Interval(math.nan, math.nan, math.nan, level, "", 0, _OTHER_LABELS)
        sizes = states.effective_size(state), size
        sides = getattr(states, state), getattr(known, state)
        return expected(name, *sides, threshold=threshold, level=level, sizes=sizes, **params)

    return of_states


def _is_by_threshold(states: StateSet, threshold: float | None) -> bool:
    """Whether the predicted labels are those of the threshold, as expected cells take them."""
    counts, index = states.confusion, states.index
    if counts is None or index is None or threshold is None or not counts.exact:
        return True
    scores, positives, negatives = index.groups()
    weight = positives + negatives
    above = weight[scores >= coarse(threshold, index.level)].sum().item()
    cell = weight[scores == coarse(threshold, index.level)].sum().item() if index.level else 0
    return bool(above - cell <= counts.predicted_count(True) <= above)


def _chosen(
    marks: list[PaneMark], since: object, panes: Iterable[object] | None, unit: str | None
) -> list[PaneMark]:
    """The panes from a time on, or of some starts; raises InputError for one that is no start."""
    if since is not None:
        first = event_time(since, unit, "since")
        marks = [mark for mark in marks if mark.start >= first]
    if panes is None:
        return marks
    starts = {mark.start: mark for mark in marks}
    chosen = []
    for position, given in enumerate(panes):
        mark = starts.get(event_time(given, unit, "panes", position))
        if mark is None:
            raise InputError(
                "panes",
                expected="starts of retained panes, as series() has them",
                got=shown(given),
                position=position,
            )
        chosen.append(mark)
    return chosen


class SliceViews(dict[SliceKey, View]):
    """The view of each slice by its key, with a table of the main metrics of all of them."""

    def __missing__(self, key: object) -> View:
        near = next(
            (
                one
                for one in self
                if str(key) in (slice_name(one), *dict(one), *map(str, dict(one).values()))
            ),
            None,
        )
        one = near or next(iter(self), (("country", "PT"),))
        raise KeyError(f"no slice is called {shown(key)}; a key is a tuple of pairs, as {one}")

    def _metrics(self) -> list[str]:
        first = next(iter(self.values()))
        kept = first._context.kept or USUAL_METRICS["slices", first.task]
        known = {row.metric for row in first.report()}
        return [name for name in kept if name in known]

    def to_frame(self) -> Any:
        """A data frame of pandas or polars, whichever is loaded: a row for each slice.

        Raises:
            MissingExtraError: Neither is installed.
        """
        columns = slice_columns(list(self))
        names = self._metrics() if self else []
        reports = [view.report(names) for view in self.values()]
        columns |= {name: [float(report[name]) for report in reports] for name in names}
        return data_frame({**columns, "support": [view.support for view in self.values()]})

    def _repr_html_(self) -> str:
        if not self:
            return "<p>no slices</p>"
        names = self._metrics()
        rows = [
            [
                slice_name(key),
                *(f"{row.value:.4g}" for row in view.report(names)),
                count_text(view.support),
            ]
            for key, view in self.items()
        ]
        return Table(["slice", *names, "support"], rows).to_html()

    def __repr__(self) -> str:
        some = ", ".join(slice_name(key) for key in list(self)[:3])
        return f"<SliceViews: {len(self)} slices; {some}{', …' if len(self) > 3 else ''}>"
