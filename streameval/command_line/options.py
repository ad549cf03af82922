"""The options of the commands, with their help."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import typer

from streameval.command_line.output import Format
from streameval.errors import InputError, shown
from streameval.windows.kinds import KINDS

__all__ = [
    "ByOption",
    "FilesArgument",
    "FormatOption",
    "InputFormat",
    "InputFormatOption",
    "LabelTypeChoice",
    "LabelTypeOption",
    "LabelsOption",
    "MaxBadOption",
    "MaxSlicesOption",
    "MetricsOption",
    "MinSupportOption",
    "NoProgressOption",
    "OnBad",
    "OnBadOption",
    "PlotOption",
    "PositiveOption",
    "ProbaOption",
    "SaveOption",
    "ScoreOption",
    "SeriesOption",
    "ShowSliceOption",
    "SliceOption",
    "StateArgument",
    "StatesArgument",
    "TaskChoice",
    "TaskOption",
    "ThresholdOption",
    "TimeOption",
    "TimeUnit",
    "TimeUnitOption",
    "WeightOption",
    "WindowOption",
    "WorstOption",
    "YPredOption",
    "YTrueOption",
    "label_texts",
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


class TimeUnit(StrEnum):
    """Unit of numeric event times."""

    S = "s"
    MS = "ms"
    US = "us"
    NS = "ns"


# Headings of the options in --help.
_RECORD = "Fields of a record"
_TASK = "The task"
_WINDOWS = "Windows and slices"
_RESULT = "The result"
_FILES = "The files"

FilesArgument: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="JSONL, CSV or Parquet; a pattern such as 'day-*.jsonl'; or - for standard input.",
    ),
]
StateArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="STATE", help="A state that `evaluate --save` wrote.")
]
StatesArgument: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="STATE", help="States that `evaluate --save` wrote.")
]

YTrueOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="FIELD",
        help="True label; a dot goes into nested fields.",
        rich_help_panel=_RECORD,
    ),
]
YPredOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FIELD", help="Predicted label.", rich_help_panel=_RECORD),
]
ScoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FIELD", help="Score of the positive label.", rich_help_panel=_RECORD),
]
ProbaOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD",
        help="Probabilities: an object label -> number, or label=FIELD,label=FIELD; "
        "binary: also the positive label's number.",
        rich_help_panel=_RECORD,
    ),
]
WeightOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FIELD", help="Weight of the event.", rich_help_panel=_RECORD),
]
TimeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD",
        help="When the event happened: ISO 8601 with an offset, or a number with --time-unit.",
        rich_help_panel=_RECORD,
    ),
]
TimeUnitOption: TypeAlias = Annotated[
    TimeUnit | None,
    typer.Option(help="Unit of numeric times, since 1970.", rich_help_panel=_RECORD),
]

TaskOption: TypeAlias = Annotated[
    TaskChoice,
    typer.Option(help="auto: binary with --score or --positive.", rich_help_panel=_TASK),
]
LabelsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="LABEL,LABEL",
        help="All labels there are; a record of another is a bad one. Unless given, they are "
        "discovered, and in a binary task the first other label is the negative one.",
        rich_help_panel=_TASK,
    ),
]
PositiveOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="LABEL",
        help="The positive label of a binary task; 1 or true unless given.",
        rich_help_panel=_TASK,
    ),
]
ThresholdOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="NUMBER",
        help="A score from here up is predicted positive; 0.5 unless given.",
        rich_help_panel=_TASK,
    ),
]

WindowOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="WINDOW",
        help=" ".join(
            ["Which events count; all unless given.", *(k.help for k in KINDS.values() if k.help)]
        ),
        rich_help_panel=_WINDOWS,
    ),
]
SliceOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD,FIELD",
        help="Evaluate by these fields too; country+model is one slice for each pair.",
        rich_help_panel=_WINDOWS,
    ),
]
ShowSliceOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD,FIELD",
        help="Show the slices by these fields only, as they were given to `evaluate`.",
        rich_help_panel=_WINDOWS,
    ),
]
MaxSlicesOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Most slices kept, 10000 unless given; the rest goes into one called (other).",
        rich_help_panel=_WINDOWS,
    ),
]
ByOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="METRIC",
        help="The metric that slices are compared by; f1 or f1_macro unless given.",
        rich_help_panel=_WINDOWS,
    ),
]
WorstOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Show only the N worst slices.", rich_help_panel=_WINDOWS
    ),
]
MinSupportOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="N", min=0, help="Leave out slices of less support.", rich_help_panel=_WINDOWS
    ),
]
SeriesOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="METRIC", help="Show this metric for each pane.", rich_help_panel=_WINDOWS
    ),
]
PlotOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Draw the series with its supports: .png, .svg, .pdf or .html.",
        rich_help_panel=_WINDOWS,
    ),
]

MetricsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME",
        help="The metrics to report, in this order; the usual ones unless given.",
        rich_help_panel=_RESULT,
    ),
]
FormatOption: TypeAlias = Annotated[
    Format, typer.Option("--format", help="How the result is written.", rich_help_panel=_RESULT)
]
SaveOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="STATE", help="Keep the state, for `merge` and `report`.", rich_help_panel=_RESULT
    ),
]

OnBadOption: TypeAlias = Annotated[
    OnBad,
    typer.Option(help="skip: leave bad records out, count and list them.", rich_help_panel=_FILES),
]
MaxBadOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        min=0,
        max=1,
        help="Share of the records that may be skipped for one reason, 0.01 unless given; "
        "beyond it the exit code is 3.",
        rich_help_panel=_FILES,
    ),
]
InputFormatOption: TypeAlias = Annotated[
    InputFormat | None,
    typer.Option(
        help="How the files are written; their names tell unless given.", rich_help_panel=_FILES
    ),
]
LabelTypeOption: TypeAlias = Annotated[
    LabelTypeChoice,
    typer.Option(help="What the labels of a CSV file are.", rich_help_panel=_FILES),
]
NoProgressOption: TypeAlias = Annotated[
    bool, typer.Option("--no-progress", help="Draw no bar.", rich_help_panel=_FILES)
]


def label_texts(text: str | None) -> tuple[str, ...] | None:
    """The labels in a comma list, as they are written.

    >>> label_texts("spam,ham")
    ('spam', 'ham')
    """
    if text is None:
        return None
    labels = tuple(text.split(","))
    if not all(labels) or len(set(labels)) != len(labels):
        raise InputError("--labels", expected="labels joined by commas, each once", got=shown(text))
    return labels


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
