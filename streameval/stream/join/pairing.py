"""Predictions and labels of one id find each other, a batch of columns at a time.

What is common (a new prediction, the first label of one that waits, or the other way
round) is done by columns. Whatever else there is (duplicates, corrections, an id
twice in a batch) is done one by one, in :mod:`singles`; columns only save time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress, islice, repeat
from typing import Any, NamedTuple

import numpy as np

from streameval.events import IntArray
from streameval.stream.batch import Records
from streameval.stream.join.coverage import Coverage
from streameval.stream.join.joined_events import JoinedEvents
from streameval.stream.join.label_rules import INSIDE, LABELS, MET, WAITS, Entry
from streameval.stream.join.partition_numbers import PartitionNumbers
from streameval.stream.join.singles import Singles
from streameval.stream.join.waiting import WaitingStore

__all__ = ["Pairing"]


class _Met(NamedTuple):
    """Labels and predictions that meet, by columns."""

    ids: Sequence[str]
    labels: Sequence[Any]
    times: IntArray
    """Of the labels."""
    moments: Sequence[int]
    """Times of the predictions."""
    numbers: Sequence[int]
    """Of the predictions' partitions."""
    payloads: Sequence[Sequence[Any]]
    newest: Sequence[int]
    """Up to when what is known of the id was kept."""


