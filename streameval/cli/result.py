"""The result of a command: the report, and the slices, series and picture of its options."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from streameval.cli import options
from streameval.cli.gate import Gate
from streameval.cli.options import (
    AnytimeOption,
    ByOption,
    FailIfOption,
    PictureFormat,
    ReportFileOption,
    complete_metric,
    complete_picture,
    of_result,
    of_window,
    rare,
)
from streameval.cli.output import Format, Section, say, terminal_width
from streameval.cli.page import write_as
from streameval.errors import InputError, MetricError, OptionError, did_you_mean, shown
from streameval.evaluator.comparison import (
    Comparison,
    ComparisonReport,
    Difference,
    SliceDifferences,
)
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.fairness import KEPT_METRIC
from streameval.evaluator.predictions import Predictions
from streameval.evaluator.reports import (
    ClassificationReport,
    FairnessReport,
    Report,
    ReportRow,
    SeriesRow,
    SliceReport,
    Table,
    plain_value,
    value_cells,
)
from streameval.evaluator.reports import weight as weight_text
from streameval.evaluator.slices import SliceKey, slice_name
from streameval.metrics.cut_points import CutPoint
from streameval.metrics.registry import METRICS, USUAL_METRICS
from streameval.records.chunk import BadRecords
from streameval.records.spec import Dimensions
from streameval.states.confusion import ConfusionCounts
from streameval.tasks.registry import TASKS
from streameval.uncertainty.interval import DEFAULT_LEVEL, checked_level
from streameval.windows.kinds import kind_of
from streameval.windows.window import WindowSpec

_SHOWN_SLICES = 20
"""Slices in a table without ``--worst``."""

_SHOWN_CLASSES = 20
"""Classes of the table that is shown without ``--per-class``."""

_MATRIX_CLASSES = 10
"""Classes of a confusion matrix in text; of more, the most frequent errors are listed."""

_ERRORS = 10

TOP_K = "top_k_accuracy"

_ANY_SUPPORT = 5e-324
"""Without ``--min-support``, only slices without events in the window are left out."""

_ARRIVALS = {"on_time": "on time", "late_kept": "late and kept", "late_dropped": "late and dropped"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """The options of tables, series, pictures and intervals that `evaluate` and `report` share."""

    per_class: bool | None = of_result(
        "Tables by class; by default for up to 20, without --metrics.", "--per-class/--no-per-class"
    )
    intervals: float | None = of_result("Confidence intervals; 0.95 is usual.", metavar="LEVEL")
    plot: list[str] | None = of_result(
        "Draw roc.png, or roc=FILE; pr, det, calibration, confusion, scores, gain, lift, "
        "thresholds, residuals, actual, series, slices; svg pdf html.",
        metavar="FILE",
        autocompletion=complete_picture,
    )
    plot_dir: str | None = of_result("Draw every picture that there is.", metavar="DIRECTORY")
    plot_format: PictureFormat | None = rare("Of the pictures of --plot-dir; png by default.")
    report_file: ReportFileOption = None
    fail_if: FailIfOption = None
    by: ByOption = None
    worst: int | None = of_window("Show only the N worst slices.", metavar="N", min=1)
    series: str | None = of_window(
        "Show this metric for each pane.", metavar="METRIC", autocompletion=complete_metric
    )
    min_support: float | None = rare("Leave out slices of less support.", metavar="N", min=0)
    fairness: str | None = of_window(
        "Fairness between the groups of these fields of --slice; of several classes also the "
        "class, as sex:label=LABEL.",
        metavar="FIELD,FIELD",
    )
    top_k: int | None = rare("Show top_k_accuracy:k=K too.", metavar="K", min=1)
    anytime: AnytimeOption = False

    def __post_init__(self) -> None:
        if self.intervals is not None:
            checked_level(self.intervals, "--intervals")
        elif self.anytime:
            remedy = "add --intervals 0.95, or another level"
            raise OptionError.requires("--anytime", "--intervals", remedy=remedy)
        if self.anytime and self.fairness is not None:
            remedy = "no interval between groups holds at every look; leave one out"
            raise OptionError.conflicts("--anytime", "--fairness", remedy=remedy)
        if self.plot_format is not None and self.plot_dir is None:
            remedy = "the format of --plot is that of its file name"
            raise OptionError.requires("--plot-format", "--plot-dir", remedy=remedy)

    @property
    def method(self) -> str:
        """How intervals are computed; a name of :data:`streameval.uncertainty.methods.METHODS`."""
        return "anytime" if self.anytime else "auto"

    @property
    def judged(self) -> dict[str, Any]:
        """The intervals and the slices that a gate judges."""
        level, method = self.intervals, self.method
        return {"level": level, "method": method, "min_support": self.min_support}

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that these details need."""
        named = [self.by, self.series, None if self.top_k is None else TOP_K]
        named += [None if self.fairness is None else KEPT_METRIC]
        return tuple(name for name in named if name is not None)

    def check_window(self, window: WindowSpec | None) -> None:
        """Raise OptionError where the window does not have what these details show."""
        if self.anytime and window is not None:
            remedy = "such intervals cover all events since a start; leave one out"
            raise OptionError.conflicts("--anytime", "--window", remedy=remedy)
        kind = kind_of(window)
        if self.series is not None and (kind is None or kind.widest is None):
            remedy = "add --window panes:1h --time FIELD"
            raise OptionError.requires("--series", "a --window of panes", remedy=remedy)

    def check_task(self, task: str) -> None:
        """Raise OptionError for what is about classes in a task that has none."""
        given = {"--per-class": self.per_class, "--top-k": self.top_k, "--fairness": self.fairness}
        for option, value in given.items():
            if value and TASKS[task].truth == "numbers":
                raise OptionError.conflicts(option, f"--task {task}", remedy="leave one out")

    def slice_options(self) -> list[str]:
        """The given options that require slices."""
        given = {
            "--by": self.by,
            "--worst": self.worst,
            "--min-support": self.min_support,
            "--fairness": self.fairness,
        }
        return [name for name, value in given.items() if value is not None]

    def groups(self, kinds: Iterable[Sequence[str]], task: str) -> tuple[Dimensions, str | None]:
        """The slices whose groups are compared, of those kept, and the class as it is written."""
        if self.fairness is None:
            return (), None
        fields, equals, label = self.fairness.partition(":label=")
        found = options.parse_slices(fields, "--fairness") or ()
        known = {frozenset(kind): "+".join(kind) for kind in kinds}
        for names in found:
            if frozenset(names) not in known:
                raise InputError(
                    "--fairness",
                    expected=f"slices that are kept: {', '.join(known.values()) or 'none'}",
                    got=shown("+".join(names)),
                    remedy=did_you_mean("+".join(names), known.values())
                    or "evaluate with these fields in --slice",
                )
        if not equals and TASKS[task].truth == "classes":
            raise OptionError.requires(
                "--fairness of several classes",
                "the class that is compared",
                remedy=f"write --fairness {fields}:label=LABEL",
            )
        return found, label if equals else None


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that a command prints on the standard output."""

    report: Report
    details: Details
    arrivals: Mapping[str, int]
    series: Sequence[SeriesRow] | None
    slices: SliceReport | None
    overflowed: int
    classes: ClassificationReport | None = None
    confusion: ConfusionCounts | None = None
    shares: Report | None = None
    """Of predictions without labels, how often each label was predicted."""
    cut: CutPoint | None = None
    """The best cut-point by F1, where the task is binary and scores are kept."""
    chosen: tuple[str, CutPoint] | None = None
    """The rule that chose the threshold, and the cut-point."""
    fairness: Sequence[FairnessReport] = ()
    hidden_classes: int = 0
    """How many classes there are, where their table was left out for their number."""
    title: ClassVar[str] = "Evaluation"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        values = self.report.to_dict()
        if self.chosen is not None:
            rule, cut = self.chosen
            values["threshold_chosen"] = {"rule": rule, **cut.to_dict()}
        if self.shares is not None:
            values["predicted_labels"] = self.shares.to_dict()["metrics"]
        if self.classes is not None:
            values["classes"] = self.classes.to_dict()
        if self.confusion is not None:
            counts = self.confusion
            values["confusion"] = {"labels": counts.labels, "matrix": counts.to_array().tolist()}
        if self.cut is not None:
            values["cut_points"] = {"f1": self.cut.to_dict()}
        if self.arrivals:
            values["arrivals"] = dict(self.arrivals)
        if self.series is not None:
            panes = [
                {"start": row.start, "end": row.end, **plain_value(row)} for row in self.series
            ]
            values["series"] = {"metric": self.details.series, "panes": panes}
        if self.slices is not None:
            values["slices"] = self.slices.to_dict()
            values["slices_overflowed"] = self.overflowed
        if self.fairness:
            values["fairness"] = {"+".join(one.by): one.to_dict() for one in self.fairness}
        return values

    def rows(self) -> list[dict[str, Any]]:
        """Rows of one table, for CSV: each value with what it is of."""
        found = [_csv_row("total", "", row.metric, row) for row in self.report]
        for share in self.shares or ():
            found.append(_csv_row("predicted_label", share.metric, "share", share))
        if self.classes is not None:
            for label, row in self.classes.rows.items():
                intervals = (self.classes.row_intervals or {}).get(label, (None,) * 3)
                named = zip(("precision", "recall", "f1"), row, intervals, strict=False)
                for metric, value, interval in named:
                    value_row = ReportRow(metric, value, "", row[3], interval)
                    found.append(_csv_row("class", str(label), metric, value_row))
        if self.confusion is not None:
            for true, predicted, weight in self.confusion.cells():
                cell = ReportRow("", weight, "", weight)
                found.append(_csv_row("confusion", str(true), f"predicted {predicted}", cell))
        for pane in self.series or ():
            found.append(_csv_row("pane", pane.start, str(self.details.series), pane))
        for part in () if self.slices is None else self.slices.rows:
            name = slice_name(part.slice)
            found.append(_csv_row("slice", name, str(self.slices and self.slices.metric), part))
        for one in self.fairness:
            found += [_csv_row("fairness", "+".join(one.by), row.metric, row) for row in one]
        return found

    def sections(self, format: Format) -> list[Section]:
        """The parts of the result as tables and lines."""
        title = "metrics" if format is Format.HTML else ""
        found = [Section(title, self.report.table(), kind="metrics")]
        if self.shares is not None:
            found.append(Section("predicted labels", self.shares.table(), kind="classes"))
        line = self._threshold_line()
        if line:
            found.append(Section(notes=(line,), kind="threshold"))
        if self.classes is not None:
            table = self.classes.table()
            if format is Format.TABLE:
                # The ends of intervals are beneath the numbers, where the lines fit.
                narrow = self.classes.table(beneath=True)
                table = narrow if _fits(narrow) else table
            found.append(Section("classes", table, kind="classes"))
        elif self.hidden_classes:
            hidden = f"{self.hidden_classes:,} classes: --per-class shows their table"
            found.append(Section(notes=(hidden,)))
        if self.confusion is not None:
            found.append(_confusion_section(self.confusion))
        arrived = self._arrivals_line()
        if arrived:
            found.append(Section(notes=(arrived,), kind="arrivals"))
        if self.series is not None:
            metric, rows = str(self.details.series), self.series
            panes = {"start": [row.start for row in rows], "end": [row.end for row in rows]}
            table = Table(*value_cells(panes, metric, rows), right=frozenset({"support"}))
            found.append(Section(f"{metric} of each pane", table, kind="series"))
        if self.slices is not None:
            found.append(self._slice_section(self.slices))
        for one in self.fairness:
            title = f"fairness between {len(one.groups):,} groups by {'+'.join(one.by)}"
            notes = tuple(filter(None, [one.without]))
            found.append(Section(title, one.table(), notes, kind="fairness"))
        return found

    def _threshold_line(self) -> str:
        """What a better threshold would give, or which rule chose this one."""
        if self.chosen is not None:
            rule, cut = self.chosen
            return (
                f"threshold {cut.threshold:.6g} is the best by {rule} ({cut.value:.4g}) of these "
                "events; of new events expect less"
            )
        if self.cut is None or self.cut.reason:
            return ""
        now = next((row.value for row in self.report if row.metric == "f1"), math.nan)
        if math.isnan(now) or self.cut.value <= now:
            return "threshold: no other one gives a higher f1 on these events"
        return (
            f"threshold {self.cut.threshold:.6g} would give f1 {self.cut.value:.4g} instead of "
            f"{now:.4g} on these events: evaluate --threshold f1"
        )

    def _arrivals_line(self) -> str:
        if "on_time" in self.arrivals:
            counts = [f"{self.arrivals[key]:,} {words}" for key, words in _ARRIVALS.items()]
            return "arrivals: " + ", ".join(counts)
        faded_out = self.arrivals.get("faded_out", 0)
        return f"arrivals: {faded_out:,} too late to have any weight" if faded_out else ""

    def _slice_section(self, slices: SliceReport) -> Section:
        shown = slices
        tails = []
        if slices.below_support:
            tails.append(f"left out for less support: {slices.below_support}")
        if self.details.worst is None and len(slices.rows) > _SHOWN_SLICES:
            shown = replace(slices, rows=slices.rows[:_SHOWN_SLICES])
            more = len(slices.rows) - _SHOWN_SLICES
            tails.append(f"{more:,} more slices: --worst N or --format json shows them")
        if self.overflowed:
            tails.append(
                f"{self.overflowed:,} times an event went into a slice (other), "
                "as the limit was reached: --max-slices"
            )
        row = METRICS[slices.metric.partition(":")[0]]
        order = "lowest" if row.direction == "none" else "worst"
        title = f"slices by {slices.metric}, {order} first"
        return Section(title, shown.table(), tuple(tails), kind="slices")


def _fits(table: Table) -> bool:
    """Whether the lines of a table are no wider than the terminal, if the output is one."""
    widest = max(map(len, table.to_text().splitlines()))
    return widest <= (terminal_width() or widest)


def _csv_row(scope: str, name: str, metric: str, row: Any) -> dict[str, Any]:
    interval = row.interval
    return {
        "scope": scope,
        "name": name,
        "metric": metric,
        "value": row.value,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "interval": None if interval is None else interval.method,
        "support": row.support,
        "reason": row.reason,
    }


def _confusion_section(counts: ConfusionCounts) -> Section:
    """The matrix of a few classes; of many, or in a narrow terminal, the most frequent errors."""
    labels = counts.labels
    if len(labels) <= _MATRIX_CLASSES:
        names = [str(label) for label in labels]
        cells = [[weight_text(one) for one in line] for line in counts.to_array().tolist()]
        rows = [[name, *line] for name, line in zip(names, cells, strict=True)]
        table = Table(["true \\ predicted", *names], rows, right=frozenset(names))
        if _fits(table):
            return Section("confusion", table, kind="confusion")
    errors = [cell for cell in counts.cells() if cell[0] != cell[1]]
    errors.sort(key=lambda cell: -cell[2])
    rows = [
        [str(true), str(predicted), weight_text(weight), weight_text(counts.true_count(true))]
        for true, predicted, weight in errors[:_ERRORS]
    ]
    table = Table(
        ["true", "predicted", "events", "of true"], rows, frozenset({"events", "of true"})
    )
    more = len(errors) - len(rows)
    notes = (f"{more:,} more pairs of labels: --format json has all",) if more else ()
    return Section("most frequent errors", table, notes, kind="confusion")


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """Everything that a command prints of a comparison on the standard output."""

    report: ComparisonReport
    slices: SliceDifferences | None
    joined: dict[str, Any] | None = None
    """The counts of a join of files."""
    title: ClassVar[str] = "Comparison"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        values = self.report.to_dict()
        if self.joined is not None:
            values["joined"] = self.joined
        if self.slices is not None:
            values["slices"] = self.slices.to_dict()
        return values

    def sections(self, format: Format) -> list[Section]:
        """The parts of the result as tables and lines."""
        found = [Section(table=self.report.table(), kind="metrics")]
        if self.slices is not None:
            title = (
                f"slices by the difference of {self.slices.metric}, flagged at a rate of false "
                f"discoveries of {self.slices.rate:g}"
            )
            found.append(Section(title, self.slices.table(), kind="slices"))
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Rows of one table, for CSV: each value, and its difference from the reference."""
        found = []
        for row in self.report:
            differences = {one.a: one for one in row.differences}
            for model, value in row.values.items():
                one = differences.get(model)
                found.append(_difference_row("total", "", row.metric, model, value, one))
        for part in self.slices or ():
            one, name = part.difference, slice_name(part.slice)
            for model, value in part.values.items():
                of_model = one if model == one.a else None
                found.append(_difference_row("slice", name, one.metric, model, value, of_model))
        return found


