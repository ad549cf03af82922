"""What the commands that count files share: their options, and how records are counted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import typer

from streameval.cli.options import (
    InputFormat,
    LabelTypeChoice,
    OnBad,
    SaveOption,
    TaskChoice,
    TimeUnit,
    complete_window,
    label_texts,
    of_field,
    of_file,
    of_task,
    of_window,
    parse_slices,
    parse_window,
    positions,
    rare,
)
from streameval.cli.output import check_target, say_bad_records, say_reasons
from streameval.cli.streams import BAD_INPUT, FAILURE, TOO_MANY_BAD, say
from streameval.errors import InputError, OptionError, StateError
from streameval.evaluator.comparison import Comparison, reference_of
from streameval.evaluator.evaluator import Evaluator
from streameval.metrics.registry import shown_metrics
from streameval.records.chunk import Chunk, FieldRequest
from streameval.records.csv_table import LabelTypes
from streameval.records.input_files import InputFile, check_layout, find_sources, read_sources
from streameval.records.label_text import LABEL_TYPES
from streameval.records.layout import FORMATS, text_layout
from streameval.records.parts import counted_in_parts
from streameval.records.record_counter import BadRecordError, RecordCounter
from streameval.records.rules import check_spec
from streameval.records.spec import MAX_SLICES, Spec
from streameval.records.wording import COMMAND
from streameval.state_files.provenance import Shard, checked_shard
from streameval.windows.kinds import KINDS

_MAX_BAD = 0.01
"""Share of the records that may be skipped for one reason without ``--max-bad``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The options of how files are written."""

    input_format: InputFormat | None = of_file(
        f"{', '.join(FORMATS)}; by name by default.", metavar="FORMAT"
    )
    label_type: LabelTypeChoice = rare(
        "Type of the labels in a CSV file.", show_default=False, default=LabelTypeChoice.AUTO
    )
    delimiter: str | None = of_file(
        "Between the fields of CSV, such as ';' or tab.", metavar="CHARACTER"
    )
    no_header: bool = of_file(
        "CSV without a header: fields are numbers from 1.", "--no-header", default=False
    )
    encoding: str | None = of_file("Encoding of CSV and JSON, such as latin-1.", metavar="NAME")
    na_values: str | None = of_file(
        "CSV cells that are missing values; NA, NaN, null and the like by default.",
        metavar="TEXT,TEXT",
    )
    utc: bool = of_file("Take times without a zone as UTC.", "--utc", default=False)

    def sources(self, files: Sequence[str]) -> list[InputFile]:
        """The files that paths, patterns and directories name; raises InputError."""
        layout = text_layout(
            COMMAND,
            delimiter=self.delimiter,
            encoding=self.encoding,
            header=not self.no_header,
            na_values=None if self.na_values is None else self.na_values.split(","),
        )
        chosen = next((name for name in FORMATS if name == self.input_format), None)
        sources = find_sources(files, chosen, layout)
        check_layout(sources, layout, COMMAND)
        return sources

    def label_types(self) -> LabelTypes:
        """The types of labels in CSV files."""
        return LabelTypes(next((name for name in LABEL_TYPES if name == self.label_type), None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The options of what is evaluated, but those of the predictions."""

    weight: str | None = of_field("Weight of the event.")
    time: str | None = of_field("Event time: ISO 8601 with an offset, or a number.")
    time_unit: TimeUnit | None = of_field("Unit of numeric times, since 1970.", metavar=None)
    task: TaskChoice = of_task(
        "By default binary with --score or --positive.", show_default=False, default=TaskChoice.AUTO
    )
    positive: str | None = of_task("Positive label; 1 or true by default.", metavar="LABEL")
    negative: str | None = of_task(
        "Negative label; a record of a third label is then bad.", metavar="LABEL"
    )
    labels: str | None = of_task(
        "All labels; by default they are discovered.", metavar="LABEL,LABEL"
    )
    label_separator: str | None = of_task(
        "Multi-label: between the labels of a text: '|'.", metavar="TEXT"
    )
    window: str | None = of_window(
        " ".join(["Events to count; all by default.", *(k.help for k in KINDS.values() if k.help)]),
        metavar="WINDOW",
        autocompletion=complete_window,
    )
    slice: str | None = of_window(
        "Evaluate by these fields too; country+model: each pair.", metavar="FIELD,FIELD"
    )
    max_slices: int | None = rare("Most slices kept; 10000 by default.", metavar="N", min=1)

    def check_slices(self, given: Sequence[str] = ()) -> None:
        """Raise OptionError if options that require ``--slice`` are given without it."""
        for option in (*given, *([] if self.max_slices is None else ["--max-slices"])):
            if self.slice is None:
                raise OptionError.requires(option, "--slice", remedy="add --slice FIELD")

    def spec(self, reading: Reading, *, all_panes: bool = False, **more: Any) -> Spec:
        """The checked Spec of these options and of others; raises InputError, MetricError."""
        window, unit = self.window, self.time_unit
        return check_spec(
            Spec(
                weight=self.weight,
                time=self.time,
                time_unit=None if unit is None else unit.value,
                utc=reading.utc,
                positive=self.positive,
                negative=self.negative,
                labels=label_texts(self.labels),
                label_separator=self.label_separator,
                task=self.task.value,
                window=None if window is None else parse_window(window, all_panes=all_panes),
                slices=parse_slices(self.slice) or (),
                max_slices=self.max_slices or MAX_SLICES,
                **more,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """The options of bad records, of progress and of the state that is saved."""

    save: SaveOption = None
    shard: str | None = rare("Name of the shard that is saved.", metavar="NAME")
    epoch: int | None = rare("Number of this evaluation of the shard.", metavar="N", min=0)
    sequence: str | None = rare("The shard's positions in these files.", metavar="FIRST:END")
    on_bad: OnBad = of_file(
        "skip: leave bad records out, and list them.", show_default=False, default=OnBad.STOP
    )
    max_bad: float | None = rare(
        "Share that may be bad for one reason; 0.01 by default.", metavar="SHARE", min=0, max=1
    )
    no_progress: bool = rare("Draw no bar.", "--no-progress", default=False)

    @property
    def skip(self) -> bool:
        """Whether bad records are skipped; ``--max-bad`` requires it."""
        skip = self.on_bad is OnBad.SKIP
        if self.max_bad is not None and not skip:
            raise OptionError.requires("--max-bad", "--on-bad skip")
        return skip

    def named(self) -> Shard | None:
        """The shard that is saved, if it is named; a file that cannot be written is an error."""
        named = None
        if self.shard is None:
            for option, value in (("--epoch", self.epoch), ("--sequence", self.sequence)):
                if value is not None:
                    raise OptionError.requires(option, "--shard", remedy="add --shard NAME")
        elif self.save is None:
            raise OptionError.requires("--shard", "--save", remedy="add --save STATE")
        else:
            try:
                sequence = None if self.sequence is None else positions(self.sequence)
                named = checked_shard(self.shard, self.epoch or 0, sequence)
            except InputError as error:
                raise error.of(f"--{error.field}", remedy="") from None
        if self.save is not None:
            check_target(self.save)
        return named


def read_chunks(
    sources: Sequence[InputFile],
    wanted: Sequence[FieldRequest],
    types: LabelTypes,
    *,
    progress: bool,
) -> Iterator[Chunk]:
    """The chunks of some sources, one source after another, with a progress bar."""
    with _byte_bar(sources, wanted=progress) as begin:
        yield from read_sources(sources, wanted, types, begin)


def begun_in_parts(
    spec: Spec, sources: Sequence[InputFile], reading: Reading, counting: Counting, workers: int
) -> tuple[RecordCounter, Iterable[Chunk]]:
    """The counter of the files' records, and the chunks that it has not counted yet."""
    types, skip, progress = reading.label_types(), counting.skip, not counting.no_progress
    if workers > 1:
        with _byte_bar(sources, wanted=progress) as begin:
            done, report = 0, begin(sources[0])

            def advance(count: int) -> None:
                nonlocal done
                done += count
                report(done)

            counter = counted_in_parts(
                spec, sources, types, skip=skip, workers=workers, advance=advance
            )
        if counter is not None:
            return counter, ()
    chunks = read_chunks(sources, spec.field_requests(), types, progress=progress)
    return RecordCounter(spec, skip=skip), chunks


def count_and_report(
    counter: RecordCounter,
    chunks: Iterable[Chunk],
    sources: Sequence[InputFile],
    write: Callable[[Evaluator | Comparison], bool],
    counting: Counting,
    shard: Shard | None,
) -> None:
    """Count the events, save the state and print the result; raises typer.Exit."""
    save = counting.save
    evaluator = counted(counter, chunks)
    bad = counter.bad
    records = counter.rows + bad.count
    most = _MAX_BAD if counting.max_bad is None else counting.max_bad
    too_many = max(bad.reasons.values(), default=0) > most * records
    is_written = save is None or too_many or saved(evaluator, save, shard)
    if save is not None and not too_many and is_written:
        _say_left_out(evaluator, save)
    if not records:
        say(f"no events in {', '.join(source.name for source in sources)}")
    for path in counter.slices_without_value if counter.rows else ():
        say(f"--slice {path}: no record has a value there, so all are in {path}=(missing)")
    say_bad_records(bad)
    is_written &= write(evaluator)
    if bad.count and not counter.rows:
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


def counted(counter: RecordCounter, chunks: Iterable[Chunk]) -> Evaluator | Comparison:
    """What counted the chunks' events; a bad record that stops the run is printed."""
    try:
        return counter.count(chunks)
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


def _say_left_out(evaluator: Evaluator | Comparison, path: str) -> None:
    """Print which usual metrics a saved state cannot be asked for, where some were named."""
    first = reference_of(evaluator)
    rows = [] if first.options["metrics"] is None else shown_metrics(first.task)
    lacking = [row.name for row in rows if not all(map(first.plan.serves, row.states))]
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        names = ", ".join(lacking[:3])
        say(f"{path} cannot be asked for {names}{more} later: --metrics left them out")


@contextmanager
def _byte_bar(
    sources: Sequence[InputFile], *, wanted: bool
) -> Iterator[Callable[[InputFile], Callable[[int], None]]]:
    """A progress bar of the bytes read; nothing where the standard error is not a terminal."""
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