class Pairing:
    """Takes records, changes what is known of their ids, gives out events and counts.

    Args:
        entries: What is known of each id.
        coverage: Counts what becomes of the records.
        layout: The prediction's columns, without ``id`` and ``time``.
        wait_us: Microseconds that a prediction waits for its label, and the other way round.
        remember_us: For how long after that duplicates and corrections are recognised.
        partitions: Their numbers.
    """

    def __init__(
        self,
        entries: WaitingStore,
        coverage: Coverage,
        *,
        layout: Sequence[str],
        wait_us: int,
        remember_us: int,
        partitions: PartitionNumbers,
    ) -> None:
        self._entries = entries
        self._coverage = coverage
        self._layout = tuple(layout)
        self._wait = wait_us
        self._partitions = partitions
        self.events = JoinedEvents(self._layout)
        self._singles = Singles(entries, coverage, self.events, partitions, wait_us, remember_us)

    def _payloads(self, records: Records) -> list[Sequence[Any]]:
        columns = [_values(records.columns.get(name)) for name in self._layout]
        if not columns:
            return [()] * records.rows
        return list(islice(zip(*columns), records.rows))  # noqa: B905 - repeat() has no end

    # Predictions

    def predictions(self, partition: str, records: Records, times: IntArray) -> None:
        """Predictions without labels."""
        ids: list[str] = records.columns["id"]  # type: ignore[assignment]
        payloads = self._payloads(records)
        number = self._partitions.number(partition)
        moments = times.tolist()
        entries: list[Entry] = list(
            zip(
                repeat(WAITS),
                moments,
                repeat(number),
                payloads,
                repeat(None),
                moments,
                strict=False,
            )
        )
        known = self._entries.add(ids, entries, int(times.min()))
        if known:
            early, others = self._sorted_out(ids, entries, known)
            if early:
                self._meet_early([(ids[n], entries[n], known[n]) for n in early])
            for n in others:
                # What the first of an id does, the second has to see.
                old = self._entries.latest(ids[n], known[n])
                self._singles.predict(partition, ids[n], entries[n], old)
            new = np.ones(len(ids), dtype=np.bool_)
            new[others] = False
            times = times[new]
        self._coverage.count(partition, "predictions", len(times))
        self._coverage.predicted(times)

    def _sorted_out(
        self, ids: list[str], entries: list[Entry], known: dict[int, Entry]
    ) -> tuple[list[int], list[int]]:
        """Places of predictions that one label in time waits for, and all others."""
        early: list[int] = []
        others: list[int] = []
        wait = self._wait
        repeated = _repeated([ids[n] for n in known])
        for n in sorted(known):
            kind, _, _, _, labels, _ = known[n]
            if (
                kind == LABELS
                and len(labels) == 1
                and -wait <= labels[0][1] - entries[n][1] <= wait
                and ids[n] not in repeated
            ):
                early.append(n)
            else:
                others.append(n)
        return early, others

    def _meet_early(self, found: list[tuple[str, Entry, Entry]]) -> None:
        """Ids, predictions and what waited for each, one label: by columns."""
        by_partition: dict[int, list[tuple[str, Entry, Entry]]] = {}
        for one in found:
            by_partition.setdefault(one[2][4][0][2], []).append(one)
        for number, rows in by_partition.items():
            ids, entries, waited = zip(*rows, strict=True)
            _, moments, numbers, payloads, _, _ = zip(*entries, strict=True)
            labels, came, _ = zip(*[entry[4][0] for entry in waited], strict=True)
            times = np.array(came, dtype=np.int64)
            newest = [entry[5] for entry in waited]
            self._coverage.label_waits(times, -1)
            self._meet(
                self._partitions.names[number],
                _Met(ids, labels, times, moments, numbers, payloads, newest),
            )

    # Labels

    def labels(self, partition: str, records: Records, times: IntArray) -> None:
        """Labels that come by themselves."""
        ids: list[str] = records.columns["id"]  # type: ignore[assignment]
        labels = list(_values(records.columns["y_true"]))
        known = self._entries.find(ids)
        repeated = _repeated(ids)
        meet = [
            entry is not None and entry[0] == WAITS and key not in repeated
            for entry, key in zip(known, ids, strict=True)
        ]
        wait = self._wait
        begun = [entry[1] if there else 0 for entry, there in zip(known, meet, strict=True)]  # type: ignore[index]
        in_time = np.array(meet, dtype=np.bool_)
        in_time &= np.abs(times - np.array(begun, dtype=np.int64)) <= wait
        if not in_time.all():
            self._other_labels(partition, ids, labels, times, known, repeated, ~in_time)
            chosen = in_time.tolist()
            ids = list(compress(ids, chosen))
            labels = list(compress(labels, chosen))
            times = times[in_time]
            known = list(compress(known, chosen))
        if ids:
            _, moments, numbers, payloads, _, newest = zip(*known, strict=True)
            self._meet(partition, _Met(ids, labels, times, moments, numbers, payloads, newest))

    def _other_labels(
        self,
        partition: str,
        ids: list[str],
        labels: list[Any],
        times: IntArray,
        known: list[Entry | None],
        repeated: frozenset[str],
        others: np.ndarray[Any, np.dtype[np.bool_]],
    ) -> None:
        """All labels of a batch that do not simply meet a prediction."""
        number = self._partitions.number(partition)
        moments = times.tolist()
        alone: list[int] = []
        single: list[int] = []
        for n in np.flatnonzero(others).tolist():
            (alone if known[n] is None and ids[n] not in repeated else single).append(n)
        if alone:
            came = times[alone]
            self._entries.put(
                [ids[n] for n in alone],
                [
                    (LABELS, moments[n], 0, None, ((labels[n], moments[n], number),), moments[n])
                    for n in alone
                ],
                int(came.min()),
            )
            self._coverage.label_waits(came)
        for n in single:
            old = self._entries.latest(ids[n], known[n])
            self._singles.label(partition, ids[n], labels[n], moments[n], old)

    def _meet(self, partition: str, met: _Met) -> None:
        """Labels in time for predictions without one: what judged() says, by columns."""
        ids, labels, times, moments, numbers, payloads, _ = met
        begun = np.array(moments, dtype=np.int64)
        newest = np.maximum(np.maximum(times, begun), np.array(met.newest, dtype=np.int64))
        entries = zip(
            repeat(MET), moments, numbers, payloads, labels, newest.tolist(), strict=False
        )
        self._entries.put(ids, entries, int(newest.min()))
        different = set(numbers)
        for number in different:
            columns: Iterable[Iterable[Any]] = (labels, moments, payloads)
            if len(different) > 1:
                mine = [one == number for one in numbers]
                columns = (compress(column, mine) for column in columns)
            self.events.add(number, *columns)
        self._coverage.delays.add(times - begun)
        self._coverage.labelled(begun)
        self._coverage.count(partition, "joined", len(ids))
        self._coverage.count(partition, "labels", len(ids))

    # Both at once

    def complete(self, partition: str, records: Records, times: IntArray) -> None:
        """Predictions that bring their label."""
        ids: list[str] = records.columns["id"]  # type: ignore[assignment]
        labels = list(_values(records.columns["y_true"]))
        number = self._partitions.number(partition)
        moments = times.tolist()
        payloads = self._payloads(records)
        entries: list[Entry] = list(
            zip(
                repeat(INSIDE),
                moments,
                repeat(number),
                payloads,
                labels,
                moments,
                strict=False,
            )
        )
        known = self._entries.add(ids, entries, int(times.min()))
        for n in sorted(known):
            old = self._entries.latest(ids[n], known[n])
            entry: Entry = (WAITS, moments[n], number, payloads[n], None, moments[n])
            self._singles.predict(partition, ids[n], entry, old, label=labels[n])
        if known:
            new = np.ones(len(ids), dtype=np.bool_)
            new[list(known)] = False
            chosen = new.tolist()
            times = times[new]
            labels, moments, payloads = (
                list(compress(column, chosen)) for column in (labels, moments, payloads)
            )
        if not len(times):
            return
        self.events.add(number, labels, moments, payloads)
        for name in ("predictions", "labels", "joined"):
            self._coverage.count(partition, name, len(times))
        self._coverage.predicted(times)
        self._coverage.labelled(times)


def _repeated(ids: list[str]) -> frozenset[str]:
    """Those that are there more than once."""
    if len(set(ids)) == len(ids):
        return frozenset()
    return frozenset(key for key, count in Counter(ids).items() if count > 1)


def _values(column: Any) -> Iterable[Any]:
    if column is None:
        return repeat(None)
    return column.tolist() if isinstance(column, np.ndarray) else column  # type: ignore[no-any-return]
