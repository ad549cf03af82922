"""The pictures and the page of a result: ``--plot``, ``--plot-dir`` and ``--report``."""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from streameval import __version__
from streameval.cli.output import Format, Section, TargetError, check_target, escaped, say
from streameval.cli.page import Figure, page
from streameval.cli.result import ComparisonResult, Details, Result
from streameval.errors import InputError, MetricError, OptionError, shown
from streameval.evaluator.changes import describe
from streameval.evaluator.comparison import Comparison, reference_of
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.reports import Table
from streameval.metrics.registry import METRICS
from streameval.records.chunk import KEPT, BadRecords

_SHORT = {
    "pr": "precision_recall",
    "scores": "score_distribution",
    "thresholds": "threshold_metrics",
    "actual": "actual_vs_predicted",
}

_SECTIONS = ("confusion", "series", "slices")
"""The sections of a page that have the picture of their name; all others are curves."""


@dataclass(frozen=True, slots=True)
class Pictures:
    """What to draw and to write beside the result, checked before anything is read."""

    files: tuple[tuple[str, str], ...] = ()
    """The name of a picture, and its file."""
    directory: str | None = None
    ending: str = ".png"
    """Of the files in the directory."""
    page: str | None = None

    def __bool__(self) -> bool:
        return bool(self.files or self.directory or self.page)

    def metrics(self, task: str) -> tuple[str, ...]:
        """The metrics of a task that an evaluator has to keep for its pictures."""
        if not self:
            return ()
        kinds = _plots().DISPLAYS.values()
        return tuple(name for kind in kinds for name in kind.reads if task in METRICS[name].tasks)

    def draw(
        self,
        state: Evaluator | Comparison,
        result: Result | ComparisonResult,
        sources: Sequence[str],
        bad: BadRecords | None = None,
    ) -> bool:
        """Write pictures and page; a failure is printed, and False returned."""
        is_written = True
        drawn: dict[str, Any] = {}
        if isinstance(state, Comparison) and self:
            drawn = _displays_of_models(state)
        if isinstance(state, Evaluator) and isinstance(result, Result) and self:
            names = None if self.directory or self.page else [name for name, _ in self.files]
            for name, display, reason in _displays(state, result, names):
                if display is not None:
                    drawn[name] = display
                elif name in dict(self.files):
                    say(f"--plot {name}: {reason}")
                    is_written = False
        return self.save(drawn, lambda: _page(state, result, sources, drawn, bad)) and is_written

    def save(self, drawn: Mapping[str, Any], page: Callable[[], str]) -> bool:
        """Write displays by their names, and the page; a failure is printed, and False returned."""
        is_written = True
        files = [(name, path) for name, path in self.files if name in drawn]
        if self.directory is not None:
            files += [(name, os.path.join(self.directory, name + self.ending)) for name in drawn]
        for name, path in files:
            is_written &= _written(path, partial(drawn[name].save, path))
        if self.directory is not None:
            written = ", ".join(name + self.ending for name in drawn)
            say(f"--plot-dir {self.directory}: {written}")
        if self.page is not None:
            is_written &= _written(self.page, partial(_write_text, self.page, page()))
        return is_written


def checked_pictures(details: Details) -> Pictures:
    """The pictures and the page that options name."""
    files = [_named(text, details) for text in details.plot or ()]
    found = checked_files(files, details.report_file)
    ending = f".{details.plot_format or 'png'}"
    if details.plot_dir is not None:
        _plots().check_picture(f"roc{ending}", "--plot-dir")
        _make_directory(details.plot_dir)
    return replace(found, directory=details.plot_dir, ending=ending)


def checked_files(files: Sequence[tuple[str, str]], page: str | None) -> Pictures:
    """Pictures by their names and files, and the page of ``--report``."""
    for _, path in files:
        _plots().check_picture(path, "--plot")
        check_target(path)
    if page is not None:
        if not page.endswith((".html", ".htm")):
            raise InputError("--report", expected="a file name in .html", got=shown(page))
        check_target(page)
    return Pictures(files=tuple(files), page=page)


