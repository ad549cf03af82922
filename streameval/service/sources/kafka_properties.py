"""The properties of the Kafka client, and which of their values are secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from streameval.service.config.secrets import HIDDEN, is_reference, is_secret

# Any other property of librdkafka is passed through.
_DEFAULTS: dict[str, Any] = {
    "group.id": "streameval",
    # Its default, a second, throttles a consumer that is faster than the broker.
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 50,
    "queued.max.messages.kbytes": 64 * 1024,
    "client.id": "streameval",
    "log.connection.close": False,
}
_FIXED: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}

_LONGEST = 300
"""Characters of librdkafka's messages that are shown."""

_PREFIX = 8
"""A secret is recognised by so many of its characters: librdkafka truncates long texts."""


class KafkaProperties:
    """The client's properties; removes secrets from the client's messages.

    Args:
        given: From the configuration.
        secret: From ``env:NAME`` or ``file:PATH``, and its key, to the value.

    >>> properties = KafkaProperties({"sasl.password": "env:P"}, lambda value, key: "hunter2")
    >>> properties.values["sasl.password"], properties.scrubbed("no such user: u/hunter2")
    ('hunter2', 'no such user: u/***')
    """

    def __init__(
        self, given: Mapping[str, Any], secret: Callable[[str, str], str] = lambda value, key: value
    ) -> None:
        self._hidden: set[str] = set()
        own = {key: self._resolved(key, value, secret) for key, value in given.items()}
        self.values: dict[str, Any] = {**_DEFAULTS, **own, **_FIXED}

    def _resolved(self, key: str, value: Any, secret: Callable[[str, str], str]) -> Any:
        if not isinstance(value, str):
            return value
        name = f"kafka.properties.{key}"
        found = secret(value, name) if is_reference(value) else value
        if found and is_secret(name, value):
            # A key in PEM has lines, and a parser may quote one of them.
            self._hidden.update([found, *(x for x in found.splitlines() if len(x) >= _PREFIX)])
        return found

    def scrubbed(self, text: str) -> str:
        """A message of librdkafka or a broker as it may be shown: one line, limited, no secret."""
        for hidden in sorted(self._hidden, key=len, reverse=True):
            text = text.replace(hidden, HIDDEN)
            begun = text.find(hidden[:_PREFIX]) if len(hidden) > _PREFIX else -1
            if begun >= 0:
                text = text[:begun] + HIDDEN
        return ascii(text[:_LONGEST])[1:-1]
