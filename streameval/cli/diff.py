"""``streameval diff``: what changed between the events of two saved states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streameval.cli import options
from streameval.cli.output import Format, Section, csv_text, text_of, to_json, write
from streameval.cli.page import page
from streameval.errors import InputError
from streameval.evaluator.changes import Change, Changes, changes, describe
from streameval.evaluator.comparison import load_any
from streameval.evaluator.evaluator import Evaluator

_SHOWN = 20
"""Slices, or labels, of a table."""


def diff(
    before: options.StateArgument,
    after: options.OtherStateArgument,
    *,
    metrics: options.MetricsOption = None,
    format: options.FormatOption = Format.TABLE,
    by: options.ByOption = None,
    level: options.LevelOption = 0.95,
) -> None:
    """Show what changed from one state to another, with intervals of the differences.

    The states hold different events, such as those of two weeks. Of two models on the same
    events `compare` says more.
    """
    states = [_loaded(path) for path in (before, after)]
    names = options.metric_names(metrics)
    found = changes(states[0], states[1], names, level=level, by=by)
    if format is Format.JSON:
        write(to_json(found.to_dict()))
    elif format is Format.CSV:
        write(csv_text(_rows(found)))
    elif format is Format.HTML:
        write(page(f"{before} → {after}", _sections(found, before, after)))
    else:
        write(text_of(_sections(found, before, after), format))


def _loaded(path: str) -> Evaluator:
    state = load_any(path)
    if not isinstance(state, Evaluator):
        raise InputError(path, expected="a state of evaluate", got="one of compare")
    return state


def _sections(found: Changes, before: str, after: str) -> list[Section]:
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
        for name, (old, new) in found.settings.items()
    ]
    sections = [
        Section(notes=tuple(lines), kind="states"),
        Section("metrics", found.table()),
    ]
    if found.labels:
        sections.append(_shown("shares of the true labels", found.labels, found.label_table()))
    if found.slices:
        title = f"slices by the change of {found.by}"
        sections.append(_shown(title, found.slices, found.slice_table()))
    for names, words in ((found.slices_gone, "gone"), (found.slices_new, "new")):
        if names:
            more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
            sections.append(Section(notes=(f"slices {words}: {', '.join(names[:_SHOWN])}{more}",)))
    return sections


def _shown(title: str, rows: Sequence[Change], table: Any) -> Section:
    more = len(rows) - _SHOWN
    notes = (f"{more:,} more: --format json has all",) if more > 0 else ()
    return Section(title, type(table)(table.header, table.rows[:_SHOWN], table.right), notes)


def _rows(found: Changes) -> list[dict[str, Any]]:
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
