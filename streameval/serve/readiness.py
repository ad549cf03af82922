"""Whether a run is caught up and alive, and if not, why."""

from __future__ import annotations

from datetime import datetime

from streameval.errors import ConfigError, InputError
from streameval.event_time import duration
from streameval.serve.seams import Data
from streameval.stream.config.settings import ServeSettings
from streameval.stream.lateness import MOST_LATE

__all__ = ["Readiness", "seconds_of"]

_MOST_REASONS = 20


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

    def reasons(self, data: Data | None, now: float) -> list[str]:
        """Why not; empty when ready.

        Args:
            data: The newest snapshot, if there is one.
            now: Seconds since 1970.
        """
        if data is None:
            return ["nothing has been published yet"]
        reasons = []
        age = now - seconds_of(data["checkpoint"]["at"])
        if age > self._age:
            reasons.append(
                f"the last checkpoint is {age:.0f} s old; expected at most {self._age:g} s"
            )
        late = {f"window {window['name']}": window["late"] for window in data["windows"]}
        if data["join"] is not None:
            late["the join"] = data["join"]["late"]
        reasons += [
            f"{where}: {share:.0%} of the recent records are behind the watermark, too late to "
            "be counted; a clock was ahead, or a source is far behind"
            for where, share in late.items()
            if share > MOST_LATE
        ]
        for partition in data["partitions"]:
            if reason := self._behind(partition["lag"], partition["problem"]):
                reasons.append(f"{partition['partition']}: {reason}")
        if len(reasons) > _MOST_REASONS:
            reasons[_MOST_REASONS:] = [f"and {len(reasons) - _MOST_REASONS} more"]
        return reasons

    def _behind(self, lag: int | None, problem: str) -> str:
        if problem:
            return problem
        if lag is None:
            return "how much is left to read is not known yet"
        if lag > self._lag:
            return f"{lag:,} are left to read; expected at most {self._lag:,}"
        return ""


def seconds_of(text: str) -> float:
    """A snapshot's time as seconds since 1970.

    >>> seconds_of("1970-01-01T00:01:00Z")
    60.0
    """
    return datetime.fromisoformat(text).timestamp()
