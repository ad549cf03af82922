"""The evaluators of a run, one for each window, and what counts rest on."""

from __future__ import annotations

from typing import Any

import msgspec

from streameval.errors import ConfigError, StreamevalError
from streameval.evaluator import Evaluator
from streameval.stream.config_objects import evaluator_of, kept_metrics, window_spec_of
from streameval.stream.settings import RunSettings, WindowSettings

__all__ = ["fingerprint", "open_evaluators", "window_kind", "window_spec_text"]


def open_evaluators(settings: RunSettings) -> dict[str, Evaluator]:
    """An empty evaluator for each window, by the window's name, in their order.

    Raises:
        ConfigError: A key has a value that no evaluator takes.
    """
    try:
        return {window.name: evaluator_of(settings, window) for window in settings.window}
    except StreamevalError as error:
        raise ConfigError(f"evaluator: {error}") from None


def window_kind(window: WindowSettings) -> str:
    """``cumulative``, ``panes`` or ``fading``."""
    if window.length is not None:
        return "panes"
    return "cumulative" if window.half_life is None else "fading"


def window_spec_text(window: WindowSettings) -> str:
    """The window in words.

    >>> window_spec_text(WindowSettings(name="hour", length="1h", pane="5m"))
    '1h in panes of 5m'
    """
    if window.length is not None:
        return window.length + (f" in panes of {window.pane}" if window.pane else "")
    return "all events" if window.half_life is None else f"half-life {window.half_life}"


def fingerprint(settings: RunSettings) -> dict[str, str]:
    """Key -> value, as JSON, of all that the counts in a store rest on.

    >>> fingerprint(RunSettings())["evaluator.threshold"]
    '0.5'
    """
    given = settings.evaluator
    values: dict[str, Any] = {
        "evaluator.task": given.task,
        "evaluator.labels": given.labels,
        # With those of alerts: what is kept decides, not what is shown.
        "evaluator.metrics": kept_metrics(settings),
        "evaluator.bins": given.bins,
        "evaluator.slices": given.slices,
        "evaluator.max_slices": given.max_slices,
    }
    if given.task == "binary":
        values["evaluator.positive"] = given.positive
        values["evaluator.threshold"] = given.threshold
    windows = {
        window.name: window_spec_of(window, settings.join).to_options()
        for window in settings.window
    }
    values["window"] = windows
    fields = settings.fields
    values |= {
        "join": settings.join is not None,
        # Where a field is may change; whether there is one decides what is counted.
        "fields.y_pred": fields.y_pred is not None,
        "fields.scores": "proba" if fields.proba else "score" if fields.score else None,
        "fields.weight": fields.weight is not None,
    }
    return {
        key: msgspec.json.encode(value, order="sorted").decode() for key, value in values.items()
    }
