"""Share of the recent records that came too late to be counted."""

from __future__ import annotations

__all__ = ["MOST_LATE", "LateShare"]

MOST_LATE = 0.5
"""A larger share of late records is a fault of a clock or a source, and not of the records."""

_RECENT = 1000
_FEWEST = 20


class LateShare:
    """Exponentially forgetting counts: what is older than some 1,000 records weighs half.

    >>> late = LateShare()
    >>> late.add(100, 80)
    >>> late.value, late.is_most
    (0.8, True)
    """

    __slots__ = ("_late", "_records")

    def __init__(self) -> None:
        self._records = 0
        self._late = 0

    def add(self, records: int, late: int) -> None:
        """Count records, and those of them that are late."""
        self._records += records
        self._late += late
        while self._records > 2 * _RECENT:
            self._records //= 2
            self._late //= 2

    @property
    def value(self) -> float:
        """A fraction in [0, 1]; 0 while there are fewer than 20 records."""
        return 0.0 if self._records < _FEWEST else self._late / self._records

    @property
    def is_most(self) -> bool:
        """Whether more than half of the recent records are late."""
        return self.value > MOST_LATE
