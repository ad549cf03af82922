"""The options of the commands: type and help, by which parameters are annotated, and parsers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from streameval.cli.output import Format
from streameval.errors import InputError, OptionError, did_you_mean, shown
from streameval.evaluator.slices import Slicer
from streameval.metrics.cut_points import CUT_POINTS
from streameval.metrics.registry import METRICS, find
from streameval.records.layout import FORMATS
from streameval.records.spec import Dimensions
from streameval.state_files.provenance import Shard, checked_shard
from streameval.states.ranking.coarse_score import LEAST_SCORES
from streameval.states.score_index import ScoreIndex
from streameval.tasks.registry import task_names
from streameval.windows.kinds import KINDS, window_forms
from streameval.windows.window import WindowKind, WindowSpec

MetricCall: TypeAlias = tuple[str, Mapping[str, Any]]
"""A metric's name, and its parameters."""

ALL: tuple[MetricCall, ...] = (("all", {}),)
"""What ``--metrics all`` is."""

InputFormat = StrEnum("InputFormat", ["JSONL", "CSV", "TSV", "PARQUET", "ARROW"])
LabelTypeChoice = StrEnum("LabelTypeChoice", ["AUTO", "STR", "INT", "BOOL"])
if TYPE_CHECKING:

    class TaskChoice(StrEnum):
        """The registry's tasks."""

        AUTO = "auto"

else:
    TaskChoice = StrEnum("TaskChoice", ["AUTO", *map(str.upper, task_names())])
OnBad = StrEnum("OnBad", ["STOP", "SKIP"])
TimeUnit = StrEnum("TimeUnit", ["S", "MS", "US", "NS"])

_SEQUENCE = re.compile(r"([0-9]{1,19}):([0-9]{1,19})")

_field: Any = partial(typer.Option, metavar="FIELD", rich_help_panel="Fields of a record")
_task: Any = partial(typer.Option, rich_help_panel="The task")
_result: Any = partial(typer.Option, rich_help_panel="The result")
_windows: Any = partial(typer.Option, rich_help_panel="Windows and slices")
_files: Any = partial(typer.Option, rich_help_panel="The files")
_rare: Any = partial(typer.Option, rich_help_panel="Rarely needed")

GROUPS = (
    "Fields of a record",
    "The task",
    "The result",
    "Windows and slices",
    "The files",
    "Rarely needed",
)
"""The headings of options, in the order of the help."""


def complete_metric(incomplete: str) -> list[str]:
    """The names of metrics that begin so.

    >>> complete_metric("roc_auc_ov")
    ['roc_auc_ovr', 'roc_auc_ovr_weighted', 'roc_auc_ovo', 'roc_auc_ovo_weighted']
    """
    return [name for name in METRICS if name.startswith(incomplete)]


def complete_metrics(incomplete: str) -> list[str]:
    """The same for the last one of a comma list.

    >>> complete_metrics("f1,roc_auc_m")
    ['f1,roc_auc_micro']
    """
    before, comma, last = incomplete.rpartition(",")
    everything = [] if comma else ["all"]
    names = [name for name in everything if name.startswith(last)] + complete_metric(last)
    return [f"{before}{comma}{name}" for name in names]


def complete_threshold(incomplete: str) -> list[str]:
    """The rules that begin so."""
    return [name for name in CUT_POINTS if name.startswith(incomplete)]


def complete_window(incomplete: str) -> list[str]:
    """The kinds of windows that begin so."""
    return [f"{name}:" for name in KINDS if name.startswith(incomplete)]


