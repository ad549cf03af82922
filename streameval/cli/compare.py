"""``streameval compare``: several models' predictions of the same events, their differences out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streameval.cli import options
from streameval.cli.counting import Counting, Evaluated, Reading, count_and_report, read_chunks
from streameval.cli.gate import Gate
from streameval.cli.options import (
    AnytimeOption,
    FailIfOption,
    FilesArgument,
    FormatOption,
    LevelOption,
    MetricsOption,
    ReportFileOption,
    of_field,
    of_task,
    rare,
)
from streameval.cli.output import Format, say
from streameval.cli.pictures import checked_files
from streameval.cli.result import comparison_result, write_result
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
from streameval.records.spec import KINDS, Spec
from streameval.uncertainty.bootstrap import REPLICATES
from streameval.uncertainty.interval import DEFAULT_LEVEL, checked_level

_ID = "id"
"""The column that files are joined by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The options of the predictions of several models, and of the tests of their differences."""

    score: list[str] | None = of_field(
        "Score of the positive label by a model; once for each model, the reference first.",
        metavar="MODEL=FIELD",
    )
    y_pred: list[str] | None = of_field(
        "Predicted label of a model; once for each model.", metavar="MODEL=FIELD"
    )
    on: str | None = of_field(
        "Join the files by this id: the first one holds the first model's predictions and "
        "all else, the second one the second model's, and so on.",
        "--on",
    )
    y_true: str = of_field("True label.", default="y_true")
    threshold: float | None = of_task(
        "Smallest score predicted positive; 0.5 by default.", "--threshold", metavar="NUMBER"
    )
    level: LevelOption = DEFAULT_LEVEL
    anytime: AnytimeOption = False
    replicates: int = rare(
        "Replicates of the bootstrap.", metavar="N", min=10, max=100_000, default=REPLICATES
    )
    seed: int = rare("Seed of the bootstrap.", metavar="N", min=0, default=0)


def compare(
    files: FilesArgument,
    *,
    given: Models,
    evaluated: Evaluated,
    metrics: MetricsOption = None,
    format: FormatOption = Format.TABLE,
    counting: Counting,
    report_file: ReportFileOption = None,
    fail_if: FailIfOption = None,
    reading: Reading,
) -> None:
    """Compare models by their predictions of the same events.

    Each model needs a score (--score MODEL=FIELD) or a label (--y-pred MODEL=FIELD). The first
    model named is the reference. A difference is that of a model less the reference, with its
    interval and the p-value of a paired test.
    """
    gate = Gate.of(fail_if)
    models = options.model_fields(given.score, given.y_pred)
    evaluated.check_slices()
    if given.anytime and evaluated.window is not None:
        raise OptionError.conflicts(
            "--anytime", "--window", remedy="such a test covers all events since the start"
        )
    skip = counting.skip
    names = options.metric_names(metrics)
    pictures = checked_files((), report_file)
    spec = evaluated.spec(
        reading,
        models=models,
        y_true=given.y_true,
        threshold=given.threshold,
        # Pictures need more states than the metrics that are named.
        metrics=None if pictures else names,
        also_kept=(*gate.metrics, *((names or ()) if pictures else ())),
    )
    gate.check(spec.slices, list(models), add="add")
    tests: dict[str, Any] = {
        "level": checked_level(given.level),
        "method": "anytime" if given.anytime else "auto",
        "replicates": given.replicates,
        "seed": given.seed,
    }
    sources = reading.sources(files)
    shard = counting.named()
    types, progress = reading.label_types(), not counting.no_progress
    join = None
    if given.on is not None:
        join = _Join(spec, given.on, sources)
        spec = join.spec
    counter = RecordCounter(spec, skip=skip)

    def show(comparison: Evaluator | Comparison) -> bool:
        assert isinstance(comparison, Comparison)
        joined = None if join is None else join.counts()
        result = comparison_result(comparison, names, tests, joined=joined)
        gate.judge(comparison, **tests)
        write_result(result, format, counter.bad if skip else None, gate)
        return pictures.draw(comparison, result, files, counter.bad)

    if join is None:
        chunks = read_chunks(sources, spec.field_requests(), types, progress=progress)
    else:
        chunks = join.chunks(types, counter.bad, skip=skip, progress=progress)
    count_and_report(counter, chunks, sources, show, counting, shard)
    gate.end()


class _Join:
    """Files of one model each, joined by an id."""

    def __init__(self, spec: Spec, on: str, sources: Sequence[InputFile]) -> None:
        models = spec.models
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
        self._wanted = [[*replace(spec, models={first: models[first]}).field_requests(), _id(on)]]
        for model in others:
            fields = models[model].items()
            of_model = [
                FieldRequest(path, spec.task_fields.get(name, KINDS[name]), f"{name}:{model}")
                for name, path in fields
            ]
            self._wanted.append([*of_model, _id(on)])
        # Errors say of which file a field of one name is.
        self.spec = replace(
            spec,
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
        """The joined events as one chunk, in the order of the first file."""
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
            table.select(np.array([found[one] for one in ids], dtype=np.int64))
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
