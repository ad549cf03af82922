"""The join of a run, over the run's store."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from streameval.event_time import duration
from streameval.stream.checksums import keep_checksums
from streameval.stream.join.join_report import JOIN_SPANS, JoinSpans
from streameval.stream.join.label_join import LabelJoin
from streameval.stream.records.fields import record_fields
from streameval.stream.settings import RunSettings
from streameval.stream.store import Store

__all__ = ["open_join"]

_COHORT = "1h"


def open_join(settings: RunSettings, store: Store, clock: Callable[[], float]) -> LabelJoin | None:
    """The join as the store has it, or a new one; None without ``[join]``.

    Cohorts are as wide as the shortest pane of a window, so that each point of a
    series has its coverage beside it; an hour without panes.

    Args:
        settings: The run's.
        store: Open for writing.
        clock: Seconds, only ever forward.

    Raises:
        StoreError: What the store holds is damaged, or it cannot be written.
    """
    if settings.join is None:
        return None
    wait = duration(settings.join.wait, "join.wait")
    remember = settings.join.remember
    panes = [window.pane or window.length for window in settings.window if window.length]
    cohorts = [duration(pane, "pane") for pane in panes] or [duration(_COHORT)]
    spans = JoinSpans(wait, min(cohorts))
    with store.transaction() as connection:
        query = "SELECT count(*) FROM sqlite_master WHERE name = 'join_counts'"
        if not connection.execute(query).fetchone()[0]:
            LabelJoin.create(connection)
            keep_checksums(connection)
        # For those who read the counts without the settings.
        store.set_meta(JOIN_SPANS, msgspec.json.encode(spans).decode())
    fields = record_fields(settings.fields, settings.evaluator, join=True).prediction
    with store.reading() as connection:
        return LabelJoin(
            connection,
            layout=[field.column for field in fields if field.column not in ("id", "time")],
            wait_us=wait,
            remember_us=wait if remember is None else duration(remember, "remember", zero=True),
            hot=settings.join.hot,
            cohort_us=spans.cohort,
            clock=clock,
        )
