"""The evaluators of a run: one for each window of the configuration."""

from __future__ import annotations

from typing import Any

import msgspec

from streameval.errors import ConfigError, InputError, StreamevalError
from streameval.evaluator import Evaluator
from streameval.stream.settings import RunSettings, WindowSettings
from streameval.windows import Fading, Panes
from streameval.windows.window import WindowSpec

__all__ = ["fingerprint", "open_evaluators", "window_kind", "window_spec_text"]


def open_evaluators(settings: RunSettings) -> dict[str, Evaluator]:
    """An empty evaluator for each window, by the window's name, in their order.

    Raises:
        ConfigError: A key has a value that no evaluator takes.
    """
    given = settings.evaluator
    if given.metrics is not None and "kappa_temporal" in given.metrics:
        raise ConfigError(
            "evaluator.metrics: expected metrics that do not depend on the order of events, "
            "got 'kappa_temporal'; partitions have no common order: leave it out"
        )
    options: dict[str, Any] = {
        "task": given.task,
        "labels": given.labels,
        "metrics": given.metrics,
        "bins": given.bins,
        "slices": [name if isinstance(name, str) else tuple(name) for name in given.slices],
        "max_slices": given.max_slices,
        "time_unit": "us",
    }
    if given.task == "binary":
        options["positive"] = given.positive
        options["threshold"] = given.threshold
    opened: dict[str, Evaluator] = {}
    for window in settings.window:
        try:
            opened[window.name] = Evaluator(**options, window=_spec(window, settings))
        except InputError as error:
            raise ConfigError(f"evaluator.{error}") from None
        except ConfigError:
            raise
        except StreamevalError as error:
            raise ConfigError(f"evaluator.metrics: {error}") from None
    return opened


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


def _spec(window: WindowSettings, settings: RunSettings) -> WindowSpec | None:
    try:
        if window.length is not None:
            lateness = window.lateness
            if lateness is None:
                lateness = settings.join.wait if settings.join is not None else "0s"
            return Panes(window.length, window.pane, lateness=lateness, retain=window.retain)
        return None if window.half_life is None else Fading(window.half_life)
    except InputError as error:
        raise ConfigError(f"window {window.name!r}: {error}") from None


def fingerprint(settings: RunSettings) -> dict[str, str]:
    """Key -> value, as JSON, of all that the counts in a store rest on."""
    given = settings.evaluator
    values: dict[str, Any] = {
        "evaluator.task": given.task,
        "evaluator.labels": given.labels,
        "evaluator.metrics": None if given.metrics is None else sorted(set(given.metrics)),
        "evaluator.bins": given.bins,
        "evaluator.slices": given.slices,
        "evaluator.max_slices": given.max_slices,
    }
    if given.task == "binary":
        values["evaluator.positive"] = given.positive
        values["evaluator.threshold"] = given.threshold
    windows = {}
    for window in settings.window:
        spec = _spec(window, settings)
        windows[window.name] = None if spec is None else spec.to_options()
    values["window"] = windows
    return {
        key: msgspec.json.encode(value, order="sorted").decode() for key, value in values.items()
    }
