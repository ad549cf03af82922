"""The join of a run, over the run's store."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from streameval.errors import StoreError
from streameval.event_time import duration
from streameval.stream.checksums import keep_checksums
from streameval.stream.config.evaluators import kind_of_settings, step_of
from streameval.stream.config.settings import EvaluatorSettings, FieldSettings, RunSettings
from streameval.stream.join.join_report import JOIN_SPANS, JoinSpans, read_spans
from streameval.stream.join.label_join import LabelJoin
from streameval.stream.records.fields import record_fields
from streameval.stream.store import Store

__all__ = ["JOIN_LAYOUT", "join_layout", "open_join"]

JOIN_LAYOUT = "run.layout"
"""The key in ``meta`` with the columns of the predictions that wait, in their order."""

_COHORT = "1h"


def join_layout(
    fields: FieldSettings, evaluator: EvaluatorSettings, meta: Mapping[str, str]
) -> list[str]:
    """The columns that a join keeps of a prediction.

    Those that the store has come first and stay where they are, wanted or not: what
    was kept of earlier predictions has these, and nothing of those that follow.
    """
    try:
        kept = msgspec.json.decode(meta.get(JOIN_LAYOUT, "[]"), type=list[str])
    except msgspec.MsgspecError as error:
        raise StoreError(
            f"the columns of waiting predictions are damaged: {error}; restore a copy of the store"
        ) from None
    wanted = record_fields(fields, evaluator, join=True).prediction
    names = [field.column for field in wanted if field.column not in ("id", "time")]
    return list(dict.fromkeys([*kept, *names]))


def open_join(
    settings: RunSettings, store: Store, clock: Callable[[], float], now: Callable[[], int]
) -> LabelJoin | None:
    """The join as the store has it, or a new one; None without ``[join]``.

    Cohorts are as wide as the shortest pane of a window, so that each point of a
    series has its coverage beside it; an hour without panes. They keep the width that
    they have in the store.

    Args:
        settings: The run's.
        store: Open for writing.
        clock: Seconds, only ever forward.
        now: Microseconds since 1970.

    Raises:
        StoreError: What the store holds is damaged, or it cannot be written.
    """
    if settings.join is None:
        return None
    wait = duration(settings.join.wait, "join.wait")
    remember = settings.join.remember
    series = [window for window in settings.window if kind_of_settings(window).widest is not None]
    panes = [pane for window in series for pane in step_of(window).values()]
    cohorts = [duration(pane, "pane") for pane in panes] or [duration(_COHORT)]
    meta = store.meta()
    layout = join_layout(settings.fields, settings.evaluator, meta)
    cohort = min(cohorts)
    if JOIN_SPANS in meta:
        # What is counted by cohorts cannot be cut anew.
        cohort = read_spans(meta[JOIN_SPANS]).cohort
    spans = JoinSpans(wait, cohort)
    with store.transaction() as connection:
        store.set_meta(JOIN_LAYOUT, msgspec.json.encode(layout).decode())
        query = "SELECT count(*) FROM sqlite_master WHERE name = 'join_counts'"
        if not connection.execute(query).fetchone()[0]:
            LabelJoin.create(connection)
            keep_checksums(connection)
        # For those who read the counts without the settings.
        store.set_meta(JOIN_SPANS, msgspec.json.encode(spans).decode())
    with store.reading() as connection:
        return LabelJoin(
            connection,
            layout=layout,
            wait_us=wait,
            remember_us=wait if remember is None else duration(remember, "remember", zero=True),
            hot=settings.join.hot,
            cohort_us=spans.cohort,
            clock=clock,
            now=now,
        )
