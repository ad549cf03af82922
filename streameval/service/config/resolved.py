"""Every secret of a run's settings, resolved and checked before a store or source is opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache, partial

import msgspec

from streameval.errors import ConfigError
from streameval.service.config.address import is_postgres
from streameval.service.config.secrets import check_token, is_web_address, secret
from streameval.service.config.settings import RunSettings, WebhookSettings


def resolved_secrets(
    settings: RunSettings, environment: Mapping[str, str] = os.environ
) -> Callable[[str, str], str]:
    """:func:`secret` for every secret that the settings name; raises ConfigError.

    All are looked up at once, and each is read once, because a pipe can be read only once.
    """
    resolve = cache(partial(secret, environment=environment))
    resolve(settings.store, "store")
    if settings.serve.token is not None:
        token = resolve(settings.serve.token, "serve.token")
        if settings.serve.enabled:
            check_token(token)
    if settings.webhook is not None:
        webhook_target(settings.webhook, resolve)
    for table, source in settings.sources.items():
        for name, text in source.secrets().items():
            resolve(text, f"{table}.{name}")
    return resolve


def with_store(settings: RunSettings, resolve: Callable[[str, str], str]) -> RunSettings:
    """The settings with the address of their store, which may hold a password, resolved."""
    return msgspec.structs.replace(settings, store=resolve(settings.store, "store"))


def webhook_target(
    settings: WebhookSettings, resolve: Callable[[str, str], str] = secret
) -> tuple[str, str | None]:
    """The address and the token of a webhook, resolved and checked; raises ConfigError."""
    url = resolve(settings.url, "webhook.url")
    if not is_web_address(url):
        raise ConfigError("webhook.url: expected an address http://… or https://…, got other text")
    if settings.token is None:
        return url, None
    token = resolve(settings.token, "webhook.token")
    if not (token.isascii() and token.isprintable()):
        raise ConfigError("webhook.token: expected printable ASCII text, got other text")
    return url, token


def check_store(path: str) -> None:
    """Raise ConfigError for a path where no store can be created."""
    if is_postgres(path):
        return
    whole = os.path.abspath(path)
    directory = os.path.dirname(whole)
    if os.path.isdir(whole):
        raise ConfigError(f"store: expected the path of a file, got the directory {path}")
    if not os.path.isdir(directory):
        raise ConfigError(
            f"store: expected a file in a directory that is there, got {path}; "
            f"make {directory} first, or name another path"
        )
