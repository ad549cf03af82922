"""Secrets in a configuration: where their values come from, and which keys hold one.

A secret is written as ``env:NAME`` or ``file:PATH``, so that the file itself
holds none. No error tells a value.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from streameval.errors import ConfigError

__all__ = ["HIDDEN", "hidden_url", "is_secret", "secret"]

HIDDEN = "***"
"""What is shown in a secret's place."""

_LARGEST = 64 * 1024

_TELLING = ("password", "secret", "key", "token", "jaas", "credential", "oauth", "pem")


def secret(value: str, key: str, environment: Mapping[str, str] = os.environ) -> str:
    """The value that ``env:NAME`` or ``file:PATH`` stands for; other text is itself.

    Args:
        value: As the configuration has it.
        key: The configuration's key, for errors.
        environment: Where names are looked up.

    Raises:
        ConfigError: There is no such variable or file, or it is empty. The
            message names the variable or the file, never a value.

    >>> secret("env:TOKEN", "serve.token", {"TOKEN": "s3cret"}), secret("plain", "serve.token")
    ('s3cret', 'plain')
    >>> secret("env:TOKEN", "serve.token", {})
    Traceback (most recent call last):
    streameval.errors.ConfigError: serve.token: expected the variable TOKEN in the environment, ...
    """
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


def is_secret(key: str, value: object) -> bool:
    """Whether a key's value must not be shown.

    >>> is_secret("serve.token", "x"), is_secret("kafka.properties.sasl.password", "x")
    (True, True)
    >>> is_secret("kafka.properties.bootstrap.servers", "localhost"), is_secret("fields.id", "key")
    (False, False)
    """
    if key in ("serve.token", "webhook.token", "webhook.url"):
        return True
    table, _, name = key.partition("properties.")
    if table != "kafka.":
        return False
    referred = isinstance(value, str) and value.startswith(("env:", "file:"))
    return referred or any(word in name.lower() for word in _TELLING)


def hidden_url(url: str) -> str:
    """Scheme and host of an address; the rest of it may let anybody in.

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
