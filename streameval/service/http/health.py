"""Whether a process is alive, can serve and is caught up, and if not, why.

*Alive* and *ready* are what probes of Kubernetes ask for: a process that is not alive is
restarted, one that is not ready gets no requests. Being behind is a reason for neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from streameval.service.config.settings import ServeSettings
from streameval.service.lateness import MOST_LATE
from streameval.service.progress import Progress
from streameval.service.publish.snapshot import Snapshot

_MOST_REASONS = 20

UNPUBLISHED = "nothing has been published yet"

Code: TypeAlias = Literal[
    "unpublished", "checkpoint_age", "store_age", "late", "problem", "lag", "more"
]


class Reason(NamedTuple):
    """Why a run is not ready: a code for programs and a text for people."""

    code: Code
    text: str


def is_alive(settings: ServeSettings, progress: Progress) -> bool:
    """Whether the loop has made a step within ``live_age``, or is still restoring its store."""
    return progress.idle_seconds <= settings.live_age.seconds


class Readiness(NamedTuple):
    """Finds the reasons why a process is not caught up."""

    # Caught up: every partition is read to within ready_lag, the last checkpoint is younger than
    # ready_checkpoint_age, and most of the recent records are in time for the join and the windows.
    # A process that follows a store is caught up if it has read it within ready_checkpoint_age.

    settings: ServeSettings
    following: bool = False

    def reasons(self, data: Snapshot | None, now: float) -> list[Reason]:
        """Why the run is not caught up at a time, in seconds since 1970; empty if it is."""
        reasons = list(self._reasons(data, now))
        if len(reasons) > _MOST_REASONS:
            more = Reason("more", f"and {len(reasons) - _MOST_REASONS} more")
            reasons[_MOST_REASONS:] = [more]
        return reasons

    def _reasons(self, data: Snapshot | None, now: float) -> Iterator[Reason]:
        if data is None:
            yield Reason("unpublished", UNPUBLISHED)
            return
        most_age, most_lag = self.settings.ready_checkpoint_age.seconds, self.settings.ready_lag
        age = now - seconds_of(data.at if self.following else data.checkpoint.at)
        if age > most_age:
            code: Code = "checkpoint_age"
            what = f"the last checkpoint is {age:.0f} s old"
            if self.following:
                code, what = "store_age", f"the store was last read {age:.0f} s ago"
            yield Reason(code, f"{what}; expected at most {most_age:g} s")
        late = {f"window {window.name}": window.late for window in data.windows}
        if data.join is not None:
            late["the join"] = data.join.late
        for where, share in late.items():
            if share is not None and share > MOST_LATE:
                yield Reason(
                    "late",
                    f"{where}: {share:.0%} of the recent records are behind the watermark, too "
                    "late to be counted; a clock was ahead, or a source is far behind",
                )
        for partition in data.partitions:
            name, lag = partition.partition, partition.lag
            if partition.problem:
                yield Reason("problem", f"{name}: {partition.problem}")
            elif lag is None:
                if self.following:
                    continue
                yield Reason("lag", f"{name}: how much is left to read is not known yet")
            elif lag > most_lag:
                text = f"{name}: {lag:,} are left to read; expected at most {most_lag:,}"
                yield Reason("lag", text)


def seconds_of(text: str) -> float:
    """A snapshot's time as seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()
