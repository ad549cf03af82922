"""The evaluator: counts events and computes metrics of them at any time."""

from __future__ import annotations

import copy
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from streameval.errors import InputError, MetricError, StateError, listed, shown
from streameval.evaluator.evaluation import MergeableEvaluation, different_settings
from streameval.evaluator.fairness import fairness_report
from streameval.evaluator.options import (
    check_arguments,
    checked_options,
    checked_window,
    plan_of,
    replicated,
)
from streameval.evaluator.public_class import PublicClass
from streameval.evaluator.reports import FairnessReport, SliceReport, SliceRow
from streameval.evaluator.slices import SlicedWindows, Slicer
from streameval.evaluator.spellings import explains_attributes, explains_keywords
from streameval.evaluator.track import Track, consume
from streameval.evaluator.updates import Updates
from streameval.evaluator.view import Readings, SliceViews, View, ViewContext, locked
from streameval.events.time import iso_time
from streameval.events.values import SUM_TOLERANCE, Weight
from streameval.metrics.metric import undefined_number
from streameval.metrics.registry import METRICS, call_name, find, metric_names
from streameval.state_files.codec import unpack_one_of
from streameval.state_files.disk import read_one_of
from streameval.state_files.provenance import Provenance
from streameval.states.class_events import plain_event
from streameval.states.lock import PLAIN_LOCK
from streameval.states.state_set import StatePlan, StateSet
from streameval.tasks.input import InputOptions
from streameval.tasks.registry import TASKS, TaskName, likely_task, unlabelled_task
from streameval.uncertainty.differences import sides
from streameval.uncertainty.interval import checked_level
from streameval.windows import Cumulative, Fading, Last, Panes, window_note, window_spec
from streameval.windows.replicated import Bootstrap

EVALUATOR_KIND = "evaluator"

_SEVERAL = 3
"""Declared labels from which on a task that is not given has several classes."""

_INFINITE: dict[Any, Any] = {math.inf: "inf", -math.inf: "-inf"}
"""The text in options of each number that a state file cannot hold."""


