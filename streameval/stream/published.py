"""What readers see of a run: immutable snapshots, handed over without a lock on states."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec

__all__ = ["Published", "Publisher"]


class Published:
    """A snapshot; nobody changes it any more.

    Attributes:
        data: Plain values, as JSON has them; see docs/run.md.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data

    @cached_property
    def bytes_json(self) -> bytes:
        """The data as JSON, encoded when somebody first asks, in that reader's thread."""
        return msgspec.json.encode(self.data)

    @property
    def sequence(self) -> int:
        """Which snapshot it is, from 1 up."""
        sequence: int = self.data["sequence"]
        return sequence


class Publisher:
    """Has the newest snapshot: one thread publishes, any number read.

    >>> publisher = Publisher()
    >>> publisher.current() is None
    True
    >>> publisher.publish({"sequence": 1})
    >>> publisher.wait(0, timeout=5).data
    {'sequence': 1}
    """

    def __init__(self) -> None:
        self._current: Published | None = None
        self._changed = threading.Condition()

    def publish(self, data: Mapping[str, Any]) -> None:
        """Make it what readers see."""
        published = Published(data)
        with self._changed:
            self._current = published
            self._changed.notify_all()

    def current(self) -> Published | None:
        """The newest; None before the first."""
        return self._current

    def wait(self, sequence: int, timeout: float) -> Published | None:
        """The newest as soon as it comes after ``sequence``, or whatever there is by then."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_after(sequence), timeout)
            return self._current

    def _is_after(self, sequence: int) -> bool:
        return self._current is not None and self._current.sequence > sequence
