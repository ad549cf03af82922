"""The fingerprint of a store: the settings that its counts depend on, and how two differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from streameval.errors import ConfigError, shown

_DEFAULTS = {
    # Their values may come from other settings, which the error has to name.
    "lateness": " (join.wait unless it is set)",
    "retain": " (length and lateness unless it is set)",
}

_NO_DURATIONS = ("max_scores", "interval_sums")


def check_unchanged(path: str, meta: Mapping[str, str], fingerprint: Mapping[str, str]) -> None:
    """Raise ConfigError where a store, which is to be written, has another fingerprint."""
    for change in _differing(meta, fingerprint):
        raise refused_change(path, *change)


def _differing(
    meta: Mapping[str, str], fingerprint: Mapping[str, str]
) -> Iterator[tuple[str, Any, Any]]:
    for key, value in fingerprint.items():
        yield from changed_settings(key, _decoded(meta.get(f"config.{key}")), _decoded(value))


def check_same_run(path: str, meta: Mapping[str, str], fingerprint: Mapping[str, str]) -> None:
    """Raise ConfigError where a store was counted under settings of another fingerprint."""
    for key, was, got in _differing(meta, fingerprint):
        # An older release did not write all of them.
        if f"config.{key.partition('.')[0]}" in meta or f"config.{key}" in meta:
            raise ConfigError(
                f"{key}: {path} is counted with {_worded(key, was)}, got {_worded(key, got)}; "
                "give the configuration of its run, or leave out --config"
            )


def refused_change(path: str, key: str, was: Any, got: Any, remedy: str = "") -> ConfigError:
    """The error about a changed setting on which the counts of a store depend."""
    return ConfigError(
        f"{key}{_DEFAULTS.get(key.rpartition('.')[2], '')}: {path} was begun with "
        f"{_worded(key, was)}, and its counts depend on it; got {_worded(key, got)}; "
        f"put it back, {remedy}or begin a new store with --store"
    )


def changed_settings(key: str, was: Any, got: Any) -> Iterator[tuple[str, Any, Any]]:
    """Every key in which two settings differ, with both values; None for a missing one."""
    if isinstance(was, dict) and isinstance(got, dict):
        for name in {**was, **got}:
            path = f"{key}.{name}" if key else name
            yield from changed_settings(path, was.get(name), got.get(name))
    elif was != got:
        yield key, was, got


def _decoded(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


def _worded(key: str, value: Any) -> str:
    if value is None:
        return "nothing"
    timed = key.startswith("window.") and key.rpartition(".")[2] not in _NO_DURATIONS
    if timed and isinstance(value, int):
        return f"{value / 1_000_000:.15g} s"
    return shown(json.dumps(value))
