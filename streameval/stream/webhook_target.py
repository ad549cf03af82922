"""Where a webhook posts to: its address and token, looked up and checked."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from streameval.errors import ConfigError
from streameval.stream.secret_values import secret
from streameval.stream.settings import WebhookSettings

__all__ = ["webhook_target"]


def webhook_target(
    settings: WebhookSettings, resolve: Callable[[str, str], str] = secret
) -> tuple[str, str | None]:
    """The address and the token that settings stand for.

    Args:
        settings: The webhook's.
        resolve: What ``env:`` and ``file:`` stand for, by value and key.

    Raises:
        ConfigError: A secret that is not there, or that cannot be an address or a token.

    >>> webhook_target(WebhookSettings(url="env:URL"), lambda value, key: "http://hooks.example/x")
    ('http://hooks.example/x', None)
    """
    url = _checked_url(resolve(settings.url, "webhook.url"))
    if settings.token is None:
        return url, None
    token = resolve(settings.token, "webhook.token")
    if not (token.isascii() and token.isprintable()):
        raise ConfigError("webhook.token: expected printable ASCII text, got other text")
    return url, token


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError("webhook.url: expected an address http://… or https://…, got other text")
    return url
