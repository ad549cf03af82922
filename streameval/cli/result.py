"""The result of a command: the report, and the slices, series and picture of its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streameval.certainty.interval import checked_level
from streameval.cli import options
from streameval.cli.option_group import option_group
from streameval.cli.output import Format, TargetError, check_target, say, to_json, write
from streameval.errors import InputError, OptionError
from streameval.evaluator.comparison import Comparison, ComparisonReport, SliceDifferences
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.reports import (
    Report,
    SeriesRow,
    SliceReport,
    markdown_table,
    plain_value,
    text_table,
    value_cells,
)
from streameval.evaluator.slices import SliceKey
from streameval.metrics.registry import USUAL_METRICS
from streameval.records.chunk import BadRecords
from streameval.records.request import Dimensions
from streameval.windows.kinds import kind_of
from streameval.windows.window import WindowSpec

_SHOWN_SLICES = 20
"""Slices in a table without ``--worst``."""

_ANY_SUPPORT = 5e-324
"""Without ``--min-support``, only slices without events in the window are left out."""

_ARRIVALS = {
    "on_time": "on time",
    "late_kept": "late and kept",
    "late_dropped": "late and dropped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """The options of the slices' table, the series and its picture, and of intervals.

    :func:`with_details` adds them to a command.
    """

    by: options.ByOption = None
    worst: options.WorstOption = None
    min_support: options.MinSupportOption = None
    series: options.SeriesOption = None
    plot: options.PlotOption = None
    intervals: options.IntervalsOption = None
    anytime: options.AnytimeOption = False

    def __post_init__(self) -> None:
        if self.intervals is not None:
            checked_level(self.intervals, "--intervals")
        elif self.anytime:
            remedy = "add --intervals 0.95, or another level"
            raise OptionError.requires("--anytime", "--intervals", remedy=remedy)
        if self.plot is not None and self.series is None:
            remedy = "add --series f1, or another metric to draw"
            raise OptionError.requires("--plot", "--series", remedy=remedy)

    @property
    def method(self) -> str:
        """How intervals are computed; a name of :data:`streameval.certainty.methods.METHODS`."""
        return "anytime" if self.anytime else "auto"

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that these details need."""
        return tuple(name for name in (self.by, self.series) if name is not None)

    def check_window(self, window: WindowSpec | None) -> None:
        """Raise OptionError where the window does not have what these details show."""
        if self.anytime and window is not None:
            remedy = "such intervals cover all events since a start; leave one out"
            raise OptionError.conflicts("--anytime", "--window", remedy=remedy)
        kind = kind_of(window)
        if self.series is not None and (kind is None or kind.widest is None):
            remedy = "add --window panes:1h --time FIELD"
            raise OptionError.requires("--series", "a --window of panes", remedy=remedy)

    def slice_options(self) -> list[str]:
        """The given options that require slices."""
        given = {"--by": self.by, "--worst": self.worst, "--min-support": self.min_support}
        return [name for name, value in given.items() if value is not None]

    def check_plot(self) -> None:
        """Check that the picture can be made, before the input is read.

        Raises:
            MissingExtraError: The extra ``plots`` is not installed.
            InputError: A file name of another kind.
            TargetError: The file cannot be written.
        """
        if self.plot is not None:
            _plots().check_picture(self.plot, "--plot")
            check_target(self.plot)

    def draw(self, rows: Sequence[SeriesRow] | None) -> bool:
        """Draw the series where ``--plot`` is given; a failure is printed, and False returned."""
        if self.plot is None or self.series is None or rows is None:
            return True
        plots = _plots()
        try:
            plots.save_figure(plots.plot_series(rows, self.series), self.plot)
        except OSError as error:
            say(str(TargetError(f"{self.plot}: cannot be written: {error.strerror or error}")))
            return False
        return True