def _make_directory(path: str) -> None:
    """Make it with its parents, so that what cannot be written is refused before reading."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise TargetError(f"{path}: the directory cannot be made: {reason}") from None
    check_target(os.path.join(path, "roc"))


def _named(text: str, details: Details) -> tuple[str, str]:
    """The name of a picture, and its file, of ``roc.png`` or ``roc=FILE``."""
    before, equals, path = text.partition("=")
    if not equals:
        before, path = os.path.splitext(os.path.basename(text))[0], text
    name = _SHORT.get(before, before)
    names = _plots().ALONE
    if name not in names:
        if equals or details.series is None:
            every = ", ".join(sorted({*names, *_SHORT} - {*_SHORT.values()}))
            raise InputError(
                "--plot",
                expected=f"PICTURE=FILE, or a file that is named as one of {every}",
                got=shown(text),
                remedy="write --plot roc.png, or --plot roc=FILE",
            )
        name = "series"
    if name == "series" and details.series is None:
        remedy = "add --series f1, or another metric to draw"
        raise OptionError.requires(f"--plot {text}", "--series", remedy=remedy)
    return name, path


def _displays(
    evaluator: Evaluator, result: Result, names: Sequence[str] | None
) -> Iterator[tuple[str, Any, str]]:
    """Name, display and reason; the series and slices that the result shows, as it shows them."""
    plots, details = _plots(), result.details
    level = None if details.anytime else details.intervals
    for name in plots.ALONE if names is None else dict.fromkeys(names):
        if name == "series" and result.series is not None:
            yield name, plots.SeriesDisplay.of_rows(result.series, details.series), ""
        elif name == "slices" and result.slices is not None and result.slices.rows:
            yield name, plots.SlicesDisplay.of_report(result.slices), ""
        else:
            yield from plots.available_displays(evaluator, intervals=level, names=[name])


def _displays_of_models(comparison: Comparison) -> dict[str, Any]:
    """Every display with a line of each model; those of one model by its name too."""
    plots = _plots()
    drawn: dict[str, Any] = {}
    single: dict[str, Any] = {}
    views = {model: comparison[model] for model in comparison.models}
    for name in plots.ALONE:
        kind = plots.DISPLAYS[name]
        if name in ("series", "slices"):
            continue
        try:
            if kind.several:
                drawn[name] = kind.computed(views)
                continue
        except (InputError, MetricError):
            pass  # too many lines for one picture, or undefined
        for model, view in views.items():
            for _, display, _ in plots.available_displays(view, names=[name]):
                if display is not None:
                    title = f"{display.picture.title} of {model}"
                    display.picture = replace(display.picture, title=title)
                    single[f"{name} of {model}"] = display
    return drawn | single


def _page(
    state: Evaluator | Comparison,
    result: Result | ComparisonResult,
    sources: Sequence[str],
    drawn: dict[str, Any],
    bad: BadRecords | None,
) -> str:
    sections = result.sections(Format.HTML)
    for kind in ("series", "slices"):
        if kind in drawn and all(section.kind != kind for section in sections):
            sections.append(Section(kind, kind=kind))
    kinds = [section.kind for section in sections]
    places = {name: name if name in _SECTIONS and name in kinds else "curves" for name in drawn}
    places |= {name: "each model" for name in drawn if " of " in name}
    # Behind what is about labels, in front of what is about times and slices.
    at = max((n for n, kind in enumerate(kinds) if kind in _ABOUT_LABELS), default=0) + 1
    sections[at:at] = [
        Section(kind, kind=kind) for kind in ("curves", "each model") if kind in places.values()
    ]
    if bad is not None and bad.count:
        sections.append(_bad_section(bad))
    figures = [figure_of(one, places[name]) for name, one in drawn.items()]
    return page(_title(sources), sections, facts=_facts(state, sources), figures=figures)


_ABOUT_LABELS = ("metrics", "threshold", "classes", "confusion")


def _title(sources: Sequence[str]) -> str:
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    return f"Evaluation of {escaped(os.path.basename(sources[0]) or sources[0])}{more}"


def _facts(state: Evaluator | Comparison, sources: Sequence[str]) -> dict[str, str]:
    first = reference_of(state)
    notes = {name: describe(value) for name, value in first.notes.items()}
    span = first.span
    facts = {
        "files": ", ".join(sources[:KEPT]) + (" …" if len(sources) > KEPT else ""),
        "task": state.task,
        "events": f"{first.total.support:,.12g}",
        **({"classes": f"{len(state.labels):,}"} if state.labels else {}),
        **notes,
    }
    if isinstance(state, Comparison):
        facts["models"] = ", ".join(state.models)
    if span is not None:
        facts |= {"from": span[0], "to": span[1]}
    return {**facts, "made by": f"streameval {__version__}"}


def _bad_section(bad: BadRecords) -> Section:
    most = bad.most_common(KEPT)
    rows = [[field, expected, f"{count:,}"] for (field, expected), count in most]
    table = Table(["field", "expected", "records"], rows, right=frozenset({"records"}))
    return Section("bad records", table, (f"{bad.count:,} records were skipped",), kind="bad")


def figure_of(display: Any, kind: str) -> Figure:
    """A display on a page, in the section of a kind."""
    picture, text = display.picture, display.to_svg()
    if _plots().display.has_matplotlib():
        # Its SVG has ids, which would meet those of others.
        address = f"data:image/svg+xml;base64,{base64.b64encode(text.encode()).decode()}"
        text = f'<img src="{address}" alt="{html.escape(picture.description())}">'
    return Figure(kind, picture.title, text)


def _written(path: str, write: Callable[[], None]) -> bool:
    try:
        write()
    except OSError as error:
        say(str(TargetError(f"{path}: cannot be written: {error.strerror or error}")))
        return False
    return True


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text + "\n")


def _plots() -> Any:
    from streameval import plots  # most results have no picture

    return plots
