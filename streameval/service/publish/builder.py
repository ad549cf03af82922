"""Builds the snapshots of a run: each part anew when it has changed, within a share of the time."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, Struct
from msgspec.structs import replace

from streameval.errors import InputError, MetricError, StateError
from streameval.evaluator.comparison import (
    Comparison,
    ComparisonView,
    Difference,
    Evaluation,
    reference_of,
)
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.reports import ReportRow
from streameval.evaluator.slices import SliceKey, plain_slice_name, slice_name
from streameval.evaluator.view import PaneReports, View
from streameval.events.time import iso_time
from streameval.metrics.curves import EVERY_SERVED_CURVE
from streameval.metrics.registry import find
from streameval.service.config.evaluators import (
    kind_of_settings,
    main_metrics,
    open_reference,
    predicted_windows,
    predictions_name,
    window_spec_text,
)
from streameval.service.config.settings import RunSettings, interval_level
from streameval.service.join.examples import Examples
from streameval.service.lateness import LateShare
from streameval.service.publish.predictions import PredictionReports
from streameval.service.publish.snapshot import (
    Checkpoint,
    ClassRow,
    Confusion,
    Curve,
    ExampleCell,
    Join,
    Label,
    ModelComparison,
    ModelDifference,
    OpenedPart,
    Partition,
    PredictionReport,
    Quarantine,
    Report,
    Series,
    Slice,
    SliceDifference,
    Snapshot,
    SourceInfo,
    Task,
    Value,
    Window,
    ends_of,
    finite,
)
from streameval.service.store.valid_from import ValidFrom, note_valid_from
from streameval.states.prediction_histogram import PredictionHistogram
from streameval.tasks.registry import TASKS
from streameval.uncertainty.differences import sides
from streameval.uncertainty.interval import DEFAULT_LEVEL, Interval
from streameval.uncertainty.paired import is_bootstrapped, needs_pairs
from streameval.windows import window_spec

_CLASSES = 100

_LABELS, _OF_LABEL, _OF_ITS_SCORES = 200, ("precision", "recall", "f1"), ("roc_auc",)
"""Of so many labels of sets of labels a snapshot has these metrics; those of scores, whose
intervals take as long as there are scores, without one."""

_SHARE = 0.2
"""Largest share of the run's time that computing the parts of a snapshot takes."""

_RESAMPLED_SHARE = 0.02
"""The same of the intervals that are resampled."""

_COMPARED_SHARE = 0.05
"""The same of the comparisons of several models."""

_PREDICTED_SHARE = 0.05
"""The same of what predictions say before their labels are there."""

_PREDICTIONS, _FORCED_PREDICTIONS = 0.25, 2.0
"""Seconds that their panes may take in a snapshot, and where all of it is requested."""

_COMPARED_SLICES = 1_000
"""Most slices of a comparison in a snapshot."""

MOST_RESAMPLED = 65_536
"""The most distinct scores from which intervals are resampled."""

_RESAMPLED_SECONDS = 1e-5
"""What resampling takes for each distinct score, at least."""

_FORCED_SECONDS = 0.1
"""What resampling an interval may take where all parts of a snapshot are recomputed."""

_NOT_COMPARED = "a run does not resample scores; Comparison.load of an exported state does"

_T = TypeVar("_T")


class CachedPart(Generic[_T]):
    """A part of a snapshot; recomputed when it has changed and enough time has passed."""

    __slots__ = ("_at", "_cost", "_make", "_value", "as_of", "expected", "stale")

    def __init__(self, make: Callable[[], _T], expected: Callable[[], float] = lambda: 0.0) -> None:
        self._make = make
        self.expected = expected
        self._at = -math.inf
        self._cost = 0.0
        self.stale = True
        self._value: _T | None = None
        self.as_of = 0
        """Microseconds since 1970: the value holds all that was counted until then."""

    @property
    def value(self) -> _T:
        """The newest value; there is one after the first refresh."""
        assert self._value is not None
        return self._value

    def refresh(self, clock: Callable[[], float], share: float, now: int, *, force: bool) -> None:
        """Compute it, if it is stale and its cost is less than its share of the time since."""
        begun = clock()
        spare = share * (begun - self._at)
        if self.stale and (force or max(self._cost, self.expected()) <= spare):
            self.stale = False  # first: another thread may count events meanwhile
            self._value = self._make()
            self._at = clock()
            self._cost = self._at - begun
        if not self.stale:
            self.as_of = now


