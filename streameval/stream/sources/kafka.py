"""Kafka topics, by partitions that are assigned and not by a group's.

Positions live in the store, beside what was counted up to them; a group, where
one is named, is told them for information. So a crash, a rebalance or a
commit that is lost can neither skip a message nor count one twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from streameval.errors import ConfigError, MissingExtraError, SourceError, shown
from streameval.stream.batch import BadEvent, Batch, Kind, PartitionStatus, Position
from streameval.stream.settings import KafkaSettings

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

__all__ = ["KafkaSource"]

_log = logging.getLogger(__name__)

_CONSUME = 5_000
_CONSUME_SECONDS = 0.05
"""librdkafka waits to fill a call's number, so near a topic's end its time is the delay."""

_METADATA_SECONDS = 0.5
_RECOVERY_SECONDS = 3.0
"""For so long a broker may have less than was read already, before that is taken for true."""

_LOOK_SECONDS = 10.0
"""Between two looks for new partitions; while one is missing it is looked for each second."""

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


@dataclass(slots=True)
class _Partition:
    """One that has been assigned."""

    topic: str
    number: int
    kind: Kind
    next: int | None = None
    at_end: bool = False
    problem: str = ""
    beyond_since: float | None = None
    """Since when its position has been beyond what the broker has."""

    @property
    def name(self) -> str:
        return f"kafka:{self.topic}/{self.number}"


class KafkaSource:
    """Reads one topic or two, all their partitions or some.

    What may go wrong, and what then happens:

    - A topic is not there, or no broker answers: it waits, and says so in :meth:`status`.
    - A broker goes and comes back: reading goes on where it was.
    - Partitions are added: they are found within ten seconds, and read from their beginning.
    - A position is out of the broker's range, because retention has passed it
      or the broker lost its data: ``out_of_range`` decides. ``stop`` raises
      SourceError; ``earliest`` and ``latest`` go on there, and say what was missed.
    - A message without a value is bad. All others are the decoder's.

    Args:
        settings: Topics and librdkafka's properties.
        positions: Where to go on, by partition.
        clock: Seconds, only ever forward.
        secret: From ``env:NAME`` or ``file:PATH`` and the key it stands at to the value.
        stamps: Whether the broker's time stamps are wanted.

    Raises:
        ConfigError: librdkafka does not take a property.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        positions: Mapping[str, Position],
        *,
        clock: Callable[[], float] = time.monotonic,
        secret: Callable[[str, str], str] = lambda value, key: value,
        stamps: bool = True,
    ) -> None:
        self._settings = settings
        self._stamps = stamps
        self._positions = dict(positions)
        self._clock = clock
        chosen = {"records": settings.records, "predictions": settings.predictions}
        kinds: dict[Kind, str | None] = {**chosen, "labels": settings.labels}  # type: ignore[dict-item]
        self._topics = {topic: kind for kind, topic in kinds.items() if topic is not None}
        self._hidden: list[str] = []
        properties = {
            **_DEFAULTS,
            **{
                key: self._resolved(key, value, secret)
                for key, value in settings.properties.items()
            },
            **_OURS,
        }
        self._informs_group = "group.id" in settings.properties
        self._trouble = ""
        self._missing: dict[str, str] = dict.fromkeys(self._topics, "has not been looked for yet")
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._look_at = clock()
        try:
            self._consumer = Consumer({**properties, "error_cb": self._on_error}, logger=_quiet())
        except (KafkaException, ValueError, TypeError) as error:
            raise ConfigError(f"kafka.properties: {self._scrubbed(str(error))}") from None

    def _resolved(self, key: str, value: Any, secret: Callable[[str, str], str]) -> Any:
        if not isinstance(value, str) or not value.startswith(("env:", "file:")):
            if isinstance(value, str) and "password" in key.lower():
                self._hidden.append(value)
            return value
        found = secret(value, f"kafka.properties.{key}")
        self._hidden.append(found)
        return found

    def _scrubbed(self, text: str) -> str:
        """librdkafka's words without any secret."""
        for hidden in self._hidden:
            if hidden:
                text = text.replace(hidden, "***")
        return shown(text)[1:-1]

    def _on_error(self, error: KafkaError) -> None:
        self._trouble = self._scrubbed(error.str())

    # Partitions

    def _look(self) -> None:
        """Assign the partitions that are there and not assigned yet."""
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + (1.0 if self._missing else _LOOK_SECONDS)
        new: list[Any] = []
        for topic, kind in self._topics.items():
            try:
                found = self._consumer.list_topics(topic, timeout=_METADATA_SECONDS).topics[topic]
            except KafkaException as error:
                trouble = self._scrubbed(error.args[0].str())
                if topic in self._missing:
                    self._missing[topic] = f"no broker answers: {self._trouble or trouble}"
                continue
            if found.error is not None or not found.partitions:
                words = "" if found.error is None else self._scrubbed(found.error.str())
                self._missing[topic] = f"waiting for the topic to be made: {words}"
                continue
            self._missing.pop(topic, None)
            self._trouble = ""
            for number in self._wanted(topic, found.partitions):
                if (topic, number) not in self._partitions:
                    new.append(self._opened(_Partition(topic, number, kind)))
        if new:
            self._consumer.incremental_assign(new)

    def _wanted(self, topic: str, there: Iterable[int]) -> list[int]:
        chosen = self._settings.partitions
        if chosen is None:
            return sorted(there)
        absent = sorted(set(chosen) - set(there))
        if absent:
            self._missing[topic] = f"waiting for partitions {absent} to be made"
        return sorted(set(chosen) & set(there))

    def _opened(self, partition: _Partition) -> Any:
        self._partitions[partition.topic, partition.number] = partition
        position = self._positions.get(partition.name)
        start = OFFSET_BEGINNING if self._settings.start == "earliest" else OFFSET_END
        if position is not None:
            partition.next = start = int(position["offset"])
        return TopicPartition(partition.topic, partition.number, start)

    # Reading

    def read(self, most: int, timeout: float) -> list[Batch]:
        """What has come, a batch for each partition.

        Raises:
            SourceError: A position is out of range, and ``out_of_range`` is ``stop``.
        """
        self._look()
        wait = min(timeout, _CONSUME_SECONDS)
        messages = self._consumer.consume(min(most, _CONSUME), wait)
        if not messages:
            self._look_for_loss()
            return []
        # map() over methods: a call of each in a comprehension takes three times as long.
        told = []
        if any(map(Message.error, messages)):
            told = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
        batches = self._batches(messages)
        for message in told:
            self._on_partition_error(message)
        return batches

    def _batches(self, messages: list[Any]) -> list[Batch]:
        """A batch for each run of messages of one partition."""
        if len(self._partitions) == 1:
            (partition,) = self._partitions.values()
            return [self._batch(partition, messages)] if messages else []
        places: list[Any] = list(
            zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)
        )
        batches = []
        start = 0
        for place, run in groupby(places):
            stop = start + len(list(run))
            batches.append(self._batch(self._partitions[place], messages[start:stop]))
            start = stop
        return batches

    def _batch(self, partition: _Partition, messages: list[Any]) -> Batch:
        values: list[Any] = list(map(Message.value, messages))
        places: list[Any] = list(map(Message.offset, messages))
        times = None
        if self._stamps:
            times = [moment * 1_000 for _, moment in map(Message.timestamp, messages)]
        bad: list[BadEvent] = []
        if None in values:
            detail = "record: expected a JSON object, got a message without a value"
            empty = [n for n, value in enumerate(values) if value is None]
            bad = [BadEvent(places[n], "record", detail, b"") for n in empty]
            for column in (values, places, times or []):
                for n in reversed(empty) if column else ():
                    del column[n]
        partition.next = messages[-1].offset() + 1
        partition.at_end = False
        partition.beyond_since = None
        partition.problem = ""
        self._trouble = ""
        position = {"offset": partition.next}
        return Batch(partition.name, partition.kind, values, places, position, times, bad)

    def _on_partition_error(self, message: Any) -> None:
        error = message.error()
        partition = self._partitions.get((message.topic(), message.partition()))
        if partition is None:
            self._trouble = self._scrubbed(error.str())
            return
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            # More may have come behind the end that this one tells of.
            partition.at_end = partition.next is None or message.offset() >= partition.next
            partition.problem = ""
            self._trouble = ""
            if partition.next is None:
                partition.next = message.offset()
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._out_of_range(partition)
        else:
            partition.problem = self._scrubbed(error.str())

    def _look_for_loss(self) -> None:
        """Not every broker that has lost its data says that a position is out of range."""
        for partition in self._partitions.values():
            high = self._known_end(partition)
            if partition.next is not None and high is not None and high < partition.next:
                self._out_of_range(partition)

    def _known_end(self, partition: _Partition) -> int | None:
        """Where the partition ended at the last fetch; to ask would take a round trip."""
        place = TopicPartition(partition.topic, partition.number)
        known = self._consumer.get_watermark_offsets(place, cached=True)
        return None if known is None or known[1] < 0 else int(known[1])

    def _out_of_range(self, partition: _Partition) -> None:
        wanted = TopicPartition(partition.topic, partition.number)
        try:
            low, high = self._consumer.get_watermark_offsets(wanted, timeout=5.0)
        except KafkaException as error:
            # The error comes again with the next fetch.
            partition.problem = self._scrubbed(error.args[0].str())
            self._restart(partition, partition.next)
            return
        if self._may_be_recovering(partition, low, high):
            self._restart(partition, partition.next)
            return
        told = (
            f"{partition.name}: expected to read on at offset {partition.next}, "
            f"the broker has {low} to {high}"
        )
        policy = self._settings.out_of_range
        if policy == "stop":
            raise SourceError(
                f'{told}; set kafka.out_of_range to "earliest" or "latest" to go on without '
                "what is missing"
            )
        start = low if policy == "earliest" else high
        _log.warning("%s; goes on at %s, as kafka.out_of_range says", told, start)
        partition.next = start
        partition.problem = f"went on at offset {start}: {told}"
        self._restart(partition, start)

    def _may_be_recovering(self, partition: _Partition, low: int, high: int) -> bool:
        """Whether the range may only look wrong for a moment.

        A broker that comes back from a crash knows its high watermark from
        some seconds before, until it has looked through its log.
        """
        if partition.next is None or partition.next < low:
            return False
        if partition.next <= high:
            partition.beyond_since = None
            return True
        now = self._clock()
        if partition.beyond_since is None:
            partition.beyond_since = now
        partition.problem = f"waiting for offset {partition.next}, the broker has {low} to {high}"
        return now - partition.beyond_since < _RECOVERY_SECONDS

    def _restart(self, partition: _Partition, offset: int | None) -> None:
        """Fetch on from an offset, after an error that has ended it."""
        place = TopicPartition(partition.topic, partition.number)
        self._consumer.incremental_unassign([place])
        place.offset = offset or 0
        self._consumer.incremental_assign([place])

    # What others ask

    def checkpointed(self, positions: Mapping[str, Position]) -> None:
        """Tell the group, where one is named, how far this is. Nothing rests on it."""
        if not self._informs_group:
            return
        offsets = [
            TopicPartition(
                partition.topic, partition.number, int(positions[partition.name]["offset"])
            )
            for partition in self._partitions.values()
            if partition.name in positions
        ]
        if offsets:
            try:
                self._consumer.commit(offsets=offsets, asynchronous=True)
            except KafkaException as error:
                _log.info("the group was not told: %s", self._scrubbed(error.args[0].str()))

    def status(self) -> list[PartitionStatus]:
        """Every partition; the lag is in messages, as of the broker's last answer."""
        found = [
            PartitionStatus(f"kafka:{topic}", None, None, problem)
            for topic, problem in self._missing.items()
        ]
        for partition in self._partitions.values():
            position = None if partition.next is None else {"offset": partition.next}
            problem = partition.problem or self._trouble
            found.append(PartitionStatus(partition.name, position, self._lag(partition), problem))
        return found

    def _lag(self, partition: _Partition) -> int | None:
        if partition.at_end:
            return 0
        end = self._known_end(partition)
        return None if end is None or partition.next is None else max(0, end - partition.next)

    @property
    def finished(self) -> bool:
        """With ``stop_at_end``: whether every partition has been read to its end."""
        return (
            self._settings.stop_at_end
            and not self._missing
            and all(partition.at_end for partition in self._partitions.values())
        )

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()


def _quiet() -> logging.Logger:
    """librdkafka's own log repeats what :meth:`KafkaSource.status` tells, and may hold secrets."""
    logger = logging.getLogger(f"{__name__}.librdkafka")
    logger.setLevel(logging.CRITICAL)
    return logger
