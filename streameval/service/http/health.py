"""Whether a run is caught up and alive, and if not, why."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

from streameval.errors import ConfigError, InputError
from streameval.events.time import duration
from streameval.service.config.settings import ServeSettings
from streameval.service.lateness import MOST_LATE
from streameval.service.snapshot import Snapshot

_MOST_REASONS = 20

Code: TypeAlias = Literal["unpublished", "checkpoint_age", "late", "problem", "lag", "more"]


class Reason(NamedTuple):
    """Why a run is not ready: a code for programs and a text for people."""

    code: Code
    text: str


class Readiness:
    """Ready: every partition read to within ``ready_lag``, the last checkpoint younger than
    ``ready_checkpoint_age``, and most of the recent records in time for the join and the windows.

    Raises:
        ConfigError: ``ready_checkpoint_age`` is no duration.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self._lag = settings.ready_lag
        try:
            microseconds = duration(settings.ready_checkpoint_age, "serve.ready_checkpoint_age")
        except InputError as error:
            raise ConfigError(str(error)) from None
        self._age = microseconds / 1e6

    def reasons(self, data: Snapshot | None, now: float) -> list[Reason]:
        """Why not; empty when ready.

        Args:
            data: The newest snapshot, if there is one.
            now: Seconds since 1970.
        """
        reasons = list(self._reasons(data, now))
        if len(reasons) > _MOST_REASONS:
            more = Reason("more", f"and {len(reasons) - _MOST_REASONS} more")
            reasons[_MOST_REASONS:] = [more]
        return reasons

    def _reasons(self, data: Snapshot | None, now: float) -> Iterator[Reason]:
        if data is None:
            yield Reason("unpublished", "nothing has been published yet")
            return
        age = now - seconds_of(data.checkpoint.at)
        if age > self._age:
            text = f"the last checkpoint is {age:.0f} s old; expected at most {self._age:g} s"
            yield Reason("checkpoint_age", text)
        late = {f"window {window.name}": window.late for window in data.windows}
        if data.join is not None:
            late["the join"] = data.join.late
        for where, share in late.items():
            if share > MOST_LATE:
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
                yield Reason("lag", f"{name}: how much is left to read is not known yet")
            elif lag > self._lag:
                text = f"{name}: {lag:,} are left to read; expected at most {self._lag:,}"
                yield Reason("lag", text)


def seconds_of(text: str) -> float:
    """A snapshot's time as seconds since 1970.

    >>> seconds_of("1970-01-01T00:01:00Z")
    60.0
    """
    return datetime.fromisoformat(text).timestamp()
