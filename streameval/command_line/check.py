"""``streameval run --check``: what a configuration comes to."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping

from streameval.event_time import duration_text
from streameval.stream.config.evaluators import main_metrics, window_spec_of
from streameval.stream.config.load import resolved
from streameval.stream.config.secrets import check_store, resolved_secrets
from streameval.stream.config.settings import RunSettings, WindowSettings
from streameval.stream.evolution import evolution_of
from streameval.stream.store import read_store
from streameval.windows import Fading, Panes

__all__ = ["check_text", "window_text"]


def check_text(
    settings: RunSettings,
    environment: Mapping[str, str] = os.environ,
    dropped: Collection[str] = (),
) -> str:
    """The settings with defaults filled in and secrets hidden, and what follows from them.

    What follows is in comments, so that the text is a configuration again. That includes
    what would become of an old store, which is only read.

    Raises:
        ConfigError: A secret is not to be had here, the store's directory is not there, or the
            store cannot go on under these settings.
        StoreError: The store cannot be read.

    >>> print(check_text(RunSettings()).splitlines()[1])
    # window all: every event
    """
    check_store(settings.store)
    resolved_secrets(settings, environment)
    lines = ["# This can be run. Defaults are filled in, secrets are hidden."]
    lines += [f"# window {w.name}: {window_text(settings, w)}" for w in settings.window]
    lines.append(f"# slices are shown with: {', '.join(main_metrics(settings))}")
    if os.path.exists(settings.store):
        lines += [f"# store {settings.store}: {line}" for line in _changes(settings, dropped)]
    return "\n".join([*lines, "", resolved(settings)])


def _changes(settings: RunSettings, dropped: Collection[str]) -> list[str]:
    """What a run would make of its store."""
    store = read_store(settings.store)
    try:
        with store.reading() as connection:
            now = time.time_ns() // 1_000
            found = evolution_of(store.path, connection, settings, now)
    finally:
        store.close()
    return found.lines + [
        f"{text} would be dropped" + ("" if name in dropped else f"; needs --drop {name}")
        for name, text in found.drops.items()
    ]


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
