"""What readers see of each partition; and its problems in the log, once each."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from streameval.event_time import iso_time
from streameval.stream.batch import PartitionStatus
from streameval.stream.positions import Positions

__all__ = ["PartitionRows"]

log = logging.getLogger(__name__)


class PartitionRows:
    """Partitions as plain data."""

    def __init__(self) -> None:
        self._problems: dict[str, str] = {}

    def rows(
        self, positions: Positions, statuses: Iterable[PartitionStatus]
    ) -> list[dict[str, Any]]:
        """Every partition that was ever read or is there to be read, by name."""
        found: dict[str, dict[str, Any]] = {}
        for name, partition in positions.partitions.items():
            if name.endswith(":"):
                continue  # what a source remembers, and no partition
            newest = None if partition.newest is None else iso_time(partition.newest)
            found[name] = _row(name, dict(partition.position), partition.records, newest)
        for status in statuses:
            row = found.setdefault(status.partition, _row(status.partition, None, 0, None))
            row["lag"] = status.lag
            row["problem"] = status.problem
            row["missed"] = status.missed
            self._tell(status.partition, status.problem)
        # What no source knows of any more has nothing left to read.
        known = {status.partition for status in statuses}
        for name, row in found.items():
            if name not in known:
                row["lag"] = 0
        return [found[name] for name in sorted(found)]

    def _tell(self, partition: str, problem: str) -> None:
        if problem == self._problems.get(partition, ""):
            return
        self._problems[partition] = problem
        if problem:
            log.warning("%s: %s", partition, problem)
        else:
            log.info("%s: is being read again", partition)


def _row(
    name: str, position: dict[str, int | str] | None, records: int, newest: str | None
) -> dict[str, Any]:
    return {
        "partition": name,
        "position": position,
        "lag": None,
        "problem": "",
        "missed": "",
        "records": records,
        "newest": newest,
    }
