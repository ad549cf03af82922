"""``streameval evaluate``: predictions in files, metrics out."""

from __future__ import annotations

import sys

import typer

from streameval.command_line.details import Details
from streameval.command_line.feed import BadRecordError, Feed
from streameval.command_line.options import (
    ByOption,
    FilesArgument,
    FormatOption,
    InputFormatOption,
    LabelsOption,
    LabelTypeChoice,
    LabelTypeOption,
    MaxBadOption,
    MaxSlicesOption,
    MetricsOption,
    MinSupportOption,
    NoProgressOption,
    OnBad,
    OnBadOption,
    PlotOption,
    PositiveOption,
    ProbaOption,
    SaveOption,
    ScoreOption,
    SeriesOption,
    SliceOption,
    TaskChoice,
    TaskOption,
    ThresholdOption,
    TimeOption,
    TimeUnitOption,
    WeightOption,
    WindowOption,
    WorstOption,
    YPredOption,
    YTrueOption,
    label_texts,
    metric_names,
)
from streameval.command_line.output import (
    BAD_INPUT,
    FAILURE,
    TOO_MANY_BAD,
    Format,
    check_target,
    say,
    tell_bad_records,
    tell_reasons,
)
from streameval.command_line.progress import byte_bar
from streameval.command_line.request import Request
from streameval.command_line.result import result_of
from streameval.command_line.window_text import parse_slices, parse_window
from streameval.errors import InputError, StateError
from streameval.evaluator import Evaluator
from streameval.files.csv_table import LabelTypes
from streameval.files.label_text import LABEL_TYPES
from streameval.files.sources import FORMATS, Source, find_sources, read_source

__all__ = ["evaluate", "saved"]

_MAX_SLICES = 10_000

_MAX_BAD = 0.01
"""Share of the records that may be skipped for one reason unless ``--max-bad`` says otherwise."""


def evaluate(
    files: FilesArgument,
    y_true: YTrueOption = "y_true",
    y_pred: YPredOption = None,
    score: ScoreOption = None,
    proba: ProbaOption = None,
    weight: WeightOption = None,
    time: TimeOption = None,
    time_unit: TimeUnitOption = None,
    task: TaskOption = TaskChoice.AUTO,
    positive: PositiveOption = None,
    labels: LabelsOption = None,
    threshold: ThresholdOption = None,
    window: WindowOption = None,
    slice: SliceOption = None,
    max_slices: MaxSlicesOption = None,
    by: ByOption = None,
    worst: WorstOption = None,
    min_support: MinSupportOption = None,
    series: SeriesOption = None,
    plot: PlotOption = None,
    metrics: MetricsOption = None,
    format: FormatOption = Format.TABLE,
    save: SaveOption = None,
    on_bad: OnBadOption = OnBad.STOP,
    max_bad: MaxBadOption = None,
    input_format: InputFormatOption = None,
    label_type: LabelTypeOption = LabelTypeChoice.AUTO,
    no_progress: NoProgressOption = False,
) -> None:
    """Evaluate the predictions in files.

    A record needs its true label, and a prediction: a label (--y-pred), a score
    (--score) or probabilities (--proba).
    """
    details = Details(by=by, worst=worst, min_support=min_support, series=series, plot=plot)
    without_slices = details.slice_options() + ([] if max_slices is None else ["--max-slices"])
    if slice is None and without_slices:
        raise InputError(
            without_slices[0],
            expected="it beside --slice",
            got="no --slice",
            remedy="add --slice FIELD",
        )
    skip = on_bad is OnBad.SKIP
    if max_bad is not None and not skip:
        raise InputError("--max-bad", expected="--on-bad skip, which it requires", got="no")
    request = Request(
        y_true=y_true,
        y_pred=y_pred,
        score=score,
        proba=proba,
        weight=weight,
        time=time,
        time_unit=None if time_unit is None else time_unit.value,
        positive=positive,
        labels=label_texts(labels),
        threshold=threshold,
        task=task.value,
        metrics=metric_names(metrics),
        window=None if window is None else parse_window(window, all_panes=series is not None),
        slices=() if slice is None else parse_slices(slice, max_slices or _MAX_SLICES),
        max_slices=max_slices or _MAX_SLICES,
        details=details,
    )
    chosen = next((f for f in FORMATS if f == input_format), None)
    sources = find_sources(files, chosen)
    details.check_plot()
    if save is not None:
        check_target(save)
    feed = Feed(request, skip=skip)
    types = LabelTypes(next((t for t in LABEL_TYPES if t == label_type), None))
    try:
        evaluator = _read(sources, request, feed, types, progress=not no_progress)
    except BadRecordError as error:
        say(f"{error}; nothing was reported (--on-bad skip leaves bad records out)")
        raise typer.Exit(BAD_INPUT) from None
    bad = feed.bad
    records = feed.rows + bad.count
    most = _MAX_BAD if max_bad is None else max_bad
    too_many = max(bad.reasons.values(), default=0) > most * records
    is_written = save is None or too_many or saved(evaluator, save)
    if not records:
        say(f"no events in {', '.join(source.name for source in sources)}")
    for path in feed.slices_without_value if feed.rows else ():
        say(f"--slice {path}: no record has a value there, so all are in {path}=(missing)")
    tell_bad_records(bad)
    result = result_of(evaluator, request.metrics, details)
    result.write(format, bad if skip else None)
    is_written &= details.draw(result.series)
    if bad.count and not feed.rows:
        say("no record could be counted")
        raise typer.Exit(BAD_INPUT)
    if too_many:
        tell_reasons(bad, records)
        unsaved = "" if save is None else f"{save} was not written; "
        say(
            f"more than {most * 100:g} % of the records for one reason: {unsaved}mend the "
            "records or the options, or raise --max-bad"
        )
        raise typer.Exit(TOO_MANY_BAD)
    if not is_written:
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


def saved(evaluator: Evaluator, path: str) -> bool:
    """Save a state; a failure is told, and the result is printed all the same."""
    try:
        evaluator.save(path)
    except StateError as error:
        say(str(error))
        return False
    return True