def complete_picture(incomplete: str) -> list[str]:
    """The names of pictures that begin so, as files.

    >>> complete_picture("ro")
    ['roc.png']
    """
    from streameval.plots import DISPLAYS  # only a shell reads it

    return [f"{name}.png" for name in DISPLAYS if name.startswith(incomplete)]


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
OtherStateArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="STATE", help="The later one.")
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
YTrueOption: TypeAlias = Annotated[str, _field(help="True label.")]
YPredOption: TypeAlias = Annotated[str | None, _field(help="Predicted label.")]
ScoreOption: TypeAlias = Annotated[str | None, _field(help="Score of the positive label.")]
ProbaOption: TypeAlias = Annotated[
    str | None,
    _field(
        help="Probabilities: 'p_*' for fields p_LABEL; label=FIELD,label=FIELD; an object by "
        "label; a list with --labels."
    ),
]
WeightOption: TypeAlias = Annotated[str | None, _field(help="Weight of the event.")]
UnitOption: TypeAlias = Annotated[
    str | None,
    _rare(metavar="FIELD", help="What events are alike by, such as the user."),
]
TimeOption: TypeAlias = Annotated[
    str | None,
    _field(help="Event time: ISO 8601 with an offset, or a number."),
]
TimeUnitOption: TypeAlias = Annotated[
    TimeUnit | None, _field(metavar=None, help="Unit of numeric times, since 1970.")
]

TaskOption: TypeAlias = Annotated[
    TaskChoice, _task(show_default=False, help="By default binary with --score or --positive.")
]
LabelsOption: TypeAlias = Annotated[
    str | None,
    _task(
        metavar="LABEL,LABEL",
        help="All labels; by default they are discovered.",
    ),
]
PositiveOption: TypeAlias = Annotated[
    str | None,
    _task(metavar="LABEL", help="Positive label; 1 or true by default."),
]
NegativeOption: TypeAlias = Annotated[
    str | None,
    _task(metavar="LABEL", help="Negative label; a record of a third label is then bad."),
]
ThresholdOption: TypeAlias = Annotated[
    str | None,
    _task(
        metavar="NUMBER|RULE",
        help="Smallest score predicted positive, 0.5 by default; or the best by youden, f1, mcc, "
        "cost:FP:FN, precision_at_least:P, fpr_at_most:P.",
        autocompletion=complete_threshold,
    ),
]
ModelThresholdOption: TypeAlias = Annotated[
    float | None,
    _task(
        "--threshold",
        metavar="NUMBER",
        help="Smallest score predicted positive; 0.5 by default.",
    ),
]