class Evaluator(Updates, MergeableEvaluation, Readings, metaclass=PublicClass):
    """Evaluates a classifier, or a regression, from the stream of its predictions.

    Args:
        task: ``"binary"``, ``"multiclass"``, ``"multilabel"`` (each event has a set of labels) or
            ``"regression"``; None: binary, unless ``labels`` has three or more.
        positive: Binary: the label that counts as positive.
        threshold: Binary, multi-label: ``score >= threshold`` is predicted positive where
            an event has no ``y_pred``. Multi-label: one number, or a mapping with that of each
            label.
        labels: The closed list of classes; a label outside it is refused, and
            one without an event is a class of support 0. Multi-class: rows of
            the confusion and distances of weighted kappa follow its order.
            None: labels are discovered, in ascending order.
        metrics: Names of the metrics to compute, or a single name; only the states that
            they need are kept. None keeps what all of the task's metrics need
            (but ``kappa_temporal``; see ``temporal``).
        bins: Reliability bins for the calibration metrics.
        window: Which events count: :class:`~streameval.Last`,
            :class:`~streameval.Panes` or :class:`~streameval.Fading`, or their text on the
            command line, such as ``"last:1000"``; None is all of them.
        slices: Keys, or tuples of keys, to evaluate by as well: each event
            then has its values as ``slices={"country": "PT"}``.
        max_slices: Most slices that are kept; events of others are counted
            in slices called ``(other)``.
        time_unit: Unit of numeric event times since 1970: ``"s"``, ``"ms"``,
            ``"us"`` or ``"ns"``. The first one is refused where this unit puts
            it into the first 60 days of 1970 and another unit between 1990 and 2100.
        undefined: The number for undefined values; None: ``nan`` with a
            reason.
        bootstrap: Replicates by unit, as :class:`~streameval.Bootstrap`, for intervals where the
            events of one user or session are not independent; each event then has its own as
            ``unit="u17"``.
        temporal: Keep what ``kappa_temporal`` needs. It is about the order of
            events, so such an evaluator's bits depend on that order.
        max_scores: Most distinct scores that are kept, at least 1024. Beyond them
            scores are coarsened, memory stops growing, and metrics of the ranking
            have certain :meth:`bounds`; all others stay exact. None keeps all.
        probabilities: Multi-class: False where scores are no probabilities, such as rows of a
            ``decision_function``. Each event then has ``score={label: number}`` (a batch
            ``score=`` in the forms of ``proba=``) with any finite number for every one of
            ``labels``, which it requires. Metrics of probabilities are undefined.
        intervals: Keep what only intervals read and what cannot be derived: the sums of
            squared weights, for weights that are not whole and fading windows; where no
            score index is kept, the second moments of the losses; multi-label: how often two
            labels occur together, for means over labels; of a regression, sums of third and
            fourth powers.

    Threads:
        Any number of threads may call any method of an evaluator and of its
        views: a lock has each call see whole calls of the others. A long call,
        such as a curve or :meth:`to_bytes`, blocks the others. States used
        without an evaluator (:class:`~streameval.ScoreIndex` and its like) have
        no lock: one thread at a time, and a read counts as a use. ``os.fork``
        waits for calls of other threads, so that a child has whole ones only.

    Cost:
        O(1) an event for labels, O(log n) for scores; memory grows with the
        distinct scores (none are kept when ``metrics=`` names no ranking
        metric) and with the distinct pairs of labels.

    >>> ev = Evaluator(task="binary", positive="spam").update("spam", score=0.9)
    >>> _ = ev.update("ham", score=0.7)
    >>> _ = ev.update_many(["ham", "spam"], score=[0.2, 0.8])
    >>> ev["accuracy"], ev["roc_auc"]
    (0.75, 1.0)
    >>> ev
    <Evaluator: binary, positive 'spam', 4 events; accuracy 0.75, f1 0.8, roc_auc 1>
    """

    _kind = EVALUATOR_KIND
    _labelled = True  # whether events have true labels
    _called = "an Evaluator"

    __slots__ = (
        "__weakref__",
        "_context",
        "_input",
        "_lock",
        "_options",
        "_provenance",
        "_replicated",
        "_scores_only",
        "_slicer",
        "_state_set",
        "_total",
        "_update",
        "_window",
        "_windows",
    )

    @explains_keywords
    def __init__(
        self,
        task: TaskName | None = None,
        *,
        positive: object = True,
        threshold: float | Mapping[Any, float] = 0.5,
        labels: Iterable[object] | None = None,
        metrics: Iterable[str] | None = None,
        bins: int = 10,
        window: Last | Panes | Fading | str | None = None,
        slices: Iterable[str | Iterable[str]] = (),
        max_slices: int = 10_000,
        time_unit: str | None = None,
        undefined: float | None = None,
        temporal: bool = False,
        max_scores: int | None = None,
        intervals: bool = False,
        bootstrap: Bootstrap | None = None,
        probabilities: bool = True,
    ) -> None:
        declared = None if labels is None else listed(labels, "labels", "a list of labels")
        if task is None:
            task = likely_task(declared is None or len(declared) < _SEVERAL)
        check_arguments(task, bins, temporal, intervals, probabilities, time_unit)
        given = InputOptions(positive, threshold, declared, probabilities, plain_event)
        counted = task if self._labelled else unlabelled_task(task)
        self._input = TASKS[counted].input(given)
        names = None
        if metrics is not None:
            names = sorted({find(name, counted).name for name in metric_names(metrics)})
        notes = self._input.notes
        classes = self._input.labels if self._input.closed else None
        plan = plan_of(
            counted,
            names,
            bins,
            classes,
            temporal=temporal,
            max_scores=max_scores,
            intervals=intervals,
            probabilities=probabilities,
        )
        number = None if undefined is None else undefined_number(undefined)
        if number != number:
            number = None  # nan is what there is without a number
        spec = checked_window(window, plan)
        windows = replicated(spec, bootstrap, plan)
        self._options: dict[str, Any] = {
            "task": task,
            "metrics": names,
            "bins": bins,
            "temporal": plan.ordered,
            "undefined": _INFINITE.get(number, number),
            "window": spec.to_options(),
            **notes,
            "labels": classes,
            "time_unit": time_unit,
        }
        self._replicated = bootstrap is not None
        self._slicer = Slicer(slices, max_slices)
        self._options["slices"] = [list(dimension) for dimension in self._slicer.dimensions]
        self._options["max_slices"] = max_slices
        # Written only where set: files of evaluators without them are as before.
        later = {
            "bootstrap": None if bootstrap is None else bootstrap.to_options(),
            "max_scores": max_scores,
            "intervals": intervals or None,
            "probabilities": None if probabilities else False,
        }
        self._options |= {name: value for name, value in later.items() if value is not None}
        if not isinstance(spec, Cumulative):
            notes["window"] = window_note(spec)
        self._context = ViewContext(
            plan,
            self._input,
            number,
            notes,
            names,
            cumulative=isinstance(spec, Cumulative),
            time_unit=time_unit,
        )
        self._lock = self._context.lock
        self._scores_only = set(plan.keeps) == set(plan.fed["scores"])
        self._windows = SlicedWindows(windows, plan, self._slicer, time_unit)
        self._provenance = Provenance()
        self._find_fast_paths()

    def _find_fast_paths(self) -> None:
        """Find how an event is counted where all of them are counted in one window."""
        window = self._windows.total
        self._window = window
        self._total = View(window, self._context)
        path = window.fast_path()
        alone = path is not None and path.every and self._windows.alone
        self._state_set: StateSet | None = path.states if path is not None and alone else None
        self._update: Callable[..., None] | None = None
        if self._state_set is not None:
            states = self._state_set
            self._update = states.update if states.plan.checked else states.add
        plan, windows = self._context.plan, self._windows
        kernel = plan.task_row.kernel
        self._bind(
            None if isinstance(self._lock, PLAIN_LOCK) else self._lock,
            self._input.known,
            kernel,
            self._input.threshold,
            SUM_TOLERANCE if plan.probabilities else -1.0,
            None if path is None or kernel is None else path.counts,
            self._slicer.dimensions,
            windows.fast_path_of,
            windows.timeline,
            self._options["time_unit"],
            windows.needs_time,
            len(self._input.known) if self._input.closed else 0,
        )

    def consume(
        self,
        events: Iterable[object],
        *,
        fields: Sequence[str] = ("y_true", "y_pred"),
        batch: int = 4096,
    ) -> int:
        """Count the events of an iterable, such as a generator, as far as it goes.

        They are counted in batches, to the same bits as by :meth:`update` one by one.

        Args:
            events: Mappings from the names of :meth:`update`'s arguments to their values, or
                tuples of the values of ``fields``.
            fields: What the values of a tuple are: ``("y_true", "score")``.
            batch: How many events are read before they are counted.

        Returns:
            How many events were counted.

        Raises:
            InputError: An event was refused; the position is its place in the iterable. All
                events before it were counted, also if the iterable itself raises.

        >>> ev = Evaluator()
        >>> ev.consume({"y_true": n > 2, "score": n / 5} for n in range(5))
        5
        >>> ev.consume([(True, False), (True, 7)])
        Traceback (most recent call last):
        streameval.errors.InputError: y_pred[1]: expected 0 or the positive label 1, got 7; ...
        >>> ev.total.support
        6
        """
        return consume(self, events, tuple(fields), batch)

    def track(self, every: int, *, metrics: Iterable[str] | None = None) -> Track:
        """A track of metrics by the number of events; see :class:`Track`.

        Args:
            every: After how many events the metrics are read.
            metrics: Names; by default the main ones of the task that the evaluator answers.

        Raises:
            InputError: ``every`` is no number of events.
            MetricError: An unknown metric.

        >>> ev = Evaluator()
        >>> track = ev.track(every=2, metrics=["accuracy"])
        >>> for truth, predicted in [(1, 1), (0, 1), (1, 1), (0, 0), (1, 1)]:
        ...     track.update(truth, predicted)
        >>> print(track)
        events  accuracy
             2       0.5
             4      0.75
             5       0.8
        """
        return Track(self, every, metrics)

    @locked
    def slices(self) -> SliceViews:
        """Every slice's key and its view, sorted; the total is the evaluator itself.

        >>> ev = Evaluator(task="multiclass", slices=("country",))
        >>> _ = ev.update("a", "a", slices={"country": "PT"})
        >>> {key: view["accuracy"] for key, view in ev.slices().items()}
        {(('country', 'PT'),): 1.0}
        """
        slices = self._windows.slices
        return SliceViews(
            {key: View(slices[key], self._context) for key in self._windows.in_order()}
        )

    @locked
    def slice_report(
        self,
        metric: str | tuple[str, Mapping[str, Any]],
        *,
        min_support: Weight = 1,
        worst: int | None = None,
        best: int | None = None,
        intervals: float | None = None,
        method: str = "auto",
    ) -> SliceReport:
        """A metric for every slice, the worst first.

        Worst is lowest where larger is better. Slices of equal value are in the order of names.

        Args:
            metric: A name of :data:`streameval.metrics.METRICS`, or a pair of it and its
                parameters.
            min_support: Slices of less support are omitted, and counted.
            worst: Only so many; with ``best``, both ends.
            best: Only so many.
            intervals: The level of the confidence interval of each, and of a mark where
                a slice differs from all other events; None: without.
            method: As in :meth:`report`.

        Raises:
            MetricError: An unknown metric or method, or one that is not fed.
        """
        for name, number_of in (("worst", worst), ("best", best)):
            if number_of is not None and (type(number_of) is not int or number_of < 0):
                raise InputError(name, expected="a number of slices", got=shown(number_of))
        _check_support(min_support)
        views = {(): self._total, **self.slices()}
        total, *rows = [
            SliceRow(key, *row[1:])
            for key, view in views.items()
            for row in view.report([metric], intervals=intervals, method=method)
        ]
        kept = [row for row in rows if row.support >= min_support]
        if total.interval is not None:
            found = [row.interval for row in kept if row.interval is not None]
            marks = sides(found, total.interval)
            kept = [row._replace(differs=side) for row, side in zip(kept, marks, strict=True)]
        name, params = (metric, {}) if isinstance(metric, str) else metric
        sign = -1.0 if METRICS[name].direction == "down" else 1.0
        defined = sorted((r for r in kept if not math.isnan(r.value)), key=lambda r: sign * r.value)
        undefined = [row for row in kept if math.isnan(row.value)]
        if worst is not None or best is not None:
            front, back = worst or 0, best or 0
            if front + back < len(defined):
                defined = defined[:front] + defined[len(defined) - back :]
            undefined = []
        omitted = len(rows) - len(kept)
        return SliceReport(call_name(name, params), total, (*defined, *undefined), omitted)

    @locked
    def fairness(
        self,
        by: str | Iterable[str],
        metrics: Iterable[str] | None = None,
        *,
        label: object = None,
        min_support: Weight = 0,
        level: float = 0.95,
    ) -> FairnessReport:
        """How far apart the rates of predictions are between the groups of a slice key.

        Demographic parity (the rates of positive predictions), equal opportunity (the recalls),
        predictive equality (the false positive rates) and equalized odds (the worse of these two):
        each the difference of the largest and smallest rate of the groups, and their ratio.

        Args:
            by: A key of ``slices=``, or those of a combination, whose values are the groups.
            metrics: Their names; None: all.
            label: The class whose predictions are compared; a multi-class task requires it.
            min_support: Groups of less support are left out, and named.
            level: Of the intervals.

        Raises:
            InputError: No such slices, class or level.
            MetricError: No such metric, no `label`, or no predicted labels are kept.

        >>> ev = Evaluator(slices=["sex"])
        >>> predicted, weight = [1, 0] * 2, [90, 110, 120, 80]
        >>> sexes = {"sex": ["F", "F", "M", "M"]}
        >>> ev = ev.update_many([1, 0] * 2, predicted, weight=weight, slices=sexes)
        >>> (row,) = ev.fairness("sex", ["demographic_parity_ratio"])
        >>> row.value
        0.75
        """
        _check_support(min_support)
        slices = self.slices()
        kinds = [tuple(kind) for kind in self._options["slices"]]
        return fairness_report(
            self._total, slices, kinds, by, metrics, label, min_support, checked_level(level)
        )

    @property
    def total(self) -> View:
        """The view of all events, beside those of :meth:`slices`."""
        return self._total

    def add_events(self, other: Evaluator) -> None:
        """Add another's events, of whatever shards; raises what :meth:`check_events` does."""
        self.check_events(other)
        self._input.learn_from(other._input)
        self._windows.merge(other._windows)

    def check_events(self, other: Evaluator) -> None:
        """Raise StateError for other settings, or events that cannot be added."""
        different = different_settings(self._options, other._options)
        if different:
            raise StateError(
                "evaluators that were set up differently cannot be merged: "
                + "; ".join(_difference(name, *values) for name, values in different.items())
            )
        self._windows.check_merge(other._windows)
        self._input.check_merge(other._input)

    def emptied(self) -> Self:
        """A new evaluator set up in the same way, without events."""
        return type(self)._blank(self._options)

    def _take_over(self, new: Self) -> None:
        new._context.notes, new._context.later = self._context.notes, self._context.later
        new._context.kept = self._context.kept
        new.share_lock(self)
        for name in ("_context", "_input", "_provenance", "_slicer", "_windows"):
            setattr(self, name, getattr(new, name))
        self._find_fast_paths()

    def _follow(self, other: Evaluator, newest: int | None) -> None:
        self.learn_labels([other])
        self._windows.follow(other._windows, newest)

    def learn_labels(self, others: Iterable[Evaluator]) -> None:
        """Take over the labels that others know."""
        for other in others:
            self._input.learn_from(other._input)

    @property
    @locked
    def span(self) -> tuple[str, str] | None:
        """Windows of panes: the start of the oldest pane with events, and the latest event time.

        >>> from streameval import Panes
        >>> ev = Evaluator(window=Panes("1h"), time_unit="s")
        >>> _ = ev.update(True, True, event_time=1_700_000_000)
        >>> ev.span
        ('2023-11-14T22:00:00Z', '2023-11-14T22:13:20Z')
        """
        marks, latest = self._total.marks, self.newest
        return (
            (iso_time(marks[0].start), iso_time(latest)) if marks and latest is not None else None
        )

    @property
    @locked
    def has_whole_weights(self) -> bool:
        """Whether all weights were whole, so that merges have the same bits in any order."""
        return self._windows.total.current().has_whole_weights

    def share_lock(self, other: Evaluator) -> None:
        """Take over another's lock, before either is used: one call then holds both."""
        self._lock = self._context.lock = other._lock
        self._find_fast_paths()

    @contextmanager
    def counting_only(
        self, dimensions: Iterable[tuple[str, ...]], *, labels: bool, scores: bool
    ) -> Iterator[None]:
        """Within the block, count events in these dimensions and in states of these feeds only."""
        if not labels and self._options["window"]["kind"] == "last":
            raise StateError("Last(n) counts no event without its label")
        with self._lock:
            slicer, before = self._slicer, self._slicer.dimensions
            fast_paths = (self._fast, self._update, self._state_set, self._scores_only)
            self._input.part = (labels, scores)
            slicer.restrict(dimensions)
            self._fast, self._update, self._state_set = False, None, None
            self._scores_only = False
            try:
                yield
            finally:
                self._input.part = None
                slicer.restrict(before)
                self._fast, self._update, self._state_set, self._scores_only = fast_paths

    restricted = counting_only  # its former name, until the next release

    @property
    def options(self) -> dict[str, Any]:
        """The arguments that it was made with, as plain data."""
        return copy.deepcopy(self._options)

    @property
    def plan(self) -> StatePlan:
        """Which states are kept."""
        return self._context.plan

    @property
    def notes(self) -> Mapping[str, Any]:
        """The notes of reports: settings that the numbers depend on."""
        return self._context.notes

    def note(self, notes: Mapping[str, Any], *, later: bool = False) -> None:
        """Add notes of reports, or remove those that are None; `later` is the context's."""
        self._context.later = later
        every = {**self._context.notes, **notes}
        self._context.notes = {key: value for key, value in every.items() if value is not None}

    def show(self, metrics: Iterable[str] | None) -> None:
        """Have reports give these metrics, or the default ones; MetricError for others."""
        names = None if metrics is None else sorted(set(metrics))
        for name in names or ():
            for state in find(name, self.task).states:
                if not self.plan.serves(state):
                    raise MetricError(f"{name} is not kept by this evaluator")
        self._context.kept = names

    @classmethod
    def _blank(cls, options: dict[str, Any]) -> Self:
        """A new evaluator of these options; raises InputError or MetricError."""
        given = copy.deepcopy(options)
        window = window_spec(given.pop("window"))
        numbers = {text: number for number, text in _INFINITE.items()}
        given["undefined"] = numbers.get(given["undefined"], given["undefined"])
        if "bootstrap" in given:
            given["bootstrap"] = Bootstrap(**given["bootstrap"])
        return cls(**given, window=window)  # type: ignore[arg-type]

    @locked
    def to_state(self) -> dict[str, Any]:
        """Plain canonical data: what :meth:`to_bytes` packs."""
        return {
            "options": copy.deepcopy(self._options),
            **self._windows.to_state(),
            **self._input.to_parts(),
        }

    @classmethod
    def from_state(cls, data: dict[str, Any]) -> Self:
        """The evaluator that :meth:`to_state` wrote; raises StateError."""
        given = checked_options(data)
        try:
            new = cls._blank(given)
            new._input.restore(data)
        except (InputError, MetricError) as error:
            raise StateError(f"options: {error}") from None
        for name, value in new._options.items():
            if type(value) is not type(given[name]) or value != given[name]:
                raise StateError(
                    f"options.{name}: expected {shown(value)}, got {shown(given[name])}"
                )
        new._windows.restore(data)
        new._find_fast_paths()
        new._input.restore_labels(new._windows.total.current().labels())
        return new

    def __reduce__(self) -> tuple[Callable[[bytes, Any], Evaluator], tuple[bytes, Any]]:
        return _unpickled, self._pickled()

    def __repr__(self) -> str:
        words, values = self._total._summary()
        slices = f"{len(self._windows.slices)} slices" if self._slicer.dimensions else ""
        return f"<{type(self).__name__}: {'; '.join(filter(None, (words, slices, values)))}>"

    def _repr_html_(self) -> str:
        return self._total._repr_html_()

    def __dir__(self) -> list[str]:
        return dir(type(self))

    def _check(self) -> None:
        self._windows._check()


