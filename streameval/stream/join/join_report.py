"""What a store says of its label join, without a run: counts, delays, cohorts."""

from __future__ import annotations

import sqlite3
import zlib
from typing import Any

import msgspec

from streameval.errors import StoreError
from streameval.stream.join.coverage import Coverage, SavedCoverage
from streameval.stream.join.watermark import SavedWatermark

__all__ = ["JOIN_SPANS", "JoinSpans", "read_join"]

JOIN_SPANS = "run.join"
"""The key in ``meta`` under which a run notes what its join's counts are read with."""


class JoinSpans(msgspec.Struct):
    """Microseconds: which predictions have expired, and what a cohort is, depends on them."""

    wait: int
    cohort: int


class _Saved(msgspec.Struct):
    """The part of ``join_counts`` that is told."""

    coverage: SavedCoverage
    watermark: SavedWatermark


def read_join(connection: sqlite3.Connection) -> dict[str, Any] | None:
    """The join's counts as of the last checkpoint, as ``/api/join`` has them.

    None where the run has no join, or has not made a checkpoint with one.

    Raises:
        StoreError: They are damaged.
    """
    noted = connection.execute("SELECT value FROM meta WHERE key = ?", (JOIN_SPANS,)).fetchone()
    query = "SELECT count(*) FROM sqlite_master WHERE name = 'join_counts'"
    if noted is None or not connection.execute(query).fetchone()[0]:
        return None
    row = connection.execute("SELECT crc, data FROM join_counts").fetchone()
    if row is None:
        return None
    crc, data = row
    try:
        if not isinstance(data, bytes) or zlib.crc32(data) != crc:
            raise ValueError("their checksum is not the one they were written with")
        saved = msgspec.json.decode(data, type=_Saved)
        spans = msgspec.json.decode(noted[0], type=JoinSpans)
    except ValueError as error:
        raise StoreError(
            f"the join's counts are damaged: {error}; restore the store from a copy of it"
        ) from None
    coverage = Coverage(spans.wait, spans.cohort)
    coverage.restore(saved.coverage)
    return coverage.to_dict(saved.watermark.value)
