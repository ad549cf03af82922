"""Records that could not be counted, kept in the store for inspection and replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from streameval.events.time import iso_time
from streameval.records.chunk import RecordError
from streameval.service.config.settings import QuarantineSettings
from streameval.service.sources.raw import RawBatch
from streameval.service.store.dialect import Connection

_RECENT = 100
_DETAIL_CHARACTERS = 500
_REASONS = 200
"""Most reasons that are counted separately; the decoder has a few dozen."""

_OF_REASON = "WHERE reason = coalesce(:reason, reason)"


@dataclass(slots=True)
class QuarantineChanges:
    """What one checkpoint writes of the quarantine."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    """Records by reason, also of those that are not kept."""
    replayed: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.reasons or self.replayed)


class Quarantine:
    """The newest bad records, as many as ``keep`` says, and the counts of all by reason."""

    def __init__(
        self, connection: Connection, settings: QuarantineSettings, now: Callable[[], int]
    ) -> None:
        self._connection = connection
        self.settings = settings
        self._now = now
        self._reasons = set(reasons(connection))
        self._changes = QuarantineChanges()
        self._shown: dict[str, Any] | None = None

    @property
    def pending(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._changes)

    def note(
        self,
        partition: str,
        kind: str,
        event: RecordError,
        time: int | None,
        *,
        cut: bool = False,
        into: QuarantineChanges | None = None,
    ) -> None:
        """Add a record."""
        changes = self._changes if into is None else into
        reason = event.reason[:100] or "record"
        # Two threads may note at once: then there may be one reason more.
        if reason not in self._reasons and len(self._reasons) >= _REASONS:
            reason = "other"
        self._reasons.add(reason)
        changes.reasons[reason] += 1
        limit = self.settings.max_bytes
        cut = cut or len(event.raw) > limit
        changes.rows.append(
            (
                self._now(),
                partition,
                kind,
                event.place,
                time,
                reason,
                event.detail[:_DETAIL_CHARACTERS],
                cut,
                event.raw[:limit],
            )
        )
        if len(changes.rows) > 2 * self.settings.keep:
            del changes.rows[: -self.settings.keep or None]

    def note_batch(self, batch: RawBatch, bad: Sequence[RecordError]) -> None:
        """Add the bad records of a batch: those of the source and those of decoding."""
        if not bad:
            return
        times = batch.times
        at = {} if times is None else dict(zip(batch.places, times, strict=True))
        # A source does not read a record that it refuses to its end.
        cut = {id(event) for event in batch.bad}
        for event in bad:
            written = at.get(event.place)
            time = None if written is None else int(written)
            self.note(batch.partition, batch.kind, event, time, cut=id(event) in cut)

    def to_replay(self, most: int = 1000) -> Iterator[RawBatch]:
        """The marked records; the next checkpoint deletes them from the quarantine."""
        query = (
            "SELECT id, partition, kind, time IS NOT NULL, raw, place, time FROM quarantine "
            "WHERE replay AND id > ? ORDER BY id LIMIT ?"
        )
        last = 0
        while rows := self._connection.execute(query, (last, most)).fetchall():
            last = rows[-1][0]
            for (partition, kind, timed), group in groupby(rows, key=itemgetter(1, 2, 3)):
                ids, *_, messages, places, times = map(list, zip(*group, strict=True))
                self._changes.replayed += ids
                yield RawBatch(partition, kind, messages, places, {}, times if timed else None)

    def stage(self) -> QuarantineChanges:
        """Take the changes since the last call."""
        changes, self._changes = self._changes, QuarantineChanges()
        return changes

    def write(self, connection: Connection, changes: QuarantineChanges) -> None:
        """Write changes, inside a transaction."""
        connection.executemany(
            "DELETE FROM quarantine WHERE id = ?", [(number,) for number in changes.replayed]
        )
        keep = self.settings.keep
        connection.executemany(
            "INSERT INTO quarantine (at, partition, kind, place, time, reason, detail, cut, raw) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            changes.rows[-keep:] if keep else [],
        )
        if changes.rows:
            connection.execute(
                "DELETE FROM quarantine WHERE id <= "
                "(SELECT id FROM quarantine ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (keep,),
            )
        connection.executemany(
            "INSERT INTO quarantine_reasons VALUES (?, ?) "
            "ON CONFLICT (reason) DO UPDATE SET total = quarantine_reasons.total + excluded.total",
            list(changes.reasons.items()),
        )

    def committed(self, changes: QuarantineChanges) -> None:
        """Note that changes are durable: others are published from now on."""
        if changes:
            self._shown = None

    def published(self) -> dict[str, Any]:
        """Counts and the newest records, as plain data."""
        if self._shown is None:
            self._shown = published(self._connection)
        return self._shown


def published(connection: Connection) -> dict[str, Any]:
    """Counts and the newest records of a store, as plain data."""
    by_reason = reasons(connection)
    (kept,) = connection.execute("SELECT count(*) FROM quarantine").fetchone()
    return {
        "total": sum(by_reason.values()),
        "kept": kept,
        "reasons": by_reason,
        "recent": listed(connection, most=_RECENT),
    }


def merged(quarantines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What :func:`published` returned of several units of a store, as one."""
    if len(quarantines) == 1:
        return dict(quarantines[0])
    by_reason: Counter[str] = Counter()
    for one in quarantines:
        by_reason.update(one["reasons"])
    recent = [row for one in quarantines for row in one["recent"]]
    recent.sort(key=lambda row: (row["at"], row["partition"], row["id"]), reverse=True)
    return {
        "total": sum(one["total"] for one in quarantines),
        "kept": sum(one["kept"] for one in quarantines),
        "reasons": dict(by_reason),
        "recent": recent[:_RECENT],
    }


def reasons(connection: Connection) -> dict[str, int]:
    """The number of refused records by reason, in the order of their first record."""
    return dict(connection.execute("SELECT reason, total FROM quarantine_reasons ORDER BY rowid"))


def listed(
    connection: Connection, *, reason: str | None = None, most: int = _RECENT
) -> list[dict[str, Any]]:
    """The newest kept records, the newest first, as plain data."""
    query = (
        "SELECT id, at, partition, kind, place, reason, detail, raw, cut, replay "
        f"FROM quarantine {_OF_REASON} ORDER BY id DESC LIMIT :most"
    )
    return [
        {
            "id": row[0],
            "at": iso_time(row[1]),
            "partition": row[2],
            "kind": row[3],
            "place": row[4],
            "reason": row[5],
            "detail": row[6],
            "raw": bytes(row[7]).decode(errors="replace"),
            "raw_bytes_cut": bool(row[8]),
            "replay": bool(row[9]),
        }
        for row in connection.execute(query, {"reason": reason, "most": most})
    ]


def mark_for_replay(connection: Connection, reason: str | None) -> tuple[int, int]:
    """Mark records to be read first by the next run; returns how many, and how many are cut."""
    marked = connection.execute(
        f"UPDATE quarantine SET replay = TRUE {_OF_REASON} AND NOT cut", {"reason": reason}
    ).rowcount
    (cut,) = connection.execute(
        f"SELECT count(*) FROM quarantine {_OF_REASON} AND cut", {"reason": reason}
    ).fetchone()
    return marked, cut