def _difference(name: str, mine: Any, theirs: Any) -> str:
    """How one setting of two evaluators differs, whatever their length."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        different = sorted(different_settings(mine, theirs).items())
        return ", ".join(_difference(f"{name}.{key}", *values) for key, values in different)
    if isinstance(mine, list) and isinstance(theirs, list):
        mine_only, theirs_only = _without(mine, theirs), _without(theirs, mine)
        if mine_only or theirs_only:
            parts = [f"{shown(mine_only)} only here"] if mine_only else []
            parts += [f"{shown(theirs_only)} only there"] if theirs_only else []
            return f"{name} has {' and '.join(parts)}"
        at = next(n for n, item in enumerate(mine) if item != theirs[n])
        return _difference(f"{name}[{at}]", mine[at], theirs[at])
    here, there, start = shown(mine), shown(theirs), ""
    if here == there and isinstance(mine, str) and isinstance(theirs, str):
        # Both texts are cut before they part.
        pairs = enumerate(itertools.zip_longest(mine, theirs))
        at = next(n for n, (a, b) in pairs if a != b)
        here, there, start = shown(mine[at:]), shown(theirs[at:]), f" from character {at} on"
    return f"{name}{start} is {here} here and {there} there"


def _without(items: list[Any], others: list[Any]) -> list[Any]:
    known = set(map(repr, others))
    return [item for item in items if repr(item) not in known]


explains_attributes(Evaluator, "ev")


def _unpickled(data: bytes, provenance: Any) -> Evaluator:
    return Evaluator._from_pickled(data, provenance)


def from_bytes(data: bytes) -> Evaluator:
    """The evaluator that :meth:`Evaluator.to_bytes` wrote.

    Its :attr:`~Evaluator.provenance` is in the bytes, or else is their checksum: the same
    bytes cannot be merged twice. Of fewer than 1,000 events equal bytes may be chance: they are
    merged, with a UserWarning.

    Raises:
        StateError: The bytes are not a whole, sound state of a version that
            this release reads; nothing else, whatever the bytes.

    >>> ev = Evaluator(task="multiclass").update("cat", "dog")
    >>> from_bytes(ev.to_bytes())["accuracy"]
    0.0
    """
    return Evaluator.from_parts(unpack_one_of(data, (EVALUATOR_KIND,)), in_memory=True)


def _check_support(min_support: object) -> None:
    """Raise InputError where a least support is no number."""
    if not isinstance(min_support, (int, float, np.integer, np.floating)):
        raise InputError("min_support", expected="a number", got=shown(min_support))


def load(path: str | os.PathLike[str]) -> Evaluator:
    """The evaluator that :meth:`Evaluator.save` wrote.

    Raises:
        StateError: As :func:`from_bytes`, or the file cannot be read.
    """
    return Evaluator.from_parts(read_one_of(path, (EVALUATOR_KIND,)))
