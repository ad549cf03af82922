"""``streameval evaluate``: predictions in files, metrics out."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate

import typer

from streameval.cli import options
from streameval.cli.output import (
    BAD_INPUT,
    FAILURE,
    TOO_MANY_BAD,
    Format,
    check_target,
    say,
    say_bad_records,
    say_reasons,
)
from streameval.cli.pictures import checked_pictures
from streameval.cli.reading import Reading, with_reading
from streameval.cli.result import Details, result_of, with_details
from streameval.errors import InputError, OptionError, StateError
from streameval.evaluator.comparison import Comparison
from streameval.evaluator.evaluator import Evaluator
from streameval.metrics.cut_points import CutPoint
from streameval.records.chunk import Chunk, FieldRequest
from streameval.records.csv_table import LabelTypes
from streameval.records.input_files import InputFile, column_names, read_source
from streameval.records.parts import counted_in_parts, processes
from streameval.records.record_counter import BadRecordError, RecordCounter
from streameval.records.remote import is_remote
from streameval.records.request import MAX_SLICES, Request
from streameval.state_files.provenance import Shard
from streameval.states.backend import slow_because

_UNKNOWN_THRESHOLD = 0.5
"""Of a request, before a rule has chosen its threshold."""

_LARGE_BYTES = 100_000_000
"""Files of so many bytes together take several seconds longer where nothing is compiled."""

_MAX_BAD = 0.01
"""Share of the records that may be skipped for one reason without ``--max-bad``."""


@with_details
@with_reading
def evaluate(
    files: options.FilesArgument,
    *,
    y_true: options.YTrueOption = "y_true",
    y_pred: options.YPredOption = None,
    score: options.ScoreOption = None,
    proba: options.ProbaOption = None,
    weight: options.WeightOption = None,
    time: options.TimeOption = None,
    time_unit: options.TimeUnitOption = None,
    positive: options.PositiveOption = None,
    negative: options.NegativeOption = None,
    labels: options.LabelsOption = None,
    threshold: options.ThresholdOption = None,
    task: options.TaskOption = options.TaskChoice.AUTO,
    metrics: options.MetricsOption = None,
    format: options.FormatOption = Format.TABLE,
    save: options.SaveOption = None,
    window: options.WindowOption = None,
    slice: options.SliceOption = None,
    details: Details,
    bins: options.BinsOption = None,
    undefined: options.UndefinedOption = None,
    no_probabilities: options.NoProbabilitiesOption = False,
    unit: options.UnitOption = None,
    max_slices: options.MaxSlicesOption = None,
    max_scores: options.MaxScoresOption = None,
    shard: options.ShardOption = None,
    epoch: options.EpochOption = None,
    sequence: options.SequenceOption = None,
    on_bad: options.OnBadOption = options.OnBad.STOP,
    max_bad: options.MaxBadOption = None,
    workers: options.WorkersOption = None,
    no_progress: options.NoProgressOption = False,
    reading: Reading,
) -> None:
    """Evaluate the predictions in files.

    A record needs its true label, and a prediction: a label (--y-pred), a score
    (--score) or probabilities (--proba). Where none is named, fields that are
    called y_pred, score or proba are used.
    """
    without_slices = details.slice_options() + ([] if max_slices is None else ["--max-slices"])
    if slice is None and without_slices:
        raise OptionError.requires(without_slices[0], "--slice", remedy="add --slice FIELD")
    skip = options.skips_bad(on_bad, max_bad)
    calls = options.metric_calls(metrics)
    everything = calls == options.ALL
    cut_at = options.parse_threshold(threshold)
    rule = cut_at if isinstance(cut_at, tuple) else None
    if rule is not None and y_pred is not None:
        remedy = "predicted labels that are read do not depend on it; leave --y-pred out"
        raise OptionError.conflicts(f"--threshold {threshold}", "--y-pred", remedy=remedy)
    sources = reading.sources(files)
    if y_pred is score is proba is None:
        y_pred, score, proba = _usual_fields(sources[0], scores_only=threshold is not None)
    named_metrics = () if calls is None or everything else tuple(name for name, _ in calls)
    pictures = checked_pictures(details)
    more = {"bins": bins, "undefined": undefined}
    request = Request(
        y_true=y_true,
        y_pred=y_pred,
        score=score,
        proba=proba,
        weight=weight,
        unit=unit,
        time=time,
        time_unit=None if time_unit is None else time_unit.value,
        utc=reading.utc,
        positive=positive,
        negative=negative,
        labels=options.label_texts(labels),
        threshold=_UNKNOWN_THRESHOLD if isinstance(cut_at, tuple) else cut_at,
        task=task.value,
        # Pictures need more states than the metrics that are named.
        metrics=None if everything or pictures else named_metrics or None,
        window=None
        if window is None
        else options.parse_window(window, all_panes=details.series is not None),
        slices=options.parse_slices(slice) or (),
        max_slices=max_slices or MAX_SLICES,
        max_scores=max_scores,
        intervals=details.intervals is not None,
        probabilities=not no_probabilities,
        also_kept=(*details.metrics, *named_metrics) if pictures else details.metrics,
        more={name: value for name, value in more.items() if value is not None},
    )
    details.check_window(request.window)
    if request.proba_pattern is not None:
        request = request.with_columns(column_names(sources[0]), sources[0].name)
    named = options.named_shard(shard, epoch, sequence, save=save)
    if save is not None:
        check_target(save)

    _say_slow(sources)
    count = processes(workers, request, sources)

    def begun(request: Request) -> tuple[RecordCounter, Iterable[Chunk]]:
        types = reading.label_types()
        return _begun(request, sources, types, skip=skip, workers=count, progress=not no_progress)

    chosen = None
    if rule is not None and threshold is not None:
        if any(source.path == "-" for source in sources):
            raise OptionError.requires(
                f"--threshold {threshold}", "files, which are read twice", remedy="write it to one"
            )
        # The rule looks at scores alone, of the same window.
        scores = replace(request, metrics=("roc_auc",), also_kept=(), slices=(), unit=None, more={})
        ranked = counted(*begun(scores))
        assert isinstance(ranked, Evaluator)
        chosen = threshold, _chosen_cut(ranked, threshold, rule)
        request = replace(request, threshold=chosen[1].threshold)
    feed, chunks = begun(request)

    def write(evaluator: Evaluator | Comparison) -> bool:
        assert isinstance(evaluator, Evaluator)
        result = result_of(evaluator, calls, details, chosen=chosen)
        result.write(format, feed.bad if skip else None)
        return pictures.draw(evaluator, result, files, feed.bad)

    count_and_report(feed, chunks, sources, write, save=save, shard=named, max_bad=max_bad)


def _say_slow(sources: Sequence[InputFile]) -> None:
    """Print how to be faster where large files are read without compiled parts."""
    slow = slow_because()
    if slow:
        # The size of a remote file takes a request.
        sizes = (source.size or 0 for source in sources if not is_remote(source.path))
        if sum(sizes) >= _LARGE_BYTES:
            say(slow)


def _usual_fields(source: InputFile, *, scores_only: bool) -> tuple[str | None, ...]:
    """The fields y_pred, score and proba, each None where the source has no field of that name.

    Args:
        source: The first one; of standard input nothing is known before it is read.
        scores_only: Whether predicted labels are of no use.
    """
    known = column_names(source) or ()
    y_pred = "y_pred" if "y_pred" in known and not scores_only else None
    score = "score" if "score" in known else None
    proba = "proba" if "proba" in known and y_pred is score is None else None
    found = [name for name in (y_pred, score, proba) if name is not None]
    if found:
        say(f"no field of predictions is named; used: {', '.join(found)}")
    return y_pred, score, proba


def _chosen_cut(evaluator: Evaluator, text: str, rule: tuple[str, dict[str, float]]) -> CutPoint:
    """The cut-point of a rule of ``--threshold``; raises InputError where there is none."""
    name, params = rule
    cut = evaluator.thresholds(name, **params)
    if cut.reason or not math.isfinite(cut.threshold):
        raise InputError(
            "--threshold",
            expected=f"events of which {text} is the best at some threshold",
            got=cut.reason or "events of which it is the best to predict none positive",
            remedy="give a number, or another rule",
        )
    return cut


def _begun(
    request: Request,
    sources: Sequence[InputFile],
    types: LabelTypes,
    *,
    skip: bool,
    workers: int,
    progress: bool,
) -> tuple[RecordCounter, Iterable[Chunk]]:
    """The feed of the files' records, and the chunks that it has not counted yet."""
    if workers > 1:
        with _byte_bar(sources, wanted=progress) as begin:
            done, report = 0, begin(sources[0])

            def advance(count: int) -> None:
                nonlocal done
                done += count
                report(done)

            feed = counted_in_parts(
                request, sources, types, skip=skip, workers=workers, advance=advance
            )
        if feed is not None:
            return feed, ()
    chunks = read_chunks(sources, request.wanted(), types, progress=progress)
    return RecordCounter(request, skip=skip), chunks


