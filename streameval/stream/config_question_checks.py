"""What the configuration asks: evaluator, metrics, windows and alerts."""

from __future__ import annotations

import math

from streameval.errors import InputError, MetricError, shown
from streameval.metrics.registry import find
from streameval.stream.config_faults import Places, near
from streameval.stream.config_objects import (
    evaluator_of,
    has_scores,
    needs_scores,
    slice_fields,
    window_spec_of,
)
from streameval.stream.settings import (
    LABEL_COVERAGE,
    AlertSettings,
    RunSettings,
    WindowSettings,
)

__all__ = ["check_alerts", "check_evaluator", "check_windows"]

_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def check_evaluator(settings: RunSettings, places: Places) -> None:
    """Raise ConfigError for metrics or an evaluator that cannot be."""
    chosen = settings.evaluator
    if chosen.task == "binary" and isinstance(chosen.positive, str) and chosen.labels is None:
        raise places.error(
            "evaluator.labels",
            expected=f"both labels, as the positive one is the text {shown(chosen.positive)}",
            got="nothing",
            remedy="the first other label that comes would else decide what the negative one is",
        )
    for n, name in enumerate(chosen.metrics or []):
        _check_metric(settings, places, f"evaluator.metrics[{n}]", name)
    if chosen.metrics is not None and not chosen.metrics:
        raise places.error("evaluator.metrics", expected="names of metrics", got="an empty list")
    try:
        evaluator_of(settings, WindowSettings(name="all"))
    except InputError as error:
        key = error.field if error.position is None else f"{error.field}[{error.position}]"
        raise places.error(f"evaluator.{key}", expected=error.expected, got=error.got) from None


def _check_metric(settings: RunSettings, places: Places, key: str, name: str) -> None:
    task = settings.evaluator.task
    expected = f"a metric of a {task} task"
    try:
        row = find(name, task)
    except MetricError as error:
        raise places.error(key, expected=expected, got=shown(name), remedy=str(error)) from None
    if "succession" in row.states:
        remedy = "it is about the order of events, which partitions do not keep"
        raise places.error(key, expected="a metric of counts", got=shown(name), remedy=remedy)
    if needs_scores(name, task) and not has_scores(settings.fields):
        wanted = "fields.score or fields.proba" if task == "binary" else "fields.proba"
        raise places.requires(key, wanted, remedy=f"{shown(name)} is computed from scores")


def check_windows(settings: RunSettings, places: Places) -> None:
    """Raise ConfigError for no window, or one that cannot be."""
    if not settings.window:
        raise places.error("window", expected="at least one [[window]]", got="none")
    seen: set[str] = set()
    for n, window in enumerate(settings.window):
        key = f"window[{n}]"
        _check_name(places, f"{key}.name", window.name, seen, "window")
        if window.length is not None and window.half_life is not None:
            raise places.conflicts(f"{key}.half_life", f"{key}.length", remedy="give one of them")
        if window.length is None:
            for name in ("pane", "lateness", "retain"):
                if getattr(window, name) is not None:
                    raise places.requires(f"{key}.{name}", f"{key}.length")
        try:
            window_spec_of(window, settings.join)
        except InputError as error:
            name = error.field.partition("(")[2].rstrip(")")
            remedy = ""
            if name == "retain" and window.lateness is None:
                remedy = "or set the window's lateness; unless given, it is "
                remedy += "its length" if settings.join is None else "join.wait"
            raise places.error(
                f"{key}.{name}", expected=error.expected, got=error.got, remedy=remedy
            ) from None


def _check_name(places: Places, key: str, name: str, seen: set[str], kind: str) -> None:
    if not 1 <= len(name) <= 64 or not _NAME_LETTERS.issuperset(name):
        raise places.error(key, expected="1 to 64 letters, digits, - _ or .", got=shown(name))
    if name in seen:
        raise places.error(key, expected=f"a name for each {kind}", got=f"{shown(name)} twice")
    seen.add(name)


def check_alerts(settings: RunSettings, places: Places) -> None:
    """Raise ConfigError for an alert on what there is not."""
    seen: set[str] = set()
    for n, alert in enumerate(settings.alert):
        key = f"alert[{n}]"
        _check_name(places, f"{key}.name", alert.name, seen, "alert")
        if alert.metric == LABEL_COVERAGE:
            _check_coverage(settings, places, key, alert)
        else:
            _check_metric(settings, places, f"{key}.metric", alert.metric)
        if (alert.below is None) == (alert.above is None):
            got = "neither" if alert.below is None else "both"
            raise places.error(key, expected="below or above", got=got)
        for name in ("below", "above"):
            bound = getattr(alert, name)
            if bound is not None and not math.isfinite(bound):
                raise places.error(f"{key}.{name}", expected="a finite number", got=str(bound))
        windows = [window.name for window in settings.window]
        if alert.window is not None and alert.window not in windows:
            raise places.error(
                f"{key}.window",
                expected=f"one of {', '.join(windows)}",
                got=shown(alert.window),
                remedy=near(alert.window, windows),
            )
        _check_alert_slice(settings, places, f"{key}.slice", alert)


def _check_coverage(settings: RunSettings, places: Places, key: str, alert: AlertSettings) -> None:
    if settings.join is None:
        raise places.requires(
            f"{key}.metric", "[join]", remedy="without it every record brings its label"
        )
    for name in ("window", "slice"):
        if getattr(alert, name):
            raise places.conflicts(
                f"{key}.{name}",
                f"{key}.metric = {shown(LABEL_COVERAGE)}, which is of all predictions",
                remedy=f"leave {name} out",
            )


def _check_alert_slice(
    settings: RunSettings, places: Places, key: str, alert: AlertSettings
) -> None:
    kinds = [slice_fields(part) for part in settings.evaluator.slices]
    if alert.slice and not any(set(kind) == set(alert.slice) for kind in kinds):
        listed = ", ".join("+".join(kind) for kind in kinds)
        raise places.error(
            key,
            expected=f"a value for each key of one of evaluator.slices ({listed or 'none'})",
            got=shown(", ".join(alert.slice)),
        )
