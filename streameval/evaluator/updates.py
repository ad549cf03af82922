"""The calls of an evaluator that are made with each event; compiled code takes what it can."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from streameval.errors import InputError
from streameval.evaluator.slices import SlicedWindows, unit_column, unit_value
from streameval.evaluator.spellings import explains_keywords, raise_unknown_keyword
from streameval.evaluator.view import View, ViewContext, compiled_interval, locked
from streameval.events.event import EventFields
from streameval.events.values import check_same_length
from streameval.metrics.names import MetricName
from streameval.states.backend import compiled
from streameval.states.lock import Lock
from streameval.states.state_set import StateSet
from streameval.tasks.input import Input
from streameval.uncertainty.interval import Interval
from streameval.windows.replicated import unit_keys

_MOST_READERS = 1_000
"""Readers of values and intervals that are kept: far more than there are metrics."""


class CheckedCalls:
    """The calls in Python, which take any values; compiled code knows them as ``_…_checked``."""

    __slots__ = ()

    _context: ViewContext
    _input: Input
    _lock: Lock
    _readers: dict[Any, Callable[[], Any]]
    """By a metric's name what reads it, the lock being held; on the fast path, by name, level and
    method, also what reads an interval."""
    _replicated: bool
    _scores_only: bool
    _score_missing: Callable[[], InputError]
    _state_set: StateSet | None
    """The states of all events, where every event is counted in these and nowhere else."""
    _total: View
    _update: Callable[..., None] | None
    """Counts an event in these states."""
    _windows: SlicedWindows

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
        unit: object = None,
    ) -> Self:
        """Count one event.

        Args:
            y_true: The true label; multi-label: a set or list of labels, a mapping from labels to
                0 or 1, or a row of indicators in the order of ``labels=``; regression: the number.
            y_pred: The predicted label, labels or number; by default, derived from the score and
                the threshold, or the most probable label.
            score: Binary: the positive class's score, any finite number; multi-class with
                ``probabilities=False``, and multi-label: a mapping label -> any finite number.
            proba: Binary: the positive class's probability, or a mapping
                label -> probability; multi-class: a mapping.
            weight: A number of 0 or more; whole ones keep everything exact. An event of weight
                0 is validated as any other, and changes nothing.
            event_time: When it happened: a datetime with its zone, ISO 8601
                with an offset, or a number in the declared ``time_unit``;
                needed (and looked at) only by windows of event time.
            slices: A mapping with the value of each key of ``slices``. Where
                a key is absent or its value is None or NaN, the event counts
                in the total and in the slice ``(missing)``.
            unit: With ``bootstrap=``, and then with each event: the value of its unit. As those
                of slices, ``7``, ``"7"`` and ``7.0`` are one.

        Returns:
            The evaluator itself, so that calls can be chained.

        Raises:
            InputError: A bad value; nothing was counted.
        """
        with self._lock:
            if self._scores_only and score is None and proba is None:
                raise self._score_missing()
            given, update = self._input, self._update
            event = given.event(y_true, y_pred, score, proba, weight)
            try:
                if update is not None and unit is None and event[3]:
                    update(*event)
                else:
                    self._windows.add(self._of_unit(event, unit), event_time, slices)
            except InputError:
                given.roll_back()
                raise
            if given.staged:
                if event[3]:
                    given.commit()
                else:
                    given.roll_back()
        return self

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
        unit: object = None,
    ) -> Self:
        """Count many events: the same bits as one by one, a hundred times faster.

        Columns are lists, numpy arrays, pandas or polars series, Arrow arrays, or arrays of
        torch, jax and others (read by DLPack or ``__array__``), of one length. A binary
        ``proba`` may have two columns, negative and positive, as ``predict_proba`` gives
        them where the labels are in that order. A multi-class ``proba`` is a data frame (pandas,
        polars or Arrow) or a mapping, whose columns are taken by the label
        that names them, in any order; a list of mappings; or, with
        ``labels=``, a two-dimensional array with columns in that order. Where
        declared labels are numbers, the text of one (``"0"``) names it too.

        Multi-label ``y_true`` and ``y_pred`` are sequences of what :meth:`update` takes, list
        columns, data frames or mappings with a column of indicators for each label, or, with
        ``labels=``, two-dimensional arrays and sparse matrices of indicators; ``score`` and
        ``proba`` have the forms of a multi-class ``proba``, and may be sparse.

        Returns:
            The evaluator itself, so that calls can be chained.

        Raises:
            InputError: A bad value, with its position; nothing was counted.
        """
        batch = self._input.batch(y_true, y_pred, score, proba, weight)
        try:
            if len(batch):
                if self._scores_only and batch.score is None:
                    raise self._score_missing()
                if self._takes_unit(unit):
                    column = unit_column(unit_value(None) if unit is None else unit)
                    check_same_length(len(batch), len(column.codes), "unit")
                    batch = replace(batch, unit=unit_keys(column.labels)[column.codes])
                if self._state_set is not None:
                    rows = batch.weighing()
                    self._state_set.update_many(batch if rows is None else batch.take(rows))
                else:
                    self._windows.add_many(batch, event_time, slices)
        except InputError:
            self._input.roll_back()
            raise
        self._input.commit()
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
        unit: object = None,
    ) -> None:
        """Undo exactly one earlier event, given as :meth:`update` was.

        In a window of the last n events it must still be inside; in one of
        event time it is looked for in its own pane or half-life. The watermark
        and :attr:`arrivals` are not changed.

        Raises:
            InputError: No such event was counted, or its weight is not
                whole; nothing was changed.
        """
        event = self._input.event(y_true, y_pred, score, proba, weight)
        self._input.roll_back()
        self._windows.remove(self._of_unit(event, unit), event_time, slices)

    def __getitem__(self, name: MetricName | str) -> float:
        try:
            read = self._readers.get(name)
        except TypeError:  # an unhashable name, which is refused in words
            read = None
        if read is not None:
            with self._lock:
                value: float = read()
            if value == value:
                return value
        return self._value_checked(name)

    def interval(
        self, name: str, *, level: float = 0.95, method: str = "auto", **params: Any
    ) -> Interval:
        """A metric's interval; see :meth:`streameval.evaluator.view.View.interval`.

        >>> from streameval import Evaluator
        >>> ev = Evaluator(task="multiclass")
        >>> _ = ev.update_many(["a", "b", "a", "b"], ["a", "b", "b", "b"])
        >>> print(ev.interval("accuracy"))
        0.75 [0.300642, 0.954413]
        """
        found = self._total.interval(name, level=level, method=method, **params)
        if found.method == "delong" and not params:
            self._cache_interval(name, found.level, method)
        return found

    @locked
    def _value_checked(self, name: str) -> float:
        # The view gives reasons in the user's labels, and refuses what is not kept.
        value = self._total[name]
        if value == value:
            # Read for the first time, or from a state that has been replaced.
            read = self._total.fast_reader(name)
            if read is not None:
                self._readers[name] = read
        return value

    @locked
    def _cache_interval(self, name: str, level: float, method: str) -> None:
        read = compiled_interval(name, level, method, self._windows.total)
        if read is not None:
            if len(self._readers) > _MOST_READERS:
                self._readers.clear()  # of ever other levels
            self._readers[name, level, method] = read

    def _of_unit(self, event: EventFields, unit: object) -> EventFields:
        """The event with its unit, where there are replicates by unit; raises InputError."""
        if not self._takes_unit(unit):
            return event
        key = int(unit_keys([unit_value(unit)])[0])
        return (*event, key)  # type: ignore[return-value]

    def _takes_unit(self, unit: object) -> bool:
        if unit is not None and not self._replicated:
            raise InputError(
                "unit",
                expected="an evaluator with replicates by unit",
                got="one without",
                remedy='requires bootstrap=streameval.Bootstrap(unit="user")',
            )
        return self._replicated

    _update_checked = update
    _update_many_checked = update_many
    _revert_checked = revert
    _interval_checked = interval


class PythonPath(CheckedCalls):
    """Every event is counted in Python."""

    __slots__ = ("_fast", "_readers")

    update_many = explains_keywords(CheckedCalls.update_many)

    _fast: bool
    """Whether compiled code counts events."""

    def _bind(self, *path: Any) -> None:
        """Forget the readers; see ``EvaluatorFastPath`` for the arguments."""
        self._readers = {}
        self._fast = False


_NATIVE: Any = compiled("streameval.states.native.native_fast_path")

if TYPE_CHECKING or _NATIVE is None:
    Updates = PythonPath
else:
    for _name in ("update", "update_many"):
        _NATIVE.explain_keywords(_name, raise_unknown_keyword)
    for _name in ("update", "update_many", "revert", "interval"):
        # Signature and documentation.
        functools.update_wrapper(
            getattr(_NATIVE.EvaluatorFastPath, _name), getattr(CheckedCalls, _name)
        )

    class Updates(_NATIVE.EvaluatorFastPath, CheckedCalls):
        """The fast path, which calls what takes any values for all that it declines."""

        __slots__ = ()
