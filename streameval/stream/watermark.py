"""How far a run's time has come for certain: the slowest of its partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

__all__ = ["Watermark"]

IDLE_SECONDS = 60.0


class Watermark:
    """The least of the partitions' newest times; it never goes back.

    A partition that has brought nothing yet holds it back, for it may bring old
    records; so does one that has been read for a while and is behind. One that
    has been idle for a minute does not.

    Args:
        clock: Seconds, only ever forward.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun = clock()
        self._newest: dict[str, int] = {}
        self._seen: dict[str, float] = {}
        self._expected: set[str] = set()
        self._value: int | None = None

    def expect(self, partitions: Iterable[str]) -> None:
        """Partitions that records may come from, whether any have or not."""
        self._expected.update(partitions)

    def note(self, partition: str, newest: int) -> None:
        """A partition has brought a record of this time."""
        known = self._newest.get(partition)
        if known is None or newest > known:
            self._newest[partition] = newest
        self._seen[partition] = self._clock()

    @property
    def value(self) -> int | None:
        """Microseconds since 1970; None before anything is certain."""
        if self._newest:
            border = self._clock() - IDLE_SECONDS
            busy = [
                self._newest.get(name)
                for name in self._expected | set(self._newest)
                if self._seen.get(name, self._begun) > border
            ]
            # While all are idle, time stands where it stood.
            if busy and None not in busy:
                least = min(newest for newest in busy if newest is not None)
                self._value = least if self._value is None else max(self._value, least)
        return self._value

    def to_state(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {"newest": dict(sorted(self._newest.items())), "value": self._value}

    def restore(self, data: Mapping[str, object]) -> None:
        """Take over a saved state."""
        newest, value = data["newest"], data["value"]
        assert isinstance(newest, dict)
        assert value is None or isinstance(value, int)
        self._newest = dict(newest)
        self._value = value
        self._begun = self._clock()
