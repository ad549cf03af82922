"""Two sources read as one: labels do not run ahead of predictions that are there to be read."""

from __future__ import annotations

from collections.abc import Mapping

from streameval.stream.batch import Batch, LagUnit, PartitionStatus, Position, Source
from streameval.stream.sources.label_turns import LabelTurns

__all__ = ["PredictionsFirst"]


class PredictionsFirst:
    """Reads a source of predictions and one of labels in turn, as :class:`LabelTurns` says.

    One consumer of both topics would hand out what the broker sends first, often all of one
    before any of the other.

    Args:
        predictions: Read first.
        labels: Read when it is not ahead.
    """

    def __init__(self, predictions: Source, labels: Source) -> None:
        self._predictions = predictions
        self._labels = labels
        self._turns = LabelTurns()

    @property
    def lag_unit(self) -> LagUnit:
        """That of the predictions' source; both are of one kind."""
        return self._predictions.lag_unit

    def read(self, most: int, timeout: float) -> list[Batch]:
        """As each of the two reads; the wait is shared out between them."""
        found = self._read(most, 0.0)
        if found or not timeout:
            return found
        return self._read(most, timeout / 2)

    def _read(self, most: int, timeout: float) -> list[Batch]:
        found = self._predictions.read(most, timeout)
        return self._turns.with_labels(found, lambda: self._labels.read(most, timeout))

    def checkpointed(self, positions: Mapping[str, Position]) -> None:
        """To both."""
        self._predictions.checkpointed(positions)
        self._labels.checkpointed(positions)

    def status(self) -> list[PartitionStatus]:
        """Of both."""
        return self._predictions.status() + self._labels.status()

    def close(self) -> None:
        """Close both, also when one fails."""
        try:
            self._predictions.close()
        finally:
            self._labels.close()

    @property
    def finished(self) -> bool:
        """Whether both have finished."""
        return self._predictions.finished and self._labels.finished
