"""When labels are read, beside predictions that are there to be read."""

from __future__ import annotations

from collections.abc import Callable

from streameval.stream.batch import Batch

__all__ = ["LabelTurns"]

_BACKLOG = 1_000
"""A source that gives so many records at once has more of them."""

_MOST_BEHIND = 100_000
"""Labels that were read ahead hold others back for no longer than so many predictions."""

_MOST_EXPECTED = 40_000
"""For no more labels than these are predictions read in advance."""


class LabelTurns:
    """Whether it is the labels' turn to be read.

    A label that waits for its prediction costs more than a prediction that waits for its label.
    So while predictions have a backlog, labels are read when there is a prediction for each of
    them, should as many come as the last time; when there is none, all labels that there are.
    """

    def __init__(self) -> None:
        self._ahead = 0
        """Predictions read beyond the number of labels."""
        self._expected = 1

    def with_labels(self, found: list[Batch], read: Callable[[], list[Batch]]) -> list[Batch]:
        """The predictions that were found just now, and the labels if it is their turn."""
        came = _records(found)
        self._ahead = max(self._ahead, -_MOST_BEHIND) + came
        if came >= _BACKLOG and self._ahead < self._expected:
            return found
        labels = read()
        count = _records(labels)
        # What the labels did not use is not kept for later.
        self._ahead = min(self._ahead, came + self._expected) - count
        self._expected = min(max(count, 1), _MOST_EXPECTED)
        return found + labels


def _records(batches: list[Batch]) -> int:
    return sum(len(batch.messages) + len(batch.bad) for batch in batches)
