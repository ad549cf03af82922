"""The calls of an evaluator that are made with each event; compiled code takes what it can."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streameval.metrics.names import MetricName
from streameval.states.backend import compiled
from streameval.states.lock import Lock
from streameval.uncertainty.interval import Interval


class CheckedCalls:
    """The calls, each of which takes any values: an evaluator has the methods ``_…_checked``."""

    __slots__ = ()

    _lock: Lock
    _readers: dict[Any, Callable[[], Any]]
    _update_checked: Callable[..., None]
    _update_many_checked: Callable[..., None]
    _revert_checked: Callable[..., None]
    _interval_checked: Callable[..., Interval]
    _value_checked: Callable[[str], float]

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
    ) -> None:
        """Count one event.

        Args:
            y_true: The true label.
            y_pred: The predicted label; by default, derived from the score and
                the threshold, or the most probable label.
            score: Binary: the positive class's score, any finite number; multi-class with
                ``probabilities=False``: a mapping label -> any finite number.
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

        Raises:
            InputError: A bad value; nothing was counted.
        """
        self._update_checked(
            y_true,
            y_pred,
            score=score,
            proba=proba,
            weight=weight,
            event_time=event_time,
            slices=slices,
            unit=unit,
        )

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
    ) -> None:
        """Count many events: the same bits as one by one, a hundred times faster.

        Columns are lists, numpy arrays, pandas or polars series, Arrow arrays, or arrays of
        torch, jax and others (read by DLPack or ``__array__``), of one length. A binary
        ``proba`` may have two columns, negative and positive, as ``predict_proba`` gives
        them where the labels are in that order. A multi-class ``proba`` is a data frame (pandas,
        polars or Arrow) or a mapping, whose columns are taken by the label
        that names them, in any order; a list of mappings; or, with
        ``labels=``, a two-dimensional array with columns in that order. Where
        declared labels are numbers, the text of one (``"0"``) names it too.

        Raises:
            InputError: A bad value, with its position; nothing was counted.
        """
        self._update_many_checked(
            y_true,
            y_pred,
            score=score,
            proba=proba,
            weight=weight,
            event_time=event_time,
            slices=slices,
            unit=unit,
        )

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
        self._revert_checked(
            y_true,
            y_pred,
            score=score,
            proba=proba,
            weight=weight,
            event_time=event_time,
            slices=slices,
            unit=unit,
        )

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
        >>> ev.update_many(["a", "b", "a", "b"], ["a", "b", "b", "b"])
        >>> print(ev.interval("accuracy"))
        0.75 [0.300642, 0.954413]
        """
        return self._interval_checked(name, level=level, method=method, **params)


class PythonPath(CheckedCalls):
    """Every event is counted in Python.

    Attributes:
        _readers: By the name of a metric, what reads it while the evaluator's lock is held; on
            the fast path, by name, level and method, also what reads an interval.
        _fast: Whether compiled code counts events.
    """

    __slots__ = ("_fast", "_readers")

    _fast: bool
    _readers: dict[Any, Callable[[], Any]]

    def _bind(self, *path: Any) -> None:
        """Forget the readers; see ``EvaluatorFastPath`` for the arguments."""
        self._readers = {}
        self._fast = False


_NATIVE: Any = compiled("streameval.states.native.native_fast_path")

if TYPE_CHECKING or _NATIVE is None:
    Updates = PythonPath
else:
    for _name in ("update", "update_many", "revert", "interval"):
        # Signature and documentation.
        functools.update_wrapper(
            getattr(_NATIVE.EvaluatorFastPath, _name), getattr(CheckedCalls, _name)
        )

    class Updates(_NATIVE.EvaluatorFastPath, CheckedCalls):
        """The fast path, which calls what takes any values for all that it declines."""

        __slots__ = ()
