"""What types cannot say of a configuration: what belongs together, and what exists."""

from __future__ import annotations

from urllib.parse import urlsplit

from streameval.errors import InputError, shown
from streameval.event_time import duration
from streameval.stream.config_faults import Places
from streameval.stream.config_input_checks import (
    check_ahead,
    check_fields,
    check_join,
    check_sources,
)
from streameval.stream.config_question_checks import check_alerts, check_evaluator, check_windows
from streameval.stream.listen_address import listen_address
from streameval.stream.settings import RunSettings

__all__ = ["check_settings"]


def check_settings(settings: RunSettings, places: Places) -> None:
    """Raise ConfigError for the first thing that keeps these settings from being run."""
    for check in (
        _check_numbers,
        _check_durations,
        check_fields,
        check_evaluator,
        check_windows,
        check_ahead,
        check_sources,
        check_join,
        check_alerts,
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
