"""What types cannot say of a configuration: what belongs together, and what exists."""

from __future__ import annotations

import math
from urllib.parse import urlsplit

from streameval.errors import InputError, MetricError, shown
from streameval.event_time import duration
from streameval.metrics.registry import find
from streameval.stream.config_faults import Places, near
from streameval.stream.config_objects import evaluator_of, has_scores, needs_scores, window_spec_of
from streameval.stream.listen_address import listen_address
from streameval.stream.record_fields import record_fields
from streameval.stream.settings import AlertSettings, RunSettings, WindowSettings

__all__ = ["check_settings"]

_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def check_settings(settings: RunSettings, places: Places) -> None:
    """Raise ConfigError for the first thing that keeps these settings from being run."""
    for check in (
        _check_numbers,
        _check_durations,
        _check_fields,
        _check_evaluator,
        _check_windows,
        _check_sources,
        _check_join,
        _check_alerts,
        _check_serve,
        _check_webhook,
    ):
        check(settings, places)


def _check_numbers(settings: RunSettings, places: Places) -> None:
    least: list[tuple[str, int, int]] = [
        ("checkpoint.events", settings.checkpoint.events, 1),
        ("quarantine.keep", settings.quarantine.keep, 0),
        ("quarantine.max_bytes", settings.quarantine.max_bytes, 0),
        ("serve.max_slices_exposed", settings.serve.max_slices_exposed, 0),
        ("serve.ready_lag", settings.serve.ready_lag, 0),
    ]
    if settings.join is not None:
        least.append(("join.hot", settings.join.hot, 1))
    if settings.http is not None:
        least += [
            ("http.max_line_bytes", settings.http.max_line_bytes, 1),
            ("http.max_body_bytes", settings.http.max_body_bytes, settings.http.max_line_bytes),
            ("http.max_inbox_bytes", settings.http.max_inbox_bytes, settings.http.max_body_bytes),
        ]
    if settings.webhook is not None:
        least.append(("webhook.retries", settings.webhook.retries, 0))
    if settings.kafka is not None:
        numbers = settings.kafka.partitions
        least += [(f"kafka.partitions[{n}]", number, 0) for n, number in enumerate(numbers or [])]
        if numbers is not None and (not numbers or len(set(numbers)) < len(numbers)):
            raise places.error(
                "kafka.partitions", expected="numbers of partitions, each once", got=shown(numbers)
            )
    least += [(f"alert[{n}].min_support", a.min_support, 1) for n, a in enumerate(settings.alert)]
    for key, value, lowest in least:
        if value < lowest:
            raise places.error(key, expected=f"a whole number of at least {lowest}", got=str(value))
    if not settings.store:
        raise places.error("store", expected="the path of a file", got="an empty text")


def _check_durations(settings: RunSettings, places: Places) -> None:
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
            raise places.error(key, expected=expected, got=error.got) from None


def _check_fields(settings: RunSettings, places: Places) -> None:
    fields, task = settings.fields, settings.evaluator.task
    if fields.y_pred is None and not has_scores(fields):
        raise places.error(
            "fields",
            expected="score, y_pred or proba: where a record has its prediction",
            got="none of them",
            remedy='add score = "score" under [fields]',
        )
    if fields.score is not None and fields.proba is not None:
        raise places.error("fields.proba", expected="it or fields.score", got="both")
    if fields.score is not None and task == "multiclass":
        raise places.error(
            "fields.score",
            expected="y_pred or proba in a multi-class run",
            got="score",
            remedy='or set evaluator.task = "binary"',
        )
    if fields.y_true is None and (settings.join is None or fields.label.y_true is None):
        raise places.error("fields.y_true", expected="where a record has its label", got="nothing")
    if fields.time_unit is not None and fields.time is None and fields.label.time is None:
        raise places.error(
            "fields.time_unit", expected="it beside fields.time", got="no fields.time"
        )
    apart = fields.label
    if settings.join is None:
        for name in ("id", "y_true", "time"):
            if getattr(apart, name) is not None:
                raise places.error(
                    f"fields.label.{name}", expected="it beside [join]", got="no [join]"
                )
    sliced = [name for part in settings.evaluator.slices for name in _names(part)]
    for name in fields.slices:
        if name not in sliced:
            raise places.error(
                f"fields.slices.{name}",
                expected="a key that evaluator.slices names",
                got=f"{shown(name)}, which it does not",
                remedy=near(name, sliced),
            )
    try:
        record_fields(fields, settings.evaluator, settings.join is not None)
    except InputError as error:
        raise places.error(
            "fields", expected=f"{error.expected} at {shown(error.field)}", got=error.got
        ) from None


def _names(part: str | list[str]) -> list[str]:
    return [part] if isinstance(part, str) else part


