"""The progress of a process's loop, for liveness probes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    """The time of the last step of a loop; one thread makes steps, others read."""

    _clock: Callable[[], float] = time.monotonic
    _last: float | None = None

    def step(self) -> None:
        """Note a step."""
        self._last = self._clock()

    @property
    def restored(self) -> bool:
        """Whether the loop has begun; before, it restores the store, which may take long."""
        return self._last is not None

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last step; 0 before the first."""
        return 0.0 if self._last is None else self._clock() - self._last
