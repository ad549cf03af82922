"""Kafka topics, read by many workers: a consumer group decides which partitions each of them has.

The group's protocol assigns partition numbers and nothing else. One consumer is the member: it
subscribes to the first topic, and fetches nothing. What is assigned to it is read by the consumers
of a KafkaSource for each topic, partition ``n`` of every topic together, from the position in the
store. So two topics that are joined cannot be assigned apart, which the cooperative strategy would
do with a subscription to both, and what is committed to the group decides nothing.
``docs/kafka.md`` lists failures and what is done then.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any, Protocol

import msgspec

from streameval.errors import SourceError
from streameval.service.closing import closed_on_error
from streameval.service.config.source_settings import COOPERATIVE, STRATEGY, KafkaSettings
from streameval.service.sources.interleaving import interleaved
from streameval.service.sources.kafka_client import (
    OFFSET_END,
    KafkaClient,
    KafkaError,
    KafkaException,
    KafkaProperties,
    TopicPartition,
    partition_name,
)
from streameval.service.sources.kafka_consumer import sources_by_topic
from streameval.service.sources.raw import LagUnit, PartitionStatus, Position, RawBatch

_INSTANCE = "group.instance.id"

_ANSWER_SECONDS = 2.0
"""How long a broker may take to answer."""

_LOOK_SECONDS = 10.0
"""Between two looks at the numbers of partitions; before the first answer, a second."""

_RETRY_SECONDS = 1.0
"""Before a unit is opened again that could not be opened, or was taken by another worker."""

_NOT_PERMITTED = {
    KafkaError.GROUP_AUTHORIZATION_FAILED: "READ on the group {group}",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "READ and DESCRIBE on the topics {topics}",
}


class HeldUnits(Protocol):
    """What a worker keeps of the partition numbers that are assigned to it."""

    def open(self, number: int) -> Mapping[str, Position] | None:
        """Claim a number; returns the positions to read from, or None to be called again later."""

    def release(self, numbers: Collection[int], *, write: bool) -> None:
        """Close the open ones; with ``write`` after a checkpoint, if this worker still has them."""


class KafkaGroup:
    """A source whose partitions a consumer group assigns, while it is read."""

    lag_unit: LagUnit = "records"

    def __init__(
        self,
        settings: KafkaSettings,
        units: HeldUnits,
        *,
        owner: str,
        clock: Callable[[], float] = time.monotonic,
        secret: Callable[[str, str], str] = lambda value, key: value,
        stamps: bool = True,
    ) -> None:
        self._units = units
        self._owner = owner
        """Name of the evaluation, committed with positions: another one is refused this group."""
        self._clock = clock
        self._topics = [topic for (topic,) in settings.names().values()]
        self._topic = self._topics[0]
        given = KafkaProperties(settings.properties, secret)
        self._group = str(given.values["group.id"])
        self._assigned: set[int] = set()
        self._read: set[int] = set()
        self._retry_at: dict[int, float] = {}
        self._partitions = 0
        """Partitions that every topic has; 0 before the brokers have reported it."""
        self._looked_at = -_LOOK_SECONDS
        self._problem = ""
        self._failed: SourceError | None = None
        self._is_sole = False
        values = {
            # The leader of a group sees partitions that are added only then; 5 minutes otherwise.
            "topic.metadata.refresh.interval.ms": int(_LOOK_SECONDS * 1000),
            **given.values,
            STRATEGY: COOPERATIVE,
            # It fetches nothing.
            "queued.max.messages.kbytes": 1024,
            "enable.partition.eof": False,
        }
        self.name = str(values.get(_INSTANCE) or f"{socket.gethostname()}-{os.getpid()}")
        self._lock: AbstractContextManager[Any] = nullcontext()
        if _INSTANCE not in values:
            number, self._lock = _locked_number(self._group)
            self.name = values[_INSTANCE] = f"{socket.gethostname()}-{number}"
        elif not values[_INSTANCE]:
            del values[_INSTANCE]
        # The group is the member's affair alone.
        own = {
            key: value for key, value in settings.properties.items() if not key.startswith("group.")
        }
        alone = msgspec.structs.replace(settings, properties=own, partitions=[])
        self._sources = sources_by_topic(alone, {}, clock=clock, secret=secret, stamps=stamps)
        self._data = interleaved(self._sources)
        with closed_on_error(self._data):
            self._member = KafkaClient(values, given.scrubbed, self._note)
        self._member.subscribe(
            [self._topic],
            on_assign=self._on_assign,
            on_revoke=lambda member, taken: self._on_revoke(member, taken, write=True),
            on_lost=lambda member, taken: self._on_revoke(member, taken, write=False),
        )

    # The group

    def _on_assign(self, member: Any, given: list[Any]) -> None:
        for partition in given:
            # The positions are in the store; this consumer fetches nothing.
            partition.offset = OFFSET_END
        member.incremental_assign(given)
        if given:
            member.pause(given)
        self._assigned.update(partition.partition for partition in given)

    def _on_revoke(self, member: Any, taken: list[Any], *, write: bool) -> None:
        numbers = {partition.partition for partition in taken}
        self._assigned -= numbers
        self._stop_reading(numbers)
        self._units.release(numbers, write=write)
        member.incremental_unassign(taken)

    def _note(self, error: Any) -> None:
        """Keep an error of the member: as the end of the run, or as its trouble for now."""
        text = self._member.text(error)
        missing = _NOT_PERMITTED.get(error.code())
        if missing is not None:
            missing = missing.format(group=self._group, topics=" and ".join(self._topics))
            self._failed = SourceError(
                f"kafka: the brokers refuse this worker: {text}; grant it {missing}"
            )
        elif error.fatal():
            self._failed = SourceError(
                f"kafka: the group {self._group} has put this worker ({self.name}) out: {text}; "
                f'give each worker a "{_INSTANCE}" of its own under [kafka.properties]'
            )
        else:
            self._problem = text

    def _poll(self) -> None:
        """Let the group assign and revoke: calls the methods above."""
        message = self._member.poll(0)
        if message is not None and message.error() is not None:
            self._note(message.error())
        if self._failed is not None:
            raise self._failed

    # The numbers of partitions

    def _look(self) -> None:
        """Compare the numbers of partitions of the topics, now and then."""
        now = self._clock()
        if now - self._looked_at < (_LOOK_SECONDS if self._partitions else 1.0):
            return
        self._looked_at = now
        counts: dict[str, int] = {}
        for topic in self._topics:
            try:
                found = self._member.topic(topic)
            except KafkaException as error:
                self._problem = f"no broker answers: {self._member.text(error)}"
                return
            if found.error is not None or not found.partitions:
                self._problem = f"waiting for the topic {topic} to be made"
                return
            counts[topic] = len(found.partitions)
        self._problem = ""
        if len(set(counts.values())) > 1:
            self._problem = _unequal(counts)
            if not self._partitions:
                raise SourceError(f"kafka: {self._problem}")
        self._partitions = max(self._partitions, min(counts.values()))

    def _check_owner(self) -> None:
        """Refuse a group whose positions another evaluation has committed."""
        wanted = [TopicPartition(self._topic, number) for number in range(self._partitions)]
        try:
            found = self._member.committed(wanted, timeout=_ANSWER_SECONDS)
        except KafkaException as error:
            self._note(error.args[0])
            return
        others = {one.metadata for one in found if one.metadata} - {self._owner}
        if others:
            raise SourceError(
                f"kafka: the group {self._group} belongs to the evaluation in {min(others)}, got "
                f"{self._owner}; each would read a part of the topics only: give this one a "
                '"group.id" of its own'
            )
        self._is_sole = True

    # Reading

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        """New messages of the partitions that are assigned now, by partition."""
        self._poll()
        self._look()
        if self._partitions and self._assigned - self._read:
            if not self._is_sole:
                # Only now: while the group makes up its mind its coordinator answers nothing else.
                self._check_owner()
            if self._is_sole:
                self._open_assigned()
        return self._data.read(most, timeout)

    def _open_assigned(self) -> None:
        for number in sorted(self._assigned - self._read):
            if number not in self._assigned or number >= self._partitions:
                continue
            if self._retry_at.get(number, 0.0) > self._clock():
                continue
            positions = self._units.open(number)
            if positions is None:
                self._retry_at[number] = self._clock() + _RETRY_SECONDS
            else:
                self._read.add(number)
                for source in self._sources:
                    source.add(number, positions)
            # A restore takes its time, and the group must not take this worker for dead.
            self._poll()

    def drop(self, number: int) -> None:
        """Stop reading a number whose unit was closed; a while later it may be opened again."""
        self._retry_at[number] = self._clock() + _RETRY_SECONDS
        self._stop_reading({number})

    def _stop_reading(self, numbers: Collection[int]) -> None:
        read = self._read & set(numbers)
        self._read -= read
        if read:
            for source in self._sources:
                source.remove(read)

    def names(self, number: int) -> list[str]:
        """The partitions of a number, as the store has them."""
        return [partition_name(topic, number) for topic in self._topics]

    # State

    def checkpointed(self, positions: Mapping[str, Position]) -> None:
        """Commit to the group, for other tools; the positions in the store decide."""
        offsets = [
            TopicPartition(topic, number, int(positions[name]["offset"]), self._owner)
            for number in self._read
            for topic in self._topics
            if (name := partition_name(topic, number)) in positions
        ]
        self._member.commit_for_others(offsets)

    def status(self) -> list[PartitionStatus]:
        """The partitions that are read, and what keeps others from it."""
        found = self._data.status() if self._read else []
        if self._problem:
            found.append(PartitionStatus(f"kafka:group {self._group}", None, None, self._problem))
        return found

    @property
    def finished(self) -> bool:
        """Never: what one worker leaves, another takes over."""
        return False

    def close(self) -> None:
        """Leave the group, unless this worker has a name, which keeps its place for a while."""
        with self._lock, closing(self._data):
            self._member.close()


def _unequal(counts: Mapping[str, int]) -> str:
    """Two topics that cannot be shared out, in words."""
    first, second = counts.items()
    fewer = min(counts, key=counts.__getitem__)
    return (
        f"the topic {first[0]} has {first[1]} partitions and {second[0]} has {second[1]}; with "
        'assignment = "group" a worker reads partition n of both, so they need the same number '
        f'and the same keys: add partitions to {fewer}, or set assignment = "own"'
    )


def _locked_number(group: str) -> tuple[int, AbstractContextManager[Any]]:
    """The smallest number that no other worker of a group has on this machine, and its lock."""
    # A lock of the operating system holds it, so a worker that is started after another was killed
    # has the name of that worker, and with it its partitions in the group.
    name = f"streameval-{os.getuid()}-{hashlib.sha256(group.encode()).hexdigest()[:16]}"
    path = os.path.join(tempfile.gettempdir(), name)
    number = 0
    while True:
        try:
            file = open(f"{path}-{number}", "ab")  # noqa: SIM115 - held until it is closed
        except OSError:
            # No directory to write to, as in a container, which has a name of its own.
            return number, nullcontext()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number, file
        except OSError:
            file.close()
            number += 1
