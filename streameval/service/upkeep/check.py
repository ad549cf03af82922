"""Verifies a store and its inbox: all that a run opens, every row, and the sums of the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from streameval.errors import StoreError
from streameval.evaluator.comparison import Evaluation, reference_of
from streameval.evaluator.predictions import Predictions
from streameval.service.alerts.rules import AlertBook, restore_alerts
from streameval.service.config.address import is_postgres
from streameval.service.config.settings import RunSettings
from streameval.service.join.counters import OUTCOMES_OF_LABELS
from streameval.service.join.counts import read_join, saved_join
from streameval.service.join.entry_store.entry_store import EntryStore
from streameval.service.sources.inbox import check_inbox
from streameval.service.store.dialect import RESTORE, Connection, decoded
from streameval.service.store.positions import Positions, read_positions
from streameval.service.store.postgres import read_postgres
from streameval.service.store.quarantine import listed, reasons
from streameval.service.store.sqlite import (
    commits_noted,
    inbox_of,
    read_sqlite,
    translating_errors,
    verify,
)
from streameval.service.store.state_rows import merged_windows
from streameval.service.store.store import Store, each_unit
from streameval.service.store.valid_from import ValidFrom, read_valid_from

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
    """Entries of the join; None without one."""
    quarantined: int
    has_checksums: bool
    """False for a store of version 1, of which less can be verified."""


def check_store(path: str) -> Checked:
    """Verify a store and the inbox beside it, also while a run writes to them."""
    if is_postgres(path):
        with closing(read_postgres(path)) as shared, shared.reading() as connection:
            has_checksums = shared.verify()
            found = summed([checked_unit(shared, connection) for _ in each_unit(shared)])
            return replace(found, has_checksums=has_checksums)
    for tries in range(_TRIES, 0, -1):
        # Before the store is read: a commit between the two is then not reported as lost.
        commits = commits_noted(path)
        with closing(read_sqlite(path)) as store, store.reading() as connection:
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
    added = ("events", "checkpoints", "states", "state_bytes", "partitions", "quarantined")
    return Checked(
        **{name: sum(getattr(one, name) for one in found) for name in added},
        entries=sum(entries) if entries else None,
        has_checksums=all(one.has_checksums for one in found),
    )


def checked_unit(store: Store, connection: Connection) -> Checked:
    """Decode every row of the unit that a store shows, and compare its counts."""
    with translating_errors(store.path, "cannot be read"):
        windows = merged_windows(connection)
        partitions = read_positions(connection)
        counters = store.counters()
        refused = reasons(connection)
        states, size = connection.execute(
            "SELECT count(*), coalesce(sum(length(data)), 0) FROM states"
        ).fetchone()
        (kept,) = connection.execute("SELECT count(*) FROM quarantine").fetchone()
        listed(connection, most=kept)
        restore_alerts(AlertBook(RunSettings()), connection)
        entries = None
        saved = saved_join(connection)
        if saved is not None:
            entries = EntryStore(connection).check()
        read = sum(partition.records for partition in partitions.values())
        counts = _RecordCounts(
            read + counters.get("replayed", 0),
            counters.get("events", 0),
            sum(refused.values()),
            read_join(connection),
            0 if saved is None else sum(count for _, count in saved.coverage.delays),
        )
        placed = {name for (name,) in connection.execute("SELECT partition FROM states")}
        if saved is not None:
            placed |= saved.coverage.counts.keys()
        unread = placed - partitions.keys()
        fault = (
            counts.imbalance()
            or (f"partition {min(unread)!r} has no position" if unread else "")
            or _window_fault(windows, counts, store.meta(), read_valid_from(connection))
        )
        if fault:
            raise StoreError(f"{store.path}: the counts are inconsistent: {fault}; {RESTORE}")
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


@dataclass(frozen=True, slots=True)
class _RecordCounts:
    """The sums of the records of a unit."""

    # Without a join each record is an event or was refused. With one it is a prediction, a label or
    # both; joined events that an evaluator refuses are added to the refused records; and a store
    # may have counted events before it had a join.

    read: int
    events: int
    refused: int
    join: Mapping[str, Any] | None
    delays: int
    """Predictions that were joined with a label record."""

    def imbalance(self) -> str:
        """The first of the sums that is wrong, in words; empty where all are right."""
        join = self.join
        if join is None:
            if self.read != self.events + self.refused:
                return (
                    f"{self.read:,} records were read, {self.events:,} counted and "
                    f"{self.refused:,} refused"
                )
            return ""
        if join["labels"] != sum(join[name] for name in OUTCOMES_OF_LABELS):
            return f"{join['labels']:,} labels are not the sum of their outcomes"
        if join["joined"] > join["predictions"]:
            return f"{join['joined']:,} of {join['predictions']:,} predictions have labels"
        if self.events < join["joined"] - self.refused:
            return (
                f"{join['joined']:,} predictions have labels, {self.events:,} were counted and "
                f"{self.refused:,} refused"
            )
        before = max(0, self.events - join["joined"] - join["corrected"])
        both = join["joined"] - self.delays
        most = join["predictions"] + join["duplicate_predictions"] + join["labels"] - both
        # A record of both whose prediction was a duplicate looks like two records.
        repeated = min(
            join["duplicate_predictions"],
            join["duplicate_labels"] + join["corrected"] + join["too_late"] + join["orphans"],
        )
        least = most - repeated - self.refused_joined
        if not least <= self.read - self.refused <= most + before:
            return (
                f"{self.read:,} records were read, {most + before:,} joined or counted, "
                f"{self.refused:,} refused"
            )
        return ""

    @property
    def refused_joined(self) -> int:
        """At most so many joined events were refused by an evaluator."""
        if self.join is None:
            return 0
        counted: int = sum(self.join[one] for one in ("joined", "corrected", "duplicate_labels"))
        return max(0, min(self.refused, counted - self.events))


def _window_fault(
    windows: Mapping[str, Evaluation],
    counts: _RecordCounts,
    meta: Mapping[str, str],
    valid_from: ValidFrom,
) -> str:
    """A window with other events than were counted (one that was begun later has fewer)."""
    kept = decoded(meta.get("config.window", "{}"), dict[str, Any], "window is")
    # Events may weigh nothing, or not whole numbers, only where a record has a weight.
    are_whole = meta.get("config.fields.weight") == "false"
    for name in {**kept, **windows}:
        evaluator = windows.get(name)
        seen = 0 if evaluator is None else sum(evaluator.arrivals.values())
        if isinstance(evaluator, Predictions):
            read = 0 if counts.join is None else counts.join["predictions"]
            if seen > read:
                return f"{name!r} has {seen:,} predictions of {read:,}"
            continue
        if seen > counts.events:
            return f"window {name!r} has seen {seen:,} events of {counts.events:,}"
        later = name in valid_from.windows or name in valid_from.panes
        if later or not are_whole or valid_from.labels is not None or valid_from.scores is not None:
            continue
        kind = kept.get(name, {}).get("kind")
        most, least = counts.events, counts.events
        if kind == "cumulative":
            seen = 0 if evaluator is None else int(reference_of(evaluator).total.support)
            if counts.join is not None:
                # A correction takes one event back and counts another.
                least = counts.join["joined"] - counts.refused_joined
                if counts.events <= counts.join["joined"] + counts.join["corrected"]:
                    most = counts.join["joined"]
        elif kind != "panes":
            continue
        if not least <= seen <= most:
            return f"window {name!r} has {seen:,} events of {most:,}"
    return ""
