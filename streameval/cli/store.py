"""``streameval store``: verify, back up and report on a store, export states, replay records."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer

from streameval.cli.options import MetricCall, MetricsOption, metric_calls
from streameval.cli.output import Format, Section, TargetError, csv_text, escaped, text_of, to_json
from streameval.cli.page import page
from streameval.cli.result import Details, result_of, write_result
from streameval.cli.streams import FAILURE, say, write
from streameval.errors import InputError, StateError, StoreError, shown
from streameval.evaluator.comparison import Comparison, Evaluation, reference_of
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.predictions import Predictions
from streameval.evaluator.reports import Table, number
from streameval.events.time import iso_time, wall_time
from streameval.metrics.registry import task_metrics
from streameval.service.config.address import is_postgres
from streameval.service.config.evaluators import open_evaluators, predicted_windows
from streameval.service.join.counters import COUNTERS, OF_SETS, REPORTED
from streameval.service.join.counts import (
    MergedJoin,
    merged_join,
    read_watermark,
    reset_watermark,
    saved_with_spans,
)
from streameval.service.join.watermark import SavedWatermark
from streameval.service.publish.predictions import PredictionReports
from streameval.service.publish.snapshot import PredictionReport
from streameval.service.store.checksums import check_rows
from streameval.service.store.dialect import Connection
from streameval.service.store.kept_settings import (
    SETTINGS,
    in_window_order,
    kept_settings,
    newest_first,
    unconverted_text,
)
from streameval.service.store.quarantine import listed, mark_for_replay, reasons
from streameval.service.store.sqlite import inbox_of
from streameval.service.store.state_rows import StateRow, merge_rows, merged_windows, read_rows
from streameval.service.store.store import Store, each_unit, open_store, read_store, shown_path
from streameval.service.store.valid_from import latest_valid_from, note_valid_from, since_text
from streameval.service.upkeep.backup import back_up
from streameval.service.upkeep.backup import restore as restore_backup
from streameval.service.upkeep.check import Checked, check_store
from streameval.service.upkeep.copy import copy_store
from streameval.service.upkeep.settings_migration import UnitView, view_of

store_app = typer.Typer(
    help="Verify, back up and report on the store of a run, replay refused records."
)

StoreArgument = Annotated[
    str,
    typer.Argument(metavar="STORE", help="The file that a run keeps, or postgresql://…?schema=."),
]
PartitionOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Only events of this partition.")
]
WindowOption = Annotated[str | None, typer.Option(metavar="NAME", help="Only this window.")]


_VERIFIED = ("meta", "states", "join_counts", "quarantine", "quarantine_reasons")


_ListFormat = StrEnum("_ListFormat", ["TABLE", "JSON"])


@contextmanager
def _opened(path: str) -> Iterator[tuple[Store, Connection]]:
    """A consistent view of a store, with the rows verified that are read."""
    with closing(read_store(path)) as store, store.reading() as connection:
        check_rows(connection, *_VERIFIED)
        yield store, connection


@contextmanager
def _written(path: str) -> Iterator[list[Store]]:
    """All units of a store, open for writing."""
    with closing(read_store(path)) as store:
        names = store.units()
    with ExitStack() as stack:
        units: list[Store] = []
        for name in names:
            units.append(open_store(path, unit=name, sibling=units[0] if units else None))
            stack.callback(units[-1].close)
        yield units


def _windows(
    store: Store, connection: Connection, partition: str | None, window: str | None
) -> dict[str, Evaluation]:
    """The windows of a store in their order, or one of them."""
    known: set[str] = set()
    views: dict[str, UnitView] = {}
    metas = {unit: store.meta() for unit in each_unit(store)}
    newest = metas[newest_first(metas)[0]] if metas else {}

    def rows() -> Iterator[StateRow]:
        for unit in each_unit(store):
            query = "SELECT DISTINCT partition FROM states"
            known.update(name for (name,) in connection.execute(query))
            settings = partial(kept_settings, store.path, newest)
            view = view_of(store.path, connection, metas[unit], newest, settings, wall_time())
            views[unit] = view
            if view.steps is None:
                yield from read_rows(connection, partition)
                continue
            for name, found in merged_windows(connection, partition).items():
                if name in view.steps:
                    yield StateRow(unit, name, 0, "snapshot", view.steps[name](found), [])

    merged: dict[str, Evaluation] = {}
    merge_rows(merged, rows())
    if partition is not None and partition not in known:
        raise InputError("--partition", expected=_one_of(list(known)), got=shown(partition))
    waiting = [unit for unit, view in views.items() if view.steps is not None]
    if waiting:
        say(f"{store.path}: {unconverted_text(waiting)}")
    found = in_window_order(merged, newest)
    valid_from = latest_valid_from(view.valid_from for view in views.values())
    for name, evaluator in found.items():
        note_valid_from(valid_from, name, reference_of(evaluator))
    if window is None:
        return found
    # With the window's predictions.
    chosen = {name: one for name, one in found.items() if f"{name}:".startswith(f"{window}:")}
    if not chosen:
        raise InputError("--window", expected=_one_of(list(found)), got=shown(window))
    return chosen


def _one_of(names: list[str]) -> str:
    listing = ", ".join(shown(name) for name in sorted(names)[:20])
    return f"one of {listing}" if names else "a store that holds something"


@store_app.command()
def check(store: StoreArgument) -> None:
    """Verify the file, every row and post, and that counts agree; also while a run is active."""
    _say_checked(shown_path(store), "sound", check_store(store))


def _say_checked(path: str, what: str, found: Checked) -> None:
    write(
        f"{path}: {what}\n"
        f"  {found.events:,} events, {found.checkpoints:,} checkpoints\n"
        f"  {found.states:,} states of {found.partitions:,} partitions, "
        f"{found.state_bytes:,} bytes\n"
        + (f"  {found.entries:,} entries of the join\n" if found.entries is not None else "")
        + f"  {found.quarantined:,} records in quarantine"
    )
    if not found.has_checksums:
        say(
            f"{path}: was written by an older release, without checksums of its rows: not all "
            "damage can be found. The next run adds them"
        )


OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]


@store_app.command()
def backup(
    store: StoreArgument,
    to: Annotated[str, typer.Argument(metavar="DEST", help="The directory to make.")],
    overwrite: OverwriteOption = False,
) -> None:
    """Copy a store and its inbox into a directory, verified; also while a run is active."""
    found = back_up(store, to, overwrite=overwrite)
    _say_checked(to, f"a sound copy of {shown_path(store)}", found)


@store_app.command()
def copy(
    source: StoreArgument,
    to: Annotated[
        str, typer.Argument(metavar="DEST", help="A new file, or postgresql://…?schema=.")
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what a PostgreSQL store holds.")
    ] = False,
) -> None:
    """Copy a store from a file to PostgreSQL, back, or to another database; verified."""
    found = copy_store(source, to, overwrite=overwrite)
    _say_checked(shown_path(to), f"a sound copy of {shown_path(source)}", found)
    if not is_postgres(source) and any(inbox_of(source).glob("*.jsonl")):
        say(f"{inbox_of(source)}: posts are not in a store; move it to the http.inbox of the run")


@store_app.command()
def restore(
    source: Annotated[
        str, typer.Argument(metavar="BACKUP", help="A directory that `store backup` made.")
    ],
    store: StoreArgument,
    overwrite: OverwriteOption = False,
) -> None:
    """Verify a backup, and replace a store that no run has open with it, and its inbox."""
    found = restore_backup(source, store, overwrite=overwrite)
    _say_checked(shown_path(store), f"restored from {source}", found)


@store_app.command()
def report(
    store: StoreArgument,
    window: WindowOption = None,
    partition: PartitionOption = None,
    metrics: MetricsOption = None,
    format: Annotated[Format, typer.Option(help="Format of the result.")] = Format.TABLE,
) -> None:
    """Report on everything counted, for each window; also while a run is active.

    Predictions that were counted before their labels follow their window, with what those still
    without labels say: drift against the reference of the run, and expected metrics.
    """
    with _opened(store) as (opened, connection):
        windows = _windows(opened, connection, partition, window)
        # Labels and predictions of different partitions are joined: one alone has no counts.
        merged = _merged_join(opened, connection) if partition is None else None
        before = {} if merged is None else _before_labels(opened, windows, merged)
    join = None if merged is None else merged.counts
    found = {name: reference_of(one) for name, one in windows.items()}
    calls = {name: _answered(metric_calls(metrics), one) for name, one in found.items()}
    if metrics is not None and any(calls.values()):
        found = {name: one for name, one in found.items() if calls[name]}
    results = {
        name: result_of(one, calls[name] or metric_calls(metrics), Details(per_class=False))
        for name, one in found.items()
    }
    if format is Format.JSON:
        data = {name: result.to_dict() for name, result in results.items()}
        for name, values in data.items():
            values |= {} if join is None else {"labels": _join_values(join)}
            if name in before:
                values["before_labels"] = msgspec.to_builtins(before[name])
        write(to_json(data))
        return
    if format.is_csv:
        rows = ((name, row) for name, result in results.items() for row in result.rows())
        write(csv_text([{"window": name, **row} for name, row in rows], format))
        return
    titles = {
        name: f"window {shown(name)[1:-1].replace(':', ', ')}{since_text(one.notes)}"
        for name, one in found.items()
    }
    if format is Format.HTML:
        sections = [
            replace(section, title=f"{titles[name]}: {section.title or section.kind}")
            for name, result in results.items()
            for section in [
                *result.sections(format),
                *([_before_section(before[name])] if name in before else []),
            ]
        ]
        sections += [] if join is None else [_join_section(join)]
        write(page(shown_path(store), sections))
        return
    if not results:
        write("nothing was counted yet")
    for index, (name, result) in enumerate(results.items()):
        heading = f"## {titles[name]}\n" if format is Format.MARKDOWN else titles[name]
        write(f"\n{heading}" if index else heading)
        write_result(result, format)
        if name in before:
            write("\n" + text_of([_before_section(before[name])], format))
    if join is not None:
        write("\n" + text_of([_join_section(join)], format))


def _answered(
    calls: tuple[MetricCall, ...] | None, evaluator: Evaluator
) -> tuple[MetricCall, ...] | None:
    """The metrics that were named; of predictions without labels those that they have."""
    if calls is None or not isinstance(evaluator, Predictions):
        return calls
    rows = task_metrics(evaluator.task)
    known = {"all", *(row.name for row in rows)}
    return tuple(call for call in calls if call[0] in known)


def _merged_join(store: Store, connection: Connection) -> MergedJoin | None:
    saved = [saved_with_spans(connection) for _ in each_unit(store)]
    return merged_join(one for one in saved if one is not None)


def _before_labels(
    store: Store, windows: Mapping[str, Evaluation], join: MergedJoin
) -> dict[str, PredictionReport]:
    """What predictions without labels say, by their names in the store."""
    metas = {unit: store.meta() for unit in each_unit(store)}
    newest = metas[newest_first(metas)[0]]
    if SETTINGS not in newest:
        return {}
    settings = kept_settings(store.path, newest)
    counted = {name: of for name, of in predicted_windows(settings).items() if name in windows}
    reports = PredictionReports(settings, {**open_evaluators(settings), **windows}, time.monotonic)
    reports.labelled_until = join.labelled_until
    return {
        name: reports.make(of.window.name, model=of.model, since=None, seconds=math.inf)[0]
        for name, of in counted.items()
    }


def _before_section(report: PredictionReport) -> Section:
    """The same as a table, in which metrics are named as alerts name them."""
    rows = []
    for kind, values in (
        ("predictions", report.metrics),
        ("drift", report.drift),
        ("expected", report.expected),
    ):
        for name, row in values.items():
            numbers = [getattr(row, key, None) for key in ("value", "low", "high", "p_value")]
            texts = ["" if one is None else f"{one:.6g}" for one in numbers]
            check = report.checks.get(name) if kind == "expected" else None
            held = "" if check is None else f"{check.held} of {check.panes}"
            rows.append([f"{kind}.{name}", *texts, held, row.reason])
    notes = [reason for reason in (report.reference_reason,) if reason]
    notes += [
        f"expected.{name} has failed: {one.reason}"
        for name, one in report.checks.items()
        if one.flagged
    ]
    title = f"before their labels, {report.unlabelled:,} of {report.events:,} predictions"
    title += f", against {report.reference}" if report.reference else ""
    header = ["metric", "value", "low", "high", "p_value", "held", "reason"]
    return Section(title, Table(header, rows), tuple(notes), kind="predictions")


def _join_values(join: dict[str, Any]) -> dict[str, Any]:
    """Plain data for JSON: without the cohorts, and whether the report will change."""
    counts = {name: value for name, value in join.items() if name != "cohorts"}
    return {**counts, "immature": join["waiting"] > 0}


def _join_section(join: dict[str, Any]) -> Section:
    """The same as a table."""
    coverage = join["coverage"]
    rows = [["coverage", "-" if coverage is None else number(coverage)]]
    for name in ("p50", "p95", "p99"):
        delay = join["delay"][name]
        rows.append([f"delay {name}, s", "-" if delay is None else number(delay)])
    shown = [name for name in REPORTED if name != OF_SETS or join[name]]
    rows += [[COUNTERS[name].words, f"{join[name]:,}"] for name in shown]
    notes = []
    if join["coverage_reason"]:
        notes.append(f"coverage: {join['coverage_reason']}")
    if join["waiting"]:
        number_of = join["waiting"]
        wait = "prediction waits for its" if number_of == 1 else "predictions wait for their"
        notes.append(f"immature: {number_of:,} {wait} label; numbers will change")
    table = Table(["labels", "value"], rows, right=frozenset({"value"}))
    return Section("", table, tuple(notes), kind="labels")


@store_app.command()
def export(
    store: StoreArgument,
    to: Annotated[
        str, typer.Option(metavar="DIRECTORY", help="Directory of the files; current by default.")
    ] = ".",
    window: WindowOption = None,
    partition: PartitionOption = None,
) -> None:
    """Write a state file for each window, for `streameval merge` and `report`.

    Of a run of several models it is that of the first one; WINDOW.comparison beside it holds
    all of them, for Comparison.load. WINDOW.predictions.state holds the predictions, counted
    before their labels, for `streameval drift`.
    """
    if not os.path.isdir(to):
        raise TargetError(f"{to}: there is no such directory")
    with _opened(store) as (opened, connection):
        found = _windows(opened, connection, partition, window)
    for name, evaluation in found.items():
        written: dict[str, Evaluation] = {".state": reference_of(evaluation)}
        if isinstance(evaluation, Comparison):
            written[".comparison"] = evaluation
        for ending, one in written.items():
            path = os.path.join(to, quote(name.replace(":", "."), safe=" +,=@") + ending)
            try:
                one.save(path)
            except StateError as error:
                raise TargetError(str(error)) from None
            write(path)
    if not found:
        say("nothing was counted yet")


@store_app.command()
def quarantine(
    store: StoreArgument,
    reason: Annotated[
        str | None, typer.Option(metavar="REASON", help="Only records refused for this reason.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Number of records listed.")] = 20,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay", help="Mark them, so that the next run reads them first, as new records."
        ),
    ] = False,
    format: Annotated[_ListFormat, typer.Option(help="Format of the result.")] = _ListFormat.TABLE,
) -> None:
    """List the records that could not be counted, the newest first."""
    if replay:
        _replay(store, reason)
        return
    with _opened(store) as (opened, connection):
        rows: list[dict[str, Any]] = []
        counts: Counter[str] = Counter()
        for _ in each_unit(opened):
            rows += listed(connection, reason=reason, most=limit)
            counts.update(reasons(connection))
        several = len(opened.units()) > 1
    if several:
        rows.sort(key=lambda row: (row["at"], row["partition"], row["id"]), reverse=True)
        del rows[limit:]
    if format is _ListFormat.JSON:
        write(to_json({"reasons": counts, "records": rows}))
        return
    if not counts:
        write("no record was refused")
        return
    total = [[escaped(name), f"{count:,}"] for name, count in counts.items()]
    write(Table(["reason", "records"], total, frozenset({"records"})).to_text())
    write("")
    cells = [
        [str(row["id"]), row["at"], str(row["place"])]
        + [escaped(row[name][:200]) for name in ("partition", "detail", "raw")]
        for row in rows
    ]
    header = ["id", "at", "place", "partition", "why", "record"]
    write(Table(header, cells, frozenset({"id", "place"})).to_text())


@store_app.command()
def watermark(
    store: StoreArgument,
    reset: Annotated[
        bool,
        typer.Option(
            "--reset",
            help="Forget it: the next records of each partition set it anew. No run may be using "
            "the store.",
        ),
    ] = False,
) -> None:
    """Show the watermark of the label join, and the newest event time of each partition."""
    if reset:
        with _written(store) as units:
            for opened in units:
                with opened.transaction() as connection:
                    _join_watermark(opened.path, connection)
                    reset_watermark(connection)
        write("the watermark is reset: the next records of each partition set it anew")
        return
    with _opened(store) as (opened, connection):
        known = [_join_watermark(opened.path, connection) for _ in each_unit(opened)]
    values = [one.value for one in known if one.value is not None]
    rows: list[list[Any]] = [["(watermark)", min(values, default=None)]]
    for one in known:
        rows += [[name, newest] for name, (newest, _, _) in one.partitions.items()]
    now = wall_time()
    cells = [
        [escaped(str(name)), "-", "-"]
        if moment is None
        else [escaped(str(name)), iso_time(int(moment)), f"{(int(moment) - now) / 1e6:+,.0f}"]
        for name, moment in rows
    ]
    write(Table(["partition", "newest time", "s ahead of the clock"], cells).to_text())


def _join_watermark(path: str, connection: Connection) -> SavedWatermark:
    found = read_watermark(connection)
    if found is None:
        raise StoreError(f"{path}: holds no label join; only a run with [join] has a watermark")
    return found


def _replay(path: str, reason: str | None) -> None:
    marked = cut = 0
    with _written(path) as units:
        known = {name for opened in units for name in reasons(opened.connection)}
        if reason is not None and known and reason not in known:
            raise InputError("--reason", expected=_one_of(list(known)), got=shown(reason))
        for opened in units:
            with opened.transaction() as connection:
                more = mark_for_replay(connection, reason)
            marked, cut = marked + more[0], cut + more[1]
    write(f"{marked:,} records will be read first by the next run")
    if cut:
        say(
            f"{cut:,} cannot be replayed, as they were not kept whole (longer than "
            "quarantine.max_bytes, or joined of two records); send them again"
        )
        if not marked:
            raise typer.Exit(FAILURE)
