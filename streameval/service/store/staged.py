"""The three steps in which a checkpoint writes one part of a run."""

from __future__ import annotations

from typing import Protocol, TypeVar

from streameval.service.store.dialect import Connection

_Changes = TypeVar("_Changes")


class Staged(Protocol[_Changes]):
    """A part of a run that a checkpoint stages, writes in its transaction, and commits.

    One thread calls :meth:`stage` and :meth:`committed`, and collects changes for the next
    checkpoint; another thread may call :meth:`write` in between.
    """

    def stage(self) -> _Changes:
        """Take what has changed since the last call."""

    def write(self, connection: Connection, changes: _Changes) -> None:
        """Write changes, inside a transaction."""

    def committed(self, changes: _Changes) -> None:
        """Note that changes are durable."""


def write_now(part: Staged[_Changes], connection: Connection) -> None:
    """Write what has changed, inside a transaction of this thread."""
    changes = part.stage()
    part.write(connection, changes)
    part.committed(changes)