def _difference_row(
    scope: str, name: str, metric: str, model: str, value: float | None, one: Difference | None
) -> dict[str, Any]:
    return {
        "scope": scope,
        "name": name,
        "metric": metric,
        "model": model,
        "value": value,
        "difference": one and one.value,
        "low": one and one.low,
        "high": one and one.high,
        "p": one and one.p_value,
        "test": one and one.method,
        "reason": one and one.reason,
    }


def comparison_result(
    comparison: Comparison,
    names: Sequence[str] | None,
    tests: dict[str, Any],
    by: str | None = None,
    joined: dict[str, Any] | None = None,
) -> ComparisonResult:
    """The result of a comparison."""
    report = comparison.report(names, **tests)
    sliced = bool(comparison.options["slices"])
    if by is not None and not sliced:
        raise InputError("--by", expected="a comparison with slices", got="one without")
    metric = by or next((row.metric for row in report.rows), None)
    if not sliced or metric is None:
        return ComparisonResult(report, None, joined)
    if tests["method"] != "auto" and any(
        one.reason for one in comparison.report([metric], **tests).rows[0].differences
    ):
        # The metric has no such test.
        tests = {**tests, "method": "auto"}
    return ComparisonResult(report, comparison.slice_differences(metric, **tests), joined)


def write_result(
    result: Result | ComparisonResult,
    format: Format,
    bad: BadRecords | None = None,
    gate: Gate | None = None,
) -> None:
    """Print a result and what fails the gate; JSON includes bad records if they are not None."""
    gate = gate or Gate(())

    def values() -> dict[str, Any]:
        if bad is None:
            return result.to_dict() | gate.to_dict()
        count, first = bad.count, [record.to_dict() for record in bad.first]
        reasons = [
            {"field": field, "expected": expected, "count": each}
            for (field, expected), each in bad.most_common()
        ]
        records = {"count": count, "reasons": reasons, "first": first}
        return result.to_dict() | gate.to_dict() | {"bad_records": records}

    write_as(format, result.title, values, result.rows, lambda: result.sections(format))
    gate.say()


