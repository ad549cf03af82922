"""The counts and the watermark of a label join in its store, read and written without a run."""

from __future__ import annotations

import sqlite3
import zlib
from typing import Any

import msgspec

from streameval.errors import StoreError
from streameval.stream.join.coverage import Coverage, SavedCoverage
from streameval.stream.join.watermark import SavedWatermark

__all__ = [
    "JOIN_SPANS",
    "JoinSpans",
    "SavedJoin",
    "read_join",
    "read_spans",
    "read_watermark",
    "reset_watermark",
]

JOIN_SPANS = "run.join"
"""The key in ``meta`` under which a run notes what its join's counts are read with."""


class SavedJoin(msgspec.Struct):
    """The content of ``join_counts``: JSON with a checksum beside it."""

    coverage: SavedCoverage
    watermark: SavedWatermark

    def row(self) -> tuple[int, bytes]:
        """The columns ``crc`` and ``data``."""
        data = msgspec.json.encode(self)
        return zlib.crc32(data), data

    @staticmethod
    def of(crc: object, data: object) -> SavedJoin:
        """Decode what :meth:`row` returned.

        Raises:
            StoreError: The columns hold something else.
        """
        try:
            if not isinstance(data, bytes) or zlib.crc32(data) != crc:
                raise ValueError("their checksum is not the one they were written with")
            return msgspec.json.decode(data, type=SavedJoin)
        except ValueError as error:
            raise StoreError(
                f"the join's counts are damaged: {error}; restore the store from a copy of it"
            ) from None


class JoinSpans(msgspec.Struct):
    """Microseconds: which predictions have expired, and what a cohort is, depends on them."""

    wait: int
    cohort: int


def read_spans(text: str) -> JoinSpans:
    """The spans that were noted; raises StoreError for damaged ones."""
    try:
        return msgspec.json.decode(text, type=JoinSpans)
    except ValueError as error:
        raise StoreError(
            f"the join's spans are damaged: {error}; restore the store from a copy of it"
        ) from None


def read_join(connection: sqlite3.Connection) -> dict[str, Any] | None:
    """The join's counts as of the last checkpoint, as ``/api/join`` has them.

    None where the run has no join, or has not made a checkpoint with one.

    Raises:
        StoreError: They are damaged.
    """
    noted = connection.execute("SELECT value FROM meta WHERE key = ?", (JOIN_SPANS,)).fetchone()
    saved = _saved_join(connection)
    if noted is None or saved is None:
        return None
    spans = read_spans(noted[0])
    coverage = Coverage(spans.wait, spans.cohort)
    coverage.restore(saved.coverage)
    return coverage.to_dict(saved.watermark.value)


def _saved_join(connection: sqlite3.Connection) -> SavedJoin | None:
    query = "SELECT count(*) FROM sqlite_master WHERE name = 'join_counts'"
    if not connection.execute(query).fetchone()[0]:
        return None
    row = connection.execute("SELECT crc, data FROM join_counts").fetchone()
    return None if row is None else SavedJoin.of(*row)


def read_watermark(connection: sqlite3.Connection) -> SavedWatermark | None:
    """The watermark as of the last checkpoint; None without a join. Raises StoreError."""
    saved = _saved_join(connection)
    return None if saved is None else saved.watermark


def reset_watermark(connection: sqlite3.Connection) -> None:
    """Forget how far event time has come; the next records of each partition set it anew.

    Inside the caller's transaction. What has expired meanwhile stays expired: its
    entries are dropped already.

    Raises:
        StoreError: The join's counts are damaged.
    """
    saved = _saved_join(connection)
    if saved is None:
        return
    saved.watermark = SavedWatermark({}, None)
    # Else all predictions before it counted as expired at once.
    saved.coverage.border = None
    connection.execute("UPDATE join_counts SET crc = ?, data = ?", saved.row())
