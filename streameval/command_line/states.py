"""``streameval merge`` and ``streameval report``: saved states in, metrics out."""

from __future__ import annotations

from typing import Annotated

import typer

from streameval.command_line.evaluate import check_target, saved
from streameval.command_line.options import FormatOption, MetricsOption, metric_names
from streameval.command_line.output import FAILURE, Format, print_report
from streameval.errors import StateError
from streameval.evaluator import Evaluator, load
from streameval.files.sources import find_paths

__all__ = ["merge", "report"]


def merge(
    states: Annotated[
        list[str],
        typer.Argument(metavar="STATE...", help="States that `evaluate --save` wrote."),
    ],
    save: Annotated[
        str | None, typer.Option(metavar="STATE", help="Keep the merged state.")
    ] = None,
    metrics: MetricsOption = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Report on the events of many states as if one run had read them all."""
    if save is not None:
        check_target(save)
    total: Evaluator | None = None
    for path in find_paths(states):
        # One state after another: many shards need the room of two.
        evaluator = load(path)
        if total is None:
            total = evaluator
            continue
        try:
            total.merge(evaluator)
        except StateError as error:
            raise StateError(f"{path}: {error}") from None
    assert total is not None
    is_saved = save is None or saved(total, save)
    print_report(total.report(metric_names(metrics)), format)
    if not is_saved:
        raise typer.Exit(FAILURE)


def report(
    state: Annotated[
        str, typer.Argument(metavar="STATE", help="A state that `evaluate --save` wrote.")
    ],
    metrics: MetricsOption = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Report on a saved state."""
    print_report(load(state).report(metric_names(metrics)), format)