def _parts(make: Callable[[str], _T], windows: Iterable[str]) -> dict[str, CachedPart[_T]]:
    """A part of each window."""
    return {name: CachedPart(partial(make, name)) for name in windows}


class _Totals(Struct, frozen=True):
    """The parts of a window that are computed together, so they agree."""

    report: Report
    curves: dict[str, Curve]
    confusion: Confusion
    examples: list[ExampleCell]


class _Panes(Struct, frozen=True):
    ends: list[int]
    """Microseconds: whether a pane is mature changes with time, while its values stay."""
    series: Series


class SnapshotBuilder:
    """Builds snapshots of a run's evaluators."""

    # An expensive part (totals, slices, series) is recomputed when that fits into its share of a
    # fifth of the time; otherwise the previous one is published again. Intervals that have no
    # formula are resampled, which takes a hundred times as long as their metric: they are computed
    # for the totals only, within a share of their own, and say what time they are of.

    def __init__(
        self,
        settings: RunSettings,
        evaluators: Mapping[str, Evaluation],
        valid_from: ValidFrom,
        clock: Callable[[], float],
        examples: Examples | None = None,
    ) -> None:
        self._settings = settings
        self._given = evaluators
        self.examples = examples
        self.valid_from = valid_from
        self._clock = clock
        self._metrics = main_metrics(settings)
        self._level = interval_level(settings)
        self._known_panes: dict[str, tuple[PaneReports, PaneReports]] = {}
        kinds = {window.name: kind_of_settings(window).name for window in settings.window}
        compared = [name for name, one in evaluators.items() if isinstance(one, Comparison)]
        self._totals = _parts(self._make_totals, kinds)
        self._slices = _parts(self._make_slices, kinds)
        self._resampled = _parts(self._make_resampled, kinds)
        for name, part in self._resampled.items():
            part.expected = partial(self._resampling_seconds, name)
        self._panes = _parts(self._make_panes, [name for name in kinds if kinds[name] == "panes"])
        self._compared = _parts(self._make_compared, compared)
        self._predicted = _parts(self._make_predicted, kinds if predicted_windows(settings) else ())
        self._reports = PredictionReports(settings, evaluators, clock)
        self._forced = False
        # Half of the time is for the totals, which readers wait for; they are made first.
        groups: list[tuple[list[CachedPart[Any]], float, float]] = [
            ([*self._totals.values()], _SHARE / 2, math.inf),
            ([*self._panes.values(), *self._slices.values()], _SHARE / 2, math.inf),
            ([*self._resampled.values()], _RESAMPLED_SHARE, _FORCED_SECONDS),
            ([*self._predicted.values()], _PREDICTED_SHARE, math.inf),
            ([*self._compared.values()], _COMPARED_SHARE, -1.0),
        ]
        self._parts = [
            (part, share / len(parts), forced) for parts, share, forced in groups for part in parts
        ]
        """Parts in the order in which they are made, the share of the time of each, and the most
        seconds that it may take at least where all are to be made."""
        self._sources = _sources(settings)
        self._references = _references(settings)
        self._of_models: dict[tuple[str, str], CachedPart[list[Slice]]] = {}
        """The slices of models other than the first, of those that were requested once."""
        self._opening = threading.Lock()
        self._opened: dict[tuple[str, ...], Any] = {}
        self._opened_of = 0

    def _evaluator(self, window: str) -> Evaluator:
        """The evaluator of a window, which may have been replaced since the last look."""
        return reference_of(self._given[window])

    def _resampling_seconds(self, window: str) -> float:
        return resampling_seconds(self._evaluator(window).total)

    def _comparison(self, window: str) -> Comparison:
        found = self._given[window]
        assert isinstance(found, Comparison)
        return found

    def changed(self) -> None:
        """Mark every part as stale, because events were counted."""
        self._reports.changed()
        for part in [*(part for part, _, _ in self._parts), *self._of_models.values()]:
            part.stale = True

    @property
    def stale(self) -> bool:
        """Whether a part lacks counted events."""
        return any(part.stale for part, _, forced in self._parts if forced == math.inf)

    def build(
        self,
        *,
        sequence: int,
        now: int,
        labelled_until: int | None,
        late: Mapping[str, LateShare] | None,
        join: Mapping[str, Any] | None,
        partitions: list[Partition],
        quarantine: Mapping[str, Any],
        checkpoint: Checkpoint,
        force: bool = False,
    ) -> Snapshot:
        """A snapshot, still without alerts."""
        self._reports.labelled_until, self._forced = labelled_until, force
        for part, share, forced in self._parts:
            may = force and part.expected() <= forced
            part.refresh(self._clock, share, now, force=may)
        first = self._evaluator(next(iter(self._given)))
        task = self._settings.evaluator.task
        totals = {window: part.value for window, part in self._totals.items()}
        joined = None if join is None else msgspec.convert(join, Join)
        return Snapshot(
            sequence=sequence,
            at=iso_time(now),
            task=task,
            positive=None if TASKS[task].positive is None else first.labels[1],
            labels=list(first.labels),
            level=self._level,
            windows=[
                Window(
                    name=window.name,
                    kind=kind_of_settings(window).name,
                    spec=window_spec_text(window) + self._since(window.name),
                    immature=joined is not None and joined.waiting > 0,
                    as_of=iso_time(self._totals[window.name].as_of),
                    late=None if late is None else late[window.name].value,
                    max_scores=self._evaluator(window.name).plan.max_scores,
                )
                for window in self._settings.window
            ],
            sources=self._sources,
            reports={window: self._with_resampled(window) for window in totals},
            curves={window: part.curves for window, part in totals.items()},
            confusion={window: part.confusion for window, part in totals.items()},
            examples=UNSET
            if self.examples is None
            else {window: part.examples for window, part in totals.items()},
            series={
                window: replace(
                    part.value.series,
                    immature=[
                        labelled_until is None or end > labelled_until for end in part.value.ends
                    ],
                )
                for window, part in self._panes.items()
            },
            slices={window: part.value for window, part in self._slices.items()},
            comparison={
                window: replace(part.value, as_of=iso_time(part.as_of))
                for window, part in self._compared.items()
            },
            predictions={window: part.value for window, part in self._predicted.items()},
            join=joined,
            partitions=partitions,
            quarantine=msgspec.convert(quarantine, Quarantine),
            checkpoint=checkpoint,
        )

    def _since(self, window: str) -> str:
        return note_valid_from(self.valid_from, window, self._evaluator(window))

    def _make_totals(self, window: str) -> _Totals:
        self._since(window)  # a window advances past the panes that are missing
        view = self._evaluator(window).total
        examples = self._examples(window)
        confusion = _confusion(view, self._level)
        return _Totals(self._report(view), _curves(view), confusion, examples)

    def _examples(self, window: str) -> list[ExampleCell]:
        if self.examples is None:
            return []
        evaluator = self._evaluator(window)

        def holds(time: int) -> bool:
            part = self.valid_from.part(window, (), time)
            return part is None or part.labels

        labels = evaluator.labels
        names = (
            {} if TASKS[self._settings.evaluator.task].positive is None else dict(enumerate(labels))
        )
        spec = window_spec(evaluator.options["window"])
        cells = self.examples.cells(spec, names, evaluator.newest, holds)
        return msgspec.convert(cells, list[ExampleCell])

    def _make_predicted(
        self, window: str, key: SliceKey | None = None, model: str = ""
    ) -> PredictionReport:
        since = self.valid_from.windows.get(predictions_name(window, model))
        is_asked = self._forced or key is not None or model != ""
        seconds = _FORCED_PREDICTIONS if is_asked else _PREDICTIONS
        found, complete = self._reports.make(window, key, model, since=since, seconds=seconds)
        if not complete and not is_asked:
            self._predicted[window].stale = True  # the other panes, next time
        return found

    def _make_resampled(self, window: str) -> dict[str, Value]:
        """The values whose intervals have to be resampled; empty without intervals."""
        _, names = self._by_formula(self._totals[window].value.report.metrics)
        view = self._evaluator(window).total
        if self._level is None or not names or view.distinct_scores > MOST_RESAMPLED:
            return {}
        return {row.metric: Value.of(row) for row in view.report(names, intervals=self._level)}

    def _with_resampled(self, window: str) -> Report:
        """A window's report with the newest resampled intervals."""
        totals, part = self._totals[window], self._resampled[window]
        report = totals.value.report
        late = {} if part.as_of == totals.as_of else {"interval_as_of": iso_time(part.as_of)}
        values = {
            name: replace(
                report.metrics[name],
                **{key: getattr(one, key) for key in ("low", "high", "method")},
                **late,
            )
            for name, one in part.value.items()
            if one.method and name in report.metrics and report.metrics[name].value is not None
        }
        return replace(report, metrics={**report.metrics, **values})

    def _names(self, view: View) -> list[str]:
        """The main metrics that the fed columns allow."""
        names = []
        for name in self._metrics:
            with suppress(MetricError):
                view.report([name])
                names.append(name)
        return names

    def _make_panes(self, window: str) -> _Panes:
        evaluator = self._evaluator(window)
        # Every reported metric, so that each has a series; the report is made first.
        reported = self._totals[window].value.report.metrics
        names = list(dict.fromkeys([*reported, *self._names(evaluator.total)]))
        plain, resampled = self._by_formula(names)
        known = self._known_panes.get(window, ({}, {}))
        if any(len(rows) != len(plain) for _, rows in known[0].values()):
            known = ({}, {})  # other metrics than before: the first scores were read
        found = self._known_panes[window] = (
            evaluator.total.pane_reports(plain, known[0], intervals=self._level),
            evaluator.total.pane_reports(resampled, known[1]),
        )
        marks = [mark for mark, _ in found[0].values()]
        rows = [
            {row.metric: row for row in (*found[0][mark.start][1], *found[1][mark.start][1])}
            for mark in marks
        ]
        series = Series(
            start=[iso_time(mark.start) for mark in marks],
            end=[iso_time(mark.end) for mark in marks],
            immature=[],
            **_columns(rows, names, plain),
        )
        return _Panes([mark.end for mark in marks], series)

    def _by_formula(self, names: Iterable[str]) -> tuple[list[str], list[str]]:
        """The names whose intervals have a formula, and the names that are resampled."""
        task = self._settings.evaluator.task
        resampled = [name for name in names if is_resampled(name, task)]
        return [name for name in names if name not in resampled], resampled

    def _view(self, window: str, key: SliceKey | None, model: str) -> View:
        """What a window holds of a slice, or of all events, and of a model."""
        given = self._given[window]
        found = given.total if key is None else given.slices()[key]
        return found if isinstance(found, View) else found[model or found.models[0]]

    def _report(self, view: View, key: SliceKey | None = None) -> Report:
        """The report, with the intervals that have a formula and the values of the references."""
        given = view.report()
        rows = {row.metric: row for row in given}
        if self._level is not None:
            plain, _ = self._by_formula(rows)
            rows |= {row.metric: row for row in _rows(view, plain, self._level)}
        values = {path: _reference_values(one, key, rows) for path, one in self._references.items()}
        return Report(
            task=given.task,
            metrics={name: Value.of(row) for name, row in rows.items()},
            level=UNSET if self._level is None else self._level,
            references=values or UNSET,
            **given.notes,
        )

    def _make_slices(self, window: str, model: str = "") -> list[Slice]:
        total = self._view(window, None, model)
        names = self._names(total)
        plain, resampled = self._by_formula(names)
        found = []
        intervals: dict[str, list[tuple[Slice, Interval]]] = {name: [] for name in plain}
        for key, given in self._given[window].slices().items():
            view = given if isinstance(given, View) else given[model or given.models[0]]
            rows = {row.metric: row for row in _rows(view, plain, self._level)}
            rows |= {row.metric: row for row in _rows(view, resampled, None)}
            ends = {name: ends_of(row) for name, row in rows.items()}
            one = Slice(
                slice=dict(key),
                name=slice_name(key),
                support=max((row.support for row in rows.values()), default=0),
                metrics={name: finite(rows[name].value) for name in names if name in rows},
                reasons={name: row.reason for name, row in rows.items() if row.reason},
                low={name: low for name, (low, _) in ends.items() if low is not None},
                high={name: high for name, (_, high) in ends.items() if high is not None},
                differs={},
            )
            found.append(one)
            for name in plain:
                if name in rows and (interval := rows[name].interval) is not None:
                    intervals[name].append((one, interval))
        for row in _rows(total, plain, self._level):
            if row.interval is None:
                continue
            sure = intervals[row.metric]
            marks = sides([interval for _, interval in sure], row.interval)
            for (one, _), side in zip(sure, marks, strict=True):
                if side is not None:
                    one.differs[row.metric] = side
        return found

    def _make_compared(self, window: str) -> ModelComparison:
        comparison = self._comparison(window)
        found = self._compare(comparison.total)
        task = self._settings.evaluator.task
        named = [
            name
            for name in found.values
            if not is_bootstrapped(find(name, task))
            and (self._settings.evaluator.paired_scores or not needs_pairs(find(name, task)))
        ]
        if not named or not self._settings.evaluator.slices:
            return found
        rows = [
            SliceDifference(
                slice_name(row.slice), row.difference.n, row.flagged, _difference(row.difference)
            )
            for model in comparison.models[1:]
            for row in comparison.slice_differences(named[0], a=model, level=found.level)
        ]
        rows.sort(key=lambda row: math.inf if (p := row.difference.p_value) is None else p)
        return replace(
            found,
            slice_metric=named[0],
            slices=rows[:_COMPARED_SLICES],
            slices_left_out=max(0, len(rows) - _COMPARED_SLICES),
        )

    def _compare(self, view: ComparisonView) -> ModelComparison:
        """The main metrics of every model, and the differences by tests that have a formula."""
        # Metrics of labels have few joint cells, from which a bootstrap takes some 30 ms; from
        # those of scores it takes minutes.
        level = self._level or DEFAULT_LEVEL
        task = self._settings.evaluator.task
        first, *others = view.models
        values: dict[str, dict[str, float | None]] = {}
        differences = []
        for name in self._names(view[first]):
            found = {model: float(view[model][name]) for model in view.models}
            values[name] = {model: finite(value) for model, value in found.items()}
            if needs_pairs(metric := find(name, task)) and is_bootstrapped(metric):
                nothing = (None, None, None, None, "", _NOT_COMPARED)
                differences += [
                    ModelDifference(
                        name, model, first, finite(found[model] - found[first]), *nothing
                    )
                    for model in others
                ]
            else:
                differences += map(_difference, view.differences(name, level=level))
        return ModelComparison(
            models=list(view.models),
            as_of="",
            level=level,
            values=values,
            differences=differences,
            slice_metric="",
            slices=[],
            slices_left_out=0,
        )

    def open_slice(
        self,
        data: Snapshot,
        window: str,
        name: str,
        part: OpenedPart,
        metric: str = "",
        model: str = "",
        label: str = "",
    ) -> Snapshot | None:
        """The snapshot with the numbers of a slice or a model, as :class:`OpenSlice`; for any
        thread."""
        # The slice is read from the evaluator itself, with its lock held, so it may be a checkpoint
        # ahead of the snapshot. What was read is kept until the next snapshot.
        keys: list[Any] = [None]
        if name:
            rows: list[tuple[Any, str]] = [
                (tuple(row.slice.items()), row.name) for row in data.slices.get(window, ())
            ]
            keys = [key for key, own in rows if own == name]
            keys = keys or [key for key, _ in rows if plain_slice_name(key) == name]
        if len(keys) != 1:
            return None
        (key,) = keys
        with self._opening:
            if self._opened_of != data.sequence:
                self._opened_of = data.sequence
                self._opened.clear()
            known = window, name, part, metric, model, label
            if known not in self._opened:
                self._opened[known] = self._read(data, window, key, part, metric, model, label)
            found = {**getattr(data, part), window: self._opened[known]}
        return replace(data, **{part: found})

    def _slices_of(self, window: str, model: str) -> list[Slice]:
        """The slices of another model, at most as often as fits into their share of the time."""
        part = self._of_models.get((window, model))
        if part is None:
            part = CachedPart(partial(self._make_slices, window, model))
            self._of_models[window, model] = part
        part.refresh(self._clock, _COMPARED_SHARE / len(self._of_models), 0, force=False)
        return part.value

    def _read(
        self,
        data: Snapshot,
        window: str,
        key: SliceKey | None,
        part: OpenedPart,
        metric: str,
        model: str,
        label: str,
    ) -> Any:
        if part == "slices":
            return self._slices_of(window, model)
        if part == "predictions":
            return self._make_predicted(window, key, model)
        if part == "comparison" and key is not None:
            found = self._compare(self._comparison(window).slices()[key])
            return replace(found, as_of=data.comparison[window].as_of)
        view = self._view(window, key, model)
        if label:
            view = _of_label(view, data.labels, label)
        if part == "reports":
            return self._report(view, key)
        if part == "curves":
            return _curves(view)
        if part == "confusion":
            return _confusion(view, self._level)
        whole = data.series[window]
        level = None if is_resampled(metric, self._settings.evaluator.task) else self._level
        reports = view.pane_reports([metric], {}, intervals=level).values()
        panes = {iso_time(mark.start): {metric: row} for mark, (row,) in reports}
        rows = [panes.get(start, {}) for start in whole.start]
        return replace(whole, **_columns(rows, [metric], [metric]))


