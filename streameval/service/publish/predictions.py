"""What a run says of predictions before their labels are there: rates, drift, expected metrics.

A pane is *mature* when no label of it is waited for any longer. Drift, expected metrics and the
distribution are of the predictions in the other panes, against a reference: a state file, or the
oldest panes that are mature. The panes that are mature show how the expected metrics have held.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from streameval.errors import InputError, MetricError, StateError
from streameval.evaluator.comparison import Evaluation
from streameval.evaluator.predictions import drift_between, expected_of, shares_between
from streameval.evaluator.slices import SliceKey
from streameval.evaluator.view import View
from streameval.events.time import iso_time
from streameval.service.config.evaluators import (
    main_metrics,
    open_predicted_reference,
    predictions_name,
    window_spec_of,
)
from streameval.service.config.settings import PredictedMetric, RunSettings, interval_level
from streameval.service.publish.snapshot import (
    Drift,
    EstimateCheck,
    PredictionReport,
    PredictionSeries,
    ScoreShares,
    Value,
    finite,
)
from streameval.uncertainty.drift import DRIFTS
from streameval.uncertainty.estimate_check import check_estimates
from streameval.uncertainty.interval import DEFAULT_LEVEL, Interval
from streameval.windows.panes import Panes
from streameval.windows.window import PaneMark

log = logging.getLogger(__name__)

_PANES = 200
"""The newest panes that a report has, and that are compared with their estimates."""

_MOST_OF_REFERENCE = 24
"""Most panes of a reference whose settings do not say how many."""

_LABELS = 20
"""The most predicted labels whose shares are shown."""

_RATES = ("positive_rate", "mean_score", "mean_confidence")
"""Metrics of the predictions alone that are shown by pane, in the tasks that have them."""

_OF_PANES = ("ks", "psi", "jensen_shannon", "cramers_v")
"""Measures of drift by pane."""

_T = TypeVar("_T")

_Part: TypeAlias = tuple[str, SliceKey | None, str]
"""A window, a slice or None, and a model."""


class _Reference(NamedTuple):
    """What predictions are compared with."""

    view: View | None
    words: str
    reason: str
    starts: frozenset[int] = frozenset()
    """Its panes, which are not compared with themselves."""


class _OfPane(NamedTuple):
    """What is computed of a pane, which stays while neither it nor the reference changes."""

    of: tuple[object, ...]
    found: Any


@dataclass(slots=True)
class _Time:
    """How long the panes of one report may take, and whether that was enough."""

    # Not of the reports: another thread may open a slice meanwhile.

    seconds: float
    enough: bool = True


class _PaneValues(NamedTuple):
    """Of a pane, how far it is from the reference, and what its metrics are expected to be."""

    drift: Mapping[str, Drift]
    expected: Mapping[str, Interval | str]


class PredictionReports:
    """Computes the report of a window, a slice or a model from the evaluators of a run."""

    # Of a pane, drift and expected metrics take some 50 ms where the reference has 65,536 scores:
    # a report is made within a time, and lacks what is left of the oldest panes until later.

    def __init__(
        self,
        settings: RunSettings,
        evaluators: Mapping[str, Evaluation],
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._events = object()
        self._evaluators = evaluators
        self._level = interval_level(settings) or DEFAULT_LEVEL
        watched = [PredictedMetric.of(alert.metric) for alert in settings.alert]
        names = [one.name for one in watched if one is not None and one.kind == "expected"]
        self._expected = list(dict.fromkeys([*main_metrics(settings), *names]))
        specs = {window.name: window_spec_of(window, settings.join) for window in settings.window}
        self._panes = {
            name: settings.reference.panes or min(_MOST_OF_REFERENCE, -(-spec.panes // 3))
            for name, spec in specs.items()
            if isinstance(spec, Panes)
        }
        """From each window of panes to how many of them are the reference."""
        self._file = self._opened(settings.reference.state)
        self._references: dict[_Part, tuple[tuple[object, ...], View]] = {}
        self._of_panes: dict[tuple[Any, ...], dict[int, _OfPane]] = {}
        self.labelled_until: int | None = None
        """The end of the newest pane that is mature, in microseconds; None: there is none yet."""

    def _opened(self, path: str | None) -> Evaluation | str | None:
        """The reference of the settings, or why it cannot be read."""
        if path is None:
            return None
        try:
            return open_predicted_reference(self._settings, path)
        except StateError as error:
            log.error("predictions cannot be compared with the reference: %s", error)
            return str(error)

    def changed(self) -> None:
        """Note that events were counted: panes that still fill are others now."""
        self._events = object()

    def make(
        self,
        window: str,
        key: SliceKey | None = None,
        model: str = "",
        *,
        since: int | None,
        seconds: float,
    ) -> tuple[PredictionReport, bool]:
        """The report of the predictions of a window; of a slice, and of a model, if given.

        Panes are compared for so many seconds; also returns whether all were.
        """
        time = _Time(seconds / 2)  # half of it each for series and checks
        models = self._settings.evaluator.models or [""]
        part = window, key, model or models[0]
        counted = self._evaluators[predictions_name(window, part[2])]
        view = _view_of(counted, key, part[2])
        if view is None:
            counted = counted.emptied()
            view = _view_of(counted, None, part[2])
            assert view is not None
        marks = view.marks[-_PANES:] if window in self._panes else []
        waiting = [mark for mark in marks if self._is_immature(mark)]
        now = view.of_panes(mark.start for mark in waiting) if window in self._panes else view
        reference = self._reference(part)
        metrics = {row.metric: Value.of(row) for row in now.report(intervals=self._level)}
        report = PredictionReport(
            since=None if since is None else iso_time(since),
            events=view.support,
            start=iso_time(waiting[0].start) if waiting else None,
            end=iso_time(waiting[-1].end) if waiting else None,
            unlabelled=now.support,
            metrics={name: value for name, value in metrics.items() if name != "support"},
            reference=reference.words,
            reference_reason=reference.reason,
            drift=_drift(now, reference.view),
            expected={
                name: _value(found) for name, found in self._expectation(now, reference).items()
            },
            checks=self._checks(part, reference, time),
            scores=_shares(now, reference.view),
            series=(
                self._series(part, view, marks, reference, time) if window in self._panes else None
            ),
        )
        return report, time.enough

    def sides(
        self, window: str, key: SliceKey | None = None
    ) -> tuple[View | None, View | None, str]:
        """The unlabelled predictions of a window or slice, and the reference or why there is none.

        Of several models they are of the first one.
        """
        model = (self._settings.evaluator.models or [""])[0]
        view = _view_of(self._evaluators[predictions_name(window, model)], key, model)
        reference = self._reference((window, key, model))
        if view is not None and window in self._panes:
            waiting = [mark.start for mark in view.marks[-_PANES:] if self._is_immature(mark)]
            view = view.of_panes(waiting)
        return view, reference.view, reference.reason

    def _is_immature(self, mark: PaneMark) -> bool:
        return self.labelled_until is None or mark.end > self.labelled_until

    def _reference(self, part: _Part) -> _Reference:
        window, key, model = part
        path = self._settings.reference.state
        if isinstance(self._file, str):
            return _Reference(None, "", self._file)
        if self._file is not None:
            view = _view_of(self._file, key, model)
            if view is None:
                return _Reference(None, "", f"{path} has no event of this slice")
            return _Reference(view, str(path), "")
        if window not in self._panes:
            reason = "a window without panes is compared with a file: set state under [reference]"
            return _Reference(None, "", reason)
        labelled = _view_of(self._evaluators[window], key, model)
        wanted = self._panes[window]
        marks = [] if labelled is None else labelled.marks
        mature = [mark for mark in marks if not self._is_immature(mark)][:wanted]
        if labelled is None or len(mature) < wanted:
            reason = f"{len(mature)} of the {wanted} panes of [reference] have all their labels"
            return _Reference(None, "", reason)
        starts = frozenset(mark.start for mark in mature)
        words = f"panes from {iso_time(mature[0].start)} to {iso_time(mature[-1].end)}"
        # A pane whose label is corrected is no longer the same.
        now = tuple(mark.frozen for mark in mature)
        known = self._references.get(part)
        if known is None or None in now or not _same(known[0], now):
            known = self._references[part] = now, labelled.of_panes(sorted(starts))
        return _Reference(known[1], words, "", starts)

    def _expectation(self, now: View, reference: _Reference) -> dict[str, Interval | str]:
        """The expected metrics, and the reason of one that lacks labelled events."""
        found: dict[str, Interval | str] = {}
        for name in self._expected if reference.view is not None else ():
            try:
                found[name] = expected_of(now, reference.view, name, level=self._level)  # type: ignore[arg-type]
            except MetricError:  # it has no expectation
                continue
            except InputError as error:
                found[name] = str(error)
        return found

    def _series(
        self,
        part: _Part,
        view: View,
        marks: Sequence[PaneMark],
        reference: _Reference,
        time: _Time,
    ) -> PredictionSeries:
        def of(mark: PaneMark) -> _PaneValues:
            pane = view.of_panes([mark.start])
            drift = _drift(pane, reference.view, _OF_PANES)
            return _PaneValues(drift, self._expectation(pane, reference))

        compared = [mark for mark in marks if mark.start not in reference.starts]
        found = self._each(("series", *part), compared, reference, time, of)
        rows = [found.get(mark.start, _PaneValues({}, {})) for mark in marks]
        given = {row.metric for row in view.report()}
        names = [name for name in _RATES if name in given]
        reports = view.pane_reports(["support", *names], {})
        values = [[row.value for row in reports[mark.start][1]] for mark in marks]
        measures = dict.fromkeys(name for row in rows for name in row.drift)
        ends = {
            name: [_value(row.expected.get(name, "")) for row in rows]
            for name in dict.fromkeys(name for row in rows for name in row.expected)
        }
        return PredictionSeries(
            start=[iso_time(mark.start) for mark in marks],
            end=[iso_time(mark.end) for mark in marks],
            immature=[self._is_immature(mark) for mark in marks],
            events=[row[0] for row in values],
            metrics={name: [finite(row[n]) for row in values] for n, name in enumerate(names, 1)},
            drift={
                name: [row.drift[name].value if name in row.drift else None for row in rows]
                for name in measures
            },
            expected={name: [one.value for one in of_name] for name, of_name in ends.items()},
            low={name: [one.low for one in of_name] for name, of_name in ends.items()},
            high={name: [one.high for one in of_name] for name, of_name in ends.items()},
        )

    def _checks(self, part: _Part, reference: _Reference, time: _Time) -> dict[str, EstimateCheck]:
        """How the estimates have held in the mature panes, from the scores of labelled events."""
        window, key, model = part
        labelled = _view_of(self._evaluators[window], key, model)
        if reference.view is None or labelled is None or window not in self._panes:
            return {}

        def of(mark: PaneMark) -> dict[str, tuple[Interval, float]]:
            pane = labelled.of_panes([mark.start])
            return {
                name: (found, float(pane.value(name)))
                for name, found in self._expectation(pane, reference).items()
                if isinstance(found, Interval)
            }

        mature = [
            mark
            for mark in labelled.marks[-_PANES:]
            if not self._is_immature(mark) and mark.start not in reference.starts
        ]
        found = self._each(("check", *part), mature, reference, time, of)
        checks = {}
        for name in dict.fromkeys(name for row in found.values() for name in row):
            both = [row[name] for row in found.values() if name in row]
            one = check_estimates(
                [pair[0] for pair in both],
                [pair[1] for pair in both],
                float(reference.view.support),
            )
            checks[name] = EstimateCheck(
                one.panes, one.held, finite(one.error), one.flagged, one.reason
            )
        return checks

    def _each(
        self,
        kind: tuple[str, str, SliceKey | None, str],
        marks: Sequence[PaneMark],
        reference: _Reference,
        time: _Time,
        make: Callable[[PaneMark], _T],
    ) -> dict[int, _T]:
        """A value of each pane by its start, the newest first while there is time.

        What was computed before stays while neither the pane nor the reference changes, and of a
        pane that still fills until there is time again.
        """
        deadline = self._clock() + time.seconds
        known: dict[int, _OfPane] = self._of_panes.get(kind, {})
        kept: dict[int, _OfPane] = {}
        anew: dict[int, _OfPane] = {}
        # Panes without a value are first, then those whose value is the oldest: panes that still
        # fill would take all of the time in each report.
        age = {start: n for n, start in enumerate(known)}
        for mark in sorted(marks, key=lambda mark: (age.get(mark.start, -1), -mark.start)):
            of = mark.frozen or self._events, reference.view
            one = known.get(mark.start)
            if one is not None and _same(one.of, of):
                kept[mark.start] = one
            elif self._clock() <= deadline:
                anew[mark.start] = _OfPane(of, make(mark))
            else:
                time.enough = False
                if one is not None and one.of[1] is reference.view:
                    kept[mark.start] = one
        kept |= anew
        if kind[2] is None:  # slices are opened seldom
            self._of_panes[kind] = kept
        return {mark.start: kept[mark.start].found for mark in marks if mark.start in kept}


def _view_of(evaluation: Evaluation, key: SliceKey | None, model: str) -> View | None:
    """All events or a slice; of several models those of one."""
    found = evaluation.total if key is None else evaluation.slices().get(key)
    return found if found is None or isinstance(found, View) else found[model]


def _same(one: Iterable[object], other: Iterable[object]) -> bool:
    """Whether the same objects are in both, in their order."""
    return list(map(id, one)) == list(map(id, other))


def _shares(now: View, reference: View | None) -> ScoreShares:
    """The shares in bins of the score; of several classes, or without scores, of the labels."""
    found = None
    # The last one where no label of both is the same.
    for other, measure in ((reference, "ks"), (reference, "cramers_v"), (None, "cramers_v")):
        with suppress(MetricError):
            found = shares_between(now, now if other is None else other, measure)
            break
    assert found is not None
    sides = [np.nan_to_num(side) for side in (found.now, found.reference)]
    if other is None:
        sides[1] = sides[1][:0]
    if measure == "ks":
        edges, labels = list(map(float, found.places)), []
    else:
        order = np.argsort(-sides[0], kind="stable")[:_LABELS]
        edges, labels = [], [found.places[n] for n in order]
        sides = [side[order] if len(side) else side for side in sides]
    return ScoreShares(edges, labels, *(side.tolist() for side in sides))


def _drift(now: View, reference: View | None, names: Iterable[str] = DRIFTS) -> dict[str, Drift]:
    """The measures that both sides keep what they need of."""
    found = {}
    for name in names if reference is not None else ():
        with suppress(MetricError):
            one = drift_between(now, reference, name)  # type: ignore[arg-type]
            found[name] = Drift(finite(one.value), finite(one.p_value), one.reason)
    return found


def _value(found: Interval | str) -> Value:
    """An expected metric as it is published."""
    if isinstance(found, str):
        return Value(None, 0, found)
    n = float(found.n)
    support = 0 if math.isnan(n) else int(n) if n.is_integer() else n
    ends = finite(found.low), finite(found.high)
    return Value(finite(found.value), support, found.reason, *ends, found.method)
