"""Kafka topics, read by assigned partitions and not by a group's assignment.

Positions are kept in the store with the counts up to them, and committed to a
consumer group, where one is named, for information only. So a crash, a rebalance
or a lost commit can neither skip a message nor count one twice.

Failures and their handling:

- A topic does not exist, or no broker answers: the source waits, and its status reports it.
- A broker restarts: reading continues at the same offset.
- Partitions are added: they are found within ten seconds, and read from their beginning.
  With ``start = "latest"`` only what is there when a store's first run opens the topic
  begins at its end, and these positions are returned as batches without messages.
- A position is out of the broker's range, because retention has passed it or the broker lost its
  data: ``out_of_range`` decides. ``stop`` raises SourceError; ``earliest`` and ``latest`` continue
  there, and report what was missed.
- A message without a value is bad; all others are decoded.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import compress, groupby
from operator import itemgetter
from typing import Any

import numpy as np

from streameval.errors import SourceError
from streameval.events.values import IntArray
from streameval.records.chunk import RecordError
from streameval.service.config.source_settings import KafkaSettings, Kind
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
"""Of a message's time stamp; before it stands which clock it was."""

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
    """Reads one topic or two, all their partitions or some."""

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
        self._topics = {topic: kind for kind, (topic,) in settings.names().items()}
        chosen = settings.partitions
        self._chosen: set[int] | None = None if chosen is None else set(chosen)
        properties = KafkaProperties(settings.properties, secret)
        self._informs_group = "group.id" in settings.properties
        self._trouble = ""
        self._missing: dict[str, str] = dict.fromkeys(self._topics, "has not been looked for yet")
        self._partitions: dict[tuple[str, int], Partition] = {}
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
        new: list[Any] = []
        for topic, kind in self._topics.items():
            try:
                found = self._consumer.topic(topic)
            except KafkaException as error:
                if topic in self._missing:
                    why = self._trouble or self._consumer.text(error)
                    self._missing[topic] = f"no broker answers: {why}"
                continue
            if found.error is not None or not found.partitions:
                words = "" if found.error is None else self._consumer.text(found.error)
                self._missing[topic] = f"waiting for the topic to be made: {words}"
                if found.error is not None and found.error.code() in _NO_TOPIC:
                    self._begin(topic, kind, ())
                continue
            if not self._begin(topic, kind, found.partitions):
                continue
            self._missing.pop(topic, None)
            self._trouble = ""
            for number in self._wanted(topic, found.partitions):
                if (topic, number) not in self._partitions:
                    known = self._positions.get(partition_name(topic, number))
                    start = None if known is None else int(known["offset"])
                    partition = Partition(topic, number, kind, start)
                    self._partitions[topic, number] = partition
                    new.append(_assignment(partition))
        if new:
            self._consumer.incremental_assign(new)

    def _begin(self, topic: str, kind: Kind, there: Iterable[int]) -> bool:
        """Fix the start of a topic that no run has opened; False if a broker does not report it."""
        # All its partitions at once, and so that they are stored together: after
        # that a partition without a position is one that has been added. One that
        # is not there yet has nothing before its beginning, and neither has a
        # topic's first partition.
        if self._settings.start == "earliest" or is_known(topic, self._positions):
            return True
        there = set(there)
        ends: dict[str, Position] = {}
        chosen = self._chosen
        for number in (sorted(there) or [0]) if chosen is None else sorted(chosen):
            end = 0
            if number in there:
                try:
                    _, end = self._consumer.bounds(topic, number)
                except KafkaException as error:
                    why = self._consumer.text(error)
                    self._missing[topic] = f"the broker does not report its end: {why}"
                    return False
            ends[partition_name(topic, number)] = {"offset": end}
        self._positions.update(ends)
        self._moves += [RawBatch(name, kind, [], [], position) for name, position in ends.items()]
        return True

    def _wanted(self, topic: str, there: Iterable[int]) -> list[int]:
        if self._chosen is None:
            return sorted(there)
        absent = sorted(self._chosen - set(there))
        if absent:
            self._missing[topic] = f"waiting for partitions {absent} to be made"
        return sorted(self._chosen & set(there))

    def add(self, number: int, positions: Mapping[str, Position]) -> None:
        """Read a partition number of each topic too, from its position or its beginning."""
        assert self._chosen is not None
        for topic in self._topics:
            name = partition_name(topic, number)
            self._positions.pop(name, None)
            if name in positions:
                self._positions[name] = positions[name]
        self._chosen.add(number)
        self._look_at = self._clock()

    def remove(self, numbers: Collection[int]) -> None:
        """Read these partition numbers no longer; messages that were fetched are dropped."""
        assert self._chosen is not None
        self._chosen.difference_update(numbers)
        gone = [key for key in self._partitions if key[1] in numbers]
        names = {self._partitions.pop(key).name for key in gone}
        self._moves = [batch for batch in self._moves if batch.partition not in names]
        if gone:
            self._consumer.incremental_unassign([TopicPartition(*key) for key in gone])

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
        numbers: list[Any] = list(map(Message.partition, messages))
        keys, partitions = numbers, dict[Any, Partition](self._partitions)
        if len(self._topics) == 1:
            partitions = {number: one for (_, number), one in partitions.items()}
        else:
            keys = list(zip(map(Message.topic, messages), numbers, strict=True))
        # As fetched from a broker, thousands of one partition follow one another.
        if keys.count(keys[0]) == len(keys):
            return [self._batch(partitions[keys[0]], messages)]
        batches = []
        start = 0
        for key, run in groupby(keys):
            stop = start + len(list(run))
            batches.append(self._batch(partitions[key], messages[start:stop]))
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
        return RawBatch(partition.name, partition.kind, values, places, position, times, bad)

    def _on_partition_error(self, message: Any) -> None:
        error = message.error()
        partition = self._partitions.get((message.topic(), message.partition()))
        if partition is None:
            self._trouble = self._consumer.text(error)
            return
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            if partition.next is None:
                partition.next = message.offset()
                self._store(partition)
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
            self._store(partition)
        self._restart(partition)

    def _store(self, partition: Partition) -> None:
        if partition.next is not None:
            position = {"offset": partition.next}
            self._moves.append(RawBatch(partition.name, partition.kind, [], [], position))

    def _restart(self, partition: Partition) -> None:
        """Fetch on from its position, after an error that has ended it."""
        self._consumer.incremental_unassign([TopicPartition(partition.topic, partition.number)])
        self._consumer.incremental_assign([_assignment(partition)])

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
        found = [
            PartitionStatus(f"kafka:{topic}", None, None, problem)
            for topic, problem in self._missing.items()
        ]
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
    opened: list[KafkaSource] = []
    try:
        for one in settings.by_topic():
            opened.append(KafkaSource(one, positions, **options))
    except BaseException:
        for source in opened:
            source.close()
        raise
    return opened


def _assignment(partition: Partition) -> Any:
    start = OFFSET_BEGINNING if partition.next is None else partition.next
    return TopicPartition(partition.topic, partition.number, start)


def is_known(topic: str, positions: Iterable[str]) -> bool:
    """Whether any run on this store has opened a topic: one of its partitions has a position."""
    return any(name.rpartition("/")[0] == f"kafka:{topic}" for name in positions)


@dataclass(slots=True)
class Partition:
    """An assigned partition."""

    topic: str
    number: int
    kind: Kind
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
        """As in the store."""
        return partition_name(self.topic, self.number)

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
