"""Kafka topics, read by assigned partitions and not by a group's assignment.

Positions are kept in the store with the counts up to them, and committed to a
consumer group, where one is named, for information only. So a crash, a rebalance
or a lost commit can neither skip a message nor count one twice. ``docs/kafka.md`` lists failures
and what is done then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import compress, groupby
from operator import itemgetter
from typing import Any

import numpy as np

from streameval.errors import SourceError
from streameval.events.values import IntArray
from streameval.records.chunk import RecordError
from streameval.service.config.source_settings import KafkaSettings
from streameval.service.sources.kafka_client import (
    OFFSET_BEGINNING,
    KafkaClient,
    KafkaError,
    KafkaException,
    KafkaProperties,
    Message,
    TopicPartition,
    partition_name,
)
from streameval.service.sources.raw import LagUnit, PartitionStatus, Position, RawBatch

_log = logging.getLogger(__name__)

_MOMENT = itemgetter(1)
"""The second item of a message's time stamp; the first says which clock it was."""

_CONSUME = 2_500
_CONSUME_SECONDS = 0.05
"""librdkafka waits to fill a call's number, so near a topic's end its time is the delay."""

_NO_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)

_LOSS_SECONDS = 0.2
"""Between two looks at what the broker has: each that finds a loss ends a fetch."""

_LOOK_SECONDS = 10.0
"""Between two looks for new partitions; while one is missing it is looked for each second."""

_RECOVERY_SECONDS = 3.0
"""For so long after a restart a broker may report fewer messages than were read."""


