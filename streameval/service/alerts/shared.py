"""Alerts of a store that several processes serve: one of them judges, the others read."""

from __future__ import annotations

from streameval.service.alerts.rules import AlertReader
from streameval.service.config.settings import RunSettings
from streameval.service.store.postgres import ONE_UNIT

__all__ = ["AlertReader", "alerts_unit"]

ALERTS_UNIT = "alerts"


def alerts_unit(settings: RunSettings) -> str:
    return ONE_UNIT
