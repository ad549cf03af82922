"""``streameval merge`` and ``streameval report``: saved states in, metrics out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from streameval.cli import options
from streameval.cli.evaluate import saved
from streameval.cli.output import FAILURE, Format, check_target, say
from streameval.cli.pictures import checked_pictures
from streameval.cli.result import (
    ComparisonResult,
    Details,
    Result,
    comparison_result,
    result_of,
    with_details,
)
from streameval.errors import InputError
from streameval.evaluator.comparison import Comparison, load_any, provenances_of
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.merging import merged
from streameval.records.input_files import find_paths
from streameval.records.request import Dimensions
from streameval.state_files.provenance import ON_COMMAND_LINE, Collection, Shard


@with_details
def merge(
    states: options.StatesArgument,
    *,
    metrics: options.MetricsOption = None,
    format: options.FormatOption = Format.TABLE,
    save: options.SaveOption = None,
    slice: options.ShowSliceOption = None,
    details: Details,
    expect: options.ExpectOption = None,
    allow_overlap: options.AllowOverlapOption = False,
) -> None:
    """Report on the events of many states as if one run had read them all."""
    dimensions = options.parse_slices(slice)
    pictures = checked_pictures(details)
    if save is not None:
        check_target(save)
    expected = None if expect is None else options.expected_shards(expect)
    chosen = _chosen(find_paths(states), expected, allow_overlap=allow_overlap)
    # Each is loaded when its turn comes: of n states log n are held at once.
    total = merged(((path, load_any(path)) for path in chosen), allow_overlap=allow_overlap)
    result = _result(total, metrics, details, dimensions)
    is_written = save is None or saved(total, save)
    result.write(format)
    is_written &= pictures.draw(total, result, states)
    if not is_written:
        raise typer.Exit(FAILURE)


@with_details
def report(
    state: options.StateArgument,
    *,
    metrics: options.MetricsOption = None,
    format: options.FormatOption = Format.TABLE,
    slice: options.ShowSliceOption = None,
    details: Details,
) -> None:
    """Report on a saved state."""
    dimensions = options.parse_slices(slice)
    pictures = checked_pictures(details)
    loaded = load_any(state)
    result = _result(loaded, metrics, details, dimensions)
    result.write(format)
    if not pictures.draw(loaded, result, [state]):
        raise typer.Exit(FAILURE)


def _chosen(
    paths: Sequence[str], expected: Sequence[Shard] | None, *, allow_overlap: bool
) -> list[str]:
    """The files to merge: without those whose shard is there in a newer epoch.

    Raises:
        StateError: Events would count twice.
        typer.Exit: An expected shard is missing.
    """
    known = provenances_of(paths)
    together = Collection(known, ON_COMMAND_LINE)
    chosen = []
    for path, provenance in known:
        if allow_overlap:
            together.union.add(provenance)
        elif (replaced := together.replaced(path, provenance)) is not None:
            say(replaced)
            continue
        chosen.append(path)
    missing = [] if expected is None else together.union.missing(expected)
    if missing:
        named = "" if not together.union.contents else "; states without a name match none"
        lacking = f"{len(missing)} of {len(expected or ())} shards missing"
        say(f"--expect: {lacking}, nothing was merged{named}:")
        for shard in missing:
            say(f"{shard.name} {shard.sequence}".rstrip())
        raise typer.Exit(FAILURE)
    return chosen


def _result(
    state: Evaluator | Comparison,
    metrics: str | None,
    details: Details,
    dimensions: Dimensions | None,
) -> Result | ComparisonResult:
    """The result of an evaluator or a comparison; errors as of :func:`result_of`."""
    if isinstance(state, Evaluator):
        return result_of(state, options.metric_calls(metrics), details, dimensions)
    given = {
        "--slice": dimensions,
        "--worst": details.worst,
        "--min-support": details.min_support,
        "--series": details.series,
        "--per-class": details.per_class,
        "--top-k": details.top_k,
        "--plot": details.plot,
        "--plot-dir": details.plot_dir,
    }
    for option, value in given.items():
        if value is not None:
            raise InputError(
                option,
                expected="a state of evaluate",
                got="one of compare",
                remedy="of a comparison, --metrics, --by, --intervals and --anytime select",
            )
    tests: dict[str, Any] = {"method": details.method}
    if details.intervals is not None:
        tests["level"] = details.intervals
    return comparison_result(state, options.metric_names(metrics), tests, by=details.by)
