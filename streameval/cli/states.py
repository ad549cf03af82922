"""``streameval merge`` and ``streameval report``: saved states in, metrics out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer

from streameval.cli import options
from streameval.cli.counting import saved
from streameval.cli.gate import Gate
from streameval.cli.options import of_result, of_window
from streameval.cli.output import Format, check_target
from streameval.cli.pictures import checked_pictures
from streameval.cli.result import (
    ComparisonResult,
    Details,
    Result,
    comparison_result,
    result_of,
    write_result,
)
from streameval.cli.streams import FAILURE, say
from streameval.errors import InputError
from streameval.evaluator.comparison import Comparison, load_any, provenances_of
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.merging import merged
from streameval.records.input_files import find_paths
from streameval.records.spec import Dimensions
from streameval.state_files.provenance import ON_COMMAND_LINE, Collection, Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The option of the slices that are shown."""

    slice: str | None = of_window(
        "Show the slices by these fields only, written as for `evaluate`.", metavar="FIELD,FIELD"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """The options of the shards that are merged."""

    expect: str | None = of_result(
        "Exit with 1 if a shard named in FILE, one a line, is missing.", metavar="FILE"
    )
    allow_overlap: bool = of_result(
        "Also count events that several of the states hold.", "--allow-overlap", default=False
    )


def merge(
    states: options.StatesArgument,
    *,
    metrics: options.MetricsOption = None,
    format: options.FormatOption = Format.TABLE,
    save: options.SaveOption = None,
    shown: Shown,
    details: Details,
    shards: Shards,
) -> None:
    """Report on the events of many states as if one run had read them all."""
    gate = Gate.of(details.fail_if)
    dimensions = options.parse_slices(shown.slice)
    pictures = checked_pictures(details)
    if save is not None:
        check_target(save)
    expected = None if shards.expect is None else options.expected_shards(shards.expect)
    chosen = _chosen(find_paths(states), expected, allow_overlap=shards.allow_overlap)
    # Each is loaded when its turn comes: of n states log n are held at once.
    total = merged(((path, load_any(path)) for path in chosen), allow_overlap=shards.allow_overlap)
    result = _result(total, metrics, details, dimensions)
    gate.judge_saved(total, **details.judged)
    is_written = save is None or saved(total, save)
    write_result(result, format, gate=gate)
    is_written &= pictures.draw(total, result, states)
    if not is_written:
        raise typer.Exit(FAILURE)
    gate.end()


def report(
    state: options.StateArgument,
    *,
    metrics: options.MetricsOption = None,
    format: options.FormatOption = Format.TABLE,
    shown: Shown,
    details: Details,
) -> None:
    """Report on a saved state."""
    gate = Gate.of(details.fail_if)
    dimensions = options.parse_slices(shown.slice)
    pictures = checked_pictures(details)
    loaded = load_any(state)
    result = _result(loaded, metrics, details, dimensions)
    gate.judge_saved(loaded, **details.judged)
    write_result(result, format, gate=gate)
    if not pictures.draw(loaded, result, [state]):
        raise typer.Exit(FAILURE)
    gate.end()


def _chosen(
    paths: Sequence[str], expected: Sequence[Shard] | None, *, allow_overlap: bool
) -> list[str]:
    """The files to merge: without those whose shard is there in a newer epoch."""
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
        "--fairness": details.fairness,
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
