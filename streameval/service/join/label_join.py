"""Joins predictions and labels by id: in either order, each counted once, corrections exact.

The rules are functions of the records and not of the time at which they were read:

- The first prediction of an id counts; another one is a duplicate.
- A label counts if its time and its prediction's differ by at most ``wait``;
  otherwise it is too late.
- The same label again is a duplicate. A different one, at most ``wait + remember``
  away, is a correction: the event that was counted is reverted, and the new one counted.
- A label further away than that is an orphan, as is one without a prediction.
- Labels that are read before their prediction wait for it, and are then applied in
  the order in which they were read. The label in a complete record is the oldest: label
  records replace it, whichever is read first.

The records of one id and one kind (predictions, labels) have to be in one partition,
as in a topic with keys: there is no ordering guarantee across partitions.

The watermark, the slowest partition's newest time, bounds the memory: an id is forgotten
when its newest record is older than the watermark by more than ``wait + remember``. The rules
therefore hold for a record that is out of order within its partition, as long as its
prediction is not older than the watermark by more than ``wait + remember``: any label in
time may be out of order by ``remember``. Beyond that the id is unknown: a label then
is an orphan, and a prediction that was forgotten counts once more.

A checkpoint drains the events to count and to revert, and writes the other changes (see
:class:`~streameval.service.store.staged.Staged`) inside the transaction that counts the events.
Records that are only in memory are read again after a crash.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streameval.errors import StoreError
from streameval.service.config.evaluators import kind_of_settings, predicted_windows, step_of
from streameval.service.config.record_fields import record_fields
from streameval.service.config.settings import EvaluatorSettings, FieldSettings, RunSettings
from streameval.service.join.counts import JOIN_SPANS, JoinSpans, SavedJoin, read_spans, saved_join
from streameval.service.join.coverage import Coverage
from streameval.service.join.entry_store.entry_store import FLOATS, EntryChanges, EntryStore
from streameval.service.join.examples import kept_examples
from streameval.service.join.pairing import JoinedEvents, Pairing, PartitionNumbers
from streameval.service.join.watermark import Watermark
from streameval.service.lateness import LateShare
from streameval.service.sources.raw import Decoded
from streameval.service.store.checksums import keep_checksums
from streameval.service.store.dialect import Connection, decoded, has_table
from streameval.service.store.store import Store
from streameval.service.store.tables import JOIN_TABLES, create_tables

JOIN_LAYOUT = "run.layout"
"""The key in ``meta`` with the columns of the predictions that wait, in their order."""

_COHORT_US = 3_600_000_000


class JoinChanges(NamedTuple):
    """What one checkpoint writes of a join, besides the events that it counts."""

    entries: EntryChanges
    partitions: list[tuple[int, str]]
    counts: tuple[int, bytes]


class LabelJoin:
    """Joins the records of a run; raises StoreError where the store is damaged."""

    # About 0.6 µs for a prediction and its label, 2 µs without compiled code.

    def __init__(
        self,
        connection: Connection,  # entries are also looked up later
        *,
        layout: Sequence[str],  # the prediction's columns, without id and time
        floats: Container[str] = FLOATS,  # those of them that are numbers
        wait_us: int,
        remember_us: int,
        hot: int,  # most entries in memory besides those that are not written yet
        cohort_us: int,
        clock: Callable[[], float],
        now: Callable[[], int],  # microseconds since 1970
        has_ids: bool = False,  # whether the events have their id
        has_predictions: bool = False,  # whether new predictions are events as well
    ) -> None:
        self._wait = wait_us
        self._remember = remember_us
        self._entries = EntryStore(connection, wait_us + remember_us, hot, layout, floats)
        self._coverage = Coverage(wait_us, cohort_us)
        self._watermark = Watermark(clock, now, leap_us=wait_us + remember_us, wait_us=wait_us)
        self._partitions = PartitionNumbers(self._load(connection))
        self._pairing = Pairing(
            self._entries,
            self._coverage,
            self._partitions,
            layout,
            wait_us,
            remember_us,
            has_ids,
            has_predictions,
        )

    def _load(self, connection: Connection) -> dict[str, int]:
        """Restore counts and watermark; returns the numbers of the partitions."""
        try:
            names = connection.execute("SELECT number, partition FROM join_partitions").fetchall()
            saved = saved_join(connection)
        except sqlite3.DatabaseError as error:
            raise StoreError(f"the join's counts cannot be read: {error}") from None
        numbers = {partition: number for number, partition in names}
        if saved is None:
            return numbers
        self._coverage.restore(saved.coverage)
        border = self._border(self._watermark.restore(saved.watermark))
        if border is not None:
            self._entries.forget_before(border)
        return numbers

    def _border(self, watermark: int | None) -> int | None:
        """Entries whose newest time is before this one are forgotten."""
        return None if watermark is None else watermark - self._wait - self._remember

    def expect(self, partitions: Iterable[str]) -> None:
        """Add partitions that will be read: until they are, nothing expires."""
        self._watermark.expect(partitions)

    # Records in

    def add(self, decoded: Decoded) -> None:
        """Add the records of a batch; :meth:`drain` returns the resulting events."""
        partition = decoded.partition
        self._note_times(decoded)
        for records, pair in (
            (decoded.predictions, self._pairing.predictions),
            (decoded.complete, self._pairing.predictions),
            (decoded.labels, self._pairing.labels),
        ):
            if records is not None and records.rows:
                times = np.asarray(records.columns["time"], dtype=np.int64)
                pair(partition, records, times)

    def _note_times(self, decoded: Decoded) -> None:
        """Update the watermark, in the partition's order."""
        parts = decoded.parts()
        if parts:
            times = np.concatenate([np.asarray(part.columns["time"], np.int64) for part in parts])
            if len(parts) > 1:
                places = np.concatenate([np.asarray(part.places) for part in parts])
                times = times[np.argsort(places, kind="stable")]
            self._watermark.note(decoded.partition, times)

    # Events out

    def drain(self) -> tuple[JoinedEvents, JoinedEvents]:
        """Events to count and to revert, and predictions read for the first time, since then."""
        return self._pairing.drain()

    def stage(self) -> JoinChanges:
        """Take all changes since the last call."""
        watermark = self._watermark.value
        entries = self._entries.stage(self._border(watermark))
        self._coverage.sum_up(watermark, self._remember)
        return JoinChanges(
            entries,
            list(self._partitions.names.items()),
            SavedJoin(self._coverage.saved(), self._watermark.saved()).row(),
        )

    def write(self, connection: Connection, changes: JoinChanges) -> None:
        """Write changes to the store, inside the caller's transaction."""
        self._entries.write(connection, changes.entries)
        connection.executemany(
            "INSERT INTO join_partitions VALUES (?, ?) ON CONFLICT (number) DO NOTHING",
            changes.partitions,
        )
        connection.execute(
            "INSERT INTO join_counts VALUES (0, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET crc = excluded.crc, data = excluded.data",
            changes.counts,
        )

    def committed(self, changes: JoinChanges) -> None:
        """Note that changes are durable."""
        self._entries.committed(changes.entries)

    @property
    def watermark(self) -> int | None:
        """The watermark in microseconds; None before there is one."""
        return self._watermark.value

    @property
    def late(self) -> LateShare:
        """The share of the recent records that had expired when they were read."""
        return self._watermark.late

    def coverage(self) -> dict[str, Any]:
        """Counts, delays and cohorts, as they are published."""
        return {**self._coverage.to_dict(self._watermark.value), "late": self.late.value}


