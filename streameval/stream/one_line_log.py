"""Log records of one line each, whatever texts they quote."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from streameval.event_time import iso_time

__all__ = ["OneLineFormatter", "RepeatFilter", "log_to_stderr"]


class OneLineFormatter(logging.Formatter):
    """Time, level, message; unprintable characters are escaped, so no record looks like two.

    >>> record = logging.LogRecord("run", logging.INFO, "", 0, "slice %s", ("a\\nb",), None)
    >>> OneLineFormatter("%(levelname)s %(message)s").format(record)
    'INFO slice a\\\\nb'
    """

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """The time in UTC."""
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


class RepeatFilter(logging.Filter):
    """Passes a bounded number of records of each log statement in a period.

    A statement is a line of the source, whatever texts its records quote. The number of
    records left out is appended to the next record of the statement that passes;
    :meth:`left_out` returns the number of those that no later record reports.

    Args:
        most: Records of a statement in a period.
        seconds: The length of a period; it starts with its first record.

    >>> limited = RepeatFilter(2, 60)
    >>> made = [logging.LogRecord("run", 30, "a.py", 7, "full", (), None) for _ in range(1000)]
    >>> sum(map(bool, map(limited.filter, made))), limited.left_out()
    (2, 998)
    """

    def __init__(self, most: int = 100, seconds: float = 60) -> None:
        super().__init__()
        self._most = most
        self._seconds = seconds
        self._lock = threading.Lock()
        # For each statement: when its period began, and the records passed and left out.
        self._counts: dict[tuple[str, int], tuple[float, int, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record passes; it then gets the number of those left out before it."""
        place = record.pathname, record.lineno
        with self._lock:
            begun, passed, left_out = self._counts.get(place, (record.created, 0, 0))
            # A clock that was set back begins a new period as well.
            if not 0 <= record.created - begun < self._seconds:
                begun, passed = record.created, 0
            if passed >= self._most:
                self._counts[place] = begun, passed, left_out + 1
                return False
            self._counts[place] = begun, passed + 1, 0
        if left_out:
            record.msg = f"{record.getMessage()} (and {left_out:,} more like it, left out)"
            record.args = None
        return True

    def left_out(self) -> int:
        """Records left out that no later record has reported."""
        with self._lock:
            return sum(left_out for _, _, left_out in self._counts.values())


@contextmanager
def log_to_stderr(level: int = logging.INFO) -> Iterator[None]:
    """Write the log of a run, and warnings of libraries, to standard error, inside the block."""
    repeats = RepeatFilter()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(repeats)
    logger, root = logging.getLogger("streameval"), logging.getLogger()
    before = logger.level
    logger.setLevel(level)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        logger.setLevel(before)
        if left_out := repeats.left_out():
            print(f"{left_out:,} repeated lines were left out of this log", file=sys.stderr)
