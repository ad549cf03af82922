"""Verifies a store and its inbox: all that a run opens, every row, and the sums of the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from streameval.errors import StoreError
from streameval.evaluator.comparison import Evaluation
from streameval.service.alerts.rules import AlertBook, restore_alerts
from streameval.service.join.counts import read_join, saved_join
from streameval.service.join.entry_store.entry_store import EntryStore
from streameval.service.sources.inbox import check_inbox
from streameval.service.store.dialect import Connection
from streameval.service.store.positions import Positions, read_positions
from streameval.service.store.postgres import is_postgres
from streameval.service.store.quarantine import listed, reasons
from streameval.service.store.state_rows import merged_windows
from streameval.service.store.store import (
    Store,
    commits_noted,
    each_unit,
    inbox_of,
    read_store,
    verify,
    worded,
)

_TRIES = 20


@dataclass(frozen=True, slots=True)
class Checked:
    """The content of an undamaged store, in numbers."""

    events: int
    checkpoints: int
    states: int
    state_bytes: int
    partitions: int
    entries: int | None
    """Of the join; None without one."""
    quarantined: int
    has_checksums: bool
    """False for a store of version 1, of which less can be verified."""


def check_store(path: str) -> Checked:
    """Verify a store and the inbox beside it, also while a run writes to them.

    Args:
        path: Of the store; nothing is written. An inbox that is not beside a file is not verified.

    Raises:
        StoreError: A run would refuse it, or a row or a post is damaged or missing.

    Cost:
        Reads all data and merges all states.
    """
    if is_postgres(path):
        with closing(read_store(path)) as store, store.reading() as connection:
            return summed([checked_unit(store, connection) for _ in each_unit(store)])
    for tries in range(_TRIES, 0, -1):
        # Before the store is read: a commit between the two is then not reported as lost.
        commits = commits_noted(path)
        with closing(read_store(path)) as store, store.reading() as connection:
            has_checksums = verify(store.connection, path, commits)
            checked = replace(checked_unit(store, connection), has_checksums=has_checksums)
            positions = Positions(connection).next_to_read
        try:
            check_inbox(inbox_of(path), positions)
        except (StoreError, FileNotFoundError) as error:
            # A run may have counted more in the meantime, and deleted what it had counted.
            if tries > 1 and commits_noted(path) > commits:
                continue
            raise (
                error
                if isinstance(error, StoreError)
                else StoreError(f"{error.filename}: cannot be read: {error.strerror}")
            ) from None
        return checked
    raise AssertionError("unreachable")


def summed(found: Sequence[Checked]) -> Checked:
    """The content of several units, or files, as that of one store."""
    entries = [one.entries for one in found if one.entries is not None]
    return Checked(
        events=sum(one.events for one in found),
        checkpoints=sum(one.checkpoints for one in found),
        states=sum(one.states for one in found),
        state_bytes=sum(one.state_bytes for one in found),
        partitions=sum(one.partitions for one in found),
        entries=sum(entries) if entries else None,
        quarantined=sum(one.quarantined for one in found),
        has_checksums=all(one.has_checksums for one in found),
    )


def checked_unit(store: Store, connection: Connection) -> Checked:
    """Decode every row of the unit that a store shows, and compare its counts.

    Args:
        store: Any; of a file the rows are compared with their checksums by others.
        connection: Inside :meth:`Store.reading`.

    Raises:
        StoreError: A row is damaged, or the counts contradict each other.
    """
    with worded(store.path, "cannot be read"):
        windows = merged_windows(connection)
        partitions = read_positions(connection)
        counters = store.counters()
        refused = reasons(connection)
        states, size = connection.execute(
            "SELECT count(*), coalesce(sum(length(data)), 0) FROM states"
        ).fetchone()
        (kept,) = connection.execute("SELECT count(*) FROM quarantine").fetchone()
        listed(connection, most=kept)
        restore_alerts(AlertBook([], ""), connection)
        entries = None
        if saved_join(connection) is not None:
            entries = EntryStore(connection).check()
        read = sum(partition.records for partition in partitions.values())
        fault = _imbalance(
            read + counters.get("replayed", 0),
            counters.get("events", 0),
            sum(refused.values()),
            read_join(connection),
        ) or _too_many(windows, counters.get("events", 0))
        if fault:
            raise StoreError(
                f"{store.path}: the counts are inconsistent: {fault}; restore a backup, or begin a "
                "new store"
            )
    return Checked(
        events=counters.get("events", 0),
        checkpoints=counters.get("checkpoints", 0),
        states=states,
        state_bytes=size,
        partitions=len(partitions),
        entries=entries,
        quarantined=kept,
        has_checksums=True,
    )


def _imbalance(read: int, events: int, refused: int, join: Mapping[str, Any] | None) -> str:
    """The first of the sums of records that is wrong, in words; empty where all are right.

    Without a join each record is an event or was refused. With one, a complete record is a
    prediction and a label; joined events that an evaluator refuses are added to the refused
    records; and a store may have counted events before it had a join.
    """
    if join is None:
        if read != events + refused:
            return f"{read:,} records were read, {events:,} counted and {refused:,} refused"
        return ""
    parts = ("joined", "duplicate_labels", "corrected", "too_late", "labels_waiting", "orphans")
    if join["labels"] != sum(join[part] for part in parts):
        return f"{join['labels']:,} labels are not the sum of their outcomes"
    if join["joined"] > join["predictions"]:
        return f"{join['joined']:,} of {join['predictions']:,} predictions have labels"
    before = max(0, events - join["joined"] - join["corrected"])
    placed = join["predictions"] + join["duplicate_predictions"] + join["labels"] + before
    if read > placed + refused:
        return f"{read:,} records were read, {placed:,} joined or counted, {refused:,} refused"
    return ""


def _too_many(windows: Mapping[str, Evaluation], events: int) -> str:
    """A window with more events than were counted (one that was begun later has fewer)."""
    for name, evaluator in windows.items():
        seen = sum(evaluator.arrivals.values())
        if seen > events:
            return f"window {name!r} has seen {seen:,} events of {events:,}"
    return ""
