"""``streameval merge`` and ``streameval report``: saved states in, metrics out."""

from __future__ import annotations

import typer

from streameval.cli import options
from streameval.cli.evaluate import saved
from streameval.cli.output import FAILURE, Format, check_target
from streameval.cli.result import Details, result_of, with_details
from streameval.errors import StateError
from streameval.evaluator.evaluator import load
from streameval.records.sources import find_paths


@with_details
def merge(
    states: options.StatesArgument,
    *,
    slice: options.ShowSliceOption = None,
    details: Details,
    metrics: options.MetricsOption = None,
    format: options.FormatOption = Format.TABLE,
    save: options.SaveOption = None,
) -> None:
    """Report on the events of many states as if one run had read them all."""
    dimensions = options.parse_slices(slice)
    details.check_plot()
    if save is not None:
        check_target(save)
    first, *others = find_paths(states)
    total = load(first)
    for path in others:
        # One state after another: many shards take the memory of two.
        evaluator = load(path)
        try:
            total.merge(evaluator)
        except StateError as error:
            raise StateError(f"{path}: {error}") from None
    result = result_of(total, options.metric_names(metrics), details, dimensions)
    is_written = save is None or saved(total, save)
    result.write(format)
    is_written &= details.draw(result.series)
    if not is_written:
        raise typer.Exit(FAILURE)


@with_details
def report(
    state: options.StateArgument,
    *,
    slice: options.ShowSliceOption = None,
    details: Details,
    metrics: options.MetricsOption = None,
    format: options.FormatOption = Format.TABLE,
) -> None:
    """Report on a saved state."""
    dimensions = options.parse_slices(slice)
    details.check_plot()
    result = result_of(load(state), options.metric_names(metrics), details, dimensions)
    result.write(format)
    if not details.draw(result.series):
        raise typer.Exit(FAILURE)
