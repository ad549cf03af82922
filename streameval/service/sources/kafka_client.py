"""librdkafka's consumer as Kafka's sources use it; its errors are texts without secrets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from streameval.errors import ConfigError, MissingExtraError
from streameval.service.config.secrets import HIDDEN, is_reference, is_secret

try:
    from confluent_kafka import (
        OFFSET_BEGINNING,
        OFFSET_END,
        Consumer,
        KafkaError,
        KafkaException,
        Message,
        TopicPartition,
    )
except ImportError:
    raise MissingExtraError(
        "reading from Kafka", package="confluent-kafka", extra="kafka"
    ) from None

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "KafkaClient",
    "KafkaError",
    "KafkaException",
    "KafkaProperties",
    "Message",
    "TopicPartition",
    "partition_name",
]

_log = logging.getLogger(__name__)

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

_METADATA_SECONDS = 0.5
_RANGE_SECONDS = 5.0
"""How long a broker may take to answer."""


class KafkaProperties:
    """The client's properties; removes the secrets among them from its messages."""

    def __init__(
        self, given: Mapping[str, Any], secret: Callable[[str, str], str] = lambda value, key: value
    ) -> None:
        self._secrets: set[str] = set()
        own = {key: self._resolved(key, value, secret) for key, value in given.items()}
        self.values: dict[str, Any] = {**_DEFAULTS, **own, **_FIXED}

    def _resolved(self, key: str, value: Any, secret: Callable[[str, str], str]) -> Any:
        if not isinstance(value, str):
            return value
        name = f"kafka.properties.{key}"
        found = secret(value, name) if is_reference(value) else value
        if found and is_secret(name, value):
            # A key in PEM has lines, and a parser may quote one of them.
            self._secrets.update([found, *(x for x in found.splitlines() if len(x) >= _PREFIX)])
        return found

    def scrubbed(self, text: str) -> str:
        """A message of librdkafka or a broker as it may be shown: one line, limited, no secret."""
        for hidden in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(hidden, HIDDEN)
            begun = text.find(hidden[:_PREFIX]) if len(hidden) > _PREFIX else -1
            if begun >= 0:
                text = text[:begun] + HIDDEN
        return ascii(text[:_LONGEST])[1:-1]


class KafkaClient(Consumer):
    """A consumer with the properties of the configuration; raises ConfigError for a wrong one."""

    def __init__(
        self,
        properties: Mapping[str, Any],
        scrubbed: Callable[[str], str],
        on_error: Callable[[KafkaError], None],
    ) -> None:
        self._scrubbed = scrubbed
        # librdkafka's own log repeats what a source's status reports, and may hold secrets.
        logger = logging.getLogger(f"{__name__}.librdkafka")
        logger.setLevel(logging.CRITICAL)
        try:
            super().__init__({**properties, "error_cb": on_error}, logger=logger)
        except (KafkaException, ValueError, TypeError) as error:
            raise ConfigError(f"kafka.properties: {scrubbed(str(error))}") from None

    def text(self, error: Any) -> str:
        """An error, or the one that was raised, in words."""
        return self._scrubbed((error.args[0] if isinstance(error, KafkaException) else error).str())

    def topic(self, name: str) -> Any:
        """What the brokers report of a topic: its error, or its partitions; or KafkaException."""
        return self.list_topics(name, timeout=_METADATA_SECONDS).topics[name]

    def bounds(self, topic: str, number: int) -> tuple[int, int]:
        """The first offset of a partition, and the one after the last; or KafkaException."""
        target = TopicPartition(topic, number)
        found = self.get_watermark_offsets(target, timeout=_RANGE_SECONDS)
        if found is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return int(found[0]), int(found[1])

    def known_end(self, topic: str, number: int) -> int | None:
        """The end of a partition at the last fetch; a query would take a round trip."""
        known = self.get_watermark_offsets(TopicPartition(topic, number), cached=True)
        return None if known is None or known[1] < 0 else int(known[1])

    def commit_for_others(self, offsets: list[TopicPartition]) -> None:
        """Commit to the group, for other tools; the positions in the store decide."""
        if offsets:
            try:
                self.commit(offsets=offsets, asynchronous=True)
            except KafkaException as error:
                _log.info("the commit to the group failed: %s", self.text(error))


def partition_name(topic: str, number: int) -> str:
    """The name in the store and on pages, such as ``kafka:clicks/3``."""
    return f"kafka:{topic}/{number}"
