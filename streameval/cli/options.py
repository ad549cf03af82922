"""The options of the commands: type and help, by which parameters are annotated, and parsers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from streameval.cli.output import Format
from streameval.errors import InputError, did_you_mean, shown
from streameval.evaluator.slices import Slicer
from streameval.metrics.cut_points import CUT_POINTS
from streameval.metrics.registry import METRICS, find
from streameval.records.spec import Dimensions, label_pairs
from streameval.state_files.provenance import Shard, checked_shard
from streameval.states.score_index import ScoreIndex
from streameval.tasks.registry import TASKS, task_names
from streameval.windows import kinds
from streameval.windows.kinds import KINDS
from streameval.windows.window import WindowSpec

MetricCall: TypeAlias = tuple[str, Mapping[str, Any]]
"""A metric's name, and its parameters."""

ALL: tuple[MetricCall, ...] = (("all", {}),)
"""What ``--metrics all`` is."""

InputFormat = StrEnum("InputFormat", ["JSONL", "JSON", "CSV", "TSV", "PARQUET", "ARROW"])
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


GROUPS = FIELDS, TASK, RESULT, WINDOWS, FILES, RARE = (
    "Fields of a record",
    "The task",
    "The result",
    "Windows and slices",
    "The files",
    "Rarely needed",
)
"""The headings of options, in the order of the help."""


def option(text: str, *names: str, panel: str, **more: Any) -> Any:
    """An option of a command, in whose help it stands under a heading."""
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


def _fields(panel: str, metavar: str | None = None) -> Callable[..., Any]:
    """Makes fields of dataclasses that are options of the commands that have the class."""

    def made(text: str, *names: str, default: Any = None, **more: Any) -> Any:
        of_typer = option(text, *names, panel=panel, **{"metavar": metavar, **more})
        return field(default=default, metadata={"option": of_typer})

    return made


of_field = _fields(FIELDS, "FIELD")
of_task = _fields(TASK)
of_result = _fields(RESULT)
of_window = _fields(WINDOWS)
of_file = _fields(FILES)
rare = _fields(RARE)


def _beginning(names: Iterable[str], end: str = "") -> Callable[[str], list[str]]:
    """Completes a word: the names that begin with it."""

    def completed(incomplete: str) -> list[str]:
        return [f"{name}{end}" for name in names if name.startswith(incomplete)]

    return completed


complete_metric = _beginning(METRICS)
complete_threshold = _beginning(CUT_POINTS)
complete_window = _beginning(KINDS, ":")


def complete_metrics(incomplete: str) -> list[str]:
    """Completes the last metric of a comma list."""
    before, comma, last = incomplete.rpartition(",")
    names = _beginning(METRICS if comma else ["all", *METRICS])(last)
    return [f"{before}{comma}{name}" for name in names]


def complete_picture(incomplete: str) -> list[str]:
    """Completes the name of a picture, as a file."""
    from streameval.plots import ALONE  # only a shell reads it

    return _beginning(ALONE, ".png")(incomplete)


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


ReportFileOption: TypeAlias = Annotated[
    str | None,
    option(
        "Write one page with every table and picture.",
        "--report",
        panel=RESULT,
        metavar="FILE.html",
    ),
]
FailIfOption: TypeAlias = Annotated[
    list[str] | None,
    option(
        "Exit with 4 where this holds: 'f1 < 0.8', 'roc_auc.low < 0.9', 'slice.country f1 < 0.6', "
        "'support < 1000'; of models and states also 'difference f1 < 0'. May be repeated.",
        "--fail-if",
        metavar="RULE",
        panel=RESULT,
    ),
]
AnytimeOption: TypeAlias = Annotated[
    bool, option("Intervals that hold however often they are read.", "--anytime", panel=RARE)
]
ByOption: TypeAlias = Annotated[
    str | None,
    option(
        "Metric to order slices by; f1 or f1_macro by default.",
        metavar="METRIC",
        autocompletion=complete_metric,
        panel=WINDOWS,
    ),
]
PictureFormat = StrEnum("PictureFormat", ["PNG", "SVG", "PDF", "HTML"])

MetricsOption: TypeAlias = Annotated[
    str | None,
    option(
        "Metrics to report, as f1,fbeta:beta=2; or all.",
        metavar="NAME,NAME",
        autocompletion=complete_metrics,
        panel=RESULT,
    ),
]
LevelOption: TypeAlias = Annotated[
    float, option("Level of the intervals of the differences.", metavar="LEVEL", panel=RESULT)
]
FormatOption: TypeAlias = Annotated[
    Format,
    option("Format of the result; table by default.", "--format", show_default=False, panel=RESULT),
]
SaveOption: TypeAlias = Annotated[
    str | None,
    option("Write the state, for merge, report and diff.", metavar="STATE", panel=RESULT),
]