def _check_evaluator(settings: RunSettings, places: Places) -> None:
    chosen = settings.evaluator
    if chosen.task == "binary" and isinstance(chosen.positive, str) and chosen.labels is None:
        raise places.error(
            "evaluator.labels",
            expected=f"both labels, as the positive one is the text {shown(chosen.positive)}",
            got="nothing",
            remedy="the first other label that comes would else decide what the negative one is",
        )
    for key, names in (("evaluator.metrics", chosen.metrics),):
        for n, name in enumerate(names or []):
            _check_metric(settings, places, f"{key}[{n}]", name)
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
        raise places.error(
            key, expected=f"{wanted} beside it", got=f"{shown(name)} of labels alone"
        )


def _check_windows(settings: RunSettings, places: Places) -> None:
    if not settings.window:
        raise places.error("window", expected="at least one [[window]]", got="none")
    seen: set[str] = set()
    for n, window in enumerate(settings.window):
        key = f"window[{n}]"
        _check_name(places, f"{key}.name", window.name, seen, "window")
        if window.length is not None and window.half_life is not None:
            raise places.error(f"{key}.half_life", expected="it or length", got="both")
        if window.length is None:
            for name in ("pane", "lateness", "retain"):
                if getattr(window, name) is not None:
                    raise places.error(
                        f"{key}.{name}", expected="it beside length", got="no length"
                    )
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


def _check_sources(settings: RunSettings, places: Places) -> None:
    found: dict[str, str] = {}
    for table in ("files", "kafka"):
        source = getattr(settings, table)
        if source is None:
            continue
        given = [kind for kind in ("records", "predictions", "labels") if getattr(source, kind)]
        if not given:
            raise places.error(
                table, expected="records, or predictions and labels", got="none of them"
            )
        if "records" in given and len(given) > 1:
            raise places.error(f"{table}.{given[1]}", expected=f"it or {table}.records", got="both")
        for kind in given:
            found.setdefault(kind, f"{table}.{kind}")
    if settings.kafka is not None and "bootstrap.servers" not in settings.kafka.properties:
        raise places.error(
            "kafka.properties",
            expected='"bootstrap.servers", the brokers to ask first',
            got=shown(sorted(settings.kafka.properties)),
        )
    apart = {"predictions": "labels", "labels": "predictions"}
    for kind, other in apart.items():
        if kind in found and settings.join is None:
            raise places.error(
                found[kind],
                expected="[join], since predictions and labels come apart",
                got="none",
                remedy='add [join] with wait = "24h", and fields.id',
            )
        if kind in found and other not in found and settings.http is None:
            raise places.error(
                found[kind],
                expected=f"{other} as well, from files, kafka or http",
                got=f"{kind} alone",
            )


def _check_join(settings: RunSettings, places: Places) -> None:
    if settings.join is not None and settings.fields.id is None:
        raise places.error(
            "fields.id",
            expected="where a record has its id, which the join goes by",
            got="nothing",
            remedy='add id = "id" under [fields]',
        )


def _check_alerts(settings: RunSettings, places: Places) -> None:
    seen: set[str] = set()
    for n, alert in enumerate(settings.alert):
        key = f"alert[{n}]"
        _check_name(places, f"{key}.name", alert.name, seen, "alert")
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


def _check_alert_slice(
    settings: RunSettings, places: Places, key: str, alert: AlertSettings
) -> None:
    kinds = [_names(part) for part in settings.evaluator.slices]
    if alert.slice and not any(set(kind) == set(alert.slice) for kind in kinds):
        listed = ", ".join("+".join(kind) for kind in kinds)
        raise places.error(
            key,
            expected=f"a value for each key of one of evaluator.slices ({listed or 'none'})",
            got=shown(", ".join(alert.slice)),
        )


def _check_serve(settings: RunSettings, places: Places) -> None:
    serve = settings.serve
    try:
        address = listen_address(serve.listen)
    except InputError as error:
        raise places.error("serve.listen", expected=error.expected, got=error.got) from None
    if serve.token is not None and not serve.token:
        raise places.error("serve.token", expected="a token", got="an empty text")
    if settings.http is not None and not serve.enabled:
        raise places.error("serve.enabled", expected="true beside the source http", got="false")
    if serve.enabled and serve.token is None and not address.is_loopback:
        raise places.error(
            "serve.token",
            expected=f"a token, as {address.host} can be reached from other machines",
            got="nothing",
            remedy='set token = "env:STREAMEVAL_TOKEN", or listen on 127.0.0.1',
        )


def _check_webhook(settings: RunSettings, places: Places) -> None:
    webhook = settings.webhook
    if webhook is None or webhook.url.startswith(("env:", "file:")):
        return
    try:
        parts = urlsplit(webhook.url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or any(letter.isspace() or not letter.isprintable() for letter in webhook.url):
        raise places.error(
            "webhook.url", expected="an address http://… or https://…", got="another text"
        )