def read_chunks(
    sources: Sequence[InputFile],
    wanted: Sequence[FieldRequest],
    types: LabelTypes,
    *,
    progress: bool,
) -> Iterator[Chunk]:
    """The chunks of some sources, one source after another, with a progress bar."""
    with _byte_bar(sources, wanted=progress) as begin:
        for source in sources:
            yield from read_source(source, wanted, types, sys.stdin.buffer, begin(source))


def count_and_report(
    feed: RecordCounter,
    chunks: Iterable[Chunk],
    sources: Sequence[InputFile],
    write: Callable[[Evaluator | Comparison], bool],
    *,
    save: str | None,
    shard: Shard | None,
    max_bad: float | None,
) -> None:
    """Count the chunks' events, print the result and save the state.

    Args:
        feed: Counts the events.
        chunks: Of all sources.
        sources: The files.
        write: Prints the result; False where a part of it could not be written.
        save: Where the state is written, or None.
        shard: Which shard the state is, or None.
        max_bad: Share of the records that may be skipped for one reason.

    Raises:
        typer.Exit: By the exit codes of the command.
    """
    evaluator = counted(feed, chunks)
    bad = feed.bad
    records = feed.rows + bad.count
    most = _MAX_BAD if max_bad is None else max_bad
    too_many = max(bad.reasons.values(), default=0) > most * records
    is_written = save is None or too_many or saved(evaluator, save, shard)
    if not records:
        say(f"no events in {', '.join(source.name for source in sources)}")
    for path in feed.slices_without_value if feed.rows else ():
        say(f"--slice {path}: no record has a value there, so all are in {path}=(missing)")
    say_bad_records(bad)
    is_written &= write(evaluator)
    if bad.count and not feed.rows:
        say("no record could be counted")
        raise typer.Exit(BAD_INPUT)
    if too_many:
        say_reasons(bad, records)
        unsaved = "" if save is None else f"{save} was not written; "
        say(
            f"more than {most * 100:g} % of the records for one reason: {unsaved}correct the "
            "records or the options, or raise --max-bad"
        )
        raise typer.Exit(TOO_MANY_BAD)
    if not is_written:
        raise typer.Exit(FAILURE)