def _columns(
    panes: Sequence[Mapping[str, ReportRow]], names: Sequence[str], with_ends: Sequence[str]
) -> dict[str, Any]:
    """The columns of a series; a metric is None in a pane that has no row of it."""
    rows = {name: [pane.get(name) for pane in panes] for name in names}
    ends = {
        name: [(None, None) if row is None else ends_of(row) for row in rows[name]]
        for name in with_ends
    }
    return {
        "support": [max((row.support for row in pane.values()), default=0) for pane in panes],
        "metrics": {
            name: [None if row is None else finite(row.value) for row in column]
            for name, column in rows.items()
        },
        "low": {name: [low for low, _ in column] for name, column in ends.items()},
        "high": {name: [high for _, high in column] for name, column in ends.items()},
    }


def _sources(settings: RunSettings) -> list[SourceInfo]:
    return [
        SourceInfo(table, holds, name)
        for table, source in settings.sources.items()
        for holds, names in source.names().items()
        for name in names
    ]


def _references(settings: RunSettings) -> dict[str, Evaluator]:
    """The states that alerts compare with, by file; those that cannot be read are left out."""
    found = {}
    for path in sorted({one.reference for one in settings.alert if one.reference is not None}):
        with suppress(StateError):  # which the alert names as its reason
            found[path] = open_reference(settings, path)
    return found