WindowOption: TypeAlias = Annotated[
    str | None,
    _windows(
        metavar="WINDOW",
        help=" ".join(
            ["Events to count; all by default.", *(k.help for k in KINDS.values() if k.help)]
        ),
        autocompletion=complete_window,
    ),
]
SliceOption: TypeAlias = Annotated[
    str | None,
    _windows(
        metavar="FIELD,FIELD",
        help="Evaluate by these fields too; country+model: each pair.",
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
    _rare(
        metavar="N",
        min=1,
        help="Most slices kept; 10000 by default.",
    ),
]
MaxScoresOption: TypeAlias = Annotated[
    int | None,
    _rare(
        metavar="N",
        min=LEAST_SCORES,
        help="Most distinct scores kept; all by default.",
    ),
]
ByOption: TypeAlias = Annotated[
    str | None,
    _windows(
        metavar="METRIC",
        help="Metric to order slices by; f1 or f1_macro by default.",
        autocompletion=complete_metric,
    ),
]
WorstOption: TypeAlias = Annotated[
    int | None, _windows(metavar="N", min=1, help="Show only the N worst slices.")
]
MinSupportOption: TypeAlias = Annotated[
    float | None, _rare(metavar="N", min=0, help="Leave out slices of less support.")
]
SeriesOption: TypeAlias = Annotated[
    str | None,
    _windows(
        metavar="METRIC",
        help="Show this metric for each pane.",
        autocompletion=complete_metric,
    ),
]
PlotOption: TypeAlias = Annotated[
    list[str] | None,
    _result(
        metavar="FILE",
        help="Draw roc.png, or roc=FILE; pr, det, calibration, confusion, scores, gain, lift, "
        "thresholds, series or slices; .png, .svg, .pdf, .html.",
        autocompletion=complete_picture,
    ),
]
PlotDirOption: TypeAlias = Annotated[
    str | None,
    _result(metavar="DIRECTORY", help="Draw every picture that there is."),
]
PictureFormat = StrEnum("PictureFormat", ["PNG", "SVG", "PDF", "HTML"])
PlotFormatOption: TypeAlias = Annotated[
    PictureFormat | None, _rare(help="Of the pictures of --plot-dir; png by default.")
]
ReportFileOption: TypeAlias = Annotated[
    str | None,
    _result("--report", metavar="FILE.html", help="Write one page with every table and picture."),
]
PerClassOption: TypeAlias = Annotated[
    bool | None,
    _result(
        "--per-class/--no-per-class",
        help="Tables by class; by default for up to 20, without --metrics.",
    ),
]
BinsOption: TypeAlias = Annotated[
    int | None, _rare(metavar="N", min=1, help="Bins of calibration; 10 by default.")
]
TopKOption: TypeAlias = Annotated[
    int | None, _rare(metavar="K", min=1, help="Show top_k_accuracy:k=K too.")
]
NoProbabilitiesOption: TypeAlias = Annotated[
    bool,
    _rare("--no-probabilities", help="--proba names scores of any numbers, of all --labels."),
]
UndefinedOption: TypeAlias = Annotated[
    float | None, _rare(metavar="NUMBER", help="Number in place of undefined values.")
]

IntervalsOption: TypeAlias = Annotated[
    float | None,
    _result(metavar="LEVEL", help="Confidence intervals; 0.95 is usual."),
]
AnytimeOption: TypeAlias = Annotated[
    bool,
    _rare(
        "--anytime",
        help="Intervals that hold however often they are read.",
    ),
]
MetricsOption: TypeAlias = Annotated[
    str | None,
    _result(
        metavar="NAME,NAME",
        help="Metrics to report, as f1,fbeta:beta=2; or all.",
        autocompletion=complete_metrics,
    ),
]
LevelOption: TypeAlias = Annotated[
    float, _result(metavar="LEVEL", help="Level of the intervals of the differences.")
]
ReplicatesOption: TypeAlias = Annotated[
    int, _rare(metavar="N", min=10, max=100_000, help="Replicates of the bootstrap.")
]
SeedOption: TypeAlias = Annotated[int, _rare(metavar="N", min=0, help="Seed of the bootstrap.")]
FormatOption: TypeAlias = Annotated[
    Format, _result("--format", show_default=False, help="Format of the result; table by default.")
]
SaveOption: TypeAlias = Annotated[
    str | None, _result(metavar="STATE", help="Write the state, for merge, report and diff.")
]
ShardOption: TypeAlias = Annotated[
    str | None,
    _rare(metavar="NAME", help="Name of the shard that is saved."),
]
EpochOption: TypeAlias = Annotated[
    int | None,
    _rare(metavar="N", min=0, help="Number of this evaluation of the shard."),
]
SequenceOption: TypeAlias = Annotated[
    str | None,
    _rare(metavar="FIRST:END", help="The shard's positions in these files."),
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
    OnBad, _files(show_default=False, help="skip: leave bad records out, and list them.")
]
MaxBadOption: TypeAlias = Annotated[
    float | None,
    _rare(
        metavar="SHARE",
        min=0,
        max=1,
        help="Share that may be bad for one reason; 0.01 by default.",
    ),
]
InputFormatOption: TypeAlias = Annotated[
    InputFormat | None,
    _files(metavar="FORMAT", help=f"{', '.join(FORMATS)}; by name by default."),
]
LabelTypeOption: TypeAlias = Annotated[
    LabelTypeChoice, _rare(show_default=False, help="Type of the labels in a CSV file.")
]
DelimiterOption: TypeAlias = Annotated[
    str | None,
    _files(metavar="CHARACTER", help="Between the fields of CSV, such as ';' or tab."),
]
NoHeaderOption: TypeAlias = Annotated[
    bool,
    _files("--no-header", help="CSV without a header: fields are numbers from 1."),
]
EncodingOption: TypeAlias = Annotated[
    str | None, _files(metavar="NAME", help="Encoding of CSV and JSONL, such as latin-1.")
]
NaValuesOption: TypeAlias = Annotated[
    str | None,
    _files(
        metavar="TEXT,TEXT",
        help="CSV cells that are missing values; NA, NaN, null and the like by default.",
    ),
]
UtcOption: TypeAlias = Annotated[bool, _files("--utc", help="Take times without a zone as UTC.")]
WorkersOption: TypeAlias = Annotated[
    int | None,
    _rare(metavar="N", min=1, max=1000, help="Processes; by default all cores for large files."),
]
NoProgressOption: TypeAlias = Annotated[bool, _rare("--no-progress", help="Draw no bar.")]


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


def parse_threshold(text: str | None) -> float | tuple[str, dict[str, float]] | None:
    """The threshold that is given, or the rule to choose one by, with its parameters.

    Raises:
        InputError: Neither.
        MetricError: A parameter that the rule does not take.

    >>> parse_threshold("0.3"), parse_threshold("cost:5:1"), parse_threshold("fbeta:2")
    (0.3, ('cost', {'c_fp': 5, 'c_fn': 1}), ('fbeta', {'beta': 2}))
    """
    if text is None:
        return None
    name, *values = text.split(":")
    number = plain_value(name)
    if not isinstance(number, (str, bool)) and not values:
        return float(number)
    rule = CUT_POINTS.get(name)
    taken = [] if rule is None else list(signature(rule).parameters)[1:]
    params = {name: plain_value(value) for name, value in zip(taken, values, strict=False)}
    if rule is None or len(values) > len(taken):
        raise InputError(
            "--threshold",
            expected=f"a number, or a rule: {_or(map(_rule_form, CUT_POINTS))}",
            got=shown(text),
            remedy=did_you_mean(name, CUT_POINTS),
        )
    rule(ScoreIndex(), **params)  # it checks its parameters
    return name, params  # type: ignore[return-value]


def _rule_form(name: str) -> str:
    return ":".join(
        [name, *(key.upper() for key in list(signature(CUT_POINTS[name]).parameters)[1:])]
    )


def plain_value(text: str) -> bool | int | float | str:
    """What a value on the command line is: true or false, a number, or else text.

    >>> plain_value("2"), plain_value(".1"), plain_value("true"), plain_value("linear")
    (2, 0.1, True, 'linear')
    """
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def metric_calls(text: str | None) -> tuple[MetricCall, ...] | None:
    """The metrics in a comma list, each with its parameters.

    >>> metric_calls("accuracy, partial_roc_auc:max_fpr=.1:mcclish=false")
    (('accuracy', {}), ('partial_roc_auc', {'max_fpr': 0.1, 'mcclish': False}))
    """
    calls: list[MetricCall] = []
    for one in metric_names(text) or ():
        name, *parts = one.split(":")
        pairs = [part.partition("=") for part in parts]
        if not name or not all(key and equals and value for key, equals, value in pairs):
            raise InputError(
                "--metrics",
                expected="NAME or NAME:PARAMETER=VALUE, such as fbeta:beta=2",
                got=shown(one),
            )
        params: dict[str, Any] = {key: plain_value(value) for key, _, value in pairs}
        if name == "all" and text is not None and text.strip() != "all":
            raise InputError("--metrics", expected="all alone, or names", got=shown(text))
        if params:
            find(name).bind(positive=1, **params)  # it checks their names
        calls.append((name, params))
    return None if text is None else tuple(calls)


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
