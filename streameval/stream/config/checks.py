"""Checks of a configuration beyond types: what belongs together, and what exists."""

from __future__ import annotations

import math

from streameval.errors import InputError, MetricError, shown
from streameval.event_time import duration, duration_text
from streameval.files.json_record import split_path
from streameval.metrics.registry import find
from streameval.stream.config.address import parse_address
from streameval.stream.config.errors import ConfigErrors, near
from streameval.stream.config.evaluators import (
    ahead_limit,
    evaluator_of,
    has_scores,
    needs_scores,
    slice_fields,
    window_spec_of,
)
from streameval.stream.config.secrets import is_reference, is_web_address
from streameval.stream.config.settings import (
    LABEL_COVERAGE,
    AlertSettings,
    RunSettings,
    WindowSettings,
)
from streameval.stream.records.fields import record_fields

__all__ = ["check_settings"]

_PATHS = ("id", "y_true", "y_pred", "score", "proba", "weight", "time")
_LABEL_PATHS = ("id", "y_true", "time")
_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def check_settings(settings: RunSettings, errors: ConfigErrors) -> None:
    """Raise ConfigError for the first thing that keeps these settings from being run."""
    for check in (
        _check_paths,
        _check_store,
        _check_durations,
        _check_fields,
        _check_evaluator,
        _check_windows,
        _check_ahead,
        _check_sources,
        _check_join,
        _check_alerts,
        _check_serve,
        _check_webhook,
    ):
        check(settings, errors)


def _check_paths(settings: RunSettings, errors: ConfigErrors) -> None:
    fields = settings.fields
    paths = {f"fields.{name}": getattr(fields, name) for name in _PATHS}
    paths |= {f"fields.label.{name}": getattr(fields.label, name) for name in _LABEL_PATHS}
    paths |= {f"fields.slices.{name}": path for name, path in fields.slices.items()}
    for key, path in paths.items():
        try:
            if path is not None:
                split_path(path)
        except InputError as error:
            raise errors.error(key, expected=error.expected, got=shown(path)) from None


def _check_store(settings: RunSettings, errors: ConfigErrors) -> None:
    if not settings.store:
        raise errors.error("store", expected="the path of a file", got="an empty text")


def _check_durations(settings: RunSettings, errors: ConfigErrors) -> None:
    texts: list[tuple[str, str | None, bool]] = [
        ("checkpoint.every", settings.checkpoint.every, False),
        ("serve.ready_checkpoint_age", settings.serve.ready_checkpoint_age, False),
        ("fields.ahead", settings.fields.ahead, True),
    ]
    if settings.join is not None:
        texts += [("join.wait", settings.join.wait, False)]
        texts += [("join.remember", settings.join.remember, True)]
    if settings.webhook is not None:
        texts.append(("webhook.timeout", settings.webhook.timeout, False))
    for n, window in enumerate(settings.window):
        texts += [
            (f"window[{n}].length", window.length, False),
            (f"window[{n}].pane", window.pane, False),
            (f"window[{n}].lateness", window.lateness, True),
            (f"window[{n}].retain", window.retain, False),
            (f"window[{n}].half_life", window.half_life, False),
        ]
    texts += [(f"alert[{n}].for", alert.for_, True) for n, alert in enumerate(settings.alert)]
    for key, text, zero in texts:
        if text is None:
            continue
        try:
            duration(text, key, zero=zero)
        except InputError as error:
            expected = "a duration such as 90s, 5m, 1h or 7d"
            raise errors.error(key, expected=expected, got=error.got) from None


def _check_fields(settings: RunSettings, errors: ConfigErrors) -> None:
    """Raise ConfigError for fields that do not make a record of this run."""
    fields, task = settings.fields, settings.evaluator.task
    if fields.y_pred is None and not has_scores(fields):
        raise errors.error(
            "fields",
            expected="score, y_pred or proba: where a record has its prediction",
            got="none of them",
            remedy='add score = "score" under [fields]',
        )
    if fields.score is not None and fields.proba is not None:
        raise errors.conflicts("fields.proba", "fields.score", remedy="give one of them")
    if fields.score is not None and task == "multiclass":
        raise errors.error(
            "fields.score",
            expected="y_pred or proba in a multi-class run",
            got="score",
            remedy='or set evaluator.task = "binary"',
        )
    if fields.y_true is None and (settings.join is None or fields.label.y_true is None):
        raise errors.error("fields.y_true", expected="where a record has its label", got="nothing")
    if fields.time_unit is not None and fields.time is None and fields.label.time is None:
        raise errors.requires("fields.time_unit", "fields.time")
    apart = fields.label
    if settings.join is None:
        for name in ("id", "y_true", "time"):
            if getattr(apart, name) is not None:
                raise errors.requires(f"fields.label.{name}", "[join]")
    sliced = [name for part in settings.evaluator.slices for name in slice_fields(part)]
    for name in fields.slices:
        if name not in sliced:
            raise errors.error(
                f"fields.slices.{name}",
                expected="a key that evaluator.slices names",
                got=f"{shown(name)}, which it does not",
                remedy=near(name, sliced),
            )
    try:
        record_fields(fields, settings.evaluator, settings.join is not None)
    except InputError as error:
        raise errors.error(
            "fields", expected=f"{error.expected} at {shown(error.field)}", got=error.got
        ) from None