def result_of(
    evaluator: Evaluator,
    names: Sequence[options.MetricCall] | None,
    details: Details,
    dimensions: Dimensions | None = None,
    chosen: tuple[str, CutPoint] | None = None,
) -> Result:
    """The result of an evaluator."""
    everything = names == options.ALL
    report = evaluator.report(
        "all" if everything else names, intervals=details.intervals, method=details.method
    )
    if details.top_k is not None and not everything:
        k_most = [(TOP_K, {"k": details.top_k})]
        more = evaluator.report(k_most, intervals=details.intervals, method=details.method)
        report = replace(report, rows=report.rows + more.rows)
    if details.anytime and "window" in report.notes:
        raise InputError(
            "--anytime",
            expected="a state of all events",
            got=f"one of a window: {report.notes['window']['kind']}",
            remedy="evaluate without --window, or leave --anytime out",
        )
    arrivals = evaluator.arrivals
    series = None
    if details.series is not None:
        if "on_time" not in arrivals:
            raise InputError(
                "--series",
                expected="a state of a window of panes",
                got="another one",
                remedy="evaluate with --window panes:1h --time FIELD",
            )
        series = evaluator.series(details.series, intervals=details.intervals)
        shown = sum(row.support for row in series)
        counted = arrivals["on_time"] + arrivals["late_kept"]
        since = evaluator.retained["since"]
        # With weights above 1 the sum is no evidence, but a full window is.
        if shown < counted or (shown > counted and series[0].start <= since):
            say(
                f"--series: panes before {since} are not kept; evaluate with a "
                "longer retain= in --window to keep them"
            )
    slices = _slices(evaluator, report, names, details, dimensions)
    result = Result(
        report,
        details,
        arrivals,
        series,
        slices,
        evaluator.slices_overflowed,
        chosen=chosen,
        fairness=_fairness(evaluator, details),
    )
    unnamed = names is None and evaluator.options["metrics"] is None
    return _with_classes(result, evaluator, by_default=unnamed or everything)


