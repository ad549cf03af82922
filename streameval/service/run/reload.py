"""The settings that a run adopts while it is running."""

from __future__ import annotations

from typing import Any

import msgspec

from streameval.metrics.registry import find
from streameval.service.config.evaluators import (
    evaluator_of,
    groups_of_alert,
    kept_for,
    predicted_windows,
    retention_of,
    slice_fields,
    with_stored_defaults,
)
from streameval.service.config.settings import (
    RUN_METRICS,
    PredictedMetric,
    RunSettings,
    WindowSettings,
)
from streameval.service.store.fingerprints import changed_settings

_WHILE_RUNNING = (
    *("intervals", "alert", "reference", "webhook", "checkpoint", "quarantine", "serve", "http"),
)


def while_running(now: RunSettings, wanted: RunSettings) -> tuple[RunSettings, list[str]]:
    """The settings that a run can adopt from others, and the keys that require a restart."""
    fixed: dict[str, Any] = {"serve": ("enabled", "listen", "token")}
    given: dict[str, Any] = {}
    for name in _WHILE_RUNNING:
        before, after = getattr(now, name), getattr(wanted, name)
        if name == "http" and (before is None or after is None):
            after = before
        for key in fixed.get(name, ()):
            after = msgspec.structs.replace(after, **{key: getattr(before, key)})
        given[name] = after
    windows = {window.name for window in now.window}
    slices = {frozenset(slice_fields(part)) for part in now.evaluator.slices}
    plan = evaluator_of(now, WindowSettings(name="all")).plan

    def is_kept(metric: str) -> bool:
        return all(plan.serves(state) for state in find(metric, now.evaluator.task).states)

    given["alert"] = [
        alert
        for alert in wanted.alert
        if alert.metric in RUN_METRICS
        or (
            alert.window in (windows | {None})
            and (
                alert.slice in ("any", {})
                or frozenset(groups_of_alert(wanted, alert) or alert.slice) in slices
            )
            and now.evaluator.task == wanted.evaluator.task
            and alert.model in (None, *(now.evaluator.models or ())[1:])
            and all(map(is_kept, kept_for(wanted, alert)))
            and (PredictedMetric.of(alert.metric) is None or bool(predicted_windows(now)))
        )
    ]
    # What a window keeps does not change: where the new settings leave it open, it is as now.
    now = with_stored_defaults(now, {})
    wanted = with_stored_defaults(
        wanted, {window.name: retention_of(now, window) for window in now.window}
    )
    settings = msgspec.structs.replace(now, **given)
    metrics = wanted.evaluator.metrics
    if now.evaluator.task == wanted.evaluator.task and all(map(is_kept, metrics or ())):
        evaluator = msgspec.structs.replace(now.evaluator, metrics=metrics)
        settings = msgspec.structs.replace(settings, evaluator=evaluator)
    return settings, differences(settings, wanted)


def differences(now: RunSettings, wanted: RunSettings) -> list[str]:
    """The keys in which settings differ, without their values, which may be secrets."""
    found = changed_settings("", *(msgspec.to_builtins(one, enc_hook=str) for one in (now, wanted)))
    return [key for key, _, _ in found]