def _reference_values(
    reference: Evaluator, key: SliceKey | None, names: Iterable[str]
) -> dict[str, float | None]:
    """The metrics of a reference that it has, of a slice or all events."""
    view = reference.total if key is None else reference.slices().get(key)
    found = {} if view is None else {row.metric: finite(row.value) for row in view.report()}
    return {name: found.get(name) for name in names}


def is_resampled(name: str, task: Task) -> bool:
    """Whether a metric's interval has no formula."""
    return find(name, task).family == "bootstrap"


_DIFFERENCE = ModelDifference.__struct_fields__


def _difference(found: Difference) -> ModelDifference:
    given: dict[str, Any] = {name: getattr(found, name) for name in _DIFFERENCE}
    numbers = {name: finite(value) for name, value in given.items() if type(value) is float}
    return ModelDifference(**{**given, **numbers})


def resampling_seconds(view: View) -> float:
    """How many seconds resampling one interval takes at least; 0 where it is not done."""
    scores = view.distinct_scores
    return _RESAMPLED_SECONDS * scores if scores <= MOST_RESAMPLED else 0.0


def _of_label(view: View, labels: Iterable[Label], text: str) -> View:
    """One label against all others; the view itself where it has no such label."""
    found: list[Any] = [label for label in labels if str(label) == text]
    with suppress(InputError, MetricError):
        return view.one_vs_rest(found[0]) if found else view
    return view


