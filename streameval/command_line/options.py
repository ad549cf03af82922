"""The options that commands share, with their help."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import typer

from streameval.command_line.output import Format
from streameval.errors import InputError, shown

__all__ = [
    "FormatOption",
    "InputFormat",
    "LabelTypeChoice",
    "MetricsOption",
    "OnBad",
    "TaskChoice",
    "metric_names",
]


class InputFormat(StrEnum):
    """How a file is written."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class LabelTypeChoice(StrEnum):
    """What the labels of a CSV file are."""

    AUTO = "auto"
    STR = "str"
    INT = "int"
    BOOL = "bool"


class TaskChoice(StrEnum):
    """What is evaluated."""

    AUTO = "auto"
    BINARY = "binary"
    MULTICLASS = "multiclass"


class OnBad(StrEnum):
    """What a bad record does."""

    STOP = "stop"
    SKIP = "skip"


FormatOption: TypeAlias = Annotated[
    Format, typer.Option("--format", help="How the result is written.")
]
MetricsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME",
        help="The metrics to report, in this order; the task's usual ones unless given.",
    ),
]


def metric_names(text: str | None) -> tuple[str, ...] | None:
    """The names in a comma list.

    >>> metric_names("accuracy, f1")
    ('accuracy', 'f1')
    """
    if text is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InputError("--metrics", expected="names joined by commas", got=shown(text))
    return names
