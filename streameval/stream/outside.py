"""What a configuration names and does not hold: values of secrets, the store's directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from streameval.errors import ConfigError
from streameval.stream.secret_values import secret
from streameval.stream.settings import RunSettings
from streameval.stream.webhook_target import webhook_target

__all__ = ["check_store", "check_token", "resolved_secrets"]

_LEAST_TOKEN = 16


def resolved_secrets(
    settings: RunSettings, environment: Mapping[str, str] = os.environ
) -> Callable[[str, str], str]:
    """Look up every secret that the settings name, before anything is made.

    Returns:
        From ``env:NAME`` or ``file:PATH`` and the key it stands at to the value, as
        :func:`secret`; what was looked up is not read again, as a pipe has it but once.

    Raises:
        ConfigError: One is not there, is too short a token, or no address. The
            message holds the key and never a value.

    >>> from streameval.stream.settings import ServeSettings
    >>> resolved_secrets(RunSettings(serve=ServeSettings(token="env:TOKEN")), {})
    Traceback (most recent call last):
    streameval.errors.ConfigError: serve.token: expected the variable TOKEN in the environment, ...
    """
    known: dict[tuple[str, str], str] = {}

    def resolve(value: str, key: str) -> str:
        if (value, key) not in known:
            known[value, key] = secret(value, key, environment)
        return known[value, key]

    if settings.serve.token is not None:
        token = resolve(settings.serve.token, "serve.token")
        if settings.serve.enabled:
            check_token(token)
    if settings.webhook is not None:
        webhook_target(settings.webhook, resolve)
    if settings.kafka is not None:
        for name, text in settings.kafka.properties.items():
            if isinstance(text, str):
                resolve(text, f"kafka.properties.{name}")
    return resolve


def check_token(token: str) -> None:
    """Raise ConfigError for a token of the server that is too short to withstand guessing.

    >>> check_token("12345")
    Traceback (most recent call last):
    streameval.errors.ConfigError: serve.token: expected at least 16 characters, got 5; ...
    """
    if len(token) < _LEAST_TOKEN:
        raise ConfigError(
            f"serve.token: expected at least {_LEAST_TOKEN} characters, got {len(token)}; "
            "python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
        )


def check_store(path: str) -> None:
    """Raise ConfigError for a path at which no store can be.

    >>> check_store("/no such/run.db")
    Traceback (most recent call last):
    streameval.errors.ConfigError: store: expected a file in a directory that is there, got ...
    """
    whole = os.path.abspath(path)
    directory = os.path.dirname(whole)
    if os.path.isdir(whole):
        raise ConfigError(f"store: expected the path of a file, got the directory {path}")
    if not os.path.isdir(directory):
        raise ConfigError(
            f"store: expected a file in a directory that is there, got {path}; "
            f"make {directory} first, or name another place"
        )