class KafkaSource:
    """Reads one topic, all its partitions or some; raises ConfigError for a wrong property."""

    lag_unit: LagUnit = "records"

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
        ((self._kind, (self._topic,)),) = settings.names().items()
        chosen = settings.partitions
        self._chosen: set[int] | None = None if chosen is None else set(chosen)
        properties = KafkaProperties(settings.properties, secret)
        self._informs_group = "group.id" in settings.properties
        self._trouble = ""
        self._missing = "has not been looked for yet"
        """Why the topic or one of its partitions is not read."""
        self._partitions: dict[int, Partition] = {}
        self._moves: list[RawBatch] = []
        """Positions to be stored without a message."""
        self._look_at = self._loss_at = clock()
        self._consumer = KafkaClient(properties.values, properties.scrubbed, self._on_error)

    def _on_error(self, error: KafkaError) -> None:
        self._trouble = self._consumer.text(error)

    # Partitions

    def _look(self) -> None:
        """Assign the partitions that are there and not assigned yet."""
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + (1.0 if self._missing else _LOOK_SECONDS)
        try:
            found = self._consumer.topic(self._topic)
        except KafkaException as error:
            if self._missing:
                why = self._trouble or self._consumer.text(error)
                self._missing = f"no broker answers: {why}"
            return
        if found.error is not None or not found.partitions:
            words = "" if found.error is None else self._consumer.text(found.error)
            self._missing = f"waiting for the topic to be made: {words}"
            if found.error is not None and found.error.code() in _NO_TOPIC:
                self._begin(())
            return
        if not self._begin(found.partitions):
            return
        self._missing = self._trouble = ""
        numbers = set(found.partitions)
        if self._chosen is not None:
            if absent := sorted(self._chosen - numbers):
                self._missing = f"waiting for partitions {absent} to be made"
            numbers &= self._chosen
        new = []
        for number in sorted(numbers - self._partitions.keys()):
            known = self._positions.get(partition_name(self._topic, number))
            start = None if known is None else int(known["offset"])
            partition = self._partitions[number] = Partition(self._topic, number, start)
            new.append(partition.target)
        if new:
            self._consumer.incremental_assign(new)

    def _begin(self, there: Collection[int]) -> bool:
        """Fix the start of a topic that no run has opened; False if a broker does not report it."""
        # All its partitions at once, and so that they are stored together: after
        # that a partition without a position is one that has been added. One that
        # is not there yet has nothing before its beginning, and neither has a
        # topic's first partition.
        if self._settings.start == "earliest" or is_known(self._topic, self._positions):
            return True
        ends: dict[str, int] = {}
        for number in sorted(there) or [0] if self._chosen is None else sorted(self._chosen):
            end = 0
            if number in there:
                try:
                    _, end = self._consumer.bounds(self._topic, number)
                except KafkaException as error:
                    why = self._consumer.text(error)
                    self._missing = f"the broker does not report its end: {why}"
                    return False
            ends[partition_name(self._topic, number)] = end
        for name, end in ends.items():
            self._positions[name] = {"offset": end}
            self._move(name, end)
        return True

    def _move(self, name: str, offset: int) -> None:
        """Let a position be stored without a message."""
        self._moves.append(RawBatch(name, self._kind, [], [], {"offset": offset}))

    def add(self, number: int, positions: Mapping[str, Position]) -> None:
        """Read a partition too, from its position or its beginning."""
        assert self._chosen is not None
        name = partition_name(self._topic, number)
        self._positions.pop(name, None)
        if name in positions:
            self._positions[name] = positions[name]
        self._chosen.add(number)
        self._look_at = self._clock()

    def remove(self, numbers: Collection[int]) -> None:
        """Read these partitions no longer; messages that were fetched are dropped."""
        assert self._chosen is not None
        self._chosen.difference_update(numbers)
        gone = [self._partitions.pop(one) for one in numbers if one in self._partitions]
        names = {partition.name for partition in gone}
        self._moves = [batch for batch in self._moves if batch.partition not in names]
        if gone:
            self._consumer.incremental_unassign([partition.target for partition in gone])

    # Reading

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        """New messages by partition; a batch without messages only moves a position."""
        self._look()
        found = self._moved()
        wait = min(timeout, _CONSUME_SECONDS)
        messages = self._consumer.consume(min(most, _CONSUME), wait)
        # map() over methods: a call of each in a comprehension takes three times as long.
        failed = []
        if any(map(Message.error, messages)):
            failed = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
        found += self._batches(messages)
        for message in failed:
            self._on_partition_error(message)
        self._look_for_loss()
        return found + self._moved()

    def _moved(self) -> list[RawBatch]:
        moves, self._moves = self._moves, []
        return moves

    def _batches(self, messages: list[Any]) -> list[RawBatch]:
        """A batch for each run of messages of one partition."""
        if not messages:
            return []
        if len(self._partitions) == 1:
            (partition,) = self._partitions.values()
            return [self._batch(partition, messages)]
        # As fetched from a broker, thousands of one partition follow one another.
        numbers: list[Any] = list(map(Message.partition, messages))
        if numbers.count(numbers[0]) == len(numbers):
            return [self._batch(self._partitions[numbers[0]], messages)]
        batches = []
        start = 0
        for number, run in groupby(numbers):
            stop = start + len(list(run))
            batches.append(self._batch(self._partitions[number], messages[start:stop]))
            start = stop
        return batches

    def _batch(self, partition: Partition, messages: list[Any]) -> RawBatch:
        values: list[Any] = list(map(Message.value, messages))
        first, after = messages[0].offset(), messages[-1].offset() + 1
        places: Any = range(first, after)
        if len(places) != len(messages):  # transactions and compaction leave gaps
            places = list(map(Message.offset, messages))
        times: IntArray | None = None
        if self._stamps:
            moments = map(_MOMENT, map(Message.timestamp, messages))
            times = np.fromiter(moments, np.int64, len(messages)) * 1_000
        bad: list[RecordError] = []
        if None in values:
            error = RecordError("record", "a JSON object", "a message without a value")
            there = [value is not None for value in values]
            bad = [
                error.at(partition.name, place)
                for place, value in zip(places, values, strict=True)
                if value is None
            ]
            values, places = list(compress(values, there)), list(compress(places, there))
            times = None if times is None else times[there]
        partition.read_to(after)
        self._trouble = ""
        position = {"offset": after}
        return RawBatch(partition.name, self._kind, values, places, position, times, bad)

    def _on_partition_error(self, message: Any) -> None:
        error = message.error()
        partition = self._partitions.get(message.partition())
        if partition is None:
            self._trouble = self._consumer.text(error)
            return
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            if partition.next is None:
                partition.next = message.offset()
                self._move(partition.name, partition.next)
            partition.ended(message.offset(), self._known_end(partition))
            self._trouble = ""
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._out_of_range(partition)
        else:
            partition.problem = self._consumer.text(error)

    def _look_for_loss(self) -> None:
        """Not every broker that has lost its data reports that a position is out of range."""
        now = self._clock()
        if now < self._loss_at:
            return
        self._loss_at = now + _LOSS_SECONDS
        for partition in self._partitions.values():
            if partition.is_beyond(self._known_end(partition)):
                self._out_of_range(partition)

    def _known_end(self, partition: Partition) -> int | None:
        return self._consumer.known_end(partition.topic, partition.number)

    def _out_of_range(self, partition: Partition) -> None:
        try:
            low, high = self._consumer.bounds(partition.topic, partition.number)
        except KafkaException as error:
            # The next fetch reports the error again.
            partition.problem = self._consumer.text(error)
            self._restart(partition)
            return
        if not partition.may_be_recovering(low, high, self._clock()):
            problem = (
                f"{partition.name}: expected to read on at offset {partition.next}, "
                f"the broker has {low} to {high}"
            )
            policy = self._settings.out_of_range
            if policy == "stop":
                raise SourceError(
                    f'{problem}; set kafka.out_of_range to "earliest" or "latest" to go on without '
                    "what is missing"
                )
            start = low if policy == "earliest" else high
            _log.warning("%s; goes on at %s, as kafka.out_of_range says", problem, start)
            partition.missed = f"went on at offset {start}: {problem}"
            partition.read_to(start)
            # At once: a crash now, and the next run would begin at another newest offset.
            self._move(partition.name, start)
        self._restart(partition)

    def _restart(self, partition: Partition) -> None:
        """Fetch on from its position, after an error that has ended it."""
        self._consumer.incremental_unassign([partition.target])
        self._consumer.incremental_assign([partition.target])

    # State

    def checkpointed(self, positions: Mapping[str, Position]) -> None:
        """Commit to the group, where one is named; the positions in the store decide."""
        if self._informs_group:
            offsets = [
                TopicPartition(one.topic, one.number, int(positions[one.name]["offset"]))
                for one in self._partitions.values()
                if one.name in positions
            ]
            self._consumer.commit_for_others(offsets)

    def status(self) -> list[PartitionStatus]:
        """Every partition; the lag is in messages, as of the broker's last answer."""
        found = []
        if self._missing:
            found.append(PartitionStatus(f"kafka:{self._topic}", None, None, self._missing))
        for partition in self._partitions.values():
            found.append(partition.status(self._known_end(partition), self._trouble))
        return found

    @property
    def finished(self) -> bool:
        """With ``stop_at_end``: whether every partition has been read to its end."""
        return (
            self._settings.stop_at_end
            and not self._missing
            and all(partition.at_end for partition in self._partitions.values())
        )

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


