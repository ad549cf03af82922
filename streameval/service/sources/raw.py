"""Batches of records, and what a source is: how it is opened and read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeAlias

from streameval.events.values import IntArray
from streameval.records.chunk import RecordError
from streameval.records.event_columns import EventColumns
from streameval.service.config.source_settings import KINDS as KINDS
from streameval.service.config.source_settings import Kind as Kind

LagUnit: TypeAlias = Literal["records", "bytes"]

Position: TypeAlias = Mapping[str, int | str]
"""The position *next to read* in a partition: plain values, kept in the store as JSON."""


@dataclass(slots=True)
class RawBatch:
    """Raw records of one partition, in its order; one without any only moves the position."""

    partition: str
    """Unique in the run: ``kafka:clicks/3``, ``files:/data/a.jsonl``, ``http:labels``. One that
    ends with a colon is no partition: its position holds other data of the source."""
    kind: Kind
    messages: list[bytes]
    """One JSON object each, undecoded."""
    places: Sequence[int] | IntArray
    """The offset of each message, ascending."""
    next: Position
    """The position after the last one."""
    times: Sequence[int] | IntArray | None = None
    """Microseconds since 1970 when each was written, by the clock of the broker or inbox; None
    where it is unknown."""
    bad: list[RecordError] = field(default_factory=list)
    """Records that the source itself refuses, such as a line that is too long."""

    @property
    def records(self) -> int:
        """The number of records, with the bad ones."""
        return len(self.messages) + len(self.bad)


class PartitionStatus(NamedTuple):
    """How far a partition has been read."""

    partition: str
    position: Position | None
    lag: int | None
    """What is there and not yet read, in the source's ``lag_unit``; None: unknown."""
    problem: str = ""
    """In words, while something keeps it from being read."""
    missed: str = ""
    """In words, what was skipped because it could not be read; kept until the run ends."""
    unopened: bool = False
    """Whether the problem is that something cannot be opened, and so was not read."""


class Source(Protocol):
    """Reads records, on one thread; a restart at the last positions repeats and loses none."""

    @property
    def lag_unit(self) -> LagUnit:
        """The unit of its partitions' lags."""

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        """Up to about ``most`` records; waits ``timeout`` seconds at most; may be empty."""

    def checkpointed(self, positions: Mapping[str, Position]) -> None:
        """These positions are durable: records before them are not read again."""

    def status(self) -> list[PartitionStatus]:
        """Every partition."""

    def close(self) -> None:
        """Close files and connections."""

    @property
    def finished(self) -> bool:
        """Whether the source has ended: it does not follow, and all was read."""


class SourceContext(NamedTuple):
    """What a source is opened with."""

    positions: Mapping[str, Position]
    """The positions to read from, by partition."""
    resolve: Callable[[str, str], str]
    """From ``env:NAME`` or ``file:PATH``, and the key it is the value of, to the secret."""
    stamps: bool
    """Whether the time at which a record was written is needed."""
    inbox: Path
    """The directory beside the store in which a source may keep records."""
    clock: Callable[[], float] = time.time
    """Seconds since 1970, for the times at which records arrive."""


@dataclass(slots=True)
class Decoded:
    """A batch after decoding: predictions, labels, records that are both, and bad ones."""

    # The columns are ``id`` (list of str), ``y_true``, ``y_pred``, ``score``, ``proba`` (list of
    # dicts), ``weight``, ``time`` (int64 microseconds) and ``slice:KEY``, as the settings name
    # them. Numbers are numpy arrays; labels are a list, or an array of 0 and 1.

    partition: str
    predictions: EventColumns | None = None
    labels: EventColumns | None = None
    complete: EventColumns | None = None
    bad: list[RecordError] = field(default_factory=list)

    def parts(self) -> list[EventColumns]:
        """Predictions, complete records and labels, without empty ones."""
        found = (self.predictions, self.complete, self.labels)
        return [records for records in found if records is not None and records.rows]
