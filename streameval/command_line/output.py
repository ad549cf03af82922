"""What a command prints, where, and with which exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from streameval.command_line.stdout import write
from streameval.errors import StreamevalError
from streameval.files.chunk import BadRecord
from streameval.report import Report

__all__ = [
    "BAD_INPUT",
    "FAILURE",
    "Format",
    "TargetError",
    "print_report",
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


def print_report(
    report: Report, format: Format, bad: Sequence[BadRecord] | None = None, bad_count: int = 0
) -> None:
    """A report on the standard output; JSON tells of bad records if ``bad`` is not None."""
    if format is Format.MARKDOWN:
        write(report.to_markdown())
    elif format is Format.TABLE:
        write(str(report))
    else:
        values = report.to_dict()
        if bad is not None:
            values["bad_records"] = {
                "count": bad_count,
                "first": [record.to_dict() for record in bad],
            }
        write(to_json(values))


def tell_bad_records(bad: Sequence[BadRecord], count: int) -> None:
    """The skipped records on the standard error."""
    if count:
        which = "" if count <= len(bad) else f"; the first {len(bad)}"
        say(f"skipped {count:,} bad record{'s' if count > 1 else ''}{which}:")
        for record in bad:
            say(f"  {record}")