def sources_by_topic(
    settings: KafkaSettings, positions: Mapping[str, Position], **options: Any
) -> list[KafkaSource]:
    """A source for each topic, predictions before labels; all are open or none is."""
    with ExitStack() as stack:
        opened = [
            stack.enter_context(closing(KafkaSource(one, positions, **options)))
            for one in settings.by_topic()
        ]
        stack.pop_all()
    return opened


def is_known(topic: str, positions: Iterable[str]) -> bool:
    """Whether any run on this store has opened a topic: one of its partitions has a position."""
    return any(name.rpartition("/")[0] == f"kafka:{topic}" for name in positions)


@dataclass(slots=True)
class Partition:
    """An assigned partition."""

    topic: str
    number: int
    next: int | None = None
    """The offset next to read; None until the broker has reported its beginning."""
    at_end: bool = False
    problem: str = ""
    """What keeps it from being read for now."""
    missed: str = ""
    """What could not be read and was skipped; reported until the run ends."""
    beyond_since: float | None = None
    """Since when its position has been beyond what the broker has."""

    @property
    def name(self) -> str:
        """The partition's name in the store."""
        return partition_name(self.topic, self.number)

    @property
    def target(self) -> TopicPartition:
        """The partition as it is assigned to the client, from the offset next to read."""
        start = OFFSET_BEGINNING if self.next is None else self.next
        return TopicPartition(self.topic, self.number, start)

    def read_to(self, next_offset: int) -> None:
        """Messages were read; this is the offset after the last one."""
        self.next = next_offset
        self.at_end = False
        self.problem = ""
        self.beyond_since = None

    def ended(self, offset: int, end: int | None) -> None:
        """The broker has reported the end of the partition; ``end`` is its newest offset."""
        if self.next is None or self.is_beyond(end):
            # Some brokers report an end far behind the newest offset.
            return
        # Messages may have been added since this end was reported.
        self.at_end = offset >= self.next
        self.problem = ""
        self.beyond_since = None

    def is_beyond(self, end: int | None) -> bool:
        """Whether more was read than the broker has."""
        return self.next is not None and end is not None and end < self.next

    def lag(self, end: int | None) -> int | None:
        """Messages that are there and not read; None while that cannot be known."""
        if self.beyond_since is not None or self.is_beyond(end):
            return None
        if self.at_end:
            return 0
        return None if end is None or self.next is None else end - self.next

    def may_be_recovering(self, low: int, high: int, now: float) -> bool:
        """Whether the broker's range may only look wrong for a moment."""
        # A broker that restarts after a crash reports a high watermark that is some seconds old
        # until it has scanned its log.
        if self.next is None or self.next < low:
            return False
        if self.next <= high:
            self.beyond_since = None
            return True
        if self.beyond_since is None:
            self.beyond_since = now
        self.at_end = False
        self.problem = f"waiting for offset {self.next}, the broker has {low} to {high}"
        return now - self.beyond_since < _RECOVERY_SECONDS

    def status(self, end: int | None, trouble: str) -> PartitionStatus:
        """Position and lag; ``trouble`` is a problem of the client and so of all partitions."""
        position = None if self.next is None else {"offset": self.next}
        problem = self.problem or trouble
        return PartitionStatus(self.name, position, self.lag(end), problem, self.missed)
