"""The options of the commands: type and help, by which parameters are annotated, and parsers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, TypeAlias

import typer

from streameval.cli.output import Format
from streameval.errors import InputError, OptionError, shown
from streameval.evaluator.slices import Slicer
from streameval.records.layout import FORMATS
from streameval.records.request import Dimensions
from streameval.state_files.provenance import Shard, checked_shard
from streameval.states.ranking.coarse_score import LEAST_SCORES
from streameval.windows.kinds import KINDS, window_forms
from streameval.windows.window import WindowKind, WindowSpec

InputFormat = StrEnum("InputFormat", ["JSONL", "CSV", "TSV", "PARQUET", "ARROW"])
LabelTypeChoice = StrEnum("LabelTypeChoice", ["AUTO", "STR", "INT", "BOOL"])
TaskChoice = StrEnum("TaskChoice", ["AUTO", "BINARY", "MULTICLASS"])
OnBad = StrEnum("OnBad", ["STOP", "SKIP"])
TimeUnit = StrEnum("TimeUnit", ["S", "MS", "US", "NS"])

_SEQUENCE = re.compile(r"([0-9]{1,19}):([0-9]{1,19})")

_field: Any = partial(typer.Option, metavar="FIELD", rich_help_panel="Fields of a record")
_task: Any = partial(typer.Option, rich_help_panel="The task")
_windows: Any = partial(typer.Option, rich_help_panel="Windows and slices")
_result: Any = partial(typer.Option, rich_help_panel="The result")
_files: Any = partial(typer.Option, rich_help_panel="The files")
_written: Any = partial(typer.Option, rich_help_panel="How the files are written")

FilesArgument: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="JSONL, CSV, Parquet or Arrow, also compressed; a pattern such as 'day-*.jsonl'; "
        "a directory; or - for standard input.",
    ),
]
StateArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="STATE", help="A state that `evaluate` or `compare` saved.")
]
StatesArgument: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="STATE", help="States that `evaluate` saved, or `compare`.")
]

ModelYPredOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODEL=FIELD",
        help="Predicted label of a model; once for each model.",
        rich_help_panel="Fields of a record",
    ),
]
ModelScoreOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODEL=FIELD",
        help="Score of the positive label by a model; once for each model, the reference first.",
        rich_help_panel="Fields of a record",
    ),
]
OnOption: TypeAlias = Annotated[
    str | None,
    _field(
        "--on",
        help="Join the files by this id: the first one holds the first model's predictions and "
        "all else, the second one the second model's, and so on.",
    ),
]
YTrueOption: TypeAlias = Annotated[str, _field(help="True label; a dot goes into nested fields.")]
YPredOption: TypeAlias = Annotated[str | None, _field(help="Predicted label.")]
ScoreOption: TypeAlias = Annotated[str | None, _field(help="Score of the positive label.")]
ProbaOption: TypeAlias = Annotated[
    str | None,
    _field(
        help="Probabilities: 'p_*' for fields named p_LABEL; label=FIELD,label=FIELD; an object "
        "label -> number; with --labels a list; binary: also the positive label's number."
    ),
]
WeightOption: TypeAlias = Annotated[str | None, _field(help="Weight of the event.")]
UnitOption: TypeAlias = Annotated[
    str | None,
    _field(
        help="What events are alike by, such as the user: intervals are then of whole units, "
        "not of single events."
    ),
]
TimeOption: TypeAlias = Annotated[
    str | None,
    _field(help="Time of the event: ISO 8601 with an offset, or a number with --time-unit."),
]
TimeUnitOption: TypeAlias = Annotated[
    TimeUnit | None, _field(metavar=None, help="Unit of numeric times, since 1970.")
]

TaskOption: TypeAlias = Annotated[
    TaskChoice, _task(help="auto: binary with --score or --positive.")
]
LabelsOption: TypeAlias = Annotated[
    str | None,
    _task(
        metavar="LABEL,LABEL",
        help="All labels; a record of another label is bad. By default they are discovered, "
        "and the first other label of a binary task is the negative one.",
    ),
]
PositiveOption: TypeAlias = Annotated[
    str | None,
    _task(metavar="LABEL", help="Positive label of a binary task; 1 or true by default."),
]
NegativeOption: TypeAlias = Annotated[
    str | None,
    _task(metavar="LABEL", help="Negative label; a record of a third label is then bad."),
]
ThresholdOption: TypeAlias = Annotated[
    float | None,
    _task(metavar="NUMBER", help="Smallest score that is predicted positive; 0.5 by default."),
]

WindowOption: TypeAlias = Annotated[
    str | None,
    _windows(
        metavar="WINDOW",
        help=" ".join(
            ["Events to count; all by default.", *(k.help for k in KINDS.values() if k.help)]
        ),
    ),
]
SliceOption: TypeAlias = Annotated[
    str | None,
    _windows(
        metavar="FIELD,FIELD",
        help="Evaluate by these fields too; country+model is one slice for each pair.",
    ),
]
ShowSliceOption: TypeAlias = Annotated[
    str | None,
    _windows(
        metavar="FIELD,FIELD",
        help="Show the slices by these fields only, written as for `evaluate`.",
    ),
]
MaxSlicesOption: TypeAlias = Annotated[
    int | None,
    _windows(
        metavar="N",
        min=1,
        help="Most slices kept, 10000 by default; events of others are counted in (other).",
    ),
]
MaxScoresOption: TypeAlias = Annotated[
    int | None,
    _windows(
        metavar="N",
        min=LEAST_SCORES,
        help="Most distinct scores kept; beyond them values of the ranking have bounds. "
        "All are kept by default.",
    ),
]
ByOption: TypeAlias = Annotated[
    str | None,
    _windows(metavar="METRIC", help="Metric to order slices by; f1 or f1_macro by default."),
]
WorstOption: TypeAlias = Annotated[
    int | None, _windows(metavar="N", min=1, help="Show only the N worst slices.")
]
MinSupportOption: TypeAlias = Annotated[
    float | None, _windows(metavar="N", min=0, help="Leave out slices of less support.")
]
SeriesOption: TypeAlias = Annotated[
    str | None, _windows(metavar="METRIC", help="Show this metric for each pane.")
]
PlotOption: TypeAlias = Annotated[
    str | None,
    _windows(metavar="FILE", help="Draw the series with its supports: .png, .svg, .pdf or .html."),
]

IntervalsOption: TypeAlias = Annotated[
    float | None,
    _result(
        metavar="LEVEL",
        help="Show the confidence interval of each value too; 0.95 is usual.",
    ),
]
AnytimeOption: TypeAlias = Annotated[
    bool,
    _result(
        "--anytime",
        help="Intervals, and tests of `compare`, that hold however often they are read while "
        "events arrive.",
    ),
]
MetricsOption: TypeAlias = Annotated[
    str | None,
    _result(
        metavar="NAME,NAME",
        help="Metrics to report, in this order; the usual ones by default.",
    ),
]
LevelOption: TypeAlias = Annotated[
    float, _result(metavar="LEVEL", help="Level of the intervals of the differences.")
]
ReplicatesOption: TypeAlias = Annotated[
    int, _result(metavar="N", min=10, max=100_000, help="Replicates of the bootstrap.")
]
SeedOption: TypeAlias = Annotated[int, _result(metavar="N", min=0, help="Seed of the bootstrap.")]
FormatOption: TypeAlias = Annotated[Format, _result("--format", help="Format of the result.")]
SaveOption: TypeAlias = Annotated[
    str | None, _result(metavar="STATE", help="Write the state, for `merge` and `report`.")
]
ShardOption: TypeAlias = Annotated[
    str | None,
    _result(
        metavar="NAME", help="Name the shard that the saved state is; `merge` refuses it twice."
    ),
]
EpochOption: TypeAlias = Annotated[
    int | None,
    _result(
        metavar="N", min=0, help="Number of this evaluation of the shard; a newer one replaces it."
    ),
]
SequenceOption: TypeAlias = Annotated[
    str | None,
    _result(metavar="FIRST:END", help="The shard's positions in these files: END is the next one."),
]
ExpectOption: TypeAlias = Annotated[
    str | None,
    _result(metavar="FILE", help="Exit with 1 if a shard named in FILE, one a line, is missing."),
]
AllowOverlapOption: TypeAlias = Annotated[
    bool,
    _result("--allow-overlap", help="Also count events that several of the states hold."),
]

OnBadOption: TypeAlias = Annotated[
    OnBad, _files(help="skip: leave bad records out, count and list them.")
]
MaxBadOption: TypeAlias = Annotated[
    float | None,
    _files(
        metavar="SHARE",
        min=0,
        max=1,
        help="Share of the records that may be skipped for one reason, 0.01 by default; "
        "beyond it the exit code is 3.",
    ),
]
InputFormatOption: TypeAlias = Annotated[
    InputFormat | None,
    _written(metavar="FORMAT", help=f"{', '.join(FORMATS)}; by the file name by default."),
]
LabelTypeOption: TypeAlias = Annotated[
    LabelTypeChoice, _written(help="Type of the labels in a CSV file.")
]
DelimiterOption: TypeAlias = Annotated[
    str | None,
    _written(metavar="CHARACTER", help="Between the fields of CSV, such as ';' or tab."),
]
NoHeaderOption: TypeAlias = Annotated[
    bool,
    _written("--no-header", help="CSV without a header: fields are numbers from 1 (--y-true 1)."),
]
EncodingOption: TypeAlias = Annotated[
    str | None, _written(metavar="NAME", help="Encoding of CSV and JSONL, such as latin-1.")
]
NaValuesOption: TypeAlias = Annotated[
    str | None,
    _written(
        metavar="TEXT,TEXT",
        help="CSV cells that are missing values, beside empty ones; NA, NaN, null and the like in "
        "labels by default.",
    ),
]
UtcOption: TypeAlias = Annotated[bool, _written("--utc", help="Take times without a zone as UTC.")]
NoProgressOption: TypeAlias = Annotated[bool, _files("--no-progress", help="Draw no bar.")]


def named_shard(
    shard: str | None, epoch: int | None, sequence: str | None, *, save: str | None
) -> Shard | None:
    """The shard that options name, or None.

    Raises:
        OptionError: One requires another.
        InputError: No name, or no sequence.

    >>> print(named_shard("eu-1", 2, "0:1000", save="eu-1.state"))
    shard 'eu-1' (epoch 2, sequence 0:1000)
    """
    if shard is None:
        for option, value in (("--epoch", epoch), ("--sequence", sequence)):
            if value is not None:
                raise OptionError.requires(option, "--shard", remedy="add --shard NAME")
        return None
    if save is None:
        raise OptionError.requires("--shard", "--save", remedy="add --save STATE")
    try:
        return checked_shard(shard, epoch or 0, None if sequence is None else positions(sequence))
    except InputError as error:
        raise InputError(f"--{error.field}", expected=error.expected, got=error.got) from None


def positions(text: str) -> tuple[int, int]:
    """The first position and the end of a sequence, as ``FIRST:END``; raises InputError.

    >>> positions("0:1000")
    (0, 1000)
    """
    found = _SEQUENCE.fullmatch(text)
    if found is None:
        raise InputError("--sequence", expected="FIRST:END, such as 0:1000", got=shown(text))
    return int(found[1]), int(found[2])


def expected_shards(path: str) -> list[Shard]:
    """The shards that a file names, one a line: ``NAME``, or ``NAME FIRST:END``.

    Raises:
        InputError: The file cannot be read, or a line is of another form.
    """
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError("--expect", expected="a file of shards", got=f"{path}: {reason}") from None
    shards = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            continue
        try:
            if len(words) > 2:
                raise InputError("shard", expected="NAME or NAME FIRST:END", got=shown(line))
            shards.append(checked_shard(words[0], 0, positions(words[1]) if words[1:] else None))
        except InputError as error:
            raise InputError(
                f"{path} line {number}", expected=error.expected, got=error.got
            ) from None
    if not shards:
        raise InputError("--expect", expected="names of shards, one a line", got=f"none in {path}")
    return shards


def skips_bad(on_bad: OnBad, max_bad: float | None) -> bool:
    """Whether bad records are skipped, which a largest share of them requires."""
    skip = on_bad is OnBad.SKIP
    if max_bad is not None and not skip:
        raise OptionError.requires("--max-bad", "--on-bad skip")
    return skip


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


def model_fields(score: list[str] | None, y_pred: list[str] | None) -> dict[str, dict[str, str]]:
    """From each model to its fields, in the order of the options.

    Raises:
        InputError: Not ``MODEL=FIELD``, one model twice, fewer than two models, or one that
            lacks a field that another has.

    >>> model_fields(["champion=s1", "challenger=s2"], None)
    {'champion': {'score': 's1'}, 'challenger': {'score': 's2'}}
    """
    models: dict[str, dict[str, str]] = {}
    given = {"--score": ("score", score or []), "--y-pred": ("y_pred", y_pred or [])}
    for option, (name, texts) in given.items():
        for text in texts:
            model, _, path = text.partition("=")
            if not model or not path:
                raise InputError(
                    option,
                    expected="MODEL=FIELD",
                    got=shown(text),
                    remedy=f"write {option} champion=FIELD {option} challenger=FIELD",
                )
            fields = models.setdefault(model, {})
            if name in fields:
                raise InputError(option, expected="each model once", got=f"{model} twice")
            fields[name] = path
    if len(models) < 2:
        raise InputError(
            "compare",
            expected="two models or more",
            got=", ".join(models) or "none",
            remedy="write --score champion=FIELD --score challenger=FIELD, or the same with "
            "--y-pred",
        )
    for option, (name, texts) in given.items():
        lacking = [model for model, fields in models.items() if texts and name not in fields]
        if lacking:
            raise InputError(
                option,
                expected=f"a field of each of {', '.join(models)}",
                got=f"none of {' and '.join(lacking)}",
            )
    return models


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


def parse_window(text: str, *, all_panes: bool = False) -> WindowSpec:
    """The window that ``--window`` names.

    Args:
        text: As written.
        all_panes: Keep as many panes as can be, where no ``retain=`` is given.

    Raises:
        InputError: It names none.

    >>> parse_window("last:10000"), parse_window("fading:1000")
    (Last(n=10000), Fading(half_life=1000))
    >>> parse_window("panes:1h/5m,lateness=10m").panes
    12
    """
    name, _, rest = text.strip().partition(":")
    value, *options = (part.strip() for part in rest.split(","))
    kind = KINDS.get(name)
    sizes = [part.strip() for part in value.split("/")]
    try:
        if (
            kind is not None
            and value
            and len(sizes) <= len(kind.sizes)
            and (value.isdecimal() or kind.clock != "events")
            and (kind.named or not options)
        ):
            count = kind.clock != "time" and value.isdecimal()
            given = {
                option: int(size) if count else size
                for option, size in zip(kind.sizes, sizes, strict=False)
            }
            spec: WindowSpec = kind.spec(**given, **_named(options, kind))
            return spec if kind.widest is None or not all_panes else kind.widest(spec)
    except InputError as error:
        if error.field == "--window":
            raise
        remedy = error.remedy
        if error.remedy_code == "duration":
            remedy = f"write it as in {text.strip()!r}: 90s, 5m, 1h, 7d or 52w"
        raise InputError(
            "--window", expected=error.expected, got=error.got, remedy=remedy
        ) from None
    raise InputError("--window", expected=_or(window_forms()), got=shown(text))


def _or(forms: Iterable[str]) -> str:
    *others, last = forms
    return f"{', '.join(others)} or {last}"


def _named(options: list[str], kind: WindowKind) -> dict[str, str]:
    given: dict[str, str] = {}
    for option in options:
        name, _, value = (part.strip() for part in option.partition("="))
        if name not in kind.named or not value or name in given:
            each = " and ".join(f"{known}=DURATION" for known in kind.named)
            raise InputError(
                "--window",
                expected=f"{each}, each once, after {kind.name}:{kind.sizes[0].upper()}",
                got=shown(option),
            )
        given[name] = value
    return given


def parse_slices(text: str | None) -> Dimensions | None:
    """The fields in a comma list; ``+`` joins those of a combination.

    >>> parse_slices("country,country+model")
    (('country',), ('country', 'model'))
    """
    if text is None:
        return None
    dimensions = tuple(tuple(name.strip() for name in part.split("+")) for part in text.split(","))
    try:
        return Slicer(dimensions, max_slices=1).dimensions
    except InputError as error:
        raise InputError(
            "--slice",
            expected="fields joined by commas, or by + for a combination, each once",
            got=shown(text) if error.field == "slices" else error.got,
            remedy="write --slice country,model,country+model",
        ) from None
