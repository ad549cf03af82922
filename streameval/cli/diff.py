"""``streameval diff``: what changed between the events of two saved states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from streameval.cli import options
from streameval.cli.gate import Gate
from streameval.cli.output import Format, Section
from streameval.cli.page import write_as
from streameval.errors import InputError
from streameval.evaluator.changes import (
    Change,
    Changes,
    ComparisonChanges,
    changes,
    comparison_changes,
    describe,
)
from streameval.evaluator.comparison import Comparison, load_any
from streameval.evaluator.evaluator import Evaluator
from streameval.uncertainty.interval import DEFAULT_LEVEL

_SHOWN = 20
"""Slices, or labels, of a table."""


def diff(
    before: options.StateArgument,
    after: options.OtherStateArgument,
    *,
    metrics: options.MetricsOption = None,
    format: options.FormatOption = Format.TABLE,
    by: options.ByOption = None,
    fail_if: options.FailIfOption = None,
    level: options.LevelOption = DEFAULT_LEVEL,
) -> None:
    """Show what changed from one state to another, with intervals of the differences.

    The states hold different events, such as those of two weeks. Of two models on the same
    events `compare` says more.
    """
    gate = Gate.of(fail_if)
    first, second = load_any(before), load_any(after)
    names = options.metric_names(metrics)
    found: Changes | ComparisonChanges
    if isinstance(first, Evaluator) and isinstance(second, Evaluator):
        found = changes(first, second, names, level=level, by=by)
    elif isinstance(first, Comparison) and isinstance(second, Comparison):
        found = comparison_changes(first, second, names, level=level, by=by)
    else:
        kinds = [f"one of {_COMMAND[type(state)]}" for state in (first, second)]
        raise InputError(after, expected=f"a state like {before}, {kinds[0]}", got=kinds[1])
    sections = partial(_sections, found, before, after)
    gate.judge_saved(second, first, level=level)
    write_as(
        format,
        f"{before} → {after}",
        lambda: found.to_dict() | gate.to_dict(),
        partial(_rows, found),
        sections,
    )
    gate.say()
    gate.end()


_COMMAND = {Evaluator: "evaluate", Comparison: "compare"}


def _sections(found: Changes | ComparisonChanges, before: str, after: str) -> list[Section]:
    if isinstance(found, Changes):
        sections = [_about(found, found.settings, before, after)]
        sections.append(Section("metrics", found.table()))
        return [*sections, *_label_section(found), *_slice_sections(found)]
    first = found.reference
    sections = [_about(first, found.settings, before, after)]
    reference = next(iter(found.models))
    for model, of_model in found.models.items():
        sections.append(Section(f"metrics of {model}", of_model.table()))
    for model in found.differences:
        title = f"differences of {model} less {reference}"
        sections.append(Section(title, found.difference_table(model)))
    sections += _label_section(first)
    for model, of_model in found.models.items():
        sections += _slice_sections(of_model, f" of {model}")
    return sections


def _about(
    found: Changes, settings: Mapping[str, tuple[Any, Any]], before: str, after: str
) -> Section:
    first, second = found.support
    lines = [f"before: {before}, {first:,.12g} events", f"after: {after}, {second:,.12g} events"]
    if found.shared:
        lines.append(
            f"no intervals: the two are not independent samples, as both hold {found.shared}"
        )
    else:
        lines.append(
            f"{found.level * 100:g} % intervals of the difference, for two independent samples"
        )
    lines += [
        f"{name}: {describe(old)} before, {describe(new)} after"
        for name, (old, new) in settings.items()
    ]
    return Section(notes=tuple(lines), kind="states")


def _label_section(found: Changes) -> list[Section]:
    if not found.labels:
        return []
    return [_shown("shares of the true labels", found.labels, found.label_table())]


def _slice_sections(found: Changes, of_model: str = "") -> list[Section]:
    sections = []
    if found.slices:
        title = f"slices{of_model} by the change of {found.by}"
        sections.append(_shown(title, found.slices, found.slice_table()))
    for names, words in ((found.slices_gone, "gone"), (found.slices_new, "new")):
        # Slices are the same of all models.
        if names and not of_model:
            more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
            sections.append(Section(notes=(f"slices {words}: {', '.join(names[:_SHOWN])}{more}",)))
    return sections


def _shown(title: str, rows: Sequence[Change], table: Any) -> Section:
    more = len(rows) - _SHOWN
    notes = (f"{more:,} more: --format json has all",) if more > 0 else ()
    return Section(title, type(table)(table.header, table.rows[:_SHOWN], table.right), notes)


def _rows(found: Changes | ComparisonChanges) -> list[dict[str, Any]]:
    if isinstance(found, Changes):
        return _rows_of(found)
    rows = []
    for model, of_model in found.models.items():
        rows += [{"model": model, **row} for row in _rows_of(of_model)]
        of_differences = replace(
            of_model, metrics=found.differences.get(model, ()), labels=(), slices=()
        )
        for row in _rows_of(of_differences):
            rows.append({"model": model, **row, "scope": "difference"})
    return rows


def _rows_of(found: Changes) -> list[dict[str, Any]]:
    return [
        {
            "scope": scope,
            "name": one.name if scope != "total" else "",
            "metric": {"total": one.name, "label": "share", "slice": found.by}[scope],
            "before": one.before,
            "after": one.after,
            "difference": one.difference.value,
            "low": one.difference.low,
            "high": one.difference.high,
            "differs": one.flagged,
            "reason": one.difference.reason,
        }
        for scope, rows in (
            ("total", found.metrics),
            ("label", found.labels),
            ("slice", found.slices),
        )
        for one in rows
    ]