def _rows(view: View, names: Sequence[str], level: float | None) -> Sequence[ReportRow]:
    if not names:
        return ()
    try:
        return view.report(names, intervals=level).rows
    except MetricError:  # this slice has fewer states than the total
        return [row for row in view.report(intervals=level) if row.metric in names]


def _curves(view: View) -> dict[str, Curve]:
    curves = {}
    for name in EVERY_SERVED_CURVE:
        with suppress(MetricError):
            found = _thinned(view.curve(name)).to_dict()
            curves[name] = Curve(found.pop("curve"), found.pop("reason") or "", found)
    return curves


def _thinned(curve: Any) -> Any:
    """The curve with at most 500 points: both ends, and others evenly between."""
    columns = curve.columns()
    length = max(map(len, columns.values()))
    if length <= PredictionHistogram.MOST:
        return curve
    kept = np.unique(np.linspace(0, length - 1, PredictionHistogram.MOST).astype(np.int64))
    # Precision and recall have a last point more than there are thresholds.
    thin = {name: column[kept[kept < len(column)]] for name, column in columns.items()}
    return dataclasses.replace(curve, **thin)


def _confusion(view: View, level: float | None) -> Confusion:
    try:
        counts = view.confusion
    except MetricError:
        return _per_label(view, level)
    parts = counts.per_class()
    rows = list(map(ClassRow, parts.labels, parts.true, parts.predicted, parts.correct))
    classes = sorted(rows, key=lambda row: -(row.true + row.predicted))
    largest = {row.label for row in classes[:_CLASSES]}
    labels = [label for label in parts.labels if label in largest]
    matrix = counts.to_array(labels).tolist()
    return Confusion([*labels], matrix, len(rows) - len(labels), classes)


def _per_label(view: View, level: float | None) -> Confusion:
    """The labels of sets of labels, the largest with their metrics; none of another task."""
    try:
        parts = view.label_counts.per_class()
    except MetricError:
        return Confusion([], [], 0, [])
    rows = list(map(ClassRow, parts.labels, parts.true, parts.predicted, parts.correct))
    rows.sort(key=lambda row: -(row.true + row.predicted))
    for n, row in enumerate(rows[:_LABELS]):
        label: Any = row.label
        one = view.one_vs_rest(label)
        found = [*_rows(one, _OF_LABEL, level), *_rows(one, _OF_ITS_SCORES, None)]
        values = {metric.metric: Value.of(metric) for metric in found}
        rows[n] = replace(row, metrics=values)
    return Confusion([], [], 0, rows)
