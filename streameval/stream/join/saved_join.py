"""The written form of a join's counts: JSON with a checksum beside it."""

from __future__ import annotations

import zlib

import msgspec

from streameval.errors import StoreError
from streameval.stream.join.coverage import SavedCoverage
from streameval.stream.join.watermark import SavedWatermark

__all__ = ["SavedJoin"]


class SavedJoin(msgspec.Struct):
    """What ``join_counts`` holds."""

    coverage: SavedCoverage
    watermark: SavedWatermark

    def row(self) -> tuple[int, bytes]:
        """The columns ``crc`` and ``data``."""
        data = msgspec.json.encode(self)
        return zlib.crc32(data), data

    @staticmethod
    def of(crc: object, data: object) -> SavedJoin:
        """What :meth:`row` wrote; raises StoreError where it is something else."""
        try:
            if not isinstance(data, bytes) or zlib.crc32(data) != crc:
                raise ValueError("their checksum is not the one they were written with")
            return msgspec.json.decode(data, type=SavedJoin)
        except ValueError as error:
            raise StoreError(
                f"the join's counts are damaged: {error}; restore the store from a copy of it"
            ) from None
