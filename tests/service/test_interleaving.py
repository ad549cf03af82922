"""Two sources read as one, in the order in which the fewest labels wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.service.sources.interleaving import PairedSource
from streameval.service.sources.raw import Kind, LagUnit, PartitionStatus, Position, RawBatch


class Sizes:
    """A source of batches of given sizes, one at each look; 0 is a look that finds nothing."""

    def __init__(self, kind: Kind, sizes: Sequence[int]) -> None:
        self.kind: Kind = kind
        self.sizes, self.given = list(sizes), 0
        self.waited: list[float] = []
        self.told: list[Mapping[str, Position]] = []
        self.closed = False

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        self.waited.append(timeout)
        size = self.sizes.pop(0) if self.sizes else 0
        if not size:
            return []
        places = range(self.given, self.given + size)
        self.given += size
        return [RawBatch(self.kind, self.kind, [b"{}"] * size, places, {"offset": self.given})]

    def checkpointed(self, positions: Mapping[str, Position]) -> None:
        self.told.append(positions)

    def status(self) -> list[PartitionStatus]:
        return [PartitionStatus(self.kind, {"offset": self.given}, None)]

    def close(self) -> None:
        self.closed = True
        if self.kind == "predictions":
            raise OSError("no longer there")

    @property
    def lag_unit(self) -> LagUnit:
        return "records"

    @property
    def finished(self) -> bool:
        return not self.sizes


def pair(predictions: Sequence[int], labels: Sequence[int]) -> tuple[PairedSource, Sizes, Sizes]:
    first, second = Sizes("predictions", predictions), Sizes("labels", labels)
    return PairedSource(first, second), first, second


def test_labels_that_ran_ahead_wait_for_a_backlog_of_predictions() -> None:
    # The first look at the predictions finds nothing, as when the broker is slower to answer.
    source, predictions, labels = pair([0, *[5_000] * 12], [5_000] * 12)
    source.read(20_000, 0.0)
    assert (predictions.given, labels.given) == (0, 5_000)
    ahead = []
    for _ in range(11):
        source.read(20_000, 0.0)
        ahead.append(labels.given - predictions.given)
    assert (max(ahead), ahead[-1]) == (0, 0)


def test_labels_are_never_shut_out() -> None:
    # In a backlog they come as soon as as many predictions did.
    source, _, labels = pair([0, *[5_000] * 200], [500_000, *[5_000] * 200])
    for _ in range(100):
        source.read(20_000, 0.0)
    assert labels.given > 500_000 + 70 * 5_000


def test_larger_batches_of_labels_come_when_there_is_a_prediction_for_each() -> None:
    source, predictions, labels = pair([5_000] * 60, [6_000] * 50)
    ahead = []
    for _ in range(60):
        source.read(20_000, 0.0)
        ahead.append(predictions.given - labels.given)
    # The first batch shows how many records a read returns.
    assert ahead[0] == -1_000
    assert min(ahead[1:]) >= 0
    assert max(ahead) < 5_000 + 6_000


@given(
    st.lists(st.integers(0, 9_000), max_size=40),
    st.lists(st.integers(0, 9_000), max_size=40),
)
def test_all_is_read_once(predictions: list[int], labels: list[int]) -> None:
    source, _, _ = pair(predictions, labels)
    read = {"predictions": 0, "labels": 0}
    for _ in range(len(predictions) + 3 * len(labels) + 30):
        for batch in source.read(20_000, 0.1):
            read[batch.kind] += len(batch.messages)
    assert read == {"predictions": sum(predictions), "labels": sum(labels)}
    assert source.finished
    assert [status.partition for status in source.status()] == ["predictions", "labels"]


def test_the_wait_is_shared_and_only_where_there_is_nothing() -> None:
    source, predictions, labels = pair([10], [])
    source.read(20_000, 0.1)
    assert predictions.waited == labels.waited == [0.0]
    source.read(20_000, 0.1)
    assert predictions.waited == labels.waited == [0.0, 0.0, 0.05]


def test_both_are_reported_and_closed() -> None:
    source, predictions, labels = pair([], [])
    source.checkpointed({"x": {"offset": 1}})
    assert predictions.told == labels.told == [{"x": {"offset": 1}}]
    with pytest.raises(OSError, match="no longer there"):
        source.close()
    assert predictions.closed
    assert labels.closed
