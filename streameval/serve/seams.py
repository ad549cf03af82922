"""What the server is given by a run, as protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

__all__ = ["Data", "PostKind", "Postbox", "Published", "Publisher"]

Data: TypeAlias = Mapping[str, Any]
"""A snapshot's content: plain values, as JSON has them; never changed once published."""

PostKind: TypeAlias = Literal["predictions", "labels"]


class Published(Protocol):
    """A snapshot."""

    @property
    def data(self) -> Data:
        """Its content."""


class Publisher(Protocol):
    """Has the newest snapshot; any number of threads ask."""

    def current(self) -> Published | None:
        """The newest; None before the first."""

    def wait(self, sequence: int, timeout: float) -> object:
        """Return as soon as there is one after `sequence`, at the latest after so many seconds."""


class Postbox(Protocol):
    """Takes posted events."""

    def append(self, kind: PostKind, body: bytes) -> int:
        """Keep JSON lines durably and tell how many; StoreError when it cannot, for now."""
