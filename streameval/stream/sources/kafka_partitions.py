"""Where a topic's partitions begin, how far each has been read, and what is missing of it.

Only arithmetic on offsets: whoever holds the client asks the broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streameval.stream.batch import Kind, PartitionStatus, Position

__all__ = ["Partition", "is_known", "partition_name"]

_RECOVERY_SECONDS = 3.0
"""For so long a broker may have less than was read already, before that is taken for true."""


def partition_name(topic: str, number: int) -> str:
    """As the store and the pages have it.

    >>> partition_name("clicks", 3)
    'kafka:clicks/3'
    """
    return f"kafka:{topic}/{number}"


def is_known(topic: str, positions: Iterable[str]) -> bool:
    """Whether any run on this store has opened a topic, by the partitions that have a position.

    >>> is_known("clicks", ["kafka:clicks/3"]), is_known("clicks", ["kafka:clicks/b/3"])
    (True, False)
    """
    return any(name.rpartition("/")[0] == f"kafka:{topic}" for name in positions)


@dataclass(slots=True)
class Partition:
    """One that has been assigned.

    Attributes:
        next: The offset next to read; None until the broker has told where it begins.
        at_end: Whether all of it has been read.
        problem: What keeps it from being read for now.
        missed: What could not be read and was left out; said as long as the run goes on.
        beyond_since: Since when its position has been beyond what the broker has.
    """

    topic: str
    number: int
    kind: Kind
    next: int | None = None
    at_end: bool = False
    problem: str = ""
    missed: str = ""
    beyond_since: float | None = None

    @property
    def name(self) -> str:
        """As in the store."""
        return partition_name(self.topic, self.number)

    def restore(self, positions: Mapping[str, Position]) -> None:
        """Go on where the store says, if it does."""
        position = positions.get(self.name)
        if position is not None:
            self.next = int(position["offset"])

    def read_to(self, next_offset: int) -> None:
        """Messages have come; this is the offset after the last one."""
        self.next = next_offset
        self.at_end = False
        self.problem = ""
        self.beyond_since = None

    def ended(self, offset: int, end: int | None) -> None:
        """The broker has said that the partition ends here; ``end`` is its newest offset."""
        if self.next is None or self.is_beyond(end):
            # Some brokers call the end what is far behind it.
            return
        # More may have come behind the end that this one tells of.
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
        """Whether the broker's range may only look wrong for a moment.

        A broker that comes back from a crash knows its high watermark from
        some seconds before, until it has looked through its log.
        """
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

    def told(self, low: int, high: int) -> str:
        """What was expected of the broker's range, and what it is."""
        return (
            f"{self.name}: expected to read on at offset {self.next}, "
            f"the broker has {low} to {high}"
        )

    def go_on_at(self, offset: int, told: str) -> None:
        """Leave out what cannot be read."""
        self.missed = f"went on at offset {offset}: {told}"
        self.next = offset
        self.at_end = False
        self.problem = ""
        self.beyond_since = None

    def status(self, end: int | None, trouble: str) -> PartitionStatus:
        """How far it is; ``trouble`` is what ails all partitions."""
        position = None if self.next is None else {"offset": self.next}
        problem = self.problem or trouble
        return PartitionStatus(self.name, position, self.lag(end), problem, self.missed)
