"""The alerts of a run: evaluated with each snapshot, stored, logged and posted."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable

import msgspec

from streameval.slices import slice_value
from streameval.stream.alerts import AlertBook, AlertState, Observed, Transition, restore_alerts
from streameval.stream.config.settings import LABEL_COVERAGE, AlertSettings, RunSettings
from streameval.stream.lateness import MOST_LATE
from streameval.stream.snapshot import Snapshot
from streameval.stream.webhook import Webhook

__all__ = ["Alarms", "observe"]

log = logging.getLogger(__name__)


class Alarms:
    """Evaluates alerts with each snapshot; logs and posts their transitions.

    Args:
        settings: The run's.
        connection: Of the store.
        webhook: Where transitions are posted to; None: they are only logged.
        now: Microseconds since 1970.

    Raises:
        StoreError: What the store holds is damaged.
    """

    def __init__(
        self,
        settings: RunSettings,
        connection: sqlite3.Connection,
        webhook: Webhook | None,
        now: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._book = AlertBook(settings.alert, settings.window[0].name)
        self._webhook = webhook
        self._now = now
        stored = restore_alerts(self._book, connection)
        self._written = self._state() if stored is None else stored
        for transition in self._book.unsent:
            self._post(transition)

    def configure(self, settings: RunSettings, webhook: Webhook | None) -> None:
        """Apply other settings; alerts that are the same keep their state.

        Args:
            settings: The new ones.
            webhook: Where transitions are posted to from now on; those that the one before
                left undone, which is closed, are posted there.
        """
        if webhook is not self._webhook and self._webhook is not None:
            self._book.settle(self._webhook.settled())
        state = self._book.to_state()
        self._settings = settings
        self._book = AlertBook(settings.alert, settings.window[0].name)
        self._book.restore(state)
        if webhook is not self._webhook:
            self._webhook = webhook
            for transition in self._book.unsent:
                self._post(transition)

    def judge(self, snapshot: Snapshot) -> list[AlertState]:
        """The alerts' states under a snapshot; logs and posts those that changed."""
        judgement = self._book.judge(observe(self._settings, snapshot), self._now())
        for transition in judgement.transitions:
            level = logging.WARNING if transition.event == "firing" else logging.INFO
            log.log(level, "alert %s", transition.text)
            self._post(transition)
        if self._webhook is not None:
            self._book.settle(self._webhook.settled())
        return judgement.states

    def _post(self, transition: Transition) -> None:
        if self._webhook is None:
            self._book.settle([transition.number])
        else:
            self._webhook.post(transition)

    def _state(self) -> str:
        return msgspec.json.encode(self._book.to_state()).decode()

    @property
    def changed(self) -> bool:
        """Whether the store does not have what is remembered now."""
        return self._state() != self._written

    def write(self, connection: sqlite3.Connection) -> None:
        """Keep what is remembered, inside a transaction."""
        state = self._state()
        if state != self._written:
            connection.execute("INSERT OR REPLACE INTO alerts VALUES ('book', ?)", (state,))
            self._written = state


def observe(settings: RunSettings, snapshot: Snapshot) -> dict[str, Observed]:
    """The values that the alerts are about, by the alert's name."""
    first = settings.window[0].name
    return {
        alert.name: _observed(alert, alert.window or first, snapshot) for alert in settings.alert
    }


def _observed(alert: AlertSettings, window: str, snapshot: Snapshot) -> Observed:
    join = snapshot.join
    about_join = alert.metric == LABEL_COVERAGE
    shares = [row.late for row in snapshot.windows if row.name == window and not about_join]
    late = max([*shares, *([] if join is None else [join.late])], default=0.0)
    if late > MOST_LATE:
        return Observed(None, 0, f"{late:.0%} of the recent records are too late to be counted")
    if about_join:
        if join is None:
            return Observed(None, 0, "not published")
        return Observed(join.coverage, join.mature.predictions, join.coverage_reason)
    if alert.slice:
        wanted = {key: slice_value(value) for key, value in alert.slice.items()}
        for row in snapshot.slices.get(window, ()):
            if row.slice == wanted:
                reason = row.reasons.get(alert.metric, "")
                return Observed(row.metrics.get(alert.metric), row.support, reason)
        return Observed(None, 0, "no event of this slice yet")
    report = snapshot.reports.get(window)
    value = None if report is None else report.metrics.get(alert.metric)
    if value is None:
        return Observed(None, 0, "not published")
    return Observed(value.value, value.support, value.reason)
