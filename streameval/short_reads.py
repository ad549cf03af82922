"""The shortest way from a window to a metric, for who reads it after every event."""

from __future__ import annotations

import functools
from collections.abc import Callable

from streameval.lock import held
from streameval.metrics.compiled import compiled_reader
from streameval.metrics.registry import find
from streameval.view import Question
from streameval.windows.cumulative import CumulativeWindow
from streameval.windows.last import LastWindow
from streameval.windows.window import Window

__all__ = ["short_read"]


def short_read(name: str, question: Question, window: Window) -> Callable[[], float] | None:
    """A metric of a window as a function of nothing, or None where there is no short way.

    It is as current as the window. Where it returns nan, :class:`~streameval.view.View`
    has to be asked: for the reason, or because the way has ended there.

    Args:
        name: A metric that a view of this window has answered with a number.
        question: How the view answers.
        window: The events.
    """
    read = _read(name, question, window)
    return None if read is None else held(question.lock, read)


def _read(name: str, question: Question, window: Window) -> Callable[[], float] | None:
    """The same without the lock."""
    metric = find(name, question.plan.task)
    if metric.also or metric.state not in ("confusion", "index"):
        return None
    function = metric.bind(positive=question.positive, undefined=question.undefined)
    if isinstance(window, CumulativeWindow):
        # Its tally and the tally's two states stay the same objects for good.
        state = getattr(window.current(), metric.state)
        read = compiled_reader(metric.name, state) if question.undefined is None else None
        return read or functools.partial(function, state)
    if isinstance(window, LastWindow):
        # Its tally needs no call to be up to date.
        last = window
        if metric.state == "confusion":
            return lambda: function(last.tally.confusion)
        return lambda: function(last.tally.index)
    # Other windows make new states of the same kind as events come and go.
    current = window.current
    if metric.state == "confusion":
        return lambda: function(current().confusion)
    return lambda: function(current().index)
