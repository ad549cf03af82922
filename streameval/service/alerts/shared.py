"""Alerts of a store that several processes serve: one of them judges, the others read.

Which one, an advisory lock of PostgreSQL decides. Its holder writes the states in the session that
holds the lock, before it posts: when it dies, the server frees the lock, another process continues
with the states as they were written, and posts what had not been posted. A change that was
posted in the moment before its holder died, and not yet noted as posted, is posted again under the
same number.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from streameval.errors import StoreError
from streameval.evaluator.comparison import Evaluation
from streameval.service.alerts.rules import Alerts
from streameval.service.alerts.webhook import Webhook
from streameval.service.config.settings import RunSettings
from streameval.service.publish.snapshot import AlertState, Snapshot
from streameval.service.store.postgres import LockedTables
from streameval.service.store.staged import write_now

log = logging.getLogger(__name__)

ALERTS_UNIT = "alerts"
"""The unit of a shared store with the states of alerts; no worker claims it, or judges alerts."""


@dataclass
class SharedAlerts:
    """Judges the alerts of a shared store while this process holds their lock."""

    path: str
    settings: RunSettings
    evaluators: Mapping[str, Evaluation]
    open_webhook: Callable[[], Webhook | None]
    now: Callable[[], int]
    clock: Callable[[], float]
    _tables: LockedTables | None = None
    _alerts: Alerts | None = None
    _webhook: Webhook | None = None

    def judge(self, snapshot: Snapshot) -> list[AlertState] | None:
        """Judge, write, then post; None where another process holds the lock, or none can."""
        try:
            if self._tables is None:
                self._tables = LockedTables(self.path, ALERTS_UNIT)
            if self._alerts is None and not self._begin(self._tables):
                return None
            assert self._alerts is not None
            states = self._alerts.judge(snapshot, post=False)
            # Also where nothing has changed: the server ends a session that is silent.
            self._tables.execute("SELECT 1")
            write_now(self._alerts, self._tables)
            self._alerts.post()
            return states
        except StoreError as error:
            log.warning("alerts are left to another process: %s", error)
            self._give_up(post=False)
            return None

    def _begin(self, tables: LockedTables) -> bool:
        if not tables.locked():
            return False
        log.info("this process judges the alerts from now on")
        self._webhook = self.open_webhook()
        # Posts what the former holder has written and not posted.
        self._alerts = Alerts(
            self.settings, tables, self._webhook, self.evaluators, self.now, self.clock
        )
        return True

    def close(self) -> None:
        """Post what waits, write, and free the lock."""
        webhook, self._webhook = self._webhook, None
        if webhook is not None:
            webhook.close()
        if self._alerts is not None and self._tables is not None and webhook is not None:
            try:
                self._alerts.discard(webhook.finished())
                write_now(self._alerts, self._tables)
            except StoreError as error:
                log.warning("alerts that were posted may be posted again: %s", error)
        self._give_up(post=True)

    def _give_up(self, *, post: bool) -> None:
        if self._webhook is not None:
            self._webhook.close(post=post)
        if self._tables is not None:
            self._tables.close()
        self._tables = self._alerts = self._webhook = None