with_details = option_group("details", Details)


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that a command prints on the standard output."""

    report: Report
    details: Details
    arrivals: Mapping[str, int]
    series: Sequence[SeriesRow] | None
    slices: SliceReport | None
    overflowed: int

    def write(self, format: Format, bad: BadRecords | None = None) -> None:
        """Print the result; JSON includes bad records if ``bad`` is not None."""
        if format is Format.JSON:
            values = self.to_dict()
            if bad is not None:
                values["bad_records"] = bad_records(bad)
            write(to_json(values))
        else:
            write("\n\n".join(self._sections(markdown=format is Format.MARKDOWN)))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        values = self.report.to_dict()
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
        return values

    def _sections(self, *, markdown: bool) -> list[str]:
        sections = [self.report.to_markdown() if markdown else str(self.report)]
        arrived = self._arrivals_line()
        if arrived:
            sections.append(arrived)
        if self.series is not None:
            title = f"{self.details.series} of each pane"
            table = markdown_table if markdown else text_table
            body = table(*self._series_cells(), right=frozenset({"support"}))
            sections.append(titled(title, body, markdown=markdown))
        if self.slices is not None:
            sections.extend(self._slice_sections(self.slices, markdown=markdown))
        return sections

    def _arrivals_line(self) -> str:
        if "on_time" in self.arrivals:
            counts = [f"{self.arrivals[key]:,} {words}" for key, words in _ARRIVALS.items()]
            return "arrivals: " + ", ".join(counts)
        faded_out = self.arrivals.get("faded_out", 0)
        return f"arrivals: {faded_out:,} too late to have any weight" if faded_out else ""

    def _series_cells(self) -> tuple[list[str], list[list[str]]]:
        rows = self.series or []
        panes = {"start": [row.start for row in rows], "end": [row.end for row in rows]}
        return value_cells(panes, str(self.details.series), rows)

    def _slice_sections(self, slices: SliceReport, *, markdown: bool) -> list[str]:
        shown = slices
        tails = []
        if self.details.worst is None and len(slices.rows) > _SHOWN_SLICES:
            shown = replace(slices, rows=slices.rows[:_SHOWN_SLICES])
            more = len(slices.rows) - _SHOWN_SLICES
            tails.append(f"{more:,} more slices: --worst N or --format json shows them")
        if self.overflowed:
            tails.append(
                f"{self.overflowed:,} times an event went into a slice (other), "
                "as the limit was reached: --max-slices"
            )
        title = f"slices by {slices.metric}, worst first"
        body = shown.to_markdown() if markdown else str(shown)
        if markdown:
            if slices.below_support:
                tails.insert(0, f"left out for less support: {slices.below_support}")
            return [titled(title, body, markdown=True), *tails]
        return ["\n".join([titled(title, body, markdown=False), *tails])]


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """Everything that a command prints of a comparison on the standard output."""

    report: ComparisonReport
    slices: SliceDifferences | None
    series: None = None
    """As of a result of an evaluator; a comparison has none."""

    def write(
        self, format: Format, bad: BadRecords | None = None, joined: dict[str, Any] | None = None
    ) -> None:
        """Print the result; JSON includes the counts of a join and bad records where given."""
        if format is Format.JSON:
            values = self.report.to_dict()
            if joined is not None:
                values["joined"] = joined
            if self.slices is not None:
                values["slices"] = self.slices.to_dict()
            if bad is not None:
                values["bad_records"] = bad_records(bad)
            write(to_json(values))
            return
        markdown = format is Format.MARKDOWN
        sections = [self.report.to_markdown() if markdown else str(self.report)]
        if self.slices is not None:
            title = (
                f"slices by the difference of {self.slices.metric}, flagged at a rate of false "
                f"discoveries of {self.slices.rate:g}"
            )
            body = self.slices.to_markdown() if markdown else str(self.slices)
            sections.append(titled(title, body, markdown=markdown))
        write("\n\n".join(sections))


def comparison_result(
    comparison: Comparison,
    names: Sequence[str] | None,
    tests: dict[str, Any],
    by: str | None = None,
) -> ComparisonResult:
    """The result of a comparison.

    Args:
        comparison: The comparison to read.
        names: The metrics of the report, or None for its own.
        tests: Options of its report.
        by: The metric of the slices' table, or None for the first of the report.

    Raises:
        MetricError: It cannot compute one of the metrics.
        InputError: It has no slices, and `by` is given.
    """
    report = comparison.report(names, **tests)
    sliced = bool(comparison.options["slices"])
    if by is not None and not sliced:
        raise InputError("--by", expected="a comparison with slices", got="one without")
    metric = by or next((row.metric for row in report.rows), None)
    if not sliced or metric is None:
        return ComparisonResult(report, None)
    if tests["method"] != "auto" and any(
        one.reason for one in comparison.report([metric], **tests).rows[0].differences
    ):
        # The metric has no such test.
        tests = {**tests, "method": "auto"}
    return ComparisonResult(report, comparison.slice_differences(metric, **tests))


def bad_records(bad: BadRecords) -> dict[str, Any]:
    """Plain data for JSON."""
    return {
        "count": bad.count,
        "reasons": [
            {"field": field, "expected": expected, "count": count}
            for (field, expected), count in bad.reasons.most_common()
        ],
        "first": [record.to_dict() for record in bad.first],
    }


def titled(title: str, body: str, *, markdown: bool) -> str:
    return f"**{title}**\n\n{body}" if markdown else f"{title}\n{body}"


def result_of(
    evaluator: Evaluator,
    names: Sequence[str] | None,
    details: Details,
    dimensions: Dimensions | None = None,
) -> Result:
    """The result of an evaluator.

    Args:
        evaluator: The evaluator to read.
        names: The metrics of the report, or None for its own.
        details: The slices, series and picture to add.
        dimensions: The kinds of slices that are shown; None for all.

    Raises:
        MetricError: It cannot compute one of the metrics.
        InputError: It has no panes, or no such slices.
    """
    report = evaluator.report(names, intervals=details.intervals, method=details.method)
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
    slices = _slices(evaluator, report, details, dimensions)
    return Result(report, details, arrivals, series, slices, evaluator.slices_overflowed)


def _slices(
    evaluator: Evaluator, report: Report, details: Details, wanted: Dimensions | None
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
    for names in wanted or ():
        if names not in kinds:
            raise InputError(
                "--slice",
                expected=f"slices of this state: {', '.join('+'.join(kind) for kind in kinds)}",
                got="+".join(names),
            )
    metric = details.by
    if metric is None:
        (metric,) = USUAL_METRICS["single", report.task]
        reported = [row.metric for row in report]
        if metric not in reported:
            metric = reported[0]
    support = _ANY_SUPPORT if details.min_support is None else details.min_support
    slices = evaluator.slice_report(
        metric, min_support=support, intervals=details.intervals, method=details.method
    )
    if wanted is None:
        return replace(slices, rows=slices.rows[: details.worst])
    kept = sum(_names(key) in wanted for key in evaluator.slices())
    rows = tuple(row for row in slices.rows if _names(row.slice) in wanted)
    return replace(slices, rows=rows[: details.worst], below_support=kept - len(rows))


def _names(key: SliceKey) -> tuple[str, ...]:
    return tuple(name for name, _ in key)


def _plots() -> Any:
    from streameval import plots  # the extra's packages take a second to load

    return plots