def _check_ahead(settings: RunSettings, errors: ConfigErrors) -> None:
    """Raise ConfigError for a ``fields.ahead`` that lets one record make all others late."""
    limit, ahead = ahead_limit(settings), settings.fields.ahead
    if limit is not None and ahead is not None and duration(ahead, zero=True) > limit.ahead_us:
        most = duration_text(limit.ahead_us)
        raise errors.conflicts(
            "fields.ahead",
            f"{limit.key} = {shown(limit.value)}, which allows at most {most}, got {ahead}: a "
            "record further ahead would make all others late",
            remedy=f'set ahead = "{most}" or less, or leave it out',
        )


def _check_sources(settings: RunSettings, errors: ConfigErrors) -> None:
    """Raise ConfigError for sources that do not bring what is to be counted."""
    there: set[str] = set()
    found: dict[str, str] = {}
    for table, source in settings.sources.items():
        names = source.names()
        there.update(names)
        if hasattr(source, "records"):  # its keys say what its records are
            if not names:
                raise errors.error(
                    table, expected="records, or predictions and labels", got="none of them"
                )
            for kind in names:
                found.setdefault(kind, f"{table}.{kind}")
                if kind != "records" and "records" in names:
                    raise errors.conflicts(
                        f"{table}.{kind}", f"{table}.records", remedy="give one of them"
                    )
        source.check(table, errors)
    for kind, other in (("predictions", "labels"), ("labels", "predictions")):
        if kind in found and settings.join is None:
            raise errors.requires(
                found[kind], "[join]", remedy='add [join] with wait = "24h", and fields.id'
            )
        if kind in found and other not in there:
            raise errors.requires(found[kind], f"{other}, from this source or another")


def _check_join(settings: RunSettings, errors: ConfigErrors) -> None:
    """Raise ConfigError for a join that has nothing to go by."""
    if settings.join is not None and settings.fields.id is None:
        raise errors.error(
            "fields.id",
            expected="where a record has its id, which the join goes by",
            got="nothing",
            remedy='add id = "id" under [fields]',
        )


def _check_evaluator(settings: RunSettings, errors: ConfigErrors) -> None:
    """Raise ConfigError for metrics or an evaluator that cannot be."""
    chosen = settings.evaluator
    if chosen.task == "binary" and isinstance(chosen.positive, str) and chosen.labels is None:
        raise errors.error(
            "evaluator.labels",
            expected=f"both labels, as the positive one is the text {shown(chosen.positive)}",
            got="nothing",
            remedy="the first other label that comes would else decide what the negative one is",
        )
    for n, name in enumerate(chosen.metrics or []):
        _check_metric(settings, errors, f"evaluator.metrics[{n}]", name)
    if chosen.metrics is not None and not chosen.metrics:
        raise errors.error("evaluator.metrics", expected="names of metrics", got="an empty list")
    try:
        evaluator_of(settings, WindowSettings(name="all"))
    except InputError as error:
        key = error.field if error.position is None else f"{error.field}[{error.position}]"
        raise errors.error(f"evaluator.{key}", expected=error.expected, got=error.got) from None


def _check_metric(settings: RunSettings, errors: ConfigErrors, key: str, name: str) -> None:
    task = settings.evaluator.task
    expected = f"a metric of a {task} task"
    try:
        row = find(name, task)
    except MetricError as error:
        raise errors.error(key, expected=expected, got=shown(name), remedy=str(error)) from None
    if "succession" in row.states:
        remedy = "it is about the order of events, which partitions do not keep"
        raise errors.error(key, expected="a metric of counts", got=shown(name), remedy=remedy)
    if needs_scores(name, task) and not has_scores(settings.fields):
        wanted = "fields.score or fields.proba" if task == "binary" else "fields.proba"
        raise errors.requires(key, wanted, remedy=f"{shown(name)} is computed from scores")


