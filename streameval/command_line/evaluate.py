"""``streameval evaluate``: predictions in files, metrics out."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from streameval.command_line.feed import BadRecordError, Feed
from streameval.command_line.options import (
    FormatOption,
    InputFormat,
    LabelTypeChoice,
    MetricsOption,
    OnBad,
    TaskChoice,
    metric_names,
)
from streameval.command_line.output import (
    BAD_INPUT,
    FAILURE,
    Format,
    TargetError,
    print_report,
    say,
    tell_bad_records,
)
from streameval.command_line.progress import byte_bar
from streameval.command_line.request import Request
from streameval.errors import StateError
from streameval.evaluator import Evaluator
from streameval.files.csv_table import LabelTypes
from streameval.files.label_text import LABEL_TYPES
from streameval.files.sources import FORMATS, Source, find_sources, read_source

__all__ = ["check_target", "evaluate", "saved"]


def evaluate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="JSONL, CSV or Parquet files, patterns such as 'day-*.jsonl', or - .",
        ),
    ],
    y_true: Annotated[
        str, typer.Option(metavar="FIELD", help="True label; a dot goes into nested fields.")
    ] = "y_true",
    y_pred: Annotated[str | None, typer.Option(metavar="FIELD", help="Predicted label.")] = None,
    score: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Score of the positive label.")
    ] = None,
    proba: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="Probabilities: an object label -> number, or label=FIELD,label=FIELD.",
        ),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Weight of the event.")
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="The positive label of a binary task; 1 or true unless given.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="A score from here up is predicted positive; 0.5 unless given.",
        ),
    ] = None,
    task: Annotated[
        TaskChoice, typer.Option(help="auto: binary with --score or --positive.")
    ] = TaskChoice.AUTO,
    metrics: MetricsOption = None,
    format: FormatOption = Format.TABLE,
    save: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="Keep the state, for `merge` and `report`."),
    ] = None,
    on_bad: Annotated[
        OnBad, typer.Option(help="skip: leave bad records out, count and list them.")
    ] = OnBad.STOP,
    input_format: Annotated[
        InputFormat | None,
        typer.Option(help="How the files are written; their names tell unless given."),
    ] = None,
    label_type: Annotated[
        LabelTypeChoice, typer.Option(help="What the labels of a CSV file are.")
    ] = LabelTypeChoice.AUTO,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="Draw no bar.")] = False,
) -> None:
    """Evaluate the predictions in files.

    A record needs its true label, and a prediction: a label (--y-pred), a score
    (--score) or probabilities (--proba).
    """
    request = Request(
        y_true,
        y_pred,
        score,
        proba,
        weight,
        positive,
        threshold,
        task.value,
        metric_names(metrics),
    )
    chosen = next((f for f in FORMATS if f == input_format), None)
    sources = find_sources(files, chosen)
    if save is not None:
        check_target(save)
    skip = on_bad is OnBad.SKIP
    feed = Feed(request, skip=skip)
    types = LabelTypes(next((t for t in LABEL_TYPES if t == label_type), None))
    try:
        evaluator = _read(sources, request, feed, types, progress=not no_progress)
    except BadRecordError as error:
        say(f"{error}; nothing was reported (--on-bad skip leaves bad records out)")
        raise typer.Exit(BAD_INPUT) from None
    is_saved = save is None or saved(evaluator, save)
    if not feed.rows and not feed.bad_count:
        say(f"no events in {', '.join(source.name for source in sources)}")
    tell_bad_records(feed.bad, feed.bad_count)
    report = evaluator.report(request.metrics)
    print_report(report, format, feed.bad if skip else None, feed.bad_count)
    if feed.bad_count and not feed.rows:
        say("no record could be counted")
        raise typer.Exit(BAD_INPUT)
    if not is_saved:
        raise typer.Exit(FAILURE)


def _read(
    sources: list[Source], request: Request, feed: Feed, types: LabelTypes, *, progress: bool
) -> Evaluator:
    wanted = request.wanted()
    with byte_bar(sources, wanted=progress) as bar:
        for source in sources:
            bar.start(source)
            for chunk in read_source(source, wanted, types, sys.stdin.buffer, bar.move):
                feed.add(chunk)
        return feed.finish()


def check_target(path: str) -> None:
    """Fail before an hour of reading, not after it, where a state cannot be written.

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


def saved(evaluator: Evaluator, path: str) -> bool:
    """Save a state; a failure is told, and the result is printed all the same."""
    try:
        evaluator.save(path)
    except StateError as error:
        say(str(error))
        return False
    return True