def counted(feed: RecordCounter, chunks: Iterable[Chunk]) -> Evaluator | Comparison:
    """What counted the chunks' events; a bad record that stops the run is printed."""
    try:
        for chunk in chunks:
            feed.add(chunk)
        return feed.finish()
    except BadRecordError as error:
        say(f"{error}; nothing was reported (--on-bad skip skips bad records)")
        raise typer.Exit(BAD_INPUT) from None


def saved(evaluator: Evaluator | Comparison, path: str, shard: Shard | None = None) -> bool:
    """Save a state; a failure is printed and returned, so that the result is printed too."""
    try:
        if shard is not None:
            evaluator.name_shard(shard.name, epoch=shard.epoch, sequence=shard[2:])
        evaluator.save(path)
    except StateError as error:
        say(str(error))
        return False
    return True


@contextmanager
def _byte_bar(
    sources: Sequence[InputFile], *, wanted: bool
) -> Iterator[Callable[[InputFile], Callable[[int], None]]]:
    """A progress bar of the bytes read; nothing where the standard error is not a terminal.

    A call begins a file, and returns the callback that takes the position in it.
    """
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield lambda source: lambda position: None
        return
    # Imported only for a terminal: most runs of the command are in scripts.
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    sizes = [source.size or 0 for source in sources]
    begins = dict(zip(sources, accumulate(sizes, initial=0), strict=False))
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("", total=sum(sizes) if all(sizes) else None)

        def begin(source: InputFile) -> Callable[[int], None]:
            bar.update(task, description=os.path.basename(source.name))
            return lambda position: bar.update(
                task,
                # Parquet is not read from front to end.
                completed=max(bar.tasks[0].completed, begins[source] + position),
            )

        yield begin
