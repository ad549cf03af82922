"""What a store says of its label join, without a run: counts, delays, cohorts."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from streameval.errors import StoreError
from streameval.stream.join.coverage import Coverage
from streameval.stream.join.saved_join import SavedJoin

__all__ = ["JOIN_SPANS", "JoinSpans", "read_join", "read_spans"]

JOIN_SPANS = "run.join"
"""The key in ``meta`` under which a run notes what its join's counts are read with."""


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
    query = "SELECT count(*) FROM sqlite_master WHERE name = 'join_counts'"
    if noted is None or not connection.execute(query).fetchone()[0]:
        return None
    row = connection.execute("SELECT crc, data FROM join_counts").fetchone()
    if row is None:
        return None
    saved = SavedJoin.of(*row)
    spans = read_spans(noted[0])
    coverage = Coverage(spans.wait, spans.cohort)
    coverage.restore(saved.coverage)
    return coverage.to_dict(saved.watermark.value)
