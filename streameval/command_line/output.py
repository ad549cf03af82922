"""What a command prints, where, and with which exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from streameval.errors import StreamevalError
from streameval.files.chunk import BadRecord

__all__ = [
    "BAD_INPUT",
    "FAILURE",
    "Format",
    "TargetError",
    "check_target",
    "say",
    "tell_bad_records",
    "to_json",
]

FAILURE = 1
BAD_INPUT = 2


class TargetError(StreamevalError):
    """A file that a command is to write cannot be written: a failure, not bad input."""


class Format(StrEnum):
    """How a result is written."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


def say(message: str) -> None:
    """One line on the standard error."""
    if sys.stderr is not None:
        print("streameval:", " ".join(message.split()), file=sys.stderr)


def to_json(value: Any) -> str:
    """Indented JSON with keys in their order."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def check_target(path: str) -> None:
    """Fail before an hour of reading, not after it, where a file cannot be written.

    Raises:
        TargetError: The directory is missing or read-only, or the path is one.
    """
    directory = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise TargetError(f"{path}: cannot be written: it is a directory")
    if not os.path.isdir(directory):
        raise TargetError(f"{path}: cannot be written: there is no directory {directory}")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise TargetError(f"{path}: cannot be written: the directory {directory} is read-only")


def tell_bad_records(bad: Sequence[BadRecord], count: int) -> None:
    """The skipped records on the standard error."""
    if count:
        which = "" if count <= len(bad) else f"; the first {len(bad)}"
        say(f"skipped {count:,} bad record{'s' if count > 1 else ''}{which}:")
        for record in bad:
            say(f"  {record}")
