"""``streameval drift``: how far predictions are from those of a reference."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import Annotated, Any

import typer

from streameval.cli import options
from streameval.cli.output import Format, Section
from streameval.cli.page import page, write_as
from streameval.cli.pictures import checked_files, figure_of
from streameval.cli.streams import FAILURE, say
from streameval.errors import InputError, MetricError
from streameval.evaluator.comparison import Comparison, load_any
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.predictions import drift_between
from streameval.evaluator.reports import Table
from streameval.evaluator.slices import slice_name
from streameval.uncertainty.drift import DRIFTS, Drift, drifted

_HEADER = ("measure", "value", "p_value", "low", "high", "method", "reason")

NowArgument = Annotated[
    str, typer.Argument(metavar="NOW", help="A state of `predictions` or `evaluate`.")
]
ReferenceArgument = Annotated[
    str, typer.Argument(metavar="REFERENCE", help="The state that it is compared with.")
]
PlotOption = Annotated[
    str | None,
    options.option(
        "Draw both distributions; .png, .svg, .pdf, .html.",
        "--plot",
        panel=options.RESULT,
        metavar="FILE",
    ),
]


def drift(
    now: NowArgument,
    reference: ReferenceArgument,
    *,
    anytime: options.AnytimeOption = False,
    format: options.FormatOption = Format.TABLE,
    plot: PlotOption = None,
    report_file: options.ReportFileOption = None,
) -> None:
    """Measure how far the predictions of one state are from those of another.

    Scores are compared by Kolmogorov-Smirnov and Wasserstein distance, population stability index
    and Jensen-Shannon distance; predicted labels by chi-squared and Cramér's V. Slices that both
    states have are flagged at a rate of false discoveries of 0.05.
    """
    files = [] if plot is None else [("drift", plot)]
    pictures = checked_files(files, report_file)
    states = _opened(now), _opened(reference)
    method = "anytime" if anytime else "auto"
    found: dict[str, Drift] = {}
    refused: dict[str, MetricError] = {}
    for name, row in DRIFTS.items():
        if method not in row.methods:
            continue
        try:
            found[name] = drift_between(states[0].total, states[1].total, name, method=method)
        except MetricError as error:
            refused[name] = error
            found[name] = Drift(math.nan, math.nan, math.nan, math.nan, "", reason=str(error))
    if len(refused) == len(found):
        raise next(iter(refused.values()))
    here, there = (one.slices() for one in states)
    measure = next(name for name in found if name not in refused)
    slices = {
        key: drift_between(view, there[key], measure) for key, view in here.items() if key in there
    }
    flagged = drifted(slices)
    rows = [[name, *_cells(one)] for name, one in found.items()]
    sections = [Section("", Table(_HEADER, rows))]
    if slices:
        cells = [[slice_name(key), *_cells(one)] for key, one in flagged.items()]
        title = f"slices that have drifted by {measure}: {len(flagged)} of {len(slices)}"
        table = Table(("slice", *_HEADER[1:]), cells) if flagged else None
        sections.append(Section(title, table))

    def values() -> dict[str, Any]:
        data: dict[str, Any] = {"drift": {name: one.to_dict() for name, one in found.items()}}
        if slices:
            drifts = [
                {"slice": dict(key), "drifted": key in flagged, **one.to_dict()}
                for key, one in slices.items()
            ]
            data["slices"] = {"measure": measure, "rows": drifts}
        return data

    def lines() -> list[dict[str, Any]]:
        every = [("total", "", name, one) for name, one in found.items()]
        every += [("slice", slice_name(key), measure, one) for key, one in slices.items()]
        return [
            {"scope": scope, "name": name, "measure": of, **one.to_dict(), "edges": None}
            for scope, name, of, one in every
        ]

    title = f"{now} against {reference}"
    on_page = [replace(sections[0], title="drift", kind="drift"), *sections[1:]]
    shown = on_page if format is Format.HTML else sections
    write_as(format, title, values, lines, lambda: shown)
    if not pictures:
        return
    from streameval.plots import DriftDisplay  # most results have no picture

    names = os.path.basename(now), os.path.basename(reference)
    drawn = {}
    try:
        drawn["drift"] = DriftDisplay.computed(
            states[0], reference=states[1], method=method, names=names
        )
    except InputError as error:
        say(f"--plot {error}")
    figures = [figure_of(one, "drift") for one in drawn.values()]
    is_written = pictures.save(drawn, lambda: page(title, on_page, figures=figures))
    if not is_written or (plot is not None and not drawn):
        raise typer.Exit(FAILURE)


def _opened(path: str) -> Evaluator:
    state = load_any(path)
    if isinstance(state, Comparison):
        raise InputError(path, expected="a state of predictions or evaluate", got="one of compare")
    return state


def _cells(one: Drift) -> list[str]:
    numbers = (one.value, one.p_value, one.low, one.high)
    texts = ["" if value != value else f"{value:.6g}" for value in numbers]
    return [*texts, one.method, one.reason]
