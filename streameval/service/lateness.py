"""Share of the recent records that are too late to be counted, and the log of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

log = logging.getLogger(__name__)

MOST_LATE = 0.5
"""A larger share of late records is a fault of a clock or a source, not of the records."""

_RECENT = 1000
_FEWEST = 20


@dataclass(slots=True, eq=False)
class LateShare:
    """Share of late records, decaying: a record 1,000 records ago has about half the weight.

    A partition whose last 20 records, at least, were all late counts as 1 at once: it fell behind
    as a whole. It does so until one of its records is in time, or 1,000 others were read.
    """

    _records: int = 0
    _late: int = 0
    _read: int = 0
    _behind: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Late records since the last one in time, by partition, and all read up to these."""

    def add(self, records: int, late: int, partition: str = "") -> None:
        """Add the number of records of a partition, and of the late ones among them."""
        if not records:
            return
        self._read += records
        run, _ = self._behind.pop(partition, (0, 0))
        if records == late:
            self._behind[partition] = run + late, self._read
        self._records += records
        self._late += late
        while self._records > 2 * _RECENT:
            self._records //= 2
            self._late //= 2

    @property
    def value(self) -> float:
        """A fraction in [0, 1]; 0 while there are fewer than 20 records."""
        border = self._read - _RECENT
        if any(run >= _FEWEST and read >= border for run, read in self._behind.values()):
            return 1.0
        return 0.0 if self._records < _FEWEST else self._late / self._records

    @property
    def is_most(self) -> bool:
        """Whether more than half of the recent records are late."""
        return self.value > MOST_LATE


@dataclass(slots=True)
class LateLog:
    """Logs when most records of a stage begin, or cease, to be late."""

    _of: str = ""
    _is_late: set[str] = field(default_factory=set)

    def log(self, shares: Mapping[str, LateShare]) -> None:
        """Compare the shares by stage (a window, or the join) with the shares of the last call."""
        for stage, share in shares.items():
            if share.is_most == (stage in self._is_late):
                continue
            self._is_late ^= {stage}
            if share.is_most:
                log.warning(
                    "%s%s: %.0f %% of the recent records are too late to be counted: a clock was "
                    "ahead, or a source is far behind; see streameval store watermark",
                    self._of,
                    stage,
                    100 * share.value,
                )
            else:
                log.info("%s%s: most records are in time again", self._of, stage)
