"""Secrets of a configuration: which keys hold one, how they are resolved, how they are hidden.

A secret is written as ``env:NAME`` or ``file:PATH``, so that the file itself
holds none. No error contains a secret's value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

import msgspec

from streameval.errors import ConfigError
from streameval.service.config.address import is_postgres, parse_address
from streameval.service.config.settings import RunSettings, WebhookSettings

HIDDEN = "***"
"""Shown instead of a secret."""

_LARGEST = 64 * 1024

_LEAST_TOKEN = 16

_SECRET_WORDS = ("password", "secret", "key", "token", "jaas", "credential", "oauth", "pem")


def secret(value: str, key: str, environment: Mapping[str, str] = os.environ) -> str:
    """The value that ``env:NAME`` or ``file:PATH`` refers to, or the text; raises ConfigError."""
    kind, colon, name = value.partition(":")
    if kind == "env" and colon:
        found = environment.get(name)
        if not found:
            got = "none" if found is None else "an empty one"
            raise ConfigError(
                f"{key}: expected the variable {name} in the environment, got {got}; set it, or "
                "name another"
            )
        return found
    if kind == "file" and colon:
        return _from_file(name, key)
    return value


def _from_file(path: str, key: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no path"
        raise ConfigError(
            f"{key}: expected a readable file {path}, got {reason}; put the value there, or name "
            "another"
        ) from None
    if len(data) > _LARGEST:
        raise ConfigError(f"{key}: expected at most {_LARGEST} bytes in {path}, got more")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{key}: expected UTF-8 text in {path}, got other bytes") from None
    # Editors and `echo` end a file with a newline that is no part of a password.
    text = text.rstrip("\r\n")
    if not text:
        raise ConfigError(f"{key}: expected a value in the file {path}, got an empty one")
    return text


def is_reference(value: object) -> bool:
    """Whether a value is written as ``env:NAME`` or ``file:PATH``."""
    return isinstance(value, str) and value.startswith(("env:", "file:"))


def is_secret(key: str, value: object) -> bool:
    """Whether a key's value must not be shown."""
    if key == "store":
        return isinstance(value, str) and is_postgres(value)
    if key in ("serve.token", "webhook.token", "webhook.url"):
        return True
    source, _, name = key.partition(".properties.")
    if not name or "." in source:
        return False
    return is_reference(value) or any(word in name.lower() for word in _SECRET_WORDS)


def hidden(key: str, value: Any) -> Any:
    """A key's value as it may be shown."""
    if key == "store" and is_postgres(value):
        return parse_address(value).shown
    if key == "webhook.url" and not is_reference(value):
        return hidden_url(value)
    return HIDDEN if is_secret(key, value) else value


def hidden_url(url: str) -> str:
    """Scheme and host of an address; the rest of it may be a credential.

    >>> hidden_url("https://me:pw@hooks.example/services/T00/XYZ?key=1")
    'https://***@hooks.example/***'
    >>> hidden_url("http://localhost:9000")
    'http://localhost:9000'
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return HIDDEN
    if not parts.scheme or not host:
        return HIDDEN
    host = f"[{host}]" if ":" in host else host
    user = f"{HIDDEN}@" if "@" in parts.netloc else ""
    more = parts.path.strip("/") or parts.query or parts.fragment
    return f"{parts.scheme}://{user}{host}{port}" + (f"/{HIDDEN}" if more else "")


def is_web_address(text: str) -> bool:
    """Whether a text is an address that can be posted to."""
    try:
        parts = urlsplit(text)
        complete = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return False
    return bool(complete) and text.isascii() and text.isprintable() and " " not in text


def check_token(token: str) -> None:
    """Raise ConfigError for a token of the server that is too short to withstand guessing."""
    if len(token) < _LEAST_TOKEN:
        raise ConfigError(
            f"serve.token: expected at least {_LEAST_TOKEN} characters, got {len(token)}; "
            "python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
        )


def resolved_secrets(
    settings: RunSettings, environment: Mapping[str, str] = os.environ
) -> Callable[[str, str], str]:
    """:func:`secret` for every secret that the settings name, each checked; raises ConfigError."""
    # All are looked up before a store or a source is opened, and each is read once, because a pipe
    # can be read only once.
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
