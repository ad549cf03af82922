"""The order in which predictions and labels are read: labels do not run ahead of a backlog.

A label that waits for its prediction costs more than a prediction that waits for its label.
So while predictions have a backlog, labels are read when enough predictions were read for as
many labels as the last time; without a backlog, all labels are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from streameval.service.sources.raw import LagUnit, PartitionStatus, Position, RawBatch, Source

_BACKLOG = 1_000
"""Records that a source with a backlog returns at once, at least."""

_MOST_BEHIND = 100_000
"""Most predictions that labels which were read ahead delay others for."""

_MOST_EXPECTED = 40_000
"""Most labels that predictions are read in advance for."""


class Interleaving:
    """Decides when labels are read."""

    def __init__(self) -> None:
        self._ahead = 0
        """Predictions read beyond the number of labels."""
        self._expected = 1

    def with_labels(
        self, found: list[RawBatch], read: Callable[[], list[RawBatch]]
    ) -> list[RawBatch]:
        """The predictions that were found just now, and the labels if it is their turn."""
        added = _records(found)
        self._ahead = max(self._ahead, -_MOST_BEHIND) + added
        if added >= _BACKLOG and self._ahead < self._expected:
            return found
        labels = read()
        count = _records(labels)
        # Predictions that the labels did not use do not add up.
        self._ahead = min(self._ahead, added + self._expected) - count
        self._expected = min(max(count, 1), _MOST_EXPECTED)
        return found + labels


def _records(batches: list[RawBatch]) -> int:
    return sum(batch.records for batch in batches)


class PairedSource:
    """Reads a source of predictions and one of labels, both of one kind, interleaved."""

    # One consumer of both topics would return what the broker sends first, often all of one
    # before any of the other.

    def __init__(self, predictions: Source, labels: Source) -> None:
        self._predictions = predictions
        self._labels = labels
        self._interleaving = Interleaving()
        self.lag_unit: LagUnit = predictions.lag_unit

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        """What each of the two reads; the wait is divided between them."""
        found = self._read(most, 0.0)
        if found or not timeout:
            return found
        return self._read(most, timeout / 2)

    def _read(self, most: int, timeout: float) -> list[RawBatch]:
        found = self._predictions.read(most, timeout)
        return self._interleaving.with_labels(found, lambda: self._labels.read(most, timeout))

    def checkpointed(self, positions: Mapping[str, Position]) -> None:
        """Pass the positions to both."""
        self._predictions.checkpointed(positions)
        self._labels.checkpointed(positions)

    def status(self) -> list[PartitionStatus]:
        """The partitions of both."""
        return self._predictions.status() + self._labels.status()

    def close(self) -> None:
        """Close both, also when one fails."""
        with closing(self._labels):
            self._predictions.close()

    @property
    def finished(self) -> bool:
        """Whether both have finished."""
        return self._predictions.finished and self._labels.finished


def interleaved(sources: Sequence[Source]) -> Source:
    """One source of all records: one is given, or two of predictions and of labels."""
    return sources[0] if len(sources) == 1 else PairedSource(*sources)