def create_join_tables(connection: Connection) -> None:
    """Make the tables of a join if a store has none, inside a transaction."""
    if not has_table(connection, "join_counts"):
        create_tables(connection, *JOIN_TABLES)
        keep_checksums(connection)


def join_layout(
    fields: FieldSettings, evaluator: EvaluatorSettings, meta: Mapping[str, str]
) -> list[str]:
    """The columns that a join keeps of a prediction, in the order of their values."""
    # Columns of the store keep their position, also if the settings no longer name them: the
    # payloads of earlier predictions hold these columns only.
    kept = decoded(meta.get(JOIN_LAYOUT, "[]"), list[str], "the columns of waiting predictions are")
    wanted = record_fields(fields, evaluator, join=True).prediction
    names = [field.column for field in wanted if field.column not in ("id", "time")]
    return list(dict.fromkeys([*kept, *names]))


def open_join(
    settings: RunSettings,
    store: Store,
    clock: Callable[[], float],
    now: Callable[[], int],
) -> LabelJoin | None:
    """The join of a store, or a new one; None without ``[join]``. Raises StoreError."""
    if settings.join is None:
        return None
    wait = settings.join.wait.us
    remember = settings.join.remember
    meta = store.meta()
    layout = join_layout(settings.fields, settings.evaluator, meta)
    if JOIN_SPANS in meta:
        # Counts by cohort cannot be converted to another width.
        cohort_us = read_spans(meta[JOIN_SPANS]).cohort
    else:
        # The shortest pane of a window, so that each point of a series has its coverage.
        series = [one for one in settings.window if kind_of_settings(one).widest is not None]
        panes = [pane.us for window in series for pane in step_of(window).values()]
        cohort_us = min(panes, default=_COHORT_US)
    spans = JoinSpans(wait, cohort_us)
    with store.transaction() as connection:
        store.set_meta(JOIN_LAYOUT, msgspec.json.encode(layout).decode())
        create_join_tables(connection)
        # For readers of the counts that do not have the settings.
        store.set_meta(JOIN_SPANS, msgspec.json.encode(spans).decode())
    # Another thread may write, so entries are looked up through a connection of their own.
    return LabelJoin(
        store.read_connection(),
        layout=layout,
        floats={
            field.column
            for field in record_fields(settings.fields, settings.evaluator, join=True).prediction
            if field.kind in ("number", "weight")
        },
        wait_us=wait,
        remember_us=wait if remember is None else remember.us,
        hot=settings.join.hot,
        cohort_us=cohort_us,
        clock=clock,
        now=now,
        has_ids=kept_examples(settings) > 0,
        has_predictions=bool(predicted_windows(settings)),
    )