def _with_classes(result: Result, evaluator: Evaluator, *, by_default: bool) -> Result:
    """The result with classes, confusion and cut-point, where they are shown and kept."""
    wanted = result.details.per_class
    if isinstance(evaluator, Predictions) and not wanted:
        level = None if result.details.anytime else result.details.intervals
        return (
            result if wanted is False else replace(result, shares=evaluator.shares(intervals=level))
        )
    if wanted is False or not (wanted or by_default) or evaluator.is_empty:
        return result
    if result.chosen is None and TASKS[evaluator.task].truth == "two classes":
        with contextlib.suppress(MetricError):  # labels alone
            result = replace(result, cut=evaluator.thresholds("f1"))
    counts = None
    try:
        if TASKS[evaluator.task].truth != "label sets":
            counts = evaluator.confusion
    except MetricError:  # scores alone are kept
        if wanted:
            raise
        return result
    labels = evaluator.labels if counts is None else counts.labels
    if len(labels) > _SHOWN_CLASSES and not wanted:
        return replace(result, confusion=counts, hidden_classes=len(labels))
    # An anytime interval is of the total alone.
    level = None if result.details.anytime else result.details.intervals
    classes = evaluator.classification_report(intervals=level)
    return replace(result, confusion=counts, classes=classes)


def _slices(
    evaluator: Evaluator,
    report: Report,
    names: Sequence[options.MetricCall] | None,
    details: Details,
    wanted: Dimensions | None,
) -> SliceReport | None:
    if "slices" not in evaluator.retained:
        given = ["--slice"] if wanted is not None else details.slice_options()
        if given:
            raise InputError(
                given[0],
                expected="a state with slices",
                got="one without",
                remedy="evaluate with --slice FIELD",
            )
        return None
    kinds = dict.fromkeys(map(_names, evaluator.slices()))
    for dimensions in wanted or ():
        if dimensions not in kinds:
            raise InputError(
                "--slice",
                expected=f"slices of this state: {', '.join('+'.join(kind) for kind in kinds)}",
                got="+".join(dimensions),
            )
    metric: str | options.MetricCall | None = details.by
    if metric is None:
        (metric,) = USUAL_METRICS["single", report.task]
        reported = [row.metric for row in report]
        if metric not in reported:
            metric = names[0] if names and names != options.ALL else reported[0]
    support = _ANY_SUPPORT if details.min_support is None else details.min_support
    slices = evaluator.slice_report(
        metric, min_support=support, intervals=details.intervals, method=details.method
    )
    if wanted is None:
        return replace(slices, rows=slices.rows[: details.worst])
    kept = sum(_names(key) in wanted for key in evaluator.slices())
    rows = tuple(row for row in slices.rows if _names(row.slice) in wanted)
    return replace(slices, rows=rows[: details.worst], below_support=kept - len(rows))


def _fairness(evaluator: Evaluator, details: Details) -> list[FairnessReport]:
    found, text = details.groups(evaluator.options["slices"], evaluator.task)
    # The labels of a state may be numbers.
    label = next((one for one in evaluator.labels if str(one) == text), text)
    level = DEFAULT_LEVEL if details.intervals is None else details.intervals
    given: dict[str, Any] = {"label": label, "min_support": details.min_support or 0}
    try:
        return [evaluator.fairness(names, level=level, **given) for names in found]
    except InputError as error:  # no such class
        raise error.of("--fairness") from None


def _names(key: SliceKey) -> tuple[str, ...]:
    return tuple(name for name, _ in key)
