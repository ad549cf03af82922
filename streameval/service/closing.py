"""Closing of what was opened, where the code that goes on with it raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class SupportsClose(Protocol):
    """What can be closed."""

    def close(self) -> None:
        """Close it."""


@contextmanager
def closed_on_error(opened: SupportsClose) -> Iterator[None]:
    """Close what was opened where the block raises."""
    try:
        yield
    except BaseException:
        opened.close()
        raise
