"""The topics of the source Kafka as configured, and the properties of its client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import msgspec

from streameval.errors import InputError, OptionError, shown
from streameval.service.config.secrets import HIDDEN, is_reference, is_secret
from streameval.service.sources.raw import KINDS, Kind

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

STRATEGY = "partition.assignment.strategy"
COOPERATIVE = "cooperative-sticky"
"""The strategy of a group: a rebalance moves as few partitions as it can, the others go on."""

_LONGEST = 300
"""Characters of librdkafka's messages that are shown."""

_PREFIX = 8
"""A secret is recognised by so many of its characters: librdkafka truncates long texts."""


class KafkaTopics(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Topics; either one of all ``records``, or two."""

    records: str | None = None
    predictions: str | None = None
    labels: str | None = None
    partitions: list[Annotated[int, msgspec.Meta(ge=0)]] | None = None
    assignment: Literal["own", "group"] = "own"
    """Which partitions are read: all, or those of ``partitions``; or those that the group of
    ``group.id`` assigns to this worker."""
    start: Literal["earliest", "latest"] = "earliest"
    """Of a topic that is new to the store; partitions added later are read from their beginning."""
    out_of_range: Literal["stop", "earliest", "latest"] = "stop"
    stop_at_end: bool = False
    properties: dict[str, str | int | float | bool] = {}

    template: ClassVar[str] = """\
# Topics. In place of the two, records = "events" names one for everything.
#[kafka]
#predictions = "predictions"
#labels = "labels"
# Off, all of them, new ones as they are added.
#partitions = [0, 1]
# With "group" many workers share one evaluation, and the consumer group of "group.id" says
# which of them reads which partitions; the store is a PostgreSQL database.
#assignment = "own"
# Where reading begins in a topic that is new to the store: "earliest", "latest".
#start = "earliest"
# If the broker no longer has the position: "stop", or continue at "earliest" or
# "latest".
#out_of_range = "stop"
# End the run when all is read.
#stop_at_end = false

# Anything that librdkafka takes.
#[kafka.properties]
#"bootstrap.servers" = "localhost:9092"
# For assignment = "group": of all workers, and the name of this one, which keeps its
# partitions when it starts again within session.timeout.ms; off, from the machine's name.
#"group.id" = "streameval"
#"group.instance.id" = "env:HOSTNAME"
#"security.protocol" = "SASL_SSL"
#"sasl.mechanism" = "PLAIN"
#"sasl.username" = "streameval"
#"sasl.password" = "env:KAFKA_PASSWORD"
"""

    def names(self) -> Mapping[Kind, Sequence[str]]:
        """The topics, by what they hold."""
        topics = {kind: getattr(self, kind) for kind in KINDS}
        return {kind: [topic] for kind, topic in topics.items() if topic}

    def check(self, table: str) -> None:
        """Partitions are numbers, each once, and brokers are named."""
        numbers = self.partitions
        if numbers is not None and (not numbers or len(set(numbers)) < len(numbers)):
            raise InputError(
                f"{table}.partitions",
                expected="numbers of partitions, each once",
                got=shown(numbers),
            )
        if "bootstrap.servers" not in self.properties:
            raise InputError(
                f"{table}.properties",
                expected='"bootstrap.servers", the brokers to connect to',
                got=shown(sorted(self.properties)),
            )
        if self.assignment == "group":
            self._check_group(table)

    def _check_group(self, table: str) -> None:
        key = f'{table}.assignment = "group"'
        if not self.properties.get("group.id"):
            raise OptionError.requires(
                key,
                f'{table}.properties."group.id"',
                remedy="give all workers of one evaluation the same, and no other evaluation",
            )
        if self.partitions is not None:
            raise OptionError.conflicts(
                f"{table}.partitions", key, remedy="leave partitions out: the group assigns them"
            )
        if self.start == "latest":
            raise OptionError.conflicts(
                f'{table}.start = "latest"',
                f"{key}, with which no worker knows whether another has begun the topic",
                remedy='leave start out, or set assignment = "own"',
            )
        if self.stop_at_end:
            raise OptionError.conflicts(
                f"{table}.stop_at_end",
                f"{key}, with which other workers take over what one leaves",
                remedy="stop the workers when their lag is 0",
            )
        strategy = self.properties.get(STRATEGY, COOPERATIVE)
        if strategy != COOPERATIVE:
            raise InputError(
                f'{table}.properties."{STRATEGY}"', expected=COOPERATIVE, got=shown(strategy)
            )

    def secrets(self) -> Mapping[str, str]:
        """Any property of the client."""
        return {
            f"properties.{name}": text
            for name, text in self.properties.items()
            if isinstance(text, str)
        }

    def ending(self) -> Self:
        """With ``stop_at_end``."""
        return msgspec.structs.replace(self, stop_at_end=True)

    def by_topic(self) -> list[Self]:
        """Settings with one topic each, predictions before labels."""
        if self.predictions is None or self.labels is None:
            return [self]
        replace = msgspec.structs.replace
        return [replace(self, labels=None), replace(self, predictions=None)]


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
