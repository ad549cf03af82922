"""Log records of one line each, whatever texts the stream brings."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from streameval.event_time import iso_time

__all__ = ["OneLineFormatter", "log_to_stderr"]


class OneLineFormatter(logging.Formatter):
    """Time, level, message; what is not printable is escaped, so no record looks like two.

    >>> record = logging.LogRecord("run", logging.INFO, "", 0, "slice %s", ("a\\nb",), None)
    >>> OneLineFormatter("%(levelname)s %(message)s").format(record)
    'INFO slice a\\\\nb'
    """

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """When it was logged, in UTC."""
        return iso_time(int(record.created * 1_000) * 1_000)

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line."""
        text = super().format(record)
        if text.isprintable():
            return text
        return "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
            for char in text
        )


@contextmanager
def log_to_stderr(level: int = logging.INFO) -> Iterator[None]:
    """Send what a run logs to the standard error, inside the block."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("streameval")
    before = logger.level
    logger.setLevel(level)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
