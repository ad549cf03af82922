"""``streameval compare``: several models' predictions of the same events, their differences out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streameval.cli import options
from streameval.cli.evaluate import count_and_report, read_chunks
from streameval.cli.output import Format, check_target, say
from streameval.cli.pictures import checked_page
from streameval.cli.reading import Reading, with_reading
from streameval.cli.result import comparison_result
from streameval.errors import InputError, OptionError, shown
from streameval.evaluator.comparison import Comparison
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.slices import slice_value
from streameval.events.values import Label, canonical_label, is_missing
from streameval.records.chunk import KEPT, BadRecords, Chunk, FieldRequest
from streameval.records.csv_table import LabelTypes
from streameval.records.event_columns import EventColumns, joined, plain_values
from streameval.records.input_files import InputFile
from streameval.records.record_counter import BadRecordError, RecordCounter
from streameval.records.request import MAX_SLICES, Request
from streameval.uncertainty.bootstrap import REPLICATES
from streameval.uncertainty.interval import checked_level

_ID = "id"
"""The column that files are joined by."""


@with_reading
def compare(
    files: options.FilesArgument,
    *,
    score: options.ModelScoreOption = None,
    y_pred: options.ModelYPredOption = None,
    on: options.OnOption = None,
    y_true: options.YTrueOption = "y_true",
    weight: options.WeightOption = None,
    time: options.TimeOption = None,
    time_unit: options.TimeUnitOption = None,
    task: options.TaskOption = options.TaskChoice.AUTO,
    positive: options.PositiveOption = None,
    negative: options.NegativeOption = None,
    labels: options.LabelsOption = None,
    threshold: options.ModelThresholdOption = None,
    window: options.WindowOption = None,
    slice: options.SliceOption = None,
    max_slices: options.MaxSlicesOption = None,
    metrics: options.MetricsOption = None,
    level: options.LevelOption = 0.95,
    anytime: options.AnytimeOption = False,
    replicates: options.ReplicatesOption = REPLICATES,
    seed: options.SeedOption = 0,
    format: options.FormatOption = Format.TABLE,
    save: options.SaveOption = None,
    report_file: options.ReportFileOption = None,
    shard: options.ShardOption = None,
    epoch: options.EpochOption = None,
    sequence: options.SequenceOption = None,
    on_bad: options.OnBadOption = options.OnBad.STOP,
    max_bad: options.MaxBadOption = None,
    no_progress: options.NoProgressOption = False,
    reading: Reading,
) -> None:
    """Compare models by their predictions of the same events.

    Each model needs a score (--score MODEL=FIELD) or a label (--y-pred MODEL=FIELD). The first
    model named is the reference. A difference is that of a model less the reference, with its
    interval and the p-value of a paired test.
    """
    models = options.model_fields(score, y_pred)
    if max_slices is not None and slice is None:
        raise OptionError.requires("--max-slices", "--slice", remedy="add --slice FIELD")
    if anytime and window is not None:
        raise OptionError.conflicts(
            "--anytime", "--window", remedy="such a test covers all events since the start"
        )
    skip = options.skips_bad(on_bad, max_bad)
    names = options.metric_names(metrics)
    pictures = checked_page(report_file)
    request = Request(
        y_true=y_true,
        models=models,
        weight=weight,
        time=time,
        time_unit=None if time_unit is None else time_unit.value,
        utc=reading.utc,
        positive=positive,
        negative=negative,
        labels=options.label_texts(labels),
        threshold=threshold,
        task=task.value,
        # Pictures need more states than the metrics that are named.
        metrics=None if pictures else names,
        also_kept=names or () if pictures else (),
        window=None if window is None else options.parse_window(window),
        slices=options.parse_slices(slice) or (),
        max_slices=max_slices or MAX_SLICES,
    )
    tests = {
        "level": checked_level(level),
        "method": "anytime" if anytime else "auto",
        "replicates": replicates,
        "seed": seed,
    }
    sources = reading.sources(files)
    named = options.named_shard(shard, epoch, sequence, save=save)
    if save is not None:
        check_target(save)
    types = reading.label_types()
    join = None
    if on is not None:
        join = _Join(request, on, sources)
        request = join.request
    feed = RecordCounter(request, skip=skip)

    def show(comparison: Evaluator | Comparison) -> bool:
        assert isinstance(comparison, Comparison)
        result = comparison_result(comparison, names, tests)
        result.write(format, feed.bad if skip else None, None if join is None else join.counts())
        return pictures.draw(comparison, result, files, feed.bad)

    if join is None:
        chunks = read_chunks(sources, request.wanted(), types, progress=not no_progress)
    else:
        chunks = join.chunks(types, feed.bad, skip=skip, progress=not no_progress)
    count_and_report(feed, chunks, sources, show, save=save, shard=named, max_bad=max_bad)


class _Join:
    """Files of one model each, joined by an id.

    All files are held in memory until the last one is read.

    Args:
        request: The options; its models in the order of the files.
        on: The field of the id.
        sources: One for each model.

    Raises:
        InputError: Another number of files than of models.
    """

    def __init__(self, request: Request, on: str, sources: Sequence[InputFile]) -> None:
        models = request.models
        if len(sources) != len(models):
            raise InputError(
                "--on",
                expected=f"a file for each of {', '.join(models)}",
                got=f"{len(sources)} files",
                remedy="the first file holds the first model's predictions, and so on",
            )
        self._on = on
        self._sources = sources
        first, *others = models
        self._wanted = [
            [*replace(request, models={first: models[first]}).wanted(), _id(on)],
            *[
                [
                    *(
                        FieldRequest(
                            path, "number" if name == "score" else "label", f"{name}:{model}"
                        )
                        for name, path in models[model].items()
                    ),
                    _id(on),
                ]
                for model in others
            ],
        ]
        # Errors say of which file a field of one name is.
        self.request = replace(
            request,
            models={
                model: {name: f"{path} of {model}" for name, path in fields.items()}
                for model, fields in models.items()
            },
        )
        self.both = 0
        """Ids that every file has."""
        self.unmatched: dict[str, int] = {}
        """From each file to its ids that another lacks."""

    def counts(self) -> dict[str, Any]:
        """Plain data for JSON, once the chunks have been read."""
        return {"both": self.both, "not_in_every_file": self.unmatched}

    def chunks(
        self, types: LabelTypes, bad: BadRecords, *, skip: bool, progress: bool
    ) -> Iterator[Chunk]:
        """The joined events as one chunk, in the order of the first file.

        Raises:
            BadRecordError: The first bad record, where they are not skipped.
            InputError: An id is missing or occurs twice in a file, or none is in every file.
        """
        tables: list[EventColumns] = []
        rows: list[dict[Label, int]] = []
        for source, wanted in zip(self._sources, self._wanted, strict=True):
            parts = []
            for chunk in read_chunks([source], wanted, types, progress=progress):
                if chunk.bad.count and not skip:
                    raise BadRecordError(chunk.bad.first[0])
                bad.count_only(chunk.bad.reasons)
                bad.first.extend(chunk.bad.first[: KEPT - len(bad.first)])
                parts.append(chunk.events)
            tables.append(joined(parts))
            rows.append(_rows_by_id(tables[-1], self._on, source.name))
        ids = [one for one in rows[0] if all(one in other for other in rows[1:])]
        self.both = len(ids)
        self.unmatched = {
            source.name: len(found) - len(ids)
            for source, found in zip(self._sources, rows, strict=True)
        }
        lacking = ", ".join(f"{count:,} of {name}" for name, count in self.unmatched.items())
        if not ids and any(rows):
            raise InputError(
                "--on",
                expected=f"values of {self._on!r} that every file has",
                got=f"none in common, {lacking}",
            )
        if not ids:
            return
        if any(self.unmatched.values()):
            say(f"--on {self._on}: compared {len(ids):,} events; not in every file: {lacking}")
        held = [
            table.take(np.array([found[one] for one in ids], dtype=np.int64))
            for table, found in zip(tables, rows, strict=True)
        ]
        columns = {name: column for part in reversed(held) for name, column in part.columns.items()}
        del columns[_ID]
        yield Chunk(self._sources[0].name, EventColumns(columns, held[0].places), BadRecords())


def _id(path: str) -> FieldRequest:
    # Read as a slice's value, so that 7 and "7" are one id in every format.
    return FieldRequest(path, "slice", _ID)


def _rows_by_id(table: EventColumns, on: str, source: str) -> dict[Label, int]:
    """The row of each id of a file."""
    if not table.rows:
        return {}
    rows: dict[Label, int] = {}
    for row, value in enumerate(plain_values(table.columns[_ID])):
        if is_missing(value):
            place = f"{source}:{table.places[row]}"
            raise InputError(place, expected=f"an id in {on!r}", got="none")
        one = slice_value(canonical_label(value, on))
        if one in rows:
            raise InputError(
                f"{source}:{table.places[row]}",
                expected=f"each {on!r} once",
                got=f"{shown(one)} of line {table.places[rows[one]]} again",
            )
        rows[one] = row
    return rows
