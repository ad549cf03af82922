"""Records that meet one at a time: every case there is, by the rules of label_rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streameval.stream.join.coverage import Coverage
from streameval.stream.join.joined_events import JoinedEvents
from streameval.stream.join.label_rules import LABELS, Entry, current_label, judged
from streameval.stream.join.partition_numbers import PartitionNumbers
from streameval.stream.join.waiting import WaitingStore

__all__ = ["Singles"]

_MOST_LABELS = 64
"""Labels of one id that wait for its prediction; more are duplicates."""


class Singles:
    """Takes one record, changes what is known of its id, gives out events and counts.

    Args:
        entries: What is known of each id.
        coverage: Counts what becomes of the records.
        events: What is to be counted and taken back.
        partitions: Their numbers.
        wait_us: Microseconds that a prediction waits for its label, and the other way round.
        remember_us: For how long after that duplicates and corrections are recognised.
    """

    def __init__(
        self,
        entries: WaitingStore,
        coverage: Coverage,
        events: JoinedEvents,
        partitions: PartitionNumbers,
        wait_us: int,
        remember_us: int,
    ) -> None:
        self._entries = entries
        self._coverage = coverage
        self._events = events
        self._partitions = partitions
        self._wait = wait_us
        self._remember = remember_us

    def predict(
        self, partition: str, key: str, entry: Entry, old: Entry | None, *, label: Any = None
    ) -> None:
        """One prediction, with its label if it brings one, whatever is known of its id."""
        begun = entry[1]
        if old is not None and old[0] != LABELS:
            self._coverage.count(partition, "duplicate_predictions")
            if label is not None:
                self.label(partition, key, label, begun, old, inside=True)
            return
        self._coverage.count(partition, "predictions")
        self._coverage.predicted_one(begun)
        waiting: Sequence[tuple[Any, int, int]] = ()
        if old is not None:
            # As long as the labels would have been kept, so that they are superseded for as long.
            entry = (*entry[:5], max(begun, old[5]))
            waiting = old[4]
        self._put(key, entry)
        if label is not None:
            entry = self.label(partition, key, label, begun, entry, inside=True)
        for one, time, number in waiting:
            self._coverage.label_waits_one(time, -1)
            entry = self.label(self._partitions.names[number], key, one, time, entry)

    def _put(self, key: str, entry: Entry) -> None:
        self._entries.put((key,), (entry,), entry[5])

    def label(
        self,
        partition: str,
        key: str,
        label: Any,
        time: int,
        old: Entry | None,
        *,
        inside: bool = False,
    ) -> Entry:
        """One label, whatever is known of its id; what is known of it afterwards."""
        if old is None or old[0] == LABELS:
            return self._keep_label(partition, key, label, time, old)
        count, entry = judged(
            old, label, time, inside=inside, wait=self._wait, remember=self._remember
        )
        if count == "orphans":
            self._coverage.label_waits_one(time)
            return old
        self._coverage.count(partition, "labels")
        self._coverage.count(partition, count)
        if entry is old:
            return old
        self._put(key, entry)
        _, begun, number, payload, _, _ = entry
        before, now = current_label(old), current_label(entry)
        if before is None:
            self._coverage.labelled_one(begun)
            if not inside:
                self._coverage.delays.add_one(time - begun)
        elif before == now:
            return entry
        else:
            self._events.revert(number, (before, begun, payload))
        self._events.add(number, (now,), (begun,), (payload,))
        return entry

    def _keep_label(
        self, partition: str, key: str, label: Any, time: int, old: Entry | None
    ) -> Entry:
        """A label whose prediction has not come."""
        waiting = () if old is None else tuple(old[4])
        if old is not None and len(waiting) >= _MOST_LABELS:
            self._coverage.count(partition, "labels")
            self._coverage.count(partition, "duplicate_labels")
            return old
        labels = (*waiting, (label, time, self._partitions.number(partition)))
        newest = time if old is None else max(time, old[5])
        entry: Entry = (LABELS, newest, 0, None, labels, newest)
        self._put(key, entry)
        self._coverage.label_waits_one(time)
        return entry
