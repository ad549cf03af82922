"""The log of a process on standard error: one line a record, as text or as JSON."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import msgspec
import typer

from streameval.cli.output import escaped, exit_code
from streameval.errors import StreamevalError
from streameval.events.time import iso_time


class LogFormat(StrEnum):
    """How a log is written."""

    TEXT = "text"
    JSON = "json"


LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        "--log-format", help="text, or json: an object a line with time, level, logger, message."
    ),
]


class OneLineFormatter(logging.Formatter):
    """Time, level, message; unprintable characters are escaped, so that a record is one line."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """The time in UTC."""
        return iso_time(int(record.created * 1_000) * 1_000)

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line."""
        return escaped(super().format(record))


class JsonFormatter(logging.Formatter):
    """A JSON object a line: time, level, logger, message, and the fields of ``extra=``."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line."""
        fields = {key: value for key, value in vars(record).items() if key not in _OWN}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        line = {
            "time": iso_time(int(record.created * 1_000) * 1_000),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage().encode(errors="backslashreplace").decode(),
            **({"fields": fields} if fields else {}),
        }
        return msgspec.json.encode(line, enc_hook=str).decode()


_OWN = {*vars(logging.makeLogRecord({})), "message", "asctime"}
"""The attributes that each record has."""


class RepeatFilter(logging.Filter):
    """Passes ``most`` records of each log statement in a period of so many seconds."""

    # A statement is a line of the source, whatever texts its records quote. The next record of
    # the statement that passes reports how many were left out.

    def __init__(self, most: int = 100, seconds: float = 60) -> None:
        super().__init__()
        self._most = most
        self._seconds = seconds
        self._lock = threading.Lock()
        # For each statement: when its period began, and the records passed and left out.
        self._counts: dict[tuple[str, int], tuple[float, int, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record passes; it then gets the number of those left out before it."""
        statement = record.pathname, record.lineno
        with self._lock:
            begun, passed, left_out = self._counts.get(statement, (record.created, 0, 0))
            # A clock that was set back begins a new period as well.
            if not 0 <= record.created - begun < self._seconds:
                begun, passed = record.created, 0
            if passed >= self._most:
                self._counts[statement] = begun, passed, left_out + 1
                return False
            self._counts[statement] = begun, passed + 1, 0
        if left_out:
            record.msg = f"{record.getMessage()} (and {left_out:,} more like it, left out)"
            record.args = None
        return True

    def left_out(self) -> int:
        """Records left out that no later record has reported."""
        with self._lock:
            return sum(left_out for _, _, left_out in self._counts.values())


@contextmanager
def log_to_stderr(
    log_format: LogFormat = LogFormat.TEXT, level: int = logging.INFO
) -> Iterator[None]:
    """Write the log, and warnings of libraries, to standard error inside the block."""
    # As JSON it holds also the error that ends the block, which is then not written otherwise.
    repeats = RepeatFilter()
    handler = logging.StreamHandler(sys.stderr)
    as_text = OneLineFormatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(as_text if log_format is LogFormat.TEXT else JsonFormatter())
    handler.addFilter(repeats)
    logger, root = logging.getLogger("streameval"), logging.getLogger()
    before = logger.level
    logger.setLevel(level)
    root.addHandler(handler)
    try:
        yield
    except (StreamevalError, OSError, MemoryError) as error:
        if log_format is LogFormat.TEXT:
            raise
        logger.critical("%s", str(error) or "out of memory")
        raise typer.Exit(exit_code(error)) from error
    finally:
        if (left_out := repeats.left_out()) and log_format is LogFormat.JSON:
            handler.removeFilter(repeats)
            logger.info("%d repeated lines were left out of this log", left_out)
        elif left_out:
            print(f"{left_out:,} repeated lines were left out of this log", file=sys.stderr)
        root.removeHandler(handler)
        logger.setLevel(before)