def _check_windows(settings: RunSettings, errors: ConfigErrors) -> None:
    """Raise ConfigError for no window, or one that cannot be."""
    if not settings.window:
        raise errors.error("window", expected="at least one [[window]]", got="none")
    seen: set[str] = set()
    for n, window in enumerate(settings.window):
        key = f"window[{n}]"
        _check_name(errors, f"{key}.name", window.name, seen, "window")
        if window.length is not None and window.half_life is not None:
            raise errors.conflicts(f"{key}.half_life", f"{key}.length", remedy="give one of them")
        if window.length is None:
            for name in ("pane", "lateness", "retain"):
                if getattr(window, name) is not None:
                    raise errors.requires(f"{key}.{name}", f"{key}.length")
        try:
            window_spec_of(window, settings.join)
        except InputError as error:
            name = error.field.partition("(")[2].rstrip(")")
            remedy = ""
            if name == "retain" and window.lateness is None:
                remedy = "or set the window's lateness; unless given, it is "
                remedy += "its length" if settings.join is None else "join.wait"
            raise errors.error(
                f"{key}.{name}", expected=error.expected, got=error.got, remedy=remedy
            ) from None


def _check_name(errors: ConfigErrors, key: str, name: str, seen: set[str], kind: str) -> None:
    if not 1 <= len(name) <= 64 or not _NAME_LETTERS.issuperset(name):
        raise errors.error(key, expected="1 to 64 letters, digits, - _ or .", got=shown(name))
    if name in seen:
        raise errors.error(key, expected=f"a name for each {kind}", got=f"{shown(name)} twice")
    seen.add(name)


def _check_alerts(settings: RunSettings, errors: ConfigErrors) -> None:
    """Raise ConfigError for an alert on what there is not."""
    seen: set[str] = set()
    for n, alert in enumerate(settings.alert):
        key = f"alert[{n}]"
        _check_name(errors, f"{key}.name", alert.name, seen, "alert")
        if alert.metric == LABEL_COVERAGE:
            _check_coverage(settings, errors, key, alert)
        else:
            _check_metric(settings, errors, f"{key}.metric", alert.metric)
        if (alert.below is None) == (alert.above is None):
            got = "neither" if alert.below is None else "both"
            raise errors.error(key, expected="below or above", got=got)
        for name in ("below", "above"):
            bound = getattr(alert, name)
            if bound is not None and not math.isfinite(bound):
                raise errors.error(f"{key}.{name}", expected="a finite number", got=str(bound))
        windows = [window.name for window in settings.window]
        if alert.window is not None and alert.window not in windows:
            raise errors.error(
                f"{key}.window",
                expected=f"one of {', '.join(windows)}",
                got=shown(alert.window),
                remedy=near(alert.window, windows),
            )
        _check_alert_slice(settings, errors, f"{key}.slice", alert)


def _check_coverage(
    settings: RunSettings, errors: ConfigErrors, key: str, alert: AlertSettings
) -> None:
    if settings.join is None:
        raise errors.requires(
            f"{key}.metric", "[join]", remedy="without it every record brings its label"
        )
    for name in ("window", "slice"):
        if getattr(alert, name):
            raise errors.conflicts(
                f"{key}.{name}",
                f"{key}.metric = {shown(LABEL_COVERAGE)}, which is of all predictions",
                remedy=f"leave {name} out",
            )


def _check_alert_slice(
    settings: RunSettings, errors: ConfigErrors, key: str, alert: AlertSettings
) -> None:
    kinds = [slice_fields(part) for part in settings.evaluator.slices]
    if alert.slice and not any(set(kind) == set(alert.slice) for kind in kinds):
        listed = ", ".join("+".join(kind) for kind in kinds)
        raise errors.error(
            key,
            expected=f"a value for each key of one of evaluator.slices ({listed or 'none'})",
            got=shown(", ".join(alert.slice)),
        )


def _check_serve(settings: RunSettings, errors: ConfigErrors) -> None:
    serve = settings.serve
    try:
        address = parse_address(serve.listen)
    except InputError as error:
        raise errors.of(error) from None
    if serve.token is not None and not serve.token:
        raise errors.error("serve.token", expected="a token", got="an empty text")
    if settings.http is not None and not serve.enabled:
        raise errors.requires("http", "serve.enabled = true")
    if serve.enabled and serve.token is None and not address.loopback:
        raise errors.error(
            "serve.token",
            expected=f"a token, as {address.host} can be reached from other machines",
            got="nothing",
            remedy='set token = "env:STREAMEVAL_TOKEN", or listen on 127.0.0.1',
        )


def _check_webhook(settings: RunSettings, errors: ConfigErrors) -> None:
    webhook = settings.webhook
    if webhook is not None and not (is_reference(webhook.url) or is_web_address(webhook.url)):
        raise errors.error(
            "webhook.url", expected="an address http://… or https://…", got="another text"
        )