def positions(text: str) -> tuple[int, int]:
    """The first position and the end of a sequence, as ``FIRST:END``; raises InputError."""
    found = _SEQUENCE.fullmatch(text)
    if found is None:
        raise InputError("sequence", expected="FIRST:END, such as 0:1000", got=shown(text))
    return int(found[1]), int(found[2])


def expected_shards(path: str) -> list[Shard]:
    """The shards that a file names, one a line: ``NAME``, or ``NAME FIRST:END``."""
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
            raise error.of(f"{path} line {number}", remedy="") from None
    if not shards:
        raise InputError("--expect", expected="names of shards, one a line", got=f"none in {path}")
    return shards


def task_fields(choice: TaskChoice) -> Mapping[str, Any]:
    """The fields that a record may have in a task; of any task where none is chosen."""
    return TASKS[choice.value if choice is not TaskChoice.AUTO else "binary"].fields


def label_texts(text: str | None) -> tuple[str, ...] | None:
    """The labels in a comma list, as they are written."""
    if text is None:
        return None
    labels = tuple(text.split(","))
    if not all(labels) or len(set(labels)) != len(labels):
        raise InputError("--labels", expected="labels joined by commas, each once", got=shown(text))
    return labels


def model_fields(score: list[str] | None, y_pred: list[str] | None) -> dict[str, dict[str, str]]:
    """From each model to its fields, in the order of the options."""
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


def parse_threshold(
    text: str | None,
) -> float | dict[str, float] | tuple[str, dict[str, float]] | None:
    """The threshold that is given, one for each label, or the rule to choose one by.

    >>> parse_threshold("0.3"), parse_threshold("cost:5:1"), parse_threshold("spam=.4,ad=.7")
    (0.3, ('cost', {'c_fp': 5, 'c_fn': 1}), {'spam': 0.4, 'ad': 0.7})
    """
    if text is None:
        return None
    if "=" in text:
        numbers = {label: plain_value(one) for label, one in label_pairs("threshold", text)}
        wrong = [value for value in numbers.values() if isinstance(value, (str, bool))]
        if wrong:
            raise InputError("--threshold", expected="numbers: LABEL=NUMBER", got=shown(wrong[0]))
        return {label: float(number) for label, number in numbers.items()}
    name, *values = text.split(":")
    number = plain_value(name)
    if not isinstance(number, (str, bool)) and not values:
        return float(number)
    taken = {rule: list(signature(CUT_POINTS[rule]).parameters)[1:] for rule in CUT_POINTS}
    if name not in taken or len(values) > len(taken[name]):
        *forms, last = [":".join([rule, *map(str.upper, keys)]) for rule, keys in taken.items()]
        raise InputError(
            "--threshold",
            expected=f"a number, or a rule: {', '.join(forms)} or {last}",
            got=shown(text),
            remedy=did_you_mean(name, CUT_POINTS),
        )
    params = {key: plain_value(one) for key, one in zip(taken[name], values, strict=False)}
    CUT_POINTS[name](ScoreIndex(), **params)  # it checks its parameters
    return name, params  # type: ignore[return-value]


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
    """The names in a comma list."""
    if text is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InputError("--metrics", expected="names joined by commas", got=shown(text))
    return names


def parse_window(text: str, *, all_panes: bool = False) -> WindowSpec:
    """The window that ``--window`` names."""
    spec = kinds.parse_window(text, "--window")
    kind = kinds.kind_of(spec)
    widest = kind.widest if kind is not None and all_panes else None
    return spec if widest is None else widest(spec)


def parse_slices(text: str | None, option: str = "--slice") -> Dimensions | None:
    """The fields in a comma list; ``+`` joins those of a combination."""
    if text is None:
        return None
    dimensions = tuple(tuple(name.strip() for name in part.split("+")) for part in text.split(","))
    try:
        return Slicer(dimensions, max_slices=1).dimensions
    except InputError as error:
        raise InputError(
            option,
            expected="fields joined by commas, or by + for a combination, each once",
            got=shown(text) if error.field == "slices" else error.got,
            remedy=f"write {option} country,model,country+model",
        ) from None
