"""The tables of the sources in a configuration, and what every source's table provides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, TypeAlias

import msgspec
from msgspec import Meta

from streameval.errors import InputError, OptionError, shown

Kind: TypeAlias = Literal["predictions", "labels", "records"]
"""The kind of records; each of ``records`` may be a prediction, a label or both."""

KINDS: tuple[Kind, ...] = ("records", "predictions", "labels")

STRATEGY = "partition.assignment.strategy"
COOPERATIVE = "cooperative-sticky"
"""The strategy of a group: a rebalance moves as few partitions as it can, and no other stops."""


def about(text: str, *examples: Any) -> Meta:
    """The description of a key, and the value that ``streameval init`` shows for the default."""
    return Meta(description=" ".join(text.split()), examples=list(examples) or None)


class SourceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table that describes a source."""

    def names(self) -> Mapping[Kind, Sequence[str]]:
        """What is read, by what its records are: paths, topics, routes."""
        raise NotImplementedError

    def check(self, table: str) -> None:
        """Raise InputError, with a key that begins with ``table``, for values it cannot have."""

    def secrets(self) -> Mapping[str, str]:
        """The values that may be ``env:NAME`` or ``file:PATH``, by their keys in the table."""
        return {}

    def ending(self) -> Self:
        """The settings with which the source ends when all has been read, if it can end."""
        return self


class FilesSettings(SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """JSON lines in files: either all records in one kind of files, or in two."""

    records: Annotated[
        list[str],
        about("""Files or patterns, `records = ["logs/*.jsonl"]`, of predictions, labels, or both in
        one record."""),
    ] = []
    predictions: Annotated[
        list[str], about("Instead of `records`: files of predictions.", ["predictions.jsonl"])
    ] = []
    labels: Annotated[list[str], about("Files of labels.", ["labels.jsonl"])] = []
    follow: Annotated[
        bool,
        about("""Whether reading continues as files grow and rotate; `false` ends the run when all
        has been read."""),
    ] = True

    def names(self) -> Mapping[Kind, Sequence[str]]:
        """The patterns, by what their files hold."""
        return {kind: getattr(self, kind) for kind in KINDS if getattr(self, kind)}

    def ending(self) -> Self:
        """Without following."""
        return msgspec.structs.replace(self, follow=False)


class HttpSettings(SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """POST /v1/predictions and /v1/labels: one JSON object a line."""

    inbox: Annotated[
        str | None,
        about("""The directory in which posts wait to be counted, `inbox = "inbox"`: required with a
        store on PostgreSQL, and beside the file otherwise."""),
    ] = None
    max_body_bytes: Annotated[int, about("A larger body is refused.")] = 8 * 1024 * 1024
    max_line_bytes: Annotated[int, Meta(ge=1), about("A longer line is a bad record.")] = (
        1024 * 1024
    )
    max_inbox_bytes: Annotated[
        int, about("Posts are refused while more than this waits to be counted.")
    ] = 4 * 1024 * 1024 * 1024

    def names(self) -> Mapping[Kind, Sequence[str]]:
        """The routes, by what is posted to them."""
        return {kind: [f"/v1/{kind}"] for kind in KINDS if kind != "records"}

    def check(self, table: str) -> None:
        """Each bound is at least the one before it: a line, a body, the inbox."""
        bounds = ("max_line_bytes", "max_body_bytes", "max_inbox_bytes")
        for smaller, larger in pairwise(bounds):
            least, value = getattr(self, smaller), getattr(self, larger)
            if value < least:
                raise InputError(
                    f"{table}.{larger}",
                    expected=f"a whole number of at least {least}, the {table}.{smaller}",
                    got=str(value),
                )


class KafkaSettings(SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Topics of Kafka: either one of all records, or two."""

    records: Annotated[
        str | None, about('`records = "events"`: the topic of all records, instead of two topics.')
    ] = None
    predictions: Annotated[str | None, about("The topic of predictions.", "predictions")] = None
    labels: Annotated[str | None, about("The topic of labels.", "labels")] = None
    partitions: Annotated[
        list[Annotated[int, Meta(ge=0)]] | None,
        about(
            """The partitions to read; the run waits for those that do not exist. Not set: all, new
            ones as they are added.""",
            [0, 1],
        ),
    ] = None
    assignment: Annotated[
        Literal["own", "group"],
        about("""Which partitions are read: `own`, all or those of `partitions`; `group`, those that
        the consumer group of `"group.id"` assigns to this worker, of many that share one
        evaluation on PostgreSQL."""),
    ] = "own"
    start: Annotated[
        Literal["earliest", "latest"],
        about("""The first position in a topic without a stored one: `earliest` or `latest`.
        Partitions that are added later are read from their beginning."""),
    ] = "earliest"
    out_of_range: Annotated[
        Literal["stop", "earliest", "latest"],
        about("""If the broker does not have the position (any more): `stop`, or continue at
        `earliest` or `latest`."""),
    ] = "stop"
    stop_at_end: Annotated[bool, about("Whether the run ends when all has been read.")] = False
    properties: Annotated[
        dict[str, str | int | float | bool],
        about(
            """Properties of librdkafka; `"bootstrap.servers"` is required. `env:NAME` and
            `file:PATH` may be values. With `assignment = "group"`, `"group.id"` is that of all
            workers and `"group.instance.id"` the name of this one, which keeps its partitions when
            it starts again within `"session.timeout.ms"`; not set, from the machine's name.""",
            {
                "bootstrap.servers": "localhost:9092",
                "group.id": "streameval",
                "group.instance.id": "env:HOSTNAME",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "streameval",
                "sasl.password": "env:KAFKA_PASSWORD",
            },
        ),
    ] = {}

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
