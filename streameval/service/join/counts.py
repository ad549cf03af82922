"""The counts and the watermark of a label join in its store, read and written without a run."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from streameval.errors import StoreError
from streameval.service.join.coverage import Coverage, SavedCoverage
from streameval.service.join.watermark import SavedWatermark
from streameval.service.store.dialect import Connection, decoded, has_table

JOIN_SPANS = "run.join"
"""The key in ``meta`` of the spans that reading a join's counts requires."""


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
        """Decode what :meth:`row` returned; raises StoreError for anything else."""
        try:
            if not isinstance(data, bytes) or zlib.crc32(data) != crc:
                raise ValueError("their checksum is not the one they were written with")
            return msgspec.json.decode(data, type=SavedJoin)
        except ValueError as error:
            raise StoreError(
                f"the join's counts are damaged: {error}; restore the store from a copy of it"
            ) from None


class JoinSpans(msgspec.Struct):
    """Microseconds; which predictions have expired, and the cohorts, depend on them."""

    wait: int
    cohort: int


def read_spans(text: str) -> JoinSpans:
    """The spans of a store; raises StoreError for damaged ones."""
    return decoded(text, JoinSpans, "the join's spans are")


def read_join(connection: Connection) -> dict[str, Any] | None:
    """The join's counts as of the last checkpoint, as ``/api/join`` has them; else None."""
    saved = saved_with_spans(connection)
    found = None if saved is None else merged_join([saved])
    return None if found is None else found.counts


def saved_with_spans(connection: Connection) -> tuple[JoinSpans, SavedJoin] | None:
    """The written form, and the spans that reading it requires; None as :func:`saved_join`."""
    noted = connection.execute("SELECT value FROM meta WHERE key = ?", (JOIN_SPANS,)).fetchone()
    saved = saved_join(connection)
    return None if noted is None or saved is None else (read_spans(noted[0]), saved)


class MergedJoin(NamedTuple):
    """The join's counts of several processes that each read partitions of their own."""

    counts: dict[str, Any]
    """As ``/api/join`` has them."""
    labelled_until: int | None
    """Microseconds since 1970: no label is waited for up to this event time; None: unknown."""


def merged_join(found: Iterable[tuple[JoinSpans, SavedJoin]]) -> MergedJoin | None:
    """The counts of a join, of all units of a store that have some; None where no unit has."""
    # The watermark is the least of the units', as one process has the least of its partitions'.
    coverage: Coverage | None = None
    values: list[int] = []
    for spans, saved in found:
        one = Coverage(spans.wait, spans.cohort)
        one.restore(saved.coverage)
        if saved.watermark.value is not None:
            values.append(saved.watermark.value)
        if coverage is None:
            coverage, wait = one, spans.wait
        else:
            coverage.merge(one)
    if coverage is None:
        return None
    watermark = min(values, default=None)
    until = None if watermark is None else watermark - wait
    return MergedJoin(coverage.to_dict(watermark), until)


def saved_join(connection: Connection) -> SavedJoin | None:
    """The written form; None without a join or before its first checkpoint. Raises StoreError."""
    if not has_table(connection, "join_counts"):
        return None
    row = connection.execute("SELECT crc, data FROM join_counts").fetchone()
    return None if row is None else SavedJoin.of(*row)


def read_watermark(connection: Connection) -> SavedWatermark | None:
    """The watermark as of the last checkpoint; None without a join. Raises StoreError."""
    saved = saved_join(connection)
    return None if saved is None else saved.watermark


def reset_watermark(connection: Connection) -> None:
    """Delete the watermark, inside a transaction; the next records of each partition set it."""
    # Predictions that have expired stay expired: their entries are dropped already.
    saved = saved_join(connection)
    if saved is None:
        return
    saved.watermark = SavedWatermark({}, None)
    # Otherwise all predictions before it would count as expired at once.
    saved.coverage.border = None
    connection.execute("UPDATE join_counts SET crc = ?, data = ?", saved.row())
