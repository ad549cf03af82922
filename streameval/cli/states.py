"""``streameval merge`` and ``streameval report``: saved states in, metrics out."""

from __future__ import annotations

import typer

from streameval.cli import options
from streameval.cli.evaluate import saved
from streameval.cli.output import FAILURE, Format, check_target
from streameval.cli.result import Details, result_of
from streameval.cli.window_text import parse_slices
from streameval.errors import StateError
from streameval.evaluator.evaluator import Evaluator, load
from streameval.records.sources import find_paths


def merge(
    states: options.StatesArgument,
    slice: options.ShowSliceOption = None,
    by: options.ByOption = None,
    worst: options.WorstOption = None,
    min_support: options.MinSupportOption = None,
    series: options.SeriesOption = None,
    plot: options.PlotOption = None,
    metrics: options.MetricsOption = None,
    format: options.FormatOption = Format.TABLE,
    save: options.SaveOption = None,
) -> None:
    """Report on the events of many states as if one run had read them all."""
    details = _details(slice, by, worst, min_support, series, plot)
    if save is not None:
        check_target(save)
    total: Evaluator | None = None
    for path in find_paths(states):
        # One state after another: many shards take the memory of two.
        evaluator = load(path)
        if total is None:
            total = evaluator
            continue
        try:
            total.merge(evaluator)
        except StateError as error:
            raise StateError(f"{path}: {error}") from None
    assert total is not None
    result = result_of(total, options.metric_names(metrics), details)
    is_written = save is None or saved(total, save)
    result.write(format)
    is_written &= details.draw(result.series)
    if not is_written:
        raise typer.Exit(FAILURE)


def report(
    state: options.StateArgument,
    slice: options.ShowSliceOption = None,
    by: options.ByOption = None,
    worst: options.WorstOption = None,
    min_support: options.MinSupportOption = None,
    series: options.SeriesOption = None,
    plot: options.PlotOption = None,
    metrics: options.MetricsOption = None,
    format: options.FormatOption = Format.TABLE,
) -> None:
    """Report on a saved state."""
    details = _details(slice, by, worst, min_support, series, plot)
    result = result_of(load(state), options.metric_names(metrics), details)
    result.write(format)
    if not details.draw(result.series):
        raise typer.Exit(FAILURE)


def _details(
    slice: str | None,
    by: str | None,
    worst: int | None,
    min_support: float | None,
    series: str | None,
    plot: str | None,
) -> Details:
    details = Details(
        by=by,
        worst=worst,
        min_support=min_support,
        dimensions=None if slice is None else parse_slices(slice, 1),
        series=series,
        plot=plot,
    )
    details.check_plot()
    return details
