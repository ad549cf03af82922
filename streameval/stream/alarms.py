"""The alerts of a run: judged with each snapshot, kept in the store, told in log and webhook."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from streameval.slices import slice_name
from streameval.stream.alerts import AlertBook, Transition, restore_alerts
from streameval.stream.config.settings import RunSettings
from streameval.stream.webhook import Webhook

__all__ = ["Alarms"]

log = logging.getLogger(__name__)


class Alarms:
    """Judges snapshots and tells what has changed.

    Args:
        settings: The run's.
        connection: Of the store.
        webhook: Where transitions are posted to; None: only the log has them.
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
        self._book = AlertBook(settings.alert, settings.window[0].name)
        self._webhook = webhook
        self._now = now
        stored = restore_alerts(self._book, connection)
        self._written = self._state() if stored is None else stored
        for transition in self._book.unsent:
            self._tell(transition)

    def configure(self, settings: RunSettings, webhook: Webhook | None) -> None:
        """Go on under other settings; alerts that are the same stay as they are.

        Args:
            settings: The new ones.
            webhook: Where transitions are posted to from now on; those that the one before
                left undone, which is closed, are posted there.
        """
        if webhook is not self._webhook and self._webhook is not None:
            self._book.settle(self._webhook.settled())
        state = self._book.to_state()
        self._book = AlertBook(settings.alert, settings.window[0].name)
        self._book.restore(state)
        if webhook is not self._webhook:
            self._webhook = webhook
            for transition in self._book.unsent:
                self._tell(transition)

    def judge(self, published: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The alerts' states under a snapshot, as plain data; tells of those that changed."""
        judgement = self._book.judge(self._book.observe(published), self._now())
        for transition in judgement.transitions:
            # What resolves is as much news as what fires.
            level = logging.WARNING if transition.event == "firing" else logging.INFO
            log.log(level, "alert %s", transition.text)
            self._tell(transition)
        if self._webhook is not None:
            self._book.settle(self._webhook.settled())
        return [
            {**msgspec.to_builtins(state), "slice": _slice_text(state.slice)}
            for state in judgement.states
        ]

    def _tell(self, transition: Transition) -> None:
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


def _slice_text(values: Mapping[str, str | int]) -> str:
    return slice_name(tuple(values.items())) if values else ""
