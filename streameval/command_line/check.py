"""``streameval run --check``: what a configuration comes to."""

from __future__ import annotations

import os
from collections.abc import Mapping

from streameval.event_time import duration_text
from streameval.stream.config import main_metrics, resolved, window_spec_of
from streameval.stream.outside import check_store, resolved_secrets
from streameval.stream.settings import RunSettings, WindowSettings
from streameval.windows import Fading, Panes

__all__ = ["check_text", "window_text"]


def check_text(settings: RunSettings, environment: Mapping[str, str] = os.environ) -> str:
    """The settings with defaults filled in and secrets hidden, and what follows from them.

    What follows is in comments, so that the text is a configuration again.

    Raises:
        ConfigError: A secret is not to be had here, or the store's directory is not there.

    >>> print(check_text(RunSettings()).splitlines()[1])
    # window all: every event
    """
    check_store(settings.store)
    resolved_secrets(settings, environment)
    lines = ["# This can be run. Defaults are filled in, secrets are hidden."]
    lines += [f"# window {w.name}: {window_text(settings, w)}" for w in settings.window]
    lines.append(f"# slices are shown with: {', '.join(main_metrics(settings))}")
    return "\n".join([*lines, "", resolved(settings)])


def window_text(settings: RunSettings, window: WindowSettings) -> str:
    """A window in a few words.

    >>> window_text(RunSettings(), WindowSettings(name="hour", length="1h", pane="5m"))
    'the last 1h in panes of 5m, each taking events until 1h after its end'
    """
    spec = window_spec_of(window, settings.join)
    if isinstance(spec, Panes):
        return (
            f"the last {duration_text(spec.length_us)} in panes of {duration_text(spec.pane_us)}, "
            f"each taking events until {duration_text(spec.lateness_us)} after its end"
        )
    if isinstance(spec, Fading):
        return f"every event, weighing half after {window.half_life}"
    return "every event"
