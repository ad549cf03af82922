"""What librdkafka is told, and what may be shown of what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from streameval.stream.secret_values import HIDDEN, is_secret

__all__ = ["KafkaProperties"]

# What is ours to decide: the rest of librdkafka's properties pass through.
_DEFAULTS: dict[str, Any] = {
    "group.id": "streameval",
    # Its default, a second, throttles a consumer that is faster than the broker.
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 50,
    "queued.max.messages.kbytes": 64 * 1024,
    "client.id": "streameval",
    "log.connection.close": False,
}
_OURS: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}

_LONGEST = 300
"""Characters of librdkafka's words that are shown."""

_TELLING = 8
"""So many characters of a secret are as good as all of it: librdkafka cuts what is long."""


class KafkaProperties:
    """The client's properties, and its words without any secret.

    Args:
        given: From the configuration.
        secret: From ``env:NAME`` or ``file:PATH`` and the key it stands at to the value.

    >>> told = KafkaProperties({"sasl.password": "env:P"}, lambda value, key: "hunter2")
    >>> told.values["sasl.password"], told.scrubbed("no such user: u/hunter2")
    ('hunter2', 'no such user: u/***')
    """

    def __init__(
        self, given: Mapping[str, Any], secret: Callable[[str, str], str] = lambda value, key: value
    ) -> None:
        self._hidden: set[str] = set()
        own = {key: self._resolved(key, value, secret) for key, value in given.items()}
        self.values: dict[str, Any] = {**_DEFAULTS, **own, **_OURS}

    def _resolved(self, key: str, value: Any, secret: Callable[[str, str], str]) -> Any:
        if not isinstance(value, str):
            return value
        name = f"kafka.properties.{key}"
        found = secret(value, name) if value.startswith(("env:", "file:")) else value
        if found and is_secret(name, value):
            # A key in PEM has lines, and a parser may name one of them.
            self._hidden.update([found, *(x for x in found.splitlines() if len(x) >= _TELLING)])
        return found

    def scrubbed(self, text: str) -> str:
        """Words of librdkafka or a broker, to be shown: on one line, not too long."""
        for hidden in sorted(self._hidden, key=len, reverse=True):
            text = text.replace(hidden, HIDDEN)
            begun = text.find(hidden[:_TELLING]) if len(hidden) > _TELLING else -1
            if begun >= 0:
                text = text[:begun] + HIDDEN
        return ascii(text[:_LONGEST])[1:-1]
